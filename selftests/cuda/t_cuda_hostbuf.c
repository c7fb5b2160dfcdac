// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_host_get_dmabuf_fd(), which CUDA does not have: DMA-bufs of pinned and of registered host
 * memory.  Another process imports them and sees the same bytes, both ways, before and after the
 * owner has freed or unregistered the memory.  Once memory is exported, only the engine executes
 * operations on it.  At the end everything is given back.
 */
#include <gpumem.h>
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "host_fixture.h"

#define RW		(PROT_READ | PROT_WRITE)
#define ANON		(MAP_PRIVATE | MAP_ANONYMOUS)
#define HOSTBUF		gpumem_host_get_dmabuf_fd

FIXTURE(hostbuf)
{
	CUcontext ctx;
	CUdeviceptr dev;
	unsigned char *mem;	/* 1 MiB of ordinary memory */
};

FIXTURE_SETUP(hostbuf)
{
	ASSERT_TRUE(dev_quiet(10));
	ASSERT_EQ(0, host_used());
	ASSERT_CU(cuda_start(&self->ctx));
	ASSERT_CU(cuMemAlloc(&self->dev, MIB));
	self->mem = mmap(NULL, MIB, RW, ANON, -1, 0);
	ASSERT_NE(MAP_FAILED, self->mem);
}

HOST_AFTERWARDS(hostbuf)

static CUdeviceptr ptr(const void *p)
{
	return (uintptr_t)p;
}

static bool vm_pin_becomes(long long want)
{
	for (int i = 0; i < 500 && vm_pin() != want; i++)
		nap_ms(10);
	return vm_pin() == want;
}

/* --- another client */

struct other {
	int dmabuf;
	size_t n;
	unsigned int rounds;
	int to[2], from[2];
	pid_t pid;
};

/*
 * A client of its own, which gets only the descriptor.  In each round it waits for the word to
 * begin, then its engine reads the pattern 2 * round and writes the one after it.
 */
static int other_main(void *arg)
{
	struct gpumem_bo_import view;
	struct other *o = arg;
	__u64 at = 0x10000000, copy = 0x20000000;
	int fd = gp_open(0);
	unsigned char *mine;
	struct stream s;
	__u32 vm, bo;

	close(o->to[1]);
	close(o->from[0]);
	if (fd < 0 || gp_bo_import(fd, o->dmabuf, &view) || view.length != o->n ||
	    gp_vm_create(fd, &vm) || gp_bo_alloc(fd, o->n, &bo) ||
	    gp_vm_map(fd, vm, view.id, 0, at, o->n, 1, 1) ||
	    gp_vm_map(fd, vm, bo, 0, copy, o->n, 1, 1) || stream_open(&s, fd, vm, 0, 16))
		return 1;
	mine = gp_map(fd, bo, 0, o->n, RW);
	if (!mine)
		return 2;
	close(o->dmabuf);
	for (unsigned int i = 0; i < o->rounds; i++) {
		struct gpumem_sqe in = sqe_copy(copy, at, o->n), out = sqe_copy(at, copy, o->n);

		if (!hear(o->to[0]))
			return 3;
		if (stream_push(&s, &in) || stream_sync(&s))
			return 4;
		if (!has_pattern(mine, o->n, 2 * i))
			return 10 + i;
		pattern(mine, o->n, 2 * i + 1);
		if (stream_push(&s, &out) || stream_sync(&s))
			return 5;
		tell(o->from[1]);
	}
	hear(o->to[0]);
	return 0;
}

static int other_start(struct other *o, int dmabuf, size_t n, unsigned int rounds)
{
	*o = (struct other) { .dmabuf = dmabuf, .n = n, .rounds = rounds };
	if (pipe2(o->to, O_CLOEXEC) || pipe2(o->from, O_CLOEXEC))
		return -errno;
	o->pid = start_child(other_main, o);
	/* With this process's copies of the ends closed, hear() fails when the child has ended. */
	close(o->from[1]);
	close(o->to[0]);
	return o->pid > 0 ? 0 : -ECHILD;
}

static bool other_round(struct other *o)
{
	return tell(o->to[1]) && hear(o->from[0]);
}

static int other_end(struct other *o)
{
	close(o->to[1]);
	close(o->from[0]);
	return end_child(o->pid);
}

/* --- the same bytes */

TEST_F(hostbuf, pinned)
{
	size_t n = 3 * MIB + 5000, part = 2 * MIB + 2 * page_size;
	unsigned char *p, *q, *map;
	struct other o;
	int fd = -1;

	ASSERT_CU(cuMemHostAlloc((void **)&p, n, 0));
	q = p + 3 * page_size;
	pattern(q, part, 0);
	ASSERT_CU(HOSTBUF(&fd, q, part, 0));
	EXPECT_EQ((off_t)part, lseek(fd, 0, SEEK_END));
	EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD));
	EXPECT_EQ(1, dev_attr(0, "exports"));
	map = mmap(NULL, part, RW, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, map);
	EXPECT_TRUE(has_pattern(map, part, 0));
	map[17] ^= 0xff;
	EXPECT_EQ(map[17], q[17]);
	q[17] ^= 0xff;
	EXPECT_EQ(q[17], map[17]);
	ASSERT_EQ(0, other_start(&o, fd, part, 2));
	ASSERT_TRUE(other_round(&o));
	EXPECT_TRUE(has_pattern(q, part, 1));
	EXPECT_TRUE(has_pattern(map, part, 1));
	/* The other client gets the bytes that the device copies there. */
	pattern(self->mem, MIB, 2);
	pattern(map, part, 2);
	memset(map, 0, MIB);
	ASSERT_CU(cuMemcpyHtoD(self->dev, self->mem, MIB));
	ASSERT_CU(cuMemcpyDtoH(q, self->dev, MIB));
	/* The owner frees the memory; it stays for the mapping and for the other client. */
	ASSERT_CU(cuMemFreeHost(p));
	EXPECT_LE((long long)part, host_used());
	ASSERT_TRUE(other_round(&o));
	EXPECT_TRUE(has_pattern(map, part, 3));
	close(fd);
	munmap(map, part);
	EXPECT_LE((long long)part, host_used());
	EXPECT_EQ(0, other_end(&o));
	EXPECT_TRUE(host_used_becomes(0));
	EXPECT_TRUE(vm_pin_becomes(0));
	EXPECT_TRUE(dev_attr_becomes(0, "exports", 0, 10));
}

TEST_F(hostbuf, registered)
{
	size_t n = 100 * page_size, part = 90 * page_size;
	unsigned char *p = self->mem + 100, *q = self->mem + 4 * page_size;
	struct other o;
	int fd = -1;

	ASSERT_CU(cuMemHostRegister(p, n, 0));
	pattern(q, part, 0);
	ASSERT_CU(HOSTBUF(&fd, q, part, 0));
	EXPECT_EQ((off_t)part, lseek(fd, 0, SEEK_END));
	EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD));
	EXPECT_EQ(1, dev_attr(0, "exports"));
	/* Such a DMA-buf cannot be mapped: its pages belong to another file, or to none. */
	EXPECT_EQ(MAP_FAILED, mmap(NULL, part, RW, MAP_SHARED, fd, 0));
	EXPECT_EQ(EINVAL, errno);
	ASSERT_EQ(0, other_start(&o, fd, part, 3));
	close(fd);
	ASSERT_TRUE(other_round(&o));
	EXPECT_TRUE(has_pattern(q, part, 1));
	EXPECT_EQ(0, q[-1]);
	EXPECT_EQ(0, q[part]);
	pattern(q, part, 2);
	/* Unregistered, the pages are ordinary memory, but stay pinned for the other client. */
	ASSERT_CU(cuMemHostUnregister(p));
	EXPECT_EQ(INVALID, HOSTBUF(&fd, q, part, 0));
	EXPECT_EQ((long long)(101 * page_size), vm_pin());
	ASSERT_TRUE(other_round(&o));
	EXPECT_TRUE(has_pattern(q, part, 3));
	/* The pages may be registered again, and both pins count. */
	ASSERT_CU(cuMemHostRegister(self->mem, MIB, 0));
	EXPECT_EQ((long long)(101 * page_size + MIB), vm_pin());
	pattern(self->mem, MIB, 7);
	ASSERT_CU(cuMemcpyHtoD(self->dev, self->mem, MIB));
	EXPECT_TRUE(has_pattern(cpu(self->dev), MIB, 7));
	ASSERT_CU(cuMemHostUnregister(self->mem));
	/* The pages stay even if the program unmaps them. */
	pattern(q, part, 4);
	ASSERT_EQ(0, munmap(self->mem, MIB));
	ASSERT_TRUE(other_round(&o));
	EXPECT_EQ((long long)(101 * page_size), vm_pin());
	EXPECT_EQ(0, other_end(&o));
	EXPECT_TRUE(vm_pin_becomes(0));
	EXPECT_TRUE(dev_attr_becomes(0, "exports", 0, 10));
}

/* A context and a process end while DMA-bufs of their host memory exist. */
TEST_F(hostbuf, context_ends)
{
	unsigned char *p;
	CUcontext ctx;
	int fds[2];

	ASSERT_CU(cuCtxCreate(&ctx, NULL, 0, 0));
	ASSERT_CU(cuMemHostAlloc((void **)&p, 4 * MIB, 0));
	ASSERT_CU(cuMemHostRegister(self->mem, MIB, 0));
	ASSERT_CU(HOSTBUF(&fds[0], p, 4 * MIB, 0));
	ASSERT_CU(HOSTBUF(&fds[1], self->mem, MIB, 0));
	ASSERT_CU(cuCtxDestroy(ctx));
	EXPECT_EQ(2, dev_attr(0, "exports"));
	EXPECT_EQ((long long)(5 * MIB), vm_pin());
	close(fds[0]);
	EXPECT_TRUE(host_used_becomes(0));
	EXPECT_TRUE(vm_pin_becomes(MIB));
	close(fds[1]);
	EXPECT_TRUE(vm_pin_becomes(0));
	/* The end of the process cleans up the other objects; the parent checks. */
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	ASSERT_CU(cuMemHostRegister(self->mem, MIB, 0));
	ASSERT_CU(HOSTBUF(&fds[1], self->mem, MIB, 0));
}

/* --- inline or not */

static void goes_by_the_ring(struct __test_metadata *_metadata, FIXTURE_DATA(hostbuf) *self,
			     unsigned char *p)
{
	struct meter before, after;
	int fd = -1;

	ASSERT_EQ(0, meter_read(&before));
	ASSERT_CU(cuMemcpyHtoD(self->dev, p, 4096));
	ASSERT_CU(cuMemsetD8(ptr(p), 0x11, 4096));
	ASSERT_EQ(0, meter_read(&after));
	if (inlining()) {
		EXPECT_EQ(before.jobs, after.jobs);
	}
	ASSERT_CU(HOSTBUF(&fd, p, 8192, 0));
	for (unsigned int closed = 0; closed < 2; closed++) {
		memset(p, 0x22, 4096);
		ASSERT_EQ(0, meter_read(&before));
		ASSERT_CU(cuMemcpyHtoD(self->dev, p, 4096));
		EXPECT_CU(cuCtxSynchronize());
		EXPECT_TRUE(all_are(cpu(self->dev), 0x22, 4096));
		ASSERT_CU(cuMemsetD8(ptr(p), 0x33, 4096));
		EXPECT_CU(cuCtxSynchronize());
		EXPECT_TRUE(all_are(p, 0x33, 4096));
		ASSERT_CU(cuMemcpyDtoH(p + 4096, self->dev, 4096));
		EXPECT_TRUE(all_are(p + 4096, 0x22, 4096));
		ASSERT_EQ(0, meter_read(&after));
		EXPECT_EQ(before.copied + 8192, after.copied);
		EXPECT_EQ(before.filled + 4096, after.filled);
		/* Once exported is exported for good: the descriptor may have been duplicated. */
		close(fd);
	}
}

TEST_F(hostbuf, not_inline)
{
	unsigned char *p;

	ASSERT_CU(cuMemHostAlloc((void **)&p, 8192, 0));
	goes_by_the_ring(_metadata, self, p);
	ASSERT_CU(cuMemHostRegister(self->mem, 8192, 0));
	goes_by_the_ring(_metadata, self, self->mem);
}

/* --- which ranges */

TEST_F(hostbuf, errors)
{
	const size_t page = page_size;
	unsigned char *p, *small[2];
	int fd = 77;

	ASSERT_CU(cuMemHostAlloc((void **)&p, 3 * MIB + 1, 0));
	EXPECT_EQ(INVALID, HOSTBUF(NULL, p, page, 0));
	EXPECT_EQ(INVALID, HOSTBUF(&fd, NULL, page, 0));
	EXPECT_EQ(-1, fd);
	EXPECT_EQ(INVALID, HOSTBUF(&fd, p + 512, page, 0));
	EXPECT_EQ(INVALID, HOSTBUF(&fd, p, 0, 0));
	EXPECT_EQ(INVALID, HOSTBUF(&fd, p, page - 1, 0));
	EXPECT_EQ(INVALID, HOSTBUF(&fd, p, page, 1));
	EXPECT_EQ(INVALID, HOSTBUF(&fd, p, page, ~0U));
	EXPECT_EQ(INVALID, HOSTBUF(&fd, p, -page, 0));
	/* A range may reach to the end of the last byte's page, and no further. */
	EXPECT_EQ(INVALID, HOSTBUF(&fd, p, 3 * MIB + 2 * page, 0));
	EXPECT_EQ(INVALID, HOSTBUF(&fd, p + 3 * MIB, 2 * page, 0));
	EXPECT_EQ(INVALID, HOSTBUF(&fd, p + 3 * MIB + page, page, 0));
	EXPECT_EQ(0, dev_attr(0, "exports"));
	fd = -1;
	EXPECT_CU(HOSTBUF(&fd, p, 3 * MIB + page, 0));
	close(fd);
	/* Device memory, ordinary memory. */
	EXPECT_EQ(INVALID, HOSTBUF(&fd, cpu(self->dev), page, 0));
	EXPECT_EQ(INVALID, HOSTBUF(&fd, self->mem, page, 0));
	EXPECT_EQ(-1, fd);
	/* Two allocations share a page: its address belongs to the first. */
	ASSERT_CU(cuMemHostAlloc((void **)&small[0], 512, 0));
	ASSERT_CU(cuMemHostAlloc((void **)&small[1], 512, 0));
	EXPECT_EQ(0, ptr(small[0]) % page);
	EXPECT_EQ(INVALID, HOSTBUF(&fd, small[1], page, 0));
	EXPECT_CU(HOSTBUF(&fd, small[0], page, 0));
	close(fd);
	/* Registered memory: whole pages of it, nothing around it. */
	ASSERT_CU(cuMemHostRegister(self->mem + 1, 3 * page, 0));
	EXPECT_EQ(INVALID, HOSTBUF(&fd, self->mem, page, 0));
	EXPECT_EQ(INVALID, HOSTBUF(&fd, self->mem + page, 3 * page, 0));
	EXPECT_EQ(INVALID, HOSTBUF(&fd, self->mem + 3 * page, page, 0));
	EXPECT_CU(HOSTBUF(&fd, self->mem + page, 2 * page, 0));
	close(fd);
	ASSERT_CU(cuMemHostUnregister(self->mem + 1));
	/* Importers may write, so read-only memory is refused. */
	ASSERT_CU(cuMemHostRegister(self->mem, page, CU_MEMHOSTREGISTER_READ_ONLY));
	EXPECT_EQ(CUDA_ERROR_NOT_PERMITTED, HOSTBUF(&fd, self->mem, page, 0));
	EXPECT_EQ(-1, fd);
	ASSERT_CU(cuMemHostUnregister(self->mem));
	/* CUDA's own function refuses host memory. */
	ASSERT_CU(cuMemHostRegister(self->mem, page, 0));
	EXPECT_EQ(INVALID, cuMemGetHandleForAddressRange(&fd, ptr(self->mem), page,
							 CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	EXPECT_EQ(INVALID, cuMemGetHandleForAddressRange(&fd, ptr(p), page,
							 CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	ASSERT_CU(cuCtxSetCurrent(NULL));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, HOSTBUF(&fd, p, page, 0));
	EXPECT_TRUE(dev_attr_becomes(0, "exports", 0, 10));
}

TEST(hostbuf_before_init)
{
	int fd = 77;

	EXPECT_EQ(CUDA_ERROR_NOT_INITIALIZED, HOSTBUF(&fd, &fd, page_size, 0));
	EXPECT_EQ(77, fd);
}

/* Memory that is freed while a DMA-buf reaches it gets no new owner before the DMA-buf is gone. */
TEST_F(hostbuf, withheld)
{
	enum { N = 2 * MIB / 65536 + 4 };
	unsigned char *keep, *p, *map, *other;
	unsigned int again = 0;
	int fd = -1;

	ASSERT_CU(cuMemHostAlloc((void **)&keep, 65536, 0));
	ASSERT_CU(cuMemHostAlloc((void **)&p, 65536, 0));
	ASSERT_CU(HOSTBUF(&fd, p, 65536, 0));
	map = mmap(NULL, 65536, RW, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, map);
	close(fd);
	ASSERT_CU(cuMemFreeHost(p));
	memset(map, 0x5a, 65536);
	for (int i = 0; i < N; i++) {
		ASSERT_CU(cuMemHostAlloc((void **)&other, 65536, 0));
		EXPECT_NE(p, other);
		EXPECT_TRUE(all_are(other, 0, 65536));
	}
	munmap(map, 65536);
	for (int i = 0; i < N && !again; i++) {
		ASSERT_CU(cuMemHostAlloc((void **)&other, 65536, 0));
		EXPECT_TRUE(all_are(other, 0, 65536));
		again = other == p;
	}
	EXPECT_TRUE(again);
}

TEST_HARNESS_MAIN
