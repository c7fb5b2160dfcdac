// SPDX-License-Identifier: MIT
/*
 * Sparse ranges: device addresses whose tiles are bound to memory one by one.
 *
 * A range is a sparse mapping of the kernel, in the client's address space of the devices. Reads of a tile that
 * is not bound return zero, and writes to it are dropped. The kernel keeps the memory of bound tiles.
 *
 * The addresses are above all that a process can have, so the CPU reaches none of them and lookups find none.
 * Each address is used once: a late bind or copy never reaches the range of another owner.
 *
 * Locks: none; mem_lock while a range that could not be unmapped is recorded.
 */
#include "address/address.h"

#define FIRST_ADDRESS	(1ull << 62)
#define LAST_ADDRESS	(1ull << 63)

static uint64_t next_address = FIRST_ADDRESS;	/* atomic */

CUresult sparse_make(uint64_t *addr, uint64_t length)
{
	struct gpumem_vm_map map = {
		.size = sizeof(map), .vm = client.vm, .flags = GPUMEM_VM_MAP_SPARSE, .length = length,
		.readers = client.access, .writers = client.access,
	};

	if (load_relaxed(&next_address) > LAST_ADDRESS - length)
		return CUDA_ERROR_OUT_OF_MEMORY;
	map.addr = __atomic_fetch_add(&next_address, length, __ATOMIC_RELAXED);
	*addr = map.addr;
	return result_of_errno(client_ioctl(GPUMEM_VM_MAP, &map));
}

void sparse_end(uint64_t addr, uint64_t length)
{
	if (vm_unmap_host(addr, length))
		return;
	lock_take(&mem_lock);
	vm_unmap_later(addr, length);
	lock_drop(&mem_lock);
}

CUresult sparse_reserve(uint64_t addr, uint64_t length)
{
	struct gpumem_vm_bind bind = {
		.size = sizeof(bind), .vm = client.vm, .flags = GPUMEM_VM_BIND_RESERVE, .addr = addr,
		.length = length,
	};

	return result_of_errno(client_ioctl(GPUMEM_VM_BIND, &bind));
}

CUresult sparse_bind(uint64_t addr, uint64_t length, uint32_t bo, uint64_t offset, uint64_t step)
{
	struct gpumem_vm_bind bind = {
		.size = sizeof(bind), .vm = client.vm, .bo = bo, .offset = bo ? offset : 0,
		.step = bo ? step : 0, .addr = addr, .length = length,
	};

	return result_of_errno(client_ioctl(GPUMEM_VM_BIND, &bind));
}
