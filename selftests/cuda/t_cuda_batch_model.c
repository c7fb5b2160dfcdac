// SPDX-License-Identifier: GPL-2.0
/*
 * Random batches of copies against a model.
 *
 * The model holds what every byte of eight kinds of memory must be: device memory of two devices,
 * of a pool and exported, pinned, registered and pageable memory.  Memory consists of slots with
 * gaps between them; a batch takes each slot as a source or once as a destination, so that its
 * copies do not depend on each other.  A third of the batches are submitted to a stream that a word
 * of memory holds back.  After the call the test overwrites sources: a copy whose source is read
 * during the call must not show the new bytes; a held copy whose source is read in stream order
 * must.
 *
 * GPUMEM_SEED, GPUMEM_STEPS: seed, and a hundred times the number of batches.
 */
#include "kselftest_harness.h"
#include "batch_fixture.h"

static bool pageable(enum kind kind)
{
	return kind >= PAGEABLE;
}

enum use { UNUSED, SOURCE, DESTINATION };

struct slot_use {
	enum use use;
	CUmemcpySrcAccessOrder order;	/* of the copies that read it */
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

/* Choose the pitch of rows and layers of a box, so that the box fits into @room bytes. */
static void layout(struct random *x, size_t room, size_t w, size_t h, size_t d, size_t *row,
		   size_t *layer)
{
	*row = w + below(x, 20);
	*layer = h + below(x, 3);
	/* Without gaps the box always fits. */
	if (((d - 1) * *layer + h - 1) * *row + w > room) {
		*row = w;
		*layer = h;
	}
}

/* Choose a copy that does not depend on those before it; false if none was found. */
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

/* Perform a copy in the model. */
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

/* Write some of the sources that are read in stream order, in the stream and before the batch. */
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

/* After the call, overwrite sources that it has read, or that a held stream has yet to read. */
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

int main(int argc, char **argv)
{
	return test_harness_run(argc, argv);
}
