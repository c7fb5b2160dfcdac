/* SPDX-License-Identifier: MIT */
/*
 * Device addresses: which block and alloc an address belongs to. vm.c owns the index.
 */
#ifndef GPUMEM_ADDRESS_VM_H
#define GPUMEM_ADDRESS_VM_H

#include "core/core.h"

enum alloc_flags {
	ALLOC_EXPORTED = 1 << 0,	/* a DMA-buf or a token of it exists or existed */
	ALLOC_IMPORTED = 1 << 1,	/* of another process or driver */
	ALLOC_SYNC_MEMOPS = 1 << 2,	/* fills and copies wait */
	ALLOC_HOST = 1 << 3,		/* pinned host memory */
	ALLOC_REGISTERED = 1 << 4,	/* the program's own memory */
	ALLOC_READ_ONLY = 1 << 5,	/* registered for reading */
	ALLOC_IO = 1 << 6,		/* registered, but the engine cannot reach it */
	ALLOC_PORTABLE = 1 << 7,	/* as the program asked; only reported */
	ALLOC_WRITECOMBINED = 1 << 8,	/* the same */
	ALLOC_POOL = 1 << 9,		/* of a pool: the span has no alloc and no context */
	ALLOC_MANAGED = 1 << 10,	/* managed: the CPU and all devices reach it */
	ALLOC_DARK = 1 << 11,		/* never mapped for the CPU: its exporter cannot */
	ALLOC_DMABUF = 1 << 12,		/* imported by a DMA-buf */
	ALLOC_HIDDEN = 1 << 13,		/* an array's: no lookup finds it */
	ALLOC_DECOMPRESS = 1 << 14,	/* of a pool that was made for decompression */
	ALLOC_MAPPED = 1 << 15,		/* mapped by cuMemMap(): it has rights (memory/vmm.h), and no context */
	ALLOC_CLOSED = 1 << 16,		/* mapped, and no device has a right to it */
	ALLOC_EXTERNAL = 1 << 17,	/* imported, mapped from external memory: cuMemFree() frees it */
	ALLOC_MOVABLE = 1 << 18,	/* the kernel's managed memory: a page may not be allocated yet */
	ALLOC_ATTACHED = 1 << 19,	/* managed, beside an exclusive device: whole pages; has an attachment */
	ALLOC_HOST_ONLY = 1 << 20,	/* attached to the host: exclusive devices must not use it */
	ALLOC_ANY_HOST = ALLOC_HOST | ALLOC_REGISTERED,
	/*
	 * Never accessed inline: others reach it, too, or it may go away at any time, or an access that finds no
	 * memory must fail in the engine, and not raise a signal, or the CPU may not reach it now.
	 */
	ALLOC_NOT_INLINE = ALLOC_EXPORTED | ALLOC_IMPORTED | ALLOC_MAPPED | ALLOC_MOVABLE |
		ALLOC_ATTACHED,
};

/*
 * An alloc is written under mem_lock. Lookups read it without a lock: seq is odd while it
 * changes, and rises with every change.
 */
struct alloc {
	union {
		struct {
			uint32_t seq;
			uint32_t flags;	/* enum alloc_flags; atomic */
		};
		uint64_t head;		/* seq and flags, read at once (plain.h) */
	};
	uint64_t base, size;		/* the range that the program asked for */
	uint64_t id;			/* CU_POINTER_ATTRIBUTE_BUFFER_ID */
	CUcontext ctx;
	struct block *block;
	struct alloc *next, **link;	/* in ctx->allocs, or the free list; mem_lock */
	struct share *share;		/* token or import (memory/shares.h); mem_lock */
	struct attach *attach;		/* of ALLOC_ATTACHED memory (exec/attach.c), or NULL; attach_lock */
};

struct block {
	uint64_t base, length;		/* whole slots */
	uint64_t mapped;		/* bytes that the buffer object covers, whole pages */
	bool dark;			/* mapped for the devices only */
	bool movable;			/* its allocs are ALLOC_MOVABLE */
	uint64_t id;			/* CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID */
	uint32_t bo;
	CUdevice device;
	struct alloc *whole;		/* the block's only alloc; NULL: a shared block; atomic */
	struct chunk *chunk;		/* a pool's chunk: the fields below are unused then; or NULL; atomic */
	/* Of a shared block, which has several small allocs. */
	uint64_t used[SLOT_UNITS / 64];	/* units taken or withheld; mem_lock */
	uint64_t dirty[SLOT_UNITS / 64];/* units that ever had an owner, or were exported; mem_lock */
	uint64_t exposed[SLOT_UNITS / 64];/* taken or withheld units in exported pages; mem_lock */
	uint64_t clearing;		/* jobs about its units (clear.c); mem_lock */
	unsigned int allocs;		/* mem_lock */
	unsigned int longest;		/* no free run is longer, in units; mem_lock */
	struct withheld *withheld;	/* freed ranges that other processes can still reach; mem_lock */
	struct block *next, **link;	/* in device->shared*, or doomed, or unused; mem_lock */
	struct alloc *unit[];		/* the alloc of each unit; atomic; not if registered */
};

struct span {
	uint64_t base, size, id;
	uint32_t flags;
	CUcontext ctx;
	struct alloc *alloc;		/* NULL for memory of pools */
	uint32_t *marks;		/* address of the flags in the alloc or cell; atomic */
	CUmemoryPool pool;		/* the pool whose memory it is, or NULL */
	/* The fields of the block. */
	uint64_t block_base, block_length, block_id;
	uint32_t bo;
	CUdevice device;
};

enum found { FOUND, NOTHING, OUTSIDE, CHANGING };

/* Look an address up; false if it has no memory. Takes a lock or sleeps only if what it reads keeps changing. */
bool vm_lookup(uint64_t addr, struct span *span);
/* vm_lookup() for a signal handler: in the arenas only, and it gives up if the alloc keeps changing. */
bool vm_lookup_in_signal(uint64_t addr, struct span *span);
/* Whether an address is in an arena. Only the library's memory lies in arenas. */
bool vm_reserved(uint64_t addr);
/* Whether any byte of a range is in an arena. */
bool vm_touches(uint64_t addr, uint64_t length);
#define ADDRESS_BITS	47
#define LEAF_BITS	13
#define LEAF_SLOTS	(1u << LEAF_BITS)
#define LEAF_SHIFT	(SLOT_SHIFT + LEAF_BITS)
#define LEAVES		(1u << (ADDRESS_BITS - LEAF_SHIFT))

/*
 * Protects blocks, allocs and the lists of both. Most functions that change memory take it. Inside it a thread
 * takes only change_lock, giving_lock and, for managed memory beside an exclusive device, attach_lock with the locks
 * inside that (exec/attach.c).
 */
extern HIDDEN struct lock mem_lock;

/* Held while an alloc or the list of registrations changes; inside all other locks. */
extern HIDDEN struct lock change_lock;
/* How often a lookup tries to read a changing alloc before it sleeps on change_lock. */
#define LOOKUP_TRIES	100

extern HIDDEN struct block **vm_index[LEAVES];
/* The alloc of all blocks of pools, for readers who check whether memory is plain (plain.h). */
extern HIDDEN struct alloc vm_special;

static inline unsigned int vm_leaf_slot(uint64_t addr)
{
	return addr >> SLOT_SHIFT & (LEAF_SLOTS - 1);
}

/* The block of an address in an arena, or NULL; the address has at most ADDRESS_BITS bits. */
static inline struct block *vm_block(uint64_t addr)
{
	struct block **leaf = load_acquire(&vm_index[addr >> LEAF_SHIFT]);

	return likely(leaf) ? load_acquire(&leaf[vm_leaf_slot(addr)]) : NULL;
}

/* The chunk of a pool that an address lies in, or NULL. */
static inline struct chunk *vm_chunk(uint64_t addr)
{
	struct block *block = unlikely(addr >> ADDRESS_BITS) ? NULL : vm_block(addr);

	return block ? load_relaxed(&block->chunk) : NULL;
}

/* Read an alloc; false while it changes. */
bool alloc_read(struct alloc *alloc, struct span *span);
/*
 * Reserve @length bytes of addresses (whole slots); 0 if there are none. mem_lock is held, also for vm_release().
 */
uint64_t vm_reserve(uint64_t length);
/* The same at a multiple of @align, a power of two. @hint: the address to be taken if all of it is free; or 0. */
uint64_t vm_reserve_at(uint64_t length, uint64_t align, uint64_t hint);
void vm_release(uint64_t addr, uint64_t length);
/* Map a buffer object for the CPU, with PROT_* rights, over the reservation. Returns 0 or a positive errno. */
int vm_open(uint64_t addr, uint64_t length, uint32_t bo, int protection);
/* Put the reservation back over memory that the CPU reached, in one call. False: the kernel has no memory for it. */
bool vm_close(uint64_t addr, uint64_t length);
/*
 * The same, and the kernel keeps the range apart from the reservation around it: opening and closing the range again
 * splits and merges no mappings. vm_close() ends that.
 */
bool vm_close_apart(uint64_t addr, uint64_t length);
/* Map a buffer object for the devices and, unless @dark, for the CPU. Needs no lock. */
CUresult vm_map(uint64_t addr, uint64_t length, uint32_t bo, bool dark);
/*
 * Undo vm_map() and give @length bytes of addresses back, now or, if the kernel has no memory for
 * that, with a later call. mem_lock is not held.
 */
void vm_unmap_unlocked(uint64_t addr, uint64_t mapped, uint64_t length);
/* Unmap the program's own memory from the devices' address space; false if it is still mapped. */
bool vm_unmap_host(uint64_t addr, uint64_t length);
/* Record memory that vm_unmap_host() could not unmap, for vm_retry(). mem_lock is held. */
void vm_unmap_later(uint64_t addr, uint64_t length);
/* Try again to unmap the recorded memory. mem_lock is held. */
void vm_retry(void);
/* Make room in the index for a range, which stays there; then vm_publish() cannot fail. mem_lock is held. */
CUresult vm_index_grow(uint64_t addr, uint64_t length);
/* Make a block's addresses point at it, or at nothing. mem_lock is held. */
CUresult vm_publish(struct block *block);
void vm_retract(struct block *block);
/* Between these two the caller may change an alloc. mem_lock is held. */
void alloc_begin(struct alloc *alloc);
void alloc_end(struct alloc *alloc);

/* Whether the CPU cannot reach the memory. */
static inline bool span_dark(const struct span *span)
{
	return span->flags & ALLOC_DARK ||
	       (client.strict && !(span->flags & (ALLOC_ANY_HOST | ALLOC_MANAGED)));
}

/* From a layer above (pool/pool_pages.c): an address in a chunk of a pool. */
enum found pool_lookup(struct chunk *chunk, uint64_t addr, struct span *span);

#endif /* GPUMEM_ADDRESS_VM_H */
