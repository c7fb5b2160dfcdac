// SPDX-License-Identifier: GPL-2.0
/*
 * The cost of a call while many objects, devices, processes or threads exist.  The peer of a row is
 * the same call with one of them.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include <linux/gpumem.h>

#include "bench.h"

#define BAR	1.2
/* An allocation looks for room in a block that is nearly full, and in a tree of blocks. */
#define BAR_SEARCH	1.5

/* ---- many objects */

static CUstream stream;
static char *pages;		/* for registrations, a page each */

/* The name of an object: a pointer, an address, or a handle. */
union object {
	CUdeviceptr ptr;
	void *host;
	CUevent event;
	CUarray array;
	CUmemoryPool pool;
	CUstream stream;
};

static CUresult mem_make(union object *o, unsigned int i)
{
	(void)i;
	return cuMemAlloc(&o->ptr, 512);
}

static CUresult mem_end(union object *o)
{
	return cuMemFree(o->ptr);
}

static CUresult pool_block_make(union object *o, unsigned int i)
{
	(void)i;
	return cuMemAllocAsync(&o->ptr, 512, stream);
}

static CUresult pool_block_end(union object *o)
{
	return cuMemFreeAsync(o->ptr, stream);
}

static CUresult managed_make(union object *o, unsigned int i)
{
	(void)i;
	return cuMemAllocManaged(&o->ptr, 512, CU_MEM_ATTACH_GLOBAL);
}

static CUresult host_make(union object *o, unsigned int i)
{
	(void)i;
	return cuMemHostAlloc(&o->host, 512, 0);
}

static CUresult host_end(union object *o)
{
	return cuMemFreeHost(o->host);
}

static CUresult registered_make(union object *o, unsigned int i)
{
	o->host = pages + i * 2 * 4 * KIB;
	return cuMemHostRegister(o->host, 4 * KIB, 0);
}

static CUresult registered_end(union object *o)
{
	return cuMemHostUnregister(o->host);
}

static CUresult event_make(union object *o, unsigned int i)
{
	(void)i;
	return cuEventCreate(&o->event, CU_EVENT_DISABLE_TIMING);
}

static CUresult event_end(union object *o)
{
	return cuEventDestroy(o->event);
}

static CUresult array_make(union object *o, unsigned int i)
{
	const CUDA_ARRAY_DESCRIPTOR desc = {
		.Width = 16, .Height = 4, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1,
	};

	(void)i;
	return cuArrayCreate(&o->array, &desc);
}

static CUresult array_end(union object *o)
{
	return cuArrayDestroy(o->array);
}

static CUresult pool_make(union object *o, unsigned int i)
{
	const CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
	};

	(void)i;
	return cuMemPoolCreate(&o->pool, &props);
}

static CUresult pool_end(union object *o)
{
	return cuMemPoolDestroy(o->pool);
}

static CUresult stream_make(union object *o, unsigned int i)
{
	(void)i;
	return cuStreamCreate(&o->stream, CU_STREAM_NON_BLOCKING);
}

static CUresult stream_end(union object *o)
{
	return cuStreamDestroy(o->stream);
}

struct kind {
	const char *name;
	CUresult (*make)(union object *o, unsigned int i);
	CUresult (*end)(union object *o);
	unsigned int most;
	double bar;
};

static const struct kind kinds[] = {
	{ "mem", mem_make, mem_end, 100000, BAR_SEARCH },
	{ "pool_block", pool_block_make, pool_block_end, 100000, BAR },
	{ "managed", managed_make, mem_end, 100000, BAR_SEARCH },
	{ "host", host_make, host_end, 100000, BAR_SEARCH },
	{ "event", event_make, event_end, 100000, BAR },
	{ "registered", registered_make, registered_end, 10000, BAR_SEARCH },
	{ "array", array_make, array_end, 1000, BAR_SEARCH },
	{ "stream", stream_make, stream_end, 1000, BAR },
	{ "pool", pool_make, pool_end, 1000, BAR },
};

struct live {
	const struct kind *kind;
	unsigned int number;		/* of the next object */
};

static void pair(void *arg)
{
	struct live *l = arg;
	union object o;

	bench_cu(l->kind->make(&o, l->number));
	bench_cu(l->kind->end(&o));
}

static const char *beside(const struct kind *kind, unsigned int count)
{
	return bench_name("%s_pair_beside_%u", kind->name, count);
}

/*
 * Measure with 1 live object, with @some, ten times as many, ... up to @most; the first row is the
 * peer.
 */
static void measure(const struct kind *kind, unsigned int some, unsigned int most)
{
	union object *objects = calloc(most, sizeof(*objects));
	struct live l = { .kind = kind };
	unsigned int count = 1;

	if (!objects)
		bench_die("calloc");
	for (;;) {
		double ns;

		for (; l.number < count; l.number++)
			bench_cu(kind->make(&objects[l.number], l.number));
		ns = bench_calls(9, 50, pair, &l);
		if (count == 1)
			bench_peer(beside(kind, 1), ns);
		else
			bench_beside(beside(kind, count), BENCH_RATIO, ns, beside(kind, 1), kind->bar);
		if (count >= most)
			break;
		count = count == 1 ? some : count * 10;
		if (count > most)
			count = most;
	}
	while (l.number--)
		bench_cu(kind->end(&objects[l.number]));
	free(objects);
}

void bench_live(void)
{
	const size_t bytes = 10001 * 2 * 4 * KIB;

	bench_cuda();
	bench_cu(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED)
		bench_die("mmap");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		measure(&kinds[i], kinds[i].most < 1000 ? kinds[i].most : 1000, kinds[i].most);
	munmap(pages, bytes);
}

void bench_live_million(void)
{
	bench_cuda();
	bench_cu(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	measure(&kinds[0], 1000000, 1000000);
	measure(&kinds[1], 1000000, 1000000);
}

/* ---- several devices */

/* Legacy stream, allocation, pointer lookup: calls that might look at every device. */
static void one_of_each(void *arg)
{
	CUdeviceptr p;
	int type;

	(void)arg;
	bench_cu(cuMemAlloc(&p, 4096));
	bench_cu(cuMemsetD8(p, 1, 64));
	bench_cu(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
	bench_cu(cuMemFree(p));
}

static double with_devices(unsigned int count)
{
	char list[64] = "0";
	double ns = 0;
	int fds[2], number;
	pid_t child;

	for (unsigned int i = 1; i < count; i++)
		sprintf(list + strlen(list), ",%u", i);
	if (pipe(fds))
		bench_die("pipe");
	child = fork();
	if (!child) {
		setenv("CUDA_VISIBLE_DEVICES", list, 1);
		bench_cuda();
		if (cuDeviceGetCount(&number) || (unsigned int)number != count)
			bench_die("cuDeviceGetCount: load the module with devices=16");
		ns = bench_calls(15, 200, one_of_each, NULL);
		_exit(write(fds[1], &ns, sizeof(ns)) != sizeof(ns));
	}
	close(fds[1]);
	if (child < 0 || read(fds[0], &ns, sizeof(ns)) != sizeof(ns))
		bench_die("a process with several devices");
	close(fds[0]);
	waitpid(child, NULL, 0);
	return ns;
}

void bench_devices(void)
{
	bench_peer("calls_with_1_device", with_devices(1));
	bench_beside("calls_with_2_devices", BENCH_RATIO, with_devices(2), "calls_with_1_device", BAR);
	bench_beside("calls_with_16_devices", BENCH_RATIO, with_devices(16), "calls_with_1_device",
		     BAR);
}

/* ---- many processes */

#define CLIENTS	1000

static void open_close(void *arg)
{
	struct gpumem_vm_create create = { .size = sizeof(create) };
	int fd = bench_open();

	(void)arg;
	bench_ioctl(fd, GPUMEM_VM_CREATE, &create, "GPUMEM_VM_CREATE");
	close(fd);
}

static double slab_kib(void)
{
	char line[128];
	double kib = 0;
	FILE *f = fopen("/proc/meminfo", "re");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Slab: %lf", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib;
}

/*
 * Start processes that wait, each with a client if @client. Returns the bytes that a process adds
 * to Slab of /proc/meminfo.
 */
static double crowd(pid_t *pids, bool client)
{
	double before = slab_kib();
	int ready[2];
	char c;

	if (pipe(ready))
		bench_die("pipe");
	for (int i = 0; i < CLIENTS; i++) {
		pids[i] = fork();
		if (!pids[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (client)
				bench_cuda();
			if (write(ready[1], "", 1) != 1)
				_exit(1);
			pause();
			_exit(0);
		}
		if (pids[i] < 0)
			bench_die("fork");
	}
	close(ready[1]);
	for (int i = 0; i < CLIENTS; i++)
		if (read(ready[0], &c, 1) != 1)
			bench_die("a process with a client");
	close(ready[0]);
	return (slab_kib() - before) * 1024 / CLIENTS;
}

static void disperse(const pid_t *pids)
{
	for (int i = 0; i < CLIENTS; i++)
		kill(pids[i], SIGKILL);
	for (int i = 0; i < CLIENTS; i++)
		waitpid(pids[i], NULL, 0);
}

/*
 * Opening and closing a client beside 1,000 processes, with and without clients of their own. The
 * last two rows are bytes of kernel memory, not nanoseconds: of a process, and of a process with a
 * client.
 */
void bench_clients(void)
{
	static pid_t pids[CLIENTS];
	double alone, among, bytes, with;

	bytes = crowd(pids, false);
	alone = bench_calls(15, 50, open_close, NULL);
	disperse(pids);
	sleep(2);
	with = crowd(pids, true);
	among = bench_calls(15, 50, open_close, NULL);
	disperse(pids);
	bench_peer("open_close_beside_processes", alone);
	bench_beside("open_close_beside_1000_clients", BENCH_RATIO, among,
		     "open_close_beside_processes", BAR);
	bench_peer("slab_bytes_of_a_process", bytes);
	bench_beside("slab_bytes_of_a_client", BENCH_RATIO, with, "slab_bytes_of_a_process", 0);
}

/* ---- threads of one context */

#define THREADS	16
#define OPS	20000

static CUcontext context;
static pthread_barrier_t barrier;

/* A thread's own stream and memory: threads need not share any state. */
static void *worker(void *arg)
{
	CUstream own;
	CUevent event;
	CUdeviceptr p;

	(void)arg;
	bench_cu(cuCtxSetCurrent(context));
	bench_cu(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
	bench_cu(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	bench_cu(cuMemAlloc(&p, 4096));
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < OPS; i++) {
		bench_cu(cuMemsetD8Async(p, 1, 64, own));
		bench_cu(cuEventRecord(event, own));
		bench_cu(cuEventQuery(event));
	}
	pthread_barrier_wait(&barrier);
	bench_cu(cuMemFree(p));
	bench_cu(cuEventDestroy(event));
	bench_cu(cuStreamDestroy(own));
	return NULL;
}

/* Processor time for one round of calls. */
static double with_threads(unsigned int count)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned int side = count < cpus ? count : cpus;
	pthread_t threads[THREADS];
	double v[5];

	for (int round = -1; round < 5; round++) {
		double start;

		pthread_barrier_init(&barrier, NULL, count + 1);
		for (unsigned int i = 0; i < count; i++)
			if (pthread_create(&threads[i], NULL, worker, NULL))
				bench_die("pthread_create");
		pthread_barrier_wait(&barrier);
		start = bench_now();
		pthread_barrier_wait(&barrier);
		if (round >= 0)
			v[round] = (bench_now() - start) * side / count / OPS;
		for (unsigned int i = 0; i < count; i++)
			pthread_join(threads[i], NULL);
		pthread_barrier_destroy(&barrier);
	}
	return bench_median(v, 5);
}

void bench_threads(void)
{
	bench_cuda();
	bench_cu(cuCtxGetCurrent(&context));
	bench_peer("calls_of_1_thread", with_threads(1));
	for (unsigned int count = 2; count <= THREADS; count *= 2)
		bench_beside(bench_name("calls_of_%u_threads", count), BENCH_RATIO, with_threads(count),
			     "calls_of_1_thread", 1.5);
}
