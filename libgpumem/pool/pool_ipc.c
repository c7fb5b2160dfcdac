// SPDX-License-Identifier: MIT
/*
 * Pools of other processes: handles, exported pointers, imports.
 *
 * Owns the imported pools and their pointers. The kernel decides which processes may import a pool, and gives
 * an importer whole chunks by their numbers. Only the exporter knows the blocks of a chunk. An exported pointer
 * contains a chunk number, an offset and a size. The importer trusts none of it: the number must be a chunk of
 * this pool, and the range must lie in it. With any 64 bytes, an importer reaches only the pool's memory, and
 * writes nothing that the exporter or the kernel reads.
 *
 * A chunk is mapped with the first pointer into it. A chunk without pointers is empty. It may be unmapped when
 * the work before the frees of its pointers is complete. A few empty chunks stay mapped for later pointers.
 * Destroying the import unmaps them, after the work that is queued then. So chunks that the exporter has given
 * back do not accumulate in the importer.
 *
 * The pointers into a chunk are a sorted list (core/sorted.h), which lookups read without a lock. The list's
 * cells are never returned to malloc(); they are used again. If a pointer is imported twice, both have the same
 * address. Two different pointers that overlap cannot both be live in the exporter, so the second is refused.
 *
 * A chunk is opened and mapped without the lock. A thread that needs the same chunk waits for the first thread:
 * a chunk is mapped at one place.
 *
 * After the first export from a chunk, the exporter does not copy or fill its memory inline.
 *
 * Locks: pool->lock of the import; inside it import_cells_lock for unused cells. channel_lock for the channel.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "pool/pool_chunks.h"
#include "pool/pool_pages.h"

#define DATA_MAGIC	0x70746770	/* "pgtp" */
#define FABRIC_MAGIC	0x62666770	/* "pgfb" */
#define VERSION		1
#define CHANNELS	"/dev/" GPUMEM_CHANNELS_NAME
#define EMPTY_CHUNKS	8u		/* of a pool */
#define EMPTY_BYTES	(64ull << 20)	/* the same */

/* The contents of a CUmemPoolPtrExportData; the remaining bytes are zero. */
struct data {
	uint32_t magic;
	uint32_t version;
	uint8_t name[16];		/* of the pool; must be the importing pool's */
	uint64_t chunk;
	uint64_t offset;
	uint64_t size;
};

/* The contents of a CUmemFabricHandle; the remaining bytes are zero. */
struct fabric {
	uint32_t magic;
	uint32_t version;
	uint8_t token[GPUMEM_TOKEN_SIZE];
};

_Static_assert(sizeof(struct data) <= sizeof(CUmemPoolPtrExportData), "64 bytes");
_Static_assert(sizeof(struct fabric) <= sizeof(CUmemFabricHandle), "64 bytes");

struct import {
	struct sorted list;		/* of cells; pool->lock to change */
	/* pool->lock, as all that follows */
	struct moment *freed;		/* work may use the chunk until all are reached */
	uint32_t moments, moments_room;	/* entries of @freed in use, and allocated */
	bool stays;			/* a moment could not be stored: wait for all work */
};

/* On the stack of a thread that opens a chunk. */
struct opening {
	struct opening *next, **link;
	uint64_t number;
};

static struct lock import_cells_lock;
static struct cell *unused_import_cells;	/* import_cells_lock */
static struct lock channel_lock;
static bool channel_held;		/* channel_lock */

/* ---- channels */

/* Attach the first channel that may be opened. channel_lock is held. */
static CUresult channel_attach(void)
{
	CUresult result = CUDA_ERROR_NOT_PERMITTED;
	struct dirent *entry;
	DIR *dir = opendir(CHANNELS);

	while (result && dir && (entry = readdir(dir))) {
		struct gpumem_channel_attach attach = { .size = sizeof(attach) };
		int error;

		if (strncmp(entry->d_name, "channel", 7))
			continue;
		attach.fd = openat(dirfd(dir), entry->d_name, O_RDWR | O_CLOEXEC);
		if (attach.fd < 0)
			continue;
		error = client_ioctl(GPUMEM_CHANNEL_ATTACH, &attach);
		close(attach.fd);
		if (!error)
			result = CUDA_SUCCESS;
	}
	if (dir)
		closedir(dir);
	return result;
}

CUresult channel_hold(void)
{
	CUresult result = CUDA_SUCCESS;
	int state;

	/* Opening and closing are cancellation points, which would leave the lock taken. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	lock_take(&channel_lock);
	if (!channel_held) {
		result = channel_attach();
		channel_held = !result;
	}
	lock_drop(&channel_lock);
	pthread_setcancelstate(state, NULL);
	return result;
}

/* ---- pools */

CUresult pool_export(void *handle, pool_t *pool, int type, unsigned long long flags)
{
	struct gpumem_pool_export export = { .size = sizeof(export) };
	struct fabric fabric = { .magic = FABRIC_MAGIC, .version = VERSION };
	CUresult result;
	int error;

	if (!handle || flags || !pool_usable(pool) || !(pool->handle_types & type) ||
	    (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
	     type != CU_MEM_HANDLE_TYPE_FABRIC))
		return CUDA_ERROR_INVALID_VALUE;
	if (type == CU_MEM_HANDLE_TYPE_FABRIC) {
		result = channel_hold();
		if (result)
			return result;
		export.flags = GPUMEM_POOL_EXPORT_FABRIC | scope_pool_flags();
	}
	export.id = pool->id;
	error = client_ioctl(GPUMEM_POOL_EXPORT, &export);
	if (error)
		return error == EPERM ? scope_refused() : result_of_errno(error);
	if (type == CU_MEM_HANDLE_TYPE_FABRIC) {
		memcpy(fabric.token, export.token, sizeof(fabric.token));
		memset(handle, 0, sizeof(CUmemFabricHandle));
		memcpy(handle, &fabric, sizeof(fabric));
	} else {
		memcpy(handle, &export.fd, sizeof(export.fd));
	}
	return CUDA_SUCCESS;
}

static CUresult import_error(int error)
{
	switch (error) {
	case EBADF:
	case EINVAL:
		return CUDA_ERROR_UNKNOWN;
	case EPERM:
		return CUDA_ERROR_NOT_PERMITTED;
	case EACCES:
		return CUDA_ERROR_INVALID_DEVICE;
	default:
		return result_of_errno(error);
	}
}

CUresult pool_import(CUmemoryPool *out, void *handle, int type, unsigned long long flags)
{
	struct gpumem_pool_import import = { .size = sizeof(import) };
	struct gpumem_pool_info info = { .size = sizeof(info) };
	struct fabric fabric;
	CUresult result;
	CUdevice device;
	pool_t *pool;
	bool host;
	int error;

	/* As recorded, descriptor 0 is refused. */
	if (!out || !handle || flags)
		return CUDA_ERROR_INVALID_VALUE;
	/* The output may lie where the handle does. */
	if (type == CU_MEM_HANDLE_TYPE_FABRIC)
		memcpy(&fabric, handle, sizeof(fabric));
	*out = NULL;
	if (type == CU_MEM_HANDLE_TYPE_WIN32)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && type != CU_MEM_HANDLE_TYPE_FABRIC)
		return CUDA_ERROR_INVALID_VALUE;
	if (type == CU_MEM_HANDLE_TYPE_FABRIC) {
		if (fabric.magic != FABRIC_MAGIC || fabric.version != VERSION)
			return CUDA_ERROR_INVALID_VALUE;
		result = channel_hold();
		if (result)
			return result;
		import.flags = GPUMEM_POOL_IMPORT_FABRIC;
		memcpy(import.token, fabric.token, sizeof(import.token));
	} else {
		import.fd = (int)(uintptr_t)handle;
	}
	error = client_ioctl(GPUMEM_POOL_IMPORT, &import);
	if (error)
		return import_error(error);
	device = device_of_index(import.device);
	pool = device == CU_DEVICE_INVALID ? NULL : pool_get();
	if (!pool) {
		client_destroy_id(import.id);
		return device == CU_DEVICE_INVALID ? CUDA_ERROR_INVALID_DEVICE :
			CUDA_ERROR_OUT_OF_MEMORY;
	}
	info.id = import.id;
	error = client_ioctl(GPUMEM_POOL_INFO, &info);
	if (error) {
		client_destroy_id(import.id);
		pool_put(pool);
		return result_of_errno(error);
	}
	/* A thread that has waited for work walks all pools, this one included. */
	lock_take(&pool->lock);
	memcpy(pool->name, info.name, sizeof(pool->name));
	pool->device = device;
	host = import.pool_flags & GPUMEM_POOL_HOST;
	/* Only host memory of a node can be shared. Which node is not known here. */
	pool->location = (CUmemLocation){
		.type = host ? CU_MEM_LOCATION_TYPE_HOST_NUMA : CU_MEM_LOCATION_TYPE_DEVICE,
		.id = host ? 0 : device,
	};
	pool->handle_types = type;
	pool->access = host ? 0 : 1u << device;
	pool->id = import.id;
	pool->live_imports = 0;
	store_relaxed(&pool->empty, 0);
	pool->empty_bytes = 0;
	pool->trim_at = 0;
	store_relaxed(&pool->flags, POOL_IMPORT | (host ? POOL_HOST : 0));
	lock_drop(&pool->lock);
	store_release(&pool->magic, POOL_MAGIC);
	*out = pool;
	return CUDA_SUCCESS;
}

/* ---- pointers: the exporter */

CUresult pool_export_pointer(CUmemPoolPtrExportData *out, uint64_t ptr)
{
	struct data data = { .magic = DATA_MAGIC, .version = VERSION };
	struct chunk *chunk;
	struct span span;

	if (!out || !ptr || !vm_lookup(ptr, &span) || span.base != ptr || !span.pool ||
	    span.flags & ALLOC_IMPORTED || !span.pool->handle_types || !span.pool->id)
		return CUDA_ERROR_INVALID_VALUE;
	chunk = vm_chunk(ptr);
	if (!chunk)
		return CUDA_ERROR_INVALID_VALUE;
	/* From here on the memory is not touched inline. */
	__atomic_fetch_or(&chunk->flags, ALLOC_EXPORTED, __ATOMIC_SEQ_CST);
	memcpy(data.name, span.pool->name, sizeof(data.name));
	data.chunk = chunk->number;
	data.offset = ptr - span.block_base;
	data.size = span.size;
	memset(out, 0, sizeof(*out));
	memcpy(out, &data, sizeof(data));
	return CUDA_SUCCESS;
}

/* ---- what is imported into a chunk */

static uint64_t cell_address(const void *cell)
{
	return load_relaxed(&((const struct cell *)cell)->base);
}

enum found import_lookup(struct import *imports, uint64_t addr, struct span *span)
{
	uint32_t seq = seq_read_begin(&imports->list.seq);
	struct cell *cell;

	if (seq_changing(seq))
		return CHANGING;
	cell = sorted_last(&imports->list, load_acquire(&imports->list.count), addr, cell_address);
	if (cell) {
		span->base = load_relaxed(&cell->base);
		span->size = load_relaxed(&cell->size);
		span->id = load_relaxed(&cell->id);
		span->flags = load_relaxed(&cell->flags) & CELL_FLAGS;
		span->marks = &cell->flags;
	}
	if (seq_read_retry(&imports->list.seq, seq))
		return CHANGING;
	return cell && addr - span->base < span->size ? FOUND : NOTHING;
}

static struct cell *import_cell_get(void)
{
	struct cell *cell;

	lock_take(&import_cells_lock);
	cell = unused_import_cells;
	if (cell)
		unused_import_cells = cell->next;
	lock_drop(&import_cells_lock);
	return cell ? cell : calloc(1, sizeof(*cell));
}

static void import_cell_put(struct cell *cell)
{
	lock_take(&import_cells_lock);
	cell->next = unused_import_cells;
	unused_import_cells = cell;
	lock_drop(&import_cells_lock);
}

static CUresult import_add(struct import *imports, uint64_t at, uint64_t base, uint64_t size)
{
	struct cell *cell;
	uint32_t seq;

	if (!sorted_make_room(&imports->list, 16))
		return CUDA_ERROR_OUT_OF_MEMORY;
	cell = import_cell_get();
	if (!cell)
		return CUDA_ERROR_OUT_OF_MEMORY;
	/*
	 * Before the cell is filled: a reader of the list that the cell was in may still read it. The release
	 * fence lets that reader see the new count of its own list.
	 */
	seq = seq_write_begin(&imports->list.seq);
	store_relaxed(&cell->base, base);
	store_relaxed(&cell->size, size);
	store_relaxed(&cell->id, mem_new_ids(1));
	store_relaxed(&cell->flags, 0);
	sorted_add(&imports->list, at, cell);
	seq_write_end(&imports->list.seq, seq);
	return CUDA_SUCCESS;
}

static void import_remove(struct import *imports, uint64_t at)
{
	struct cell *cell = imports->list.entry[at];
	uint32_t seq = seq_write_begin(&imports->list.seq);

	sorted_remove(&imports->list, at);
	store_relaxed(&cell->size, 0);
	seq_write_end(&imports->list.seq, seq);
	import_cell_put(cell);
}

/* ---- chunks without pointers; pool->lock is held */

static void moments_tidy(struct import *imports)
{
	uint32_t i, left = 0;

	for (i = 0; i < imports->moments; i++)
		if (!queue_reached(imports->freed[i].queue, imports->freed[i].value))
			imports->freed[left++] = imports->freed[i];
	imports->moments = left;
}

/* The chunk may be in use until @value of @queue. */
static void moment_add(struct import *imports, struct queue *queue, uint64_t value)
{
	struct moment *freed;
	uint32_t i, room;

	if (!queue)
		return;
	for (i = 0; i < imports->moments; i++)
		if (imports->freed[i].queue == queue) {
			if (imports->freed[i].value < value)
				imports->freed[i].value = value;
			return;
		}
	if (imports->moments == imports->moments_room)
		moments_tidy(imports);
	if (imports->moments == imports->moments_room) {
		room = 2 * imports->moments_room + 4;
		freed = realloc(imports->freed, room * sizeof(*freed));
		if (!freed) {
			imports->stays = true;
			return;
		}
		imports->freed = freed;
		imports->moments_room = room;
	}
	imports->freed[imports->moments++] = (struct moment){ .queue = queue, .value = value };
}

static void queue_noted(struct queue *queue, uint64_t value, void *any)
{
	(void)queue;
	(void)value;
	*(bool *)any = true;
}

static bool chunk_over(const struct chunk *chunk)
{
	struct import *imports = chunk->imports;

	if (!imports || imports->list.count)
		return false;
	if (imports->stays) {
		bool busy = false;

		queues_busy(queue_noted, &busy);
		imports->stays = busy;
	}
	moments_tidy(imports);
	return !imports->moments && !imports->stays;
}

/* Whether there are too many empty chunks. One chunk is allowed whatever its length. */
static bool too_many(const pool_t *pool)
{
	return pool->empty > EMPTY_CHUNKS || (pool->empty > 1 && pool->empty_bytes > EMPTY_BYTES);
}

static void empty_add(pool_t *pool, const struct chunk *chunk)
{
	store_relaxed(&pool->empty, pool->empty + 1);
	pool->empty_bytes += chunk->block->mapped;
}

static void empty_remove(pool_t *pool, const struct chunk *chunk)
{
	store_relaxed(&pool->empty, pool->empty - 1);
	pool->empty_bytes -= chunk->block->mapped;
}

void import_trim(pool_t *pool, bool all)
{
	struct chunk *chunk, *newer;

	if (!all && !too_many(pool))
		return;
	for (chunk = pool->chunks; chunk && chunk->next; chunk = chunk->next)
		;
	for (; chunk && (all || too_many(pool)); chunk = newer) {
		newer = chunk->prev;
		if (!chunk_over(chunk))
			continue;
		empty_remove(pool, chunk);
		chunk_destroy(chunk);
	}
	/* The remaining chunks are in use: look again when there are twice as many. */
	pool->trim_at = too_many(pool) ? 2 * pool->empty : 0;
}

/* Called when one more chunk is empty, or is about to be. */
static void empty_trim(pool_t *pool)
{
	if (pool->empty >= pool->trim_at)
		import_trim(pool, false);
}

/* ---- pointers: the importer */

/* Whether a pointer may be imported into a pool. pool->lock is held. */
static bool import_live(const pool_t *pool, const struct data *data)
{
	/* Only chunks of an imported pool have a list of pointers. */
	return pool_valid(pool) && load_relaxed(&pool->flags) & POOL_IMPORT &&
	       !memcmp(data->name, pool->name, sizeof(data->name));
}

static struct chunk *chunk_find(const pool_t *pool, uint64_t number)
{
	struct chunk *chunk;

	for (chunk = pool->chunks; chunk; chunk = chunk->next)
		if (chunk->number == number)
			return chunk;
	return NULL;
}

static bool is_opened(const pool_t *pool, uint64_t number)
{
	struct opening *opening;

	for (opening = pool->openings; opening; opening = opening->next)
		if (opening->number == number)
			return true;
	return false;
}

/* Open and map a chunk that is not in the pool's list yet. No lock is held. */
static CUresult chunk_enter(pool_t *pool, uint64_t number, struct chunk **out)
{
	struct gpumem_pool_chunk_open open = {
		.size = sizeof(open), .pool = pool->id, .chunk = number,
	};
	struct import *imports;
	CUresult result;
	int error;

	if (client.strict) {
		result = stage_reserve(pool->device);
		if (result)
			return result;
	}
	error = client_ioctl(GPUMEM_POOL_CHUNK_OPEN, &open);
	if (error)
		return result_of_errno(error);
	result = chunk_adopt(pool, pool->device, open.id, open.length, number, out);
	if (result)
		return result;
	/* A structure that was an import before still has its list. */
	if (!(*out)->imports) {
		imports = calloc(1, sizeof(*imports));
		if (!imports) {
			chunk_abandon(*out);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		store_release(&(*out)->imports, imports);
	}
	(*out)->imports->moments = 0;
	(*out)->imports->stays = false;
	return CUDA_SUCCESS;
}

/* The chunk that an exported pointer names. pool->lock is held, and dropped while the chunk is opened. */
static CUresult chunk_open(pool_t *pool, const struct data *data, struct chunk **out)
{
	struct opening opening = { .number = data->chunk };
	CUresult result;

	while (import_live(pool, data)) {
		*out = chunk_find(pool, data->chunk);
		if (*out)
			return CUDA_SUCCESS;
		if (!is_opened(pool, data->chunk))
			break;
		growth_await(pool);
	}
	if (!import_live(pool, data))
		return CUDA_ERROR_INVALID_VALUE;
	opening.next = pool->openings;
	opening.link = &pool->openings;
	if (opening.next)
		opening.next->link = &opening.next;
	pool->openings = &opening;
	growth_begin(pool, 0, false);
	empty_trim(pool);
	chunks_return(pool);
	lock_drop(&pool->lock);
	result = chunk_enter(pool, data->chunk, out);
	lock_take(&pool->lock);
	growth_end(pool, 0, false);
	*opening.link = opening.next;
	if (opening.next)
		opening.next->link = opening.link;
	if (result)
		return result;
	chunk_link(pool, *out);
	if (import_live(pool, data)) {
		empty_add(pool, *out);
		return CUDA_SUCCESS;
	}
	chunk_destroy(*out);
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult pool_import_pointer(uint64_t *ptr, pool_t *pool, const CUmemPoolPtrExportData *in)
{
	struct import *imports;
	struct chunk *chunk = NULL;
	struct data data;
	CUresult result;
	struct cell *cell;
	uint64_t base, at;

	if (!ptr || !in || !pool)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&data, in, sizeof(data));
	*ptr = 0;
	if (!pool_valid(pool))
		return CUDA_ERROR_INVALID_VALUE;
	if (data.magic != DATA_MAGIC || data.version != VERSION || !data.size)
		return CUDA_ERROR_INVALID_VALUE;
	lock_take(&pool->lock);
	result = chunk_open(pool, &data, &chunk);
	if (result)
		goto out;
	if (data.size > chunk->block->mapped || data.offset > chunk->block->mapped - data.size) {
		result = CUDA_ERROR_INVALID_VALUE;
		goto out;
	}
	imports = chunk->imports;
	base = chunk->block->base + data.offset;
	at = sorted_find(&imports->list, base + data.size - 1, cell_address);
	cell = at ? imports->list.entry[at - 1] : NULL;
	if (cell && cell->base + cell->size > base) {
		if (cell->base != base || cell->size != data.size)
			result = CUDA_ERROR_INVALID_VALUE;
		else if (pool_is(pool, POOL_HOST))
			/* As recorded: a pointer to device memory may be imported again. */
			result = CUDA_ERROR_ALREADY_MAPPED;
	} else {
		result = import_add(imports, at, base, data.size);
		if (!result) {
			pool->live_imports++;
			if (imports->list.count == 1)
				empty_remove(pool, chunk);
		}
	}
	if (!result)
		*ptr = base;
out:
	pool_leave(pool);
	return result;
}

static void moment_add_busy(struct queue *queue, uint64_t value, void *imports)
{
	moment_add(imports, queue, value);
}

CUresult import_free(uint64_t ptr, struct chunk *chunk, CUstream stream)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	pool_t *pool = chunk->pool;
	struct moment freed = { .queue = NULL };
	struct import *imports;
	uint64_t at;

	if (stream) {
		CUresult known = stream_moment(stream, &freed.queue, &freed.value);

		if (known)
			return known;
	}
	lock_take(&pool->lock);
	imports = load_relaxed(&chunk->imports);
	at = chunk->pool == pool && imports ? sorted_find(&imports->list, ptr, cell_address) : 0;
	if (at && cell_address(imports->list.entry[at - 1]) == ptr) {
		import_remove(imports, at - 1);
		pool->live_imports--;
		if (stream)
			moment_add(imports, freed.queue, freed.value);
		else
			queues_busy(moment_add_busy, imports);
		if (!imports->list.count) {
			empty_add(pool, chunk);
			empty_trim(pool);
		}
		result = CUDA_SUCCESS;
	}
	pool_leave(pool);
	return result;
}

/* ---- the end of an import */

void import_reap(pool_t *pool)
{
	unsigned int i;

	/* A pool without chunks does not wait: no later call would end it. */
	for (i = 0; pool->chunks && i < pool->leaving_count; i++)
		if (!queue_reached(pool->leaving[i].queue, pool->leaving[i].value))
			return;
	free(pool->leaving);
	pool->leaving = NULL;
	pool->leaving_count = 0;
	while (pool->chunks)
		chunk_destroy(pool->chunks);
	store_relaxed(&pool->empty, 0);
	pool->empty_bytes = 0;
}

CUresult import_destroy(pool_t *pool)
{
	struct busy busy = { .room = 0 };
	CUresult result = CUDA_SUCCESS;

	lock_take(&pool->lock);
	if (load_relaxed(&pool->magic) != POOL_MAGIC || pool->live_imports)
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result)
		queues_busy(busy_add, &busy);
	if (!result && busy.count) {
		/* Work that is queued from now on need not be waited for. */
		busy.room = busy.count + 16;
		busy.count = 0;
		busy.moment = calloc(busy.room, sizeof(*busy.moment));
		if (busy.moment)
			queues_busy(busy_add, &busy);
		else
			result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (result) {
		lock_drop(&pool->lock);
		return result;
	}
	store_release(&pool->magic, 0);
	store_relaxed(&pool->flags, pool->flags | POOL_DESTROYED);
	pool->leaving = busy.moment;
	pool->leaving_count = busy.count < busy.room ? busy.count : busy.room;
	import_reap(pool);
	pool_leave(pool);
	giving_wait(pool);
	return CUDA_SUCCESS;
}
