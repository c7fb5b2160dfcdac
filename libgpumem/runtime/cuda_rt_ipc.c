// SPDX-License-Identifier: MIT
/*
 * The runtime API's chapter "Device Management": the functions for memory and events of other processes.
 *
 * Owns nothing. Handles are the driver's, byte for byte: each API opens handles that the other exported.
 */
#include "runtime/runtime.h"
#include "abi/entry.h"

/** cudaIpcGetMemHandle - a handle of device memory; cudaErrorInvalidValue for other memory */
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *ptr)
{
	RT_CONTEXT(rt_code(cuIpcGetMemHandle((CUipcMemHandle *)handle, rt_addr(ptr))));
}

static cudaError_t open_memory(void **ptr, const cudaIpcMemHandle_t *handle, unsigned int flags)
{
	CUipcMemHandle driver_handle;
	CUdeviceptr addr;
	CUresult result;

	if (!ptr)
		return cudaErrorInvalidValue;
	memcpy(&driver_handle, handle, sizeof(driver_handle));
	result = cuIpcOpenMemHandle_v2(&addr, driver_handle, flags);
	if (!result)
		*ptr = rt_ptr(addr);
	return rt_code(result);
}

/**
 * cudaIpcOpenMemHandle - map another process's memory
 * @flags: cudaIpcMemLazyEnablePeerAccess
 *
 * Return: cudaErrorDeviceUninitialized for memory of this process, cudaErrorMapBufferObjectFailed,
 * cudaErrorInvalidValue.
 */
BODY cudaError_t rt_ipc_open_body(void **ptr, cudaIpcMemHandle_t handle, unsigned int flags)
{
	RT_CONTEXT(open_memory(ptr, &handle, flags));
}
ENTRY(cudaIpcOpenMemHandle, rt_ipc_open_body);

/** cudaIpcCloseMemHandle - undo one cudaIpcOpenMemHandle() */
BODY cudaError_t rt_ipc_close_body(void *ptr)
{
	RT_CONTEXT(rt_code(cuIpcCloseMemHandle(rt_addr(ptr))));
}
ENTRY(cudaIpcCloseMemHandle, rt_ipc_close_body);

/** cudaIpcGetEventHandle - a handle of an event that was made with cudaEventInterprocess */
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
	RT_CONTEXT(rt_code(cuIpcGetEventHandle((CUipcEventHandle *)handle, event)));
}

static cudaError_t open_event(cudaEvent_t *event, const cudaIpcEventHandle_t *handle)
{
	CUipcEventHandle driver_handle;

	if (!event)
		return cudaErrorInvalidValue;
	memcpy(&driver_handle, handle, sizeof(driver_handle));
	return rt_code(cuIpcOpenEventHandle(event, driver_handle));
}

/** cudaIpcOpenEventHandle - open another process's event; cudaEventDestroy() closes it */
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
	RT_CONTEXT(open_event(event, &handle));
}
