/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The layout of the kernel interface's structures, as programs that were built earlier use it.  The
 * compiler checks it.  A structure may grow at its end; these assertions grow with it.
 */
#ifndef UAPI_LAYOUT_H
#define UAPI_LAYOUT_H

#include <stddef.h>
#include <sys/ioctl.h>

#include <linux/gpumem.h>

#define LAYOUT(type, bytes, last)							\
	_Static_assert(sizeof(struct type) == (bytes), #type " has another size");	\
	_Static_assert(offsetof(struct type, last) + sizeof(((struct type *)0)->last) ==	\
		       (bytes), #type " ends with padding");				\
	_Static_assert(offsetof(struct type, size) == 0, #type " is not size-first")
#define AT(type, member, offset)							\
	_Static_assert(offsetof(struct type, member) == (offset), #type "." #member " moved")

LAYOUT(gpumem_info, 112, reserved);
AT(gpumem_info, device, 4);
AT(gpumem_info, abi, 8);
AT(gpumem_info, ordinal, 12);
AT(gpumem_info, total, 16);
AT(gpumem_info, used, 24);
AT(gpumem_info, node, 32);
AT(gpumem_info, engine_workers, 36);
AT(gpumem_info, engine, 40);
AT(gpumem_info, release, 56);
AT(gpumem_info, uuid, 72);
AT(gpumem_info, cached, 88);
AT(gpumem_info, excess, 96);
AT(gpumem_info, flags, 104);
AT(gpumem_info, reserved, 108);
LAYOUT(gpumem_device_attach, 16, device);
AT(gpumem_device_attach, fd, 4);
AT(gpumem_device_attach, flags, 8);
LAYOUT(gpumem_destroy, 8, id);
LAYOUT(gpumem_bo_alloc, 64, reserved2);
AT(gpumem_bo_alloc, flags, 4);
AT(gpumem_bo_alloc, device, 8);
AT(gpumem_bo_alloc, id, 12);
AT(gpumem_bo_alloc, length, 16);
AT(gpumem_bo_alloc, name, 24);
AT(gpumem_bo_alloc, pool, 40);
AT(gpumem_bo_alloc, tag, 44);
AT(gpumem_bo_alloc, chunk, 48);
AT(gpumem_bo_alloc, word, 56);
LAYOUT(gpumem_bo_info, 96, moved_out);
AT(gpumem_bo_info, id, 4);
AT(gpumem_bo_info, kind, 8);
AT(gpumem_bo_info, device, 12);
AT(gpumem_bo_info, length, 16);
AT(gpumem_bo_info, huge, 24);
AT(gpumem_bo_info, exports, 32);
AT(gpumem_bo_info, tag, 36);
AT(gpumem_bo_info, present, 40);
AT(gpumem_bo_info, faults, 56);
LAYOUT(gpumem_bo_retire, 32, live);
AT(gpumem_bo_retire, id, 4);
AT(gpumem_bo_retire, offset, 8);
AT(gpumem_bo_retire, length, 16);
AT(gpumem_bo_retire, flags, 24);
LAYOUT(gpumem_bo_export, 32, fd);
AT(gpumem_bo_export, id, 4);
AT(gpumem_bo_export, offset, 8);
AT(gpumem_bo_export, length, 16);
AT(gpumem_bo_export, flags, 24);
LAYOUT(gpumem_bo_import, 32, length);
AT(gpumem_bo_import, fd, 4);
AT(gpumem_bo_import, flags, 8);
AT(gpumem_bo_import, id, 12);
AT(gpumem_bo_import, device, 16);
AT(gpumem_bo_import, reserved, 20);
LAYOUT(gpumem_token_create, 48, token);
AT(gpumem_token_create, bo, 4);
AT(gpumem_token_create, offset, 8);
AT(gpumem_token_create, length, 16);
AT(gpumem_token_create, flags, 24);
AT(gpumem_token_create, id, 28);
LAYOUT(gpumem_token_open, 64, reserved);
AT(gpumem_token_open, flags, 4);
AT(gpumem_token_open, token, 8);
AT(gpumem_token_open, id, 24);
AT(gpumem_token_open, device, 28);
AT(gpumem_token_open, length, 32);
AT(gpumem_token_open, delta, 40);
AT(gpumem_token_open, bytes, 48);
AT(gpumem_token_open, result, 56);
LAYOUT(gpumem_vm_create, 16, reserved);
AT(gpumem_vm_create, flags, 4);
AT(gpumem_vm_create, id, 8);
LAYOUT(gpumem_vm_map, 48, writers);
AT(gpumem_vm_map, vm, 4);
AT(gpumem_vm_map, bo, 8);
AT(gpumem_vm_map, flags, 12);
AT(gpumem_vm_map, offset, 16);
AT(gpumem_vm_map, addr, 24);
AT(gpumem_vm_map, length, 32);
AT(gpumem_vm_map, readers, 40);
LAYOUT(gpumem_vm_unmap, 32, unmapped);
AT(gpumem_vm_unmap, vm, 4);
AT(gpumem_vm_unmap, addr, 8);
AT(gpumem_vm_unmap, length, 16);
LAYOUT(gpumem_vm_export, 32, fd);
AT(gpumem_vm_export, vm, 4);
AT(gpumem_vm_export, addr, 8);
AT(gpumem_vm_export, length, 16);
AT(gpumem_vm_export, flags, 24);
AT(gpumem_vm_export, fd, 28);
LAYOUT(gpumem_vm_access, 32, access);
AT(gpumem_vm_access, vm, 4);
AT(gpumem_vm_access, addr, 8);
AT(gpumem_vm_access, length, 16);
AT(gpumem_vm_access, device, 24);
LAYOUT(gpumem_vm_bind, 48, length);
AT(gpumem_vm_bind, vm, 4);
AT(gpumem_vm_bind, bo, 8);
AT(gpumem_vm_bind, flags, 12);
AT(gpumem_vm_bind, offset, 16);
AT(gpumem_vm_bind, step, 24);
AT(gpumem_vm_bind, addr, 32);
LAYOUT(gpumem_stream_create, 32, timeline);
AT(gpumem_stream_create, flags, 4);
AT(gpumem_stream_create, vm, 8);
AT(gpumem_stream_create, device, 12);
AT(gpumem_stream_create, priority, 16);
AT(gpumem_stream_create, entries, 20);
AT(gpumem_stream_create, id, 24);
LAYOUT(gpumem_stream_doorbell, 8, id);
LAYOUT(gpumem_timeline_create, 24, reserved);
AT(gpumem_timeline_create, flags, 4);
AT(gpumem_timeline_create, value, 8);
AT(gpumem_timeline_create, id, 16);
LAYOUT(gpumem_timeline_signal, 16, value);
AT(gpumem_timeline_signal, id, 4);
LAYOUT(gpumem_timeline_wait, 40, reached);
AT(gpumem_timeline_wait, id, 4);
AT(gpumem_timeline_wait, value, 8);
AT(gpumem_timeline_wait, deadline, 16);
AT(gpumem_timeline_wait, flags, 24);
AT(gpumem_timeline_wait, error, 28);
LAYOUT(gpumem_stats, 280, managed_thrash);
AT(gpumem_stats, flags, 4);
AT(gpumem_stats, objects, 8);
AT(gpumem_stats, jobs, 88);
AT(gpumem_stats, pins, 120);
AT(gpumem_stats, pools, 152);
AT(gpumem_stats, ring_bytes, 208);
LAYOUT(gpumem_refusal_info, 40, max);
AT(gpumem_refusal_info, limit, 4);
AT(gpumem_refusal_info, asked, 16);
LAYOUT(gpumem_bo_pin, 32, reserved);
AT(gpumem_bo_pin, flags, 4);
AT(gpumem_bo_pin, addr, 8);
AT(gpumem_bo_pin, length, 16);
AT(gpumem_bo_pin, id, 24);
LAYOUT(gpumem_event_create, 32, token);
AT(gpumem_event_create, flags, 4);
AT(gpumem_event_create, id, 8);
AT(gpumem_event_create, reserved, 12);
LAYOUT(gpumem_event_open, 32, result);
AT(gpumem_event_open, flags, 4);
AT(gpumem_event_open, token, 8);
AT(gpumem_event_open, id, 24);
LAYOUT(gpumem_event_record, 24, value);
AT(gpumem_event_record, id, 4);
AT(gpumem_event_record, timeline, 8);
AT(gpumem_event_record, reserved, 12);
LAYOUT(gpumem_event_get, 32, value);
AT(gpumem_event_get, id, 4);
AT(gpumem_event_get, flags, 8);
AT(gpumem_event_get, state, 12);
AT(gpumem_event_get, timeline, 16);
AT(gpumem_event_get, reserved, 20);
LAYOUT(gpumem_pool_create, 40, name);
AT(gpumem_pool_create, flags, 4);
AT(gpumem_pool_create, device, 8);
AT(gpumem_pool_create, id, 12);
AT(gpumem_pool_create, limit, 16);
LAYOUT(gpumem_pool_set, 40, reserved_high);
AT(gpumem_pool_set, id, 4);
AT(gpumem_pool_set, flags, 8);
AT(gpumem_pool_set, reserved, 12);
AT(gpumem_pool_set, used, 16);
LAYOUT(gpumem_pool_info, 104, cached);
AT(gpumem_pool_info, id, 4);
AT(gpumem_pool_info, flags, 8);
AT(gpumem_pool_info, pool_flags, 12);
AT(gpumem_pool_info, device, 16);
AT(gpumem_pool_info, reserved, 20);
AT(gpumem_pool_info, limit, 24);
AT(gpumem_pool_info, reserved_bytes, 32);
AT(gpumem_pool_info, reserved_high, 40);
AT(gpumem_pool_info, used, 48);
AT(gpumem_pool_info, used_high, 56);
AT(gpumem_pool_info, chunks, 64);
AT(gpumem_pool_info, imports, 72);
AT(gpumem_pool_info, name, 80);
LAYOUT(gpumem_pool_export, 32, token);
AT(gpumem_pool_export, id, 4);
AT(gpumem_pool_export, flags, 8);
AT(gpumem_pool_export, fd, 12);
LAYOUT(gpumem_pool_import, 48, reserved);
AT(gpumem_pool_import, flags, 4);
AT(gpumem_pool_import, fd, 8);
AT(gpumem_pool_import, id, 12);
AT(gpumem_pool_import, token, 16);
AT(gpumem_pool_import, device, 32);
AT(gpumem_pool_import, pool_flags, 36);
AT(gpumem_pool_import, result, 40);
LAYOUT(gpumem_pool_chunk_open, 40, reserved);
AT(gpumem_pool_chunk_open, flags, 4);
AT(gpumem_pool_chunk_open, pool, 8);
AT(gpumem_pool_chunk_open, id, 12);
AT(gpumem_pool_chunk_open, chunk, 16);
AT(gpumem_pool_chunk_open, length, 24);
AT(gpumem_pool_chunk_open, device, 32);
LAYOUT(gpumem_channel_attach, 16, channel);
AT(gpumem_channel_attach, fd, 4);
AT(gpumem_channel_attach, flags, 8);
LAYOUT(gpumem_timeline_export, 16, fd);
AT(gpumem_timeline_export, id, 4);
AT(gpumem_timeline_export, flags, 8);
LAYOUT(gpumem_timeline_import, 24, reserved);
AT(gpumem_timeline_import, fd, 4);
AT(gpumem_timeline_import, flags, 8);
AT(gpumem_timeline_import, id, 12);
AT(gpumem_timeline_import, result, 16);
_Static_assert(sizeof(struct gpumem_sqe) == 64, "sqe");
_Static_assert(offsetof(struct gpumem_sqe, reserved2) == 56, "sqe.reserved2");
_Static_assert(offsetof(struct gpumem_timeline_page, failed) == 16, "timeline_page.failed");
_Static_assert(offsetof(struct gpumem_timeline_page, head) == 64, "timeline_page.head");
_Static_assert(sizeof(struct gpumem_timeline_page) == 128, "timeline_page");
_Static_assert(_IOC_SIZE(GPUMEM_INFO) == 0 && _IOC_DIR(GPUMEM_INFO) == 0, "_IO() only");

#endif
