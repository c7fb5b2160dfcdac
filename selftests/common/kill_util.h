/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Kills processes in chosen states, and checks that they leave nothing behind.
 *
 * A *scene* is a function that a child runs: it prepares what it needs, reports that by ready(),
 * and repeats one call, the *state*, for ever.  CALL() marks the beginning and the end of that call
 * in memory shared with the tester.  The tester waits for ready() and for a further random time,
 * kills the child, and compares counters of the whole machine, the *figures*, with those from
 * before.  A state counts as tested when a child died between the two marks of CALL() at least
 * once.
 *
 * The figures: the counters of every device and of host memory; Shmem and HugePages_Free of
 * /proc/meminfo; the kernel's count of pinned pages (nr_foll_pin_* of /proc/vmstat), which is
 * exact; and the bytes that count against the budgets of pinned memory.  VmPin is not among them:
 * it ends with the process.  Shmem may differ by SHMEM_SLACK: the output of the tests may lie in a
 * tmpfs, too.
 *
 * GPUMEM_STEPS scales the number of kills; 5000 is the default.  GPUMEM_SEED repeats the delays.
 *
 * Include this after kselftest_harness.h.
 */
#ifndef GPUMEM_SELFTESTS_KILL_UTIL_H
#define GPUMEM_SELFTESTS_KILL_UTIL_H

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "common/util.h"

#define SHMEM_SLACK	(2 * (long long)MIB)
#define ANON		(MAP_PRIVATE | MAP_ANONYMOUS)
#define RW		(PROT_READ | PROT_WRITE)

/* Shared by the tester and the processes of a scene. */
struct scene {
	__u64 seed;
	__u64 bytes;
	int ready;			/* end of a pipe */
	_Atomic unsigned int entered, left;	/* marks of CALL() */
	_Atomic int go;			/* set by the tester */
	_Atomic pid_t other;		/* one more process of the scene */
	__u8 token[GPUMEM_TOKEN_SIZE];
	__u64 message[16];		/* bytes that one scene passes to another */
};

typedef int (*scene_fn)(struct scene *sc);

#define CALL(sc, call) ({				\
	(sc)->entered++;				\
	__typeof__(call) result_ = (call);		\
	(sc)->left++;					\
	result_;					\
})

/* A scene's step that must not fail: the child ends with a status that is no signal. */
#define MUST(call) do {								\
	long result_ = (long)(call);						\
										\
	if (result_ < 0) {							\
		fprintf(stderr, "# %s: %s: %s\n", __func__, #call,		\
			strerror(-result_));					\
		return 1;							\
	}									\
} while (0)

static inline void ready(struct scene *sc)
{
	tell(sc->ready);
}

static inline struct scene *scene_new(void)
{
	struct scene *sc = mmap(NULL, sizeof(*sc), RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return sc == MAP_FAILED ? NULL : sc;
}

/* --- figures */

struct figures {
	long long host_used, shmem, pins, huge_free;
	long long pinned;	/* what counts against the budgets of pinned memory */
};

static inline void figures_read(struct figures *f)
{
	int fd = open("/proc/sys/vm/stat_refresh", O_WRONLY | O_CLOEXEC);
	long long acquired, released;

	/* Each CPU batches its changes of the counters; this write adds them up.  */
	if (fd >= 0 && write(fd, "1", 1) < 0)
		fprintf(stderr, "# stat_refresh: %s\n", strerror(errno));
	close(fd);
	f->host_used = number_of("/sys/class/gpumem/host_used", "");
	f->shmem = number_of("/proc/meminfo", "Shmem:") * 1024;
	f->huge_free = number_of("/proc/meminfo", "HugePages_Free:");
	acquired = number_of("/proc/vmstat", "nr_foll_pin_acquired ");
	released = number_of("/proc/vmstat", "nr_foll_pin_released ");
	f->pins = acquired < 0 || released < 0 ? -1 : acquired - released;
	f->pinned = number_of("/sys/class/gpumem/pinned", "");
}

/*
 * Whether these figures can show a leak: no memory is pinned yet, and Shmem and the count of pinned
 * pages can be read.
 */
static inline bool figures_good(const struct figures *f)
{
	return f->host_used == 0 && f->pinned == 0 && f->shmem >= 0 && f->pins >= 0;
}

/* Waits up to 15 seconds until the figures are those of @before: the module may release later.  */
static inline bool settled(const struct figures *before)
{
	__u64 end = in_seconds(15);
	struct figures now;
	long long shmem;

	if (!dev_quiet(15))
		return false;
	for (;;) {
		figures_read(&now);
		shmem = now.shmem - before->shmem;
		if (now.host_used == before->host_used && now.pins == before->pins &&
		    now.huge_free == before->huge_free && now.pinned == before->pinned &&
		    shmem <= SHMEM_SLACK && shmem >= -SHMEM_SLACK && dev_quiet(5))
			return true;
		if (mono_ns() > end)
			break;
		nap_ms(20);
	}
	fprintf(stderr,
		"# now and before: host_used %lld %lld, Shmem %lld %lld, pins %lld %lld, huge pages %lld %lld, pinned %lld %lld\n",
		now.host_used, before->host_used, now.shmem, before->shmem, now.pins, before->pins,
		now.huge_free, before->huge_free, now.pinned, before->pinned);
	return false;
}

/* --- one kill */

/* Starts a scene and waits until it is ready; its pid, or -1. */
static inline pid_t scene_start(struct scene *sc, scene_fn fn)
{
	int pipes[2];
	pid_t pid;

	sc->entered = 0;
	sc->left = 0;
	sc->go = 0;
	sc->other = 0;
	if (pipe2(pipes, O_CLOEXEC))
		return -1;
	sc->ready = pipes[1];
	pid = start_child((int (*)(void *))fn, sc);
	close(pipes[1]);
	if (pid > 0 && !hear(pipes[0])) {
		fprintf(stderr, "# the scene ended by itself: %d\n", kill_child(pid));
		pid = -1;
	}
	close(pipes[0]);
	return pid;
}

static inline void nap_us(__u64 us)
{
	struct timespec t = { us / 1000000, us % 1000000 * 1000 };

	nanosleep(&t, NULL);
}

static inline unsigned int kills(unsigned int rounds)
{
	__u64 n = rounds * env_number("GPUMEM_STEPS", 5000) / 5000;

	return n ? n : 1;
}

/* The teardown of a case whose clients were other processes. */
#define QUIET_AFTER_KILLS(name)			\
FIXTURE_TEARDOWN(name)				\
{						\
	EXPECT_TRUE(dev_quiet(10));		\
}

#endif
