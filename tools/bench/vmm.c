// SPDX-License-Identifier: GPL-2.0
/*
 * Virtual memory management: handles of 2 MiB, and their mappings.
 *
 * Peers are a memfd of 2 MiB that has one huge page, mmap() and munmap() of a handle's own memory,
 * and the same operation with fewer mappings or fewer handles.
 *
 * shmem_enabled is changed while the memfd is measured, because memfds have no huge pages by
 * default.
 */
#include <cuda.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/gpumem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define ROUNDS		9
#define CALLS		8
#define PIECES		10000
#define HANDLES		64
#define SHMEM_ENABLED	"/sys/kernel/mm/transparent_hugepage/shmem_enabled"

typedef CUmemGenericAllocationHandle handle_t;

static const CUmemAccessDesc open_to_device = {
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
};

static handle_t make(size_t bytes)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	handle_t handle;

	bench_cu(cuMemCreate(&handle, bytes, &prop, 0));
	return handle;
}

static CUdeviceptr reserve(size_t bytes)
{
	CUdeviceptr addr;

	bench_cu(cuMemAddressReserve(&addr, bytes, 0, 0, 0));
	return addr;
}

/* --- life of one handle, beside a memfd */

static void life(void *arg)
{
	CUdeviceptr addr = reserve(HUGE_BYTES);
	handle_t handle = make(HUGE_BYTES);

	(void)arg;
	bench_cu(cuMemMap(addr, HUGE_BYTES, 0, handle, 0));
	bench_cu(cuMemSetAccess(addr, HUGE_BYTES, &open_to_device, 1));
	bench_cu(cuMemUnmap(addr, HUGE_BYTES));
	bench_cu(cuMemRelease(handle));
	bench_cu(cuMemAddressFree(addr, HUGE_BYTES));
}

/* Reads the word in brackets, which is the current one. */
static void shmem_now(char word[16])
{
	FILE *f = fopen(SHMEM_ENABLED, "re");

	if (!f || fscanf(f, "%*[^[][%15[^]]", word) != 1)
		strcpy(word, "never");
	if (f)
		fclose(f);
}

/* Sets whether memfds have huge pages; false: this kernel or this user cannot. */
static bool shmem_enabled(const char *word)
{
	int fd = open(SHMEM_ENABLED, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, word, strlen(word)) > 0;

	if (fd >= 0)
		close(fd);
	return done;
}

/* A memfd of 2 MiB with a huge page. */
static int huge_memfd(void)
{
	int fd = memfd_create("bench", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, HUGE_BYTES) || fallocate(fd, 0, 0, HUGE_BYTES))
		bench_die("memfd");
	return fd;
}

static void *memfd_map(int fd)
{
	void *p = mmap(NULL, HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED || madvise(p, HUGE_BYTES, MADV_POPULATE_WRITE))
		bench_die("mapping a memfd");
	return p;
}

static void memfd_life(void *arg)
{
	int fd = huge_memfd();

	(void)arg;
	munmap(memfd_map(fd), HUGE_BYTES);
	close(fd);
}

/* Whether the process has a mapping of a file's huge page. */
static bool maps_huge_page(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "re");
	unsigned long kib = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f) && !sscanf(line, "ShmemPmdMapped: %lu", &kib))
		;
	if (f)
		fclose(f);
	return kib >= HUGE_BYTES / KIB;
}

static bool memfds_are_huge(void)
{
	int fd = huge_memfd();
	void *p = memfd_map(fd);
	bool huge = maps_huge_page();

	munmap(p, HUGE_BYTES);
	close(fd);
	return huge;
}

static void lives(void)
{
	const char *peer = "memfd_huge_populate_map_2M";
	char before[16];

	shmem_now(before);
	if (shmem_enabled("always") && memfds_are_huge())
		bench_peer(peer, bench_calls(ROUNDS, CALLS, memfd_life, NULL));
	else
		bench_skip(peer, "no huge pages in memfds");
	shmem_enabled(before);
	bench_beside("vmm_life_2M", BENCH_ALLOC, bench_calls(ROUNDS, CALLS, life, NULL), peer, 1.5);
}

/* --- mapping an existing handle, beside mmap() and munmap() of its memory */

struct place {
	CUdeviceptr addr;
	handle_t handle;
	int fd;			/* for the peer: a client with the same memory as @bo */
	uint32_t bo;
};

static void map_open(const struct place *p)
{
	bench_cu(cuMemMap(p->addr, HUGE_BYTES, 0, p->handle, 0));
	bench_cu(cuMemSetAccess(p->addr, HUGE_BYTES, &open_to_device, 1));
}

static void map_unmap(void *arg)
{
	const struct place *p = arg;

	map_open(p);
	bench_cu(cuMemUnmap(p->addr, HUGE_BYTES));
}

static void mmap_munmap(void *arg)
{
	const struct place *p = arg;
	void *m = mmap(NULL, HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd,
		       GPUMEM_MMAP_OFFSET(p->bo));

	if (m == MAP_FAILED || munmap(m, HUGE_BYTES))
		bench_die("mmap of a buffer object");
}

/* Import the memory of @p->handle in a client of its own, for the peer. */
static void import(struct place *p)
{
	struct gpumem_bo_import in = { .size = sizeof(in), .flags = GPUMEM_BO_IMPORT_HANDLE };

	bench_cu(cuMemExportToShareableHandle(&in.fd, p->handle,
					      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	p->fd = bench_open();
	bench_ioctl(p->fd, GPUMEM_BO_IMPORT, &in, "GPUMEM_BO_IMPORT");
	p->bo = in.id;
	close(in.fd);
}

static void existing(void)
{
	struct place p = { .addr = reserve(HUGE_BYTES), .handle = make(HUGE_BYTES) };
	double ns;

	import(&p);
	ns = bench_calls(ROUNDS, CALLS, mmap_munmap, &p);
	bench_peer("mmap_munmap_2M", ns);
	bench_beside("vmm_map_unmap_2M", BENCH_ALLOC, bench_calls(ROUNDS, CALLS, map_unmap, &p),
		     "mmap_munmap_2M", 2);
	close(p.fd);
	bench_cu(cuMemRelease(p.handle));
	bench_cu(cuMemAddressFree(p.addr, HUGE_BYTES));
}

/* --- a buffer that grows at its end: each place is mapped for the first time */

static void next_piece(void *arg, double *ns)
{
	struct place *p = arg;
	double t = bench_now();

	map_open(p);
	ns[0] += bench_lap(&t);
	p->addr += HUGE_BYTES;
}

static void pieces(void)
{
	size_t bytes = (PIECES + (ROUNDS + 1) * CALLS) * HUGE_BYTES;
	CUdeviceptr base = reserve(bytes);
	struct place p = { .addr = base, .handle = make(HUGE_BYTES) };
	double ns[BENCH_PHASES];

	bench_phases(ns, ROUNDS, CALLS, next_piece, &p);
	bench_peer("vmm_piece_1", ns[0]);
	while (p.addr < base + (PIECES - 1) * HUGE_BYTES)
		next_piece(&p, ns);
	bench_phases(ns, ROUNDS, CALLS, next_piece, &p);
	bench_beside(bench_name("vmm_piece_%d", PIECES), BENCH_ALLOC, ns[0], "vmm_piece_1", 1.2);
	bench_cu(cuMemUnmap(base, bytes));
	bench_cu(cuMemRelease(p.handle));
	bench_cu(cuMemAddressFree(base, bytes));
}

/* --- a handle in another process */

struct other {
	int sock, fd;
	handle_t handle;
	pid_t pid;
};

static void pass_handle(void *arg)
{
	struct other *o = arg;
	int fd;

	bench_cu(cuMemExportToShareableHandle(&fd, o->handle,
					      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	if (!bench_give(o->sock, fd) || bench_take(o->sock) != -1)
		bench_die("passing a handle");
	close(fd);
}

static void pass_memfd(void *arg)
{
	struct other *o = arg;

	if (!bench_give(o->sock, o->fd) || bench_take(o->sock) != -1)
		bench_die("passing a memfd");
}

static void import_all(int sock)
{
	int fd;

	bench_cuda();
	/* Tell the first process that this one is ready. */
	bench_give(sock, -1);
	while ((fd = bench_take(sock)) != -2) {
		handle_t handle;

		bench_cu(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
							CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
		close(fd);
		bench_cu(cuMemRelease(handle));
		if (!bench_give(sock, -1))
			_exit(1);
	}
	_exit(0);
}

static void stat_all(int sock)
{
	struct stat st;
	int fd;

	bench_give(sock, -1);
	while ((fd = bench_take(sock)) != -2) {
		if (fstat(fd, &st) || st.st_size != HUGE_BYTES)
			_exit(1);
		close(fd);
		if (!bench_give(sock, -1))
			_exit(1);
	}
	_exit(0);
}

static struct other other_start(void (*serve)(int sock))
{
	struct other o;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		bench_die("socketpair");
	o.pid = fork();
	if (o.pid < 0)
		bench_die("fork");
	if (!o.pid) {
		close(pair[0]);
		serve(pair[1]);
	}
	close(pair[1]);
	o.sock = pair[0];
	if (bench_take(o.sock) != -1)
		bench_die("another process");
	return o;
}

static void other_end(struct other *o)
{
	close(o->sock);
	waitpid(o->pid, NULL, 0);
}

/* Before this process uses CUDA, because the others are forked children. */
static void passing(void)
{
	struct other stats = other_start(stat_all), imports = other_start(import_all);

	bench_cuda();
	stats.fd = huge_memfd();
	munmap(memfd_map(stats.fd), HUGE_BYTES);
	bench_peer("memfd_pass_stat_close_2M", bench_calls(ROUNDS, CALLS, pass_memfd, &stats));
	imports.handle = make(HUGE_BYTES);
	bench_beside("vmm_pass_import_2M", BENCH_ALLOC,
		     bench_calls(ROUNDS, CALLS, pass_handle, &imports), "memfd_pass_stat_close_2M", 2);
	bench_cu(cuMemRelease(imports.handle));
	close(stats.fd);
	/* The second child has the first one's socket, too. */
	other_end(&imports);
	other_end(&stats);
}

/* --- copies across handles */

struct buffer {
	CUdeviceptr addr;
	size_t bytes;
};

/* Memory of @count handles at adjacent addresses. */
static struct buffer buffer_make(size_t bytes, int count)
{
	struct buffer b = { .addr = reserve(bytes), .bytes = bytes };
	size_t piece = bytes / count;

	for (int i = 0; i < count; i++) {
		handle_t handle = make(piece);

		bench_cu(cuMemMap(b.addr + i * piece, piece, 0, handle, 0));
		bench_cu(cuMemRelease(handle));
	}
	bench_cu(cuMemSetAccess(b.addr, bytes, &open_to_device, 1));
	return b;
}

static void buffer_free(const struct buffer *b)
{
	bench_cu(cuMemUnmap(b->addr, b->bytes));
	bench_cu(cuMemAddressFree(b->addr, b->bytes));
}

/* Copy the first half of the memory to the second. */
static void copy_half(void *arg)
{
	const struct buffer *b = arg;

	bench_cu(cuMemcpyDtoD(b->addr + b->bytes / 2, b->addr, b->bytes / 2));
	bench_cu(cuCtxSynchronize());
}

static double copied(int count)
{
	struct buffer b = buffer_make(HANDLES * HUGE_BYTES, count);
	double ns = bench_calls(3, 1, copy_half, &b);

	buffer_free(&b);
	return ns;
}

void bench_vmm(void)
{
	passing();
	lives();
	existing();
	pieces();
	bench_peer("vmm_copy_of_1", copied(1));
	bench_beside(bench_name("vmm_copy_of_%d", HANDLES), BENCH_RATIO, copied(HANDLES),
		     "vmm_copy_of_1", 1.05);
}

void bench_vmm_copy(void)
{
	struct buffer one, many;
	double ns, peer;

	bench_cuda();
	one = buffer_make(HANDLES * HUGE_BYTES, 1);
	many = buffer_make(HANDLES * HUGE_BYTES, HANDLES);
	ns = bench_pairs(ROUNDS, 1, NULL, copy_half, &many, copy_half, &one, &peer);
	bench_peer("vmm_timed_copy_of_1", peer);
	bench_beside(bench_name("vmm_timed_copy_of_%d", HANDLES), BENCH_RATIO, ns,
		     "vmm_timed_copy_of_1", 1.05);
}
