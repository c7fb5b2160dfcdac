// SPDX-License-Identifier: MIT
/*
 * Windows: second mappings of device memory that the kernel does not reach by its address, as in strict mode. A
 * window shows the pages of a request as a DMA-buf, at another address. It exists until the request ends.
 *
 * A window is made when an operation fails with EFAULT, so memory that the kernel does reach costs nothing more.
 * Some memory has no DMA-buf, or one that cannot be mapped. Then the request fails with EFAULT.
 *
 * The thread that executes a request may have no current context. It uses that of the caller, or of the memory.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "file/file.h"

/* A DMA-buf of whole pages, or -1. */
static int export(const struct request *request, uint64_t start, size_t length)
{
	CUcontext context = request->context, before;
	int fd = -1;

	if (!context && cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, start))
		return -1;
	if (cuCtxPushCurrent(context))
		return -1;
	if (cuMemGetHandleForAddressRange(&fd, start, length, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0))
		fd = -1;
	cuCtxPopCurrent(&before);
	return fd;
}

bool window_open(struct request *request, ssize_t result)
{
	uint64_t before = request->addr % FILE_PAGE;
	size_t length = (before + request->size + FILE_PAGE - 1) / FILE_PAGE * FILE_PAGE;
	void *window;
	int fd;

	if (result != -EFAULT || !request->device || request->window)
		return false;
	fd = export(request, request->addr - before, length);
	if (fd < 0)
		return false;
	window = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (window == MAP_FAILED)
		return false;
	request->window = window;
	request->window_length = length;
	request->addr = (uintptr_t)window + before;
	return true;
}

void window_close(struct request *request)
{
	if (request->window)
		munmap(request->window, request->window_length);
	request->window = NULL;
}
