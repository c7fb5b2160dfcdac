// SPDX-License-Identifier: MIT
/*
 * Samples of the memory in use: what the driver itself says between two calls of a thread.
 *
 * A pool that is about to be destroyed leaves the list first, under the lock that a sample holds: no sample asks for a
 * pool that is gone.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "record/record.h"

#define POOLS	64u			/* that a sample has, at most */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t pools[POOLS];		/* under the lock */
static unsigned int pool_count;
static uint64_t last;			/* when the last sample was taken; atomic */
static uint64_t interval = 1000000;	/* ns; constant after the start */
static bool taken, off;

static void *(*real)(const char *name);
static CUresult (*get_info)(size_t *free, size_t *total);
static CUresult (*get_device)(CUdevice *device);
static CUresult (*get_default)(CUmemoryPool *pool, CUdevice device);
static CUresult (*get_attribute)(CUmemoryPool pool, CUmemPool_attribute attribute, void *value);

void sample_start(void *(*find)(const char *name))
{
	const char *text = getenv("GPUMEM_RECORD_SAMPLE"), *check = getenv("GPUMEM_CHECK");
	unsigned long number;
	char *end;

	real = find;
	/* A program that asks how much memory is free makes the checker give back what it keeps. */
	off = check && strcmp(check, "0");
	if (!text || !*text)
		return;
	off |= !strcmp(text, "off");
	number = strtoul(text, &end, 10);
	if (end != text && !*end && number <= 3600000)
		interval = (uint64_t)number * 1000000;
}

bool sample_taken(void)
{
	return off || __atomic_load_n(&taken, __ATOMIC_RELAXED);
}

/* The functions that a sample calls; under the lock. */
static bool find_functions(void)
{
	if (!get_info) {
		get_device = (CUresult (*)(CUdevice *))real("cuCtxGetDevice");
		get_default = (CUresult (*)(CUmemoryPool *, CUdevice))real("cuDeviceGetDefaultMemPool");
		get_attribute = (CUresult (*)(CUmemoryPool, CUmemPool_attribute, void *))real("cuMemPoolGetAttribute");
		get_info = (CUresult (*)(size_t *, size_t *))real("cuMemGetInfo_v2");
	}
	return get_info && get_device && get_default && get_attribute;
}

static bool describe(CUmemoryPool pool, struct trace_pool *out)
{
	return !get_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &out->reserved) &&
		!get_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &out->used) &&
		!get_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &out->reserved_high) &&
		!get_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &out->used_high);
}

static void add_pool(struct trace_sample *sample, uint64_t name, CUmemoryPool pool)
{
	struct trace_pool *out = (struct trace_pool *)(sample + 1) + sample->pools;

	if (!describe(pool, out))
		return;
	out->pool = name;
	sample->pools++;
}

/* Under the lock. */
static void take(uint32_t thread)
{
	struct {
		struct trace_sample sample;
		struct trace_pool pool[POOLS + 1];
	} record = { .sample.record.type = TRACE_SAMPLE, .sample.thread = thread, .sample.begin = time_now() };
	CUmemoryPool fallback;
	size_t free_bytes, total;
	CUdevice device;
	unsigned int i;

	if (get_device(&device) || get_info(&free_bytes, &total))
		return;
	record.sample.device = (uint32_t)device;
	record.sample.free = free_bytes;
	record.sample.total = total;
	if (!get_default(&fallback, device))
		add_pool(&record.sample, 0, fallback);
	else
		fallback = NULL;
	for (i = 0; i < pool_count; i++)
		if (pools[i] != (uintptr_t)fallback)
			add_pool(&record.sample, pools[i], (CUmemoryPool)(uintptr_t)pools[i]);
	record.sample.end = time_now();
	record.sample.record.size = (uint32_t)(sizeof(record.sample) + record.sample.pools * sizeof(record.pool[0]));
	file_append(&record.sample.record, NO_FUNCTION);
	__atomic_store_n(&taken, true, __ATOMIC_RELAXED);
	__atomic_store_n(&last, record.sample.end, __ATOMIC_RELAXED);
}

void sample_take(uint32_t thread)
{
	int cancel;

	if (off || (sample_taken() && time_now() - __atomic_load_n(&last, __ATOMIC_RELAXED) < interval))
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	/* Another thread that takes a sample takes it for this one, too. */
	if (!pthread_mutex_trylock(&lock)) {
		if (find_functions())
			take(thread);
		pthread_mutex_unlock(&lock);
	}
	pthread_setcancelstate(cancel, NULL);
}

void pool_add(uint64_t pool)
{
	unsigned int i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < pool_count; i++)
		if (pools[i] == pool)
			break;
	if (i == pool_count && pool && pool_count < POOLS)
		pools[pool_count++] = pool;
	pthread_mutex_unlock(&lock);
}

void pool_remove(uint64_t pool)
{
	unsigned int i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < pool_count; i++)
		if (pools[i] == pool) {
			pools[i] = pools[--pool_count];
			break;
		}
	pthread_mutex_unlock(&lock);
}
