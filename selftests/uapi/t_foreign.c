// SPDX-License-Identifier: GPL-2.0
/*
 * DMA-bufs of other drivers as buffer objects: their attributes, access by streams in order with
 * the fences of other users, and that nothing is left of them whichever side ends first. vgem is a
 * second importer of each DMA-buf; its fences stay unsignalled until the test signals them.
 */
#include <linux/dma-buf.h>
#include <pthread.h>
#include <signal.h>

#include "kselftest_harness.h"
#include "common/exporters.h"
#include "share_util.h"
#include "common/stream_fixture.h"

#define F	ADDR			/* the foreign buffer, a MiB */
#define A	(ADDR + 16 * MIB)	/* memory of the device */

FIXTURE(foreign)
{
	struct leak_state leak;
	int fd, dmabuf, card;
	bool heap;
	__u32 vm, bo, handle, fence;
	struct gpumem_bo_import import;
	unsigned char *p, *q;		/* of the device, and the exporter's mapping */
	struct stream s, other;
};

FIXTURE_VARIANT(foreign)
{
	int (*make)(void);
	const char *what;
};

FIXTURE_VARIANT_ADD(foreign, udmabuf) { make_udmabuf, "udmabuf" };
FIXTURE_VARIANT_ADD(foreign, dma_heap) { make_heap, "DMA-buf heap" };
FIXTURE_VARIANT_ADD(foreign, vgem) { make_vgem, "vgem" };
FIXTURE_VARIANT_ADD(foreign, v4l2) { make_v4l2, "vivid" };

FIXTURE_SETUP(foreign)
{
	ASSERT_TRUE(dev_quiet(10));
	self->card = -1;
	self->heap = variant->make == make_heap;
	self->dmabuf = variant->make();
	if (self->dmabuf == -ENOENT)
		SKIP(return, "no %s", variant->what);
	ASSERT_LE(0, self->dmabuf);
	leak_begin(&self->leak);
	self->fd = gp_open(0);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, gp_bo_import(self->fd, self->dmabuf, &self->import));
	self->p = gp_alloc_map(self->fd, BYTES, &self->bo);
	ASSERT_NE(NULL, self->p);
	self->q = mmap(NULL, MIB, RW, MAP_SHARED, self->dmabuf, 0);
	ASSERT_NE(MAP_FAILED, self->q);
	ASSERT_EQ(0, gp_vm_create(self->fd, &self->vm));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->import.id, 0, F, MIB, 1, 1));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo, 0, A, BYTES, 1, 1));
	ASSERT_EQ(0, stream_open(&self->s, self->fd, self->vm, 0, 64));
	ASSERT_EQ(0, stream_open(&self->other, self->fd, self->vm, 0, 64));
	for (size_t i = 0; i < BYTES; i++)
		self->p[i] = i + i / 4096;
	memset(self->q, 77, MIB);
}

FIXTURE_TEARDOWN(foreign)
{
	if (self->dmabuf < 0)
		return;
	munmap(self->q, MIB);
	unmap_all();
	close(self->dmabuf);
	close(self->fd);
	if (self->card >= 0) {
		EXPECT_EQ(0, vgem_close(self->card, self->handle));
		close(self->card);
	}
	EXPECT_TRUE(dev_quiet(10));
	EXPECT_TRUE(leak_end(&self->leak));
}

/*
 * vgem imports the buffer as well; false if there is no vgem. vgem allows segments of 64 KiB and
 * heaps make longer ones.  The kernel's DMA debugging reports that, so on a kernel that has it vgem
 * does not import the buffer of a heap.
 */
static bool vgem_joins(FIXTURE_DATA(foreign) *self)
{
	if (self->heap && !access("/sys/kernel/debug/dma-api", F_OK))
		return false;
	self->card = vgem_open();
	if (self->card < 0)
		return false;
	if (!vgem_import(self->card, self->dmabuf, &self->handle))
		return true;
	close(self->card);
	self->card = -1;
	return false;
}

TEST_F(foreign, what_it_is)
{
	struct gpumem_bo_info info;
	struct gpumem_stats stats;
	__u8 name[GPUMEM_TOKEN_SIZE];
	__u32 id;

	EXPECT_EQ(MIB, self->import.length);
	EXPECT_EQ(0, self->import.device);
	ASSERT_EQ(0, gp_bo_info(self->fd, self->import.id, &info));
	EXPECT_EQ(GPUMEM_BO_FOREIGN, info.kind);
	EXPECT_EQ(MIB, info.length);
	EXPECT_EQ(0, info.exports);
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(1, stats.imports);
	EXPECT_EQ(MIB, stats.import_bytes);
	EXPECT_EQ(1, stats.bos);
	EXPECT_EQ(0, stats.views);
	EXPECT_EQ(1, dev_attr(0, "imports"));
	/* The import uses no memory of the device.  */
	EXPECT_EQ(BYTES, (__u64)dev_attr(0, "used"));

	EXPECT_EQ(-EOPNOTSUPP, gp_bo_export(self->fd, self->import.id, 0, MIB, 0));
	EXPECT_EQ(-EINVAL, gp_bo_retire(self->fd, self->import.id, 0, MIB, 0, &id));
	EXPECT_EQ(-EINVAL, gp_token_create(self->fd, self->import.id, 0, MIB, 0, &id, name));
	EXPECT_EQ(-EOVERFLOW, gp_vm_map(self->fd, self->vm, self->import.id, 0, 2 * ADDR,
					2 * MIB, 1, 1));
	EXPECT_EQ(-EINVAL, gp_vm_map(self->fd, self->vm, self->import.id, 1, 2 * ADDR, page_size,
				     1, 1));

	/* The mapping in the address space keeps it. */
	EXPECT_EQ(0, gp_destroy(self->fd, self->import.id));
	EXPECT_EQ(1, dev_attr(0, "imports"));
	EXPECT_EQ(0, gp_vm_unmap(self->fd, self->vm, F, MIB, &stats.objects));
	EXPECT_TRUE(dev_attr_becomes(0, "imports", 0, 5));
}

/* A client may import the buffer twice, and its streams may copy from the buffer to itself.  */
TEST_F(foreign, twice)
{
	struct gpumem_bo_import again;

	ASSERT_EQ(0, gp_bo_import(self->fd, self->dmabuf, &again));
	EXPECT_NE(self->import.id, again.id);
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, again.id, 0, F + MIB, MIB, 1, 1));
	for (size_t i = 0; i < MIB / 2; i++)
		self->q[i] = i * 7;
	PUSH(&self->s, sqe_copy(F + MIB + MIB / 2, F, MIB / 2));
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(0, memcmp(self->q, self->q + MIB / 2, MIB / 2));
	/* Across the boundary of the two mappings.  */
	PUSH(&self->s, sqe_fill(F + MIB - 4096, 1, 5, 8192));
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(5, self->q[0]);
	EXPECT_EQ(5, self->q[4095]);
	EXPECT_EQ(5, self->q[MIB - 4096]);
	EXPECT_EQ(0, gp_destroy(self->fd, again.id));
}

TEST_F(foreign, streams)
{
	unsigned char *m;

	/* The import does not need the exporter's descriptor. */
	close(self->dmabuf);
	PUSH(&self->s, sqe_copy(F, A, MIB));
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(0, memcmp(self->p, self->q, MIB));
	PUSH(&self->s, sqe_fill(F + 4096, 4, 0x01020304, 2048));
	PUSH(&self->s, sqe_copy(A + MIB, F, MIB));
	PUSH(&self->s, sqe_copy2d(A, 8192, F, 4096, 4096, 16));
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(0, memcmp(self->p + MIB, self->q, MIB));
	EXPECT_EQ(0x04, self->q[4096]);
	EXPECT_EQ(0x01, self->q[4096 + 8191]);
	EXPECT_EQ(0, memcmp(self->p + 5 * 8192, self->q + 5 * 4096, 4096));
	/* GPUMEM_OP_POLL works on a word of the buffer, too.  */
	*(volatile __u32 *)self->q = 0;
	PUSH(&self->s, sqe_poll(F, 4, GPUMEM_POLL_EQ, 9));
	EXPECT_TRUE(stands_still(&self->s, &self->other, 4));
	__atomic_store_n((__u32 *)self->q, 9, __ATOMIC_RELEASE);
	EXPECT_EQ(0, stream_sync(&self->s));

	/* A mapping by the client's node shows the bytes that the exporter's mapping shows.  */
	m = gp_map(self->fd, self->import.id, 0, MIB / 2, RW);
	ASSERT_NE(NULL, m);
	EXPECT_EQ(0, memcmp(m, self->q, MIB / 2));
	m[MIB / 2 - 7] = 123;
	EXPECT_EQ(123, self->q[MIB / 2 - 7]);
	/* vgem's mmap() ignores the offset and would show the first page here.  */
	EXPECT_EQ(-EINVAL, gp_map_errno(self->fd, self->import.id, page_size, page_size, RW,
					MAP_SHARED));
	EXPECT_EQ(-EINVAL, gp_map_errno(self->fd, self->import.id, 0, 2 * MIB, RW, MAP_SHARED));
	EXPECT_EQ(-EINVAL, gp_map_errno(self->fd, self->import.id, 0, MIB, RW, MAP_PRIVATE));
	self->dmabuf = dup(self->fd);	/* for the teardown */
}

/* A mapping keeps the memory after the client is closed.  */
TEST_F(foreign, mapping_outlives_the_client)
{
	int fd = gp_open(0);
	struct gpumem_bo_import import;
	unsigned char *m;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, gp_bo_import(fd, self->dmabuf, &import));
	m = mmap(NULL, MIB, RW, MAP_SHARED, fd, GPUMEM_MMAP_OFFSET(import.id));
	ASSERT_NE(MAP_FAILED, m);
	close(fd);
	m[3] = 44;
	EXPECT_EQ(44, self->q[3]);
	munmap(m, MIB);
}

TEST_F(foreign, fences_of_others)
{
	if (!vgem_joins(self))
		SKIP(return, "vgem is not there, or cannot join");
	/* A writer waits for a reader, a reader only for a writer. */
	ASSERT_EQ(0, vgem_attach(self->card, self->handle, false, &self->fence));
	PUSH(&self->other, sqe_copy(A, F, 4096));
	EXPECT_EQ(0, stream_sync(&self->other));
	EXPECT_EQ(77, self->p[0]);
	PUSH(&self->s, sqe_fill(F, 1, 1, MIB));
	EXPECT_TRUE(stands_still(&self->s, &self->other, 0));
	EXPECT_EQ(77, self->q[0]);
	ASSERT_EQ(0, vgem_signal(self->card, self->fence));
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(1, self->q[0]);
	EXPECT_EQ(1, self->q[MIB - 1]);
	EXPECT_TRUE(settles(self->dmabuf));

	ASSERT_EQ(0, vgem_attach(self->card, self->handle, true, &self->fence));
	memset(self->q, 2, MIB);
	PUSH(&self->s, sqe_copy(A, F, MIB));
	EXPECT_TRUE(stands_still(&self->s, &self->other, 1));
	ASSERT_EQ(0, vgem_signal(self->card, self->fence));
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(2, self->p[MIB - 1]);
}

/*
 * The entry waits for a fence on a buffer of this module; meanwhile its own fence is on both
 * buffers.
 */
TEST_F(foreign, fence_for_others)
{
	__u32 ours = 0, more = 0;
	int dmabuf = gp_bo_export(self->fd, self->bo, 0, BYTES, 0);

	ASSERT_LE(0, dmabuf);
	if (!vgem_joins(self)) {
		close(dmabuf);
		SKIP(return, "vgem is not there, or cannot join");
	}
	ASSERT_EQ(0, vgem_import(self->card, dmabuf, &ours));
	ASSERT_EQ(0, vgem_attach(self->card, ours, true, &more));
	EXPECT_EQ(POLLIN | POLLOUT, ready(self->dmabuf));
	PUSH(&self->s, sqe_copy(F, A, MIB));
	EXPECT_TRUE(stands_still(&self->s, &self->other, 0));
	EXPECT_EQ(0, ready(self->dmabuf));
	ASSERT_EQ(0, vgem_signal(self->card, more));
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(0, memcmp(self->p, self->q, MIB));
	EXPECT_EQ(POLLIN | POLLOUT, ready(self->dmabuf));

	ASSERT_EQ(0, vgem_attach(self->card, ours, true, &more));
	PUSH(&self->s, sqe_copy(A, F, MIB));
	EXPECT_TRUE(stands_still(&self->s, &self->other, 1));
	EXPECT_EQ(POLLIN, ready(self->dmabuf));
	ASSERT_EQ(0, vgem_signal(self->card, more));
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(0, vgem_close(self->card, ours));
	close(dmabuf);
}

TEST_F(foreign, killed_meanwhile)
{
	struct victim v = { .dmabuf = self->dmabuf, .bytes = MIB };
	int pid;

	if (!vgem_joins(self))
		SKIP(return, "vgem is not there, or cannot join");
	ASSERT_EQ(0, vgem_attach(self->card, self->handle, false, &self->fence));
	pid = start_ready_child(dies_waiting, &v, &v.to);
	ASSERT_LT(0, pid);
	EXPECT_TRUE(stands_still(&self->s, &self->other, 0));
	EXPECT_EQ(-SIGKILL, kill_child(pid));
	/* The end of the killed client does not wait for vgem.  */
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 1, 5));
	EXPECT_TRUE(dev_attr_becomes(0, "imports", 1, 5));
	EXPECT_EQ(POLLIN, ready(self->dmabuf));
	ASSERT_EQ(0, vgem_signal(self->card, self->fence));
	EXPECT_EQ(POLLIN | POLLOUT, ready(self->dmabuf));
	EXPECT_EQ(77, self->q[0]);
}

/*
 * The id and the mapping are destroyed while an entry waits: the entry fails, and everything is
 * released.
 */
TEST_F(foreign, destroyed_meanwhile)
{
	__u64 unmapped;

	if (!vgem_joins(self))
		SKIP(return, "vgem is not there, or cannot join");
	ASSERT_EQ(0, vgem_attach(self->card, self->handle, true, &self->fence));
	PUSH(&self->s, sqe_copy(A, F, MIB));
	EXPECT_TRUE(stands_still(&self->s, &self->other, 0));
	EXPECT_EQ(0, gp_destroy(self->fd, self->import.id));
	EXPECT_EQ(0, gp_vm_unmap(self->fd, self->vm, F, MIB, &unmapped));
	EXPECT_EQ(1, dev_attr(0, "imports"));
	ASSERT_EQ(0, vgem_signal(self->card, self->fence));
	EXPECT_EQ(-EIO, stream_sync(&self->s));
	EXPECT_EQ(EFAULT, self->s.page->error);
	EXPECT_TRUE(dev_attr_becomes(0, "imports", 0, 5));
}

struct racer {
	int card;
	__u32 handle;
	bool stop;
};

static void *leaves_fences(void *arg)
{
	struct racer *r = arg;
	__u32 fence = 0;

	while (!__atomic_load_n(&r->stop, __ATOMIC_RELAXED))
		if (!vgem_attach(r->card, r->handle, true, &fence))
			vgem_signal(r->card, fence);
	return NULL;
}

/* Other users attach and signal fences while two streams prepare their access.  */
TEST_F(foreign, fences_all_the_time)
{
	struct racer r = { .stop = false };
	pthread_t thread;

	if (!vgem_joins(self))
		SKIP(return, "vgem is not there, or cannot join");
	r.card = self->card;
	r.handle = self->handle;
	ASSERT_EQ(0, pthread_create(&thread, NULL, leaves_fences, &r));
	for (int i = 0; i < 20; i++) {
		PUSH(&self->s, sqe_fill(F, 1, i, MIB / 2));
		PUSH(&self->other, sqe_fill(F + MIB / 2, 1, i, MIB / 2));
		EXPECT_EQ(0, stream_sync(&self->s));
		EXPECT_EQ(0, stream_sync(&self->other));
		EXPECT_EQ(i, self->q[0]);
		EXPECT_EQ(i, self->q[MIB - 1]);
	}
	__atomic_store_n(&r.stop, true, __ATOMIC_RELAXED);
	EXPECT_EQ(0, pthread_join(thread, NULL));
}

/*
 * A stream reads frames from a camera's buffer, and a mapping by the camera's node shows what a
 * stream writes there.
 */
TEST(camera)
{
	enum { BUFFERS = 3 };
	int video = vivid_open(), fd, dmabuf, bytes;
	struct gpumem_bo_import import;
	unsigned char *p, *frame;
	struct stream s;
	__u32 bo, vm;

	if (video < 0)
		SKIP(return, "no vivid");
	ASSERT_TRUE(dev_quiet(10));
	fd = gp_open(0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, vivid_buffers(video, BUFFERS));
	dmabuf = vivid_export(video, 0);
	ASSERT_LE(0, dmabuf);
	frame = vivid_map(video, 0);
	ASSERT_NE(NULL, frame);
	ASSERT_EQ(0, gp_bo_import(fd, dmabuf, &import));
	ASSERT_EQ(MIB, import.length);
	p = gp_alloc_map(fd, 2 * MIB, &bo);
	ASSERT_NE(NULL, p);
	ASSERT_EQ(0, gp_vm_create(fd, &vm));
	ASSERT_EQ(0, gp_vm_map(fd, vm, import.id, 0, F, MIB, 1, 1));
	ASSERT_EQ(0, gp_vm_map(fd, vm, bo, 0, A, 2 * MIB, 1, 1));
	ASSERT_EQ(0, stream_open(&s, fd, vm, 0, 16));
	close(dmabuf);

	for (int i = 1; i <= 2; i++) {
		PUSH(&s, sqe_fill(F, 1, 0x80 + i, MIB));
		ASSERT_EQ(0, stream_sync(&s));
		EXPECT_EQ(0x80 + i, frame[0]);
		EXPECT_EQ(0x80 + i, frame[MIB - 1]);
		bytes = vivid_capture(video, BUFFERS);
		ASSERT_LT(4096, bytes);
		ASSERT_GT((int)MIB, bytes);
		PUSH(&s, sqe_copy(A, F, MIB));
		ASSERT_EQ(0, stream_sync(&s));
		EXPECT_EQ(0, memcmp(p, frame, MIB));
		/* The frame is not uniform, and the bytes behind it are unchanged.  */
		EXPECT_NE(0, memcmp(p, p + 1, bytes - 1));
		EXPECT_EQ(0x80 + i, p[bytes]);
		EXPECT_EQ(0x80 + i, p[MIB - 1]);
	}
	/* The buffer keeps the frame after the camera's node is closed.  */
	munmap(frame, MIB);
	close(video);
	PUSH(&s, sqe_copy(A + MIB, F, MIB));
	EXPECT_EQ(0, stream_sync(&s));
	EXPECT_EQ(0, memcmp(p, p + MIB, MIB));
	unmap_all();
	close(fd);
	EXPECT_TRUE(dev_quiet(10));
}

TEST(read_only)
{
	int dmabuf = make_heap_flags(O_RDONLY), fd = gp_open(0);
	struct gpumem_bo_import import;

	ASSERT_LE(0, fd);
	if (dmabuf == -ENOENT) {
		close(fd);
		SKIP(return, "no DMA-buf heap");
	}
	ASSERT_LE(0, dmabuf);
	EXPECT_EQ(-EACCES, gp_bo_import(fd, dmabuf, &import));
	EXPECT_EQ(-EBADF, gp_bo_import(fd, -1, &import));
	EXPECT_EQ(-EINVAL, gp_bo_import(fd, fd, &import));
	close(dmabuf);
	close(fd);
	EXPECT_TRUE(dev_quiet(10));
}

TEST_HARNESS_MAIN
