// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of sparse and deferred arrays (cuMemMapArrayAsync): the order of maps and copies, maps beside copies of
 * other streams, mip tails, what keeps memory and what gives it back, and calls that fail.  t_cuda_sparse_model
 * maps random tiles, t_oracle.sh has the answers to single calls, t_sparse tests the kernel's part.
 */
#include <pthread.h>

#include "kselftest_harness.h"
#include "sparse_fixture.h"

/* --- order */

static bool is_held(CUstream s)
{
	return cuStreamQuery(s) == CUDA_ERROR_NOT_READY;
}

/* Hold a stream until the word is 1. */
static CUresult hold(CUstream s, CUdeviceptr word)
{
	CUresult result = cuMemsetD32(word, 0, 1);

	/* A fill of device memory may return before it is done. */
	if (!result)
		result = cuStreamSynchronize(NULL);
	return result ? result : cuStreamWaitValue32(s, word, 1, CU_STREAM_WAIT_VALUE_EQ);
}

static CUresult let_go(CUdeviceptr word)
{
	return cuStreamWriteValue32(CU_STREAM_PER_THREAD, word, 1, 0);
}

/* Copies queued before a map see the old tiles, copies queued later the new ones; in both streams. */
TEST_F(cuda_sparse, order)
{
	const unsigned int w = 128, row = 512, n = 128 * 512;
	unsigned char *p;
	CUarrayMapInfo info, many[3];
	CUdeviceptr word;
	CUevent event;
	handle_t h;
	CUarray a;

	ASSERT_CU(make(&a, 512, 256, 0, U8, 4, SPARSE));
	ASSERT_CU(pool(&h, 2 * MIB));
	ASSERT_CU(cuMemAlloc(&word, 4));
	ASSERT_CU(cuMemAllocHost((void **)&p, 8 * n));
	ASSERT_CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	/* Tile 0 of the memory is 1, tile 1 is 2. */
	for (unsigned int i = 0; i < 2; i++) {
		info = box_of(a, h, i * TILE, 0, 0, 0, w, 128, 1);
		ASSERT_CU(cuMemMapArrayAsync(&info, 1, self->s));
		memset(self->host, i + 1, n);
		ASSERT_CU(write_box(a, self->host, 0, 0, 0, row, 128, 1));
	}
	memset(p, 9, 8 * n);
	ASSERT_CU(hold(self->s, word));
	ASSERT_CU(box_async(a, p, false, 0, 0, 0, row, 128, 1, self->s));		/* 2 */
	info = box_of(a, h, 0, 0, 0, 0, w, 128, 1);
	ASSERT_CU(cuMemMapArrayAsync(&info, 1, self->s));
	ASSERT_CU(box_async(a, p + n, false, 0, 0, 0, row, 128, 1, self->s));		/* 1 */
	info = box_of(a, 0, 0, 0, 0, 0, w, 128, 1);
	ASSERT_CU(cuMemMapArrayAsync(&info, 1, self->s));
	ASSERT_CU(box_async(a, p + 2 * n, false, 0, 0, 0, row, 128, 1, self->s));	/* 0 */
	ASSERT_CU(cuMemsetD8Async((uintptr_t)(p + 6 * n), 4, n, self->s));
	ASSERT_CU(box_async(a, p + 6 * n, true, 0, 0, 0, row, 128, 1, self->s));	/* dropped */
	/* Several entries: the last one counts. */
	many[0] = box_of(a, h, TILE, 0, 0, 0, w, 128, 1);
	many[1] = box_of(a, 0, 0, 0, 0, 0, 512, 256, 1);
	many[2] = box_of(a, h, 0, 0, 0, 0, w, 128, 1);
	ASSERT_CU(cuMemMapArrayAsync(many, 3, self->s));
	ASSERT_CU(box_async(a, p + 3 * n, false, 0, 0, 0, row, 128, 1, self->s));	/* 1 */
	ASSERT_CU(cuEventRecord(event, self->s));
	ASSERT_CU(cuStreamWaitEvent(self->t, event, 0));
	ASSERT_CU(box_async(a, p + 4 * n, false, 0, 0, 0, row, 128, 1, self->t));	/* 1 */
	/* A stream that does not wait sees what is mapped now. */
	EXPECT_TRUE(is_held(self->s));
	ASSERT_CU(read_box(self->host, a, 0, 0, 0, row, 128, 1));
	EXPECT_TRUE(all_are(self->host, 2, n));
	/* The handle is not needed any more, also by maps that have not been done. */
	EXPECT_CU(cuMemRelease(h));
	ASSERT_CU(let_go(word));
	EXPECT_CU(cuStreamSynchronize(self->s));
	EXPECT_CU(cuStreamSynchronize(self->t));
	EXPECT_TRUE(all_are(p, 2, n));
	EXPECT_TRUE(all_are(p + n, 1, n));
	EXPECT_TRUE(all_are(p + 2 * n, 0, n));
	EXPECT_TRUE(all_are(p + 3 * n, 1, n));
	EXPECT_TRUE(all_are(p + 4 * n, 1, n));
	/* Destroying the array waits for the maps that are queued. */
	ASSERT_CU(hold(self->s, word));
	ASSERT_CU(cuMemMapArrayAsync(&info, 1, self->s));
	ASSERT_CU(let_go(word));
	EXPECT_CU(cuArrayDestroy(a));
	EXPECT_CU(cuStreamQuery(self->s));
	EXPECT_CU(cuEventDestroy(event));
	EXPECT_CU(cuMemFreeHost(p));
	EXPECT_CU(cuMemFree(word));
}

/* Tiles of a box take their memory one after the other: columns first, then rows, then slices. */
TEST_F(cuda_sparse, order_in_memory)
{
	for (int solid = 0; solid < 2; solid++) {
		const unsigned int columns = 3, rows = 2, slices = solid ? 2 : 1, tiles = columns * rows * slices;
		CUDA_ARRAY_SPARSE_PROPERTIES props;
		unsigned int w, height, depth, n = 0;
		CUarrayMapInfo info;
		CUarray a, tile;
		handle_t h;

		ASSERT_CU(make(&tile, 16, 16, solid ? 16 : 0, U8, 4, SPARSE));
		ASSERT_CU(cuArrayGetSparseProperties(&props, tile));
		ASSERT_CU(cuArrayDestroy(tile));
		w = props.tileExtent.width;
		height = props.tileExtent.height;
		depth = props.tileExtent.depth;
		ASSERT_EQ(TILE, 4 * w * height * depth);
		ASSERT_CU(make(&tile, w, height, solid ? depth : 0, U8, 4, SPARSE));
		ASSERT_CU(make(&a, columns * w, rows * height, solid ? slices * depth : 0, U8, 4, SPARSE));
		ASSERT_CU(pool(&h, 2 * MIB));
		info = box_of(a, h, TILE, 0, 0, 0, columns * w, rows * height, slices * depth);
		ASSERT_CU(cuMemMapArrayAsync(&info, 1, NULL));
		for (unsigned int z = 0; z < slices; z++)
			for (unsigned int y = 0; y < rows; y++)
				for (unsigned int x = 0; x < columns; x++) {
					memset(self->host, ++n, TILE);
					ASSERT_CU(write_box(a, self->host, 4 * x * w, y * height, z * depth, 4 * w,
							    height, depth));
				}
		for (n = 1; n <= tiles; n++) {
			info = box_of(tile, h, n * TILE, 0, 0, 0, w, height, depth);
			ASSERT_CU(cuMemMapArrayAsync(&info, 1, NULL));
			ASSERT_CU(read_box(self->host, tile, 0, 0, 0, 4 * w, height, depth));
			EXPECT_TRUE(all_are(self->host, n, TILE)) {
				TH_LOG("tile %u is %u", n, self->host[0]);
			}
		}
		EXPECT_CU(cuMemRelease(h));
		EXPECT_CU(cuArrayDestroy(tile));
		EXPECT_CU(cuArrayDestroy(a));
	}
	EXPECT_EQ(self->was, used(0));
}

/* More tiles than a call binds itself. */
TEST_F(cuda_sparse, many)
{
	const size_t w = 128 * 80, bytes = 4 * w;
	CUarrayMapInfo info;
	CUarray a;
	handle_t h;

	ASSERT_CU(make(&a, w, 256, 0, U8, 4, SPARSE));
	ASSERT_CU(pool(&h, 160 * TILE));
	info = box_of(a, h, 0, 0, 0, 0, w, 256, 1);
	ASSERT_CU(cuMemMapArrayAsync(&info, 1, self->s));
	EXPECT_CU(cuMemRelease(h));
	for (size_t i = 0; i < bytes * 3; i++)
		self->host[i] = i / bytes * 3 + i % 251;
	ASSERT_CU(box_async(a, self->host, true, 0, 127, 0, bytes, 3, 1, self->s));
	ASSERT_CU(box_async(a, self->host + 2 * MIB, false, 0, 127, 0, bytes, 3, 1, self->s));
	ASSERT_CU(cuStreamSynchronize(self->s));
	EXPECT_EQ(0, memcmp(self->host, self->host + 2 * MIB, 3 * bytes));
	EXPECT_EQ(160 * (long long)TILE, used(0) - self->was);
	info = box_of(a, 0, 0, 0, 0, 0, w, 256, 1);
	ASSERT_CU(cuMemMapArrayAsync(&info, 1, self->s));
	ASSERT_CU(cuStreamSynchronize(self->s));
	EXPECT_EQ(self->was, used(0));
	EXPECT_CU(cuArrayDestroy(a));
}

/* --- copies beside maps of another stream */

struct mapper {
	CUcontext ctx;
	CUarray a;
	handle_t h;
	bool stop;
	unsigned long long rounds;
	int failed;
};

static void *map_on(void *arg)
{
	struct mapper *w = arg;
	CUarrayMapInfo info;
	CUstream s;

	WORKER_CHECK(!cuCtxSetCurrent(w->ctx));
	WORKER_CHECK(!cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	while (!__atomic_load_n(&w->stop, __ATOMIC_RELAXED)) {
		info = box_of(w->a, w->rounds % 2 ? w->h : 0, 0, 0, 0, 0, 256, 256, 1);
		WORKER_CHECK(!cuMemMapArrayAsync(&info, 1, s));
		/* Queue some behind work, too. */
		if (w->rounds % 8 > 5)
			WORKER_CHECK(!cuLaunchHostFunc(s, (CUhostFn)free, NULL));
		else
			WORKER_CHECK(!cuStreamSynchronize(s));
		w->rounds++;
	}
	WORKER_CHECK(!cuStreamSynchronize(s));
	WORKER_CHECK(!cuStreamDestroy(s));
	return NULL;
}

TEST_F(cuda_sparse, beside_copies)
{
	struct mapper m = { .ctx = self->ctx };
	unsigned int holes = 0, bound = 0;
	CUarrayMapInfo info;
	pthread_t thread;

	ASSERT_CU(make(&m.a, 256, 256, 0, U8, 4, SPARSE));
	ASSERT_CU(pool(&m.h, 2 * MIB));
	info = box_of(m.a, m.h, 0, 0, 0, 0, 256, 256, 1);
	ASSERT_CU(cuMemMapArrayAsync(&info, 1, self->s));
	memset(self->host, 5, 4 * TILE);
	ASSERT_CU(write_box(m.a, self->host, 0, 0, 0, 1024, 256, 1));
	ASSERT_EQ(0, pthread_create(&thread, NULL, map_on, &m));
	for (int i = 0; i < 200; i++) {
		ASSERT_CU(box_async(m.a, self->host, true, 0, 0, 0, 1024, 256, 1, self->s));
		ASSERT_CU(box_async(m.a, self->host + 2 * MIB, false, 0, 0, 0, 1024, 256, 1, self->s));
		ASSERT_CU(cuStreamSynchronize(self->s));
		for (size_t k = 0; k < 4 * TILE; k++) {
			ASSERT_TRUE(self->host[2 * MIB + k] == 5 || !self->host[2 * MIB + k]);
			bound += self->host[2 * MIB + k] == 5;
			holes += !self->host[2 * MIB + k];
		}
	}
	__atomic_store_n(&m.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	EXPECT_EQ(0, m.failed);
	printf("# %llu maps, %u bytes bound, %u in holes\n", m.rounds, bound, holes);
	EXPECT_CU(cuArrayDestroy(m.a));
	EXPECT_CU(cuMemRelease(m.h));
	EXPECT_EQ(self->was, used(0));
}

/* --- lifetime */

/* Mapped memory stays when its handle is released, and is given back with the last tile. */
TEST_F(cuda_sparse, lifetime)
{
	for (int how = 0; how < 5; how++) {
		size_t before, after, total;
		CUcontext ctx = self->ctx;
		CUarrayMapInfo info;
		handle_t h, other;
		CUarray a;

		if (how == 4)
			ASSERT_CU(cuCtxCreate(&ctx, NULL, 0, 0));
		ASSERT_CU(cuMemGetInfo(&before, &total));
		ASSERT_CU(make(&a, 256, 256, 0, U8, 4, SPARSE));
		ASSERT_CU(pool(&h, 4 * MIB));
		info = box_of(a, h, 2 * MIB, 0, 128, 0, 256, 128, 1);
		ASSERT_CU(cuMemMapArrayAsync(&info, 1, NULL));
		memset(self->host, how + 1, TILE);
		ASSERT_CU(write_box(a, self->host, 1, 127, 0, 1022, 3, 1));
		ASSERT_CU(cuMemRelease(h));
		EXPECT_EQ(INVALID, cuMemRelease(h));
		ASSERT_CU(cuMemGetInfo(&after, &total));
		EXPECT_EQ(4 * MIB, before - after);
		memset(self->host, 0xee, TILE);
		ASSERT_CU(read_box(self->host, a, 0, 127, 0, 1024, 3, 1));
		EXPECT_TRUE(all_are(self->host, 0, 1025) && all_are(self->host + 1025, how + 1, 1022) &&
			    all_are(self->host + 2047, 0, 2));
		/* The released handle cannot be mapped again. */
		EXPECT_EQ(INVALID, cuMemMapArrayAsync(&info, 1, NULL));
		switch (how) {
		case 0:
			EXPECT_CU(cuArrayDestroy(a));
			break;
		case 1:		/* tile by tile */
			info = box_of(a, 0, 0, 0, 128, 0, 128, 128, 1);
			EXPECT_CU(cuMemMapArrayAsync(&info, 1, NULL));
			ASSERT_CU(cuMemGetInfo(&after, &total));
			EXPECT_EQ(4 * MIB, before - after);
			info = box_of(a, 0, 0, 128, 0, 0, 128, 256, 1);
			EXPECT_CU(cuMemMapArrayAsync(&info, 1, NULL));
			EXPECT_CU(cuCtxSynchronize());
			break;
		case 2:		/* other memory */
			ASSERT_CU(pool(&other, 2 * MIB));
			info = box_of(a, other, 0, 0, 0, 0, 256, 256, 1);
			EXPECT_CU(cuMemMapArrayAsync(&info, 1, NULL));
			EXPECT_CU(cuCtxSynchronize());
			ASSERT_CU(cuMemGetInfo(&after, &total));
			EXPECT_EQ(2 * MIB, before - after);
			EXPECT_CU(read_box(self->host, a, 0, 0, 0, 1024, 256, 1));
			EXPECT_TRUE(all_are(self->host, 0, 4 * TILE));
			EXPECT_CU(cuArrayDestroy(a));
			EXPECT_CU(cuMemRelease(other));
			break;
		case 3:		/* the handle outlives the array */
			EXPECT_CU(cuArrayDestroy(a));
			EXPECT_EQ(INVALID, cuMemMapArrayAsync(&info, 1, NULL));
			break;
		default:
			EXPECT_CU(cuCtxDestroy(ctx));
			EXPECT_CU(cuCtxSetCurrent(self->ctx));
			EXPECT_EQ(HANDLE, cuArrayDestroy(a));
			break;
		}
		ASSERT_CU(cuMemGetInfo(&after, &total));
		EXPECT_EQ(before, after);
		if (how == 1)
			EXPECT_CU(cuArrayDestroy(a));
	}
	EXPECT_EQ(self->was, used(0));
}

/* A stream that failed before a map: the map is left out, and its handle given back. */
TEST_F(cuda_sparse, failed_stream)
{
	CUdeviceptr word, d;
	CUarrayMapInfo info;
	CUcontext ctx;
	CUstream s;
	handle_t h, gone;
	CUarray a;

	ASSERT_CU(cuCtxCreate(&ctx, NULL, 0, 0));
	ASSERT_CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuMemAlloc(&word, 4));
	ASSERT_CU(make(&a, 256, 256, 0, U8, 4, SPARSE));
	ASSERT_CU(pool(&h, 2 * MIB));
	/* Work on memory that is unmapped before it executes fails. */
	ASSERT_CU(pool(&gone, 2 * MIB));
	ASSERT_CU(cuMemAddressReserve(&d, 2 * MIB, 0, 0, 0));
	ASSERT_CU(cuMemMap(d, 2 * MIB, 0, gone, 0));
	ASSERT_CU(cuMemSetAccess(d, 2 * MIB, &(CUmemAccessDesc){
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE }, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	}, 1));
	ASSERT_CU(hold(s, word));
	ASSERT_CU(cuMemsetD8Async(d, 1, 2 * MIB, s));
	info = box_of(a, h, 0, 0, 0, 0, 256, 256, 1);
	ASSERT_CU(cuMemMapArrayAsync(&info, 1, s));
	EXPECT_CU(cuMemRelease(h));
	EXPECT_CU(cuMemUnmap(d, 2 * MIB));
	EXPECT_CU(cuMemRelease(gone));
	EXPECT_CU(cuMemAddressFree(d, 2 * MIB));
	ASSERT_CU(let_go(word));
	EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(s));
	EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemMapArrayAsync(&info, 1, s));
	EXPECT_CU(cuCtxDestroy(ctx));
	EXPECT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_TRUE(dev_attr_becomes(0, "used", self->was, 5));
}

/* --- tails and deferred arrays */

TEST_F(cuda_sparse, mip_tail)
{
	const CUDA_ARRAY3D_DESCRIPTOR desc = describe(512, 512, 3, U8, 2, LAYERED | SPARSE);
	CUDA_ARRAY_SPARSE_PROPERTIES p;
	CUarrayMapInfo info;
	CUmipmappedArray m;
	CUarray level;
	handle_t h;

	ASSERT_CU(cuMipmappedArrayCreate(&m, &desc, 20));
	ASSERT_CU(cuMipmappedArrayGetSparseProperties(&p, m));
	ASSERT_EQ(2, p.miptailFirstLevel);
	ASSERT_EQ(TILE, p.miptailSize);
	ASSERT_CU(pool(&h, 2 * MIB));
	/* Layers 0 and 2 have a tail. */
	for (unsigned int layer = 0; layer < 3; layer += 2) {
		info = tail_of(NULL, m, h, layer * TILE, 0, TILE);
		info.subresource.miptail.layer = layer;
		ASSERT_CU(cuMemMapArrayAsync(&info, 1, self->s));
	}
	info.subresource.miptail.layer = 3;
	EXPECT_EQ(INVALID, cuMemMapArrayAsync(&info, 1, self->s));
	ASSERT_CU(cuStreamSynchronize(self->s));
	for (unsigned int i = 2; i < 10; i++) {
		size_t side = 512 >> i, n = 2 * side * side;

		ASSERT_CU(cuMipmappedArrayGetLevel(&level, m, i));
		memset(self->host, i, 3 * n);
		EXPECT_CU(write_box(level, self->host, 0, 0, 0, 2 * side, side, 3));
	}
	for (unsigned int i = 2; i < 10; i++) {
		size_t side = 512 >> i, n = 2 * side * side;

		ASSERT_CU(cuMipmappedArrayGetLevel(&level, m, i));
		memset(self->host, 0xee, 3 * n);
		EXPECT_CU(read_box(self->host, level, 0, 0, 0, 2 * side, side, 3));
		EXPECT_TRUE(all_are(self->host, i, n) && all_are(self->host + n, 0, n) &&
			    all_are(self->host + 2 * n, i, n)) {
			TH_LOG("level %u", i);
		}
	}
	/* A tiled level of one layer. */
	info = map_of(NULL, m, h, 2 * TILE);
	info.subresource.sparseLevel.level = 1;
	info.subresource.sparseLevel.layer = 1;
	info.subresource.sparseLevel.extentWidth = 256;
	info.subresource.sparseLevel.extentHeight = 256;
	info.subresource.sparseLevel.extentDepth = 1;
	EXPECT_CU(cuMemMapArrayAsync(&info, 1, self->s));
	EXPECT_CU(cuStreamSynchronize(self->s));
	ASSERT_CU(cuMipmappedArrayGetLevel(&level, m, 1));
	memset(self->host, 6, 3 * 512 * 256);
	EXPECT_CU(write_box(level, self->host, 0, 0, 0, 512, 256, 3));
	EXPECT_CU(read_box(self->host, level, 0, 0, 0, 512, 256, 3));
	EXPECT_TRUE(all_are(self->host, 0, 512 * 256) && all_are(self->host + 512 * 256, 6, 512 * 256) &&
		    all_are(self->host + 2 * 512 * 256, 0, 512 * 256));
	info.subresource.sparseLevel.layer = 3;
	EXPECT_EQ(INVALID, cuMemMapArrayAsync(&info, 1, self->s));
	info.subresource.sparseLevel.layer = 0;
	info.subresource.sparseLevel.level = 2;
	EXPECT_EQ(INVALID, cuMemMapArrayAsync(&info, 1, self->s));
	EXPECT_CU(cuMemRelease(h));
	EXPECT_CU(cuMipmappedArrayDestroy(m));
	EXPECT_EQ(self->was, used(0));
}

/* An array that is smaller than a tile is one tail; a deferred array is mapped as a whole or as a tail. */
TEST_F(cuda_sparse, single_tails)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = describe(200, 100, 0, U8, 4, DEFERRED);
	CUDA_ARRAY_MEMORY_REQUIREMENTS req;
	CUarrayMapInfo info;
	CUmipmappedArray m;
	CUarray a, level;
	handle_t h;

	ASSERT_CU(pool(&h, 2 * MIB));
	/* Sparse, 96 x 256: two tiles of tail, of which one is mapped. */
	ASSERT_CU(make(&a, 96, 256, 0, U8, 4, SPARSE));
	info = tail_of(a, NULL, h, 0, TILE, TILE);
	ASSERT_CU(cuMemMapArrayAsync(&info, 1, self->s));
	ASSERT_CU(cuStreamSynchronize(self->s));
	memset(self->host, 3, 96 * 4 * 256);
	EXPECT_CU(write_box(a, self->host, 0, 0, 0, 384, 256, 1));
	EXPECT_CU(read_box(self->host, a, 0, 0, 0, 384, 256, 1));
	EXPECT_TRUE(all_are(self->host, 0, TILE) && all_are(self->host + TILE, 3, 384 * 256 - TILE));
	info = tail_of(a, NULL, h, 0, 0, 3 * TILE);
	EXPECT_EQ(INVALID, cuMemMapArrayAsync(&info, 1, self->s));
	info = box_of(a, h, 0, 0, 0, 0, 96, 256, 1);
	EXPECT_EQ(INVALID, cuMemMapArrayAsync(&info, 1, self->s));
	EXPECT_CU(cuArrayDestroy(a));
	/* Deferred. */
	for (int box = 0; box < 2; box++) {
		ASSERT_CU(make(&a, 200, 100, 0, U8, 4, DEFERRED));
		ASSERT_CU(cuArrayGetMemoryRequirements(&req, a, 0));
		EXPECT_EQ(2 * TILE, req.size);
		info = box ? box_of(a, h, MIB, 0, 0, 0, 200, 100, 1) : tail_of(a, NULL, h, MIB, 0, req.size);
		ASSERT_CU(cuMemMapArrayAsync(&info, 1, self->s));
		ASSERT_CU(cuStreamSynchronize(self->s));
		memset(self->host, 7 + box, 80000);
		EXPECT_CU(write_box(a, self->host, 0, 0, 0, 800, 100, 1));
		memset(self->host, 0, 80000);
		EXPECT_CU(read_box(self->host, a, 0, 0, 0, 800, 100, 1));
		EXPECT_TRUE(all_are(self->host, 7 + box, 80000));
		info = box_of(a, h, MIB, 0, 0, 0, 199, 100, 1);
		EXPECT_EQ(INVALID, cuMemMapArrayAsync(&info, 1, self->s));
		info = box_of(a, 0, 0, 0, 0, 0, 200, 100, 1);
		EXPECT_CU(cuMemMapArrayAsync(&info, 1, self->s));
		EXPECT_CU(cuStreamSynchronize(self->s));
		EXPECT_CU(read_box(self->host, a, 0, 0, 0, 800, 100, 1));
		EXPECT_TRUE(all_are(self->host, 0, 80000));
		EXPECT_CU(cuArrayDestroy(a));
	}
	/* Deferred, with levels. */
	ASSERT_CU(cuMipmappedArrayCreate(&m, &desc, 4));
	ASSERT_CU(cuMipmappedArrayGetMemoryRequirements(&req, m, 0));
	info = map_of(NULL, m, h, 0);
	info.subresource.sparseLevel.extentWidth = 200;
	info.subresource.sparseLevel.extentHeight = 100;
	info.subresource.sparseLevel.extentDepth = 1;
	EXPECT_EQ(INVALID, cuMemMapArrayAsync(&info, 1, self->s));
	info = tail_of(NULL, m, h, 0, 0, req.size);
	ASSERT_CU(cuMemMapArrayAsync(&info, 1, self->s));
	ASSERT_CU(cuStreamSynchronize(self->s));
	for (unsigned int i = 0; i < 4; i++) {
		ASSERT_CU(cuMipmappedArrayGetLevel(&level, m, i));
		memset(self->host, i + 1, 80000);
		EXPECT_CU(write_box(level, self->host, 0, 0, 0, 800 >> i, 100 >> i, 1));
	}
	for (unsigned int i = 0; i < 4; i++) {
		ASSERT_CU(cuMipmappedArrayGetLevel(&level, m, i));
		EXPECT_CU(read_box(self->host, level, 0, 0, 0, 800 >> i, 100 >> i, 1));
		EXPECT_TRUE(all_are(self->host, i + 1, (800 >> i) * (100 >> i)));
	}
	EXPECT_CU(cuMipmappedArrayDestroy(m));
	EXPECT_CU(cuMemRelease(h));
	EXPECT_EQ(self->was, used(0));
}

/* --- all forms of copies, over borders of tiles */

TEST_F(cuda_sparse, forms)
{
	CUarrayMapInfo info;
	CUDA_MEMCPY3D_BATCH_OP op;
	CUarray a, b, c;
	CUdeviceptr d;
	handle_t h;

	ASSERT_CU(make(&a, 256, 256, 0, U8, 4, SPARSE));
	ASSERT_CU(make(&b, 256, 256, 0, U32, 1, SPARSE));
	ASSERT_CU(make(&c, 256, 256, 0, U32, 1, 0));
	ASSERT_CU(pool(&h, 2 * MIB));
	ASSERT_CU(cuMemAlloc(&d, 4 * TILE));
	for (int i = 0; i < 2; i++) {
		info = box_of(i ? b : a, h, i * 4 * TILE, 0, 0, 0, 256, 256, 1);
		ASSERT_CU(cuMemMapArrayAsync(&info, 1, NULL));
	}
	for (size_t i = 0; i < 4 * TILE; i++)
		self->host[i] = i / 1024 + i % 253;
	/* A row: host, device, array and back. */
	EXPECT_CU(cuMemcpyHtoA(a, 1, self->host, 1023));
	EXPECT_CU(cuMemcpyAtoA(b, 0, a, 1, 1023));
	EXPECT_CU(cuMemcpyAtoD(d, b, 500, 500));
	EXPECT_CU(cuMemcpyDtoA(a, 24, d, 500));
	memset(self->host + 2 * MIB, 0, MIB);
	EXPECT_CU(cuMemcpyAtoH(self->host + 2 * MIB, a, 24, 500));
	EXPECT_EQ(0, memcmp(self->host + 2 * MIB, self->host + 500, 500));
	/* The whole array through all kinds. */
	EXPECT_CU(write_box(a, self->host, 0, 0, 0, 1024, 256, 1));
	memset(&op, 0, sizeof(op));
	op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
	op.src.op.array.array = a;
	op.dst.op.array.array = b;
	op.extent = (CUextent3D){ 256, 256, 1 };
	op.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
	EXPECT_CU(cuMemcpy3DBatchAsync(1, &op, 0, self->s));
	op.src.op.array.array = b;
	op.dst.op.array.array = c;
	EXPECT_CU(cuMemcpy3DBatchAsync(1, &op, 0, self->s));
	EXPECT_CU(cuStreamSynchronize(self->s));
	EXPECT_CU(read_box(self->host + 2 * MIB, c, 0, 0, 0, 1024, 256, 1));
	EXPECT_EQ(0, memcmp(self->host, self->host + 2 * MIB, 4 * TILE));
	/* In a batch from pageable memory, behind work and read in stream order. */
	memset(&op.src, 0, sizeof(op.src));
	op.src.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
	op.src.op.ptr.ptr = (uintptr_t)self->host;
	op.dst.op.array.array = b;
	memset(self->host, 8, 4 * TILE);
	ASSERT_CU(hold(self->s, d));
	EXPECT_CU(cuMemcpy3DBatchAsync(1, &op, 0, self->s));
	memset(self->host, 9, 4 * TILE);
	ASSERT_CU(let_go(d));
	EXPECT_CU(cuStreamSynchronize(self->s));
	EXPECT_CU(read_box(self->host + 2 * MIB, b, 0, 0, 0, 1024, 256, 1));
	EXPECT_TRUE(all_are(self->host + 2 * MIB, 9, 4 * TILE));
	/* Onto itself, at another place. */
	EXPECT_CU(write_box(b, self->host + 3 * MIB, 0, 0, 0, 1024, 256, 1));
	EXPECT_CU(write_box(b, self->host, 0, 0, 0, 100, 1, 1));
	EXPECT_CU(cuMemcpyAtoA(b, 600, b, 0, 100));
	EXPECT_CU(cuMemcpyAtoH(self->host + 2 * MIB, b, 0, 1024));
	EXPECT_TRUE(all_are(self->host + 2 * MIB, 9, 100) && all_are(self->host + 2 * MIB + 600, 9, 100) &&
		    all_are(self->host + 2 * MIB + 100, 0, 500));
	EXPECT_CU(cuArrayDestroy(a));
	EXPECT_CU(cuArrayDestroy(b));
	EXPECT_CU(cuArrayDestroy(c));
	EXPECT_CU(cuMemRelease(h));
	EXPECT_CU(cuMemFree(d));
}

/* --- calls that fail */

/* A wrong entry behind good ones: nothing is mapped. */
TEST_F(cuda_sparse, bad_input)
{
	const unsigned char usage = CU_MEM_CREATE_USAGE_TILE_POOL;
	/* Memory that is not for tiles, of another device, of the host. */
	const CUmemAllocationProp props[] = {
		{ .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } },
		{ .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { CU_MEM_LOCATION_TYPE_DEVICE, 1 },
		  .allocFlags = { .usage = usage } },
		{ .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { CU_MEM_LOCATION_TYPE_HOST, 0 },
		  .allocFlags = { .usage = usage } },
	};
	handle_t wrong[ARRAY_SIZE(props)];
	CUarrayMapInfo good, list[2];
	CUarray a, planar, plain;
	CUdeviceptr word;
	handle_t h;

	ASSERT_CU(make(&a, 300, 200, 0, U8, 4, SPARSE));
	ASSERT_CU(make(&planar, 512, 512, 0, CU_AD_FORMAT_NV12, 3, VIDEO | SPARSE));
	ASSERT_CU(make(&plain, 300, 200, 0, U8, 4, 0));
	ASSERT_CU(pool(&h, 2 * MIB));
	for (unsigned int i = 0; i < ARRAY_SIZE(wrong); i++)
		ASSERT_CU(cuMemCreate(&wrong[i], 2 * MIB, &props[i], 0));
	ASSERT_CU(cuMemAlloc(&word, 4));
	good = box_of(a, h, 0, 0, 0, 0, 384, 256, 1);
	for (int held = 0; held < 2; held++) {
		if (held)
			ASSERT_CU(hold(self->s, word));
		for (unsigned int k = 0; k < 27; k++) {
			CUarrayMapInfo bad = good;
			CUresult want = INVALID;

			switch (k) {
			case 0:	bad.resource.array = plain; break;
			case 1:	bad.resource.array = planar; break;
			case 2:	bad.resource.array = NULL; break;
			case 3:	bad.resource.array = (CUarray)self->host; break;
			case 4:	bad.resourceType = 9; break;
			case 5:	bad.memHandle.memHandle = h + 1; break;
			case 6:	bad.memHandle.memHandle = 0; break;
			case 7:	bad.memOperationType = CU_MEM_OPERATION_TYPE_UNMAP; break;
			case 8:	bad.offset = 2 * MIB; break;
			case 9:	bad.offset = 27 * TILE; break;
			case 10: bad.offset = -TILE; break;
			case 11: bad.subresource.sparseLevel.offsetX = 128; break;
			case 12: bad.subresource.sparseLevel.extentWidth = 299; break;
			case 13: bad.subresource.sparseLevel.extentWidth = 512; break;
			case 14: bad.subresource.sparseLevel.offsetY = 256; break;
			case 15: bad.subresource.sparseLevel.extentHeight = 0; break;
			case 16: bad.subresource.sparseLevel.extentDepth = 2; break;
			case 17: bad.subresource.sparseLevel.extentWidth = ~0u; break;
			case 18: bad.subresource.sparseLevel.offsetX = -128; break;
			case 19: bad.subresource.sparseLevel.offsetZ = 1; break;
			case 20: bad.reserved[1] = 1; break;
			case 21: bad.deviceBitMask = 2; break;
			case 22: bad.subresource.sparseLevel.layer = 1; break;
			case 23:
			case 24:
			case 25:
				bad.memHandle.memHandle = wrong[k - 23];
				break;
			default:
				/* The array's own end is no error. */
				bad.subresource.sparseLevel.extentWidth = 300;
				bad.subresource.sparseLevel.extentHeight = 200;
				bad.resource.array = held ? NULL : plain;
			}
			list[0] = good;
			list[1] = bad;
			EXPECT_EQ(want, cuMemMapArrayAsync(list, 2, self->s)) {
				TH_LOG("case %u", k);
			}
		}
		if (held)
			ASSERT_CU(let_go(word));
		ASSERT_CU(cuStreamSynchronize(self->s));
		memset(self->host, 4, 1200);
		ASSERT_CU(write_box(a, self->host, 0, 0, 0, 1200, 1, 1));
		ASSERT_CU(read_box(self->host, a, 0, 0, 0, 1200, 1, 1));
		EXPECT_TRUE(all_are(self->host, 0, 1200));
	}
	/* Handles of failed calls are not held: the memory goes with the release. */
	EXPECT_CU(cuMemRelease(h));
	for (unsigned int i = 0; i < ARRAY_SIZE(wrong); i++)
		EXPECT_CU(cuMemRelease(wrong[i]));
	EXPECT_CU(cuArrayDestroy(a));
	EXPECT_CU(cuArrayDestroy(planar));
	EXPECT_CU(cuArrayDestroy(plain));
	EXPECT_CU(cuMemFree(word));
	EXPECT_EQ(HANDLE, cuArrayDestroy(a));
	EXPECT_EQ(INVALID, cuMemMapArrayAsync(&good, 1, self->s));
	EXPECT_EQ(self->was, used(0));
}

TEST_HARNESS_MAIN
