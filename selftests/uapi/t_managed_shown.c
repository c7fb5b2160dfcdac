// SPDX-License-Identifier: GPL-2.0
/*
 * Residency words: what a client learns about its blocks of managed memory, and when a word shows none.  What the
 * kernel does when a client says that it touched a block (GPUMEM_ADVICE_TOUCHED).
 */
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/gpumem_netlink.h>

#include "kselftest_harness.h"
#include "common/util.h"
#include "managed_util.h"

#define WORDS_BYTES	(GPUMEM_RESIDENT_WORDS * sizeof(__u64))
#define NEXT		8		/* blocks that an eviction marks as the next ones */
#define AGED		((int)GPUMEM_RESIDENT_AGED)
#define EVICTED		((int)GPUMEM_RESIDENT_EVICTED)

static size_t words_length(void)
{
	return (WORDS_BYTES + page_size - 1) / page_size * page_size;
}

static const volatile __u64 *words_map(int fd)
{
	void *p = mmap(NULL, words_length(), PROT_READ, MAP_SHARED, fd, GPUMEM_MMAP_RESIDENT);

	return p == MAP_FAILED ? NULL : p;
}

/* The place that a block's word shows: of device 0 it is 0, AGED or EVICTED.  -1 if it shows another block or none. */
static int shown(const volatile __u64 *words, __u32 id, __u64 block)
{
	__u64 at = words[GPUMEM_RESIDENT_WORD(id, block)] - GPUMEM_RESIDENT_TAG(id, block, 0);

	return at < 0xff ? (int)at : -1;
}

#define SHOWN(id, block) shown(words, (id), (block))

static int map_error(int fd, size_t length, int prot, int flags, __u64 offset)
{
	void *p = mmap(NULL, length, prot, flags, fd, offset);

	if (p == MAP_FAILED)
		return errno;
	munmap(p, length);
	return 0;
}

/* What may be mapped, and how. */
TEST_F(managed, map_words)
{
	const size_t length = words_length();
	const volatile __u64 *words;
	int fds[2], status;
	pid_t child;

	/* There are no words before there is managed memory. */
	EXPECT_EQ(ENXIO, map_error(self->fd, length, PROT_READ, MAP_SHARED, GPUMEM_MMAP_RESIDENT));
	ASSERT_NE(0, MAKE(BLOCK, ADDR));
	EXPECT_EQ(EACCES, map_error(self->fd, length, RW, MAP_SHARED, GPUMEM_MMAP_RESIDENT));
	EXPECT_EQ(EACCES, map_error(self->fd, length, PROT_READ | PROT_EXEC, MAP_SHARED,
				    GPUMEM_MMAP_RESIDENT));
	EXPECT_EQ(EINVAL, map_error(self->fd, length, PROT_READ, MAP_PRIVATE,
				    GPUMEM_MMAP_RESIDENT));
	EXPECT_EQ(EINVAL, map_error(self->fd, length + page_size, PROT_READ, MAP_SHARED,
				    GPUMEM_MMAP_RESIDENT));
	EXPECT_EQ(EINVAL, map_error(self->fd, length, PROT_READ, MAP_SHARED,
				    GPUMEM_MMAP_RESIDENT + page_size));
	words = words_map(self->fd);
	ASSERT_NE(NULL, words);
	EXPECT_EQ(-1, mprotect((void *)words, length, RW));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(MAP_FAILED, mremap((void *)words, length, 2 * length, MREMAP_MAYMOVE));
	for (unsigned int i = 0; i < GPUMEM_RESIDENT_WORDS; i++)
		ASSERT_EQ(0, words[i]);
	/* A child has no mapping: a system call that reads it fails. */
	ASSERT_EQ(0, pipe(fds));
	child = fork();
	if (!child)
		_exit(write(fds[1], (const void *)words, 8) < 0 && errno == EFAULT ? 0 : 1);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	close(fds[0]);
	close(fds[1]);
}

/* A word shows a block from its first use by an engine until it is no longer resident. */
TEST_F(managed, shown_while_resident)
{
	const __u64 length = 3 * BLOCK + page_size;
	__u32 id = MAKE(length, ADDR), other = MAKE(BLOCK, OTHER);
	const volatile __u64 *words = words_map(self->fd);
	unsigned char *p = gp_map(self->fd, id, 0, length, RW);

	ASSERT_NE(NULL, words);
	ASSERT_NE(NULL, p);
	/* A touch by the CPU makes nothing resident. */
	memset(p, 1, length);
	for (unsigned int i = 0; i < 4; i++)
		EXPECT_EQ(-1, SHOWN(id, i));
	ASSERT_EQ(0, FILL(ADDR + BLOCK, 1, 1));
	ASSERT_EQ(0, FILL(ADDR + 3 * BLOCK, 1, page_size));
	EXPECT_EQ(-1, SHOWN(id, 0));
	EXPECT_EQ(0, SHOWN(id, 1));
	EXPECT_EQ(-1, SHOWN(id, 2));
	EXPECT_EQ(0, SHOWN(id, 3));
	EXPECT_EQ(-1, SHOWN(other, 0));
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, length, GPUMEM_PREFETCH_DEVICE)));
	for (unsigned int i = 0; i < 4; i++)
		EXPECT_EQ(0, SHOWN(id, i));
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, 2 * BLOCK, GPUMEM_PREFETCH_HOST)));
	EXPECT_EQ(-1, SHOWN(id, 0));
	EXPECT_EQ(-1, SHOWN(id, 1));
	EXPECT_EQ(0, SHOWN(id, 2));
	/* Memory that prefers the host, and is used there, is not shown. */
	ASSERT_EQ(0, gp_bo_advise(self->fd, other, 0, BLOCK, GPUMEM_ADVICE_PREFERRED,
				  GPUMEM_ADVICE_HOST));
	ASSERT_EQ(0, FILL(OTHER, 1, BLOCK));
	EXPECT_EQ(-1, SHOWN(other, 0));
}

/* The words of memory that is freed, or has lost its id, show nothing. */
TEST_F(managed, not_shown_when_freed)
{
	const volatile __u64 *words;
	__u32 id = MAKE(2 * BLOCK, ADDR), again;
	unsigned char *p;

	words = words_map(self->fd);
	ASSERT_NE(NULL, words);
	p = gp_map(self->fd, id, 0, 2 * BLOCK, RW);
	ASSERT_NE(NULL, p);
	ASSERT_EQ(0, FILL(ADDR, 1, 2 * BLOCK));
	EXPECT_EQ(0, SHOWN(id, 1));
	/* The mapping keeps the memory; an engine can still reach it, too. */
	ASSERT_EQ(0, gp_destroy(self->fd, id));
	EXPECT_EQ(-1, SHOWN(id, 0));
	EXPECT_EQ(-1, SHOWN(id, 1));
	ASSERT_EQ(0, FILL(ADDR, 2, 2 * BLOCK));
	EXPECT_EQ(2, p[BLOCK]);
	EXPECT_EQ(-1, SHOWN(id, 0));
	munmap(p, 2 * BLOCK);
	/* Without an id in between, by the last reference. */
	again = MAKE(BLOCK, OTHER);
	ASSERT_EQ(0, FILL(OTHER, 1, BLOCK));
	EXPECT_EQ(0, SHOWN(again, 0));
	ASSERT_EQ(0, gp_vm_unmap(self->fd, self->vm, OTHER, BLOCK, NULL));
	EXPECT_EQ(0, SHOWN(again, 0));
	ASSERT_EQ(0, gp_destroy(self->fd, again));
	EXPECT_EQ(-1, SHOWN(again, 0));
}

/* Memory of twice the device's size, of which the first half was evicted.  Returns its id, or 0. */
static __u32 make_evicted(int fd, __u32 vm, struct stream *s)
{
	__u32 id = make(fd, vm, 2 * BLOCKS * BLOCK, ADDR);

	for (unsigned int i = 0; id && i < 2 * BLOCKS; i++)
		if (execute(s, sqe_fill(ADDR + i * BLOCK, 1, 1 + i, BLOCK)))
			return 0;
	return id;
}

#define MAKE_EVICTED() make_evicted(self->fd, self->vm, &self->s)

/*
 * An eviction marks the blocks that are next.  A use of a marked block, by an engine or by the CPU, shows it as any
 * resident block, and it is not next any more.
 */
TEST_F(managed, marked_before_eviction)
{
	__u32 id = MAKE(4 * BLOCKS * BLOCK, ADDR);
	const volatile __u64 *words = words_map(self->fd);
	unsigned int i;
	char size[32];

	ASSERT_NE(NULL, words);
	/* Room for more blocks than an eviction marks. */
	snprintf(size, sizeof(size), "%llu", 2 * BLOCKS * BLOCK);
	ASSERT_EQ(0, write_dev_attr(0, "size", size));
	for (i = 0; i < 2 * BLOCKS; i++)
		ASSERT_EQ(0, FILL(ADDR + i * BLOCK, 1, BLOCK));
	for (i = 0; i < 2 * BLOCKS; i++)
		EXPECT_EQ(0, SHOWN(id, i));
	/* The oldest block is evicted. */
	ASSERT_EQ(0, FILL(ADDR + 2 * BLOCKS * BLOCK, 1, BLOCK));
	EXPECT_EQ(2 * BLOCKS, RESIDENT(id));
	EXPECT_EQ(swap_is_used() ? -1 : EVICTED, SHOWN(id, 0));
	for (i = 1; i < 1 + NEXT; i++)
		EXPECT_EQ(AGED, SHOWN(id, i));
	for (; i <= 2 * BLOCKS; i++)
		EXPECT_EQ(0, SHOWN(id, i));
	/* Blocks 1 and 2, which were the next victims, are used. */
	ASSERT_EQ(0, FILL(ADDR + BLOCK, 2, 1));
	EXPECT_EQ(0, SHOWN(id, 1));
	ASSERT_EQ(0, gp_bo_advise(self->fd, id, 3 * BLOCK - 1, 1, GPUMEM_ADVICE_TOUCHED, 0));
	EXPECT_EQ(0, SHOWN(id, 2));
	EXPECT_EQ(AGED, SHOWN(id, 3));
	ASSERT_EQ(0, FILL(ADDR + (2 * BLOCKS + 1) * BLOCK, 1, BLOCK));
	EXPECT_EQ(0, SHOWN(id, 1));
	EXPECT_EQ(0, SHOWN(id, 2));
	EXPECT_EQ(swap_is_used() ? -1 : EVICTED, SHOWN(id, 3));
	EXPECT_EQ(2 * BLOCKS, RESIDENT(id));
}

/* A block that made room is shown until it is touched, or a program says where it is to be. */
TEST_F(managed, shown_when_evicted)
{
	__u32 id = MAKE_EVICTED();
	const volatile __u64 *words = words_map(self->fd);
	unsigned char *p = gp_map(self->fd, id, 0, 2 * BLOCKS * BLOCK, RW);

	if (swap_is_used())
		SKIP(return, "swap space in use");
	ASSERT_NE(0, id);
	ASSERT_NE(NULL, words);
	ASSERT_NE(NULL, p);
	for (unsigned int i = 0; i < BLOCKS; i++) {
		EXPECT_EQ(EVICTED, SHOWN(id, i));
		/* All pages exist: what the CPU reads and writes is the block. */
		EXPECT_EQ(1 + i, p[i * BLOCK]);
		EXPECT_EQ(1 + i, p[(i + 1) * BLOCK - 1]);
	}
	/* The CPU's touches leave the block where it is. */
	EXPECT_EQ(EVICTED, SHOWN(id, 0));
	EXPECT_EQ(BLOCKS, RESIDENT(id));
	EXPECT_EQ(2 * BLOCKS * BLOCK, present(self->fd, id));
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, 1, GPUMEM_PREFETCH_HOST)));
	EXPECT_EQ(-1, SHOWN(id, 0));
	EXPECT_EQ(EVICTED, SHOWN(id, 1));
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR + BLOCK, page_size, GPUMEM_PREFETCH_DISCARD)));
	EXPECT_EQ(-1, SHOWN(id, 1));
	ASSERT_EQ(0, gp_bo_advise(self->fd, id, 2 * BLOCK, BLOCK, GPUMEM_ADVICE_READ_MOSTLY, GPUMEM_ADVICE_NONE));
	EXPECT_EQ(-1, SHOWN(id, 2));
	ASSERT_EQ(0, gp_bo_advise(self->fd, id, 3 * BLOCK, BLOCK, GPUMEM_ADVICE_PREFERRED, 0));
	EXPECT_EQ(-1, SHOWN(id, 3));
	ASSERT_EQ(0, FILL(ADDR + 4 * BLOCK, 9, 1));
	EXPECT_EQ(0, SHOWN(id, 4));
	EXPECT_EQ(EVICTED, SHOWN(id, 5));
	/* A block with advice is not shown when it is evicted again. */
	ASSERT_EQ(0, gp_bo_advise(self->fd, id, 4 * BLOCK, BLOCK, GPUMEM_ADVICE_ACCESSED_BY, 0));
	for (unsigned int i = 0; i < BLOCKS; i++)
		ASSERT_EQ(0, FILL(ADDR + (BLOCKS + i) * BLOCK, 1 + i, BLOCK));
	EXPECT_EQ(-1, SHOWN(id, 4));
	EXPECT_EQ(EVICTED, SHOWN(id, 5));
	ASSERT_EQ(0, gp_destroy(self->fd, id));
	EXPECT_EQ(-1, SHOWN(id, 5));
}

/* A block that the CPU touched becomes resident, as if an engine had read it. */
TEST_F(managed, touched_when_evicted)
{
	__u32 id = MAKE_EVICTED(), fresh = MAKE(BLOCK, OTHER);
	const volatile __u64 *words = words_map(self->fd);
	struct gpumem_stats before, after;

	if (swap_is_used())
		SKIP(return, "swap space in use");
	ASSERT_NE(0, id);
	ASSERT_NE(NULL, words);
	before = stats_of(self->fd);
	ASSERT_EQ(0, gp_bo_advise(self->fd, id, BLOCK + 1, BLOCK - 1, GPUMEM_ADVICE_TOUCHED, 0));
	after = stats_of(self->fd);
	EXPECT_EQ(0, SHOWN(id, 1));
	EXPECT_EQ(EVICTED, SHOWN(id, 0));
	EXPECT_EQ(EVICTED, SHOWN(id, BLOCKS));
	EXPECT_EQ(BLOCKS, RESIDENT(id));
	EXPECT_EQ(before.managed_faults + 1, after.managed_faults);
	EXPECT_EQ(before.managed_evictions + 1, after.managed_evictions);
	EXPECT_EQ(before.managed_in + BLOCK, after.managed_in);
	/* Nothing happens to blocks that the words do not show: one without pages, and one that left for the host. */
	ASSERT_EQ(0, gp_bo_advise(self->fd, fresh, 0, 1, GPUMEM_ADVICE_TOUCHED, 0));
	EXPECT_EQ(0, RESIDENT(fresh));
	EXPECT_EQ(0, present(self->fd, fresh));
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, 1, GPUMEM_PREFETCH_HOST)));
	ASSERT_EQ(0, gp_bo_advise(self->fd, id, 0, 1, GPUMEM_ADVICE_TOUCHED, 0));
	EXPECT_EQ(-1, SHOWN(id, 0));
	EXPECT_EQ(BLOCKS, RESIDENT(id));
}

/* A touch that finds no room changes nothing.  The CPU continues to access the block, so no limit has refused memory. */
TEST_F(managed, touch_is_not_refused)
{
	struct gpumem_refusal_info refusal = { .size = sizeof(refusal) };
	__u32 id = MAKE(BLOCK, ADDR), bo, more;
	const volatile __u64 *words = words_map(self->fd);

	if (swap_is_used())
		SKIP(return, "swap space in use");
	ASSERT_NE(0, id);
	ASSERT_NE(NULL, words);
	ASSERT_EQ(0, FILL(ADDR, 1, BLOCK));
	ASSERT_EQ(0, gp_bo_alloc(self->fd, BLOCKS * BLOCK, &bo));
	EXPECT_EQ(EVICTED, SHOWN(id, 0));
	ASSERT_EQ(0, set_param("pin_limit", 1));
	EXPECT_EQ(-EDQUOT, gp_bo_advise(self->fd, id, 0, BLOCK, GPUMEM_ADVICE_TOUCHED, 0));
	ASSERT_EQ(0, gp_ioctl(self->fd, GPUMEM_REFUSAL, &refusal));
	EXPECT_EQ(0, refusal.limit);
	EXPECT_EQ(0, RESIDENT(id));
	EXPECT_EQ(EVICTED, SHOWN(id, 0));
	/* The thread would be told of a refusal. */
	EXPECT_EQ(-ENOSPC, gp_bo_alloc(self->fd, BLOCK, &more));
	ASSERT_EQ(0, gp_ioctl(self->fd, GPUMEM_REFUSAL, &refusal));
	EXPECT_EQ(GPUMEM_LIMIT_DEVICE, refusal.limit);
}

/* With swap space the pages of an evicted block may be swapped out, so the block is not shown. */
TEST_F_TIMEOUT(managed, hidden_with_swap, 120)
{
	const volatile __u64 *words;
	__u32 id;
	int ret = swap_begin(64);

	if (ret == -ENODEV)
		SKIP(return, "no zram");
	ASSERT_EQ(0, ret);
	id = MAKE_EVICTED();
	ASSERT_NE(0, id);
	words = words_map(self->fd);
	ASSERT_NE(NULL, words);
	EXPECT_EQ(-1, SHOWN(id, 0));
	EXPECT_EQ(-1, SHOWN(id, BLOCKS - 1));
	EXPECT_EQ(0, SHOWN(id, 2 * BLOCKS - 1));
}

/* Two blocks with one word: the one that was used last is shown. */
TEST_F(managed, shared_word)
{
	const __u64 far = GPUMEM_RESIDENT_WORDS;
	__u32 id = MAKE((far + 1) * BLOCK, ADDR);
	const volatile __u64 *words = words_map(self->fd);

	ASSERT_NE(NULL, words);
	ASSERT_EQ(GPUMEM_RESIDENT_WORD(id, 0), GPUMEM_RESIDENT_WORD(id, far));
	ASSERT_EQ(0, FILL(ADDR, 1, 1));
	EXPECT_EQ(0, SHOWN(id, 0));
	ASSERT_EQ(0, FILL(ADDR + far * BLOCK, 1, 1));
	EXPECT_EQ(-1, SHOWN(id, 0));
	EXPECT_EQ(0, SHOWN(id, far));
	/* The hidden block leaves the device: the word of the other one stays. */
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, BLOCK, GPUMEM_PREFETCH_HOST)));
	EXPECT_EQ(0, SHOWN(id, far));
	ASSERT_EQ(0, FILL(ADDR, 1, 1));
	EXPECT_EQ(0, SHOWN(id, 0));
	EXPECT_EQ(-1, SHOWN(id, far));
	ASSERT_EQ(0, FILL(ADDR + far * BLOCK, 1, 1));
	EXPECT_EQ(0, SHOWN(id, far));
}

/* An evicted block does not take the word from a resident one. */
TEST_F(managed, shared_word_when_evicted)
{
	const __u64 far = GPUMEM_RESIDENT_WORDS;
	__u32 id = MAKE((far + BLOCKS) * BLOCK, ADDR);
	const volatile __u64 *words = words_map(self->fd);

	if (swap_is_used())
		SKIP(return, "swap space in use");
	ASSERT_NE(NULL, words);
	for (unsigned int i = 0; i < BLOCKS; i++)
		ASSERT_EQ(0, FILL(ADDR + i * BLOCK, 1, 1));
	/* Block 0 goes: its word is free.  Then block 1, after the other block with its word has come. */
	ASSERT_EQ(0, FILL(ADDR + (far + 1) * BLOCK, 1, 1));
	EXPECT_EQ(EVICTED, SHOWN(id, 0));
	EXPECT_EQ(0, SHOWN(id, far + 1));
	ASSERT_EQ(0, FILL(ADDR + (far + 2) * BLOCK, 1, 1));
	EXPECT_EQ(-1, SHOWN(id, 1));
	EXPECT_EQ(AGED, SHOWN(id, far + 1));
	/* A resident block takes the word of an evicted one. */
	ASSERT_EQ(0, FILL(ADDR + far * BLOCK, 1, 1));
	EXPECT_EQ(-1, SHOWN(id, 0));
	EXPECT_EQ(0, SHOWN(id, far));
}

/* The words of a client name its own devices, and stay with the client that made the memory. */
TEST_F(managed, shown_on_second_device)
{
	const volatile __u64 *words;
	struct stream second;
	__u32 id, device;
	int fd;

	if (dev_count() < 2)
		SKIP(return, "one device");
	fd = gp_open(1);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, gp_attach(self->fd, fd, &device));
	ASSERT_EQ(0, stream_open(&second, self->fd, self->vm, device, 64));
	ASSERT_EQ(0, gp_managed_alloc(self->fd, BLOCK, &id));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, id, 0, ADDR, BLOCK, 3, 3));
	words = words_map(self->fd);
	ASSERT_NE(NULL, words);
	ASSERT_EQ(0, FILL(ADDR, 1, BLOCK));
	EXPECT_EQ(0, SHOWN(id, 0));
	ASSERT_EQ(0, execute(&second, sqe_fill(ADDR, 1, 2, BLOCK)));
	EXPECT_EQ((int)device, SHOWN(id, 0));
	EXPECT_EQ(0, stream_close(&second));
	close(fd);
}

TEST_HARNESS_MAIN
