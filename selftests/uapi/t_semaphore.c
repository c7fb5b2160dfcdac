// SPDX-License-Identifier: GPL-2.0
/*
 * Timelines that clients share by descriptor, timelines that count, and fences of sync_files as
 * timelines.
 *
 * Tests who may raise what, the order of signals and waits, and what waiters get when the client
 * that made the timeline destroys it or is killed.  A second client replaces the other process where
 * that makes no difference.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "common/exporters.h"
#include "common/stream_fixture.h"

STREAM_FIXTURE(semaphore)

/* The other client, with a stream of its own. */
struct peer {
	int fd;
	__u32 vm, id;
	struct stream s;
};

static int peer_open(struct peer *p)
{
	p->fd = gp_open(0);
	return p->fd < 0 ? p->fd : gp_vm_create(p->fd, &p->vm) ?: stream_open(&p->s, p->fd, p->vm, 0, 16);
}

#define PUSH(stream, ...)						\
	do {								\
		struct gpumem_sqe sqe_ = __VA_ARGS__;			\
									\
		ASSERT_EQ(0, stream_push(stream, &sqe_));		\
	} while (0)

TEST_F(semaphore, shared)
{
	struct gpumem_timeline_wait wait;
	struct peer p;
	__u32 id, again, result;
	int sem;

	ASSERT_EQ(0, peer_open(&p));
	ASSERT_EQ(0, gp_timeline_create(self->fd, 3, &id));
	sem = gp_timeline_export(self->fd, id, GPUMEM_TIMELINE_EXPORT_CLOEXEC);
	ASSERT_LE(0, sem);
	EXPECT_EQ(FD_CLOEXEC, fcntl(sem, F_GETFD));
	ASSERT_EQ(0, gp_timeline_import(p.fd, sem, &p.id, &result));
	EXPECT_EQ(0, result);
	ASSERT_EQ(0, gp_timeline_import(p.fd, sem, &again, NULL));
	EXPECT_NE(p.id, again);
	EXPECT_EQ(0, close(sem));
	EXPECT_EQ(0, gp_timeline_wait(p.fd, p.id, 3, 0, &wait));
	EXPECT_EQ(3, wait.reached);
	/* Both may raise it: by ioctl, and by entries. */
	PUSH(&self->s, sqe_wait(id, 4));
	PUSH(&p.s, sqe_wait(p.id, 5));
	EXPECT_EQ(-ETIMEDOUT, stream_wait(&self->s, 1, 0.05));
	EXPECT_EQ(0, gp_timeline_signal(p.fd, p.id, 4));
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(-ETIMEDOUT, stream_wait(&p.s, 1, 0.05));
	PUSH(&self->s, sqe_signal(id, 5));
	EXPECT_EQ(0, stream_sync(&p.s));
	PUSH(&p.s, sqe_add(p.id, 2));
	EXPECT_EQ(0, gp_timeline_wait(self->fd, id, 7, FOREVER, NULL));
	/* The end of one import, or of the importing client, changes nothing. */
	EXPECT_EQ(0, gp_destroy(p.fd, p.id));
	EXPECT_EQ(0, gp_timeline_signal(p.fd, again, 8));
	unmap_all();
	close(p.fd);
	EXPECT_EQ(-ETIMEDOUT, gp_timeline_wait(self->fd, id, 9, 0, &wait));
	EXPECT_EQ(8, wait.reached);
	EXPECT_EQ(0, gp_timeline_signal(self->fd, id, 9));
}

/* The number that the fdinfo of a descriptor shows, or 0. */
static unsigned long long shown_number(int fd)
{
	unsigned long long number = 0;
	char path[64], line[128];
	FILE *info;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	info = fopen(path, "r");
	while (info && fgets(line, sizeof(line), info))
		if (sscanf(line, "gpumem-semaphore:\t%llu", &number) == 1)
			break;
	if (info)
		fclose(info);
	return number;
}

/* All descriptors of a semaphore show its number, whichever client exported them. */
TEST_F(semaphore, numbers)
{
	int first, second, of_import, of_other, of_counting;
	__u32 id, again, other, counting;

	ASSERT_EQ(0, gp_timeline_create(self->fd, 0, &id));
	ASSERT_EQ(0, gp_timeline_create(self->fd, 0, &other));
	ASSERT_EQ(0, gp_counting_create(self->fd, 0, &counting));
	first = gp_timeline_export(self->fd, id, 0);
	second = gp_timeline_export(self->fd, id, 0);
	of_other = gp_timeline_export(self->fd, other, 0);
	of_counting = gp_timeline_export(self->fd, counting, 0);
	ASSERT_EQ(0, gp_timeline_import(self->fd, first, &again, NULL));
	of_import = gp_timeline_export(self->fd, again, 0);
	EXPECT_NE(0, shown_number(first));
	EXPECT_EQ(shown_number(first), shown_number(second));
	EXPECT_EQ(shown_number(first), shown_number(of_import));
	EXPECT_NE(0, shown_number(of_other));
	EXPECT_NE(0, shown_number(of_counting));
	EXPECT_NE(shown_number(first), shown_number(of_other));
	EXPECT_NE(shown_number(first), shown_number(of_counting));
	EXPECT_NE(shown_number(of_other), shown_number(of_counting));
	close(first);
	close(second);
	close(of_import);
	close(of_other);
	close(of_counting);
}

TEST_F(semaphore, wrong_calls)
{
	__u32 id, other;
	int sem, pipes[2];
	__u64 value;

	ASSERT_EQ(0, pipe(pipes));
	ASSERT_EQ(0, gp_timeline_create(self->fd, 0, &id));
	EXPECT_EQ(-EINVAL, gp_timeline_export(self->fd, self->s.timeline, 0));
	EXPECT_EQ(-ENOENT, gp_timeline_export(self->fd, self->s.id, 0));
	EXPECT_EQ(-ENOENT, gp_timeline_export(self->fd, self->bo, 0));
	EXPECT_EQ(-EOPNOTSUPP, gp_timeline_export(self->fd, id, 2));
	EXPECT_EQ(-EBADF, gp_timeline_import(self->fd, -1, &other, NULL));
	EXPECT_EQ(-EINVAL, gp_timeline_import(self->fd, pipes[0], &other, NULL));
	EXPECT_EQ(-EINVAL, gp_timeline_import(self->fd, self->fd, &other, NULL));
	sem = gp_timeline_export(self->fd, id, 0);
	ASSERT_LE(0, sem);
	EXPECT_EQ(0, fcntl(sem, F_GETFD));
	/* An import has no page, and may be exported again. */
	ASSERT_EQ(0, gp_timeline_import(self->fd, sem, &other, NULL));
	EXPECT_EQ(-EINVAL, gp_map_errno(self->fd, other, 0, page_size, PROT_READ, MAP_SHARED));
	close(sem);
	sem = gp_timeline_export(self->fd, other, 0);
	EXPECT_LE(0, sem);
	close(sem);
	close(pipes[0]);
	close(pipes[1]);
	/* Only counting timelines can be taken from. */
	EXPECT_EQ(-EINVAL, gp_timeline_take(self->fd, id, &value));
	EXPECT_EQ(-EINVAL, gp_timeline_take(self->fd, self->s.timeline, &value));
	EXPECT_EQ(-ENOENT, gp_timeline_take(self->fd, self->s.id, &value));
	EXPECT_EQ(-ENOENT, gp_timeline_take(self->fd, 0, &value));
}

/* Take a signal, and wait for it. The stream fails if there is none to take. */
static struct gpumem_sqe take(int fd, __u32 id)
{
	__u64 value;

	return gp_timeline_take(fd, id, &value) ? sqe_wait(0, 0) : sqe_wait(id, value);
}

/* Each signal lets one wait through, whichever client and stream executes it. */
TEST_F(semaphore, counting)
{
	struct peer p;
	__u32 id, result;
	int sem;

	ASSERT_EQ(0, peer_open(&p));
	ASSERT_EQ(0, gp_counting_create(self->fd, 1, &id));
	sem = gp_timeline_export(self->fd, id, 0);
	ASSERT_LE(0, sem);
	ASSERT_EQ(0, gp_timeline_import(p.fd, sem, &p.id, &result));
	EXPECT_EQ(GPUMEM_TIMELINE_IMPORT_COUNTING, result);
	close(sem);
	/* It began with one signal. */
	PUSH(&p.s, take(p.fd, p.id));
	EXPECT_EQ(0, stream_sync(&p.s));
	/* Takes before signals: the first signal completes the first of them. */
	PUSH(&p.s, take(p.fd, p.id));
	PUSH(&self->s, take(self->fd, id));
	EXPECT_EQ(-ETIMEDOUT, stream_wait(&self->s, 1, 0.05));
	/* A doorbell does not end the wait.  */
	EXPECT_EQ(0, gp_doorbell(self->fd, self->s.id));
	EXPECT_EQ(-ETIMEDOUT, stream_wait(&self->s, 1, 0.05));
	EXPECT_EQ(1, p.s.page->value);
	EXPECT_EQ(0, gp_timeline_signal(self->fd, id, 2));
	EXPECT_EQ(0, stream_sync(&p.s));
	EXPECT_EQ(-ETIMEDOUT, stream_wait(&self->s, 1, 0.05));
	EXPECT_EQ(0, gp_timeline_signal(p.fd, p.id, 3));
	EXPECT_EQ(0, stream_sync(&self->s));
	/* Signals before takes. */
	PUSH(&p.s, sqe_add(p.id, 1));
	PUSH(&p.s, sqe_add(p.id, 1));
	EXPECT_EQ(0, stream_sync(&p.s));
	PUSH(&self->s, take(self->fd, id));
	PUSH(&self->s, take(self->fd, id));
	EXPECT_EQ(0, stream_sync(&self->s));
	unmap_all();
	close(p.fd);
}

/* The order of the calls decides which signal a wait gets, not the order in which streams get to their waits. */
TEST_F(semaphore, in_order)
{
	struct gpumem_sqe first;
	__u32 id, gate;
	struct stream t;
	__u64 value;

	ASSERT_EQ(0, stream_open(&t, self->fd, self->vm, 0, 16));
	ASSERT_EQ(0, gp_counting_create(self->fd, 0, &id));
	ASSERT_EQ(0, gp_timeline_create(self->fd, 0, &gate));
	first = take(self->fd, id);
	PUSH(&self->s, sqe_wait(gate, 1));
	PUSH(&self->s, first);
	PUSH(&t, take(self->fd, id));
	EXPECT_EQ(0, gp_timeline_signal(self->fd, id, 1));
	/* The first stream has not got to its wait, but the signal is its own. */
	EXPECT_EQ(-ETIMEDOUT, stream_wait(&t, 1, 0.05));
	EXPECT_EQ(0, gp_timeline_signal(self->fd, id, 2));
	EXPECT_EQ(0, stream_sync(&t));
	EXPECT_EQ(0, gp_timeline_signal(self->fd, gate, 1));
	EXPECT_EQ(0, stream_sync(&self->s));
	/* A signal that nobody waited for stays taken. */
	EXPECT_EQ(0, gp_timeline_take(self->fd, id, &value));
	EXPECT_EQ(3, value);
	PUSH(&t, take(self->fd, id));
	EXPECT_EQ(0, gp_timeline_signal(self->fd, id, 3));
	EXPECT_EQ(-ETIMEDOUT, stream_wait(&t, 2, 0.05));
	EXPECT_EQ(0, gp_timeline_signal(self->fd, id, 4));
	EXPECT_EQ(0, stream_sync(&t));
}

enum { TAKES = 20000 };

/* What two threads take, each by a handle of its own. */
struct taker {
	int fd;
	__u32 id;
	pthread_t thread;
	__u64 value[TAKES];
};

static void *take_many(void *arg)
{
	struct taker *t = arg;

	for (int i = 0; i < TAKES; i++)
		if (gp_timeline_take(t->fd, t->id, &t->value[i]))
			t->value[i] = 0;
	return NULL;
}

/* Two clients take at the same time: each number is given once. */
TEST_F_TIMEOUT(semaphore, taken_at_one_time, 120)
{
	unsigned char *seen = calloc(2 * TAKES + 1, 1);
	struct taker *t = calloc(2, sizeof(*t));
	int sem;

	ASSERT_TRUE(seen && t);
	t[0].fd = self->fd;
	t[1].fd = gp_open(0);
	ASSERT_LE(0, t[1].fd);
	ASSERT_EQ(0, gp_counting_create(t[0].fd, 0, &t[0].id));
	sem = gp_timeline_export(t[0].fd, t[0].id, 0);
	ASSERT_EQ(0, gp_timeline_import(t[1].fd, sem, &t[1].id, NULL));
	close(sem);
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_create(&t[i].thread, NULL, take_many, &t[i]));
	for (int i = 0; i < 2; i++)
		pthread_join(t[i].thread, NULL);
	for (int i = 0; i < 2 * TAKES; i++) {
		__u64 value = t[i / TAKES].value[i % TAKES];

		ASSERT_LT(0, value);
		ASSERT_GE(2 * TAKES, value);
		ASSERT_EQ(0, seen[value]++);
		/* A client's own numbers rise. */
		ASSERT_TRUE(!(i % TAKES) || value > t[i / TAKES].value[i % TAKES - 1]);
	}
	close(t[1].fd);
	free(t);
	free(seen);
}

/* A call that cannot return the number takes nothing. */
TEST_F(semaphore, number_not_written)
{
	struct gpumem_timeline_take *t = mmap(NULL, page_size, PROT_READ | PROT_WRITE,
					      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	__u64 value;
	__u32 id;

	ASSERT_NE(MAP_FAILED, (void *)t);
	ASSERT_EQ(0, gp_counting_create(self->fd, 0, &id));
	t->size = sizeof(*t);
	t->id = id;
	ASSERT_EQ(0, mprotect(t, page_size, PROT_READ));
	EXPECT_EQ(-EFAULT, gp_ioctl(self->fd, GPUMEM_TIMELINE_TAKE, t));
	EXPECT_EQ(0, gp_timeline_take(self->fd, id, &value));
	EXPECT_EQ(1, value);
	munmap(t, page_size);
}

/* Another client cannot make the maker's signals fail. */
TEST_F(semaphore, counts_to_the_end)
{
	struct gpumem_timeline_wait wait;
	struct peer p;
	__u32 id, plain;
	int sem;

	ASSERT_EQ(0, peer_open(&p));
	ASSERT_EQ(0, gp_counting_create(self->fd, 0, &id));
	sem = gp_timeline_export(self->fd, id, 0);
	ASSERT_LE(0, sem);
	ASSERT_EQ(0, gp_timeline_import(p.fd, sem, &p.id, NULL));
	close(sem);
	EXPECT_EQ(0, gp_timeline_signal(p.fd, p.id, ~0ULL - 1));
	for (int i = 0; i < 3; i++)
		PUSH(&self->s, sqe_add(id, 1));
	PUSH(&self->s, take(self->fd, id));
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(0, gp_timeline_wait(self->fd, id, ~0ULL, 0, &wait));
	EXPECT_EQ(~0ULL, wait.reached);
	/* A timeline that does not count refuses the sum. */
	ASSERT_EQ(0, gp_timeline_create(self->fd, ~0ULL, &plain));
	EXPECT_EQ(EOVERFLOW, stream_error_of(self->fd, self->vm, sqe_add(plain, 1)));
	unmap_all();
	close(p.fd);
}

/* Many streams wait for their signals: each gets its own. */
TEST_F_TIMEOUT(semaphore, many_takers, 120)
{
	enum { TAKERS = 8, ROUNDS = 200 };
	struct stream t[TAKERS];
	struct gpumem_timeline_wait wait;
	__u32 id;

	ASSERT_EQ(0, gp_counting_create(self->fd, 0, &id));
	for (int i = 0; i < TAKERS; i++)
		ASSERT_EQ(0, stream_open(&t[i], self->fd, self->vm, 0, 256));
	for (int i = 0; i < TAKERS; i++)
		for (int j = 0; j < ROUNDS; j++)
			PUSH(&t[i], take(self->fd, id));
	for (int j = 0; j < ROUNDS * TAKERS; j++)
		PUSH(&self->s, sqe_add(id, 1));
	for (int i = 0; i < TAKERS; i++)
		EXPECT_EQ(0, stream_sync(&t[i]));
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(0, gp_timeline_wait(self->fd, id, 0, 0, &wait));
	EXPECT_EQ(ROUNDS * TAKERS, wait.reached);
	PUSH(&t[0], take(self->fd, id));
	EXPECT_EQ(-ETIMEDOUT, stream_wait(&t[0], ROUNDS + 1, 0.05));
	EXPECT_EQ(0, gp_timeline_signal(self->fd, id, ROUNDS * TAKERS + 1));
	EXPECT_EQ(0, stream_sync(&t[0]));
}

/* The id of the client that made the timeline is destroyed while the other one waits. */
TEST_F(semaphore, destroyed_while_waiting)
{
	struct gpumem_timeline_wait wait;
	struct peer p;
	__u32 id, count, counted;
	struct stream t;
	int sem[2];

	ASSERT_EQ(0, peer_open(&p));
	ASSERT_EQ(0, stream_open(&t, p.fd, p.vm, 0, 16));
	ASSERT_EQ(0, gp_timeline_create(self->fd, 0, &id));
	ASSERT_EQ(0, gp_counting_create(self->fd, 0, &count));
	sem[0] = gp_timeline_export(self->fd, id, 0);
	sem[1] = gp_timeline_export(self->fd, count, 0);
	ASSERT_EQ(0, gp_timeline_import(p.fd, sem[0], &p.id, NULL));
	ASSERT_EQ(0, gp_timeline_import(p.fd, sem[1], &counted, NULL));
	EXPECT_EQ(0, gp_timeline_signal(self->fd, id, 2));
	PUSH(&p.s, sqe_wait(p.id, 3));
	PUSH(&t, take(p.fd, counted));
	EXPECT_EQ(-ETIMEDOUT, stream_wait(&p.s, 1, 0.05));
	EXPECT_EQ(-ETIMEDOUT, stream_wait(&t, 1, 0));
	ASSERT_EQ(0, gp_destroy(self->fd, id));
	ASSERT_EQ(0, gp_destroy(self->fd, count));
	EXPECT_EQ(-EIO, stream_sync(&p.s));
	EXPECT_EQ(ECANCELED, p.s.page->error);
	EXPECT_EQ(-EIO, stream_sync(&t));
	EXPECT_EQ(ECANCELED, t.page->error);
	/* What was reached stays reached, also for a later import. */
	EXPECT_EQ(0, gp_timeline_wait(p.fd, p.id, 2, FOREVER, NULL));
	EXPECT_EQ(-EIO, gp_timeline_wait(p.fd, p.id, 3, FOREVER, &wait));
	EXPECT_EQ(ECANCELED, wait.error);
	ASSERT_EQ(0, gp_timeline_import(p.fd, sem[0], &p.id, NULL));
	EXPECT_EQ(0, gp_timeline_wait(p.fd, p.id, 2, FOREVER, NULL));
	close(sem[0]);
	close(sem[1]);
	unmap_all();
	close(p.fd);
}

/* Makes a timeline, passes its descriptor on, signals 1, and waits to be killed. */
static int maker(void *arg)
{
	int sock = *(int *)arg, fd = gp_open(0), sem;
	__u32 id;

	if (fd < 0 || gp_timeline_create(fd, 0, &id))
		return 1;
	sem = gp_timeline_export(fd, id, 0);
	if (sem < 0 || send_fd(sock, sem) || gp_timeline_signal(fd, id, 1))
		return 1;
	hear(sock);
	return 0;
}

TEST_F(semaphore, maker_is_killed)
{
	struct gpumem_timeline_wait wait;
	int sock[2], sem;
	__u32 id;
	pid_t pid;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	pid = start_child(maker, &sock[1]);
	ASSERT_LT(0, pid);
	sem = recv_fd(sock[0]);
	ASSERT_LE(0, sem);
	ASSERT_EQ(0, gp_timeline_import(self->fd, sem, &id, NULL));
	EXPECT_EQ(0, gp_timeline_wait(self->fd, id, 1, FOREVER, NULL));
	PUSH(&self->s, sqe_wait(id, 2));
	EXPECT_EQ(-ETIMEDOUT, stream_wait(&self->s, 1, 0.05));
	EXPECT_EQ(-SIGKILL, kill_child(pid));
	EXPECT_EQ(-EIO, stream_sync(&self->s));
	EXPECT_EQ(ECANCELED, self->s.page->error);
	EXPECT_EQ(-EIO, gp_timeline_wait(self->fd, id, 2, FOREVER, &wait));
	EXPECT_EQ(ECANCELED, wait.error);
	close(sem);
	close(sock[0]);
	close(sock[1]);
}

/* --- sync_files */

FIXTURE(sync_file)
{
	struct leak_state leak;
	int fd, card, dmabuf;
	__u32 vm, bo, handle, fence;
	struct stream s;
};

FIXTURE_SETUP(sync_file)
{
	client_begin(_metadata, &self->leak, &self->fd);
	self->dmabuf = -1;
	self->card = vgem_open();
	if (self->card < 0)
		SKIP(return, "no vgem");
	ASSERT_EQ(0, gp_bo_alloc(self->fd, MIB, &self->bo));
	self->dmabuf = gp_bo_export(self->fd, self->bo, 0, MIB, 0);
	ASSERT_LE(0, self->dmabuf);
	ASSERT_EQ(0, vgem_import(self->card, self->dmabuf, &self->handle));
	ASSERT_EQ(0, gp_vm_create(self->fd, &self->vm));
	ASSERT_EQ(0, stream_open(&self->s, self->fd, self->vm, 0, 64));
}

FIXTURE_TEARDOWN(sync_file)
{
	if (self->dmabuf >= 0)
		close(self->dmabuf);
	if (self->card >= 0) {
		if (self->handle)
			vgem_close(self->card, self->handle);
		close(self->card);
	}
	client_end(_metadata, &self->leak, self->fd, 20);
}

/* A sync_file with a new fence of vgem; -1 if the kernel makes none. */
static int vgem_sync_file(FIXTURE_DATA(sync_file) *self)
{
	struct dma_buf_export_sync_file sync = { .flags = DMA_BUF_SYNC_READ };

	if (vgem_attach(self->card, self->handle, true, &self->fence) ||
	    ioctl(self->dmabuf, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &sync))
		return -1;
	return sync.fd;
}

TEST_F(sync_file, wait)
{
	int sync = vgem_sync_file(self);
	struct gpumem_timeline_wait wait;
	__u32 id, late, result;
	__u64 value;

	ASSERT_LE(0, sync);
	ASSERT_EQ(0, gp_timeline_import(self->fd, sync, &id, &result));
	EXPECT_EQ(GPUMEM_TIMELINE_IMPORT_FENCE, result);
	PUSH(&self->s, sqe_wait(id, 1));
	EXPECT_EQ(-ETIMEDOUT, stream_wait(&self->s, 1, 0.05));
	/* Only the fence raises it. */
	EXPECT_EQ(-EINVAL, gp_timeline_signal(self->fd, id, 1));
	EXPECT_EQ(-EINVAL, gp_timeline_export(self->fd, id, 0));
	EXPECT_EQ(EINVAL, stream_error_of(self->fd, self->vm, sqe_signal(id, 1)));
	EXPECT_EQ(EINVAL, stream_error_of(self->fd, self->vm, sqe_add(id, 1)));
	EXPECT_EQ(-EINVAL, gp_timeline_take(self->fd, id, &value));
	EXPECT_EQ(-ETIMEDOUT, gp_timeline_wait(self->fd, id, 1, 0, NULL));
	ASSERT_EQ(0, vgem_signal(self->card, self->fence));
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(0, gp_timeline_wait(self->fd, id, 1, FOREVER, &wait));
	EXPECT_EQ(1, wait.reached);
	/* A fence that is signalled already. */
	ASSERT_EQ(0, gp_timeline_import(self->fd, sync, &late, NULL));
	EXPECT_EQ(0, gp_timeline_wait(self->fd, late, 1, 0, NULL));
	close(sync);
}

#define TRACE	"/sys/kernel/tracing/instances/t_semaphore"

/*
 * How many fences of vgem the kernel freed since the trace began; -1 if there is no trace.  Linux 7.2 names the driver
 * of a signalled fence "detached-driver".
 */
static int fences_freed(void)
{
	char line[512];
	int n = 0;
	FILE *f = fopen(TRACE "/trace", "r");

	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		n += strstr(line, "dma_fence_destroy") && (strstr(line, "vgem") || strstr(line, "detached"));
	fclose(f);
	return n;
}

/* A fence that is signalled is not kept, although the id is. */
TEST_F(sync_file, fence_is_freed)
{
	int sync = vgem_sync_file(self), freed = 0;
	__u32 id;

	ASSERT_LE(0, sync);
	ASSERT_EQ(0, gp_timeline_import(self->fd, sync, &id, NULL));
	close(sync);
	ASSERT_EQ(0, mkdir(TRACE, 0700));
	EXPECT_EQ(0, write_file(TRACE "/events/dma_fence/dma_fence_destroy/enable", "1"));
	ASSERT_EQ(0, vgem_signal(self->card, self->fence));
	EXPECT_EQ(0, gp_timeline_wait(self->fd, id, 1, FOREVER, NULL));
	/* The buffer has the fence, too. */
	vgem_close(self->card, self->handle);
	self->handle = 0;
	close(self->dmabuf);
	self->dmabuf = -1;
	EXPECT_EQ(0, gp_destroy(self->fd, self->bo));
	for (int i = 0; i < 200 && !freed; i++) {
		nap_ms(10);
		freed = fences_freed();
	}
	EXPECT_EQ(1, freed);
	EXPECT_EQ(0, rmdir(TRACE));
	EXPECT_EQ(0, gp_timeline_wait(self->fd, id, 1, 0, NULL));
}

/* The id ends before the fence does. */
TEST_F(sync_file, destroyed)
{
	int sync = vgem_sync_file(self);
	__u32 id, other;

	ASSERT_LE(0, sync);
	ASSERT_EQ(0, gp_timeline_import(self->fd, sync, &id, NULL));
	ASSERT_EQ(0, gp_timeline_import(self->fd, sync, &other, NULL));
	PUSH(&self->s, sqe_wait(id, 1));
	EXPECT_EQ(-ETIMEDOUT, stream_wait(&self->s, 1, 0.05));
	EXPECT_EQ(0, gp_destroy(self->fd, id));
	EXPECT_EQ(-EIO, stream_sync(&self->s));
	EXPECT_EQ(ECANCELED, self->s.page->error);
	close(sync);
	ASSERT_EQ(0, vgem_signal(self->card, self->fence));
	EXPECT_EQ(0, gp_timeline_wait(self->fd, other, 1, FOREVER, NULL));
}

/* Imports and their ends race with the fence. */
TEST_F_TIMEOUT(sync_file, races, 120)
{
	for (int i = 0; i < 100; i++) {
		int sync = vgem_sync_file(self);
		__u32 id[2];

		ASSERT_LE(0, sync);
		ASSERT_EQ(0, gp_timeline_import(self->fd, sync, &id[0], NULL));
		ASSERT_EQ(0, gp_timeline_import(self->fd, sync, &id[1], NULL));
		close(sync);
		ASSERT_EQ(0, vgem_signal(self->card, self->fence));
		EXPECT_EQ(0, gp_destroy(self->fd, id[0]));
		EXPECT_EQ(0, gp_timeline_wait(self->fd, id[1], 1, FOREVER, NULL));
		EXPECT_EQ(0, gp_destroy(self->fd, id[1]));
	}
}

/* The client ends while it waits for a fence, which is signalled afterwards. */
static int waits_for_fence(void *arg)
{
	int *fds = arg, fd = gp_open(0);
	struct stream s;
	__u32 vm, id;
	struct gpumem_sqe sqe;

	if (fd < 0 || gp_vm_create(fd, &vm) || stream_open(&s, fd, vm, 0, 16) ||
	    gp_timeline_import(fd, fds[0], &id, NULL))
		return 1;
	sqe = sqe_wait(id, 1);
	if (stream_push(&s, &sqe) || stream_wait(&s, 1, 0.05) != -ETIMEDOUT || !tell(fds[1]))
		return 1;
	pause();
	return 1;
}

TEST_F(sync_file, waiter_is_killed)
{
	int sock[2], fds[2], sync = vgem_sync_file(self);
	pid_t pid;

	ASSERT_LE(0, sync);
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	fds[0] = sync;
	fds[1] = sock[1];
	pid = start_child(waits_for_fence, fds);
	ASSERT_LT(0, pid);
	ASSERT_TRUE(hear(sock[0]));
	EXPECT_EQ(-SIGKILL, kill_child(pid));
	ASSERT_EQ(0, vgem_signal(self->card, self->fence));
	close(sync);
	close(sock[0]);
	close(sock[1]);
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 1, 10));
}

TEST_HARNESS_MAIN
