// SPDX-License-Identifier: MIT
/*
 * The runtime API's chapter "Device Management": the calling thread's device, the device's primary
 * context, and the context's limits, preferences and peers.
 *
 * Owns each thread's device, and one reference to the primary context of each device that the
 * runtime has used, from its first use until cudaDeviceReset().
 *
 * Rules: the library makes no context before a call needs one. The first call that needs a context makes the
 * primary context of the thread's device current in that thread. A context that is current already is used
 * unchanged, also if the program made it by the driver API. cudaSetDevice() makes the context at once. After a
 * reset each thread's next call that needs a context uses the new life of the primary context.
 *
 * Invariants: rt_primaries[] is written under primary_lock. resets rises at the beginning and at the end of
 * every reset. A thread that has seen its current context alive since resets last rose need not check
 * again. A primary context's handle is the same in all its lives, as the driver promises.
 *
 * cudaDeviceReset() may take as long as the work that it waits for, so the driver resets without
 * primary_lock. While resetting is not 0, every thread asks the driver whether the context is alive,
 * because its retain may have come before the driver's reset or after it.
 *
 * Locks: primary_lock, held over the driver's retain and release but not over its reset. A forked
 * child takes it only if the driver was never started before the fork: otherwise the driver has
 * refused before.
 */
#include <pthread.h>

#include "runtime/runtime.h"

struct rt_thread {
	int device;			/* the argument of cudaSetDevice(), or the device of a reset */
	bool chosen;			/* device is valid */
	CUcontext seen;			/* the current context when it was last found alive ... */
	unsigned int resets;		/* ... and the value of resets at that time */
};
static __thread struct rt_thread rt_thread __attribute__((tls_model("initial-exec")));

static struct primary {
	CUcontext ctx;			/* NULL until it is retained for the first time */
	bool retained;
	unsigned int resetting;		/* threads in cudaDeviceReset() */
} rt_primaries[RT_DEVICES];		/* primary_lock */

static pthread_mutex_t primary_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int resets;		/* primary_lock; read without */
static bool driver_started;
static int valid_devices[RT_DEVICES];	/* cudaSetValidDevices(); primary_lock */
static int valid_count;			/* 0: all; primary_lock */

cudaError_t rt_start(void)
{
	CUresult result;

	if (rt_likely(__atomic_load_n(&driver_started, __ATOMIC_ACQUIRE)))
		return cudaSuccess;
	result = cuInit(0);
	if (!result)
		__atomic_store_n(&driver_started, true, __ATOMIC_RELEASE);
	return rt_code(result);
}

/* The device whose primary context @ctx is, or -1. primary_lock is held. */
static int primary_device(CUcontext ctx)
{
	for (int device = 0; device < RT_DEVICES; device++)
		if (rt_primaries[device].ctx == ctx)
			return device;
	return -1;
}

/* The device of a thread that has no context. primary_lock is held. */
static int default_device(void)
{
	if (rt_thread.chosen)
		return rt_thread.device;
	return valid_count ? valid_devices[0] : 0;
}

/* Whether a device's primary context lives, or will live again when the reset that is going on is over. */
static bool active(int device)
{
	unsigned int flags;
	int is_active = 0;

	return !cuDevicePrimaryCtxGetState(device, &flags, &is_active) && is_active;
}

/* Whether the runtime has a reference to a context that lives. primary_lock is held. */
static bool retained(int device)
{
	const struct primary *primary = &rt_primaries[device];

	return primary->retained && (!primary->resetting || active(device));
}

/* primary_lock is held. */
static cudaError_t retain(int device)
{
	struct primary *primary = &rt_primaries[device];
	CUresult result;

	if (retained(device))
		return cudaSuccess;
	result = cuDevicePrimaryCtxRetain(&primary->ctx, device);
	if (result)
		return rt_code(result);
	/* Drop the reference to the previous life. The release does not wait: one reference remains. */
	if (primary->retained)
		cuDevicePrimaryCtxRelease_v2(device);
	primary->retained = true;
	return cudaSuccess;
}

/* Note that the thread's context is alive. @device is -1 if it is not a primary context. primary_lock is held. */
static void thread_saw(int device, CUcontext ctx)
{
	rt_thread.seen = device >= 0 && rt_primaries[device].resetting ? NULL : ctx;
	rt_thread.resets = resets;
}

/* Make a device's primary context current. primary_lock is held. */
static cudaError_t bind_device(int device)
{
	cudaError_t error;

	/* A reset may end the context between the two calls; the context is then retained again. */
	do {
		error = retain(device);
		if (error)
			return error;
		error = rt_code(cuCtxSetCurrent(rt_primaries[device].ctx));
	} while (error == cudaErrorContextIsDestroyed && rt_primaries[device].resetting);
	if (error)
		return error;
	thread_saw(device, rt_primaries[device].ctx);
	return cudaSuccess;
}

/* Make sure that the thread's current context is alive. @ctx: the current context, or NULL if there is none. */
static __attribute__((noinline)) cudaError_t bind(CUcontext ctx)
{
	cudaError_t error = cudaSuccess;
	int device;

	pthread_mutex_lock(&primary_lock);
	device = ctx ? primary_device(ctx) : default_device();
	if (ctx && (device < 0 || retained(device))) {
		thread_saw(device, ctx);
	} else {
		error = bind_device(device);
	}
	pthread_mutex_unlock(&primary_lock);
	return error;
}

cudaError_t rt_context(void)
{
	CUcontext ctx = NULL;
	cudaError_t error = rt_start();

	if (rt_unlikely(error))
		return error;
	error = rt_code(cuCtxGetCurrent(&ctx));
	if (rt_unlikely(error))
		return error;
	if (rt_likely(ctx && ctx == rt_thread.seen &&
		      rt_thread.resets == __atomic_load_n(&resets, __ATOMIC_ACQUIRE)))
		return cudaSuccess;
	return bind(ctx);
}

cudaError_t rt_device(int *device)
{
	CUcontext ctx = NULL;
	cudaError_t error = rt_code(cuCtxGetCurrent(&ctx));
	int found;

	if (error)
		return error;
	pthread_mutex_lock(&primary_lock);
	found = ctx ? primary_device(ctx) : default_device();
	pthread_mutex_unlock(&primary_lock);
	if (found < 0)
		return rt_code(cuCtxGetDevice(device));
	*device = found;
	return cudaSuccess;
}

/* Check that a device exists. */
static cudaError_t check(int device)
{
	int count = 0;
	cudaError_t error = rt_code(cuDeviceGetCount(&count));

	if (error)
		return error;
	return device >= 0 && device < count && device < RT_DEVICES ? cudaSuccess :
		cudaErrorInvalidDevice;
}

cudaError_t rt_primary(CUcontext *ctx, int device)
{
	cudaError_t error = check(device);

	if (error)
		return error;
	pthread_mutex_lock(&primary_lock);
	error = retain(device);
	*ctx = rt_primaries[device].ctx;
	pthread_mutex_unlock(&primary_lock);
	return error;
}

static cudaError_t rt_set_device(int device)
{
	cudaError_t error = check(device);

	if (error)
		return error;
	pthread_mutex_lock(&primary_lock);
	error = bind_device(device);
	pthread_mutex_unlock(&primary_lock);
	if (error)
		return error;
	rt_thread.device = device;
	rt_thread.chosen = true;
	return cudaSuccess;
}

/**
 * cudaSetDevice - set the calling thread's device
 *
 * Makes the device's primary context if it does not exist, and makes it current. Return: cudaErrorInvalidDevice.
 */
cudaError_t cudaSetDevice(int device)
{
	RT_DRIVER(rt_set_device(device));
}

/** cudaGetDevice - the calling thread's device: that of its context, if it has one */
cudaError_t cudaGetDevice(int *device)
{
	RT_DRIVER(device ? rt_device(device) : cudaErrorInvalidValue);
}

static cudaError_t init_device(int device, unsigned int device_flags, unsigned int flags)
{
	cudaError_t error = check(device);
	CUcontext ctx;

	if (error)
		return error;
	if (flags & ~cudaInitDeviceFlagsAreValid)
		return cudaErrorInvalidValue;
	if (flags)
		error = rt_code(cuDevicePrimaryCtxSetFlags_v2(device, device_flags));
	return error ? error : rt_primary(&ctx, device);
}

/**
 * cudaInitDevice - make a device's primary context, and leave the thread's device and context as they are
 * @device_flags: as for cudaSetDeviceFlags(), if @flags is cudaInitDeviceFlagsAreValid
 *
 * Return: cudaErrorInvalidDevice, cudaErrorInvalidValue.
 */
cudaError_t cudaInitDevice(int device, unsigned int device_flags, unsigned int flags)
{
	RT_DRIVER(init_device(device, device_flags, flags));
}

static cudaError_t set_valid_devices(const int *devices, int count)
{
	cudaError_t error = cudaSuccess;

	if (count < 0 || count > RT_DEVICES || (count && !devices))
		return cudaErrorInvalidValue;
	for (int i = 0; !error && i < count; i++)
		error = check(devices[i]);
	if (error)
		return error;
	pthread_mutex_lock(&primary_lock);
	for (int i = 0; i < count; i++)
		valid_devices[i] = devices[i];
	valid_count = count;
	pthread_mutex_unlock(&primary_lock);
	return cudaSuccess;
}

/**
 * cudaSetValidDevices - set the devices for threads that have not called cudaSetDevice()
 * @devices: such a thread uses the first one
 * @count: the number of @devices; 0 for the default, device 0
 *
 * Return: cudaErrorInvalidDevice, cudaErrorInvalidValue.
 */
cudaError_t cudaSetValidDevices(int *devices, int count)
{
	RT_DRIVER(set_valid_devices(devices, count));
}

static cudaError_t set_flags(unsigned int flags)
{
	cudaError_t error;
	int device;

	if (flags & ~cudaDeviceMask)
		return cudaErrorInvalidValue;
	error = rt_device(&device);
	if (!error)
		error = rt_code(cuDevicePrimaryCtxSetFlags_v2(device, flags));
	return error ? error : rt_context();
}

/**
 * cudaSetDeviceFlags - set the flags of the calling thread's device, and make its primary context
 *
 * Return: cudaErrorInvalidValue for unknown flags and for flags that exclude each other.
 */
cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
	RT_DRIVER(set_flags(flags));
}

static cudaError_t rt_get_flags(unsigned int *flags)
{
	cudaError_t error;
	int device, active;

	if (!flags)
		return cudaErrorInvalidValue;
	error = rt_device(&device);
	return error ? error : rt_code(cuDevicePrimaryCtxGetState(device, flags, &active));
}

/** cudaGetDeviceFlags - flags of the calling thread's device */
cudaError_t cudaGetDeviceFlags(unsigned int *flags)
{
	RT_DRIVER(rt_get_flags(flags));
}

static cudaError_t reset(void)
{
	CUcontext ctx = NULL, ended;
	cudaError_t error;
	bool drop;
	int device;

	error = rt_device(&device);
	if (error)
		return error;
	if (device >= RT_DEVICES)
		return cudaErrorInvalidDevice;
	pthread_mutex_lock(&primary_lock);
	rt_primaries[device].resetting++;
	__atomic_store_n(&resets, resets + 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&primary_lock);
	error = rt_code(cuDevicePrimaryCtxReset_v2(device));
	pthread_mutex_lock(&primary_lock);
	drop = rt_primaries[device].retained && !active(device);
	if (drop)
		rt_primaries[device].retained = false;
	rt_primaries[device].resetting--;
	__atomic_store_n(&resets, resets + 1, __ATOMIC_RELEASE);
	ended = rt_primaries[device].ctx;
	pthread_mutex_unlock(&primary_lock);
	/* Without primary_lock: the release may wait for another thread's reset. */
	if (drop)
		cuDevicePrimaryCtxRelease_v2(device);
	if (error)
		return error;
	/* The thread keeps its device. Its context must be checked again. */
	rt_thread.device = device;
	rt_thread.chosen = true;
	rt_thread.seen = NULL;
	if (!cuCtxGetCurrent(&ctx) && ctx && ctx == ended)
		cuCtxSetCurrent(NULL);
	return cudaSuccess;
}

/**
 * cudaDeviceReset - end the primary context of the calling thread's device
 *
 * Waits for the context's work, frees its memory and destroys its streams and events, for all threads. The next
 * call that needs a context makes the primary context again.
 */
cudaError_t cudaDeviceReset(void)
{
	RT_DRIVER(reset());
}

/** cudaDeviceSynchronize - wait for all work of the current context. Return: also the error of work that failed */
cudaError_t cudaDeviceSynchronize(void)
{
	RT_CONTEXT(rt_code(cuCtxSynchronize()));
}

/** cudaDeviceGetLimit - as cuCtxGetLimit() */
cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit)
{
	RT_CONTEXT(rt_code(cuCtxGetLimit(value, (CUlimit)limit)));
}

/** cudaDeviceSetLimit - as cuCtxSetLimit() */
cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
	RT_CONTEXT(rt_code(cuCtxSetLimit((CUlimit)limit, value)));
}

/** cudaDeviceGetCacheConfig - the preference that was set */
cudaError_t cudaDeviceGetCacheConfig(enum cudaFuncCache *config)
{
	RT_CONTEXT(rt_code(cuCtxGetCacheConfig((CUfunc_cache *)config)));
}

/** cudaDeviceSetCacheConfig - store the preference, which has no effect */
cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache config)
{
	RT_CONTEXT(rt_code(cuCtxSetCacheConfig((CUfunc_cache)config)));
}

/** cudaDeviceGetSharedMemConfig - the preference that was set */
cudaError_t cudaDeviceGetSharedMemConfig(enum cudaSharedMemConfig *config)
{
	RT_CONTEXT(rt_code(cuCtxGetSharedMemConfig((CUsharedconfig *)config)));
}

/** cudaDeviceSetSharedMemConfig - store the preference, which has no effect */
cudaError_t cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig config)
{
	RT_CONTEXT(rt_code(cuCtxSetSharedMemConfig((CUsharedconfig)config)));
}

/** cudaDeviceGetStreamPriorityRange - the lowest priority (0) and the highest (-5); either may be NULL */
cudaError_t cudaDeviceGetStreamPriorityRange(int *least_priority, int *greatest_priority)
{
	RT_CONTEXT(rt_code(cuCtxGetStreamPriorityRange(least_priority, greatest_priority)));
}

/** cudaDeviceFlushGPUDirectRDMAWrites - as cuFlushGPUDirectRDMAWrites() */
cudaError_t cudaDeviceFlushGPUDirectRDMAWrites(enum cudaFlushGPUDirectRDMAWritesTarget target,
					       enum cudaFlushGPUDirectRDMAWritesScope scope)
{
	RT_CONTEXT(rt_code(cuFlushGPUDirectRDMAWrites((CUflushGPUDirectRDMAWritesTarget)target,
						      (CUflushGPUDirectRDMAWritesScope)scope)));
}

/* ---- peers */

/**
 * cudaDeviceCanAccessPeer - whether one device can reach another's memory
 *
 * Return: cudaErrorInvalidDevice, cudaErrorInvalidValue.
 */
cudaError_t cudaDeviceCanAccessPeer(int *can_access_peer, int device, int peer)
{
	RT_DRIVER(rt_code(cuDeviceCanAccessPeer(can_access_peer, device, peer)));
}

static cudaError_t peer_context(CUcontext *ctx, int peer)
{
	cudaError_t error;
	int device;

	error = rt_device(&device);
	if (!error && device == peer)
		error = cudaErrorInvalidDevice;
	return error ? error : rt_primary(ctx, peer);
}

static cudaError_t enable_peer(int peer, unsigned int flags)
{
	CUcontext ctx;
	cudaError_t error = peer_context(&ctx, peer);

	return error ? error : rt_code(cuCtxEnablePeerAccess(ctx, flags));
}

/**
 * cudaDeviceEnablePeerAccess - let the current device reach the memory of another
 * @flags: 0
 *
 * Return: cudaErrorInvalidDevice, cudaErrorInvalidValue, cudaErrorPeerAccessAlreadyEnabled.
 */
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
	RT_CONTEXT(enable_peer(peer, flags));
}

static cudaError_t disable_peer(int peer)
{
	CUcontext ctx;
	cudaError_t error = peer_context(&ctx, peer);

	return error ? error : rt_code(cuCtxDisablePeerAccess(ctx));
}

/** cudaDeviceDisablePeerAccess - take the access back; cudaErrorPeerAccessNotEnabled if it was not enabled */
cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
	RT_CONTEXT(disable_peer(peer));
}
