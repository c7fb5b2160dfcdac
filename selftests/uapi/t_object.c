// SPDX-License-Identifier: GPL-2.0
/*
 * Objects and clients: in which client an id is valid, which process may use a client, and what is
 * left when the owner's process exits or calls execve(). t_kill tests owners that are killed.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "kselftest_harness.h"
#include "common/client_fixture.h"
#include "common/pin_util.h"
#include "common/util.h"

#define ADDR	0x100000000ULL

FIXTURE(object)
{
	struct leak_state leak;
	int fd;
	__u32 bo, vm, stream, stream_timeline, timeline, token;
	__u8 name[GPUMEM_TOKEN_SIZE];
};

FIXTURE_SETUP(object)
{
	client_begin(_metadata, &self->leak, &self->fd);
	ASSERT_EQ(0, gp_bo_alloc(self->fd, 64 * KIB, &self->bo));
	ASSERT_EQ(0, gp_vm_create(self->fd, &self->vm));
	ASSERT_EQ(0, gp_stream_create(self->fd, self->vm, 0, 16, &self->stream,
				      &self->stream_timeline));
	ASSERT_EQ(0, gp_timeline_create(self->fd, 0, &self->timeline));
	ASSERT_EQ(0, gp_token_create(self->fd, self->bo, 0, 100, 0, &self->token, self->name));
}

FIXTURE_TEARDOWN(object)
{
	client_end(_metadata, &self->leak, self->fd, 10);
}

/* One call on @id for each type of object that a call takes. */
enum { AS_BO, AS_VM, AS_STREAM, AS_TIMELINE, AS_MAPPING, AS_TYPES };

static int use_as(int fd, int type, __u32 id, __u32 vm)
{
	struct gpumem_timeline_wait wait;
	struct gpumem_bo_info info;
	__u8 name[GPUMEM_TOKEN_SIZE];
	__u32 some, live;
	int ret;

	switch (type) {
	case AS_BO:
		ret = gp_bo_retire(fd, id, 0, 1, GPUMEM_BO_RETIRE_QUERY, &live);
		if (ret != gp_bo_info(fd, id, &info))
			return -EDOM;
		if (ret && (ret != gp_bo_export(fd, id, 0, page_size, 0) ||
			    ret != gp_token_create(fd, id, 0, 1, 0, &some, name) ||
			    ret != gp_vm_map(fd, vm, id, 0, ADDR, page_size, 1, 1)))
			return -EDOM;
		return ret;
	case AS_VM:
		ret = gp_vm_unmap(fd, id, ADDR, page_size, NULL);
		if (ret && (ret != gp_stream_create(fd, id, 0, 16, &some, &live) ||
			    ret != gp_vm_map(fd, id, 1, 0, ADDR, page_size, 1, 1) ||
			    ret != gp_vm_access(fd, id, ADDR, page_size, 0, 1)))
			return -EDOM;
		return ret;
	case AS_STREAM:
		return gp_doorbell(fd, id);
	case AS_TIMELINE:
		ret = gp_timeline_wait(fd, id, 0, 0, &wait);
		if (ret && ret != gp_timeline_signal(fd, id, 1))
			return -EDOM;
		return ret;
	default:
		/* A ring is mapped as a whole; a ring of 16 entries has two pages.  */
		ret = gp_map_errno(fd, id, 0, page_size, PROT_READ, MAP_SHARED);
		return ret == -EINVAL ? gp_map_errno(fd, id, 0, 2 * page_size, PROT_READ,
						     MAP_SHARED) : ret;
	}
}

TEST_F(object, ids_of_other_types)
{
	const struct {
		const char *what;
		__u32 id;
		unsigned int good;
	} ids[] = {
		{ "bo", self->bo, 1 << AS_BO | 1 << AS_MAPPING },
		{ "vm", self->vm, 1 << AS_VM },
		{ "stream", self->stream, 1 << AS_STREAM | 1 << AS_MAPPING },
		{ "stream's timeline", self->stream_timeline, 1 << AS_TIMELINE | 1 << AS_MAPPING },
		{ "timeline", self->timeline, 1 << AS_TIMELINE | 1 << AS_MAPPING },
		{ "token", self->token, 0 },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(ids); i++) {
		EXPECT_LT(0, ids[i].id);
		EXPECT_GT(GPUMEM_MAX_OBJECTS, ids[i].id);
		for (unsigned int j = 0; j < i; j++) {
			EXPECT_NE(ids[j].id, ids[i].id);
		}
		for (int type = 0; type < AS_TYPES; type++) {
			/*
			 * A vm or a token cannot be mapped: mmap() fails with EINVAL where other
			 * calls fail with ENOENT.
			 */
			int bad = type == AS_MAPPING ? -EINVAL : -ENOENT;

			EXPECT_EQ(ids[i].good & (1 << type) ? 0 : bad,
				  use_as(self->fd, type, ids[i].id, self->vm))
				TH_LOG("%s as type %d", ids[i].what, type);
		}
	}
}

TEST_F(object, ids_that_never_were)
{
	static const __u32 ids[] = { 0, 0x3fffff, 0x400000, 0x7fffffff, 0x80000000, ~0U };

	for (unsigned int i = 0; i < ARRAY_SIZE(ids); i++) {
		EXPECT_EQ(-ENOENT, gp_destroy(self->fd, ids[i]));
		for (int type = 0; type < AS_MAPPING; type++) {
			EXPECT_EQ(-ENOENT, use_as(self->fd, type, ids[i], self->vm))
				TH_LOG("id %#x as type %d", ids[i], type);
		}
	}
	EXPECT_EQ(-ENOENT, use_as(self->fd, AS_MAPPING, 0x3fffff, self->vm));
	/* Offset 0, the id 0, maps the cache page, which has the words of cached chunks.  */
	EXPECT_EQ(0, use_as(self->fd, AS_MAPPING, 0, self->vm));
}

TEST_F(object, destroyed)
{
	const __u32 ids[] = {
		self->token, self->stream, self->stream_timeline, self->timeline, self->vm,
		self->bo,
	};
	struct gpumem_stats stats;

	for (unsigned int i = 0; i < ARRAY_SIZE(ids); i++) {
		ASSERT_EQ(0, gp_stats(self->fd, &stats));
		EXPECT_EQ(ARRAY_SIZE(ids) - i, stats.objects);
		EXPECT_EQ(0, gp_destroy(self->fd, ids[i]));
		EXPECT_EQ(-ENOENT, gp_destroy(self->fd, ids[i]));
		for (int type = 0; type < AS_TYPES; type++) {
			EXPECT_EQ(-ENOENT, use_as(self->fd, type, ids[i], self->vm));
		}
	}
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(0, stats.objects);
	EXPECT_EQ(0, stats.tokens);
	EXPECT_TRUE(dev_attr_becomes(0, "bos", 0, 5));
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 5));
}

TEST_F(object, ids_of_another_client)
{
	struct gpumem_stats mine, before;
	int other = gp_open(0);
	__u32 ids[8], id;

	ASSERT_LE(0, other);
	ASSERT_EQ(0, gp_stats(self->fd, &before));
	/* The other client has no objects, so ids of this client are invalid in it.  */
	for (int type = 0; type < AS_TYPES; type++) {
		EXPECT_EQ(-ENOENT, use_as(other, type, self->bo, self->vm));
		EXPECT_EQ(-ENOENT, use_as(other, type, self->vm, self->vm));
		EXPECT_EQ(-ENOENT, use_as(other, type, self->stream, self->vm));
		EXPECT_EQ(-ENOENT, use_as(other, type, self->timeline, self->vm));
	}
	EXPECT_EQ(-ENOENT, gp_destroy(other, self->bo));
	/* Objects that the other client makes and destroys do not affect this client.  */
	for (unsigned int i = 0; i < ARRAY_SIZE(ids); i++) {
		ASSERT_EQ(0, gp_bo_alloc(other, page_size, &ids[i]));
	}
	ASSERT_EQ(0, gp_stats(self->fd, &mine));
	EXPECT_EQ(0, memcmp(&mine, &before, sizeof(mine)));
	EXPECT_EQ(2, dev_attr(0, "clients"));
	EXPECT_EQ(9, dev_attr(0, "bos"));
	/* Two clients may have the same id: destroying it in one leaves the other's object.  */
	for (unsigned int i = 0; i < ARRAY_SIZE(ids); i++) {
		EXPECT_EQ(0, gp_destroy(other, ids[i]));
	}
	for (int type = 0; type < AS_TYPES; type++) {
		id = type == AS_BO || type == AS_MAPPING ? self->bo : type == AS_VM ? self->vm :
		     type == AS_STREAM ? self->stream : self->timeline;
		EXPECT_EQ(0, use_as(self->fd, type, id, self->vm));
	}
	close(other);
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 1, 5));
}

/* --- other address spaces */

struct foreign {
	int fd, sock;
	__u32 bo, vm, stream, timeline;
	int want, want2;	/* either will do */
};

/* Returns 0 when every call gets @want, else the number of the call that does not. */
static int every_call(struct foreign *f)
{
	struct gpumem_timeline_wait wait;
	struct gpumem_token_open topen;
	struct gpumem_bo_import import;
	struct gpumem_bo_info bo_info;
	__u8 name[GPUMEM_TOKEN_SIZE] = { 0 };
	struct gpumem_stats stats;
	struct gpumem_info info;
	__u32 a, b;
	int ret[] = {
		0,
		gp_info(f->fd, 0, &info),
		gp_attach(f->fd, f->fd, &a),
		gp_destroy(f->fd, f->bo),
		gp_bo_alloc(f->fd, page_size, &a),
		gp_bo_info(f->fd, f->bo, &bo_info),
		gp_bo_retire(f->fd, f->bo, 0, 1, 0, &a),
		gp_bo_export(f->fd, f->bo, 0, page_size, 0),
		gp_bo_import(f->fd, f->fd, &import),
		gp_token_create(f->fd, f->bo, 0, 1, 0, &a, name),
		gp_token_open(f->fd, name, &topen),
		gp_vm_create(f->fd, &a),
		gp_vm_map(f->fd, f->vm, f->bo, 0, ADDR, page_size, 1, 1),
		gp_vm_unmap(f->fd, f->vm, ADDR, page_size, NULL),
		gp_vm_access(f->fd, f->vm, ADDR, page_size, 0, 1),
		gp_stream_create(f->fd, f->vm, 0, 16, &a, &b),
		gp_doorbell(f->fd, f->stream),
		gp_timeline_create(f->fd, 0, &a),
		gp_timeline_signal(f->fd, f->timeline, 1),
		gp_timeline_wait(f->fd, f->timeline, 0, 0, &wait),
		gp_stats(f->fd, &stats),
		gp_map_errno(f->fd, f->bo, 0, page_size, PROT_READ, MAP_SHARED),
		gp_map_errno(f->fd, f->stream, 0, page_size, PROT_READ, MAP_SHARED),
		gp_map_errno(f->fd, f->timeline, 0, page_size, PROT_READ, MAP_SHARED),
	};

	for (unsigned int i = 1; i < ARRAY_SIZE(ret); i++) {
		if (ret[i] != f->want && (!f->want2 || ret[i] != f->want2)) {
			fprintf(stderr, "# call %u: %s, not %s\n", i, strerror(-ret[i]),
				strerror(-f->want));
			return i;
		}
	}
	return 0;
}

static int foreign_child(void *arg)
{
	return every_call(arg);
}

TEST_F(object, forked_child)
{
	struct foreign f = {
		.fd = self->fd, .bo = self->bo, .vm = self->vm, .stream = self->stream,
		.timeline = self->timeline, .want = -EPERM,
	};
	struct gpumem_stats before, after;

	ASSERT_EQ(0, gp_stats(self->fd, &before));
	EXPECT_EQ(0, run_child(foreign_child, &f));
	ASSERT_EQ(0, gp_stats(self->fd, &after));
	EXPECT_EQ(0, memcmp(&before, &after, sizeof(after)));
}

static int passed_child(void *arg)
{
	struct foreign *f = arg;

	f->fd = recv_fd(f->sock);
	return f->fd < 0 ? 100 : every_call(f);
}

TEST_F(object, passed_descriptor)
{
	struct foreign f = {
		.bo = self->bo, .vm = self->vm, .stream = self->stream,
		.timeline = self->timeline, .want = -EPERM,
	};
	int pair[2];
	pid_t pid;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	f.sock = pair[1];
	pid = start_child(passed_child, &f);
	EXPECT_EQ(0, send_fd(pair[0], self->fd));
	EXPECT_EQ(0, end_child(pid));
	/* A copy of the descriptor in the same address space is the same client. */
	f.fd = dup(self->fd);
	f.want = 0;
	EXPECT_EQ(0, gp_bo_alloc(f.fd, page_size, &f.bo));
	close(f.fd);
}

static int thread_result;

static void *thread_main(void *arg)
{
	__u32 id;

	thread_result = gp_bo_alloc(*(int *)arg, page_size, &id);
	return NULL;
}

TEST_F(object, thread_of_the_same_process)
{
	pthread_t t;

	thread_result = -1;
	ASSERT_EQ(0, pthread_create(&t, NULL, thread_main, &self->fd));
	ASSERT_EQ(0, pthread_join(t, NULL));
	EXPECT_EQ(0, thread_result);
}

static int store(void *arg)
{
	strcpy(arg, "child");
	return 0;
}

TEST_F(object, mappings_and_fork)
{
	char *bo = gp_map(self->fd, self->bo, 0, 64 * KIB, PROT_READ | PROT_WRITE);
	char *ring = gp_map(self->fd, self->stream, 0, 2 * page_size, PROT_READ | PROT_WRITE);
	char *page = gp_map(self->fd, self->timeline, 0, page_size, PROT_READ);
	char *host;
	__u32 id;

	ASSERT_NE(NULL, bo);
	ASSERT_NE(NULL, ring);
	ASSERT_NE(NULL, page);
	/* The child inherits the mapping of host memory and no other mapping.  */
	ASSERT_EQ(0, bo_alloc_host(self->fd, 64 * KIB, &id));
	host = gp_map(self->fd, id, 0, 64 * KIB, PROT_READ | PROT_WRITE);
	ASSERT_NE(NULL, host);
	EXPECT_EQ(0, run_child(store, host + 5000));
	EXPECT_STREQ("child", host + 5000);
	EXPECT_FALSE(faults_in_child(host, true, SIGSEGV));
	strcpy(bo + 5000, "parent");
	EXPECT_TRUE(faults_in_child(bo, false, SIGSEGV));
	EXPECT_TRUE(faults_in_child(bo, true, SIGSEGV));
	EXPECT_STREQ("parent", bo + 5000);
	EXPECT_TRUE(faults_in_child(ring, false, SIGSEGV));
	EXPECT_TRUE(faults_in_child(page, false, SIGSEGV));
	EXPECT_EQ(0, *(volatile char *)page);
	EXPECT_EQ(0, *(volatile char *)ring);
}

/* --- the owner's end */

struct owner {
	int sock;		/* the tester's end and the owner's end of a socket pair */
	int out;
	bool map;
	const char *exec;
};

/* Opens a client with something of each kind, then passes its descriptor and waits. */
static int owner_main(void *arg)
{
	struct owner *o = arg;
	__u32 bo, vm, id, timeline;
	__u8 name[GPUMEM_TOKEN_SIZE];
	struct stream s;
	char *p = NULL;
	int fd = gp_open(0);

	if (fd < 0 || gp_bo_alloc(fd, MIB, &bo) || gp_vm_create(fd, &vm) ||
	    gp_vm_map(fd, vm, bo, 0, ADDR, MIB, 1, 1) || stream_open(&s, fd, vm, 0, 64) ||
	    gp_timeline_create(fd, 0, &timeline) || gp_token_create(fd, bo, 0, 9, 0, &id, name))
		return 1;
	s.sqes[0] = sqe_wait(timeline, 1);
	s.tail = 1;
	stream_publish(&s);
	if (o->map) {
		p = gp_map(fd, bo, 0, MIB, PROT_READ | PROT_WRITE);
		if (!p)
			return 2;
		p[12345] = 77;
	}
	if (send_fd(o->sock, fd))
		return 3;
	if (o->exec) {
		/*
		 * execve() closes this descriptor; the tester's descriptor keeps the client open.
		 */
		execl(o->exec, o->exec, "5", NULL);
		return 4;
	}
	return hear(o->sock) ? 0 : 5;
}

/* Starts the owner; @sock is the socket to it, and @fd its client. */
static pid_t owner_start(struct __test_metadata *_metadata, struct owner *o, int *sock, int *fd)
{
	int pair[2];
	pid_t pid;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	o->sock = pair[1];
	pid = start_child(owner_main, o);
	*sock = pair[0];
	*fd = recv_fd(pair[0]);
	ASSERT_LE(0, *fd);
	return pid;
}

TEST_F(object, owner_exits_while_others_hold_the_descriptor)
{
	struct foreign f = { .bo = 1, .vm = 2, .stream = 3, .timeline = 4, .want = -EPERM };
	struct owner o = { 0 };
	int sock, null = open("/dev/null", O_RDONLY);
	pid_t pid;

	close(self->fd);
	pid = owner_start(_metadata, &o, &sock, &f.fd);
	EXPECT_EQ(0, every_call(&f));
	EXPECT_EQ(1, dev_attr(0, "clients"));
	EXPECT_EQ(1, dev_attr(0, "bos"));
	EXPECT_EQ(MIB, (__u64)dev_attr(0, "used"));
	EXPECT_TRUE(tell(sock));
	EXPECT_EQ(0, end_child(pid));
	/* The tester's descriptor keeps a client that has no objects.  */
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 10));
	EXPECT_TRUE(dev_attr_becomes(0, "bos", 0, 10));
	EXPECT_EQ(0, dev_attr(0, "exports"));
	f.want2 = -ENODEV;
	EXPECT_EQ(0, every_call(&f));
	close(f.fd);
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 0, 10));
	self->fd = null;
}

TEST_F(object, owner_calls_execve)
{
	struct foreign f = {
		.bo = 1, .vm = 2, .stream = 3, .timeline = 4, .want = -EPERM, .want2 = -ENODEV,
	};
	struct owner o = { .exec = "/bin/sleep" };
	int sock, null = open("/dev/null", O_RDONLY);
	pid_t pid;

	close(self->fd);
	pid = owner_start(_metadata, &o, &sock, &f.fd);
	/* execve() ends the address space, although the process goes on.  */
	EXPECT_TRUE(dev_attr_becomes(0, "bos", 0, 4));
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 4));
	EXPECT_EQ(0, kill(pid, 0));
	EXPECT_EQ(0, every_call(&f));
	EXPECT_EQ(-SIGKILL, kill_child(pid));
	close(f.fd);
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 0, 10));
	self->fd = null;
}

struct heir {
	int up[2], down[2];
};

/* The owner: maps host and device memory, and forks a child that inherits the mappings.  */
static int heir_main(void *arg)
{
	struct heir *h = arg;
	int fd = gp_open(0);
	__u32 device, host;
	char *p, *q;

	if (fd < 0 || gp_bo_alloc(fd, MIB, &device) || bo_alloc_host(fd, MIB, &host))
		return 1;
	p = gp_map(fd, host, 0, MIB, PROT_READ | PROT_WRITE);
	q = gp_map(fd, device, 0, MIB, PROT_READ | PROT_WRITE);
	if (!p || !q)
		return 2;
	strcpy(p + 70000, "inherited");
	strcpy(q + 70000, "not inherited");
	if (!fork()) {
		close(h->down[1]);
		/* First byte: the owner has exited; check the mappings and report.  */
		if (!hear(h->down[0]))
			_exit(1);
		if (strcmp(p + 70000, "inherited") || !gp_bo_alloc(fd, page_size, &host))
			_exit(2);
		p[1] = 1;
		tell(h->up[1]);
		/* Second byte: exit.  */
		hear(h->down[0]);
		_exit(0);
	}
	return 0;
}

TEST_F(object, owner_exits_and_its_child_keeps_the_mapping)
{
	struct heir h;
	int null = open("/dev/null", O_RDONLY);

	close(self->fd);
	ASSERT_EQ(0, pipe(h.up));
	ASSERT_EQ(0, pipe(h.down));
	ASSERT_EQ(0, run_child(heir_main, &h));
	close(h.up[1]);
	/* Device memory is released although the child lives.  */
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 10));
	ASSERT_TRUE(tell(h.down[1]));
	EXPECT_TRUE(hear(h.up[0]));
	ASSERT_TRUE(tell(h.down[1]));
	EXPECT_FALSE(hear(h.up[0]));
	self->fd = null;
}

/* --- many threads */

struct racer {
	int fd;
	__u64 seed;
	_Atomic __u32 *ids;
	unsigned int wrong;
};

#define SLOTS	32

static void *race(void *arg)
{
	struct racer *t = arg;
	struct rng r = { t->seed };
	__u64 steps = env_number("GPUMEM_STEPS", 2000);

	while (steps--) {
		unsigned int i = rng_below(&r, SLOTS);
		__u32 id = 0, other = 0, live;
		struct gpumem_bo_info info;
		int ret = 0;

		switch (rng_below(&r, 6)) {
		case 0:
			ret = gp_bo_alloc(t->fd, (1 + rng_below(&r, 16)) * page_size, &id);
			break;
		case 1:
			ret = gp_vm_create(t->fd, &id);
			break;
		case 2:
			ret = gp_timeline_create(t->fd, 0, &id);
			break;
		case 3:
			ret = gp_bo_info(t->fd, t->ids[i], &info);
			ret = ret == -ENOENT ? 0 : ret;
			break;
		case 4:
			ret = gp_bo_retire(t->fd, t->ids[i], 0, 1, 0, &live);
			ret = ret == -ENOENT ? 0 : ret;
			break;
		default:
			ret = gp_vm_map(t->fd, t->ids[i], t->ids[rng_below(&r, SLOTS)], 0,
					rng_below(&r, 64) * page_size + ADDR, page_size, 1, 1);
			ret = ret == -ENOENT || ret == -EEXIST ? 0 : ret;
		}
		t->wrong += ret != 0;
		other = id ? atomic_exchange(&t->ids[i], id) : 0;
		if (other)
			t->wrong += gp_destroy(t->fd, other) != 0;
	}
	return NULL;
}

TEST_F_TIMEOUT(object, threads, 120)
{
	_Atomic __u32 ids[SLOTS] = { 0 };
	struct racer racers[4];
	struct gpumem_stats before, after;
	pthread_t t[4];
	struct rng r;

	rng_start(&r, "threads");
	ASSERT_EQ(0, gp_stats(self->fd, &before));
	for (int i = 0; i < 4; i++) {
		racers[i] = (struct racer) { self->fd, rng_next(&r), ids, 0 };
		ASSERT_EQ(0, pthread_create(&t[i], NULL, race, &racers[i]));
	}
	for (int i = 0; i < 4; i++) {
		ASSERT_EQ(0, pthread_join(t[i], NULL));
		EXPECT_EQ(0, racers[i].wrong);
	}
	for (int i = 0; i < SLOTS; i++) {
		EXPECT_EQ(ids[i] ? 0 : -ENOENT, gp_destroy(self->fd, ids[i]));
	}
	ASSERT_EQ(0, gp_stats(self->fd, &after));
	EXPECT_EQ(before.objects, after.objects);
	EXPECT_EQ(before.bo_bytes, after.bo_bytes);
	EXPECT_EQ(before.vm_bytes, after.vm_bytes);
}

/* Ids that exist at the same time differ, and each can be destroyed.  */
TEST_F_TIMEOUT(object, ten_thousand, 120)
{
	static __u32 ids[10000];
	static unsigned char seen[GPUMEM_MAX_OBJECTS / 8];
	struct gpumem_stats stats, before;

	ASSERT_EQ(0, gp_stats(self->fd, &before));
	for (unsigned int i = 0; i < ARRAY_SIZE(ids); i++) {
		ASSERT_EQ(0, gp_vm_create(self->fd, &ids[i]));
		ASSERT_GT(GPUMEM_MAX_OBJECTS, ids[i]);
		ASSERT_EQ(0, seen[ids[i] / 8] & (1 << (ids[i] % 8)));
		seen[ids[i] / 8] |= 1 << (ids[i] % 8);
	}
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(before.objects + ARRAY_SIZE(ids), stats.objects);
	for (unsigned int i = 0; i < ARRAY_SIZE(ids); i += 2) {
		EXPECT_EQ(0, gp_destroy(self->fd, ids[i]));
	}
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(before.objects + ARRAY_SIZE(ids) / 2, stats.objects);
}

TEST_HARNESS_MAIN
