// SPDX-License-Identifier: GPL-2.0
/* See calls.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "common/util.h"

int gp_open(unsigned int ordinal)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/dev/gpumem%u", ordinal);
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int gp_ioctl(int fd, unsigned long request, void *arg)
{
	return ioctl(fd, request, arg) < 0 ? -errno : 0;
}

int gp_info(int fd, __u32 device, struct gpumem_info *info)
{
	*info = (struct gpumem_info) { .size = sizeof(*info), .device = device };
	return gp_ioctl(fd, GPUMEM_INFO, info);
}

int gp_attach(int fd, int other, __u32 *device)
{
	struct gpumem_device_attach a = { .size = sizeof(a), .fd = other };
	int ret = gp_ioctl(fd, GPUMEM_DEVICE_ATTACH, &a);

	*device = a.device;
	return ret;
}

int gp_destroy(int fd, __u32 id)
{
	struct gpumem_destroy d = { .size = sizeof(d), .id = id };

	return gp_ioctl(fd, GPUMEM_DESTROY, &d);
}

int gp_managed_alloc(int fd, __u64 length, __u32 *id)
{
	struct gpumem_bo_alloc c = {
		.size = sizeof(c), .length = length, .flags = GPUMEM_BO_ALLOC_MANAGED,
	};
	int ret = gp_ioctl(fd, GPUMEM_BO_ALLOC, &c);

	*id = c.id;
	return ret;
}

int gp_bo_alloc_on(int fd, __u32 device, __u64 length, __u32 *id)
{
	struct gpumem_bo_alloc a = {
		.size = sizeof(a), .device = device, .length = length, .name = "test",
	};
	int ret = gp_ioctl(fd, GPUMEM_BO_ALLOC, &a);

	*id = a.id;
	return ret;
}

int gp_bo_alloc(int fd, __u64 length, __u32 *id)
{
	return gp_bo_alloc_on(fd, 0, length, id);
}

int gp_bo_info(int fd, __u32 id, struct gpumem_bo_info *info)
{
	*info = (struct gpumem_bo_info) { .size = sizeof(*info), .id = id };
	return gp_ioctl(fd, GPUMEM_BO_INFO, info);
}

int gp_bo_advise(int fd, __u32 id, __u64 offset, __u64 length, __u32 advice, __u32 device)
{
	struct gpumem_bo_advise a = {
		.size = sizeof(a), .id = id, .offset = offset, .length = length, .advice = advice,
		.device = device,
	};

	return gp_ioctl(fd, GPUMEM_BO_ADVISE, &a);
}

int gp_bo_retire(int fd, __u32 id, __u64 offset, __u64 length, __u32 flags, __u32 *live)
{
	struct gpumem_bo_retire r = {
		.size = sizeof(r), .id = id, .offset = offset, .length = length, .flags = flags,
	};
	int ret = gp_ioctl(fd, GPUMEM_BO_RETIRE, &r);

	*live = r.live;
	return ret;
}

int gp_bo_export(int fd, __u32 id, __u64 offset, __u64 length, __u32 flags)
{
	struct gpumem_bo_export e = {
		.size = sizeof(e), .id = id, .offset = offset, .length = length, .flags = flags,
		.fd = -1,
	};
	int ret = gp_ioctl(fd, GPUMEM_BO_EXPORT, &e);

	return ret ? ret : e.fd;
}

int gp_bo_import(int fd, int dmabuf, struct gpumem_bo_import *out)
{
	*out = (struct gpumem_bo_import) { .size = sizeof(*out), .fd = dmabuf };
	return gp_ioctl(fd, GPUMEM_BO_IMPORT, out);
}

int gp_token_create(int fd, __u32 bo, __u64 offset, __u64 length, __u32 flags, __u32 *id,
		    __u8 *token)
{
	struct gpumem_token_create c = {
		.size = sizeof(c), .bo = bo, .offset = offset, .length = length, .flags = flags,
	};
	int ret = gp_ioctl(fd, GPUMEM_TOKEN_CREATE, &c);

	*id = c.id;
	memcpy(token, c.token, GPUMEM_TOKEN_SIZE);
	return ret;
}

int gp_token_open(int fd, const __u8 *token, struct gpumem_token_open *out)
{
	*out = (struct gpumem_token_open) { .size = sizeof(*out) };
	memcpy(out->token, token, GPUMEM_TOKEN_SIZE);
	return gp_ioctl(fd, GPUMEM_TOKEN_OPEN, out);
}

int gp_vm_create(int fd, __u32 *id)
{
	struct gpumem_vm_create c = { .size = sizeof(c) };
	int ret = gp_ioctl(fd, GPUMEM_VM_CREATE, &c);

	*id = c.id;
	return ret;
}

int gp_vm_map(int fd, __u32 vm, __u32 bo, __u64 offset, __u64 addr, __u64 length, __u32 readers,
	      __u32 writers)
{
	struct gpumem_vm_map m = {
		.size = sizeof(m), .vm = vm, .bo = bo, .offset = offset, .addr = addr,
		.length = length, .readers = readers, .writers = writers,
	};

	return gp_ioctl(fd, GPUMEM_VM_MAP, &m);
}

int gp_vm_unmap(int fd, __u32 vm, __u64 addr, __u64 length, __u64 *unmapped)
{
	struct gpumem_vm_unmap u = {
		.size = sizeof(u), .vm = vm, .addr = addr, .length = length,
	};
	int ret = gp_ioctl(fd, GPUMEM_VM_UNMAP, &u);

	if (unmapped)
		*unmapped = u.unmapped;
	return ret;
}

int gp_vm_access(int fd, __u32 vm, __u64 addr, __u64 length, __u32 device, __u32 access)
{
	struct gpumem_vm_access a = {
		.size = sizeof(a), .vm = vm, .addr = addr, .length = length, .device = device,
		.access = access,
	};

	return gp_ioctl(fd, GPUMEM_VM_ACCESS, &a);
}

int gp_vm_export(int fd, __u32 vm, __u64 addr, __u64 length, __u32 flags)
{
	struct gpumem_vm_export e = {
		.size = sizeof(e), .vm = vm, .addr = addr, .length = length, .flags = flags,
	};

	return gp_ioctl(fd, GPUMEM_VM_EXPORT, &e) ?: e.fd;
}

int gp_vm_map_sparse(int fd, __u32 vm, __u64 addr, __u64 length, __u32 readers, __u32 writers)
{
	struct gpumem_vm_map m = {
		.size = sizeof(m), .vm = vm, .flags = GPUMEM_VM_MAP_SPARSE, .addr = addr,
		.length = length, .readers = readers, .writers = writers,
	};

	return gp_ioctl(fd, GPUMEM_VM_MAP, &m);
}

int gp_vm_bind(int fd, __u32 vm, __u32 bo, __u64 offset, __u64 step, __u64 addr, __u64 length,
	       __u32 flags)
{
	struct gpumem_vm_bind b = {
		.size = sizeof(b), .vm = vm, .bo = bo, .flags = flags, .offset = offset,
		.step = step, .addr = addr, .length = length,
	};

	return gp_ioctl(fd, GPUMEM_VM_BIND, &b);
}

int gp_stream_create(int fd, __u32 vm, __u32 device, __u32 entries, __u32 *id, __u32 *timeline)
{
	struct gpumem_stream_create c = {
		.size = sizeof(c), .vm = vm, .device = device, .entries = entries,
	};
	int ret = gp_ioctl(fd, GPUMEM_STREAM_CREATE, &c);

	*id = c.id;
	*timeline = c.timeline;
	return ret;
}

int gp_doorbell(int fd, __u32 id)
{
	struct gpumem_stream_doorbell d = { .size = sizeof(d), .id = id };

	return gp_ioctl(fd, GPUMEM_STREAM_DOORBELL, &d);
}

int gp_timeline_create(int fd, __u64 value, __u32 *id)
{
	struct gpumem_timeline_create c = { .size = sizeof(c), .value = value };
	int ret = gp_ioctl(fd, GPUMEM_TIMELINE_CREATE, &c);

	*id = c.id;
	return ret;
}

int gp_counting_create(int fd, __u64 value, __u32 *id)
{
	struct gpumem_timeline_create c = {
		.size = sizeof(c), .flags = GPUMEM_TIMELINE_COUNTING, .value = value,
	};
	int ret = gp_ioctl(fd, GPUMEM_TIMELINE_CREATE, &c);

	*id = c.id;
	return ret;
}

int gp_timeline_export(int fd, __u32 id, __u32 flags)
{
	struct gpumem_timeline_export e = { .size = sizeof(e), .id = id, .flags = flags };
	int ret = gp_ioctl(fd, GPUMEM_TIMELINE_EXPORT, &e);

	return ret ? ret : e.fd;
}

int gp_timeline_import(int fd, int timeline, __u32 *id, __u32 *result)
{
	struct gpumem_timeline_import i = { .size = sizeof(i), .fd = timeline };
	int ret = gp_ioctl(fd, GPUMEM_TIMELINE_IMPORT, &i);

	*id = i.id;
	if (result)
		*result = i.result;
	return ret;
}

int gp_timeline_signal(int fd, __u32 id, __u64 value)
{
	struct gpumem_timeline_signal s = { .size = sizeof(s), .id = id, .value = value };

	return gp_ioctl(fd, GPUMEM_TIMELINE_SIGNAL, &s);
}

int gp_timeline_take(int fd, __u32 id, __u64 *value)
{
	struct gpumem_timeline_take t = { .size = sizeof(t), .id = id };
	int ret = gp_ioctl(fd, GPUMEM_TIMELINE_TAKE, &t);

	*value = t.value;
	return ret;
}

int gp_timeline_wait(int fd, __u32 id, __u64 value, __u64 deadline,
		     struct gpumem_timeline_wait *out)
{
	struct gpumem_timeline_wait w = {
		.size = sizeof(w), .id = id, .value = value, .deadline = deadline,
	};
	int ret = gp_ioctl(fd, GPUMEM_TIMELINE_WAIT, &w);

	if (out)
		*out = w;
	return ret;
}

int gp_event_create_for(int fd, __u32 flags, __u32 *id, __u8 *token)
{
	struct gpumem_event_create c = { .size = sizeof(c), .flags = flags };
	int ret = gp_ioctl(fd, GPUMEM_EVENT_CREATE, &c);

	*id = c.id;
	if (token)
		memcpy(token, c.token, sizeof(c.token));
	return ret;
}

int gp_event_create(int fd, __u32 *id, __u8 *token)
{
	return gp_event_create_for(fd, 0, id, token);
}

int gp_event_open(int fd, const __u8 *token, __u32 *id, __u32 *result)
{
	struct gpumem_event_open o = { .size = sizeof(o) };
	int ret;

	memcpy(o.token, token, sizeof(o.token));
	ret = gp_ioctl(fd, GPUMEM_EVENT_OPEN, &o);
	*id = o.id;
	if (result)
		*result = o.result;
	return ret;
}

int gp_event_record(int fd, __u32 id, __u32 timeline, __u64 value)
{
	struct gpumem_event_record r = {
		.size = sizeof(r), .id = id, .timeline = timeline, .value = value,
	};

	return gp_ioctl(fd, GPUMEM_EVENT_RECORD, &r);
}

int gp_event_get(int fd, __u32 id, __u32 flags, struct gpumem_event_get *out)
{
	*out = (struct gpumem_event_get){ .size = sizeof(*out), .id = id, .flags = flags };
	return gp_ioctl(fd, GPUMEM_EVENT_GET, out);
}

int gp_stats(int fd, struct gpumem_stats *stats)
{
	*stats = (struct gpumem_stats) { .size = sizeof(*stats) };
	return gp_ioctl(fd, GPUMEM_STATS, stats);
}

void *gp_map(int fd, __u32 id, __u64 offset, size_t length, int prot)
{
	void *p = mmap(NULL, length, prot, MAP_SHARED, fd, GPUMEM_MMAP_OFFSET(id) + offset);

	return p == MAP_FAILED ? NULL : p;
}

void *gp_alloc_map(int fd, size_t length, __u32 *id)
{
	int ret = gp_bo_alloc(fd, length, id);

	if (ret) {
		errno = -ret;
		return NULL;
	}
	return gp_map(fd, *id, 0, length, PROT_READ | PROT_WRITE);
}

int gp_map_errno(int fd, __u32 id, __u64 offset, size_t length, int prot, int flags)
{
	void *p = mmap(NULL, length, prot, flags, fd, GPUMEM_MMAP_OFFSET(id) + offset);

	if (p == MAP_FAILED)
		return -errno;
	munmap(p, length);
	return 0;
}
