// SPDX-License-Identifier: MIT
/*
 * Arrays and mipmapped arrays: their memory and parts.
 *
 * Owns all CUarray_st and CUmipmappedArray_st. A structure is reused for the same type only, so its magic
 * number shows whether a handle is stale.
 *
 * An array's memory is an alloc of the array's context that no lookup finds. It is counted, and freed with its
 * context, as other memory is, but no call accepts an address in it. It may be a part of external memory. Sparse
 * arrays, and arrays whose mapping is deferred, have a sparse range instead (address/sparse.h), which
 * array_map.c binds to memory.
 *
 * Destroying an array waits first for the work of the array's context, and for copies of other contexts that
 * read the array (free_wait.c). Destroying a part does nothing. A context that ends destroys its arrays.
 *
 * Locks: array_lock for the contexts' lists of arrays, and for the validity of arrays; mem_lock nests inside.
 * array_lock is not held while memory is populated or given back, or a range is ended. Under the lock, the creating
 * thread then checks that the context still lives, and adds the array to the list. Copies do not take array_lock.
 */
#include <stdlib.h>

#include "copy/array.h"

static struct lock array_lock;
static CUarray free_arrays;		/* array_lock */
static CUmipmappedArray free_mipmaps;	/* array_lock */
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
	array->memory = (struct array_memory){ .alloc = NULL };
	memset(array->plane, 0, sizeof(array->plane));
	array->next = NULL;
	array->link = NULL;
	return array;
}

/* Invalidate an array and its planes, and take it out of the list. */
static void array_stop(CUarray array)
{
	unsigned int i;

	for (i = 0; i < MAX_PLANES; i++)
		if (array->plane[i])
			array_stop(array->plane[i]);
	store_release(&array->magic, 0);
	if (array->link) {
		*array->link = array->next;
		if (array->next)
			array->next->link = array->link;
	}
}

/* Keep the structures of a stopped array and its planes for reuse. */
static void array_put(CUarray array)
{
	unsigned int i;

	for (i = 0; i < MAX_PLANES; i++)
		if (array->plane[i])
			array_put(array->plane[i]);
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

static void mipmap_stop(CUmipmappedArray mipmap)
{
	unsigned int i;

	for (i = 0; i < mipmap->levels; i++)
		if (mipmap->level[i])
			array_stop(mipmap->level[i]);
	store_release(&mipmap->magic, 0);
	if (mipmap->link) {
		*mipmap->link = mipmap->next;
		if (mipmap->next)
			mipmap->next->link = mipmap->link;
	}
}

static void mipmap_put(CUmipmappedArray mipmap)
{
	unsigned int i;

	for (i = 0; i < mipmap->levels; i++)
		if (mipmap->level[i])
			array_put(mipmap->level[i]);
	mipmap->next = free_mipmaps;
	free_mipmaps = mipmap;
}

/* ---- memory */

/*
 * Get @bytes of memory, from @source if that is not NULL, or a range of memory->length bytes. array_lock is held.
 * It is dropped meanwhile: the array is not in the list yet.
 */
static CUresult memory_get(struct array_memory *memory, const struct array_source *source,
			   CUcontext ctx, uint64_t bytes, uint64_t *base)
{
	uint64_t life = ctx_life(ctx);
	CUresult result;

	lock_drop(&array_lock);
	if (memory->length) {
		/* Copies of memory that the CPU does not reach need staging memory: see handle.c. */
		result = client.strict ? stage_reserve(ctx->device) : CUDA_SUCCESS;
		if (!result)
			result = sparse_make(base, memory->length);
	} else if (source) {
		result = source->get(source, ctx, life, bytes, &memory->alloc);
	} else {
		result = mem_alloc_hidden(ctx, life, &memory->alloc, base, bytes);
	}
	lock_take(&array_lock);
	if (result || ctx_lives_on(ctx, life)) {
		memory->imported = !result && source;
		if (memory->imported)
			*base = memory->alloc->base;
		return result;
	}
	/* The end of the context has freed the memory, or will. */
	memory->alloc = NULL;
	if (memory->length)
		sparse_end(*base, memory->length);
	return CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* Free the memory of a stopped array. No work that uses it is left, and no lock is held. */
static void memory_put(const struct array_memory *memory)
{
	struct block *doomed = NULL;

	if (memory->range)
		sparse_end(memory->range, memory->length);
	if (!memory->alloc)
		return;
	if (memory->imported) {
		lock_take(&mem_lock);
		mem_drop_adopted(memory->alloc, &doomed);
		lock_drop(&mem_lock);
	} else {
		mem_free_hidden(memory->alloc, &doomed);
	}
	blocks_destroy(doomed);
}

/* Wait for the work that may use the memory of an array. Another thread may destroy the array at the same time. */
static bool memory_wait(CUcontext ctx, const struct array_memory *memory, CUresult *result)
{
	/* Reading the alloc is safe, it never goes to malloc(). */
	const struct alloc *alloc = load_relaxed(&memory->alloc);

	if (!alloc)
		return free_wait(ctx, load_relaxed(&memory->range), load_relaxed(&memory->length), result);
	return free_wait(ctx, load_relaxed(&alloc->base), load_relaxed(&alloc->size), result);
}

/* ---- arrays */

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
	array_lay_out(array, ctx);
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

/* array_lock is held. */
static CUresult create_locked(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc, CUcontext ctx)
{
	CUarray array;
	uint64_t base;
	CUresult result;

	/* The end of a context changes the state before it invalidates arrays. */
	if (load_acquire(&ctx->state) != CTX_LIVE)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	if (array_build(&array, ARRAY_WHOLE, desc, ctx)) {
		if (array_ranged(desc))
			array_lay_out_sparse(array);
		result = memory_get(&array->memory, NULL, ctx, array->bytes, &base);
	} else {
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (result) {
		if (array)
			array_put(array);
		return result;
	}
	if (array_ranged(desc))
		array_move(array, base);
	else
		array_place(array, base);
	array->next = ctx->arrays;
	if (array->next)
		array->next->link = &array->next;
	array->link = &ctx->arrays;
	ctx->arrays = array;
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

CUresult array_destroy(CUarray array)
{
	struct array_memory memory = { .alloc = NULL };
	CUresult result;
	uint64_t id;

	if (!array_valid(array))
		return CUDA_ERROR_INVALID_HANDLE;
	if (array->kind != ARRAY_WHOLE)
		return CUDA_SUCCESS;
	id = load_relaxed(&array->id);
	if (!memory_wait(array->layout.ctx, &array->memory, &result))
		return result;
	lock_take(&array_lock);
	/* Another thread may have destroyed the array before the lock was taken. */
	if (array_valid(array) && array->id == id) {
		memory = array->memory;
		array_stop(array);
		array_put(array);
	} else {
		result = CUDA_ERROR_INVALID_HANDLE;
	}
	lock_drop(&array_lock);
	memory_put(&memory);
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
	mipmap->memory = (struct array_memory){ .alloc = NULL };
	mipmap->next = NULL;
	mipmap->link = NULL;
	return mipmap;
}

/* array_lock is held. @source: as for memory_get(). */
static CUresult mipmap_create_locked(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc,
				     unsigned int levels, CUcontext ctx,
				     const struct array_source *source)
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
	if (mipmap_build(mipmap, desc, levels, ctx)) {
		if (array_ranged(desc))
			mipmap_lay_out_sparse(mipmap);
		result = memory_get(&mipmap->memory, source, ctx, mipmap->bytes, &base);
	} else {
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (result) {
		mipmap_put(mipmap);
		return result;
	}
	if (array_ranged(desc))
		mipmap_move(mipmap, base);
	else
		mipmap_place(mipmap, base);
	for (i = 0; i < mipmap->levels; i++) {
		if (source) {
			mipmap->level[i]->layout.shared = true;
			mipmap->level[i]->layout.dark = mipmap->memory.alloc->flags & ALLOC_DARK;
		}
		array_start(mipmap->level[i]);
	}
	mipmap->next = ctx->mipmaps;
	if (mipmap->next)
		mipmap->next->link = &mipmap->next;
	mipmap->link = &ctx->mipmaps;
	ctx->mipmaps = mipmap;
	mipmap->id = ++last_array_id;
	store_release(&mipmap->magic, MIPMAP_MAGIC);
	*out = mipmap;
	return CUDA_SUCCESS;
}

CUresult mipmap_create_in(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc,
			  unsigned int levels, const struct array_source *source)
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
	result = mipmap_create_locked(out, desc, levels, ctx, source);
	lock_drop(&array_lock);
	return result;
}

CUresult mipmap_create(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc,
		       unsigned int levels)
{
	return mipmap_create_in(out, desc, levels, NULL);
}

CUresult mipmap_destroy(CUmipmappedArray mipmap)
{
	struct array_memory memory = { .alloc = NULL };
	CUresult result;
	uint64_t id;

	if (!mipmap_valid(mipmap))
		return CUDA_ERROR_INVALID_HANDLE;
	id = load_relaxed(&mipmap->id);
	if (!memory_wait(mipmap->ctx, &mipmap->memory, &result))
		return result;
	lock_take(&array_lock);
	if (mipmap_valid(mipmap) && mipmap->id == id) {
		memory = mipmap->memory;
		mipmap_stop(mipmap);
		mipmap_put(mipmap);
	} else {
		result = CUDA_ERROR_INVALID_HANDLE;
	}
	lock_drop(&array_lock);
	memory_put(&memory);
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

/* Stop the arrays of a context, and chain them by their next. */
static void arrays_take(CUcontext ctx, CUarray *stopped, CUmipmappedArray *stopped_mipmaps)
{
	CUmipmappedArray mipmap;
	CUarray array;

	lock_take(&array_lock);
	while ((array = ctx->arrays)) {
		array_stop(array);
		array->next = *stopped;
		*stopped = array;
	}
	while ((mipmap = ctx->mipmaps)) {
		mipmap_stop(mipmap);
		mipmap->next = *stopped_mipmaps;
		*stopped_mipmaps = mipmap;
	}
	lock_drop(&array_lock);
}

/* The context frees the allocs of its arrays by itself. */
void arrays_end(CUcontext ctx)
{
	CUmipmappedArray stopped_mipmaps = NULL, mipmap, next_mipmap;
	CUarray stopped = NULL, array, next;

	arrays_take(ctx, &stopped, &stopped_mipmaps);
	for (array = stopped; array; array = array->next)
		if (array->memory.range)
			sparse_end(array->memory.range, array->memory.length);
	for (mipmap = stopped_mipmaps; mipmap; mipmap = mipmap->next)
		if (mipmap->memory.range)
			sparse_end(mipmap->memory.range, mipmap->memory.length);
	lock_take(&array_lock);
	for (array = stopped; array; array = next) {
		next = array->next;
		array_put(array);
	}
	for (mipmap = stopped_mipmaps; mipmap; mipmap = next_mipmap) {
		next_mipmap = mipmap->next;
		mipmap_put(mipmap);
	}
	lock_drop(&array_lock);
}
