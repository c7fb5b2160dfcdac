// SPDX-License-Identifier: GPL-2.0
/*
 * Small operations on managed memory: who executes them, and that it is never the CPU where the memory may not exist.
 *
 * The calling thread does small copies and fills of memory that is resident on the stream's device, if the stream is
 * idle.  The engine does all others.  The kernel counts what the engine did (struct meter).
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "cuda_util.h"
#include "common/limits_util.h"

#define BLOCK		((size_t)GPUMEM_MANAGED_BLOCK)
#define BLOCKS		8ull		/* of the device's memory */
#define SMALL		4096

FIXTURE(small)
{
	char size[32];			/* of the device, before */
	CUcontext ctx;
	CUstream s;
	CUdeviceptr p;			/* 3 blocks, managed */
	CUdeviceptr d;			/* 1 block, device memory */
	unsigned char *host;
	unsigned int *gate;
	struct meter m;
};

static int device_shrink(char *size, size_t room)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", BLOCKS * BLOCK);
	return dev_attr_text(0, "size", size, room) ?: write_dev_attr(0, "size", text);
}

FIXTURE_SETUP(small)
{
	ASSERT_TRUE(dev_quiet(10));
	ASSERT_EQ(0, device_shrink(self->size, sizeof(self->size)));
	ASSERT_CU(cuda_start(&self->ctx));
	ASSERT_CU(cuStreamCreate(&self->s, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuMemAllocManaged(&self->p, 3 * BLOCK, CU_MEM_ATTACH_GLOBAL));
	ASSERT_CU(cuMemAlloc(&self->d, BLOCK));
	ASSERT_CU(cuMemAllocHost((void **)&self->gate, sizeof(*self->gate)));
	self->host = malloc(BLOCK);
	ASSERT_NE(NULL, self->host);
	ASSERT_EQ(0, meter_read(&self->m));
}

FIXTURE_TEARDOWN_PARENT(small)
{
	EXPECT_EQ(0, write_dev_attr(0, "size", self->size));
	EXPECT_TRUE(dev_quiet(10));
	EXPECT_TRUE(number_becomes("/sys/class/gpumem/managed_used", 0));
}

static CUmemLocation on_device(int id)
{
	return (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = id };
}

static CUmemLocation on_host(void)
{
	return (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST };
}

#define PREFETCH(p, n, where) do {						\
	ASSERT_CU(cuMemPrefetchAsync(p, n, where, 0, self->s));			\
	ASSERT_CU(cuStreamSynchronize(self->s));				\
} while (0)

/* Entries that the engine executed since the last look. */
static long long jobs(struct meter *m)
{
	struct meter now;
	long long n;

	if (cuCtxSynchronize() || meter_read(&now))
		return -1;
	n = now.jobs - m->jobs;
	*m = now;
	return n;
}

#define JOBS()		jobs(&self->m)

/* In strict mode the calling thread reaches managed memory, too. */
static bool inlining_managed(void)
{
	return inlining() || strict();
}

#define INLINE_OR(n)	(inlining_managed() ? 0 : (n))

static long long blocks_on(unsigned int device)
{
	return dev_attr(device, "managed") / (long long)BLOCK;
}

static bool filled_with(const volatile unsigned char *at, unsigned char value, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (at[i] != value)
			return false;
	return true;
}

/* The first operation is the engine's; as long as the memory is resident, the others are not. */
TEST_F(small, while_resident)
{
	const CUdeviceptr p = self->p;
	unsigned char *at = cpu(p);

	ASSERT_CU(cuMemsetD8Async(p, 1, SMALL, self->s));
	EXPECT_EQ(1, JOBS());
	ASSERT_CU(cuMemsetD8Async(p + SMALL, 2, SMALL, self->s));
	ASSERT_CU(cuMemsetD32Async(p + 2 * SMALL, 3, SMALL / 4, self->s));
	ASSERT_CU(cuMemsetD2D16Async(p + 3 * SMALL, 64, 4, 8, 16, self->s));
	EXPECT_EQ(INLINE_OR(3), JOBS());
	ASSERT_CU(cuMemcpyDtoDAsync(p + 4 * SMALL, p + SMALL, SMALL, self->s));
	ASSERT_CU(cuMemcpyDtoDAsync(p + 5 * SMALL, p + 4 * SMALL + 1, SMALL, self->s));
	ASSERT_CU(cuMemcpyDtoDAsync(self->d, p + SMALL, SMALL, self->s));
	ASSERT_CU(cuMemcpyDtoDAsync(p + 6 * SMALL, self->d, SMALL, self->s));
	/* The engine does the copies of device memory in strict mode, and the overlapping one in two parts. */
	EXPECT_EQ(strict() ? 2 : INLINE_OR(5), JOBS());
	EXPECT_TRUE(filled_with(at, 1, SMALL));
	EXPECT_TRUE(filled_with(at + SMALL, 2, SMALL));
	EXPECT_EQ(3, at[2 * SMALL]);
	EXPECT_EQ(0, at[2 * SMALL + 1]);
	EXPECT_EQ(4, at[3 * SMALL + 64]);
	EXPECT_TRUE(filled_with(at + 4 * SMALL, 2, SMALL));
	EXPECT_TRUE(filled_with(at + 6 * SMALL, 2, SMALL));
	/* Another block is not resident, and an operation on both is the engine's. */
	ASSERT_CU(cuMemsetD8Async(p + BLOCK - 8, 5, 16, self->s));
	EXPECT_EQ(1, JOBS());
	EXPECT_EQ(2, blocks_on(0));
	ASSERT_CU(cuMemsetD8Async(p + BLOCK - 8, 6, 16, self->s));
	EXPECT_EQ(INLINE_OR(1), JOBS());
	EXPECT_TRUE(filled_with(at + BLOCK - 8, 6, 16));
	EXPECT_TRUE(filled_with(at + 5 * SMALL - 1, 2, 1));
	/* A large operation is an entry, as one on device memory is. */
	ASSERT_CU(cuMemsetD8Async(p, 7, 2 * INLINE, self->s));
	EXPECT_EQ(1, JOBS());
	EXPECT_TRUE(filled_with(at, 7, 2 * INLINE));
}

/* Copies from and to memory of the process. */
TEST_F(small, pageable_ends)
{
	const CUdeviceptr p = self->p;
	unsigned char *at = cpu(p);

	PREFETCH(p, BLOCK, on_device(0));
	JOBS();
	memset(self->host, 9, SMALL);
	ASSERT_CU(cuMemcpyHtoD(p, self->host, SMALL));
	ASSERT_CU(cuMemcpyHtoDAsync(p + SMALL, self->host, SMALL, self->s));
	memset(self->host, 8, SMALL);
	ASSERT_CU(cuStreamSynchronize(self->s));
	ASSERT_CU(cuMemcpyDtoH(self->host, p + SMALL, SMALL));
	EXPECT_TRUE(filled_with(self->host, 9, SMALL));
	ASSERT_CU(cuMemcpy(p + 2 * SMALL, (CUdeviceptr)(uintptr_t)self->host, SMALL));
	if (inlining())
		EXPECT_EQ(0, JOBS());
	EXPECT_TRUE(filled_with(at, 9, 3 * SMALL));
}

/* Memory that has left the device, or was never there, is the engine's again. */
TEST_F(small, not_resident)
{
	const CUdeviceptr p = self->p;
	unsigned char *at = cpu(p);

	memset(at, 1, 3 * BLOCK);
	PREFETCH(p, 3 * BLOCK, on_device(0));
	PREFETCH(p, BLOCK, on_host());
	JOBS();
	ASSERT_CU(cuMemcpyDtoDAsync(p + BLOCK, p + 2 * BLOCK, SMALL, self->s));
	EXPECT_EQ(INLINE_OR(1), JOBS());
	EXPECT_EQ(2, blocks_on(0));
	ASSERT_CU(cuMemcpyDtoDAsync(p + BLOCK, p, SMALL, self->s));
	EXPECT_EQ(1, JOBS());
	EXPECT_EQ(3, blocks_on(0));
	/* Memory that prefers the host is used where it is. */
	PREFETCH(p, BLOCK, on_host());
	ASSERT_CU(cuMemAdvise(p, BLOCK, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, on_host()));
	JOBS();
	ASSERT_CU(cuMemsetD8Async(p, 2, SMALL, self->s));
	ASSERT_CU(cuMemsetD8Async(p, 3, SMALL, self->s));
	EXPECT_EQ(2, JOBS());
	EXPECT_EQ(2, blocks_on(0));
	EXPECT_TRUE(filled_with(at, 3, SMALL));
}

static void *open_later(void *gate)
{
	nap_ms(200);
	__atomic_store_n((unsigned int *)gate, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* The memory is resident when a call begins to wait for the stream, and not when the stream is idle. */
TEST_F(small, evicted_meanwhile)
{
	const CUdeviceptr p = self->p;
	pthread_t thread;

	ASSERT_CU(cuMemsetD8Async(p, 4, SMALL, self->s));
	ASSERT_CU(cuStreamSynchronize(self->s));
	*self->gate = 0;
	ASSERT_CU(cuStreamWaitValue32(self->s, (uintptr_t)self->gate, 1, CU_STREAM_WAIT_VALUE_EQ));
	ASSERT_CU(cuMemPrefetchAsync(p, BLOCK, on_host(), 0, self->s));
	EXPECT_EQ(1, blocks_on(0));
	ASSERT_EQ(0, pthread_create(&thread, NULL, open_later, self->gate));
	ASSERT_CU(cuMemcpyDtoHAsync(self->host, p, SMALL, self->s));
	EXPECT_TRUE(filled_with(self->host, 4, SMALL));
	/* The engine copied, and took the memory back to the device. */
	EXPECT_EQ(1, blocks_on(0));
	pthread_join(thread, NULL);
}

/* An operation that follows others in its stream does not overtake them. */
TEST_F(small, in_order)
{
	const CUdeviceptr p = self->p;
	unsigned char *at = cpu(p);

	PREFETCH(p, BLOCK, on_device(0));
	*self->gate = 0;
	ASSERT_CU(cuStreamWaitValue32(self->s, (uintptr_t)self->gate, 1, CU_STREAM_WAIT_VALUE_EQ));
	ASSERT_CU(cuMemsetD8Async(p, 1, SMALL, self->s));
	ASSERT_CU(cuMemcpyDtoDAsync(p + SMALL, p, SMALL, self->s));
	EXPECT_EQ(0, at[0]);
	EXPECT_EQ(0, at[SMALL]);
	__atomic_store_n(self->gate, 1, __ATOMIC_RELEASE);
	ASSERT_CU(cuStreamSynchronize(self->s));
	EXPECT_TRUE(filled_with(at, 1, 2 * SMALL));
}

/* A stream of another device moves the memory to its own device. */
TEST_F(small, other_device)
{
	CUcontext second;
	CUstream other;

	if (dev_count() < 2)
		SKIP(return, "one device");
	PREFETCH(self->p, BLOCK, on_device(0));
	ASSERT_CU(cuCtxCreate(&second, NULL, 0, 1));
	ASSERT_CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuMemsetD8Async(self->p, 1, SMALL, other));
	ASSERT_CU(cuStreamSynchronize(other));
	EXPECT_EQ(0, blocks_on(0));
	EXPECT_EQ(1, blocks_on(1));
	JOBS();
	ASSERT_CU(cuMemsetD8Async(self->p, 2, SMALL, other));
	ASSERT_CU(cuStreamSynchronize(other));
	EXPECT_EQ(INLINE_OR(1), JOBS());
	ASSERT_CU(cuMemsetD8Async(self->p, 3, SMALL, self->s));
	ASSERT_CU(cuStreamSynchronize(self->s));
	EXPECT_EQ(1, blocks_on(0));
	EXPECT_EQ(0, blocks_on(1));
	EXPECT_TRUE(filled_with(cpu(self->p), 3, SMALL));
	ASSERT_CU(cuCtxDestroy(second));
}

/* Operations at the ends of the memory, over the border of two blocks, and with sizes that wrap around. */
TEST_F(small, ends)
{
	const size_t n = 2 * BLOCK + 5000;
	const CUdeviceptr p = self->p;
	CUdeviceptr q;
	unsigned char *at;

	ASSERT_CU(cuMemAllocManaged(&q, n, CU_MEM_ATTACH_GLOBAL));
	at = cpu(q);
	PREFETCH(p, BLOCK, on_device(0));
	PREFETCH(q, n, on_device(0));
	JOBS();
	ASSERT_CU(cuMemsetD8Async(q + n - SMALL, 1, SMALL, self->s));
	ASSERT_CU(cuMemcpyDtoDAsync(q, q + n - SMALL, SMALL, self->s));
	ASSERT_CU(cuMemcpyDtoDAsync(q + n - SMALL / 2, p, SMALL / 2, self->s));
	ASSERT_CU(cuMemcpyDtoDAsync(q + BLOCK - SMALL / 2, q, SMALL, self->s));
	ASSERT_CU(cuMemcpyDtoDAsync(p + SMALL, q + BLOCK - SMALL / 2, SMALL, self->s));
	ASSERT_CU(cuMemsetD8Async(q + 2 * BLOCK - 4, 2, 8, self->s));
	ASSERT_CU(cuMemsetD16Async(q + SMALL, 0x0303, 8, self->s));
	ASSERT_CU(cuMemsetD32Async(q + SMALL + 16, 0x04040404, (1ull << 62) + 1, self->s));
	ASSERT_CU(cuMemsetD32Async(q, 5, 1ull << 62, self->s));
	EXPECT_EQ(INLINE_OR(8), JOBS());
	EXPECT_TRUE(filled_with(at + n - SMALL, 1, SMALL / 2));
	EXPECT_TRUE(filled_with(at + n - SMALL / 2, 0, SMALL / 2));
	EXPECT_TRUE(filled_with(at, 1, SMALL));
	EXPECT_TRUE(filled_with(at + BLOCK - SMALL / 2, 1, SMALL));
	EXPECT_TRUE(filled_with((unsigned char *)cpu(p) + SMALL, 1, SMALL));
	EXPECT_TRUE(filled_with(at + 2 * BLOCK - 4, 2, 8));
	EXPECT_TRUE(filled_with(at + SMALL, 3, 16));
	EXPECT_TRUE(filled_with(at + SMALL + 16, 4, 4));
	EXPECT_EQ(0, at[SMALL + 20]);
	/* The last page has more bytes than the memory. */
	EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemsetD8Async(q + n - SMALL, 6, SMALL + 1, self->s));
	EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoDAsync(q + n - SMALL, p, SMALL + 1, self->s));
	EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoDAsync(p, q + n - SMALL, SMALL + 1, self->s));
	EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemsetD8Async(q + n, 6, 1, self->s));
	EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemsetD16Async(q + 1, 6, 1, self->s));
	EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemsetD32Async(q + 2, 6, 1, self->s));
	EXPECT_TRUE(filled_with(at + n - SMALL, 1, SMALL / 2));
	ASSERT_CU(cuMemFree(q));
	EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemsetD8Async(q, 7, SMALL, self->s));
	EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoDAsync(p, q, SMALL, self->s));
	EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoDAsync(q, p, SMALL, self->s));
}

/*
 * Blocks whose addresses are a multiple of 16 GiB apart.  The library has one place for them (resident_slots), and keeps
 * there what it must know of one of them.
 */
TEST_F(small, far_apart)
{
	const size_t apart = 16ull << 30;
	CUdeviceptr far, last, first = self->p;

	/* It covers the place of each block. */
	ASSERT_CU(cuMemAllocManaged(&far, apart, CU_MEM_ATTACH_GLOBAL));
	ASSERT_CU(cuMemAllocManaged(&last, 3 * BLOCK, CU_MEM_ATTACH_GLOBAL));
	for (int i = 0; i < 2; i++) {
		CUdeviceptr p = i ? last : first;
		CUdeviceptr twin = far + (p - far) % apart;

		ASSERT_EQ(0, (twin - p) % apart);
		ASSERT_TRUE(twin - far < apart);
		PREFETCH(twin, BLOCK, on_device(0));
		JOBS();
		ASSERT_CU(cuMemsetD8Async(p, 1, SMALL, self->s));
		EXPECT_EQ(1, JOBS());
		ASSERT_CU(cuMemsetD8Async(p, 2, SMALL, self->s));
		ASSERT_CU(cuMemsetD8Async(twin, 3, SMALL, self->s));
		ASSERT_CU(cuMemcpyDtoDAsync(twin + SMALL, p, SMALL, self->s));
		ASSERT_CU(cuMemcpyDtoDAsync(p + SMALL, twin, SMALL, self->s));
		EXPECT_EQ(INLINE_OR(4), JOBS());
		PREFETCH(twin, BLOCK, on_host());
		JOBS();
		ASSERT_CU(cuMemsetD8Async(p, 2, SMALL, self->s));
		EXPECT_EQ(INLINE_OR(1), JOBS());
		ASSERT_CU(cuMemsetD8Async(twin, 3, SMALL, self->s));
		EXPECT_EQ(1, JOBS());
		EXPECT_TRUE(filled_with(cpu(p), 2, SMALL));
		EXPECT_TRUE(filled_with((unsigned char *)cpu(p) + SMALL, 3, SMALL));
		EXPECT_TRUE(filled_with(cpu(twin), 3, SMALL));
		EXPECT_TRUE(filled_with((unsigned char *)cpu(twin) + SMALL, 2, SMALL));
	}
	ASSERT_CU(cuMemFree(far));
	JOBS();
	ASSERT_CU(cuMemsetD8Async(first, 4, SMALL, self->s));
	ASSERT_CU(cuMemsetD8Async(last, 5, SMALL, self->s));
	EXPECT_EQ(INLINE_OR(2), JOBS());
	EXPECT_TRUE(filled_with(cpu(first), 4, SMALL));
	EXPECT_TRUE(filled_with(cpu(last), 5, SMALL));
	ASSERT_CU(cuMemFree(last));
}

static sigjmp_buf back;

static void leave(int sig)
{
	siglongjmp(back, sig);
}

/* Whether the calling thread executed the operation, and its handler left it. */
#define LEFT(operation)		(sigsetjmp(back, 1) ? true : ((operation), false))

/* An operation that a handler leaves by a jump keeps nothing: the stream is usable afterwards. */
TEST_F(small, left_by_jump)
{
	const CUdeviceptr p = self->p, hole = p + BLOCK / 2;
	CUdeviceptr few;
	CUstream other;

	ASSERT_NE(SIG_ERR, signal(SIGSEGV, leave));
	ASSERT_CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuMemAllocManaged(&few, 64 * 1024, CU_MEM_ATTACH_GLOBAL));
	PREFETCH(p, BLOCK, on_device(0));
	PREFETCH(few, 64 * 1024, on_device(0));
	ASSERT_EQ(0, mprotect(cpu(hole), SMALL, PROT_NONE));
	/* The engine reaches the memory whatever the process may do with it. */
	EXPECT_EQ(inlining_managed(), LEFT(cuMemcpyDtoDAsync(hole, p, SMALL, self->s)));
	ASSERT_CU(cuMemsetD8Async(p, 1, SMALL, self->s));
	EXPECT_EQ(inlining_managed(), LEFT(cuMemsetD8Async(hole, 1, SMALL, self->s)));
	ASSERT_CU(cuMemcpyDtoDAsync(p + SMALL, p, SMALL, self->s));
	EXPECT_EQ(inlining_managed(), LEFT(cuMemcpyDtoDAsync(few, hole, SMALL, self->s)));
	ASSERT_CU(cuMemcpyDtoDAsync(few + SMALL, p, SMALL, self->s));
	/* One left copy after another: the first stream is usable, too.  The other has been used before. */
	ASSERT_CU(cuMemsetD8Async(p, 1, SMALL, other));
	ASSERT_CU(cuStreamSynchronize(other));
	EXPECT_EQ(inlining_managed(), LEFT(cuMemcpyDtoDAsync(p, hole, SMALL, self->s)));
	EXPECT_EQ(inlining_managed(), LEFT(cuMemsetD32Async(hole, 1, SMALL / 4, other)));
	ASSERT_CU(cuMemsetD8Async(p + 2 * SMALL, 3, SMALL, self->s));
	ASSERT_CU(cuMemsetD8Async(p + 3 * SMALL, 4, SMALL, other));
	ASSERT_CU(cuStreamSynchronize(self->s));
	ASSERT_CU(cuStreamSynchronize(other));
	ASSERT_EQ(0, mprotect(cpu(hole), SMALL, PROT_READ | PROT_WRITE));
	EXPECT_TRUE(filled_with(cpu(p + SMALL), 1, SMALL));
	EXPECT_TRUE(filled_with(cpu(p + 2 * SMALL), 3, SMALL));
	EXPECT_TRUE(filled_with(cpu(p + 3 * SMALL), 4, SMALL));
	EXPECT_TRUE(filled_with(cpu(few + SMALL), 1, SMALL));
	ASSERT_CU(cuMemFree(few));
}

/* A block that only the CPU works on stays on the device, although other blocks are evicted. */
TEST_F(small, stays_on_device)
{
	CUdeviceptr more;
	struct gpumem_stats before, after;
	unsigned int round, i;

	ASSERT_CU(cuMemFree(self->d));
	ASSERT_CU(cuMemAllocManaged(&more, 3 * BLOCKS * BLOCK, CU_MEM_ATTACH_GLOBAL));
	ASSERT_CU(cuMemsetD8Async(self->p, 0, BLOCK, self->s));
	ASSERT_CU(cuStreamSynchronize(self->s));
	ASSERT_EQ(0, client_stats(&before));
	for (round = 0; round < 3; round++) {
		for (i = 0; i < 3 * BLOCKS; i++) {
			ASSERT_CU(cuMemsetD8Async(self->p + SMALL, round + 1, SMALL, self->s));
			ASSERT_CU(cuMemsetD8Async(more + i * BLOCK, round + 1, 2 * INLINE, self->s));
			ASSERT_CU(cuStreamSynchronize(self->s));
		}
	}
	ASSERT_EQ(0, client_stats(&after));
	/*
	 * Each use of the other blocks was a miss, because three times as many do not fit.  The first eviction may
	 * have taken the block: until then it was the least recently used one.
	 */
	EXPECT_LE(3 * 3 * BLOCKS, after.managed_faults - before.managed_faults);
	EXPECT_GE(3 * 3 * BLOCKS + 1, after.managed_faults - before.managed_faults);
	EXPECT_TRUE(filled_with((unsigned char *)cpu(self->p) + SMALL, 3, SMALL));
	for (i = 0; i < 3 * BLOCKS; i++)
		EXPECT_TRUE(filled_with((unsigned char *)cpu(more) + i * BLOCK, 3, 2 * INLINE));
	ASSERT_CU(cuMemFree(more));
}

TEST_HARNESS_MAIN
