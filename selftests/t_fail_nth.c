// SPDX-License-Identifier: GPL-2.0
/*
 * Every call of the kernel interface with its first, second, third ... allocation or user copy
 * failing (fail_nth.h), and a storm of random failures for what workers do.
 *
 * An operation is three functions: set up, act, undo.  Only "act" has faults.  When it failed, its
 * errno is one that the interface documents, everything is as it was before it, and acting again
 * succeeds.  After "undo" everything is as it was before "set up", whatever failed on the way.
 */
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <linux/dma-buf.h>

#include "kselftest_harness.h"
#include "exporters.h"
#include "fail_nth.h"
#include "pool_util.h"

#define ADDR	0x100000000ULL
#define STRIDE	MIB
#define MAPS	40		/* more than one node of an address space's tree holds */
#define FREE	(ADDR + 20 * STRIDE + 512 * KIB)

struct env {
	int fd, client, other, dmabuf, card, exported;
	__u32 vm, bo, stream_timeline, id, id2, handle, pool;
	struct stream stream;
	__u8 name[GPUMEM_TOKEN_SIZE];
	__u64 value, chunk;
	char *mem;
	size_t bytes;
};

typedef int (*step)(struct env *e);

/* --- operations */

static int info(struct env *e)
{
	struct gpumem_info i;

	return gp_info(e->fd, 0, &i);
}

static int stats(struct env *e)
{
	struct gpumem_stats s;

	return gp_stats(e->fd, &s);
}

static int client_open(struct env *e)
{
	e->client = gp_open(0);
	return e->client < 0 ? e->client : 0;
}

static int client_close(struct env *e)
{
	return close(e->client) ? -errno : 0;
}

static int attach_setup(struct env *e)
{
	e->other = gp_open(1);
	return e->other < 0 ? e->other : client_open(e);
}

static int attach(struct env *e)
{
	return gp_attach(e->client, e->other, &e->id);
}

static int not_attached(struct env *e)
{
	struct gpumem_info i;

	return gp_info(e->client, 1, &i) == -EACCES ? 0 : -EEXIST;
}

static int attach_undo(struct env *e)
{
	close(e->other);
	return e->id == 1 ? client_close(e) : -EINVAL;
}

static int alloc_4k(struct env *e)
{
	return gp_bo_alloc(e->fd, 4 * KIB, &e->id);
}

static int alloc_64k(struct env *e)
{
	return gp_bo_alloc(e->fd, 64 * KIB, &e->id);
}

static int alloc_2m(struct env *e)
{
	return gp_bo_alloc(e->fd, 2 * MIB, &e->id);
}

static int alloc_host(struct env *e)
{
	struct gpumem_bo_alloc a = {
		.size = sizeof(a), .flags = GPUMEM_BO_ALLOC_HOST, .length = 16 * KIB,
	};
	int ret = gp_ioctl(e->fd, GPUMEM_BO_ALLOC, &a);

	e->id = a.id;
	return ret;
}

static int destroy(struct env *e)
{
	return gp_destroy(e->fd, e->id);
}

static int bo_info(struct env *e)
{
	struct gpumem_bo_info i;

	return gp_bo_info(e->fd, e->bo, &i);
}

static int token(struct env *e)
{
	return gp_token_create(e->fd, e->bo, 0, 4 * KIB, 0, &e->id, e->name);
}

static int retire(struct env *e)
{
	__u32 live;

	return gp_bo_retire(e->fd, e->bo, 0, 4 * KIB, 0, &live);
}

static int export(struct env *e)
{
	e->dmabuf = gp_bo_export(e->fd, e->bo, 0, 16 * KIB, GPUMEM_BO_EXPORT_CLOEXEC);
	return e->dmabuf < 0 ? e->dmabuf : 0;
}

static int close_dmabuf(struct env *e)
{
	return close(e->dmabuf) ? -errno : 0;
}

static int import(struct env *e)
{
	struct gpumem_bo_import i;
	int ret = gp_bo_import(e->fd, e->dmabuf, &i);

	e->id = i.id;
	return ret;
}

static int import_undo(struct env *e)
{
	int ret = destroy(e);

	return ret ? ret : close_dmabuf(e);
}

static int token_setup(struct env *e)
{
	int ret = token(e);

	e->id2 = e->id;
	return ret;
}

static int token_open(struct env *e)
{
	struct gpumem_token_open o;
	int ret = gp_token_open(e->fd, e->name, &o);

	e->id = o.id;
	return ret;
}

static int token_undo(struct env *e)
{
	int ret = destroy(e);

	return ret ? ret : gp_destroy(e->fd, e->id2);
}

/* --- pools */

static int pool_create(struct env *e)
{
	return gp_pool_create(e->fd, 0, 0, MIB, "nth", &e->id);
}

static int pool_setup(struct env *e)
{
	return gp_pool_create(e->fd, 0, 0, MIB, "nth", &e->pool);
}

static int pool_undo(struct env *e)
{
	return gp_destroy(e->fd, e->pool);
}

static int alloc_chunk(struct env *e)
{
	return gp_pool_chunk(e->fd, e->pool, 16 * KIB, &e->id, &e->chunk);
}

static int host_pool_setup(struct env *e)
{
	return gp_pool_create(e->fd, 0, GPUMEM_POOL_HOST, 0, "", &e->pool);
}

static int alloc_host_chunk(struct env *e)
{
	return gp_pool_chunk_on(e->fd, 0, e->pool, GPUMEM_BO_ALLOC_HOST, 16 * KIB, &e->id,
				&e->chunk);
}

static int chunk_setup(struct env *e)
{
	int ret = pool_setup(e);

	return ret ? ret : alloc_chunk(e);
}

static int chunk_undo(struct env *e)
{
	int ret = destroy(e);

	return ret ? ret : pool_undo(e);
}

static int chunk_left(struct env *e)
{
	struct gpumem_pool_info i;
	int ret = gp_pool_info(e->fd, e->pool, 0, &i);

	return ret ? ret : i.reserved_bytes || i.chunks ? -EEXIST : 0;
}

static int open_setup(struct env *e)
{
	int ret = chunk_setup(e);

	e->id2 = e->id;
	return ret;
}

static int open_chunk(struct env *e)
{
	struct gpumem_pool_chunk_open o;
	int ret = gp_chunk_open(e->fd, e->pool, e->chunk, &o);

	e->id = o.id;
	return ret;
}

static int open_undo(struct env *e)
{
	int ret = chunk_undo(e);

	return ret ? ret : gp_destroy(e->fd, e->id2);
}

static int pool_set(struct env *e)
{
	return gp_pool_set(e->fd, e->pool, 1, 1);
}

static int pool_info(struct env *e)
{
	struct gpumem_pool_info i;

	return gp_pool_info(e->fd, e->pool, GPUMEM_POOL_INFO_RESET_USED, &i);
}

static int pool_export(struct env *e)
{
	e->exported = gp_pool_export(e->fd, e->pool, GPUMEM_POOL_EXPORT_CLOEXEC);
	return e->exported < 0 ? e->exported : 0;
}

static int pool_export_undo(struct env *e)
{
	return close(e->exported) ? -errno : pool_undo(e);
}

static int pool_exported(struct env *e)
{
	int ret = pool_setup(e);

	return ret ? ret : pool_export(e);
}

static int pool_import(struct env *e)
{
	struct gpumem_pool_import i;
	int ret = gp_pool_import(e->fd, e->exported, &i);

	e->id = i.id;
	return ret;
}

static int pool_import_undo(struct env *e)
{
	int ret = destroy(e);

	return ret ? ret : pool_export_undo(e);
}

static int channel_setup(struct env *e)
{
	e->other = gp_channel_open(0);
	return e->other < 0 ? e->other : client_open(e);
}

static int channel(struct env *e)
{
	return gp_channel_attach(e->client, e->other, NULL);
}

/* A pool of a client with a channel. */
static int fabric_setup(struct env *e)
{
	int ret = channel_setup(e);

	ret = ret ? ret : channel(e);
	return ret ? ret : gp_pool_create(e->client, 0, 0, 0, "", &e->pool);
}

static int fabric(struct env *e)
{
	return gp_pool_export_fabric(e->client, e->pool, e->name);
}

/* It holds no channel that it was not told of: another one can be had. */
static int channel_left(struct env *e)
{
	struct gpumem_pool_export x = {
		.size = sizeof(x), .flags = GPUMEM_POOL_EXPORT_FABRIC,
	};
	__u32 id;
	int ret = gp_pool_create(e->client, 0, 0, 0, "", &id);

	x.id = id;
	ret = ret ? ret : gp_ioctl(e->client, GPUMEM_POOL_EXPORT, &x);
	gp_destroy(e->client, id);
	return ret == -EPERM ? 0 : -EEXIST;
}

static int channel_undo(struct env *e)
{
	close(e->other);
	return client_close(e);
}

static int vm_create(struct env *e)
{
	return gp_vm_create(e->fd, &e->id);
}

static int vm_map(struct env *e)
{
	return gp_vm_map(e->fd, e->vm, e->bo, 0, FREE, 4 * KIB, 1, 1);
}

static int vm_unmap(struct env *e)
{
	__u64 bytes = 0;
	int ret = gp_vm_unmap(e->fd, e->vm, FREE, 4 * KIB, &bytes);

	return !ret && bytes != 4 * KIB ? -EBADMSG : ret;
}

static int vm_unmap_half(struct env *e)
{
	__u64 bytes = 0;
	int ret = gp_vm_unmap(e->fd, e->vm, ADDR, MAPS / 2 * STRIDE, &bytes);

	return !ret && bytes != MAPS / 2 * 4 * KIB ? -EBADMSG : ret;
}

static int map_from(struct env *e, __u32 vm, unsigned int n)
{
	int ret = 0;

	for (unsigned int i = 0; !ret && i < n; i++)
		ret = gp_vm_map(e->fd, vm, e->bo, 0, ADDR + i * STRIDE, 4 * KIB, 1, 1);
	return ret;
}

static int vm_remap_half(struct env *e)
{
	return map_from(e, e->vm, MAPS / 2);
}

static int vm_full(struct env *e)
{
	int ret = vm_create(e);

	return ret ? ret : map_from(e, e->id, MAPS);
}

static int vm_access(struct env *e)
{
	return gp_vm_access(e->fd, e->vm, ADDR, 4 * KIB, 0, GPUMEM_ACCESS_READ);
}

static int vm_access_undo(struct env *e)
{
	return gp_vm_access(e->fd, e->vm, ADDR, 4 * KIB, 0,
			    GPUMEM_ACCESS_READ | GPUMEM_ACCESS_WRITE);
}

static int stream_create(struct env *e)
{
	return gp_stream_create(e->fd, e->vm, 0, 16, &e->id, &e->id2);
}

static int stream_destroy(struct env *e)
{
	return gp_destroy(e->fd, e->id);
}

static int stream_undo(struct env *e)
{
	int ret = stream_destroy(e);

	return ret ? ret : gp_destroy(e->fd, e->id2);
}

static int stream_timeline_undo(struct env *e)
{
	return gp_destroy(e->fd, e->id2);
}

static int doorbell(struct env *e)
{
	return gp_doorbell(e->fd, e->stream.id);
}

/* An entry, told of by a call that may fail: the entry stays, and the next call does it. */
static int submit_setup(struct env *e)
{
	struct gpumem_sqe sqe = sqe_fill(ADDR, 1, 7, 4096);

	stream_put(&e->stream, &sqe);
	__atomic_store_n(&e->stream.ring->tail, e->stream.tail, __ATOMIC_RELEASE);
	return 0;
}

static int submit_undo(struct env *e)
{
	return stream_sync(&e->stream);
}

static int timeline_create(struct env *e)
{
	return gp_timeline_create(e->fd, 5, &e->id);
}

static int timeline_signal(struct env *e)
{
	return gp_timeline_signal(e->fd, e->id, 7);
}

static int timeline_unchanged(struct env *e)
{
	struct gpumem_timeline_wait w;

	return gp_timeline_wait(e->fd, e->id, 0, 0, &w) || w.reached != 5 ? -EEXIST : 0;
}

static int timeline_poll(struct env *e)
{
	int ret = gp_timeline_wait(e->fd, e->id, 6, 0, NULL);

	return ret == -ETIMEDOUT ? 0 : ret ? ret : -EBADMSG;
}

static int timeline_sleep(struct env *e)
{
	int ret = gp_timeline_wait(e->fd, e->id, 6, mono_ns() + NSEC / 1000, NULL);

	return ret == -ETIMEDOUT ? 0 : ret ? ret : -EBADMSG;
}

static int event_create(struct env *e)
{
	return gp_event_create(e->fd, &e->id2, e->name);
}

static int event_undo(struct env *e)
{
	return gp_destroy(e->fd, e->id2);
}

static int event_open(struct env *e)
{
	return gp_event_open(e->fd, e->name, &e->id, NULL);
}

static int event_open_undo(struct env *e)
{
	int ret = destroy(e);

	return ret ? ret : event_undo(e);
}

/* What is recorded does not come before the client ends. */
static int event_record(struct env *e)
{
	return gp_event_record(e->fd, e->id2, e->stream.timeline, ~0ULL);
}

static int event_complete(struct env *e)
{
	struct gpumem_event_get get;
	int ret = gp_event_get(e->fd, e->id2, GPUMEM_EVENT_GET_QUERY, &get);

	return ret ? ret : get.state == GPUMEM_EVENT_COMPLETE ? 0 : -EEXIST;
}

static int event_pending(struct env *e)
{
	int ret = event_create(e);

	return ret ? ret : event_record(e);
}

static int event_get(struct env *e)
{
	struct gpumem_event_get get;
	int ret = gp_event_get(e->fd, e->id2, 0, &get);

	e->id = get.timeline;
	return ret ? ret : get.state == GPUMEM_EVENT_PENDING ? 0 : -EBADMSG;
}

static int event_query(struct env *e)
{
	struct gpumem_event_get get;
	int ret = gp_event_get(e->fd, e->id2, GPUMEM_EVENT_GET_QUERY, &get);

	return ret ? ret : get.state == GPUMEM_EVENT_PENDING ? 0 : -EBADMSG;
}

static int event_got(struct env *e)
{
	int ret = event_pending(e);

	return ret ? ret : event_get(e);
}

/* Through the handle of the timeline that an event gave. */
static int event_poll(struct env *e)
{
	int ret = gp_timeline_wait(e->fd, e->id, ~0ULL, 0, NULL);

	return ret == -ETIMEDOUT ? 0 : ret ? ret : -EBADMSG;
}

static int host_setup(struct env *e)
{
	e->bytes = 16 * page_size;
	e->mem = mmap(NULL, e->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return e->mem == MAP_FAILED ? -errno : 0;
}

/* Backwards, so that pages do not lie together and every one is an extent. */
static int host_touched(struct env *e)
{
	int ret = host_setup(e);

	for (size_t i = e->bytes; !ret && i; i -= page_size)
		e->mem[i - 1] = 1;
	return ret;
}

static int pin_as(struct env *e, __u32 flags)
{
	struct gpumem_bo_pin p = {
		.size = sizeof(p), .flags = flags, .addr = (uintptr_t)e->mem + 100,
		.length = e->bytes - 200,
	};
	int ret = gp_ioctl(e->fd, GPUMEM_BO_PIN, &p);

	e->id = p.id;
	return ret;
}

static int pin(struct env *e)
{
	return pin_as(e, 0);
}

static int pin_rdonly(struct env *e)
{
	return pin_as(e, GPUMEM_BO_PIN_RDONLY);
}

static int pinned_setup(struct env *e)
{
	int ret = host_touched(e);

	return ret ? ret : pin(e);
}

static int unmap_host(struct env *e)
{
	return munmap(e->mem, e->bytes) ? -errno : 0;
}

static int host_undo(struct env *e)
{
	int ret = destroy(e);

	return ret ? ret : unmap_host(e);
}

/* --- open, close, mmap and what a process does with memory */

/* A client with one of everything, and memory of it that others still hold. */
static int full_client(struct env *e)
{
	__u32 bo, vm, stream, timeline, id;
	int ret = client_open(e);

	ret = ret ? ret : gp_bo_alloc(e->client, 16 * KIB, &bo);
	ret = ret ? ret : gp_vm_create(e->client, &vm);
	ret = ret ? ret : gp_vm_map(e->client, vm, bo, 0, ADDR, 16 * KIB, 1, 1);
	ret = ret ? ret : gp_stream_create(e->client, vm, 0, 16, &stream, &timeline);
	ret = ret ? ret : gp_token_create(e->client, bo, 0, 4 * KIB, 0, &id, e->name);
	if (ret)
		return ret;
	e->dmabuf = gp_bo_export(e->client, bo, 0, 4 * KIB, 0);
	e->bytes = 16 * KIB;
	e->mem = gp_map(e->client, bo, 0, e->bytes, PROT_READ | PROT_WRITE);
	return e->dmabuf < 0 || !e->mem ? -EBADMSG : 0;
}

static int full_undo(struct env *e)
{
	close(e->dmabuf);
	return munmap(e->mem, e->bytes) ? -errno : 0;
}

static int do_mmap(struct env *e, __u32 id, size_t bytes, int prot)
{
	e->bytes = bytes;
	e->mem = gp_map(e->fd, id, 0, bytes, prot);
	return e->mem ? 0 : -errno;
}

static int mmap_bo(struct env *e)
{
	return do_mmap(e, e->bo, 64 * KIB, PROT_READ | PROT_WRITE);
}

static int mmap_ring(struct env *e)
{
	return do_mmap(e, e->stream.id, e->stream.ring_size, PROT_READ | PROT_WRITE);
}

static int mmap_timeline(struct env *e)
{
	return do_mmap(e, e->stream.timeline, page_size, PROT_READ);
}

/* The cache page, which the first call makes. */
static int mmap_cache(struct env *e)
{
	return do_mmap(e, 0, page_size, PROT_READ | PROT_WRITE);
}

static int mmap_view(struct env *e)
{
	return do_mmap(e, e->id, 16 * KIB, PROT_READ | PROT_WRITE);
}

static int mmap_undo(struct env *e)
{
	return munmap(e->mem, e->bytes) ? -errno : 0;
}

static int view_setup(struct env *e)
{
	int ret = export(e);

	return ret ? ret : import(e);
}

static int mmap_view_undo(struct env *e)
{
	int ret = mmap_undo(e);

	return ret ? ret : import_undo(e);
}

static int mmap_dmabuf(struct env *e)
{
	e->bytes = 16 * KIB;
	e->mem = mmap(NULL, e->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, e->dmabuf, 0);
	return e->mem == MAP_FAILED ? -errno : 0;
}

static int mmap_dmabuf_undo(struct env *e)
{
	int ret = mmap_undo(e);

	return ret ? ret : close_dmabuf(e);
}

/* Far from everything, so that page tables are made. */
static int mmap_far(struct env *e)
{
	e->bytes = 64 * KIB;
	e->mem = mmap((void *)0x200000000000, e->bytes, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_FIXED_NOREPLACE, e->fd, GPUMEM_MMAP_OFFSET(e->bo));
	return e->mem == MAP_FAILED ? -errno : 0;
}

static int touch_all(struct env *e)
{
	for (size_t i = 0; i < e->bytes; i += page_size)
		e->mem[i] = 1;
	return 0;
}

static int sync_cpu(struct env *e)
{
	struct dma_buf_sync s = { .flags = DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW };

	if (ioctl(e->dmabuf, DMA_BUF_IOCTL_SYNC, &s) < 0)
		return -errno;
	s.flags = DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW;
	return ioctl(e->dmabuf, DMA_BUF_IOCTL_SYNC, &s) < 0 ? -errno : 0;
}

static int fdinfo_setup(struct env *e)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", e->fd);
	e->other = open(path, O_RDONLY | O_CLOEXEC);
	return e->other < 0 ? -errno : 0;
}

static int fdinfo(struct env *e)
{
	char text[2048];

	return pread(e->other, text, sizeof(text), 0) > 0 ? 0 : -errno;
}

static int fdinfo_undo(struct env *e)
{
	return close(e->other) ? -errno : 0;
}

/* --- a DMA-buf of another driver */

static int foreign_make(struct env *e)
{
	e->dmabuf = make_udmabuf();
	return e->dmabuf < 0 ? e->dmabuf : 0;
}

static int foreign_setup(struct env *e)
{
	int ret = foreign_make(e);

	return ret ? ret : import(e);
}

/* --- another driver takes a DMA-buf */

static int drm_import(struct env *e)
{
	return vgem_import(e->card, e->dmabuf, &e->handle);
}

static int drm_undo(struct env *e)
{
	int ret = vgem_close(e->card, e->handle);

	return ret ? ret : close_dmabuf(e);
}

/* --- sweeps */

FIXTURE(nth)
{
	struct env e;
	bool able;
};

FIXTURE_VARIANT(nth)
{
	step setup, act, undo;
	step unchanged;		/* what the counters do not show, after a failure */
	bool forgets;		/* a failure may come after the change; doing it again is right */
	bool second;		/* needs a second device */
	bool drm;
	bool udmabuf;
	bool quiet;		/* never fails */
};

/* Documented, of those that a fault can lead to. */
static bool errno_known(int ret)
{
	return ret == -ENOMEM || ret == -EFAULT;
}

static int env_make(struct env *e)
{
	int ret;

	*e = (struct env) { .fd = gp_open(0), .card = -1 };
	if (e->fd < 0)
		return e->fd;
	ret = gp_bo_alloc(e->fd, 64 * KIB, &e->bo);
	ret = ret ? ret : gp_vm_create(e->fd, &e->vm);
	ret = ret ? ret : map_from(e, e->vm, MAPS);
	return ret ? ret : stream_open(&e->stream, e->fd, e->vm, 0, 16);
}

FIXTURE_SETUP(nth)
{
	self->able = fail_setup(true) && fail_open();
	if (!self->able)
		SKIP(return, "the kernel cannot be made to fail");
	if (variant->second && dev_count() < 2)
		SKIP(return, "there is no second device");
	ASSERT_TRUE(dev_quiet(10));
	ASSERT_EQ(0, env_make(&self->e));
	if (variant->udmabuf && access("/dev/udmabuf", F_OK))
		SKIP(return, "no udmabuf");
	if (variant->drm)
		self->e.card = vgem_open();
	if (variant->drm && self->e.card < 0)
		SKIP(return, "no module vgem");
}

FIXTURE_TEARDOWN(nth)
{
	if (!self->able)
		return;
	unmap_all();
	close(self->e.fd);
	if (self->e.card >= 0)
		close(self->e.card);
	EXPECT_TRUE(dev_quiet(10));
}

#define OP(name, setup_, act_, undo_, ...)	\
	FIXTURE_VARIANT_ADD(nth, name) {	\
		.setup = setup_, .act = act_, .undo = undo_, ##__VA_ARGS__	\
	}

OP(info, NULL, info, NULL);
OP(stats, NULL, stats, NULL);
OP(device_attach, attach_setup, attach, attach_undo, .unchanged = not_attached, .second = true);
OP(bo_alloc_4k, NULL, alloc_4k, destroy);
OP(bo_alloc_64k, NULL, alloc_64k, destroy);
OP(bo_alloc_2m, NULL, alloc_2m, destroy);
OP(bo_alloc_host, NULL, alloc_host, destroy);
OP(destroy_bo, alloc_64k, destroy, NULL);
OP(destroy_token, token, destroy, NULL);
OP(destroy_vm, vm_full, destroy, NULL);
OP(destroy_stream, stream_create, stream_destroy, stream_timeline_undo);
OP(destroy_timeline, timeline_create, destroy, NULL);
OP(destroy_view, view_setup, destroy, close_dmabuf);
OP(destroy_pin, pinned_setup, destroy, unmap_host);
OP(bo_info, NULL, bo_info, NULL);
OP(bo_retire, token, retire, destroy, .forgets = true);
OP(bo_export, NULL, export, close_dmabuf);
OP(bo_import, export, import, import_undo);
/* Not the import itself: the kernel warns when an exporter's vmap() fails. */
OP(mmap_foreign, foreign_setup, mmap_view, mmap_view_undo, .udmabuf = true);
OP(destroy_foreign, foreign_setup, destroy, close_dmabuf, .udmabuf = true);
OP(token_create, NULL, token, destroy);
OP(token_open, token_setup, token_open, token_undo);
OP(pool_create, NULL, pool_create, destroy);
OP(pool_chunk, pool_setup, alloc_chunk, chunk_undo, .unchanged = chunk_left);
OP(pool_chunk_host, host_pool_setup, alloc_host_chunk, chunk_undo, .unchanged = chunk_left);
OP(destroy_chunk, chunk_setup, destroy, pool_undo);
OP(destroy_pool, pool_create, destroy, NULL);
OP(pool_set, pool_setup, pool_set, pool_undo);
OP(pool_info, pool_setup, pool_info, pool_undo);
OP(pool_export, pool_setup, pool_export, pool_export_undo);
OP(pool_import, pool_exported, pool_import, pool_import_undo);
OP(chunk_open, open_setup, open_chunk, open_undo);
OP(pool_export_fabric, fabric_setup, fabric, channel_undo);
OP(channel_attach, channel_setup, channel, channel_undo, .unchanged = channel_left);
OP(vm_create, NULL, vm_create, destroy);
OP(vm_map, NULL, vm_map, vm_unmap);
OP(vm_unmap, vm_map, vm_unmap, NULL);
OP(vm_unmap_many, NULL, vm_unmap_half, vm_remap_half);
OP(vm_access, NULL, vm_access, vm_access_undo);
OP(stream_create, NULL, stream_create, stream_undo);
OP(stream_doorbell, NULL, doorbell, NULL);
OP(submit, submit_setup, doorbell, submit_undo);
OP(timeline_create, NULL, timeline_create, destroy);
OP(timeline_signal, timeline_create, timeline_signal, destroy, .unchanged = timeline_unchanged);
OP(timeline_poll, timeline_create, timeline_poll, destroy);
OP(timeline_sleep, timeline_create, timeline_sleep, destroy);
OP(event_create, NULL, event_create, event_undo);
OP(event_open, event_create, event_open, event_open_undo);
OP(event_record, event_create, event_record, event_undo, .unchanged = event_complete);
OP(event_get, event_pending, event_get, event_open_undo);
OP(event_query, event_pending, event_query, event_undo);
OP(event_poll, event_got, event_poll, event_open_undo);
OP(destroy_event, event_pending, event_undo, NULL);
OP(destroy_timeline_ref, event_got, destroy, event_undo);
OP(bo_pin, host_touched, pin, host_undo);
OP(bo_pin_untouched, host_setup, pin, host_undo);
OP(bo_pin_rdonly, host_touched, pin_rdonly, host_undo);
OP(open, NULL, client_open, client_close);
OP(close, client_open, client_close, NULL, .quiet = true);
OP(close_full, full_client, client_close, full_undo, .quiet = true);
OP(mmap_bo, NULL, mmap_bo, mmap_undo);
OP(mmap_ring, NULL, mmap_ring, mmap_undo);
OP(mmap_timeline, NULL, mmap_timeline, mmap_undo);
OP(mmap_cache, NULL, mmap_cache, mmap_undo);
OP(mmap_view, view_setup, mmap_view, mmap_view_undo);
OP(mmap_dmabuf, export, mmap_dmabuf, mmap_dmabuf_undo);
OP(touch, mmap_far, touch_all, mmap_undo, .quiet = true);
OP(dmabuf_sync, export, sync_cpu, close_dmabuf);
OP(dmabuf_close, export, close_dmabuf, NULL, .quiet = true);
OP(dmabuf_drm, export, drm_import, drm_undo, .drm = true);
OP(fdinfo, fdinfo_setup, fdinfo, fdinfo_undo);

TEST_F_TIMEOUT(nth, sweep, 240)
{
	unsigned int n, failed = 0;
	struct fail_state before, ready;
	struct env *e = &self->e;
	bool fired = true;
	int ret;

	/* What is made once is made now. */
	ASSERT_EQ(0, variant->setup ? variant->setup(e) : 0);
	ASSERT_EQ(0, variant->act(e));
	ASSERT_EQ(0, variant->undo ? variant->undo(e) : 0);
	nap_ms(20);
	for (n = 1; fired && n < FAIL_MOST; n++) {
		ASSERT_EQ(0, fail_look(&before, e->fd, true));
		ASSERT_EQ(0, variant->setup ? variant->setup(e) : 0);
		ASSERT_EQ(0, fail_look(&ready, e->fd, true));
		fail_arm(n);
		ret = variant->act(e);
		fired = fail_disarm();
		if (ret) {
			failed++;
			ASSERT_TRUE(fired && errno_known(ret)) {
				TH_LOG("errno %d at point %u, which fails: %d", -ret, n, fired);
			}
			ASSERT_TRUE(variant->forgets || fail_same(&ready, e->fd, true, 10)) {
				TH_LOG("changed by errno %d at point %u", -ret, n);
			}
			ASSERT_EQ(0, variant->unchanged ? variant->unchanged(e) : 0) {
				TH_LOG("changed by errno %d at point %u", -ret, n);
			}
			ASSERT_EQ(0, variant->act(e)) {
				TH_LOG("again after errno %d at point %u", -ret, n);
			}
		}
		ASSERT_EQ(0, variant->undo ? variant->undo(e) : 0) {
			TH_LOG("point %u", n);
		}
		ASSERT_TRUE(fail_same(&before, e->fd, true, 10)) {
			TH_LOG("left behind after errno %d at point %u", -ret, n);
		}
	}
	EXPECT_FALSE(fired);
	/* Only what closes has nothing that could fail. */
	EXPECT_TRUE(failed || variant->quiet);
	TH_LOG("%u points, of which %u fail the call", n - 2, failed);
}

/* --- a process that ends while allocations fail */

static int exit_failing(void *arg)
{
	struct env e = { 0 };

	if (!fail_open() || full_client(&e))
		return 1;
	fail_arm(*(unsigned int *)arg);
	return 0;
}

FIXTURE(end)
{
};

FIXTURE_SETUP(end)
{
	if (!fail_setup(true))
		SKIP(return, "the kernel cannot be made to fail");
}

FIXTURE_TEARDOWN(end)
{
}

TEST_F_TIMEOUT(end, exit, 120)
{
	for (unsigned int n = 1; n <= 12; n++) {
		ASSERT_EQ(0, run_child(exit_failing, &n));
		ASSERT_TRUE(dev_quiet(10)) {
			TH_LOG("point %u", n);
		}
	}
}

/* --- a storm: whatever the module allocates fails at times, also in workers */

static const struct {
	step setup, act, undo;
} storm_ops[] = {
	{ NULL, alloc_4k, destroy }, { NULL, alloc_64k, destroy }, { NULL, alloc_2m, destroy },
	{ NULL, alloc_host, destroy }, { export, import, import_undo },
	{ token_setup, token_open, token_undo }, { token, retire, destroy },
	{ vm_full, destroy, NULL }, { NULL, vm_map, vm_unmap },
	{ pool_setup, alloc_chunk, chunk_undo }, { open_setup, open_chunk, open_undo },
	{ pool_exported, pool_import, pool_import_undo },
	{ NULL, vm_unmap_half, vm_remap_half }, { NULL, stream_create, stream_undo },
	{ submit_setup, doorbell, submit_undo }, { NULL, timeline_sleep, NULL },
	{ host_touched, pin, host_undo }, { host_setup, pin_rdonly, host_undo },
	{ NULL, event_create, event_undo }, { event_create, event_open, event_open_undo },
	{ event_pending, event_get, event_open_undo }, { event_got, destroy, event_undo },
	{ NULL, mmap_bo, mmap_undo }, { view_setup, mmap_view, mmap_view_undo },
	{ full_client, client_close, full_undo }, { export, mmap_dmabuf, mmap_dmabuf_undo },
};

struct storm {
	struct rng rng;
	unsigned int steps, acts, failed, strange;
};

static void storm_switch(bool on)
{
	const char *percent = on ? "5" : "0";

	fail_write("failslab", "probability", percent);
	fail_write("fail_page_alloc", "probability", percent);
	fail_write("fail_usercopy", "probability", on ? "1" : "0");
}

/* Set up and undo fail, too, and then something stays: it all goes with the process. */
static int storm_child(void *arg)
{
	const unsigned int n = sizeof(storm_ops) / sizeof(storm_ops[0]);
	struct storm *s = arg;
	struct env e;

	if (env_make(&e))
		return 1;
	storm_switch(true);
	for (unsigned int i = 0; i < s->steps; i++) {
		unsigned int op = rng_below(&s->rng, n);
		int ret;

		e.id = e.id2 = 0;
		if (storm_ops[op].setup && storm_ops[op].setup(&e))
			continue;
		ret = storm_ops[op].act(&e);
		s->acts++;
		s->failed += ret < 0;
		/* Ranges that an earlier step left behind are occupied, or not there. */
		if (ret && !errno_known(ret) && ret != -EEXIST && ret != -ENOENT &&
		    ret != -EBADMSG) {
			fprintf(stderr, "# operation %u: errno %d\n", op, -ret);
			s->strange++;
		}
		if (!ret && storm_ops[op].undo)
			storm_ops[op].undo(&e);
	}
	return 0;
}

TEST_F_TIMEOUT(end, storm, 240)
{
	struct storm *s = mmap(NULL, page_size, PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	__u64 from, to;
	char text[32];
	__u32 id;
	int fd;

	ASSERT_NE(MAP_FAILED, (void *)s);
	ASSERT_TRUE(fail_text(NULL, "gpumem", &from, &to));
	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)from);
	fail_knob("require-start", text);
	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)to);
	fail_knob("require-end", text);
	fail_knob("stacktrace-depth", "32");
	rng_start(&s->rng, "storm");
	s->steps = env_number("GPUMEM_STEPS", 300);
	EXPECT_EQ(0, run_child(storm_child, s));
	/* Workers clean up after the process in the storm, too. */
	EXPECT_TRUE(dev_quiet(20));
	storm_switch(false);
	ASSERT_TRUE(fail_setup(true));
	TH_LOG("%u operations, of which %u failed", s->acts, s->failed);
	EXPECT_EQ(0, s->strange);
	EXPECT_LT(0, s->failed);
	EXPECT_TRUE(dev_quiet(10));
	fd = gp_open(0);
	ASSERT_LE(0, fd);
	EXPECT_EQ(0, gp_bo_alloc(fd, 64 * KIB, &id));
	close(fd);
	EXPECT_TRUE(dev_quiet(10));
}

/* --- last: what was forgotten on the way */

FIXTURE(leaks)
{
};

FIXTURE_SETUP(leaks)
{
}

FIXTURE_TEARDOWN(leaks)
{
}

TEST_F_TIMEOUT(leaks, none, 120)
{
	int leaks = fail_leaks();

	if (leaks < 0)
		SKIP(return, "the kernel does not look for lost objects");
	EXPECT_EQ(0, leaks);
}

TEST_HARNESS_MAIN
