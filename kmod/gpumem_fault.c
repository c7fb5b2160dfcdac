// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_fault: page faults of processes in managed memory.
 *
 * tmpfs handles these faults.  The operations of a VMA of managed memory call
 * tmpfs's.  Each memory file has a structure of its own, so that the module gets
 * notice of writes to duplicated blocks (gpumem_duplicate.c).  Other subsystems
 * compare operations with tmpfs's, so these VMAs are not tmpfs's to them:
 * userfaultfd does not accept them.
 *
 * A file is *tracked* from the first GPUMEM_ADVICE_READ_MOSTLY about its memory
 * on.  Its operations then have .page_mkwrite, so the kernel calls the module
 * before it makes a page writable for a process.  Reads map pages read-only.
 * Files that are not tracked behave as tmpfs's: the kernel refuses long-term pins
 * for writing in VMAs whose operations have .page_mkwrite.
 *
 * A file that is tracked stays tracked, because the kernel reads .page_mkwrite
 * twice in a fault: to call it, and to learn whether it was called.
 *
 * A task that duplicates a block does this, in this order:
 *
 *  1. It marks the block as duplicated.
 *  2. It locks and unlocks each folio of the block.  Faults map a page under the
 *     folio's lock, so each fault that did not see the mark has mapped its page.
 *  3. It unmaps the block (gpumem_shmem_unmap()).
 *
 * A fault checks the file and the mark while it has the folio's lock.  The
 * exception is .map_pages, which reads the access bits of the VMA before it has
 * the lock.  It is inside an RCU read-side section, for whose end
 * gpumem_fault_track() waits.
 *
 * Locks: none of its own.
 */
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include "gpumem_compat.h"
#include "gpumem_duplicate.h"
#include "gpumem_fault.h"
#include "gpumem_linger.h"

/* tmpfs's operations of a VMA; set by the first mapping, always the same. */
static const struct vm_operations_struct *gpumem_tmpfs_ops;

static struct gpumem_backing *gpumem_fault_backing(const struct vm_fault *vmf)
{
	return vmf->vma->vm_file->private_data;
}

/* Map pages read-only on a read, as the kernel does in VMAs with .page_mkwrite. */
static void gpumem_fault_protect(struct vm_area_struct *vma)
{
	pgprot_t prot = vm_get_page_prot(vma->vm_flags & ~VM_SHARED);

	/* Other faults in the VMA may write the same. */
	if (pgprot_val(prot) != pgprot_val(vma->vm_page_prot))
		WRITE_ONCE(vma->vm_page_prot, prot);
}

static vm_fault_t gpumem_fault_one(struct vm_fault *vmf)
{
	vm_fault_t ret = READ_ONCE(gpumem_tmpfs_ops)->fault(vmf);

	/*
	 * The folio is locked, if there is one.  Without a folio the kernel may
	 * have dropped mmap_lock, and the VMA may be gone.
	 */
	if (ret & VM_FAULT_LOCKED &&
	    READ_ONCE(gpumem_fault_backing(vmf)->tracked))
		gpumem_fault_protect(vmf->vma);
	return ret;
}

static vm_fault_t gpumem_fault_around(struct vm_fault *vmf, pgoff_t first,
				      pgoff_t last)
{
	guard(rcu)();
	/* Pairs with synchronize_rcu() in gpumem_fault_track(). */
	if (READ_ONCE(gpumem_fault_backing(vmf)->tracked))
		gpumem_fault_protect(vmf->vma);
	return READ_ONCE(gpumem_tmpfs_ops)->map_pages(vmf, first, last);
}

/* A page of a tracked file is about to become writable. */
static vm_fault_t gpumem_fault_write(struct vm_fault *vmf)
{
	struct gpumem_backing *backing = gpumem_fault_backing(vmf);
	struct folio *folio = page_folio(vmf->page);

	gpumem_duplicate_written(backing, vmf->pgoff);
	folio_lock(folio);
	/* If the block was duplicated again meanwhile, the access faults again. */
	if (folio->mapping != vmf->vma->vm_file->f_mapping ||
	    gpumem_duplicate_protects(backing, vmf->pgoff)) {
		folio_unlock(folio);
		return VM_FAULT_NOPAGE;
	}
	return VM_FAULT_LOCKED;
}

/**
 * gpumem_fault_mmap - handle the faults of a new mapping
 * @file: of managed memory
 * @vma: with tmpfs's operations, or those of this file
 *
 * Context: mmap_lock held for writing, in an mmap handler.
 * Return: 0 or -ENOMEM.
 */
int gpumem_fault_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct gpumem_backing *backing = file->private_data;
	struct vm_operations_struct *ops = READ_ONCE(backing->vm_ops);

	if (!ops) {
		ops = kzalloc(sizeof(*ops), GFP_KERNEL_ACCOUNT);
		if (!ops)
			return -ENOMEM;
		WRITE_ONCE(gpumem_tmpfs_ops, vma->vm_ops);
		gpumem_compat_vm_ops(ops, vma->vm_ops);
		ops->fault = gpumem_fault_one;
		ops->map_pages = gpumem_fault_around;
		/* Another process may map the file at the same time. */
		if (cmpxchg(&backing->vm_ops, NULL, ops)) {
			kfree(ops);
			ops = backing->vm_ops;
		}
	}
	/* Pairs with smp_mb() in gpumem_fault_track(): one of the two sees. */
	smp_mb();
	if (READ_ONCE(backing->tracked))
		WRITE_ONCE(ops->page_mkwrite, gpumem_fault_write);
	vma->vm_ops = ops;
	return 0;
}

/**
 * gpumem_fault_track - get notice of writes of processes to a file
 * @file: of managed memory
 *
 * Context: may sleep.
 */
void gpumem_fault_track(struct file *file)
{
	struct gpumem_backing *backing = file->private_data;
	struct vm_operations_struct *ops;

	/* Pairs with smp_store_release() below. */
	if (smp_load_acquire(&backing->settled))
		return;
	WRITE_ONCE(backing->tracked, true);
	/* Pairs with smp_mb() in gpumem_fault_mmap(). */
	smp_mb();
	ops = READ_ONCE(backing->vm_ops);
	if (ops)
		WRITE_ONCE(ops->page_mkwrite, gpumem_fault_write);
	/* Faults that map several pages are over, or have seen the flag. */
	synchronize_rcu();
	/* Pairs with smp_load_acquire() above. */
	smp_store_release(&backing->settled, true);
}
