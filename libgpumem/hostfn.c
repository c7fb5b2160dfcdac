// SPDX-License-Identifier: MIT
/*
 * Host functions: functions of the program that run in stream order.
 *
 * Two entries stand in the ring for each: one that tells the host thread that the function's turn
 * has come, and one that waits until the thread says that it has run. The thread is one for the
 * process, started with the first function; it runs one function at a time, in the order of each
 * stream.
 *
 * A queue that runs functions has a timeline of its own, which the thread raises by one with each.
 * What tells the thread is a timeline of the process, to which the ring entries add one.
 *
 * After work of the queue has failed, host functions are left out, and callbacks are called with
 * the error; the entry that tells the thread is carried out all the same. The one that waits is not:
 * whoever synchronizes with the failed queue waits for the thread itself.
 *
 * In the thread the API is closed, but for what works on streams and events that the program names:
 * host_thread is what CALL() asks for. What waits there for a stream looks from time to time whether
 * the stream waits for the thread, itself or by way of others (host_holds()): the driver waits for
 * ever then, here the call is not permitted.
 *
 * The thread lives as long as the process: functions that are queued would never run otherwise. If the
 * kernel refuses to let it wait, it reports that once and looks for turns every millisecond.
 *
 * Turns are for work.c, too: its threads do the library's own work in stream order. And for those who
 * have to do something themselves in a stream that is busy (order.c).
 *
 * Locks: host_lock for the list of queues and the lists of calls; inside the stream's. It is not
 * held while a function runs.
 *
 * Vocabulary: call, a function that has been submitted and has not run; turn, everything before it
 * in its stream is done.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"
#include "ring.h"

struct hostcall {
	struct hostcall *next;
	CUhostFn fn;			/* or NULL: */
	CUstreamCallback callback;
	void *arg;
	CUstream handle;		/* as the program gave it */
	struct turn turn;
};

__thread bool host_thread __attribute__((tls_model("initial-exec")));

static struct lock host_lock;
static bool started;			/* host_lock */
static uint32_t ready;			/* timeline: turns so far; constant once started */
static struct queue *host_queues;	/* host_lock; those that ever had a call; grows only */

/* ---- turns */

/* What a queue needs for turns. host_lock is held. */
static CUresult queue_start(struct queue *queue)
{
	struct gpumem_timeline_create create = { .size = sizeof(create) };
	int error;

	if (queue->host_timeline)
		return CUDA_SUCCESS;
	error = client_ioctl(GPUMEM_TIMELINE_CREATE, &create);
	if (error)
		return result_of_errno(error);
	queue->host_timeline = create.id;
	queue->next_host = host_queues;
	store_release(&host_queues, queue);
	return CUDA_SUCCESS;
}

/* host_lock is held. */
static CUresult turn_begin_locked(struct queue *queue, struct turn *turn)
{
	CUresult result = queue_start(queue);

	if (result)
		return result;
	turn->queue = queue;
	turn->ran = ++queue->last_ran;
	/* Reached before the thread is told: the entry that tells comes after. */
	turn->value = load_relaxed(&queue->tail);
	return CUDA_SUCCESS;
}

CUresult turn_begin(struct queue *queue, struct turn *turn)
{
	CUresult result;

	lock_take(&host_lock);
	result = turn_begin_locked(queue, turn);
	lock_drop(&host_lock);
	return result;
}

void turn_hold(const struct turn *turn)
{
	const struct gpumem_sqe wait = {
		.op = GPUMEM_OP_WAIT, .handle = turn->queue->host_timeline, .value = turn->ran,
	};

	ring_put(turn->queue, &wait);
}

void turn_put(const struct turn *turn, uint32_t tell)
{
	const struct gpumem_sqe add = { .op = GPUMEM_OP_ADD, .handle = tell, .value = 1 };

	ring_put(turn->queue, &add);
	turn_hold(turn);
}

bool turn_come(const struct turn *turn)
{
	return queue_reached(turn->queue, turn->value);
}

static void nap_ms(void)
{
	const struct timespec time = { .tv_nsec = 1000000 };

	/* Not nanosleep(), where a thread of the program could be cancelled. */
	syscall(SYS_nanosleep, &time, NULL);
}

/* Errors for want of memory, which there may be in a moment. */
static bool signal_again(int error)
{
	return error == ENOMEM || error == EAGAIN;
}

void turn_over(const struct turn *turn)
{
	struct gpumem_timeline_signal signal = {
		.size = sizeof(signal), .id = turn->queue->host_timeline, .value = turn->ran,
	};

	told_kernel();
	/* The stream waits for nothing else; after a failure EIO says that the timeline is gone. */
	while (unlikely(signal_again(client_ioctl(GPUMEM_TIMELINE_SIGNAL, &signal))))
		nap_ms();
}

/* ---- the thread */

CUresult thread_make(void *(*main)(void *arg), void *arg, const char *name)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS };
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t thread;
	unsigned int i;
	int error;

	/*
	 * The program's signal handlers run in the program's threads, but for what a function
	 * brings upon itself: a fault that is blocked ends the process past every handler.
	 */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, NULL, &old);
	for (i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		if (!sigismember(&old, faults[i]))
			sigdelset(&all, faults[i]);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	error = pthread_create(&thread, &attr, main, arg);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (error)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_setname_np(thread, name);
	return CUDA_SUCCESS;
}

void thread_wait(struct gpumem_timeline_wait *wait, const char *name)
{
	static uint32_t reported;
	int error = client_ioctl(GPUMEM_TIMELINE_WAIT, wait);

	if (likely(!error)) {
		/* A turn that comes meanwhile is seen by the look that follows. */
		wait->value = wait->reached + 1;
		return;
	}
	if (error == ETIMEDOUT)
		return;
	if (!__atomic_exchange_n(&reported, 1, __ATOMIC_RELAXED))
		fprintf(stderr, "gpumem: %s: cannot wait for work (%s); looking every millisecond\n",
			name, strerror(error));
	nap_ms();
}

/* The first call of a queue whose turn has come, taken from its list. */
static struct hostcall *call_take(struct queue *queue)
{
	struct hostcall *call;

	lock_take(&host_lock);
	call = queue->calls;
	if (call && turn_come(&call->turn)) {
		queue->calls = call->next;
		queue->call_taken = call->turn.ran;
		if (!queue->calls)
			queue->last_call = NULL;
	} else {
		call = NULL;
	}
	lock_drop(&host_lock);
	return call;
}

static void call_run(struct queue *queue, struct hostcall *call)
{
	const struct turn turn = call->turn;
	CUresult status = queue_status(queue);

	if (!call->fn)
		call->callback(call->handle, status, call->arg);
	else if (!status)
		call->fn(call->arg);
	free(call);
	store_release(&queue->call_over, turn.ran);
	turn_over(&turn);
}

static bool run_some(void)
{
	struct queue *queue;
	bool any = false;

	lock_take(&host_lock);
	queue = host_queues;
	lock_drop(&host_lock);
	for (; queue; queue = queue->next_host) {
		struct hostcall *call;

		while ((call = call_take(queue))) {
			call_run(queue, call);
			any = true;
		}
	}
	return any;
}

static void *host_main(void *arg)
{
	struct gpumem_timeline_wait wait = {
		.size = sizeof(wait), .id = ready, .value = 1, .deadline = ~0ull,
	};

	(void)arg;
	host_thread = true;
	for (;;) {
		thread_wait(&wait, "gpumem-host");
		while (run_some())
			;
	}
	return NULL;
}

/* host_lock is held. */
static CUresult thread_start(void)
{
	struct gpumem_timeline_create create = { .size = sizeof(create) };
	CUresult result;

	if (started)
		return CUDA_SUCCESS;
	result = result_of_errno(client_ioctl(GPUMEM_TIMELINE_CREATE, &create));
	if (result)
		return result;
	ready = create.id;
	result = thread_make(host_main, NULL, "gpumem-host");
	if (result)
		client_destroy_id(ready);
	else
		started = true;
	return result;
}

/* Put a call's entries into the ring; there is room for both. stream->lock is held. */
static CUresult call_put(struct queue *queue, struct hostcall *call)
{
	struct turn turn;
	CUresult result;

	lock_take(&host_lock);
	result = thread_start();
	if (!result)
		result = turn_begin_locked(queue, &call->turn);
	if (!result) {
		turn = call->turn;
		if (queue->last_call)
			queue->last_call->next = call;
		else
			queue->calls = call;
		queue->last_call = call;
	}
	lock_drop(&host_lock);
	/* The call may have run already, if something else told the thread. */
	if (!result)
		turn_put(&turn, ready);
	return result;
}

/* ---- waiting in the thread */

/* The entry that a queue is at on its way to @goal; false if it is there, or goes on just now. */
static bool entry_now(struct queue *queue, uint64_t goal, struct gpumem_sqe *sqe)
{
	uint64_t value = load_acquire(&queue->page->value);

	if (value >= goal || value >= load_acquire(&queue->tail))
		return false;
	/* A slot is written again after its entry is done: then the value is another one. */
	if (!queue_entry(queue, value, sqe))
		return false;
	fence_full();
	return load_relaxed(&queue->page->value) == value;
}

/* Whether an entry waits for a function that has not returned. */
static bool waits_for_call(struct queue *queue, const struct gpumem_sqe *sqe)
{
	struct hostcall *call = NULL;
	bool taken = false;

	lock_take(&host_lock);
	if (queue->host_timeline && sqe->handle == queue->host_timeline) {
		taken = queue->call_taken == sqe->value &&
			load_acquire(&queue->call_over) < sqe->value;
		for (call = queue->calls; call && call->turn.ran != sqe->value; call = call->next)
			;
	}
	lock_drop(&host_lock);
	return taken || call;
}

bool host_holds(struct queue *queue, uint64_t value)
{
	struct gpumem_sqe sqe;
	unsigned int steps;

	/*
	 * Nobody waits for what comes later, so there is an end; others may write meanwhile. A queue
	 * found at a wait for a call is still there, and so are those on the way to it.
	 */
	for (steps = 0; queue && steps < 4096; steps++) {
		if (queue_status(queue) || !entry_now(queue, value, &sqe) ||
		    sqe.op != GPUMEM_OP_WAIT)
			return false;
		if (waits_for_call(queue, &sqe))
			return true;
		queue = queue_of_timeline(sqe.handle);
		value = sqe.value;
	}
	return false;
}

void host_settle(struct queue *queue, uint64_t value)
{
	struct gpumem_timeline_wait wait = { .size = sizeof(wait), .deadline = ~0ull };
	const struct timespec nap = { .tv_nsec = 100000 };
	struct hostcall *call;
	uint64_t last;

	if (host_thread)
		return;
	lock_take(&host_lock);
	wait.id = queue->host_timeline;
	wait.value = queue->last_ran;
	last = queue->call_taken;
	for (call = queue->calls; call; call = call->next) {
		if (call->turn.value >= value) {
			wait.value = call->turn.ran - 1;
			break;
		}
		last = call->turn.ran;
	}
	lock_drop(&host_lock);
	while (wait.id && client_ioctl(GPUMEM_TIMELINE_WAIT, &wait) == ETIMEDOUT)
		;
	/* Nothing waits in a queue that failed: work behind a call may be over before the call. */
	while (load_acquire(&queue->call_over) < last)
		nanosleep(&nap, NULL);
}

static CUresult submit(CUstream stream, struct hostcall *call)
{
	struct queue *queue;
	CUresult result = stream_begin(stream);

	if (result) {
		free(call);
		return result;
	}
	result = stream_prepare(stream, &queue);
	if (!result) {
		result = queue_room(queue, 2);
		if (!result)
			result = call_put(queue, call);
		if (result)
			free(call);
		result = ring_finish(queue, result);
	} else {
		free(call);
	}
	lock_drop(&stream->lock);
	return result;
}

CUresult host_call(CUstream handle, bool own, CUhostFn fn, CUstreamCallback callback, void *arg)
{
	struct hostcall *call;
	CUstream stream;
	CUresult result = stream_get(handle, own, &stream);

	if (result)
		return result;
	call = calloc(1, sizeof(*call));
	if (!call)
		return CUDA_ERROR_OUT_OF_MEMORY;
	call->fn = fn;
	call->callback = callback;
	call->arg = arg;
	call->handle = handle;
	return submit(stream, call);
}
