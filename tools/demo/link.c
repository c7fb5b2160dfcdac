// SPDX-License-Identifier: MIT
/*
 * The RDMA connection of the two machines; see cluster.h.
 *
 * The connection manager connects them: the sender says what its frames are, and the receiver
 * answers with the address and the key of its slots.  A frame is one RDMA WRITE from the sender's
 * slot to the receiver's; both are registered by address.  A note is a SEND, which arrives behind
 * the write before it.  At most SLOTS notes are on the way, and there are as many receive requests.
 */
#include "cluster.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PORT	20081

/* The kinds of work requests, in the upper half of their numbers; the slot is in the lower one. */
enum work {
	WRITE,
	SEND,
	RECEIVE,
};

static uint64_t work_id(enum work work, uint32_t slot)
{
	return (uint64_t)work << 32 | slot;
}

static struct sockaddr_in port_of(const char *address)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(PORT) };

	if (inet_pton(AF_INET, address, &sin.sin_addr) != 1)
		die("%s: an IPv4 address is wanted", address);
	return sin;
}

static struct ibv_mr *memory_region(struct link *link, uint64_t p, size_t bytes, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(link->pd, (void *)(uintptr_t)p, bytes, access);

	if (!mr && errno == EFAULT)
		die("the RDMA device cannot reach device memory by address: unset GPUMEM_STRICT");
	if (!mr)
		die("memory region of %zu bytes: %s; see ulimit -l", bytes, strerror(errno));
	return mr;
}

static void post_receive(struct link *link, uint32_t slot)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)&link->in[slot], .length = sizeof(struct note),
		.lkey = link->notes_mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = {
		.wr_id = work_id(RECEIVE, slot), .sg_list = &sge, .num_sge = 1,
	};
	int error = ibv_post_recv(link->id->qp, &wr, &bad);

	if (error)
		die("receive request: %s", strerror(error));
}

/* The queues of a connection whose device is known. */
static void make_queues(struct link *link)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = {
			/* A note may come back before the completion of its request. */
			.max_send_wr = 4 * SLOTS, .max_recv_wr = SLOTS, .max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};

	link->pd = ibv_alloc_pd(link->id->verbs);
	link->wake = ibv_create_comp_channel(link->id->verbs);
	if (!link->pd || !link->wake)
		die("RDMA device: %s", strerror(errno));
	link->cq = ibv_create_cq(link->id->verbs, 5 * SLOTS, NULL, link->wake, 0);
	if (!link->cq)
		die("completion queue: %s", strerror(errno));
	attr.send_cq = link->cq;
	attr.recv_cq = link->cq;
	if (rdma_create_qp(link->id, link->pd, &attr))
		die("queue pair: %s", strerror(errno));
	link->notes_mr = memory_region(link, (uintptr_t)link->in, sizeof(link->in) +
				       sizeof(link->out), IBV_ACCESS_LOCAL_WRITE);
	for (uint32_t i = 0; i < SLOTS; i++)
		post_receive(link, i);
}

/* Wait for a sender, and receive what it says.  A new address becomes known a little later. */
void link_listen(struct link *link, const char *address, struct hello *hello)
{
	struct sockaddr_in sin = port_of(address);
	int error = ENODEV;

	*link = (struct link){ 0 };
	for (int i = 0; error == ENODEV && i < 100; i++) {
		if (i)
			usleep(50000);
		if (rdma_create_id(NULL, &link->listener, NULL, RDMA_PS_TCP))
			die("no RDMA device: %s; see Documentation/rdma.rst", strerror(errno));
		error = rdma_bind_addr(link->listener, (struct sockaddr *)&sin) ? errno :
			link->listener->verbs ? 0 : ENODEV;
		if (error)
			rdma_destroy_id(link->listener);
	}
	if (error)
		die("%s: %s: the address of an RDMA device is wanted; \"rdma link\" lists them",
		    address, strerror(error));
	if (rdma_listen(link->listener, 1) || rdma_get_request(link->listener, &link->id))
		die("%s: %s", address, strerror(errno));
	if (link->id->event->param.conn.private_data_len < sizeof(*hello))
		die("another program than " NAME " connects to port %d", PORT);
	memcpy(hello, link->id->event->param.conn.private_data, sizeof(*hello));
	if (hello->version != CLUSTER_VERSION)
		die("the sender's " NAME " is another version");
	make_queues(link);
}

/* Receive frames in @slots, SLOTS of which have @slot_bytes each. */
void link_accept(struct link *link, CUdeviceptr slots, size_t slot_bytes)
{
	struct rdma_conn_param param = {
		.responder_resources = 1, .initiator_depth = 1, .rnr_retry_count = 7,
	};

	link->slots_mr[0] = memory_region(link, slots, SLOTS * slot_bytes,
					  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	link->place = (struct place){ slots, slot_bytes, link->slots_mr[0]->rkey };
	for (unsigned int i = 0; i < SLOTS; i++)
		link->slots[i] = slots + i * slot_bytes;
	param.private_data = &link->place;
	param.private_data_len = sizeof(link->place);
	if (rdma_accept(link->id, &param))
		die("accepting the sender: %s", strerror(errno));
}

/* One attempt to connect; 0 or errno. */
static int try_to_connect(struct link *link, struct sockaddr_in *sin, const struct hello *hello)
{
	struct rdma_conn_param param = {
		.private_data = hello, .private_data_len = sizeof(*hello),
		.responder_resources = 1, .initiator_depth = 1, .retry_count = 7,
		.rnr_retry_count = 7,
	};

	if (rdma_create_id(NULL, &link->id, NULL, RDMA_PS_TCP))
		die("no RDMA device: %s; see Documentation/rdma.rst", strerror(errno));
	if (rdma_resolve_addr(link->id, NULL, (struct sockaddr *)sin, 5000) ||
	    rdma_resolve_route(link->id, 5000))
		return errno;
	make_queues(link);
	return rdma_connect(link->id, &param) ? errno : 0;
}

static void drop_attempt(struct link *link)
{
	if (link->pd) {
		rdma_destroy_qp(link->id);
		ibv_dereg_mr(link->notes_mr);
		ibv_destroy_cq(link->cq);
		ibv_destroy_comp_channel(link->wake);
		ibv_dealloc_pd(link->pd);
	}
	rdma_destroy_id(link->id);
	*link = (struct link){ 0 };
}

/* Connect to a receiver, which may not listen yet. */
void link_connect(struct link *link, const char *address, const struct slot slots[SLOTS],
		  const struct hello *hello)
{
	struct sockaddr_in sin = port_of(address);
	double end = seconds_now() + LINK_PATIENCE;
	int error;

	*link = (struct link){ 0 };
	while ((error = try_to_connect(link, &sin, hello))) {
		if (seconds_now() > end)
			die("%s: %s: does " NAME " --receive run there?", address,
			    strerror(error));
		drop_attempt(link);
		usleep(200000);
	}
	if (link->id->event->param.conn.private_data_len < sizeof(link->place))
		die("%s: another program than " NAME " answers", address);
	memcpy(&link->place, link->id->event->param.conn.private_data, sizeof(link->place));
	if (link->place.slot_bytes < hello->bytes)
		die("%s: its slots are too small", address);
	for (unsigned int i = 0; i < SLOTS; i++) {
		link->slots[i] = slots[i].memory;
		link->slots_mr[i] = memory_region(link, slots[i].memory, slots[i].bytes,
						  IBV_ACCESS_LOCAL_WRITE);
	}
}

static void post(struct link *link, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int error = ibv_post_send(link->id->qp, wr, &bad);

	if (error)
		die("RDMA request: %s", strerror(error));
	for (; wr; wr = wr->next)
		link->pending++;
}

/* Write the frame in a slot to the receiver's slot of the same number, and its note behind it. */
void link_write(struct link *link, const struct note *note)
{
	uint32_t slot = note->slot;
	struct ibv_sge frame = {
		.addr = link->slots[slot], .length = note->bytes,
		.lkey = link->slots_mr[slot]->lkey,
	};
	struct ibv_sge words = {
		.addr = (uintptr_t)&link->out[slot], .length = sizeof(*note),
		.lkey = link->notes_mr->lkey,
	};
	struct ibv_send_wr send = {
		.wr_id = work_id(SEND, slot), .sg_list = &words, .num_sge = 1,
		.opcode = IBV_WR_SEND,
	};
	struct ibv_send_wr write = {
		.wr_id = work_id(WRITE, slot), .next = &send, .sg_list = &frame, .num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = {
			.remote_addr = link->place.address + slot * link->place.slot_bytes,
			.rkey = link->place.key,
		},
	};

	link->out[slot] = *note;
	post(link, &write);
}

/* Give a slot back to the sender. */
void link_answer(struct link *link, const struct note *note)
{
	struct ibv_sge words = {
		.addr = (uintptr_t)&link->out[note->slot], .length = sizeof(*note),
		.lkey = link->notes_mr->lkey,
	};
	struct ibv_send_wr send = {
		.wr_id = work_id(SEND, note->slot), .sg_list = &words, .num_sge = 1,
		.opcode = IBV_WR_SEND,
	};

	link->out[note->slot] = *note;
	post(link, &send);
}

/* Take one completion; returns whether it is a note, which *@note receives. */
static bool complete(struct link *link, const struct ibv_wc *wc, struct note *note)
{
	uint32_t slot = (uint32_t)wc->wr_id;

	if (wc->status)
		die("FAILED: the connection broke: %s", ibv_wc_status_str(wc->status));
	if (wc->wr_id >> 32 != RECEIVE) {
		link->pending--;
		if (wc->wr_id >> 32 == WRITE)
			link->written += link->out[slot].bytes;
		return false;
	}
	*note = link->in[slot];
	if (wc->byte_len != sizeof(*note) || note->slot >= SLOTS)
		die("FAILED: a message that is no note");
	post_receive(link, slot);
	return true;
}

/* Sleep until there may be a completion. */
static void sleep_for_completion(struct link *link)
{
	struct pollfd fds[] = {
		{ .fd = link->wake->fd, .events = POLLIN },
		{ .fd = link->id->channel->fd, .events = POLLIN },
	};
	struct ibv_cq *cq;
	void *context;

	if (poll(fds, 2, LINK_PATIENCE * 1000) == 0)
		die("the other machine does not answer");
	if (fds[0].revents) {
		if (ibv_get_cq_event(link->wake, &cq, &context))
			die("completions: %s", strerror(errno));
		ibv_ack_cq_events(cq, 1);
	} else if (fds[1].revents) {
		die("the other machine is gone; its message tells why");
	}
}

/* Take a note that arrived; false if there is none, and this is not to @wait. */
bool link_take(struct link *link, struct note *note, bool wait)
{
	struct ibv_wc wc;
	bool armed = false;

	for (;;) {
		int n = ibv_poll_cq(link->cq, 1, &wc);

		if (n < 0)
			die("completions: %s", strerror(errno));
		if (n && complete(link, &wc, note))
			return true;
		if (n)
			continue;
		if (!wait)
			return false;
		/* A completion may have come before the request to be woken. */
		if (!armed && ibv_req_notify_cq(link->cq, 0))
			die("completions: %s", strerror(errno));
		if (armed)
			sleep_for_completion(link);
		armed = !armed;
	}
}

/* End the connection when all requests of this machine are complete. */
void link_end(struct link *link)
{
	struct note note;

	while (link->pending) {
		if (link_take(link, &note, false))
			die("FAILED: a note too many");
		usleep(1000);
	}
	rdma_disconnect(link->id);
	rdma_destroy_qp(link->id);
	for (unsigned int i = 0; i < SLOTS; i++) {
		if (link->slots_mr[i])
			ibv_dereg_mr(link->slots_mr[i]);
	}
	ibv_dereg_mr(link->notes_mr);
	ibv_destroy_cq(link->cq);
	ibv_destroy_comp_channel(link->wake);
	ibv_dealloc_pd(link->pd);
	rdma_destroy_id(link->id);
	if (link->listener)
		rdma_destroy_id(link->listener);
}
