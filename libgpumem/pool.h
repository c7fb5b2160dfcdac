/* SPDX-License-Identifier: MIT */
/*
 * What the files of the stream-ordered allocator share: pool.c (pools as objects), pool_pages.c
 * (chunks and pages), pool_grow.c (how large chunks are), pool_cells.c (blocks, and what has been
 * freed), pool_late.c (what comes free late), pool_heap.c (the fast path), pool_owner.c (which thread
 * may be in a heap), pool_tally.c (threads), pool_ipc.c (pools of other processes).
 *
 * Vocabulary
 *
 *   chunk      one buffer object of a pool, mapped at one place; what a pool has reserved
 *   range      neighbouring pages of a chunk that are one thing: free, pending, a block, or cells
 *   cell       what one allocation is described by; a range of cells is many small ones of a class
 *   class      a size that requests up to 1 MiB are rounded up to; larger ones are whole pages
 *   moment     (queue, value): when the queue has reached the value; queue NULL is long ago
 *   pending    freed, but its moment may not have come
 *   settled    freed, and anybody may have it
 *   heap       what was freed in one stream to one pool and has not gone any further; and cells
 *              that it took in advance
 *   depot      a pool's own lists of cells by class, behind the heaps
 *   kept       a chunk that is idle and not reserved any more, but still there: the kernel may
 *              take its memory at any time (struct gpumem_bo_alloc, @word)
 *   drain      empty the heaps into the depot and the depot into the pages
 *   tally      what one thread added to a pool's used bytes
 *
 * A cell goes in a circle: live, in the heap of the stream that freed it, in the depot, part of
 * its pages. Only the stream that freed it, or one that comes after, may have it before its
 * moment; everywhere on the way it keeps that moment.
 *
 * Rules
 *
 *   - Structures that a lookup may meet (chunks with their tables, ranges, arrays of cells) are
 *     never returned to malloc(): they are used again for the same type and size. So a lookup
 *     takes no lock; if it meets something that changes under it, the cell's sequence count or
 *     its base says so.
 *   - A cell's class follows from the size that was asked for.
 *
 * Locks: pool->lock, then heap->lock; stream->lock and mem_lock inside pool->lock, but never a
 * wait for work. A heap that one thread owns is entered by that thread without an atomic
 * instruction (pool_owner.c).
 */
#ifndef GPUMEM_POOL_H
#define GPUMEM_POOL_H

#include "internal.h"

#define POOL_MAGIC	0x6c6f6f70	/* "pool" */

#define CELL_UNIT	512ull
#define SHARES_CHUNK	(256ull << 10)	/* what is larger is cut to measure (pool_grow.c) */
#define LIMIT_REST	(32ull << 20)	/* of a pool's limit that is too little to be left, at most */
#define CELLS_MAX	(32ull << 10)	/* largest size that shares pages with others */
#define CLASS_MAX	(1ull << 20)	/* largest size that has a class */
#define CLASSES		104
#define CLASSES_CELLS	32		/* of these, those up to CELLS_MAX */
#define MARKS		1024u		/* of a pool's tallies (pool_owner.c) */
#define CELL_MARK_SHIFT	16		/* in a cell's flags: the mark of the thread that allocated it */

struct moment {
	struct queue *queue;
	uint64_t value;
};

/* Moments: how many there are, and as many of them as there is room for. */
struct busy {
	struct moment *moment;
	unsigned int count, room;
};

/* For queues_busy(), with a struct busy. */
void busy_add(struct queue *queue, uint64_t value, void *arg);

/*
 * 48 bytes. A live cell is changed by the thread that claimed it (pool_owner.c), another one by the
 * thread that has the heap or the pool it is in; seq is odd meanwhile.
 */
struct cell {
	union {
		struct {
			uint32_t seq;
			uint32_t flags;	/* enum alloc_flags, CELL_MARK_SHIFT; atomic */
		};
		uint64_t head;		/* both at once, to claim it */
	};
	uint64_t size;			/* as asked; 0 if it is not live */
	uint64_t base;			/* constant while it may be looked up */
	union {
		uint64_t id;		/* live: CU_POINTER_ATTRIBUTE_BUFFER_ID */
		struct cell *next;	/* not live; written atomically: heaps look at id of what they gave out */
	};
	struct moment freed;		/* not live: not before */
};

/* The cells of a range; of one class for ever. */
struct cells {
	struct cells *next;
	uint64_t base;
	uint32_t count;
	uint32_t units;			/* of 512 bytes in each */
	uint64_t reciprocal;		/* 2^32 / units, rounded up */
	struct cell cell[];
};

enum range_state { RANGE_UNUSED, RANGE_FREE, RANGE_PENDING, RANGE_BLOCK, RANGE_CELLS };

struct range {
	struct chunk *chunk;
	uint32_t first, pages;
	uint8_t state;			/* enum range_state */
	uint8_t class;			/* of its cells */
	uint32_t priority;		/* in the tree */
	struct range *left, *right;	/* in the tree of free or pending ranges */
	struct range *next, *prev;	/* pending: in order of freeing; cells: with room */
	struct moment freed;		/* pending; cells: what the pages come after */
	struct cell cell;		/* of a block */
	struct cells *cells;		/* or these; atomic */
	uint32_t carved;		/* cells that were given out at all */
	uint32_t out;			/* cells that are not in the free list */
	bool listed;			/* in the list of those with room */
	/* While the depot is merged: */
	bool mixed;			/* freed in several queues */
	uint32_t pending;		/* cells in the depot */
	struct moment last;		/* of these cells and of the pages */
	struct cell *free;
};

struct chunk {
	struct CUmemPoolHandle_st *pool;
	uint64_t base;			/* of the block, too; atomic */
	struct range **at;		/* by page: the range that begins there, or has cells */
	struct import *imports;		/* of an imported pool, or NULL; atomic */
	uint32_t capacity;		/* of the tables; constant */
	uint32_t pages;
	struct block *block;		/* constant; what the index points at */
	uint64_t number;		/* in the pool, of the kernel */
	uint32_t flags;			/* enum alloc_flags of all that is in it; atomic */
	struct chunk *next, *prev;	/* in pool->chunks */
	struct chunk *next_idle, *prev_idle;	/* those that are one free range; those kept */
	bool idle;
	uint32_t word;			/* of the cache page, or 0 */
	uint64_t *starts;		/* a bit by page: a range begins there */
	uint64_t *summary;		/* a bit by word of starts: it is not 0 */
};

struct bin {
	struct cell *head;
	uint32_t count;
};

#define HEAP_RECENT	8u

/* What a heap gave out not long ago: a free that finds it here needs no lookup. */
struct recent {
	struct cell *cell;
	uint64_t id;
};

struct heap {
	struct CUmemPoolHandle_st *pool;
	CUstream stream;
	const void *owner;		/* who enters without the lock, or NULL; atomic */
	struct tally *tally;		/* the owner's */
	uint32_t busy;			/* the owner is in; atomic */
	uint32_t revoked;		/* the owner must take the lock; atomic */
	bool dirty;			/* something was freed since it was drained; atomic */
	bool common;			/* several threads use it: it gets no owner any more */
	bool gone;			/* its stream is, but it could not be claimed; pool->lock */
	struct lock lock;
	struct heap *next_of_stream;	/* atomic */
	struct heap *next_of_pool, **link;	/* pool->lock */
	struct recent recent[HEAP_RECENT];	/* by heap_recent() */
	struct bin bin[CLASSES];
};

struct tally {
	struct CUmemPoolHandle_st *pool;
	int64_t used, peak;		/* atomic; written by the thread; peak also to reset it */
	uint64_t id, id_end;		/* BUFFER_IDs to be given out */
	uint32_t birth;			/* flags of a cell when it becomes live; atomic */
	uint32_t plain;			/* of cells that the thread frees by plain stores; atomic */
	bool fenced;			/* the thread enters heaps with a barrier; atomic */
	struct tally *next_of_thread;
	struct tally *next_of_pool, **link;	/* pool->lock */
};

enum pool_flags {
	POOL_DEFAULT = 1 << 0,
	POOL_IMPORT = 1 << 1,
	POOL_HOST = 1 << 2,
	POOL_MANAGED = 1 << 3,
	POOL_DESTROYED = 1 << 4,	/* no handle any more, but memory */
	POOL_DECOMPRESS = 1 << 5,	/* CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS */
};

struct CUmemPoolHandle_st {
	uint32_t magic;			/* atomic */
	uint32_t flags;			/* enum pool_flags; atomic */
	struct lock lock;
	CUdevice device;		/* whose memory; of a host pool, any */
	CUmemLocation location;		/* as asked */
	int handle_types;
	uint32_t id;			/* of the kernel's pool, or 0 */
	uint64_t limit;			/* bytes, or 0 */
	uint64_t threshold;		/* atomic */
	bool follow, opportunistic, internal;	/* REUSE_*; atomic */
	uint32_t access;		/* a bit per device; lock */
	uint64_t reserved, reserved_high;	/* lock; atomic */
	int64_t used_gone;		/* of threads that ended; lock */
	int64_t used_high;		/* lock */
	bool dirty;			/* something was freed that no heap has; atomic */
	struct tally *tallies;		/* lock */
	uint64_t marks_used[MARKS / 64];	/* a bit by mark: a tally has it; lock */
	uint64_t marks_retired[MARKS / 64];	/* the same: it never counts again; atomic; lock */
	struct heap *heaps;		/* lock */
	unsigned int heaps_gone;	/* of these, those without a stream; lock */
	struct chunk *chunks, *idle;	/* lock */
	struct chunk *kept, *oldest_kept;	/* lock */
	uint32_t kept_count;		/* lock */
	uint64_t kept_bytes;		/* lock */
	struct range *tree, *pending;	/* by size: free, pending; lock */
	struct range *idle_tree;	/* by size: chunks that are one free range; lock */
	uint64_t idle_pages;		/* lock */
	struct range *oldest, *newest;	/* pending; lock */
	struct range *room[CLASSES_CELLS];	/* ranges of cells with some free; lock */
	struct bin depot[CLASSES];	/* lock */
	struct range *unused;		/* lock */
	struct limbo *limbo;		/* lock; atomic */
	struct withheld_cell *withheld;	/* lock; atomic */
	uint32_t blocks;		/* ranges that are no free pages; lock */
	uint64_t live_imports;		/* of an import; lock */
	uint32_t empty;			/* chunks of an import without pointers; lock; atomic */
	uint32_t trim_at;		/* look for more than that; lock */
	uint64_t empty_bytes;		/* of these; lock */
	struct moment *leaving;		/* a destroyed import is unmapped after these; lock */
	unsigned int leaving_count;	/* lock */
	uint64_t told_used, told_high, told_reserved;	/* to the kernel; lock */
	char name[16];
	struct CUmemPoolHandle_st *next;	/* in the list of all; constant */
	struct CUmemPoolHandle_st *next_unused;
};
typedef struct CUmemPoolHandle_st pool_t;

/* Who asks, and what that may take. */
struct taker {
	CUstream stream;
	struct queue *queue;		/* the stream's, or NULL */
	bool follow, opportunistic;
	bool exhausted;			/* all that is done may be had */
	bool any;			/* and what is pending, too: the stream will wait */
	bool drained;			/* what is free in heaps and the depot is in the pages */
	bool split;			/* any idle chunk may be divided */
};

/* Between these two the owner of a cell changes it. */
static inline void cell_begin(struct cell *cell)
{
	store_relaxed(&cell->seq, load_relaxed(&cell->seq) + 1);
	fence_release();
}

static inline void cell_end(struct cell *cell)
{
	store_release(&cell->seq, load_relaxed(&cell->seq) + 1);
}

/* ---- moments (pool_cells.c) */

/* Whether the memory may be used by what the taker's stream does next. */
bool moment_passed(const struct moment *moment, const struct taker *taker);
/* Whether anybody may have it. */
bool moment_settled(const struct moment *moment, const struct taker *taker);

/* ---- classes (pool_cells.c) */

extern uint8_t class_table[CLASS_MAX / CELL_UNIT + 1];
extern uint32_t class_bytes[CLASSES];
extern uint32_t class_keep[CLASSES];	/* cells that a heap keeps */

/* @size: 1 to CLASS_MAX */
static inline unsigned int class_of(uint64_t size)
{
	return class_table[(size + CELL_UNIT - 1) / CELL_UNIT];
}

/*
 * When less is left of a pool's limit the last chunk gets it, too: otherwise it would be of use for small
 * blocks alone, and dividing the chunk would keep larger ones out.
 */
static inline uint64_t limit_rest(const pool_t *pool)
{
	return min_u64(pool->limit / 8, LIMIT_REST);
}

/* ---- chunks and pages (pool_pages.c); pool->lock is held */

CUresult chunk_make(pool_t *pool, uint64_t length);
void chunk_destroy(struct chunk *chunk);
/* A chunk without pages of its own: a buffer object of another process, which becomes its. */
CUresult chunk_adopt(pool_t *pool, CUdevice device, uint32_t bo, uint64_t length,
		     uint64_t number, struct chunk **chunk);
/* @pages pages for a taker, NULL if none are to be had; a block, with what it must come after. */
struct range *pages_take(pool_t *pool, uint32_t pages, const struct taker *taker);
void pages_give(pool_t *pool, struct range *range, const struct moment *freed);
/* Have what is pending no more coalesce; ends when @tries ranges, oldest first, still are. */
void pages_settle(pool_t *pool, const struct taker *taker, unsigned int tries);
/*
 * Have no more than @keep bytes reserved if idle chunks allow it; @below: it may get less. They are
 * kept where that is possible.
 */
void chunks_release(pool_t *pool, uint64_t keep, bool below);
/* Give back all chunks that are kept. */
void chunks_forget(pool_t *pool);
/* The words of chunks, shared with the kernel; NULL if it has none. Constant once there is a pool. */
extern uint32_t *chunk_words;
void chunks_init(void);
/* One more chunk that has room for @size bytes (pool_grow.c). */
CUresult pool_grow(pool_t *pool, uint64_t size);
/* Before the first pool. */
void grow_init(void);
/* There is one chunk more, or less. */
void grow_count(int more);
struct range *range_of(uint64_t addr);
void range_publish_cells(struct range *range, struct cells *cells);

static inline uint64_t range_base(const struct range *range)
{
	return range->chunk->block->base + (uint64_t)range->first * PAGE;
}

/* ---- lookups (pool_pages.c); no lock */

/* The range that a page is in, but not the first page of. */
struct range *range_inside(struct chunk *chunk, uint64_t page);

/* What an address belongs to; NULL if nothing. */
static inline struct cell *pool_cell(struct chunk *chunk, uint64_t addr)
{
	uint64_t page = (addr - load_relaxed(&chunk->base)) / PAGE, n;
	struct cells *cells;
	struct range *range;

	if (unlikely(page >= chunk->capacity))
		return NULL;
	range = load_acquire(&chunk->at[page]);
	if (!range) {
		range = range_inside(chunk, page);
		if (!range)
			return NULL;
	}
	cells = load_acquire(&range->cells);
	if (!cells)
		return &range->cell;
	n = (addr - load_relaxed(&cells->base)) / CELL_UNIT * cells->reciprocal >> 32;
	return n < cells->count ? &cells->cell[n] : NULL;
}

/* ---- cells (pool_cells.c) */

void classes_init(void);
/* pool->lock is held. */
struct cell *cells_take(pool_t *pool, uint64_t size, const struct taker *taker);
void cell_release(pool_t *pool, struct cell *cell, unsigned int class);
/* Empty the depot of what is settled; heaps before. */
void depot_drain(pool_t *pool, const struct taker *taker);
/* Make pending pages of ranges of cells that were all freed in one queue. */
void depot_merge(pool_t *pool, const struct taker *taker);
void depot_put(pool_t *pool, struct cell *cell, unsigned int class);
/* A block whose size has no class. */
void large_release(pool_t *pool, struct cell *cell, const struct moment *freed);

/* Pages that a range of cells of a class has. */
extern uint32_t class_pages[CLASSES_CELLS];
/* More cells for a heap, if they cost nothing. */
struct cell *cells_spare(pool_t *pool, unsigned int class, const struct taker *taker);

/* ---- what is freed late (pool_late.c) */

/*
 * A block that comes free after all of some moments. False: no memory; it is lost until the end.
 * pool->lock is held.
 */
bool late_add(pool_t *pool, struct cell *cell, uint64_t size, const struct moment *moments,
	      unsigned int count);
/*
 * A claimed block that was exported by itself: what was exported opens nothing from now on. Whether
 * others reach the block; then late_withhold() keeps it back. No lock is held.
 */
bool late_retire(const struct cell *cell, uint64_t size);
void late_withhold(pool_t *pool, struct cell *cell, uint64_t size);	/* pool->lock is held */
/* Ask the kernel what is still needed, for the next late_reclaim(). pool->lock is not held. */
void late_look(pool_t *pool);
/* Release what is not needed any more. pool->lock is held. */
void late_reclaim(pool_t *pool);

/* ---- threads and tallies (pool_tally.c) */

struct pool_thread {
	struct tally *tallies;
	bool fenced;			/* all of them are */
};

/* Its address stands for the thread. */
extern __thread struct pool_thread pool_thread __attribute__((tls_model("initial-exec")));

/* Before the first pool. */
void pools_prepare(void);
/* This thread's tally of a pool; NULL if there is no memory. No lock is held. */
struct tally *tally_get(pool_t *pool);
void pool_used_merge(pool_t *pool);	/* pool->lock is held */
int64_t pool_used(pool_t *pool);	/* pool->lock is held */
void pool_used_reset(pool_t *pool);	/* pool->lock is held */

static inline void tally_add(struct tally *tally, int64_t bytes)
{
	int64_t used = tally->used + bytes;

	store_relaxed(&tally->used, used);
	if (used > load_relaxed(&tally->peak))
		store_relaxed(&tally->peak, used);
}

/* ---- heaps (pool_heap.c) */

/* A dead cell goes back, to the depot or the pages; pool->lock is held. */
void cell_return(pool_t *pool, struct cell *cell, uint64_t size);
void taker_init(struct taker *taker, const pool_t *pool, CUstream stream);
/* Heaps, depot and pages: make all that is settled free pages. pool->lock is held. */
void pool_drain(pool_t *pool, const struct taker *taker);
void heaps_drain(pool_t *pool);		/* pool->lock is held */

/* The current pool of each device for cuMemAllocAsync(), or NULL; atomic. */
extern pool_t *device_current[GPUMEM_MAX_DEVICES];
/* ---- pools (pool.c) */

/* The largest request that makes sense. */
uint64_t pool_most(const pool_t *pool);
/* Let the kernel know what is used; pool->lock is held. */
void pool_tell(pool_t *pool);
/* A pool without a handle gives back what it can; pool->lock is held. */
void pool_reap(pool_t *pool);
/* True if that was all: pool_put() must follow without the lock. pool->lock is held. */
bool pool_end(pool_t *pool);
pool_t *pool_get(void);
void pool_put(pool_t *pool);

static inline bool pool_valid(const pool_t *pool)
{
	return likely((uintptr_t)pool >= PAGE && load_acquire(&pool->magic) == POOL_MAGIC);
}

/* Whether the process may allocate from it. */
static inline bool pool_usable(const pool_t *pool)
{
	return pool_valid(pool) && !(load_relaxed(&pool->flags) & POOL_IMPORT);
}

/* ---- pools of other processes (pool_ipc.c) */

enum found import_lookup(struct import *imports, uint64_t addr, struct span *span);
/* @stream: NULL if the free is in no stream. */
CUresult import_free(uint64_t ptr, struct chunk *chunk, CUstream stream);
/* The import has no handle any more; give back what no work needs. pool->lock is held. */
void import_reap(pool_t *pool);
/* Unmap empty chunks, those mapped first before the others: until few are left, or @all. */
void import_trim(pool_t *pool, bool all);
CUresult import_destroy(pool_t *pool);
/* Hold a channel, for pools that go over a fabric. */
CUresult channel_hold(void);

#endif /* GPUMEM_POOL_H */
