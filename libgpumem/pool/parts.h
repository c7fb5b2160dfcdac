/* SPDX-License-Identifier: MIT */
/*
 * Structures and internal functions of the stream-ordered allocator.
 *
 * Files
 *
 *   pool.c         pools as objects
 *   pool_attributes.c  their attributes
 *   pool_chunks.c  chunks
 *   pool_pages.c   pages of chunks
 *   pool_grow.c    the size of a new chunk
 *   pool_cells.c   blocks, classes, free lists
 *   pool_late.c    blocks that are freed later than the call
 *   pool_heap.c    the heaps: allocating and freeing, the fast path
 *   pool_take.c    allocating what no heap has
 *   pool_quarantine.c  freed blocks that the checker keeps
 *   pool_owner.c   the thread that may enter a heap
 *   pool_tally.c   threads
 *   pool_ipc.c     pools of other processes
 *
 * Vocabulary
 *
 *   chunk      one buffer object of a pool, mapped at one address. A pool's chunks are its reserved memory.
 *   range      neighbouring pages of a chunk in one state: free, pending, a block, or cells
 *   cell       the description of one allocation. A range of cells is many small allocations of a class.
 *   class      a size that requests up to 1 MiB are rounded up to. Larger requests get whole pages.
 *   moment     (queue, value), as in exec.h. @queue is NULL: already reached
 *   mark       the number of a thread in a pool, which the thread's cells carry (pool_owner.c)
 *   heap       free cells for one stream in one pool: those that were freed in the stream and have not been
 *              moved to a free list, and those that the heap took in advance
 *   free list  a pool's list of free cells of a class, behind the heaps
 *   drain      empty the heaps into the free lists, and the free lists into the pages
 *   tally      what one thread added to a pool's used bytes
 *
 * States of a cell or a range
 *
 *   live       allocated
 *   pending    freed, but its moment may not be reached
 *   settled    freed, and any stream may use it
 *   late       freed by cuMemFree(), but queued work of several streams may use it (pool_late.c)
 *   withheld   freed, but another process or driver reaches it (pool_late.c)
 *
 * States of a chunk
 *
 *   idle       one free range
 *   kept       idle and no longer reserved, but still mapped. The kernel may take its memory at any time
 *              (struct gpumem_bo_alloc, @word).
 *   doomed     has left its pool, and is about to be given back to the kernel
 *
 * The life of a cell: it is live, then in the heap of the stream that freed it, then in the free list of its
 * class, then part of its pages. The cell keeps its moment throughout. Before the moment is reached, only the
 * stream that freed the cell, or a stream that waits for the moment, may use the cell.
 *
 * Rules
 *
 *   - Structures that a lookup may meet (chunks with their tables, ranges, arrays of cells) are never returned
 *     to malloc(): they are used again for the same type and size. So a lookup takes no lock. If the fields
 *     change while the lookup reads them, the cell's sequence count or base shows the change.
 *   - A cell's class follows from the size that was asked for.
 *
 * Locks: pool->lock, then heap->lock. mem_lock is taken inside pool->lock. A stream's lock is not: it is an
 * outer lock (core.h). No thread waits for work while it holds pool->lock. The owner of a heap enters the heap
 * without an atomic instruction (pool_owner.c).
 *
 * The kernel populates, maps and unmaps chunks while no lock is held. A chunk that leaves its pool is doomed
 * under pool->lock. chunks_return(), which drops the lock meanwhile, gives the doomed chunks back; pool_leave()
 * calls it.
 */
#ifndef GPUMEM_POOL_PARTS_H
#define GPUMEM_POOL_PARTS_H

#include "pool/pool.h"

#define POOL_MAGIC	0x6c6f6f70	/* "pool" */

#define CELL_UNIT	512ull
#define SHARES_CHUNK	(256ull << 10)	/* larger blocks have chunks of their own length (pool_grow.c) */
#define LIMIT_REST	(32ull << 20)	/* an unusable remainder of a pool's limit, at most (limit_rest()) */
#define CELLS_MAX	(32ull << 10)	/* largest size that shares pages with others */
#define CLASS_MAX	(1ull << 20)	/* largest size that has a class */
#define CLASSES		105		/* the last one is for blocks of CLASS_MAX bytes with a red zone */
#define CLASSES_CELLS	32		/* of these, those up to CELLS_MAX */
#define MARKS		1024u		/* of a pool's tallies (pool_owner.c) */
#define CELL_MARK_SHIFT	16		/* in a cell's flags: the mark of the thread that allocated it */
#define CELL_FLAGS	((1u << CELL_MARK_SHIFT) - 1)
#define CELL_ZONED	(1u << 31)	/* in a cell's flags: the red zone behind the block has its pattern */
_Static_assert(ALLOC_EXPORTED <= CELL_FLAGS && ALLOC_SYNC_MEMOPS <= CELL_FLAGS,
	       "flags that a cell may have lie below the thread's number");
_Static_assert((MARKS - 1) << CELL_MARK_SHIFT < CELL_ZONED, "marks lie below the flag of a red zone");

/* A list of moments with @room places; @count may be larger. */
struct busy {
	struct moment *moment;
	unsigned int count, room;
};

/* For queues_busy(), with a struct busy. */
void busy_add(struct queue *queue, uint64_t value, void *arg);

/*
 * 48 bytes. The thread that claimed a live cell changes it (pool_owner.c). A cell that is not live is changed
 * by the thread that holds its heap or its pool. seq is odd during a change.
 */
struct cell {
	union {
		struct {
			uint32_t seq;
			uint32_t flags;	/* enum alloc_flags, CELL_MARK_SHIFT, CELL_ZONED; atomic */
		};
		uint64_t head;		/* both at once, to claim it */
	};
	uint64_t size;			/* as asked; 0 if it is not live */
	uint64_t base;			/* constant while it may be looked up */
	union {
		uint64_t id;		/* live: CU_POINTER_ATTRIBUTE_BUFFER_ID */
		struct cell *next;	/* not live; written atomically: pool_free() may read it as id */
	};
	struct moment freed;		/* not live: no other stream may use it before */
};

/* The cells of a range, all of one class as long as the structure exists. */
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
	struct moment freed;		/* pending and cells: the moment of the pages */
	struct cell cell;		/* of a block */
	struct cells *cells;		/* RANGE_CELLS: its cells; atomic */
	uint32_t carved;		/* cells that were given out at least once */
	uint32_t out;			/* carved cells that are not in @free */
	bool listed;			/* in pool->room */
	/* While the free lists are merged: */
	bool mixed;			/* no moment of its free cells is known to be the last */
	uint32_t pending;		/* its cells in the free list of the class */
	struct moment last;		/* the last one of these cells and of the pages */
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
	uint64_t number;		/* the kernel's number of it in the pool */
	uint32_t flags;			/* enum alloc_flags of all that is in it; atomic */
	struct chunk *next, *prev;	/* in pool->chunks */
	struct chunk *next_idle, *prev_idle;	/* in pool->idle or pool->kept */
	bool idle;
	uint32_t word;			/* index of its word in chunk_words, or 0: it cannot be kept */
	uint64_t *starts;		/* a bit by page: a range begins there */
	uint64_t *summary;		/* a bit by word of @starts: the word is not 0 */
};

struct bin {
	struct cell *head;
	uint32_t count;
};

#define HEAP_RECENT	8u

/* A recent allocation from the heap: a free that finds the cell here needs no lookup. */
struct recent {
	struct cell *cell;
	uint64_t id;
};

struct heap {
	struct CUmemPoolHandle_st *pool;
	CUstream stream;
	const void *owner;		/* the thread that enters without the lock, or NULL; atomic */
	struct tally *tally;		/* the owner's */
	uint32_t inside;		/* the owner is in the heap; atomic */
	uint32_t revoked;		/* the owner must take the lock; atomic */
	bool dirty;			/* a cell was freed into it since it was drained; atomic */
	bool common;			/* several threads use it: it gets no further owner */
	bool gone;			/* its stream has gone, but it was not claimed then; pool->lock */
	struct lock lock;
	struct heap *next_of_stream;	/* atomic */
	struct heap *next_of_pool, **link;	/* pool->lock */
	struct recent recent[HEAP_RECENT];	/* by heap_recent() */
	struct bin bin[CLASSES];
};

struct tally {
	struct CUmemPoolHandle_st *pool;
	int64_t used, peak;		/* atomic; the thread writes both, pool_used_merge() resets peak */
	uint64_t id, id_end;		/* BUFFER_IDs to be given out */
	uint32_t birth;			/* flags of a cell when it becomes live; atomic */
	uint32_t plain;			/* flags of the cells that the thread frees by plain stores; atomic */
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
	const uint8_t *classes;		/* class_table or zoned_table; constant while there are blocks; atomic */
	struct lock lock;
	CUdevice device;		/* whose memory; of a host pool, any */
	CUmemLocation location;		/* as the program gave it */
	int handle_types;
	uint32_t id;			/* of the kernel's pool, or 0 */
	uint64_t limit;			/* bytes, or 0 */
	uint64_t threshold;		/* atomic */
	bool follow, opportunistic, internal;	/* REUSE_*; atomic */
	uint32_t access;		/* a bit per device; lock */
	uint64_t reserved, reserved_high;	/* lock; atomic */
	int64_t used_gone;		/* of threads that ended; lock */
	int64_t used_high;		/* lock */
	bool dirty;			/* blocks outside the heaps were freed since it was drained; atomic */
	struct tally *tallies;		/* lock */
	uint64_t marks_used[MARKS / 64];	/* a bit by mark: a tally has it; lock */
	uint64_t marks_retired[MARKS / 64];	/* a bit by mark: no tally gets it again; atomic; lock */
	struct heap *heaps;		/* lock */
	unsigned int heaps_gone;	/* of these, those without a stream; lock */
	struct chunk *chunks, *idle;	/* lock */
	struct chunk *kept, *oldest_kept;	/* newest first; lock */
	uint32_t kept_count;		/* lock */
	uint64_t kept_bytes;		/* lock */
	struct chunk *doomed;		/* by next; lock */
	unsigned int visitors;		/* threads that use chunks without the lock; lock */
	uint64_t promised;		/* bytes of chunks that are being made; lock */
	/* Threads that make a chunk; of these, those whose chunk many blocks share; lock */
	unsigned int growing, growing_shared;
	unsigned int growth_awaited;	/* threads in growth_await(); lock */
	uint32_t growths;		/* chunks made, or failed to be made; a futex; lock to write */
	struct range *tree, *pending;	/* by size: free, pending; lock */
	struct range *idle_tree;	/* by size: chunks that are one free range; lock */
	uint64_t idle_pages;		/* lock */
	struct range *oldest, *newest;	/* pending; lock */
	struct range *room[CLASSES_CELLS];	/* ranges of cells with some free; lock */
	struct bin free_list[CLASSES];	/* lock */
	struct range *unused;		/* lock */
	struct late_cell *late;		/* lock; atomic */
	struct withheld_cell *withheld;	/* lock; atomic */
	struct quarantined *quarantined;	/* the oldest; lock; atomic */
	struct quarantined *quarantined_last;	/* lock */
	struct quarantined *quarantined_bare;	/* the oldest that was not filled yet; lock; atomic */
	uint64_t quarantined_since;	/* the oldest one's number; lock; atomic */
	uint32_t blocks;		/* ranges that are a block or cells; lock */
	uint64_t live_imports;		/* pointers into an imported pool; lock */
	struct opening *openings;	/* chunks of an import that are being opened; lock */
	uint32_t empty;			/* chunks of an import without pointers; lock; atomic */
	uint32_t trim_at;		/* the value of @empty at which to trim next; lock */
	uint64_t empty_bytes;		/* of the empty chunks; lock */
	struct moment *leaving;		/* a destroyed import is unmapped after these; lock */
	unsigned int leaving_count;	/* lock */
	uint64_t reported_used, reported_high, reported_reserved;	/* to the kernel; lock */
	char name[16];
	struct CUmemPoolHandle_st *next;	/* in the list of all pools; constant */
	struct CUmemPoolHandle_st *next_unused;
};
typedef struct CUmemPoolHandle_st pool_t;

#define TAKER_KNOWN	16u

/* A request for a block: the stream, and what it may take. */
struct taker {
	CUstream stream;
	struct queue *queue;		/* the stream's, or NULL */
	struct {
		struct queue *queue;
		uint64_t value;		/* the taker's queue comes after it */
	} known[TAKER_KNOWN];		/* answers of queue_followed(), by queue */
	bool follow, opportunistic;	/* the pool's attributes */
	bool exhausted;			/* may take all memory whose free is complete */
	bool any;			/* may take pending memory, too: the stream will wait */
	bool drained;			/* the heaps and free lists have been drained */
	bool split;			/* any idle chunk may be divided */
};

/* Between cell_begin() and cell_end() the thread that may change a cell changes it. */
static inline uint32_t cell_begin(struct cell *cell)
{
	return seq_write_begin(&cell->seq);
}

/* @seq: what cell_begin() returned. */
static inline void cell_end(struct cell *cell, uint32_t seq)
{
	seq_write_end(&cell->seq, seq);
}

/* ---- moments (pool_cells.c) */

/* Whether the next operation of the taker's stream may use the memory. */
bool moment_passed(const struct moment *moment, const struct taker *taker);
/* Whether every stream may use the memory. */
bool moment_settled(const struct moment *moment, const struct taker *taker);

/* ---- classes (pool_cells.c) */

#define CLASS_UNITS	(CLASS_MAX / CELL_UNIT + 1)

extern HIDDEN uint8_t class_table[CLASS_UNITS];
extern HIDDEN uint8_t zoned_table[CLASS_UNITS];	/* of classes with room for a red zone (pool_quarantine.c) */
extern HIDDEN uint32_t class_bytes[CLASSES];
extern HIDDEN uint32_t class_keep[CLASSES];	/* cells that a heap keeps */

/* @size: 1 to CLASS_MAX */
static inline unsigned int class_of(const pool_t *pool, uint64_t size)
{
	return load_relaxed(&pool->classes)[(size + CELL_UNIT - 1) / CELL_UNIT];
}

/* Bytes of the red zone behind a block, which are part of its class or its pages. */
static inline unsigned int pool_zone(const pool_t *pool, uint64_t size)
{
	/* Blocks of whole slots stay so. */
	return load_relaxed(&pool->classes) == class_table || (size > CLASS_MAX && !(size % SLOT)) ? 0 : RED_ZONE;
}

/*
 * If making a chunk would leave no more than this of the pool's limit, the chunk gets the remainder, too. The
 * remainder alone would serve small blocks only, and dividing the last chunk would keep larger blocks out.
 */
static inline uint64_t limit_rest(const pool_t *pool)
{
	return min_u64(pool->limit / 8, LIMIT_REST);
}

/* ---- how large chunks are (pool_grow.c) */

enum grown {
	GROW_DONE,			/* there is a chunk, and the lock was held since */
	GROW_REFUSED,			/* there is no memory */
	GROW_AGAIN,			/* another thread made a chunk, or failed to */
};

/*
 * Add a chunk that has room for @size bytes. The lock is dropped meanwhile, so the caller must look at
 * everything in the pool again: the pool may even have ended. @wait: if another thread is making a chunk, the
 * caller may wait for that chunk instead of making its own.
 */
enum grown pool_grow(pool_t *pool, uint64_t size, bool wait);
/*
 * Around making a chunk of @length bytes, @shared by many blocks: other threads can wait until
 * it ends. The lock may be dropped in between, and the pool does not end.
 */
void growth_begin(pool_t *pool, uint64_t length, bool shared);
void growth_end(pool_t *pool, uint64_t length, bool shared);
/* Wait until another thread's growth has ended. The lock is dropped in between. */
void growth_await(pool_t *pool);
/* Before the first pool. */
void grow_init(void);
/* Add @more, which may be negative, to the number of the process's chunks. */
void grow_count(int more);

/* ---- cells (pool_cells.c) */

void classes_init(void);
/* pool->lock is held. */
struct cell *cells_take(pool_t *pool, uint64_t size, const struct taker *taker);
void cell_release(pool_t *pool, struct cell *cell, unsigned int class);
/* Move settled cells from the free lists to the pages. The caller has drained the heaps. */
void free_lists_drain(pool_t *pool, const struct taker *taker);
/* Turn ranges into pending pages if all their cells were freed in one queue. */
void free_lists_merge(pool_t *pool, const struct taker *taker);
void free_list_put(pool_t *pool, struct cell *cell, unsigned int class);
/* A block whose size has no class. */
void large_release(pool_t *pool, struct cell *cell, const struct moment *freed);

/* Pages that a range of cells of a class has. */
extern HIDDEN uint32_t class_pages[CLASSES_CELLS];
/* A free cell of a class from the free list or from a range of cells with room; NULL if there is none. */
struct cell *cells_spare(pool_t *pool, unsigned int class, const struct taker *taker);

/* ---- late and withheld blocks (pool_late.c) */

/*
 * Add a block that is free when all of some moments are reached. False: no memory, and the block stays
 * taken until the pool ends. pool->lock is held.
 */
bool late_add(pool_t *pool, struct cell *cell, uint64_t size, const struct moment *moments,
	      unsigned int count);
/*
 * Revoke the tokens of a claimed block that was exported by itself. True: another process or driver still
 * reaches the block, and late_withhold() must keep it. No lock is held.
 */
bool late_retire(const struct cell *cell, uint64_t size);
void late_withhold(pool_t *pool, struct cell *cell, uint64_t size);	/* pool->lock is held */
/* The same for a block whose tokens are still to be revoked. */
void late_hold(pool_t *pool, struct cell *cell, uint64_t size);
/* Ask the kernel which withheld blocks are still reached, for late_reclaim(). pool->lock is not held. */
void late_look(pool_t *pool);
/* Release late blocks whose work is done, and withheld blocks that are not reached. pool->lock is held. */
void late_reclaim(pool_t *pool);

/* ---- threads and tallies (pool_tally.c) */

struct pool_thread {
	struct tally *tallies;
	bool fenced;			/* of all tallies (pool_owner.c) */
};

/* Its address stands for the thread. */
extern __thread HIDDEN struct pool_thread pool_thread __attribute__((tls_model("initial-exec")));

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

/* A cell that is not live goes back, to the free list or the pages. pool->lock is held. */
void cell_return(pool_t *pool, struct cell *cell, uint64_t size);
void taker_init(struct taker *taker, const pool_t *pool, CUstream stream);
/* Turn all settled memory in heaps, free lists and pending pages into free pages. pool->lock is held. */
void pool_drain(pool_t *pool, const struct taker *taker);
void heaps_drain(pool_t *pool);		/* pool->lock is held */

/* The current pool of each device for cuMemAllocAsync(), or NULL; atomic. */
extern HIDDEN pool_t *device_current[GPUMEM_MAX_DEVICES];
/* ---- pools (pool.c) */

/* The largest request that can succeed. */
uint64_t pool_most(const pool_t *pool);
/* Give idle chunks back: those of all pools, or those of @only if it is not NULL. No lock is held. */
void pools_give_back(pool_t *only);
/* Report the used bytes and the highest values to the kernel; pool->lock is held. */
void pool_tell(pool_t *pool);
/* Doom the idle chunks of a pool without a handle; pool->lock is held. */
void pool_reap(pool_t *pool);
/*
 * Drop pool->lock after chunks may have been doomed, and give them back. A pool without a handle ends with its
 * last chunk, so afterwards the caller must check that the structure is still the same pool.
 */
void pool_leave(pool_t *pool);
pool_t *pool_get(void);
void pool_put(pool_t *pool);

static inline bool pool_valid(const pool_t *pool)
{
	return likely((uintptr_t)pool >= PAGE && load_acquire(&pool->magic) == POOL_MAGIC);
}

/* Whether a pool has any of some flags. */
static inline bool pool_is(const pool_t *pool, uint32_t flags)
{
	return load_relaxed(&pool->flags) & flags;
}

/* Whether the process may allocate from a pool. */
static inline bool pool_usable(const pool_t *pool)
{
	return pool_valid(pool) && !(load_relaxed(&pool->flags) & POOL_IMPORT);
}

/* ---- pools of other processes (pool_ipc.c) */

enum found import_lookup(struct import *imports, uint64_t addr, struct span *span);
/* @stream: NULL if the free is in no stream. */
CUresult import_free(uint64_t ptr, struct chunk *chunk, CUstream stream);
/* Doom the chunks of a destroyed import when all work is complete. pool->lock is held. */
void import_reap(pool_t *pool);
/* Doom empty chunks whose work is complete, oldest first: until few are left, or @all. */
void import_trim(pool_t *pool, bool all);
CUresult import_destroy(pool_t *pool);
/* Keep a channel open, for pools that are exported over a fabric. */
CUresult channel_hold(void);

#endif /* GPUMEM_POOL_PARTS_H */
