// SPDX-License-Identifier: GPL-2.0
/*
 * Tests many blocks of a pool that are too large to share pages: they take few of the mappings that
 * vm.max_map_count allows the process, and their memory can be allocated again.
 *
 * With the default of 65,530 mappings, the tests' devices have too little memory to reach the
 * limit.  So the test lowers vm.max_map_count before the library reads it.
 */
#include "kselftest_harness.h"
#include "cuda_case_util.h"

#define SIZE		(300 * KIB)
#define MAX_MAP_COUNT	"/proc/sys/vm/max_map_count"
#define MORE		600		/* mappings that the lowered limit allows the library */
#define PER_DOUBLING	32		/* chunks, each time that the number of blocks doubles */

FIXTURE(maps)
{
	CUcontext ctx;
	CUstream s;
	CUmemoryPool pool;
	CUdeviceptr *p;
	unsigned int most, first;	/* blocks; mappings before the library starts */
	bool lowered;
	int before;			/* max_map_count */
};

static bool number_to(const char *path, int n)
{
	FILE *f = fopen(path, "we");
	bool good = f && fprintf(f, "%d", n) > 0;

	return f && !fclose(f) && good;
}

static unsigned int mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned int n = 0;
	int c;

	if (!f)
		abort();
	while ((c = getc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

FIXTURE_SETUP(maps)
{
	size_t left, total;

	ASSERT_TRUE(dev_quiet(10));
	self->first = mappings();
	self->before = number_of(MAX_MAP_COUNT, "");
	/* The setting is the whole machine's: change it only on a machine that is for tests. */
	self->lowered = self->before > 0 && (!access("/run/vm", F_OK) || getenv("GPUMEM_SYSTEM")) &&
		number_to(MAX_MAP_COUNT, self->first + MORE);
	ASSERT_CU(cuda_start(&self->ctx));
	ASSERT_CU(cuStreamCreate(&self->s, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(pool_make_keeping(&self->pool, 0));
	ASSERT_CU(cuMemGetInfo(&left, &total));
	/* A large device would take long to fill. */
	self->most = (left < 1024 * MIB ? left : 1024 * MIB) / 8 * 7 / SIZE;
	ASSERT_LT(MORE, self->most);
	self->p = calloc(self->most, sizeof(*self->p));
	ASSERT_NE(NULL, self->p);
}

FIXTURE_TEARDOWN_PARENT(maps)
{
	if (self->lowered)
		number_to(MAX_MAP_COUNT, self->before);
	EXPECT_TRUE(dev_quiet(10));
}

/* Mappings for @n blocks: two for each chunk, its memory and the reserved addresses behind it. */
static unsigned int allowed(unsigned int most, unsigned int n)
{
	unsigned int few = most / 16, chunks = few;

	for (; n > few; n = (n + 1) / 2)
		chunks += PER_DOUBLING;
	return 2 * chunks + 32;
}

TEST_F(maps, many_blocks)
{
	CUresult result = CUDA_SUCCESS;
	unsigned int n, may;
	unsigned char value;

	if (!self->lowered)
		SKIP(return, "vm.max_map_count cannot be set");
	for (n = 0; n < self->most && !result; n++) {
		result = cuMemAllocFromPoolAsync(&self->p[n], SIZE, self->pool, self->s);
		if (!result)
			result = cuMemsetD8Async(self->p[n] + SIZE - 1, n, 1, self->s);
	}
	ASSERT_CU(result) {
		TH_LOG("%u blocks of %u", n, self->most);
	}
	may = allowed(self->first + MORE, n);
	EXPECT_GE(self->first + may, mappings()) {
		TH_LOG("%u mappings before, %u with %u blocks", self->first, mappings(), n);
	}
	/* Fewer mappings must not cost more than 5 % of memory. */
	EXPECT_GT((cuuint64_t)n * SIZE / 100 * 105,
		  POOL_RESERVED_HIGH(self->pool));
	for (unsigned int i = 0; i < n; i++) {
		ASSERT_CU(cuMemcpyDtoH(&value, self->p[i] + SIZE - 1, 1));
		ASSERT_EQ((unsigned char)i, value);
	}
	/* Free every second block: as many fit again, without another chunk. */
	for (unsigned int i = 0; i < n; i += 2)
		ASSERT_CU(cuMemFreeAsync(self->p[i], self->s));
	ASSERT_CU(cuStreamSynchronize(self->s));
	for (unsigned int i = 0; i < n; i += 2)
		ASSERT_CU(cuMemAllocFromPoolAsync(&self->p[i], SIZE, self->pool, self->s));
	EXPECT_GT((cuuint64_t)n * SIZE / 100 * 105,
		  POOL_RESERVED_HIGH(self->pool));
	for (unsigned int i = 0; i < n; i++)
		ASSERT_CU(cuMemFreeAsync(self->p[i], self->s));
	ASSERT_CU(cuStreamSynchronize(self->s));
	ASSERT_CU(cuMemPoolTrimTo(self->pool, 0));
	EXPECT_EQ(0, POOL_RESERVED(self->pool));
	EXPECT_GE(self->first + 32, mappings());
}

/* The pool serves blocks up to its limit, even if the next chunk would be too large for it. */
TEST_F(maps, up_to_the_limit)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
		.maxSize = 256 * SIZE,
	};
	CUmemoryPool pool;
	unsigned int n = 0;

	ASSERT_CU(cuMemPoolCreate(&pool, &props));
	while (n < self->most && !cuMemAllocFromPoolAsync(&self->p[n], SIZE, pool, self->s))
		n++;
	EXPECT_LE(255, n);
	while (n--)
		ASSERT_CU(cuMemFreeAsync(self->p[n], self->s));
	ASSERT_CU(cuMemPoolDestroy(pool));
}

TEST_HARNESS_MAIN
