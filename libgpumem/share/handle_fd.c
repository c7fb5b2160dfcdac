// SPDX-License-Identifier: MIT
/*
 * Shareable handles: descriptors by which processes pass handles of memory to each other.
 *
 * Owns nothing. The descriptor is the kernel's memory handle (Documentation/sharing.rst). It is no DMA-buf: only
 * gpumem imports it. The properties of the memory travel with it as the buffer object's tag. An import is a
 * handle of its own, also in the process that exported it, and cannot be exported again.
 *
 * Fabric handles need a channel that an administrator makes for a driver of several machines. The library answers
 * like a driver without such a channel.
 *
 * Locks: vmm_lock to find a handle, and not while its memory is exported.
 */
#include <errno.h>

#include "share/share.h"

/* A handle that may be exported, which stays until handle_drop(), or NULL. */
static struct handle *handle_get(uint64_t value)
{
	struct handle *handle;

	lock_take(&vmm_lock);
	handle = handle_find(value);
	if (handle && (handle->imported ||
		       !(handle->prop.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)))
		handle = NULL;
	if (handle)
		handle_use(handle);
	lock_drop(&vmm_lock);
	return handle;
}

static void handle_drop(struct handle *handle)
{
	uint32_t bo;

	lock_take(&vmm_lock);
	bo = handle_leave(handle);
	lock_drop(&vmm_lock);
	if (bo)
		client_destroy_id(bo);
}

CUresult handle_export(void *out, uint64_t value, CUmemAllocationHandleType type,
		       unsigned long long flags)
{
	struct gpumem_bo_export export = {
		.size = sizeof(export), .flags = GPUMEM_BO_EXPORT_CLOEXEC | GPUMEM_BO_EXPORT_HANDLE,
	};
	struct handle *handle;
	CUresult result;
	int fd;

	if (!out || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags)
		return CUDA_ERROR_INVALID_VALUE;
	handle = handle_get(value);
	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	export.id = handle->bo;
	export.length = handle->size;
	result = result_of_errno(client_ioctl(GPUMEM_BO_EXPORT, &export));
	handle_drop(handle);
	if (result)
		return result;
	fd = export.fd;
	memcpy(out, &fd, sizeof(fd));
	return CUDA_SUCCESS;
}

/* The properties of an imported buffer object; false: it is not memory of a handle. */
static bool imported_prop(uint32_t bo, CUdevice device, CUmemAllocationProp *prop)
{
	struct gpumem_bo_info info = { .size = sizeof(info), .id = bo };

	return !client_ioctl(GPUMEM_BO_INFO, &info) && handle_untag(info.tag, device, prop) &&
	       !(info.length % SLOT);
}

static CUresult import_fd(uint64_t *value, int fd)
{
	struct gpumem_bo_import import = {
		.size = sizeof(import), .fd = fd, .flags = GPUMEM_BO_IMPORT_HANDLE,
	};
	int error = client_ioctl(GPUMEM_BO_IMPORT, &import);
	CUmemAllocationProp prop;
	CUdevice device;

	if (error == EBADF || error == EINVAL)
		/* As recorded. */
		return CUDA_ERROR_UNKNOWN;
	if (error)
		return error == EACCES ? CUDA_ERROR_NOT_PERMITTED : result_of_errno(error);
	device = device_of_index(import.device);
	if (device == CU_DEVICE_INVALID || !imported_prop(import.id, device, &prop)) {
		client_destroy_id(import.id);
		return device == CU_DEVICE_INVALID ? CUDA_ERROR_NOT_PERMITTED : CUDA_ERROR_UNKNOWN;
	}
	return handle_adopt(value, import.id, import.length, device, &prop);
}

CUresult handle_import(uint64_t *value, void *shareable, CUmemAllocationHandleType type)
{
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	switch (type) {
	case CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR:
		/* The descriptor's number is passed as the pointer. */
		return import_fd(value, (int)(intptr_t)shareable);
	case CU_MEM_HANDLE_TYPE_WIN32:
	case CU_MEM_HANDLE_TYPE_WIN32_KMT:
	case CU_MEM_HANDLE_TYPE_FABRIC:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}
