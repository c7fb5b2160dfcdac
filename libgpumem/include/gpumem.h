/* SPDX-License-Identifier: MIT */
/*
 * The functions of libgpumem that CUDA does not have.
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

/* A version as one number, for comparisons. */
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

/*
 * Documentation/man/mkman makes a manual page of each comment below. A comment has a line "name -
 * what it does", a line for each argument, paragraphs, a paragraph "Return:" and, for functions
 * that can fail, a list "Errors:".
 */

/**
 * gpumem_version - the version of the library that is loaded
 *
 * The version may differ from the version of this header. The function may be called at any time,
 * before cuInit() too.
 *
 * CUDA has no such function: cuDriverGetVersion() returns the version of CUDA that the library
 * stands for.
 *
 * Return: "major.minor.patch". The text stays valid until the process ends.
 */
const char *gpumem_version(void);

/**
 * gpumem_init_error - why the last cuInit() found no device, for people
 *
 * The text is one line without a line end, such as "gpumem: /dev/gpumem0: permission denied: add
 * yourself to group render". It says what to do.
 *
 * Each thread has its own text: the reason of the cuInit() that the thread called last.
 *
 * Return: the text, or NULL if the thread's last cuInit() succeeded or the thread has not called
 * cuInit(). The text stays valid until the thread's next cuInit(), and no longer than the thread.
 */
const char *gpumem_init_error(void);

/** GPUMEM_CHECK_WROTE - flag of gpumem_check_tell(): something else has written the bytes */
#define GPUMEM_CHECK_WROTE	0x1

/** GPUMEM_CHECK_KEEPS - flag of gpumem_check_tell(): the program keeps the memory, which is no leak */
#define GPUMEM_CHECK_KEEPS	0x2

/**
 * gpumem_check_tell - tell the checker what it does not see
 * @ptr: address of the first byte
 * @bytes: how many, all in one allocation
 * @flags: GPUMEM_CHECK_WROTE, GPUMEM_CHECK_KEEPS or both
 *
 * With GPUMEM_CHECK the library reports copies out of memory that nobody has written. It does not
 * see what the program lets other libraries and devices write, such as RDMA. After GPUMEM_CHECK_WROTE
 * the bytes count as written, whether streams have reached that point or not.
 *
 * It also reports memory and registrations that the program has not freed at its end. After
 * GPUMEM_CHECK_KEEPS it does not report those around @ptr.
 *
 * Without GPUMEM_CHECK the function changes nothing.
 *
 * Return: CUDA_SUCCESS, or one of the errors below.
 *
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: the bytes are not in one allocation, or @flags is 0 or unknown.
 * - CUDA_ERROR_NOT_INITIALIZED: cuInit() was not called, or the process is a forked child.
 */
CUresult gpumem_check_tell(CUdeviceptr ptr, size_t bytes, unsigned int flags);

/**
 * gpumem_host_get_dmabuf_fd - make a DMA-buf of pinned or registered host memory
 * @fd: out: the descriptor, which execve() closes; -1 on failure
 * @ptr: first byte of the range; a multiple of the page size
 * @bytes: length of the range in bytes; a multiple of the page size, not 0
 * @flags: must be 0
 *
 * The memory comes from cuMemHostAlloc() or was registered with cuMemHostRegister(). The DMA-buf
 * has exactly the length of the range. Each call makes a new DMA-buf.
 *
 * The range must lie in one allocation or registration. It may extend to the end of the page that
 * holds the last byte of an allocation, although other allocations may lie in that page. Of a
 * registration, only pages that are registered as a whole can be exported.
 *
 * The DMA-buf keeps the memory. After cuMemFreeHost() or cuMemHostUnregister() the pages stay
 * pinned and in the user's budget until the DMA-buf and all its imports are gone.
 *
 * Other drivers can access both kinds of memory. Processes can map DMA-bufs of allocated memory.
 * They cannot map DMA-bufs of registered memory, which belongs to the file or the process that it
 * was mapped from.
 *
 * CUDA has no such function: cuMemGetHandleForAddressRange() makes DMA-bufs of device memory only.
 *
 * Return: CUDA_SUCCESS, or one of the errors below.
 *
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: @fd is NULL, @flags is not 0, or the range does not consist of whole
 *   pages of one allocation or registration of host memory.
 * - CUDA_ERROR_NOT_PERMITTED: the memory was registered with CU_MEMHOSTREGISTER_READ_ONLY.
 *   Importers of a DMA-buf may write.
 * - CUDA_ERROR_NOT_SUPPORTED: the memory was registered with CU_MEMHOSTREGISTER_IOMEMORY.
 * - CUDA_ERROR_OUT_OF_MEMORY: there is no memory, or the process has no descriptor left.
 * - CUDA_ERROR_NOT_INITIALIZED: cuInit() was not called, or the process is a forked child.
 * - CUDA_ERROR_INVALID_CONTEXT: the thread has no current context.
 *
 * If work failed in the current context before the call, the function returns the error of that
 * work and does nothing else.
 */
CUresult gpumem_host_get_dmabuf_fd(int *fd, const void *ptr, size_t bytes, unsigned int flags);

/**
 * gpumem_import_dmabuf - use a DMA-buf as device memory
 * @ptr: out: the device address of the memory
 * @bytes: out: the length of the memory in bytes; NULL if the caller does not want it
 * @fd: descriptor of a DMA-buf of any driver, gpumem included; the descriptor must allow writing,
 *	and the program may close it after the call
 * @flags: must be 0
 *
 * The memory remains the exporter's, and the import takes no memory of the device. Streams copy and
 * fill it like any other memory: their work waits for the fences that other drivers left in the
 * DMA-buf, and other drivers wait for the fences of that work.
 *
 * If the exporter lets processes map the DMA-buf, the CPU can access the memory at the same
 * address. The program must then bracket its accesses with DMA_BUF_IOCTL_SYNC on a descriptor of
 * the DMA-buf. If the exporter does not allow mappings, an access by the CPU gets SIGSEGV.
 *
 * Each call gives a new address. gpumem_release_dmabuf() releases the address, and so does the end
 * of the context. cuMemFree() and the functions for handles do not accept it.
 *
 * Return: CUDA_SUCCESS, or one of the errors below.
 *
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: @ptr is NULL, @flags is not 0, @fd is no descriptor of a DMA-buf, or
 *   the DMA-buf does not consist of whole pages.
 * - CUDA_ERROR_NOT_PERMITTED: @fd does not allow writing, or the memory is that of a gpumem device
 *   which is not visible to the process.
 * - CUDA_ERROR_NOT_SUPPORTED: the exporter does not let the CPU access the memory.
 * - CUDA_ERROR_OUT_OF_MEMORY: there is no memory.
 * - CUDA_ERROR_NOT_INITIALIZED: cuInit() was not called, or the process is a forked child.
 * - CUDA_ERROR_INVALID_CONTEXT: the thread has no current context.
 *
 * If work failed in the current context before the call, the function returns the error of that
 * work and does nothing else.
 */
CUresult gpumem_import_dmabuf(CUdeviceptr *ptr, size_t *bytes, int fd, unsigned int flags);

/**
 * gpumem_release_dmabuf - stop using a DMA-buf
 * @ptr: address from gpumem_import_dmabuf()
 *
 * The function waits for all queued work, as cuMemFree() does. The address is invalid afterwards.
 *
 * Return: CUDA_SUCCESS, or one of the errors below.
 *
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: @ptr is not an address that gpumem_import_dmabuf() returned.
 * - CUDA_ERROR_NOT_INITIALIZED: cuInit() was not called, or the process is a forked child.
 * - CUDA_ERROR_INVALID_CONTEXT: the thread has no current context.
 *
 * If work failed in the current context before the call, the function returns the error of that
 * work and does nothing else.
 *
 * If work fails while the function waits for it, the memory is released, and the function returns
 * the error of that work. If the kernel refuses a wait, the function returns the reason and the
 * memory stays.
 */
CUresult gpumem_release_dmabuf(CUdeviceptr ptr);

/** GPUMEM_SEMAPHORE_TIMELINE - flag of gpumem_create_semaphore() */
#define GPUMEM_SEMAPHORE_TIMELINE	0x1

/**
 * gpumem_create_semaphore - make a semaphore that processes share
 * @semaphore: out: the semaphore
 * @value: the value that a timeline semaphore starts with; of a binary semaphore 0, or 1 if it is
 *	signalled already
 * @flags: GPUMEM_SEMAPHORE_TIMELINE for a timeline semaphore, 0 for a binary one
 *
 * cuSignalExternalSemaphoresAsync() and cuWaitExternalSemaphoresAsync() use the semaphore, in this
 * process and in processes that imported it. cuDestroyExternalSemaphore() destroys it.
 *
 * Each signal of a binary semaphore ends one wait. The first call that waits gets the first signal, the
 * second call the second one, and so on, whatever order streams execute in. A wait uses up its signal
 * also if its stream fails or its process ends. Another process can signal once more in its place.
 *
 * The semaphore ends with the context that is current at this call.
 *
 * The semaphore belongs to this process. If the process destroys the semaphore or ends, waits of
 * other processes fail with CUDA_ERROR_LAUNCH_FAILED, unless the signals that they wait for have
 * come already. If another process dies that should have signalled, this process can signal in its
 * place, or destroy the semaphore.
 *
 * CUDA has no such function: it imports the semaphores of Vulkan and of other programming
 * interfaces.
 *
 * Return: CUDA_SUCCESS, or one of the errors below.
 *
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: @semaphore is NULL, @flags is unknown, or @value is more than 1 for a
 *   binary semaphore.
 * - CUDA_ERROR_OUT_OF_MEMORY: there is no memory.
 * - CUDA_ERROR_NOT_INITIALIZED: cuInit() was not called, or the process is a forked child.
 * - CUDA_ERROR_INVALID_CONTEXT: the thread has no current context.
 * - CUDA_ERROR_CONTEXT_IS_DESTROYED: another thread destroyed the context meanwhile.
 *
 * If work failed in the current context before the call, the function returns the error of that
 * work and does nothing else.
 */
CUresult gpumem_create_semaphore(CUexternalSemaphore *semaphore, unsigned long long value,
				 unsigned int flags);

/**
 * gpumem_export_semaphore - make a descriptor by which other processes import a semaphore
 * @fd: out: the descriptor, which execve() closes; -1 on failure
 * @semaphore: a semaphore of gpumem_create_semaphore(), or one that was imported
 * @flags: must be 0
 *
 * Another process passes the descriptor to cuImportExternalSemaphore(), with the type OPAQUE_FD for
 * a binary semaphore and TIMELINE_SEMAPHORE_FD for a timeline semaphore. The descriptor does not keep
 * the semaphore: see gpumem_create_semaphore().
 *
 * CUDA has no such function.
 *
 * Return: CUDA_SUCCESS, or one of the errors below.
 *
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: @fd is NULL, @flags is not 0, or @semaphore is no semaphore.
 * - CUDA_ERROR_NOT_SUPPORTED: @semaphore was imported from a sync_file.
 * - CUDA_ERROR_OUT_OF_MEMORY: there is no memory, or the process has no descriptor left.
 * - CUDA_ERROR_NOT_INITIALIZED: cuInit() was not called, or the process is a forked child.
 * - CUDA_ERROR_INVALID_CONTEXT: the thread has no current context.
 *
 * If work failed in the current context before the call, the function returns the error of that
 * work and does nothing else.
 */
CUresult gpumem_export_semaphore(int *fd, CUexternalSemaphore semaphore, unsigned int flags);

/**
 * gpumem_describe - describe the memory at an address, for people
 * @addr: any address
 * @text: out: the text, "" if the address does not belong to the library; may be NULL if @size is 0
 * @size: bytes that @text has room for; a longer text is cut
 *
 * The text is one line without a line end, such as "0x7f5a40000204 is at offset 516 of the
 * allocation at 0x7f5a40000000 of 4096 bytes on device 0".
 *
 * The address ranges that the library reserves for device memory belong to the library, also where
 * there is no memory now. Registered memory belongs to the program.
 *
 * The function takes no lock. It may be called at any time, also by signal handlers: with
 * GPUMEM_STRICT=1 a handler of SIGSEGV can describe the address of the fault.
 *
 * Return: the length of the whole text in bytes, without the final NUL, which may be more than
 * @size; 0 if the address does not belong to the library.
 */
int gpumem_describe(const void *addr, char *text, size_t size);

#ifdef __cplusplus
}

/* gpumem_describe() for an address of device memory. */
static inline int gpumem_describe(CUdeviceptr addr, char *text, size_t size)
{
	return gpumem_describe(reinterpret_cast<const void *>(addr), text, size);
}
#endif

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif /* GPUMEM_H */
