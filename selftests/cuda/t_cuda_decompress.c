// SPDX-License-Identifier: GPL-2.0
/*
 * Decompression: the attributes of devices and memory, what is refused, its place in streams, and
 * random data against the libraries that compressed it.
 *
 * The test knows the right output: the text that was compressed, or, for data that has been
 * damaged, the output of the same libraries here.  Around every destination and every result there
 * is noise that must stay; a destination whose data is bad must stay as it was, too.
 *
 * GPUMEM_SEED, GPUMEM_STEPS: seed, and a hundred times the number of random batches.
 */
#include <libdeflate.h>
#include <lz4.h>
#include <snappy-c.h>

#include "kselftest_harness.h"
#include "cuda_util.h"

#define DEFLATE		CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE
#define SNAPPY		CU_MEM_DECOMPRESS_ALGORITHM_SNAPPY
#define LZ4		CU_MEM_DECOMPRESS_ALGORITHM_LZ4
#define LONGEST		(4 * MIB)

static const CUmemDecompressAlgorithm algorithms[] = { DEFLATE, SNAPPY, LZ4 };

FIXTURE(decompress)
{
	CUcontext ctx;
	CUstream s, t;
	__u32 *word, last;	/* @word: pinned; s waits until it is @last */
	CUdeviceptr src, dst, act;	/* 8, 8 and 1 MiB */
};

#define BYTES	(8 * MIB)

FIXTURE_SETUP(decompress)
{
	cuda_begin(_metadata, &self->ctx);
	ASSERT_CU(cuStreamCreate(&self->s, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuStreamCreate(&self->t, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuMemHostAlloc((void **)&self->word, 4096, 0));
	self->word[0] = self->last = 0;
	ASSERT_CU(cuMemAlloc(&self->src, BYTES));
	ASSERT_CU(cuMemAlloc(&self->dst, BYTES));
	ASSERT_CU(cuMemAlloc(&self->act, MIB));
}

QUIET_AFTERWARDS(decompress)

static CUresult gate_close(FIXTURE_DATA(decompress) *self)
{
	return cuStreamWaitValue32(self->s, (uintptr_t)self->word, ++self->last,
				   CU_STREAM_WAIT_VALUE_GEQ);
}

static CUresult gate_open(FIXTURE_DATA(decompress) *self)
{
	__atomic_store_n(self->word, self->last, __ATOMIC_RELEASE);
	return cuStreamSynchronize(self->s);
}

/* --- the libraries */

/* Compress into @out, which has room: the length of the data. */
static size_t compress(CUmemDecompressAlgorithm algo, const void *in, size_t n, void *out,
		       size_t room)
{
	struct libdeflate_compressor *c;
	size_t length = room;

	switch (algo) {
	case DEFLATE:
		c = libdeflate_alloc_compressor(1 + n % 9);
		length = libdeflate_deflate_compress(c, in, n, out, room);
		libdeflate_free_compressor(c);
		return length;
	case SNAPPY:
		return snappy_compress(in, n, out, &length) == SNAPPY_OK ? length : 0;
	default:
		return LZ4_compress_default(in, out, n, room);
	}
}

/* Decompress into @out of exactly @room bytes: the length of the output, or -1. */
static long expand(CUmemDecompressAlgorithm algo, const void *in, size_t n, void *out, size_t room)
{
	struct libdeflate_decompressor *d;
	size_t length = room;
	long got = -1;

	switch (algo) {
	case DEFLATE:
		d = libdeflate_alloc_decompressor();
		if (!libdeflate_deflate_decompress(d, in, n, out, room, &length))
			got = length;
		libdeflate_free_decompressor(d);
		return got;
	case SNAPPY:
		return snappy_uncompress(in, n, out, &length) == SNAPPY_OK ? (long)length : -1;
	default:
		got = LZ4_decompress_safe(in, out, n, room);
		return got < 0 ? -1 : got;
	}
}

static CUmemDecompressParams params(CUmemDecompressAlgorithm algo, CUdeviceptr dst, size_t room,
				    CUdeviceptr src, size_t bytes, CUdeviceptr act)
{
	return (CUmemDecompressParams) {
		.srcNumBytes = bytes, .dstNumBytes = room, .dstActBytes = (void *)(uintptr_t)act,
		.src = (void *)(uintptr_t)src, .dst = (void *)(uintptr_t)dst, .algo = algo,
	};
}

static __u32 word_at(CUdeviceptr p)
{
	__u32 value;

	memcpy(&value, view(p, 4), 4);
	return value;
}

/* --- attributes */

TEST_F(decompress, attributes)
{
	CUmemoryPool pool;
	CUdeviceptr p, q;
	int value;

	ASSERT_CU(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK,
				       0));
	EXPECT_EQ(DEFLATE | SNAPPY | LZ4, value);
	ASSERT_CU(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH,
				       0));
	EXPECT_EQ(LONGEST, value);
	ASSERT_CU(pool_make_decompress(&pool));
	ASSERT_CU(cuMemAllocFromPoolAsync(&p, 1000, pool, self->s));
	ASSERT_CU(cuMemAllocAsync(&q, 1000, self->s));
#define CAPABLE(want, ptr)								\
	do {										\
		value = 7;								\
		EXPECT_CU(cuPointerGetAttribute(&value,					\
			  CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, ptr));		\
		EXPECT_EQ(want, value);							\
	} while (0)
	CAPABLE(1, self->src + 1234);
	CAPABLE(1, p + 999);
	CAPABLE(0, q);
	CAPABLE(0, (uintptr_t)self->word);
	EXPECT_CU(cuMemFreeAsync(p, self->s));
	EXPECT_CU(cuMemFreeAsync(q, self->s));
	EXPECT_CU(cuStreamSynchronize(self->s));
	EXPECT_CU(cuMemPoolDestroy(pool));
}

/* --- against the libraries */

#define MOST	8
#define MARGIN	256

enum damage { NONE, CUT, FLIPPED, NOISE, SMALL_ROOM, TRAILING, DAMAGES };

struct operation {
	CUmemDecompressAlgorithm algo;
	enum damage damage;
	size_t length;			/* of the text */
	size_t bytes;			/* of the data */
	size_t room;			/* dstNumBytes; 0 may be passed instead */
	size_t src, dst, act;		/* offsets in the allocations */
	long want;			/* the length of the output, or -1 */
};

struct random {
	struct rng rng;
	unsigned char *text, *data, *out, *before, *acts, *src;
	__u64 done[DAMAGES], good, bad, bytes;
};

static size_t below(struct random *x, size_t n)
{
	return rng_below(&x->rng, n);
}

/* Something between constant and noise. */
static void make_text(struct random *x, size_t n)
{
	size_t at = 0;

	while (at < n) {
		size_t run = 1 + below(x, below(x, 2) ? 20 : 3000);
		size_t from = at ? below(x, at) : 0;

		if (run > n - at)
			run = n - at;
		switch (below(x, 4)) {
		case 0:
			rng_fill(&x->rng, x->text + at, run);
			break;
		case 1:
			memset(x->text + at, rng_next(&x->rng), run);
			break;
		default:
			for (size_t i = 0; i < run; i++)
				x->text[at + i] = at ? x->text[from + i] : 'a';
			break;
		}
		at += run;
	}
}

static size_t some_length(struct random *x)
{
	switch (below(x, 8)) {
	case 0:
		return below(x, 4);
	case 1:
	case 2:
		return below(x, 200);
	case 3:
		return below(x, 300000);
	default:
		return below(x, 20000);
	}
}

/* Compressed data at op->src of x->src. */
static void make_data(struct random *x, struct operation *op)
{
	unsigned char *data = x->src + op->src;
	size_t room = op->length + op->length / 5 + 1000;

	make_text(x, op->length);
	op->bytes = compress(op->algo, x->text, op->length, data, room);
	op->room = below(x, 2) ? op->length : op->length + below(x, 500);
	switch (op->damage) {
	case CUT:
		op->bytes -= 1 + below(x, op->bytes < 9 ? op->bytes : 9);
		break;
	case FLIPPED:
		for (size_t i = 0; i < 1 + below(x, 4); i++)
			data[below(x, op->bytes)] ^= 1 << below(x, 8);
		break;
	case NOISE:
		op->bytes = 1 + below(x, 3000);
		rng_fill(&x->rng, data, op->bytes);
		break;
	case SMALL_ROOM:
		op->room = op->length > 1 ? 1 + below(x, op->length - 1) : 1;
		break;
	case TRAILING:
		rng_fill(&x->rng, data + op->bytes, 10);
		op->bytes += 1 + below(x, 9);
		break;
	default:
		break;
	}
	if (!op->bytes)
		op->bytes = 1;
	/* srcNumBytes may not be 0, and a dstNumBytes of 0 means the rest of the allocation. */
	if (!op->room)
		op->room = 1;
}

static bool check(FIXTURE_DATA(decompress) *self, struct random *x, const struct operation *op)
{
	size_t from = op->dst - MARGIN, n = op->room + 2 * MARGIN;
	const unsigned char *have = view(self->dst + from, n);
	unsigned char *want = x->before + from;
	__u32 act = word_at(self->act + op->act);

	if (op->want > 0)
		memcpy(want + MARGIN, x->out + op->dst, op->want);
	if (act != (op->want > 0 ? op->want : 0)) {
		printf("# result %u, not %ld\n", act, op->want);
		return false;
	}
	for (size_t i = 0; i < n; i++)
		if (have[i] != want[i]) {
			printf("# byte %zd of %zu: %02x, not %02x\n", (ssize_t)(i - MARGIN), op->room,
			       have[i], want[i]);
			return false;
		}
	return true;
}

static bool step(FIXTURE_DATA(decompress) *self, struct random *x)
{
	struct operation ops[MOST];
	CUmemDecompressParams p[MOST];
	size_t src = 0, dst = MARGIN, count = 1 + below(x, MOST), fail = 4711;
	unsigned char acts[MOST * 8];

	for (size_t i = 0; i < count; i++) {
		struct operation *op = &ops[i];

		op->algo = algorithms[below(x, 3)];
		op->damage = below(x, 2) ? NONE : below(x, DAMAGES);
		op->length = some_length(x);
		op->src = src + below(x, 20);
		op->act = i * 8 + 4;
		make_data(x, op);
		src = op->src + op->bytes;
		op->dst = dst + below(x, 20);
		dst = op->dst + op->room + MARGIN;
		op->want = expand(op->algo, x->src + op->src, op->bytes, x->out + op->dst, op->room);
		x->done[op->damage]++;
		if (op->want < 0)
			x->bad++;
		else
			x->good++;
		x->bytes += op->want > 0 ? op->want : 0;
		p[i] = params(op->algo, self->dst + op->dst, op->room, self->src + op->src,
			      op->bytes, self->act + op->act);
		/* Undamaged data determines the length of its output. */
		if (op->damage == NONE && i + 1 == count && below(x, 2))
			p[i].dstNumBytes = 0;
	}
	rng_fill(&x->rng, x->before, dst + MARGIN);
	rng_fill(&x->rng, acts, count * 8);
	put(self->src, x->src, src);
	put(self->dst, x->before, dst + MARGIN);
	put(self->act, acts, count * 8);
	if (cuMemBatchDecompressAsync(p, count, 0, &fail, self->s) || fail != 4711 ||
	    cuStreamSynchronize(self->s))
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!check(self, x, &ops[i]) ||
		    memcmp(view(self->act + i * 8, 4), acts + i * 8, 4)) {
			printf("# operation %zu: algorithm %d, damage %d, %zu from %zu bytes\n", i,
			       ops[i].algo, ops[i].damage, ops[i].length, ops[i].bytes);
			return false;
		}
	}
	return true;
}

static void random_make(struct random *x)
{
	rng_start(&x->rng, "decompress");
	x->text = malloc(LONGEST);
	x->src = malloc(BYTES);
	x->out = malloc(BYTES);
	x->before = malloc(BYTES);
}

static void random_free(struct random *x)
{
	free(x->text);
	free(x->src);
	free(x->out);
	free(x->before);
}

TEST_F_TIMEOUT(decompress, against_the_libraries, 600)
{
	__u64 steps = env_number("GPUMEM_STEPS", 12000) / 100;
	static struct random x;

	random_make(&x);
	for (__u64 i = 0; i < steps; i++) {
		ASSERT_TRUE(step(self, &x)) {
			TH_LOG("batch %llu", (unsigned long long)i);
		}
	}
	printf("# %llu batches: %llu good, %llu bad, %llu bytes\n", (unsigned long long)steps,
	       (unsigned long long)x.good, (unsigned long long)x.bad, (unsigned long long)x.bytes);
	if (steps >= 100) {
		for (unsigned int i = 0; i < DAMAGES; i++)
			EXPECT_LT(0, x.done[i]);
		EXPECT_LT(0, x.good);
		EXPECT_LT(0, x.bad);
	}
	random_free(&x);
}

/* The longest output, and one that is a byte longer. */
TEST_F_TIMEOUT(decompress, longest, 300)
{
	unsigned char *text = calloc(1, LONGEST + 1), *data = malloc(LONGEST + MIB);

	for (size_t i = 0; i < LONGEST; i += 7)
		text[i] = i >> 9;
	for (unsigned int a = 0; a < ARRAY_SIZE(algorithms); a++)
		for (size_t more = 0; more < 2; more++) {
			size_t n = compress(algorithms[a], text, LONGEST + more, data,
					    LONGEST + MIB);
			CUmemDecompressParams p = params(algorithms[a], self->dst, 0, self->src, n,
							 self->act);

			ASSERT_LT(0, n);
			put(self->src, data, n);
			poke(self->dst, 0x55, LONGEST + 4096);
			ASSERT_CU(cuMemBatchDecompressAsync(&p, 1, 0, NULL, self->s));
			ASSERT_CU(cuStreamSynchronize(self->s));
			EXPECT_EQ(more ? 0 : LONGEST, word_at(self->act));
			EXPECT_EQ(0, more ? !sees(self->dst, 0x55, LONGEST) :
				  memcmp(view(self->dst, LONGEST), text, LONGEST));
			EXPECT_TRUE(sees(self->dst + LONGEST, 0x55, 4096));
		}
	free(text);
	free(data);
}

/* Data made to break decoders: each operation fails, and only its result is written. */
TEST_F(decompress, hostile)
{
	static const struct {
		CUmemDecompressAlgorithm algo;
		unsigned int length;
		unsigned char data[24];
	} bad[] = {
		/* A match before the first byte, lengths without end. */
		{ LZ4, 5, { 0x10, 'a', 0x02, 0x00, 0x00 } },
		{ LZ4, 16, { 0xf0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
			     255, 255 } },
		{ LZ4, 20, { 0x1f, 'a', 0x01, 0x00, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
			     255, 255, 255, 255, 255, 255 } },
		{ LZ4, 2, { 0xf0, 0x10 } },
		/* A text of 4 GiB, of more than there is room for, a length that does not end. */
		{ SNAPPY, 6, { 0xff, 0xff, 0xff, 0xff, 0x0f, 0x00 } },
		{ SNAPPY, 8, { 0x81, 0x20, 0xf0, 0x00, 1, 2, 3, 4 } },
		{ SNAPPY, 5, { 0xff, 0xff, 0xff, 0xff, 0xff } },
		/* Literals longer than the data, a copy from before the first byte. */
		{ SNAPPY, 7, { 0x40, 0xfc, 0xff, 0xff, 0xff, 0xff, 'a' } },
		{ SNAPPY, 4, { 0x04, 0x01, 0x01, 0x00 } },
		{ SNAPPY, 8, { 0x10, 0x00, 'a', 0x0f, 0xff, 0xff, 0xff, 0xff } },
		/* A stored block longer than the data, a wrong complement, a bad type. */
		{ DEFLATE, 6, { 0x01, 0xff, 0xff, 0x00, 0x00, 'a' } },
		{ DEFLATE, 6, { 0x01, 0x01, 0x00, 0x01, 0x00, 'a' } },
		{ DEFLATE, 2, { 0x07, 0x00 } },
		/* A match before the first byte; tables that make no sense. */
		{ DEFLATE, 4, { 0x03, 0x02, 0x00, 0x00 } },
		{ DEFLATE, 8, { 0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff } },
	};
	CUmemDecompressParams p[ARRAY_SIZE(bad) + 1];
	unsigned char text[1000], data[2000], unused[4096];
	size_t n, good = ARRAY_SIZE(bad);

	poke(self->dst, 0x5a, MIB);
	poke(self->act, 0xa5, 4096);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		ASSERT_EQ(-1, expand(bad[i].algo, bad[i].data, bad[i].length, unused, 4096)) {
			TH_LOG("data %zu is good", i);
		}
		put(self->src + i * 100, bad[i].data, bad[i].length);
		p[i] = params(bad[i].algo, self->dst + i * 8192, 4096, self->src + i * 100,
			      bad[i].length, self->act + i * 8);
	}
	/* A good operation in the same batch succeeds. */
	memset(text, 'x', sizeof(text));
	n = compress(LZ4, text, sizeof(text), data, sizeof(data));
	put(self->src + 8192, data, n);
	p[good] = params(LZ4, self->dst + good * 8192, 0, self->src + 8192, n,
			 self->act + good * 8);
	ASSERT_CU(cuMemBatchDecompressAsync(p, good + 1, 0, NULL, self->s));
	ASSERT_CU(cuStreamSynchronize(self->s));
	EXPECT_TRUE(sees(self->dst, 0x5a, good * 8192));
	EXPECT_TRUE(sees(self->dst + good * 8192, 'x', 1000));
	EXPECT_TRUE(sees(self->dst + good * 8192 + 1000, 0x5a, MIB - good * 8192 - 1000));
	for (size_t i = 0; i < good; i++) {
		EXPECT_EQ(0, word_at(self->act + i * 8));
		EXPECT_EQ(0xa5a5a5a5, word_at(self->act + i * 8 + 4));
	}
	EXPECT_EQ(1000, word_at(self->act + good * 8));
	/* The context still works. */
	EXPECT_CU(cuMemsetD8(self->dst, 0, 1000));
	EXPECT_CU(cuCtxSynchronize());
}

/* --- order */

/* A decompression keeps its place in its stream, also for streams that wait for events in it. */
TEST_F(decompress, in_stream_order)
{
	unsigned char text[20000], *data;
	CUevent before, after;

	ASSERT_CU(cuEventCreate(&before, CU_EVENT_DISABLE_TIMING));
	ASSERT_CU(cuEventCreate(&after, CU_EVENT_DISABLE_TIMING));
	ASSERT_CU(cuMemHostAlloc((void **)&data, 30000, 0));
	for (unsigned int i = 0; i < sizeof(text); i++)
		text[i] = i * i >> 8;
	for (unsigned int a = 0; a < ARRAY_SIZE(algorithms); a++) {
		size_t n = compress(algorithms[a], text, sizeof(text), data, 30000), fail = 4711;
		CUmemDecompressParams p = params(algorithms[a], self->dst, sizeof(text), self->src,
						 n, self->act);

		poke(self->src, 0xff, 30000);
		poke(self->dst, 0x11, 65536);
		poke(self->act, 0x22, 8);
		/* The data arrives in t, after s has reached a point; the output is copied in t. */
		ASSERT_CU(gate_close(self));
		ASSERT_CU(cuEventRecord(before, self->s));
		ASSERT_CU(cuStreamWaitEvent(self->t, before, 0));
		ASSERT_CU(cuMemcpyHtoDAsync(self->src, data, n, self->t));
		ASSERT_CU(cuEventRecord(before, self->t));
		ASSERT_CU(cuStreamWaitEvent(self->s, before, 0));
		ASSERT_CU(cuMemBatchDecompressAsync(&p, 1, 0, &fail, self->s));
		ASSERT_CU(cuEventRecord(after, self->s));
		ASSERT_CU(cuMemsetD8Async(self->src, 0xff, n, self->s));
		ASSERT_CU(cuStreamWaitEvent(self->t, after, 0));
		ASSERT_CU(cuMemcpyDtoDAsync(self->dst + 32768, self->dst, sizeof(text), self->t));
		ASSERT_CU(cuMemcpyDtoDAsync(self->act + 4, self->act, 4, self->t));
		ASSERT_CU(cuMemsetD8Async(self->dst, 0x33, sizeof(text), self->t));
		EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(self->s));
		EXPECT_EQ(CUDA_ERROR_NOT_READY, cuEventQuery(after));
		EXPECT_TRUE(sees(self->dst, 0x11, 65536));
		EXPECT_TRUE(sees(self->act, 0x22, 8));
		ASSERT_CU(gate_open(self));
		ASSERT_CU(cuStreamSynchronize(self->t));
		EXPECT_CU(cuEventQuery(after));
		EXPECT_EQ(0, memcmp(view(self->dst + 32768, sizeof(text)), text, sizeof(text)));
		EXPECT_TRUE(sees(self->dst, 0x33, sizeof(text)));
		EXPECT_EQ(sizeof(text), word_at(self->act + 4));
		EXPECT_EQ(4711, fail);
	}
	EXPECT_CU(cuEventDestroy(before));
	EXPECT_CU(cuEventDestroy(after));
}

struct waiter {
	volatile __u32 *word;
	bool seen;
};

static void wait_for_word(void *arg)
{
	struct waiter *w = arg;

	for (int i = 0; i < 20000 && !__atomic_load_n(w->word, __ATOMIC_ACQUIRE); i++)
		nap_ms(1);
	w->seen = *w->word;
}

/* A host function waits for decompressions in another stream, while several streams decompress. */
TEST_F(decompress, beside_host_functions)
{
	enum { STREAMS = 6, EACH = 8 };
	struct waiter w = { .word = self->word + 8 };
	unsigned char text[5000], data[8000];
	CUstream streams[STREAMS];
	size_t n;

	self->word[8] = 0;
	memset(text, 'q', sizeof(text));
	n = compress(DEFLATE, text, sizeof(text), data, sizeof(data));
	put(self->src, data, n);
	poke(self->dst, 0, STREAMS * EACH * 8192);
	poke(self->act, 0, STREAMS * EACH * 4);
	ASSERT_CU(cuLaunchHostFunc(self->t, wait_for_word, &w));
	for (unsigned int i = 0; i < STREAMS; i++)
		ASSERT_CU(cuStreamCreate(&streams[i], i % 2 ? CU_STREAM_NON_BLOCKING : 0));
	for (unsigned int i = 0; i < STREAMS * EACH; i++) {
		CUmemDecompressParams p = params(DEFLATE, self->dst + i * 8192, 5000, self->src, n,
						 self->act + i * 4);

		ASSERT_CU(cuMemBatchDecompressAsync(&p, 1, 0, NULL, streams[i % STREAMS]));
	}
	ASSERT_CU(cuStreamWriteValue32(streams[0], (uintptr_t)w.word, 1, 0));
	ASSERT_CU(cuStreamSynchronize(self->t));
	EXPECT_TRUE(w.seen);
	ASSERT_CU(cuCtxSynchronize());
	for (unsigned int i = 0; i < STREAMS * EACH; i++) {
		EXPECT_TRUE(sees(self->dst + i * 8192, 'q', 5000));
		EXPECT_TRUE(sees(self->dst + i * 8192 + 5000, 0, 3192));
		EXPECT_EQ(5000, word_at(self->act + i * 4));
	}
	for (unsigned int i = 0; i < STREAMS; i++)
		EXPECT_CU(cuStreamDestroy(streams[i]));
}

/* Memory of a pool made for decompression, freed in stream order; and exported memory. */
TEST_F(decompress, other_memory)
{
	unsigned char text[5000], data[8000];
	CUmemDecompressParams p;
	CUmemoryPool pool;
	CUdeviceptr q;
	size_t n;

	memset(text, 'p', sizeof(text));
	n = compress(SNAPPY, text, sizeof(text), data, sizeof(data));
	ASSERT_CU(pool_make_decompress(&pool));
	ASSERT_CU(cuMemAllocFromPoolAsync(&q, 65536, pool, self->s));
	ASSERT_CU(cuStreamSynchronize(self->s));
	put(q, data, n);
	ASSERT_CU(gate_close(self));
	p = params(SNAPPY, q + 16384, 0, q, n, q + 8192);
	ASSERT_CU(cuMemBatchDecompressAsync(&p, 1, 0, NULL, self->s));
	ASSERT_CU(cuMemcpyDtoDAsync(self->dst, q, 65536, self->s));
	ASSERT_CU(cuMemFreeAsync(q, self->s));
	ASSERT_CU(gate_open(self));
	EXPECT_TRUE(sees(self->dst + 16384, 'p', 5000));
	EXPECT_EQ(5000, word_at(self->dst + 8192));
	EXPECT_CU(cuMemPoolDestroy(pool));
	put(self->src, data, n);
	for (int which = 0; which < 3; which++) {
		CUdeviceptr shared = which == 0 ? self->src : which == 1 ? self->dst : self->act;

		ASSERT_CU(export(shared));
		poke(self->dst, 0, 8192);
		poke(self->act, 0, 8);
		p = params(SNAPPY, self->dst, 5000, self->src, n, self->act);
		ASSERT_CU(cuMemBatchDecompressAsync(&p, 1, 0, NULL, NULL));
		ASSERT_CU(cuStreamSynchronize(NULL));
		EXPECT_TRUE(sees(self->dst, 'p', 5000));
		EXPECT_TRUE(sees(self->dst + 5000, 0, 3192));
		EXPECT_EQ(5000, word_at(self->act));
		EXPECT_EQ(0, word_at(self->act + 4));
	}
}

/* --- what is refused */

TEST_F(decompress, refusals)
{
	unsigned char text[1000], data[2000];
	CUmemDecompressParams p[3], good;
	CUdeviceptr freed, pool;
	CUstream dead;
	size_t n, fail;
	void *host;

	memset(text, 'r', sizeof(text));
	n = compress(LZ4, text, sizeof(text), data, sizeof(data));
	put(self->src, data, n);
	poke(self->dst, 0, 65536);
	poke(self->act, 0, 4096);
	ASSERT_CU(cuMemAlloc(&freed, 4 * MIB));
	ASSERT_CU(cuMemFree(freed));
	ASSERT_CU(cuMemAllocAsync(&pool, 65536, self->s));
	ASSERT_CU(cuMemHostAlloc(&host, 65536, 0));
	good = params(LZ4, self->dst, 1000, self->src, n, self->act);
#define BAD(change)									\
	do {										\
		for (int i = 0; i < 3; i++)						\
			p[i] = good;							\
		p[1].change;								\
		fail = 4711;								\
		EXPECT_EQ(INVALID, cuMemBatchDecompressAsync(p, 3, 0, &fail, self->s)) { \
			TH_LOG("%s", #change);						\
		}									\
		EXPECT_EQ(1, fail);							\
		EXPECT_EQ(INVALID, cuMemBatchDecompressAsync(p, 3, 0, NULL, self->s));	\
	} while (0)
#define AT(addr)	((void *)(uintptr_t)(addr))
	BAD(algo = 0);
	BAD(algo = 3);
	BAD(algo = 8);
	BAD(algo = 0x80000001);
	BAD(src = NULL);
	BAD(dst = NULL);
	BAD(dstActBytes = NULL);
	BAD(srcNumBytes = 0);
	BAD(srcNumBytes = LONGEST + 1);
	BAD(srcNumBytes = ~0UL);
	BAD(srcNumBytes = (1UL << 32) + n);
	BAD(dstNumBytes = LONGEST + 1);
	BAD(dstNumBytes = ~0UL);
	BAD(src = AT(self->src + BYTES - n + 1));
	BAD(dst = AT(self->dst + BYTES - 999));
	BAD(dstActBytes = AT(self->act + MIB));
	BAD(dstActBytes = AT(self->act + 2));
	BAD(src = AT(freed));
	BAD(dst = AT(freed));
	BAD(dstActBytes = AT(freed));
	BAD(src = text);
	BAD(dst = text);
	BAD(dstActBytes = AT(text));
	BAD(src = host);
	BAD(dst = host);
	BAD(dstActBytes = host);
	BAD(src = AT(pool));
	BAD(dst = AT(pool));
	BAD(dstActBytes = AT(pool));
	fail = 4711;
	EXPECT_EQ(INVALID, cuMemBatchDecompressAsync(&good, 0, 0, &fail, self->s));
	EXPECT_EQ(SIZE_MAX, fail);
	fail = 4711;
	EXPECT_EQ(INVALID, cuMemBatchDecompressAsync(NULL, 1, 0, &fail, self->s));
	EXPECT_EQ(SIZE_MAX, fail);
	fail = 4711;
	EXPECT_EQ(INVALID, cuMemBatchDecompressAsync(&good, 1, 1, &fail, self->s));
	EXPECT_EQ(SIZE_MAX, fail);
	ASSERT_CU(cuStreamCreate(&dead, 0));
	ASSERT_CU(cuStreamDestroy(dead));
	EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuMemBatchDecompressAsync(&good, 1, 0, &fail, dead));
	ASSERT_CU(cuCtxSetCurrent(NULL));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemBatchDecompressAsync(&good, 1, 0, &fail, NULL));
	/* A stream has its own context. */
	ASSERT_CU(cuStreamSynchronize(self->s));
	EXPECT_EQ(0, word_at(self->act));
	EXPECT_CU(cuMemBatchDecompressAsync(&good, 1, 0, NULL, self->s));
	EXPECT_CU(cuStreamSynchronize(self->s));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_TRUE(sees(self->dst, 'r', 1000));
	EXPECT_TRUE(sees(self->dst + 1000, 0, 60000));
	EXPECT_EQ(1000, word_at(self->act));
	/* Ranges that end at the last byte of their allocations. */
	put(self->src + BYTES - n, data, n);
	good = params(LZ4, self->dst + BYTES - 1000, 0, self->src + BYTES - n, n,
		      self->act + MIB - 4);
	EXPECT_CU(cuMemBatchDecompressAsync(&good, 1, 0, NULL, CU_STREAM_PER_THREAD));
	EXPECT_CU(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	EXPECT_TRUE(sees(self->dst + BYTES - 1000, 'r', 1000));
	EXPECT_EQ(1000, word_at(self->act + MIB - 4));
	EXPECT_CU(cuMemFreeAsync(pool, self->s));
}

int main(int argc, char **argv)
{
	return test_harness_run(argc, argv);
}
