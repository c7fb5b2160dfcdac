// SPDX-License-Identifier: MIT
/*
 * Requests: how a request is cut into operations, and the synchronous functions.
 *
 * On a file with O_DIRECT, the blocks that a request covers as a whole go between the storage and the buffer. The
 * parts of blocks at its edges go through the page cache: the kernel then reads, changes and writes the block, so two
 * requests may change parts of the same block at the same time, and the end of the file is exact. For writes a block
 * is at least a page, so that no page is written both ways at once. If the buffer's address does not have the
 * alignment that the device needs, the whole request goes through the page cache.
 *
 * If the kernel does not reach device memory by its address, the request goes on in a window of it (window.c). If the
 * file system refuses a direct operation, or the kernel cannot pin the buffer, the operation is repeated through the
 * page cache.
 *
 * An operation may transfer less than it asked for. Then the rest of the request is cut anew, until an operation
 * transfers nothing: that is the end of the file.
 *
 * No lock is held while a request runs.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>

#include "file/file.h"

/* Of operations through the page cache. */
#define PLAIN_MOST	(64u << 20)

void operation_next(const struct request *request, size_t at, struct operation *operation)
{
	const struct file *file = request->file;
	unsigned int align = request->write ? file->write_align : file->read_align;
	size_t left = request->size - at, most = PLAIN_MOST;

	*operation = (struct operation) {
		.fd = file->plain, .write = request->write, .way = WAY_COMPAT,
		.addr = request->addr + at, .offset = request->offset + (off_t)at,
	};
	if (file->direct >= 0) {
		unsigned int before = operation->offset % align;

		operation->way = WAY_STAGED;
		if (before) {
			most = align - before;
		} else if (left >= align && !(operation->addr % file->memory_align)) {
			operation->way = WAY_DIRECT;
			operation->fd = file->direct;
			left -= left % align;
			most = param_size(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB) << 10;
			most -= most % align;
			if (most < align)
				most = align;
		}
	}
	operation->size = left < most ? left : most;
}

bool operation_stage(const struct file *file, struct operation *operation)
{
	if (operation->way != WAY_DIRECT || (operation->result != -EINVAL && operation->result != -EFAULT &&
					     operation->result != -EOPNOTSUPP))
		return false;
	operation->way = WAY_STAGED;
	operation->fd = file->plain;
	return true;
}

ssize_t request_run(struct request *request)
{
	struct operation operations[RING_DEPTH];
	unsigned int n, i;

	while (request->done < request->size) {
		size_t at = request->done;

		for (n = 0; n < RING_DEPTH && at < request->size; n++) {
			operation_next(request, at, &operations[n]);
			at += operations[n].size;
		}
		ring_execute(operations, n);
		for (i = 0; i < n; i++) {
			ssize_t result = operations[i].result;

			if (window_open(request, result))
				break;
			if (operation_stage(request->file, &operations[i])) {
				operation_execute(&operations[i]);
				result = operations[i].result;
			}
			if (result == -EINTR || result == -EAGAIN)
				break;
			if (result < 0 && !request->done)
				return result;
			if (result <= 0)
				return request->done;
			request->done += result;
			if ((size_t)result < operations[i].size)
				break;
		}
	}
	return request->done;
}

void request_place(struct request *request, const struct memory *memory, off_t offset, size_t size)
{
	request->addr = memory->base + offset;
	request->size = size;
	request->device = memory->device;
	request->context = memory->context;
}

static CUresult (*tell)(CUdeviceptr ptr, size_t bytes, unsigned int flags);

/* A driver that is not ours has no such function. */
static void tell_find(void)
{
	tell = (CUresult (*)(CUdeviceptr, size_t, unsigned int))dlsym(RTLD_DEFAULT, "gpumem_check_tell");
}

void check_tell(uint64_t addr, size_t bytes, unsigned int flags)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, tell_find);
	if (tell)
		tell(addr, bytes, flags);
}

void request_wrote(const struct memory *memory, off_t offset, ssize_t bytes)
{
	if (memory->device && bytes > 0)
		check_tell(memory->base + offset, bytes, GPUMEM_CHECK_WROTE);
}

void request_end(struct request *request)
{
	window_close(request);
	file_put(request->file);
	driver_idle();
}

/* A synchronous request. The result is that of the public function. */
static ssize_t transfer(bool write, CUfileHandle_t fh, const void *base, size_t size, off_t file_offset,
			off_t offset)
{
	struct request request = { .write = write, .offset = file_offset };
	uint64_t start = count_start();
	struct memory memory;
	CUfileOpError err;
	CUresult cuda;
	ssize_t result;

	if (!base || file_offset < 0 || offset < 0 || size > SSIZE_MAX)
		return -CU_FILE_INVALID_VALUE;
	err = memory_find(base, &memory, &cuda);
	if (!err)
		err = memory_check(&memory, offset, size);
	if (!err)
		err = driver_lock();
	if (err)
		return -(ssize_t)err;
	request.file = file_get_locked(fh);
	if (request.file)
		driver_busy_locked();
	driver_unlock();
	if (!request.file)
		return -CU_FILE_HANDLE_NOT_REGISTERED;

	request_place(&request, &memory, offset, size);
	result = request_run(&request);
	if (!write)
		request_wrote(&memory, offset, result);
	request_end(&request);
	count_request(write, result, start, false);
	if (result >= 0)
		return result;
	errno = -result;
	return -1;
}

EXPORT ssize_t cuFileRead(CUfileHandle_t fh, void *bufPtr_base, size_t size, off_t file_offset, off_t bufPtr_offset)
{
	return transfer(false, fh, bufPtr_base, size, file_offset, bufPtr_offset);
}

EXPORT ssize_t cuFileWrite(CUfileHandle_t fh, const void *bufPtr_base, size_t size, off_t file_offset,
			   off_t bufPtr_offset)
{
	return transfer(true, fh, bufPtr_base, size, file_offset, bufPtr_offset);
}
