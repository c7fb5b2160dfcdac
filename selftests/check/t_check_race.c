// SPDX-License-Identifier: GPL-2.0
/*
 * The checker on programs whose operations are not ordered, and on programs that order them: by streams, events, the
 * host, the legacy stream, values and host functions.
 */
#include <pthread.h>
#include <semaphore.h>

#include "kselftest_harness.h"
#include "check_util.h"

/* ---- two streams */

MISTAKE(read_after_write, "race")
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b)));
}

TWIN(read_after_write_with_event)
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuEventRecord(w->e, w->a));
	OK(cuStreamWaitEvent(w->b, w->e, 0));
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
}

MISTAKE(write_after_read, "race")
{
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->a));
	OK(WRONG(cuMemsetD8Async(w->p, 2, BYTES, w->b)));
}

TWIN(write_after_read_with_synchronization)
{
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->a));
	OK(cuStreamSynchronize(w->a));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->b));
}

MISTAKE(write_after_write, "race")
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(WRONG(cuMemsetD8Async(w->p, 3, BYTES, w->b)));
}

TWIN(two_reads)
{
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, 64, w->a));
	OK(cuMemcpyDtoHAsync(w->pinned + 64, w->p, 64, w->b));
}

TWIN(different_bytes)
{
	OK(cuMemsetD8Async(w->p, 2, BYTES / 2, w->a));
	OK(cuMemsetD8Async(w->p + BYTES / 2, 3, BYTES / 2, w->b));
}

MISTAKE(one_byte_in_common, "race")
{
	OK(cuMemsetD8Async(w->p, 2, BYTES / 2 + 1, w->a));
	OK(WRONG(cuMemsetD8Async(w->p + BYTES / 2, 3, BYTES / 2, w->b)));
}

MISTAKE(second_of_two_readers, "race")
{
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, 64, w->a));
	OK(cuMemcpyDtoHAsync(w->pinned + 64, w->p, 64, w->b));
	OK(cuStreamSynchronize(w->b));
	OK(WRONG(cuMemsetD8Async(w->p, 2, 64, w->b)));
}

TWIN(both_readers_waited_for)
{
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, 64, w->a));
	OK(cuMemcpyDtoHAsync(w->pinned + 64, w->p, 64, w->b));
	OK(cuStreamSynchronize(w->a));
	OK(cuMemsetD8Async(w->p, 2, 64, w->b));
}

TWIN(one_stream)
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuMemcpyDtoDAsync(w->q, w->p, BYTES, w->a));
	OK(cuMemcpyDtoHAsync(w->pinned, w->q, BYTES, w->a));
}

MISTAKE(copy_reads_what_another_stream_writes, "race")
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(WRONG(cuMemcpyDtoDAsync(w->q, w->p, BYTES, w->b)));
}

MISTAKE(copy_writes_what_another_stream_reads, "race")
{
	OK(cuMemcpyDtoHAsync(w->pinned, w->q, BYTES, w->a));
	OK(WRONG(cuMemcpyDtoDAsync(w->q, w->p, BYTES, w->b)));
}

MISTAKE(pinned_memory_written_twice, "race")
{
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->a));
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->q, BYTES, w->b)));
}

/* ---- events */

MISTAKE(event_recorded_too_early, "race")
{
	OK(cuEventRecord(w->e, w->a));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuStreamWaitEvent(w->b, w->e, 0));
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b)));
}

MISTAKE(event_waited_for_before_its_record, "race")
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuStreamWaitEvent(w->b, w->e, 0));
	OK(cuEventRecord(w->e, w->a));
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b)));
}

MISTAKE(event_recorded_again_elsewhere, "race")
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuEventRecord(w->e, w->a));
	OK(cuEventRecord(w->e, w->blocking));
	OK(cuStreamWaitEvent(w->b, w->e, 0));
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b)));
}

TWIN(two_events_in_a_row)
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuEventRecord(w->e, w->a));
	OK(cuStreamWaitEvent(w->b, w->e, 0));
	OK(cuEventRecord(w->f, w->b));
	OK(cuStreamWaitEvent(w->blocking, w->f, 0));
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->blocking));
}

TWIN(event_destroyed_after_the_wait)
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuEventRecord(w->e, w->a));
	OK(cuStreamWaitEvent(w->b, w->e, 0));
	OK(cuEventDestroy(w->e));
	w->e = NULL;
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
}

TWIN(event_synchronized)
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuEventRecord(w->e, w->a));
	OK(cuEventSynchronize(w->e));
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
}

MISTAKE(event_synchronized_before_the_last_write, "race")
{
	OK(cuEventRecord(w->e, w->a));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuEventSynchronize(w->e));
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b)));
}

TWIN(event_queried)
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuEventRecord(w->e, w->a));
	while (cuEventQuery(w->e) == CUDA_ERROR_NOT_READY)
		;
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
}

TWIN(stream_queried)
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	while (cuStreamQuery(w->a) == CUDA_ERROR_NOT_READY)
		;
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
}

MISTAKE(other_stream_synchronized, "race")
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuStreamSynchronize(w->b));
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b)));
}

TWIN(context_synchronized)
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
}

TWIN(context_event)
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuCtxRecordEvent(w->ctx, w->e));
	OK(cuStreamWaitEvent(w->b, w->e, 0));
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
}

TWIN(context_waits_for_event)
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuEventRecord(w->e, w->a));
	OK(cuCtxWaitEvent(w->ctx, w->e));
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
}

TWIN(stream_destroyed_and_made_anew)
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuStreamSynchronize(w->a));
	OK(cuStreamDestroy(w->a));
	OK(cuStreamCreate(&w->a, CU_STREAM_NON_BLOCKING));
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->a));
}

MISTAKE(stream_destroyed_without_waiting, "race")
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuStreamDestroy(w->a));
	OK(cuStreamCreate(&w->a, CU_STREAM_NON_BLOCKING));
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->a)));
}

TWIN(destroyed_stream_and_context_synchronized)
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuStreamDestroy(w->a));
	w->a = NULL;
	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
}

TWIN(context_waits_before_the_legacy_stream_is_used)
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuEventRecord(w->e, w->a));
	OK(cuCtxWaitEvent(w->ctx, w->e));
	OK(cuMemcpyDtoH(w->pageable, w->p, BYTES));
}

/* ---- the legacy stream, and calls without a stream */

TWIN(legacy_after_blocking)
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->blocking));
	OK(cuMemcpyDtoDAsync(w->q, w->p, BYTES, NULL));
}

TWIN(blocking_after_legacy)
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, NULL));
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->blocking));
}

MISTAKE(nonblocking_after_legacy, "race")
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, NULL));
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->a)));
}

MISTAKE(legacy_after_nonblocking, "race")
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(WRONG(cuMemcpyDtoH(w->pageable, w->p, BYTES)));
}

TWIN(legacy_between_two_blocking_streams)
{
	CUstream other;

	OK(cuStreamCreate(&other, CU_STREAM_DEFAULT));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->blocking));
	OK(cuMemsetD8Async(w->q, 2, 1, NULL));
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, other));
	OK(cuStreamDestroy(other));
}

MISTAKE(two_blocking_streams, "race")
{
	CUstream other;

	OK(cuStreamCreate(&other, CU_STREAM_DEFAULT));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->blocking));
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, other)));
	OK(cuStreamDestroy(other));
}

MISTAKE(fill_is_not_done_when_it_returns, "race")
{
	OK(cuMemsetD8(w->p, 2, BYTES));
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->a)));
}

static void sync_memops(CUdeviceptr at, unsigned int on)
{
	OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
}

TWIN(fill_with_sync_memops_is_done_when_it_returns)
{
	sync_memops(w->p, 1);
	OK(cuMemsetD8(w->p, 2, BYTES));
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->a));
}

TWIN(copy_with_sync_memops_is_done_when_it_returns)
{
	sync_memops(w->q, 1);
	OK(cuMemcpyDtoD(w->q, w->p, BYTES));
	OK(cuMemcpyDtoHAsync(w->pinned, w->q, BYTES, w->a));
	OK(cuCtxSynchronize());
	sync_memops(w->q, 0);
	sync_memops(w->p, 1);
	OK(cuMemcpyDtoD(w->q, w->p, BYTES));
	OK(cuMemcpyDtoHAsync(w->pinned, w->q, BYTES, w->b));
}

MISTAKE(fill_after_sync_memops_is_off, "race")
{
	sync_memops(w->p, 1);
	sync_memops(w->p, 0);
	OK(cuMemsetD8(w->p, 2, BYTES));
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->a)));
}

/* The attribute concerns calls without a stream. */
MISTAKE(fill_in_a_stream_with_sync_memops, "race")
{
	sync_memops(w->p, 1);
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->b));
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->a)));
}

MISTAKE(copy_between_device_memory_is_not_done_when_it_returns, "race")
{
	OK(cuMemcpyDtoD(w->q, w->p, BYTES));
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->q, BYTES, w->a)));
}

MISTAKE(pageable_source_is_only_read_when_the_copy_returns, "race")
{
	OK(cuMemcpyHtoD(w->p, w->pageable, BYTES));
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->a)));
}

TWIN(copy_from_pageable_memory_waits_for_its_stream)
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, NULL));
	OK(cuMemcpyHtoD(w->q, w->pageable, BYTES));
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->a));
}

TWIN(pinned_source_is_copied_when_the_copy_returns)
{
	OK(cuMemcpyHtoD(w->p, w->pinned, BYTES));
	OK(cuMemcpyDtoDAsync(w->q, w->p, BYTES, w->a));
}

TWIN(copy_to_the_host_is_done_when_it_returns)
{
	OK(cuMemcpyDtoH(w->pageable, w->p, BYTES));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
}

TWIN(asynchronous_copy_to_pageable_memory_is_done_when_it_returns)
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuMemcpyDtoHAsync(w->pageable, w->p, BYTES, w->a));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->b));
}

/* ---- values */

TWIN(value_written_and_awaited)
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuStreamWriteValue32(w->a, w->q, 7, 0));
	OK(cuStreamWaitValue32(w->b, w->q, 7, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
}

TWIN(value_awaited_before_it_is_written)
{
	OK(cuStreamWaitValue32(w->b, w->q, 7, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuStreamWriteValue32(w->a, w->q, 7, 0));
}

MISTAKE(value_written_too_early, "race")
{
	OK(cuStreamWriteValue32(w->a, w->q, 7, 0));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuStreamWaitValue32(w->b, w->q, 7, CU_STREAM_WAIT_VALUE_EQ));
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b)));
}

MISTAKE(value_of_another_word, "race")
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuStreamWriteValue32(w->b, w->q, 7, 0));
	OK(cuStreamWaitValue32(w->b, w->q, 7, CU_STREAM_WAIT_VALUE_EQ));
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b)));
}

TWIN(fill_is_awaited)
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->b));
	OK(cuMemsetD32Async(w->q, 9, 1, w->b));
	OK(cuStreamWaitValue32(w->a, w->q, 9, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->a));
}

TWIN(fill_is_awaited_before_it_is_there)
{
	OK(cuStreamWaitValue32(w->a, w->q, 9, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->a));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->b));
	OK(cuMemsetD32Async(w->q, 9, 1, w->b));
}

MISTAKE(fill_of_another_value_is_awaited, "race")
{
	OK(cuMemsetD32Async(w->q, 9, 1, w->b));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->b));
	OK(cuStreamWaitValue32(w->a, w->q, 9, CU_STREAM_WAIT_VALUE_EQ));
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->a)));
}

/* The CPU sets the word back between two rounds: the wait of the second one comes after the second write. */
TWIN(value_is_set_back_by_the_host)
{
	CUdeviceptr word = (uintptr_t)w->pinned;

	for (unsigned int i = 0; i < 3; i++) {
		OK(cuStreamWaitValue32(w->a, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
		OK(cuMemcpyDtoDAsync(w->q, w->p, 64, w->a));
		OK(cuMemsetD8Async(w->p, i, 64, w->b));
		OK(cuStreamWriteValue32(w->b, word, 1, 0));
		OK(cuCtxSynchronize());
		memset(w->pinned, 0, 4);
	}
}

TWIN(value_is_set_by_the_host)
{
	OK(cuStreamWaitValue32(w->a, (uintptr_t)w->pinned, 1, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuMemsetD8Async(w->p, 2, 64, w->a));
	*(volatile unsigned int *)w->pinned = 1;
	OK(cuStreamSynchronize(w->a));
	OK(cuMemcpyDtoHAsync(w->pinned + 64, w->p, 64, w->b));
}

/* ---- host functions, polling and threads */

static void post(void *semaphore)
{
	sem_post(semaphore);
}

TWIN(host_function_tells_the_host)
{
	sem_t done;

	sem_init(&done, 0, 0);
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuLaunchHostFunc(w->a, post, &done));
	sem_wait(&done);
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
}

/* The functions have the same argument, and run in another order than they were submitted. */
TWIN(two_host_functions)
{
	static sem_t first, second;

	sem_init(&first, 0, 0);
	sem_init(&second, 0, 0);
	OK(cuStreamWaitValue32(w->a, (uintptr_t)w->pinned, 1, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuMemsetD8Async(w->p, 2, 64, w->a));
	OK(cuLaunchHostFunc(w->a, post, &first));
	OK(cuMemsetD8Async(w->q, 2, 64, w->b));
	OK(cuLaunchHostFunc(w->b, post, &second));
	sem_wait(&second);
	OK(cuMemcpyDtoHAsync(w->pinned + 64, w->q, 64, w->blocking));
	*(volatile unsigned int *)w->pinned = 1;
	sem_wait(&first);
	OK(cuMemcpyDtoHAsync(w->pinned + 128, w->p, 64, w->blocking));
}

static void nothing(void *arg)
{
	(void)arg;
}

static void fill_pinned(void *pinned)
{
	memset(pinned, 3, BYTES);
}

TWIN(host_function_changes_a_source_in_stream_order)
{
	OK(cuMemcpyHtoDAsync(w->p, w->pinned, BYTES, w->a));
	OK(cuLaunchHostFunc(w->a, nothing, NULL));
	OK(cuLaunchHostFunc(w->a, fill_pinned, w->pinned));
	OK(cuMemcpyHtoDAsync(w->p, w->pinned, BYTES, w->a));
	OK(cuStreamSynchronize(w->a));
}

MISTAKE(host_function_before_the_write, "race")
{
	sem_t done;

	sem_init(&done, 0, 0);
	OK(cuLaunchHostFunc(w->a, post, &done));
	sem_wait(&done);
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b)));
}

static void poll_then_read(struct program *w)
{
	volatile unsigned int *word = (volatile unsigned int *)w->pinned;

	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuStreamWriteValue32(w->a, (uintptr_t)w->pinned, 7, 0));
	while (*word != 7)
		;
	OK(WRONG(cuMemcpyDtoDAsync(w->q, w->p, BYTES, w->b)));
}

TWIN(polled_by_the_host)
{
	poll_then_read(w);
}

static const char *const in_strict_mode[] = { "GPUMEM_CHECK=strict", NULL };

PROGRAM(polled_by_the_host_in_strict_mode, "race", in_strict_mode)
{
	poll_then_read(w);
}

/* Another process waits for the event, and tells the program by a socket. */
static void told_by_another_process(struct program *w)
{
	CUipcEventHandle handle;
	CUevent event;

	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuEventRecord(event, w->a));
	OK(cuIpcGetEventHandle(&handle, event));
	OK(cuMemsetD8Async(w->q, 2, BYTES, w->a));
	OK(cuEventRecord(event, w->a));
	OK(cuEventDestroy(event));
}

TWIN(told_by_another_process_after_the_handle)
{
	told_by_another_process(w);
	OK(cuMemcpyDtoHAsync(w->pinned, w->q, BYTES, w->b));
}

TWIN(told_by_another_process_before_the_handle)
{
	told_by_another_process(w);
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
}

/* The record waits when the handle is passed. */
TWIN(told_by_another_process_after_a_wait)
{
	CUipcEventHandle handle;
	CUevent event;

	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
	OK(cuStreamWaitValue32(w->a, w->q, 7, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuEventRecord(event, w->a));
	OK(cuIpcGetEventHandle(&handle, event));
	OK(cuStreamWriteValue32(w->b, w->q, 7, 0));
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
	OK(cuEventDestroy(event));
}

PROGRAM(told_by_another_process_in_strict_mode, "race", in_strict_mode)
{
	told_by_another_process(w);
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->q, BYTES, w->b)));
}

MISTAKE(event_that_no_other_process_has, "race")
{
	CUevent event;

	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuEventRecord(event, w->a));
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b)));
	OK(cuEventDestroy(event));
}

static void *write_in_thread(void *arg)
{
	struct program *w = arg;

	OK(cuCtxSetCurrent(w->ctx));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	return NULL;
}

MISTAKE(threads_do_not_order_streams, "race")
{
	pthread_t thread;

	pthread_create(&thread, NULL, write_in_thread, w);
	pthread_join(thread, NULL);
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b)));
}

/* ---- boxes */

static CUDA_MEMCPY2D columns(const struct program *w, unsigned int x)
{
	return (CUDA_MEMCPY2D) {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = w->q, .srcPitch = 64,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = w->p, .dstPitch = 64, .dstXInBytes = x,
		.WidthInBytes = 32, .Height = BYTES / 64,
	};
}

/* Rows whose pitch is not given are as far apart as they are long, with what is left of them. */
TWIN(pitch_of_zero)
{
	CUDA_MEMCPY2D copy = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = w->q, .srcPitch = 64,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = w->p, .dstXInBytes = 8, .WidthInBytes = 56,
		.Height = BYTES / 64,
	};

	OK(cuMemcpy2DAsync(&copy, w->a));
	OK(cuMemsetD2D8Async(w->p, 64, 1, 8, BYTES / 64, w->b));
}

TWIN(columns_side_by_side)
{
	CUDA_MEMCPY2D left = columns(w, 0), right = columns(w, 32);

	OK(cuMemcpy2DAsync(&left, w->a));
	OK(cuMemcpy2DAsync(&right, w->b));
}

MISTAKE(columns_overlap, "race")
{
	CUDA_MEMCPY2D left = columns(w, 0), right = columns(w, 31);

	OK(cuMemcpy2DAsync(&left, w->a));
	OK(WRONG(cuMemcpy2DAsync(&right, w->b)));
}

/* ---- copies between contexts */

TWIN(peer_copy_comes_after_all_work_and_before_all)
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuMemcpyPeer(w->q, w->ctx, w->p, w->ctx, BYTES));
	OK(cuMemcpyDtoHAsync(w->pinned, w->q, BYTES, w->b));
}

MISTAKE(peer_copy_in_a_stream_orders_nothing_else, "race")
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(WRONG(cuMemcpyPeerAsync(w->q, w->ctx, w->p, w->ctx, BYTES, w->b)));
}

/* ---- batches: their copies have no order */

/* A macro, so that the call's line is the program's. */
#define BATCH(dsts, srcs, count)						\
	cuMemcpyBatchAsync(dsts, srcs, (size_t []){ 64, 64, 64 }, count,	\
			   &(CUmemcpyAttributes){ .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM },	\
			   &(size_t){ 0 }, 1, w->a)

MISTAKE(two_copies_of_a_batch_write_the_same_bytes, "race")
{
	CUdeviceptr dsts[] = { w->p, w->p + 100, w->p + 127 }, srcs[] = { w->q, w->q + 200, w->q + 400 };

	OK(WRONG(BATCH(dsts, srcs, 3)));
	OK(cuStreamSynchronize(w->a));
}

MISTAKE(a_copy_of_a_batch_reads_what_another_writes, "race")
{
	CUdeviceptr dsts[] = { w->p, w->p + 1000 }, srcs[] = { w->q, w->p + 63 };

	OK(WRONG(BATCH(dsts, srcs, 2)));
	OK(cuStreamSynchronize(w->a));
}

TWIN(copies_of_a_batch_are_separate)
{
	CUdeviceptr dsts[] = { w->p, w->p + 64, w->p + 128 }, srcs[] = { w->q, w->q, w->q + 32 };

	OK(BATCH(dsts, srcs, 3));
	OK(cuStreamSynchronize(w->a));
}

TEST_HARNESS_MAIN
