/* SPDX-License-Identifier: GPL-2.0 */
/* Fills of one and of two dimensions for t_cuda_property.c. */
#ifndef PROPERTY_FILL_H
#define PROPERTY_FILL_H

/*
 * An integer argument that is narrower than a register takes a whole register, so one function type
 * serves all widths.
 */
typedef CUresult (*fill_fn)(CUdeviceptr, unsigned int, size_t);
typedef CUresult (*fill_async_fn)(CUdeviceptr, unsigned int, size_t, CUstream);
typedef CUresult (*fill_2d_fn)(CUdeviceptr, size_t, unsigned int, size_t, size_t);
typedef CUresult (*fill_2d_async_fn)(CUdeviceptr, size_t, unsigned int, size_t, size_t, CUstream);

static CUresult call_fill(unsigned int form, bool own, CUstream handle, CUdeviceptr dst,
			  unsigned int value, size_t n)
{
	void *f = functions[form][own];

	return is(form, "Async") ? ((fill_async_fn)f)(dst, value, n, handle) :
		((fill_fn)f)(dst, value, n);
}

static CUresult call_fill_2d(unsigned int form, bool own, CUstream handle, CUdeviceptr dst,
			     size_t pitch, unsigned int value, size_t w, size_t h)
{
	void *f = functions[form][own];

	return is(form, "Async") ? ((fill_2d_async_fn)f)(dst, pitch, value, w, h, handle) :
		((fill_2d_fn)f)(dst, pitch, value, w, h);
}

static bool do_fill(unsigned int form)
{
	unsigned int elem = is(form, "32") ? 4 : is(form, "16") ? 2 : 1, value = rnd(1ULL << 32);
	bool two = form >= FIRST_FILL_2D, own, wrong = false;
	struct buffer *d = pick(true);
	size_t skew = -d->ptr & (elem - 1), room, n, h = 1, w, pitch, rows, to, y, i;
	CUresult result;
	int q;

	if (d->size < skew + elem) {
		say("nothing");
		return true;
	}
	if (elem < 4)
		value &= (1u << 8 * elem) - 1;
	room = (d->size - skew) / elem;
	n = some(room);
	if (two)
		h = chance(3) ? 0 : 1 + rnd(12);
	w = h > 1 ? n / h : n;
	pitch = w * elem + (h > 1 ? elem * rnd(30) : 0);
	while (h > 1 && (h - 1) * pitch + w * elem > d->size - skew)
		h--;
	/* The library ignores the pitch of a single row. */
	if (two && h == 1)
		pitch = rnd(3);
	rows = h > 1 ? (h - 1) * pitch : 0;
	to = skew + elem * rnd((d->size - skew - rows - w * elem) / elem + 1);
	if (w && h && chance(3)) {
		if (elem > 1 && chance(50)) {
			/* Not aligned. */
			if (to)
				to--;
			else
				to++;
			wrong = true;
		} else if (d->kind == DEVICE && !two) {
			w = (d->size - to) / elem + 1;
			wrong = true;
		} else if (h > 1) {
			pitch = w * elem - 1;
			wrong = true;
		}
	}
	q = pick_stream(form, &own);
	result = hand_over(d, q);
	if (!expect(CUDA_SUCCESS, result))
		return false;
	say("%s%s %d+%zu value %x pitch %zu %zux%zu stream %d%s", form_names[form],
	    own ? " own" : "", (int)(d - buffers), to, value, pitch, w, h, q,
	    wrong ? " wrong" : "");
	result = two ? call_fill_2d(form, own, handle_of(q, own), d->ptr + to, pitch, value, w, h) :
		call_fill(form, own, handle_of(q, own), d->ptr + to, value, w);
	if (wrong)
		return expect(INVALID, result);
	for (y = 0; !result && y < h; y++)
		for (i = 0; i < w * elem; i++)
			d->model[to + y * pitch + i] = value >> 8 * (i % elem);
	used_by(d, q);
	return expect(CUDA_SUCCESS, result);
}

#endif
