// SPDX-License-Identifier: MIT
/*
 * cuMemMapArrayAsync(): binds tiles and tails of sparse and deferred arrays to memory, in stream order.
 *
 * Owns nothing for longer than a call is under way. A call checks all of its entries first and makes a map of
 * each: a box of tiles in a sparse range, and the memory of a handle. Then it has the kernel allocate what the
 * binds need (sparse_reserve()). A call that fails up to there has changed nothing; after that no bind fails for
 * want of memory.
 *
 * If the stream is idle and the maps are few, the calling thread binds. Otherwise a worker binds when the stream
 * has come to that place (work.c): work that was queued before sees the tiles as they were.
 *
 * A map holds its handle until it is bound, so that the program may release the handle. From then on the kernel
 * keeps the memory, tile by tile. An array that is destroyed ends its range, and with it all of its binds. Range
 * addresses are not used again, so a bind that comes too late changes nothing.
 *
 * Tiles of a box take their memory one after the other, columns first, then rows, then slices.
 *
 * As recorded on an H200: memory must have been created with CU_MEM_CREATE_USAGE_TILE_POOL, also for deferred
 * arrays. A deferred array is mapped as a tail, or by a box that is all of it. The offset of an unmap is ignored.
 *
 * Locks: vmm_lock for handles; the stream's lock while work is put.
 */
#include <stdlib.h>

#include "copy/array.h"

/* The calling thread binds at most so many runs of tiles. */
#define MOST_INLINE	64u

/* A box of tiles, and what it is bound to. */
struct tiles {
	uint64_t addr;			/* of the first tile */
	uint64_t strip, group;		/* bytes from one column, one group of slices to the next */
	uint64_t columns, rows, groups;	/* tiles */
	struct handle *handle;		/* held; NULL: make holes */
	uint64_t offset;		/* of the first tile's memory */
};

struct map_work {
	struct work work;
	unsigned int count;
	struct tiles maps[];
};

/* ---- binding */

/* Call @bind for each run of tiles that is contiguous in the range. */
static CUresult tiles_each(const struct tiles *map,
			   CUresult (*bind)(uint64_t addr, uint64_t length, uint32_t bo, uint64_t offset,
					    uint64_t step))
{
	CUresult result = CUDA_SUCCESS;
	uint64_t x, z;

	for (z = 0; !result && z < map->groups; z++)
		for (x = 0; !result && x < map->columns; x++)
			result = bind(map->addr + z * map->group + x * map->strip, map->rows * TILE,
				      map->handle ? map->handle->bo : 0,
				      map->offset + (z * map->rows * map->columns + x) * TILE,
				      map->columns * TILE);
	return result;
}

static CUresult reserve_run(uint64_t addr, uint64_t length, uint32_t bo, uint64_t offset, uint64_t step)
{
	(void)offset;
	(void)step;
	/* Holes need nothing. */
	return bo ? sparse_reserve(addr, length) : CUDA_SUCCESS;
}

static CUresult maps_bind(const struct map_work *work)
{
	CUresult result = CUDA_SUCCESS;
	unsigned int i;

	for (i = 0; !result && i < work->count; i++)
		result = tiles_each(&work->maps[i], sparse_bind);
	return result;
}

/* Give the handles of maps back. No lock is held. */
static void maps_end(struct work *arg)
{
	struct map_work *work = (struct map_work *)arg;
	unsigned int i;
	uint32_t bo;

	for (i = 0; i < work->count; i++) {
		if (!work->maps[i].handle)
			continue;
		lock_take(&vmm_lock);
		bo = handle_leave(work->maps[i].handle);
		lock_drop(&vmm_lock);
		if (bo)
			client_destroy_id(bo);
	}
}

static void maps_run(struct work *work, struct worker *worker, unsigned int item)
{
	CUresult result = maps_bind((struct map_work *)work);

	(void)worker;
	(void)item;
	if (result)
		work_fail(work, result);
}

/* ---- checking */

/* What an entry names. */
struct target {
	const CUDA_ARRAY3D_DESCRIPTOR *desc;
	const struct array_memory *memory;
	CUarray *level;
	unsigned int levels;
	CUcontext ctx;
};

static bool target_of(const CUarrayMapInfo *info, struct target *target)
{
	CUmipmappedArray mipmap = info->resource.mipmap;
	CUarray array = info->resource.array;

	if (info->resourceType == CU_RESOURCE_TYPE_ARRAY) {
		if (!array_valid(array) || array->kind != ARRAY_WHOLE)
			return false;
		*target = (struct target){ &array->desc, &array->memory, NULL, 1, array->layout.ctx };
	} else if (info->resourceType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY) {
		if (!mipmap_valid(mipmap))
			return false;
		*target = (struct target){ &mipmap->desc, &mipmap->memory, mipmap->level, mipmap->levels,
					   mipmap->ctx };
	} else {
		return false;
	}
	return array_ranged(target->desc);
}

/* One direction of a box, in elements, as tiles. The last tile may reach over the end of the array. */
static bool span_of(uint64_t offset, uint64_t extent, uint64_t size, uint64_t tile, uint64_t *first,
		    uint64_t *count)
{
	uint64_t end = offset + extent;

	if (!extent || offset % tile || end > round_up(size, tile) || (end % tile && end != size))
		return false;
	*first = offset / tile;
	*count = (extent + tile - 1) / tile;
	return true;
}

/* A range of bytes that is contiguous, as a column of tiles. */
static void tiles_column(struct tiles *map, uint64_t addr, uint64_t bytes)
{
	map->addr = addr;
	map->rows = bytes / TILE;
	map->columns = map->groups = 1;
}

/* A deferred array of one level and one layer can be mapped by a box that is all of it. */
static bool tiles_of_deferred(const CUarrayMapInfo *info, const struct target *target, struct tiles *map)
{
	const CUDA_ARRAY3D_DESCRIPTOR *d = target->desc;
	uint64_t height = d->Height ? d->Height : 1, depth = d->Depth ? d->Depth : 1;

	if (target->levels > 1 || info->subresource.sparseLevel.level ||
	    info->subresource.sparseLevel.layer || info->subresource.sparseLevel.offsetX ||
	    info->subresource.sparseLevel.offsetY || info->subresource.sparseLevel.offsetZ ||
	    info->subresource.sparseLevel.extentWidth != d->Width ||
	    info->subresource.sparseLevel.extentHeight != height ||
	    info->subresource.sparseLevel.extentDepth != depth || (array_layered(d) && depth > 1))
		return false;
	tiles_column(map, target->memory->tail, target->memory->tail_bytes);
	return true;
}

static bool tiles_of_level(const CUarrayMapInfo *info, const struct target *target, struct tiles *map)
{
	unsigned int level = info->subresource.sparseLevel.level;
	unsigned int layer = info->subresource.sparseLevel.layer;
	bool layered = array_layered(target->desc);
	const CUDA_ARRAY3D_DESCRIPTOR *d;
	const struct array_layout *l;
	uint64_t x, y, z, depth;
	unsigned int tile[3];

	if (target->desc->Flags & CUDA_ARRAY3D_DEFERRED_MAPPING)
		return tiles_of_deferred(info, target, map);
	if (level >= target->memory->tiled)
		return false;
	d = target->level ? &target->level[level]->desc : target->desc;
	l = target->level ? &target->level[level]->layout : &info->resource.array->layout;
	depth = d->Depth && !layered ? d->Depth : 1;
	array_tile(target->desc, tile);
	if (!span_of(info->subresource.sparseLevel.offsetX, info->subresource.sparseLevel.extentWidth,
		      d->Width, tile[0], &x, &map->columns) ||
	    !span_of(info->subresource.sparseLevel.offsetY, info->subresource.sparseLevel.extentHeight,
		      d->Height, tile[1], &y, &map->rows) ||
	    !span_of(info->subresource.sparseLevel.offsetZ, info->subresource.sparseLevel.extentDepth,
		      depth, tile[2], &z, &map->groups) ||
	    layer >= (layered ? d->Depth : 1))
		return false;
	map->strip = l->tiling.strip;
	map->group = l->tiling.group;
	map->addr = l->base + (z + layer) * map->group + x * map->strip + y * TILE;
	return true;
}

static bool tiles_of_tail(const CUarrayMapInfo *info, const struct target *target, struct tiles *map)
{
	uint64_t offset = info->subresource.miptail.offset, size = info->subresource.miptail.size;
	const struct array_memory *m = target->memory;

	if (info->subresource.miptail.layer >= m->tails || !size || (offset | size) % TILE ||
	    offset > m->tail_bytes || size > m->tail_bytes - offset)
		return false;
	tiles_column(map, m->tail + info->subresource.miptail.layer * m->tail_bytes + offset, size);
	return true;
}

/* Find the memory of a map, and hold its handle. */
static bool tiles_memory(const CUarrayMapInfo *info, CUdevice device, struct tiles *map)
{
	uint64_t bytes = map->columns * map->rows * map->groups * TILE;
	struct handle *handle;

	if (info->memOperationType == CU_MEM_OPERATION_TYPE_UNMAP)
		return !info->memHandle.memHandle;
	if (info->memOperationType != CU_MEM_OPERATION_TYPE_MAP || info->offset % TILE)
		return false;
	lock_take(&vmm_lock);
	handle = handle_find(info->memHandle.memHandle);
	if (handle && (handle_host(handle) || handle->device != device ||
		       !(handle->prop.allocFlags.usage & CU_MEM_CREATE_USAGE_TILE_POOL) ||
		       info->offset > handle->size || bytes > handle->size - info->offset))
		handle = NULL;
	if (handle)
		handle_use(handle);
	lock_drop(&vmm_lock);
	map->handle = handle;
	map->offset = info->offset;
	return handle;
}

static CUresult tiles_check(const CUarrayMapInfo *info, CUdevice device, struct tiles *map)
{
	struct target target;
	bool known = false;

	*map = (struct tiles){ .addr = 0 };
	if (info->flags || info->reserved[0] || info->reserved[1] ||
	    info->memHandleType != CU_MEM_HANDLE_TYPE_GENERIC ||
	    info->deviceBitMask != 1u << device || !target_of(info, &target) ||
	    target.ctx->device != device)
		return CUDA_ERROR_INVALID_VALUE;
	if (info->subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL)
		known = tiles_of_level(info, &target, map);
	else if (info->subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL)
		known = tiles_of_tail(info, &target, map);
	return known && tiles_memory(info, device, map) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- the call */

static uint64_t runs_of(const struct map_work *work)
{
	uint64_t runs = 0;
	unsigned int i;

	for (i = 0; i < work->count; i++)
		runs += work->maps[i].columns * work->maps[i].groups;
	return runs;
}

/* Put the work into the stream. *@put: the work was put, and is freed when it is done. */
static CUresult maps_put(CUstream stream, struct map_work *work, bool *put)
{
	CUresult result = work_reserve(stream->ctx->device, false);
	struct queue *queue;

	if (!result)
		result = stream_begin(stream);
	if (result)
		return result;
	result = stream_prepare(stream, &queue);
	if (!result) {
		result = work_put(queue, &work->work);
		*put = !result;
		result = ring_finish(queue, result);
	}
	lock_drop(&stream->lock);
	return result;
}

/* *@put: as for maps_put(). */
static CUresult maps_submit(CUstream stream, struct map_work *work, bool *put)
{
	CUresult result = CUDA_SUCCESS;

	if (runs_of(work) <= MOST_INLINE && stream_begin_idle(stream, 0, &result)) {
		/* What is submitted after this call comes after the bind without the lock, too. */
		lock_drop(&stream->lock);
		return maps_bind(work);
	}
	return result ? result : maps_put(stream, work, put);
}

CUresult array_map(const CUarrayMapInfo *list, unsigned int count, CUstream handle, bool own)
{
	struct map_work *work;
	bool put = false;
	CUstream stream;
	CUresult result = stream_get(handle, own, &stream);
	unsigned int i;

	if (result)
		return result;
	work = calloc(1, sizeof(*work) + count * sizeof(work->maps[0]));
	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	work->work = (struct work){
		.items = 1, .device = stream->ctx->device, .run = maps_run, .end = maps_end,
	};
	for (i = 0; !result && i < count; i++) {
		result = tiles_check(&list[i], stream->ctx->device, &work->maps[i]);
		work->count = i + !result;
	}
	for (i = 0; !result && i < count; i++)
		result = tiles_each(&work->maps[i], reserve_run);
	if (!result)
		result = maps_submit(stream, work, &put);
	if (put)
		return result;
	maps_end(&work->work);
	free(work);
	return result;
}
