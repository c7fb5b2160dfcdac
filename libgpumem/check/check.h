/* SPDX-License-Identifier: MIT */
/*
 * check: the checker, a library of its own behind the tap (core/tap.h).
 *
 * GPUMEM_CHECK=1 makes cuInit() load it. It models what the program's calls do to memory, and in which order:
 * exact happens-before by vector clocks. Documentation/checker.rst has the rules. It includes core/tap.h and the
 * public headers only, and calls no function of the driver but those of struct tap_client.
 *
 * Words
 *
 *   actor       who does operations: a stream, or the host. All threads of the process are one host
 *   clock       for each actor, how many of its operations come before (clock.c)
 *   operation   what a call does to memory, in the order of an actor
 *   step        what a stream does next: an operation, a record of an event, a wait (step.c, waiting.c)
 *   memory      an allocation, a registration, a mapping or an array (memory.c)
 *   shadow      for each byte of a memory: its last write, its reads since, and whether it was ever written (shadow.c)
 *
 * One lock, check_lock, protects all of it. Functions need the lock unless their comment says otherwise.
 */
#ifndef GPUMEM_CHECK_CHECK_H
#define GPUMEM_CHECK_CHECK_H

#include <pthread.h>
#include <stddef.h>

#include "core/tap.h"

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)

struct actor;
struct memory;
struct stack;

/* ---- options (check.c): constant after the start */

enum check_format { FORMAT_TEXT, FORMAT_JSON, FORMAT_SARIF };

struct options {
	bool abort;			/* GPUMEM_CHECK=abort: end the process at the first report */
	bool log_only;			/* GPUMEM_CHECK=log: reports do not change the exit status */
	bool strict;			/* GPUMEM_CHECK=strict: report what polling may have ordered, too */
	bool stacks;			/* GPUMEM_CHECK_STACKS is not 0 */
	bool leaks;			/* GPUMEM_CHECK_LEAKS is not 0 */
	int exit;			/* GPUMEM_CHECK_EXIT, or 66 */
	const char *log;		/* GPUMEM_CHECK_LOG, or NULL */
	enum check_format format;	/* by the name of @log */
};

extern struct options options;
extern const struct tap_client *driver;
extern pthread_mutex_t check_lock;

void options_read(void);

/* Structures of one size that are kept for the next use. */
struct spares {
	void *first;
};

/* A structure whose bytes are zero, or NULL. */
void *spare_take(struct spares *spares, size_t bytes);
void spare_give(struct spares *spares, void *spare);
/* A structure that was given, with any bytes; NULL: there is none. */
static inline void *spare_pop(struct spares *spares)
{
	void *spare = spares->first;

	if (spare)
		spares->first = *(void **)spare;
	return spare;
}

/* ---- stacks (stack.c) */

/* Find the unwinder. Called once, without the lock. */
void stacks_start(void);
/* The calling thread's stack, from the program's call on; NULL without stacks. */
struct stack *stack_here(void);
uint32_t stack_hash(const struct stack *stack);

struct frame {
	const char *function;		/* or NULL */
	const char *file;		/* or NULL */
	const char *object;		/* the library or program, or NULL */
	int line;			/* 0: not known */
	uintptr_t address;
};

/* Call @each for the frames of the program, innermost first. False from @each ends the walk. */
void stack_walk(const struct stack *stack, bool (*each)(const struct frame *frame, void *arg), void *arg);

/* ---- clocks and actors (clock.c) */

struct clock {
	unsigned int count;
	unsigned int room;
	uint64_t *times;
	uint64_t lost;			/* the highest loss that it comes after, or 0 (see below) */
};

/* Make @to come after @from. True if that changed @to. */
bool clock_join(struct clock *to, const struct clock *from);
void clock_copy(struct clock *to, const struct clock *from);
/* Make @to come after what both come after, and no more. */
void clock_meet(struct clock *to, const struct clock *from);
/* Exchange times, so that @high comes after @low. */
void clock_sort(struct clock *low, struct clock *high);
void clock_free(struct clock *clock);
/* Whether operation @time of the actor in @slot comes before. */
static inline bool clock_covers(const struct clock *clock, unsigned int slot, uint64_t time)
{
	return slot < clock->count && clock->times[slot] >= time;
}

enum actor_kind { ACTOR_HOST, ACTOR_LEGACY, ACTOR_BLOCKING, ACTOR_FREE };

struct context {
	const void *key;
	struct clock barrier;		/* default streams that are made later come after this */
	unsigned int number;		/* for people */
	struct actor *stepped;		/* blocking ones that stepped since the legacy stream did; a reference each */
	struct actor *legacy;		/* or NULL */
	struct context *next;
};

struct actor {
	enum actor_kind kind;
	unsigned int refs;
	unsigned int slot;
	uint64_t id;			/* cuStreamGetId() */
	char name[48];
	const void *key;
	struct context *context;	/* NULL: the host */
	struct stack *made;
	struct clock clock;
	uint64_t host_seen;		/* version of the host's clock that was joined last */
	uint64_t legacy_seen;		/* time of the legacy stream that was joined last */
	bool stepped;			/* is in context->stepped */
	unsigned int waiting;		/* steps that have not run */
	unsigned int publishes;		/* of these, what other processes may wait for */
	struct step *first, *last;	/* of these */
	struct actor *next_waiting, **link_waiting;	/* while there are some */
	uint64_t loss;			/* number of its loss, or 0 */
	struct actor *next_loss;
	bool created, gone;
	struct actor *next;		/* in the table of keys */
	struct actor *next_stepped;
};

extern struct actor host;

/* The context of a stream; NULL: of none. */
static inline const void *actor_context(const struct actor *actor)
{
	return actor && actor->context ? actor->context->key : NULL;
}

static inline uint64_t actor_time(const struct actor *actor)
{
	return actor->clock.times[actor->slot];
}

void actors_start(void);
/* The actor of a stream handle; NULL: no such stream. */
struct actor *actor_of(CUstream handle, bool own);
/* Forget a stream that was destroyed. Its key may be used again. */
void actor_end(struct actor *actor);
/* The stream that had this handle and was destroyed last, or NULL. */
const struct actor *actor_ended(CUstream handle);
struct actor *actor_hold(struct actor *actor);
void actor_drop(struct actor *actor);
/* Call @each for all actors of a context, and destroyed ones of which the host does not know all; NULL: of all contexts. */
void actors_each(const void *context, void (*each)(struct actor *actor, void *arg), void *arg);
/* A context ended: end its actors. */
void context_end(const void *context);
/* All work of the context, now and later, comes before or after @clock: the actors join it. */
void context_after(const void *context, const struct clock *clock);
/*
 * Begin an operation: join what comes before it by rules of streams, and count it. @late: it was submitted before what
 * the host knows now.
 */
void actor_step(struct actor *actor, bool late);
/* Whether the host knows all that comes before @clock. */
bool clock_known(const struct clock *clock);
/* Whether the host knows all operations of an actor, and so all that they come after. */
bool host_knows(const struct actor *actor);
/* The host knows what comes before @clock. */
void host_join(const struct clock *clock);
/* The host knows all that has run. */
void host_join_all(void);
/* The host does an operation. */
void host_step(void);

/*
 * Losses: an actor is lost when one of its waits is forgotten. From then on the checker does not know what comes before
 * its operations, nor before what comes after them in other actors. Clocks carry the number of the loss. Operations
 * with such a clock are not compared. A loss is over when the program has synchronized with the actor itself, and those
 * before it are over. The host then comes after all that has run, and a clock that carries the loss comes after what the
 * host knew when the latest loss was over.
 */
extern uint64_t losses_over;		/* losses up to this one are over */
/* A wait of an actor is forgotten. */
void actor_lose(struct actor *actor);
/* The host knows all operations of an actor. */
void actor_known(struct actor *actor);
/* Whether the checker does not know what comes before @clock. */
static inline bool clock_lost(const struct clock *clock)
{
	return clock->lost > losses_over;
}

/* What a CPU that polls memory may have seen, or another process that waited for an event. */
extern struct clock polled;

/* ---- operations */

enum op_kind { OP_ACCESS, OP_ALLOC, OP_FREE };

#define WORD_MOST	8u		/* bytes */

/* WORD_COPY: a copy or fill of at most WORD_MOST bytes, in one row. */
enum word_kind { WORD_WRITE, WORD_WAIT, WORD_COPY };

/* How an operation uses a word. */
struct word_use {
	enum word_kind kind;
	bool known;			/* @value is what is written or waited for */
	unsigned int bytes, flags;
	uint64_t addr, value;
};

struct op {
	unsigned int refs;
	const char *call;		/* constant */
	struct stack *stack;
	struct actor *actor;		/* a reference */
	unsigned int slot;
	uint64_t time;
	enum op_kind kind;
	struct word_use *word;		/* its own; or NULL: it uses more than a word */
};

struct op *op_new(const char *call, struct stack *stack, struct actor *actor, enum op_kind kind);
static inline struct op *op_hold(struct op *op)
{
	op->refs++;
	return op;
}
void op_drop(struct op *op);

/* ---- memory (memory.c) and its shadow (shadow.c) */

enum memory_kind {
	MEMORY_DEVICE, MEMORY_POOL, MEMORY_HOST, MEMORY_REGISTERED, MEMORY_MANAGED, MEMORY_MAPPED,
	MEMORY_IMPORTED, MEMORY_ARRAY,
};

struct memory {
	uint64_t base, size;
	enum memory_kind kind;
	bool open;			/* the CPU, or another process or driver, can write it */
	bool host;			/* host or managed memory, for the rules of synchronous copies */
	bool sync;			/* its synchronous copies and fills are done when they return: SYNC_MEMOPS */
	bool dead;			/* freed: its bytes may be gone */
	unsigned int opens;		/* of imported memory: how often more than once */
	struct op *born;
	struct op *freed;		/* or NULL */
	const void *context;
	const void *pool;		/* that it was allocated from or imported from, as the call names it; or NULL */
	uint64_t row, rows;		/* of an array: bytes of a row, rows of a slice */
	unsigned int element;		/* of an array: bytes */
	bool level;			/* of a mipmapped array */
	bool kept;			/* the program says that it is no leak */
	struct page **pages;		/* NULL: as the memory was born */
	uint64_t writes;		/* accesses that wrote */
	bool reported;			/* that it was unmapped */
	struct op *queued;		/* the last asynchronous use, if mapped_queued() is to look at it; or NULL */
	/*
	 * Of pinned memory: a number of the file that is mapped there, or 0. It is made of device and inode. If two
	 * files have one number, a report is missed.
	 */
	uint64_t file;
	struct memory *next_queued, **link_queued;
	unsigned int refs;
	struct memory *next;		/* of arrays */
};

/* Whether it is memory that the CPU should leave alone while queued work reads it. */
static inline bool memory_is_pinned(const struct memory *memory)
{
	return memory->kind == MEMORY_HOST || memory->kind == MEMORY_REGISTERED;
}

/* Copy bytes of the process, which may not be there: how many are. */
size_t memory_read(void *to, uint64_t addr, size_t bytes);

/* Bytes of a memory, or pageable memory. */
struct span {
	struct memory *memory;		/* a reference; NULL: pageable memory */
	uint64_t at;			/* offset, or address */
	uint64_t pitch, slice;		/* bytes from row to row, from slice to slice */
};

struct box {
	uint64_t width, height, depth;	/* bytes, rows, slices */
};

struct memory *memory_add(enum memory_kind kind, uint64_t base, uint64_t size, struct op *born);
/* The memory at an address, or NULL. */
struct memory *memory_at(uint64_t addr);
/* The memory with this first address and one of the kinds (a bit each), or NULL. */
struct memory *memory_exact(uint64_t base, unsigned int kinds);
/* The memory that was at an address and was freed last, or NULL. */
struct memory *memory_freed_at(uint64_t addr);
/* Memory that ends where a range begins, or that begins in it; NULL. */
struct memory *memory_beside(uint64_t addr, uint64_t bytes);
/* Remove a memory; takes the reference to @op. */
void memory_remove(struct memory *memory, struct op *op);
/* memory_remove(), but the shadow stays until the last reference is dropped, or shadow_free(). */
void memory_retire(struct memory *memory, struct op *op);
struct memory *memory_hold(struct memory *memory);
void memory_drop(struct memory *memory);
void memories_each(void (*each)(struct memory *memory, void *arg), void *arg);
const char *memory_name(const struct memory *memory);

struct conflict {
	struct op *other;		/* not ordered before; a reference, or NULL */
	bool wrote;			/* the other operation wrote, or allocated */
	uint64_t at, bytes;		/* offset of the first byte, and length */
};

/* What an access finds. */
struct finding {
	struct conflict race;		/* other is NULL: none */
	uint64_t unwritten_at, unwritten;	/* bytes that nobody wrote; unwritten is 0: none */
};

/* Read or write bytes in the order of @op, whose actor's clock is @clock. */
void shadow_access(const struct span *span, const struct box *box, struct op *op, const struct clock *clock,
		   bool write, struct finding *finding);
/* shadow_access() of both ends of a copy: bytes of the destination are written if the source's are. */
void shadow_copy(const struct span *dst, const struct span *src, const struct box *box, struct op *op,
		 const struct clock *clock, struct finding *wrote, struct finding *read);
/* Find a use of a memory that @clock does not cover. @born: its allocation counts, if there is no other. */
void shadow_uses(struct memory *memory, const struct clock *clock, bool born, struct conflict *conflict);
/* Bytes count as written from now on. */
void shadow_written(struct memory *memory, uint64_t at, uint64_t bytes);
/* Whether a write to the first row of a span is not covered by @clock. */
bool shadow_pending(const struct span *span, uint64_t bytes, const struct clock *clock);
/* All bytes count as written from now on. */
void shadow_open(struct memory *memory);
void shadow_free(struct memory *memory);

/* ---- external semaphores (semaphore.c) */

#define SEMAPHORE_RANKS	64u

struct semaphore {
	unsigned int refs;
	bool counts;			/* binary */
	bool shared;			/* another process may have it */
	bool unidentified;		/* without a number: another handle may name it, or it is a fence */
	uint64_t number;		/* the kernel's; 0: not known, or never exported */
	uint64_t first, top;		/* the rank that it began with, and the highest one that was signalled */
	uint64_t taken;			/* binary: waits so far */
	struct clock all;		/* of all signals */
	unsigned int count;
	struct {
		uint64_t rank;
		struct clock clock;	/* what a wait of this rank comes after */
	} rank[SEMAPHORE_RANKS];	/* the highest ones */
};

/* What comes before signals of shared semaphores and before records of events that other processes have. */
extern struct clock published;

/* A semaphore was made. @value: what it begins with. */
void semaphore_made(uint64_t handle, bool binary, uint64_t value);
/* A semaphore was imported, or exported. @number: of semaphore_number(). */
void semaphore_imported(uint64_t handle, bool binary, uint64_t number);
void semaphore_exported(uint64_t handle, uint64_t number);
void semaphore_remove(uint64_t handle);
/* The kernel's number of the semaphore that a descriptor is of, or 0. */
uint64_t semaphore_number(int fd);
/* The semaphore with a handle, or NULL. */
struct semaphore *semaphore_of(uint64_t handle);
struct semaphore *semaphore_hold(struct semaphore *semaphore);
void semaphore_drop(struct semaphore *semaphore);
/* A signal with this clock has run. */
void semaphore_signal(struct semaphore *semaphore, uint64_t value, const struct clock *clock);
/* What a wait of a rank comes after, if a signal that ends it has run; NULL: nothing. */
const struct clock *semaphore_clock(const struct semaphore *semaphore, uint64_t rank);

/* ---- steps (step.c) */

struct version;				/* one record of an event */

enum step_kind {
	STEP_ACCESS,			/* box of dst, box of src */
	STEP_ALLOC, STEP_FREE, STEP_RECORD, STEP_WAIT, STEP_WRITE_VALUE, STEP_WAIT_VALUE, STEP_HOST,
	STEP_SIGNAL, STEP_AWAIT,	/* external semaphores, and events that other processes have */
};

struct step {
	enum step_kind kind;
	struct actor *actor;		/* a reference */
	struct op *op;			/* a reference, or NULL */
	struct span dst, src;		/* STEP_ACCESS; dst: STEP_*_VALUE, too */
	bool writes, reads;		/* STEP_ACCESS: which end there is */
	bool known;			/* STEP_ACCESS of a fill: @value is what it writes */
	struct box box;
	struct memory *memory;		/* STEP_ALLOC, STEP_FREE: a reference */
	struct version *version;	/* STEP_RECORD, STEP_WAIT: a reference */
	struct semaphore *semaphore;	/* STEP_SIGNAL, STEP_AWAIT: a reference; NULL: an event that other processes have */
	uint64_t addr;			/* STEP_*_VALUE */
	uint64_t value;			/* ... and STEP_SIGNAL; STEP_AWAIT: the rank, or 0: a signal was seen */
	unsigned int flags, bytes;	/* STEP_WAIT_VALUE */
	bool forced;			/* a wait: something that the checker did not see satisfied it */
	const void *function, *arg;	/* STEP_HOST; @addr is the handle of the stream */
	struct clock submitted;		/* of the host; of a step that had to wait */
	/* A step that waits (waiting.c) */
	uint64_t number;		/* in the order of submission */
	bool publishes;			/* counts in actor->publishes */
	uint64_t parked_key;		/* of what it waits for */
	struct step *next, **link;	/* in the list of all of them */
	struct step *next_of_actor;
	struct step *next_parked, **link_parked;
	struct step *next_source, **link_source;
	struct step *next_ready;
};

/* A step of an actor; NULL: no memory. */
struct step *step_new(enum step_kind kind, struct actor *actor);
/* Drop a step that was not submitted. */
void step_free(struct step *step);
/* Run a step whose turn it is. */
void step_run(struct step *step);
/* Whether a signal that ends a wait has run. */
bool await_signalled(const struct step *await);
/* Whether another process may end a wait. */
static inline bool await_shared(const struct step *await)
{
	return !await->semaphore || await->semaphore->shared;
}

/* ---- steps that wait (waiting.c) */

/* Run a step, or keep it until it can run. Takes all of its references. */
void step_submit(struct step *step);
/* What steps wait for, or blocks them, has changed: a semaphore, a version, an address, an actor. */
void steps_wake(uint64_t key);
/* Other processes may wait for a semaphore or a version from now on. */
void steps_published(const void *key);
/* A host function that waits in its stream has run. False: there is none. */
bool steps_host_ran(uint64_t handle, const void *function, const void *arg);
/* Come after all that another process may have waited for. */
void join_published(struct clock *clock);
/* The program knows that an actor's steps are done: run them. */
void steps_settle(struct actor *actor);
void steps_settle_all(void);
/* The host knows that an event of another process is done. */
void published_known(void);
/* The host knows that waits are over which the checker has forgotten. */
void losses_known(void);
/* A host function runs, or was left out. */
void step_host_ran(uint64_t handle, const void *function, const void *arg);
/* Steps after which something that the checker does not see may have written host memory. */
extern struct clock outside;

/* ---- words that streams write and wait for (word.c) */

/* A stream writes a value. */
void word_written(uint64_t addr, uint64_t value, const struct actor *actor);
/* An access wrote bytes: remember the write of a word, which streams may wait for, and of words that streams use. */
void words_written(const struct step *step, uint64_t base);
/* The clock of the write that a wait comes after, or NULL. @before: of the wait. */
const struct clock *word_awaited(const struct step *wait, const struct clock *before);
/* Whether a value ends a wait. */
bool word_satisfies(const struct step *wait, uint64_t value);
/* Whether a CPU may read or write the word. */
bool word_polled(uint64_t addr);
/* The words of memory that is freed. */
void words_forget(const struct memory *memory);
/* Say how an operation uses a word. */
void word_use(struct op *op, enum word_kind kind, uint64_t addr, unsigned int bytes, bool known, uint64_t value,
	      unsigned int flags);
void word_use_free(struct word_use *use);
static inline bool word_use_same(const struct word_use *a, const struct word_use *b)
{
	return a->addr == b->addr && a->bytes == b->bytes && a->known == b->known && a->value == b->value &&
		a->flags == b->flags;
}

/* Whether two accesses that are not ordered, and of which one writes, are a race. @other has run first. */
bool word_race(const struct op *op, const struct clock *clock, bool write, const struct op *other, bool wrote);

/* ---- events (event.c) */

struct event {
	uint64_t key;
	bool passed;			/* other processes may have it */
	struct stack *made;
	const void *context;
	struct version *version;	/* of the last record, or NULL */
	struct event *next;
};

struct version {
	unsigned int refs;
	bool done;			/* the step has run */
	bool passed;			/* another process may wait for it, and then tell the program, or signal */
	struct actor *actor;		/* a reference */
	struct clock clock;
};

struct event *event_of(CUevent handle);
struct event *event_add(CUevent handle);
void event_remove(struct event *event);
const struct stack *event_ended(CUevent handle, const char **call);
void events_each(void (*each)(struct event *event, void *arg), void *arg);
void version_drop(struct version *version);

/* ---- the program's mistakes (report.c) */

enum report_kind {
	REPORT_RACE, REPORT_BEFORE_ALLOC, REPORT_FREE_UNORDERED, REPORT_USE_AFTER_FREE, REPORT_OUT_OF_BOUNDS,
	REPORT_DOUBLE_FREE, REPORT_INVALID_FREE, REPORT_UNMAP, REPORT_NO_ACCESS, REPORT_INVALID_HANDLE,
	REPORT_WRONG_CONTEXT, REPORT_UNINITIALIZED, REPORT_LEAK, REPORT_HOST_WRITE, REPORT_HOST_UNMAPPED,
};

struct report_stack {
	char title[160];
	const struct stack *stack;
};

struct report {
	enum report_kind kind;
	char title[320];
	char detail[320];		/* the missing edge in words, or "" */
	unsigned int stacks;
	struct report_stack stack[4];
};

void report_begin(struct report *report, enum report_kind kind, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void report_detail(struct report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));
void report_stack(struct report *report, const struct stack *stack, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Print it, unless it is suppressed or was printed before. */
void report_end(struct report *report);
/* Write the log. */
void reports_finish(void);
/* Reports so far. Needs no lock. */
unsigned int reports_count(void);

/* Whether the program may have learned by polling that an operation is done. */
bool maybe_polled(const struct op *op);
/* Reports of findings (findings.c). */
void found_race(const struct op *op, const struct memory *memory, bool write, const struct conflict *conflict);
void found_unwritten(const struct op *op, struct memory *memory, uint64_t at, uint64_t bytes);
void found_unordered_free(const struct op *op, const struct memory *memory, const struct conflict *conflict);

/* ---- pinned memory that queued work reads (pinned.c) */

/* An asynchronous operation reads pinned memory. @read: the calling thread has just read the bytes. */
void pinned_read(const struct span *span, const struct box *box, struct op *op, bool read);
/* The host's clock moved on: compare what is done. @changed: the program may have changed it since, so do not report. */
void pinned_compare(bool changed);

/* ---- host memory that the program unmapped (mapped.c) */

/* Called once, without the lock. */
void mapped_start(void);
/* Whether pages are mapped at all bytes: 0, or an error. */
int unmapped(uint64_t addr, uint64_t bytes);
/* Pinned memory was made. */
void mapped_born(struct memory *memory);
/* An asynchronous operation uses pinned or registered memory. */
void mapped_used(struct memory *memory, struct op *op);
/* The program waits for work: look at the memory that asynchronous operations use, before the host's clock moves on. */
void mapped_queued(void);
/* The host's clock moved on: forget what the host knows to be done. */
void mapped_done(void);
/* The memory is freed. */
void mapped_unused(struct memory *memory);
/* Look at one memory, or at all pinned and registered memory. */
void mapped_look(struct memory *memory);
void mapped_look_all(void);

/* ---- calls (call_*.c) */

struct call {
	const char *name;		/* without _ptds and _ptsz */
	bool own;			/* stream 0 is the calling thread's own */
	bool nested;			/* another call of the thread has begun inside it */
	unsigned int count;
	uint64_t value[TAP_VALUES];
	CUresult result;
	struct stack *stack;
};

/* Model an allocation and a free that were not reported when they happened. */
void pair_happened(const struct tap_pair *pair);

struct call_type {
	const char *name;
	void (*before)(struct call *call);	/* or NULL; the call has not begun */
	void (*after)(struct call *call);	/* or NULL; result is set */
};

extern const struct call_type calls_memory[], calls_copy[], calls_stream[];

/* The copies of a batch, for batch_compare() (batch.c), which reports two that touch the same bytes. */
struct batch {
	uint64_t count;
	const CUdeviceptr *dst, *src;
	const size_t *size;
	/* Whether the source of a copy is read before the call returns. */
	bool (*early)(const struct batch *batch, uint64_t copy);
	const CUmemcpyAttributes *attributes;
	const size_t *indices;		/* of the first copy of each element of attributes */
	uint64_t attribute_count;
};

void batch_compare(const struct call *call, const struct batch *batch);
/* The operation of a host call. */
struct op *call_op(const struct call *call, struct actor *actor, enum op_kind kind);
/* A step with the operation of a call; NULL: no memory. */
struct step *call_step(const struct call *call, struct actor *actor, enum step_kind step_kind, enum op_kind op_kind);
/* The actor of the stream that is the call's argument @index; -1: the default stream. NULL: no such stream. */
struct actor *call_actor(const struct call *call, int index);
/* Report a stream that was destroyed, if a call failed for that reason. */
void stream_invalid(const struct call *call, int index);
/*
 * Report why a call that failed was refused, if the checker knows. @context: whose device needs access to the memory,
 * or NULL.
 */
void call_failed(const struct call *call, const void *context, uint64_t addr, uint64_t bytes);
/* The host waited for all work of the actor. */
void host_waited(struct actor *actor);
/* Things other than memory, streams and events that a program gives back: by what they are, and a handle. */
void object_add(const char *what, uint64_t key, const struct call *call);
void object_remove(const char *what, uint64_t key);
/* Descriptors of exports (exports.c). */
void export_add(const char *what, int fd, const struct call *call);
void export_forget(int fd);
/* Call @each for those that are still open. */
void exports_open(void (*each)(const char *what, const char *call, const struct stack *stack));
/* All memory, pools, streams and events that the program did not give back. @context: of one that ends, or NULL. */
void leaks_report(const void *context);
/* Forget the memory of a context that ends. */
void memories_forget(const void *context);

#endif /* GPUMEM_CHECK_CHECK_H */
