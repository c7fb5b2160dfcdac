/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Delay points of the module (Documentation/testing.rst), and calls by a second thread.  The first
 * thread decides what happens during such a call.  Include this after kselftest_harness.h.
 */
#ifndef GPUMEM_SELFTESTS_RACE_UTIL_H
#define GPUMEM_SELFTESTS_RACE_UTIL_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/util.h"

#define DELAY_FILE	"/sys/kernel/debug/gpumem/delay"

/* Whether the module was built with delay points. */
static inline bool delay_there(void)
{
	return !access(DELAY_FILE, W_OK);
}

/* One command: 0 or a negative errno. */
static inline int delay_command(const char *name, const char *what)
{
	int fd = open(DELAY_FILE, O_WRONLY | O_CLOEXEC), length, ret = 0;
	char line[64];

	if (fd < 0)
		return -errno;
	length = snprintf(line, sizeof(line), "%s%s%s", name, *what ? " " : "", what);
	if (write(fd, line, length) != length)
		ret = -errno;
	close(fd);
	return ret;
}

/* A point's state, and how many tasks stopped there. */
static inline bool delay_state(const char *name, char state[static 16], unsigned int *stops)
{
	FILE *f = fopen(DELAY_FILE, "re");
	char point[32];
	bool found = false;

	while (f && !found && fscanf(f, "%31s %15s %u", point, state, stops) == 3)
		found = !strcmp(point, name);
	if (f)
		fclose(f);
	return found;
}

/* Waits until a task stops at a point that is armed. */
static inline bool delay_stopped(const char *name)
{
	unsigned int stops;
	char state[16];

	for (int i = 0; i < 4000; i++) {
		if (!delay_state(name, state, &stops))
			return false;
		if (!strcmp(state, "stopped"))
			return true;
		nap_ms(2);
	}
	printf("# nobody came to %s\n", name);
	return false;
}

/* A call of the kernel interface by a thread of its own. */
struct call {
	int fd;
	unsigned long request;
	void *arg;
	int ret;
	atomic_bool over;
	pthread_t thread;
};

static inline void *call_thread(void *arg)
{
	struct call *c = arg;

	c->ret = gp_ioctl(c->fd, c->request, c->arg);
	atomic_store(&c->over, true);
	return NULL;
}

static inline bool call_start(struct call *c, int fd, unsigned long request, void *arg)
{
	*c = (struct call) { .fd = fd, .request = request, .arg = arg };
	return !pthread_create(&c->thread, NULL, call_thread, c);
}

static inline int call_end(struct call *c)
{
	pthread_join(c->thread, NULL);
	return c->ret;
}

/* Does the call end within half a second, while the task at the delay point is still stopped?  */
static inline bool call_ends_soon(struct call *c)
{
	for (int i = 0; i < 100 && !atomic_load(&c->over); i++)
		nap_ms(5);
	return atomic_load(&c->over);
}

#define ARM(name)	ASSERT_EQ(0, delay_command(name, "wait"))
#define STOPPED(name)	ASSERT_TRUE(delay_stopped(name))
/* Fails if the point is idle because the task's time-out has ended its stop.  */
#define GO(name)	ASSERT_EQ(0, delay_command(name, "go"))

#endif
