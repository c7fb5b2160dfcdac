/* SPDX-License-Identifier: GPL-2.0 */
/* Memory of pools by location and type for t_cuda_property.c: of the host, and managed memory. */
#ifndef PROPERTY_POOLS_H
#define PROPERTY_POOLS_H

static struct place {
	CUmemLocation location;
	CUmemAllocationType type;
	CUmemoryPool pools[2];		/* the default pool, and one of our own */
} places[] = {
	[HOST_POOL - HOST_POOL] = {
		{ .type = CU_MEM_LOCATION_TYPE_HOST }, CU_MEM_ALLOCATION_TYPE_PINNED, { NULL }
	},
	[MANAGED_POOL - HOST_POOL] = {
		{ .type = CU_MEM_LOCATION_TYPE_DEVICE }, CU_MEM_ALLOCATION_TYPE_MANAGED, { NULL }
	},
};

/* Let all devices reach the memory of a host's pool. */
static CUresult place_open(CUmemoryPool pool)
{
	CUmemAccessDesc desc[2] = {
		{ { .type = CU_MEM_LOCATION_TYPE_DEVICE }, CU_MEM_ACCESS_FLAGS_PROT_READWRITE },
		{ { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1 },
		  CU_MEM_ACCESS_FLAGS_PROT_READWRITE },
	};

	return cuMemPoolSetAccess(pool, desc, device_count > 1 ? 2 : 1);
}

static bool places_make(void)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(places); i++) {
		struct place *p = &places[i];
		CUmemPoolProps props = { .allocType = p->type, .location = p->location };

		if (cuMemGetDefaultMemPool(&p->pools[0], &p->location, p->type) ||
		    cuMemPoolCreate(&p->pools[1], &props))
			return false;
		for (int k = 0; k < 2 && p->type == CU_MEM_ALLOCATION_TYPE_PINNED; k++)
			if (place_open(p->pools[k]))
				return false;
	}
	return true;
}

/* Allocate from the current pool of the buffer's location and type, after another has become it. */
static CUresult place_alloc(struct buffer *b)
{
	struct place *p = &places[b->kind - HOST_POOL];
	CUmemoryPool pool, want = p->pools[rnd(2)];
	int type = 0;
	CUresult result = cuMemSetMemPool(&p->location, p->type, want);

	if (!result)
		result = cuMemGetMemPool(&pool, &p->location, p->type);
	if (!result)
		result = cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_ALLOCATION_TYPE, &type);
	if (!result && (pool != want || type != (int)p->type))
		result = CUDA_ERROR_UNKNOWN;
	return result ? result : cuMemAllocFromPoolAsync(&b->ptr, b->size, pool, NULL);
}

#endif
