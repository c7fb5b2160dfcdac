/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers of t_system: files of the system, the settings that its cases change and their
 * restoration, and streams that are kept busy.  Include this after kselftest_harness.h.
 */
#ifndef GPUMEM_SELFTESTS_SYSTEM_UTIL_H
#define GPUMEM_SELFTESTS_SYSTEM_UTIL_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include "cuda/cuda_util.h"
#include "common/util.h"

#define ADDR		0x200000000ULL
#define RW		(PROT_READ | PROT_WRITE)

/* The first line of a file. */
static bool read_line(const char *path, char *text, size_t size)
{
	bool there = read_text(path, text, size);

	text[strcspn(text, "\n")] = 0;
	return there;
}

/*
 * May the cases change the machine?  Only as root, and only in the tests' virtual machine or if
 * GPUMEM_SYSTEM is set.
 */
static bool may_change(void)
{
	return !geteuid() && (!access("/run/vm", F_OK) || getenv("GPUMEM_SYSTEM"));
}

/* --- settings of the machine, and what they were */

#define CPU1		"/sys/devices/system/cpu/cpu1/online"
#define MEMORY		"/sys/devices/system/memory"

static struct setting {
	const char *path;
	bool paired;		/* if 0, its pair is in force: a write would clear that */
	char was[64];
} settings[] = {
	{ .path = CPU1 },
	{ .path = "/sys/power/pm_test" },
	{ .path = "/sys/power/sync_on_suspend" },
	{ .path = "/sys/module/suspend/parameters/pm_test_delay" },
	{ .path = "/proc/sys/vm/overcommit_ratio", .paired = true },
	{ .path = "/proc/sys/vm/overcommit_kbytes", .paired = true },
	{ .path = "/proc/sys/vm/overcommit_memory" },
};

static pid_t first;

static void __attribute__((constructor)) remember(void)
{
	first = getpid();
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
		struct setting *s = &settings[i];
		char *word;

		if (!read_line(s->path, s->was, sizeof(s->was)))
			s->was[0] = 0;
		/* pm_test shows all levels, the one that is set in brackets. */
		word = strchr(s->was, '[');
		if (word) {
			memmove(s->was, word + 1, strlen(word));
			s->was[strcspn(s->was, "]")] = 0;
		}
	}
}

/* Takes all memory blocks online; all were online at the start.  */
static void restore_memory(void)
{
	char path[300], state[16];
	DIR *d = opendir(MEMORY);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		snprintf(path, sizeof(path), MEMORY "/%s/state", e->d_name);
		if (!strncmp(e->d_name, "memory", 6) && read_line(path, state, sizeof(state)) &&
		    !strcmp(state, "offline"))
			write_file(path, "online");
	}
	if (d)
		closedir(d);
}

static void restore(void)
{
	if (!may_change())
		return;
	restore_memory();
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
		const struct setting *old = &settings[i];

		if (old->was[0] && !(old->paired && !strcmp(old->was, "0")))
			write_file(old->path, old->was);
	}
}

static void __attribute__((destructor)) restore_at_exit(void)
{
	if (getpid() == first)
		restore();
}

/* --- streams that are kept busy */

#define FEEDERS		3
#define SLICE		(128 * KIB)	/* what an entry copies */
#define PARTS		3		/* slices of a feeder */
#define ENTRIES		32

struct feeder {
	struct stream s;
	unsigned char *p;	/* its slices */
	__u64 addr;		/* their address for the device */
	pthread_t thread;
	atomic_uint rounds;	/* that were compared */
	atomic_int error;	/* negative errno, or 1: wrong contents */
	atomic_bool *stop;
};

struct busy {
	int fd;
	__u32 vm, bo;
	struct feeder feeders[FEEDERS];
	atomic_bool stop;
};

/* Fills the first slice, copies it from slice to slice, and compares the last one.  */
static void *feed(void *arg)
{
	struct feeder *f = arg;
	unsigned char value = 1;

	while (!atomic_load(f->stop)) {
		struct gpumem_sqe sqe = sqe_fill(f->addr, 1, ++value, SLICE);
		int ret = stream_push(&f->s, &sqe);

		for (int i = 1; i < ENTRIES && !ret; i++) {
			int to = 1 + i % (PARTS - 1);

			sqe = sqe_copy(f->addr + to * SLICE,
				       f->addr + (to == 1 ? 0 : 1) * SLICE, SLICE);
			ret = stream_push(&f->s, &sqe);
		}
		if (!ret)
			ret = stream_wait(&f->s, f->s.tail, 60);
		if (!ret)
			ret = f->s.page->error;
		for (int i = 0; i < PARTS && !ret; i++)
			ret = !all_are(f->p + i * SLICE, value, SLICE);
		if (ret) {
			atomic_store(&f->error, ret);
			return NULL;
		}
		atomic_fetch_add(&f->rounds, 1);
	}
	return NULL;
}

static int busy_start(struct busy *b)
{
	__u64 each = PARTS * SLICE;
	int ret;

	b->fd = gp_open(0);
	if (b->fd < 0)
		return b->fd;
	ret = gp_bo_alloc(b->fd, FEEDERS * each, &b->bo);
	ret = ret ?: gp_vm_create(b->fd, &b->vm);
	ret = ret ?: gp_vm_map(b->fd, b->vm, b->bo, 0, ADDR, FEEDERS * each, 1, 1);
	for (int i = 0; i < FEEDERS && !ret; i++) {
		struct feeder *f = &b->feeders[i];

		f->stop = &b->stop;
		f->addr = ADDR + i * each;
		f->p = gp_map(b->fd, b->bo, i * each, each, RW);
		ret = f->p ? stream_open(&f->s, b->fd, b->vm, 0, 2 * ENTRIES) : -errno;
	}
	for (int i = 0; i < FEEDERS && !ret; i++)
		ret = -pthread_create(&b->feeders[i].thread, NULL, feed, &b->feeders[i]);
	return ret;
}

/* Returns true if no feeder has found an error; prints the errors.  */
static bool busy_fine(struct busy *b)
{
	bool fine = true;

	for (int i = 0; i < FEEDERS; i++) {
		int error = atomic_load(&b->feeders[i].error);

		if (error)
			ksft_print_msg("stream %d after %u rounds: %s\n", i,
				       atomic_load(&b->feeders[i].rounds),
				       error > 0 ? "wrong contents" : strerror(-error));
		fine &= !error;
	}
	return fine;
}

/* Waits until every feeder has begun and ended a round after this call. */
static bool busy_goes_on(struct busy *b)
{
	unsigned int was[FEEDERS];
	__u64 end = in_seconds(60);

	for (int i = 0; i < FEEDERS; i++)
		was[i] = atomic_load(&b->feeders[i].rounds);
	for (int i = 0; i < FEEDERS; i++) {
		while (atomic_load(&b->feeders[i].rounds) < was[i] + 2) {
			if (atomic_load(&b->feeders[i].error) || mono_ns() > end) {
				busy_fine(b);
				ksft_print_msg("stream %d stands still\n", i);
				return false;
			}
			nap_ms(5);
		}
	}
	return true;
}

/* Ends the feeders and closes the client. */
static bool busy_end(struct busy *b)
{
	bool fine;

	atomic_store(&b->stop, true);
	for (int i = 0; i < FEEDERS; i++)
		pthread_join(b->feeders[i].thread, NULL);
	fine = busy_fine(b);
	unmap_all();
	close(b->fd);
	return fine;
}

#endif
