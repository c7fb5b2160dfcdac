// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_fence_look: which reservation objects (resvs) a fenced entry touches.
 *
 * The roots behind an entry's addresses are looked up in the stream's address
 * space.  A root with DMA-bufs has a resv of its own, joint resvs, or both
 * (gpumem_resv.c).  gpumem_fence.c does what follows with the resvs.
 *
 * Locks: vm->lock for reading while the roots are looked up, and
 * root->joint_lock inside it.
 */
#include <linux/sched.h>

#include "gpumem_bo.h"
#include "gpumem_client.h"
#include "gpumem_dmabuf.h"
#include "gpumem_engine.h"
#include "gpumem_fence_look.h"
#include "gpumem_object.h"
#include "gpumem_publish.h"
#include "gpumem_resv.h"
#include "gpumem_stream.h"
#include "gpumem_vm.h"

/* Mappings and tiles that gpumem_fenced_find() visits before it drops vm->lock. */
#define GPUMEM_FENCE_LOOKS	256

/* Note the own resv of a root.  Return the number of resvs: 0 or 1. */
static unsigned int gpumem_fenced_own(struct gpumem_bo *root, bool write,
				      struct gpumem_fenced_resv *list)
{
	if (!atomic_read(&root->dmabufs))
		return 0;
	/* Pairs with gpumem_resv_count_own(). */
	smp_rmb();
	if (list) {
		kref_get(&root->obj.ref);
		list->root = root;
		list->resv = root->resv;
		if (root->foreign && !gpumem_foreign_is_own(root->foreign))
			list->foreign = root->foreign;
		list->write = write;
	}
	return 1;
}

/* Note up to @max joint resvs of a root.  Return their number. */
static unsigned int gpumem_fenced_joints(struct gpumem_bo *root, bool write,
					 struct gpumem_fenced_resv *list,
					 unsigned int max)
{
	struct gpumem_joint *joint;
	unsigned int n = 0;

	if (list_empty(&root->joints))
		return 0;
	spin_lock(&root->joint_lock);
	list_for_each_entry(joint, &root->joints, link) {
		if (n == max)
			break;
		if (list) {
			/* A DMA-buf in the list keeps the client. */
			kref_get(&joint->client->ref);
			list[n].client = joint->client;
			list[n].resv = joint->client->joint_resv;
			list[n].write = write;
		}
		n++;
	}
	spin_unlock(&root->joint_lock);
	return n;
}

/*
 * Find up to @max resvs of the roots behind a range of addresses.  Store them
 * with references in @list, unless @list is NULL.  A client may have any number
 * of mappings, so vm->lock is dropped every GPUMEM_FENCE_LOOKS of them.
 * Return the number of resvs; a resv may be counted several times.
 */
static unsigned int gpumem_fenced_find(struct gpumem_stream *stream, u64 addr,
				       u64 last, bool write,
				       struct gpumem_fenced_resv *list,
				       unsigned int max)
{
	struct gpumem_bo *bo, *root, *before = NULL;
	unsigned int n = 0, looks = 0;

	if (!max)
		return 0;
	down_read(&stream->vm->lock);
	while ((bo = gpumem_vm_next(stream->vm, &addr, last))) {
		root = gpumem_bo_root(bo);
		if (root != before) {
			before = root;
			n += gpumem_fenced_own(root, write,
					       list ? list + n : NULL);
			n += gpumem_fenced_joints(root, write,
						  list ? list + n : NULL,
						  max - n);
			if (n == max)
				break;
		}
		if (++looks % GPUMEM_FENCE_LOOKS)
			continue;
		up_read(&stream->vm->lock);
		cond_resched();
		before = NULL;
		down_read(&stream->vm->lock);
		if (test_bit(GPUMEM_STREAM_CANCELLED, &stream->state))
			break;
	}
	up_read(&stream->vm->lock);
	return n;
}

/* Bytes of a row of an entry; 0 if entries of this kind are never fenced. */
static u64 gpumem_fenced_row(const struct gpumem_sqe *sqe)
{
	switch (sqe->op) {
	case GPUMEM_OP_COPY:
		return sqe->width;
	case GPUMEM_OP_FILL:
		return sqe->width * sqe->elem;
	case GPUMEM_OP_TIMESTAMP:
		return sizeof(u64);
	default:
		return 0;
	}
}

/* Rows that a portion may execute after the row in which it begins. */
static u64 gpumem_fenced_rows(const struct gpumem_sqe *sqe)
{
	u64 row = max(gpumem_fenced_row(sqe), GPUMEM_ROW_WEIGHT);

	return gpumem_publish_weight(sqe) / row + 1;
}

/*
 * Like gpumem_fenced_find(), for the part of an entry's rows at @addr that is
 * not executed yet.  If @most is not U64_MAX, look at @most bytes of a row at
 * most, and at no more rows than a portion has.
 */
static unsigned int gpumem_fenced_side(struct gpumem_stream *stream, u64 addr,
				       u64 pitch, u64 most, bool write,
				       struct gpumem_fenced_resv *list,
				       unsigned int max)
{
	const struct gpumem_sqe *sqe = &stream->sqe;
	u64 bytes = gpumem_fenced_row(sqe), row = stream->row;
	u64 end = max(sqe->height, 1), first, last;

	/* Pageable memory has no reservation object. */
	if (unlikely(gpumem_pageable_side(sqe, write)))
		return 0;
	/* The entry passed gpumem_sqe_check(): nothing overflows. */
	first = addr + row * pitch + stream->col;
	if (bytes - stream->col >= most) {
		last = first + most - 1;
	} else {
		if (most != U64_MAX)
			end = min(end, row + 1 + gpumem_fenced_rows(sqe));
		last = addr + (end - 1) * pitch + bytes - 1;
		if (end > row + 1)
			first -= stream->col;
	}
	return gpumem_fenced_find(stream, first, last, write, list, max);
}

/**
 * gpumem_fenced_look - find the resvs that the rest of an entry touches
 * @stream: the entry is its current one
 * @portion: look at the next portion of the entry only
 * @list: receives the resvs, with references on the roots and clients; or NULL
 * @max: places in @list, or how far to count
 *
 * Context: may sleep.
 * Return: the number of resvs, at most @max; a resv may be counted several
 * times.
 */
unsigned int gpumem_fenced_look(struct gpumem_stream *stream, bool portion,
				struct gpumem_fenced_resv *list,
				unsigned int max)
{
	const struct gpumem_sqe *sqe = &stream->sqe;
	u64 most = portion ? gpumem_publish_weight(sqe) : U64_MAX;
	unsigned int n;

	if (!gpumem_fenced_row(sqe))
		return 0;
	n = gpumem_fenced_side(stream, sqe->dst, sqe->dst_pitch, most, true,
			       list, max);
	if (sqe->op == GPUMEM_OP_COPY)
		n += gpumem_fenced_side(stream, sqe->src, sqe->src_pitch, most,
					false, list ? list + n : NULL, max - n);
	return n;
}
