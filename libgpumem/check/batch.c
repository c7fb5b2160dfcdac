// SPDX-License-Identifier: MIT
/*
 * Copies of one batch that touch the same bytes: CUDA promises no order between them.
 *
 * The rest of the checker models the copies of a batch in their order.
 */
#include "check/check.h"

#define COMPARED	1024u		/* copies of a batch that are compared with each other */

/* Whether two ranges have a byte in common; *@at is the first one. */
static bool meet(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes, uint64_t *at)
{
	*at = a > b ? a : b;
	return a < b ? b_bytes && b - a < a_bytes : a_bytes && a - b < b_bytes;
}

static void found(const struct call *call, uint64_t one, uint64_t other, uint64_t at, bool both_write)
{
	const struct memory *memory = memory_at(at);
	struct report report;

	report_begin(&report, REPORT_RACE, "copies %llu and %llu of a batch %s 0x%llx", (unsigned long long)one,
		     (unsigned long long)other, both_write ? "write" : "write and read", (unsigned long long)at);
	report_detail(&report, "the copies of a batch have no order");
	report_stack(&report, call->stack, "by %s", call->name);
	if (memory)
		report_stack(&report, memory->born->stack, "%s of %llu bytes at 0x%llx, made by %s", memory_name(memory),
			     (unsigned long long)memory->size, (unsigned long long)memory->base, memory->born->call);
	report_end(&report);
}

/* Compare two copies. True: they touch the same bytes. */
static bool compare(const struct call *call, const struct batch *batch, uint64_t i, uint64_t k)
{
	uint64_t at;

	if (meet(batch->dst[i], batch->size[i], batch->dst[k], batch->size[k], &at)) {
		found(call, i, k, at, true);
		return true;
	}
	if ((meet(batch->dst[i], batch->size[i], batch->src[k], batch->size[k], &at) && !batch->early(batch, k)) ||
	    (meet(batch->src[i], batch->size[i], batch->dst[k], batch->size[k], &at) && !batch->early(batch, i))) {
		found(call, i, k, at, false);
		return true;
	}
	return false;
}

void batch_compare(const struct call *call, const struct batch *batch)
{
	uint64_t count = batch->count < COMPARED ? batch->count : COMPARED, i, k;

	/* One report for a batch: its stacks are the same. */
	for (i = 0; i < count; i++)
		for (k = i + 1; k < count; k++)
			if (compare(call, batch, i, k))
				return;
}
