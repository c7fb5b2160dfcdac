// SPDX-License-Identifier: MIT
/*
 * Virtual memory management: reservations, mappings and rights.
 *
 * A reservation is a range of slots of an arena (address/vm.c), so no other mmap() of the process ever gets its
 * addresses. A mapping is one handle's memory, as a whole, at addresses of one reservation. It is an alloc with a
 * block of its own. Lookups find it like any other memory; it has no context.
 *
 * The kernel has the mapping in the devices' address space, with the rights of each device, and enforces them for
 * all work, also for work that was queued before the rights changed. For the CPU the kernel enforces the
 * protection of the process's mapping (mprotect()). In strict mode that is the right of host locations. Else it is
 * the union of the rights of all locations, because the CPU may reach device memory then. A mapping that the CPU
 * has no right to has no mmap() of its own: its addresses stay a reservation.
 *
 * Addresses that the CPU reached once stay apart from the rest of the arena in the process's list of mappings
 * (vm_close_apart()) until the reservation is freed: the kernel then neither merges nor splits mappings when
 * memory comes and goes at the same place.
 *
 * Calls that map, unmap, set rights or free a reservation claim their range of addresses (claim.c). A second call
 * about any part of the range waits until the first is done. System calls are made with the claim held and without
 * a lock. Only the holder of a claim changes the index and the mappings in its range.
 *
 * A map checks its arguments and reserves what it needs: the handle, the reservation, a mapping, and room in the
 * index. Then it asks the kernel, and publishes the mapping, which cannot fail.
 *
 * A change of rights is done for all mappings of the range or for none. The CPU's part comes first, because only
 * it can be refused (vm.max_map_count); it is undone if a later mapping is refused.
 *
 * An unmap hides the mappings first, and takes them out of the process and of the devices' address space
 * afterwards. It destroys buffer objects after it has dropped its claim: if nothing else holds the memory, that
 * frees it, which may take long. No call waits for queued work. Work that uses the memory later fails, as on an
 * H200.
 *
 * Copies and fills of mapped memory are the engine's, never inline: a mapping can go away at any time, and an
 * access by the calling thread would end the process.
 *
 * Locks: vmm_lock for reservations, handles, and the rights of a mapping; lookups and vmm_covers() read rights
 * without it. mem_lock for the index. Neither is held during a system call, except that mem_lock is held while an
 * arena is added. A thread takes vmm_lock before mem_lock, and no lock before a claim.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "memory/memory.h"

#define READ	CU_MEM_ACCESS_FLAGS_PROT_READ
#define WRITE	(CU_MEM_ACCESS_FLAGS_PROT_READWRITE & ~READ)

struct reservation {
	uint64_t base, length;
	unsigned long maps;		/* mappings in it, and those that a call is making or taking out */
	uint32_t apart;			/* vm_close_apart() was called for a part of it; atomic */
};

/*
 * Reused for mappings only, because lookups may still read it. The rights are atomic. To write: the claim of its
 * addresses, and vmm_lock for rights.
 */
struct mapping {
	struct alloc alloc;		/* first; size 0: not mapped */
	struct handle *handle;		/* vmm_lock or the claim to read; the handle counts the mapping */
	struct reservation *home;
	uint32_t readers, writers;	/* a bit per device, by its number in the client */
	uint32_t host;			/* right of host locations, CUmemAccess_flags */
	int protection;			/* PROT_* of the process's mapping; PROT_NONE: there is none */
	uint32_t doomed;		/* after an unmap: the buffer object to be destroyed, or 0 */
	struct mapping *next;		/* in a list of an unmap, or unused */
};

struct lock vmm_lock;

static struct sorted reservations;	/* by address; vmm_lock */
static struct mapping *unused;		/* vmm_lock */

/* ---- reservations; vmm_lock is held */

static uint64_t reservation_base(const void *entry)
{
	return ((const struct reservation *)entry)->base;
}

/* The reservation that an address is in, or NULL. */
static struct reservation *reservation_at(uint64_t addr)
{
	uint64_t found = sorted_find(&reservations, addr, reservation_base);
	struct reservation *r = found ? reservations.entry[found - 1] : NULL;

	return r && addr - r->base < r->length ? r : NULL;
}

/* Enter reserved addresses; false: no memory. */
static bool reservation_add(uint64_t base, uint64_t length)
{
	struct reservation *r = malloc(sizeof(*r));

	if (!r || !sorted_make_room(&reservations, 64)) {
		free(r);
		return false;
	}
	*r = (struct reservation){ .base = base, .length = length };
	sorted_add(&reservations, sorted_find(&reservations, base, reservation_base), r);
	return true;
}

CUresult vmm_reserve(uint64_t *addr, uint64_t size, uint64_t align, uint64_t hint,
		     unsigned long long flags)
{
	uint64_t base, end;
	bool entered;

	if (!addr || !size || size % SLOT || flags || align & (align - 1) || hint % SLOT)
		return CUDA_ERROR_INVALID_VALUE;
	if (__builtin_add_overflow(hint, size, &end) || end > 1ull << ADDRESS_BITS ||
	    align >= 1ull << ADDRESS_BITS)
		return CUDA_ERROR_OUT_OF_MEMORY;
	lock_take(&mem_lock);
	base = vm_reserve_at(size, align, align && hint % align ? 0 : hint);
	lock_drop(&mem_lock);
	if (!base)
		return CUDA_ERROR_OUT_OF_MEMORY;
	lock_take(&vmm_lock);
	entered = reservation_add(base, size);
	lock_drop(&vmm_lock);
	if (!entered) {
		lock_take(&mem_lock);
		vm_release(base, size);
		lock_drop(&mem_lock);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*addr = base;
	return CUDA_SUCCESS;
}

/* The reservation that is exactly a range, or NULL. vmm_lock is held. */
static struct reservation *reservation_of(uint64_t addr, uint64_t size)
{
	struct reservation *r = reservation_at(addr);

	return r && r->base == addr && r->length == size ? r : NULL;
}

static bool reservation_exists(uint64_t addr, uint64_t size)
{
	bool exists;

	lock_take(&vmm_lock);
	exists = reservation_of(addr, size);
	lock_drop(&vmm_lock);
	return exists;
}

/* Give the addresses of a removed reservation back. The caller has the claim of them, and no lock. */
static void reservation_end(struct reservation *r)
{
	/* If the kernel has no memory for it, the range stays apart, which costs a later mapping nothing. */
	if (load_relaxed(&r->apart))
		vm_close(r->base, r->length);
	lock_take(&mem_lock);
	vm_release(r->base, r->length);
	lock_drop(&mem_lock);
	free(r);
}

CUresult vmm_free(uint64_t addr, uint64_t size)
{
	struct range_claim claim = { .base = addr, .end = addr + size };
	struct reservation *r;
	bool found;

	/* A call with wrong arguments does not wait. */
	if (!reservation_exists(addr, size))
		return CUDA_ERROR_INVALID_VALUE;
	claim_take(&claim);
	lock_take(&vmm_lock);
	r = reservation_of(addr, size);
	found = r && !r->maps;
	if (found)
		sorted_remove(&reservations, sorted_find(&reservations, addr, reservation_base) - 1);
	lock_drop(&vmm_lock);
	if (found)
		reservation_end(r);
	claim_drop(&claim);
	return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- mappings */

static struct mapping *mapping_of(const struct span *span)
{
	return (struct mapping *)span->alloc;
}

/*
 * The mapping at an address, or NULL. The caller has the claim of the address. Or it has vmm_lock: then an unmap
 * may hide the mapping meanwhile, but its handle stays.
 */
static struct mapping *mapping_at(uint64_t addr)
{
	struct block *block = unlikely(addr >> ADDRESS_BITS) ? NULL : vm_block(addr);
	struct alloc *alloc = block ? load_acquire(&block->whole) : NULL;

	return alloc && load_relaxed(&alloc->flags) & ALLOC_MAPPED && alloc != &vm_special ?
		(struct mapping *)alloc : NULL;
}

/*
 * The first mapping at or above an address that begins below @end, or NULL. Sixteen GiB without any memory are
 * one step. The caller has the claim of the range.
 */
static struct mapping *mapping_from(uint64_t addr, uint64_t end)
{
	struct mapping *m;

	if (end > 1ull << ADDRESS_BITS)
		end = 1ull << ADDRESS_BITS;
	while (addr < end) {
		if (!load_acquire(&vm_index[addr >> LEAF_SHIFT])) {
			addr = round_up(addr + 1, 1ull << LEAF_SHIFT);
			continue;
		}
		m = mapping_at(addr);
		if (m)
			return m;
		addr = round_up(addr + 1, SLOT);
	}
	return NULL;
}

static uint64_t mapping_end(const struct mapping *m)
{
	return m->alloc.base + m->alloc.size;
}

/* vmm_lock is held. */
static struct mapping *mapping_new(void)
{
	struct mapping *m = unused;
	struct block *block;

	if (m) {
		unused = m->next;
		return m;
	}
	m = calloc(1, sizeof(*m));
	/* The block has no units: a lookup finds the alloc by block->whole, which never changes. */
	block = m ? calloc(1, sizeof(*block)) : NULL;
	if (!block) {
		free(m);
		return NULL;
	}
	store_release(&block->whole, &m->alloc);
	m->alloc.block = block;
	return m;
}

/*
 * End the use that a mapping makes of its handle and its reservation. Returns the buffer object that the caller
 * destroys without the lock, or 0. vmm_lock is held.
 */
static uint32_t mapping_end_uses(struct mapping *m)
{
	m->home->maps--;
	return handle_leave(m->handle);
}

/* Keep a list of mappings, of which @last is the last, for reuse. vmm_lock is held. */
static void mappings_put(struct mapping *first, struct mapping *last)
{
	last->next = unused;
	unused = first;
}

/* Flags that a mapping has by its rights and by what it maps. */
static uint32_t mapping_flags(const struct mapping *m)
{
	const int all = PROT_READ | PROT_WRITE;

	return ALLOC_MAPPED | (handle_host(m->handle) ? ALLOC_HOST : 0) |
	       (load_relaxed(&m->protection) == all ? 0 : ALLOC_DARK) |
	       (load_relaxed(&m->readers) ? 0 : ALLOC_CLOSED) |
	       (m->handle->prop.allocFlags.usage & CU_MEM_CREATE_USAGE_HW_DECOMPRESS ? ALLOC_DECOMPRESS : 0);
}

/* Make a mapping known to lookups. The index has room for it (vm_index_grow()). */
static void mapping_show(struct mapping *m, uint64_t addr, uint64_t size)
{
	struct block *block = m->alloc.block;

	store_relaxed(&block->base, addr);
	store_relaxed(&block->length, size);
	store_relaxed(&block->id, mem_new_block_id());
	store_relaxed(&block->bo, m->handle->bo);
	store_relaxed(&block->device, m->handle->device);
	block->mapped = size;
	lock_take(&mem_lock);
	alloc_begin(&m->alloc);
	store_relaxed(&m->alloc.base, addr);
	store_relaxed(&m->alloc.size, size);
	store_relaxed(&m->alloc.id, mem_new_ids(1));
	store_relaxed(&m->alloc.flags, mapping_flags(m));
	alloc_end(&m->alloc);
	vm_publish(block);
	lock_drop(&mem_lock);
}

/* Hide a mapping from lookups. Its base and length stay in the block. */
static void mapping_hide(struct mapping *m)
{
	lock_take(&mem_lock);
	vm_retract(m->alloc.block);
	alloc_begin(&m->alloc);
	store_relaxed(&m->alloc.size, 0);
	alloc_end(&m->alloc);
	lock_drop(&mem_lock);
}

/* Check the arguments of a map, and reserve a mapping. vmm_lock is held. */
static CUresult map_begin(uint64_t addr, uint64_t size, uint64_t offset, uint64_t value,
			  struct mapping **made)
{
	struct reservation *r = reservation_at(addr);
	struct handle *handle = handle_find(value);
	struct mapping *m;

	if (!r || !handle)
		return CUDA_ERROR_INVALID_VALUE;
	/* As recorded: memory is mapped as a whole. */
	if (offset || size != handle->size)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (size > r->length - (addr - r->base))
		return CUDA_ERROR_INVALID_VALUE;
	m = mapping_new();
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->handle = handle;
	handle_use(handle);
	m->home = r;
	r->maps++;
	store_relaxed(&m->host, 0);
	store_relaxed(&m->protection, PROT_NONE);
	store_relaxed(&m->readers, 0);
	store_relaxed(&m->writers, 0);
	*made = m;
	return CUDA_SUCCESS;
}

/* Map a reserved mapping at @addr, if nothing is mapped there. No lock is held. */
static CUresult map_at(struct mapping *m, uint64_t addr)
{
	struct gpumem_vm_map map = {
		.size = sizeof(map), .vm = client.vm, .bo = m->handle->bo, .addr = addr,
		.length = m->handle->size,
	};
	CUresult result;

	if (mapping_from(addr, addr + map.length))
		return CUDA_ERROR_INVALID_VALUE;
	lock_take(&mem_lock);
	result = vm_index_grow(addr, map.length);
	lock_drop(&mem_lock);
	if (!result)
		result = result_of_errno(client_ioctl(GPUMEM_VM_MAP, &map));
	if (!result)
		mapping_show(m, addr, map.length);
	return result;
}

/* Give a reserved mapping back. */
static void map_abort(struct mapping *m)
{
	uint32_t bo;

	lock_take(&vmm_lock);
	bo = mapping_end_uses(m);
	mappings_put(m, m);
	lock_drop(&vmm_lock);
	/* The program has released the handle meanwhile. */
	if (bo)
		client_destroy_id(bo);
}

CUresult vmm_map(uint64_t addr, uint64_t size, uint64_t offset, uint64_t value,
		 unsigned long long flags)
{
	struct range_claim claim = { .base = addr };
	struct mapping *m;
	CUresult result;

	if (!addr || !size || addr % SLOT || flags)
		return CUDA_ERROR_INVALID_VALUE;
	/* No handle is so large: map_begin() will find it out. */
	if (__builtin_add_overflow(addr, size, &claim.end))
		claim.end = UINT64_MAX;
	claim_take(&claim);
	lock_take(&vmm_lock);
	result = map_begin(addr, size, offset, value, &m);
	lock_drop(&vmm_lock);
	if (!result) {
		result = map_at(m, addr);
		if (result)
			map_abort(m);
	}
	claim_drop(&claim);
	return result;
}

/* ---- unmap */

/* Hide all mappings of a range and put them on a list, lowest address first. No lock is held. */
static CUresult unmap_begin(uint64_t addr, uint64_t end, struct mapping **list)
{
	struct mapping *m = mapping_at(addr), **tail = list;
	uint64_t at;

	*list = NULL;
	/* A mapping that begins below or ends above is not unmapped, and then nothing is. */
	if (m && m->alloc.base != addr)
		return CUDA_ERROR_INVALID_VALUE;
	m = mapping_at(end - 1);
	if (m && mapping_end(m) > end)
		return CUDA_ERROR_INVALID_VALUE;
	for (at = addr; (m = mapping_from(at, end)); at = m->alloc.block->base + m->alloc.block->length) {
		mapping_hide(m);
		m->next = NULL;
		*tail = m;
		tail = &m->next;
	}
	return CUDA_SUCCESS;
}

/* Take mappings that lie side by side out of the process and of the devices' address space. No lock is held. */
static bool unmap_run(uint64_t base, uint64_t length, bool open)
{
	/*
	 * Close first: from the end of the other call on another thread may map here. If there is no memory for
	 * the reservation, take the CPU's rights away; the process keeps the memory until the next use of the
	 * addresses.
	 */
	if (open && !vm_close_apart(base, length))
		mprotect((void *)(uintptr_t)base, length, PROT_NONE);
	return vm_unmap_host(base, length);
}

/* The mappings that lie side by side at the head of a list; returns the last. *@open: the CPU reaches one. */
static struct mapping *run_of(struct mapping *first, uint64_t *length, bool *open)
{
	struct mapping *last = first;
	uint64_t end = first->alloc.block->base + first->alloc.block->length;

	*open = first->protection != PROT_NONE;
	while (last->next && last->next->alloc.block->base == end) {
		last = last->next;
		end += last->alloc.block->length;
		*open |= last->protection != PROT_NONE;
	}
	*length = end - first->alloc.block->base;
	return last;
}

/* End the uses of a hidden mapping that was taken out. */
static void unmap_end(struct mapping *m)
{
	lock_take(&vmm_lock);
	if (m->protection != PROT_NONE)
		store_relaxed(&m->home->apart, true);
	m->doomed = mapping_end_uses(m);
	lock_drop(&vmm_lock);
}

/* Show a hidden mapping again: the devices still reach it. The CPU does not: the mapping is closed. */
static void unmap_undo(struct mapping *m)
{
	lock_take(&vmm_lock);
	store_relaxed(&m->protection, PROT_NONE);
	lock_drop(&vmm_lock);
	mapping_show(m, m->alloc.block->base, m->alloc.block->length);
}

/* Take the mappings of a list out. Those that were taken out stay in the list. */
static CUresult unmap_finish(struct mapping **list)
{
	CUresult result = CUDA_SUCCESS;

	while (*list) {
		struct mapping *m = *list, *last, *rest, *next;
		uint64_t length;
		bool open, out;

		last = run_of(m, &length, &open);
		rest = last->next;
		out = unmap_run(m->alloc.block->base, length, open);
		if (out) {
			for (; m != rest; m = m->next)
				unmap_end(m);
			list = &last->next;
			continue;
		}
		result = CUDA_ERROR_OUT_OF_MEMORY;
		*list = rest;
		for (; m != rest; m = next) {
			next = m->next;
			unmap_undo(m);
		}
	}
	return result;
}

/* Destroy buffer objects that only mappings of a list used, and keep the mappings for reuse. No lock is held. */
static void unmap_free(struct mapping *list)
{
	struct mapping *m, *last = NULL;

	for (m = list; m; m = m->next) {
		if (m->doomed)
			client_destroy_id(m->doomed);
		last = m;
	}
	if (!last)
		return;
	lock_take(&vmm_lock);
	mappings_put(list, last);
	lock_drop(&vmm_lock);
}

CUresult vmm_unmap(uint64_t addr, uint64_t size)
{
	struct range_claim claim = { .base = addr };
	struct mapping *list = NULL;
	CUresult result;
	bool reserved;

	if (!addr || !size || __builtin_add_overflow(addr, size, &claim.end))
		return CUDA_ERROR_INVALID_VALUE;
	claim_take(&claim);
	lock_take(&vmm_lock);
	reserved = reservation_at(addr);
	lock_drop(&vmm_lock);
	result = reserved ? unmap_begin(addr, claim.end, &list) : CUDA_ERROR_INVALID_VALUE;
	if (!result)
		result = unmap_finish(&list);
	claim_drop(&claim);
	unmap_free(list);
	return result;
}

/* ---- rights */

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

CUresult vmm_retain(uint64_t *value, const void *addr)
{
	struct mapping *m;

	if (!value || !addr)
		return CUDA_ERROR_INVALID_VALUE;
	lock_take(&vmm_lock);
	m = mapping_at((uintptr_t)addr);
	if (m) {
		handle_hold(m->handle);
		*value = m->handle->value;
	}
	lock_drop(&vmm_lock);
	return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUmemAllocationProp vmm_prop(const struct span *span)
{
	CUmemAllocationProp prop = { 0 };
	struct mapping *m;

	lock_take(&vmm_lock);
	m = mapping_at(span->base);
	if (m)
		prop = m->handle->prop;
	lock_drop(&vmm_lock);
	return prop;
}

void vmm_home(const struct span *span, uint64_t *base, uint64_t *size)
{
	struct reservation *r;

	*base = span->base;
	*size = span->size;
	lock_take(&vmm_lock);
	r = reservation_at(span->base);
	if (r) {
		*base = r->base;
		*size = r->length;
	}
	lock_drop(&vmm_lock);
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

bool vmm_mapped(const struct span *span, uint64_t addr, uint64_t bytes)
{
	uint64_t end, at = span->base + span->size;
	struct span next;

	if (__builtin_add_overflow(addr, bytes, &end))
		return false;
	for (; at < end; at = next.base + next.size)
		if (!vm_lookup(at, &next) || !(next.flags & ALLOC_MAPPED) || next.base != at ||
		    (next.flags ^ span->flags) & ALLOC_HOST)
			return false;
	return true;
}
