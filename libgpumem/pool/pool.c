// SPDX-License-Identifier: MIT
/*
 * Pools as objects: handles, properties, access, the default and the current pools, and the release of memory to
 * the kernel.
 *
 * Owns all pools. Each pool is also a pool of the kernel, which knows the pool's chunks and limit. The kernel
 * counts the reserved bytes; the library reports the used bytes from time to time. Pools that are not shared
 * also work with a kernel without pools. Managed pools always do: the kernel's pools have no managed memory.
 *
 * A pool that is destroyed while some of its blocks are live has no valid handle, but the program can still
 * free these blocks. The pool's chunks are given back as they become idle, and the pool ends with its last
 * chunk. Structures of pools are never returned to malloc().
 *
 * Pools give memory back in five cases: the process has waited for work (a stream, an event, a context), then
 * down to the release threshold; the program trims or destroys the pool; an allocation, from a pool or not,
 * finds no memory; a pool is about to grow far beyond the most that it ever needed; a pool reaches its limit.
 *
 * A pool stores which devices may reach its memory; exec/peer.c queries that.
 *
 * Locks: pools_lock for the list of pools, defaults, current pools, unused structures, and for invalidating a
 * handle from which a program may allocate. pools_lock is taken outside a pool's lock.
 *
 * Vocabulary: place, a location and a type of allocation, which has a default and a current pool.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "pool/pool_chunks.h"
#include "pool/pool_owner.h"

#define LARGEST		(1ull << 40)	/* the kernel's limit for one object */

struct pool_place {
	struct pool_place *next;
	CUmemLocation location;
	int type;
	pool_t *fallback;		/* the default pool; NULL before its first use */
	pool_t *current;		/* or NULL: the default */
};

static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static pool_t *pools;			/* all structures, newest first; atomic */
static pool_t *unused_pools;		/* pools_lock */
static struct pool_place *pool_places;	/* pools_lock */
pool_t *device_current[GPUMEM_MAX_DEVICES];

static void pools_reclaim(void)
{
	pools_give_back(NULL);
}

/* ---- structures */

/* A structure with the fields that every pool begins with; no magic yet. */
pool_t *pool_get(void)
{
	struct tally *tally;
	pool_t *pool;

	pools_prepare();
	pthread_mutex_lock(&pools_lock);
	pool = unused_pools;
	if (pool) {
		unused_pools = pool->next_unused;
	} else {
		pool = calloc(1, sizeof(*pool));
		if (pool) {
			pool->next = pools;
			mem_reclaim_set(pools_reclaim);
			store_release(&pools, pool);
			sync_gives_back();
		}
	}
	pthread_mutex_unlock(&pools_lock);
	if (!pool)
		return NULL;
	lock_take(&pool->lock);
	pool->handle_types = 0;
	pool->id = 0;
	pool->limit = 0;
	/* A thread may still look at the pool that was in this structure. */
	store_relaxed(&pool->classes, class_table);
	store_relaxed(&pool->threshold, 0);
	store_relaxed(&pool->follow, true);
	store_relaxed(&pool->opportunistic, true);
	store_relaxed(&pool->internal, true);
	store_relaxed(&pool->dirty, false);
	pool->access = 0;
	pool->reserved_high = 0;
	/* Ignore what threads counted for an earlier pool in this structure. */
	pool->used_gone = 0;
	for (tally = pool->tallies; tally; tally = tally->next_of_pool)
		pool->used_gone -= load_relaxed(&tally->used);
	pool_used_reset(pool);
	marks_reset(pool);
	pool->reported_used = 0;
	pool->reported_high = 0;
	pool->reported_reserved = 0;
	lock_drop(&pool->lock);
	return pool;
}

void pool_put(pool_t *pool)
{
	pthread_mutex_lock(&pools_lock);
	pool->next_unused = unused_pools;
	unused_pools = pool;
	pthread_mutex_unlock(&pools_lock);
}

uint64_t pool_most(const pool_t *pool)
{
	return pool_is(pool, POOL_HOST | POOL_MANAGED) ? LARGEST : fault_total(pool->device);
}

int pool_handle_types(pool_t *pool)
{
	return pool->handle_types;
}

bool pool_beyond(void)
{
	static int beyond = -1;		/* atomic */
	int value = load_relaxed(&beyond);

	if (value < 0) {
		const char *text = getenv("GPUMEM_POOL_IPC");

		value = text && !strcmp(text, "1");
		store_relaxed(&beyond, value);
	}
	return value;
}

void pool_tell(pool_t *pool)
{
	struct gpumem_pool_set set = { .size = sizeof(set), .id = pool->id };

	if (!pool->id || pool_is(pool, POOL_IMPORT))
		return;
	pool_used_merge(pool);
	set.used = pool_used(pool);
	set.used_high = pool->used_high;
	set.reserved_high = pool->reserved_high;
	if (set.used == pool->reported_used && set.used_high == pool->reported_high &&
	    set.reserved_high == pool->reported_reserved)
		return;
	pool->reported_used = set.used;
	pool->reported_high = set.used_high;
	pool->reported_reserved = set.reserved_high;
	client_ioctl(GPUMEM_POOL_SET, &set);
}

/* ---- giving memory back */

/* End a pool that has no valid handle and no memory. */
static void pool_finish(pool_t *pool)
{
	if (pool->id)
		client_destroy_id(pool->id);
	pool->id = 0;
	/*
	 * An imported pool keeps POOL_IMPORT until its structure is used again: pool_usable() must never accept
	 * it.
	 */
	store_relaxed(&pool->flags, load_relaxed(&pool->flags) & POOL_IMPORT);
}

/* True: the pool was destroyed and has no chunk left. pool->lock is held. */
static bool pool_end(pool_t *pool)
{
	if (!pool_is(pool, POOL_DESTROYED) || pool->chunks || pool->doomed ||
	    pool->visitors)
		return false;
	pool_finish(pool);
	return true;
}

void pool_leave(pool_t *pool)
{
	bool ended;

	chunks_return(pool);
	ended = pool_end(pool);
	lock_drop(&pool->lock);
	if (ended)
		pool_put(pool);
}

/* pool->lock is held. */
static void release_excess(pool_t *pool)
{
	bool destroyed = pool_is(pool, POOL_DESTROYED);
	uint64_t threshold = destroyed ? 0 : load_relaxed(&pool->threshold);
	struct taker taker;
	struct heap *heap;
	unsigned int class;
	bool dirty;

	if (pool->reserved <= threshold)
		return;
	dirty = load_relaxed(&pool->dirty) || pool->oldest || pool->idle;
	for (heap = pool->heaps; heap && !dirty; heap = heap->next_of_pool)
		dirty = load_relaxed(&heap->dirty);
	if (!dirty)
		return;
	taker_init(&taker, pool, NULL);
	taker.exhausted = destroyed;
	pool_drain(pool, &taker);
	/* Later calls may release what this call could not. */
	dirty = pool->late || pool->withheld;
	for (class = 0; class < CLASSES && !dirty; class++)
		dirty = pool->free_list[class].count;
	store_relaxed(&pool->dirty, dirty);
	chunks_release(pool, threshold, true);
	if (destroyed)
		chunks_forget(pool);
}

void pools_release_excess(void)
{
	pool_t *pool;

	mem_free_late();
	for (pool = load_acquire(&pools); pool; pool = pool->next) {
		uint32_t flags = load_relaxed(&pool->flags);

		if (!(flags & POOL_DESTROYED) && !load_relaxed(&pool->empty) &&
		    load_relaxed(&pool->reserved) <= load_relaxed(&pool->threshold)) {
			pool_quarantine_fill(pool);
			continue;
		}
		pool_quarantine_release(pool);
		late_look(pool);
		lock_take(&pool->lock);
		/* Before the lock was taken, the structure may have become another pool. */
		flags = load_relaxed(&pool->flags);
		if (!(flags & POOL_IMPORT))
			release_excess(pool);
		else if (flags & POOL_DESTROYED)
			import_reap(pool);
		else
			import_trim(pool, false);
		pool_leave(pool);
	}
}

void pools_give_back(pool_t *only)
{
	struct taker taker;
	pool_t *pool;

	for (pool = load_acquire(&pools); pool; pool = pool->next) {
		if (only && pool != only)
			continue;
		pool_quarantine_release(pool);
		late_look(pool);
		lock_take(&pool->lock);
		if (pool_is(pool, POOL_IMPORT)) {
			if (pool_valid(pool))
				import_trim(pool, true);
		} else if (pool->chunks) {
			taker_init(&taker, pool, NULL);
			taker.exhausted = true;
			pool_drain(pool, &taker);
			chunks_release(pool, 0, true);
			chunks_forget(pool);
		}
		pool_leave(pool);
	}
	mem_free_late();
	if (!only)
		quarantine_flush();
	/* Other threads may be giving back memory that has left their lists. */
	giving_wait(NULL);
}

pool_t *pool_quarantined_first(void)
{
	uint64_t since, oldest = UINT64_MAX;
	pool_t *pool, *first = NULL;

	for (pool = load_acquire(&pools); pool; pool = pool->next) {
		since = load_acquire(&pool->quarantined) ? load_relaxed(&pool->quarantined_since) : UINT64_MAX;
		if (since >= oldest)
			continue;
		oldest = since;
		first = pool;
	}
	return first;
}

void pools_verify(void)
{
	pool_t *pool;

	for (pool = load_acquire(&pools); pool; pool = pool->next)
		pool_quarantine_verify(pool);
}

/* Called after a block of the pool was freed, for the case that the pool was destroyed. */
void pool_reap(pool_t *pool)
{
	struct taker taker;

	if (!pool_is(pool, POOL_DESTROYED) || pool_is(pool, POOL_IMPORT))
		return;
	taker_init(&taker, pool, NULL);
	taker.exhausted = true;
	pool_drain(pool, &taker);
	chunks_release(pool, 0, true);
	chunks_forget(pool);
}

CUresult pool_trim(pool_t *pool, uint64_t keep)
{
	struct taker taker;

	if (!pool_usable(pool))
		return CUDA_ERROR_INVALID_VALUE;
	pool_quarantine_release(pool);
	late_look(pool);
	lock_take(&pool->lock);
	taker_init(&taker, pool, NULL);
	pool_drain(pool, &taker);
	chunks_release(pool, keep, false);
	chunks_forget(pool);
	pool_tell(pool);
	pool_leave(pool);
	/* The caller may rely on the reserved bytes when this returns. */
	giving_wait(pool);
	return CUDA_SUCCESS;
}

/* ---- making and destroying */

/* SUCCESS if memory of a type can be at a location. */
static CUresult place_known(const CUmemLocation *location, int type)
{
	bool valid = false;

	if (type != CU_MEM_ALLOCATION_TYPE_PINNED && type != CU_MEM_ALLOCATION_TYPE_MANAGED)
		return CUDA_ERROR_INVALID_VALUE;
	switch (location->type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		valid = device_valid(location->id);
		break;
	case CU_MEM_LOCATION_TYPE_HOST:
		valid = true;
		break;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		return node_known(location->id);
	case CU_MEM_LOCATION_TYPE_NONE:
		valid = type == CU_MEM_ALLOCATION_TYPE_MANAGED;
		break;
	default:
		break;
	}
	return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUmemLocation pool_location(CUmemoryPool pool)
{
	return pool->location;
}

/* As recorded, unknown types of location are NOT_SUPPORTED. INVISIBLE is known, and no pool has it. */
static CUresult place_check(const CUmemLocation *location, int type)
{
	CUresult result = place_known(location, type);

	return result && (unsigned int)location->type > CU_MEM_LOCATION_TYPE_INVISIBLE ?
		CUDA_ERROR_NOT_SUPPORTED : result;
}

static bool same_location(const CUmemLocation *a, const CUmemLocation *b)
{
	bool numbered = a->type == CU_MEM_LOCATION_TYPE_DEVICE ||
		a->type == CU_MEM_LOCATION_TYPE_HOST_NUMA;

	return a->type == b->type && (!numbered || a->id == b->id);
}

static CUresult props_check(const CUmemPoolProps *props)
{
	const unsigned int types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR |
		CU_MEM_HANDLE_TYPE_FABRIC;
	CUresult result = place_known(&props->location, props->allocType);
	unsigned int i;

	if (result)
		return result;
	if ((unsigned int)props->handleTypes & ~types)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < sizeof(props->reserved); i++)
		if (props->reserved[i])
			return CUDA_ERROR_INVALID_VALUE;
	if (props->handleTypes && (props->location.type == CU_MEM_LOCATION_TYPE_HOST ||
				   props->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED))
		return CUDA_ERROR_INVALID_VALUE;
	if (props->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED && (props->maxSize || props->usage))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* Make the kernel's pool, named @name or a name that no other pool has. */
static CUresult kernel_pool(pool_t *pool, const char *name)
{
	struct gpumem_pool_create create = {
		.size = sizeof(create), .device = client.device[pool->device].index,
		.flags = pool_is(pool, POOL_HOST) ? GPUMEM_POOL_HOST : 0, .limit = pool->limit,
	};
	uint32_t number;
	int error;

	if (name) {
		snprintf(pool->name, sizeof(pool->name), "%s", name);
	} else {
		if (getrandom(&number, sizeof(number), 0) != sizeof(number))
			number = (uint32_t)(uintptr_t)pool ^ (uint32_t)getpid();
		snprintf(pool->name, sizeof(pool->name), "pool-%08x", number);
	}
	memcpy(create.name, pool->name, sizeof(create.name));
	error = client_ioctl(GPUMEM_POOL_CREATE, &create);
	if (error == ENOTTY && !pool->handle_types)
		return CUDA_SUCCESS;
	pool->id = error ? 0 : create.id;
	return result_of_errno(error);
}

/* @name: NULL for a pool that the program makes */
static CUresult pool_make(pool_t **out, const CUmemPoolProps *props, const char *name)
{
	const CUmemLocation *location = &props->location;
	bool managed = props->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
	bool device = location->type == CU_MEM_LOCATION_TYPE_DEVICE;
	CUresult result = CUDA_SUCCESS;
	uint32_t flags = name ? POOL_DEFAULT : 0;
	pool_t *pool;
	unsigned int i;

	/* As documented: all devices must access managed memory at the same time as the CPU. */
	if (managed && client.exclusive)
		return CUDA_ERROR_NOT_SUPPORTED;
	/* More than a process has addresses; recorded for 2^45 bytes and more. */
	if (props->maxSize >> ADDRESS_BITS)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (props->handleTypes & CU_MEM_HANDLE_TYPE_FABRIC) {
		result = channel_hold();
		if (result)
			return result;
	}
	pool = pool_get();
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (managed)
		flags |= POOL_MANAGED;
	else if (!device)
		flags |= POOL_HOST;
	else if (props->usage & CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS)
		flags |= POOL_DECOMPRESS;
	store_relaxed(&pool->flags, flags);
	pool->device = device ? location->id : 0;
	pool->location = *location;
	pool->handle_types = props->handleTypes;
	pool->limit = round_up(props->maxSize, SLOT);
	/* With a limit, or where pages would move, there is no room for red zones. */
	if (unlikely(client.zoned) && !pool->limit && !managed)
		store_relaxed(&pool->classes, zoned_table);
	for (i = 0; i < client.devices; i++)
		if (managed || (device && i == (unsigned int)location->id))
			pool->access |= 1u << i;
	result = managed ? CUDA_SUCCESS : kernel_pool(pool, name);
	if (result) {
		pool_put(pool);
		return result;
	}
	store_release(&pool->magic, POOL_MAGIC);
	*out = pool;
	return CUDA_SUCCESS;
}

CUresult pool_create(CUmemoryPool *out, const CUmemPoolProps *props)
{
	CUresult result = out && props ? props_check(props) : CUDA_ERROR_INVALID_VALUE;

	return result ? result : pool_make(out, props, NULL);
}

CUresult pool_destroy(pool_t *pool)
{
	struct pool_place *place;
	unsigned int i;

	if (pool_valid(pool) && pool_is(pool, POOL_IMPORT))
		return import_destroy(pool);
	pthread_mutex_lock(&pools_lock);
	if (!pool_usable(pool) || pool_is(pool, POOL_DEFAULT)) {
		pthread_mutex_unlock(&pools_lock);
		return CUDA_ERROR_INVALID_VALUE;
	}
	store_release(&pool->magic, 0);
	for (place = pool_places; place; place = place->next)
		if (place->current == pool)
			place->current = place->fallback;
	for (i = 0; i < client.devices; i++)
		if (load_relaxed(&device_current[i]) == pool)
			/* The next use looks it up. */
			store_release(&device_current[i], NULL);
	pthread_mutex_unlock(&pools_lock);
	late_look(pool);
	lock_take(&pool->lock);
	store_relaxed(&pool->flags, pool->flags | POOL_DESTROYED);
	if (unlikely(client.quarantine)) {
		/* Nothing more is kept from now on. The structure does not become another pool meanwhile. */
		pool->visitors++;
		lock_drop(&pool->lock);
		pool_quarantine_release(pool);
		late_look(pool);
		lock_take(&pool->lock);
		pool->visitors--;
	}
	pool_reap(pool);
	pool_leave(pool);
	giving_wait(pool);
	return CUDA_SUCCESS;
}

/* ---- access */

/* SUCCESS if a location is the host's. */
static CUresult host_known(const CUmemLocation *location)
{
	if (location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
		return node_known(location->id);
	return location->type == CU_MEM_LOCATION_TYPE_HOST ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult pool_get_access(CUmemAccess_flags *flags, pool_t *pool, const CUmemLocation *location)
{
	CUresult result;
	bool may;

	if (!flags || !pool_valid(pool) || !location)
		return CUDA_ERROR_INVALID_VALUE;
	if (location->type == CU_MEM_LOCATION_TYPE_DEVICE && device_valid(location->id)) {
		may = load_relaxed(&pool->access) >> location->id & 1;
	} else {
		result = host_known(location);
		if (result)
			return result;
		may = pool_is(pool, POOL_HOST | POOL_MANAGED);
	}
	*flags = may ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return CUDA_SUCCESS;
}

bool pool_reached_from(pool_t *pool, CUdevice device)
{
	return load_relaxed(&pool->access) >> device & 1;
}

static CUresult access_check(const pool_t *pool, const CUmemAccessDesc *desc)
{
	bool own = pool->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
		desc->location.id == pool->device;

	if (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
	    desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
	    desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		return CUDA_ERROR_INVALID_VALUE;
	if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!device_valid(desc->location.id))
		return CUDA_ERROR_INVALID_DEVICE;
	if (desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (desc->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE && own)
		return CUDA_ERROR_INVALID_DEVICE;
	return CUDA_SUCCESS;
}

CUresult pool_set_access(pool_t *pool, const CUmemAccessDesc *descs, size_t count)
{
	CUresult result;
	size_t i;

	if (!pool_valid(pool) || !descs)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < count; i++) {
		result = access_check(pool, &descs[i]);
		if (result)
			return result;
	}
	lock_take(&pool->lock);
	for (i = 0; i < count; i++) {
		uint32_t bit = 1u << descs[i].location.id;

		store_relaxed(&pool->access, descs[i].flags ? pool->access | bit :
			      pool->access & ~bit);
	}
	lock_drop(&pool->lock);
	return CUDA_SUCCESS;
}

/* ---- default and current pools */

/* pools_lock is held. It is dropped and taken again if the default pool has to be made. */
static CUresult pool_place_get(const CUmemLocation *location, int type, struct pool_place **out)
{
	const CUmemPoolProps props = { .allocType = type, .location = *location };
	struct pool_place *place;
	pool_t *pool;
	CUresult result;

	for (place = pool_places; place; place = place->next)
		if (place->type == type && same_location(&place->location, location))
			goto found;
	place = calloc(1, sizeof(*place));
	if (!place)
		return CUDA_ERROR_OUT_OF_MEMORY;
	place->location = *location;
	place->type = type;
	place->next = pool_places;
	pool_places = place;
found:
	*out = place;
	if (place->fallback)
		return CUDA_SUCCESS;
	pthread_mutex_unlock(&pools_lock);
	result = pool_make(&pool, &props, "default");
	pthread_mutex_lock(&pools_lock);
	if (result || !place->fallback) {
		if (!result) {
			place->fallback = pool;
			place->current = pool;
		}
		return result;
	}
	/* Another thread has made the default pool meanwhile. */
	store_release(&pool->magic, 0);
	pool_finish(pool);
	pool->next_unused = unused_pools;
	unused_pools = pool;
	return CUDA_SUCCESS;
}

CUresult pool_default_of(CUmemoryPool *pool, const CUmemLocation *location, int type)
{
	struct pool_place *place;
	CUresult result;

	if (!pool || !location)
		return CUDA_ERROR_INVALID_VALUE;
	result = place_check(location, type);
	if (result)
		return result;
	pthread_mutex_lock(&pools_lock);
	result = pool_place_get(location, type, &place);
	if (!result)
		*pool = place->fallback;
	pthread_mutex_unlock(&pools_lock);
	return result;
}

CUresult pool_current_of(CUmemoryPool *pool, const CUmemLocation *location, int type)
{
	struct pool_place *place;
	CUresult result;

	if (!pool || !location)
		return CUDA_ERROR_INVALID_VALUE;
	result = place_check(location, type);
	if (result)
		return result;
	pthread_mutex_lock(&pools_lock);
	result = pool_place_get(location, type, &place);
	if (!result) {
		*pool = place->current;
		if (type == CU_MEM_ALLOCATION_TYPE_PINNED &&
		    location->type == CU_MEM_LOCATION_TYPE_DEVICE)
			store_release(&device_current[location->id], place->current);
	}
	pthread_mutex_unlock(&pools_lock);
	return result;
}

/* Whether a pool may be the current one of a place. The answer holds as long as pools_lock is held. */
static bool may_be_current(pool_t *pool, const CUmemLocation *location, int type)
{
	bool managed;

	if (!pool_usable(pool))
		return false;
	managed = pool_is(pool, POOL_MANAGED);
	return managed == (type == CU_MEM_ALLOCATION_TYPE_MANAGED) &&
	       same_location(location, &pool->location);
}

CUresult pool_set_current_of(const CUmemLocation *location, int type, pool_t *pool)
{
	struct pool_place *place;
	CUresult result;

	if (!location)
		return CUDA_ERROR_INVALID_VALUE;
	result = place_check(location, type);
	if (result)
		return result;
	pthread_mutex_lock(&pools_lock);
	result = may_be_current(pool, location, type) ? pool_place_get(location, type, &place) :
		CUDA_ERROR_INVALID_VALUE;
	/* The lock was dropped if the default pool had to be made: this pool may have been destroyed. */
	if (!result && !may_be_current(pool, location, type))
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result) {
		place->current = pool;
		if (type == CU_MEM_ALLOCATION_TYPE_PINNED &&
		    location->type == CU_MEM_LOCATION_TYPE_DEVICE)
			store_release(&device_current[location->id], pool);
	}
	pthread_mutex_unlock(&pools_lock);
	return result;
}

static CUmemLocation on_device(CUdevice device)
{
	return (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device };
}

CUresult pool_device_default(CUmemoryPool *pool, CUdevice device)
{
	const CUmemLocation location = on_device(device);

	if (!device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	return pool_default_of(pool, &location, CU_MEM_ALLOCATION_TYPE_PINNED);
}

CUresult pool_device_current(CUmemoryPool *pool, CUdevice device)
{
	const CUmemLocation location = on_device(device);

	return pool_current_of(pool, &location, CU_MEM_ALLOCATION_TYPE_PINNED);
}

CUresult pool_set_device_current(CUdevice device, pool_t *pool)
{
	const CUmemLocation location = on_device(device);

	return pool_set_current_of(&location, CU_MEM_ALLOCATION_TYPE_PINNED, pool);
}

