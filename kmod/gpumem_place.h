/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Places: what the device addresses of an entry lead to, and the blocks of
 * managed memory that the entry has to fetch first.
 *
 * Lock: vm->lock for reading; see the functions.
 */
#ifndef GPUMEM_PLACE_H
#define GPUMEM_PLACE_H

#include <linux/pagemap.h>
#include <linux/types.h>

#include "gpumem_bo.h"
#include "gpumem_engine.h"
#include "gpumem_far.h"
#include "gpumem_managed.h"
#include "gpumem_stream.h"

struct gpumem_mapping;

/**
 * struct gpumem_place - what an address leads to
 */
struct gpumem_place {
	/** @m: mapping, or NULL before the first gpumem_place_find() */
	struct gpumem_mapping *m;
	/** @bo: buffer object, or NULL for a hole of a sparse mapping */
	struct gpumem_bo *bo;
	/** @offset: of the address in @bo */
	u64 offset;
	/** @write: the device is to write */
	bool write;
	/** @block: managed block in use, or NULL */
	struct gpumem_block *block;
	/** @folio: locked folio of a far block (gpumem_far.c), or NULL */
	struct folio *folio;
	/** @borrowed: of a source: @folio was locked for the destination */
	bool borrowed;
	/** @other: other side of a copy between device addresses, or NULL */
	struct gpumem_place *other;
};

/* gpumem_place.c */
int gpumem_place_find(struct gpumem_stream *stream, struct gpumem_place *place,
		      u64 addr, bool write, u64 *len);
int gpumem_place_enter_managed(struct gpumem_stream *stream,
			       struct gpumem_place *place, u64 *len);
int gpumem_need_keep(struct gpumem_stream *stream, int ret);
int gpumem_need_fetch(struct gpumem_stream *stream);
int gpumem_place_prepare(struct gpumem_stream *stream);
int gpumem_prefetch_step(struct gpumem_stream *stream);

/* End the use of the block or folio of @place. */
static inline void gpumem_place_leave(struct gpumem_place *place)
{
	if (unlikely(place->folio))
		gpumem_far_leave(place);
	if (place->block)
		gpumem_block_unuse(place->block);
	place->block = NULL;
}

/* The bytes at @place, which was entered. */
static inline struct gpumem_extent
gpumem_place_extent(const struct gpumem_place *place)
{
	struct gpumem_extent extent = {
		.bo = place->bo,
		.offset = place->offset,
	};

	if (unlikely(place->folio))
		extent.at = folio_address(place->folio) +
			    (place->offset - folio_pos(place->folio));
	return extent;
}

/* The stream's entry has accessed @len bytes at @place. */
static inline void gpumem_place_accessed(struct gpumem_stream *stream,
					 const struct gpumem_place *place,
					 u64 len)
{
	if (unlikely(place->folio)) {
		stream->far_left -= len;
		stream->far_tries = 0;
	}
}

/*
 * If @place leads to managed memory, use its block; see
 * gpumem_place_enter_managed().
 */
static inline int gpumem_place_enter(struct gpumem_stream *stream,
				     struct gpumem_place *place, u64 *len)
{
	if (place->bo && unlikely(place->bo->managed))
		return gpumem_place_enter_managed(stream, place, len);
	gpumem_place_leave(place);
	return 0;
}

#endif /* GPUMEM_PLACE_H */
