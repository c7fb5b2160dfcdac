/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Far blocks: managed memory that small entries use where it is, because the device
 * evicted it.  Offered by gpumem_far.c.
 */
#ifndef GPUMEM_FAR_H
#define GPUMEM_FAR_H

#include <linux/types.h>

struct gpumem_block;
struct gpumem_bo;
struct gpumem_place;
struct gpumem_stream;

bool gpumem_far_inside(const struct gpumem_place *place, u64 *len);
bool gpumem_far_enter(struct gpumem_stream *stream, struct gpumem_place *place,
		      const struct gpumem_block *block, u64 *len);
void gpumem_far_leave(struct gpumem_place *place);
bool gpumem_far_can_stay(const struct gpumem_stream *stream,
			 struct gpumem_bo *bo, u64 offset);

#endif /* GPUMEM_FAR_H */
