// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_bo: buffer objects (bo), the windows of them, and their memory's life.
 *
 * A *root* owns a memory file (gpumem_shmem.c).  A *view* is a window of a root
 * that was exported, in whole pages, by DMA-buf, token or memory handle; it
 * reaches nothing outside its window.  A window of a window is a window of the
 * root.
 *
 * A registration (gpumem_pin.c) is a root whose memory is pinned pages of the
 * client's process.  It has no file, so it cannot be mapped.  A DMA-buf of
 * another driver (gpumem_foreign.c) is a root without a file and without
 * windows.
 *
 * A root records which of its pages are exported: every view, DMA-buf and memory
 * handle has a *window*, in the interval tree of its root until the window is
 * freed.  A window has a file of its own over the root's memory, unless the root
 * is a registration.  Mappings of a view or a DMA-buf are mappings of the window's
 * file, so a mapping alone keeps the window after the view's id or the
 * DMA-buf's descriptor is gone.  GPUMEM_BO_RETIRE tells a client that
 * sub-allocates a root whether the client may reuse a range that it freed: not
 * while a window overlaps a page of the range, nor while another subsystem
 * holds pages of the range.
 *
 * Managed memory (gpumem_managed.c) is a root with a file that is not populated
 * at first.  It has neither windows nor tokens.
 *
 * A root may be a chunk of a pool (gpumem_pool.c).  The pool's limit then
 * applies to its allocation as well.
 *
 * The memory of a root lives until the last of: its id, its mappings in address
 * spaces, its windows, its VMAs and pins of its pages by other subsystems.  The
 * id, mappings and windows hold references on the buffer object; VMAs and pins
 * hold the file.
 *
 * Locks: a root's bo->lock protects its interval tree of windows.
 */
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "gpumem_bo.h"
#include "gpumem_cache.h"
#include "gpumem_client.h"
#include "gpumem_compat.h"
#include "gpumem_delay.h"
#include "gpumem_device.h"
#include "gpumem_dmabuf.h"
#include "gpumem_dmem.h"
#include "gpumem_evict.h"
#include "gpumem_ioctl.h"
#include "gpumem_linger.h"
#include "gpumem_lock.h"
#include "gpumem_managed.h"
#include "gpumem_mem.h"
#include "gpumem_notice.h"
#include "gpumem_object.h"
#include "gpumem_pin.h"
#include "gpumem_pool.h"
#include "gpumem_refusal.h"
#include "gpumem_resv.h"
#include "gpumem_shmem.h"
#include "gpumem_token.h"
#include "gpumem_user.h"

static void gpumem_bo_init(struct gpumem_bo *bo, struct gpumem_client *client,
			   struct gpumem_device *dev, u32 kind, u64 base,
			   u64 length)
{
	gpumem_object_init(&bo->obj, client, GPUMEM_OBJ_BO);
	bo->dev = dev;
	bo->kind = kind;
	bo->base = base;
	bo->length = length;
	mutex_init(&bo->lock);
	gpumem_lockdep_class(&bo->lock, GPUMEM_LOCK_BO);
	bo->windows = RB_ROOT_CACHED;
	spin_lock_init(&bo->joint_lock);
	gpumem_lockdep_class(&bo->joint_lock, GPUMEM_LOCK_JOINT);
	INIT_LIST_HEAD(&bo->joints);
}

static struct gpumem_bo *gpumem_bo_new(struct gpumem_client *client,
				       struct gpumem_device *dev, u32 kind,
				       u64 base, u64 length)
{
	struct gpumem_bo *bo = kzalloc(sizeof(*bo), GFP_KERNEL_ACCOUNT);

	if (bo)
		gpumem_bo_init(bo, client, dev, kind, base, length);
	return bo;
}

/**
 * gpumem_bo_root - find the root that owns the memory
 * @bo: buffer object
 *
 * Return: @bo or the root that it is a view of, without a reference.
 */
struct gpumem_bo *gpumem_bo_root(struct gpumem_bo *bo)
{
	return bo->root ?: bo;
}

static bool gpumem_window_insert(struct gpumem_window *window)
{
	struct gpumem_bo *root = window->root;

	guard(mutex)(&root->lock);
	/* gpumem_bo_discard() clears the mark without the lock. */
	if (READ_ONCE(root->discarded))
		return false;
	interval_tree_insert(&window->it, &root->windows);
	return true;
}

/**
 * gpumem_window_create - create a window over some pages of a root
 * @root: root; gets a reference
 * @base: first byte in the root's memory, page aligned
 * @length: bytes, page aligned, not 0
 *
 * The pages count as exported until the caller has called gpumem_window_put()
 * and the last VMA of the window's file is gone.
 *
 * Return: the window, or an ERR_PTR: -ENOENT if the root's memory was
 * discarded.
 */
struct gpumem_window *gpumem_window_create(struct gpumem_bo *root, u64 base,
					   u64 length)
{
	struct gpumem_window *window = kzalloc(sizeof(*window),
					       GFP_KERNEL_ACCOUNT);
	struct file *file;

	if (!window)
		return ERR_PTR(-ENOMEM);
	window->it.start = base >> PAGE_SHIFT;
	window->it.last = (base + length - 1) >> PAGE_SHIFT;
	window->root = root;
	kref_get(&root->obj.ref);
	/* Insert first: a root with a window is not discarded. */
	if (!gpumem_window_insert(window)) {
		kfree(window);
		gpumem_object_put(&root->obj);
		return ERR_PTR(-ENOENT);
	}
	if (root->pin) {
		gpumem_pin_written(root->pin);
		return window;
	}
	file = gpumem_shmem_window(root->file, window);
	if (IS_ERR(file)) {
		gpumem_window_release(window);
		return ERR_CAST(file);
	}
	window->file = file;
	return window;
}

/**
 * gpumem_window_put - drop the reference of a window's owner
 * @window: window
 */
void gpumem_window_put(struct gpumem_window *window)
{
	if (window->file)
		fput(window->file);
	else
		gpumem_window_release(window);
}

/**
 * gpumem_window_release - free a window that cannot be reached
 * @window: window; freed
 */
void gpumem_window_release(struct gpumem_window *window)
{
	struct gpumem_bo *root = window->root;

	scoped_guard(mutex, &root->lock)
		interval_tree_remove(&window->it, &root->windows);
	kfree(window);
	gpumem_object_put(&root->obj);
}

/* How many windows of @bo's root reach a page of the range? */
static u32 gpumem_window_count(struct gpumem_bo *bo, u64 offset, u64 length)
{
	struct gpumem_bo *root = gpumem_bo_root(bo);
	unsigned long start = (bo->base + offset) >> PAGE_SHIFT;
	unsigned long last = (bo->base + offset + length - 1) >> PAGE_SHIFT;
	struct interval_tree_node *it;
	u32 n = 0;

	guard(mutex)(&root->lock);
	for (it = interval_tree_iter_first(&root->windows, start, last); it;
	     it = interval_tree_iter_next(it, start, last)) {
		n++;
		cond_resched();
	}
	return n;
}

/**
 * gpumem_bo_view - create a view: a buffer object with a window of a root
 * @client: whose object it becomes
 * @root: root
 * @base: first byte in the root's memory, page aligned
 * @length: bytes, page aligned
 *
 * Return: the view, or an ERR_PTR.
 */
struct gpumem_bo *gpumem_bo_view(struct gpumem_client *client,
				 struct gpumem_bo *root, u64 base, u64 length)
{
	struct gpumem_bo *bo = gpumem_bo_new(client, root->dev, GPUMEM_BO_VIEW,
					     base, length);
	struct gpumem_window *window;

	if (!bo)
		return ERR_PTR(-ENOMEM);
	window = gpumem_window_create(root, base, length);
	if (IS_ERR(window)) {
		gpumem_object_put(&bo->obj);
		return ERR_CAST(window);
	}
	kref_get(&root->obj.ref);
	bo->root = root;
	bo->window = window;
	bo->file = window->file;
	atomic64_inc(&client->count.views);
	atomic64_add(length, &client->count.view_bytes);
	atomic_inc(&bo->dev->views);
	return bo;
}

/**
 * gpumem_bo_init_pin - make a registration a buffer object
 * @bo: first member of @pin
 * @client: whose object it becomes
 * @pin: registration
 * @base: offset of the first registered byte in its page
 * @length: bytes
 *
 * The caller owns the only reference.  Dropping the last reference frees @pin.
 */
void gpumem_bo_init_pin(struct gpumem_bo *bo, struct gpumem_client *client,
			struct gpumem_pin *pin, u64 base, u64 length)
{
	gpumem_bo_init(bo, client, client->devices[0], GPUMEM_BO_PINNED, base,
		       length);
	bo->pin = pin;
	atomic64_inc(&client->count.pins);
	atomic64_add(length, &client->count.pin_bytes);
	atomic64_add(length, &bo->dev->pinned);
}

/**
 * gpumem_bo_foreign - make a DMA-buf of another driver an object
 * @client: whose object it becomes
 * @foreign: DMA-buf; the buffer object owns it unless this fails
 * @length: bytes
 * @resv: of the DMA-buf
 *
 * Return: the buffer object, or an ERR_PTR.
 */
struct gpumem_bo *gpumem_bo_foreign(struct gpumem_client *client,
				    struct gpumem_foreign *foreign, u64 length,
				    struct dma_resv *resv)
{
	struct gpumem_bo *bo = gpumem_bo_new(client, client->devices[0],
					     GPUMEM_BO_FOREIGN, 0, length);

	if (!bo)
		return ERR_PTR(-ENOMEM);
	bo->foreign = foreign;
	bo->resv = resv;
	gpumem_resv_count_own(bo, 1);
	atomic64_inc(&client->count.imports);
	atomic64_add(length, &client->count.import_bytes);
	atomic_inc(&bo->dev->imports);
	return bo;
}

/**
 * gpumem_bo_is_own - did the client of a buffer object allocate its memory?
 * @bo: buffer object
 *
 * Return: true if tokens may name @bo and GPUMEM_BO_RETIRE accepts it, unless it
 * is managed memory.
 */
bool gpumem_bo_is_own(struct gpumem_bo *bo)
{
	return !bo->root && !bo->pin && !bo->foreign;
}

/**
 * gpumem_bo_map - find the kernel's address of a range of a buffer object
 * @bo: buffer object
 * @offset: first byte in @bo
 * @len: in: bytes wanted; out: bytes that are contiguous at the address
 * @folio: out: argument of gpumem_bo_unmap()
 *
 * Return: the address, or an ERR_PTR: -EIO if the memory failed.
 */
void *gpumem_bo_map(struct gpumem_bo *bo, u64 offset, size_t *len,
		    struct folio **folio)
{
	struct gpumem_bo *root = gpumem_bo_root(bo);

	if (root->pin) {
		*folio = NULL;
		return gpumem_pin_map(root->pin, bo->base + offset, len);
	}
	if (root->foreign) {
		*folio = NULL;
		return gpumem_foreign_map(root->foreign, offset, len);
	}
	return gpumem_shmem_map(root->file, bo->base + offset, len, folio);
}

/**
 * gpumem_bo_unmap - undo gpumem_bo_map()
 * @folio: what gpumem_bo_map() stored
 */
void gpumem_bo_unmap(struct folio *folio)
{
	if (folio)
		folio_put(folio);
}

/**
 * gpumem_bo_handle_gone - the id of a buffer object was destroyed
 * @obj: head of the buffer object
 */
void gpumem_bo_handle_gone(struct gpumem_object *obj)
{
	struct gpumem_bo *bo = container_of(obj, struct gpumem_bo, obj);

	/* Views have no tokens. */
	if (bo->pin)
		gpumem_pin_unlist(obj->client, bo->pin);
	else if (!bo->root)
		gpumem_token_revoke_all(bo);
	gpumem_pool_remove_chunk(bo);
	gpumem_cache_remove(bo);
	if (bo->managed)
		gpumem_managed_handle_gone(bo);
}

/*
 * Bytes of memory that a root has.  The value may change at any time, unless
 * the caller drops the last reference.
 */
static u64 gpumem_bo_present(struct gpumem_bo *bo)
{
	if (bo->managed)
		return gpumem_shmem_present(bo->file);
	return READ_ONCE(bo->discarded) ? 0 : bo->length;
}

/*
 * Mark a chunk as discarded, so that no window of it can be created.  Return
 * false if the chunk has a window or is already discarded.
 */
static bool gpumem_bo_close_locked(struct gpumem_bo *bo)
{
	lockdep_assert_held(&bo->lock);
	if (bo->discarded || !RB_EMPTY_ROOT(&bo->windows.rb_root))
		return false;
	WRITE_ONCE(bo->discarded, true);
	return true;
}

/**
 * gpumem_bo_discard - free a chunk's memory, but not its id
 * @bo: root with a file, referenced
 * @try: do not wait for bo->lock: the caller may be in reclaim
 * @charge: out: charge of the memory, which the caller frees, or NULL
 *
 * Context: may sleep.  The caller holds no lock, unless @try is set.
 * Return: what became of the chunk.
 */
enum gpumem_discard gpumem_bo_discard(struct gpumem_bo *bo, bool try,
				      struct gpumem_charge **charge)
{
	struct gpumem_counters *count = &bo->obj.client->count;
	bool closed;

	*charge = NULL;
	if (!try)
		mutex_lock(&bo->lock);
	else if (!mutex_trylock(&bo->lock))
		return GPUMEM_DISCARD_BUSY;
	closed = gpumem_bo_close_locked(bo);
	mutex_unlock(&bo->lock);
	if (!closed)
		return GPUMEM_DISCARD_REACHED;
	/* In reclaim the caller may hold any lock: no delay point there. */
	if (!try)
		gpumem_delay(bo_discard);
	if (!gpumem_shmem_discard(bo->file, charge)) {
		/* Since the mark was set, no window could be created. */
		WRITE_ONCE(bo->discarded, false);
		return GPUMEM_DISCARD_REACHED;
	}
	atomic64_sub(bo->length, bo->kind == GPUMEM_BO_HOST ?
				 &count->host_bytes : &count->bo_bytes);
	if (bo->kind != GPUMEM_BO_HOST)
		gpumem_holding_uncharge(bo->obj.client, bo->dev, bo->length);
	return GPUMEM_DISCARD_DONE;
}

static void gpumem_bo_release_root(struct gpumem_bo *bo)
{
	struct gpumem_counters *count = &bo->obj.client->count;

	if (bo->kind == GPUMEM_BO_HOST) {
		atomic64_dec(&count->host);
		atomic64_sub(gpumem_bo_present(bo), &count->host_bytes);
	} else {
		atomic64_dec(&count->bos);
		atomic64_sub(gpumem_bo_present(bo), &count->bo_bytes);
		atomic_dec(&bo->dev->bos);
		if (!bo->discarded)
			gpumem_holding_uncharge(bo->obj.client, bo->dev,
						bo->length);
	}
	gpumem_shmem_destroy(bo->file);
}

static void gpumem_bo_release_foreign(struct gpumem_bo *bo)
{
	struct gpumem_counters *count = &bo->obj.client->count;

	gpumem_resv_count_own(bo, -1);
	atomic64_dec(&count->imports);
	atomic64_sub(bo->length, &count->import_bytes);
	atomic_dec(&bo->dev->imports);
	/* The reservation object is the exporter's. */
	bo->resv = NULL;
	gpumem_foreign_free(bo->foreign);
}

/**
 * gpumem_bo_release - free a buffer object
 * @obj: head of the buffer object, without references
 */
void gpumem_bo_release(struct gpumem_object *obj)
{
	struct gpumem_bo *bo = container_of(obj, struct gpumem_bo, obj);
	struct gpumem_counters *count = &obj->client->count;

	if (bo->root) {
		gpumem_window_put(bo->window);
		atomic64_dec(&count->views);
		atomic64_sub(bo->length, &count->view_bytes);
		atomic_dec(&bo->dev->views);
		gpumem_object_put(&bo->root->obj);
	} else if (bo->pin) {
		atomic64_dec(&count->pins);
		atomic64_sub(bo->length, &count->pin_bytes);
		atomic64_sub(bo->length, &bo->dev->pinned);
		gpumem_pin_release(bo->pin);
	} else if (bo->foreign) {
		gpumem_bo_release_foreign(bo);
	} else if (bo->managed) {
		gpumem_managed_release(bo);
	} else if (bo->file) {
		gpumem_bo_release_root(bo);
	}
	gpumem_resv_free_root(bo);
	gpumem_token_forget_root(bo);
	gpumem_cache_forget(bo);
	if (bo->pool)
		gpumem_object_put(&bo->pool->obj);
	mutex_destroy(&bo->lock);
	/* The bo of a registration is the first member of struct gpumem_pin. */
	kfree(bo);
}

/* Like gpumem_bo_mmap(), but does not set VM_DONTCOPY. */
static int gpumem_bo_mmap_any(struct gpumem_bo *bo,
			      struct vm_area_struct *vma)
{
	unsigned long pages = bo->length >> PAGE_SHIFT;
	int ret;

	if (bo->foreign)
		return gpumem_foreign_mmap(bo->foreign, vma);
	if (!bo->file)
		return -EINVAL;
	if (vma->vm_pgoff > pages || vma_pages(vma) > pages - vma->vm_pgoff)
		return -EINVAL;
	vma->vm_pgoff += bo->base >> PAGE_SHIFT;
	/*
	 * A window must not become larger: mremap() would show what lies behind
	 * it.  Roots end where their file ends.
	 */
	ret = gpumem_shmem_mmap(bo->file, vma);
	if (!ret && bo->root)
		vm_flags_set(vma, VM_DONTEXPAND);
	return ret;
}

/**
 * gpumem_bo_mmap - map a buffer object for its client's process
 * @bo: buffer object
 * @vma: shared mapping, vm_pgoff counted in @bo
 *
 * A forked child inherits only mappings of host memory, which stay shared.  A
 * child that inherited device memory would keep memory that its parent frees,
 * and could write to it.  VM_DONTCOPY is set here, under mmap_lock, so fork()
 * never finds the mapping without the flag.
 *
 * Context: mmap_lock held for writing.
 * Return: 0, or -EINVAL if the range leaves @bo or @bo cannot be mapped.
 */
int gpumem_bo_mmap(struct gpumem_bo *bo, struct vm_area_struct *vma)
{
	int ret = gpumem_bo_mmap_any(bo, vma);

	/* mlockall(MCL_FUTURE) locks a page when the CPU first touches it. */
	if (!ret && bo->managed && vma->vm_flags & VM_LOCKED)
		vm_flags_set(vma, VM_LOCKONFAULT);
	if (!ret && bo->kind != GPUMEM_BO_HOST)
		vm_flags_set(vma, VM_DONTCOPY);
	return ret;
}

/**
 * gpumem_bo_brief - describe a buffer object to other processes
 * @bo: buffer object, not about to be freed
 * @brief: kind, device, length, name and flags are set
 *
 * Context: atomic.
 */
void gpumem_bo_brief(struct gpumem_bo *bo, struct gpumem_object_brief *brief)
{
	const char *label = NULL;

	brief->kind = bo->kind;
	brief->dev = bo->dev;
	brief->length = gpumem_bo_present(bo);
	if (bo->managed)
		gpumem_managed_read(bo, &brief->managed);
	/* If the pool's id is gone, another object may have the number. */
	if (bo->pool && !READ_ONCE(bo->pool->gone))
		brief->pool_id = bo->pool->obj.id;
	if (READ_ONCE(bo->windows.rb_root.rb_node))
		brief->flags |= GPUMEM_OBJECT_FLAG_EXPORTED;
	/* Only a root's file has a name that the client chose. */
	if (bo->file && !bo->root)
		label = strchr(bo->file->f_path.dentry->d_name.name, ':');
	if (label)
		strscpy(brief->name, label + 1, sizeof(brief->name));
	else if (bo->foreign)
		strscpy(brief->name, gpumem_foreign_name(bo->foreign),
			sizeof(brief->name));
}

/**
 * gpumem_bo_refused - report to netlink listeners which limit refused memory
 * @bo: buffer object whose memory was refused
 * @err: negative errno
 * @asked: bytes
 */
void gpumem_bo_refused(struct gpumem_bo *bo, int err, u64 asked)
{
	bool host = bo->kind != GPUMEM_BO_DEVICE;
	struct gpumem_mem *mem = host ? &gpumem_host_mem : &bo->dev->mem;
	struct gpumem_refusal refusal = {
		.dev = bo->dev,
		.asked = asked,
	};

	if (err == -ENOSPC) {
		refusal.limit = host ? GPUMEM_LIMIT_HOST : GPUMEM_LIMIT_DEVICE;
		refusal.used = gpumem_shmem_used(mem);
		refusal.max = gpumem_size(mem);
		if (!host)
			gpumem_notice_refused(bo->obj.client, bo->dev, asked);
	} else if (err == -ENOMEM) {
		refusal.limit = GPUMEM_LIMIT_SYSTEM;
		if (gpumem_compat_memcg_full(asked, &refusal.used,
					     &refusal.max))
			refusal.limit = GPUMEM_LIMIT_MEMCG;
	} else {
		return;
	}
	gpumem_refused(bo->obj.client, &refusal);
}

static int gpumem_bo_charge_cgroup(struct gpumem_bo *bo,
				   struct gpumem_charge *charge)
{
	/* What must fail is not charged: that might refuse memory of others. */
	if (bo->length > gpumem_size(&bo->dev->mem)) {
		gpumem_bo_refused(bo, -ENOSPC, bo->length);
		return -ENOSPC;
	}
	return gpumem_dmem_charge(charge, bo->obj.client, bo->dev, bo->length);
}

/*
 * Charge the memory of @bo to its client's user (host memory) or to the task's
 * cgroup (device memory), and to its pool.  Return NULL if none applies.
 */
static struct gpumem_charge *gpumem_bo_charge(struct gpumem_bo *bo)
{
	struct gpumem_client *client = bo->obj.client;
	bool host = bo->kind == GPUMEM_BO_HOST;
	struct gpumem_charge *charge;
	int ret = 0;

	if (!host && !bo->pool && !bo->dev->dmem)
		return NULL;
	charge = kzalloc(sizeof(*charge), GFP_KERNEL_ACCOUNT);
	if (!charge)
		return ERR_PTR(-ENOMEM);
	if (host)
		ret = gpumem_charge_init(charge, client,
					 bo->length >> PAGE_SHIFT);
	if (!ret && bo->pool)
		ret = gpumem_pool_claim(bo->pool, client, bo->length);
	if (ret)
		goto err_free;
	if (!host && bo->dev->dmem) {
		ret = gpumem_bo_charge_cgroup(bo, charge);
		if (ret)
			goto err_unclaim;
	}
	return charge;

err_unclaim:
	if (bo->pool)
		gpumem_pool_unclaim(bo->pool, bo->length);
err_free:
	gpumem_charge_free(charge);
	return ERR_PTR(ret);
}

/**
 * gpumem_bo_make_room - discard cached chunks, or evict managed memory
 * @client: client whose allocation failed
 * @mem: of the allocation
 * @err: with which it failed
 * @length: bytes of the allocation
 * @tries: GPUMEM_RELIEF_TRIES before the first call
 *
 * Discards chunks if they are the reason why the allocation failed:
 *
 *  - the device is full: enough of the device's chunks;
 *  - the client's memory cgroup is full: the client's own chunks, because those
 *    of other clients may be charged to another cgroup;
 *  - the system has no memory: any chunks.
 *
 * If there are no such chunks and the error is -ENOMEM, evicts the client's
 * managed memory from devices, @tries times at most.
 *
 * Context: may sleep, without locks.
 * Return: true if there may be room now.
 */
bool gpumem_bo_make_room(struct gpumem_client *client, struct gpumem_mem *mem,
			 int err, u64 length, unsigned int *tries)
{
	u64 used, max, size = gpumem_size(mem);
	struct gpumem_cache_filter f = {};

	if (err == -ENOSPC) {
		f.mem = mem;
		/* No discard makes room for more than the whole memory. */
		if (length > size)
			return false;
		used = gpumem_shmem_used(mem);
		if (used > size - length)
			length = used - (size - length);
		if (gpumem_cache_total(mem) < length)
			return false;
	} else if (err != -ENOMEM) {
		return false;
	} else if (gpumem_compat_memcg_full(length, &used, &max)) {
		f.client = client;
	}
	if (gpumem_cache_take(&f, length))
		return true;
	if (err != -ENOMEM || !*tries)
		return false;
	(*tries)--;
	return gpumem_managed_relieve(client, length);
}

static void gpumem_bo_file_name(const u8 *label, char *name, size_t size)
{
	snprintf(name, size, "gpumem%s%s", label[0] ? ":" : "", label);
}

static int gpumem_bo_populate(struct gpumem_bo *bo, const u8 *label)
{
	bool host = bo->kind == GPUMEM_BO_HOST;
	struct gpumem_mem *mem = host ? &gpumem_host_mem : &bo->dev->mem;
	struct gpumem_counters *count = &bo->obj.client->count;
	struct gpumem_charge *charge = gpumem_bo_charge(bo);
	unsigned int tries = GPUMEM_RELIEF_TRIES;
	struct file *file;
	char name[32];

	if (IS_ERR(charge))
		return PTR_ERR(charge);
	gpumem_bo_file_name(label, name, sizeof(name));
	file = gpumem_shmem_create(mem, name, bo->length, &bo->huge, charge);
	/* Another client may take what was freed: retry while discards free. */
	while (gpumem_bo_make_room(bo->obj.client, mem, PTR_ERR_OR_ZERO(file),
				   bo->length, &tries))
		file = gpumem_shmem_create(mem, name, bo->length, &bo->huge,
					   charge);
	if (IS_ERR(file)) {
		gpumem_bo_refused(bo, PTR_ERR(file), bo->length);
		if (bo->pool)
			gpumem_pool_unclaim(bo->pool, bo->length);
		gpumem_charge_free(charge);
		return PTR_ERR(file);
	}
	bo->file = file;
	if (bo->pool)
		gpumem_pool_charge(bo->pool, bo->length, charge);
	if (host) {
		atomic64_inc(&count->host);
		atomic64_add(bo->length, &count->host_bytes);
	} else {
		atomic64_inc(&count->bos);
		atomic64_add(bo->length, &count->bo_bytes);
		atomic_inc(&bo->dev->bos);
		gpumem_holding_charge(bo->obj.client, bo->dev, bo->length);
		/* Device memory comes before managed memory. */
		gpumem_managed_trim(bo->dev);
	}
	return 0;
}

/* Give a new @bo its pool, memory, cache word and id. */
static int gpumem_bo_fill(struct gpumem_ucmd *ucmd, struct gpumem_bo *bo)
{
	struct gpumem_bo_alloc *cmd = ucmd->cmd;
	struct gpumem_pool *pool;
	char name[32];
	u32 kind;
	int ret;

	if (cmd->pool) {
		pool = gpumem_pool_get_own(ucmd->client, cmd->pool);
		if (IS_ERR(pool))
			return PTR_ERR(pool);
		bo->pool = pool;
		kind = pool->flags & GPUMEM_POOL_HOST ? GPUMEM_BO_HOST :
							GPUMEM_BO_DEVICE;
		if (pool->dev != bo->dev || kind != bo->kind)
			return -EINVAL;
	}
	/* The mmap offsets of two ids are this far apart. */
	if (bo->length > BIT_ULL(GPUMEM_MMAP_SHIFT)) {
		gpumem_bo_refused(bo, -ENOSPC, bo->length);
		return -ENOSPC;
	}
	if (bo->kind == GPUMEM_BO_MANAGED) {
		gpumem_bo_file_name(cmd->name, name, sizeof(name));
		ret = gpumem_managed_create(bo, name);
	} else {
		ret = gpumem_bo_populate(bo, cmd->name);
	}
	if (!ret && bo->pool)
		ret = gpumem_cache_prepare(bo);
	if (!ret && bo->pool)
		ret = gpumem_pool_add_chunk(bo->pool, bo);
	if (ret)
		return ret;
	if (bo->pool)
		gpumem_cache_add(bo);
	ret = gpumem_object_reserve(ucmd, &bo->obj);
	if (ret) {
		gpumem_pool_remove_chunk(bo);
		gpumem_cache_remove(bo);
	}
	return ret;
}

int gpumem_ioctl_bo_alloc(struct gpumem_ucmd *ucmd)
{
	struct gpumem_bo_alloc *cmd = ucmd->cmd;
	struct gpumem_client *client = ucmd->client;
	u32 kind = GPUMEM_BO_DEVICE;
	struct gpumem_device *dev;
	struct gpumem_bo *bo;
	int ret;

	if (cmd->flags & ~(GPUMEM_BO_ALLOC_HOST | GPUMEM_BO_ALLOC_MANAGED) ||
	    cmd->reserved2)
		return -EOPNOTSUPP;
	if (cmd->flags & GPUMEM_BO_ALLOC_MANAGED && !gpumem_managed_allowed())
		return -EOPNOTSUPP;
	if (cmd->flags & GPUMEM_BO_ALLOC_HOST)
		kind = GPUMEM_BO_HOST;
	if (cmd->flags & GPUMEM_BO_ALLOC_MANAGED) {
		if (kind == GPUMEM_BO_HOST || cmd->pool)
			return -EOPNOTSUPP;
		kind = GPUMEM_BO_MANAGED;
	}
	if (!cmd->length || !PAGE_ALIGNED(cmd->length) ||
	    strnlen(cmd->name, sizeof(cmd->name)) == sizeof(cmd->name))
		return -EINVAL;
	dev = gpumem_client_device(client, cmd->device);
	if (!dev)
		return -EACCES;
	bo = gpumem_bo_new(client, dev, kind, 0, cmd->length);
	if (!bo)
		return -ENOMEM;
	bo->tag = cmd->tag;
	ret = gpumem_bo_fill(ucmd, bo);
	if (ret) {
		gpumem_object_put(&bo->obj);
		return ret;
	}
	cmd->id = bo->obj.id;
	cmd->chunk = bo->chunk;
	cmd->word = bo->word;
	return gpumem_ucmd_respond(ucmd, sizeof(*cmd));
}

int gpumem_ioctl_bo_info(struct gpumem_ucmd *ucmd)
{
	struct gpumem_bo_info *cmd = ucmd->cmd;
	struct gpumem_managed_stats stats = {};
	struct gpumem_bo *bo;

	bo = gpumem_bo_get(ucmd->client, cmd->id);
	if (!bo)
		return -ENOENT;
	cmd->kind = bo->kind;
	cmd->device = gpumem_client_device_index(ucmd->client, bo->dev);
	cmd->length = bo->length;
	cmd->huge = bo->huge;
	cmd->exports = gpumem_window_count(bo, 0, bo->length);
	cmd->tag = gpumem_bo_root(bo)->tag;
	cmd->present = bo->managed ? gpumem_shmem_present(bo->file) : 0;
	if (bo->managed)
		gpumem_managed_read(bo, &stats);
	cmd->resident = stats.resident;
	cmd->faults = stats.faults;
	cmd->evictions = stats.evictions;
	cmd->thrash = stats.thrash;
	cmd->moved_in = stats.moved_in;
	cmd->moved_out = stats.moved_out;
	gpumem_object_put(&bo->obj);
	return gpumem_ucmd_respond(ucmd, sizeof(*cmd));
}

/*
 * Revoke the tokens first and count the windows afterwards, so that an open
 * that is under way either fails or is counted.
 */
int gpumem_ioctl_bo_retire(struct gpumem_ucmd *ucmd)
{
	struct gpumem_bo_retire *cmd = ucmd->cmd;
	struct gpumem_bo *bo;
	int ret;

	if (cmd->flags & ~GPUMEM_BO_RETIRE_QUERY)
		return -EOPNOTSUPP;
	if (!cmd->length)
		return -EINVAL;
	bo = gpumem_bo_get(ucmd->client, cmd->id);
	if (!bo)
		return -ENOENT;
	if (bo->managed) {
		ret = -EOPNOTSUPP;
	} else if (!gpumem_bo_is_own(bo)) {
		ret = -EINVAL;
	} else if (cmd->offset > bo->length ||
		   cmd->length > bo->length - cmd->offset) {
		ret = -EOVERFLOW;
	} else {
		if (!(cmd->flags & GPUMEM_BO_RETIRE_QUERY))
			gpumem_token_revoke(bo, cmd->offset, cmd->length);
		cmd->live = gpumem_window_count(bo, cmd->offset, cmd->length);
		/* The populated file holds one reference on each folio. */
		if (gpumem_shmem_used_elsewhere(bo->file->f_mapping,
						cmd->offset, cmd->length, 1))
			cmd->live++;
		ret = gpumem_ucmd_respond(ucmd, sizeof(*cmd));
	}
	gpumem_object_put(&bo->obj);
	return ret;
}
