// SPDX-License-Identifier: GPL-2.0
/*
 * The checker on programs with arrays whose rows are not rows of plain elements, and on programs that use the first
 * API's forms, which name arrays and host memory.
 */
#include "kselftest_harness.h"
#include "check_util.h"

/* ---- block formats: an array of 64 by 32 elements has 8 rows of 16 blocks */

#define ROW		128u
#define ROWS		8u

static CUarray block_array(void)
{
	CUDA_ARRAY_DESCRIPTOR d = { .Width = 64, .Height = 32, .Format = CU_AD_FORMAT_BC1_UNORM, .NumChannels = 4 };
	CUarray array;

	OK(cuArrayCreate(&array, &d));
	return array;
}

static CUDA_MEMCPY2D to_array(struct program *w, CUarray array, unsigned int row, unsigned int rows)
{
	return (CUDA_MEMCPY2D) {
		.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = w->pinned, .srcPitch = ROW,
		.dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = array, .dstY = row,
		.WidthInBytes = ROW, .Height = rows,
	};
}

static CUDA_MEMCPY2D from_array(struct program *w, CUarray array, unsigned int row, unsigned int rows)
{
	return (CUDA_MEMCPY2D) {
		.srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = array, .srcY = row,
		.dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = w->pinned + BYTES / 2, .dstPitch = ROW,
		.WidthInBytes = ROW, .Height = rows,
	};
}

MISTAKE(blocks_read_before_they_were_written, "uninitialized")
{
	CUarray array = block_array();
	CUDA_MEMCPY2D to = to_array(w, array, 0, ROWS - 1), from = from_array(w, array, 0, ROWS);

	OK(cuMemcpy2DAsync(&to, w->a));
	OK(WRONG(cuMemcpy2DAsync(&from, w->a)));
	OK(cuStreamSynchronize(w->a));
	OK(cuArrayDestroy(array));
}

TWIN(blocks_read_after_they_were_written)
{
	CUarray array = block_array();
	CUDA_MEMCPY2D to = to_array(w, array, 0, ROWS), from = from_array(w, array, 0, ROWS);

	OK(cuMemcpy2DAsync(&to, w->a));
	OK(cuMemcpy2DAsync(&from, w->a));
	OK(cuStreamSynchronize(w->a));
	OK(cuArrayDestroy(array));
}

MISTAKE(rows_of_blocks_overlap, "race")
{
	CUarray array = block_array();
	CUDA_MEMCPY2D to = to_array(w, array, 0, ROWS), again = to_array(w, array, 4, 4);
	CUDA_MEMCPY2D from = from_array(w, array, 0, 5);

	OK(cuMemcpy2D(&to));
	OK(cuMemcpy2DAsync(&again, w->a));
	OK(WRONG(cuMemcpy2DAsync(&from, w->b)));
	OK(cuCtxSynchronize());
	OK(cuArrayDestroy(array));
}

TWIN(rows_of_blocks_beside_each_other)
{
	CUarray array = block_array();
	CUDA_MEMCPY2D to = to_array(w, array, 0, ROWS), again = to_array(w, array, 4, 4);
	CUDA_MEMCPY2D from = from_array(w, array, 0, 4);

	OK(cuMemcpy2D(&to));
	OK(cuMemcpy2DAsync(&again, w->a));
	OK(cuMemcpy2DAsync(&from, w->b));
	OK(cuCtxSynchronize());
	OK(cuArrayDestroy(array));
}

/* A level of 32 by 16 elements has 4 rows of 8 blocks. */
static void copy_level(struct program *w, unsigned int rows, bool wrong)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { .Width = 64, .Height = 32, .Format = CU_AD_FORMAT_BC7_UNORM, .NumChannels = 4 };
	CUmipmappedArray mipmap;
	CUDA_MEMCPY2D to, from;
	CUarray level;

	OK(cuMipmappedArrayCreate(&mipmap, &d, 3));
	OK(cuMipmappedArrayGetLevel(&level, mipmap, 1));
	to = to_array(w, level, 0, rows);
	from = from_array(w, level, 0, 4);
	OK(cuMemcpy2DAsync(&to, w->a));
	if (wrong)
		OK(WRONG(cuMemcpy2DAsync(&from, w->a)));
	else
		OK(cuMemcpy2DAsync(&from, w->a));
	OK(cuStreamSynchronize(w->a));
	OK(cuMipmappedArrayDestroy(mipmap));
}

MISTAKE(level_of_blocks_is_written_in_part, "uninitialized")
{
	copy_level(w, 3, true);
}

TWIN(level_of_blocks_is_written)
{
	copy_level(w, 4, false);
}

/* Elements of 4 normalized bytes. Nobody writes the last element. */
static void copy_normalized(struct program *w, unsigned int bytes, bool wrong)
{
	CUDA_ARRAY_DESCRIPTOR d = { .Width = 32, .Format = CU_AD_FORMAT_UNORM_INT8X4, .NumChannels = 4 };
	CUarray array;

	OK(cuArrayCreate(&array, &d));
	OK(cuMemcpyHtoAAsync(array, 0, w->pinned, bytes, w->a));
	if (wrong)
		OK(WRONG(cuMemcpyAtoHAsync(w->pinned + BYTES / 2, array, 0, ROW, w->a)));
	else
		OK(cuMemcpyAtoHAsync(w->pinned + BYTES / 2, array, 0, ROW, w->a));
	OK(cuStreamSynchronize(w->a));
	OK(cuArrayDestroy(array));
}

MISTAKE(normalized_elements_are_written_in_part, "uninitialized")
{
	copy_normalized(w, ROW - 4, true);
}

TWIN(normalized_elements_are_written)
{
	copy_normalized(w, ROW, false);
}

/* ---- the first API: its sizes have 32 bits, and <cuda.h> gives its names to later forms */

struct first_array {
	unsigned int width, height;
	CUarray_format format;
	unsigned int channels;
};

struct first_2d {
	unsigned int src_x, src_y;
	CUmemorytype src_type;
	void *src_host;
	unsigned int src_device;
	CUarray src_array;
	unsigned int src_pitch, dst_x, dst_y;
	CUmemorytype dst_type;
	void *dst_host;
	unsigned int dst_device;
	CUarray dst_array;
	unsigned int dst_pitch, width, height;
};

struct first_side_3d {
	unsigned int x, y, z, level;
	CUmemorytype type;
	void *host;
	unsigned int device;
	CUarray array;
	void *reserved;
	unsigned int pitch, height;
};

struct first_3d {
	struct first_side_3d src, dst;
	unsigned int width, height, depth;
};

static void *first(const char *name)
{
	void *function;

	OK(cuGetProcAddress(name, &function, 2000, 0, NULL));
	return function;
}

typedef CUresult (*create_t)(CUarray *array, const struct first_array *descriptor);
typedef CUresult (*to_array_t)(CUarray array, unsigned int at, const void *from, unsigned int bytes, CUstream stream);
typedef CUresult (*from_array_t)(void *to, CUarray array, unsigned int at, unsigned int bytes, CUstream stream);
typedef CUresult (*copy_2d_t)(const struct first_2d *rows, CUstream stream);
typedef CUresult (*copy_3d_t)(const struct first_3d *slices, CUstream stream);

#define CREATE		((create_t)first("cuArrayCreate"))
#define TO_ARRAY	((to_array_t)first("cuMemcpyHtoAAsync"))
#define FROM_ARRAY	((from_array_t)first("cuMemcpyAtoHAsync"))
#define COPY_2D		((copy_2d_t)first("cuMemcpy2DAsync"))
#define COPY_3D		((copy_3d_t)first("cuMemcpy3DAsync"))

static CUarray first_array(void)
{
	const struct first_array d = {
		.width = ROW, .height = ROWS, .format = CU_AD_FORMAT_UNSIGNED_INT8, .channels = 1,
	};
	CUarray array;

	OK(CREATE(&array, &d));
	return array;
}

MISTAKE(first_api_leaves_an_array, "leak")
{
	const struct first_array d = { .width = ROW, .format = CU_AD_FORMAT_UNSIGNED_INT8, .channels = 1 };
	create_t create = CREATE;
	CUarray array;

	OK(WRONG(create(&array, &d)));
}

MISTAKE(first_api_reads_an_array_too_early, "race")
{
	from_array_t read = FROM_ARRAY;
	CUarray array = first_array();

	OK(TO_ARRAY(array, 0, w->pinned, ROW, w->a));
	OK(WRONG(read(w->pinned + ROW, array, 0, ROW, w->b)));
	OK(cuCtxSynchronize());
	OK(cuArrayDestroy(array));
}

TWIN(first_api_reads_an_array_in_order)
{
	CUarray array = first_array();

	OK(TO_ARRAY(array, 0, w->pinned, ROW, w->a));
	OK(FROM_ARRAY(w->pinned + ROW, array, 0, ROW, w->a));
	OK(cuCtxSynchronize());
	OK(cuArrayDestroy(array));
}

/* Write rows in one stream, and read the first half of them in another one. */
static void copy_2d_first(struct program *w, unsigned int row)
{
	CUarray array = first_array();
	struct first_2d to = {
		.src_type = CU_MEMORYTYPE_HOST, .src_host = w->pinned, .src_pitch = ROW,
		.dst_type = CU_MEMORYTYPE_ARRAY, .dst_array = array, .width = ROW, .height = ROWS,
	};
	struct first_2d from = {
		.src_type = CU_MEMORYTYPE_ARRAY, .src_array = array,
		.dst_type = CU_MEMORYTYPE_HOST, .dst_host = w->pinned + BYTES / 2, .dst_pitch = ROW,
		.width = ROW, .height = ROWS / 2,
	};
	copy_2d_t copy = COPY_2D;

	OK(copy(&to, w->a));
	OK(cuStreamSynchronize(w->a));
	to.dst_y = row;
	to.height = ROWS / 2;
	OK(copy(&to, w->a));
	OK(WRONG(copy(&from, w->b)));
	OK(cuCtxSynchronize());
	OK(cuArrayDestroy(array));
}

MISTAKE(first_api_copies_the_same_rows, "race")
{
	copy_2d_first(w, ROWS / 2 - 1);
}

TWIN(first_api_copies_other_rows)
{
	copy_2d_first(w, ROWS / 2);
}

/* The same for slices, whose rows lie in pinned memory. */
static void copy_3d_first(struct program *w, unsigned int slice)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {
		.Width = ROW, .Height = 2, .Depth = 4, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1,
	};
	struct first_3d to = {
		.src = { .type = CU_MEMORYTYPE_HOST, .host = w->pinned, .pitch = ROW, .height = 2 },
		.dst = { .type = CU_MEMORYTYPE_ARRAY }, .width = ROW, .height = 2, .depth = 4,
	};
	struct first_3d from = {
		.src = { .type = CU_MEMORYTYPE_ARRAY },
		.dst = { .type = CU_MEMORYTYPE_HOST, .host = w->pinned + BYTES / 2, .pitch = ROW, .height = 2 },
		.width = ROW, .height = 2, .depth = 2,
	};
	copy_3d_t copy = COPY_3D;
	CUarray array;

	OK(cuArray3DCreate(&array, &d));
	to.dst.array = from.src.array = array;
	OK(copy(&to, w->a));
	OK(cuStreamSynchronize(w->a));
	to.dst.z = slice;
	to.depth = 2;
	OK(copy(&to, w->a));
	OK(WRONG(copy(&from, w->b)));
	OK(cuCtxSynchronize());
	OK(cuArrayDestroy(array));
}

MISTAKE(first_api_copies_the_same_slices, "race")
{
	copy_3d_first(w, 1);
}

TWIN(first_api_copies_other_slices)
{
	copy_3d_first(w, 2);
}

TEST_HARNESS_MAIN
