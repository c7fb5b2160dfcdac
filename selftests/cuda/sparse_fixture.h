/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sparse arrays of the cases in t_cuda_sparse.c and t_cuda_sparse_model.c: the fixture, handles of their memory,
 * maps of tiles and of tails, and copies.
 *
 * Include this after kselftest_harness.h.
 */
#ifndef SPARSE_FIXTURE_H
#define SPARSE_FIXTURE_H

#include "cuda_util.h"
#include "array_util.h"

#define TILE	(64 * KIB)
#define HANDLE	CUDA_ERROR_INVALID_HANDLE

typedef CUmemGenericAllocationHandle handle_t;

FIXTURE(cuda_sparse)
{
	CUcontext ctx;
	CUstream s, t;
	unsigned char *host;	/* 4 MiB */
	long long was;
};

FIXTURE_SETUP(cuda_sparse)
{
	CUdeviceptr p;

	cuda_begin(_metadata, &self->ctx);
	ASSERT_CU(cuStreamCreate(&self->s, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuStreamCreate(&self->t, CU_STREAM_NON_BLOCKING));
	self->host = calloc(1, 4 * MIB);
	ASSERT_NE(NULL, self->host);
	/* Have the library's staging memory before memory is counted. */
	ASSERT_CU(cuMemAlloc(&p, 4 * MIB));
	ASSERT_CU(cuStreamSynchronize(self->s));
	ASSERT_CU(cuMemFree(p));
	ASSERT_CU(make((CUarray *)&self->was, 16, 16, 0, U8, 1, SPARSE));
	ASSERT_CU(read_box(self->host, (CUarray)self->was, 0, 0, 0, 16, 1, 1));
	ASSERT_CU(cuArrayDestroy((CUarray)self->was));
	self->was = used(0);
}

QUIET_AFTERWARDS(cuda_sparse)

static inline CUresult pool(handle_t *h, size_t n)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
		.allocFlags = { .usage = CU_MEM_CREATE_USAGE_TILE_POOL },
	};

	return cuMemCreate(h, n, &prop, 0);
}

/* A map of no tiles yet; @h is 0 for an unmap. */
static inline CUarrayMapInfo map_of(CUarray a, CUmipmappedArray m, handle_t h, size_t offset)
{
	CUarrayMapInfo info;

	memset(&info, 0, sizeof(info));
	info.resourceType = m ? CU_RESOURCE_TYPE_MIPMAPPED_ARRAY : CU_RESOURCE_TYPE_ARRAY;
	if (m)
		info.resource.mipmap = m;
	else
		info.resource.array = a;
	info.memOperationType = h ? CU_MEM_OPERATION_TYPE_MAP : CU_MEM_OPERATION_TYPE_UNMAP;
	info.memHandle.memHandle = h;
	info.offset = offset;
	info.deviceBitMask = 1;
	return info;
}

static inline CUarrayMapInfo box_of(CUarray a, handle_t h, size_t offset, unsigned int x, unsigned int y,
				    unsigned int z, unsigned int w, unsigned int height, unsigned int d)
{
	CUarrayMapInfo info = map_of(a, NULL, h, offset);

	info.subresource.sparseLevel.offsetX = x;
	info.subresource.sparseLevel.offsetY = y;
	info.subresource.sparseLevel.offsetZ = z;
	info.subresource.sparseLevel.extentWidth = w;
	info.subresource.sparseLevel.extentHeight = height;
	info.subresource.sparseLevel.extentDepth = d;
	return info;
}

static inline CUarrayMapInfo tail_of(CUarray a, CUmipmappedArray m, handle_t h, size_t offset, size_t at, size_t n)
{
	CUarrayMapInfo info = map_of(a, m, h, offset);

	info.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL;
	info.subresource.miptail.offset = at;
	info.subresource.miptail.size = n;
	return info;
}

static inline CUresult box_async(CUarray a, void *host, bool write, size_t x, size_t y, size_t z, size_t w,
				 size_t h, size_t d, CUstream s)
{
	CUDA_MEMCPY3D c = { .WidthInBytes = w, .Height = h, .Depth = d };

	if (write) {
		c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
		c.dstArray = a;
		c.dstXInBytes = x;
		c.dstY = y;
		c.dstZ = z;
		c.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
		c.srcDevice = (uintptr_t)host;
		c.srcPitch = w;
		c.srcHeight = h;
	} else {
		c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
		c.srcArray = a;
		c.srcXInBytes = x;
		c.srcY = y;
		c.srcZ = z;
		c.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
		c.dstDevice = (uintptr_t)host;
		c.dstPitch = w;
		c.dstHeight = h;
	}
	return cuMemcpy3DAsync(&c, s);
}

#endif
