// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_far: small entries that work on evicted managed memory where it is.
 *
 * A block without advice that its device evicted to make room is *far* from then
 * on.  It is no longer far when it becomes resident, and when a program prefetches
 * it to the host, discards pages of it or gives advice about it (gpumem_resident.c).
 *
 * A fetch would move a block of 2 MiB for an entry that accesses some bytes of it.
 * So a copy or fill of at most GPUMEM_FAR_MAX bytes works on the pages of a far
 * block without a fetch.  Exceptions are entries with a fence, because each of
 * their portions is prepared (gpumem_place.c).
 *
 * A stream counts the bytes that its entries access in this way.  It draws a
 * number between one and three times the bytes of a block.  Once it has counted
 * as many, it fetches the block of the next access, and draws again.  So for the
 * bytes of two blocks, on average, one block comes and one goes.  A block that is
 * accessed often is fetched early.  An access of a copy is passed over by chance:
 * otherwise it would always be the destination's.  The first access of a stream
 * fetches its block.
 *
 * Nobody holds the folios of a far block.  The entry locks a folio while it works
 * on it, so the kernel does not move, collapse, split or free the folio, nor write
 * it to swap.  The entry does not wait for the lock, because it may have locked
 * another folio.  If another task has locked the folio, or the page is not in
 * memory, the stream fetches the block.
 *
 * Such a fetch may fail for want of memory or pin limit, although the entry could
 * work on the block where it is.  Then the next slice tries that.  An entry that
 * accesses no byte between GPUMEM_FAR_TRIES such fetches fails with the next one.
 *
 * Locks: the lock of one folio for each side of a copy, inside vm->lock.
 */
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/random.h>
#include <linux/sizes.h>
#include <linux/swap.h>

#include "gpumem_bo.h"
#include "gpumem_far.h"
#include "gpumem_managed.h"
#include "gpumem_place.h"
#include "gpumem_stream.h"

/* Bytes up to which an entry works on far blocks.  libgpumem has the same limit. */
#define GPUMEM_FAR_MAX	SZ_256K

/* Fetches of far blocks that may fail before their entry fails. */
#define GPUMEM_FAR_TRIES	2

/* The bytes of far blocks that a stream accesses before it fetches one. */
static s64 gpumem_far_draw(void)
{
	return GPUMEM_MANAGED_BLOCK +
	       get_random_u32_below(2 * GPUMEM_MANAGED_BLOCK);
}

/* Is the stream's entry a copy or a fill of few bytes, without a fence? */
static bool gpumem_far_small(const struct gpumem_stream *stream)
{
	const struct gpumem_sqe *sqe = &stream->sqe;
	u64 rows = max(sqe->height, 1);

	/* A fenced entry may keep managed memory, and no other entry. */
	if (READ_ONCE(stream->fenced.keeps))
		return false;
	/* gpumem_sqe_check() says that these products do not overflow. */
	if (sqe->op == GPUMEM_OP_COPY)
		return sqe->width * rows <= GPUMEM_FAR_MAX;
	if (sqe->op == GPUMEM_OP_FILL)
		return sqe->width * sqe->elem * rows <= GPUMEM_FAR_MAX;
	return false;
}

/*
 * Unlock a folio and drop the reference.  The unlock may wake a task that moves
 * the folio, and that must not run here before the reference is dropped.
 */
static void gpumem_far_unlock(struct folio *folio)
{
	preempt_disable();
	folio_unlock(folio);
	folio_put(folio);
	preempt_enable();
}

/* Lock the folio of a page of a file, if the engine can use it.  NULL if not. */
static struct folio *gpumem_far_lock(struct address_space *mapping,
				     pgoff_t index, bool write)
{
	struct folio *folio = filemap_get_folio(mapping, index);

	if (IS_ERR(folio))
		return NULL;
	if (!folio_trylock(folio)) {
		folio_put(folio);
		return NULL;
	}
	if (folio->mapping != mapping || !folio_test_uptodate(folio) ||
	    folio_contain_hwpoisoned_page(folio)) {
		gpumem_far_unlock(folio);
		return NULL;
	}
	/* Reclaim cannot see the work of an engine otherwise. */
	folio_mark_accessed(folio);
	if (write && !folio_test_dirty(folio))
		folio_mark_dirty(folio);
	return folio;
}

/* Does a place lead to a locked folio? */
static bool gpumem_far_at(const struct gpumem_place *place, struct folio *folio)
{
	return folio && folio->mapping == place->bo->file->f_mapping &&
	       folio_contains(folio, place->offset >> PAGE_SHIFT);
}

/* Reduce @len to the part inside the folio of the place. */
static void gpumem_far_clip(const struct gpumem_place *place, u64 *len)
{
	u64 end = folio_pos(place->folio) + folio_size(place->folio);

	*len = min(*len, end - place->offset);
}

/**
 * gpumem_far_inside - does a place still lead to the folio that was locked for it?
 * @place: in managed memory
 * @len: bytes wanted; reduced to the part inside the folio
 *
 * Return: true if it does.
 */
bool gpumem_far_inside(const struct gpumem_place *place, u64 *len)
{
	/* The destination may have gone on to another folio. */
	if (place->borrowed || !gpumem_far_at(place, place->folio))
		return false;
	gpumem_far_clip(place, len);
	return true;
}

/* Is a far block to be fetched at this access? */
static bool gpumem_far_due(struct gpumem_stream *stream,
			   const struct gpumem_place *place)
{
	if (likely(stream->far_left > 0))
		return false;
	/* The destination is asked first.  It must not always be fetched. */
	if (stream->far_drawn && place->other && get_random_u32_below(2))
		return false;
	stream->far_left = gpumem_far_draw();
	stream->far_drawn = true;
	return true;
}

/**
 * gpumem_far_enter - lock the folio at a place in a far block
 * @stream: whose entry works on it
 * @place: in managed memory, without a folio
 * @block: at the place
 * @len: bytes wanted, inside the block; reduced to the part inside the folio
 *
 * The folio stays locked until gpumem_far_leave().  If source and destination of a
 * copy are in one folio, the destination has it locked, and the source borrows it.
 * The destination enters first.
 *
 * Context: the caller holds vm->lock for reading; preemption may be disabled.
 * Return: false if the entry must use the block instead.
 */
bool gpumem_far_enter(struct gpumem_stream *stream, struct gpumem_place *place,
		      const struct gpumem_block *block, u64 *len)
{
	struct gpumem_place *other = place->other;

	if (other && !place->write && gpumem_far_at(place, other->folio)) {
		place->folio = other->folio;
		place->borrowed = true;
		gpumem_far_clip(place, len);
		return true;
	}
	if (!gpumem_far_small(stream) || gpumem_far_due(stream, place))
		return false;
	/* The source may have locked this folio.  It enters again afterwards. */
	if (other && place->write && other->folio)
		gpumem_far_leave(other);
	place->folio = gpumem_far_lock(place->bo->file->f_mapping,
				       place->offset >> PAGE_SHIFT,
				       place->write);
	if (!place->folio)
		return false;
	/* The block may have become resident, or have been recalled, meanwhile. */
	if (READ_ONCE(block->far) != stream->dev) {
		gpumem_far_leave(place);
		return false;
	}
	gpumem_far_clip(place, len);
	return true;
}

/**
 * gpumem_far_leave - undo gpumem_far_enter()
 * @place: with a folio
 */
void gpumem_far_leave(struct gpumem_place *place)
{
	if (!place->borrowed)
		gpumem_far_unlock(place->folio);
	place->borrowed = false;
	place->folio = NULL;
}

/**
 * gpumem_far_can_stay - may a block that is to be fetched stay where it is?
 * @stream: whose entry needs it
 * @bo: managed buffer object; referenced
 * @offset: of a byte in the block
 *
 * Return: true if the entry can work on the block although the fetch fails.
 */
bool gpumem_far_can_stay(const struct gpumem_stream *stream,
			 struct gpumem_bo *bo, u64 offset)
{
	struct gpumem_block *block = gpumem_block_find(bo, offset);

	return block && READ_ONCE(block->far) == stream->dev &&
	       stream->far_tries < GPUMEM_FAR_TRIES &&
	       gpumem_far_small(stream);
}
