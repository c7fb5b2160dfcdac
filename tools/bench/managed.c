// SPDX-License-Identifier: GPL-2.0
/*
 * Managed memory: the first touch by the CPU, prefetches, access to resident blocks, and random
 * access to three times the device's memory.
 *
 * bench_managed() measures sizes that suit counted instructions.  bench_managed_timed() measures
 * larger sizes in wall time.  bench_managed_nodes() measures prefetches to a device with memory of
 * its own NUMA node.  Operations and peers alternate.  The size of the device is changed while
 * random access is measured, and restored.
 */
#include <cuda.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"

#define ROUNDS		9
#define DEVICE		"/sys/class/gpumem/gpumem0/"
#define MANAGED_USED	"/sys/class/gpumem/managed_used"
#define THP_ENABLED	"/sys/kernel/mm/transparent_hugepage/enabled"
#define HAS_MEMORY	"/sys/devices/system/node/has_memory"

#define SMALL_DEVICE	(64 * MIB)	/* size of the device while random access is measured */
#define OVERSIZE	(3 * SMALL_DEVICE)
#define LOADS		(1UL << 18)	/* of one call */
#define WAITING		256UL		/* most copies that wait in a busy stream at once */
#define ROUND_BYTES	(16 * MIB)	/* copies of a round, at least: several blocks move */
#define NODE_BYTES	(256 * MIB)

/* Counted and timed rows have different names, and different sizes. */
struct kind {
	const char *timed;		/* "timed_", "nodes_" or "": part of the names of rows */
	unsigned long accesses;		/* of a round; more of them if they are small */
	size_t touch, prefetch, access;
};

static const struct kind counted = { "", 256, 64 * MIB, 64 * MIB, 16 * MIB };
static const struct kind timed = { "timed_", 256, 64 * MIB, 256 * MIB, 64 * MIB };
/* Blocks move between memory nodes. */
static const struct kind nodes = { .timed = "nodes_", .accesses = 64 };

static const CUmemLocation to_device = { .type = CU_MEM_LOCATION_TYPE_DEVICE };
static const CUmemLocation to_host = { .type = CU_MEM_LOCATION_TYPE_HOST };

static CUstream stream;

static CUdeviceptr managed(size_t bytes)
{
	CUdeviceptr p;

	bench_cu(cuMemAllocManaged(&p, bytes, CU_MEM_ATTACH_GLOBAL));
	return p;
}

static CUdeviceptr device(size_t bytes)
{
	CUdeviceptr p;

	bench_cu(cuMemAlloc(&p, bytes));
	return p;
}

static void prefetch(CUdeviceptr p, size_t bytes, CUmemLocation where)
{
	bench_cu(cuMemPrefetchAsync(p, bytes, where, 0, stream));
	bench_cu(cuStreamSynchronize(stream));
}

/* The first line of a file, or "". */
static const char *text(const char *path, char line[64])
{
	FILE *f = fopen(path, "re");

	if (!f || !fgets(line, 64, f))
		line[0] = 0;
	if (f)
		fclose(f);
	return line;
}

static unsigned long long number(const char *path)
{
	char line[64];

	return strtoull(text(path, line), NULL, 10);
}

/* Whether cuMemAllocManaged() returns memory that is populated and moved block by block. */
static bool is_managed(void)
{
	CUdeviceptr p = managed(HUGE_BYTES);
	unsigned long long used;

	bench_touch((void *)p, HUGE_BYTES);
	used = number(MANAGED_USED);
	bench_cu(cuMemFree(p));
	return used >= HUGE_BYTES;
}

/* --- first touch by the CPU */

static void touch_managed(void *arg, double *ns)
{
	size_t bytes = *(size_t *)arg;
	CUdeviceptr p = managed(bytes);
	double t = bench_now();

	bench_touch((void *)p, bytes);
	ns[0] += bench_lap(&t);
	bench_cu(cuMemFree(p));
}

static void touch_anonymous(void *arg, double *ns)
{
	size_t bytes = *(size_t *)arg, length = bytes + HUGE_BYTES;
	char *map = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *p = (char *)(((uintptr_t)map + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1));
	double t;

	if (map == MAP_FAILED || madvise(p, bytes, MADV_HUGEPAGE))
		bench_die("huge pages");
	t = bench_now();
	bench_touch(p, bytes);
	ns[0] += bench_lap(&t);
	munmap(map, length);
}

static void touch(const struct kind *k)
{
	const char *size = bench_size(k->touch);
	const char *peer = bench_name("anonymous_%stouch_%s", k->timed, size);
	double ours[ROUNDS], theirs[ROUNDS], median;
	size_t bytes = k->touch;
	char line[64];

	if (strstr(text(THP_ENABLED, line), "[never]") || !line[0]) {
		bench_skip(peer, "no anonymous huge pages");
		return;
	}
	for (int i = -1; i < ROUNDS; i++) {
		double a[BENCH_PHASES] = { 0 }, b[BENCH_PHASES] = { 0 };

		touch_anonymous(&bytes, b);
		touch_managed(&bytes, a);
		if (i < 0)
			continue;
		ours[i] = a[0] / b[0];
		theirs[i] = b[0];
	}
	median = bench_median(theirs, ROUNDS);
	bench_peer(peer, median);
	bench_beside(bench_name("managed_%stouch_%s", k->timed, size), BENCH_ALLOC,
		     bench_median(ours, ROUNDS) * median, peer, 1.1);
}

/* --- prefetch without a move of pages, beside a copy of as many bytes */

struct range {
	CUdeviceptr p, dst, src;	/* @dst, @src: of half the bytes */
	size_t bytes;
} range;

static void leave_device(void)
{
	prefetch(range.p, range.bytes, to_host);
}

static void enter_device(void)
{
	prefetch(range.p, range.bytes, to_device);
}

static void prefetch_in(void *arg)
{
	(void)arg;
	enter_device();
}

static void prefetch_out(void *arg)
{
	(void)arg;
	leave_device();
}

/* Two halves, so that device and managed memory fit on the device together. */
static void copy_halves(void *arg)
{
	(void)arg;
	bench_cu(cuMemcpyDtoDAsync(range.dst, range.src, range.bytes / 2, stream));
	bench_cu(cuMemcpyDtoDAsync(range.dst, range.src, range.bytes / 2, stream));
	bench_cu(cuStreamSynchronize(stream));
}

static void prefetches(const struct kind *k)
{
	static const struct {
		const char *name;
		void (*before)(void);
		void (*step)(void *arg);
	} row[] = {
		{ "prefetch_in", leave_device, prefetch_in },
		{ "prefetch_again", NULL, prefetch_in },
		{ "prefetch_out", enter_device, prefetch_out },
	};
	const char *size = bench_size(k->prefetch);

	range = (struct range){ .p = managed(k->prefetch), .dst = device(k->prefetch / 2),
				.src = device(k->prefetch / 2), .bytes = k->prefetch };
	bench_touch((void *)range.p, range.bytes);
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		const char *peer = bench_name("copy_beside_%s%s_%s", k->timed, row[i].name,
					      size);
		double theirs, ours = bench_pairs(ROUNDS, 1, row[i].before, row[i].step, NULL,
						  copy_halves, NULL, &theirs);

		bench_peer(peer, theirs);
		bench_beside(bench_name("managed_%s%s_%s", k->timed, row[i].name, size),
			     BENCH_ALLOC, ours, peer, 0.02);
	}
	bench_cu(cuMemFree(range.p));
	bench_cu(cuMemFree(range.dst));
	bench_cu(cuMemFree(range.src));
}

/* --- prefetch between nodes, beside move_pages() of the same memory */

struct nodes {
	char *p;
	unsigned long count;		/* of pages */
	int device, other;		/* nodes */
	void **page;
	int *to, *status;
};

/* Moves all pages to @node; one entry of move_pages() for each huge page. */
static void move_to(struct nodes *n, int node)
{
	for (unsigned long i = 0; i < n->count; i++)
		n->to[i] = node;
	if (syscall(SYS_move_pages, 0, n->count, n->page, n->to, n->status, MPOL_MF_MOVE) < 0)
		bench_die("move_pages");
}

/* How many of the pages are on @node. */
static unsigned long pages_on(struct nodes *n, int node)
{
	unsigned long found = 0;

	if (syscall(SYS_move_pages, 0, n->count, n->page, NULL, n->status, 0))
		bench_die("move_pages");
	for (unsigned long i = 0; i < n->count; i++)
		found += n->status[i] == node;
	return found;
}

/* Chooses the nodes, or returns why prefetches cannot move pages on this machine. */
static const char *choose_nodes(struct nodes *n)
{
	char line[64];

	if (!strpbrk(text(HAS_MEMORY, line), "-,"))
		return "one node has memory";
	if (!text(DEVICE "node", line)[0] || line[0] == '-')
		return "the device has no node";
	n->device = atoi(line);
	/* The first node with memory, or the one after it. */
	n->other = atoi(text(HAS_MEMORY, line));
	if (n->other == n->device)
		n->other = atoi(strpbrk(line, "-,") + 1);
	return NULL;
}

/* False if blocks do not move between nodes on this machine. */
static bool between_nodes(void)
{
	const char *peer = bench_name("move_pages_%s", bench_size(NODE_BYTES));
	const char *name = bench_name("managed_prefetch_nodes_%s", bench_size(NODE_BYTES));
	double ours[ROUNDS], theirs[ROUNDS], median;
	struct nodes n = { .count = NODE_BYTES / HUGE_BYTES };
	const char *why = choose_nodes(&n);
	unsigned long mask;
	CUdeviceptr p;

	if (why) {
		bench_skip(name, why);
		return false;
	}
	n.page = calloc(n.count, sizeof(*n.page));
	n.to = calloc(n.count, sizeof(*n.to));
	n.status = calloc(n.count, sizeof(*n.status));
	mask = 1UL << n.other;
	if (!n.page || !n.to || !n.status ||
	    syscall(SYS_set_mempolicy, MPOL_BIND, &mask, 8 * sizeof(mask)))
		bench_die("set_mempolicy");
	p = managed(NODE_BYTES);
	bench_touch((void *)p, NODE_BYTES);
	syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0);
	for (unsigned long i = 0; i < n.count; i++)
		n.page[i] = (char *)p + i * HUGE_BYTES;
	for (int i = -1; i < ROUNDS; i++) {
		double t, a, b;

		prefetch(p, NODE_BYTES, to_host);
		/* move_pages() needs pages that the process maps; a prefetch that moves them unmaps them. */
		bench_touch((void *)p, NODE_BYTES);
		move_to(&n, n.other);
		if (pages_on(&n, n.other) != n.count) {
			bench_skip(peer, "move_pages() moved some of the pages only");
			return false;
		}
		t = bench_now();
		move_to(&n, n.device);
		b = bench_lap(&t);
		move_to(&n, n.other);
		t = bench_now();
		prefetch(p, NODE_BYTES, to_device);
		a = bench_lap(&t);
		if (i < 0)
			continue;
		ours[i] = a / b;
		theirs[i] = b;
	}
	median = bench_median(theirs, ROUNDS);
	bench_peer(peer, median);
	bench_touch((void *)p, NODE_BYTES);
	if (pages_on(&n, n.device) != n.count)
		bench_skip(name, "the prefetch moved no pages");
	else
		bench_beside(name, BENCH_RATIO, bench_median(ours, ROUNDS) * median, peer, 1.2);
	bench_cu(cuMemFree(p));
	return true;
}

/* --- random access to three times the device, beside pinned host memory */

static unsigned long long random_number(unsigned long long *state)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return *state >> 33;
}

struct oversize {
	CUdeviceptr p;
	size_t bytes;			/* of an access */
	unsigned long accesses;		/* of a round */
	unsigned long long state;
	volatile uint32_t *gate;	/* the stream waits until it contains another value; or NULL */
};

/* Copies between random places. */
static void submit_copies(struct oversize *o, unsigned long accesses)
{
	size_t places = OVERSIZE / o->bytes;

	for (unsigned long i = 0; i < accesses; i++) {
		size_t to = random_number(&o->state) % places;
		size_t from = random_number(&o->state) % places;

		if (from == to)
			from = (from + 1) % places;
		bench_cu(cuMemcpyAsync(o->p + to * o->bytes, o->p + from * o->bytes, o->bytes,
				       stream));
	}
}

/* With a gate the copies wait in a busy stream, so the engine does them. */
static void random_copies(void *arg)
{
	struct oversize *o = arg;
	unsigned long part = o->gate && o->accesses > WAITING ? WAITING : o->accesses;

	for (unsigned long i = 0; i < o->accesses; i += part) {
		if (o->gate)
			bench_cu(cuStreamWaitValue32(stream, (CUdeviceptr)o->gate, *o->gate + 1,
						     CU_STREAM_WAIT_VALUE_EQ));
		submit_copies(o, part);
		if (o->gate)
			(*o->gate)++;
		bench_cu(cuStreamSynchronize(stream));
	}
}

static char device_size[64];

static bool set_size(const char *size)
{
	int fd = open(DEVICE "size", O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, size, strlen(size)) > 0;

	if (fd >= 0)
		close(fd);
	return done;
}

static void restore_size(void)
{
	if (device_size[0] && !set_size(device_size))
		fprintf(stderr, "gpumem-bench: %s: %s\n", DEVICE "size", strerror(errno));
	device_size[0] = 0;
}

/* The sum of a counter of all clients of this process.  @format: as of sscanf(), the line of fdinfo. */
static double counter(const char *format)
{
	unsigned long long sum = 0, n;

	for (int fd = 3; fd < 256; fd++) {
		char path[64], line[128];
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
		f = fopen(path, "re");
		while (f && fgets(line, sizeof(line), f))
			if (sscanf(line, format, &n) == 1)
				sum += n;
		if (f)
			fclose(f);
	}
	return sum;
}

#define BYTES_IN	"gpumem-managed-in: %llu"	/* in blocks that became resident */
#define BYTES_MOVED	"gpumem-managed-moved: %llu"	/* copied to another memory node */

/* What it costs to copy a byte between the device and pinned host memory. */
static double copied_byte(CUdeviceptr host)
{
	CUdeviceptr p = device(SMALL_DEVICE / 4);
	double ns[ROUNDS];

	for (int i = -1; i < ROUNDS; i++) {
		double t = bench_now(), lap;

		bench_cu(cuMemcpyDtoDAsync(p, host, SMALL_DEVICE / 4, stream));
		bench_cu(cuStreamSynchronize(stream));
		lap = bench_lap(&t);
		if (i >= 0)
			ns[i] = lap;
	}
	bench_cu(cuMemFree(p));
	return bench_median(ns, ROUNDS) / (SMALL_DEVICE / 4);
}

/* What a round of random copies took. */
struct round {
	double ours, host;
	double in, moved;		/* bytes */
};

static struct round random_round(struct oversize *ours, struct oversize *host)
{
	struct round r = { .in = -counter(BYTES_IN), .moved = -counter(BYTES_MOVED) };
	double t = bench_now();

	random_copies(host);
	r.host = bench_lap(&t);
	random_copies(ours);
	r.ours = bench_lap(&t);
	r.in += counter(BYTES_IN);
	r.moved += counter(BYTES_MOVED);
	return r;
}

/*
 * Copies of @bytes between random places of @ours, beside @host.  @how: part of the rows' names.  The bytes that moved
 * between nodes may cost what a copy of them does.  Few blocks move in a round, so the row is the mean of all rounds.
 * One slow round would decide a mean of wall time, so there it is the median of the rounds' ratios, beside the median
 * of the peer.
 */
static void random_row(const struct kind *k, const char *how, size_t bytes, struct oversize *ours,
		       struct oversize *host)
{
	const char *size = bench_size(bytes);
	const char *peer = bench_name("host_%s%s_%s", k->timed, how, size);
	unsigned long accesses = k->accesses > ROUND_BYTES / bytes ? k->accesses : ROUND_BYTES / bytes;
	double byte = copied_byte(host->p), ratio[ROUNDS], allowed[ROUNDS], result;
	struct round sum = { 0 };

	ours->bytes = host->bytes = bytes;
	ours->accesses = host->accesses = accesses;
	ours->state = host->state = 1;
	for (int i = -1; i < ROUNDS; i++) {
		struct round r = random_round(ours, host);

		if (i < 0)
			continue;
		allowed[i] = (r.host + r.moved * byte) / accesses;
		ratio[i] = r.ours / accesses / allowed[i];
		sum.ours += r.ours / ROUNDS / accesses;
		sum.host += r.host / ROUNDS / accesses;
		sum.in += r.in / ROUNDS / accesses;
		sum.moved += r.moved / ROUNDS / accesses;
	}
	result = sum.ours;
	if (k == &timed) {
		sum.host = bench_median(allowed, ROUNDS);
		result = bench_median(ratio, ROUNDS) * sum.host;
	}
	/* Blocks do not move where rows are timed. */
	bench_peer(peer, sum.host);
	if (sum.moved && k != &timed) {
		peer = bench_name("allowed_%s%s_%s", k->timed, how, size);
		bench_peer(peer, sum.host + sum.moved * byte);
	}
	bench_beside(bench_name("managed_%s%s_%s", k->timed, how, size), BENCH_ALLOC, result, peer,
		     1.3);
	/* Far fewer bytes come than are accessed; large copies fetch whole blocks. */
	peer = bench_name("bytes_of_%s%s_%s", k->timed, how, size);
	bench_peer(peer, 2.0 * bytes);
	bench_beside(bench_name("bytes_in_%s%s_%s", k->timed, how, size), BENCH_RATIO, sum.in, peer,
		     bytes < MIB ? 0.5 : 1.5);
}

static void random_access(const struct kind *k)
{
	static const size_t sizes[] = { 4 * KIB, 64 * KIB, MIB };
	struct oversize ours = { 0 }, host = { 0 };
	volatile uint32_t *gate;

	if (!text(DEVICE "size", device_size)[0] ||
	    !set_size(bench_name("%lu", SMALL_DEVICE))) {
		device_size[0] = 0;
		bench_skip(bench_name("managed_%srandom", k->timed),
			   "the device's size cannot be changed");
		return;
	}
	atexit(restore_size);
	ours.p = managed(OVERSIZE);
	bench_cu(cuMemAllocHost((void **)&host.p, OVERSIZE));
	bench_touch((void *)host.p, OVERSIZE);
	bench_touch((void *)ours.p, OVERSIZE);
	/* From now on each block is on the device, or has been there. */
	bench_cu(cuMemsetD8Async(ours.p, 0, OVERSIZE, stream));
	bench_cu(cuStreamSynchronize(stream));
	bench_cu(cuMemAllocHost((void **)&gate, sizeof(*gate)));
	*gate = 0;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		random_row(k, "random", sizes[i], &ours, &host);
	ours.gate = host.gate = gate;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		random_row(k, "busy", sizes[i], &ours, &host);
	bench_cu(cuMemFree(ours.p));
	bench_cu(cuMemFreeHost((void *)host.p));
	bench_cu(cuMemFreeHost((void *)gate));
	restore_size();
}

/* --- access to resident blocks, beside device memory */

struct access {
	CUdeviceptr dst, src;
	size_t bytes;
};

static void copy(void *arg)
{
	struct access *a = arg;

	bench_cu(cuMemcpyDtoDAsync(a->dst, a->src, a->bytes, stream));
	bench_cu(cuStreamSynchronize(stream));
}

static void fill(void *arg)
{
	struct access *a = arg;

	bench_cu(cuMemsetD8Async(a->dst, 7, a->bytes, stream));
	bench_cu(cuStreamSynchronize(stream));
}

/* Loads of the CPU at random addresses. */
static void loads(void *arg)
{
	struct access *a = arg;
	const volatile uint64_t *p = (const volatile uint64_t *)a->src;
	size_t words = a->bytes / sizeof(*p);
	unsigned long long state = 1;

	for (unsigned long i = 0; i < LOADS; i++)
		(void)p[random_number(&state) % words];
}

static void resident(const struct kind *k)
{
	static const size_t small[] = { 4 * KIB, 64 * KIB, MIB };
	static const struct {
		const char *name;
		void (*step)(void *arg);
	} row[] = { { "copy", copy }, { "fill", fill }, { "loads", loads } };
	struct access ours = { managed(k->access), managed(k->access), k->access };
	struct access theirs = { device(k->access), device(k->access), k->access };

	prefetch(ours.dst, k->access, to_device);
	prefetch(ours.src, k->access, to_device);
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		for (int s = 0; s < 4; s++) {
			size_t bytes = s < 3 ? small[s] : k->access;
			const char *size = bench_size(bytes);
			const char *peer = bench_name("device_%s%s_%s", k->timed, row[i].name,
						      size);
			double peer_ns, ns;

			/* Small ranges of loads are in the caches. */
			if (row[i].step == loads && s < 3)
				continue;
			ours.bytes = theirs.bytes = bytes;
			ns = bench_pairs(15, bytes < MIB ? 50 : 1, NULL, row[i].step, &ours,
					 row[i].step, &theirs, &peer_ns);
			bench_peer(peer, peer_ns);
			bench_beside(bench_name("managed_%s%s_%s", k->timed, row[i].name, size),
				     BENCH_ALLOC, ns, peer, 1.02);
		}
	}
	bench_cu(cuMemFree(ours.dst));
	bench_cu(cuMemFree(ours.src));
	bench_cu(cuMemFree(theirs.dst));
	bench_cu(cuMemFree(theirs.src));
}

static bool start(void)
{
	bench_cuda();
	if (!is_managed()) {
		bench_skip("managed", "the module refuses managed memory");
		return false;
	}
	bench_cu(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return true;
}

static void measure(const struct kind *k)
{
	if (!start())
		return;
	touch(k);
	prefetches(k);
	resident(k);
	random_access(k);
}

void bench_managed(void)
{
	measure(&counted);
}

void bench_managed_timed(void)
{
	measure(&timed);
}

/* Lets all threads of this process, and those that they make later, run on the processors of a set. */
static void processors(const cpu_set_t *set)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *e;

	while (dir && (e = readdir(dir)))
		if (e->d_name[0] != '.' && sched_setaffinity(atoi(e->d_name), sizeof(*set), set))
			bench_die("sched_setaffinity");
	if (dir)
		closedir(dir);
}

void bench_managed_nodes(void)
{
	cpu_set_t all, one;
	bool moves;

	if (sched_getaffinity(0, sizeof(all), &all))
		bench_die("sched_getaffinity");
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	/* The worker that copies for a prefetch, and the thread that calls move_pages(), use the same processor. */
	processors(&one);
	moves = start() && between_nodes();
	processors(&all);
	if (moves)
		random_access(&nodes);
}
