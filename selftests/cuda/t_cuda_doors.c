// SPDX-License-Identifier: GPL-2.0
/*
 * The library under its other names: one driver in the process, whichever library a program calls,
 * and one entry of every function, which a memory hook can patch.
 *
 * The program is linked with libgpumem and loads the others from compat/, beside its folder.
 */
#include <dlfcn.h>
#include <sys/mman.h>

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nvml.h>

#include "kselftest_harness.h"
#include "common/util.h"
#include "compat_util.h"

static void *load(const char *name)
{
	return compat_load(name, RTLD_NOW | RTLD_LOCAL);
}

static bool start(CUcontext *ctx)
{
	return !cuInit(0) && !cuDevicePrimaryCtxRetain(ctx, 0) && !cuCtxSetCurrent(*ctx);
}

/* A library that is loaded later uses the program's driver. */
TEST(loaded_later)
{
	CUresult (*init)(unsigned int flags), (*current)(CUcontext *ctx);
	CUresult (*attribute)(void *data, CUpointer_attribute attribute, CUdeviceptr ptr);
	CUcontext ctx, other = NULL;
	CUdeviceptr ptr;
	unsigned int type = 0;
	void *lib;

	ASSERT_TRUE(start(&ctx));
	ASSERT_EQ(0, cuMemAlloc(&ptr, 4096));
	lib = load("libcuda.so.1");
	ASSERT_NE(NULL, lib);
	init = dlsym(lib, "cuInit");
	attribute = dlsym(lib, "cuPointerGetAttribute");
	current = dlsym(lib, "cuCtxGetCurrent");
	EXPECT_EQ((void *)cuInit, (void *)init);
	EXPECT_EQ(0, init(0));
	EXPECT_EQ(0, attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ptr));
	EXPECT_EQ(CU_MEMORYTYPE_DEVICE, type);
	EXPECT_EQ(0, current(&other));
	EXPECT_EQ(ctx, other);
	EXPECT_EQ(0, dlclose(lib));
	EXPECT_EQ(0, current(&other));
	EXPECT_EQ(ctx, other);
	EXPECT_EQ(0, cuMemFree(ptr));
}

/* Other libraries can use and free a library's memory, and the management library counts it. */
TEST(memory)
{
	static const char *const runtimes[] = { "libcudart.so.12", "libcudart.so.13" };
	nvmlReturn_t (*nvml_init)(void), (*handle)(unsigned int index, nvmlDevice_t *device);
	nvmlReturn_t (*info)(nvmlDevice_t device, nvmlMemory_t *memory);
	nvmlMemory_t before, after;
	nvmlDevice_t device;
	CUcontext ctx;
	void *lib, *p;

	ASSERT_TRUE(start(&ctx));
	lib = load("libnvidia-ml.so.1");
	ASSERT_NE(NULL, lib);
	nvml_init = dlsym(lib, "nvmlInit_v2");
	handle = dlsym(lib, "nvmlDeviceGetHandleByIndex_v2");
	info = dlsym(lib, "nvmlDeviceGetMemoryInfo");
	ASSERT_EQ(NVML_SUCCESS, nvml_init());
	ASSERT_EQ(NVML_SUCCESS, handle(0, &device));
	ASSERT_EQ(NVML_SUCCESS, info(device, &before));
	for (size_t i = 0; i < ARRAY_SIZE(runtimes); i++) {
		cudaError_t (*alloc)(void **ptr, size_t size), (*release)(void *ptr);

		lib = load(runtimes[i]);
		ASSERT_NE(NULL, lib);
		alloc = dlsym(lib, "cudaMalloc");
		release = dlsym(lib, "cudaFree");
		EXPECT_NE((void *)cudaMalloc, (void *)alloc);
		ASSERT_EQ(cudaSuccess, alloc(&p, 16 << 20));
		ASSERT_EQ(NVML_SUCCESS, info(device, &after));
		EXPECT_LE(before.used + (16 << 20), after.used);
		EXPECT_EQ(0, cuMemsetD8((CUdeviceptr)p, 1, 16 << 20));
		EXPECT_EQ(0, cuMemFree((CUdeviceptr)p));
		EXPECT_EQ(cudaErrorInvalidValue, release(p));
		ASSERT_EQ(cudaSuccess, cudaMalloc(&p, 4096));
		EXPECT_EQ(cudaSuccess, release(p));
	}
}

#if defined(__x86_64__)

/*
 * Memory hooks, as UCX and others install them: the beginning of a function becomes a jump to the
 * hook, near (five bytes) or far (twelve), and what it displaces runs elsewhere before a jump back.
 * A hook can move few instructions; the library's entries begin with one of them, constant loads.
 */
#define NEAR		5
#define FAR		12
#define CODE_BYTES	64

static unsigned char *code_page(void *near)
{
	const size_t size = 64 << 10;
	unsigned char *page;

	for (uintptr_t at = ((uintptr_t)near & ~(size - 1)) - (256 << 20); at; at -= size) {
		page = mmap((void *)at, size, PROT_READ | PROT_WRITE | PROT_EXEC,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (page != MAP_FAILED)
			return page;
	}
	return NULL;
}

static void far_jump(unsigned char *code, const void *to)
{
	memcpy(code, "\x48\xb8", 2);			/* mov $to,%rax */
	memcpy(code + 2, &to, 8);
	memcpy(code + 10, "\xff\xe0", 2);		/* jmp *%rax */
}

/* Patch a function: returns what calls the original, or NULL if its beginning cannot be moved. */
static void *patch(void *function, void *hook, unsigned int length)
{
	static unsigned char *page;
	static unsigned int used;
	const unsigned char *at = function;
	unsigned char *moved, *stub, *back;
	unsigned int bytes = 0;
	void *target;
	int distance;

	if (!page)
		page = code_page(function);
	if (!page || used + 2 * CODE_BYTES > 64 << 10)
		return NULL;
	moved = page + used;
	stub = moved + CODE_BYTES;
	used += 2 * CODE_BYTES;
	while (bytes < length) {
		if ((at[bytes] & 0xf8) != 0xb8)		/* mov $imm32,%reg */
			return NULL;
		bytes += 5;
	}
	memcpy(moved, function, bytes);
	/* Back by a jump through memory, which changes no register. */
	back = moved + bytes;
	memcpy(back, "\xff\x25\0\0\0\0", 6);
	target = (char *)function + bytes;
	memcpy(back + 6, &target, 8);
	far_jump(stub, hook);

	if (mprotect((void *)((uintptr_t)function & ~4095ul), 8192,
		     PROT_READ | PROT_WRITE | PROT_EXEC))
		return NULL;
	if (length == FAR) {
		far_jump(function, hook);
	} else {
		distance = stub - ((unsigned char *)function + NEAR);
		*(unsigned char *)function = 0xe9;	/* jmp stub */
		memcpy((char *)function + 1, &distance, 4);
	}
	return moved;
}

#define ARGUMENTS	unsigned long a, unsigned long b, unsigned long c, unsigned long d, \
			unsigned long e, unsigned long f

struct hook {
	const char *name;
	void *hook;
	unsigned long (*was)(ARGUMENTS);
	unsigned int calls;
};

/* The functions that UCX patches, and those that other hooks patch. */
#define HOOKED(X)								\
	X(cuMemAlloc) X(cuMemAlloc_v2) X(cuMemAllocManaged) X(cuMemAllocPitch)	\
	X(cuMemAllocPitch_v2) X(cuMemMap) X(cuModuleGetGlobal_v2) X(cuMemAllocAsync)	\
	X(cuMemAllocFromPoolAsync) X(cuLibraryGetGlobal) X(cuMemFree) X(cuMemFree_v2)	\
	X(cuMemFreeHost) X(cuMemUnmap) X(cuMemFreeAsync) X(cuMemHostAlloc)	\
	X(cuMemAllocHost_v2) X(cuMemHostRegister_v2) X(cuMemHostUnregister)	\
	X(cuIpcOpenMemHandle_v2) X(cuIpcCloseMemHandle) X(cuMemPoolImportPointer)

#define NUMBER(name)	AT_ ## name,
enum { HOOKED(NUMBER) HOOKS };

static struct hook hooks[HOOKS];

#define DEFINE(name)							\
	static unsigned long hook_ ## name(ARGUMENTS)			\
	{								\
		hooks[AT_ ## name].calls++;				\
		return hooks[AT_ ## name].was(a, b, c, d, e, f);	\
	}
HOOKED(DEFINE)

#define ROW(name)	[AT_ ## name] = { #name, (void *)hook_ ## name, NULL, 0 },
static struct hook hooks[HOOKS] = { HOOKED(ROW) };

#define CAUGHT(name, call)						\
	do {								\
		unsigned int calls_ = hooks[AT_ ## name].calls;		\
									\
		EXPECT_EQ(0, (int)(call));				\
		EXPECT_EQ(calls_ + 1, hooks[AT_ ## name].calls) {	\
			TH_LOG("%s: not caught in %s", #name, #call);	\
		}							\
	} while (0)

FIXTURE(hooked)
{
	void *cuda;
};

FIXTURE_VARIANT(hooked)
{
	unsigned int length;
};

FIXTURE_VARIANT_ADD(hooked, near_jump) { NEAR };
FIXTURE_VARIANT_ADD(hooked, far_jump) { FAR };

FIXTURE_SETUP(hooked)
{
	self->cuda = load("libcuda.so.1");
	ASSERT_NE(NULL, self->cuda);
	for (size_t i = 0; i < HOOKS; i++) {
		void *function = dlsym(RTLD_DEFAULT, hooks[i].name), *was;

		ASSERT_NE(NULL, function) {
			TH_LOG("%s", hooks[i].name);
		}
		EXPECT_EQ(function, dlsym(self->cuda, hooks[i].name));
		was = patch(function, hooks[i].hook, variant->length);
		ASSERT_NE(NULL, was) {
			TH_LOG("%s cannot be patched", hooks[i].name);
		}
		memcpy(&hooks[i].was, &was, sizeof(was));
	}
}

FIXTURE_TEARDOWN(hooked) { }

/* Every way to a function leads through its entry. */
TEST_F(hooked, every_route)
{
	static const char *const runtimes[] = { "libcudart.so.12", "libcudart.so.13" };
	CUresult (*alloc)(CUdeviceptr *ptr, size_t bytes), (*release)(CUdeviceptr ptr);
	static char memory[8192] __attribute__((aligned(4096)));
	CUcontext ctx;
	CUdeviceptr ptr;
	size_t pitch;
	void *p;

	ASSERT_TRUE(start(&ctx));
	/* Calls, and addresses from dlsym() and cuGetProcAddress(). */
	CAUGHT(cuMemAlloc_v2, cuMemAlloc(&ptr, 4096));
	CAUGHT(cuMemFree_v2, cuMemFree(ptr));
	alloc = dlsym(self->cuda, "cuMemAlloc_v2");
	release = dlsym(self->cuda, "cuMemFree_v2");
	CAUGHT(cuMemAlloc_v2, alloc(&ptr, 4096));
	CAUGHT(cuMemFree_v2, release(ptr));
	ASSERT_EQ(0, cuGetProcAddress("cuMemAlloc", (void **)&alloc, 13000, 0, NULL));
	ASSERT_EQ(0, cuGetProcAddress("cuMemFree", (void **)&release, 13000, 0, NULL));
	CAUGHT(cuMemAlloc_v2, alloc(&ptr, 4096));
	CAUGHT(cuMemFree_v2, release(ptr));
	CAUGHT(cuMemAllocPitch_v2, cuMemAllocPitch(&ptr, &pitch, 100, 10, 4));
	CAUGHT(cuMemFree_v2, cuMemFree(ptr));
	CAUGHT(cuMemHostAlloc, cuMemHostAlloc(&p, 4096, 0));
	CAUGHT(cuMemFreeHost, cuMemFreeHost(p));
	CAUGHT(cuMemAllocHost_v2, cuMemAllocHost(&p, 4096));
	CAUGHT(cuMemFreeHost, cuMemFreeHost(p));
	CAUGHT(cuMemHostRegister_v2, cuMemHostRegister(memory, sizeof(memory), 0));
	CAUGHT(cuMemHostUnregister, cuMemHostUnregister(memory));

	/* The runtime API of libgpumem. */
	CAUGHT(cuMemAlloc_v2, cudaMalloc(&p, 4096));
	CAUGHT(cuMemFree_v2, cudaFree(p));
	CAUGHT(cuMemAllocManaged, cudaMallocManaged(&p, 4096, cudaMemAttachGlobal));
	CAUGHT(cuMemFree_v2, cudaFree(p));
	CAUGHT(cuMemHostAlloc, cudaMallocHost(&p, 4096));
	CAUGHT(cuMemFreeHost, cudaFreeHost(p));
	CAUGHT(cuMemAllocAsync, cudaMallocAsync(&p, 4096, NULL));
	CAUGHT(cuMemFreeAsync, cudaFreeAsync(p, NULL));

	/* The runtime API of both versions of libcudart. */
	for (size_t i = 0; i < ARRAY_SIZE(runtimes); i++) {
		void *lib = load(runtimes[i]);
		cudaError_t (*rt_malloc)(void **ptr, size_t size), (*rt_free)(void *ptr);
		cudaError_t (*rt_host)(void **ptr, size_t size), (*rt_free_host)(void *ptr);
		cudaError_t (*rt_register)(void *ptr, size_t size, unsigned int flags);
		cudaError_t (*rt_unregister)(void *ptr);

		ASSERT_NE(NULL, lib);
		rt_malloc = dlsym(lib, "cudaMalloc");
		rt_free = dlsym(lib, "cudaFree");
		rt_host = dlsym(lib, "cudaMallocHost");
		rt_free_host = dlsym(lib, "cudaFreeHost");
		rt_register = dlsym(lib, "cudaHostRegister");
		rt_unregister = dlsym(lib, "cudaHostUnregister");
		CAUGHT(cuMemAlloc_v2, rt_malloc(&p, 4096));
		CAUGHT(cuMemFree_v2, rt_free(p));
		CAUGHT(cuMemHostAlloc, rt_host(&p, 4096));
		CAUGHT(cuMemFreeHost, rt_free_host(p));
		CAUGHT(cuMemHostRegister_v2, rt_register(memory, sizeof(memory), 0));
		CAUGHT(cuMemHostUnregister, rt_unregister(memory));
	}
}

/* A function that is absent can be patched, too, and fails as before. */
TEST_F(hooked, absent)
{
	CUresult (*map)(void) = dlsym(self->cuda, "cuLibraryGetGlobal");
	CUcontext ctx;

	EXPECT_EQ(CUDA_ERROR_NOT_INITIALIZED, map());
	ASSERT_TRUE(start(&ctx));
	EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, map());
	EXPECT_EQ(2, hooks[AT_cuLibraryGetGlobal].calls);
}

#endif

TEST_HARNESS_MAIN
