// SPDX-License-Identifier: MIT
/*
 * Decompression: deflate, snappy and LZ4, as work in stream order (work.c).
 *
 * Owns nothing but what it knows of three libraries. They are looked for when a program asks what a
 * device can decompress, or has it decompress, not before: a process that does neither has none of
 * them. snappy brings the C++ runtime along: it stays from its first operation on only. Which of
 * them are installed is what the device can.
 *
 * Compressed data is hostile, and others may change it while it is read. So a worker copies it to
 * memory of its own, has it decompressed there, and copies exactly what came out to where it
 * belongs. What fails leaves the destination as it was. The engine makes both copies where the CPU
 * does not reach the memory, or must not touch it because others may reach it, too.
 *
 * All is checked at the call, but for the data itself. Memory must be such as
 * CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE is 1 of. Each operation's result is the number of
 * bytes at dstActBytes, 0 if its data is bad; other operations and the context know nothing of it.
 *
 * Vocabulary: operation, one of a batch; room, how many bytes may come out; algorithm, index of its
 * bit in the mask.
 */
#include <dlfcn.h>
#include <libdeflate.h>
#include <lz4.h>
#include <snappy-c.h>
#include <stdlib.h>

#include "internal.h"
#include "ring.h"

#define NO_OPERATION	SIZE_MAX
/* As the devices have it that have a decompression engine. Two of these are a worker's memory. */
#define LENGTH_MOST	(4ull << 20)

_Static_assert(2 * LENGTH_MOST <= WORK_BUFFER, "a worker has room for both ends");

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

/* Decompress within a worker's memory; false if the data is bad. Nothing is written beyond @room. */
typedef bool decode_fn(struct worker *worker, const void *in, uint32_t bytes, void *out,
		       uint32_t room, uint32_t *got);

/* ---- the libraries */

static struct {
	__typeof__(&libdeflate_alloc_decompressor) deflate_alloc;
	__typeof__(&libdeflate_deflate_decompress) deflate;
	__typeof__(&snappy_uncompress) snappy;
	__typeof__(&LZ4_decompress_safe) lz4;
} codec;				/* constant once loaded */

/* The stream ends with its last block; what follows is not looked at. */
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

#define ALGORITHMS	3
#define SNAPPY		"libsnappy.so.1"

static decode_fn *const decode[ALGORITHMS] = { decode_deflate, decode_snappy, decode_lz4 };

static pthread_once_t codecs_once = PTHREAD_ONCE_INIT, snappy_once = PTHREAD_ONCE_INIT,
	probe_once = PTHREAD_ONCE_INIT;
static unsigned int codecs;		/* bits of what there is, but snappy; constant once loaded */
static bool snappy_there;		/* constant once probed */

static void *library(const char *name)
{
	return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

#define FIND(lib, place, name)	((codec.place = (__typeof__(codec.place))dlsym(lib, name)) != NULL)

static void codecs_load(void)
{
	void *lib = library("libdeflate.so.0");

	if (lib && FIND(lib, deflate_alloc, "libdeflate_alloc_decompressor") &&
	    FIND(lib, deflate, "libdeflate_deflate_decompress"))
		codecs |= CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE;
	lib = library("liblz4.so.1");
	if (lib && FIND(lib, lz4, "LZ4_decompress_safe"))
		codecs |= CU_MEM_DECOMPRESS_ALGORITHM_LZ4;
}

/* It brings the C++ library along, which stays: for those only who use it. */
static void snappy_load(void)
{
	void *lib = library(SNAPPY);

	if (lib && !FIND(lib, snappy, "snappy_uncompress"))
		dlclose(lib);
}

static void snappy_probe(void)
{
	void *lib = library(SNAPPY);

	if (!lib)
		return;
	snappy_there = dlsym(lib, "snappy_uncompress") != NULL;
	dlclose(lib);
}

/* For an operation that wants it. */
static bool algorithm_load(unsigned int algorithm)
{
	if (algorithm != CU_MEM_DECOMPRESS_ALGORITHM_SNAPPY)
		return codecs & algorithm;
	pthread_once(&snappy_once, snappy_load);
	return codec.snappy;
}

/* Any at all? */
static bool algorithms(void)
{
	pthread_once(&codecs_once, codecs_load);
	if (codecs)
		return true;
	pthread_once(&probe_once, snappy_probe);
	return snappy_there;
}

unsigned int decompress_algorithms(void)
{
	pthread_once(&codecs_once, codecs_load);
	pthread_once(&probe_once, snappy_probe);
	return codecs | (snappy_there ? CU_MEM_DECOMPRESS_ALGORITHM_SNAPPY : 0);
}

unsigned int decompress_length(void)
{
	return algorithms() ? LENGTH_MOST : 0;
}

/* ---- carrying it out */

/* Between device memory and the worker's by the engine. */
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

/* What a worker needs and the data has nothing to do with. */
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
	unsigned char *out = in + LENGTH_MOST;
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

/* @bytes of memory that can take part; @rest: how many there are to its end, @engine: who reaches it. */
static bool end_valid(uint64_t addr, uint64_t bytes, uint64_t *rest, bool *engine)
{
	struct span span;

	if (!addr || !vm_lookup(addr, &span) || !span_decompress(&span))
		return false;
	*rest = span.size - (addr - span.base);
	*engine = span_dark(&span) || span.flags & ALLOC_EXPORTED;
	return bytes <= *rest;
}

static CUresult operation_of(struct operation *op, const CUmemDecompressParams *params)
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
	if (!params->srcNumBytes || params->srcNumBytes > LENGTH_MOST ||
	    params->dstNumBytes > LENGTH_MOST || op->result % sizeof(uint32_t) ||
	    !end_valid(op->src, params->srcNumBytes, &rest, &op->engine_src) ||
	    !end_valid(op->result, sizeof(uint32_t), &rest, &op->engine_result) ||
	    !end_valid(op->dst, params->dstNumBytes, &rest, &op->engine_dst))
		return CUDA_ERROR_INVALID_VALUE;
	op->room = params->dstNumBytes ? params->dstNumBytes : min_u64(rest, LENGTH_MOST);
	return algorithm_load(params->algo) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

/* Work that was submitted frees itself. */
static CUresult submit(CUstream stream, struct work *work)
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

static CUresult batch_check(struct decompress_work *batch, const CUmemDecompressParams *params,
			    size_t count, size_t *failed)
{
	size_t i;

	batch->work = (struct work){ .items = count, .run = operation_run };
	for (i = 0; i < count; i++) {
		struct operation *op = &batch->operations[i];
		CUresult result = operation_of(op, &params[i]);

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
	result = batch_check(batch, params, count, failed);
	if (result) {
		free(batch);
		return result;
	}
	batch->work.device = stream->ctx->device;
	return submit(stream, &batch->work);
}

CUresult decompress_batch(const CUmemDecompressParams *params, size_t count, unsigned int flags,
			  size_t *fail, CUstream handle, bool own)
{
	size_t failed = NO_OPERATION;
	CUstream stream;
	CUresult result;

	/* As a device without it, which leaves the index alone. */
	if (!algorithms())
		return CUDA_ERROR_NOT_SUPPORTED;
	result = stream_get(handle, own, &stream);
	if (!result)
		result = decompress_on(stream, params, count, flags, &failed);
	if (result && fail)
		*fail = failed;
	return result;
}
