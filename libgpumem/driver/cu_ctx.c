// SPDX-License-Identifier: MIT
/*
 * The API's chapters "Primary Context Management" and "Context Management".
 *
 * Thin: exec/context.c, exec/stream.c and exec/wait.c implement it. Contexts exist in the process only;
 * the kernel does not know them.
 *
 * Common errors: INVALID_CONTEXT without a current context or for a handle that is not a context's,
 * CONTEXT_IS_DESTROYED, INVALID_DEVICE, INVALID_VALUE.
 */
#include "driver/driver.h"

/* ---- primary contexts */

/**
 * cuDevicePrimaryCtxRetain - count a use of a device's primary context
 *
 * The first use makes the context. The call does not make it current. Return: INVALID_DEVICE, INVALID_VALUE.
 */
CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice device)
{
	CALL(primary_retain(ctx, device), ctx, device);
}

/**
 * cuDevicePrimaryCtxRelease_v2 - take back one retain of a device's primary context
 *
 * The last release ends the context: it waits for the context's work, destroys its streams and frees its
 * memory. A reset leaves the number of retains as it is, so a release for each of them succeeds. Return:
 * INVALID_CONTEXT if there are no retains left.
 */
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	CALL(primary_release(device), device);
}

/** cuDevicePrimaryCtxRelease - the same */
CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
	CALL(primary_release(device), device);
}

/**
 * cuDevicePrimaryCtxReset_v2 - end a device's primary context, also if it is retained
 *
 * Sets the context's flags to 0, then waits for its work. Calls in the context return CONTEXT_IS_DESTROYED
 * until it is retained again. The handle stays the same.
 */
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	CALL(primary_reset(device), device);
}

/** cuDevicePrimaryCtxReset - the same */
CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
	CALL(primary_reset(device), device);
}

/** cuDevicePrimaryCtxGetState - a primary context's flags, and whether it lives (or will after a reset) */
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
	CALL(primary_state(device, flags, active), device, flags, active);
}

/** cuDevicePrimaryCtxSetFlags_v2 - set the flags of a device's primary context, also while it is retained */
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
	CALL(primary_set_flags(device, flags), device, flags);
}

/** cuDevicePrimaryCtxSetFlags - the same */
CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags)
{
	CALL(primary_set_flags(device, flags), device, flags);
}

/* ---- life */

/**
 * cuCtxCreate_v4 - make a context and push it
 * @ctx: the handle
 * @params: NULL, or without execution affinity
 * @flags: CUctx_flags
 * @device: the context's device
 *
 * Return: UNSUPPORTED_EXEC_AFFINITY if @params asks for one.
 */
CUresult cuCtxCreate_v4(CUcontext *ctx, CUctxCreateParams *params, unsigned int flags,
			CUdevice device)
{
	if (params && (params->execAffinityParams || params->cigParams))
		CALL(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, ctx, params, flags, device);
	CALL(ctx_create(ctx, flags, device), ctx, params, flags, device);
}

/** cuCtxCreate_v3 - the same with a list of execution affinities, which must be empty */
CUresult cuCtxCreate_v3(CUcontext *ctx, CUexecAffinityParam *params, int count, unsigned int flags,
			CUdevice device)
{
	if (params && count)
		CALL(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, ctx, params, count, flags, device);
	CALL(ctx_create(ctx, flags, device), ctx, params, count, flags, device);
}

/** cuCtxCreate_v2 - the same without parameters */
CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice device)
{
	CALL(ctx_create(ctx, flags, device), ctx, flags, device);
}

/** cuCtxCreate - the same */
CUresult cuCtxCreate(CUcontext *ctx, unsigned int flags, CUdevice device)
{
	CALL(ctx_create(ctx, flags, device), ctx, flags, device);
}

/**
 * cuCtxDestroy_v2 - end a context that cuCtxCreate() made
 *
 * Waits for the context's work, destroys its streams and frees its memory. Pops the context if it is current
 * in the calling thread.
 *
 * Return: INVALID_CONTEXT, also for a primary context.
 */
CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	CALL(ctx_destroy(ctx), ctx);
}

/** cuCtxDestroy - the same */
CUresult cuCtxDestroy(CUcontext ctx)
{
	CALL(ctx_destroy(ctx), ctx);
}

/** cuCtxAttach - count a use of the current context; @flags must be 0 */
CUresult cuCtxAttach(CUcontext *ctx, unsigned int flags)
{
	CALL(ctx_attach(ctx, flags), ctx, flags);
}

/** cuCtxDetach - take back a use of a context; taking back the last one destroys it */
CUresult cuCtxDetach(CUcontext ctx)
{
	CALL(ctx_detach(ctx), ctx);
}

/* ---- the calling thread's stack of contexts; its top is the current context */

/** cuCtxPushCurrent_v2 - push a context on the stack, which makes it current */
CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
	CALL(ctx_push(ctx), ctx);
}

/** cuCtxPushCurrent - the same */
CUresult cuCtxPushCurrent(CUcontext ctx)
{
	CALL(ctx_push(ctx), ctx);
}

/** cuCtxPopCurrent_v2 - pop the current context; @ctx receives it, and may be NULL */
CUresult cuCtxPopCurrent_v2(CUcontext *ctx)
{
	CALL(ctx_pop(ctx), ctx);
}

/** cuCtxPopCurrent - the same */
CUresult cuCtxPopCurrent(CUcontext *ctx)
{
	CALL(ctx_pop(ctx), ctx);
}

/** cuCtxSetCurrent - replace the top of the stack by a context; NULL pops the top */
CUresult cuCtxSetCurrent(CUcontext ctx)
{
	CALL(ctx_set(ctx), ctx);
}

static CUresult get_current(CUcontext *ctx)
{
	if (!ctx)
		return CUDA_ERROR_INVALID_VALUE;
	*ctx = ctx_top();
	return CUDA_SUCCESS;
}

/** cuCtxGetCurrent - the current context, or NULL */
CUresult cuCtxGetCurrent(CUcontext *ctx)
{
	CALL(get_current(ctx), ctx);
}

static CUresult current_device(CUdevice *device)
{
	CUcontext ctx;
	CUresult result = ctx_current_any(&ctx);

	if (!result)
		*device = ctx->device;
	return result;
}

/** cuCtxGetDevice - the current context's device */
CUresult cuCtxGetDevice(CUdevice *device)
{
	CALL_AFTER(NEEDS(device), current_device(device), device);
}

static CUresult api_ctx_synchronize(void)
{
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	if (!result)
		result = ctx_synchronize(ctx);
	if (!result)
		sync_release();
	return result;
}

/**
 * cuCtxSynchronize - wait for all work of the current context
 *
 * This includes the work of destroyed streams. Return: also the error of work that failed.
 */
CUresult cuCtxSynchronize(void)
{
	CALL(api_ctx_synchronize());
}

/* ---- properties */

/* @ctx, or the current one. */
static CUresult named_or_current(CUcontext *ctx)
{
	return *ctx ? ctx_valid(*ctx) : ctx_current_any(ctx);
}

static CUresult named_device(CUdevice *device, CUcontext ctx)
{
	CUresult result = named_or_current(&ctx);

	if (!result && !device)
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result)
		*device = ctx->device;
	return result;
}

/** cuCtxGetDevice_v2 - the device of a context, or of the current one */
CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
	CALL(named_device(device, ctx), device, ctx);
}

static CUresult synchronize_named(CUcontext ctx)
{
	CUresult result = named_or_current(&ctx);

	if (!result)
		result = load_relaxed(&ctx->sticky);
	if (!result)
		result = ctx_synchronize(ctx);
	if (!result)
		sync_release();
	return result;
}

/** cuCtxSynchronize_v2 - wait for all work of a context, or of the current one */
CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
	CALL(synchronize_named(ctx), ctx);
}

static CUresult api_ctx_get_id(CUcontext ctx, unsigned long long *id)
{
	CUresult result = named_or_current(&ctx);

	if (!result)
		*id = ctx->id;
	return result;
}

/** cuCtxGetId - a number that no other context of the process has or had; NULL @ctx: the current context's */
CUresult cuCtxGetId(CUcontext ctx, unsigned long long *id)
{
	CALL_AFTER(NEEDS(id), api_ctx_get_id(ctx, id), ctx, id);
}

static CUresult get_api_version(CUcontext ctx, unsigned int *version)
{
	CUresult result = version ? named_or_current(&ctx) : CUDA_ERROR_INVALID_VALUE;

	if (!result)
		*version = 3020;
	return result;
}

/** cuCtxGetApiVersion - 3020, as NVIDIA's driver returned in the recording */
CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
	CALL(get_api_version(ctx, version), ctx, version);
}

/** cuCtxGetFlags - the current context's flags */
CUresult cuCtxGetFlags(unsigned int *flags)
{
	CALL_AFTER(NEEDS(flags), ctx_flags(flags), flags);
}

/** cuCtxSetFlags - change the current context's flags */
CUresult cuCtxSetFlags(unsigned int flags)
{
	CALL(ctx_set_flags(flags), flags);
}

/**
 * cuCtxGetLimit - a limit of the current context
 *
 * Deviation: limits are stored and have no effect, because no program code runs on the device.
 *
 * Return: UNSUPPORTED_LIMIT; INVALID_VALUE for an unknown limit.
 */
CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
	CALL(ctx_limit(value, limit), value, limit);
}

/** cuCtxSetLimit - store a limit; as cuCtxGetLimit(), and NOT_PERMITTED for SHMEM_SIZE and CIG_ENABLED */
CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	CALL(ctx_set_limit(limit, value), limit, value);
}

/* Get or set a preference for kernels, which is stored without effect: cache split, or width of @banks. */
static CUresult preference(unsigned int *get, const unsigned int *set, bool banks,
			   unsigned int most)
{
	CUcontext ctx;
	CUresult result = ctx_current_any(&ctx);
	unsigned int *where;

	if (result)
		return result;
	where = banks ? &ctx->bank_config : &ctx->cache_config;
	if ((set && *set > most) || (!set && !get))
		return CUDA_ERROR_INVALID_VALUE;
	if (set)
		store_relaxed(where, *set);
	else
		*get = load_relaxed(where);
	return CUDA_SUCCESS;
}

/** cuCtxGetCacheConfig - the preferred split of cache and shared memory */
CUresult cuCtxGetCacheConfig(CUfunc_cache *config)
{
	CALL(preference((unsigned int *)config, NULL, false, 0), config);
}

/** cuCtxSetCacheConfig - store the preferred split of cache and shared memory; has no effect */
CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
	unsigned int value = config;

	CALL(preference(NULL, &value, false, CU_FUNC_CACHE_PREFER_EQUAL), config);
}

/** cuCtxGetSharedMemConfig - the preferred width of shared memory banks */
CUresult cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
	CALL(preference((unsigned int *)config, NULL, true, 0), config);
}

/** cuCtxSetSharedMemConfig - store the preferred width of shared memory banks; has no effect */
CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
	unsigned int value = config;

	CALL(preference(NULL, &value, true, CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE), config);
}

static CUresult priority_range(int *least, int *greatest)
{
	CUcontext ctx;
	CUresult result = ctx_current_any(&ctx);

	if (result)
		return result;
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return CUDA_SUCCESS;
}

/** cuCtxGetStreamPriorityRange - 0 is the lowest priority, -5 the highest; either may be NULL */
CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	CALL(priority_range(least, greatest), least, greatest);
}
