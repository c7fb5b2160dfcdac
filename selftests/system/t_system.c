// SPDX-License-Identifier: GPL-2.0
/*
 * The system around a busy device: CPUs and memory go offline and come back, tasks are frozen for a
 * suspend, threads of one client change their user, and the machine commits no more memory.
 *
 * Feeders keep the rings of several streams filled and compare what was copied, while the main
 * thread changes the system.  Every stream must go on afterwards, with the right contents and
 * without an error, and nothing may be left. run_kselftest.sh reads the kernel's log.
 *
 * The cases change settings of the machine.  restore() puts them back: after each case, in the
 * parent of its process, and when the program ends.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "common/leak.h"
#include "common/pin_util.h"
#include "system_util.h"

#define NOBODY		65534

/* --- fixtures: teardown runs in the parent, even if the case died */

#define RESTORED(name)						\
FIXTURE_SETUP(name)							\
{									\
	ASSERT_TRUE(dev_quiet(10));					\
	leak_begin(&self->leak);					\
}									\
									\
FIXTURE_TEARDOWN_PARENT(name)						\
{									\
	restore();							\
	EXPECT_TRUE(dev_quiet(20));					\
	EXPECT_TRUE(leak_end(&self->leak));				\
}

FIXTURE(sys)
{
	struct leak_state leak;
};

RESTORED(sys)

/* --- CPUs */

static int cpu1_online(bool online)
{
	int ret;

	/* EBUSY: another task may disable CPU hotplug for a moment.  */
	for (int i = 0; i < 100; i++) {
		ret = write_file(CPU1, online ? "1" : "0");
		if (ret != -EBUSY)
			break;
		nap_ms(20);
	}
	return ret;
}

/* @bound: the client's process, and so its workers, may run on CPU 1 only.  */
static void cpu_hotplug(struct __test_metadata *_metadata, bool bound)
{
	unsigned int rounds = getenv("GPUMEM_QUICK") ? 3 : 8;
	struct busy b = {};
	cpu_set_t set;
	char was[8];

	if (!read_line(CPU1, was, sizeof(was)) || was[0] != '1' || !may_change())
		SKIP(return, "needs a machine that may be changed, with a second CPU");
	/* The kernel's select_fallback_rq() calls kfree_rcu() with the run queue's lock held. */
	if (bound && !access("/proc/lockdep", F_OK))
		SKIP(return, "lockdep finds fault with the kernel's own way to move such a process");
	if (bound) {
		CPU_ZERO(&set);
		CPU_SET(1, &set);
		ASSERT_EQ(0, sched_setaffinity(0, sizeof(set), &set));
	}
	ASSERT_EQ(0, busy_start(&b));
	ASSERT_TRUE(busy_goes_on(&b));
	if (bound) {
		/* This thread alone: it has to work while CPU 1 is gone. */
		CPU_SET(0, &set);
		ASSERT_EQ(0, sched_setaffinity(0, sizeof(set), &set));
	}
	for (unsigned int i = 0; i < rounds; i++) {
		ASSERT_EQ(0, cpu1_online(false));
		ASSERT_TRUE(busy_goes_on(&b));
		ASSERT_EQ(0, cpu1_online(true));
		/*
		 * In every other round wait until the feeders have made a round, so that tasks can
		 * return to CPU 1.
		 */
		ASSERT_TRUE(i % 2 || busy_goes_on(&b));
	}
	EXPECT_TRUE(busy_end(&b));
}

TEST_F_TIMEOUT(sys, cpu_hotplug, 240)
{
	cpu_hotplug(_metadata, false);
}

TEST_F_TIMEOUT(sys, cpu_hotplug_bound, 240)
{
	cpu_hotplug(_metadata, true);
}

/* --- suspend */

#define DEEP_BYTES	(16 * MIB)
#define DEEP_ENTRIES	2048

/* Are the workers of this process kernel threads? Kernel threads are not frozen with user space. */
static bool workers_are_kthreads(void)
{
	char path[64], line[512], name[32];
	struct dirent *e;
	DIR *d = opendir("/proc");
	bool found = false;
	int ppid;

	snprintf(name, sizeof(name), "(gpumem/%d)", getpid());
	while (d && !found && (e = readdir(d))) {
		snprintf(path, sizeof(path), "/proc/%.20s/stat", e->d_name);
		if (e->d_name[0] < '0' || e->d_name[0] > '9' || !read_line(path, line, sizeof(line)))
			continue;
		found = strstr(line, name) && sscanf(strstr(line, ") "), ") %*c %d", &ppid) == 1 &&
			ppid == 2;
	}
	if (d)
		closedir(d);
	return found;
}

static unsigned int least_of(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

/* Push copies up to number @to, each with a time stamp behind it. Returns the number of copies in all, or 0. */
static unsigned int push_pieces(struct stream *s, const struct gpumem_sqe *piece, __u64 stamps, unsigned int from,
				unsigned int to)
{
	for (unsigned int i = from; i < to; i++) {
		struct gpumem_sqe stamp = sqe_timestamp(stamps + i * 8);

		if (stream_push(s, piece) || stream_push(s, &stamp))
			return 0;
	}
	return from > to ? from : to;
}

FIXTURE(suspend)
{
	struct leak_state leak;
};

FIXTURE_VARIANT(suspend)
{
	const char *state;
};

FIXTURE_VARIANT_ADD(suspend, freeze) { .state = "freeze" };
FIXTURE_VARIANT_ADD(suspend, mem) { .state = "mem" };

RESTORED(suspend)

/*
 * The kernel's own test of suspending: it goes as far as pm_test says, waits a second, and comes
 * back.  The level is "freezer", unless GPUMEM_SUSPEND names another one: from "devices" on, the
 * root over 9p and QEMU's serial lines are suspended, too, and not every one comes back.
 *
 * Beside the feeders there is a stream whose ring holds several seconds of work, each piece with a
 * time stamp.  A worker that is a task of the process is frozen, which the time stamps show.
 */
TEST_F_TIMEOUT(suspend, busy, 240)
{
	const char *level = getenv("GPUMEM_SUSPEND") ?: "freezer";
	__u64 began, each, gap = 0, spent, last, *stamps;
	struct gpumem_sqe sqe;
	unsigned int n, done = 0;
	unsigned char *deep;
	struct busy b = {};
	struct stream s;
	char text[128];
	__u32 bo;

	if (!may_change() ||
	    !read_line("/sys/power/pm_test", text, sizeof(text)) || !strstr(text, level) ||
	    !read_line("/sys/power/state", text, sizeof(text)) || !strstr(text, variant->state))
		SKIP(return, "needs a machine that may be changed, with pm_test and this kind of suspend");
	write_file("/sys/power/sync_on_suspend", "0");
	ASSERT_EQ(0, write_file("/sys/module/suspend/parameters/pm_test_delay", "1"));
	ASSERT_EQ(0, write_file("/sys/power/pm_test", level));

	ASSERT_EQ(0, busy_start(&b));
	ASSERT_EQ(0, gp_bo_alloc(b.fd, 2 * DEEP_BYTES + MIB, &bo));
	ASSERT_EQ(0, gp_vm_map(b.fd, b.vm, bo, 0, 2 * ADDR, 2 * DEEP_BYTES + MIB, 1, 1));
	deep = gp_map(b.fd, bo, 0, 2 * DEEP_BYTES + MIB, RW);
	ASSERT_NE(NULL, deep);
	stamps = (__u64 *)(deep + 2 * DEEP_BYTES);
	memset(deep, 0x5a, DEEP_BYTES);
	ASSERT_EQ(0, stream_open(&s, b.fd, b.vm, 0, 2 * DEEP_ENTRIES));
	sqe = sqe_copy(2 * ADDR + DEEP_BYTES, 2 * ADDR, DEEP_BYTES);
	began = mono_ns();
	for (int i = 0; i < 4; i++)
		ASSERT_EQ(0, stream_push(&s, &sqe));
	ASSERT_EQ(0, stream_sync(&s));
	each = (mono_ns() - began) / 4;
	/* Entries for four seconds.  */
	began = mono_ns();
	n = push_pieces(&s, &sqe, 2 * ADDR + 2 * DEEP_BYTES, 0, least_of(4 * NSEC / each + 8, DEEP_ENTRIES / 2));
	ASSERT_NE(0, n);
	ASSERT_TRUE(busy_goes_on(&b));
	/* The machine may be faster now than it was: go on for four seconds at the pace that the ring had meanwhile. */
	while (done < n && *(volatile __u64 *)&stamps[done])
		done++;
	each = (mono_ns() - began) / (done + 1);
	n = push_pieces(&s, &sqe, 2 * ADDR + 2 * DEEP_BYTES, n,
			least_of(done + 4 * NSEC / each + 8, DEEP_ENTRIES - 8));
	ASSERT_NE(0, n);

	began = mono_ns();
	ASSERT_EQ(0, write_file("/sys/power/state", variant->state));
	spent = mono_ns() - began;
	EXPECT_TRUE(busy_goes_on(&b));
	EXPECT_EQ(0, stream_wait(&s, s.tail, 60));
	EXPECT_EQ(0, s.page->error);
	EXPECT_TRUE(all_are(deep + DEEP_BYTES, 0x5a, DEEP_BYTES));
	last = stamps[0];
	for (unsigned int i = 1; i < n; i++) {
		if (stamps[i] - last > gap)
			gap = stamps[i] - last;
		last = stamps[i];
	}
	TH_LOG("%u pieces of %.1f ms; suspended %.2f s; longest pause of the ring %.2f s", n,
	       each / 1e6, spent / 1e9, gap / 1e9);
	/*
	 * The kernel waited for a second by its delay loop, which it measured at boot: the loop is
	 * shorter if the machine was slower then.
	 */
	EXPECT_LT(NSEC / 4, spent);
	if (workers_are_kthreads()) {
		TH_LOG("the workers are kernel threads: they are not frozen");
	} else {
		EXPECT_LT(spent / 2, gap);
	}
	EXPECT_EQ(0, stream_close(&s));
	EXPECT_TRUE(busy_end(&b));
}

/* --- memory goes offline */

/* The memory block of the page at @p, or -1. */
static long block_of(const void *p, unsigned long long block_bytes)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	__u64 entry = 0;
	ssize_t n;

	if (fd < 0)
		return -1;
	n = pread(fd, &entry, sizeof(entry), (uintptr_t)p / page_size * sizeof(entry));
	close(fd);
	if (n != sizeof(entry) || !(entry >> 63) || !(entry & ((1ULL << 55) - 1)))
		return -1;
	return (entry & ((1ULL << 55) - 1)) * page_size / block_bytes;
}

struct offline {
	long block;
	int result;		/* negative errno, 0: offline */
	__u64 ns;
};

static void nothing(int sig)
{
	(void)sig;
}

/* Takes the block offline; a signal ends an attempt that takes too long, with EINTR.  */
static int take_offline(void *arg)
{
	struct offline *o = arg;
	struct sigaction sa = { .sa_handler = nothing };
	char path[96];
	__u64 began;

	sigaction(SIGALRM, &sa, NULL);
	snprintf(path, sizeof(path), MEMORY "/memory%ld/state", o->block);
	alarm(120);
	began = mono_ns();
	o->result = write_file(path, "offline");
	o->ns = mono_ns() - began;
	return 0;
}

static int bring_online(long block)
{
	char path[96];

	snprintf(path, sizeof(path), MEMORY "/memory%ld/state", block);
	return write_file(path, "online");
}

#define HELD		(16 * MIB)	/* bytes of a buffer object that is looked at */

/*
 * Taking a block that holds device memory offline succeeds or fails in bounded time: pages that the
 * device keeps in place must not make the kernel retry for ever.  The memory keeps its contents
 * either way.
 */
TEST_F_TIMEOUT(sys, memory_offline, 300)
{
	unsigned int bos = dev_attr(0, "size") * 3 / 4 / HELD, blocks = 0, asked = 0;
	unsigned char *p[64];
	unsigned long long block_bytes;
	struct busy b = {};
	struct offline *o;
	long seen[16];
	char text[64];
	__u32 bo;

	if (!may_change() || !read_line(MEMORY "/block_size_bytes", text, sizeof(text)))
		SKIP(return, "needs a machine that may be changed, with memory that can go offline");
	block_bytes = strtoull(text, NULL, 16);
	o = mmap(NULL, page_size, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, o);
	ASSERT_EQ(0, busy_start(&b));
	if (bos > ARRAY_SIZE(p))
		bos = ARRAY_SIZE(p);
	for (unsigned int i = 0; i < bos; i++) {
		p[i] = gp_alloc_map(b.fd, HELD, &bo);
		ASSERT_NE(NULL, p[i]);
		memset(p[i], i, HELD);
	}
	for (size_t at = 0; at < bos * HELD; at += 2 * MIB) {
		long block = block_of(p[at / HELD] + at % HELD, block_bytes);
		bool again = block < 0;

		for (unsigned int i = 0; i < blocks; i++)
			again |= seen[i] == block;
		if (again || blocks == ARRAY_SIZE(seen))
			continue;
		seen[blocks++] = block;
		*o = (struct offline) { .block = block };
		ASSERT_EQ(0, run_child(take_offline, o));
		TH_LOG("memory%ld: %s after %.2f s", block,
		       o->result ? strerror(-o->result) : "offline", o->ns / 1e9);
		/*
		 * The kernel refuses a block with a hole with EINVAL.  The first and the last block have
		 * holes: the firmware's tables lie there.
		 */
		if (o->result == -EINVAL)
			continue;
		asked++;
		if (!o->result) {
			EXPECT_EQ(0, bring_online(block));
		} else {
			EXPECT_EQ(-EBUSY, o->result);
		}
		EXPECT_TRUE(busy_goes_on(&b));
		for (unsigned int i = 0; i < bos; i++)
			EXPECT_TRUE(all_are(p[i], i, HELD));
	}
	EXPECT_LT(0, asked);
	EXPECT_TRUE(busy_end(&b));
	munmap(o, page_size);
}

/*
 * As much memory as possible of the node that the device is bound to goes offline: allocations are
 * refused then, without the OOM killer, and succeed again later.
 */
TEST_F_TIMEOUT(sys, node_offline, 300)
{
	long long node = dev_attr(0, "node"), used;
	unsigned int most = dev_attr(0, "size") / HELD, offline = 0, n;
	char path[300], text[64];
	struct busy b = {};
	struct offline *o;
	struct dirent *e;
	__u32 ids[64];
	int ret = 0;
	DIR *d;

	if (!may_change() || node < 0 || access("/sys/devices/system/node/node1", F_OK) ||
	    !read_line(MEMORY "/block_size_bytes", text, sizeof(text)))
		SKIP(return, "needs a machine that may be changed, and a device bound to one of its nodes");
	o = mmap(NULL, page_size, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, o);
	ASSERT_EQ(0, busy_start(&b));
	used = dev_attr(0, "used");
	snprintf(path, sizeof(path), "/sys/devices/system/node/node%lld", node);
	d = opendir(path);
	ASSERT_NE(NULL, d);
	while ((e = readdir(d))) {
		if (sscanf(e->d_name, "memory%ld", &o->block) != 1)
			continue;
		ASSERT_EQ(0, run_child(take_offline, o));
		TH_LOG("memory%ld: %s after %.2f s", o->block,
		       o->result ? strerror(-o->result) : "offline", o->ns / 1e9);
		/* The kernel refuses a block with a hole with EINVAL.  */
		EXPECT_TRUE(!o->result || o->result == -EBUSY || o->result == -EINVAL);
		offline += !o->result;
	}
	closedir(d);
	EXPECT_LT(0, offline);
	EXPECT_TRUE(busy_goes_on(&b));
	for (n = 0; n < most && n < ARRAY_SIZE(ids); n++) {
		ret = gp_bo_alloc(b.fd, HELD, &ids[n]);
		if (ret)
			break;
	}
	TH_LOG("%u pieces of %llu MiB, then %s", n, HELD / MIB, strerror(-ret));
	EXPECT_TRUE(!ret || ret == -ENOMEM || ret == -ENOSPC);
	while (n)
		EXPECT_EQ(0, gp_destroy(b.fd, ids[--n]));
	EXPECT_TRUE(dev_attr_becomes(0, "used", used, 10));
	restore();
	for (n = 0; n < most * 3 / 4 && n < ARRAY_SIZE(ids); n++)
		ASSERT_EQ(0, gp_bo_alloc(b.fd, HELD, &ids[n]));
	EXPECT_TRUE(busy_goes_on(&b));
	EXPECT_TRUE(busy_end(&b));
	munmap(o, page_size);
}

/* --- two users in one client */

struct other {
	int fd;
	__u32 bo;
	struct stream *s;
};

/* Another user, in a process that inherited the descriptor: every call is refused. */
static int other_process(void *arg)
{
	const struct other *o = arg;
	struct gpumem_bo_info info;
	struct gpumem_info dev;
	__u32 id;

	if (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY))
		return 1;
	if (gp_bo_alloc(o->fd, MIB, &id) != -EPERM)
		return 2;
	if (gp_bo_info(o->fd, o->bo, &info) != -EPERM || gp_info(o->fd, 0, &dev) != -EPERM)
		return 3;
	if (gp_map_errno(o->fd, o->bo, 0, page_size, RW, MAP_SHARED) != -EPERM)
		return 4;
	if (gp_destroy(o->fd, o->bo) != -EPERM || gp_doorbell(o->fd, o->s->id) != -EPERM)
		return 5;
	return 0;
}

TEST_F(sys, user_in_a_child)
{
	struct gpumem_stats before, after;
	struct busy b = {};
	struct other o;

	if (geteuid())
		SKIP(return, "needs root");
	ASSERT_EQ(0, busy_start(&b));
	o = (struct other) { .fd = b.fd, .bo = b.bo, .s = &b.feeders[0].s };
	ASSERT_EQ(0, gp_stats(b.fd, &before));
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(0, run_child(other_process, &o));
	ASSERT_EQ(0, gp_stats(b.fd, &after));
	EXPECT_EQ(before.objects, after.objects);
	EXPECT_EQ(before.bo_bytes, after.bo_bytes);
	EXPECT_TRUE(busy_goes_on(&b));
	EXPECT_TRUE(busy_end(&b));
}

#define USERS		4

struct user {
	int fd;
	__u32 vm;
	uid_t uid;
	unsigned int slot;
	pthread_t thread;
	pthread_barrier_t *barrier;
	unsigned char *host;		/* memory to register */
	__u32 kept_bo, kept_pin;	/* left for the main thread */
	int error;
};

/* A thread of the client with a user of its own: setresuid(2) for the thread alone. */
static void *other_thread(void *arg)
{
	struct user *u = arg;
	__u64 addr = ADDR + (u->slot + 16) * 16 * MIB;
	unsigned char token[GPUMEM_TOKEN_SIZE];
	unsigned int rounds = getenv("GPUMEM_QUICK") ? 8 : 30;
	struct gpumem_token_open opened;
	__u32 bo = 0, pin = 0, id;
	struct stream s;
	int ret = 0;

	if (syscall(SYS_setresgid, u->uid, u->uid, u->uid) ||
	    syscall(SYS_setresuid, u->uid, u->uid, u->uid))
		ret = -errno;
	pthread_barrier_wait(u->barrier);
	for (unsigned int i = 0; i < rounds && !ret; i++) {
		struct gpumem_sqe fill = sqe_fill(addr, 1, i, MIB);
		struct gpumem_sqe copy = sqe_copy(addr + MIB, addr, MIB);

		ret = gp_bo_alloc(u->fd, MIB, &bo);
		ret = ret ?: gp_vm_map(u->fd, u->vm, bo, 0, addr, MIB, 1, 1);
		ret = ret ?: bo_pin(u->fd, u->host, MIB, 0, &pin);
		ret = ret ?: gp_vm_map(u->fd, u->vm, pin, 0, addr + MIB, MIB, 1, 1);
		ret = ret ?: stream_open(&s, u->fd, u->vm, 0, 16);
		ret = ret ?: stream_push(&s, &fill);
		ret = ret ?: stream_push(&s, &copy);
		ret = ret ?: stream_sync(&s);
		if (!ret && !all_are(u->host, i, MIB))
			ret = -EILSEQ;
		ret = ret ?: gp_token_create(u->fd, bo, 0, MIB, 0, &id, token);
		if (!ret) {
			/* The open may succeed or fail; the test checks that nothing is left.  */
			if (!gp_token_open(u->fd, token, &opened))
				ret = gp_destroy(u->fd, opened.id);
			ret = gp_destroy(u->fd, id) ?: ret;
		}
		ret = ret ?: stream_close(&s);
		ret = ret ?: gp_vm_unmap(u->fd, u->vm, addr, 2 * MIB, NULL);
		if (i + 1 == rounds) {
			u->kept_bo = bo;
			u->kept_pin = pin;
		} else {
			ret = ret ?: gp_destroy(u->fd, pin);
			ret = ret ?: gp_destroy(u->fd, bo);
		}
	}
	u->error = ret;
	return NULL;
}

/*
 * Threads of one process with different users work on one client.  Objects that they made count for
 * the client; the main thread destroys the objects that are left, and everything is zero again.
 */
TEST_F(sys, users_of_threads)
{
	struct gpumem_stats before, during, after;
	struct user users[USERS];
	pthread_barrier_t barrier;
	long long pinned;
	int fd;
	__u32 vm;

	if (geteuid())
		SKIP(return, "needs root");
	fd = gp_open(0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, gp_vm_create(fd, &vm));
	ASSERT_EQ(0, gp_stats(fd, &before));
	pinned = vm_pin();
	ASSERT_EQ(0, pthread_barrier_init(&barrier, NULL, USERS));
	for (int i = 0; i < USERS; i++) {
		users[i] = (struct user) {
			.fd = fd, .vm = vm, .slot = i, .barrier = &barrier,
			/* The first thread keeps the opener's user.  */
			.uid = i ? 2000 + i : 0,
		};
		users[i].host = mmap(NULL, MIB, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		ASSERT_NE(MAP_FAILED, users[i].host);
		ASSERT_EQ(0, pthread_create(&users[i].thread, NULL, other_thread, &users[i]));
	}
	for (int i = 0; i < USERS; i++) {
		pthread_join(users[i].thread, NULL);
		EXPECT_EQ(0, users[i].error) TH_LOG("user %u: %s", users[i].uid,
						     strerror(-users[i].error));
	}
	ASSERT_EQ(0, (int)geteuid());
	ASSERT_EQ(0, gp_stats(fd, &during));
	EXPECT_EQ(before.bos + 2 * USERS, during.bos + during.pins - before.pins);
	EXPECT_EQ(before.pin_bytes + USERS * MIB, during.pin_bytes);
	EXPECT_EQ(pinned + (long long)(USERS * MIB), vm_pin());
	for (int i = 0; i < USERS; i++) {
		EXPECT_EQ(0, gp_destroy(fd, users[i].kept_pin));
		EXPECT_EQ(0, gp_destroy(fd, users[i].kept_bo));
	}
	ASSERT_EQ(0, gp_stats(fd, &after));
	for (unsigned int i = 0; i < stat_count; i++) {
		/* Counters of completed work only grow.  */
		if (strstr(stat_names[i].name, "copy") || strstr(stat_names[i].name, "fill") ||
		    !strcmp(stat_names[i].name, "jobs") ||
		    !strcmp(stat_names[i].name, "doorbells") || !strcmp(stat_names[i].name, "engine_ns"))
			continue;
		EXPECT_EQ(stat_get(&before, i), stat_get(&after, i))
			TH_LOG("%s", stat_names[i].name);
	}
	EXPECT_EQ(pinned, vm_pin());
	close(fd);
	pthread_barrier_destroy(&barrier);
}

/* --- the machine commits no more memory */

#define MEMINFO		"/proc/meminfo"
#define PIECE		(4 * MIB)
#define ROOM		(64 * MIB)

/* Lets the machine commit @room bytes more than now. */
static int commit_limit(__u64 room)
{
	char text[32];
	int ret;

	snprintf(text, sizeof(text), "%llu", number_of(MEMINFO, "Committed_AS:") + room / 1024);
	ret = write_file("/proc/sys/vm/overcommit_kbytes", text);
	return ret ?: write_file("/proc/sys/vm/overcommit_memory", "2");
}

static bool out_of_memory(int ret)
{
	return ret == -ENOMEM || ret == -ENOSPC;
}

TEST_F(sys, overcommit)
{
	unsigned int n, most = 4 * ROOM / PIECE;
	__u32 ids[4 * ROOM / PIECE], id, host;
	long long used, committed;
	struct busy b = {};
	int ret = 0;

	if (!may_change() || dev_attr(0, "size") < (long long)(3 * ROOM))
		SKIP(return, "needs a machine that may be changed and a device of 192 MiB");
	ASSERT_EQ(0, busy_start(&b));
	ASSERT_TRUE(busy_goes_on(&b));
	used = dev_attr(0, "used");
	committed = number_of(MEMINFO, "Committed_AS:");
	ASSERT_EQ(0, commit_limit(ROOM));

	/* One allocation that exceeds the limit, and small ones that reach it bit by bit. */
	ret = gp_bo_alloc(b.fd, 2 * ROOM, &id);
	EXPECT_TRUE(out_of_memory(ret)) TH_LOG("%d", ret);
	EXPECT_EQ(used, dev_attr(0, "used"));
	ret = bo_alloc_host(b.fd, 2 * ROOM, &host);
	EXPECT_TRUE(out_of_memory(ret)) TH_LOG("%d", ret);
	for (n = 0; n < most; n++) {
		ret = gp_bo_alloc(b.fd, PIECE, &ids[n]);
		if (ret)
			break;
	}
	TH_LOG("%u pieces of %llu MiB, then %s", n, PIECE / MIB, strerror(-ret));
	EXPECT_TRUE(out_of_memory(ret));
	/* Each CPU batches up to 4 MiB before it adds them to the common counter.  */
	EXPECT_LT(ROOM / PIECE / 2, n);
	EXPECT_GE(ROOM / PIECE * 3 / 2, n);
	EXPECT_EQ(used + n * PIECE, dev_attr(0, "used"));
	/* Existing memory goes on working, and freed memory can be allocated again. */
	EXPECT_TRUE(busy_goes_on(&b));
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(0, gp_destroy(b.fd, ids[--n]));
	EXPECT_EQ(0, gp_bo_alloc(b.fd, PIECE, &ids[n]));
	n++;
	while (n)
		EXPECT_EQ(0, gp_destroy(b.fd, ids[--n]));
	EXPECT_TRUE(dev_attr_becomes(0, "used", used, 10));

	/* Without the limit all of it can be had. */
	restore();
	EXPECT_EQ(0, gp_bo_alloc(b.fd, 2 * ROOM, &id));
	EXPECT_EQ(0, gp_destroy(b.fd, id));
	EXPECT_EQ(0, bo_alloc_host(b.fd, 2 * ROOM, &host));
	EXPECT_EQ(0, gp_destroy(b.fd, host));
	EXPECT_TRUE(dev_attr_becomes(0, "used", used, 10));
	EXPECT_TRUE(busy_goes_on(&b));
	/* The kernel commits no memory for refused calls: a quarter of it would be seen. */
	EXPECT_GT(committed + (long long)(ROOM / 4 / 1024), number_of(MEMINFO, "Committed_AS:"));
	EXPECT_TRUE(busy_end(&b));
}

TEST_F(sys, overcommit_cuda)
{
	size_t before, after, total;
	CUdeviceptr p, small;
	CUcontext ctx;
	void *host;

	if (!may_change() || dev_attr(0, "size") < (long long)(3 * ROOM))
		SKIP(return, "needs a machine that may be changed and a device of 192 MiB");
	ASSERT_CU(cuda_start(&ctx));
	ASSERT_CU(cuMemAlloc(&small, MIB));
	ASSERT_CU(cuMemGetInfo(&before, &total));
	ASSERT_EQ(0, commit_limit(ROOM));
	EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&p, 2 * ROOM));
	EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocHost(&host, 2 * ROOM));
	ASSERT_CU(cuMemGetInfo(&after, &total));
	EXPECT_EQ(before, after);
	EXPECT_CU(cuMemsetD8(small, 7, MIB));
	restore();
	EXPECT_CU(cuMemAlloc(&p, 2 * ROOM));
	EXPECT_CU(cuMemFree(p));
	EXPECT_CU(cuMemAllocHost(&host, 2 * ROOM));
	EXPECT_CU(cuMemFreeHost(host));
	EXPECT_CU(cuMemFree(small));
}

TEST_HARNESS_MAIN
