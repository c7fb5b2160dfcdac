// SPDX-License-Identifier: MIT
/*
 * The API's chapter "Memory Management": memory of other processes.
 *
 * Thin: share/ipc.c (memory) and exec/ipc_event.c (events) implement it. All functions need a context.
 */
#include "driver/driver.h"

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
	CALL_AFTER(NEEDS(handle && ptr), ipc_get(handle, ptr), handle, ptr);
}

#define LAZY	CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS

/**
 * cuIpcOpenMemHandle_v2 - map memory that another process exported
 * @ptr: receives the memory's address in this process; the same each time that the context opens the handle
 * @handle: from cuIpcGetMemHandle() of another process
 * @flags: CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
 *
 * The pages of a small allocation also hold neighbouring allocations, which this process can then access, too.
 * The mapping belongs to the current context and ends with it.
 *
 * Return: INVALID_HANDLE if another context of the device has the handle open; INVALID_CONTEXT, also for a
 * handle of this process; INVALID_VALUE, also for a handle whose memory is freed; MAP_FAILED if this user may
 * not open the handle or the memory's device is not visible; OUT_OF_MEMORY.
 */
BODY CUresult ipc_open_mem_body(CUdeviceptr *ptr, CUipcMemHandle handle, unsigned int flags)
{
	CALL_AFTER_AS("cuIpcOpenMemHandle_v2", NEEDS(ptr && flags == LAZY),
		      ipc_open((uint64_t *)ptr, &handle), ptr, flags);
}
ENTRY(cuIpcOpenMemHandle_v2, ipc_open_mem_body);

/** cuIpcOpenMemHandle - the same */
BODY CUresult ipc_open_mem_old_body(CUdeviceptr *ptr, CUipcMemHandle handle, unsigned int flags)
{
	CALL_AFTER_AS("cuIpcOpenMemHandle", NEEDS(ptr && flags == LAZY),
		      ipc_open((uint64_t *)ptr, &handle), ptr, flags);
}
ENTRY(cuIpcOpenMemHandle, ipc_open_mem_old_body);

/**
 * cuIpcCloseMemHandle - unmap memory of another process
 * @ptr: the address that cuIpcOpenMemHandle() returned; each open needs one close
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
 * @event: an event that this process made with CU_EVENT_INTERPROCESS; its handle is the same each time
 *
 * After the first call, recording and querying the event are system calls. Return: INVALID_CONTEXT;
 * INVALID_VALUE for NULL; INVALID_HANDLE for other events; OUT_OF_MEMORY.
 */
CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
	CALL_AFTER(NEEDS(handle && event), event_get_handle(handle, event), handle, event);
}

/**
 * cuIpcOpenEventHandle - reach an event of another process
 * @event: receives a new handle with each call; both processes may record the event
 * @handle: from cuIpcGetEventHandle() of another process
 *
 * If the process that recorded the event last ends before the recorded work is done, waiting for the event
 * returns LAUNCH_FAILED, and a stream that waits for the event fails with LAUNCH_FAILED. Return:
 * INVALID_CONTEXT, also for a handle of this process; INVALID_VALUE; MAP_FAILED for a handle whose event does
 * not exist or that this user may not open; OUT_OF_MEMORY.
 */
CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
	CALL_AFTER(NEEDS(event), event_open_handle(event, &handle), event);
}
