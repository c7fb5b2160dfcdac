/* SPDX-License-Identifier: MIT */
/*
 * Handles of memory: what cuMemCreate() makes and cuMemMap() maps.
 */
#ifndef GPUMEM_MEMORY_HANDLE_H
#define GPUMEM_MEMORY_HANDLE_H

#include "exec/exec.h"

/* Memory with a handle. vmm_lock protects everything that is not constant. */
struct handle {
	uint64_t value;			/* what the program holds */
	uint64_t size;
	CUmemAllocationProp prop;	/* constant */
	uint32_t bo;			/* constant */
	CUdevice device;		/* whose memory it is, or by which host memory was allocated; constant */
	bool imported;			/* constant */
	unsigned long refs;		/* of the program: cuMemCreate(), cuMemRetainAllocationHandle(), imports */
	unsigned long maps;		/* mappings, and calls that use the memory */
};

CUresult handle_create(uint64_t *value, uint64_t size, const CUmemAllocationProp *prop,
		       unsigned long long flags);
/* Take over a buffer object of another process; on failure its id is destroyed. */
CUresult handle_adopt(uint64_t *value, uint32_t bo, uint64_t size, CUdevice device,
		      const CUmemAllocationProp *prop);
CUresult handle_release(uint64_t value);
CUresult handle_prop(CUmemAllocationProp *prop, uint64_t value);
CUresult handle_granularity(uint64_t *granularity, const CUmemAllocationProp *prop, int option);

/* The next four need vmm_lock. The handle of a value that the program may use, or NULL. */
struct handle *handle_find(uint64_t value);
/* One more reference of the program. */
void handle_hold(struct handle *handle);
/* One mapping or use more. */
void handle_use(struct handle *handle);
/* One mapping or use less. Returns the buffer object that the caller destroys without the lock, or 0. */
uint32_t handle_leave(struct handle *handle);

/* What a handle's memory is, as a number that travels with the memory to other processes, and back. */
uint32_t handle_tag(const CUmemAllocationProp *prop);
bool handle_untag(uint32_t tag, CUdevice device, CUmemAllocationProp *prop);

static inline bool handle_host(const struct handle *handle)
{
	return handle->prop.location.type != CU_MEM_LOCATION_TYPE_DEVICE;
}

#endif /* GPUMEM_MEMORY_HANDLE_H */
