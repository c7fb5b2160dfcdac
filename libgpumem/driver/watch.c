// SPDX-License-Identifier: MIT
/*
 * What the library behind the tap (core/tap.h) may ask about streams, contexts and memory.
 */
#include "copy/array.h"
#include "driver/driver.h"

static bool describe(CUstream handle, bool own, struct tap_stream *out)
{
	CUstream stream;

	if (stream_get_any(handle, own, &stream))
		return false;
	*out = (struct tap_stream) {
		.key = stream, .id = stream->id, .context = stream->ctx, .created = stream->kind == STREAM_CREATED,
		.order = stream->kind == STREAM_LEGACY_KIND ? TAP_LEGACY :
			stream->flags & CU_STREAM_NON_BLOCKING ? TAP_FREE : TAP_BLOCKING,
	};
	return true;
}

static const void *current(void)
{
	return ctx_top();
}

static const void *primary(int device)
{
	return primary_of(device);
}

static bool range(uint64_t addr, uint64_t *base, uint64_t *size)
{
	struct span span;

	/* Not mem_range(): a device need not reach the memory. */
	if (!vm_lookup(addr, &span))
		return false;
	*base = span.base;
	*size = span.size;
	return true;
}

static bool array(uint64_t handle, struct tap_array *out)
{
	CUarray own = (CUarray)(uintptr_t)handle;
	struct array_layout l;

	if (!array_layout(own, &l) || !l.row || (own->kind == ARRAY_WHOLE && !own->memory.alloc))
		return false;
	*out = (struct tap_array) { .row = l.row, .rows = l.rows, .slices = l.slices, .element = l.element };
	return true;
}

static bool cpu(uint64_t addr)
{
	struct span span;

	return vm_lookup(addr, &span) && span.flags & (ALLOC_ANY_HOST | ALLOC_MANAGED);
}

static bool reached(uint64_t addr, const void *context)
{
	struct span span;

	return vm_lookup(addr, &span) && ctx_reaches((CUcontext)context, &span);
}

static bool alive(const void *context)
{
	const struct CUctx_st *ctx = context;

	return load_acquire(&ctx->state) == CTX_LIVE;
}

static bool strict(void)
{
	return client.strict;
}

/* touch_note keeps the stream of a copy that is over. */
static bool touched(void)
{
	return touch_note.stream && !touch_note.state && !client.faults;
}

static void untouch(void)
{
	/* A copy that was left by a jump still needs its note, and does not count as over. */
	if (!touch_note.state)
		touch_note.stream = NULL;
}

static void verify(void)
{
	quarantine_verify();
	pools_verify();
}

const struct tap_client watch_client = {
	.version = TAP_VERSION, .stream = describe, .context = current, .primary = primary, .range = range,
	.array = array, .cpu = cpu, .reached = reached, .alive = alive, .strict = strict, .mend = host_mend, .verify = verify,
	.pairs_any = pairs_any, .pairs = pairs_take, .touched = touched, .untouch = untouch,
};
