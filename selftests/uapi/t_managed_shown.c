// SPDX-License-Identifier: GPL-2.0
/*
 * Residency words: what a client learns about its blocks of managed memory, and when a word shows none.
 */
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "common/util.h"
#include "managed_util.h"

#define WORDS_BYTES	(GPUMEM_RESIDENT_WORDS * sizeof(__u64))
#define AGED		8		/* blocks that an eviction hides */

static size_t words_length(void)
{
	return (WORDS_BYTES + page_size - 1) / page_size * page_size;
}

static const volatile __u64 *words_map(int fd)
{
	void *p = mmap(NULL, words_length(), PROT_READ, MAP_SHARED, fd, GPUMEM_MMAP_RESIDENT);

	return p == MAP_FAILED ? NULL : p;
}

/* The device index that a block's word shows, or -1. */
static int shown(const volatile __u64 *words, __u32 id, __u64 block)
{
	__u64 at = words[GPUMEM_RESIDENT_WORD(id, block)] - GPUMEM_RESIDENT_TAG(id, block, 0);

	return at < GPUMEM_MAX_DEVICES ? (int)at : -1;
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

/*
 * An eviction hides the victim and the blocks that are next.  A use of a hidden block shows it again, and it is not
 * next any more.
 */
TEST_F(managed, hidden_before_eviction)
{
	__u32 id = MAKE(4 * BLOCKS * BLOCK, ADDR);
	const volatile __u64 *words = words_map(self->fd);
	unsigned int i;
	char size[32];

	ASSERT_NE(NULL, words);
	/* Room for more blocks than an eviction hides. */
	snprintf(size, sizeof(size), "%llu", 2 * BLOCKS * BLOCK);
	ASSERT_EQ(0, write_dev_attr(0, "size", size));
	for (i = 0; i < 2 * BLOCKS; i++)
		ASSERT_EQ(0, FILL(ADDR + i * BLOCK, 1, BLOCK));
	for (i = 0; i < 2 * BLOCKS; i++)
		EXPECT_EQ(0, SHOWN(id, i));
	/* The oldest block is evicted. */
	ASSERT_EQ(0, FILL(ADDR + 2 * BLOCKS * BLOCK, 1, BLOCK));
	EXPECT_EQ(2 * BLOCKS, RESIDENT(id));
	for (i = 0; i < 1 + AGED; i++)
		EXPECT_EQ(-1, SHOWN(id, i));
	for (; i <= 2 * BLOCKS; i++)
		EXPECT_EQ(0, SHOWN(id, i));
	/* Block 1, which was the next victim, is used. */
	ASSERT_EQ(0, FILL(ADDR + BLOCK, 2, 1));
	EXPECT_EQ(0, SHOWN(id, 1));
	ASSERT_EQ(0, FILL(ADDR + (2 * BLOCKS + 1) * BLOCK, 1, BLOCK));
	EXPECT_EQ(0, SHOWN(id, 1));
	EXPECT_EQ(2 * BLOCKS, RESIDENT(id));
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
