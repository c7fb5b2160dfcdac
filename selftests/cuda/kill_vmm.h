/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Scenes of t_cuda_kill for virtual memory management, external memory and semaphores.
 *
 * Include this after kselftest_harness.h, cuda_util.h and common/kill_util.h.
 */
#ifndef KILL_VMM_H
#define KILL_VMM_H

#include <gpumem.h>
#include <sys/socket.h>

#define VMM_FD	CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

typedef CUmemGenericAllocationHandle handle_t;

static const CUmemAccessDesc vmm_access = {
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
};

static CUresult vmm_make(handle_t *h, size_t n)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = VMM_FD,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};

	return cuMemCreate(h, n, &prop, 0);
}

/* A whole life of a handle, with work on its memory. */
static int in_vmm(struct scene *sc)
{
	CUdeviceptr d;
	CUcontext ctx;
	handle_t h;

	MUST_CU(cuda_start(&ctx));
	ready(sc);
	for (;;) {
		MUST_CU(CALL(sc, cuMemAddressReserve(&d, 2 * sc->bytes, 0, 0, 0)));
		MUST_CU(CALL(sc, vmm_make(&h, sc->bytes)));
		MUST_CU(CALL(sc, cuMemMap(d, sc->bytes, 0, h, 0)));
		MUST_CU(CALL(sc, cuMemMap(d + sc->bytes, sc->bytes, 0, h, 0)));
		MUST_CU(CALL(sc, cuMemSetAccess(d, 2 * sc->bytes, &vmm_access, 1)));
		MUST_CU(CALL(sc, cuMemRelease(h)));
		MUST_CU(cuMemsetD8(d, 1, 2 * sc->bytes));
		MUST_CU(cuCtxSynchronize());
		MUST_CU(CALL(sc, cuMemUnmap(d, 2 * sc->bytes)));
		MUST_CU(CALL(sc, cuMemAddressFree(d, 2 * sc->bytes)));
	}
}

/* Mappings come and go while queued fills wait for them; rights are taken in between. */
static int in_vmm_rights(struct scene *sc)
{
	CUmemAccessDesc none = vmm_access;
	CUdeviceptr d;
	CUcontext ctx;
	handle_t h;

	none.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	MUST_CU(cuda_start(&ctx));
	MUST_CU(cuMemAddressReserve(&d, sc->bytes, 0, 0, 0));
	MUST_CU(vmm_make(&h, sc->bytes));
	MUST_CU(cuMemMap(d, sc->bytes, 0, h, 0));
	MUST_CU(cuMemSetAccess(d, sc->bytes, &vmm_access, 1));
	ready(sc);
	for (;;) {
		MUST_CU(cuMemsetD8(d, 1, sc->bytes));
		MUST_CU(cuCtxSynchronize());
		MUST_CU(CALL(sc, cuMemSetAccess(d, sc->bytes, &none, 1)));
		MUST_CU(CALL(sc, cuMemSetAccess(d, sc->bytes, &vmm_access, 1)));
	}
}

/* Export a handle, and import it again under another value. */
static int in_vmm_export(struct scene *sc)
{
	CUcontext ctx;
	handle_t h, again;
	int fd;

	MUST_CU(cuda_start(&ctx));
	MUST_CU(vmm_make(&h, sc->bytes));
	ready(sc);
	for (;;) {
		MUST_CU(CALL(sc, cuMemExportToShareableHandle(&fd, h, VMM_FD, 0)));
		MUST_CU(CALL(sc, cuMemImportFromShareableHandle(&again, (void *)(intptr_t)fd,
								VMM_FD)));
		close(fd);
		MUST_CU(CALL(sc, cuMemRelease(again)));
	}
}

static int in_external(struct scene *sc)
{
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC part = { .offset = 4096, .size = sc->bytes / 2 };
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {
		.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .size = sc->bytes,
	};
	CUexternalMemory memory;
	CUcontext ctx;
	CUdeviceptr d;
	handle_t h;

	MUST_CU(cuda_start(&ctx));
	MUST_CU(vmm_make(&h, sc->bytes));
	ready(sc);
	for (;;) {
		MUST_CU(cuMemExportToShareableHandle(&desc.handle.fd, h, VMM_FD, 0));
		MUST_CU(CALL(sc, cuImportExternalMemory(&memory, &desc)));
		MUST_CU(CALL(sc, cuExternalMemoryGetMappedBuffer(&d, memory, &part)));
		MUST_CU(CALL(sc, cuDestroyExternalMemory(memory)));
		MUST_CU(cuMemsetD8(d, 1, part.size));
		MUST_CU(CALL(sc, cuMemFree(d)));
	}
}

static CUresult semaphore_import(CUexternalSemaphore *s, int fd)
{
	const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC desc = {
		.type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD, .handle.fd = fd,
	};

	return cuImportExternalSemaphore(s, &desc);
}

static CUresult semaphore_signal(CUexternalSemaphore s)
{
	const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal = { 0 };

	return cuSignalExternalSemaphoresAsync(&s, &signal, 1, NULL);
}

static CUresult semaphore_wait(CUexternalSemaphore s)
{
	const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait = { 0 };

	return cuWaitExternalSemaphoresAsync(&s, &wait, 1, NULL);
}

/* Make a semaphore, import it again, and use it through both. */
static int in_external_semaphore(struct scene *sc)
{
	CUexternalSemaphore s, again;
	CUcontext ctx;
	int fd;

	MUST_CU(cuda_start(&ctx));
	ready(sc);
	for (;;) {
		MUST_CU(CALL(sc, gpumem_create_semaphore(&s, 0, 0)));
		MUST_CU(CALL(sc, gpumem_export_semaphore(&fd, s, 0)));
		MUST_CU(CALL(sc, semaphore_import(&again, fd)));
		MUST_CU(CALL(sc, semaphore_signal(again)));
		MUST_CU(CALL(sc, semaphore_wait(s)));
		MUST_CU(CALL(sc, cuDestroyExternalSemaphore(again)));
		MUST_CU(CALL(sc, cuCtxSynchronize()));
		MUST_CU(CALL(sc, cuDestroyExternalSemaphore(s)));
	}
}

/* --- a process that exports, and one that imports */

/* Each taker receives two descriptors here: a handle, and a semaphore. */
#define VMM_TAKERS	4
static int vmm_sock[2];

/* Give memory and a semaphore to all takers, and signal the semaphore from time to time. */
static int vmm_maker(struct scene *sc)
{
	CUexternalSemaphore s;
	CUcontext ctx;
	handle_t h;
	int fd, fd2;

	MUST_CU(cuda_start(&ctx));
	MUST_CU(vmm_make(&h, sc->bytes));
	MUST_CU(cuMemExportToShareableHandle(&fd, h, VMM_FD, 0));
	MUST_CU(cuMemRelease(h));
	MUST_CU(gpumem_create_semaphore(&s, 0, 0));
	MUST_CU(gpumem_export_semaphore(&fd2, s, 0));
	for (int i = 0; i < VMM_TAKERS; i++) {
		MUST(send_fd(vmm_sock[0], fd));
		MUST(send_fd(vmm_sock[0], fd2));
	}
	close(fd);
	close(fd2);
	ready(sc);
	for (;;) {
		MUST_CU(CALL(sc, semaphore_signal(s)));
		nap_us(2000);
	}
}

/*
 * Map the memory, fill it when the semaphore was signalled, and unmap it.  When the maker is gone
 * the wait fails.  Report the result, and whether the memory can still be mapped.
 */
static int vmm_taker(struct scene *sc)
{
	int fd = recv_fd(vmm_sock[1]), fd2 = recv_fd(vmm_sock[1]);
	CUexternalSemaphore s;
	CUcontext ctx;
	CUdeviceptr d;
	CUresult result;
	handle_t h;

	MUST(fd);
	MUST(fd2);
	MUST_CU(cuda_start(&ctx));
	MUST_CU(cuMemImportFromShareableHandle(&h, (void *)(intptr_t)fd, VMM_FD));
	close(fd);
	MUST_CU(semaphore_import(&s, fd2));
	MUST_CU(cuMemAddressReserve(&d, sc->bytes, 0, 0, 0));
	ready(sc);
	for (;;) {
		MUST_CU(CALL(sc, cuMemMap(d, sc->bytes, 0, h, 0)));
		MUST_CU(CALL(sc, cuMemSetAccess(d, sc->bytes, &vmm_access, 1)));
		result = CALL(sc, semaphore_wait(s));
		if (!result)
			result = CALL(sc, cuCtxSynchronize());
		if (result) {
			*(volatile char *)d = 1;
			sc->go = result;
			CALL(sc, pause());
		}
		MUST_CU(cuMemsetD8(d, 1, sc->bytes));
		MUST_CU(cuCtxSynchronize());
		MUST_CU(CALL(sc, cuMemUnmap(d, sc->bytes)));
	}
}

#endif
