// SPDX-License-Identifier: MIT
/*
 * Handles of memory.
 *
 * A handle is one buffer object, of a device or of the host. It has references of the program and mappings, and
 * lives until both are gone: the program may release a handle whose memory is mapped, and get the same handle
 * again by an address in the mapping. The memory itself is the kernel's. It lives on in other processes that
 * imported it.
 *
 * The value that the program holds is the handle's in a table (core/table.h), so the value of a handle that ended
 * is found to be invalid.
 *
 * Locks: vmm_lock (vmm.h) for the table and the handles. It is not held while memory is allocated or freed.
 */
#include <stdlib.h>

#include "memory/memory.h"

#define HOST_LARGEST	(1ull << 40)	/* that the kernel knows */

/* The tag of memory (GPUMEM_BO_ALLOC): bit 0 is set. */
#define TAG_TYPE_SHIFT	1		/* CUmemLocationType */
#define TAG_TYPE_MASK	0x7u
#define TAG_RDMA	(1u << 4)
#define TAG_USAGE_SHIFT	5
#define TAG_USAGE_MASK	0x7u
#define TAG_NODE_SHIFT	16

static struct table handles;		/* vmm_lock */

/* ---- the table; vmm_lock is held */

struct handle *handle_find(uint64_t value)
{
	struct handle *handle = table_find(&handles, value);

	return handle && handle->refs ? handle : NULL;
}

static struct handle *handle_new(void)
{
	struct handle *handle = calloc(1, sizeof(*handle));

	if (!handle)
		return NULL;
	handle->value = table_add(&handles, handle);
	if (!handle->value) {
		free(handle);
		return NULL;
	}
	handle->refs = 1;
	return handle;
}

/* Free a handle if nothing uses it. Returns its buffer object or 0. */
static uint32_t handle_end(struct handle *handle)
{
	uint32_t bo = handle->bo;

	if (handle->refs || handle->maps)
		return 0;
	table_remove(&handles, handle->value);
	free(handle);
	return bo;
}

void handle_hold(struct handle *handle)
{
	handle->refs++;
}

void handle_use(struct handle *handle)
{
	handle->maps++;
}

uint32_t handle_leave(struct handle *handle)
{
	handle->maps--;
	return handle_end(handle);
}

/* ---- properties */

uint32_t handle_tag(const CUmemAllocationProp *prop)
{
	uint32_t tag = 1 | (prop->location.type & TAG_TYPE_MASK) << TAG_TYPE_SHIFT |
		(prop->allocFlags.usage & TAG_USAGE_MASK) << TAG_USAGE_SHIFT;

	if (prop->allocFlags.gpuDirectRDMACapable)
		tag |= TAG_RDMA;
	if (prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
		tag |= (uint32_t)prop->location.id << TAG_NODE_SHIFT;
	return tag;
}

bool handle_untag(uint32_t tag, CUdevice device, CUmemAllocationProp *prop)
{
	CUmemLocationType type = tag >> TAG_TYPE_SHIFT & TAG_TYPE_MASK;

	memset(prop, 0, sizeof(*prop));
	/* Another process wrote the tag. */
	if (!(tag & 1) || (type != CU_MEM_LOCATION_TYPE_DEVICE && type != CU_MEM_LOCATION_TYPE_HOST &&
			   type != CU_MEM_LOCATION_TYPE_HOST_NUMA))
		return false;
	prop->type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop->location.type = type;
	if (type == CU_MEM_LOCATION_TYPE_DEVICE)
		prop->location.id = device;
	else if (type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
		prop->location.id = tag >> TAG_NODE_SHIFT;
	/* As recorded: an import has no handle types and no flags. */
	return true;
}

static CUresult location_known(const CUmemLocation *location)
{
	switch (location->type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return location->id >= 0 && (unsigned int)location->id < client.devices ?
			CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
	case CU_MEM_LOCATION_TYPE_HOST:
		return CUDA_SUCCESS;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		return node_known(location->id);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult prop_known(const CUmemAllocationProp *prop)
{
	const unsigned int windows = CU_MEM_HANDLE_TYPE_WIN32 | CU_MEM_HANDLE_TYPE_WIN32_KMT;
	unsigned int types = prop->requestedHandleTypes, i;

	if (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED || types & windows ||
	    prop->allocFlags.compressionType > CU_MEM_ALLOCATION_COMP_GENERIC)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < sizeof(prop->allocFlags.reserved); i++)
		if (prop->allocFlags.reserved[i])
			return CUDA_ERROR_INVALID_VALUE;
	/* Memory of the host as a whole has no descriptor; memory of a node has. */
	if (types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
	    prop->location.type == CU_MEM_LOCATION_TYPE_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	/* As recorded, memory for tiles has none. */
	if (types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
	    prop->allocFlags.usage & CU_MEM_CREATE_USAGE_TILE_POOL)
		return CUDA_ERROR_INVALID_VALUE;
	/* As a driver without a channel for fabric handles. */
	if (types & CU_MEM_HANDLE_TYPE_FABRIC)
		return CUDA_ERROR_NOT_PERMITTED;
	return location_known(&prop->location);
}

CUresult handle_granularity(uint64_t *granularity, const CUmemAllocationProp *prop, int option)
{
	if (!granularity || !prop || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
				      option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
		return CUDA_ERROR_INVALID_VALUE;
	*granularity = SLOT;
	return CUDA_SUCCESS;
}

/* ---- making and releasing */

static CUresult memory_once(uint32_t *bo, CUdevice device, uint64_t size,
			    const CUmemAllocationProp *prop)
{
	struct gpumem_bo_alloc alloc = {
		.size = sizeof(alloc), .device = client.device[device].index, .length = size,
		.flags = prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? 0 :
			GPUMEM_BO_ALLOC_HOST,
		.name = "cuMemCreate", .tag = handle_tag(prop),
	};
	struct node_policy before;
	int error;

	if (!node_bind(&before, &prop->location))
		return CUDA_ERROR_OUT_OF_MEMORY;
	error = client_ioctl(GPUMEM_BO_ALLOC, &alloc);
	node_restore(&before);
	*bo = alloc.id;
	return result_of_errno(error);
}

static CUresult memory_alloc(uint32_t *bo, CUdevice device, uint64_t size,
			     const CUmemAllocationProp *prop)
{
	bool host = prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE;
	uint64_t most = host ? HOST_LARGEST : fault_total(device);
	CUresult result;

	if (size > most) {
		debug_refused(host ? GPUMEM_LIMIT_HOST : GPUMEM_LIMIT_DEVICE, device, size, 0, most);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	/* Copies of memory that the CPU does not reach need staging memory: have some before the device is full. */
	result = client.strict ? stage_reserve(device) : CUDA_SUCCESS;
	if (!result)
		result = memory_once(bo, device, size, prop);
	if (result != CUDA_ERROR_OUT_OF_MEMORY)
		return result;
	/* Pools give back the memory that they keep for later. */
	mem_reclaim();
	return memory_once(bo, device, size, prop);
}

/* A handle with one reference for a buffer object, which it takes over. */
static CUresult handle_make(uint64_t *value, uint32_t bo, uint64_t size, CUdevice device,
			    const CUmemAllocationProp *prop, bool imported)
{
	struct handle *handle;

	lock_take(&vmm_lock);
	handle = handle_new();
	if (handle) {
		handle->bo = bo;
		handle->size = size;
		handle->device = device;
		handle->prop = *prop;
		handle->imported = imported;
		*value = handle->value;
	}
	lock_drop(&vmm_lock);
	if (handle)
		return CUDA_SUCCESS;
	client_destroy_id(bo);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult handle_create(uint64_t *value, uint64_t size, const CUmemAllocationProp *prop,
		       unsigned long long flags)
{
	CUmemAllocationProp known;
	CUdevice device;
	CUresult result;
	uint32_t bo;

	if (!value || !prop || !size || size % SLOT || flags)
		return CUDA_ERROR_INVALID_VALUE;
	known = *prop;
	result = prop_known(&known);
	if (result)
		return result;
	device = known.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? known.location.id : 0;
	/* Memory is never compressed; the property says what the memory is. */
	known.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_NONE;
	result = memory_alloc(&bo, device, size, &known);
	return result ? result : handle_make(value, bo, size, device, &known, false);
}

CUresult handle_adopt(uint64_t *value, uint32_t bo, uint64_t size, CUdevice device,
		      const CUmemAllocationProp *prop)
{
	return handle_make(value, bo, size, device, prop, true);
}

CUresult handle_release(uint64_t value)
{
	struct handle *handle;
	uint32_t bo = 0;
	bool known;

	lock_take(&vmm_lock);
	handle = handle_find(value);
	known = handle;
	if (known) {
		handle->refs--;
		bo = handle_end(handle);
	}
	lock_drop(&vmm_lock);
	if (bo)
		client_destroy_id(bo);
	return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult handle_prop(CUmemAllocationProp *prop, uint64_t value)
{
	struct handle *handle;
	CUmemAllocationProp known;

	if (!prop)
		return CUDA_ERROR_INVALID_VALUE;
	lock_take(&vmm_lock);
	handle = handle_find(value);
	if (handle)
		known = handle->prop;
	lock_drop(&vmm_lock);
	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	*prop = known;
	return CUDA_SUCCESS;
}
