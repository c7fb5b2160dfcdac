// SPDX-License-Identifier: GPL-2.0
/*
 * Every form of copy and fill of the CUDA API against a model, byte by byte: in random order, on
 * random streams that are put in order by events or by the rules of the legacy stream, from a seed
 * that is printed.  Some calls exceed a buffer or misalign it; they must fail and write nothing.
 *
 * The kernel counts the engine's work, and the test compares the counters with the model's: all
 * work with GPUMEM_INLINE=0; otherwise none, if operations are small and the memory is private.
 *
 * GPUMEM_SEED, GPUMEM_STEPS: seed and number of operations (20000 in all).
 */
#include "kselftest_harness.h"
#include "cuda_util.h"

#define DEVICES		7
#define HOSTS		4
#define STREAMS		6
#define MARGIN		64

struct buffer {
	unsigned char *p, *model;
	size_t size;
	bool host, exported;
};

struct random {
	struct rng rng;
	struct buffer buffers[DEVICES + HOSTS];
	CUstream streams[STREAMS];
	unsigned int form;		/* the last operation */
	unsigned int last;		/* the last operation's stream */
	CUevent event;
	unsigned char *scratch;
	size_t largest;			/* bytes of an operation */
	/* The engine's work if it executes everything, and its work in any case. */
	__u64 jobs, copied, filled, least_copied, least_filled;
	__u64 done[16], refused, checked;
};

/* Of each stream: L: legacy, B: blocking, N: neither. */
static const char stream_class[STREAMS + 1] = "LLBBBN";

static CUresult random_make(struct random *x, bool big, unsigned int exported)
{
	const size_t sizes[DEVICES + HOSTS] = {
		1, 513, 4096, 65537, big ? 700001 : 200001, 300 * 1024, big ? 3 * MIB + 5 : 100000,
		100, 70000, 300000, big ? 3 * MIB : 200000,
	};
	CUresult result = CUDA_SUCCESS;

	x->largest = big ? 3 * MIB : INLINE;
	x->scratch = malloc(4 * MIB);
	for (unsigned int i = 0; !result && i < DEVICES + HOSTS; i++) {
		struct buffer *b = &x->buffers[i];
		CUdeviceptr p;

		b->size = sizes[i];
		b->host = i >= DEVICES;
		b->model = calloc(1, b->size);
		if (b->host) {
			b->p = calloc(1, b->size);
			continue;
		}
		result = cuMemAlloc(&p, b->size);
		b->p = cpu(p);
		b->exported = exported >> i & 1;
		if (!result && b->exported)
			result = export(p);
	}
	x->streams[0] = NULL;
	x->streams[1] = CU_STREAM_LEGACY;
	x->streams[2] = CU_STREAM_PER_THREAD;
	if (!result)
		result = cuStreamCreate(&x->streams[3], CU_STREAM_DEFAULT);
	if (!result)
		result = cuStreamCreateWithPriority(&x->streams[4], CU_STREAM_DEFAULT, -3);
	if (!result)
		result = cuStreamCreate(&x->streams[5], CU_STREAM_NON_BLOCKING);
	if (!result)
		result = cuEventCreate(&x->event, CU_EVENT_DISABLE_TIMING);
	return result;
}

static void random_free(struct random *x)
{
	for (unsigned int i = 0; i < DEVICES + HOSTS; i++) {
		free(x->buffers[i].model);
		if (x->buffers[i].host)
			free(x->buffers[i].p);
	}
	free(x->scratch);
}

static struct buffer *pick(struct random *x, bool host)
{
	if (host)
		return &x->buffers[DEVICES + rng_below(&x->rng, HOSTS)];
	return &x->buffers[rng_below(&x->rng, DEVICES)];
}

/* At most @max, mostly small. */
static size_t pick_size(struct random *x, size_t max)
{
	__u64 kind = rng_below(&x->rng, 128), limit;

	max = max < x->largest ? max : x->largest;
	if (kind < 4)
		return 0;
	if (kind < 8)
		return max;
	limit = kind < 60 ? 256 : kind < 110 ? 8192 : kind < 126 ? 65536 : max;
	return rng_below(&x->rng, (limit < max ? limit : max) + 1);
}

struct rows {
	size_t dst, dst_pitch, src, src_pitch, width, height;	/* offsets in buffers */
};

static bool ranges_overlap(const struct buffer *d, const struct buffer *s, const struct rows *r)
{
	size_t dst_end = r->dst + (r->height - 1) * r->dst_pitch + r->width;
	size_t src_end = r->src + (r->height - 1) * r->src_pitch + r->width;

	return d == s && r->dst < src_end && r->src < dst_end;
}

/* The model's copy: as if all were read before anything is written. */
static void model_copy(struct random *x, struct buffer *d, const struct buffer *s,
		       const struct rows *r)
{
	for (size_t i = 0; i < r->height; i++)
		memcpy(x->scratch + i * r->width, s->model + r->src + i * r->src_pitch, r->width);
	for (size_t i = 0; i < r->height; i++)
		memcpy(d->model + r->dst + i * r->dst_pitch, x->scratch + i * r->width, r->width);
}

static void account_copy(struct random *x, const struct buffer *d, const struct buffer *s,
			 const struct rows *r)
{
	__u64 bytes = r->width * r->height, jobs = 1, factor = 1;
	__u64 pieces = (r->width + STAGE - 1) / STAGE;

	if (!bytes || (d->host && s->host))
		return;
	if (d->host || s->host) {
		__u64 rows = pieces > 1 ? 1 : STAGE / r->width;

		jobs = pieces > 1 ? pieces * r->height : (r->height + rows - 1) / rows;
	} else if (d == s && r->dst == r->src &&
		   (r->height == 1 || r->dst_pitch == r->src_pitch)) {
		return;
	} else if (ranges_overlap(d, s, r)) {
		factor = 2;
		jobs = 2 * pieces * r->height;
	}
	x->jobs += jobs;
	x->copied += factor * bytes;
	if (d->exported || s->exported)
		x->least_copied += factor * bytes;
}

/*
 * Order the next operation, in stream @next, after all earlier ones.  Not for an operation without
 * effect: the legacy stream passes no order on without work of its own.
 */
static CUresult put_in_order(struct random *x, unsigned int next)
{
	char from = stream_class[x->last], to = stream_class[next];
	CUresult result = CUDA_SUCCESS;
	bool implied = x->last == next || (from == 'L' && to == 'L') ||
		(from == 'L' && to == 'B') || (from == 'B' && to == 'L');

	if (!implied || !rng_below(&x->rng, 8)) {
		result = cuEventRecord(x->event, x->streams[x->last]);
		if (!result)
			result = cuStreamWaitEvent(x->streams[next], x->event, 0);
	}
	x->last = next;
	return result;
}

/* Compare a range of a buffer, and a margin around it, with the model. */
static bool check_range(struct random *x, const struct buffer *b, size_t from, size_t to)
{
	const unsigned char *seen;
	size_t i = 0;

	from = from > MARGIN ? from - MARGIN : 0;
	to = to + MARGIN < b->size ? to + MARGIN : b->size;
	x->checked++;
	seen = view((uintptr_t)b->p + from, to - from);
	if (!memcmp(seen, b->model + from, to - from))
		return true;
	while (seen[i] == b->model[from + i])
		i++;
	fprintf(stderr, "# buffer %d of %zu bytes is %02x at %zu, not %02x\n",
		(int)(b - x->buffers), b->size, seen[i], from + i, b->model[from + i]);
	return false;
}

static bool check_all(struct random *x)
{
	if (cuCtxSynchronize())
		return false;
	for (unsigned int i = 0; i < DEVICES + HOSTS; i++) {
		if (!check_range(x, &x->buffers[i], 0, x->buffers[i].size))
			return false;
	}
	return true;
}

/* The stream of a call: forms without a stream argument use the legacy or the per-thread stream. */
static unsigned int stream_of(bool sync, bool own, unsigned int stream)
{
	if (sync)
		return own ? 2 : 0;
	return own && !stream ? 2 : stream;
}

#define ADDR(b, offset)		((CUdeviceptr)(uintptr_t)((b)->p + (offset)))

static CUresult call_linear(unsigned int form, bool own, CUstream s, const struct buffer *d,
			    const struct buffer *f, const struct rows *r)
{
	CUdeviceptr dst = ADDR(d, r->dst), src = ADDR(f, r->src);
	size_t n = r->width;

	switch (form * 2 + own) {
	case 0: return cuMemcpyHtoD(dst, cpu(src), n);
	case 1: return cuMemcpyHtoD_v2_ptds(dst, cpu(src), n);
	case 2: return cuMemcpyDtoH(cpu(dst), src, n);
	case 3: return cuMemcpyDtoH_v2_ptds(cpu(dst), src, n);
	case 4: return cuMemcpyDtoD(dst, src, n);
	case 5: return cuMemcpyDtoD_v2_ptds(dst, src, n);
	case 6: return cuMemcpy(dst, src, n);
	case 7: return cuMemcpy_ptds(dst, src, n);
	case 8: return cuMemcpyHtoDAsync(dst, cpu(src), n, s);
	case 9: return cuMemcpyHtoDAsync_v2_ptsz(dst, cpu(src), n, s);
	case 10: return cuMemcpyDtoHAsync(cpu(dst), src, n, s);
	case 11: return cuMemcpyDtoHAsync_v2_ptsz(cpu(dst), src, n, s);
	case 12: return cuMemcpyDtoDAsync(dst, src, n, s);
	case 13: return cuMemcpyDtoDAsync_v2_ptsz(dst, src, n, s);
	case 14: return cuMemcpyAsync(dst, src, n, s);
	default: return cuMemcpyAsync_ptsz(dst, src, n, s);
	}
}

/* Which buffers a linear form may copy between. */
static void pick_ends(struct random *x, unsigned int form, struct buffer **d, struct buffer **s)
{
	bool odd = !rng_below(&x->rng, 8);	/* device memory where host memory is expected */

	switch (form % 4) {
	case 0:
		*d = pick(x, false);
		*s = pick(x, !odd);
		break;
	case 1:
		*d = pick(x, !odd);
		*s = pick(x, false);
		break;
	case 2:
		*d = pick(x, false);
		*s = rng_below(&x->rng, 3) ? pick(x, false) : *d;
		break;
	default:
		*d = pick(x, rng_below(&x->rng, 2));
		*s = rng_below(&x->rng, 4) ? pick(x, rng_below(&x->rng, 2)) : *d;
	}
}

/* Copy in the model.  Compare copies to host memory, and one in four of the others, at once. */
static bool copied(struct random *x, struct buffer *d, struct buffer *s, const struct rows *r,
		   CUstream stream, size_t span)
{
	model_copy(x, d, s, r);
	account_copy(x, d, s, r);
	/* A copy to the process's memory is complete when the call returns. */
	if (!d->host && rng_below(&x->rng, 4))
		return true;
	if (!d->host && cuStreamSynchronize(stream))
		return false;
	return check_range(x, d, r->dst, r->dst + span);
}

/* Does a call have the result that it should have?  Calls that should be refused are counted. */
static bool expected(struct random *x, const char *what, unsigned int form, CUresult result,
		     CUresult want)
{
	if (result != want) {
		fprintf(stderr, "# %s %u: result %d, not %d\n", what, form, result, want);
		return false;
	}
	x->refused += want != CUDA_SUCCESS;
	return true;
}

/* Operations 0 to 7.  Some ask for one byte too many. */
static bool step_linear(struct random *x, unsigned int form, bool own, unsigned int stream)
{
	struct rows r = { .height = 1 };
	struct buffer *d, *s;
	CUresult result, want = CUDA_SUCCESS;

	pick_ends(x, form, &d, &s);
	r.dst = rng_below(&x->rng, d->size);
	r.src = rng_below(&x->rng, s->size);
	r.width = pick_size(x, d->size - r.dst < s->size - r.src ? d->size - r.dst :
			    s->size - r.src);
	if (!rng_below(&x->rng, 32)) {
		/* The library does not know where host memory ends: exceed device memory only. */
		struct buffer *end = d->host ? s : d;
		size_t offset = d->host ? r.src : r.dst;

		if (!end->host && (end == d ? s : d)->size - (end == d ? r.src : r.dst) >
		    end->size - offset) {
			r.width = end->size - offset + 1;
			want = INVALID;
		}
	}
	stream = stream_of(form < 4, own, stream);
	if (!want && r.width && put_in_order(x, stream))
		return false;
	result = call_linear(form, own, x->streams[stream == 2 && own && form >= 4 &&
						   rng_below(&x->rng, 2) ? 0 : stream], d, s, &r);
	if (!expected(x, "linear", form, result, want))
		return false;
	if (want)
		return true;
	if (!r.width)
		return true;
	r.dst_pitch = r.width;
	r.src_pitch = r.width;
	return copied(x, d, s, &r, x->streams[stream], r.width);
}

/* One side of a 2D copy: pitch and offsets for rows that fit into the buffer. */
static void pick_rows(struct random *x, const struct buffer *b, size_t width, size_t height,
		      size_t *pitch, size_t *at_x, size_t *at_y)
{
	/* The largest pitch, x and y that fit. */
	size_t most = height > 1 ? (b->size - width) / (height - 1) : b->size;

	*pitch = width + (most > width ? rng_below(&x->rng, most - width < 600 ?
						   most - width + 1 : 600) : 0);
	*at_x = 0;
	*at_y = 0;
	if (*pitch > width && rng_below(&x->rng, 2)) {
		size_t spare = b->size - ((height - 1) * *pitch + width);

		*at_x = rng_below(&x->rng, *pitch - width + 1);
		*at_x = *at_x < spare ? *at_x : spare;
	}
	if (rng_below(&x->rng, 2)) {
		size_t spare = b->size - ((height - 1) * *pitch + width + *at_x);

		*at_y = rng_below(&x->rng, spare / *pitch + 1);
	}
}

static void set_end(CUmemorytype *type, const void **host, CUdeviceptr *device,
		    const struct buffer *b, bool unified)
{
	*type = unified ? CU_MEMORYTYPE_UNIFIED : b->host ? CU_MEMORYTYPE_HOST :
		CU_MEMORYTYPE_DEVICE;
	if (b->host && !unified)
		*host = b->p;
	else
		*device = ADDR(b, 0);
}

/* Operations 8 to 10. */
static bool step_2d(struct random *x, unsigned int form, bool own, unsigned int stream)
{
	CUDA_MEMCPY2D c = { 0 };
	struct buffer *d, *s;
	CUresult result, want = CUDA_SUCCESS;
	size_t most, dst_x, dst_y, src_x, src_y;
	const void *dst_host = NULL;
	struct rows r;

	d = pick(x, !rng_below(&x->rng, 3));
	s = rng_below(&x->rng, 4) ? pick(x, !rng_below(&x->rng, 3)) : d;
	most = d->size < s->size ? d->size : s->size;
	r.width = pick_size(x, most);
	most = most < x->largest ? most : x->largest;
	r.height = r.width ? rng_below(&x->rng, most / r.width < 40 ? most / r.width + 1 : 40) : 3;
	if (!r.width || !r.height) {
		r.dst_pitch = r.src_pitch = dst_x = dst_y = src_x = src_y = 0;
	} else {
		pick_rows(x, d, r.width, r.height, &r.dst_pitch, &dst_x, &dst_y);
		pick_rows(x, s, r.width, r.height, &r.src_pitch, &src_x, &src_y);
	}
	if (d == s && r.dst_pitch != r.src_pitch) {
		/* Overlapping boxes need the same pitch, or else no order of rows is right. */
		r.src_pitch = r.dst_pitch;
		src_x = dst_x;
		src_y = 0;
	}
	r.dst = dst_y * r.dst_pitch + dst_x;
	r.src = src_y * r.src_pitch + src_x;
	set_end(&c.srcMemoryType, &c.srcHost, &c.srcDevice, s, rng_below(&x->rng, 2));
	set_end(&c.dstMemoryType, &dst_host, &c.dstDevice, d, rng_below(&x->rng, 2));
	c.dstHost = (void *)dst_host;
	c.srcXInBytes = src_x;
	c.srcY = src_y;
	c.dstXInBytes = dst_x;
	c.dstY = dst_y;
	c.WidthInBytes = r.width;
	c.Height = r.height;
	/* A pitch of 0 means adjacent rows. */
	c.srcPitch = r.src_pitch == r.width + src_x && rng_below(&x->rng, 2) ? 0 : r.src_pitch;
	c.dstPitch = r.dst_pitch == r.width + dst_x && rng_below(&x->rng, 2) ? 0 : r.dst_pitch;
	if (r.width && r.height && !d->host && !rng_below(&x->rng, 24)) {
		/* One byte or one row too many. */
		if (rng_below(&x->rng, 2)) {
			c.Height = (d->size - r.width - r.dst) / r.dst_pitch + 2;
			want = INVALID;
		} else if (c.dstPitch) {
			c.dstPitch = r.width + dst_x - 1;
			want = c.dstPitch ? INVALID : CUDA_SUCCESS;
		}
		if (!want)
			return true;
	}
	stream = stream_of(form < 10, own, stream);
	if (!want && r.width && r.height && put_in_order(x, stream))
		return false;
	switch (form * 2 + own) {
	case 16:
		result = cuMemcpy2D(&c);
		break;
	case 17:
		result = cuMemcpy2D_v2_ptds(&c);
		break;
	case 18:
		result = cuMemcpy2DUnaligned(&c);
		break;
	case 19:
		result = cuMemcpy2DUnaligned_v2_ptds(&c);
		break;
	case 20:
		result = cuMemcpy2DAsync(&c, x->streams[stream]);
		break;
	default:
		result = cuMemcpy2DAsync_v2_ptsz(&c, x->streams[stream == 2 ? 0 : stream]);
	}
	if (!expected(x, "2D", form, result, want))
		return false;
	if (want)
		return true;
	if (!r.width || !r.height)
		return true;
	return copied(x, d, s, &r, x->streams[stream], (r.height - 1) * r.dst_pitch + r.width);
}

/* Operations 11 to 14. */
static bool step_fill(struct random *x, unsigned int form, bool own, unsigned int stream)
{
	struct buffer *d = pick(x, false);
	unsigned int elem = form % 2 ? 1 : 4, value = rng_next(&x->rng);
	size_t at = rng_below(&x->rng, d->size) / elem * elem, count;
	CUresult result, want = CUDA_SUCCESS;
	CUdeviceptr dst = ADDR(d, at);
	CUstream s;

	count = pick_size(x, d->size - at) / elem;
	if (!rng_below(&x->rng, 32)) {
		count = (d->size - at) / elem + 1;
		want = INVALID;
	} else if (elem == 4 && count && !rng_below(&x->rng, 32)) {
		dst += 1 + rng_below(&x->rng, 3);
		want = INVALID;
	}
	stream = stream_of(form < 13, own, stream);
	if (!want && count && put_in_order(x, stream))
		return false;
	s = x->streams[stream];
	switch (form * 2 + own) {
	case 22:
		result = cuMemsetD8(dst, value, count);
		break;
	case 23:
		result = cuMemsetD8_v2_ptds(dst, value, count);
		break;
	case 24:
		result = cuMemsetD32(dst, value, count);
		break;
	case 25:
		result = cuMemsetD32_v2_ptds(dst, value, count);
		break;
	case 26:
		result = cuMemsetD8Async(dst, value, count, s);
		break;
	case 27:
		result = cuMemsetD8Async_ptsz(dst, value, count, stream == 2 ? NULL : s);
		break;
	case 28:
		result = cuMemsetD32Async(dst, value, count, s);
		break;
	default:
		result = cuMemsetD32Async_ptsz(dst, value, count, stream == 2 ? NULL : s);
	}
	if (!expected(x, "fill", form, result, want))
		return false;
	if (want)
		return true;
	if (!count)
		return true;
	for (size_t i = 0; i < count; i++)
		memcpy(d->model + at + i * elem, &value, elem);
	x->jobs++;
	x->filled += count * elem;
	x->least_filled += d->exported ? count * elem : 0;
	if (rng_below(&x->rng, 4))
		return true;
	return !cuStreamSynchronize(s) && check_range(x, d, at, at + count * elem);
}

static bool step(struct random *x, bool one_stream)
{
	unsigned int form = rng_below(&x->rng, 15);
	unsigned int stream = rng_below(&x->rng, STREAMS);
	bool own = rng_below(&x->rng, 2);

	x->done[form]++;
	x->form = form;
	if (one_stream) {
		stream = rng_below(&x->rng, 2);
		own = false;
	}
	if (form < 8)
		return step_linear(x, form, own, stream);
	if (form < 11)
		return step_2d(x, form, own, stream);
	return step_fill(x, form, own, stream);
}

FIXTURE(random)
{
	CUcontext ctx;
};

FIXTURE_VARIANT(random)
{
	const char *name;
	bool one_stream, big;
	unsigned int exported;		/* a bit per device buffer */
	unsigned int share;		/* percent of the steps */
};

FIXTURE_VARIANT_ADD(random, one_stream)
{
	.name = "one_stream", .one_stream = true, .big = true, .share = 30,
};

/* Asynchronous operations up to 256 KiB on private memory: they are never pending. */
FIXTURE_VARIANT_ADD(random, small)
{
	.name = "small", .share = 35,
};

FIXTURE_VARIANT_ADD(random, exported)
{
	.name = "exported", .big = true, .exported = 0x55, .share = 35,
};

FIXTURE_SETUP(random)
{
	cuda_begin(_metadata, &self->ctx);
}

QUIET_AFTERWARDS(random)

TEST_F_TIMEOUT(random, against_a_model, 1800)
{
	__u64 steps = env_number("GPUMEM_STEPS", 20000) * variant->share / 100;
	static struct random x;
	struct meter before, after;

	rng_start(&x.rng, variant->name);
	ASSERT_CU(random_make(&x, variant->big, variant->exported));
	ASSERT_CU(cuCtxSynchronize());
	ASSERT_EQ(0, meter_read(&before));
	for (__u64 i = 0; i < steps; i++) {
		ASSERT_TRUE(step(&x, variant->one_stream)) {
			TH_LOG("step %llu, operation %u", (unsigned long long)i, x.form);
		}
		if (i % 512 == 511) {
			ASSERT_TRUE(check_all(&x)) {
				TH_LOG("after step %llu", (unsigned long long)i);
			}
		}
	}
	ASSERT_TRUE(check_all(&x));
	ASSERT_EQ(0, meter_read(&after));
	for (unsigned int i = 0; steps >= 1000 && i < 15; i++) {
		EXPECT_LT(0, x.done[i]);
	}
	printf("# %llu steps: %llu refused, %llu checks; engine: %llu jobs, %llu + %llu bytes\n",
	       (unsigned long long)steps, (unsigned long long)x.refused,
	       (unsigned long long)x.checked, (unsigned long long)(after.jobs - before.jobs),
	       (unsigned long long)(after.copied - before.copied),
	       (unsigned long long)(after.filled - before.filled));
	if (!inlining()) {
		EXPECT_EQ(x.copied, after.copied - before.copied);
		EXPECT_EQ(x.filled, after.filled - before.filled);
		/* Streams wait for each other by entries, too. */
		if (variant->one_stream) {
			EXPECT_EQ(x.jobs, after.jobs - before.jobs);
		} else {
			EXPECT_LE(x.jobs, after.jobs - before.jobs);
		}
	} else if (!variant->big) {
		EXPECT_EQ(0, after.jobs - before.jobs);
		EXPECT_EQ(0, after.copied - before.copied);
		EXPECT_EQ(0, after.filled - before.filled);
	} else {
		EXPECT_LE(x.least_copied, after.copied - before.copied);
		EXPECT_LE(x.least_filled, after.filled - before.filled);
		EXPECT_GE(x.copied, after.copied - before.copied);
		EXPECT_GE(x.filled, after.filled - before.filled);
	}
	random_free(&x);
}

int main(int argc, char **argv)
{
	return test_harness_run(argc, argv);
}
