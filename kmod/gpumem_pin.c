// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_pin: registered host memory.
 *
 * A registration is a long-term pin of the pages behind a range of the owner's
 * addresses, and a buffer object over these pages.  If the owner unmaps the
 * pages, the pin keeps them.  There is no MMU notifier: streams access the
 * pinned pages, whatever the process maps at the addresses later.
 *
 * gpumem_pin_take() pins GPUMEM_PIN_CHUNK pages at a time, with no lock held,
 * and folds them at once into *extents*: runs of physically contiguous pages,
 * 16 bytes each, at most one for each folio.  After each GPUMEM_PIN_CHUNK pages
 * it ends if a fatal signal is pending, and reschedules.  The release unpins
 * extent by extent, and reschedules after each GPUMEM_PIN_BATCH pages.
 *
 * Registrations of a client do not overlap in any byte, though they may share
 * pages.  The range is in client->pins from before the first page is pinned
 * until the id is destroyed.
 *
 * Every pinned page counts in mm->pinned_vm and against the budgets of
 * gpumem_user.c.
 *
 * The release marks the pages dirty if the engine, or an importer of a DMA-buf,
 * could have written them.
 *
 * A window of a fenced portion (gpumem_pageable.c) is pinned in the same way, but
 * for a short time: it has no id, is not in client->pins, and any page will do.
 *
 * Locks: client->pin_lock (mutex) protects client->pins and pin->listed.
 */
#include <linux/interval_tree.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/swap.h>

#include "gpumem_bo.h"
#include "gpumem_client.h"
#include "gpumem_compat.h"
#include "gpumem_ioctl.h"
#include "gpumem_object.h"
#include "gpumem_pin.h"
#include "gpumem_shmem.h"
#include "gpumem_user.h"

#define GPUMEM_PIN_CHUNK	512U

/* Pages unpinned before cond_resched(). */
#define GPUMEM_PIN_BATCH	(32 * GPUMEM_PIN_CHUNK)

/* Extents that need no array. */
#define GPUMEM_PIN_FEW		4

/**
 * struct gpumem_extent - physically contiguous pages, 16 bytes
 * @page: first page
 * @index: index of @page in the registration
 * @pages: number of pages
 */
struct gpumem_extent {
	struct page *page;
	u32 index;
	u32 pages;
};

static_assert(sizeof(struct gpumem_extent) == 16);

/**
 * struct gpumem_pin - the pages of a registration
 */
struct gpumem_pin {
	/** @bo: the buffer object over it; freed with it */
	struct gpumem_bo bo;
	/** @charge: charge for the pages; constant */
	struct gpumem_charge charge;
	/** @range: first and last byte; in client->pins; client->pin_lock */
	struct interval_tree_node range;
	/** @pages: number of pages; constant */
	u64 pages;
	/** @extents: extents by index; constant once the id exists */
	struct gpumem_extent *extents;
	/** @nr: number of @extents */
	size_t nr;
	/** @room: number of extents that fit in @extents */
	size_t room;
	/** @listed: in client->pins; client->pin_lock */
	bool listed;
	/** @readonly: pinned for reading; constant */
	bool readonly;
	/** @window: of a fenced portion; pinned for a short time; constant */
	bool window;
	/** @written: pages may have been written; never cleared */
	bool written;
	/** @few: array for up to GPUMEM_PIN_FEW extents */
	struct gpumem_extent few[GPUMEM_PIN_FEW];
};

static_assert(offsetof(struct gpumem_pin, bo) == 0);

/*
 * Make room for @more extents.  The extents of the first @done pages give the
 * estimate for all pages.
 */
static int gpumem_pin_room(struct gpumem_pin *pin, u64 done, size_t more)
{
	struct gpumem_extent *extents;
	size_t room = pin->nr + more;

	if (room <= pin->room)
		return 0;
	if (done)
		room += max_t(u64, GPUMEM_PIN_CHUNK,
			      div64_u64(pin->nr * (pin->pages - done), done));
	extents = kvrealloc(pin->extents, array_size(room, sizeof(*extents)),
			    GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!extents)
		return -ENOMEM;
	pin->extents = extents;
	pin->room = room;
	return 0;
}

/* Fold @n pinned pages into extents, for which there is room. */
static void gpumem_pin_fold(struct gpumem_pin *pin, u32 index,
			    struct page **pages, unsigned int n)
{
	struct gpumem_extent *e = pin->extents + pin->nr;
	unsigned int i = 0, run;

	/* Do the new pages continue the last extent? */
	if (pin->nr) {
		while (i < n &&
		       pages[i] == gpumem_compat_nth_page(e[-1].page,
							  e[-1].pages + i))
			i++;
		e[-1].pages += i;
	}
	while (i < n) {
		struct page *page = pages[i];

		for (run = 1; i + run < n; run++)
			if (pages[i + run] != gpumem_compat_nth_page(page, run))
				break;
		e->page = page;
		e->index = index + i;
		e->pages = run;
		e++;
		i += run;
	}
	pin->nr = e - pin->extents;
}

static int gpumem_pin_take(struct gpumem_pin *pin, struct page **pages)
{
	/* gpumem_pageable.c has the pages of a window made present before. */
	unsigned int gup = (pin->window ? FOLL_NOFAULT : FOLL_LONGTERM) |
			   (pin->readonly ? 0 : FOLL_WRITE);
	unsigned long addr = round_down(pin->range.start, PAGE_SIZE);
	u64 index = 0;
	int n, ret;

	while (index < pin->pages) {
		if (fatal_signal_pending(current))
			return -EINTR;
		n = min_t(u64, pin->pages - index, GPUMEM_PIN_CHUNK);
		ret = gpumem_pin_room(pin, index, n);
		if (ret)
			return ret;
		n = pin_user_pages_fast(addr + (index << PAGE_SHIFT), n, gup,
					pages);
		if (n <= 0)
			return n ?: -EFAULT;
		gpumem_pin_fold(pin, index, pages, n);
		index += n;
		cond_resched();
	}
	return 0;
}

/* Give back room that was not needed. */
static void gpumem_pin_trim(struct gpumem_pin *pin)
{
	struct gpumem_extent *extents = pin->few;

	if (pin->nr > GPUMEM_PIN_FEW) {
		/* A copy would free too little memory. */
		if ((pin->room - pin->nr) * 16 < pin->nr)
			return;
		extents = kvmalloc_array(pin->nr, sizeof(*extents),
					 GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
		if (!extents)
			return;
	}
	memcpy(extents, pin->extents, pin->nr * sizeof(*extents));
	kvfree(pin->extents);
	pin->extents = extents;
	pin->room = pin->nr;
}

static void gpumem_pin_dirty(struct folio *folio)
{
	if (folio_test_dirty(folio))
		return;
	folio_lock(folio);
	folio_mark_dirty(folio);
	folio_unlock(folio);
}

/*
 * Unpin pages that follow each other in memory.  Pinned folios are neither
 * split nor merged, so only the first page may lie inside one.  The page after
 * a folio's last page is the first of another folio, of which only the number
 * of pages is read.
 */
static __always_inline void gpumem_pin_drop_run(struct page *page,
						unsigned long left, bool dirty)
{
	struct folio *folio = page_folio(page);
	unsigned long n, skip = folio_page_idx(folio, page);

	for (;; folio = (struct folio *)page) {
		if (dirty)
			gpumem_pin_dirty(folio);
		n = folio_nr_pages(folio);
		if (n == 1) {
			unpin_user_folio(folio, 1);
			page = gpumem_compat_nth_page(page, 1);
			if (!--left)
				return;
			continue;
		}
		n = min(n - skip, left);
		unpin_user_folio(folio, n);
		page = gpumem_compat_nth_page(page, n);
		skip = 0;
		left -= n;
		if (!left)
			return;
	}
}

static __always_inline void gpumem_pin_drop_all(struct gpumem_pin *pin,
						bool dirty)
{
	struct gpumem_extent *e = pin->extents, *end = e + pin->nr;
	u32 done, n, since = 0;

	for (; e < end; e++) {
		for (done = 0; done < e->pages; done += n) {
			n = min(e->pages - done, GPUMEM_PIN_BATCH);
			gpumem_pin_drop_run(gpumem_compat_nth_page(e->page,
								   done),
					    n, dirty);
			since += n;
			if (since >= GPUMEM_PIN_BATCH) {
				since = 0;
				cond_resched();
			}
		}
	}
}

static void gpumem_pin_drop(struct gpumem_pin *pin)
{
	if (pin->written)
		gpumem_pin_drop_all(pin, true);
	else
		gpumem_pin_drop_all(pin, false);
	if (pin->extents != pin->few)
		kvfree(pin->extents);
}

/* Insert the range into client->pins; -EEXIST if a byte is registered. */
static int gpumem_pin_list(struct gpumem_client *client, struct gpumem_pin *pin)
{
	guard(mutex)(&client->pin_lock);
	if (interval_tree_iter_first(&client->pins, pin->range.start,
				     pin->range.last))
		return -EEXIST;
	interval_tree_insert(&pin->range, &client->pins);
	pin->listed = true;
	return 0;
}

/**
 * gpumem_pin_unlist - let the addresses of a registration be registered again
 * @client: its client
 * @pin: registration whose id is gone
 */
void gpumem_pin_unlist(struct gpumem_client *client, struct gpumem_pin *pin)
{
	guard(mutex)(&client->pin_lock);
	if (pin->listed)
		interval_tree_remove(&pin->range, &client->pins);
	pin->listed = false;
}

/**
 * gpumem_pin_release - unpin the pages
 * @pin: registration without references; its buffer object frees it
 *
 * Context: may sleep.
 */
void gpumem_pin_release(struct gpumem_pin *pin)
{
	gpumem_pin_drop(pin);
	gpumem_charge_fini(&pin->charge);
}

/**
 * gpumem_pin_readonly - was memory registered for reading only?
 * @pin: registration
 *
 * Return: true or false.
 */
bool gpumem_pin_readonly(struct gpumem_pin *pin)
{
	return pin->readonly;
}

/**
 * gpumem_pin_written - have the release mark the pages dirty
 * @pin: registration that the engine or an importer may write
 */
void gpumem_pin_written(struct gpumem_pin *pin)
{
	if (!READ_ONCE(pin->written))
		WRITE_ONCE(pin->written, true);
}

/**
 * gpumem_pin_map - get the kernel's address of a piece of a registration
 * @pin: registration
 * @offset: bytes behind the start of its first page
 * @len: bytes wanted in; out: bytes up to the end of the extent, or to a page in
 *	it that failed
 *
 * Return: the address, or an ERR_PTR: -EIO if the memory failed.
 */
void *gpumem_pin_map(struct gpumem_pin *pin, u64 offset, size_t *len)
{
	u64 index = offset >> PAGE_SHIFT, skip;
	size_t lo = 0, hi = pin->nr, sound;
	struct gpumem_extent *e;
	struct page *page;

	/* The last extent that starts at or before the page. */
	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (pin->extents[mid].index <= index)
			lo = mid;
		else
			hi = mid;
	}
	e = &pin->extents[lo];
	skip = index - e->index;
	page = gpumem_compat_nth_page(e->page, skip);
	*len = min_t(u64, *len, ((e->pages - skip) << PAGE_SHIFT) -
				offset_in_page(offset));
	sound = gpumem_sound_pages(page, PFN_UP(offset_in_page(offset) + *len));
	if (unlikely(!sound))
		return ERR_PTR(-EIO);
	*len = min_t(u64, *len,
		     ((u64)sound << PAGE_SHIFT) - offset_in_page(offset));
	return page_address(page) + offset_in_page(offset);
}

static int gpumem_pin_fill(struct gpumem_client *client,
			   struct gpumem_pin *pin)
{
	struct page **pages;
	int ret;

	ret = pin->window ?
	      gpumem_charge_init_worker(&pin->charge, client, pin->pages) :
	      gpumem_charge_init(&pin->charge, client, pin->pages);
	if (ret)
		return ret;
	pages = kmalloc_array(GPUMEM_PIN_CHUNK, sizeof(*pages), GFP_KERNEL);
	if (!pages)
		return -ENOMEM;
	ret = gpumem_pin_take(pin, pages);
	kfree(pages);
	if (!ret)
		gpumem_pin_trim(pin);
	return ret;
}

static struct gpumem_pin *gpumem_pin_create(struct gpumem_client *client,
					    u64 addr, u64 length, bool readonly,
					    bool window)
{
	struct gpumem_pin *pin = kzalloc(sizeof(*pin), GFP_KERNEL_ACCOUNT);
	int ret;

	if (!pin)
		return ERR_PTR(-ENOMEM);
	gpumem_bo_init_pin(&pin->bo, client, pin, offset_in_page(addr), length);
	pin->range.start = addr;
	pin->range.last = addr + length - 1;
	pin->pages = PFN_UP(addr + length) - PFN_DOWN(addr);
	pin->readonly = readonly;
	pin->window = window;
	/* A window may contain registered memory. */
	ret = window ? 0 : gpumem_pin_list(client, pin);
	if (!ret)
		ret = gpumem_pin_fill(client, pin);
	if (!ret)
		return pin;
	gpumem_pin_unlist(client, pin);
	gpumem_object_put(&pin->bo.obj);
	return ERR_PTR(ret);
}

/**
 * gpumem_pin_window - pin memory of the process for a fenced portion
 * @client: whose process the caller is a thread of
 * @addr: first byte
 * @length: bytes, not 0
 * @readonly: the memory is only read
 *
 * The pages are charged and counted as those of a registration.
 *
 * Context: a worker of @client; may sleep, without locks.
 * Return: a buffer object without an id, with a reference, or an ERR_PTR.
 */
struct gpumem_bo *gpumem_pin_window(struct gpumem_client *client, u64 addr,
				    u64 length, bool readonly)
{
	struct gpumem_pin *pin;

	if (addr >= TASK_SIZE_MAX || length > TASK_SIZE_MAX - addr)
		return ERR_PTR(-EFAULT);
	pin = gpumem_pin_create(client, addr, length, readonly, true);
	return IS_ERR(pin) ? ERR_CAST(pin) : &pin->bo;
}

int gpumem_ioctl_bo_pin(struct gpumem_ucmd *ucmd)
{
	struct gpumem_bo_pin *cmd = ucmd->cmd;
	struct gpumem_pin *pin;
	u64 end;
	int ret;

	if (cmd->flags & ~GPUMEM_BO_PIN_RDONLY || cmd->reserved)
		return -EOPNOTSUPP;
	if (!cmd->length)
		return -EINVAL;
	if (check_add_overflow(cmd->addr, cmd->length, &end))
		return -EOVERFLOW;
	/* The index of an extent has 32 bits. */
	if (end > TASK_SIZE_MAX || cmd->length > (u64)U32_MAX << PAGE_SHIFT)
		return -EFAULT;
	pin = gpumem_pin_create(ucmd->client, cmd->addr, cmd->length,
				cmd->flags & GPUMEM_BO_PIN_RDONLY, false);
	if (IS_ERR(pin))
		return PTR_ERR(pin);
	ret = gpumem_object_reserve(ucmd, &pin->bo.obj);
	if (ret) {
		gpumem_pin_unlist(ucmd->client, pin);
		gpumem_object_put(&pin->bo.obj);
		return ret;
	}
	cmd->id = pin->bo.obj.id;
	return gpumem_ucmd_respond(ucmd, sizeof(*cmd));
}
