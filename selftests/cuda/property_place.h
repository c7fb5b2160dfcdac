/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Batches of prefetches and discards of managed memory for t_cuda_property.c.
 *
 * A prefetch changes no byte.  A discard leaves the bytes of its ranges undefined, and no other byte.  So the range
 * is written again, by a fill that is queued behind the discard or by the CPU when the discard is done.
 */
#ifndef PROPERTY_PLACE_H
#define PROPERTY_PLACE_H

#define MOST_RANGES	5

struct range {
	struct buffer *b;
	size_t at, n;
};

static CUresult call_places(unsigned int form, bool own, CUstream handle, const struct range *ranges,
			    unsigned int count, unsigned long long flags)
{
	CUdeviceptr ptrs[MOST_RANGES];
	size_t sizes[MOST_RANGES], first[MOST_RANGES], runs = 0;
	CUmemLocation locations[MOST_RANGES];

	for (unsigned int i = 0; i < count; i++) {
		ptrs[i] = ranges[i].b->ptr + ranges[i].at;
		sizes[i] = ranges[i].n;
		if (i && chance(60))
			continue;
		locations[runs] = (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST };
		if (chance(60))
			locations[runs] = (CUmemLocation){
				.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = rnd(device_count),
			};
		first[runs++] = i;
	}
	if (!is(form, "Prefetch"))
		return ((CUresult (*)(CUdeviceptr *, size_t *, size_t, unsigned long long, CUstream))
			functions[form][own])(ptrs, sizes, count, flags, handle);
	return ((CUresult (*)(CUdeviceptr *, size_t *, size_t, CUmemLocation *, size_t *, size_t,
			      unsigned long long, CUstream))functions[form][own])
		(ptrs, sizes, count, locations, first, runs, flags, handle);
}

/* Write the bytes that a discard in stream @q left undefined. */
static CUresult rewrite(const struct range *r, int q)
{
	unsigned char value = rnd(256);
	CUresult result;

	if (chance(50)) {
		result = settle(r->b);
		if (!result)
			write_to(r->b, r->at, r->n);
		return result;
	}
	/* An earlier range of the same buffer may have settled it. */
	result = cuMemsetD8Async(r->b->ptr + r->at, value, r->n, streams[q].handle);
	if (!result)
		memset(r->b->model + r->at, value, r->n);
	r->b->user = q;
	return result;
}

static bool do_place(unsigned int form)
{
	unsigned int count = 1 + rnd(MOST_RANGES), flags = 0, i;
	struct range ranges[MOST_RANGES];
	bool own, wrong = false;
	CUresult result = CUDA_SUCCESS;
	CUstream handle;
	int q = pick_stream(form, &own);

	/* These refuse the legacy stream.  Unlike batches of copies they take handle 0 for the thread's own. */
	if (q < 2 && !chance(10))
		q = 2 + rnd(stream_count - 2);
	handle = q == 2 && chance(90) ? CU_STREAM_PER_THREAD : handle_of(q, own);
	for (i = 0; i < count; i++) {
		struct range *r = &ranges[i];

		do
			r->b = &buffers[rnd(buffer_count)];
		while (r->b->kind != MANAGED && r->b->kind != MANAGED_POOL);
		r->n = 1 + some(r->b->size - 1);
		r->at = rnd(r->b->size - r->n + 1);
		if (!result)
			result = hand_over(r->b, q);
	}
	if (!expect(CUDA_SUCCESS, result))
		return false;
	if (chance(5)) {
		wrong = true;
		if (chance(30))
			flags = 1;
		else if (chance(50))
			ranges[rnd(count)].n = 0;
		else
			ranges[count - 1] = (struct range){ &buffers[3], 0, 1 };
	}
	wrong |= q < 2;
	say("%s%s %u ranges, %d+%zu %zu ... stream %d%s", form_names[form], own ? " own" : "", count,
	    (int)(ranges[0].b - buffers), ranges[0].at, ranges[0].n, q, wrong ? " wrong" : "");
	result = call_places(form, own, handle, ranges, count, flags);
	if (wrong)
		return expect(INVALID, result);
	if (!expect(CUDA_SUCCESS, result))
		return false;
	for (i = 0; i < count; i++)
		ranges[i].b->user = q;
	for (i = 0; !result && i < count && is(form, "Discard"); i++)
		result = rewrite(&ranges[i], q);
	return expect(CUDA_SUCCESS, result);
}

#endif
