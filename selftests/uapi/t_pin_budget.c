// SPDX-License-Identifier: GPL-2.0
/*
 * The budget of pinned memory: registered and host memory of all processes of a user count
 * together, and everything is released when a process ends or is killed during a registration.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "common/client_fixture.h"
#include "common/pin_util.h"

#define RW		(PROT_READ | PROT_WRITE)
#define ANON		(MAP_PRIVATE | MAP_ANONYMOUS)

FIXTURE(pin_budget)
{
	struct leak_state leak;
	int fd;
	__u64 budget;
};

FIXTURE_SETUP(pin_budget)
{
	client_begin(_metadata, &self->leak, &self->fd);
	ASSERT_EQ(0, vm_pin());
	self->budget = budget_left(self->fd);
	ASSERT_LT(64 * MIB, self->budget);
}

FIXTURE_TEARDOWN(pin_budget)
{
	client_end(_metadata, &self->leak, self->fd, 10);
	EXPECT_EQ(0, vm_pin());
	EXPECT_TRUE(host_used_becomes(0));
}

TEST_F(pin_budget, budget)
{
	long long ram = number_of("/proc/meminfo", "MemTotal:") * 1024;
	long long before, after;
	__u64 n = (ram / 2 + 64 * MIB) & -page_size;
	void *p = mmap(NULL, n, RW, ANON | MAP_NORESERVE, -1, 0);
	__u32 id;

	ASSERT_LT(0, ram);
	ASSERT_NE(MAP_FAILED, p);
	before = number_of("/proc/meminfo", "MemAvailable:");
	EXPECT_EQ(-EDQUOT, bo_pin(self->fd, p, n, 0, &id));
	after = number_of("/proc/meminfo", "MemAvailable:");
	/* The registration is refused before its first page is faulted in.  */
	EXPECT_LT(before - after, 32 * 1024);
	EXPECT_EQ(0, peek(p));
	EXPECT_EQ(-EDQUOT, bo_alloc_host(self->fd, n, &id));
	EXPECT_EQ(0, vm_pin());
	EXPECT_TRUE(pins_counted(self->fd, 0, 0));
	/* Registrations and host memory share one budget.  */
	ASSERT_EQ(0, bo_alloc_host(self->fd, 16 * MIB, &id));
	EXPECT_EQ(self->budget - 16 * MIB, budget_left(self->fd));
	EXPECT_EQ(-EDQUOT, bo_pin(self->fd, p, self->budget - 16 * MIB + page_size, 0, &id));
}

/* Another process of the same user has no budget of its own; its end gives everything back. */
static int pin_and_wait(void *arg)
{
	int *pipes = arg;
	int fd = gp_open(0);
	void *p = mmap(NULL, 16 * MIB, RW, ANON, -1, 0);
	__u32 id;

	if (fd < 0 || p == MAP_FAILED || bo_pin(fd, p, 16 * MIB, 0, &id) ||
	    bo_alloc_host(fd, 4 * MIB, &id) || vm_pin() != (long long)(20 * MIB))
		return 1;
	tell(pipes[1]);
	pause();
	return 0;
}

TEST_F(pin_budget, other_process)
{
	int pipes[2];
	pid_t pid;

	ASSERT_EQ(0, pipe(pipes));
	pid = start_child(pin_and_wait, pipes);
	ASSERT_LT(0, pid);
	close(pipes[1]);
	ASSERT_TRUE(hear(pipes[0]));
	EXPECT_EQ(0, vm_pin());
	EXPECT_EQ(self->budget - 20 * MIB, budget_left(self->fd));
	EXPECT_EQ(4 * (long long)MIB, host_used());
	kill_child(pid);
	EXPECT_TRUE(host_used_becomes(0));
	EXPECT_EQ(self->budget, budget_left(self->fd));
	close(pipes[0]);
}

/* SIGKILL ends a registration that is under way.  */
#define LARGE	(192 * MIB)

static int pin_large(void *arg)
{
	int *pipes = arg;
	int fd = gp_open(0);
	void *p = mmap(NULL, LARGE, RW, ANON | MAP_NORESERVE, -1, 0);
	__u32 id;
	int ret;

	if (fd < 0 || p == MAP_FAILED || madvise(p, LARGE, MADV_NOHUGEPAGE))
		return 1;
	tell(pipes[1]);
	ret = bo_pin(fd, p, LARGE, 0, &id);
	tell(pipes[1]);
	return ret ? 2 : 3;
}

TEST_F_TIMEOUT(pin_budget, killed, 240)
{
	long long before = number_of("/proc/meminfo", "MemAvailable:") * 1024, after = 0;
	unsigned int early = 0;

	ASSERT_LT((long long)(LARGE + 200 * MIB), before);
	ASSERT_LT(LARGE, self->budget);
	for (unsigned int round = 0; round < 6; round++) {
		int pipes[2], ret;
		pid_t pid;
		char c;

		ASSERT_EQ(0, pipe2(pipes, O_CLOEXEC));
		pid = start_child(pin_large, pipes);
		ASSERT_LT(0, pid);
		close(pipes[1]);
		ASSERT_TRUE(hear(pipes[0]));
		nap_ms(5 + 12 * round);
		/* The child writes to the pipe after the call has returned. */
		fcntl(pipes[0], F_SETFL, O_NONBLOCK);
		early += read(pipes[0], &c, 1) < 0;
		kill(pid, SIGKILL);
		ret = end_child(pid);
		EXPECT_TRUE(ret == -SIGKILL || ret == 3)
			TH_LOG("round %u: %d", round, ret);
		close(pipes[0]);
	}
	/* Some registrations were under way when the signal came.  */
	EXPECT_LT(0, early);
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 1, 10));
	EXPECT_EQ(self->budget, budget_left(self->fd));
	for (int i = 0; i < 100; i++) {
		after = number_of("/proc/meminfo", "MemAvailable:") * 1024;
		if (after > before - (long long)(96 * MIB))
			break;
		nap_ms(50);
	}
	EXPECT_LT(before - (long long)(96 * MIB), after);
}

TEST_HARNESS_MAIN
