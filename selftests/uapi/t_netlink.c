// SPDX-License-Identifier: GPL-2.0
/*
 * The generic netlink family: dumps of the objects that the test made, permissions, dumps while
 * objects change, malformed requests; and that the leak detector finds leaks.  t_netlink_limit has the
 * reports of refusals.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/genetlink.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/netlink.h>

#include "kselftest_harness.h"
#include "netlink_fixture.h"
#include "common/pool_util.h"

#define NOBODY	65534
#define RW	(PROT_READ | PROT_WRITE)
#define ANON	(MAP_PRIVATE | MAP_ANONYMOUS)

TEST_F(netlink, devices)
{
	struct gnl_device *devices;
	struct gpumem_info info;
	size_t n;

	ASSERT_EQ(0, gp_info(self->fd, 0, &info));
	ASSERT_EQ(0, gnl_devices(&self->nl, &devices, &n));
	ASSERT_EQ(dev_count(), n);
	for (unsigned int i = 0; i < n; i++) {
		EXPECT_EQ(i, devices[i].index);
		EXPECT_EQ(dev_attr(i, "size"), (long long)devices[i].total);
		EXPECT_EQ(dev_attr(i, "used"), (long long)devices[i].used);
		EXPECT_EQ(!i, devices[i].clients);
		EXPECT_EQ(0, devices[i].bos + devices[i].exports + devices[i].views);
	}
	EXPECT_EQ(info.total, devices[0].total);
	free(devices);
}

/* A dump lists an object of each type with its attributes.  */
TEST_F(netlink, objects)
{
	__u32 dev, host, pin, vm, token, timeline, view, map;
	const struct gnl_object *o;
	struct gpumem_bo_import import;
	struct gnl_object *objects;
	struct gnl_client c;
	struct stream s;
	__u8 key[GPUMEM_TOKEN_SIZE];
	int dmabuf;
	bool torn;
	size_t n;
	void *p;

	ASSERT_EQ(0, bo_alloc(self->fd, 2 * MIB, 0, "weights", &dev));
	ASSERT_EQ(0, bo_alloc(self->fd, MIB, GPUMEM_BO_ALLOC_HOST, "", &host));
	p = mmap(NULL, MIB, RW, ANON, -1, 0);
	ASSERT_NE(MAP_FAILED, p);
	ASSERT_EQ(0, bo_pin(self->fd, (char *)p + 1, 5000, &pin));
	ASSERT_EQ(0, gp_vm_create(self->fd, &vm));
	ASSERT_EQ(0, stream_open(&s, self->fd, vm, 0, 16));
	ASSERT_EQ(0, gp_timeline_create(self->fd, 0, &timeline));
	ASSERT_EQ(0, gp_token_create(self->fd, dev, page_size, page_size, 0, &token, key));
	dmabuf = gp_bo_export(self->fd, dev, 0, 4 * page_size, 0);
	ASSERT_LE(0, dmabuf);
	ASSERT_EQ(0, gp_bo_import(self->fd, dmabuf, &import));
	view = import.id;
	ASSERT_EQ(0, bo_alloc(self->fd, MIB, 0, "mapped", &map));
	ASSERT_EQ(0, gp_vm_map(self->fd, vm, map, 0, 0x10000000, MIB, 1, 1));
	ASSERT_EQ(0, gp_destroy(self->fd, map));

	c = client_of(&self->nl, getpid());
	ASSERT_NE(0, c.id);
	EXPECT_STREQ("t_netlink", c.comm);
	EXPECT_EQ(getuid(), c.uid);
	EXPECT_EQ(0, c.device);
	EXPECT_FALSE(c.dead);
	EXPECT_EQ(8, GNL_COUNT(&c, OBJECTS) - (s.timeline != 0));
	EXPECT_EQ(3 * MIB, GNL_COUNT(&c, BO_BYTES));
	EXPECT_EQ(MIB, GNL_COUNT(&c, HOST_BYTES));
	EXPECT_EQ(5000, GNL_COUNT(&c, PIN_BYTES));
	EXPECT_EQ(1, GNL_COUNT(&c, EXPORTS));
	EXPECT_EQ(1, GNL_COUNT(&c, TOKENS));
	EXPECT_EQ(1, GNL_COUNT(&c, STREAMS));

	ASSERT_EQ(0, gnl_objects(&self->nl, c.id, &objects, &n, &torn));
	EXPECT_FALSE(torn);
	EXPECT_EQ(10, n);
	o = find(objects, n, dev);
	ASSERT_NE(NULL, o);
	EXPECT_EQ(GPUMEM_BO_DEVICE, o->kind);
	EXPECT_EQ(2 * MIB, o->length);
	EXPECT_STREQ("weights", o->name);
	EXPECT_EQ(GPUMEM_OBJECT_FLAG_EXPORTED, o->flags);
	o = find(objects, n, host);
	ASSERT_NE(NULL, o);
	EXPECT_EQ(GPUMEM_BO_HOST, o->kind);
	EXPECT_STREQ("", o->name);
	o = find(objects, n, pin);
	ASSERT_NE(NULL, o);
	EXPECT_EQ(GPUMEM_BO_PINNED, o->kind);
	EXPECT_EQ(5000, o->length);
	o = find(objects, n, view);
	ASSERT_NE(NULL, o);
	EXPECT_EQ(GPUMEM_BO_VIEW, o->kind);
	EXPECT_EQ(4 * page_size, o->length);
	o = find(objects, n, vm);
	ASSERT_NE(NULL, o);
	EXPECT_EQ(GPUMEM_OBJECT_TYPE_VM, o->type);
	o = find(objects, n, s.id);
	ASSERT_NE(NULL, o);
	EXPECT_EQ(GPUMEM_OBJECT_TYPE_STREAM, o->type);
	EXPECT_EQ(0, o->device);
	o = find(objects, n, timeline);
	ASSERT_NE(NULL, o);
	EXPECT_EQ(GPUMEM_OBJECT_TYPE_TIMELINE, o->type);
	o = find(objects, n, token);
	ASSERT_NE(NULL, o);
	EXPECT_EQ(GPUMEM_OBJECT_TYPE_TOKEN, o->type);
	EXPECT_EQ(page_size, o->length);
	o = find(objects, n, map);
	ASSERT_NE(NULL, o);
	EXPECT_EQ(GPUMEM_OBJECT_FLAG_GONE, o->flags);
	EXPECT_EQ(MIB, o->length);
	free(objects);

	/* No client has this number, so the dump is empty.  */
	ASSERT_EQ(0, gnl_objects(&self->nl, 0x7fffffff, &objects, &n, &torn));
	EXPECT_EQ(0, n);
	free(objects);
	EXPECT_EQ(0, stream_close(&s));
	close(dmabuf);
}

/* Managed memory has the counters that GPUMEM_BO_INFO returns; other memory has none. */
TEST_F(netlink, managed)
{
	const __u64 addr = 0x7f0000000000ULL, block = GPUMEM_MANAGED_BLOCK;
	struct gnl_object *objects;
	struct gpumem_bo_info info;
	const struct gnl_object *o;
	struct gpumem_sqe sqe;
	struct gnl_client c;
	struct stream s;
	__u32 vm, id, bo;
	char size[64];
	bool torn;
	size_t n;

	ASSERT_EQ(0, dev_attr_text(0, "size", size, sizeof(size)));
	ASSERT_EQ(0, write_file("/sys/class/gpumem/gpumem0/size", "4M"));
	ASSERT_EQ(0, bo_alloc(self->fd, page_size, GPUMEM_BO_ALLOC_HOST, "", &bo));
	ASSERT_EQ(0, gp_managed_alloc(self->fd, 3 * block, &id));
	ASSERT_EQ(0, gp_vm_create(self->fd, &vm));
	ASSERT_EQ(0, gp_vm_map(self->fd, vm, id, 0, addr, 3 * block, 1, 1));
	ASSERT_EQ(0, stream_open(&s, self->fd, vm, 0, 16));
	for (unsigned int i = 0; i < 5; i++) {
		sqe = sqe_fill(addr + i % 3 * block, 1, i, block);
		ASSERT_EQ(0, stream_push(&s, &sqe));
	}
	sqe = sqe_prefetch(addr, 3 * block, GPUMEM_PREFETCH_HOST);
	ASSERT_EQ(0, stream_push(&s, &sqe));
	sqe = sqe_prefetch(addr, 1, GPUMEM_PREFETCH_DEVICE);
	ASSERT_EQ(0, stream_push(&s, &sqe));
	ASSERT_EQ(0, stream_sync(&s));

	c = client_of(&self->nl, getpid());
	EXPECT_EQ(1, GNL_COUNT(&c, MANAGED));
	EXPECT_EQ(5, GNL_COUNT(&c, MANAGED_FAULTS));
	EXPECT_EQ(3, GNL_COUNT(&c, MANAGED_EVICTIONS));
	EXPECT_EQ(2, GNL_COUNT(&c, MANAGED_THRASH));
	EXPECT_EQ(6 * block, GNL_COUNT(&c, MANAGED_IN));
	EXPECT_EQ(5 * block, GNL_COUNT(&c, MANAGED_OUT));
	ASSERT_EQ(0, gp_bo_info(self->fd, id, &info));
	ASSERT_EQ(0, gnl_objects(&self->nl, c.id, &objects, &n, &torn));
	o = find(objects, n, id);
	ASSERT_NE(NULL, o);
	EXPECT_EQ(GPUMEM_BO_MANAGED, o->kind);
	EXPECT_EQ(block, o->resident);
	EXPECT_EQ(5, o->faults);
	EXPECT_EQ(3, o->evictions);
	EXPECT_EQ(2, o->thrash);
	EXPECT_EQ(6 * block, o->moved_in);
	EXPECT_EQ(5 * block, o->moved_out);
	EXPECT_EQ(info.resident, o->resident);
	EXPECT_EQ(info.faults, o->faults);
	EXPECT_EQ(info.evictions, o->evictions);
	EXPECT_EQ(info.thrash, o->thrash);
	EXPECT_EQ(info.moved_in, o->moved_in);
	EXPECT_EQ(info.moved_out, o->moved_out);
	o = find(objects, n, bo);
	ASSERT_NE(NULL, o);
	EXPECT_EQ(0, o->resident + o->faults + o->evictions + o->thrash + o->moved_in +
		  o->moved_out);
	ASSERT_EQ(0, gp_bo_info(self->fd, bo, &info));
	EXPECT_EQ(0, info.resident + info.faults + info.evictions + info.thrash + info.moved_in +
		  info.moved_out);
	free(objects);
	EXPECT_EQ(0, stream_close(&s));
	ASSERT_EQ(0, write_file("/sys/class/gpumem/gpumem0/size", size));
}

/*
 * A pool with its counters, its chunks and its imports, and the report of a refusal by its limit.
 */
TEST_F(netlink, pools)
{
	const struct gnl_object *o;
	struct gnl_object *objects;
	__u32 pool, chunk, import;
	struct gnl_device *devices;
	struct gnl_client c;
	struct gnl listener;
	struct heard h;
	bool torn;
	size_t n;

	ASSERT_EQ(0, gp_pool_create(self->fd, 0, 0, 4 * MIB, "tensors", &pool));
	ASSERT_EQ(0, gp_pool_chunk(self->fd, pool, MIB, &chunk, NULL));
	ASSERT_EQ(0, gp_destroy(self->fd, chunk));
	ASSERT_EQ(0, gp_pool_chunk(self->fd, pool, MIB / 2, &chunk, NULL));
	ASSERT_EQ(0, gp_pool_set(self->fd, pool, 1000, 2000));
	ASSERT_EQ(0, gp_pool_share(self->fd, pool, self->fd, &import));
	ASSERT_EQ(0, listen_for(&listener));
	ASSERT_EQ(-EDQUOT, gp_pool_chunk(self->fd, pool, 4 * MIB, &chunk, NULL));
	EXPECT_EQ(-NLE_AGAIN, collect(&listener, &h));
	EXPECT_EQ(1, h.count);
	EXPECT_EQ(GPUMEM_LIMIT_POOL, h.last.limit);
	EXPECT_EQ(pool, h.last.pool);
	EXPECT_EQ(4 * MIB, h.last.asked);
	EXPECT_EQ(MIB / 2, h.last.used);
	EXPECT_EQ(4 * MIB, h.last.bound);
	EXPECT_EQ(0, h.last.device);
	gnl_close(&listener);

	c = client_of(&self->nl, getpid());
	EXPECT_EQ(1, GNL_COUNT(&c, POOLS));
	EXPECT_EQ(1, GNL_COUNT(&c, POOL_IMPORTS));
	EXPECT_EQ(MIB / 2, GNL_COUNT(&c, POOL_RESERVED));
	ASSERT_EQ(0, gnl_devices(&self->nl, &devices, &n));
	EXPECT_EQ(1, devices[0].pools);
	free(devices);
	ASSERT_EQ(0, gnl_objects(&self->nl, c.id, &objects, &n, &torn));
	EXPECT_EQ(3, n);
	o = find(objects, n, pool);
	ASSERT_NE(NULL, o);
	EXPECT_EQ(GPUMEM_OBJECT_TYPE_POOL, o->type);
	EXPECT_STREQ("tensors", o->name);
	EXPECT_EQ(0, o->device);
	EXPECT_EQ(4 * MIB, o->limit);
	EXPECT_EQ(MIB / 2, o->reserved);
	EXPECT_EQ(MIB, o->reserved_high);
	EXPECT_EQ(1000, o->used);
	EXPECT_EQ(2000, o->used_high);
	EXPECT_EQ(1, o->chunks);
	EXPECT_EQ(1, o->imports);
	o = find(objects, n, import);
	ASSERT_NE(NULL, o);
	EXPECT_EQ(GPUMEM_OBJECT_TYPE_POOL_REF, o->type);
	EXPECT_STREQ("tensors", o->name);
	for (size_t i = 0; i < n; i++)
		if (objects[i].type == GPUMEM_OBJECT_TYPE_BO)
			EXPECT_EQ(pool, objects[i].pool);
	free(objects);
	/* A pool that outlives its id is listed with its counters, and no entry has its number. */
	ASSERT_EQ(0, gp_destroy(self->fd, pool));
	ASSERT_EQ(0, gnl_objects(&self->nl, c.id, &objects, &n, &torn));
	EXPECT_EQ(3, n);
	for (size_t i = 0; i < n; i++) {
		EXPECT_EQ(0, objects[i].pool);
		if (objects[i].type != GPUMEM_OBJECT_TYPE_POOL)
			continue;
		EXPECT_EQ(GPUMEM_OBJECT_FLAG_GONE, objects[i].flags);
		EXPECT_EQ(MIB / 2, objects[i].reserved);
	}
	free(objects);
	/* leak_module() prints a line for each of these: the client, three objects, the device.  */
	EXPECT_EQ(5, leak_module(false));
}

/* Memory that only a mapping holds belongs to no object; the device's counters include it.  */
TEST_F(netlink, orphaned)
{
	struct gnl_device *devices;
	__u32 id;
	size_t n;
	void *p;

	p = gp_alloc_map(self->fd, 2 * MIB, &id);
	ASSERT_NE(NULL, p);
	ASSERT_EQ(0, gp_destroy(self->fd, id));
	ASSERT_EQ(0, gnl_devices(&self->nl, &devices, &n));
	EXPECT_EQ(2 * MIB, devices[0].used);
	EXPECT_EQ(2 * MIB, devices[0].orphaned);
	EXPECT_EQ(0, devices[0].bos);
	free(devices);
	ASSERT_EQ(0, munmap(p, 2 * MIB));
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 10));
	ASSERT_EQ(0, gnl_devices(&self->nl, &devices, &n));
	EXPECT_EQ(0, devices[0].orphaned);
	free(devices);
}

/* --- who sees what */

struct view {
	int failed;		/* line of the first check that failed */
	pid_t parent;
};

static int as_nobody(void *arg)
{
	struct view *v = arg;
	struct gnl_client *clients;
	struct gnl_object *objects;
	struct gnl_device *devices;
	struct gnl nl, old;
	bool torn;
	size_t n;
	__u32 id;
	int fd;

	/* A socket that root opened gives its later user no rights of root.  */
	WANT(!gnl_open(&old));
	WANT(!setresgid(NOBODY, NOBODY, NOBODY) && !setresuid(NOBODY, NOBODY, NOBODY));
	WANT(!gnl_clients(&old, &clients, &n, &torn));
	WANT(!n);
	WANT(!gnl_open(&nl));
	WANT(!gnl_clients(&nl, &clients, &n, &torn) && !n);
	WANT(!gnl_objects(&nl, 0, &objects, &n, &torn) && !n);
	WANT(!gnl_devices(&nl, &devices, &n) && n == dev_count() && devices[0].bos == 1);
	fd = gp_open(0);
	WANT(fd >= 0);
	WANT(!bo_alloc(fd, page_size, 0, "mine", &id));
	WANT(!gnl_clients(&nl, &clients, &n, &torn) && n == 1);
	WANT(clients->pid == (__u32)getpid() && clients->uid == NOBODY);
	WANT(!gnl_objects(&nl, 0, &objects, &n, &torn) && n == 1);
	WANT(!strcmp(objects->name, "mine"));
	/* A dump omits the parent's client, also when it is requested by number.  */
	WANT(!gnl_objects(&nl, clients->id - 1, &objects, &n, &torn) && !n);
	/* Only root may receive reports.  */
	WANT(gnl_listen(&nl) == -NLE_PERM);
	(void)v;
	return 0;
}

TEST_F(netlink, other_user)
{
	struct view v = { .parent = getpid() };
	__u32 id;

	ASSERT_EQ(0, gp_bo_alloc(self->fd, page_size, &id));
	ASSERT_EQ(0, chmod("/dev/gpumem0", 0666));
	EXPECT_EQ(0, run_child(as_nobody, &v));
	EXPECT_EQ(0, chmod("/dev/gpumem0", 0660));
}

/* As the user "nobody" with group @arg, or, if that is negative, in a user namespace. */
static int seen_by(void *arg)
{
	int group = *(int *)arg, n = 0;
	struct gnl_client *clients;
	struct gnl nl;
	bool torn;
	size_t have;

	if (setresgid(abs(group), abs(group), abs(group)) ||
	    setresuid(NOBODY, NOBODY, NOBODY) || (group < 0 && unshare(CLONE_NEWUSER)) ||
	    gnl_open(&nl) || gnl_clients(&nl, &clients, &have, &torn))
		return 100;
	n = have;
	gnl_close(&nl);
	return n;
}

struct inside {
	int told[2], go[2];
	bool caps;
};

static int nobody_of_group_1(void *arg)
{
	struct inside *in = arg;

	WANT(!in->caps || !prctl(PR_SET_KEEPCAPS, 1));
	WANT(!setresgid(1, 1, 1) && !setresuid(NOBODY, NOBODY, NOBODY));
	WANT(gp_open(0) >= 0);
	WANT(tell(in->told[1]) && hear(in->go[0]));
	return 0;
}

/*
 * Processes of one user with different rights: a process sees a client if it may read the
 * /proc/PID/fdinfo of the client's process.
 */
TEST_F(netlink, same_user)
{
	int same = 1, other = 2, within = -1;
	struct inside in;

	ASSERT_EQ(0, chmod("/dev/gpumem0", 0666));
	for (int caps = 0; caps < 2; caps++) {
		pid_t child;

		in.caps = caps;
		ASSERT_EQ(0, pipe(in.told));
		ASSERT_EQ(0, pipe(in.go));
		child = start_child(nobody_of_group_1, &in);
		close(in.told[1]);
		EXPECT_TRUE(hear(in.told[0]));
		EXPECT_EQ(!caps, run_child(seen_by, &same));
		EXPECT_EQ(0, run_child(seen_by, &other));
		EXPECT_EQ(0, run_child(seen_by, &within));
		tell(in.go[1]);
		EXPECT_EQ(0, end_child(child));
		close(in.told[0]);
		close(in.go[0]);
		close(in.go[1]);
	}
	EXPECT_EQ(0, chmod("/dev/gpumem0", 0660));
}

/* A socket that another user opened shows root only the clients of that user.  */
static int with_handed_socket(void *arg)
{
	struct gnl_client *clients;
	struct gnl nl;
	bool torn;
	size_t n;

	(void)arg;
	WANT(!seteuid(NOBODY));
	WANT(!gnl_open(&nl));
	WANT(!seteuid(0));
	WANT(!gnl_clients(&nl, &clients, &n, &torn) && !n);
	gnl_close(&nl);
	WANT(!gnl_open(&nl));
	WANT(!gnl_clients(&nl, &clients, &n, &torn) && n == 1);
	gnl_close(&nl);
	return 0;
}

TEST_F(netlink, handed_socket)
{
	EXPECT_EQ(0, run_child(with_handed_socket, NULL));
}

static int in_namespaces(void *arg)
{
	struct inside *in = arg;
	struct gnl_client *clients;
	struct gnl nl;
	bool torn;
	size_t n;
	int fd;

	/* The family exists in other network namespaces.  */
	WANT(!unshare(CLONE_NEWNET));
	WANT(getpid() == 1);
	WANT(!gnl_open(&nl));
	fd = gp_open(0);
	WANT(fd >= 0);
	WANT(!gnl_clients(&nl, &clients, &n, &torn));
	/* Root or not, a dump omits processes that this pid namespace does not show. */
	WANT(n == 1 && clients->pid == 1);
	WANT(tell(in->told[1]) && hear(in->go[0]));
	return 0;
}

static int make_namespace(void *arg)
{
	WANT(!unshare(CLONE_NEWPID));
	return run_child(in_namespaces, arg);
}

TEST_F(netlink, namespaces)
{
	struct gnl_client *clients;
	struct inside in;
	pid_t child;
	bool torn;
	size_t n;

	ASSERT_EQ(0, pipe(in.told));
	ASSERT_EQ(0, pipe(in.go));
	child = start_child(make_namespace, &in);
	close(in.told[1]);
	if (hear(in.told[0])) {
		/*
		 * A dump in the parent pid namespace has both clients, with pids of that namespace.
		 */
		ASSERT_EQ(0, gnl_clients(&self->nl, &clients, &n, &torn));
		EXPECT_EQ(2, n);
		EXPECT_EQ(getpid(), clients[0].pid);
		EXPECT_LT(child, (pid_t)clients[1].pid);
		free(clients);
	} else {
		EXPECT_TRUE(false);
	}
	tell(in.go[1]);
	EXPECT_EQ(0, end_child(child));
	close(in.told[0]);
	close(in.go[0]);
	close(in.go[1]);
}

/* --- dumps */

#define MANY	3000

TEST_F(netlink, many_objects)
{
	static unsigned char seen[GPUMEM_MAX_OBJECTS];
	struct gnl_object *objects;
	struct gnl_client c;
	__u32 id;
	bool torn;
	size_t n;

	for (int i = 0; i < MANY; i++) {
		ASSERT_EQ(0, gp_vm_create(self->fd, &id));
		seen[id]++;
	}
	c = client_of(&self->nl, getpid());
	EXPECT_EQ(MANY, GNL_COUNT(&c, OBJECTS));
	/* At 44 bytes each they need several buffers, none of which exceeds 32 KiB. */
	ASSERT_EQ(0, gnl_objects(&self->nl, 0, &objects, &n, &torn));
	EXPECT_FALSE(torn);
	EXPECT_EQ(MANY, n);
	for (size_t i = 0; i < n; i++) {
		EXPECT_EQ(c.id, objects[i].client);
		EXPECT_EQ(1, seen[objects[i].id]);
		seen[objects[i].id]++;
	}
	free(objects);
	EXPECT_EQ(0, leak_module(false) - (MANY + 2));
}

/* Makes and destroys clients and objects until it is killed.  */
static int churn(void *arg)
{
	__u32 ids[64];

	(void)arg;
	for (;;) {
		int fd = gp_open(0);

		for (int round = 0; round < 50; round++) {
			for (int i = 0; i < 64; i++)
				gp_vm_create(fd, &ids[i]);
			for (int i = 0; i < 63; i++)
				gp_destroy(fd, ids[i]);
		}
		close(fd);
	}
	return 0;
}

TEST_F(netlink, dump_while_changing)
{
	struct gnl_object *objects;
	struct gnl_client *clients;
	unsigned int dumps = 0;
	pid_t children[2];
	__u32 id;
	bool torn;
	size_t n;

	for (int i = 0; i < 300; i++)
		ASSERT_EQ(0, gp_vm_create(self->fd, &id));
	for (int i = 0; i < 2; i++)
		children[i] = start_child(churn, NULL);
	for (int i = 0; i < 30; i++) {
		size_t mine = 0;

		ASSERT_EQ(0, gnl_clients(&self->nl, &clients, &n, &torn));
		for (size_t k = 0; k < n; k++)
			mine += clients[k].pid == (__u32)getpid();
		EXPECT_EQ(1, mine);
		free(clients);
		ASSERT_EQ(0, gnl_objects(&self->nl, 0, &objects, &n, &torn));
		/* Objects that stay are in every dump. */
		mine = 0;
		for (size_t k = 0; k < n; k++)
			mine += objects[k].client == objects[0].client;
		EXPECT_EQ(300, mine);
		dumps += n > 300;
		free(objects);
		if (i == 20)
			kill_child(children[0]);
	}
	kill_child(children[1]);
	EXPECT_LT(0, dumps);
}

/* A dump that is not read to its end does not keep a client alive. */
TEST_F(netlink, unread_dump)
{
	struct nl_sock *sock = nl_socket_alloc();
	__u32 id;

	for (int i = 0; i < 2000; i++)
		ASSERT_EQ(0, gp_vm_create(self->fd, &id));
	ASSERT_EQ(0, gp_bo_alloc(self->fd, MIB, &id));
	ASSERT_EQ(0, genl_connect(sock));
	ASSERT_LE(0, genl_send_simple(sock, self->nl.family, GPUMEM_NL_CMD_OBJECT_GET,
				      GPUMEM_FAMILY_VERSION, NLM_F_DUMP));
	close(self->fd);
	EXPECT_TRUE(dev_quiet(10));
	EXPECT_EQ(0, leak_module(true));
	nl_socket_free(sock);
	self->fd = gp_open(0);
}

/* --- malformed requests */

TEST_F(netlink, malformed)
{
	const int family = self->nl.family, dump = NLM_F_DUMP;
	struct payload p = {
		.genl.version = 1,
		.attr = { 8, GPUMEM_A_DEVICE_INDEX },
	};
	struct rng r;

	EXPECT_EQ(0, request(family, GPUMEM_NL_CMD_DEVICE_GET, 0, &p, 12));
	EXPECT_EQ(EINVAL, request(family, GPUMEM_NL_CMD_DEVICE_GET, 0, &p, 4));
	p.value[0] = GPUMEM_MAX_DEVICES;
	EXPECT_EQ(ENODEV, request(family, GPUMEM_NL_CMD_DEVICE_GET, 0, &p, 12));
	p.value[0] = ~0U;
	EXPECT_EQ(ENODEV, request(family, GPUMEM_NL_CMD_DEVICE_GET, 0, &p, 12));
	/* Too short, too long, unknown, trailing bytes. */
	p.attr.nla_len = 6;
	EXPECT_NE(0, request(family, GPUMEM_NL_CMD_DEVICE_GET, 0, &p, 12));
	p.attr.nla_len = 12;
	EXPECT_NE(0, request(family, GPUMEM_NL_CMD_DEVICE_GET, 0, &p, 16));
	p.attr.nla_len = 200;
	EXPECT_NE(0, request(family, GPUMEM_NL_CMD_DEVICE_GET, 0, &p, 12));
	p.attr.nla_len = 8;
	p.attr.nla_type = GPUMEM_A_DEVICE_TOTAL;
	EXPECT_EQ(EINVAL, request(family, GPUMEM_NL_CMD_DEVICE_GET, 0, &p, 12));
	p.attr.nla_type = 0x3fff;
	EXPECT_EQ(EINVAL, request(family, GPUMEM_NL_CMD_CLIENT_GET, dump, &p, 12));
	EXPECT_EQ(EINVAL, request(family, GPUMEM_NL_CMD_OBJECT_GET, dump, &p, 12));
	/* Operations that take no attribute.  */
	EXPECT_EQ(EINVAL, request(family, GPUMEM_NL_CMD_HOST_GET, 0, &p, 12));
	EXPECT_EQ(EINVAL, request(family, GPUMEM_NL_CMD_DEVICE_GET, dump, &p, 12));
	p.attr.nla_type = 1;
	EXPECT_EQ(EINVAL, request(family, GPUMEM_NL_CMD_HOST_GET, 0, &p, 12));
	EXPECT_EQ(EINVAL, request(family, GPUMEM_NL_CMD_DEVICE_GET, dump, &p, 12));
	/*
	 * Operations that do not exist or do not exist as a dump or a request, and a truncated
	 * header.
	 */
	EXPECT_EQ(EOPNOTSUPP, request(family, GPUMEM_NL_CMD_CLIENT_GET, 0, &p, 4));
	EXPECT_EQ(EOPNOTSUPP, request(family, GPUMEM_NL_CMD_HOST_GET, dump, &p, 4));
	EXPECT_EQ(EOPNOTSUPP, request(family, GPUMEM_NL_CMD_REFUSAL_NTF, 0, &p, 4));
	EXPECT_EQ(EOPNOTSUPP, request(family, 0, 0, &p, 4));
	EXPECT_EQ(EOPNOTSUPP, request(family, 255, dump, &p, 4));
	EXPECT_NE(0, request(family, 0, 0, &p, 0));

	rng_start(&r, "malformed");
	for (int i = 0; i < 1000; i++) {
		unsigned char junk[64];

		rng_fill(&r, junk, sizeof(junk));
		request(family, rng_below(&r, 7), rng_below(&r, 2) ? dump : 0, junk,
			4 + rng_below(&r, 60));
	}
	/* The family survives. */
	EXPECT_EQ(0, request(family, GPUMEM_NL_CMD_HOST_GET, 0, &(struct genlmsghdr) { 0 }, 4));
	EXPECT_EQ(getpid(), (pid_t)client_of(&self->nl, getpid()).pid);
}

/* --- the leak detector */

static int holder(void *arg)
{
	struct inside *in = arg;
	int fd = gp_open(0);
	__u32 id;
	void *p;

	WANT(!bo_alloc(fd, MIB, 0, "forgotten", &id));
	p = gp_map(fd, id, 0, MIB, RW);
	WANT(p);
	WANT(tell(in->told[1]) && hear(in->go[0]));
	/* From here only the mapping holds memory.  */
	close(fd);
	WANT(tell(in->told[1]) && hear(in->go[0]));
	return 0;
}

TEST_F(netlink, leak_detector)
{
	struct inside in;
	char text[1024], want[64];
	pid_t child;
	FILE *f;

	close(self->fd);
	self->fd = -1;
	EXPECT_EQ(0, leak_module(true));
	ASSERT_EQ(0, pipe(in.told));
	ASSERT_EQ(0, pipe(in.go));
	child = start_child(holder, &in);
	ASSERT_TRUE(hear(in.told[0]));
	/* A line each for the client, its object and the device.  */
	EXPECT_EQ(3, leak_module(false));
	f = popen("${BUILD:-build}/bin/gpumem leaks; echo status $?", "r");
	ASSERT_NE(NULL, f);
	text[fread(text, 1, sizeof(text) - 1, f)] = 0;
	pclose(f);
	snprintf(want, sizeof(want), "pid %d, ", child);
	EXPECT_NE(NULL, strstr(text, want));
	EXPECT_NE(NULL, strstr(text, "device memory 1 forgotten, 1048576 bytes"));
	EXPECT_NE(NULL, strstr(text, "status 1\n"));
	tell(in.go[1]);
	ASSERT_TRUE(hear(in.told[0]));
	EXPECT_EQ(1, leak_module(false));
	EXPECT_EQ((long long)MIB, dev_attr(0, "used"));
	tell(in.go[1]);
	EXPECT_EQ(0, end_child(child));
	EXPECT_TRUE(dev_quiet(10));
	EXPECT_EQ(0, leak_module(true));
	for (int i = 0; i < 2; i++) {
		close(in.told[i]);
		close(in.go[i]);
	}
}

TEST_HARNESS_MAIN
