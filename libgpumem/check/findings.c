// SPDX-License-Identifier: MIT
/*
 * Reports of what running steps find: races, frees that are not ordered, bytes that nobody wrote.
 */
#include <stdio.h>

#include "check/check.h"

static const char *past(const struct conflict *conflict)
{
	return conflict->other->kind == OP_FREE ? "freed" : conflict->wrote ? "wrote" : "reads";
}

static void memory_stack(struct report *report, const struct memory *memory, uint64_t at)
{
	const struct op *born = memory->born;

	report_stack(report, born->stack, "%s of %llu bytes at 0x%llx, byte %llu, made by %s in %s",
		     memory_name(memory), (unsigned long long)memory->size, (unsigned long long)memory->base,
		     (unsigned long long)at, born->call, born->actor->name);
}

bool maybe_polled(const struct op *op)
{
	return clock_covers(&polled, op->slot, op->time);
}

static void before_alloc(const struct op *op, const struct memory *memory, bool write,
			 const struct conflict *conflict)
{
	struct report report;

	report_begin(&report, REPORT_BEFORE_ALLOC, "%s %s memory before its allocation: %llu bytes at 0x%llx",
		     op->actor->name, write ? "writes" : "reads", (unsigned long long)conflict->bytes,
		     (unsigned long long)(memory->base + conflict->at));
	report_detail(&report, "%s allocated it in %s; no event, synchronization or legacy-stream order lies between",
		      conflict->other->call, conflict->other->actor->name);
	report_stack(&report, op->stack, "%s by %s in %s", write ? "written" : "read", op->call, op->actor->name);
	memory_stack(&report, memory, conflict->at);
	report_end(&report);
}

void found_race(const struct op *op, const struct memory *memory, bool write, const struct conflict *conflict)
{
	const struct op *other = conflict->other;
	bool polled_for = maybe_polled(other);
	struct report report;

	if (polled_for && !options.strict)
		return;
	if (other->kind == OP_ALLOC) {
		before_alloc(op, memory, write, conflict);
		return;
	}
	report_begin(&report, REPORT_RACE, "%s %s what %s %s: %llu bytes at 0x%llx", op->actor->name,
		     write ? "writes" : "reads", other->actor->name, past(conflict),
		     (unsigned long long)conflict->bytes, (unsigned long long)(memory->base + conflict->at));
	report_detail(&report, polled_for ? "no event, synchronization or legacy-stream order lies between %s and %s; polling a "
		      "word, or another process, may have ordered them" :
		      "no event, synchronization or legacy-stream order lies between %s and %s", other->call, op->call);
	report_stack(&report, op->stack, "%s by %s in %s", write ? "written" : "read", op->call, op->actor->name);
	report_stack(&report, other->stack, "%s by %s in %s", conflict->wrote ? "written" : "read", other->call,
		     other->actor->name);
	memory_stack(&report, memory, conflict->at);
	report_end(&report);
}

/*
 * Whether the CPU or another device has written the bytes after all. New device memory is zero. A block of a pool may
 * also have the patterns of memory that was freed. Except in strict mode, the CPU reaches device memory, as CUDA
 * promises no program.
 */
static bool others_wrote(const struct memory *memory, uint64_t at, uint64_t bytes)
{
	bool pool = memory->kind == MEMORY_POOL;
	unsigned char some[4096];
	size_t length, i;

	if ((memory->kind != MEMORY_DEVICE && !pool) || driver->strict())
		return false;
	for (; bytes; at += length, bytes -= length) {
		length = memory_read(some, memory->base + at, bytes < sizeof(some) ? bytes : sizeof(some));
		for (i = 0; i < length; i++)
			if (some[i] && !(pool && (some[i] == PATTERN_FREED || some[i] == PATTERN_ZONE)))
				return true;
		if (!length)
			return false;
	}
	return false;
}

void found_unwritten(const struct op *op, struct memory *memory, uint64_t at, uint64_t bytes)
{
	struct report report;

	if (others_wrote(memory, at, bytes)) {
		shadow_open(memory);
		return;
	}

	report_begin(&report, REPORT_UNINITIALIZED, "%s reads %llu bytes that nobody wrote, at 0x%llx",
		     op->actor->name, (unsigned long long)bytes, (unsigned long long)(memory->base + at));
	report_stack(&report, op->stack, "read by %s in %s", op->call, op->actor->name);
	memory_stack(&report, memory, at);
	report_end(&report);
}

void found_unordered_free(const struct op *op, const struct memory *memory, const struct conflict *conflict)
{
	const struct op *other = conflict->other;
	struct report report;

	if (maybe_polled(other) && !options.strict)
		return;
	report_begin(&report, REPORT_FREE_UNORDERED, "%s frees memory that %s %s: 0x%llx",
		     op->actor->name, other->actor->name,
		     other->kind == OP_ALLOC ? "allocates" : conflict->wrote ? "writes" : "reads",
		     (unsigned long long)memory->base);
	report_detail(&report, "no event, synchronization or legacy-stream order lies between %s and %s", other->call,
		      op->call);
	report_stack(&report, op->stack, "freed by %s in %s", op->call, op->actor->name);
	report_stack(&report, other->stack, "used by %s in %s", other->call, other->actor->name);
	memory_stack(&report, memory, conflict->at);
	report_end(&report);
}
