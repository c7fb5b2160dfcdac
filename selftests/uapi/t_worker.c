// SPDX-License-Identifier: GPL-2.0
/*
 * The engine's workers are threads of the process that opened the device: the scheduler, cgroups,
 * signals, debuggers, execve() and exit treat them as such.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "common/stream_fixture.h"

#define ENTRIES	1024

STREAM_FIXTURE(worker)

/* The memory that a child shares with the test. */
struct shared {
	volatile __u64 done;	/* entries completed */
	volatile int stop;
};

struct child {
	struct shared *shared;
	const struct cgroup *cg;
	int to, from, sock;
};

/*
 * Opens a device and a stream that is full of fills.  Returns 0, or the number of the step that
 * failed.
 */
static int busy_client(int *out, struct stream *s)
{
	struct gpumem_sqe fill = sqe_fill(ADDR, 8, 1, BYTES / 8);
	int fd = gp_open(0);
	__u32 vm, bo;

	if (fd < 0 || gp_bo_alloc(fd, BYTES, &bo) || gp_vm_create(fd, &vm) ||
	    gp_vm_map(fd, vm, bo, 0, ADDR, BYTES, 1, 1))
		return 1;
	if (stream_open(s, fd, vm, 0, ENTRIES))
		return 2;
	for (unsigned int i = 0; i < ENTRIES; i++)
		if (stream_push(s, &fill))
			return 3;
	*out = fd;
	return 0;
}

/* Keeps a stream busy, and reports its progress, until @stop is set or it is killed. */
static int busy(void *arg)
{
	struct child *c = arg;
	struct gpumem_sqe fill = sqe_fill(ADDR, 8, 1, BYTES / 8);
	struct stream s;
	int fd, ret;

	if (c->cg && cgroup_enter(c->cg))
		return 9;
	ret = busy_client(&fd, &s);
	if (ret)
		return ret;
	if (!tell(c->to))
		return 4;
	while (!c->shared->stop) {
		c->shared->done = s.page->value;
		if (s.tail - s.page->value < ENTRIES / 2)
			stream_push(&s, &fill);
		else
			nap_ms(1);
	}
	return 0;
}

static struct shared *share_page(void)
{
	struct shared *p = mmap(NULL, page_size, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static pid_t start_busy(struct child *c, const struct cgroup *cg)
{
	c->shared = share_page();
	c->cg = cg;
	return c->shared ? start_ready_child(busy, c, &c->to) : -1;
}

/* Does the child's stream complete entries within @seconds?  */
static bool moves(const struct child *c, double seconds)
{
	__u64 end = in_seconds(seconds), was = c->shared->done;

	while (c->shared->done == was)
		if (mono_ns() > end)
			return false;
	return true;
}

/* Does the child stop making progress? */
static bool rests(const struct child *c)
{
	__u64 was;

	for (int i = 0; i < 100; i++) {
		was = c->shared->done;
		nap_ms(100);
		if (c->shared->done == was)
			return true;
	}
	return false;
}

/* Makes a group with the controllers in @more; skips the case if there are none.  */
#define CGROUP(cg, name, more)						\
	do {								\
		if (cgroup_make(cg, name))				\
			SKIP(return, "no cgroups");			\
		if (cgroup_control(more)) {				\
			cgroup_remove(cg);				\
			SKIP(return, "no controller " more);		\
		}							\
	} while (0)

static int nice_and_pinned(void *unused __attribute__((unused)))
{
	struct stream s;
	cpu_set_t set;
	pid_t tid;
	int fd;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	if (setpriority(PRIO_PROCESS, 0, 19) || sched_setaffinity(0, sizeof(set), &set) ||
	    busy_client(&fd, &s))
		return 1;
	if (worker_threads(getpid(), &tid, 1) != 1)
		return 2;
	if (getpriority(PRIO_PROCESS, tid) != 19)
		return 3;
	if (sched_getaffinity(tid, sizeof(set), &set) || CPU_COUNT(&set) != 1 || !CPU_ISSET(0, &set))
		return 4;
	/* A process that may change the client's process may change its workers, too.  */
	CPU_ZERO(&set);
	CPU_SET(sysconf(_SC_NPROCESSORS_ONLN) - 1, &set);
	if (sched_setaffinity(tid, sizeof(set), &set))
		return 5;
	return stream_wait(&s, ENTRIES / 8, 100) ? 6 : 0;
}

TEST_F(worker, nice_and_affinity)
{
	EXPECT_EQ(0, run_child(nice_and_pinned, NULL));
}

/* The number of loop iterations that this process executes on all processors in @ms.  */
static __u64 loops(unsigned int ms)
{
	int n = sysconf(_SC_NPROCESSORS_ONLN);
	volatile __u64 *count = mmap(NULL, page_size, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pids[64];
	__u64 sum = 0;

	n = n < 64 ? n : 64;
	for (int i = 0; i < n; i++) {
		pids[i] = fork();
		while (!pids[i])
			count[i]++;
	}
	nap_ms(ms);
	for (int i = 0; i < n; i++) {
		kill_child(pids[i]);
		sum += count[i];
	}
	munmap((void *)count, page_size);
	return sum;
}

static int nice_busy(void *arg)
{
	return setpriority(PRIO_PROCESS, 0, 19) ? 1 : busy(arg);
}

static int nice_loop(void *unused __attribute__((unused)))
{
	volatile int forever = 1;

	if (setpriority(PRIO_PROCESS, 0, 19))
		return 1;
	while (forever)
		;
	return 0;
}

/*
 * Beside a client of nice 19 this process gets at least 0.7 of the CPU time that it gets beside a
 * loop of nice 19, in one of three tries.
 */
TEST_F(worker, nice_leaves_time_to_others)
{
	struct child c = { .shared = share_page() };
	__u64 beside_loop, beside_client;
	bool fair = false;
	int up[2];
	pid_t pid;

	ASSERT_NE(NULL, c.shared);
	ASSERT_EQ(0, pipe(up));
	c.to = up[1];
	for (int i = 0; i < 3 && !fair; i++) {
		pid = start_child(nice_loop, NULL);
		beside_loop = loops(1000);
		kill_child(pid);
		pid = start_child(nice_busy, &c);
		ASSERT_TRUE(hear(up[0]));
		beside_client = loops(1000);
		kill_child(pid);
		TH_LOG("%llu beside a loop, %llu beside a client", beside_loop, beside_client);
		fair = beside_loop * 7 < beside_client * 10;
	}
	EXPECT_TRUE(fair);
	close(up[0]);
	close(up[1]);
}

TEST_F(worker, cpuset)
{
	struct child c = {};
	struct cgroup cg;
	cpu_set_t set;
	pid_t pid, tid;
	char text[32];

	CGROUP(&cg, "cpuset", "+cpuset");
	pid = start_busy(&c, NULL);
	ASSERT_LT(0, pid);
	ASSERT_EQ(1, worker_threads(pid, &tid, 1));
	ASSERT_EQ(0, cgroup_write(&cg, "cpuset.cpus", "0"));
	snprintf(text, sizeof(text), "%d", pid);
	ASSERT_EQ(0, cgroup_write(&cg, "cgroup.procs", text));
	ASSERT_EQ(0, sched_getaffinity(tid, sizeof(set), &set));
	EXPECT_EQ(1, CPU_COUNT(&set));
	EXPECT_TRUE(CPU_ISSET(0, &set));
	EXPECT_TRUE(moves(&c, 20));
	kill_child(pid);
	EXPECT_EQ(0, cgroup_remove(&cg));
}

/*
 * If pids.max permits no worker, the first stream is refused; if it permits one, all streams share
 * it.
 */
static int few_threads(void *arg)
{
	const struct cgroup *cg = arg;
	struct stream s[3];
	__u32 vm;
	int fd;

	if (cgroup_enter(cg))
		return 1;
	fd = gp_open(0);
	if (fd < 0 || gp_vm_create(fd, &vm))
		return 2;
	if (cgroup_write(cg, "pids.max", "1"))
		return 3;
	if (stream_open(&s[0], fd, vm, 0, 16) != -EAGAIN)
		return 4;
	if (cgroup_write(cg, "pids.max", "2") || stream_open(&s[0], fd, vm, 0, 16))
		return 5;
	for (int i = 1; i < 3; i++) {
		struct gpumem_sqe nop = sqe_nop();

		if (stream_open(&s[i], fd, vm, 0, 16) || stream_push(&s[i], &nop) ||
		    stream_sync(&s[i]))
			return 6;
	}
	return worker_threads(getpid(), NULL, 0) == 1 ? 0 : 7;
}

TEST_F(worker, pids_max)
{
	struct cgroup cg;

	CGROUP(&cg, "pids", "+pids");
	EXPECT_EQ(0, run_child(few_threads, &cg));
	EXPECT_EQ(0, cgroup_remove(&cg));
}

/* Is the task in the cgroup?  With several hierarchies the last line of its list counts.  */
static bool in_cgroup(pid_t pid, pid_t tid, const struct cgroup *cg)
{
	const char *name = strrchr(cg->path, '/');
	char path[64], line[256];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/cgroup", pid, tid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		found |= !!strstr(line, name);
	if (f)
		fclose(f);
	return found;
}

TEST_F(worker, moves_to_another_cgroup)
{
	struct child c = {};
	struct cgroup a, b;
	pid_t pid, tid;
	char text[32];

	CGROUP(&a, "from", "+memory");
	ASSERT_EQ(0, cgroup_make(&b, "into"));
	pid = start_busy(&c, &a);
	ASSERT_LT(0, pid);
	ASSERT_EQ(1, worker_threads(pid, &tid, 1));
	EXPECT_TRUE(in_cgroup(pid, tid, &a));
	snprintf(text, sizeof(text), "%d", pid);
	ASSERT_EQ(0, cgroup_write(&b, "cgroup.procs", text));
	EXPECT_TRUE(in_cgroup(pid, tid, &b));
	/* The old group has no task of the process left. */
	EXPECT_EQ(0, rmdir(a.path));
	EXPECT_TRUE(moves(&c, 20));
	kill_child(pid);
	EXPECT_EQ(0, cgroup_remove(&b));
}

/* Seconds until cgroup.events says "frozen @value", or -1. */
static double until_frozen(const struct cgroup *cg, int value)
{
	__u64 begin = mono_ns();

	while (cgroup_read_key(cg, "cgroup.events", "frozen") != value) {
		if (mono_ns() - begin > 10000000000ULL)
			return -1;
		nap_ms(5);
	}
	return (mono_ns() - begin) / 1e9;
}

TEST_F(worker, freeze)
{
	struct child c = {};
	struct cgroup cg;
	double took;
	pid_t pid;

	CGROUP(&cg, "freeze", "+memory");
	pid = start_busy(&c, &cg);
	ASSERT_LT(0, pid);
	for (int i = 0; i < 3; i++) {
		EXPECT_TRUE(moves(&c, 20));
		ASSERT_EQ(0, cgroup_write(&cg, "cgroup.freeze", "1"));
		took = until_frozen(&cg, 1);
		TH_LOG("frozen after %.3f s", took);
		EXPECT_LE(0, took);
		EXPECT_GE(1, took);
		EXPECT_TRUE(rests(&c));
		ASSERT_EQ(0, cgroup_write(&cg, "cgroup.freeze", "0"));
	}
	EXPECT_TRUE(moves(&c, 20));
	kill_child(pid);
	EXPECT_EQ(0, cgroup_remove(&cg));
}

TEST_F(worker, cgroup_kill)
{
	struct child c = {};
	struct cgroup cg;
	int status;
	pid_t pid;

	CGROUP(&cg, "kill", "+memory");
	pid = start_busy(&c, &cg);
	ASSERT_LT(0, pid);
	ASSERT_EQ(0, cgroup_write(&cg, "cgroup.kill", "1"));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 1, 10));
	EXPECT_EQ(0, cgroup_remove(&cg));
}

TEST_F(worker, stop_and_continue)
{
	struct child c = {};
	pid_t pid = start_busy(&c, NULL);

	ASSERT_LT(0, pid);
	for (int i = 0; i < 3; i++) {
		EXPECT_TRUE(moves(&c, 20));
		ASSERT_EQ(0, kill(pid, SIGSTOP));
		ASSERT_EQ(pid, waitpid(pid, NULL, WUNTRACED));
		EXPECT_TRUE(rests(&c));
		ASSERT_EQ(0, kill(pid, SIGCONT));
	}
	EXPECT_TRUE(moves(&c, 20));
	kill_child(pid);
}

/* As a debugger does: all threads, the workers included, are seized, stopped and detached. */
TEST_F(worker, debugger)
{
	struct child c = {};
	pid_t pid = start_busy(&c, NULL), tids[2];
	int status;

	ASSERT_LT(0, pid);
	tids[0] = pid;
	ASSERT_EQ(1, worker_threads(pid, &tids[1], 1));
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(0, ptrace(PTRACE_SEIZE, tids[i], 0, 0));
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(0, ptrace(PTRACE_INTERRUPT, tids[i], 0, 0));
		ASSERT_EQ(tids[i], waitpid(tids[i], &status, __WALL));
		EXPECT_TRUE(WIFSTOPPED(status));
	}
	EXPECT_TRUE(rests(&c));
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(0, ptrace(PTRACE_DETACH, tids[i], 0, 0));
	EXPECT_TRUE(moves(&c, 20));
	kill_child(pid);
}

enum how { EXIT, EXEC, ABORT };

static int ends(void *arg)
{
	char *const args[] = { "true", NULL };
	const enum how *how = arg;
	struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };
	struct stream s;
	int fd;

	if (busy_client(&fd, &s) || stream_wait(&s, 1, 20))
		return 1;
	switch (*how) {
	case EXEC:
		/* The descriptor stays open in the new program. */
		fcntl(fd, F_SETFD, 0);
		execv("/bin/true", args);
		return 2;
	case ABORT:
		setrlimit(RLIMIT_CORE, &limit);
		chdir("/tmp");
		abort();
	default:
		_exit(0);
	}
}

TEST_F(worker, exit_and_exec_while_busy)
{
	static const enum how how[] = { EXIT, EXEC };

	for (int i = 0; i < 10; i++)
		EXPECT_EQ(0, run_child(ends, (void *)&how[i % 2]));
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 1, 10));
}

TEST_F(worker, core_dump)
{
	enum how how = ABORT;

	EXPECT_EQ(-SIGABRT, run_child(ends, &how));
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 1, 10));
}

/* Opens a busy client, sends its descriptor away, closes its own copy and goes on.  */
static int gives_away(void *arg)
{
	struct child *c = arg;
	struct stream s;
	int fd;

	if (busy_client(&fd, &s) || send_fd(c->sock, fd))
		return 1;
	unmap_all();
	close(fd);
	if (!tell(c->to))
		return 2;
	for (;;)
		pause();
}

/* Another process makes the last close while the opener's process is stopped.  */
TEST_F(worker, closed_while_stopped)
{
	struct child c = {};
	int sock[2], up[2], fd;
	pid_t pid;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_DGRAM, 0, sock));
	ASSERT_EQ(0, pipe(up));
	c.sock = sock[0];
	c.to = up[1];
	pid = start_child(gives_away, &c);
	ASSERT_LT(0, pid);
	fd = recv_fd(sock[1]);
	ASSERT_LE(0, fd);
	ASSERT_TRUE(hear(up[0]));
	ASSERT_EQ(0, kill(pid, SIGSTOP));
	ASSERT_EQ(pid, waitpid(pid, NULL, WUNTRACED));
	EXPECT_EQ(0, close(fd));
	/* The workers are stopped as well; the close does not wait for them.  */
	EXPECT_EQ(1, dev_attr(0, "clients"));
	ASSERT_EQ(0, kill(pid, SIGCONT));
	for (int i = 0; worker_threads(pid, NULL, 0) && i < 1000; i++)
		nap_ms(10);
	EXPECT_EQ(0, worker_threads(pid, NULL, 0));
	kill_child(pid);
	close(sock[0]);
	close(sock[1]);
	close(up[0]);
	close(up[1]);
}

static int another_process(void *arg)
{
	const struct gpumem_sqe nop = sqe_nop();
	struct stream *s = arg, other;
	__u32 vm;
	int ret;

	/* This process shares the opener's address space and is not the opener's process.  */
	if (gp_vm_create(s->fd, &vm))
		return 1;
	ret = stream_open(&other, s->fd, vm, 0, 16);
	if (ret != -EPERM)
		return 2;
	return stream_push(s, &nop) || stream_sync(s) ? 3 : 0;
}

/* A process that shares the address space (vfork) may use streams and make none. */
TEST_F(worker, only_the_openers_process)
{
	char *stack = malloc(65536);
	int status;
	pid_t pid;

	ASSERT_NE(NULL, stack);
	pid = clone(another_process, stack + 65536, CLONE_VM | CLONE_FILES | SIGCHLD, &self->s);
	ASSERT_LT(0, pid);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status));
	free(stack);
}

struct orphan {
	struct stream s;
	int to, from;
};

static int outlives(void *arg)
{
	struct orphan *o = arg;
	int ret;

	if (!hear(o->from))
		_exit(1);
	/*
	 * The opener's process has exited and its address space exists: the stream ends with an
	 * error.
	 */
	ret = stream_wait(&o->s, ENTRIES, 100);
	close(o->s.fd);
	if (write(o->to, &ret, sizeof(ret)) != sizeof(ret))
		_exit(2);
	_exit(0);
}

static int dies_before(void *arg)
{
	struct orphan *o = arg;
	char *stack = malloc(65536);
	int fd;

	if (!stack || busy_client(&fd, &o->s))
		return 1;
	if (clone(outlives, stack + 65536, CLONE_VM | SIGCHLD, o) < 0)
		return 2;
	raise(SIGKILL);
	return 3;
}

TEST_F(worker, the_opener_dies_first)
{
	struct orphan o = {};
	int up[2], down[2], ret = 0;

	ASSERT_EQ(0, pipe(up));
	ASSERT_EQ(0, pipe(down));
	o.to = up[1];
	o.from = down[0];
	ASSERT_EQ(-SIGKILL, run_child(dies_before, &o));
	ASSERT_TRUE(tell(down[1]));
	ASSERT_EQ(sizeof(ret), read(up[0], &ret, sizeof(ret)));
	EXPECT_EQ(-EIO, ret);
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 1, 10));
	close(up[0]);
	close(up[1]);
	close(down[0]);
	close(down[1]);
}

static void ignore(int sig __attribute__((unused)))
{
}

/* Frequent signals do not prevent the creation of streams.  */
TEST_F(worker, signals_while_it_is_made)
{
	struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = {};
	struct sigaction act = { .sa_handler = ignore, .sa_flags = SA_RESTART };
	struct gpumem_sqe nop = sqe_nop();
	int made = 0, fd, ret;
	struct stream s;
	__u32 vm;

	ASSERT_EQ(0, sigaction(SIGALRM, &act, NULL));
	ASSERT_EQ(0, setitimer(ITIMER_REAL, &often, NULL));
	for (int i = 0; i < 100; i++) {
		fd = gp_open(0);
		if (fd < 0)
			break;
		if (!gp_vm_create(fd, &vm) && !stream_open(&s, fd, vm, 0, 16) &&
		    !stream_push(&s, &nop)) {
			/* A signal may interrupt the wait: repeat it.  */
			do {
				ret = stream_sync(&s);
			} while (ret == -EINTR);
			made += !ret && !stream_close(&s);
		}
		close(fd);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	EXPECT_EQ(100, made);
}

/* Entries that a child completes in so many ms. */
static __u64 done_in(const struct child *c, unsigned int ms)
{
	__u64 was = c->shared->done;

	nap_ms(ms);
	return c->shared->done - was;
}

/* A CPU limit binds the work of streams, on every kernel.  */
TEST_F(worker, cpu_max)
{
	struct child c = {};
	__u64 free, limited;
	struct cgroup cg;
	pid_t pid;

	CGROUP(&cg, "max", "+cpu");
	pid = start_busy(&c, &cg);
	ASSERT_LT(0, pid);
	free = done_in(&c, 2000);
	ASSERT_EQ(0, cgroup_write(&cg, "cpu.max", "10000 100000"));
	nap_ms(300);
	limited = done_in(&c, 4000);
	TH_LOG("%llu entries in 2 s, %llu in 4 s of a tenth of a processor", free, limited);
	EXPECT_LT(0, limited);
	/* A tenth of a processor for twice the time, with room for a busy machine. */
	EXPECT_LT(limited * 2, free);
	kill_child(pid);
	EXPECT_EQ(0, cgroup_remove(&cg));
}

TEST_HARNESS_MAIN
