/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints: objects, exports, entries of streams, refusals, and what happens
 * to the blocks of managed memory.  Fences have those of the kernel's dma_fence.
 *
 * Names and fields are for users: Documentation/tracing.rst lists them.
 *
 * The events of blocks are under gpumem_managed_lock, so their order is the
 * order of what they report.
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
#include "gpumem_object.h"
#include "gpumem_refusal.h"
#include "gpumem_stream.h"

#define gpumem_trace_types					\
	{ GPUMEM_OBJ_BO, "bo" },				\
	{ GPUMEM_OBJ_TOKEN, "token" },				\
	{ GPUMEM_OBJ_VM, "vm" },				\
	{ GPUMEM_OBJ_STREAM, "stream" },			\
	{ GPUMEM_OBJ_TIMELINE, "timeline" },			\
	{ GPUMEM_OBJ_TIMELINE_REF, "timeline_ref" },		\
	{ GPUMEM_OBJ_EVENT, "event" },				\
	{ GPUMEM_OBJ_POOL, "pool" },				\
	{ GPUMEM_OBJ_POOL_REF, "pool_ref" }

/* enum gpumem_bo_kind; other objects have 0. */
#define gpumem_trace_kinds					\
	{ 0, "none" },						\
	{ GPUMEM_BO_DEVICE, "device" },				\
	{ GPUMEM_BO_VIEW, "view" },				\
	{ GPUMEM_BO_PINNED, "registration" },			\
	{ GPUMEM_BO_HOST, "host" },				\
	{ GPUMEM_BO_FOREIGN, "foreign" },			\
	{ GPUMEM_BO_MANAGED, "managed" }

#define gpumem_trace_ops					\
	{ GPUMEM_OP_NOP, "nop" },				\
	{ GPUMEM_OP_COPY, "copy" },				\
	{ GPUMEM_OP_FILL, "fill" },				\
	{ GPUMEM_OP_WAIT, "wait" },				\
	{ GPUMEM_OP_SIGNAL, "signal" },				\
	{ GPUMEM_OP_TIMESTAMP, "timestamp" },			\
	{ GPUMEM_OP_ADD, "add" },				\
	{ GPUMEM_OP_POLL, "poll" },				\
	{ GPUMEM_OP_PREFETCH, "prefetch" }

#define gpumem_trace_limits					\
	{ GPUMEM_LIMIT_DEVICE, "device" },			\
	{ GPUMEM_LIMIT_HOST, "host" },				\
	{ GPUMEM_LIMIT_PINNED, "pinned" },			\
	{ GPUMEM_LIMIT_MEMLOCK, "memlock" },			\
	{ GPUMEM_LIMIT_MEMCG, "memcg" },			\
	{ GPUMEM_LIMIT_SYSTEM, "system" },			\
	{ GPUMEM_LIMIT_OBJECTS, "objects" },			\
	{ GPUMEM_LIMIT_STREAMS, "streams" },			\
	{ GPUMEM_LIMIT_POOL, "pool" },				\
	{ GPUMEM_LIMIT_PINNED_ALL, "pinned_all" },		\
	{ GPUMEM_LIMIT_MAPPINGS, "mappings" },			\
	{ GPUMEM_LIMIT_RINGS, "rings" },			\
	{ GPUMEM_LIMIT_RINGS_ALL, "rings_all" },		\
	{ GPUMEM_LIMIT_DMEM, "dmem" }

TRACE_DEFINE_ENUM(GPUMEM_OBJ_BO);
TRACE_DEFINE_ENUM(GPUMEM_OBJ_TOKEN);
TRACE_DEFINE_ENUM(GPUMEM_OBJ_VM);
TRACE_DEFINE_ENUM(GPUMEM_OBJ_STREAM);
TRACE_DEFINE_ENUM(GPUMEM_OBJ_TIMELINE);
TRACE_DEFINE_ENUM(GPUMEM_OBJ_TIMELINE_REF);
TRACE_DEFINE_ENUM(GPUMEM_OBJ_EVENT);
TRACE_DEFINE_ENUM(GPUMEM_OBJ_POOL);
TRACE_DEFINE_ENUM(GPUMEM_OBJ_POOL_REF);
TRACE_DEFINE_ENUM(GPUMEM_BO_DEVICE);
TRACE_DEFINE_ENUM(GPUMEM_BO_VIEW);
TRACE_DEFINE_ENUM(GPUMEM_BO_PINNED);
TRACE_DEFINE_ENUM(GPUMEM_BO_HOST);
TRACE_DEFINE_ENUM(GPUMEM_BO_FOREIGN);
TRACE_DEFINE_ENUM(GPUMEM_BO_MANAGED);
TRACE_DEFINE_ENUM(GPUMEM_OP_NOP);
TRACE_DEFINE_ENUM(GPUMEM_OP_COPY);
TRACE_DEFINE_ENUM(GPUMEM_OP_FILL);
TRACE_DEFINE_ENUM(GPUMEM_OP_WAIT);
TRACE_DEFINE_ENUM(GPUMEM_OP_SIGNAL);
TRACE_DEFINE_ENUM(GPUMEM_OP_TIMESTAMP);
TRACE_DEFINE_ENUM(GPUMEM_OP_ADD);
TRACE_DEFINE_ENUM(GPUMEM_OP_POLL);
TRACE_DEFINE_ENUM(GPUMEM_OP_PREFETCH);
TRACE_DEFINE_ENUM(GPUMEM_LIMIT_DEVICE);
TRACE_DEFINE_ENUM(GPUMEM_LIMIT_HOST);
TRACE_DEFINE_ENUM(GPUMEM_LIMIT_PINNED);
TRACE_DEFINE_ENUM(GPUMEM_LIMIT_MEMLOCK);
TRACE_DEFINE_ENUM(GPUMEM_LIMIT_MEMCG);
TRACE_DEFINE_ENUM(GPUMEM_LIMIT_SYSTEM);
TRACE_DEFINE_ENUM(GPUMEM_LIMIT_OBJECTS);
TRACE_DEFINE_ENUM(GPUMEM_LIMIT_STREAMS);
TRACE_DEFINE_ENUM(GPUMEM_LIMIT_POOL);
TRACE_DEFINE_ENUM(GPUMEM_LIMIT_PINNED_ALL);
TRACE_DEFINE_ENUM(GPUMEM_LIMIT_MAPPINGS);
TRACE_DEFINE_ENUM(GPUMEM_LIMIT_RINGS);
TRACE_DEFINE_ENUM(GPUMEM_LIMIT_RINGS_ALL);
TRACE_DEFINE_ENUM(GPUMEM_LIMIT_DMEM);

/*
 * An object gets its id: memory is allocated or imported, a stream is made, and
 * so on.  @device is -1 for objects that belong to no device.  An id may be used
 * again when it is gone; @obj tells objects of one id apart until they are free.
 */
TRACE_EVENT(gpumem_object_new,
	TP_PROTO(const struct gpumem_object *obj,
		 const struct gpumem_object_brief *brief),
	TP_ARGS(obj, brief),
	TP_STRUCT__entry(
		__field(u32, client)
		__field(u32, id)
		__field(u32, type)
		__field(u32, kind)
		__field(s32, device)
		__field(u32, pool)
		__field(u64, bytes)
		__field(const void *, obj)
	),
	TP_fast_assign(
		__entry->client = obj->client->id;
		__entry->id = obj->id;
		__entry->type = brief->type;
		__entry->kind = brief->kind;
		__entry->device = brief->dev ? (s32)brief->dev->ordinal : -1;
		__entry->pool = brief->pool_id;
		__entry->bytes = brief->length;
		__entry->obj = obj;
	),
	TP_printk("client=%u id=%u obj=%p type=%s kind=%s device=%d pool=%u bytes=%llu",
		  __entry->client, __entry->id, __entry->obj,
		  __print_symbolic(__entry->type, gpumem_trace_types),
		  __print_symbolic(__entry->kind, gpumem_trace_kinds),
		  __entry->device, __entry->pool, __entry->bytes)
);

DECLARE_EVENT_CLASS(gpumem_object_end,
	TP_PROTO(const struct gpumem_object *obj),
	TP_ARGS(obj),
	TP_STRUCT__entry(
		__field(u32, client)
		__field(u32, id)
		__field(u32, type)
		__field(const void *, obj)
	),
	TP_fast_assign(
		__entry->client = obj->client->id;
		__entry->id = obj->id;
		__entry->type = obj->type;
		__entry->obj = obj;
	),
	TP_printk("client=%u id=%u obj=%p type=%s", __entry->client,
		  __entry->id, __entry->obj,
		  __print_symbolic(__entry->type, gpumem_trace_types))
);

/* The id is destroyed; the object may be in use. */
DEFINE_EVENT(gpumem_object_end, gpumem_object_gone,
	TP_PROTO(const struct gpumem_object *obj),
	TP_ARGS(obj)
);

/* The last reference is dropped; the memory is freed. */
DEFINE_EVENT(gpumem_object_end, gpumem_object_free,
	TP_PROTO(const struct gpumem_object *obj),
	TP_ARGS(obj)
);

DECLARE_EVENT_CLASS(gpumem_export,
	TP_PROTO(const struct gpumem_client *client,
		 const struct gpumem_device *dev, u64 bytes, bool handle),
	TP_ARGS(client, dev, bytes, handle),
	TP_STRUCT__entry(
		__field(u32, client)
		__field(u32, device)
		__field(u64, bytes)
		__field(bool, handle)
	),
	TP_fast_assign(
		__entry->client = client->id;
		__entry->device = dev->ordinal;
		__entry->bytes = bytes;
		__entry->handle = handle;
	),
	TP_printk("client=%u device=%u kind=%s bytes=%llu", __entry->client,
		  __entry->device, __entry->handle ? "handle" : "dmabuf",
		  __entry->bytes)
);

/* A DMA-buf or a memory handle is made. */
DEFINE_EVENT(gpumem_export, gpumem_export_new,
	TP_PROTO(const struct gpumem_client *client,
		 const struct gpumem_device *dev, u64 bytes, bool handle),
	TP_ARGS(client, dev, bytes, handle)
);

/* The last descriptor of the export is closed. */
DEFINE_EVENT(gpumem_export, gpumem_export_free,
	TP_PROTO(const struct gpumem_client *client,
		 const struct gpumem_device *dev, u64 bytes, bool handle),
	TP_ARGS(client, dev, bytes, handle)
);

/* A worker takes entry @entry from a stream's ring.  Waits are entries, too. */
TRACE_EVENT(gpumem_entry_begin,
	TP_PROTO(const struct gpumem_stream *stream),
	TP_ARGS(stream),
	TP_STRUCT__entry(
		__field(u32, client)
		__field(u32, stream)
		__field(u32, device)
		__field(u32, op)
		__field(u64, entry)
		__field(u64, dst)
		__field(u64, src)
		__field(u64, width)
		__field(u64, height)
	),
	TP_fast_assign(
		__entry->client = stream->obj.client->id;
		__entry->stream = stream->obj.id;
		__entry->device = stream->dev->ordinal;
		__entry->op = stream->sqe.op;
		__entry->entry = stream->head - 1;
		__entry->dst = stream->sqe.dst;
		__entry->src = stream->sqe.src;
		__entry->width = stream->sqe.width;
		__entry->height = stream->sqe.height;
	),
	TP_printk("client=%u stream=%u device=%u entry=%llu op=%s dst=%#llx src=%#llx width=%llu height=%llu",
		  __entry->client, __entry->stream, __entry->device,
		  __entry->entry,
		  __print_symbolic(__entry->op, gpumem_trace_ops),
		  __entry->dst, __entry->src, __entry->width, __entry->height)
);

/* The entry is done; @error is 0, or the errno with which it failed. */
TRACE_EVENT(gpumem_entry_end,
	TP_PROTO(const struct gpumem_stream *stream, int error),
	TP_ARGS(stream, error),
	TP_STRUCT__entry(
		__field(u32, client)
		__field(u32, stream)
		__field(u64, entry)
		__field(u32, op)
		__field(s32, error)
	),
	TP_fast_assign(
		__entry->client = stream->obj.client->id;
		__entry->stream = stream->obj.id;
		__entry->entry = stream->head - 1;
		__entry->op = stream->sqe.op;
		__entry->error = -error;
	),
	TP_printk("client=%u stream=%u entry=%llu op=%s error=%d",
		  __entry->client, __entry->stream, __entry->entry,
		  __print_symbolic(__entry->op, gpumem_trace_ops),
		  __entry->error)
);

/* A limit refuses an allocation. */
TRACE_EVENT(gpumem_refusal,
	TP_PROTO(const struct gpumem_client *client,
		 const struct gpumem_refusal *refusal),
	TP_ARGS(client, refusal),
	TP_STRUCT__entry(
		__field(u32, client)
		__field(s32, device)
		__field(u32, limit)
		__field(u32, pool)
		__field(u64, asked)
		__field(u64, used)
		__field(u64, bound)
	),
	TP_fast_assign(
		__entry->client = client->id;
		__entry->device = refusal->dev ?
				  (s32)refusal->dev->ordinal : -1;
		__entry->limit = refusal->limit;
		__entry->pool = refusal->pool;
		__entry->asked = refusal->asked;
		__entry->used = refusal->used;
		__entry->bound = refusal->max;
	),
	TP_printk("client=%u device=%d limit=%s pool=%u asked=%llu used=%llu bound=%llu",
		  __entry->client, __entry->device,
		  __print_symbolic(__entry->limit, gpumem_trace_limits),
		  __entry->pool, __entry->asked, __entry->used,
		  __entry->bound)
);

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
