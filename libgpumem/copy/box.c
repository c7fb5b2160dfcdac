// SPDX-License-Identifier: MIT
/*
 * Copies of boxes (box.h): descriptors of 2D and 3D copies, linear copies of arrays, and their checks. memcpy.c
 * copies.
 *
 * Rules
 *
 *   - A box without bytes is a success, whatever its pointers and arrays.
 *   - Addresses: a pitch of 0 means the least possible pitch, a height of 0 the least possible height. The box
 *     must lie in one allocation. The level is ignored.
 *   - Arrays: the box must lie inside the array; pitch and height are ignored, the level must be 0. Positions
 *     and widths need not be multiples of an element. In block formats they must be multiples of a block.
 *     Linear copies reach the first row only.
 *   - Multi-planar arrays are copied plane by plane: the array of all planes has no bytes.
 *   - Holes of sparse arrays, and arrays with deferred mapping that are not mapped, read as zero; writes are
 *     dropped.
 *
 * Locks: none.
 */
#include "copy/array.h"
#include "copy/box.h"

#define MAX_PITCH	0x7fffffffull

/* ---- sides */

static uint64_t side_addr(const struct side *side)
{
	return side->type == CU_MEMORYTYPE_HOST ? (uintptr_t)side->host : side->device;
}

/* Whether two addresses are in the same alloc, or both outside the arena. An offset must not leave its alloc. */
static bool same_alloc(uint64_t base, uint64_t addr)
{
	struct span from, to;

	if (base == addr || !(vm_reserved(base) || vm_reserved(addr)))
		return true;
	/* The copy itself may go over several mappings. */
	return vm_lookup(base, &from) && vm_lookup(addr, &to) &&
	       (from.id == to.id || from.flags & to.flags & ALLOC_MAPPED);
}

/* Where a side begins and how its rows and slices lie. */
static CUresult side_geometry(const struct copy *copy, struct copy_end *end,
			      const struct side *side)
{
	uint64_t least, height, skip, above;

	if (__builtin_add_overflow(copy->width, side->x, &least))
		return CUDA_ERROR_INVALID_VALUE;
	end->pitch = side->pitch ? side->pitch : least;
	if (end->pitch < least || __builtin_mul_overflow(side->y, end->pitch, &skip) ||
	    __builtin_add_overflow(skip, side->x, &skip))
		return CUDA_ERROR_INVALID_VALUE;
	if (side->height || side->z || copy->depth > 1) {
		if (__builtin_add_overflow(copy->height, side->y, &least))
			return CUDA_ERROR_INVALID_VALUE;
		height = side->height ? side->height : least;
		if (height < least || __builtin_mul_overflow(height, end->pitch, &end->slice) ||
		    __builtin_mul_overflow(side->z, end->slice, &above) ||
		    __builtin_add_overflow(skip, above, &skip))
			return CUDA_ERROR_INVALID_VALUE;
	}
	end->addr = side_addr(side);
	if (!end->addr || __builtin_add_overflow(end->addr, skip, &end->addr) ||
	    !same_alloc(side_addr(side), end->addr))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* The enum end_flags of a side that is no array. */
static unsigned int side_kind(const struct side *side)
{
	switch (side->type) {
	case CU_MEMORYTYPE_DEVICE:
		return END_DEVICE;
	case CU_MEMORYTYPE_HOST:
		return END_DEVICE | END_HOST | END_NAMED_HOST;
	default:
		return END_DEVICE | END_HOST;
	}
}

static CUresult side_memory(const struct copy *copy, struct copy_end *end, const struct side *side)
{
	CUresult result = side_geometry(copy, end, side);

	if (!result)
		result = copy_end_find(copy, end, side_kind(side));
	if (!result && end->pitch > MAX_PITCH &&
	    !(end->host && copy->height == 1 && copy->depth <= 1))
		result = CUDA_ERROR_INVALID_VALUE;
	return result;
}

static bool inside(uint64_t from, uint64_t count, uint64_t size)
{
	return from <= size && count <= size - from;
}

static CUresult side_array(const struct copy *copy, struct copy_end *end, const struct side *side)
{
	struct array_layout a;

	if (!side->array)
		return CUDA_ERROR_INVALID_VALUE;
	if (!array_layout(side->array, &a))
		return CUDA_ERROR_INVALID_HANDLE;
	if (side->level || !inside(side->x, copy->width, a.row) ||
	    !inside(side->y, copy->height, a.rows) || !inside(side->z, copy->depth, a.slices) ||
	    side->x % a.grain || copy->width % a.grain)
		return CUDA_ERROR_INVALID_VALUE;
	end->ctx = a.ctx;
	end->addr = a.base + side->y * a.pitch;
	end->pitch = a.pitch;
	end->slice = a.slice;
	end->dark = client.strict || a.dark;
	end->shared = a.shared;
	if (a.tiling.row) {
		end->tiling = a.tiling;
		end->tiles = a.base;
		end->x = side->x;
		end->z = side->z;
	} else {
		end->addr += side->z * a.slice + side->x;
	}
	return CUDA_SUCCESS;
}

static CUresult side_resolve(const struct copy *copy, struct copy_end *end, const struct side *side)
{
	switch (side->type) {
	case CU_MEMORYTYPE_HOST:
	case CU_MEMORYTYPE_DEVICE:
	case CU_MEMORYTYPE_UNIFIED:
		return side_memory(copy, end, side);
	case CU_MEMORYTYPE_ARRAY:
		return side_array(copy, end, side);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* ---- boxes */

CUresult box_resolve(const struct box *box, CUcontext reach, struct copy *copy)
{
	CUresult result;

	*copy = (struct copy){
		.dst.reach = box->dst.named ? box->dst.named : reach,
		.src.reach = box->src.named ? box->src.named : reach,
		.width = box->width, .height = box->height, .depth = box->depth,
	};
	result = side_resolve(copy, &copy->dst, &box->dst);
	return result ? result : side_resolve(copy, &copy->src, &box->src);
}

void box_flatten(struct copy *copy)
{
	if (copy->depth > 1 && !copy_tiled(copy) && copy->dst.slice == copy->height * copy->dst.pitch &&
	    copy->src.slice == copy->height * copy->src.pitch) {
		copy->height *= copy->depth;
		copy->depth = 1;
	}
}

CUresult box_run(CUstream stream, const struct copy *copy, unsigned int flags)
{
	struct copy flat = *copy;

	box_flatten(&flat);
	return copy_run(stream, &flat, flags);
}

CUresult box_copy(const struct box *box, CUstream handle, unsigned int flags)
{
	bool nothing = !box->width || !box->height || !box->depth;
	struct copy copy;
	CUstream stream;
	CUresult result;

	/* As recorded: the context of an array does not replace a current context. */
	if (box->dst.type == CU_MEMORYTYPE_ARRAY || box->src.type == CU_MEMORYTYPE_ARRAY)
		result = stream_get(handle, flags & CALL_OWN, &stream);
	else
		result = copy_stream(handle, flags, side_addr(&box->dst), side_addr(&box->src),
				     nothing, &stream);
	if (result || nothing)
		return result;
	result = box_resolve(box, copy_reach(stream), &copy);
	if (!result)
		result = copy_peer_wait(stream, &copy, flags);
	return result ? result : box_run(stream, &copy, flags);
}

/* ---- what the API calls them */

/* If there is no description of the copy, the context's error comes first. */
static CUresult no_copy(CUstream handle, unsigned int flags)
{
	CUstream stream;
	CUresult result = stream_get(handle, flags & CALL_OWN, &stream);

	return result ? result : CUDA_ERROR_INVALID_VALUE;
}

CUresult copy_2d(const CUDA_MEMCPY2D *c, CUstream handle, unsigned int flags)
{
	if (!c)
		return no_copy(handle, flags);

	const struct box box = {
		.dst = { .type = c->dstMemoryType, .host = c->dstHost, .device = c->dstDevice,
			 .array = c->dstArray, .pitch = c->dstPitch,
			 .x = c->dstXInBytes, .y = c->dstY },
		.src = { .type = c->srcMemoryType, .host = c->srcHost, .device = c->srcDevice,
			 .array = c->srcArray, .pitch = c->srcPitch,
			 .x = c->srcXInBytes, .y = c->srcY },
		.width = c->WidthInBytes, .height = c->Height, .depth = 1,
	};

	return box_copy(&box, handle, flags);
}

static struct box box_of_3d(const CUDA_MEMCPY3D *c)
{
	return (struct box){
		.dst = { .type = c->dstMemoryType, .host = c->dstHost, .device = c->dstDevice,
			 .array = c->dstArray, .pitch = c->dstPitch, .height = c->dstHeight,
			 .x = c->dstXInBytes, .y = c->dstY, .z = c->dstZ, .level = c->dstLOD },
		.src = { .type = c->srcMemoryType, .host = c->srcHost, .device = c->srcDevice,
			 .array = c->srcArray, .pitch = c->srcPitch, .height = c->srcHeight,
			 .x = c->srcXInBytes, .y = c->srcY, .z = c->srcZ, .level = c->srcLOD },
		.width = c->WidthInBytes, .height = c->Height, .depth = c->Depth,
	};
}

CUresult copy_3d(const CUDA_MEMCPY3D *c, CUstream handle, unsigned int flags)
{
	struct box box;

	if (!c)
		return no_copy(handle, flags);
	box = box_of_3d(c);
	return box_copy(&box, handle, flags);
}

CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER *c, CUstream handle, unsigned int flags)
{
	CUDA_MEMCPY3D copy;
	struct box box;

	/* The contexts lie where CUDA_MEMCPY3D has reserved members. */
	_Static_assert(sizeof(*c) == sizeof(copy), "two layouts of the same");
	if (!c)
		return no_copy(handle, flags);
	memcpy(&copy, c, sizeof(copy));
	box = box_of_3d(&copy);
	box.dst.named = c->dstContext;
	box.src.named = c->srcContext;
	return box_copy(&box, handle, flags | CALL_PEER);
}

CUresult copy_array(CUarray dst_array, uint64_t dst, CUarray src_array, uint64_t src,
		    uint64_t bytes, CUstream handle, unsigned int flags)
{
	const struct box box = {
		.dst = { .type = CU_MEMORYTYPE_ARRAY, .array = dst_array, .x = dst },
		.src = { .type = CU_MEMORYTYPE_ARRAY, .array = src_array, .x = src },
		.width = bytes, .height = 1, .depth = 1,
	};

	return box_copy(&box, handle, flags);
}

CUresult copy_to_array(CUarray array, uint64_t offset, uint64_t src, unsigned int kind,
		       uint64_t bytes, CUstream handle, unsigned int flags)
{
	const struct box box = {
		.dst = { .type = CU_MEMORYTYPE_ARRAY, .array = array, .x = offset },
		.src = { .type = kind & END_HOST ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
			 .host = (void *)(uintptr_t)src, .device = src },
		.width = bytes, .height = 1, .depth = 1,
	};

	return box_copy(&box, handle, flags);
}

CUresult copy_from_array(uint64_t dst, unsigned int kind, CUarray array, uint64_t offset,
			 uint64_t bytes, CUstream handle, unsigned int flags)
{
	const struct box box = {
		.dst = { .type = kind & END_HOST ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
			 .host = (void *)(uintptr_t)dst, .device = dst },
		.src = { .type = CU_MEMORYTYPE_ARRAY, .array = array, .x = offset },
		.width = bytes, .height = 1, .depth = 1,
	};

	return box_copy(&box, handle, flags);
}
