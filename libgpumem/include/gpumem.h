/* SPDX-License-Identifier: MIT */
/*
 * What libgpumem offers beyond the CUDA driver API.
 *
 * The version follows semantic versioning: the same major version means that programs built
 * against an older minor version keep working.
 */
#ifndef GPUMEM_H
#define GPUMEM_H

#include "cuda.h"

#define GPUMEM_VERSION_MAJOR	0
#define GPUMEM_VERSION_MINOR	1
#define GPUMEM_VERSION_PATCH	0

/* One number to compare with. */
#define GPUMEM_VERSION_NUMBER(major, minor, patch) \
	((major) * 1000000 + (minor) * 1000 + (patch))
#define GPUMEM_VERSION_CODE \
	GPUMEM_VERSION_NUMBER(GPUMEM_VERSION_MAJOR, GPUMEM_VERSION_MINOR, GPUMEM_VERSION_PATCH)

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/**
 * gpumem_version - the version of the library that is loaded
 *
 * It may differ from the version of this header. May be called before cuInit().
 *
 * Return: "major.minor.patch", valid for ever.
 */
const char *gpumem_version(void);

/**
 * gpumem_init_error - why the last cuInit() found no device, for people
 *
 * One line without a line end, such as "gpumem: /dev/gpumem0: permission denied: add yourself to
 * group render".
 *
 * Each thread has its own: the reason of the cuInit() that the thread called last.
 *
 * Return: the text, valid until the thread's next cuInit() and no longer than the thread; NULL if the
 * thread's last cuInit() succeeded or there was none.
 */
const char *gpumem_init_error(void);

/**
 * gpumem_host_get_dmabuf_fd - a DMA-buf of pinned or registered host memory
 * @fd: the descriptor, closed by execve(); -1 on failure
 * @ptr: page aligned; in memory of cuMemHostAlloc() or cuMemHostRegister()
 * @bytes: whole pages, not 0; the DMA-buf has exactly this length
 * @flags: 0
 *
 * cuMemGetHandleForAddressRange() refuses such memory. Each call makes a new DMA-buf.
 *
 * The range must lie in one allocation or registration. Of an allocation, whose pages the library
 * may share out to several, it may extend to the end of the page of the last byte. Of a
 * registration, only pages are exported that lie in it as a whole.
 *
 * The DMA-buf keeps the memory: after cuMemFreeHost() and cuMemHostUnregister() the pages stay as
 * they are, pinned and in the user's budget, until the DMA-buf and everything made of it is gone.
 * Other drivers reach both kinds; the CPU can map DMA-bufs of pinned memory only, because
 * registered memory belongs to whatever it is mapped from.
 *
 * Return: INVALID_VALUE for a wrong range, other memory, unknown flags and NULL @fd; NOT_PERMITTED
 * for memory registered with CU_MEMHOSTREGISTER_READ_ONLY, since importers may write;
 * NOT_SUPPORTED for CU_MEMHOSTREGISTER_IOMEMORY; OUT_OF_MEMORY if there are no descriptors left,
 * too; NOT_INITIALIZED, INVALID_CONTEXT, and the context's own error.
 */
CUresult gpumem_host_get_dmabuf_fd(int *fd, const void *ptr, size_t bytes, unsigned int flags);

/**
 * gpumem_import_dmabuf - use a DMA-buf as device memory
 * @ptr: its address
 * @bytes: its length; NULL: not wanted
 * @fd: descriptor of a DMA-buf that any driver made, gpumem included, and that can be written; may
 *	be closed afterwards
 * @flags: 0
 *
 * The memory is its exporter's, whatever the device has left. Streams copy and fill it like any
 * other; their work waits for the fences that others left in the DMA-buf, and others wait for
 * theirs. The CPU reaches it at the same address if the exporter lets processes map it, brackets
 * what it does with DMA_BUF_IOCTL_SYNC on a descriptor, and gets SIGSEGV if not. Each call gives an
 * address of its own.
 *
 * Neither cuMemFree() nor the functions for handles take the address: gpumem_release_dmabuf() gives
 * it back, and so does the end of the context.
 *
 * Return: INVALID_VALUE for a descriptor that is none of a DMA-buf, one that does not consist of
 * whole pages, unknown flags and NULL @ptr; NOT_PERMITTED for a read-only descriptor and for memory
 * of a device of gpumem's that is not visible; NOT_SUPPORTED if the exporter does not let
 * processors reach the memory; OUT_OF_MEMORY, NOT_INITIALIZED, INVALID_CONTEXT, and the context's
 * own error.
 */
CUresult gpumem_import_dmabuf(CUdeviceptr *ptr, size_t *bytes, int fd, unsigned int flags);

/**
 * gpumem_release_dmabuf - stop using a DMA-buf
 * @ptr: from gpumem_import_dmabuf()
 *
 * Waits for all work, as cuMemFree() does.
 *
 * Return: INVALID_VALUE for any other address, and the error of work that failed.
 */
CUresult gpumem_release_dmabuf(CUdeviceptr ptr);

/**
 * gpumem_describe - what lies at an address, for people
 * @addr: any address
 * @text: where the text goes, "" if the address is none of the library's; NULL if @size is 0
 * @size: how many bytes there are; a text that is longer is cut
 *
 * One line without a line end, such as "0x7f5a40000204 is at offset 516 of the allocation at
 * 0x7f5a40000000 of 4096 bytes on device 0". Addresses where device memory was or may come are the
 * library's, too; registered memory is the program's own. May be called at any time, by signal
 * handlers too: it takes no lock.
 *
 * Return: the length of the whole text; 0 if the address is none of the library's.
 */
int gpumem_describe(const void *addr, char *text, size_t size);

#ifdef __cplusplus
}

/* The same for an address of device memory. */
static inline int gpumem_describe(CUdeviceptr addr, char *text, size_t size)
{
	return gpumem_describe(reinterpret_cast<const void *>(addr), text, size);
}
#endif

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif /* GPUMEM_H */
