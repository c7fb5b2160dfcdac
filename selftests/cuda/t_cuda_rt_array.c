// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the runtime API: arrays, their copies, batches of copies, and external memory and semaphores.
 *
 * Other programs test the driver's functions that the runtime calls.  This one tests what the runtime adds:
 * descriptions of elements, units of positions, runs of bytes that continue in the next row, and error codes.
 * Contents are compared with a model, an array of bytes in host memory.
 */
#include <driver_functions.h>
#include <fcntl.h>
#include <gpumem.h>

#include "kselftest_harness.h"
#include "cuda_rt_util.h"

#define NO_ARRAY	cudaErrorInvalidResourceHandle
#define NO_FORMAT	cudaErrorInvalidChannelDescriptor
#define NO_DIRECTION	cudaErrorInvalidMemcpyDirection

QUIET_FIXTURE(rt_array)

static struct cudaChannelFormatDesc bits(int x, int y, int z, int w, enum cudaChannelFormatKind f)
{
	return cudaCreateChannelDesc(x, y, z, w, f);
}

/* --- arrays */

/* Every kind of element: its components, the bytes of an element or a block, and the elements of a block's side. */
static const struct kind {
	struct cudaChannelFormatDesc desc;
	CUarray_format format;
	unsigned int channels, bytes, block;
} kinds[] = {
#define KIND(x, y, z, w, kind, format, n, bytes, block)					\
	{ { x, y, z, w, cudaChannelFormatKind ## kind }, CU_AD_FORMAT_ ## format, n, bytes, block }
	KIND(8, 0, 0, 0, Signed, SIGNED_INT8, 1, 1, 1),
	KIND(16, 16, 0, 0, Signed, SIGNED_INT16, 2, 4, 1),
	KIND(32, 32, 32, 32, Signed, SIGNED_INT32, 4, 16, 1),
	KIND(8, 8, 8, 8, Unsigned, UNSIGNED_INT8, 4, 4, 1),
	KIND(16, 0, 0, 0, Unsigned, UNSIGNED_INT16, 1, 2, 1),
	KIND(32, 32, 0, 0, Unsigned, UNSIGNED_INT32, 2, 8, 1),
	KIND(16, 16, 16, 16, Float, HALF, 4, 8, 1),
	KIND(32, 0, 0, 0, Float, FLOAT, 1, 4, 1),
	KIND(10, 10, 10, 2, UnsignedNormalized1010102, UNORM_INT_101010_2, 4, 4, 1),
	KIND(8, 0, 0, 0, UnsignedNormalized8X1, UNORM_INT8X1, 1, 1, 1),
	KIND(16, 16, 16, 16, UnsignedNormalized16X4, UNORM_INT16X4, 4, 8, 1),
	KIND(8, 8, 0, 0, SignedNormalized8X2, SNORM_INT8X2, 2, 2, 1),
	KIND(16, 16, 0, 0, SignedNormalized16X2, SNORM_INT16X2, 2, 4, 1),
	KIND(8, 8, 8, 8, UnsignedBlockCompressed1, BC1_UNORM, 4, 8, 4),
	KIND(8, 8, 8, 8, UnsignedBlockCompressed3SRGB, BC3_UNORM_SRGB, 4, 16, 4),
	KIND(8, 0, 0, 0, SignedBlockCompressed4, BC4_SNORM, 1, 8, 4),
	KIND(8, 8, 0, 0, UnsignedBlockCompressed5, BC5_UNORM, 2, 16, 4),
	KIND(16, 16, 16, 0, UnsignedBlockCompressed6H, BC6H_UF16, 3, 16, 4),
	KIND(8, 8, 8, 8, UnsignedBlockCompressed7SRGB, BC7_UNORM_SRGB, 4, 16, 4),
#undef KIND
};

TEST_F(rt_array, kinds)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct cudaChannelFormatDesc got = { 0 };
		CUDA_ARRAY3D_DESCRIPTOR d;
		struct cudaExtent extent;
		unsigned int flags;
		cudaArray_t array;

		ASSERT_RT(cudaMallocArray(&array, &kinds[i].desc, 30, 20, cudaArrayDefault));
		EXPECT_CU(cuArray3DGetDescriptor(&d, (CUarray)array));
		EXPECT_EQ(kinds[i].format, d.Format);
		EXPECT_EQ(kinds[i].channels, d.NumChannels);
		EXPECT_RT(cudaGetChannelDesc(&got, array));
		EXPECT_EQ(0, memcmp(&got, &kinds[i].desc, sizeof(got)));
		memset(&got, 0, sizeof(got));
		EXPECT_RT(cudaArrayGetInfo(&got, &extent, &flags, array));
		EXPECT_EQ(0, memcmp(&got, &kinds[i].desc, sizeof(got)));
		EXPECT_EQ(30, extent.width);
		EXPECT_EQ(20, extent.height);
		EXPECT_EQ(0, extent.depth);
		EXPECT_EQ(0, flags);
		EXPECT_RT(cudaFreeArray(array));
	}
}

/* Elements that no array can have. */
TEST_F(rt_array, no_kind)
{
	const struct cudaChannelFormatDesc wrong[] = {
		bits(8, 8, 8, 0, cudaChannelFormatKindUnsigned), bits(8, 16, 0, 0,
				cudaChannelFormatKindUnsigned),
		bits(0, 8, 0, 0, cudaChannelFormatKindSigned), bits(8, 0, 0, 0, cudaChannelFormatKindFloat),
		bits(64, 0, 0, 0, cudaChannelFormatKindFloat), bits(0, 0, 0, 0, cudaChannelFormatKindSigned),
		bits(-8, 0, 0, 0, cudaChannelFormatKindSigned), bits(8, 0, 0, 0, cudaChannelFormatKindNone),
		bits(8, 8, 8, 8, cudaChannelFormatKindUnsignedNormalized8X2),
		bits(8, 0, 0, 0, cudaChannelFormatKindUnsignedBlockCompressed1),
		bits(8, 0, 0, 0, (enum cudaChannelFormatKind)32), bits(8, 0, 0, 0,
				(enum cudaChannelFormatKind)-1),
	};
	cudaMipmappedArray_t mipmap;
	cudaArray_t array;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		array = (void *)&array;
		mipmap = (void *)&array;
		EXPECT_FAILS(NO_FORMAT, cudaMallocArray(&array, &wrong[i], 8, 8, 0));
		EXPECT_EQ(NULL, array);
		EXPECT_FAILS(NO_FORMAT, cudaMalloc3DArray(&array, &wrong[i], make_cudaExtent(8, 8, 8), 0));
		EXPECT_FAILS(NO_FORMAT, cudaMallocMipmappedArray(&mipmap, &wrong[i], make_cudaExtent(8, 8, 0),
				1, 0));
		EXPECT_EQ(NULL, mipmap);
		/* A width of 0 comes first. */
		EXPECT_FAILS(BAD, cudaMallocArray(&array, &wrong[i], 0, 8, 0));
	}
}

TEST_F(rt_array, wrong_calls)
{
	const struct cudaChannelFormatDesc d = bits(8, 8, 8, 8, cudaChannelFormatKindUnsigned);
	struct cudaArrayMemoryRequirements req;
	struct cudaArraySparseProperties sparse;
	struct cudaChannelFormatDesc got;
	cudaArray_t array, other = (void *)&d;
	cudaMipmappedArray_t mipmap;
	struct cudaExtent extent;

	EXPECT_FAILS(BAD, cudaMallocArray(NULL, &d, 8, 8, 0));
	EXPECT_FAILS(BAD, cudaMallocArray(&other, NULL, 8, 8, 0));
	EXPECT_EQ((void *)&d, other);
	EXPECT_FAILS(BAD, cudaMallocArray(&other, &d, 8, 8, 0x200));
	EXPECT_EQ(NULL, other);
	EXPECT_FAILS(BAD, cudaMallocArray(&other, &d, ~0UL, 8, 0));
	EXPECT_FAILS(BAD, cudaMallocArray(&other, &d, (1UL << 32) + 8, 8, 0));
	EXPECT_FAILS(BAD, cudaMalloc3DArray(&other, &d, make_cudaExtent(8, 0, 8), 0));
	EXPECT_RT(cudaFreeArray(NULL));
	EXPECT_RT(cudaFreeMipmappedArray(NULL));
	ASSERT_RT(cudaMallocArray(&array, &d, 8, 8, 0));
	EXPECT_FAILS(BAD, cudaGetChannelDesc(NULL, array));
	EXPECT_FAILS(NO_ARRAY, cudaGetChannelDesc(&got, NULL));
	EXPECT_FAILS(NO_ARRAY, cudaArrayGetInfo(NULL, NULL, NULL, NULL));
	EXPECT_RT(cudaArrayGetInfo(NULL, NULL, NULL, array));
	EXPECT_RT(cudaArrayGetInfo(NULL, &extent, NULL, array));
	EXPECT_FAILS(BAD, cudaArrayGetPlane(&other, array, 0));
	EXPECT_FAILS(BAD, cudaArrayGetPlane(NULL, array, 0));
	EXPECT_FAILS(NO_ARRAY, cudaArrayGetPlane(&other, NULL, 0));
	EXPECT_FAILS(BAD, cudaArrayGetMemoryRequirements(&req, array, 0));
	EXPECT_FAILS(BAD, cudaArrayGetMemoryRequirements(&req, NULL, 0));
	EXPECT_FAILS(BAD, cudaArrayGetSparseProperties(&sparse, array));
	EXPECT_FAILS(BAD, cudaArrayGetSparseProperties(NULL, array));
	EXPECT_RT(cudaFreeArray(array));
	EXPECT_FAILS(NO_ARRAY, cudaFreeArray(array));
	EXPECT_FAILS(NO_ARRAY, cudaGetChannelDesc(&got, array));

	EXPECT_FAILS(BAD, cudaMallocMipmappedArray(NULL, &d, make_cudaExtent(8, 8, 0), 1, 0));
	EXPECT_FAILS(BAD, cudaMallocMipmappedArray(&mipmap, NULL, make_cudaExtent(8, 8, 0), 1, 0));
	ASSERT_RT(cudaMallocMipmappedArray(&mipmap, &d, make_cudaExtent(64, 32, 0), 3, 0));
	EXPECT_FAILS(BAD, cudaGetMipmappedArrayLevel(&other, mipmap, 3));
	EXPECT_FAILS(BAD, cudaGetMipmappedArrayLevel(NULL, mipmap, 0));
	EXPECT_FAILS(NO_ARRAY, cudaGetMipmappedArrayLevel(&other, NULL, 0));
	EXPECT_FAILS(BAD, cudaMipmappedArrayGetSparseProperties(&sparse, mipmap));
	EXPECT_FAILS(BAD, cudaMipmappedArrayGetMemoryRequirements(&req, mipmap, 0));
	EXPECT_RT(cudaFreeMipmappedArray(mipmap));
	EXPECT_FAILS(NO_ARRAY, cudaFreeMipmappedArray(mipmap));
}

/* Planes, levels, and arrays without memory. */
TEST_F(rt_array, parts)
{
	struct cudaChannelFormatDesc d = bits(8, 8, 8, 0, cudaChannelFormatKindNV12), got;
	struct cudaArrayMemoryRequirements req = { 0 };
	struct cudaArraySparseProperties sparse = { 0 };
	cudaMipmappedArray_t mipmap;
	cudaArray_t array, part;
	struct cudaExtent extent;

	ASSERT_RT(cudaMallocArray(&array, &d, 64, 32, CUDA_ARRAY3D_VIDEO_ENCODE_DECODE));
	EXPECT_RT(cudaGetChannelDesc(&got, array));
	EXPECT_EQ(0, memcmp(&d, &got, sizeof(d)));
	ASSERT_RT(cudaArrayGetPlane(&part, array, 1));
	EXPECT_RT(cudaArrayGetInfo(&got, &extent, NULL, part));
	EXPECT_EQ(32, extent.width);
	EXPECT_EQ(16, extent.height);
	EXPECT_EQ(8, got.y);
	EXPECT_EQ(0, got.z);
	EXPECT_FAILS(BAD, cudaArrayGetPlane(&part, array, 2));
	EXPECT_RT(cudaFreeArray(array));

	d = bits(8, 8, 8, 8, cudaChannelFormatKindUnsigned);
	ASSERT_RT(cudaMallocMipmappedArray(&mipmap, &d, make_cudaExtent(64, 32, 0), 3, 0));
	ASSERT_RT(cudaGetMipmappedArrayLevel(&part, mipmap, 2));
	EXPECT_RT(cudaArrayGetInfo(NULL, &extent, NULL, part));
	EXPECT_EQ(16, extent.width);
	EXPECT_EQ(8, extent.height);
	EXPECT_RT(cudaFreeArray(part));		/* no effect: the level lives as long as the whole */
	EXPECT_RT(cudaArrayGetInfo(NULL, &extent, NULL, part));
	EXPECT_RT(cudaFreeMipmappedArray(mipmap));

	ASSERT_RT(cudaMallocArray(&array, &d, 512, 512, cudaArrayDeferredMapping));
	EXPECT_RT(cudaArrayGetMemoryRequirements(&req, array, 0));
	EXPECT_EQ(512 * 512 * 4, req.size);
	EXPECT_RT(cudaArrayGetMemoryRequirements(&req, array, 99));
	EXPECT_EQ(65536, req.alignment);
	EXPECT_RT(cudaFreeArray(array));
	ASSERT_RT(cudaMallocMipmappedArray(&mipmap, &d, make_cudaExtent(2048, 2048, 0), 12, cudaArraySparse));
	EXPECT_RT(cudaMipmappedArrayGetSparseProperties(&sparse, mipmap));
	EXPECT_EQ(128, sparse.tileExtent.width);
	EXPECT_EQ(5, sparse.miptailFirstLevel);
	EXPECT_RT(cudaFreeMipmappedArray(mipmap));
}

/* --- copies of rows, against a model */

#define ROW	160	/* bytes in a row of the arrays */
#define ROWS	20
#define BYTES	(ROW * ROWS)

FIXTURE(rt_rows)
{
	cudaArray_t array, other;	/* 40 by 20 elements of 4 bytes, and 20 by 20 elements of 16 */
	unsigned char model[BYTES], second[2 * BYTES], host[8192];
	void *device;
	cudaStream_t stream;
};

FIXTURE_SETUP(rt_rows)
{
	const struct cudaChannelFormatDesc d = bits(8, 8, 8, 8, cudaChannelFormatKindUnsigned);
	const struct cudaChannelFormatDesc e = bits(32, 32, 32, 32, cudaChannelFormatKindFloat);

	ASSERT_TRUE(dev_quiet(10));
	ASSERT_RT(cudaMallocArray(&self->array, &d, ROW / 4, ROWS, 0));
	ASSERT_RT(cudaMallocArray(&self->other, &e, ROW / 8, ROWS, 0));
	pattern(self->model, sizeof(self->model), 1);
	pattern(self->second, sizeof(self->second), 77);
	pattern(self->host, sizeof(self->host), 5);
	ASSERT_RT(cudaMemcpy2DToArray(self->array, 0, 0, self->model, ROW, ROW, ROWS, cudaMemcpyHostToDevice));
	ASSERT_RT(cudaMemcpy2DToArray(self->other, 0, 0, self->second, 2 * ROW, 2 * ROW, ROWS,
			cudaMemcpyDefault));
	ASSERT_RT(cudaMalloc(&self->device, sizeof(self->host)));
	ASSERT_RT(cudaMemcpy(self->device, self->host, sizeof(self->host), cudaMemcpyHostToDevice));
	ASSERT_RT(cudaStreamCreate(&self->stream));
}

FIXTURE_TEARDOWN_PARENT(rt_rows)
{
	EXPECT_TRUE(dev_quiet(10));
}

/* Whether the array holds what the model does. */
static bool holds(const FIXTURE_DATA(rt_rows) *self)
{
	unsigned char got[BYTES];

	return !cudaDeviceSynchronize() &&
	       !cudaMemcpy2DFromArray(got, ROW, self->array, 0, 0, ROW, ROWS, cudaMemcpyDeviceToHost) &&
	       !memcmp(got, self->model, BYTES);
}

static void rows(unsigned char *dst, size_t dst_pitch, const unsigned char *src, size_t src_pitch, size_t width,
		 size_t height)
{
	for (size_t y = 0; y < height; y++)
		memcpy(dst + y * dst_pitch, src + y * src_pitch, width);
}

TEST_F(rt_rows, two_dimensions)
{
	unsigned char got[64 * 8] = { 0 }, want[64 * 8] = { 0 };

	/* Neither positions nor widths need be multiples of an element. */
	EXPECT_RT(cudaMemcpy2DToArray(self->array, 6, 3, self->host, 64, 41, 5, cudaMemcpyHostToDevice));
	rows(self->model + 3 * ROW + 6, ROW, self->host, 64, 41, 5);
	EXPECT_TRUE(holds(self));
	EXPECT_RT(cudaMemcpy2DToArray(self->array, 120, 15, self->device, 64, 40, 5, cudaMemcpyDefault));
	rows(self->model + 15 * ROW + 120, ROW, self->host, 64, 40, 5);
	EXPECT_TRUE(holds(self));
	EXPECT_RT(cudaMemcpy2DToArrayAsync(self->array, 0, 9, self->host + 7, 64, 40, 2, cudaMemcpyHostToDevice,
			self->stream));
	rows(self->model + 9 * ROW, ROW, self->host + 7, 64, 40, 2);
	EXPECT_TRUE(holds(self));
	EXPECT_RT(cudaMemcpy2DFromArray(got, 64, self->array, 6, 3, 41, 5, cudaMemcpyDeviceToHost));
	rows(want, 64, self->model + 3 * ROW + 6, ROW, 41, 5);
	EXPECT_EQ(0, memcmp(got, want, sizeof(got)));
	EXPECT_RT(cudaMemcpy2DFromArrayAsync(got, 64, self->array, 8, 4, 48, 8, cudaMemcpyDefault,
			self->stream));
	EXPECT_RT(cudaStreamSynchronize(self->stream));
	rows(want, 64, self->model + 4 * ROW + 8, ROW, 48, 8);
	EXPECT_EQ(0, memcmp(got, want, sizeof(got)));
	/* Arrays of different elements. */
	EXPECT_RT(cudaMemcpy2DArrayToArray(self->array, 12, 2, self->other, 20, 1, 44, 7,
			cudaMemcpyDeviceToDevice));
	rows(self->model + 2 * ROW + 12, ROW, self->second + 2 * ROW + 20, 2 * ROW, 44, 7);
	EXPECT_TRUE(holds(self));
	/* The forms with the thread's own stream. */
	EXPECT_RT(cudaMemcpy2DToArray_ptds(self->array, 0, 0, self->host, 64, 40, 2, cudaMemcpyHostToDevice));
	rows(self->model, ROW, self->host, 64, 40, 2);
	EXPECT_TRUE(holds(self));
}

TEST_F(rt_rows, refusals)
{
	cudaArray_t a = self->array;
	unsigned char *h = self->host;

	EXPECT_RT(cudaMemcpy2DToArray(NULL, 0, 0, NULL, 0, 0, 5, (enum cudaMemcpyKind)9));
	EXPECT_RT(cudaMemcpy2DFromArray(NULL, 0, NULL, 0, 0, 40, 0, (enum cudaMemcpyKind)9));
	EXPECT_FAILS(cudaErrorInvalidPitchValue, cudaMemcpy2DToArray(NULL, 0, 0, h, 39, 40, 2,
			(enum cudaMemcpyKind)9));
	EXPECT_FAILS(NO_DIRECTION, cudaMemcpy2DToArray(NULL, 0, 0, h, 39, 40, 1, (enum cudaMemcpyKind)9));
	EXPECT_FAILS(NO_DIRECTION, cudaMemcpy2DToArray(a, 0, 0, h, 64, 40, 5, cudaMemcpyDeviceToHost));
	EXPECT_FAILS(NO_DIRECTION, cudaMemcpy2DFromArray(h, 64, a, 0, 0, 40, 5, cudaMemcpyHostToDevice));
	EXPECT_FAILS(NO_DIRECTION, cudaMemcpy2DArrayToArray(a, 0, 0, a, 0, 0, 40, 5, cudaMemcpyHostToHost));
	EXPECT_FAILS(NO_ARRAY, cudaMemcpy2DToArray(NULL, 0, 0, h, 64, 40, 5, cudaMemcpyHostToDevice));
	EXPECT_FAILS(NO_ARRAY, cudaMemcpy2DFromArray(h, 64, NULL, 0, 0, 40, 5, cudaMemcpyDeviceToHost));
	EXPECT_FAILS(NO_ARRAY, cudaMemcpy2DArrayToArray(a, 0, 0, NULL, 0, 0, 40, 5, cudaMemcpyDefault));
	EXPECT_FAILS(BAD, cudaMemcpy2DArrayToArray(NULL, 0, 0, a, 0, 0, 40, 5, cudaMemcpyDefault));
	EXPECT_FAILS(BAD, cudaMemcpy2DToArray(a, 0, 0, h, 39, 40, 1, cudaMemcpyHostToDevice));
	EXPECT_FAILS(BAD, cudaMemcpy2DToArray(a, 124, 0, h, 64, 40, 1, cudaMemcpyHostToDevice));
	EXPECT_FAILS(BAD, cudaMemcpy2DToArray(a, 0, 19, h, 64, 40, 2, cudaMemcpyHostToDevice));
	EXPECT_FAILS(BAD, cudaMemcpy2DToArray(a, ~0UL, 0, h, 64, 40, 1, cudaMemcpyHostToDevice));
	EXPECT_FAILS(BAD, cudaMemcpy2DToArray(a, 0, 0, NULL, 64, 40, 1, cudaMemcpyHostToDevice));
	EXPECT_FAILS(BAD, cudaMemcpy2DToArray(a, 0, 0, h, 64, 40, 1, cudaMemcpyDeviceToDevice));
	EXPECT_FAILS(NO_ARRAY, cudaMemcpyToArray(NULL, 0, 0, h, 4, cudaMemcpyHostToDevice));
	EXPECT_FAILS(NO_ARRAY, cudaMemcpyFromArray(h, NULL, 0, 0, 4, cudaMemcpyDeviceToHost));
	EXPECT_FAILS(NO_ARRAY, cudaMemcpyArrayToArray(NULL, 0, 0, a, 0, 0, 4, cudaMemcpyDefault));
	EXPECT_FAILS(NO_DIRECTION, cudaMemcpyToArray(a, 0, 0, h, 4, cudaMemcpyHostToHost));
	EXPECT_FAILS(NO_DIRECTION, cudaMemcpyArrayToArray(a, 0, 0, a, 0, 0, 4, (enum cudaMemcpyKind)9));
	EXPECT_FAILS(BAD, cudaMemcpyToArray(a, ROW + 1, 0, h, 4, cudaMemcpyHostToDevice));
	EXPECT_FAILS(BAD, cudaMemcpyToArray(a, 0, ROWS, h, 4, cudaMemcpyHostToDevice));
	EXPECT_FAILS(BAD, cudaMemcpyFromArray(h, a, ~0UL, ~0UL, 4, cudaMemcpyDeviceToHost));
	EXPECT_FAILS(BAD, cudaMemcpyArrayToArray(a, 0, 0, a, 0, 18, 2 * ROW + 1, cudaMemcpyDefault));
	EXPECT_FAILS(BAD, cudaMemcpyArrayToArray(a, 0, 0, a, 0, ~0UL, 4, cudaMemcpyDefault));
	EXPECT_FAILS(BAD, cudaMemcpyArrayToArray(a, 0, 0, a, 0, 0, ~0UL, cudaMemcpyDefault));
	EXPECT_FAILS(BAD, cudaMemcpyArrayToArray(a, 0, ~0UL, a, 0, 0, 4, cudaMemcpyDefault));
	EXPECT_FAILS(BAD, cudaMemcpyArrayToArray(a, ROW + 4, 0, a, 0, 0, 4, cudaMemcpyDefault));
	/* CUDA's runtime accepts a kind that does not exist, and does nothing. */
	EXPECT_RT(cudaMemcpyToArray(a, 0, 0, h, 4, (enum cudaMemcpyKind)9));
	EXPECT_TRUE(holds(self));
	/* A destroyed array. */
	EXPECT_RT(cudaFreeArray(self->other));
	EXPECT_FAILS(NO_ARRAY, cudaMemcpy2DToArray(self->other, 0, 0, h, 64, 40, 1, cudaMemcpyHostToDevice));
	EXPECT_FAILS(NO_ARRAY, cudaMemcpyFromArray(h, self->other, 0, 0, 4, cudaMemcpyDeviceToHost));
}

/* Runs of bytes at random places, that end in the same row, in a later row, or at the end of one. */
TEST_F(rt_rows, runs)
{
	unsigned char got[BYTES];
	unsigned int seed = 3;

	for (int i = 0; i < 200; i++) {
		size_t at = rand_r(&seed) % BYTES, n = rand_r(&seed) % (BYTES - at) + 1;
		size_t x = at % ROW, y = at / ROW, from = rand_r(&seed) % (2 * BYTES - n + 1);

		if (i % 5 == 0 && !x && y) {	/* the end of the row before */
			x = ROW;
			y--;
		}
		switch (i % 4) {
		case 0:
			ASSERT_RT(cudaMemcpyToArray(self->array, x, y, self->host + i, n,
					cudaMemcpyHostToDevice));
			memcpy(self->model + at, self->host + i, n);
			break;
		case 1:
			ASSERT_RT(cudaMemcpyToArrayAsync(self->array, x, y, (char *)self->device + i, n,
					cudaMemcpyDefault, self->stream));
			memcpy(self->model + at, self->host + i, n);
			break;
		case 2:
			ASSERT_RT(cudaMemcpyArrayToArray(self->array, x, y, self->other, from % (2 * ROW),
					from / (2 * ROW), n, cudaMemcpyDeviceToDevice));
			memcpy(self->model + at, self->second + from, n);
			break;
		default:
			memset(got, 0x3c, sizeof(got));
			ASSERT_RT(cudaMemcpyFromArray(got, self->array, x, y, n, cudaMemcpyDeviceToHost));
			ASSERT_EQ(0, memcmp(got, self->model + at, n));
			ASSERT_TRUE(n == BYTES || got[n] == 0x3c);
		}
		ASSERT_TRUE(holds(self)) TH_LOG("run %d: %zu bytes at %zu", i, n, at);
	}
	/* Within one array whole rows are one copy. */
	ASSERT_RT(cudaMemcpyArrayToArray(self->array, 0, 0, self->array, 0, 10, 10 * ROW, cudaMemcpyDefault));
	memcpy(self->model, self->model + 10 * ROW, 10 * ROW);
	EXPECT_TRUE(holds(self));
}

/* The copies before the one that does not fit have happened, as in CUDA's runtime. */
TEST_F(rt_rows, run_past_the_end)
{
	EXPECT_FAILS(BAD, cudaMemcpyToArray(self->array, 8, 18, self->host, 500, cudaMemcpyHostToDevice));
	memcpy(self->model + 18 * ROW + 8, self->host, ROW - 8);
	EXPECT_TRUE(holds(self));
	EXPECT_FAILS(BAD, cudaMemcpyArrayToArray(self->array, 4, 18, self->other, 0, 0, 500,
			cudaMemcpyDefault));
	memcpy(self->model + 18 * ROW + 4, self->second, ROW - 4);
	EXPECT_TRUE(holds(self));
	EXPECT_FAILS(BAD, cudaMemcpyArrayToArray(self->array, 0, 0, self->other, 0, 19, 2 * ROW + 4,
			cudaMemcpyDefault));
	EXPECT_TRUE(holds(self));
}

/* --- boxes */

static struct cudaMemcpy3DParms box_to(cudaArray_t array, void *src, size_t pitch, size_t height)
{
	struct cudaMemcpy3DParms p = {
		.dstArray = array, .srcPtr = make_cudaPitchedPtr(src, pitch, pitch, height),
		.extent = make_cudaExtent(10, 5, 1), .kind = cudaMemcpyHostToDevice,
	};

	return p;
}

TEST_F(rt_rows, boxes)
{
	struct cudaMemcpy3DParms p = box_to(self->array, self->host, 64, 8);
	struct cudaMemcpy3DPeerParms peer = { 0 };
	cudaArray_t array = self->array;

	/* Elements in the array, bytes at the address. */
	p.dstPos = make_cudaPos(2, 3, 0);
	p.srcPos = make_cudaPos(3, 1, 0);
	EXPECT_RT(cudaMemcpy3D(&p));
	rows(self->model + 3 * ROW + 8, ROW, self->host + 64 + 3, 64, 40, 5);
	EXPECT_TRUE(holds(self));
	peer.dstArray = array;
	peer.srcPtr = make_cudaPitchedPtr(self->device, 64, 64, 8);
	peer.extent = p.extent;
	peer.dstPos.x = 30;
	EXPECT_RT(cudaMemcpy3DPeer(&peer));
	rows(self->model + 120, ROW, self->host, 64, 40, 5);
	EXPECT_TRUE(holds(self));
	peer.srcPtr.ptr = self->host;
	EXPECT_FAILS(BAD, cudaMemcpy3DPeer(&peer));
	peer.dstDevice = 99;
	EXPECT_FAILS(cudaErrorInvalidDevice, cudaMemcpy3DPeer(&peer));

	p = box_to(array, self->host, 64, 8);
	p.kind = (enum cudaMemcpyKind)9;
	EXPECT_FAILS(NO_DIRECTION, cudaMemcpy3D(&p));
	p.extent.width = 0;
	EXPECT_RT(cudaMemcpy3D(&p));
	EXPECT_FAILS(BAD, cudaMemcpy3D(NULL));
	p = box_to(array, self->host, 9, 8);
	EXPECT_FAILS(cudaErrorInvalidPitchValue, cudaMemcpy3D(&p));
	p.srcPtr.pitch = 39;
	EXPECT_FAILS(BAD, cudaMemcpy3D(&p));
	p = box_to(array, self->host, 64, 8);
	p.dstPos.x = 31;
	EXPECT_FAILS(BAD, cudaMemcpy3D(&p));
	p.dstPos.x = ~0UL / 2;
	EXPECT_FAILS(BAD, cudaMemcpy3D(&p));
	p = box_to(array, self->host, 64, 8);
	p.extent.width = ~0UL / 2;
	p.srcPtr.pitch = ~0UL;
	EXPECT_FAILS(BAD, cudaMemcpy3D(&p));
	p = box_to(array, self->host, 64, 8);
	p.srcArray = array;
	EXPECT_FAILS(BAD, cudaMemcpy3D(&p));
	p.srcPtr.ptr = NULL;
	EXPECT_FAILS(BAD, cudaMemcpy3D(&p));		/* an array is not the host */
	p.kind = cudaMemcpyDeviceToDevice;
	p.srcArray = self->other;
	EXPECT_FAILS(BAD, cudaMemcpy3D(&p));		/* elements of another size */
	EXPECT_TRUE(holds(self));
	EXPECT_RT(cudaFreeArray(self->other));
	EXPECT_FAILS(NO_ARRAY, cudaMemcpy3D(&p));
}

#define DEEP_X	24
#define DEEP_Y	10
#define DEEP_Z	6

/* Boxes of random places and sizes, from and to a 3D array, against a model. */
TEST_F(rt_array, boxes_3d)
{
	static unsigned char model[DEEP_Z][DEEP_Y][DEEP_X][4], host[DEEP_Z][DEEP_Y][DEEP_X][4],
			got[DEEP_Z][DEEP_Y][DEEP_X][4];
	const struct cudaChannelFormatDesc d = bits(16, 16, 0, 0, cudaChannelFormatKindUnsigned);
	const struct cudaPitchedPtr mine = make_cudaPitchedPtr(host, DEEP_X * 4, DEEP_X, DEEP_Y);
	const struct cudaExtent whole = make_cudaExtent(DEEP_X, DEEP_Y, DEEP_Z);
	struct cudaMemcpy3DParms p = { 0 }, read = { 0 };
	cudaArray_t array, other;
	unsigned int seed = 8;

	ASSERT_RT(cudaMalloc3DArray(&array, &d, whole, 0));
	ASSERT_RT(cudaMalloc3DArray(&other, &d, whole, 0));
	read.srcArray = array;
	read.dstPtr = make_cudaPitchedPtr(got, DEEP_X * 4, DEEP_X, DEEP_Y);
	read.extent = whole;
	read.kind = cudaMemcpyDeviceToHost;
	for (int i = 0; i < 100; i++) {
		size_t x = rand_r(&seed) % DEEP_X, y = rand_r(&seed) % DEEP_Y, z = rand_r(&seed) % DEEP_Z;
		size_t w = rand_r(&seed) % (DEEP_X - x) + 1, h = rand_r(&seed) % (DEEP_Y - y) + 1;
		size_t depth = rand_r(&seed) % (DEEP_Z - z) + 1;

		pattern(&host[0][0][0][0], sizeof(host), i);
		memset(&p, 0, sizeof(p));
		p.dstArray = array;
		p.dstPos = make_cudaPos(x, y, z);
		p.extent = make_cudaExtent(w, h, depth);
		p.srcPos = make_cudaPos(4 * x, y, z);
		p.srcPtr = mine;
		p.kind = i % 2 ? cudaMemcpyHostToDevice : cudaMemcpyDefault;
		if (i % 3 == 2) {	/* by way of another array */
			p.dstArray = other;
			p.dstPos = make_cudaPos(0, 0, 0);
			ASSERT_RT(cudaMemcpy3DAsync(&p, 0));
			p.srcArray = other;
			p.srcPos = make_cudaPos(0, 0, 0);
			p.srcPtr = make_cudaPitchedPtr(NULL, 0, 0, 0);
			p.dstArray = array;
			p.dstPos = make_cudaPos(x, y, z);
			p.kind = cudaMemcpyDeviceToDevice;
		}
		ASSERT_RT(cudaMemcpy3D(&p));
		for (size_t k = z; k < z + depth; k++)
			for (size_t j = y; j < y + h; j++)
				memcpy(model[k][j][x], host[k][j][x], 4 * w);
		ASSERT_RT(cudaMemcpy3D(&read));
		ASSERT_EQ(0, memcmp(got, model, sizeof(model)));
	}
}

/* An extent in elements of a block compressed array covers the blocks that it touches. */
TEST_F(rt_array, blocks)
{
	const struct cudaChannelFormatDesc d = bits(8, 8, 8, 8, cudaChannelFormatKindUnsignedBlockCompressed1);
	unsigned char host[1024], model[1024] = { 0 }, got[1024];
	struct cudaMemcpy3DParms p;
	cudaArray_t array;

	pattern(host, sizeof(host), 9);
	ASSERT_RT(cudaMallocArray(&array, &d, 64, 32, 0));
	p = box_to(array, host, 128, 8);
	p.extent = make_cudaExtent(17, 6, 1);
	p.dstPos = make_cudaPos(6, 5, 0);
	EXPECT_RT(cudaMemcpy3D(&p));
	rows(model + 128 + 8, 128, host, 128, 5 * 8, 2);
	EXPECT_RT(cudaMemcpy2DFromArray(got, 128, array, 0, 0, 128, 8, cudaMemcpyDeviceToHost));
	EXPECT_EQ(0, memcmp(got, model, sizeof(got)));
	EXPECT_RT(cudaMemcpyToArray(array, 0, 0, host, 1024, cudaMemcpyHostToDevice));
	EXPECT_RT(cudaMemcpyFromArray(got, array, 64, 1, 304, cudaMemcpyDeviceToHost));
	EXPECT_EQ(0, memcmp(got, host + 192, 304));
	EXPECT_FAILS(BAD, cudaMemcpyToArray(array, 8, 0, host, 1024, cudaMemcpyHostToDevice));
	EXPECT_FAILS(BAD, cudaMemcpy2DToArray(array, 0, 0, host, 128, 128, 9, cudaMemcpyHostToDevice));
	p.extent = make_cudaExtent(68, 4, 1);
	p.srcPtr.pitch = 256;
	p.dstPos = make_cudaPos(0, 0, 0);
	EXPECT_FAILS(BAD, cudaMemcpy3D(&p));
}

/* --- batches */

TEST_F(rt_rows, batches)
{
	void *dsts[2] = { self->device, (char *)self->device + 4096 };
	const void *srcs[2] = { self->model, self->second };
	size_t sizes[2] = { 1000, 2000 }, index = 0, bad_index = 1;
	struct cudaMemcpyAttributes attr = { .srcAccessOrder = cudaMemcpySrcAccessOrderStream };
	struct cudaMemcpy3DBatchOp op = {
		.src = { .type = cudaMemcpyOperandTypePointer, .op.ptr = { .ptr = self->device } },
		.dst = { .type = cudaMemcpyOperandTypeArray, .op.array = { self->array, { 1, 2, 0 } } },
		.extent = make_cudaExtent(20, 5, 1), .srcAccessOrder = cudaMemcpySrcAccessOrderStream,
	};
	unsigned char got[2000];

	EXPECT_RT(cudaMemcpyBatchAsync(dsts, srcs, sizes, 2, &attr, &index, 1, self->stream));
	EXPECT_RT(cudaStreamSynchronize(self->stream));
	EXPECT_RT(cudaMemcpy(got, dsts[0], 1000, cudaMemcpyDeviceToHost));
	EXPECT_EQ(0, memcmp(got, self->model, 1000));
	EXPECT_RT(cudaMemcpy(got, dsts[1], 2000, cudaMemcpyDeviceToHost));
	EXPECT_EQ(0, memcmp(got, self->second, 2000));
	EXPECT_RT(cudaMemcpyBatchAsync_ptsz(dsts, srcs, sizes, 2, &attr, &index, 1, cudaStreamPerThread));
	/* The next copy to the same place is in another stream. */
	EXPECT_RT(cudaStreamSynchronize(cudaStreamPerThread));
	EXPECT_FAILS(BAD, cudaMemcpyBatchAsync(dsts, srcs, sizes, 2, &attr, &index, 1, 0));
	EXPECT_FAILS(BAD, cudaMemcpyBatchAsync(dsts, srcs, sizes, 0, &attr, &index, 1, self->stream));
	EXPECT_FAILS(BAD, cudaMemcpyBatchAsync(dsts, srcs, sizes, 2, &attr, &bad_index, 1, self->stream));
	/* One copy, as in CUDA 13.2. */
	EXPECT_RT(cudaMemcpyWithAttributesAsync(dsts[0], self->second, 1000, &attr, self->stream));
	EXPECT_RT(cudaStreamSynchronize(self->stream));
	EXPECT_RT(cudaMemcpy(got, dsts[0], 1000, cudaMemcpyDeviceToHost));
	EXPECT_EQ(0, memcmp(got, self->second, 1000));
	EXPECT_FAILS(BAD, cudaMemcpyWithAttributesAsync(dsts[0], NULL, 1000, &attr, self->stream));
	attr.srcAccessOrder = cudaMemcpySrcAccessOrderInvalid;
	EXPECT_FAILS(BAD, cudaMemcpyBatchAsync(dsts, srcs, sizes, 2, &attr, &index, 1, self->stream));

	EXPECT_RT(cudaMemcpy(self->device, self->host, 400, cudaMemcpyHostToDevice));
	EXPECT_RT(cudaMemcpy3DBatchAsync(1, &op, 0, self->stream));
	rows(self->model + 2 * ROW + 4, ROW, self->host, 80, 80, 5);
	EXPECT_TRUE(holds(self));
	op.dst.op.array.offset.y = 10;
	EXPECT_RT(cudaMemcpy3DWithAttributesAsync(&op, 0, self->stream));
	rows(self->model + 10 * ROW + 4, ROW, self->host, 80, 80, 5);
	EXPECT_TRUE(holds(self));
	EXPECT_FAILS(BAD, cudaMemcpy3DWithAttributesAsync(&op, 1, self->stream));
	op.dst.op.array.offset.x = 21;
	EXPECT_FAILS(BAD, cudaMemcpy3DBatchAsync(1, &op, 0, self->stream));
	EXPECT_FAILS(BAD, cudaMemcpy3DBatchAsync(1, &op, 1, self->stream));
	EXPECT_FAILS(BAD, cudaMemcpy3DBatchAsync(0, &op, 0, self->stream));
	EXPECT_TRUE(holds(self));
}

/* --- external memory and semaphores */

static int memory_fd(void)
{
	CUmemAllocationProp prop;
	CUmemGenericAllocationHandle h;
	int fd = -1;

	memset(&prop, 0, sizeof(prop));
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	if (cuInit(0) || cuMemCreate(&h, 2 * MIB, &prop, 0))
		return -1;
	cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	cuMemRelease(h);
	return fd;
}

TEST_F(rt_array, external_memory)
{
	struct cudaExternalMemoryHandleDesc d = { .type = cudaExternalMemoryHandleTypeOpaqueFd,
			.size = 2 * MIB };
	struct cudaExternalMemoryBufferDesc b = { .size = 2 * MIB };
	struct cudaExternalMemoryMipmappedArrayDesc m = { .numLevels = 1 };
	struct cudaPointerAttributes attributes;
	unsigned char data[128 * 16], back[128 * 16];
	cudaMipmappedArray_t mipmap = NULL;
	cudaExternalMemory_t memory;
	cudaArray_t level;
	unsigned char byte = 0;
	void *p, *q = &byte;

	pattern(data, sizeof(data), 2);
	ASSERT_RT(cudaFree(NULL));
	d.handle.fd = memory_fd();
	ASSERT_LE(0, d.handle.fd);
	d.reserved[0] = 1;	/* ignored */
	EXPECT_FAILS(BAD, cudaImportExternalMemory(NULL, &d));
	EXPECT_FAILS(BAD, cudaImportExternalMemory(&memory, NULL));
	ASSERT_RT(cudaImportExternalMemory(&memory, &d));
	EXPECT_EQ(-1, fcntl(d.handle.fd, F_GETFD));
	ASSERT_RT(cudaExternalMemoryGetMappedBuffer(&p, memory, &b));
	b.offset = 4096;
	EXPECT_FAILS(BAD, cudaExternalMemoryGetMappedBuffer(&q, memory, &b));
	EXPECT_EQ((void *)&byte, q);
	EXPECT_FAILS(BAD, cudaExternalMemoryGetMappedBuffer(NULL, memory, &b));
	EXPECT_FAILS(BAD, cudaExternalMemoryGetMappedBuffer(&q, NULL, &b));
	EXPECT_FAILS(BAD, cudaExternalMemoryGetMappedBuffer(&q, memory, NULL));
	b.size = 4096;
	ASSERT_RT(cudaExternalMemoryGetMappedBuffer(&q, memory, &b));
	EXPECT_FAILS(BAD, cudaExternalMemoryGetMappedMipmappedArray(&mipmap, memory, NULL));
	EXPECT_FAILS(BAD, cudaExternalMemoryGetMappedMipmappedArray(&mipmap, memory, &m));
	m.extent.width = 4;
	m.formatDesc = bits(8, 8, 8, 0, cudaChannelFormatKindUnsigned);
	EXPECT_FAILS(NO_FORMAT, cudaExternalMemoryGetMappedMipmappedArray(&mipmap, memory, &m));
	m.formatDesc.w = 8;
	m.extent = make_cudaExtent(64, 32, 0);
	m.numLevels = 2;
	EXPECT_FAILS(BAD, cudaExternalMemoryGetMappedMipmappedArray(NULL, memory, &m));
	ASSERT_RT(cudaExternalMemoryGetMappedMipmappedArray(&mipmap, memory, &m));
	ASSERT_RT(cudaGetMipmappedArrayLevel(&level, mipmap, 1));
	EXPECT_RT(cudaMemcpy2DToArray(level, 0, 0, data, 128, 128, 16, cudaMemcpyHostToDevice));
	EXPECT_RT(cudaMemcpy2DFromArray(back, 128, level, 0, 0, 128, 16, cudaMemcpyDeviceToHost));
	EXPECT_EQ(0, memcmp(data, back, sizeof(data)));
	EXPECT_RT(cudaFreeMipmappedArray(mipmap));
	EXPECT_RT(cudaPointerGetAttributes(&attributes, p));
	EXPECT_EQ(cudaMemoryTypeDevice, attributes.type);
	EXPECT_RT(cudaMemset((char *)p + 4096, 7, 4096));
	EXPECT_RT(cudaMemcpy(&byte, q, 1, cudaMemcpyDeviceToHost));
	EXPECT_EQ(7, byte);
	EXPECT_RT(cudaDestroyExternalMemory(memory));
	EXPECT_FAILS(BAD, cudaDestroyExternalMemory(memory));
	EXPECT_FAILS(BAD, cudaDestroyExternalMemory(NULL));
	EXPECT_RT(cudaMemset(p, 8, 4096));
	EXPECT_RT(cudaFree(p));
	EXPECT_RT(cudaFree(q));
	d.handle.fd = open("/dev/null", O_RDWR);
	EXPECT_FAILS(cudaErrorUnknown, cudaImportExternalMemory(&memory, &d));
	d.type = cudaExternalMemoryHandleTypeOpaqueWin32;
	EXPECT_FAILS(cudaErrorNotSupported, cudaImportExternalMemory(&memory, &d));
}

TEST_F(rt_array, external_semaphores)
{
	struct cudaExternalSemaphoreHandleDesc d = { .type = cudaExternalSemaphoreHandleTypeTimelineSemaphoreFd };
	struct cudaExternalSemaphoreSignalParams signal = { .params.fence.value = 5 };
	struct cudaExternalSemaphoreWaitParams wait = { .params.fence.value = 5 };
	cudaExternalSemaphore_t semaphore;
	CUexternalSemaphore own;
	cudaStream_t a, b;

	ASSERT_RT(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
	ASSERT_RT(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
	ASSERT_CU(gpumem_create_semaphore(&own, 0, GPUMEM_SEMAPHORE_TIMELINE));
	ASSERT_CU(gpumem_export_semaphore(&d.handle.fd, own, 0));
	EXPECT_FAILS(BAD, cudaImportExternalSemaphore(NULL, &d));
	EXPECT_FAILS(BAD, cudaImportExternalSemaphore(&semaphore, NULL));
	ASSERT_RT(cudaImportExternalSemaphore(&semaphore, &d));
	EXPECT_RT(cudaWaitExternalSemaphoresAsync(&semaphore, &wait, 1, a));
	EXPECT_EQ(cudaErrorNotReady, cudaStreamQuery(a));
	EXPECT_RT(cudaSignalExternalSemaphoresAsync(&semaphore, &signal, 1, b));
	EXPECT_RT(cudaStreamSynchronize(a));
	EXPECT_FAILS(BAD, cudaWaitExternalSemaphoresAsync(&semaphore, &wait, 0, a));
	EXPECT_FAILS(BAD, cudaWaitExternalSemaphoresAsync(NULL, &wait, 1, a));
	EXPECT_FAILS(BAD, cudaSignalExternalSemaphoresAsync(&semaphore, NULL, 1, a));
	signal.flags = 2;
	EXPECT_FAILS(BAD, cudaSignalExternalSemaphoresAsync(&semaphore, &signal, 1, b));
	EXPECT_RT(cudaDestroyExternalSemaphore(semaphore));
	EXPECT_FAILS(BAD, cudaDestroyExternalSemaphore(NULL));
	EXPECT_CU(cuDestroyExternalSemaphore(own));
}

TEST_HARNESS_MAIN
