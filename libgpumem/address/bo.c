// SPDX-License-Identifier: MIT
/*
 * Buffer objects: the kernel's units of memory. memory/ and pool/ make blocks and chunks of them.
 *
 * Owns the marks that the process has had movable memory, and that the kernel has refused it. The library also has
 * buffer objects for itself: staging memory, time stamps and workers' buffers. Lookups do not find these, and they stay
 * until the process ends.
 *
 * Locks: mem_lock while addresses are reserved or released.
 */
#include "address/address.h"

static bool movable_used;		/* the process has had movable memory; atomic */
static bool movable_refused;		/* the kernel has refused it; atomic */

CUresult bo_alloc(uint32_t *bo, CUdevice device, uint64_t length, const char *name, uint32_t flags)
{
	struct gpumem_bo_alloc alloc = {
		.size = sizeof(alloc), .device = client.device[device].index, .length = length,
		.flags = flags & ALLOC_HOST ? GPUMEM_BO_ALLOC_HOST :
			flags & ALLOC_MOVABLE ? GPUMEM_BO_ALLOC_MANAGED : 0,
	};
	int error;

	*bo = 0;
	if (!alloc.flags && fault_alloc(device, length))
		return CUDA_ERROR_OUT_OF_MEMORY;
	strncpy((char *)alloc.name, name, sizeof(alloc.name) - 1);
	error = client_ioctl(GPUMEM_BO_ALLOC, &alloc);
	*bo = alloc.id;
	if (!error && flags & ALLOC_MOVABLE && !load_relaxed(&movable_used)) {
		resident_map();
		store_relaxed(&movable_used, true);
	}
	return result_of_errno(error);
}

bool bo_movable(void)
{
	return !load_relaxed(&movable_refused);
}

CUresult bo_alloc_managed(uint32_t *bo, CUdevice device, uint64_t length, const char *name, bool *movable)
{
	CUresult result;

	*movable = bo_movable();
	result = bo_alloc(bo, device, length, name, *movable ? ALLOC_MOVABLE : 0);
	if (*movable && result == CUDA_ERROR_NOT_SUPPORTED) {
		*movable = false;
		store_relaxed(&movable_refused, true);
		result = bo_alloc(bo, device, length, name, 0);
	}
	return result;
}

bool bo_reached(struct gpumem_bo_retire *retire)
{
	return client_ioctl(GPUMEM_BO_RETIRE, retire) || retire->live;
}

uint64_t bo_internal(CUdevice device, uint64_t length, const char *name)
{
	/*
	 * Host memory stands in for the device's when the device is full, because copies need staging memory then, too. In
	 * strict mode all copies of pageable memory need it, so host memory comes first.
	 */
	uint32_t first = client.strict ? ALLOC_HOST : 0, second = client.strict ? 0 : ALLOC_HOST, bo;
	uint64_t addr;

	if (bo_alloc(&bo, device, length, name, first) && bo_alloc(&bo, device, length, name, second))
		return 0;
	lock_take(&mem_lock);
	addr = vm_reserve(round_up(length, SLOT));
	lock_drop(&mem_lock);
	if (addr && !vm_map(addr, length, bo, false))
		return addr;
	if (addr) {
		lock_take(&mem_lock);
		vm_release(addr, round_up(length, SLOT));
		lock_drop(&mem_lock);
	}
	client_destroy_id(bo);
	return 0;
}
