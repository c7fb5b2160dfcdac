// SPDX-License-Identifier: GPL-2.0
/*
 * A hostile client: it maps every object at every offset with every protection, calls madvise()
 * with every advice, changes and moves mappings, forks and splices. Its threads overwrite its rings
 * while other threads submit, ring doorbells, wait and destroy.
 *
 * Meanwhile the kernel lives; the memory of another client, the bystander, does not change and its
 * streams execute entries; pages that only the kernel writes have the values that the kernel wrote;
 * memory in use is charged; and at the end nothing is left.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "common/util.h"

#define ADDR		0x200000000ULL
#define BYTES		(2 * MIB)
#define RW		(PROT_READ | PROT_WRITE)
/* Widths of entries are small, so that rings overwritten at random do not hold much work.  */
#define LITTLE		(64 * KIB)

/* Not MADV_HWPOISON and MADV_SOFT_OFFLINE, 100 and 101: they take pages from the machine. */
#define MADVISE_LAST	30

FIXTURE(hostile)
{
	/* The bystander: this process. */
	int fd;
	__u32 vm, bo;
	unsigned char *p;
	struct stream s;
	struct rng r;
};

FIXTURE_SETUP(hostile)
{
	ASSERT_TRUE(dev_quiet(10));
	rng_start(&self->r, "hostile");
	self->fd = gp_open(0);
	ASSERT_LE(0, self->fd);
	self->p = gp_alloc_map(self->fd, BYTES, &self->bo);
	ASSERT_NE(NULL, self->p);
	memset(self->p, 0x77, BYTES);
	ASSERT_EQ(0, gp_vm_create(self->fd, &self->vm));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo, 0, ADDR, BYTES, 1, 1));
	ASSERT_EQ(0, stream_open(&self->s, self->fd, self->vm, 0, 64));
}

FIXTURE_TEARDOWN(hostile)
{
	unmap_all();
	close(self->fd);
	EXPECT_TRUE(dev_quiet(20));
}

/* Is the bystander unaffected: its memory, its charge and its stream?  */
static bool unharmed(int fd, struct stream *s, unsigned char *p)
{
	struct gpumem_sqe sqe = sqe_copy(ADDR, ADDR + BYTES / 2, BYTES / 2);

	return !stream_push(s, &sqe) && !stream_sync(s) && s->page->error == 0 &&
	       all_are(p, 0x77, BYTES) && dev_attr(0, "used") >= (long long)BYTES && fd >= 0;
}

/* --- mappings */

#define SLOTS	24

struct region {
	char *p;
	size_t length;
};

struct mapper {
	int fd, dmabuf;
	__u32 ids[8];
	__u64 bytes[8];			/* length of its mapping */
	struct region have[SLOTS];
	struct rng r;
	unsigned int maps, refused, forks;
};

/* One of each kind of object: two memories, host memory, a view, a stream, timelines, a vm. */
static int mapper_objects(struct mapper *m)
{
	struct gpumem_bo_alloc host = {
		.size = sizeof(host), .length = MIB, .flags = GPUMEM_BO_ALLOC_HOST,
	};
	struct gpumem_bo_import view;
	int ret;

	m->fd = gp_open(0);
	ret = gp_bo_alloc(m->fd, 4 * MIB, &m->ids[0]);
	ret = ret ? ret : gp_bo_alloc(m->fd, 7 * page_size, &m->ids[1]);
	ret = ret ? ret : gp_ioctl(m->fd, GPUMEM_BO_ALLOC, &host);
	m->ids[2] = host.id;
	if (ret)
		return ret;
	m->dmabuf = gp_bo_export(m->fd, m->ids[0], MIB, MIB, 0);
	ret = gp_bo_import(m->fd, m->dmabuf, &view);
	m->ids[3] = view.id;
	ret = ret ? ret : gp_vm_create(m->fd, &m->ids[7]);
	ret = ret ? ret : gp_stream_create(m->fd, m->ids[7], 0, 256, &m->ids[4], &m->ids[5]);
	ret = ret ? ret : gp_timeline_create(m->fd, 5, &m->ids[6]);
	m->bytes[0] = 4 * MIB;
	m->bytes[1] = 7 * page_size;
	m->bytes[2] = MIB;
	m->bytes[3] = MIB;
	m->bytes[4] = GPUMEM_RING_SQES + 256 * sizeof(struct gpumem_sqe);
	m->bytes[5] = page_size;
	m->bytes[6] = page_size;
	m->bytes[7] = page_size;
	return ret;
}

/* A page aligned part of a region; often all of it. */
static struct region part_of(struct mapper *m, const struct region *whole)
{
	size_t pages = whole->length / page_size, first, n;

	if (rng_below(&m->r, 3) == 0)
		return *whole;
	first = rng_below(&m->r, pages);
	n = 1 + rng_below(&m->r, pages - first);
	return (struct region) { whole->p + first * page_size, n * page_size };
}

static int some_prot(struct mapper *m)
{
	return rng_below(&m->r, 2) ? RW : rng_below(&m->r, 8);
}

static void map_something(struct mapper *m, struct region *at)
{
	static const int flags[] = {
		MAP_SHARED, MAP_SHARED, MAP_SHARED, MAP_SHARED_VALIDATE, MAP_PRIVATE,
		MAP_SHARED | MAP_POPULATE, MAP_SHARED | MAP_LOCKED, MAP_SHARED | MAP_NORESERVE,
		MAP_SHARED | MAP_32BIT, MAP_SHARED | MAP_POPULATE | MAP_NONBLOCK,
	};
	unsigned int i = rng_below(&m->r, 8);
	__u64 offset = GPUMEM_MMAP_OFFSET(m->ids[i]), length = m->bytes[i];
	int fd = m->fd, flag = flags[rng_below(&m->r, ARRAY_SIZE(flags))];

	switch (rng_below(&m->r, 8)) {
	case 0:		/* any offset, any length */
		offset += rng_below(&m->r, 1 << 12) * page_size;
		length = (1 + rng_below(&m->r, 2000)) * page_size;
		break;
	case 1:		/* any id, also invalid ones */
		offset = rng_next(&m->r) & -page_size;
		break;
	case 2 ... 3:	/* inside, or just beyond the end */
		offset += rng_below(&m->r, 2 + length / page_size) * page_size;
		length = (1 + rng_below(&m->r, 1 + length / page_size)) * page_size;
		break;
	case 4:
		fd = m->dmabuf;
		offset = rng_below(&m->r, 2) ? 0 : rng_below(&m->r, 300) * page_size;
		length = MIB - (rng_below(&m->r, 2) ? 0 : offset % MIB);
		break;
	}
	at->p = mmap(NULL, length, some_prot(m), flag, fd, offset);
	at->length = (length + page_size - 1) & -page_size;
	if (at->p == MAP_FAILED) {
		at->p = NULL;
		m->refused++;
	} else {
		m->maps++;
	}
}

/*
 * A child that inherits the mappings and accesses them through system calls, which raise no
 * signals.
 */
static void child_looks(struct mapper *m)
{
	char byte;
	pid_t pid = fork();

	if (!pid) {
		for (unsigned int i = 0; i < SLOTS; i++) {
			struct iovec to = { &byte, 1 }, from = { m->have[i].p, 1 };

			if (!m->have[i].p)
				continue;
			process_vm_readv(getpid(), &to, 1, &from, 1, 0);
			process_vm_writev(getpid(), &to, 1, &from, 1, 0);
			madvise(m->have[i].p, m->have[i].length, MADV_DONTNEED);
			munmap(m->have[i].p, m->have[i].length);
		}
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
	m->forks++;
}

static void splice_something(struct mapper *m, struct region part)
{
	struct iovec iov = { part.p, part.length };
	int pipes[2];

	if (pipe2(pipes, O_CLOEXEC | O_NONBLOCK))
		return;
	vmsplice(pipes[1], &iov, 1, rng_below(&m->r, 2) ? SPLICE_F_GIFT : 0);
	if (rng_below(&m->r, 2)) {
		/* The process drops the pages while the pipe holds them.  */
		madvise(part.p, part.length, MADV_DONTNEED);
		mprotect(part.p, part.length, PROT_NONE);
	}
	/* The pipe's bytes go into another object: read() writes through the mapping.  */
	if (read(pipes[0], part.p, part.length) < 0 && rng_below(&m->r, 2))
		msync(part.p, part.length, MS_SYNC | MS_INVALIDATE);
	close(pipes[0]);
	close(pipes[1]);
}

static void move_something(struct mapper *m, struct region *at, struct region part)
{
	size_t want = (1 + rng_below(&m->r, 2 * part.length / page_size)) * page_size;
	int flags = MREMAP_MAYMOVE;
	char *p;

	if (rng_below(&m->r, 4) == 0)
		flags |= MREMAP_DONTUNMAP;
	/* Old length 0 makes a second mapping of shared memory. */
	p = mremap(part.p, rng_below(&m->r, 8) ? part.length : 0, want, flags);
	if (p == MAP_FAILED)
		return;
	/* The old range may have a hole now, which munmap() and the other calls accept.  */
	for (unsigned int i = 0; i < SLOTS; i++) {
		if (!m->have[i].p) {
			m->have[i] = (struct region) { p, want };
			return;
		}
	}
	if (at->p != p)
		munmap(p, want);
}

static void one_step(struct mapper *m)
{
	struct region *at = &m->have[rng_below(&m->r, SLOTS)], part;
	unsigned char vec[2100];
	char byte = 0;
	struct iovec local = { &byte, 1 }, remote;

	if (!at->p) {
		map_something(m, at);
		return;
	}
	part = part_of(m, at);
	remote = (struct iovec) { part.p + rng_below(&m->r, part.length), 1 };
	switch (rng_below(&m->r, 12)) {
	case 0:
		munmap(at->p, at->length);
		at->p = NULL;
		break;
	case 1 ... 3:
		madvise(part.p, part.length, rng_below(&m->r, MADVISE_LAST + 1));
		break;
	case 4 ... 5:
		mprotect(part.p, part.length, some_prot(m));
		break;
	case 6:
		move_something(m, at, part);
		break;
	case 7:
		splice_something(m, part);
		break;
	case 8:
		if (rng_below(&m->r, 8) == 0)
			child_looks(m);
		break;
	case 9:
		/*
		 * Access the pages as a fault and a debugger do, but with an error instead of a
		 * signal.
		 */
		process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
		process_vm_writev(getpid(), &local, 1, &remote, 1, 0);
		break;
	case 10:
		if (rng_below(&m->r, 2))
			mlock(part.p, part.length);
		else
			munlock(part.p, part.length);
		if (part.length / page_size <= sizeof(vec))
			mincore(part.p, part.length, vec);
		break;
	default:
		syscall(SYS_remap_file_pages, part.p, part.length, 0, rng_below(&m->r, 2000), 0);
	}
}

/* Do the timeline pages, which only the kernel writes, have their expected values?  */
static bool clocks_are_right(struct mapper *m)
{
	const struct gpumem_timeline_page *stream = gp_map(m->fd, m->ids[5], 0, page_size,
							   PROT_READ);
	const struct gpumem_timeline_page *user = gp_map(m->fd, m->ids[6], 0, page_size, PROT_READ);
	bool right = stream && user && stream->value == 0 && stream->head == 0 &&
		     stream->error == 0 && user->value == 5 && user->error == 0;

	if (stream)
		munmap((void *)stream, page_size);
	if (user)
		munmap((void *)user, page_size);
	return right;
}

static int mapper_main(void *arg)
{
	struct mapper *m = arg;
	__u64 steps = env_number("GPUMEM_STEPS", 4000);
	int ret;

	signal(SIGPIPE, SIG_IGN);
	ret = mapper_objects(m);
	if (ret)
		return 1;
	for (__u64 i = 0; i < steps; i++) {
		one_step(m);
		if (i % 512 == 511 && !clocks_are_right(m))
			return 2;
		/* All of the memory is still charged.  */
		if (i % 512 == 511 && dev_attr(0, "used") < (long long)(BYTES + 4 * MIB))
			return 3;
	}
	printf("# %u mappings made, %u refused, %u forks\n", m->maps, m->refused, m->forks);
	fflush(stdout);
	if (!m->maps || !m->refused || !m->forks)
		return 4;
	return 0;
}

TEST_F_TIMEOUT(hostile, mapper, 100000)
{
	struct mapper m = { .r = { rng_next(&self->r) } };

	EXPECT_EQ(0, run_child(mapper_main, &m));
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 1, 15));
	EXPECT_TRUE(dev_attr_becomes(0, "used", BYTES, 15));
	EXPECT_TRUE(unharmed(self->fd, &self->s, self->p));
}

/* Every advice and every protection for every kind of mapping, in order.  */
TEST_F_TIMEOUT(hostile, every_advice, 100000)
{
	struct mapper m = { .r = { 1 } };

	ASSERT_EQ(0, mapper_objects(&m));
	for (unsigned int i = 0; i < 8; i++) {
		for (int prot = 0; prot < 8; prot++) {
			int ret = gp_map_errno(m.fd, m.ids[i], 0, m.bytes[i], prot, MAP_SHARED);
			bool ring = i == 4, clock = i == 5 || i == 6;

			/*
			 * A vm cannot be mapped, a ring not for execution, a timeline page for
			 * reading only.
			 */
			EXPECT_EQ(i == 7 ? -EINVAL :
				  (ring && prot & PROT_EXEC) || (clock && prot & ~PROT_READ) ?
				  -EACCES : 0, ret)
				TH_LOG("object %u, protection %d", i, prot);
		}
		for (int advice = 0; advice <= MADVISE_LAST && i < 7; advice++) {
			char *p = gp_map(m.fd, m.ids[i], 0, m.bytes[i], PROT_READ);

			ASSERT_NE(NULL, p);
			madvise(p, m.bytes[i], advice);
			for (int prot = 0; prot < 8; prot++) {
				int ret = mprotect(p, m.bytes[i], prot) ? -errno : 0;

				if (i >= 4 && prot & PROT_EXEC)
					EXPECT_EQ(-EACCES, ret);
				if (i >= 5 && prot & PROT_WRITE)
					EXPECT_EQ(-EACCES, ret);
			}
			munmap(p, m.bytes[i]);
		}
	}
	EXPECT_TRUE(clocks_are_right(&m));
	close(m.dmabuf);
	close(m.fd);
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 1, 15));
	EXPECT_TRUE(dev_attr_becomes(0, "used", BYTES, 15));
	EXPECT_TRUE(unharmed(self->fd, &self->s, self->p));
}

/* --- a timeline page: a debugger's ways cannot write it either */

static int poke_main(void *arg)
{
	long *target = arg;
	pid_t parent = getppid();
	int ret = 0;

	if (ptrace(PTRACE_ATTACH, parent, NULL, NULL))
		return 3;
	waitpid(parent, NULL, __WALL);
	if (!ptrace(PTRACE_POKEDATA, parent, target, (void *)~0L))
		ret = 1;
	ptrace(PTRACE_DETACH, parent, NULL, NULL);
	return ret;
}

TEST_F(hostile, clock_is_read_only)
{
	const long junk = ~0L;
	struct iovec from = { (void *)&junk, sizeof(junk) }, to;
	struct gpumem_timeline_page before;
	void *page = (void *)self->s.page;
	int mem, pipes[2];

	ASSERT_EQ(0, stream_sync(&self->s));
	before = *self->s.page;
	EXPECT_EQ(-1, mprotect(page, page_size, RW));
	EXPECT_EQ(EACCES, errno);
	to = (struct iovec) { page, sizeof(junk) };
	EXPECT_EQ(-1, process_vm_writev(getpid(), &from, 1, &to, 1, 0));
	mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, mem);
	EXPECT_EQ(-1, pwrite(mem, &junk, sizeof(junk), (off_t)(uintptr_t)page));
	EXPECT_EQ(sizeof(before), pread(mem, &before, sizeof(before), (off_t)(uintptr_t)page));
	close(mem);
	/* read() into the page fails.  */
	ASSERT_EQ(0, pipe(pipes));
	ASSERT_TRUE(tell(pipes[1]));
	EXPECT_EQ(-1, read(pipes[0], page, 1));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(0, run_child(poke_main, page));
	EXPECT_EQ(0, memcmp(&before, page, sizeof(before)));
	EXPECT_TRUE(unharmed(self->fd, &self->s, self->p));
}

/* --- rings */

struct attack {
	int fd;
	__u32 vm;
	bool wild;		/* random words; else torn entries, each word of which is valid */
	_Atomic int stop;
	_Atomic __u32 stream, timeline;
	struct stream s;
	__u64 seed[4];
};

static struct gpumem_sqe some_entry(struct attack *a, struct rng *r)
{
	__u64 at = rng_below(r, LITTLE);

	switch (rng_below(r, 6)) {
	case 0:
		return sqe_copy(ADDR + at, ADDR + LITTLE + at, 1 + rng_below(r, LITTLE - at));
	case 1:
		return sqe_fill2d(ADDR, 512, 1, at, 1 + at % 512, 1 + rng_below(r, 64));
	case 2:
		return sqe_wait(a->timeline, at % 16);
	case 3:
		return sqe_signal(a->timeline, at % 16);
	case 4:
		return sqe_timestamp(ADDR + (at & -8));
	default:
		return sqe_nop();
	}
}

/* Overwrites any part of the ring's mapping: tail, entries, and the rest of the first page.  */
static void *scribble(void *arg)
{
	const unsigned int first = GPUMEM_RING_SQES / 8;
	struct attack *a = arg;
	volatile __u64 *words = (void *)a->s.ring;
	unsigned int n = first + a->s.entries * sizeof(struct gpumem_sqe) / 8;
	struct rng r = { a->seed[0] };

	while (!a->stop) {
		for (int i = 0; a->wild && i < 50; i++) {
			unsigned int at = first + rng_below(&r, n - first);

			words[at] = rng_below(&r, 2) ? words[first + rng_below(&r, n - first)] :
				    rng_next(&r) >> rng_below(&r, 64);
		}
		for (int i = 0; !a->wild && i < 8; i++) {
			struct gpumem_sqe sqe = some_entry(a, &r);
			unsigned int at = first + 8 * rng_below(&r, a->s.entries);
			__u64 word[8];

			memcpy(word, &sqe, sizeof(word));
			for (int k = 0; k < 8; k++)
				words[at + k] = word[k];
		}
		words[1 + rng_below(&r, first - 1)] = rng_next(&r);
		/* A tail outside the ring ends the stream, so most tails are within it.  */
		if (a->wild && rng_below(&r, 64) == 0)
			a->s.ring->tail = rng_next(&r);
		else
			a->s.ring->tail = a->s.page->head + rng_below(&r, a->s.entries);
	}
	return NULL;
}

/* Submits valid entries in slots that another thread overwrites at the same time.  */
static void *submit(void *arg)
{
	struct attack *a = arg;
	struct rng r = { a->seed[1] };

	while (!a->stop) {
		struct gpumem_sqe sqe = some_entry(a, &r);

		stream_put(&a->s, &sqe);
		__atomic_store_n(&a->s.ring->tail, a->s.page->head + 1 + rng_below(&r, 8),
				 __ATOMIC_RELEASE);
		gp_doorbell(a->fd, a->stream);
	}
	return NULL;
}

/*
 * Waits for values that may never be reached, signals, and maps the timeline page and the ring
 * again.
 */
static void *watch(void *arg)
{
	struct attack *a = arg;
	struct rng r = { a->seed[2] };

	while (!a->stop) {
		struct gpumem_timeline_wait w;

		gp_timeline_wait(a->fd, a->s.timeline, rng_next(&r) >> rng_below(&r, 64),
				 in_seconds(0.001), &w);
		gp_timeline_signal(a->fd, a->timeline, rng_below(&r, 20));
		gp_map_errno(a->fd, a->s.timeline, 0, page_size, rng_below(&r, 8), MAP_SHARED);
		gp_map_errno(a->fd, a->stream, 0, a->s.ring_size, rng_below(&r, 8), MAP_SHARED);
	}
	return NULL;
}

static void move_ground(struct attack *a, struct rng *r)
{
	__u32 bo;

	gp_vm_unmap(a->fd, a->vm, ADDR, 2 * LITTLE, NULL);
	gp_bo_alloc(a->fd, 2 * LITTLE, &bo);
	gp_vm_map(a->fd, a->vm, bo, 0, ADDR, 2 * LITTLE, 1, !a->wild || rng_below(r, 8));
	gp_destroy(a->fd, bo);
}

/* Unmaps and maps ranges in the address space while entries use them.  */
static void *remap(void *arg)
{
	struct attack *a = arg;
	struct rng r = { a->seed[3] };

	while (!a->stop) {
		move_ground(a, &r);
		nap_ms(1);
	}
	return NULL;
}

static int attack_main(void *arg)
{
	void *(*const mains[])(void *) = { scribble, submit, watch, remap };
	pthread_t t[ARRAY_SIZE(mains)];
	unsigned int n;
	struct rng r = { *(__u64 *)arg };
	__u64 rounds = env_number("GPUMEM_STEPS", 5000) / 250;
	unsigned int failed = 0;
	struct gpumem_stats stats;
	__u64 done = 0;
	static struct attack a;
	__u32 timeline;

	a.fd = gp_open(0);
	if (gp_vm_create(a.fd, &a.vm))
		return 1;
	for (__u64 round = 0; round < rounds + 2; round++) {
		struct gpumem_timeline_wait w = { 0 };

		if (stream_open(&a.s, a.fd, a.vm, 0, 16 << rng_below(&r, 5)) ||
		    gp_timeline_create(a.fd, 0, &timeline))
			return 2;
		a.stream = a.s.id;
		a.timeline = timeline;
		a.stop = 0;
		a.wild = round % 2;
		move_ground(&a, &r);
		/* Torn entries alone do not fault. */
		n = ARRAY_SIZE(mains) - !a.wild;
		for (unsigned int i = 0; i < n; i++) {
			a.seed[i] = rng_next(&r);
			if (pthread_create(&t[i], NULL, mains[i], &a))
				return 3;
		}
		nap_ms(20 + rng_below(&r, 30));
		/*
		 * Sometimes destroy the stream, or the timeline that it waits for, while the
		 * threads use it.
		 */
		if (rng_below(&r, 3) == 0)
			gp_destroy(a.fd, a.stream);
		if (rng_below(&r, 3) == 0)
			gp_destroy(a.fd, timeline);
		nap_ms(5);
		a.stop = 1;
		for (unsigned int i = 0; i < n; i++)
			pthread_join(t[i], NULL);
		gp_timeline_wait(a.fd, a.s.timeline, ~0ULL, 0, &w);
		failed += w.error != 0;
		done += w.reached;
		/* The ioctl's value is not beyond the page's, and value is not beyond head.  */
		if (w.reached > a.s.page->value || a.s.page->value > a.s.page->head)
			return 4;
		gp_destroy(a.fd, timeline);
		gp_destroy(a.fd, a.stream);
		if (gp_destroy(a.fd, a.s.timeline))
			return 5;
		munmap(a.s.ring, a.s.ring_size);
		munmap((void *)a.s.page, page_size);
	}
	if (gp_stats(a.fd, &stats))
		return 6;
	printf("# %llu rounds: %llu entries, of which %llu did something; %u streams failed\n",
	       (unsigned long long)rounds + 2, (unsigned long long)done,
	       (unsigned long long)stats.jobs, failed);
	fflush(stdout);
	return stats.jobs && failed ? 0 : 7;
}

TEST_F_TIMEOUT(hostile, ring, 100000)
{
	__u64 seed = rng_next(&self->r);
	pid_t pid = start_child(attack_main, &seed);
	int status;

	ASSERT_LT(0, pid);
	while (waitpid(pid, &status, WNOHANG) == 0) {
		ASSERT_TRUE(unharmed(self->fd, &self->s, self->p));
		nap_ms(20);
	}
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status));
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 1, 15));
	EXPECT_TRUE(dev_attr_becomes(0, "used", BYTES, 15));
	EXPECT_TRUE(unharmed(self->fd, &self->s, self->p));
}

TEST_HARNESS_MAIN
