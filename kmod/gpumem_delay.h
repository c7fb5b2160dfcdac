/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Delay points: places where a test makes a task stop, so that another task does
 * what would otherwise have to happen within a few instructions.
 *
 * Only in a module built with GPUMEM_DELAY=1 (selftests/vm does that for its debug
 * kernels); otherwise gpumem_delay() is nothing.  Documentation/testing.rst says
 * how a test arms a point.
 *
 * A point is in process context and holds no spinlock.  A row says what else the
 * task holds there; without a remark it holds no lock of ours and no published
 * fence.
 */
#ifndef GPUMEM_DELAY_H
#define GPUMEM_DELAY_H

#define GPUMEM_DELAY_POINTS(point)					\
	/* GPUMEM_TOKEN_OPEN found the token and has no view yet */	\
	point(token_open_view)						\
	/* it has the view and has not looked at the token again */	\
	point(token_open_check)						\
	/* it saw that the token lives; the view has no id yet */	\
	point(token_open_done)						\
	/* GPUMEM_TOKEN_CREATE has the bo and has not published */	\
	point(token_create)						\
	/* it has published; the token has no id yet */			\
	point(token_created)						\
	/* GPUMEM_DESTROY took the id away; the object is as it was */	\
	point(destroy)							\
	/* GPUMEM_VM_MAP has the bo and has not mapped it */		\
	point(vm_map)							\
	/* GPUMEM_VM_UNMAP has told the bytes and unmapped none */	\
	point(vm_unmap)							\
	/* before a slice */						\
	point(slice_begin)						\
	/* in a slice: vm->lock for reading */				\
	point(slice_locked)						\
	/* a waiter is about to be added to a timeline */		\
	point(waiter_add)						\
	/* it was added; its owner does not wait yet */			\
	point(waiter_added)						\
	/* an entry on shared buffers is prepared; no fence yet */	\
	point(share_publish)						\
	/* its fence is published, which it holds up */			\
	point(share_work)						\
	/* a cached chunk is wanted; no word was looked at */		\
	point(cache_claim)						\
	/* a word says TAKEN; the memory is still there */		\
	point(cache_claimed)						\
	/* a chunk is marked discarded; the memory is still there */	\
	point(bo_discard)

#define GPUMEM_DELAY_KIND(name)	GPUMEM_DELAY_##name,
enum gpumem_delay_kind {
	GPUMEM_DELAY_POINTS(GPUMEM_DELAY_KIND)
	GPUMEM_DELAYS,
};

#ifdef GPUMEM_DELAY
void gpumem_delay_init(void);
void gpumem_delay_exit(void);
void gpumem_delay_at(enum gpumem_delay_kind kind);
#define gpumem_delay(name)	gpumem_delay_at(GPUMEM_DELAY_##name)
#else
static inline void gpumem_delay_init(void)
{
}

static inline void gpumem_delay_exit(void)
{
}

#define gpumem_delay(name)	((void)GPUMEM_DELAY_##name)
#endif

#endif /* GPUMEM_DELAY_H */
