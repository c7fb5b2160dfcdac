// SPDX-License-Identifier: GPL-2.0
/*
 * Buffer objects beside other memory that has a descriptor: allocation, mapping, the first touch of
 * each page of the mapping, unmapping, and freeing.  All pages of a buffer object exist and are
 * zero after the call that makes it.  The peer's allocation therefore includes its pages: a memfd
 * with fallocate(), and memory of the system DMA-buf heap.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-heap.h>
#include <linux/gpumem.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"

enum { ALLOC, MAP, TOUCH, UNMAP, FREE, PHASES };

struct bo {
	int fd;			/* device or heap */
	size_t bytes;
};

static void map(int fd, off_t offset, size_t bytes, double *ns)
{
	double t = bench_now();
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);

	ns[MAP] += bench_lap(&t);
	if (p == MAP_FAILED)
		bench_die("mmap");
	t = bench_now();
	bench_touch(p, bytes);
	ns[TOUCH] += bench_lap(&t);
	munmap(p, bytes);
	ns[UNMAP] += bench_lap(&t);
}

static void ours(void *arg, double *ns)
{
	struct bo *b = arg;
	struct gpumem_bo_alloc alloc = { .size = sizeof(alloc), .length = b->bytes };
	double t = bench_now();

	bench_ioctl(b->fd, GPUMEM_BO_ALLOC, &alloc, "GPUMEM_BO_ALLOC");
	ns[ALLOC] += bench_lap(&t);
	map(b->fd, GPUMEM_MMAP_OFFSET(alloc.id), b->bytes, ns);
	t = bench_now();
	bench_destroy(b->fd, alloc.id);
	ns[FREE] += bench_lap(&t);
}

static void memfd(void *arg, double *ns)
{
	struct bo *b = arg;
	double t = bench_now();
	int fd = memfd_create("bench", MFD_CLOEXEC);

	if (fd < 0 || fallocate(fd, 0, 0, b->bytes))
		bench_die("memfd");
	ns[ALLOC] += bench_lap(&t);
	map(fd, 0, b->bytes, ns);
	t = bench_now();
	close(fd);
	ns[FREE] += bench_lap(&t);
}

static void heap(void *arg, double *ns)
{
	struct bo *b = arg;
	struct dma_heap_allocation_data data = { .len = b->bytes, .fd_flags = O_RDWR | O_CLOEXEC };
	double t = bench_now();

	bench_ioctl(b->fd, DMA_HEAP_IOCTL_ALLOC, &data, "DMA_HEAP_IOCTL_ALLOC");
	ns[ALLOC] += bench_lap(&t);
	map(data.fd, 0, b->bytes, ns);
	t = bench_now();
	close(data.fd);
	ns[FREE] += bench_lap(&t);
}

/* Reports the five rows of one kind of memory; if it is ours, with the rows of @peer as peers. */
static void report(const char *kind, int fd, size_t bytes, void (*step)(void *, double *),
		   const char *peer)
{
	static const char *const verbs[] = { "alloc", "map", "touch", "unmap", "free" };
	const char *size = bench_size(bytes);
	struct bo b = { .fd = fd, .bytes = bytes };
	/* Huge pages save most of the work. */
	double bar = bytes < HUGE_BYTES ? 0 : 0.5;
	double ns[BENCH_PHASES];
	int calls = bytes < MIB ? 16 : 1;

	bench_phases(ns, bytes < MIB ? 9 : 3, calls, step, &b);
	for (int i = 0; i < PHASES; i++) {
		const char *name = bench_name("%s_%s_%s", kind, verbs[i], size);

		if (peer)
			bench_beside(name, BENCH_ALLOC, ns[i],
				     bench_name("%s_%s_%s", peer, verbs[i], size),
				     i == MAP ? 0 : bar);
		else
			bench_peer(name, ns[i]);
	}
}

void bench_bo(void)
{
	static const size_t sizes[] = { 4 * KIB, 64 * KIB, 2 * MIB, 64 * MIB };
	int heap_fd = open("/dev/dma_heap/system", O_RDONLY | O_CLOEXEC);
	struct gpumem_vm_create vm = { .size = sizeof(vm) };
	int fd = bench_open();

	bench_ioctl(fd, GPUMEM_VM_CREATE, &vm, "GPUMEM_VM_CREATE");
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		report("memfd", -1, sizes[i], memfd, NULL);
		report("bo", fd, sizes[i], ours, "memfd");
		if (heap_fd >= 0)
			report("heap", heap_fd, sizes[i], heap, NULL);
	}
	if (heap_fd < 0)
		bench_skip("heap", "no /dev/dma_heap/system");
	else
		close(heap_fd);
	close(fd);
}
