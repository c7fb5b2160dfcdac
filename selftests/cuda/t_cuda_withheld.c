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

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], PEER_WORD))
		return peer_main();
	return test_harness_run(argc, argv);
}
