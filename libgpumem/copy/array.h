/* SPDX-License-Identifier: MIT */
/*
 * Arrays: their descriptors, layouts and formats. array.c owns them and has the lock.
 *
 * An array is a descriptor and a place in device memory where its bytes lie: slices of rows of elements, rows a
 * pitch apart. A mipmapped array is one piece of memory that holds an array for each level, one after the other.
 * An array of several planes holds an array for each plane in the same way. A part (a level or a plane) lives as
 * long as the array that holds it.
 *
 * A sparse array has addresses in a sparse range (address/sparse.h). Levels of at least a tile are tiled: their
 * elements lie tile by tile (box.h). array_layout.c has all layouts.
 *
 * Block formats (BC1 to BC7) have blocks of 4 by 4 elements in place of elements: their rows are rows of
 * blocks.
 *
 * Vocabulary: element, what a position counts; grain, what positions and widths in bytes must be
 * multiples of (1, or a block); part, a level or a plane; tail, the bytes of a sparse array that do not lie in
 * tiles of elements.
 */
#ifndef GPUMEM_ARRAY_H
#define GPUMEM_ARRAY_H

#include "copy/box.h"

#define ARRAY_MAGIC	0x79617261	/* "aray" */
#define MIPMAP_MAGIC	0x70616d6d	/* "mmap" */
#define MAX_LEVELS	16		/* 1 + log2 of the largest mipmapped extent, 32768 */
#define MAX_PLANES	3
#define PART_ALIGN	512u		/* of levels and planes that follow each other */

enum array_kind { ARRAY_WHOLE, ARRAY_LEVEL, ARRAY_PLANE };

/* Where the bytes of an array are. */
struct array_layout {
	uint64_t base;			/* address of the first byte */
	uint64_t pitch, slice;		/* bytes from one row, one slice to the next; @tiling: inside a strip */
	struct tiling tiling;		/* tiling.row is 0 if the array is not tiled */
	uint64_t row;			/* bytes in a row; 0 if the array consists of planes */
	uint64_t rows, slices;
	unsigned int grain;		/* bytes */
	unsigned int element;		/* bytes of an element, or of a block */
	bool dark;			/* the CPU does not reach the memory */
	bool shared;			/* another process or driver may reach it */
	CUcontext ctx;			/* the context that the array belongs to */
};

/* Where the memory of an array, or of a mipmapped array, comes from. */
struct array_memory {
	struct alloc *alloc;		/* NULL if the array is a part, or has a range */
	bool imported;			/* @alloc is a part of external memory */
	uint64_t range, length;		/* a sparse range; or 0 */
	/* What of the range can be mapped (array_map.c). */
	unsigned int tiled;		/* levels that are tiled: the first ones */
	uint64_t tail, tail_bytes;	/* address and size of the first tail; 0 bytes: there is none */
	unsigned int tails;		/* one for each layer, or one */
};

struct CUarray_st {
	uint32_t magic;			/* atomic */
	enum array_kind kind;
	uint64_t id;			/* of this life of the structure; array_lock */
	CUDA_ARRAY3D_DESCRIPTOR desc;
	struct array_layout layout;
	uint64_t bytes;			/* bytes that it takes, with all planes */
	struct array_memory memory;
	CUarray plane[MAX_PLANES];	/* NULL unless the format has planes */
	CUarray next, *link;		/* in the list of whole arrays, or a free list; array_lock */
};

struct CUmipmappedArray_st {
	uint32_t magic;			/* atomic */
	unsigned int levels;
	uint64_t id;			/* as above */
	CUDA_ARRAY3D_DESCRIPTOR desc;
	CUcontext ctx;
	uint64_t bytes;
	struct array_memory memory;
	CUarray level[MAX_LEVELS];
	CUmipmappedArray next, *link;	/* in the list, or a free list; array_lock */
};

static inline bool array_valid(CUarray array)
{
	return (uintptr_t)array >= PAGE && load_acquire(&array->magic) == ARRAY_MAGIC;
}

static inline bool mipmap_valid(CUmipmappedArray mipmap)
{
	return (uintptr_t)mipmap >= PAGE && load_acquire(&mipmap->magic) == MIPMAP_MAGIC;
}

/* Read where an array's bytes are. False: the handle is not an array's. */
static inline bool array_layout(CUarray array, struct array_layout *layout)
{
	if (!array_valid(array))
		return false;
	*layout = array->layout;
	return true;
}

/* ---- formats and limits (array_format.c) */

struct plane_format {
	CUarray_format format;
	unsigned char channels;
	unsigned char x_shift, y_shift;	/* extents are 1 << shift times smaller */
};

struct array_format {
	CUarray_format format;
	unsigned char channels;		/* a bit for each number of channels that it may have */
	unsigned char element;		/* bytes of an element or a block; 0: @channel or @planes has them */
	unsigned char channel;		/* bytes of a channel, if the number of channels may vary */
	unsigned char block;		/* elements on each side of a block, else 1 */
	bool video;			/* needs CUDA_ARRAY3D_VIDEO_ENCODE_DECODE, even extents */
	unsigned char planes;		/* or 0 */
	struct plane_format plane[MAX_PLANES];
};

/* NULL if there is no such format. */
const struct array_format *array_format(CUarray_format format);

static inline unsigned int element_bytes(const struct array_format *f, unsigned int channels)
{
	return f->element ? f->element : f->channel * channels;
}

/* Whether @desc describes an array, or a mipmapped array, that @device can have. */
CUresult array_check(const CUDA_ARRAY3D_DESCRIPTOR *desc, bool mipmapped, CUdevice device);
/* The extents of a tile of a sparse array, in elements. */
void array_tile(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int tile[3]);

static inline bool array_layered(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	return desc->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
}

/* ---- layouts (array_layout.c) */

/* How the elements of an array without planes lie, without an address. Sets layout and bytes. */
void array_lay_out(CUarray array, CUcontext ctx);
/* Give an array and its planes their addresses in @memory, or the levels of a mipmapped array. */
void array_place(CUarray array, uint64_t base);
void mipmap_place(CUmipmappedArray mipmap, uint64_t base);
/*
 * Lay out an array, or a mipmapped array, that gets a sparse range: sets memory->length and what can be mapped,
 * relative to 0. array_move() and mipmap_move() then place it at the range.
 */
void array_lay_out_sparse(CUarray array);
void mipmap_lay_out_sparse(CUmipmappedArray mipmap);
void array_move(CUarray array, uint64_t base);
void mipmap_move(CUmipmappedArray mipmap, uint64_t base);
CUresult array_sparse(CUDA_ARRAY_SPARSE_PROPERTIES *props, CUarray array);
CUresult array_requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *req, CUarray array, CUdevice device);
CUresult mipmap_sparse(CUDA_ARRAY_SPARSE_PROPERTIES *props, CUmipmappedArray mipmap);
CUresult mipmap_requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *req, CUmipmappedArray mipmap,
			     CUdevice device);

/* Whether an array has addresses in a sparse range. */
static inline bool array_ranged(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	return desc->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING);
}

/* ---- arrays (array.c) */

/*
 * Memory that mipmap_create_in() takes. get() is called without a lock. It makes a hidden alloc of @bytes for a
 * context in its life @life.
 */
struct array_source {
	CUresult (*get)(const struct array_source *source, CUcontext ctx, uint64_t life,
			uint64_t bytes, struct alloc **alloc);
};

CUresult array_create(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc);
CUresult array_destroy(CUarray array);
CUresult array_plane(CUarray *plane, CUarray array, unsigned int index);
CUresult mipmap_create(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc,
		       unsigned int levels);
/* The same in memory of @source. */
CUresult mipmap_create_in(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc,
			  unsigned int levels, const struct array_source *source);
CUresult mipmap_destroy(CUmipmappedArray mipmap);
CUresult mipmap_level(CUarray *out, CUmipmappedArray mipmap, unsigned int index);

/* ---- memory of sparse and deferred arrays (array_map.c) */

/* cuMemMapArrayAsync() */
CUresult array_map(const CUarrayMapInfo *list, unsigned int count, CUstream handle, bool own);

#endif /* GPUMEM_ARRAY_H */
