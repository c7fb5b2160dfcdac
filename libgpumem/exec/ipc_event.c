// SPDX-License-Identifier: MIT
/*
 * Events that other processes reach. Owns the kernel's objects for them.
 *
 * Getting the handle of an event makes it an object of the kernel. From then on recording and querying the
 * event are system calls. A handle is a random name that the kernel resolves. Each open makes a new event.
 *
 * A thread that waits for an event of another process waits for that process's timeline, which the kernel
 * shows as an object of this process. A wait entry names the object, so the object is destroyed only when
 * the entry is complete. Until then the list of refs has it.
 *
 * If the process that recorded the event last ends before the recorded work is done, the event is lost:
 * waiting for it returns LAUNCH_FAILED, and a stream that waits for it fails.
 *
 * Locks: ref_lock for the list.
 *
 * Vocabulary: ref, an object that stands for another process's timeline.
 */
#include <errno.h>
#include <stdlib.h>

#include "exec/exec.h"

#define EVENT_HANDLE_MAGIC	0x74766567	/* "gevt" */
#define EVENT_HANDLE_VERSION	1

/* The contents of a CUipcEventHandle; the remaining bytes are zero. */
struct event_handle {
	uint32_t magic;
	uint32_t version;
	uint8_t token[GPUMEM_TOKEN_SIZE];
};

struct ref {
	struct ref *next;
	uint32_t id;
	struct queue *queue;		/* the queue of the entry that names the object */
	uint64_t value;			/* the entry is done when @queue has reached this */
};

static struct lock ref_lock;
static struct ref *refs;		/* ref_lock */

_Static_assert(sizeof(struct event_handle) <= sizeof(CUipcEventHandle), "a handle has 64 bytes");

/* Give back objects whose entries are complete. */
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
	struct event_handle handle = {
		.magic = EVENT_HANDLE_MAGIC, .version = EVENT_HANDLE_VERSION,
	};

	memcpy(handle.token, ipc->token, sizeof(handle.token));
	memset(out, 0, sizeof(*out));
	memcpy(out, &handle, sizeof(handle));
}

CUresult ipc_event_open(struct ipc_event *ipc, const CUipcEventHandle *in)
{
	struct gpumem_event_open open = { .size = sizeof(open) };
	struct event_handle handle;
	int error;

	memcpy(&handle, in, sizeof(handle));
	if (handle.magic != EVENT_HANDLE_MAGIC || handle.version != EVENT_HANDLE_VERSION)
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

/*
 * Ask the kernel for an event's state. SUCCESS: the recorded work is complete. NOT_READY: it is not; unless
 * @query, get->timeline is then an object to wait for, which the caller destroys.
 */
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
	schedule_wait_begin();
	do {
		error = client_ioctl(GPUMEM_TIMELINE_WAIT, &wait);
	} while (error == ETIMEDOUT);
	schedule_wait_end();
	client_destroy_id(get.timeline);
	/* If the other process's work failed, it is over all the same: that is no error of this process. */
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
