// SPDX-License-Identifier: MIT
/*
 * The API's chapter "Memory Management": memory of other processes.
 *
 * Thin: what is behind it is in ipc.c. All functions need a context.
 */
#include "entry.h"
#include "internal.h"

/**
 * cuIpcGetMemHandle - name an allocation for other processes
 * @handle: 64 bytes, the same for every call with the same allocation
 * @ptr: any address in memory of cuMemAlloc() or cuMemAllocPitch()
 *
 * Deviation: a handle opens for processes of the same user, in the same user namespace, whatever
 * their pid or mount namespace. Freeing the allocation revokes it.
 *
 * Return: INVALID_CONTEXT; INVALID_VALUE, also for memory of another process; OUT_OF_MEMORY.
 */
CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr ptr)
{
	CALL(ipc_get(handle, ptr), handle, ptr);
}

/**
 * cuIpcOpenMemHandle_v2 - reach what another process named
 * @ptr: its address here; the same each time that the context opens the handle
 * @handle: from cuIpcGetMemHandle() of another process
 * @flags: CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
 *
 * The pages of small allocations hold their neighbours, too, which become reachable with them. What
 * is opened belongs to the current context and ends with it.
 *
 * Return: INVALID_HANDLE if another context of the device has it open; INVALID_CONTEXT, also for a handle of this process; INVALID_VALUE, also for a handle
 * whose memory is freed; MAP_FAILED if this user may not open it or its device is not visible;
 * OUT_OF_MEMORY.
 */
BODY CUresult ipc_open_mem_body(CUdeviceptr *ptr, CUipcMemHandle handle, unsigned int flags)
{
	CALL_AS("cuIpcOpenMemHandle_v2", ipc_open((uint64_t *)ptr, &handle, flags), ptr, flags);
}
ENTRY(cuIpcOpenMemHandle_v2, ipc_open_mem_body);

/** cuIpcOpenMemHandle - the same */
BODY CUresult ipc_open_mem_old_body(CUdeviceptr *ptr, CUipcMemHandle handle, unsigned int flags)
{
	CALL_AS("cuIpcOpenMemHandle", ipc_open((uint64_t *)ptr, &handle, flags), ptr, flags);
}
ENTRY(cuIpcOpenMemHandle, ipc_open_mem_old_body);

/**
 * cuIpcCloseMemHandle - reach it no more
 * @ptr: what opening returned; each open needs its close
 *
 * Waits for all work of the process. Return: INVALID_CONTEXT, INVALID_VALUE.
 */
BODY CUresult ipc_close_mem_body(CUdeviceptr ptr)
{
	CALL_AS("cuIpcCloseMemHandle", ipc_close(ptr), ptr);
}
ENTRY(cuIpcCloseMemHandle, ipc_close_mem_body);

/**
 * cuIpcGetEventHandle - name an event for other processes
 * @handle: any process of the same user can open it, until the event is destroyed
 * @event: made with CU_EVENT_INTERPROCESS here; the same handle each time
 *
 * From then on recording the event, and asking about it, are system calls. Return: INVALID_CONTEXT;
 * INVALID_VALUE for NULL; INVALID_HANDLE for other events; OUT_OF_MEMORY.
 */
CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
	CALL(event_get_handle(handle, event), handle, event);
}

/**
 * cuIpcOpenEventHandle - reach an event of another process
 * @event: an event of its own with each call; either side may record it
 * @handle: from cuIpcGetEventHandle() of another process
 *
 * When the process that recorded it last ends with that work undone, waiting for the event returns
 * LAUNCH_FAILED, and so does a stream that waits for it. Return: INVALID_CONTEXT, also for a handle
 * of this process; INVALID_VALUE; MAP_FAILED for a handle that names nothing or that this user may
 * not open; OUT_OF_MEMORY.
 */
CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
	CALL(event_open_handle(event, &handle), event);
}
