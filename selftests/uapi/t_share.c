// SPDX-License-Identifier: GPL-2.0
/*
 * Engine work on buffers that other drivers use: an entry waits for their fences and attaches a
 * fence of its own, but only when the stream's waits for timelines and words are done. vgem is the
 * other driver; its fences stay unsignalled until the test signals them.
 */
#include <linux/dma-buf.h>
#include <linux/sync_file.h>
#include <glob.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "common/limits_util.h"
#include "common/client_fixture.h"
#include "common/stream_fixture.h"
#include "share_util.h"
#include "common/vgem.h"

#define A	ADDR			/* the first bo, which vgem imports */
#define B	(ADDR + 16 * MIB)	/* the second, with a DMA-buf that is not imported */
#define C	(ADDR + 32 * MIB)	/* the third, without */

FIXTURE(share)
{
	struct leak_state leak;
	int card, fd, a_fd, b_fd;
	__u32 vm, bo[3], handle, fence;
	unsigned char *p[3];
	struct stream s, other;
};

FIXTURE_SETUP(share)
{
	ASSERT_TRUE(dev_quiet(10));
	self->card = vgem_open();
	if (self->card < 0)
		SKIP(return, "no module vgem");
	leak_begin(&self->leak);
	self->fd = gp_open(0);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, gp_vm_create(self->fd, &self->vm));
	for (int i = 0; i < 3; i++) {
		self->p[i] = gp_alloc_map(self->fd, BYTES, &self->bo[i]);
		ASSERT_NE(NULL, self->p[i]);
		ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo[i], 0, ADDR + i * 16 * MIB,
				       BYTES, 1, 1));
		memset(self->p[i], 10 + i, BYTES);
	}
	ASSERT_EQ(0, stream_open(&self->s, self->fd, self->vm, 0, 64));
	ASSERT_EQ(0, stream_open(&self->other, self->fd, self->vm, 0, 64));
	self->a_fd = gp_bo_export(self->fd, self->bo[0], 0, BYTES, 0);
	self->b_fd = gp_bo_export(self->fd, self->bo[1], 0, BYTES, 0);
	ASSERT_LE(0, self->a_fd);
	ASSERT_LE(0, self->b_fd);
	ASSERT_EQ(0, vgem_import(self->card, self->a_fd, &self->handle));
}

FIXTURE_TEARDOWN(share)
{
	if (self->card < 0)
		return;
	if (self->handle)
		EXPECT_EQ(0, vgem_close(self->card, self->handle));
	close(self->a_fd);
	close(self->b_fd);
	close(self->card);
	client_end(_metadata, &self->leak, self->fd, 10);
}

TEST_F(share, writer_waits_for_a_reader)
{
	ASSERT_EQ(0, vgem_attach(self->card, self->handle, false, &self->fence));
	PUSH(&self->s, sqe_fill(A, 1, 77, BYTES));
	EXPECT_TRUE(stands_still(&self->s, &self->other, 0));
	EXPECT_EQ(10, self->p[0][0]);
	ASSERT_EQ(0, vgem_signal(self->card, self->fence));
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(77, self->p[0][0]);
	EXPECT_EQ(77, self->p[0][BYTES - 1]);
}

TEST_F(share, reader_waits_for_a_writer_alone)
{
	ASSERT_EQ(0, vgem_attach(self->card, self->handle, false, &self->fence));
	PUSH(&self->s, sqe_copy(C, A, BYTES));
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(10, self->p[2][BYTES - 1]);
	ASSERT_EQ(0, vgem_signal(self->card, self->fence));

	ASSERT_EQ(0, vgem_attach(self->card, self->handle, true, &self->fence));
	memset(self->p[0], 99, BYTES);
	PUSH(&self->s, sqe_copy(C, A, BYTES));
	EXPECT_TRUE(stands_still(&self->s, &self->other, 1));
	ASSERT_EQ(0, vgem_signal(self->card, self->fence));
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(99, self->p[2][BYTES - 1]);
}

/* A copy row by row waits for two fences, a timestamp for one.  */
TEST_F(share, every_kind_of_entry)
{
	__u32 more[2] = { 0 };

	ASSERT_EQ(0, vgem_attach(self->card, self->handle, false, &self->fence));
	ASSERT_EQ(0, vgem_import(self->card, self->b_fd, &more[0]));
	ASSERT_EQ(0, vgem_attach(self->card, more[0], true, &more[1]));
	PUSH(&self->s, sqe_copy2d(A, 8192, B, 8192, 4096, 256));
	EXPECT_TRUE(stands_still(&self->s, &self->other, 0));
	ASSERT_EQ(0, vgem_signal(self->card, self->fence));
	EXPECT_TRUE(stands_still(&self->s, &self->other, 0));
	ASSERT_EQ(0, vgem_signal(self->card, more[1]));
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(11, self->p[0][0]);
	EXPECT_EQ(10, self->p[0][4096]);
	EXPECT_EQ(11, self->p[0][255 * 8192 + 4095]);

	ASSERT_EQ(0, vgem_attach(self->card, self->handle, false, &self->fence));
	memset(self->p[0], 0, 8);
	PUSH(&self->s, sqe_timestamp(A));
	EXPECT_TRUE(stands_still(&self->s, &self->other, 1));
	EXPECT_EQ(0, *(__u64 *)self->p[0]);
	ASSERT_EQ(0, vgem_signal(self->card, self->fence));
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_NE(0, *(__u64 *)self->p[0]);
	EXPECT_EQ(0, vgem_close(self->card, more[0]));
}

/* The entry's fence is on the DMA-bufs that it writes and reads, from its beginning to its end.  */
TEST_F(share, others_see_ours)
{
	EXPECT_EQ(POLLIN | POLLOUT, ready(self->b_fd));
	ASSERT_EQ(0, vgem_attach(self->card, self->handle, true, &self->fence));
	PUSH(&self->s, sqe_copy(B, A, BYTES));
	EXPECT_TRUE(stands_still(&self->s, &self->other, 0));
	EXPECT_TRUE(becomes_busy(self->b_fd));
	ASSERT_EQ(0, vgem_signal(self->card, self->fence));
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(POLLIN | POLLOUT, ready(self->b_fd));
	EXPECT_EQ(POLLIN | POLLOUT, ready(self->a_fd));
	EXPECT_EQ(10, self->p[1][0]);

	/* The fence of an entry that reads a buffer does not make other readers wait.  */
	ASSERT_EQ(0, vgem_attach(self->card, self->handle, false, &self->fence));
	PUSH(&self->s, sqe_copy(A, B, BYTES));
	EXPECT_TRUE(stands_still(&self->s, &self->other, 1));
	for (int i = 0; i < 1000 && ready(self->b_fd) != POLLIN; i++)
		nap_ms(10);
	EXPECT_EQ(POLLIN, ready(self->b_fd));
	ASSERT_EQ(0, vgem_signal(self->card, self->fence));
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(POLLIN | POLLOUT, ready(self->b_fd));
}

/* An entry behind a wait that the program controls has no fence, as the wait might never end.  */
TEST_F(share, no_fence_before_what_users_control)
{
	__u32 clock;

	ASSERT_EQ(0, gp_timeline_create(self->fd, 0, &clock));
	PUSH(&self->s, sqe_wait(clock, 1));
	PUSH(&self->s, sqe_fill(B, 1, 5, BYTES));
	memset(self->p[2], 0, 8);
	PUSH(&self->s, sqe_poll(C, 4, GPUMEM_POLL_EQ, 1));
	PUSH(&self->s, sqe_fill(B, 1, 6, BYTES));
	EXPECT_TRUE(stands_still(&self->s, &self->other, 0));
	EXPECT_EQ(POLLIN | POLLOUT, ready(self->b_fd));
	ASSERT_EQ(0, gp_timeline_signal(self->fd, clock, 1));
	EXPECT_EQ(0, stream_wait(&self->s, 2, 10));
	EXPECT_EQ(POLLIN | POLLOUT, ready(self->b_fd));
	EXPECT_EQ(5, self->p[1][0]);
	__atomic_store_n((__u32 *)self->p[2], 1, __ATOMIC_RELEASE);
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(6, self->p[1][0]);
}

/* CUDA's streams have only the order that the program requests.  */
TEST_F(share, streams_do_not_wait_for_each_other)
{
	ASSERT_EQ(0, vgem_attach(self->card, self->handle, true, &self->fence));
	PUSH(&self->s, sqe_copy(B, A, BYTES));
	EXPECT_TRUE(stands_still(&self->s, &self->other, 0));
	PUSH(&self->other, sqe_fill(B, 1, 3, BYTES));
	EXPECT_EQ(0, stream_sync(&self->other));
	EXPECT_EQ(3, self->p[1][0]);
	EXPECT_EQ(0, self->s.page->value);
	ASSERT_EQ(0, vgem_signal(self->card, self->fence));
	EXPECT_EQ(0, stream_sync(&self->s));
}

/* The mapping is unmapped while the entry waits: the entry fails, and no fence is left.  */
TEST_F(share, unmapped_meanwhile)
{
	__u64 unmapped;

	ASSERT_EQ(0, vgem_attach(self->card, self->handle, true, &self->fence));
	PUSH(&self->s, sqe_copy(B, A, BYTES));
	EXPECT_TRUE(stands_still(&self->s, &self->other, 0));
	ASSERT_EQ(0, gp_vm_unmap(self->fd, self->vm, A, BYTES, &unmapped));
	EXPECT_EQ(BYTES, unmapped);
	ASSERT_EQ(0, vgem_signal(self->card, self->fence));
	EXPECT_EQ(-EIO, stream_sync(&self->s));
	EXPECT_EQ(EFAULT, self->s.page->error);
	EXPECT_EQ(POLLIN | POLLOUT, ready(self->b_fd));
	EXPECT_EQ(11, self->p[1][0]);
}

/* The stream's id is destroyed while its entry waits: the entry is executed nevertheless.  */
TEST_F(share, destroyed_meanwhile)
{
	ASSERT_EQ(0, vgem_attach(self->card, self->handle, true, &self->fence));
	PUSH(&self->s, sqe_copy(B, A, BYTES));
	EXPECT_TRUE(stands_still(&self->s, &self->other, 0));
	ASSERT_EQ(0, gp_destroy(self->fd, self->s.id));
	EXPECT_TRUE(becomes_busy(self->b_fd));
	ASSERT_EQ(0, vgem_signal(self->card, self->fence));
	EXPECT_TRUE(settles(self->b_fd));
	EXPECT_EQ(10, self->p[1][BYTES - 1]);
}

TEST_F(share, killed_meanwhile)
{
	struct dma_buf_export_sync_file sync = { .flags = DMA_BUF_SYNC_READ };
	struct sync_file_info info = { .num_fences = 0 };
	struct victim v = { .dmabuf = self->a_fd, .bytes = BYTES };
	int pid;

	ASSERT_EQ(0, vgem_attach(self->card, self->handle, false, &self->fence));
	pid = start_ready_child(dies_waiting, &v, &v.to);
	ASSERT_LT(0, pid);
	EXPECT_TRUE(stands_still(&self->s, &self->other, 0));
	/*
	 * The client's fence is that of a writer, so readers wait, too; it waits for vgem's fence.
	 */
	EXPECT_TRUE(becomes_busy(self->a_fd));
	ASSERT_EQ(0, ioctl(self->a_fd, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &sync));
	EXPECT_EQ(-SIGKILL, kill_child(pid));
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 1, 10));
	/* The fence outlives the client; its holder gets the error.  */
	EXPECT_EQ(0, ioctl(sync.fd, SYNC_IOC_FILE_INFO, &info));
	EXPECT_EQ(-ECANCELED, info.status);
	close(sync.fd);
	/* vgem's fence of a reader is still unsignalled.  */
	EXPECT_EQ(POLLIN, ready(self->a_fd));
	ASSERT_EQ(0, vgem_signal(self->card, self->fence));
	EXPECT_EQ(POLLIN | POLLOUT, ready(self->a_fd));
	EXPECT_EQ(10, self->p[0][0]);
}

/* An entry's first portion touches memory that is not shared, its second memory that vgem has. */
TEST_F(share, later_portion)
{
	enum { FIRST = 16 };
	__u64 at = ADDR + 128 * MIB;

	for (unsigned int i = 0; i < FIRST; i++)
		ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo[2], 0, at + i * BYTES, BYTES, 1, 1));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo[0], 0, at + FIRST * BYTES, BYTES, 1, 1));
	ASSERT_EQ(0, vgem_attach(self->card, self->handle, false, &self->fence));
	PUSH(&self->s, sqe_fill(at, 1, 77, (FIRST + 1) * BYTES));
	EXPECT_TRUE(becomes_busy(self->a_fd));
	EXPECT_TRUE(stands_still(&self->s, &self->other, 0));
	EXPECT_EQ(77, self->p[2][BYTES - 1]);
	EXPECT_EQ(10, self->p[0][0]);
	ASSERT_EQ(0, vgem_signal(self->card, self->fence));
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(77, self->p[0][BYTES - 1]);

	/* The same by rows: the last row is in vgem's memory.  */
	ASSERT_EQ(0, vgem_attach(self->card, self->handle, false, &self->fence));
	PUSH(&self->s, sqe_fill2d(at, BYTES, 1, 66, BYTES, FIRST + 1));
	EXPECT_TRUE(becomes_busy(self->a_fd));
	EXPECT_TRUE(stands_still(&self->s, &self->other, 1));
	EXPECT_EQ(77, self->p[0][0]);
	ASSERT_EQ(0, vgem_signal(self->card, self->fence));
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(66, self->p[0][BYTES - 1]);
	EXPECT_EQ(66, self->p[2][0]);
}

/* --- a portion that is overdue */

/*
 * Removes the device coredumps of gpumem devices, and stores the last one in @text.  Returns their
 * number.
 */
static int take_coredumps(char *text, size_t size)
{
	char dump[1024];
	int n = 0;
	glob_t g;

	if (glob("/sys/class/devcoredump/*/data", 0, NULL, &g))
		return 0;
	for (size_t i = 0; i < g.gl_pathc; i++) {
		if (!read_text(g.gl_pathv[i], dump, sizeof(dump)) || strncmp(dump, "gpumem:", 7))
			continue;
		snprintf(text, size, "%s", dump);
		write_file(g.gl_pathv[i], "0");
		n++;
	}
	globfree(&g);
	return n;
}

/* Does the kernel's log have a line with these words after the position of @fd?  */
static bool log_has(int fd, const char *words)
{
	char record[1024];
	bool found = false;
	ssize_t n;

	/* EPIPE: records were overwritten before they were read. */
	while ((n = read(fd, record, sizeof(record) - 1)) > 0 || (n < 0 && errno == EPIPE)) {
		record[n > 0 ? n : 0] = 0;
		found |= !!strstr(record, words);
	}
	return found;
}

/* With fence_timeout_ms=0 a portion is overdue after its first piece, of 128 KiB. */
TEST_F(share, overdue)
{
	struct dma_buf_export_sync_file sync = { .flags = DMA_BUF_SYNC_WRITE };
	struct sync_file_info info = { .num_fences = 0 };
	long long was = get_param("fence_timeout_ms");
	struct pollfd p = { .events = POLLIN };
	int log, dumps = 0, status, ret;
	char text[1024] = "", who[32];
	bool logged = false, left;

	if (geteuid())
		SKIP(return, "needs root");
	log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	ASSERT_LE(0, log);
	lseek(log, 0, SEEK_END);
	take_coredumps(text, sizeof(text));
	/* The entry waits for vgem's fence, so that there is time to export the entry's fence.  */
	ASSERT_EQ(0, vgem_attach(self->card, self->handle, false, &self->fence));
	PUSH(&self->s, sqe_fill(A, 1, 77, BYTES));
	ASSERT_TRUE(becomes_busy(self->a_fd));
	EXPECT_TRUE(stands_still(&self->s, &self->other, 0));
	ASSERT_EQ(0, ioctl(self->a_fd, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &sync));
	ASSERT_EQ(0, set_param("fence_timeout_ms", 0));
	status = vgem_signal(self->card, self->fence);
	p.fd = sync.fd;
	ret = poll(&p, 1, 20000);
	EXPECT_EQ(0, set_param("fence_timeout_ms", was));
	ASSERT_EQ(0, status);
	ASSERT_EQ(1, ret);
	/* A process that waited may use the memory: the engine does not write it afterwards. */
	left = self->p[0][BYTES - 1] == 10;
	memset(self->p[0], 99, BYTES);
	EXPECT_EQ(0, ioctl(sync.fd, SYNC_IOC_FILE_INFO, &info));
	EXPECT_EQ(-ETIMEDOUT, info.status);
	EXPECT_TRUE(left);
	EXPECT_EQ(-EIO, stream_sync(&self->s));
	nap_ms(50);
	for (unsigned int i = 0; i < BYTES && ret; i++)
		ret = self->p[0][i] == 99;
	EXPECT_EQ(1, ret);
	close(sync.fd);

	snprintf(who, sizeof(who), "process: %d\n", getpid());
	for (int i = 0; i < 200 && (!logged || !dumps); i++) {
		nap_ms(20);
		dumps += take_coredumps(text, sizeof(text));
		logged |= log_has(log, "did not end within fence_timeout_ms=");
		if (access("/sys/class/devcoredump", F_OK))
			dumps = 1;
	}
	close(log);
	EXPECT_TRUE(logged);
	EXPECT_EQ(1, dumps);
	if (text[0]) {
		EXPECT_NE(NULL, strstr(text, "gpumem: fence timed out\n"));
		EXPECT_NE(NULL, strstr(text, who));
	} else {
		TH_LOG("this kernel has no device coredumps");
	}
	/* Other streams execute their entries.  */
	PUSH(&self->other, sqe_fill(A, 1, 55, BYTES));
	EXPECT_EQ(0, stream_sync(&self->other));
	EXPECT_EQ(55, self->p[0][BYTES - 1]);
}

enum { READERS = 12 };

struct signaller {
	int card;
	__u32 fence[READERS];
	pthread_barrier_t start;
};

static void *signals_all(void *arg)
{
	struct signaller *s = arg;

	pthread_barrier_wait(&s->start);
	for (int i = 0; i < READERS; i++)
		vgem_signal(s->card, s->fence[i]);
	return NULL;
}

/* The client ends while the fences that its entry waits for are signalled one after the other.  */
TEST_F(share, closed_while_fences_are_signalled)
{
	const char *more = getenv("GPUMEM_SHARE_ROUNDS");
	int rounds = more ? atoi(more) : 8;

	for (int round = 0; round < rounds; round++) {
		struct signaller signaller = { .card = self->card };
		struct gpumem_bo_import import;
		struct stream s;
		pthread_t thread;
		__u32 vm;
		int fd = gp_open(0);

		ASSERT_LE(0, fd);
		ASSERT_EQ(0, gp_bo_import(fd, self->a_fd, &import));
		ASSERT_EQ(0, gp_vm_create(fd, &vm));
		ASSERT_EQ(0, gp_vm_map(fd, vm, import.id, 0, ADDR, BYTES, 1, 1));
		ASSERT_EQ(0, stream_open(&s, fd, vm, 0, 16));
		for (int i = 0; i < READERS; i++)
			ASSERT_EQ(0, vgem_attach(self->card, self->handle, false,
						 &signaller.fence[i]));
		PUSH(&s, sqe_fill(ADDR, 1, 12, BYTES));
		ASSERT_TRUE(becomes_busy(self->a_fd));
		ASSERT_TRUE(stands_still(&s, &self->other, 0));
		ASSERT_EQ(0, munmap(s.ring, s.ring_size));
		ASSERT_EQ(0, munmap((void *)s.page, page_size));
		ASSERT_EQ(0, pthread_barrier_init(&signaller.start, NULL, 2));
		ASSERT_EQ(0, pthread_create(&thread, NULL, signals_all, &signaller));
		pthread_barrier_wait(&signaller.start);
		for (volatile int spin = 0; spin < round * 100; spin++)
			;
		EXPECT_EQ(0, close(fd));
		EXPECT_EQ(0, pthread_join(thread, NULL));
		pthread_barrier_destroy(&signaller.start);
		EXPECT_EQ(POLLIN | POLLOUT, ready(self->a_fd));
	}
}

/* A client may have any number of mappings, but one entry touches a limited number of buffers. */
TEST_F_TIMEOUT(share, too_many_roots, 300)
{
	enum { MOST = GPUMEM_SHARED_MOST };
	__u64 at = ADDR + 64 * MIB, p = page_size;

	/* Map one root many times, then many roots by turns: one of these is too many.  */
	for (__u64 i = 0; i < 1024; i++)
		ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo[0], 0, at + i * p, p, 1, 1));
	at += 1024 * p;
	for (__u64 i = 0; i < MOST; i++)
		ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo[1 - i % 2], 0, at + i * p, p,
				       1, 1));
	PUSH(&self->other, sqe_fill2d(at, 2 * p, 1, 21, 1, MOST / 2));
	EXPECT_EQ(0, stream_sync(&self->other));
	EXPECT_EQ(21, self->p[1][0]);
	PUSH(&self->s, sqe_fill(at - 1024 * p, 1, 23, (MOST + 1024) * p));
	EXPECT_EQ(-EIO, stream_sync(&self->s));
	EXPECT_EQ(E2BIG, self->s.page->error);
	EXPECT_EQ(10, self->p[0][0]);
	EXPECT_EQ(21, self->p[1][0]);
	EXPECT_EQ(POLLIN | POLLOUT, ready(self->a_fd));
	EXPECT_EQ(POLLIN | POLLOUT, ready(self->b_fd));
}

/* An entry that touches many DMA-bufs leaves one fence for each root.  */
TEST_F(share, many_roots)
{
	enum { N = 64 };
	__u64 at = ADDR + 64 * MIB, size = 64 * KIB;
	__u32 bo[N];
	int fd[N];

	for (int i = 0; i < N; i++) {
		ASSERT_EQ(0, gp_bo_alloc(self->fd, size, &bo[i]));
		ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, bo[i], 0, at + i * size, size, 1, 1));
		fd[i] = gp_bo_export(self->fd, bo[i], 0, size, 0);
		ASSERT_LE(0, fd[i]);
	}
	ASSERT_EQ(0, vgem_attach(self->card, self->handle, true, &self->fence));
	PUSH(&self->s, sqe_copy(at + size / 2, A, MIB));
	EXPECT_TRUE(stands_still(&self->s, &self->other, 0));
	for (int i = 0; i < N; i++) {
		EXPECT_EQ(i <= 16 ? 0 : POLLIN | POLLOUT, ready(fd[i])) {
			TH_LOG("root %d", i);
		}
	}
	ASSERT_EQ(0, vgem_signal(self->card, self->fence));
	EXPECT_EQ(0, stream_sync(&self->s));
	/* Copy from one half of the roots to the other half.  */
	PUSH(&self->s, sqe_copy(at + MIB, at, 2 * MIB));
	PUSH(&self->s, sqe_fill(at, 4, 9, 4 * MIB / 4));
	EXPECT_EQ(0, stream_sync(&self->s));
	for (int i = 0; i < N; i++) {
		EXPECT_EQ(POLLIN | POLLOUT, ready(fd[i]));
		close(fd[i]);
	}
}

/* --- DMA-bufs of several roots */

#define JOINT	(ADDR + 64 * MIB)

/* A DMA-buf of the first and the third bo, which are mapped side by side. */
static int joint_export(int fd, __u32 vm, const __u32 *bo)
{
	int ret = gp_vm_map(fd, vm, bo[0], 0, JOINT, BYTES, 1, 1);

	ret = ret ?: gp_vm_map(fd, vm, bo[2], 0, JOINT + BYTES, BYTES, 1, 1);
	return ret ?: gp_vm_export(fd, vm, JOINT, 2 * BYTES, 0);
}

/* Kernels that check DMA complain if a device maps a page twice, so the first bo's own import goes. */
#define JOINT_IMPORT(joint, handle_) do {				\
	ASSERT_EQ(0, vgem_close(self->card, self->handle));		\
	self->handle = 0;						\
	ASSERT_EQ(0, vgem_import(self->card, joint, handle_));		\
} while (0)

/* Work on each of the roots waits for a fence in the DMA-buf, and work on another root does not. */
TEST_F(share, joint_waits)
{
	int joint = joint_export(self->fd, self->vm, self->bo);
	__u32 handle = 0;

	ASSERT_LE(0, joint);
	JOINT_IMPORT(joint, &handle);
	for (int i = 0; i < 3; i += 2) {
		__u64 at = self->s.page->value;

		ASSERT_EQ(0, vgem_attach(self->card, handle, false, &self->fence));
		PUSH(&self->s, sqe_fill(ADDR + i * 16 * MIB, 1, 77 + i, BYTES));
		EXPECT_TRUE(stands_still(&self->s, &self->other, at));
		PUSH(&self->other, sqe_fill(B, 1, 5, BYTES));
		EXPECT_EQ(0, stream_sync(&self->other));
		ASSERT_EQ(0, vgem_signal(self->card, self->fence));
		EXPECT_EQ(0, stream_sync(&self->s));
		EXPECT_EQ(77 + i, self->p[i][BYTES - 1]);
	}
	EXPECT_EQ(0, vgem_close(self->card, handle));
	close(joint);
}

/* Work on a root leaves its fence in the root's own DMA-buf and in the one of several roots. */
TEST_F(share, joint_shows)
{
	int joint = joint_export(self->fd, self->vm, self->bo);
	__u32 handle = 0;

	ASSERT_LE(0, joint);
	/* The fence in the first bo's own DMA-buf holds the work. */
	ASSERT_EQ(0, vgem_attach(self->card, self->handle, true, &self->fence));
	EXPECT_EQ(POLLIN | POLLOUT, ready(joint));
	PUSH(&self->s, sqe_copy(JOINT + BYTES / 2, B, BYTES));
	EXPECT_TRUE(becomes_busy(joint));
	EXPECT_TRUE(becomes_busy(self->a_fd));
	ASSERT_EQ(0, vgem_signal(self->card, self->fence));
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_TRUE(settles(joint));
	EXPECT_TRUE(settles(self->a_fd));
	EXPECT_EQ(11, self->p[0][BYTES - 1]);
	EXPECT_EQ(11, self->p[2][0]);
	EXPECT_EQ(12, self->p[2][BYTES - 1]);

	/* Another client's import of it waits, too, and so does work of this client behind that. */
	JOINT_IMPORT(joint, &handle);
	ASSERT_EQ(0, vgem_attach(self->card, handle, true, &self->fence));
	PUSH(&self->s, sqe_copy(B, C, BYTES));
	EXPECT_TRUE(stands_still(&self->s, &self->other, self->s.page->value));
	ASSERT_EQ(0, vgem_signal(self->card, self->fence));
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(0, vgem_close(self->card, handle));
	close(joint);
}

/* The DMA-buf is an own import, and both are used in one entry. */
TEST_F(share, joint_and_its_import)
{
	int joint = joint_export(self->fd, self->vm, self->bo);
	__u64 at = JOINT + 16 * MIB;
	struct gpumem_bo_import import;

	ASSERT_LE(0, joint);
	ASSERT_EQ(0, gp_bo_import(self->fd, joint, &import));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, import.id, 0, at, 2 * BYTES, 1, 1));
	PUSH(&self->s, sqe_copy(at, JOINT + BYTES, BYTES));
	PUSH(&self->s, sqe_fill(at + BYTES, 1, 3, BYTES));
	PUSH(&self->other, sqe_fill(B, 1, 5, BYTES));
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(0, stream_sync(&self->other));
	EXPECT_EQ(12, self->p[0][0]);
	EXPECT_EQ(12, self->p[0][BYTES - 1]);
	EXPECT_EQ(3, self->p[2][0]);
	EXPECT_TRUE(settles(joint));
	close(joint);
}

/* Work on an import of the DMA-buf does not wait for other streams, but for other drivers. */
TEST_F(share, joint_import_beside_streams)
{
	int joint = joint_export(self->fd, self->vm, self->bo), fd = gp_open(0);
	struct gpumem_bo_import import;
	__u32 vm, handle = 0, fence = 0;
	struct stream s;

	ASSERT_LE(0, joint);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, gp_bo_import(fd, joint, &import));
	ASSERT_EQ(0, gp_vm_create(fd, &vm));
	ASSERT_EQ(0, gp_vm_map(fd, vm, import.id, 0, JOINT, 2 * BYTES, 1, 1));
	ASSERT_EQ(0, stream_open(&s, fd, vm, 0, 16));
	/* A fill of the first bo has left its fence in the DMA-buf, and waits for a fence elsewhere. */
	ASSERT_EQ(0, vgem_attach(self->card, self->handle, true, &self->fence));
	PUSH(&self->s, sqe_fill(A, 1, 77, BYTES));
	ASSERT_TRUE(becomes_busy(joint));
	PUSH(&s, sqe_fill(JOINT + BYTES, 1, 78, BYTES));
	ASSERT_EQ(0, stream_wait(&s, 1, 10));
	EXPECT_EQ(78, self->p[2][BYTES - 1]);
	EXPECT_FALSE(ready(joint));
	ASSERT_EQ(0, vgem_signal(self->card, self->fence));
	EXPECT_EQ(0, stream_sync(&self->s));

	JOINT_IMPORT(joint, &handle);
	ASSERT_EQ(0, vgem_attach(self->card, handle, false, &fence));
	PUSH(&s, sqe_fill(JOINT + BYTES, 1, 79, BYTES));
	EXPECT_TRUE(stands_still(&s, &self->other, 1));
	ASSERT_EQ(0, vgem_signal(self->card, fence));
	EXPECT_EQ(0, stream_sync(&s));
	EXPECT_EQ(79, self->p[2][BYTES - 1]);
	EXPECT_EQ(0, vgem_close(self->card, handle));
	close(joint);
	close(fd);
}

/* The maker of the DMA-buf is gone; work of the client whose memory it is still finds the fences. */
TEST_F(share, joint_of_another_client)
{
	struct gpumem_bo_import import;
	int fd = gp_open(0), handle, joint;
	__u32 vm, id[3], imported = 0;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, gp_vm_create(fd, &vm));
	for (int i = 0; i < 3; i++) {
		handle = gp_bo_export(self->fd, self->bo[i], 0, BYTES, GPUMEM_BO_EXPORT_HANDLE);
		ASSERT_LE(0, handle);
		import = (struct gpumem_bo_import) {
			.size = sizeof(import), .fd = handle, .flags = GPUMEM_BO_IMPORT_HANDLE,
		};
		ASSERT_EQ(0, gp_ioctl(fd, GPUMEM_BO_IMPORT, &import));
		id[i] = import.id;
		close(handle);
	}
	joint = joint_export(fd, vm, id);
	ASSERT_LE(0, joint);
	close(fd);
	JOINT_IMPORT(joint, &imported);
	ASSERT_EQ(0, vgem_attach(self->card, imported, true, &self->fence));
	PUSH(&self->s, sqe_fill(C, 1, 88, BYTES));
	EXPECT_TRUE(stands_still(&self->s, &self->other, 0));
	/* The last reference on the other client may be the entry's. */
	EXPECT_EQ(0, vgem_close(self->card, imported));
	close(joint);
	EXPECT_TRUE(stands_still(&self->s, &self->other, 0));
	ASSERT_EQ(0, vgem_signal(self->card, self->fence));
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(88, self->p[2][BYTES - 1]);
}

TEST_HARNESS_MAIN
