// SPDX-License-Identifier: GPL-2.0
/*
 * The module with default parameters: with all memory allocated that two users may have, other
 * processes still run.  The module that was loaded is loaded again at the end.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "common/limits_util.h"
#include "reload_util.h"

#define RW	(PROT_READ | PROT_WRITE)
#define ALICE	2001
#define BOB	2002
#define CAROL	2003

FIXTURE(defaults)
{
	bool able;
	long long ram;
};

FIXTURE_SETUP(defaults)
{
	ASSERT_TRUE(dev_quiet(10));
	self->able = reload_save();
	self->ram = number_of("/proc/meminfo", "MemTotal:") * 1024;
	ASSERT_LT(0, self->ram);
	if (!self->able)
		return;
	ASSERT_TRUE(reload_unload());
	ASSERT_EQ(0, reload_load(""));
	ASSERT_TRUE(reload_chmod(0666));
}

FIXTURE_TEARDOWN(defaults)
{
	if (self->able) {
		EXPECT_TRUE(dev_quiet(30));
		EXPECT_TRUE(reload_restore());
	}
}

TEST_F(defaults, sums)
{
	long long all = 0;

	if (!self->able)
		SKIP(return, "needs root and gpumem.ko");
	for (unsigned int i = 0; i < dev_count(); i++)
		all += dev_attr(i, "size");
	EXPECT_LT(0, all);
	all += get_param("pin_total");
	EXPECT_GT(self->ram / 4 * 3, all);
	EXPECT_LT(0, get_param("pin_limit"));
	EXPECT_GT(get_param("pin_total"), get_param("pin_limit"));
	EXPECT_EQ(4194304, get_param("map_limit"));
	all += get_param("ring_total");
	EXPECT_GT(self->ram, all);
	EXPECT_GE(self->ram / 6, get_param("ring_total"));
	EXPECT_LT(0, get_param("ring_limit"));
	EXPECT_GT(get_param("ring_total"), get_param("ring_limit"));
}

struct eater {
	uid_t uid;
	int full[2], go[2];
	long long *device, *host;
};

/* Allocates device memory and pinned memory until both are refused.  */
static int eat(void *arg)
{
	struct eater *e = arg;
	long long step = 16 * MIB;
	__u32 id;
	int fd;

	WANT(become(e->uid, e->uid));
	fd = gp_open(0);
	WANT(fd >= 0);
	for (; step >= (long long)page_size; step /= 16) {
		while (!gp_bo_alloc(fd, step, &id))
			*e->device += step;
		*e->host += pin_until(fd, step, EDQUOT);
	}
	WANT(tell(e->full[1]) && hear(e->go[0]));
	return 0;
}

struct innocent {
	long long bytes;
	int ready[2], go[2];
};

/* Another user's process, with a twentieth of the memory. */
static int innocent(void *arg)
{
	struct innocent *in = arg;
	char *p;

	WANT(become(CAROL, CAROL));
	p = mmap(NULL, in->bytes, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	WANT(p != MAP_FAILED);
	do {
		for (long long i = 0; i < in->bytes; i += page_size)
			p[i]++;
		WANT(tell(in->ready[1]));
	} while (hear(in->go[0]));
	return 0;
}

TEST_F_TIMEOUT(defaults, the_third_survives, 240)
{
	long long *sums = mmap(NULL, page_size, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0), all = 0;
	struct innocent in = { .bytes = self->ram / 20 };
	struct eater e = { .device = sums, .host = sums + 1 };
	pid_t third, pid[2];
	long long available;
	int status;

	if (!self->able)
		SKIP(return, "needs root and gpumem.ko");
	ASSERT_NE(MAP_FAILED, (void *)sums);
	/* With less, the kernel kills processes because of what earlier programs have left.  */
	available = number_of("/proc/meminfo", "MemAvailable:") * 1024;
	TH_LOG("%lld MiB are available at first", available >> 20);
	if (available < self->ram / 100 * 81 && access("/run/vm", F_OK))
		SKIP(return, "other programs use the memory");
	ASSERT_LT(self->ram / 100 * 81, available);
	ASSERT_EQ(0, pipe(in.ready) | pipe2(in.go, O_CLOEXEC) | pipe(e.full) | pipe(e.go));
	third = start_child(innocent, &in);
	ASSERT_TRUE(hear(in.ready[0]));
	for (int i = 0; i < 2; i++) {
		e.uid = i ? BOB : ALICE;
		pid[i] = start_child(eat, &e);
		ASSERT_TRUE(hear(e.full[0]));
		TH_LOG("uid %d: %lld MiB of device memory, %lld MiB pinned, of %lld MiB", e.uid,
		       e.device[0] >> 20, e.host[0] >> 20, self->ram >> 20);
		all += e.device[0] + e.host[0];
		e.device += 2;
		e.host += 2;
	}
	/* The two users have what the defaults permit: 70 to 75 per cent of RAM.  */
	EXPECT_LT(self->ram / 100 * 70, all);
	EXPECT_GT(self->ram / 4 * 3, all);
	/* The third process is alive, has its memory, and works.  */
	EXPECT_TRUE(tell(in.go[1]) && hear(in.ready[0]));
	EXPECT_EQ(0, waitpid(third, &status, WNOHANG));
	for (int i = 0; i < 2; i++)
		tell(e.go[1]);
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(0, end_child(pid[i]));
	close(in.go[1]);
	EXPECT_EQ(-SIGKILL, kill_child(third));
}

TEST_HARNESS_MAIN
