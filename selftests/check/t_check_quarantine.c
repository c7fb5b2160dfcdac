// SPDX-License-Identifier: GPL-2.0
/*
 * The checker on what no call does: the CPU writes freed memory, or a byte behind memory.  Freed memory is kept, and
 * must not be missing when it is needed.
 */
#include "kselftest_harness.h"
#include "check_util.h"

/* The address is not reused at once, so the second allocation does not hide the mistake. */
MISTAKE(used_after_free_and_another_allocation, "use-after-free")
{
	CUdeviceptr old = w->p;

	OK(cuMemFree(w->p));
	OK(cuMemAlloc(&w->p, BYTES));
	if (!WRONG(cuMemsetD8(old, 0, BYTES)))
		_exit(3);
}

MISTAKE(pinned_memory_written_after_free, "use-after-free")
{
	unsigned char *old = w->pinned;

	OK(WRONG(cuMemFreeHost(w->pinned)));
	w->pinned = NULL;
	old[100] = 1;
}

MISTAKE(pinned_memory_written_after_free_and_released, "use-after-free")
{
	unsigned char *old = w->pinned;
	size_t free_bytes, total;

	OK(WRONG(cuMemFreeHost(w->pinned)));
	w->pinned = NULL;
	old[BYTES - 1] = 1;
	/* All that is kept is freed now. */
	OK(cuMemGetInfo(&free_bytes, &total));
	if (!free_bytes)
		_exit(3);
}

MISTAKE(byte_behind_pinned_memory, "out-of-bounds")
{
	unsigned char *memory;

	OK(WRONG(cuMemHostAlloc((void **)&memory, 1000, 0)));
	memory[1000] = 1;
	OK(cuMemFreeHost(memory));
}

MISTAKE(byte_behind_large_pinned_memory, "out-of-bounds")
{
	const size_t bytes = 8 << 20;
	unsigned char *memory;

	OK(WRONG(cuMemHostAlloc((void **)&memory, bytes, 0)));
	memory[bytes + 63] = 1;
	OK(cuMemFreeHost(memory));
}

MISTAKE(managed_memory_written_after_free, "use-after-free")
{
	CUdeviceptr memory;

	OK(cuMemAllocManaged(&memory, 8 << 20, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemsetD8(memory, 1, 8 << 20));
	OK(WRONG(cuMemFree(memory)));
	*(unsigned char *)(memory + (5 << 20)) = 1;
}

MISTAKE(small_managed_memory_is_used_after_free, "use-after-free")
{
	CUdeviceptr memory, other;

	OK(cuMemAllocManaged(&memory, 100, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemFree(memory));
	OK(cuMemAllocManaged(&other, 100, CU_MEM_ATTACH_GLOBAL));
	if (!WRONG(cuMemsetD8(memory, 0, 100)))
		_exit(3);
	OK(cuMemFree(other));
}

MISTAKE(byte_behind_managed_memory, "out-of-bounds")
{
	CUdeviceptr memory;

	OK(WRONG(cuMemAllocManaged(&memory, 4 << 20, CU_MEM_ATTACH_GLOBAL)));
	OK(cuMemPrefetchAsync(memory, 4 << 20, (CUmemLocation) { CU_MEM_LOCATION_TYPE_DEVICE, 0 }, 0, w->a));
	OK(cuStreamSynchronize(w->a));
	((unsigned char *)memory)[4 << 20] = 1;
	OK(cuMemFree(memory));
}

/* More than the device has; what is kept moves as other managed memory does. */
TWIN(managed_memory_again_and_again)
{
	CUdeviceptr memory[24];
	unsigned int i, k;

	for (k = 0; k < 3; k++) {
		for (i = 0; i < 24; i++) {
			OK(cuMemAllocManaged(&memory[i], 16 << 20, CU_MEM_ATTACH_GLOBAL));
			OK(cuMemsetD8Async(memory[i], i, 16 << 20, w->a));
		}
		OK(cuStreamSynchronize(w->a));
		for (i = 0; i < 24; i++) {
			if (*(unsigned char *)(memory[i] + (3 << 20)) != i)
				_exit(3);
			OK(cuMemFree(memory[i]));
		}
	}
}

/* Kept memory is looked at when its context ends. */
MISTAKE(written_after_free_before_the_context_ends, "use-after-free")
{
	unsigned char *memory;
	CUcontext other;

	OK(cuCtxCreate(&other, NULL, 0, 0));
	OK(cuMemAllocHost((void **)&memory, 4096));
	OK(WRONG(cuMemFreeHost(memory)));
	memory[1] = 1;
	OK(cuCtxDestroy(other));
	OK(cuCtxSetCurrent(w->ctx));
}

/* More frees than are kept: the oldest memory is looked at when it leaves. */
MISTAKE(written_after_free_and_many_frees, "use-after-free")
{
	unsigned char *memory;
	CUdeviceptr ptr;

	OK(cuMemAllocHost((void **)&memory, 4096));
	OK(WRONG(cuMemFreeHost(memory)));
	memory[1] = 1;
	for (unsigned int i = 0; i < 1001; i++) {
		OK(cuMemAlloc(&ptr, 16));
		OK(cuMemFree(ptr));
	}
}

/* Kept memory is freed when an allocation would fail otherwise. */
TWIN(all_memory_again_and_again)
{
	CUdeviceptr ptr[16];
	size_t free_bytes, total, part;
	unsigned int i, k;

	OK(cuMemGetInfo(&free_bytes, &total));
	/* Blocks are multiples of 2 MiB, with the red zones. */
	part = (free_bytes / 16 & ~(size_t)((2 << 20) - 1)) - 4096;
	for (k = 0; k < 4; k++) {
		for (i = 0; i < 16; i++)
			OK(cuMemAlloc(&ptr[i], part));
		for (i = 0; i < 16; i++)
			OK(cuMemFree(ptr[i]));
	}
	OK(cuMemAllocAsync(&ptr[0], free_bytes / 8 * 7, w->a));
	OK(cuMemFreeAsync(ptr[0], w->a));
	OK(cuStreamSynchronize(w->a));
}

TWIN(freed_memory_is_counted_as_free)
{
	size_t before, after, total;
	CUdeviceptr ptr;

	OK(cuMemGetInfo(&before, &total));
	OK(cuMemAlloc(&ptr, 16 << 20));
	OK(cuMemFree(ptr));
	OK(cuMemGetInfo(&after, &total));
	if (after != before)
		_exit(3);
}

/* The context's end frees what is kept. */
TWIN(context_ends_with_kept_memory)
{
	CUdeviceptr ptr;
	CUcontext other;

	OK(cuCtxCreate(&other, NULL, 0, 0));
	OK(cuMemAlloc(&ptr, 4096));
	OK(cuMemFree(ptr));
	OK(cuCtxDestroy(other));
	OK(cuCtxSetCurrent(w->ctx));
}

/* ---- pools */

static CUmemoryPool host_pool(size_t most)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_HOST }, .maxSize = most,
	};
	CUmemoryPool pool;

	OK(cuMemPoolCreate(&pool, &props));
	return pool;
}

/* The default pool of the host, which gives nothing back when the program waits. */
static CUmemoryPool keeping_pool(void)
{
	uint64_t most = UINT64_MAX;
	CUmemoryPool pool;

	OK(cuMemGetDefaultMemPool(&pool, &(CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST },
				  CU_MEM_ALLOCATION_TYPE_PINNED));
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &most));
	return pool;
}

/* The block is not reused at once. */
MISTAKE(pool_memory_is_used_after_free_and_another_allocation, "use-after-free")
{
	CUdeviceptr old, other;

	OK(cuMemAllocAsync(&old, 4096, w->a));
	OK(cuMemsetD8Async(old, 1, 4096, w->a));
	OK(cuMemFreeAsync(old, w->a));
	OK(cuMemAllocAsync(&other, 4096, w->a));
	OK(cuMemsetD8Async(other, 2, 4096, w->a));
	if (!WRONG(cuMemsetD8Async(old, 0, 4096, w->a)))
		_exit(3);
	OK(cuMemFreeAsync(other, w->a));
}

MISTAKE(pool_host_memory_written_after_free, "use-after-free")
{
	CUmemoryPool pool = host_pool(0);
	CUdeviceptr memory;

	OK(cuMemAllocFromPoolAsync(&memory, 10000, pool, w->a));
	OK(cuStreamSynchronize(w->a));
	memset((void *)memory, 1, 10000);
	OK(WRONG(cuMemFreeAsync(memory, w->a)));
	((unsigned char *)memory)[9999] = 1;
	OK(cuStreamSynchronize(w->a));
	OK(cuMemPoolDestroy(pool));
}

/* At the end of the process, and freed without a stream. */
MISTAKE(pool_host_memory_written_before_the_end, "use-after-free")
{
	CUmemoryPool pool = keeping_pool();
	CUdeviceptr memory;

	OK(cuMemAllocFromPoolAsync(&memory, 10000, pool, w->a));
	OK(cuStreamSynchronize(w->a));
	memset((void *)memory, 1, 10000);
	OK(WRONG(cuMemFree(memory)));
	((unsigned char *)memory)[5000] = 1;
}

/* The work was pending when the memory was freed: the wait fills it. */
MISTAKE(pool_host_memory_written_after_its_work, "use-after-free")
{
	CUmemoryPool pool = keeping_pool();
	CUdeviceptr memory, source;

	OK(cuMemAlloc(&source, 16 << 20));
	OK(cuMemsetD8Async(source, 3, 16 << 20, w->a));
	OK(cuMemAllocFromPoolAsync(&memory, 16 << 20, pool, w->a));
	for (unsigned int i = 0; i < 8; i++)
		OK(cuMemcpyAsync(memory, source, 16 << 20, w->a));
	OK(WRONG(cuMemFreeAsync(memory, w->a)));
	OK(cuStreamSynchronize(w->a));
	((unsigned char *)memory)[12345] = 1;
	OK(cuMemFree(source));
}

MISTAKE(pool_host_memory_written_before_a_trim, "use-after-free")
{
	CUmemoryPool pool = host_pool(0);
	CUdeviceptr memory;

	OK(cuMemAllocFromPoolAsync(&memory, 10000, pool, w->a));
	OK(cuStreamSynchronize(w->a));
	memset((void *)memory, 1, 10000);
	OK(WRONG(cuMemFreeAsync(memory, w->a)));
	((unsigned char *)memory)[0] = 1;
	OK(cuMemPoolTrimTo(pool, 0));
	OK(cuMemPoolDestroy(pool));
}

/* ---- red zones of pools */

/* Sizes that have a class of their own, share the largest class, and have none. */
MISTAKE(byte_behind_a_block_of_a_pool, "out-of-bounds")
{
	CUmemoryPool pool = host_pool(0);
	CUdeviceptr memory, next;

	OK(WRONG(cuMemAllocFromPoolAsync(&memory, 4096, pool, w->a)));
	OK(cuMemAllocFromPoolAsync(&next, 4096, pool, w->a));
	OK(cuStreamSynchronize(w->a));
	((unsigned char *)memory)[4096] = 1;
	OK(cuMemFreeAsync(memory, w->a));
	OK(cuMemFreeAsync(next, w->a));
	OK(cuStreamSynchronize(w->a));
	OK(cuMemPoolDestroy(pool));
}

MISTAKE(byte_behind_a_large_block_of_a_pool, "out-of-bounds")
{
	CUmemoryPool pool = host_pool(0);
	CUdeviceptr memory;

	OK(WRONG(cuMemAllocFromPoolAsync(&memory, 1 << 20, pool, w->a)));
	OK(cuStreamSynchronize(w->a));
	((unsigned char *)memory)[(1 << 20) + 63] = 1;
	OK(cuMemFree(memory));
	OK(cuMemPoolDestroy(pool));
}

/* This block is too large to be kept. */
MISTAKE(byte_behind_a_block_that_is_not_kept, "out-of-bounds")
{
	CUmemoryPool pool = host_pool(0);
	CUdeviceptr memory;

	OK(WRONG(cuMemAllocFromPoolAsync(&memory, (40 << 20) + 4096, pool, w->a)));
	OK(cuStreamSynchronize(w->a));
	((unsigned char *)memory)[(40 << 20) + 4096] = 1;
	OK(cuMemFreeAsync(memory, w->a));
	OK(cuMemPoolDestroy(pool));
}

/* The process ends while the block is kept. */
MISTAKE(byte_behind_a_block_before_the_end, "out-of-bounds")
{
	CUmemoryPool pool = keeping_pool();
	CUdeviceptr memory;

	OK(WRONG(cuMemAllocFromPoolAsync(&memory, 100, pool, w->a)));
	OK(cuStreamSynchronize(w->a));
	((unsigned char *)memory)[100] = 1;
	OK(cuMemFreeAsync(memory, w->a));
}

/* Without the red zone, this is the next block. */
MISTAKE(fill_begins_at_the_end_of_a_block, "out-of-bounds")
{
	CUdeviceptr memory[8];

	for (unsigned int i = 0; i < 8; i++)
		OK(cuMemAllocAsync(&memory[i], 4096, w->a));
	if (!WRONG(cuMemsetD8Async(memory[3] + 4096, 0, 16, w->a)))
		_exit(3);
	for (unsigned int i = 0; i < 8; i++)
		OK(cuMemFreeAsync(memory[i], w->a));
}

/* The work of a freed block that was larger still uses the bytes behind the next block. */
TWIN(zone_in_memory_that_is_still_used)
{
	const size_t bytes = 40 << 20;
	CUmemoryPool pool = host_pool(0);
	CUdeviceptr first, second, source;
	unsigned char *to;

	OK(cuMemAlloc(&source, bytes));
	OK(cuMemsetD8(source, 3, bytes));
	OK(cuCtxSynchronize());
	OK(cuMemHostAlloc((void **)&to, bytes, 0));
	for (unsigned int i = 0; i < 4; i++) {
		OK(cuMemAllocFromPoolAsync(&first, bytes, pool, w->a));
		OK(cuMemcpyAsync(first, source, bytes, w->a));
		OK(cuMemcpyAsync((CUdeviceptr)to, first, bytes, w->a));
		OK(cuMemFreeAsync(first, w->a));
		OK(cuMemAllocFromPoolAsync(&second, (36 << 20) - 4096, pool, w->a));
		OK(cuStreamSynchronize(w->a));
		for (size_t k = 0; k < bytes; k++)
			if (to[k] != 3)
				_exit(3);
		OK(cuMemFreeAsync(second, w->a));
		OK(cuStreamSynchronize(w->a));
	}
	OK(cuMemFreeHost(to));
	OK(cuMemFree(source));
	OK(cuMemPoolDestroy(pool));
}

/* No byte of a block lies in a red zone, nor behind its room. */
TWIN(all_bytes_of_blocks_of_all_sizes)
{
	static const size_t size[] = {
		1, 447, 448, 449, 511, 512, 513, 4095, 4096, 4097, 30000, 32 << 10, (32 << 10) + 1, 36 << 10, 64 << 10,
		256 << 10, (256 << 10) + 1, (1 << 20) - 4096, (1 << 20) - 513, (1 << 20) - 512, (1 << 20) - 1, 1 << 20,
		(1 << 20) + 1, (2 << 20) - 64, (2 << 20) - 63, 2 << 20, 8 << 20,
	};
	const unsigned int count = sizeof(size) / sizeof(*size);
	CUmemoryPool pool = host_pool(0);
	CUdeviceptr memory[sizeof(size) / sizeof(*size)];

	for (unsigned int k = 0; k < 3; k++) {
		for (unsigned int i = 0; i < count; i++)
			OK(cuMemAllocFromPoolAsync(&memory[i], size[i], pool, w->a));
		OK(cuStreamSynchronize(w->a));
		for (unsigned int i = 0; i < count; i++)
			memset((void *)memory[i], i + k, size[i]);
		for (unsigned int i = 0; i < count; i++) {
			const unsigned char *bytes = (const unsigned char *)memory[i];
			size_t held = 0;

			if (bytes[0] != i + k || bytes[size[i] - 1] != i + k)
				_exit(3);
			OK(cuPointerGetAttribute(&held, CU_POINTER_ATTRIBUTE_RANGE_SIZE, memory[i]));
			if (held != size[i])
				_exit(4);
		}
		for (unsigned int i = 0; i < count; i++)
			OK(cuMemFreeAsync(memory[i], w->a));
		OK(cuStreamSynchronize(w->a));
		OK(cuMemPoolTrimTo(pool, 0));
	}
	OK(cuMemPoolDestroy(pool));
}

/* ---- pools: what is kept is in nobody's way */

/* Work that the free comes after may still write. */
TWIN(pool_memory_is_freed_before_its_work_is_done)
{
	CUmemoryPool pool = host_pool(0);
	CUdeviceptr memory[8], source;

	OK(cuMemAlloc(&source, 8 << 20));
	OK(cuMemsetD8Async(source, 3, 8 << 20, w->a));
	for (unsigned int k = 0; k < 4; k++) {
		for (unsigned int i = 0; i < 8; i++) {
			OK(cuMemAllocFromPoolAsync(&memory[i], 8 << 20, pool, w->a));
			OK(cuMemcpyAsync(memory[i], source, 8 << 20, w->a));
			OK(cuMemFreeAsync(memory[i], w->a));
		}
	}
	OK(cuStreamSynchronize(w->a));
	OK(cuMemPoolDestroy(pool));
	OK(cuMemFree(source));
}

/* What is kept is not missing: neither in a pool with a limit, nor to other allocations. */
TWIN(pool_memory_again_and_again)
{
	CUmemoryPool pool = host_pool(8 << 20), own;
	uint64_t most = UINT64_MAX, reserved;
	CUdeviceptr memory, more[16];
	size_t free_bytes, total;
	unsigned int i, k;

	for (i = 0; i < 40; i++) {
		OK(cuMemAllocFromPoolAsync(&memory, 3 << 20, pool, w->a));
		OK(cuMemcpyAsync(memory, w->p, BYTES, w->a));
		OK(cuMemFreeAsync(memory, w->a));
	}
	OK(cuDeviceGetDefaultMemPool(&own, 0));
	OK(cuMemPoolSetAttribute(own, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &most));
	OK(cuStreamSynchronize(w->a));
	OK(cuMemGetInfo(&free_bytes, &total));
	for (i = 0; i < 4; i++) {
		/* Four blocks are kept, and no fifth. */
		for (k = 0; k < 5; k++) {
			OK(cuMemAllocAsync(&memory, 16 << 20, w->a));
			OK(cuMemsetD8Async(memory, 1, 4096, w->a));
			OK(cuMemFreeAsync(memory, w->a));
		}
		OK(cuStreamSynchronize(w->a));
		OK(cuMemPoolGetAttribute(own, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
		if (reserved < 64 << 20 || reserved > 128 << 20)
			_exit(4);
		/* More memory than is left beside what is kept. */
		for (k = 0; k < 16; k++)
			OK(cuMemAlloc(&more[k], (free_bytes / 20) & ~(size_t)4095));
		for (k = 0; k < 16; k++)
			OK(cuMemFree(more[k]));
	}
	OK(cuMemPoolDestroy(pool));
}

TWIN(pool_memory_is_given_back)
{
	uint64_t reserved = 0, used = 1;
	CUdeviceptr memory;
	CUmemoryPool pool;

	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	OK(cuMemAllocAsync(&memory, 4 << 20, w->a));
	OK(cuMemsetD8Async(memory, 1, 4096, w->a));
	OK(cuMemFreeAsync(memory, w->a));
	OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
	if (used)
		_exit(3);
	OK(cuStreamSynchronize(w->a));
	OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
	if (reserved)
		_exit(4);
}

TEST_HARNESS_MAIN
