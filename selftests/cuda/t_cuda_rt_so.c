// SPDX-License-Identifier: GPL-2.0
/*
 * Tests the runtime API in the libraries libcudart.so.12 and libcudart.so.13.  The program loads
 * them as programs do and looks functions up in the symbol version that has the library's name.
 * They use the libcuda.so.1 in their directory.
 *
 * This program calls no function of libgpumem, so the linker does not link it with libgpumem: the
 * only driver in the process is the one that libcudart loads.
 */
#include <dlfcn.h>
#include <link.h>

#include "kselftest_harness.h"
#include "common/util.h"
#include "compat_util.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#define BEYOND	0xcc
#define CANARY	64

/* The functions that are the same in both generations. */
struct runtime {
	void *lib;
	const char *soname;
	cudaError_t (*malloc)(void **ptr, size_t size);
	cudaError_t (*free)(void *ptr);
	cudaError_t (*memcpy)(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind);
	cudaError_t (*memset)(void *ptr, int value, size_t count);
	cudaError_t (*get_version)(int *version);
	cudaError_t (*get_last)(void);
	cudaError_t (*get_properties)(void *prop, int device);
	cudaError_t (*get_properties_v2)(void *prop, int device);
	cudaError_t (*get_attributes)(void *attributes, const void *ptr);
	cudaError_t (*set_device)(int device);
};

/* Load a library from beside the directory of this program, or from where the loader finds it. */
static void *load(const char *name)
{
	void *lib = compat_load(name, RTLD_NOW);

	return lib ? lib : dlopen(name, RTLD_NOW);
}

static bool open_runtime(struct runtime *rt, const char *soname)
{
	const struct {
		const char *name;
		void *slot;
	} functions[] = {
		{ "cudaMalloc", &rt->malloc }, { "cudaFree", &rt->free },
		{ "cudaMemcpy", &rt->memcpy }, { "cudaMemset", &rt->memset },
		{ "cudaRuntimeGetVersion", &rt->get_version },
		{ "cudaGetLastError", &rt->get_last },
		{ "cudaGetDeviceProperties", &rt->get_properties },
		{ "cudaGetDeviceProperties_v2", &rt->get_properties_v2 },
		{ "cudaPointerGetAttributes", &rt->get_attributes },
		{ "cudaSetDevice", &rt->set_device },
	};

	rt->soname = soname;
	rt->lib = load(soname);
	if (!rt->lib) {
		fprintf(stderr, "# %s\n", dlerror());
		return false;
	}
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
		void *fn = dlvsym(rt->lib, functions[i].name, soname);

		if (!fn) {
			fprintf(stderr, "# %s\n", dlerror());
			return false;
		}
		memcpy(functions[i].slot, &fn, sizeof(fn));
	}
	return true;
}

/* Counts the libraries of this process whose names begin with a word. */
struct search {
	const char *word;
	unsigned int found;
};

static int look(struct dl_phdr_info *info, size_t size, void *arg)
{
	const char *base = strrchr(info->dlpi_name, '/');
	struct search *search = arg;

	(void)size;
	base = base ? base + 1 : info->dlpi_name;
	search->found += !strncmp(base, search->word, strlen(search->word));
	return 0;
}

static unsigned int loaded(const char *word)
{
	struct search search = { word, 0 };

	dl_iterate_phdr(look, &search);
	return search.found;
}

FIXTURE(so)
{
	struct runtime rt;
};

FIXTURE_VARIANT(so)
{
	const char *soname;
	int version;
	size_t properties, properties_v2, attributes;
};

/* cudaGetDeviceProperties() has the structure of CUDA 11 in generation 12, and its own in 13. */
FIXTURE_VARIANT_ADD(so, twelve)
{
	"libcudart.so.12", 12090, 728, 1032, 24,
};

FIXTURE_VARIANT_ADD(so, thirteen)
{
	"libcudart.so.13", 13030, 1008, 1032, 88,
};

FIXTURE_SETUP(so)
{
	ASSERT_TRUE(dev_quiet(10));
	ASSERT_EQ(0, loaded("libgpumem"));
	ASSERT_EQ(0, loaded("libcuda"));
	ASSERT_TRUE(open_runtime(&self->rt, variant->soname));
}

FIXTURE_TEARDOWN_PARENT(so)
{
	EXPECT_TRUE(dev_quiet(10));
}

TEST_F(so, memory)
{
	const struct runtime *rt = &self->rt;
	CUresult (*get_current)(CUcontext *ctx);
	CUresult (*get_range)(CUdeviceptr *base, size_t *size, CUdeviceptr ptr);
	unsigned char data[1000], back[1000];
	CUcontext ctx = NULL;
	void *driver, *p;
	size_t size = 0;
	int version = 0;

	EXPECT_EQ(cudaSuccess, rt->get_version(&version));
	EXPECT_EQ(variant->version, version);
	ASSERT_EQ(cudaSuccess, rt->malloc(&p, sizeof(data)));
	memset(data, 0x5a, sizeof(data));
	EXPECT_EQ(cudaSuccess, rt->memcpy(p, data, sizeof(data), cudaMemcpyHostToDevice));
	EXPECT_EQ(cudaSuccess, rt->memset(p, 0xa5, 10));
	EXPECT_EQ(cudaSuccess, rt->memcpy(back, p, sizeof(back), cudaMemcpyDeviceToHost));
	memset(data, 0xa5, 10);
	EXPECT_EQ(0, memcmp(data, back, sizeof(data)));
	/* The libcuda in this process made the context and the memory. */
	EXPECT_EQ(1, loaded("libcuda.so"));
	driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	ASSERT_NE(NULL, driver);
	get_current = dlsym(driver, "cuCtxGetCurrent");
	get_range = dlsym(driver, "cuMemGetAddressRange_v2");
	ASSERT_NE(NULL, get_current);
	ASSERT_NE(NULL, get_range);
	EXPECT_EQ(CUDA_SUCCESS, get_current(&ctx));
	EXPECT_NE(NULL, ctx);
	EXPECT_EQ(CUDA_SUCCESS, get_range(NULL, &size, (uintptr_t)p));
	EXPECT_EQ(sizeof(data), size);
	EXPECT_EQ(cudaSuccess, rt->free(p));
	EXPECT_EQ(cudaErrorInvalidValue, rt->free(p));
	EXPECT_EQ(cudaErrorInvalidValue, rt->get_last());
	EXPECT_EQ(cudaSuccess, rt->get_last());
}

/* A function writes as many bytes of a structure as the generation defines. */
TEST_F(so, structures)
{
	static unsigned char bytes[2048];
	const struct runtime *rt = &self->rt;
	struct cudaPointerAttributes *a = (void *)bytes;
	void *p;

	memset(bytes, BEYOND, sizeof(bytes));
	ASSERT_EQ(cudaSuccess, rt->get_properties(bytes, 0));
	EXPECT_NE(BEYOND, bytes[variant->properties - 1]);
	EXPECT_TRUE(all_are(bytes + variant->properties, BEYOND, CANARY));
	memset(bytes, BEYOND, sizeof(bytes));
	ASSERT_EQ(cudaSuccess, rt->get_properties_v2(bytes, 0));
	EXPECT_NE(BEYOND, bytes[variant->properties_v2 - 1]);
	EXPECT_TRUE(all_are(bytes + variant->properties_v2, BEYOND, CANARY));
	ASSERT_EQ(cudaSuccess, rt->malloc(&p, 1));
	memset(bytes, BEYOND, sizeof(bytes));
	ASSERT_EQ(cudaSuccess, rt->get_attributes(bytes, p));
	EXPECT_EQ(cudaMemoryTypeDevice, a->type);
	EXPECT_EQ(p, a->devicePointer);
	EXPECT_NE(BEYOND, bytes[variant->attributes - 1]);
	EXPECT_TRUE(all_are(bytes + variant->attributes, BEYOND, CANARY));
	EXPECT_EQ(cudaSuccess, rt->free(p));
}

/* Functions that are not implemented exist and report that; the start-up functions work. */
TEST_F(so, absent)
{
	static const char *const names[] = {
		"cudaLaunchKernel", "cudaLaunchKernel_ptsz", "cudaGraphCreate", "cudaMallocArray",
		"cudaCreateTextureObject", "cudaMemcpyToSymbol", "cudaFuncGetAttributes",
		"cudaOccupancyMaxActiveBlocksPerMultiprocessor", "cudaGraphicsMapResources",
		"__cudaPopCallConfiguration",
	};
	const struct runtime *rt = &self->rt;
	unsigned int (*push)(void);
	void **(*register_binary)(void *binary);

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		cudaError_t (*fn)(void) = dlvsym(rt->lib, names[i], rt->soname);

		ASSERT_NE(NULL, fn) {
			TH_LOG("%s", names[i]);
		}
		EXPECT_EQ(cudaErrorNotSupported, fn());
		EXPECT_EQ(cudaErrorNotSupported, rt->get_last());
	}
	register_binary = dlvsym(rt->lib, "__cudaRegisterFatBinary", rt->soname);
	ASSERT_NE(NULL, register_binary);
	EXPECT_NE(NULL, register_binary(NULL));
	EXPECT_EQ(cudaSuccess, rt->get_last());
	push = dlvsym(rt->lib, "__cudaPushCallConfiguration", rt->soname);
	ASSERT_NE(NULL, push);
	EXPECT_NE(0, push());
	EXPECT_EQ(cudaErrorNotSupported, rt->get_last());
}

/* Both generations in one process use one driver: each can use memory of the other. */
TEST_F(so, both)
{
	const bool old = !strcmp(variant->soname, "libcudart.so.12");
	const struct runtime *rt = &self->rt;
	struct runtime other;
	unsigned char back[64];
	void *p, *q;

	ASSERT_TRUE(open_runtime(&other, old ? "libcudart.so.13" : "libcudart.so.12"));
	EXPECT_EQ(2, loaded("libcudart.so"));
	EXPECT_EQ(1, loaded("libcuda.so"));
	ASSERT_EQ(cudaSuccess, rt->set_device(1));
	ASSERT_EQ(cudaSuccess, rt->malloc(&p, 64));
	ASSERT_EQ(cudaSuccess, other.malloc(&q, 64));
	EXPECT_EQ(cudaSuccess, other.memset(p, 0x42, 64));
	EXPECT_EQ(cudaSuccess, rt->memcpy(q, p, 64, cudaMemcpyDeviceToDevice));
	EXPECT_EQ(cudaSuccess, rt->memcpy(back, q, 64, cudaMemcpyDefault));
	EXPECT_TRUE(all_are(back, 0x42, 64));
	EXPECT_EQ(cudaSuccess, other.free(p));
	EXPECT_EQ(cudaErrorInvalidValue, rt->free(p));
	/* Each library has its own last error. */
	EXPECT_EQ(cudaSuccess, other.get_last());
	EXPECT_EQ(cudaErrorInvalidValue, rt->get_last());
	EXPECT_EQ(cudaSuccess, rt->free(q));
}

TEST_HARNESS_MAIN
