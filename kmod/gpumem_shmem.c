// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_shmem: the memory files, which hold the bytes of buffer objects.
 *
 * Each device has a private tmpfs mount whose size is the device's memory.
 * Pinned host memory has one mount for all devices, and managed memory another
 * one, without a limit.  Each buffer object that owns memory has one unlinked
 * file on its mount.  The file is populated when it is made, so lack of memory
 * is an error of the allocation and never a SIGBUS later.  Files of managed
 * memory are the exception (gpumem_managed.c): they are populated block by block.
 * Invariants of a populated file:
 *
 *  - Every page is in the page cache and dirty, so the kernel keeps it there.
 *    The page cache is the only record of the folios.
 *  - The file has one reference on each folio for the life of the buffer
 *    object, so the kernel neither collapses nor moves the folios under DMA.
 *  - The mapping is unevictable and its pages are not movable: a long-term pin
 *    has nothing to migrate.
 *  - The inode is immutable: no process can punch holes, truncate or write it.
 *
 * A file stays populated until its buffer object is freed.  If the buffer
 * object is a chunk, the kernel may discard it before (gpumem_cache.c); its
 * file is empty then.
 *
 * Processes map the file itself: mmap() of a device node hands the VMA over to
 * the file.  From then on the VMA is an ordinary shared tmpfs mapping, which
 * pin_user_pages() accepts.  The VMA keeps the file, its memory and its charge
 * alive, and the kernel does not call the module when a VMA goes.  So the
 * module does not count the memory in use: it is the space in use on the mount
 * (statfs).
 *
 * Three things follow:
 *
 *  - A file may outlive all other objects that keep the module loaded.  So its
 *    file operations are a copy of tmpfs's with the module as owner.
 *  - Another subsystem (an RDMA region, an io_uring buffer, a pipe) may hold a
 *    page after the last mapping is gone.  To free the file then would give
 *    back budget for memory that is still in use.  The release of such a file
 *    defers the free (gpumem_linger.c).
 *  - A process could ask for pages outside a window, by remap_file_pages() or
 *    mremap() of a VMA, or by an open through /proc/PID/map_files.  So the mmap
 *    operation of a file accepts only a hand-over, in which the VMA still
 *    belongs to another file; gpumem_bo.c sets VM_DONTEXPAND on VMAs of
 *    windows; and no process can open a memory file.
 *
 * Locks: none of its own.  References order creation, use and release of a
 * file.
 */
#include <linux/cpumask.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/fs_context.h>
#include <linux/mm.h>
#include <linux/mount.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/shmem_fs.h>
#include <linux/slab.h>
#include <linux/statfs.h>

#include "gpumem_bo.h"
#include "gpumem_client.h"
#include "gpumem_compat.h"
#include "gpumem_fault.h"
#include "gpumem_linger.h"
#include "gpumem_mem.h"
#include "gpumem_shmem.h"
#include "gpumem_user.h"

/*
 * Without __GFP_MOVABLE, see the invariants.  With RETRY_MAYFAIL an allocation
 * in a full memory cgroup fails with -ENOMEM instead of calling the OOM killer.
 */
#define GPUMEM_GFP	(GFP_HIGHUSER | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/* Retries when a mount with room refuses, before -ENOMEM is returned. */
#define GPUMEM_POPULATE_TRIES	2

/* Pinned host memory: bounded by users' budgets, then by its size, all RAM. */
struct gpumem_mem gpumem_host_mem = {
	.node = NUMA_NO_NODE,
};

/* Managed memory: gpumem_managed.c says what bounds it. */
struct gpumem_mem gpumem_managed_mem = {
	.node = NUMA_NO_NODE,
	.size = GPUMEM_SIZE_MAX,
};

/* tmpfs's operations with our owner, open, mmap, placement and release. */
static struct file_operations gpumem_shmem_fops __ro_after_init;
/* The same operations for files of windows; the release frees the window. */
static struct file_operations gpumem_window_fops __ro_after_init;
static gpumem_compat_mmap_op gpumem_shmem_mmap_op __ro_after_init;

/**
 * gpumem_backing_free - free the private data and the charge of a memory file
 * @backing: of the file, whose memory is free or about to be, or NULL
 */
void gpumem_backing_free(struct gpumem_backing *backing)
{
	if (backing) {
		gpumem_charge_free(backing->charge);
		kfree(backing->vm_ops);
	}
	kfree(backing);
}

static int gpumem_shmem_release(struct inode *inode, struct file *file)
{
	struct gpumem_backing *backing = file->private_data;
	struct gpumem_mem *mem = backing->mem;
	enum gpumem_held answer;
	pgoff_t held = 0;
	int cpu;

	if (backing->orphaned)
		atomic64_sub(backing->length, &mem->orphaned);
	answer = gpumem_linger_held(inode, &held);
	/* Page faults on any CPU may have populated it. */
	if (answer == GPUMEM_HELD_BATCH && backing->managed)
		for_each_online_cpu(cpu)
			gpumem_drain_cpu(cpu);
	if (answer)
		gpumem_linger_add(backing, &file->f_path, held);
	else
		gpumem_backing_free(backing);
	gpumem_linger_glance(mem);
	return 0;
}

/*
 * A process can open the inode only by /proc/PID/map_files, or by a path
 * descriptor from there.  The new file would be over the whole inode, though a
 * window is only a part of it.  It would also keep the memory after the end of
 * the memory's charge.
 */
static int gpumem_shmem_open(struct inode *inode, struct file *file)
{
	return -EPERM;
}

static int gpumem_shmem_file_mmap(GPUMEM_COMPAT_MMAP_PARAMS)
{
	if (gpumem_compat_mmap_direct(GPUMEM_COMPAT_MMAP_ARGS))
		return -EPERM;
	return gpumem_shmem_mmap_op(GPUMEM_COMPAT_MMAP_ARGS);
}

/* tmpfs places mappings only for files with tmpfs's own operations. */
static unsigned long gpumem_shmem_file_area(struct file *file,
					    unsigned long addr,
					    unsigned long len,
					    unsigned long pgoff,
					    unsigned long flags)
{
	return gpumem_shmem_get_unmapped_area(&gpumem_host_mem, addr, len,
					      pgoff, flags);
}

static int gpumem_shmem_window_release(struct inode *inode, struct file *file)
{
	gpumem_window_release(file->private_data);
	return 0;
}

static int __init gpumem_shmem_set_fops(struct file *layout)
{
	gpumem_shmem_mmap_op = layout->f_op->gpumem_compat_mmap_hook;
	if (WARN_ON(!gpumem_shmem_mmap_op))
		return -EOPNOTSUPP;
	gpumem_shmem_fops = *layout->f_op;
	gpumem_shmem_fops.owner = THIS_MODULE;
	gpumem_shmem_fops.open = gpumem_shmem_open;
	gpumem_shmem_fops.gpumem_compat_mmap_hook = gpumem_shmem_file_mmap;
	gpumem_shmem_fops.get_unmapped_area = gpumem_shmem_file_area;
	gpumem_shmem_fops.release = gpumem_shmem_release;
	gpumem_window_fops = gpumem_shmem_fops;
	gpumem_window_fops.release = gpumem_shmem_window_release;
	return 0;
}

static void gpumem_shmem_adopt(struct file *file)
{
	__module_get(THIS_MODULE);
	replace_fops(file, &gpumem_shmem_fops);
	/* An open by /proc/PID/map_files uses our operations, too. */
	file_inode(file)->i_fop = &gpumem_shmem_fops;
}

/**
 * gpumem_shmem_owns - is this the page cache of a memory file?
 * @mapping: any, or NULL; its inode does not go away, by RCU at least
 *
 * Return: true for every file that gpumem_shmem_create() made.
 */
bool gpumem_shmem_owns(const struct address_space *mapping)
{
	return mapping && mapping->host &&
	       READ_ONCE(mapping->host->i_fop) == &gpumem_shmem_fops;
}

/**
 * gpumem_shmem_mount - mount the tmpfs of a memory
 * @mem: with its size and node set
 *
 * Return: 0 or a negative errno.
 */
int gpumem_shmem_mount(struct gpumem_mem *mem)
{
	struct file_system_type *type = get_fs_type("tmpfs");
	char opts[96], mpol[32] = "";
	struct vfsmount *mnt;
	struct file *layout;
	unsigned int rank;
	int ret;

	if (!type)
		return -ENODEV;
	if (mem->node != NUMA_NO_NODE)
		snprintf(mpol, sizeof(mpol), ",mpol=bind:%d", mem->node);
	snprintf(opts, sizeof(opts), "size=%llu,huge=within_size%s", mem->size,
		 mpol);
	mnt = vfs_kern_mount(type, SB_KERNMOUNT, "gpumem", opts);
	if (IS_ERR(mnt)) {
		/* Kernels and processors without huge pages refuse huge=. */
		snprintf(opts, sizeof(opts), "size=%llu%s", mem->size, mpol);
		mnt = vfs_kern_mount(type, SB_KERNMOUNT, "gpumem", opts);
	}
	module_put(type->owner);
	if (IS_ERR(mnt))
		return PTR_ERR(mnt);
	layout = gpumem_compat_shmem_file(mnt, "gpumem", 0);
	if (IS_ERR(layout)) {
		kern_unmount(mnt);
		return PTR_ERR(layout);
	}
	ret = gpumem_linger_mount(mem);
	if (ret) {
		fput(layout);
		kern_unmount(mnt);
		return ret;
	}
	for (rank = 0; rank < GPUMEM_RANKS; rank++)
		INIT_LIST_HEAD(&mem->managed_lru[rank]);
	INIT_LIST_HEAD(&mem->managed_copies);
	mem->mnt = mnt;
	mem->mount_size = mem->size;
	mem->layout = layout;
	return 0;
}

/**
 * gpumem_shmem_unmount - undo gpumem_shmem_mount()
 * @mem: without files
 */
void gpumem_shmem_unmount(struct gpumem_mem *mem)
{
	gpumem_linger_unmount(mem);
	fput(mem->layout);
	kern_unmount(mem->mnt);
}

/**
 * gpumem_shmem_used - memory in use
 * @mem: memory
 *
 * Return: bytes, including memory that is only mapped, exported or lingering
 * (gpumem_linger.c), but not resident managed memory (gpumem_managed.c).
 */
u64 gpumem_shmem_used(struct gpumem_mem *mem)
{
	struct path path = { .mnt = mem->mnt, .dentry = mem->mnt->mnt_root };
	unsigned int tries = 3;
	struct kstatfs st;
	u64 size;

	/* tmpfs reads its size twice, and the administrator may change it. */
	do {
		size = READ_ONCE(mem->mount_size);
		if (vfs_statfs(&path, &st))
			return 0;
	} while ((st.f_bfree > st.f_blocks ||
		  size != READ_ONCE(mem->mount_size)) && --tries);
	if (st.f_bfree > st.f_blocks)
		return 0;
	return (st.f_blocks - st.f_bfree) * st.f_bsize;
}

/**
 * gpumem_shmem_init - prepare what all devices share
 *
 * Return: 0 or a negative errno.
 */
int __init gpumem_shmem_init(void)
{
	int ret;

	gpumem_linger_init();
	gpumem_host_mem.size = (u64)totalram_pages() << PAGE_SHIFT;
	ret = gpumem_shmem_mount(&gpumem_host_mem);
	if (ret)
		return ret;
	ret = gpumem_shmem_mount(&gpumem_managed_mem);
	if (ret)
		goto unmount_host;
	ret = gpumem_shmem_set_fops(gpumem_host_mem.layout);
	if (ret)
		goto unmount;
	ret = gpumem_hotplug_init();
	if (ret)
		goto unmount;
	return 0;

unmount:
	gpumem_shmem_unmount(&gpumem_managed_mem);
unmount_host:
	gpumem_shmem_unmount(&gpumem_host_mem);
	return ret;
}

/**
 * gpumem_shmem_exit - undo gpumem_shmem_init()
 */
void gpumem_shmem_exit(void)
{
	gpumem_hotplug_exit();
	gpumem_shmem_unmount(&gpumem_managed_mem);
	gpumem_shmem_unmount(&gpumem_host_mem);
	gpumem_linger_exit();
}

/* Drop the populate references on the folios from @index to before @end. */
static void gpumem_shmem_unhold(struct address_space *mapping, pgoff_t index,
				pgoff_t end)
{
	struct folio_batch fbatch;
	unsigned int i;

	if (index >= end)
		return;
	folio_batch_init(&fbatch);
	while (filemap_get_folios(mapping, &index, end - 1, &fbatch)) {
		for (i = 0; i < folio_batch_count(&fbatch); i++)
			folio_put(fbatch.folios[i]);
		folio_batch_release(&fbatch);
		cond_resched();
	}
}

/*
 * Tell why tmpfs returned -ENOSPC: the mount is full, or the kernel commits to
 * no more memory (vm.overcommit_memory=2).  If the mount has room for the rest
 * of the file, the second reason applies.
 */
static bool gpumem_shmem_has_room(struct gpumem_mem *mem, u64 length)
{
	u64 used = gpumem_shmem_used(mem), size = READ_ONCE(mem->mount_size);

	return used <= size && length <= size - used;
}

/*
 * Populate the pages from @first to before @end, and take a reference on each
 * folio.  If this fails, no reference is left, but pages may be.
 */
static int gpumem_shmem_populate(struct gpumem_mem *mem,
				 struct address_space *mapping, pgoff_t first,
				 pgoff_t end, u64 *huge)
{
	pgoff_t index = first;
	unsigned int tries = GPUMEM_POPULATE_TRIES;
	int cpu = raw_smp_processor_id(), now;
	struct folio *folio;
	int ret = 0;

	while (index < end) {
		if (fatal_signal_pending(current)) {
			ret = -EINTR;
			break;
		}
		folio = shmem_read_folio_gfp(mapping, index, GPUMEM_GFP);
		if (folio == ERR_PTR(-ENOSPC) &&
		    gpumem_shmem_has_room(mem, (u64)(end - index) << PAGE_SHIFT)) {
			/* Another task may have freed memory meanwhile. */
			if (tries--)
				continue;
			folio = ERR_PTR(-ENOMEM);
		}
		if (IS_ERR(folio)) {
			ret = PTR_ERR(folio);
			break;
		}
		/* The kernel may drop clean pages that are not mapped. */
		folio_mark_dirty(folio);
		if (folio_order(folio) >= HPAGE_PMD_ORDER)
			*huge += folio_size(folio);
		index = folio_next_index(folio);
		cond_resched();
		now = raw_smp_processor_id();
		if (now != cpu)
			gpumem_drain_cpu(cpu);
		cpu = now;
	}
	/* From here on an unknown reference belongs to another subsystem. */
	gpumem_drain_here();
	if (ret)
		gpumem_shmem_unhold(mapping, first, index);
	return ret;
}

/* Make an empty file, whose private data owns nothing yet. */
static struct file *gpumem_shmem_new(struct gpumem_mem *mem, const char *name,
				     u64 length)
{
	struct gpumem_backing *backing;
	struct file *file;

	backing = kzalloc(sizeof(*backing), GFP_KERNEL_ACCOUNT);
	if (!backing)
		return ERR_PTR(-ENOMEM);
	backing->mem = mem;
	backing->length = length;
	file = gpumem_compat_shmem_file(mem->mnt, name, length);
	if (IS_ERR(file)) {
		kfree(backing);
		/* tmpfs returns -ENOSPC if it has no memory for an inode. */
		return file == ERR_PTR(-ENFILE) || file == ERR_PTR(-ENOSPC) ?
		       ERR_PTR(-ENOMEM) : file;
	}
	gpumem_shmem_adopt(file);
	file->private_data = backing;
	mapping_set_gfp_mask(file->f_mapping, GFP_HIGHUSER);
	return file;
}

static struct file *gpumem_shmem_try_create(struct gpumem_mem *mem,
					    const char *name, u64 length,
					    u64 *huge)
{
	u64 size = gpumem_size(mem);
	struct file *file;
	int ret;

	ret = gpumem_size_enforce(mem);
	if (ret)
		return ERR_PTR(ret);
	/* Fail early.  The mount enforces the limit. */
	if (length > size || gpumem_shmem_used(mem) > size - length)
		return ERR_PTR(-ENOSPC);
	file = gpumem_shmem_new(mem, name, length);
	if (IS_ERR(file))
		return file;
	mapping_set_unevictable(file->f_mapping);
	*huge = 0;
	ret = gpumem_shmem_populate(mem, file->f_mapping, 0,
				    length >> PAGE_SHIFT, huge);
	if (ret) {
		/* The last fput() is deferred: free the pages now, for a retry. */
		shmem_truncate_range(file_inode(file), 0, -1);
		fput(file);
		return ERR_PTR(ret);
	}
	inode_set_flags(file_inode(file), S_IMMUTABLE, S_IMMUTABLE);
	return file;
}

/**
 * gpumem_shmem_create - make a populated, zeroed file
 * @mem: whose memory it is
 * @name: shown in /proc/PID/maps
 * @length: bytes, page aligned
 * @huge: bytes in folios of PMD size, out
 * @charge: freed when the file is released, or NULL; on failure the caller
 *	keeps it
 *
 * The pages are charged to the caller's memory cgroup.
 *
 * Return: the file, or an ERR_PTR: -ENOSPC from the device's budget, -ENOMEM
 * from the system, its limit of committed memory included, or the cgroup,
 * -EINTR when killed.
 */
struct file *gpumem_shmem_create(struct gpumem_mem *mem, const char *name,
				 u64 length, u64 *huge,
				 struct gpumem_charge *charge)
{
	struct file *file = gpumem_shmem_try_create(mem, name, length, huge);
	struct gpumem_backing *backing;

	if (file == ERR_PTR(-ENOSPC)) {
		gpumem_client_flush();
		gpumem_linger_make_room(mem);
		file = gpumem_shmem_try_create(mem, name, length, huge);
	} else if (file == ERR_PTR(-ENOMEM) && gpumem_linger_make_room(mem)) {
		file = gpumem_shmem_try_create(mem, name, length, huge);
	}
	if (!IS_ERR(file)) {
		backing = file->private_data;
		backing->charge = charge;
	}
	return file;
}

/**
 * gpumem_shmem_create_managed - make an empty file of managed memory
 * @name: shown in /proc/PID/maps
 * @length: bytes, page aligned
 *
 * Page faults of processes and gpumem_shmem_hold() populate the file.
 *
 * Return: the file, or an ERR_PTR.
 */
struct file *gpumem_shmem_create_managed(const char *name, u64 length)
{
	struct file *file = gpumem_shmem_new(&gpumem_managed_mem, name, length);
	struct gpumem_backing *backing;

	if (IS_ERR(file))
		return file;
	backing = file->private_data;
	backing->managed = true;
	inode_set_flags(file_inode(file), S_IMMUTABLE, S_IMMUTABLE);
	return file;
}

/**
 * gpumem_shmem_hold - populate pages of managed memory and keep them in place
 * @file: of managed memory
 * @first: index of the first page
 * @end: index behind the last page
 *
 * Takes a reference on each folio, which is uptodate and dirty then.  With the
 * reference the kernel neither frees, swaps out, moves nor collapses the folio.
 * shmem_read_folio_gfp() takes the folio lock, so the kernel is not in the
 * middle of one of these when the reference is taken.  New pages are charged to
 * the active memory cgroup.
 *
 * Context: may sleep, without locks.
 * Return: 0, -ENOMEM, -EIO if a page cannot be read from swap, or -EINTR when
 * killed.
 */
int gpumem_shmem_hold(struct file *file, pgoff_t first, pgoff_t end)
{
	u64 huge = 0;

	return gpumem_shmem_populate(&gpumem_managed_mem, file->f_mapping, first,
				     end, &huge);
}

/**
 * gpumem_shmem_has_page - does a range of a file have a page in memory?
 * @file: of managed memory
 * @first: index of the first page
 * @end: index behind the last page
 *
 * Context: any but interrupts.
 * Return: true if a page of the range is in memory; pages in swap do not count.
 */
bool gpumem_shmem_has_page(struct file *file, pgoff_t first, pgoff_t end)
{
	return filemap_range_has_page(file->f_mapping,
				      (loff_t)first << PAGE_SHIFT,
				      ((loff_t)end << PAGE_SHIFT) - 1);
}

/**
 * gpumem_shmem_has_data - does a range of a file have a page, in memory or swap?
 * @file: of managed memory
 * @first: index of the first page
 * @end: index behind the last page
 *
 * Context: any but interrupts.
 * Return: true if it has one.
 */
bool gpumem_shmem_has_data(struct file *file, pgoff_t first, pgoff_t end)
{
	unsigned long index = first;

	return xa_find(&file->f_mapping->i_pages, &index, end - 1, XA_PRESENT);
}

/**
 * gpumem_shmem_let_go - undo gpumem_shmem_hold()
 * @file: of managed memory
 * @first: index of the first page
 * @end: index behind the last page
 *
 * Context: any but interrupts.
 */
void gpumem_shmem_let_go(struct file *file, pgoff_t first, pgoff_t end)
{
	struct folio *folio;
	pgoff_t next;

	for (; first < end; first = next) {
		folio = filemap_get_folio(file->f_mapping, first);
		/* The held reference keeps the folio in the page cache. */
		if (WARN_ON_ONCE(IS_ERR(folio)))
			return;
		next = folio_next_index(folio);
		folio_put_refs(folio, 2);
	}
}

/**
 * gpumem_shmem_unmap - take the pages of a range out of all page tables
 * @file: of managed memory
 * @first: index of the first page of a held range
 * @end: index behind the last page
 *
 * Each fault that has looked at the file or the block before this call has
 * mapped its page when this function unmaps the range.
 *
 * Context: may sleep, without locks.
 * Return: false if another subsystem has pinned a page of the range.
 */
bool gpumem_shmem_unmap(struct file *file, pgoff_t first, pgoff_t end)
{
	struct address_space *mapping = file->f_mapping;
	struct folio_batch fbatch;
	bool pinned = false;
	unsigned int i;
	pgoff_t index;

	folio_batch_init(&fbatch);
	for (index = first;
	     filemap_get_folios(mapping, &index, end - 1, &fbatch);) {
		for (i = 0; i < folio_batch_count(&fbatch); i++) {
			folio_lock(fbatch.folios[i]);
			folio_unlock(fbatch.folios[i]);
		}
		folio_batch_release(&fbatch);
		cond_resched();
	}
	unmap_mapping_pages(mapping, first, end - first, false);
	for (index = first;
	     filemap_get_folios(mapping, &index, end - 1, &fbatch);) {
		for (i = 0; i < folio_batch_count(&fbatch); i++)
			pinned |= folio_maybe_dma_pinned(fbatch.folios[i]);
		folio_batch_release(&fbatch);
		cond_resched();
	}
	return !pinned;
}

/**
 * gpumem_shmem_present - how much of a file is allocated
 * @file: of managed memory
 *
 * Context: any.
 * Return: bytes, those in swap included.
 */
u64 gpumem_shmem_present(struct file *file)
{
	return (u64)READ_ONCE(file_inode(file)->i_blocks) << SECTOR_SHIFT;
}

/**
 * gpumem_shmem_destroy_managed - drop a buffer object's reference on its file
 * @file: of managed memory without held pages; lives on while it is mapped
 */
void gpumem_shmem_destroy_managed(struct file *file)
{
	struct gpumem_backing *backing = file->private_data;

	/* What mappings keep, as far as it is known now. */
	backing->length = gpumem_shmem_present(file);
	backing->orphaned = true;
	atomic64_add(backing->length, &backing->mem->orphaned);
	fput(file);
}

/**
 * gpumem_shmem_window - make another file over the same memory
 * @file: memory
 * @window: gets gpumem_window_release() when the new file is released
 *
 * Return: the file, or an ERR_PTR.
 */
struct file *gpumem_shmem_window(struct file *file,
				 struct gpumem_window *window)
{
	struct inode *inode = file_inode(file);
	struct file *clone;

	ihold(inode);
	/* Does not count as an open file of the process. */
	clone = alloc_file_pseudo_noaccount(inode, file->f_path.mnt,
					    "gpumem:window", O_RDWR,
					    fops_get(&gpumem_window_fops));
	if (IS_ERR(clone)) {
		fops_put(&gpumem_window_fops);
		iput(inode);
		return clone;
	}
	clone->private_data = window;
	return clone;
}

/**
 * gpumem_shmem_discard - free the memory of a file while the file lives
 * @file: of a buffer object that has no windows and gets none
 * @charge: of the memory, for the caller to free, or NULL, out
 *
 * Mappings stay, and an access to them raises SIGBUS.  A fault reads the file's
 * size first, so faults map no page once the size is 0.  The check of
 * references finds each page that was held before.  It misses one case: a fault
 * read the size before it was 0, and maps its page only after the check.  A
 * task that pins such a page through the mapping keeps it, although no budget
 * counts it.  The kernel zeroes the page before another owner gets it.
 *
 * Context: may sleep.
 * Return: false, with nothing changed, if another subsystem holds pages.
 */
bool gpumem_shmem_discard(struct file *file, struct gpumem_charge **charge)
{
	struct gpumem_backing *backing = file->private_data;
	struct address_space *mapping = file->f_mapping;
	struct inode *inode = file_inode(file);
	u64 length = backing->length;

	*charge = NULL;
	i_size_write(inode, 0);
	unmap_mapping_range(mapping, 0, 0, 1);
	/* The populated file holds one reference on each folio. */
	if (gpumem_shmem_used_elsewhere(mapping, 0, length, 1)) {
		i_size_write(inode, length);
		return false;
	}
	gpumem_shmem_unhold(mapping, 0, length >> PAGE_SHIFT);
	shmem_truncate_range(inode, 0, -1);
	backing->length = 0;
	*charge = backing->charge;
	backing->charge = NULL;
	return true;
}

/**
 * gpumem_shmem_destroy - drop a buffer object's reference on its file
 * @file: of the buffer object; lives on while it is mapped
 */
void gpumem_shmem_destroy(struct file *file)
{
	struct gpumem_backing *backing = file->private_data;

	gpumem_shmem_unhold(file->f_mapping, 0, backing->length >> PAGE_SHIFT);
	backing->orphaned = true;
	atomic64_add(backing->length, &backing->mem->orphaned);
	fput(file);
}

/* Windows have other private data; managed memory has no windows. */
static bool gpumem_shmem_managed(struct file *file)
{
	const struct gpumem_backing *backing = file->private_data;

	return file->f_op == &gpumem_shmem_fops && backing->managed;
}

/**
 * gpumem_shmem_mmap - hand a VMA to a file
 * @file: memory
 * @vma: shared mapping, vm_pgoff counted in @file and inside it
 *
 * Context: mmap_lock held for writing, in an mmap handler.
 * Return: 0 or a negative errno.
 */
int gpumem_shmem_mmap(struct file *file, struct vm_area_struct *vma)
{
	int ret = gpumem_compat_mmap_file(file, vma);

	if (!ret && gpumem_shmem_managed(file))
		ret = gpumem_fault_mmap(file, vma);
	if (ret)
		return ret;
	vma_set_file(vma, file);
	vm_flags_set(vma, VM_DONTDUMP);
	return 0;
}

/**
 * gpumem_shmem_get_unmapped_area - place a mapping so that huge pages fit
 * @mem: any memory
 * @addr: hint
 * @len: bytes
 * @pgoff: page offset in the file
 * @flags: MAP_*
 *
 * Return: an address or a negative errno.
 */
unsigned long gpumem_shmem_get_unmapped_area(struct gpumem_mem *mem,
					     unsigned long addr,
					     unsigned long len,
					     unsigned long pgoff,
					     unsigned long flags)
{
	struct file *layout = mem->layout;

	return layout->f_op->get_unmapped_area(layout, addr, len, pgoff, flags);
}

/**
 * gpumem_sound_pages - count the pages of a run before the first failed one
 * @first: first page of the run
 * @n: number of pages, which are physically contiguous
 *
 * A large folio without a failed page counts as a whole.
 *
 * Return: pages before the first one whose memory failed, at most @n.
 */
size_t gpumem_sound_pages(struct page *first, size_t n)
{
	struct folio *folio;
	struct page *page;
	size_t i = 0;

	while (i < n) {
		page = gpumem_compat_nth_page(first, i);
		folio = page_folio(page);
		if (likely(!folio_contain_hwpoisoned_page(folio))) {
			i += folio_nr_pages(folio) -
			     folio_page_idx(folio, page);
			continue;
		}
		if (is_page_hwpoison(page))
			return i;
		i++;
	}
	return n;
}

/**
 * gpumem_shmem_map - get the kernel's address of a piece of a file
 * @file: populated file
 * @offset: byte offset in it
 * @len: bytes wanted in; out: bytes up to the end of the folio, or to a page
 *	in it that failed
 * @folio: referenced, out; the caller puts it
 *
 * Return: the address, or an ERR_PTR: -EIO if the memory failed.
 */
void *gpumem_shmem_map(struct file *file, u64 offset, size_t *len,
		       struct folio **folio)
{
	struct folio *f = filemap_get_folio(file->f_mapping,
					    offset >> PAGE_SHIFT);
	size_t in, sound;

	if (IS_ERR(f))
		return ERR_PTR(-EIO);
	in = offset - folio_pos(f);
	*len = min_t(size_t, *len, folio_size(f) - in);
	if (unlikely(folio_contain_hwpoisoned_page(f))) {
		sound = gpumem_sound_pages(folio_page(f, in >> PAGE_SHIFT),
					   PFN_UP(offset_in_page(in) + *len));
		if (!sound) {
			folio_put(f);
			return ERR_PTR(-EIO);
		}
		*len = min_t(size_t, *len,
			     (sound << PAGE_SHIFT) - offset_in_page(in));
	}
	*folio = f;
	return folio_address(f) + in;
}
