// SPDX-License-Identifier: GPL-2.0
/*
 * Every kind of call of the CUDA API that enters the kernel or allocates, with its first, second,
 * third ... allocation or user copy failing in the kernel (fail_nth.h).
 *
 * A call that fails says CUDA_ERROR_OUT_OF_MEMORY, leaves nothing behind, and succeeds when it is
 * made again.  Calls that cannot report (frees) may leave memory for the next call to give back.
 *
 * "warm" operations run many times in one process.  "cold" ones are a process's first of their
 * kind, where the library makes what it keeps, so each fault gets a process of its own; as that
 * takes long, it is every eleventh point (47th with GPUMEM_QUICK), from a random one on, unless
 * GPUMEM_STRIDE says 1.
 *
 * Everything is queued (GPUMEM_INLINE=0): copies by the caller do not enter the kernel.
 */
#include <pthread.h>
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "cuda_util.h"
#include "fail_nth.h"

#define SMALL	(64 * KIB)
#define BLOCK	(2 * MIB)	/* all of a shared block: takes a new one */
#define LARGE	(3 * MIB)

struct env {
	CUcontext ctx, ctx2;
	CUdeviceptr keep, ptr;
	CUstream stream, stream2;
	CUevent event;
	CUmipmappedArray mipmap;
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
	/* Devices must not be forgotten because a node could not be opened. */
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

/* Levels, in a block of their own. */
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

/* Chunks of both kinds, for trimming. */
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

/* --- sweeps */

FIXTURE(cuda)
{
	struct env e;
	bool able;
};

FIXTURE_VARIANT(cuda)
{
	step setup, act, undo;
	bool cold, raw, peer, pool;
	bool calm;		/* may end without a system call: nothing to fail */
};

#define WARM(name, setup_, act_, undo_, ...)	\
	FIXTURE_VARIANT_ADD(cuda, name) {	\
		.setup = setup_, .act = act_, .undo = undo_, ##__VA_ARGS__	\
	}
#define COLD(name, setup_, act_, undo_, ...)	\
	WARM(name, setup_, act_, undo_, .cold = true, ##__VA_ARGS__)

static CUresult env_make(struct env *e)
{
	CUresult result = cuMemAlloc(&e->keep, 4 * SMALL);

	return result ? result : cuStreamCreate(&e->stream, CU_STREAM_NON_BLOCKING);
}

/* A pool that pool_*() are about. */
static CUresult pool_env(struct env *e)
{
	CUresult result = pool_create(e);

	e->pool = e->pool2;
	return result;
}

static CUresult cold_pool(struct env *e)
{
	CUresult result = env_make(e);

	return result ? result : pool_env(e);
}

static CUresult cold_import(struct env *e)
{
	CUresult result = cold_pool(e);

	return result ? result : pool_import_setup(e);
}

static CUresult cold_stream(struct env *e)
{
	CUresult result = env_make(e);

	return result ? result : stream_create(e);
}

static CUresult cold_event(struct env *e)
{
	CUresult result = env_make(e);

	return result ? result : event_create(e);
}

static CUresult cold_copy(struct env *e)
{
	CUresult result = env_make(e);

	return result ? result : copy_setup(e);
}

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
 * Opens what batch() closes: soon after the call, or while it waits itself, as it does if there is no
 * memory for staging.
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

static CUresult cold_keeper(struct env *e)
{
	CUresult result = env_make(e);

	return result ? result : keeper(e);
}

/* A source in its turn and one before the call returns, behind something that waits till then. */
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

/* raw: not even cuInit() was called. */
COLD(first_init, NULL, init, NULL, .raw = true);
COLD(first_context, NULL, retain, release, .calm = true);
COLD(first_alloc, NULL, alloc_small, free_ptr);
COLD(first_alloc_host, NULL, alloc_host, free_host);
COLD(first_register, NULL, register_host, unregister_host);
COLD(first_stream_use, cold_stream, stream_use, stream_destroy);
COLD(first_event_record, cold_event, event_record, event_destroy);
COLD(first_copy_in, cold_copy, copy_in, copy_in_check);
WARM(ctx_create, NULL, ctx_create, ctx_destroy, .calm = true);
WARM(ctx_destroy, ctx_full, ctx_destroy, NULL);
WARM(alloc_block, NULL, alloc_block, free_ptr);
WARM(alloc_large, NULL, alloc_large, free_ptr);
WARM(alloc_managed, NULL, managed, free_ptr);
WARM(free_large, alloc_large, free_ptr, NULL);
WARM(alloc_host, NULL, alloc_host, free_host);
WARM(free_host, alloc_host, free_host, NULL);
WARM(host_register, NULL, register_host, unregister_host);
WARM(host_unregister, register_host, unregister_host, NULL);
WARM(mipmap, NULL, mipmap, mipmap_destroy);
WARM(mem_info, NULL, mem_info, NULL);
WARM(stream, NULL, stream_create, stream_destroy, .calm = true);
WARM(event, event_create, event_record, event_destroy, .calm = true);
WARM(memset, copy_setup, fill, fill_check, .calm = true);
WARM(memset_async, copy_setup, fill_async, fill_check, .calm = true);
WARM(copy_in, copy_setup, copy_in, copy_in_check, .calm = true);
WARM(copy_in_async, copy_setup, copy_in_async, copy_in_check, .calm = true);
WARM(copy_out, copy_setup, copy_out, copy_out_check, .calm = true);
WARM(copy_over, copy_over_setup, copy_over, copy_over_check, .calm = true);
WARM(copy_2d, copy_setup, copy_2d, copy_2d_check, .calm = true);
WARM(ipc_get, alloc_large, ipc_get, free_ptr);
WARM(ipc_open, NULL, ipc_open, ipc_close, .peer = true);
WARM(ipc_close, ipc_open, ipc_close, NULL, .peer = true);
WARM(export, alloc_large, export_fd, export_undo);
COLD(first_host_function, env_make, host_function, host_function_check);
COLD(first_batch, cold_keeper, batch, copy_in_check);
COLD(first_notice, NULL, notice, notice_undo);
WARM(host_function, host_function_setup, host_function, host_function_check, .calm = true);
WARM(batch, keeper, batch, copy_in_check);
WARM(words, copy_setup, words, words_check, .calm = true);
WARM(event_ipc, event_ipc_make, event_ipc, event_destroy);
WARM(notice, NULL, notice, notice_undo, .calm = true);
COLD(first_pool, env_make, pool_create, pool_destroy);
COLD(first_pool_alloc, env_make, pool_alloc_default, pool_free);
COLD(first_pool_import, cold_import, pool_import_pointer, pool_import_pointer_undo);
WARM(pool, NULL, pool_create, pool_destroy);
WARM(pool_alloc, NULL, pool_alloc, pool_free_all, .pool = true);
WARM(pool_trim, pool_fill, pool_trim, NULL, .pool = true);
WARM(pool_figures, pool_fill, pool_figures, pool_trim, .pool = true);
WARM(pool_access, NULL, pool_access, NULL, .pool = true, .calm = true);
WARM(pool_export, NULL, pool_export, pool_close, .pool = true);
WARM(pool_import, pool_export, pool_import, pool_import_undo, .pool = true);
WARM(pool_import_pointer, pool_import_setup, pool_import_pointer, pool_import_pointer_undo,
     .pool = true);

FIXTURE_SETUP(cuda)
{
	struct env *e = &self->e;

	self->able = fail_setup(false);
	if (!self->able)
		SKIP(return, "the kernel cannot be made to fail");
	ASSERT_TRUE(dev_quiet(10));
	setenv("GPUMEM_INLINE", "0", 1);
	e->devices = dev_count();
	e->host = mmap(NULL, SMALL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)e->host);
	memset(e->host, 1, SMALL);
	if (variant->cold)
		return;
	ASSERT_TRUE(fail_open());
	ASSERT_CU(cuda_start(&e->ctx));
	ASSERT_CU(env_make(e));
	ASSERT_CU(variant->pool ? pool_env(e) : CUDA_SUCCESS);
	ASSERT_EQ(1, node_fds(&e->client));
	if (variant->peer) {
		struct peer_message m = { .op = PEER_ALLOC, .bytes = SMALL };

		ASSERT_EQ(0, peer_start(&e->peer, NULL));
		ASSERT_CU(peer_call(&e->peer, &m));
		m.op = PEER_GET;
		ASSERT_CU(peer_call(&e->peer, &m));
		e->theirs = m.handle;
	}
}

FIXTURE_TEARDOWN_PARENT(cuda)
{
	EXPECT_TRUE(dev_quiet(10));
}

/* What a call could not give back for want of memory, the next one does. */
static bool settles(const struct fail_state *want, int client)
{
	CUdeviceptr p;

	if (fail_same(want, client, false, 0.2))
		return true;
	if (cuMemAlloc(&p, LARGE) || cuMemFree(p))
		return false;
	return fail_same(want, client, false, 10);
}

/* --- a process's first */

enum { QUIET, HARMLESS, FAILED, BAD_SETUP = 10, BAD_RESULT, BAD_AGAIN, BAD_UNDO };

struct cold {
	struct env *e;
	const FIXTURE_VARIANT(cuda) *op;
	unsigned int n;
};

static int cold_child(void *arg)
{
	struct cold *c = arg;
	const FIXTURE_VARIANT(cuda) *op = c->op;
	CUresult result;
	bool fired;

	if (!fail_open())
		return BAD_SETUP;
	if (!op->raw && cuda_start(&c->e->ctx))
		return BAD_SETUP;
	if (op->setup && op->setup(c->e))
		return BAD_SETUP;
	fail_arm(c->n);
	result = op->act(c->e);
	fired = fail_disarm();
	if (result) {
		if (!fired || result != CUDA_ERROR_OUT_OF_MEMORY) {
			fprintf(stderr, "# result %d, fault came: %d\n", result, fired);
			return BAD_RESULT;
		}
		if (op->act(c->e))
			return BAD_AGAIN;
	}
	if (op->undo && op->undo(c->e))
		return BAD_UNDO;
	return result ? FAILED : fired ? HARMLESS : QUIET;
}

static unsigned int cold_sweep(struct __test_metadata *_metadata, struct env *e,
			       const FIXTURE_VARIANT(cuda) *op, unsigned int *failed,
			       unsigned int *fired)
{
	struct cold c = { .e = e, .op = op };
	__u64 stride = env_number("GPUMEM_STRIDE", getenv("GPUMEM_QUICK") ? 47 : 11);
	struct rng rng;
	int how;

	stride = stride ? stride : 1;
	rng_start(&rng, "first point");
	c.n = 1 + rng_below(&rng, stride);
	for (;;) {
		how = run_child(cold_child, &c);
		EXPECT_TRUE(how >= QUIET && how <= FAILED) {
			TH_LOG("%d at point %u", how, c.n);
		}
		*failed += how == FAILED;
		*fired += how == FAILED || how == HARMLESS;
		/* It has fewer than were left out. */
		if (how == QUIET && !*fired && c.n > 1) {
			c.n = 1;
			continue;
		}
		if (how == QUIET || c.n >= FAIL_MOST)
			return c.n;
		c.n += stride;
	}
}

static unsigned int warm_sweep(struct __test_metadata *_metadata, struct env *e,
			       const FIXTURE_VARIANT(cuda) *op, unsigned int *failed)
{
	struct fail_state before, ready;
	bool fired = true;
	CUresult result;
	unsigned int n;

	/* What is made once is made now. */
	ASSERT_CU(op->setup ? op->setup(e) : 0);
	ASSERT_CU(op->act(e));
	ASSERT_CU(op->undo ? op->undo(e) : 0);
	nap_ms(50);
	for (n = 1; fired && n < FAIL_MOST; n++) {
		ASSERT_EQ(0, fail_look(&before, e->client, false));
		ASSERT_CU(op->setup ? op->setup(e) : 0);
		ASSERT_EQ(0, fail_look(&ready, e->client, false));
		fail_arm(n);
		result = op->act(e);
		fired = fail_disarm();
		if (result) {
			(*failed)++;
			EXPECT_TRUE(fired && result == CUDA_ERROR_OUT_OF_MEMORY) {
				TH_LOG("result %d at point %u, which fails: %d", result, n, fired);
			}
			ASSERT_TRUE(settles(&ready, e->client)) {
				TH_LOG("changed by result %d at point %u", result, n);
			}
			ASSERT_CU(op->act(e)) {
				TH_LOG("again after result %d at point %u", result, n);
			}
		}
		ASSERT_CU(op->undo ? op->undo(e) : 0) {
			TH_LOG("point %u", n);
		}
		ASSERT_TRUE(settles(&before, e->client)) {
			TH_LOG("left behind after result %d at point %u", result, n);
		}
	}
	return n - 1;
}

TEST_F_TIMEOUT(cuda, sweep, 240)
{
	unsigned int failed = 0, fired = 0, n;

	if (variant->cold) {
		n = cold_sweep(_metadata, &self->e, variant, &failed, &fired);
	} else {
		n = warm_sweep(_metadata, &self->e, variant, &failed);
		fired = n - 1;
	}
	EXPECT_GT(FAIL_MOST, n);
	/* Who finds nothing to fail has tested nothing. */
	EXPECT_TRUE(variant->calm || fired);
	TH_LOG("%u points, of which %u fail the call", n - 1, failed);
}

/* --- last: what was forgotten on the way */

FIXTURE(leaks)
{
};

FIXTURE_SETUP(leaks)
{
}

FIXTURE_TEARDOWN(leaks)
{
}

TEST_F_TIMEOUT(leaks, none, 120)
{
	int leaks = fail_leaks();

	if (leaks < 0)
		SKIP(return, "the kernel does not look for lost objects");
	EXPECT_EQ(0, leaks);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], PEER_WORD))
		return peer_main();
	return test_harness_run(argc, argv);
}
