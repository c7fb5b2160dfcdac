/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Delay points: places where a test makes a task stop, so that another task
 * does what would otherwise have to happen within a few instructions.
 *
 * Only in a module built with GPUMEM_DELAY=1 (selftests/vm does that for its
 * debug kernels); otherwise gpumem_delay() is nothing.
 * Documentation/testing.rst says how a test arms a point.
 *
 * A task at a point is in process context and holds no spinlock.  Unless the
 * comment above the point says otherwise, the task holds no lock of gpumem and
 * has no published fence to signal.
 */
#ifndef GPUMEM_DELAY_H
#define GPUMEM_DELAY_H

#define GPUMEM_DELAY_POINTS(point)					\
	/* GPUMEM_TOKEN_OPEN found the token and has no view yet */	\
	point(token_open_view)						\
	/* TOKEN_OPEN has the view, not yet checked the token again */	\
	point(token_open_check)						\
	/* TOKEN_OPEN checked the token; the view has no id yet */	\
	point(token_open_done)						\
	/* GPUMEM_TOKEN_CREATE has the bo; no token published yet */	\
	point(token_create)						\
	/* TOKEN_CREATE published the token, which has no id yet */	\
	point(token_created)						\
	/* GPUMEM_DESTROY removed the id; the object is as before */	\
	point(destroy)							\
	/* GPUMEM_VM_MAP has the bo and has not mapped it */		\
	point(vm_map)							\
	/* GPUMEM_VM_UNMAP reported the bytes, has unmapped none */	\
	point(vm_unmap)							\
	/* GPUMEM_VM_EXPORT has the buffer objects, no DMA-buf yet */	\
	point(vm_export)						\
	/* before a slice */						\
	point(slice_begin)						\
	/* in a slice: vm->lock for reading */				\
	point(slice_locked)						\
	/* a waiter is about to be added to a timeline */		\
	point(waiter_add)						\
	/* the waiter was added; its owner does not wait yet */		\
	point(waiter_added)						\
	/* a fenced entry is prepared; no fence yet */			\
	point(share_publish)						\
	/* a fenced entry's fence is published, not signalled */	\
	point(share_work)						\
	/* the kernel is about to claim a chunk; no word was read */	\
	point(cache_claim)						\
	/* a chunk is claimed, its word TAKEN; still has memory */	\
	point(cache_claimed)						\
	/* a chunk is marked discarded; still has its memory */		\
	point(bo_discard)						\
	/* a block of managed memory is populated, not yet held */	\
	point(managed_populated)					\
	/* a folio is about to move to another node; it is locked */	\
	point(move_locked)

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
