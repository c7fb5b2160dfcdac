// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that failed: an entry that touches a failed page ends with EIO, wherever in a run of pages
 * it lies; what touches others is executed.  Where the kernel has fault injection, copies end as a
 * machine check under way would end them.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "leak.h"
#include "util.h"

#ifndef MADV_HWPOISON
#define MADV_HWPOISON	100
#endif

#define RW	(PROT_READ | PROT_WRITE)
#define LENGTH	(2 * MIB)
#define OTHER	(4 * MIB)
#define FAILED	(16 * MIB)
/* The failed page. */
#define PAGE	3
#define PAGES	8

/* The kernel tells who maps a page that it failed.  It is not raised by an access: there is none. */
static void told(int sig)
{
	static int times;

	if (sig && ++times > 100)
		_exit(1);
}

FIXTURE(poison)
{
	struct leak_state leak;
	int fd;
	__u32 vm, other;
};

/* Memory of the program or the device, in large folios where there are such. */
FIXTURE_VARIANT(poison)
{
	bool device;
	size_t length;
};

FIXTURE_VARIANT_ADD(poison, registered)
{
	.device = false,
	.length = PAGES * 4096,
};

FIXTURE_VARIANT_ADD(poison, registered_large)
{
	.device = false,
	.length = LENGTH,
};

FIXTURE_VARIANT_ADD(poison, device)
{
	.device = true,
	.length = PAGES * 4096,
};

FIXTURE_VARIANT_ADD(poison, device_large)
{
	.device = true,
	.length = LENGTH,
};

FIXTURE_SETUP(poison)
{
	signal(SIGBUS, told);
	ASSERT_TRUE(dev_quiet(10));
	leak_begin(&self->leak);
	self->fd = gp_open(0);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, gp_vm_create(self->fd, &self->vm));
	ASSERT_EQ(0, gp_bo_alloc(self->fd, LENGTH, &self->other));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->other, 0, OTHER, LENGTH, 1, 1));
}

FIXTURE_TEARDOWN(poison)
{
	unmap_all();
	close(self->fd);
	EXPECT_TRUE(dev_quiet(10));
	EXPECT_TRUE(leak_end(&self->leak));
}

#define COPY(page, n)	stream_error_of(self->fd, self->vm,				\
					sqe_copy(OTHER, FAILED + (page) * page_size,	\
						 (n) * page_size))
#define COPY_TO(page, n) stream_error_of(self->fd, self->vm,				\
					 sqe_copy(FAILED + (page) * page_size, OTHER,	\
						  (n) * page_size))
#define FILL(page, n)	stream_error_of(self->fd, self->vm,				\
					sqe_fill(FAILED + (page) * page_size, 8, 7,	\
						 (n) * page_size / 8))

TEST_F(poison, page)
{
	const int rest = PAGES - PAGE - 1;
	unsigned char *p, *area;
	__u32 id;

	if (variant->device) {
		ASSERT_EQ(0, gp_bo_alloc(self->fd, variant->length, &id));
		p = gp_map(self->fd, id, 0, variant->length, RW);
		ASSERT_NE(NULL, p);
		memset(p, 5, variant->length);
	} else {
		struct gpumem_bo_pin pin = { .size = sizeof(pin), .length = variant->length };

		area = mmap(NULL, 2 * LENGTH, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		ASSERT_NE(MAP_FAILED, area);
		p = (void *)(((unsigned long)area + LENGTH - 1) & ~(LENGTH - 1));
		madvise(p, LENGTH, variant->length == LENGTH ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
		memset(p, 5, variant->length);
		pin.addr = (unsigned long)p;
		ASSERT_EQ(0, gp_ioctl(self->fd, GPUMEM_BO_PIN, &pin));
		id = pin.id;
	}
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, id, 0, FAILED, variant->length, 1, 1));
	EXPECT_EQ(0, COPY(0, PAGES));
	EXPECT_EQ(0, FILL(0, PAGES));
	/* What it answers depends on who holds the page; that it failed is seen below. */
	if (madvise(p + PAGE * page_size, page_size, MADV_HWPOISON) &&
	    (errno == EPERM || errno == EINVAL))
		SKIP(return, "pages cannot be failed: %s", strerror(errno));
	EXPECT_EQ(EIO, COPY(PAGE, 1));
	EXPECT_EQ(0, COPY(0, PAGE));
	EXPECT_EQ(0, COPY(PAGE + 1, rest));
	EXPECT_EQ(EIO, COPY(0, PAGES));
	EXPECT_EQ(EIO, COPY(PAGE - 1, 2));
	EXPECT_EQ(EIO, COPY(PAGE, rest));
	EXPECT_EQ(0, FILL(0, PAGE));
	EXPECT_EQ(0, FILL(PAGE + 1, rest));
	EXPECT_EQ(EIO, FILL(0, PAGES));
	EXPECT_EQ(EIO, FILL(PAGE, 1));
	EXPECT_EQ(0, COPY_TO(PAGE + 1, rest));
	EXPECT_EQ(EIO, COPY_TO(0, PAGES));
	/* Part of a page, before and behind its start. */
	EXPECT_EQ(0, stream_error_of(self->fd, self->vm,
				     sqe_copy(OTHER, FAILED + PAGE * page_size - 100, 100)));
	EXPECT_EQ(EIO, stream_error_of(self->fd, self->vm,
				       sqe_copy(OTHER, FAILED + PAGE * page_size - 100, 101)));
	EXPECT_EQ(EIO, stream_error_of(self->fd, self->vm,
				       sqe_poll(FAILED + PAGE * page_size, 4, GPUMEM_POLL_EQ, 0)));
	munmap(p, variant->length);
	EXPECT_EQ(0, gp_vm_unmap(self->fd, self->vm, FAILED, variant->length, NULL));
	EXPECT_EQ(0, gp_destroy(self->fd, id));
}

static int knob(const char *name, const char *text)
{
	char path[128];
	int fd, ret = 0;

	snprintf(path, sizeof(path), "/sys/kernel/debug/gpumem_fail_copy/%s", name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

FIXTURE(check)
{
	struct leak_state leak;
	int fd;
	__u32 vm, bo;
};

FIXTURE_SETUP(check)
{
	ASSERT_TRUE(dev_quiet(10));
	leak_begin(&self->leak);
	self->fd = gp_open(0);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, gp_vm_create(self->fd, &self->vm));
	ASSERT_EQ(0, gp_bo_alloc(self->fd, LENGTH, &self->bo));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo, 0, OTHER, LENGTH, 1, 1));
}

FIXTURE_TEARDOWN(check)
{
	knob("probability", "0");
	unmap_all();
	close(self->fd);
	EXPECT_TRUE(dev_quiet(10));
	EXPECT_TRUE(leak_end(&self->leak));
}

/* The entry ends and its stream with it; other streams go on. */
TEST_F(check, machine_check)
{
	const struct gpumem_sqe copy = sqe_copy(OTHER, OTHER + MIB, MIB);
	struct gpumem_timeline_wait w;
	struct stream s, t;

	if (knob("verbose", "0"))
		SKIP(return, "the kernel has no fault injection");
	ASSERT_EQ(0, stream_open(&s, self->fd, self->vm, 0, 16));
	ASSERT_EQ(0, stream_open(&t, self->fd, self->vm, 0, 16));
	ASSERT_EQ(0, stream_push(&t, &copy));
	EXPECT_EQ(0, stream_sync(&t));
	ASSERT_EQ(0, knob("times", "1"));
	ASSERT_EQ(0, knob("probability", "100"));
	ASSERT_EQ(0, stream_push(&s, &copy));
	EXPECT_EQ(-EIO, stream_sync(&s));
	EXPECT_EQ(-EIO, gp_timeline_wait(self->fd, s.timeline, 1, 0, &w));
	EXPECT_EQ(EIO, w.error);
	EXPECT_EQ(EIO, s.page->error);
	/* What is queued behind it is not executed, and completes. */
	ASSERT_EQ(0, stream_push(&s, &copy));
	EXPECT_EQ(-EIO, stream_sync(&s));
	EXPECT_EQ(2, s.page->value);
	ASSERT_EQ(0, stream_push(&t, &copy));
	EXPECT_EQ(0, stream_sync(&t));
	EXPECT_EQ(0, t.page->error);
	EXPECT_EQ(0, stream_close(&s));
	EXPECT_EQ(0, stream_close(&t));
	EXPECT_EQ(0, stream_error_of(self->fd, self->vm, copy));
}

TEST_HARNESS_MAIN
