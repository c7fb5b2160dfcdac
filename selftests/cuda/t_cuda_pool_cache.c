// SPDX-License-Identifier: GPL-2.0
/*
 * Tests the cache of pools: chunks above a pool's release threshold that the library keeps for the
 * next allocation, although they do not count as reserved.  The only visible difference is fewer
 * system calls; no request is refused because of cached memory.
 */
#include <linux/prctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "cuda_case_util.h"

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH	59
#define PR_SYS_DISPATCH_OFF		0
#define PR_SYS_DISPATCH_ON		1
#define SYSCALL_DISPATCH_FILTER_ALLOW	0
#define SYSCALL_DISPATCH_FILTER_BLOCK	1
#endif

FIXTURE(cache)
{
	CUcontext ctx;
	CUstream s;
	CUmemoryPool pool;
	size_t left, total;
};

static CUresult pool_of(CUmemoryPool *pool, int location, int handles, size_t most)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { .type = location },
		.handleTypes = handles, .maxSize = most,
	};

	return cuMemPoolCreate(pool, &props);
}

static __u64 cached(void)
{
	struct gpumem_stats stats;

	return client_stats(&stats) ? ~0ull : stats.pool_cached;
}

FIXTURE_SETUP(cache)
{
	cuda_begin(_metadata, &self->ctx);
	ASSERT_CU(cuStreamCreate(&self->s, CU_STREAM_NON_BLOCKING));
	/* The threshold stays 0. */
	ASSERT_CU(pool_of(&self->pool, CU_MEM_LOCATION_TYPE_DEVICE, 0, 0));
	ASSERT_CU(cuMemGetInfo(&self->left, &self->total));
}

QUIET_AFTERWARDS(cache)

/* One round: blocks that share a chunk, and some that have one of their own. */
static CUresult round_trip(CUmemoryPool pool, CUstream s)
{
	static const size_t sizes[] = { 512, 5000, 64 * KIB, MIB, 3 * MIB, 4 * MIB + 1 };
	CUdeviceptr p[ARRAY_SIZE(sizes)];
	CUresult result = CUDA_SUCCESS;

	for (unsigned int i = 0; !result && i < ARRAY_SIZE(sizes); i++)
		result = cuMemAllocFromPoolAsync(&p[i], sizes[i], pool, s);
	for (unsigned int i = 0; !result && i < ARRAY_SIZE(sizes); i++)
		result = cuMemFreeAsync(p[i], s);
	return result ? result : cuStreamSynchronize(s);
}

static char selector;
static int made;

static void system_call(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	selector = SYSCALL_DISPATCH_FILTER_ALLOW;
	made = info->si_syscall;
}

/* The first system call that the rounds make; -1: none; -2: the kernel cannot show it. */
static int calls_of(CUmemoryPool pool, CUstream s, int rounds, CUresult *result)
{
	struct sigaction action = { .sa_sigaction = system_call, .sa_flags = SA_SIGINFO };

	made = -1;
	if (sigaction(SIGSYS, &action, NULL) ||
	    prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &selector))
		return -2;
	selector = SYSCALL_DISPATCH_FILTER_BLOCK;
	for (*result = CUDA_SUCCESS; !*result && made < 0 && rounds; rounds--)
		*result = round_trip(pool, s);
	selector = SYSCALL_DISPATCH_FILTER_ALLOW;
	prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0);
	return made;
}

/* Allocate, free and synchronise with the threshold at 0, without a system call. */
TEST_F(cache, no_system_call)
{
	struct gpumem_stats stats;
	cuuint64_t high, zero = 0;
	CUresult result;
	size_t left;
	int call;

	for (int i = 0; i < 3; i++)
		ASSERT_CU(round_trip(self->pool, self->s));
	high = POOL_RESERVED_HIGH(self->pool);
	EXPECT_LT(8 * MIB, high);
	call = calls_of(self->pool, self->s, 100, &result);
	if (call == -2)
		SKIP(return, "the kernel does not tell of system calls");
	EXPECT_EQ(-1, call);
	EXPECT_CU(result);
	/* All counters but pool_cached read as if the memory had gone back to the kernel. */
	EXPECT_EQ(0, POOL_RESERVED(self->pool));
	EXPECT_EQ(high, POOL_RESERVED_HIGH(self->pool));
	ASSERT_CU(cuMemGetInfo(&left, NULL));
	EXPECT_EQ(self->left, left);
	ASSERT_EQ(0, client_stats(&stats));
	EXPECT_EQ(0, stats.pool_reserved);
	EXPECT_EQ(high, stats.pool_cached);
	/* The high-water mark rises although the kernel allocates nothing. */
	ASSERT_CU(cuMemPoolSetAttribute(self->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero));
	EXPECT_EQ(0, POOL_RESERVED_HIGH(self->pool));
	ASSERT_CU(round_trip(self->pool, self->s));
	EXPECT_EQ(high, POOL_RESERVED_HIGH(self->pool));
	EXPECT_EQ(0, POOL_RESERVED(self->pool));
}

/* Trimming or destroying a pool gives its cached memory back, too. */
TEST_F(cache, trim)
{
	ASSERT_CU(round_trip(self->pool, self->s));
	EXPECT_LT(0, cached());
	ASSERT_CU(cuMemPoolTrimTo(self->pool, 0));
	EXPECT_EQ(0, cached());
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 5));
	ASSERT_CU(round_trip(self->pool, self->s));
	EXPECT_LT(0, cached());
	ASSERT_CU(cuMemPoolDestroy(self->pool));
	EXPECT_EQ(0, cached());
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 5));
}

/*
 * The library gives cached memory back before an allocation of this process fails: an allocation
 * from another pool, from a pool with a limit, or from no pool.
 */
TEST_F(cache, own_memory_first)
{
	size_t part = self->left / 8 & ~(2 * MIB - 1);
	CUmemoryPool other, limited;
	CUdeviceptr p;

	ASSERT_CU(pool_of(&other, CU_MEM_LOCATION_TYPE_DEVICE, 0, 0));
	ASSERT_CU(pool_of(&limited, CU_MEM_LOCATION_TYPE_DEVICE, 0, 4 * MIB));
	ASSERT_CU(pool_use(self->pool, self->s, part));
	EXPECT_EQ(part, cached());
	ASSERT_CU(cuMemAllocFromPoolAsync(&p, self->left - 4 * MIB, other, self->s));
	EXPECT_EQ(0, cached());
	ASSERT_CU(cuMemFreeAsync(p, self->s));
	ASSERT_CU(cuStreamSynchronize(self->s));
	ASSERT_CU(pool_use(self->pool, self->s, part));
	EXPECT_EQ(part, cached());
	ASSERT_CU(cuMemAlloc(&p, self->left - 4 * MIB));
	EXPECT_EQ(0, cached());
	ASSERT_CU(cuMemFree(p));
	/* Cached memory counts for the kernel's limit, and is released when the limit needs it. */
	ASSERT_CU(pool_use(limited, self->s, 3 * MIB));
	EXPECT_EQ(3 * MIB, cached());
	ASSERT_CU(pool_use(limited, self->s, 4 * MIB));
	EXPECT_EQ(4 * MIB, cached());
	ASSERT_CU(pool_use(limited, self->s, 2 * MIB));
	EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, pool_use(limited, self->s, 5 * MIB));
}

/* The main function of another process, which allocates all of the device. */
static int greedy(void *arg)
{
	size_t left, total;
	CUcontext ctx;
	CUdeviceptr p;

	(void)arg;
	if (cuda_start(&ctx) || cuMemGetInfo(&left, &total))
		return 1;
	return cuMemAlloc(&p, left & ~(2 * MIB - 1)) ? 2 : 0;
}

/* Another process gets the cached memory when it allocates; the pool works on and caches again. */
TEST_F(cache, others_memory_first)
{
	pid_t pid;

	ASSERT_CU(pool_use(self->pool, self->s, 8 * MIB));
	EXPECT_EQ(8 * MIB, cached());
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		/* A forked child cannot use the library; a new program can. */
		execl("/proc/self/exe", "greedy", (char *)NULL);
		_exit(126);
	}
	EXPECT_EQ(0, end_child(pid));
	EXPECT_EQ(0, cached());
	EXPECT_EQ(0, POOL_RESERVED(self->pool));
	for (int i = 0; i < 3; i++)
		ASSERT_CU(pool_use(self->pool, self->s, 8 * MIB));
	EXPECT_EQ(8 * MIB, cached());
}

/* Other processes may reach a chunk that was exported, so it goes back to the kernel. */
TEST_F(cache, not_what_was_exported)
{
	CUmemPoolPtrExportData data;
	CUmemoryPool shared;
	CUdeviceptr p;

	ASSERT_CU(pool_of(&shared, CU_MEM_LOCATION_TYPE_DEVICE,
			    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	ASSERT_CU(pool_use(shared, self->s, 2 * MIB));
	EXPECT_EQ(2 * MIB, cached());
	ASSERT_CU(cuMemAllocFromPoolAsync(&p, 2 * MIB, shared, self->s));
	ASSERT_CU(cuMemPoolExportPointer(&data, p));
	ASSERT_CU(cuMemFreeAsync(p, self->s));
	ASSERT_CU(cuStreamSynchronize(self->s));
	EXPECT_EQ(0, cached());
	EXPECT_EQ(0, POOL_RESERVED(shared));
}

/* A pool caches 64 chunks and a quarter of the device at most; pools of host memory cache, too. */
TEST_F(cache, bounded)
{
	CUmemoryPool host;

	ASSERT_CU(pool_use(self->pool, self->s, self->total / 4 + 2 * MIB));
	EXPECT_EQ(0, cached());
	for (int i = 1; i <= 40; i++)
		ASSERT_CU(pool_use(self->pool, self->s, i * 512 * KIB));
	EXPECT_GE(self->total / 4, cached());
	EXPECT_LT(0, cached());
	ASSERT_CU(cuMemPoolTrimTo(self->pool, 0));
	/* Many different sizes leave 64 chunks at most. */
	for (int i = 1; i <= 100; i++)
		ASSERT_CU(pool_use(self->pool, self->s, 300 * KIB + i * 4 * KIB));
	EXPECT_GE(64 * (300 + 400) * KIB, cached());
	ASSERT_CU(cuMemPoolTrimTo(self->pool, 0));
	ASSERT_CU(pool_of(&host, CU_MEM_LOCATION_TYPE_HOST, 0, 0));
	ASSERT_CU(pool_use(host, self->s, 3 * MIB));
	EXPECT_EQ(3 * MIB, cached());
	EXPECT_EQ(0, POOL_RESERVED(host));
	ASSERT_CU(cuMemPoolDestroy(host));
	EXPECT_EQ(0, cached());
}

/* --- what the description of cuMemPoolCreate() says, sentence by sentence */

QUIET_FIXTURE(create)

/* Each of the calls, in a process that has not called cuInit(). */
TEST_F(create, not_initialized)
{
	const CUresult not = CUDA_ERROR_NOT_INITIALIZED;
	CUmemLocation location = { .type = CU_MEM_LOCATION_TYPE_DEVICE };
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = location };
	CUmemAccessDesc access = { .location = location };
	CUmemPoolPtrExportData data;
	CUmemAccess_flags flags;
	CUmemoryPool pool = NULL;
	cuuint64_t value = 0;
	CUdeviceptr p = 0;
	int fd = -1;

	EXPECT_EQ(not, cuMemPoolCreate(&pool, &props));
	EXPECT_EQ(not, cuMemPoolDestroy(pool));
	EXPECT_EQ(not, cuMemPoolTrimTo(pool, 0));
	EXPECT_EQ(not, cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value));
	EXPECT_EQ(not, cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value));
	EXPECT_EQ(not, cuMemPoolGetAccess(&flags, pool, &location));
	EXPECT_EQ(not, cuMemPoolSetAccess(pool, &access, 1));
	EXPECT_EQ(not, cuMemPoolExportToShareableHandle(&fd, pool, 1, 0));
	EXPECT_EQ(not, cuMemPoolImportFromShareableHandle(&pool, NULL, 1, 0));
	EXPECT_EQ(not, cuMemPoolExportPointer(&data, p));
	EXPECT_EQ(not, cuMemPoolImportPointer(&p, pool, &data));
	EXPECT_EQ(not, cuDeviceGetDefaultMemPool(&pool, 0));
	EXPECT_EQ(not, cuDeviceGetMemPool(&pool, 0));
	EXPECT_EQ(not, cuDeviceSetMemPool(0, pool));
	EXPECT_EQ(not, cuMemGetDefaultMemPool(&pool, &location, CU_MEM_ALLOCATION_TYPE_PINNED));
	EXPECT_EQ(not, cuMemGetMemPool(&pool, &location, CU_MEM_ALLOCATION_TYPE_PINNED));
	EXPECT_EQ(not, cuMemSetMemPool(&location, CU_MEM_ALLOCATION_TYPE_PINNED, pool));
	EXPECT_EQ(not, cuMemAllocAsync(&p, 1, 0));
	EXPECT_EQ(not, cuMemAllocFromPoolAsync(&p, 1, pool, 0));
	EXPECT_EQ(not, cuMemFreeAsync(p, 0));
}

static CUresult made_with(int alloc, int where, int id, int handles, size_t most, int usage)
{
	CUmemPoolProps props = {
		.allocType = alloc, .location = { .type = where, .id = id },
		.handleTypes = handles, .maxSize = most, .usage = usage,
	};
	CUmemoryPool pool;
	CUresult result = cuMemPoolCreate(&pool, &props);

	return result ? result : cuMemPoolDestroy(pool);
}

TEST_F(create, rules)
{
	const int pinned = CU_MEM_ALLOCATION_TYPE_PINNED, fd = 1;
	const int managed = CU_MEM_ALLOCATION_TYPE_MANAGED;
	const int device = CU_MEM_LOCATION_TYPE_DEVICE, host = CU_MEM_LOCATION_TYPE_HOST;
	const int numa = CU_MEM_LOCATION_TYPE_HOST_NUMA;
	CUmemLocation own = { .type = device }, cpu = { .type = host };
	CUmemPoolProps props = { .allocType = pinned, .location = own };
	CUmemAccess_flags flags;
	CUmemoryPool pool;
	CUcontext ctx;
	char *reserved;

	ASSERT_CU(cuda_start(&ctx));
	/* The id of HOST is ignored; such pools are not IPC capable. */
	EXPECT_CU(made_with(pinned, host, 0, 0, 0, 0));
	EXPECT_CU(made_with(pinned, host, -5, 0, 0, 0));
	EXPECT_CU(made_with(pinned, host, 77, 0, 0, 0));
	for (int types = 1; types < 32; types++)
		EXPECT_EQ(INVALID, made_with(pinned, host, 0, types, 0, 0));
	/* HOST_NUMA needs an existing node, and may be shared; NUMA_CURRENT is refused. */
	EXPECT_CU(made_with(pinned, numa, 0, 0, 0, 0));
	EXPECT_CU(made_with(pinned, numa, 0, fd, 0, 0));
	EXPECT_EQ(INVALID, made_with(pinned, numa, 1023, 0, 0, 0));
	EXPECT_EQ(INVALID, made_with(pinned, numa, -1, 0, 0, 0));
	EXPECT_EQ(INVALID, made_with(pinned, CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0, 0, 0, 0));
	EXPECT_EQ(INVALID, made_with(managed, CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0, 0, 0, 0));
	/* Locations that cannot hold pinned memory. */
	EXPECT_EQ(INVALID, made_with(pinned, CU_MEM_LOCATION_TYPE_NONE, 0, 0, 0, 0));
	EXPECT_EQ(INVALID, made_with(pinned, device, -1, 0, 0, 0));
	EXPECT_EQ(INVALID, made_with(pinned, device, 99, 0, 0, 0));
	/* The default access to a pool. */
	ASSERT_CU(cuMemPoolCreate(&pool, &props));
	EXPECT_CU(cuMemPoolGetAccess(&flags, pool, &own));
	EXPECT_EQ(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, flags);
	EXPECT_CU(cuMemPoolGetAccess(&flags, pool, &cpu));
	EXPECT_EQ(CU_MEM_ACCESS_FLAGS_PROT_NONE, flags);
	EXPECT_CU(cuMemPoolDestroy(pool));
	/* maxSize 0 means the system's limit.  The case "limit" tests other limits. */
	EXPECT_CU(made_with(pinned, device, 0, 0, 0, 0));
	EXPECT_CU(made_with(pinned, device, 0, 0, 1, 0));
	/* A process without a channel cannot use handles of a fabric. */
	if (access("/dev/gpumem-channels", F_OK))
		EXPECT_EQ(CUDA_ERROR_NOT_PERMITTED,
			  made_with(pinned, device, 0, CU_MEM_HANDLE_TYPE_FABRIC, 0, 0));
	/* Managed memory may be at any location or at NONE; no IPC, no limit, no usage. */
	EXPECT_CU(made_with(managed, device, 0, 0, 0, 0));
	EXPECT_CU(made_with(managed, host, 0, 0, 0, 0));
	EXPECT_CU(made_with(managed, numa, 0, 0, 0, 0));
	EXPECT_EQ(INVALID, made_with(managed, numa, 1023, 0, 0, 0));
	EXPECT_CU(made_with(managed, CU_MEM_LOCATION_TYPE_NONE, 0, 0, 0, 0));
	for (int types = 1; types < 32; types++)
		EXPECT_EQ(INVALID, made_with(managed, device, 0, types, 0, 0));
	EXPECT_EQ(INVALID, made_with(managed, device, 0, 0, 2 * MIB, 0));
	EXPECT_EQ(INVALID, made_with(managed, device, 0, 0, 0,
				     CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS));
	/*
	 * CUDA returns NOT_SUPPORTED for devices that cannot share managed memory with the CPU.
	 * Here the CPU can always access it, so the calls above succeed.
	 */
	/* Every reserved byte must be 0. */
	reserved = (char *)props.reserved;
	for (size_t i = 0; i < sizeof(props.reserved); i++) {
		reserved[i] = 1;
		EXPECT_EQ(INVALID, cuMemPoolCreate(&pool, &props));
		reserved[i] = 0;
	}
	EXPECT_EQ(INVALID, cuMemPoolCreate(NULL, &props));
	EXPECT_EQ(INVALID, cuMemPoolCreate(&pool, NULL));
}

/* The limit is exact: a full pool refuses one byte more, and serves it after a free. */
TEST_F(create, limit)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE }, .maxSize = 2 * MIB,
	};
	CUmemoryPool pool;
	CUdeviceptr p, q;
	CUcontext ctx;

	ASSERT_CU(cuda_start(&ctx));
	ASSERT_CU(cuMemPoolCreate(&pool, &props));
	EXPECT_CU(cuMemAllocFromPoolAsync(&p, 2 * MIB, pool, 0));
	EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&q, 1, pool, 0));
	EXPECT_EQ(0, q);
	EXPECT_CU(cuMemFreeAsync(p, 0));
	EXPECT_CU(cuMemAllocFromPoolAsync(&q, 1, pool, 0));
	EXPECT_CU(cuMemFreeAsync(q, 0));
	EXPECT_CU(cuStreamSynchronize(0));
	EXPECT_CU(cuMemPoolDestroy(pool));
}

int main(int argc, char **argv)
{
	if (argc && !strcmp(argv[0], "greedy"))
		return greedy(NULL);
	return test_harness_run(argc, argv);
}
