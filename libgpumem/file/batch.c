// SPDX-License-Identifier: MIT
/*
 * Batches: up to a number of requests that run at the same time, and are waited for together.
 *
 * A batch has a ring of its own. Each of its requests has one operation in the ring; the next one is submitted when
 * the request's operation is reaped, which cuFileBatchIOGetStatus() does. An aligned request that is not longer than
 * one direct operation needs no second one. Where there is no io_uring, submission executes the requests.
 *
 * A request is reported once, by one call. Then its place is free for the next submission.
 *
 * A thread that waits holds no lock: it polls the ring's descriptor, so other threads can submit and cancel.
 *
 * A handle is a number that no other batch gets, so the handle of a batch that was destroyed stays invalid.
 *
 * Locks: batch->lock for a batch and its ring; file_lock, inside it, for the trie of batches.
 *
 * Vocabulary: entry, a request of a batch, from its submission until it is reported.
 */
#include <errno.h>
#include <limits.h>
#include <liburing.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>

#include "file/file.h"
#include "file/trie.h"

enum entry_state { ENTRY_FREE, ENTRY_RUNNING, ENTRY_DONE };

struct entry {
	enum entry_state state;
	struct request request;
	struct operation operation;
	CUfileIOEvents_t event;
	uint64_t start;
};

struct batch {
	struct trie_leaf leaf;		/* its address is the handle */
	unsigned int users;		/* atomic; the trie counts as one */
	pthread_mutex_t lock;
	/* Protected by @lock. */
	bool ringed;
	bool ended;
	struct io_uring ring;
	unsigned int running, done;	/* entries */
	bool canceled;			/* entries that run are to end early */
	unsigned int *order;		/* @done entries in the order of their completion */
	unsigned int capacity;		/* constant */
	struct entry entries[];
};

_Static_assert(!offsetof(struct batch, leaf), "a leaf is its batch");

static struct trie batches;		/* file_lock */
static uint64_t last_handle;		/* file_lock */

/* ---- lifetime */

/* The batch with a handle, or NULL. file_lock is held. */
static struct batch *batch_find(CUfileBatchHandle_t handle)
{
	return (struct batch *)trie_find(&batches, (uintptr_t)handle);
}

static CUfileOpError batch_get(CUfileBatchHandle_t handle, struct batch **out)
{
	CUfileOpError err = driver_lock();
	struct batch *batch;

	if (err)
		return err;
	batch = batch_find(handle);
	if (batch)
		__atomic_fetch_add(&batch->users, 1, __ATOMIC_RELAXED);
	driver_unlock();
	*out = batch;
	return batch ? CU_FILE_SUCCESS : CU_FILE_INVALID_VALUE;
}

static void batch_put(struct batch *batch)
{
	if (__atomic_sub_fetch(&batch->users, 1, __ATOMIC_ACQ_REL))
		return;
	if (batch->ringed)
		io_uring_queue_exit(&batch->ring);
	pthread_mutex_destroy(&batch->lock);
	free(batch->order);
	free(batch);
}

/* ---- entries; batch->lock is held */

static void entry_end(struct batch *batch, struct entry *entry, CUfileStatus_t status, ssize_t result)
{
	entry->state = ENTRY_DONE;
	entry->event.status = status;
	entry->event.ret = result;
	batch->order[batch->done++] = entry - batch->entries;
	batch->running--;
	request_end(&entry->request);
	count_request(entry->request.write, result, entry->start, true);
	count(COUNT_BATCH_COMPLETE, status == CUFILE_COMPLETE);
}

static void batch_kick(struct batch *batch)
{
	int taken;

	/* What the kernel does not take now stays in the ring until the next call. */
	do
		taken = io_uring_submit(&batch->ring);
	while (taken == -EINTR || taken == -EAGAIN);
}

static void entry_submit(struct batch *batch, struct entry *entry)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&batch->ring);

	if (!sqe) {
		batch_kick(batch);
		sqe = io_uring_get_sqe(&batch->ring);
	}
	if (!sqe) {
		entry_end(batch, entry, CUFILE_FAILED, -EAGAIN);
		return;
	}
	operation_prepare(sqe, &entry->operation);
	io_uring_sqe_set_data(sqe, entry);
}

/* An entry's operation is done: end the entry, or submit its next operation. */
static void entry_advance(struct batch *batch, struct entry *entry, int result)
{
	struct request *request = &entry->request;

	entry->operation.result = result;
	count_operation(&entry->operation, true);
	if (!batch->canceled && window_open(request, result)) {
		operation_next(request, request->done, &entry->operation);
		entry_submit(batch, entry);
		return;
	}
	if (operation_stage(request->file, &entry->operation)) {
		entry_submit(batch, entry);
		return;
	}
	if (result > 0)
		request->done += result;
	if (request->done == request->size || !result)
		entry_end(batch, entry, CUFILE_COMPLETE, request->done);
	else if (result == -ECANCELED || batch->canceled)
		entry_end(batch, entry, CUFILE_CANCELED, -ECANCELED);
	else if (result < 0 && result != -EINTR && result != -EAGAIN && request->done)
		entry_end(batch, entry, CUFILE_COMPLETE, request->done);
	else if (result < 0 && result != -EINTR && result != -EAGAIN)
		entry_end(batch, entry, CUFILE_FAILED, result);
	else {
		operation_next(request, request->done, &entry->operation);
		entry_submit(batch, entry);
	}
}

static void batch_reap(struct batch *batch)
{
	struct io_uring_cqe *cqe;
	bool any = false;

	while (batch->ringed && !io_uring_peek_cqe(&batch->ring, &cqe)) {
		struct entry *entry = io_uring_cqe_get_data(cqe);
		int result = cqe->res;

		io_uring_cqe_seen(&batch->ring, cqe);
		any = true;
		/* Cancellations have no entry. */
		if (entry)
			entry_advance(batch, entry, result);
	}
	if (any)
		batch_kick(batch);
	if (!batch->running)
		batch->canceled = false;
}

static void batch_cancel(struct batch *batch)
{
	batch_reap(batch);
	batch->canceled = batch->running;
	for (unsigned int i = 0; i < batch->capacity; i++) {
		struct io_uring_sqe *sqe;

		if (batch->entries[i].state != ENTRY_RUNNING)
			continue;
		sqe = io_uring_get_sqe(&batch->ring);
		if (!sqe) {
			batch_kick(batch);
			sqe = io_uring_get_sqe(&batch->ring);
		}
		if (!sqe)
			break;
		io_uring_prep_cancel(sqe, &batch->entries[i], 0);
		io_uring_sqe_set_data(sqe, NULL);
	}
	if (batch->ringed)
		batch_kick(batch);
}

/* Cancel what runs, and wait for it: the kernel may write to buffers until then. */
static void batch_end(struct batch *batch)
{
	pthread_mutex_lock(&batch->lock);
	batch->ended = true;
	batch_cancel(batch);
	while (batch->running) {
		struct io_uring_cqe *cqe;

		io_uring_wait_cqe(&batch->ring, &cqe);
		batch_reap(batch);
	}
	pthread_mutex_unlock(&batch->lock);
	batch_put(batch);
}

void batches_end(void)
{
	struct batch *batch;

	do {
		pthread_mutex_lock(&file_lock);
		batch = (struct batch *)trie_last(&batches, UINT64_MAX);
		if (batch)
			trie_remove(&batches, &batch->leaf);
		pthread_mutex_unlock(&file_lock);
		if (batch)
			batch_end(batch);
	} while (batch);
}

/* ---- submission */

/* Check a request, and take its file. */
static CUfileOpError request_make(const CUfileIOParams_t *params, struct request *request, CUresult *cuda)
{
	size_t size = params->u.batch.size;
	struct memory memory;
	CUfileOpError err;

	if (params->mode != CUFILE_BATCH || (params->opcode != CUFILE_READ && params->opcode != CUFILE_WRITE) ||
	    !params->u.batch.devPtr_base || params->u.batch.file_offset < 0 || params->u.batch.devPtr_offset < 0 ||
	    !size || size > SSIZE_MAX)
		return CU_FILE_INVALID_VALUE;
	err = memory_find(params->u.batch.devPtr_base, &memory, cuda);
	if (!err)
		err = memory_check(&memory, params->u.batch.devPtr_offset, size);
	if (!err)
		err = driver_lock();
	if (err)
		return err;
	*request = (struct request) {
		.file = file_get_locked(params->fh), .write = params->opcode == CUFILE_WRITE,
		.offset = params->u.batch.file_offset,
	};
	request_place(request, &memory, params->u.batch.devPtr_offset, size);
	if (request->file)
		driver_busy_locked();
	driver_unlock();
	return request->file ? CU_FILE_SUCCESS : CU_FILE_HANDLE_NOT_REGISTERED;
}

/* batch->lock is held. */
static void batch_start(struct batch *batch, const CUfileIOParams_t *params, const struct request *requests,
			unsigned int nr)
{
	unsigned int place = 0;

	for (unsigned int i = 0; i < nr; i++) {
		uint64_t addr = requests[i].addr;
		struct entry *entry;
		ssize_t wrote;

		while (batch->entries[place].state != ENTRY_FREE)
			place++;
		entry = &batch->entries[place];
		*entry = (struct entry) {
			.state = ENTRY_RUNNING, .request = requests[i], .event.cookie = params[i].cookie,
			.start = count_start(),
		};
		batch->running++;
		count(COUNT_BATCH_ENQUEUED, true);
		if (batch->ringed) {
			operation_next(&entry->request, 0, &entry->operation);
			entry_submit(batch, entry);
			wrote = entry->state == ENTRY_RUNNING ? (ssize_t)entry->request.size : 0;
		} else {
			wrote = request_run(&entry->request);
			entry_end(batch, entry, wrote < 0 ? CUFILE_FAILED : CUFILE_COMPLETE, wrote);
		}
		/* Whatever reads the bytes before the request is done reads too early anyway. */
		if (!requests[i].write && requests[i].device && wrote > 0)
			check_tell(addr, wrote, GPUMEM_CHECK_WROTE);
	}
	if (batch->ringed)
		batch_kick(batch);
}

static CUfileOpError batch_submit(struct batch *batch, unsigned int nr, const CUfileIOParams_t *params,
				  CUresult *cuda)
{
	struct request *requests = calloc(nr, sizeof(*requests));
	CUfileOpError err = CU_FILE_SUCCESS;
	unsigned int made = 0;

	if (!requests)
		return CU_FILE_NOMEM_ERROR;
	while (!err && made < nr) {
		err = request_make(&params[made], &requests[made], cuda);
		if (!err)
			made++;
	}
	if (!err) {
		pthread_mutex_lock(&batch->lock);
		batch_reap(batch);
		if (batch->ended)
			err = CU_FILE_INVALID_VALUE;
		else if (nr > batch->capacity - batch->running - batch->done)
			err = CU_FILE_BATCH_FULL;
		else
			batch_start(batch, params, requests, nr);
		pthread_mutex_unlock(&batch->lock);
	}
	while (err && made)
		request_end(&requests[--made]);
	free(requests);
	return err;
}

/* ---- public functions */

EXPORT CUfileError_t cuFileBatchIOSetUp(CUfileBatchHandle_t *batch_idp, unsigned int nr)
{
	CUfileError_t result = file_result(CU_FILE_INVALID_VALUE);
	struct batch *batch;
	uint64_t handle;

	if (!batch_idp || !nr || nr > param_size(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE))
		return result;
	result.err = driver_lock();
	if (result.err)
		return result;
	driver_unlock();
	batch = calloc(1, sizeof(*batch) + nr * sizeof(*batch->entries));
	if (!batch)
		return file_result(CU_FILE_NOMEM_ERROR);
	batch->order = calloc(nr, sizeof(*batch->order));
	if (!batch->order) {
		free(batch);
		return file_result(CU_FILE_NOMEM_ERROR);
	}
	batch->users = 1;
	batch->capacity = nr;
	pthread_mutex_init(&batch->lock, NULL);
	batch->ringed = !ring_make(&batch->ring, nr);
	result.err = driver_lock();
	if (result.err) {
		batch_put(batch);
		return result;
	}
	/* Once the lock is dropped, another thread may close the driver, which frees the batch. */
	handle = ++last_handle;
	batch->leaf.addr = handle;
	if (!trie_add(&batches, &batch->leaf))
		result.err = CU_FILE_NOMEM_ERROR;
	driver_unlock();
	if (result.err) {
		batch_put(batch);
		return result;
	}
	*batch_idp = (CUfileBatchHandle_t)(uintptr_t)handle;
	count(COUNT_BATCH_SETUP, true);
	return result;
}

EXPORT CUfileError_t cuFileBatchIOSubmit(CUfileBatchHandle_t batch_idp, unsigned int nr, CUfileIOParams_t *iocbp,
					 unsigned int flags)
{
	CUfileError_t result = file_result(CU_FILE_INVALID_VALUE);
	struct batch *batch;

	if (!batch_idp || !nr || !iocbp || flags)
		return result;
	result.err = batch_get(batch_idp, &batch);
	if (result.err)
		return result;
	result.err = nr > batch->capacity ? CU_FILE_BATCH_FULL : batch_submit(batch, nr, iocbp, &result.cu_err);
	batch_put(batch);
	count(COUNT_BATCH_SUBMIT, !result.err);
	return result;
}

/* Milliseconds until @until; -1 for ever. */
static int left_until(const struct timespec *until)
{
	struct timespec now;
	int64_t ms;

	if (!until)
		return -1;
	clock_gettime(CLOCK_MONOTONIC, &now);
	ms = (until->tv_sec - now.tv_sec) * 1000 + (until->tv_nsec - now.tv_nsec + 999999) / 1000000;
	return ms < 0 ? 0 : ms > INT32_MAX ? INT32_MAX : ms;
}

EXPORT CUfileError_t cuFileBatchIOGetStatus(CUfileBatchHandle_t batch_idp, unsigned int min_nr, unsigned int *nr,
					    CUfileIOEvents_t *iocbp, struct timespec *timeout)
{
	CUfileError_t result = file_result(CU_FILE_INVALID_VALUE);
	struct timespec until;
	struct batch *batch;
	unsigned int n;

	if (!batch_idp || !nr || !*nr || !iocbp || min_nr > *nr ||
	    (timeout && (timeout->tv_sec < 0 || timeout->tv_nsec < 0 || timeout->tv_nsec > 999999999)))
		return result;
	result.err = batch_get(batch_idp, &batch);
	if (result.err)
		return result;
	if (timeout) {
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += timeout->tv_sec;
		until.tv_nsec += timeout->tv_nsec;
	}
	pthread_mutex_lock(&batch->lock);
	for (;;) {
		struct pollfd ring = { .events = POLLIN };
		int ms;

		batch_reap(batch);
		/* More than what runs will not come. */
		if (batch->done >= min_nr || !batch->running || batch->ended)
			break;
		ring.fd = batch->ring.ring_fd;
		ms = left_until(timeout ? &until : NULL);
		if (!ms)
			break;
		pthread_mutex_unlock(&batch->lock);
		poll(&ring, 1, ms);
		pthread_mutex_lock(&batch->lock);
	}
	n = batch->done < *nr ? batch->done : *nr;
	for (unsigned int i = 0; i < n; i++) {
		struct entry *entry = &batch->entries[batch->order[i]];

		iocbp[i] = entry->event;
		entry->state = ENTRY_FREE;
	}
	batch->done -= n;
	memmove(batch->order, batch->order + n, batch->done * sizeof(*batch->order));
	pthread_mutex_unlock(&batch->lock);
	batch_put(batch);
	*nr = n;
	return result;
}

EXPORT CUfileError_t cuFileBatchIOCancel(CUfileBatchHandle_t batch_idp)
{
	struct batch *batch;
	CUfileOpError err = batch_get(batch_idp, &batch);

	if (!err) {
		pthread_mutex_lock(&batch->lock);
		batch_cancel(batch);
		pthread_mutex_unlock(&batch->lock);
		batch_put(batch);
		count(COUNT_BATCH_CANCEL, true);
	}
	return file_result(err);
}

EXPORT void cuFileBatchIODestroy(CUfileBatchHandle_t batch_idp)
{
	struct batch *batch;

	if (driver_lock())
		return;
	batch = batch_find(batch_idp);
	if (batch)
		trie_remove(&batches, &batch->leaf);
	driver_unlock();
	count(COUNT_BATCH_DESTROY, batch);
	if (batch)
		batch_end(batch);
}
