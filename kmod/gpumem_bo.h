/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Buffer objects (bo): a *root* has memory, and a *view* is a *window* of a
 * root.  The head of gpumem_bo.c defines these terms.
 */
#ifndef GPUMEM_BO_H
#define GPUMEM_BO_H

#include <linux/atomic.h>
#include <linux/interval_tree.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include "gpumem_object.h"

struct dma_resv;
struct file;
struct folio;
struct gpumem_cache_item;
struct gpumem_charge;
struct gpumem_device;
struct gpumem_foreign;
struct gpumem_managed;
struct gpumem_mem;
struct gpumem_pin;
struct gpumem_pool;
struct gpumem_token_set;
struct vm_area_struct;

/**
 * enum gpumem_discard - what became of a chunk that was to be discarded
 * @GPUMEM_DISCARD_DONE: its memory was freed
 * @GPUMEM_DISCARD_REACHED: nothing changed, because the chunk has a window or a
 *	pin, or was discarded before
 * @GPUMEM_DISCARD_BUSY: nothing changed, because bo->lock was held
 */
enum gpumem_discard {
	GPUMEM_DISCARD_DONE,
	GPUMEM_DISCARD_REACHED,
	GPUMEM_DISCARD_BUSY,
};

/**
 * struct gpumem_bo - a buffer object: a root or a view
 */
struct gpumem_bo {
	/** @obj: head */
	struct gpumem_object obj;
	/** @dev: whose memory it is; constant */
	struct gpumem_device *dev;
	/** @file: memory file; of a view, its window's; NULL for some kinds */
	struct file *file;
	/** @pin: registration that contains this bo, or NULL; constant */
	struct gpumem_pin *pin;
	/** @foreign: DMA-buf of another driver, or NULL; constant */
	struct gpumem_foreign *foreign;
	/** @managed: blocks of managed memory, or NULL; constant */
	struct gpumem_managed *managed;
	/** @window: window of a view, else NULL; constant */
	struct gpumem_window *window;
	/** @kind: enum gpumem_bo_kind; constant */
	u32 kind;
	/** @tag: number that the client gave a root; constant */
	u32 tag;
	/** @root: root of a view, referenced, else NULL; constant */
	struct gpumem_bo *root;
	/** @base: first byte in @file, or in the registration's first page */
	u64 base;
	/** @length: bytes; constant */
	u64 length;
	/** @huge: bytes in folios of PMD size; constant */
	u64 huge;
	/** @pool: pool of a chunk, referenced, else NULL; constant */
	struct gpumem_pool *pool;
	/** @chunk: the chunk's number in @pool, or 0; constant once set */
	u64 chunk;
	/** @word: index of the chunk's word in the cache page, or 0 */
	unsigned int word;
	/** @cached: enum gpumem_cached; cache->lock */
	u8 cached;
	/** @item: the shrinker's item of the chunk, or NULL */
	struct gpumem_cache_item *item;
	/** @discarded: the memory is (being) freed; set under @lock */
	bool discarded;
	/** @lock: protects @windows; held while @resv is created */
	struct mutex lock;
	/** @windows: roots only: struct gpumem_window by page index in @file */
	struct rb_root_cached windows;
	/** @resv: own resv of a root, or NULL; constant once set */
	struct dma_resv *resv;
	/** @dmabufs: DMA-bufs with the own resv of a root; 1 for a foreign bo */
	atomic_t dmabufs;
	/** @joint_lock: protects @joints */
	spinlock_t joint_lock;
	/** @joints: clients' joint DMA-bufs of a root, struct gpumem_joint */
	struct list_head joints;
	/** @token_set: NULL before the first token; set by cmpxchg */
	struct gpumem_token_set *token_set;
};

/**
 * struct gpumem_window - the pages of a root that other parties reach
 *
 * A view, a DMA-buf or a memory handle owns a window.  A window has a file of its
 * own over the root's memory and lives as long as that file.  The owner holds the
 * file, and so does each VMA of a view or DMA-buf.  A registration has no file
 * and cannot be mapped: its windows live as long as their owners.
 */
struct gpumem_window {
	/** @it: first and last page index; in root->windows; root->lock */
	struct interval_tree_node it;
	/** @root: root that has the pages; referenced; constant */
	struct gpumem_bo *root;
	/** @file: the window's file, NULL for a registration; constant */
	struct file *file;
};

/* gpumem_bo.c */
struct gpumem_bo *gpumem_bo_view(struct gpumem_client *client,
				 struct gpumem_bo *root, u64 base, u64 length);
struct gpumem_bo *gpumem_bo_root(struct gpumem_bo *bo);
struct gpumem_window *gpumem_window_create(struct gpumem_bo *root, u64 base,
					   u64 length);
void gpumem_window_put(struct gpumem_window *window);
void gpumem_window_release(struct gpumem_window *window);
void gpumem_bo_init_pin(struct gpumem_bo *bo, struct gpumem_client *client,
			struct gpumem_pin *pin, u64 base, u64 length);
struct gpumem_bo *gpumem_bo_foreign(struct gpumem_client *client,
				    struct gpumem_foreign *foreign, u64 length,
				    struct dma_resv *resv);
bool gpumem_bo_is_own(struct gpumem_bo *bo);
void *gpumem_bo_map(struct gpumem_bo *bo, u64 offset, size_t *len,
		    struct folio **folio);
void gpumem_bo_unmap(struct folio *folio);
int gpumem_bo_mmap(struct gpumem_bo *bo, struct vm_area_struct *vma);
void gpumem_bo_brief(struct gpumem_bo *bo, struct gpumem_object_brief *brief);
void gpumem_bo_refused(struct gpumem_bo *bo, int err, u64 asked);
bool gpumem_bo_make_room(struct gpumem_client *client, struct gpumem_mem *mem,
			 int err, u64 length, unsigned int *tries);
enum gpumem_discard gpumem_bo_discard(struct gpumem_bo *bo, bool try,
				      struct gpumem_charge **charge);
void gpumem_bo_handle_gone(struct gpumem_object *obj);
void gpumem_bo_release(struct gpumem_object *obj);
int gpumem_ioctl_bo_alloc(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_bo_info(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_bo_retire(struct gpumem_ucmd *ucmd);

static inline struct gpumem_bo *gpumem_bo_get(struct gpumem_client *client,
					      u32 id)
{
	struct gpumem_object *obj = gpumem_object_get(client, id,
						      GPUMEM_OBJ_BO);

	return obj ? container_of(obj, struct gpumem_bo, obj) : NULL;
}

#endif /* GPUMEM_BO_H */
