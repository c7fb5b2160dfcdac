// SPDX-License-Identifier: GPL-2.0
/*
 * Batches of copies: refused copies and the index that names them, and when sources are read. Single copies with
 * attributes, which follow the same rules.
 * t_cuda_batch_model.c compares random batches with a model.
 */
#include "kselftest_harness.h"
#include "batch_fixture.h"

/* --- when sources are read */

/* Copies from every kind of memory, in a stream that the gate holds. */
TEST_F(batch, orders)
{
	const size_t sizes[] = { 64, INLINE + 3, MIB + 4099 };
	const CUmemcpySrcAccessOrder orders[] = { STREAM_ORDER, DURING_CALL };
	unsigned char *old = malloc(2 * MIB), *new = malloc(2 * MIB);

	memset(old, 1, 2 * MIB);
	memset(new, 2, 2 * MIB);
	for (unsigned int o = 0; o < 2; o++)
		for (enum kind src = 0; src < KINDS; src++)
			for (unsigned int i = 0; i < 3; i++) {
				CUdeviceptr from = regions[src].p;
				CUdeviceptr to = regions[src == DEVICE ? POOL : DEVICE].p;
				CUmemcpyAttributes attr = how(orders[o]);
				size_t n = sizes[i], zero = 0;

				put(from, old, n);
				poke(to, 7, n);
				ASSERT_CU(gate_close(self));
				ASSERT_CU(cuMemcpyBatchAsync(&to, &from, &n, 1, &attr, &zero, 1,
							     self->s));
				EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(self->s));
				EXPECT_TRUE(sees(to, 7, n));
				put(from, new, n);
				ASSERT_CU(gate_open(self));
				EXPECT_TRUE(sees(to, orders[o] == STREAM_ORDER ? 2 : 1, n)) {
					TH_LOG("order %d, kind %d, %zu bytes", orders[o], src, n);
				}
			}
	free(old);
	free(new);
}

/* The same for a single copy with attributes, linear and of a box. */
TEST_F(batch, alone)
{
	const CUmemcpySrcAccessOrder orders[] = { STREAM_ORDER, DURING_CALL };
	const size_t n = 3 * 70 * 100;
	unsigned char *old = malloc(n), *new = malloc(n);

	memset(old, 1, n);
	memset(new, 2, n);
	for (unsigned int i = 0; i < 2 * 2 * KINDS; i++) {
		enum kind src = i / 4;
		CUdeviceptr from = regions[src].p, to = regions[src == DEVICE ? POOL : DEVICE].p;
		CUmemcpyAttributes attr = how(orders[i % 2]);
		CUDA_MEMCPY3D_BATCH_OP op = box(to, from, 100, 70, 3);

		op.srcAccessOrder = orders[i % 2];
		put(from, old, n);
		poke(to, 7, n);
		ASSERT_CU(gate_close(self));
		ASSERT_CU(i / 2 % 2 ? cuMemcpy3DWithAttributesAsync(&op, 0, self->s) :
			  cuMemcpyWithAttributesAsync(to, from, n, &attr, self->s));
		EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(self->s));
		EXPECT_TRUE(sees(to, 7, n));
		put(from, new, n);
		ASSERT_CU(gate_open(self));
		EXPECT_TRUE(sees(to, orders[i % 2] == STREAM_ORDER ? 2 : 1, n)) {
			TH_LOG("case %u, kind %d", i, src);
		}
	}
	free(old);
	free(new);
}

/* A batch keeps its place in its stream, also for streams that wait for events in it. */
TEST_F(batch, between_events)
{
	CUdeviceptr a = regions[DEVICE].p, b = regions[POOL].p, c = regions[PEER].p;
	CUdeviceptr page = regions[PAGEABLE].p;
	CUdeviceptr dsts[] = { b, b + MIB / 2 }, srcs[] = { a, page };
	size_t sizes[] = { 4096, 100001 }, zero = 0, n = 4096;
	CUmemcpyAttributes attr = how(STREAM_ORDER);
	CUevent before, after;

	ASSERT_CU(cuEventCreate(&before, CU_EVENT_DISABLE_TIMING));
	ASSERT_CU(cuEventCreate(&after, CU_EVENT_DISABLE_TIMING));
	memset(cpu(page), 9, 100001);
	/* t waits for the gate, s for t, and then t again for s. */
	ASSERT_CU(cuStreamWaitValue32(self->t, (uintptr_t)self->word, 1, CU_STREAM_WAIT_VALUE_EQ));
	ASSERT_CU(cuMemsetD8Async(a, 5, 4096, self->t));
	ASSERT_CU(cuEventRecord(before, self->t));
	ASSERT_CU(cuStreamWaitEvent(self->s, before, 0));
	ASSERT_CU(cuMemcpyBatchAsync(dsts, srcs, sizes, 2, &attr, &zero, 1, self->s));
	ASSERT_CU(cuEventRecord(after, self->s));
	ASSERT_CU(cuStreamWaitEvent(self->t, after, 0));
	ASSERT_CU(cuMemcpyBatchAsync(&c, &b, &n, 1, &attr, &zero, 1, self->t));
	ASSERT_CU(cuMemsetD8Async(b, 6, 4096, self->t));
	EXPECT_EQ(CUDA_ERROR_NOT_READY, cuEventQuery(after));
	EXPECT_TRUE(sees(b, 0, 4096));
	__atomic_store_n(self->word, 1, __ATOMIC_RELEASE);
	ASSERT_CU(cuStreamSynchronize(self->t));
	EXPECT_CU(cuEventQuery(after));
	EXPECT_TRUE(sees(c, 5, 4096));
	EXPECT_TRUE(sees(b, 6, 4096));
	EXPECT_TRUE(sees(b + MIB / 2, 9, 100001));
	EXPECT_CU(cuEventDestroy(before));
	EXPECT_CU(cuEventDestroy(after));
}

/* A thousand copies in a call, between all kinds of memory. */
TEST_F(batch, a_thousand)
{
	enum { N = 1000 };
	CUdeviceptr dsts[N], srcs[N];
	size_t sizes[N], zero = 0;

	for (enum kind k = 0; k < KINDS; k++)
		memset(regions[k].model, 0, region_size);
	for (unsigned int i = 0; i < N; i++) {
		enum kind from = i % KINDS, to = i / KINDS % KINDS;
		size_t at = i * 97 % (region_size / 2 - 128);

		sizes[i] = 1 + i % 90;
		srcs[i] = regions[from].p + at;
		dsts[i] = regions[to].p + region_size / 2 + i * 100;
		memset(regions[from].model + at, from + 1, sizes[i]);
		memset(regions[to].model + region_size / 2 + i * 100, from + 1, sizes[i]);
	}
	for (enum kind k = 0; k < KINDS; k++)
		put(regions[k].p, regions[k].model, region_size / 2);
	/* Sources overlap: the copies get the bytes that were written last. */
	for (unsigned int i = 0; i < N; i++) {
		enum kind from = i % KINDS, to = i / KINDS % KINDS;
		size_t at = i * 97 % (region_size / 2 - 128);

		memcpy(regions[to].model + region_size / 2 + i * 100, regions[from].model + at,
		       sizes[i]);
	}
	for (int order = STREAM_ORDER; order <= ANY_ORDER; order++) {
		CUmemcpyAttributes attr = how(order);

		for (enum kind k = 0; k < KINDS; k++)
			poke(regions[k].p + region_size / 2, 0, region_size - region_size / 2);
		ASSERT_CU(cuMemcpyBatchAsync(dsts, srcs, sizes, N, &attr, &zero, 1, self->s));
		ASSERT_CU(cuStreamSynchronize(self->s));
		EXPECT_TRUE(all_as_modelled());
	}
}

/* --- what is refused */

TEST_F(batch, refusals)
{
	CUdeviceptr a = regions[DEVICE].p, b = regions[POOL].p;
	CUdeviceptr freed;
	CUdeviceptr dsts[] = { b, b + 1000, b + 2000 }, srcs[] = { a, a + 1000, a + 2000 };
	size_t sizes[] = { 100, 100, 100 }, indices[] = { 0, 1, 2 }, fail;
	CUmemcpyAttributes attrs[3] = { how(STREAM_ORDER), how(DURING_CALL), how(ANY_ORDER) };
	CUstream dead;

	poke(a, 4, 3000);
#define BAD(index, n, nattrs, stream)							\
	do {										\
		fail = 4711;								\
		EXPECT_EQ(INVALID, self->linear(dsts, srcs, sizes, n, attrs, indices, nattrs, \
						&fail, stream));			\
		EXPECT_EQ((size_t)(index), fail);					\
		EXPECT_EQ(INVALID, self->linear(dsts, srcs, sizes, n, attrs, indices, nattrs, \
						NULL, stream));				\
	} while (0)
	BAD(SIZE_MAX, 0, 1, self->s);
	BAD(SIZE_MAX, 3, 0, self->s);
	BAD(SIZE_MAX, 2, 3, self->s);
	BAD(SIZE_MAX, 3, 3, NULL);
	BAD(SIZE_MAX, 3, 3, CU_STREAM_LEGACY);
	indices[0] = 1;
	BAD(SIZE_MAX, 3, 1, self->s);
	indices[0] = 0;
	indices[2] = 1;
	BAD(SIZE_MAX, 3, 3, self->s);
	indices[2] = 3;
	BAD(SIZE_MAX, 3, 3, self->s);
	indices[2] = 2;
	for (int order = 0; order < 6; order += order == 0 ? 4 : 1) {
		attrs[2].srcAccessOrder = order;
		BAD(SIZE_MAX, 3, 3, self->s);
	}
	attrs[2] = how(ANY_ORDER);
	attrs[2].flags = 2;
	BAD(SIZE_MAX, 3, 3, self->s);
	attrs[2].flags = 1;
	attrs[1].dstLocHint.type = 5;
	BAD(SIZE_MAX, 3, 3, self->s);
	attrs[1].dstLocHint.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
	sizes[1] = 0;
	BAD(1, 3, 3, self->s);
	sizes[1] = 100;
	dsts[2] = 0;
	BAD(2, 3, 3, self->s);
	dsts[2] = b + region_size - 99;
	BAD(2, 3, 3, self->s);
	dsts[2] = b + 2000;
	srcs[0] = 0;
	BAD(0, 3, 3, self->s);
	srcs[0] = a + region_size - 99;
	BAD(0, 3, 3, self->s);
	/* A source that begins in registered memory and ends in the pageable memory behind it. */
	srcs[0] = regions[REGISTERED].p + region_size - 99;
	BAD(0, 3, 3, self->s);
	ASSERT_CU(cuMemAlloc(&freed, 4 * MIB));
	ASSERT_CU(cuMemFree(freed));
	srcs[0] = freed;
	BAD(0, 3, 3, self->s);
	srcs[0] = a;
	EXPECT_EQ(INVALID, self->linear(NULL, srcs, sizes, 3, attrs, indices, 3, &fail, self->s));
	EXPECT_EQ(INVALID, self->linear(dsts, NULL, sizes, 3, attrs, indices, 3, &fail, self->s));
	EXPECT_EQ(INVALID, self->linear(dsts, srcs, NULL, 3, attrs, indices, 3, &fail, self->s));
	EXPECT_EQ(INVALID, self->linear(dsts, srcs, sizes, 3, NULL, indices, 3, &fail, self->s));
	EXPECT_EQ(INVALID, self->linear(dsts, srcs, sizes, 3, attrs, NULL, 3, &fail, self->s));
	ASSERT_CU(cuStreamCreate(&dead, 0));
	ASSERT_CU(cuStreamDestroy(dead));
	EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE,
		  cuMemcpyBatchAsync(dsts, srcs, sizes, 3, attrs, indices, 3, dead));
	ASSERT_CU(cuCtxSetCurrent(NULL));
	BAD(SIZE_MAX, 3, 3, self->s);
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	/* The refused calls have copied nothing; a correct one then copies. */
	ASSERT_CU(cuStreamSynchronize(self->s));
	EXPECT_TRUE(sees(b, 0, 3000));
	fail = 4711;
	EXPECT_CU(self->linear(dsts, srcs, sizes, 3, attrs, indices, 3, &fail,
			       CU_STREAM_PER_THREAD));
	EXPECT_CU(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	EXPECT_EQ(4711, fail);
	for (int i = 0; i < 3; i++) {
		EXPECT_TRUE(sees(b + i * 1000, 4, 100));
		EXPECT_TRUE(sees(b + i * 1000 + 100, 0, 900));
	}
}

/* Single copies in the legacy stream come after work of blocking streams, and before later work. */
TEST_F(batch, alone_in_legacy_stream)
{
	CUdeviceptr a = regions[DEVICE].p, b = regions[POOL].p;
	CUmemcpyAttributes attr = how(STREAM_ORDER);
	CUDA_MEMCPY3D_BATCH_OP op = box(b + 1000, a, 100, 10, 1);
	CUstream blocking, zero[] = { NULL, CU_STREAM_LEGACY };

	ASSERT_CU(cuStreamCreate(&blocking, 0));
	for (int i = 0; i < 8; i++) {
		CUstream s = zero[i & 1];

		ASSERT_CU(cuMemsetD8(a, 0, 4096));
		ASSERT_CU(cuMemsetD8(b, 0, 4096));
		/* The last fill of many is what the copies must see. */
		for (int k = 0; k < 50; k++)
			ASSERT_CU(cuMemsetD8Async(a, k, 4096, blocking));
		EXPECT_CU(cuMemcpyWithAttributesAsync(b, a, 1000, &attr, s));
		EXPECT_CU(cuMemcpy3DWithAttributesAsync(&op, 0, s));
		ASSERT_CU(cuMemsetD8Async(a, 77, 4096, blocking));
		ASSERT_CU(cuMemcpyAsync(b + 2000, a, 100, blocking));
		ASSERT_CU(cuStreamSynchronize(blocking));
		EXPECT_TRUE(sees(b, 49, 2000));
		EXPECT_TRUE(sees(b + 2000, 77, 100));
	}
	EXPECT_CU(cuMemcpyWithAttributesAsync_ptsz(b, a, 100, &attr, NULL));
	EXPECT_CU(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	EXPECT_TRUE(sees(b, 77, 100));
	ASSERT_CU(cuStreamDestroy(blocking));
}

TEST_F(batch, refusals_alone)
{
	CUdeviceptr a = regions[DEVICE].p, b = regions[POOL].p;
	CUmemcpyAttributes attr = how(STREAM_ORDER);
	CUDA_MEMCPY3D_BATCH_OP op = box(b, a, 100, 10, 1);
	CUstream dead;

	poke(a, 4, 3000);
	EXPECT_EQ(INVALID, cuMemcpyWithAttributesAsync(b, a, 100, NULL, self->s));
	EXPECT_EQ(INVALID, cuMemcpyWithAttributesAsync(b, a, 0, &attr, self->s));
	EXPECT_EQ(INVALID, cuMemcpyWithAttributesAsync(0, a, 100, &attr, self->s));
	EXPECT_EQ(INVALID, cuMemcpyWithAttributesAsync(b, 0, 100, &attr, self->s));
	EXPECT_EQ(INVALID, cuMemcpyWithAttributesAsync(b + region_size - 99, a, 100, &attr, self->s));
	EXPECT_EQ(INVALID, cuMemcpy3DWithAttributesAsync(NULL, 0, self->s));
	EXPECT_EQ(INVALID, cuMemcpy3DWithAttributesAsync(&op, 1, self->s));
	op.extent.height = 0;
	EXPECT_EQ(INVALID, cuMemcpy3DWithAttributesAsync(&op, 0, self->s));
	op.extent.height = 10;
	for (int order = 0; order < 6; order += order == 0 ? 4 : 1) {
		attr.srcAccessOrder = order;
		op.srcAccessOrder = order;
		EXPECT_EQ(INVALID, cuMemcpyWithAttributesAsync(b, a, 100, &attr, self->s));
		EXPECT_EQ(INVALID, cuMemcpy3DWithAttributesAsync(&op, 0, self->s));
	}
	attr = how(ANY_ORDER);
	attr.flags = 2;
	EXPECT_EQ(INVALID, cuMemcpyWithAttributesAsync(b, a, 100, &attr, self->s));
	attr.flags = CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE;
	attr.srcLocHint.type = CU_MEM_LOCATION_TYPE_INVISIBLE;
	EXPECT_EQ(INVALID, cuMemcpyWithAttributesAsync(b, a, 100, &attr, self->s));
	attr.srcLocHint.type = CU_MEM_LOCATION_TYPE_DEVICE;
	ASSERT_CU(cuStreamCreate(&dead, 0));
	ASSERT_CU(cuStreamDestroy(dead));
	EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuMemcpyWithAttributesAsync(b, a, 100, &attr, dead));
	/* The refused calls have copied nothing; a correct one then copies. */
	ASSERT_CU(cuStreamSynchronize(self->s));
	EXPECT_TRUE(sees(b, 0, 3000));
	EXPECT_CU(cuMemcpyWithAttributesAsync(b, a, 100, &attr, CU_STREAM_PER_THREAD));
	EXPECT_CU(cuMemcpyWithAttributesAsync_ptsz(b + 1000, a, 100, &attr, self->s));
	EXPECT_CU(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	EXPECT_CU(cuStreamSynchronize(self->s));
	EXPECT_TRUE(sees(b, 4, 100));
	EXPECT_TRUE(sees(b + 100, 0, 900));
	EXPECT_TRUE(sees(b + 1000, 4, 100));
}

TEST_F(batch, refusals_of_boxes)
{
	CUdeviceptr a = regions[DEVICE].p, b = regions[PEER].p;
	CUDA_MEMCPY3D_BATCH_OP ops[2], *op = &ops[1];
	size_t fail;

	poke(a, 4, 30000);
	ops[0] = box(b, a, 100, 10, 3);
#define BOX(index, change)								\
	do {										\
		*op = box(b + 10000, a + 10000, 100, 10, 3);				\
		change;									\
		fail = 4711;								\
		EXPECT_EQ(INVALID, self->boxes(2, ops, &fail, 0, self->s)) {		\
			TH_LOG("%s", #change);						\
		}									\
		EXPECT_EQ((size_t)(index), fail);					\
	} while (0)
	BOX(1, op->extent.width = 0);
	BOX(1, op->extent.height = 0);
	BOX(1, op->extent.depth = 0);
	BOX(1, op->extent.depth = 1ULL << 62);
	BOX(1, op->extent.width = ~0ULL);
	BOX(1, op->src.type = 0);
	BOX(1, op->dst.type = 3);
	BOX(1, op->src.op.ptr.ptr = 0);
	BOX(1, op->dst.op.ptr.ptr = 0);
	BOX(1, op->src.op.ptr.rowLength = 99);
	BOX(1, op->dst.op.ptr.layerHeight = 9);
	BOX(1, op->dst.op.ptr.rowLength = 1ULL << 60);
	BOX(1, (op->dst.op.ptr.rowLength = 1ULL << 32, op->dst.op.ptr.layerHeight = 1ULL << 32));
	BOX(1, op->srcAccessOrder = 0);
	BOX(1, op->srcAccessOrder = 4);
	BOX(1, op->flags = 2);
	BOX(1, op->src.op.ptr.locHint.type = 77);
	BOX(1, op->src.op.ptr.ptr = a + region_size - 2999);
	BOX(0, ops[0].extent.width = 0);
	ops[0] = box(b, a, 100, 10, 3);
	*op = box(b + 10000, a + 10000, 100, 10, 3);
	fail = 4711;
	EXPECT_EQ(INVALID, self->boxes(0, ops, &fail, 0, self->s));
	EXPECT_EQ(SIZE_MAX, fail);
	EXPECT_EQ(INVALID, self->boxes(2, NULL, &fail, 0, self->s));
	EXPECT_EQ(INVALID, self->boxes(2, ops, &fail, 1, self->s));
	EXPECT_EQ(INVALID, self->boxes(2, ops, &fail, 0, NULL));
	EXPECT_EQ(INVALID, self->boxes(2, ops, &fail, 0, CU_STREAM_LEGACY));
	ASSERT_CU(cuCtxSynchronize());
	EXPECT_TRUE(sees(b, 0, 30000));
	/* A source that ends exactly at the end of its region. */
	op->src.op.ptr.ptr = a + region_size - 3000;
	EXPECT_CU(cuMemcpy3DBatchAsync(2, ops, 0, self->s));
	EXPECT_CU(cuStreamSynchronize(self->s));
	EXPECT_TRUE(sees(b, 4, 3000));
}

/* Boxes of arrays count in elements, and the access orders hold for them, too. */
TEST_F(batch, arrays)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = {
		.Width = 20, .Height = 10, .Depth = 4, .Format = CU_AD_FORMAT_UNSIGNED_INT16,
		.NumChannels = 2,
	};
	CUDA_ARRAY3D_DESCRIPTOR bytes = {
		.Width = 80, .Height = 10, .Depth = 4, .Format = CU_AD_FORMAT_UNSIGNED_INT8,
		.NumChannels = 1,
	};
	unsigned char *text = malloc(3200), *want = malloc(3200);
	CUDA_MEMCPY3D_BATCH_OP up, across, down, op;
	CUarray a, b, c;
	size_t fail;

	ASSERT_CU(cuArray3DCreate(&a, &desc));
	ASSERT_CU(cuArray3DCreate(&b, &desc));
	ASSERT_CU(cuArray3DCreate(&c, &bytes));
	for (int i = 0; i < 3200; i++)
		text[i] = i * 31 >> 3;
	up = across = down = box(regions[POOL].p, 0, 20, 10, 4);
	memset(&up.dst, 0, sizeof(up.dst));
	up.dst.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
	up.dst.op.array.array = a;
	across.dst = across.src = up.dst;
	across.dst.op.array.array = b;
	down.src = across.dst;
	for (int order = STREAM_ORDER; order <= ANY_ORDER; order++)
		for (enum kind k = 0; k < KINDS; k++) {
			up.src = box(0, regions[k].p, 1, 1, 1).src;
			up.srcAccessOrder = order;
			poke(regions[POOL].p, 0, 3200);
			put(regions[k].p, text, 3200);
			memcpy(want, text, 3200);
			ASSERT_CU(gate_close(self));
			ASSERT_CU(cuMemcpy3DBatchAsync(1, &up, 0, self->s));
			ASSERT_CU(cuMemcpy3DBatchAsync(1, &across, 0, self->s));
			ASSERT_CU(cuMemcpy3DBatchAsync(1, &down, 0, self->s));
			if (order != ANY_ORDER)
				poke(regions[k].p, 0x77, 3200);
			if (order == STREAM_ORDER)
				memset(want, 0x77, 3200);
			ASSERT_CU(gate_open(self));
			EXPECT_EQ(0, memcmp(view(regions[POOL].p, 3200), want, 3200)) {
				TH_LOG("order %d, kind %d", order, k);
			}
		}
	/* A part of an array, from memory whose rows are 16 elements apart. */
	op = up;
	op.src = box(0, regions[PINNED].p, 1, 1, 1).src;
	op.src.op.ptr.rowLength = 16;
	op.src.op.ptr.layerHeight = 5;
	op.extent = (CUextent3D) { 10, 4, 2 };
	op.dst.op.array.offset = (CUoffset3D) { 5, 2, 1 };
	put(regions[PINNED].p, text, 3200);
	for (int z = 0; z < 2; z++)
		for (int y = 0; y < 4; y++)
			memcpy(want + ((z + 1) * 10 + y + 2) * 80 + 20, text + (z * 5 + y) * 64, 40);
	ASSERT_CU(cuMemcpy3DBatchAsync(1, &across, 0, self->s));
	down.src.op.array.array = a;
	ASSERT_CU(cuMemcpy3DBatchAsync(1, &op, 0, self->s));
	ASSERT_CU(cuMemcpy3DBatchAsync(1, &down, 0, self->s));
	ASSERT_CU(cuStreamSynchronize(self->s));
	EXPECT_EQ(0, memcmp(view(regions[POOL].p, 3200), want, 3200));
	/* Refused: beyond the end, no array, elements of another size. */
#define ARRAY(result, change)								\
	do {										\
		op = across;								\
		op.extent = (CUextent3D) { 10, 4, 2 };					\
		change;									\
		fail = 4711;								\
		EXPECT_EQ(result, self->boxes(1, &op, &fail, 0, self->s)) {		\
			TH_LOG("%s", #change);						\
		}									\
		EXPECT_EQ(0, fail);							\
	} while (0)
	ARRAY(INVALID, op.dst.op.array.offset.x = 11);
	ARRAY(INVALID, op.dst.op.array.offset.x = ~0UL / 2);
	ARRAY(INVALID, op.src.op.array.offset.y = 7);
	ARRAY(INVALID, op.src.op.array.offset.z = 3);
	ARRAY(INVALID, op.extent.width = ~0UL / 2);
	ARRAY(INVALID, op.src.op.array.array = NULL);
	ARRAY(INVALID, op.dst.op.array.array = c);
	EXPECT_CU(cuArrayDestroy(c));
	ARRAY(CUDA_ERROR_INVALID_HANDLE, op.dst.op.array.array = c);
	EXPECT_CU(cuArrayDestroy(a));
	EXPECT_CU(cuArrayDestroy(b));
	free(text);
	free(want);
}

/* Overlapping ends behave like memmove(), however early the source is to be read. */
TEST_F(batch, overlapping)
{
	CUdeviceptr p = regions[DEVICE].p;
	unsigned char *want = malloc(MIB);

	for (int up = 0; up < 2; up++)
		for (int order = STREAM_ORDER; order <= ANY_ORDER; order++) {
			CUdeviceptr dst = p + (up ? 1000 : 0), src = p + (up ? 0 : 1000);
			size_t n = MIB - 1000, zero = 0;
			CUmemcpyAttributes attr = how(order);

			for (size_t i = 0; i < MIB; i++)
				want[i] = i * 2654435761ULL >> 13;
			put(p, want, MIB);
			memmove(want + (dst - p), want + (src - p), n);
			ASSERT_CU(cuMemcpyBatchAsync(&dst, &src, &n, 1, &attr, &zero, 1, self->s));
			ASSERT_CU(cuStreamSynchronize(self->s));
			EXPECT_EQ(0, memcmp(want, view(p, MIB), MIB));
		}
	free(want);
}

int main(int argc, char **argv)
{
	return test_harness_run(argc, argv);
}
