// SPDX-License-Identifier: GPL-2.0
/*
 * The checker on programs that use memory wrongly: before its allocation, after its free, beyond its end, before it
 * was written; that free it wrongly; and on their correct twins.
 */
#include <cufile.h>
#include <pthread.h>
#include <gpumem.h>

#include "kselftest_harness.h"
#include "check_util.h"

/* ---- stream-ordered memory */

MISTAKE(used_before_its_allocation, "use-before-allocation")
{
	CUdeviceptr m;

	OK(cuMemAllocAsync(&m, BYTES, w->a));
	OK(WRONG(cuMemsetD8Async(m, 1, BYTES, w->b)));
	OK(cuCtxSynchronize());
	OK(cuMemFreeAsync(m, w->a));
}

TWIN(used_after_its_allocation)
{
	CUdeviceptr m;

	OK(cuMemAllocAsync(&m, BYTES, w->a));
	OK(cuEventRecord(w->e, w->a));
	OK(cuStreamWaitEvent(w->b, w->e, 0));
	OK(cuMemsetD8Async(m, 1, BYTES, w->b));
	OK(cuEventRecord(w->f, w->b));
	OK(cuStreamWaitEvent(w->a, w->f, 0));
	OK(cuMemFreeAsync(m, w->a));
}

MISTAKE(freed_before_the_last_use, "unordered-free")
{
	CUdeviceptr m;

	OK(cuMemAllocAsync(&m, BYTES, w->a));
	OK(cuStreamSynchronize(w->a));
	OK(cuMemsetD8Async(m, 1, BYTES, w->b));
	OK(WRONG(cuMemFreeAsync(m, w->a)));
}

TWIN(freed_in_the_stream_of_the_last_use)
{
	CUdeviceptr m;

	OK(cuMemAllocAsync(&m, BYTES, w->a));
	OK(cuStreamSynchronize(w->a));
	OK(cuMemsetD8Async(m, 1, BYTES, w->b));
	OK(cuMemFreeAsync(m, w->b));
}

MISTAKE(freed_in_another_stream_than_allocated, "unordered-free")
{
	CUdeviceptr m;

	OK(cuMemAllocAsync(&m, BYTES, w->a));
	OK(WRONG(cuMemFreeAsync(m, w->b)));
}

MISTAKE(used_after_its_free_in_the_stream, "use-after-free")
{
	CUdeviceptr m;

	OK(cuMemAllocAsync(&m, BYTES, w->a));
	OK(cuMemFreeAsync(m, w->a));
	WRONG(cuMemsetD8Async(m, 1, BYTES, w->a));
}

MISTAKE(pool_memory_freed_while_work_uses_it, "unordered-free")
{
	CUdeviceptr m;

	OK(cuMemAllocAsync(&m, BYTES, w->a));
	OK(cuMemsetD8Async(m, 1, BYTES, w->a));
	OK(WRONG(cuMemFree(m)));
}

TWIN(pool_memory_freed_after_synchronization)
{
	CUdeviceptr m;

	OK(cuMemAllocAsync(&m, BYTES, w->a));
	OK(cuMemsetD8Async(m, 1, BYTES, w->a));
	OK(cuStreamSynchronize(w->a));
	OK(cuMemFree(m));
}

TWIN(memory_is_used_again)
{
	CUdeviceptr m, n;

	OK(cuMemAllocAsync(&m, BYTES, w->a));
	OK(cuMemsetD8Async(m, 1, BYTES, w->a));
	OK(cuMemFreeAsync(m, w->a));
	OK(cuMemAllocAsync(&n, BYTES, w->a));
	OK(cuMemsetD8Async(n, 1, BYTES, w->a));
	OK(cuMemFreeAsync(n, w->a));
}

/* ---- free */

MISTAKE(freed_twice, "double-free")
{
	CUdeviceptr m;

	OK(cuMemAlloc(&m, BYTES));
	OK(cuMemFree(m));
	WRONG(cuMemFree(m));
}

MISTAKE(pool_memory_freed_twice, "double-free")
{
	CUdeviceptr m;

	OK(cuMemAllocAsync(&m, BYTES, w->a));
	OK(cuMemFreeAsync(m, w->a));
	WRONG(cuMemFreeAsync(m, w->a));
}

MISTAKE(pinned_memory_freed_twice, "double-free")
{
	OK(cuMemFreeHost(w->pinned));
	WRONG(cuMemFreeHost(w->pinned));
	w->pinned = NULL;
}

MISTAKE(middle_of_an_allocation_freed, "invalid-free")
{
	WRONG(cuMemFree(w->p + 512));
}

MISTAKE(pinned_memory_freed_as_device_memory, "invalid-free")
{
	WRONG(cuMemFree((uintptr_t)w->pinned));
}

MISTAKE(stack_freed, "invalid-free")
{
	WRONG(cuMemFreeHost(w->pageable));
}

TWIN(freed_once)
{
	CUdeviceptr m;

	OK(cuMemAlloc(&m, BYTES));
	OK(cuMemsetD8Async(m, 1, BYTES, w->a));
	OK(cuMemFree(m));
	OK(cuMemFree(0));
}

MISTAKE(used_after_free, "use-after-free")
{
	CUdeviceptr m;

	OK(cuMemAlloc(&m, 1 << 20));
	OK(cuMemFree(m));
	WRONG(cuMemsetD8Async(m, 1, BYTES, w->a));
}

MISTAKE(read_after_free, "use-after-free")
{
	CUdeviceptr m;

	OK(cuMemAlloc(&m, 1 << 20));
	OK(cuMemsetD8(m, 1, 1 << 20));
	OK(cuMemFree(m));
	WRONG(cuMemcpyDtoH(w->pageable, m + BYTES, BYTES));
}

/* ---- bounds */

MISTAKE(fill_beyond_the_end, "out-of-bounds")
{
	WRONG(cuMemsetD8Async(w->p, 1, BYTES + 1, w->a));
}

MISTAKE(copy_beyond_the_end, "out-of-bounds")
{
	WRONG(cuMemcpyDtoDAsync(w->q + 1, w->p, BYTES, w->a));
}

MISTAKE(source_beyond_the_end, "out-of-bounds")
{
	WRONG(cuMemcpyDtoH(w->pageable, w->p + BYTES / 2, BYTES));
}

MISTAKE(rows_beyond_the_end, "out-of-bounds")
{
	WRONG(cuMemsetD2D8Async(w->p, 64, 1, 32, BYTES / 64 + 1, w->a));
}

TWIN(whole_memory)
{
	OK(cuMemsetD8Async(w->p, 1, BYTES, w->a));
	OK(cuMemsetD2D8Async(w->p, 64, 1, 32, BYTES / 64, w->a));
	OK(cuMemcpyDtoDAsync(w->q, w->p, BYTES, w->a));
}

/* ---- bytes that nobody wrote */

MISTAKE(read_before_it_was_written, "uninitialized")
{
	CUdeviceptr m;

	OK(cuMemAlloc(&m, BYTES));
	OK(WRONG(cuMemcpyDtoH(w->pageable, m, BYTES)));
	OK(cuMemFree(m));
}

TWIN(read_after_it_was_written)
{
	CUdeviceptr m;

	OK(cuMemAlloc(&m, BYTES));
	OK(cuMemsetD8(m, 1, BYTES));
	OK(cuMemcpyDtoH(w->pageable, m, BYTES));
	OK(cuMemFree(m));
}

MISTAKE(one_byte_was_not_written, "uninitialized")
{
	CUdeviceptr m;

	OK(cuMemAlloc(&m, BYTES));
	OK(cuMemsetD8(m, 1, BYTES - 1));
	OK(WRONG(cuMemcpyDtoH(w->pageable, m, BYTES)));
	OK(cuMemFree(m));
}

TWIN(written_by_a_value)
{
	CUdeviceptr m;

	OK(cuMemAllocAsync(&m, 4, w->a));
	OK(cuStreamWriteValue32(w->a, m, 0, 0));
	OK(cuMemcpyDtoHAsync(w->pinned, m, 4, w->a));
	OK(cuMemFreeAsync(m, w->a));
}

TWIN(only_written_bytes_are_read)
{
	CUdeviceptr m;

	OK(cuMemAlloc(&m, BYTES));
	OK(cuMemsetD2D8(m, 64, 1, 32, BYTES / 64));
	for (unsigned int i = 0; i < BYTES / 64; i++)
		OK(cuMemcpyDtoH(w->pageable, m + 64 * i, 32));
	OK(cuMemFree(m));
}

MISTAKE(pool_memory_read_before_it_was_written, "uninitialized")
{
	CUdeviceptr m;

	OK(cuMemAllocAsync(&m, BYTES, w->a));
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, m, BYTES, w->a)));
	OK(cuMemFreeAsync(m, w->a));
}

MISTAKE(pool_memory_has_lost_its_bytes, "uninitialized")
{
	CUdeviceptr m;

	OK(cuMemAllocAsync(&m, BYTES, w->a));
	OK(cuMemsetD8Async(m, 1, BYTES, w->a));
	OK(cuMemFreeAsync(m, w->a));
	OK(cuMemAllocAsync(&m, BYTES, w->a));
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, m, BYTES, w->a)));
	OK(cuMemFreeAsync(m, w->a));
}

/* A system call writes to a block; in strict mode the kernel does not reach it. */
TWIN(pool_memory_is_written_by_a_system_call)
{
	CUdeviceptr m;
	int fd = open("/dev/urandom", O_RDONLY);

	OK(cuMemAllocAsync(&m, BYTES, w->a));
	OK(cuStreamSynchronize(w->a));
	if (!getenv("GPUMEM_STRICT"))
		OK(read(fd, (void *)m, BYTES) != BYTES);
	else
		OK(cuMemsetD8Async(m, 1, BYTES, w->a));
	close(fd);
	OK(cuMemcpyDtoHAsync(w->pinned, m, BYTES, w->a));
	OK(cuMemFreeAsync(m, w->a));
}

TWIN(told_what_others_wrote)
{
	CUdeviceptr m, n;

	OK(cuMemAlloc(&m, BYTES));
	OK(cuMemAllocAsync(&n, BYTES, w->a));
	OK(gpumem_check_tell(m + 1, BYTES - 1, GPUMEM_CHECK_WROTE));
	OK(gpumem_check_tell(n, BYTES, GPUMEM_CHECK_WROTE));
	OK(cuMemcpyDtoH(w->pageable, m + 1, BYTES - 1));
	OK(cuMemcpyDtoHAsync(w->pinned, n, BYTES, w->a));
	OK(gpumem_check_tell(m, BYTES + 1, GPUMEM_CHECK_WROTE) != CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree(m));
	OK(cuMemFreeAsync(n, w->a));
}

TWIN(told_what_is_kept)
{
	CUdeviceptr m, n;

	OK(cuMemAlloc(&m, BYTES));
	OK(cuMemAlloc(&n, BYTES));
	OK(gpumem_check_tell(m, 1, GPUMEM_CHECK_KEEPS));
	OK(gpumem_check_tell(n + 1, 1, GPUMEM_CHECK_KEEPS | GPUMEM_CHECK_WROTE));
	OK(gpumem_check_tell(m, 1, 0) != CUDA_ERROR_INVALID_VALUE);
	OK(gpumem_check_tell(m, 1, 4) != CUDA_ERROR_INVALID_VALUE);
}

MISTAKE(others_wrote_all_but_a_byte, "uninitialized")
{
	CUdeviceptr m;

	OK(cuMemAlloc(&m, BYTES));
	OK(gpumem_check_tell(m + 1, BYTES - 1, GPUMEM_CHECK_WROTE));
	OK(WRONG(cuMemcpyDtoH(w->pageable, m, BYTES)));
	OK(cuMemFree(m));
}

/* Read zeros of a file into memory, which is zero anyway. */
static void read_file(CUdeviceptr m, size_t bytes, CUstream stream)
{
	CUfileDescr_t descr = { .type = CU_FILE_HANDLE_TYPE_OPAQUE_FD };
	off_t at = 0, to = 0;
	CUfileHandle_t file;
	ssize_t done;

	descr.handle.fd = memfd_create("zeros", 0);
	OK(ftruncate(descr.handle.fd, BYTES));
	OK(cuFileHandleRegister(&file, &descr).err);
	if (stream) {
		OK(cuFileReadAsync(file, (void *)m, &bytes, &at, &to, &done, stream).err);
		OK(cuStreamSynchronize(stream));
	} else {
		OK(cuFileRead(file, (void *)m, bytes, 0, 0) != (ssize_t)bytes);
	}
	cuFileHandleDeregister(file);
	close(descr.handle.fd);
}

TWIN(files_are_read_into_memory)
{
	CUdeviceptr m, n;

	OK(cuMemAlloc(&m, BYTES));
	OK(cuMemAllocAsync(&n, BYTES, w->a));
	read_file(m, BYTES, NULL);
	read_file(n, BYTES, w->a);
	OK(cuMemcpyDtoH(w->pageable, m, BYTES));
	OK(cuMemcpyDtoHAsync(w->pinned, n, BYTES, w->a));
	OK(cuMemFree(m));
	OK(cuMemFreeAsync(n, w->a));
}

struct reader {
	struct program *w;
	CUdeviceptr m;
	ssize_t done;			/* of the request; atomic */
};

/* Copy the bytes as soon as the request says that it is done. */
static void *copy_when_done(void *arg)
{
	struct reader *r = arg;

	OK(cuCtxSetCurrent(r->w->ctx));
	while (__atomic_load_n(&r->done, __ATOMIC_ACQUIRE) < 0)
		;
	OK(cuMemcpyDtoHAsync(r->w->pinned, r->m, BYTES, r->w->b));
	return NULL;
}

TWIN(another_thread_copies_what_a_file_gave)
{
	CUfileDescr_t descr = { .type = CU_FILE_HANDLE_TYPE_OPAQUE_FD };
	off_t at = 0, to = 0;
	size_t bytes = BYTES;
	CUfileHandle_t file;
	unsigned int i;

	descr.handle.fd = memfd_create("zeros", 0);
	OK(ftruncate(descr.handle.fd, BYTES));
	OK(cuFileHandleRegister(&file, &descr).err);
	for (i = 0; i < 30; i++) {
		struct reader r = { .w = w, .done = -1 };
		pthread_t thread;

		OK(cuMemAlloc(&r.m, BYTES));
		OK(pthread_create(&thread, NULL, copy_when_done, &r));
		OK(cuFileReadAsync(file, (void *)r.m, &bytes, &at, &to, &r.done, w->a).err);
		OK(pthread_join(thread, NULL));
		OK(cuCtxSynchronize());
		OK(cuMemFree(r.m));
	}
	cuFileHandleDeregister(file);
	close(descr.handle.fd);
}

/* The copy is submitted before the file is read, and the CPU lets the stream go on. */
TWIN(a_file_is_read_before_a_copy_in_its_stream)
{
	CUfileDescr_t descr = { .type = CU_FILE_HANDLE_TYPE_OPAQUE_FD };
	off_t at = 0, to = 0;
	size_t bytes = BYTES;
	CUfileHandle_t file;
	ssize_t done;
	CUdeviceptr m;

	OK(cuMemAlloc(&m, BYTES));
	descr.handle.fd = memfd_create("zeros", 0);
	OK(ftruncate(descr.handle.fd, BYTES));
	OK(cuFileHandleRegister(&file, &descr).err);
	*(volatile unsigned int *)w->pinned = 0;
	OK(cuStreamWaitValue32(w->a, (uintptr_t)w->pinned, 7, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuFileReadAsync(file, (void *)m, &bytes, &at, &to, &done, w->a).err);
	OK(cuMemcpyDtoDAsync(w->p, m, BYTES, w->a));
	*(volatile unsigned int *)w->pinned = 7;
	OK(cuStreamSynchronize(w->a));
	OK(done != BYTES);
	OK(cuMemFree(m));
	cuFileHandleDeregister(file);
	close(descr.handle.fd);
}

/* The size is read when the stream reaches the request. */
TWIN(a_file_is_read_with_a_later_size)
{
	CUfileDescr_t descr = { .type = CU_FILE_HANDLE_TYPE_OPAQUE_FD };
	off_t at = 0, to = 0;
	size_t bytes = 0;
	CUfileHandle_t file;
	ssize_t done;
	CUdeviceptr m;

	OK(cuMemAlloc(&m, BYTES));
	descr.handle.fd = memfd_create("zeros", 0);
	OK(ftruncate(descr.handle.fd, BYTES));
	OK(cuFileHandleRegister(&file, &descr).err);
	OK(cuStreamWaitValue32(w->a, w->q, 7, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuFileReadAsync(file, (void *)m, &bytes, &at, &to, &done, w->a).err);
	bytes = BYTES;
	OK(cuStreamWriteValue32(w->b, w->q, 7, 0));
	OK(cuStreamSynchronize(w->a));
	OK(done != BYTES);
	OK(cuMemcpyDtoH(w->pageable, m, BYTES));
	OK(cuMemFree(m));
	cuFileHandleDeregister(file);
	close(descr.handle.fd);
}

MISTAKE(a_file_was_read_into_half, "uninitialized")
{
	CUdeviceptr m;

	OK(cuMemAlloc(&m, BYTES));
	read_file(m, BYTES / 2, NULL);
	OK(WRONG(cuMemcpyDtoH(w->pageable, m, BYTES)));
	OK(cuMemFree(m));
}

/* Submit two reads in one batch. @second: the file of the second one, or NULL: the same. */
static CUfileOpError read_batch(CUdeviceptr m, CUfileHandle_t second)
{
	CUfileDescr_t descr = { .type = CU_FILE_HANDLE_TYPE_OPAQUE_FD };
	CUfileIOParams_t reads[2];
	CUfileIOEvents_t events[2];
	CUfileBatchHandle_t batch;
	unsigned int i, nr = 2;
	CUfileHandle_t file;
	CUfileOpError err;

	descr.handle.fd = memfd_create("zeros", 0);
	OK(ftruncate(descr.handle.fd, BYTES));
	OK(cuFileHandleRegister(&file, &descr).err);
	OK(cuFileBatchIOSetUp(&batch, 2).err);
	for (i = 0; i < 2; i++)
		reads[i] = (CUfileIOParams_t) {
			.mode = CUFILE_BATCH, .opcode = CUFILE_READ, .fh = i && second ? second : file,
			.u.batch = {
				.devPtr_base = (void *)m, .devPtr_offset = i * BYTES / 2, .size = BYTES / 2,
			},
		};
	err = cuFileBatchIOSubmit(batch, 2, reads, 0).err;
	if (!err)
		OK(cuFileBatchIOGetStatus(batch, 2, &nr, events, NULL).err);
	cuFileBatchIODestroy(batch);
	cuFileHandleDeregister(file);
	close(descr.handle.fd);
	return err;
}

TWIN(files_are_read_in_a_batch)
{
	CUdeviceptr m;

	OK(cuMemAlloc(&m, BYTES));
	OK(read_batch(m, NULL));
	OK(cuMemcpyDtoH(w->pageable, m, BYTES));
	OK(cuMemFree(m));
}

/* The second request is wrong, so the first one is not submitted either. */
MISTAKE(a_batch_is_refused, "uninitialized")
{
	CUdeviceptr m;

	OK(cuMemAlloc(&m, BYTES));
	if (!read_batch(m, (CUfileHandle_t)w))
		_exit(3);
	OK(WRONG(cuMemcpyDtoH(w->pageable, m, BYTES / 2)));
	OK(cuMemFree(m));
}

MISTAKE(an_asynchronous_read_is_refused, "uninitialized")
{
	size_t bytes = BYTES;
	off_t at = 0, to = 0;
	CUdeviceptr m;
	ssize_t done;

	OK(cuFileDriverOpen().err);
	OK(cuMemAlloc(&m, BYTES));
	if (!cuFileReadAsync((CUfileHandle_t)w, (void *)m, &bytes, &at, &to, &done, w->a).err)
		_exit(3);
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, m, BYTES, w->a)));
	OK(cuStreamSynchronize(w->a));
	OK(cuMemFree(m));
}

TWIN(pinned_memory_is_the_cpus)
{
	OK(cuMemcpyHtoDAsync(w->p, w->pinned, BYTES, w->a));
}

TWIN(memory_of_a_host_pool_is_the_cpus)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { .type = CU_MEM_LOCATION_TYPE_HOST },
	};
	CUmemoryPool pool;
	CUdeviceptr m;

	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemAllocFromPoolAsync(&m, BYTES, pool, w->a));
	OK(cuMemcpyAsync(w->p, m, BYTES, w->a));
	OK(cuMemFreeAsync(m, w->a));
	OK(cuStreamSynchronize(w->a));
	OK(cuMemPoolDestroy(pool));
}

MISTAKE(host_pool_is_filled_without_access, "no-access")
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { .type = CU_MEM_LOCATION_TYPE_HOST },
	};
	CUmemoryPool pool;
	CUdeviceptr m;

	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemAllocFromPoolAsync(&m, BYTES, pool, w->a));
	if (!WRONG(cuMemsetD8Async(m, 0, BYTES, w->a)))
		_exit(3);
	OK(cuMemFreeAsync(m, w->a));
	OK(cuStreamSynchronize(w->a));
	OK(cuMemPoolDestroy(pool));
}

MISTAKE(peer_has_no_access_to_a_pool, "no-access")
{
	CUcontext other;
	CUstream stream;
	CUdeviceptr m;

	OK(cuMemAllocAsync(&m, BYTES, w->a));
	OK(cuStreamSynchronize(w->a));
	OK(cuDevicePrimaryCtxRetain(&other, 1));
	OK(cuCtxSetCurrent(other));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	if (!WRONG(cuMemsetD8Async(m, 0, BYTES, stream)))
		_exit(3);
	OK(cuStreamDestroy(stream));
	OK(cuCtxSetCurrent(w->ctx));
	OK(cuDevicePrimaryCtxRelease(1));
	OK(cuMemFreeAsync(m, w->a));
}

TWIN(exported_memory_may_be_written_by_others)
{
	CUipcMemHandle handle;
	CUdeviceptr m;

	OK(cuMemAlloc(&m, 2 << 20));
	OK(cuIpcGetMemHandle(&handle, m));
	OK(cuMemcpyDtoH(w->pageable, m, BYTES));
	OK(cuMemFree(m));
}

MISTAKE(array_read_before_it_was_written, "uninitialized")
{
	CUDA_ARRAY_DESCRIPTOR d = { .Width = 64, .Height = 1, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1 };
	CUarray array;

	OK(cuArrayCreate(&array, &d));
	OK(WRONG(cuMemcpyAtoH(w->pageable, array, 0, 64)));
	OK(cuArrayDestroy(array));
}

static CUarray mipmap_level(CUmipmappedArray *mipmap, unsigned int level)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {
		.Width = 512, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1,
	};
	CUarray array;

	if (!*mipmap)
		OK(cuMipmappedArrayCreate(mipmap, &d, 4));
	OK(cuMipmappedArrayGetLevel(&array, *mipmap, level));
	return array;
}

MISTAKE(level_read_before_it_was_written, "uninitialized")
{
	CUmipmappedArray mipmap = NULL;
	CUarray first = mipmap_level(&mipmap, 0), second = mipmap_level(&mipmap, 1);

	OK(cuMemcpyHtoA(first, 0, w->pageable, 512));
	OK(WRONG(cuMemcpyAtoH(w->pageable, second, 0, 256)));
	OK(cuMipmappedArrayDestroy(mipmap));
}

MISTAKE(level_written_and_read_unordered, "race")
{
	CUmipmappedArray mipmap = NULL;
	CUarray array = mipmap_level(&mipmap, 2);

	OK(cuMemcpyHtoAAsync(array, 0, w->pinned, 128, w->a));
	OK(WRONG(cuMemcpyAtoHAsync(w->pinned + 1024, array, 0, 128, w->b)));
	OK(cuCtxSynchronize());
	OK(cuMipmappedArrayDestroy(mipmap));
}

TWIN(levels_written_and_read)
{
	CUmipmappedArray mipmap = NULL;
	unsigned int level;

	for (level = 0; level < 4; level++) {
		CUarray array = mipmap_level(&mipmap, level);
		size_t bytes = 512 >> level;

		if (mipmap_level(&mipmap, level) != array)
			_exit(3);
		OK(cuMemcpyHtoA(array, 0, w->pageable, bytes));
		OK(cuMemcpyAtoH(w->pageable, array, 0, bytes));
	}
	OK(cuMipmappedArrayDestroy(mipmap));
	mipmap = NULL;
	/* The handles may be used again. */
	OK(cuMemcpyHtoA(mipmap_level(&mipmap, 3), 0, w->pageable, 64));
	OK(cuMipmappedArrayDestroy(mipmap));
}

TWIN(array_read_after_it_was_written)
{
	CUDA_ARRAY_DESCRIPTOR d = { .Width = 64, .Height = 1, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1 };
	CUarray array;

	OK(cuArrayCreate(&array, &d));
	OK(cuMemcpyHtoA(array, 0, w->pageable, 64));
	OK(cuMemcpyAtoH(w->pageable, array, 0, 64));
	OK(cuArrayDestroy(array));
}

static CUdeviceptr mapped(CUmemGenericAllocationHandle *handle)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	CUmemAccessDesc access = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE }, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUdeviceptr m;

	OK(cuMemCreate(handle, 2 << 20, &prop, 0));
	OK(cuMemAddressReserve(&m, 2 << 20, 0, 0, 0));
	OK(cuMemMap(m, 2 << 20, 0, *handle, 0));
	OK(cuMemSetAccess(m, 2 << 20, &access, 1));
	return m;
}

/* ---- handles and contexts */

MISTAKE(destroyed_stream_is_used, "invalid-handle")
{
	CUstream stream;

	OK(cuStreamCreate(&stream, 0));
	OK(cuStreamDestroy(stream));
	WRONG(cuStreamSynchronize(stream));
}

MISTAKE(destroyed_event_is_recorded, "invalid-handle")
{
	CUevent event;

	OK(cuEventCreate(&event, 0));
	OK(cuEventDestroy(event));
	WRONG(cuEventRecord(event, w->a));
}

MISTAKE(event_of_another_context, "wrong-context")
{
	CUcontext ctx;
	CUevent event;

	OK(cuCtxCreate(&ctx, NULL, 0, 0));
	OK(cuEventCreate(&event, 0));
	WRONG(cuEventRecord(event, w->a));
	OK(cuEventDestroy(event));
	OK(cuCtxDestroy(ctx));
	OK(cuCtxSetCurrent(w->ctx));
}

/* ---- mappings */

MISTAKE(unmapped_while_work_uses_it, "unordered-unmap")
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr m = mapped(&handle);

	OK(cuMemsetD8Async(m, 1, BYTES, w->a));
	/* Let the fill end without the program's knowledge: if it is not over, the unmapping may cost the context. */
	usleep(500000);
	OK(WRONG(cuMemUnmap(m, 2 << 20)));
	OK(cuMemAddressFree(m, 2 << 20));
	OK(cuMemRelease(handle));
}

TWIN(unmapped_after_synchronization)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr m = mapped(&handle);

	OK(cuMemsetD8Async(m, 1, BYTES, w->a));
	OK(cuStreamSynchronize(w->a));
	OK(cuMemUnmap(m, 2 << 20));
	OK(cuMemAddressFree(m, 2 << 20));
	OK(cuMemRelease(handle));
}

TWIN(mapping_outlives_its_context)
{
	CUmemGenericAllocationHandle handle;
	CUcontext ctx;
	CUdeviceptr m;

	OK(cuCtxCreate(&ctx, NULL, 0, 0));
	m = mapped(&handle);
	OK(cuCtxDestroy(ctx));
	OK(cuCtxSetCurrent(w->ctx));
	OK(cuMemUnmap(m, 2 << 20));
	OK(cuMemAddressFree(m, 2 << 20));
	OK(cuMemRelease(handle));
}

TEST_HARNESS_MAIN
