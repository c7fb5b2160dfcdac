// SPDX-License-Identifier: MIT
/*
 * Virtual memory management: reservations and mappings.
 *
 * A reservation is a range of slots of an arena (address/vm.c), so no other mmap() of the process ever gets its
 * addresses. A mapping is one handle's memory, as a whole, at addresses of one reservation. It is an alloc with a
 * block of its own. Lookups find it like any other memory; it has no context.
 *
 * vmm_rights.c gives rights. A mapping that the CPU has no right to has no mmap() of its own: its addresses stay a
 * reservation.
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
 * An unmap hides the mappings first, and takes them out of the process and of the devices' address space
 * afterwards. It destroys buffer objects after it has dropped its claim: if nothing else holds the memory, that
 * frees it, which may take long. No call waits for queued work. Work that uses the memory later fails, as on an
 * H200.
 *
 * Copies and fills of mapped memory are the engine's, never inline: a mapping can go away at any time, and an
 * access by the calling thread would end the process.
 *
 * Locks: vmm_lock for reservations, handles, and the rights of a mapping; lookups read rights without it. mem_lock
 * for the index. Neither is held during a system call, except that mem_lock is held while an arena is added. A
 * thread takes vmm_lock before mem_lock, and no lock before a claim.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "memory/mapping.h"
#include "memory/memory.h"

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

struct mapping *mapping_at(uint64_t addr)
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

uint32_t mapping_flags(const struct mapping *m)
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
