/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Batches of copies for t_cuda_property.c, whose copies (pieces) do not depend on each other, and copies with
 * attributes, which are batches of one piece.
 */
#ifndef PROPERTY_BATCH_H
#define PROPERTY_BATCH_H

#define MOST_PIECES	6

/* One copy of a batch. */
struct piece {
	struct buffer *d, *s;
	size_t w, h, depth;
	/* Offsets in @d and @s; _row: bytes from row to row; _rows: rows from slice to slice. */
	size_t to, to_row, to_rows, from, from_row, from_rows;
	CUmemcpySrcAccessOrder order;
};

static size_t end_of(const struct piece *p, size_t at, size_t row, size_t rows)
{
	return at + ((p->depth - 1) * rows + p->h - 1) * row + p->w;
}

static bool meet(const struct buffer *a, size_t a_at, size_t a_end, const struct buffer *b,
		 size_t b_at, size_t b_end)
{
	return a == b && a_at < b_end && b_at < a_end;
}

/* A piece must not write bytes that another piece reads or writes: a batch has no order. */
static bool collide(const struct piece *p, const struct piece *q)
{
	size_t end = end_of(p, p->to, p->to_row, p->to_rows);

	return meet(p->d, p->to, end, q->s, q->from,
		    end_of(q, q->from, q->from_row, q->from_rows)) ||
	       (p != q && meet(p->d, p->to, end, q->d, q->to,
			       end_of(q, q->to, q->to_row, q->to_rows)));
}

/* Choose a random piece: false if it does not fit into its buffers, or collides with itself. */
static bool make_piece(struct piece *p, bool box)
{
	size_t most, end;

	*p = (struct piece) { .d = pick(false), .s = pick(false), .h = 1, .depth = 1 };
	p->order = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM + rnd(3);
	most = 1 + some(p->d->size < p->s->size ? p->d->size - 1 : p->s->size - 1);
	if (box) {
		p->h = 1 + rnd(12);
		p->depth = 1 + rnd(4);
		most = 1 + most / (p->h * p->depth);
	}
	p->w = most;
	p->to_row = p->w + (box && chance(50) ? rnd(60) : 0);
	p->from_row = p->w + (box && chance(50) ? rnd(60) : 0);
	p->to_rows = p->h + (box && chance(30) ? rnd(3) : 0);
	p->from_rows = p->h + (box && chance(30) ? rnd(3) : 0);
	end = end_of(p, 0, p->to_row, p->to_rows);
	if (end > p->d->size)
		return false;
	p->to = rnd(p->d->size - end + 1);
	end = end_of(p, 0, p->from_row, p->from_rows);
	if (end > p->s->size)
		return false;
	p->from = rnd(p->s->size - end + 1);
	return !collide(p, p);
}

static CUresult call_batch(unsigned int form, bool own, CUstream handle, const struct piece *pieces,
			   unsigned int count)
{
	CUdeviceptr to[MOST_PIECES], from[MOST_PIECES];
	CUmemcpyAttributes attrs[MOST_PIECES] = { 0 };
	size_t sizes[MOST_PIECES], first[MOST_PIECES], runs = 0;

	for (unsigned int i = 0; i < count; i++) {
		to[i] = pieces[i].d->ptr + pieces[i].to;
		from[i] = pieces[i].s->ptr + pieces[i].from;
		sizes[i] = pieces[i].w;
		if (i && pieces[i].order == pieces[i - 1].order)
			continue;
		attrs[runs].srcAccessOrder = pieces[i].order;
		attrs[runs].flags = rnd(2);
		first[runs++] = i;
	}
	if (is(form, "Attributes"))
		return ((CUresult (*)(CUdeviceptr, CUdeviceptr, size_t, CUmemcpyAttributes *, CUstream))
			functions[form][own])(to[0], from[0], sizes[0], attrs, handle);
	return ((CUresult (*)(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *,
			      size_t *, size_t, CUstream))functions[form][own])
		(to, from, sizes, count, attrs, first, runs, handle);
}

static void set_operand(CUmemcpy3DOperand *operand, CUdeviceptr ptr, size_t row, size_t w,
			size_t rows, size_t h)
{
	operand->type = CU_MEMCPY_OPERAND_TYPE_POINTER;
	operand->op.ptr.ptr = ptr;
	operand->op.ptr.rowLength = row == w && chance(30) ? 0 : row;
	operand->op.ptr.layerHeight = rows == h && chance(30) ? 0 : rows;
}

static CUresult call_batch_3d(unsigned int form, bool own, CUstream handle,
			      const struct piece *pieces, unsigned int count)
{
	CUDA_MEMCPY3D_BATCH_OP ops[MOST_PIECES] = { 0 };

	for (unsigned int i = 0; i < count; i++) {
		const struct piece *p = &pieces[i];

		set_operand(&ops[i].dst, p->d->ptr + p->to, p->to_row, p->w, p->to_rows, p->h);
		set_operand(&ops[i].src, p->s->ptr + p->from, p->from_row, p->w, p->from_rows, p->h);
		ops[i].extent.width = p->w;
		ops[i].extent.height = p->h;
		ops[i].extent.depth = p->depth;
		ops[i].srcAccessOrder = p->order;
		ops[i].flags = rnd(2);
	}
	if (is(form, "Attributes"))
		return ((CUresult (*)(CUDA_MEMCPY3D_BATCH_OP *, unsigned long long, CUstream))
			functions[form][own])(ops, 0, handle);
	return ((CUresult (*)(size_t, CUDA_MEMCPY3D_BATCH_OP *, unsigned long long, CUstream))
		functions[form][own])(count, ops, 0, handle);
}

static CUresult hand_over_piece(const struct piece *p, int s)
{
	CUresult result = hand_over(p->d, s);

	if (result || p->s == p->d)
		return result;
	return hand_over(p->s, s);
}

static void model_piece(const struct piece *p)
{
	for (size_t z = 0; z < p->depth; z++)
		for (size_t y = 0; y < p->h; y++)
			memcpy(p->d->model + p->to + (z * p->to_rows + y) * p->to_row,
			       p->s->model + p->from + (z * p->from_rows + y) * p->from_row, p->w);
}

static bool do_batch(unsigned int form)
{
	bool box = is(form, "3D"), alone = is(form, "Attributes"), own, wrong = false;
	unsigned int want = alone ? 1 : 1 + rnd(MOST_PIECES), count = 0, i, j;
	struct piece pieces[MOST_PIECES];
	CUresult result = CUDA_SUCCESS;
	CUstream handle;
	int q = pick_stream(form, &own);

	/*
	 * Batches refuse the legacy stream, and handle 0 also where it means the thread's own. Single copies with
	 * attributes take both.
	 */
	if (q < 2 && !alone && !chance(10))
		q = 2 + rnd(stream_count - 2);
	handle = q == 2 && !alone && chance(90) ? CU_STREAM_PER_THREAD : handle_of(q, own);
	for (i = 0; i < want; i++) {
		struct piece *p = &pieces[count];
		bool good = make_piece(p, box);

		for (j = 0; good && j < count; j++)
			good = !collide(p, &pieces[j]) && !collide(&pieces[j], p);
		count += good;
	}
	if (!count) {
		say("nothing");
		return true;
	}
	for (i = 0; !result && i < count; i++)
		result = hand_over_piece(&pieces[i], q);
	/* A source that may be read before the copy's turn must be idle. */
	for (i = 0; !result && i < count; i++)
		if (pieces[i].order != CU_MEMCPY_SRC_ACCESS_ORDER_STREAM)
			result = settle(pieces[i].s);
	if (!expect(CUDA_SUCCESS, result))
		return false;
	if (chance(3)) {
		struct piece *p = &pieces[rnd(count)];

		wrong = true;
		if (p->d->kind == DEVICE && !box && chance(50) && p->w > 1)
			p->to = p->d->size - p->w + 1;
		else
			p->w = 0;
	}
	wrong |= !alone && (!handle || handle == CU_STREAM_LEGACY);
	say("%s%s %u pieces, %d+%zu %d+%zu %zux%zux%zu order %d ... stream %d%s", form_names[form],
	    own ? " own" : "", count, (int)(pieces[0].d - buffers), pieces[0].to,
	    (int)(pieces[0].s - buffers), pieces[0].from, pieces[0].w, pieces[0].h, pieces[0].depth,
	    pieces[0].order, q, wrong ? " wrong" : "");
	result = box ? call_batch_3d(form, own, handle, pieces, count) :
		call_batch(form, own, handle, pieces, count);
	if (wrong)
		return expect(INVALID, result);
	if (!expect(CUDA_SUCCESS, result))
		return false;
	for (i = 0; i < count; i++) {
		struct piece *p = &pieces[i];

		model_piece(p);
		/* The call waits for copies to pageable memory, but not for copies from it. */
		if (p->d->kind != PAGEABLE)
			p->d->user = q;
		if (p->s->kind != PAGEABLE || p->order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM)
			p->s->user = q;
	}
	return true;
}

#endif
