/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints: what happens to the blocks of managed memory.
 *
 * The events are under gpumem_managed_lock, so their order is the order of what
 * they report.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM gpumem

#if !defined(GPUMEM_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define GPUMEM_TRACE_H

#include <linux/tracepoint.h>

#include "gpumem_bo.h"
#include "gpumem_client.h"
#include "gpumem_device.h"
#include "gpumem_evict.h"
#include "gpumem_managed.h"

/* A block becomes resident on @dev; @thrash: soon after an eviction from it. */
DECLARE_EVENT_CLASS(gpumem_managed_in,
	TP_PROTO(const struct gpumem_block *block,
		 const struct gpumem_device *dev, u64 bytes, bool thrash),
	TP_ARGS(block, dev, bytes, thrash),
	TP_STRUCT__entry(
		__field(u32, client)
		__field(u32, device)
		__field(u32, bo)
		__field(bool, thrash)
		__field(u64, block)
		__field(u64, bytes)
	),
	TP_fast_assign(
		__entry->client = block->bo->obj.client->id;
		__entry->device = dev->ordinal;
		__entry->bo = block->bo->obj.id;
		__entry->thrash = thrash;
		__entry->block = block->index;
		__entry->bytes = bytes;
	),
	TP_printk("client=%u device=%u bo=%u block=%llu bytes=%llu thrash=%d",
		  __entry->client, __entry->device, __entry->bo, __entry->block,
		  __entry->bytes, __entry->thrash)
);

/* An engine touched the block. */
DEFINE_EVENT(gpumem_managed_in, gpumem_managed_fault,
	TP_PROTO(const struct gpumem_block *block,
		 const struct gpumem_device *dev, u64 bytes, bool thrash),
	TP_ARGS(block, dev, bytes, thrash)
);

/* A prefetch names the block. */
DEFINE_EVENT(gpumem_managed_in, gpumem_managed_prefetch,
	TP_PROTO(const struct gpumem_block *block,
		 const struct gpumem_device *dev, u64 bytes, bool thrash),
	TP_ARGS(block, dev, bytes, thrash)
);

TRACE_DEFINE_ENUM(GPUMEM_DEPARTURE_EVICTED);
TRACE_DEFINE_ENUM(GPUMEM_DEPARTURE_MOVED);
TRACE_DEFINE_ENUM(GPUMEM_DEPARTURE_FREED);
TRACE_DEFINE_ENUM(GPUMEM_DEPARTURE_WRITTEN);

/* A block, or a copy of it, stops being resident on @dev. */
TRACE_EVENT(gpumem_managed_evict,
	TP_PROTO(const struct gpumem_block *block,
		 const struct gpumem_device *dev, u64 bytes,
		 enum gpumem_departure reason),
	TP_ARGS(block, dev, bytes, reason),
	TP_STRUCT__entry(
		__field(u32, client)
		__field(u32, device)
		__field(u32, bo)
		__field(u32, reason)
		__field(u64, block)
		__field(u64, bytes)
	),
	TP_fast_assign(
		__entry->client = block->bo->obj.client->id;
		__entry->device = dev->ordinal;
		__entry->bo = block->bo->obj.id;
		__entry->reason = reason;
		__entry->block = block->index;
		__entry->bytes = bytes;
	),
	TP_printk("client=%u device=%u bo=%u block=%llu bytes=%llu reason=%s",
		  __entry->client, __entry->device, __entry->bo, __entry->block,
		  __entry->bytes,
		  __print_symbolic(__entry->reason,
				   { GPUMEM_DEPARTURE_EVICTED, "room" },
				   { GPUMEM_DEPARTURE_MOVED, "moved" },
				   { GPUMEM_DEPARTURE_FREED, "freed" },
				   { GPUMEM_DEPARTURE_WRITTEN, "written" }))
);

#endif /* GPUMEM_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE gpumem_trace
#include <trace/define_trace.h>
