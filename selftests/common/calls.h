/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One function for each call of the kernel interface.  A function returns 0, a descriptor or a
 * negative errno, so a test can compare the result with the errno that it expects.
 */
#ifndef GPUMEM_SELFTESTS_CALLS_H
#define GPUMEM_SELFTESTS_CALLS_H

#include <stddef.h>

#include <linux/gpumem.h>

int gp_open(unsigned int ordinal);
int gp_ioctl(int fd, unsigned long request, void *arg);
int gp_info(int fd, __u32 device, struct gpumem_info *info);
int gp_attach(int fd, int other, __u32 *device);
int gp_destroy(int fd, __u32 id);
int gp_bo_alloc(int fd, __u64 length, __u32 *id);
/* Managed memory. */
int gp_managed_alloc(int fd, __u64 length, __u32 *id);
int gp_bo_alloc_on(int fd, __u32 device, __u64 length, __u32 *id);
int gp_bo_info(int fd, __u32 id, struct gpumem_bo_info *info);
int gp_bo_advise(int fd, __u32 id, __u64 offset, __u64 length, __u32 advice, __u32 device);
int gp_bo_retire(int fd, __u32 id, __u64 offset, __u64 length, __u32 flags, __u32 *live);
int gp_bo_export(int fd, __u32 id, __u64 offset, __u64 length, __u32 flags);
int gp_bo_import(int fd, int dmabuf, struct gpumem_bo_import *out);
int gp_token_create(int fd, __u32 bo, __u64 offset, __u64 length, __u32 flags, __u32 *id,
		    __u8 *token);
int gp_token_open(int fd, const __u8 *token, struct gpumem_token_open *out);
int gp_vm_create(int fd, __u32 *id);
int gp_vm_map(int fd, __u32 vm, __u32 bo, __u64 offset, __u64 addr, __u64 length, __u32 readers,
	      __u32 writers);
int gp_vm_unmap(int fd, __u32 vm, __u64 addr, __u64 length, __u64 *unmapped);
int gp_vm_access(int fd, __u32 vm, __u64 addr, __u64 length, __u32 device, __u32 access);
int gp_vm_export(int fd, __u32 vm, __u64 addr, __u64 length, __u32 flags);
int gp_vm_map_sparse(int fd, __u32 vm, __u64 addr, __u64 length, __u32 readers, __u32 writers);
int gp_vm_bind(int fd, __u32 vm, __u32 bo, __u64 offset, __u64 step, __u64 addr, __u64 length,
	       __u32 flags);
int gp_stream_create(int fd, __u32 vm, __u32 device, __u32 entries, __u32 *id, __u32 *timeline);
int gp_doorbell(int fd, __u32 id);
int gp_timeline_create(int fd, __u64 value, __u32 *id);
/* A counting timeline.  */
int gp_counting_create(int fd, __u64 value, __u32 *id);
int gp_timeline_export(int fd, __u32 id, __u32 flags);
/* @result may be NULL.  */
int gp_timeline_import(int fd, int timeline, __u32 *id, __u32 *result);
int gp_timeline_signal(int fd, __u32 id, __u64 value);
/* Take a signal of a counting timeline.  @value: where the timeline has it.  */
int gp_timeline_take(int fd, __u32 id, __u64 *value);
int gp_timeline_wait(int fd, __u32 id, __u64 value, __u64 deadline,
		     struct gpumem_timeline_wait *out);
int gp_event_create(int fd, __u32 *id, __u8 *token);
/* gp_event_create() with @flags of enum gpumem_token_flags.  */
int gp_event_create_for(int fd, __u32 flags, __u32 *id, __u8 *token);
int gp_event_open(int fd, const __u8 *token, __u32 *id, __u32 *result);
int gp_event_record(int fd, __u32 id, __u32 timeline, __u64 value);
/* Get the state of the event, and a timeline object unless GPUMEM_EVENT_GET_QUERY is set. */
int gp_event_get(int fd, __u32 id, __u32 flags, struct gpumem_event_get *out);
int gp_stats(int fd, struct gpumem_stats *stats);

/* mmap() of an object: its address, or NULL with errno set. */
void *gp_map(int fd, __u32 id, __u64 offset, size_t length, int prot);
/* A new buffer object, mapped for reading and writing: its address, or NULL with errno set. */
void *gp_alloc_map(int fd, size_t length, __u32 *id);
/* Maps as gp_map() does and unmaps again: 0, or the negative errno of mmap().  */
int gp_map_errno(int fd, __u32 id, __u64 offset, size_t length, int prot, int flags);

#endif
