// SPDX-License-Identifier: GPL-2.0
/*
 * Pageable memory as device memory, while it changes: what becomes of queued work when the memory is
 * unmapped, protected, truncated, moved or forked, when the process dies, and of work on memory that
 * other drivers may wait for.  t_cuda_pageable has memory that stays.
 */
#include <pthread.h>
#include <sys/wait.h>

#include "pageable_fixture.h"

/* --- memory that goes away */

/* The stream has failed with a sticky error. */
#define EXPECT_FAULT() do {							\
	EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(self->s));	\
	EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());		\
	EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemsetD8(self->dev, 0, 1));	\
} while (0)

TEST_F(pageable, unmapped_destination)
{
	unsigned char *p = anon(4 * MIB);

	CLOSE_GATE();
	ASSERT_CU(cuMemcpyDtoDAsync(dp(p), self->dev, 4 * MIB, self->s));
	munmap(p + 2 * MIB, MIB);
	OPEN_GATE();
	EXPECT_FAULT();
}

TEST_F(pageable, unmapped_source)
{
	unsigned char *p = anon(4 * MIB);

	CLOSE_GATE();
	ASSERT_CU(cuMemcpyDtoDAsync(self->dev, dp(p), 4 * MIB, self->s));
	munmap(p, 4 * MIB);
	OPEN_GATE();
	EXPECT_FAULT();
}

TEST_F(pageable, unmapped_fill)
{
	unsigned char *p = anon(4 * MIB);

	CLOSE_GATE();
	ASSERT_CU(cuMemsetD32Async(dp(p), 1, MIB, self->s));
	munmap(p, 4 * MIB);
	OPEN_GATE();
	EXPECT_FAULT();
}

TEST_F(pageable, unmapped_word)
{
	uint32_t *word = (void *)anon(PAGE_BYTES);

	ASSERT_CU(cuStreamWaitValue32(self->s, dp(word), 1, CU_STREAM_WAIT_VALUE_EQ));
	usleep(5000);
	munmap(word, PAGE_BYTES);
	EXPECT_FAULT();
}

TEST_F(pageable, read_only)
{
	unsigned char *p = mmap(NULL, MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT_NE(MAP_FAILED, p);
	/* Reading works. */
	ASSERT_CU(cuMemcpyDtoD(self->dev, dp(p), MIB));
	EXPECT_TRUE(sees(self->dev, 0, MIB));
	CLOSE_GATE();
	ASSERT_CU(cuMemsetD8Async(dp(p), 1, MIB, self->s));
	OPEN_GATE();
	EXPECT_FAULT();
	EXPECT_TRUE(all_are(p, 0, MIB));
}

TEST_F(pageable, read_only_copy)
{
	unsigned char *p = mmap(NULL, MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT_NE(MAP_FAILED, p);
	EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemcpyDtoD(dp(p), self->dev, MIB));
	EXPECT_TRUE(all_are(p, 0, MIB));
}

TEST_F(pageable, no_access)
{
	unsigned char *p = mmap(NULL, MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT_NE(MAP_FAILED, p);
	EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemcpyDtoD(self->dev, dp(p), 1));
}

/* Addresses of the kernel, and none at all. */
TEST_F(pageable, kernel_address)
{
	EXPECT_EQ(INVALID, cuMemsetD8(0, 1, 8));
	EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemsetD32(0xffff888000000000, 1, 8));
}

TEST_F(pageable, truncated_file)
{
	FILE *f = tmpfile();
	unsigned char *p;

	ASSERT_NE(NULL, f);
	ASSERT_EQ(0, ftruncate(fileno(f), 2 * MIB));
	p = mmap(NULL, 2 * MIB, RW, MAP_SHARED, fileno(f), 0);
	ASSERT_NE(MAP_FAILED, p);
	memset(p, 1, 2 * MIB);
	CLOSE_GATE();
	ASSERT_CU(cuMemsetD8Async(dp(p), 2, 2 * MIB, self->s));
	ASSERT_EQ(0, ftruncate(fileno(f), MIB));
	OPEN_GATE();
	EXPECT_FAULT();
	EXPECT_TRUE(all_are(p, 2, MIB));
}

/* The engine works on what is mapped when the stream gets there. */
TEST_F(pageable, mapped_anew)
{
	unsigned char *p = anon(2 * MIB), *moved;

	memset(p, 1, 2 * MIB);
	CLOSE_GATE();
	ASSERT_CU(cuMemcpyDtoDAsync(self->dev, dp(p), MIB, self->s));
	ASSERT_CU(cuMemsetD8Async(dp(p + MIB), 3, MIB, self->s));
	madvise(p, MIB, MADV_DONTNEED);
	moved = mremap(p + MIB, MIB, MIB, MREMAP_MAYMOVE | MREMAP_FIXED, anon(MIB));
	ASSERT_NE(MAP_FAILED, moved);
	ASSERT_EQ(p + MIB, mmap(p + MIB, MIB, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	OPEN_GATE();
	DONE();
	EXPECT_TRUE(sees(self->dev, 0, MIB));
	EXPECT_TRUE(all_are(moved, 1, MIB));
	EXPECT_TRUE(all_are(p + MIB, 3, MIB));
}

/* After fork() the engine writes to the parent's memory only. */
TEST_F(pageable, forked)
{
	unsigned char *p = anon(MIB);
	int up[2], status, go;
	char word;
	pid_t pid;

	memset(p, 1, MIB);
	ASSERT_EQ(0, pipe(up));
	CLOSE_GATE();
	ASSERT_CU(cuMemsetD8Async(dp(p), 2, MIB, self->s));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		go = read(up[0], &word, 1);
		_exit(go == 1 && all_are(p, 1, MIB) ? 0 : 1);
	}
	OPEN_GATE();
	DONE();
	EXPECT_TRUE(all_are(p, 2, MIB));
	ASSERT_EQ(1, write(up[1], "", 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

TEST_F(pageable, destroyed_stream)
{
	unsigned char *p = anon(MIB);
	unsigned int tries;

	CLOSE_GATE();
	ASSERT_CU(cuMemsetD8Async(dp(p), 2, MIB, self->s));
	ASSERT_CU(cuStreamDestroy(self->s));
	OPEN_GATE();
	for (tries = 0; tries < 1000 && __atomic_load_n(p + MIB - 1, __ATOMIC_ACQUIRE) != 2; tries++)
		usleep(10000);
	EXPECT_TRUE(all_are(p, 2, MIB));
}

struct churn {
	unsigned char *p;
	int stop;
};

static void *churn_main(void *arg)
{
	struct churn *c = arg;
	unsigned int i = 0;

	while (!__atomic_load_n(&c->stop, __ATOMIC_RELAXED)) {
		size_t at = i++ % 8 * (MIB / 4);

		madvise(c->p + at, MIB / 4, MADV_DONTNEED);
		mprotect(c->p + at, MIB / 4, PROT_READ);
		mprotect(c->p + at, MIB / 4, RW);
		if (mmap(c->p + at, MIB / 4, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
		    MAP_FAILED)
			abort();
	}
	return NULL;
}

/* Another thread drops the pages all the time: work ends, with or without an error. */
TEST_F(pageable, pages_come_and_go)
{
	struct churn churn = { .p = anon(2 * MIB) };
	CUresult result = CUDA_SUCCESS;
	pthread_t thread;

	ASSERT_EQ(0, pthread_create(&thread, NULL, churn_main, &churn));
	for (unsigned int i = 0; !result && i < 30; i++) {
		result = cuMemcpyDtoDAsync(dp(churn.p), self->dev, 2 * MIB, self->s);
		if (!result)
			result = cuMemsetD8Async(dp(churn.p), 1, 2 * MIB, self->s);
		if (!result)
			result = cuMemcpyDtoDAsync(self->dev, dp(churn.p), 2 * MIB, self->s);
		if (!result)
			result = cuStreamSynchronize(self->s);
	}
	EXPECT_TRUE(result == CUDA_SUCCESS || result == CUDA_ERROR_ILLEGAL_ADDRESS);
	__atomic_store_n(&churn.stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
}

/* The process dies with work queued and under way; the teardown finds nothing left. */
TEST_F_SIGNAL(pageable, killed, SIGKILL)
{
	unsigned char *p = anon(64 * MIB);
	CUstream other;

	ASSERT_CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	CLOSE_GATE();
	for (unsigned int i = 0; i < 64; i++) {
		ASSERT_CU(cuMemcpyDtoDAsync(dp(p), self->dev, 4 * MIB, self->s));
		ASSERT_CU(cuMemsetD8Async(dp(p), i, 64 * MIB, other));
	}
	kill(getpid(), SIGKILL);
}

/* --- memory that other drivers may wait for */

TEST_F(pageable, exported)
{
	unsigned char *a = anon(16 * MIB), *b = anon(16 * MIB);
	CUDA_MEMCPY2D box = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = dp(a), .srcPitch = 3 * MIB / 2,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstPitch = 5000,
		.WidthInBytes = 4000, .Height = 10,
	};
	long long before = number_of("/sys/class/gpumem/pinned", "");
	CUdeviceptr p;
	int fd;

	ASSERT_CU(cuMemAlloc(&p, 16 * MIB));
	pattern(a, 16 * MIB, 3);
	/* It is exported while the copy is queued. */
	CLOSE_GATE();
	ASSERT_CU(cuMemcpyDtoDAsync(p, dp(a + 1), 16 * MIB - 1, self->s));
	fd = export_fd(p, 16 * MIB);
	ASSERT_LE(0, fd);
	OPEN_GATE();
	DONE();
	ASSERT_CU(cuMemcpyDtoDAsync(dp(b + 2), p, 16 * MIB - 2, self->s));
	DONE();
	EXPECT_EQ(0, memcmp(a + 1, b + 2, 16 * MIB - 2));
	/* Rows with holes between them. */
	for (unsigned int i = 0; i < 10; i++)
		munmap(a + i * 3 * MIB / 2 + MIB / 2, MIB / 2);
	box.dstDevice = p;
	ASSERT_CU(cuMemcpy2D(&box));
	ASSERT_CU(cuMemcpyDtoH(b, p, 50000));
	for (unsigned int i = 0; i < 10; i++)
		EXPECT_EQ(0, memcmp(b + 5000 * i, a + i * 3 * MIB / 2, 4000));
	/* Nothing stays pinned. */
	EXPECT_TRUE(pinned_becomes(before));
	close(fd);
}

TEST_F(pageable, exported_unmapped)
{
	unsigned char *a = anon(8 * MIB);
	int fd = export_fd(self->dev, 4 * MIB);

	ASSERT_LE(0, fd);
	CLOSE_GATE();
	ASSERT_CU(cuMemcpyDtoDAsync(self->dev, dp(a), 4 * MIB, self->s));
	munmap(a + MIB, MIB);
	OPEN_GATE();
	EXPECT_FAULT();
	close(fd);
}

/* The budget of pinned memory refuses the pages of a fenced copy. */
TEST_F(pageable, exported_beyond_the_budget)
{
	unsigned char *a = anon(4 * MIB);
	int fd = export_fd(self->dev, 4 * MIB);
	struct changed limit;

	ASSERT_LE(0, fd);
	ASSERT_TRUE(param_change(&limit, "pin_limit", 0));
	EXPECT_EQ(CUDA_ERROR_LAUNCH_FAILED, cuMemcpyDtoD(self->dev, dp(a), 4 * MIB));
	EXPECT_EQ(0, file_restore(&limit));
	close(fd);
}

TEST_HARNESS_MAIN
