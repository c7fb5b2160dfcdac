// SPDX-License-Identifier: MIT
/*
 * Decompression: deflate, snappy and LZ4, as work in stream order (work.c).
 *
 * Owns nothing. core/codec.c has the libraries that decompress.
 *
 * Compressed data may be hostile, and another thread or process may change it while it is read. So a worker
 * copies it to memory of its own, decompresses it there, and copies exactly the output to the destination. An
 * operation with bad data leaves its destination unchanged. The engine makes a copy whose memory is dark or
 * exported: the CPU does not reach it, or must not touch it.
 *
 * Everything is checked at the call, except the data itself. Memory must have the attribute
 * CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE. The result of an operation is the number of its output bytes,
 * stored at dstActBytes, or 0 if its data is bad. Bad data does not affect other operations or the context.
 *
 * Locks: the stream's lock while work is submitted.
 *
 * Vocabulary: operation, one decompression of a batch; room, how many bytes of output there may be; algorithm,
 * the index of its bit in the mask; worker, a thread of exec/work.h.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "copy/copy.h"
#include "core/codec.h"

#define NO_OPERATION	SIZE_MAX

_Static_assert(2 * CODEC_LENGTH_MOST <= WORK_BUFFER, "a worker has room for both ends");

struct operation {
	uint64_t src, dst, result;
	uint32_t bytes, room;
	uint8_t algorithm;
	bool engine_src, engine_dst, engine_result;
};

struct decompress_work {
	struct work work;
	struct operation operations[];
};

/* Decompress within a worker's memory; false if the data is bad. Writes at most @room bytes. */
typedef bool decode_fn(struct worker *worker, const void *in, uint32_t bytes, void *out,
		       uint32_t room, uint32_t *got);

/* ---- algorithms */

/* A deflate stream ends with its last block; bytes after it are ignored. */
static bool decode_deflate(struct worker *worker, const void *in, uint32_t bytes, void *out,
			   uint32_t room, uint32_t *got)
{
	size_t actual;

	if (codec.deflate(worker->inflater, in, bytes, out, room, &actual) != LIBDEFLATE_SUCCESS)
		return false;
	*got = actual;
	return true;
}

static bool decode_snappy(struct worker *worker, const void *in, uint32_t bytes, void *out,
			  uint32_t room, uint32_t *got)
{
	size_t actual = room;

	(void)worker;
	if (codec.snappy(in, bytes, out, &actual) != SNAPPY_OK)
		return false;
	*got = actual;
	return true;
}

static bool decode_lz4(struct worker *worker, const void *in, uint32_t bytes, void *out,
		       uint32_t room, uint32_t *got)
{
	int actual = codec.lz4(in, out, bytes, room);

	(void)worker;
	if (actual < 0)
		return false;
	*got = actual;
	return true;
}

/* By the number of the algorithm's bit. */
static decode_fn *const decode[] = { decode_deflate, decode_snappy, decode_lz4 };

/* ---- carrying it out */

/* Have the engine execute an entry, and wait for it. */
static CUresult move_by_engine(struct work *work, struct worker *worker,
			       const struct gpumem_sqe *sqe)
{
	struct queue *queue = worker_queue(worker, work->device);
	CUresult result = queue ? ring_put(queue, sqe) : CUDA_ERROR_OUT_OF_MEMORY;

	return result ? result : worker_wait(worker, work->device);
}

static CUresult read_source(struct work *work, struct worker *worker, const struct operation *op,
			    unsigned char *to)
{
	const struct gpumem_sqe copy = {
		.op = GPUMEM_OP_COPY, .dst = (uintptr_t)to, .src = op->src, .width = op->bytes,
		.height = 1,
	};

	if (op->engine_src)
		return move_by_engine(work, worker, &copy);
	memcpy(to, (const void *)(uintptr_t)op->src, op->bytes);
	return CUDA_SUCCESS;
}

static CUresult write_output(struct work *work, struct worker *worker, const struct operation *op,
			     const unsigned char *from, uint32_t got)
{
	const struct gpumem_sqe copy = {
		.op = GPUMEM_OP_COPY, .dst = op->dst, .src = (uintptr_t)from, .width = got,
		.height = 1,
	};

	if (!got)
		return CUDA_SUCCESS;
	if (op->engine_dst)
		return move_by_engine(work, worker, &copy);
	memcpy((void *)(uintptr_t)op->dst, from, got);
	return CUDA_SUCCESS;
}

static CUresult write_result(struct work *work, struct worker *worker, const struct operation *op,
			     uint32_t got)
{
	const struct gpumem_sqe fill = {
		.op = GPUMEM_OP_FILL, .elem = sizeof(got), .dst = op->result, .value = got,
		.width = 1, .height = 1,
	};

	if (op->engine_result)
		return move_by_engine(work, worker, &fill);
	store_release((uint32_t *)(uintptr_t)op->result, got);
	return CUDA_SUCCESS;
}

/* Prepare what a worker needs for an algorithm, independent of the data. */
static CUresult worker_ready(struct worker *worker, const struct operation *op)
{
	if (decode[op->algorithm] == decode_deflate && !worker->inflater) {
		worker->inflater = codec.deflate_alloc();
		if (!worker->inflater)
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

static void operation_run(struct work *work, struct worker *worker, unsigned int item)
{
	const struct operation *op = &((struct decompress_work *)work)->operations[item];
	unsigned char *in = work->engine ? (void *)(uintptr_t)worker->buffer : worker->memory;
	unsigned char *out = in + CODEC_LENGTH_MOST;
	uint32_t got = 0;
	CUresult result = worker_ready(worker, op);

	if (!result)
		result = read_source(work, worker, op, in);
	if (!result && decode[op->algorithm](worker, in, op->bytes, out, op->room, &got))
		result = write_output(work, worker, op, out, got);
	if (!result)
		result = write_result(work, worker, op, got);
	if (result)
		work_fail(work, result);
}

/* ---- checking it */

/*
 * Check that @bytes at an address can take part in decompression. *@rest: bytes to the end of the memory.
 * *@engine: the engine must copy.
 */
static bool end_valid(uint64_t addr, uint64_t bytes, CUdevice device, int right, uint64_t *rest, bool *engine)
{
	struct span span;

	if (!addr || !vm_lookup(addr, &span) || !span_decompress(&span) ||
	    (span.flags & ALLOC_MAPPED && !vmm_allows(&span, device, right)))
		return false;
	*rest = span.size - (addr - span.base);
	*engine = span_dark(&span) || span.flags & (ALLOC_EXPORTED | ALLOC_MAPPED);
	return bytes <= *rest;
}

static CUresult operation_of(struct operation *op, const CUmemDecompressParams *params, CUdevice device)
{
	uint64_t rest;

	switch (params->algo) {
	case CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE:
	case CU_MEM_DECOMPRESS_ALGORITHM_SNAPPY:
	case CU_MEM_DECOMPRESS_ALGORITHM_LZ4:
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	*op = (struct operation){
		.src = (uintptr_t)params->src, .dst = (uintptr_t)params->dst,
		.result = (uintptr_t)params->dstActBytes, .bytes = params->srcNumBytes,
		.algorithm = __builtin_ctz(params->algo),
	};
	if (!params->srcNumBytes || params->srcNumBytes > CODEC_LENGTH_MOST ||
	    params->dstNumBytes > CODEC_LENGTH_MOST || op->result % sizeof(uint32_t) ||
	    !end_valid(op->src, params->srcNumBytes, device, PROT_READ, &rest, &op->engine_src) ||
	    !end_valid(op->result, sizeof(uint32_t), device, PROT_WRITE, &rest, &op->engine_result) ||
	    !end_valid(op->dst, params->dstNumBytes, device, PROT_WRITE, &rest, &op->engine_dst))
		return CUDA_ERROR_INVALID_VALUE;
	op->room = params->dstNumBytes ? params->dstNumBytes : min_u64(rest, CODEC_LENGTH_MOST);
	return codec_load(params->algo) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

/* Work that was submitted frees itself. */
static CUresult decompress_submit(CUstream stream, struct work *work)
{
	struct queue *queue;
	CUresult result = work_reserve(stream->ctx->device, work->engine);

	if (result) {
		free(work);
		return result;
	}
	result = stream_begin(stream);
	if (result) {
		free(work);
		return result;
	}
	result = stream_prepare(stream, &queue);
	if (!result) {
		result = work_put(queue, work);
		if (result)
			free(work);
		result = ring_finish(queue, result);
	} else {
		free(work);
	}
	lock_drop(&stream->lock);
	return result;
}

static CUresult batch_check(struct decompress_work *batch, CUdevice device, const CUmemDecompressParams *params,
			    size_t count, size_t *failed)
{
	size_t i;

	batch->work = (struct work){ .items = count, .run = operation_run };
	for (i = 0; i < count; i++) {
		struct operation *op = &batch->operations[i];
		CUresult result = operation_of(op, &params[i], device);

		if (result) {
			*failed = i;
			return result;
		}
		batch->work.engine |= op->engine_src || op->engine_dst || op->engine_result;
	}
	return CUDA_SUCCESS;
}

static CUresult decompress_on(CUstream stream, const CUmemDecompressParams *params, size_t count,
			      unsigned int flags, size_t *failed)
{
	struct decompress_work *batch;
	size_t bytes;
	CUresult result;

	if (!params || !count || count > UINT32_MAX || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (__builtin_mul_overflow(count, sizeof(batch->operations[0]), &bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	batch = malloc(sizeof(*batch) + bytes);
	if (!batch)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = batch_check(batch, stream->ctx->device, params, count, failed);
	if (result) {
		free(batch);
		return result;
	}
	batch->work.device = stream->ctx->device;
	return decompress_submit(stream, &batch->work);
}

CUresult decompress_batch(const CUmemDecompressParams *params, size_t count, unsigned int flags,
			  size_t *fail, CUstream handle, bool own)
{
	size_t failed = NO_OPERATION;
	CUstream stream;
	CUresult result;

	/* Without any library behave as a device without decompression, and do not set *@fail. */
	if (!codec_any())
		return CUDA_ERROR_NOT_SUPPORTED;
	result = stream_get(handle, own, &stream);
	if (!result)
		result = decompress_on(stream, params, count, flags, &failed);
	if (result && fail)
		*fail = failed;
	return result;
}
