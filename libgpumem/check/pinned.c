// SPDX-License-Identifier: MIT
/*
 * Mistakes with host memory that queued work uses.
 *
 * When an asynchronous operation reads pinned memory, the checker takes a sum of the bytes. When the host knows that
 * the operation is done, the bytes must still have that sum, unless another operation has written them. Registered
 * memory must still be mapped then.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

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

static struct sum *sums, **sums_end = &sums;
static unsigned int sum_count;

/* Whether the process can read these bytes. */
static bool mapped(uint64_t addr, uint64_t bytes)
{
	uint64_t page = sysconf(_SC_PAGESIZE), from = addr / page * page, at;
	unsigned char there[256];

	for (at = from; at < addr + bytes;) {
		uint64_t length = addr + bytes - at;

		if (length > sizeof(there) * page)
			length = sizeof(there) * page;
		if (mincore((void *)(uintptr_t)at, length, there) && errno == ENOMEM)
			return false;
		at += (length + page - 1) / page * page;
	}
	return true;
}

/* A sum of bytes that are there; false: they are not. */
static bool sum_of(const struct memory *memory, uint64_t at, uint64_t bytes, uint64_t *sum)
{
	unsigned char some[16384];
	uint64_t word;
	size_t length, i;

	for (*sum = bytes; bytes; at += length, bytes -= length) {
		length = bytes < sizeof(some) ? bytes : sizeof(some);
		if (memory_read(some, memory->base + at, length) != length)
			return false;
		for (i = 0; i + 8 <= length; i += 8) {
			__builtin_memcpy(&word, some + i, 8);
			*sum = (*sum ^ word) * 0x9e3779b97f4a7c15ull;
			*sum ^= *sum >> 29;
		}
		for (; i < length; i++)
			*sum = (*sum ^ some[i]) * 0x9e3779b97f4a7c15ull;
	}
	return true;
}

static void sum_free(struct sum *sum)
{
	op_drop(sum->op);
	memory_drop(sum->memory);
	free(sum);
	sum_count--;
}

void pinned_read(const struct span *span, const struct box *box, struct op *op)
{
	struct memory *memory = span->memory;
	uint64_t bytes = (box->depth - 1) * span->slice + (box->height - 1) * span->pitch + box->width;
	struct sum *sum;

	/* The bytes between rows are the CPU's. */
	if ((box->height > 1 && span->pitch != box->width) || (box->depth > 1 && span->slice != span->pitch * box->height))
		return;
	/* Earlier work may still write the bytes, and so may what host functions and other processes do in stream order. */
	if (op->actor->waiting || shadow_pending(span, bytes, &host.clock) || !clock_known(&outside))
		return;
	if (sum_count == SUMS_MOST || bytes > SUM_BYTES || span->at > memory->size || bytes > memory->size - span->at)
		return;
	sum = calloc(1, sizeof(*sum));
	if (!sum)
		return;
	if (!sum_of(memory, span->at, bytes, &sum->sum)) {
		free(sum);
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
		if (!changed_since && !sum->memory->dead && sum->memory->writes == sum->writes &&
		    (options.strict || !maybe_polled(sum->op)) &&
		    sum_of(sum->memory, sum->at, sum->bytes, &now) && now != sum->sum)
			changed(sum);
		sum_free(sum);
	}
}

static void check_mapped(struct memory *memory, void *arg)
{
	struct report report;

	(void)arg;
	if (memory->kind != MEMORY_REGISTERED || memory->reported || mapped(memory->base, memory->size))
		return;
	memory->reported = true;
	report_begin(&report, REPORT_HOST_UNMAPPED, "registered memory was unmapped: %llu bytes at 0x%llx",
		     (unsigned long long)memory->size, (unsigned long long)memory->base);
	report_detail(&report, "cuMemHostUnregister() must come before munmap() or free()");
	report_stack(&report, memory->born->stack, "registered by %s", memory->born->call);
	report_end(&report);
}

void pinned_mapped(void)
{
	memories_each(check_mapped, NULL);
}
