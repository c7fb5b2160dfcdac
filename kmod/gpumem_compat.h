/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Differences between the kernels that gpumem supports, 6.12 and 7.2; what lies
 * between is not tested.  No other file asks for the kernel's version.
 */
#ifndef GPUMEM_COMPAT_H
#define GPUMEM_COMPAT_H

#include <linux/dma-buf.h>
#include <linux/dma-fence.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/list_lru.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/shmem_fs.h>
#include <linux/version.h>

/* Renamed after 6.12. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 2, 0)
#include <linux/folio_batch.h>
#else
#include <linux/pagevec.h>
#endif

/* 6.13 made the argument a string. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
#define GPUMEM_IMPORT_NS(ns)	MODULE_IMPORT_NS(#ns)
#else
#define GPUMEM_IMPORT_NS(ns)	MODULE_IMPORT_NS(ns)
#endif

/* 6.13 brought it; a macro, so that a distribution's own one does not clash. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#define hrtimer_setup(timer, fn, clock, mode)	\
	do {					\
		struct hrtimer *t_ = (timer);	\
						\
		hrtimer_init(t_, clock, mode);	\
		t_->function = (fn);		\
	} while (0)
#endif

/**
 * gpumem_compat_shmem_file - make an unlinked tmpfs file without reservation
 * @mnt: mount to make it on
 * @name: shown in /proc/PID/maps
 * @size: bytes
 *
 * Return: the file, or an ERR_PTR.
 */
static inline struct file *gpumem_compat_shmem_file(struct vfsmount *mnt,
						    const char *name,
						    loff_t size)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
	return shmem_file_setup_with_mnt(mnt, name, size,
					 mk_vma_flags(VMA_NORESERVE_BIT));
#else
	return shmem_file_setup_with_mnt(mnt, name, size, VM_NORESERVE);
#endif
}

/**
 * gpumem_compat_mmap_file - let another file set up a VMA
 * @file: file whose mapping the VMA becomes
 * @vma: the VMA
 *
 * Context: mmap_lock held for writing, in an mmap handler.
 * Return: 0 or an errno.
 */
static inline int gpumem_compat_mmap_file(struct file *file,
					  struct vm_area_struct *vma)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 16, 0)
	return vfs_mmap(file, vma);
#else
	return call_mmap(file, vma);
#endif
}

/*
 * tmpfs prepares a mapping from a description of it since 7.0, before from the
 * VMA itself: the operation, its member of struct file_operations, what it gets.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
#define gpumem_compat_mmap_hook		mmap_prepare
#define GPUMEM_COMPAT_MMAP_PARAMS	struct vm_area_desc *desc
#define GPUMEM_COMPAT_MMAP_ARGS		desc
#else
#define gpumem_compat_mmap_hook		mmap
#define GPUMEM_COMPAT_MMAP_PARAMS	struct file *file, \
					struct vm_area_struct *vma
#define GPUMEM_COMPAT_MMAP_ARGS		file, vma
#endif
typedef int (*gpumem_compat_mmap_op)(GPUMEM_COMPAT_MMAP_PARAMS);

/* Is a file to be mapped that nobody handed over?  Then the VMA is its own. */
static inline bool gpumem_compat_mmap_direct(GPUMEM_COMPAT_MMAP_PARAMS)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
	return desc->vm_file == desc->file;
#else
	return vma->vm_file == file;
#endif
}

/**
 * gpumem_compat_fence_ops - whose fence it is
 * @fence: fence
 *
 * Since 7.0 a signalled fence may have lost its operations.
 *
 * Return: operations, for comparison only, or NULL.
 */
static inline const struct dma_fence_ops *
gpumem_compat_fence_ops(struct dma_fence *fence)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
	return rcu_access_pointer(fence->ops);
#else
	return fence->ops;
#endif
}

/**
 * gpumem_compat_nth_page - the page some pages further in physical memory
 * @page: page
 * @n: how many
 *
 * nth_page() is gone since 6.18.
 *
 * Return: the page, which may be none if it is not known to exist.
 */
static inline struct page *gpumem_compat_nth_page(struct page *page,
						  unsigned long n)
{
	return pfn_to_page(page_to_pfn(page) + n);
}

/**
 * gpumem_compat_folio_refs - references of the page cache and of page tables
 * @folio: folio of a tmpfs file
 *
 * Return: how many references these two hold.
 */
static inline int gpumem_compat_folio_refs(struct folio *folio)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 16, 0)
	return folio_expected_ref_count(folio);
#else
	return folio_nr_pages(folio) + folio_mapcount(folio);
#endif
}

/* 6.17 gave the workqueue whose workers run on any CPU another name. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 17, 0)
#define gpumem_compat_unbound_wq	system_dfl_wq
#else
#define gpumem_compat_unbound_wq	system_unbound_wq
#endif

/* 6.13 took the lock from what looks at an item of a list_lru. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
#define GPUMEM_COMPAT_LRU_WALK_PARAMS	struct list_head *item, \
					struct list_lru_one *list, void *arg
#else
#define GPUMEM_COMPAT_LRU_WALK_PARAMS	struct list_head *item, \
					struct list_lru_one *list, \
					spinlock_t *lock, void *arg
#endif

/**
 * gpumem_compat_memcg_full - is there a memory cgroup that has no room?
 * @bytes: for so much
 * @used: what the innermost of those has in use, in bytes; out
 * @max: its limit; out
 *
 * Of the current task's cgroup and those around it.  What could be reclaimed
 * counts as used.
 *
 * Return: true and both values, or false and none.
 */
static inline bool gpumem_compat_memcg_full(u64 bytes, u64 *used, u64 *max)
{
	bool full = false;
#ifdef CONFIG_MEMCG
	u64 pages = bytes >> PAGE_SHIFT, have, limit;
	struct mem_cgroup *memcg;

	rcu_read_lock();
	for (memcg = mem_cgroup_from_task(current); memcg && !full;
	     memcg = parent_mem_cgroup(memcg)) {
		have = page_counter_read(&memcg->memory);
		limit = READ_ONCE(memcg->memory.max);
		if (limit < PAGE_COUNTER_MAX && have + pages > limit) {
			*used = have << PAGE_SHIFT;
			*max = limit << PAGE_SHIFT;
			full = true;
		}
	}
	rcu_read_unlock();
#endif
	return full;
}

#endif /* GPUMEM_COMPAT_H */
