// SPDX-License-Identifier: GPL-2.0
/*
 * Small operations on managed memory: who executes them, and that it is never the CPU where the memory may not exist.
 *
 * The calling thread does small copies and fills of memory that is resident on the stream's device, if the stream is
 * idle.  It also does those of memory that the device evicted to make room, until they have accessed as many bytes as
 * two blocks have.  The engine does all others.  The kernel counts what the engine did (struct meter).
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "cuda_util.h"
#include "common/limits_util.h"
#include "common/swap.h"

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
	/* The first eviction finds no block that is marked. */
	ASSERT_CU(cuMemsetD8Async(more, 0, 2 * BLOCKS * BLOCK, self->s));
	PREFETCH(self->p, BLOCK, on_device(0));
	ASSERT_EQ(0, client_stats(&before));
	for (round = 0; round < 3; round++) {
		for (i = 0; i < 3 * BLOCKS; i++) {
			ASSERT_CU(cuMemsetD8Async(self->p + SMALL, round + 1, SMALL, self->s));
			ASSERT_CU(cuMemsetD8Async(more + i * BLOCK, round + 1, 2 * INLINE, self->s));
			ASSERT_CU(cuStreamSynchronize(self->s));
		}
	}
	ASSERT_EQ(0, client_stats(&after));
	/* Each use of the other blocks was a miss, because three times as many do not fit. */
	EXPECT_EQ(3 * 3 * BLOCKS, after.managed_faults - before.managed_faults);
	PREFETCH(self->p, BLOCK, on_device(0));
	ASSERT_EQ(0, client_stats(&before));
	EXPECT_EQ(before.managed_in, after.managed_in);
	EXPECT_TRUE(filled_with((unsigned char *)cpu(self->p) + SMALL, 3, SMALL));
	for (i = 0; i < 3 * BLOCKS; i++)
		EXPECT_TRUE(filled_with((unsigned char *)cpu(more) + i * BLOCK, 3, 2 * INLINE));
	ASSERT_CU(cuMemFree(more));
}

/* --- memory that the device evicted to make room */

#define MANY	(3 * BLOCKS)

/* Whether evicted memory is used where it is. */
static bool used_in_place(void)
{
	return inlining_managed() && !swap_is_used();
}

/* MANY blocks of managed memory, block i filled with 1 + i; the last BLOCKS of them are on the device. */
static CUresult make_many(CUdeviceptr *p, CUstream s)
{
	CUresult ret = cuMemAllocManaged(p, MANY * BLOCK, CU_MEM_ATTACH_GLOBAL);

	for (unsigned int i = 0; !ret && i < MANY; i++)
		ret = cuMemsetD8Async(*p + i * BLOCK, 1 + i, BLOCK, s);
	return ret ? ret : cuStreamSynchronize(s);
}

/* Small operations leave evicted blocks where they are; a large one makes them resident. */
TEST_F(small, evicted_in_place)
{
	struct gpumem_stats before, after;
	unsigned char *at;
	CUdeviceptr p;

	ASSERT_CU(cuMemFree(self->d));
	ASSERT_CU(make_many(&p, self->s));
	at = cpu(p);
	JOBS();
	ASSERT_EQ(0, client_stats(&before));
	/* Fills, copies that name a kind and those that do not, synchronous ones, rows, and both kinds of end. */
	ASSERT_CU(cuMemsetD8Async(p, 50, SMALL, self->s));
	ASSERT_CU(cuMemsetD2D16Async(p + SMALL, 64, 0x3333, 8, 16, self->s));
	ASSERT_CU(cuMemcpyDtoDAsync(p + 2 * SMALL, p, SMALL, self->s));
	ASSERT_CU(cuMemcpyAsync(p + 3 * SMALL, p + BLOCK, SMALL, self->s));
	ASSERT_CU(cuMemcpyAsync(p + 4 * SMALL, p + (MANY - 1) * BLOCK, SMALL, self->s));
	ASSERT_CU(cuMemcpyDtoD(p + 5 * SMALL, p + 2 * BLOCK - SMALL / 2, SMALL));
	ASSERT_CU(cuMemcpyDtoH(self->host, p + 3 * BLOCK, INLINE));
	ASSERT_CU(cuMemcpyHtoDAsync(p + 4 * BLOCK, self->host, SMALL, self->s));
	ASSERT_CU(cuStreamSynchronize(self->s));
	ASSERT_EQ(0, client_stats(&after));
	/* Where an engine does them, the first access of each of the two streams makes a block resident. */
	EXPECT_EQ(used_in_place(), !JOBS());
	EXPECT_EQ(before.managed_faults + (used_in_place() ? 0 : 2), after.managed_faults);
	if (used_in_place()) {
		EXPECT_EQ(before.managed_evictions, after.managed_evictions);
		EXPECT_EQ(BLOCKS, blocks_on(0));
	} else {
		/* Staging memory may take room, too. */
		EXPECT_LE(before.managed_evictions + 2, after.managed_evictions);
	}
	before = after;
	EXPECT_TRUE(filled_with(at, 50, SMALL));
	EXPECT_EQ(0x33, at[SMALL + 64]);
	EXPECT_TRUE(filled_with(at + 2 * SMALL, 50, SMALL));
	EXPECT_TRUE(filled_with(at + 3 * SMALL, 2, SMALL));
	EXPECT_TRUE(filled_with(at + 4 * SMALL, MANY, SMALL));
	EXPECT_TRUE(filled_with(at + 5 * SMALL, 2, SMALL / 2));
	EXPECT_TRUE(filled_with(at + 5 * SMALL + SMALL / 2, 3, SMALL / 2));
	EXPECT_TRUE(filled_with(self->host, 4, INLINE));
	EXPECT_TRUE(filled_with(at + 4 * BLOCK, 4, SMALL));
	/* The engine does a large operation, and makes the block resident. */
	ASSERT_CU(cuMemcpyDtoH(self->host, p + 5 * BLOCK, INLINE + 1));
	EXPECT_LT(0, JOBS());
	ASSERT_EQ(0, client_stats(&after));
	EXPECT_EQ(before.managed_faults + 1, after.managed_faults);
	EXPECT_LE(before.managed_evictions + 1, after.managed_evictions);
	EXPECT_TRUE(filled_with(self->host, 6, INLINE + 1));
	/* A small one does so after a prefetch to the host: the program has said where the memory is to be. */
	PREFETCH(p, BLOCK, on_host());
	ASSERT_CU(cuMemsetD8Async(p, 51, SMALL, self->s));
	ASSERT_CU(cuStreamSynchronize(self->s));
	ASSERT_EQ(0, client_stats(&after));
	EXPECT_EQ(before.managed_faults + 2, after.managed_faults);
	EXPECT_TRUE(filled_with(at, 51, SMALL));
	ASSERT_CU(cuMemFree(p));
}

/* A small operation on some bytes, which may leave an evicted block where it is. */
typedef CUresult (*operation)(CUdeviceptr p, CUstream s);

/* Its bytes.  An engine takes longer for each, so its operations are larger. */
static size_t piece = SMALL;

static CUresult fill_small(CUdeviceptr p, CUstream s)
{
	return cuMemsetD8Async(p, 1, piece, s);
}

/* Two copies of half the bytes, from one half to the other. */
static CUresult copy_batch(CUdeviceptr p, CUstream s)
{
	CUmemcpyAttributes attrs = { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM };
	CUdeviceptr dst[] = { p, p + piece / 2 }, src[] = { p + piece / 2, p };
	size_t sizes[] = { piece / 4, piece / 4 }, first = 0;

	return cuMemcpyBatchAsync(dst, src, sizes, 2, &attrs, &first, 1, s);
}

/* Does @op until the kernel makes a block resident.  Returns how often, or 0 if @most were not enough. */
static unsigned int operations_until_fault(operation op, CUdeviceptr p, CUstream s, unsigned int most)
{
	struct gpumem_stats before, after;

	if (client_stats(&before))
		return 0;
	for (unsigned int i = 1; i <= most; i++) {
		if (op(p, s) || cuStreamSynchronize(s) || client_stats(&after))
			return 0;
		if (after.managed_faults != before.managed_faults)
			return i;
	}
	return 0;
}

#define COUNT(op, p, most)	operations_until_fault(op, p, self->s, (most) + 1)

/*
 * Once the operations have accessed about as many bytes as two blocks have, the block of the last one comes back.  An
 * engine counts only the bytes of evicted blocks, and fetches the block of the next operation.
 */
TEST_F(small, evicted_and_back)
{
	const unsigned int engine = !used_in_place();
	unsigned int block, most, n, last = 0, different = 0;
	CUdeviceptr p;

	piece = engine ? 8 * SMALL : SMALL;
	block = BLOCK / piece;
	most = 3 * block + engine;
	ASSERT_CU(cuMemFree(self->d));
	ASSERT_CU(make_many(&p, self->s));
	/* A thread's first number may be smaller than the others.  That of an engine's stream is 0. */
	n = COUNT(fill_small, p, 3 * block);
	EXPECT_LE(1, n);
	EXPECT_GE(engine ? 1 : 2 * block + 1, n);
	for (unsigned int i = 1; i < 5; i++) {
		n = COUNT(fill_small, p + i * BLOCK, most);
		EXPECT_LE(block, n);
		EXPECT_GE(most, n);
		EXPECT_EQ(BLOCKS, blocks_on(0));
		different += last && n != last;
		last = n;
		/* The block is resident: further operations count nothing. */
		EXPECT_EQ(0, COUNT(fill_small, p + i * BLOCK, block / 8));
	}
	/* So a program that accesses blocks in turn does not meet the same block each time. */
	EXPECT_NE(0, different);
	/* Each operation of a batch counts, of each end. */
	n = COUNT(copy_batch, p + 6 * BLOCK, most);
	EXPECT_LE(block, n);
	EXPECT_GE(most, n);
	/* An operation on a resident and an evicted block counts, too. */
	PREFETCH(p + 8 * BLOCK, BLOCK, on_device(0));
	n = COUNT(fill_small, p + 9 * BLOCK - piece / 2, 2 * most);
	EXPECT_LE(block, n);
	EXPECT_GE(engine ? 2 * most : most, n);
	ASSERT_CU(cuMemFree(p));
}

/* Another device than the one that evicted the memory has room, and takes it. */
TEST_F(small, evicted_from_other_device)
{
	CUcontext second;
	CUstream other;
	CUdeviceptr p;

	if (dev_count() < 2)
		SKIP(return, "one device");
	ASSERT_CU(cuMemFree(self->d));
	ASSERT_CU(make_many(&p, self->s));
	ASSERT_CU(cuCtxCreate(&second, NULL, 0, 1));
	ASSERT_CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuMemsetD8Async(p, 77, SMALL, other));
	ASSERT_CU(cuStreamSynchronize(other));
	EXPECT_EQ(1, blocks_on(1));
	EXPECT_TRUE(filled_with(cpu(p), 77, SMALL));
	ASSERT_CU(cuMemFree(p));
	ASSERT_CU(cuCtxDestroy(second));
}

struct churn {
	CUcontext ctx;
	CUdeviceptr p;
	unsigned int entries;		/* of the engine */
	bool stop;
};

/* Makes blocks resident one after the other, by their last bytes, so that the others are evicted. */
static void *churn(void *arg)
{
	struct churn *c = arg;
	CUresult ret = cuCtxSetCurrent(c->ctx);
	CUstream s;

	ret = ret ? ret : cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
	for (unsigned int i = 0; !ret && !__atomic_load_n(&c->stop, __ATOMIC_RELAXED); i++) {
		ret = cuMemsetD8Async(c->p + (i % MANY + 1) * BLOCK - 2 * INLINE, i, 2 * INLINE, s);
		ret = ret ? ret : cuStreamSynchronize(s);
		c->entries++;
	}
	return (void *)(uintptr_t)ret;
}

/* Small operations find each byte that they wrote, while the blocks come and go. */
TEST_F(small, in_place_while_evicted)
{
	const unsigned int places = (BLOCK - 2 * INLINE) / SMALL;
	struct churn c = { .ctx = self->ctx };
	struct gpumem_stats before, after;
	unsigned char *want, *got;
	unsigned int state = 1, wrong = 0;
	long long entries;
	pthread_t thread;
	void *ret;

	ASSERT_CU(cuMemFree(self->d));
	ASSERT_CU(make_many(&c.p, self->s));
	want = calloc(MANY, places);
	got = malloc(SMALL);
	ASSERT_NE(NULL, want);
	ASSERT_NE(NULL, got);
	for (unsigned int i = 0; i < MANY; i++)
		memset(want + i * places, 1 + i, places);
	JOBS();
	ASSERT_EQ(0, client_stats(&before));
	ASSERT_EQ(0, pthread_create(&thread, NULL, churn, &c));
	for (unsigned int i = 0; i < 4000; i++) {
		unsigned int at = (state = state * 1664525 + 1013904223) / 256 % (MANY * places);
		unsigned int from = (state = state * 1664525 + 1013904223) / 256 % (MANY * places);
		CUdeviceptr dst = c.p + at / places * BLOCK + at % places * SMALL;
		CUdeviceptr src = c.p + from / places * BLOCK + from % places * SMALL;

		if (i % 3 == 0) {
			ASSERT_CU(cuMemsetD8Async(dst, i, SMALL, self->s));
			want[at] = i;
		} else if (i % 3 == 1) {
			ASSERT_CU(cuMemcpyAsync(dst, src, SMALL, self->s));
			want[at] = want[from];
		} else {
			ASSERT_CU(cuMemcpyDtoHAsync(got, src, SMALL, self->s));
			wrong += !filled_with(got, want[from], SMALL);
		}
	}
	__atomic_store_n(&c.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, &ret);
	EXPECT_EQ(NULL, ret);
	entries = JOBS() - c.entries;
	ASSERT_EQ(0, client_stats(&after));
	EXPECT_LT(before.managed_evictions, after.managed_evictions);
	if (used_in_place()) {
		EXPECT_GT(2000, entries);
	} else {
		EXPECT_LE(3000, entries);
	}
	for (unsigned int i = 0; i < MANY * places; i++)
		wrong += !filled_with((unsigned char *)cpu(c.p) + i / places * BLOCK + i % places * SMALL, want[i], SMALL);
	EXPECT_EQ(0, wrong);
	free(got);
	free(want);
	ASSERT_CU(cuMemFree(c.p));
}

TEST_HARNESS_MAIN
