/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The operations of t_cuda_fail_nth: every kind of call that enters the kernel or allocates, with a
 * step that prepares it, and one that undoes it or checks its work.  Each is a function of an
 * environment, struct env.  The test itself checks how a call failed and what a failed call left.
 *
 * Include this after kselftest_harness.h.
 */
#ifndef CUDA_NTH_OPS_H
#define CUDA_NTH_OPS_H

#include <pthread.h>

#include "cuda_util.h"

#define SMALL	(64 * KIB)
#define BLOCK	(2 * MIB)	/* fills a shared block, so the library makes a new one */
#define LARGE	(3 * MIB)

struct env {
	CUcontext ctx, ctx2;
	CUdeviceptr keep, ptr;
	CUstream stream, stream2;
	CUevent event;
	CUmipmappedArray mipmap;
	CUarray array;
	CUmemGenericAllocationHandle tiles;
	CUipcMemHandle handle, theirs;
	struct peer peer;
	int client, fd;
	unsigned int devices;
	unsigned char *host;
	void *pinned;
	CUmemoryPool pool, pool2, import;
	CUmemPoolPtrExportData data;
	CUdeviceptr theirs_in_pool;
	unsigned int ran;
	CUipcEventHandle event_handle;
	CUasyncCallbackHandle notice;
};

typedef CUresult (*step)(struct env *e);

/* --- operations */

static CUresult init(struct env *e)
{
	CUresult result = cuInit(0);
	int count = 0;

	if (!result)
		result = cuDeviceGetCount(&count);
	/* cuInit() must not leave a device out because its node could not be opened. */
	return !result && (unsigned int)count != e->devices ? CUDA_ERROR_UNKNOWN : result;
}

static CUresult retain(struct env *e)
{
	CUresult result = cuDevicePrimaryCtxRetain(&e->ctx2, 0);

	if (result)
		return result;
	result = cuCtxPushCurrent(e->ctx2);
	if (result)
		cuDevicePrimaryCtxRelease(0);
	return result;
}

static CUresult release(struct env *e)
{
	CUresult result = cuCtxPopCurrent(&e->ctx2);

	return result ? result : cuDevicePrimaryCtxRelease(0);
}

static CUresult ctx_create(struct env *e)
{
	return cuCtxCreate(&e->ctx2, NULL, 0, 0);
}

static CUresult ctx_destroy(struct env *e)
{
	return cuCtxDestroy(e->ctx2);
}

/* A context that owns memory and a stream. */
static CUresult ctx_full(struct env *e)
{
	CUresult result = cuCtxCreate(&e->ctx2, NULL, 0, 0);

	if (!result)
		result = cuMemAlloc(&e->ptr, LARGE);
	if (!result)
		result = cuMemHostRegister(e->host, SMALL, 0);
	return result ? result : cuStreamCreate(&e->stream2, CU_STREAM_DEFAULT);
}

static CUresult alloc_small(struct env *e)
{
	return cuMemAlloc(&e->ptr, SMALL);
}

static CUresult alloc_block(struct env *e)
{
	return cuMemAlloc(&e->ptr, BLOCK);
}

static CUresult alloc_large(struct env *e)
{
	return cuMemAlloc(&e->ptr, LARGE);
}

static CUresult managed(struct env *e)
{
	CUresult result = cuMemAllocManaged(&e->ptr, BLOCK, CU_MEM_ATTACH_GLOBAL);
	const CUmemLocation device = { .type = CU_MEM_LOCATION_TYPE_DEVICE };

	if (result)
		return result;
	return cuMemAdvise(e->ptr, SMALL, CU_MEM_ADVISE_SET_READ_MOSTLY, device);
}

static CUresult free_ptr(struct env *e)
{
	return cuMemFree(e->ptr);
}

static CUresult alloc_host(struct env *e)
{
	return cuMemAllocHost(&e->pinned, LARGE);
}

static CUresult free_host(struct env *e)
{
	return cuMemFreeHost(e->pinned);
}

static CUresult register_host(struct env *e)
{
	return cuMemHostRegister(e->host, SMALL, 0);
}

static CUresult unregister_host(struct env *e)
{
	return cuMemHostUnregister(e->host);
}

/* A mipmapped array whose levels fill a block of their own. */
static CUresult mipmap(struct env *e)
{
	const CUDA_ARRAY3D_DESCRIPTOR d = {
		.Width = 1024, .Height = 1024, .Format = CU_AD_FORMAT_UNSIGNED_INT8,
		.NumChannels = 2,
	};

	return cuMipmappedArrayCreate(&e->mipmap, &d, 11);
}

static CUresult mipmap_destroy(struct env *e)
{
	return cuMipmappedArrayDestroy(e->mipmap);
}

static CUresult sparse_make(struct env *e)
{
	const CUDA_ARRAY3D_DESCRIPTOR d = {
		.Width = 2048, .Height = 256, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1,
		.Flags = CUDA_ARRAY3D_SPARSE,
	};

	return cuArray3DCreate(&e->array, &d);
}

static CUresult sparse_destroy(struct env *e)
{
	return cuArrayDestroy(e->array);
}

/* A sparse array of eight tiles, and memory for them. */
static CUresult tiles_make(struct env *e)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
		.allocFlags = { .usage = CU_MEM_CREATE_USAGE_TILE_POOL },
	};
	CUresult result = cuMemCreate(&e->tiles, BLOCK, &prop, 0);

	return result ? result : sparse_make(e);
}

static CUresult tiles_map(struct env *e)
{
	CUarrayMapInfo info = {
		.resourceType = CU_RESOURCE_TYPE_ARRAY, .resource = { .array = e->array },
		.subresource = { .sparseLevel = { .extentWidth = 2048, .extentHeight = 256, .extentDepth = 1 } },
		.memOperationType = CU_MEM_OPERATION_TYPE_MAP,
		.memHandle = { .memHandle = e->tiles }, .deviceBitMask = 1,
	};

	return cuMemMapArrayAsync(&info, 1, e->stream);
}

static CUresult tiles_undo(struct env *e)
{
	CUresult result = cuMemRelease(e->tiles);

	return result ? result : sparse_destroy(e);
}

static CUresult mem_info(struct env *e)
{
	size_t some, all;

	(void)e;
	return cuMemGetInfo(&some, &all);
}

static CUresult stream_create(struct env *e)
{
	return cuStreamCreate(&e->stream2, CU_STREAM_NON_BLOCKING);
}

static CUresult stream_use(struct env *e)
{
	CUresult result = cuMemsetD8Async(e->keep, 3, SMALL, e->stream2);

	return result ? result : cuStreamSynchronize(e->stream2);
}

static CUresult stream_destroy(struct env *e)
{
	return cuStreamDestroy(e->stream2);
}

static CUresult event_create(struct env *e)
{
	return cuEventCreate(&e->event, CU_EVENT_DEFAULT);
}

static CUresult event_record(struct env *e)
{
	CUresult result = cuEventRecord(e->event, e->stream);

	return result ? result : cuEventSynchronize(e->event);
}

static CUresult event_destroy(struct env *e)
{
	return cuEventDestroy(e->event);
}

static CUresult fill(struct env *e)
{
	CUresult result = cuMemsetD8(e->keep, 5, SMALL);

	return result ? result : cuCtxSynchronize();
}

static CUresult fill_check(struct env *e)
{
	return all_are(cpu(e->keep), 5, SMALL) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static CUresult fill_async(struct env *e)
{
	CUresult result = cuMemsetD8Async(e->keep, 5, SMALL, e->stream);

	return result ? result : cuStreamSynchronize(e->stream);
}

static CUresult copy_setup(struct env *e)
{
	memset(cpu(e->keep), 1, 2 * SMALL);
	memset(e->host, 2, SMALL);
	return CUDA_SUCCESS;
}

static CUresult copy_in(struct env *e)
{
	CUresult result = cuMemcpyHtoD(e->keep, e->host, SMALL);

	return result ? result : cuCtxSynchronize();
}

static CUresult copy_in_check(struct env *e)
{
	return all_are(cpu(e->keep), 2, SMALL) && all_are(cpu(e->keep + SMALL), 1, SMALL) ?
		CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static CUresult copy_out(struct env *e)
{
	return cuMemcpyDtoH(e->host, e->keep, SMALL);
}

static CUresult copy_out_check(struct env *e)
{
	return all_are(e->host, 1, SMALL) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static CUresult copy_in_async(struct env *e)
{
	CUresult result = cuMemcpyHtoDAsync(e->keep, e->host, SMALL, e->stream);

	return result ? result : cuStreamSynchronize(e->stream);
}

static CUresult copy_over_setup(struct env *e)
{
	memset(cpu(e->keep), 2, SMALL);
	memset(cpu(e->keep + SMALL), 1, SMALL);
	return CUDA_SUCCESS;
}

static CUresult copy_over(struct env *e)
{
	CUresult result = cuMemcpyDtoD(e->keep + SMALL, e->keep, SMALL);

	return result ? result : cuCtxSynchronize();
}

static CUresult copy_over_check(struct env *e)
{
	return all_are(cpu(e->keep), 2, 2 * SMALL) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static CUresult copy_2d(struct env *e)
{
	CUDA_MEMCPY2D c = {
		.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = e->host, .srcPitch = 512,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = e->keep, .dstPitch = 512,
		.WidthInBytes = 500, .Height = SMALL / 512,
	};
	CUresult result = cuMemcpy2D(&c);

	return result ? result : cuCtxSynchronize();
}

static CUresult copy_2d_check(struct env *e)
{
	return all_are(cpu(e->keep), 2, 500) && all_are(cpu(e->keep) + 500, 1, 12) ?
		CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static CUresult ipc_get(struct env *e)
{
	return cuIpcGetMemHandle(&e->handle, e->ptr);
}

static CUresult ipc_open(struct env *e)
{
	return cuIpcOpenMemHandle(&e->ptr, e->theirs, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

static CUresult ipc_close(struct env *e)
{
	return cuIpcCloseMemHandle(e->ptr);
}

static CUresult export_fd(struct env *e)
{
	return cuMemGetHandleForAddressRange(&e->fd, e->ptr, LARGE,
					     CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
}

static CUresult export_undo(struct env *e)
{
	close(e->fd);
	return free_ptr(e);
}

/* --- pools */

static CUresult pool_create(struct env *e)
{
	const CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE }, .maxSize = 8 * LARGE,
	};

	return cuMemPoolCreate(&e->pool2, &props);
}

static CUresult pool_destroy(struct env *e)
{
	return cuMemPoolDestroy(e->pool2);
}

static CUresult pool_alloc_default(struct env *e)
{
	return cuMemAllocAsync(&e->ptr, SMALL, e->stream);
}

static CUresult pool_free(struct env *e)
{
	CUresult result = cuMemFreeAsync(e->ptr, e->stream);

	return result ? result : cuStreamSynchronize(e->stream);
}

static CUresult pool_alloc(struct env *e)
{
	return cuMemAllocFromPoolAsync(&e->ptr, LARGE, e->pool, e->stream);
}

static CUresult pool_trim(struct env *e)
{
	return cuMemPoolTrimTo(e->pool, 0);
}

static CUresult pool_free_all(struct env *e)
{
	CUresult result = pool_free(e);

	return result ? result : pool_trim(e);
}

/* Leave free chunks of both kinds in the pool, for trimming. */
static CUresult pool_fill(struct env *e)
{
	CUresult result = pool_alloc(e);

	if (!result)
		result = pool_free(e);
	if (!result)
		result = cuMemAllocFromPoolAsync(&e->ptr, SMALL, e->pool, e->stream);
	return result ? result : pool_free(e);
}

static CUresult pool_figures(struct env *e)
{
	cuuint64_t value, zero = 0;
	CUresult result = cuMemPoolGetAttribute(e->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH,
						&value);

	return result ? result : cuMemPoolSetAttribute(e->pool,
						       CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero);
}

static CUresult pool_access(struct env *e)
{
	CUmemAccessDesc access = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};

	return cuMemPoolSetAccess(e->pool, &access, 1);
}

static CUresult pool_export(struct env *e)
{
	return cuMemPoolExportToShareableHandle(&e->fd, e->pool,
						CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

static CUresult pool_close(struct env *e)
{
	return close(e->fd) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult pool_import(struct env *e)
{
	return cuMemPoolImportFromShareableHandle(&e->import, (void *)(uintptr_t)e->fd,
						  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

static CUresult pool_import_undo(struct env *e)
{
	CUresult result = cuMemPoolDestroy(e->import);

	return result ? result : pool_close(e);
}

static CUresult pool_export_pointer(struct env *e)
{
	CUresult result = pool_alloc(e);

	return result ? result : cuMemPoolExportPointer(&e->data, e->ptr);
}

static CUresult pool_import_setup(struct env *e)
{
	CUresult result = pool_export_pointer(e);

	if (!result)
		result = pool_export(e);
	return result ? result : pool_import(e);
}

static CUresult pool_import_pointer(struct env *e)
{
	return cuMemPoolImportPointer(&e->theirs_in_pool, e->import, &e->data);
}

static CUresult pool_import_pointer_undo(struct env *e)
{
	CUresult result = cuMemFreeAsync(e->theirs_in_pool, e->stream);

	if (!result)
		result = pool_import_undo(e);
	return result ? result : pool_free_all(e);
}

/* --- queued functions, copies and words; events of several processes; notices */

static void CUDA_CB function(void *arg)
{
	((struct env *)arg)->ran++;
}

static CUresult host_function(struct env *e)
{
	CUresult result = cuLaunchHostFunc(e->stream, function, e);

	return result ? result : cuStreamSynchronize(e->stream);
}

static CUresult host_function_setup(struct env *e)
{
	e->ran = 0;
	return CUDA_SUCCESS;
}

static CUresult host_function_check(struct env *e)
{
	return e->ran ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

/*
 * A thread that opens the gate which batch() closes, some time after it was closed: without memory
 * for staging the call in batch() itself waits behind the gate.
 */
#define OPEN		0x01010101u	/* as copy_setup() has it */

static volatile __u32 *gate;
static unsigned int closings;

static void *keeper_main(void *arg)
{
	for (;;) {
		unsigned int closing = __atomic_load_n(&closings, __ATOMIC_ACQUIRE);

		nap_ms(200);
		if (!*gate && closing == __atomic_load_n(&closings, __ATOMIC_ACQUIRE))
			*gate = OPEN;
	}
	return arg;
}

static CUresult keeper(struct env *e)
{
	static pthread_t thread;

	gate = (__u32 *)cpu(e->keep + SMALL);
	if (!thread && pthread_create(&thread, NULL, keeper_main, NULL))
		return CUDA_ERROR_UNKNOWN;
	return copy_setup(e);
}

/* Two copies behind a closed gate: one source is read in stream order, one during the call. */
static CUresult batch(struct env *e)
{
	CUdeviceptr to[2] = { e->keep, e->keep + SMALL / 2 };
	CUdeviceptr from[2] = { (uintptr_t)e->host, (uintptr_t)e->host + SMALL / 2 };
	CUmemcpyAttributes attrs[2] = {
		{ .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM },
		{ .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL },
	};
	size_t sizes[2] = { SMALL / 2, SMALL / 2 }, first[2] = { 0, 1 };
	CUdeviceptr word = e->keep + SMALL;
	CUresult result, drained;

	*gate = 0;
	__atomic_add_fetch(&closings, 1, __ATOMIC_RELEASE);
	result = cuStreamWaitValue32(e->stream, word, OPEN, CU_STREAM_WAIT_VALUE_EQ);
	if (!result)
		result = cuMemcpyBatchAsync(to, from, sizes, 2, attrs, first, 2, e->stream);
	*gate = OPEN;
	drained = cuStreamSynchronize(e->stream);
	return result ? result : drained;
}

static CUresult words(struct env *e)
{
	CUresult result = cuStreamWriteValue32(e->stream, e->keep, 9, 0);

	if (!result)
		result = cuStreamWaitValue32(e->stream, e->keep, 9, CU_STREAM_WAIT_VALUE_EQ);
	return result ? result : cuStreamSynchronize(e->stream);
}

static CUresult words_check(struct env *e)
{
	return *(volatile __u32 *)cpu(e->keep) == 9 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static CUresult event_ipc_make(struct env *e)
{
	return cuEventCreate(&e->event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
}

static CUresult event_ipc(struct env *e)
{
	CUresult result = cuIpcGetEventHandle(&e->event_handle, e->event);

	if (!result)
		result = cuEventRecord(e->event, e->stream);
	if (!result)
		result = cuStreamWaitEvent(e->stream, e->event, 0);
	return result ? result : cuEventSynchronize(e->event);
}

static void CUDA_CB noticed(CUasyncNotificationInfo *info, void *arg, CUasyncCallbackHandle handle)
{
	(void)info;
	(void)arg;
	(void)handle;
}

static CUresult notice(struct env *e)
{
	return cuDeviceRegisterAsyncNotification(0, noticed, e, &e->notice);
}

static CUresult notice_undo(struct env *e)
{
	return cuDeviceUnregisterAsyncNotification(0, e->notice);
}

/* --- preparations: in every process, and in one whose first call is the operation */

static CUresult env_make(struct env *e)
{
	CUresult result = cuMemAlloc(&e->keep, 4 * SMALL);

	return result ? result : cuStreamCreate(&e->stream, CU_STREAM_NON_BLOCKING);
}

/* Make the pool that the operations pool_*() use. */
static CUresult pool_env(struct env *e)
{
	CUresult result = pool_create(e);

	e->pool = e->pool2;
	return result;
}

/* Define a step that runs @first, and then @then. */
#define BOTH(name, first, then)					\
static CUresult name(struct env *e)				\
{								\
	CUresult result = first(e);				\
								\
	return result ? result : then(e);			\
}

BOTH(cold_pool, env_make, pool_env)
BOTH(cold_import, cold_pool, pool_import_setup)
BOTH(cold_stream, env_make, stream_create)
BOTH(cold_event, env_make, event_create)
BOTH(cold_copy, env_make, copy_setup)
BOTH(cold_keeper, env_make, keeper)

#endif
