// SPDX-License-Identifier: GPL-2.0
/*
 * The checker on programs with external semaphores: signals that are submitted before and after their waits, values,
 * several signals and waits of one semaphore, several semaphores, several handles of one, and what another process may
 * have signalled.
 */
#include <gpumem.h>
#include <linux/dma-buf.h>
#include <sys/ioctl.h>

#include "kselftest_harness.h"
#include "check_util.h"

/* ---- the wait is submitted last */

TWIN(read_after_write_with_semaphores)
{
	CUexternalSemaphore one, many;

	OK(gpumem_create_semaphore(&one, 0, 0));
	OK(gpumem_create_semaphore(&many, 0, GPUMEM_SEMAPHORE_TIMELINE));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	raise_one(one, 0, w->a);
	await_one(one, 0, w->b);
	OK(cuMemsetD8Async(w->p, 3, BYTES, w->b));
	raise_one(many, 7, w->b);
	await_one(many, 7, w->a);
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->a));
	OK(cuCtxSynchronize());
	OK(cuDestroyExternalSemaphore(one));
	OK(cuDestroyExternalSemaphore(many));
}

/* The signal is behind a wait for a value that is written last. */
TWIN(semaphore_is_signalled_late)
{
	CUexternalSemaphore one, many;

	OK(gpumem_create_semaphore(&one, 0, 0));
	OK(gpumem_create_semaphore(&many, 0, GPUMEM_SEMAPHORE_TIMELINE));
	OK(cuStreamWaitValue32(w->a, w->q, 7, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	raise_one(one, 0, w->a);
	raise_one(many, 5, w->a);
	await_one(one, 0, w->b);
	OK(cuMemsetD8Async(w->p, 3, 64, w->b));
	await_one(many, 4, w->blocking);
	OK(cuMemcpyDtoHAsync(w->pinned, w->p + 64, BYTES - 64, w->blocking));
	OK(cuStreamWriteValue32(CU_STREAM_PER_THREAD, w->q, 7, 0));
	OK(cuCtxSynchronize());
	OK(cuDestroyExternalSemaphore(one));
	OK(cuDestroyExternalSemaphore(many));
}

/* The values of binary semaphores mean nothing. */
TWIN(values_of_a_binary_semaphore)
{
	CUexternalSemaphore one, raised;

	OK(gpumem_create_semaphore(&one, 0, 0));
	OK(gpumem_create_semaphore(&raised, 1, 0));
	raise_one(one, 1, w->b);
	await_one(one, 1, w->b);
	OK(cuStreamWaitValue32(w->a, w->q, 7, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	raise_one(one, 1, w->a);
	await_one(one, 9, w->b);
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
	/* It begins signalled: this wait needs no signal. */
	await_one(raised, 0, w->blocking);
	OK(cuStreamWriteValue32(w->blocking, w->q, 7, 0));
	OK(cuCtxSynchronize());
	OK(cuDestroyExternalSemaphore(one));
	OK(cuDestroyExternalSemaphore(raised));
}

/*
 * The program waits for a stream behind a signal behind a value of the CPU. Another stream's wait is not over then, so
 * what comes after it is not ordered by the first one.
 */
MISTAKE(copy_behind_another_value, "race")
{
	CUdeviceptr word = (uintptr_t)w->pinned + BYTES - 64;
	CUexternalSemaphore many;

	OK(gpumem_create_semaphore(&many, 0, GPUMEM_SEMAPHORE_TIMELINE));
	*(volatile unsigned int *)(uintptr_t)word = 0;
	OK(cuStreamWaitValue32(w->blocking, w->q, 7, CU_STREAM_WAIT_VALUE_EQ));
	OK(WRONG(cuMemcpyDtoDAsync(w->q + 64, w->p, 64, w->blocking)));
	OK(cuStreamWaitValue32(w->a, word, 5, CU_STREAM_WAIT_VALUE_EQ));
	raise_one(many, 1, w->a);
	await_one(many, 1, w->b);
	*(volatile unsigned int *)(uintptr_t)word = 5;
	OK(cuStreamSynchronize(w->b));
	OK(cuMemsetD8Async(w->p, 3, 64, w->b));
	OK(cuStreamWriteValue32(CU_STREAM_PER_THREAD, w->q, 7, 0));
	OK(cuCtxSynchronize());
	OK(cuDestroyExternalSemaphore(many));
}

/* The value is over when the wait behind the signal is. The program knows that of what comes before the signal only. */
MISTAKE(write_behind_the_signal, "race")
{
	CUdeviceptr word = (uintptr_t)w->pinned + BYTES - 64;
	CUexternalSemaphore many;

	OK(gpumem_create_semaphore(&many, 0, GPUMEM_SEMAPHORE_TIMELINE));
	*(volatile unsigned int *)(uintptr_t)word = 0;
	OK(cuStreamWaitValue32(w->a, word, 5, CU_STREAM_WAIT_VALUE_EQ));
	raise_one(many, 1, w->a);
	OK(cuMemsetD8Async(w->p, 3, 64, w->a));
	await_one(many, 1, w->b);
	*(volatile unsigned int *)(uintptr_t)word = 5;
	OK(cuStreamSynchronize(w->b));
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, 64, w->blocking)));
	OK(cuCtxSynchronize());
	OK(cuDestroyExternalSemaphore(many));
}

/* A later signal of the same semaphore waits for what comes after the wait. */
TWIN(a_wait_needs_no_later_signal)
{
	CUexternalSemaphore many;

	OK(gpumem_create_semaphore(&many, 0, GPUMEM_SEMAPHORE_TIMELINE));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->blocking));
	raise_one(many, 1, w->blocking);
	OK(cuStreamWaitValue32(w->a, w->q, 7, CU_STREAM_WAIT_VALUE_EQ));
	raise_one(many, 2, w->a);
	await_one(many, 1, w->b);
	OK(cuMemsetD8Async(w->p, 3, BYTES, w->b));
	OK(cuStreamWriteValue32(w->b, w->q, 7, 0));
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->a));
	OK(cuCtxSynchronize());
	OK(cuDestroyExternalSemaphore(many));
}

MISTAKE(semaphore_is_signalled_too_early, "race")
{
	CUexternalSemaphore semaphore;

	OK(gpumem_create_semaphore(&semaphore, 0, 0));
	raise_one(semaphore, 0, w->a);
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	await_one(semaphore, 0, w->b);
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b)));
	OK(cuCtxSynchronize());
	OK(cuDestroyExternalSemaphore(semaphore));
}

MISTAKE(semaphore_is_not_waited_for, "race")
{
	CUexternalSemaphore semaphore;

	OK(gpumem_create_semaphore(&semaphore, 0, GPUMEM_SEMAPHORE_TIMELINE));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	raise_one(semaphore, 1, w->a);
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b)));
	OK(cuCtxSynchronize());
	OK(cuDestroyExternalSemaphore(semaphore));
}

/* ---- the wait is submitted first */

static CUexternalSemaphore timeline_new(void)
{
	CUexternalSemaphore semaphore;

	OK(gpumem_create_semaphore(&semaphore, 0, GPUMEM_SEMAPHORE_TIMELINE));
	return semaphore;
}

static CUexternalSemaphore binary_new(void)
{
	CUexternalSemaphore semaphore;

	OK(gpumem_create_semaphore(&semaphore, 0, 0));
	return semaphore;
}

static void end(CUexternalSemaphore semaphore)
{
	OK(cuCtxSynchronize());
	OK(cuDestroyExternalSemaphore(semaphore));
}

TWIN(value_is_awaited_before_its_signal)
{
	CUexternalSemaphore many = timeline_new();

	await_one(many, 2, w->b);
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
	raise_one(many, 1, w->a);
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	raise_one(many, 2, w->a);
	end(many);
}

/* What comes after the wait is compared when the signal is submitted, and the write is submitted later. */
MISTAKE(a_lower_value_is_awaited_before_its_signal, "race")
{
	CUexternalSemaphore many = timeline_new();

	await_one(many, 1, w->b);
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
	raise_one(many, 1, w->a);
	OK(WRONG(cuMemsetD8Async(w->p, 2, BYTES, w->a)));
	raise_one(many, 2, w->a);
	end(many);
}

TWIN(binary_semaphore_is_awaited_before_its_signal)
{
	CUexternalSemaphore one = binary_new();

	await_one(one, 0, w->b);
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	raise_one(one, 0, w->a);
	end(one);
}

/* The signal does not order the stream that writes. */
MISTAKE(the_signal_of_another_stream_is_awaited, "race")
{
	CUexternalSemaphore one = binary_new();

	await_one(one, 0, w->b);
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b)));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->blocking));
	raise_one(one, 0, w->a);
	end(one);
}

/* Each wait is behind the next stream's signal. */
TWIN(waits_in_a_chain)
{
	CUexternalSemaphore many = timeline_new(), one = binary_new();

	await_one(many, 5, w->b);
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
	await_one(one, 0, w->a);
	OK(cuMemsetD8Async(w->p, 3, BYTES, w->a));
	raise_one(many, 5, w->a);
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->blocking));
	raise_one(one, 0, w->blocking);
	OK(cuStreamSynchronize(w->b));
	end(many);
	end(one);
}

/* The semaphores are destroyed before the signals run. */
TWIN(semaphores_are_destroyed_while_they_are_awaited)
{
	CUexternalSemaphore many = timeline_new();

	OK(cuStreamWaitValue32(w->a, w->q, 7, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	raise_one(many, 1, w->a);
	await_one(many, 1, w->b);
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
	OK(cuDestroyExternalSemaphore(many));
	many = timeline_new();
	raise_one(many, 9, w->blocking);
	OK(cuStreamWriteValue32(w->blocking, w->q, 7, 0));
	end(many);
}

/* ---- several signals and waits */

TWIN(the_value_after_the_write_is_awaited)
{
	CUexternalSemaphore many = timeline_new();

	raise_one(many, 1, w->a);
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	raise_one(many, 2, w->a);
	await_one(many, 2, w->b);
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
	end(many);
}

MISTAKE(the_value_before_the_write_is_awaited, "race")
{
	CUexternalSemaphore many = timeline_new();

	raise_one(many, 1, w->a);
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	raise_one(many, 2, w->a);
	await_one(many, 1, w->b);
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b)));
	end(many);
}

/* A semaphore that begins with the value needs no signal. */
MISTAKE(the_value_is_there_at_the_beginning, "race")
{
	CUexternalSemaphore many;

	OK(gpumem_create_semaphore(&many, 3, GPUMEM_SEMAPHORE_TIMELINE));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	raise_one(many, 4, w->a);
	await_one(many, 3, w->b);
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b)));
	end(many);
}

/* The checker remembers some values only: waits for the others come after the next one. */
TWIN(more_values_than_are_remembered)
{
	CUexternalSemaphore many = timeline_new();

	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	for (unsigned int i = 1; i < 200; i++)
		raise_one(many, i, w->a);
	await_one(many, 1, w->b);
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
	end(many);
}

TWIN(each_wait_has_its_signal)
{
	CUexternalSemaphore one = binary_new();

	await_one(one, 0, w->blocking);
	await_one(one, 0, w->b);
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
	raise_one(one, 0, w->a);
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	raise_one(one, 0, w->a);
	end(one);
}

/* The first call that waits gets the first signal. */
MISTAKE(another_wait_has_the_signal, "race")
{
	CUexternalSemaphore one = binary_new();

	await_one(one, 0, w->b);
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
	await_one(one, 0, w->blocking);
	raise_one(one, 0, w->a);
	OK(WRONG(cuMemsetD8Async(w->p, 2, BYTES, w->a)));
	raise_one(one, 0, w->a);
	end(one);
}

/* Two streams signal without order, so either may be the first. */
MISTAKE(one_of_two_signals_is_awaited, "race")
{
	CUexternalSemaphore one = binary_new();

	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	raise_one(one, 0, w->a);
	raise_one(one, 0, w->blocking);
	await_one(one, 0, w->b);
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b)));
	await_one(one, 0, w->b);
	end(one);
}

TWIN(both_of_two_signals_are_awaited)
{
	CUexternalSemaphore one = binary_new();

	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	raise_one(one, 0, w->a);
	OK(cuMemsetD8Async(w->q, 2, BYTES, w->blocking));
	raise_one(one, 0, w->blocking);
	await_one(one, 0, w->b);
	await_one(one, 0, w->b);
	OK(cuMemcpyDtoDAsync(w->p, w->q, BYTES, w->b));
	end(one);
}

MISTAKE(one_of_two_streams_reaches_the_value, "race")
{
	CUexternalSemaphore many = timeline_new();

	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	raise_one(many, 2, w->a);
	raise_one(many, 3, w->blocking);
	await_one(many, 2, w->b);
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b)));
	end(many);
}

TWIN(both_streams_signal_after_the_write)
{
	CUexternalSemaphore many = timeline_new();

	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuEventRecord(w->e, w->a));
	OK(cuStreamWaitEvent(w->blocking, w->e, 0));
	raise_one(many, 2, w->a);
	raise_one(many, 3, w->blocking);
	await_one(many, 2, w->b);
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
	end(many);
}

/* ---- several semaphores, and several handles */

MISTAKE(another_semaphore_is_awaited, "race")
{
	CUexternalSemaphore many = timeline_new(), other = timeline_new();

	raise_one(other, 1, w->blocking);
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	raise_one(many, 1, w->a);
	await_one(other, 1, w->b);
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b)));
	end(many);
	end(other);
}

TWIN(the_right_semaphore_is_awaited)
{
	CUexternalSemaphore many = timeline_new(), other = timeline_new();

	raise_one(other, 1, w->blocking);
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	raise_one(many, 1, w->a);
	await_one(many, 1, w->b);
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
	end(many);
	end(other);
}

/* Another handle of a semaphore. */
static CUexternalSemaphore import_again(CUexternalSemaphore semaphore, bool binary)
{
	CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC desc = {
		.type = binary ? CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD :
			CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD,
	};
	CUexternalSemaphore again;

	OK(gpumem_export_semaphore(&desc.handle.fd, semaphore, 0));
	OK(cuImportExternalSemaphore(&again, &desc));
	return again;
}

TWIN(another_handle_is_awaited)
{
	CUexternalSemaphore many = timeline_new(), again = import_again(many, false), third = import_again(again, false);

	await_one(again, 1, w->b);
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	raise_one(third, 1, w->a);
	end(many);
	end(again);
	end(third);
}

/* The signal of one handle ends the wait of the other one: the wait does not come after what is signalled later. */
MISTAKE(another_handle_is_signalled_too_early, "race")
{
	CUexternalSemaphore many = timeline_new(), again = import_again(many, false), third = import_again(many, false);

	await_one(again, 1, w->b);
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
	raise_one(third, 1, w->a);
	OK(WRONG(cuMemsetD8Async(w->p, 2, BYTES, w->a)));
	raise_one(third, 2, w->a);
	end(many);
	end(again);
	end(third);
}

TWIN(another_handle_of_a_binary_semaphore_is_awaited)
{
	CUexternalSemaphore one = binary_new(), again = import_again(one, true);

	await_one(again, 0, w->b);
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	raise_one(one, 0, w->a);
	end(one);
	end(again);
}

/* ---- semaphores that another process may have: it may have signalled after it waited */

/* Signal a binary semaphore that another process may have, and wait for it by another handle in stream b. */
static void await_shared(struct program *w)
{
	CUexternalSemaphore one = binary_new(), again = import_again(one, true);

	raise_one(one, 0, w->blocking);
	await_one(again, 0, w->b);
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
	end(one);
	end(again);
}

/* Another process may wait for the signal from now on. */
static void export_one(CUexternalSemaphore semaphore)
{
	int fd;

	OK(gpumem_export_semaphore(&fd, semaphore, 0));
	close(fd);
}

TWIN(semaphore_is_exported_before_its_signal)
{
	CUexternalSemaphore many = timeline_new();

	export_one(many);
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	raise_one(many, 1, w->a);
	await_shared(w);
	end(many);
}

TWIN(semaphore_is_exported_after_its_signal)
{
	CUexternalSemaphore many = timeline_new();

	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	raise_one(many, 1, w->a);
	export_one(many);
	await_shared(w);
	end(many);
}

MISTAKE(semaphore_is_not_exported, "race")
{
	CUexternalSemaphore many = timeline_new(), one = binary_new(), again = import_again(one, true);

	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	raise_one(many, 1, w->a);
	raise_one(one, 0, w->blocking);
	await_one(again, 0, w->b);
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b)));
	end(many);
	end(one);
	end(again);
}

/*
 * A stream waits for a value that another stream writes behind a wait for another process. The program waits for the
 * first stream first.
 */
TWIN(a_value_behind_another_process)
{
	CUexternalSemaphore one = binary_new(), again = import_again(one, true);

	raise_one(one, 0, w->blocking);
	await_one(again, 0, w->a);
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuStreamWriteValue32(w->a, w->q, 7, 0));
	OK(cuStreamWaitValue32(w->b, w->q, 7, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
	OK(cuStreamSynchronize(w->b));
	OK(cuStreamSynchronize(w->a));
	end(one);
	end(again);
}

/* Two streams signal one semaphore in turn, after the CPU has written. */
TWIN(streams_signal_in_turn)
{
	CUdeviceptr word = (uintptr_t)w->pinned + BYTES - 64;
	CUexternalSemaphore many = timeline_new();
	CUdeviceptr m;

	/* Nobody has written this memory before. */
	OK(cuMemAlloc(&m, 64));
	*(volatile unsigned int *)(uintptr_t)word = 0;
	await_one(many, 1, w->a);
	OK(cuMemcpyDtoHAsync(w->pinned, m, 64, w->a));
	raise_one(many, 2, w->a);
	OK(cuStreamWaitValue32(w->b, word, 5, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuMemsetD8Async(m, 2, 64, w->b));
	raise_one(many, 1, w->b);
	*(volatile unsigned int *)(uintptr_t)word = 5;
	OK(cuStreamSynchronize(w->a));
	OK(cuStreamSynchronize(w->b));
	OK(cuMemFree(m));
	end(many);
}

/*
 * A stream waits for a semaphore, and signals it for another stream then. Its own signal, which it submits first, cannot
 * end its wait. What ends it is behind a word that the CPU writes.
 */
TWIN(stream_hands_a_semaphore_on)
{
	CUdeviceptr word = (uintptr_t)w->pinned + BYTES - 64;
	CUexternalSemaphore one = binary_new();
	CUdeviceptr m;

	/* Nobody has written this memory before. */
	OK(cuMemAlloc(&m, 64));
	*(volatile unsigned int *)(uintptr_t)word = 0;
	await_one(one, 0, w->a);
	OK(cuMemcpyDtoHAsync(w->pinned, m, 64, w->a));
	raise_one(one, 0, w->a);
	OK(cuStreamWaitValue32(w->b, word, 5, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuMemsetD8Async(m, 2, 64, w->b));
	raise_one(one, 0, w->b);
	*(volatile unsigned int *)(uintptr_t)word = 5;
	OK(cuStreamSynchronize(w->a));
	await_one(one, 0, w->blocking);
	OK(cuCtxSynchronize());
	OK(cuMemFree(m));
	end(one);
}

/* A fence of a DMA-buf may be one of any work. */
TWIN(fence_is_awaited)
{
	CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC desc = { .type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD };
	struct dma_buf_export_sync_file sync = { .flags = DMA_BUF_SYNC_RW };
	CUexternalSemaphore fence;
	CUdeviceptr m;
	int fd;

	OK(cuMemAlloc(&m, 2u << 20));
	OK(cuMemGetHandleForAddressRange(&fd, m, 2u << 20, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	OK(cuMemsetD8Async(m, 2, BYTES, w->a));
	OK(ioctl(fd, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &sync));
	desc.handle.fd = sync.fd;
	OK(cuImportExternalSemaphore(&fence, &desc));
	await_one(fence, 0, w->b);
	OK(cuMemcpyDtoHAsync(w->pinned, m, BYTES, w->b));
	end(fence);
	close(fd);
	OK(cuMemFree(m));
}

TEST_HARNESS_MAIN
