// SPDX-License-Identifier: GPL-2.0
/*
 * Decompression on a machine that lacks some of the libraries: attributes, what is refused, and
 * that snappy, which needs the C++ library, is loaded only when a program uses it.
 *
 * A case hides a library by mounting /dev/null over it, in a mount namespace of its own.  This
 * program is linked with none of the libraries, so its data is written by hand: literals without
 * compression.
 */
#include <dlfcn.h>
#include <glob.h>
#include <sched.h>
#include <sys/mount.h>

#include "kselftest_harness.h"
#include "cuda_util.h"

#define KINDS	3
#define TEXT	"literal"
#define LENGTH	7

static const struct kind {
	CUmemDecompressAlgorithm algo;
	const char *library;
	unsigned char data[16];
	size_t bytes;
} kinds[KINDS] = {
	/* the last block, stored: its length, and the inverted length */
	{ CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE, "libdeflate.so.0",
	  { 1, LENGTH, 0, 255 - LENGTH, 255, 'l', 'i', 't', 'e', 'r', 'a', 'l' }, 5 + LENGTH },
	/* the text's length, a tag with the literal's length minus 1, the literal */
	{ CU_MEM_DECOMPRESS_ALGORITHM_SNAPPY, "libsnappy.so.1",
	  { LENGTH, (LENGTH - 1) << 2, 'l', 'i', 't', 'e', 'r', 'a', 'l' }, 2 + LENGTH },
	/* a token (the number of literals, no match), the literals */
	{ CU_MEM_DECOMPRESS_ALGORITHM_LZ4, "liblz4.so.1",
	  { LENGTH << 4, 'l', 'i', 't', 'e', 'r', 'a', 'l' }, 1 + LENGTH },
};

FIXTURE(codecs)
{
	CUcontext ctx;
	CUdeviceptr p;		/* at 0 the data, at 4096 the result, at 8192 the text */
};

FIXTURE_VARIANT(codecs)
{
	unsigned int hidden;	/* a bit for each of kinds */
};

#define VARIANT(name, bits) FIXTURE_VARIANT_ADD(codecs, name) { .hidden = bits }

VARIANT(all_there, 0);
VARIANT(no_deflate, 1);
VARIANT(no_snappy, 2);
VARIANT(no_lz4, 4);
VARIANT(snappy_alone, 5);
VARIANT(none, 7);

/* Hide every file that the linker may find under this name: their number.  @count: only count. */
static int hide(const char *library, bool count)
{
	static const char *const places[] = {
		"/lib/%s", "/lib/*/%s", "/usr/lib/%s", "/usr/lib/*/%s", "/usr/lib64/%s",
		"/usr/local/lib/%s", "/usr/local/lib/*/%s",
	};
	char pattern[128], path[PATH_MAX];
	int hidden = 0;

	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		glob_t found;

		snprintf(pattern, sizeof(pattern), places[i], library);
		if (glob(pattern, 0, NULL, &found))
			continue;
		for (size_t n = 0; n < found.gl_pathc; n++)
			hidden += realpath(found.gl_pathv[n], path) &&
				  (count || !mount("/dev/null", path, NULL, MS_BIND, NULL));
		globfree(&found);
	}
	return hidden;
}

static bool mapped(const char *library)
{
	char line[PATH_MAX + 128];
	FILE *f = fopen("/proc/self/maps", "r");
	bool found = false;

	while (f && fgets(line, sizeof(line), f))
		found |= strstr(line, library) != NULL;
	if (f)
		fclose(f);
	return found;
}

FIXTURE_SETUP(codecs)
{
	if (geteuid())
		SKIP(return, "only root can hide a library");
	for (unsigned int i = 0; i < KINDS; i++)
		if (!hide(kinds[i].library, true))
			SKIP(return, "%s is not installed", kinds[i].library);
	ASSERT_TRUE(dev_quiet(10));
	ASSERT_EQ(0, unshare(CLONE_NEWNS));
	ASSERT_EQ(0, mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	for (unsigned int i = 0; i < KINDS; i++) {
		if (!(variant->hidden & 1u << i))
			continue;
		ASSERT_LT(0, hide(kinds[i].library, false));
		ASSERT_EQ(NULL, dlopen(kinds[i].library, RTLD_NOW)) {
			TH_LOG("%s is not hidden", kinds[i].library);
		}
	}
	ASSERT_CU(cuda_start(&self->ctx));
	ASSERT_CU(cuMemAlloc(&self->p, 12288));
}

QUIET_AFTERWARDS(codecs)

TEST_F(codecs, what_is_there_works)
{
	unsigned int left = 0, n;
	int value;

	for (n = 0; n < KINDS; n++)
		left |= variant->hidden & 1u << n ? 0 : kinds[n].algo;
	ASSERT_CU(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK,
				       0));
	EXPECT_EQ(left, (unsigned int)value);
	ASSERT_CU(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH,
				       0));
	EXPECT_EQ(left ? 4 * MIB : 0, (unsigned int)value);
	EXPECT_FALSE(mapped("libsnappy"));
	/* Snappy is used last: its library must not be loaded before. */
	for (n = 0; n < 2 * KINDS; n++) {
		const struct kind *kind = &kinds[n % KINDS];
		bool there = !(variant->hidden & 1u << n % KINDS);
		CUmemDecompressParams params = {
			.srcNumBytes = kind->bytes, .dstNumBytes = LENGTH,
			.src = (void *)(uintptr_t)self->p,
			.dst = (void *)(uintptr_t)(self->p + 8192),
			.dstActBytes = (void *)(uintptr_t)(self->p + 4096),
			.algo = kind->algo,
		};
		bool snappy = kind->algo == CU_MEM_DECOMPRESS_ALGORITHM_SNAPPY;
		size_t fail = 4711;
		char text[LENGTH + 1];
		__u32 got;

		if (snappy != (n >= KINDS))
			continue;
		ASSERT_CU(cuMemsetD8(self->p, 'x', 12288));
		ASSERT_CU(cuMemcpyHtoD(self->p, kind->data, kind->bytes));
		EXPECT_EQ(there ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED,
			  cuMemBatchDecompressAsync(&params, 1, 0, &fail, NULL)) {
			TH_LOG("%s", kind->library);
		}
		/* If no library is left, the call does not write the index. */
		if (!there)
			EXPECT_EQ(left ? 0 : 4711, fail);
		ASSERT_CU(cuCtxSynchronize());
		ASSERT_CU(cuMemcpyDtoH(text, self->p + 8192, sizeof(text)));
		EXPECT_EQ(0, memcmp(text, there ? TEXT "x" : "xxxxxxxx", sizeof(text))) {
			TH_LOG("%s: %.8s", kind->library, text);
		}
		ASSERT_CU(cuMemcpyDtoH(&got, self->p + 4096, sizeof(got)));
		EXPECT_EQ(there ? LENGTH : 0x78787878, got);
		EXPECT_EQ(there && snappy, mapped("libsnappy"));
	}
}

/* Pools work whatever libraries are missing. */
TEST_F(codecs, the_rest_works)
{
	CUmemoryPool pool;
	CUdeviceptr q;
	int value = 7;

	ASSERT_CU(pool_make_decompress(&pool));
	ASSERT_CU(cuMemAllocFromPoolAsync(&q, 1000, pool, NULL));
	EXPECT_CU(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, q));
	EXPECT_EQ(variant->hidden != 7, value);
	EXPECT_CU(cuMemFreeAsync(q, NULL));
	EXPECT_CU(cuStreamSynchronize(NULL));
	EXPECT_CU(cuMemPoolDestroy(pool));
	EXPECT_FALSE(mapped("libsnappy"));
}

TEST_HARNESS_MAIN
