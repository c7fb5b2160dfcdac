// SPDX-License-Identifier: GPL-2.0
/*
 * Fairness of the engine: a client's streams run in threads of its process, so its cgroup pays for
 * their CPU time; and a long queue of one client does not delay another client.
 */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "common/stream_fixture.h"

STREAM_FIXTURE(fair)

struct job {
	int to, from;
	const struct cgroup *cg;
	unsigned int streams, fills;
	__u64 *done;		/* entries completed, shared */
};

/* Queues much work on many streams, reports that to the parent, and waits for the work.  */
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
 * Another client has gigabytes of work queued on 64 streams.  A small copy waits neither until that
 * work is done nor until each of the streams has run.
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
	/* The other client had 25 GiB to do; at most half of it is done.  */
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
	int pid, status;

	if (cgroup_make(&cg, "fair"))
		SKIP(return, "no memory cgroups");
	before = cgroup_read_key(&cg, "cpu.stat", "usage_usec");
	if (before < 0) {
		cgroup_remove(&cg);
		SKIP(return, "no cpu cgroups");
	}
	job.cg = &cg;
	pid = start_ready_child(greedy, &job, &job.to);
	ASSERT_LT(0, pid);
	/* A worker for each of the two streams, but not more than processors.  */
	EXPECT_EQ(sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 2 : 1, worker_threads(pid, NULL, 0));
	ASSERT_EQ(pid, wait4(pid, &status, 0, &usage));
	EXPECT_TRUE(WIFEXITED(status) && !WEXITSTATUS(status));
	after = cgroup_read_key(&cg, "cpu.stat", "usage_usec");
	TH_LOG("cgroup %lld us, of these the process %lld us", after - before,
	       (long long)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
	       usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
	/* The engine's CPU time is charged to the process and to its cgroup.  */
	spent = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
		usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
	EXPECT_LT(after - before, 2 * spent);
	EXPECT_LT(spent, 2 * (after - before));
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 1, 10));
	EXPECT_EQ(0, cgroup_remove(&cg));
}

/* A cgroup's CPU limit slows down its own engine work, and no other. */
TEST_F(fair, obeys_the_cgroup_limit)
{
	struct job job = { .from = -1, .streams = 1, .fills = 200 };
	struct gpumem_sqe copy = sqe_copy(ADDR + MIB, ADDR, 4096);
	struct cgroup cg;
	int pid;

	if (cgroup_make(&cg, "limit"))
		SKIP(return, "no memory cgroups");
	if (cgroup_write(&cg, "cpu.max", "10000 100000")) {
		cgroup_remove(&cg);
		SKIP(return, "no cpu cgroups");
	}
	job.cg = &cg;
	pid = start_ready_child(greedy, &job, &job.to);
	ASSERT_LT(0, pid);
	ASSERT_EQ(0, stream_push(&self->s, &copy));
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(0, end_child(pid));
	TH_LOG("throttled %lld times", cgroup_read_key(&cg, "cpu.stat", "nr_throttled"));
	EXPECT_LT(0, cgroup_read_key(&cg, "cpu.stat", "nr_throttled"));
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 1, 10));
	EXPECT_EQ(0, cgroup_remove(&cg));
}

/* Many streams of a client share a bounded number of threads.  */
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
