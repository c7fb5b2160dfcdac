// SPDX-License-Identifier: MIT
/*
 * gpumem's own public functions, which CUDA does not have. gpumem.h documents them.
 *
 * Thin: share/dmabuf.c, memory/strict.c and core/debug.c implement them. The functions of semaphores are in
 * cu_external.c. No locks.
 */
#include "driver/driver.h"

const char *gpumem_version(void)
{
	return GPUMEM_VERSION;
}

const char *gpumem_init_error(void)
{
	return debug_init_reason();
}

int gpumem_describe(const void *addr, char *buffer, size_t size)
{
	return strict_describe(addr, buffer, size);
}

static CUresult check_tell(uint64_t addr, uint64_t bytes, unsigned int flags)
{
	struct span span;

	if (!flags || flags & ~(GPUMEM_CHECK_WROTE | GPUMEM_CHECK_KEEPS))
		return CUDA_ERROR_INVALID_VALUE;
	return vm_lookup(addr, &span) && bytes <= span.size - (addr - span.base) ? CUDA_SUCCESS :
		CUDA_ERROR_INVALID_VALUE;
}

CUresult gpumem_check_tell(CUdeviceptr ptr, size_t bytes, unsigned int flags)
{
	CALL_INSIDE(check_tell(ptr, bytes, flags), ptr, bytes, flags);
}

CUresult gpumem_host_get_dmabuf_fd(int *fd, const void *ptr, size_t bytes, unsigned int flags)
{
	CALL(dmabuf_export_host(fd, (uintptr_t)ptr, bytes, flags), fd, ptr, bytes, flags);
}

BODY CUresult import_dmabuf_body(CUdeviceptr *ptr, size_t *bytes, int fd, unsigned int flags)
{
	CALL_AS("gpumem_import_dmabuf", dmabuf_import((uint64_t *)ptr, bytes, fd, flags), ptr,
		bytes, fd, flags);
}
ENTRY(gpumem_import_dmabuf, import_dmabuf_body);

BODY CUresult release_dmabuf_body(CUdeviceptr ptr)
{
	CALL_AS("gpumem_release_dmabuf", dmabuf_release(ptr), ptr);
}
ENTRY(gpumem_release_dmabuf, release_dmabuf_body);
