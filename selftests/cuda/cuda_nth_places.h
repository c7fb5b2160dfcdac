/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The operations of t_cuda_fail_nth for copies with attributes, batches of prefetches and discards, and pools by
 * location and type.  As in cuda_nth_ops.h, each is a function of struct env, which that header defines; a step
 * that checks contents returns CUDA_ERROR_UNKNOWN for wrong ones.
 *
 * Include this after cuda_nth_ops.h.
 */
#ifndef CUDA_NTH_PLACES_H
#define CUDA_NTH_PLACES_H

/* --- copies with attributes, whose source is read during the call and copied behind a closed gate */

static CUresult gate_close(struct env *e)
{
	*gate = 0;
	__atomic_add_fetch(&closings, 1, __ATOMIC_RELEASE);
	return cuStreamWaitValue32(e->stream, e->keep + SMALL, OPEN, CU_STREAM_WAIT_VALUE_EQ);
}

/* Open the gate and wait; returns @result, or the error of the wait. */
static CUresult gate_open(struct env *e, CUresult result)
{
	CUresult drained;

	*gate = OPEN;
	drained = cuStreamSynchronize(e->stream);
	return result ? result : drained;
}

static CUresult attributes(struct env *e)
{
	CUmemcpyAttributes attr = { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL };
	CUresult result = gate_close(e);

	if (!result)
		result = cuMemcpyWithAttributesAsync(e->keep, (uintptr_t)e->host, SMALL, &attr, e->stream);
	return gate_open(e, result);
}

static CUresult attributes_3d(struct env *e)
{
	CUDA_MEMCPY3D_BATCH_OP op = {
		.src = { .type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr.ptr = (uintptr_t)e->host },
		.dst = { .type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr.ptr = e->keep },
		.extent = { SMALL / 64, 8, 8 },
		.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL,
	};
	CUresult result = gate_close(e);

	if (!result)
		result = cuMemcpy3DWithAttributesAsync(&op, 0, e->stream);
	return gate_open(e, result);
}

/* --- prefetches and discards: of many ranges, for which the library allocates */

#define RANGES	512

static CUdeviceptr places_at[RANGES];
static size_t places_size[RANGES], places_first[2] = { 0, RANGES / 2 };
static CUmemLocation places_to[2] = {
	{ .type = CU_MEM_LOCATION_TYPE_HOST }, { .type = CU_MEM_LOCATION_TYPE_DEVICE },
};

static CUresult places_setup(struct env *e)
{
	CUresult result = managed(e);

	for (unsigned int i = 0; i < RANGES; i++) {
		places_at[i] = e->ptr + i * (BLOCK / RANGES);
		places_size[i] = BLOCK / RANGES;
	}
	if (!result)
		memset(cpu(e->ptr), 1, BLOCK);
	return result;
}

/* The first call makes the ring use all of its memory, so that it does not grow later. */
static CUresult warm_places_setup(struct env *e)
{
	CUresult result = places_setup(e);
	static bool grown;

	for (unsigned int i = 0; !result && !grown && i < RING_DEPTH; i++)
		result = cuMemPrefetchAsync(e->ptr, 1, places_to[0], 0, e->stream);
	grown = true;
	return result;
}

static CUresult prefetch(struct env *e)
{
	return cuMemPrefetchBatchAsync(places_at, places_size, RANGES, places_to, places_first, 2, 0, e->stream);
}

static CUresult discard(struct env *e)
{
	return cuMemDiscardBatchAsync(places_at, places_size, RANGES, 0, e->stream);
}

static CUresult discard_and_prefetch(struct env *e)
{
	return cuMemDiscardAndPrefetchBatchAsync(places_at, places_size, RANGES, places_to, places_first, 2, 0,
						 e->stream);
}

/* Advice and a prefetch that name a node. */
static CUresult advise_node(struct env *e)
{
	const CUmemLocation node = { .type = CU_MEM_LOCATION_TYPE_HOST_NUMA };
	CUresult result = cuMemAdvise(e->ptr, BLOCK, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, node);

	return result ? result : cuMemPrefetchAsync(e->ptr, BLOCK, node, 0, e->stream);
}

static CUresult advise_node_undo(struct env *e)
{
	int where[2] = { 77, 77 };
	CUresult result = cuMemRangeGetAttribute(&where[0], sizeof(where[0]),
						 CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, e->ptr, BLOCK);

	if (!result)
		result = cuMemRangeGetAttribute(&where[1], sizeof(where[1]),
						CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, e->ptr, BLOCK);
	if (!result && (where[0] != CU_DEVICE_CPU || where[1] != CU_DEVICE_CPU))
		result = CUDA_ERROR_UNKNOWN;
	return result ? result : free_ptr(e);
}

/* The memory can be used afterwards, and each half is where it was prefetched to. */
static CUresult prefetch_undo(struct env *e)
{
	int where[2] = { 77, 77 };
	CUresult result = CUDA_SUCCESS;

	for (int i = 0; !result && i < 2; i++)
		result = cuMemRangeGetAttribute(&where[i], sizeof(where[i]),
						CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION,
						e->ptr + i * (BLOCK / 2), BLOCK / 2);
	if (!result && (where[0] != CU_DEVICE_CPU || where[1] != 0))
		result = CUDA_ERROR_UNKNOWN;
	if (!result)
		result = cuMemsetD8(e->ptr, 3, BLOCK);
	return result ? result : free_ptr(e);
}

BOTH(cold_places, env_make, places_setup)

/* --- pools by location and type */

static CUmemLocation place_host = { .type = CU_MEM_LOCATION_TYPE_HOST };

/* The process's first use of the location makes its default pool. */
static CUresult place_pool(struct env *e)
{
	CUresult result = cuMemGetDefaultMemPool(&e->pool, &place_host, CU_MEM_ALLOCATION_TYPE_PINNED);

	return result ? result : cuMemAllocFromPoolAsync(&e->ptr, SMALL, e->pool, e->stream);
}

/* Make a pool of the host, make it the current one, and ask for it and its attributes. */
static CUresult place_current(struct env *e)
{
	const CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_HOST },
	};
	CUresult result = cuMemPoolCreate(&e->pool2, &props);
	CUmemoryPool now;
	int type = 0;

	if (result)
		return result;
	result = cuMemSetMemPool(&place_host, CU_MEM_ALLOCATION_TYPE_PINNED, e->pool2);
	if (!result)
		result = cuMemGetMemPool(&now, &place_host, CU_MEM_ALLOCATION_TYPE_PINNED);
	if (!result)
		result = cuMemPoolGetAttribute(now, CU_MEMPOOL_ATTR_LOCATION_TYPE, &type);
	if (!result && (now != e->pool2 || type != CU_MEM_LOCATION_TYPE_HOST))
		result = CUDA_ERROR_UNKNOWN;
	if (result)
		cuMemPoolDestroy(e->pool2);
	return result;
}

/* A managed pool, whose chunks the kernel learns the location of. */
static CUresult place_managed(struct env *e)
{
	const CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED,
		.location = { .type = CU_MEM_LOCATION_TYPE_HOST },
	};

	return cuMemPoolCreate(&e->pool2, &props);
}

/* A pool of a node of the host. */
static CUresult place_node(struct env *e)
{
	const CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_HOST_NUMA },
	};

	return cuMemPoolCreate(&e->pool2, &props);
}

static CUresult place_node_access(struct env *e)
{
	CUmemLocation node = { .type = CU_MEM_LOCATION_TYPE_HOST_NUMA };
	CUmemAccess_flags flags = 0;
	CUresult result = cuMemPoolGetAccess(&flags, e->pool2, &node);

	return result || flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? result : CUDA_ERROR_UNKNOWN;
}

static CUresult place_alloc(struct env *e)
{
	return cuMemAllocFromPoolAsync(&e->ptr, LARGE, e->pool2, e->stream);
}

static CUresult place_alloc_undo(struct env *e)
{
	CUresult result = cuMemFreeAsync(e->ptr, e->stream);

	if (!result)
		result = cuStreamSynchronize(e->stream);
	return result ? result : pool_destroy(e);
}

#endif
