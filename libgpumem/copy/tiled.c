// SPDX-License-Identifier: MIT
/*
 * Copies of tiled arrays: cut into parts that lie in one strip (box.h) of each tiled end.
 *
 * Owns nothing. The borders between strips and groups of both ends cut a copy. Between two borders, rows and
 * slices are a fixed distance apart at both ends, so a part is a copy like any other.
 *
 * Locks: none.
 */
#include "copy/box.h"

/* Bytes from @x of a copy to the next border of the strips of an end. */
static uint64_t strip_left(const struct copy_end *end, uint64_t x)
{
	const struct tiling *t = &end->tiling;

	return t->row ? t->row - (end->x + x) % t->row : UINT64_MAX;
}

/* Slices from @z of a copy to the next border of the groups of an end. */
static uint64_t group_left(const struct copy_end *end, uint64_t z)
{
	const struct tiling *t = &end->tiling;

	return t->row ? t->slices - (end->z + z) % t->slices : UINT64_MAX;
}

/* Move an end to a position in the copy. The end is not tiled afterwards. */
static void end_move(struct copy_end *end, uint64_t x, uint64_t z)
{
	const struct tiling t = end->tiling;

	if (!t.row) {
		end->addr += z * end->slice + x;
		return;
	}
	x += end->x;
	z += end->z;
	end->addr += z / t.slices * t.group + z % t.slices * t.row + x / t.row * t.strip + x % t.row;
	end->tiling.row = 0;
}

bool copy_part(const struct copy *copy, struct copy_part *at, struct copy *part)
{
	uint64_t depth = copy->depth ? copy->depth : 1;

	at->x += at->width;
	if (at->x == copy->width) {
		at->x = 0;
		at->z += at->depth;
		if (at->z == depth)
			return false;
	}
	at->width = min_u64(copy->width - at->x,
			    min_u64(strip_left(&copy->dst, at->x), strip_left(&copy->src, at->x)));
	at->depth = min_u64(depth - at->z,
			    min_u64(group_left(&copy->dst, at->z), group_left(&copy->src, at->z)));
	*part = *copy;
	part->width = at->width;
	part->depth = at->depth;
	end_move(&part->dst, at->x, at->z);
	end_move(&part->src, at->x, at->z);
	return true;
}
