// SPDX-License-Identifier: GPL-2.0
/*
 * Preloaded into fio: at its end it prints the ways that the bytes of cuFile requests went, as "ways: direct staged",
 * and the bytes that it allocated with cuMemAlloc(), as "device memory: BYTES".
 */
#include <dlfcn.h>
#include <stdio.h>

#include <cufile.h>

static size_t allocated;

CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t bytes)
{
	CUresult (*next)(CUdeviceptr *, size_t) = (void *)dlsym(RTLD_NEXT, "cuMemAlloc_v2");
	CUresult result = next ? next(ptr, bytes) : CUDA_ERROR_NOT_FOUND;

	if (!result)
		__atomic_fetch_add(&allocated, bytes, __ATOMIC_RELAXED);
	return result;
}

static void __attribute__((destructor)) report(void)
{
	unsigned int (*counters)(struct gpumem_file_counters *, unsigned int) =
		(void *)dlsym(RTLD_DEFAULT, "gpumem_file_counters");
	struct gpumem_file_counters c;

	if (!counters || counters(&c, sizeof(c)) != sizeof(c))
		return;
	fprintf(stderr, "ways:");
	if (c.direct_read && c.direct_written)
		fprintf(stderr, " direct");
	if (c.staged_read || c.staged_written)
		fprintf(stderr, " staged");
	if (c.compat_read || c.compat_written)
		fprintf(stderr, " compat");
	fprintf(stderr, "\n");
	fprintf(stderr, "device memory: %zu\n", __atomic_load_n(&allocated, __ATOMIC_RELAXED));
}
