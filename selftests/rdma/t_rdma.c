// SPDX-License-Identifier: GPL-2.0
/*
 * RDMA between two processes, each with gpumem's memory as the local and the remote buffer: every
 * kind of memory, each operation, both directions, by soft-RoCE and soft-iWARP.
 *
 * near is the process of the case and connects; far is a second process and receives from an SRQ.
 */
#include "kselftest_harness.h"
#include "cuda/cuda_util.h"
#include "rdma_peer.h"

FIXTURE(rdma)
{
	struct end near;
	struct peer far;
	struct slot *slot;
	CUdeviceptr p, q;	/* near's and far's memory */
	__u32 rkey;		/* of far's */
	bool atomics;
};

FIXTURE_VARIANT(rdma)
{
	enum transport transport;
	enum kind kind;
	enum way way;
};

#define KIND(name, kind)							\
	FIXTURE_VARIANT_ADD(rdma, name) { ROCE, kind, BY_ADDRESS };		\
	FIXTURE_VARIANT_ADD(rdma, iwarp_##name) { IWARP, kind, BY_ADDRESS }

KIND(device, DEVICE);
KIND(pool, POOL);
KIND(mapped, MAPPED);
KIND(managed, MANAGED);
KIND(registered, REGISTERED);
KIND(host, HOST);
KIND(imported, IMPORTED);

/* With rxe-*.patch, last of all: a change of the module takes its time. */
#define PATCHED(name, kind, way)						\
	FIXTURE_VARIANT_ADD(rdma, name) { PATCHED_ROCE, kind, way }

PATCHED(dmabuf_device, DEVICE, BY_DMABUF);
PATCHED(dmabuf_pool, POOL, BY_DMABUF);
PATCHED(dmabuf_mapped, MAPPED, BY_DMABUF);
PATCHED(dmabuf_registered, REGISTERED, BY_DMABUF);
PATCHED(dmabuf_host, HOST, BY_DMABUF);
PATCHED(movable_device, DEVICE, MOVABLE);
PATCHED(odp_device, DEVICE, ON_DEMAND);
PATCHED(odp_pool, POOL, ON_DEMAND);
PATCHED(odp_mapped, MAPPED, ON_DEMAND);
PATCHED(odp_managed, MANAGED, ON_DEMAND);
PATCHED(odp_registered, REGISTERED, ON_DEMAND);
PATCHED(odp_host, HOST, ON_DEMAND);
PATCHED(odp_imported, IMPORTED, ON_DEMAND);

FIXTURE_SETUP(rdma)
{
	struct far_message m = { .op = FAR_ALLOC, .kind = variant->kind };

	if (!rdma_chosen(variant->kind, true))
		SKIP(return, RDMA_LEFT_OUT);
	if (!rdma_link(variant->transport))
		SKIP(return, "%s", rdma_lacks(variant->transport));
	if (variant->way == ON_DEMAND && rdma_missing->on_demand)
		SKIP(return, RDMA_NOT_ON_DEMAND);
	cuda_begin(_metadata, &self->near.ctx);
	ASSERT_EQ(0, far_start(&self->far));
	ASSERT_EQ(0, ends_connect(&self->near, &self->far, variant->transport));
	if (variant->way == ON_DEMAND && !side_on_demand(&self->near.side)) {
		rdma_missing->on_demand = true;
		EXPECT_EQ(0, far_end(&self->far));
		SKIP(return, RDMA_NOT_ON_DEMAND);
	}
	self->atomics = self->near.side.atomics;
	self->slot = &self->near.slots[0];
	ASSERT_CU(memory_make(&self->slot->memory, variant->kind));
	ASSERT_EQ(0, slot_register(&self->near, self->slot, variant->way, ACCESS_ALL));
	self->p = self->slot->memory.p;
	ASSERT_EQ(0, far_call(&self->far, &m));
	self->q = m.addr;
	m = (struct far_message){
		.op = FAR_REGISTER, .way = variant->way, .access = ACCESS_ALL,
	};
	ASSERT_EQ(0, far_call(&self->far, &m));
	self->rkey = m.rkey;
}

FIXTURE_TEARDOWN_PARENT(rdma)
{
	char moves[16] = "";

	EXPECT_TRUE(dev_quiet(10));
	/* The memory never moves under a DMA-buf. */
	if (variant->transport == PATCHED_ROCE && variant->way != ON_DEMAND && getenv("GPUMEM_RXE")) {
		EXPECT_TRUE(read_text(RXE_MOVES, moves, sizeof(moves)));
		EXPECT_EQ(0, atoi(moves));
	}
}

/* A request of near's, to be completed with other members. */
#define NEAR(op, at, far_at, n)						\
	((struct request){						\
		.opcode = op, .addr = self->p + (at), .lkey = self->slot->mr.lkey,	\
		.far_addr = self->q + (far_at), .rkey = self->rkey, .bytes = n,		\
	})

#define WRITTEN(slot_, at_, n, number_)						\
	ASSERT_EQ(0, FAR(&self->far, .op = FAR_WRITE, .slot = slot_, .at = at_, .bytes = n,	\
			 .number = number_))

static const __u32 sizes[] = { 1, 4095, 4097, 100000, BYTES };

/* Messages go both ways, and arrive at any offset, whole and nowhere else. */
TEST_F(rdma, send)
{
	struct far_message m;
	struct ibv_wc wc;

	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		__u32 n = sizes[i], at = n == BYTES ? 0 : 4095;

		ASSERT_TRUE(memory_write(&self->slot->memory, 0, BYTES, i));
		WRITTEN(0, 0, BYTES, 100);
		ASSERT_EQ(0, FAR(&self->far, .op = FAR_RECEIVE, .at = at, .bytes = BYTES - at));
		ASSERT_EQ(0, side_do(&self->near.side, &NEAR(IBV_WR_SEND, 0, 0, n)));
		m = (struct far_message){ .op = FAR_WAIT };
		ASSERT_EQ(0, far_call(&self->far, &m));
		EXPECT_EQ(IBV_WC_SUCCESS, m.status);
		EXPECT_EQ(IBV_WC_RECV, m.opcode);
		EXPECT_EQ(n, m.bytes);
		EXPECT_TRUE(far_holds(&self->far, 0, at, n, i));
		EXPECT_TRUE(far_holds(&self->far, 0, 0, at, 100));

		/* Far answers with its memory, into near's. */
		WRITTEN(0, 0, BYTES, 200 + i);
		ASSERT_EQ(0, side_recv(&self->near.side, self->p + at, BYTES - at,
				       self->slot->mr.lkey));
		m = (struct far_message){
			.op = FAR_DO, .request = { .opcode = IBV_WR_SEND, .bytes = n },
		};
		ASSERT_EQ(0, far_call(&self->far, &m));
		EXPECT_EQ(IBV_WC_SUCCESS, m.status);
		ASSERT_EQ(0, side_wait(&self->near.side, &wc));
		EXPECT_EQ(n, wc.byte_len);
		EXPECT_TRUE(memory_holds(&self->slot->memory, at, n, 200 + i));
		EXPECT_TRUE(memory_holds(&self->slot->memory, 0, at, i));
	}
}

/* The library of the device reads the bytes of an inline message when the message is posted. */
TEST_F(rdma, inline_send)
{
	struct request r = NEAR(IBV_WR_SEND, 40, 0, INLINE_BYTES);
	struct far_message m = { .op = FAR_WAIT };

	ASSERT_TRUE(memory_write(&self->slot->memory, 40, INLINE_BYTES, 5));
	WRITTEN(0, 0, BYTES, 6);
	ASSERT_EQ(0, FAR(&self->far, .op = FAR_RECEIVE, .at = 77, .bytes = 4096));
	r.flags = IBV_SEND_INLINE;
	ASSERT_EQ(0, side_do(&self->near.side, &r));
	ASSERT_EQ(0, far_call(&self->far, &m));
	EXPECT_EQ(INLINE_BYTES, m.bytes);
	EXPECT_TRUE(far_holds(&self->far, 0, 77, INLINE_BYTES, 5));
	EXPECT_TRUE(far_holds(&self->far, 0, 0, 77, 6));
}

/* One side writes into and reads from the other's memory, which does nothing. */
TEST_F(rdma, write_and_read)
{
	struct far_message m;

	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		__u32 n = sizes[i], at = n == BYTES ? 0 : 8191;

		ASSERT_TRUE(memory_write(&self->slot->memory, 0, n, i));
		WRITTEN(0, 0, BYTES, 100);
		ASSERT_EQ(0, side_do(&self->near.side, &NEAR(IBV_WR_RDMA_WRITE, 0, at, n)));
		EXPECT_TRUE(far_holds(&self->far, 0, at, n, i));
		EXPECT_TRUE(far_holds(&self->far, 0, 0, at, 100));

		WRITTEN(0, at, n, 200 + i);
		ASSERT_TRUE(memory_write(&self->slot->memory, 0, BYTES, 300));
		ASSERT_EQ(0, side_do(&self->near.side, &NEAR(IBV_WR_RDMA_READ, at, at, n)));
		EXPECT_TRUE(memory_holds(&self->slot->memory, at, n, 200 + i));
		EXPECT_TRUE(memory_holds(&self->slot->memory, 0, at, 300));
	}
	/* The other side does it, too. */
	WRITTEN(0, 0, BYTES, 7);
	m = (struct far_message){
		.op = FAR_DO, .request = {
			.opcode = IBV_WR_RDMA_WRITE, .bytes = BYTES, .far_addr = self->p,
			.rkey = self->slot->mr.rkey,
		},
	};
	ASSERT_EQ(0, far_call(&self->far, &m));
	EXPECT_EQ(IBV_WC_SUCCESS, m.status);
	EXPECT_TRUE(memory_holds(&self->slot->memory, 0, BYTES, 7));
}

/* A write with immediate data consumes a receive buffer and does not touch it. */
TEST_F(rdma, immediate)
{
	struct request r = NEAR(IBV_WR_RDMA_WRITE_WITH_IMM, 0, 4096, 50000);
	struct far_message m = { .op = FAR_WAIT };

	if (variant->transport == IWARP)
		SKIP(return, "iWARP has no immediate data");
	ASSERT_TRUE(memory_write(&self->slot->memory, 0, BYTES, 1));
	WRITTEN(0, 0, BYTES, 2);
	ASSERT_EQ(0, FAR(&self->far, .op = FAR_RECEIVE, .at = 0, .bytes = 4096));
	r.imm = 0xabcd1234;
	ASSERT_EQ(0, side_do(&self->near.side, &r));
	ASSERT_EQ(0, far_call(&self->far, &m));
	EXPECT_EQ(IBV_WC_SUCCESS, m.status);
	EXPECT_EQ(IBV_WC_RECV_RDMA_WITH_IMM, m.opcode);
	EXPECT_EQ(0xabcd1234, m.imm);
	EXPECT_EQ(50000, m.bytes);
	EXPECT_TRUE(far_holds(&self->far, 0, 4096, 50000, 1));
	EXPECT_TRUE(far_holds(&self->far, 0, 0, 4096, 2));

	ASSERT_EQ(0, FAR(&self->far, .op = FAR_RECEIVE, .at = 0, .bytes = BYTES));
	r = NEAR(IBV_WR_SEND_WITH_IMM, 0, 0, 5000);
	r.imm = 99;
	ASSERT_EQ(0, side_do(&self->near.side, &r));
	m = (struct far_message){ .op = FAR_WAIT };
	ASSERT_EQ(0, far_call(&self->far, &m));
	EXPECT_EQ(99, m.imm);
	EXPECT_TRUE(far_holds(&self->far, 0, 0, 5000, 1));
}

/* Atomic operations on the other side's memory return what was there. */
TEST_F(rdma, atomics)
{
	const __u64 zero = 0;
	__u64 want = 0;
	struct request r;

	if (!self->atomics)
		SKIP(return, "the device has no atomic operations");
	WRITTEN(0, 0, 4096, 3);
	put(self->p, &zero, 8);
	/* Far's word begins as zero. */
	ASSERT_EQ(0, side_do(&self->near.side, &NEAR(IBV_WR_RDMA_WRITE, 0, 4096, 8)));
	for (unsigned int i = 1; i <= 100; i++) {
		r = NEAR(IBV_WR_ATOMIC_FETCH_AND_ADD, 64, 4096, 8);
		r.compare_add = i;
		ASSERT_EQ(0, side_do(&self->near.side, &r));
		ASSERT_EQ(want, *(const __u64 *)view(self->p + 64, 8));
		want += i;
	}
	/* A comparison that fails stores nothing. */
	r = NEAR(IBV_WR_ATOMIC_CMP_AND_SWP, 64, 4096, 8);
	r.compare_add = want + 1;
	r.swap = 5;
	ASSERT_EQ(0, side_do(&self->near.side, &r));
	EXPECT_EQ(want, *(const __u64 *)view(self->p + 64, 8));
	r.compare_add = want;
	ASSERT_EQ(0, side_do(&self->near.side, &r));
	EXPECT_EQ(want, *(const __u64 *)view(self->p + 64, 8));
	ASSERT_EQ(0, side_do(&self->near.side, &NEAR(IBV_WR_RDMA_READ, 128, 4096, 8)));
	EXPECT_EQ(5, *(const __u64 *)view(self->p + 128, 8));
	EXPECT_TRUE(far_holds(&self->far, 0, 0, 4096, 3));
}

/* Both engines work on the memory meanwhile: on the even pages, and RDMA on the odd ones. */
TEST_F(rdma, while_the_engine_copies)
{
	struct far_message m = { .op = FAR_ENGINE, .bytes = BYTES };
	__u64 rounds = 0;

	ASSERT_TRUE(memory_write(&self->slot->memory, 0, BYTES, 1));
	WRITTEN(0, 0, BYTES, 2);
	ASSERT_EQ(0, far_call(&self->far, &m));
	ASSERT_EQ(0, engine_start(&self->near, self->slot, 0, BYTES));
	for (size_t at = 4096; at < BYTES; at += 8192) {
		const unsigned char *bytes;

		put(self->p + at, &at, sizeof(at));
		ASSERT_EQ(0, side_do(&self->near.side, &NEAR(IBV_WR_RDMA_WRITE, at, at, 4096)));
		/* Read it back to another odd page, which will be written later. */
		if (at + 8192 >= BYTES)
			continue;
		ASSERT_EQ(0, side_do(&self->near.side,
				     &NEAR(IBV_WR_RDMA_READ, at + 8192, at, 4096)));
		bytes = view(self->p + at + 8192, 4096);
		ASSERT_EQ(0, memcmp(bytes, view(self->p + at, 4096), 4096));
	}
	EXPECT_EQ(0, engine_rest(&self->near, &rounds));
	EXPECT_LT(0, rounds);
	m = (struct far_message){ .op = FAR_REST };
	EXPECT_EQ(0, far_call(&self->far, &m));
	EXPECT_LT(0, m.value);
}

/*
 * A request that the far device refuses breaks the connection, and changes no memory.  With iWARP a
 * write is complete when it was sent, so its status says nothing.
 */
static bool refuses(struct end *near, const struct request *r, const struct request *next)
{
	int status = side_do(&near->side, r);

	if (!status && r->opcode == IBV_WR_RDMA_WRITE && !near->side.atomics)
		status = side_do(&near->side, next);
	if (status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_OP_ERR ||
	    status == IBV_WC_WR_FLUSH_ERR || status == IBV_WC_RETRY_EXC_ERR)
		return true;
	/* The connection broke while the request was under way. */
	if (status == IBV_WC_LOC_QP_OP_ERR && !near->side.atomics)
		return true;
	fprintf(stderr, "# status %d\n", status);
	/* The connection was broken before the request could be posted. */
	return status == -EINVAL && !near->side.atomics;
}

TEST_F(rdma, beyond_the_end)
{
	struct request r = NEAR(IBV_WR_RDMA_WRITE, 0, BYTES - 4096, 4097);

	ASSERT_TRUE(memory_write(&self->slot->memory, 0, BYTES, 1));
	WRITTEN(0, 0, BYTES, 2);
	EXPECT_TRUE(refuses(&self->near, &r, &NEAR(IBV_WR_RDMA_READ, 0, 0, 4096)));
	EXPECT_TRUE(far_holds(&self->far, 0, 0, BYTES, 2));
}

TEST_F(rdma, only_to_be_read)
{
	struct far_message m = {
		.op = FAR_REGISTER, .way = variant->way, .access = IBV_ACCESS_REMOTE_READ,
	};
	struct request r;

	ASSERT_TRUE(memory_write(&self->slot->memory, 0, BYTES, 1));
	WRITTEN(0, 0, BYTES, 2);
	ASSERT_EQ(0, FAR(&self->far, .op = FAR_DEREGISTER));
	ASSERT_EQ(0, far_call(&self->far, &m));
	self->rkey = m.rkey;
	ASSERT_EQ(0, side_do(&self->near.side, &NEAR(IBV_WR_RDMA_READ, 0, 0, BYTES)));
	EXPECT_TRUE(memory_holds(&self->slot->memory, 0, BYTES, 2));
	r = NEAR(IBV_WR_RDMA_WRITE, 0, 0, 4096);
	ASSERT_TRUE(memory_write(&self->slot->memory, 0, BYTES, 1));
	EXPECT_TRUE(refuses(&self->near, &r, &NEAR(IBV_WR_RDMA_READ, 0, 0, 4096)));
	EXPECT_TRUE(far_holds(&self->far, 0, 0, BYTES, 2));
}

QUIET_FIXTURE(strict)

/*
 * In strict mode the CPU does not reach device memory, and the kernel cannot pin it by address: as
 * with a card without peer memory.  A DMA-buf works as always.
 */
TEST_F(strict, by_dmabuf_only)
{
	struct far_message m = { .op = FAR_ALLOC, .kind = DEVICE };
	struct end near = { 0 };
	struct slot *slot = &near.slots[0];
	struct request r = { .opcode = IBV_WR_RDMA_WRITE, .bytes = BYTES };
	struct peer far;

	if (!rdma_link(PATCHED_ROCE))
		SKIP(return, "%s", rdma_lacks(PATCHED_ROCE));
	/* For both processes. */
	setenv("GPUMEM_STRICT", "1", 1);
	ASSERT_CU(cuda_start(&near.ctx));
	ASSERT_EQ(0, far_start(&far));
	ASSERT_EQ(0, ends_connect(&near, &far, PATCHED_ROCE));
	ASSERT_CU(memory_make(&slot->memory, DEVICE));
	EXPECT_EQ(-EFAULT, slot_register(&near, slot, BY_ADDRESS, ACCESS_ALL));
	ASSERT_EQ(0, slot_register(&near, slot, BY_DMABUF, ACCESS_ALL));
	ASSERT_EQ(0, far_call(&far, &m));
	r.addr = slot->memory.p;
	r.lkey = slot->mr.lkey;
	r.far_addr = m.addr;
	m = (struct far_message){ .op = FAR_REGISTER, .way = BY_DMABUF, .access = ACCESS_ALL };
	ASSERT_EQ(0, far_call(&far, &m));
	r.rkey = m.rkey;
	ASSERT_TRUE(memory_write(&slot->memory, 0, BYTES, 1));
	ASSERT_EQ(0, side_do(&near.side, &r));
	EXPECT_TRUE(far_holds(&far, 0, 0, BYTES, 1));
	EXPECT_EQ(0, far_end(&far));
}

int main(int argc, char **argv)
{
	int ret = rdma_main(argc, argv);

	return ret >= 0 ? ret : test_harness_run(argc, argv);
}
