// SPDX-License-Identifier: GPL-2.0
/*
 * Whose time the engine takes: streams run in threads of their process, so the process's cgroup pays,
 * and a long queue of one client does not stand in front of another's.
 */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "stream_fixture.h"

STREAM_FIXTURE(fair)

struct job {
	int to, from;
	const struct cgroup *cg;
	unsigned int streams, fills;
	__u64 *done;		/* entries completed, shared */
};

/* Queues much work on many streams, tells, and waits for it. */
static int greedy(void *arg)
{
	const struct job *job = arg;
	struct gpumem_sqe fill = sqe_fill(ADDR, 8, 1, BYTES / 8);
	struct stream s[64];
	__u32 vm, bo;
	int fd;

	if (job->cg && cgroup_enter(job->cg))
		return 1;
	fd = gp_open(0);
	if (fd < 0 || gp_bo_alloc(fd, BYTES, &bo) || gp_vm_create(fd, &vm) ||
	    gp_vm_map(fd, vm, bo, 0, ADDR, BYTES, 1, 1))
		return 2;
	for (unsigned int i = 0; i < job->streams; i++)
		if (stream_open(&s[i], fd, vm, 0, 1024))
			return 3;
	for (unsigned int i = 0; i < job->streams; i++) {
		for (unsigned int n = 0; n < job->fills; n++)
			if (stream_push(&s[i], &fill))
				return 4;
	}
	if (!tell(job->to))
		return 5;
	for (unsigned int i = 0; i < job->streams; i++) {
		if (job->from >= 0 && i == 0 && !hear(job->from))
			return 6;
		if (job->done) {
			for (unsigned int k = 0; k < job->streams; k++)
				*job->done += s[k].page->value;
			return 0;
		}
		if (stream_wait(&s[i], job->fills, 300))
			return 7;
	}
	return 0;
}

/*
 * Another client's queue of 64 streams is full of gigabytes; a small copy does not wait until they
 * are done, nor until each of them has had a turn.
 */
TEST_F(fair, small_copy_beside_a_long_queue)
{
	__u64 *done = mmap(NULL, page_size, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int up[2], down[2], pid;
	struct job job = { .streams = 64, .fills = 200, .done = done };
	struct gpumem_sqe copy = sqe_copy(ADDR + MIB, ADDR, 4096);

	ASSERT_NE(MAP_FAILED, done);
	ASSERT_EQ(0, pipe(up));
	ASSERT_EQ(0, pipe(down));
	job.to = up[1];
	job.from = down[0];
	pid = start_child(greedy, &job);
	ASSERT_LT(0, pid);
	ASSERT_TRUE(hear(up[0]));
	self->p[0] = 42;
	ASSERT_EQ(0, stream_push(&self->s, &copy));
	ASSERT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(42, self->p[MIB]);
	ASSERT_TRUE(tell(down[1]));
	EXPECT_EQ(0, end_child(pid));
	/* It had 25 GiB to do: far from done. */
	TH_LOG("%llu of %u", *done, job.streams * job.fills);
	EXPECT_GT(job.streams * job.fills / 2, *done);
	munmap(done, page_size);
	close(up[0]);
	close(up[1]);
	close(down[0]);
	close(down[1]);
}

TEST_F(fair, charged_to_the_cgroup)
{
	struct job job = { .from = -1, .streams = 2, .fills = 200 };
	long long before, after, spent;
	struct rusage usage;
	struct cgroup cg;
	int up[2], pid, status;

	if (cgroup_make(&cg, "fair"))
		SKIP(return, "no memory cgroups");
	before = cgroup_read_key(&cg, "cpu.stat", "usage_usec");
	if (before < 0) {
		cgroup_remove(&cg);
		SKIP(return, "no cpu cgroups");
	}
	ASSERT_EQ(0, pipe(up));
	job.to = up[1];
	job.cg = &cg;
	pid = start_child(greedy, &job);
	ASSERT_LT(0, pid);
	ASSERT_TRUE(hear(up[0]));
	/* One for each stream, or for each processor. */
	EXPECT_EQ(sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 2 : 1, worker_threads(pid, NULL, 0));
	ASSERT_EQ(pid, wait4(pid, &status, 0, &usage));
	EXPECT_TRUE(WIFEXITED(status) && !WEXITSTATUS(status));
	after = cgroup_read_key(&cg, "cpu.stat", "usage_usec");
	TH_LOG("cgroup %lld us, of these the process %lld us", after - before,
	       (long long)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
	       usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
	/* The engine's time is the process's and the cgroup's. */
	spent = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
		usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
	EXPECT_LT(after - before, 2 * spent);
	EXPECT_LT(spent, 2 * (after - before));
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 1, 10));
	EXPECT_EQ(0, cgroup_remove(&cg));
	close(up[0]);
	close(up[1]);
}

/* A cgroup's CPU limit slows its own engine work down, and that of nobody else. */
TEST_F(fair, obeys_the_cgroup_limit)
{
	struct job job = { .from = -1, .streams = 1, .fills = 200 };
	struct gpumem_sqe copy = sqe_copy(ADDR + MIB, ADDR, 4096);
	struct cgroup cg;
	int up[2], pid;

	if (cgroup_make(&cg, "limit"))
		SKIP(return, "no memory cgroups");
	if (cgroup_write(&cg, "cpu.max", "10000 100000")) {
		cgroup_remove(&cg);
		SKIP(return, "no cpu cgroups");
	}
	ASSERT_EQ(0, pipe(up));
	job.to = up[1];
	job.cg = &cg;
	pid = start_child(greedy, &job);
	ASSERT_LT(0, pid);
	ASSERT_TRUE(hear(up[0]));
	ASSERT_EQ(0, stream_push(&self->s, &copy));
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(0, end_child(pid));
	TH_LOG("throttled %lld times", cgroup_read_key(&cg, "cpu.stat", "nr_throttled"));
	EXPECT_LT(0, cgroup_read_key(&cg, "cpu.stat", "nr_throttled"));
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 1, 10));
	EXPECT_EQ(0, cgroup_remove(&cg));
	close(up[0]);
	close(up[1]);
}

/* Streams without end take threads, not without end. */
TEST_F(fair, threads_are_few)
{
	struct stream s[40];

	for (int i = 0; i < 40; i++)
		ASSERT_EQ(0, stream_open(&s[i], self->fd, self->vm, 0, 16));
	EXPECT_EQ(sysconf(_SC_NPROCESSORS_ONLN) < 16 ? sysconf(_SC_NPROCESSORS_ONLN) : 16,
		  worker_threads(getpid(), NULL, 0));
	for (int i = 0; i < 40; i++)
		EXPECT_EQ(0, stream_close(&s[i]));
}

TEST_HARNESS_MAIN
