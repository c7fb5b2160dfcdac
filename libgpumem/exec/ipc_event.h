/* SPDX-License-Identifier: MIT */
/*
 * Events that several processes share, as objects of the kernel. ipc_event.c has the rules.
 */
#ifndef GPUMEM_EXEC_IPC_EVENT_H
#define GPUMEM_EXEC_IPC_EVENT_H

#include "exec/stream.h"

struct ipc_event {
	uint32_t id;			/* id of the kernel's event, or 0; atomic */
	bool import;			/* made by another process */
	uint8_t token[GPUMEM_TOKEN_SIZE];
};

/* Make an event of the kernel that was never recorded. */
CUresult ipc_event_make(struct ipc_event *ipc);
CUresult ipc_event_open(struct ipc_event *ipc, const CUipcEventHandle *handle);
void ipc_event_drop(struct ipc_event *ipc);
void ipc_event_handle(const struct ipc_event *ipc, CUipcEventHandle *handle);
/* @queue: NULL if the recorded work is done. */
CUresult ipc_event_record(const struct ipc_event *ipc, const struct queue *queue, uint64_t value);
CUresult ipc_event_query(const struct ipc_event *ipc);
CUresult ipc_event_synchronize(const struct ipc_event *ipc);
CUresult ipc_event_wait(CUstream stream, const struct ipc_event *ipc);

#endif /* GPUMEM_EXEC_IPC_EVENT_H */
