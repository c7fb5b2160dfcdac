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
		/* Two ranges of one buffer may overlap.  memcpy() is faster. */
		if (d + part <= s || s + part <= d)
			memcpy(d, s, part);
		else
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

/*
 * Fill @len bytes that begin @skip bytes behind the start of an element.  A
 * registration that is mapped askew has elements in two pages that need not lie
 * together.
 */
static void gpumem_cpu_set_piece(void *d, u64 value, unsigned int elem,
				 unsigned int skip, size_t len)
{
	u8 one[sizeof(value)];
	size_t n;

	gpumem_cpu_set(one, value, elem, elem);
	if (skip) {
		n = min_t(size_t, elem - skip, len);
		memcpy(d, one + skip, n);
		d += n;
		len -= n;
	}
	n = round_down(len, elem);
	gpumem_cpu_set(d, value, elem, n);
	memcpy(d + n, one, len - n);
}

static int gpumem_cpu_fill(struct gpumem_engine *engine, struct gpumem_bo *dst,
			   u64 dst_offset, u64 value, unsigned int elem,
			   size_t len)
{
	size_t part, done = 0;
	struct folio *folio;
	unsigned int skip;
	void *d;

	while (done < len) {
		part = len - done;
		d = gpumem_bo_map(dst, dst_offset + done, &part, &folio);
		if (IS_ERR(d))
			return PTR_ERR(d);
		skip = done % elem;
		if (skip || part % elem)
			gpumem_cpu_set_piece(d, value, elem, skip, part);
		else
			gpumem_cpu_set(d, value, elem, part);
		gpumem_bo_unmap(folio);
		done += part;
	}
	return 0;
}

const struct gpumem_engine_ops gpumem_engine_cpu_ops = {
	.name = "cpu",
	.copy = gpumem_cpu_copy,
	.fill = gpumem_cpu_fill,
};
