// SPDX-License-Identifier: GPL-2.0
/*
 * Advice about managed memory: where a touch makes blocks resident, in which order a device evicts
 * them, and which advice is refused.
 */
#include "kselftest_harness.h"
#include "common/util.h"
#include "advice_util.h"

#define FILL_ON(stream, addr, value, bytes) \
	execute((stream), sqe_fill((addr), 1, (value), (bytes)))

/* Blocks that prefer the host do not become resident, unless a prefetch says so. */
TEST_F(managed, prefers_host)
{
	const __u64 length = 3 * BLOCK + page_size;
	__u32 id = MAKE(length, ADDR);
	unsigned char *p = gp_map(self->fd, id, 0, length, RW);

	ASSERT_NE(NULL, p);
	/* Nothing exists yet.  The range has one whole block. */
	ASSERT_EQ(0, ADVISE(id, 1, 3 * BLOCK - 2, PREFERRED, GPUMEM_ADVICE_HOST));
	ASSERT_EQ(0, FILL(ADDR, 1, length));
	EXPECT_EQ(2 * BLOCK + page_size, resident(self->fd, id));
	EXPECT_TRUE(all_are(p, 1, length));
	EXPECT_TRUE(number_becomes("/sys/class/gpumem/pinned", 0));
	/* The last block is short.  Advice moves nothing, and neither does a touch. */
	ASSERT_EQ(0, ADVISE(id, 3 * BLOCK, page_size, PREFERRED, GPUMEM_ADVICE_HOST));
	EXPECT_EQ(2 * BLOCK + page_size, resident(self->fd, id));
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, length, GPUMEM_PREFETCH_HOST)));
	ASSERT_EQ(0, FILL(ADDR + 2, 2, length - 2));
	EXPECT_EQ(2 * BLOCK, resident(self->fd, id));
	/* A prefetch makes them resident, and a touch leaves them there. */
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, length, GPUMEM_PREFETCH_DEVICE)));
	EXPECT_EQ(length, resident(self->fd, id));
	ASSERT_EQ(0, FILL(ADDR + 3, 3, length - 3));
	EXPECT_EQ(length, resident(self->fd, id));
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, length, GPUMEM_PREFETCH_HOST)));
	ASSERT_EQ(0, FILL(ADDR + 3, 3, length - 3));
	EXPECT_EQ(2 * BLOCK, resident(self->fd, id));
	/* No preference any more. */
	ASSERT_EQ(0, ADVISE(id, 0, length, PREFERRED, GPUMEM_ADVICE_NONE));
	ASSERT_EQ(0, FILL(ADDR + 3, 3, length - 3));
	EXPECT_EQ(length, resident(self->fd, id));
	EXPECT_TRUE(all_are(p + 3, 3, length - 3));
	EXPECT_EQ(2, p[2]);
	EXPECT_EQ(1, p[1]);
}

/* A block that may neither be pinned nor prefers to be resident becomes resident. */
TEST_F(managed, prefers_host_without_budget)
{
	__u32 id = MAKE(BLOCK, ADDR);

	ASSERT_NE(0, id);
	ASSERT_EQ(0, ADVISE(id, 0, BLOCK, PREFERRED, GPUMEM_ADVICE_HOST));
	ASSERT_EQ(0, set_param("pin_limit", 1));
	ASSERT_EQ(0, FILL(ADDR, 1, BLOCK));
	EXPECT_EQ(1, RESIDENT(id));
}

/* The order of eviction: who prefers another place, who prefers nothing, who prefers the device. */
TEST_F(managed, advised_order)
{
	__u32 id[BLOCKS + 3];

	for (unsigned int i = 0; i < BLOCKS + 3; i++) {
		id[i] = MAKE(BLOCK, ADDR + i * BLOCK);
		ASSERT_NE(0, id[i]);
	}
	ASSERT_EQ(0, ADVISE(id[0], 0, BLOCK, PREFERRED, 0));
	for (unsigned int i = 0; i < BLOCKS; i++)
		ASSERT_EQ(0, FILL(ADDR + i * BLOCK, i + 1, BLOCK));
	/* Block 5 is not in use when it is advised. */
	ASSERT_EQ(0, ADVISE(id[5], 0, BLOCK, PREFERRED, GPUMEM_ADVICE_HOST));
	ASSERT_EQ(0, FILL(ADDR + 5 * BLOCK, 1, BLOCK));
	ASSERT_EQ(0, FILL(ADDR + BLOCKS * BLOCK, 1, BLOCK));
	EXPECT_EQ(0, RESIDENT(id[5]));
	ASSERT_EQ(0, FILL(ADDR + (BLOCKS + 1) * BLOCK, 1, BLOCK));
	EXPECT_EQ(0, RESIDENT(id[1]));
	EXPECT_EQ(1, RESIDENT(id[0]));
	EXPECT_EQ((long long)(BLOCKS * BLOCK), dev_attr(0, "used"));
	/* If all blocks prefer the device, the oldest goes. */
	for (unsigned int i = 0; i < BLOCKS + 3; i++)
		ASSERT_EQ(0, ADVISE(id[i], 0, BLOCK, PREFERRED, 0));
	ASSERT_EQ(0, FILL(ADDR, 1, BLOCK));
	ASSERT_EQ(0, FILL(ADDR + (BLOCKS + 2) * BLOCK, 1, BLOCK));
	EXPECT_EQ(1, RESIDENT(id[BLOCKS + 2]));
	EXPECT_EQ(1, RESIDENT(id[0]));
	EXPECT_EQ(0, RESIDENT(id[2]));
	EXPECT_EQ((long long)(BLOCKS * BLOCK), dev_attr(0, "used"));
}

/* A block becomes resident on the device that it prefers, whoever touches it. */
TEST_F(managed, prefers_device)
{
	struct second second;
	__u32 id, bo;

	if (dev_count() < 2)
		SKIP(return, "one device");
	ASSERT_EQ(0, second_open(self->fd, self->vm, &second));
	id = make_for_both(self->fd, self->vm, 3 * BLOCK, ADDR);
	ASSERT_NE(0, id);
	ASSERT_EQ(0, ADVISE(id, BLOCK, BLOCK, PREFERRED, 0));
	ASSERT_EQ(0, FILL_ON(&second.s, ADDR, 1, 3 * BLOCK));
	EXPECT_EQ(1, blocks_on(0));
	EXPECT_EQ(2, blocks_on(1));
	/* Once there, it stays: a touch moves only the other blocks. */
	ASSERT_EQ(0, ADVISE(id, 0, BLOCK, PREFERRED, 1));
	ASSERT_EQ(0, FILL(ADDR, 2, 3 * BLOCK));
	EXPECT_EQ(2, blocks_on(0));
	EXPECT_EQ(1, blocks_on(1));
	/* A prefetch moves it, and the device that has it works on it there. */
	ASSERT_EQ(0, execute(&second.s, sqe_prefetch(ADDR + BLOCK, BLOCK, 0)));
	EXPECT_EQ(1, blocks_on(0));
	EXPECT_EQ(2, blocks_on(1));
	ASSERT_EQ(0, FILL_ON(&second.s, ADDR + BLOCK, 3, BLOCK));
	EXPECT_EQ(2, blocks_on(1));
	/* Without room on the preferred device it becomes resident on the toucher's. */
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, 3 * BLOCK, GPUMEM_PREFETCH_HOST)));
	ASSERT_EQ(0, gp_bo_alloc(self->fd, BLOCKS * BLOCK, &bo));
	ASSERT_EQ(0, FILL_ON(&second.s, ADDR + BLOCK, 4, BLOCK));
	EXPECT_EQ(0, blocks_on(0));
	EXPECT_EQ(1, blocks_on(1));
	EXPECT_EQ(0, stream_close(&second.s));
	close(second.fd);
}

/* A device of GPUMEM_ADVICE_ACCESSED_BY leaves a resident block where it is. */
TEST_F(managed, accessed_by)
{
	struct second second;
	unsigned char *p;
	__u32 id, written;

	if (dev_count() < 2)
		SKIP(return, "one device");
	ASSERT_EQ(0, second_open(self->fd, self->vm, &second));
	id = make_for_both(self->fd, self->vm, 2 * BLOCK, ADDR);
	ASSERT_NE(0, id);
	ASSERT_EQ(0, ADVISE(id, 0, 2 * BLOCK, ACCESSED_BY, 1));
	ASSERT_EQ(0, FILL(ADDR, 1, BLOCK));
	ASSERT_EQ(0, FILL_ON(&second.s, ADDR, 2, 2 * BLOCK));
	EXPECT_EQ(1, blocks_on(0));
	EXPECT_EQ(1, blocks_on(1));
	/* What the CPU wrote first stays in the system's memory. */
	written = make_for_both(self->fd, self->vm, BLOCK, OTHER);
	ASSERT_NE(0, written);
	ASSERT_EQ(0, ADVISE(written, 0, BLOCK, ACCESSED_BY, 1));
	p = gp_map(self->fd, written, 0, BLOCK, RW);
	ASSERT_NE(NULL, p);
	p[0] = 1;
	ASSERT_EQ(0, FILL_ON(&second.s, OTHER, 2, BLOCK));
	EXPECT_EQ(0, RESIDENT(written));
	EXPECT_TRUE(all_are(p, 2, BLOCK));
	/* So does what was evicted. */
	ASSERT_EQ(0, execute(&second.s, sqe_prefetch(ADDR, 2 * BLOCK, GPUMEM_PREFETCH_HOST)));
	ASSERT_EQ(0, FILL_ON(&second.s, ADDR, 2, 2 * BLOCK));
	EXPECT_EQ(0, blocks_on(0));
	EXPECT_EQ(0, blocks_on(1));
	/* Nothing is said about device 0. */
	ASSERT_EQ(0, FILL(ADDR, 3, 2 * BLOCK));
	EXPECT_EQ(2, blocks_on(0));
	/* The preferred location is another advice. */
	ASSERT_EQ(0, ADVISE(id, 0, 2 * BLOCK, PREFERRED, GPUMEM_ADVICE_NONE));
	ASSERT_EQ(0, FILL_ON(&second.s, ADDR, 2, BLOCK));
	EXPECT_EQ(2, blocks_on(0));
	ASSERT_EQ(0, ADVISE(id, 0, BLOCK, NOT_ACCESSED_BY, 1));
	ASSERT_EQ(0, FILL_ON(&second.s, ADDR, 2, 2 * BLOCK));
	EXPECT_EQ(1, blocks_on(0));
	EXPECT_EQ(1, blocks_on(1));
	EXPECT_EQ(0, stream_close(&second.s));
	close(second.fd);
}

TEST_F(managed, bad_advice)
{
	__u32 id = MAKE(2 * BLOCK, ADDR), bo;

	ASSERT_NE(0, id);
	ASSERT_EQ(0, gp_bo_alloc(self->fd, BLOCK, &bo));
	EXPECT_EQ(-EOPNOTSUPP, ADVISE(bo, 0, BLOCK, PREFERRED, 0));
	EXPECT_EQ(-ENOENT, ADVISE(self->vm, 0, BLOCK, PREFERRED, 0));
	EXPECT_EQ(-ENOENT, ADVISE(0, 0, BLOCK, PREFERRED, 0));
	EXPECT_EQ(-EINVAL, ADVISE(id, 0, 0, PREFERRED, 0));
	EXPECT_EQ(-EOVERFLOW, ADVISE(id, 0, 2 * BLOCK + 1, PREFERRED, 0));
	EXPECT_EQ(-EOVERFLOW, ADVISE(id, 2 * BLOCK, 1, PREFERRED, 0));
	EXPECT_EQ(-EOVERFLOW, ADVISE(id, BLOCK, ~0ULL, PREFERRED, 0));
	EXPECT_EQ(-EOVERFLOW, ADVISE(id, ~0ULL, 2, PREFERRED, 0));
	EXPECT_EQ(-EACCES, ADVISE(id, 0, BLOCK, PREFERRED, 1));
	EXPECT_EQ(-EACCES, ADVISE(id, 0, BLOCK, PREFERRED, GPUMEM_MAX_DEVICES));
	EXPECT_EQ(-EACCES, ADVISE(id, 0, BLOCK, ACCESSED_BY, 1));
	EXPECT_EQ(-EACCES, ADVISE(id, 0, BLOCK, ACCESSED_BY, GPUMEM_ADVICE_HOST));
	EXPECT_EQ(-EACCES, ADVISE(id, 0, BLOCK, NOT_ACCESSED_BY, GPUMEM_ADVICE_NONE));
	EXPECT_EQ(-EOPNOTSUPP, gp_bo_advise(self->fd, id, 0, BLOCK, 0, 0));
	EXPECT_EQ(-EOPNOTSUPP, gp_bo_advise(self->fd, id, 0, BLOCK, 7, 0));
	EXPECT_EQ(-EINVAL, ADVISE(id, 0, BLOCK, READ_MOSTLY, 0));
	EXPECT_EQ(-EINVAL, ADVISE(id, 0, BLOCK, NOT_READ_MOSTLY, GPUMEM_ADVICE_HOST));
	EXPECT_EQ(-EOPNOTSUPP, ADVISE(bo, 0, BLOCK, TOUCHED, 0));
	EXPECT_EQ(-ENOENT, ADVISE(self->vm, 0, BLOCK, TOUCHED, 0));
	EXPECT_EQ(-EINVAL, ADVISE(id, 0, 0, TOUCHED, 0));
	EXPECT_EQ(-EINVAL, ADVISE(id, 0, BLOCK + 1, TOUCHED, 0));
	EXPECT_EQ(-EINVAL, ADVISE(id, BLOCK - 1, 2, TOUCHED, 0));
	EXPECT_EQ(-EOVERFLOW, ADVISE(id, 2 * BLOCK, 1, TOUCHED, 0));
	EXPECT_EQ(-EOVERFLOW, ADVISE(id, ~0ULL, 2, TOUCHED, 0));
	EXPECT_EQ(-EACCES, ADVISE(id, 0, BLOCK, TOUCHED, 1));
	EXPECT_EQ(-EACCES, ADVISE(id, 0, BLOCK, TOUCHED, GPUMEM_ADVICE_HOST));
	EXPECT_EQ(0, RESIDENT(id));
	/* None of these said anything. */
	ASSERT_EQ(0, FILL(ADDR, 1, 2 * BLOCK));
	EXPECT_EQ(2, RESIDENT(id));
}

TEST_HARNESS_MAIN
