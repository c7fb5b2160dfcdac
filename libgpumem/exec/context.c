// SPDX-License-Identifier: MIT
/*
 * Contexts: owners of memory and streams, and the current context of each thread.
 *
 * Owns the primary contexts, one per device, the contexts that programs create, and each thread's
 * stack of contexts. A context is a userspace object: the kernel knows only the client.
 *
 * Invariants: a CUctx_st is never freed. The structure of a created context is reused for another one, with a
 * higher generation. A stack entry remembers the generation, so that a thread notices that its current context
 * was destroyed elsewhere (709). A primary context keeps its structure and may begin another life. It is then
 * current again in every thread where it was current, because its handle is the same. The number of retains of a
 * primary context survives a reset: calls in the context return 709 until it is retained again, and each retain
 * still needs a release.
 *
 * Ending a primary context takes as long as its work. list_lock is not held meanwhile: the state is
 * CTX_ENDING, which only the thread that set it changes. A second reset, or the last release, waits
 * for that state to change. A retain does not wait: it records that another life is wanted (revive),
 * and the first call that needs the context waits until the previous life has ended.
 *
 * Destroying a context waits for its work, destroys its streams and frees its memory. Events stay valid: they
 * hold nothing of the context. Work of other contexts is not waited for, because it may never end. If such work
 * still needs the memory, the program has made a mistake, and the work fails. Exception: while threads of the
 * library have work, or a thread has an unreleased hold, the destruction waits for all work of the process.
 *
 * The sticky error is the result of work that failed on the device. The first thread that notices the failure
 * sets it, and every later call that needs the context returns it.
 *
 * Locks: list_lock for states, use counts and the list of unused structures; no thread waits for work
 * with it held. ctx->lock for the streams. A thread's stack is its own.
 *
 * Vocabulary: current, on top of the calling thread's stack; life, the time from creation (or first
 * retain) to destruction (or last release, or reset).
 */
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "exec/exec.h"

#define CTX_FLAGS	CU_CTX_FLAGS_MASK

struct stack_entry {
	CUcontext ctx;
	uint64_t generation;
};

struct thread_stream {
	struct thread_stream *next;
	CUcontext ctx;
	uint64_t generation;
	CUstream stream;
};

struct ctx_thread {
	struct stack_entry *stack;
	unsigned int depth, room;
	struct thread_stream *streams;
	bool registered;
	CUstreamCaptureMode capture_mode;
};

static __thread struct ctx_thread ctx_thread __attribute__((tls_model("initial-exec")));

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUctx_st primaries[GPUMEM_MAX_DEVICES];
static CUcontext unused;		/* list_lock */
static uint64_t last_ctx_id;		/* list_lock */

static pthread_key_t ctx_thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static bool ctx_thread_key_made;

/* ---- threads */

/*
 * A context that ends destroys its streams, and their structures are reused. Under list_lock the context has
 * either not begun to end, or its state says so. Destroying the stream may take long, so the lock is dropped
 * when the stream is claimed.
 */
static void thread_stream_destroy(struct thread_stream *own)
{
	bool claimed;

	pthread_mutex_lock(&list_lock);
	claimed = load_acquire(&own->ctx->state) == CTX_LIVE &&
		load_acquire(&own->ctx->generation) == own->generation &&
		stream_claim(own->stream);
	pthread_mutex_unlock(&list_lock);
	if (claimed)
		stream_end(own->stream);
}

/* A thread ends: its own streams finish their work and are destroyed. */
static void ctx_thread_end(void *arg)
{
	struct ctx_thread *t = arg;

	if (!not_initialized())
		touch_check();
	while (t->streams) {
		struct thread_stream *own = t->streams;

		t->streams = own->next;
		if (!not_initialized())
			thread_stream_destroy(own);
		free(own);
	}
	free(t->stack);
	memset(t, 0, sizeof(*t));
}

static void make_thread_key(void)
{
	ctx_thread_key_made = !pthread_key_create(&ctx_thread_key, ctx_thread_end);
}

/* Have ctx_thread_end() called for this thread. */
void thread_register(void)
{
	if (ctx_thread.registered)
		return;
	pthread_once(&thread_once, make_thread_key);
	if (ctx_thread_key_made && !pthread_setspecific(ctx_thread_key, &ctx_thread))
		ctx_thread.registered = true;
}

static CUresult stack_push(CUcontext ctx)
{
	if (ctx_thread.depth == ctx_thread.room) {
		unsigned int room = ctx_thread.room ? 2 * ctx_thread.room : 8;
		struct stack_entry *stack = realloc(ctx_thread.stack, room * sizeof(*stack));

		if (!stack)
			return CUDA_ERROR_OUT_OF_MEMORY;
		ctx_thread.stack = stack;
		ctx_thread.room = room;
	}
	thread_register();
	ctx_thread.stack[ctx_thread.depth].ctx = ctx;
	ctx_thread.stack[ctx_thread.depth++].generation = load_acquire(&ctx->generation);
	return CUDA_SUCCESS;
}

CUresult thread_capture_mode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode old = ctx_thread.capture_mode;

	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	/* The recorded driver takes any number and keeps the known ones. */
	if (*mode <= CU_STREAM_CAPTURE_MODE_RELAXED)
		ctx_thread.capture_mode = *mode;
	*mode = old;
	return CUDA_SUCCESS;
}

CUcontext ctx_top(void)
{
	return ctx_thread.depth ? ctx_thread.stack[ctx_thread.depth - 1].ctx : NULL;
}

/* Wait until a life of a primary context has ended. No lock is held. */
static void end_wait(CUcontext ctx, uint64_t generation)
{
	for (;;) {
		/* Read the count before the state: the state may be CTX_ENDING again, in a later life. */
		uint32_t ends = load_acquire(&ctx->ends);

		if (load_acquire(&ctx->state) != CTX_ENDING ||
		    load_acquire(&ctx->generation) != generation)
			return;
		syscall(SYS_futex, &ctx->ends, FUTEX_WAIT_PRIVATE, ends, NULL, NULL, 0);
	}
}

/* Whether a context lives, or will live when its previous life has ended. */
static bool ctx_lives(CUcontext ctx)
{
	return load_acquire(&ctx->state) == CTX_LIVE || load_acquire(&ctx->revive) ||
	       load_acquire(&ctx->state) == CTX_LIVE;
}

/* The state was not CTX_LIVE. If another life of the context was asked for, wait for it. */
static CUresult ctx_await_life(CUcontext ctx)
{
	while (load_acquire(&ctx->state) == CTX_ENDING && load_acquire(&ctx->revive))
		end_wait(ctx, load_acquire(&ctx->generation));
	return load_acquire(&ctx->state) == CTX_LIVE ? CUDA_SUCCESS :
		CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* The context of a stack entry. 709 if it is a created one in a later life than the entry's. */
static inline CUresult ctx_of_entry(CUcontext *ctx, const struct stack_entry *entry)
{
	if (unlikely(!entry->ctx->primary &&
		     load_relaxed(&entry->ctx->generation) != entry->generation))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*ctx = entry->ctx;
	return CUDA_SUCCESS;
}

/* The same when the state was not CTX_LIVE. */
static __attribute__((noinline)) CUresult ctx_of_entry_slow(CUcontext *ctx,
							    const struct stack_entry *entry)
{
	CUresult result = ctx_await_life(entry->ctx);

	return result ? result : ctx_of_entry(ctx, entry);
}

CUresult ctx_current_any(CUcontext *ctx)
{
	const struct stack_entry *top;

	if (unlikely(!ctx_thread.depth))
		return host_thread ? CUDA_ERROR_NOT_PERMITTED : CUDA_ERROR_INVALID_CONTEXT;
	top = &ctx_thread.stack[ctx_thread.depth - 1];
	if (unlikely(load_acquire(&top->ctx->state) != CTX_LIVE))
		return ctx_of_entry_slow(ctx, top);
	return ctx_of_entry(ctx, top);
}

CUresult ctx_current(CUcontext *ctx)
{
	CUresult result = ctx_current_any(ctx);

	return likely(!result) ? load_relaxed(&(*ctx)->sticky) : result;
}

static bool ctx_is_handle(CUcontext ctx)
{
	return (uintptr_t)ctx >= PAGE && ctx->magic == CTX_MAGIC;
}

/* Whether a handle that a program passed is a context that lives. list_lock is not held. */
CUresult ctx_valid(CUcontext ctx)
{
	if (!ctx_is_handle(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	return likely(load_acquire(&ctx->state) == CTX_LIVE) ? CUDA_SUCCESS : ctx_await_life(ctx);
}

uint64_t ctx_life(CUcontext ctx)
{
	return load_acquire(&ctx->generation);
}

bool ctx_lives_on(CUcontext ctx, uint64_t life)
{
	return load_acquire(&ctx->state) == CTX_LIVE && load_acquire(&ctx->generation) == life;
}

bool ctx_fail(CUcontext ctx, CUresult result)
{
	uint32_t none = 0;

	return __atomic_compare_exchange_n(&ctx->sticky, &none, result, false, __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED);
}

CUresult ctx_thread_stream(CUcontext ctx, CUstream *stream)
{
	uint64_t generation = load_acquire(&ctx->generation);
	struct thread_stream *own;
	CUresult result;

	for (own = ctx_thread.streams; own && own->ctx != ctx; own = own->next)
		;
	if (!own) {
		own = calloc(1, sizeof(*own));
		if (!own)
			return CUDA_ERROR_OUT_OF_MEMORY;
		own->ctx = ctx;
		own->next = ctx_thread.streams;
		ctx_thread.streams = own;
		thread_register();
	}
	/* The end of an earlier life destroyed that life's stream. */
	if (own->generation != generation) {
		result = stream_create(&own->stream, ctx, STREAM_THREAD, CU_STREAM_DEFAULT, 0);
		if (result)
			return result;
		own->generation = generation;
	}
	*stream = own->stream;
	return CUDA_SUCCESS;
}

/* ---- lives */

static void ctx_begin(CUcontext ctx, CUdevice device, unsigned int flags)
{
	static const size_t limits[CU_LIMIT_MAX] = {
		[CU_LIMIT_STACK_SIZE] = 1024,
		[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20,
		[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20,
		[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2,
		[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048,
		[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64,
	};

	if (!ctx->magic) {
		pthread_mutex_init(&ctx->lock, NULL);
		ctx->magic = CTX_MAGIC;
	}
	active_start(&ctx->active);
	ctx->id = ++last_ctx_id;
	ctx->device = device;
	ctx->place = client.device[device].index + 1;
	ctx->sticky = 0;
	store_relaxed(&ctx->flags, flags);
	memcpy(ctx->limit, limits, sizeof(limits));
	ctx->cache_config = CU_FUNC_CACHE_PREFER_NONE;
	ctx->bank_config = CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE;
	store_release(&ctx->generation, ctx->generation + 1);
	store_release(&ctx->state, CTX_LIVE);
}

/* Finish the context's work, and release all that it has. Its state is no longer CTX_LIVE. */
static void ctx_end(CUcontext ctx)
{
	ctx_synchronize(ctx);
	/*
	 * Threads that copy this memory for other contexts must finish first: a fault would end the
	 * process.
	 */
	if (work_unfinished() || order_unfinished())
		work_synchronize();
	ctx_release_streams(ctx);
	arrays_end(ctx);
	externals_end(ctx);
	semaphores_end(ctx);
	mem_free_context(ctx);
}

static bool ctx_flags_valid(unsigned int flags)
{
	unsigned int sched = flags & CU_CTX_SCHED_MASK;

	return !(flags & ~CTX_FLAGS) && !(sched & (sched - 1));
}

CUresult ctx_create(CUcontext *out, unsigned int flags, CUdevice device)
{
	CUcontext ctx;
	CUresult result;

	if (!out || !ctx_flags_valid(flags))
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&list_lock);
	ctx = unused;
	if (ctx)
		unused = ctx->next_unused;
	else
		ctx = calloc(1, sizeof(*ctx));
	if (ctx) {
		ctx->uses = 1;
		ctx_begin(ctx, device, flags);
	}
	pthread_mutex_unlock(&list_lock);
	if (!ctx)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = stack_push(ctx);
	if (result) {
		ctx_destroy(ctx);
		return result;
	}
	*out = ctx;
	return CUDA_SUCCESS;
}

CUresult ctx_destroy(CUcontext ctx)
{
	bool lives;

	if (!ctx_is_handle(ctx) || ctx->primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&list_lock);
	lives = load_acquire(&ctx->state) == CTX_LIVE;
	if (lives)
		store_release(&ctx->state, CTX_DESTROYED);
	pthread_mutex_unlock(&list_lock);
	if (!lives)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	if (ctx_top() == ctx)
		ctx_thread.depth--;
	ctx_end(ctx);
	pthread_mutex_lock(&list_lock);
	ctx->next_unused = unused;
	unused = ctx;
	pthread_mutex_unlock(&list_lock);
	return CUDA_SUCCESS;
}

CUresult ctx_attach(CUcontext *out, unsigned int flags)
{
	CUcontext ctx;
	CUresult result = ctx_current_any(&ctx);

	if (result)
		return result;
	if (!out || flags)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&list_lock);
	ctx->uses++;
	pthread_mutex_unlock(&list_lock);
	*out = ctx;
	return CUDA_SUCCESS;
}

CUresult ctx_detach(CUcontext ctx)
{
	CUresult result = ctx_valid(ctx);
	unsigned int uses = 0;

	if (result)
		return result;
	if (ctx->primary)
		return primary_release(ctx->device);
	pthread_mutex_lock(&list_lock);
	/* Another thread may have detached the context meanwhile. */
	result = ctx->uses ? ctx_valid(ctx) : CUDA_ERROR_INVALID_CONTEXT;
	if (!result)
		uses = --ctx->uses;
	pthread_mutex_unlock(&list_lock);
	return result || uses ? result : ctx_destroy(ctx);
}

/* ---- primary contexts */

CUresult primary_retain(CUcontext *out, CUdevice device)
{
	CUcontext ctx;

	if (!device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	ctx = &primaries[device];
	pthread_mutex_lock(&list_lock);
	ctx->uses++;
	switch (load_acquire(&ctx->state)) {
	case CTX_LIVE:
		break;
	case CTX_ENDING:
		store_release(&ctx->revive, true);
		break;
	default:
		ctx->primary = true;
		ctx_begin(ctx, device, ctx->flags);
		break;
	}
	pthread_mutex_unlock(&list_lock);
	*out = ctx;
	return CUDA_SUCCESS;
}

/*
 * End a primary context's life, or wait until the thread that is ending it has done so. A request for another
 * life that was made before this call does not start one. list_lock is held, and dropped in between.
 */
static void primary_end(CUcontext ctx)
{
	uint64_t generation = load_acquire(&ctx->generation);
	bool first = load_acquire(&ctx->state) == CTX_LIVE;

	if (first)
		store_release(&ctx->state, CTX_ENDING);
	else if (load_acquire(&ctx->state) != CTX_ENDING)
		return;
	store_release(&ctx->revive, false);
	pthread_mutex_unlock(&list_lock);
	if (first)
		ctx_end(ctx);
	else
		end_wait(ctx, generation);
	pthread_mutex_lock(&list_lock);
	if (!first)
		return;
	if (ctx->revive)
		ctx_begin(ctx, ctx->device, ctx->flags);
	else
		store_release(&ctx->state, CTX_DESTROYED);
	/*
	 * Clear the request after the state: a thread that finds no request must find the life that
	 * was started for it.
	 */
	store_release(&ctx->revive, false);
	store_release(&ctx->ends, load_relaxed(&ctx->ends) + 1);
	syscall(SYS_futex, &ctx->ends, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

CUresult primary_release(CUdevice device)
{
	CUresult result = CUDA_SUCCESS;
	CUcontext ctx;

	if (!device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	ctx = &primaries[device];
	pthread_mutex_lock(&list_lock);
	if (!ctx->uses)
		result = CUDA_ERROR_INVALID_CONTEXT;
	else if (!--ctx->uses)
		primary_end(ctx);
	pthread_mutex_unlock(&list_lock);
	return result;
}

CUresult primary_reset(CUdevice device)
{
	CUcontext ctx;

	if (!device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	ctx = &primaries[device];
	pthread_mutex_lock(&list_lock);
	/* Flags that a thread sets while this one waits for the work are for the next life. */
	store_relaxed(&ctx->flags, 0);
	primary_end(ctx);
	pthread_mutex_unlock(&list_lock);
	return CUDA_SUCCESS;
}

CUcontext primary_of(CUdevice device)
{
	CUcontext ctx = device_valid(device) ? &primaries[device] : NULL;

	return ctx && load_acquire(&ctx->state) == CTX_LIVE ? ctx : NULL;
}

CUresult primary_state(CUdevice device, unsigned int *flags, int *active)
{
	if (!device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&list_lock);
	*flags = primaries[device].flags;
	*active = ctx_lives(&primaries[device]);
	pthread_mutex_unlock(&list_lock);
	return CUDA_SUCCESS;
}

CUresult primary_set_flags(CUdevice device, unsigned int flags)
{
	if (!device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!ctx_flags_valid(flags))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&list_lock);
	primaries[device].flags = flags;
	pthread_mutex_unlock(&list_lock);
	return CUDA_SUCCESS;
}

/* ---- the stack */

/* As ctx_valid(), but without waiting: a context may become current while its previous life ends. */
static CUresult ctx_pushable(CUcontext ctx)
{
	if (!ctx_is_handle(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	return ctx_lives(ctx) ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult ctx_push(CUcontext ctx)
{
	CUresult result = ctx_pushable(ctx);

	return result ? result : stack_push(ctx);
}

CUresult ctx_pop(CUcontext *ctx)
{
	if (!ctx_thread.depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	ctx_thread.depth--;
	if (ctx)
		*ctx = ctx_thread.stack[ctx_thread.depth].ctx;
	return CUDA_SUCCESS;
}

CUresult ctx_set(CUcontext ctx)
{
	CUresult result;

	if (!ctx) {
		if (ctx_thread.depth)
			ctx_thread.depth--;
		return CUDA_SUCCESS;
	}
	result = ctx_pushable(ctx);
	if (result)
		return result;
	if (ctx_thread.depth)
		ctx_thread.depth--;
	return stack_push(ctx);
}

/* ---- properties of the current context */

CUresult ctx_flags(unsigned int *flags)
{
	CUcontext ctx;
	CUresult result = ctx_current_any(&ctx);

	if (result)
		return result;
	*flags = ctx->flags;
	return CUDA_SUCCESS;
}

CUresult ctx_set_flags(unsigned int flags)
{
	CUcontext ctx;
	CUresult result = ctx_current_any(&ctx);

	if (result)
		return result;
	if (!ctx_flags_valid(flags))
		return CUDA_ERROR_INVALID_VALUE;
	store_relaxed(&ctx->flags, flags);
	return CUDA_SUCCESS;
}

static CUresult limit_known(CUlimit limit)
{
	if ((unsigned int)limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	/* No kernels run, so there is no nesting, and shared memory needs no fallback. */
	if (limit > CU_LIMIT_CIG_ENABLED || limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	return CUDA_SUCCESS;
}

static size_t shared_memory(CUdevice device)
{
	int bytes = 0;

	device_attribute(&bytes, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device);
	return bytes;
}

CUresult ctx_limit(size_t *value, CUlimit limit)
{
	CUcontext ctx;
	CUresult result = ctx_current_any(&ctx);

	if (!result && !value)
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result)
		result = limit_known(limit);
	if (!result)
		*value = limit == CU_LIMIT_SHMEM_SIZE ? shared_memory(ctx->device) :
			load_relaxed(&ctx->limit[limit]);
	return result;
}

CUresult ctx_set_limit(CUlimit limit, size_t value)
{
	CUcontext ctx;
	CUresult result = ctx_current_any(&ctx);

	if (!result)
		result = limit_known(limit);
	/*
	 * These properties are for contexts that share the device with a graphics queue. No context
	 * does.
	 */
	if (!result && limit >= CU_LIMIT_SHMEM_SIZE)
		result = CUDA_ERROR_NOT_PERMITTED;
	if (!result)
		store_relaxed(&ctx->limit[limit], value);
	return result;
}
