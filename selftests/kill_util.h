/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Killing processes in chosen states, and finding that nothing is left of them.
 *
 * A *scene* is a function that a child runs: it prepares what it needs, says so by ready(), and
 * repeats one call, the *state*, for ever; CALL() marks it in memory that the tester shares.  The
 * tester waits for ready(), waits for a random time more, kills the child, and compares figures of
 * the whole machine with those from before.  A state counts as tested when a child died between
 * the two marks of CALL() at least once.
 *
 * The figures: the counters of every device and of host memory; Shmem and HugePages_Free of
 * /proc/meminfo; the kernel's count of pinned pages (nr_foll_pin_* of /proc/vmstat), which is
 * exact; and what counts against the budgets of pinned memory.  VmPin ends with the
 * process.  Shmem may differ by SHMEM_SLACK: the output of the tests may lie in a tmpfs, too.
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

#include "util.h"

#define SHMEM_SLACK	(2 * (long long)MIB)
#define ANON		(MAP_PRIVATE | MAP_ANONYMOUS)
#define RW		(PROT_READ | PROT_WRITE)

/* Shared by the tester and the processes of a scene. */
struct scene {
	__u64 seed;
	__u64 bytes;
	int ready;			/* end of a pipe */
	_Atomic unsigned int entered, left;	/* marks of CALL() */
	_Atomic int go;			/* the tester's word */
	_Atomic pid_t other;		/* one more process of the scene */
	__u8 token[GPUMEM_TOKEN_SIZE];
	__u64 message[16];		/* from one scene to another */
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

/* The number behind @key in a file, or -1. */
static inline long long number_in(const char *path, const char *key)
{
	long long value = -1;
	char line[256];
	FILE *f = fopen(path, "re");

	while (f && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, key, strlen(key)))
			sscanf(line + strlen(key), "%lld", &value);
	}
	if (f)
		fclose(f);
	return value;
}

static inline void figures_read(struct figures *f)
{
	int fd = open("/proc/sys/vm/stat_refresh", O_WRONLY | O_CLOEXEC);
	long long acquired, released;

	/* CPUs keep differences back; this collects them. */
	if (fd >= 0 && write(fd, "1", 1) < 0)
		fprintf(stderr, "# stat_refresh: %s\n", strerror(errno));
	close(fd);
	f->host_used = number_in("/sys/class/gpumem/host_used", "");
	f->shmem = number_in("/proc/meminfo", "Shmem:") * 1024;
	f->huge_free = number_in("/proc/meminfo", "HugePages_Free:");
	acquired = number_in("/proc/vmstat", "nr_foll_pin_acquired ");
	released = number_in("/proc/vmstat", "nr_foll_pin_released ");
	f->pins = acquired < 0 || released < 0 ? -1 : acquired - released;
	f->pinned = number_in("/sys/class/gpumem/pinned", "");
}

/* Can these figures show a leak at all? */
static inline bool figures_good(const struct figures *f)
{
	return f->host_used == 0 && f->pinned == 0 && f->shmem >= 0 && f->pins >= 0;
}

/* Is all back as it was?  Release takes its time. */
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

#endif
