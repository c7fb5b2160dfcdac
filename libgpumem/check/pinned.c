// SPDX-License-Identifier: MIT
/*
 * Mistakes with host memory that queued work uses.
 *
 * When an asynchronous operation reads pinned memory, the checker takes a sum of the bytes. When the host knows that
 * the operation is done, the bytes must still have that sum, unless another operation has written them.
 */
#include <stdlib.h>
#include <string.h>

#include "check/check.h"

#define SUMS_MOST	1024u		/* operations that are kept at a time */
#define SUM_BYTES	(16ull << 20)	/* longer ranges are not summed */

struct sum {
	struct op *op;
	struct memory *memory;
	uint64_t at, bytes;
	uint64_t sum;
	uint64_t writes;		/* of the memory, at that time */
	struct sum *next;
};

static struct spares spare_sums;
static struct sum *sums, **sums_end = &sums;
static unsigned int sum_count;

#define COLUMNS	4u			/* words that are summed side by side */
#define ODD	0x9e3779b97f4a7c15ull

struct columns {
	uint64_t sum[COLUMNS];
};

static uint64_t mix(uint64_t sum, uint64_t word)
{
	sum ^= word;
	/* The product carries a difference upwards only. */
	return (sum << 29 | sum >> 35) * ODD;
}

/* @count: a multiple of COLUMNS. */
static void add_words(struct columns *columns, const uint64_t *word, size_t count)
{
	/* Variables of their own, because the compiler keeps arrays in memory here. */
	uint64_t a = columns->sum[0], b = columns->sum[1], c = columns->sum[2], d = columns->sum[3];
	const uint64_t *end = word + count;

	for (; word < end; word += COLUMNS) {
		a = mix(a, word[0]);
		b = mix(b, word[1]);
		c = mix(c, word[2]);
		d = mix(d, word[3]);
	}
	*columns = (struct columns) { .sum = { a, b, c, d } };
}

/* Add any number of bytes: the last words end with zeros. */
static void add_bytes(struct columns *columns, const void *bytes, size_t count)
{
	size_t whole = count / sizeof(*columns) * sizeof(*columns);
	uint64_t rest[COLUMNS] = { 0 };

	add_words(columns, bytes, whole / sizeof(uint64_t));
	/* Pieces of a multiple of this size have the sum of the whole. */
	if (whole == count)
		return;
	memcpy(rest, (const char *)bytes + whole, count - whole);
	add_words(columns, rest, COLUMNS);
}

/* A sum of bytes that are there; false: they are not. @read: the calling thread has just read them. */
static bool sum_of(const struct memory *memory, uint64_t at, uint64_t bytes, bool read, uint64_t *sum)
{
	struct columns columns = { .sum = { bytes, 1, 2, 3 } };
	uint64_t here = memory->base + at;
	unsigned int column;
	uint64_t some[2048];
	size_t length;

	/*
	 * The driver's own memory is read in place if it is mapped. The program can make that wrong: it maps something that
	 * it cannot read in its place, or another thread unmaps it now.
	 */
	if (memory->kind == MEMORY_HOST && here % 8 == 0 && (read || !unmapped(here, bytes))) {
		add_bytes(&columns, (const void *)(uintptr_t)here, bytes);
		bytes = 0;
	}
	for (; bytes; here += length, bytes -= length) {
		length = bytes < sizeof(some) ? bytes : sizeof(some);
		if (memory_read(some, here, length) != length)
			return false;
		add_bytes(&columns, some, length);
	}
	for (*sum = 0, column = 0; column < COLUMNS; column++)
		*sum = mix(*sum, columns.sum[column]);
	return true;
}

static void sum_free(struct sum *sum)
{
	op_drop(sum->op);
	memory_drop(sum->memory);
	spare_give(&spare_sums, sum);
	sum_count--;
}

void pinned_read(const struct span *span, const struct box *box, struct op *op, bool read)
{
	struct memory *memory = span->memory;
	uint64_t bytes = (box->depth - 1) * span->slice + (box->height - 1) * span->pitch + box->width;
	struct sum *sum;

	/* The bytes between rows are the CPU's. */
	if ((box->height > 1 && span->pitch != box->width) || (box->depth > 1 && span->slice != span->pitch * box->height))
		return;
	/* Earlier work may still write the bytes, and so may what host functions and other processes do in stream order. */
	if (op->actor->waiting || clock_lost(&op->actor->clock) || shadow_pending(span, bytes, &host.clock) ||
	    !clock_known(&outside))
		return;
	if (sum_count == SUMS_MOST || bytes > SUM_BYTES || span->at > memory->size || bytes > memory->size - span->at)
		return;
	sum = spare_take(&spare_sums, sizeof(*sum));
	if (!sum)
		return;
	if (!sum_of(memory, span->at, bytes, read, &sum->sum)) {
		spare_give(&spare_sums, sum);
		return;
	}
	sum->op = op_hold(op);
	sum->memory = memory_hold(memory);
	sum->at = span->at;
	sum->bytes = bytes;
	sum->writes = memory->writes;
	*sums_end = sum;
	sums_end = &sum->next;
	sum_count++;
}

static void changed(const struct sum *sum)
{
	struct report report;

	report_begin(&report, REPORT_HOST_WRITE,
		     "the CPU changed pinned memory while queued work read it: %llu bytes at 0x%llx",
		     (unsigned long long)sum->bytes, (unsigned long long)(sum->memory->base + sum->at));
	report_detail(&report, "%s reads the bytes until the program synchronizes with %s", sum->op->call,
		      sum->op->actor->name);
	report_stack(&report, sum->op->stack, "read by %s in %s", sum->op->call, sum->op->actor->name);
	report_stack(&report, sum->memory->born->stack, "%s of %llu bytes at 0x%llx, made by %s",
		     memory_name(sum->memory), (unsigned long long)sum->memory->size,
		     (unsigned long long)sum->memory->base, sum->memory->born->call);
	report_end(&report);
}

void pinned_compare(bool changed_since)
{
	struct sum **at = &sums, *sum;
	uint64_t now;

	while ((sum = *at)) {
		if (!sum->memory->dead && (!sum->op->time ||
					   !clock_covers(&host.clock, sum->op->slot, sum->op->time))) {
			at = &sum->next;
			continue;
		}
		*at = sum->next;
		if (sums_end == &sum->next)
			sums_end = at;
		if (!changed_since && !sum->memory->dead && !sum->memory->reported && sum->memory->writes == sum->writes &&
		    (options.strict || !maybe_polled(sum->op)) &&
		    sum_of(sum->memory, sum->at, sum->bytes, false, &now) && now != sum->sum)
			changed(sum);
		sum_free(sum);
	}
}
