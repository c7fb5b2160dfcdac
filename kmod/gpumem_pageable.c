// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_pageable: entries that name memory of the process, not of the device.
 *
 * A worker is a thread of the process that opened the client (gpumem_runner.c),
 * so it reaches the process's memory as the process does: through the
 * processor's page tables.  Nothing is pinned, and no MMU notifier is needed:
 * the kernel takes a page away by changing the page table, and the next access
 * faults.  What the process unmaps, maps anew, truncates or copies by fork()
 * has the effect that it has on another thread of the process.
 *
 * A slice accesses the process's memory with page faults disabled, up to the
 * first byte that faults (a *miss*).  The worker then leaves the stream, makes
 * the pages at this byte present (gpumem_runner_fault()), and kicks the stream,
 * whose next slice continues at this byte.
 *
 * A page fault may wait for userspace: for a file system, or for the owner of a
 * userfaultfd.  Meanwhile the worker has no locks, no stream and no managed
 * memory in use, so nobody else waits: neither those who destroy a stream, nor
 * those who close the client.  A signal ends the wait for a userfaultfd.
 *
 * Fenced entries (gpumem_fence.c) must not fault, and kernel workers may execute
 * them.  Before a portion is published, the worker pins the pages of the
 * portion's pageable sides, and handles misses as above.  It pins
 * GPUMEM_PAGEABLE_WINDOW bytes at most: a *window*.  The portion ends at the end
 * of a window.  The pages count as a registration until the portion has ended.
 * They are not pinned for long, so that any memory can be pinned that O_DIRECT
 * may use.
 *
 * Locks: vm->lock for reading, as above.
 */
#include <linux/align.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "gpumem_bo.h"
#include "gpumem_client.h"
#include "gpumem_delay.h"
#include "gpumem_device.h"
#include "gpumem_engine.h"
#include "gpumem_object.h"
#include "gpumem_pageable.h"
#include "gpumem_pin.h"
#include "gpumem_place.h"
#include "gpumem_stream.h"
#include "gpumem_vm.h"

/* Bytes of a window. */
#define GPUMEM_PAGEABLE_WINDOW	((u64)SZ_4M)
/* Pages that gpumem_pageable_fault() makes present at a time. */
#define GPUMEM_PAGEABLE_FAULTS	16UL
/* Faults at one address, one after the other, after which an entry fails. */
#define GPUMEM_PAGEABLE_MISSES	1000U

static void __user *gpumem_pageable_ptr(u64 addr)
{
	return (void __user *)(unsigned long)addr;
}

/**
 * gpumem_pageable_check - may a device execute an entry with these sides?
 * @stream: stream whose current entry passed gpumem_sqe_check()
 *
 * Return: 0 or -EOPNOTSUPP.
 */
int gpumem_pageable_check(struct gpumem_stream *stream)
{
	if (likely(!gpumem_pageable_any(&stream->sqe)))
		return 0;
	/* What the parameter was when the client attached the device counts. */
	return READ_ONCE(stream->obj.client->pageable) & stream->devbit ?
	       0 : -EOPNOTSUPP;
}

/*
 * Make the pages of a part of @miss present, as an access by the process does.
 * Return the number of pages, or a negative errno.
 */
static long gpumem_pageable_touch(const struct gpumem_pageable_miss *miss,
				  unsigned long addr, unsigned long n)
{
	unsigned int flags = (miss->write ? FOLL_WRITE : 0) |
			     FOLL_INTERRUPTIBLE;
	struct page *pages[GPUMEM_PAGEABLE_FAULTS];
	long got, i;

	/* Pinning a page for reading may need another page than reading it. */
	if (miss->pin) {
		got = pin_user_pages_unlocked(addr, n, pages, flags);
		if (got > 0)
			unpin_user_pages(pages, got);
		return got;
	}
	/* A page that NUMA balancing looks at is present for GUP only. */
	got = get_user_pages_unlocked(addr, n, pages,
				      flags | FOLL_HONOR_NUMA_FAULT);
	for (i = 0; i < got; i++)
		put_page(pages[i]);
	return got;
}

/**
 * gpumem_pageable_fault - make pages present, as an access by the process does
 * @miss: where; a range of which the first page counts
 *
 * The range is short, unless its pages are to be pinned.
 *
 * Context: a worker of the process, without locks and without a stream; waits
 * for userspace until a signal comes, and for some file systems longer.
 * Return: 0, -EAGAIN after a signal, or the negative errno with which the entry
 * fails.
 */
int gpumem_pageable_fault(const struct gpumem_pageable_miss *miss)
{
	unsigned long addr = round_down(miss->addr, PAGE_SIZE);
	unsigned long n, left, done = 0;
	long got = 0;

	left = PFN_UP(miss->addr + miss->len) - PFN_DOWN(miss->addr);
	if (!miss->pin)
		left = min(left, GPUMEM_PAGEABLE_FAULTS);
	while (left && !signal_pending(current)) {
		n = min(left, GPUMEM_PAGEABLE_FAULTS);
		got = gpumem_pageable_touch(miss, addr + (done << PAGE_SHIFT),
					    n);
		if (got <= 0)
			break;
		done += got;
		left -= got;
		cond_resched();
	}
	if (done)
		return 0;
	if (signal_pending(current))
		return -EAGAIN;
	return got == -ENOMEM ? -ENOMEM : -EFAULT;
}

/*
 * Have the worker make pages present once it has left the stream.  A page that
 * never stays long enough makes the entry fail.  Return -EINPROGRESS, or
 * -EFAULT.
 */
static int gpumem_pageable_ask(struct gpumem_stream *stream,
			       const struct gpumem_pageable_miss *miss)
{
	if (!stream->misses || stream->missed != miss->addr) {
		stream->missed = miss->addr;
		stream->misses = 0;
	}
	if (++stream->misses > GPUMEM_PAGEABLE_MISSES)
		return -EFAULT;
	stream->miss = *miss;
	return -EINPROGRESS;
}

/* The result of the fault that the stream waited for, if it has failed. */
static int gpumem_pageable_fault_result(struct gpumem_stream *stream)
{
	int ret = stream->fault;

	stream->fault = 0;
	if (ret != -EAGAIN)
		return ret;
	/* The next look asks for the fault again. */
	stream->misses--;
	return 0;
}

/* The bytes of a row, and the rows, of a copy or fill. */
static u64 gpumem_pageable_row(const struct gpumem_sqe *sqe)
{
	return sqe->op == GPUMEM_OP_FILL ? sqe->width * sqe->elem : sqe->width;
}

static u64 gpumem_pageable_rows(const struct gpumem_sqe *sqe)
{
	return gpumem_pageable_row(sqe) ? max(sqe->height, 1) : 0;
}

static u64 gpumem_pageable_dst(const struct gpumem_stream *stream)
{
	return stream->sqe.dst + stream->row * stream->sqe.dst_pitch +
	       stream->col;
}

static u64 gpumem_pageable_src(const struct gpumem_stream *stream)
{
	return stream->sqe.src + stream->row * stream->sqe.src_pitch +
	       stream->col;
}

/* @len more bytes of the entry are done. */
static void gpumem_pageable_advance(struct gpumem_stream *stream, u64 len)
{
	stream->col += len;
	if (stream->col == gpumem_pageable_row(&stream->sqe)) {
		stream->col = 0;
		stream->row++;
	}
}

/*
 * Copy between pageable memory and buffer objects, as gpumem_step_places().
 * -EAGAIN with @miss->len set: the copy needs a page fault.
 */
static int gpumem_pageable_mixed(struct gpumem_stream *stream,
				 struct gpumem_place *place,
				 struct gpumem_pageable_miss *miss)
{
	bool out = gpumem_pageable_side(&stream->sqe, true);
	struct gpumem_engine *engine = stream->dev->engine;
	u64 rows = gpumem_pageable_rows(&stream->sqe), len, addr, user;
	struct gpumem_extent extent;
	s64 budget = GPUMEM_SLICE;
	ssize_t done;
	int ret;

	lockdep_assert_held(&stream->vm->lock);
	while (stream->row < rows) {
		if (budget <= 0)
			return -EAGAIN;
		len = min_t(u64, stream->sqe.width - stream->col, budget);
		addr = out ? gpumem_pageable_src(stream) :
			     gpumem_pageable_dst(stream);
		user = out ? gpumem_pageable_dst(stream) :
			     gpumem_pageable_src(stream);
		ret = gpumem_place_find(stream, place, addr, !out, &len) ?:
		      gpumem_place_enter(stream, place, &len);
		if (ret)
			return ret;
		if (!access_ok(gpumem_pageable_ptr(user), len))
			return -EFAULT;
		extent = gpumem_place_extent(place);
		if (out)
			done = engine->ops->copy_out(engine,
						     gpumem_pageable_ptr(user),
						     &extent, len);
		else
			done = engine->ops->copy_in(engine, &extent,
						    gpumem_pageable_ptr(user),
						    len);
		if (done < 0)
			return done;
		gpumem_stream_wrote(stream, done, false);
		gpumem_place_accessed(stream, place, done);
		gpumem_pageable_advance(stream, done);
		if (done < len) {
			miss->addr = user + done;
			miss->len = len - done;
			miss->write = out;
			return -EAGAIN;
		}
		budget -= max_t(u64, len, GPUMEM_ROW_WEIGHT);
	}
	return 0;
}

static int gpumem_pageable_step_mixed(struct gpumem_stream *stream)
{
	struct gpumem_pageable_miss miss = { };
	struct gpumem_place place = { };
	int ret;

	gpumem_delay(slice_begin);
	scoped_guard(rwsem_read, &stream->vm->lock) {
		stream->need.bo = NULL;
		ret = gpumem_pageable_mixed(stream, &place, &miss);
		gpumem_place_leave(&place);
		ret = gpumem_need_keep(stream, ret);
	}
	return miss.len ? gpumem_pageable_ask(stream, &miss) : ret;
}

/*
 * Read or write user memory up to the first byte that faults.  Return 0; or
 * -EAGAIN, with that byte in @miss; or -EFAULT.
 */
static int gpumem_pageable_read(void *to, u64 addr, u64 len,
				struct gpumem_pageable_miss *miss)
{
	unsigned long left;

	if (!access_ok(gpumem_pageable_ptr(addr), len))
		return -EFAULT;
	pagefault_disable();
	left = __copy_from_user_inatomic(to, gpumem_pageable_ptr(addr), len);
	pagefault_enable();
	miss->addr = addr + len - left;
	miss->len = left;
	miss->write = false;
	return left ? -EAGAIN : 0;
}

static int gpumem_pageable_write(u64 addr, const void *from, u64 len,
				 struct gpumem_pageable_miss *miss)
{
	unsigned long left;

	if (!access_ok(gpumem_pageable_ptr(addr), len))
		return -EFAULT;
	pagefault_disable();
	left = __copy_to_user_inatomic(gpumem_pageable_ptr(addr), from, len);
	pagefault_enable();
	miss->addr = addr + len - left;
	miss->len = left;
	miss->write = true;
	return left ? -EAGAIN : 0;
}

/*
 * Write one element, so that no other thread sees a part of it.  Return as
 * gpumem_pageable_read().
 */
static int gpumem_pageable_put(u64 addr, u64 value, unsigned int elem,
			       struct gpumem_pageable_miss *miss)
{
	void __user *p = gpumem_pageable_ptr(addr);
	int ret;

	if (!access_ok(p, elem))
		return -EFAULT;
	/* The process may poll the word; pairs with its load. */
	smp_wmb();
	pagefault_disable();
	switch (elem) {
	case 1:
		ret = __put_user((u8)value, (u8 __user *)p);
		break;
	case 2:
		ret = __put_user((u16)value, (u16 __user *)p);
		break;
	case 4:
		ret = __put_user((u32)value, (u32 __user *)p);
		break;
	default:
		ret = __put_user(value, (u64 __user *)p);
	}
	pagefault_enable();
	miss->addr = addr;
	miss->len = ret ? elem : 0;
	miss->write = true;
	return ret ? -EAGAIN : 0;
}

/* Repeat an element over @len bytes of the kernel. */
static void gpumem_pageable_pattern(void *page, u64 value, unsigned int elem,
				    size_t len)
{
	switch (elem) {
	case 1:
		memset(page, value, len);
		break;
	case 2:
		memset16(page, value, len / 2);
		break;
	case 4:
		memset32(page, value, len / 4);
		break;
	default:
		memset64(page, value, len / 8);
	}
}

/*
 * Execute a slice of a fill of pageable memory, or of a copy between two ranges
 * of it, by way of the page @buffer.  Return as gpumem_pageable_mixed().
 */
static int gpumem_pageable_plain(struct gpumem_stream *stream, void *buffer,
				 struct gpumem_pageable_miss *miss)
{
	bool fill = stream->sqe.op == GPUMEM_OP_FILL;
	u64 bytes = gpumem_pageable_row(&stream->sqe), len;
	u64 rows = gpumem_pageable_rows(&stream->sqe);
	s64 budget = GPUMEM_SLICE;
	int ret;

	if (fill)
		gpumem_pageable_pattern(buffer, stream->sqe.value,
					stream->sqe.elem, PAGE_SIZE);
	while (stream->row < rows) {
		if (budget <= 0)
			return -EAGAIN;
		len = min_t(u64, bytes - stream->col, PAGE_SIZE);
		if (!fill) {
			ret = gpumem_pageable_read(buffer,
						   gpumem_pageable_src(stream),
						   len, miss);
			if (ret)
				return ret;
		}
		ret = gpumem_pageable_write(gpumem_pageable_dst(stream), buffer,
					    len, miss);
		if (ret == -EFAULT)
			return ret;
		/* A fill goes on at an element. */
		if (fill)
			miss->len = round_up(miss->len, stream->sqe.elem);
		len -= miss->len;
		gpumem_stream_wrote(stream, len, fill);
		gpumem_pageable_advance(stream, len);
		if (ret)
			return ret;
		budget -= max_t(u64, len, GPUMEM_ROW_WEIGHT);
	}
	return 0;
}

static int gpumem_pageable_step_plain(struct gpumem_stream *stream)
{
	const struct gpumem_sqe *sqe = &stream->sqe;
	struct gpumem_pageable_miss miss = { };
	void *buffer;
	int ret;

	gpumem_delay(slice_begin);
	if (sqe->op == GPUMEM_OP_FILL && sqe->width == 1 && sqe->height <= 1) {
		ret = gpumem_pageable_put(sqe->dst, sqe->value, sqe->elem,
					  &miss);
		gpumem_stream_wrote(stream, ret ? 0 : sqe->elem, true);
	} else {
		buffer = kmalloc(PAGE_SIZE, GFP_KERNEL_ACCOUNT);
		if (!buffer)
			return -ENOMEM;
		ret = gpumem_pageable_plain(stream, buffer, &miss);
		kfree(buffer);
	}
	return ret == -EAGAIN && miss.len ? gpumem_pageable_ask(stream, &miss) :
					    ret;
}

/**
 * gpumem_pageable_step - execute a slice of a copy or fill of pageable memory
 * @stream: stream whose entry has a pageable side, and no fence
 *
 * Context: the worker that runs the stream, a thread of the client's process;
 * may sleep, without locks.
 * Return: as gpumem_engine_step(), or -ENODATA as gpumem_need_keep().
 */
int gpumem_pageable_step(struct gpumem_stream *stream)
{
	const struct gpumem_sqe *sqe = &stream->sqe;
	int ret = gpumem_pageable_fault_result(stream);

	if (ret)
		return ret;
	if (sqe->op == GPUMEM_OP_COPY &&
	    !(gpumem_pageable_side(sqe, true) && gpumem_pageable_side(sqe, false)))
		return gpumem_pageable_step_mixed(stream);
	return gpumem_pageable_step_plain(stream);
}

/**
 * gpumem_pageable_poll - read the word of a poll from pageable memory
 * @stream: stream whose entry is a poll with GPUMEM_SQE_DST_PAGEABLE
 * @word: out
 *
 * Context: as gpumem_pageable_step().
 * Return: 0, -EINPROGRESS if the stream is kicked when the page is there, or the
 * negative errno with which the entry fails.
 */
int gpumem_pageable_poll(struct gpumem_stream *stream, u64 *word)
{
	struct gpumem_pageable_miss miss = {
		.addr = stream->sqe.dst, .len = stream->sqe.elem,
	};
	void __user *p = gpumem_pageable_ptr(stream->sqe.dst);
	u32 low = 0;
	int ret = gpumem_pageable_fault_result(stream);

	if (ret)
		return ret;
	if (!access_ok(p, stream->sqe.elem))
		return -EFAULT;
	pagefault_disable();
	if (stream->sqe.elem == 4) {
		ret = __get_user(low, (u32 __user *)p);
		*word = low;
	} else {
		ret = __get_user(*word, (u64 __user *)p);
	}
	pagefault_enable();
	/* What the stream does next comes after the look. */
	smp_rmb();
	if (ret)
		return gpumem_pageable_ask(stream, &miss);
	stream->misses = 0;
	return 0;
}

/**
 * gpumem_pageable_place - find the pinned page behind an address
 * @stream: its current portion is fenced, and this side of it is pageable
 * @place: out
 * @addr: address of the process
 * @write: the engine is to write
 * @len: bytes wanted; reduced to the part inside the window
 *
 * Context: the owner of the portion; may be atomic.
 * Return: 0, or -ENODATA outside the window.
 */
int gpumem_pageable_place(struct gpumem_stream *stream,
			  struct gpumem_place *place, u64 addr, bool write,
			  u64 *len)
{
	struct gpumem_pageable_window *window = &stream->windows[write];

	if (!window->bo || addr < window->addr ||
	    addr - window->addr >= window->bo->length) {
		stream->need.pages = true;
		return -ENODATA;
	}
	place->m = NULL;
	place->bo = window->bo;
	place->offset = addr - window->addr;
	*len = min(*len, window->bo->length - place->offset);
	if (write)
		gpumem_pin_written(window->bo->pin);
	return 0;
}

/*
 * Pin a window of the pages that the rest of an entry touches on one side:
 * as much as possible, at least a page.
 */
static int gpumem_pageable_pin_side(struct gpumem_stream *stream, bool write)
{
	struct gpumem_pageable_window *window = &stream->windows[write];
	const struct gpumem_sqe *sqe = &stream->sqe;
	struct gpumem_pageable_miss miss = { .write = write, .pin = true };
	u64 first, end, page;
	struct gpumem_bo *bo;

	if (!gpumem_pageable_side(sqe, write))
		return 0;
	first = write ? gpumem_pageable_dst(stream) : gpumem_pageable_src(stream);
	end = (write ? sqe->dst : sqe->src) + gpumem_pageable_row(sqe) +
	      (max(sqe->height, 1) - 1) *
	      (write ? sqe->dst_pitch : sqe->src_pitch);
	end = min(end, first + GPUMEM_PAGEABLE_WINDOW);
	page = min(end, round_down(first, PAGE_SIZE) + PAGE_SIZE);
	bo = gpumem_pin_window(stream->obj.client, first, end - first, !write);
	if (PTR_ERR_OR_ZERO(bo) == -EFAULT &&
	    (stream->missed != first || !stream->misses)) {
		miss.addr = first;
		miss.len = end - first;
		return gpumem_pageable_ask(stream, &miss);
	}
	/* The rest may be unmapped, between two rows for example. */
	if (IS_ERR(bo) && PTR_ERR(bo) != -EINTR && page < end)
		bo = gpumem_pin_window(stream->obj.client, first, page - first,
				       !write);
	if (PTR_ERR_OR_ZERO(bo) == -EFAULT) {
		miss.addr = first;
		miss.len = page - first;
		return gpumem_pageable_ask(stream, &miss);
	}
	if (IS_ERR(bo))
		return PTR_ERR(bo);
	window->addr = first;
	window->bo = bo;
	return 0;
}

/**
 * gpumem_pageable_pin - pin the pageable memory of a fenced entry's portion
 * @stream: stream whose entry has a pageable side
 *
 * Context: the worker that runs the stream; may sleep, without locks.
 * Return: 0; -EAGAIN if the worker must leave; -EINPROGRESS as
 * gpumem_pageable_poll(); or the negative errno with which the entry fails.
 */
int gpumem_pageable_pin(struct gpumem_stream *stream)
{
	int ret = gpumem_pageable_fault_result(stream);

	gpumem_pageable_unpin(stream);
	if (ret)
		return ret;
	if (!gpumem_pageable_rows(&stream->sqe))
		return 0;
	ret = gpumem_pageable_pin_side(stream, true) ?:
	      gpumem_pageable_pin_side(stream, false);
	if (ret)
		gpumem_pageable_unpin(stream);
	return ret == -EINTR ? -EAGAIN : ret;
}

/**
 * gpumem_pageable_unpin - undo gpumem_pageable_pin()
 * @stream: whose portion has ended, or is not published
 *
 * Context: may sleep; no other task owns the stream's entry.
 */
void gpumem_pageable_unpin(struct gpumem_stream *stream)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(stream->windows); i++) {
		if (stream->windows[i].bo)
			gpumem_object_put(&stream->windows[i].bo->obj);
		stream->windows[i].bo = NULL;
	}
}
