// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_engine_cpu: an engine that is a processor.
 *
 * It moves bytes with memcpy() and memset() through the kernel's own mapping of
 * the memory, folio by folio, in whatever worker calls it.  Concurrent
 * writes by the client to the same bytes are the client's affair.
 */
#include <linux/mm.h>
#include <linux/string.h>

#include "gpumem_private.h"

static int gpumem_cpu_copy(struct gpumem_engine *engine, struct gpumem_bo *dst,
			   u64 dst_offset, struct gpumem_bo *src,
			   u64 src_offset, size_t len)
{
	struct folio *sf, *df;
	size_t part;
	void *s, *d;

	while (len) {
		part = len;
		s = gpumem_bo_map(src, src_offset, &part, &sf);
		if (IS_ERR(s))
			return PTR_ERR(s);
		d = gpumem_bo_map(dst, dst_offset, &part, &df);
		if (IS_ERR(d)) {
			gpumem_bo_unmap(sf);
			return PTR_ERR(d);
		}
		/* Two ranges of one buffer may overlap. */
		memmove(d, s, part);
		gpumem_bo_unmap(df);
		gpumem_bo_unmap(sf);
		dst_offset += part;
		src_offset += part;
		len -= part;
	}
	return 0;
}

static void gpumem_cpu_set(void *d, u64 value, unsigned int elem, size_t len)
{
	switch (elem) {
	case 1:
		memset(d, value, len);
		break;
	case 2:
		memset16(d, value, len / 2);
		break;
	case 4:
		memset32(d, value, len / 4);
		break;
	default:
		memset64(d, value, len / 8);
	}
}

static int gpumem_cpu_fill(struct gpumem_engine *engine, struct gpumem_bo *dst,
			   u64 dst_offset, u64 value, unsigned int elem,
			   size_t len)
{
	struct folio *folio;
	size_t part;
	void *d;

	while (len) {
		part = len;
		d = gpumem_bo_map(dst, dst_offset, &part, &folio);
		if (IS_ERR(d))
			return PTR_ERR(d);
		gpumem_cpu_set(d, value, elem, part);
		gpumem_bo_unmap(folio);
		dst_offset += part;
		len -= part;
	}
	return 0;
}

const struct gpumem_engine_ops gpumem_engine_cpu_ops = {
	.name = "cpu",
	.copy = gpumem_cpu_copy,
	.fill = gpumem_cpu_fill,
};
