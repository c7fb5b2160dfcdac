// SPDX-License-Identifier: GPL-2.0
/*
 * Shares of a device's memory: read() and poll() of a client's file, the attribute "budget", and a
 * model of the notices after random operations of several clients.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "kselftest_harness.h"
#include "common/util.h"

#define CLIENTS	4u

FIXTURE(budget)
{
	int fd[CLIENTS];
};

static int set_budget(const char *text)
{
	int fd = open("/sys/class/gpumem/gpumem0/budget", O_WRONLY | O_CLOEXEC), ret = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		ret = -errno;
	close(fd);
	return ret;
}

static int set_bytes(__u64 bytes)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu\n", (unsigned long long)bytes);
	return set_budget(text);
}

FIXTURE_SETUP(budget)
{
	ASSERT_TRUE(dev_quiet(10));
	ASSERT_EQ(0, set_budget("0"));
	for (unsigned int i = 0; i < CLIENTS; i++) {
		self->fd[i] = gp_open(0);
		ASSERT_LE(0, self->fd[i]);
		ASSERT_EQ(0, fcntl(self->fd[i], F_SETFL, O_NONBLOCK));
	}
}

FIXTURE_TEARDOWN(budget)
{
	for (unsigned int i = 0; i < CLIENTS; i++)
		close(self->fd[i]);
	EXPECT_EQ(0, set_budget("0"));
	EXPECT_TRUE(dev_quiet(10));
}

/* The excess in a client's notice, 0 if there is no notice, or a negative errno. */
static long long told(int fd)
{
	struct gpumem_notice notice;
	ssize_t n = read(fd, &notice, sizeof(notice));

	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	if (n != sizeof(notice) || notice.type != GPUMEM_NOTICE_OVER_BUDGET || notice.device)
		return -EPROTO;
	return notice.bytes;
}

/* The client's excess, reported or not. */
static long long excess(int fd)
{
	struct gpumem_info info;
	int ret = gp_info(fd, 0, &info);

	return ret ? ret : (long long)info.excess;
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1 && p.revents == POLLIN;
}

TEST_F(budget, attribute)
{
	EXPECT_EQ(0, dev_attr(0, "budget"));
	EXPECT_EQ(0, set_budget("1234567"));
	EXPECT_EQ(1234567, dev_attr(0, "budget"));
	EXPECT_EQ(0, set_budget("3M\n"));
	EXPECT_EQ(3 * MIB, dev_attr(0, "budget"));
	EXPECT_EQ(-EINVAL, set_budget("\n"));
	EXPECT_EQ(-EINVAL, set_budget("-1"));
	EXPECT_EQ(-EINVAL, set_budget("many"));
	EXPECT_EQ(-EINVAL, set_budget("1M 2"));
	EXPECT_EQ(-EINVAL, set_budget("0xffffffffffffffff"));
	EXPECT_EQ(3 * MIB, dev_attr(0, "budget"));
}

static int other_reads(void *arg)
{
	struct pollfd p = { .fd = *(int *)arg, .events = POLLIN };
	struct gpumem_notice notice;

	if (read(p.fd, &notice, sizeof(notice)) != -1 || errno != EPERM)
		return 1;
	return poll(&p, 1, 0) == 1 && p.revents == POLLERR ? 0 : 2;
}

TEST_F(budget, reading)
{
	struct gpumem_notice notice[2];
	int fd = self->fd[0];
	void *nowhere;
	__u32 id;

	EXPECT_EQ(-1, read(fd, notice, sizeof(notice[0]) - 1));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(0, told(fd));
	EXPECT_FALSE(readable(fd));
	EXPECT_EQ(0, set_budget("4M"));
	ASSERT_EQ(0, gp_bo_alloc(fd, 10 * MIB, &id));
	EXPECT_TRUE(readable(fd));
	/* A read by another process, or to bad memory, does not consume the notice. */
	EXPECT_EQ(0, run_child(other_reads, &fd));
	nowhere = mmap(NULL, page_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, nowhere);
	EXPECT_EQ(-1, read(fd, nowhere, sizeof(notice)));
	EXPECT_EQ(EFAULT, errno);
	memset(notice, 0x55, sizeof(notice));
	EXPECT_EQ(sizeof(notice[0]), read(fd, notice, sizeof(notice)));
	EXPECT_EQ(GPUMEM_NOTICE_OVER_BUDGET, notice[0].type);
	EXPECT_EQ(0, notice[0].device);
	EXPECT_EQ(6 * MIB, notice[0].bytes);
	EXPECT_EQ(0x55555555, notice[1].type);
	EXPECT_FALSE(readable(fd));
	EXPECT_EQ(0, told(fd));
	/* The current excess can be queried. */
	EXPECT_EQ(6 * MIB, excess(fd));
	EXPECT_EQ(0, excess(self->fd[1]));
	EXPECT_EQ(0, told(fd));
	/* An excess that was reported and persists is reported again only after a new budget. */
	EXPECT_EQ(0, set_budget("5M"));
	EXPECT_EQ(5 * MIB, told(fd));
	/* A notice is dropped if its excess has ended before the client reads it. */
	EXPECT_EQ(0, set_budget("2M"));
	EXPECT_TRUE(readable(fd));
	EXPECT_EQ(0, set_budget("10M"));
	EXPECT_FALSE(readable(fd));
	EXPECT_EQ(0, set_budget("2M"));
	EXPECT_TRUE(readable(fd));
	ASSERT_EQ(0, gp_destroy(fd, id));
	EXPECT_FALSE(readable(fd));
	EXPECT_EQ(0, told(fd));
}

/* A read() into a page at which userfaultfd stops the thread. */
struct held_read {
	pthread_t thread;
	int fd, uffd, error;
	void *page;
};

static void *held_reader(void *arg)
{
	struct held_read *r = arg;

	r->error = read(r->fd, r->page, sizeof(struct gpumem_notice)) < 0 ? errno : 0;
	return NULL;
}

/* Start the read; return when the kernel has taken the notice and stopped at the page. */
static bool held_begin(struct held_read *r, int fd)
{
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_api api = { .api = UFFD_API };
	struct pollfd p = { .fd = r->uffd, .events = POLLIN };

	r->fd = fd;
	r->page = mmap(NULL, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r->page == MAP_FAILED || ioctl(r->uffd, UFFDIO_API, &api))
		return false;
	reg.range.start = (uintptr_t)r->page;
	reg.range.len = page_size;
	return !ioctl(r->uffd, UFFDIO_REGISTER, &reg) &&
	       !pthread_create(&r->thread, NULL, held_reader, r) && poll(&p, 1, 20000) == 1;
}

/* Unmap the page, so that the copy fails.  Return the reader's errno. */
static int held_fail(struct held_read *r)
{
	munmap(r->page, page_size);
	close(r->uffd);
	return pthread_join(r->thread, NULL) ? -1 : r->error;
}

/* A notice whose copy fails is put back, unless a newer one replaced it or it was dropped. */
TEST_F(budget, failed_copy)
{
	static const struct {
		const char *budget;	/* written during the copy */
		bool alloc;		/* 2 MiB more are allocated during the copy */
		bool free;		/* 2 MiB are freed during the copy */
		unsigned int during, after;	/* excess in the notices read, in MiB */
	} step[] = {
		{ .after = 6 },
		{ .budget = "6M", .during = 4 },
		{ .budget = "12M" },
		{ .alloc = true, .after = 8 },
		{ .free = true, .after = 4 },
	};
	struct held_read r;
	int fd = self->fd[0];
	__u32 id[3];

	ASSERT_EQ(0, gp_bo_alloc(fd, 8 * MIB, &id[0]));
	ASSERT_EQ(0, gp_bo_alloc(fd, 2 * MIB, &id[1]));
	for (unsigned int i = 0; i < ARRAY_SIZE(step); i++) {
		ASSERT_EQ(0, set_budget("4M"));
		ASSERT_TRUE(readable(fd));
		r.uffd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
		ASSERT_LE(0, r.uffd);
		ASSERT_TRUE(held_begin(&r, fd));
		EXPECT_FALSE(readable(fd));
		if (step[i].budget)
			EXPECT_EQ(0, set_budget(step[i].budget));
		if (step[i].alloc)
			EXPECT_EQ(0, gp_bo_alloc(fd, 2 * MIB, &id[2]));
		if (step[i].free)
			EXPECT_EQ(0, gp_destroy(fd, id[1]));
		EXPECT_EQ(step[i].during * (long long)MIB, told(fd));
		EXPECT_EQ(EFAULT, held_fail(&r));
		EXPECT_EQ(step[i].after * (long long)MIB, told(fd));
		if (step[i].alloc)
			EXPECT_EQ(0, gp_destroy(fd, id[2]));
	}
}

static int alloc_soon(void *arg)
{
	__u32 id;

	(void)arg;
	nap_ms(100);
	return set_budget("1M") ? 1 : gp_bo_alloc(gp_open(0), 2 * MIB, &id) ? 2 : 0;
}

/* A blocking reader sleeps until there is a notice.  */
TEST_F(budget, waiting)
{
	struct gpumem_notice notice;
	__u32 id;
	pid_t pid;

	ASSERT_EQ(0, gp_bo_alloc(self->fd[0], 4 * MIB, &id));
	ASSERT_EQ(0, fcntl(self->fd[0], F_SETFL, 0));
	pid = start_child(alloc_soon, NULL);
	EXPECT_EQ(sizeof(notice), read(self->fd[0], &notice, sizeof(notice)));
	EXPECT_EQ(3 * MIB, notice.bytes);
	EXPECT_EQ(0, end_child(pid));
}

/* When a client below its share is refused memory, clients above their share are notified. */
TEST_F(budget, refused)
{
	__u64 size = dev_attr(0, "size"), most = size - 2 * MIB;
	__u32 id, other;

	if (size > 512 * MIB)
		SKIP(return, "the device is too large to be filled");
	ASSERT_EQ(0, gp_bo_alloc(self->fd[0], most, &id));
	EXPECT_EQ(0, told(self->fd[0]));
	EXPECT_EQ(-ENOSPC, gp_bo_alloc(self->fd[1], 4 * MIB, &other));
	EXPECT_EQ(most - size / 2, told(self->fd[0]));
	EXPECT_EQ(0, told(self->fd[1]));
	/* Each refusal notifies again. */
	EXPECT_EQ(-ENOSPC, gp_bo_alloc(self->fd[1], 4 * MIB, &other));
	EXPECT_EQ(most - size / 2, told(self->fd[0]));
	/* A refusal does not notify if the request exceeds the requester's share. */
	EXPECT_EQ(-ENOSPC, gp_bo_alloc(self->fd[1], size / 2 + 2 * MIB, &other));
	EXPECT_EQ(0, told(self->fd[0]));
	/* If memory is given back before the notice is read, it reports the remaining excess. */
	ASSERT_EQ(0, gp_destroy(self->fd[0], id));
	ASSERT_EQ(0, gp_bo_alloc(self->fd[0], most - 2 * MIB, &id));
	ASSERT_EQ(0, gp_bo_alloc(self->fd[0], 2 * MIB, &other));
	EXPECT_EQ(-ENOSPC, gp_bo_alloc(self->fd[1], 4 * MIB, &id));
	ASSERT_EQ(0, gp_destroy(self->fd[0], other));
	EXPECT_EQ(most - size / 2 - 2 * MIB, told(self->fd[0]));
	/* A new budget drops the notice of a client that is within its new share. */
	ASSERT_EQ(0, gp_bo_alloc(self->fd[0], 2 * MIB, &other));
	EXPECT_EQ(-ENOSPC, gp_bo_alloc(self->fd[1], 4 * MIB, &id));
	EXPECT_EQ(0, set_bytes(size));
	EXPECT_EQ(0, told(self->fd[0]));
	EXPECT_EQ(0, set_bytes(0));
}

/* --- many */

struct churn {
	int fd, stop, result;
	pthread_t thread;
};

/* Allocates and destroys in a loop, so that the client is a holder by turns.  */
static void *churn_main(void *arg)
{
	struct churn *c = arg;
	__u32 id;

	while (!c->result && !__atomic_load_n(&c->stop, __ATOMIC_RELAXED)) {
		c->result = gp_bo_alloc(c->fd, page_size, &id);
		if (!c->result)
			c->result = gp_destroy(c->fd, id);
	}
	return NULL;
}

/*
 * More holders of memory than the kernel scans without a reschedule, while holders come and go and
 * the share changes.
 */
TEST_F(budget, many_holders)
{
	enum { HOLDERS = 150, ROUNDS = 50 };
	struct churn churn[2];
	int fd[HOLDERS];
	__u32 id;

	for (int i = 0; i < HOLDERS; i++) {
		fd[i] = gp_open(0);
		ASSERT_LE(0, fd[i]);
		ASSERT_EQ(0, fcntl(fd[i], F_SETFL, O_NONBLOCK));
		ASSERT_EQ(0, gp_bo_alloc(fd[i], (1 + i % 3) * page_size, &id));
	}
	for (int i = 0; i < 2; i++) {
		churn[i] = (struct churn) { .fd = self->fd[i] };
		ASSERT_EQ(0, pthread_create(&churn[i].thread, NULL, churn_main, &churn[i]));
	}
	for (int i = 0; i < ROUNDS; i++)
		ASSERT_EQ(0, set_bytes(i % 4 * page_size));
	/* All clients above the last share are found, although holders come and go. */
	ASSERT_EQ(0, set_bytes(2 * page_size));
	for (int i = 0; i < HOLDERS; i++)
		ASSERT_EQ(i % 3 == 2 ? page_size : 0, told(fd[i]));
	for (int i = 0; i < 2; i++) {
		__atomic_store_n(&churn[i].stop, 1, __ATOMIC_RELAXED);
		pthread_join(churn[i].thread, NULL);
		EXPECT_EQ(0, churn[i].result);
	}
	for (int i = 0; i < HOLDERS; i++) {
		ASSERT_EQ(0, told(fd[i]));
		close(fd[i]);
	}
}

/* --- a model */

struct model_client {
	__u32 bo[8];
	__u64 bytes[8], held;
	bool over;
	__u64 excess;
};

static void review(struct model_client *c, __u64 share)
{
	bool over = c->held > share;

	if (!over && c->over)
		c->excess = 0;
	else if (over && (!c->over || c->excess))
		c->excess = c->held - share;
	c->over = over;
}

static unsigned int holders_of(const struct model_client *c)
{
	unsigned int i, holders = 0;

	for (i = 0; i < CLIENTS; i++)
		holders += !!c[i].held;
	return holders ? holders : 1;
}

static void review_all(struct model_client *c, __u64 budget, __u64 size)
{
	for (unsigned int i = 0; i < CLIENTS; i++)
		if (c[i].held)
			review(&c[i], budget ? budget : size / holders_of(c));
}

TEST_F(budget, model)
{
	__u64 steps = env_number("GPUMEM_STEPS", 1800) / 6, size = dev_attr(0, "size"), budget = 0;
	struct model_client client[CLIENTS] = { 0 };
	unsigned int i, slot;
	struct rng rng;
	__u32 id;

	if (size > 512 * MIB)
		SKIP(return, "the device is too large to be filled");
	rng_start(&rng, "budgets");
	for (__u64 step = 0; step < steps; step++) {
		struct model_client *c;

		i = rng_below(&rng, CLIENTS);
		slot = rng_below(&rng, ARRAY_SIZE(c->bo));
		c = &client[i];
		if (!rng_below(&rng, 10)) {
			budget = rng_below(&rng, 3) ? rng_below(&rng, 64) * MIB : 0;
			ASSERT_EQ(0, set_bytes(budget));
			for (unsigned int j = 0; j < CLIENTS; j++) {
				client[j].excess = 0;
				client[j].over = false;
			}
			review_all(client, budget, size);
		} else if (c->bytes[slot]) {
			ASSERT_EQ(0, gp_destroy(self->fd[i], c->bo[slot]));
			c->held -= c->bytes[slot];
			c->excess -= c->excess < c->bytes[slot] ? c->excess : c->bytes[slot];
			c->bytes[slot] = 0;
			if (!c->held) {
				c->over = false;
				c->excess = 0;
			}
			review_all(client, budget, size);
		} else {
			__u64 bytes = (1 + rng_below(&rng, 2)) * 2 * MIB;

			ASSERT_EQ(0, gp_bo_alloc(self->fd[i], bytes, &c->bo[slot]));
			c->bytes[slot] = bytes;
			c->held += bytes;
			review_all(client, budget, size);
		}
		for (i = 0; i < CLIENTS; i++) {
			__u64 share = budget ? budget : size / holders_of(client);

			if (rng_below(&rng, 3))
				continue;
			ASSERT_EQ(client[i].held > share ? client[i].held - share : 0,
				  excess(self->fd[i]));
			ASSERT_EQ(!!client[i].excess, readable(self->fd[i]));
			ASSERT_EQ(client[i].excess, told(self->fd[i])) {
				TH_LOG("client %u in step %llu", i, (unsigned long long)step);
			}
			client[i].excess = 0;
		}
	}
	/* A client that certainly gets a notice. */
	ASSERT_EQ(0, gp_bo_alloc(self->fd[0], 4 * MIB, &id));
	ASSERT_EQ(0, set_bytes(MIB));
	EXPECT_EQ(client[0].held + 3 * MIB, told(self->fd[0]));
}

TEST_HARNESS_MAIN
