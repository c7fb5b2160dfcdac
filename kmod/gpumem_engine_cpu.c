// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_engine_cpu: the engine that uses the processors.
 *
 * The engine moves bytes with copy_mc_to_kernel() and memset() through the
 * kernel's own mapping of the memory, in the calling worker.  It moves one
 * *run* at a time: bytes that are contiguous in the kernel's mapping.  It does
 * not order its accesses with concurrent writes of the client to the same
 * bytes.
 *
 * Memory that the kernel knows to have failed (hwpoison) is not touched:
 * mapping a page of it fails with -EIO.  Memory that fails while it is read
 * raises a machine check.  copy_mc_to_kernel() recovers from it on processors
 * that can, and is memcpy() on others.  A copy between overlapping ranges of
 * one buffer uses memmove(), which does not recover.
 *
 * The process's own memory is reached through the processor's page tables, with
 * page faults disabled (gpumem_pageable.c).
 *
 * Locks: none.  The caller holds vm->lock for reading.
 */
#include <linux/debugfs.h>
#include <linux/fault-inject.h>
#include <linux/mm.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "gpumem_bo.h"
#include "gpumem_engine.h"

/* Makes copies end as a machine check ends them: debugfs, gpumem_fail_copy. */
static DECLARE_FAULT_ATTR(gpumem_fail_copy);
static struct dentry *gpumem_fail_copy_dir;

/**
 * gpumem_cpu_init - make the knobs of fault injection, where the kernel has it
 */
void gpumem_cpu_init(void)
{
	gpumem_fail_copy_dir = fault_create_debugfs_attr("gpumem_fail_copy",
							 NULL,
							 &gpumem_fail_copy);
}

/**
 * gpumem_cpu_exit - undo gpumem_cpu_init()
 */
void gpumem_cpu_exit(void)
{
	debugfs_remove(gpumem_fail_copy_dir);
}

/*
 * Copy bytes that are contiguous at source and destination.  The ranges may
 * overlap.  If they do not, a machine check while the source is read ends the
 * copy with -EIO, if the processor can recover from it.
 */
static int gpumem_cpu_move(void *d, const void *s, size_t len)
{
	if (d + len > s && s + len > d)
		memmove(d, s, len);
	else if (copy_mc_to_kernel(d, s, len))
		return -EIO;
	return should_fail(&gpumem_fail_copy, len) ? -EIO : 0;
}

/**
 * struct gpumem_cpu_run - contiguous bytes of a buffer object
 */
struct gpumem_cpu_run {
	/** @bo: buffer object */
	struct gpumem_bo *bo;
	/** @offset: offset in @bo of the run that follows */
	u64 offset;
	/** @at: address of the first byte that was not copied yet */
	void *at;
	/** @left: bytes at @at that were not copied yet */
	size_t left;
	/** @folio: argument of gpumem_bo_unmap(), or NULL */
	struct folio *folio;
};

/* The run before the first one of an extent, or all @len bytes of it. */
static struct gpumem_cpu_run
gpumem_cpu_run_begin(const struct gpumem_extent *extent, size_t len)
{
	return (struct gpumem_cpu_run) {
		.bo = extent->bo,
		.offset = extent->offset,
		.at = extent->at,
		.left = extent->at ? len : 0,
	};
}

/* If nothing of the run is left, map the next one, at most @len bytes. */
static int gpumem_cpu_run_map(struct gpumem_cpu_run *run, size_t len)
{
	if (run->left)
		return 0;
	gpumem_bo_unmap(run->folio);
	run->folio = NULL;
	run->left = len;
	run->at = gpumem_bo_map(run->bo, run->offset, &run->left, &run->folio);
	if (IS_ERR(run->at)) {
		run->folio = NULL;
		return PTR_ERR(run->at);
	}
	run->offset += run->left;
	return 0;
}

/*
 * The runs of source and destination may end in different places.  Each run is
 * mapped, and checked for failed memory, once.
 */
static int gpumem_cpu_copy(struct gpumem_engine *engine,
			   const struct gpumem_extent *dst,
			   const struct gpumem_extent *src, size_t len)
{
	struct gpumem_cpu_run s = gpumem_cpu_run_begin(src, len);
	struct gpumem_cpu_run d = gpumem_cpu_run_begin(dst, len);
	size_t part;
	int ret = 0;

	while (len && !ret) {
		ret = gpumem_cpu_run_map(&s, len);
		if (!ret)
			ret = gpumem_cpu_run_map(&d, len);
		if (ret)
			break;
		part = min(s.left, d.left);
		ret = gpumem_cpu_move(d.at, s.at, part);
		s.at += part;
		s.left -= part;
		d.at += part;
		d.left -= part;
		len -= part;
	}
	gpumem_bo_unmap(s.folio);
	gpumem_bo_unmap(d.folio);
	return ret;
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
 * Fill @len bytes that begin @skip bytes behind the start of an element.  In a
 * registration that is not aligned to the element size, an element may lie in
 * two pages, which need not be contiguous.
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

static int gpumem_cpu_fill(struct gpumem_engine *engine,
			   const struct gpumem_extent *dst, u64 value,
			   unsigned int elem, size_t len)
{
	size_t part, done = 0;
	struct folio *folio;
	unsigned int skip;
	void *d;

	if (dst->at) {
		gpumem_cpu_set(dst->at, value, elem, len);
		return 0;
	}
	while (done < len) {
		part = len - done;
		d = gpumem_bo_map(dst->bo, dst->offset + done, &part, &folio);
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

/*
 * Bytes of a run that one access to user memory may touch.  Hardened usercopy
 * refuses an access that leaves a folio, and the runs of a registration do.
 */
static size_t gpumem_cpu_user_part(struct gpumem_bo *bo, const void *at,
				   size_t len)
{
	if (!gpumem_bo_root(bo)->pin)
		return len;
	return min(len, PAGE_SIZE - offset_in_page(at));
}

/*
 * Copy between user memory and a buffer object, or zeros if that is NULL.  Return
 * the number of bytes copied before a byte faulted, or a negative errno.
 */
static ssize_t gpumem_cpu_user(const struct gpumem_extent *extent,
			       const void __user *in, void __user *out,
			       size_t len)
{
	struct gpumem_cpu_run run = gpumem_cpu_run_begin(extent, len);
	size_t done = 0, part, left = 0;
	int ret = 0;

	while (done < len && !left) {
		ret = gpumem_cpu_run_map(&run, len - done);
		if (ret)
			break;
		part = gpumem_cpu_user_part(run.bo, run.at, run.left);
		pagefault_disable();
		left = in ? __copy_from_user_inatomic(run.at, in + done, part) :
			    __copy_to_user_inatomic(out + done, run.at, part);
		pagefault_enable();
		part -= left;
		run.at += part;
		run.left -= part;
		done += part;
	}
	gpumem_bo_unmap(run.folio);
	if (should_fail(&gpumem_fail_copy, len))
		ret = -EIO;
	return ret ?: done;
}

/* As gpumem_cpu_user(), for a hole of a sparse mapping. */
static ssize_t gpumem_cpu_user_hole(const void __user *in, void __user *out,
				    size_t len)
{
	size_t done = 0, part, left = 0;
	u8 sink[64];

	while (done < len && !left) {
		part = min(len - done, sizeof(sink));
		memset(sink, 0, sizeof(sink));
		pagefault_disable();
		left = in ? __copy_from_user_inatomic(sink, in + done, part) :
			    __copy_to_user_inatomic(out + done, sink, part);
		pagefault_enable();
		done += part - left;
	}
	return done;
}

static ssize_t gpumem_cpu_copy_in(struct gpumem_engine *engine,
				  const struct gpumem_extent *dst,
				  const void __user *src, size_t len)
{
	return dst->bo ? gpumem_cpu_user(dst, src, NULL, len) :
			 gpumem_cpu_user_hole(src, NULL, len);
}

static ssize_t gpumem_cpu_copy_out(struct gpumem_engine *engine,
				   void __user *dst,
				   const struct gpumem_extent *src, size_t len)
{
	return src->bo ? gpumem_cpu_user(src, NULL, dst, len) :
			 gpumem_cpu_user_hole(NULL, dst, len);
}

const struct gpumem_engine_ops gpumem_engine_cpu_ops = {
	.name = "cpu",
	.copy = gpumem_cpu_copy,
	.fill = gpumem_cpu_fill,
	.copy_in = gpumem_cpu_copy_in,
	.copy_out = gpumem_cpu_copy_out,
};
