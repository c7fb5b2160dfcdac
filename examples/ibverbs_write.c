// SPDX-License-Identifier: GPL-2.0
/*
 * RDMA WRITE from the device memory of one process into that of another, by address.
 *
 *   ibverbs_write ADDRESS		wait for a writer at an address of this machine
 *   ibverbs_write ADDRESS TEXT		write TEXT to the process that waits there
 *
 * cc ibverbs_write.c -o ibverbs_write -lgpumem -lrdmacm -libverbs
 */
#include <cuda.h>
#include <gpumem.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT	"20079"
#define BYTES	4096

#define CHECK(good) do {				\
	if (!(good)) {					\
		perror(#good);				\
		exit(1);				\
	}						\
} while (0)

/* What the reader tells the writer when it accepts the connection. */
struct target {
	uint64_t address;
	uint32_t key;
} __attribute__((packed));

static CUdeviceptr device_memory(void)
{
	CUcontext ctx;
	CUdeviceptr p;

	if (cuInit(0)) {
		fprintf(stderr, "%s\n", gpumem_init_error());
		exit(1);
	}
	CHECK(!cuDevicePrimaryCtxRetain(&ctx, 0));
	CHECK(!cuCtxSetCurrent(ctx));
	CHECK(!cuMemAlloc(&p, BYTES));
	return p;
}

/* A device pointer is an address of this process. */
static struct ibv_mr *reg(struct rdma_cm_id *id, CUdeviceptr p)
{
	return ibv_reg_mr(id->pd, (void *)p, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}

static struct rdma_cm_id *endpoint(const char *address, int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP }, *info;
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_all = 1,
	};
	struct rdma_cm_id *id;

	CHECK(!rdma_getaddrinfo(address, PORT, &hints, &info));
	CHECK(!rdma_create_ep(&id, info, NULL, &attr));
	rdma_freeaddrinfo(info);
	return id;
}

static void wait_for_writer(const char *address)
{
	struct rdma_cm_id *listener = endpoint(address, RAI_PASSIVE | RAI_NUMERICHOST), *id;
	CUdeviceptr p = device_memory();
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };
	struct target target;
	struct ibv_mr *mr;
	char text[BYTES];
	struct ibv_wc wc;

	CHECK(!rdma_listen(listener, 1));
	CHECK(!rdma_get_request(listener, &id));
	mr = reg(id, p);
	CHECK(mr);
	target = (struct target){ p, mr->rkey };
	param.private_data = &target;
	param.private_data_len = sizeof(target);
	/* An empty message follows the write: then the bytes are here. */
	CHECK(!rdma_post_recv(id, NULL, (void *)p, 0, mr));
	CHECK(!rdma_accept(id, &param));
	CHECK(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(!cuMemcpyDtoH(text, p, BYTES));
	printf("%.*s\n", BYTES, text);

	rdma_disconnect(id);
	CHECK(!ibv_dereg_mr(mr));
	CHECK(!cuMemFree(p));
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
}

static void write_there(const char *address, const char *text)
{
	struct rdma_cm_id *id = endpoint(address, RAI_NUMERICHOST);
	CUdeviceptr p = device_memory();
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };
	struct ibv_mr *mr = reg(id, p);
	struct target target;
	struct ibv_wc wc;

	CHECK(mr);
	CHECK(!cuMemsetD8(p, 0, BYTES));
	CHECK(!cuMemcpyHtoD(p, text, strnlen(text, BYTES - 1)));
	/* The network card must not read before the device has written. */
	CHECK(!cuCtxSynchronize());
	CHECK(!rdma_connect(id, &param));
	memcpy(&target, id->event->param.conn.private_data, sizeof(target));
	CHECK(!rdma_post_write(id, NULL, (void *)p, BYTES, mr, 0, target.address, target.key));
	CHECK(!rdma_post_send(id, NULL, (void *)p, 0, mr, 0));
	for (int i = 0; i < 2; i++)
		CHECK(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);

	rdma_disconnect(id);
	CHECK(!ibv_dereg_mr(mr));
	CHECK(!cuMemFree(p));
	rdma_destroy_ep(id);
}

int main(int argc, char **argv)
{
	if (argc == 2)
		wait_for_writer(argv[1]);
	else if (argc == 3)
		write_there(argv[1], argv[2]);
	else
		fprintf(stderr, "usage: ibverbs_write ADDRESS [TEXT]\n");
	return argc < 2 || argc > 3;
}
