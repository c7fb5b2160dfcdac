/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the workers of t_cuda_stress.c share by descriptor: memory of handles, which is mapped or external
 * memory, and semaphores.  A worker of another process fetches the descriptor from its owner.
 */
#ifndef GPUMEM_SELFTESTS_STRESS_SHARE_H
#define GPUMEM_SELFTESTS_STRESS_SHARE_H

/* A descriptor of worker @id, which is another process or this one. */
static int fetch(unsigned int id, int fd)
{
	int process, got;

	if (!world->processes)
		return dup(fd);
	process = syscall(SYS_pidfd_open, world->pids[id], 0);
	got = syscall(SYS_pidfd_getfd, process, fd, 0);
	if (got < 0)
		fail("descriptor of worker %u: %s", id, strerror(errno));
	close(process);
	return got;
}

#define POSIX_FD	CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define HANDLE_BYTES	(2 * MIB)

static CUresult open_external(unsigned int i, int fd)
{
	const CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {
		.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .handle.fd = fd, .size = HANDLE_BYTES,
	};
	const CUDA_EXTERNAL_MEMORY_BUFFER_DESC part = { .offset = MIB, .size = MOST_CELLS * CELL };
	CUresult result = cuImportExternalMemory(&external[i], &desc);

	if (result)
		close(fd);
	return result ? result : cuExternalMemoryGetMappedBuffer(&blocks[i], external[i], &part);
}

static CUresult open_mapped(unsigned int i, int fd)
{
	const CUmemAccessDesc access = {
		.location.type = CU_MEM_LOCATION_TYPE_DEVICE, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUmemGenericAllocationHandle h;
	CUresult result = cuMemImportFromShareableHandle(&h, (void *)(intptr_t)fd, POSIX_FD);

	close(fd);
	if (result)
		return result;
	result = cuMemAddressReserve(&blocks[i], HANDLE_BYTES, 0, 0, 0);
	if (!result)
		result = cuMemMap(blocks[i], HANDLE_BYTES, 0, h, 0);
	if (!result)
		result = cuMemSetAccess(blocks[i], HANDLE_BYTES, &access, 1);
	return cuMemRelease(h) ?: result;
}

/* Open a block that is memory of its owner's handle. */
static bool open_handle(unsigned int i)
{
	int fd = fetch(owner(i), world->handles[i]);

	return ask(is_mapped(i) ? open_mapped(i, fd) : open_external(i, fd), "open the handle of block", i);
}

/* The owner opens its own handle, like the others. */
static bool make_handle(unsigned int i)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = POSIX_FD,
		.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
	};
	CUmemGenericAllocationHandle h;

	return ask(cuMemCreate(&h, HANDLE_BYTES, &prop, 0), "create the handle of block", i) &&
	       ask(cuMemExportToShareableHandle(&world->handles[i], h, POSIX_FD, 0), "export block", i) &&
	       ask(cuMemRelease(h), "release the handle of block", i) && open_handle(i);
}

static void close_handle(unsigned int i)
{
	if (is_external(i)) {
		ask(cuMemFree(blocks[i]), "free block", i);
		ask(cuDestroyExternalMemory(external[i]), "destroy block", i);
		return;
	}
	ask(cuMemUnmap(blocks[i], HANDLE_BYTES), "unmap block", i);
	ask(cuMemAddressFree(blocks[i], HANDLE_BYTES), "free block", i);
}

static bool make_semaphore(unsigned int i)
{
	return ask(gpumem_create_semaphore(&semaphores[i], 0, i < STREAMS ? GPUMEM_SEMAPHORE_TIMELINE : 0),
		   "create semaphore", i) &&
	       ask(gpumem_export_semaphore(&world->semaphores[i], semaphores[i], 0), "export semaphore", i);
}

static bool open_semaphore(unsigned int i)
{
	const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC desc = {
		.type = i < STREAMS ? CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD :
				      CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD,
		.handle.fd = fetch(owner(i), world->semaphores[i]),
	};

	return ask(cuImportExternalSemaphore(&semaphores[i], &desc), "open semaphore", i);
}

#endif
