// SPDX-License-Identifier: MIT
/*
 * The library's own work on the CPU, in stream order: what the engine does not do.
 *
 * Owns the workers, a few threads that are started with the first work and stay, and the list of
 * work that has been submitted and is not begun. Work takes a turn in its stream, as a host function
 * does (hostfn.c), but has threads of its own: a function of the program may block for as long as it
 * likes, and what it waits for may be work. Work of different streams runs at the same time, and so
 * do the items of one.
 *
 * Workers never block on anything that waits for a stream: each has its memory and its queues to the
 * engines for itself. Where the CPU does not reach what work is about, or must not touch it because
 * others may reach it, too, the engine moves it to and from the worker's buffer. work_reserve() sees
 * to it that one worker has such a buffer and a queue before such work is submitted, so that it
 * cannot fail for want of them; who has not both leaves it to the others.
 *
 * After work of the queue has failed, items are left out. What fails in an item fails the context of
 * the stream that it is in.
 *
 * Locks: work_lock for the list and what is taken of it; inside the stream's, and no other is taken
 * with it held. start_lock, outside of it, for starting workers and giving them buffers and queues.
 *
 * Vocabulary: worker, work, item (internal.h); turn (hostfn.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"
#include "ring.h"

#define WORKERS_LEAST	2
#define WORKERS_MOST	4

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static struct worker *workers[WORKERS_MOST];	/* start_lock */
static unsigned int worker_count;	/* start_lock */
static uint32_t ready;			/* timeline: turns so far; constant once there are workers */

static struct lock work_lock;
static struct work *first_work, **last_work = &first_work;	/* work_lock */
static unsigned int unfinished;		/* that were put and have items left; atomic */

/* ---- workers */

/* A worker gets the buffer first. */
static bool equipped(struct worker *worker, CUdevice device)
{
	return load_acquire(&worker->queue[device]) != NULL;
}

/* An item of work whose turn has come, and which is no longer in the list after its last. */
static struct work *item_take(struct worker *worker, unsigned int *item)
{
	struct work **link, *work;

	lock_take(&work_lock);
	for (link = &first_work; (work = *link); link = &work->next)
		if (turn_come(&work->turn) && (!work->engine || equipped(worker, work->device)))
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
	if (!queue_status(work->turn.queue) && !load_relaxed(&work->failed))
		work->run(work, worker, item);
	/*
	 * What the items did is seen by whoever finds that this was the last. For the others there is
	 * no work any more.
	 */
	if (__atomic_add_fetch(&work->done, 1, __ATOMIC_ACQ_REL) == items) {
		__atomic_fetch_sub(&unfinished, 1, __ATOMIC_RELEASE);
		turn_over(&work->turn);
		free(work);
	}
	return true;
}

static void *worker_main(void *arg)
{
	struct gpumem_timeline_wait wait = {
		.size = sizeof(wait), .id = ready, .value = 1, .deadline = ~0ull,
	};

	for (;;) {
		thread_wait(&wait, "gpumem-work");
		while (run_one(arg))
			;
	}
	return NULL;
}

/* start_lock is held. */
static CUresult worker_make(void)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	void *memory;
	CUresult result;

	if (!worker)
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* Takes memory as it is used. */
	memory = mmap(NULL, WORK_BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		free(worker);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	worker->memory = memory;
	result = thread_make(worker_main, worker, "gpumem-work");
	if (result) {
		munmap(memory, WORK_BUFFER);
		free(worker);
		return result;
	}
	workers[worker_count++] = worker;
	return CUDA_SUCCESS;
}

/* start_lock is held. One worker is enough. */
static CUresult workers_start(void)
{
	struct gpumem_timeline_create create = { .size = sizeof(create) };
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	CUresult result = CUDA_SUCCESS;

	if (worker_count)
		return CUDA_SUCCESS;
	if (!ready) {
		result = result_of_errno(client_ioctl(GPUMEM_TIMELINE_CREATE, &create));
		if (result)
			return result;
		ready = create.id;
	}
	while (!result && worker_count < WORKERS_MOST &&
	       (worker_count < WORKERS_LEAST || worker_count < cpus))
		result = worker_make();
	return worker_count ? CUDA_SUCCESS : result;
}

/* start_lock is held. */
static bool worker_equip(struct worker *worker, CUdevice device)
{
	struct queue *queue;

	if (equipped(worker, device))
		return true;
	if (!worker->buffer)
		worker->buffer = mem_internal(device, WORK_BUFFER, "work");
	queue = worker->buffer ? queue_make(device, 0) : NULL;
	if (queue)
		store_release(&worker->queue[device], queue);
	return queue;
}

CUresult work_reserve(CUdevice device, bool engine)
{
	CUresult result;
	unsigned int i;

	pthread_mutex_lock(&start_lock);
	result = workers_start();
	for (i = 0; !result && engine && i < worker_count; i++)
		if (!worker_equip(workers[i], device))
			break;
	if (!result && engine && !i)
		result = CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_unlock(&start_lock);
	return result;
}

struct queue *worker_queue(struct worker *worker, CUdevice device)
{
	struct queue *queue = worker->queue[device], *fresh;

	/* A queue that failed does nothing any more. Nobody else changes it once it is there. */
	if (likely(!queue_failed(queue)))
		return queue;
	fresh = queue_make(device, 0);
	if (fresh) {
		store_release(&worker->queue[device], fresh);
		queue_free(queue);
	}
	return fresh;
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
	struct turn turn;

	if (!result)
		result = turn_begin(queue, &work->turn);
	if (result)
		return result;
	turn = work->turn;
	__atomic_fetch_add(&unfinished, 1, __ATOMIC_RELAXED);
	lock_take(&work_lock);
	work->next = NULL;
	*last_work = work;
	last_work = &work->next;
	lock_drop(&work_lock);
	/* It may be done already, if something else told the workers. */
	turn_put(&turn, ready);
	return CUDA_SUCCESS;
}

bool work_unfinished(void)
{
	return load_acquire(&unfinished);
}

void work_fail(struct work *work, CUresult result)
{
	CUcontext ctx = load_relaxed(&work->turn.queue->ctx);

	store_relaxed(&work->failed, 1);
	if (ctx)
		ctx_fail(ctx, result);
}
