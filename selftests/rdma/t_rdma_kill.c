// SPDX-License-Identifier: GPL-2.0
/*
 * SIGKILL of one of two processes while RDMA is under way between their device memory: the process
 * that requests (the actor), or the process whose memory is written or read (the target).
 *
 * Between two virtual machines (rdma/between) the actor is in the machine of the case, and the
 * target in the other one.  A victim, another client in the machine of the killed process, allocates
 * all memory that the device has left, at once and again when the process has ended, and fills it
 * with a byte of its own.  The rules:
 *
 *   - the victims' memory is zero when they get it, and keeps what they write;
 *   - the memory of the process that lives on has bytes of the actor and of the target only;
 *   - afterwards no counter of either machine counts anything, and no page is pinned.
 */
#include "kselftest_harness.h"
#include "cuda/cuda_util.h"
#include "rdma_peer.h"

/* What the memory of the actor, of the target and of the victims is filled with. */
#define ACTOR_BYTE	0x11
#define TARGET_BYTE	0x22
#define VICTIM_BYTE	0xee
/* Times that a process is killed, with the requests at another place. */
#define KILLS		(getenv("GPUMEM_THOROUGH") ? 6 : 2)

FIXTURE(kill)
{
	struct peer actor, target, here, there;	/* the last two are the victims */
	CUdeviceptr q;				/* the target's memory */
	__u32 rkey;
	long long pinned;			/* pages of this machine, before the case */
};

FIXTURE_VARIANT(kill)
{
	enum transport transport;
	enum kind kind;
	enum way way;
};

/*
 * Only with rxe-*.patch: the kernel's rxe may access a queue pair that is freed while a packet arrives
 * for it.
 */
FIXTURE_VARIANT_ADD(kill, device) { PATCHED_ROCE, DEVICE, BY_ADDRESS };
FIXTURE_VARIANT_ADD(kill, pool) { PATCHED_ROCE, POOL, BY_ADDRESS };
FIXTURE_VARIANT_ADD(kill, mapped) { PATCHED_ROCE, MAPPED, BY_ADDRESS };
FIXTURE_VARIANT_ADD(kill, iwarp_device) { IWARP, DEVICE, BY_ADDRESS };
FIXTURE_VARIANT_ADD(kill, dmabuf_device) { PATCHED_ROCE, DEVICE, BY_DMABUF };
FIXTURE_VARIANT_ADD(kill, movable_device) { PATCHED_ROCE, DEVICE, MOVABLE };
FIXTURE_VARIANT_ADD(kill, odp_device) { PATCHED_ROCE, DEVICE, ON_DEMAND };

static bool on_demand(enum transport transport)
{
	struct far_message m = { .op = FAR_LISTEN, .transport = transport };
	struct peer far;
	bool has = !far_start(&far) && !far_call(&far, &m) && m.value;

	return !far_end(&far) && has;
}

FIXTURE_SETUP(kill)
{
	/* On one machine t_rdma_life kills, too. */
	if (!rdma_chosen(variant->kind, false) ||
	    (!getenv("GPUMEM_PEERS") && !getenv("GPUMEM_THOROUGH")))
		SKIP(return, RDMA_LEFT_OUT);
	if (!rdma_link(variant->transport))
		SKIP(return, "%s", rdma_lacks(variant->transport));
	if (variant->way == ON_DEMAND && !on_demand(variant->transport))
		SKIP(return, RDMA_NOT_ON_DEMAND);
	ASSERT_TRUE(dev_quiet(10));
	self->pinned = pages_pinned();
}

FIXTURE_TEARDOWN_PARENT(kill)
{
	EXPECT_TRUE(dev_quiet(10));
	EXPECT_TRUE(far_quiet());
}

/* Memory of one side, filled with a byte and registered; its key and address. */
static void side_memory(struct __test_metadata *_metadata, struct peer *far,
			const FIXTURE_VARIANT(kill) *variant, unsigned char byte, __u64 *addr,
			__u32 *rkey)
{
	struct far_message m = { .op = FAR_ALLOC, .kind = variant->kind };

	ASSERT_EQ(0, far_call(far, &m));
	*addr = m.addr;
	ASSERT_EQ(0, FAR(far, .op = FAR_FILL, .value = byte));
	m = (struct far_message){
		.op = FAR_REGISTER, .way = variant->way, .access = ACCESS_ALL,
	};
	ASSERT_EQ(0, far_call(far, &m));
	*rkey = m.rkey;
}

static bool says(struct peer *far, enum far_op op, __u64 at)
{
	struct far_message m = { .op = op, .at = at };

	return !far_call(far, &m) && m.value;
}

/* Begin requests without an end. */
static void begin(struct __test_metadata *_metadata, FIXTURE_DATA(kill) *self,
		  const FIXTURE_VARIANT(kill) *variant, enum ibv_wr_opcode opcode)
{
	struct far_message m = { .op = FAR_LISTEN, .transport = variant->transport };
	__u32 unused_key;
	__u64 unused;

	ASSERT_EQ(0, far_start_here(&self->actor));
	ASSERT_EQ(0, far_start(&self->target));
	ASSERT_EQ(0, far_start_here(&self->here));
	ASSERT_EQ(0, far_start(&self->there));
	ASSERT_EQ(0, far_call(&self->target, &m));
	m.op = FAR_REACH;
	ASSERT_EQ(0, far_call(&self->actor, &m));
	ASSERT_TRUE(far_send(&self->target, &(struct far_message){ .op = FAR_ACCEPT }));
	ASSERT_EQ(0, FAR(&self->actor, .op = FAR_CONNECT));
	ASSERT_EQ(0, far_result(&self->target, &m));
	side_memory(_metadata, &self->target, variant, TARGET_BYTE, &self->q, &self->rkey);
	side_memory(_metadata, &self->actor, variant, ACTOR_BYTE, &unused, &unused_key);
	ASSERT_EQ(0, FAR(&self->actor, .op = FAR_TRAFFIC, .addr = self->q, .rkey = self->rkey,
			 .request = { .opcode = opcode }));
	ASSERT_TRUE(says(&self->actor, FAR_MOVES, 0));
}

/* A victim of the same machine kills the process, and takes the memory that becomes free. */
static void kill_there(struct __test_metadata *_metadata, struct peer *victim, struct peer *far)
{
	struct far_message m = { .op = FAR_WHO };

	ASSERT_EQ(0, far_call(far, &m));
	ASSERT_EQ(0, FAR(victim, .op = FAR_KILL, .value = m.value));
	EXPECT_TRUE(says(victim, FAR_HOARD, 0));
	EXPECT_EQ(0, FAR(victim, .op = FAR_GUARD, .value = VICTIM_BYTE));
	if (far->pid)
		EXPECT_EQ(-SIGKILL, end_child(far->pid));
	close(far->sock);
}

/* The killed process has ended: the rest of its memory goes to a victim that begins now. */
static void take_the_rest(struct __test_metadata *_metadata, struct peer *victim, bool local)
{
	struct peer late;

	nap_ms(200);
	ASSERT_EQ(0, local ? far_start_here(&late) : far_start(&late));
	EXPECT_TRUE(says(&late, FAR_HOARD, 0));
	EXPECT_EQ(0, FAR(&late, .op = FAR_GUARD, .value = VICTIM_BYTE));
	nap_ms(100);
	EXPECT_TRUE(says(&late, FAR_UNHARMED, 0));
	EXPECT_TRUE(says(victim, FAR_UNHARMED, 0));
	EXPECT_EQ(0, far_end(&late));
}

static void kill_one(struct __test_metadata *_metadata, FIXTURE_DATA(kill) *self,
		     const FIXTURE_VARIANT(kill) *variant, enum ibv_wr_opcode opcode, bool actor)
{
	for (int i = 0; i < KILLS; i++) {
		struct peer *survivor = actor ? &self->target : &self->actor;
		struct peer *victim = actor ? &self->here : &self->there;
		__u64 bytes = ACTOR_BYTE | TARGET_BYTE << 8;

		begin(_metadata, self, variant, opcode);
		nap_ms(7 * i);
		kill_there(_metadata, victim, actor ? &self->actor : &self->target);
		take_the_rest(_metadata, victim, actor);
		EXPECT_TRUE(says(survivor, FAR_CONSISTS, bytes));
		EXPECT_TRUE(says(victim, FAR_UNHARMED, 0));
		EXPECT_EQ(0, far_end(survivor));
		EXPECT_EQ(0, far_end(&self->here));
		EXPECT_EQ(0, far_end(&self->there));
		EXPECT_TRUE(quiet_here(self->pinned));
		EXPECT_TRUE(far_quiet());
	}
}

TEST_F(kill, writer)
{
	kill_one(_metadata, self, variant, IBV_WR_RDMA_WRITE, true);
}

TEST_F(kill, written)
{
	kill_one(_metadata, self, variant, IBV_WR_RDMA_WRITE, false);
}

TEST_F(kill, reader)
{
	kill_one(_metadata, self, variant, IBV_WR_RDMA_READ, true);
}

TEST_F(kill, read)
{
	kill_one(_metadata, self, variant, IBV_WR_RDMA_READ, false);
}

int main(int argc, char **argv)
{
	int ret = rdma_main(argc, argv);

	return ret >= 0 ? ret : test_harness_run(argc, argv);
}
