// SPDX-License-Identifier: GPL-2.0
/*
 * Device memory as io_uring's area for receiving (IORING_OP_RECV_ZC): a DMA-buf of gpumem is
 * registered, payload arrives in it without a copy, and the program gives it back by a ring.
 *
 * The kernels that can do it are newer than liburing here, so the test makes the system calls.
 */
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "kselftest_harness.h"
#include "cuda/cuda_util.h"
#include "net/nic_util.h"

#define BUFFER		(2 * MIB)
#define ENTRIES		4096	/* of the refill ring */
#define RW		(PROT_READ | PROT_WRITE)

/* --- <linux/io_uring.h> and <linux/io_uring/zcrx.h>, where old headers lack it */

/* CQSIZE, CQE32, SINGLE_ISSUER, DEFER_TASKRUN */
#define ZC_SETUP	((1U << 3) | (1U << 11) | (1U << 12) | (1U << 13))
#define ZC_REGISTER_IFQ	32
#define ZC_OP_RECV	58
#define ZC_MULTISHOT	2
#define ZC_REGION_USER	1
#define ZC_AREA_DMABUF	1
#define ZC_AREA_MASK	(~((1ULL << 48) - 1))

struct zc_region {
	__u64 user_addr, size;
	__u32 flags, id;
	__u64 mmap_offset, reserved[4];
};

struct zc_area {
	__u64 addr, len, token;
	__u32 flags, dmabuf_fd;
	__u64 reserved[2];
};

struct zc_ifq {
	__u32 if_idx, if_rxq, entries, flags;
	__u64 area, region;
	struct {
		__u32 head, tail, rqes, reserved;
		__u64 more[2];
	} offsets;
	__u32 id, rx_buf_len;
	__u64 event, reserved[2];
};

struct zc_rqe {
	__u64 off;
	__u32 len, pad;
};

/* A completion with 32 bytes. */
struct zc_cqe {
	struct io_uring_cqe plain;
	__u64 off, pad;
};

/* --- a ring */

struct ring {
	int fd;
	struct io_uring_params p;
	unsigned char *queues;
	struct io_uring_sqe *sqes;
	void *refill;		/* the region of the refill ring */
	struct zc_area area;
	struct zc_ifq ifq;
};

static __u32 *word(struct ring *r, __u32 offset)
{
	return (void *)(r->queues + offset);
}

/* 0 or a negative errno; -EINVAL from a kernel that knows no such rings. */
static int ring_open(struct ring *r)
{
	size_t queues, sqes;

	memset(r, 0, sizeof(*r));
	r->p.flags = ZC_SETUP;
	/* Each page of the buffer can be a completion; without room for one, receiving ends. */
	r->p.cq_entries = ENTRIES;
	r->fd = syscall(__NR_io_uring_setup, 64, &r->p);
	if (r->fd < 0)
		return -errno;
	queues = r->p.cq_off.cqes + r->p.cq_entries * sizeof(struct zc_cqe);
	sqes = r->p.sq_entries * sizeof(*r->sqes);
	r->queues = mmap(NULL, queues, RW, MAP_SHARED, r->fd, IORING_OFF_SQ_RING);
	r->sqes = mmap(NULL, sqes, RW, MAP_SHARED, r->fd, IORING_OFF_SQES);
	return r->queues == MAP_FAILED || r->sqes == MAP_FAILED ? -ENOMEM : 0;
}

/* Register @fd as the memory of the receive queue of @name. */
static int ring_register(struct ring *r, const char *name, int fd)
{
	size_t size = page_size + ENTRIES * sizeof(struct zc_rqe);
	struct zc_region region = { .size = size, .flags = ZC_REGION_USER };

	r->refill = mmap(NULL, size, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r->refill == MAP_FAILED)
		return -ENOMEM;
	region.user_addr = (uintptr_t)r->refill;
	r->area.len = BUFFER;
	r->area.flags = ZC_AREA_DMABUF;
	r->area.dmabuf_fd = fd;
	r->ifq.if_idx = if_nametoindex(name);
	r->ifq.entries = ENTRIES;
	r->ifq.area = (uintptr_t)&r->area;
	r->ifq.region = (uintptr_t)&region;
	return syscall(__NR_io_uring_register, r->fd, ZC_REGISTER_IFQ, &r->ifq, 1) ? -errno : 0;
}

/* Receive from @sock until it ends; each piece is a completion. */
static int ring_receive(struct ring *r, int sock)
{
	__u32 tail = *word(r, r->p.sq_off.tail), slot = tail & *word(r, r->p.sq_off.ring_mask);
	struct io_uring_sqe *sqe = &r->sqes[slot];

	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = ZC_OP_RECV;
	sqe->fd = sock;
	sqe->ioprio = ZC_MULTISHOT;
	sqe->splice_fd_in = r->ifq.id;
	word(r, r->p.sq_off.array)[slot] = slot;
	__atomic_store_n(word(r, r->p.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
	return syscall(__NR_io_uring_enter, r->fd, 1, 0, 0, NULL, 0) == 1 ? 0 : -errno;
}

/* Wait for a completion, and take it. */
static bool ring_next(struct ring *r, struct zc_cqe *out)
{
	__u32 *head = word(r, r->p.cq_off.head), *tail = word(r, r->p.cq_off.tail);
	struct zc_cqe *cqes = (void *)(r->queues + r->p.cq_off.cqes);

	while (*head == __atomic_load_n(tail, __ATOMIC_ACQUIRE))
		if (syscall(__NR_io_uring_enter, r->fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
			return false;
	*out = cqes[*head & *word(r, r->p.cq_off.ring_mask)];
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	return true;
}

/* Give the piece @c back. */
static void ring_refill(struct ring *r, const struct zc_cqe *c)
{
	__u32 *tail = r->refill + r->ifq.offsets.tail;
	struct zc_rqe *rqes = r->refill + r->ifq.offsets.rqes;

	rqes[*tail & (ENTRIES - 1)] = (struct zc_rqe){
		.off = (c->off & ~ZC_AREA_MASK) | r->area.token,
		.len = c->plain.res,
	};
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
}

/* --- the test */

FIXTURE(zcrx)
{
	struct ring ring;
	CUcontext ctx;
	CUdeviceptr p;
	int far_ns, fd, listening;
};

FIXTURE_SETUP(zcrx)
{
	int rc;

	if (!nic_present())
		SKIP(return, "no device " NEAR);
	ASSERT_EQ(0, ring_open(&self->ring));
	self->far_ns = nic_part();
	ASSERT_LE(0, self->far_ns);
	ASSERT_EQ(0, nic_split(NEAR));
	cuda_begin(_metadata, &self->ctx);
	ASSERT_CU(cuMemAlloc(&self->p, BUFFER));
	ASSERT_CU(cuMemsetD8(self->p, 0xee, BUFFER));
	ASSERT_CU(cuMemGetHandleForAddressRange(&self->fd, self->p, BUFFER,
						CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	rc = ring_register(&self->ring, NEAR, self->fd);
	if (rc == -EINVAL || rc == -EOPNOTSUPP)
		SKIP(return, "this kernel's io_uring receives into no DMA-buf");
	ASSERT_EQ(0, rc);
	self->listening = nic_listen(NEAR_ADDRESS);
	ASSERT_LE(0, self->listening);
}

FIXTURE_TEARDOWN_PARENT(zcrx)
{
	EXPECT_TRUE(!nic_present() || nic_back());
	EXPECT_TRUE(dev_quiet(10));
}

TEST_F(zcrx, payload_arrives_in_device_memory)
{
	struct nic_sender s = { self->far_ns, 2 * BUFFER };
	unsigned char *seen = malloc(BUFFER);
	size_t total = 0, offset;
	struct zc_cqe c;
	pid_t child;
	int sock;

	ASSERT_NE(NULL, seen);
	child = start_child(nic_send, &s);
	ASSERT_LT(0, child);
	sock = accept(self->listening, NULL, NULL);
	ASSERT_LE(0, sock);
	ASSERT_EQ(0, ring_receive(&self->ring, sock));
	for (;;) {
		ASSERT_TRUE(ring_next(&self->ring, &c));
		if (c.plain.res <= 0)
			break;
		offset = c.off & ~ZC_AREA_MASK;
		ASSERT_GE(BUFFER, offset + c.plain.res);
		ASSERT_CU(cuMemcpyDtoH(seen, self->p + offset, c.plain.res));
		ASSERT_TRUE(nic_pattern(seen, total, c.plain.res));
		total += c.plain.res;
		ring_refill(&self->ring, &c);
	}
	EXPECT_EQ(0, c.plain.res);
	EXPECT_EQ(s.n, total);
	EXPECT_EQ(0, end_child(child));
	EXPECT_EQ(0, close(sock));
	EXPECT_CU(cuMemFree(self->p));
	free(seen);
}

TEST_HARNESS_MAIN
