// SPDX-License-Identifier: GPL-2.0
/*
 * Pools by location and type of memory: the default and the current pool of each, which locations are refused, and
 * the attributes that say what a pool is.
 *
 * Values of the attributes are documented, not recorded: they are new in CUDA 13.2.
 */
#include <unistd.h>

#include "kselftest_harness.h"
#include "cuda_case_util.h"
#include "cuda_rt_util.h"

#define PINNED		CU_MEM_ALLOCATION_TYPE_PINNED
#define MANAGED		CU_MEM_ALLOCATION_TYPE_MANAGED

NON_BLOCKING_FIXTURE(place)

static CUmemLocation at(int type, int id)
{
	return (CUmemLocation){ .type = type, .id = id };
}

/* An attribute that is an int; -77 on an error, or if the call writes more than an int. */
static int property(CUmemoryPool pool, CUmemPool_attribute attribute)
{
	int value[2] = { 0x5a5a5a5a, 0x5a5a5a5a };

	return cuMemPoolGetAttribute(pool, attribute, value) || value[1] != 0x5a5a5a5a ? -77 : value[0];
}

static bool is(CUmemoryPool pool, int type, CUmemLocation location, int handles)
{
	return property(pool, CU_MEMPOOL_ATTR_ALLOCATION_TYPE) == type &&
	       property(pool, CU_MEMPOOL_ATTR_LOCATION_TYPE) == (int)location.type &&
	       property(pool, CU_MEMPOOL_ATTR_LOCATION_ID) == location.id &&
	       property(pool, CU_MEMPOOL_ATTR_EXPORT_HANDLE_TYPES) == handles &&
	       !property(pool, CU_MEMPOOL_ATTR_HW_DECOMPRESS_ENABLED);
}

static const struct {
	int type;
	CUmemLocation location;
} good[] = {
	{ PINNED, { CU_MEM_LOCATION_TYPE_DEVICE, 0 } },
	{ PINNED, { CU_MEM_LOCATION_TYPE_HOST, 0 } },
	{ PINNED, { CU_MEM_LOCATION_TYPE_HOST_NUMA, 0 } },
	{ MANAGED, { CU_MEM_LOCATION_TYPE_DEVICE, 0 } },
	{ MANAGED, { CU_MEM_LOCATION_TYPE_HOST, 0 } },
	{ MANAGED, { CU_MEM_LOCATION_TYPE_HOST_NUMA, 0 } },
	{ MANAGED, { CU_MEM_LOCATION_TYPE_NONE, 0 } },
};

/* Each location and type has a default pool of its own, and another pool can be the current one. */
TEST_F(place, each)
{
	CUmemoryPool first[ARRAY_SIZE(good)], mine, now;

	for (unsigned int i = 0; i < ARRAY_SIZE(good); i++) {
		CUmemLocation location = good[i].location;
		CUmemPoolProps props = { .allocType = good[i].type, .location = location };

		ASSERT_CU(cuMemGetDefaultMemPool(&first[i], &location, good[i].type));
		for (unsigned int j = 0; j < i; j++)
			EXPECT_NE(first[j], first[i]);
		EXPECT_CU(cuMemGetMemPool(&now, &location, good[i].type));
		EXPECT_EQ(first[i], now);
		EXPECT_TRUE(is(first[i], good[i].type, location, 0)) {
			TH_LOG("row %u", i);
		}
		EXPECT_EQ(0, pool_figure(first[i], CU_MEMPOOL_ATTR_MAX_POOL_SIZE));
		ASSERT_CU(cuMemPoolCreate(&mine, &props));
		EXPECT_TRUE(is(mine, good[i].type, location, 0));
		EXPECT_CU(cuMemSetMemPool(&location, good[i].type, mine));
		EXPECT_CU(cuMemGetMemPool(&now, &location, good[i].type));
		EXPECT_EQ(mine, now);
		EXPECT_EQ(INVALID, cuMemSetMemPool(&location, good[i].type == PINNED ? MANAGED : PINNED, mine));
		EXPECT_CU(cuMemPoolDestroy(mine));
		EXPECT_CU(cuMemGetMemPool(&now, &location, good[i].type));
		EXPECT_EQ(first[i], now);
	}
	EXPECT_CU(cuDeviceGetDefaultMemPool(&now, 0));
	EXPECT_EQ(first[0], now);
}

/* INVISIBLE is an answer of the attribute only: no pool, memory or access can be asked for there. */
TEST_F(place, invisible)
{
	CUmemLocation invisible = at(CU_MEM_LOCATION_TYPE_INVISIBLE, CU_DEVICE_INVALID);
	CUmemAllocationProp handle = { .type = PINNED, .location = invisible };
	CUmemPoolProps props = { .allocType = PINNED, .location = invisible };
	CUmemAccessDesc access = { invisible, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle memory;
	CUmemAccess_flags flags;
	CUmemoryPool pool;
	CUdeviceptr p;

	for (int type = PINNED; type <= MANAGED; type++) {
		props.allocType = type;
		EXPECT_EQ(INVALID, cuMemPoolCreate(&pool, &props));
		EXPECT_EQ(INVALID, cuMemGetDefaultMemPool(&pool, &invisible, type));
		EXPECT_EQ(INVALID, cuMemGetMemPool(&pool, &invisible, type));
		ASSERT_CU(cuDeviceGetDefaultMemPool(&pool, 0));
		EXPECT_EQ(INVALID, cuMemSetMemPool(&invisible, type, pool));
	}
	EXPECT_EQ(INVALID, cuMemPoolGetAccess(&flags, pool, &invisible));
	EXPECT_NE(CUDA_SUCCESS, cuMemPoolSetAccess(pool, &access, 1));
	EXPECT_NE(CUDA_SUCCESS, cuMemCreate(&memory, 2 * MIB, &handle, 0));
	ASSERT_CU(cuMemAllocManaged(&p, 4096, CU_MEM_ATTACH_GLOBAL));
	EXPECT_EQ(INVALID, cuMemAdvise(p, 4096, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, invisible));
	EXPECT_EQ(INVALID, cuMemPrefetchAsync(p, 4096, invisible, 0, self->s));
}

TEST_F(place, properties)
{
	CUmemPoolProps props = {
		.allocType = PINNED, .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 }, .maxSize = 3 * MIB,
		.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	};
	CUmemLocation device = at(CU_MEM_LOCATION_TYPE_DEVICE, 0);
	CUmemoryPool pool, fast, theirs;
	__u64 value = 1;
	int fd = -1;

	ASSERT_CU(cuMemPoolCreate(&pool, &props));
	EXPECT_TRUE(is(pool, PINNED, device, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	/* Rounded up, as the limit is. */
	EXPECT_EQ(4 * MIB, pool_figure(pool, CU_MEMPOOL_ATTR_MAX_POOL_SIZE));
	ASSERT_CU(pool_make_decompress(&fast));
	EXPECT_EQ(1, property(fast, CU_MEMPOOL_ATTR_HW_DECOMPRESS_ENABLED));
	for (int a = CU_MEMPOOL_ATTR_ALLOCATION_TYPE; a <= CU_MEMPOOL_ATTR_HW_DECOMPRESS_ENABLED; a++) {
		EXPECT_EQ(INVALID, cuMemPoolSetAttribute(pool, a, &value));
		EXPECT_EQ(INVALID, cuMemPoolGetAttribute(pool, a, NULL));
		EXPECT_EQ(INVALID, cuMemPoolGetAttribute(NULL, a, &value));
	}
	EXPECT_EQ(INVALID, cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_HW_DECOMPRESS_ENABLED + 1, &value));
	/* An import has the properties, except that it cannot be exported, and no other attributes. */
	ASSERT_CU(cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	ASSERT_CU(cuMemPoolImportFromShareableHandle(&theirs, (void *)(uintptr_t)fd,
						     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	EXPECT_TRUE(is(theirs, PINNED, device, CU_MEM_HANDLE_TYPE_NONE));
	EXPECT_CU(cuMemPoolGetAttribute(theirs, CU_MEMPOOL_ATTR_MAX_POOL_SIZE, &value));
	EXPECT_EQ(INVALID, cuMemPoolGetAttribute(theirs, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value));
	EXPECT_CU(cuMemPoolDestroy(theirs));
	EXPECT_EQ(-77, property(theirs, CU_MEMPOOL_ATTR_ALLOCATION_TYPE));
	close(fd);
}

TEST_F(place, runtime)
{
	struct cudaMemLocation host = { cudaMemLocationTypeHost, 0 }, invisible = { cudaMemLocationTypeInvisible, 0 };
	cudaMemPool_t pool, now;
	int value = -1;

	EXPECT_RT(cudaMemGetDefaultMemPool(&pool, &host, cudaMemAllocationTypePinned));
	EXPECT_RT(cudaMemGetMemPool(&now, &host, cudaMemAllocationTypePinned));
	EXPECT_EQ(pool, now);
	EXPECT_RT(cudaMemSetMemPool(&host, cudaMemAllocationTypePinned, pool));
	EXPECT_RT(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrLocationType, &value));
	EXPECT_EQ(cudaMemLocationTypeHost, value);
	EXPECT_RT(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrAllocationType, &value));
	EXPECT_EQ(cudaMemAllocationTypePinned, value);
	EXPECT_FAILS(BAD, cudaMemGetDefaultMemPool(&pool, &invisible, cudaMemAllocationTypePinned));
}

/* The node that a device names is one where the host's memory can be. */
TEST_F(place, node_of_the_device)
{
	CUmemPoolProps props = { .allocType = PINNED, .location = { .type = CU_MEM_LOCATION_TYPE_HOST_NUMA } };
	long long memory = dev_attr(0, "node");
	CUmemoryPool pool;
	char path[64];
	int node;

	ASSERT_CU(cuDeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0));
	if (access("/sys/devices/system/node/has_memory", F_OK)) {
		EXPECT_EQ(-1, node);
		return;
	}
	if (memory >= 0)
		EXPECT_EQ(memory, node);
	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d", node);
	ASSERT_EQ(0, access(path, F_OK));
	props.location.id = node;
	ASSERT_CU(cuMemPoolCreate(&pool, &props));
	EXPECT_CU(cuMemPoolDestroy(pool));
}

TEST_HARNESS_MAIN
