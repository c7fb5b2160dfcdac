// SPDX-License-Identifier: GPL-2.0
/* Reports of refusals by netlink: one for each limit, their rate, and what "gpumem watch" prints. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "netlink_fixture.h"
#include "common/cgroup.h"
#include "common/pool_util.h"

#define NOBODY	65534
#define ANON	(MAP_PRIVATE | MAP_ANONYMOUS)

#define EXPECT_REFUSAL(_limit, _asked) do {					\
	struct heard _h;							\
	EXPECT_EQ(-NLE_AGAIN, collect(&listener, &_h));				\
	EXPECT_EQ(1, _h.count);							\
	EXPECT_EQ(_limit, _h.last.limit);					\
	EXPECT_EQ(_asked, _h.last.asked);					\
	EXPECT_EQ(getpid(), (pid_t)_h.last.pid);				\
	EXPECT_EQ(getuid(), _h.last.uid);					\
	EXPECT_STREQ("t_netlink_limit", _h.last.comm);				\
	EXPECT_EQ(client_of(&self->nl, getpid()).id, _h.last.client);		\
	EXPECT_EQ(0, _h.last.device);						\
	EXPECT_EQ(0, _h.missed);						\
	if (_h.last.bounded)							\
		EXPECT_LT(_h.last.bound, _h.last.used + _h.last.asked);		\
} while (0)

TEST_F_TIMEOUT(netlink, refusals, 180)
{
	long long total = dev_attr(0, "size");
	struct gnl_host host;
	struct gnl listener;
	__u32 id, vm;
	int ret;
	void *p;

	ASSERT_EQ(0, listen_for(&listener));
	ASSERT_EQ(0, bo_alloc(self->fd, MIB, 0, "", &id));
	ASSERT_EQ(-ENOSPC, bo_alloc(self->fd, total, 0, "", &id));
	EXPECT_REFUSAL(GPUMEM_LIMIT_DEVICE, (__u64)total);
	ASSERT_EQ(-ENOSPC, bo_alloc(self->fd, 1ULL << 41, 0, "", &id));
	EXPECT_REFUSAL(GPUMEM_LIMIT_DEVICE, 1ULL << 41);

	ASSERT_EQ(0, gnl_host(&self->nl, &host));
	ASSERT_EQ(-EDQUOT, bo_alloc(self->fd, host.pin_limit + MIB, GPUMEM_BO_ALLOC_HOST, "",
				    &id));
	EXPECT_REFUSAL(GPUMEM_LIMIT_PINNED, host.pin_limit + MIB);
	p = mmap(NULL, host.pin_limit + MIB, PROT_NONE, ANON | MAP_NORESERVE, -1, 0);
	ASSERT_NE(MAP_FAILED, p);
	ASSERT_EQ(-EDQUOT, bo_pin(self->fd, p, host.pin_limit + MIB, &id));
	EXPECT_REFUSAL(GPUMEM_LIMIT_PINNED, host.pin_limit + MIB);

	/* Streams: all refused after the first 4096, and the address space goes with the client. */
	ASSERT_EQ(0, gp_vm_create(self->fd, &vm));
	for (ret = 0; !ret;) {
		__u32 timeline;

		ret = gp_stream_create(self->fd, vm, 0, 16, &id, &timeline);
	}
	ASSERT_EQ(-EMFILE, ret);
	EXPECT_REFUSAL(GPUMEM_LIMIT_STREAMS, 1);

	/* A call that succeeds or has a wrong argument is no refusal. */
	EXPECT_EQ(-EINVAL, bo_alloc(self->fd, 1, 0, "", &id));
	EXPECT_EQ(-ENOENT, gp_destroy(self->fd, 0x3ffff));
	{
		struct heard h;

		EXPECT_EQ(-NLE_AGAIN, collect(&listener, &h));
		EXPECT_EQ(0, h.count);
	}
	gnl_close(&listener);
}

/* Makes all objects that a client may have. */
TEST_F_TIMEOUT(netlink, refused_object, 900)
{
	struct gnl listener;
	__u32 id;
	int ret;

	if (getenv("GPUMEM_QUICK"))
		SKIP(return, "as many objects as a client may have take minutes");
	ASSERT_EQ(0, listen_for(&listener));
	do
		ret = gp_vm_create(self->fd, &id);
	while (!ret);
	ASSERT_EQ(-EMFILE, ret);
	EXPECT_REFUSAL(GPUMEM_LIMIT_OBJECTS, 1);
	gnl_close(&listener);
}

static int without_ipc_lock(void *arg)
{
	const struct rlimit limit = { 64 * KIB, 64 * KIB };
	struct gnl_refusal *r = arg;
	struct gnl listener;
	struct heard h;
	__u32 id;
	int fd;

	WANT(!listen_for(&listener));
	fd = gp_open(0);
	WANT(fd >= 0 && !setrlimit(RLIMIT_MEMLOCK, &limit));
	WANT(!setresuid(NOBODY, NOBODY, NOBODY));
	WANT(bo_alloc(fd, MIB, GPUMEM_BO_ALLOC_HOST, "", &id) == -EDQUOT);
	WANT(collect(&listener, &h) == -NLE_AGAIN && h.count == 1);
	WANT(h.last.limit == GPUMEM_LIMIT_MEMLOCK && h.last.asked == MIB);
	WANT(h.last.bounded && h.last.bound == 64 * KIB && h.last.used == 0);
	WANT(h.last.uid == NOBODY);
	(void)r;
	return 0;
}

TEST_F(netlink, refused_by_memlock)
{
	ASSERT_EQ(0, set_memlock("Y"));
	EXPECT_EQ(0, run_child(without_ipc_lock, NULL));
	EXPECT_EQ(0, set_memlock("N"));
}

static int in_small_cgroup(void *arg)
{
	struct gnl listener;
	struct heard h;
	__u32 id;
	int fd;

	WANT(!cgroup_enter(arg));
	WANT(!listen_for(&listener));
	fd = gp_open(0);
	WANT(fd >= 0);
	WANT(bo_alloc(fd, 32 * MIB, 0, "", &id) == -ENOMEM);
	WANT(collect(&listener, &h) == -NLE_AGAIN && h.count == 1);
	WANT(h.last.limit == GPUMEM_LIMIT_MEMCG && h.last.asked == 32 * MIB);
	WANT(h.last.bounded && h.last.bound == 16 * MIB);
	return 0;
}

TEST_F(netlink, refused_by_memcg)
{
	struct cgroup cg;

	if (cgroup_make(&cg, "netlink"))
		SKIP(return, "no memory cgroups");
	ASSERT_EQ(0, cgroup_write(&cg, "memory.max", "16M"));
	EXPECT_EQ(0, run_child(in_small_cgroup, &cg));
	EXPECT_EQ(0, cgroup_remove(&cg));
}

/* "gpumem watch" prints the reports.  The case above tests the reports themselves.  */
TEST_F(netlink, watch)
{
	char line[256] = "", want[128];
	FILE *f = popen("exec timeout 30 ${BUILD:-build}/bin/gpumem watch -b -n 1 2>&1", "r");
	__u32 id;

	ASSERT_NE(NULL, f);
	ASSERT_NE(NULL, fgets(line, sizeof(line), f));
	ASSERT_NE(NULL, strstr(line, "waiting"));
	ASSERT_EQ(-ENOSPC, bo_alloc(self->fd, 1ULL << 41, 0, "", &id));
	ASSERT_NE(NULL, fgets(line, sizeof(line), f));
	snprintf(want, sizeof(want), "t_netlink_limit[%d] uid %u client ", getpid(), getuid());
	EXPECT_EQ(&line[0], strstr(line, want));
	snprintf(want, sizeof(want),
		 " device 0: %llu refused by the device's memory: 0 of %lld in use", 1ULL << 41,
		 dev_attr(0, "size"));
	EXPECT_NE(NULL, strstr(line, want));
	EXPECT_EQ(0, pclose(f));
}

/*
 * The rate of reports is bounded however often a client is refused, and reports count those that
 * were dropped.
 */
TEST_F(netlink, rate)
{
	__u64 begin = mono_ns(), seconds;
	long long total = dev_attr(0, "size");
	struct gnl listener;
	struct heard h, more;
	__u32 id;

	ASSERT_EQ(0, listen_for(&listener));
	for (int i = 0; i < 500; i++)
		ASSERT_EQ(-ENOSPC, bo_alloc(self->fd, total + MIB, 0, "", &id));
	seconds = (mono_ns() - begin) / NSEC + 2;
	EXPECT_EQ(-NLE_AGAIN, collect(&listener, &h));
	EXPECT_LE(1, h.count);
	EXPECT_GE(10 * seconds, h.count);
	nap_ms(1200);
	ASSERT_EQ(-ENOSPC, bo_alloc(self->fd, total + MIB, 0, "", &id));
	EXPECT_EQ(-NLE_AGAIN, collect(&listener, &more));
	EXPECT_EQ(1, more.count);
	EXPECT_EQ(501, h.count + h.missed + more.count + more.missed);
	gnl_close(&listener);
}

TEST_HARNESS_MAIN
