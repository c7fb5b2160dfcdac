// SPDX-License-Identifier: GPL-2.0
/*
 * Entries on memory of the process whose pages nobody provides: the fault waits, and nothing else does.
 */
#include <time.h>

#include "kselftest_harness.h"
#include "common/file.h"
#include "common/limits_util.h"
#include "common/stream.h"
#include "common/userfault.h"
#include "common/util.h"

#define PARAMETER	"/sys/module/gpumem/parameters/pageable"
#define RW		(PROT_READ | PROT_WRITE)
#define ADDR		0x7f0000000000ULL
#define BYTES		65536u

FIXTURE(pageable)
{
	struct changed param;
	int fd, uffd;
	__u32 vm, bo;
	struct stream s;
	unsigned char *p;		/* BYTES that are missing */
};

FIXTURE_SETUP(pageable)
{
	ASSERT_TRUE(dev_quiet(10));
	self->uffd = userfault_open();
	if (self->uffd == -ENOSYS)
		SKIP(return, "the kernel has no userfaultfd");
	ASSERT_LE(0, self->uffd);
	ASSERT_TRUE(file_change(&self->param, PARAMETER, "1,0"));
	self->fd = gp_open(0);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, file_restore(&self->param));
	ASSERT_EQ(0, gp_vm_create(self->fd, &self->vm));
	ASSERT_EQ(0, gp_bo_alloc(self->fd, 2 * BYTES, &self->bo));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo, 0, ADDR, 2 * BYTES, 1, 1));
	ASSERT_EQ(0, stream_open(&self->s, self->fd, self->vm, 0, 64));
	self->p = userfault_map(self->uffd, BYTES);
	ASSERT_NE(MAP_FAILED, self->p);
}

FIXTURE_TEARDOWN(pageable)
{
	if (self->fd >= 0) {
		EXPECT_EQ(0, stream_close(&self->s));
		close(self->fd);
	}
	/* The fault that waits fails. */
	close(self->uffd);
	EXPECT_TRUE(dev_quiet(10));
}

static struct gpumem_sqe from(const unsigned char *p)
{
	struct gpumem_sqe sqe = sqe_copy(ADDR, (uintptr_t)p, BYTES);

	sqe.flags = GPUMEM_SQE_SRC_PAGEABLE;
	return sqe;
}

static struct gpumem_sqe fill_of(const unsigned char *p)
{
	struct gpumem_sqe sqe = sqe_fill((uintptr_t)p, 1, 1, BYTES);

	sqe.flags = GPUMEM_SQE_DST_PAGEABLE;
	return sqe;
}

static struct gpumem_sqe poll_of(const unsigned char *p)
{
	struct gpumem_sqe sqe = sqe_poll((uintptr_t)p, 4, GPUMEM_POLL_EQ, 1);

	sqe.flags = GPUMEM_SQE_DST_PAGEABLE;
	return sqe;
}

/* The last close returns, and the client is gone, while the fault still waits. */
static void close_in_fault(struct __test_metadata *_metadata, FIXTURE_DATA(pageable) *self,
			   struct gpumem_sqe sqe)
{
	ASSERT_EQ(0, stream_push(&self->s, &sqe));
	ASSERT_TRUE(userfault_waits(self->uffd));
	EXPECT_EQ(0, stream_close(&self->s));
	close(self->fd);
	self->fd = -1;
	EXPECT_TRUE(number_becomes("/sys/class/gpumem/gpumem0/used", 0));
	EXPECT_TRUE(userfault_waits(self->uffd));
}

TEST_F(pageable, close_in_copy)
{
	close_in_fault(_metadata, self, from(self->p));
}

TEST_F(pageable, close_in_fill)
{
	close_in_fault(_metadata, self, fill_of(self->p));
}

TEST_F(pageable, close_in_poll)
{
	close_in_fault(_metadata, self, poll_of(self->p));
}

/* Another stream goes on, and its own stream can be destroyed. */
TEST_F(pageable, others_go_on)
{
	struct gpumem_sqe sqe = from(self->p);
	struct stream other;

	ASSERT_EQ(0, stream_open(&other, self->fd, self->vm, 0, 64));
	ASSERT_EQ(0, stream_push(&self->s, &sqe));
	ASSERT_TRUE(userfault_waits(self->uffd));
	sqe = sqe_fill(ADDR + BYTES, 1, 3, BYTES);
	ASSERT_EQ(0, stream_push(&other, &sqe));
	EXPECT_EQ(0, stream_sync(&other));
	EXPECT_EQ(0, stream_close(&other));
	/* Kicks do not let anybody run the stream before its page is there. */
	for (unsigned int i = 0; i < 10; i++)
		EXPECT_EQ(0, gp_doorbell(self->fd, self->s.id));
	EXPECT_EQ(0, self->s.page->value);
}

/* The address of a text of the kernel, or 0. */
static __u64 kernel_text(void)
{
	unsigned long long addr = 0;
	char line[256], name[64];
	FILE *f = fopen("/proc/kallsyms", "re");

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%llx %*c %63s", &addr, name) == 2 && !strcmp(name, "linux_banner"))
			break;
		addr = 0;
	}
	if (f)
		fclose(f);
	return addr;
}

/* An entry that names memory of the kernel fails, and tells nothing about it. */
TEST_F(pageable, kernel_memory)
{
	unsigned char *seen = gp_map(self->fd, self->bo, 0, BYTES, RW);
	struct gpumem_sqe sqe = from(NULL);

	ASSERT_NE(NULL, seen);
	sqe.src = kernel_text();
	sqe.width = 16;
	ASSERT_NE(0, sqe.src);
	ASSERT_EQ(0, stream_push(&self->s, &sqe));
	EXPECT_NE(0, stream_sync(&self->s));
	EXPECT_EQ(EFAULT, self->s.page->error);
	EXPECT_EQ(0, seen[0]);
	munmap(seen, BYTES);
}

/* A fault that ends without a page makes the entry fail. */
TEST_F(pageable, fault_fails)
{
	struct uffdio_range range = { .start = (uintptr_t)self->p, .len = BYTES };
	struct gpumem_sqe sqe = from(self->p);

	ASSERT_EQ(0, stream_push(&self->s, &sqe));
	ASSERT_TRUE(userfault_waits(self->uffd));
	ASSERT_EQ(0, mprotect(self->p, BYTES, PROT_NONE));
	ASSERT_EQ(0, ioctl(self->uffd, UFFDIO_UNREGISTER, &range));
	stream_sync(&self->s);
	EXPECT_EQ(EFAULT, self->s.page->error);
}

/* A page that is provided lets the entry go on. */
TEST_F(pageable, provided)
{
	struct uffdio_zeropage zero = { };
	struct gpumem_sqe sqe = from(self->p);

	ASSERT_EQ(0, stream_push(&self->s, &sqe));
	ASSERT_TRUE(userfault_waits(self->uffd));
	zero.range.start = (uintptr_t)self->p;
	zero.range.len = BYTES;
	ASSERT_EQ(0, ioctl(self->uffd, UFFDIO_ZEROPAGE, &zero));
	EXPECT_EQ(0, stream_sync(&self->s));
}

TEST_HARNESS_MAIN
