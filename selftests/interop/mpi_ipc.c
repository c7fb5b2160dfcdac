// SPDX-License-Identifier: GPL-2.0
/* Preloaded into the ranks of an MPI job: at the end rank 0 prints whether it has opened an IPC handle. */
#include <cuda.h>
#include <dlfcn.h>
#include <stdatomic.h>

#include "mpi_report.h"

static atomic_ulong opened;

CUresult cuIpcOpenMemHandle(CUdeviceptr *ptr, CUipcMemHandle handle, unsigned int flags)
{
	CUresult (*real)(CUdeviceptr *, CUipcMemHandle, unsigned int);
	CUresult r;

	real = (CUresult (*)(CUdeviceptr *, CUipcMemHandle, unsigned int))dlsym(RTLD_NEXT, "cuIpcOpenMemHandle_v2");
	if (!real)
		return CUDA_ERROR_NOT_FOUND;
	r = real(ptr, handle, flags);
	if (!r)
		atomic_fetch_add(&opened, 1);
	return r;
}

__attribute__((destructor)) static void report(void)
{
	report_rank("opens-ipc-handles", atomic_load(&opened));
}
