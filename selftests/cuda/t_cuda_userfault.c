// SPDX-License-Identifier: GPL-2.0
/*
 * Pageable memory whose pages a userfaultfd provides: the engine waits for them as a thread of the
 * process does, other streams go on, and a process that never provides a page can be killed.
 */
#include "kselftest_harness.h"
#include "cuda_util.h"
#include "common/limits_util.h"
#include "common/userfault.h"

#define PARAMETER	"/sys/module/gpumem/parameters/pageable"
#define PAGE_BYTES	4096ull
#define PAGES		16u

FIXTURE(userfault)
{
	struct changed param;
	CUcontext ctx;
	CUstream s, other;
	CUdeviceptr dev;
	unsigned char *p;		/* PAGES pages that are missing */
	int uffd;
};

FIXTURE_SETUP(userfault)
{
	ASSERT_TRUE(dev_quiet(10));
	self->uffd = userfault_open();
	if (self->uffd == -ENOSYS)
		SKIP(return, "the kernel has no userfaultfd");
	ASSERT_LE(0, self->uffd);
	ASSERT_TRUE(file_change(&self->param, PARAMETER, "1,0"));
	ASSERT_CU(cuda_start(&self->ctx));
	ASSERT_EQ(0, file_restore(&self->param));
	ASSERT_CU(cuStreamCreate(&self->s, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuStreamCreate(&self->other, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuMemAlloc(&self->dev, PAGES * PAGE_BYTES));
	self->p = userfault_map(self->uffd, PAGES * PAGE_BYTES);
	ASSERT_NE(MAP_FAILED, self->p);
}

FIXTURE_TEARDOWN_PARENT(userfault)
{
	EXPECT_TRUE(dev_quiet(10));
}

/* Wait for a fault, and return its address; 0 if there is none in a while. */
static uintptr_t fault_of(int uffd)
{
	struct uffd_msg msg;

	if (!userfault_waits(uffd) || read(uffd, &msg, sizeof(msg)) != sizeof(msg) ||
	    msg.event != UFFD_EVENT_PAGEFAULT)
		return 0;
	return msg.arg.pagefault.address & -PAGE_BYTES;
}

static int provide(int uffd, uintptr_t addr, unsigned char value)
{
	unsigned char page[PAGE_BYTES];
	struct uffdio_copy copy = {
		.dst = addr, .src = (uintptr_t)page, .len = PAGE_BYTES,
	};

	memset(page, value, sizeof(page));
	return ioctl(uffd, UFFDIO_COPY, &copy);
}

/* The engine reads what the program provides, page by page. */
TEST_F(userfault, provided)
{
	int workers = 0;
	uintptr_t at;

	ASSERT_CU(cuDeviceGetAttribute(&workers, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 0));
	ASSERT_CU(cuMemcpyDtoDAsync(self->dev, (uintptr_t)self->p, PAGES * PAGE_BYTES, self->s));
	for (unsigned int i = 0; i < PAGES; i++) {
		at = fault_of(self->uffd);
		ASSERT_EQ((uintptr_t)self->p + i * PAGE_BYTES, at);
		EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(self->s));
		/* Another stream of the client is not held up, nor are changes of the address space. */
		if (workers > 1 && !i) {
			CUdeviceptr big;

			ASSERT_CU(cuMemAlloc(&big, 4 * MIB));
			ASSERT_CU(cuMemsetD8Async(big, 1, 4 * MIB, self->other));
			ASSERT_CU(cuStreamSynchronize(self->other));
		}
		ASSERT_EQ(0, provide(self->uffd, at, i + 1));
	}
	ASSERT_CU(cuStreamSynchronize(self->s));
	for (unsigned int i = 1; i < PAGES; i++)
		EXPECT_TRUE(sees(self->dev + i * PAGE_BYTES, i + 1, PAGE_BYTES));
}

/* The page is unmapped while the engine waits for it. */
TEST_F(userfault, taken_away)
{
	struct uffdio_range wake = { .len = PAGE_BYTES };
	uintptr_t at;

	ASSERT_CU(cuMemsetD8Async((uintptr_t)self->p, 5, 2 * PAGE_BYTES, self->s));
	at = fault_of(self->uffd);
	ASSERT_EQ((uintptr_t)self->p, at);
	ASSERT_EQ(0, provide(self->uffd, at, 1));
	at = fault_of(self->uffd);
	ASSERT_EQ((uintptr_t)self->p + PAGE_BYTES, at);
	wake.start = at;
	ASSERT_EQ(0, munmap(self->p + PAGE_BYTES, PAGE_BYTES));
	ASSERT_EQ(0, ioctl(self->uffd, UFFDIO_WAKE, &wake));
	EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(self->s));
	EXPECT_TRUE(all_are(self->p, 5, PAGE_BYTES));
}

/* The program never provides the page, and is killed. */
TEST_F_SIGNAL(userfault, killed, SIGKILL)
{
	ASSERT_CU(cuMemcpyDtoDAsync(self->dev, (uintptr_t)self->p, 8, self->s));
	ASSERT_CU(cuMemsetD8Async((uintptr_t)self->p + PAGE_BYTES, 1, PAGE_BYTES, self->other));
	ASSERT_NE(0, fault_of(self->uffd));
	kill(getpid(), SIGKILL);
}

TEST_HARNESS_MAIN
