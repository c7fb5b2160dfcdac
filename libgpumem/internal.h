/* SPDX-License-Identifier: MIT */
/*
 * What the files of the library share. Nothing here is seen by programs.
 *
 * Vocabulary
 *
 *   client      the process's one open file of a device node; other devices are attached to it
 *   device      a visible device: CUDA ordinal (what programs say) and index (what the kernel says)
 *   context     a CUcontext: an owner of memory, streams and a sticky error; userspace only
 *   block       a mapping: one buffer object at one place of the address arena, whole 2 MiB slots
 *   alloc       what a program got from one call: a part of a block, or all of it
 *   span        a consistent copy of what an alloc says
 *   queue       a kernel stream: ring, timeline page, number of entries submitted
 *   stream      a CUstream; has a queue from its first queued operation on
 *   inline      executed by the calling thread because the stream is idle (order.c)
 *   default     the legacy stream (handles 0, 1) or a thread's own (2, and 0 in _ptds/_ptsz forms)
 *   dark        device memory in strict mode: the CPU does not reach it, so neither do we
 *
 * Device addresses are process addresses. All sizes are bytes.
 *
 * Locks, outer to inner: init_lock; lists of contexts; a context's lock; a stream's lock; an
 * event's lock; array_lock; a pool's lock, its heaps' locks; staging, queue, work and event slot locks;
 * mem_lock; change_lock. A context's lock of active queues is innermost. Queries of streams (but for the
 * legacy stream) and events take none, nor do lookups of addresses, unless what they look for changes.
 *
 * Structures that programs hold handles of (contexts, streams, events, arrays), allocs, blocks and queues
 * are never returned to malloc(): they are reused for the same type only, so that a stale handle or
 * a concurrent lookup reads a structure of the right type and finds out by its magic number, its
 * generation or its sequence count.
 */
#ifndef GPUMEM_INTERNAL_H
#define GPUMEM_INTERNAL_H

#define __CUDA_API_VERSION_INTERNAL
#include "cuda.h"
#include "gpumem.h"

#include <linux/gpumem.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define likely(x)		__builtin_expect(!!(x), 1)
#define unlikely(x)		__builtin_expect(!!(x), 0)
#define load_acquire(p)		__atomic_load_n(p, __ATOMIC_ACQUIRE)
#define load_relaxed(p)		__atomic_load_n(p, __ATOMIC_RELAXED)
#define store_release(p, v)	__atomic_store_n(p, v, __ATOMIC_RELEASE)
#define store_relaxed(p, v)	__atomic_store_n(p, v, __ATOMIC_RELAXED)

/*
 * gcc's thread sanitizer does not know fences. What they order are atomic accesses only, so there a
 * compiler barrier and, for the full one, the older builtin do.
 */
#if defined(__SANITIZE_THREAD__)
#define fence_acquire()		__asm__ volatile("" ::: "memory")
#define fence_release()		__asm__ volatile("" ::: "memory")
#else
#define fence_acquire()		__atomic_thread_fence(__ATOMIC_ACQUIRE)
#define fence_release()		__atomic_thread_fence(__ATOMIC_RELEASE)
#endif
#define fence_full()		__sync_synchronize()

/*
 * Nor does it see the kernel: that what the host thread did before it signalled a timeline comes
 * before what follows when an entry behind that is done.
 */
#if defined(__SANITIZE_THREAD__)
void __tsan_acquire(const void *addr);
void __tsan_release(const void *addr);
#define told_kernel()		__tsan_release(&client)
#define heard_of_kernel()	__tsan_acquire(&client)
#else
#define told_kernel()		((void)0)
#define heard_of_kernel()	((void)0)
#endif

#define PAGE		4096ull
#define SLOT_SHIFT	21
#define SLOT		(1ull << SLOT_SHIFT)	/* granularity of addresses and of backing */
#define UNIT		512ull			/* granularity inside a shared block */
#define SLOT_UNITS	(SLOT / UNIT)
#define INLINE_MAX	(256ull << 10)		/* asynchronous operations above this are queued */

static inline uint64_t round_up(uint64_t v, uint64_t to)
{
	return (v + to - 1) & ~(to - 1);
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* ---- locks */

/* A futex: 0 free, 1 taken, 2 taken and somebody may sleep. One exchange when uncontended. */
struct lock {
	uint32_t word;
};

void lock_slow(struct lock *lock);
void lock_wake(struct lock *lock);
/*
 * Sleep for a moment: what the caller waits for has no lock that it could sleep on. Unlike yielding,
 * this lets a thread of lower priority run. No cancellation point.
 */
void lock_doze(void);

static inline bool lock_try(struct lock *lock)
{
	uint32_t free = 0;

	return __atomic_compare_exchange_n(&lock->word, &free, 1, false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

/* What is read from now on is read after the lock was taken: an exchange is a barrier on x86. */
static inline void fence_locked(void)
{
#if defined(__x86_64__)
	__asm__ volatile("" ::: "memory");
#else
	fence_full();
#endif
}

static inline void lock_take(struct lock *lock)
{
	if (unlikely(!lock_try(lock)))
		lock_slow(lock);
}

static inline void lock_drop(struct lock *lock)
{
	if (unlikely(__atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE) == 2))
		lock_wake(lock);
}

/*
 * Around code that reaches a cancellation point with a lock held, or with something to be given back:
 * a thread that is cancelled there would leave both for ever. The thread is cancelled afterwards, at
 * the next cancellation point.
 */
static inline int cancel_disable(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

static inline void cancel_restore(int state)
{
	pthread_setcancelstate(state, &state);
}

/* ---- client (client.c) */

/* A list of shared blocks of one kind (block.c). */
struct shared {
	struct block *first;		/* mem_lock */
	bool growing;			/* a thread makes another block; mem_lock */
	uint32_t grown;			/* how often that has ended; mem_lock to write; a futex */
};

struct device {
	unsigned int index;		/* in the client */
	unsigned int ordinal;		/* N of /dev/gpumemN */
	uint64_t total;
	int node;
	unsigned int workers;
	char engine[16];
	unsigned char uuid[16];
	struct queue *queues;		/* every stream's queue, newest first; only grows */
	struct queue *zeroing;		/* the library's own, in strict mode; strict.c's lock */
	struct shared shared;		/* blocks with room for small allocs */
	struct shared shared_host;	/* the same, outside the device's memory */
	struct shared shared_managed;	/* the same, managed */
};

struct client {
	const uint32_t *alive;		/* zero before cuInit() and in a forked child */
	uint32_t *easy;			/* the same, and once a synchronisation has more to do */
	int fd;
	uint32_t vm;
	unsigned int devices;
	uint32_t access;		/* a bit per device, for struct gpumem_vm_map */
	bool inlining;			/* GPUMEM_INLINE is not 0 */
	bool strict;			/* GPUMEM_STRICT is set and not 0 (strict.c) */
	bool inlining_device;		/* inlining and not strict */
	bool debug;			/* GPUMEM_DEBUG is set and not 0 */
	unsigned int spins;		/* looks at a timeline before sleeping */
	struct device device[GPUMEM_MAX_DEVICES];
};
extern struct client client;

CUresult client_init(void);
/* 0 or a positive errno; restarted after signals. */
int client_ioctl(unsigned long request, void *arg);
void client_destroy_id(uint32_t id);
/* free bytes of a device as the kernel says now */
CUresult client_free_bytes(unsigned int device, uint64_t *free_bytes);
/* A descriptor, or -1, as another number if it has a standard stream's: those are not ours. */
int fd_raise(int fd);
/* How much more than its share of a device's memory the process holds; 0 if nobody knows. */
uint64_t client_excess(unsigned int device);
CUresult result_of_errno(int error);

/* ---- who may open handles (scope.c) */

/* Reads GPUMEM_IPC. */
void scope_init(void);
/* For GPUMEM_TOKEN_CREATE and GPUMEM_EVENT_CREATE, for GPUMEM_POOL_EXPORT with FABRIC. */
uint32_t scope_token_flags(void);
uint32_t scope_pool_flags(void);
/* What the administrator refused: the result, after a line on standard error, the first time. */
CUresult scope_refused(void);

/* Set in the thread that runs host functions (hostfn.c). */
extern __thread bool host_thread __attribute__((tls_model("initial-exec")));

/* Before cuInit() and in a forked child. */
static inline bool not_initialized(void)
{
	return unlikely(!load_acquire(load_acquire(&client.alive)));
}

/* Whether a process is initialized in which synchronising does nothing but wait. */
static inline bool easy_process(void)
{
	return likely(load_acquire(load_acquire(&client.easy)));
}

/* From now on synchronising gives memory back. */
static inline void process_uneasy(void)
{
	store_release(load_acquire(&client.easy), 0);
}

#include "debug.h"

/*
 * What a public function returns. CALL evaluates its expression only in an initialized process. The
 * arguments behind the expression are those of the public function: GPUMEM_DEBUG=1 prints them.
 */
#define RETURN_AS(name, expr)						\
	do {								\
		CUresult result_ = (expr);				\
									\
		if (unlikely(result_))					\
			debug_failure(name, result_);			\
		return result_;						\
	} while (0)
#define RETURN(expr)		RETURN_AS(__func__, expr)
#define CALL_AS(name, expr, ...)					\
	do {								\
		DEBUG_NOTE(name, ##__VA_ARGS__);			\
		RETURN_AS(name, not_initialized() ? CUDA_ERROR_NOT_INITIALIZED :	\
			  unlikely(host_thread) ? CUDA_ERROR_NOT_PERMITTED : (expr));	\
	} while (0)
#define CALL(expr, ...)		CALL_AS(__func__, expr, ##__VA_ARGS__)
/* The same for what host functions may call: it needs no context but a stream's or an event's. */
#define CALL_INSIDE_AS(name, expr, ...)					\
	do {								\
		DEBUG_NOTE(name, ##__VA_ARGS__);			\
		RETURN_AS(name, not_initialized() ? CUDA_ERROR_NOT_INITIALIZED : (expr));	\
	} while (0)
#define CALL_INSIDE(expr, ...)	CALL_INSIDE_AS(__func__, expr, ##__VA_ARGS__)

/* ---- devices (device.c) */

CUresult device_attribute(int *value, int attribute, CUdevice device);
CUresult device_name(char *name, int size, CUdevice device);
CUresult device_uuid(CUuuid *uuid, CUdevice device);
CUresult device_bus_id(char *text, int size, CUdevice device);
CUresult device_by_bus_id(CUdevice *device, const char *text);

static inline bool device_valid(CUdevice device)
{
	return device >= 0 && (unsigned int)device < client.devices;
}

/* ---- active queues (active.c) */

#include "active.h"

/* ---- contexts (context.c) */

#define CTX_MAGIC	0x78746367	/* "gctx" */

enum ctx_state {
	CTX_UNUSED, CTX_LIVE,
	CTX_ENDING,			/* a primary context whose work is waited for */
	CTX_DESTROYED,
};

struct CUctx_st {
	uint32_t magic;
	uint32_t state;			/* enum ctx_state; atomic */
	uint32_t ends;			/* lives of a primary context that ended; a futex; list_lock */
	uint64_t generation;		/* which life of this structure; atomic */
	uint64_t id;
	CUdevice device;
	bool primary;
	bool revive;			/* CTX_ENDING, and retained since; list_lock; atomic */
	uint32_t sticky;		/* CUresult of failed work, or 0; atomic */
	unsigned int flags;
	unsigned int uses;		/* retains, or attaches + 1; lock */
	size_t limit[CU_LIMIT_MAX];
	unsigned int cache_config, bank_config;
	pthread_mutex_t lock;
	CUstream streams;		/* those that live; lock */
	CUstream legacy;		/* made at first use; atomic */
	CUstream whole;			/* of kind STREAM_CONTEXT; made at first use; atomic */
	struct active active;		/* queues with work, streams in use */
	struct alloc *allocs;		/* mem_lock */
	CUcontext next_unused;
};

/* The current context, or 201, 709 or the context's sticky error. */
CUresult ctx_current(CUcontext *ctx);
/* The same without looking at the sticky error. */
CUresult ctx_current_any(CUcontext *ctx);
CUcontext ctx_top(void);
CUresult ctx_create(CUcontext *ctx, unsigned int flags, CUdevice device);
CUresult ctx_destroy(CUcontext ctx);
CUresult ctx_attach(CUcontext *ctx, unsigned int flags);
CUresult ctx_detach(CUcontext ctx);
CUresult ctx_push(CUcontext ctx);
CUresult ctx_pop(CUcontext *ctx);
CUresult ctx_set(CUcontext ctx);
CUresult ctx_valid(CUcontext ctx);
CUresult ctx_flags(unsigned int *flags);
CUresult ctx_set_flags(unsigned int flags);
CUresult ctx_limit(size_t *value, CUlimit limit);
CUresult ctx_set_limit(CUlimit limit, size_t value);
CUresult primary_retain(CUcontext *ctx, CUdevice device);
CUresult primary_release(CUdevice device);
CUresult primary_reset(CUdevice device);
CUresult primary_state(CUdevice device, unsigned int *flags, int *active);
CUresult primary_set_flags(CUdevice device, unsigned int flags);
/* Have the end of the calling thread noticed. */
void thread_register(void);
CUresult thread_capture_mode(CUstreamCaptureMode *mode);
/* The calling thread's own stream in a context, made at first use. */
CUresult ctx_thread_stream(CUcontext ctx, CUstream *stream);
/* From now on the context returns @result; true if it had no error before. */
bool ctx_fail(CUcontext ctx, CUresult result);
/*
 * Which life of its structure a context is in, and whether it still is: asked with mem_lock held,
 * what is added to the context is freed with it.
 */
uint64_t ctx_life(CUcontext ctx);
bool ctx_lives_on(CUcontext ctx, uint64_t life);

static inline struct device *ctx_device(CUcontext ctx)
{
	return &client.device[ctx->device];
}

/* ---- addresses (vm.c) */

enum alloc_flags {
	ALLOC_EXPORTED = 1 << 0,	/* a dma-buf or a token of it exists or existed */
	ALLOC_IMPORTED = 1 << 1,	/* of another process or driver */
	ALLOC_SYNC_MEMOPS = 1 << 2,	/* fills and copies wait */
	ALLOC_HOST = 1 << 3,		/* pinned host memory */
	ALLOC_REGISTERED = 1 << 4,	/* the program's own memory */
	ALLOC_READ_ONLY = 1 << 5,	/* registered for reading */
	ALLOC_IO = 1 << 6,		/* registered, but the engine cannot reach it */
	ALLOC_PORTABLE = 1 << 7,	/* as the program asked; reported, no more */
	ALLOC_WRITECOMBINED = 1 << 8,	/* the same */
	ALLOC_POOL = 1 << 9,		/* of a pool: no alloc, no context */
	ALLOC_MANAGED = 1 << 10,	/* the CPU's and the devices' alike */
	ALLOC_DARK = 1 << 11,		/* never mapped for the CPU: its exporter cannot */
	ALLOC_DMABUF = 1 << 12,		/* imported by a DMA-buf */
	ALLOC_HIDDEN = 1 << 13,		/* an array's: no lookup finds it */
	ALLOC_DECOMPRESS = 1 << 14,	/* of a pool that was made for decompression */
	ALLOC_ANY_HOST = ALLOC_HOST | ALLOC_REGISTERED,
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
		uint64_t head;		/* both at once, to read */
	};
	uint64_t base, size;		/* as the program asked */
	uint64_t id;			/* CU_POINTER_ATTRIBUTE_BUFFER_ID */
	CUcontext ctx;
	struct block *block;
	struct alloc *next, **link;	/* in ctx->allocs, or the free list; mem_lock */
	struct share *share;		/* token or import (ipc.c); mem_lock */
};

struct block {
	uint64_t base, length;		/* whole slots */
	uint64_t mapped;		/* bytes that the buffer object covers, whole pages */
	bool dark;			/* mapped for the devices only */
	uint64_t id;			/* CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID */
	uint32_t bo;
	CUdevice device;
	struct alloc *whole;		/* the only alloc, or NULL if shared; atomic */
	struct chunk *chunk;		/* if it is a pool's: nothing below is used; atomic */
	/* Shared blocks. */
	uint64_t used[SLOT_UNITS / 64];	/* units taken or withheld; mem_lock */
	uint64_t dirty[SLOT_UNITS / 64];/* units that had an owner; mem_lock */
	unsigned int allocs;		/* mem_lock */
	unsigned int longest;		/* no free run is longer, in units; mem_lock */
	struct withheld *withheld;	/* freed, but somebody else can reach it; mem_lock */
	struct block *next, **link;	/* in device->shared*, or doomed, or unused; mem_lock */
	struct alloc *unit[];		/* who owns each unit; atomic; not if registered */
};

struct span {
	uint64_t base, size, id;
	uint32_t flags;
	CUcontext ctx;
	struct alloc *alloc;		/* NULL for memory of pools */
	uint32_t *marks;		/* where its flags are; atomic */
	CUmemoryPool pool;		/* or NULL */
	/* Of the block. */
	uint64_t block_base, block_length, block_id;
	uint32_t bo;
	CUdevice device;
};

enum found { FOUND, NOTHING, OUTSIDE, CHANGING };

/* The same as the next, of memory that is not the context's device's (cu_peer.c). */
bool ctx_reaches_far(CUcontext ctx, const struct span *span);

/* Whether fills and memory operations of a context's streams may use memory. */
static inline bool ctx_reaches(CUcontext ctx, const struct span *span)
{
	return likely(span->device == ctx->device) || ctx_reaches_far(ctx, span);
}

/* What lies at an address; false if nothing. No lock, no system call. */
bool vm_lookup(uint64_t addr, struct span *span);
/* The same for a signal handler: in the arena only, and it gives up if the alloc stays locked. */
bool vm_lookup_in_signal(uint64_t addr, struct span *span);
/* Whether an address is in the arena, where nothing but the library's memory ever is. */
bool vm_reserved(uint64_t addr);
/* Whether any of a range is. */
bool vm_touches(uint64_t addr, uint64_t length);
#define ADDRESS_BITS	47
#define LEAF_BITS	13
#define LEAF_SLOTS	(1u << LEAF_BITS)
#define LEAF_SHIFT	(SLOT_SHIFT + LEAF_BITS)
#define LEAVES		(1u << (ADDRESS_BITS - LEAF_SHIFT))

/* Held while an alloc or the list of registrations changes; inside all other locks. */
extern struct lock change_lock;
/* How often a lookup tries to read what changes before it sleeps on that lock. */
#define LOOKUP_TRIES	100

extern struct block **vm_index[LEAVES];
/* What the blocks of pools belong to for those who ask whether memory is plain (vm.h). */
extern struct alloc vm_special;

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

/* What an alloc says; false while it changes. */
bool alloc_read(struct alloc *alloc, struct span *span);
/* Addresses for @length bytes (whole slots); 0 if there are none. mem_lock is held. */
uint64_t vm_reserve(uint64_t length);
void vm_release(uint64_t addr, uint64_t length);
/* Map a buffer object for the devices, and unless it is @dark for the CPU. Needs no lock. */
CUresult vm_map(uint64_t addr, uint64_t length, uint32_t bo, bool dark);
/*
 * Undo vm_map() and give @length bytes of addresses back, now or, if the kernel has no memory for
 * that, with a later call. mem_lock is held.
 */
void vm_unmap(uint64_t addr, uint64_t mapped, uint64_t length);
/* The same for a caller without mem_lock, which is not held while the kernel unmaps. */
void vm_unmap_unlocked(uint64_t addr, uint64_t mapped, uint64_t length);
/* Take memory of the program's own out of the devices' address space; false if it is still there. */
bool vm_unmap_host(uint64_t addr, uint64_t length);
/* Memory that vm_unmap_host() could not take out: try again later. mem_lock is held. */
void vm_unmap_later(uint64_t addr, uint64_t length);
/* Try again what could not be taken out. mem_lock is held. */
void vm_retry(void);
/* Make a block's addresses point at it, or at nothing. mem_lock is held. */
CUresult vm_publish(struct block *block);
void vm_retract(struct block *block);
void alloc_begin(struct alloc *alloc);
void alloc_end(struct alloc *alloc);

/* ---- memory (mem.c) */

extern struct lock mem_lock;

CUresult mem_alloc(uint64_t *ptr, uint64_t size);
CUresult mem_alloc_pitch(uint64_t *ptr, uint64_t *pitch, uint64_t width, uint64_t height,
			 unsigned int element);
/* @flags: ALLOC_HOST, ALLOC_PORTABLE, ALLOC_WRITECOMBINED, ALLOC_MANAGED, ALLOC_SYNC_MEMOPS */
CUresult mem_alloc_in(CUcontext ctx, uint64_t *ptr, uint64_t size, uint32_t flags);
/* Device memory that no lookup finds, of a context. */
CUresult mem_alloc_hidden(CUcontext ctx, uint64_t life, struct alloc **alloc, uint64_t *ptr,
			  uint64_t size);
/*
 * Give it back, unless the context did; no work that uses it is left. The caller destroys the doomed
 * block (block.h).
 */
void mem_free_hidden(struct alloc *alloc, struct block **doomed);
CUresult mem_free(uint64_t ptr);
/* Free memory that no pool has in the order of a stream. */
CUresult mem_free_in(uint64_t ptr, CUstream stream);
/* Give back what was freed so and is done. */
void mem_free_late(void);
/* Numbers for CU_POINTER_ATTRIBUTE_BUFFER_ID; the first of @count. */
uint64_t mem_new_ids(unsigned int count);
CUresult mem_free_host(uint64_t ptr);
CUresult mem_info(uint64_t *free_bytes, uint64_t *total);
CUresult mem_range(uint64_t *base, uint64_t *size, uint64_t ptr);
/* Give back everything that a context owns; its work is done. */
void mem_free_context(CUcontext ctx);
/* Allocs without memory, under mem_lock: what host.c makes of the program's memory. */
struct alloc *alloc_get(void);
void alloc_put(struct alloc *alloc);
void alloc_set(struct alloc *alloc, CUcontext ctx, struct block *block, uint64_t base,
	       uint64_t size, uint32_t flags);
void alloc_clear(struct alloc *alloc);
uint64_t mem_new_block_id(void);
/*
 * A buffer object of the library's own: mapped for the CPU, never seen by lookups. 0 if there is no
 * memory.
 */
uint64_t mem_internal(CUdevice device, uint64_t length, const char *name);
/* Make the block of a buffer object that was opened an alloc of its own. mem_lock is held. */
CUresult mem_adopt(CUcontext ctx, uint64_t life, struct block *block, uint64_t delta,
		   uint64_t bytes, struct share *share, uint32_t flags, uint64_t *ptr);
/* Undo it; the caller destroys the doomed block (block.h). mem_lock is held. */
void mem_drop_adopted(struct alloc *alloc, struct block **doomed);

/* ---- host memory (host.c) */

CUresult host_alloc(void **ptr, uint64_t bytes, unsigned int flags);
CUresult host_pointer(uint64_t *ptr, const void *host, unsigned int flags);
CUresult host_flags(unsigned int *flags, const void *host);
CUresult host_register(void *ptr, uint64_t bytes, unsigned int flags);
CUresult host_unregister(void *ptr);
/* The registration that holds an address. Lookups of addresses outside the arena end here. */
bool host_lookup(uint64_t addr, struct span *span);
/* A context ends with a registration; mem_lock is held, and dropped meanwhile. */
void host_drop(struct alloc *alloc);

/* ---- managed memory (managed.c) */

CUresult managed_alloc(uint64_t *ptr, uint64_t bytes, unsigned int flags);
CUresult managed_attach(CUstream stream, bool own, uint64_t ptr, uint64_t length,
			unsigned int flags);
CUresult managed_advise(uint64_t ptr, uint64_t count, CUmem_advise advice, CUmemLocation location);
CUresult managed_prefetch(uint64_t ptr, uint64_t count, CUmemLocation location, unsigned int flags,
			  CUstream stream, bool own);
CUresult managed_attributes(void *const *data, const size_t *sizes,
			    const CUmem_range_attribute *attributes, size_t attribute_count,
			    uint64_t ptr, uint64_t count);
/* What was said about an allocation, or about all in a range, is forgotten: the memory goes away. */
void managed_forget(uint64_t base);
void managed_forget_range(uint64_t base, uint64_t length);

/* ---- streams (stream.c) */

#include "stream.h"

/* ---- memory operations and host functions (memop.c, hostfn.c) */

CUresult memop_wait(CUstream handle, bool own, uint64_t addr, uint64_t value, unsigned int size,
		    unsigned int flags);
CUresult memop_write(CUstream handle, bool own, uint64_t addr, uint64_t value, unsigned int size,
		     unsigned int flags);
CUresult memop_batch(CUstream handle, bool own, unsigned int count,
		     const CUstreamBatchMemOpParams *params, unsigned int flags);
CUresult host_call(CUstream handle, bool own, CUhostFn fn, CUstreamCallback callback, void *arg);
/*
 * Wait until the functions that were queued before @value have run, or been left out. For a queue
 * that failed: otherwise its own entries wait.
 */
void host_settle(struct queue *queue, uint64_t value);
/*
 * Whether a queue does not reach @value before some function has returned: what it is doing waits for
 * that, itself or by way of other queues.
 */
bool host_holds(struct queue *queue, uint64_t value);

/* The next place in a queue; turn_put() must follow. Its owner's stream lock is held for both. */
CUresult turn_begin(struct queue *queue, struct turn *turn);
/* Put the turn's two entries, for which there is room; the first adds one to timeline @tell. */
void turn_put(const struct turn *turn, uint32_t tell);
/* Put the second alone: the caller sees by itself that the turn has come (order.c). */
void turn_hold(const struct turn *turn);
bool turn_come(const struct turn *turn);
void turn_over(const struct turn *turn);
/*
 * Have a thread of thread_make() wait for the next turn, or, if the kernel refuses that, for a
 * millisecond. It looks for turns after that in any case.
 */
void thread_wait(struct gpumem_timeline_wait *wait, const char *name);
/* A thread of the library's, detached, that handles no signals but its own faults. */
CUresult thread_make(void *(*main)(void *arg), void *arg, const char *name);

/* ---- the library's own work in stream order (work.c) */

#define WORK_BUFFER	(8ull << 20)

/* A thread that does work, and what it has to do it with. */
struct worker {
	unsigned char *memory;		/* WORK_BUFFER bytes for the CPU; constant */
	uint64_t buffer;		/* the same for the engine, too; there if a queue is */
	struct queue *queue[GPUMEM_MAX_DEVICES];	/* to the engine, or NULL; atomic */
	void *inflater;			/* decompress.c's */
};

/* Work: items that are independent of each other and done by several threads. */
struct work {
	struct work *next;		/* work_lock, as the next two */
	unsigned int taken;
	unsigned int done;
	uint32_t failed;		/* an item failed: the rest is left out; atomic */
	unsigned int items;		/* not 0; constant, as what follows */
	bool engine;			/* only for workers with a buffer and a queue */
	struct turn turn;
	CUdevice device;
	void (*run)(struct work *work, struct worker *worker, unsigned int item);
};

/* Have work's turn come at this place of a queue and free() it when it is done. Lock as above. */
CUresult work_put(struct queue *queue, struct work *work);
/*
 * See to it that there are workers, and, if @engine, one with a buffer and a queue to the device's
 * engine. No lock is held.
 */
CUresult work_reserve(CUdevice device, bool engine);
/* The worker's queue to a device's engine, for @engine work; NULL: it failed and there is no other. */
struct queue *worker_queue(struct worker *worker, CUdevice device);
/* Wait for what the worker submitted. */
CUresult worker_wait(struct worker *worker, CUdevice device);
/* Whether any is left that the library's threads do, of whichever context. */
bool work_unfinished(void);
/* Work failed: its context gets the error. */
void work_fail(struct work *work, CUresult result);

/* ---- events (event.c) */

CUresult event_create(CUevent *event, unsigned int flags);
CUresult event_destroy(CUevent event);
CUresult event_record(CUevent event, CUstream stream);
CUresult event_query(CUevent event);
CUresult event_synchronize(CUevent event);
CUresult event_wait(CUstream stream, CUevent event, unsigned int flags);
CUresult event_elapsed(float *milliseconds, CUevent start, CUevent end);

CUresult event_record_context(CUcontext ctx, CUevent event);
CUresult event_wait_context(CUcontext ctx, CUevent event);
CUresult event_get_handle(CUipcEventHandle *handle, CUevent event);
CUresult event_open_handle(CUevent *event, const CUipcEventHandle *handle);

/* ---- events of several processes (ipc_event.c) */

struct ipc_event {
	uint32_t id;			/* of the kernel's event, or 0; atomic */
	bool import;			/* made by another process */
	uint8_t token[GPUMEM_TOKEN_SIZE];
};

/* Make it one of the kernel's, never recorded. */
CUresult ipc_event_make(struct ipc_event *ipc);
CUresult ipc_event_open(struct ipc_event *ipc, const CUipcEventHandle *handle);
void ipc_event_drop(struct ipc_event *ipc);
void ipc_event_handle(const struct ipc_event *ipc, CUipcEventHandle *handle);
/* @queue: NULL if what is recorded is done */
CUresult ipc_event_record(const struct ipc_event *ipc, const struct queue *queue, uint64_t value);
CUresult ipc_event_query(const struct ipc_event *ipc);
CUresult ipc_event_synchronize(const struct ipc_event *ipc);
CUresult ipc_event_wait(CUstream stream, const struct ipc_event *ipc);

/* ---- copies and fills (memcpy.c, box.c, memset.c) */

/* Where a stream argument comes from and how a call behaves. */
enum call_flags {
	CALL_OWN = 1 << 0,		/* stream 0 is the calling thread's own */
	CALL_SYNC = 1 << 1,		/* a call without a stream argument */
	CALL_WAIT = 1 << 2,		/* one that is done when it returns, whatever it copies */
	CALL_PEER = 1 << 3,		/* between contexts: none need be current */
};

/* What an address of a copy may be. */
enum end_flags {
	END_DEVICE = 1 << 0,		/* memory of the library */
	END_HOST = 1 << 1,		/* any other memory of the process */
};

/* In strict mode there is staging memory before there is device memory. */
CUresult copy_reserve(CUdevice device);
/* cuMemcpyDtoDAsync(); @flags: CALL_OWN or none. */
CUresult copy_dtod_async(uint64_t dst, uint64_t src, uint64_t bytes, CUstream stream,
			 unsigned int flags);
CUresult copy_linear(uint64_t dst, unsigned int dst_kind, uint64_t src, unsigned int src_kind,
		     uint64_t bytes, CUstream stream, unsigned int flags);
CUresult copy_2d(const CUDA_MEMCPY2D *copy, CUstream stream, unsigned int flags);
CUresult copy_3d(const CUDA_MEMCPY3D *copy, CUstream stream, unsigned int flags);
CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER *copy, CUstream stream, unsigned int flags);
/* Bytes of the first rows of arrays; offsets are bytes. */
CUresult copy_array(CUarray dst_array, uint64_t dst, CUarray src_array, uint64_t src,
		    uint64_t bytes, CUstream stream, unsigned int flags);
/* @kind: enum end_flags of the address */
CUresult copy_to_array(CUarray array, uint64_t offset, uint64_t src, unsigned int kind,
		       uint64_t bytes, CUstream stream, unsigned int flags);
CUresult copy_from_array(uint64_t dst, unsigned int kind, CUarray array, uint64_t offset,
			 uint64_t bytes, CUstream stream, unsigned int flags);
CUresult fill_linear(uint64_t dst, uint32_t value, unsigned int elem, uint64_t count,
		     CUstream stream, unsigned int flags);
/* @width elements in each of @height rows. */
CUresult fill_2d(uint64_t dst, uint64_t pitch, uint32_t value, unsigned int elem, uint64_t width,
		 uint64_t height, CUstream stream, unsigned int flags);

/* ---- arrays (array.c, array.h) */

/* A context ends: its arrays are none any more. Their memory is given back with the context's. */
void arrays_end(CUcontext ctx);

/* ---- batches of copies (batch.c) */

/* cuMemcpyBatchAsync(); on failure *@fail, if it is not NULL, is the copy's index or SIZE_MAX. */
CUresult copy_batch(const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes,
		    size_t count, const CUmemcpyAttributes *attrs, const size_t *indices,
		    size_t attr_count, size_t *fail, CUstream handle);
CUresult copy_batch_3d(size_t count, const CUDA_MEMCPY3D_BATCH_OP *ops, size_t *fail,
		       unsigned long long flags, CUstream handle);

/* ---- decompression (decompress.c) */

/* What can be decompressed here: enum CUmemDecompressAlgorithm_enum; loads libraries. */
unsigned int decompress_algorithms(void);
/* Bytes that an operation may read or write at most. */
unsigned int decompress_length(void);
/* cuMemBatchDecompressAsync(); @fail as above. */
CUresult decompress_batch(const CUmemDecompressParams *params, size_t count, unsigned int flags,
			  size_t *fail, CUstream handle, bool own);

/* Whether memory may take part. */
static inline bool span_decompress(const struct span *span)
{
	return span->flags & ALLOC_DECOMPRESS ||
	       !(span->flags & (ALLOC_IMPORTED | ALLOC_POOL | ALLOC_MANAGED | ALLOC_ANY_HOST));
}

/* ---- strict mode (strict.c) */

/* Have faults on device memory explained. Once, by cuInit(). */
void strict_start(void);
/* Have the engine zero dark memory; done when it returns. No lock is held. */
CUresult strict_zero(CUdevice device, uint64_t addr, uint64_t length);

static inline bool span_dark(const struct span *span)
{
	return span->flags & ALLOC_DARK ||
	       (client.strict && !(span->flags & (ALLOC_ANY_HOST | ALLOC_MANAGED)));
}

/* ---- pools (pool*.c) */

CUresult pool_alloc(CUdeviceptr *ptr, uint64_t size, CUmemoryPool pool, CUstream stream);
/* From the current pool of the stream's device. */
CUresult pool_alloc_current(CUdeviceptr *ptr, uint64_t size, CUstream stream);
CUresult pool_free(uint64_t ptr, CUstream stream);
/* Not in any stream: after all work of the process, but without waiting for it. */
CUresult pool_free_now(uint64_t ptr);
/* A stream goes away. */
void pool_stream_gone(CUstream stream);
/* Have idle chunks given back: of all pools, or only of @pool if it is not NULL. */
void pools_give_back(CUmemoryPool pool);
/* The process waited for work: pools give back what they have too much. */
void pools_release_excess(void);
CUresult pool_create(CUmemoryPool *pool, const CUmemPoolProps *props);
CUresult pool_destroy(CUmemoryPool pool);
CUresult pool_trim(CUmemoryPool pool, uint64_t keep);
CUresult pool_get_attribute(CUmemoryPool pool, int attribute, void *value);
CUresult pool_set_attribute(CUmemoryPool pool, int attribute, const void *value);
CUresult pool_get_access(CUmemAccess_flags *flags, CUmemoryPool pool,
			 const CUmemLocation *location);
/* Whether contexts of a device may use its memory. */
bool pool_reached_from(CUmemoryPool pool, CUdevice device);
CUresult pool_set_access(CUmemoryPool pool, const CUmemAccessDesc *descs, size_t count);
CUresult pool_device_default(CUmemoryPool *pool, CUdevice device);
CUresult pool_device_current(CUmemoryPool *pool, CUdevice device);
CUresult pool_set_device_current(CUdevice device, CUmemoryPool pool);
CUresult pool_default_of(CUmemoryPool *pool, const CUmemLocation *location, int type);
CUresult pool_current_of(CUmemoryPool *pool, const CUmemLocation *location, int type);
CUresult pool_set_current_of(const CUmemLocation *location, int type, CUmemoryPool pool);
CUresult pool_export(void *handle, CUmemoryPool pool, int type, unsigned long long flags);
CUresult pool_import(CUmemoryPool *pool, void *handle, int type, unsigned long long flags);
CUresult pool_export_pointer(CUmemPoolPtrExportData *data, uint64_t ptr);
CUresult pool_import_pointer(uint64_t *ptr, CUmemoryPool pool, const CUmemPoolPtrExportData *data);
/* What lies at an address in a chunk. No lock. */
enum found pool_lookup(struct chunk *chunk, uint64_t addr, struct span *span);
/* Whether the system has a NUMA node. */
bool node_exists(int node);
/* The CUmemAllocationHandleType of a pool. */
int pool_handle_types(CUmemoryPool pool);
/* GPUMEM_POOL_IPC is 1: memory of pools has what CUDA gives only to other memory. */
bool pool_beyond(void);

/* ---- sharing (ipc.c, dmabuf.c) */

CUresult ipc_get(CUipcMemHandle *handle, uint64_t ptr);
CUresult ipc_open(uint64_t *ptr, const CUipcMemHandle *handle, unsigned int flags);
CUresult ipc_close(uint64_t ptr);
CUresult dmabuf_import(uint64_t *ptr, uint64_t *bytes, int fd, unsigned int flags);
CUresult dmabuf_release(uint64_t ptr);
/* An alloc goes away: forget its token. mem_lock is held. */
void share_drop(struct share *share);
/* The same for a block of a pool, by its id; mem_lock is not held. */
void share_drop_of_pool(uint64_t id);
CUresult dmabuf_export(int *fd, uint64_t ptr, uint64_t size, int type, unsigned long long flags);

#endif /* GPUMEM_INTERNAL_H */
