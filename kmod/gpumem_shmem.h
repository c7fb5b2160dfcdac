/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory files: what gpumem_shmem.c and gpumem_linger.c share.
 */
#ifndef GPUMEM_SHMEM_H
#define GPUMEM_SHMEM_H

#include <linux/path.h>

#include "gpumem_private.h"

/**
 * struct gpumem_backing - private data of a memory file
 */
struct gpumem_backing {
	/** @mem: where the file is; constant */
	struct gpumem_mem *mem;
	/** @charge: of the user's budget, or NULL */
	struct gpumem_charge *charge;
	/** @length: bytes; 0 once they were discarded */
	u64 length;
	/** @orphaned: the buffer object is gone; ordered by the file's references */
	bool orphaned;
	/** @link: in mem->linger, if the file lingers; mem->linger_lock */
	struct list_head link;
	/** @path: keeps the inode of a file that lingers */
	struct path path;
	/** @held: index of a page that was held; of who looks at the file */
	pgoff_t held;
};

/**
 * enum gpumem_held - does anybody else hold pages of a range?
 * @GPUMEM_HELD_NO: nobody does
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
void gpumem_drain_here(void);
void gpumem_drain_cpu(int cpu);
enum gpumem_held gpumem_linger_held(struct inode *inode, pgoff_t *held);
void gpumem_linger_add(struct gpumem_backing *backing, const struct path *path,
		       pgoff_t held);
void gpumem_linger_glance(struct gpumem_mem *mem);
int gpumem_linger_mount(struct gpumem_mem *mem);
void gpumem_linger_unmount(struct gpumem_mem *mem);
void gpumem_linger_init(void);
void gpumem_linger_exit(void);

#endif /* GPUMEM_SHMEM_H */
