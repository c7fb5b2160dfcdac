// SPDX-License-Identifier: GPL-2.0
/*
 * A client as seen by other processes: reports of refusals, which other users cannot suppress; the
 * right reason for a refusal; fdinfo, whose cost does not grow; and that a window's file can be
 * reached by the window only.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>

#include "kselftest_harness.h"
#include "common/client_fixture.h"
#include "netlink_util.h"
#include "common/pool_util.h"

#define RW	(PROT_READ | PROT_WRITE)
#define ALICE	2001
#define BOB	2002
#define NOISE	32	/* clients of the user that floods */

FIXTURE(refusal)
{
	struct leak_state leak;
	int fd;
};

FIXTURE_SETUP(refusal)
{
	client_begin(_metadata, &self->leak, &self->fd);
}

FIXTURE_TEARDOWN(refusal)
{
	client_end(_metadata, &self->leak, self->fd, 20);
}

/* --- one user's refusals do not suppress the reports of others */

struct noise {
	int ready[2], go[2];
	uid_t uid;
	unsigned int clients;
};

static int refused_all_the_time(void *arg)
{
	struct noise *n = arg;
	int fd[NOISE];
	__u32 id;

	if (setresuid(n->uid, n->uid, n->uid))
		return 1;
	for (unsigned int i = 0; i < n->clients; i++) {
		fd[i] = gp_open(0);
		if (fd[i] < 0)
			return 2;
	}
	if (!tell(n->ready[1]))
		return 3;
	for (;;)
		for (unsigned int i = 0; i < n->clients; i++)
			bo_alloc(fd[i], 1ULL << 41, 0, "", &id);
	return 0;
}

static int refused_now_and_then(void *arg)
{
	struct noise *n = arg;
	__u32 id;
	int fd;

	if (setresuid(n->uid, n->uid, n->uid))
		return 1;
	fd = gp_open(0);
	while (hear(n->go[0])) {
		if (bo_alloc(fd, 1ULL << 41, 0, "", &id) != -ENOSPC)
			return 2;
		tell(n->ready[1]);
	}
	return 0;
}

struct by_user {
	unsigned int alice, bob;
};

static bool note_user(const struct gnl_refusal *r, void *arg)
{
	struct by_user *u = arg;

	u->alice += r->uid == ALICE;
	u->bob += r->uid == BOB;
	return true;
}

TEST_F(refusal, one_user_hides_no_other)
{
	struct noise a = { .uid = ALICE, .clients = NOISE }, b = { .uid = BOB };
	struct by_user u = { 0 };
	__u64 begin = mono_ns();
	struct gnl listener;
	pid_t alice, bob;

	ASSERT_EQ(0, pipe(a.ready) | pipe(b.ready) | pipe2(b.go, O_CLOEXEC));
	ASSERT_EQ(0, listen_for(&listener));
	alice = start_child(refused_all_the_time, &a);
	bob = start_child(refused_now_and_then, &b);
	ASSERT_TRUE(hear(a.ready[0]));
	for (unsigned int i = 0; i < 20; i++) {
		nap_ms(150);
		/* By now Alice's reports of this second are used up.  */
		ASSERT_TRUE(tell(b.go[1]) && hear(b.ready[0]));
		EXPECT_EQ(-NLE_AGAIN, gnl_hear(&listener, note_user, &u));
		EXPECT_EQ(i + 1, u.bob);
	}
	/* All of Alice's clients together get 50 reports in each second that has begun.  */
	EXPECT_GE(50 * ((mono_ns() - begin) / NSEC + 2), u.alice);
	EXPECT_LT(20, u.alice);
	kill_child(alice);
	kill_child(bob);
	gnl_close(&listener);
	for (int i = 0; i < 2; i++) {
		close(a.ready[i]);
		close(b.ready[i]);
		close(b.go[i]);
	}
}

/* --- overcommit is the system's limit, not the device's */

struct overcommit {
	char mode[32];
	long long ratio;
};

/* Let the kernel commit @bytes more, less the part that the kernel reserves.  */
static int overcommit_begin(struct overcommit *o, long long bytes)
{
	long long committed = number_of("/proc/meminfo", "Committed_AS:");
	char text[32];
	FILE *f;
	int ret;

	f = fopen("/proc/sys/vm/overcommit_memory", "re");
	if (!f || !fgets(o->mode, sizeof(o->mode), f))
		return -errno;
	fclose(f);
	f = fopen("/proc/sys/vm/overcommit_ratio", "re");
	if (!f || fscanf(f, "%lld", &o->ratio) != 1)
		return -errno;
	fclose(f);
	snprintf(text, sizeof(text), "%lld", committed + bytes / 1024);
	ret = write_file("/proc/sys/vm/overcommit_kbytes", text);
	return ret ? ret : write_file("/proc/sys/vm/overcommit_memory", "2");
}

static int overcommit_end(const struct overcommit *o)
{
	int ret = write_file("/proc/sys/vm/overcommit_memory", o->mode);
	char text[32];

	snprintf(text, sizeof(text), "%lld", o->ratio);
	return write_file("/proc/sys/vm/overcommit_ratio", text) ?: ret;
}

/* An allocation while the system has 48 MiB left. */
static void overcommitted(struct __test_metadata *_metadata, int fd, __u64 bytes, int want)
{
	struct overcommit o;
	int ret, set, end;
	__u32 id;

	set = overcommit_begin(&o, 48 * MIB);
	ret = bo_alloc(fd, bytes, 0, "", &id);
	end = overcommit_end(&o);
	EXPECT_EQ(0, set);
	EXPECT_EQ(0, end);
	EXPECT_EQ(want, ret);
}

TEST_F(refusal, overcommit)
{
	long long total = dev_attr(0, "size");
	struct gnl listener;
	struct heard h;
	__u32 id;

	ASSERT_LT(128 * (long long)MIB, total);
	ASSERT_EQ(0, listen_for(&listener));
	/* The device has room for what the system refuses. */
	overcommitted(_metadata, self->fd, 96 * MIB, -ENOMEM);
	EXPECT_EQ(-NLE_AGAIN, collect(&listener, &h));
	EXPECT_EQ(1, h.count);
	EXPECT_EQ(GPUMEM_LIMIT_SYSTEM, h.last.limit);
	EXPECT_EQ(96 * MIB, h.last.asked);
	/* If neither the device nor the system has room, the device refuses. */
	overcommitted(_metadata, self->fd, total + 2 * MIB, -ENOSPC);
	EXPECT_EQ(-NLE_AGAIN, collect(&listener, &h));
	EXPECT_EQ(1, h.count);
	EXPECT_EQ(GPUMEM_LIMIT_DEVICE, h.last.limit);
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 10));
	EXPECT_EQ(0, bo_alloc(self->fd, 96 * MIB, 0, "", &id));
	gnl_close(&listener);
}

/* --- reports name these limits */

TEST_F(refusal, mappings_and_all_users_are_reported)
{
	struct gnl listener, nl;
	struct gnl_client me;
	struct gnl_host host;
	struct heard h;
	__u32 bo, vm, id;
	char text[32];
	int ret, ret2;

	ASSERT_EQ(0, gnl_open(&nl));
	ASSERT_EQ(0, gnl_host(&nl, &host));
	EXPECT_LT(host.pin_limit, host.pin_total);
	EXPECT_EQ(0, host.pinned);
	ASSERT_EQ(0, listen_for(&listener));
	ASSERT_EQ(0, gp_bo_alloc(self->fd, page_size, &bo));
	ASSERT_EQ(0, gp_vm_create(self->fd, &vm));
	ASSERT_EQ(0, gp_vm_map(self->fd, vm, bo, 0, MIB, page_size, 1, 1));
	me = client_of(&nl, getpid());
	EXPECT_EQ(1, GNL_COUNT(&me, MAPPINGS));
	ASSERT_EQ(0, write_file("/sys/module/gpumem/parameters/map_limit", "1"));
	ret = gp_vm_map(self->fd, vm, bo, 0, 2 * MIB, page_size, 1, 1);
	ASSERT_EQ(0, write_file("/sys/module/gpumem/parameters/map_limit", "4194304"));
	EXPECT_EQ(-EDQUOT, ret);
	EXPECT_EQ(-NLE_AGAIN, collect(&listener, &h));
	EXPECT_EQ(1, h.count);
	EXPECT_EQ(GPUMEM_LIMIT_MAPPINGS, h.last.limit);
	EXPECT_EQ(1, h.last.used);
	EXPECT_EQ(1, h.last.bound);
	EXPECT_STREQ("the user's map_limit", gnl_limit_name(h.last.limit));

	ASSERT_EQ(0, write_file("/sys/module/gpumem/parameters/pin_total", "1M"));
	ret = bo_alloc(self->fd, 2 * MIB, GPUMEM_BO_ALLOC_HOST, "", &id);
	ret2 = bo_alloc(self->fd, MIB, GPUMEM_BO_ALLOC_HOST, "", &id);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)host.pin_total);
	ASSERT_EQ(0, write_file("/sys/module/gpumem/parameters/pin_total", text));
	EXPECT_EQ(-EDQUOT, ret);
	EXPECT_EQ(0, ret2);
	EXPECT_EQ(-NLE_AGAIN, collect(&listener, &h));
	EXPECT_EQ(1, h.count);
	EXPECT_EQ(GPUMEM_LIMIT_PINNED_ALL, h.last.limit);
	EXPECT_EQ(MIB, h.last.bound);
	ASSERT_EQ(0, gnl_host(&nl, &host));
	EXPECT_EQ(MIB, host.pinned);
	gnl_close(&listener);
	gnl_close(&nl);
}

/* A refusal in a page fault is reported, too.  */
TEST_F(refusal, rings_are_reported)
{
	const char *limit = "/sys/module/gpumem/parameters/ring_limit";
	struct gnl listener, nl;
	struct gnl_client me;
	struct gnl_host host;
	struct stream s;
	struct heard h;
	char text[32];
	__u32 vm;
	int ret;

	ASSERT_EQ(0, gnl_open(&nl));
	ASSERT_EQ(0, gp_vm_create(self->fd, &vm));
	ASSERT_EQ(0, stream_open(&s, self->fd, vm, 0, 4096));
	ASSERT_EQ(0, gnl_host(&nl, &host));
	EXPECT_LT(host.ring_limit, host.ring_total);
	EXPECT_EQ(page_size, host.rings);
	me = client_of(&nl, getpid());
	EXPECT_EQ(page_size, GNL_COUNT(&me, RING_BYTES));
	ASSERT_EQ(0, listen_for(&listener));
	ASSERT_EQ(0, write_file(limit, "4096"));
	ret = madvise((char *)s.ring + page_size, page_size, MADV_POPULATE_WRITE) ? -errno : 0;
	snprintf(text, sizeof(text), "%llu", (unsigned long long)host.ring_limit);
	ASSERT_EQ(0, write_file(limit, text));
	EXPECT_EQ(-EFAULT, ret);
	EXPECT_EQ(-NLE_AGAIN, collect(&listener, &h));
	EXPECT_EQ(1, h.count);
	EXPECT_EQ(GPUMEM_LIMIT_RINGS, h.last.limit);
	EXPECT_EQ(page_size, h.last.asked);
	EXPECT_EQ(page_size, h.last.used);
	EXPECT_EQ(page_size, h.last.bound);
	EXPECT_STREQ("the user's ring_limit", gnl_limit_name(h.last.limit));
	EXPECT_EQ(0, stream_close(&s));
	gnl_close(&listener);
	gnl_close(&nl);
}

/* --- the refused thread queries the reason */

static int refusal_of(int fd, struct gpumem_refusal_info *r)
{
	*r = (struct gpumem_refusal_info) { .size = sizeof(*r) };
	return gp_ioctl(fd, GPUMEM_REFUSAL, r);
}

struct asker {
	int fd, ret;
	struct gpumem_refusal_info info;
};

static void *ask_in_thread(void *arg)
{
	struct asker *a = arg;

	a->ret = refusal_of(a->fd, &a->info);
	return NULL;
}

TEST_F(refusal, thread_asks_why)
{
	long long total = dev_attr(0, "size");
	struct asker other = { .fd = self->fd };
	struct gpumem_refusal_info r;
	pthread_t thread;
	__u32 id, bo, vm;
	int ret;

	ASSERT_EQ(0, refusal_of(self->fd, &r));
	EXPECT_EQ(0, r.limit);
	ASSERT_EQ(-ENOSPC, bo_alloc(self->fd, total + 2 * MIB, 0, "", &id));
	/* A query by another thread neither returns nor clears the reason.  */
	ASSERT_EQ(0, pthread_create(&thread, NULL, ask_in_thread, &other));
	pthread_join(thread, NULL);
	EXPECT_EQ(0, other.ret);
	EXPECT_EQ(0, other.info.limit);
	ASSERT_EQ(0, refusal_of(self->fd, &r));
	EXPECT_EQ(GPUMEM_LIMIT_DEVICE, r.limit);
	EXPECT_EQ(0, r.device);
	EXPECT_EQ(0, r.pool);
	EXPECT_EQ((__u64)total + 2 * MIB, r.asked);
	EXPECT_EQ((__u64)total, r.max);
	/* It is reported once. */
	ASSERT_EQ(0, refusal_of(self->fd, &r));
	EXPECT_EQ(0, r.limit);
	EXPECT_EQ(0, r.asked);
	/* The reason is that of the thread's last call only.  */
	ASSERT_EQ(-ENOSPC, bo_alloc(self->fd, total + 2 * MIB, 0, "", &id));
	ASSERT_EQ(-ENOENT, gp_destroy(self->fd, 12345));
	ASSERT_EQ(0, refusal_of(self->fd, &r));
	EXPECT_EQ(0, r.limit);

	ASSERT_EQ(0, gp_bo_alloc(self->fd, page_size, &bo));
	ASSERT_EQ(0, gp_vm_create(self->fd, &vm));
	ASSERT_EQ(0, gp_vm_map(self->fd, vm, bo, 0, MIB, page_size, 1, 1));
	ASSERT_EQ(0, write_file("/sys/module/gpumem/parameters/map_limit", "1"));
	ret = gp_vm_map(self->fd, vm, bo, 0, 2 * MIB, page_size, 1, 1);
	ASSERT_EQ(0, write_file("/sys/module/gpumem/parameters/map_limit", "4194304"));
	EXPECT_EQ(-EDQUOT, ret);
	ASSERT_EQ(0, refusal_of(self->fd, &r));
	EXPECT_EQ(GPUMEM_LIMIT_MAPPINGS, r.limit);
	EXPECT_EQ(1, r.asked);
	EXPECT_EQ(1, r.used);
	EXPECT_EQ(1, r.max);
}

/* --- fdinfo */

/*
 * Reads fdinfo several times: returns the shortest time in ns, the text's @length, and in @value
 * the rest of the line that begins with @key.
 */
static __u64 fdinfo_cost(int fd, size_t *length, const char *key, char *value, size_t size)
{
	static char text[1 << 16];
	__u64 best = ~0ULL;
	char path[64], *at;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	for (int i = 0; i < 50; i++) {
		int f = open(path, O_RDONLY | O_CLOEXEC);
		__u64 begin = mono_ns(), took;
		ssize_t n;

		*length = 0;
		while ((n = read(f, text + *length, sizeof(text) - 1 - *length)) > 0)
			*length += n;
		took = mono_ns() - begin;
		best = took < best ? took : best;
		close(f);
		text[*length] = 0;
	}
	value[0] = 0;
	at = strstr(text, key);
	if (at)
		snprintf(value, size, "%.*s", (int)strcspn(at + strlen(key), "\n"),
			 at + strlen(key));
	if (strstr(text, "gpumem-pool:"))
		*length = ~0UL;
	return best;
}

TEST_F_TIMEOUT(refusal, fdinfo_of_many_pools, 180)
{
	unsigned int many = getenv("GPUMEM_QUICK") ? 3000 : 10000;
	size_t length[2];
	char value[64];
	__u64 cost[2];
	__u32 id;

	for (unsigned int i = 0; i < 10; i++)
		ASSERT_EQ(0, gp_pool_create(self->fd, 0, 0, 0, "p", &id));
	cost[0] = fdinfo_cost(self->fd, &length[0], "gpumem-pools:\t", value, sizeof(value));
	EXPECT_STREQ("10", value);
	for (unsigned int i = 10; i < many; i++)
		ASSERT_EQ(0, gp_pool_create(self->fd, 0, 0, 0, "p", &id));
	cost[1] = fdinfo_cost(self->fd, &length[1], "gpumem-pools:\t", value, sizeof(value));
	EXPECT_EQ(many, strtoul(value, NULL, 10));
	TH_LOG("%llu ns with 10 pools, %llu ns with %u", (unsigned long long)cost[0],
	       (unsigned long long)cost[1], many);
	EXPECT_GE(2 * cost[0], cost[1]);
	/* The text may only grow by longer numbers.  */
	EXPECT_GE(length[0] + 64, length[1]);
}

TEST_F(refusal, fdinfo_common_keys)
{
	struct gnl_client me;
	struct gnl nl;
	char value[64], want[64];
	__u32 id, device;
	size_t length;
	int other;

	ASSERT_EQ(0, gnl_open(&nl));
	me = client_of(&nl, getpid());
	gnl_close(&nl);
	ASSERT_EQ(0, bo_alloc(self->fd, 3 * MIB, 0, "", &id));
	ASSERT_EQ(0, bo_alloc(self->fd, MIB, GPUMEM_BO_ALLOC_HOST, "", &id));
#define KEY(_key, _want) do {							\
		fdinfo_cost(self->fd, &length, "\n" _key ":\t", value, sizeof(value));	\
		EXPECT_STREQ(_want, value) {					\
			TH_LOG(_key);						\
		}								\
	} while (0)
	KEY("gpumem-vram-0", "3145728");
	/* A device that is not attached has no key. */
	KEY("gpumem-vram-1", "");
	other = gp_open(1);
	ASSERT_LE(0, other);
	ASSERT_EQ(0, gp_attach(self->fd, other, &device));
	close(other);
	ASSERT_EQ(0, gp_bo_alloc_on(self->fd, device, 2 * MIB, &id));
	KEY("gpumem-vram-0", "3145728");
	KEY("gpumem-vram-1", "2097152");
	ASSERT_EQ(0, gp_destroy(self->fd, id));
	KEY("gpumem-vram-1", "0");
	KEY("drm-driver", "gpumem");
	snprintf(want, sizeof(want), "%u", me.id);
	KEY("drm-client-id", want);
	/* No stream had work. */
	KEY("drm-engine-cpu", "0 ns");
	KEY("drm-total-vram", "3145728");
	KEY("drm-resident-vram", "3145728");
	KEY("drm-purgeable-vram", "0");
	KEY("drm-total-memory", "1048576");
	KEY("drm-resident-memory", "1048576");
	KEY("drm-purgeable-memory", "0");
#undef KEY
}

/* --- /proc/PID/map_files */

static int reopen(const void *p, size_t n, int flags)
{
	char path[96];
	int fd, ret;

	snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx", (long)p, (long)p + n);
	fd = open(path, flags | O_CLOEXEC);
	ret = fd < 0 ? -errno : 0;
	if (fd >= 0)
		close(fd);
	return ret;
}

TEST_F(refusal, map_files)
{
	size_t n = 16 * page_size, part = 4 * page_size;
	int dmabuf, other, again, mem;
	char *root, *window, *plain;
	char path[96];
	__u32 id;

	/* This process has the right to open entries of map_files.  */
	mem = memfd_create("t_refusal", MFD_CLOEXEC);
	ASSERT_EQ(0, ftruncate(mem, n));
	plain = mmap(NULL, n, RW, MAP_SHARED, mem, 0);
	ASSERT_NE(MAP_FAILED, plain);
	ASSERT_EQ(0, reopen(plain, n, O_RDONLY));

	root = gp_alloc_map(self->fd, n, &id);
	ASSERT_NE(NULL, root);
	memset(root, 7, n);
	dmabuf = gp_bo_export(self->fd, id, part, part, 0);
	ASSERT_LE(0, dmabuf);
	window = mmap(NULL, part, RW, MAP_SHARED, dmabuf, 0);
	ASSERT_NE(MAP_FAILED, window);
	EXPECT_EQ(-EPERM, reopen(window, part, O_RDONLY));
	EXPECT_EQ(-EPERM, reopen(window, part, O_RDWR));
	EXPECT_EQ(-EPERM, reopen(root, n, O_RDONLY));
	/* Reopening a descriptor of the path is refused, too.  */
	snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx", (long)window,
		 (long)window + part);
	other = open(path, O_PATH | O_CLOEXEC);
	if (other >= 0) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", other);
		again = open(path, O_RDONLY | O_CLOEXEC);
		EXPECT_EQ(-1, again);
		close(other);
	}
	/* Closing the DMA-buf and unmapping the window leave the object as it is.  */
	close(dmabuf);
	EXPECT_EQ(1, dev_attr(0, "bos"));
	munmap(window, part);
	munmap(plain, n);
	close(mem);
	EXPECT_EQ(7, root[n - 1]);
}

TEST_HARNESS_MAIN
