// SPDX-License-Identifier: GPL-2.0
/*
 * The checker on programs whose streams write words and wait for them: which operations on a word are a race, and which
 * of them synchronize.
 */
#include "kselftest_harness.h"
#include "check_util.h"

/* A stream comes after what another one has done so far. */
static void order(struct program *w, CUstream first, CUstream second)
{
	OK(cuEventRecord(w->e, first));
	OK(cuStreamWaitEvent(second, w->e, 0));
}

/* ---- writes of values */

MISTAKE(fill_and_write_of_a_value, "race")
{
	OK(cuStreamWriteValue32(w->a, w->q + 8, 7, 0));
	OK(WRONG(cuMemsetD8Async(w->q, 2, 64, w->b)));
}

TWIN(fill_after_a_write_of_a_value)
{
	OK(cuStreamWriteValue32(w->a, w->q + 8, 7, 0));
	order(w, w->a, w->b);
	OK(cuMemsetD8Async(w->q, 2, 64, w->b));
}

MISTAKE(write_of_a_value_and_earlier_fill, "race")
{
	OK(cuMemsetD8Async(w->q, 2, 64, w->b));
	OK(WRONG(cuStreamWriteValue64(w->a, w->q + 8, 7, 0)));
}

TWIN(fill_beside_a_write_of_a_value)
{
	OK(cuStreamWriteValue32(w->a, w->q + 8, 7, 0));
	OK(cuMemsetD8Async(w->q, 2, 8, w->b));
	OK(cuMemsetD8Async(w->q + 12, 2, 8, w->b));
}

MISTAKE(fill_of_a_word_and_write_of_a_value, "race")
{
	OK(cuStreamWriteValue32(w->a, w->q, 7, 0));
	OK(WRONG(cuMemsetD32Async(w->q, 7, 1, w->b)));
}

MISTAKE(copy_reads_a_word_and_more, "race")
{
	OK(cuStreamWriteValue32(w->a, w->q, 7, 0));
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->q, 64, w->b)));
}

MISTAKE(copy_has_read_a_word_and_more, "race")
{
	OK(cuMemcpyDtoHAsync(w->pinned, w->q, 64, w->b));
	OK(WRONG(cuStreamWriteValue32(w->a, w->q, 7, 0)));
}

TWIN(copy_reads_a_word_and_more_after_a_wait)
{
	OK(cuStreamWriteValue32(w->a, w->q, 7, 0));
	OK(cuStreamWaitValue32(w->b, w->q, 7, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuMemcpyDtoHAsync(w->pinned, w->q, 64, w->b));
}

TWIN(two_streams_write_values)
{
	OK(cuStreamWriteValue32(w->a, w->q, 7, 0));
	OK(cuStreamWriteValue32(w->b, w->q, 8, 0));
	OK(cuStreamWriteValue32(w->a, w->q, 9, 0));
}

/* The copy comes after one of two writes that need no order. */
MISTAKE(copy_after_the_second_of_two_values, "race")
{
	OK(cuStreamWriteValue32(w->a, w->q, 7, 0));
	OK(cuStreamWriteValue32(w->b, w->q, 7, 0));
	order(w, w->b, w->blocking);
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->q, 64, w->blocking)));
}

MISTAKE(fill_after_the_second_of_two_values, "race")
{
	OK(cuStreamWriteValue32(w->a, w->q, 7, 0));
	OK(cuStreamWriteValue32(w->b, w->q, 7, 0));
	order(w, w->b, w->blocking);
	OK(WRONG(cuMemsetD8Async(w->q, 1, 64, w->blocking)));
}

TWIN(copy_after_both_of_two_values)
{
	OK(cuStreamWriteValue32(w->a, w->q, 7, 0));
	OK(cuStreamWriteValue32(w->b, w->q, 7, 0));
	order(w, w->b, w->blocking);
	OK(cuEventRecord(w->f, w->a));
	OK(cuStreamWaitEvent(w->blocking, w->f, 0));
	OK(cuMemcpyDtoHAsync(w->pinned, w->q, 64, w->blocking));
}

MISTAKE(values_of_a_batch, "race")
{
	CUstreamBatchMemOpParams ops[] = {
		{ .writeValue = { .operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = w->q, .value = 7 } },
		{ .writeValue = { .operation = CU_STREAM_MEM_OP_WRITE_VALUE_64, .address = w->q + 64, .value64 = 7 } },
	};

	OK(cuMemcpyDtoHAsync(w->pinned, w->q + 64, 64, w->b));
	OK(WRONG(cuStreamBatchMemOp(w->a, 2, ops, 0)));
}

TWIN(values_of_a_batch_after_a_wait)
{
	CUstreamBatchMemOpParams ops[] = {
		{ .waitValue = { .operation = CU_STREAM_MEM_OP_WAIT_VALUE_32, .address = w->q, .value = 7 } },
		{ .writeValue = { .operation = CU_STREAM_MEM_OP_WRITE_VALUE_64, .address = w->q + 64, .value64 = 7 } },
	};

	OK(cuMemcpyDtoHAsync(w->pinned, w->q + 64, 64, w->b));
	OK(cuStreamWriteValue32(w->b, w->q, 7, 0));
	OK(cuStreamBatchMemOp(w->a, 2, ops, 0));
}

/* ---- waits */

/* The last write lets the program end: the fill may come before the wait looks at the word. */
MISTAKE(fill_takes_a_value_back, "race")
{
	OK(cuStreamWriteValue32(w->b, w->q, 1, 0));
	OK(cuStreamWaitValue32(w->a, w->q, 1, CU_STREAM_WAIT_VALUE_GEQ));
	OK(WRONG(cuMemsetD32Async(w->q, 0, 1, w->b)));
	OK(cuStreamWriteValue32(w->b, w->q, 1, 0));
}

TWIN(fill_takes_a_value_back_after_the_wait)
{
	OK(cuStreamWriteValue32(w->b, w->q, 1, 0));
	OK(cuStreamWaitValue32(w->a, w->q, 1, CU_STREAM_WAIT_VALUE_GEQ));
	order(w, w->a, w->b);
	OK(cuMemsetD32Async(w->q, 0, 1, w->b));
}

/* A second write of a value comes between the wait and the fill. */
MISTAKE(fill_takes_two_values_back, "race")
{
	OK(cuStreamWriteValue64(w->b, w->q, 1, 0));
	OK(cuStreamWaitValue64(w->a, w->q, 1, CU_STREAM_WAIT_VALUE_GEQ));
	OK(cuStreamWriteValue64(w->b, w->q, 2, 0));
	OK(WRONG(cuMemsetD32Async(w->q, 0, 2, w->b)));
	OK(cuStreamWriteValue64(w->b, w->q, 1, 0));
}

/* A second fill comes between the wait and the fill that takes the value back. */
MISTAKE(fill_takes_two_fills_back, "race")
{
	OK(cuMemsetD32Async(w->q, 1, 1, w->b));
	OK(cuStreamWaitValue32(w->a, w->q, 1, CU_STREAM_WAIT_VALUE_GEQ));
	OK(cuMemsetD32Async(w->q, 2, 1, w->b));
	OK(WRONG(cuMemsetD32Async(w->q, 0, 1, w->b)));
	OK(cuStreamWriteValue32(w->b, w->q, 1, 0));
}

/* The host knows that the value was taken back. So the wait is for the other stream's value. */
TWIN(value_was_taken_back_before_the_wait)
{
	OK(cuStreamWriteValue32(w->a, w->q, 1, 0));
	OK(cuStreamWriteValue32(w->a, w->q, 0, 0));
	OK(cuStreamSynchronize(w->a));
	OK(cuStreamWaitValue32(w->b, w->q, 1, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->blocking));
	OK(cuStreamWriteValue32(w->blocking, w->q, 1, 0));
	OK(cuCtxSynchronize());
}

/* The same by the second row of a fill. */
TWIN(value_was_taken_back_by_rows)
{
	OK(cuStreamWriteValue32(w->a, w->q + 128, 1, 0));
	OK(cuMemsetD2D32Async(w->q, 128, 0, 4, 2, w->a));
	OK(cuStreamSynchronize(w->a));
	OK(cuStreamWaitValue32(w->b, w->q + 128, 1, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->blocking));
	OK(cuStreamWriteValue32(w->blocking, w->q + 128, 1, 0));
	OK(cuCtxSynchronize());
}

/* Whichever fill the wait looks at, it is over. */
TWIN(fills_count_upwards)
{
	OK(cuMemsetD32Async(w->q, 1, 1, w->b));
	OK(cuStreamWaitValue32(w->a, w->q, 1, CU_STREAM_WAIT_VALUE_GEQ));
	OK(cuMemsetD32Async(w->q, 2, 1, w->b));
	OK(cuMemsetD32Async(w->q, 3, 1, w->b));
}

MISTAKE(wait_and_fill_of_a_word_and_more, "race")
{
	OK(cuStreamWriteValue32(w->b, w->q, 1, 0));
	OK(cuStreamWaitValue32(w->a, w->q, 1, CU_STREAM_WAIT_VALUE_GEQ));
	OK(WRONG(cuMemsetD32Async(w->q, 3, 16, w->b)));
}

TWIN(copy_reads_a_word_while_a_stream_waits_for_it)
{
	OK(cuStreamWriteValue32(w->a, w->q, 1, 0));
	order(w, w->a, w->blocking);
	OK(cuStreamWaitValue32(w->b, w->q, 1, CU_STREAM_WAIT_VALUE_GEQ));
	OK(cuMemcpyDtoHAsync(w->pinned, w->q, 64, w->blocking));
}

/* ---- copies that poll */

static void poll_by_copies(struct program *w)
{
	unsigned int value = 0;

	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuStreamWriteValue32(w->a, w->q, 7, 0));
	while (value != 7) {
		OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->q, 4, w->b)));
		OK(cuStreamSynchronize(w->b));
		memcpy(&value, w->pinned, sizeof(value));
	}
}

TWIN(program_polls_by_copies)
{
	poll_by_copies(w);
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->blocking));
}

static const char *const in_strict_mode[] = { "GPUMEM_CHECK=strict", NULL };

PROGRAM(program_polls_by_copies_in_strict_mode, "race", in_strict_mode)
{
	poll_by_copies(w);
}

/* The first copy begins before the write. */
TWIN(program_has_polled_before_the_write)
{
	OK(cuMemcpyDtoHAsync(w->pinned, w->q, 4, w->b));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuStreamWriteValue32(w->a, w->q, 7, 0));
	OK(cuMemcpyDtoHAsync(w->pinned + 64, w->p, 64, w->blocking));
}

/* The same into memory that the CPU does not reach. */
TWIN(word_is_copied_before_the_write)
{
	OK(cuMemcpyDtoDAsync(w->p, w->q, 4, w->b));
	OK(cuStreamWriteValue32(w->a, w->q, 7, 0));
}

/* A copy that comes after the write is no poll: the host knows only what it waits for. */
MISTAKE(copy_of_a_word_after_the_write, "race")
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(cuStreamWriteValue32(w->a, w->q, 7, 0));
	order(w, w->a, w->b);
	OK(cuMemcpyDtoDAsync(w->q + 64, w->q, 4, w->b));
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, 64, w->blocking)));
}

/* ---- memory */

TWIN(value_initializes_its_bytes)
{
	CUdeviceptr word;

	OK(cuMemAlloc(&word, 64));
	OK(cuStreamWriteValue64(w->a, word, 7, 0));
	OK(cuMemcpyDtoHAsync(w->pinned, word, 8, w->a));
	OK(cuStreamSynchronize(w->a));
	OK(cuMemFree(word));
}

MISTAKE(value_initializes_no_other_bytes, "uninitialized")
{
	CUdeviceptr word;

	OK(cuMemAlloc(&word, 64));
	OK(cuStreamWriteValue32(w->a, word, 7, 0));
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, word, 8, w->a)));
	OK(cuStreamSynchronize(w->a));
	OK(cuMemFree(word));
}

MISTAKE(word_is_written_before_its_allocation, "use-before-allocation")
{
	CUdeviceptr word;

	OK(cuMemAllocAsync(&word, 64, w->a));
	OK(WRONG(cuStreamWriteValue32(w->b, word, 7, 0)));
	order(w, w->b, w->a);
	OK(cuMemFreeAsync(word, w->a));
}

MISTAKE(word_is_freed_before_its_wait, "unordered-free")
{
	CUdeviceptr word;

	OK(cuMemAllocAsync(&word, 64, w->a));
	OK(cuStreamWriteValue32(w->a, word, 7, 0));
	/* What freed memory is filled with ends the wait, too. */
	OK(cuStreamWaitValue32(w->b, word, 7, CU_STREAM_WAIT_VALUE_AND));
	OK(cuStreamSynchronize(w->a));
	OK(WRONG(cuMemFreeAsync(word, w->a)));
}

TWIN(word_is_freed_after_its_wait)
{
	CUdeviceptr word;

	OK(cuMemAllocAsync(&word, 64, w->a));
	OK(cuStreamWriteValue32(w->a, word, 7, 0));
	OK(cuStreamWaitValue32(w->b, word, 7, CU_STREAM_WAIT_VALUE_GEQ));
	OK(cuMemFreeAsync(word, w->b));
}

/* The CPU has not changed what the copy reads: the stream has, after the copy. */
TWIN(value_is_written_into_a_source_after_its_copy)
{
	OK(cuMemcpyHtoDAsync(w->p, w->pinned, BYTES, w->a));
	OK(cuStreamWriteValue32(w->a, (uintptr_t)w->pinned, 7, 0));
	OK(cuStreamSynchronize(w->a));
}

TEST_HARNESS_MAIN
