// SPDX-License-Identifier: MIT
/*
 * Addresses: where device memory lies in the process, and what lies at an address.
 *
 * Owns the arenas: large reservations of address space below 2^47, without access rights. The library maps memory
 * into them and unmaps it again. The addresses belong to the library until the process ends, so no other mapping
 * of the process ever lies at an address that was device memory. Taking memory out puts the reservation back in
 * one mmap() call: there is never a hole that another thread's mmap() could fall into.
 *
 * A buffer object lies at the same address for the CPU and in the client's one address space of the
 * devices. Dark memory (strict mode) lies in the devices' address space only: for the CPU its addresses
 * stay a reservation. A rover hands out whole slots of 2 MiB, so that an address is not used again soon
 * after it was freed.
 *
 * The index finds the block of an address: two levels, 2^13 leaves of 2^13 slots. Leaves, blocks and allocs are
 * never given back to malloc(), and every link in them is stored atomically: lookups take no lock. If an alloc
 * changes during a lookup, the lookup tries again. A lookup that races with the free of the same memory may
 * find it or not. Addresses outside the arenas are the program's own; registered.c has the list of registered
 * ones.
 *
 * Unmapping can fail for want of memory, because it may split the process's mapping and the devices'. The
 * memory is then stale: nothing in the library points at it, and its addresses stay taken. The library tries
 * again before it makes or unmaps the next block.
 *
 * A lookup that finds an alloc changing tries again a bounded number of times, because the thread that changes
 * the alloc may have been preempted, even by the thread that looks it up. Then the lookup sleeps on
 * change_lock, which is held while an alloc or the list of registrations changes. For a pool's memory it sleeps
 * for a short time instead.
 *
 * Locks: mem_lock for everything but lookups; change_lock inside mem_lock.
 *
 * Vocabulary: slot, 2 MiB of address space, aligned; leaf, the index of 16 GiB.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "address/address.h"

#define ARENA_SMALLEST	(64ull << 20)
#define ARENA_USUAL	(64ull << 30)
#define ARENA_LARGEST	(1ull << 42)
#define MAX_ARENAS	64

struct arena {
	uint64_t base, length;
	uint64_t *taken;		/* a bit per slot */
	uint64_t slots, free, rover;
};

/* Memory without an owner that could not be unmapped. */
struct stale {
	uint64_t addr, mapped;
	uint64_t length;		/* bytes of addresses to be released; 0 outside the arenas */
};

#define MAX_STALE	256

struct lock mem_lock;

static struct stale stale[MAX_STALE];	/* mem_lock */
static unsigned int stale_count;	/* mem_lock */
struct lock change_lock;
struct block **vm_index[LEAVES];
/* Its sequence count is always odd, so no lookup reads it. */
struct alloc vm_special = { .seq = 1, .flags = ~0u };
static struct arena arenas[MAX_ARENAS];
static unsigned int arena_count;	/* atomic; grows only */

/* ---- arenas */

static uint64_t reserve_addresses(uint64_t length)
{
	uint64_t start, end, base;
	void *p = mmap(NULL, length + SLOT, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED) {
		debug_system_call("mmap of addresses", errno);
		return 0;
	}
	start = (uintptr_t)p;
	end = start + length + SLOT;
	base = round_up(start, SLOT);
	if (end > 1ull << ADDRESS_BITS) {
		munmap(p, length + SLOT);
		return 0;
	}
	if (base > start)
		munmap(p, base - start);
	if (end > base + length)
		munmap((void *)(uintptr_t)(base + length), end - base - length);
	return base;
}

/* A new arena with room for @length bytes. */
static struct arena *arena_add(uint64_t length)
{
	struct arena *arena;
	uint64_t want = ARENA_USUAL, memory = 0;
	unsigned int i;

	if (arena_count == MAX_ARENAS)
		return NULL;
	for (i = 0; i < client.devices; i++)
		memory += client.device[i].total;
	while (want < ARENA_LARGEST && (want < 4 * memory || want < 2 * length))
		want *= 2;
	if (want < length)
		want = length;
	arena = &arenas[arena_count];
	for (; want >= length && want >= ARENA_SMALLEST; want /= 2) {
		arena->base = reserve_addresses(want);
		if (arena->base)
			break;
	}
	if (!arena->base)
		return NULL;
	arena->length = want;
	arena->slots = want >> SLOT_SHIFT;
	arena->free = arena->slots;
	arena->rover = 0;
	arena->taken = calloc((arena->slots + 63) / 64, sizeof(*arena->taken));
	if (!arena->taken) {
		munmap((void *)(uintptr_t)arena->base, want);
		memset(arena, 0, sizeof(*arena));
		return NULL;
	}
	store_release(&arena_count, arena_count + 1);
	return arena;
}

/*
 * The first slot in [from, to) that is free, or that is taken, or @to. Sixty-four slots are looked at together.
 */
static uint64_t next_slot(const struct arena *arena, uint64_t from, uint64_t to, bool taken)
{
	uint64_t word, slot = from;

	for (; slot < to; slot = (slot | 63) + 1) {
		word = arena->taken[slot / 64];
		word = (taken ? word : ~word) >> (slot % 64);
		if (word) {
			slot += __builtin_ctzll(word);
			break;
		}
	}
	return slot < to ? slot : to;
}

/* Number of the first of @count free slots in a row in [from, to), at a multiple of @align slots, or -1. */
static int64_t arena_find(const struct arena *arena, uint64_t from, uint64_t to, uint64_t count,
			  uint64_t align)
{
	uint64_t first = arena->base >> SLOT_SHIFT, slot = from, end;

	for (;;) {
		slot = next_slot(arena, slot, to, false);
		slot = round_up(first + slot, align) - first;
		if (slot > to || count > to - slot)
			return -1;
		end = next_slot(arena, slot, slot + count, true);
		if (end == slot + count)
			return slot;
		slot = end;
	}
}

/* Mark @count slots from @slot on as taken or free. */
static void arena_mark(struct arena *arena, uint64_t slot, uint64_t count, bool taken)
{
	uint64_t end = slot + count, word, n;

	for (; slot < end; slot += n) {
		n = min_u64(64 - slot % 64, end - slot);
		word = ~0ull >> (64 - n) << (slot % 64);
		if (taken)
			arena->taken[slot / 64] |= word;
		else
			arena->taken[slot / 64] &= ~word;
	}
	arena->free = taken ? arena->free - count : arena->free + count;
}

/* Take the slots at @hint, if they are free. */
static bool arena_take_at(struct arena *arena, uint64_t hint, uint64_t count)
{
	uint64_t slot = (hint - arena->base) >> SLOT_SHIFT;

	if (hint < arena->base || slot > arena->slots || count > arena->slots - slot ||
	    next_slot(arena, slot, slot + count, true) < slot + count)
		return false;
	arena_mark(arena, slot, count, true);
	return true;
}

uint64_t vm_reserve_at(uint64_t length, uint64_t align, uint64_t hint)
{
	uint64_t count = length >> SLOT_SHIFT, steps = align >> SLOT_SHIFT;
	unsigned int i;

	vm_retry();
	steps = steps ? steps : 1;
	for (i = 0; hint && i < arena_count; i++)
		if (arena_take_at(&arenas[i], hint, count))
			return hint;
	for (i = 0; i <= arena_count && i < MAX_ARENAS; i++) {
		struct arena *arena = i < arena_count ? &arenas[i] :
			arena_add(length + (steps > 1 ? align : 0));
		int64_t found;

		if (!arena || arena->free < count)
			continue;
		found = arena_find(arena, arena->rover, arena->slots, count, steps);
		if (found < 0)
			found = arena_find(arena, 0, arena->slots, count, steps);
		if (found < 0)
			continue;
		arena_mark(arena, found, count, true);
		arena->rover = found + count;
		return arena->base + ((uint64_t)found << SLOT_SHIFT);
	}
	return 0;
}

uint64_t vm_reserve(uint64_t length)
{
	return vm_reserve_at(length, SLOT, 0);
}

void vm_release(uint64_t addr, uint64_t length)
{
	unsigned int i;

	for (i = 0; i < arena_count; i++) {
		struct arena *arena = &arenas[i];

		if (addr - arena->base >= arena->length)
			continue;
		arena_mark(arena, (addr - arena->base) >> SLOT_SHIFT, length >> SLOT_SHIFT, false);
		return;
	}
}

bool vm_touches(uint64_t addr, uint64_t length)
{
	unsigned int i, count = load_acquire(&arena_count);

	for (i = 0; i < count; i++)
		if (addr < arenas[i].base + arenas[i].length && arenas[i].base < addr + length)
			return true;
	return false;
}

bool vm_reserved(uint64_t addr)
{
	unsigned int i, count = load_acquire(&arena_count);

	for (i = 0; i < count; i++)
		if (addr - arenas[i].base < arenas[i].length)
			return true;
	return false;
}

/* ---- mapping */

static bool close_as(uint64_t addr, uint64_t length, int flags)
{
	return mmap((void *)(uintptr_t)addr, length, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | flags, -1, 0) != MAP_FAILED;
}

bool vm_close(uint64_t addr, uint64_t length)
{
	return close_as(addr, length, MAP_NORESERVE);
}

bool vm_close_apart(uint64_t addr, uint64_t length)
{
	return close_as(addr, length, 0);
}

int vm_open(uint64_t addr, uint64_t length, uint32_t bo, int protection)
{
	int error;

	if (mmap((void *)(uintptr_t)addr, length, protection, MAP_SHARED | MAP_FIXED, client.fd,
		 GPUMEM_MMAP_OFFSET(bo)) != MAP_FAILED)
		return 0;
	error = errno;
	debug_system_call("mmap (vm.max_map_count?)", error);
	return error;
}

CUresult vm_map(uint64_t addr, uint64_t length, uint32_t bo, bool dark)
{
	struct gpumem_vm_map map = {
		.size = sizeof(map), .vm = client.vm, .bo = bo, .addr = addr, .length = length,
		.readers = client.access, .writers = client.access,
	};
	int error;

	error = dark ? 0 : vm_open(addr, length, bo, PROT_READ | PROT_WRITE);
	if (error)
		return result_of_errno(error);
	error = client_ioctl(GPUMEM_VM_MAP, &map);
	if (error && !dark)
		vm_close(addr, length);
	return result_of_errno(error);
}

bool vm_unmap_host(uint64_t addr, uint64_t length)
{
	struct gpumem_vm_unmap unmap = {
		.size = sizeof(unmap), .vm = client.vm, .addr = addr, .length = length,
	};

	return !client_ioctl(GPUMEM_VM_UNMAP, &unmap);
}

/* Unmap for the CPU and for the devices, the second even if the first fails. Repeating either does no harm. */
static bool stale_take_out(const struct stale *s)
{
	bool back = !s->length || vm_close(s->addr, s->mapped);

	if (!vm_unmap_host(s->addr, s->mapped) || !back)
		return false;
	if (s->length)
		vm_release(s->addr, s->length);
	return true;
}

/* If the array is full, the memory stays mapped until the process ends. */
static void stale_add(const struct stale *s)
{
	if (stale_count < MAX_STALE)
		stale[stale_count++] = *s;
}

void vm_retry(void)
{
	unsigned int i = 0;

	while (i < stale_count) {
		if (stale_take_out(&stale[i]))
			stale[i] = stale[--stale_count];
		else
			i++;
	}
}

void vm_unmap_unlocked(uint64_t addr, uint64_t mapped, uint64_t length)
{
	const struct stale s = { .addr = addr, .mapped = mapped, .length = length };
	bool back = vm_close(addr, mapped);
	bool out = vm_unmap_host(addr, mapped);

	lock_take(&mem_lock);
	if (stale_count)
		vm_retry();
	if (back && out)
		vm_release(addr, length);
	else
		stale_add(&s);
	lock_drop(&mem_lock);
}

void vm_unmap_later(uint64_t addr, uint64_t length)
{
	const struct stale s = { .addr = addr, .mapped = length };

	stale_add(&s);
}

/* ---- the index */

CUresult vm_index_grow(uint64_t addr, uint64_t length)
{
	uint64_t leaf, last = (addr + length - 1) >> LEAF_SHIFT;

	for (leaf = addr >> LEAF_SHIFT; leaf <= last; leaf++) {
		struct block **fresh;

		if (vm_index[leaf])
			continue;
		fresh = calloc(LEAF_SLOTS, sizeof(*fresh));
		if (!fresh)
			return CUDA_ERROR_OUT_OF_MEMORY;
		store_release(&vm_index[leaf], fresh);
	}
	return CUDA_SUCCESS;
}

CUresult vm_publish(struct block *block)
{
	uint64_t addr, end = block->base + block->length;
	CUresult result = vm_index_grow(block->base, block->length);

	if (result)
		return result;
	for (addr = block->base; addr < end; addr += SLOT)
		store_release(&vm_index[addr >> LEAF_SHIFT][vm_leaf_slot(addr)], block);
	return CUDA_SUCCESS;
}

void vm_retract(struct block *block)
{
	uint64_t addr, end = block->base + block->length;

	for (addr = block->base; addr < end; addr += SLOT)
		store_release(&vm_index[addr >> LEAF_SHIFT][vm_leaf_slot(addr)], NULL);
}

void alloc_begin(struct alloc *alloc)
{
	lock_take(&change_lock);
	seq_write_begin(&alloc->seq);
}

void alloc_end(struct alloc *alloc)
{
	seq_write_end(&alloc->seq, alloc->seq);
	lock_drop(&change_lock);
}

static inline bool read_fields(struct alloc *alloc, struct span *span)
{
	struct block *block;
	uint32_t seq = seq_read_begin(&alloc->seq);

	if (unlikely(seq_changing(seq)))
		return false;
	span->alloc = alloc;
	span->marks = &alloc->flags;
	span->pool = NULL;
	span->base = load_relaxed(&alloc->base);
	span->size = load_relaxed(&alloc->size);
	span->id = load_relaxed(&alloc->id);
	span->ctx = load_relaxed(&alloc->ctx);
	span->flags = load_relaxed(&alloc->flags);
	block = load_relaxed(&alloc->block);
	if (unlikely(!block))
		return false;
	span->block_base = load_relaxed(&block->base);
	span->block_length = load_relaxed(&block->length);
	span->block_id = load_relaxed(&block->id);
	span->bo = load_relaxed(&block->bo);
	span->device = load_relaxed(&block->device);
	return likely(!seq_read_retry(&alloc->seq, seq));
}

bool alloc_read(struct alloc *alloc, struct span *span)
{
	return read_fields(alloc, span);
}

static inline enum found vm_find(uint64_t addr, struct span *span)
{
	struct block *block;
	struct alloc *alloc;

	/* With page tables of five levels a program can have memory above the index's end. */
	if (unlikely(addr >> ADDRESS_BITS))
		return OUTSIDE;
	block = vm_block(addr);
	if (unlikely(!block))
		return OUTSIDE;
	alloc = vm_alloc_at(block, addr);
	if (unlikely(!alloc))
		return NOTHING;
	if (unlikely(!read_fields(alloc, span)))
		return CHANGING;
	return addr - span->base < span->size ? FOUND : NOTHING;
}

/* For an address whose alloc vm_find() could not read: it changes, or it is vm_special and stands for a pool. */
static enum found vm_find_again(uint64_t addr, struct span *span)
{
	struct chunk *chunk = vm_chunk(addr);

	return chunk ? pool_lookup(chunk, addr, span) : vm_find(addr, span);
}

/*
 * Repeat the lookup until the alloc can be read. A thread that frees an alloc first changes what leads to the
 * alloc, so the loop ends.
 */
static __attribute__((noinline)) bool lookup_again(uint64_t addr, struct span *span)
{
	enum found found = vm_find_again(addr, span);
	unsigned int tries = 0;

	while (found == CHANGING) {
		if (++tries % LOOKUP_TRIES) {
			found = vm_find_again(addr, span);
			continue;
		}
		lock_take(&change_lock);
		found = vm_find_again(addr, span);
		lock_drop(&change_lock);
		/* With the lock held only a pool's memory can change. */
		if (found == CHANGING)
			lock_doze();
	}
	return found == OUTSIDE ? registered_lookup(addr, span) : found == FOUND;
}

bool vm_lookup(uint64_t addr, struct span *span)
{
	enum found found = vm_find(addr, span);

	/* Call the slow path last, so that no register has to be saved for it. */
	if (unlikely(found == CHANGING))
		return lookup_again(addr, span);
	return found == OUTSIDE ? registered_lookup(addr, span) : found == FOUND;
}

bool vm_lookup_in_signal(uint64_t addr, struct span *span)
{
	enum found found = vm_find(addr, span);
	int tries;

	/*
	 * The interrupted thread itself may be changing the alloc. In a forked child that thread does not exist.
	 */
	for (tries = 0; tries < 1000 && found == CHANGING; tries++)
		found = vm_find_again(addr, span);
	return found == FOUND;
}
