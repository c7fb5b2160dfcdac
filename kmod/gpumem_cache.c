// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_cache: cached chunks, empty chunks of pools that a client may reuse.
 *
 * A client that maps its *cache page* (mmap() at offset 0) has a *word* in it
 * for each chunk that it makes, as long as there are words.  By writing KEPT
 * there the client makes the chunk *cached*: the chunk has no content, the
 * client may use it again without a system call, and the kernel may take the
 * memory.  A cached chunk counts as cached instead of reserved in its pool.
 * The client takes the chunk back by changing KEPT to USED in one atomic
 * operation.  The kernel *claims* the chunk by changing KEPT to TAKEN in the
 * same way, then discards its memory.  The operation that comes second fails,
 * so neither side has to ask the other.  A chunk that the kernel cannot take
 * counts as reserved.
 *
 * The kernel takes cached chunks instead of refusing memory: those of all
 * clients if a device is full or the system has no memory, and the client's own
 * if the client is at a limit.  A shrinker takes cached chunks when the system
 * or a memory cgroup is short of memory.  A chunk that was taken is
 * *discarded*: it keeps its id but has no memory, an access through a mapping
 * raises SIGBUS, work that touches it fails, and it cannot be exported.  The
 * client destroys the chunk when it finds TAKEN in the word.
 *
 * The kernel does not see when a client makes a chunk cached, so the shrinker
 * has an *item* for each chunk with a word, in a list_lru by memory cgroup.
 * This is the cgroup of the task that made the chunk; the memory is charged to
 * it, too.  An item is a slab object of its own because the list belongs to the
 * cgroup that the object is charged to, and to the node that it is on.  The
 * item leaves the list when the chunk is claimed (a claimed chunk is never
 * cached again) or when the id is destroyed.  While the item is listed, the
 * id's reference keeps the chunk.
 *
 * The shrinker runs in any task that allocates, under any lock that the task
 * holds.  It therefore takes only spinlocks, bo->lock by trylock, and the locks
 * that reclaim itself takes (i_mmap, folio locks), and does not wait for
 * another CPU.  A work item drops the charge and the claim's reference of the
 * chunk, and discards a chunk whose bo->lock was held.
 *
 * The client can write anything into the page.  If it writes KEPT for a chunk
 * that it still uses, it may lose the chunk's content.  A chunk with a window
 * or a pin of its pages is not discarded: it stays reserved, although its word
 * says TAKEN.
 *
 * Locks: cache->lock protects which chunk has which word, and bo->cached.
 */
#include <linux/list_lru.h>
#include <linux/llist.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/shrinker.h>
#include <linux/slab.h>
#include <linux/swap.h>

#include "gpumem_bo.h"
#include "gpumem_cache.h"
#include "gpumem_client.h"
#include "gpumem_compat.h"
#include "gpumem_delay.h"
#include "gpumem_device.h"
#include "gpumem_dmem.h"
#include "gpumem_lock.h"
#include "gpumem_mem.h"
#include "gpumem_object.h"
#include "gpumem_pool.h"
#include "gpumem_shmem.h"
#include "gpumem_user.h"

/**
 * struct gpumem_cache - the words of a client's cache page
 */
struct gpumem_cache {
	/** @lock: protects @top, @chunk and gpumem_bo.cached; innermost */
	spinlock_t lock;
	/** @words: kernel address of client->cache_page; hostile content */
	u32 *words;
	/** @top: above the highest word in use */
	unsigned int top;
	/** @chunk: chunk of each word, or NULL; kept by the chunk's id */
	struct gpumem_bo *chunk[GPUMEM_CACHE_WORDS];
};

/**
 * struct gpumem_cache_item - a chunk with a word, for the shrinker
 */
struct gpumem_cache_item {
	/** @lru: in gpumem_cache_lru until a claim or the end of the id */
	struct list_head lru;
	/** @bo: the chunk, whose release frees the item; constant */
	struct gpumem_bo *bo;
	/** @claimed: link in the list of chunks that one scan claimed */
	struct list_head claimed;
	/** @left: link in gpumem_cache_left */
	struct llist_node left;
	/** @retry: chunk is still to be discarded; owned by its claimer */
	bool retry;
	/** @charge: charge to free, or NULL; owned by the chunk's claimer */
	struct gpumem_charge *charge;
};

/*
 * Number of objects that the shrinker reports for a chunk.  Reclaim asks a
 * shrinker whose seeks are 0 to scan half of the objects that it reported.
 * With 2 objects for a chunk, that half is at least one chunk if the list is
 * not empty.
 */
#define GPUMEM_CACHE_WEIGHT	2

static struct workqueue_struct *gpumem_cache_wq;
static struct shrinker *gpumem_cache_shrinker;
static struct list_lru gpumem_cache_lru;
static struct kmem_cache *gpumem_cache_items;
/* Items of claimed chunks that gpumem_cache_work is to finish. */
static LLIST_HEAD(gpumem_cache_left);

/* The words of a client; NULL before its first word. */
static struct gpumem_cache *gpumem_cache_of(struct gpumem_client *client)
{
	/* Pairs with the release in gpumem_cache_get(). */
	return smp_load_acquire(&client->cache);
}

/**
 * gpumem_cache_open - allocate the cache page of a new client
 * @client: client, not yet in the table of clients
 *
 * gpumem_cache_mmap() does not allocate the page, because it runs with
 * mmap_lock held.
 *
 * Return: 0 or -ENOMEM.
 */
int gpumem_cache_open(struct gpumem_client *client)
{
	client->cache_page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	return client->cache_page ? 0 : -ENOMEM;
}

/**
 * gpumem_cache_free - free the cache page of a client
 * @client: client without objects
 */
void gpumem_cache_free(struct gpumem_client *client)
{
	/* A mapping has a reference of its own. */
	__free_page(client->cache_page);
	kvfree(client->cache);
}

/**
 * gpumem_cache_mmap - map a client's cache page
 * @client: client
 * @vma: one page
 *
 * Context: mmap_lock held for writing.
 * Return: 0 or a negative errno.
 */
int gpumem_cache_mmap(struct gpumem_client *client, struct vm_area_struct *vma)
{
	if (vma->vm_pgoff || vma_pages(vma) != 1)
		return -EINVAL;
	if (vma->vm_flags & VM_EXEC)
		return -EACCES;
	vm_flags_mod(vma, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP,
		     VM_MAYEXEC);
	/* Chunks that are made from now on get words. */
	WRITE_ONCE(client->cache_mapped, true);
	return vm_insert_page(vma, vma->vm_start, client->cache_page);
}

/*
 * Get struct gpumem_cache of a client that has mapped its cache page.  The
 * first chunk made after the mmap() allocates it.  Return NULL if the client
 * has not mapped the page, or if there is no memory.
 */
static struct gpumem_cache *gpumem_cache_get(struct gpumem_client *client)
{
	struct gpumem_cache *cache = gpumem_cache_of(client), *old;

	if (cache || !READ_ONCE(client->cache_mapped))
		return cache;
	cache = kvzalloc(sizeof(*cache), GFP_KERNEL_ACCOUNT);
	if (!cache)
		return NULL;
	cache->words = page_address(client->cache_page);
	spin_lock_init(&cache->lock);
	gpumem_lockdep_class(&cache->lock, GPUMEM_LOCK_CACHE);
	/* A task that sees the pointer sees the fields. */
	old = cmpxchg_release(&client->cache, NULL, cache);
	if (!old)
		return cache;
	kvfree(cache);
	return gpumem_cache_of(client);
}

/**
 * gpumem_cache_prepare - allocate the item of a new chunk
 * @bo: chunk
 *
 * Return: 0 or -ENOMEM.
 */
int gpumem_cache_prepare(struct gpumem_bo *bo)
{
	struct gpumem_cache_item *item;

	if (!gpumem_cache_get(bo->obj.client))
		return 0;
	/* Also creates the lists of the cgroup in gpumem_cache_lru. */
	item = kmem_cache_alloc_lru(gpumem_cache_items, &gpumem_cache_lru,
				    GFP_KERNEL_ACCOUNT);
	if (!item)
		return -ENOMEM;
	INIT_LIST_HEAD(&item->lru);
	item->bo = bo;
	item->retry = false;
	item->charge = NULL;
	bo->item = item;
	return 0;
}

/**
 * gpumem_cache_forget - undo gpumem_cache_prepare()
 * @bo: buffer object without references
 */
void gpumem_cache_forget(struct gpumem_bo *bo)
{
	if (bo->item)
		kmem_cache_free(gpumem_cache_items, bo->item);
}

/**
 * gpumem_cache_add - give a new chunk a word
 * @bo: chunk; its word is set if there is one left
 *
 * Context: may sleep, without locks.
 */
void gpumem_cache_add(struct gpumem_bo *bo)
{
	struct gpumem_cache *cache;
	unsigned int i;

	if (!bo->item)
		return;
	/* Not NULL: gpumem_cache_prepare() made it. */
	cache = gpumem_cache_of(bo->obj.client);
	spin_lock(&cache->lock);
	/* bo->word 0 means that the chunk has no word. */
	for (i = 1; i < GPUMEM_CACHE_WORDS && cache->chunk[i]; i++)
		;
	if (i < GPUMEM_CACHE_WORDS) {
		WRITE_ONCE(cache->words[i], GPUMEM_CACHE_USED);
		cache->chunk[i] = bo;
		cache->top = max(cache->top, i + 1);
		bo->word = i;
	}
	spin_unlock(&cache->lock);
	if (bo->word)
		list_lru_add_obj(&gpumem_cache_lru, &bo->item->lru);
}

/**
 * gpumem_cache_remove - take the word from a chunk whose id was destroyed
 * @bo: buffer object; may have no word
 */
void gpumem_cache_remove(struct gpumem_bo *bo)
{
	struct gpumem_cache *cache = gpumem_cache_of(bo->obj.client);

	if (!bo->word)
		return;
	list_lru_del_obj(&gpumem_cache_lru, &bo->item->lru);
	spin_lock(&cache->lock);
	cache->chunk[bo->word] = NULL;
	while (cache->top && !cache->chunk[cache->top - 1])
		cache->top--;
	spin_unlock(&cache->lock);
	bo->word = 0;
}

/* Does the memory of a chunk count as cached? */
static bool gpumem_cache_counts(struct gpumem_cache *cache, unsigned int i)
{
	lockdep_assert_held(&cache->lock);
	switch (cache->chunk[i]->cached) {
	case GPUMEM_CACHED_TAKING:
		return true;
	case GPUMEM_CACHED_TAKEN:
		return false;
	default:
		return READ_ONCE(cache->words[i]) == GPUMEM_CACHE_KEPT;
	}
}

static bool gpumem_cache_matches(const struct gpumem_cache_filter *f,
				 struct gpumem_bo *bo)
{
	struct gpumem_mem *mem = bo->kind == GPUMEM_BO_HOST ? &gpumem_host_mem :
							      &bo->dev->mem;

	return (!f->pool || bo->pool == f->pool) && (!f->mem || mem == f->mem);
}

/**
 * gpumem_cache_bytes - how much a client has cached
 * @client: client
 * @f: memory and pool to count; f->client is ignored
 *
 * Context: atomic.
 * Return: bytes.
 */
u64 gpumem_cache_bytes(struct gpumem_client *client,
		       const struct gpumem_cache_filter *f)
{
	struct gpumem_cache *cache = gpumem_cache_of(client);
	u64 bytes = 0;
	unsigned int i;

	if (!cache)
		return 0;
	spin_lock(&cache->lock);
	for (i = 1; i < cache->top; i++)
		if (cache->chunk[i] &&
		    gpumem_cache_matches(f, cache->chunk[i]) &&
		    gpumem_cache_counts(cache, i))
			bytes += cache->chunk[i]->length;
	spin_unlock(&cache->lock);
	return bytes;
}

/**
 * gpumem_cache_total - how much all clients have cached
 * @mem: memory to count, or NULL for all
 *
 * Return: bytes.
 */
u64 gpumem_cache_total(struct gpumem_mem *mem)
{
	const struct gpumem_cache_filter f = { .mem = mem };
	struct gpumem_client *client;
	unsigned long id;
	u64 bytes = 0;

	for (id = 0; (client = gpumem_client_next(&id)); id++) {
		bytes += gpumem_cache_bytes(client, &f);
		gpumem_client_put(client);
		cond_resched();
	}
	return bytes;
}

/* Is a cached chunk charged to the cgroup of f->dmem, or below it? */
static bool gpumem_cache_within(struct gpumem_cache *cache,
				const struct gpumem_cache_filter *f,
				struct gpumem_bo *bo)
{
	lockdep_assert_held(&cache->lock);
	if (!f->dmem)
		return true;
	/* The memory of a chunk that is not claimed has its charge. */
	return bo->cached == GPUMEM_CACHED_NO &&
	       READ_ONCE(cache->words[bo->word]) == GPUMEM_CACHE_KEPT &&
	       gpumem_dmem_within(f->dmem, bo);
}

/* Claim a chunk, with a reference, if it is cached. */
static bool gpumem_cache_claim_locked(struct gpumem_cache *cache,
				      struct gpumem_bo *bo)
{
	lockdep_assert_held(&cache->lock);
	if (bo->cached != GPUMEM_CACHED_NO)
		return false;
	if (cmpxchg(&cache->words[bo->word], GPUMEM_CACHE_KEPT,
		    GPUMEM_CACHE_TAKEN) != GPUMEM_CACHE_KEPT)
		return false;
	bo->cached = GPUMEM_CACHED_TAKING;
	kref_get(&bo->obj.ref);
	return true;
}

/*
 * Claim a cached chunk that matches @f.  Return it, or NULL if there is none.
 */
static struct gpumem_bo *gpumem_cache_claim(struct gpumem_cache *cache,
					    const struct gpumem_cache_filter *f)
{
	struct gpumem_bo *bo;
	unsigned int i;

	spin_lock(&cache->lock);
	for (i = 1; i < cache->top; i++) {
		bo = cache->chunk[i];
		if (bo && gpumem_cache_matches(f, bo) &&
		    gpumem_cache_within(cache, f, bo) &&
		    gpumem_cache_claim_locked(cache, bo)) {
			spin_unlock(&cache->lock);
			return bo;
		}
	}
	spin_unlock(&cache->lock);
	return NULL;
}

/*
 * End a claim, whether the chunk was discarded or not.  Under pool->lock the
 * charge leaves the pool and the chunk stops to count as cached at once, so
 * that a discarded chunk never counts as reserved.
 */
static void gpumem_cache_taken(struct gpumem_bo *bo,
			       struct gpumem_charge *charge)
{
	struct gpumem_cache *cache = gpumem_cache_of(bo->obj.client);

	spin_lock(&bo->pool->lock);
	if (charge)
		gpumem_pool_forget_locked(charge);
	spin_lock(&cache->lock);
	bo->cached = GPUMEM_CACHED_TAKEN;
	spin_unlock(&cache->lock);
	spin_unlock(&bo->pool->lock);
}

/*
 * Claim and discard one cached chunk.  Add the bytes that were discarded to
 * *@got.  Return false if the client has no cached chunk.
 */
static bool gpumem_cache_take_one(struct gpumem_client *client,
				  const struct gpumem_cache_filter *f, u64 *got)
{
	struct gpumem_cache *cache = gpumem_cache_of(client);
	struct gpumem_charge *charge;
	struct gpumem_bo *bo;

	gpumem_delay(cache_claim);
	bo = cache ? gpumem_cache_claim(cache, f) : NULL;
	if (!bo)
		return false;
	list_lru_del_obj(&gpumem_cache_lru, &bo->item->lru);
	gpumem_delay(cache_claimed);
	if (gpumem_bo_discard(bo, false, &charge) == GPUMEM_DISCARD_DONE)
		*got += bo->length;
	gpumem_cache_taken(bo, charge);
	gpumem_charge_free(charge);
	gpumem_object_put(&bo->obj);
	return true;
}

/**
 * gpumem_cache_take - discard cached chunks
 * @f: which chunks
 * @want: bytes; more may be discarded
 *
 * Claims no more chunks of a client than a client can have at a time, because
 * the client may go on making chunks that cannot be discarded.  Stops when the
 * caller is being killed.
 *
 * Context: may sleep, without locks.
 * Return: bytes that were discarded.
 */
u64 gpumem_cache_take(const struct gpumem_cache_filter *f, u64 want)
{
	struct gpumem_client *client;
	unsigned long id;
	unsigned int n;
	u64 got = 0;

	for (id = 0; got < want && !fatal_signal_pending(current) &&
	     (client = gpumem_client_next(&id)); id++) {
		for (n = 1; (!f->client || f->client == client) &&
		     n < GPUMEM_CACHE_WORDS && got < want &&
		     !fatal_signal_pending(current) &&
		     gpumem_cache_take_one(client, f, &got); n++)
			cond_resched();
		gpumem_client_put(client);
		cond_resched();
	}
	return got;
}

static void gpumem_cache_work_fn(struct work_struct *work)
{
	struct llist_node *left = llist_del_all(&gpumem_cache_left);
	struct gpumem_cache_item *item, *next;
	struct gpumem_charge *charge;

	llist_for_each_entry_safe(item, next, left, left) {
		charge = item->charge;
		if (item->retry) {
			gpumem_bo_discard(item->bo, false, &charge);
			gpumem_cache_taken(item->bo, charge);
		}
		gpumem_charge_free(charge);
		/* May free the item. */
		gpumem_object_put(&item->bo->obj);
		cond_resched();
	}
}

static DECLARE_WORK(gpumem_cache_work, gpumem_cache_work_fn);

/* Discard a claimed chunk without waiting.  Return the pages freed, or 0. */
static unsigned long gpumem_cache_discard(struct gpumem_cache_item *item)
{
	struct gpumem_bo *bo = item->bo;
	unsigned long pages = 0;

	switch (gpumem_bo_discard(bo, true, &item->charge)) {
	case GPUMEM_DISCARD_BUSY:
		item->retry = true;
		break;
	case GPUMEM_DISCARD_DONE:
		pages = bo->length >> PAGE_SHIFT;
		fallthrough;
	default:
		gpumem_cache_taken(bo, item->charge);
	}
	llist_add(&item->left, &gpumem_cache_left);
	return pages;
}

static enum lru_status gpumem_cache_isolate(GPUMEM_COMPAT_LRU_WALK_PARAMS)
{
	struct gpumem_cache_item *it = container_of(item,
						    struct gpumem_cache_item,
						    lru);
	struct gpumem_cache *cache = gpumem_cache_of(it->bo->obj.client);
	struct list_head *claimed = arg;
	bool mine;

	spin_lock(&cache->lock);
	mine = gpumem_cache_claim_locked(cache, it->bo);
	spin_unlock(&cache->lock);
	if (!mine)
		return LRU_ROTATE;
	list_lru_isolate(list, item);
	list_add_tail(&it->claimed, claimed);
	return LRU_REMOVED;
}

static unsigned long gpumem_cache_count(struct shrinker *shrinker,
					struct shrink_control *sc)
{
	/* Counts all listed chunks: only the scan reads their words. */
	return list_lru_shrink_count(&gpumem_cache_lru, sc) *
	       GPUMEM_CACHE_WEIGHT ?: SHRINK_EMPTY;
}

static unsigned long gpumem_cache_scan(struct shrinker *shrinker,
				       struct shrink_control *sc)
{
	unsigned long walk = DIV_ROUND_UP(sc->nr_to_scan, GPUMEM_CACHE_WEIGHT);
	struct gpumem_cache_item *item, *next;
	unsigned long pages = 0, n = 0;
	LIST_HEAD(claimed);

	/* Discarding takes i_mmap and folio locks. */
	if (!(sc->gfp_mask & __GFP_FS))
		return SHRINK_STOP;
	list_lru_walk_one(&gpumem_cache_lru, sc->nid, sc->memcg,
			  gpumem_cache_isolate, &claimed, &walk);
	list_for_each_entry_safe(item, next, &claimed, claimed) {
		pages += gpumem_cache_discard(item);
		n++;
	}
	if (n)
		queue_work(gpumem_cache_wq, &gpumem_cache_work);
	mm_account_reclaimed_pages(pages);
	return n * GPUMEM_CACHE_WEIGHT;
}

/**
 * gpumem_cache_init - register the shrinker
 *
 * Return: 0 or -ENOMEM.
 */
int gpumem_cache_init(void)
{
	int ret = -ENOMEM;

	gpumem_cache_wq = alloc_workqueue("gpumem_cache", WQ_UNBOUND, 0);
	if (!gpumem_cache_wq)
		return ret;
	gpumem_cache_items = KMEM_CACHE(gpumem_cache_item, SLAB_ACCOUNT);
	if (!gpumem_cache_items)
		goto err_wq;
	gpumem_cache_shrinker = shrinker_alloc(SHRINKER_MEMCG_AWARE |
					       SHRINKER_NUMA_AWARE,
					       "gpumem-cache");
	if (!gpumem_cache_shrinker)
		goto err_items;
	ret = list_lru_init_memcg(&gpumem_cache_lru, gpumem_cache_shrinker);
	if (ret)
		goto err_shrinker;
	gpumem_cache_shrinker->count_objects = gpumem_cache_count;
	gpumem_cache_shrinker->scan_objects = gpumem_cache_scan;
	gpumem_cache_shrinker->batch = GPUMEM_CACHE_WEIGHT;
	/* A chunk is cheaper to make again than file data is to read again. */
	gpumem_cache_shrinker->seeks = 0;
	shrinker_register(gpumem_cache_shrinker);
	return 0;

err_shrinker:
	shrinker_free(gpumem_cache_shrinker);
err_items:
	kmem_cache_destroy(gpumem_cache_items);
err_wq:
	destroy_workqueue(gpumem_cache_wq);
	return ret;
}

/**
 * gpumem_cache_exit - undo gpumem_cache_init()
 */
void gpumem_cache_exit(void)
{
	shrinker_free(gpumem_cache_shrinker);
	destroy_workqueue(gpumem_cache_wq);
	list_lru_destroy(&gpumem_cache_lru);
}

/**
 * gpumem_cache_exit_items - free the slab cache of the items
 *
 * No chunk is left: all streams and fences, which held the last references, are
 * freed.
 */
void gpumem_cache_exit_items(void)
{
	kmem_cache_destroy(gpumem_cache_items);
}
