// SPDX-License-Identifier: MIT
/*
 * The runtime API's chapter "Memory Management": copies of rows from and to arrays. cuda_rt_memcpy.c copies boxes.
 *
 * Owns nothing. Positions and widths are bytes. A copy without bytes succeeds whatever its other arguments are. The
 * kind must agree with the ends, or be cudaMemcpyDefault; otherwise the copy is cudaErrorInvalidMemcpyDirection.
 *
 * The deprecated functions without "2D" copy a number of bytes that continues in the array's next row. They are a
 * copy of the rest of the first row, one of whole rows, and one of the beginning of the last row. As in CUDA's
 * runtime the copies before one that fails have happened, and a kind that is no enumerator copies nothing.
 */
#include "runtime/cuda_rt_array.h"

/* The stream of a copy, and whether the call returns before the copy is done. */
struct lane {
	cudaStream_t stream;
	bool async;
	bool own;
};

static cudaError_t submit_rows(const CUDA_MEMCPY2D *c, const struct lane *lane)
{
	const bool own = lane->own;

	return rt_code(lane->async ? SZ(cuMemcpy2DAsync_v2)(c, lane->stream) :
		       DS(cuMemcpy2DUnaligned_v2)(c));
}

/* One end of a copy: an array, or rows of memory. The members are as in CUDA_MEMCPY2D. */
struct end {
	cudaArray_const_t array;
	size_t x, y;
	CUmemorytype type;
	const void *ptr;
	size_t pitch;
};

static struct end place_in_array(cudaArray_const_t array, size_t x, size_t y)
{
	return (struct end) { .array = array, .x = x, .y = y, .type = CU_MEMORYTYPE_ARRAY };
}

static struct end place_in_memory(const void *ptr, size_t pitch, CUmemorytype type)
{
	return (struct end) { .ptr = ptr, .pitch = pitch, .type = type };
}

static cudaError_t copy_rows(const struct end *dst, const struct end *src, size_t width, size_t height,
			     const struct lane *lane)
{
	CUDA_MEMCPY2D c = {
		.srcXInBytes = src->x, .srcY = src->y, .srcMemoryType = src->type,
		.srcHost = src->ptr, .srcDevice = rt_addr(src->ptr), .srcArray = rt_array(src->array),
		.srcPitch = src->pitch,
		.dstXInBytes = dst->x, .dstY = dst->y, .dstMemoryType = dst->type,
		.dstHost = (void *)dst->ptr, .dstDevice = rt_addr(dst->ptr),
		.dstArray = rt_array(dst->array), .dstPitch = dst->pitch,
		.WidthInBytes = width, .Height = height,
	};

	return submit_rows(&c, lane);
}

/* The memory type of the end that is not an array. @host: the kind that says that this end is the host. */
static cudaError_t memory_type(CUmemorytype *type, enum cudaMemcpyKind kind, enum cudaMemcpyKind host)
{
	if (kind == host)
		*type = CU_MEMORYTYPE_HOST;
	else if (kind == cudaMemcpyDeviceToDevice)
		*type = CU_MEMORYTYPE_DEVICE;
	else if (kind == cudaMemcpyDefault)
		*type = CU_MEMORYTYPE_UNIFIED;
	else
		return cudaErrorInvalidMemcpyDirection;
	return cudaSuccess;
}

/* ---- rows */

/*
 * Check a copy of rows between an array and memory, and find the memory's type. @host: as in memory_type(). A pitch
 * does not matter to a copy of one row. The driver refuses other pitches of one row that are too small.
 */
static cudaError_t check_rows(CUmemorytype *type, cudaArray_const_t array, size_t pitch, size_t width,
			      size_t height, enum cudaMemcpyKind kind, enum cudaMemcpyKind host)
{
	cudaError_t error;

	if (height > 1 && pitch < width)
		return cudaErrorInvalidPitchValue;
	error = memory_type(type, kind, host);
	if (error)
		return error;
	return array ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

static cudaError_t to_array(cudaArray_t dst, size_t x, size_t y, const void *src, size_t pitch,
			    size_t width, size_t height, enum cudaMemcpyKind kind, struct lane lane)
{
	struct end to = place_in_array(dst, x, y), from;
	CUmemorytype type;
	cudaError_t error;

	if (!width || !height)
		return cudaSuccess;
	error = check_rows(&type, dst, pitch, width, height, kind, cudaMemcpyHostToDevice);
	if (error)
		return error;
	from = place_in_memory(src, pitch, type);
	return copy_rows(&to, &from, width, height, &lane);
}

static cudaError_t from_array(void *dst, size_t pitch, cudaArray_const_t src, size_t x, size_t y,
			      size_t width, size_t height, enum cudaMemcpyKind kind, struct lane lane)
{
	struct end from = place_in_array(src, x, y), to;
	CUmemorytype type;
	cudaError_t error;

	if (!width || !height)
		return cudaSuccess;
	error = check_rows(&type, src, pitch, width, height, kind, cudaMemcpyDeviceToHost);
	if (error)
		return error;
	to = place_in_memory(dst, pitch, type);
	return copy_rows(&to, &from, width, height, &lane);
}

#define SYNC	((struct lane) { .own = own })
#define ASYNC	((struct lane) { .stream = stream, .async = true, .own = own })

/**
 * cudaMemcpy2DToArray - copy @height rows of @width bytes to an array
 * @x: a position in bytes
 * @y: a row, of blocks in block compressed formats
 *
 * Return: cudaErrorInvalidResourceHandle for no array, cudaErrorInvalidPitchValue for a pitch less than the width,
 * cudaErrorInvalidMemcpyDirection, cudaErrorInvalidValue.
 */
RT_PTDS(cudaMemcpy2DToArray, (cudaArray_t dst, size_t x, size_t y, const void *src, size_t src_pitch,
			      size_t width, size_t height, enum cudaMemcpyKind kind),
	to_array(dst, x, y, src, src_pitch, width, height, kind, SYNC))

/** cudaMemcpy2DToArrayAsync - the same in stream order */
RT_PTSZ(cudaMemcpy2DToArrayAsync, (cudaArray_t dst, size_t x, size_t y, const void *src,
				   size_t src_pitch, size_t width, size_t height,
				   enum cudaMemcpyKind kind, cudaStream_t stream),
	to_array(dst, x, y, src, src_pitch, width, height, kind, ASYNC))

/** cudaMemcpy2DFromArray - copy @height rows of @width bytes from an array; errors as cudaMemcpy2DToArray() */
RT_PTDS(cudaMemcpy2DFromArray, (void *dst, size_t dst_pitch, cudaArray_const_t src, size_t x, size_t y,
				size_t width, size_t height, enum cudaMemcpyKind kind),
	from_array(dst, dst_pitch, src, x, y, width, height, kind, SYNC))

/** cudaMemcpy2DFromArrayAsync - the same in stream order */
RT_PTSZ(cudaMemcpy2DFromArrayAsync, (void *dst, size_t dst_pitch, cudaArray_const_t src, size_t x,
				     size_t y, size_t width, size_t height,
				     enum cudaMemcpyKind kind, cudaStream_t stream),
	from_array(dst, dst_pitch, src, x, y, width, height, kind, ASYNC))

/* The checks of the copies between arrays that come before all others. */
static cudaError_t between_arrays(cudaArray_const_t src, enum cudaMemcpyKind kind)
{
	if (!src)
		return cudaErrorInvalidResourceHandle;
	return kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault ?
	       cudaSuccess : cudaErrorInvalidMemcpyDirection;
}

static cudaError_t array_to_array(struct end dst, struct end src, size_t width, size_t height,
				  enum cudaMemcpyKind kind, struct lane lane)
{
	cudaError_t error;

	if (!width || !height)
		return cudaSuccess;
	error = between_arrays(src.array, kind);
	return error ? error : copy_rows(&dst, &src, width, height, &lane);
}

/** cudaMemcpy2DArrayToArray - copy rows between arrays, whose elements may differ */
RT_PTDS(cudaMemcpy2DArrayToArray, (cudaArray_t dst, size_t dst_x, size_t dst_y, cudaArray_const_t src,
				   size_t src_x, size_t src_y, size_t width, size_t height,
				   enum cudaMemcpyKind kind),
	array_to_array(place_in_array(dst, dst_x, dst_y), place_in_array(src, src_x, src_y), width, height, kind,
		       SYNC))

/* ---- bytes that continue in the next row */

/* The next copy of a run of bytes in an array. */
struct piece {
	size_t width, height;
};

/*
 * The piece at position @x of a row, of @count bytes: the rest of the row, or as many whole rows as there are, or
 * the beginning of a row. A position behind the row's end yields a piece that the driver refuses.
 */
static struct piece run_piece(const struct rt_shape *shape, size_t x, size_t count)
{
	size_t rest = x > shape->row ? count : shape->row - x;

	if (x || count < shape->row)
		return (struct piece) { count < rest ? count : rest, 1 };
	return (struct piece) { shape->row, count / shape->row };
}

/* Copy between a run of bytes in @array and consecutive memory. @to: the array is the destination. */
static cudaError_t copy_run(struct end array, struct end memory, size_t count, bool to, struct lane lane)
{
	struct rt_shape shape;
	cudaError_t error = rt_array_shape(&shape, array.array);

	memory.pitch = shape.row;
	while (!error && count) {
		struct piece p = run_piece(&shape, array.x, count);

		/* An empty piece: the position is the end of a row. */
		if (p.width)
			error = to ? copy_rows(&array, &memory, p.width, p.height, &lane) :
				     copy_rows(&memory, &array, p.width, p.height, &lane);
		memory.ptr = (const char *)memory.ptr + p.width * p.height;
		count -= p.width * p.height;
		array.x = 0;
		array.y += p.height;
	}
	return error;
}

/* CUDA's runtime copies nothing and reports no error if the kind is no enumerator. */
static bool kind_unknown(enum cudaMemcpyKind kind)
{
	return (unsigned int)kind > cudaMemcpyDefault;
}

static cudaError_t run_to_array(cudaArray_t dst, size_t x, size_t y, const void *src, size_t count,
				enum cudaMemcpyKind kind, struct lane lane)
{
	CUmemorytype type;
	cudaError_t error;

	if (!count || kind_unknown(kind))
		return cudaSuccess;
	if (!dst)
		return cudaErrorInvalidResourceHandle;
	error = memory_type(&type, kind, cudaMemcpyHostToDevice);
	if (error)
		return error;
	return copy_run(place_in_array(dst, x, y), place_in_memory(src, 0, type), count, true, lane);
}

static cudaError_t run_from_array(void *dst, cudaArray_const_t src, size_t x, size_t y, size_t count,
				  enum cudaMemcpyKind kind, struct lane lane)
{
	CUmemorytype type;
	cudaError_t error;

	if (!count || kind_unknown(kind))
		return cudaSuccess;
	if (!src)
		return cudaErrorInvalidResourceHandle;
	error = memory_type(&type, kind, cudaMemcpyDeviceToHost);
	if (error)
		return error;
	return copy_run(place_in_array(src, x, y), place_in_memory(dst, 0, type), count, false, lane);
}

/** cudaMemcpyToArray - copy @count bytes to an array, from a position in a row on */
RT_PTDS(cudaMemcpyToArray, (cudaArray_t dst, size_t x, size_t y, const void *src, size_t count,
			    enum cudaMemcpyKind kind),
	run_to_array(dst, x, y, src, count, kind, SYNC))

/** cudaMemcpyToArrayAsync - the same in stream order */
RT_PTSZ(cudaMemcpyToArrayAsync, (cudaArray_t dst, size_t x, size_t y, const void *src, size_t count,
				 enum cudaMemcpyKind kind, cudaStream_t stream),
	run_to_array(dst, x, y, src, count, kind, ASYNC))

/** cudaMemcpyFromArray - copy @count bytes from an array, from a position in a row on */
RT_PTDS(cudaMemcpyFromArray, (void *dst, cudaArray_const_t src, size_t x, size_t y, size_t count,
			      enum cudaMemcpyKind kind),
	run_from_array(dst, src, x, y, count, kind, SYNC))

/** cudaMemcpyFromArrayAsync - the same in stream order */
RT_PTSZ(cudaMemcpyFromArrayAsync, (void *dst, cudaArray_const_t src, size_t x, size_t y, size_t count,
				   enum cudaMemcpyKind kind, cudaStream_t stream),
	run_from_array(dst, src, x, y, count, kind, ASYNC))

/* Whether a run of bytes lies in an array. */
static bool run_inside(const struct rt_shape *shape, const struct end *e, size_t count)
{
	size_t first, last;

	return e->x <= shape->row && !__builtin_mul_overflow(e->y, shape->row, &first) &&
	       !__builtin_add_overflow(first, e->x, &first) &&
	       !__builtin_add_overflow(first, count, &last) && last <= shape->row * shape->rows;
}

/* Move a position by whole bytes of the run. */
static void run_advance(const struct rt_shape *shape, struct end *e, size_t bytes)
{
	e->y += (e->x + bytes) / shape->row;
	e->x = (e->x + bytes) % shape->row;
}

/* Copy a piece of the destination, whose bytes are in one or more rows of the source. Advances both ends. */
static cudaError_t copy_piece(struct end *dst, const struct rt_shape *to, struct end *src,
			      const struct rt_shape *from, struct piece p, const struct lane *lane)
{
	size_t left = p.width * p.height;
	cudaError_t error = cudaSuccess;

	if (p.height > 1 && to->row == from->row && !src->x) {
		error = copy_rows(dst, src, p.width, p.height, lane);
		run_advance(to, dst, left);
		run_advance(from, src, left);
		return error;
	}
	while (!error && left) {
		size_t n = to->row - dst->x, rest = from->row - src->x;

		if (n > rest)
			n = rest;
		if (n > left)
			n = left;
		error = copy_rows(dst, src, n, 1, lane);
		run_advance(to, dst, n);
		run_advance(from, src, n);
		left -= n;
	}
	return error;
}

/* The source is checked as a whole, and the destination piece by piece. */
static cudaError_t run_between(struct end dst, struct end src, size_t count, enum cudaMemcpyKind kind,
			       struct lane lane)
{
	struct rt_shape to, from;
	cudaError_t error;

	if (!count)
		return cudaSuccess;
	error = between_arrays(src.array, kind);
	if (!error)
		error = rt_array_shape(&from, src.array);
	if (!error)
		error = rt_array_shape(&to, dst.array);
	if (!error && (!run_inside(&from, &src, count) || dst.x > to.row))
		error = cudaErrorInvalidValue;
	if (error)
		return error;
	run_advance(&from, &src, 0);
	run_advance(&to, &dst, 0);
	while (!error && count) {
		struct piece p = run_piece(&to, dst.x, count);

		error = run_inside(&to, &dst, p.width * p.height) ?
			copy_piece(&dst, &to, &src, &from, p, &lane) : cudaErrorInvalidValue;
		count -= p.width * p.height;
	}
	return error;
}

/** cudaMemcpyArrayToArray - copy @count bytes between arrays, from a position in a row on each */
RT_PTDS(cudaMemcpyArrayToArray, (cudaArray_t dst, size_t dst_x, size_t dst_y, cudaArray_const_t src,
				 size_t src_x, size_t src_y, size_t count, enum cudaMemcpyKind kind),
	run_between(place_in_array(dst, dst_x, dst_y), place_in_array(src, src_x, src_y), count, kind, SYNC))
