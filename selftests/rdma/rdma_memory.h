/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kinds of memory that the tests register, and patterns in them.
 */
#ifndef GPUMEM_SELFTESTS_RDMA_MEMORY_H
#define GPUMEM_SELFTESTS_RDMA_MEMORY_H

#include <stdlib.h>
#include <sys/mman.h>

enum kind {
	DEVICE,		/* cuMemAlloc() */
	POOL,		/* cuMemAllocAsync() */
	MAPPED,		/* cuMemMap(): two handles, side by side */
	MANAGED,	/* cuMemAllocManaged() */
	REGISTERED,	/* cuMemHostRegister() */
	HOST,		/* cuMemHostAlloc() */
	IMPORTED,	/* cuIpcOpenMemHandle() of another process's memory */
	PLAIN,		/* malloc() */
};

#define BYTES		MIB

struct memory {
	enum kind kind;
	CUdeviceptr p;		/* BYTES of it are the test's */
	CUdeviceptr base;
	size_t reserved;
	CUmemGenericAllocationHandle handles[2];
	struct peer holder;	/* of IMPORTED memory */
	CUdeviceptr held;	/* its address there */
};

#define TRY(call) do {				\
	CUresult result_ = (call);		\
						\
	if (result_)				\
		return result_;			\
} while (0)

/* Give the device rights of mapped memory, CU_MEM_ACCESS_FLAGS_... */
static inline CUresult memory_rights(const struct memory *m, CUmemAccess_flags flags)
{
	const CUmemAccessDesc access = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE }, .flags = flags,
	};

	return cuMemSetAccess(m->base, m->reserved, &access, 1);
}

/* Two handles of one granule each; the test's bytes lie on both. */
static inline CUresult memory_map(struct memory *m)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	size_t granule;

	TRY(cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	while (granule < BYTES)
		granule *= 2;
	m->reserved = 2 * granule;
	TRY(cuMemAddressReserve(&m->base, m->reserved, 0, 0, 0));
	for (int i = 0; i < 2; i++) {
		TRY(cuMemCreate(&m->handles[i], granule, &prop, 0));
		TRY(cuMemMap(m->base + i * granule, granule, 0, m->handles[i], 0));
	}
	m->p = m->base + granule - BYTES / 2;
	return memory_rights(m, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

static inline CUresult memory_import(struct memory *m)
{
	struct peer_message message = { .op = PEER_ALLOC, .bytes = BYTES };

	if (peer_start(&m->holder, NULL))
		return CUDA_ERROR_OPERATING_SYSTEM;
	TRY(peer_call(&m->holder, &message));
	m->held = message.ptr;
	message.op = PEER_GET;
	TRY(peer_call(&m->holder, &message));
	return cuIpcOpenMemHandle(&m->p, message.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

static inline CUresult memory_make(struct memory *m, enum kind kind)
{
	void *p = NULL;

	*m = (struct memory){ .kind = kind, .holder = { .pid = -1 } };
	switch (kind) {
	case DEVICE:
		return cuMemAlloc(&m->p, BYTES);
	case POOL:
		TRY(cuMemAllocAsync(&m->p, BYTES, NULL));
		return cuStreamSynchronize(NULL);
	case MAPPED:
		return memory_map(m);
	case MANAGED:
		return cuMemAllocManaged(&m->p, BYTES, CU_MEM_ATTACH_GLOBAL);
	case IMPORTED:
		return memory_import(m);
	case HOST:
		TRY(cuMemHostAlloc(&p, BYTES, 0));
		m->p = (uintptr_t)p;
		return CUDA_SUCCESS;
	case REGISTERED:
	case PLAIN:
		if (posix_memalign(&p, page_size, BYTES))
			return CUDA_ERROR_OUT_OF_MEMORY;
		m->p = (uintptr_t)p;
		return kind == PLAIN ? CUDA_SUCCESS : cuMemHostRegister(p, BYTES, 0);
	}
	return CUDA_ERROR_INVALID_VALUE;
}

static inline CUresult memory_free(struct memory *m)
{
	switch (m->kind) {
	case DEVICE:
	case MANAGED:
		return cuMemFree(m->p);
	case POOL:
		TRY(cuMemFreeAsync(m->p, NULL));
		return cuStreamSynchronize(NULL);
	case MAPPED:
		TRY(cuMemUnmap(m->base, m->reserved));
		TRY(cuMemAddressFree(m->base, m->reserved));
		TRY(cuMemRelease(m->handles[0]));
		return cuMemRelease(m->handles[1]);
	case IMPORTED:
		TRY(cuIpcCloseMemHandle(m->p));
		return peer_end(&m->holder) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
	case HOST:
		return cuMemFreeHost(cpu(m->p));
	case REGISTERED:
		TRY(cuMemHostUnregister(cpu(m->p)));
		/* fall through */
	case PLAIN:
		free(cpu(m->p));
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

/* --- patterns: each number makes another */

static inline unsigned char *pattern(__u64 number, size_t n)
{
	unsigned char *bytes = malloc(n + 1);
	struct rng r = { number + 1 };

	if (bytes)
		rng_fill(&r, bytes, n);
	return bytes;
}

/* Have the engine write a pattern; the CPU, to memory that CUDA does not know. */
static inline bool memory_write(struct memory *m, size_t at, size_t n, __u64 number)
{
	unsigned char *bytes = pattern(number, n);
	bool good = bytes;

	if (good && m->kind == PLAIN)
		memcpy(cpu(m->p + at), bytes, n);
	else if (good)
		good = !cuMemcpyHtoD(m->p + at, bytes, n) && !cuCtxSynchronize();
	free(bytes);
	return good;
}

/* Whether the CPU, the engine and the process that exported the memory see a pattern. */
static inline bool memory_holds(struct memory *m, size_t at, size_t n, __u64 number)
{
	unsigned char *bytes = pattern(number, n), *copy = malloc(n + 1);
	bool good = bytes && copy && !memcmp(view(m->p + at, n), bytes, n);

	if (good && m->kind != PLAIN)
		good = !cuMemcpyDtoH(copy, m->p + at, n) && !memcmp(copy, bytes, n);
	if (good && m->kind == IMPORTED)
		good = peer_sees(&m->holder, m->held + at, bytes, n);
	free(bytes);
	free(copy);
	return good;
}

/*
 * Whether a case runs whose memory is of this kind.  All kinds together take long, so that "make
 * check" runs some; with GPUMEM_THOROUGH=1, which "make check-matrix" sets, all run.
 */
static inline bool rdma_chosen(enum kind kind, bool most)
{
	if (getenv("GPUMEM_THOROUGH") || kind == DEVICE)
		return true;
	return most && !getenv("GPUMEM_QUICK");
}

#define RDMA_LEFT_OUT		"left out: GPUMEM_THOROUGH is not set"
#define RDMA_NOT_ON_DEMAND	"the device has no on-demand paging"

#endif
