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
 * Memory is a device's, the host's as a whole, or that of node 0.  A mapping has the right of the
 * device and the right of host locations, which memory of a device never gets.
 *
 * Contents are compared at the first and the last WINDOW bytes of each piece.  A fill may begin and
 * end anywhere in them and go across mappings; a copy moves pieces.  The engine must do what the
 * rights permit and refuse the rest, which then changes nothing.  The CPU copies an end in memory of
 * the host to which host locations have the right.  Accesses by the CPU need the right of any location,
 * in strict mode that of host locations.  They are tested by system calls, which answer EFAULT where a
 * load or store would end the process.
 *
 * About one call in four is wrong on purpose: an old handle, a range that cuts a mapping, a size
 * that is not the handle's.  It must have the documented result and change nothing.
 *
 * The program prints its seed; GPUMEM_SEED repeats a run.  GPUMEM_STEPS is the number of steps.
 */
#include <unistd.h>

#include "kselftest_harness.h"
#include "vmm_model.h"

#define STEPS		4000

static int pipes[2];
static unsigned char *host;

enum op { RESERVE, FREE, CREATE, RELEASE, RETAIN, MAP, UNMAP, ACCESS, GET_ACCESS, EXPORT, IMPORT,
	  CLOSE, FILL, COPY, READ, CPU, OPS };

static const char *const names[OPS] = {
	"reserve", "free", "create", "release", "retain", "map", "unmap", "access", "get_access",
	"export", "import", "close", "fill", "copy", "read", "cpu",
};

static unsigned int done[OPS], refused[OPS];

/* What must come up in a run, apart from each operation. */
enum event { IN_DEVICE, IN_HOST, IN_NODE, HOST_RIGHT, HOST_RIGHT_REFUSED, COPY_BY_CPU, COPY_OVER_KINDS, CPU_BY_HOST,
	     CPU_HOST_READS_ONLY, EVENTS };

static const char *const events[EVENTS] = {
	"memory of a device", "memory of the host", "memory of a node", "rights of the host",
	"rights of the host in memory of a device", "copies that the host's right permits",
	"copies over several kinds of memory", "accesses that only the host's right permits",
	"memory that the host may only read",
};

static unsigned int came[EVENTS];

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
	static const CUmemLocationType places[] = {
		CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_LOCATION_TYPE_HOST,
		CU_MEM_LOCATION_TYPE_HOST_NUMA,
	};
	const CUmemLocationType where = places[below(4)];
	/* Memory of the host as a whole cannot be exported. */
	bool closed = where == CU_MEM_LOCATION_TYPE_HOST || !below(4);
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = closed ? 0 : POSIX_FD,
		.location = { .type = where },
	};
	struct memory *memory = &memories[below(MEMORIES)];
	CUmemGenericAllocationHandle value;
	struct handle *handle = handle_room();
	unsigned int pieces = 1 + below(MOST_PIECES);

	switch (below(24)) {
	case 0:
		return expect(CREATE, cuMemCreate(&value, PIECE + 4096, &prop, 0), INVALID);
	case 1:
		prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
		return expect(CREATE, cuMemCreate(&value, PIECE, &prop, 0), INVALID);
	case 2:
		prop.location.type = CU_MEM_LOCATION_TYPE_HOST;
		prop.requestedHandleTypes = POSIX_FD;
		return expect(CREATE, cuMemCreate(&value, PIECE, &prop, 0), INVALID);
	}
	if (memory->users || !handle)
		return true;
	if (!expect(CREATE, cuMemCreate(&value, pieces * PIECE, &prop, 0), CUDA_SUCCESS))
		return false;
	/* New memory is zero. */
	memset(memory, 0, sizeof(*memory));
	memory->pieces = pieces;
	memory->where = where;
	came[where == CU_MEM_LOCATION_TYPE_DEVICE ? IN_DEVICE :
	     where == CU_MEM_LOCATION_TYPE_HOST ? IN_HOST : IN_NODE]++;
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
		r->place[first + i] = (struct place) { handle, i, 0, 0 };
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

static bool of_device(const struct place *p)
{
	return p->handle->memory->where == CU_MEM_LOCATION_TYPE_DEVICE;
}

static CUmemLocation location(CUmemLocationType type)
{
	return (CUmemLocation) { .type = type };
}

static bool set_access(void)
{
	static const unsigned int rights[] = { 0, READS, WRITES, WRITES };
	static const CUmemLocationType hosts[] = { CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST_NUMA };
	const unsigned int right = rights[below(4)], host_right = rights[below(4)];
	struct reservation *r = any_reservation();
	bool device = false, to_device, to_host, wrong = !below(20);
	unsigned int from, to, count = 0;
	CUmemAccessDesc desc[4];
	CUresult want;

	if (!r)
		return true;
	any_range(r, &from, &to);
	if (!expect(ACCESS, cuCtxSynchronize(), CUDA_SUCCESS))
		return false;
	want = begins(r, from) && begins(r, to) ? CUDA_SUCCESS : INVALID;
	for (unsigned int i = from; i < to; i++) {
		if (!r->place[i].handle)
			want = INVALID;
		else
			device |= of_device(&r->place[i]);
	}
	/* No host location gets a right in memory of a device; try it now and then. */
	to_host = device ? !below(10) : below(4);
	to_device = !to_host || below(2);
	if (to_host && below(2))
		/* Overruled by the entry of the host's other location. */
		desc[count++] = (CUmemAccessDesc) { location(hosts[0]), rights[below(4)] };
	if (to_host)
		desc[count++] = (CUmemAccessDesc) { location(hosts[below(2)]), host_right };
	if (to_device)
		desc[count++] = (CUmemAccessDesc) { location(CU_MEM_LOCATION_TYPE_DEVICE), right };
	if (wrong)
		desc[count++] = (CUmemAccessDesc) { location(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT), WRITES };
	if (wrong)
		want = INVALID;
	else if (!want && device && to_host)
		want = CUDA_ERROR_NOT_SUPPORTED;
	if (!expect(ACCESS, cuMemSetAccess(at(r, from), (to - from) * PIECE, desc, count), want))
		return false;
	came[HOST_RIGHT_REFUSED] += want == CUDA_ERROR_NOT_SUPPORTED;
	came[HOST_RIGHT] += !want && to_host && host_right;
	for (unsigned int i = from; !want && i < to; i++) {
		if (to_device)
			r->place[i].right = right;
		if (to_host)
			r->place[i].host = host_right;
	}
	return true;
}

/* A right of a mapping, its handle's properties, and its addresses. */
static bool get_access(void)
{
	static const CUmemLocationType types[] = {
		CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST_NUMA,
	};
	const CUmemLocation none = location(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT);
	const CUmemLocation here = location(types[below(3)]);
	struct reservation *r = any_reservation();
	unsigned long long right = 99;
	unsigned int i, want;
	CUmemAllocationProp prop;
	const struct place *p;
	CUdeviceptr base, in;
	size_t size;

	if (!r)
		return true;
	i = below(r->places);
	p = &r->place[i];
	in = at(r, i) + below(PIECE);
	if (!expect(GET_ACCESS, cuMemGetAccess(&right, &none, in), CUDA_ERROR_INVALID_DEVICE) || right != 99)
		return false;
	if (!expect(GET_ACCESS, cuMemGetAccess(&right, &here, in), p->handle ? CUDA_SUCCESS : INVALID))
		return false;
	/* Memory to which no device has a right has no address range. */
	if (!expect(GET_ACCESS, cuMemGetAddressRange(&base, &size, in),
		    p->handle && p->right ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND))
		return false;
	if (!p->handle)
		return true;
	/* The host as a whole has the rights of all locations. */
	want = here.type == CU_MEM_LOCATION_TYPE_DEVICE ? p->right :
		here.type == CU_MEM_LOCATION_TYPE_HOST ? p->right | p->host : p->host;
	if (right != want || (p->right && (base != at(r, i - p->piece) ||
					   size != p->handle->memory->pieces * PIECE))) {
		printf("# right %llu of location type %d, not %u\n", right, here.type, want);
		return false;
	}
	if (!expect(GET_ACCESS, cuMemGetAllocationPropertiesFromHandle(&prop, p->handle->value),
		    p->handle->refs ? CUDA_SUCCESS : INVALID))
		return false;
	return !p->handle->refs || (prop.location.type == p->handle->memory->where &&
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

/* The same of the right of host locations. */
static bool host_permits(const struct reservation *r, unsigned int from, unsigned int to, unsigned int right)
{
	for (unsigned int i = from; i < to; i++)
		if (!r->place[i].handle || (r->place[i].host & right) != right)
			return false;
	return true;
}

/*
 * Whether a copy may have an end at a range of places.  The engine accesses it with the device's right, or else the
 * CPU with the right of host locations.
 */
static bool copy_permits(const struct reservation *r, unsigned int from, unsigned int to, unsigned int right)
{
	return permits(r, from, to, right) || host_permits(r, from, to, right);
}

/* Count what a copy that was done at a range of places shows. */
static void copy_note(const struct reservation *r, unsigned int from, unsigned int to, unsigned int right)
{
	came[COPY_BY_CPU] += !permits(r, from, to, right);
	for (unsigned int i = from + 1; i < to; i++)
		came[COPY_OVER_KINDS] += of_device(&r->place[i]) != of_device(&r->place[i - 1]);
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
	good = copy_permits(r, to, to + n, WRITES) && copy_permits(s, from, from + n, READS);
	if (!expect(COPY, cuMemcpyDtoD(at(r, to), at(s, from), n * PIECE),
		    good ? CUDA_SUCCESS : INVALID))
		return false;
	/* One copy by the CPU at a time: warm_up() had as much staging memory made as one needs. */
	if (!expect(COPY, cuCtxSynchronize(), CUDA_SUCCESS))
		return false;
	if (good) {
		copy_note(r, to, to + n, WRITES);
		copy_note(s, from, from + n, READS);
	}
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
	good = copy_permits(r, i, i + 1 + both, READS);
	memset(host, 0xee, 2 * WINDOW);
	if (!expect(READ, cuMemcpyDtoH(host, at(r, i) + PIECE - WINDOW, WINDOW << both),
		    good ? CUDA_SUCCESS : INVALID))
		return false;
	if (!good)
		return all_are(host, 0xee, 2 * WINDOW);
	copy_note(r, i, i + 1 + both, READS);
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

/* The CPU has the rights of the device and of host locations together; in strict mode those of host locations. */
static bool by_cpu(void)
{
	struct reservation *r = any_reservation();
	unsigned int may;
	bool readable, writable;
	unsigned char *p;
	unsigned int i;

	if (!r)
		return true;
	i = any_place(r, true);
	p = cpu(at(r, i));
	/* A place where nothing is mapped has no rights. */
	may = r->place[i].host | (strict() ? 0 : r->place[i].right);
	readable = may & READS;
	writable = may == WRITES;
	if (!expect(CPU, cuCtxSynchronize(), CUDA_SUCCESS))
		return false;
	done[CPU] += readable;
	refused[CPU] += !readable;
	came[CPU_BY_HOST] += readable && !(r->place[i].right & READS);
	came[CPU_HOST_READS_ONLY] += readable && !writable && r->place[i].host;
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
		if (memories[i].where == CU_MEM_LOCATION_TYPE_DEVICE)
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

/* Have several copies from memory of the process wait at a time, for more bytes than a copy of the model has. */
static bool warm_up_staging(CUdeviceptr p)
{
	unsigned char *bytes = calloc(2, PIECE);
	volatile cuuint32_t *word;
	CUstream s;
	bool good;

	good = bytes && !cuMemAllocHost((void **)&word, sizeof(*word)) &&
	       !cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) && !gate_put(s, word);
	for (unsigned int i = 0; good && i < MOST_PIECES; i++)
		good = !cuMemcpyHtoDAsync(p, bytes, 2 * PIECE, s);
	if (!good)
		return false;
	gate_open(word);
	good = !cuStreamSynchronize(s) && !cuStreamDestroy(s) && !cuMemFreeHost((void *)word);
	free(bytes);
	return good;
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
	       warm_up_staging(p) && !cuMemcpyDtoD(p, p + PIECE, PIECE) && !cuMemcpyDtoH(host, p, 2 * WINDOW) &&
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
		if (!done[op])
			return false;
		if (!refused[op] && op != RESERVE && op != CLOSE && op != UNMAP)
			return false;
	}
	for (enum event event = 0; event < EVENTS; event++)
		if (!came[event])
			return false;
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
	for (enum event event = 0; event < EVENTS; event++)
		printf("# %s: %u\n", events[event], came[event]);
	EXPECT_TRUE(!cover || covered());
	fflush(stdout);
	ASSERT_TRUE(end_all());
	EXPECT_TRUE(dev_attr_becomes(0, "used", self->before, 5));
}

TEST_HARNESS_MAIN
