// SPDX-License-Identifier: GPL-2.0
/*
 * *Published* work: entries on shared buffers, whose fences other drivers and processes wait for.
 * The time of a fence is bounded, clients share the engine fairly, and a CPU limit binds published
 * work, too.  All bounds are ratios of times measured in one run.
 */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <linux/dma-buf.h>

#include "kselftest_harness.h"
#include "common/stream_fixture.h"

#define MAPS	2000		/* mappings of one buffer: an entry fills it so many times */
#define HOG	(32 * MIB)
#define UNIT	(64 * MIB)	/* the time of filling this bounds a fence */

STREAM_FIXTURE(publish)

static int map_often(int fd, __u32 vm, __u32 bo, __u64 length, unsigned int maps)
{
	for (unsigned int i = 1; i <= maps; i++) {
		int ret = gp_vm_map(fd, vm, bo, 0, i * length, length, 1, 1);

		if (ret)
			return ret;
	}
	return 0;
}

struct attacker {
	const struct cgroup *cg;
	unsigned int streams;
	bool export;
	int sock, to;
	volatile __u64 *moved;	/* bytes, shared */
};

/*
 * Queues one entry on each stream, which fills a buffer MAPS times over; sends the buffer's
 * DMA-buf; and stores the bytes filled in *@moved until it is killed.
 */
static int attacks(void *arg)
{
	const struct attacker *a = arg;
	struct gpumem_sqe q = sqe_fill(HOG, 8, 1, MAPS * HOG / 8);
	struct gpumem_stats st = {};
	struct stream s[1024];
	int fd, buf = -1;
	__u32 bo, vm;

	if (a->cg && cgroup_enter(a->cg))
		return 1;
	fd = gp_open(0);
	if (fd < 0 || gp_bo_alloc(fd, HOG, &bo) || gp_vm_create(fd, &vm) ||
	    map_often(fd, vm, bo, HOG, MAPS))
		return 2;
	if (a->export) {
		buf = gp_bo_export(fd, bo, 0, HOG, 0);
		if (buf < 0)
			return 3;
	}
	for (unsigned int i = 0; i < a->streams; i++)
		if (stream_open(&s[i], fd, vm, 0, 16) || stream_push(&s[i], &q))
			return 4;
	if (a->sock >= 0 && send_fd(a->sock, buf))
		return 5;
	if (!tell(a->to))
		return 6;
	for (;;) {
		if (a->moved && !gp_stats(fd, &st))
			*a->moved = st.fill_bytes;
		nap_ms(20);
	}
	return 0;
}

static pid_t start_attack(struct attacker *a)
{
	return start_ready_child(attacks, a, &a->to);
}

/* A client with a buffer of its own, exported or not.  */
struct own {
	int fd, buf;
	__u32 bo, vm;
	__u64 length;
	struct stream s;
};

static int own_open(struct own *o, int fd, __u64 length, bool export)
{
	o->fd = fd;
	o->length = length;
	o->buf = -1;
	if (gp_bo_alloc(fd, length, &o->bo) || gp_vm_create(fd, &o->vm) ||
	    gp_vm_map(fd, o->vm, o->bo, 0, length, length, 1, 1) ||
	    stream_open(&o->s, fd, o->vm, 0, 16))
		return -1;
	if (export)
		o->buf = gp_bo_export(fd, o->bo, 0, length, 0);
	return export && o->buf < 0 ? -1 : 0;
}

static void own_close(struct own *o)
{
	stream_close(&o->s);
	if (o->buf >= 0)
		close(o->buf);
	gp_destroy(o->fd, o->vm);
	gp_destroy(o->fd, o->bo);
}

static double seconds_since(__u64 begin)
{
	return (mono_ns() - begin) / 1e9;
}

/* The longest time of @n fills of the whole buffer, in seconds; -1 for an error.  */
static double fills(struct own *o, unsigned int n)
{
	struct gpumem_sqe q = sqe_fill(o->length, 8, 1, o->length / 8);
	double worst = 0, took;
	__u64 begin;

	while (n--) {
		begin = mono_ns();
		if (stream_push(&o->s, &q) || stream_wait(&o->s, o->s.tail, 300))
			return -1;
		took = seconds_since(begin);
		worst = took > worst ? took : worst;
	}
	return worst;
}

static int by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* The median time of 15 fills of the whole buffer, in seconds.  */
static double median_fill(struct own *o)
{
	double took[15];

	for (int i = 0; i < 15; i++) {
		took[i] = fills(o, 1);
		if (took[i] < 0)
			return -1;
	}
	qsort(took, 15, sizeof(took[0]), by_size);
	return took[7];
}

/*
 * Seconds until the fences that a DMA-buf has now are signalled; -ENOTTY if the kernel cannot
 * export them.  A poll() of the DMA-buf itself would wait for later fences, too.
 */
static double until_writable(int buf)
{
	struct dma_buf_export_sync_file now = { .flags = DMA_BUF_SYNC_WRITE };
	struct pollfd p = { .events = POLLIN };
	__u64 begin = mono_ns();
	int ret;

	if (ioctl(buf, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &now))
		return -errno;
	p.fd = now.fd;
	ret = poll(&p, 1, 60000);
	close(now.fd);
	return ret == 1 ? seconds_since(begin) : -ETIMEDOUT;
}

/*
 * One published entry of 62 GiB: with N clients that publish, 28 of 30 fences take at most 2N times
 * as long as filling 64 MiB on the quiet machine.
 */
TEST_F_TIMEOUT(publish, fences_are_bounded, 300)
{
	double quiet, took[30];
	int sock[2], buf;
	struct own o;
	pid_t pid[2];

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_DGRAM, 0, sock));
	ASSERT_EQ(0, own_open(&o, self->fd, UNIT, false));
	fills(&o, 1);
	quiet = fills(&o, 3);
	ASSERT_LT(0, quiet);
	own_close(&o);
	for (int n = 0; n < 2; n++) {
		struct attacker a = { .streams = 1, .export = true, .sock = sock[0] };

		pid[n] = start_attack(&a);
		ASSERT_LT(0, pid[n]);
		buf = recv_fd(sock[1]);
		ASSERT_LE(0, buf);
		for (int i = 0; i < 30; i++) {
			took[i] = until_writable(buf);
			if (took[i] == -ENOTTY)
				SKIP(return, "this kernel has no sync files");
			ASSERT_LE(0, took[i]);
			nap_ms(7);
		}
		/*
		 * The host may stop the machine for a moment, so the two worst times do not count.
		 */
		qsort(took, 30, sizeof(took[0]), by_size);
		TH_LOG("%d publish: %.4f s, %.4f s at worst; 64 MiB take %.4f s", n + 1, took[27],
		       took[29], quiet);
		EXPECT_LE(took[27], 2 * (n + 1) * quiet);
		close(buf);
	}
	for (int n = 0; n < 2; n++)
		kill_child(pid[n]);
	close(sock[0]);
	close(sock[1]);
}

/*
 * The engine serves published work round robin by client: a client with many streams gets no more
 * than a client with few.
 */
TEST_F_TIMEOUT(publish, clients_share_the_engine, 300)
{
	struct attacker a = {
		.streams = env_number("GPUMEM_QUICK", 0) ? 128 : 1024, .export = true, .sock = -1,
	};
	double quiet = 0, beside = 1;
	struct own o;
	pid_t pid;

	ASSERT_EQ(0, own_open(&o, self->fd, 8 * MIB, true));
	fills(&o, 1);
	/* The host may take CPUs away during one of the two. */
	for (int i = 0; i < 3 && beside > 3 * quiet; i++) {
		quiet = median_fill(&o);
		pid = start_attack(&a);
		ASSERT_LT(0, pid);
		beside = median_fill(&o);
		kill_child(pid);
		TH_LOG("8 MiB: %.4f s alone, %.4f s beside %u streams of one client", quiet, beside,
		       a.streams);
		ASSERT_LT(0, quiet);
		ASSERT_LT(0, beside);
	}
	EXPECT_LE(beside, 3 * quiet);
	own_close(&o);
}

/* The bytes that a client fills in @ms under a CPU limit.  */
static __u64 moved_under_limit(const struct cgroup *cg, bool export, unsigned int ms,
			       long long *cpu_us)
{
	volatile __u64 *moved = mmap(NULL, page_size, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct attacker a = { .cg = cg, .streams = 2, .export = export, .sock = -1, .moved = moved };
	pid_t pid = start_attack(&a);
	__u64 bytes = 0;

	if (pid > 0) {
		__u64 was = *moved;

		*cpu_us = cgroup_read_key(cg, "cpu.stat", "usage_usec");
		nap_ms(ms);
		bytes = *moved - was;
		*cpu_us = cgroup_read_key(cg, "cpu.stat", "usage_usec") - *cpu_us;
		kill_child(pid);
	}
	munmap((void *)moved, page_size);
	return bytes;
}

/* Exporting a buffer does not move its client's work out of a CPU limit. */
TEST_F_TIMEOUT(publish, no_way_around_a_cpu_limit, 300)
{
	__u64 plain = 0, exported = 1;
	long long cpu[2];
	struct cgroup cg;

	if (cgroup_make(&cg, "limit"))
		SKIP(return, "no cgroups");
	if (cgroup_write(&cg, "cpu.max", "10000 100000")) {
		cgroup_remove(&cg);
		SKIP(return, "no cpu controller");
	}
	/* The host may take CPUs away during one of the two. */
	for (int i = 0; i < 3 && exported * 10 > plain * 13; i++) {
		plain = moved_under_limit(&cg, false, 6000, &cpu[0]);
		exported = moved_under_limit(&cg, true, 6000, &cpu[1]);
		TH_LOG("%llu MiB plain in %lld us, %llu MiB exported in %lld us", plain / MIB,
		       cpu[0], exported / MIB, cpu[1]);
	}
	EXPECT_LT(0, plain);
	EXPECT_LE(exported * 10, plain * 13);
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 1, 10));
	EXPECT_EQ(0, cgroup_remove(&cg));
}

/* Stopping a process does not delay the fences of its published work.  */
TEST_F(publish, stopped_while_it_publishes)
{
	struct attacker a = { .streams = 4, .export = true };
	struct pollfd p = { .events = POLLOUT };
	int sock[2], buf, ret;
	pid_t pid;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_DGRAM, 0, sock));
	a.sock = sock[0];
	pid = start_attack(&a);
	ASSERT_LT(0, pid);
	buf = recv_fd(sock[1]);
	ASSERT_LE(0, buf);
	p.fd = buf;
	for (int i = 0; i < 10; i++) {
		ASSERT_EQ(0, kill(pid, SIGSTOP));
		ASSERT_EQ(pid, waitpid(pid, NULL, WUNTRACED));
		ret = poll(&p, 1, 60000);
		ASSERT_EQ(0, kill(pid, SIGCONT));
		ASSERT_EQ(1, ret);
		nap_ms(30);
	}
	kill_child(pid);
	EXPECT_EQ(1, poll(&p, 1, 60000));
	close(buf);
	close(sock[0]);
	close(sock[1]);
}

TEST_HARNESS_MAIN
