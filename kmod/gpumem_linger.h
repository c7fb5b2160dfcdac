/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory files that linger: other subsystems still hold pages of them.  The
 * private data of a memory file is here, too, because gpumem_shmem.c and
 * gpumem_linger.c both use it.
 */
#ifndef GPUMEM_LINGER_H
#define GPUMEM_LINGER_H

#include <linux/list.h>
#include <linux/path.h>
#include <linux/types.h>

#include "gpumem_mem.h"

struct address_space;
struct gpumem_bo;
struct gpumem_charge;
struct inode;
struct vm_operations_struct;

/**
 * struct gpumem_backing - private data of a memory file
 */
struct gpumem_backing {
	/** @mem: memory of the file; constant */
	struct gpumem_mem *mem;
	/** @charge: limits that the file's memory counts against, or NULL */
	struct gpumem_charge *charge;
	/** @managed: file of managed memory; constant */
	bool managed;
	/** @tracked: get notice of writes; set once (gpumem_fault.c) */
	bool tracked;
	/** @settled: all faults have seen @tracked; set once, with release */
	bool settled;
	/** @vm_ops: of VMAs of managed memory, or NULL; set once */
	struct vm_operations_struct *vm_ops;
	/** @bo: live buffer object of @managed, or NULL; gpumem_managed_lock */
	struct gpumem_bo *bo;
	/**
	 * @copies: of blocks (gpumem_duplicate.c); gpumem_managed_lock; read
	 * without it
	 */
	unsigned long copies;
	/** @length: bytes; 0 after the memory was discarded */
	u64 length;
	/** @orphaned: the buffer object is gone; ordered by the file's references */
	bool orphaned;
	/** @link: in mem->linger, if the file lingers; mem->linger_lock */
	struct list_head link;
	/** @path: keeps the inode of a file that lingers */
	struct path path;
	/** @held: index of a page that was held; owned by the current check */
	pgoff_t held;
};

/**
 * enum gpumem_held - do other subsystems hold pages of a range?
 * @GPUMEM_HELD_NO: no
 * @GPUMEM_HELD_BATCH: maybe; a CPU's LRU batch would look the same
 * @GPUMEM_HELD_YES: another subsystem does
 */
enum gpumem_held {
	GPUMEM_HELD_NO,
	GPUMEM_HELD_BATCH,
	GPUMEM_HELD_YES,
};

/* gpumem_shmem.c */
void gpumem_backing_free(struct gpumem_backing *backing);

/* gpumem_linger.c */
bool gpumem_shmem_used_elsewhere(struct address_space *mapping, u64 offset,
				 u64 length, int ours);
bool gpumem_shmem_held(struct address_space *mapping, pgoff_t first,
		       pgoff_t last);
u64 gpumem_linger_used(struct gpumem_mem *mem);
bool gpumem_linger_make_room(struct gpumem_mem *mem);
void gpumem_drain_here(void);
bool gpumem_drain_all_now(void);
void gpumem_drain_cpu(int cpu);
enum gpumem_held gpumem_linger_held(struct inode *inode, pgoff_t *held);
void gpumem_linger_add(struct gpumem_backing *backing, const struct path *path,
		       pgoff_t held);
void gpumem_linger_glance(struct gpumem_mem *mem);
int gpumem_linger_mount(struct gpumem_mem *mem);
void gpumem_linger_unmount(struct gpumem_mem *mem);
void gpumem_linger_init(void);
void gpumem_linger_exit(void);

#endif /* GPUMEM_LINGER_H */
