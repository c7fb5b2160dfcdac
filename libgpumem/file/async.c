// SPDX-License-Identifier: MIT
/*
 * Requests in the order of a stream.
 *
 * A request puts two things into the stream. A callback hands the request to a worker when the stream reaches it, and
 * a wait for a word in memory (its cell) keeps the stream there until the worker has finished. The callback returns
 * at once, because a process has one thread for the callbacks of all streams.
 *
 * Sizes and offsets are read when the stream reaches the request, unless cuFileStreamRegister() said that they are
 * final at submission. The number of bytes is written before the stream goes on.
 *
 * A callback also runs if work of the stream has failed. Then the request is not executed, and its number of bytes is
 * the negative value of CU_FILE_CUDA_DRIVER_ERROR.
 *
 * Cells lie in pages that are registered with CUDA. A cell only ever grows, so it can be used again while the stream
 * of an earlier request has not looked at it yet. The registration ends with the context that made it: it is made
 * anew then. The pages stay mapped until the process ends.
 *
 * Workers are threads that start when they are needed, at most as many as CUFILE_PARAM_EXECUTION_MAX_IO_THREADS. They
 * end after some seconds without work.
 *
 * Locks: async_lock for everything here. It is not held while a request runs or CUDA is called.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "file/file.h"
#include "file/trie.h"

#define CELLS		(FILE_PAGE / sizeof(uint64_t))
#define WORKER_LINGER	5		/* seconds */

struct cell {
	struct cell *next;
	uint64_t *word;
};

/* A request, from its submission until it is done. */
struct job {
	struct job *next;
	struct request request;
	struct memory memory;
	size_t *size;
	off_t *file_offset, *offset;
	size_t fixed_size;
	off_t fixed_file_offset, fixed_offset;
	off_t at;			/* the offset in memory, once a worker has the request */
	ssize_t *bytes;
	struct cell *cell;
	uint64_t value;			/* of the cell, when the request is done */
	uint64_t start;
	bool watched;			/* the submitter waits; async_lock */
	bool done;			/* async_lock */
};

struct stream {
	struct trie_leaf leaf;		/* its address is the handle */
	unsigned int flags;
	struct stream *next_gone;	/* streams_end() has removed it */
};

_Static_assert(!offsetof(struct stream, leaf), "a leaf is its stream");

static pthread_mutex_t async_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER, over = PTHREAD_COND_INITIALIZER;
static struct cell *free_cells;
static struct job *first, **last = &first;
static unsigned int workers, idle_workers;
static struct trie streams;

/* ---- cells */

/* Make sure that the current context's driver knows the page of a word. */
static CUresult page_register(const uint64_t *word)
{
	void *page = (void *)((uintptr_t)word & ~(uintptr_t)(FILE_PAGE - 1));
	CUdeviceptr ptr;
	CUresult result;

	if (!cuMemHostGetDevicePointer(&ptr, page, 0))
		return CUDA_SUCCESS;
	result = cuMemHostRegister(page, FILE_PAGE, CU_MEMHOSTREGISTER_PORTABLE);
	/* It stays registered, so the checker must not call it a leak. */
	if (!result)
		check_tell((uintptr_t)page, FILE_PAGE, GPUMEM_CHECK_KEEPS);
	/* Another thread may have been faster. */
	return result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED ? CUDA_SUCCESS : result;
}

static CUfileOpError page_add(void)
{
	struct cell *cells = calloc(CELLS, sizeof(*cells));
	uint64_t *words;

	if (!cells)
		return CU_FILE_NOMEM_ERROR;
	words = mmap(NULL, FILE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (words == MAP_FAILED) {
		free(cells);
		return CU_FILE_NOMEM_ERROR;
	}
	pthread_mutex_lock(&async_lock);
	for (unsigned int i = 0; i < CELLS; i++) {
		cells[i].word = &words[i];
		cells[i].next = free_cells;
		free_cells = &cells[i];
	}
	pthread_mutex_unlock(&async_lock);
	return CU_FILE_SUCCESS;
}

static void cell_give(struct cell *cell)
{
	pthread_mutex_lock(&async_lock);
	cell->next = free_cells;
	free_cells = cell;
	pthread_mutex_unlock(&async_lock);
}

static CUfileOpError cell_take(struct cell **out, CUresult *cuda)
{
	struct cell *cell;

	for (;;) {
		CUfileOpError err;

		pthread_mutex_lock(&async_lock);
		cell = free_cells;
		if (cell)
			free_cells = cell->next;
		pthread_mutex_unlock(&async_lock);
		if (cell)
			break;
		err = page_add();
		if (err)
			return err;
	}
	*cuda = page_register(cell->word);
	if (*cuda) {
		cell_give(cell);
		return CU_FILE_CUDA_DRIVER_ERROR;
	}
	*out = cell;
	return CU_FILE_SUCCESS;
}

/* ---- jobs */

static void job_end(struct job *job, ssize_t result)
{
	struct cell *cell = job->cell;
	bool watched;

	count_request(job->request.write, result, job->start, false);
	/* Before anything shows that the request is done: another thread may use the bytes then. */
	if (!job->request.write)
		request_wrote(&job->memory, job->at, result);
	__atomic_store_n(job->bytes, result, __ATOMIC_RELAXED);
	request_end(&job->request);
	/* The stream goes on from here. */
	__atomic_store_n(cell->word, job->value, __ATOMIC_RELEASE);
	pthread_mutex_lock(&async_lock);
	cell->next = free_cells;
	free_cells = cell;
	watched = job->watched;
	job->done = true;
	if (watched)
		pthread_cond_broadcast(&over);
	pthread_mutex_unlock(&async_lock);
	if (!watched)
		free(job);
}

static void job_run(struct job *job)
{
	struct request *request = &job->request;
	off_t offset = job->at = *job->offset;
	CUfileOpError err;
	ssize_t result;

	request_place(request, &job->memory, offset, *job->size);
	request->offset = *job->file_offset;
	err = request->offset < 0 || request->size > SSIZE_MAX ? CU_FILE_INVALID_VALUE :
		memory_check(&job->memory, offset, request->size);
	result = err ? -(ssize_t)err : request_run(request);
	/* As of cuFileRead(), but errno is another thread's. */
	job_end(job, !err && result < 0 ? -1 : result);
}

static void *worker_main(void *arg)
{
	struct timespec until;

	(void)arg;
	pthread_mutex_lock(&async_lock);
	for (;;) {
		struct job *job;
		int error = 0;

		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += WORKER_LINGER;
		idle_workers++;
		while (!first && error != ETIMEDOUT)
			error = pthread_cond_timedwait(&work, &async_lock, &until);
		idle_workers--;
		job = first;
		if (!job)
			break;
		first = job->next;
		if (!first)
			last = &first;
		pthread_mutex_unlock(&async_lock);
		job_run(job);
		pthread_mutex_lock(&async_lock);
	}
	workers--;
	pthread_mutex_unlock(&async_lock);
	return NULL;
}

/* A worker handles no signal of the program. async_lock is held. */
static bool worker_start(void)
{
	sigset_t all, old;
	pthread_attr_t attr;
	pthread_t thread;
	int error;

	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	error = pthread_create(&thread, &attr, worker_main, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	workers += !error;
	return !error;
}

/* The stream has reached a request. */
static void CUDA_CB reached(CUstream stream, CUresult status, void *arg)
{
	struct job *job = arg;
	bool none;

	(void)stream;
	if (status) {
		job_end(job, -(ssize_t)CU_FILE_CUDA_DRIVER_ERROR);
		return;
	}
	job->start = count_start();
	pthread_mutex_lock(&async_lock);
	if (!idle_workers && workers < param_size(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS))
		worker_start();
	none = !workers;
	if (!none) {
		job->next = NULL;
		*last = job;
		last = &job->next;
		pthread_cond_signal(&work);
	}
	pthread_mutex_unlock(&async_lock);
	if (none)
		job_run(job);
}

/* The registered stream with a handle, or NULL. async_lock is held. */
static struct stream *stream_find(CUstream handle)
{
	return (struct stream *)trie_find(&streams, (uintptr_t)handle);
}

static unsigned int flags_of(CUstream handle)
{
	struct stream *stream;
	unsigned int flags;

	pthread_mutex_lock(&async_lock);
	stream = stream_find(handle);
	flags = stream ? stream->flags : 0;
	pthread_mutex_unlock(&async_lock);
	return flags;
}

/* Read what is final now. */
static void job_bind(struct job *job, unsigned int flags)
{
	if (flags & CU_FILE_STREAM_FIXED_FILE_SIZE) {
		job->fixed_size = *job->size;
		job->size = &job->fixed_size;
	}
	if (flags & CU_FILE_STREAM_FIXED_FILE_OFFSET) {
		job->fixed_file_offset = *job->file_offset;
		job->file_offset = &job->fixed_file_offset;
	}
	if (flags & CU_FILE_STREAM_FIXED_BUF_OFFSET) {
		job->fixed_offset = *job->offset;
		job->offset = &job->fixed_offset;
	}
}

/* The stream does not wait for the job, so the caller does. */
static void job_watch(struct job *job)
{
	pthread_mutex_lock(&async_lock);
	while (!job->done)
		pthread_cond_wait(&over, &async_lock);
	pthread_mutex_unlock(&async_lock);
	free(job);
}

static CUfileOpError job_submit(struct job *job, CUfileHandle_t fh, CUstream stream, CUresult *cuda)
{
	CUfileOpError err = cell_take(&job->cell, cuda);
	uint64_t value, *word;

	if (err)
		return err;
	word = job->cell->word;
	value = job->value = __atomic_load_n(word, __ATOMIC_RELAXED) + 1;
	err = driver_lock();
	if (!err) {
		job->request.file = file_get_locked(fh);
		if (job->request.file)
			driver_busy_locked();
		else
			err = CU_FILE_HANDLE_NOT_REGISTERED;
		driver_unlock();
	}
	if (err) {
		cell_give(job->cell);
		return err;
	}
	job->watched = true;
	/*
	 * The checker looks at later work of the stream before the request runs. It gets the size and the offset as they
	 * are now, though the program may still change them.
	 */
	if (!job->request.write && !memory_check(&job->memory, *job->offset, *job->size))
		request_wrote(&job->memory, *job->offset, *job->size);
	*cuda = cuStreamAddCallback(stream, reached, job, 0);
	if (*cuda) {
		request_end(&job->request);
		cell_give(job->cell);
		return CU_FILE_CUDA_DRIVER_ERROR;
	}
	if (cuStreamWaitValue64(stream, (uintptr_t)word, value, CU_STREAM_WAIT_VALUE_GEQ)) {
		job_watch(job);
		return CU_FILE_SUCCESS;
	}
	pthread_mutex_lock(&async_lock);
	job->watched = false;
	if (!job->done)
		job = NULL;
	pthread_mutex_unlock(&async_lock);
	free(job);
	return CU_FILE_SUCCESS;
}

static CUfileError_t transfer_async(bool write, CUfileHandle_t fh, void *base, size_t *size, off_t *file_offset,
				    off_t *offset, ssize_t *bytes, CUstream stream)
{
	CUfileError_t result = file_result(CU_FILE_INVALID_VALUE);
	struct memory memory;
	struct job *job;

	if (!base || !size || !file_offset || !offset || !bytes)
		return result;
	result.err = memory_find(base, &memory, &result.cu_err);
	if (result.err)
		return result;
	job = calloc(1, sizeof(*job));
	if (!job)
		return file_result(CU_FILE_NOMEM_ERROR);
	*job = (struct job) {
		.request.write = write, .memory = memory, .size = size, .file_offset = file_offset,
		.offset = offset, .bytes = bytes,
	};
	job_bind(job, flags_of(stream));
	result.err = job_submit(job, fh, stream, &result.cu_err);
	if (result.err)
		free(job);
	return result;
}

/* ---- public functions */

EXPORT CUfileError_t cuFileReadAsync(CUfileHandle_t fh, void *bufPtr_base, size_t *size_p, off_t *file_offset_p,
				     off_t *bufPtr_offset_p, ssize_t *bytes_read_p, CUstream stream)
{
	return transfer_async(false, fh, bufPtr_base, size_p, file_offset_p, bufPtr_offset_p, bytes_read_p, stream);
}

EXPORT CUfileError_t cuFileWriteAsync(CUfileHandle_t fh, void *bufPtr_base, size_t *size_p, off_t *file_offset_p,
				      off_t *bufPtr_offset_p, ssize_t *bytes_written_p, CUstream stream)
{
	return transfer_async(true, fh, bufPtr_base, size_p, file_offset_p, bufPtr_offset_p, bytes_written_p, stream);
}

EXPORT CUfileError_t cuFileStreamRegister(CUstream handle, unsigned int flags)
{
	CUfileError_t result = file_result(CU_FILE_INVALID_VALUE);
	struct stream *stream, *other;

	if (flags & ~(CU_FILE_STREAM_FIXED_BUF_OFFSET | CU_FILE_STREAM_FIXED_FILE_OFFSET |
		      CU_FILE_STREAM_FIXED_FILE_SIZE | CU_FILE_STREAM_PAGE_ALIGNED_INPUTS))
		return result;
	result.err = driver_need(&result.cu_err);
	if (result.err)
		return result;
	stream = malloc(sizeof(*stream));
	if (!stream)
		return file_result(CU_FILE_NOMEM_ERROR);
	*stream = (struct stream) { .leaf.addr = (uintptr_t)handle, .flags = flags };
	pthread_mutex_lock(&async_lock);
	other = stream_find(handle);
	if (other)
		other->flags = flags;
	else if (trie_add(&streams, &stream->leaf))
		stream = NULL;
	else
		result.err = CU_FILE_NOMEM_ERROR;
	pthread_mutex_unlock(&async_lock);
	free(stream);
	return result;
}

EXPORT CUfileError_t cuFileStreamDeregister(CUstream handle)
{
	struct stream *stream;

	if (driver_forked())
		return file_result(CU_FILE_DRIVER_NOT_INITIALIZED);
	pthread_mutex_lock(&async_lock);
	stream = stream_find(handle);
	if (stream)
		trie_remove(&streams, &stream->leaf);
	pthread_mutex_unlock(&async_lock);
	free(stream);
	return file_result(stream ? CU_FILE_SUCCESS : CU_FILE_INVALID_VALUE);
}

void streams_end(void)
{
	struct stream *stream, *gone = NULL;

	pthread_mutex_lock(&async_lock);
	while ((stream = (struct stream *)trie_last(&streams, UINT64_MAX))) {
		trie_remove(&streams, &stream->leaf);
		stream->next_gone = gone;
		gone = stream;
	}
	pthread_mutex_unlock(&async_lock);
	while ((stream = gone)) {
		gone = stream->next_gone;
		free(stream);
	}
}
