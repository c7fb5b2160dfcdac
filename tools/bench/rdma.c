// SPDX-License-Identifier: GPL-2.0
/*
 * RDMA on device memory, by address and by DMA-buf, beside plain memory: write, read, send and
 * atomics, each as bandwidth (messages of 64 KiB, four under way, from and to all of the memory in
 * turn) and as latency (8 bytes, one message under way).
 *
 * Other work on the machine can only slow a round down, and a network in software has many threads
 * to slow down.  So device memory and plain memory are measured in turns, in many short rounds, and
 * the fastest round of each counts.
 *
 * Both ends of a connection are queue pairs of this process, on soft-RoCE.  GPUMEM_RXE names a
 * module of soft-RoCE that takes DMA-bufs; the kernel's own takes none.
 */
#include <cuda.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "bench.h"

#define ROUNDS	400
#define BUFFER	MIB
#define LARGE	(64 * KIB)
#define DEPTH	4
/* Device memory has at least 0.97 of plain memory's bandwidth. */
#define BAR	(1 / 0.97)
#define ACCESS	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |	\
		 IBV_ACCESS_REMOTE_ATOMIC)

#define COMMANDS								\
	"{ modprobe -qa crc32_generic udp_tunnel ip6_udp_tunnel dummy;"		\
	"  modprobe ib_uverbs &&"						\
	"  if [ \"$GPUMEM_RXE\" ]; then insmod \"$GPUMEM_RXE\"; else modprobe rdma_rxe; fi &&"	\
	"  ip link add gpumem_roce type dummy &&"				\
	"  ip addr add 198.18.0.1/32 dev gpumem_roce &&"			\
	"  ip link set gpumem_roce mtu 9000 up &&"				\
	"  rdma link add gpumem_roce type rxe netdev gpumem_roce; } >/dev/null 2>&1"

static struct ibv_context *verbs;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *near, *far;

/* Two buffers of BUFFER bytes, and their keys. */
struct ends {
	uint64_t from, to;
	uint32_t from_key, to_key;
};

struct work {
	const struct ends *ends;
	enum ibv_wr_opcode opcode;
	uint32_t bytes;
	int depth;
};

static struct ibv_context *open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (; list && *list; list++) {
		if (!strcmp(ibv_get_device_name(*list), "gpumem_roce"))
			return ibv_open_device(*list);
	}
	return NULL;
}

/* A new address becomes known to the RDMA device a little later. */
static int find_gid(union ibv_gid *gid)
{
	for (int turn = 0; turn < 100; turn++) {
		for (int i = 0; i < 16; i++) {
			if (!ibv_query_gid(verbs, 1, i, gid) && gid->global.interface_id)
				return i;
		}
		usleep(50000);
	}
	bench_die("no address of gpumem_roce");
}

static void connect_to(struct ibv_qp *qp, const struct ibv_qp *other)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ACCESS,
	};
	union ibv_gid gid;
	int index = find_gid(&gid);

	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			  IBV_QP_ACCESS_FLAGS))
		bench_die("ibv_modify_qp to INIT");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = other->qp_num,
		.max_dest_rd_atomic = 4, .min_rnr_timer = 12,
		.ah_attr = {
			.is_global = 1, .port_num = 1,
			.grh = { .dgid = gid, .sgid_index = index, .hop_limit = 8 },
		},
	};
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		bench_die("ibv_modify_qp to RTR");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
		.max_rd_atomic = 4,
	};
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		bench_die("ibv_modify_qp to RTS");
}

static bool start(void)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = 2 * DEPTH, .max_recv_wr = 2 * DEPTH, .max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};

	if (access("/sys/class/infiniband/gpumem_roce", F_OK) && system(COMMANDS))
		return false;
	verbs = open_device();
	if (!verbs)
		return false;
	pd = ibv_alloc_pd(verbs);
	cq = ibv_create_cq(verbs, 8 * DEPTH, NULL, NULL, 0);
	if (!pd || !cq)
		bench_die("ibv_create_cq");
	attr.send_cq = cq;
	attr.recv_cq = cq;
	near = ibv_create_qp(pd, &attr);
	far = ibv_create_qp(pd, &attr);
	if (!near || !far)
		bench_die("ibv_create_qp");
	connect_to(near, far);
	connect_to(far, near);
	return true;
}

static uint32_t by_address(uint64_t p)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, (void *)(uintptr_t)p, BUFFER, ACCESS);

	if (!mr)
		bench_die("ibv_reg_mr");
	return mr->lkey;
}

/* What ibv_reg_dmabuf_mr() does, which librxe lacks; 0 if the device takes no DMA-buf. */
static uint32_t by_dmabuf(uint64_t p)
{
	uint32_t key = 0, other_key = 0, n = 0, access = ACCESS;
	uint64_t bytes = BUFFER;
	union {
		struct ib_uverbs_ioctl_hdr hdr;
		unsigned char bytes[sizeof(struct ib_uverbs_ioctl_hdr) +
				    9 * sizeof(struct ib_uverbs_attr)];
	} cmd = { .bytes = { 0 } };
	int fd, ret;

	bench_cu(cuMemGetHandleForAddressRange(&fd, p, BUFFER, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
					       0));
#define ATTR(id, size, value) (cmd.hdr.attrs[n++] = (struct ib_uverbs_attr){	\
	.attr_id = (id), .len = (size), .flags = UVERBS_ATTR_F_MANDATORY,	\
	.data = (uint64_t)(value),						\
})
	ATTR(UVERBS_ATTR_REG_DMABUF_MR_HANDLE, 0, 0);
	ATTR(UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, 0, pd->handle);
	ATTR(UVERBS_ATTR_REG_DMABUF_MR_OFFSET, 8, 0);
	ATTR(UVERBS_ATTR_REG_DMABUF_MR_LENGTH, 8, bytes);
	ATTR(UVERBS_ATTR_REG_DMABUF_MR_IOVA, 8, p);
	ATTR(UVERBS_ATTR_REG_DMABUF_MR_FD, 4, fd);
	ATTR(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, 4, access);
	ATTR(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, 4, (uintptr_t)&key);
	ATTR(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, 4, (uintptr_t)&other_key);
	cmd.hdr.length = sizeof(cmd);
	cmd.hdr.object_id = UVERBS_OBJECT_MR;
	cmd.hdr.method_id = UVERBS_METHOD_REG_DMABUF_MR;
	cmd.hdr.num_attrs = n;
	cmd.hdr.driver_id = RDMA_DRIVER_RXE;
	ret = ioctl(verbs->cmd_fd, RDMA_VERBS_IOCTL, &cmd);
	close(fd);
	return ret ? 0 : key;
}

/* Post message number @i. */
static void post(const struct work *w, unsigned int i)
{
	const struct ends *e = w->ends;
	uint64_t at = (uint64_t)i * w->bytes % BUFFER;
	struct ibv_sge sge = { .addr = e->from + at, .length = w->bytes, .lkey = e->from_key };
	struct ibv_sge recv_sge = { .addr = e->to + at, .length = w->bytes, .lkey = e->to_key };
	struct ibv_recv_wr *bad_recv, recv = { .sg_list = &recv_sge, .num_sge = 1 };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = w->opcode, .send_flags = IBV_SEND_SIGNALED,
	};

	/* With rxe the remote key is the same number as the local one. */
	if (w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = e->to + at;
		wr.wr.atomic.rkey = e->to_key;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = e->to + at;
		wr.wr.rdma.rkey = e->to_key;
	}
	if (w->opcode == IBV_WR_SEND && ibv_post_recv(far, &recv, &bad_recv))
		bench_die("ibv_post_recv");
	if (ibv_post_send(near, &wr, &bad))
		bench_die("ibv_post_send");
}

static void batch(const struct work *w, unsigned int first)
{
	int left = w->depth * (w->opcode == IBV_WR_SEND ? 2 : 1);
	struct ibv_wc wc;

	for (int i = 0; i < w->depth; i++)
		post(w, first + i);
	while (left) {
		int n = ibv_poll_cq(cq, 1, &wc);

		if (n < 0 || (n && wc.status)) {
			errno = EIO;
			bench_die(n < 0 ? "ibv_poll_cq" : ibv_wc_status_str(wc.status));
		}
		left -= n;
	}
}

/* Nanoseconds for a message, of the fastest round. */
static void fastest(const struct work works[2], int batches, double ns[2])
{
	ns[0] = ns[1] = 1e18;
	for (int round = 0; round < 2 * ROUNDS; round++) {
		const struct work *w = &works[round % 2];
		unsigned int first = round / 2 * batches * w->depth;
		double last = bench_now(), took;

		for (int i = 0; i < batches; i++)
			batch(w, first + i * w->depth);
		took = bench_lap(&last) / batches / w->depth;
		if (took < ns[round % 2])
			ns[round % 2] = took;
	}
}

static void compare(const char *what, const struct ends *ours, const struct ends *plain)
{
	static const struct {
		const char *name;
		enum ibv_wr_opcode opcode;
	} ops[] = {
		{ "write", IBV_WR_RDMA_WRITE }, { "read", IBV_WR_RDMA_READ }, { "send", IBV_WR_SEND },
		{ "atomic", IBV_WR_ATOMIC_FETCH_AND_ADD },
	};

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		for (int large = 0; large < 2; large++) {
			struct work works[2] = {
				{ ours, ops[i].opcode, large ? LARGE : 8, large ? DEPTH : 1 },
			};
			const char *peer, *row, *size = bench_size(works[0].bytes);
			double ns[2];

			if (large && ops[i].opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
				continue;
			works[1] = works[0];
			works[1].ends = plain;
			fastest(works, large ? 1 : 20, ns);
			row = bench_name("rdma_%s_%s_%s", ops[i].name, what, size);
			peer = bench_name("rdma_%s_plain_beside_%s_%s", ops[i].name, what, size);
			bench_peer(peer, ns[1]);
			bench_beside(row, BENCH_RATIO, ns[0], peer, large ? BAR : 0);
		}
	}
}

void bench_rdma(void)
{
	struct ends plain, ours;
	CUdeviceptr from, to;

	if (!start()) {
		bench_skip("rdma", "no soft-RoCE");
		return;
	}
	bench_cuda();
	plain.from = (uintptr_t)bench_memory(BUFFER, false);
	plain.to = (uintptr_t)bench_memory(BUFFER, false);
	plain.from_key = by_address(plain.from);
	plain.to_key = by_address(plain.to);
	bench_cu(cuMemAlloc(&from, BUFFER));
	bench_cu(cuMemAlloc(&to, BUFFER));
	ours = (struct ends){ from, to, by_address(from), by_address(to) };
	compare("address", &ours, &plain);

	ours.from_key = by_dmabuf(from);
	ours.to_key = by_dmabuf(to);
	if (ours.from_key && ours.to_key)
		compare("dmabuf", &ours, &plain);
	else
		bench_skip("rdma_dmabuf", "soft-RoCE takes no DMA-bufs: GPUMEM_RXE is not set");
}
