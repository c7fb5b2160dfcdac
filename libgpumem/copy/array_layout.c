// SPDX-License-Identifier: MIT
/*
 * Layouts of arrays: where the elements of an array, its planes and its levels lie.
 *
 * Owns nothing. There are two layouts of a level:
 *
 *   rows    A row takes as many bytes as its elements, rounded up to ROW_ALIGN. Rows and slices follow each other.
 *           Levels and planes follow each other, each aligned to PART_ALIGN; all layers of a level lie together.
 *           Arrays with memory of their own and arrays whose mapping is deferred lie in rows.
 *   tiles   A level of a sparse array of at least a tile: strips of tiles (box.h). A layer, or the slices of a
 *           tile's depth, are a group. The tiles at the borders of the array are whole.
 *
 * The levels of a sparse array that are smaller than a tile are its tail. They lie in rows, without gaps. Each
 * layer has a tail, after the tiles of all layers, with a part of each such level. If the first level is smaller
 * than a tile, all levels of all layers are one tail, which lies as an array with memory does. So does an array
 * of planes: its tiles cannot be mapped. A deferred array is one tail, too, when it is mapped.
 *
 * The sizes that sparse and deferred arrays report are of these layouts, in units of TILE, as on devices.
 *
 * Locks: none; the caller makes the array.
 */
#include "copy/array.h"

#define ROW_ALIGN	32u

static uint64_t at_least_1(uint64_t extent)
{
	return extent ? extent : 1;
}

static uint64_t count_of(uint64_t extent, uint64_t unit)
{
	return (at_least_1(extent) + unit - 1) / unit;
}

/* ---- rows */

void array_lay_out(CUarray array, CUcontext ctx)
{
	const CUDA_ARRAY3D_DESCRIPTOR *d = &array->desc;
	const struct array_format *f = array_format(d->Format);
	struct array_layout *l = &array->layout;

	l->ctx = ctx;
	l->grain = 1;
	/* An array of planes has no rows of its own. */
	if (f->planes)
		return;
	l->element = element_bytes(f, d->NumChannels);
	l->grain = f->block > 1 ? l->element : 1;
	l->row = count_of(d->Width, f->block) * l->element;
	l->rows = count_of(d->Height, f->block);
	l->slices = at_least_1(d->Depth);
	l->pitch = round_up(l->row, ROW_ALIGN);
	l->slice = l->pitch * l->rows;
	array->bytes = l->slice * l->slices;
}

void array_place(CUarray array, uint64_t base)
{
	unsigned int i;

	array->layout.base = base;
	for (i = 0; i < MAX_PLANES && array->plane[i]; i++) {
		array_place(array->plane[i], base);
		base += round_up(array->plane[i]->bytes, PART_ALIGN);
	}
}

void mipmap_place(CUmipmappedArray mipmap, uint64_t base)
{
	unsigned int i;

	for (i = 0; i < mipmap->levels; i++) {
		array_place(mipmap->level[i], base);
		base += round_up(mipmap->level[i]->bytes, PART_ALIGN);
	}
}

/* ---- tiles */

static bool less_than_tile(const CUDA_ARRAY3D_DESCRIPTOR *d, const unsigned int tile[3])
{
	return d->Width < tile[0] || d->Height < tile[1] || (tile[2] > 1 && d->Depth < tile[2]);
}

/* The first level that is smaller than a tile, or the number of levels. */
static unsigned int first_in_tail(CUarray *level, unsigned int levels, const unsigned int tile[3])
{
	unsigned int i;

	for (i = 0; i < levels; i++)
		if (less_than_tile(&level[i]->desc, tile))
			break;
	return i;
}

/* Bytes of the levels from @first on in one tail. */
static uint64_t tail_bytes(CUarray *level, unsigned int levels, unsigned int first)
{
	uint64_t bytes = 0;
	unsigned int i;

	for (i = first; i < levels; i++) {
		const struct array_layout *l = &level[i]->layout;

		bytes += l->pitch * l->rows * (array_layered(&level[i]->desc) ? 1 : l->slices);
	}
	return round_up(bytes, TILE);
}

/* Lay a level out in tiles from @base on; returns where it ends. */
static uint64_t tile_level(CUarray array, const unsigned int tile[3], uint64_t base)
{
	const struct array_format *f = array_format(array->desc.Format);
	struct array_layout *l = &array->layout;
	uint64_t strips, groups;

	l->base = base;
	l->tiling.row = tile[0] / f->block * l->element;
	l->tiling.slices = tile[2];
	l->tiling.strip = count_of(array->desc.Height, tile[1]) * TILE;
	strips = count_of(array->desc.Width, tile[0]);
	groups = count_of(l->slices, tile[2]);
	l->tiling.group = strips * l->tiling.strip;
	l->slice = l->tiling.row;
	l->pitch = l->slice * tile[2];
	return base + groups * l->tiling.group;
}

/* All bytes are one tail. */
static void one_tail(struct array_memory *memory, uint64_t bytes)
{
	memory->length = memory->tail_bytes = round_up(bytes, TILE);
	memory->tails = 1;
}

static void lay_out_levels(struct array_memory *memory, CUarray *level, unsigned int levels,
			   const unsigned int tile[3])
{
	unsigned int first = first_in_tail(level, levels, tile), i;
	uint64_t stride = tail_bytes(level, levels, first), at = 0;
	bool layered = array_layered(&level[0]->desc);

	for (i = 0; i < first; i++)
		at = tile_level(level[i], tile, at);
	memory->tiled = first;
	memory->tail = at;
	memory->tail_bytes = stride;
	memory->tails = !stride ? 0 : layered ? level[0]->layout.slices : 1;
	memory->length = at + stride * memory->tails;
	for (; i < levels; i++) {
		struct array_layout *l = &level[i]->layout;

		l->base = at;
		at += l->slice * (layered ? 1 : l->slices);
		if (layered)
			l->slice = stride;
	}
}

void array_lay_out_sparse(CUarray array)
{
	unsigned int tile[3];

	array_tile(&array->desc, tile);
	if (array->desc.Flags & CUDA_ARRAY3D_SPARSE && array->plane[0]) {
		array->memory.length = round_up(array->bytes, TILE);
		array_place(array, 0);
	} else if (array->desc.Flags & CUDA_ARRAY3D_DEFERRED_MAPPING || less_than_tile(&array->desc, tile)) {
		one_tail(&array->memory, array->bytes);
		array_place(array, 0);
	} else {
		lay_out_levels(&array->memory, &array, 1, tile);
	}
}

void mipmap_lay_out_sparse(CUmipmappedArray mipmap)
{
	unsigned int tile[3];

	array_tile(&mipmap->desc, tile);
	if (mipmap->desc.Flags & CUDA_ARRAY3D_DEFERRED_MAPPING || less_than_tile(&mipmap->desc, tile)) {
		one_tail(&mipmap->memory, mipmap->bytes);
		mipmap_place(mipmap, 0);
	} else {
		lay_out_levels(&mipmap->memory, mipmap->level, mipmap->levels, tile);
	}
}

static void part_move(CUarray array, uint64_t by)
{
	unsigned int i;

	array->layout.base += by;
	array->layout.dark = true;
	for (i = 0; i < MAX_PLANES && array->plane[i]; i++)
		part_move(array->plane[i], by);
}

void array_move(CUarray array, uint64_t base)
{
	array->memory.range = base;
	array->memory.tail += base;
	part_move(array, base);
}

void mipmap_move(CUmipmappedArray mipmap, uint64_t base)
{
	unsigned int i;

	mipmap->memory.range = base;
	mipmap->memory.tail += base;
	for (i = 0; i < mipmap->levels; i++)
		part_move(mipmap->level[i], base);
}

/* ---- properties */

/* If the first level is smaller than a tile, all levels of all layers are the tail. */
static void sparse_begin(CUDA_ARRAY_SPARSE_PROPERTIES *p, const CUDA_ARRAY3D_DESCRIPTOR *desc,
			 uint64_t bytes)
{
	unsigned int tile[3];

	array_tile(desc, tile);
	memset(p, 0, sizeof(*p));
	p->tileExtent.width = tile[0];
	p->tileExtent.height = tile[1];
	p->tileExtent.depth = tile[2];
	if (less_than_tile(desc, tile)) {
		p->miptailSize = round_up(bytes, TILE);
		p->flags = CU_ARRAY_SPARSE_PROPERTIES_SINGLE_MIPTAIL;
	}
}

CUresult array_sparse(CUDA_ARRAY_SPARSE_PROPERTIES *props, CUarray array)
{
	if (!array_valid(array))
		return CUDA_ERROR_INVALID_HANDLE;
	if (array->kind != ARRAY_WHOLE || !(array->desc.Flags & CUDA_ARRAY3D_SPARSE))
		return CUDA_ERROR_INVALID_VALUE;
	sparse_begin(props, &array->desc, array->bytes);
	return CUDA_SUCCESS;
}

CUresult mipmap_sparse(CUDA_ARRAY_SPARSE_PROPERTIES *props, CUmipmappedArray mipmap)
{
	if (!mipmap_valid(mipmap))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!(mipmap->desc.Flags & CUDA_ARRAY3D_SPARSE))
		return CUDA_ERROR_INVALID_VALUE;
	sparse_begin(props, &mipmap->desc, mipmap->bytes);
	if (!props->flags) {
		props->miptailFirstLevel = mipmap->memory.tiled;
		props->miptailSize = mipmap->memory.tail_bytes;
	}
	return CUDA_SUCCESS;
}

static CUresult requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *req, unsigned int flags,
			     uint64_t bytes, CUdevice device)
{
	if (!(flags & CUDA_ARRAY3D_DEFERRED_MAPPING) || !device_valid(device))
		return CUDA_ERROR_INVALID_VALUE;
	memset(req, 0, sizeof(*req));
	req->size = round_up(bytes, TILE);
	req->alignment = TILE;
	return CUDA_SUCCESS;
}

CUresult array_requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *req, CUarray array, CUdevice device)
{
	if (!array_valid(array))
		return CUDA_ERROR_INVALID_HANDLE;
	if (array->kind != ARRAY_WHOLE)
		return CUDA_ERROR_INVALID_VALUE;
	return requirements(req, array->desc.Flags, array->bytes, device);
}

CUresult mipmap_requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *req, CUmipmappedArray mipmap,
			     CUdevice device)
{
	if (!mipmap_valid(mipmap))
		return CUDA_ERROR_INVALID_HANDLE;
	return requirements(req, mipmap->desc.Flags, mipmap->bytes, device);
}
