// SPDX-License-Identifier: MIT
/*
 * The shadow of a memory: for each byte its last write, its reads since then, and whether it was ever written.
 *
 * A memory is divided into pages of 64 KiB. A page that nobody has accessed has no structure. A page is a sorted array
 * of segments of bytes with the same shadow. Each access splits the segments at its ends, and joins neighbours that are
 * the same afterwards, so that a page accessed as a whole has one segment.
 *
 * Of the reads since a write, a read that comes before another one is forgotten: what does not come after the first
 * does not come after the second. Sets of reads are constant and shared by segments.
 *
 * Some operations on words need not be ordered (word.c). So an operation on a word may come after another access, and a
 * third one be a race with that access only. An access is forgotten only if the later one is a race with all that it
 * is a race with. Accesses that an operation on a word leaves are in the set of reads, also if they wrote.
 */
#include <stdlib.h>
#include <string.h>

#include "check/check.h"

#define SHADOW_PAGE	65536u
#define READS_FEW	2u		/* sets of so many reads are kept for the next use */
#define USES_MOST	16u		/* accesses of a word that are kept although a later one comes after them */

struct use {
	struct op *op;			/* a reference */
	bool wrote;
};

struct reads {
	unsigned int refs;
	unsigned int room, count;
	bool wrote;			/* there are writes among them */
	struct use use[];
};

struct segment {
	uint32_t start;			/* offset in the page; it ends where the next one starts */
	bool written;
	struct op *write;		/* a reference */
	struct reads *reads;		/* a reference, or NULL */
};

struct page {
	unsigned int count, room;
	struct segment *segments;
};

/* ---- sets of reads */

static struct spares spare_reads;	/* sets with room for READS_FEW */

static void reads_free(struct reads *reads)
{
	if (likely(reads->room == READS_FEW))
		spare_give(&spare_reads, reads);
	else
		free(reads);
}

static void reads_drop(struct reads *reads)
{
	unsigned int i;

	if (!reads || --reads->refs)
		return;
	for (i = 0; i < reads->count; i++)
		op_drop(reads->use[i].op);
	reads_free(reads);
}

/* Whether all that is a race with access @b, which comes before access @a, is a race with @a. */
static bool replaces(const struct op *a, bool a_writes, const struct op *b, bool b_wrote)
{
	const struct word_use *one = a->word, *other = b->word;

	if (likely(!one))
		return a_writes || !b_wrote;
	if (!other)
		return false;
	if (one->kind == WORD_WRITE)
		return other->kind != WORD_COPY;
	/* What is a race with a wait depends on its value. So does which wait is a race with a fill. */
	if (one->kind == WORD_WAIT)
		return other->kind == WORD_WAIT && word_use_same(one, other);
	if (!a_writes)
		return !b_wrote;
	return other->kind != WORD_COPY || !b_wrote || !other->known || word_use_same(one, other);
}

static void reads_add(struct reads *reads, struct op *op, bool wrote)
{
	reads->use[reads->count++] = (struct use) { .op = op_hold(op), .wrote = wrote };
	reads->wrote |= wrote;
}

static struct reads *reads_room(unsigned int count)
{
	unsigned int room = count > READS_FEW ? count : READS_FEW;
	struct reads *reads = room == READS_FEW ? spare_pop(&spare_reads) : NULL;

	if (!reads)
		reads = malloc(sizeof(*reads) + room * sizeof(reads->use[0]));
	if (reads)
		*reads = (struct reads) { .refs = 1, .room = room };
	return reads;
}

/* Add what a later access leaves of an earlier one. */
static void reads_leave(struct reads *reads, struct op *earlier, bool wrote, const struct op *op, bool write,
			const struct clock *clock)
{
	if (clock_covers(clock, earlier->slot, earlier->time) &&
	    (replaces(op, write, earlier, wrote) || reads->count >= USES_MOST))
		return;
	reads_add(reads, earlier, wrote);
}

/* The set with @op, and without the reads that come before it. */
static struct reads *reads_with(const struct reads *old, struct op *op, const struct clock *clock)
{
	unsigned int count = old ? old->count : 0, i;
	struct reads *reads = reads_room(count + 1);

	if (!reads)
		return NULL;
	for (i = 0; i < count; i++)
		reads_leave(reads, old->use[i].op, old->use[i].wrote, op, false, clock);
	reads_add(reads, op, false);
	return reads;
}

/* ---- pages */

static void segment_clear(struct segment *segment)
{
	op_drop(segment->write);
	reads_drop(segment->reads);
}

static bool page_room(struct page *page, unsigned int more)
{
	unsigned int room = page->room ? page->room : 4;
	struct segment *segments;

	while (room < page->count + more)
		room *= 2;
	if (room == page->room)
		return true;
	segments = realloc(page->segments, room * sizeof(*segments));
	if (!segments)
		return false;
	page->segments = segments;
	page->room = room;
	return true;
}

static struct page *page_get(struct memory *memory, uint64_t index)
{
	struct page *page;

	if (!memory->pages)
		memory->pages = calloc((memory->size + SHADOW_PAGE - 1) / SHADOW_PAGE, sizeof(struct page *));
	if (!memory->pages)
		return NULL;
	page = memory->pages[index];
	if (page)
		return page;
	page = calloc(1, sizeof(*page));
	if (!page || !page_room(page, 1)) {
		free(page);
		return NULL;
	}
	page->segments[0] = (struct segment) { .written = memory->open, .write = op_hold(memory->born) };
	page->count = 1;
	memory->pages[index] = page;
	return page;
}

static void page_free(struct page *page)
{
	unsigned int i;

	if (!page)
		return;
	for (i = 0; i < page->count; i++)
		segment_clear(&page->segments[i]);
	free(page->segments);
	free(page);
}

void shadow_free(struct memory *memory)
{
	uint64_t i;

	if (!memory->pages)
		return;
	for (i = 0; i < (memory->size + SHADOW_PAGE - 1) / SHADOW_PAGE; i++)
		page_free(memory->pages[i]);
	free(memory->pages);
	memory->pages = NULL;
}

/* The segment that has a byte. */
static unsigned int page_find(const struct page *page, uint32_t at)
{
	unsigned int low = 0, high = page->count;

	while (high - low > 1) {
		unsigned int middle = (low + high) / 2;

		if (page->segments[middle].start <= at)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Make a segment begin at @at; its index. There is room for one more. */
static unsigned int page_split(struct page *page, uint32_t at)
{
	unsigned int i = page_find(page, at);
	struct segment *segment = &page->segments[i];

	if (at >= SHADOW_PAGE)
		return page->count;
	if (segment->start == at)
		return i;
	memmove(segment + 1, segment, (page->count - i) * sizeof(*segment));
	page->count++;
	segment[1].start = at;
	op_hold(segment->write);
	if (segment->reads)
		segment->reads->refs++;
	return i + 1;
}

static bool segments_same(const struct segment *a, const struct segment *b)
{
	return a->write == b->write && a->reads == b->reads && a->written == b->written;
}

/* Join the segments from @first to @last with equal neighbours. */
static void page_join(struct page *page, unsigned int first, unsigned int last)
{
	unsigned int from = first ? first - 1 : 0, to = from, i;

	if (last > page->count - 1)
		last = page->count - 1;
	for (i = from + 1; i <= last; i++) {
		if (segments_same(&page->segments[to], &page->segments[i]))
			segment_clear(&page->segments[i]);
		else
			page->segments[++to] = page->segments[i];
	}
	memmove(&page->segments[to + 1], &page->segments[last + 1],
		(page->count - last - 1) * sizeof(page->segments[0]));
	page->count -= last - to;
}

/* ---- accesses */

static void conflict_add(struct conflict *conflict, struct op *other, bool wrote, uint64_t at, uint64_t bytes)
{
	if (!conflict->other) {
		*conflict = (struct conflict) { .other = op_hold(other), .wrote = wrote, .at = at, .bytes = bytes };
	} else if (conflict->other == other && conflict->at + conflict->bytes == at) {
		conflict->bytes += bytes;
	}
}

/* @op: the access, or NULL: nothing may use the bytes. @born: an operation that does not count, or NULL. */
static void segment_conflicts(const struct segment *segment, const struct op *op, const struct clock *clock, bool write,
			      const struct op *born, struct conflict *conflict, uint64_t at, uint64_t bytes)
{
	unsigned int i;

	if (segment->write != born && !clock_covers(clock, segment->write->slot, segment->write->time) &&
	    (!op || word_race(op, clock, write, segment->write, true)))
		conflict_add(conflict, segment->write, true, at, bytes);
	if (!segment->reads || !(write || unlikely(segment->reads->wrote)))
		return;
	for (i = 0; i < segment->reads->count; i++) {
		const struct use *use = &segment->reads->use[i];

		if ((write || use->wrote) && use->op != born && !clock_covers(clock, use->op->slot, use->op->time) &&
		    (!op || word_race(op, clock, write, use->op, use->wrote)))
			conflict_add(conflict, use->op, use->wrote, at, bytes);
	}
}

/* What the set of reads has after an operation wrote a word, or NULL. */
static struct reads *reads_left(const struct segment *segment, const struct op *op, const struct clock *clock)
{
	unsigned int count = segment->reads ? segment->reads->count : 0, i;
	struct reads *reads = reads_room(count + 1);

	if (!reads)
		return NULL;
	if (segment->write != op)
		reads_leave(reads, segment->write, true, op, true, clock);
	for (i = 0; i < count; i++)
		reads_leave(reads, segment->reads->use[i].op, segment->reads->use[i].wrote, op, true, clock);
	if (reads->count)
		return reads;
	reads_free(reads);
	return NULL;
}

struct access {
	struct op *op;
	const struct clock *clock;
	bool write;
	bool written;			/* a write: whether its bytes count as written */
	struct finding *finding;
	const struct reads *old;	/* the set that was replaced last, and by what */
	struct reads *made;
};

static void segment_access(struct access *a, struct segment *segment, uint64_t at, uint64_t bytes)
{
	struct reads *old;

	segment_conflicts(segment, a->op, a->clock, a->write, NULL, &a->finding->race, at, bytes);
	if (a->write) {
		old = segment->reads;
		segment->reads = unlikely(a->op->word) ? reads_left(segment, a->op, a->clock) : NULL;
		reads_drop(old);
		if (segment->write != a->op) {
			op_drop(segment->write);
			segment->write = op_hold(a->op);
		}
		segment->written = a->written;
		return;
	}
	if (!segment->written) {
		if (!a->finding->unwritten)
			a->finding->unwritten_at = at;
		a->finding->unwritten += bytes;
	}
	if (segment->reads && segment->reads == a->made)
		return;
	if (!a->made || segment->reads != a->old) {
		reads_drop(a->made);
		a->old = segment->reads;
		a->made = reads_with(segment->reads, a->op, a->clock);
		if (!a->made)
			return;
	}
	a->made->refs++;
	old = segment->reads;
	segment->reads = a->made;
	if (old && old->refs == 1) {
		/* Another set may be made at its address: forget the pair. */
		reads_drop(a->made);
		a->made = NULL;
	}
	reads_drop(old);
}

/* Access bytes of one memory that follow each other. */
static __attribute__((flatten)) void access_bytes(struct access *a, struct memory *memory, uint64_t at, uint64_t bytes)
{
	uint64_t end;

	if (at >= memory->size)
		return;
	if (bytes > memory->size - at)
		bytes = memory->size - at;
	for (end = at + bytes; at < end;) {
		uint64_t index = at / SHADOW_PAGE, page_at = index * SHADOW_PAGE;
		uint64_t in_page = memory->size - page_at < SHADOW_PAGE ? memory->size - page_at : SHADOW_PAGE;
		uint64_t stop = end - page_at < in_page ? end - page_at : SHADOW_PAGE;
		struct page *page = page_get(memory, index);
		unsigned int first, last, i;

		if (!page)
			return;
		/* Most often the whole page is accessed, and all earlier accesses covered all of it. */
		if (page->count == 1 && at == page_at && stop == SHADOW_PAGE) {
			segment_access(a, page->segments, at, in_page);
			at += SHADOW_PAGE;
			continue;
		}
		if (!page_room(page, 2))
			return;
		first = page_split(page, at - page_at);
		last = page_split(page, stop);
		for (i = first; i < last; i++) {
			uint64_t from = page->segments[i].start;
			uint64_t to = i + 1 < page->count ? page->segments[i + 1].start : in_page;

			segment_access(a, &page->segments[i], page_at + from, to - from);
		}
		page_join(page, first, last);
		at = page_at + stop;
	}
}

/* Call access_bytes() for the rows of a box. */
static __attribute__((noinline)) void access_box(struct access *a, const struct span *span, const struct box *box)
{
	uint64_t y, z;

	for (z = 0; z < box->depth; z++) {
		uint64_t at = span->at + z * span->slice;

		if (box->height == 1 || span->pitch == box->width) {
			access_bytes(a, span->memory, at, box->width * box->height);
			continue;
		}
		for (y = 0; y < box->height; y++)
			access_bytes(a, span->memory, at + y * span->pitch, box->width);
	}
}

void shadow_access(const struct span *span, const struct box *box, struct op *op, const struct clock *clock,
		   bool write, struct finding *finding)
{
	struct access a = { .op = op, .clock = clock, .write = write, .written = true, .finding = finding };

	span->memory->writes += write;
	if (likely(box->height * box->depth == 1))
		access_bytes(&a, span->memory, span->at, box->width);
	else
		access_box(&a, span, box);
	reads_drop(a.made);
}

/* Mark those bytes of a destination as never written whose source was not. Both ends are one row. */
static void copy_unwritten(struct memory *dst, uint64_t dst_at, struct memory *src, uint64_t src_at, uint64_t bytes)
{
	uint64_t end = src_at + bytes;

	while (src_at < end && src_at < src->size) {
		uint64_t index = src_at / SHADOW_PAGE, page_at = index * SHADOW_PAGE;
		struct page *page = page_get(src, index), *to;
		uint64_t stop, dst_page, length;
		unsigned int i;
		bool written;

		if (!page)
			return;
		i = page_find(page, src_at - page_at);
		written = page->segments[i].written;
		stop = page_at + (i + 1 < page->count ? page->segments[i + 1].start : SHADOW_PAGE);
		if (stop > end)
			stop = end;
		length = stop - src_at;
		/* The destination's page of the first byte. */
		dst_page = dst_at / SHADOW_PAGE * SHADOW_PAGE;
		if (length > dst_page + SHADOW_PAGE - dst_at)
			length = dst_page + SHADOW_PAGE - dst_at;
		if (!written && dst_at < dst->size) {
			to = page_get(dst, dst_at / SHADOW_PAGE);
			if (to && page_room(to, 2)) {
				unsigned int first = page_split(to, dst_at - dst_page);
				unsigned int last = page_split(to, dst_at - dst_page + length);

				for (i = first; i < last; i++)
					to->segments[i].written = false;
				page_join(to, first, last);
			}
		}
		src_at += length;
		dst_at += length;
	}
}

void shadow_copy(const struct span *dst, const struct span *src, const struct box *box, struct op *op,
		 const struct clock *clock, struct finding *wrote, struct finding *read)
{
	uint64_t y, z;

	shadow_access(src, box, op, clock, false, read);
	shadow_access(dst, box, op, clock, true, wrote);
	if (!read->unwritten || dst->memory->open)
		return;
	for (z = 0; z < box->depth; z++)
		for (y = 0; y < box->height; y++)
			copy_unwritten(dst->memory, dst->at + z * dst->slice + y * dst->pitch, src->memory,
				       src->at + z * src->slice + y * src->pitch, box->width);
}

void shadow_written(struct memory *memory, uint64_t at, uint64_t bytes)
{
	uint64_t end = at + bytes < memory->size ? at + bytes : memory->size;

	while (!memory->open && at < end) {
		uint64_t page_at = at / SHADOW_PAGE * SHADOW_PAGE;
		uint64_t stop = end - page_at < SHADOW_PAGE ? end - page_at : SHADOW_PAGE;
		struct page *page = page_get(memory, at / SHADOW_PAGE);
		unsigned int first, last, i;

		if (!page || !page_room(page, 2))
			return;
		first = page_split(page, at - page_at);
		last = page_split(page, stop);
		for (i = first; i < last; i++)
			page->segments[i].written = true;
		page_join(page, first, last);
		at = page_at + stop;
	}
}

void shadow_uses(struct memory *memory, const struct clock *clock, bool born, struct conflict *conflict)
{
	uint64_t pages = (memory->size + SHADOW_PAGE - 1) / SHADOW_PAGE, index;
	unsigned int i;

	for (index = 0; memory->pages && index < pages; index++) {
		const struct page *page = memory->pages[index];

		for (i = 0; page && i < page->count; i++) {
			uint64_t size = memory->size - index * SHADOW_PAGE, from = page->segments[i].start;
			uint64_t end = i + 1 < page->count ? page->segments[i + 1].start :
				size < SHADOW_PAGE ? size : SHADOW_PAGE;

			/* The allocation itself comes last. */
			segment_conflicts(&page->segments[i], NULL, clock, true, memory->born, conflict,
					  index * SHADOW_PAGE + from, end - from);
		}
	}
	if (born && !clock_covers(clock, memory->born->slot, memory->born->time))
		conflict_add(conflict, memory->born, true, 0, memory->size);
}

bool shadow_pending(const struct span *span, uint64_t bytes, const struct clock *clock)
{
	const struct memory *memory = span->memory;
	uint64_t end = span->at + bytes, at;

	for (at = span->at; memory->pages && at < end && at < memory->size;) {
		uint64_t page_at = at / SHADOW_PAGE * SHADOW_PAGE;
		const struct page *page = memory->pages[at / SHADOW_PAGE];
		unsigned int i;

		for (i = page ? page_find(page, at - page_at) : 0;
		     page && i < page->count && page_at + page->segments[i].start < end; i++) {
			const struct op *write = page->segments[i].write;
			const struct reads *reads = page->segments[i].reads;
			unsigned int k;

			if (!clock_covers(clock, write->slot, write->time))
				return true;
			for (k = 0; reads && reads->wrote && k < reads->count; k++)
				if (reads->use[k].wrote &&
				    !clock_covers(clock, reads->use[k].op->slot, reads->use[k].op->time))
					return true;
		}
		at = page_at + SHADOW_PAGE;
	}
	return false;
}

void shadow_open(struct memory *memory)
{
	uint64_t pages = (memory->size + SHADOW_PAGE - 1) / SHADOW_PAGE, index;
	unsigned int i;

	memory->open = true;
	for (index = 0; memory->pages && index < pages; index++) {
		struct page *page = memory->pages[index];

		for (i = 0; page && i < page->count; i++)
			page->segments[i].written = true;
	}
}
