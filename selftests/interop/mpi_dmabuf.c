// SPDX-License-Identifier: GPL-2.0
/*
 * Preloaded into a program that uses verbs: ibv_reg_dmabuf_mr() for soft-RoCE.
 *
 * librxe has no such function; the kernel's module has one with rxe-*.patch.  A region that is made here must
 * end here, too.  At the end of rank 0 of an MPI job it prints whether any region was made.  At the end of another
 * process it prints how many were, unless none was.
 */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "mpi_report.h"

/* A region of this library. */
struct region {
	struct ibv_mr mr;	/* the caller's */
	struct region *next;
};

#define ATTR(id, bytes, value) {						\
	.attr_id = (id), .len = (bytes), .flags = UVERBS_ATTR_F_MANDATORY,	\
	.data = (__u64)(value),							\
}

/* Call @method of memory regions with @count attributes; 0 or an errno. */
static int call(struct ibv_context *verbs, __u16 method, struct ib_uverbs_attr *attrs, unsigned int count)
{
	union {
		struct ib_uverbs_ioctl_hdr hdr;
		unsigned char bytes[sizeof(struct ib_uverbs_ioctl_hdr) + 9 * sizeof(*attrs)];
	} cmd = {
		.hdr = {
			.length = sizeof(cmd.hdr) + count * sizeof(*attrs), .object_id = UVERBS_OBJECT_MR,
			.method_id = method, .num_attrs = count, .driver_id = RDMA_DRIVER_RXE,
		},
	};

	memcpy(cmd.hdr.attrs, attrs, count * sizeof(*attrs));
	if (ioctl(verbs->cmd_fd, RDMA_VERBS_IOCTL, &cmd))
		return errno;
	memcpy(attrs, cmd.hdr.attrs, count * sizeof(*attrs));
	return 0;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct region *regions;	/* under lock */
static unsigned long made;	/* under lock */

/* The link that points to the region of @mr, or the end of the list.  Called under lock. */
static struct region **find(struct ibv_mr *mr)
{
	struct region **at = &regions;

	while (*at && &(*at)->mr != mr)
		at = &(*at)->next;
	return at;
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
				 int access)
{
	struct region *r = calloc(1, sizeof(*r));
	int ret;

	if (!r)
		return NULL;
	struct ib_uverbs_attr attrs[] = {
		ATTR(UVERBS_ATTR_REG_DMABUF_MR_HANDLE, 0, 0),
		ATTR(UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, 0, pd->handle),
		ATTR(UVERBS_ATTR_REG_DMABUF_MR_OFFSET, 8, offset),
		ATTR(UVERBS_ATTR_REG_DMABUF_MR_LENGTH, 8, length),
		ATTR(UVERBS_ATTR_REG_DMABUF_MR_IOVA, 8, iova),
		ATTR(UVERBS_ATTR_REG_DMABUF_MR_FD, 4, fd),
		ATTR(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, 4, (unsigned int)access),
		ATTR(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, 4, (uintptr_t)&r->mr.lkey),
		ATTR(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, 4, (uintptr_t)&r->mr.rkey),
	};

	ret = call(pd->context, UVERBS_METHOD_REG_DMABUF_MR, attrs, sizeof(attrs) / sizeof(attrs[0]));
	if (ret) {
		free(r);
		errno = ret;
		return NULL;
	}
	r->mr.context = pd->context;
	r->mr.pd = pd;
	r->mr.addr = (void *)(uintptr_t)iova;
	r->mr.length = length;
	r->mr.handle = (uint32_t)attrs[0].data;
	pthread_mutex_lock(&lock);
	r->next = regions;
	regions = r;
	made++;
	pthread_mutex_unlock(&lock);
	return &r->mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	static int (*real)(struct ibv_mr *);
	struct ib_uverbs_attr attr = ATTR(UVERBS_ATTR_DESTROY_MR_HANDLE, 0, 0);
	struct region **at, *r;
	int ret;

	pthread_mutex_lock(&lock);
	r = *find(mr);
	/* UCX's module loads libibverbs for itself: RTLD_NEXT does not find it. */
	if (!real)
		real = (int (*)(struct ibv_mr *))dlsym(dlopen("libibverbs.so.1", RTLD_LAZY), "ibv_dereg_mr");
	pthread_mutex_unlock(&lock);
	if (!r)
		return real ? real(mr) : ENOSYS;
	attr.data = mr->handle;
	ret = call(mr->context, UVERBS_METHOD_MR_DESTROY, &attr, 1);
	if (ret)
		return ret;	/* the region exists as before */
	pthread_mutex_lock(&lock);
	at = find(mr);
	*at = r->next;
	pthread_mutex_unlock(&lock);
	free(r);
	return 0;
}

__attribute__((destructor)) static void report(void)
{
	if (!report_rank("registers-by-dmabuf", made) && made)
		printf("registered %lu regions by DMA-buf\n", made);
}
