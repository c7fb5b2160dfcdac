// SPDX-License-Identifier: GPL-2.0
/*
 * The memory of arrays: arrays without memory (sparse, deferred), also of video formats; what
 * arrays cost, when their memory is freed, and threads that destroy them.
 *
 * The expected results are those recorded on a real device, where there are such records.
 */
#include <pthread.h>

#include "kselftest_harness.h"
#include "cuda_util.h"
#include "array_util.h"

#define HANDLE	CUDA_ERROR_INVALID_HANDLE

ARRAY_FIXTURE(array_memory)

/* --- arrays without memory */

static bool tiles(CUmipmappedArray m, CUarray a, const unsigned int want[6])
{
	CUDA_ARRAY_SPARSE_PROPERTIES p;
	CUresult result;

	memset(&p, 0xff, sizeof(p));
	result = m ? cuMipmappedArrayGetSparseProperties(&p, m) : cuArrayGetSparseProperties(&p, a);
	if (!result && p.tileExtent.width == want[0] && p.tileExtent.height == want[1] &&
	    p.tileExtent.depth == want[2] && p.miptailFirstLevel == want[3] &&
	    p.miptailSize == want[4] && p.flags == want[5] && !p.reserved[0] && !p.reserved[3])
		return true;
	fprintf(stderr, "# %d: tile %ux%ux%u, tail from %u: %llu bytes, flags %u\n", result,
		p.tileExtent.width, p.tileExtent.height, p.tileExtent.depth, p.miptailFirstLevel,
		(unsigned long long)p.miptailSize, p.flags);
	return false;
}

TEST_F(array_memory, sparse)
{
	enum { NONE, K64 = 65536 };
	/* As recorded, of arrays whose tail's size does not depend on the device's layouts. */
	static const struct {
		CUarray_format format;
		unsigned int channels, w, h, d, flags, levels;
		unsigned int want[6];
	} many[] = {
		{ U8, 1, 512, 512, 0, 0, 0, { 256, 256, 1, 0, 0, 0 } },
		{ U8, 1, 512, 512, 0, 0, 1, { 256, 256, 1, 1, 0, 0 } },
		{ U8, 1, 512, 512, 0, 0, 4, { 256, 256, 1, 2, K64, 0 } },
		{ U8, 1, 256, 256, 64, 0, 4, { 64, 32, 32, 2, 2 * K64, 0 } },
		{ U8, 2, 512, 512, 3, LAYERED, 20, { 256, 128, 1, 2, K64, 0 } },
		{ U8, 2, 256, 256, 64, 0, 0, { 32, 32, 32, 0, 0, 0 } },
		{ U8, 4, 256, 256, 64, 0, 20, { 32, 32, 16, 3, K64, 0 } },
		{ U8, 4, 1024, 1024, 0, 0, 0, { 128, 128, 1, 0, 0, 0 } },
		{ U8, 4, 256, 256, 0, 0, 4, { 128, 128, 1, 2, K64, 0 } },
		{ CU_AD_FORMAT_HALF, 4, 512, 512, 0, 0, 4, { 128, 64, 1, 3, K64, 0 } },
		{ CU_AD_FORMAT_HALF, 4, 256, 256, 64, 0, 20, { 32, 16, 16, 3, 2 * K64, 0 } },
		{ U32, 4, 512, 512, 0, 0, 4, { 64, 64, 1, 4, 0, 0 } },
		{ U32, 4, 256, 256, 64, 0, 4, { 16, 16, 16, 3, 2 * K64, 0 } },
		{ U8, 1, 16, 16, 0, 0, 0, { 256, 256, 1, 0, K64, 1 } },
		{ U8, 1, 16, 16, 3, LAYERED, 4, { 256, 256, 1, 0, K64, 1 } },
		{ U8, 4, 96, 256, 0, 0, 0, { 128, 128, 1, 0, 2 * K64, 1 } },
		{ CU_AD_FORMAT_BC1_UNORM, 4, 512, 512, 0, 0, 20, { 512, 256, 1, 1, K64, 0 } },
		{ CU_AD_FORMAT_BC1_UNORM, 4, 256, 256, 64, 0, 0, { 128, 64, 16, 0, 0, 0 } },
		{ CU_AD_FORMAT_BC2_UNORM, 4, 512, 512, 3, LAYERED, 4, { 256, 256, 1, 2, K64, 0 } },
		{ CU_AD_FORMAT_BC7_UNORM, 4, 256, 256, 64, 0, 4, { 64, 64, 16, 3, K64, 0 } },
	};
	CUDA_ARRAY_SPARSE_PROPERTIES p;
	CUDA_ARRAY_MEMORY_REQUIREMENTS req;
	CUarray a;

	for (unsigned int i = 0; i < ARRAY_SIZE(many); i++) {
		CUDA_ARRAY3D_DESCRIPTOR d = describe(many[i].w, many[i].h, many[i].d,
						     many[i].format, many[i].channels,
						     many[i].flags | SPARSE);
		CUmipmappedArray m = NULL;

		ASSERT_CU(many[i].levels ? cuMipmappedArrayCreate(&m, &d, many[i].levels) :
			  cuArray3DCreate(&a, &d));
		EXPECT_TRUE(tiles(m, a, many[i].want)) {
			TH_LOG("row %u", i);
		}
		if (m) {
			ASSERT_CU(cuMipmappedArrayGetLevel(&a, m, 0));
			EXPECT_EQ(INVALID, cuArrayGetSparseProperties(&p, a));
			EXPECT_CU(cuMipmappedArrayDestroy(m));
		} else {
			EXPECT_EQ(INVALID, cuArrayGetMemoryRequirements(&req, a, 0));
			EXPECT_CU(cuArrayDestroy(a));
		}
	}
	EXPECT_EQ(self->was, used(0));
}

/* A sparse array without memory: reads return zero, and writes are lost. */
TEST_F(array_memory, hollow)
{
	CUdeviceptr p;
	CUarray a, b;

	ASSERT_CU(make(&a, 500, 300, 0, U8, 4, SPARSE));
	ASSERT_CU(make(&b, 500, 300, 0, U8, 4, 0));
	ASSERT_CU(cuMemAlloc(&p, 4096));
	memset(self->host, 7, 2000 * 300);
	EXPECT_CU(write_box(a, self->host, 0, 0, 0, 2000, 300, 1));
	EXPECT_CU(write_box(b, self->host, 0, 0, 0, 2000, 300, 1));
	EXPECT_CU(read_box(self->host, a, 0, 0, 0, 2000, 299, 1));
	EXPECT_TRUE(all_are(self->host, 0, 2000 * 299));
	EXPECT_TRUE(all_are(self->host + 2000 * 299, 7, 2000));
	EXPECT_EQ(INVALID, read_box(self->host, a, 1, 0, 0, 2000, 1, 1));
	poke(p, 5, 4096);
	EXPECT_CU(cuMemcpyAtoD(p + 1, a, 5, 1000));
	EXPECT_CU(cuMemcpyDtoA(a, 5, p, 1000));
	EXPECT_CU(cuCtxSynchronize());
	EXPECT_TRUE(sees(p, 5, 1) && sees(p + 1, 0, 1000) && sees(p + 1001, 5, 3095));
	EXPECT_CU(cuMemcpyAtoA(b, 100, a, 0, 50));
	EXPECT_CU(cuMemcpyAtoH(self->host, b, 0, 200));
	EXPECT_TRUE(all_are(self->host, 7, 100) && all_are(self->host + 100, 0, 50) &&
		    all_are(self->host + 150, 7, 50));
	EXPECT_CU(cuArrayDestroy(a));
	EXPECT_CU(cuArrayDestroy(b));
	EXPECT_CU(cuMemFree(p));
}

TEST_F(array_memory, deferred)
{
	CUDA_ARRAY3D_DESCRIPTOR d = describe(512, 512, 0, U8, 1, DEFERRED);
	CUDA_ARRAY_MEMORY_REQUIREMENTS req;
	CUmipmappedArray m;
	CUarray a;

	ASSERT_CU(cuMipmappedArrayCreate(&m, &d, 4));
	EXPECT_CU(cuMipmappedArrayGetMemoryRequirements(&req, m, 0));
	EXPECT_EQ(6 * 65536, req.size);
	EXPECT_EQ(65536, req.alignment);
	ASSERT_CU(cuMipmappedArrayGetLevel(&a, m, 1));
	EXPECT_EQ(INVALID, cuArrayGetMemoryRequirements(&req, a, 0));
	EXPECT_CU(cuMipmappedArrayDestroy(m));
	/* Before it is mapped, it reads as zero, and writes are lost; as recorded, copies succeed. */
	ASSERT_CU(make(&a, 256, 256, 0, U8, 4, DEFERRED));
	EXPECT_CU(cuArrayGetMemoryRequirements(&req, a, 0));
	EXPECT_EQ(256 * 1024, req.size);
	EXPECT_EQ(65536, req.alignment);
	EXPECT_EQ(INVALID, cuArrayGetMemoryRequirements(&req, a, 99));
	EXPECT_EQ(INVALID, cuMemcpyAtoH(self->host, a, 1024, 1));
	EXPECT_EQ(self->was, used(0));
	memset(self->host, 7, 2048);
	EXPECT_CU(cuMemcpyHtoA(a, 0, self->host, 1024));
	EXPECT_CU(cuMemcpyAtoH(self->host + 1, a, 0, 1024));
	EXPECT_TRUE(all_are(self->host + 1, 0, 1024));
	EXPECT_EQ(7, self->host[0]);
	EXPECT_EQ(7, self->host[1025]);
	EXPECT_CU(cuCtxSynchronize());
	EXPECT_CU(cuArrayDestroy(a));
	EXPECT_EQ(HANDLE, cuArrayDestroy(a));
}

/* A video array without memory: the size is that of all planes, the tiles are the first plane's. */
TEST_F(array_memory, video_without_memory)
{
	static const unsigned int wide[] = { 256, 256, 128, 128 }, high[] = { 256, 128, 128, 64 };

	for (unsigned int k = 0; k < ARRAY_SIZE(formats); k++) {
		const struct format *f = &formats[k];
		unsigned int channels = f->channels[0] - '0';
		unsigned int size = __builtin_ctz(f->bytes);
		size_t bytes = is_planar(f) ? 0 : 512 * 512 * f->bytes;
		CUDA_ARRAY_MEMORY_REQUIREMENTS req;
		CUarray a, p;

		if (!is_video(f))
			continue;
		for (unsigned int i = 0; i < 3 && f->plane[i][0]; i++)
			bytes += 512 / f->plane[i][1] * f->plane[i][0] * f->bytes *
				(512 / f->plane[i][2]);
		ASSERT_CU(make(&a, 512, 512, 0, f->format, channels, VIDEO | DEFERRED));
		EXPECT_CU(cuArrayGetMemoryRequirements(&req, a, 0));
		EXPECT_EQ(bytes, req.size) {
			TH_LOG("format 0x%x", f->format);
		}
		EXPECT_EQ(65536, req.alignment);
		EXPECT_CU(cuArrayDestroy(a));
		ASSERT_CU(make(&a, 512, 512, 0, f->format, channels, VIDEO | SPARSE));
		EXPECT_TRUE(tiles(NULL, a, (unsigned int []){ wide[size], high[size], 1, 0, 0, 0 })) {
			TH_LOG("format 0x%x", f->format);
		}
		p = a;
		if (is_planar(f)) {
			ASSERT_CU(cuArrayGetPlane(&p, a, 1));
		}
		memset(self->host, 7, 128);
		EXPECT_CU(write_box(p, self->host, 0, 0, 0, 64, 2, 1));
		EXPECT_CU(read_box(self->host, p, 0, 0, 0, 64, 2, 1));
		EXPECT_TRUE(all_are(self->host, 0, 128));
		EXPECT_CU(cuArrayDestroy(a));
	}
	/* The copies left staging memory behind. */
	EXPECT_LE(used(0) - self->was, 2 * (long long)MIB);
}

/* --- memory */

/* A lookup by address does not find an array's memory, and the memory is zero for each owner. */
TEST_F(array_memory, memory)
{
	size_t before, after, total, size;
	unsigned int found = 0, seen = 0, type;
	CUarray a, small[3];
	CUmipmappedArray m;
	CUdeviceptr from;
	char line[512];
	FILE *f;

	ASSERT_CU(cuMemGetInfo(&before, &total));
	ASSERT_CU(make(&a, 1024, 1024, 0, U8, 4, 0));
	ASSERT_CU(cuMemGetInfo(&after, &total));
	EXPECT_EQ(4 * MIB, before - after);
	f = fopen("/proc/self/maps", "re");
	ASSERT_NE(NULL, f);
	while (fgets(line, sizeof(line), f)) {
		unsigned long long first, last;

		if (sscanf(line, "%llx-%llx", &first, &last) != 2 || last - first != 4 * MIB)
			continue;
		/* Lookups must not find mappings of others than the library, either. */
		seen += strstr(line, "gpumem") != NULL;
		if (!cuMemGetAddressRange(&from, &size, first) ||
		    !cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, first) ||
		    cuMemFree(first) != INVALID)
			found++;
	}
	fclose(f);
	EXPECT_EQ(0, found);
	if (!strict())
		EXPECT_LE(1, seen);
	memset(self->host, 9, 4 * MIB);
	ASSERT_CU(write_box(a, self->host, 0, 0, 0, 4096, 1024, 1));
	EXPECT_CU(cuArrayDestroy(a));
	for (unsigned int round = 0; round < 2; round++) {
		for (unsigned int i = 0; i < 3; i++) {
			ASSERT_CU(make(&small[i], 100, 50, 3, U8, 4, 0));
			memset(self->host, 9, 60000);
			ASSERT_CU(read_box(self->host, small[i], 0, 0, 0, 400, 50, 3));
			EXPECT_TRUE(all_are(self->host, 0, 60000));
		}
		memset(self->host, 9, 60000);
		for (unsigned int i = 0; i < 3; i++)
			ASSERT_CU(write_box(small[i], self->host, 0, 0, 0, 400, 50, 3));
		for (unsigned int i = 0; i < 3; i++)
			ASSERT_CU(cuArrayDestroy(small[i]));
	}
	ASSERT_CU(cuMipmappedArrayCreate(&m, &(CUDA_ARRAY3D_DESCRIPTOR){
		.Width = 2048, .Height = 1024, .Format = U8, .NumChannels = 1 }, 12));
	EXPECT_CU(cuMipmappedArrayDestroy(m));
	ASSERT_CU(cuMemGetInfo(&after, &total));
	/* The library's staging memory stays. */
	EXPECT_EQ(0, (before - after) % (2 * MIB));
}

/* An array larger than the free memory is refused, and leaves no memory in use. */
TEST_F(array_memory, out_of_memory)
{
	size_t total, rows;

	ASSERT_CU(cuDeviceTotalMem(&total, 0));
	/* At least as many rows of 256 KiB as the device holds; self->keep uses a part of it. */
	rows = total / (256 * KIB);
	if (rows > 16384)
		rows = 16384;
	EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, can(16384, rows, 1 + total / (4096 * MIB), F32, 4, 0));
	EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, can_mipmap(16384, rows, 1 + total / (4096 * MIB), F32, 4,
						       0));
	EXPECT_EQ(self->was, used(0));
	EXPECT_CU(can(16384, 4, 1, F32, 4, 0));
	EXPECT_EQ(self->was, used(0));
}

TEST_F(array_memory, context_takes_its_arrays)
{
	CUDA_ARRAY3D_DESCRIPTOR d = describe(1000, 1000, 0, U8, 4, 0), q;
	CUmipmappedArray m;
	CUarray a, b, level;
	long long was;
	CUcontext ctx;

	ASSERT_CU(cuArray3DCreate(&b, &d));
	ASSERT_CU(write_box(b, self->host, 0, 0, 0, 100, 100, 1));
	was = used(0);
	ASSERT_CU(cuCtxCreate(&ctx, NULL, 0, 0));
	ASSERT_CU(cuArray3DCreate(&a, &d));
	ASSERT_CU(cuMipmappedArrayCreate(&m, &d, 3));
	ASSERT_CU(cuMipmappedArrayGetLevel(&level, m, 2));
	EXPECT_LT(was, used(0));
	/* Arrays of any context can be copied. */
	EXPECT_CU(cuMemcpyAtoA(a, 0, b, 0, 1000));
	EXPECT_CU(cuMemcpyAtoA(level, 0, b, 0, 1000));
	EXPECT_CU(cuCtxDestroy(ctx));
	EXPECT_EQ(was, used(0));
	EXPECT_EQ(HANDLE, cuArrayDestroy(a));
	EXPECT_EQ(HANDLE, cuMipmappedArrayDestroy(m));
	EXPECT_EQ(HANDLE, cuArray3DGetDescriptor(&q, level));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_CU(cuArrayDestroy(b));
}

/* cuArrayDestroy() waits for all work, as cuMemFree() does. */
TEST_F(array_memory, destroy_waits)
{
	unsigned char *pinned;
	struct load load;
	CUstream stream;
	CUarray a;

	ASSERT_CU(load_make(&load));
	ASSERT_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuMemAllocHost((void **)&pinned, 4096));
	ASSERT_CU(make(&a, 4096, 0, 0, U8, 1, 0));
	memset(self->host, 3, 4096);
	ASSERT_CU(cuMemcpyHtoA(a, 0, self->host, 4096));
	memset(pinned, 0, 4096);
	ASSERT_EQ(CUDA_ERROR_NOT_READY, load_put_busy(&load, stream));
	ASSERT_CU(cuMemcpyAtoHAsync(pinned, a, 0, 4096, stream));
	EXPECT_CU(cuArrayDestroy(a));
	EXPECT_CU(cuStreamQuery(stream));
	EXPECT_TRUE(all_are(pinned, 3, 4096));
	EXPECT_TRUE(load_done(&load));
}

/* --- threads: each array is destroyed once */

#define THREADS	4

static CUarray shared_arrays[64];
static unsigned int destroyed;
static pthread_barrier_t all_destroyed;

static void *destroyer(void *arg)
{
	unsigned char *bytes = calloc(1, 3000);
	const char *failed = NULL;

	if (!bytes || cuCtxSetCurrent(arg))
		failed = "start";
	for (unsigned int i = 0; i < ARRAY_SIZE(shared_arrays); i++) {
		CUresult result = cuArrayDestroy(shared_arrays[i]);

		if (!result)
			__atomic_fetch_add(&destroyed, 1, __ATOMIC_RELAXED);
		else if (result != HANDLE)
			failed = "destroy";
	}
	/* From now on those handles may mean other arrays. */
	pthread_barrier_wait(&all_destroyed);
	for (unsigned int i = 0; !failed && i < 16; i++) {
		CUarray a;

		if (make(&a, 100, 10, 3, U8, 1, LAYERED)) {
			failed = "make";
			break;
		}
		if (read_box(bytes, a, 0, 0, 0, 100, 10, 3) || !all_are(bytes, 0, 3000))
			failed = "read";
		memset(bytes, 1, 3000);
		if (write_box(a, bytes, 0, 0, 0, 100, 10, 3) || cuArrayDestroy(a))
			failed = "write";
	}
	free(bytes);
	return (void *)failed;
}

TEST_F(array_memory, threads)
{
	pthread_t threads[THREADS];

	for (unsigned int i = 0; i < ARRAY_SIZE(shared_arrays); i++)
		ASSERT_CU(make(&shared_arrays[i], 64, 64, 0, U8, 1, 0));
	ASSERT_EQ(0, pthread_barrier_init(&all_destroyed, NULL, THREADS));
	for (unsigned int i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, destroyer, self->ctx));
	for (unsigned int i = 0; i < THREADS; i++) {
		void *failed;

		ASSERT_EQ(0, pthread_join(threads[i], &failed));
		EXPECT_EQ(NULL, failed) {
			TH_LOG("%s", (char *)failed);
		}
	}
	EXPECT_EQ(ARRAY_SIZE(shared_arrays), destroyed);
}

TEST_HARNESS_MAIN
