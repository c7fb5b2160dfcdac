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
		"cudaLaunchKernel", "cudaLaunchKernel_ptsz", "cudaGraphCreate", "cudaCreateSurfaceObject",
		"cudaCreateTextureObject", "cudaFuncGetAttributes",
		"cudaMemcpyToSymbol", "cudaMemcpyToSymbolAsync", "cudaMemcpyFromSymbol",
		"cudaMemcpyFromSymbolAsync", "cudaGetSymbolAddress", "cudaGetSymbolSize",
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

static void *symbol(const struct runtime *rt, const char *name)
{
	void *fn = dlvsym(rt->lib, name, rt->soname);

	if (!fn)
		fprintf(stderr, "# %s\n", dlerror());
	return fn;
}

#define FIND(rt, type, name, args)				\
	type (*name) args = symbol(rt, #name);			\
								\
	ASSERT_NE(NULL, name)

/* Arrays are the same in both generations, also the deprecated copies. */
TEST_F(so, arrays)
{
	const struct cudaChannelFormatDesc desc = { 8, 8, 0, 0, cudaChannelFormatKindUnsigned };
	unsigned char data[400], back[400] = { 0 };
	cudaArray_t array;

	FIND(&self->rt, cudaError_t, cudaMallocArray,
	     (cudaArray_t *, const struct cudaChannelFormatDesc *, size_t, size_t, unsigned int));
	FIND(&self->rt, cudaError_t, cudaFreeArray, (cudaArray_t));
	FIND(&self->rt, cudaError_t, cudaMemcpyToArray,
	     (cudaArray_t, size_t, size_t, const void *, size_t, enum cudaMemcpyKind));
	FIND(&self->rt, cudaError_t, cudaMemcpy2DFromArray,
	     (void *, size_t, cudaArray_const_t, size_t, size_t, size_t, size_t, enum cudaMemcpyKind));
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = i * 7;
	ASSERT_EQ(cudaSuccess, cudaMallocArray(&array, &desc, 20, 10, 0));
	EXPECT_EQ(cudaSuccess, cudaMemcpyToArray(array, 0, 0, data, 400, cudaMemcpyHostToDevice));
	EXPECT_EQ(cudaSuccess, cudaMemcpy2DFromArray(back, 40, array, 0, 0, 40, 10, cudaMemcpyDefault));
	EXPECT_EQ(0, memcmp(data, back, sizeof(data)));
	EXPECT_EQ(cudaSuccess, cudaFreeArray(array));
	EXPECT_EQ(cudaErrorInvalidResourceHandle, cudaFreeArray(array));
	EXPECT_EQ(cudaErrorInvalidResourceHandle, self->rt.get_last());
}

/* Batches have another argument in CUDA 12: the index of the copy that failed. */
TEST_F(so, batches)
{
	const bool old = variant->version < 13000;
	const size_t none = SIZE_MAX;
	size_t sizes[2] = { 100, 200 }, first = 0, failed = none;
	struct cudaMemcpyAttributes attr = { .srcAccessOrder = cudaMemcpySrcAccessOrderStream };
	struct cudaMemcpy3DBatchOp ops[2];
	unsigned char data[200], back[200];
	void *srcs[2] = { data, data }, *dsts[2];
	cudaStream_t stream;

	FIND(&self->rt, cudaError_t, cudaStreamCreate, (cudaStream_t *));
	FIND(&self->rt, cudaError_t, cudaStreamSynchronize, (cudaStream_t));
	FIND(&self->rt, cudaError_t, cudaMemcpyBatchAsync, ());
	FIND(&self->rt, cudaError_t, cudaMemcpy3DBatchAsync, ());
	cudaError_t (*linear12)(void **, void **, size_t *, size_t, struct cudaMemcpyAttributes *, size_t *,
			size_t,
				size_t *, cudaStream_t) = (void *)cudaMemcpyBatchAsync;
	cudaError_t (*linear13)(void **, void **, size_t *, size_t, struct cudaMemcpyAttributes *, size_t *,
			size_t,
				cudaStream_t) = (void *)cudaMemcpyBatchAsync;
	cudaError_t (*boxes12)(size_t, struct cudaMemcpy3DBatchOp *, size_t *, unsigned long long,
			cudaStream_t) =
		(void *)cudaMemcpy3DBatchAsync;
	cudaError_t (*boxes13)(size_t, struct cudaMemcpy3DBatchOp *, unsigned long long, cudaStream_t) =
		(void *)cudaMemcpy3DBatchAsync;

	ASSERT_EQ(cudaSuccess, cudaStreamCreate(&stream));
	memset(data, 0x39, sizeof(data));
	ASSERT_EQ(cudaSuccess, self->rt.malloc(&dsts[0], 200));
	ASSERT_EQ(cudaSuccess, self->rt.malloc(&dsts[1], 200));
	EXPECT_EQ(cudaSuccess, old ? linear12(dsts, srcs, sizes, 2, &attr, &first, 1, &failed, stream) :
			       linear13(dsts, srcs, sizes, 2, &attr, &first, 1, stream));
	EXPECT_EQ(cudaSuccess, cudaStreamSynchronize(stream));
	EXPECT_EQ(cudaSuccess, self->rt.memcpy(back, dsts[1], 200, cudaMemcpyDeviceToHost));
	EXPECT_EQ(0, memcmp(data, back, 200));
	sizes[1] = 0;
	EXPECT_EQ(cudaErrorInvalidValue, old ? linear12(dsts, srcs, sizes, 2, &attr, &first, 1, &failed,
			stream) :
					 linear13(dsts, srcs, sizes, 2, &attr, &first, 1, stream));
	EXPECT_EQ(old ? 1 : none, failed);
	memset(ops, 0, sizeof(ops));
	ops[0].src.type = ops[0].dst.type = cudaMemcpyOperandTypePointer;
	ops[0].src.op.ptr.ptr = dsts[1];
	ops[0].dst.op.ptr.ptr = dsts[0];
	ops[0].extent.width = 20;
	ops[0].extent.height = 10;
	ops[0].extent.depth = 1;
	ops[0].srcAccessOrder = cudaMemcpySrcAccessOrderStream;
	ops[1] = ops[0];
	EXPECT_EQ(cudaSuccess, old ? boxes12(1, ops, &failed, 0, stream) : boxes13(1, ops, 0, stream));
	EXPECT_EQ(cudaSuccess, cudaStreamSynchronize(stream));
	EXPECT_EQ(cudaSuccess, self->rt.memcpy(back, dsts[0], 200, cudaMemcpyDeviceToHost));
	EXPECT_EQ(0, memcmp(data, back, 200));
	ops[1].extent.width = 0;
	failed = none;
	EXPECT_EQ(cudaErrorInvalidValue, old ? boxes12(2, ops, &failed, 0, stream) : boxes13(2, ops, 0,
			stream));
	EXPECT_EQ(old ? 1 : none, failed);
}

/* The parameters of CUDA 10 are shorter, and CUDA 12's library has both. */
TEST_F(so, semaphores)
{
	struct old_params {
		unsigned long long value, sync, key[2];
		unsigned int flags;
	} params = { .value = 3 };
	/* A wait has a timeout beside the key, which makes it longer. */
	struct { unsigned long long value, sync, key; unsigned int flags; } signal = { .value = 3 };
	struct cudaExternalSemaphoreHandleDesc desc = { .type = cudaExternalSemaphoreHandleTypeTimelineSemaphoreFd };
	struct cudaExternalSemaphoreSignalParams full_signal = { .params.fence.value = 4 };
	struct cudaExternalSemaphoreWaitParams full_wait = { .params.fence.value = 4 };
	const bool old = variant->version < 13000;
	CUresult (*create)(CUexternalSemaphore *, unsigned long long, unsigned int);
	CUresult (*export)(int *, CUexternalSemaphore, unsigned int);
	cudaExternalSemaphore_t semaphore;
	CUexternalSemaphore own;
	cudaStream_t a, b;
	void *driver;

	FIND(&self->rt, cudaError_t, cudaStreamCreateWithFlags, (cudaStream_t *, unsigned int));
	FIND(&self->rt, cudaError_t, cudaStreamQuery, (cudaStream_t));
	FIND(&self->rt, cudaError_t, cudaStreamSynchronize, (cudaStream_t));
	FIND(&self->rt, cudaError_t, cudaImportExternalSemaphore,
	     (cudaExternalSemaphore_t *, const struct cudaExternalSemaphoreHandleDesc *));
	FIND(&self->rt, cudaError_t, cudaDestroyExternalSemaphore, (cudaExternalSemaphore_t));
	FIND(&self->rt, cudaError_t, cudaSignalExternalSemaphoresAsync,
	     (const cudaExternalSemaphore_t *, const void *, unsigned int, cudaStream_t));
	FIND(&self->rt, cudaError_t, cudaWaitExternalSemaphoresAsync,
	     (const cudaExternalSemaphore_t *, const void *, unsigned int, cudaStream_t));

	ASSERT_EQ(cudaSuccess, cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
	ASSERT_EQ(cudaSuccess, cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
	driver = dlopen("libgpumem-driver.so.1", RTLD_NOW | RTLD_NOLOAD);
	ASSERT_NE(NULL, driver);
	create = dlsym(driver, "gpumem_create_semaphore");
	export = dlsym(driver, "gpumem_export_semaphore");
	ASSERT_EQ(CUDA_SUCCESS, create(&own, 0, 1));
	ASSERT_EQ(CUDA_SUCCESS, export(&desc.handle.fd, own, 0));
	ASSERT_EQ(cudaSuccess, cudaImportExternalSemaphore(&semaphore, &desc));
	if (old) {
		EXPECT_EQ(cudaSuccess, cudaWaitExternalSemaphoresAsync(&semaphore, &params, 1, a));
		EXPECT_EQ(cudaErrorNotReady, cudaStreamQuery(a));
		EXPECT_EQ(cudaSuccess, cudaSignalExternalSemaphoresAsync(&semaphore, &signal, 1, b));
		EXPECT_EQ(cudaSuccess, cudaStreamSynchronize(a));
		signal.flags = 2;
		EXPECT_EQ(cudaErrorInvalidValue, cudaSignalExternalSemaphoresAsync(&semaphore, &signal, 1, b));
		params.flags = 4;
		EXPECT_EQ(cudaErrorInvalidValue, cudaWaitExternalSemaphoresAsync(&semaphore, &params, 1, b));
		EXPECT_EQ(cudaErrorInvalidValue, cudaSignalExternalSemaphoresAsync(&semaphore, NULL, 1, b));
		EXPECT_EQ(cudaErrorInvalidValue, cudaWaitExternalSemaphoresAsync(&semaphore, &params, 0, b));
		cudaSignalExternalSemaphoresAsync = symbol(&self->rt, "cudaSignalExternalSemaphoresAsync_v2");
		cudaWaitExternalSemaphoresAsync = symbol(&self->rt, "cudaWaitExternalSemaphoresAsync_v2");
	}
	EXPECT_EQ(cudaSuccess, cudaWaitExternalSemaphoresAsync(&semaphore, &full_wait, 1, a));
	EXPECT_EQ(cudaErrorNotReady, cudaStreamQuery(a));
	EXPECT_EQ(cudaSuccess, cudaSignalExternalSemaphoresAsync(&semaphore, &full_signal, 1, b));
	EXPECT_EQ(cudaSuccess, cudaStreamSynchronize(a));
	EXPECT_EQ(cudaSuccess, cudaDestroyExternalSemaphore(semaphore));
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
