/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory files: the tmpfs files that hold the bytes of buffer objects.  Offered
 * by gpumem_shmem.c.
 */
#ifndef GPUMEM_SHMEM_H
#define GPUMEM_SHMEM_H

#include <linux/types.h>

#include "gpumem_mem.h"

struct address_space;
struct file;
struct folio;
struct gpumem_charge;
struct gpumem_window;
struct page;
struct vm_area_struct;

/* gpumem_shmem.c */
extern struct gpumem_mem gpumem_host_mem;
extern struct gpumem_mem gpumem_managed_mem;
int gpumem_shmem_init(void);
void gpumem_shmem_exit(void);
bool gpumem_shmem_owns(const struct address_space *mapping);
int gpumem_shmem_mount(struct gpumem_mem *mem);
void gpumem_shmem_unmount(struct gpumem_mem *mem);
u64 gpumem_shmem_used(struct gpumem_mem *mem);
struct file *gpumem_shmem_create(struct gpumem_mem *mem, const char *name,
				 u64 length, u64 *huge,
				 struct gpumem_charge *charge);
struct file *gpumem_shmem_create_managed(const char *name, u64 length);
int gpumem_shmem_hold(struct file *file, pgoff_t first, pgoff_t end);
bool gpumem_shmem_has_data(struct file *file, pgoff_t first, pgoff_t end);
bool gpumem_shmem_has_page(struct file *file, pgoff_t first, pgoff_t end);
void gpumem_shmem_let_go(struct file *file, pgoff_t first, pgoff_t end);
bool gpumem_shmem_unmap(struct file *file, pgoff_t first, pgoff_t end);
u64 gpumem_shmem_present(struct file *file);
void gpumem_shmem_destroy_managed(struct file *file);
bool gpumem_shmem_discard(struct file *file, struct gpumem_charge **charge);
void gpumem_shmem_destroy(struct file *file);
struct file *gpumem_shmem_window(struct file *file,
				 struct gpumem_window *window);
int gpumem_shmem_mmap(struct file *file, struct vm_area_struct *vma);
unsigned long gpumem_shmem_get_unmapped_area(struct gpumem_mem *mem,
					     unsigned long addr,
					     unsigned long len,
					     unsigned long pgoff,
					     unsigned long flags);
size_t gpumem_sound_pages(struct page *first, size_t n);
void *gpumem_shmem_map(struct file *file, u64 offset, size_t *len,
		       struct folio **folio);

#endif /* GPUMEM_SHMEM_H */
