/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fixture of the tests of batches of copies: eight kinds of memory, each with a model of its bytes,
 * and a stream that a word of memory holds back.  Include this after kselftest_harness.h.
 */
#ifndef GPUMEM_SELFTESTS_BATCH_FIXTURE_H
#define GPUMEM_SELFTESTS_BATCH_FIXTURE_H

#include "cuda_util.h"

#define STREAM_ORDER	CU_MEMCPY_SRC_ACCESS_ORDER_STREAM
#define DURING_CALL	CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL
#define ANY_ORDER	CU_MEMCPY_SRC_ACCESS_ORDER_ANY

enum kind { DEVICE, EXPORTED, POOL, PEER, PINNED, REGISTERED, PAGEABLE, PAGEABLE_TOO, KINDS };

#define SLOTS	7
#define GAP	64
static const size_t slot_size[SLOTS] = { 64, 777, 4096, 70001, INLINE + 3, MIB + 4099, 3000 };

/* The forms of CUDA 12.8, which return the failing copy's index. */
typedef CUresult batch_fn(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
			  CUmemcpyAttributes *attrs, size_t *indices, size_t attr_count,
			  size_t *fail, CUstream stream);
typedef CUresult batch_3d_fn(size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *fail,
			     unsigned long long flags, CUstream stream);

struct region {
	CUdeviceptr p;
	unsigned char *model;
};

static struct region regions[KINDS];
static size_t slot_at[SLOTS], region_size;

static inline bool cpu_kind(enum kind kind)
{
	return kind >= PINNED;
}

/* Allocate a region of every kind of memory, all zero; @other: the context of PEER. */
static inline CUresult regions_make(CUcontext other)
{
	CUresult result = CUDA_SUCCESS;
	CUstream stream;
	void *host;

	region_size = GAP;
	for (int i = 0; i < SLOTS; i++) {
		slot_at[i] = region_size;
		region_size += slot_size[i] + GAP;
	}
	for (enum kind k = 0; !result && k < KINDS; k++) {
		struct region *r = &regions[k];

		r->model = calloc(1, region_size);
		switch (k) {
		case DEVICE:
			result = cuMemAlloc(&r->p, region_size);
			break;
		case EXPORTED:
			result = cuMemAlloc(&r->p, region_size);
			if (!result)
				result = export(r->p);
			break;
		case POOL:
			result = cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
			if (!result)
				result = cuMemAllocAsync(&r->p, region_size, stream);
			if (!result)
				result = cuStreamSynchronize(stream);
			break;
		case PEER:
			result = cuCtxPushCurrent(other);
			if (!result)
				result = cuMemAlloc(&r->p, region_size);
			cuCtxPopCurrent(NULL);
			break;
		case PINNED:
			result = cuMemHostAlloc(&host, region_size, 0);
			r->p = (uintptr_t)host;
			break;
		default:
			r->p = (uintptr_t)mmap(NULL, region_size, PROT_READ | PROT_WRITE,
					       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			if (k == REGISTERED)
				result = cuMemHostRegister(cpu(r->p), region_size, 0);
			break;
		}
		/* Memory of a pool may hold old bytes. */
		if (!result && !cpu_kind(k))
			result = cuMemsetD8(r->p, 0, region_size);
	}
	return result ? result : cuCtxSynchronize();
}

static inline CUmemcpyAttributes how(CUmemcpySrcAccessOrder order)
{
	return (CUmemcpyAttributes) { .srcAccessOrder = order };
}

static inline CUDA_MEMCPY3D_BATCH_OP box(CUdeviceptr dst, CUdeviceptr src, size_t w, size_t h,
					 size_t d)
{
	return (CUDA_MEMCPY3D_BATCH_OP) {
		.src = { .type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr.ptr = src },
		.dst = { .type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr.ptr = dst },
		.extent = { w, h, d }, .srcAccessOrder = STREAM_ORDER,
	};
}

static inline bool region_is(enum kind k, size_t at, size_t n)
{
	const struct region *r = &regions[k];
	const unsigned char *have = view(r->p + at, n);

	for (size_t i = 0; i < n; i++)
		if (have[i] != r->model[at + i]) {
			printf("# kind %d, byte %zu: %02x, not %02x\n", k, at + i, have[i],
			       r->model[at + i]);
			return false;
		}
	return true;
}

static inline bool all_as_modelled(void)
{
	for (enum kind k = 0; k < KINDS; k++)
		if (!region_is(k, 0, region_size))
			return false;
	return true;
}

FIXTURE(batch)
{
	CUcontext ctx, other;
	CUstream s, t;
	__u32 *word, last;	/* @word: pinned; s waits until it is @last */
	batch_fn *linear;
	batch_3d_fn *boxes;
};

FIXTURE_SETUP(batch)
{
	void *fn;

	ASSERT_TRUE(dev_quiet(10));
	ASSERT_CU(cuda_start(&self->ctx));
	ASSERT_CU(cuDevicePrimaryCtxRetain(&self->other, 1));
	ASSERT_CU(befriend(self->ctx, self->other));
	ASSERT_CU(cuStreamCreate(&self->s, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuStreamCreate(&self->t, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuMemHostAlloc((void **)&self->word, 4096, 0));
	self->word[0] = self->last = 0;
	ASSERT_CU(regions_make(self->other));
	ASSERT_CU(cuGetProcAddress("cuMemcpyBatchAsync", &fn, 12080, 0, NULL));
	self->linear = fn;
	ASSERT_CU(cuGetProcAddress("cuMemcpy3DBatchAsync", &fn, 12080, 0, NULL));
	self->boxes = fn;
	/* Programs of CUDA 13.0 and later get a form without the index. */
	ASSERT_CU(cuGetProcAddress("cuMemcpyBatchAsync", &fn, 13000, 0, NULL));
	EXPECT_NE((void *)self->linear, fn);
	EXPECT_EQ((void *)cuMemcpyBatchAsync, fn);
}

FIXTURE_TEARDOWN_PARENT(batch)
{
	EXPECT_TRUE(dev_quiet(10));
}

/* Later work in s waits until gate_open(). */
static inline CUresult gate_close(FIXTURE_DATA(batch) *self)
{
	return cuStreamWaitValue32(self->s, (uintptr_t)self->word, ++self->last,
				   CU_STREAM_WAIT_VALUE_GEQ);
}

static inline CUresult gate_open(FIXTURE_DATA(batch) *self)
{
	__atomic_store_n(self->word, self->last, __ATOMIC_RELEASE);
	return cuStreamSynchronize(self->s);
}

#endif
