// SPDX-License-Identifier: MIT
/*
 * Pools: their attributes.
 *
 * Owns nothing. The attributes of CUDA 13.0 are switches and counters of pools that this process made; the kernel
 * counts the reserved bytes. The attributes since CUDA 13.2 are properties. Imported pools have properties, too,
 * and only those.
 *
 * Locks: pool->lock for the counters.
 */
#include "pool/parts.h"

static CUresult kernel_info(pool_t *pool, uint32_t reset, struct gpumem_pool_info *info)
{
	*info = (struct gpumem_pool_info){ .size = sizeof(*info), .id = pool->id, .flags = reset };
	if (pool->id)
		return result_of_errno(client_ioctl(GPUMEM_POOL_INFO, info));
	info->reserved_bytes = pool->reserved;
	info->reserved_high = pool->reserved_high;
	return CUDA_SUCCESS;
}

static CUresult counter(pool_t *pool, int attribute, uint64_t *value)
{
	struct gpumem_pool_info info;
	CUresult result = CUDA_SUCCESS;

	lock_take(&pool->lock);
	pool_used_merge(pool);
	/* Report the highest values first: the kernel may not have seen the reuse of kept chunks. */
	pool_tell(pool);
	switch (attribute) {
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		*value = pool_used(pool);
		break;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		*value = pool->used_high;
		break;
	default:
		result = kernel_info(pool, 0, &info);
		if (!result)
			*value = attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH ?
				info.reserved_high : info.reserved_bytes;
		break;
	}
	lock_drop(&pool->lock);
	return result;
}

/* Locations without a number have 0. An import does not know the node of host memory. */
static CUmemLocation location_of(const pool_t *pool)
{
	CUmemLocation location = pool->location;

	if (pool_is(pool, POOL_IMPORT) && pool_is(pool, POOL_HOST))
		location.type = CU_MEM_LOCATION_TYPE_HOST;
	if (location.type != CU_MEM_LOCATION_TYPE_DEVICE &&
	    location.type != CU_MEM_LOCATION_TYPE_HOST_NUMA)
		location.id = 0;
	return location;
}

/* The properties of a pool, which are constant. Since CUDA 13.2; documented, not measured. */
static CUresult property(const pool_t *pool, int attribute, void *out)
{
	uint64_t most = pool->limit;
	int value;

	switch (attribute) {
	case CU_MEMPOOL_ATTR_ALLOCATION_TYPE:
		value = pool_is(pool, POOL_MANAGED) ? CU_MEM_ALLOCATION_TYPE_MANAGED :
			CU_MEM_ALLOCATION_TYPE_PINNED;
		break;
	case CU_MEMPOOL_ATTR_EXPORT_HANDLE_TYPES:
		value = pool_is(pool, POOL_IMPORT) ? CU_MEM_HANDLE_TYPE_NONE : pool->handle_types;
		break;
	case CU_MEMPOOL_ATTR_LOCATION_ID:
		value = location_of(pool).id;
		break;
	case CU_MEMPOOL_ATTR_LOCATION_TYPE:
		value = location_of(pool).type;
		break;
	case CU_MEMPOOL_ATTR_HW_DECOMPRESS_ENABLED:
		value = pool_is(pool, POOL_DECOMPRESS);
		break;
	case CU_MEMPOOL_ATTR_MAX_POOL_SIZE:
		memcpy(out, &most, sizeof(most));
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	memcpy(out, &value, sizeof(value));
	return CUDA_SUCCESS;
}

CUresult pool_get_attribute(pool_t *pool, int attribute, void *out)
{
	CUresult result = CUDA_SUCCESS;
	uint64_t value = 0;
	int on = 0;

	if (!pool_valid(pool) || !out)
		return CUDA_ERROR_INVALID_VALUE;
	if (attribute > CU_MEMPOOL_ATTR_USED_MEM_HIGH)
		return property(pool, attribute, out);
	if (!pool_usable(pool))
		return CUDA_ERROR_INVALID_VALUE;
	switch (attribute) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
		on = load_relaxed(&pool->follow);
		break;
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
		on = load_relaxed(&pool->opportunistic);
		break;
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		on = load_relaxed(&pool->internal);
		break;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		value = load_relaxed(&pool->threshold);
		break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		result = counter(pool, attribute, &value);
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (result)
		return result;
	if (attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)
		memcpy(out, &on, sizeof(on));
	else
		memcpy(out, &value, sizeof(value));
	return CUDA_SUCCESS;
}

static CUresult reset_high(pool_t *pool, int attribute, const void *value)
{
	struct gpumem_pool_info info;
	CUresult result = CUDA_SUCCESS;
	uint64_t zero;

	memcpy(&zero, value, sizeof(zero));
	if (zero)
		return CUDA_ERROR_INVALID_VALUE;
	lock_take(&pool->lock);
	if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH) {
		pool_used_reset(pool);
		pool_tell(pool);
		if (pool->id)
			result = kernel_info(pool, GPUMEM_POOL_INFO_RESET_USED, &info);
	} else {
		result = kernel_info(pool, GPUMEM_POOL_INFO_RESET_RESERVED, &info);
		if (!result)
			pool->reserved_high = pool->reported_reserved = pool->reserved;
	}
	lock_drop(&pool->lock);
	return result;
}

CUresult pool_set_attribute(pool_t *pool, int attribute, const void *in)
{
	uint64_t value;
	int on;

	if (!pool_usable(pool) || !in)
		return CUDA_ERROR_INVALID_VALUE;
	switch (attribute) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
		memcpy(&on, in, sizeof(on));
		store_relaxed(&pool->follow, on != 0);
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
		memcpy(&on, in, sizeof(on));
		store_relaxed(&pool->opportunistic, on != 0);
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		memcpy(&on, in, sizeof(on));
		store_relaxed(&pool->internal, on != 0);
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		memcpy(&value, in, sizeof(value));
		store_relaxed(&pool->threshold, value);
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		return reset_high(pool, attribute, in);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}
