/* SPDX-License-Identifier: MIT */
/*
 * The structures of copies and fills, from their members.
 */
#ifndef __DRIVER_FUNCTIONS_H__
#define __DRIVER_FUNCTIONS_H__

#include "builtin_types.h"

static inline struct cudaPitchedPtr make_cudaPitchedPtr(void *ptr, size_t pitch, size_t xsize,
							 size_t ysize)
{
	struct cudaPitchedPtr p;

	p.ptr = ptr;
	p.pitch = pitch;
	p.xsize = xsize;
	p.ysize = ysize;
	return p;
}

static inline struct cudaPos make_cudaPos(size_t x, size_t y, size_t z)
{
	struct cudaPos p;

	p.x = x;
	p.y = y;
	p.z = z;
	return p;
}

static inline struct cudaExtent make_cudaExtent(size_t width, size_t height, size_t depth)
{
	struct cudaExtent e;

	e.width = width;
	e.height = height;
	e.depth = depth;
	return e;
}

#endif /* __DRIVER_FUNCTIONS_H__ */
