// SPDX-License-Identifier: GPL-2.0
/*
 * Tests every function that copies or fills memory (a form) against a model, in random order.
 * t_cuda_array_model does the same with arrays.
 *
 * There are buffers of every kind of memory: pageable, of each device (small and large, exported),
 * of a pool, of the pools of the host and of managed memory, of another process, of handles that are
 * mapped, external, pinned, registered and managed.  Each has a model in the process's own memory.  A
 * step calls one form with random buffers, offsets, sizes, pitches and stream, and does the same to the
 * models byte by byte.
 * Bytes outside the range must not change, so whole buffers are compared with their models, at
 * random and at the end.  Some steps are wrong on purpose: the library must refuse them and change
 * nothing.
 *
 * Work in different streams has no order by itself.  The program notes the stream that used a
 * buffer last.  Before another stream uses the buffer, the host or that other stream (by an event,
 * by semaphores or by a word's value) waits for the noted stream, unless CUDA orders the two: the
 * legacy stream comes before and after blocking streams and the thread's own stream.  Some steps
 * keep a stream busy, so that operations queue up.
 *
 * Each run prints its seed; GPUMEM_SEED repeats a run.  GPUMEM_STEPS is the number of steps.
 */
#include "kselftest_harness.h"
#include "cuda_util.h"

#define STEPS		20000
#define MAX_BUFFERS	28
#define MAX_STREAMS	9
#define LOG_LINES	24

/* --- random numbers */

static __u64 state;

static __u64 rnd(__u64 below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return below ? (state * 0x2545f4914f6cdd1dULL >> 20) % below : 0;
}

static bool chance(unsigned int percent)
{
	return rnd(100) < percent;
}

/* --- buffers and streams */

enum kind {
	PAGEABLE, DEVICE, POOL, HOST_POOL, MANAGED_POOL, OPENED, MAPPED, EXTERNAL, PINNED,
	REGISTERED, MANAGED, KINDS
};

static const char *const kind_names[KINDS] = {
	"pageable", "device", "pool", "host pool", "managed pool", "opened", "mapped", "external", "pinned",
	"registered", "managed",
};

struct buffer {
	enum kind kind;
	CUdeviceptr ptr;
	unsigned char *mem, *model;
	size_t size;
	int user;		/* the stream that used it last; -1: no work on it is pending */
	int device;
};

enum order { LEGACY, THREAD, BLOCKING, FREE };

struct strm {
	CUstream handle;
	enum order order;
	int same;		/* the first entry that is a handle of the same stream */
};

static struct buffer buffers[MAX_BUFFERS];
static int buffer_count;
static struct strm streams[MAX_STREAMS];
static int stream_count;
static CUcontext contexts[2];
static int device_count;
static CUdeviceptr ballast;
static CUevent event;
static struct peer peer;
static unsigned long counts[64];

static char lines[LOG_LINES][200];
static __u64 step, seed;
static char wrong_how[200];	/* what was wrong first, and the seed */

__attribute__((format(printf, 1, 2)))
static void note_wrong(const char *format, ...)
{
	size_t n = sizeof(wrong_how);
	va_list args;
	int at;

	if (*wrong_how)
		return;
	at = snprintf(wrong_how, n, "step %llu, seed %llu: ", (unsigned long long)step,
		      (unsigned long long)seed);
	va_start(args, format);
	vsnprintf(wrong_how + at, n - at, format, args);
	va_end(args);
}

/* --- the forms */

#define FORMS(X)								\
	X(cuMemcpy) X(cuMemcpyDtoD) X(cuMemcpyDtoH) X(cuMemcpyHtoD) X(cuMemcpyPeer)	\
	X(cuMemcpyAsync) X(cuMemcpyDtoDAsync) X(cuMemcpyDtoHAsync) X(cuMemcpyHtoDAsync)	\
	X(cuMemcpyPeerAsync)							\
	X(cuMemcpy2D) X(cuMemcpy2DUnaligned) X(cuMemcpy2DAsync)			\
	X(cuMemcpy3D) X(cuMemcpy3DPeer) X(cuMemcpy3DAsync) X(cuMemcpy3DPeerAsync)	\
	X(cuMemsetD8) X(cuMemsetD16) X(cuMemsetD32)				\
	X(cuMemsetD8Async) X(cuMemsetD16Async) X(cuMemsetD32Async)		\
	X(cuMemsetD2D8) X(cuMemsetD2D16) X(cuMemsetD2D32)			\
	X(cuMemsetD2D8Async) X(cuMemsetD2D16Async) X(cuMemsetD2D32Async)	\
	X(cuMemcpyBatchAsync) X(cuMemcpy3DBatchAsync)				\
	X(cuMemcpyWithAttributesAsync) X(cuMemcpy3DWithAttributesAsync)		\
	X(cuMemPrefetchBatchAsync) X(cuMemDiscardBatchAsync) X(cuMemDiscardAndPrefetchBatchAsync)

#define NAME(name)	#name,

static const char *const form_names[] = { FORMS(NAME) };

#define FORM_COUNT	ARRAY_SIZE(form_names)
#define FIRST_2D	10
#define FIRST_3D	13
#define FIRST_FILL	17
#define FIRST_FILL_2D	23
#define FIRST_BATCH	29
#define FIRST_PLACE	33

/* [1]: the variant for which stream 0 is the thread's own */
static void *functions[FORM_COUNT][2];

static bool find_functions(void)
{
	static const cuuint64_t flags[2] = {
		CU_GET_PROC_ADDRESS_LEGACY_STREAM, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
	};

	for (unsigned int i = 0; i < FORM_COUNT; i++) {
		for (int own = 0; own < 2; own++)
			if (cuGetProcAddress(form_names[i], &functions[i][own], 13030, flags[own],
					     NULL) || !functions[i][own])
				return false;
		if (functions[i][0] == functions[i][1])
			return false;
	}
	return true;
}

static bool is(unsigned int form, const char *part)
{
	return strstr(form_names[form], part);
}

/* --- order */

static bool ordered(int before, int after)
{
	const struct strm *a = &streams[before], *b = &streams[after];

	if (a->same == b->same)
		return true;
	return (a->order == LEGACY && b->order != FREE) || (b->order == LEGACY && a->order != FREE);
}

#include "property_edge.h"

/* Wait until the host may touch the buffer. */
static CUresult settle(struct buffer *b)
{
	CUresult result = CUDA_SUCCESS;

	if (b->user >= 0)
		result = cuStreamSynchronize(streams[b->user].handle);
	b->user = -1;
	return result;
}

/* Order the work on the buffer before what stream @s gets next. */
static CUresult hand_over(struct buffer *b, int s)
{
	CUresult result = CUDA_SUCCESS;

	/* A queued batch may still have to read it; other forms have already read such memory. */
	if (b->kind == PAGEABLE)
		return settle(b);
	if (b->user >= 0 && !ordered(b->user, s)) {
		switch (rnd(5)) {
		case 0:
			result = settle(b);
			break;
		case 1:
			/* An event belongs to one device's context. */
			if (streams[b->user].same == stream_count - 1 && device_count > 1)
				return settle(b);
			result = event_edge(b->user, s);
			break;
		case 2:
			result = semaphore_edge(b->user, s);
			break;
		case 3:
			result = word_edge(b->user, s);
			break;
		default:
			result = chance(50) ? cuCtxSynchronize_v2(contexts[0]) : cuCtxSynchronize();
			if (!result && device_count > 1)
				result = cuCtxSynchronize_v2(contexts[1]);
		}
	}
	return result;
}

/* --- buffers */

static void scribble(unsigned char *p, size_t n)
{
	__u64 value = rnd(~0ULL);

	for (size_t i = 0; i < n; i++) {
		p[i] = value >> 56;
		value = value * 6364136223846793005ULL + 1442695040888963407ULL;
	}
}

/* The CPU writes to an idle buffer. */
static void write_to(struct buffer *b, size_t at, size_t n)
{
	scribble(b->model + at, n);
	put(b->ptr + at, b->model + at, n);
}

/* Let the other process allocate memory, and open its handle. */
static CUresult open_of_peer(CUdeviceptr *ptr, size_t size)
{
	struct peer_message m = { .op = PEER_ALLOC, .bytes = size };
	CUresult result = peer_call(&peer, &m);

	m.op = PEER_GET;
	if (!result)
		result = peer_call(&peer, &m);
	return result ? result :
		cuIpcOpenMemHandle(ptr, m.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

static bool expect(CUresult want, CUresult result)
{
	if (result == want)
		return true;
	note_wrong("result %d, not %d", result, want);
	return false;
}

#include "property_mapped.h"
#include "property_pools.h"

static bool add_buffer(enum kind kind, size_t size, int device)
{
	struct buffer *b = &buffers[buffer_count];
	void *p = NULL;

	*b = (struct buffer) { .kind = kind, .size = size, .user = -1, .device = device };
	switch (kind) {
	case PAGEABLE:
		p = malloc(size);
		break;
	case DEVICE:
		if (cuCtxSetCurrent(contexts[device]) || cuMemAlloc(&b->ptr, size) ||
		    cuCtxSetCurrent(contexts[0]))
			return false;
		p = cpu(b->ptr);
		break;
	case POOL:
		if (cuMemAllocAsync(&b->ptr, size, NULL) || cuStreamSynchronize(NULL))
			return false;
		p = cpu(b->ptr);
		break;
	case HOST_POOL:
	case MANAGED_POOL:
		if (place_alloc(b) || cuStreamSynchronize(NULL))
			return false;
		p = cpu(b->ptr);
		break;
	case OPENED:
		if (open_of_peer(&b->ptr, size))
			return false;
		p = cpu(b->ptr);
		break;
	case MAPPED:
	case EXTERNAL:
		if (!(kind == MAPPED ? mapped_make(b) : external_make(b)))
			return false;
		p = cpu(b->ptr);
		break;
	case PINNED:
		if (cuMemHostAlloc(&p, size, 0))
			return false;
		break;
	case MANAGED:
		if (cuMemAllocManaged(&b->ptr, size, CU_MEM_ATTACH_GLOBAL))
			return false;
		p = cpu(b->ptr);
		break;
	default:
		p = malloc(size + 64);
		if (!p)
			return false;
		p = (char *)p + 3;
		if (cuMemHostRegister(p, size, 0))
			return false;
	}
	b->mem = p;
	b->ptr = (uintptr_t)p;
	b->model = malloc(size);
	if (!p || !b->model)
		return false;
	write_to(b, 0, size);
	buffer_count++;
	return true;
}

static bool intact(struct buffer *b)
{
	static unsigned char *copy;
	const unsigned char *seen;
	size_t i;

	if (!expect(CUDA_SUCCESS, settle(b)))
		return false;
	if (b->kind != PAGEABLE && b->kind != HOST_POOL && chance(30)) {
		copy = realloc(copy, b->size);
		if (!copy || !expect(CUDA_SUCCESS, cuMemcpyDtoH(copy, b->ptr, b->size)))
			return false;
		seen = copy;
	} else {
		seen = view(b->ptr, b->size);
	}
	if (!memcmp(seen, b->model, b->size))
		return true;
	for (i = 0; seen[i] == b->model[i]; i++)
		;
	note_wrong("buffer %d (%s, %zu bytes): byte %zu is %02x, not %02x", (int)(b - buffers), kind_names[b->kind],
	      b->size, i, seen[i], b->model[i]);
	return false;
}

static struct buffer *pick(bool device_like)
{
	struct buffer *b;

	do
		b = &buffers[rnd(buffer_count)];
	while (device_like && b->kind == PAGEABLE);
	return b;
}

/* A random size up to @most: mostly small. */
static size_t some(size_t most)
{
	unsigned int percent = rnd(1000);

	if (percent < 30)
		return 0;
	if (percent < 800)
		return rnd(most < 4096 ? most + 1 : 4097);
	if (percent < 990)
		return rnd(most < 300 * KIB ? most + 1 : 300 * KIB + 1);
	return rnd(most + 1);
}

/* --- one step */

__attribute__((format(printf, 1, 2)))
static void say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(lines[step % LOG_LINES], sizeof(lines[0]), format, args);
	va_end(args);
}

/* The stream that a call uses, with or without a stream argument. */
static int pick_stream(unsigned int form, bool *own)
{
	int s = rnd(stream_count);

	*own = chance(40);
	if (!is(form, "Async"))
		return *own ? 2 : 0;
	/* Handle 0 means stream 0 (legacy), or with @own stream 2, the thread's own. */
	if (s == 0 && *own)
		return 2;
	return s;
}

static CUstream handle_of(int s, bool own)
{
	return s == 2 && own && chance(50) ? NULL : streams[s].handle;
}

/* An operation on @b in stream @s was submitted. */
static void used_by(struct buffer *b, int s)
{
	b->user = b->kind == PAGEABLE ? -1 : s;
}

static CUresult call_linear(unsigned int form, bool own, CUstream handle, CUdeviceptr dst,
			    CUdeviceptr src, size_t n)
{
	void *f = functions[form][own];

	if (is(form, "PeerAsync"))
		return ((CUresult (*)(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t,
				      CUstream))f)(dst, contexts[0], src, NULL, n, handle);
	if (is(form, "Peer"))
		return ((CUresult (*)(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t))f)
			(dst, NULL, src, contexts[0], n);
	/* Pointers and addresses are passed alike. */
	if (is(form, "Async"))
		return ((CUresult (*)(CUdeviceptr, CUdeviceptr, size_t, CUstream))f)(dst, src, n,
										     handle);
	return ((CUresult (*)(CUdeviceptr, CUdeviceptr, size_t))f)(dst, src, n);
}

static bool do_linear(unsigned int form)
{
	bool dst_dev = is(form, "HtoD") || is(form, "DtoD") || is(form, "Peer");
	bool src_dev = is(form, "DtoH") || is(form, "DtoD") || is(form, "Peer");
	struct buffer *d = pick(dst_dev), *s = chance(15) && !(src_dev && d->kind == PAGEABLE) ?
		d : pick(src_dev);
	size_t n = some(d->size < s->size ? d->size : s->size);
	size_t to = rnd(d->size - n + 1), from = rnd(s->size - n + 1);
	/* Only DEVICE: elsewhere the byte behind the end may be another buffer's first. */
	bool own, wrong = n > 1 && d->kind == DEVICE && chance(2);
	/* As recorded: host memory of a pool is no device memory. */
	bool refused = n && ((src_dev && s->kind == HOST_POOL) || (dst_dev && d->kind == HOST_POOL));
	int q = pick_stream(form, &own);
	CUresult result = hand_over(d, q);

	if (!result && s != d)
		result = hand_over(s, q);
	if (!expect(CUDA_SUCCESS, result))
		return false;
	if (wrong)
		to = d->size - n + 1;
	say("%s%s %d+%zu %d+%zu %zu stream %d%s", form_names[form], own ? " own" : "",
	    (int)(d - buffers), to, (int)(s - buffers), from, n, q, wrong || refused ? " wrong" : "");
	result = call_linear(form, own, handle_of(q, own), d->ptr + to, s->ptr + from, n);
	if (wrong || refused)
		return expect(INVALID, result);
	if (!result)
		memmove(d->model + to, s->model + from, n);
	used_by(d, q);
	used_by(s, q);
	return expect(CUDA_SUCCESS, result);
}

/* One side of a copy of boxes. */
struct side {
	size_t offset;		/* of the base in the buffer */
	size_t x, y, z;
	size_t pitch, height;	/* as passed */
	size_t row, slice;	/* bytes that these stand for */
	size_t first, end;	/* in the buffer */
	CUmemorytype type;
};

static void make_side(struct side *side, const struct buffer *b, size_t w, size_t h, size_t d,
		      bool three)
{
	*side = (struct side) { .x = chance(40) ? rnd(20) : 0, .y = chance(40) ? rnd(4) : 0 };
	if (three)
		side->z = chance(40) ? rnd(3) : 0;
	side->pitch = chance(15) ? 0 : w + side->x + (chance(50) ? rnd(100) : 0);
	side->row = side->pitch ? side->pitch : w + side->x;
	if (three)
		side->height = chance(15) ? 0 : h + side->y + (chance(50) ? rnd(4) : 0);
	side->slice = side->row * (side->height ? side->height : h + side->y);
	side->first = side->z * side->slice + side->y * side->row + side->x;
	side->end = side->first + (d - 1) * side->slice + (h - 1) * side->row + w;
	if (side->end <= b->size) {
		side->offset = rnd(b->size - side->end + 1);
		side->first += side->offset;
		side->end += side->offset;
	}
	switch (b->kind) {
	case PAGEABLE:
	case HOST_POOL:
		side->type = chance(70) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED;
		break;
	case DEVICE:
	case POOL:
	case OPENED:
	case MAPPED:
	case EXTERNAL:
		side->type = chance(70) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_UNIFIED;
		break;
	default:
		side->type = chance(40) ? CU_MEMORYTYPE_HOST : chance(50) ? CU_MEMORYTYPE_UNIFIED :
			CU_MEMORYTYPE_DEVICE;
	}
}

static CUresult call_2d(unsigned int form, bool own, CUstream handle, const CUDA_MEMCPY2D *c)
{
	void *f = functions[form][own];

	return is(form, "Async") ? ((CUresult (*)(const CUDA_MEMCPY2D *, CUstream))f)(c, handle) :
		((CUresult (*)(const CUDA_MEMCPY2D *))f)(c);
}

static CUresult call_3d(unsigned int form, bool own, CUstream handle, const CUDA_MEMCPY3D *c)
{
	void *f = functions[form][own];
	CUDA_MEMCPY3D_PEER p;

	if (is(form, "Peer")) {
		memcpy(&p, c, sizeof(p));
		p.srcContext = contexts[0];
		p.dstContext = NULL;
		return is(form, "Async") ?
			((CUresult (*)(const CUDA_MEMCPY3D_PEER *, CUstream))f)(&p, handle) :
			((CUresult (*)(const CUDA_MEMCPY3D_PEER *))f)(&p);
	}
	return is(form, "Async") ? ((CUresult (*)(const CUDA_MEMCPY3D *, CUstream))f)(c, handle) :
		((CUresult (*)(const CUDA_MEMCPY3D *))f)(c);
}

#define SIDE(which, s, b)							\
	.which ## XInBytes = (s).x, .which ## Y = (s).y, .which ## MemoryType = (s).type,	\
	.which ## Pitch = (s).pitch,						\
	.which ## Host = (s).type == CU_MEMORYTYPE_HOST ? (b)->mem + (s).offset : NULL,	\
	.which ## Device = (s).type == CU_MEMORYTYPE_HOST ? 0 : (b)->ptr + (s).offset

static void model_box(struct buffer *d, const struct side *to, const struct buffer *s,
		      const struct side *from, size_t w, size_t h, size_t depth)
{
	static unsigned char *whole;

	/* As if everything were read before anything is written. */
	whole = realloc(whole, from->end - from->first + 1);
	memcpy(whole, s->model + from->first, from->end - from->first);
	for (size_t z = 0; z < depth; z++)
		for (size_t y = 0; y < h; y++)
			memcpy(d->model + to->first + z * to->slice + y * to->row,
			       whole + z * from->slice + y * from->row, w);
}

static bool do_box(unsigned int form)
{
	bool three = form >= FIRST_3D;
	struct buffer *d = pick(false), *s = chance(15) ? d : pick(false);
	size_t most = 1 + some(d->size < s->size ? d->size : s->size);
	size_t h = 1 + rnd(20), depth = three ? 1 + rnd(6) : 1, w;
	bool own, wrong = false, nothing = chance(2);
	struct side to, from;
	CUresult result;
	int q;

	if (chance(20))
		h = 1;
	w = 1 + most / (h * depth);
	make_side(&to, d, w, h, depth, three);
	make_side(&from, s, w, h, depth, three);
	if (d == s && chance(50)) {
		/* Two sides of the same geometry may overlap. */
		size_t offset = from.offset + rnd(3 * w);

		to = from;
		if (offset >= from.offset && offset - from.offset + from.end <= d->size) {
			to.offset = offset;
			to.first += offset - from.offset;
			to.end += offset - from.offset;
		}
		if (chance(50)) {
			struct side t = to;

			to = from;
			from = t;
		}
	} else if (d == s && to.first < from.end && from.first < to.end) {
		say("nothing");
		return true;
	}
	if (to.end > d->size || from.end > s->size) {
		/* The random geometry does not fit: a wrong step, if the library can detect it. */
		if (d->kind != DEVICE || to.end <= d->size || s->kind == PAGEABLE) {
			say("nothing");
			return true;
		}
		wrong = true;
	}
	q = pick_stream(form, &own);
	result = hand_over(d, q);
	if (!result && s != d)
		result = hand_over(s, q);
	if (!expect(CUDA_SUCCESS, result))
		return false;
	say("%s%s %d+%zu (%zu %zu %zu, %zu %zu) %d+%zu (%zu %zu %zu, %zu %zu) %zux%zux%zu stream "
	    "%d%s", form_names[form], own ? " own" : "", (int)(d - buffers), to.offset, to.x, to.y,
	    to.z, to.pitch, to.height, (int)(s - buffers), from.offset, from.x, from.y, from.z,
	    from.pitch, from.height, w, h, depth, q, wrong ? " wrong" : nothing ? " nothing" : "");
	if (three) {
		CUDA_MEMCPY3D c = {
			SIDE(src, from, s), .srcZ = from.z, .srcHeight = from.height,
			SIDE(dst, to, d), .dstZ = to.z, .dstHeight = to.height,
			.WidthInBytes = w, .Height = h, .Depth = depth,
		};

		if (nothing)
			*(chance(30) ? &c.WidthInBytes : chance(50) ? &c.Height : &c.Depth) = 0;
		result = call_3d(form, own, handle_of(q, own), &c);
	} else {
		CUDA_MEMCPY2D c = {
			SIDE(src, from, s), SIDE(dst, to, d), .WidthInBytes = w, .Height = h,
		};

		if (nothing)
			*(chance(50) ? &c.WidthInBytes : &c.Height) = 0;
		result = call_2d(form, own, handle_of(q, own), &c);
	}
	if (nothing)
		return expect(CUDA_SUCCESS, result);
	if (wrong)
		return expect(INVALID, result);
	if (!result)
		model_box(d, &to, s, &from, w, h, depth);
	used_by(d, q);
	used_by(s, q);
	return expect(CUDA_SUCCESS, result);
}

#include "property_fill.h"
#include "property_batch.h"
#include "property_place.h"

/*
 * Free a pool's block and allocate a new one in its place.  The free may be queued behind the last
 * work on the block.
 */
static bool renew(struct buffer *b)
{
	int q = b->user >= 0 ? b->user : (int)rnd(stream_count);

	if ((chance(50) && !intact(b)) || !expect(CUDA_SUCCESS, cuMemFreeAsync(b->ptr, streams[q].handle)) ||
	    !expect(CUDA_SUCCESS, b->kind == POOL ? cuMemAllocAsync(&b->ptr, b->size, NULL) : place_alloc(b)) ||
	    !expect(CUDA_SUCCESS, cuStreamSynchronize(NULL)))
		return false;
	b->mem = cpu(b->ptr);
	b->user = -1;
	write_to(b, 0, b->size);
	return true;
}

/* Everything else that may happen between two operations. */
static bool do_other(void)
{
	struct buffer *b = &buffers[rnd(buffer_count)];
	unsigned int on = rnd(2);
	size_t n, at;

	switch (rnd(8)) {
	case 0:
		say("write to %d", (int)(b - buffers));
		if (!expect(CUDA_SUCCESS, settle(b)))
			return false;
		n = some(b->size);
		at = rnd(b->size - n + 1);
		write_to(b, at, n);
		return true;
	case 1:
		say("synchronize");
		for (int i = 0; i < buffer_count; i++)
			if (!expect(CUDA_SUCCESS, settle(&buffers[i])))
				return false;
		return true;
	case 2:
		do
			b = pick(true);
		while (b->kind == MANAGED || (b->kind >= POOL && b->kind <= EXTERNAL));
		say("SYNC_MEMOPS of %d is %u", (int)(b - buffers), on);
		return expect(CUDA_SUCCESS,
			      cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, b->ptr));
	case 3:
		if (((b->kind < DEVICE || b->kind > MANAGED_POOL) && b->kind != MAPPED) || !chance(20)) {
			say("nothing");
			return true;
		}
		say("free and allocate %d", (int)(b - buffers));
		if (b->kind >= POOL && b->kind <= MANAGED_POOL)
			return renew(b);
		if (b->kind == MAPPED) {
			if (!intact(b) || !mapped_renew(b))
				return false;
			write_to(b, 0, b->size);
			return true;
		}
		if (!intact(b) || !expect(CUDA_SUCCESS, cuMemFree(b->ptr)) ||
		    !expect(CUDA_SUCCESS, cuCtxSetCurrent(contexts[b->device])) ||
		    !expect(CUDA_SUCCESS, cuMemAlloc(&b->ptr, b->size)) ||
		    !expect(CUDA_SUCCESS, cuCtxSetCurrent(contexts[0])))
			return false;
		b->mem = cpu(b->ptr);
		write_to(b, 0, b->size);
		return true;
	default:
		n = rnd(stream_count);
		say("load on stream %zu", n);
		return expect(CUDA_SUCCESS, cuMemsetD8Async(ballast, on, MIB, streams[n].handle));
	}
}

static bool do_step(void)
{
	unsigned int form;

	if (chance(10))
		return do_other();
	form = rnd(FORM_COUNT);
	counts[form]++;
	if (form >= FIRST_PLACE)
		return do_place(form);
	if (form >= FIRST_BATCH)
		return do_batch(form);
	if (form >= FIRST_FILL)
		return do_fill(form);
	return form >= FIRST_2D ? do_box(form) : do_linear(form);
}

/* --- set up */

static void add_stream(CUstream handle, enum order order, int same)
{
	streams[stream_count] = (struct strm) { handle, order, same < 0 ? stream_count : same };
	stream_count++;
}

static bool make_streams(void)
{
	CUstream s;

	add_stream(NULL, LEGACY, -1);
	add_stream(CU_STREAM_LEGACY, LEGACY, 0);
	add_stream(CU_STREAM_PER_THREAD, THREAD, -1);
	for (int i = 0; i < 5; i++) {
		if (i < 2 ? cuStreamCreate(&s, CU_STREAM_DEFAULT) :
			    cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, 2 - i))
			return false;
		add_stream(s, i < 2 ? BLOCKING : FREE, -1);
	}
	/* The other device's stream comes last. */
	if (device_count > 1) {
		if (cuCtxSetCurrent(contexts[1]) || cuStreamCreate(&s, CU_STREAM_DEFAULT) ||
		    cuCtxSetCurrent(contexts[0]))
			return false;
		add_stream(s, FREE, -1);
	}
	return true;
}

static bool make_buffers(void)
{
	CUipcMemHandle handle;
	bool made;

	made = add_buffer(PAGEABLE, 5000, 0) && add_buffer(PAGEABLE, 3 * MIB + 5, 0) &&
	       add_buffer(DEVICE, 777, 0) && add_buffer(DEVICE, 60000, 0) &&
	       add_buffer(DEVICE, 5 * MIB + 13, 0) && add_buffer(DEVICE, 2 * MIB, 0) &&
	       add_buffer(DEVICE, 100001, 0);
	/* An exported buffer: the caller does not execute operations on it itself. */
	if (!made || cuIpcGetMemHandle(&handle, buffers[buffer_count - 1].ptr))
		return false;
	if (device_count > 1)
		made = add_buffer(DEVICE, 4097, 1) && add_buffer(DEVICE, 3 * MIB + 1, 1);
	made = made && add_buffer(POOL, 30011, 0) && add_buffer(POOL, 2 * MIB + 19, 0) &&
	       add_buffer(HOST_POOL, 25013, 0) && add_buffer(HOST_POOL, MIB + 21, 0) &&
	       add_buffer(MANAGED_POOL, 35023, 0) && add_buffer(MANAGED_POOL, MIB + 23, 0) &&
	       add_buffer(MAPPED, 40009, 0) && add_buffer(MAPPED, 5 * MIB + 11, 0) &&
	       add_buffer(EXTERNAL, 50021, 0) && add_buffer(EXTERNAL, MIB + 3, 0) &&
	       add_buffer(OPENED, 70001, 0) && add_buffer(OPENED, MIB + 5, 0);
	return made && add_buffer(PINNED, 9001, 0) && add_buffer(PINNED, 2 * MIB + 77, 0) &&
	       add_buffer(REGISTERED, 20011, 0) && add_buffer(REGISTERED, 2 * MIB + 3, 0) &&
	       add_buffer(MANAGED, 30001, 0) && add_buffer(MANAGED, MIB + 9, 0) &&
	       !cuMemAlloc(&ballast, 4 * MIB);
}

static __u64 number(const char *name, __u64 otherwise)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

FIXTURE(property)
{
	CUcontext ctx;
};

FIXTURE_SETUP(property)
{
	const CUmemAccessDesc access = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1 },
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUmemoryPool pool;

	cuda_begin(_metadata, &self->ctx);
	contexts[0] = self->ctx;
	ASSERT_CU(cuDeviceGetCount(&device_count));
	if (device_count > 1) {
		ASSERT_CU(cuDevicePrimaryCtxRetain(&contexts[1], 1));
		ASSERT_CU(befriend(contexts[0], contexts[1]));
		ASSERT_CU(cuDeviceGetDefaultMemPool(&pool, 0));
		ASSERT_CU(cuMemPoolSetAccess(pool, &access, 1));
	}
	ASSERT_EQ(0, peer_start(&peer, NULL));
	ASSERT_CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	ASSERT_CU(edges_make());
	ASSERT_TRUE(find_functions());
	ASSERT_TRUE(make_streams());
	ASSERT_TRUE(places_make());
}

QUIET_AFTERWARDS(property)

/* The limit of the whole program (settings) applies. */
TEST_F_TIMEOUT(property, random, 100000)
{
	__u64 steps = number("GPUMEM_STEPS", STEPS);
	unsigned int kinds = 0;
	bool good = true;

	ASSERT_NE(0, steps);
	seed = number("GPUMEM_SEED", mono_ns() ^ getpid());
	state = seed ? seed : 1;
	printf("# GPUMEM_SEED=%llu GPUMEM_STEPS=%llu\n", (unsigned long long)seed,
	       (unsigned long long)steps);
	fflush(stdout);
	ASSERT_TRUE(make_buffers());
	for (step = 0; good && step < steps; step++) {
		good = do_step();
		if (good && !rnd(24))
			good = intact(&buffers[rnd(buffer_count)]);
	}
	for (int i = 0; i < buffer_count; i++) {
		kinds |= 1u << buffers[i].kind;
		if (good)
			good = intact(&buffers[i]);
	}
	if (!good) {
		__u64 from = step > LOG_LINES ? step - LOG_LINES : 0;

		for (; from < step; from++)
			printf("# %llu: %s\n", (unsigned long long)from, lines[from % LOG_LINES]);
		fflush(stdout);
	}
	ASSERT_STREQ("", wrong_how);
	ASSERT_TRUE(good);
	/* All kinds of memory were used, and all forms, if there were steps enough. */
	EXPECT_EQ((1u << KINDS) - 1, kinds);
	for (unsigned int i = 0; steps >= STEPS && i < FORM_COUNT; i++)
		EXPECT_LT(STEPS / FORM_COUNT / 4, counts[i]);
	EXPECT_CU(cuCtxSynchronize());
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], PEER_WORD))
		return peer_main();
	return test_harness_run(argc, argv);
}
