// SPDX-License-Identifier: GPL-2.0
/*
 * The effect of clients that misbehave on other processes: on fork(), another client's close(), the
 * end of a virtual machine, cgroup.procs.  The reference is the time of the same operation beside
 * busy loops, one for each CPU, which any user may run.  A bound holds if it holds in one of three
 * tries: the host may take a CPU away for some milliseconds.  fork measures both in turns, so that a
 * change of the host's load meets both.  Its client makes and ends tasks, so it has a second
 * reference, which any user may run, too: a process that makes and ends processes in a loop.  And it
 * has ten tries, because on a busy host tries with and without a delay alternate.
 */
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <linux/kvm.h>

#include "kselftest_harness.h"
#include "common/limits_util.h"
#include "common/stream_fixture.h"

STREAM_FIXTURE(neighbour)

#define TRIES	3
#define SAMPLES	20000
#define FORK_TRIES	10
#define SLICES	4	/* turns of a try */

/* The durations of an operation.  */
struct times {
	double worst, seconds[SAMPLES];
	unsigned int n;
};

static void add(struct times *t, double seconds)
{
	t->worst = seconds > t->worst ? seconds : t->worst;
	if (t->n < SAMPLES)
		t->seconds[t->n++] = seconds;
}

static int by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static double median(struct times *t)
{
	qsort(t->seconds, t->n, sizeof(t->seconds[0]), by_size);
	return t->n ? t->seconds[t->n / 2] : 0;
}

static double since(__u64 begin)
{
	return (mono_ns() - begin) / 1e9;
}

/* --- busy loops */

#define CPUS	64

struct loops {
	pid_t pid[CPUS];
	int n;
};

static int busy_loop(void *unused __attribute__((unused)))
{
	volatile int forever = 1;

	while (forever)
		;
	return 0;
}

static void loops_start(struct loops *l)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	for (l->n = 0; l->n < CPUS && l->n < cpus; l->n++)
		l->pid[l->n] = start_child(busy_loop, NULL);
}

static void loops_end(struct loops *l)
{
	while (l->n)
		kill_child(l->pid[--l->n]);
}

/* --- fork */

static void forks(struct times *t, double seconds)
{
	__u64 end = in_seconds(seconds), begin;
	pid_t pid;

	while (mono_ns() < end) {
		begin = mono_ns();
		pid = vfork();
		if (!pid)
			_exit(0);
		waitpid(pid, NULL, 0);
		add(t, since(begin));
	}
}

/* Makes and ends workers in a loop, and tells when the first one works.  */
static int makes_workers(void *arg)
{
	__u32 vm, s, timeline;
	int *to = arg;

	for (;;) {
		int fd = gp_open(0);

		gp_vm_create(fd, &vm);
		gp_stream_create(fd, vm, 0, 16, &s, &timeline);
		gp_stream_create(fd, vm, 0, 16, &s, &timeline);
		close(fd);
		if (*to >= 0)
			tell(*to);
		*to = -1;
	}
	return 0;
}

/* Makes and ends processes in a loop, as makes_workers() does with workers; tells when the first one ended.  */
static int makes_processes(void *arg)
{
	int *to = arg;
	pid_t pid[2];

	for (;;) {
		for (int i = 0; i < 2; i++) {
			pid[i] = fork();
			if (!pid[i])
				_exit(0);
		}
		for (int i = 0; i < 2; i++)
			if (pid[i] < 0 || waitpid(pid[i], NULL, 0) < 0)
				return 1;
		if (*to >= 0)
			tell(*to);
		*to = -1;
	}
	return 0;
}

TEST_F_TIMEOUT(neighbour, fork, 120)
{
	static struct times loop, process, client;
	struct loops l;
	bool good = false;
	pid_t pid;
	int to;

	for (int i = 0; i < FORK_TRIES && !good; i++) {
		loop = process = client = (struct times) { };
		for (int slice = 0; slice < SLICES; slice++) {
			/* The last client has ended: only the fixture's is left. */
			ASSERT_TRUE(dev_attr_becomes(0, "clients", 1, 10));
			loops_start(&l);
			forks(&loop, 0.25);
			loops_end(&l);
			pid = start_ready_child(makes_processes, &to, &to);
			ASSERT_LT(0, pid);
			forks(&process, 0.25);
			kill_child(pid);
			pid = start_ready_child(makes_workers, &to, &to);
			ASSERT_LT(0, pid);
			forks(&client, 0.25);
			kill_child(pid);
		}
		TH_LOG("beside loops %.0f us, at worst %.0f; beside processes %.0f us, at worst %.0f; "
		       "beside a client %.0f us, at worst %.0f", median(&loop) * 1e6, loop.worst * 1e6,
		       median(&process) * 1e6, process.worst * 1e6, median(&client) * 1e6,
		       client.worst * 1e6);
		good = median(&client) <= 2 * fmax(median(&loop), median(&process)) &&
		       client.worst <= 8 * fmax(loop.worst, process.worst);
	}
	EXPECT_TRUE(good);
}

/* --- close */

struct dying {
	unsigned int maps;
	int to;
};

/*
 * Makes many mappings, reports that, and waits: when it is killed, the kernel has to remove them.
 */
static int maps_much(void *arg)
{
	const struct dying *d = arg;
	int fd = gp_open(0);
	__u32 bo, vm;

	if (fd < 0 || gp_bo_alloc(fd, page_size, &bo) || gp_vm_create(fd, &vm))
		return 1;
	for (unsigned int i = 1; i <= d->maps; i++)
		if (gp_vm_map(fd, vm, bo, 0, i * page_size, page_size, 1, 1))
			return 2;
	if (!tell(d->to))
		return 3;
	for (;;)
		pause();
}

static double close_client(void *unused __attribute__((unused)))
{
	int fd = gp_open(0);
	__u64 begin = mono_ns();

	close(fd);
	return since(begin);
}

static double close_vm(void *kvm)
{
	int fd = ioctl(*(int *)kvm, KVM_CREATE_VM, 0);
	__u64 begin = mono_ns();

	close(fd);
	return since(begin);
}

/*
 * Calls @close_one beside busy loops and beside the end of a client with many mappings.  Are the
 * times of the second within the bounds?
 */
static bool beside_an_end(struct __test_metadata *_metadata, double (*close_one)(void *), void *arg)
{
	struct dying d = { .maps = env_number("GPUMEM_QUICK", 0) ? 15000 : 300000 };
	static struct times quiet, dies;
	double took, worst;
	struct loops l;
	__u64 begin;
	int up[2];
	pid_t pid;

	quiet = dies = (struct times) { };
	if (pipe(up))
		return false;
	d.to = up[1];
	loops_start(&l);
	for (begin = mono_ns(); since(begin) < 2;)
		add(&quiet, close_one(arg));
	loops_end(&l);
	pid = start_child(maps_much, &d);
	if (!hear(up[0])) {
		TH_LOG("the client failed");
		return false;
	}
	begin = mono_ns();
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, WNOHANG) == 0 || dies.n < 3)
		add(&dies, close_one(arg));
	took = since(begin);
	/* Go on for as long again, beside work that the process may have left to workers.  */
	while (since(begin) < 2 * took)
		add(&dies, close_one(arg));
	close(up[0]);
	close(up[1]);
	TH_LOG("beside loops %.2f ms, at worst %.2f; beside an end of %.2f s %.2f ms, at worst %.2f",
	       median(&quiet) * 1e3, quiet.worst * 1e3, took, median(&dies) * 1e3,
	       dies.worst * 1e3);
	/* A close that waited for the end of the client would take longer than this.  */
	worst = took > 8 * quiet.worst ? took / 2 : took;
	return median(&dies) <= 2 * median(&quiet) && dies.worst <= worst;
}

static bool one_end_is_good(struct __test_metadata *_metadata, double (*close_one)(void *), void *arg)
{
	for (int i = 0; i < TRIES; i++)
		if (beside_an_end(_metadata, close_one, arg))
			return true;
	return false;
}

TEST_F_TIMEOUT(neighbour, another_clients_close, 300)
{
	EXPECT_TRUE(one_end_is_good(_metadata, close_client, NULL));
}

/*
 * In the test machine: takes CPU 1 away and brings it back.
 *
 * KVM changes an instruction of schedule() with the first VM and changes it back with the last.  It
 * puts a breakpoint there for the time being.  QEMU may translate the breakpoint for another CPU in
 * that time, and that CPU then executes the breakpoint after the kernel has removed its handler.
 * With one CPU this cannot happen.
 */
static int one_cpu(bool alone)
{
	int ret = 0;

	if (access("/run/vm", F_OK) || access("/sys/devices/system/cpu/cpu1/online", F_OK))
		return 0;
	/* EBUSY: another task may disable CPU hotplug for a moment.  */
	for (int i = 0; i < 100; i++) {
		ret = write_file("/sys/devices/system/cpu/cpu1/online", alone ? "0" : "1");
		if (ret != -EBUSY)
			break;
		nap_ms(20);
	}
	return ret;
}

TEST_F_TIMEOUT(neighbour, a_virtual_machines_end, 300)
{
	int kvm, other;

	if (system("modprobe kvm_amd 2>/dev/null || modprobe kvm_intel 2>/dev/null"))
		TH_LOG("no module for KVM was loaded");
	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (kvm < 0)
		SKIP(return, "no KVM in this machine");
	ASSERT_EQ(0, one_cpu(true));
	/* This VM stays, so the VMs of the test are neither the first nor the last.  */
	other = ioctl(kvm, KVM_CREATE_VM, 0);
	EXPECT_EQ(0, one_cpu(false));
	ASSERT_LE(0, other);
	EXPECT_TRUE(one_end_is_good(_metadata, close_vm, &kvm));
	ASSERT_EQ(0, one_cpu(true));
	close(other);
	close(kvm);
	EXPECT_EQ(0, one_cpu(false));
}

/* --- cgroup.procs */

static int execs_for_ever(void *unused __attribute__((unused)))
{
	char *const args[] = { "t_neighbour", "exec-again", NULL };

	execv("/proc/self/exe", args);
	return 1;
}

struct mover {
	const struct cgroup *a, *b;
	volatile __u64 *moves;
	pid_t who;
};

static int moves_it(void *arg)
{
	const struct mover *m = arg;
	char text[16];

	snprintf(text, sizeof(text), "%d", m->who);
	for (;;) {
		cgroup_write(m->a, "cgroup.procs", text);
		cgroup_write(m->b, "cgroup.procs", text);
		++*m->moves;
	}
	return 0;
}

/* A client that executes itself is moved between cpusets: writers of cgroup.procs never hang. */
TEST_F_TIMEOUT(neighbour, cgroup_procs, 120)
{
	volatile __u64 *moves = mmap(NULL, page_size, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct cgroup a, b;
	struct mover m = { .a = &a, .b = &b, .moves = moves };
	pid_t mover;
	__u64 was;

	if (cgroup_make(&a, "a"))
		SKIP(return, "no cgroups");
	ASSERT_EQ(0, cgroup_make(&b, "b"));
	cgroup_control("+cpuset");
	cgroup_write(&a, "cpuset.cpus", "0");
	cgroup_write(&b, "cpuset.cpus", sysconf(_SC_NPROCESSORS_ONLN) > 1 ? "1" : "0");
	m.who = start_child(execs_for_ever, NULL);
	mover = start_child(moves_it, &m);
	for (int i = 0; i < 10; i++) {
		was = *moves;
		nap_ms(1000);
		EXPECT_LT(was, *moves);
	}
	TH_LOG("%llu moves there and back", *moves);
	kill_child(mover);
	kill_child(m.who);
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 1, 10));
	EXPECT_EQ(0, cgroup_remove(&a));
	EXPECT_EQ(0, cgroup_remove(&b));
	munmap((void *)moves, page_size);
}

/*
 * This program as cgroup_procs executes it: makes a client with a worker, and executes itself
 * again.
 */
static __attribute__((constructor)) void exec_again(int argc, char **argv)
{
	__u32 vm, s, timeline;
	int fd;

	if (argc != 2 || strcmp(argv[1], "exec-again"))
		return;
	fd = gp_open(0);
	gp_vm_create(fd, &vm);
	gp_stream_create(fd, vm, 0, 16, &s, &timeline);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	execv("/proc/self/exe", argv);
	_exit(1);
}

TEST_HARNESS_MAIN
