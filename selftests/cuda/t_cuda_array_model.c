// SPDX-License-Identifier: GPL-2.0
/*
 * Copies from, to and between arrays by the CUDA API, compared with a model: random arrays (format,
 * shape, levels, planes), random boxes, every form of copy that an array can take part in, with
 * host memory, device memory, other arrays and the array itself on the other side.
 *
 * The model of an array is its elements in dense memory, slice by slice and row by row.  After each
 * copy the whole destination is read back.  Copies go to the legacy stream and a blocking one,
 * which execute in the order of the calls.  Some boxes reach beyond their source or destination;
 * these copies must be refused and change nothing.
 *
 * GPUMEM_SEED, GPUMEM_STEPS: seed, and twenty times the number of copies (default: 20000).
 */
#include "kselftest_harness.h"
#include "cuda_util.h"
#include "array_util.h"

#define PLACES	12
#define LARGEST	(96 * KIB)		/* dense bytes of an array */

/* Something that can be copied from and to. */
struct place {
	enum { HOST, DEVICE, ARRAY } kind;
	unsigned char *host;
	CUdeviceptr device;
	CUarray array, whole;		/* @whole: to destroy, unless there is @mipmap */
	CUmipmappedArray mipmap;
	size_t row, rows, slices;	/* of an array; else all bytes are one row */
	unsigned int grain;		/* the bytes of a block, or 1 */
	unsigned int element;		/* bytes of an array's element; 0: blocks, or memory */
	unsigned char *model;
};

struct random {
	struct rng rng;
	CUstream stream;
	struct place places[PLACES];
	unsigned char *scratch, *seen;
	unsigned int form;
	__u64 refused, copied;
};

enum form {
	LINEAR, LINEAR_ASYNC, TWO, TWO_UNALIGNED, TWO_ASYNC, THREE, THREE_ASYNC, PEER, PEER_ASYNC,
	BATCH, FORMS,
};

/* --- places */

static size_t bytes_of(const struct place *p)
{
	return p->row * p->rows * p->slices;
}

static void place_free(struct place *p)
{
	if (p->mipmap)
		cuMipmappedArrayDestroy(p->mipmap);
	else if (p->whole)
		cuArrayDestroy(p->whole);
	free(p->model);
	p->model = NULL;
}

static CUresult random_descriptor(struct random *x, CUDA_ARRAY3D_DESCRIPTOR *d,
				  const struct format **format)
{
	const struct format *f = &formats[rng_below(&x->rng, ARRAY_SIZE(formats))];
	static const unsigned int useless[] = { 0, SURFACE, VIDEO, 1u << 31 };
	bool flat = is_video(f) || is_blocks(f);
	unsigned int shape = rng_below(&x->rng, 7);

	*format = f;
	d->Format = f->format;
	d->NumChannels = f->channels[rng_below(&x->rng, strlen(f->channels))] - '0';
	d->Flags = is_video(f) ? VIDEO : useless[rng_below(&x->rng, 4)];
	if (is_blocks(f))
		d->Flags &= ~SURFACE;
	d->Width = 1 + rng_below(&x->rng, rng_below(&x->rng, 2) ? 40 : 100);
	d->Height = 1 + rng_below(&x->rng, 30);
	d->Depth = 0;
	if (is_video(f)) {
		d->Width += d->Width % 2;
		d->Height += d->Height % 2;
		shape = shape < 4 ? 1 : 4;
	} else if (flat && (shape == 0 || shape == 3)) {
		shape = 1;
	}
	switch (shape) {
	case 0:
		d->Height = 0;
		break;
	case 1:
		break;
	case 2:
		d->Depth = 1 + rng_below(&x->rng, 6);
		break;
	case 3:
		d->Height = 0;
		d->Depth = 1 + rng_below(&x->rng, 6);
		d->Flags |= LAYERED;
		break;
	case 4:
		d->Depth = 1 + rng_below(&x->rng, 6);
		d->Flags |= LAYERED;
		break;
	case 5:
		d->Height = d->Width = 1 + d->Width % 16;
		d->Depth = 6;
		d->Flags |= CUBEMAP;
		break;
	case 6:
		d->Height = d->Width = 1 + d->Width % 12;
		d->Depth = 12;
		d->Flags |= CUBEMAP | LAYERED;
		break;
	}
	return CUDA_SUCCESS;
}

/* A new array, plane or level, all zero. */
static CUresult place_array(struct random *x, struct place *p)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { 0 };
	const struct format *f;
	unsigned int block, part;
	CUresult result;

	*p = (struct place){ .kind = ARRAY };
	do {
		random_descriptor(x, &d, &f);
	} while (d.Width * (d.Height + 1) * (d.Depth + 1) * 16 > LARGEST);
	if (!is_video(f) && !rng_below(&x->rng, 3)) {
		unsigned int levels = 1 + rng_below(&x->rng, 4);

		result = cuMipmappedArrayCreate(&p->mipmap, &d, levels);
		for (part = rng_below(&x->rng, levels); !result; part--)
			if (!cuMipmappedArrayGetLevel(&p->array, p->mipmap, part))
				break;
	} else {
		result = cuArray3DCreate(&p->whole, &d);
		p->array = p->whole;
		part = rng_below(&x->rng, 3);
		if (!result && is_planar(f))
			while (cuArrayGetPlane(&p->array, p->whole, part))
				part--;
	}
	if (!result)
		result = cuArray3DGetDescriptor(&d, p->array);
	if (result)
		return result;
	block = is_blocks(f) ? 4 : 1;
	p->element = is_planar(f) ? f->bytes * d.NumChannels : unit_of(f, d.NumChannels);
	p->row = (d.Width + block - 1) / block * p->element;
	if (block > 1)
		p->element = 0;
	p->rows = d.Height ? (d.Height + block - 1) / block : 1;
	p->slices = d.Depth ? d.Depth : 1;
	p->grain = block > 1 ? f->bytes : 1;
	p->model = calloc(1, bytes_of(p));
	return p->model ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult place_memory(struct place *p, bool host)
{
	*p = (struct place){
		.kind = host ? HOST : DEVICE, .row = 2 * LARGEST, .rows = 1, .slices = 1, .grain = 1,
		.model = calloc(1, 2 * LARGEST),
	};
	if (!host)
		return cuMemAlloc(&p->device, p->row) ?: cuMemsetD8(p->device, 0, p->row);
	p->host = calloc(1, p->row);
	return CUDA_SUCCESS;
}

static CUresult random_make(struct random *x)
{
	CUresult result = cuStreamCreate(&x->stream, CU_STREAM_DEFAULT);

	x->scratch = malloc(2 * LARGEST);
	x->seen = malloc(2 * LARGEST);
	for (unsigned int i = 0; !result && i < PLACES; i++)
		result = i < 4 ? place_memory(&x->places[i], i < 2) :
			place_array(x, &x->places[i]);
	return result;
}

/* Whether a place holds the bytes that its model holds. */
static bool place_right(struct random *x, const struct place *p)
{
	const unsigned char *seen = x->seen;
	size_t i = 0;

	if (p->kind == HOST)
		seen = p->host;
	else if (p->kind == DEVICE ? cuMemcpyDtoH(x->seen, p->device, p->row) :
		 read_box(x->seen, p->array, 0, 0, 0, p->row, p->rows, p->slices))
		return false;
	if (!memcmp(seen, p->model, bytes_of(p)))
		return true;
	while (seen[i] == p->model[i])
		i++;
	fprintf(stderr, "# place %d, %zu x %zu x %zu bytes: %02x at %zu, not %02x\n",
		(int)(p - x->places), p->row, p->rows, p->slices, seen[i], i, p->model[i]);
	return false;
}

/* --- boxes */

struct region {
	size_t x, y, z;
	size_t pitch, height;		/* of memory */
};

struct extent {
	size_t w, h, d;
};

static size_t at(const struct place *p, const struct region *r, size_t y, size_t z)
{
	if (p->kind == ARRAY)
		return ((r->z + z) * p->rows + r->y + y) * p->row + r->x;
	return ((r->z + z) * r->height + r->y + y) * r->pitch + r->x;
}

/* Copy in the model: all bytes are read before any is written. */
static void model_copy(struct random *x, struct place *d, const struct region *dr,
		       const struct place *s, const struct region *sr, const struct extent *e)
{
	for (size_t z = 0; z < e->d; z++)
		for (size_t y = 0; y < e->h; y++)
			memcpy(x->scratch + (z * e->h + y) * e->w, s->model + at(s, sr, y, z), e->w);
	for (size_t z = 0; z < e->d; z++)
		for (size_t y = 0; y < e->h; y++)
			memcpy(d->model + at(d, dr, y, z), x->scratch + (z * e->h + y) * e->w, e->w);
}

/* Limit an extent to that of a place. */
static void narrow(const struct place *p, struct extent *e)
{
	if (p->kind != ARRAY)
		return;
	e->w = e->w < p->row ? e->w : p->row;
	e->h = e->h < p->rows ? e->h : p->rows;
	e->d = e->d < p->slices ? e->d : p->slices;
}

static void locate(struct random *x, const struct place *p, const struct extent *e,
		   struct region *r, unsigned int grain)
{
	if (p->kind == ARRAY) {
		r->x = rng_below(&x->rng, p->row - e->w + 1) / grain * grain;
		r->y = rng_below(&x->rng, p->rows - e->h + 1);
		r->z = rng_below(&x->rng, p->slices - e->d + 1);
		return;
	}
	if (x->form == BATCH) {
		*r = (struct region){
			.x = rng_below(&x->rng, 8),
			.pitch = e->w + grain * rng_below(&x->rng, 3),
			.height = e->h + rng_below(&x->rng, 2),
		};
		if (r->x + e->d * r->height * r->pitch > p->row)
			*r = (struct region){ .pitch = e->w, .height = e->h };
		return;
	}
	/* Memory is twice as large as any array, so pitch and height may exceed the box. */
	r->x = rng_below(&x->rng, 8);
	r->pitch = e->w + r->x + rng_below(&x->rng, 8);
	r->y = rng_below(&x->rng, 2);
	r->height = e->h + r->y + rng_below(&x->rng, 2);
	r->z = rng_below(&x->rng, 2);
	if ((r->z + e->d) * r->height * r->pitch > p->row)
		*r = (struct region){ .pitch = e->w, .height = e->h };
}

static void source(CUDA_MEMCPY3D *c, const struct place *p, const struct region *r, bool unified)
{
	c->srcMemoryType = p->kind == ARRAY ? CU_MEMORYTYPE_ARRAY : unified ? CU_MEMORYTYPE_UNIFIED :
		p->kind == HOST ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
	c->srcArray = p->array;
	c->srcHost = unified ? NULL : p->host;
	c->srcDevice = p->kind == HOST ? (uintptr_t)p->host : p->device;
	/* An array's pitch and height are ignored. */
	c->srcPitch = p->kind == ARRAY ? 1 : r->pitch;
	c->srcHeight = p->kind == ARRAY ? 1 : r->height;
	c->srcXInBytes = r->x;
	c->srcY = r->y;
	c->srcZ = r->z;
}

static void destination(CUDA_MEMCPY3D *c, const struct place *p, const struct region *r,
			bool unified)
{
	c->dstMemoryType = p->kind == ARRAY ? CU_MEMORYTYPE_ARRAY : unified ? CU_MEMORYTYPE_UNIFIED :
		p->kind == HOST ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
	c->dstArray = p->array;
	c->dstHost = unified ? NULL : p->host;
	c->dstDevice = p->kind == HOST ? (uintptr_t)p->host : p->device;
	c->dstPitch = p->kind == ARRAY ? 1 : r->pitch;
	c->dstHeight = p->kind == ARRAY ? 1 : r->height;
	c->dstXInBytes = r->x;
	c->dstY = r->y;
	c->dstZ = r->z;
}

static CUresult copy_flat(struct random *x, const CUDA_MEMCPY3D *c, CUstream stream)
{
	CUDA_MEMCPY2D f = {
		.srcMemoryType = c->srcMemoryType, .srcHost = c->srcHost, .srcDevice = c->srcDevice,
		.srcArray = c->srcArray, .srcPitch = c->srcPitch, .srcXInBytes = c->srcXInBytes,
		.srcY = c->srcY,
		.dstMemoryType = c->dstMemoryType, .dstHost = c->dstHost, .dstDevice = c->dstDevice,
		.dstArray = c->dstArray, .dstPitch = c->dstPitch, .dstXInBytes = c->dstXInBytes,
		.dstY = c->dstY,
		.WidthInBytes = c->WidthInBytes, .Height = c->Height,
	};

	switch (x->form) {
	case TWO:
		return cuMemcpy2D(&f);
	case TWO_UNALIGNED:
		return cuMemcpy2DUnaligned(&f);
	default:
		return cuMemcpy2DAsync(&f, stream);
	}
}

static CUresult copy_deep(struct random *x, const CUDA_MEMCPY3D *c, CUstream stream)
{
	CUDA_MEMCPY3D_PEER peer;

	memcpy(&peer, c, sizeof(peer));
	switch (x->form) {
	case THREE:
		return cuMemcpy3D(c);
	case THREE_ASYNC:
		return cuMemcpy3DAsync(c, stream);
	case PEER:
		return cuMemcpy3DPeer(&peer);
	default:
		return cuMemcpy3DPeerAsync(&peer, stream);
	}
}

/* A batch counts in elements, for memory in elements of the array on the other side. */
static void operand(CUmemcpy3DOperand *o, const struct place *p, const struct region *r,
		    unsigned int element)
{
	if (p->kind == ARRAY) {
		o->type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
		o->op.array.array = p->array;
		o->op.array.offset.x = r->x / element;
		o->op.array.offset.y = r->y;
		o->op.array.offset.z = r->z;
		return;
	}
	o->type = CU_MEMCPY_OPERAND_TYPE_POINTER;
	o->op.ptr.ptr = (p->kind == HOST ? (uintptr_t)p->host : p->device) + r->x;
	o->op.ptr.rowLength = r->pitch / element;
	o->op.ptr.layerHeight = r->height;
}

static CUresult copy_batch(struct random *x, const struct place *d, const struct region *dr,
			   const struct place *s, const struct region *sr, const struct extent *e)
{
	unsigned int element = d->kind == ARRAY ? d->element : s->element;
	CUDA_MEMCPY3D_BATCH_OP op = {
		.extent = { e->w / element, e->h, e->d },
		.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM + rng_below(&x->rng, 3),
	};

	operand(&op.dst, d, dr, element);
	operand(&op.src, s, sr, element);
	return cuMemcpy3DBatchAsync(1, &op, 0, x->stream);
}

/* The element that a batch may count in, or 0. */
static unsigned int common_element(const struct place *d, const struct place *s)
{
	if (d->kind == ARRAY && s->kind == ARRAY && d->element != s->element)
		return 0;
	return d->kind == ARRAY ? d->element : s->element;
}

static CUresult copy_line(struct random *x, const struct place *d, const struct region *dr,
			  const struct place *s, const struct region *sr, size_t n, CUstream stream)
{
	bool async = x->form == LINEAR_ASYNC;

	if (d->kind == ARRAY && s->kind == ARRAY)
		return cuMemcpyAtoA(d->array, dr->x, s->array, sr->x, n);
	if (d->kind == DEVICE)
		return cuMemcpyAtoD(d->device + dr->x, s->array, sr->x, n);
	if (s->kind == DEVICE)
		return cuMemcpyDtoA(d->array, dr->x, s->device + sr->x, n);
	if (d->kind == HOST)
		return async ? cuMemcpyAtoHAsync(d->host + dr->x, s->array, sr->x, n, stream) :
			cuMemcpyAtoH(d->host + dr->x, s->array, sr->x, n);
	return async ? cuMemcpyHtoAAsync(d->array, dr->x, s->host + sr->x, n, stream) :
		cuMemcpyHtoA(d->array, dr->x, s->host + sr->x, n);
}

static CUresult copy(struct random *x, const struct place *d, const struct region *dr,
		     const struct place *s, const struct region *sr, const struct extent *e)
{
	CUstream stream = rng_below(&x->rng, 2) ? x->stream : NULL;
	CUDA_MEMCPY3D c = { .WidthInBytes = e->w, .Height = e->h, .Depth = e->d };

	source(&c, s, sr, rng_below(&x->rng, 2));
	destination(&c, d, dr, rng_below(&x->rng, 2));
	if (x->form == BATCH)
		return copy_batch(x, d, dr, s, sr, e);
	if (x->form <= LINEAR_ASYNC)
		return copy_line(x, d, dr, s, sr, e->w, stream);
	return x->form <= TWO_ASYNC ? copy_flat(x, &c, stream) : copy_deep(x, &c, stream);
}

/* Reach beyond an array in one direction. */
static void exceed(struct random *x, const struct place *p, struct region *r, struct extent *e,
		   unsigned int grain)
{
	unsigned int way = rng_below(&x->rng, x->form <= LINEAR_ASYNC ? 2 : x->form <= TWO_ASYNC ?
				     4 : 6);

	switch (way) {
	case 0:
		r->x = p->row - e->w + grain;
		break;
	case 1:
		r->x = p->row;
		break;
	case 2:
		r->y = p->rows - e->h + 1;
		break;
	case 3:
		r->y = -1ULL;
		break;
	case 4:
		r->z = p->slices - e->d + 1;
		break;
	case 5:
		r->z = p->slices;
		break;
	}
}

static bool step(struct random *x)
{
	unsigned int a = 4 + rng_below(&x->rng, PLACES - 4), b = rng_below(&x->rng, PLACES + 4);
	struct place *d = &x->places[a], *s = &x->places[b < PLACES ? b : a], *swap;
	unsigned int grain = 1;
	struct region dr = { 0 }, sr = { 0 };
	struct extent e = { LARGEST, LARGEST, LARGEST };
	CUresult result;

	if (rng_below(&x->rng, 2)) {
		swap = d;
		d = s;
		s = swap;
	}
	grain = d->grain > s->grain ? d->grain : s->grain;
	x->form = rng_below(&x->rng, FORMS);
	if (x->form == BATCH) {
		grain = common_element(d, s);
		if (!grain) {
			x->form = THREE;
			grain = d->grain > s->grain ? d->grain : s->grain;
		}
	}
	narrow(d, &e);
	narrow(s, &e);
	if (x->form <= TWO_ASYNC)
		e.d = 1;
	if (x->form <= LINEAR_ASYNC)
		e.h = 1;
	/* A narrow array may be narrower than a block of the other array. */
	if (e.w < grain)
		return true;
	e.w = grain * (1 + rng_below(&x->rng, e.w / grain));
	e.h = 1 + rng_below(&x->rng, e.h);
	e.d = 1 + rng_below(&x->rng, e.d);
	locate(x, d, &e, &dr, x->form == BATCH ? grain : d->grain);
	locate(x, s, &e, &sr, x->form == BATCH ? grain : s->grain);
	if (x->form <= LINEAR_ASYNC)
		dr.y = sr.y = 0;
	if (x->form <= TWO_ASYNC)
		dr.z = sr.z = 0;
	if (!rng_below(&x->rng, 12)) {
		struct place *p = d->kind == ARRAY ? d : s;

		exceed(x, p, p == d ? &dr : &sr, &e, x->form == BATCH ? grain : p->grain);
		x->refused++;
		return copy(x, d, &dr, s, &sr, &e) == INVALID && place_right(x, d);
	}
	result = copy(x, d, &dr, s, &sr, &e);
	model_copy(x, d, &dr, s, &sr, &e);
	x->copied++;
	if (result)
		fprintf(stderr, "# copy: %d\n", result);
	return !result && place_right(x, d);
}

CONTEXT_FIXTURE(model)

TEST_F_TIMEOUT(model, against_a_model, 1800)
{
	__u64 steps = env_number("GPUMEM_STEPS", 20000) / 20;
	static struct random x;

	rng_start(&x.rng, "arrays");
	ASSERT_CU(random_make(&x));
	/* Something to copy: noise. */
	rng_fill(&x.rng, x.places[0].host, x.places[0].row);
	memcpy(x.places[0].model, x.places[0].host, x.places[0].row);
	for (__u64 i = 0; i < steps; i++) {
		struct place *p = &x.places[4 + rng_below(&x.rng, PLACES - 4)];

		ASSERT_TRUE(step(&x)) {
			TH_LOG("step %llu, form %u", (unsigned long long)i, x.form);
		}
		if (rng_below(&x.rng, 32))
			continue;
		place_free(p);
		ASSERT_CU(place_array(&x, p));
		/* The memory is zero, whichever owner had it before. */
		ASSERT_TRUE(place_right(&x, p));
	}
	for (unsigned int i = 0; i < PLACES; i++)
		ASSERT_TRUE(place_right(&x, &x.places[i]));
	EXPECT_LT(steps / 2, x.copied);
	for (unsigned int i = 4; i < PLACES; i++)
		place_free(&x.places[i]);
	for (unsigned int i = 2; i < 4; i++)
		EXPECT_CU(cuMemFree(x.places[i].device));
}

TEST_HARNESS_MAIN
