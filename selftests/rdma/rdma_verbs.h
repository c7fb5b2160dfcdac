/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One side of an RDMA connection: its device, its queues, and requests that are waited for.
 *
 * The connection manager connects both sides, so RoCE, iWARP and InfiniBand work alike.  A side that
 * listens receives from a shared receive queue (SRQ), the side that connects from its own queue.
 *
 * Functions return 0 or a negative errno.
 */
#ifndef GPUMEM_SELFTESTS_RDMA_VERBS_H
#define GPUMEM_SELFTESTS_RDMA_VERBS_H

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <string.h>
#include <sys/ioctl.h>

#define QUEUE_DEPTH	32
#define INLINE_BYTES	64
#define ACCESS_ALL	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |	\
			 IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
/* Seconds for a completion: a request to a peer that died fails after its retries. */
#define PATIENCE	60
/* Seconds for the writes to a process that is known to be dead: rxe does not complete all of them. */
#define PATIENCE_DEAD	5

struct side {
	struct rdma_cm_id *listener, *id;
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	bool atomics;
	struct ibv_device_attr_ex attr;
};

/* A memory region, by address or by DMA-buf. */
struct mr {
	struct ibv_pd *pd;
	struct ibv_mr *mr;	/* NULL for a region that this file registered itself */
	__u32 handle, lkey, rkey;
};

/* --- connections */

static inline struct sockaddr_in side_address(const char *address, unsigned int port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(port) };

	inet_pton(AF_INET, address, &sin.sin_addr);
	return sin;
}

static inline int side_queues(struct side *side, struct rdma_cm_id *id, bool shared)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = QUEUE_DEPTH, .max_sge = 1 } };

	side->verbs = id->verbs;
	if (ibv_query_device_ex(id->verbs, NULL, &side->attr))
		return -errno;
	side->atomics = side->attr.orig_attr.atomic_cap != IBV_ATOMIC_NONE;
	side->pd = ibv_alloc_pd(id->verbs);
	side->cq = ibv_create_cq(id->verbs, 2 * QUEUE_DEPTH, NULL, NULL, 0);
	if (!side->pd || !side->cq)
		return -errno;
	if (shared)
		side->srq = ibv_create_srq(side->pd, &srq);
	return shared && !side->srq ? -errno : 0;
}

/* rxe, the only device here that may have on-demand paging, reports it by capabilities. */
static inline bool side_on_demand(const struct side *side)
{
	return side->attr.odp_caps.general_caps & IBV_ODP_SUPPORT;
}

static inline int side_qp(struct side *side)
{
	struct ibv_qp_init_attr init = {
		.send_cq = side->cq, .recv_cq = side->cq, .srq = side->srq,
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = QUEUE_DEPTH, .max_send_sge = 1,
			.max_recv_wr = side->srq ? 0 : QUEUE_DEPTH,
			.max_recv_sge = side->srq ? 0 : 1,
			.max_inline_data = INLINE_BYTES,
		},
	};

	return rdma_create_qp(side->id, side->pd, &init) ? -errno : 0;
}

static inline struct rdma_conn_param side_param(void)
{
	return (struct rdma_conn_param){
		.responder_resources = 1, .initiator_depth = 1,
		.retry_count = 7, .rnr_retry_count = 7,
	};
}

/*
 * Prepare to be connected to at @address, at a port that *@port receives.  A new address becomes
 * known to the RDMA device a little later.
 */
static inline int side_listen(struct side *side, const char *address, unsigned int *port)
{
	struct sockaddr_in sin = side_address(address, 0);
	int ret = -ENODEV;

	for (int i = 0; ret == -ENODEV && i < 100; i++) {
		if (i)
			nap_ms(50);
		if (rdma_create_id(NULL, &side->listener, NULL, RDMA_PS_TCP))
			return -errno;
		ret = rdma_bind_addr(side->listener, (struct sockaddr *)&sin) ? -errno : 0;
		if (!ret)
			break;
		rdma_destroy_id(side->listener);
		side->listener = NULL;
	}
	if (ret)
		return ret;
	if (!side->listener->verbs)
		return -ENODEV;
	ret = side_queues(side, side->listener, true);
	if (!ret && rdma_listen(side->listener, 4))
		ret = -errno;
	*port = ntohs(rdma_get_src_port(side->listener));
	return ret;
}

/* Accept one connection. */
static inline int side_accept(struct side *side)
{
	struct rdma_conn_param param = side_param();
	int ret;

	if (rdma_get_request(side->listener, &side->id))
		return -errno;
	ret = side_qp(side);
	return ret ? ret : rdma_accept(side->id, &param) ? -errno : 0;
}

/* The first half of connecting: afterwards memory can be registered. */
static inline int side_reach(struct side *side, const char *address, unsigned int port)
{
	struct sockaddr_in sin = side_address(address, port);

	if (rdma_create_id(NULL, &side->id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(side->id, NULL, (struct sockaddr *)&sin, 5000) ||
	    rdma_resolve_route(side->id, 5000))
		return -errno;
	return side_queues(side, side->id, false);
}

static inline int side_connect(struct side *side)
{
	struct rdma_conn_param param = side_param();
	int ret = side_qp(side);

	return ret ? ret : rdma_connect(side->id, &param) ? -errno : 0;
}

/* --- memory regions */

#define UVERBS_ATTR(id, bytes, value) {					\
	.attr_id = (id), .len = (bytes), .flags = UVERBS_ATTR_F_MANDATORY,	\
	.data = (__u64)(value),						\
}

static inline int uverbs_ioctl(struct ibv_context *verbs, __u16 method,
			       struct ib_uverbs_attr *attrs, unsigned int count)
{
	union {
		struct ib_uverbs_ioctl_hdr hdr;
		unsigned char bytes[sizeof(struct ib_uverbs_ioctl_hdr) + 10 * sizeof(*attrs)];
	} cmd = {
		.hdr = {
			.length = sizeof(cmd.hdr) + count * sizeof(*attrs),
			.object_id = UVERBS_OBJECT_MR, .method_id = method, .num_attrs = count,
			.driver_id = RDMA_DRIVER_RXE,
		},
	};

	memcpy(cmd.hdr.attrs, attrs, count * sizeof(*attrs));
	if (ioctl(verbs->cmd_fd, RDMA_VERBS_IOCTL, &cmd))
		return -errno;
	memcpy(attrs, cmd.hdr.attrs, count * sizeof(*attrs));
	return 0;
}

/* What ibv_reg_dmabuf_mr() does; librxe has no such function, though the kernel's rxe may. */
static inline int mr_dmabuf_uverbs(struct mr *mr, __u64 offset, __u64 bytes, __u64 iova, int fd,
				   int access)
{
	struct ib_uverbs_attr attrs[] = {
		UVERBS_ATTR(UVERBS_ATTR_REG_DMABUF_MR_HANDLE, 0, 0),
		UVERBS_ATTR(UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, 0, mr->pd->handle),
		UVERBS_ATTR(UVERBS_ATTR_REG_DMABUF_MR_OFFSET, 8, offset),
		UVERBS_ATTR(UVERBS_ATTR_REG_DMABUF_MR_LENGTH, 8, bytes),
		UVERBS_ATTR(UVERBS_ATTR_REG_DMABUF_MR_IOVA, 8, iova),
		UVERBS_ATTR(UVERBS_ATTR_REG_DMABUF_MR_FD, 4, fd),
		UVERBS_ATTR(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, 4, access),
		UVERBS_ATTR(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, 4, (uintptr_t)&mr->lkey),
		UVERBS_ATTR(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, 4, (uintptr_t)&mr->rkey),
	};
	int ret = uverbs_ioctl(mr->pd->context, UVERBS_METHOD_REG_DMABUF_MR, attrs,
			       ARRAY_SIZE(attrs));

	mr->handle = attrs[0].data;
	return ret;
}

static inline int mr_finish(struct mr *mr)
{
	if (!mr->mr)
		return -errno;
	mr->handle = mr->mr->handle;
	mr->lkey = mr->mr->lkey;
	mr->rkey = mr->mr->rkey;
	return 0;
}

static inline int mr_dmabuf(struct side *side, struct mr *mr, __u64 offset, __u64 bytes, __u64 iova,
			    int fd, int access)
{
	*mr = (struct mr){ .pd = side->pd };
	mr->mr = ibv_reg_dmabuf_mr(side->pd, offset, bytes, iova, fd, access);
	if (!mr->mr && errno == EOPNOTSUPP)
		return mr_dmabuf_uverbs(mr, offset, bytes, iova, fd, access);
	return mr_finish(mr);
}

static inline int mr_address(struct side *side, struct mr *mr, void *p, size_t bytes, int access)
{
	*mr = (struct mr){ .pd = side->pd };
	mr->mr = ibv_reg_mr(side->pd, p, bytes, access);
	return mr_finish(mr);
}

static inline int mr_end(struct mr *mr)
{
	struct ib_uverbs_attr attr = UVERBS_ATTR(UVERBS_ATTR_DESTROY_MR_HANDLE, 0, mr->handle);

	if (mr->mr)
		return -ibv_dereg_mr(mr->mr);
	return uverbs_ioctl(mr->pd->context, UVERBS_METHOD_MR_DESTROY, &attr, 1);
}

/* --- requests */

struct request {
	enum ibv_wr_opcode opcode;
	unsigned int flags;	/* IBV_SEND_INLINE */
	__u64 addr, far_addr, compare_add, swap;
	__u32 bytes, lkey, rkey, imm;
};

static inline int side_post(struct side *side, const struct request *r)
{
	struct ibv_sge sge = { .addr = r->addr, .length = r->bytes, .lkey = r->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = r->opcode,
		.send_flags = IBV_SEND_SIGNALED | r->flags, .imm_data = htonl(r->imm),
	};

	if (r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || r->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = r->far_addr;
		wr.wr.atomic.compare_add = r->compare_add;
		wr.wr.atomic.swap = r->swap;
		wr.wr.atomic.rkey = r->rkey;
	} else {
		wr.wr.rdma.remote_addr = r->far_addr;
		wr.wr.rdma.rkey = r->rkey;
	}
	return -ibv_post_send(side->id->qp, &wr, &bad);
}

static inline int side_recv(struct side *side, __u64 addr, __u32 bytes, __u32 lkey)
{
	struct ibv_sge sge = { .addr = addr, .length = bytes, .lkey = lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	return side->srq ? -ibv_post_srq_recv(side->srq, &wr, &bad) :
		-ibv_post_recv(side->id->qp, &wr, &bad);
}

/* Wait for one completion, for some seconds. */
static inline int side_wait_for(struct side *side, struct ibv_wc *wc, unsigned int seconds)
{
	__u64 end = in_seconds(seconds);
	int n;

	while (!(n = ibv_poll_cq(side->cq, 1, wc))) {
		if (mono_ns() > end)
			return -ETIMEDOUT;
		usleep(50);
	}
	return n < 0 ? -EIO : 0;
}

static inline int side_wait(struct side *side, struct ibv_wc *wc)
{
	return side_wait_for(side, wc, PATIENCE);
}

/* Post a request and wait for it: its status, or a negative errno. */
static inline int side_do(struct side *side, const struct request *r)
{
	struct ibv_wc wc;
	int ret = side_post(side, r);

	if (!ret)
		ret = side_wait(side, &wc);
	return ret ? ret : (int)wc.status;
}

#endif
