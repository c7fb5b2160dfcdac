/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The states in which t_kill kills processes: each is a scene (kill_util.h) that repeats one call,
 * or one page fault.
 *
 * Include this after kselftest_harness.h.
 */
#ifndef KILL_STATES_H
#define KILL_STATES_H

#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/exporters.h"
#include "common/kill_util.h"

#define ADDR	0x100000000ULL

/* --- the states */

static int gp_bo_alloc_host(int fd, __u64 length, __u32 *id)
{
	struct gpumem_bo_alloc c = {
		.size = sizeof(c), .length = length, .flags = GPUMEM_BO_ALLOC_HOST,
	};
	int ret = gp_ioctl(fd, GPUMEM_BO_ALLOC, &c);

	*id = c.id;
	return ret;
}

static int gp_bo_pin(int fd, const volatile void *addr, __u64 length, __u32 flags, __u32 *id)
{
	struct gpumem_bo_pin c = {
		.size = sizeof(c), .addr = (uintptr_t)addr, .length = length, .flags = flags,
	};
	int ret = gp_ioctl(fd, GPUMEM_BO_PIN, &c);

	*id = c.id;
	return ret;
}

static int allocate(struct scene *sc, int (*alloc)(int fd, __u64 length, __u32 *id))
{
	int fd = gp_open(0);
	__u32 id;

	ready(sc);
	for (;;) {
		MUST(CALL(sc, alloc(fd, sc->bytes, &id)));
		MUST(gp_destroy(fd, id));
	}
}

static int in_alloc(struct scene *sc)
{
	return allocate(sc, gp_bo_alloc);
}

static int in_alloc_host(struct scene *sc)
{
	return allocate(sc, gp_bo_alloc_host);
}

/*
 * Allocates many small objects and frees them: clearing a large object takes longer than freeing
 * it.
 */
static int in_free(struct scene *sc)
{
	int fd = gp_open(0);
	__u32 ids[50];

	for (bool told = false;; told = true) {
		for (unsigned int i = 0; i < ARRAY_SIZE(ids); i++)
			MUST(gp_bo_alloc(fd, sc->bytes, &ids[i]));
		if (!told)
			ready(sc);
		for (unsigned int i = 0; i < ARRAY_SIZE(ids); i++)
			MUST(CALL(sc, gp_destroy(fd, ids[i])));
	}
}

/* Registers pages that are not present before: the registration faults them in.  */
static int pin_fresh(struct scene *sc, void *p, int advice)
{
	int fd = gp_open(0);
	__u32 id;

	if (p == MAP_FAILED || (advice && madvise(p, sc->bytes, advice)))
		return 1;
	ready(sc);
	for (;;) {
		MUST(CALL(sc, gp_bo_pin(fd, p, sc->bytes, 0, &id)));
		MUST(gp_destroy(fd, id));
		MUST(madvise(p, sc->bytes, MADV_DONTNEED));
	}
}

static int in_pin(struct scene *sc)
{
	return pin_fresh(sc, mmap(NULL, sc->bytes, RW, ANON | MAP_NORESERVE, -1, 0),
			 MADV_NOHUGEPAGE);
}

static int in_pin_thp(struct scene *sc)
{
	return pin_fresh(sc, mmap(NULL, sc->bytes, RW, ANON | MAP_NORESERVE, -1, 0),
			 MADV_HUGEPAGE);
}

static int in_pin_hugetlb(struct scene *sc)
{
	return pin_fresh(sc, mmap(NULL, sc->bytes, RW, ANON | MAP_HUGETLB, -1, 0), 0);
}

static int in_pin_shmem(struct scene *sc)
{
	int memfd = memfd_create("kill", MFD_CLOEXEC);

	MUST(ftruncate(memfd, sc->bytes));
	return pin_fresh(sc, mmap(NULL, sc->bytes, RW, MAP_SHARED, memfd, 0), 0);
}

/* Registers a private mapping of a file: pinning copies the file's pages first.  */
static int in_pin_file(struct scene *sc)
{
	int exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat st;

	MUST(fstat(exe, &st));
	sc->bytes = st.st_size;
	return pin_fresh(sc, mmap(NULL, sc->bytes, RW, MAP_PRIVATE, exe, 0), 0);
}

static int in_unpin(struct scene *sc)
{
	void *p = mmap(NULL, sc->bytes, RW, ANON | MAP_NORESERVE, -1, 0);
	int fd = gp_open(0);
	__u32 id;

	if (p == MAP_FAILED || madvise(p, sc->bytes, MADV_NOHUGEPAGE))
		return 1;
	for (bool told = false;; told = true) {
		MUST(gp_bo_pin(fd, p, sc->bytes, 0, &id));
		if (!told)
			ready(sc);
		MUST(CALL(sc, gp_destroy(fd, id)));
	}
}

static int in_wait(struct scene *sc)
{
	int fd = gp_open(0);
	__u32 id;

	MUST(gp_timeline_create(fd, 0, &id));
	ready(sc);
	CALL(sc, gp_timeline_wait(fd, id, 1, FOREVER, NULL));
	return 2;
}

/*
 * Streams that wait for one another; the last of the chain waits for a value that is never reached.
 */
static int in_stream_wait(struct scene *sc)
{
	int fd = gp_open(0);
	struct stream s[4];
	struct gpumem_sqe sqe;
	__u32 vm, never;

	MUST(gp_vm_create(fd, &vm));
	MUST(gp_timeline_create(fd, 0, &never));
	for (int i = 0; i < 4; i++) {
		MUST(stream_open(&s[i], fd, vm, 0, 16));
		sqe = sqe_wait(i ? s[i - 1].timeline : never, 1);
		MUST(stream_push(&s[i], &sqe));
		/* Destroy the id of one stream while its wait is queued. */
		if (i == 2)
			MUST(gp_destroy(fd, s[i].id));
	}
	ready(sc);
	CALL(sc, stream_wait(&s[3], 1, 1000));
	return 2;
}

/* The engine is busy: linear and 2D copies and fills, of device memory and of pinned memory. */
static int in_copy(struct scene *sc)
{
	const __u64 n = sc->bytes, half = n / 2;
	int fd = gp_open(0);
	struct gpumem_sqe sqes[4];
	struct stream s;
	__u32 bo, pin, vm;
	void *p = mmap(NULL, n, RW, ANON, -1, 0);

	if (p == MAP_FAILED)
		return 1;
	MUST(gp_bo_alloc(fd, n, &bo));
	MUST(gp_bo_pin(fd, p, n, 0, &pin));
	MUST(gp_vm_create(fd, &vm));
	MUST(gp_vm_map(fd, vm, bo, 0, ADDR, n, 1, 1));
	MUST(gp_vm_map(fd, vm, pin, 0, (uintptr_t)p, n, 1, 1));
	MUST(stream_open(&s, fd, vm, 0, 64));
	sqes[0] = sqe_copy(ADDR, ADDR + half, half);
	sqes[1] = sqe_copy2d((uintptr_t)p, 4096, ADDR, 5000, 4000, half / 5000);
	sqes[2] = sqe_copy(ADDR, (uintptr_t)p, n);
	sqes[3] = sqe_fill2d(ADDR, 4096, 8, 77, 500, n / 4096);
	ready(sc);
	for (;;) {
		for (unsigned int i = 0; i < 60; i++)
			MUST(stream_push(&s, &sqes[i % 4]));
		MUST(CALL(sc, stream_sync(&s)));
	}
}

static int in_token_open(struct scene *sc)
{
	int fd = gp_open(0);
	struct gpumem_token_open o;
	__u8 name[GPUMEM_TOKEN_SIZE];
	__u32 bo, id;

	MUST(gp_bo_alloc(fd, sc->bytes, &bo));
	MUST(gp_token_create(fd, bo, 0, sc->bytes, 0, &id, name));
	ready(sc);
	for (;;) {
		MUST(CALL(sc, gp_token_open(fd, name, &o)));
		MUST(gp_destroy(fd, o.id));
	}
}

static int in_token_create(struct scene *sc)
{
	int fd = gp_open(0);
	__u8 name[GPUMEM_TOKEN_SIZE];
	__u32 bo, id;

	MUST(gp_bo_alloc(fd, sc->bytes, &bo));
	ready(sc);
	for (;;) {
		MUST(CALL(sc, gp_token_create(fd, bo, 0, sc->bytes, 0, &id, name)));
		MUST(gp_destroy(fd, id));
	}
}

static int in_export(struct scene *sc)
{
	int fd = gp_open(0), dmabuf;
	__u32 bo;

	MUST(gp_bo_alloc(fd, sc->bytes, &bo));
	ready(sc);
	for (;;) {
		dmabuf = CALL(sc, gp_bo_export(fd, bo, 0, sc->bytes, 0));
		MUST(dmabuf);
		close(dmabuf);
	}
}

/* Exports a range over two buffer objects, and touches a page of each through the DMA-buf. */
static int in_export_range(struct scene *sc)
{
	int fd = gp_open(0), dmabuf;
	volatile char *p;
	__u32 bo[2], vm;

	MUST(gp_vm_create(fd, &vm));
	for (int i = 0; i < 2; i++) {
		MUST(gp_bo_alloc(fd, sc->bytes, &bo[i]));
		MUST(gp_vm_map(fd, vm, bo[i], 0, ADDR + i * sc->bytes, sc->bytes, 0, 0));
	}
	ready(sc);
	for (;;) {
		dmabuf = CALL(sc, gp_vm_export(fd, vm, ADDR, 2 * sc->bytes, 0));
		MUST(dmabuf);
		p = mmap(NULL, 2 * sc->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, dmabuf, 0);
		MUST(p == MAP_FAILED ? -1 : 0);
		p[0] = p[sc->bytes] = 1;
		munmap((void *)p, 2 * sc->bytes);
		close(dmabuf);
	}
}

static int in_import(struct scene *sc)
{
	int fd = gp_open(0), dmabuf;
	struct gpumem_bo_import i;
	__u32 bo;

	MUST(gp_bo_alloc(fd, sc->bytes, &bo));
	dmabuf = gp_bo_export(fd, bo, 0, sc->bytes, 0);
	MUST(dmabuf);
	ready(sc);
	for (;;) {
		MUST(CALL(sc, gp_bo_import(fd, dmabuf, &i)));
		MUST(gp_destroy(fd, i.id));
	}
}

/* Exports a whole buffer object as a memory handle, and closes the descriptor. */
static int in_handle_export(struct scene *sc)
{
	int fd = gp_open(0), handle;
	__u32 bo;

	MUST(gp_bo_alloc(fd, sc->bytes, &bo));
	ready(sc);
	for (;;) {
		handle = CALL(sc, gp_bo_export(fd, bo, 0, sc->bytes, GPUMEM_BO_EXPORT_HANDLE));
		MUST(handle);
		close(handle);
	}
}

/*
 * Imports a memory handle, maps it for the devices, for reading and then for writing, and undoes
 * that.  The buffer object's own id is gone: only the descriptor has the memory.
 */
static int in_handle_import(struct scene *sc)
{
	struct gpumem_bo_import i = { .size = sizeof(i), .flags = GPUMEM_BO_IMPORT_HANDLE };
	int fd = gp_open(0);
	__u32 bo, vm;

	MUST(gp_bo_alloc(fd, sc->bytes, &bo));
	i.fd = gp_bo_export(fd, bo, 0, sc->bytes, GPUMEM_BO_EXPORT_HANDLE);
	MUST(i.fd);
	MUST(gp_destroy(fd, bo));
	MUST(gp_vm_create(fd, &vm));
	ready(sc);
	for (;;) {
		MUST(CALL(sc, gp_ioctl(fd, GPUMEM_BO_IMPORT, &i)));
		MUST(CALL(sc, gp_vm_map(fd, vm, i.id, 0, ADDR, sc->bytes, 1, 0)));
		MUST(gp_destroy(fd, i.id));
		MUST(CALL(sc, gp_vm_access(fd, vm, ADDR, sc->bytes, 0,
					   GPUMEM_ACCESS_READ | GPUMEM_ACCESS_WRITE)));
		MUST(CALL(sc, gp_vm_unmap(fd, vm, ADDR, sc->bytes, NULL)));
	}
}

/* Exports a timeline, imports it in a second client, and raises it there. */
static int in_semaphore(struct scene *sc)
{
	int fd = gp_open(0), second = gp_open(0), exported;
	__u32 timeline, id;
	__u64 value = 0;

	MUST(fd);
	MUST(second);
	MUST(gp_timeline_create(fd, 0, &timeline));
	ready(sc);
	for (;;) {
		exported = CALL(sc, gp_timeline_export(fd, timeline, 0));
		MUST(exported);
		MUST(CALL(sc, gp_timeline_import(second, exported, &id, NULL)));
		close(exported);
		MUST(CALL(sc, gp_timeline_signal(second, id, ++value)));
		MUST(gp_timeline_wait(fd, timeline, value, FOREVER, NULL));
		MUST(gp_destroy(second, id));
	}
}

/* A stream and a thread wait for imported timelines, one of which is lost already. */
static int in_semaphore_wait(struct scene *sc)
{
	int fd = gp_open(0), maker = gp_open(0), exported, lost_fd;
	__u32 vm, timeline, lost, id, lost_id;
	struct gpumem_sqe sqe;
	struct stream s;

	MUST(gp_timeline_create(maker, 0, &timeline));
	MUST(gp_timeline_create(maker, 0, &lost));
	exported = gp_timeline_export(maker, timeline, 0);
	lost_fd = gp_timeline_export(maker, lost, 0);
	MUST(exported);
	MUST(lost_fd);
	MUST(gp_timeline_import(fd, exported, &id, NULL));
	MUST(gp_timeline_import(fd, lost_fd, &lost_id, NULL));
	MUST(gp_destroy(maker, lost));
	MUST(gp_vm_create(fd, &vm));
	MUST(stream_open(&s, fd, vm, 0, 16));
	sqe = sqe_wait(id, 1);
	MUST(stream_push(&s, &sqe));
	ready(sc);
	CALL(sc, gp_timeline_wait(fd, id, 1, FOREVER, NULL));
	return 2;
}

/* Imports a DMA-buf of another driver, which has to map it.  */
static int in_import_foreign(struct scene *sc)
{
	int fd = gp_open(0), dmabuf = make_udmabuf();
	struct gpumem_bo_import i;

	MUST(dmabuf);
	ready(sc);
	for (;;) {
		MUST(CALL(sc, gp_bo_import(fd, dmabuf, &i)));
		MUST(gp_destroy(fd, i.id));
	}
}

static int in_retire(struct scene *sc)
{
	int fd = gp_open(0);
	__u32 bo, n;

	MUST(gp_bo_alloc(fd, sc->bytes, &bo));
	ready(sc);
	for (;;)
		MUST(CALL(sc, gp_bo_retire(fd, bo, 0, sc->bytes, 0, &n)));
}

static int in_mmap(struct scene *sc)
{
	int fd = gp_open(0);
	__u32 bo;

	MUST(gp_bo_alloc(fd, sc->bytes, &bo));
	ready(sc);
	for (;;) {
		void *p = CALL(sc, mmap(NULL, sc->bytes, RW, MAP_SHARED | MAP_POPULATE, fd,
					GPUMEM_MMAP_OFFSET(bo)));

		if (p == MAP_FAILED)
			return 2;
		munmap(p, sc->bytes);
	}
}

/* Faults of one page each: the mapping is a page off, so no huge page fits.  */
static int in_faults(struct scene *sc)
{
	int fd = gp_open(0);
	__u32 bo;

	MUST(gp_bo_alloc(fd, sc->bytes, &bo));
	ready(sc);
	for (;;) {
		volatile char *p = gp_map(fd, bo, page_size, sc->bytes - page_size, RW);

		if (!p)
			return 2;
		sc->entered++;
		for (__u64 at = 0; at < sc->bytes - page_size; at += page_size)
			p[at] = 1;
		sc->left++;
		munmap((void *)p, sc->bytes - page_size);
	}
}

static int in_mprotect(struct scene *sc)
{
	int fd = gp_open(0);
	__u32 bo;
	char *p;

	MUST(gp_bo_alloc(fd, sc->bytes, &bo));
	p = gp_map(fd, bo, 0, sc->bytes, RW);
	if (!p)
		return 1;
	memset(p, 1, sc->bytes);
	ready(sc);
	for (__u64 at = 0;; at = (at + 3 * page_size) % sc->bytes)
		MUST(CALL(sc, mprotect(p + at, page_size, at & page_size ? RW : PROT_READ)));
}

static int in_vm_map(struct scene *sc)
{
	int fd = gp_open(0);
	__u32 bo, vm;

	MUST(gp_bo_alloc(fd, sc->bytes, &bo));
	MUST(gp_vm_create(fd, &vm));
	ready(sc);
	for (;;) {
		for (__u64 at = 0; at < sc->bytes; at += page_size)
			MUST(CALL(sc, gp_vm_map(fd, vm, bo, at, ADDR + at, page_size, 1, 1)));
		MUST(CALL(sc, gp_vm_unmap(fd, vm, ADDR, sc->bytes, NULL)));
	}
}

/* Creates and destroys streams that have queued work.  */
static int in_stream_create(struct scene *sc)
{
	int fd = gp_open(0);
	__u32 bo, vm;

	MUST(gp_bo_alloc(fd, sc->bytes, &bo));
	MUST(gp_vm_create(fd, &vm));
	MUST(gp_vm_map(fd, vm, bo, 0, ADDR, sc->bytes, 1, 1));
	ready(sc);
	for (;;) {
		struct gpumem_sqe sqe = sqe_fill(ADDR, 8, 1, sc->bytes / 8);
		struct stream s;

		MUST(CALL(sc, stream_open(&s, fd, vm, 0, 16)));
		for (int i = 0; i < 4; i++)
			MUST(stream_push(&s, &sqe));
		MUST(CALL(sc, stream_close(&s)));
	}
}

static int in_open(struct scene *sc)
{
	ready(sc);
	for (;;) {
		int fd = CALL(sc, gp_open(0));
		__u32 id;

		MUST(fd);
		MUST(gp_bo_alloc(fd, sc->bytes, &id));
		CALL(sc, close(fd));
	}
}

/* Random calls of all kinds.  */
static int in_anything(struct scene *sc)
{
	int fd = gp_open(0);
	struct rng r = { sc->seed };
	__u32 ids[16] = { 0 }, timeline;

	ready(sc);
	sc->entered++;
	while (fd >= 0) {
		unsigned int i = rng_below(&r, 16);

		gp_destroy(fd, ids[i]);
		switch (rng_below(&r, 4)) {
		case 0:
			gp_bo_alloc(fd, (1 + rng_below(&r, 512)) * page_size, &ids[i]);
			break;
		case 1:
			gp_vm_create(fd, &ids[i]);
			break;
		case 2:
			gp_timeline_create(fd, 0, &ids[i]);
			break;
		default:
			for (unsigned int j = 0; j < 16; j++) {
				if (!gp_stream_create(fd, ids[j], 0, 16, &ids[i], &timeline)) {
					gp_destroy(fd, timeline);
					break;
				}
			}
		}
	}
	return 1;
}

/* --- one thread is in a call, another one ends the process */

struct thread {
	struct scene *sc;
	scene_fn fn;
};

static void *thread_main(void *arg)
{
	struct thread *t = arg;

	/*
	 * A scene that returns has failed.  The status of the process does not show that; the marks
	 * of CALL() do.
	 */
	t->fn(t->sc);
	return NULL;
}

/* Each fn() opens a client of its own. */
static int thread_start(struct scene *sc, scene_fn fn)
{
	static struct thread threads[4];
	static unsigned int n;
	pthread_t t;

	threads[n] = (struct thread) { sc, fn };
	return -pthread_create(&t, NULL, thread_main, &threads[n++]);
}

static void await_go(struct scene *sc)
{
	while (!sc->go)
		nap_us(200);
}

static int exit_in_alloc(struct scene *sc)
{
	MUST(thread_start(sc, in_alloc));
	await_go(sc);
	_exit(0);
}

static int exit_in_pin(struct scene *sc)
{
	MUST(thread_start(sc, in_pin));
	await_go(sc);
	_exit(0);
}

static int exit_in_wait(struct scene *sc)
{
	MUST(thread_start(sc, in_wait));
	MUST(thread_start(sc, in_stream_wait));
	await_go(sc);
	_exit(0);
}

static int exec_in_alloc(struct scene *sc)
{
	MUST(thread_start(sc, in_alloc));
	MUST(thread_start(sc, in_wait));
	await_go(sc);
	execl("/bin/true", "true", NULL);
	return 1;
}

/* The thread group leader ends; the other threads go on, and the process is killed then.  */
static int leader_is_gone(struct scene *sc)
{
	MUST(thread_start(sc, in_alloc));
	MUST(thread_start(sc, in_copy));
	syscall(SYS_exit, 0);
	return 1;
}

#endif
