// SPDX-License-Identifier: MIT
/*
 * Attachments of managed memory, in processes that have an exclusive device.
 *
 * An exclusive device reports CONCURRENT_MANAGED_ACCESS 0 (module parameter concurrent_managed): the CPU must
 * not access managed memory while streams of the device may use it. Which streams these are is the memory's
 * attachment:
 *
 *   global	all streams of all exclusive devices
 *   host	none; the library refuses copies and fills by exclusive devices (ALLOC_HOST_ONLY)
 *   single	one stream, if its device is exclusive, else none
 *
 * Memory with the same attachment forms a set. While a set is busy, that is, while one of its streams has work
 * that is not done, the CPU's access to the set's memory is withdrawn: its pages have no rights in the process,
 * so an access raises SIGSEGV, and a system call returns EFAULT. The engine reaches the memory by the devices'
 * address space. ring_kick() withdraws access when a queue gets entries. Only the first submission after the set
 * was idle changes mappings, because then the set's list "granted" is empty.
 *
 * Costs: each submission to a queue of an exclusive device takes the lock of its context's active queues. When a set
 * becomes busy, and when it becomes idle, each of its allocations takes one mprotect(), and all threads wait for one
 * lock. While any access is withdrawn, each wait and query that finds its work done looks at all watched sets and at
 * all busy queues.
 *
 * Access is granted again when the process learns that work is done: each wait and query that finds its work
 * done grants access to the memory of all idle sets. An access before that faults, and the handler of SIGSEGV
 * (memory/strict.c) grants it if the set is idle.
 *
 * A stream whose next entry waits for a host function that has not returned is idle, as CUDA documents. So is a
 * stream that waits for such a stream by an event. Before a host function begins, its thread grants access as if it
 * had synchronized, and afterwards it withdraws access to the sets that are busy again (attach_resumed()).
 *
 * A change of an attachment is done in stream order: by the calling thread if the stream is idle, else by a
 * worker (work.c) at a hold.
 *
 * When a stream is destroyed, its set becomes an orphan. If the stream has no work left, the set's memory gets
 * its default attachment at once. Otherwise access to all of it is withdrawn while the work keeps the CPU away. The
 * next call of attach_synced() or the next fault after the work is done gives the memory its default attachment.
 *
 * The kernel may refuse to change rights for want of memory or mappings. If access cannot be withdrawn, wrong
 * accesses go unnoticed. If it cannot be granted for an allocation, it is granted for the whole block, which
 * needs no more mappings, so wrong accesses in the rest of the block go unnoticed until the next submission.
 *
 * Invariants: memory of a busy set is in the set's list "withdrawn", unless the kernel refused. A submission
 * stores the tail, then, after a full barrier, looks at the lists. A thread that puts memory into a list looks,
 * after a full barrier, at the tails. So at least one of the two withdraws access. A thread that grants access has
 * attach_lock from before it looks at the tails until the memory is in the list "granted". So a submission that
 * finds no memory in the lists also looks whether a thread has the lock, and if so, waits for it.
 *
 * Locks: attach_lock for everything. It is inside mem_lock and streams' locks; active->lock, hold_lock and
 * queue->past_lock are taken inside it. Signals are blocked while a thread holds it, so that the handler of SIGSEGV
 * can take it. The handler gives up after some time: it may have interrupted a thread that has one of the locks for
 * which the holder waits.
 *
 * Vocabulary: exclusive, global, host, single, set, orphan (above); withdrawn, of access: the CPU does not reach
 * the memory; granted: it does.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "exec/exec.h"

/* Managed memory of one alloc. */
struct attach {
	struct attach *next, **link;	/* in a list of the set; link is NULL if there is no set */
	struct attach_set *set;		/* NULL: host */
	bool withdrawn;
	unsigned int changes;		/* queued changes of this memory */
	bool host_default;		/* the default is host, and not global; constant, as what follows */
	uint32_t *marks;		/* the flags of the alloc; atomic */
	uint64_t base, length;		/* whole pages */
	uint64_t block_base, block_mapped;	/* the mapping that the pages are in */
};

/* All memory with one attachment. */
struct attach_set {
	struct attach *granted, *withdrawn;	/* to be read without the lock: atomic */
	CUstream stream;		/* NULL: global, or an orphan */
	struct queue *queue;		/* of an orphan: its stream's, or NULL */
	uint64_t value;			/* of an orphan: the last entry of its stream */
	unsigned int changes;		/* works that will put memory into the set */
	struct attach_set *next, **link;	/* in watched; link is NULL if it is not */
};

/* A change that a worker makes. */
struct change {
	struct work work;		/* first */
	uint64_t base, id;		/* of the alloc */
	struct attach_set *set;		/* NULL: host */
	bool over;			/* the change was made, or is left out */
};

#define LOCK_TRIES	1000u
#define FAULT_TRIES	100000u

static struct lock attach_lock;
static struct attach_set global;
static struct attach_set *watched;	/* orphans, and sets of streams with withdrawn memory; atomic, as @global */
static unsigned int withdrawn_count;	/* all withdrawn memory; atomic */
static uint32_t grants;			/* rises when access is granted; atomic */

static void attach_enter(sigset_t *old)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, old);
	lock_take(&attach_lock);
	/* Pairs with attach_busy(). */
	fence_full();
}

static void attach_leave(const sigset_t *old)
{
	lock_drop(&attach_lock);
	pthread_sigmask(SIG_SETMASK, old, NULL);
}

/*
 * lock_take() that gives up: a handler of SIGSEGV may have interrupted the thread that has the lock.
 */
static bool lock_soon(struct lock *lock, unsigned int tries)
{
	while (tries--) {
		if (lock_try(lock))
			return true;
		lock_doze();
	}
	return false;
}

/*
 * attach_enter() for the handler of SIGSEGV. False: the lock cannot be had. Its holder may wait for a lock of the
 * thread that faulted in a handler of the program.
 */
static bool attach_enter_soon(sigset_t *old)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, old);
	if (!lock_soon(&attach_lock, FAULT_TRIES)) {
		pthread_sigmask(SIG_SETMASK, old, NULL);
		return false;
	}
	/* Pairs with attach_busy(). */
	fence_full();
	return true;
}

/* ---- lists; attach_lock is held from here to "the functions" */

static bool orphaned(const struct attach_set *set)
{
	return set != &global && !set->stream;
}

static void set_unwatch(struct attach_set *set)
{
	store_release(set->link, set->next);
	if (set->next)
		set->next->link = set->link;
	set->link = NULL;
}

/* Keep the list of watched sets: all orphans, and the sets that have withdrawn memory. */
static void set_watch(struct attach_set *set)
{
	bool watch = set->withdrawn || orphaned(set);

	if (set == &global || watch == !!set->link)
		return;
	if (watch) {
		set->next = watched;
		if (watched)
			watched->link = &set->next;
		set->link = &watched;
		store_release(&watched, set);
		return;
	}
	set_unwatch(set);
}

static void list_out(struct attach *attach)
{
	if (!attach->link)
		return;
	store_release(attach->link, attach->next);
	if (attach->next)
		attach->next->link = attach->link;
	attach->link = NULL;
	set_watch(attach->set);
}

/* Put memory into the list of its set that fits. */
static void list_in(struct attach *attach)
{
	struct attach_set *set = attach->set;
	struct attach **list;

	if (!set)
		return;
	list = attach->withdrawn ? &set->withdrawn : &set->granted;
	attach->next = *list;
	if (attach->next)
		attach->next->link = &attach->next;
	attach->link = list;
	store_release(list, attach);
	set_watch(set);
}

/* ---- rights */

static void note_access(struct attach *attach, bool withdrawn)
{
	list_out(attach);
	attach->withdrawn = withdrawn;
	list_in(attach);
	store_relaxed(&withdrawn_count, withdrawn_count + (withdrawn ? 1 : -1));
	if (!withdrawn)
		store_relaxed(&grants, grants + 1);
}

static void withdraw(struct attach *attach)
{
	if (!attach->withdrawn && !mprotect((void *)(uintptr_t)attach->base, attach->length, PROT_NONE))
		note_access(attach, true);
}

static void note_block(struct attach_set *set, uint64_t block_base)
{
	struct attach *attach, *next;

	for (attach = set->withdrawn; attach; attach = next) {
		next = attach->next;
		if (attach->block_base == block_base)
			note_access(attach, false);
	}
}

static void grant_block(uint64_t base, uint64_t mapped)
{
	struct attach_set *set, *next;

	if (mprotect((void *)(uintptr_t)base, mapped, PROT_READ | PROT_WRITE))
		return;
	note_block(&global, base);
	for (set = watched; set; set = next) {
		next = set->next;
		note_block(set, base);
	}
}

static void grant(struct attach *attach)
{
	if (!attach->withdrawn)
		return;
	if (mprotect((void *)(uintptr_t)attach->base, attach->length, PROT_READ | PROT_WRITE))
		grant_block(attach->block_base, attach->block_mapped);
	else
		note_access(attach, false);
}

static void withdraw_set(struct attach_set *set)
{
	struct attach *attach, *next;

	for (attach = set->granted; attach; attach = next) {
		next = attach->next;
		withdraw(attach);
	}
}

static void grant_set(struct attach_set *set)
{
	struct attach *attach;

	while ((attach = set->withdrawn)) {
		grant(attach);
		/* The kernel refused. */
		if (attach->withdrawn)
			break;
	}
}

/* ---- what is busy */

static bool queue_exclusive(const struct queue *queue)
{
	return client.device[queue->device].exclusive;
}

/* Copy the entry of a queue behind @value others. False: there is none, or a lock cannot be had. */
static __attribute__((no_sanitize("thread"))) bool entry_read(struct queue *queue, uint64_t value,
							      struct gpumem_sqe *sqe)
{
	bool there;

	if (!lock_soon(&queue->past_lock, LOCK_TRIES))
		return false;
	there = queue->sqes;
	if (there)
		*sqe = queue->sqes[value % QUEUE_ENTRIES];
	lock_drop(&queue->past_lock);
	return there;
}

/* Whether the entries of a queue up to @end have work that is being done, or that waits for other work. */
static bool queue_works(struct queue *queue, uint64_t end)
{
	struct queue *first = queue;
	enum host_pause pause;
	struct gpumem_sqe sqe;
	unsigned int steps;
	uint64_t value;

	value = load_acquire(&queue->page->value);
	/* An entry never waits for later work, so this ends. */
	for (steps = 0; steps < 2 * QUEUE_ENTRIES && value < end; steps++) {
		/* A failed queue does no more work. */
		if (queue_failed(queue))
			break;
		if (!entry_read(queue, value, &sqe))
			return true;
		/* If the entry is done, its slot may have been reused. */
		fence_full();
		if (load_acquire(&queue->page->value) > value) {
			value = load_acquire(&queue->page->value);
			continue;
		}
		if (!lock_soon(&hold_lock, LOCK_TRIES))
			return true;
		pause = host_pauses(queue, &sqe);
		lock_drop(&hold_lock);
		if (pause == HOST_PAUSED)
			return false;
		if (pause == HOST_OVER) {
			value++;
			continue;
		}
		/* The queue waits for another one, which may wait for a function. */
		queue = sqe.op == GPUMEM_OP_WAIT ? queue_of_timeline(sqe.handle) : NULL;
		if (!queue)
			return true;
		value = load_acquire(&queue->page->value);
		end = sqe.value;
	}
	/* The entry that the first queue waited for has been reached meanwhile, or will be at once. */
	return queue != first;
}

/* Whether a queue keeps the CPU away from memory. */
static bool queue_active(struct queue *queue)
{
	return !queue_idle(queue) && queue_works(queue, load_acquire(&queue->tail));
}

static void find_exclusive(struct queue *queue, uint64_t value, void *found)
{
	if (queue_exclusive(queue) && queue_works(queue, value))
		*(struct queue **)found = queue;
}

/* A queue of an exclusive device that has work, or NULL. Looks at all busy queues, and in chains of waits at more. */
static struct queue *busy_queue(void)
{
	struct queue *found = NULL;

	queues_busy(find_exclusive, &found);
	return found;
}

/* The same for a signal handler, which may have interrupted a thread that holds a lock of queues_busy(). */
static struct queue *busy_queue_in_signal(void)
{
	struct queue *queue;
	unsigned int i;

	for (i = 0; i < client.devices; i++)
		for (queue = client.device[i].exclusive ? load_acquire(&client.device[i].queues) : NULL;
		     queue; queue = queue->next)
			if (queue_active(queue))
				return queue;
	return NULL;
}

/* Whether the stream of an orphan has no work left. */
static bool orphan_over(const struct attach_set *set)
{
	return !set->queue || queue_reached(set->queue, set->value);
}

/* The queue that keeps the CPU away from the memory of a stream's set, or NULL. */
static struct queue *busy_stream(const struct attach_set *set)
{
	struct queue *queue = set->stream ? load_acquire(&set->stream->queue) : set->queue;

	if (!queue || !queue_exclusive(queue))
		return NULL;
	if (set->stream ? !queue_active(queue) : orphan_over(set) || !queue_works(queue, set->value))
		return NULL;
	return queue;
}

static bool set_busy(const struct attach_set *set)
{
	return set == &global ? busy_queue() : busy_stream(set);
}

/* ---- places */

/* Move memory into a set, or for NULL out of all sets, and give the CPU the access that fits. */
static void place(struct attach *attach, struct attach_set *set)
{
	list_out(attach);
	attach->set = set;
	list_in(attach);
	/* Pairs with ring_kick(). */
	fence_full();
	if (set && set_busy(set))
		withdraw(attach);
	else
		grant(attach);
}

static struct attach_set *default_set(const struct attach *attach)
{
	return attach->host_default ? NULL : &global;
}

/*
 * The memory of a stream without work left gets its default, unless the program has asked for another attachment
 * meanwhile. Copies and fills are checked against what this sets.
 */
static void default_mark(struct attach *attach)
{
	if (attach->host_default && !attach->changes)
		__atomic_fetch_or(attach->marks, ALLOC_HOST_ONLY, __ATOMIC_RELAXED);
}

/* Free an orphan that has no memory and gets none. */
static void orphan_end(struct attach_set *set)
{
	if (!orphaned(set) || set->granted || set->withdrawn || set->changes)
		return;
	if (set->link)
		set_unwatch(set);
	free(set);
}

/* The stream of an orphan has no work left: its memory gets the default attachments. The orphan may be freed. */
static void orphan_settle(struct attach_set *set)
{
	struct attach *attach;

	/* Keep the orphan until the end. */
	set->changes++;
	while ((attach = set->withdrawn) || (attach = set->granted)) {
		default_mark(attach);
		place(attach, default_set(attach));
	}
	set->changes--;
	orphan_end(set);
}

/* ---- the functions */

struct attach *attach_make(void)
{
	return calloc(1, sizeof(struct attach));
}

void attach_drop(struct attach *attach)
{
	free(attach);
}

void attach_add(struct alloc *alloc, struct attach *attach)
{
	sigset_t old;

	attach->base = alloc->base;
	attach->length = round_up(alloc->size, PAGE);
	attach->block_base = alloc->block->base;
	attach->block_mapped = alloc->block->mapped;
	attach->host_default = alloc->flags & ALLOC_HOST_ONLY;
	attach->marks = &alloc->flags;
	attach_enter(&old);
	alloc->attach = attach;
	place(attach, default_set(attach));
	attach_leave(&old);
}

bool attach_remove(struct alloc *alloc)
{
	struct attach *attach = alloc->attach;
	struct attach_set *set;
	sigset_t old;
	bool granted;

	attach_enter(&old);
	alloc->attach = NULL;
	grant(attach);
	granted = !attach->withdrawn;
	if (!granted)
		store_relaxed(&withdrawn_count, withdrawn_count - 1);
	set = attach->set;
	list_out(attach);
	if (set)
		orphan_end(set);
	attach_leave(&old);
	free(attach);
	return granted;
}

/* The alloc that a change is for, unless it has been freed; attach_lock is held. */
static struct attach *attach_find(uint64_t base, uint64_t id)
{
	struct span span;

	return vm_lookup(base, &span) && span.id == id && span.alloc ? span.alloc->attach : NULL;
}

/* Make a change. Its claim on the set ends. */
static void change_make(uint64_t base, uint64_t id, struct attach_set *set, bool leave_out)
{
	struct attach *attach;
	sigset_t old;

	attach_enter(&old);
	attach = leave_out ? NULL : attach_find(base, id);
	if (attach) {
		struct attach_set *before = attach->set;

		place(attach, set);
		if (before && before != set)
			orphan_end(before);
	}
	if (set && set != &global) {
		set->changes--;
		/* The stream was destroyed before the change. */
		if (orphaned(set) && orphan_over(set))
			orphan_settle(set);
		else
			orphan_end(set);
	}
	attach_leave(&old);
}

/* Count a change that is queued (1) or not queued any more (-1). */
static void change_count(const struct change *change, int by)
{
	struct attach *attach;
	sigset_t old;

	attach_enter(&old);
	attach = attach_find(change->base, change->id);
	if (attach)
		attach->changes += by;
	attach_leave(&old);
}

/* A queued change is made or, if @leave_out, left out. Its claim on the set ends. */
static void change_over(struct change *change, bool leave_out)
{
	change_count(change, -1);
	change_make(change->base, change->id, change->set, leave_out);
	change->over = true;
}

static void change_run(struct work *work, struct worker *worker, unsigned int item)
{
	(void)worker;
	(void)item;
	change_over((struct change *)work, false);
}

static void change_end(struct work *work)
{
	struct change *change = (struct change *)work;

	/* The stream has failed. */
	if (!change->over)
		change_over(change, true);
}

/* A stream's set, with a claim of the caller. NULL: no memory. stream->lock is held. */
static struct attach_set *set_claim(CUstream stream)
{
	struct attach_set *set = stream->attached, *fresh = NULL;
	sigset_t old;

	if (!set) {
		fresh = calloc(1, sizeof(*fresh));
		if (!fresh)
			return NULL;
		fresh->stream = stream;
		set = fresh;
	}
	attach_enter(&old);
	if (fresh)
		store_release(&stream->attached, fresh);
	set->changes++;
	attach_leave(&old);
	return set;
}

/* Have a worker make a change. Its claim on the set ends in any case. stream->lock is held; the stream is busy. */
static CUresult change_put(CUstream stream, const struct span *span, struct attach_set *set)
{
	struct change *change = calloc(1, sizeof(*change));
	struct queue *queue;
	CUresult result;

	if (!change) {
		change_make(span->base, span->id, set, true);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	change->work.items = 1;
	change->work.device = stream->ctx->device;
	change->work.run = change_run;
	change->work.end = change_end;
	change->base = span->base;
	change->id = span->id;
	change->set = set;
	change_count(change, 1);
	result = stream_prepare(stream, &queue);
	if (result) {
		change_over(change, true);
		free(change);
		return result;
	}
	result = work_put(queue, &change->work);
	if (result) {
		change_over(change, true);
		free(change);
	}
	return ring_finish(queue, result);
}

/* attach_change() with the stream's lock held. @workers: there are workers. False: they are needed. */
static bool change_locked(CUstream stream, const struct span *span, unsigned int flags, bool workers,
			  CUresult *result)
{
	struct attach_set *set = flags == CU_MEM_ATTACH_GLOBAL ? &global : NULL;
	struct queue *queue = stream->queue;
	bool idle = stream_idle(stream) && !(queue && queue_failed(queue));

	if (!idle && !workers)
		return false;
	if (flags == CU_MEM_ATTACH_SINGLE) {
		set = set_claim(stream);
		if (!set) {
			*result = CUDA_ERROR_OUT_OF_MEMORY;
			return true;
		}
	}
	if (idle) {
		change_make(span->base, span->id, set, false);
		return true;
	}
	*result = change_put(stream, span, set);
	return true;
}

CUresult attach_change(CUstream stream, const struct span *span, unsigned int flags)
{
	CUresult result = stream_begin(stream);
	bool over;

	if (result)
		return result;
	over = change_locked(stream, span, flags, false, &result);
	lock_drop(&stream->lock);
	if (over)
		return result;
	result = work_reserve(stream->ctx->device, false);
	if (!result)
		result = stream_begin(stream);
	if (result)
		return result;
	change_locked(stream, span, flags, true, &result);
	lock_drop(&stream->lock);
	return result;
}

void attach_busy(struct queue *queue)
{
	CUstream stream = queue->stream;
	struct attach_set *own = stream ? load_acquire(&stream->attached) : NULL;
	sigset_t old;

	/* Pairs with attach_enter(). */
	fence_full();
	if (!load_acquire(&attach_lock.word) && !load_acquire(&global.granted) &&
	    !(own && load_acquire(&own->granted)))
		return;
	attach_enter(&old);
	if (queue_active(queue)) {
		withdraw_set(&global);
		if (own)
			withdraw_set(own);
	}
	attach_leave(&old);
}

static void resume(struct queue *queue, uint64_t value, void *any)
{
	CUstream stream = load_acquire(&queue->stream);
	struct attach_set *own = stream ? load_acquire(&stream->attached) : NULL;

	if (!queue_exclusive(queue) || !queue_works(queue, value))
		return;
	*(bool *)any = true;
	if (own)
		withdraw_set(own);
}

void attach_resumed_slow(void)
{
	struct attach_set *set;
	bool any = false;
	sigset_t old;

	attach_enter(&old);
	queues_busy(resume, &any);
	if (any)
		withdraw_set(&global);
	for (set = watched; set; set = set->next)
		if (orphaned(set) && busy_stream(set))
			withdraw_set(set);
	attach_leave(&old);
}

void attach_synced_slow(void)
{
	struct attach_set *set, *next;
	sigset_t old;

	/* Orphans are watched also without withdrawn memory. */
	if (!load_acquire(&withdrawn_count) && !load_acquire(&watched))
		return;
	attach_enter(&old);
	for (set = watched; set; set = next) {
		next = set->next;
		if (orphaned(set) && orphan_over(set))
			orphan_settle(set);
		else if (set->withdrawn && !busy_stream(set))
			grant_set(set);
	}
	if (global.withdrawn && !busy_queue())
		grant_set(&global);
	attach_leave(&old);
}

void attach_stream_gone(CUstream stream, struct queue *queue)
{
	struct attach_set *set = load_acquire(&stream->attached);
	sigset_t old;

	if (likely(!set))
		return;
	attach_enter(&old);
	store_relaxed(&stream->attached, NULL);
	set->stream = NULL;
	set->queue = queue;
	set->value = queue ? load_relaxed(&queue->tail) : 0;
	set_watch(set);
	if (orphan_over(set))
		orphan_settle(set);
	else if (busy_stream(set))
		withdraw_set(set);
	attach_leave(&old);
}

/* ---- faults */

/* Describe the entry that a queue executes. The queue's ring may be gone, or the entry done meanwhile. */
static void work_describe(struct queue *queue, struct attach_work *work)
{
	struct gpumem_sqe sqe;
	CUstream stream = load_relaxed(&queue->stream);

	*work = (struct attach_work){
		.single = work->single, .device = queue->device, .stream = stream,
		.id = stream ? stream->id : 0, .number = load_acquire(&queue->page->value),
		.kind = "work",
	};
	if (work->number >= load_acquire(&queue->tail) || !entry_read(queue, work->number, &sqe))
		return;
	work->kind = op_name(sqe.op);
	if (sqe.op != GPUMEM_OP_COPY && sqe.op != GPUMEM_OP_FILL && sqe.op != GPUMEM_OP_PREFETCH)
		return;
	work->addr = sqe.dst;
	work->length = sqe.width * (sqe.op == GPUMEM_OP_FILL ? sqe.elem : 1) +
		(sqe.height > 1 ? (sqe.height - 1) * sqe.dst_pitch : 0);
}

/* Whether the same thread faults at the same address, although no access was granted since its last fault. */
static bool faults_again(uint64_t addr)
{
	static __thread uint64_t last_addr __attribute__((tls_model("initial-exec")));
	static __thread uint32_t last_grants __attribute__((tls_model("initial-exec")));
	bool again = last_addr == addr && last_grants == load_relaxed(&grants);

	last_addr = addr;
	last_grants = load_relaxed(&grants);
	return again;
}

/* The queue that keeps the CPU away from withdrawn memory, or NULL. */
static struct queue *keeper(struct attach *attach, bool *single)
{
	struct attach_set *set = attach->set;
	struct queue *queue;

	*single = set && set != &global;
	if (*single) {
		queue = busy_stream(set);
		if (queue || !orphaned(set) || !orphan_over(set))
			return queue;
		/* The orphan stays for attach_synced(), because free() must not be called here. */
		list_out(attach);
		attach->set = default_set(attach);
		list_in(attach);
		default_mark(attach);
		*single = false;
	}
	return attach->set ? busy_queue_in_signal() : NULL;
}

enum attach_fault attach_fault(uint64_t addr, struct attach_work *work)
{
	enum attach_fault answer = ATTACH_UNKNOWN;
	struct attach *attach;
	struct queue *queue;
	struct span span;
	sigset_t old;

	if (not_initialized()) {
		/* A thread that does not exist here may hold the lock. No other thread changes anything. */
		attach = vm_lookup_in_signal(addr, &span) && span.alloc ? span.alloc->attach : NULL;
		return attach && attach->withdrawn ? ATTACH_FORKED : ATTACH_UNKNOWN;
	}
	if (!attach_enter_soon(&old))
		return ATTACH_UNKNOWN;
	attach = vm_lookup_in_signal(addr, &span) && span.alloc ? span.alloc->attach : NULL;
	if (attach && attach->withdrawn) {
		queue = keeper(attach, &work->single);
		if (queue) {
			work_describe(queue, work);
			if (client.check)
				grant(attach);
			answer = attach->withdrawn ? ATTACH_DENIED : ATTACH_REPORTED;
		} else {
			grant(attach);
			answer = attach->withdrawn ? ATTACH_UNKNOWN : ATTACH_GRANTED;
		}
	} else if (attach && !faults_again(addr)) {
		/* Another thread has granted access between the fault and now. */
		answer = ATTACH_GRANTED;
	}
	attach_leave(&old);
	return answer;
}
