// SPDX-License-Identifier: GPL-2.0
/*
 * Streams: the effects and the order of entries, counters, and a model test.  t_timeline.c tests
 * waits and signals, t_faults.c failures.
 */
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "kselftest_harness.h"
#include "common/stream_fixture.h"

STREAM_FIXTURE(stream)

/* --- creation */

TEST_F(stream, create_errors)
{
	struct gpumem_stream_create good = {
		.size = sizeof(good), .vm = self->vm, .entries = 16,
	}, c;
	static const __u32 entries[] = { 0, 1, 8, 15, 17, 48, 4095, 8192, 1U << 31, ~0U };
	static const __s32 priorities[] = { 1, -6, 100, -100, 0x7fffffff, -0x7fffffff - 1 };
	struct gpumem_stats before, after;

	ASSERT_EQ(0, gp_stats(self->fd, &before));
	for (unsigned int i = 0; i < ARRAY_SIZE(entries); i++) {
		c = good;
		c.entries = entries[i];
		EXPECT_EQ(-EINVAL, gp_ioctl(self->fd, GPUMEM_STREAM_CREATE, &c));
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(priorities); i++) {
		c = good;
		c.priority = priorities[i];
		EXPECT_EQ(-EINVAL, gp_ioctl(self->fd, GPUMEM_STREAM_CREATE, &c));
	}
	c = good;
	c.device = 1;
	EXPECT_EQ(-EACCES, gp_ioctl(self->fd, GPUMEM_STREAM_CREATE, &c));
	c.device = ~0U;
	EXPECT_EQ(-EACCES, gp_ioctl(self->fd, GPUMEM_STREAM_CREATE, &c));
	c = good;
	c.vm = self->bo;
	EXPECT_EQ(-ENOENT, gp_ioctl(self->fd, GPUMEM_STREAM_CREATE, &c));
	ASSERT_EQ(0, gp_stats(self->fd, &after));
	EXPECT_EQ(0, memcmp(&before, &after, sizeof(after)));
}

TEST_F(stream, sizes_and_priorities)
{
	for (__u32 entries = 16; entries <= 4096; entries *= 2) {
		struct gpumem_sqe sqe = sqe_nop();
		__u64 *word, seen = 0;
		struct stream s;

		ASSERT_EQ(0, stream_open(&s, self->fd, self->vm, 0, entries));
		for (word = (__u64 *)s.ring; word < (__u64 *)((char *)s.ring + s.ring_size); word++)
			seen |= *word;
		EXPECT_EQ(0, seen);
		EXPECT_EQ(0, s.page->value);
		EXPECT_EQ(0, s.page->head);
		EXPECT_EQ(0, s.page->error);
		EXPECT_EQ(GPUMEM_TIMELINE_NEED_WAKEUP, s.page->flags);
		for (__u32 i = 0; i < 2 * entries + 3; i++) {
			ASSERT_EQ(0, stream_push(&s, &sqe));
		}
		EXPECT_EQ(0, stream_sync(&s));
		EXPECT_EQ(2 * entries + 3, s.page->value);
		EXPECT_EQ(2 * entries + 3, s.page->head);
		/* The next ring may get the same pages. */
		memset(s.sqes, 0xa5, entries * sizeof(*s.sqes));
		EXPECT_EQ(0, stream_close(&s));
	}
	for (__s32 priority = 0; priority >= -5; priority--) {
		struct gpumem_stream_create c = {
			.size = sizeof(c), .vm = self->vm, .entries = 16, .priority = priority,
		};

		EXPECT_EQ(0, gp_ioctl(self->fd, GPUMEM_STREAM_CREATE, &c));
		EXPECT_EQ(0, gp_destroy(self->fd, c.id));
		EXPECT_EQ(0, gp_destroy(self->fd, c.timeline));
	}
}

TEST_F(stream, mappings)
{
	size_t ring = self->s.ring_size;
	void *page;

	/* A ring can be mapped as a whole and from its start only.  */
	EXPECT_EQ(-EINVAL, gp_map_errno(self->fd, self->s.id, page_size, ring, RW, MAP_SHARED));
	EXPECT_EQ(-EINVAL, gp_map_errno(self->fd, self->s.id, 0, ring + page_size, RW, MAP_SHARED));
	EXPECT_EQ(-EINVAL, gp_map_errno(self->fd, self->s.timeline, page_size, page_size, PROT_READ,
					MAP_SHARED));
	EXPECT_EQ(-EINVAL, gp_map_errno(self->fd, self->s.timeline, 0, 2 * page_size, PROT_READ,
					MAP_SHARED));
	/* A timeline is written by the kernel alone. */
	EXPECT_GT(0, gp_map_errno(self->fd, self->s.timeline, 0, page_size, RW, MAP_SHARED));
	page = gp_map(self->fd, self->s.timeline, 0, page_size, PROT_READ);
	ASSERT_NE(NULL, page);
	EXPECT_EQ(-1, mprotect(page, page_size, RW));
	EXPECT_EQ(EACCES, errno);
	EXPECT_TRUE(faults_with(page, true, SIGSEGV));
	EXPECT_EQ(MAP_FAILED, mremap(page, page_size, 2 * page_size, MREMAP_MAYMOVE));
	EXPECT_EQ(MAP_FAILED, mremap(self->s.ring, ring, 2 * ring, MREMAP_MAYMOVE));
	/* Both mappings outlive the ids.  */
	EXPECT_EQ(0, gp_destroy(self->fd, self->s.id));
	EXPECT_EQ(0, gp_destroy(self->fd, self->s.timeline));
	self->s.ring->tail = 1;
	EXPECT_EQ(0, *(volatile __u64 *)page);
	EXPECT_EQ(1, self->s.ring->tail);
}

/* kB of a mapping that are in memory, or -1. */
static long resident(const void *at)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	char line[512];
	long kb = -1;
	bool here = false;

	while (f && kb < 0 && fgets(line, sizeof(line), f)) {
		unsigned long start, end;

		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			here = start == (unsigned long)at;
		else if (here)
			sscanf(line, "Rss: %ld kB", &kb);
	}
	if (f)
		fclose(f);
	return kb;
}

/* A ring takes memory as it is filled; pages that were not touched are NOPs. */
TEST_F(stream, ring_as_touched)
{
	struct gpumem_sqe fill = sqe_fill(ADDR, 1, 0x5a, 100), nop = sqe_nop();
	long page = page_size / KIB;
	struct stream s;

	ASSERT_EQ(0, stream_open(&s, self->fd, self->vm, 0, 4096));
	ASSERT_EQ(0, stream_push(&s, &nop));
	ASSERT_EQ(0, stream_sync(&s));
	EXPECT_EQ(2 * page, resident(s.ring));
	/* Entries in pages of which none is present. */
	s.tail += 2000;
	stream_publish(&s);
	ASSERT_EQ(0, stream_sync(&s));
	EXPECT_EQ(2001, s.page->value);
	EXPECT_EQ(0, s.page->error);
	EXPECT_EQ(2 * page, resident(s.ring));
	ASSERT_EQ(0, stream_push(&s, &fill));
	ASSERT_EQ(0, stream_sync(&s));
	EXPECT_EQ(0, s.page->error);
	for (int i = 0; i < 100; i++)
		ASSERT_EQ(0x5a, self->p[i]);
	EXPECT_EQ(3 * page, resident(s.ring));
	for (int i = 0; i < 4096; i++)
		ASSERT_EQ(0, stream_push(&s, &fill));
	ASSERT_EQ(0, stream_sync(&s));
	EXPECT_EQ(0, s.page->error);
	EXPECT_EQ((long)(s.ring_size / KIB), resident(s.ring));
	/*
	 * Pages that the process drops with madvise() have the same contents when they are faulted
	 * in again.
	 */
	ASSERT_EQ(0, madvise(s.ring, s.ring_size, MADV_DONTNEED));
	EXPECT_EQ(s.tail, s.ring->tail);
	ASSERT_EQ(0, stream_push(&s, &nop));
	ASSERT_EQ(0, stream_sync(&s));
	EXPECT_EQ(0, stream_close(&s));
	/*
	 * The mapping of a destroyed stream still gets pages, also after a munmap() in its middle.
	 */
	ASSERT_EQ(0, stream_open(&s, self->fd, self->vm, 0, 4096));
	EXPECT_EQ(0, gp_destroy(self->fd, s.id));
	EXPECT_EQ(0, munmap((char *)s.ring + 16 * page_size, page_size));
	memset(s.ring, 1, 16 * page_size);
	memset((char *)s.ring + 17 * page_size, 1, s.ring_size - 17 * page_size);
	EXPECT_EQ(0, munmap(s.ring, s.ring_size));
	EXPECT_EQ(0, munmap((void *)(uintptr_t)s.page, page_size));
	EXPECT_EQ(0, gp_destroy(self->fd, s.timeline));
}

/* --- effects of entries */

TEST_F(stream, copy)
{
	static const struct {
		__u64 dst, src, n;
	} cases[] = {
		{ 0, MIB, 1 }, { 1, MIB, 1 }, { 3, MIB + 5, 7 }, { 4095, MIB + 4095, 2 },
		{ 100, MIB + 4000, 5000 }, { 0, MIB, MIB }, { 1, MIB + 3, MIB - 3 },
		{ MIB, 0, MIB }, { 12345, 600001, 300007 }, { 0, 0x100, 0x100 }, { 0, 0, 0 },
	};
	struct gpumem_sqe sqe;
	unsigned char *model = malloc(BYTES);
	struct rng r;

	rng_start(&r, "copy");
	rng_fill(&r, self->p, BYTES);
	memcpy(model, self->p, BYTES);
	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		sqe = sqe_copy(ADDR + cases[i].dst, ADDR + cases[i].src, cases[i].n);
		sqe.height = i % 2;
		memcpy(model + cases[i].dst, model + cases[i].src, cases[i].n);
		ASSERT_EQ(0, stream_push(&self->s, &sqe));
		ASSERT_EQ(0, stream_sync(&self->s));
		EXPECT_EQ(0, memcmp(model, self->p, BYTES))
			TH_LOG("case %u", i);
	}
	free(model);
}

TEST_F(stream, copy_2d)
{
	static const struct {
		__u64 dst, dst_pitch, src, src_pitch, width, height;
	} cases[] = {
		{ 0, 100, MIB, 200, 50, 10 }, { 7, 4096, MIB + 1, 13, 13, 200 },
		{ 0, 4096, MIB, 4096, 4096, 256 }, { 1, 10000, MIB, 10000, 9999, 100 },
		{ 5, 1, MIB, 1, 1, 1000 }, { 64, 70000, MIB, 65536, 65536, 14 },
		{ 0, 64, MIB, 64, 0, 10 },
	};
	struct gpumem_sqe sqe;
	unsigned char *model = malloc(BYTES);
	struct rng r;

	rng_start(&r, "copy 2d");
	rng_fill(&r, self->p, BYTES);
	memcpy(model, self->p, BYTES);
	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		sqe = sqe_copy2d(ADDR + cases[i].dst, cases[i].dst_pitch, ADDR + cases[i].src,
				 cases[i].src_pitch, cases[i].width, cases[i].height);
		for (__u64 y = 0; y < cases[i].height; y++)
			memcpy(model + cases[i].dst + y * cases[i].dst_pitch,
			       model + cases[i].src + y * cases[i].src_pitch, cases[i].width);
		ASSERT_EQ(0, stream_push(&self->s, &sqe));
		ASSERT_EQ(0, stream_sync(&self->s));
		EXPECT_EQ(0, memcmp(model, self->p, BYTES))
			TH_LOG("case %u", i);
	}
	free(model);
}

static void model_fill(unsigned char *p, unsigned int elem, __u64 value, __u64 count)
{
	for (__u64 i = 0; i < count; i++)
		memcpy(p + i * elem, &value, elem);
}

TEST_F(stream, fill)
{
	const __u64 value = 0x8877665544332211ULL;
	unsigned char *model = calloc(1, BYTES);
	struct gpumem_sqe sqe;

	for (unsigned int elem = 1; elem <= 8; elem *= 2) {
		static const __u64 counts[] = { 1, 3, 511, 513, 4097, 50001 };

		for (unsigned int i = 0; i < ARRAY_SIZE(counts); i++) {
			__u64 at = elem * (i * 3 + 1);

			sqe = sqe_fill(ADDR + at, elem, value + i, counts[i]);
			model_fill(model + at, elem, value + i, counts[i]);
			ASSERT_EQ(0, stream_push(&self->s, &sqe));
			ASSERT_EQ(0, stream_sync(&self->s));
			EXPECT_EQ(0, memcmp(model, self->p, BYTES))
				TH_LOG("elements of %u, %llu of them", elem,
				       (unsigned long long)counts[i]);
		}
		/* 2D: bytes between the rows do not change.  */
		sqe = sqe_fill2d(ADDR + MIB, 1024 + 8 * elem, elem, ~value, 100, 333);
		for (__u64 y = 0; y < 333; y++)
			model_fill(model + MIB + y * (1024 + 8 * elem), elem, ~value, 100);
		ASSERT_EQ(0, stream_push(&self->s, &sqe));
		ASSERT_EQ(0, stream_sync(&self->s));
		EXPECT_EQ(0, memcmp(model, self->p, BYTES));
	}
	/* All of it, the last byte included. */
	sqe = sqe_fill(ADDR, 8, value, BYTES / 8);
	model_fill(model, 8, value, BYTES / 8);
	ASSERT_EQ(0, stream_push(&self->s, &sqe));
	ASSERT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(0, memcmp(model, self->p, BYTES));
	free(model);
}

/* Ranges that go through several mappings, of several objects. */
TEST_F(stream, across_mappings)
{
	const __u64 base = ADDR * 4;
	unsigned char *q;
	struct gpumem_sqe sqe;
	__u32 other;

	q = gp_alloc_map(self->fd, 4 * page_size, &other);
	ASSERT_NE(NULL, q);
	/* Map pages of the two objects in turn; those of the second object backwards.  */
	for (int i = 0; i < 4; i++) {
		ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo, i * page_size,
				       base + 2 * i * page_size, page_size, 1, 1));
		ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, other, (3 - i) * page_size,
				       base + (2 * i + 1) * page_size, page_size, 1, 1));
	}
	for (size_t i = 0; i < 8 * page_size; i++)
		self->p[MIB + i] = i / page_size * 16 + i % 13;
	sqe = sqe_copy(base, ADDR + MIB, 8 * page_size);
	ASSERT_EQ(0, stream_push(&self->s, &sqe));
	ASSERT_EQ(0, stream_sync(&self->s));
	for (int i = 0; i < 4; i++) {
		EXPECT_EQ(0, memcmp(self->p + i * page_size, self->p + MIB + 2 * i * page_size,
				    page_size));
		EXPECT_EQ(0, memcmp(q + (3 - i) * page_size,
				    self->p + MIB + (2 * i + 1) * page_size, page_size));
	}
	/* If one page is not mapped, the entry faults.  */
	EXPECT_EQ(0, gp_vm_unmap(self->fd, self->vm, base + 7 * page_size, page_size, NULL));
	EXPECT_EQ(EFAULT, stream_error_of(self->fd, self->vm, sqe));
	sqe = sqe_copy(base, ADDR + MIB, 7 * page_size);
	EXPECT_EQ(0, stream_error_of(self->fd, self->vm, sqe));
}

static __u64 raw_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec * NSEC + t.tv_nsec;
}

TEST_F(stream, timestamps)
{
	const __u64 *t = (const __u64 *)self->p;
	__u64 before = raw_ns(), after;
	struct gpumem_sqe sqe;

	for (int i = 0; i < 100; i++) {
		sqe = sqe_timestamp(ADDR + 8 * i);
		ASSERT_EQ(0, stream_push(&self->s, &sqe));
	}
	ASSERT_EQ(0, stream_sync(&self->s));
	after = raw_ns();
	EXPECT_LE(before, t[0]);
	for (int i = 1; i < 100; i++) {
		EXPECT_LE(t[i - 1], t[i]);
	}
	EXPECT_LE(t[99], after);
	EXPECT_EQ(0, t[100]);
}

/* The page names the first entry that failed; later failures do not change the number. */
TEST_F(stream, first_failure_has_a_number)
{
	const struct gpumem_sqe good = sqe_nop(), bad = sqe_fill(ADDR * 8, 1, 1, 1);
	struct stream s;

	ASSERT_EQ(0, stream_open(&s, self->fd, self->vm, 0, 16));
	for (int i = 0; i < 20; i++) {
		ASSERT_EQ(0, stream_push(&s, &good));
	}
	ASSERT_EQ(0, stream_push(&s, &bad));
	ASSERT_EQ(0, stream_push(&s, &good));
	ASSERT_EQ(0, stream_push(&s, &bad));
	EXPECT_EQ(-EIO, stream_sync(&s));
	EXPECT_EQ(EFAULT, s.page->error);
	EXPECT_EQ(20, s.page->failed);
	EXPECT_EQ(0, stream_close(&s));
}

/* Each entry reads what the entry before it wrote.  */
TEST_F_TIMEOUT(stream, order, 120)
{
	const __u64 n = 5000;

	for (__u64 i = 0; i < n; i++) {
		struct gpumem_sqe sqe = sqe_fill(ADDR, 8, i, 1);

		ASSERT_EQ(0, stream_push(&self->s, &sqe));
		sqe = sqe_copy(ADDR + MIB + 8 * i, ADDR, 8);
		ASSERT_EQ(0, stream_push(&self->s, &sqe));
	}
	ASSERT_EQ(0, stream_sync(&self->s));
	for (__u64 i = 0; i < n; i++) {
		ASSERT_EQ(i, ((__u64 *)(self->p + MIB))[i]);
	}
	EXPECT_EQ(2 * n, self->s.page->value);
	EXPECT_EQ(2 * n, self->s.page->head);
	EXPECT_EQ(0, self->s.page->error);
}

/* The timeline's value is stored after the bytes are written.  */
TEST_F(stream, value_follows_the_bytes)
{
	for (int i = 1; i <= 200; i++) {
		struct gpumem_sqe sqe = sqe_fill(ADDR, 1, i, BYTES / 8);
		__u64 end = in_seconds(10);

		ASSERT_EQ(0, stream_push(&self->s, &sqe));
		while (__atomic_load_n(&self->s.page->value, __ATOMIC_ACQUIRE) < self->s.tail) {
			ASSERT_GT(end, mono_ns());
		}
		ASSERT_EQ((unsigned char)i, ((volatile unsigned char *)self->p)[BYTES / 8 - 1]);
		ASSERT_EQ((unsigned char)i, ((volatile unsigned char *)self->p)[0]);
	}
}

/* --- counters */

TEST_F(stream, counters)
{
	struct gpumem_stats before, after;
	__u64 jobs = 0, copied = 0, filled = 0;
	struct gpumem_sqe sqe;
	struct rng r;

	rng_start(&r, "counters");
	ASSERT_EQ(0, gp_stats(self->fd, &before));
	EXPECT_EQ(0, before.jobs);
	EXPECT_EQ(0, before.doorbells);
	for (int i = 0; i < 1000; i++) {
		__u64 n = rng_below(&r, 3000), height = 1 + rng_below(&r, 5);
		unsigned int elem = 1 << rng_below(&r, 4);

		switch (rng_below(&r, 4)) {
		case 0:
			sqe = sqe_copy2d(ADDR, 4096, ADDR + MIB, 4096, n, height);
			copied += n * height;
			break;
		case 1:
			sqe = sqe_fill2d(ADDR, 4096 * 8, elem, 1, n, height);
			filled += n * height * elem;
			break;
		case 2:
			sqe = sqe_timestamp(ADDR);
			break;
		default:
			sqe = sqe_nop();
		}
		/* With one row there is no pitch. */
		if (height == 1 && sqe.op <= GPUMEM_OP_FILL) {
			sqe.dst_pitch = 0;
			sqe.src_pitch = 0;
		}
		ASSERT_EQ(0, stream_push(&self->s, &sqe));
		jobs++;
		if (i % 100 == 0)
			nap_ms(3);
	}
	ASSERT_EQ(0, stream_sync(&self->s));
	ASSERT_EQ(0, gp_stats(self->fd, &after));
	EXPECT_EQ(jobs, after.jobs);
	EXPECT_EQ(copied, after.copy_bytes);
	EXPECT_EQ(filled, after.fill_bytes);
	EXPECT_EQ(self->s.doorbells, after.doorbells);
	EXPECT_LT(0, after.doorbells);
	EXPECT_EQ(1, after.streams);
}

/* --- the model: the same operations, one after the other, on plain memory */

#define ALIAS	(ADDR + 16 * BYTES)

TEST_F_TIMEOUT(stream, model, 100000)
{
	__u64 steps = env_number("GPUMEM_STEPS", 5000), value = 0;
	unsigned char *model = malloc(BYTES);
	__u32 timeline;
	struct rng r;

	rng_start(&r, "stream model");
	rng_fill(&r, self->p, BYTES);
	memcpy(model, self->p, BYTES);
	ASSERT_EQ(0, gp_timeline_create(self->fd, 0, &timeline));
	/* Map the same memory at a second address.  */
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo, 0, ALIAS, BYTES, 1, 1));
	for (__u64 step = 0; step < steps; step++) {
		__u64 max = rng_below(&r, 16) ? 5000 : BYTES / 16;
		__u64 width = 1 + rng_below(&r, max), height = 1, pitch[2] = { 0, 0 };
		unsigned int elem = 1 << rng_below(&r, 4);
		__u64 half = rng_below(&r, 2) * MIB, dst, src, span[2];
		struct gpumem_sqe sqe;

		if (rng_below(&r, 3) == 0 && width < 5000) {
			height = 2 + rng_below(&r, 30);
			for (int i = 0; i < 2; i++)
				pitch[i] = width + rng_below(&r, 500);
		}
		for (int i = 0; i < 2; i++)
			span[i] = (height - 1) * pitch[i] + width;
		switch (rng_below(&r, 8)) {
		case 0:
			sqe = sqe_nop();
			break;
		case 1:
			sqe = sqe_signal(timeline, ++value);
			break;
		case 2:
			sqe = sqe_wait(timeline, value);
			break;
		case 3:
		case 4:
			width = (width + elem - 1) / elem;
			pitch[0] = height > 1 ? (width + rng_below(&r, 50)) * elem : 0;
			span[0] = (height - 1) * pitch[0] + width * elem;
			ASSERT_GT(BYTES, span[0]);
			dst = rng_below(&r, BYTES - span[0]) & -elem;
			sqe = sqe_fill2d((rng_below(&r, 2) ? ADDR : ALIAS) + dst, pitch[0], elem,
					 rng_next(&r), width, height);
			for (__u64 y = 0; y < height; y++)
				model_fill(model + dst + y * pitch[0], elem, sqe.value, width);
			break;
		default:
			/* Source and destination in different halves: no overlap. */
			ASSERT_GT(MIB, span[0]);
			ASSERT_GT(MIB, span[1]);
			dst = half + rng_below(&r, MIB - span[0]);
			src = MIB - half + rng_below(&r, MIB - span[1]);
			sqe = sqe_copy2d((rng_below(&r, 2) ? ADDR : ALIAS) + dst, pitch[0],
					 (rng_below(&r, 2) ? ADDR : ALIAS) + src, pitch[1], width,
					 height);
			for (__u64 y = 0; y < height; y++)
				memcpy(model + dst + y * pitch[0], model + src + y * pitch[1],
				       width);
		}
		ASSERT_EQ(0, stream_push(&self->s, &sqe));
		if (step % 500 == 499) {
			ASSERT_EQ(0, stream_sync(&self->s));
			ASSERT_EQ(0, memcmp(model, self->p, BYTES))
				TH_LOG("differs within 500 steps before %llu",
				       (unsigned long long)step);
		}
	}
	ASSERT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(0, memcmp(model, self->p, BYTES));
	EXPECT_EQ(0, self->s.page->error);
	free(model);
}

/* Several streams at once, each in its own part: they do not disturb each other. */
struct worker {
	int fd;
	__u32 vm;
	__u64 base, seed, size;
	unsigned char *p;
	int result;
	pthread_t thread;
};

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	unsigned char *model = malloc(w->size);
	struct rng r = { w->seed };
	struct stream s;

	w->result = stream_open(&s, w->fd, w->vm, 0, 32);
	memcpy(model, w->p, w->size);
	for (int i = 0; i < 1000 && !w->result; i++) {
		__u64 n = 1 + rng_below(&r, 1000), dst = rng_below(&r, w->size / 2 - n);
		__u64 src = w->size / 2 + rng_below(&r, w->size / 2 - n);
		struct gpumem_sqe sqe;

		if (rng_below(&r, 2)) {
			sqe = sqe_fill(w->base + src, 1, rng_next(&r), n);
			memset(model + src, sqe.value, n);
		} else {
			sqe = sqe_copy(w->base + dst, w->base + src, n);
			memcpy(model + dst, model + src, n);
		}
		w->result = stream_push(&s, &sqe);
	}
	if (!w->result)
		w->result = stream_sync(&s);
	if (!w->result && memcmp(model, w->p, w->size))
		w->result = -EILSEQ;
	stream_close(&s);
	free(model);
	return NULL;
}

TEST_F_TIMEOUT(stream, many_at_once, 120)
{
	enum { N = 8 };
	struct worker w[N];
	struct rng r;

	rng_start(&r, "many at once");
	rng_fill(&r, self->p, BYTES);
	for (int i = 0; i < N; i++) {
		__u64 at = i * (BYTES / N);

		w[i] = (struct worker) {
			.fd = self->fd, .vm = self->vm, .base = ADDR + at, .seed = rng_next(&r),
			.size = BYTES / N, .p = self->p + at,
		};
		ASSERT_EQ(0, pthread_create(&w[i].thread, NULL, worker_main, &w[i]));
	}
	for (int i = 0; i < N; i++) {
		pthread_join(w[i].thread, NULL);
		EXPECT_EQ(0, w[i].result);
	}
}

TEST_HARNESS_MAIN
