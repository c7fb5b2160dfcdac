// SPDX-License-Identifier: MIT
/*
 * Rights of locations in mappings of memory.
 *
 * The kernel has the mapping in the devices' address space, with the rights of each device, and enforces them for
 * all work, also for work that was queued before the rights changed. For the CPU the kernel enforces the
 * protection of the process's mapping (mprotect()). In strict mode that is the right of host locations. Else it is
 * the union of the rights of all locations, because the CPU may reach device memory then. A mapping that the CPU
 * has no right to has no mmap() of its own: its addresses stay a reservation.
 *
 * A change of rights is done for all mappings of the range or for none. The CPU's part comes first, because only
 * it can be refused (vm.max_map_count); it is undone if a later mapping is refused.
 *
 * Calls that set rights claim their range of addresses, as those that map and unmap do (vmm.c). They make system
 * calls with the claim held and without a lock.
 *
 * Locks: vmm_lock for the rights of a mapping; vmm_covers() reads rights without it.
 */
#include <errno.h>
#include <sys/mman.h>

#include "memory/mapping.h"
#include "memory/memory.h"

#define READ	CU_MEM_ACCESS_FLAGS_PROT_READ
#define WRITE	(CU_MEM_ACCESS_FLAGS_PROT_READWRITE & ~READ)

/* ---- setting */

/* What a call changes: devices by their numbers in the client. */
struct change {
	uint32_t devices;		/* whose rights are given */
	uint32_t readers, writers;	/* those of them that get the right */
	bool host;			/* the host's right is given */
	uint32_t host_right;
};

static CUresult change_add(struct change *change, const CUmemAccessDesc *desc)
{
	uint32_t right = desc->flags, bit;
	CUresult result;

	if (right != CU_MEM_ACCESS_FLAGS_PROT_NONE && right != READ && right != (READ | WRITE))
		return CUDA_ERROR_INVALID_VALUE;
	switch (desc->location.type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		if (desc->location.id < 0 || (unsigned int)desc->location.id >= client.devices)
			return CUDA_ERROR_INVALID_VALUE;
		bit = 1u << client.device[desc->location.id].index;
		change->devices |= bit;
		/* The last entry of a location counts. */
		change->readers = right & READ ? change->readers | bit : change->readers & ~bit;
		change->writers = right & WRITE ? change->writers | bit : change->writers & ~bit;
		return CUDA_SUCCESS;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		result = node_known(desc->location.id);
		if (result)
			return result;
		/* fall through */
	case CU_MEM_LOCATION_TYPE_HOST:
		change->host = true;
		change->host_right = right;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static uint32_t readers_after(const struct mapping *m, const struct change *change)
{
	return (load_relaxed(&m->readers) & ~change->devices) | change->readers;
}

static uint32_t writers_after(const struct mapping *m, const struct change *change)
{
	return (load_relaxed(&m->writers) & ~change->devices) | change->writers;
}

static int protection_after(const struct mapping *m, const struct change *change)
{
	uint32_t right = change->host ? change->host_right : m->host;
	int protection = 0;

	if (right & READ || (!client.strict && readers_after(m, change)))
		protection |= PROT_READ;
	if (right & WRITE || (!client.strict && writers_after(m, change)))
		protection |= PROT_WRITE;
	return protection;
}

/* Give the CPU a protection of a mapping. Returns 0 or a positive errno. */
static int protect(struct mapping *m, int from, int to)
{
	if (from == to)
		return 0;
	if (from == PROT_NONE)
		return vm_open(m->alloc.base, m->alloc.size, m->handle->bo, to);
	if (to == PROT_NONE && vm_close_apart(m->alloc.base, m->alloc.size)) {
		store_relaxed(&m->home->apart, true);
		return 0;
	}
	return mprotect((void *)(uintptr_t)m->alloc.base, m->alloc.size, to) ? errno : 0;
}

/* The mapping behind a mapping, or NULL at the end of the range. */
static struct mapping *mapping_after(const struct mapping *m, uint64_t end)
{
	return mapping_end(m) < end ? mapping_at(mapping_end(m)) : NULL;
}

/* Whether a range consists of whole mappings. *@of_device: memory of a device is among them. */
static bool whole_mappings(uint64_t addr, uint64_t end, bool *of_device)
{
	struct mapping *m = mapping_at(addr);
	uint64_t at = addr;

	*of_device = false;
	while (m && m->alloc.base == at && mapping_end(m) <= end) {
		*of_device |= !handle_host(m->handle);
		at = mapping_end(m);
		if (at == end)
			return true;
		m = mapping_at(at);
	}
	return false;
}

/* Undo protect() for the mappings before @stop. */
static void protect_undo(uint64_t addr, uint64_t end, const struct mapping *stop,
			 const struct change *change)
{
	struct mapping *m;

	for (m = mapping_at(addr); m != stop; m = mapping_after(m, end))
		protect(m, protection_after(m, change), m->protection);
}

static CUresult protect_all(uint64_t addr, uint64_t end, const struct change *change)
{
	struct mapping *m;
	int error;

	for (m = mapping_at(addr); m; m = mapping_after(m, end)) {
		error = protect(m, m->protection, protection_after(m, change));
		if (error) {
			protect_undo(addr, end, m, change);
			return result_of_errno(error);
		}
	}
	return CUDA_SUCCESS;
}

/* Give a device the rights of two masks in whole mappings. Returns 0 or a positive errno. */
static int tell_device(uint64_t addr, uint64_t size, unsigned int device, uint32_t readers, uint32_t writers)
{
	struct gpumem_vm_access access = {
		.size = sizeof(access), .vm = client.vm, .device = device, .addr = addr, .length = size,
		.access = (readers >> device & 1 ? GPUMEM_ACCESS_READ : 0) |
			(writers >> device & 1 ? GPUMEM_ACCESS_WRITE : 0),
	};

	return client_ioctl(GPUMEM_VM_ACCESS, &access);
}

/*
 * Give the devices below @stop their former rights. If the kernel refuses that, too, it has other rights than the
 * library for this range, until the next change or the unmap.
 */
static void tell_undo(uint64_t addr, uint64_t end, const struct change *change, unsigned int stop)
{
	struct mapping *m;
	unsigned int i;

	for (m = mapping_at(addr); m; m = mapping_after(m, end))
		for (i = 0; i < stop; i++)
			if (change->devices >> i & 1)
				tell_device(m->alloc.base, m->alloc.size, i, load_relaxed(&m->readers),
					    load_relaxed(&m->writers));
}

static CUresult tell_devices(uint64_t addr, uint64_t end, const struct change *change)
{
	unsigned int i;
	int error = 0;

	for (i = 0; !error && i < GPUMEM_MAX_DEVICES; i++)
		if (change->devices >> i & 1)
			error = tell_device(addr, end - addr, i, change->readers, change->writers);
	if (error)
		tell_undo(addr, end, change, i - 1);
	return result_of_errno(error);
}

/* Record what protect_all() and tell_devices() did. */
static void rights_note(struct mapping *m, const struct change *change)
{
	const uint32_t by_rights = ALLOC_DARK | ALLOC_CLOSED;
	uint32_t flags;

	lock_take(&vmm_lock);
	store_relaxed(&m->protection, protection_after(m, change));
	store_relaxed(&m->readers, readers_after(m, change));
	store_relaxed(&m->writers, writers_after(m, change));
	if (change->host)
		store_relaxed(&m->host, change->host_right);
	flags = mapping_flags(m) & by_rights;
	__atomic_fetch_or(&m->alloc.flags, flags, __ATOMIC_RELAXED);
	__atomic_fetch_and(&m->alloc.flags, ~by_rights | flags, __ATOMIC_RELAXED);
	lock_drop(&vmm_lock);
}

/* The caller has the claim of the range, and no lock. */
static CUresult set_access(uint64_t addr, uint64_t end, const struct change *change)
{
	struct mapping *m;
	bool of_device;
	CUresult result;

	if (!whole_mappings(addr, end, &of_device))
		return CUDA_ERROR_INVALID_VALUE;
	/* As recorded: no host location gets a right in memory of a device. */
	if (of_device && change->host)
		return CUDA_ERROR_NOT_SUPPORTED;
	result = protect_all(addr, end, change);
	if (result)
		return result;
	result = tell_devices(addr, end, change);
	if (result) {
		protect_undo(addr, end, NULL, change);
		return result;
	}
	for (m = mapping_at(addr); m; m = mapping_after(m, end))
		rights_note(m, change);
	return CUDA_SUCCESS;
}

CUresult vmm_set_access(uint64_t addr, uint64_t size, const CUmemAccessDesc *list, uint64_t count)
{
	struct range_claim claim = { .base = addr };
	struct change change = { 0 };
	CUresult result = CUDA_SUCCESS;
	uint64_t i;

	if (!addr || !size || !list || !count || __builtin_add_overflow(addr, size, &claim.end))
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; !result && i < count; i++)
		result = change_add(&change, &list[i]);
	if (result)
		return result;
	claim_take(&claim);
	result = set_access(addr, claim.end, &change);
	claim_drop(&claim);
	return result;
}

static uint32_t device_right(const struct mapping *m, CUdevice device)
{
	unsigned int index = client.device[device].index;

	return (load_relaxed(&m->readers) >> index & 1 ? READ : 0) |
	       (load_relaxed(&m->writers) >> index & 1 ? WRITE : 0);
}

static uint32_t any_right(const struct mapping *m)
{
	return load_relaxed(&m->host) | (load_relaxed(&m->readers) ? READ : 0) |
	       (load_relaxed(&m->writers) ? WRITE : 0);
}

/* vmm_lock is held. */
static uint32_t right_of(const struct mapping *m, const CUmemLocation *location)
{
	switch (location->type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return device_right(m, location->id);
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		return load_relaxed(&m->host);
	default:
		return any_right(m);
	}
}

CUresult vmm_get_access(unsigned long long *flags, const CUmemLocation *location, uint64_t addr)
{
	struct mapping *m;
	struct span span;

	if (!flags || !location || !addr)
		return CUDA_ERROR_INVALID_VALUE;
	switch (location->type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		if (location->id < 0 || (unsigned int)location->id >= client.devices)
			return CUDA_ERROR_INVALID_DEVICE;
		break;
	case CU_MEM_LOCATION_TYPE_HOST:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		break;
	default:
		return CUDA_ERROR_INVALID_DEVICE;
	}
	if (!vm_lookup(addr, &span))
		return CUDA_ERROR_INVALID_VALUE;
	/* As recorded: memory that was not mapped has no rights to tell. */
	*flags = 0;
	if (!(span.flags & ALLOC_MAPPED))
		return CUDA_SUCCESS;
	lock_take(&vmm_lock);
	m = mapping_at(addr);
	if (m)
		*flags = right_of(m, location);
	lock_drop(&vmm_lock);
	return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- for other files */

static struct mapping *mapping_of(const struct span *span)
{
	return (struct mapping *)span->alloc;
}

bool vmm_allows(const struct span *span, CUdevice device, int right)
{
	const struct mapping *m = mapping_of(span);
	uint32_t want = right & PROT_WRITE ? WRITE : READ;

	/* The process's own mapping may have more, without strict mode. */
	if (device == CU_DEVICE_CPU)
		return load_relaxed(&m->host) & want;
	return device_right(m, device) & want;
}

bool vmm_covers_far(struct span *span, uint64_t addr, uint64_t bytes, CUdevice device, int right)
{
	uint64_t end = addr + bytes, at = span->base + span->size;
	struct span next = *span;

	if (!vmm_allows(span, device, right))
		return false;
	while (at < end) {
		if (!vm_lookup(at, &next) || !(next.flags & ALLOC_MAPPED) || next.base != at ||
		    !vmm_allows(&next, device, right))
			return false;
		span->flags |= next.flags;
		at = next.base + next.size;
	}
	return true;
}
