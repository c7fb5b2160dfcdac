/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For t_cuda_pageable.c and t_cuda_pageable_gone.c: a process that attached the first device while the module parameter
 * "pageable" was on for it, a gate that queued work waits for, and patterns in memory of the process.
 */
#ifndef PAGEABLE_FIXTURE_H
#define PAGEABLE_FIXTURE_H

#include <sys/mman.h>

#include "kselftest_harness.h"
#include "cuda_util.h"
#include "common/limits_util.h"

#define PARAMETER	"/sys/module/gpumem/parameters/pageable"
#define RW		(PROT_READ | PROT_WRITE)
#define PAGE_BYTES	4096u

FIXTURE(pageable)
{
	struct changed param;
	CUcontext ctx;
	CUstream s;
	unsigned int *gate;
	CUdeviceptr dev;		/* 4 MiB */
};

FIXTURE_SETUP(pageable)
{
	ASSERT_TRUE(dev_quiet(10));
	ASSERT_TRUE(file_change(&self->param, PARAMETER, "1,0"));
	ASSERT_CU(cuda_start(&self->ctx));
	/* What the process found when it attached the device counts. */
	ASSERT_EQ(0, file_restore(&self->param));
	ASSERT_CU(cuStreamCreate(&self->s, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuMemAllocHost((void **)&self->gate, sizeof(*self->gate)));
	ASSERT_CU(cuMemAlloc(&self->dev, 4 * MIB));
	*self->gate = 0;
}

FIXTURE_TEARDOWN_PARENT(pageable)
{
	EXPECT_TRUE(dev_quiet(10));
	EXPECT_TRUE(pinned_becomes(0));
}

/* Work that is queued after this waits for OPEN_GATE(). */
#define CLOSE_GATE() do {							\
	*self->gate = 0;							\
	ASSERT_CU(cuStreamWaitValue32(self->s, (uintptr_t)self->gate, 1, CU_STREAM_WAIT_VALUE_EQ)); \
} while (0)

#define OPEN_GATE()	__atomic_store_n(self->gate, 1, __ATOMIC_RELEASE)
#define DONE()		ASSERT_CU(cuStreamSynchronize(self->s))

static inline CUdeviceptr dp(const void *p)
{
	return (uintptr_t)p;
}

static inline unsigned char *anon(size_t bytes)
{
	unsigned char *p = mmap(NULL, bytes, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		abort();
	return p;
}

static inline void pattern(unsigned char *p, size_t n, unsigned int seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = seed + i * 37 + (i >> 8);
}

static inline bool pattern_is(const unsigned char *p, size_t n, unsigned int seed)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != (unsigned char)(seed + i * 37 + (i >> 8)))
			return false;
	return true;
}

static inline CUresult copy_ordered(CUdeviceptr dst, const void *src, size_t n,
			     CUmemcpySrcAccessOrder order, CUstream s)
{
	CUmemcpyAttributes attr = { .srcAccessOrder = order };

	return cuMemcpyWithAttributesAsync(dst, dp(src), n, &attr, s);
}

static inline int export_fd(CUdeviceptr p, size_t bytes)
{
	int fd = -1;

	return cuMemGetHandleForAddressRange(&fd, p, bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0) ?
		-1 : fd;
}

#endif
