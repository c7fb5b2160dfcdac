// SPDX-License-Identifier: GPL-2.0
/*
 * Virtual memory management: reservations, handles, mappings and rights, in use.  t_oracle.sh has the answers to
 * single calls.
 *
 * The addresses of a reservation are never free for another mmap(), also when the kernel refuses a mapping.  The
 * cases look at /proc/self/maps for that.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include <gpumem.h>

#include "cuda_case_util.h"
#include "common/process.h"

#define G		(2 * MIB)
#define MAX_MAP_COUNT	"/proc/sys/vm/max_map_count"
#define POSIX_FD	CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

typedef CUmemGenericAllocationHandle handle_t;

NON_BLOCKING_FIXTURE(vmm)

static CUresult make_at(handle_t *h, CUmemLocationType type, int types, size_t n)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = types,
		.location = { .type = type },
	};

	return cuMemCreate(h, n, &prop, 0);
}

static CUresult make(handle_t *h, size_t n)
{
	return make_at(h, CU_MEM_LOCATION_TYPE_DEVICE, 0, n);
}

static CUresult give(CUdeviceptr d, size_t n, CUmemLocationType type, int rights)
{
	const CUmemAccessDesc desc = { .location = { .type = type }, .flags = rights };

	return cuMemSetAccess(d, n, &desc, 1);
}

static CUresult open_to_device(CUdeviceptr d, size_t n)
{
	return give(d, n, CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

/* Map a new handle of @n bytes at @d, with rights for the device, and release it. */
static CUresult put_memory(CUdeviceptr d, size_t n)
{
	CUresult result, released;
	handle_t h;

	result = make(&h, n);
	if (result)
		return result;
	result = cuMemMap(d, n, 0, h, 0);
	if (!result) {
		result = open_to_device(d, n);
		if (result)
			cuMemUnmap(d, n);
	}
	released = cuMemRelease(h);
	return result ? result : released;
}

/* Whether the process's mappings cover all of a range, without a hole. */
static bool no_hole(CUdeviceptr d, size_t n)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long long from, to, at = d;
	char line[512];

	while (f && at < d + n && fgets(line, sizeof(line), f))
		if (sscanf(line, "%llx-%llx", &from, &to) == 2 && from <= at && to > at)
			at = to;
	if (f)
		fclose(f);
	return at >= d + n;
}

static bool number_to(const char *path, int n)
{
	FILE *f = fopen(path, "we");
	bool good = f && fprintf(f, "%d", n) > 0;

	return f && !fclose(f) && good;
}

static int count_maps(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	int c, n = 0;

	while (f && (c = getc(f)) != EOF)
		n += c == '\n';
	if (f)
		fclose(f);
	return n;
}

static bool filled(CUdeviceptr d, unsigned char value, size_t n)
{
	unsigned char *host = malloc(n);
	bool same = host && !cuMemcpyDtoH(host, d, n);

	for (size_t i = 0; same && i < n; i++)
		same = host[i] == value;
	free(host);
	return same;
}

/* A buffer grows at its end, shrinks there, and keeps what it holds. */
TEST_F(vmm, grow_and_shrink)
{
	const unsigned int most = 48;
	CUdeviceptr d;

	ASSERT_CU(cuMemAddressReserve(&d, most * G, 0, 0, 0));
	for (unsigned int n = 0; n < most; n++) {
		ASSERT_CU(put_memory(d + n * G, G));
		ASSERT_CU(cuMemsetD8Async(d + n * G, n + 1, G, self->s));
	}
	ASSERT_CU(cuStreamSynchronize(self->s));
	for (unsigned int n = 0; n < most; n++)
		ASSERT_TRUE(filled(d + n * G, n + 1, G));
	/* One copy over half of the handles, to the other half. */
	ASSERT_CU(cuMemcpyDtoDAsync(d + most / 2 * G, d, most / 2 * G, self->s));
	ASSERT_CU(cuStreamSynchronize(self->s));
	for (unsigned int n = 0; n < most / 2; n++)
		ASSERT_TRUE(filled(d + (most / 2 + n) * G, n + 1, G));
	for (unsigned int n = most; n > 1; n--)
		ASSERT_CU(cuMemUnmap(d + (n - 1) * G, G));
	EXPECT_TRUE(filled(d, 1, G));
	EXPECT_TRUE(no_hole(d, most * G));
	EXPECT_EQ(INVALID, cuMemAddressFree(d, most * G));
	ASSERT_CU(cuMemUnmap(d, most * G));
	EXPECT_CU(cuMemAddressFree(d, most * G));
}

/* Memory lives until its references and its mappings are gone, and goes back to the device then. */
TEST_F(vmm, memory_returned)
{
	const size_t n = 16 * G;
	size_t before, now, total;
	handle_t h, again;
	CUdeviceptr d;

	ASSERT_CU(cuMemGetInfo(&before, &total));
	ASSERT_CU(make(&h, n));
	ASSERT_CU(cuMemGetInfo(&now, &total));
	EXPECT_LE(n, before - now);
	ASSERT_CU(cuMemAddressReserve(&d, 2 * n, 0, 0, 0));
	ASSERT_CU(cuMemMap(d, n, 0, h, 0));
	ASSERT_CU(cuMemMap(d + n, n, 0, h, 0));
	ASSERT_CU(cuMemRelease(h));
	EXPECT_EQ(INVALID, cuMemRelease(h));
	EXPECT_EQ(INVALID, cuMemMap(d, n, 0, h, 0));
	ASSERT_CU(cuMemUnmap(d, n));
	/* The other mapping still has the memory, and the same handle. */
	ASSERT_CU(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(d + n + 5)));
	EXPECT_EQ(h, again);
	ASSERT_CU(cuMemRelease(again));
	ASSERT_CU(cuMemGetInfo(&now, &total));
	EXPECT_LE(n, before - now);
	ASSERT_CU(cuMemUnmap(d + n, n));
	ASSERT_CU(cuMemGetInfo(&now, &total));
	EXPECT_GT(n, before - now);
	ASSERT_CU(cuMemAddressFree(d, 2 * n));
	/* The value is not given out again. */
	ASSERT_CU(make(&again, n));
	EXPECT_NE(h, again);
	EXPECT_EQ(INVALID, cuMemRelease(h));
	ASSERT_CU(cuMemGetInfo(&now, &total));
	EXPECT_LE(n, before - now);
	/* Memory that was never mapped. */
	ASSERT_CU(cuMemRelease(again));
	ASSERT_CU(cuMemGetInfo(&now, &total));
	EXPECT_GT(n, before - now);
	EXPECT_EQ(INVALID, cuMemRelease(again));
	EXPECT_EQ(INVALID, cuMemRelease(0x12345678));
	EXPECT_EQ(INVALID, cuMemRelease(~0ULL));
}

/* One handle at two addresses is one memory. */
TEST_F(vmm, two_addresses)
{
	CUdeviceptr a, b;
	handle_t h;

	ASSERT_CU(make(&h, 2 * G));
	ASSERT_CU(cuMemAddressReserve(&a, 2 * G, 0, 0, 0));
	ASSERT_CU(cuMemAddressReserve(&b, 2 * G, 1024 * MIB, 0, 0));
	EXPECT_EQ(0, b % (1024 * MIB));
	ASSERT_CU(cuMemMap(a, 2 * G, 0, h, 0));
	ASSERT_CU(cuMemMap(b, 2 * G, 0, h, 0));
	ASSERT_CU(open_to_device(a, 2 * G));
	ASSERT_CU(give(b, 2 * G, CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_ACCESS_FLAGS_PROT_READ));
	ASSERT_CU(cuMemsetD8(a, 0x5e, 2 * G));
	EXPECT_TRUE(filled(b, 0x5e, 2 * G));
	EXPECT_EQ(INVALID, cuMemsetD8(b, 1, 1));
	ASSERT_CU(cuMemUnmap(a, 2 * G));
	EXPECT_TRUE(filled(b, 0x5e, 2 * G));
	ASSERT_CU(cuMemUnmap(b, 2 * G));
	ASSERT_CU(cuMemRelease(h));
}

/* --- addresses stay reserved */

struct taker {
	pthread_t thread;
	CUdeviceptr base;
	size_t length;
	bool stop;
	unsigned int rounds, refused, inside, holes;
};

/*
 * Maps memory of the process's own again and again, wherever the kernel puts it, and asks the kernel whether the
 * range has a hole: msync() finds one by itself, and mmap() only if it likes the place of the hole best.
 */
static void *take_addresses(void *arg)
{
	struct taker *t = arg;

	while (!__atomic_load_n(&t->stop, __ATOMIC_RELAXED)) {
		CUdeviceptr p = (uintptr_t)mmap(NULL, G, PROT_READ | PROT_WRITE,
						MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		t->rounds++;
		if (p == (uintptr_t)MAP_FAILED) {
			t->refused++;
		} else {
			t->inside += p + G > t->base && p < t->base + t->length;
			munmap((void *)(uintptr_t)p, G);
		}
		for (unsigned int i = 0; i < 32; i++)
			t->holes += msync((void *)(uintptr_t)t->base, t->length, MS_ASYNC) != 0;
	}
	return NULL;
}

static bool taker_start(struct taker *t, CUdeviceptr base, size_t length)
{
	t->base = base;
	t->length = length;
	return !pthread_create(&t->thread, NULL, take_addresses, t);
}

static void taker_end(struct taker *t)
{
	__atomic_store_n(&t->stop, true, __ATOMIC_RELAXED);
	pthread_join(t->thread, NULL);
}

struct pieces {
	CUdeviceptr d;
	handle_t h;			/* of G bytes of host memory, which the CPU reaches in strict mode, too */
	unsigned int most;		/* pieces, with a hole behind each, so that each needs two more mappings */
};

static CUresult piece_open(const struct pieces *p, unsigned int n)
{
	const CUmemAccessDesc both[2] = {
		{ { .type = CU_MEM_LOCATION_TYPE_DEVICE }, CU_MEM_ACCESS_FLAGS_PROT_READWRITE },
		{ { .type = CU_MEM_LOCATION_TYPE_HOST }, CU_MEM_ACCESS_FLAGS_PROT_READWRITE },
	};

	return cuMemSetAccess(p->d + 2 * n * G, G, both, 2);
}

static CUresult piece_put(const struct pieces *p, unsigned int n)
{
	CUresult result = cuMemMap(p->d + 2 * n * G, G, 0, p->h, 0);

	return result ? result : piece_open(p, n);
}

/*
 * Take pieces out and put them in, more than there is room for, until the thread has made some mappings of its own.
 * Returns how many calls were refused, or -1 for an error.
 */
static int pieces_renew(const struct pieces *p, const struct taker *t)
{
	unsigned int until = __atomic_load_n(&t->rounds, __ATOMIC_RELAXED) + 50;
	int refused = 0;

	for (unsigned int i = 0; i < p->most || (int)(__atomic_load_n(&t->rounds, __ATOMIC_RELAXED) - until) < 0; i++) {
		unsigned int n = i * 37 % p->most;
		CUresult result = cuMemUnmap(p->d + 2 * n * G, G);

		if (!result)
			result = piece_put(p, n);
		if (result && result != CUDA_ERROR_OUT_OF_MEMORY)
			return -1;
		refused += result == CUDA_ERROR_OUT_OF_MEMORY;
	}
	return refused;
}

/* A process's first copies between mapped memory and its own work when the device is full. */
TEST_F(vmm, full_device_copies)
{
	unsigned char *bytes = malloc(MIB);
	CUdeviceptr d, rest;
	size_t n = 256 * MIB;

	ASSERT_NE(NULL, bytes);
	ASSERT_CU(cuMemAddressReserve(&d, G, 0, 0, 0));
	ASSERT_CU(put_memory(d, G));
	while (n >= 4 * KIB)
		if (cuMemAlloc(&rest, n))
			n /= 2;
	memset(bytes, 7, MIB);
	EXPECT_CU(cuMemcpyHtoDAsync(d, bytes, MIB, self->s));
	EXPECT_CU(cuStreamSynchronize(self->s));
	memset(bytes, 8, MIB);
	EXPECT_CU(cuMemcpyDtoH(bytes, d, MIB));
	EXPECT_TRUE(all_are(bytes, 7, MIB));
	free(bytes);
}

/*
 * The kernel refuses mappings when the process has vm.max_map_count of them.  The call that is refused changes
 * nothing, and no address of the reservation is lost, while another thread takes what addresses it can get.
 */
TEST_F(vmm, too_many_mappings)
{
	struct pieces p = { .most = 400 };
	const size_t length = 2 * p.most * G;
	int before = number_of(MAX_MAP_COUNT, ""), refused;
	CUmemLocation here = { .type = CU_MEM_LOCATION_TYPE_DEVICE };
	CUresult result = CUDA_SUCCESS, unmaps = CUDA_SUCCESS;
	unsigned int n, reached = 0;
	unsigned long long rights;
	struct taker t = { 0 };

	if (before <= 0 || (access("/run/vm", F_OK) && !getenv("GPUMEM_SYSTEM")))
		SKIP(return, "vm.max_map_count cannot be set");
	ASSERT_CU(make_at(&p.h, CU_MEM_LOCATION_TYPE_HOST, 0, G));
	ASSERT_CU(cuMemAddressReserve(&p.d, length, 0, 0, 0));
	ASSERT_TRUE(taker_start(&t, p.d, length));
	ASSERT_TRUE(number_to(MAX_MAP_COUNT, count_maps() + p.most / 2));
	for (n = 0; n < p.most && !result; n++)
		result = piece_put(&p, n);
	rights = 77;
	if (cuMemGetAccess(&rights, &here, p.d + 2 * (n - 1) * G))
		rights = 78;
	refused = pieces_renew(&p, &t);
	/* Far above the limit the kernel refuses even a mapping that replaces another. */
	number_to(MAX_MAP_COUNT, 20);
	for (unsigned int i = 0; i < p.most; i += 2) {
		unmaps |= cuMemUnmap(p.d + 2 * i * G, G);
		reached += !faults_with(cpu(p.d + 2 * i * G), false, SIGSEGV);
	}
	number_to(MAX_MAP_COUNT, before);
	taker_end(&t);
	TH_LOG("%u mappings, then %d; %d refused later; %u other mappings, %u of them refused", n, result, refused,
	       t.rounds, t.refused);
	EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, result);
	EXPECT_GT(p.most, n);
	EXPECT_LT(0, refused);
	EXPECT_CU(unmaps);
	EXPECT_EQ(0, reached);
	EXPECT_EQ(0, t.inside);
	EXPECT_EQ(0, t.holes);
	EXPECT_TRUE(no_hole(p.d, length));
	/* The last mapping was there, without rights. */
	EXPECT_EQ(0, rights);
	/* Now there is room for it. */
	ASSERT_CU(cuMemUnmap(p.d, length));
	for (unsigned int i = 0; i < n; i++)
		ASSERT_CU(piece_put(&p, i));
	EXPECT_CU(cuMemsetD8(p.d + 2 * (n - 1) * G, 1, G));
	ASSERT_CU(cuMemUnmap(p.d, length));
	EXPECT_TRUE(no_hole(p.d, length));
	ASSERT_CU(cuMemRelease(p.h));
	ASSERT_CU(cuMemAddressFree(p.d, length));
}

/*
 * The library may keep addresses apart from their neighbours that the CPU reached, so that the kernel need not split
 * and merge mappings.  When the reservation is freed the process has as many mappings as before it.
 */
TEST_F(vmm, mappings_of_the_process)
{
	const unsigned int pieces = 40;
	int before = 0, peak = 0;
	CUdeviceptr d;

	/* The first round makes what the library keeps. */
	for (int round = 0; round < 2; round++) {
		before = count_maps();
		ASSERT_CU(cuMemAddressReserve(&d, 2 * pieces * G, 0, 0, 0));
		for (unsigned int n = 0; n < pieces; n++)
			ASSERT_CU(put_memory(d + 2 * n * G, G));
		peak = count_maps();
		for (unsigned int n = 0; n < pieces; n++) {
			ASSERT_CU(cuMemUnmap(d + 2 * n * G, G));
			EXPECT_GE(peak, count_maps());
		}
		ASSERT_CU(cuMemAddressFree(d, 2 * pieces * G));
	}
	EXPECT_EQ(before, count_maps());
}

/* An import has the location of the memory, and neither the handle types nor the flags of the maker's handle. */
TEST_F(vmm, location_of_an_import)
{
	static const CUmemLocationType types[] = {
		CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_LOCATION_TYPE_HOST_NUMA,
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(types); i++) {
		CUmemAllocationProp prop;
		handle_t h, imported;
		int fd;

		ASSERT_CU(make_at(&h, types[i], POSIX_FD, G));
		ASSERT_CU(cuMemExportToShareableHandle(&fd, h, POSIX_FD, 0));
		ASSERT_CU(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd, POSIX_FD));
		close(fd);
		ASSERT_CU(cuMemGetAllocationPropertiesFromHandle(&prop, imported));
		EXPECT_EQ(types[i], prop.location.type);
		EXPECT_EQ(0, prop.location.id);
		EXPECT_EQ(0, (int)prop.requestedHandleTypes);
		EXPECT_CU(cuMemRelease(imported));
		EXPECT_CU(cuMemRelease(h));
	}
}

/* --- threads */

/* While memory comes and goes in a reservation, no other mmap() gets an address of it. */
TEST_F(vmm, never_a_hole)
{
	const size_t length = 16 * G;
	struct taker t = { 0 };
	CUdeviceptr d;
	handle_t h;

	ASSERT_CU(make(&h, G));
	ASSERT_CU(cuMemAddressReserve(&d, length, 0, 0, 0));
	ASSERT_TRUE(taker_start(&t, d, length));
	for (unsigned int i = 0; i < 400 || __atomic_load_n(&t.rounds, __ATOMIC_RELAXED) < 50; i++) {
		ASSERT_CU(cuMemMap(d + i % 16 * G, G, 0, h, 0));
		ASSERT_CU(open_to_device(d + i % 16 * G, G));
		ASSERT_CU(cuMemUnmap(d, length));
	}
	taker_end(&t);
	TH_LOG("%u other mappings", t.rounds);
	EXPECT_EQ(0, t.inside);
	EXPECT_EQ(0, t.holes);
	ASSERT_CU(cuMemRelease(h));
	ASSERT_CU(cuMemAddressFree(d, length));
}

struct copier {
	pthread_t thread;
	CUdeviceptr d;
	bool stop;
	unsigned int good, refused, ended;	/* atomic; @ended: contexts that an error has ended */
	int failed;
};

/* Copies in a context of its own.  Work that was queued before the memory went ends that context; make the next. */
static void *copy_there(void *arg)
{
	unsigned char *host = calloc(1, G);
	struct copier *w = arg;
	CUcontext ctx;
	CUresult result;

	WORKER_CHECK(!cuCtxCreate(&ctx, NULL, 0, 0));
	while (!__atomic_load_n(&w->stop, __ATOMIC_RELAXED)) {
		result = cuMemcpyHtoD(w->d, host, 64 * KIB);
		if (!result) {
			__atomic_fetch_add(&w->good, 1, __ATOMIC_RELAXED);
		} else if (result == INVALID) {
			__atomic_fetch_add(&w->refused, 1, __ATOMIC_RELAXED);
		} else {
			WORKER_CHECK(result == CUDA_ERROR_ILLEGAL_ADDRESS || result == CUDA_ERROR_LAUNCH_FAILED);
			cuCtxDestroy(ctx);
			WORKER_CHECK(!cuCtxCreate(&ctx, NULL, 0, 0));
			__atomic_fetch_add(&w->ended, 1, __ATOMIC_RELAXED);
		}
	}
	WORKER_CHECK(!cuCtxDestroy(ctx));
	free(host);
	return NULL;
}

/* Wait until a counter of the thread has risen. */
static bool rises(const unsigned int *counter)
{
	unsigned int before = __atomic_load_n(counter, __ATOMIC_RELAXED);

	for (int ms = 0; ms < 20000; ms++) {
		if (__atomic_load_n(counter, __ATOMIC_RELAXED) != before)
			return true;
		nap_ms(1);
	}
	return false;
}

/*
 * A copy that races with an unmap succeeds, is refused, or ends the context as on a device; never the process.
 * Every tenth round lets a copy succeed before the unmap, and lets one be refused behind it.
 */
TEST_F(vmm, copies_beside_unmap)
{
	struct copier c = { 0 };
	unsigned int waits = 0;
	handle_t h;

	ASSERT_CU(make(&h, G));
	ASSERT_CU(cuMemAddressReserve(&c.d, G, 0, 0, 0));
	ASSERT_EQ(0, pthread_create(&c.thread, NULL, copy_there, &c));
	for (unsigned int i = 0; i < 300; i++) {
		ASSERT_CU(cuMemMap(c.d, G, 0, h, 0));
		ASSERT_CU(open_to_device(c.d, G));
		if (i % 10 == 0) {
			ASSERT_TRUE(rises(&c.good));
		} else if (i % 3 == 0) {
			sched_yield();
		}
		ASSERT_CU(cuMemUnmap(c.d, G));
		if (i % 10 == 0) {
			ASSERT_TRUE(rises(&c.refused));
			waits++;
		}
	}
	__atomic_store_n(&c.stop, true, __ATOMIC_RELAXED);
	pthread_join(c.thread, NULL);
	TH_LOG("%u copies, %u refused, %u contexts ended", c.good, c.refused, c.ended);
	EXPECT_EQ(0, c.failed);
	EXPECT_LE(waits, c.good);
	EXPECT_LE(waits, c.refused);
	EXPECT_CU(cuMemRelease(h));
	EXPECT_CU(cuMemAddressFree(c.d, G));
}

struct mapper {
	pthread_t thread;
	CUdeviceptr d;
	handle_t h;
	unsigned int maps, occupied;
	int failed;
};

static void *map_there(void *arg)
{
	struct mapper *w = arg;

	for (unsigned int i = 0; i < 500; i++) {
		CUresult result = cuMemMap(w->d, G, 0, w->h, 0);

		w->maps += !result;
		w->occupied += result == INVALID;
		WORKER_CHECK(!result || result == INVALID);
		if (!result)
			WORKER_CHECK(cuMemUnmap(w->d, G) == CUDA_SUCCESS);
	}
	return NULL;
}

/* Threads that map at the same address: one has it at a time, and every mapping is taken out again. */
TEST_F(vmm, one_address_for_all)
{
	struct mapper m[3] = { 0 };
	CUdeviceptr d;
	handle_t h;

	ASSERT_CU(make(&h, G));
	ASSERT_CU(cuMemAddressReserve(&d, G, 0, 0, 0));
	for (int i = 0; i < 3; i++) {
		m[i] = (struct mapper){ .d = d, .h = h };
		ASSERT_EQ(0, pthread_create(&m[i].thread, NULL, map_there, &m[i]));
	}
	for (int i = 0; i < 3; i++) {
		pthread_join(m[i].thread, NULL);
		EXPECT_EQ(0, m[i].failed);
		TH_LOG("%u mappings, occupied %u times", m[i].maps, m[i].occupied);
	}
	EXPECT_CU(cuMemUnmap(d, G));
	EXPECT_CU(cuMemAddressFree(d, G));
	EXPECT_CU(cuMemRelease(h));
}

/* --- rights of the CPU */

static void on_fault(int sig)
{
	(void)sig;
	_exit(77);
}

/* 0: a child could read (or write) the byte; 77: it faulted.  Memory of devices is not in a child. */
static int child_access(CUdeviceptr d, bool write)
{
	pid_t pid = fork();

	if (!pid) {
		signal(SIGSEGV, on_fault);
		signal(SIGBUS, on_fault);
		if (write)
			*(volatile unsigned char *)(uintptr_t)d = 1;
		else
			(void)*(volatile unsigned char *)(uintptr_t)d;
		_exit(0);
	}
	return end_child(pid);
}

TEST_F(vmm, rights_of_the_cpu)
{
	const int rw = CU_MEM_ACCESS_FLAGS_PROT_READWRITE, ro = CU_MEM_ACCESS_FLAGS_PROT_READ, no = 0;
	unsigned long long rights;
	CUmemLocation host = { .type = CU_MEM_LOCATION_TYPE_HOST_NUMA };
	CUdeviceptr d;
	handle_t h;

	ASSERT_CU(make_at(&h, CU_MEM_LOCATION_TYPE_HOST, 0, G));
	ASSERT_CU(cuMemAddressReserve(&d, 2 * G, 0, 0, 0));
	EXPECT_EQ(77, child_access(d, false));
	ASSERT_CU(cuMemMap(d, G, 0, h, 0));
	EXPECT_EQ(77, child_access(d, false));
	/* The device's right is the CPU's, too, unless strict mode keeps them apart. */
	ASSERT_CU(give(d, G, CU_MEM_LOCATION_TYPE_DEVICE, ro));
	EXPECT_EQ(strict() ? 77 : 0, child_access(d, false));
	EXPECT_EQ(77, child_access(d, true));
	ASSERT_CU(give(d, G, CU_MEM_LOCATION_TYPE_HOST, rw));
	EXPECT_EQ(0, child_access(d, true));
	ASSERT_CU(cuMemGetAccess(&rights, &host, d));
	EXPECT_EQ(rw, rights);
	ASSERT_CU(give(d, G, CU_MEM_LOCATION_TYPE_HOST, ro));
	EXPECT_EQ(0, child_access(d, false));
	EXPECT_EQ(77, child_access(d, true));
	ASSERT_CU(give(d, G, CU_MEM_LOCATION_TYPE_HOST, no));
	EXPECT_EQ(strict() ? 77 : 0, child_access(d, false));
	ASSERT_CU(give(d, G, CU_MEM_LOCATION_TYPE_DEVICE, no));
	EXPECT_EQ(77, child_access(d, false));
	EXPECT_TRUE(no_hole(d, 2 * G));
	/* Only the CPU has a right: copies are the CPU's, and fills, which are the device's, are refused. */
	ASSERT_CU(give(d, G, CU_MEM_LOCATION_TYPE_HOST, rw));
	EXPECT_CU(cuMemcpyHtoD(d, "text", 5));
	EXPECT_EQ(0, strcmp((const char *)(uintptr_t)d, "text"));
	EXPECT_EQ(INVALID, cuMemsetD8(d, 1, 16));
	ASSERT_CU(cuMemUnmap(d, G));
	EXPECT_EQ(77, child_access(d, false));
	ASSERT_CU(cuMemRelease(h));
	/* No location of the host gets a right in memory of a device. */
	ASSERT_CU(put_memory(d, G));
	EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, give(d, G, CU_MEM_LOCATION_TYPE_HOST, rw));
	EXPECT_EQ(77, child_access(d, false));
	ASSERT_CU(cuMemUnmap(d, G));
}

/* --- other processes */

/* The other process of shared(): imports what it gets twice, and writes. */
static int importer(int sock)
{
	int fd = recv_fd(sock);
	CUmemAllocationProp prop;
	unsigned char byte = 0;
	handle_t h[2];
	CUcontext ctx;
	CUdeviceptr d;

	if (fd < 0 || cuda_start(&ctx) ||
	    cuMemImportFromShareableHandle(&h[0], (void *)(intptr_t)fd, POSIX_FD) ||
	    cuMemImportFromShareableHandle(&h[1], (void *)(intptr_t)fd, POSIX_FD) || h[0] == h[1])
		return 1;
	close(fd);
	if (cuMemGetAllocationPropertiesFromHandle(&prop, h[1]) ||
	    prop.location.type != CU_MEM_LOCATION_TYPE_DEVICE || prop.requestedHandleTypes ||
	    cuMemExportToShareableHandle(&fd, h[0], POSIX_FD, 0) != INVALID)
		return 2;
	if (cuMemAddressReserve(&d, 2 * G, 0, 0, 0) || cuMemMap(d, 2 * G, 0, h[0], 0) ||
	    open_to_device(d, 2 * G) || cuMemRelease(h[0]) || cuMemRelease(h[1]))
		return 3;
	/* The exporter ends; its memory stays. */
	if (write(sock, "!", 1) != 1 || read(sock, &byte, 1) != 1 || !filled(d, 0x77, 2 * G) ||
	    cuMemsetD8(d, 1, 2 * G) || cuCtxSynchronize() || cuMemUnmap(d, 2 * G))
		return 4;
	return 0;
}

static int exporter(int sock)
{
	unsigned char byte;
	CUcontext ctx;
	CUdeviceptr d;
	handle_t h;
	int fd = -1;

	if (cuda_start(&ctx) || make_at(&h, CU_MEM_LOCATION_TYPE_DEVICE, POSIX_FD, 2 * G) ||
	    cuMemAddressReserve(&d, 2 * G, 0, 0, 0) || cuMemMap(d, 2 * G, 0, h, 0) ||
	    open_to_device(d, 2 * G) || cuMemsetD8(d, 0x77, 2 * G) || cuCtxSynchronize() ||
	    cuMemExportToShareableHandle(&fd, h, POSIX_FD, 0) || send_fd(sock, fd) ||
	    read(sock, &byte, 1) != 1)
		return 1;
	kill(getpid(), SIGKILL);
	return 2;
}

/* One DMA-buf of three mappings; it keeps the memory when the mappings and the handles are gone. */
TEST_F(vmm, dmabuf_over_mappings)
{
	const CUmemRangeHandleType type = CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
	const CUmemAccessDesc none = { .location.type = CU_MEM_LOCATION_TYPE_DEVICE };
	CUdeviceptr d, block, p;
	size_t bytes;
	int fd = -1;

	ASSERT_CU(cuMemAddressReserve(&d, 4 * G, 0, 0, 0));
	for (int i = 0; i < 3; i++) {
		ASSERT_CU(put_memory(d + i * G, G));
		ASSERT_CU(cuMemsetD8(d + i * G, 11 + i, G));
	}
	ASSERT_CU(cuCtxSynchronize());
	/* The reservation's last piece is a hole. */
	EXPECT_EQ(INVALID, cuMemGetHandleForAddressRange(&fd, d, 4 * G, type, 0));
	EXPECT_EQ(INVALID, cuMemGetHandleForAddressRange(&fd, d + 3 * G, G, type, 0));
	/* Memory of another kind may lie behind, and is no part of the range. */
	ASSERT_CU(cuMemAlloc(&block, G));
	if (block > d)
		EXPECT_EQ(INVALID, cuMemGetHandleForAddressRange(&fd, d, block - d + 4096, type, 0));
	ASSERT_CU(cuMemFree(block));
	ASSERT_CU(cuMemGetHandleForAddressRange(&fd, d + G / 2, 2 * G, type, 0));
	EXPECT_EQ((off_t)(2 * G), lseek(fd, 0, SEEK_END));
	EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD) & FD_CLOEXEC);
	/* Whoever has the DMA-buf needs no right to the mappings, and no mappings. */
	ASSERT_CU(cuMemSetAccess(d, 3 * G, &none, 1));
	EXPECT_NE(CUDA_SUCCESS, cuMemsetD8(d, 1, G));
	ASSERT_CU(gpumem_import_dmabuf(&p, &bytes, fd, 0));
	EXPECT_EQ(true, filled(p + G / 2, 12, G));
	ASSERT_CU(gpumem_release_dmabuf(p));
	ASSERT_CU(cuMemUnmap(d, 3 * G));
	ASSERT_CU(cuMemAddressFree(d, 4 * G));
	ASSERT_CU(gpumem_import_dmabuf(&p, &bytes, fd, 0));
	EXPECT_EQ(2 * G, bytes);
	EXPECT_EQ(true, filled(p, 11, G / 2));
	EXPECT_EQ(true, filled(p + G / 2, 12, G));
	EXPECT_EQ(true, filled(p + G + G / 2, 13, G / 2));
	ASSERT_CU(cuMemsetD8(p + G / 4, 99, G));
	EXPECT_EQ(true, filled(p + G / 4, 99, G));
	EXPECT_EQ(true, filled(p + G / 4 + G, 12, G / 4));
	ASSERT_CU(gpumem_release_dmabuf(p));
	close(fd);
}

QUIET_FIXTURE(vmm_shared)

/* A process that imported memory keeps it when the exporter is killed. */
TEST_F(vmm_shared, exporter_killed)
{
	pid_t imports, exports;
	int sock[2];

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	imports = fork();
	ASSERT_LE(0, imports);
	if (!imports)
		_exit(importer(sock[0]));
	exports = fork();
	ASSERT_LE(0, exports);
	if (!exports)
		_exit(exporter(sock[1]));
	EXPECT_EQ(-SIGKILL, end_child(exports));
	EXPECT_EQ(1, write(sock[1], "!", 1));
	close(sock[0]);
	close(sock[1]);
	EXPECT_EQ(0, end_child(imports));
}

TEST_HARNESS_MAIN
