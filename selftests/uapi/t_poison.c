// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that failed: an entry that touches a failed page ends with EIO, wherever in a range of
 * pages the failed one is; an entry that touches other pages is executed.  With fault injection in
 * the kernel, copies fail as if a machine check occurred during the copy.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "common/client_fixture.h"
#include "common/util.h"

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

/*
 * Handler of SIGBUS.  The kernel sends it to processes that map a page that it fails; no access
 * raises it here, as the test does not touch the page.
 */
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

/* Registered memory or device memory, in small folios or in large ones.  */
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
	client_begin(_metadata, &self->leak, &self->fd);
	ASSERT_EQ(0, gp_vm_create(self->fd, &self->vm));
	ASSERT_EQ(0, gp_bo_alloc(self->fd, LENGTH, &self->other));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->other, 0, OTHER, LENGTH, 1, 1));
}

FIXTURE_TEARDOWN(poison)
{
	client_end(_metadata, &self->leak, self->fd, 10);
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
		p = gp_alloc_map(self->fd, variant->length, &id);
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
	/* The result depends on the holder of the page; the checks below see whether it failed. */
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
	/*
	 * A range that ends at the start of the failed page, and one that includes its first byte.
	 */
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

	snprintf(path, sizeof(path), "/sys/kernel/debug/gpumem_fail_copy/%s", name);
	return write_file(path, text);
}

FIXTURE(check)
{
	struct leak_state leak;
	int fd;
	__u32 vm, bo;
};

FIXTURE_SETUP(check)
{
	client_begin(_metadata, &self->leak, &self->fd);
	ASSERT_EQ(0, gp_vm_create(self->fd, &self->vm));
	ASSERT_EQ(0, gp_bo_alloc(self->fd, LENGTH, &self->bo));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo, 0, OTHER, LENGTH, 1, 1));
}

FIXTURE_TEARDOWN(check)
{
	knob("probability", "0");
	client_end(_metadata, &self->leak, self->fd, 10);
}

/* The entry fails and ends its stream; other streams execute their entries.  */
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
	/* Entries behind the failed one are not executed, but complete. */
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
