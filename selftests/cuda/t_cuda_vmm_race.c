// SPDX-License-Identifier: GPL-2.0
/*
 * Threads that reserve, map, set rights, unmap and free at the same time: in neighbouring ranges they do not wait
 * for each other, and in one range each finds what the one before left.
 *
 * Cases of vmm_stopped stop one thread in the kernel by a delay point. The point stops a task for ten seconds at
 * most, and GO() fails if the task went on by itself. So all calls between STOPPED() and GO() ran while the other
 * thread was stopped.
 */
#include "kselftest_harness.h"
#include "cuda_case_util.h"
#include "common/race_util.h"

#define NEEDS		"the module has no delay points: GPUMEM_DELAY=1"
#define G		(2 * MIB)
#define READ_ONLY	CU_MEM_ACCESS_FLAGS_PROT_READ
#define READ_WRITE	CU_MEM_ACCESS_FLAGS_PROT_READWRITE
#define POSIX_FD	CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define WORKERS		4

typedef CUmemGenericAllocationHandle handle_t;

static const CUmemLocation device = { .type = CU_MEM_LOCATION_TYPE_DEVICE };

static CUresult make(handle_t *h)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = POSIX_FD,
		.location = device,
	};

	return cuMemCreate(h, G, &prop, 0);
}

static CUresult rights(CUdeviceptr d, size_t n, int right)
{
	const CUmemAccessDesc desc = { .location = device, .flags = right };

	return cuMemSetAccess(d, n, &desc, 1);
}

/* The device's right at an address, or -1. */
static int right_at(CUdeviceptr d)
{
	unsigned long long flags;

	return cuMemGetAccess(&flags, &device, d) ? -1 : (int)flags;
}

/* Map memory at @d, use and unmap it, with every right in between. */
static CUresult round_trip(CUdeviceptr d, handle_t h, unsigned char value)
{
	unsigned char byte[2] = { 0 };
	CUresult result = cuMemMap(d, G, 0, h, 0);

	if (!result)
		result = rights(d, G, READ_WRITE);
	if (!result)
		result = right_at(d + 1) == READ_WRITE ? cuMemsetD8(d, value, G) : CUDA_ERROR_UNKNOWN;
	/* A fill that is queued would meet the rights that follow. */
	if (!result)
		result = cuCtxSynchronize();
	if (!result)
		result = rights(d, G, READ_ONLY);
	if (!result)
		result = cuMemcpyDtoH(byte, d, 1);
	if (!result)
		result = cuMemcpyDtoH(byte + 1, d + G - 1, 1);
	if (!result && (byte[0] != value || byte[1] != value || right_at(d) != READ_ONLY))
		result = CUDA_ERROR_UNKNOWN;
	/* The right of reading only is enforced. */
	if (!result && cuMemsetD8(d, 1, 1) != INVALID)
		result = CUDA_ERROR_UNKNOWN;
	if (!result)
		result = cuMemUnmap(d, G);
	if (!result && right_at(d) != -1)
		result = CUDA_ERROR_UNKNOWN;
	return result;
}

/* ---- one thread is stopped */

FIXTURE(vmm_stopped)
{
	CUcontext ctx;
	CUdeviceptr d;			/* of three places */
	handle_t h, other;
};

FIXTURE_SETUP(vmm_stopped)
{
	if (!delay_there())
		SKIP(return, NEEDS);
	ASSERT_EQ(0, delay_command("reset", ""));
	cuda_begin(_metadata, &self->ctx);
	ASSERT_CU(cuMemAddressReserve(&self->d, 3 * G, 0, 0, 0));
	ASSERT_CU(make(&self->h));
	ASSERT_CU(make(&self->other));
	/* Let the library allocate now what it allocates only once. */
	ASSERT_CU(round_trip(self->d, self->h, 1));
}

FIXTURE_TEARDOWN_PARENT(vmm_stopped)
{
	if (delay_there()) {
		delay_command("reset", "");
		EXPECT_TRUE(dev_quiet(10));
	}
}

/* A call by a thread of its own. */
enum act { MAP, SET_ACCESS, UNMAP, FREE };

struct actor {
	enum act act;
	CUdeviceptr d;
	size_t n;
	handle_t h;
	CUresult result;
	atomic_bool over;
	pthread_t thread;
};

static CUresult act(struct actor *a)
{
	switch (a->act) {
	case MAP:
		return cuMemMap(a->d, a->n, 0, a->h, 0);
	case SET_ACCESS:
		return rights(a->d, a->n, READ_WRITE);
	case UNMAP:
		return cuMemUnmap(a->d, a->n);
	default:
		return cuMemAddressFree(a->d, a->n);
	}
}

static void *actor_main(void *arg)
{
	struct actor *a = arg;

	a->result = act(a);
	atomic_store(&a->over, true);
	return NULL;
}

#define START(a, what, ...)						\
	do {								\
		a = (struct actor){ .act = what, __VA_ARGS__ };		\
		ASSERT_EQ(0, pthread_create(&a.thread, NULL, actor_main, &a));	\
	} while (0)

static CUresult end(struct actor *a)
{
	pthread_join(a->thread, NULL);
	return a->result;
}

/* Whether the thread waits: after some time its call has not returned. */
static bool waits(struct actor *a)
{
	nap_ms(200);
	return !atomic_load(&a->over);
}

/* What needs nothing of a range under change. */
static CUresult elsewhere(CUdeviceptr neighbour)
{
	CUmemAllocationProp prop;
	handle_t h, imported, same;
	CUdeviceptr d;
	CUresult result;
	int fd;

	result = make(&h);
	if (!result)
		result = cuMemGetAllocationPropertiesFromHandle(&prop, h);
	if (!result)
		result = cuMemExportToShareableHandle(&fd, h, POSIX_FD, 0);
	if (!result)
		result = cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd, POSIX_FD);
	if (!result)
		result = close(fd) ? CUDA_ERROR_UNKNOWN : cuMemRelease(imported);
	if (!result)
		result = cuMemAddressReserve(&d, G, 0, 0, 0);
	if (!result)
		result = round_trip(d, h, 2);
	if (!result)
		result = cuMemAddressFree(d, G);
	if (!result)
		result = cuMemMap(neighbour, G, 0, h, 0);
	if (!result)
		result = cuMemRetainAllocationHandle(&same, (void *)neighbour);
	if (!result)
		result = same == h ? cuMemRelease(same) : CUDA_ERROR_UNKNOWN;
	if (!result)
		result = cuMemUnmap(neighbour, G);
	if (!result)
		result = round_trip(neighbour, h, 3);
	if (!result)
		result = cuMemRelease(h);
	return result;
}

/* Other ranges, also next to it, do not wait for a map. Memory that is not mapped yet is not there. */
TEST_F(vmm_stopped, beside_a_map)
{
	struct actor a;
	handle_t h;

	ARM("vm_map");
	START(a, MAP, .d = self->d + G, .n = G, .h = self->h);
	STOPPED("vm_map");
	EXPECT_CU(elsewhere(self->d));
	EXPECT_CU(elsewhere(self->d + 2 * G));
	EXPECT_EQ(-1, right_at(self->d + G));
	EXPECT_EQ(INVALID, cuMemRetainAllocationHandle(&h, (void *)(self->d + G)));
	/* The map keeps the handle. */
	EXPECT_CU(cuMemRelease(self->h));
	EXPECT_EQ(INVALID, cuMemRelease(self->h));
	GO("vm_map");
	EXPECT_CU(end(&a));
	EXPECT_EQ(0, right_at(self->d + G));
	ASSERT_CU(cuMemRetainAllocationHandle(&h, (void *)(self->d + G)));
	EXPECT_EQ(self->h, h);
	EXPECT_CU(cuMemRelease(h));
	EXPECT_CU(rights(self->d + G, G, READ_WRITE));
	EXPECT_CU(cuMemsetD8(self->d + G, 1, G));
	EXPECT_CU(cuMemUnmap(self->d + G, G));
	EXPECT_CU(cuMemAddressFree(self->d, 3 * G));
}

/* The same beside an unmap, whose memory is hidden from its beginning. */
TEST_F(vmm_stopped, beside_an_unmap)
{
	struct actor a;
	handle_t h;

	ASSERT_CU(cuMemMap(self->d + G, G, 0, self->h, 0));
	ASSERT_CU(rights(self->d + G, G, READ_WRITE));
	ARM("vm_unmap");
	START(a, UNMAP, .d = self->d + G, .n = G);
	STOPPED("vm_unmap");
	EXPECT_CU(elsewhere(self->d));
	EXPECT_CU(elsewhere(self->d + 2 * G));
	EXPECT_EQ(-1, right_at(self->d + G));
	EXPECT_EQ(INVALID, cuMemRetainAllocationHandle(&h, (void *)(self->d + G)));
	EXPECT_EQ(INVALID, cuMemsetD8(self->d + G, 1, G));
	GO("vm_unmap");
	EXPECT_CU(end(&a));
	EXPECT_CU(cuMemAddressFree(self->d, 3 * G));
}

/* Calls about one range wait, and are done in the order in which they came. */
TEST_F(vmm_stopped, one_range)
{
	struct actor map, access, unmap, again, out, free;

	ARM("vm_map");
	START(map, MAP, .d = self->d, .n = G, .h = self->h);
	STOPPED("vm_map");
	START(access, SET_ACCESS, .d = self->d, .n = G);
	EXPECT_TRUE(waits(&access));
	START(unmap, UNMAP, .d = self->d, .n = 2 * G);
	EXPECT_TRUE(waits(&unmap));
	START(again, MAP, .d = self->d, .n = G, .h = self->other);
	EXPECT_TRUE(waits(&again));
	/* It overlaps only what waits. */
	START(out, UNMAP, .d = self->d + G, .n = G);
	EXPECT_TRUE(waits(&out));
	START(free, FREE, .d = self->d, .n = 3 * G);
	EXPECT_TRUE(waits(&free));
	/* Wrong arguments do not wait. */
	EXPECT_EQ(INVALID, cuMemAddressFree(self->d, G));
	GO("vm_map");
	EXPECT_CU(end(&map));
	EXPECT_CU(end(&access));
	EXPECT_CU(end(&unmap));
	EXPECT_CU(end(&again));
	EXPECT_CU(end(&out));
	EXPECT_EQ(INVALID, end(&free));
	EXPECT_EQ(0, right_at(self->d));
	EXPECT_CU(cuMemUnmap(self->d, G));
	EXPECT_CU(cuMemAddressFree(self->d, 3 * G));
}

/* A reservation is not free before what was mapped there is out, and then it is. */
TEST_F(vmm_stopped, free_behind_an_unmap)
{
	struct actor unmap, free;

	ASSERT_CU(cuMemMap(self->d, G, 0, self->h, 0));
	ARM("vm_unmap");
	START(unmap, UNMAP, .d = self->d, .n = G);
	STOPPED("vm_unmap");
	START(free, FREE, .d = self->d, .n = 3 * G);
	EXPECT_TRUE(waits(&free));
	GO("vm_unmap");
	EXPECT_CU(end(&unmap));
	EXPECT_CU(end(&free));
}

/* ---- all run */

NON_BLOCKING_FIXTURE(vmm_race)

struct worker {
	pthread_t thread;
	CUcontext ctx;
	CUdeviceptr d;
	handle_t h;
	unsigned int number, good, refused;
	int failed;
};

static void *change_own(void *arg)
{
	struct worker *w = arg;

	WORKER_CHECK(!cuCtxSetCurrent(w->ctx));
	for (unsigned int i = 0; i < 200; i++)
		WORKER_CHECK(!round_trip(w->d, w->h, w->number * 16 + i % 16));
	return NULL;
}

/* Neighbours never disturb each other: each call succeeds, and finds its own memory and rights. */
TEST_F(vmm_race, neighbours)
{
	struct worker w[WORKERS];
	CUdeviceptr d;

	ASSERT_CU(cuMemAddressReserve(&d, WORKERS * G, 0, 0, 0));
	for (int i = 0; i < WORKERS; i++) {
		w[i] = (struct worker){ .ctx = self->ctx, .d = d + i * G, .number = i };
		ASSERT_CU(make(&w[i].h));
		ASSERT_EQ(0, pthread_create(&w[i].thread, NULL, change_own, &w[i]));
	}
	for (int i = 0; i < WORKERS; i++) {
		pthread_join(w[i].thread, NULL);
		EXPECT_EQ(0, w[i].failed);
		EXPECT_CU(cuMemRelease(w[i].h));
	}
	EXPECT_CU(cuMemAddressFree(d, WORKERS * G));
}

/* The pages of a handle are filled with its number. */
static CUresult make_filled(handle_t *h, unsigned char number)
{
	CUresult result = make(h);
	CUdeviceptr d;

	if (!result)
		result = cuMemAddressReserve(&d, G, 0, 0, 0);
	if (!result)
		result = round_trip(d, *h, number);
	return result ? result : cuMemAddressFree(d, G);
}

/* Whether what a handle of memory at @d, if any, has is what the handle was filled with. */
static bool retains(const handle_t *h, CUdeviceptr d)
{
	CUmemAllocationProp prop;
	handle_t got;
	int i;

	if (cuMemRetainAllocationHandle(&got, (void *)d))
		return true;
	for (i = 0; i < WORKERS && h[i] != got; i++)
		;
	return i < WORKERS && !cuMemGetAllocationPropertiesFromHandle(&prop, got) &&
	       prop.requestedHandleTypes == POSIX_FD && !cuMemRelease(got);
}

struct race {
	struct worker w;
	const handle_t *all;
};

/* Count a result of a call that another thread's call may have made wrong. */
static bool count(struct worker *w, CUresult result)
{
	w->good += !result;
	w->refused += result == INVALID;
	return !result || result == INVALID;
}

/* Calls in random order about one of three places, two, or all of them, and the reservation. */
static void *change_any(void *arg)
{
	struct race *race = arg;
	struct worker *w = &race->w;
	unsigned int seed = w->number;

	WORKER_CHECK(!cuCtxSetCurrent(w->ctx));
	for (unsigned int i = 0; i < 4000; i++) {
		unsigned int r = rand_r(&seed) >> 4, first = r % 3, places = 1 + r / 3 % (3 - first);
		CUdeviceptr d = w->d + first * G, same = w->d;
		int right;

		switch (r / 9 % 8) {
		case 0:
		case 1:
		case 2:
			WORKER_CHECK(count(w, cuMemMap(d, G, 0, w->h, 0)));
			break;
		case 3:
			WORKER_CHECK(count(w, rights(d, places * G, r & 64 ? READ_WRITE : 0)));
			break;
		case 4:
			WORKER_CHECK(count(w, cuMemUnmap(d, places * G)));
			break;
		case 5:
			WORKER_CHECK(retains(race->all, d));
			break;
		case 6:
			right = right_at(d);
			WORKER_CHECK(right <= 0 || right == READ_WRITE);
			break;
		default:
			if (r & 1536)
				break;
			/* If nothing is mapped, the reservation goes and comes back. */
			if (count(w, cuMemAddressFree(d, 3 * G)) && first)
				break;
			WORKER_CHECK(count(w, cuMemAddressReserve(&same, 3 * G, 0, w->d, 0)));
			if (same != w->d)
				WORKER_CHECK(!cuMemAddressFree(same, 3 * G));
			break;
		}
	}
	return NULL;
}

/* In one range each call finds a state that calls one after the other can leave. */
TEST_F(vmm_race, one_range)
{
	struct race race[WORKERS];
	handle_t h[WORKERS];
	unsigned char byte;
	CUdeviceptr d, same;

	ASSERT_CU(cuMemAddressReserve(&d, 3 * G, 0, 0, 0));
	for (int i = 0; i < WORKERS; i++)
		ASSERT_CU(make_filled(&h[i], i + 1));
	for (int i = 0; i < WORKERS; i++) {
		race[i] = (struct race){
			{ .ctx = self->ctx, .d = d, .h = h[i], .number = i }, .all = h,
		};
		ASSERT_EQ(0, pthread_create(&race[i].w.thread, NULL, change_any, &race[i]));
	}
	for (int i = 0; i < WORKERS; i++) {
		pthread_join(race[i].w.thread, NULL);
		EXPECT_EQ(0, race[i].w.failed);
		TH_LOG("%u calls, %u refused", race[i].w.good, race[i].w.refused);
	}
	/* What is mapped is one of the handles, and its memory. */
	for (int i = 0; i < 3; i++) {
		handle_t got;

		if (cuMemRetainAllocationHandle(&got, (void *)(d + i * G)))
			continue;
		EXPECT_CU(rights(d + i * G, G, READ_ONLY));
		EXPECT_CU(cuMemcpyDtoH(&byte, d + i * G + 7, 1));
		EXPECT_TRUE(byte >= 1 && byte <= WORKERS && h[byte - 1] == got);
		EXPECT_CU(cuMemRelease(got));
	}
	cuMemUnmap(d, 3 * G);
	/* The last call may have freed the reservation. */
	EXPECT_CU(cuMemAddressReserve(&same, 3 * G, 0, d, 0));
	EXPECT_CU(cuMemAddressFree(same, 3 * G));
	EXPECT_TRUE(same == d || !cuMemAddressFree(d, 3 * G));
	for (int i = 0; i < WORKERS; i++)
		EXPECT_CU(cuMemRelease(h[i]));
}

TEST_HARNESS_MAIN
