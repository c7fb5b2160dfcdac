// SPDX-License-Identifier: MIT
/*
 * Ends of copies: what memory an address is in, and whether a copy may use it.
 *
 * Owns nothing. memcpy.c decides by the flags of both ends which way the copy goes.
 *
 * As recorded, a copy of memory of a device's pool needs cuMemPoolSetAccess() for one device. This is the device of
 * the current context, whatever the stream. In a batch, it is the device of the stream's context. In a copy between
 * contexts, it is the device of the context that the call names for that end.
 *
 * Locks: none.
 */
#include <sys/mman.h>

#include "copy/box.h"

/*
 * Check that a copy may use memory of a pool. As recorded, host memory of a pool needs no access, and is no device
 * memory to copies that want such. A copy reaches memory of other devices that is not a pool's.
 */
static CUresult pool_check(const struct copy_end *end, const struct span *span, unsigned int kind)
{
	CUresult result;

	if (likely(!span->pool))
		return CUDA_SUCCESS;
	if (span_pool_host(span))
		return kind & END_HOST ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	result = ctx_valid(end->reach);
	if (!result && !ctx_reaches(end->reach, span))
		result = CUDA_ERROR_INVALID_VALUE;
	return result;
}

CUresult copy_end_find(const struct copy *copy, struct copy_end *end, unsigned int kind)
{
	int right = end == &copy->dst ? PROT_WRITE : PROT_READ;
	uint64_t rows, above, bytes;
	CUdevice device = 0;
	struct span span;
	CUresult result;

	if (!end->addr || __builtin_mul_overflow(copy->height - 1, end->pitch, &rows) ||
	    __builtin_mul_overflow(copy_slices(copy) - 1, end->slice, &above) ||
	    __builtin_add_overflow(rows, above, &rows) ||
	    __builtin_add_overflow(rows, copy->width, &bytes) || end->addr + bytes < end->addr)
		return CUDA_ERROR_INVALID_VALUE;
	if (vm_lookup(end->addr, &span)) {
		/* As recorded, the named or current context's device needs the right. The stream's device needs none. */
		if (span.flags & ALLOC_MAPPED) {
			result = ctx_valid(end->reach);
			if (result)
				return result;
			device = end->reach->device;
			end->rights = client.device[device].index + 1;
		}
		if (!vmm_covers(&span, end->addr, bytes, device, right)) {
			/* The CPU copies mapped memory of the host to which host locations have the right. */
			if (!(span.flags & ALLOC_MAPPED) || !vmm_covers(&span, end->addr, bytes, CU_DEVICE_CPU, right))
				return CUDA_ERROR_INVALID_VALUE;
			end->host = true;
			return CUDA_SUCCESS;
		}
		/* Memory that was registered for reading may be mapped read-only. */
		if (end == &copy->dst && span.flags & ALLOC_READ_ONLY)
			return CUDA_ERROR_INVALID_VALUE;
		result = pool_check(end, &span, kind);
		if (result)
			return result;
		/* A copy that may take the memory for the host's reaches it. */
		if (unlikely(span.flags & ALLOC_HOST_ONLY))
			end->host_only = end->checked = !(kind & END_HOST);
		end->host = end->io = span.flags & ALLOC_IO;
		end->pinned = span.flags & (ALLOC_ANY_HOST | ALLOC_MANAGED);
		end->managed_host = kind & END_NAMED_HOST && span.flags & ALLOC_MANAGED;
		end->shared = span.flags & ALLOC_NOT_INLINE;
		/* Managed memory always has SYNC_MEMOPS, which concerns calls without a stream. */
		end->sync = (span.flags & (ALLOC_SYNC_MEMOPS | ALLOC_MANAGED)) == ALLOC_SYNC_MEMOPS;
		/*
		 * A mapping may go away while the calling thread accesses it, and a page of managed memory may be
		 * missing: leave both to the engine.
		 */
		end->dark = span_dark(&span) || span.flags & (ALLOC_MAPPED | ALLOC_MOVABLE | ALLOC_ATTACHED);
		if ((span.flags & ALLOC_NOT_INLINE) == ALLOC_MOVABLE && !span_dark(&span))
			end->movable = true;
		end->ctx = span.ctx;
		return CUDA_SUCCESS;
	}
	/* Addresses of the arena are never the program's own memory. */
	if (vm_reserved(end->addr) || (!(kind & END_HOST) && !pageable_range(end->addr, bytes)))
		return CUDA_ERROR_INVALID_VALUE;
	if (kind & END_HOST)
		end->host = true;
	else
		end->pageable = end->checked = end->dark = true;
	return CUDA_SUCCESS;
}
