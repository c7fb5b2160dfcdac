// SPDX-License-Identifier: GPL-2.0
/*
 * Processes that die during a call: one case for each state in which a client can be
 * (kill_states.h), killed at random moments (kill_util.h says how) or ended by another of its
 * threads; and the view of processes that shared something with the dead one.
 */
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <linux/dma-buf.h>

#include "kselftest_harness.h"
#include "kill_states.h"

/* --- the matrix */

FIXTURE(state)
{
	struct scene *sc, *second;
	struct figures before;
};

FIXTURE_VARIANT(state)
{
	scene_fn fn;
	__u64 bytes;
	unsigned int rounds, max_us;
	int ends;	/* the scene ends itself when sc->go is set */
};

#define STATE(name, ...) FIXTURE_VARIANT_ADD(state, name) { __VA_ARGS__ }
STATE(alloc_small, in_alloc, 4096, 4, 20000, 0);
STATE(alloc_large, in_alloc, 64 * MIB, 8, 60000, 0);
STATE(alloc_host, in_alloc_host, 64 * MIB, 4, 60000, 0);
STATE(free, in_free, 4096, 4, 20000, 0);
STATE(pin, in_pin, 64 * MIB, 8, 100000, 0);
STATE(pin_thp, in_pin_thp, 64 * MIB, 4, 60000, 0);
STATE(pin_hugetlb, in_pin_hugetlb, 16 * MIB, 4, 40000, 0);
STATE(pin_shmem, in_pin_shmem, 32 * MIB, 4, 60000, 0);
STATE(pin_file, in_pin_file, 0, 4, 20000, 0);
STATE(unpin, in_unpin, 32 * MIB, 4, 20000, 0);
STATE(wait, in_wait, 0, 4, 5000, 0);
STATE(stream_wait, in_stream_wait, 0, 4, 5000, 0);
STATE(copy, in_copy, 8 * MIB, 8, 60000, 0);
STATE(token_open, in_token_open, 256 * KIB, 4, 20000, 0);
STATE(token_create, in_token_create, 256 * KIB, 4, 20000, 0);
STATE(export, in_export, 4 * MIB, 4, 20000, 0);
STATE(export_range, in_export_range, 4 * MIB, 4, 20000, 0);
STATE(import, in_import, 4 * MIB, 4, 20000, 0);
STATE(handle_export, in_handle_export, 4 * MIB, 4, 20000, 0);
STATE(handle_import, in_handle_import, 4 * MIB, 4, 20000, 0);
STATE(semaphore, in_semaphore, 0, 4, 20000, 0);
STATE(semaphore_wait, in_semaphore_wait, 0, 4, 5000, 0);
STATE(import_foreign, in_import_foreign, 0, 4, 20000, 0);
STATE(retire, in_retire, 8 * MIB, 4, 20000, 0);
STATE(mmap, in_mmap, 32 * MIB, 4, 20000, 0);
STATE(faults, in_faults, 32 * MIB, 4, 40000, 0);
STATE(mprotect, in_mprotect, 4 * MIB, 4, 20000, 0);
STATE(vm_map, in_vm_map, MIB, 4, 20000, 0);
STATE(stream_create, in_stream_create, 4 * MIB, 4, 20000, 0);
STATE(open, in_open, 256 * KIB, 4, 20000, 0);
STATE(anything, in_anything, 0, 8, 100000, 0);
STATE(exit_in_alloc, exit_in_alloc, 32 * MIB, 4, 40000, 1);
STATE(exit_in_pin, exit_in_pin, 32 * MIB, 4, 60000, 1);
STATE(exit_in_wait, exit_in_wait, 0, 4, 10000, 1);
STATE(exec_in_alloc, exec_in_alloc, 32 * MIB, 4, 40000, 1);
STATE(leader_is_gone, leader_is_gone, 8 * MIB, 4, 40000, 0);

static void hugetlb_pages(unsigned int n)
{
	FILE *f = fopen("/proc/sys/vm/nr_hugepages", "we");

	if (f) {
		fprintf(f, "%u\n", n);
		fclose(f);
	}
}

FIXTURE_SETUP(state)
{
	ASSERT_TRUE(dev_quiet(10));
	if (variant->fn == in_pin_hugetlb) {
		unsigned int n = 2 * variant->bytes / (2 * MIB);

		hugetlb_pages(n);
		if (number_of("/proc/meminfo", "HugePages_Free:") < n) {
			hugetlb_pages(0);
			SKIP(return, "no hugetlb pages");
		}
	}
	if (variant->fn == in_import_foreign && access("/dev/udmabuf", F_OK))
		SKIP(return, "no udmabuf");
	self->sc = scene_new();
	ASSERT_NE(NULL, self->sc);
	self->second = scene_new();
	ASSERT_NE(NULL, self->second);
	figures_read(&self->before);
	ASSERT_TRUE(figures_good(&self->before));
}

FIXTURE_TEARDOWN(state)
{
	if (variant->fn == in_pin_hugetlb)
		hugetlb_pages(0);
	EXPECT_TRUE(dev_quiet(10));
}

/*
 * One round; true if the child died in the state. With @two there is a second child, and the end of
 * the first does not affect it.
 */
static bool one_kill(struct __test_metadata *_metadata, FIXTURE_DATA(state) *self,
		     const FIXTURE_VARIANT(state) *variant, struct rng *r, bool two)
{
	struct scene *sc = self->sc;
	pid_t pid, other = 0;

	sc->seed = rng_next(r);
	sc->bytes = variant->bytes;
	if (two) {
		*self->second = *sc;
		other = scene_start(self->second, variant->fn);
		EXPECT_LT(0, other);
	}
	pid = scene_start(sc, variant->fn);
	EXPECT_LT(0, pid);
	nap_us(rng_below(r, variant->max_us));
	if (pid > 0 && variant->ends) {
		sc->go = 1;
		EXPECT_EQ(0, end_child(pid));
	} else if (pid > 0) {
		EXPECT_EQ(-SIGKILL, kill_child(pid));
	}
	if (other > 0) {
		nap_us(rng_below(r, 2000));
		EXPECT_EQ(0, waitpid(other, NULL, WNOHANG));
		EXPECT_EQ(-SIGKILL, kill_child(other));
	}
	return pid > 0 && sc->entered != sc->left;
}

TEST_F_TIMEOUT(state, leaves_nothing, 3000)
{
	unsigned int rounds = kills(variant->rounds), in = 0, n;
	struct rng r;

	rng_start(&r, "kill");
	/* A kill hits a short call by chance: try up to 300 rounds more until one does.  */
	for (n = 0; n < rounds || (!in && n < rounds + 300); n++) {
		in += one_kill(_metadata, self, variant, &r, n % 2);
		ASSERT_TRUE(dev_quiet(15));
	}
	EXPECT_TRUE(settled(&self->before));
	EXPECT_LT(0, in);
	printf("# %u of %u were in the call\n", in, n);
	fflush(stdout);
}

/* --- survivors */

/* The references that a survivor has to the dead process's memory. */
enum { HOLD_FD = 1, HOLD_MAPPING = 2, HOLD_VIEW = 4, HOLD_COPY = 8, HOLD_PIPE = 16 };

FIXTURE(survivor)
{
	struct scene *sc;
	struct figures before;
	int pair[2];
};

FIXTURE_VARIANT(survivor)
{
	unsigned int holds;
};

FIXTURE_VARIANT_ADD(survivor, fd) { HOLD_FD };
FIXTURE_VARIANT_ADD(survivor, mapping) { HOLD_MAPPING };
FIXTURE_VARIANT_ADD(survivor, view) { HOLD_VIEW };
FIXTURE_VARIANT_ADD(survivor, copy) { HOLD_COPY };
FIXTURE_VARIANT_ADD(survivor, pipe) { HOLD_PIPE };
FIXTURE_VARIANT_ADD(survivor, all) { HOLD_FD | HOLD_MAPPING | HOLD_VIEW | HOLD_COPY | HOLD_PIPE };

#define SHARED	(8 * MIB)

FIXTURE_SETUP(survivor)
{
	ASSERT_TRUE(dev_quiet(10));
	self->sc = scene_new();
	ASSERT_NE(NULL, self->sc);
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, self->pair));
	figures_read(&self->before);
}

QUIET_AFTER_KILLS(survivor)

struct maker {
	struct scene *sc;
	int sock;
};

/* Exports memory, sends its token, and keeps its streams busy on that memory.  */
static int maker_main(void *arg)
{
	struct maker *m = arg;
	int fd = gp_open(0), dmabuf;
	__u32 bo, vm, id;
	struct stream s;
	char *p;

	MUST(gp_bo_alloc(fd, SHARED, &bo));
	p = gp_map(fd, bo, 0, SHARED, RW);
	if (!p)
		return 1;
	memset(p, 0x5a, SHARED);
	dmabuf = gp_bo_export(fd, bo, 0, SHARED, 0);
	MUST(dmabuf);
	MUST(gp_token_create(fd, bo, 0, SHARED, 0, &id, m->sc->token));
	MUST(gp_vm_create(fd, &vm));
	MUST(gp_vm_map(fd, vm, bo, 0, ADDR, SHARED, 1, 1));
	MUST(stream_open(&s, fd, vm, 0, 64));
	MUST(send_fd(m->sock, dmabuf));
	for (;;) {
		struct gpumem_sqe sqe = sqe_copy(ADDR, ADDR + SHARED / 2, SHARED / 2);

		MUST(stream_push(&s, &sqe));
	}
}

struct survivor {
	struct scene *sc;
	int sock;
	unsigned int holds;
};

/* Takes the references in v->holds, then uses them in a loop and counts the rounds in sc->left.  */
static int survivor_main(void *arg)
{
	struct survivor *v = arg;
	int fd = gp_open(0), dmabuf = recv_fd(v->sock), pipes[2];
	struct gpumem_bo_import i;
	struct stream s = { 0 };
	struct pollfd poller;
	char *p = NULL;
	__u32 vm;

	MUST(dmabuf);
	if (v->holds & HOLD_MAPPING) {
		p = mmap(NULL, SHARED, RW, MAP_SHARED, dmabuf, 0);
		if (p == MAP_FAILED)
			return 1;
	}
	if (v->holds & HOLD_PIPE) {
		char *q = mmap(NULL, SHARED, RW, MAP_SHARED, dmabuf, 0);
		struct iovec iov = { q + page_size, 2 * page_size };

		if (q == MAP_FAILED || pipe(pipes) || vmsplice(pipes[1], &iov, 1, 0) < 0)
			return 1;
		munmap(q, SHARED);
	}
	if (v->holds & (HOLD_VIEW | HOLD_COPY))
		MUST(gp_bo_import(fd, dmabuf, &i));
	if (v->holds & HOLD_COPY) {
		MUST(gp_vm_create(fd, &vm));
		MUST(gp_vm_map(fd, vm, i.id, 0, ADDR, SHARED, 1, 1));
		MUST(stream_open(&s, fd, vm, 0, 64));
		/* Only the mapping in the address space holds the memory.  */
		if (!(v->holds & HOLD_VIEW))
			MUST(gp_destroy(fd, i.id));
	}
	if (!(v->holds & HOLD_FD)) {
		close(dmabuf);
		dmabuf = -1;
	}
	ready(v->sc);
	for (;;) {
		struct gpumem_sqe sqe = sqe_fill(ADDR, 8, 0x5a5a5a5a5a5a5a5aULL, SHARED / 8);
		struct gpumem_token_open o;

		if (v->sc->go && gp_token_open(fd, v->sc->token, &o) != -ENOENT)
			return 2;
		if (v->holds & HOLD_MAPPING)
			memset(p, 0x5a, SHARED);
		if (v->holds & HOLD_COPY) {
			MUST(stream_push(&s, &sqe));
			MUST(stream_sync(&s));
		}
		if (v->holds & HOLD_VIEW)
			MUST(gp_map_errno(fd, i.id, 0, SHARED, RW, MAP_SHARED));
		if (v->holds & HOLD_FD) {
			struct dma_buf_sync sync = { DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW };

			/* The exporter is dead: these calls have no work to wait for. */
			poller = (struct pollfd) { dmabuf, POLLIN | POLLOUT, 0 };
			if (poll(&poller, 1, 10000) != 1 ||
			    ioctl(dmabuf, DMA_BUF_IOCTL_SYNC, &sync))
				return 3;
			sync.flags = DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW;
			if (ioctl(dmabuf, DMA_BUF_IOCTL_SYNC, &sync))
				return 4;
		}
		v->sc->left++;
		nap_us(200);
	}
}

static bool goes_on(struct scene *sc)
{
	unsigned int at = sc->left;
	__u64 end = in_seconds(20);

	/* Two rounds ended: the second one began after @at was read.  */
	while (sc->left - at < 2 && mono_ns() < end)
		nap_us(500);
	return sc->left - at >= 2;
}

TEST_F_TIMEOUT(survivor, then_dies_too, 600)
{
	struct survivor v = { self->sc, self->pair[1], variant->holds };
	struct maker m = { self->sc, self->pair[0] };
	pid_t maker, survivor;
	struct rng r;

	rng_start(&r, "survivor");
	for (unsigned int n = kills(2); n; n--) {
		int pipes[2];

		ASSERT_EQ(0, pipe2(pipes, O_CLOEXEC));
		self->sc->go = 0;
		self->sc->ready = pipes[1];
		maker = start_child(maker_main, &m);
		ASSERT_LT(0, maker);
		survivor = start_child(survivor_main, &v);
		ASSERT_LT(0, survivor);
		close(pipes[1]);
		ASSERT_TRUE(hear(pipes[0]));
		EXPECT_TRUE(goes_on(self->sc));
		nap_us(rng_below(&r, 20000));
		EXPECT_EQ(-SIGKILL, kill_child(maker));
		EXPECT_TRUE(dev_attr_becomes(0, "clients", 1, 15));
		self->sc->go = 1;
		EXPECT_TRUE(goes_on(self->sc));
		/* The memory is charged as long as a process reaches it.  */
		EXPECT_EQ(SHARED, (__u64)dev_attr(0, "used"));
		EXPECT_EQ(!!(variant->holds & HOLD_FD), dev_attr(0, "exports"));
		nap_us(rng_below(&r, 20000));
		EXPECT_EQ(-SIGKILL, kill_child(survivor));
		EXPECT_TRUE(settled(&self->before));
		close(pipes[0]);
	}
}

/* --- a child of the dead process that has its descriptors, or its address space */

FIXTURE(heir)
{
	struct scene *sc;
	struct figures before;
};

FIXTURE_SETUP(heir)
{
	ASSERT_TRUE(dev_quiet(10));
	self->sc = scene_new();
	ASSERT_NE(NULL, self->sc);
	/* Orphans of the scene become ours. */
	ASSERT_EQ(0, prctl(PR_SET_CHILD_SUBREAPER, 1));
	figures_read(&self->before);
}

QUIET_AFTER_KILLS(heir)

struct inherited {
	struct scene *sc;
	int fd;
	__u32 bo, timeline;
	char *p;
};

/* Uses the parent's client: calls work in the same address space and fail with EPERM in another. */
static int heir_main(void *arg)
{
	struct inherited *h = arg;
	struct scene *sc = h->sc;
	int want = sc->bytes ? -ETIMEDOUT : -EPERM, ret;
	__u32 id;

	for (;;) {
		ret = gp_timeline_wait(h->fd, h->timeline, 1, in_seconds(0.005), NULL);
		/* In another address space the result stays EPERM after the client has ended.  */
		if (ret != want)
			return 1;
		ret = gp_bo_alloc(h->fd, MIB, &id);
		if (ret != (want == -EPERM ? -EPERM : 0))
			return 2;
		if (!ret)
			MUST(gp_destroy(h->fd, id));
		/* Device memory is not inherited. */
		if (want != -EPERM)
			h->p[12345]++;
		sc->left++;
		nap_us(500);
	}
}

/* sc->bytes: whether the heir shares the address space. */
static int heir_scene(struct scene *sc)
{
	static struct inherited h;
	static char stack[64 * KIB] __attribute__((aligned(64)));
	__u32 vm;
	struct stream s;
	struct gpumem_sqe sqe;

	h.sc = sc;
	h.fd = gp_open(0);
	MUST(gp_bo_alloc(h.fd, MIB, &h.bo));
	MUST(gp_timeline_create(h.fd, 0, &h.timeline));
	h.p = gp_map(h.fd, h.bo, 0, MIB, RW);
	if (!h.p)
		return 1;
	MUST(gp_vm_create(h.fd, &vm));
	MUST(stream_open(&s, h.fd, vm, 0, 16));
	sqe = sqe_wait(h.timeline, 1);
	MUST(stream_push(&s, &sqe));
	if (sc->bytes)
		sc->other = clone(heir_main, stack + sizeof(stack), CLONE_VM | SIGCHLD, &h);
	else
		sc->other = start_child(heir_main, &h);
	MUST(sc->other);
	ready(sc);
	CALL(sc, gp_timeline_wait(h.fd, h.timeline, 1, FOREVER, NULL));
	return 1;
}

static void leave_an_heir(struct __test_metadata *_metadata, FIXTURE_DATA(heir) *self,
			  bool same_mm)
{
	pid_t pid;

	self->sc->bytes = same_mm;
	pid = scene_start(self->sc, heir_scene);
	ASSERT_LT(0, pid);
	EXPECT_TRUE(goes_on(self->sc));
	EXPECT_EQ(-SIGKILL, kill_child(pid));
	if (same_mm) {
		/* The client belongs to the address space, which the child keeps.  */
		EXPECT_TRUE(goes_on(self->sc));
		EXPECT_EQ(1, dev_attr(0, "clients"));
	} else {
		/* The client ends, and all of its memory is released although the child lives.  */
		EXPECT_TRUE(dev_attr_becomes(0, "clients", 0, 10));
		EXPECT_TRUE(dev_attr_becomes(0, "bos", 0, 10));
		EXPECT_TRUE(goes_on(self->sc));
		EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 10));
	}
	EXPECT_EQ(-SIGKILL, kill_child(self->sc->other));
	EXPECT_TRUE(settled(&self->before));
}

TEST_F(heir, forked_child)
{
	leave_an_heir(_metadata, self, false);
}

TEST_F(heir, child_in_the_same_address_space)
{
	leave_an_heir(_metadata, self, true);
}

TEST_HARNESS_MAIN
