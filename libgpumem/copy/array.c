// SPDX-License-Identifier: MIT
/*
 * Arrays and mipmapped arrays: their memory, parts and properties.
 *
 * Owns all CUarray_st and CUmipmappedArray_st. A structure is reused for the same type only, so its magic
 * number shows whether a handle is stale.
 *
 * An array's memory is an alloc of the array's context that no lookup finds. It is counted, and freed with its
 * context, as other memory is, but no call accepts an address in it. Sparse arrays, and arrays whose mapping is
 * deferred, have no memory.
 *
 * Layout: a row takes as many bytes as its elements, rounded up to ROW_ALIGN. Levels and planes follow each
 * other, each aligned to PART_ALIGN. All layers of a level lie together. The sizes that sparse and deferred
 * arrays report are of this layout, in units of TILE, as on devices.
 *
 * Destroying an array waits first for the work of the array's context, and for copies of other contexts that
 * read the array (free_wait.c). Destroying a part does nothing. A context that ends destroys its arrays.
 *
 * Locks: array_lock for the lists and for the validity of arrays; mem_lock nests inside. array_lock is not held
 * while memory is populated or given back. Under the lock, the creating thread then checks that the context
 * still lives, and adds the array to the list. Copies do not take array_lock.
 */
#include <stdlib.h>

#include "copy/array.h"

#define ROW_ALIGN	32u
#define PART_ALIGN	512u
#define TILE		(64ull << 10)

static struct lock array_lock;
static CUarray arrays, free_arrays;		/* array_lock */
static CUmipmappedArray mipmaps, free_mipmaps;	/* array_lock */
static uint64_t last_array_id;		/* array_lock */

/* ---- structures; array_lock is held */

static CUarray array_new(enum array_kind kind, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	CUarray array = free_arrays;

	if (array)
		free_arrays = array->next;
	else
		array = calloc(1, sizeof(*array));
	if (!array)
		return NULL;
	array->kind = kind;
	array->desc = *desc;
	array->layout = (struct array_layout){ .row = 0 };
	array->bytes = 0;
	array->alloc = NULL;
	memset(array->plane, 0, sizeof(array->plane));
	array->next = NULL;
	array->link = NULL;
	return array;
}

/* Invalidate an array and its planes. */
static void array_end(CUarray array)
{
	unsigned int i;

	if (!array)
		return;
	for (i = 0; i < MAX_PLANES; i++)
		array_end(array->plane[i]);
	store_release(&array->magic, 0);
	if (array->link) {
		*array->link = array->next;
		if (array->next)
			array->next->link = array->link;
	}
	array->next = free_arrays;
	free_arrays = array;
}

static void array_start(CUarray array)
{
	unsigned int i;

	for (i = 0; i < MAX_PLANES; i++)
		if (array->plane[i])
			array_start(array->plane[i]);
	array->id = ++last_array_id;
	store_release(&array->magic, ARRAY_MAGIC);
}

static void mipmap_end(CUmipmappedArray mipmap)
{
	unsigned int i;

	for (i = 0; i < mipmap->levels; i++)
		array_end(mipmap->level[i]);
	store_release(&mipmap->magic, 0);
	if (mipmap->link) {
		*mipmap->link = mipmap->next;
		if (mipmap->next)
			mipmap->next->link = mipmap->link;
	}
	mipmap->next = free_mipmaps;
	free_mipmaps = mipmap;
}

/* ---- layout */

static uint64_t at_least_1(uint64_t extent)
{
	return extent ? extent : 1;
}

static uint64_t blocks(uint64_t extent, unsigned int block)
{
	return (at_least_1(extent) + block - 1) / block;
}

/* How the elements of a descriptor lie, without an address. */
static void lay_out(CUarray array, CUcontext ctx)
{
	const CUDA_ARRAY3D_DESCRIPTOR *d = &array->desc;
	const struct array_format *f = array_format(d->Format);
	struct array_layout *l = &array->layout;

	l->ctx = ctx;
	l->hollow = d->Flags & CUDA_ARRAY3D_SPARSE;
	l->grain = 1;
	/* An array of planes has no rows of its own. */
	if (f->planes)
		return;
	l->element = element_bytes(f, d->NumChannels);
	l->grain = f->block > 1 ? l->element : 1;
	l->row = blocks(d->Width, f->block) * l->element;
	l->rows = blocks(d->Height, f->block);
	l->slices = at_least_1(d->Depth);
	l->pitch = round_up(l->row, ROW_ALIGN);
	l->slice = l->pitch * l->rows;
	array->bytes = l->slice * l->slices;
}

/* An array with its planes, not yet published; false if there is no memory. */
static bool array_build(CUarray *out, enum array_kind kind, const CUDA_ARRAY3D_DESCRIPTOR *desc,
			CUcontext ctx)
{
	const struct array_format *f = array_format(desc->Format);
	CUarray array = array_new(kind, desc);
	unsigned int i;

	*out = array;
	if (!array)
		return false;
	lay_out(array, ctx);
	for (i = 0; i < f->planes; i++) {
		const struct plane_format *p = &f->plane[i];
		CUDA_ARRAY3D_DESCRIPTOR plane = *desc;

		plane.Width >>= p->x_shift;
		plane.Height >>= p->y_shift;
		plane.Format = p->format;
		plane.NumChannels = p->channels;
		if (!array_build(&array->plane[i], ARRAY_PLANE, &plane, ctx))
			return false;
		array->bytes = round_up(array->bytes, PART_ALIGN) + array->plane[i]->bytes;
	}
	return true;
}

/* Give an array and its planes their addresses. */
static void array_place(CUarray array, uint64_t base)
{
	unsigned int i;

	if (!array->plane[0]) {
		array->layout.base = base;
		return;
	}
	for (i = 0; i < MAX_PLANES && array->plane[i]; i++) {
		array_place(array->plane[i], base);
		base += round_up(array->plane[i]->bytes, PART_ALIGN);
	}
}

/*
 * Allocate @bytes of memory for an array, unless its @flags say that it has none. array_lock is held. It is
 * dropped while the memory is populated: the array is not in the list yet.
 */
static CUresult backing(CUcontext ctx, unsigned int flags, uint64_t bytes, struct alloc **alloc,
			uint64_t *base)
{
	uint64_t life = ctx_life(ctx);
	CUresult result;

	*alloc = NULL;
	*base = 0;
	if (flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
		return CUDA_SUCCESS;
	lock_drop(&array_lock);
	result = mem_alloc_hidden(ctx, life, alloc, base, bytes);
	lock_take(&array_lock);
	if (result || ctx_lives_on(ctx, life))
		return result;
	/* The end of the context has freed the memory, or will. */
	*alloc = NULL;
	return CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* ---- arrays */

/* array_lock is held. */
static CUresult create_locked(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc, CUcontext ctx)
{
	CUarray array;
	uint64_t base;
	CUresult result;

	/* The end of a context changes the state before it invalidates arrays. */
	if (load_acquire(&ctx->state) != CTX_LIVE)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	result = array_build(&array, ARRAY_WHOLE, desc, ctx) ?
		backing(ctx, desc->Flags, array->bytes, &array->alloc, &base) :
		CUDA_ERROR_OUT_OF_MEMORY;
	if (result) {
		array_end(array);
		return result;
	}
	if (array->alloc)
		array_place(array, base);
	array->next = arrays;
	if (array->next)
		array->next->link = &array->next;
	array->link = &arrays;
	arrays = array;
	array_start(array);
	*out = array;
	return CUDA_SUCCESS;
}

CUresult array_create(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	if (result)
		return result;
	if (!out || !desc)
		return CUDA_ERROR_INVALID_VALUE;
	result = array_check(desc, false, ctx->device);
	if (result)
		return result;
	lock_take(&array_lock);
	result = create_locked(out, desc, ctx);
	lock_drop(&array_lock);
	return result;
}

/* Another thread may destroy the array at the same time: reading @alloc is safe, it never goes to malloc(). */
static bool array_wait(CUcontext ctx, const struct alloc *alloc, CUresult *result)
{
	if (!alloc)
		return free_wait(ctx, 0, 0, result);
	return free_wait(ctx, load_relaxed(&alloc->base), load_relaxed(&alloc->size), result);
}

CUresult array_destroy(CUarray array)
{
	struct block *doomed = NULL;
	struct alloc *alloc = NULL;
	CUresult result;
	uint64_t id;

	if (!array_valid(array))
		return CUDA_ERROR_INVALID_HANDLE;
	if (array->kind != ARRAY_WHOLE)
		return CUDA_SUCCESS;
	id = load_relaxed(&array->id);
	if (!array_wait(array->layout.ctx, array->alloc, &result))
		return result;
	lock_take(&array_lock);
	/* Another thread may have destroyed the array before the lock was taken. */
	if (array_valid(array) && array->id == id) {
		alloc = array->alloc;
		array_end(array);
		if (alloc)
			mem_free_hidden(alloc, &doomed);
	} else {
		result = CUDA_ERROR_INVALID_HANDLE;
	}
	lock_drop(&array_lock);
	blocks_destroy(doomed);
	return result;
}

CUresult array_plane(CUarray *plane, CUarray array, unsigned int index)
{
	if (!array_valid(array))
		return CUDA_ERROR_INVALID_HANDLE;
	if (index >= MAX_PLANES || !array->plane[index])
		return CUDA_ERROR_INVALID_VALUE;
	*plane = array->plane[index];
	return CUDA_SUCCESS;
}

/* ---- mipmapped arrays */

static unsigned int most_levels(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	size_t most = d->Width > d->Height ? d->Width : d->Height;

	if (!array_layered(d) && d->Depth > most)
		most = d->Depth;
	return 64 - __builtin_clzll(most);
}

static size_t half(size_t extent)
{
	return extent > 1 ? extent / 2 : extent;
}

/* The levels of @mipmap, without memory; array_lock is held. */
static bool mipmap_build(CUmipmappedArray mipmap, const CUDA_ARRAY3D_DESCRIPTOR *desc,
			 unsigned int levels, CUcontext ctx)
{
	CUDA_ARRAY3D_DESCRIPTOR d = *desc;
	unsigned int i;

	for (i = 0; i < levels; i++) {
		bool built = array_build(&mipmap->level[i], ARRAY_LEVEL, &d, ctx);

		mipmap->levels = i + 1;
		if (!built)
			return false;
		mipmap->bytes = round_up(mipmap->bytes, PART_ALIGN) + mipmap->level[i]->bytes;
		d.Width = half(d.Width);
		d.Height = half(d.Height);
		if (!array_layered(&d))
			d.Depth = half(d.Depth);
	}
	return true;
}

static CUmipmappedArray mipmap_new(const CUDA_ARRAY3D_DESCRIPTOR *desc, CUcontext ctx)
{
	CUmipmappedArray mipmap = free_mipmaps;

	if (mipmap)
		free_mipmaps = mipmap->next;
	else
		mipmap = calloc(1, sizeof(*mipmap));
	if (!mipmap)
		return NULL;
	mipmap->levels = 0;
	mipmap->desc = *desc;
	mipmap->ctx = ctx;
	mipmap->bytes = 0;
	mipmap->alloc = NULL;
	mipmap->next = NULL;
	mipmap->link = NULL;
	return mipmap;
}

/* array_lock is held. */
static CUresult mipmap_create_locked(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc,
				     unsigned int levels, CUcontext ctx)
{
	CUmipmappedArray mipmap;
	CUresult result;
	unsigned int i;
	uint64_t base;

	if (load_acquire(&ctx->state) != CTX_LIVE)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	mipmap = mipmap_new(desc, ctx);
	if (!mipmap)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = mipmap_build(mipmap, desc, levels, ctx) ?
		backing(ctx, desc->Flags, mipmap->bytes, &mipmap->alloc, &base) :
		CUDA_ERROR_OUT_OF_MEMORY;
	if (result) {
		mipmap_end(mipmap);
		return result;
	}
	for (i = 0; i < mipmap->levels; i++) {
		if (mipmap->alloc)
			array_place(mipmap->level[i], base);
		base += round_up(mipmap->level[i]->bytes, PART_ALIGN);
		array_start(mipmap->level[i]);
	}
	mipmap->next = mipmaps;
	if (mipmap->next)
		mipmap->next->link = &mipmap->next;
	mipmap->link = &mipmaps;
	mipmaps = mipmap;
	mipmap->id = ++last_array_id;
	store_release(&mipmap->magic, MIPMAP_MAGIC);
	*out = mipmap;
	return CUDA_SUCCESS;
}

CUresult mipmap_create(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc,
		       unsigned int levels)
{
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);
	unsigned int most;

	if (result)
		return result;
	if (!out || !desc)
		return CUDA_ERROR_INVALID_VALUE;
	result = array_check(desc, true, ctx->device);
	if (result)
		return result;
	most = most_levels(desc);
	levels = levels < 1 ? 1 : levels > most ? most : levels;
	lock_take(&array_lock);
	result = mipmap_create_locked(out, desc, levels, ctx);
	lock_drop(&array_lock);
	return result;
}

CUresult mipmap_destroy(CUmipmappedArray mipmap)
{
	struct block *doomed = NULL;
	struct alloc *alloc = NULL;
	CUresult result;
	uint64_t id;

	if (!mipmap_valid(mipmap))
		return CUDA_ERROR_INVALID_HANDLE;
	id = load_relaxed(&mipmap->id);
	if (!array_wait(mipmap->ctx, mipmap->alloc, &result))
		return result;
	lock_take(&array_lock);
	if (mipmap_valid(mipmap) && mipmap->id == id) {
		alloc = mipmap->alloc;
		mipmap_end(mipmap);
		if (alloc)
			mem_free_hidden(alloc, &doomed);
	} else {
		result = CUDA_ERROR_INVALID_HANDLE;
	}
	lock_drop(&array_lock);
	blocks_destroy(doomed);
	return result;
}

CUresult mipmap_level(CUarray *out, CUmipmappedArray mipmap, unsigned int index)
{
	if (!mipmap_valid(mipmap))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!out || index >= mipmap->levels)
		return CUDA_ERROR_INVALID_VALUE;
	*out = mipmap->level[index];
	return CUDA_SUCCESS;
}

void arrays_end(CUcontext ctx)
{
	CUmipmappedArray mipmap, next_mipmap;
	CUarray array, next;

	lock_take(&array_lock);
	for (array = arrays; array; array = next) {
		next = array->next;
		if (array->layout.ctx == ctx)
			array_end(array);
	}
	for (mipmap = mipmaps; mipmap; mipmap = next_mipmap) {
		next_mipmap = mipmap->next;
		if (mipmap->ctx == ctx)
			mipmap_end(mipmap);
	}
	lock_drop(&array_lock);
}

/* ---- properties */

static bool less_than_tile(const CUDA_ARRAY3D_DESCRIPTOR *d, const unsigned int tile[3])
{
	return d->Width < tile[0] || d->Height < tile[1] || (tile[2] > 1 && d->Depth < tile[2]);
}

/* If the first level is smaller than a tile, all levels of all layers are mip tail. */
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
	unsigned int tile[3], i;
	uint64_t tail = 0;

	if (!mipmap_valid(mipmap))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!(mipmap->desc.Flags & CUDA_ARRAY3D_SPARSE))
		return CUDA_ERROR_INVALID_VALUE;
	sparse_begin(props, &mipmap->desc, mipmap->bytes);
	if (props->flags)
		return CUDA_SUCCESS;
	array_tile(&mipmap->desc, tile);
	for (i = 0; i < mipmap->levels; i++)
		if (less_than_tile(&mipmap->level[i]->desc, tile))
			break;
	props->miptailFirstLevel = i;
	for (; i < mipmap->levels; i++) {
		const struct array_layout *l = &mipmap->level[i]->layout;

		tail += l->slice * (array_layered(&mipmap->desc) ? 1 : l->slices);
	}
	props->miptailSize = round_up(tail, TILE);
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
