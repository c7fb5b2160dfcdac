// SPDX-License-Identifier: GPL-2.0
/*
 * The checker on programs that do not give back what they made: memory, registrations, streams, events, pools,
 * handles, addresses, imports, contexts; and on programs that do.
 */
#include <gpumem.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "kselftest_harness.h"
#include "check_util.h"

MISTAKE(device_memory_is_not_freed, "leak")
{
	CUdeviceptr m;

	OK(WRONG(cuMemAlloc(&m, BYTES)));
}

MISTAKE(pinned_memory_is_not_freed, "leak")
{
	void *m;

	OK(WRONG(cuMemAllocHost(&m, BYTES)));
}

MISTAKE(pool_memory_is_not_freed, "leak")
{
	CUdeviceptr m;

	OK(WRONG(cuMemAllocAsync(&m, BYTES, w->a)));
}

MISTAKE(memory_is_not_unregistered, "leak")
{
	OK(WRONG(cuMemHostRegister(w->pageable, BYTES, 0)));
}

MISTAKE(stream_is_not_destroyed, "leak")
{
	CUstream stream;

	OK(WRONG(cuStreamCreate(&stream, 0)));
}

MISTAKE(event_is_not_destroyed, "leak")
{
	CUevent event;

	OK(WRONG(cuEventCreate(&event, 0)));
}

MISTAKE(pool_is_not_destroyed, "leak")
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	CUmemoryPool pool;

	OK(WRONG(cuMemPoolCreate(&pool, &props)));
}

MISTAKE(handle_is_not_released, "leak")
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	CUmemGenericAllocationHandle handle;

	OK(WRONG(cuMemCreate(&handle, 2 << 20, &prop, 0)));
}

MISTAKE(addresses_are_not_freed, "leak")
{
	CUdeviceptr m;

	OK(WRONG(cuMemAddressReserve(&m, 2 << 20, 0, 0, 0)));
}

MISTAKE(semaphore_is_not_destroyed, "leak")
{
	CUexternalSemaphore semaphore;

	OK(WRONG(gpumem_create_semaphore(&semaphore, 0, 0)));
}

MISTAKE(mipmapped_array_is_not_destroyed, "leak")
{
	CUDA_ARRAY3D_DESCRIPTOR desc = { .Width = 64, .Height = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1 };
	CUmipmappedArray array;

	OK(WRONG(cuMipmappedArrayCreate(&array, &desc, 3)));
}

/* A DMA-buf of an allocation. */
static int dmabuf(CUdeviceptr *m)
{
	int fd;

	OK(cuMemAlloc(m, 2 << 20));
	OK(cuMemGetHandleForAddressRange(&fd, *m, 2 << 20, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	return fd;
}

MISTAKE(dmabuf_is_not_released, "leak")
{
	CUdeviceptr m, p;
	int fd = dmabuf(&m);
	size_t bytes;

	OK(WRONG(gpumem_import_dmabuf(&p, &bytes, fd, 0)));
	OK(cuMemFree(m));
	close(fd);
}

MISTAKE(external_memory_is_not_destroyed, "leak")
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {
		.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD, .size = 2 << 20,
	};
	CUexternalMemory memory;
	CUdeviceptr m;

	desc.handle.fd = dmabuf(&m);
	OK(WRONG(cuImportExternalMemory(&memory, &desc)));
	OK(cuMemFree(m));
	close(desc.handle.fd);
}

/* ---- descriptors of exports */

static CUmemoryPool pool_with_handles(void)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
		.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	};
	CUmemoryPool pool;

	OK(cuMemPoolCreate(&pool, &props));
	return pool;
}

static CUmemGenericAllocationHandle handle_with_handles(void)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	};
	CUmemGenericAllocationHandle handle;

	OK(cuMemCreate(&handle, 2 << 20, &prop, 0));
	return handle;
}

#define POSIX_FD	CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

MISTAKE(dmabuf_is_not_closed, "leak")
{
	CUdeviceptr m;
	int fd;

	OK(cuMemAlloc(&m, 2 << 20));
	OK(WRONG(cuMemGetHandleForAddressRange(&fd, m, 2 << 20, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0)));
	OK(cuMemFree(m));
}

MISTAKE(dmabuf_of_pinned_memory_is_not_closed, "leak")
{
	int fd;

	OK(WRONG(gpumem_host_get_dmabuf_fd(&fd, w->pinned, BYTES, 0)));
}

MISTAKE(handle_of_memory_is_not_closed, "leak")
{
	CUmemGenericAllocationHandle handle = handle_with_handles();
	int fd;

	OK(WRONG(cuMemExportToShareableHandle(&fd, handle, POSIX_FD, 0)));
	OK(cuMemRelease(handle));
}

MISTAKE(handle_of_a_pool_is_not_closed, "leak")
{
	CUmemoryPool pool = pool_with_handles();
	int fd;

	OK(WRONG(cuMemPoolExportToShareableHandle(&fd, pool, POSIX_FD, 0)));
	OK(cuMemPoolDestroy(pool));
}

MISTAKE(handle_of_a_semaphore_is_not_closed, "leak")
{
	CUexternalSemaphore semaphore;
	int fd;

	OK(gpumem_create_semaphore(&semaphore, 0, 0));
	OK(WRONG(gpumem_export_semaphore(&fd, semaphore, 0)));
	OK(cuDestroyExternalSemaphore(semaphore));
}

/* Another file has the number of the first descriptor, the second descriptor is open. */
MISTAKE(second_dmabuf_is_not_closed, "leak")
{
	CUdeviceptr m, n;
	int fd = dmabuf(&m), other;

	close(fd);
	OK(cuMemAlloc(&n, 2 << 20));
	OK(memfd_create("other", 0) != fd);
	OK(WRONG(cuMemGetHandleForAddressRange(&other, n, 2 << 20, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0)));
	OK(cuMemFree(m));
	OK(cuMemFree(n));
}

TWIN(descriptors_are_closed)
{
	CUmemGenericAllocationHandle handle = handle_with_handles();
	CUmemoryPool pool = pool_with_handles();
	CUexternalSemaphore semaphore;
	CUdeviceptr m;
	int fd[5];

	fd[0] = dmabuf(&m);
	OK(cuMemExportToShareableHandle(&fd[1], handle, POSIX_FD, 0));
	OK(cuMemPoolExportToShareableHandle(&fd[2], pool, POSIX_FD, 0));
	OK(gpumem_create_semaphore(&semaphore, 0, 0));
	OK(gpumem_export_semaphore(&fd[3], semaphore, 0));
	OK(gpumem_host_get_dmabuf_fd(&fd[4], w->pinned, BYTES, 0));
	for (unsigned int i = 0; i < 5; i++)
		close(fd[i]);
	OK(cuDestroyExternalSemaphore(semaphore));
	OK(cuMemPoolDestroy(pool));
	OK(cuMemRelease(handle));
	OK(cuMemFree(m));
}

/* The duplicate stays open: it is the program's own. */
TWIN(descriptor_is_duplicated_and_closed)
{
	CUdeviceptr m;
	int fd = dmabuf(&m);

	if (dup(fd) < 0)
		_exit(3);
	close(fd);
	OK(cuMemFree(m));
}

/* The numbers of descriptors that were closed: another DMA-buf that was received, an event, a file. */
TWIN(numbers_of_descriptors_are_used_again)
{
	CUmemGenericAllocationHandle handle = handle_with_handles();
	CUdeviceptr m, n;
	int fd[2], other;

	fd[0] = dmabuf(&m);
	OK(cuMemExportToShareableHandle(&fd[1], handle, POSIX_FD, 0));
	other = dmabuf(&n);
	/* As a message does, this gives the file a number that no export has returned. */
	OK(dup2(other, fd[0]) != fd[0]);
	close(other);
	close(fd[1]);
	OK(eventfd(0, 0) != fd[1]);
	OK(open("/dev/null", O_RDONLY) != other);
	OK(cuMemRelease(handle));
	OK(cuMemFree(m));
	OK(cuMemFree(n));
}

TWIN(descriptor_is_sent_and_closed)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 }, byte = 0;
	struct iovec data = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	CUdeviceptr m;
	int fd = dmabuf(&m), ends[2];

	OK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends));
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	OK(sendmsg(ends[0], &message, 0) != 1);
	close(fd);
	OK(cuMemFree(m));
}

/* The import closes the descriptor. The next export gets its number. */
TWIN(descriptor_is_taken_by_an_import)
{
	CUmemGenericAllocationHandle handle = handle_with_handles();
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = { .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .size = 2 << 20 };
	CUexternalMemory memory;

	OK(cuMemExportToShareableHandle(&desc.handle.fd, handle, POSIX_FD, 0));
	OK(cuImportExternalMemory(&memory, &desc));
	OK(cuDestroyExternalMemory(memory));
	OK(cuMemRelease(handle));
}

MISTAKE(context_is_not_destroyed, "leak")
{
	CUcontext ctx;

	OK(WRONG(cuCtxCreate(&ctx, NULL, 0, 0)));
	OK(cuCtxSetCurrent(w->ctx));
}

/* One report for all that the same call made. */
MISTAKE(many_are_not_freed, "leak")
{
	CUdeviceptr m;

	for (unsigned int i = 0; i < 100; i++)
		OK(WRONG(cuMemAlloc(&m, BYTES)));
}

TWIN(imports_are_given_back)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {
		.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD, .size = 2 << 20,
	};
	CUexternalSemaphore semaphore;
	CUexternalMemory memory;
	CUdeviceptr m, p;
	size_t bytes;

	desc.handle.fd = dmabuf(&m);
	OK(gpumem_import_dmabuf(&p, &bytes, desc.handle.fd, 0));
	OK(cuImportExternalMemory(&memory, &desc));
	OK(gpumem_create_semaphore(&semaphore, 0, 0));
	OK(cuDestroyExternalSemaphore(semaphore));
	OK(cuDestroyExternalMemory(memory));
	OK(gpumem_release_dmabuf(p));
	OK(cuMemFree(m));
	close(desc.handle.fd);
}

MISTAKE(context_destroyed_with_memory, "leak")
{
	CUcontext ctx;
	CUdeviceptr m;

	OK(cuCtxCreate(&ctx, NULL, 0, 0));
	OK(WRONG(cuMemAlloc(&m, BYTES)));
	OK(cuCtxDestroy(ctx));
	OK(cuCtxSetCurrent(w->ctx));
}

TWIN(context_detached)
{
	CUcontext ctx;

	OK(cuCtxCreate(&ctx, NULL, 0, 0));
	OK(cuCtxDetach(ctx));
	OK(cuCtxSetCurrent(w->ctx));
}

/* A call that fails destroys nothing: the streams keep their order. */
TWIN(context_that_is_not_destroyed)
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	if (!cuCtxDestroy(NULL))
		_exit(3);
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->a));
}

TWIN(primary_context_released_and_retained)
{
	CUcontext ctx;
	CUstream stream;
	CUdeviceptr m;
	void *host;

	program_release(w);
	for (unsigned int i = 0; i < 2; i++) {
		OK(cuDevicePrimaryCtxRetain(&ctx, 0));
		OK(cuCtxSetCurrent(ctx));
		OK(cuStreamCreate(&stream, i ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
		OK(cuMemAlloc(&m, BYTES));
		OK(cuMemAllocHost(&host, BYTES));
		OK(cuMemcpyHtoDAsync(m, host, BYTES, stream));
		OK(cuCtxSynchronize());
		OK(cuMemFree(m));
		OK(cuMemFreeHost(host));
		OK(cuStreamDestroy(stream));
		OK(cuDevicePrimaryCtxRelease(0));
	}
	exit(0);
}

MISTAKE(primary_context_released_with_memory, "leak")
{
	CUcontext ctx;
	void *m;

	program_release(w);
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	OK(WRONG(cuMemAllocHost(&m, BYTES)));
	OK(cuDevicePrimaryCtxRelease(0));
	exit(0);
}

TWIN(everything_is_given_back)
{
	CUdeviceptr m;
	CUstream stream;
	void *host;

	OK(cuStreamCreate(&stream, 0));
	OK(cuMemAllocHost(&host, BYTES));
	OK(cuMemAllocAsync(&m, BYTES, stream));
	OK(cuMemFreeAsync(m, stream));
	OK(cuMemFreeHost(host));
	OK(cuStreamDestroy(stream));
}

TEST_HARNESS_MAIN
