// SPDX-License-Identifier: MIT
/*
 * Pools of other processes: handles, exported pointers, imports.
 *
 * Owns the imported pools and what was imported into them. The kernel decides who may import a pool
 * and gives an importer its chunks, whole, by their numbers; what lies where in a chunk only the
 * exporter knows. An exported pointer says: chunk number, offset, size. None of it is believed:
 * the number must be a chunk of this pool, and the rest must lie in it. So an importer reaches the
 * pool's memory and nothing else whatever the 64 bytes contain, and nothing of it is ever written
 * where the exporter or the kernel would read it.
 *
 * A chunk is mapped at the first pointer into it. When the last of them is freed and what came before
 * the frees in their streams is done, it is empty: a few that became so stay, for pointers into the
 * same chunk, and all of them no longer than the import, or the work that was queued when it was
 * destroyed. So an exporter whose chunks come and go leaves nothing behind here. Pointers into a
 * chunk are a sorted array, which lookups read without a lock while its sequence count stays the
 * same; arrays and the cells in them are never given back. The same pointer may be imported twice,
 * and is the same address; two that overlap otherwise cannot both be live in the exporter, and the
 * second is refused.
 *
 * From its first export on, a chunk is not touched inline by the exporter.
 *
 * Locks: pool->lock of the import; cells_lock for unused cells; channel_lock.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "pool.h"
#include "ring.h"

#define DATA_MAGIC	0x70746770	/* "pgtp" */
#define FABRIC_MAGIC	0x62666770	/* "pgfb" */
#define VERSION		1
#define CHANNELS	"/dev/" GPUMEM_CHANNELS_NAME
#define EMPTY_CHUNKS	8u		/* of a pool */
#define EMPTY_BYTES	(64ull << 20)	/* the same */

/* What is in a CUmemPoolPtrExportData; the rest is zero. */
struct data {
	uint32_t magic;
	uint32_t version;
	uint8_t name[16];		/* of the pool; an error if it is another's */
	uint64_t chunk;
	uint64_t offset;
	uint64_t size;
};

/* What is in a CUmemFabricHandle; the rest is zero. */
struct fabric {
	uint32_t magic;
	uint32_t version;
	uint8_t token[GPUMEM_TOKEN_SIZE];
};

_Static_assert(sizeof(struct data) <= sizeof(CUmemPoolPtrExportData), "64 bytes");
_Static_assert(sizeof(struct fabric) <= sizeof(CUmemFabricHandle), "64 bytes");

struct import {
	uint32_t seq;			/* odd while the array changes */
	uint32_t count;			/* atomic */
	uint32_t room;
	struct cell **list;		/* by base; atomic */
	/* pool->lock, as all that follows */
	struct moment *freed;		/* before these the chunk may be in use */
	uint32_t moments, moments_room;
	bool stays;			/* no memory to note them all */
};

static struct lock cells_lock;
static struct cell *unused_cells;	/* cells_lock */
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

/* The visible device with an index in the client. */
static CUdevice device_of_index(unsigned int index)
{
	unsigned int i;

	for (i = 0; i < client.devices; i++)
		if (client.device[i].index == index)
			return i;
	return CU_DEVICE_INVALID;
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
	int error;

	if (!out || flags || (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
			      type != CU_MEM_HANDLE_TYPE_FABRIC))
		return CUDA_ERROR_INVALID_VALUE;
	if (type == CU_MEM_HANDLE_TYPE_FABRIC) {
		if (!handle)
			return CUDA_ERROR_INVALID_VALUE;
		memcpy(&fabric, handle, sizeof(fabric));
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
	/* Whoever waits for work looks at all pools. */
	lock_take(&pool->lock);
	memcpy(pool->name, info.name, sizeof(pool->name));
	pool->device = device;
	pool->location = (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device };
	pool->handle_types = type;
	pool->access = 1u << device;
	pool->id = import.id;
	pool->live_imports = 0;
	store_relaxed(&pool->empty, 0);
	pool->empty_bytes = 0;
	pool->trim_at = 0;
	store_relaxed(&pool->flags, POOL_IMPORT |
		      (import.pool_flags & GPUMEM_POOL_HOST ? POOL_HOST : 0));
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

/* How many begin at or below an address. */
static uint32_t list_find(struct cell *const *list, uint32_t count, uint64_t addr)
{
	uint32_t low = 0, high = count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		struct cell *cell = load_relaxed(&list[middle]);

		if (cell && load_relaxed(&cell->base) <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

enum found import_lookup(struct import *imports, uint64_t addr, struct span *span)
{
	uint32_t seq = load_acquire(&imports->seq), count, found;
	struct cell *cell = NULL;
	struct cell **list;

	if (seq & 1)
		return CHANGING;
	/* The count is stored after the array that has room for it. */
	count = load_acquire(&imports->count);
	list = load_acquire(&imports->list);
	found = count ? list_find(list, count, addr) : 0;
	if (found)
		cell = load_relaxed(&list[found - 1]);
	if (cell) {
		span->base = load_relaxed(&cell->base);
		span->size = load_relaxed(&cell->size);
		span->id = load_relaxed(&cell->id);
		span->flags = load_relaxed(&cell->flags);
		span->marks = &cell->flags;
	}
	fence_acquire();
	if (load_relaxed(&imports->seq) != seq)
		return CHANGING;
	return cell && addr - span->base < span->size ? FOUND : NOTHING;
}

static void list_begin(struct import *imports)
{
	store_relaxed(&imports->seq, imports->seq + 1);
	fence_release();
}

static void list_end(struct import *imports)
{
	store_release(&imports->seq, imports->seq + 1);
}

static struct cell *cell_get(void)
{
	struct cell *cell;

	lock_take(&cells_lock);
	cell = unused_cells;
	if (cell)
		unused_cells = cell->next;
	lock_drop(&cells_lock);
	return cell ? cell : calloc(1, sizeof(*cell));
}

static void cell_put(struct cell *cell)
{
	lock_take(&cells_lock);
	cell->next = unused_cells;
	unused_cells = cell;
	lock_drop(&cells_lock);
}

static bool list_make_room(struct import *imports)
{
	uint32_t room = imports->room ? 2 * imports->room : 16;
	struct cell **list;

	if (imports->count < imports->room)
		return true;
	list = calloc(room, sizeof(*list));
	if (!list)
		return false;
	if (imports->count)
		memcpy(list, imports->list, imports->count * sizeof(*list));
	/* The old one may have readers. */
	store_release(&imports->list, list);
	imports->room = room;
	return true;
}

static CUresult list_add(struct import *imports, uint32_t at, uint64_t base, uint64_t size)
{
	struct cell *cell;
	uint32_t i;

	if (!list_make_room(imports))
		return CUDA_ERROR_OUT_OF_MEMORY;
	cell = cell_get();
	if (!cell)
		return CUDA_ERROR_OUT_OF_MEMORY;
	list_begin(imports);
	store_relaxed(&cell->base, base);
	store_relaxed(&cell->size, size);
	store_relaxed(&cell->id, mem_new_ids(1));
	store_relaxed(&cell->flags, 0);
	for (i = imports->count; i > at; i--)
		store_relaxed(&imports->list[i], imports->list[i - 1]);
	store_relaxed(&imports->list[at], cell);
	store_release(&imports->count, imports->count + 1);
	list_end(imports);
	return CUDA_SUCCESS;
}

static void list_remove(struct import *imports, uint32_t at)
{
	struct cell *cell = imports->list[at];

	list_begin(imports);
	store_release(&imports->count, imports->count - 1);
	for (; at < imports->count; at++)
		store_relaxed(&imports->list[at], imports->list[at + 1]);
	store_relaxed(&cell->size, 0);
	list_end(imports);
	cell_put(cell);
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

	if (!imports || imports->count)
		return false;
	if (imports->stays) {
		bool busy = false;

		queues_busy(queue_noted, &busy);
		imports->stays = busy;
	}
	moments_tidy(imports);
	return !imports->moments && !imports->stays;
}

/* The newest of them may be as large as it likes. */
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
	/* Those that are left are in use: look again when there are twice as many. */
	pool->trim_at = too_many(pool) ? 2 * pool->empty : 0;
}

/* One more is empty, or is going to be there. */
static void empty_trim(pool_t *pool)
{
	if (pool->empty >= pool->trim_at)
		import_trim(pool, false);
}

/* ---- pointers: the importer */

/* The chunk of a number, mapped; pool->lock is held. */
static CUresult chunk_open(pool_t *pool, uint64_t number, struct chunk **out)
{
	struct gpumem_pool_chunk_open open = {
		.size = sizeof(open), .pool = pool->id, .chunk = number,
	};
	struct chunk *chunk;
	struct import *imports;
	CUresult result;
	int error;

	for (chunk = pool->chunks; chunk; chunk = chunk->next)
		if (chunk->number == number) {
			*out = chunk;
			return CUDA_SUCCESS;
		}
	if (client.strict) {
		result = copy_reserve(pool->device);
		if (result)
			return result;
	}
	empty_trim(pool);
	error = client_ioctl(GPUMEM_POOL_CHUNK_OPEN, &open);
	if (error)
		return result_of_errno(error);
	result = chunk_adopt(pool, pool->device, open.id, open.length, number, &chunk);
	if (result)
		return result;
	/* A structure that was an import before has its list still. */
	if (!chunk->imports) {
		imports = calloc(1, sizeof(*imports));
		if (!imports) {
			chunk_destroy(chunk);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		store_release(&chunk->imports, imports);
	}
	chunk->imports->moments = 0;
	chunk->imports->stays = false;
	empty_add(pool, chunk);
	*out = chunk;
	return CUDA_SUCCESS;
}

CUresult pool_import_pointer(uint64_t *ptr, pool_t *pool, const CUmemPoolPtrExportData *in)
{
	struct import *imports;
	struct chunk *chunk = NULL;
	struct data data;
	CUresult result;
	uint64_t base;
	uint32_t at;

	if (!ptr || !in || !pool_valid(pool))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&data, in, sizeof(data));
	if (data.magic != DATA_MAGIC || data.version != VERSION || !data.size)
		return CUDA_ERROR_INVALID_VALUE;
	lock_take(&pool->lock);
	/* Its chunks have no list if it is none that was imported. */
	if (!pool_valid(pool) || !(load_relaxed(&pool->flags) & POOL_IMPORT) ||
	    memcmp(data.name, pool->name, sizeof(data.name)))
		result = CUDA_ERROR_INVALID_VALUE;
	else
		result = chunk_open(pool, data.chunk, &chunk);
	if (result)
		goto out;
	if (data.size > chunk->block->mapped || data.offset > chunk->block->mapped - data.size) {
		result = CUDA_ERROR_INVALID_VALUE;
		goto out;
	}
	imports = chunk->imports;
	base = chunk->block->base + data.offset;
	at = list_find(imports->list, imports->count, base + data.size - 1);
	if (at && imports->list[at - 1]->base + imports->list[at - 1]->size > base) {
		if (imports->list[at - 1]->base != base ||
		    imports->list[at - 1]->size != data.size)
			result = CUDA_ERROR_INVALID_VALUE;
	} else {
		result = list_add(imports, at, base, data.size);
		if (!result) {
			pool->live_imports++;
			if (imports->count == 1)
				empty_remove(pool, chunk);
		}
	}
	if (!result)
		*ptr = base;
out:
	lock_drop(&pool->lock);
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
	uint32_t at;

	if (stream) {
		CUresult known = stream_moment(stream, &freed.queue, &freed.value);

		if (known)
			return known;
	}
	lock_take(&pool->lock);
	imports = load_relaxed(&chunk->imports);
	at = chunk->pool == pool && imports ? list_find(imports->list, imports->count, ptr) : 0;
	if (at && imports->list[at - 1]->base == ptr) {
		list_remove(imports, at - 1);
		pool->live_imports--;
		if (stream)
			moment_add(imports, freed.queue, freed.value);
		else
			queues_busy(moment_add_busy, imports);
		if (!imports->count) {
			empty_add(pool, chunk);
			empty_trim(pool);
		}
		result = CUDA_SUCCESS;
	}
	lock_drop(&pool->lock);
	return result;
}

/* ---- the end of an import */

void import_reap(pool_t *pool)
{
	unsigned int i;

	/* Nobody comes back to one that has nothing to wait with. */
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
	bool ended;

	lock_take(&pool->lock);
	if (load_relaxed(&pool->magic) != POOL_MAGIC || pool->live_imports)
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result)
		queues_busy(busy_add, &busy);
	if (!result && busy.count) {
		/* Work that is queued from now on cannot be meant. */
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
	ended = pool_end(pool);
	lock_drop(&pool->lock);
	if (ended)
		pool_put(pool);
	return CUDA_SUCCESS;
}
