/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Hides differences between the kernels that gpumem supports, 6.12 and 7.2.
 * Versions in between are not tested.  No other file checks the kernel's
 * version.
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

/* The dmem controller came with 6.14. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 14, 0)
#include <linux/cgroup_dmem.h>
#endif

/* <linux/pagevec.h> was renamed after 6.12. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 2, 0)
#include <linux/folio_batch.h>
#else
#include <linux/pagevec.h>
#endif

/* 6.13 made the argument of MODULE_IMPORT_NS() a string. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
#define GPUMEM_IMPORT_NS(ns)	MODULE_IMPORT_NS(#ns)
#else
#define GPUMEM_IMPORT_NS(ns)	MODULE_IMPORT_NS(ns)
#endif

/*
 * 6.13 added hrtimer_setup().  A distribution's older kernel may have it, too,
 * with which a macro does not clash.
 */
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
 * Since 7.0 tmpfs prepares a mapping from a struct vm_area_desc; older kernels
 * use the VMA itself.  These are the member of struct file_operations, the
 * parameters of its function, and the arguments of a call.
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

/*
 * Is the file mapped directly, not by mmap() of a client's file or a DMA-buf?
 * If it is, the VMA names the file itself.
 */
static inline bool gpumem_compat_mmap_direct(GPUMEM_COMPAT_MMAP_PARAMS)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
	return desc->vm_file == desc->file;
#else
	return vma->vm_file == file;
#endif
}

/**
 * gpumem_compat_fence_ops - operations of a fence, which identify its driver
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
 * gpumem_compat_nth_page - the page @n pages behind another in physical memory
 * @page: page
 * @n: number of pages
 *
 * 6.18 removed nth_page().
 *
 * Return: the page; valid only if the caller knows that it exists.
 */
static inline struct page *gpumem_compat_nth_page(struct page *page,
						  unsigned long n)
{
	return pfn_to_page(page_to_pfn(page) + n);
}

/**
 * gpumem_compat_folio_refs - count references of page cache and page tables
 * @folio: folio of a tmpfs file
 *
 * Return: number of references that the page cache and page tables hold.
 */
static inline int gpumem_compat_folio_refs(struct folio *folio)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 16, 0)
	return folio_expected_ref_count(folio);
#else
	return folio_nr_pages(folio) + folio_mapcount(folio);
#endif
}

/* 6.17 renamed the workqueue whose workers run on any CPU. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 17, 0)
#define gpumem_compat_unbound_wq	system_dfl_wq
#else
#define gpumem_compat_unbound_wq	system_unbound_wq
#endif

/* 6.13 removed the lock from what a list_lru walk passes to its callback. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
#define GPUMEM_COMPAT_LRU_WALK_PARAMS	struct list_head *item, \
					struct list_lru_one *list, void *arg
#else
#define GPUMEM_COMPAT_LRU_WALK_PARAMS	struct list_head *item, \
					struct list_lru_one *list, \
					spinlock_t *lock, void *arg
#endif

/**
 * gpumem_compat_vm_ops - copy the operations of a VMA other than faults
 * @to: zeroed
 * @from: tmpfs's
 *
 * Newer kernels have operations for userfaultfd, which map pages without
 * .page_mkwrite.  These stay NULL.
 */
static inline void gpumem_compat_vm_ops(struct vm_operations_struct *to,
					const struct vm_operations_struct *from)
{
	to->open = from->open;
	to->close = from->close;
#ifdef CONFIG_NUMA
	to->set_policy = from->set_policy;
	to->get_policy = from->get_policy;
#endif
}

/**
 * gpumem_compat_memcg_full - is there no room in the task's memory cgroups?
 * @bytes: bytes to allocate
 * @used: out: bytes in use in the innermost cgroup without room
 * @max: out: limit of that cgroup, in bytes
 *
 * Checks the current task's cgroup and its ancestors.  Reclaimable memory
 * counts as used.
 *
 * Return: true if one of them has no room for @bytes; else false, and @used and
 * @max are not set.
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

struct dmem_cgroup_pool_state;
struct dmem_cgroup_region;

/**
 * gpumem_compat_dmem_register - make a region of the dmem cgroup controller
 * @size: bytes of memory
 * @name: of the device
 *
 * Return: the region, NULL without the controller, or an ERR_PTR.
 */
static inline struct dmem_cgroup_region *
gpumem_compat_dmem_register(u64 size, const char *name)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 3, 0)
	const struct dmem_cgroup_init init = { .size = size };

	return dmem_cgroup_register_region(&init, "gpumem/%s", name);
#elif LINUX_VERSION_CODE >= KERNEL_VERSION(6, 14, 0)
	return dmem_cgroup_register_region(size, "gpumem/%s", name);
#else
	return NULL;
#endif
}

static inline void
gpumem_compat_dmem_unregister(struct dmem_cgroup_region *region)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 14, 0)
	dmem_cgroup_unregister_region(region);
#endif
}

/**
 * gpumem_compat_dmem_try_charge - charge the current task's dmem cgroup
 * @region: region
 * @bytes: bytes
 * @state: out: for gpumem_compat_dmem_uncharge()
 * @limit: out: with -EAGAIN, that of the cgroup whose limit is reached, for
 *	gpumem_compat_dmem_put(); or NULL
 *
 * Return: 0, -EAGAIN if a limit is reached, or another negative errno.
 */
static inline int
gpumem_compat_dmem_try_charge(struct dmem_cgroup_region *region, u64 bytes,
			      struct dmem_cgroup_pool_state **state,
			      struct dmem_cgroup_pool_state **limit)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 14, 0)
	return dmem_cgroup_try_charge(region, bytes, state, limit);
#else
	return 0;
#endif
}

static inline void gpumem_compat_dmem_put(struct dmem_cgroup_pool_state *state)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 14, 0)
	dmem_cgroup_pool_state_put(state);
#endif
}

/**
 * gpumem_compat_dmem_within - may memory of a cgroup make room within a limit?
 * @limit: of gpumem_compat_dmem_try_charge()
 * @state: of the memory
 *
 * Return: true if @state's cgroup is @limit's or below it, and dmem.min does not
 * protect its memory.
 */
static inline bool
gpumem_compat_dmem_within(struct dmem_cgroup_pool_state *limit,
			  struct dmem_cgroup_pool_state *state)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 14, 0)
	bool low;

	return dmem_cgroup_state_evict_valuable(limit, state, true, &low);
#else
	return false;
#endif
}

static inline void
gpumem_compat_dmem_uncharge(struct dmem_cgroup_pool_state *state, u64 bytes)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 14, 0)
	dmem_cgroup_uncharge(state, bytes);
#endif
}

/**
 * gpumem_compat_memcg_swaps - can swapping make room in the task's cgroups?
 * @bytes: bytes to allocate
 *
 * Return: false if one of them has used up its limit of swap space, or has a
 * limit of memory below @bytes.
 */
static inline bool gpumem_compat_memcg_swaps(u64 bytes)
{
	bool room = true;
#ifdef CONFIG_MEMCG
	struct mem_cgroup *memcg;

	rcu_read_lock();
	for (memcg = mem_cgroup_from_task(current); memcg && room;
	     memcg = parent_mem_cgroup(memcg))
		room = page_counter_read(&memcg->swap) <
		       READ_ONCE(memcg->swap.max) &&
		       bytes >> PAGE_SHIFT <= READ_ONCE(memcg->memory.max);
	rcu_read_unlock();
#endif
	return room;
}

#endif /* GPUMEM_COMPAT_H */
