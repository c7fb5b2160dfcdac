// SPDX-License-Identifier: GPL-2.0
/*
 * Virtual memory management against a model, in random order: reservations, handles, mappings,
 * rights, exports and imports.
 *
 * The model has four kinds of objects.  A *memory* is what cuMemCreate() makes; several handles may
 * stand for it, because an import is a handle of its own.  A *handle* lives while the program has
 * references or mappings of it.  A *descriptor* of an export keeps a memory.  A *reservation* has a
 * mapping or none for each of its pieces of 2 MiB.
 *
 * Contents are compared at the first and the last WINDOW bytes of each piece.  A fill may begin and
 * end anywhere in them and go across mappings; a copy moves pieces.  The engine must do what the
 * rights permit and refuse the rest, which then changes nothing.  The CPU's rights are tested by
 * system calls, which answer EFAULT where a load or store would end the process.
 *
 * About one call in four is wrong on purpose: an old handle, a range that cuts a mapping, a size
 * that is not the handle's.  It must have the documented result and change nothing.
 *
 * The program prints its seed; GPUMEM_SEED repeats a run.  GPUMEM_STEPS is the number of steps.
 */
#include <unistd.h>

#include "kselftest_harness.h"
#include "cuda_util.h"

#define PIECE		(2 * MIB)
#define WINDOW		512
#define MOST_PIECES	3		/* of a memory */
#define MEMORIES	10
#define HANDLES		20
#define FDS		4
#define RESERVATIONS	4
#define PLACES		10		/* pieces of a reservation, at most */
#define STEPS		4000
#define POSIX_FD	CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define READS		CU_MEM_ACCESS_FLAGS_PROT_READ
#define WRITES		CU_MEM_ACCESS_FLAGS_PROT_READWRITE

struct memory {
	unsigned int users;		/* handles that live, and descriptors; 0: free */
	unsigned int pieces;
	unsigned char seen[MOST_PIECES][2][WINDOW];	/* of each piece: its first bytes, its last */
};

struct handle {
	struct memory *memory;		/* NULL: none */
	CUmemGenericAllocationHandle value;
	unsigned int refs, maps;
	bool closed;			/* cannot be exported: imported, or made without a type */
};

struct fd {
	struct memory *memory;		/* NULL: none */
	int fd;
};

struct place {
	struct handle *handle;		/* NULL: nothing is mapped */
	unsigned int piece;		/* of the memory */
	unsigned int right;
};

struct reservation {
	CUdeviceptr base;
	unsigned int places;		/* 0: none */
	struct place place[PLACES];
};

static struct memory memories[MEMORIES];
static struct handle handles[HANDLES];
static struct fd fds[FDS];
static struct reservation reservations[RESERVATIONS];
static struct rng rng;
static int pipes[2];
static unsigned char *host;
static CUmemGenericAllocationHandle old;	/* a value that was valid once */

enum op { RESERVE, FREE, CREATE, RELEASE, RETAIN, MAP, UNMAP, ACCESS, GET_ACCESS, EXPORT, IMPORT,
	  CLOSE, FILL, COPY, READ, CPU, OPS };

static const char *const names[OPS] = {
	"reserve", "free", "create", "release", "retain", "map", "unmap", "access", "get_access",
	"export", "import", "close", "fill", "copy", "read", "cpu",
};

static unsigned int done[OPS], refused[OPS];

static unsigned int below(unsigned int n)
{
	return rng_below(&rng, n);
}

static bool expect(enum op op, CUresult result, CUresult want)
{
	if (result != want) {
		printf("# %s: result %d, not %d\n", names[op], result, want);
		return false;
	}
	if (want)
		refused[op]++;
	else
		done[op]++;
	return true;
}

/* --- the model's objects */

static void memory_leave(struct memory *memory)
{
	memory->users--;
}

static struct handle *handle_room(void)
{
	for (unsigned int i = 0; i < HANDLES; i++)
		if (!handles[i].memory)
			return &handles[i];
	return NULL;
}

static void handle_enter(struct handle *handle, struct memory *memory,
			 CUmemGenericAllocationHandle value, bool closed)
{
	*handle = (struct handle) { memory, value, 1, 0, closed };
	memory->users++;
}

/* After a reference or a mapping went. */
static void handle_check(struct handle *handle)
{
	if (handle->refs || handle->maps)
		return;
	old = handle->value;
	memory_leave(handle->memory);
	handle->memory = NULL;
}

/* A handle that lives, or NULL; it may have mappings and no references. */
static struct handle *any_handle(void)
{
	struct handle *handle = NULL;

	for (unsigned int tries = 0; tries < 4 && (!handle || !handle->memory); tries++)
		handle = &handles[below(HANDLES)];
	return handle->memory ? handle : NULL;
}

static struct reservation *any_reservation(void)
{
	struct reservation *r = NULL;

	for (unsigned int tries = 0; tries < 4 && (!r || !r->places); tries++)
		r = &reservations[below(RESERVATIONS)];
	return r->places ? r : NULL;
}

/* A random place, rather one that is mapped, or rather one that is not. */
static unsigned int any_place(const struct reservation *r, bool mapped)
{
	unsigned int i = below(r->places);

	for (unsigned int tries = 0; tries < 3 && mapped != !!r->place[i].handle; tries++)
		i = below(r->places);
	return i;
}

static CUdeviceptr at(const struct reservation *r, unsigned int place)
{
	return r->base + (CUdeviceptr)place * PIECE;
}

/* Whether a mapping begins at a place, which may be the reservation's end. */
static bool begins(const struct reservation *r, unsigned int place)
{
	return place == r->places || !r->place[place].handle || !r->place[place].piece;
}

/* A random range of places; mostly that of whole mappings. */
static void any_range(const struct reservation *r, unsigned int *from, unsigned int *to)
{
	unsigned int most;

	*from = any_place(r, true);
	most = r->places - *from;
	*to = *from + 1 + below(below(3) && most > 3 ? 3 : most);
	if (!below(3))
		return;
	while (!begins(r, *from))
		--*from;
	while (!begins(r, *to))
		++*to;
}

/* --- steps that change objects; each returns whether the answer was right */

static bool reserve(void)
{
	struct reservation *r = &reservations[below(RESERVATIONS)];
	unsigned int places = 1 + below(PLACES);

	if (r->places)
		return true;
	memset(r, 0, sizeof(*r));
	if (!expect(RESERVE, cuMemAddressReserve(&r->base, places * PIECE, 0, 0, 0), CUDA_SUCCESS))
		return false;
	r->places = places;
	return true;
}

static bool address_free(void)
{
	struct reservation *r = any_reservation();
	size_t bytes;
	bool wrong;

	if (!r)
		return true;
	bytes = r->places * PIECE;
	wrong = !below(4);
	if (wrong)
		bytes += below(2) ? PIECE : -PIECE;
	for (unsigned int i = 0; i < r->places; i++)
		wrong |= r->place[i].handle != NULL;
	if (!expect(FREE, cuMemAddressFree(r->base, bytes), wrong ? INVALID : CUDA_SUCCESS))
		return false;
	if (!wrong)
		r->places = 0;
	return true;
}

static bool create(void)
{
	bool closed = !below(4);
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = closed ? 0 : POSIX_FD,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	struct memory *memory = &memories[below(MEMORIES)];
	CUmemGenericAllocationHandle value;
	struct handle *handle = handle_room();
	unsigned int pieces = 1 + below(MOST_PIECES);

	if (!below(8))
		return expect(CREATE, cuMemCreate(&value, PIECE + 4096, &prop, 0), INVALID);
	if (memory->users || !handle)
		return true;
	if (!expect(CREATE, cuMemCreate(&value, pieces * PIECE, &prop, 0), CUDA_SUCCESS))
		return false;
	/* New memory is zero. */
	memset(memory, 0, sizeof(*memory));
	memory->pieces = pieces;
	handle_enter(handle, memory, value, closed);
	return true;
}

static bool release(void)
{
	struct handle *handle = any_handle();

	if (!handle || !below(6))
		return expect(RELEASE, cuMemRelease(old), INVALID);
	if (!handle->refs)
		return expect(RELEASE, cuMemRelease(handle->value), INVALID);
	if (!expect(RELEASE, cuMemRelease(handle->value), CUDA_SUCCESS))
		return false;
	handle->refs--;
	handle_check(handle);
	return true;
}

static bool retain(void)
{
	struct reservation *r = any_reservation();
	CUmemGenericAllocationHandle value = 0;
	struct place *p;
	unsigned int i;

	if (!r)
		return true;
	i = below(r->places);
	p = &r->place[i];
	if (!expect(RETAIN, cuMemRetainAllocationHandle(&value, cpu(at(r, i) + below(PIECE))),
		    p->handle ? CUDA_SUCCESS : INVALID))
		return false;
	if (!p->handle)
		return true;
	p->handle->refs++;
	return value == p->handle->value;
}

static bool map(void)
{
	struct handle *handle = any_handle();
	struct reservation *r = any_reservation();
	unsigned int first, pieces, kind = below(12);
	CUresult want = CUDA_SUCCESS;
	size_t bytes;

	if (!r || !handle)
		return true;
	first = any_place(r, false);
	pieces = handle->memory->pieces;
	bytes = pieces * PIECE;
	if (!handle->refs)
		want = INVALID;
	else if (!kind)
		want = CUDA_ERROR_NOT_SUPPORTED;
	else if (first + pieces > r->places)
		want = INVALID;
	for (unsigned int i = first; !want && i < first + pieces; i++)
		if (r->place[i].handle)
			want = INVALID;
	if (!kind)
		bytes += PIECE;
	if (!expect(MAP, cuMemMap(at(r, first), bytes, 0, handle->value, 0), want))
		return false;
	if (want)
		return true;
	for (unsigned int i = 0; i < pieces; i++)
		r->place[first + i] = (struct place) { handle, i, 0 };
	handle->maps++;
	return true;
}

static bool unmap(void)
{
	struct reservation *r = any_reservation();
	unsigned int from, to;
	bool cuts;

	if (!r)
		return true;
	any_range(r, &from, &to);
	/* Queued work fails when its memory goes. */
	if (!expect(UNMAP, cuCtxSynchronize(), CUDA_SUCCESS))
		return false;
	cuts = !begins(r, from) || !begins(r, to);
	if (!expect(UNMAP, cuMemUnmap(at(r, from), (to - from) * PIECE),
		    cuts ? INVALID : CUDA_SUCCESS))
		return false;
	for (unsigned int i = from; !cuts && i < to; i++) {
		struct place *p = &r->place[i];
		struct handle *handle = p->handle;
		bool first = !p->piece;

		*p = (struct place) { 0 };
		if (handle && first) {
			handle->maps--;
			handle_check(handle);
		}
	}
	return true;
}

static bool set_access(void)
{
	static const unsigned int rights[] = { 0, READS, WRITES, WRITES };
	CUmemAccessDesc desc[2] = {
		{ { .type = CU_MEM_LOCATION_TYPE_DEVICE }, rights[below(4)] },
		{ { .type = CU_MEM_LOCATION_TYPE_HOST }, WRITES },
	};
	struct reservation *r = any_reservation();
	unsigned int from, to, count = 1;
	CUresult want;

	if (!r)
		return true;
	any_range(r, &from, &to);
	if (!expect(ACCESS, cuCtxSynchronize(), CUDA_SUCCESS))
		return false;
	want = begins(r, from) && begins(r, to) ? CUDA_SUCCESS : INVALID;
	for (unsigned int i = from; i < to; i++)
		if (!r->place[i].handle)
			want = INVALID;
	/* No host location gets a right in memory of a device. */
	if (!below(10)) {
		count = 2;
		want = want ? want : CUDA_ERROR_NOT_SUPPORTED;
	}
	if (!expect(ACCESS, cuMemSetAccess(at(r, from), (to - from) * PIECE, desc, count), want))
		return false;
	for (unsigned int i = from; !want && i < to; i++)
		r->place[i].right = desc[0].flags;
	return true;
}

/* The right of a mapping, its handle's properties, and its addresses. */
static bool get_access(void)
{
	const CUmemLocation here = { .type = CU_MEM_LOCATION_TYPE_DEVICE };
	struct reservation *r = any_reservation();
	unsigned long long right = 99;
	CUmemAllocationProp prop;
	const struct place *p;
	CUdeviceptr base, in;
	unsigned int i;
	size_t size;

	if (!r)
		return true;
	i = below(r->places);
	p = &r->place[i];
	in = at(r, i) + below(PIECE);
	if (!expect(GET_ACCESS, cuMemGetAccess(&right, &here, in), p->handle ? CUDA_SUCCESS : INVALID))
		return false;
	/* Memory without a right has no address range. */
	if (!expect(GET_ACCESS, cuMemGetAddressRange(&base, &size, in),
		    p->handle && p->right ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND))
		return false;
	if (!p->handle)
		return true;
	if (right != p->right || (right && (base != at(r, i - p->piece) ||
					    size != p->handle->memory->pieces * PIECE))) {
		printf("# right %llu, not %u; %zu bytes\n", right, p->right, size);
		return false;
	}
	if (!expect(GET_ACCESS, cuMemGetAllocationPropertiesFromHandle(&prop, p->handle->value),
		    p->handle->refs ? CUDA_SUCCESS : INVALID))
		return false;
	return !p->handle->refs || (prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
		!prop.location.id && prop.type == CU_MEM_ALLOCATION_TYPE_PINNED);
}

static bool export_handle(void)
{
	struct handle *handle = any_handle();
	struct fd *f = &fds[below(FDS)];
	CUresult want;
	int fd = -1;

	if (!handle || f->memory)
		return true;
	want = handle->refs && !handle->closed ? CUDA_SUCCESS : INVALID;
	if (!expect(EXPORT, cuMemExportToShareableHandle(&fd, handle->value, POSIX_FD, 0), want))
		return false;
	if (want)
		return fd == -1;
	*f = (struct fd) { handle->memory, fd };
	f->memory->users++;
	return true;
}

static bool import_handle(void)
{
	struct fd *f = &fds[below(FDS)];
	struct handle *handle = handle_room();
	CUmemGenericAllocationHandle value;

	if (!handle)
		return true;
	if (!f->memory)
		return expect(IMPORT, cuMemImportFromShareableHandle(&value,
								     (void *)(intptr_t)pipes[0], POSIX_FD),
			      CUDA_ERROR_UNKNOWN);
	if (!expect(IMPORT, cuMemImportFromShareableHandle(&value, (void *)(intptr_t)f->fd, POSIX_FD),
		    CUDA_SUCCESS))
		return false;
	handle_enter(handle, f->memory, value, true);
	return true;
}

static bool close_fd(void)
{
	struct fd *f = &fds[below(FDS)];

	if (!f->memory)
		return true;
	close(f->fd);
	memory_leave(f->memory);
	f->memory = NULL;
	done[CLOSE]++;
	return true;
}

/* --- steps that use memory */

static unsigned char *window(const struct place *p, int last)
{
	return p->handle->memory->seen[p->piece][last];
}

/* Whether all places of a range are mapped with a right. */
static bool permits(const struct reservation *r, unsigned int from, unsigned int to,
		    unsigned int right)
{
	for (unsigned int i = from; i < to; i++)
		if (!r->place[i].handle || (r->place[i].right & right) != right)
			return false;
	return true;
}

/* An offset in one of the windows of a piece. */
static size_t in_window(void)
{
	return below(2) ? below(WINDOW) : PIECE - 1 - below(WINDOW);
}

/* Fill from @begin to below @end, offsets in the reservation, in the model. */
static void model_fill(const struct reservation *r, size_t begin, size_t end, int value)
{
	for (unsigned int i = begin / PIECE; i <= (end - 1) / PIECE; i++) {
		for (int last = 0; last < 2; last++) {
			size_t w = i * PIECE + (last ? PIECE - WINDOW : 0);
			size_t a = begin > w ? begin : w, b = end < w + WINDOW ? end : w + WINDOW;

			if (a < b)
				memset(window(&r->place[i], last) + a - w, value, b - a);
		}
	}
}

static bool fill(void)
{
	struct reservation *r = any_reservation();
	unsigned int from, to, value = below(256);
	size_t begin, end;
	bool good;

	if (!r)
		return true;
	from = any_place(r, true);
	to = from + 1 + below(r->places - from < 3 ? r->places - from : 3);
	begin = from * PIECE + in_window();
	end = (to - 1) * PIECE + in_window() + 1;
	if (begin >= end)
		return true;
	good = permits(r, from, to, WRITES);
	if (!expect(FILL, cuMemsetD8(r->base + begin, value, end - begin),
		    good ? CUDA_SUCCESS : INVALID))
		return false;
	if (good)
		model_fill(r, begin, end, value);
	return true;
}

/* Whether two ranges of places have memory in common. */
static bool meet(const struct reservation *r, unsigned int a, const struct reservation *s,
		 unsigned int b, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		for (unsigned int k = 0; k < n; k++)
			if (r->place[a + i].handle && s->place[b + k].handle &&
			    r->place[a + i].handle->memory == s->place[b + k].handle->memory)
				return true;
	return false;
}

static bool copy(void)
{
	struct reservation *r = any_reservation(), *s = any_reservation();
	unsigned int to, from, n;
	bool good;

	if (!r || !s)
		return true;
	to = any_place(r, true);
	from = any_place(s, true);
	n = r->places - to < s->places - from ? r->places - to : s->places - from;
	n = 1 + below(n < 3 ? n : 3);
	if (meet(r, to, s, from, n))
		return true;
	good = permits(r, to, to + n, WRITES) && permits(s, from, from + n, READS);
	if (!expect(COPY, cuMemcpyDtoD(at(r, to), at(s, from), n * PIECE),
		    good ? CUDA_SUCCESS : INVALID))
		return false;
	for (unsigned int i = 0; good && i < n; i++)
		memcpy(window(&r->place[to + i], 0), window(&s->place[from + i], 0), 2 * WINDOW);
	return true;
}

/* The last bytes of a piece and the first of the next, in one copy, if there is a next one. */
static bool read_back(void)
{
	struct reservation *r = any_reservation();
	unsigned int i;
	bool both, good;

	if (!r)
		return true;
	i = any_place(r, true);
	both = i + 1 < r->places && r->place[i + 1].handle;
	good = permits(r, i, i + 1 + both, READS);
	memset(host, 0xee, 2 * WINDOW);
	if (!expect(READ, cuMemcpyDtoH(host, at(r, i) + PIECE - WINDOW, WINDOW << both),
		    good ? CUDA_SUCCESS : INVALID))
		return false;
	if (!good)
		return all_are(host, 0xee, 2 * WINDOW);
	if (memcmp(host, window(&r->place[i], 1), WINDOW) ||
	    (both && memcmp(host + WINDOW, window(&r->place[i + 1], 0), WINDOW))) {
		printf("# wrong contents at place %u\n", i);
		return false;
	}
	return true;
}

/* Whether the CPU reads, or with @into writes, the window at @p: through a pipe that is empty. */
static bool cpu_may(unsigned char *p, bool into)
{
	static unsigned char some[WINDOW];
	ssize_t n;

	if (!into) {
		n = write(pipes[1], p, WINDOW);
		return n == WINDOW && read(pipes[0], host, WINDOW) == n;
	}
	if (write(pipes[1], host, WINDOW) != WINDOW)
		return false;
	if (read(pipes[0], p, WINDOW) == WINDOW)
		return true;
	return read(pipes[0], some, WINDOW) != WINDOW;
}

/* The CPU has the device's right; in strict mode it has none. */
static bool by_cpu(void)
{
	struct reservation *r = any_reservation();
	bool readable, writable;
	unsigned char *p;
	unsigned int i;

	if (!r)
		return true;
	i = any_place(r, true);
	p = cpu(at(r, i));
	readable = !strict() && permits(r, i, i + 1, READS);
	writable = !strict() && permits(r, i, i + 1, WRITES);
	if (!expect(CPU, cuCtxSynchronize(), CUDA_SUCCESS))
		return false;
	done[CPU] += readable;
	refused[CPU] += !readable;
	if (cpu_may(p, false) != readable ||
	    (readable && memcmp(host, window(&r->place[i], 0), WINDOW))) {
		printf("# place %u: the CPU sees something else, readable %d\n", i, readable);
		return false;
	}
	memset(host, below(256), WINDOW);
	if (cpu_may(p, true) != writable) {
		printf("# place %u: the CPU may not write, or may: %d\n", i, !writable);
		return false;
	}
	if (writable)
		memcpy(window(&r->place[i], 0), host, WINDOW);
	return true;
}

static bool (*const ops[OPS])(void) = {
	reserve, address_free, create, release, retain, map, unmap, set_access, get_access,
	export_handle, import_handle, close_fd, fill, copy, read_back, by_cpu,
};

/* How often each is chosen. */
static const unsigned char weights[OPS] = {
	4, 2, 8, 5, 3, 14, 5, 12, 4, 3, 3, 2, 16, 16, 14, 8,
};

static enum op any_op(void)
{
	unsigned int all = 0, n, i;

	for (i = 0; i < OPS; i++)
		all += weights[i];
	n = below(all);
	for (i = 0; n >= weights[i]; i++)
		n -= weights[i];
	return i;
}

/* What the device should hold for the model, in bytes. */
static long long bytes_held(void)
{
	long long bytes = 0;

	for (unsigned int i = 0; i < MEMORIES; i++)
		bytes += memories[i].users ? memories[i].pieces * PIECE : 0;
	return bytes;
}

/* Undo everything. */
static bool end_all(void)
{
	for (unsigned int i = 0; i < FDS; i++)
		if (fds[i].memory && close(fds[i].fd))
			return false;
	for (unsigned int i = 0; i < HANDLES; i++)
		for (; handles[i].memory && handles[i].refs; handles[i].refs--)
			if (cuMemRelease(handles[i].value))
				return false;
	for (unsigned int i = 0; i < RESERVATIONS; i++) {
		struct reservation *r = &reservations[i];

		if (r->places && (cuMemUnmap(r->base, r->places * PIECE) ||
				  cuMemAddressFree(r->base, r->places * PIECE)))
			return false;
	}
	return true;
}

/* One use of everything. */
static bool warm_up(void)
{
	const CUmemAccessDesc all = { { .type = CU_MEM_LOCATION_TYPE_DEVICE }, WRITES };
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	CUdeviceptr p;

	return !cuMemAddressReserve(&p, 2 * PIECE, 0, 0, 0) &&
	       !cuMemCreate(&old, 2 * PIECE, &prop, 0) && !cuMemMap(p, 2 * PIECE, 0, old, 0) &&
	       !cuMemSetAccess(p, 2 * PIECE, &all, 1) && !cuMemsetD8(p, 1, 2 * PIECE) &&
	       !cuMemcpyDtoD(p, p + PIECE, PIECE) && !cuMemcpyDtoH(host, p, 2 * WINDOW) &&
	       !cuCtxSynchronize() && !cuMemUnmap(p, 2 * PIECE) && !cuMemRelease(old) &&
	       !cuMemAddressFree(p, 2 * PIECE);
}

FIXTURE(model)
{
	CUcontext ctx;
	long long before;
};

FIXTURE_SETUP(model)
{
	cuda_begin(_metadata, &self->ctx);
	ASSERT_EQ(0, pipe2(pipes, O_CLOEXEC | O_NONBLOCK));
	host = malloc(2 * WINDOW);
	ASSERT_NE(NULL, host);
	/* The library makes what it keeps: memory for queued work, too. */
	ASSERT_TRUE(warm_up());
	self->before = dev_attr(0, "used") - bytes_held();
}

QUIET_AFTERWARDS(model)

/* Whether each operation was done, and refused if a refusal is likely; cuts of mappings are rare. */
static bool covered(void)
{
	for (enum op op = 0; op < OPS; op++) {
		if (!done[op] && !(op == CPU && strict()))
			return false;
		if (!refused[op] && op != RESERVE && op != CLOSE && op != UNMAP)
			return false;
	}
	return true;
}

TEST_F_TIMEOUT(model, random, 100000)
{
	__u64 steps = env_number("GPUMEM_STEPS", 5 * STEPS) / 5, i;
	bool cover = steps >= STEPS;

	rng_start(&rng, "vmm model");
	/* A few seeds need more steps than others to do everything. */
	for (i = 0; i < steps || (cover && !covered() && i < 8 * steps); i++) {
		enum op op = any_op();

		ASSERT_TRUE(ops[op]()) {
			TH_LOG("step %llu, %s", (unsigned long long)i, names[op]);
		}
		if (i % 32)
			continue;
		ASSERT_TRUE(dev_attr_becomes(0, "used", self->before + bytes_held(), 5)) {
			TH_LOG("step %llu: %lld bytes", (unsigned long long)i, bytes_held());
		}
	}
	for (enum op op = 0; op < OPS; op++)
		printf("# %s: %u, %u refused\n", names[op], done[op], refused[op]);
	EXPECT_TRUE(!cover || covered());
	fflush(stdout);
	ASSERT_TRUE(end_all());
	EXPECT_TRUE(dev_attr_becomes(0, "used", self->before, 5));
}

TEST_HARNESS_MAIN
