// SPDX-License-Identifier: GPL-2.0
/*
 * The table of calls, and likely values of each kind of argument.
 *
 * An ioctl's row names every input member of its structure.  The offsets come from the uapi
 * header, so the header and this table cannot disagree on the layout.  A member that has no row
 * stays 0.
 *
 * some_value() prefers values at which the kernel takes different paths: page and huge page
 * boundaries, ends of ranges, sums that wrap around.
 *
 * Locks: none.
 */
#include <sys/mman.h>

#include "fuzz.h"

#define F(type, member, name, kind, ...) \
	{ name, kind, offsetof(struct type, member), sizeof(((struct type *)0)->member), \
	  __VA_ARGS__ }
#define CLIENT { "client", K_CLIENT, 0, 0, 0 }
#define IOCTL(call, req, type, ...) \
	.name = call, .what = W_IOCTL, .request = req, .size = sizeof(struct type), .weight = 4, \
	.args = { CLIENT, __VA_ARGS__ }
#define OUT(type, member) offsetof(struct type, member)
#define N(name, kind) { name, kind, 0, 0, 0 }
#define FL(name, mask) { name, K_FLAGS, 0, 0, mask }

#define MEMBER_FLAGS(type, mask) F(type, flags, "flags", K_FLAGS, mask)

const struct call_spec specs[] = {
	{ .name = "open", .what = W_OPEN, .args = { N("device", K_DEVICE) },
	  .makes = { R_CLIENT }, .weight = 1 },
	{ .name = "dup", .what = W_DUP, .args = { CLIENT }, .makes = { R_CLIENT }, .weight = 1 },
	{ .name = "close", .what = W_CLOSE, .args = { N("fd", K_ANY_FD) }, .weight = 2 },
	{ IOCTL("info", GPUMEM_INFO, gpumem_info, F(gpumem_info, device, "device", K_DEVICE, 0)) },
	{ IOCTL("attach", GPUMEM_DEVICE_ATTACH, gpumem_device_attach,
		F(gpumem_device_attach, fd, "fd", K_ANY_FD, 0),
		MEMBER_FLAGS(gpumem_device_attach, 0)) },
	{ IOCTL("destroy", GPUMEM_DESTROY, gpumem_destroy,
		F(gpumem_destroy, id, "id", K_ANY_ID, 0)) },
	{ IOCTL("bo_alloc", GPUMEM_BO_ALLOC, gpumem_bo_alloc,
		MEMBER_FLAGS(gpumem_bo_alloc, GPUMEM_BO_ALLOC_HOST | GPUMEM_BO_ALLOC_MANAGED),
		F(gpumem_bo_alloc, device, "device", K_DEVICE, 0),
		F(gpumem_bo_alloc, length, "length", K_ALLOC, 0),
		{ "name", K_SMALL, OUT(gpumem_bo_alloc, name), 8, 0 },
		{ "name2", K_ZERO, OUT(gpumem_bo_alloc, name) + 8, 8, 0 },
		F(gpumem_bo_alloc, pool, "pool", K_POOL, 0),
		F(gpumem_bo_alloc, tag, "reserved", K_SMALL, 0)),
	  .makes = { R_BO, R_CHUNK },
	  .makes_at = { OUT(gpumem_bo_alloc, id), OUT(gpumem_bo_alloc, chunk) } },
	{ IOCTL("bo_pin", GPUMEM_BO_PIN, gpumem_bo_pin,
		MEMBER_FLAGS(gpumem_bo_pin, GPUMEM_BO_PIN_RDONLY),
		F(gpumem_bo_pin, addr, "addr", K_MEMORY, 0),
		F(gpumem_bo_pin, length, "length", K_LENGTH, 0),
		F(gpumem_bo_pin, reserved, "reserved", K_ZERO, 0)),
	  .makes = { R_BO }, .makes_at = { OUT(gpumem_bo_pin, id) } },
	{ IOCTL("bo_info", GPUMEM_BO_INFO, gpumem_bo_info,
		F(gpumem_bo_info, id, "id", K_BO, 0),
		F(gpumem_bo_info, tag, "reserved", K_ZERO, 0)) },
	{ IOCTL("bo_advise", GPUMEM_BO_ADVISE, gpumem_bo_advise,
		F(gpumem_bo_advise, id, "id", K_BO, 0),
		F(gpumem_bo_advise, offset, "offset", K_OFFSET, 0),
		F(gpumem_bo_advise, length, "length", K_LENGTH, 0),
		F(gpumem_bo_advise, advice, "advice", K_SMALL, 0),
		F(gpumem_bo_advise, device, "device", K_DEVICE, 0)) },
	{ IOCTL("bo_retire", GPUMEM_BO_RETIRE, gpumem_bo_retire,
		F(gpumem_bo_retire, id, "id", K_BO, 0),
		F(gpumem_bo_retire, offset, "offset", K_OFFSET, 0),
		F(gpumem_bo_retire, length, "length", K_LENGTH, 0),
		MEMBER_FLAGS(gpumem_bo_retire, GPUMEM_BO_RETIRE_QUERY)) },
	{ IOCTL("bo_export", GPUMEM_BO_EXPORT, gpumem_bo_export,
		F(gpumem_bo_export, id, "id", K_BO, 0),
		F(gpumem_bo_export, offset, "offset", K_OFFSET, 0),
		F(gpumem_bo_export, length, "length", K_LENGTH, 0),
		MEMBER_FLAGS(gpumem_bo_export,
			     GPUMEM_BO_EXPORT_CLOEXEC | GPUMEM_BO_EXPORT_RDONLY |
			     GPUMEM_BO_EXPORT_HANDLE)),
	  .makes = { R_DMABUF }, .makes_at = { OUT(gpumem_bo_export, fd) } },
	{ IOCTL("bo_import", GPUMEM_BO_IMPORT, gpumem_bo_import,
		F(gpumem_bo_import, fd, "fd", K_DMABUF, 0),
		MEMBER_FLAGS(gpumem_bo_import, GPUMEM_BO_IMPORT_HANDLE),
		F(gpumem_bo_import, reserved, "reserved", K_ZERO, 0)),
	  .makes = { R_BO }, .makes_at = { OUT(gpumem_bo_import, id) } },
	{ IOCTL("token_create", GPUMEM_TOKEN_CREATE, gpumem_token_create,
		F(gpumem_token_create, bo, "bo", K_BO, 0),
		F(gpumem_token_create, offset, "offset", K_OFFSET, 0),
		F(gpumem_token_create, length, "length", K_LENGTH, 0),
		MEMBER_FLAGS(gpumem_token_create, GPUMEM_TOKEN_ANY_USER | GPUMEM_TOKEN_PID_NS)),
	  .makes = { R_TOKEN_ID, R_TOKEN },
	  .makes_at = { OUT(gpumem_token_create, id), OUT(gpumem_token_create, token) } },
	{ IOCTL("token_open", GPUMEM_TOKEN_OPEN, gpumem_token_open,
		MEMBER_FLAGS(gpumem_token_open, 0),
		F(gpumem_token_open, token, "token", K_TOKEN, 0),
		F(gpumem_token_open, reserved, "reserved", K_ZERO, 0)),
	  .makes = { R_BO }, .makes_at = { OUT(gpumem_token_open, id) } },
	{ IOCTL("vm_create", GPUMEM_VM_CREATE, gpumem_vm_create,
		MEMBER_FLAGS(gpumem_vm_create, 0),
		F(gpumem_vm_create, reserved, "reserved", K_ZERO, 0)),
	  .makes = { R_VM }, .makes_at = { OUT(gpumem_vm_create, id) } },
	{ IOCTL("vm_map", GPUMEM_VM_MAP, gpumem_vm_map,
		F(gpumem_vm_map, vm, "vm", K_VM, 0),
		F(gpumem_vm_map, bo, "bo", K_BO, 0),
		MEMBER_FLAGS(gpumem_vm_map, GPUMEM_VM_MAP_SPARSE),
		F(gpumem_vm_map, offset, "offset", K_OFFSET, 0),
		F(gpumem_vm_map, addr, "addr", K_ADDR, 0),
		F(gpumem_vm_map, length, "length", K_LENGTH, 0),
		F(gpumem_vm_map, readers, "readers", K_DEVICES, 0),
		F(gpumem_vm_map, writers, "writers", K_DEVICES, 0)), },
	{ IOCTL("vm_unmap", GPUMEM_VM_UNMAP, gpumem_vm_unmap,
		F(gpumem_vm_unmap, vm, "vm", K_VM, 0),
		F(gpumem_vm_unmap, addr, "addr", K_ADDR, 0),
		F(gpumem_vm_unmap, length, "length", K_LENGTH, 0)) },
	{ IOCTL("vm_export", GPUMEM_VM_EXPORT, gpumem_vm_export,
		F(gpumem_vm_export, vm, "vm", K_VM, 0),
		F(gpumem_vm_export, addr, "addr", K_ADDR, 0),
		F(gpumem_vm_export, length, "length", K_LENGTH, 0),
		MEMBER_FLAGS(gpumem_vm_export,
			     GPUMEM_BO_EXPORT_CLOEXEC | GPUMEM_BO_EXPORT_RDONLY)),
	  .makes = { R_DMABUF }, .makes_at = { OUT(gpumem_vm_export, fd) } },
	{ IOCTL("vm_access", GPUMEM_VM_ACCESS, gpumem_vm_access,
		F(gpumem_vm_access, vm, "vm", K_VM, 0),
		F(gpumem_vm_access, addr, "addr", K_ADDR, 0),
		F(gpumem_vm_access, length, "length", K_LENGTH, 0),
		F(gpumem_vm_access, device, "device", K_DEVICE, 0),
		F(gpumem_vm_access, access, "access", K_FLAGS,
		  GPUMEM_ACCESS_READ | GPUMEM_ACCESS_WRITE)) },
	{ IOCTL("vm_bind", GPUMEM_VM_BIND, gpumem_vm_bind,
		F(gpumem_vm_bind, vm, "vm", K_VM, 0),
		F(gpumem_vm_bind, bo, "bo", K_BO, 0),
		MEMBER_FLAGS(gpumem_vm_bind, GPUMEM_VM_BIND_RESERVE),
		F(gpumem_vm_bind, offset, "offset", K_OFFSET, 0),
		F(gpumem_vm_bind, step, "step", K_OFFSET, 0),
		F(gpumem_vm_bind, addr, "addr", K_ADDR, 0),
		F(gpumem_vm_bind, length, "length", K_LENGTH, 0)) },
	{ IOCTL("stream_create", GPUMEM_STREAM_CREATE, gpumem_stream_create,
		MEMBER_FLAGS(gpumem_stream_create, 0),
		F(gpumem_stream_create, vm, "vm", K_VM, 0),
		F(gpumem_stream_create, device, "device", K_DEVICE, 0),
		F(gpumem_stream_create, priority, "priority", K_PRIORITY, 0),
		F(gpumem_stream_create, entries, "entries", K_ENTRIES, 0)),
	  .makes = { R_STREAM, R_TIMELINE },
	  .makes_at = { OUT(gpumem_stream_create, id), OUT(gpumem_stream_create, timeline) } },
	{ IOCTL("doorbell", GPUMEM_STREAM_DOORBELL, gpumem_stream_doorbell,
		F(gpumem_stream_doorbell, id, "id", K_STREAM, 0)) },
	{ IOCTL("timeline_create", GPUMEM_TIMELINE_CREATE, gpumem_timeline_create,
		MEMBER_FLAGS(gpumem_timeline_create, GPUMEM_TIMELINE_COUNTING),
		F(gpumem_timeline_create, value, "value", K_VALUE, 0),
		F(gpumem_timeline_create, reserved, "reserved", K_ZERO, 0)),
	  .makes = { R_TIMELINE }, .makes_at = { OUT(gpumem_timeline_create, id) } },
	{ IOCTL("timeline_signal", GPUMEM_TIMELINE_SIGNAL, gpumem_timeline_signal,
		F(gpumem_timeline_signal, id, "id", K_TIMELINE, 0),
		F(gpumem_timeline_signal, value, "value", K_VALUE, 0)) },
	{ IOCTL("timeline_take", GPUMEM_TIMELINE_TAKE, gpumem_timeline_take,
		F(gpumem_timeline_take, id, "id", K_TIMELINE, 0)) },
	{ IOCTL("timeline_wait", GPUMEM_TIMELINE_WAIT, gpumem_timeline_wait,
		F(gpumem_timeline_wait, id, "id", K_TIMELINE, 0),
		F(gpumem_timeline_wait, value, "value", K_VALUE, 0),
		F(gpumem_timeline_wait, deadline, "deadline", K_DEADLINE, 0),
		MEMBER_FLAGS(gpumem_timeline_wait, 0)) },
	{ IOCTL("stats", GPUMEM_STATS, gpumem_stats, MEMBER_FLAGS(gpumem_stats, 0)) },
	{ IOCTL("event_create", GPUMEM_EVENT_CREATE, gpumem_event_create,
		MEMBER_FLAGS(gpumem_event_create, GPUMEM_TOKEN_ANY_USER | GPUMEM_TOKEN_PID_NS),
		F(gpumem_event_create, reserved, "reserved", K_ZERO, 0)),
	  .makes = { R_EVENT, R_TOKEN },
	  .makes_at = { OUT(gpumem_event_create, id), OUT(gpumem_event_create, token) } },
	{ IOCTL("event_open", GPUMEM_EVENT_OPEN, gpumem_event_open,
		MEMBER_FLAGS(gpumem_event_open, 0),
		F(gpumem_event_open, token, "token", K_TOKEN, 0)),
	  .makes = { R_EVENT }, .makes_at = { OUT(gpumem_event_open, id) } },
	{ IOCTL("event_record", GPUMEM_EVENT_RECORD, gpumem_event_record,
		F(gpumem_event_record, id, "id", K_EVENT, 0),
		F(gpumem_event_record, timeline, "timeline", K_TIMELINE, 0),
		F(gpumem_event_record, reserved, "reserved", K_ZERO, 0),
		F(gpumem_event_record, value, "value", K_VALUE, 0)) },
	{ IOCTL("event_get", GPUMEM_EVENT_GET, gpumem_event_get,
		F(gpumem_event_get, id, "id", K_EVENT, 0),
		MEMBER_FLAGS(gpumem_event_get, GPUMEM_EVENT_GET_QUERY),
		F(gpumem_event_get, reserved, "reserved", K_ZERO, 0)),
	  .makes = { R_TIMELINE }, .makes_at = { OUT(gpumem_event_get, timeline) } },
	{ IOCTL("pool_create", GPUMEM_POOL_CREATE, gpumem_pool_create,
		MEMBER_FLAGS(gpumem_pool_create, GPUMEM_POOL_HOST),
		F(gpumem_pool_create, device, "device", K_DEVICE, 0),
		F(gpumem_pool_create, limit, "limit", K_ALLOC, 0),
		{ "name", K_SMALL, OUT(gpumem_pool_create, name), 8, 0 },
		{ "name2", K_ZERO, OUT(gpumem_pool_create, name) + 8, 8, 0 }),
	  .makes = { R_POOL }, .makes_at = { OUT(gpumem_pool_create, id) } },
	{ IOCTL("pool_set", GPUMEM_POOL_SET, gpumem_pool_set,
		F(gpumem_pool_set, id, "id", K_POOL, 0),
		MEMBER_FLAGS(gpumem_pool_set, 0),
		F(gpumem_pool_set, reserved, "reserved", K_ZERO, 0),
		F(gpumem_pool_set, used, "used", K_LENGTH, 0),
		F(gpumem_pool_set, used_high, "used_high", K_LENGTH, 0)) },
	{ IOCTL("pool_info", GPUMEM_POOL_INFO, gpumem_pool_info,
		F(gpumem_pool_info, id, "id", K_POOL, 0),
		MEMBER_FLAGS(gpumem_pool_info, GPUMEM_POOL_INFO_RESET_RESERVED |
			     GPUMEM_POOL_INFO_RESET_USED),
		F(gpumem_pool_info, reserved, "reserved", K_ZERO, 0)) },
	{ IOCTL("pool_export", GPUMEM_POOL_EXPORT, gpumem_pool_export,
		F(gpumem_pool_export, id, "id", K_POOL, 0),
		MEMBER_FLAGS(gpumem_pool_export,
			     GPUMEM_POOL_EXPORT_CLOEXEC | GPUMEM_POOL_EXPORT_FABRIC |
			     GPUMEM_POOL_EXPORT_SAME_USER | GPUMEM_POOL_EXPORT_PID_NS)),
	  .makes = { R_POOL_FD, R_TOKEN },
	  .makes_at = { OUT(gpumem_pool_export, fd), OUT(gpumem_pool_export, token) } },
	{ IOCTL("pool_import", GPUMEM_POOL_IMPORT, gpumem_pool_import,
		MEMBER_FLAGS(gpumem_pool_import, GPUMEM_POOL_IMPORT_FABRIC),
		F(gpumem_pool_import, fd, "fd", K_POOL_FD, 0),
		F(gpumem_pool_import, token, "token", K_TOKEN, 0),
		F(gpumem_pool_import, reserved, "reserved", K_ZERO, 0)),
	  .makes = { R_POOL }, .makes_at = { OUT(gpumem_pool_import, id) } },
	{ IOCTL("chunk_open", GPUMEM_POOL_CHUNK_OPEN, gpumem_pool_chunk_open,
		MEMBER_FLAGS(gpumem_pool_chunk_open, 0),
		F(gpumem_pool_chunk_open, pool, "pool", K_POOL, 0),
		F(gpumem_pool_chunk_open, chunk, "chunk", K_CHUNK, 0),
		F(gpumem_pool_chunk_open, reserved, "reserved", K_ZERO, 0)),
	  .makes = { R_BO }, .makes_at = { OUT(gpumem_pool_chunk_open, id) } },
	{ IOCTL("channel_attach", GPUMEM_CHANNEL_ATTACH, gpumem_channel_attach,
		F(gpumem_channel_attach, fd, "fd", K_CHANNEL, 0),
		MEMBER_FLAGS(gpumem_channel_attach, 0)) },
	{ IOCTL("timeline_export", GPUMEM_TIMELINE_EXPORT, gpumem_timeline_export,
		F(gpumem_timeline_export, id, "id", K_TIMELINE, 0),
		MEMBER_FLAGS(gpumem_timeline_export, GPUMEM_TIMELINE_EXPORT_CLOEXEC)),
	  .makes = { R_TIMELINE_FD }, .makes_at = { OUT(gpumem_timeline_export, fd) } },
	{ IOCTL("timeline_import", GPUMEM_TIMELINE_IMPORT, gpumem_timeline_import,
		F(gpumem_timeline_import, fd, "fd", K_TIMELINE_FD, 0),
		MEMBER_FLAGS(gpumem_timeline_import, 0),
		F(gpumem_timeline_import, reserved, "reserved", K_ZERO, 0)),
	  .makes = { R_TIMELINE }, .makes_at = { OUT(gpumem_timeline_import, id) } },
	{ IOCTL("refusal", GPUMEM_REFUSAL, gpumem_refusal_info, { 0 }) },
	/* Makes and opens the file of a channel. */
	{ .name = "channel", .what = W_CHANNEL, .args = { N("number", K_SMALL) },
	  .makes = { R_CHANNEL }, .weight = 1 },
	/* An ioctl number of the module's type, with a structure of any size and random content. */
	{ .name = "unknown", .what = W_UNKNOWN, .weight = 2,
	  .args = { CLIENT, N("number", K_SMALL), N("a", K_VALUE), N("b", K_VALUE) } },
	{ .name = "mmap", .what = W_MMAP, .makes = { R_MAP }, .weight = 5,
	  .args = { CLIENT, N("id", K_ANY_ID), N("offset", K_OFFSET), N("length", K_LENGTH),
		    N("prot", K_PROT), N("shared", K_SHARED) } },
	{ .name = "munmap", .what = W_MUNMAP, .weight = 2,
	  .args = { N("map", K_MAP), N("offset", K_OFFSET), N("length", K_LENGTH) } },
	{ .name = "mremap", .what = W_MREMAP, .weight = 1,
	  .args = { N("map", K_MAP), N("length", K_LENGTH) } },
	{ .name = "mprotect", .what = W_MPROTECT, .weight = 1,
	  .args = { N("map", K_MAP), N("prot", K_PROT) } },
	{ .name = "madvise", .what = W_MADVISE, .weight = 1,
	  .args = { N("map", K_MAP), N("advice", K_ADVICE) } },
	{ .name = "read", .what = W_READ, .weight = 2,
	  .args = { N("map", K_MAP), N("offset", K_OFFSET) } },
	{ .name = "write", .what = W_WRITE, .weight = 2,
	  .args = { N("map", K_MAP), N("offset", K_OFFSET) } },
	/* Writes an entry to the next slot; bell=1 also rings the doorbell. */
	{ .name = "sqe", .what = W_SQE, .weight = 14,
	  .args = { N("stream", K_STREAM), N("op", K_OP), N("elem", K_ELEM),
		    N("handle", K_TIMELINE), N("dst", K_ADDR), N("src", K_ADDR),
		    N("width", K_LENGTH), N("height", K_SMALL), N("dst_pitch", K_SMALL),
		    N("src_pitch", K_SMALL), N("reserved", K_ZERO), FL("bell", 1) } },
	/* Moves the tail by any number. */
	{ .name = "tail", .what = W_TAIL, .weight = 1,
	  .args = { N("stream", K_STREAM), N("by", K_VALUE) } },
	{ .name = "dma_mmap", .what = W_DMA_MMAP, .makes = { R_MAP }, .weight = 2,
	  .args = { N("fd", K_DMABUF), N("offset", K_OFFSET), N("length", K_LENGTH),
		    N("prot", K_PROT), N("shared", K_SHARED) } },
	{ .name = "dma_sync", .what = W_DMA_SYNC, .weight = 1,
	  .args = { N("fd", K_DMABUF), FL("flags", 7) } },
	/* Makes a sync_file of a DMA-buf's fences, which timeline_import takes. */
	{ .name = "sync_file", .what = W_SYNC_FILE, .makes = { R_TIMELINE_FD }, .weight = 1,
	  .args = { N("fd", K_DMABUF), FL("flags", 3) } },
	/* Has the driver vgem, if it is loaded, attach and map a DMA-buf. */
	{ .name = "prime", .what = W_PRIME, .weight = 1,
	  .args = { N("fd", K_DMABUF), FL("sync", 7) } },
	{ .name = "lseek", .what = W_LSEEK, .weight = 1,
	  .args = { N("fd", K_ANY_FD), N("offset", K_OFFSET), N("whence", K_SMALL) } },
	{ .name = "fdinfo", .what = W_FDINFO, .weight = 1, .args = { N("fd", K_ANY_FD) } },
	{ .name = "sysfs", .what = W_SYSFS, .weight = 1,
	  .args = { N("device", K_DEVICE), N("attribute", K_SMALL) } },
	/* poll() and, with read=1, read() of a client's notices. */
	{ .name = "notice", .what = W_NOTICE, .weight = 1,
	  .args = { CLIENT, FL("read", 1), N("bytes", K_SMALL) } },
	/* A netlink request, with one attribute or none. */
	{ .name = "netlink", .what = W_NETLINK, .weight = 4,
	  .args = { N("command", K_SMALL), FL("dump", 1), N("type", K_SMALL),
		    N("value", K_SMALL) } },
};

const unsigned int spec_count = sizeof(specs) / sizeof(specs[0]);

const char * const pass_names[PASS_KINDS] = {
	[PASS_WELL] = "well", [PASS_NULL] = "null", [PASS_CUT] = "cut",
	[PASS_RDONLY] = "rdonly", [PASS_TAIL] = "tail",
};

unsigned int args_of(const struct call_spec *spec)
{
	unsigned int n = 0;

	while (n < MAX_ARGS && spec->args[n].name)
		n++;
	return n;
}

bool kind_is_resource(enum kind kind)
{
	return kind <= K_ANY_FD || kind == K_MEMORY;
}

bool kind_takes(enum kind kind, enum res res)
{
	switch (kind) {
	case K_CLIENT:
		return res == R_CLIENT;
	case K_BO:
		return res == R_BO;
	case K_VM:
		return res == R_VM;
	case K_STREAM:
		return res == R_STREAM;
	case K_TIMELINE:
		return res == R_TIMELINE;
	case K_EVENT:
		return res == R_EVENT;
	case K_POOL:
		return res == R_POOL;
	case K_TOKEN:
		return res == R_TOKEN;
	case K_DMABUF:
		return res == R_DMABUF;
	case K_POOL_FD:
		return res == R_POOL_FD;
	case K_CHANNEL:
		return res == R_CHANNEL;
	case K_TIMELINE_FD:
		return res == R_TIMELINE_FD;
	case K_CHUNK:
		return res == R_CHUNK;
	case K_MAP:
	case K_MEMORY:
		return res == R_MAP;
	case K_ANY_ID:
		return res >= R_BO && res <= R_TOKEN_ID;
	case K_ANY_FD:
		return res == R_CLIENT || res == R_DMABUF || res == R_POOL_FD ||
		       res == R_CHANNEL || res == R_TIMELINE_FD;
	default:
		return false;
	}
}

#define PICK(r, ...) \
	({ static const uint64_t list[] = { __VA_ARGS__ }; \
	   list[rng_below(r, sizeof(list) / sizeof(list[0]))]; })

static uint64_t likely_value(struct rng *r, const struct arg_spec *spec)
{
	switch (spec->kind) {
	case K_FLAGS:
		return rng_below(r, 12) ? rng_next(r) & spec->mask : 1ULL << rng_below(r, 32);
	case K_DEVICE:
		return PICK(r, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 16, 31, ~1ULL, ~0ULL);
	case K_DEVICES:
		return PICK(r, 1, 1, 1, 1, 3, 3, 2, 0, 4, 1U << 31);
	case K_LENGTH:
		return PICK(r, 0x1000, 0x1000, 0x1000, 0x2000, 0x2000, 0x4000, 0x10000, 0x10000,
			    0x200000, 0x400000, 8, 64, 1, 0, 0x1001, 0xfff, 1ULL << 40,
			    ~0ULL, ~0xfffULL, 1ULL << 63);
	case K_ALLOC:
		return PICK(r, 0x1000, 0x2000, 0x10000, 0x10000, 0x10000, 0x200000, 0x210000,
			    0x400000, 0, 1, 1ULL << 35, 1ULL << 40, 1ULL << 41, ~0xfffULL);
	case K_OFFSET:
		return PICK(r, 0, 0, 0, 0, 0, 0x1000, 0x1000, 0x2000, 0x10000, 0x10000, 0x1ff000,
			    0x200000, 8, 1, ~0xfffULL, 1ULL << 39);
	case K_ADDR:
		return PICK(r, 0x200000, 0x200000, 0x200000, 0x201000, 0x202000, 0x210000,
			    0x400000, 0x200008, 0x200ff8, 0x200ffc, 1ULL << 46, 0x1001, 0,
			    ~0xfffULL, ~0ULL);
	case K_MEMORY:
		/* Offsets in the executor's arena, see exec.c. */
		return PICK(r, 0, 0, 0x1000, 0x10000, 0x10000, 1, 0xff8, 0x1fe000, 0x200000,
			    0x300000, 0x340000, 0x3c0000, 0x3ff000, 1ULL << 46, ~0ULL, ~0xfffULL);
	case K_VALUE:
		return PICK(r, 0, 1, 1, 1, 2, 3, 5, 16, 17, ~0ULL, 1ULL << 63, 0x100000000);
	case K_DEADLINE:
		return PICK(r, 0, 0, 1, 2, 3, ~0ULL);
	case K_ENTRIES:
		return PICK(r, 16, 16, 16, 64, 4096, 15, 17, 8, 0, 8192, ~0U);
	case K_PRIORITY:
		return PICK(r, 0, 0, 0, ~0U, (uint32_t)-5, (uint32_t)-6, 1);
	case K_ZERO:
		return PICK(r, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, ~0ULL);
	case K_OP:
		return PICK(r, 0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 7, 8, 8, 9, 255);
	case K_ELEM:
		return PICK(r, 0, 0, 0, 1, 2, 4, 8, 8, 3, 255);
	case K_PROT:
		return PICK(r, PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE, 0,
			    PROT_WRITE, PROT_READ | PROT_EXEC);
	case K_SHARED:
		return PICK(r, 1, 1, 1, 1, 1, 1, 0);
	case K_ADVICE:
		return PICK(r, MADV_DONTNEED, MADV_REMOVE, MADV_HUGEPAGE, MADV_DONTFORK,
			    MADV_DOFORK, MADV_POPULATE_READ, MADV_POPULATE_WRITE, 21 /* PAGEOUT */,
			    25 /* COLLAPSE */);
	case K_SMALL:
		return PICK(r, 0, 0, 0, 1, 1, 2, 2, 3, 4, 8, 16, 64, 0x1000, 0x1000, 0x2000,
			    ~0ULL, 1ULL << 62);
	default:
		/* A resource that no call made. */
		return PICK(r, 0, 1, 2, 3, 7, 0x3ffff, 0x40000, ~0ULL);
	}
}

uint64_t some_value(struct rng *r, const struct arg_spec *spec)
{
	uint64_t v = likely_value(r, spec);

	switch (rng_below(r, 40)) {
	case 0:
		return v ^ 1ULL << rng_below(r, 64);
	case 1:
		return v + rng_below(r, 17) - 8;
	case 2:
		return rng_next(r) >> rng_below(r, 64);
	default:
		return v;
	}
}
