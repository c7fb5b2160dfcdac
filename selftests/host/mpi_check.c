// SPDX-License-Identifier: GPL-2.0
/*
 * A program without a device, for the libraries that selftests/interop/mpi preloads.
 *
 *   mpi_check dmabuf		makes a region, and ends it; the first try fails.  mpi_dmabuf.c is linked to it.
 *   mpi_check ipc CODE		opens an IPC handle; CODE is the answer.  mpi_ipc.c is preloaded.
 *   mpi_check none		does neither
 *
 * With CHECK_DRIVER it is the library that stands for libcuda.so.1.
 */
#include <cuda.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef CHECK_DRIVER

CUresult cuIpcOpenMemHandle(CUdeviceptr *ptr, CUipcMemHandle handle, unsigned int flags)
{
	(void)handle;
	*ptr = 4096;
	return (CUresult)flags;
}

#else

static int refusals = 1, ended;

/* The kernel: it makes each region and, after the refusals, ends it. */
int ioctl(int fd, unsigned long request, ...)
{
	struct ib_uverbs_ioctl_hdr *hdr;
	va_list list;

	va_start(list, request);
	hdr = va_arg(list, struct ib_uverbs_ioctl_hdr *);
	va_end(list);
	if (fd != 7 || request != RDMA_VERBS_IOCTL) {
		errno = ENOTTY;
		return -1;
	}
	if (hdr->method_id == UVERBS_METHOD_MR_DESTROY) {
		if (hdr->attrs[0].data != 99 || refusals-- > 0) {
			errno = EBUSY;
			return -1;
		}
		ended++;
	} else {
		hdr->attrs[0].data = 99;
	}
	return 0;
}

static int dmabuf(void)
{
	struct ibv_context verbs = { .cmd_fd = 7 };
	struct ibv_pd pd = { .context = &verbs };
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(&pd, 0, 4096, 0x10000, 5, IBV_ACCESS_LOCAL_WRITE);
	int refused, second;

	if (!mr || mr->handle != 99)
		return 1;
	refused = ibv_dereg_mr(mr);
	second = ibv_dereg_mr(mr);
	if (refused != EBUSY || second || ended != 1) {
		fprintf(stderr, "answers %d and %d, ended %d times\n", refused, second, ended);
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	CUipcMemHandle handle = { .reserved = "" };
	CUdeviceptr p;

	if (argc == 2 && !strcmp(argv[1], "dmabuf"))
		return dmabuf();
	if (argc == 3 && !strcmp(argv[1], "ipc"))
		return cuIpcOpenMemHandle(&p, handle, (unsigned int)atoi(argv[2])) != (CUresult)atoi(argv[2]);
	return argc != 2 || strcmp(argv[1], "none");
}

#endif
