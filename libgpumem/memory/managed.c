// SPDX-License-Identifier: MIT
/*
 * Managed memory: memory that the CPU and all devices reach at one address.
 *
 * Managed memory is mapped for the CPU and all devices for its whole life, also in strict mode. Beside an exclusive
 * device the CPU has no access at times. The kernel decides where it is: blocks become resident on the device of an
 * engine that touches them, and are evicted when the device has no room. Advice is checked and stored, and attribute
 * queries return it. The kernel then gets it for the blocks that lie completely in the range, and follows it. Advice
 * that the kernel has no memory for is an error, and stays stored. The location of a prefetch is stored at once. An
 * entry in the stream then moves the blocks of the range: to a device, or to the system's memory, on the node that
 * the location names, if any. A discard is such an entry, too: the kernel takes the whole pages of the range back,
 * and they are zero afterwards, or what they were. Attachments have an effect if a device is exclusive
 * (exec/attach.c).
 *
 * If the kernel's module parameter forbids managed memory, device memory takes its place (address/bo.c). It never
 * moves. Advice and prefetches of it are only stored.
 *
 * A prefetch is a batch of one range. A batch is checked as a whole, and room for the hints of all its ranges is
 * made, before any hint changes. So a batch that is refused changes nothing. If there is no memory to submit the
 * entries, the hints have changed, and some ranges may move.
 *
 * On devices with PAGEABLE_MEMORY_ACCESS, hints about pageable memory are stored as well. All of it has one note,
 * which does not change when memory is unmapped. Nothing moves: the engine uses the page tables that the CPU uses.
 *
 * Ranges are rounded outwards to pages and lie in one allocation. Memory of a pool prefers the pool's location, which
 * the kernel knows of each chunk (pool/pool_chunks.c), and takes no advice. So its notes have prefetches only.
 *
 * Locks: notes_lock for the notes (notes.c).
 *
 * Vocabulary: that of notes.h.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "memory/memory.h"
#include "memory/notes.h"

/* ---- ranges */

/* No address of a process is higher. With wider page tables, programs have memory above ADDRESS_BITS. */
#define PAGEABLE_END	(1ull << 63)

/*
 * Whether a range is pageable memory that devices reach. All of it must be mapped: msync() fails at a hole, and with
 * MS_ASYNC it does nothing else.
 */
static bool range_pageable(uint64_t ptr, uint64_t count)
{
	struct span span;
	uint64_t first = ptr & -PAGE;

	return count && pageable_range(ptr, count) && ptr + count <= PAGEABLE_END && !vm_lookup(ptr, &span) &&
	       !msync((void *)(uintptr_t)first, ptr + count - first, MS_ASYNC);
}

/* All pageable memory counts as one allocation, which begins at 0. */
static void span_of_pageable(struct span *span)
{
	memset(span, 0, sizeof(*span));
	span->size = PAGEABLE_END;
}

/* The allocation around a range of managed memory. */
static CUresult range_find(uint64_t ptr, uint64_t count, struct span *span)
{
	if (!count || !vm_lookup(ptr, span) || !(span->flags & ALLOC_MANAGED) ||
	    count > span->size - (ptr - span->base))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* One range of a batch, and what is said about it; @saying is NULL if nothing is. */
struct range {
	uint64_t ptr, count;
	const struct saying *saying;
	bool discard;
	struct span span;
	struct note *note;
	bool pageable;			/* range_pageable() */
};

/* Whether pageable memory can have these hints: the device that they name must reach it. */
static bool saying_pageable(const struct saying *saying)
{
	uint32_t devices = saying->clear & ~HOST_BIT;

	if (saying->what == SAY_ACCESSED_BY)
		return !devices || client.device[__builtin_ctz(devices)].pageable;
	return saying->what == SAY_READ_MOSTLY || saying->place.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	       client.device[saying->place.id].pageable;
}

/* mem_lock and notes_lock are held. */
static CUresult range_reserve(struct range *range)
{
	CUresult result = CUDA_SUCCESS;

	if (range->pageable)
		span_of_pageable(&range->span);
	else
		result = range_find(range->ptr, range->count, &range->span);
	if (result || !range->saying)
		return result;
	range->note = note_get(&range->span);
	return range->note ? note_reserve(range->note, SAYING_RUNS) : CUDA_ERROR_OUT_OF_MEMORY;
}

/*
 * Say what is said about each range, or nothing. mem_lock keeps an alloc from being freed before its note exists:
 * managed_forget() then finds the note.
 */
static CUresult ranges_say(struct range *ranges, size_t count)
{
	CUresult result = CUDA_SUCCESS;
	size_t i, found;

	/* A device that does not reach the memory is no location for it. */
	for (i = 0; unlikely(client.pageable) && i < count; i++) {
		ranges[i].pageable = range_pageable(ranges[i].ptr, ranges[i].count);
		if (ranges[i].pageable && ranges[i].saying && !saying_pageable(ranges[i].saying))
			return CUDA_ERROR_INVALID_VALUE;
	}
	lock_take(&mem_lock);
	lock_take(&notes_lock);
	for (found = 0; !result && found < count; found++)
		result = range_reserve(&ranges[found]);
	for (i = 0; !result && i < count; i++)
		if (ranges[i].saying)
			note_say(ranges[i].note, first_page(&ranges[i].span, ranges[i].ptr),
				 end_page(&ranges[i].span, ranges[i].ptr + ranges[i].count),
				 ranges[i].saying);
	for (i = 0; result && i < found; i++)
		if (ranges[i].note)
			ranges[i].note->wanted = 0;
	lock_drop(&notes_lock);
	lock_drop(&mem_lock);
	return result;
}

/* ---- places */

bool managed_place_known(CUmemLocationType type)
{
	return type >= CU_MEM_LOCATION_TYPE_DEVICE && type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

/* SUCCESS if the device or the node of a location exists. */
static CUresult location_known(const CUmemLocation *location)
{
	bool known;

	if (location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
		return node_known(location->id);
	known = location->type == CU_MEM_LOCATION_TYPE_DEVICE ? device_valid(location->id) :
		managed_place_known(location->type);
	return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* CUDA defines advice and prefetches only for devices that access managed memory at the same time as the CPU. */
static bool location_exclusive(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_DEVICE && client.device[location->id].exclusive;
}

static struct location location_asked(const CUmemLocation *location)
{
	struct location place = { .type = location->type, .id = location->id };

	if (location->type == CU_MEM_LOCATION_TYPE_HOST ||
	    location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
		place.id = CU_DEVICE_CPU;
	return place;
}

/* As recorded: on a system with one node, a preferred node is reported as the host. */
static CUresult location_preferred(struct location *place, const CUmemLocation *location)
{
	unsigned int node = 0;
	CUresult result;

	*place = location_asked(location);
	if (place->type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT) {
		place->type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
		place->id = getcpu(NULL, &node) ? 0 : node;
	}
	if (place->type != CU_MEM_LOCATION_TYPE_HOST_NUMA || place->id)
		return CUDA_SUCCESS;
	result = node_known(1);
	if (result != CUDA_ERROR_INVALID_VALUE)
		return result;
	place->type = CU_MEM_LOCATION_TYPE_HOST;
	place->id = CU_DEVICE_CPU;
	return CUDA_SUCCESS;
}

/* The value of the older attributes, which have no types of locations. */
static int location_number(const struct location *place)
{
	return place->type == CU_MEM_LOCATION_TYPE_INVALID ? CU_DEVICE_INVALID :
	       place->type == CU_MEM_LOCATION_TYPE_DEVICE ? place->id : CU_DEVICE_CPU;
}

/* ---- moving */

/* Whether a range of a batch is to be moved. */
static bool range_moves(const struct range *range)
{
	return (range->saying || range->discard) && range->span.flags & ALLOC_MOVABLE;
}

/* The node of the host that a prefetch names, or -1: the pages return to where they came from. */
static int place_node(const struct location *place)
{
	unsigned int node;

	switch (place->type) {
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		return place->id;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		return getcpu(NULL, &node) ? -1 : (int)node;
	default:
		return -1;
	}
}

static CUresult range_put(CUstream stream, struct queue *queue, const struct range *range)
{
	const struct location *place = &range->saying->place;
	bool to_device = place->type == CU_MEM_LOCATION_TYPE_DEVICE;
	struct gpumem_sqe sqe = {
		.op = GPUMEM_OP_PREFETCH, .dst = range->ptr, .width = range->count,
		.handle = to_device ? GPUMEM_PREFETCH_DEVICE : GPUMEM_PREFETCH_HOST,
	};
	int node = place_node(place);
	CUresult result;

	if (node >= 0) {
		sqe.handle = GPUMEM_PREFETCH_NODE;
		sqe.value = node;
	}
	if (to_device && place->id != queue->device)
		return stream_delegate(stream, queue, place->id, &sqe);
	result = order_renew(queue);
	return result ? result : ring_put(queue, &sqe);
}

/* Have the kernel take the pages of a range back. */
static CUresult range_discard(struct queue *queue, const struct range *range)
{
	const struct gpumem_sqe sqe = {
		.op = GPUMEM_OP_PREFETCH, .dst = range->ptr, .width = range->count,
		.handle = GPUMEM_PREFETCH_DISCARD,
	};
	CUresult result = order_renew(queue);

	return result ? result : ring_put(queue, &sqe);
}

static CUresult range_queue(CUstream stream, struct queue *queue, const struct range *range)
{
	CUresult result = range->discard ? range_discard(queue, range) : CUDA_SUCCESS;

	return result || !range->saying ? result : range_put(stream, queue, range);
}

/* Have the ranges of a batch discarded and then moved in the order of a stream. No lock is held. */
static CUresult ranges_move(CUstream stream, const struct range *ranges, size_t count)
{
	struct queue *queue;
	CUresult result;
	size_t i = 0;

	while (i < count && !range_moves(&ranges[i]))
		i++;
	if (i == count)
		return CUDA_SUCCESS;
	result = stream_begin(stream);
	if (result)
		return result;
	result = stream_prepare(stream, &queue);
	if (!result) {
		for (; !result && i < count; i++)
			if (range_moves(&ranges[i]))
				result = range_queue(stream, queue, &ranges[i]);
		result = ring_finish(queue, result);
	}
	lock_drop(&stream->lock);
	return result;
}

/* ---- advice for the kernel */

/* Where the part of a range that is in whole blocks begins and ends, in the buffer object. */
static bool range_blocks(const struct range *range, uint64_t *first, uint64_t *end)
{
	const struct span *span = &range->span;
	uint64_t from = range->ptr & -PAGE, to = round_up(range->ptr + range->count, PAGE);

	/* Nothing else is behind a large allocation in its buffer object. */
	if (span->size > SLOT && range->ptr + range->count == span->base + span->size)
		to = round_up(to, GPUMEM_MANAGED_BLOCK);
	*first = round_up(from - span->block_base, GPUMEM_MANAGED_BLOCK);
	*end = (to - span->block_base) & -(uint64_t)GPUMEM_MANAGED_BLOCK;
	return *first < *end;
}

static uint32_t place_index(const struct location *place)
{
	return place->type == CU_MEM_LOCATION_TYPE_DEVICE ? client.device[place->id].index :
		place->type == CU_MEM_LOCATION_TYPE_INVALID ? GPUMEM_ADVICE_NONE :
		GPUMEM_ADVICE_HOST;
}

/* Have the kernel follow advice that is stored. No lock is held. */
static CUresult range_advise(const struct range *range)
{
	const struct saying *saying = range->saying;
	struct gpumem_bo_advise advise = { .size = sizeof(advise), .id = range->span.bo };
	uint64_t first, end;
	int error;

	if (!range_moves(range) || !range_blocks(range, &first, &end))
		return CUDA_SUCCESS;
	advise.offset = first;
	advise.length = end - first;
	switch (saying->what) {
	case SAY_PREFERRED:
		advise.advice = GPUMEM_ADVICE_PREFERRED;
		advise.device = place_index(&saying->place);
		break;
	case SAY_ACCESSED_BY:
		/* The CPU reaches the memory wherever it is. */
		if (saying->clear == HOST_BIT)
			return CUDA_SUCCESS;
		advise.advice = saying->set ? GPUMEM_ADVICE_ACCESSED_BY :
			GPUMEM_ADVICE_NOT_ACCESSED_BY;
		advise.device = client.device[__builtin_ctz(saying->clear)].index;
		break;
	case SAY_READ_MOSTLY:
		advise.advice = saying->set ? GPUMEM_ADVICE_READ_MOSTLY :
			GPUMEM_ADVICE_NOT_READ_MOSTLY;
		advise.device = GPUMEM_ADVICE_NONE;
		break;
	default:
		return CUDA_SUCCESS;
	}
	error = client_ioctl(GPUMEM_BO_ADVISE, &advise);
	/* ENOENT: another thread has freed the memory meanwhile. */
	return error == ENOENT ? CUDA_SUCCESS : result_of_errno(error);
}

/* ---- what the API does */

CUresult managed_alloc(uint64_t *ptr, uint64_t bytes, unsigned int attach)
{
	uint32_t flags = ALLOC_MANAGED | ALLOC_SYNC_MEMOPS;
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	if (client.exclusive)
		flags |= ALLOC_ATTACHED | (attach == CU_MEM_ATTACH_HOST ? ALLOC_HOST_ONLY : 0);
	return result ? result : mem_alloc_in(ctx, ptr, bytes, flags);
}

CUresult managed_attach(CUstream handle, bool own, uint64_t ptr, uint64_t length,
			unsigned int flags)
{
	struct span span;
	CUstream stream;
	CUresult result = stream_get(handle, own, &stream);

	if (result)
		return result;
	if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
	    flags != CU_MEM_ATTACH_SINGLE)
		return CUDA_ERROR_INVALID_VALUE;
	/*
	 * The null stream is refused: it names no particular stream. As recorded, the other handles of default
	 * streams are accepted.
	 */
	if (flags == CU_MEM_ATTACH_SINGLE && !handle && !own)
		return CUDA_ERROR_INVALID_VALUE;
	/* Pageable memory has no size of its own. */
	if (length && client.device[stream->ctx->device].pageable && range_pageable(ptr, length))
		return CUDA_SUCCESS;
	if (!vm_lookup(ptr, &span) || !(span.flags & ALLOC_MANAGED) || span.pool ||
	    span.base != ptr || (length && length != span.size))
		return CUDA_ERROR_INVALID_VALUE;
	/* Without an exclusive device, all devices may access all of it at any time. */
	if (likely(!(span.flags & ALLOC_ATTACHED)))
		return CUDA_SUCCESS;
	result = attach_change(stream, &span, flags);
	if (result)
		return result;
	/* Copies and fills are checked against the attachment requested last, even if the change is still queued. */
	if (flags == CU_MEM_ATTACH_HOST)
		__atomic_fetch_or(span.marks, ALLOC_HOST_ONLY, __ATOMIC_RELAXED);
	else
		__atomic_fetch_and(span.marks, ~(uint32_t)ALLOC_HOST_ONLY, __ATOMIC_RELAXED);
	return CUDA_SUCCESS;
}

CUresult managed_advice_known(CUmem_advise advice, CUmemLocationType type)
{
	return advice >= CU_MEM_ADVISE_SET_READ_MOSTLY &&
	       advice <= CU_MEM_ADVISE_UNSET_ACCESSED_BY && managed_place_known(type) ?
		CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult managed_advise(uint64_t ptr, uint64_t count, CUmem_advise advice, CUmemLocation location)
{
	struct saying saying = { .place = location_none };
	struct range range = { .ptr = ptr, .count = count, .saying = &saying };
	struct span span;
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	if (result)
		return result;
	switch (advice) {
	case CU_MEM_ADVISE_SET_READ_MOSTLY:
	case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
		saying.what = SAY_READ_MOSTLY;
		saying.set = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
		break;
	case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
		result = location_known(&location);
		if (result)
			return result;
		if (location_exclusive(&location))
			return CUDA_ERROR_INVALID_DEVICE;
		saying.what = SAY_PREFERRED;
		result = location_preferred(&saying.place, &location);
		if (result)
			return result;
		break;
	case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
		saying.what = SAY_PREFERRED;
		break;
	case CU_MEM_ADVISE_SET_ACCESSED_BY:
	case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
		if (location_known(&location) ||
		    (location.type != CU_MEM_LOCATION_TYPE_DEVICE &&
		     location.type != CU_MEM_LOCATION_TYPE_HOST))
			return CUDA_ERROR_INVALID_VALUE;
		if (advice == CU_MEM_ADVISE_SET_ACCESSED_BY && location_exclusive(&location))
			return CUDA_ERROR_INVALID_DEVICE;
		saying.what = SAY_ACCESSED_BY;
		saying.clear = location.type == CU_MEM_LOCATION_TYPE_HOST ? HOST_BIT :
			1u << location.id;
		if (advice == CU_MEM_ADVISE_SET_ACCESSED_BY)
			saying.set = saying.clear;
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	/* As recorded, this error precedes that of a range that ends outside the allocation. */
	if (count && vm_lookup(ptr, &span) && span.flags & ALLOC_MANAGED && span.pool)
		return CUDA_ERROR_NOT_SUPPORTED;
	result = ranges_say(&range, 1);
	return result ? result : range_advise(&range);
}

CUresult managed_prefetch(uint64_t ptr, uint64_t count, CUmemLocation location, CUstream handle,
			  bool own)
{
	struct saying saying = { .what = SAY_PREFETCHED, .place = location_asked(&location) };
	struct range range = { .ptr = ptr, .count = count, .saying = &saying };
	CUstream stream;
	CUresult result = stream_get(handle, own, &stream);

	if (result)
		return result;
	if (!ptr || !count)
		return CUDA_ERROR_INVALID_VALUE;
	result = location_known(&location);
	if (result)
		return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? CUDA_ERROR_INVALID_DEVICE : result;
	if (location_exclusive(&location) || client.device[stream->ctx->device].exclusive)
		return CUDA_ERROR_INVALID_DEVICE;
	result = ranges_say(&range, 1);
	return result ? result : ranges_move(stream, &range, 1);
}

/* ---- batches of prefetches and discards */

/* As recorded, indices need not rise. They must lie in the batch, and the first must be 0. */
static CUresult places_known(const struct managed_batch *batch)
{
	CUresult result = CUDA_SUCCESS;
	size_t i;

	if (!batch->places || !batch->indices || !batch->place_count ||
	    batch->place_count > batch->count || batch->indices[0])
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < batch->place_count && !result; i++)
		result = batch->indices[i] >= batch->count ? CUDA_ERROR_INVALID_VALUE :
			location_known(&batch->places[i]);
	return result;
}

/* The ranges of a batch, as the program describes them. */
static CUresult batch_ranges(const struct managed_batch *batch, struct range *ranges,
			     struct saying *sayings)
{
	size_t i, place = 0;

	for (i = 0; i < batch->place_count; i++)
		sayings[i] = (struct saying){
			.what = SAY_PREFETCHED, .place = location_asked(&batch->places[i]),
		};
	for (i = 0; i < batch->count; i++) {
		if (place + 1 < batch->place_count && batch->indices[place + 1] == i)
			place++;
		ranges[i] = (struct range){
			.ptr = batch->ptrs[i], .count = batch->sizes[i],
			.saying = sayings ? &sayings[place] : NULL,
			.discard = batch->what != MANAGED_PREFETCH,
		};
	}
	return ranges_say(ranges, batch->count);
}

CUresult managed_batch(const struct managed_batch *batch, CUstream handle, bool own)
{
	bool prefetch = batch->what != MANAGED_DISCARD;
	struct saying *sayings = NULL;
	struct range *ranges;
	CUstream stream;
	CUresult result = stream_get(handle, own, &stream);

	if (result)
		return result;
	if (!batch->ptrs || !batch->sizes || !batch->count)
		return CUDA_ERROR_INVALID_VALUE;
	result = prefetch ? places_known(batch) : CUDA_SUCCESS;
	if (result)
		return result;
	/* CUDA defines batches only if no device is exclusive. */
	if (client.exclusive)
		return CUDA_ERROR_NOT_SUPPORTED;
	ranges = calloc(batch->count, sizeof(*ranges));
	if (prefetch)
		sayings = calloc(batch->place_count, sizeof(*sayings));
	if (ranges && (sayings || !prefetch))
		result = batch_ranges(batch, ranges, sayings);
	else	/* as for batches of copies */
		result = batch->count >= INT32_MAX ? CUDA_ERROR_INVALID_VALUE :
			CUDA_ERROR_OUT_OF_MEMORY;
	if (!result)
		result = ranges_move(stream, ranges, batch->count);
	free(sayings);
	free(ranges);
	return result;
}

/* ---- attributes of ranges */

static bool attribute_fits(CUmem_range_attribute attribute, const void *data, size_t size)
{
	if (!data || attribute < CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY ||
	    attribute > CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID)
		return false;
	if (attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY)
		return size && !(size % sizeof(int32_t));
	return size == sizeof(int32_t);
}

/* An attribute's value of one run. */
static int32_t run_value(const struct run *run, CUmem_range_attribute attribute)
{
	switch (attribute) {
	case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
		return run->read_mostly;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
		return location_number(&run->preferred);
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
		return run->preferred.type;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
		return run->preferred.id;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
		return location_number(&run->prefetched);
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
		return run->prefetched.type;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
		return run->prefetched.id;
	default:
		return run->accessed_by;
	}
}

/* The value for a range whose pages differ. */
static int32_t mixed_value(CUmem_range_attribute attribute, int32_t one, int32_t other)
{
	switch (attribute) {
	case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
		return one & other;
	case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
		return 0;
	default:
		return CU_DEVICE_INVALID;
	}
}

/* The value for pages of an allocation. notes_lock is held. */
static int32_t range_value(const struct span *span, uint64_t first, uint64_t end,
			   CUmem_range_attribute attribute)
{
	const struct note *note = note_find(span);
	bool any = false, mixed = false;
	uint64_t at = 0;
	int32_t value = 0;
	unsigned int i;

	if (!note) {
		struct run fresh = run_fresh(span);

		return run_value(&fresh, attribute);
	}
	for (i = 0; i < note->count && at < end; i++) {
		const struct run *run = &note->run[i];
		int32_t here = run_value(run, attribute);

		if (run->end > first && any && here != value)
			mixed = true;
		if (run->end > first)
			value = !any ? here : mixed ? mixed_value(attribute, value, here) : value;
		any = any || run->end > first;
		at = run->end;
	}
	return value;
}

static void put_accessed_by(int32_t *data, size_t size, uint32_t bits)
{
	size_t room = size / sizeof(*data), n = 0;
	unsigned int i;

	for (i = 0; i < GPUMEM_MAX_DEVICES && n < room; i++) {
		int32_t device = i;

		if (bits & 1u << i)
			memcpy(&data[n++], &device, sizeof(device));
	}
	for (; n < room; n++) {
		int32_t rest = bits & HOST_BIT ? CU_DEVICE_CPU : CU_DEVICE_INVALID;

		bits &= ~HOST_BIT;
		memcpy(&data[n], &rest, sizeof(rest));
	}
}

CUresult managed_attributes(void *const *data, const size_t *sizes,
			    const CUmem_range_attribute *attributes, size_t attribute_count,
			    uint64_t ptr, uint64_t count)
{
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);
	struct span span;
	size_t i;

	if (result)
		return result;
	if (!data || !sizes || !attributes || !attribute_count)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < attribute_count; i++)
		if (!attribute_fits(attributes[i], data[i], sizes[i]))
			return CUDA_ERROR_INVALID_VALUE;
	if (range_pageable(ptr, count))
		span_of_pageable(&span);
	else
		result = range_find(ptr, count, &span);
	if (result)
		return result;
	/* The program's memory may fault, so it is written with no lock held. */
	for (i = 0; i < attribute_count; i++) {
		int32_t value;

		lock_take(&notes_lock);
		value = range_value(&span, first_page(&span, ptr), end_page(&span, ptr + count),
				    attributes[i]);
		lock_drop(&notes_lock);
		if (attributes[i] == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY)
			put_accessed_by(data[i], sizes[i], value);
		else
			memcpy(data[i], &value, sizeof(value));
	}
	return CUDA_SUCCESS;
}
