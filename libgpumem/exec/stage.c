// SPDX-License-Identifier: MIT
/*
 * Staging memory: buffers that the engine and the CPU reach, for copies from or to memory that the engine
 * does not reach.
 *
 * Owns the buffers. Each is 1 MiB of a buffer object of the library. They are made when they are needed, up
 * to a limit, and never freed. A thread takes a place in a buffer. It gives the place back at once, or when
 * the entries that use the place are complete.
 *
 * Rules
 *
 *   - Places of one queue share a buffer, so that many small copies may wait in a stream.
 *   - A thread that waits for a place has no other place: otherwise such threads could have all of them.
 *   - A host function does not wait for a place: the threads that have the places may wait for the function.
 *
 * Locks: stage_lock, inside the locks of streams and pools.
 */
#include <stdlib.h>

#include "exec/exec.h"

#define STAGE_BLOCK	(2ull << 20)
#define STAGE_GRAIN	64ull
#define MAX_STAGES	64		/* for places of more than a sixteenth of a buffer */
#define MAX_SMALL_STAGES 256		/* for places of a sixteenth of a buffer at most */

static struct lock stage_lock;
static struct stage *stages;		/* stage_lock; atomic */
static unsigned int stage_count;	/* stage_lock */
static uint64_t stage_drops;		/* stage_lock */

/* Make two more buffers. stage_lock is held; it is dropped while the kernel populates them. */
static struct stage *stage_add(CUdevice device)
{
	struct stage *pair = calloc(2, sizeof(*pair));

	if (!pair)
		return NULL;
	stage_count += 2;
	lock_drop(&stage_lock);
	pair[0].addr = bo_internal(device, STAGE_BLOCK, "staging");
	lock_take(&stage_lock);
	if (!pair[0].addr) {
		stage_count -= 2;
		free(pair);
		return NULL;
	}
	pair[1].addr = pair[0].addr + STAGE_SIZE;
	pair[0].next = &pair[1];
	pair[1].next = stages;
	store_release(&stages, pair);
	return pair;
}

CUresult stage_reserve(CUdevice device)
{
	bool any;

	if (likely(load_acquire(&stages) != NULL))
		return CUDA_SUCCESS;
	lock_take(&stage_lock);
	/* Another thread may have succeeded before. */
	any = stages || stage_add(device) || stages;
	lock_drop(&stage_lock);
	return any ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static bool stage_idle(const struct stage *stage)
{
	return !stage->queue || queue_reached(stage->queue, stage->value);
}

/* Whether a buffer that the same queue uses has room for more. */
static bool stage_shares(const struct stage *stage, const struct queue *queue, uint64_t bytes)
{
	return stage->queue == queue && bytes <= STAGE_SIZE - stage->used;
}

struct stage *stage_take(CUdevice device, struct queue *queue, uint64_t bytes, bool wait)
{
	unsigned int most = bytes <= STAGE_SIZE / 16 ? MAX_SMALL_STAGES : MAX_STAGES;
	struct stage *stage, *shared, *busy;
	struct queue *user;
	bool any, refused = false;
	uint64_t value;

	for (;;) {
		shared = busy = NULL;
		lock_take(&stage_lock);
		for (stage = stages; stage; stage = stage->next) {
			if (stage->taken)
				continue;
			if (stage_idle(stage))
				break;
			if (stage_shares(stage, queue, bytes))
				shared = stage;
			if (!busy || stage->since < busy->since)
				busy = stage;
		}
		if (!stage && !shared && stage_count < most && !refused) {
			stage = stage_add(device);
			refused = !stage;
		}
		if (stage)
			stage->used = 0;
		else
			stage = shared;
		if (stage) {
			stage->taken = true;
			stage->place = stage->addr + stage->used;
			stage->used += (bytes + STAGE_GRAIN - 1) / STAGE_GRAIN * STAGE_GRAIN;
		}
		user = busy ? busy->queue : NULL;
		value = busy ? busy->value : 0;
		any = stages;
		lock_drop(&stage_lock);
		if (stage || !wait || host_thread || !any || ring_kick(queue))
			return stage;
		/* Another buffer may become free before the oldest one, so sleep only for a millisecond. */
		order_rest(queue, 0);
		if (user)
			queue_doze(user, value);
		else
			lock_doze();
		order_resume(queue);
	}
}

void stage_return(struct stage *stage)
{
	lock_take(&stage_lock);
	stage->taken = false;
	lock_drop(&stage_lock);
}

void stage_drop(struct stage *stage, struct queue *queue)
{
	lock_take(&stage_lock);
	stage->queue = queue;
	stage->value = load_relaxed(&queue->tail);
	stage->since = ++stage_drops;
	stage->taken = false;
	lock_drop(&stage_lock);
}
