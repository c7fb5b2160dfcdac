// SPDX-License-Identifier: MIT
/*
 * Events that other processes reach.
 *
 * An event becomes one of the kernel's when its handle is asked for; from then on recording it, and
 * asking about it, are system calls. A handle is a random name that the kernel resolves. Opening
 * it makes an event of its own each time.
 *
 * Whoever waits for what another process recorded waits for that process's timeline, which the
 * kernel shows as an object of this process. A wait entry names the object, so it is destroyed only
 * when the entry is done: until then it stands in a list.
 *
 * When the process that recorded last ends before its work does, the event is lost: waiting returns
 * LAUNCH_FAILED, and a stream that waits for it fails.
 *
 * Locks: ref_lock for the list.
 *
 * Vocabulary: ref, an object that stands for another process's timeline.
 */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"
#include "ring.h"

#define HANDLE_MAGIC	0x74766567	/* "gevt" */
#define HANDLE_VERSION	1

/* What is in a CUipcEventHandle; the rest is zero. */
struct handle {
	uint32_t magic;
	uint32_t version;
	uint8_t token[GPUMEM_TOKEN_SIZE];
};

struct ref {
	struct ref *next;
	uint32_t id;
	struct queue *queue;		/* the entry that names it is in here */
	uint64_t value;			/* and is done when this is reached */
};

static struct lock ref_lock;
static struct ref *refs;		/* ref_lock */

_Static_assert(sizeof(struct handle) <= sizeof(CUipcEventHandle), "a handle has 64 bytes");

/* Give back what no entry needs any more. */
static void refs_reap(void)
{
	struct ref **link, *ref;

	lock_take(&ref_lock);
	for (link = &refs; (ref = *link);) {
		if (!queue_reached(ref->queue, ref->value)) {
			link = &ref->next;
			continue;
		}
		*link = ref->next;
		client_destroy_id(ref->id);
		free(ref);
	}
	lock_drop(&ref_lock);
}

CUresult ipc_event_make(struct ipc_event *ipc)
{
	struct gpumem_event_create create = {
		.size = sizeof(create), .flags = scope_token_flags(),
	};
	int error = client_ioctl(GPUMEM_EVENT_CREATE, &create);

	if (error)
		return error == EPERM ? scope_refused() : result_of_errno(error);
	memcpy(ipc->token, create.token, sizeof(ipc->token));
	store_release(&ipc->id, create.id);
	return CUDA_SUCCESS;
}

void ipc_event_drop(struct ipc_event *ipc)
{
	client_destroy_id(ipc->id);
	memset(ipc, 0, sizeof(*ipc));
	refs_reap();
}

void ipc_event_handle(const struct ipc_event *ipc, CUipcEventHandle *out)
{
	struct handle handle = { .magic = HANDLE_MAGIC, .version = HANDLE_VERSION };

	memcpy(handle.token, ipc->token, sizeof(handle.token));
	memset(out, 0, sizeof(*out));
	memcpy(out, &handle, sizeof(handle));
}

CUresult ipc_event_open(struct ipc_event *ipc, const CUipcEventHandle *in)
{
	struct gpumem_event_open open = { .size = sizeof(open) };
	struct handle handle;
	int error;

	memcpy(&handle, in, sizeof(handle));
	if (handle.magic != HANDLE_MAGIC || handle.version != HANDLE_VERSION)
		return CUDA_ERROR_MAP_FAILED;
	memcpy(open.token, handle.token, sizeof(open.token));
	error = client_ioctl(GPUMEM_EVENT_OPEN, &open);
	if (error)
		return error == EACCES || error == EPERM || error == ENOENT ?
			CUDA_ERROR_MAP_FAILED : result_of_errno(error);
	if (open.result & GPUMEM_EVENT_OPEN_OWN) {
		client_destroy_id(open.id);
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	memset(ipc, 0, sizeof(*ipc));
	ipc->id = open.id;
	ipc->import = true;
	return CUDA_SUCCESS;
}

CUresult ipc_event_record(const struct ipc_event *ipc, const struct queue *queue, uint64_t value)
{
	struct gpumem_event_record record = {
		.size = sizeof(record), .id = ipc->id,
		.timeline = queue ? queue->timeline : 0, .value = queue ? value : 0,
	};

	return result_of_errno(client_ioctl(GPUMEM_EVENT_RECORD, &record));
}

/* What it stands for now: SUCCESS if that is done, NOT_READY and, unless @query, what to wait for. */
static CUresult ipc_event_ask(const struct ipc_event *ipc, bool query, struct gpumem_event_get *get)
{
	int error;

	*get = (struct gpumem_event_get){
		.size = sizeof(*get), .id = ipc->id, .flags = query ? GPUMEM_EVENT_GET_QUERY : 0,
	};
	error = client_ioctl(GPUMEM_EVENT_GET, get);
	if (error)
		return result_of_errno(error);
	switch (get->state) {
	case GPUMEM_EVENT_COMPLETE:
		return CUDA_SUCCESS;
	case GPUMEM_EVENT_PENDING:
		return CUDA_ERROR_NOT_READY;
	default:
		return CUDA_ERROR_LAUNCH_FAILED;
	}
}

CUresult ipc_event_query(const struct ipc_event *ipc)
{
	struct gpumem_event_get get;

	return ipc_event_ask(ipc, true, &get);
}

CUresult ipc_event_synchronize(const struct ipc_event *ipc)
{
	struct gpumem_timeline_wait wait = { .size = sizeof(wait), .deadline = ~0ull };
	struct gpumem_event_get get;
	CUresult result = ipc_event_ask(ipc, false, &get);
	int error;

	if (result != CUDA_ERROR_NOT_READY)
		return result;
	wait.id = get.timeline;
	wait.value = get.value;
	do {
		error = client_ioctl(GPUMEM_TIMELINE_WAIT, &wait);
	} while (error == ETIMEDOUT);
	client_destroy_id(get.timeline);
	/* Failed work of the other process is that process's affair; it is over. */
	if (error == EIO)
		return wait.reached >= wait.value ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
	return result_of_errno(error);
}

CUresult ipc_event_wait(CUstream stream, const struct ipc_event *ipc)
{
	struct gpumem_sqe sqe = { .op = GPUMEM_OP_WAIT };
	struct gpumem_event_get get;
	struct queue *queue;
	struct ref *ref;
	CUresult result;

	refs_reap();
	ref = calloc(1, sizeof(*ref));
	if (!ref)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = ipc_event_ask(ipc, false, &get);
	if (result != CUDA_ERROR_NOT_READY) {
		free(ref);
		return result;
	}
	ref->id = sqe.handle = get.timeline;
	sqe.value = get.value;
	result = stream_lock(stream);
	if (!result) {
		result = stream_prepare(stream, &queue);
		if (!result) {
			result = ring_put(queue, &sqe);
			ref->queue = queue;
			ref->value = load_relaxed(&queue->tail);
			result = ring_finish(queue, result);
		}
		lock_drop(&stream->lock);
	}
	if (!ref->queue) {
		client_destroy_id(ref->id);
		free(ref);
		return result;
	}
	lock_take(&ref_lock);
	ref->next = refs;
	refs = ref;
	lock_drop(&ref_lock);
	return result;
}
