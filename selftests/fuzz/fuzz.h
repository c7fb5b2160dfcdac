/* SPDX-License-Identifier: GPL-2.0 */
/*
 * gpumem-fuzz: a coverage-guided fuzzer of the kernel interface.
 *
 * A *program* is a sequence of typed *calls*: ioctls, mmap() and accesses to the mapping, entries of a
 * ring, and other system calls (dup, close, lseek, reads of sysfs and fdinfo, netlink requests).  An
 * argument may refer to a *resource* that an earlier call made (enum res).  The reference is the
 * number of that call in the program, so a mutated program still passes valid handles.  A call with
 * @async runs in a second thread, while the calls after it run.
 *
 *	calls.c		the table of calls, and likely values of each kind of argument
 *	prog.c		making and changing programs
 *	text.c		programs as text, one call a line
 *	exec.c		the executor: the child process that runs programs
 *	cover.c		KCOV, and sets of signals
 *	main.c		the loop: corpus, minimisation, statistics, verdict
 *
 * A run yields a set of *signals*.  A signal is a block of the module that was executed (if the module
 * was built with GPUMEM_KCOV=1 and the kernel has KCOV), a pair of call and errno, or the error of a
 * stream's ring.  main.c minimises a program that yields a new signal and adds it to the corpus.  It
 * adds a program of the corpus directory (-c) without minimising it.
 *
 * The fuzzer fails if the kernel becomes tainted or lockdep turns itself off.  It prints the programs
 * that ran last.  It kills and counts a program that hangs, which is no failure.
 */
#ifndef GPUMEM_FUZZ_H
#define GPUMEM_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/util.h"

#define MAX_CALLS	32
#define MAX_ARGS	12
#define MAX_SIGNALS	8192

/* Kinds of resources.  A call makes up to two, and an argument refers to one. */
enum res {
	R_NONE, R_CLIENT, R_BO, R_VM, R_STREAM, R_TIMELINE, R_EVENT, R_POOL, R_TOKEN_ID, R_TOKEN,
	R_DMABUF, R_POOL_FD, R_CHANNEL, R_TIMELINE_FD, R_CHUNK, R_MAP,
};

/* Kinds of arguments. */
enum kind {
	/* reference to a resource */
	K_CLIENT, K_BO, K_VM, K_STREAM, K_TIMELINE, K_EVENT, K_POOL, K_TOKEN, K_DMABUF, K_POOL_FD, K_CHANNEL,
	K_TIMELINE_FD, K_CHUNK, K_MAP, K_ANY_ID, K_ANY_FD,
	/* number; K_MEMORY may refer to a mapping instead */
	K_FLAGS, K_DEVICE, K_DEVICES, K_LENGTH, K_ALLOC, K_OFFSET, K_ADDR, K_MEMORY, K_VALUE,
	K_DEADLINE, K_ENTRIES, K_PRIORITY, K_ZERO, K_OP, K_ELEM, K_PROT, K_SHARED, K_ADVICE,
	K_SMALL,
};

/* How the executor runs a call.  W_IOCTL passes the structure that the table describes. */
enum what {
	W_IOCTL, W_OPEN, W_DUP, W_CLOSE, W_MMAP, W_MUNMAP, W_MREMAP, W_MPROTECT, W_MADVISE,
	W_READ, W_WRITE, W_SQE, W_TAIL, W_DMA_MMAP, W_DMA_SYNC, W_SYNC_FILE, W_PRIME, W_LSEEK,
	W_FDINFO, W_SYSFS, W_UNKNOWN, W_CHANNEL, W_NOTICE, W_NETLINK,
};

struct arg_spec {
	const char *name;
	enum kind kind;
	unsigned int offset, bytes;	/* place in the structure; unused for args[0], the descriptor */
	uint64_t mask;			/* valid flags, of K_FLAGS only */
};

struct call_spec {
	const char *name;
	enum what what;
	unsigned long request;
	unsigned int size;
	struct arg_spec args[MAX_ARGS];
	enum res makes[2];
	unsigned int makes_at[2];	/* place of the result in the structure */
	unsigned int weight;		/* how often random programs have the call */
};

extern const struct call_spec specs[];
extern const unsigned int spec_count;

unsigned int args_of(const struct call_spec *spec);
bool kind_takes(enum kind kind, enum res res);
bool kind_is_resource(enum kind kind);
uint64_t some_value(struct rng *r, const struct arg_spec *spec);

/* How the executor passes the structure of an ioctl. */
enum pass {
	PASS_WELL,	/* as it should be */
	PASS_NULL,	/* as a NULL pointer */
	PASS_CUT,	/* with its second half in a page that is not mapped */
	PASS_RDONLY,	/* in a page that is read only */
	PASS_TAIL,	/* longer than the kernel knows, and not zero there */
	PASS_KINDS,
};
extern const char * const pass_names[PASS_KINDS];

struct arg {
	int ref;		/* number of the call that made the resource; -1: @value */
	unsigned int slot;	/* index in that call's makes[] */
	uint64_t value;
};

struct call {
	unsigned int kind;	/* index in specs[] */
	bool async;
	enum pass pass;
	unsigned int size;	/* value of the structure's size; 0: call_spec.size */
	struct arg args[MAX_ARGS];
};

struct prog {
	unsigned int n;
	struct call calls[MAX_CALLS];
};

void prog_random(struct rng *r, struct prog *p);
void prog_mutate(struct rng *r, struct prog *p, const struct prog *other);
void prog_remove(struct prog *p, unsigned int at);

void prog_print(FILE *f, const struct prog *p);
/* Return false if @f has no valid program.  Errors of syntax are printed to stderr. */
bool prog_parse(FILE *f, const char *name, struct prog *p);

/* --- the executor, a child process */

struct shared {
	struct prog prog;
	int result[MAX_CALLS];			/* 0 or a negative errno */
	unsigned int signals;
	uint32_t signal[MAX_SIGNALS];
	char broken[128];			/* message if the executor could not start the run */
};

/*
 * The executor's loop: run @s->prog for each byte read from @in, then write a byte to @out.  Does not
 * return; exits when @in is closed.
 */
void executor(struct shared *s, int in, int out);
/* Check that /dev/gpumem0 can be opened.  Return NULL, or what is missing. */
const char *executor_prepare(void);

/* --- coverage */

struct trace {
	int fd;
	uint64_t *area;
};

/* Find the module's text.  Return false if the module is not loaded or the kernel has no KCOV. */
bool cover_init(void);
/* Map a KCOV buffer for the thread that will call trace_on().  Return false without KCOV. */
bool trace_open(struct trace *t);
void trace_on(struct trace *t);
/*
 * Append each block traced since the last call, once, to @out, which has @have signals.  Empty the
 * trace.  Return the new number of signals.
 */
unsigned int trace_take(struct trace *t, uint32_t *out, unsigned int have);
/* Trace the workers that run the streams of this process and its children. */
bool trace_remote(struct trace *t);

/* A block's signal is its offset in the module's text. */
#define SIGNAL_ERRNO(kind, error)	(0x80000000U | (kind) << 12 | (error))
#define SIGNAL_STREAM(error)		(0xc0000000U | (error))
#define SIGNAL_IS_BLOCK(s)		(!((s) & 0x80000000U))

/* Print a signal; a block's as "section offset". */
void signal_print(FILE *f, uint32_t signal);

/* A hash set.  A slot has a member's value plus 1, or 0 if it is free; @room is a power of two. */
struct set {
	uint32_t *slot;
	size_t room, n;
};

bool set_add(struct set *s, uint32_t v);	/* true: @v is new */
bool set_has(const struct set *s, uint32_t v);

#endif
