// SPDX-License-Identifier: GPL-2.0
/*
 * The end of memory under a memory region, while RDMA writes to it: the memory is freed, its context
 * reset, its process or the writing process killed, its handle revoked.
 *
 * A memory region holds the pages.  Until the region goes they belong to nobody else.  In each case a
 * victim, another client, allocates all memory of the device: its memory is zero, and stays zero
 * though the writes go on.  When all processes have ended, nothing is left (the teardown).
 */
#include "kselftest_harness.h"
#include "cuda/cuda_util.h"
#include "rdma_peer.h"

struct scene {
	struct end near;
	struct peer far, victim;
	CUdeviceptr q, held;	/* far's memory, and its address in the process that exported it */
	__u32 rkey;
	enum way way;
};

/*
 * The kernel's soft-RoCE may access a queue pair that is freed while a packet arrives for it, which the end of a
 * process brings about.  So these cases have the patched one wherever there is one.
 */
static enum transport sound(enum transport transport)
{
	return transport == ROCE && getenv("GPUMEM_RXE") ? PATCHED_ROCE : transport;
}

/* Begin to write to far's memory; a text if the device cannot do it. */
static const char *scene_begin(struct __test_metadata *_metadata, struct scene *sc,
			       enum transport transport, enum kind kind, enum way way)
{
	struct far_message m = { .op = FAR_ALLOC, .kind = kind };
	struct slot *slot = &sc->near.slots[0];

	transport = sound(transport);
	if (!rdma_link(transport))
		return rdma_lacks(transport);
	if (way == ON_DEMAND && rdma_missing->on_demand)
		return RDMA_NOT_ON_DEMAND;
	sc->way = way;
	ASSERT_TRUE(dev_quiet(10));
	ASSERT_EQ(0, far_start(&sc->far));
	ASSERT_EQ(0, far_start(&sc->victim));
	ASSERT_EQ(0, ends_connect(&sc->near, &sc->far, transport));
	if (way == ON_DEMAND && !side_on_demand(&sc->near.side)) {
		rdma_missing->on_demand = true;
		EXPECT_EQ(0, far_end(&sc->victim));
		EXPECT_EQ(0, far_end(&sc->far));
		return RDMA_NOT_ON_DEMAND;
	}
	ASSERT_EQ(0, far_call(&sc->far, &m));
	sc->q = m.addr;
	sc->held = m.number;
	m = (struct far_message){ .op = FAR_REGISTER, .way = way, .access = ACCESS_ALL };
	ASSERT_EQ(0, far_call(&sc->far, &m));
	sc->rkey = m.rkey;
	/* The writer has plain memory and no client. */
	ASSERT_CU(memory_make(&slot->memory, PLAIN));
	ASSERT_TRUE(memory_write(&slot->memory, 0, BYTES, 1));
	ASSERT_EQ(0, slot_register(&sc->near, slot, BY_ADDRESS, ACCESS_ALL));
	ASSERT_EQ(0, traffic_start(&sc->near, slot, IBV_WR_RDMA_WRITE, sc->q, sc->rkey));
	ASSERT_TRUE(traffic_moves(&sc->near));
	return NULL;
}

static bool victim_says(struct scene *sc, enum far_op op)
{
	struct far_message m = { .op = op };

	return !far_call(&sc->victim, &m) && m.value;
}

/* The writes go on, or with on-demand paging fail; they change no memory of the victim. */
static bool victim_is_safe(struct scene *sc)
{
	bool good = victim_says(sc, FAR_HOARD);

	if (!traffic_moves(&sc->near) && sc->way != ON_DEMAND)
		good = false;
	return good && victim_says(sc, FAR_UNHARMED);
}

static void scene_end(struct __test_metadata *_metadata, struct scene *sc, bool fails)
{
	int status = traffic_end(&sc->near);

	EXPECT_EQ(fails, status != 0)
		TH_LOG("status %d", status);
	EXPECT_TRUE(victim_says(sc, FAR_UNHARMED));
	EXPECT_EQ(0, far_end(&sc->victim));
}

FIXTURE(life)
{
	struct scene sc;
};

FIXTURE_VARIANT(life)
{
	enum transport transport;
	enum kind kind;
	enum way way;
};

#define KIND(name, kind)							\
	FIXTURE_VARIANT_ADD(life, name) { ROCE, kind, BY_ADDRESS };		\
	FIXTURE_VARIANT_ADD(life, iwarp_##name) { IWARP, kind, BY_ADDRESS }

KIND(device, DEVICE);
KIND(pool, POOL);
KIND(mapped, MAPPED);
KIND(managed, MANAGED);
KIND(registered, REGISTERED);
KIND(imported, IMPORTED);

FIXTURE_VARIANT_ADD(life, dmabuf_device) { PATCHED_ROCE, DEVICE, BY_DMABUF };
FIXTURE_VARIANT_ADD(life, dmabuf_pool) { PATCHED_ROCE, POOL, BY_DMABUF };
FIXTURE_VARIANT_ADD(life, dmabuf_mapped) { PATCHED_ROCE, MAPPED, BY_DMABUF };
FIXTURE_VARIANT_ADD(life, dmabuf_registered) { PATCHED_ROCE, REGISTERED, BY_DMABUF };
FIXTURE_VARIANT_ADD(life, movable_device) { PATCHED_ROCE, DEVICE, MOVABLE };
FIXTURE_VARIANT_ADD(life, odp_device) { PATCHED_ROCE, DEVICE, ON_DEMAND };
FIXTURE_VARIANT_ADD(life, odp_mapped) { PATCHED_ROCE, MAPPED, ON_DEMAND };
FIXTURE_VARIANT_ADD(life, odp_managed) { PATCHED_ROCE, MANAGED, ON_DEMAND };

FIXTURE_SETUP(life)
{
	const char *lacks = RDMA_LEFT_OUT;

	if (rdma_chosen(variant->kind, false))
		lacks = scene_begin(_metadata, &self->sc, variant->transport, variant->kind,
				    variant->way);
	if (lacks)
		SKIP(return, "%s", lacks);
}

QUIET_AFTERWARDS(life)

TEST_F(life, freed)
{
	ASSERT_EQ(0, FAR(&self->sc.far, .op = FAR_FREE));
	EXPECT_TRUE(victim_is_safe(&self->sc));
	if (variant->way != ON_DEMAND)
		EXPECT_EQ(0, self->sc.near.traffic.status);
	EXPECT_EQ(0, FAR(&self->sc.far, .op = FAR_DEREGISTER));
	/* The key is void. */
	EXPECT_TRUE(traffic_stops(&self->sc.near));
	scene_end(_metadata, &self->sc, true);
	EXPECT_EQ(0, far_end(&self->sc.far));
}

/* The pages go back when the region goes, though the process lives on. */
TEST_F(life, freed_and_deregistered)
{
	ASSERT_EQ(0, FAR(&self->sc.far, .op = FAR_FREE));
	EXPECT_EQ(0, FAR(&self->sc.far, .op = FAR_DEREGISTER));
	/* siw does not complete a write that was under way then. */
	self->sc.near.traffic.dead = variant->transport == IWARP;
	EXPECT_TRUE(traffic_stops(&self->sc.near));
	EXPECT_TRUE(victim_says(&self->sc, FAR_HOARD));
	scene_end(_metadata, &self->sc, true);
	EXPECT_EQ(0, far_end(&self->sc.far));
}

TEST_F(life, reset)
{
	EXPECT_CU(FAR(&self->sc.far, .op = FAR_RESET));
	EXPECT_TRUE(victim_is_safe(&self->sc));
	scene_end(_metadata, &self->sc, variant->way == ON_DEMAND && self->sc.near.traffic.status);
	EXPECT_EQ(0, far_end(&self->sc.far));
}

/* Far ends without freeing or deregistering anything. */
TEST_F(life, exit)
{
	EXPECT_EQ(0, far_end(&self->sc.far));
	self->sc.near.traffic.dead = true;
	EXPECT_TRUE(traffic_stops(&self->sc.near));
	EXPECT_TRUE(victim_says(&self->sc, FAR_HOARD));
	scene_end(_metadata, &self->sc, true);
}

TEST_F(life, killed)
{
	EXPECT_EQ(-SIGKILL, kill_child(self->sc.far.pid));
	self->sc.near.traffic.dead = true;
	EXPECT_TRUE(traffic_stops(&self->sc.near));
	EXPECT_TRUE(victim_says(&self->sc, FAR_HOARD));
	scene_end(_metadata, &self->sc, true);
}

/* A second process writes, from memory of this kind, and is killed. */
TEST_F(life, writer_killed)
{
	struct far_message m = { .op = FAR_LISTEN, .transport = sound(variant->transport) };
	struct peer writer, target;
	__u32 rkey;

	ASSERT_EQ(0, far_start(&writer));
	ASSERT_EQ(0, far_start(&target));
	ASSERT_EQ(0, far_call(&target, &m));
	m.op = FAR_REACH;
	ASSERT_EQ(0, far_call(&writer, &m));
	ASSERT_TRUE(far_send(&target, &(struct far_message){ .op = FAR_ACCEPT }));
	ASSERT_EQ(0, FAR(&writer, .op = FAR_CONNECT));
	ASSERT_EQ(0, far_result(&target, &m));

	m = (struct far_message){ .op = FAR_ALLOC, .kind = variant->kind };
	ASSERT_EQ(0, far_call(&writer, &m));
	ASSERT_EQ(0, FAR(&writer, .op = FAR_REGISTER, .way = variant->way, .access = ACCESS_ALL));
	ASSERT_EQ(0, far_call(&target, &m));
	self->sc.q = m.addr;
	m = (struct far_message){
		.op = FAR_REGISTER, .way = variant->way, .access = ACCESS_ALL,
	};
	ASSERT_EQ(0, far_call(&target, &m));
	rkey = m.rkey;
	ASSERT_EQ(0, FAR(&writer, .op = FAR_TRAFFIC, .addr = self->sc.q, .rkey = rkey));
	nap_ms(200);
	EXPECT_EQ(-SIGKILL, kill_child(writer.pid));
	EXPECT_EQ(0, FAR(&target, .op = FAR_WRITE, .bytes = BYTES, .number = 9));
	EXPECT_TRUE(far_holds(&target, 0, 0, BYTES, 9));
	EXPECT_TRUE(victim_says(&self->sc, FAR_HOARD));
	EXPECT_TRUE(far_holds(&target, 0, 0, BYTES, 9));
	EXPECT_EQ(0, far_end(&target));
	scene_end(_metadata, &self->sc, false);
	EXPECT_EQ(0, far_end(&self->sc.far));
}

/* --- the rights of mapped memory */

FIXTURE(rights)
{
	struct scene sc;
};

FIXTURE_VARIANT(rights)
{
	enum transport transport;
	enum way way;
};

FIXTURE_VARIANT_ADD(rights, roce) { ROCE, BY_ADDRESS };
FIXTURE_VARIANT_ADD(rights, iwarp) { IWARP, BY_ADDRESS };
FIXTURE_VARIANT_ADD(rights, dmabuf) { PATCHED_ROCE, BY_DMABUF };
FIXTURE_VARIANT_ADD(rights, odp) { PATCHED_ROCE, ON_DEMAND };

FIXTURE_SETUP(rights)
{
	const char *lacks = scene_begin(_metadata, &self->sc, variant->transport, MAPPED, variant->way);

	if (lacks)
		SKIP(return, "%s", lacks);
}

QUIET_AFTERWARDS(rights)

/*
 * A region whose pages are held outlives the rights: what is written meanwhile is there when they come back.  With
 * on-demand paging a write needs the CPU's right to the page, and fails.
 */
TEST_F(rights, taken)
{
	struct slot *slot = &self->sc.near.slots[0];
	bool held = variant->way != ON_DEMAND;

	ASSERT_CU(FAR(&self->sc.far, .op = FAR_RIGHTS, .value = CU_MEM_ACCESS_FLAGS_PROT_NONE));
	ASSERT_TRUE(memory_write(&slot->memory, 0, BYTES, 2));
	/* All of the memory is written twice; without a right the first write fails. */
	EXPECT_TRUE(held ? traffic_moves(&self->sc.near) && traffic_moves(&self->sc.near) :
		    traffic_stops(&self->sc.near));
	EXPECT_TRUE(victim_says(&self->sc, FAR_HOARD));
	ASSERT_CU(FAR(&self->sc.far, .op = FAR_RIGHTS, .value = CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	if (held)
		EXPECT_TRUE(far_holds(&self->sc.far, 0, 0, BYTES, 2));
	scene_end(_metadata, &self->sc, !held);
	EXPECT_EQ(0, far_end(&self->sc.far));
}

/* --- imported memory */

/* Ask the process that exported the memory; ptr of the answer. */
static CUresult holder(struct peer *far, enum peer_op op, CUdeviceptr *ptr, __u64 bytes,
		       __u64 value)
{
	struct far_message m = {
		.op = FAR_HOLDER, .holder = {
			.op = op, .ptr = *ptr, .bytes = bytes, .value = value,
		},
	};
	CUresult result = far_call(far, &m);

	*ptr = m.holder.ptr;
	return result;
}

FIXTURE(revoked)
{
	struct scene sc;
};

FIXTURE_VARIANT(revoked)
{
	enum transport transport;
	enum way way;
};

FIXTURE_VARIANT_ADD(revoked, roce) { ROCE, BY_ADDRESS };
FIXTURE_VARIANT_ADD(revoked, iwarp) { IWARP, BY_ADDRESS };
FIXTURE_VARIANT_ADD(revoked, odp) { PATCHED_ROCE, ON_DEMAND };

FIXTURE_SETUP(revoked)
{
	const char *lacks = scene_begin(_metadata, &self->sc, variant->transport, IMPORTED,
					variant->way);

	if (lacks)
		SKIP(return, "%s", lacks);
}

QUIET_AFTERWARDS(revoked)

/* The exporter's new memory keeps what the exporter writes, though RDMA writes to the old. */
static void new_memory_is_new(struct __test_metadata *_metadata, struct scene *sc)
{
	CUdeviceptr p[8] = { 0 };
	struct far_message m;

	for (unsigned int i = 0; i < ARRAY_SIZE(p); i++) {
		ASSERT_CU(holder(&sc->far, PEER_ALLOC, &p[i], BYTES, 0));
		ASSERT_CU(holder(&sc->far, PEER_FILL, &p[i], BYTES, 100 + i));
	}
	if (!traffic_moves(&sc->near))
		EXPECT_EQ(ON_DEMAND, sc->way);
	for (unsigned int i = 0; i < ARRAY_SIZE(p); i++) {
		unsigned char *want = malloc(BYTES);

		ASSERT_NE(NULL, want);
		memset(want, 100 + i, BYTES);
		m = (struct far_message){
			.op = FAR_HOLDER, .holder = { .op = PEER_READ, .ptr = p[i], .bytes = BYTES },
		};
		EXPECT_CU(far_call(&sc->far, &m));
		EXPECT_EQ(hash(want, BYTES), m.holder.value);
		free(want);
	}
}

/* The handle is void for others; the importer keeps the memory. */
TEST_F(revoked, exporter_frees)
{
	ASSERT_CU(holder(&self->sc.far, PEER_FREE, &self->sc.held, 0, 0));
	new_memory_is_new(_metadata, &self->sc);
	EXPECT_TRUE(victim_is_safe(&self->sc));
	EXPECT_EQ(0, self->sc.near.traffic.status);
	scene_end(_metadata, &self->sc, false);
	EXPECT_EQ(0, far_end(&self->sc.far));
}

/* The importer closes the handle, so only its memory region keeps the pages. */
TEST_F(revoked, importer_closes_and_exporter_frees)
{
	ASSERT_CU(FAR(&self->sc.far, .op = FAR_CLOSE));
	ASSERT_CU(holder(&self->sc.far, PEER_FREE, &self->sc.held, 0, 0));
	new_memory_is_new(_metadata, &self->sc);
	EXPECT_TRUE(victim_is_safe(&self->sc));
	scene_end(_metadata, &self->sc, variant->way == ON_DEMAND);
	EXPECT_EQ(0, far_end(&self->sc.far));
}

TEST_F(revoked, exporter_ends)
{
	CUdeviceptr none = 0;

	/* It does not answer. */
	EXPECT_EQ((CUresult)-1, holder(&self->sc.far, PEER_QUIT, &none, 0, 0));
	EXPECT_TRUE(victim_is_safe(&self->sc));
	EXPECT_EQ(0, self->sc.near.traffic.status);
	scene_end(_metadata, &self->sc, false);
	EXPECT_EQ(0, far_end(&self->sc.far));
}

int main(int argc, char **argv)
{
	int ret = rdma_main(argc, argv);

	return ret >= 0 ? ret : test_harness_run(argc, argv);
}
