// SPDX-License-Identifier: GPL-2.0
/*
 * Tests withheld memory: device memory that is freed while a DMA-buf, a mapping of a DMA-buf or
 * another process still reaches it.  The library does not allocate it again, and it stays charged,
 * until the last of these is gone.  Then the next owner gets it zeroed.
 */
#include "kselftest_harness.h"
#include "cuda_util.h"

CONTEXT_FIXTURE(withheld)

#define SHARED		(64 * KIB)
#define PER_BLOCK	(2 * MIB / SHARED)

/*
 * Allocate @count times, which is more than a block has; true if no allocation overlaps @p, and all
 * are zero.  @p was just freed and is still reachable, and another allocation keeps its block
 * alive.
 */
static bool nobody_gets(CUdeviceptr p, CUdeviceptr *owners, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		if (cuMemAlloc(&owners[i], SHARED) || !sees(owners[i], 0, SHARED))
			return false;
		if (owners[i] < p + SHARED && p < owners[i] + SHARED)
			return false;
	}
	return true;
}

static bool all_zero(const CUdeviceptr *owners, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		if (!sees(owners[i], 0, SHARED))
			return false;
	}
	return true;
}

/* Whether one of as many allocations as fill a block gets @p again, zeroed. */
static bool somebody_gets(CUdeviceptr p)
{
	for (unsigned int i = 0; i < PER_BLOCK + 1; i++) {
		CUdeviceptr q;

		if (cuMemAlloc(&q, SHARED))
			return false;
		if (q == p)
			return sees(q, 0, SHARED);
	}
	return false;
}

enum { N = PER_BLOCK + 8 };	/* more allocations than a block has */

/* Allocate twice in one block; returns the second, or 0.  The first keeps the block alive. */
static CUdeviceptr two_allocations(void)
{
	CUdeviceptr keep, p;

	return cuMemAlloc(&keep, SHARED) || cuMemAlloc(&p, SHARED) ? 0 : p;
}

TEST_F(withheld, dmabuf)
{
	CUdeviceptr p = two_allocations(), owners[N];
	unsigned char *old;
	int fd = -1;

	ASSERT_NE(0, p);
	poke(p, 0x11, SHARED);
	ASSERT_CU(cuMemGetHandleForAddressRange(&fd, p, SHARED,
						CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	old = mmap(NULL, SHARED, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, old);
	EXPECT_TRUE(all_are(old, 0x11, SHARED));
	ASSERT_CU(cuMemFree(p));
	ASSERT_TRUE(nobody_gets(p, owners, N));
	memset(old, 0xee, SHARED);
	EXPECT_TRUE(all_zero(owners, N));
	EXPECT_EQ(4 * (long long)MIB, used(0));
	/* After the descriptor is closed, the mapping still reaches the pages. */
	close(fd);
	for (int i = 0; i < N; i++) {
		ASSERT_CU(cuMemFree(owners[i]));
	}
	ASSERT_TRUE(nobody_gets(p, owners, N));
	memset(old, 0xdd, SHARED);
	EXPECT_TRUE(all_zero(owners, N));
	munmap(old, SHARED);
	EXPECT_TRUE(somebody_gets(p));
	EXPECT_TRUE(all_zero(owners, N));
}

/* If one page of an allocation is exported, the whole allocation is withheld. */
TEST_F(withheld, one_page)
{
	CUdeviceptr p = two_allocations(), owners[N];
	unsigned char *old;
	int fd = -1;

	ASSERT_NE(0, p);
	ASSERT_CU(cuMemGetHandleForAddressRange(&fd, p + SHARED - page_size, page_size,
						CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	ASSERT_CU(cuMemFree(p));
	ASSERT_TRUE(nobody_gets(p, owners, N));
	old = mmap(NULL, page_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, old);
	memset(old, 0xee, page_size);
	EXPECT_TRUE(all_zero(owners, N));
	munmap(old, page_size);
	close(fd);
	EXPECT_TRUE(somebody_gets(p));
}

/*
 * The last allocation of a block, and an allocation with a bo of its own: the exported memory
 * itself stays allocated.
 */
TEST_F(withheld, exported_memory_outlives_its_block)
{
	const size_t sizes[] = { SHARED, 3 * MIB };

	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		unsigned char *old;
		CUdeviceptr p, q;
		int fd = -1;

		ASSERT_CU(cuMemAlloc(&p, sizes[i]));
		poke(p, 0x33, sizes[i]);
		ASSERT_CU(cuMemGetHandleForAddressRange(&fd, p, sizes[i],
							CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
		EXPECT_EQ((long long)sizes[i], lseek(fd, 0, SEEK_END));
		EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD));
		ASSERT_CU(cuMemFree(p));
		EXPECT_EQ((long long)whole_slots(sizes[i]), used(0));
		EXPECT_EQ(1, dev_attr(0, "exports"));
		ASSERT_CU(cuMemAlloc(&q, sizes[i]));
		EXPECT_TRUE(sees(q, 0, sizes[i]));
		old = mmap(NULL, sizes[i], PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		ASSERT_NE(MAP_FAILED, old);
		EXPECT_TRUE(all_are(old, 0x33, sizes[i]));
		memset(old, 0xee, sizes[i]);
		EXPECT_TRUE(sees(q, 0, sizes[i]));
		munmap(old, sizes[i]);
		ASSERT_CU(cuMemFree(q));
		EXPECT_EQ((long long)whole_slots(sizes[i]), used(0));
		close(fd);
		EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 10));
		EXPECT_TRUE(dev_attr_becomes(0, "exports", 0, 10));
	}
}

TEST_F(withheld, ipc)
{
	CUdeviceptr keep, p, theirs, owners[N];
	unsigned char want[64];
	CUipcMemHandle handle;
	struct peer peer;

	ASSERT_EQ(0, peer_start(&peer, NULL));
	ASSERT_CU(cuMemAlloc(&keep, SHARED));
	ASSERT_CU(cuMemAlloc(&p, SHARED));
	poke(p, 0x11, SHARED);
	memset(want, 0x11, sizeof(want));
	ASSERT_CU(cuIpcGetMemHandle(&handle, p));
	ASSERT_CU(peer_open(&peer, &handle, &theirs));
	ASSERT_CU(cuMemFree(p));
	ASSERT_TRUE(nobody_gets(p, owners, N));
	/* The importer reads on, and its writes do not reach another owner. */
	EXPECT_TRUE(peer_sees(&peer, theirs, want, sizeof(want)));
	EXPECT_CU(peer_put(&peer, PEER_WRITE, theirs, SHARED, 0xee));
	EXPECT_CU(peer_put(&peer, PEER_FILL, theirs, SHARED, 0xdd));
	EXPECT_TRUE(all_zero(owners, N));
	EXPECT_EQ(1, dev_attr(0, "views"));
	EXPECT_CU(peer_close(&peer, theirs));
	EXPECT_TRUE(dev_attr_becomes(0, "views", 0, 10));
	EXPECT_TRUE(somebody_gets(p));
	EXPECT_EQ(0, peer_end(&peer));
}

/* The same with an importer that is killed. */
TEST_F(withheld, ends_with_the_importer)
{
	CUdeviceptr keep, p, theirs, owners[N];
	CUipcMemHandle handle;
	struct peer peer;

	ASSERT_EQ(0, peer_start(&peer, NULL));
	ASSERT_CU(cuMemAlloc(&keep, SHARED));
	ASSERT_CU(cuMemAlloc(&p, SHARED));
	ASSERT_CU(cuIpcGetMemHandle(&handle, p));
	ASSERT_CU(peer_open(&peer, &handle, &theirs));
	ASSERT_CU(cuMemFree(p));
	ASSERT_TRUE(nobody_gets(p, owners, N));
	EXPECT_EQ(-SIGKILL, kill_child(peer.pid));
	EXPECT_TRUE(dev_attr_becomes(0, "views", 0, 10));
	EXPECT_TRUE(somebody_gets(p));
}

/* A token alone reaches nothing: without an importer the memory is free at once. */
TEST_F(withheld, no_quarantine_without_importer)
{
	CUdeviceptr keep, p, q;
	CUipcMemHandle handle;
	int fd = -1;

	ASSERT_CU(cuMemAlloc(&keep, SHARED));
	ASSERT_CU(cuMemAlloc(&p, SHARED));
	ASSERT_CU(cuIpcGetMemHandle(&handle, p));
	ASSERT_CU(cuMemFree(p));
	ASSERT_CU(cuMemAlloc(&q, SHARED));
	EXPECT_EQ(p, q);
	ASSERT_CU(cuMemGetHandleForAddressRange(&fd, q, SHARED,
						CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	close(fd);
	ASSERT_CU(cuMemFree(q));
	EXPECT_TRUE(somebody_gets(p));
}

/* --- DMA-bufs of ranges with several allocations */

static const CUmemRangeHandleType dmabuf = CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;

/* Three allocations that follow each other from the beginning of a block on. */
struct three {
	CUdeviceptr first, middle, last;
};

static CUresult three_allocations(struct three *t)
{
	CUresult result = cuMemAlloc(&t->first, 512);

	result = result ? result : cuMemAlloc(&t->middle, SHARED);
	return result ? result : cuMemAlloc(&t->last, SHARED);
}

static unsigned char *map_fd(int fd, size_t bytes)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

/* An allocation that another one's DMA-buf covers is withheld like the other one. */
TEST_F(withheld, covered)
{
	CUdeviceptr owners[N];
	unsigned char *old;
	struct three t;
	int fd = -1;

	ASSERT_CU(three_allocations(&t));
	ASSERT_EQ(t.first + 512, t.middle);
	poke(t.middle, 0x11, SHARED);
	poke(t.last, 0x22, SHARED);
	ASSERT_CU(cuMemGetHandleForAddressRange(&fd, t.first, 2 * SHARED + page_size, dmabuf, 0));
	old = map_fd(fd, 2 * SHARED + page_size);
	ASSERT_NE(MAP_FAILED, old);
	close(fd);
	EXPECT_TRUE(all_are(old + 512, 0x11, SHARED));
	EXPECT_TRUE(all_are(old + 512 + SHARED, 0x22, SHARED));
	ASSERT_CU(cuMemFree(t.middle));
	ASSERT_TRUE(nobody_gets(t.middle, owners, N));
	memset(old + 512, 0xee, SHARED);
	EXPECT_TRUE(all_zero(owners, N));
	EXPECT_TRUE(sees(t.last, 0x22, SHARED));
	munmap(old, 2 * SHARED + page_size);
	EXPECT_TRUE(somebody_gets(t.middle));
}

/* Nor do allocations get free memory that the range covers, and they find it zeroed afterwards. */
TEST_F(withheld, covered_free_memory)
{
	CUdeviceptr p, q, owners[N];
	unsigned char *old;
	int fd = -1;

	ASSERT_CU(cuMemAlloc(&p, 512));
	ASSERT_CU(cuMemAlloc(&q, SHARED));
	ASSERT_CU(cuMemFree(q));
	ASSERT_CU(cuMemGetHandleForAddressRange(&fd, p, 2 * MIB, dmabuf, 0));
	old = map_fd(fd, 2 * MIB);
	ASSERT_NE(MAP_FAILED, old);
	close(fd);
	for (unsigned int i = 0; i < N; i++) {
		ASSERT_CU(cuMemAlloc(&owners[i], SHARED));
		EXPECT_NE(p & ~(2 * MIB - 1), owners[i] & ~(2 * MIB - 1));
	}
	memset(old, 0xee, 2 * MIB);
	EXPECT_TRUE(all_zero(owners, N));
	munmap(old, 2 * MIB);
	EXPECT_TRUE(somebody_gets(q));
}

/* A page that several allocations share: the range has one page, and all of them are withheld. */
TEST_F(withheld, covered_page)
{
	CUdeviceptr p[9], q, keep;
	unsigned char *old;
	int fd = -1;

	ASSERT_CU(cuMemAlloc(&keep, SHARED));
	for (int i = 0; i < 9; i++) {
		ASSERT_CU(cuMemAlloc(&p[i], 512));
		poke(p[i], i + 1, 512);
	}
	ASSERT_EQ(0, p[0] % page_size);
	ASSERT_CU(cuMemGetHandleForAddressRange(&fd, p[0], page_size, dmabuf, 0));
	old = map_fd(fd, page_size);
	ASSERT_NE(MAP_FAILED, old);
	close(fd);
	for (int i = 1; i < 9; i++)
		ASSERT_CU(cuMemFree(p[i]));
	/* The last one is on the next page. */
	ASSERT_CU(cuMemAlloc(&q, 512));
	EXPECT_EQ(p[8], q);
	for (int i = 1; i < 8; i++)
		EXPECT_TRUE(all_are(old + 512 * i, i + 1, 512));
	munmap(old, page_size);
	ASSERT_CU(cuMemFree(q));
}

/* What is freed in the order of a stream is covered until the stream has reached the free, and withheld then. */
TEST_F(withheld, covered_and_freed_late)
{
	CUdeviceptr owners[N];
	unsigned char *old;
	struct load load;
	CUstream stream;
	struct three t;
	int fd = -1;

	ASSERT_CU(load_make(&load));
	ASSERT_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(three_allocations(&t));
	ASSERT_EQ(CUDA_ERROR_NOT_READY, load_put_busy(&load, stream));
	ASSERT_CU(cuMemFreeAsync(t.middle, stream));
	ASSERT_CU(cuMemGetHandleForAddressRange(&fd, t.first, 2 * SHARED + page_size, dmabuf, 0));
	old = map_fd(fd, 2 * SHARED + page_size);
	ASSERT_NE(MAP_FAILED, old);
	close(fd);
	ASSERT_CU(cuStreamSynchronize(stream));
	ASSERT_TRUE(nobody_gets(t.middle, owners, N));
	memset(old + 512, 0xee, SHARED);
	EXPECT_TRUE(all_zero(owners, N));
	munmap(old, 2 * SHARED + page_size);
	EXPECT_TRUE(somebody_gets(t.middle));
}

static CUresult peer_alloc(struct peer *peer, size_t bytes, CUdeviceptr *ptr)
{
	struct peer_message m = { .op = PEER_ALLOC, .bytes = bytes };
	CUresult result = peer_call(peer, &m);

	*ptr = m.ptr;
	return result;
}

static CUresult peer_handle(struct peer *peer, CUdeviceptr ptr, CUipcMemHandle *handle)
{
	struct peer_message m = { .op = PEER_GET, .ptr = ptr };
	CUresult result = peer_call(peer, &m);

	*handle = m.handle;
	return result;
}

/* If all allocations of a block are freed, another process gets other memory, and nothing leaks. */
TEST_F(withheld, covered_block)
{
	unsigned char *old, zero[4096] = { 0 };
	CUdeviceptr theirs;
	struct peer peer;
	struct three t;
	int fd = -1;

	ASSERT_EQ(0, peer_start(&peer, NULL));
	ASSERT_CU(three_allocations(&t));
	poke(t.last, 0x22, SHARED);
	ASSERT_CU(cuMemGetHandleForAddressRange(&fd, t.first, 2 * MIB, dmabuf, 0));
	old = map_fd(fd, 2 * MIB);
	ASSERT_NE(MAP_FAILED, old);
	ASSERT_CU(cuMemFree(t.first));
	ASSERT_CU(cuMemFree(t.middle));
	ASSERT_CU(cuMemFree(t.last));
	EXPECT_EQ(2 * (long long)MIB, used(0));
	EXPECT_EQ(2 * (off_t)MIB, lseek(fd, 0, SEEK_END));
	EXPECT_TRUE(all_are(old + 512 + SHARED, 0x22, SHARED));
	EXPECT_CU(peer_alloc(&peer, 2 * MIB, &theirs));
	EXPECT_EQ(4 * (long long)MIB, used(0));
	memset(old, 0xee, 2 * MIB);
	EXPECT_TRUE(peer_sees(&peer, theirs, zero, sizeof(zero)));
	EXPECT_EQ(0, peer_end(&peer));
	EXPECT_TRUE(dev_attr_becomes(0, "used", 2 * MIB, 10));
	munmap(old, 2 * MIB);
	close(fd);
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 10));
	EXPECT_TRUE(dev_attr_becomes(0, "exports", 0, 10));
}

/* Two of @n allocations of @bytes, whose blocks follow each other; 0: there are none. */
static CUdeviceptr neighbours(const CUdeviceptr *p, unsigned int n, size_t bytes)
{
	for (unsigned int i = 0; i < n; i++)
		for (unsigned int j = 0; j < n; j++)
			if (p[j] == p[i] + bytes)
				return p[i];
	return 0;
}

/* A range over two blocks reaches the bytes of both, and keeps both. */
TEST_F(withheld, covered_blocks)
{
	CUdeviceptr p[4], q, again;
	unsigned char *old;
	int fd = -1;

	for (int i = 0; i < 4; i++)
		ASSERT_CU(cuMemAlloc(&p[i], 3 * MIB));
	q = neighbours(p, 4, 4 * MIB);
	ASSERT_NE(0, q);
	poke(q, 0x11, 3 * MIB);
	poke(q + 4 * MIB, 0x22, 3 * MIB);
	ASSERT_CU(cuMemGetHandleForAddressRange(&fd, q + MIB, 5 * MIB, dmabuf, 0));
	EXPECT_EQ(5 * (off_t)MIB, lseek(fd, 0, SEEK_END));
	old = map_fd(fd, 5 * MIB);
	ASSERT_NE(MAP_FAILED, old);
	close(fd);
	EXPECT_TRUE(all_are(old, 0x11, 2 * MIB));
	EXPECT_TRUE(all_are(old + 2 * MIB, 0, MIB));
	EXPECT_TRUE(all_are(old + 3 * MIB, 0x22, 2 * MIB));
	/* Copies see what others write. */
	memset(old + 3 * MIB, 0x44, MIB);
	EXPECT_TRUE(sees(q + 4 * MIB, 0x44, MIB));
	for (int i = 0; i < 4; i++)
		ASSERT_CU(cuMemFree(p[i]));
	EXPECT_EQ(8 * (long long)MIB, used(0));
	ASSERT_CU(cuMemAlloc(&again, 7 * MIB));
	memset(old, 0xee, 5 * MIB);
	EXPECT_TRUE(sees(again, 0, 7 * MIB));
	ASSERT_CU(cuMemFree(again));
	munmap(old, 5 * MIB);
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 10));
	EXPECT_TRUE(dev_attr_becomes(0, "exports", 0, 10));
}

/* Arrays are not in blocks that a range reaches. */
TEST_F(withheld, arrays_are_not_covered)
{
	CUDA_ARRAY_DESCRIPTOR d = { .Width = 4096, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1 };
	unsigned char text[4096];
	unsigned char *all;
	CUdeviceptr p;
	CUarray array;
	int fd = -1;

	memset(text, 0x5a, sizeof(text));
	ASSERT_CU(cuMemAlloc(&p, 512));
	ASSERT_CU(cuArrayCreate(&array, &d));
	ASSERT_CU(cuMemcpyHtoA(array, 0, text, sizeof(text)));
	ASSERT_CU(cuMemGetHandleForAddressRange(&fd, p & ~(2 * MIB - 1), 2 * MIB, dmabuf, 0));
	all = map_fd(fd, 2 * MIB);
	ASSERT_NE(MAP_FAILED, all);
	close(fd);
	EXPECT_EQ(NULL, memmem(all, 2 * MIB, text, 64));
	munmap(all, 2 * MIB);
	ASSERT_CU(cuArrayDestroy(array));
}

/* Memory that others gave this process, and pools, are covered by no range of other memory. */
TEST_F(withheld, not_covered)
{
	CUdeviceptr theirs, p[4];
	CUipcMemHandle handle;
	struct peer peer;
	CUstream stream;
	int fd = -1;

	ASSERT_EQ(0, peer_start(&peer, NULL));
	ASSERT_CU(peer_alloc(&peer, 3 * MIB, &theirs));
	ASSERT_CU(peer_handle(&peer, theirs, &handle));
	ASSERT_CU(cuIpcOpenMemHandle(&p[0], handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemGetHandleForAddressRange(&fd, p[0], page_size, dmabuf, 0));
	for (int i = 1; i < 4; i++)
		ASSERT_CU(cuMemAlloc(&p[i], 3 * MIB));
	for (int i = 1; i < 4; i++) {
		if (p[i] + 4 * MIB == p[0])
			EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
				  cuMemGetHandleForAddressRange(&fd, p[i], 5 * MIB, dmabuf, 0));
		ASSERT_CU(cuMemFree(p[i]));
	}
	ASSERT_CU(cuIpcCloseMemHandle(p[0]));
	EXPECT_EQ(0, peer_end(&peer));
	ASSERT_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuMemAllocAsync(&p[0], SHARED, stream));
	ASSERT_CU(cuMemAllocAsync(&p[1], SHARED, stream));
	EXPECT_EQ(p[0] + SHARED, p[1]);
	EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemGetHandleForAddressRange(&fd, p[0], 2 * SHARED, dmabuf, 0));
	ASSERT_CU(cuMemGetHandleForAddressRange(&fd, p[1] + page_size, page_size, dmabuf, 0));
	close(fd);
	ASSERT_CU(cuMemFreeAsync(p[0], stream));
	ASSERT_CU(cuMemFreeAsync(p[1], stream));
	ASSERT_CU(cuStreamSynchronize(stream));
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], PEER_WORD))
		return peer_main();
	return test_harness_run(argc, argv);
}
