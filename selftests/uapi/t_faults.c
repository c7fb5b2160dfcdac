// SPDX-License-Identifier: GPL-2.0
/*
 * Streams when things go wrong: faults, malformed entries, tails outside the ring, and the end of
 * streams that have work.  t_hostile has clients that write over their rings at any time.
 */
#include "kselftest_harness.h"
#include "common/stream_fixture.h"

STREAM_FIXTURE(faults)

/* --- faults */

TEST_F(faults, no_mapping)
{
	const __u64 hole = ADDR + BYTES;

	EXPECT_EQ(EFAULT, stream_error_of(self->fd, self->vm, sqe_copy(hole, ADDR, 1)));
	EXPECT_EQ(EFAULT, stream_error_of(self->fd, self->vm, sqe_copy(ADDR, hole, 1)));
	EXPECT_EQ(EFAULT, stream_error_of(self->fd, self->vm, sqe_copy(hole - 1, ADDR, 2)));
	EXPECT_EQ(EFAULT, stream_error_of(self->fd, self->vm, sqe_copy(ADDR, hole - 1, 2)));
	EXPECT_EQ(EFAULT, stream_error_of(self->fd, self->vm, sqe_copy(ADDR - 1, ADDR + MIB, 2)));
	EXPECT_EQ(EFAULT, stream_error_of(self->fd, self->vm, sqe_copy(0, ADDR, 1)));
	EXPECT_EQ(EFAULT, stream_error_of(self->fd, self->vm, sqe_fill(hole, 1, 0, 1)));
	EXPECT_EQ(EFAULT, stream_error_of(self->fd, self->vm, sqe_fill(0, 8, 0, 1)));
	EXPECT_EQ(EFAULT, stream_error_of(self->fd, self->vm, sqe_fill(ADDR, 1, 0, BYTES + 1)));
	EXPECT_EQ(EFAULT, stream_error_of(self->fd, self->vm, sqe_timestamp(hole)));
	EXPECT_EQ(EFAULT, stream_error_of(self->fd, self->vm, sqe_copy2d(ADDR, MIB, ADDR, MIB, 1,
									 3)));
	EXPECT_EQ(EFAULT, stream_error_of(self->fd, self->vm, sqe_copy(1ULL << 63, ADDR, 1)));
	EXPECT_EQ(0, stream_error_of(self->fd, self->vm, sqe_copy(hole - 1, ADDR, 1)));
	/* A fault of one stream does not affect other streams.  */
	EXPECT_EQ(0, self->s.page->error);
}

TEST_F(faults, no_access)
{
	const __u64 ro = 2 * ADDR, none = 4 * ADDR;

	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo, 0, ro, BYTES, 1, 0));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo, 0, none, BYTES, 0, 0));
	EXPECT_EQ(0, stream_error_of(self->fd, self->vm, sqe_copy(ADDR, ro + MIB, 10)));
	EXPECT_EQ(EACCES, stream_error_of(self->fd, self->vm, sqe_copy(ro, ADDR + MIB, 10)));
	EXPECT_EQ(EACCES, stream_error_of(self->fd, self->vm, sqe_fill(ro, 1, 1, 1)));
	EXPECT_EQ(EACCES, stream_error_of(self->fd, self->vm, sqe_timestamp(ro)));
	EXPECT_EQ(EACCES, stream_error_of(self->fd, self->vm, sqe_copy(ADDR, none, 10)));
	EXPECT_EQ(EACCES, stream_error_of(self->fd, self->vm, sqe_copy(none, ADDR, 10)));
	EXPECT_EQ(0, gp_vm_access(self->fd, self->vm, none, BYTES, 0,
				  GPUMEM_ACCESS_READ | GPUMEM_ACCESS_WRITE));
	EXPECT_EQ(0, stream_error_of(self->fd, self->vm, sqe_copy(none, ADDR + MIB, 10)));
	EXPECT_EQ(0, gp_vm_access(self->fd, self->vm, none, BYTES, 0, GPUMEM_ACCESS_READ));
	EXPECT_EQ(EACCES, stream_error_of(self->fd, self->vm, sqe_copy(none, ADDR + MIB, 10)));
	EXPECT_EQ(0, gp_vm_access(self->fd, self->vm, none, BYTES, 0, 0));
	EXPECT_EQ(EACCES, stream_error_of(self->fd, self->vm, sqe_copy(ADDR, none + MIB, 10)));
	for (int i = 0; i < 10; i++) {
		EXPECT_EQ(0, self->p[i]);
	}
}

static struct gpumem_sqe with_flags(struct gpumem_sqe sqe, unsigned int flags)
{
	sqe.flags = flags;
	return sqe;
}

/* A copy may name the device whose access counts, for each side. */
TEST_F(faults, rights_of_another_device)
{
	const __u64 theirs = 2 * ADDR, nobodys = 4 * ADDR;
	const unsigned int to = GPUMEM_SQE_DST_RIGHTS(1), from = GPUMEM_SQE_SRC_RIGHTS(1);
	__u32 device;
	int other;

	if (dev_count() < 2)
		SKIP(return, "there is no second device");
	other = gp_open(1);
	ASSERT_LE(0, other);
	ASSERT_EQ(0, gp_attach(self->fd, other, &device));
	ASSERT_EQ(1, device);
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo, 0, theirs, BYTES, 2, 2));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo, 0, nobodys, BYTES, 0, 0));
	self->p[MIB] = 7;
	EXPECT_EQ(EACCES, stream_error_of(self->fd, self->vm, sqe_copy(theirs, ADDR + MIB, 1)));
	EXPECT_EQ(EACCES, stream_error_of(self->fd, self->vm, with_flags(sqe_copy(theirs, ADDR + MIB, 1), from)));
	EXPECT_EQ(0, self->p[0]);
	EXPECT_EQ(0, stream_error_of(self->fd, self->vm, with_flags(sqe_copy(theirs, ADDR + MIB, 1), to)));
	EXPECT_EQ(7, self->p[0]);
	EXPECT_EQ(EACCES, stream_error_of(self->fd, self->vm, sqe_copy(ADDR + 1, theirs + MIB, 1)));
	EXPECT_EQ(EACCES, stream_error_of(self->fd, self->vm, with_flags(sqe_copy(ADDR + 1, theirs + MIB, 1), to)));
	EXPECT_EQ(0, stream_error_of(self->fd, self->vm, with_flags(sqe_copy(ADDR + 1, theirs + MIB, 1), from)));
	EXPECT_EQ(7, self->p[1]);
	EXPECT_EQ(0, stream_error_of(self->fd, self->vm,
				     with_flags(sqe_copy(theirs + 2, theirs + MIB, 1), to | from)));
	EXPECT_EQ(7, self->p[2]);
	EXPECT_EQ(EACCES, stream_error_of(self->fd, self->vm, with_flags(sqe_copy(nobodys, ADDR, 1), to)));
	EXPECT_EQ(EACCES, stream_error_of(self->fd, self->vm, with_flags(sqe_copy(ADDR, nobodys, 1), from)));
	/* The stream's own device has no access by another's. */
	EXPECT_EQ(0, gp_vm_access(self->fd, self->vm, theirs, BYTES, 1, GPUMEM_ACCESS_READ));
	EXPECT_EQ(EACCES, stream_error_of(self->fd, self->vm, with_flags(sqe_copy(theirs, ADDR + MIB, 1), to)));
	EXPECT_EQ(0, stream_error_of(self->fd, self->vm, with_flags(sqe_copy(ADDR + 3, theirs, 1), from)));
	close(other);
}

/* After a failure the stream executes no entries, and yet all entries complete. */
TEST_F(faults, after_a_failure)
{
	struct gpumem_timeline_wait w;
	struct gpumem_stats stats;
	struct gpumem_sqe sqe;

	sqe = sqe_fill(ADDR, 1, 1, 1);
	ASSERT_EQ(0, stream_push(&self->s, &sqe));
	sqe = sqe_fill(ADDR + BYTES, 1, 1, 1);
	ASSERT_EQ(0, stream_push(&self->s, &sqe));
	for (int i = 0; i < 500; i++) {
		sqe = i == 250 ? (struct gpumem_sqe) { .op = 77 } : sqe_fill(ADDR + 1, 1, 2, 100);
		ASSERT_EQ(0, stream_push(&self->s, &sqe));
	}
	EXPECT_EQ(-EIO, stream_sync(&self->s));
	EXPECT_EQ(-EIO, gp_timeline_wait(self->fd, self->s.timeline, 502, 0, &w));
	EXPECT_EQ(EFAULT, w.error);
	EXPECT_EQ(502, w.reached);
	EXPECT_EQ(502, self->s.page->value);
	EXPECT_EQ(EFAULT, self->s.page->error);
	EXPECT_EQ(1, self->p[0]);
	EXPECT_EQ(0, self->p[1]);
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(1, stats.fill_bytes);
}

TEST_F(faults, malformed)
{
	const __u64 a = ADDR, b = ADDR + MIB;
	const struct gpumem_sqe nop = sqe_nop(), copy = sqe_copy(a, b, 8),
		fill = sqe_fill(a, 4, 1, 8), sig = sqe_signal(1, 1), wait = sqe_wait(1, 0),
		stamp = sqe_timestamp(a);
	/* Devices 0, 1, 3, 7 and 15, of which the client has attached the first. */
	static const int rights[16] = {
		[4] = 0, EACCES, EACCES, EACCES, EACCES, [9] = 0, EACCES, EACCES, EACCES, EACCES,
	};
	struct gpumem_sqe all[6] = { nop, copy, fill, wait, sig, stamp }, e;
	__u32 timeline;

	ASSERT_EQ(0, gp_timeline_create(self->fd, 1, &timeline));
	all[3].handle = timeline;
	all[4].handle = timeline;
#define BAD(base, member, v, want) do {							\
		e = (base);								\
		e.member = (v);								\
		EXPECT_EQ((want), stream_error_of(self->fd, self->vm, e))			\
			TH_LOG("op %u " #member " %#llx", e.op, (unsigned long long)(v));	\
	} while (0)
	for (unsigned int i = 0; i < ARRAY_SIZE(all); i++) {
		EXPECT_EQ(0, stream_error_of(self->fd, self->vm, all[i]));
		for (int bit = 0; bit < 16; bit++)
			BAD(all[i], flags, 1 << bit, i == GPUMEM_OP_COPY && 0x3ff0 >> bit & 1 ? rights[bit] : EOPNOTSUPP);
		for (int bit = 0; bit < 64; bit += 9)
			BAD(all[i], reserved2, 1ULL << bit, EOPNOTSUPP);
		if (i != GPUMEM_OP_FILL)
			BAD(all[i], elem, 1, EINVAL);
		if (i != GPUMEM_OP_WAIT && i != GPUMEM_OP_SIGNAL)
			BAD(all[i], handle, timeline, EINVAL);
		if (i != GPUMEM_OP_COPY && i != GPUMEM_OP_FILL) {
			BAD(all[i], width, 1, EINVAL);
			BAD(all[i], height, 1, EINVAL);
			BAD(all[i], dst_pitch, 1, EINVAL);
			BAD(all[i], src_pitch, 1, EINVAL);
		}
	}
	for (int op = GPUMEM_OP_PREFETCH + 1; op < 256; op += op < 16 ? 1 : 17)
		BAD(nop, op, op, EOPNOTSUPP);
	BAD(copy, flags, GPUMEM_SQE_DST_RIGHTS(GPUMEM_MAX_DEVICES), EINVAL);
	BAD(copy, flags, GPUMEM_SQE_SRC_RIGHTS(GPUMEM_MAX_DEVICES), EINVAL);
	BAD(copy, flags, GPUMEM_SQE_DST_RIGHTS(30), EINVAL);
	BAD(copy, flags, GPUMEM_SQE_DST_RIGHTS(0) | GPUMEM_SQE_DST_PAGEABLE, EINVAL);
	BAD(copy, flags, GPUMEM_SQE_SRC_RIGHTS(0) | GPUMEM_SQE_SRC_PAGEABLE, EINVAL);
	BAD(nop, dst, a, EINVAL);
	BAD(nop, src, a, EINVAL);
	BAD(all[3], dst, a, EINVAL);
	BAD(all[4], dst, a, EINVAL);
	BAD(all[3], handle, 0, EINVAL);
	BAD(all[4], handle, 0, EINVAL);
	BAD(stamp, src, a, EINVAL);
	BAD(stamp, dst, a + 4, EINVAL);
	/* A pitch is for more than one row, and no smaller than a row. */
	BAD(copy, dst_pitch, 8, EINVAL);
	BAD(copy, src_pitch, 8, EINVAL);
	BAD(copy, height, 2, EINVAL);
	e = sqe_copy2d(a, 8, b, 8, 8, 2);
	BAD(e, dst_pitch, 7, EINVAL);
	BAD(e, src_pitch, 7, EINVAL);
	BAD(fill, elem, 0, EINVAL);
	BAD(fill, elem, 3, EINVAL);
	BAD(fill, elem, 16, EINVAL);
	BAD(fill, elem, 255, EINVAL);
	BAD(fill, dst, a + 2, EINVAL);
	BAD(fill, src_pitch, 4, EINVAL);
	BAD(fill, dst_pitch, 32, EINVAL);
	e = sqe_fill2d(a, 32, 4, 1, 8, 2);
	BAD(e, dst_pitch, 34, EINVAL);
	BAD(e, dst_pitch, 28, EINVAL);
	/* Sizes and pitches whose product or end wraps.  */
	BAD(copy, width, ~0ULL, EOVERFLOW);
	BAD(fill, width, 1ULL << 62, EOVERFLOW);
	e = sqe_copy2d(a, 1ULL << 40, b, 1ULL << 40, 8, 2);
	BAD(e, height, 1ULL << 40, EOVERFLOW);
	EXPECT_EQ(0, self->s.page->error);
}

/* --- a hostile client */

/* Does a new stream still execute entries?  */
static bool still_works(int fd, __u32 vm)
{
	return stream_error_of(fd, vm, sqe_fill(ADDR, 1, 9, 100)) == 0;
}

TEST_F_TIMEOUT(faults, random_entries, 100000)
{
	__u64 steps = env_number("GPUMEM_STEPS", 20000), i = 0, failed = 0;
	struct rng r;
	__u32 timeline;

	rng_start(&r, "random entries");
	ASSERT_EQ(0, gp_timeline_create(self->fd, 0, &timeline));
	while (i < steps) {
		unsigned int n = 1 + rng_below(&r, 64);
		struct gpumem_timeline_wait w;
		struct stream s;

		ASSERT_EQ(0, stream_open(&s, self->fd, self->vm, 0, 64));
		for (unsigned int j = 0; j < n; j++, i++) {
			struct gpumem_sqe sqe;

			rng_fill(&r, &sqe, sizeof(sqe));
			/* Give most entries valid members.  */
			if (rng_below(&r, 8)) {
				sqe.op = rng_below(&r, 7);
				sqe.flags = 0;
				sqe.reserved2 = 0;
			}
			if (rng_below(&r, 4)) {
				sqe.elem = sqe.op == GPUMEM_OP_FILL ? 1 << rng_below(&r, 4) : 0;
				sqe.handle = sqe.op == GPUMEM_OP_WAIT ||
					sqe.op == GPUMEM_OP_SIGNAL ?
					     timeline : 0;
				sqe.dst = ADDR + rng_below(&r, BYTES + 4096);
				sqe.src = ADDR + rng_below(&r, BYTES + 4096);
				sqe.width = rng_below(&r, 10000);
				sqe.height = rng_below(&r, 3);
				sqe.dst_pitch = rng_below(&r, 2) ? 0 : rng_below(&r, 20000);
				sqe.src_pitch = rng_below(&r, 2) ? 0 : rng_below(&r, 20000);
			}
			stream_put(&s, &sqe);
		}
		stream_publish(&s);
		/* A random entry may wait for @timeline: signal it.  */
		gp_timeline_signal(self->fd, timeline, ~0ULL);
		ASSERT_NE(-ETIMEDOUT, gp_timeline_wait(self->fd, s.timeline, s.tail, in_seconds(20),
						       &w));
		failed += w.error != 0;
		ASSERT_EQ(s.tail, w.reached);
		ASSERT_EQ(0, stream_close(&s));
	}
	EXPECT_LT(0, failed);
	EXPECT_TRUE(still_works(self->fd, self->vm));
}

static const __s64 bad_tails[] = {
	-1, -2, -64, 65, 66, 128, 1000000, 1LL << 32, 1LL << 62, -(1LL << 62),
	(-0x7fffffffffffffffLL - 1),
};

TEST_F(faults, bad_tails)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(bad_tails); i++) {
		struct gpumem_sqe sqe = sqe_nop();
		struct gpumem_timeline_wait w;
		struct stream s;

		ASSERT_EQ(0, stream_open(&s, self->fd, self->vm, 0, 64));
		for (int j = 0; j < 10; j++) {
			ASSERT_EQ(0, stream_push(&s, &sqe));
		}
		ASSERT_EQ(0, stream_sync(&s));
		s.ring->tail = 10 + bad_tails[i];
		EXPECT_EQ(0, gp_doorbell(self->fd, s.id));
		/* The stream is dead, and every waiter gets the error. */
		EXPECT_EQ(-EIO, gp_timeline_wait(self->fd, s.timeline, 11, in_seconds(10), &w))
			TH_LOG("tail moved by %lld", (long long)bad_tails[i]);
		EXPECT_NE(0, w.error);
		EXPECT_EQ(10, w.reached);
		/* Moving the tail back does not revive it. */
		s.ring->tail = 10;
		EXPECT_EQ(0, gp_doorbell(self->fd, s.id));
		s.ring->tail = 11;
		EXPECT_EQ(0, gp_doorbell(self->fd, s.id));
		nap_ms(5);
		EXPECT_EQ(10, s.page->value);
		EXPECT_EQ(0, stream_close(&s));
	}
	EXPECT_TRUE(still_works(self->fd, self->vm));
}

/* --- the end of streams */

TEST_F(faults, destroy_finishes_the_ring)
{
	struct gpumem_stats stats;
	struct gpumem_sqe sqe;
	__u32 gate;

	ASSERT_EQ(0, stream_shut(&self->s, &gate));
	for (int i = 0; i < 50; i++) {
		sqe = sqe_fill(ADDR + i, 1, i + 1, 1);
		ASSERT_EQ(0, stream_push(&self->s, &sqe));
	}
	/* Only the id goes; entries in the ring are still executed, in their address space. */
	EXPECT_EQ(0, gp_destroy(self->fd, self->s.id));
	EXPECT_EQ(0, gp_destroy(self->fd, self->vm));
	EXPECT_EQ(-ENOENT, gp_doorbell(self->fd, self->s.id));
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(1, stats.streams);
	EXPECT_EQ(BYTES, stats.vm_bytes);
	EXPECT_EQ(0, self->p[0]);
	/* Entries that are written behind the tail of that moment are not executed. */
	self->s.sqes[51] = sqe_fill(ADDR + 51, 1, 1, 1);
	self->s.ring->tail = 52;
	EXPECT_EQ(0, gp_timeline_signal(self->fd, gate, 1));
	EXPECT_EQ(0, gp_timeline_wait(self->fd, self->s.timeline, 51, in_seconds(10), NULL));
	for (int i = 0; i < 50; i++) {
		EXPECT_EQ(i + 1, self->p[i]);
	}
	nap_ms(20);
	EXPECT_EQ(0, self->p[51]);
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(0, stats.streams);
	EXPECT_EQ(0, stats.vm_bytes);
	/* The stream's timeline does not advance further. */
	EXPECT_EQ(-EIO, gp_timeline_wait(self->fd, self->s.timeline, 52, in_seconds(10), NULL));
}

/* Work that is queued for a range fails when the range is gone by then. */
TEST_F(faults, unmapped_under_queued_work)
{
	struct gpumem_timeline_wait w;
	struct gpumem_sqe sqe;
	__u32 gate;

	ASSERT_EQ(0, stream_shut(&self->s, &gate));
	sqe = sqe_fill(ADDR, 1, 1, 1);
	ASSERT_EQ(0, stream_push(&self->s, &sqe));
	EXPECT_EQ(0, gp_vm_unmap(self->fd, self->vm, ADDR, BYTES, NULL));
	EXPECT_EQ(0, gp_timeline_signal(self->fd, gate, 1));
	EXPECT_EQ(-EIO, gp_timeline_wait(self->fd, self->s.timeline, 2, in_seconds(10), &w));
	EXPECT_EQ(EFAULT, w.error);
	EXPECT_EQ(0, self->p[0]);
}

TEST_F(faults, client_dies_with_blocked_streams)
{
	struct gpumem_sqe sqe;
	struct stream s[8];
	__u32 never;

	ASSERT_EQ(0, gp_timeline_create(self->fd, 0, &never));
	for (int i = 0; i < 8; i++) {
		ASSERT_EQ(0, stream_open(&s[i], self->fd, self->vm, 0, 16));
		sqe = sqe_wait(i ? s[i - 1].timeline : never, 1);
		ASSERT_EQ(0, stream_push(&s[i], &sqe));
		sqe = sqe_fill(ADDR, 1, 1, BYTES);
		ASSERT_EQ(0, stream_push(&s[i], &sqe));
		/* Destroy the ids of half of them. */
		if (i % 2) {
			EXPECT_EQ(0, gp_destroy(self->fd, s[i].id));
		}
	}
	nap_ms(20);
	/* The mappings of the rings hold the client; the teardown of the test drops them. */
	for (int i = 0; i < 8; i++) {
		munmap(s[i].ring, s[i].ring_size);
		munmap((void *)s[i].page, page_size);
	}
	munmap(self->s.ring, self->s.ring_size);
	munmap((void *)self->s.page, page_size);
	munmap(self->p, BYTES);
	close(self->fd);
	EXPECT_TRUE(dev_quiet(10));
	self->fd = -1;
}

TEST_HARNESS_MAIN
