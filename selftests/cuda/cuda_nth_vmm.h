/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The operations of t_cuda_fail_nth for virtual memory management, external memory and semaphores.
 * As in cuda_nth_ops.h, each is a function of struct env, which that header defines; a step that
 * checks contents returns CUDA_ERROR_UNKNOWN for wrong ones.
 *
 * Include this after cuda_nth_ops.h.
 */
#ifndef CUDA_NTH_VMM_H
#define CUDA_NTH_VMM_H

#include <sys/syscall.h>
#include <unistd.h>

#include <gpumem.h>

#define PIECE		(2 * MIB)
#define POSIX_FD	CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static struct vmm_env {
	CUmemGenericAllocationHandle handle, handle2;
	CUdeviceptr addr;		/* a reservation of two pieces; of three for vmm_three() */
	CUexternalMemory memory;
	CUexternalSemaphore semaphore, semaphore2;
} vmm;

static const CUmemAccessDesc vmm_open = {
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
};

static CUresult vmm_make(CUmemLocationType type)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = POSIX_FD,
		.location = { .type = type },
	};

	return cuMemCreate(&vmm.handle, PIECE, &prop, 0);
}

static CUresult vmm_create(struct env *e)
{
	(void)e;
	return vmm_make(CU_MEM_LOCATION_TYPE_DEVICE);
}

static CUresult vmm_create_node(struct env *e)
{
	(void)e;
	return vmm_make(CU_MEM_LOCATION_TYPE_HOST_NUMA);
}

/* The call bound the thread's memory to the node only while it lasted. */
static CUresult vmm_create_node_undo(struct env *e)
{
	int mode = -1;

	(void)e;
	if (syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0) || mode)
		return CUDA_ERROR_UNKNOWN;
	return cuMemRelease(vmm.handle);
}

static CUresult vmm_release(struct env *e)
{
	(void)e;
	return cuMemRelease(vmm.handle);
}

static CUresult vmm_reserve(struct env *e)
{
	(void)e;
	return cuMemAddressReserve(&vmm.addr, 2 * PIECE, 0, 0, 0);
}

static CUresult vmm_address_free(struct env *e)
{
	(void)e;
	return cuMemAddressFree(vmm.addr, 2 * PIECE);
}

/* Two handles at adjacent addresses need two mappings. */
static CUresult vmm_map(struct env *e)
{
	(void)e;
	return cuMemMap(vmm.addr, PIECE, 0, vmm.handle, 0);
}

static CUresult vmm_access(struct env *e)
{
	(void)e;
	return cuMemSetAccess(vmm.addr, 2 * PIECE, &vmm_open, 1);
}

static CUresult vmm_unmap(struct env *e)
{
	(void)e;
	return cuMemUnmap(vmm.addr, 2 * PIECE);
}

BOTH(vmm_place, vmm_create, vmm_reserve)
BOTH(vmm_place_undo, vmm_release, vmm_address_free)
BOTH(vmm_unplace, vmm_unmap, vmm_place_undo)

/* Two mappings of the handle without rights. */
static CUresult vmm_mapped(struct env *e)
{
	CUresult result = vmm_place(e);

	if (!result)
		result = vmm_map(e);
	return result ? result : cuMemMap(vmm.addr + PIECE, PIECE, 0, vmm.handle, 0);
}

BOTH(vmm_ready, vmm_mapped, vmm_access)

/* The rights work, or a failed call gave none at all. */
static CUresult vmm_access_undo(struct env *e)
{
	CUresult result = cuMemsetD8(vmm.addr, 3, 2 * PIECE);

	return result ? result : vmm_unplace(e);
}

/* Rights of a node of the host. */
static CUresult vmm_access_node(struct env *e)
{
	const CUmemAccessDesc open = {
		.location = { .type = CU_MEM_LOCATION_TYPE_HOST_NUMA },
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};

	(void)e;
	return cuMemSetAccess(vmm.addr, 2 * PIECE, &open, 1);
}

static CUresult vmm_access_node_undo(struct env *e)
{
	memset((void *)(uintptr_t)vmm.addr, 3, 2 * PIECE);
	return vmm_unplace(e);
}

/* Two mappings of a node's memory without rights. */
static CUresult vmm_mapped_node(struct env *e)
{
	CUresult result = vmm_create_node(e);

	if (!result)
		result = vmm_reserve(e);
	if (!result)
		result = vmm_map(e);
	return result ? result : cuMemMap(vmm.addr + PIECE, PIECE, 0, vmm.handle, 0);
}

/* Rights of all devices in one call. */
static CUresult vmm_access_all(struct env *e)
{
	CUmemAccessDesc open[GPUMEM_MAX_DEVICES];

	for (unsigned int i = 0; i < e->devices; i++) {
		open[i] = vmm_open;
		open[i].location.id = i;
	}
	return cuMemSetAccess(vmm.addr, 2 * PIECE, open, e->devices);
}

static CUresult vmm_access_all_undo(struct env *e)
{
	CUmemLocation location = vmm_open.location;
	unsigned long long rights;
	CUresult result;

	for (unsigned int i = 0; i < e->devices; i++) {
		location.id = i;
		result = cuMemGetAccess(&rights, &location, vmm.addr + PIECE);
		if (result || rights != vmm_open.flags)
			return CUDA_ERROR_UNKNOWN;
	}
	return vmm_access_undo(e);
}

static CUresult vmm_retain(struct env *e)
{
	(void)e;
	return cuMemRetainAllocationHandle(&vmm.handle2, (void *)(uintptr_t)(vmm.addr + PIECE + 1));
}

static CUresult vmm_retain_undo(struct env *e)
{
	CUresult result = vmm.handle2 == vmm.handle ? cuMemRelease(vmm.handle2) : CUDA_ERROR_UNKNOWN;

	return result ? result : vmm_unplace(e);
}

/* A DMA-buf of parts of two mappings. */
static CUresult vmm_range(struct env *e)
{
	return cuMemGetHandleForAddressRange(&e->fd, vmm.addr + PIECE / 2, PIECE, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
					     0);
}

static CUresult vmm_range_undo(struct env *e)
{
	return close(e->fd) ? CUDA_ERROR_UNKNOWN : vmm_unplace(e);
}

/* Three mappings of the handle; the first and the last stay when the middle one goes. */
static CUresult vmm_three(struct env *e)
{
	CUresult result = vmm_create(e);

	if (!result)
		result = cuMemAddressReserve(&vmm.addr, 3 * PIECE, 0, 0, 0);
	for (unsigned int i = 0; !result && i < 3; i++)
		result = cuMemMap(vmm.addr + i * PIECE, PIECE, 0, vmm.handle, 0);
	return result ? result : cuMemSetAccess(vmm.addr, 3 * PIECE, &vmm_open, 1);
}

static CUresult vmm_unmap_middle(struct env *e)
{
	(void)e;
	return cuMemUnmap(vmm.addr + PIECE, PIECE);
}

static CUresult vmm_three_undo(struct env *e)
{
	CUresult result = cuMemsetD8(vmm.addr, 3, PIECE);

	if (!result)
		result = cuMemsetD8(vmm.addr + 2 * PIECE, 4, PIECE);
	if (!result && !cuMemsetD8(vmm.addr + PIECE, 5, 1))
		result = CUDA_ERROR_UNKNOWN;
	if (!result)
		result = cuMemUnmap(vmm.addr, 3 * PIECE);
	if (!result)
		result = cuMemAddressFree(vmm.addr, 3 * PIECE);
	return result ? result : vmm_release(e);
}

static CUresult vmm_export(struct env *e)
{
	return cuMemExportToShareableHandle(&e->fd, vmm.handle, POSIX_FD, 0);
}

static CUresult vmm_close(struct env *e)
{
	return close(e->fd) ? CUDA_ERROR_UNKNOWN : vmm_release(e);
}

BOTH(vmm_exported, vmm_create, vmm_export)
BOTH(vmm_exported_node, vmm_create_node, vmm_export)

static CUresult vmm_import(struct env *e)
{
	return cuMemImportFromShareableHandle(&vmm.handle2, (void *)(intptr_t)e->fd, POSIX_FD);
}

static CUresult vmm_import_undo(struct env *e)
{
	CUresult result = cuMemRelease(vmm.handle2);

	return result ? result : vmm_close(e);
}

/* --- external memory */

/* If the call succeeds it closes the descriptor. */
static CUresult external_import(struct env *e)
{
	const CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {
		.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .handle.fd = e->fd,
		.size = PIECE,
	};

	return cuImportExternalMemory(&vmm.memory, &desc);
}

static CUresult external_undo(struct env *e)
{
	CUresult result = cuDestroyExternalMemory(vmm.memory);

	return result ? result : vmm_release(e);
}

BOTH(external_ready, vmm_exported, external_import)

/* A DMA-buf stays the caller's. */
BOTH(external_dmabuf_setup, alloc_large, export_fd)

static CUresult external_dmabuf(struct env *e)
{
	const CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {
		.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD, .handle.fd = e->fd,
		.size = LARGE,
	};

	return cuImportExternalMemory(&vmm.memory, &desc);
}

static CUresult external_dmabuf_undo(struct env *e)
{
	CUresult result = cuDestroyExternalMemory(vmm.memory);

	return result ? result : export_undo(e);
}

static CUresult external_buffer(struct env *e)
{
	const CUDA_EXTERNAL_MEMORY_BUFFER_DESC desc = { .offset = SMALL, .size = SMALL };

	return cuExternalMemoryGetMappedBuffer(&e->ptr, vmm.memory, &desc);
}

static CUresult external_buffer_undo(struct env *e)
{
	CUresult result = cuMemsetD8(e->ptr, 1, SMALL);

	if (!result)
		result = free_ptr(e);
	return result ? result : external_undo(e);
}

static CUresult external_mipmap(struct env *e)
{
	const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC desc = {
		.arrayDesc = { .Width = 512, .Height = 512, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1 },
		.numLevels = 10,
	};

	return cuExternalMemoryGetMappedMipmappedArray(&e->mipmap, vmm.memory, &desc);
}

static CUresult external_mipmap_undo(struct env *e)
{
	CUresult result = mipmap_destroy(e);

	return result ? result : external_undo(e);
}

/* --- semaphores */

static CUresult semaphore_make(struct env *e)
{
	(void)e;
	return gpumem_create_semaphore(&vmm.semaphore, 0, 0);
}

static CUresult semaphore_end(struct env *e)
{
	(void)e;
	return cuDestroyExternalSemaphore(vmm.semaphore);
}

static CUresult semaphore_out(struct env *e)
{
	return gpumem_export_semaphore(&e->fd, vmm.semaphore, 0);
}

static CUresult semaphore_out_undo(struct env *e)
{
	return close(e->fd) ? CUDA_ERROR_UNKNOWN : semaphore_end(e);
}

BOTH(semaphore_ready, semaphore_make, semaphore_out)

/* If the call succeeds it closes the descriptor. */
static CUresult semaphore_in(struct env *e)
{
	const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC desc = {
		.type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD, .handle.fd = e->fd,
	};

	return cuImportExternalSemaphore(&vmm.semaphore2, &desc);
}

static CUresult semaphore_in_undo(struct env *e)
{
	CUresult result = cuDestroyExternalSemaphore(vmm.semaphore2);

	return result ? result : semaphore_end(e);
}

BOTH(semaphore_pair, semaphore_ready, semaphore_in)

static CUresult semaphore_timeline_ready(struct env *e)
{
	CUresult result = gpumem_create_semaphore(&vmm.semaphore, 7, GPUMEM_SEMAPHORE_TIMELINE);

	return result ? result : semaphore_out(e);
}

static CUresult semaphore_timeline_in(struct env *e)
{
	const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC desc = {
		.type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD, .handle.fd = e->fd,
	};

	return cuImportExternalSemaphore(&vmm.semaphore2, &desc);
}

/* One signal and the wait for it, queued in one stream. */
static CUresult semaphore_trip(struct env *e)
{
	const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal = { 0 };
	const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait = { 0 };
	CUresult result = cuSignalExternalSemaphoresAsync(&vmm.semaphore2, &signal, 1, e->stream);

	if (!result)
		result = cuWaitExternalSemaphoresAsync(&vmm.semaphore, &wait, 1, e->stream);
	return result ? result : cuStreamSynchronize(e->stream);
}

BOTH(cold_vmm, env_make, vmm_mapped)
BOTH(cold_vmm_exported, env_make, vmm_exported)
BOTH(cold_semaphores, env_make, semaphore_pair)

#endif
