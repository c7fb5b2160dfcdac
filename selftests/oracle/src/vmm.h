/* SPDX-License-Identifier: GPL-2.0 */
/* What the files public_vmm_*.c share: properties, rights, handles and mappings of 2 MiB and more. */
#ifndef ORACLE_VMM_H
#define ORACLE_VMM_H

#include "oracle.h"

/* the granularity of device memory */
#define G MiB(2)

static inline CUmemAllocationProp prop_at(CUmemLocationType type, int id, CUmemAllocationHandleType t)
{
	CUmemAllocationProp p;

	memset(&p, 0, sizeof(p));
	p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	p.requestedHandleTypes = t;
	p.location.type = type;
	p.location.id = id;
	return p;
}

static inline CUmemAccessDesc desc_at(CUmemLocationType type, int id, int flags)
{
	CUmemAccessDesc d;

	memset(&d, 0, sizeof(d));
	d.location.type = type;
	d.location.id = id;
	d.flags = flags;
	return d;
}

static inline CUmemAccessDesc rw(void)
{
	return desc_at(CU_MEM_LOCATION_TYPE_DEVICE, g_dev, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

static inline CUmemGenericAllocationHandle mk(size_t n)
{
	CUmemAllocationProp p = prop_at(CU_MEM_LOCATION_TYPE_DEVICE, g_dev, 0);
	CUmemGenericAllocationHandle h = 0;

	MUST(cuMemCreate(&h, n, &p, 0));
	return h;
}

static inline CUdeviceptr reserve(size_t n)
{
	CUdeviceptr d = 0;

	MUST(cuMemAddressReserve(&d, n, 0, 0, 0));
	return d;
}

/* The first tile of a sparse array, to be mapped to the beginning of a handle. */
static inline CUarrayMapInfo first_tile(CUarray array, const CUDA_ARRAY_SPARSE_PROPERTIES *sp,
					CUmemGenericAllocationHandle h)
{
	CUarrayMapInfo m;

	memset(&m, 0, sizeof(m));
	m.resourceType = CU_RESOURCE_TYPE_ARRAY;
	m.resource.array = array;
	m.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
	m.subresource.sparseLevel.extentWidth = sp->tileExtent.width;
	m.subresource.sparseLevel.extentHeight = sp->tileExtent.height;
	m.subresource.sparseLevel.extentDepth = 1;
	m.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
	m.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
	m.memHandle.memHandle = h;
	m.deviceBitMask = 1;
	return m;
}

static inline CUdeviceptr mapped(size_t n)
{
	CUdeviceptr d = reserve(n);
	CUmemGenericAllocationHandle h = mk(n);
	CUmemAccessDesc a = rw();

	MUST(cuMemMap(d, n, 0, h, 0));
	MUST(cuMemSetAccess(d, n, &a, 1));
	MUST(cuMemRelease(h));
	return d;
}

#endif
