// SPDX-License-Identifier: GPL-2.0
/*
 * Register device memory with an RDMA device by its DMA-buf.  This works without an address that the
 * CPU can use, so also in strict mode, and with cards whose driver cannot pin device memory.
 *
 *   ibverbs_dmabuf [NAME]	the RDMA device; default: the first one
 *
 * cc ibverbs_dmabuf.c -o ibverbs_dmabuf -lgpumem -libverbs
 */
#include <cuda.h>
#include <errno.h>
#include <gpumem.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES	(1 << 20)

#define CHECK(good) do {				\
	if (!(good)) {					\
		perror(#good);				\
		exit(1);				\
	}						\
} while (0)

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **device = list;
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	CUcontext ctx;
	CUdeviceptr p;
	int fd, ret = 0;

	if (cuInit(0)) {
		fprintf(stderr, "%s\n", gpumem_init_error());
		return 1;
	}
	CHECK(!cuDevicePrimaryCtxRetain(&ctx, 0));
	CHECK(!cuCtxSetCurrent(ctx));
	CHECK(!cuMemAlloc(&p, BYTES));
	/* The range has to begin and end with a page. */
	CHECK(!cuMemGetHandleForAddressRange(&fd, p, BYTES, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));

	CHECK(list);
	while (argc > 1 && *device && strcmp(ibv_get_device_name(*device), argv[1]))
		device++;
	if (!*device) {
		fprintf(stderr, "no such RDMA device\n");
		return 1;
	}
	verbs = ibv_open_device(*device);
	CHECK(verbs);
	pd = ibv_alloc_pd(verbs);
	CHECK(pd);
	/* With p as its address in the region, requests name the memory by its device pointer. */
	mr = ibv_reg_dmabuf_mr(pd, 0, BYTES, p, fd, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
			       IBV_ACCESS_REMOTE_WRITE);
	/* The region holds the DMA-buf. */
	close(fd);
	if (mr) {
		printf("%s: %d bytes at %#llx have the key %#x\n", ibv_get_device_name(*device), BYTES,
		       p, mr->rkey);
		CHECK(!ibv_dereg_mr(mr));
	} else if (errno == EOPNOTSUPP) {
		printf("%s: the device takes no DMA-bufs\n", ibv_get_device_name(*device));
	} else {
		perror("ibv_reg_dmabuf_mr");
		ret = 1;
	}
	ibv_dealloc_pd(pd);
	ibv_close_device(verbs);
	ibv_free_device_list(list);
	CHECK(!cuMemFree(p));
	return ret;
}
