// SPDX-License-Identifier: GPL-2.0
/*
 * Tests rings whose next page cannot be allocated, because the module's limit is reached or the
 * memory cgroup is full.  The call that needs the page returns CUDA_ERROR_OUT_OF_MEMORY and changes
 * nothing.  The same call works when there is memory again.
 *
 * The work waits at a gate: an entry that waits for a word that the test has not written yet.  So
 * the ring fills, and no entry completes.
 */
#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "cuda_util.h"
#include "deny_util.h"
#include "common/limits_util.h"

#define OOM	CUDA_ERROR_OUT_OF_MEMORY
#define SLOTS	64U		/* entries of a page */
#define RING	4096U		/* entries of a ring */

struct work {
	CUcontext ctx;
	CUstream s;
	CUdeviceptr p;		/* RING bytes; entry i writes byte i */
	cuuint32_t *word;
	unsigned int entries;	/* in the ring */
};

/* A stream with a gate in its ring. */
static CUresult work_start(struct work *w)
{
	CUresult result = cuda_start(&w->ctx);

	if (!result)
		result = cuStreamCreate(&w->s, CU_STREAM_NON_BLOCKING);
	if (!result)
		result = cuMemAlloc(&w->p, RING);
	if (!result)
		result = cuMemsetD8(w->p, 0, RING);
	if (!result)
		result = cuMemHostAlloc((void **)&w->word, page_size, 0);
	if (result)
		return result;
	*w->word = 0;
	w->entries = 1;
	return cuStreamWaitValue32(w->s, (uintptr_t)w->word, 1, CU_STREAM_WAIT_VALUE_EQ);
}

static CUresult work_put(struct work *w)
{
	CUresult result = cuMemsetD8Async(w->p + w->entries, w->entries % 251 + 1, 1, w->s);

	w->entries += !result;
	return result;
}

/* Open the gate; whether all accepted entries have run, and no others. */
static bool work_end(struct work *w)
{
	static unsigned char bytes[RING];

	__atomic_store_n(w->word, 1, __ATOMIC_RELEASE);
	if (cuStreamSynchronize(w->s) || cuMemcpyDtoH(bytes, w->p, RING))
		return false;
	for (unsigned int i = 1; i < RING; i++)
		if (bytes[i] != (i < w->entries ? i % 251 + 1 : 0)) {
			fprintf(stderr, "# byte %u of %u is %u\n", i, w->entries, bytes[i]);
			return false;
		}
	return true;
}

/* Bytes of rings, of all clients. */
static long long rings(void)
{
	return number_of("/sys/class/gpumem/rings", "");
}

FIXTURE(ring_memory)
{
	struct work w;
	long long limit;
};

FIXTURE_SETUP(ring_memory)
{
	ASSERT_TRUE(dev_quiet(10));
	self->limit = get_param("ring_limit");
	ASSERT_LT(0, self->limit);
}

FIXTURE_TEARDOWN_PARENT(ring_memory)
{
	EXPECT_EQ(0, set_param("ring_limit", self->limit));
	EXPECT_TRUE(dev_quiet(10));
	EXPECT_EQ(0, rings());
}

TEST_F(ring_memory, takes_pages_in_order)
{
	struct work *w = &self->w;
	long long one;

	ASSERT_CU(work_start(w));
	one = rings();
	for (unsigned int i = 1; i < 4 * SLOTS; i++) {
		ASSERT_CU(work_put(w));
		ASSERT_EQ(one + (long long)(i / SLOTS * page_size), rings());
	}
	EXPECT_TRUE(work_end(w));
}

static atomic_uint functions_ran;

static void function(void *arg)
{
	(void)arg;
	functions_ran++;
}

/* Every kind of call that needs an entry. */
static CUresult call(struct work *w, unsigned int kind, CUevent timed, CUevent other)
{
	CUstreamBatchMemOpParams ops[3] = { 0 };

	switch (kind) {
	case 0:
		return cuMemsetD8Async(w->p, 0, 1, w->s);
	case 1:
		return cuMemcpyDtoDAsync(w->p + 1, w->p, 1, w->s);
	case 2:
		return cuLaunchHostFunc(w->s, function, NULL);
	case 3:
		return cuStreamWriteValue32(w->s, (uintptr_t)(w->word + 1), 1, 0);
	case 4:
		return cuEventRecord(timed, w->s);
	case 5:
		return cuStreamWaitEvent(w->s, other, 0);
	default:
		for (unsigned int i = 0; i < ARRAY_SIZE(ops); i++) {
			ops[i].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
			ops[i].writeValue.address = (uintptr_t)(w->word + 2 + i);
			ops[i].writeValue.value = 1;
		}
		return cuStreamBatchMemOp(w->s, ARRAY_SIZE(ops), ops, 0);
	}
}

#define CALLS	7U

TEST_F(ring_memory, limit)
{
	struct work *w = &self->w;
	CUevent timed, other;
	CUdeviceptr block;
	CUstream t;
	CUresult result;

	ASSERT_CU(work_start(w));
	/* Record two events: one in another stream's ring, behind the gate, to wait for. */
	ASSERT_CU(cuEventCreate(&timed, 0));
	ASSERT_CU(cuEventCreate(&other, 0));
	ASSERT_CU(cuEventRecord(timed, CU_STREAM_LEGACY));
	ASSERT_CU(cuStreamSynchronize(CU_STREAM_LEGACY));
	ASSERT_CU(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuStreamWaitValue32(t, (uintptr_t)w->word, 1, CU_STREAM_WAIT_VALUE_EQ));
	ASSERT_CU(cuEventRecord(other, t));
	ASSERT_CU(cuMemAllocAsync(&block, 512, w->s));

	ASSERT_EQ(0, set_param("ring_limit", rings() + 2 * page_size));
	while (!(result = work_put(w)))
		;
	EXPECT_EQ(OOM, result);
	EXPECT_EQ(3 * SLOTS, w->entries);
	for (unsigned int i = 0; i < 2 * CALLS; i++) {
		EXPECT_EQ(OOM, call(w, i % CALLS, timed, other)) {
			TH_LOG("call %u", i);
		}
	}
	/* The record that failed left the event as it was. */
	EXPECT_CU(cuEventQuery(timed));
	/* cuMemFreeAsync() needs no entry. */
	EXPECT_CU(cuMemFreeAsync(block, w->s));
	EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(w->s));
	/* There is no page for a new ring, either. */
	ASSERT_CU(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
	EXPECT_EQ(OOM, cuStreamWaitValue32(t, (uintptr_t)w->word, 1, CU_STREAM_WAIT_VALUE_EQ));

	ASSERT_EQ(0, set_param("ring_limit", self->limit));
	EXPECT_CU(cuStreamWaitValue32(t, (uintptr_t)w->word, 1, CU_STREAM_WAIT_VALUE_EQ));
	for (unsigned int i = 0; i < 2 * SLOTS; i++)
		ASSERT_CU(work_put(w));
	EXPECT_EQ(0, w->word[1]);
	EXPECT_TRUE(work_end(w));
	EXPECT_EQ(0, functions_ran);
	for (unsigned int i = 1; i < 5; i++)
		EXPECT_EQ(0, w->word[i]);
	/* The calls that failed before succeed now. */
	for (unsigned int i = 0; i < CALLS; i++)
		EXPECT_CU(call(w, i, timed, other));
	EXPECT_CU(cuCtxSynchronize());
	EXPECT_EQ(1, functions_ran);
	for (unsigned int i = 1; i < 5; i++)
		EXPECT_EQ(1, w->word[i]);
}

/* A batch that needs entries of a page that cannot be allocated leaves no entry in the ring. */
TEST_F(ring_memory, limit_in_a_batch)
{
	struct work *w = &self->w;

	ASSERT_CU(work_start(w));
	ASSERT_EQ(0, set_param("ring_limit", rings()));
	while (w->entries < SLOTS - 1)
		ASSERT_CU(work_put(w));
	EXPECT_EQ(OOM, call(w, CALLS - 1, NULL, NULL));
	/* A host function takes two entries. */
	EXPECT_EQ(OOM, cuLaunchHostFunc(w->s, function, NULL));
	ASSERT_CU(work_put(w));
	EXPECT_EQ(OOM, work_put(w));
	EXPECT_TRUE(work_end(w));
	for (unsigned int i = 2; i < 5; i++)
		EXPECT_EQ(0, w->word[i]);
	EXPECT_EQ(0, functions_ran);
}

/* If the kernel lacks MADV_POPULATE_WRITE, the library touches the page instead. */
TEST_F(ring_memory, without_populate)
{
	struct work *w = &self->w;

	ASSERT_TRUE(deny_call_with(SYS_madvise, 2, MADV_POPULATE_WRITE, EINVAL));
	ASSERT_CU(work_start(w));
	while (w->entries < RING)
		ASSERT_CU(work_put(w));
	EXPECT_TRUE(work_end(w));
}

/* --- a full memory cgroup */

/* Whether one page table, which the kernel charges too, covers the ring that was mapped last. */
static bool ring_in_one_table(void)
{
	unsigned long start, end, from = 0, to = 0;
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	unsigned long long offset, last = 0;

	while (f && fgets(line, sizeof(line), f)) {
		if (!strstr(line, "/dev/gpumem") ||
		    sscanf(line, "%lx-%lx %*s %llx", &start, &end, &offset) != 3 ||
		    end - start != (RING / SLOTS + 1) * page_size || offset < last)
			continue;
		last = offset;
		from = start;
		to = end;
	}
	if (f)
		fclose(f);
	return from && from >> 21 == (to - 1) >> 21;
}

/* A page of the stack that is touched for the first time when the group is full would have the process killed. */
static void __attribute__((noinline)) touch_stack(void)
{
	volatile char room[128 << 10];

	for (size_t i = 0; i < sizeof(room); i += 4096)
		room[i] = 0;
}

static int full_memcg(void *arg)
{
	struct cgroup *cg = arg;
	struct work w;
	__u32 bo, vm;
	__u64 maps = 0, bytes;
	CUresult result;
	int fd, ret;

	WANT(!cgroup_enter(cg) && !work_start(&w));
	touch_stack();
	for (int i = 0; i < 16 && !ring_in_one_table(); i++) {
		WANT(!cuStreamCreate(&w.s, CU_STREAM_NON_BLOCKING));
		WANT(!cuStreamWaitValue32(w.s, (uintptr_t)w.word, 1, CU_STREAM_WAIT_VALUE_EQ));
	}
	WANT(ring_in_one_table());
	/* Let a call fail now, so that the memory that it needs is charged already. */
	WANT(!set_param("ring_limit", 0));
	while (!(result = work_put(&w)))
		;
	WANT(result == OOM && w.entries == SLOTS);
	WANT(!set_param("ring_limit", 256 * MIB));
	fd = gp_open(0);
	WANT(fd >= 0 && !gp_bo_alloc(fd, page_size, &bo) && !gp_vm_create(fd, &vm));
	while (!(ret = gp_vm_map(fd, vm, bo, 0, (maps + 1) << 13, page_size, 1, 1)))
		maps++;
	WANT(ret == -ENOMEM);
	/* A few pages may be left, or come back from the caches of other CPUs. */
	for (unsigned int refused = 0; refused < 4;) {
		result = work_put(&w);
		WANT((!result || result == OOM) && w.entries < RING);
		refused = result ? refused + 1 : 0;
	}
	WANT(w.entries % SLOTS == 0);
	WANT(cuStreamQuery(w.s) == CUDA_ERROR_NOT_READY);
	WANT(!gp_vm_unmap(fd, vm, 1 << 13, maps << 13, &bytes));
	fprintf(stderr, "# %llu mappings, %u entries\n", (unsigned long long)maps, w.entries);
	while (w.entries < RING)
		WANT(!work_put(&w));
	WANT(work_end(&w));
	return 0;
}

TEST_F_TIMEOUT(ring_memory, full_memcg, 300)
{
	struct cgroup cg;

	if (cgroup_make(&cg, "ring-memory"))
		SKIP(return, "no memory cgroups");
	ASSERT_EQ(0, cgroup_write(&cg, "memory.max", "20M"));
	cgroup_write(&cg, "memory.swap.max", "0");
	/* The child's success shows that the OOM killer did not end it. */
	EXPECT_EQ(0, run_child(full_memcg, &cg));
	EXPECT_EQ(0, cgroup_read_key(&cg, "memory.events", "oom_kill"));
	EXPECT_EQ(0, cgroup_remove(&cg));
}

TEST_HARNESS_MAIN
