// SPDX-License-Identifier: MIT
/*
 * External semaphores: timelines of the kernel that processes share by descriptor, and fences of sync_files.
 *
 * There are three kinds. A binary semaphore is a counting timeline: a signal adds one. A call that waits gets the
 * number of the next signal from the kernel, and its entry waits for that number. So the order of the calls decides
 * which wait gets which signal, and the order in which streams execute does not. A timeline semaphore is a timeline: a
 * signal raises it to a value, a wait waits for a value. A fence is a sync_file of any driver: programs can only wait
 * for it, any number of times. Signals and waits are entries of the stream's ring.
 *
 * A semaphore that gpumem_create_semaphore() made belongs to this process: if the process destroys the semaphore,
 * or ends, waits of other processes for signals that did not come fail (kmod/gpumem_semaphore.c).
 *
 * Entries name the kernel's object by its id. So the id of a destroyed semaphore is destroyed only when all
 * entries that name it are done: the uses of a semaphore are the last such entry of each queue. A failed stream
 * still signals binary semaphores, because the kernel executes ADD entries in any case. A call that fails has used
 * no semaphore, if it has at most AT_ONCE; of a longer list, it may have used a multiple of AT_ONCE. If the kernel
 * refuses the number of a signal, the numbers that the call has got before are lost.
 *
 * Programs hold values of a table (core/table.h). A context has a list of the semaphores that were made or imported
 * while it was current, and destroys them when it ends. A destroyed semaphore is in a queue of dying ones. Each call
 * that makes or destroys a semaphore looks at a few of the queue, so that its cost does not grow with the queue's
 * length, and the queue does not grow with the number of calls. Each call that synchronizes frees all that it finds
 * idle, and looks at no more than SYNC_TRIES others. So a semaphore ends with the first synchronization after its
 * work, if no more others are still in use.
 *
 * Locks: semaphore_lock for the table, the queue and all semaphores, inside a stream's lock. The only system call
 * that is made under it gets the number of a signal: it looks up an id and takes a spin lock.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "share/share.h"

enum semaphore_kind { SEMAPHORE_BINARY, SEMAPHORE_TIMELINE, SEMAPHORE_FENCE };

/* The last entry of a queue that names a semaphore. */
struct use {
	struct use *next;
	struct queue *queue;
	uint64_t value;
};

struct semaphore {
	struct semaphore *next;		/* in ctx->semaphores, in the queue of dying ones, or in a list to be freed */
	struct semaphore **link;	/* in ctx->semaphores */
	uint64_t value;			/* in the table; constant, as the next two */
	uint32_t id;
	enum semaphore_kind kind;
	unsigned int exports;		/* calls that export it */
	struct use *uses;
};

#define AT_ONCE		64u		/* semaphores of a call that are used all or not at all */
#define REAP_TRIES	2		/* dying semaphores that a call looks at */
#define SYNC_TRIES	64		/* and one that synchronizes, of those that are in use */

/* semaphore_lock protects these, with all that they hold. */
static struct lock semaphore_lock;
static struct table semaphores;
static struct semaphore *dying, **last_dying = &dying;
static uint32_t dying_count;		/* also read without the lock; atomic */

/* The semaphore that a program names, or NULL. semaphore_lock is held. */
static struct semaphore *semaphore_find(CUexternalSemaphore handle)
{
	return table_find(&semaphores, (uintptr_t)handle);
}

static bool semaphore_idle(const struct semaphore *semaphore)
{
	struct use *use;

	if (semaphore->exports)
		return false;
	for (use = semaphore->uses; use; use = use->next)
		if (!queue_reached(use->queue, use->value))
			return false;
	return true;
}

/* semaphore_lock is held. */
static void dying_append(struct semaphore *semaphore)
{
	semaphore->next = NULL;
	*last_dying = semaphore;
	last_dying = &semaphore->next;
	store_relaxed(&dying_count, dying_count + 1);
}

/* Take the first one out of the queue, which is not empty. semaphore_lock is held. */
static struct semaphore *dying_first(void)
{
	struct semaphore *semaphore = dying;

	dying = semaphore->next;
	if (!dying)
		last_dying = &dying;
	store_relaxed(&dying_count, dying_count - 1);
	return semaphore;
}

/*
 * Take destroyed semaphores that no entry names any more out of the queue, at most @idle of them, and look at no
 * more than @busy others. Returns them as a list, for semaphores_free(). semaphore_lock is held.
 */
static struct semaphore *semaphores_reap(unsigned int idle, unsigned int busy)
{
	struct semaphore *semaphore, *list = NULL;
	unsigned int left = dying_count;

	for (; left && idle && busy; left--) {
		semaphore = dying_first();
		if (!semaphore_idle(semaphore)) {
			dying_append(semaphore);
			busy--;
			continue;
		}
		semaphore->next = list;
		list = semaphore;
		idle--;
	}
	return list;
}

/* Free a list of semaphores. No lock is held. */
static void semaphores_free(struct semaphore *list)
{
	struct semaphore *semaphore;
	struct use *use;

	while ((semaphore = list)) {
		list = semaphore->next;
		client_destroy_id(semaphore->id);
		while ((use = semaphore->uses)) {
			semaphore->uses = use->next;
			free(use);
		}
		free(semaphore);
	}
}

/* Add a semaphore to the table and to its context. semaphore_lock is held. */
static void semaphore_enter(struct semaphore *semaphore, CUcontext ctx)
{
	semaphore->value = table_add(&semaphores, semaphore);
	if (!semaphore->value)
		return;
	semaphore->next = ctx->semaphores;
	semaphore->link = &ctx->semaphores;
	if (semaphore->next)
		semaphore->next->link = &semaphore->next;
	ctx->semaphores = semaphore;
}

/* Take a semaphore out of the table and out of its context. semaphore_lock is held. */
static void semaphore_leave(struct semaphore *semaphore)
{
	table_remove(&semaphores, semaphore->value);
	*semaphore->link = semaphore->next;
	if (semaphore->next)
		semaphore->next->link = semaphore->link;
}

/* Make a semaphore of a kernel object, which it takes over in any case, in a context's life @life. */
static CUresult semaphore_add(CUexternalSemaphore *out, CUcontext ctx, uint64_t life, uint32_t id,
			      enum semaphore_kind kind)
{
	struct semaphore *semaphore = calloc(1, sizeof(*semaphore)), *idle = NULL;
	uint64_t value = 0;
	bool lives = true;

	if (semaphore) {
		semaphore->id = id;
		semaphore->kind = kind;
		lock_take(&semaphore_lock);
		idle = semaphores_reap(REAP_TRIES, REAP_TRIES);
		/* A context that ends is marked before semaphores_end() takes the lock. */
		lives = ctx_lives_on(ctx, life);
		if (lives)
			semaphore_enter(semaphore, ctx);
		value = semaphore->value;
		lock_drop(&semaphore_lock);
	}
	semaphores_free(idle);
	if (!value) {
		client_destroy_id(id);
		free(semaphore);
		return lives ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_CONTEXT_IS_DESTROYED;
	}
	*out = (CUexternalSemaphore)(uintptr_t)value;
	return CUDA_SUCCESS;
}

CUresult semaphore_create(CUexternalSemaphore *out, unsigned long long value, unsigned int flags)
{
	struct gpumem_timeline_create create = {
		.size = sizeof(create), .value = value,
		.flags = flags & GPUMEM_SEMAPHORE_TIMELINE ? 0 : GPUMEM_TIMELINE_COUNTING,
	};
	uint64_t life;
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	if (result)
		return result;
	if (!out || flags & ~GPUMEM_SEMAPHORE_TIMELINE ||
	    (!(flags & GPUMEM_SEMAPHORE_TIMELINE) && value > 1))
		return CUDA_ERROR_INVALID_VALUE;
	life = ctx_life(ctx);
	result = result_of_errno(client_ioctl(GPUMEM_TIMELINE_CREATE, &create));
	return result ? result : semaphore_add(out, ctx, life, create.id, flags & GPUMEM_SEMAPHORE_TIMELINE ?
					       SEMAPHORE_TIMELINE : SEMAPHORE_BINARY);
}

/* Find a semaphore that can be exported, and keep it until export_end(). */
static CUresult export_begin(struct semaphore **out, CUexternalSemaphore handle)
{
	struct semaphore *semaphore;
	CUresult result = CUDA_SUCCESS;

	lock_take(&semaphore_lock);
	semaphore = semaphore_find(handle);
	if (!semaphore)
		result = CUDA_ERROR_INVALID_VALUE;
	else if (semaphore->kind == SEMAPHORE_FENCE)
		result = CUDA_ERROR_NOT_SUPPORTED;
	else
		semaphore->exports++;
	lock_drop(&semaphore_lock);
	*out = semaphore;
	return result;
}

static void export_end(struct semaphore *semaphore)
{
	lock_take(&semaphore_lock);
	semaphore->exports--;
	lock_drop(&semaphore_lock);
}

CUresult semaphore_export(int *fd, CUexternalSemaphore handle, unsigned int flags)
{
	struct gpumem_timeline_export export = {
		.size = sizeof(export), .flags = GPUMEM_TIMELINE_EXPORT_CLOEXEC,
	};
	struct semaphore *semaphore;
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	if (result)
		return result;
	if (!fd)
		return CUDA_ERROR_INVALID_VALUE;
	*fd = -1;
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	result = export_begin(&semaphore, handle);
	if (result)
		return result;
	export.id = semaphore->id;
	result = result_of_errno(client_ioctl(GPUMEM_TIMELINE_EXPORT, &export));
	export_end(semaphore);
	if (!result)
		*fd = export.fd;
	return result;
}

static CUresult semaphore_of_fd(CUexternalSemaphore *out, CUcontext ctx, int fd, bool timeline)
{
	struct gpumem_timeline_import import = { .size = sizeof(import), .fd = fd };
	uint64_t life = ctx_life(ctx);
	enum semaphore_kind kind;
	CUresult result;
	int error = client_ioctl(GPUMEM_TIMELINE_IMPORT, &import);

	if (error == EBADF && timeline)
		return CUDA_ERROR_INVALID_VALUE;
	if (error == EBADF || error == EINVAL)
		return CUDA_ERROR_UNKNOWN;
	if (error)
		return result_of_errno(error);
	kind = import.result & GPUMEM_TIMELINE_IMPORT_FENCE ? SEMAPHORE_FENCE :
		import.result & GPUMEM_TIMELINE_IMPORT_COUNTING ? SEMAPHORE_BINARY :
		SEMAPHORE_TIMELINE;
	if (timeline != (kind == SEMAPHORE_TIMELINE)) {
		client_destroy_id(import.id);
		return CUDA_ERROR_UNKNOWN;
	}
	result = semaphore_add(out, ctx, life, import.id, kind);
	if (!result)
		fd_close(fd);
	return result;
}

CUresult semaphore_import(CUexternalSemaphore *out, const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *desc)
{
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);
	unsigned int i;

	if (result)
		return result;
	if (desc->flags)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < sizeof(desc->reserved) / sizeof(desc->reserved[0]); i++)
		if (desc->reserved[i])
			return CUDA_ERROR_INVALID_VALUE;
	switch (desc->type) {
	case CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD:
		return semaphore_of_fd(out, ctx, desc->handle.fd, false);
	case CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD:
		return semaphore_of_fd(out, ctx, desc->handle.fd, true);
	case CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32:
	case CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32_KMT:
	case CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D12_FENCE:
	case CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D11_FENCE:
	case CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_NVSCISYNC:
	case CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D11_KEYED_MUTEX:
	case CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D11_KEYED_MUTEX_KMT:
	case CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_WIN32:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* Destroy a semaphore, or let it die. Returns @idle, with the semaphore if it can be freed. semaphore_lock is held. */
static struct semaphore *semaphore_end(struct semaphore *semaphore, struct semaphore *idle)
{
	semaphore_leave(semaphore);
	if (semaphore_idle(semaphore)) {
		/* Other processes may wait for signals that will not come. */
		semaphore->next = idle;
		return semaphore;
	}
	dying_append(semaphore);
	sync_gives_back();
	return idle;
}

void semaphores_end(CUcontext ctx)
{
	struct semaphore *idle = NULL;

	lock_take(&semaphore_lock);
	while (ctx->semaphores)
		idle = semaphore_end(ctx->semaphores, idle);
	lock_drop(&semaphore_lock);
	semaphores_free(idle);
}

CUresult semaphore_destroy(CUexternalSemaphore handle)
{
	struct semaphore *semaphore, *idle = NULL;
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	if (result)
		return result;
	lock_take(&semaphore_lock);
	semaphore = semaphore_find(handle);
	if (semaphore) {
		idle = semaphores_reap(REAP_TRIES, REAP_TRIES);
		idle = semaphore_end(semaphore, idle);
	}
	lock_drop(&semaphore_lock);
	semaphores_free(idle);
	return semaphore ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void semaphores_release(void)
{
	struct semaphore *idle;

	if (!load_relaxed(&dying_count))
		return;
	lock_take(&semaphore_lock);
	idle = semaphores_reap(UINT_MAX, SYNC_TRIES);
	lock_drop(&semaphore_lock);
	semaphores_free(idle);
}

/*
 * The use of a semaphore by a queue, which is idle if it is new; NULL without memory. A use by another queue that
 * is done is taken over, so the list is as long as the number of queues that were busy at one time.
 * semaphore_lock is held.
 */
static struct use *semaphore_use(struct semaphore *semaphore, struct queue *queue)
{
	struct use *use, *done = NULL;

	for (use = semaphore->uses; use; use = use->next) {
		if (use->queue == queue)
			return use;
		if (!done && queue_reached(use->queue, use->value))
			done = use;
	}
	use = done;
	if (!use) {
		use = calloc(1, sizeof(*use));
		if (!use)
			return NULL;
		use->next = semaphore->uses;
		semaphore->uses = use;
	}
	use->queue = queue;
	use->value = 0;
	return use;
}

/* If the semaphore is binary, replace the value that an entry waits for by the number of the next signal. */
static CUresult semaphore_take(const struct semaphore *semaphore, uint64_t *value)
{
	struct gpumem_timeline_take take = { .size = sizeof(take), .id = semaphore->id };
	CUresult result;

	if (semaphore->kind != SEMAPHORE_BINARY)
		return CUDA_SUCCESS;
	result = result_of_errno(client_ioctl(GPUMEM_TIMELINE_TAKE, &take));
	*value = take.value;
	return result;
}

/* Put an entry for a semaphore. @use: by the queue. The locks of the stream and of the semaphores are held. */
static CUresult semaphore_put(struct queue *queue, const struct semaphore *semaphore, struct use *use, bool wait,
			      uint64_t value)
{
	struct gpumem_sqe sqe = { .handle = semaphore->id };
	CUresult result;

	switch (semaphore->kind) {
	case SEMAPHORE_BINARY:
		sqe.op = wait ? GPUMEM_OP_WAIT : GPUMEM_OP_ADD;
		sqe.value = wait ? value : 1;
		break;
	case SEMAPHORE_TIMELINE:
		sqe.op = wait ? GPUMEM_OP_WAIT : GPUMEM_OP_SIGNAL;
		sqe.value = value;
		break;
	case SEMAPHORE_FENCE:
		sqe.op = GPUMEM_OP_WAIT;
		sqe.value = 1;
		break;
	}
	result = ring_put(queue, &sqe);
	if (!result)
		use->value = load_relaxed(&queue->tail);
	return result;
}

/* Whether all semaphores of a list can be used. semaphore_lock is held. */
static CUresult semaphores_check(const struct semaphore_ops *ops)
{
	const struct semaphore *semaphore;
	unsigned int i;

	for (i = 0; i < ops->count; i++) {
		semaphore = semaphore_find(ops->list[i]);
		if (!semaphore)
			return CUDA_ERROR_INVALID_VALUE;
		if (ops->wait ? ops->waits[i].flags : ops->signals[i].flags)
			return CUDA_ERROR_INVALID_VALUE;
		if (!ops->wait && semaphore->kind == SEMAPHORE_FENCE)
			return CUDA_ERROR_NOT_SUPPORTED;
	}
	return CUDA_SUCCESS;
}

/*
 * Put entries for @count semaphores of a list, AT_ONCE at most, or none. The ring has room, and both locks are held.
 */
static CUresult semaphores_put(struct queue *queue, const struct semaphore_ops *ops, unsigned int first,
			       unsigned int count)
{
	struct semaphore *semaphore[AT_ONCE];
	struct use *use[AT_ONCE];
	uint64_t value[AT_ONCE];
	CUresult result = CUDA_SUCCESS;
	unsigned int i;

	for (i = 0; i < count; i++) {
		semaphore[i] = semaphore_find(ops->list[first + i]);
		if (!semaphore[i])
			return CUDA_ERROR_INVALID_VALUE;
		use[i] = semaphore_use(semaphore[i], queue);
		if (!use[i])
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	for (i = 0; !result && i < count; i++) {
		value[i] = ops->wait ? ops->waits[first + i].params.fence.value :
				       ops->signals[first + i].params.fence.value;
		if (ops->wait)
			result = semaphore_take(semaphore[i], &value[i]);
	}
	for (i = 0; !result && i < count; i++)
		result = semaphore_put(queue, semaphore[i], use[i], ops->wait, value[i]);
	return result;
}

CUresult semaphores_submit(CUstream handle, bool own, const struct semaphore_ops *ops)
{
	struct queue *queue = NULL;
	CUstream stream;
	CUresult result = stream_get(handle, own, &stream);
	unsigned int i, count;

	if (result)
		return result;
	result = stream_begin(stream);
	if (result)
		return result;
	result = stream_prepare(stream, &queue);
	for (i = 0; !result && i < ops->count; i += count) {
		count = min_u64(ops->count - i, AT_ONCE);
		/* Waits for room in the ring, so no other lock may be held. */
		result = queue_room(queue, count);
		if (result)
			break;
		lock_take(&semaphore_lock);
		if (!i)
			result = semaphores_check(ops);
		if (!result)
			result = semaphores_put(queue, ops, i, count);
		lock_drop(&semaphore_lock);
	}
	if (queue)
		result = ring_finish(queue, result);
	lock_drop(&stream->lock);
	return result;
}
