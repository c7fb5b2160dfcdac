// SPDX-License-Identifier: GPL-2.0
/*
 * Programs of the CUDA API that are killed in the middle of a call.  common/kill_util.h has the
 * method; t_kill kills programs that call the kernel without the library.
 */
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "kselftest_harness.h"
#include "cuda_util.h"
#include "common/kill_util.h"

#define MUST_CU(call) do {							\
	CUresult result_ = (call);						\
										\
	if (result_) {								\
		fprintf(stderr, "# %s: %s: %d\n", __func__, #call, result_);	\
		return 1;							\
	}									\
} while (0)

#include "kill_vmm.h"

static int in_alloc(struct scene *sc)
{
	CUcontext ctx;
	CUdeviceptr p;

	MUST_CU(cuda_start(&ctx));
	ready(sc);
	for (;;) {
		MUST_CU(CALL(sc, cuMemAlloc(&p, sc->bytes)));
		MUST_CU(cuMemFree(p));
	}
}

/* Tiles of an array get memory and lose it, in the order of a stream. */
static int in_map_array(struct scene *sc)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
		.allocFlags = { .usage = CU_MEM_CREATE_USAGE_TILE_POOL },
	};
	const CUDA_ARRAY3D_DESCRIPTOR d = {
		.Width = 8192, .Height = sc->bytes / 8192, .Format = CU_AD_FORMAT_UNSIGNED_INT8,
		.NumChannels = 1, .Flags = CUDA_ARRAY3D_SPARSE,
	};
	CUmemGenericAllocationHandle h;
	CUcontext ctx;
	CUarray a;

	MUST_CU(cuda_start(&ctx));
	ready(sc);
	for (;;) {
		CUarrayMapInfo info = {
			.resourceType = CU_RESOURCE_TYPE_ARRAY,
			.subresource = { .sparseLevel = {
				.extentWidth = d.Width, .extentHeight = d.Height, .extentDepth = 1,
			} },
			.memOperationType = CU_MEM_OPERATION_TYPE_MAP, .deviceBitMask = 1,
		};

		MUST_CU(cuMemCreate(&h, sc->bytes, &prop, 0));
		MUST_CU(cuArray3DCreate(&a, &d));
		info.resource.array = a;
		info.memHandle.memHandle = h;
		MUST_CU(CALL(sc, cuMemMapArrayAsync(&info, 1, NULL)));
		MUST_CU(cuMemRelease(h));
		info.memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
		info.memHandle.memHandle = 0;
		MUST_CU(CALL(sc, cuMemMapArrayAsync(&info, 1, NULL)));
		MUST_CU(CALL(sc, cuArrayDestroy(a)));
	}
}

static void CUDA_CB rest(void *arg)
{
	CALL((struct scene *)arg, usleep(2000));
}

/* Work of its own stream and of another waits for the function. */
static int in_function(struct scene *sc)
{
	CUcontext ctx;
	CUdeviceptr p;
	CUstream s, t;
	CUevent event;

	MUST_CU(cuda_start(&ctx));
	MUST_CU(cuMemAlloc(&p, sc->bytes));
	MUST_CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	MUST_CU(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
	MUST_CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	ready(sc);
	for (;;) {
		MUST_CU(cuLaunchHostFunc(s, rest, sc));
		MUST_CU(cuMemsetD8Async(p, 1, sc->bytes, s));
		MUST_CU(cuEventRecord(event, s));
		MUST_CU(cuStreamWaitEvent(t, event, 0));
		MUST_CU(cuMemsetD8Async(p, 2, sc->bytes, t));
		MUST_CU(cuStreamSynchronize(t));
	}
}

static int in_host_alloc(struct scene *sc)
{
	CUcontext ctx;
	void *p;

	MUST_CU(cuda_start(&ctx));
	ready(sc);
	for (;;) {
		MUST_CU(CALL(sc, cuMemHostAlloc(&p, sc->bytes, 0)));
		MUST_CU(cuMemFreeHost(p));
	}
}

static int in_register(struct scene *sc)
{
	void *p = mmap(NULL, sc->bytes, RW, ANON, -1, 0);
	CUcontext ctx;

	if (p == MAP_FAILED)
		return 1;
	MUST_CU(cuda_start(&ctx));
	ready(sc);
	for (;;) {
		MUST_CU(CALL(sc, cuMemHostRegister(p, sc->bytes, 0)));
		MUST_CU(cuMemHostUnregister(p));
		if (madvise(p, sc->bytes, MADV_DONTNEED))
			return 1;
	}
}

/* Copy from and to memory that is not registered, through the library's staging memory. */
static int in_copy(struct scene *sc)
{
	unsigned char *p = malloc(sc->bytes);
	CUcontext ctx;
	CUdeviceptr d;

	MUST_CU(cuda_start(&ctx));
	MUST_CU(cuMemAlloc(&d, sc->bytes));
	ready(sc);
	for (;;) {
		MUST_CU(CALL(sc, cuMemcpyHtoD(d, p, sc->bytes)));
		MUST_CU(CALL(sc, cuMemcpyDtoH(p, d, sc->bytes)));
	}
}

/* Queue work that takes a while, and wait for it in one of these ways. */
enum { ON_STREAM, ON_CONTEXT, ON_EVENT, ON_FREE };

static int wait_for_work(struct scene *sc, int how)
{
	CUcontext ctx;
	CUstream stream;
	CUevent event;
	CUdeviceptr p, q;

	MUST_CU(cuda_start(&ctx));
	MUST_CU(cuMemAlloc(&p, sc->bytes));
	MUST_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST_CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	ready(sc);
	for (;;) {
		MUST_CU(cuMemAlloc(&q, sc->bytes));
		for (unsigned int i = 0; i < 100; i++)
			MUST_CU(cuMemcpyDtoDAsync(i % 2 ? p : q, i % 2 ? q : p, sc->bytes,
						  stream));
		MUST_CU(cuEventRecord(event, stream));
		if (how == ON_STREAM)
			MUST_CU(CALL(sc, cuStreamSynchronize(stream)));
		if (how == ON_CONTEXT)
			MUST_CU(CALL(sc, cuCtxSynchronize()));
		if (how == ON_EVENT)
			MUST_CU(CALL(sc, cuEventSynchronize(event)));
		MUST_CU(how == ON_FREE ? CALL(sc, cuMemFree(q)) : cuMemFree(q));
	}
}

static int in_stream_synchronize(struct scene *sc)
{
	return wait_for_work(sc, ON_STREAM);
}

static int in_ctx_synchronize(struct scene *sc)
{
	return wait_for_work(sc, ON_CONTEXT);
}

static int in_event_synchronize(struct scene *sc)
{
	return wait_for_work(sc, ON_EVENT);
}

static int in_free(struct scene *sc)
{
	return wait_for_work(sc, ON_FREE);
}

static int in_init(struct scene *sc)
{
	CUcontext ctx;

	ready(sc);
	sc->entered++;
	MUST_CU(cuda_start(&ctx));
	for (;;) {
		MUST_CU(cuDevicePrimaryCtxRelease(0));
		MUST_CU(cuDevicePrimaryCtxRetain(&ctx, 0));
		MUST_CU(cuCtxSetCurrent(ctx));
	}
}

/* Another process opens the memory of one that is killed, over and over. */
static int exporter(struct scene *sc)
{
	CUcontext ctx;
	CUdeviceptr p;

	_Static_assert(sizeof(CUipcMemHandle) <= sizeof(sc->message), "room for a handle");
	MUST_CU(cuda_start(&ctx));
	MUST_CU(cuMemAlloc(&p, sc->bytes));
	MUST_CU(cuIpcGetMemHandle((CUipcMemHandle *)sc->message, p));
	ready(sc);
	CALL(sc, pause());
	return 1;
}

static int in_ipc_open(struct scene *sc)
{
	CUipcMemHandle handle;
	CUcontext ctx;
	CUdeviceptr p;

	memcpy(&handle, sc->message, sizeof(handle));
	MUST_CU(cuda_start(&ctx));
	ready(sc);
	for (;;) {
		CUresult result = CALL(sc, cuIpcOpenMemHandle(&p, handle,
					CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));

		/* The exporter is gone: report the error, and do nothing more. */
		if (result) {
			sc->go = result;
			CALL(sc, pause());
		}
		MUST_CU(cuMemsetD8(p, 1, sc->bytes));
		MUST_CU(cuCtxSynchronize());
		MUST_CU(cuIpcCloseMemHandle(p));
	}
}

/* --- pools */

#define POSIX	CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define FABRIC	CU_MEM_HANDLE_TYPE_FABRIC

static CUresult pool_make(CUmemoryPool *pool, int types)
{
	const CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .handleTypes = types,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};

	return cuMemPoolCreate(pool, &props);
}

/* Have the pool make chunks, reuse them and give them back. */
static int in_pool_alloc(struct scene *sc)
{
	CUmemoryPool pool;
	CUstream stream;
	CUcontext ctx;
	CUdeviceptr p, q;

	MUST_CU(cuda_start(&ctx));
	MUST_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST_CU(pool_make(&pool, 0));
	ready(sc);
	for (;;) {
		MUST_CU(CALL(sc, cuMemAllocFromPoolAsync(&p, sc->bytes, pool, stream)));
		MUST_CU(cuMemAllocFromPoolAsync(&q, 4096, pool, stream));
		MUST_CU(cuMemsetD8Async(p, 1, sc->bytes, stream));
		MUST_CU(cuMemFreeAsync(p, stream));
		MUST_CU(cuMemFreeAsync(q, stream));
		MUST_CU(cuStreamSynchronize(stream));
		MUST_CU(cuMemPoolTrimTo(pool, 0));
	}
}

/* Destroy a pool while its freed blocks are pending. */
static int in_pool_destroy(struct scene *sc)
{
	CUmemoryPool pool;
	CUstream stream;
	CUcontext ctx;
	CUdeviceptr p;

	MUST_CU(cuda_start(&ctx));
	MUST_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ready(sc);
	for (;;) {
		MUST_CU(pool_make(&pool, 0));
		MUST_CU(cuMemAllocFromPoolAsync(&p, sc->bytes, pool, stream));
		MUST_CU(cuMemsetD8Async(p, 1, sc->bytes, stream));
		MUST_CU(cuMemFreeAsync(p, stream));
		MUST_CU(CALL(sc, cuMemPoolDestroy(pool)));
	}
}

/* The bytes that the exporter sends the importer; both must hold the same channel to use them. */
struct offer {
	CUmemFabricHandle pool;
	CUmemPoolPtrExportData data;
};

/* Make a channel file in the directory where the library looks for it. */
static bool channel_file(void)
{
	char line[128], path[64];
	FILE *f = fopen("/proc/devices", "re");
	int major = -1, n;
	char name[64];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%d %63s", &n, name) == 2 && !strcmp(name, GPUMEM_CHANNELS_NAME))
			major = n;
	if (f)
		fclose(f);
	if (major < 0)
		return false;
	mkdir("/dev/" GPUMEM_CHANNELS_NAME, 0755);
	snprintf(path, sizeof(path), "/dev/%s/channel0", GPUMEM_CHANNELS_NAME);
	return !mknod(path, S_IFCHR | 0600, makedev(major, 0)) || errno == EEXIST;
}

static void channel_file_gone(void)
{
	unlink("/dev/" GPUMEM_CHANNELS_NAME "/channel0");
	rmdir("/dev/" GPUMEM_CHANNELS_NAME);
}

static int pool_exporter(struct scene *sc)
{
	struct offer *offer = (struct offer *)sc->message;
	CUmemoryPool pool;
	CUstream stream;
	CUcontext ctx;
	CUdeviceptr p;

	_Static_assert(sizeof(*offer) <= sizeof(sc->message), "room for an offer");
	MUST_CU(cuda_start(&ctx));
	MUST_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST_CU(pool_make(&pool, FABRIC));
	MUST_CU(cuMemAllocFromPoolAsync(&p, sc->bytes, pool, stream));
	MUST_CU(cuMemPoolExportToShareableHandle(&offer->pool, pool, FABRIC, 0));
	MUST_CU(cuMemPoolExportPointer(&offer->data, p));
	ready(sc);
	/* Allocate from the pool until the process is killed. */
	for (;;) {
		MUST_CU(CALL(sc, cuMemAllocFromPoolAsync(&p, sc->bytes, pool, stream)));
		MUST_CU(cuMemsetD8Async(p, 1, sc->bytes, stream));
		MUST_CU(cuMemFreeAsync(p, stream));
		MUST_CU(cuStreamSynchronize(stream));
	}
}

static int in_pool_import(struct scene *sc)
{
	const struct offer *offer = (const struct offer *)sc->message;
	CUmemFabricHandle handle = offer->pool;
	CUmemPoolPtrExportData data = offer->data;
	CUmemoryPool pool;
	CUcontext ctx;
	CUdeviceptr p;

	MUST_CU(cuda_start(&ctx));
	ready(sc);
	for (;;) {
		CUresult result = CALL(sc, cuMemPoolImportFromShareableHandle(&pool, &handle,
									      FABRIC, 0));

		if (!result)
			result = CALL(sc, cuMemPoolImportPointer(&p, pool, &data));
		/* The exporter is gone: report the error, and do nothing more. */
		if (result) {
			sc->go = result;
			CALL(sc, pause());
		}
		MUST_CU(cuMemsetD8(p, 1, sc->bytes));
		MUST_CU(cuMemFree(p));
		MUST_CU(cuMemPoolDestroy(pool));
	}
}

FIXTURE(cuda_state)
{
	struct scene *sc;
	struct figures before;
};

FIXTURE_VARIANT(cuda_state)
{
	scene_fn fn;
	__u64 bytes;
	unsigned int rounds, max_us;
};

#define STATE(name, ...) FIXTURE_VARIANT_ADD(cuda_state, name) { __VA_ARGS__ }
STATE(init, in_init, 0, 6, 20000);
STATE(alloc, in_alloc, 32 * MIB, 4, 40000);
STATE(map_array, in_map_array, 16 * MIB, 4, 40000);
STATE(host_alloc, in_host_alloc, 32 * MIB, 4, 40000);
STATE(host_register, in_register, 32 * MIB, 4, 60000);
STATE(copy, in_copy, 8 * MIB, 4, 40000);
STATE(stream_synchronize, in_stream_synchronize, 4 * MIB, 4, 40000);
STATE(ctx_synchronize, in_ctx_synchronize, 4 * MIB, 4, 40000);
STATE(event_synchronize, in_event_synchronize, 4 * MIB, 4, 40000);
STATE(free, in_free, 4 * MIB, 4, 40000);
STATE(host_function, in_function, 4 * MIB, 4, 40000);
STATE(vmm, in_vmm, 4 * MIB, 4, 40000);
STATE(vmm_rights, in_vmm_rights, 4 * MIB, 4, 40000);
STATE(vmm_export, in_vmm_export, 4 * MIB, 4, 40000);
STATE(external, in_external, 4 * MIB, 4, 40000);
STATE(external_semaphore, in_external_semaphore, 0, 4, 40000);
STATE(pool_alloc, in_pool_alloc, 16 * MIB, 4, 40000);
STATE(pool_destroy, in_pool_destroy, 4 * MIB, 4, 40000);

FIXTURE_SETUP(cuda_state)
{
	ASSERT_TRUE(dev_quiet(10));
	self->sc = scene_new();
	ASSERT_NE(NULL, self->sc);
	figures_read(&self->before);
	ASSERT_TRUE(figures_good(&self->before));
}

FIXTURE_TEARDOWN(cuda_state)
{
	EXPECT_TRUE(dev_quiet(10));
}

/* Wait until the child is in the call, for 0.2 s at most. */
static void wait_for_call(const struct scene *sc)
{
	__u64 end = mono_ns() + NSEC / 5;

	while (__atomic_load_n(&sc->entered, __ATOMIC_ACQUIRE) ==
	       __atomic_load_n(&sc->left, __ATOMIC_ACQUIRE) && mono_ns() < end)
		;
}

TEST_F_TIMEOUT(cuda_state, leaves_nothing, 3000)
{
	unsigned int rounds = kills(variant->rounds), in = 0, n;
	struct rng r;

	rng_start(&r, "kill");
	for (n = 0; n < rounds || (!in && n < rounds + 300); n++) {
		pid_t pid;

		self->sc->bytes = variant->bytes;
		pid = scene_start(self->sc, variant->fn);
		ASSERT_LT(0, pid);
		nap_us(rng_below(&r, variant->max_us));
		/* The random delays have not hit the call, which is short. */
		if (n >= rounds)
			wait_for_call(self->sc);
		EXPECT_EQ(-SIGKILL, kill_child(pid));
		in += self->sc->entered != self->sc->left;
		ASSERT_TRUE(dev_quiet(15));
	}
	EXPECT_TRUE(settled(&self->before));
	EXPECT_LT(0, in);
	printf("# %u of %u were in the call\n", in, n);
	fflush(stdout);
}

/* A process that exports, and one that imports what it exports. */
struct couple {
	struct scene *maker, *taker;
	struct figures before;
};

static bool couple_make(struct couple *c)
{
	c->maker = scene_new();
	c->taker = scene_new();
	if (!c->maker || !c->taker)
		return false;
	figures_read(&c->before);
	return figures_good(&c->before);
}

/* Kills importers one after another, and then the exporter while an importer uses its memory. */
static void either_is_killed(struct __test_metadata *_metadata, struct couple *c, scene_fn export,
			     scene_fn import)
{
	pid_t maker, taker;
	struct rng r;

	rng_start(&r, "kill");
	for (unsigned int n = kills(2); n; n--) {
		__u64 end = in_seconds(20);

		c->maker->bytes = 2 * MIB;
		maker = scene_start(c->maker, export);
		ASSERT_LT(0, maker);
		c->taker->bytes = 2 * MIB;
		memcpy(c->taker->message, c->maker->message, sizeof(c->maker->message));
		for (int i = 0; i < 3; i++) {
			taker = scene_start(c->taker, import);
			ASSERT_LT(0, taker);
			nap_us(rng_below(&r, 20000));
			EXPECT_EQ(-SIGKILL, kill_child(taker));
			EXPECT_TRUE(dev_attr_becomes(0, "views", 0, 15));
			EXPECT_EQ(1, dev_attr(0, "clients"));
		}
		taker = scene_start(c->taker, import);
		ASSERT_LT(0, taker);
		nap_us(rng_below(&r, 20000));
		EXPECT_EQ(-SIGKILL, kill_child(maker));
		while (!c->taker->go && mono_ns() < end)
			nap_us(500);
		EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, (CUresult)c->taker->go);
		EXPECT_EQ(-SIGKILL, kill_child(taker));
		EXPECT_TRUE(settled(&c->before));
	}
}

FIXTURE(cuda_ipc)
{
	struct couple couple;
};

FIXTURE_SETUP(cuda_ipc)
{
	ASSERT_TRUE(dev_quiet(10));
	ASSERT_TRUE(couple_make(&self->couple));
}

QUIET_AFTER_KILLS(cuda_ipc)

/* The importer is killed while it opens, then the exporter while another importer opens. */
TEST_F_TIMEOUT(cuda_ipc, either_is_killed, 3000)
{
	either_is_killed(_metadata, &self->couple, exporter, in_ipc_open);
}

FIXTURE(cuda_vmm)
{
	struct couple couple;
};

FIXTURE_SETUP(cuda_vmm)
{
	ASSERT_TRUE(dev_quiet(10));
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, vmm_sock));
	ASSERT_TRUE(couple_make(&self->couple));
}

QUIET_AFTER_KILLS(cuda_vmm)

/*
 * Importers of a handle and of a semaphore are killed, then the exporter.  The last importer keeps
 * the memory, and its wait for the semaphore fails.
 */
TEST_F_TIMEOUT(cuda_vmm, either_is_killed, 3000)
{
	struct couple *c = &self->couple;
	pid_t maker, taker;
	struct rng r;

	rng_start(&r, "kill");
	for (unsigned int n = kills(2); n; n--) {
		__u64 end = in_seconds(20);

		c->maker->bytes = 4 * MIB;
		c->taker->bytes = 4 * MIB;
		maker = scene_start(c->maker, vmm_maker);
		ASSERT_LT(0, maker);
		for (int i = 0; i < VMM_TAKERS - 1; i++) {
			taker = scene_start(c->taker, vmm_taker);
			ASSERT_LT(0, taker);
			nap_us(rng_below(&r, 20000));
			EXPECT_EQ(-SIGKILL, kill_child(taker));
			EXPECT_TRUE(dev_attr_becomes(0, "views", 0, 15));
			EXPECT_EQ(1, dev_attr(0, "clients"));
		}
		taker = scene_start(c->taker, vmm_taker);
		ASSERT_LT(0, taker);
		nap_us(rng_below(&r, 20000));
		EXPECT_EQ(-SIGKILL, kill_child(maker));
		while (!c->taker->go && mono_ns() < end)
			nap_us(500);
		EXPECT_EQ(CUDA_ERROR_LAUNCH_FAILED, (CUresult)c->taker->go);
		EXPECT_LE(4 * (long long)MIB, dev_attr(0, "used"));
		EXPECT_EQ(-SIGKILL, kill_child(taker));
		EXPECT_TRUE(settled(&c->before));
	}
}

FIXTURE(cuda_pool)
{
	struct couple couple;
};

FIXTURE_SETUP(cuda_pool)
{
	ASSERT_TRUE(dev_quiet(10));
	if (!channel_file())
		SKIP(return, "channel files can be made by root alone");
	ASSERT_TRUE(couple_make(&self->couple));
}

FIXTURE_TEARDOWN(cuda_pool)
{
	channel_file_gone();
	EXPECT_TRUE(dev_quiet(10));
}

/* Both hold the channel, and the exporter allocates while the importer is killed. */
TEST_F_TIMEOUT(cuda_pool, either_is_killed, 3000)
{
	either_is_killed(_metadata, &self->couple, pool_exporter, in_pool_import);
}

TEST_HARNESS_MAIN
