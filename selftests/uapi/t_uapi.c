// SPDX-License-Identifier: GPL-2.0
/*
 * The form of the kernel interface: structure layout, sizes, flags, reserved members, bad pointers,
 * unknown numbers, and random structures.  The other programs test what the calls do.
 */
#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>

#include "kselftest_harness.h"
#include "common/pool_util.h"
#include "uapi_layout.h"

/* Objects that valid calls name. */
struct world {
	int fd, fd2, dmabuf, exported, channel, semaphore;
	__u32 bo, managed, vm, stream, stream_timeline, timeline, counting, token, event, pool, import, chunk_bo;
	__u64 chunk;
	__u8 name[GPUMEM_TOKEN_SIZE], event_name[GPUMEM_TOKEN_SIZE];
};

#define BO_BYTES	(64 * KIB)

#define ADDR		0x100000000ULL

struct span {
	unsigned int offset, size;
};

#define SPAN(type, member) { offsetof(struct type, member), sizeof(((struct type *)0)->member) }

union any {
	__u32 size;
	struct gpumem_info info;
	struct gpumem_device_attach attach;
	struct gpumem_destroy destroy;
	struct gpumem_bo_alloc bo_alloc;
	struct gpumem_bo_info bo_info;
	struct gpumem_bo_advise advise;
	struct gpumem_bo_retire retire;
	struct gpumem_bo_export export;
	struct gpumem_bo_import import;
	struct gpumem_token_create token_create;
	struct gpumem_token_open token_open;
	struct gpumem_vm_create vm_create;
	struct gpumem_vm_map map;
	struct gpumem_vm_unmap unmap;
	struct gpumem_vm_access access;
	struct gpumem_vm_bind bind;
	struct gpumem_stream_create stream;
	struct gpumem_stream_doorbell doorbell;
	struct gpumem_timeline_create timeline;
	struct gpumem_timeline_signal signal;
	struct gpumem_timeline_take take;
	struct gpumem_timeline_wait wait;
	struct gpumem_stats stats;
	struct gpumem_bo_pin pin;
	struct gpumem_event_create event_create;
	struct gpumem_event_open event_open;
	struct gpumem_event_record event_record;
	struct gpumem_event_get event_get;
	struct gpumem_pool_create pool_create;
	struct gpumem_pool_set pool_set;
	struct gpumem_pool_info pool_info;
	struct gpumem_pool_export pool_export;
	struct gpumem_pool_import pool_import;
	struct gpumem_pool_chunk_open chunk_open;
	struct gpumem_channel_attach channel;
	struct gpumem_refusal_info refusal;
	struct gpumem_timeline_export timeline_export;
	struct gpumem_timeline_import timeline_import;
	struct gpumem_vm_export vm_export;
	unsigned char bytes[512];
};

/* Memory to register. */
static char pinned[10000];

/* Makes the input members valid, and the other objects that the call needs. */
static void prepare(struct world *w, unsigned int cmd, union any *u)
{
	switch (cmd) {
	case GPUMEM_CMD_DEVICE_ATTACH:
		u->attach.fd = w->fd2;
		break;
	case GPUMEM_CMD_DESTROY:
		gp_timeline_create(w->fd, 0, &u->destroy.id);
		break;
	case GPUMEM_CMD_BO_ALLOC:
		u->bo_alloc.length = page_size;
		u->bo_alloc.pool = w->pool;
		break;
	case GPUMEM_CMD_BO_INFO:
		u->bo_info.id = w->bo;
		break;
	case GPUMEM_CMD_BO_ADVISE:
		u->advise.id = w->managed;
		u->advise.length = 1;
		u->advise.advice = GPUMEM_ADVICE_PREFERRED;
		break;
	case GPUMEM_CMD_BO_RETIRE:
		u->retire.id = w->bo;
		u->retire.length = page_size;
		u->retire.flags = GPUMEM_BO_RETIRE_QUERY;
		break;
	case GPUMEM_CMD_BO_EXPORT:
		u->export.id = w->bo;
		u->export.length = page_size;
		break;
	case GPUMEM_CMD_BO_IMPORT:
		u->import.fd = w->dmabuf;
		break;
	case GPUMEM_CMD_TOKEN_CREATE:
		u->token_create.bo = w->bo;
		u->token_create.length = 100;
		break;
	case GPUMEM_CMD_TOKEN_OPEN:
		memcpy(u->token_open.token, w->name, sizeof(w->name));
		break;
	case GPUMEM_CMD_VM_MAP:
		u->map.vm = w->vm;
		u->map.bo = w->bo;
		u->map.addr = ADDR;
		u->map.length = page_size;
		break;
	case GPUMEM_CMD_VM_UNMAP:
		u->unmap.vm = w->vm;
		u->unmap.addr = ADDR;
		u->unmap.length = page_size;
		gp_vm_map(w->fd, w->vm, w->bo, 0, ADDR, page_size, 1, 1);
		break;
	case GPUMEM_CMD_VM_ACCESS:
		u->access.vm = w->vm;
		u->access.addr = ADDR;
		u->access.length = page_size;
		u->access.access = GPUMEM_ACCESS_READ;
		gp_vm_map(w->fd, w->vm, w->bo, 0, ADDR, page_size, 1, 1);
		break;
	case GPUMEM_CMD_VM_EXPORT:
		u->vm_export.vm = w->vm;
		u->vm_export.addr = ADDR;
		u->vm_export.length = page_size;
		gp_vm_map(w->fd, w->vm, w->bo, 0, ADDR, page_size, 1, 1);
		break;
	case GPUMEM_CMD_VM_BIND:
		u->bind.vm = w->vm;
		u->bind.addr = ADDR;
		u->bind.length = GPUMEM_TILE_SIZE;
		gp_vm_map_sparse(w->fd, w->vm, ADDR, GPUMEM_TILE_SIZE, 1, 1);
		break;
	case GPUMEM_CMD_STREAM_CREATE:
		u->stream.vm = w->vm;
		u->stream.entries = 16;
		break;
	case GPUMEM_CMD_STREAM_DOORBELL:
		u->doorbell.id = w->stream;
		break;
	case GPUMEM_CMD_TIMELINE_SIGNAL:
		u->signal.id = w->timeline;
		u->signal.value = 1;
		break;
	case GPUMEM_CMD_TIMELINE_TAKE:
		u->take.id = w->counting;
		break;
	case GPUMEM_CMD_TIMELINE_WAIT:
		u->wait.id = w->timeline;
		break;
	case GPUMEM_CMD_BO_PIN:
		u->pin.addr = (uintptr_t)pinned;
		u->pin.length = sizeof(pinned);
		break;
	case GPUMEM_CMD_EVENT_OPEN:
		memcpy(u->event_open.token, w->event_name, sizeof(w->event_name));
		break;
	case GPUMEM_CMD_EVENT_RECORD:
		u->event_record.id = w->event;
		u->event_record.timeline = w->stream_timeline;
		u->event_record.value = 1;
		break;
	case GPUMEM_CMD_EVENT_GET:
		u->event_get.id = w->event;
		gp_event_record(w->fd, w->event, w->stream_timeline, 1);
		break;
	case GPUMEM_CMD_POOL_SET:
		u->pool_set.id = w->pool;
		u->pool_set.used = 1;
		break;
	case GPUMEM_CMD_POOL_INFO:
		u->pool_info.id = w->pool;
		break;
	case GPUMEM_CMD_POOL_EXPORT:
		u->pool_export.id = w->pool;
		break;
	case GPUMEM_CMD_POOL_IMPORT:
		u->pool_import.fd = w->exported;
		break;
	case GPUMEM_CMD_POOL_CHUNK_OPEN:
		u->chunk_open.pool = w->import;
		u->chunk_open.chunk = w->chunk;
		break;
	case GPUMEM_CMD_CHANNEL_ATTACH:
		u->channel.fd = w->channel;
		break;
	case GPUMEM_CMD_TIMELINE_EXPORT:
		u->timeline_export.id = w->timeline;
		break;
	case GPUMEM_CMD_TIMELINE_IMPORT:
		u->timeline_import.fd = w->semaphore;
		break;
	}
}

/* Destroys the objects that prepare() made and, if @done, those that the call made.  */
static void undo(struct world *w, unsigned int cmd, union any *u, bool done)
{
	switch (cmd) {
	case GPUMEM_CMD_DESTROY:
		if (!done)
			gp_destroy(w->fd, u->destroy.id);
		break;
	case GPUMEM_CMD_BO_ALLOC:
		if (done)
			gp_destroy(w->fd, u->bo_alloc.id);
		break;
	case GPUMEM_CMD_BO_EXPORT:
		if (done)
			close(u->export.fd);
		break;
	case GPUMEM_CMD_BO_IMPORT:
		if (done)
			gp_destroy(w->fd, u->import.id);
		break;
	case GPUMEM_CMD_TOKEN_CREATE:
		if (done)
			gp_destroy(w->fd, u->token_create.id);
		break;
	case GPUMEM_CMD_TOKEN_OPEN:
		if (done)
			gp_destroy(w->fd, u->token_open.id);
		break;
	case GPUMEM_CMD_VM_CREATE:
		if (done)
			gp_destroy(w->fd, u->vm_create.id);
		break;
	case GPUMEM_CMD_VM_MAP:
	case GPUMEM_CMD_VM_UNMAP:
	case GPUMEM_CMD_VM_ACCESS:
		gp_vm_unmap(w->fd, w->vm, ADDR, page_size, NULL);
		break;
	case GPUMEM_CMD_VM_EXPORT:
		gp_vm_unmap(w->fd, w->vm, ADDR, page_size, NULL);
		if (done)
			close(u->vm_export.fd);
		break;
	case GPUMEM_CMD_VM_BIND:
		gp_vm_unmap(w->fd, w->vm, ADDR, GPUMEM_TILE_SIZE, NULL);
		break;
	case GPUMEM_CMD_STREAM_CREATE:
		if (done) {
			gp_destroy(w->fd, u->stream.id);
			gp_destroy(w->fd, u->stream.timeline);
		}
		break;
	case GPUMEM_CMD_TIMELINE_CREATE:
		if (done)
			gp_destroy(w->fd, u->timeline.id);
		break;
	case GPUMEM_CMD_BO_PIN:
		if (done)
			gp_destroy(w->fd, u->pin.id);
		break;
	case GPUMEM_CMD_EVENT_CREATE:
		if (done)
			gp_destroy(w->fd, u->event_create.id);
		break;
	case GPUMEM_CMD_EVENT_OPEN:
		if (done)
			gp_destroy(w->fd, u->event_open.id);
		break;
	case GPUMEM_CMD_EVENT_RECORD:
		gp_event_record(w->fd, w->event, 0, 0);
		break;
	case GPUMEM_CMD_EVENT_GET:
		if (done && u->event_get.timeline)
			gp_destroy(w->fd, u->event_get.timeline);
		break;
	case GPUMEM_CMD_POOL_CREATE:
		if (done)
			gp_destroy(w->fd, u->pool_create.id);
		break;
	case GPUMEM_CMD_POOL_EXPORT:
		if (done)
			close(u->pool_export.fd);
		break;
	case GPUMEM_CMD_POOL_IMPORT:
		if (done)
			gp_destroy(w->fd, u->pool_import.id);
		break;
	case GPUMEM_CMD_POOL_CHUNK_OPEN:
		if (done)
			gp_destroy(w->fd, u->chunk_open.id);
		break;
	case GPUMEM_CMD_TIMELINE_EXPORT:
		if (done)
			close(u->timeline_export.fd);
		break;
	case GPUMEM_CMD_TIMELINE_IMPORT:
		if (done)
			gp_destroy(w->fd, u->timeline_import.id);
		break;
	}
}

#define NONE	(~0U)
#define CMD_LAST	GPUMEM_CMD_TIMELINE_TAKE

FIXTURE(uapi)
{
	struct world w;
};

/*
 * @flags: offset of the flags, or NONE; @known: the valid bits of the flags; @reserved: offset of
 * the reserved member, or NONE; @first: size of the structure's first version, if it has grown;
 * @out: the members that the call writes when it succeeds.
 */
FIXTURE_VARIANT(uapi)
{
	unsigned int cmd, size, flags, known, reserved, first;
	struct span out[40];
};

#define V(name, CMD, type, ...)						\
	FIXTURE_VARIANT_ADD(uapi, name)					\
	{								\
		.cmd = GPUMEM_CMD_##CMD, .size = sizeof(struct type), __VA_ARGS__	\
	}
#define FLAGS(type, bits) .flags = offsetof(struct type, flags), .known = (bits)
#define NO_FLAGS .flags = NONE
#define RESERVED(type) .reserved = offsetof(struct type, reserved)
#define NO_RESERVED .reserved = NONE

V(info, INFO, gpumem_info, NO_FLAGS, NO_RESERVED,
  .out = { SPAN(gpumem_info, abi), SPAN(gpumem_info, ordinal), SPAN(gpumem_info, total),
	   SPAN(gpumem_info, used), SPAN(gpumem_info, node), SPAN(gpumem_info, engine_workers),
	   SPAN(gpumem_info, engine), SPAN(gpumem_info, release), SPAN(gpumem_info, uuid),
	   SPAN(gpumem_info, cached), SPAN(gpumem_info, excess),
	   SPAN(gpumem_info, flags), SPAN(gpumem_info, reserved) }, .first = 88);
V(device_attach, DEVICE_ATTACH, gpumem_device_attach, FLAGS(gpumem_device_attach, 0), NO_RESERVED,
  .out = { SPAN(gpumem_device_attach, device) });
V(destroy, DESTROY, gpumem_destroy, NO_FLAGS, NO_RESERVED);
V(bo_alloc, BO_ALLOC, gpumem_bo_alloc, FLAGS(gpumem_bo_alloc, 3),
  .reserved = offsetof(struct gpumem_bo_alloc, reserved2), .first = 40,
  .out = { SPAN(gpumem_bo_alloc, id), SPAN(gpumem_bo_alloc, chunk),
	   SPAN(gpumem_bo_alloc, word) });
V(bo_info, BO_INFO, gpumem_bo_info, NO_FLAGS, NO_RESERVED,
  .out = { SPAN(gpumem_bo_info, kind), SPAN(gpumem_bo_info, device), SPAN(gpumem_bo_info, length),
	   SPAN(gpumem_bo_info, huge), SPAN(gpumem_bo_info, exports), SPAN(gpumem_bo_info, tag),
	   SPAN(gpumem_bo_info, present), SPAN(gpumem_bo_info, resident),
	   SPAN(gpumem_bo_info, faults), SPAN(gpumem_bo_info, evictions),
	   SPAN(gpumem_bo_info, thrash), SPAN(gpumem_bo_info, moved_in),
	   SPAN(gpumem_bo_info, moved_out) }, .first = 40);
V(bo_advise, BO_ADVISE, gpumem_bo_advise, NO_FLAGS, NO_RESERVED);
V(bo_retire, BO_RETIRE, gpumem_bo_retire, FLAGS(gpumem_bo_retire, 1), NO_RESERVED,
  .out = { SPAN(gpumem_bo_retire, live) });
V(bo_export, BO_EXPORT, gpumem_bo_export, FLAGS(gpumem_bo_export, 7), NO_RESERVED,
  .out = { SPAN(gpumem_bo_export, fd) });
V(bo_import, BO_IMPORT, gpumem_bo_import, FLAGS(gpumem_bo_import, 1), RESERVED(gpumem_bo_import),
  .out = { SPAN(gpumem_bo_import, id), SPAN(gpumem_bo_import, device),
	   SPAN(gpumem_bo_import, length) });
V(token_create, TOKEN_CREATE, gpumem_token_create, FLAGS(gpumem_token_create, 3), NO_RESERVED,
  .out = { SPAN(gpumem_token_create, id), SPAN(gpumem_token_create, token) });
V(token_open, TOKEN_OPEN, gpumem_token_open, FLAGS(gpumem_token_open, 0),
  RESERVED(gpumem_token_open),
  .out = { SPAN(gpumem_token_open, id), SPAN(gpumem_token_open, device),
	   SPAN(gpumem_token_open, length), SPAN(gpumem_token_open, delta),
	   SPAN(gpumem_token_open, bytes), SPAN(gpumem_token_open, result) });
V(vm_create, VM_CREATE, gpumem_vm_create, FLAGS(gpumem_vm_create, 0), RESERVED(gpumem_vm_create),
  .out = { SPAN(gpumem_vm_create, id) });
V(vm_map, VM_MAP, gpumem_vm_map, FLAGS(gpumem_vm_map, 1), NO_RESERVED);
V(vm_unmap, VM_UNMAP, gpumem_vm_unmap, NO_FLAGS, NO_RESERVED,
  .out = { SPAN(gpumem_vm_unmap, unmapped) });
V(vm_access, VM_ACCESS, gpumem_vm_access, .flags = offsetof(struct gpumem_vm_access, access),
  .known = 3, NO_RESERVED);
V(vm_export, VM_EXPORT, gpumem_vm_export, FLAGS(gpumem_vm_export, 3), NO_RESERVED,
  .out = { SPAN(gpumem_vm_export, fd) });
V(vm_bind, VM_BIND, gpumem_vm_bind, FLAGS(gpumem_vm_bind, 1), NO_RESERVED);
V(stream_create, STREAM_CREATE, gpumem_stream_create, FLAGS(gpumem_stream_create, 0), NO_RESERVED,
  .out = { SPAN(gpumem_stream_create, id), SPAN(gpumem_stream_create, timeline) });
V(stream_doorbell, STREAM_DOORBELL, gpumem_stream_doorbell, NO_FLAGS, NO_RESERVED);
V(timeline_create, TIMELINE_CREATE, gpumem_timeline_create,
  FLAGS(gpumem_timeline_create, GPUMEM_TIMELINE_COUNTING), RESERVED(gpumem_timeline_create),
  .out = { SPAN(gpumem_timeline_create, id) });
V(timeline_signal, TIMELINE_SIGNAL, gpumem_timeline_signal, NO_FLAGS, NO_RESERVED);
V(timeline_take, TIMELINE_TAKE, gpumem_timeline_take, NO_FLAGS, NO_RESERVED,
  .out = { SPAN(gpumem_timeline_take, value) });
V(timeline_wait, TIMELINE_WAIT, gpumem_timeline_wait, FLAGS(gpumem_timeline_wait, 0), NO_RESERVED,
  .out = { SPAN(gpumem_timeline_wait, error), SPAN(gpumem_timeline_wait, reached) });
V(stats, STATS, gpumem_stats, FLAGS(gpumem_stats, 0), NO_RESERVED, .first = 152,
  .out = { SPAN(gpumem_stats, objects), SPAN(gpumem_stats, bos), SPAN(gpumem_stats, bo_bytes),
	   SPAN(gpumem_stats, views), SPAN(gpumem_stats, view_bytes),
	   SPAN(gpumem_stats, vm_bytes), SPAN(gpumem_stats, exports),
	   SPAN(gpumem_stats, export_bytes), SPAN(gpumem_stats, tokens),
	   SPAN(gpumem_stats, streams), SPAN(gpumem_stats, jobs), SPAN(gpumem_stats, copy_bytes),
	   SPAN(gpumem_stats, fill_bytes), SPAN(gpumem_stats, doorbells),
	   SPAN(gpumem_stats, pins), SPAN(gpumem_stats, pin_bytes),
	   SPAN(gpumem_stats, host), SPAN(gpumem_stats, host_bytes), SPAN(gpumem_stats, pools),
	   SPAN(gpumem_stats, pool_reserved), SPAN(gpumem_stats, pool_imports),
	   SPAN(gpumem_stats, imports), SPAN(gpumem_stats, import_bytes),
	   SPAN(gpumem_stats, pool_cached), SPAN(gpumem_stats, mappings),
	   SPAN(gpumem_stats, ring_bytes),
	   SPAN(gpumem_stats, managed), SPAN(gpumem_stats, managed_resident),
	   SPAN(gpumem_stats, managed_faults), SPAN(gpumem_stats, managed_evictions),
	   SPAN(gpumem_stats, managed_in), SPAN(gpumem_stats, managed_out),
	   SPAN(gpumem_stats, managed_held), SPAN(gpumem_stats, managed_thrash),
	   SPAN(gpumem_stats, managed_moved), SPAN(gpumem_stats, managed_stayed),
	   SPAN(gpumem_stats, managed_duplicated), SPAN(gpumem_stats, managed_duplications),
	   SPAN(gpumem_stats, managed_collapses), SPAN(gpumem_stats, engine_ns) });
V(bo_pin, BO_PIN, gpumem_bo_pin, FLAGS(gpumem_bo_pin, GPUMEM_BO_PIN_RDONLY),
  RESERVED(gpumem_bo_pin), .out = { SPAN(gpumem_bo_pin, id) });
V(event_create, EVENT_CREATE, gpumem_event_create, FLAGS(gpumem_event_create, 3),
  RESERVED(gpumem_event_create),
  .out = { SPAN(gpumem_event_create, id), SPAN(gpumem_event_create, token) });
V(event_open, EVENT_OPEN, gpumem_event_open, FLAGS(gpumem_event_open, 0), NO_RESERVED,
  .out = { SPAN(gpumem_event_open, id), SPAN(gpumem_event_open, result) });
V(event_record, EVENT_RECORD, gpumem_event_record, NO_FLAGS, RESERVED(gpumem_event_record));
V(event_get, EVENT_GET, gpumem_event_get, FLAGS(gpumem_event_get, GPUMEM_EVENT_GET_QUERY),
  RESERVED(gpumem_event_get),
  .out = { SPAN(gpumem_event_get, state), SPAN(gpumem_event_get, timeline),
	   SPAN(gpumem_event_get, value) });
V(pool_create, POOL_CREATE, gpumem_pool_create, FLAGS(gpumem_pool_create, GPUMEM_POOL_HOST),
  NO_RESERVED, .out = { SPAN(gpumem_pool_create, id) });
V(pool_set, POOL_SET, gpumem_pool_set, FLAGS(gpumem_pool_set, 0), RESERVED(gpumem_pool_set),
  .first = 32);
V(pool_info, POOL_INFO, gpumem_pool_info, FLAGS(gpumem_pool_info, 3), RESERVED(gpumem_pool_info),
  .out = { SPAN(gpumem_pool_info, pool_flags), SPAN(gpumem_pool_info, device),
	   SPAN(gpumem_pool_info, limit), SPAN(gpumem_pool_info, reserved_bytes),
	   SPAN(gpumem_pool_info, reserved_high), SPAN(gpumem_pool_info, used),
	   SPAN(gpumem_pool_info, used_high), SPAN(gpumem_pool_info, chunks),
	   SPAN(gpumem_pool_info, imports), SPAN(gpumem_pool_info, name),
	   SPAN(gpumem_pool_info, cached) }, .first = 96);
V(pool_export, POOL_EXPORT, gpumem_pool_export, FLAGS(gpumem_pool_export, 15), NO_RESERVED,
  .out = { SPAN(gpumem_pool_export, fd), SPAN(gpumem_pool_export, token) });
V(pool_import, POOL_IMPORT, gpumem_pool_import,
  FLAGS(gpumem_pool_import, GPUMEM_POOL_IMPORT_FABRIC), RESERVED(gpumem_pool_import),
  .out = { SPAN(gpumem_pool_import, id), SPAN(gpumem_pool_import, device),
	   SPAN(gpumem_pool_import, pool_flags), SPAN(gpumem_pool_import, result) });
V(chunk_open, POOL_CHUNK_OPEN, gpumem_pool_chunk_open, FLAGS(gpumem_pool_chunk_open, 0),
  RESERVED(gpumem_pool_chunk_open),
  .out = { SPAN(gpumem_pool_chunk_open, id), SPAN(gpumem_pool_chunk_open, length),
	   SPAN(gpumem_pool_chunk_open, device) });
V(channel_attach, CHANNEL_ATTACH, gpumem_channel_attach, FLAGS(gpumem_channel_attach, 0),
  NO_RESERVED, .out = { SPAN(gpumem_channel_attach, channel) });
V(refusal, REFUSAL, gpumem_refusal_info, NO_FLAGS, NO_RESERVED,
  .out = { SPAN(gpumem_refusal_info, limit), SPAN(gpumem_refusal_info, device),
	   SPAN(gpumem_refusal_info, pool), SPAN(gpumem_refusal_info, asked),
	   SPAN(gpumem_refusal_info, used), SPAN(gpumem_refusal_info, max) });
V(timeline_export, TIMELINE_EXPORT, gpumem_timeline_export,
  FLAGS(gpumem_timeline_export, GPUMEM_TIMELINE_EXPORT_CLOEXEC), NO_RESERVED,
  .out = { SPAN(gpumem_timeline_export, fd) });
V(timeline_import, TIMELINE_IMPORT, gpumem_timeline_import, FLAGS(gpumem_timeline_import, 0),
  RESERVED(gpumem_timeline_import),
  .out = { SPAN(gpumem_timeline_import, id), SPAN(gpumem_timeline_import, result) });

FIXTURE_SETUP(uapi)
{
	struct world *w = &self->w;

	w->fd = gp_open(0);
	ASSERT_LE(0, w->fd);
	w->fd2 = gp_open(0);
	ASSERT_LE(0, w->fd2);
	ASSERT_EQ(0, gp_bo_alloc(w->fd, BO_BYTES, &w->bo));
	ASSERT_EQ(0, gp_managed_alloc(w->fd, BO_BYTES, &w->managed));
	ASSERT_EQ(0, gp_vm_create(w->fd, &w->vm));
	ASSERT_EQ(0, gp_stream_create(w->fd, w->vm, 0, 16, &w->stream, &w->stream_timeline));
	ASSERT_EQ(0, gp_timeline_create(w->fd, 0, &w->timeline));
	ASSERT_EQ(0, gp_counting_create(w->fd, 0, &w->counting));
	w->semaphore = gp_timeline_export(w->fd, w->timeline, 0);
	ASSERT_LE(0, w->semaphore);
	ASSERT_EQ(0, gp_token_create(w->fd, w->bo, 10, 100, 0, &w->token, w->name));
	ASSERT_EQ(0, gp_event_create(w->fd, &w->event, w->event_name));
	w->dmabuf = gp_bo_export(w->fd, w->bo, 0, page_size, GPUMEM_BO_EXPORT_CLOEXEC);
	ASSERT_LE(0, w->dmabuf);
	ASSERT_EQ(0, gp_pool_create(w->fd, 0, 0, 0, "", &w->pool));
	ASSERT_EQ(0, gp_pool_chunk(w->fd, w->pool, page_size, &w->chunk_bo, &w->chunk));
	ASSERT_EQ(0, gp_pool_share(w->fd, w->pool, w->fd, &w->import));
	w->exported = gp_pool_export(w->fd, w->pool, GPUMEM_POOL_EXPORT_CLOEXEC);
	ASSERT_LE(0, w->exported);
	w->channel = gp_channel_open(0);
	ASSERT_LE(0, w->channel);
}

FIXTURE_TEARDOWN(uapi)
{
	close(self->w.channel);
	close(self->w.semaphore);
	close(self->w.exported);
	close(self->w.dmabuf);
	close(self->w.fd2);
	close(self->w.fd);
	EXPECT_TRUE(dev_quiet(10));
}

#define REQUEST(cmd) _IO(GPUMEM_IOC_TYPE, (cmd))

/* A valid structure with all of its out members poisoned. */
static void valid(struct world *w, const struct _fixture_variant_uapi *v, union any *u, int poison)
{
	memset(u, 0, sizeof(*u));
	for (unsigned int i = 0; i < ARRAY_SIZE(v->out) && v->out[i].size; i++)
		memset(u->bytes + v->out[i].offset, poison, v->out[i].size);
	u->size = v->size;
	prepare(w, v->cmd, u);
}

TEST_F(uapi, valid)
{
	struct gpumem_stats before, after;
	union any u, was;
	int ret;

	ASSERT_EQ(0, gp_stats(self->w.fd, &before));
	valid(&self->w, variant, &u, 0xa5);
	was = u;
	ret = gp_ioctl(self->w.fd, REQUEST(variant->cmd), &u);
	EXPECT_EQ(0, ret);
	/* The call changes neither input members nor bytes behind the structure.  */
	for (unsigned int i = 0; i < ARRAY_SIZE(variant->out) && variant->out[i].size; i++)
		memcpy(was.bytes + variant->out[i].offset, u.bytes + variant->out[i].offset,
		       variant->out[i].size);
	EXPECT_EQ(0, memcmp(&u, &was, sizeof(u)));
	undo(&self->w, variant->cmd, &u, !ret);
	ASSERT_EQ(0, gp_stats(self->w.fd, &after));
	EXPECT_EQ(before.objects, after.objects);
	EXPECT_EQ(before.vm_bytes, after.vm_bytes);
}

/* Two calls with different poison: bytes that come out poisoned both times were never written. */
TEST_F(uapi, every_out_member_is_written)
{
	union any u[2];

	for (int i = 0; i < 2; i++) {
		valid(&self->w, variant, &u[i], i ? 0x5a : 0xa5);
		ASSERT_EQ(0, gp_ioctl(self->w.fd, REQUEST(variant->cmd), &u[i]));
		undo(&self->w, variant->cmd, &u[i], true);
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(variant->out) && variant->out[i].size; i++) {
		for (unsigned int b = 0; b < variant->out[i].size; b++) {
			unsigned int at = variant->out[i].offset + b;

			EXPECT_FALSE(u[0].bytes[at] == 0xa5 && u[1].bytes[at] == 0x5a)
				TH_LOG("byte %u was not written", at);
		}
	}
}

TEST_F(uapi, too_short)
{
	union any u, was;

	for (unsigned int size = 0; size < (variant->first ?: variant->size); size++) {
		valid(&self->w, variant, &u, 0xa5);
		u.size = size;
		was = u;
		EXPECT_EQ(-EINVAL, gp_ioctl(self->w.fd, REQUEST(variant->cmd), &u))
			TH_LOG("size %u", size);
		EXPECT_EQ(0, memcmp(&u, &was, sizeof(u)));
		undo(&self->w, variant->cmd, &u, false);
	}
}

/* Programs built with an earlier version of a structure, and every size between two versions.  */
TEST_F(uapi, earlier)
{
	union any u, was;
	int ret;

	for (unsigned int size = variant->first; size && size < variant->size; size++) {
		valid(&self->w, variant, &u, 0xa5);
		memset(u.bytes + size, 0xc3, sizeof(u) - size);
		/* A part of an input member would have another value: make such members zero.  */
		if (variant->cmd == GPUMEM_CMD_BO_ALLOC && size > variant->first)
			memset(u.bytes + variant->first, 0, size - variant->first);
		u.size = size;
		was = u;
		ret = gp_ioctl(self->w.fd, REQUEST(variant->cmd), &u);
		EXPECT_EQ(0, ret)
			TH_LOG("size %u", size);
		EXPECT_EQ(0, memcmp(u.bytes + size, was.bytes + size, sizeof(u) - size));
		undo(&self->w, variant->cmd, &u, !ret);
	}
}

TEST_F(uapi, longer)
{
	union any u;
	unsigned int more;
	int ret;

	/* The kernel accepts a tail of zeros and does not touch bytes behind the size.  */
	for (more = 1; more <= 64; more += more < 9 ? 1 : 11) {
		valid(&self->w, variant, &u, 0xa5);
		u.size = variant->size + more;
		memset(u.bytes + u.size, 0xc3, sizeof(u) - u.size);
		ret = gp_ioctl(self->w.fd, REQUEST(variant->cmd), &u);
		EXPECT_EQ(0, ret)
			TH_LOG("%u bytes more", more);
		for (unsigned int i = variant->size; i < sizeof(u); i++)
			EXPECT_EQ(i < variant->size + more ? 0 : 0xc3, u.bytes[i]);
		undo(&self->w, variant->cmd, &u, !ret);
	}
}

/* Bits that this kernel does not know: in the tail, in the flags, in the reserved member. */
TEST_F(uapi, unknown_bits)
{
	const unsigned int members[] = { variant->flags, variant->reserved };
	union any u, was;
	int ret;

	for (unsigned int i = 0; i < 32; i++) {
		valid(&self->w, variant, &u, 0xa5);
		u.size = variant->size + 32;
		u.bytes[variant->size + i] = 1 << (i % 8);
		was = u;
		ret = gp_ioctl(self->w.fd, REQUEST(variant->cmd), &u);
		EXPECT_EQ(-E2BIG, ret)
			TH_LOG("byte %u of the tail", i);
		EXPECT_EQ(0, memcmp(&u, &was, sizeof(u)));
		undo(&self->w, variant->cmd, &u, !ret);
	}
	for (int m = 0; m < 2; m++) {
		for (int bit = 0; bit < 32 && members[m] != NONE; bit++) {
			if (!m && variant->known & (1U << bit))
				continue;
			valid(&self->w, variant, &u, 0xa5);
			*(__u32 *)(u.bytes + members[m]) |= 1U << bit;
			was = u;
			ret = gp_ioctl(self->w.fd, REQUEST(variant->cmd), &u);
			EXPECT_EQ(-EOPNOTSUPP, ret)
				TH_LOG("%s bit %d", m ? "reserved" : "flags", bit);
			EXPECT_EQ(0, memcmp(&u, &was, sizeof(u)));
			undo(&self->w, variant->cmd, &u, !ret);
		}
	}
}

TEST_F(uapi, huge_size)
{
	static const __u32 sizes[] = { 1U << 20, 1U << 30, 0x7fffffff, 0x80000000, ~0U };
	size_t room = 2 * page_size;
	union any *u = mmap(NULL, 2 * room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT_NE(MAP_FAILED, (void *)u);
	ASSERT_EQ(0, mprotect(u, room, PROT_READ | PROT_WRITE));
	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		int ret;

		valid(&self->w, variant, u, 0xa5);
		u->size = sizes[i];
		ret = gp_ioctl(self->w.fd, REQUEST(variant->cmd), u);
		EXPECT_TRUE(ret == -E2BIG || ret == -EFAULT)
			TH_LOG("size %#x: %d", sizes[i], ret);
		undo(&self->w, variant->cmd, u, !ret);
	}
}

TEST_F(uapi, bad_pointer)
{
	char *area = mmap(NULL, 3 * page_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *end = area + 2 * page_size;
	unsigned long request = REQUEST(variant->cmd);
	struct gpumem_stats before, after;
	union any u;
	int fd = self->w.fd;

	ASSERT_NE(MAP_FAILED, (void *)area);
	ASSERT_EQ(0, gp_stats(fd, &before));
	EXPECT_EQ(-EFAULT, gp_ioctl(fd, request, NULL));
	EXPECT_EQ(-EFAULT, gp_ioctl(fd, request, area));
	EXPECT_EQ(-EFAULT, gp_ioctl(fd, request, (void *)-1L));
	EXPECT_EQ(-EFAULT, gp_ioctl(fd, request, (void *)-4096L));
	EXPECT_EQ(-EFAULT, gp_ioctl(fd, request, (void *)(1UL << 63)));

	/* The structure ends where the memory ends: the kernel accesses nothing behind it.  */
	ASSERT_EQ(0, mprotect(area + page_size, page_size, PROT_READ | PROT_WRITE));
	valid(&self->w, variant, &u, 0xa5);
	memcpy(end - variant->size, &u, variant->size);
	EXPECT_EQ(0, gp_ioctl(fd, request, end - variant->size));
	memcpy(&u, end - variant->size, variant->size);
	undo(&self->w, variant->cmd, &u, true);

	/* A part of the structure is not mapped.  */
	for (unsigned int there = 4; there < variant->size; there += 4) {
		valid(&self->w, variant, &u, 0xa5);
		memcpy(end - there, &u, there);
		EXPECT_EQ(-EFAULT, gp_ioctl(fd, request, end - there))
			TH_LOG("%u bytes there", there);
		undo(&self->w, variant->cmd, &u, false);
	}

	/* The structure can be read and the out members cannot be written.  */
	if (variant->out[0].size) {
		valid(&self->w, variant, &u, 0xa5);
		memcpy(end - variant->size, &u, variant->size);
		ASSERT_EQ(0, mprotect(area + page_size, page_size, PROT_READ));
		EXPECT_EQ(-EFAULT, gp_ioctl(fd, request, end - variant->size));
		undo(&self->w, variant->cmd, &u, false);
	}
	/* A call that fails leaves nothing behind. */
	ASSERT_EQ(0, gp_stats(fd, &after));
	EXPECT_EQ(before.objects, after.objects);
	EXPECT_EQ(before.bos, after.bos);
	EXPECT_EQ(before.bo_bytes, after.bo_bytes);
	EXPECT_EQ(before.views, after.views);
	EXPECT_EQ(before.exports, after.exports);
	EXPECT_EQ(before.tokens, after.tokens);
	EXPECT_EQ(before.vm_bytes, after.vm_bytes);
}

FIXTURE(node)
{
	int fd;
};

FIXTURE_SETUP(node)
{
	self->fd = gp_open(0);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(node)
{
	close(self->fd);
	EXPECT_TRUE(dev_quiet(10));
}

TEST_F(node, info)
{
	struct gpumem_info info;

	memset(&info, 0xa5, sizeof(info));
	info.size = sizeof(info);
	info.device = 0;
	ASSERT_EQ(0, gp_ioctl(self->fd, GPUMEM_INFO, &info));
	for (int which = 0; which < 2; which++) {
		const __u8 *s = which ? info.release : info.engine;
		size_t len = strnlen((const char *)s, 16);

		EXPECT_LT(0, len);
		ASSERT_GT(16, len);
		for (size_t i = len; i < 16; i++)
			EXPECT_EQ(0, s[i]);
	}
	EXPECT_EQ(GPUMEM_ABI_VERSION, info.abi);
	EXPECT_EQ(0, info.ordinal);
	EXPECT_LE(1, info.engine_workers);
	EXPECT_EQ(dev_attr(0, "size"), (long long)info.total);
	EXPECT_EQ(dev_attr(0, "node"), info.node);
}

TEST_F(node, unknown_numbers)
{
	int fd = self->fd;
	union any u;

	for (int type = GPUMEM_IOC_TYPE - 1; type <= GPUMEM_IOC_TYPE + 1; type++) {
		for (int nr = 0; nr < 256; nr++) {
			if (type == GPUMEM_IOC_TYPE && nr >= GPUMEM_CMD_BASE && nr <= CMD_LAST)
				continue;
			memset(&u, 0, sizeof(u));
			u.size = sizeof(u);
			EXPECT_EQ(-ENOTTY, gp_ioctl(fd, _IO(type, nr), &u))
				TH_LOG("type %#x number %#x", type, nr);
		}
	}
	/* A known number with a direction or a size is another number. */
	for (int nr = GPUMEM_CMD_BASE; nr <= CMD_LAST; nr++) {
		for (int dir = 0; dir < 4; dir++) {
			unsigned long request = _IOC(dir, GPUMEM_IOC_TYPE, nr, dir ? 16 : 8);

			EXPECT_EQ(-ENOTTY, gp_ioctl(fd, request, &u));
		}
	}
}

/* Every errno that the header documents in general or for single calls.  */
static bool known_errno(int err)
{
	static const int known[] = {
		0, EFAULT, E2BIG, EOPNOTSUPP, EINVAL, EOVERFLOW, ENOENT, EEXIST, EACCES, ENOSPC,
		ENOMEM, EMFILE, EDQUOT, EIO, ETIMEDOUT, EINTR, EBADF, EPERM,
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(known); i++) {
		if (err == -known[i])
			return true;
	}
	return false;
}

/* A random number, often one with a meaning.  */
static __u64 odd_number(struct rng *r)
{
	static const __u64 some[] = { 0, 1, 2, 3, 16, 4096, 8192, 65536, 1ULL << 32, 1ULL << 63 };

	switch (rng_below(r, 6)) {
	case 0:
		return rng_below(r, 64);
	case 1:
		return some[rng_below(r, ARRAY_SIZE(some))];
	case 2:
		return -some[rng_below(r, ARRAY_SIZE(some))];
	case 3:
		return rng_below(r, 64) * page_size;
	case 4:
		return ADDR + rng_below(r, 64) * page_size;
	default:
		return rng_next(r);
	}
}

TEST_F_TIMEOUT(uapi, fuzz, 300)
{
	__u64 steps = env_number("GPUMEM_STEPS", 20000), good = 0;
	unsigned int words = (variant->size + 3) / 4;
	struct gpumem_stats stats;
	struct rng r;
	union any u;

	/* The steps are shared by all variants. */
	steps = (steps + CMD_LAST - GPUMEM_CMD_BASE) / (CMD_LAST - GPUMEM_CMD_BASE + 1);
	rng_start(&r, "fuzz");
	for (__u64 i = 0; i < steps; i++) {
		/* The first call of a variant is valid, also if there are few steps.  */
		unsigned int changes = i ? rng_below(&r, words + 1) : 0;
		int ret;

		valid(&self->w, variant, &u, 0xa5);
		while (changes--) {
			unsigned int at = rng_below(&r, words) * 4;
			__u64 v = odd_number(&r);

			if (at % 8 || rng_below(&r, 2))
				memcpy(u.bytes + at, &v, 4);
			else
				memcpy(u.bytes + at, &v, 8);
		}
		if (!i || rng_below(&r, 4))
			u.size = variant->size;
		/* No step may take minutes. */
		if (variant->cmd == GPUMEM_CMD_TIMELINE_WAIT)
			u.wait.deadline = in_seconds(0.0001);
		if (variant->cmd == GPUMEM_CMD_BO_ALLOC && u.bo_alloc.length < 1ULL << 40)
			u.bo_alloc.length &= 0x3fffff;
		ret = gp_ioctl(self->w.fd, REQUEST(variant->cmd), &u);
		EXPECT_TRUE(known_errno(ret))
			TH_LOG("step %llu: %s", (unsigned long long)i, strerror(-ret));
		good += !ret;
		undo(&self->w, variant->cmd, &u, !ret);
		if (variant->cmd == GPUMEM_CMD_VM_MAP && !ret)
			gp_vm_unmap(self->w.fd, u.map.vm, u.map.addr, u.map.length, NULL);
	}
	EXPECT_LT(0, good);
	ASSERT_EQ(0, gp_stats(self->w.fd, &stats));
	EXPECT_GE(steps + 16, stats.objects);
	EXPECT_GE(BO_BYTES + 64 * page_size, stats.bo_bytes);
}

TEST_HARNESS_MAIN
