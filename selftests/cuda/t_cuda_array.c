// SPDX-License-Identifier: GPL-2.0
/*
 * Arrays by the CUDA API: which can be made, what their descriptors report, which copies are
 * refused, planes and levels.  t_cuda_array_memory.c tests the memory of arrays, and
 * t_cuda_array_model.c compares the results of copies with a model.
 *
 * The expected results are those recorded on a real device, where there are such records.
 */
#include "kselftest_harness.h"
#include "cuda_util.h"
#include "array_util.h"

#define HANDLE	CUDA_ERROR_INVALID_HANDLE

ARRAY_FIXTURE(array)

/* --- formats */

/* Whether an array has exactly @slices slices of @rows rows of @row bytes. */
static bool holds(CUarray a, void *to, size_t row, size_t rows, size_t slices, size_t grain)
{
	bool exactly = !read_box(to, a, row - grain, rows - 1, slices - 1, grain, 1, 1) &&
		!read_box(to, a, 0, 0, 0, row, 1, 1) &&
		read_box(to, a, 0, 0, 0, row + grain, 1, 1) == INVALID &&
		read_box(to, a, row, 0, 0, grain, 1, 1) == INVALID &&
		read_box(to, a, 0, 0, 0, grain, rows + 1, 1) == INVALID &&
		read_box(to, a, 0, rows, 0, grain, 1, 1) == INVALID &&
		read_box(to, a, 0, 0, 0, grain, 1, slices + 1) == INVALID &&
		read_box(to, a, 0, 0, slices, grain, 1, 1) == INVALID &&
		read_box(to, a, SIZE_MAX, 0, 0, grain, 1, 1) == INVALID &&
		read_box(to, a, 0, SIZE_MAX, 0, grain, 1, 1) == INVALID &&
		read_box(to, a, 0, 0, SIZE_MAX, grain, 1, 1) == INVALID;

	/* Less than a block cannot be copied. */
	return exactly && (grain == 1 ||
			   (read_box(to, a, 0, 0, 0, grain - 1, 1, 1) == INVALID &&
			    read_box(to, a, 1, 0, 0, grain, 1, 1) == INVALID));
}

static bool planes_are_right(const struct format *f, CUarray a, void *to)
{
	CUDA_ARRAY3D_DESCRIPTOR q;
	CUarray p, again;
	unsigned int i;

	if (read_box(to, a, 0, 0, 0, 1, 1, 1) != INVALID || cuMemcpyAtoH(to, a, 0, 1) != INVALID)
		return false;
	for (i = 0; i < 3 && f->plane[i][0]; i++) {
		size_t w = 64 / f->plane[i][1], h = 64 / f->plane[i][2];

		if (cuArrayGetPlane(&p, a, i) || cuArrayGetPlane(&again, a, i) || p != again ||
		    cuArray3DGetDescriptor(&q, p) || q.Width != w || q.Height != h || q.Depth ||
		    q.Format != (f->bytes == 1 ? U8 : U16) || q.NumChannels != f->plane[i][0] ||
		    q.Flags != VIDEO || !holds(p, to, w * f->bytes * f->plane[i][0], h, 1, 1) ||
		    cuArrayGetPlane(&again, p, 0) != INVALID || cuArrayDestroy(p))
			return false;
	}
	return cuArrayGetPlane(&p, a, i) == INVALID && cuArrayGetPlane(&p, a, ~0u) == INVALID;
}

TEST_F(array, formats)
{
	for (unsigned int format = 0; format < 0x100; format++) {
		const struct format *f = NULL;

		for (unsigned int i = 0; i < ARRAY_SIZE(formats); i++)
			if (formats[i].format == format)
				f = &formats[i];
		for (unsigned int channels = 0; channels < 6; channels++) {
			unsigned int flags = f && is_video(f) ? VIDEO : 0;
			bool is = f && channels && strchr(f->channels, '0' + channels);
			CUDA_ARRAY3D_DESCRIPTOR q;
			CUarray a = NULL, other;

			ASSERT_EQ(is ? CUDA_SUCCESS : INVALID,
				  make(&a, 64, 64, 0, format, channels, flags)) {
				TH_LOG("format 0x%x, %u channels", format, channels);
			}
			if (!is)
				continue;
			ASSERT_CU(cuArray3DGetDescriptor(&q, a));
			ASSERT_TRUE(q.Width == 64 && q.Height == 64 && !q.Depth &&
				    q.Format == format && q.NumChannels == channels &&
				    q.Flags == flags);
			if (is_planar(f)) {
				ASSERT_TRUE(planes_are_right(f, a, self->host)) {
					TH_LOG("format 0x%x", format);
				}
			} else {
				unsigned int block = f->block ? f->block : 1;
				unsigned int unit = unit_of(f, channels);

				ASSERT_TRUE(holds(a, self->host, 64 / block * unit, 64 / block, 1,
						  block > 1 ? unit : 1)) {
					TH_LOG("format 0x%x, %u channels", format, channels);
				}
				ASSERT_EQ(INVALID, cuArrayGetPlane(&other, a, 0));
			}
			ASSERT_CU(cuArrayDestroy(a));
			if (is_video(f)) {
				ASSERT_EQ(INVALID, can(64, 64, 0, format, channels, 0));
				ASSERT_EQ(INVALID, can(63, 64, 0, format, channels, VIDEO));
				ASSERT_EQ(INVALID, can(64, 63, 0, format, channels, VIDEO));
				ASSERT_EQ(INVALID, can(64, 0, 0, format, channels, VIDEO));
				ASSERT_EQ(INVALID, can(64, 64, 2, format, channels, VIDEO));
				ASSERT_EQ(INVALID, can(64, 64, 6, format, channels,
						       VIDEO | CUBEMAP));
				ASSERT_CU(can(2, 2, 0, format, channels, VIDEO));
				ASSERT_CU(can(64, 64, 2, format, channels, VIDEO | LAYERED));
				ASSERT_EQ(INVALID, can_mipmap(64, 64, 0, format, channels, VIDEO));
			} else {
				CUresult odd = is_blocks(f) ? INVALID : CUDA_SUCCESS;

				ASSERT_EQ(odd, can(64, 0, 0, format, channels, 0));
				ASSERT_EQ(odd, can(64, 0, 3, format, channels, LAYERED));
				ASSERT_CU(can(65, 63, 0, format, channels, VIDEO));
				ASSERT_CU(can_mipmap(65, 63, 0, format, channels, 0));
				ASSERT_EQ(is_blocks(f) ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS,
					  can(64, 64, 0, format, channels, SURFACE));
			}
		}
	}
}

/* The numbers of the newer formats, which CUDA 13.0's headers, compared elsewhere, lack. */
TEST_F(array, numbers)
{
	static const CUarray_format newer[] = {
		CU_AD_FORMAT_UINT8_PACKED_422, CU_AD_FORMAT_UINT8_PACKED_444,
		CU_AD_FORMAT_UINT8_SEMIPLANAR_420, CU_AD_FORMAT_UINT16_SEMIPLANAR_420,
		CU_AD_FORMAT_UINT8_SEMIPLANAR_422, CU_AD_FORMAT_UINT16_SEMIPLANAR_422,
		CU_AD_FORMAT_UINT8_SEMIPLANAR_444, CU_AD_FORMAT_UINT16_SEMIPLANAR_444,
		CU_AD_FORMAT_UINT8_PLANAR_420, CU_AD_FORMAT_UINT16_PLANAR_420,
		CU_AD_FORMAT_UINT8_PLANAR_422, CU_AD_FORMAT_UINT16_PLANAR_422,
		CU_AD_FORMAT_UINT8_PLANAR_444, CU_AD_FORMAT_UINT16_PLANAR_444,
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(newer); i++)
		EXPECT_EQ(0x51 + i, newer[i]);
}

static size_t plane_row(const struct format *f, unsigned int i)
{
	return 64 / f->plane[i][1] * f->bytes * f->plane[i][0];
}

/* Each plane has its own bytes, in every layer. */
TEST_F(array, planes)
{
	for (unsigned int k = 0; k < ARRAY_SIZE(formats); k++) {
		const struct format *f = &formats[k];
		unsigned int i;
		CUarray a, p;

		if (!is_planar(f))
			continue;
		ASSERT_CU(make(&a, 64, 64, 2, f->format, 3, VIDEO | LAYERED));
		for (i = 0; !cuArrayGetPlane(&p, a, i); i++) {
			memset(self->host, i + 1, 2 * 64 * plane_row(f, i));
			ASSERT_CU(write_box(p, self->host, 0, 0, 0, plane_row(f, i),
					    64 / f->plane[i][2], 2));
		}
		ASSERT_EQ(f->plane[2][0] ? 3 : 2, i);
		while (i--) {
			size_t bytes = 2 * 64 / f->plane[i][2] * plane_row(f, i);

			ASSERT_CU(cuArrayGetPlane(&p, a, i));
			ASSERT_CU(read_box(self->host, p, 0, 0, 0, plane_row(f, i),
					   64 / f->plane[i][2], 2));
			EXPECT_TRUE(all_are(self->host, i + 1, bytes)) {
				TH_LOG("format 0x%x, plane %u", f->format, i);
			}
		}
		ASSERT_CU(cuArrayDestroy(a));
		EXPECT_EQ(HANDLE, cuArrayGetPlane(&p, a, 0));
	}
}

/* A block that reaches beyond the edge of an array is copied as a whole, too. */
TEST_F(array, blocks)
{
	CUDA_ARRAY3D_DESCRIPTOR d = describe(66, 62, 3, CU_AD_FORMAT_BC1_UNORM, 4, LAYERED);
	static const size_t wide[] = { 17, 9, 4, 2, 1, 1, 1 }, high[] = { 16, 8, 4, 2, 1, 1, 1 };
	CUmipmappedArray m;
	CUarray a;

	ASSERT_CU(cuMipmappedArrayCreate(&m, &d, 100));
	for (unsigned int i = 0; i < 7; i++) {
		ASSERT_CU(cuMipmappedArrayGetLevel(&a, m, i));
		EXPECT_TRUE(holds(a, self->host, wide[i] * 8, high[i], 3, 8));
	}
	EXPECT_EQ(INVALID, cuMipmappedArrayGetLevel(&a, m, 7));
	EXPECT_CU(cuMipmappedArrayDestroy(m));
	ASSERT_CU(make(&a, 66, 62, 0, CU_AD_FORMAT_BC3_UNORM, 4, 0));
	EXPECT_CU(cuMemcpyAtoH(self->host, a, 16, 16 * 16));
	EXPECT_EQ(INVALID, cuMemcpyAtoH(self->host, a, 8, 16));
	EXPECT_EQ(INVALID, cuMemcpyAtoH(self->host, a, 0, 8));
	EXPECT_EQ(INVALID, cuMemcpyHtoA(a, 16, self->host, 17 * 16));
	EXPECT_CU(cuArrayDestroy(a));
}

/* --- shapes, flags and limits */

TEST_F(array, shapes_and_flags)
{
	static const size_t shapes[][3] = { { 32, 0, 0 }, { 32, 32, 0 }, { 32, 32, 6 }, { 32, 0, 6 } };
	static const unsigned int more[] = { 0, SURFACE, LAYERED, GATHER, CUBEMAP };
	/* Which of @more may be added to a flag, for each shape: as recorded. */
	static const struct {
		unsigned int flag;
		const char *can[4];
	} known[] = {
		{ LAYERED, { "-----", "-----", "+++-+", "+++--" } },
		{ SURFACE, { "++---", "++-+-", "+++-+", "--+--" } },
		{ CUBEMAP, { "-----", "-----", "+++-+", "-----" } },
		{ GATHER, { "-----", "++-+-", "-----", "-----" } },
		{ SPARSE, { "-----", "+--+-", "+-+--", "-----" } },
		{ DEFERRED, { "++---", "++-+-", "+++-+", "--+--" } },
		{ VIDEO, { "++---", "++-+-", "+++-+", "--+--" } },
		{ 1u << 31, { "++---", "++-+-", "+++-+", "--+--" } },
	};

	for (unsigned int bit = 0; bit < 32; bit++)
		for (unsigned int s = 0; s < 4; s++)
			for (unsigned int i = 0; i < 5; i++) {
				bool is = false;

				for (unsigned int k = 0; k < ARRAY_SIZE(known); k++)
					if (known[k].flag == 1u << bit)
						is = known[k].can[s][i] == '+';
				ASSERT_EQ(is ? CUDA_SUCCESS : INVALID,
					  can(shapes[s][0], shapes[s][1], shapes[s][2], U8, 4,
					      1u << bit | more[i])) {
					TH_LOG("flags 0x%x, shape %u", 1u << bit | more[i], s);
				}
			}
	EXPECT_EQ(INVALID, can(0, 0, 0, U8, 1, 0));
	EXPECT_EQ(INVALID, can(0, 4, 4, U8, 1, 0));
	EXPECT_EQ(INVALID, can(4, 0, 4, U8, 1, 0));
	EXPECT_EQ(INVALID, can(4, 4, 0, U8, 1, LAYERED));
	EXPECT_EQ(INVALID, can(4, 5, 6, U8, 1, CUBEMAP));
	EXPECT_EQ(INVALID, can(4, 4, 12, U8, 1, CUBEMAP));
	EXPECT_EQ(INVALID, can(4, 4, 7, U8, 1, CUBEMAP | LAYERED));
	EXPECT_CU(can(4, 4, 12, U8, 1, CUBEMAP | LAYERED));
	EXPECT_EQ(INVALID, can(64, 64, 0, U8, 1, SPARSE | DEFERRED));
}

static size_t attribute(CUdevice_attribute which)
{
	int value = 0;

	return cuDeviceGetAttribute(&value, which, 0) ? 0 : (size_t)value;
}

#define MOST(x)	attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_ ## x)

/* The arrays are DEFERRED: the largest ones need no memory then. */
TEST_F(array, limits)
{
	const struct {
		size_t w, h, d;
		unsigned int flags;
		bool mipmap;
	} most[] = {
		{ .w = MOST(TEXTURE1D_WIDTH) },
		{ .w = MOST(TEXTURE2D_WIDTH), .h = MOST(TEXTURE2D_HEIGHT) },
		{ MOST(TEXTURE3D_WIDTH), MOST(TEXTURE3D_HEIGHT), MOST(TEXTURE3D_DEPTH), 0, 0 },
		{ .w = MOST(TEXTURE1D_LAYERED_WIDTH), .d = MOST(TEXTURE1D_LAYERED_LAYERS),
		  .flags = LAYERED },
		{ .w = MOST(TEXTURE2D_LAYERED_WIDTH), .h = MOST(TEXTURE2D_LAYERED_HEIGHT),
		  .d = MOST(TEXTURE2D_LAYERED_LAYERS), .flags = LAYERED },
		{ .w = MOST(TEXTURE2D_GATHER_WIDTH), .h = MOST(TEXTURE2D_GATHER_HEIGHT),
		  .flags = GATHER },
		{ .w = MOST(TEXTURE1D_MIPMAPPED_WIDTH), .mipmap = true },
		{ .w = MOST(TEXTURE2D_MIPMAPPED_WIDTH), .h = MOST(TEXTURE2D_MIPMAPPED_HEIGHT),
		  .mipmap = true },
		{ .w = MOST(SURFACE1D_WIDTH), .flags = SURFACE },
		{ .w = MOST(SURFACE2D_WIDTH), .h = MOST(SURFACE2D_HEIGHT), .flags = SURFACE },
		{ MOST(SURFACE3D_WIDTH), MOST(SURFACE3D_HEIGHT), MOST(SURFACE3D_DEPTH), SURFACE,
		  0 },
		{ .w = MOST(SURFACE2D_LAYERED_WIDTH), .h = MOST(SURFACE2D_LAYERED_HEIGHT),
		  .d = MOST(SURFACE2D_LAYERED_LAYERS), .flags = SURFACE | LAYERED },
	};
	const size_t cube = MOST(TEXTURECUBEMAP_WIDTH), layers = MOST(TEXTURECUBEMAP_LAYERED_LAYERS);
	const size_t deep = MOST(TEXTURE3D_DEPTH_ALTERNATE);

	for (unsigned int i = 0; i < ARRAY_SIZE(most); i++) {
		CUresult (*try)(size_t w, size_t h, size_t d, CUarray_format format,
				unsigned int channels, unsigned int flags) =
			most[i].mipmap ? can_mipmap : can;
		unsigned int flags = most[i].flags | DEFERRED;
		size_t w = most[i].w, h = most[i].h, d = most[i].d;

		ASSERT_NE(0, w);
		EXPECT_CU(try(w, h, d, U32, 4, flags)) {
			TH_LOG("row %u", i);
		}
		EXPECT_EQ(INVALID, try(w + 1, !!h, !!d, U8, 1, flags)) {
			TH_LOG("row %u", i);
		}
		if (h)
			EXPECT_EQ(INVALID, try(1, h + 1, !!d, U8, 1, flags));
		if (d && (flags & LAYERED || flags & SURFACE))
			EXPECT_EQ(INVALID, try(1, !!h, d + 1, U8, 1, flags));
	}
	EXPECT_CU(can(cube, cube, 6, U8, 1, CUBEMAP | DEFERRED));
	EXPECT_EQ(INVALID, can(cube + 1, cube + 1, 6, U8, 1, CUBEMAP | DEFERRED));
	EXPECT_CU(can(cube, cube, layers, U8, 1, CUBEMAP | LAYERED | DEFERRED));
	EXPECT_EQ(INVALID, can(1, 1, layers + 6, U8, 1, CUBEMAP | LAYERED));
	/* 3D arrays have a second set of limits. */
	EXPECT_CU(can(MOST(TEXTURE3D_WIDTH_ALTERNATE), 1, deep, U8, 1, DEFERRED));
	EXPECT_EQ(INVALID, can(1, 1, deep + 1, U8, 1, DEFERRED));
	EXPECT_EQ(INVALID, can(MOST(TEXTURE3D_WIDTH), 1, deep, U8, 1, DEFERRED));
	EXPECT_EQ(INVALID, can(1, 1, deep, U8, 1, SURFACE | DEFERRED));
	EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, can(16384, 16384, 16384, F32, 4, 0));
	EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, can_mipmap(16384, 16384, 16384, F32, 4, 0));
	EXPECT_EQ(self->was, used(0));
	EXPECT_EQ(1, attribute(CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED));
	EXPECT_EQ(1, attribute(CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED));
}

/* --- handles and arguments */

TEST_F(array, errors)
{
	CUDA_ARRAY_DESCRIPTOR d = { .Width = 16, .Height = 16, .Format = U8, .NumChannels = 1 }, q;
	CUDA_ARRAY3D_DESCRIPTOR d3 = describe(16, 16, 0, U8, 1, 0), q3;
	CUDA_ARRAY_MEMORY_REQUIREMENTS req;
	CUDA_ARRAY_SPARSE_PROPERTIES props;
	CUarray a, b = (CUarray)0xbad0;
	CUmipmappedArray m;
	CUdeviceptr p;

	ASSERT_CU(cuMemAlloc(&p, 4096));
	EXPECT_EQ(INVALID, cuArrayCreate(NULL, &d));
	EXPECT_EQ(INVALID, cuArrayCreate(&b, NULL));
	EXPECT_EQ(INVALID, cuArray3DCreate(NULL, &d3));
	EXPECT_EQ(INVALID, cuArray3DCreate(&b, NULL));
	d.Height = SIZE_MAX;
	EXPECT_EQ(INVALID, cuArrayCreate(&b, &d));
	EXPECT_EQ((CUarray)0xbad0, b);
	d.Height = 16;
	ASSERT_CU(cuArrayCreate(&a, &d));
	ASSERT_CU(cuMipmappedArrayCreate(&m, &d3, 3));
	EXPECT_EQ(INVALID, cuMipmappedArrayCreate(NULL, &d3, 3));
	EXPECT_EQ(INVALID, cuMipmappedArrayCreate(&m, NULL, 3));
	EXPECT_EQ(INVALID, cuArrayGetDescriptor(NULL, a));
	EXPECT_EQ(HANDLE, cuArrayGetDescriptor(&q, NULL));
	EXPECT_EQ(INVALID, cuArray3DGetDescriptor(NULL, a));
	EXPECT_EQ(HANDLE, cuArray3DGetDescriptor(&q3, NULL));
	EXPECT_EQ(HANDLE, cuArrayDestroy(NULL));
	EXPECT_EQ(HANDLE, cuArrayGetPlane(&b, NULL, 0));
	EXPECT_EQ(INVALID, cuArrayGetPlane(NULL, a, 0));
	EXPECT_EQ(HANDLE, cuMipmappedArrayDestroy(NULL));
	EXPECT_EQ(HANDLE, cuMipmappedArrayGetLevel(&b, NULL, 0));
	EXPECT_EQ(INVALID, cuMipmappedArrayGetLevel(NULL, m, 0));
	EXPECT_EQ(INVALID, cuArrayGetSparseProperties(NULL, a));
	EXPECT_EQ(INVALID, cuArrayGetSparseProperties(&props, NULL));
	EXPECT_EQ(INVALID, cuArrayGetSparseProperties(&props, a));
	EXPECT_EQ(INVALID, cuMipmappedArrayGetSparseProperties(NULL, m));
	EXPECT_EQ(INVALID, cuMipmappedArrayGetSparseProperties(&props, m));
	EXPECT_EQ(INVALID, cuArrayGetMemoryRequirements(NULL, a, 0));
	EXPECT_EQ(INVALID, cuArrayGetMemoryRequirements(&req, NULL, 0));
	EXPECT_EQ(INVALID, cuArrayGetMemoryRequirements(&req, a, 0));
	EXPECT_EQ(INVALID, cuMipmappedArrayGetMemoryRequirements(&req, m, 0));
	/* A handle of another kind of object is invalid. */
	EXPECT_EQ(HANDLE, cuArrayDestroy((CUarray)m));
	EXPECT_EQ(HANDLE, cuMipmappedArrayDestroy((CUmipmappedArray)a));
	EXPECT_EQ(HANDLE, cuArrayDestroy((CUarray)self->ctx));
	EXPECT_EQ(HANDLE, cuArrayDestroy((CUarray)8));
	/* A copy of no bytes succeeds with any arguments; other copies refuse a NULL array. */
	EXPECT_CU(cuMemcpyHtoA(NULL, 99, NULL, 0));
	EXPECT_EQ(INVALID, cuMemcpyHtoA(NULL, 0, self->host, 1));
	EXPECT_EQ(INVALID, cuMemcpyHtoA(a, 0, NULL, 1));
	EXPECT_EQ(INVALID, cuMemcpyAtoH(self->host, a, 16, 1));
	EXPECT_EQ(INVALID, cuMemcpyAtoH(self->host, a, 15, 2));
	EXPECT_EQ(INVALID, cuMemcpyAtoH(self->host, a, 1, SIZE_MAX));
	EXPECT_EQ(INVALID, cuMemcpyAtoD(0, a, 0, 1));
	EXPECT_EQ(INVALID, cuMemcpyAtoD((uintptr_t)self->host, a, 0, 1));
	EXPECT_EQ(INVALID, cuMemcpyDtoA(a, 0, (uintptr_t)self->host, 1));
	EXPECT_EQ(INVALID, cuMemcpyDtoA(a, 0, p + 4095, 2));
	EXPECT_EQ(INVALID, cuMemcpyAtoA(a, 0, NULL, 0, 1));
	EXPECT_EQ(INVALID, cuMemcpyAtoHAsync(NULL, a, 0, 1, NULL));
	EXPECT_EQ(HANDLE, cuMemcpyHtoAAsync(a, 0, self->host, 1, (CUstream)a));
	/* Where a call expects host memory, an address of device memory works, too. */
	EXPECT_CU(cuMemcpyHtoA(a, 0, (void *)(uintptr_t)p, 16));
	EXPECT_CU(cuMemcpyAtoH((void *)(uintptr_t)p, a, 0, 16));
	EXPECT_CU(cuArrayDestroy(a));
	EXPECT_EQ(HANDLE, cuArrayDestroy(a));
	EXPECT_EQ(HANDLE, cuArrayGetDescriptor(&q, a));
	EXPECT_EQ(HANDLE, cuMemcpyHtoA(a, 0, self->host, 1));
	EXPECT_EQ(HANDLE, cuArrayGetSparseProperties(&props, a));
	ASSERT_CU(cuMipmappedArrayGetLevel(&b, m, 1));
	EXPECT_CU(cuMipmappedArrayDestroy(m));
	EXPECT_EQ(HANDLE, cuMipmappedArrayDestroy(m));
	EXPECT_EQ(HANDLE, cuMipmappedArrayGetLevel(&a, m, 0));
	EXPECT_EQ(HANDLE, cuArrayGetDescriptor(&q, b));
	EXPECT_CU(cuMemFree(p));
}

TEST_F(array, without_a_context)
{
	CUDA_ARRAY3D_DESCRIPTOR d = describe(16, 16, 0, U8, 1, 0), q;
	CUDA_MEMCPY3D_PEER c = {
		.srcMemoryType = CU_MEMORYTYPE_ARRAY, .dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = self->host, .WidthInBytes = 1, .Height = 1, .Depth = 1,
	};
	CUmipmappedArray m;
	CUstream stream;
	CUarray a, b;

	ASSERT_CU(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
	ASSERT_CU(cuArray3DCreate(&a, &d));
	ASSERT_CU(cuMipmappedArrayCreate(&m, &d, 3));
	ASSERT_CU(cuCtxSetCurrent(NULL));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuArray3DCreate(&b, NULL));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMipmappedArrayCreate(NULL, &d, 1));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyHtoA(a, 0, self->host, 1));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyAtoA(a, 0, a, 0, 1));
	c.srcArray = a;
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemcpy3DPeer(&c));
	EXPECT_CU(cuMemcpy3DPeerAsync(&c, stream));
	EXPECT_CU(cuMemcpyHtoAAsync(a, 0, self->host, 4, stream));
	EXPECT_CU(cuMemcpyAtoHAsync(self->host, a, 0, 4, stream));
	EXPECT_CU(cuArray3DGetDescriptor(&q, a));
	EXPECT_CU(cuMipmappedArrayGetLevel(&b, m, 2));
	EXPECT_EQ(INVALID, cuArrayGetPlane(&b, a, 0));
	EXPECT_CU(cuArrayDestroy(a));
	EXPECT_CU(cuMipmappedArrayDestroy(m));
}

/* The first API's forms have 32-bit sizes; cuGetProcAddress() finds them by their version. */
TEST_F(array, first_api)
{
	struct {
		unsigned int w, h;
		CUarray_format format;
		unsigned int channels;
	} d = { 100, 10, U8, 2 }, q = { 0 };
	struct {
		unsigned int w, h, d;
		CUarray_format format;
		unsigned int channels, flags;
	} d3 = { 20, 10, 5, U16, 1, LAYERED }, q3 = { 0 };
	CUresult (*create)(CUarray *a, const void *d), (*get)(void *d, CUarray a);
	CUresult (*create3)(CUarray *a, const void *d), (*get3)(void *d, CUarray a);
	CUresult (*in)(CUarray a, unsigned int at, const void *from, unsigned int n);
	CUresult (*out)(void *to, CUarray a, unsigned int at, unsigned int n);
	const struct {
		const char *name;
		void **function;
	} old[] = {
		{ "cuArrayCreate", (void **)&create }, { "cuArrayGetDescriptor", (void **)&get },
		{ "cuArray3DCreate", (void **)&create3 },
		{ "cuArray3DGetDescriptor", (void **)&get3 },
		{ "cuMemcpyHtoA", (void **)&in }, { "cuMemcpyAtoH", (void **)&out },
	};
	CUarray a, b;

	for (unsigned int i = 0; i < ARRAY_SIZE(old); i++)
		ASSERT_CU(cuGetProcAddress(old[i].name, old[i].function, 2000, 0, NULL));
	ASSERT_CU(create(&a, &d));
	ASSERT_CU(get(&q, a));
	EXPECT_EQ(0, memcmp(&d, &q, sizeof(d)));
	ASSERT_CU(create3(&b, &d3));
	ASSERT_CU(get3(&q3, b));
	EXPECT_EQ(0, memcmp(&d3, &q3, sizeof(d3)));
	EXPECT_CU(in(a, 100, "0123456789", 10));
	EXPECT_CU(out(self->host, a, 99, 12));
	EXPECT_EQ(0, memcmp(self->host, "\0" "0123456789", 12));
	EXPECT_EQ(INVALID, create(NULL, &d));
	EXPECT_EQ(INVALID, create3(&a, NULL));
	EXPECT_CU(cuArrayDestroy(a));
	EXPECT_CU(cuArrayDestroy(b));
}

/* --- levels */

TEST_F(array, levels)
{
	static const struct {
		size_t w, h, d;
		unsigned int flags, levels, asked;
	} many[] = {
		{ 32, 16, 0, 0, 6, 100 }, { 32, 16, 0, 0, 1, 0 }, { 32, 16, 0, 0, 5, 5 },
		{ 40, 20, 8, 0, 6, 9 }, { 2, 3, 64, 0, 7, 7 }, { 1, 0, 0, 0, 1, 2 },
		{ 16, 0, 100, LAYERED, 5, 16 }, { 16, 16, 6, CUBEMAP, 5, 16 },
		{ 4, 4, 12, CUBEMAP | LAYERED, 3, 16 }, { 5, 9, 100, LAYERED, 4, 16 },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(many); i++) {
		CUDA_ARRAY3D_DESCRIPTOR d = describe(many[i].w, many[i].h, many[i].d, U16, 2,
						     many[i].flags), q;
		bool layers = many[i].flags;
		CUarray a, again;
		CUmipmappedArray m;
		unsigned int k;

		ASSERT_CU(cuMipmappedArrayCreate(&m, &d, many[i].asked));
		for (k = 0; k < many[i].levels; k++) {
			size_t bytes = d.Width * 4 * (d.Height ? d.Height : 1);

			ASSERT_CU(cuMipmappedArrayGetLevel(&a, m, k));
			ASSERT_CU(cuMipmappedArrayGetLevel(&again, m, k));
			EXPECT_EQ(a, again);
			ASSERT_CU(cuArray3DGetDescriptor(&q, a));
			EXPECT_EQ(0, memcmp(&d, &q, sizeof(d))) {
				TH_LOG("row %u, level %u: %zux%zux%zu", i, k, q.Width, q.Height,
				       q.Depth);
			}
			EXPECT_TRUE(holds(a, self->host, d.Width * 4, d.Height ? d.Height : 1,
					  d.Depth ? d.Depth : 1, 1));
			/* cuArrayDestroy() of a level destroys nothing. */
			EXPECT_CU(cuArrayDestroy(a));
			bytes *= d.Depth ? d.Depth : 1;
			memset(self->host, 10 * i + k + 1, bytes);
			ASSERT_CU(write_box(a, self->host, 0, 0, 0, d.Width * 4,
					    d.Height ? d.Height : 1, d.Depth ? d.Depth : 1));
			d.Width = d.Width / 2 + (d.Width == 1);
			d.Height = d.Height / 2 + (d.Height == 1);
			if (!layers)
				d.Depth = d.Depth / 2 + (d.Depth == 1);
		}
		EXPECT_EQ(INVALID, cuMipmappedArrayGetLevel(&a, m, k));
		EXPECT_EQ(INVALID, cuMipmappedArrayGetLevel(&a, m, ~0u));
		/* Each level has its own bytes. */
		while (k--) {
			ASSERT_CU(cuMipmappedArrayGetLevel(&a, m, k));
			ASSERT_CU(cuArray3DGetDescriptor(&q, a));
			q.Height = q.Height ? q.Height : 1;
			q.Depth = q.Depth ? q.Depth : 1;
			ASSERT_CU(read_box(self->host, a, 0, 0, 0, q.Width * 4, q.Height, q.Depth));
			EXPECT_TRUE(all_are(self->host, 10 * i + k + 1,
					    q.Width * 4 * q.Height * q.Depth));
		}
		ASSERT_CU(cuMipmappedArrayDestroy(m));
	}
}

TEST_HARNESS_MAIN
