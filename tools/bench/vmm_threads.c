// SPDX-License-Identifier: GPL-2.0
/*
 * Virtual memory management by several threads: each maps a handle of its own at a place of its own, gives the
 * device the right, and unmaps it. The places are neighbours in one reservation.
 *
 * A row has the time of all threads' calls divided by their number. The peer is one thread.
 */
#include <cuda.h>
#include <math.h>
#include <pthread.h>

#include "bench.h"

#define MOST		2
#define CALLS		2000
#define ROUNDS		9

static const CUmemAccessDesc open_to_device = {
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
};

struct mapper {
	CUdeviceptr addr;
	CUmemGenericAllocationHandle handle;
	double begin, end;
};

static pthread_barrier_t gate;

static void map_unmap(const struct mapper *m)
{
	bench_cu(cuMemMap(m->addr, HUGE_BYTES, 0, m->handle, 0));
	bench_cu(cuMemSetAccess(m->addr, HUGE_BYTES, &open_to_device, 1));
	bench_cu(cuMemUnmap(m->addr, HUGE_BYTES));
}

/* Each thread takes its own times: a thread that waits for all may be the last to run again. */
static void *mapper_main(void *arg)
{
	struct mapper *m = arg;

	for (int i = 0; i < CALLS / 10; i++)
		map_unmap(m);
	pthread_barrier_wait(&gate);
	m->begin = bench_now();
	for (int i = 0; i < CALLS; i++)
		map_unmap(m);
	m->end = bench_now();
	return NULL;
}

/* Nanoseconds from the first begin to the last end, divided by the calls of @n threads. */
static double mapped_by(struct mapper *m, int n)
{
	double begin = INFINITY, end = 0;
	pthread_t id[MOST];

	pthread_barrier_init(&gate, NULL, n);
	for (int i = 0; i < n; i++)
		if (pthread_create(&id[i], NULL, mapper_main, &m[i]))
			bench_die("pthread_create");
	for (int i = 0; i < n; i++) {
		pthread_join(id[i], NULL);
		begin = fmin(begin, m[i].begin);
		end = fmax(end, m[i].end);
	}
	pthread_barrier_destroy(&gate);
	return (end - begin) / CALLS / n;
}

void bench_vmm_threads(void)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	double one[ROUNDS], ratio[ROUNDS], ns;
	struct mapper m[MOST];
	CUdeviceptr addr;

	bench_cuda();
	bench_cu(cuMemAddressReserve(&addr, MOST * HUGE_BYTES, 0, 0, 0));
	for (int i = 0; i < MOST; i++) {
		m[i].addr = addr + i * HUGE_BYTES;
		bench_cu(cuMemCreate(&m[i].handle, HUGE_BYTES, &prop, 0));
	}
	/* In turns: other work on the machine disturbs. */
	for (int i = 0; i < ROUNDS; i++) {
		one[i] = mapped_by(m, 1);
		ratio[i] = mapped_by(m, MOST) / one[i];
	}
	ns = bench_median(one, ROUNDS);
	bench_peer("vmm_map_of_1_thread", ns);
	bench_beside("vmm_map_of_2_threads", BENCH_RATIO, bench_median(ratio, ROUNDS) * ns,
		     "vmm_map_of_1_thread", 0);
	for (int i = 0; i < MOST; i++)
		bench_cu(cuMemRelease(m[i].handle));
	bench_cu(cuMemAddressFree(addr, MOST * HUGE_BYTES));
}
