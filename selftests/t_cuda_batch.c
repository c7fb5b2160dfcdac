// SPDX-License-Identifier: GPL-2.0
/*
 * Batches of copies: what is refused, and which copy it was; when sources are read; random batches
 * against a model.
 *
 * The model holds what every byte of eight kinds of memory must be: device memory of two devices, of
 * a pool and exported, pinned, registered and pageable memory.  Memory consists of slots with gaps
 * between them; a batch takes each slot as a source or once as a destination, so that its copies do
 * not depend on each other.  A third of the batches are submitted to a stream that a word of memory
 * holds back.  Sources are then overwritten after the call: what was to be read before it returned
 * must not show that, what is read in stream order must.
 *
 * GPUMEM_SEED, GPUMEM_STEPS: seed, and a hundred times the number of batches.
 */
#include "kselftest_harness.h"
#include "cuda_util.h"

#define STREAM_ORDER	CU_MEMCPY_SRC_ACCESS_ORDER_STREAM
#define DURING_CALL	CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL
#define ANY_ORDER	CU_MEMCPY_SRC_ACCESS_ORDER_ANY

enum kind { DEVICE, EXPORTED, POOL, PEER, PINNED, REGISTERED, PAGEABLE, PAGEABLE_TOO, KINDS };

#define SLOTS	7
#define GAP	64
static const size_t slot_size[SLOTS] = { 64, 777, 4096, 70001, INLINE + 3, MIB + 4099, 3000 };

/* The forms with a place for the failing copy's index. */
typedef CUresult batch_fn(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
			  CUmemcpyAttributes *attrs, size_t *indices, size_t attr_count,
			  size_t *fail, CUstream stream);
typedef CUresult batch_3d_fn(size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *fail,
			     unsigned long long flags, CUstream stream);

struct region {
	CUdeviceptr p;
	unsigned char *model;
};

static struct region regions[KINDS];
static size_t slot_at[SLOTS], region_size;

FIXTURE(batch)
{
	CUcontext ctx, other;
	CUstream s, t;
	__u32 *word, last;	/* what s waits for, pinned */
	batch_fn *linear;
	batch_3d_fn *boxes;
};

static bool cpu_kind(enum kind kind)
{
	return kind >= PINNED;
}

static bool pageable(enum kind kind)
{
	return kind >= PAGEABLE;
}

/* Memory of every kind, all zero. */
static CUresult regions_make(CUcontext other)
{
	CUresult result = CUDA_SUCCESS;
	CUstream stream;
	void *host;

	region_size = GAP;
	for (int i = 0; i < SLOTS; i++) {
		slot_at[i] = region_size;
		region_size += slot_size[i] + GAP;
	}
	for (enum kind k = 0; !result && k < KINDS; k++) {
		struct region *r = &regions[k];

		r->model = calloc(1, region_size);
		switch (k) {
		case DEVICE:
			result = cuMemAlloc(&r->p, region_size);
			break;
		case EXPORTED:
			result = cuMemAlloc(&r->p, region_size);
			if (!result)
				result = export(r->p);
			break;
		case POOL:
			result = cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
			if (!result)
				result = cuMemAllocAsync(&r->p, region_size, stream);
			if (!result)
				result = cuStreamSynchronize(stream);
			break;
		case PEER:
			result = cuCtxPushCurrent(other);
			if (!result)
				result = cuMemAlloc(&r->p, region_size);
			cuCtxPopCurrent(NULL);
			break;
		case PINNED:
			result = cuMemHostAlloc(&host, region_size, 0);
			r->p = (uintptr_t)host;
			break;
		default:
			r->p = (uintptr_t)mmap(NULL, region_size, PROT_READ | PROT_WRITE,
					       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			if (k == REGISTERED)
				result = cuMemHostRegister(cpu(r->p), region_size, 0);
			break;
		}
		/* Blocks of pools may hold what was in them. */
		if (!result && !cpu_kind(k))
			result = cuMemsetD8(r->p, 0, region_size);
	}
	return result ? result : cuCtxSynchronize();
}

FIXTURE_SETUP(batch)
{
	void *fn;

	ASSERT_TRUE(dev_quiet(10));
	ASSERT_CU(cuda_start(&self->ctx));
	ASSERT_CU(cuDevicePrimaryCtxRetain(&self->other, 1));
	ASSERT_CU(befriend(self->ctx, self->other));
	ASSERT_CU(cuStreamCreate(&self->s, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuStreamCreate(&self->t, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuMemHostAlloc((void **)&self->word, 4096, 0));
	self->word[0] = self->last = 0;
	ASSERT_CU(regions_make(self->other));
	ASSERT_CU(cuGetProcAddress("cuMemcpyBatchAsync", &fn, 12080, 0, NULL));
	self->linear = fn;
	ASSERT_CU(cuGetProcAddress("cuMemcpy3DBatchAsync", &fn, 12080, 0, NULL));
	self->boxes = fn;
	/* Newer programs get another form. */
	ASSERT_CU(cuGetProcAddress("cuMemcpyBatchAsync", &fn, 13000, 0, NULL));
	EXPECT_NE((void *)self->linear, fn);
	EXPECT_EQ((void *)cuMemcpyBatchAsync, fn);
}

FIXTURE_TEARDOWN_PARENT(batch)
{
	EXPECT_TRUE(dev_quiet(10));
}

/* What follows in s waits until gate_open(). */
static CUresult gate_close(FIXTURE_DATA(batch) *self)
{
	return cuStreamWaitValue32(self->s, (uintptr_t)self->word, ++self->last,
				   CU_STREAM_WAIT_VALUE_GEQ);
}

static CUresult gate_open(FIXTURE_DATA(batch) *self)
{
	__atomic_store_n(self->word, self->last, __ATOMIC_RELEASE);
	return cuStreamSynchronize(self->s);
}

static CUmemcpyAttributes how(CUmemcpySrcAccessOrder order)
{
	return (CUmemcpyAttributes) { .srcAccessOrder = order };
}

static CUDA_MEMCPY3D_BATCH_OP box(CUdeviceptr dst, CUdeviceptr src, size_t w, size_t h, size_t d)
{
	return (CUDA_MEMCPY3D_BATCH_OP) {
		.src = { .type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr.ptr = src },
		.dst = { .type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr.ptr = dst },
		.extent = { w, h, d }, .srcAccessOrder = STREAM_ORDER,
	};
}

/* --- against the model */

static bool region_is(enum kind k, size_t at, size_t n)
{
	const struct region *r = &regions[k];
	const unsigned char *have = view(r->p + at, n);

	for (size_t i = 0; i < n; i++)
		if (have[i] != r->model[at + i]) {
			printf("# kind %d, byte %zu: %02x, not %02x\n", k, at + i, have[i],
			       r->model[at + i]);
			return false;
		}
	return true;
}

static bool all_as_modelled(void)
{
	for (enum kind k = 0; k < KINDS; k++)
		if (!region_is(k, 0, region_size))
			return false;
	return true;
}

enum use { UNUSED, SOURCE, DESTINATION };

struct slot_use {
	enum use use;
	CUmemcpySrcAccessOrder order;	/* of who reads it */
	bool written;			/* in stream order, before the batch */
};

#define MOST	10

struct op {
	enum kind dst, src;
	size_t dst_at, src_at;		/* in the region */
	unsigned int dst_slot, src_slot;
	CUmemcpySrcAccessOrder order;
	size_t w, h, d, dst_row, src_row, dst_layer, src_layer;	/* h and d 1 if linear */
};

struct random {
	struct rng rng;
	struct slot_use uses[KINDS][SLOTS];
	struct op ops[MOST];
	unsigned int count;
	bool gated, boxes;
	__u64 done[ANY_ORDER + 1], held, refused, overwritten;
};

static size_t below(struct random *x, size_t n)
{
	return rng_below(&x->rng, n);
}

/* How many rows of how many bytes fit into a slot, and how far they are apart. */
static void layout(struct random *x, size_t room, size_t w, size_t h, size_t d, size_t *row,
		   size_t *layer)
{
	*row = w + below(x, 20);
	*layer = h + below(x, 3);
	/* Without gaps it fits. */
	if (((d - 1) * *layer + h - 1) * *row + w > room) {
		*row = w;
		*layer = h;
	}
}

/* Choose a copy that goes with those before it; false if none was found. */
static bool choose(struct random *x, struct op *op)
{
	struct slot_use *from = NULL, *to = NULL;
	size_t room;

	op->order = STREAM_ORDER + below(x, 3);
	for (int tries = 0; tries < 50 && !from; tries++) {
		op->src = below(x, KINDS);
		op->src_slot = below(x, SLOTS);
		from = &x->uses[op->src][op->src_slot];
		if (from->use == DESTINATION || (from->use == SOURCE && from->order != op->order))
			from = NULL;
	}
	for (int tries = 0; from && tries < 50 && !to; tries++) {
		op->dst = below(x, KINDS);
		op->dst_slot = below(x, SLOTS);
		to = &x->uses[op->dst][op->dst_slot];
		if (to->use != UNUSED || to == from || (x->gated && pageable(op->dst)))
			to = NULL;
	}
	if (!to)
		return false;
	from->use = SOURCE;
	from->order = op->order;
	to->use = DESTINATION;
	op->dst_at = slot_at[op->dst_slot] + below(x, 30);
	op->src_at = slot_at[op->src_slot] + below(x, 30);
	room = slot_size[op->dst_slot] < slot_size[op->src_slot] ? slot_size[op->dst_slot] :
		slot_size[op->src_slot];
	room -= 30;
	op->h = op->d = 1;
	if (x->boxes && room > 200) {
		op->h = 1 + below(x, 7);
		op->d = 1 + below(x, 4);
	}
	op->w = 1 + below(x, room / op->h / op->d);
	if (!below(x, 3))
		op->w = room / op->h / op->d;
	layout(x, room, op->w, op->h, op->d, &op->dst_row, &op->dst_layer);
	layout(x, room, op->w, op->h, op->d, &op->src_row, &op->src_layer);
	return true;
}

/* What a copy does, in the model. */
static void model_op(const struct op *op)
{
	unsigned char *dst = regions[op->dst].model + op->dst_at;
	const unsigned char *src = regions[op->src].model + op->src_at;

	for (size_t z = 0; z < op->d; z++)
		for (size_t y = 0; y < op->h; y++)
			memcpy(dst + (z * op->dst_layer + y) * op->dst_row,
			       src + (z * op->src_layer + y) * op->src_row, op->w);
}

struct host_fill {
	unsigned char *p;
	unsigned char value;
	size_t n;
};

static void host_fill(void *arg)
{
	struct host_fill *f = arg;

	memset(f->p, f->value, f->n);
	free(f);
}

/* Sources that are read in stream order are written in the stream before. */
static CUresult write_before(struct random *x, CUstream stream)
{
	CUresult result = CUDA_SUCCESS;

	for (unsigned int i = 0; !result && i < x->count; i++) {
		const struct op *op = &x->ops[i];
		struct slot_use *use = &x->uses[op->src][op->src_slot];
		size_t at = slot_at[op->src_slot], n = slot_size[op->src_slot];
		unsigned char value = rng_next(&x->rng);

		if (op->order != STREAM_ORDER || use->written || below(x, 4))
			continue;
		use->written = true;
		memset(regions[op->src].model + at, value, n);
		if (pageable(op->src)) {
			struct host_fill *f = malloc(sizeof(*f));

			*f = (struct host_fill) { cpu(regions[op->src].p + at), value, n };
			result = cuLaunchHostFunc(stream, host_fill, f);
		} else {
			result = cuMemsetD8Async(regions[op->src].p + at, value, n, stream);
		}
	}
	return result;
}

/* After the call: what was to be read before it returned, and what a held stream has not read. */
static void overwrite(struct random *x, CUmemcpySrcAccessOrder order)
{
	for (unsigned int i = 0; i < x->count; i++) {
		const struct op *op = &x->ops[i];
		const struct slot_use *use = &x->uses[op->src][op->src_slot];
		struct region *r = &regions[op->src];
		size_t at = slot_at[op->src_slot], n = slot_size[op->src_slot];

		if (op->order != order || use->written || below(x, 2))
			continue;
		memset(r->model + at, rng_next(&x->rng), n);
		put(r->p + at, r->model + at, n);
		x->overwritten++;
	}
}

static CUresult call_linear(FIXTURE_DATA(batch) *self, struct random *x, unsigned int bad,
			    size_t *fail)
{
	CUdeviceptr dsts[MOST], srcs[MOST];
	size_t sizes[MOST], indices[MOST], runs = 0;
	CUmemcpyAttributes attrs[MOST];

	for (unsigned int i = 0; i < x->count; i++) {
		const struct op *op = &x->ops[i];

		dsts[i] = regions[op->dst].p + op->dst_at;
		srcs[i] = regions[op->src].p + op->src_at;
		sizes[i] = op->w;
		if (!i || op->order != x->ops[i - 1].order || !below(x, 3)) {
			attrs[runs] = how(op->order);
			attrs[runs].flags = below(x, 2);
			attrs[runs].dstLocHint.type = below(x, 5);
			indices[runs++] = i;
		}
	}
	if (bad < x->count) {
		switch (below(x, 4)) {
		case 0:
			sizes[bad] = 0;
			break;
		case 1:
			dsts[bad] = 0;
			break;
		case 2:
			srcs[bad] = 0;
			break;
		default:
			sizes[bad] = ~0ULL;
			break;
		}
	}
	if (fail)
		return self->linear(dsts, srcs, sizes, x->count, attrs, indices, runs, fail,
				    self->s);
	return cuMemcpyBatchAsync(dsts, srcs, sizes, x->count, attrs, indices, runs, self->s);
}

static CUresult call_boxes(FIXTURE_DATA(batch) *self, struct random *x, unsigned int bad,
			   size_t *fail)
{
	CUDA_MEMCPY3D_BATCH_OP ops[MOST];

	for (unsigned int i = 0; i < x->count; i++) {
		const struct op *op = &x->ops[i];

		ops[i] = box(regions[op->dst].p + op->dst_at, regions[op->src].p + op->src_at,
			     op->w, op->h, op->d);
		ops[i].srcAccessOrder = op->order;
		ops[i].dst.op.ptr.rowLength = op->dst_row == op->w ? 0 : op->dst_row;
		ops[i].src.op.ptr.rowLength = op->src_row == op->w ? 0 : op->src_row;
		ops[i].dst.op.ptr.layerHeight = op->dst_layer == op->h ? 0 : op->dst_layer;
		ops[i].src.op.ptr.layerHeight = op->src_layer == op->h ? 0 : op->src_layer;
	}
	if (bad < x->count) {
		switch (below(x, 4)) {
		case 0:
			ops[bad].extent.depth = 0;
			break;
		case 1:
			ops[bad].dst.op.ptr.ptr = 0;
			break;
		case 2:
			ops[bad].src.op.ptr.layerHeight = 1ULL << 62;
			ops[bad].extent.depth = 1000;
			break;
		default:
			ops[bad].src.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
			memset(&ops[bad].src.op, 0, sizeof(ops[bad].src.op));
			break;
		}
	}
	if (fail)
		return self->boxes(x->count, ops, fail, 0, self->s);
	return cuMemcpy3DBatchAsync(x->count, ops, 0, self->s);
}

static bool step(FIXTURE_DATA(batch) *self, struct random *x)
{
	size_t fail = 4711, *place;
	unsigned int bad = ~0U;
	CUresult result;

	memset(x->uses, 0, sizeof(x->uses));
	x->gated = !below(x, 3);
	x->boxes = !below(x, 2);
	x->count = 0;
	for (size_t n = 1 + below(x, MOST); x->count < n && choose(x, &x->ops[x->count]);)
		x->count++;
	if (!x->count)
		return true;
	if (!below(x, 8))
		bad = below(x, x->count);
	place = bad < x->count || below(x, 2) ? &fail : NULL;
	if (x->gated && gate_close(self))
		return false;
	if (write_before(x, self->s))
		return false;
	result = x->boxes ? call_boxes(self, x, bad, place) : call_linear(self, x, bad, place);
	if (bad < x->count) {
		x->refused++;
		if (result != INVALID || fail != bad) {
			printf("# refused with %d at %zu, not at %u\n", result, fail, bad);
			return false;
		}
	} else {
		if (result || fail != 4711)
			return false;
		x->held += x->gated && cuStreamQuery(self->s) == CUDA_ERROR_NOT_READY;
		for (unsigned int i = 0; i < x->count; i++) {
			x->done[x->ops[i].order]++;
			if (x->ops[i].order == DURING_CALL)
				model_op(&x->ops[i]);
		}
		overwrite(x, DURING_CALL);
		if (x->gated)
			overwrite(x, STREAM_ORDER);
		for (unsigned int i = 0; i < x->count; i++)
			if (x->ops[i].order != DURING_CALL)
				model_op(&x->ops[i]);
	}
	if (gate_open(self))
		return false;
	for (unsigned int i = 0; i < x->count; i++) {
		const struct op *op = &x->ops[i];

		if (!region_is(op->dst, slot_at[op->dst_slot] - GAP,
			       slot_size[op->dst_slot] + 2 * GAP)) {
			printf("# from kind %d, %zu x %zu x %zu, order %d, held %d\n", op->src, op->w,
			       op->h, op->d, op->order, x->gated);
			return false;
		}
	}
	return true;
}

TEST_F_TIMEOUT(batch, against_a_model, 600)
{
	__u64 steps = env_number("GPUMEM_STEPS", 8000) / 100;
	static struct random x;

	rng_start(&x.rng, "batch");
	for (enum kind k = 0; k < KINDS; k++) {
		rng_fill(&x.rng, regions[k].model, region_size);
		put(regions[k].p, regions[k].model, region_size);
	}
	for (__u64 i = 0; i < steps; i++) {
		ASSERT_TRUE(step(self, &x)) {
			TH_LOG("batch %llu", (unsigned long long)i);
		}
	}
	EXPECT_TRUE(all_as_modelled());
	printf("# %llu batches: %llu + %llu + %llu copies, %llu held, %llu refused, %llu overwritten\n",
	       (unsigned long long)steps, (unsigned long long)x.done[1],
	       (unsigned long long)x.done[2], (unsigned long long)x.done[3],
	       (unsigned long long)x.held, (unsigned long long)x.refused,
	       (unsigned long long)x.overwritten);
	if (steps >= 80) {
		for (unsigned int i = 1; i <= ANY_ORDER; i++)
			EXPECT_LT(0, x.done[i]);
		EXPECT_LT(0, x.held);
		EXPECT_LT(0, x.refused);
		EXPECT_LT(0, x.overwritten);
	}
}

/* --- when sources are read */

/* From every kind of memory, past a stream that is held back. */
TEST_F(batch, orders)
{
	const size_t sizes[] = { 64, INLINE + 3, MIB + 4099 };
	const CUmemcpySrcAccessOrder orders[] = { STREAM_ORDER, DURING_CALL };
	unsigned char *old = malloc(2 * MIB), *new = malloc(2 * MIB);

	memset(old, 1, 2 * MIB);
	memset(new, 2, 2 * MIB);
	for (unsigned int o = 0; o < 2; o++)
		for (enum kind src = 0; src < KINDS; src++)
			for (unsigned int i = 0; i < 3; i++) {
				CUdeviceptr from = regions[src].p;
				CUdeviceptr to = regions[src == DEVICE ? POOL : DEVICE].p;
				CUmemcpyAttributes attr = how(orders[o]);
				size_t n = sizes[i], zero = 0;

				put(from, old, n);
				poke(to, 7, n);
				ASSERT_CU(gate_close(self));
				ASSERT_CU(cuMemcpyBatchAsync(&to, &from, &n, 1, &attr, &zero, 1,
							     self->s));
				EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(self->s));
				EXPECT_TRUE(sees(to, 7, n));
				put(from, new, n);
				ASSERT_CU(gate_open(self));
				EXPECT_TRUE(sees(to, orders[o] == STREAM_ORDER ? 2 : 1, n)) {
					TH_LOG("order %d, kind %d, %zu bytes", orders[o], src, n);
				}
			}
	free(old);
	free(new);
}

/* A batch is after what is before it in its stream and before what is after it, for others, too. */
TEST_F(batch, between_events)
{
	CUdeviceptr a = regions[DEVICE].p, b = regions[POOL].p, c = regions[PEER].p;
	CUdeviceptr page = regions[PAGEABLE].p;
	CUdeviceptr dsts[] = { b, b + MIB / 2 }, srcs[] = { a, page };
	size_t sizes[] = { 4096, 100001 }, zero = 0, n = 4096;
	CUmemcpyAttributes attr = how(STREAM_ORDER);
	CUevent before, after;

	ASSERT_CU(cuEventCreate(&before, CU_EVENT_DISABLE_TIMING));
	ASSERT_CU(cuEventCreate(&after, CU_EVENT_DISABLE_TIMING));
	memset(cpu(page), 9, 100001);
	/* t waits for the gate, s for t, and then t again for s. */
	ASSERT_CU(cuStreamWaitValue32(self->t, (uintptr_t)self->word, 1, CU_STREAM_WAIT_VALUE_EQ));
	ASSERT_CU(cuMemsetD8Async(a, 5, 4096, self->t));
	ASSERT_CU(cuEventRecord(before, self->t));
	ASSERT_CU(cuStreamWaitEvent(self->s, before, 0));
	ASSERT_CU(cuMemcpyBatchAsync(dsts, srcs, sizes, 2, &attr, &zero, 1, self->s));
	ASSERT_CU(cuEventRecord(after, self->s));
	ASSERT_CU(cuStreamWaitEvent(self->t, after, 0));
	ASSERT_CU(cuMemcpyBatchAsync(&c, &b, &n, 1, &attr, &zero, 1, self->t));
	ASSERT_CU(cuMemsetD8Async(b, 6, 4096, self->t));
	EXPECT_EQ(CUDA_ERROR_NOT_READY, cuEventQuery(after));
	EXPECT_TRUE(sees(b, 0, 4096));
	__atomic_store_n(self->word, 1, __ATOMIC_RELEASE);
	ASSERT_CU(cuStreamSynchronize(self->t));
	EXPECT_CU(cuEventQuery(after));
	EXPECT_TRUE(sees(c, 5, 4096));
	EXPECT_TRUE(sees(b, 6, 4096));
	EXPECT_TRUE(sees(b + MIB / 2, 9, 100001));
	EXPECT_CU(cuEventDestroy(before));
	EXPECT_CU(cuEventDestroy(after));
}

/* A thousand copies in a call, of every kind. */
TEST_F(batch, a_thousand)
{
	enum { N = 1000 };
	CUdeviceptr dsts[N], srcs[N];
	size_t sizes[N], zero = 0;

	for (enum kind k = 0; k < KINDS; k++)
		memset(regions[k].model, 0, region_size);
	for (unsigned int i = 0; i < N; i++) {
		enum kind from = i % KINDS, to = i / KINDS % KINDS;
		size_t at = i * 97 % (region_size / 2 - 128);

		sizes[i] = 1 + i % 90;
		srcs[i] = regions[from].p + at;
		dsts[i] = regions[to].p + region_size / 2 + i * 100;
		memset(regions[from].model + at, from + 1, sizes[i]);
		memset(regions[to].model + region_size / 2 + i * 100, from + 1, sizes[i]);
	}
	for (enum kind k = 0; k < KINDS; k++)
		put(regions[k].p, regions[k].model, region_size / 2);
	/* What overlaps of sources made is what is copied. */
	for (unsigned int i = 0; i < N; i++) {
		enum kind from = i % KINDS, to = i / KINDS % KINDS;
		size_t at = i * 97 % (region_size / 2 - 128);

		memcpy(regions[to].model + region_size / 2 + i * 100, regions[from].model + at,
		       sizes[i]);
	}
	for (int order = STREAM_ORDER; order <= ANY_ORDER; order++) {
		CUmemcpyAttributes attr = how(order);

		for (enum kind k = 0; k < KINDS; k++)
			poke(regions[k].p + region_size / 2, 0, region_size - region_size / 2);
		ASSERT_CU(cuMemcpyBatchAsync(dsts, srcs, sizes, N, &attr, &zero, 1, self->s));
		ASSERT_CU(cuStreamSynchronize(self->s));
		EXPECT_TRUE(all_as_modelled());
	}
}

/* --- what is refused */

TEST_F(batch, refusals)
{
	CUdeviceptr a = regions[DEVICE].p, b = regions[POOL].p;
	CUdeviceptr freed;
	CUdeviceptr dsts[] = { b, b + 1000, b + 2000 }, srcs[] = { a, a + 1000, a + 2000 };
	size_t sizes[] = { 100, 100, 100 }, indices[] = { 0, 1, 2 }, fail;
	CUmemcpyAttributes attrs[3] = { how(STREAM_ORDER), how(DURING_CALL), how(ANY_ORDER) };
	CUstream dead;

	poke(a, 4, 3000);
#define BAD(index, n, nattrs, stream)							\
	do {										\
		fail = 4711;								\
		EXPECT_EQ(INVALID, self->linear(dsts, srcs, sizes, n, attrs, indices, nattrs, \
						&fail, stream));			\
		EXPECT_EQ((size_t)(index), fail);					\
		EXPECT_EQ(INVALID, self->linear(dsts, srcs, sizes, n, attrs, indices, nattrs, \
						NULL, stream));				\
	} while (0)
	BAD(SIZE_MAX, 0, 1, self->s);
	BAD(SIZE_MAX, 3, 0, self->s);
	BAD(SIZE_MAX, 2, 3, self->s);
	BAD(SIZE_MAX, 3, 3, NULL);
	BAD(SIZE_MAX, 3, 3, CU_STREAM_LEGACY);
	indices[0] = 1;
	BAD(SIZE_MAX, 3, 1, self->s);
	indices[0] = 0;
	indices[2] = 1;
	BAD(SIZE_MAX, 3, 3, self->s);
	indices[2] = 3;
	BAD(SIZE_MAX, 3, 3, self->s);
	indices[2] = 2;
	for (int order = 0; order < 6; order += order == 0 ? 4 : 1) {
		attrs[2].srcAccessOrder = order;
		BAD(SIZE_MAX, 3, 3, self->s);
	}
	attrs[2] = how(ANY_ORDER);
	attrs[2].flags = 2;
	BAD(SIZE_MAX, 3, 3, self->s);
	attrs[2].flags = 1;
	attrs[1].dstLocHint.type = 5;
	BAD(SIZE_MAX, 3, 3, self->s);
	attrs[1].dstLocHint.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
	sizes[1] = 0;
	BAD(1, 3, 3, self->s);
	sizes[1] = 100;
	dsts[2] = 0;
	BAD(2, 3, 3, self->s);
	dsts[2] = b + region_size - 99;
	BAD(2, 3, 3, self->s);
	dsts[2] = b + 2000;
	srcs[0] = 0;
	BAD(0, 3, 3, self->s);
	srcs[0] = a + region_size - 99;
	BAD(0, 3, 3, self->s);
	/* Registered memory at one end of which there is pageable memory. */
	srcs[0] = regions[REGISTERED].p + region_size - 99;
	BAD(0, 3, 3, self->s);
	ASSERT_CU(cuMemAlloc(&freed, 4 * MIB));
	ASSERT_CU(cuMemFree(freed));
	srcs[0] = freed;
	BAD(0, 3, 3, self->s);
	srcs[0] = a;
	EXPECT_EQ(INVALID, self->linear(NULL, srcs, sizes, 3, attrs, indices, 3, &fail, self->s));
	EXPECT_EQ(INVALID, self->linear(dsts, NULL, sizes, 3, attrs, indices, 3, &fail, self->s));
	EXPECT_EQ(INVALID, self->linear(dsts, srcs, NULL, 3, attrs, indices, 3, &fail, self->s));
	EXPECT_EQ(INVALID, self->linear(dsts, srcs, sizes, 3, NULL, indices, 3, &fail, self->s));
	EXPECT_EQ(INVALID, self->linear(dsts, srcs, sizes, 3, attrs, NULL, 3, &fail, self->s));
	ASSERT_CU(cuStreamCreate(&dead, 0));
	ASSERT_CU(cuStreamDestroy(dead));
	EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE,
		  cuMemcpyBatchAsync(dsts, srcs, sizes, 3, attrs, indices, 3, dead));
	ASSERT_CU(cuCtxSetCurrent(NULL));
	BAD(SIZE_MAX, 3, 3, self->s);
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	/* Nothing has been copied; now it is. */
	ASSERT_CU(cuStreamSynchronize(self->s));
	EXPECT_TRUE(sees(b, 0, 3000));
	fail = 4711;
	EXPECT_CU(self->linear(dsts, srcs, sizes, 3, attrs, indices, 3, &fail,
			       CU_STREAM_PER_THREAD));
	EXPECT_CU(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	EXPECT_EQ(4711, fail);
	for (int i = 0; i < 3; i++) {
		EXPECT_TRUE(sees(b + i * 1000, 4, 100));
		EXPECT_TRUE(sees(b + i * 1000 + 100, 0, 900));
	}
}

TEST_F(batch, refusals_of_boxes)
{
	CUdeviceptr a = regions[DEVICE].p, b = regions[PEER].p;
	CUDA_MEMCPY3D_BATCH_OP ops[2], *op = &ops[1];
	size_t fail;

	poke(a, 4, 30000);
	ops[0] = box(b, a, 100, 10, 3);
#define BOX(index, change)								\
	do {										\
		*op = box(b + 10000, a + 10000, 100, 10, 3);				\
		change;									\
		fail = 4711;								\
		EXPECT_EQ(INVALID, self->boxes(2, ops, &fail, 0, self->s)) {		\
			TH_LOG("%s", #change);						\
		}									\
		EXPECT_EQ((size_t)(index), fail);					\
	} while (0)
	BOX(1, op->extent.width = 0);
	BOX(1, op->extent.height = 0);
	BOX(1, op->extent.depth = 0);
	BOX(1, op->extent.depth = 1ULL << 62);
	BOX(1, op->extent.width = ~0ULL);
	BOX(1, op->src.type = 0);
	BOX(1, op->dst.type = 3);
	BOX(1, op->src.op.ptr.ptr = 0);
	BOX(1, op->dst.op.ptr.ptr = 0);
	BOX(1, op->src.op.ptr.rowLength = 99);
	BOX(1, op->dst.op.ptr.layerHeight = 9);
	BOX(1, op->dst.op.ptr.rowLength = 1ULL << 60);
	BOX(1, (op->dst.op.ptr.rowLength = 1ULL << 32, op->dst.op.ptr.layerHeight = 1ULL << 32));
	BOX(1, op->srcAccessOrder = 0);
	BOX(1, op->srcAccessOrder = 4);
	BOX(1, op->flags = 2);
	BOX(1, op->src.op.ptr.locHint.type = 77);
	BOX(1, op->src.op.ptr.ptr = a + region_size - 2999);
	BOX(0, ops[0].extent.width = 0);
	ops[0] = box(b, a, 100, 10, 3);
	*op = box(b + 10000, a + 10000, 100, 10, 3);
	fail = 4711;
	EXPECT_EQ(INVALID, self->boxes(0, ops, &fail, 0, self->s));
	EXPECT_EQ(SIZE_MAX, fail);
	EXPECT_EQ(INVALID, self->boxes(2, NULL, &fail, 0, self->s));
	EXPECT_EQ(INVALID, self->boxes(2, ops, &fail, 1, self->s));
	EXPECT_EQ(INVALID, self->boxes(2, ops, &fail, 0, NULL));
	EXPECT_EQ(INVALID, self->boxes(2, ops, &fail, 0, CU_STREAM_LEGACY));
	ASSERT_CU(cuCtxSynchronize());
	EXPECT_TRUE(sees(b, 0, 30000));
	/* One byte less than what was too much. */
	op->src.op.ptr.ptr = a + region_size - 3000;
	EXPECT_CU(cuMemcpy3DBatchAsync(2, ops, 0, self->s));
	EXPECT_CU(cuStreamSynchronize(self->s));
	EXPECT_TRUE(sees(b, 4, 3000));
}

/* Arrays count in elements; their memory is like any other. */
TEST_F(batch, arrays)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = {
		.Width = 20, .Height = 10, .Depth = 4, .Format = CU_AD_FORMAT_UNSIGNED_INT16,
		.NumChannels = 2,
	};
	CUDA_ARRAY3D_DESCRIPTOR bytes = {
		.Width = 80, .Height = 10, .Depth = 4, .Format = CU_AD_FORMAT_UNSIGNED_INT8,
		.NumChannels = 1,
	};
	unsigned char *text = malloc(3200), *want = malloc(3200);
	CUDA_MEMCPY3D_BATCH_OP up, across, down, op;
	CUarray a, b, c;
	size_t fail;

	ASSERT_CU(cuArray3DCreate(&a, &desc));
	ASSERT_CU(cuArray3DCreate(&b, &desc));
	ASSERT_CU(cuArray3DCreate(&c, &bytes));
	for (int i = 0; i < 3200; i++)
		text[i] = i * 31 >> 3;
	up = across = down = box(regions[POOL].p, 0, 20, 10, 4);
	memset(&up.dst, 0, sizeof(up.dst));
	up.dst.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
	up.dst.op.array.array = a;
	across.dst = across.src = up.dst;
	across.dst.op.array.array = b;
	down.src = across.dst;
	for (int order = STREAM_ORDER; order <= ANY_ORDER; order++)
		for (enum kind k = 0; k < KINDS; k++) {
			up.src = box(0, regions[k].p, 1, 1, 1).src;
			up.srcAccessOrder = order;
			poke(regions[POOL].p, 0, 3200);
			put(regions[k].p, text, 3200);
			memcpy(want, text, 3200);
			ASSERT_CU(gate_close(self));
			ASSERT_CU(cuMemcpy3DBatchAsync(1, &up, 0, self->s));
			ASSERT_CU(cuMemcpy3DBatchAsync(1, &across, 0, self->s));
			ASSERT_CU(cuMemcpy3DBatchAsync(1, &down, 0, self->s));
			if (order != ANY_ORDER)
				poke(regions[k].p, 0x77, 3200);
			if (order == STREAM_ORDER)
				memset(want, 0x77, 3200);
			ASSERT_CU(gate_open(self));
			EXPECT_EQ(0, memcmp(view(regions[POOL].p, 3200), want, 3200)) {
				TH_LOG("order %d, kind %d", order, k);
			}
		}
	/* A part of it, from an address whose rows are 16 elements apart. */
	op = up;
	op.src = box(0, regions[PINNED].p, 1, 1, 1).src;
	op.src.op.ptr.rowLength = 16;
	op.src.op.ptr.layerHeight = 5;
	op.extent = (CUextent3D) { 10, 4, 2 };
	op.dst.op.array.offset = (CUoffset3D) { 5, 2, 1 };
	put(regions[PINNED].p, text, 3200);
	for (int z = 0; z < 2; z++)
		for (int y = 0; y < 4; y++)
			memcpy(want + ((z + 1) * 10 + y + 2) * 80 + 20, text + (z * 5 + y) * 64, 40);
	ASSERT_CU(cuMemcpy3DBatchAsync(1, &across, 0, self->s));
	down.src.op.array.array = a;
	ASSERT_CU(cuMemcpy3DBatchAsync(1, &op, 0, self->s));
	ASSERT_CU(cuMemcpy3DBatchAsync(1, &down, 0, self->s));
	ASSERT_CU(cuStreamSynchronize(self->s));
	EXPECT_EQ(0, memcmp(view(regions[POOL].p, 3200), want, 3200));
	/* Beyond the end, no array, elements of another size. */
#define ARRAY(result, change)								\
	do {										\
		op = across;								\
		op.extent = (CUextent3D) { 10, 4, 2 };					\
		change;									\
		fail = 4711;								\
		EXPECT_EQ(result, self->boxes(1, &op, &fail, 0, self->s)) {		\
			TH_LOG("%s", #change);						\
		}									\
		EXPECT_EQ(0, fail);							\
	} while (0)
	ARRAY(INVALID, op.dst.op.array.offset.x = 11);
	ARRAY(INVALID, op.dst.op.array.offset.x = ~0UL / 2);
	ARRAY(INVALID, op.src.op.array.offset.y = 7);
	ARRAY(INVALID, op.src.op.array.offset.z = 3);
	ARRAY(INVALID, op.extent.width = ~0UL / 2);
	ARRAY(INVALID, op.src.op.array.array = NULL);
	ARRAY(INVALID, op.dst.op.array.array = c);
	EXPECT_CU(cuArrayDestroy(c));
	ARRAY(CUDA_ERROR_INVALID_HANDLE, op.dst.op.array.array = c);
	EXPECT_CU(cuArrayDestroy(a));
	EXPECT_CU(cuArrayDestroy(b));
	free(text);
	free(want);
}

/* Overlapping ends behave like memmove(), however early the source is to be read. */
TEST_F(batch, overlapping)
{
	CUdeviceptr p = regions[DEVICE].p;
	unsigned char *want = malloc(MIB);

	for (int up = 0; up < 2; up++)
		for (int order = STREAM_ORDER; order <= ANY_ORDER; order++) {
			CUdeviceptr dst = p + (up ? 1000 : 0), src = p + (up ? 0 : 1000);
			size_t n = MIB - 1000, zero = 0;
			CUmemcpyAttributes attr = how(order);

			for (size_t i = 0; i < MIB; i++)
				want[i] = i * 2654435761ULL >> 13;
			put(p, want, MIB);
			memmove(want + (dst - p), want + (src - p), n);
			ASSERT_CU(cuMemcpyBatchAsync(&dst, &src, &n, 1, &attr, &zero, 1, self->s));
			ASSERT_CU(cuStreamSynchronize(self->s));
			EXPECT_EQ(0, memcmp(want, view(p, MIB), MIB));
		}
	free(want);
}

int main(int argc, char **argv)
{
	return test_harness_run(argc, argv);
}
