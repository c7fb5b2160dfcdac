// SPDX-License-Identifier: MIT
/*
 * The library's own work on the CPU, in stream order: operations that the engine does not do.
 *
 * Owns the workers, a few threads that are started with the first work and stay, and the list of work that has
 * been submitted and not begun. Work has a hold in its stream, as a host function does (hostfn.c). It has
 * threads of its own, because a function of the program may block for as long as it likes, and may wait for
 * work. Work of different streams runs at the same time, and so do the items of one work.
 *
 * Workers never block on anything that waits for a stream: each has memory and queues to the engines for itself.
 * The engine moves data to and from the worker's buffer if the CPU does not reach the memory, or must not touch it
 * because other processes or drivers may reach it, too. Before such work is submitted, work_reserve() makes sure
 * that one worker has such a buffer and a queue, so that the work cannot fail for want of them. A worker without
 * both leaves such work to the others.
 *
 * After work of the queue has failed, items are left out; the work still ends. An error in an item fails the context of its
 * stream.
 *
 * Locks: work_lock for the list and for taken items; inside the stream's lock, and no other lock is taken with
 * it held. start_lock, outside of it, chooses the one thread that starts workers and gives them buffers and
 * queues. That thread holds no lock while it does so.
 *
 * Vocabulary: worker, work, item (work.h); hold (hold.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "exec/exec.h"

#define WORKERS_LEAST	2
#define WORKERS_MOST	4

static struct lock start_lock;
static bool starting;			/* a thread starts or equips workers; start_lock to write; atomic */
static uint32_t work_starts;		/* how often a thread stopped doing so; start_lock to write; a futex */
static struct worker *workers[WORKERS_MOST];	/* constant once counted */
static unsigned int worker_count;	/* written by the starting thread; atomic */
static uint32_t work_ready;		/* timeline that counts work so far; constant once there are workers */

static struct lock work_lock;
static struct work *first_work, **last_work = &first_work;	/* work_lock */
static unsigned int unfinished;		/* works that were put and have unfinished items; atomic */

/* ---- workers */

/* Whether a worker has a buffer and a queue to the device. The starting thread makes the buffer first. */
static bool equipped(struct worker *worker, CUdevice device)
{
	return load_acquire(&worker->queue[device]) != NULL;
}

/* Take an item of work whose hold is reached. Work whose last item is taken leaves the list. */
static struct work *item_take(struct worker *worker, unsigned int *item)
{
	struct work **link, *work;

	lock_take(&work_lock);
	for (link = &first_work; (work = *link); link = &work->next)
		if (hold_reached(&work->hold) && (!work->engine || equipped(worker, work->device)))
			break;
	if (work) {
		*item = work->taken++;
		if (work->taken == work->items) {
			*link = work->next;
			if (!work->next)
				last_work = link;
		}
	}
	lock_drop(&work_lock);
	return work;
}

static bool run_one(struct worker *worker)
{
	unsigned int item, items;
	struct work *work = item_take(worker, &item);

	if (!work)
		return false;
	items = work->items;
	if (!queue_status(work->hold.queue) && !load_relaxed(&work->failed))
		work->run(work, worker, item);
	/*
	 * The thread that counts the last item sees the effects of all items, and frees the work. The other
	 * threads must not touch the work after they counted.
	 */
	if (__atomic_add_fetch(&work->done, 1, __ATOMIC_ACQ_REL) == items) {
		if (work->end)
			work->end(work);
		__atomic_fetch_sub(&unfinished, 1, __ATOMIC_RELEASE);
		hold_release(&work->hold);
		free(work);
	}
	return true;
}

static void *worker_main(void *arg)
{
	struct gpumem_timeline_wait wait = {
		.size = sizeof(wait), .id = work_ready, .value = 1, .deadline = ~0ull,
	};

	worker_thread = true;
	for (;;) {
		thread_wait(&wait, "gpumem-work");
		while (run_one(arg))
			;
	}
	return NULL;
}

/* Start one worker. Called by the starting thread, as are the next two. */
static CUresult worker_make(void)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	void *memory;
	CUresult result;

	if (!worker)
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* The kernel allocates the pages when they are touched. */
	memory = mmap(NULL, WORK_BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		free(worker);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	worker->memory = memory;
	result = thread_make(worker_main, worker, "gpumem-work", 0);
	if (result) {
		munmap(memory, WORK_BUFFER);
		free(worker);
		return result;
	}
	workers[worker_count] = worker;
	store_release(&worker_count, worker_count + 1);
	return CUDA_SUCCESS;
}

/* Start the workers. SUCCESS if at least one runs. */
static CUresult workers_start(void)
{
	struct gpumem_timeline_create create = { .size = sizeof(create) };
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	CUresult result = CUDA_SUCCESS;

	if (worker_count)
		return CUDA_SUCCESS;
	if (!work_ready) {
		result = result_of_errno(client_ioctl(GPUMEM_TIMELINE_CREATE, &create));
		if (result)
			return result;
		work_ready = create.id;
	}
	while (!result && worker_count < WORKERS_MOST &&
	       (worker_count < WORKERS_LEAST || worker_count < cpus))
		result = worker_make();
	return worker_count ? CUDA_SUCCESS : result;
}

static bool worker_equip(struct worker *worker, CUdevice device)
{
	if (equipped(worker, device))
		return true;
	if (!worker->buffer)
		worker->buffer = bo_internal(device, WORK_BUFFER, "work");
	return worker->buffer && queue_own(&worker->queue[device], device);
}

/* How many workers can do work: with @engine, those that have a queue to the device. */
static unsigned int workers_for(CUdevice device, bool engine)
{
	unsigned int count = load_acquire(&worker_count), able = 0, i;

	for (i = 0; i < count; i++)
		able += !engine || equipped(workers[i], device);
	return able;
}

/* True: the caller is now the starting thread. False: another thread was, and has finished. */
static bool start_begin(void)
{
	uint32_t seen;

	lock_take(&start_lock);
	if (!starting) {
		store_relaxed(&starting, true);
		lock_drop(&start_lock);
		return true;
	}
	seen = work_starts;
	lock_drop(&start_lock);
	word_await(&work_starts, seen);
	return false;
}

static void start_end(void)
{
	lock_take(&start_lock);
	store_relaxed(&starting, false);
	word_change(&work_starts, true);
	lock_drop(&start_lock);
}

CUresult work_reserve(CUdevice device, bool engine)
{
	CUresult result;
	unsigned int i;
	int state;

	do {
		unsigned int able = workers_for(device, engine);

		/* A thread does not wait for workers that it does not need. */
		if (able && (able == load_acquire(&worker_count) || load_acquire(&starting)))
			return CUDA_SUCCESS;
	} while (!start_begin());
	/* If this thread were cancelled, no thread could ever start a worker again. */
	state = cancel_disable();
	result = workers_start();
	for (i = 0; !result && engine && i < worker_count; i++)
		if (!worker_equip(workers[i], device))
			break;
	start_end();
	cancel_restore(state);
	if (!result && engine && !workers_for(device, engine))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	return result;
}

struct queue *worker_queue(struct worker *worker, CUdevice device)
{
	/* Once the pointer is set, only this worker changes it. */
	return queue_own(&worker->queue[device], device);
}

CUresult worker_wait(struct worker *worker, CUdevice device)
{
	struct queue *queue = worker->queue[device];
	CUresult result = ring_kick(queue);

	if (!result)
		result = queue_wait(queue, load_relaxed(&queue->tail));
	return result ? result : queue_status(queue);
}

/* ---- work */

CUresult work_put(struct queue *queue, struct work *work)
{
	CUresult result = queue_room(queue, 2);
	struct hold hold;

	if (!result)
		result = hold_begin(queue, &work->hold);
	if (result)
		return result;
	hold = work->hold;
	__atomic_fetch_add(&unfinished, 1, __ATOMIC_RELAXED);
	lock_take(&work_lock);
	work->next = NULL;
	*last_work = work;
	last_work = &work->next;
	lock_drop(&work_lock);
	/* The work may be done already, because other work has notified the workers. */
	hold_put(&hold, work_ready);
	return CUDA_SUCCESS;
}

bool work_unfinished(void)
{
	return load_acquire(&unfinished);
}

void work_fail(struct work *work, CUresult result)
{
	CUcontext ctx = load_relaxed(&work->hold.queue->ctx);

	store_relaxed(&work->failed, 1);
	if (ctx)
		ctx_fail(ctx, result);
}
