// SPDX-License-Identifier: GPL-2.0
/*
 * Far blocks: small entries work on evicted managed memory where it is.  Which entries do so, which blocks are far,
 * what a stream counts, and what happens while other tasks use the same memory.
 */
#include <pthread.h>

#include "kselftest_harness.h"
#include "common/file.h"
#include "common/util.h"
#include "managed_util.h"

#define COUNT		(2 * BLOCKS)	/* blocks of the memory */
#define SHMEM_ENABLED	"/sys/kernel/mm/transparent_hugepage/shmem_enabled"
#define PAGEABLE	"/sys/module/gpumem/parameters/pageable"

#define AT(block)	(ADDR + (block) * BLOCK)
#define FAULTS()	(stats_of(self->fd).managed_faults)
#define EXECUTE(sqe)	ASSERT_EQ(0, execute(&self->s, (sqe)))
/* An entry that fetches no block, and one that fetches @n. */
#define FETCHES(n, sqe) do { \
	__u64 faults_ = FAULTS(); \
	EXECUTE(sqe); \
	EXPECT_EQ(faults_ + (n), FAULTS()); \
	EXPECT_EQ(BLOCKS, RESIDENT(id)); \
} while (0)
#define FAR(sqe)	FETCHES(0, sqe)

/*
 * COUNT blocks; block i contains 1 + i.  The last BLOCKS of them are resident, and the first access of @s is over:
 * block 0, too, is resident, instead of block BLOCKS.
 */
static __u32 make_far(int fd, __u32 vm, struct stream *s)
{
	__u32 id = make(fd, vm, COUNT * BLOCK, ADDR);

	for (unsigned int i = 0; id && i < COUNT; i++)
		if (execute(s, sqe_fill(AT(i), 1, 1 + i, BLOCK)))
			return 0;
	return id && execute(s, sqe_fill(AT(0), 1, 1, 1)) ? 0 : id;
}

#define MAKE_FAR()	make_far(self->fd, self->vm, &self->s)
#define MAP(id)		gp_map(self->fd, (id), 0, COUNT * BLOCK, RW)

/* Which entries are small. */
TEST_F(managed, far_entries)
{
	__u32 id = MAKE_FAR();
	unsigned char *p = MAP(id);
	__u64 row = page_size + 64;

	ASSERT_NE(0, id);
	ASSERT_NE(NULL, p);
	EXPECT_EQ(BLOCKS, RESIDENT(id));
	/* Fills and copies, also of rows; to, from and between far blocks. */
	FAR(sqe_fill(AT(1), 1, 101, 1));
	FAR(sqe_fill(AT(1) + 8, 8, 0x6665646362616160ULL, 4));
	FAR(sqe_fill2d(AT(1) + page_size, row, 2, 0x6767, 32, 8));
	FAR(sqe_copy(AT(2), AT(COUNT - 1), page_size));
	FAR(sqe_copy(AT(COUNT - 1), AT(1), 64));
	FAR(sqe_copy(AT(3), AT(1), 64));
	FAR(sqe_copy2d(AT(3) + page_size, page_size, AT(1) + page_size, row, 64, 8));
	EXPECT_EQ(101, p[BLOCK]);
	EXPECT_EQ(2, p[BLOCK + 1]);
	EXPECT_EQ(0x60, p[BLOCK + 8]);
	EXPECT_EQ(0x66, p[BLOCK + 8 + 31]);
	EXPECT_EQ(2, p[BLOCK + 8 + 32]);
	EXPECT_TRUE(all_are(p + 2 * BLOCK, COUNT, page_size));
	EXPECT_TRUE(all_are(p + 2 * BLOCK + page_size, 3, page_size));
	EXPECT_EQ(0, memcmp(p + (COUNT - 1) * BLOCK, p + BLOCK, 64));
	EXPECT_EQ(0, memcmp(p + 3 * BLOCK, p + BLOCK, 64));
	for (int i = 0; i < 8; i++) {
		EXPECT_TRUE(all_are(p + BLOCK + page_size + i * row, 0x67, 64));
		EXPECT_TRUE(all_are(p + 3 * BLOCK + page_size + i * page_size, 0x67, 64));
		EXPECT_TRUE(all_are(p + 3 * BLOCK + page_size + i * page_size + 64, 4, page_size - 64));
	}
	/* A range in two far blocks, and two ranges in one. */
	FAR(sqe_fill(AT(4) - page_size, 1, 102, 2 * page_size));
	FAR(sqe_copy(AT(5) - 64, AT(7) - 96, 128));
	EXPECT_TRUE(all_are(p + 4 * BLOCK - page_size, 102, 2 * page_size));
	EXPECT_TRUE(all_are(p + 5 * BLOCK - 64, 7, 96));
	EXPECT_TRUE(all_are(p + 5 * BLOCK + 32, 8, 32));
	/* The destination goes on to the block in which the source is. */
	FAR(sqe_copy(AT(3) - 64, AT(3) + BLOCK / 2, 128));
	EXPECT_TRUE(all_are(p + 3 * BLOCK - 64, 4, 64));
	FAR(sqe_copy(AT(7) + 10, AT(7) + page_size, page_size));
	FAR(sqe_fill(AT(7), 1, 103, 4));
	FAR(sqe_copy(AT(7) + 2, AT(7), 64));
	EXPECT_TRUE(all_are(p + 7 * BLOCK, 103, 6));
	EXPECT_EQ(8, p[7 * BLOCK + 6]);
	/* The limit is the bytes of the entry. */
	FAR(sqe_fill(AT(5), 1, 104, SMALL));
	FETCHES(1, sqe_fill(AT(5), 1, 105, SMALL + 1));
	EXPECT_TRUE(all_are(p + 5 * BLOCK, 105, SMALL + 1));
	FAR(sqe_fill2d(AT(6), 2 * page_size, 4, 0x6a6a6a6a, page_size / 4, SMALL / page_size));
	FETCHES(1, sqe_fill2d(AT(6), 2 * page_size, 4, 0x6b6b6b6b, page_size / 4, SMALL / page_size + 1));
	EXPECT_TRUE(all_are(p + 6 * BLOCK, 0x6b, page_size));
	/* Time stamps and waits for values are no copies: they fetch. */
	FETCHES(1, sqe_timestamp(AT(2)));
	FETCHES(1, sqe_poll(AT(3), 8, GPUMEM_POLL_GEQ, 0));
}

/* How many times @sqe is executed until it fetches a block, or @most. */
static unsigned int turns_until_fetch(int fd, struct stream *s, struct gpumem_sqe sqe, unsigned int most)
{
	__u64 faults = stats_of(fd).managed_faults;
	unsigned int n = 0;

	while (n < most && !execute(s, sqe)) {
		n++;
		if (stats_of(fd).managed_faults != faults)
			break;
	}
	return n;
}

/*
 * Once a stream has accessed as many far bytes as one to three blocks have, it fetches the block of the next access.
 * Both sides of a copy count.
 */
TEST_F(managed, far_is_counted)
{
	const unsigned int block = BLOCK / SMALL;
	unsigned int n, i, last = 0, different = 0, sum = 0;
	__u32 id = MAKE_FAR();
	struct stream other;
	__u64 faults;

	ASSERT_NE(0, id);
	for (i = 1; i < BLOCKS; i++) {
		n = turns_until_fetch(self->fd, &self->s, sqe_fill(AT(i), 1, i, SMALL), 4 * block);
		/* The last entry fetched the block, and accessed no far bytes. */
		EXPECT_LE(block + 1, n);
		EXPECT_GE(3 * block + 1, n);
		different += last && n != last;
		last = n;
		EXPECT_EQ(BLOCKS, RESIDENT(id));
	}
	EXPECT_NE(0, different);
	for (i = BLOCKS; i < COUNT; i++)
		sum += turns_until_fetch(self->fd, &self->s,
					 sqe_copy(AT(i), AT(i) + BLOCK / 2, SMALL / 2), 8 * block);
	/* For these copies chance puts the fetch off: by one on average. */
	EXPECT_LE(BLOCKS * (block + 1), sum);
	EXPECT_GE(BLOCKS * (3 * block + 1), sum);
	/* Another stream counts for itself: its first access fetches. */
	ASSERT_EQ(0, stream_open(&other, self->fd, self->vm, 0, 64));
	faults = FAULTS();
	ASSERT_EQ(0, execute(&other, sqe_fill(AT(1), 1, 1, 1)));
	EXPECT_EQ(faults + 1, FAULTS());
	EXPECT_EQ(0, stream_close(&other));
}

/* A block is far if it made room, until a program says where it is to be, or that it is not needed. */
TEST_F(managed, far_blocks)
{
	__u32 id = MAKE_FAR();
	unsigned char *p = MAP(id);

	ASSERT_NE(0, id);
	ASSERT_NE(NULL, p);
	EXECUTE(sqe_prefetch(AT(1), 1, GPUMEM_PREFETCH_HOST));
	FETCHES(1, sqe_fill(AT(1), 1, 50, 1));
	ASSERT_EQ(0, gp_bo_advise(self->fd, id, 2 * BLOCK, BLOCK, GPUMEM_ADVICE_PREFERRED, 0));
	FETCHES(1, sqe_fill(AT(2), 1, 50, 1));
	ASSERT_EQ(0, gp_bo_advise(self->fd, id, 3 * BLOCK, BLOCK, GPUMEM_ADVICE_ACCESSED_BY, 0));
	ASSERT_EQ(0, gp_bo_advise(self->fd, id, 3 * BLOCK, BLOCK, GPUMEM_ADVICE_NOT_ACCESSED_BY, 0));
	FETCHES(1, sqe_fill(AT(3), 1, 50, 1));
	EXECUTE(sqe_prefetch(AT(4), BLOCK, GPUMEM_PREFETCH_DISCARD));
	FETCHES(1, sqe_fill(AT(4), 1, 50, 1));
	EXPECT_EQ(50, p[4 * BLOCK]);
	EXPECT_TRUE(all_are(p + 4 * BLOCK + 1, 0, BLOCK - 1));
	/* An entry goes on from a far block to one that is not. */
	EXECUTE(sqe_prefetch(AT(7), BLOCK, GPUMEM_PREFETCH_DISCARD));
	FETCHES(1, sqe_fill(AT(7) - 1, 1, 50, 2));
	EXPECT_EQ(7, p[7 * BLOCK - 2]);
	EXPECT_EQ(50, p[7 * BLOCK - 1]);
	EXPECT_EQ(50, p[7 * BLOCK]);
	EXPECT_EQ(0, p[7 * BLOCK + 1]);
	/* A block with advice is not far when it makes room. */
	ASSERT_EQ(0, gp_bo_advise(self->fd, id, 6 * BLOCK, BLOCK, GPUMEM_ADVICE_READ_MOSTLY, GPUMEM_ADVICE_NONE));
	EXECUTE(sqe_fill(AT(6), 1, 50, 1));
	for (unsigned int i = 0; i < 2 * BLOCKS; i++)
		EXECUTE(sqe_fill(AT(BLOCKS + i % BLOCKS), 1, 1 + i, SMALL + 1));
	FETCHES(1, sqe_fill(AT(6), 1, 51, 1));
	FAR(sqe_fill(AT(7), 1, 51, 1));
}

/* Without its id the memory can still be far, for those who have it mapped. */
TEST_F(managed, far_without_id)
{
	__u32 id = MAKE_FAR();
	unsigned char *p = MAP(id);
	__u64 faults;

	ASSERT_NE(0, id);
	ASSERT_NE(NULL, p);
	ASSERT_EQ(0, gp_destroy(self->fd, id));
	faults = FAULTS();
	EXECUTE(sqe_fill(AT(1), 1, 50, 64));
	EXECUTE(sqe_copy(AT(2), AT(1), 64));
	EXPECT_EQ(faults, FAULTS());
	EXPECT_TRUE(all_are(p + 2 * BLOCK, 50, 64));
	munmap(p, COUNT * BLOCK);
}

/* A far block is far to the device that evicted it.  Another one has room, and takes it. */
TEST_F(managed, far_from_one_device)
{
	struct stream other;
	__u32 id, device;
	int fd;

	if (dev_count() < 2)
		SKIP(return, "one device");
	fd = gp_open(1);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, gp_attach(self->fd, fd, &device));
	ASSERT_EQ(0, stream_open(&other, self->fd, self->vm, device, 64));
	ASSERT_EQ(0, gp_managed_alloc(self->fd, COUNT * BLOCK, &id));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, id, 0, ADDR, COUNT * BLOCK, 3, 3));
	for (unsigned int i = 0; i < COUNT; i++)
		EXECUTE(sqe_fill(AT(i), 1, 1 + i, BLOCK));
	ASSERT_EQ(0, execute(&other, sqe_fill(AT(0), 1, 50, 1)));
	EXPECT_EQ(BLOCKS + 1, RESIDENT(id));
	/* This was the first access of its stream.  The second one fetches, too. */
	ASSERT_EQ(0, execute(&other, sqe_fill(AT(1), 1, 50, 1)));
	EXPECT_EQ(BLOCKS + 2, RESIDENT(id));
	EXPECT_EQ(0, stream_close(&other));
	close(fd);
}

/* If there is neither room nor a pin limit for a fetch, the entry works on the block where it is. */
TEST_F(managed, far_without_room)
{
	struct gpumem_refusal_info refusal = { .size = sizeof(refusal) };
	struct stream other;
	__u32 id = MAKE_FAR(), bo;
	unsigned char *p = MAP(id);

	ASSERT_NE(0, id);
	ASSERT_NE(NULL, p);
	ASSERT_EQ(0, gp_bo_alloc(self->fd, BLOCKS * BLOCK, &bo));
	EXPECT_EQ(0, RESIDENT(id));
	ASSERT_EQ(0, set_param("pin_limit", 1));
	/* The first access of a stream fetches. */
	ASSERT_EQ(0, stream_open(&other, self->fd, self->vm, 0, 64));
	EXPECT_EQ(0, execute(&other, sqe_fill(AT(1), 1, 50, 64)));
	EXPECT_TRUE(all_are(p + BLOCK, 50, 64));
	EXPECT_EQ(0, RESIDENT(id));
	ASSERT_EQ(0, gp_ioctl(self->fd, GPUMEM_REFUSAL, &refusal));
	EXPECT_EQ(0, refusal.limit);
	/* A large entry cannot do without. */
	EXPECT_EQ(EDQUOT, stream_error_of(self->fd, self->vm, sqe_fill(AT(2), 1, 50, SMALL + 1)));
	EXPECT_EQ(0, stream_close(&other));
}

/* Without huge pages each page is locked for itself. */
TEST_F(managed, far_small_pages)
{
	long long huge = number_of("/proc/meminfo", "ShmemHugePages:");
	struct changed enabled;
	unsigned char *p, *want;
	__u32 id;

	if (!file_change(&enabled, SHMEM_ENABLED, "deny"))
		SKIP(return, "no huge pages of shared memory");
	id = MAKE_FAR();
	EXPECT_EQ(huge, number_of("/proc/meminfo", "ShmemHugePages:"));
	p = MAP(id);
	want = malloc(SMALL);
	ASSERT_NE(0, id);
	ASSERT_NE(NULL, p);
	ASSERT_NE(NULL, want);
	for (__u64 i = 0; i < SMALL; i++)
		p[2 * BLOCK - SMALL / 2 + i] = want[i] = i * 7 + i / 256;
	FAR(sqe_copy(AT(4) + 10, AT(2) - SMALL / 2, SMALL));
	EXPECT_EQ(0, memcmp(p + 4 * BLOCK + 10, want, SMALL));
	FAR(sqe_fill(AT(5) - 3 * page_size / 2, 2, 0x7777, 3 * page_size / 2));
	EXPECT_TRUE(all_are(p + 5 * BLOCK - 3 * page_size / 2, 0x77, 3 * page_size));
	/* Two ranges that lie in one page in part.  In the second one the destination follows the source. */
	FAR(sqe_copy(AT(5) + 64, AT(5), page_size));
	FAR(sqe_copy(AT(6) + page_size - 96, AT(6) + page_size + page_size / 2, 1000));
	EXPECT_TRUE(all_are(p + 6 * BLOCK, 7, 4 * page_size));
	free(want);
	EXPECT_EQ(0, file_restore(&enabled));
}

/* Memory of the process is copied to and from far blocks, also if a page fault interrupts the copy. */
TEST_F(managed, far_pageable)
{
	struct changed param;
	struct gpumem_sqe in, out;
	struct stream s;
	unsigned char *p, *mine;
	int fd, ret;
	__u32 vm, id;
	__u64 faults;

	if (!file_change(&param, PAGEABLE, "1,1"))
		SKIP(return, "pageable access cannot be changed");
	fd = gp_open(0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, file_restore(&param));
	ASSERT_EQ(0, gp_vm_create(fd, &vm));
	ASSERT_EQ(0, stream_open(&s, fd, vm, 0, 64));
	id = make_far(fd, vm, &s);
	ASSERT_NE(0, id);
	p = gp_map(fd, id, 0, COUNT * BLOCK, RW);
	mine = mmap(NULL, 4 * page_size, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(NULL, p);
	ASSERT_NE(MAP_FAILED, mine);
	memset(mine, 60, 2 * page_size);
	faults = stats_of(fd).managed_faults;
	in = sqe_copy(AT(1), (uintptr_t)mine, 4 * page_size);
	in.flags = GPUMEM_SQE_SRC_PAGEABLE;
	ret = execute(&s, in);
	EXPECT_EQ(0, ret);
	EXPECT_TRUE(all_are(p + BLOCK, 60, 2 * page_size));
	EXPECT_TRUE(all_are(p + BLOCK + 2 * page_size, 0, 2 * page_size));
	EXPECT_EQ(0, madvise(mine, 4 * page_size, MADV_DONTNEED));
	out = sqe_copy((uintptr_t)mine, AT(2), 4 * page_size);
	out.flags = GPUMEM_SQE_DST_PAGEABLE;
	EXPECT_EQ(0, execute(&s, out));
	EXPECT_TRUE(all_are(mine, 3, 4 * page_size));
	/* The memory of the process is the far block itself: the page fault needs the folio that the entry works on. */
	EXPECT_EQ(0, madvise(p, COUNT * BLOCK, MADV_DONTNEED));
	in = sqe_copy(AT(3), (uintptr_t)(p + 3 * BLOCK + page_size), page_size);
	in.flags = GPUMEM_SQE_SRC_PAGEABLE;
	EXPECT_EQ(0, execute(&s, in));
	EXPECT_TRUE(all_are(p + 3 * BLOCK, 4, BLOCK));
	EXPECT_EQ(faults, stats_of(fd).managed_faults);
	munmap(mine, 4 * page_size);
	munmap(p, COUNT * BLOCK);
	EXPECT_EQ(0, stream_close(&s));
	close(fd);
}

/* The offset of the first page that is not in memory, or @length. */
static __u64 first_missing(void *p, __u64 length)
{
	unsigned char in[BLOCK / 4096] = {};
	__u64 i;

	if (mincore(p, length, in))
		return length;
	for (i = 0; i < length / page_size && in[i] & 1; i++)
		;
	return i * page_size;
}

/* With swap space blocks are far, too.  Pages that were swapped out are fetched. */
TEST_F_TIMEOUT(managed, far_with_swap, 120)
{
	unsigned char *p;
	int ret = swap_begin(64);
	__u32 id;
	__u64 at;

	if (ret == -ENODEV)
		SKIP(return, "no zram");
	ASSERT_EQ(0, ret);
	id = MAKE_FAR();
	p = MAP(id);
	ASSERT_NE(0, id);
	ASSERT_NE(NULL, p);
	FAR(sqe_fill(AT(1), 1, 50, SMALL));
	EXPECT_EQ(50, p[BLOCK]);
	EXPECT_TRUE(all_are(p + 2 * BLOCK, 3, BLOCK));
	if (madvise(p + 2 * BLOCK, BLOCK, MADV_PAGEOUT))
		SKIP(return, "the kernel has no MADV_PAGEOUT");
	at = first_missing(p + 2 * BLOCK, BLOCK);
	/* The kernel has kept the pages, perhaps for want of memory for their copies. */
	if (at == BLOCK)
		SKIP(return, "no page was swapped out");
	FETCHES(1, sqe_fill(AT(2) + at, 1, 51, page_size / 2));
	EXPECT_TRUE(all_are(p + 2 * BLOCK + at, 51, page_size / 2));
	EXPECT_TRUE(all_are(p + 2 * BLOCK + at + page_size / 2, 3, page_size / 2));
	EXPECT_TRUE(all_are(p + 2 * BLOCK, 3, at));
	munmap(p, COUNT * BLOCK);
}

/* A block that the kernel took from a device with room is not far. */
TEST_F_TIMEOUT(managed, far_relieved, 120)
{
	int ret = swap_begin(64);
	__u32 id;

	if (ret == -ENODEV)
		SKIP(return, "no zram");
	ASSERT_EQ(0, ret);
	id = MAKE_FAR();
	ASSERT_NE(0, id);
	/* All shrinkers take as much as they can. */
	for (int i = 0; i < 200 && RESIDENT(id); i++) {
		ASSERT_EQ(0, write_file("/proc/sys/vm/drop_caches", "2"));
		usleep(20000);
	}
	EXPECT_EQ(0, RESIDENT(id));
	ASSERT_EQ(0, FILL(AT(COUNT - 1), 1, 1));
	EXPECT_EQ(1, RESIDENT(id));
	/* Blocks that made room before are far still. */
	ASSERT_EQ(0, FILL(AT(1), 1, 1));
	EXPECT_EQ(1, RESIDENT(id));
}

/* ---- other tasks use the same memory */

#define WORDS		64		/* that a worker has in each block */
#define TURNS		600

struct worker {
	struct stream s;
	unsigned char *p;
	unsigned int number;
	unsigned int errors;
	unsigned int turns;		/* done; atomic */
};

/* The place of word @i of a worker in a block. */
static __u64 word_at(const struct worker *w, unsigned int i)
{
	return (i * 2 + w->number) * 8192 % BLOCK;
}

/* Fills words, copies them between blocks, and expects what it wrote last. */
static void *work(void *arg)
{
	struct worker *w = arg;
	unsigned int state = 1 + w->number;
	__u64 want[COUNT][WORDS];

	for (unsigned int b = 0; b < COUNT; b++)
		for (unsigned int i = 0; i < WORDS; i++)
			want[b][i] = (1 + b) * 0x0101010101010101ULL;
	for (unsigned int turn = 0; turn < TURNS; turn++) {
		unsigned int b = (state = state * 1664525 + 1013904223) / 256 % COUNT;
		unsigned int from = (state = state * 1664525 + 1013904223) / 256 % COUNT;
		unsigned int i = (state = state * 1664525 + 1013904223) / 256 % WORDS;
		__u64 at = word_at(w, i);

		if (turn % 3) {
			w->errors += !!execute(&w->s, sqe_fill(AT(b) + at, 8, turn, 1));
			want[b][i] = turn;
		} else {
			w->errors += !!execute(&w->s, sqe_copy(AT(b) + at, AT(from) + at, 8));
			want[b][i] = want[from][i];
		}
		w->errors += *(volatile __u64 *)(w->p + b * BLOCK + at) != want[b][i];
		__atomic_fetch_add(&w->turns, 1, __ATOMIC_RELAXED);
	}
	for (unsigned int b = 0; b < COUNT; b++)
		for (unsigned int i = 0; i < WORDS; i++)
			w->errors += *(__u64 *)(w->p + b * BLOCK + word_at(w, i)) != want[b][i];
	return NULL;
}

/* Makes a block come, and one go. */
static void disturb_residency(struct stream *s, unsigned char *p, unsigned int turn)
{
	execute(s, sqe_prefetch(AT(turn * 5 % COUNT), BLOCK, GPUMEM_PREFETCH_DEVICE));
	if (turn % 8 == 0)
		execute(s, sqe_prefetch(AT(turn * 3 % COUNT), BLOCK, GPUMEM_PREFETCH_HOST));
	if (turn % 4 == 1)
		madvise(p, COUNT * BLOCK, MADV_DONTNEED);
}

/* The kernel moves pages to make room for large ones. */
static void disturb_folios(struct stream *s, unsigned char *p, unsigned int turn)
{
	(void)s;
	(void)p;
	(void)turn;
	write_file("/proc/sys/vm/compact_memory", "1");
}

#define TURNS_LEFT	8	/* alone, between two disturbances */

/* Two streams work on far blocks while another task disturbs.  Returns the number of errors, or -1. */
static int work_disturbed(int fd, __u32 vm, struct stream *s, unsigned char *p,
			  void (*disturb)(struct stream *s, unsigned char *p, unsigned int turn))
{
	struct worker w[2] = { { .p = p }, { .p = p, .number = 1 } };
	int errors = 0, started = 0;
	pthread_t thread[2];

	for (unsigned int i = 0; i < 2; i++)
		if (stream_open(&w[i].s, fd, vm, 0, 64))
			return -1;
	for (; started < 2; started++)
		if (pthread_create(&thread[started], NULL, work, &w[started]))
			break;
	for (unsigned int turn = 0; turn * TURNS_LEFT < 2 * TURNS; turn++) {
		disturb(s, p, turn);
		while (started == 2 && __atomic_load_n(&w[0].turns, __ATOMIC_RELAXED) +
				       __atomic_load_n(&w[1].turns, __ATOMIC_RELAXED) < turn * TURNS_LEFT)
			usleep(200);
	}
	for (int i = 0; i < started; i++)
		pthread_join(thread[i], NULL);
	for (unsigned int i = 0; i < 2; i++)
		errors += w[i].errors + !!stream_close(&w[i].s);
	return started == 2 ? errors : -1;
}

/* A third stream makes blocks come and go, and the CPU's mappings go. */
TEST_F_TIMEOUT(managed, far_concurrent, 200)
{
	struct gpumem_stats before, after;
	__u32 id = MAKE_FAR();
	unsigned char *p = MAP(id);

	ASSERT_NE(0, id);
	ASSERT_NE(NULL, p);
	before = stats_of(self->fd);
	EXPECT_EQ(0, work_disturbed(self->fd, self->vm, &self->s, p, disturb_residency));
	after = stats_of(self->fd);
	EXPECT_LT(before.managed_evictions, after.managed_evictions);
	/* Many entries worked on far blocks. */
	EXPECT_GT(TURNS, after.managed_faults - before.managed_faults);
	EXPECT_GE(BLOCKS, RESIDENT(id));
	munmap(p, COUNT * BLOCK);
}

/* The kernel moves the small pages of far blocks. */
TEST_F_TIMEOUT(managed, far_compacted, 200)
{
	struct changed enabled;
	long long moves;
	unsigned char *p;
	__u64 faults;
	__u32 id;

	if (!file_change(&enabled, SHMEM_ENABLED, "deny"))
		SKIP(return, "no huge pages of shared memory");
	id = MAKE_FAR();
	p = MAP(id);
	ASSERT_EQ(0, file_restore(&enabled));
	ASSERT_NE(0, id);
	ASSERT_NE(NULL, p);
	moves = number_of("/proc/vmstat", "pgmigrate_success ");
	if (moves < 0)
		SKIP(return, "the kernel moves no pages");
	faults = FAULTS();
	EXPECT_EQ(0, work_disturbed(self->fd, self->vm, &self->s, p, disturb_folios));
	EXPECT_GT(TURNS, FAULTS() - faults);
	EXPECT_LT(moves, number_of("/proc/vmstat", "pgmigrate_success "));
	munmap(p, COUNT * BLOCK);
}

TEST_HARNESS_MAIN
