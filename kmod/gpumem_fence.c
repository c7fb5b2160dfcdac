// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_fence: fences for engine work on buffers that other drivers use.
 *
 * A DMA-buf has a reservation object (resv), and a root with DMA-bufs has one
 * or several of them (gpumem_resv.c).  A copy, fill or timestamp that touches a
 * root with DMA-bufs is a *fenced* entry.  It waits for the fences that other
 * drivers added to the root's resvs (a reader for the fences of writers, a
 * writer for all), and adds a fence of its own to each.  It does not wait for
 * fences of gpumem's own streams: between streams, of one process or of
 * several, CUDA's rules hold, and CUDA has no implicit order.
 *
 * The fence of an entry must be signalled soon, whatever userspace does.  So a
 * fenced entry gets its fence when it is the stream's next entry and everything
 * that it depends on in gpumem is done (waits for timelines and polls are
 * separate entries before it).  The states of a fenced entry are:
 *
 *   asked	fenced->prepare, a work item that no published fence depends on,
 *		waits until the client may publish (gpumem_publish.c), locks
 *		the resvs, collects the fences of other drivers, and adds the
 *		stream's own.  It allocates all memory before it adds the
 *		fence.  If an allocation fails, it retries later.
 *   published	gpumem_publish.c executes the entry, or a portion of it, and
 *		signals the fence.
 *   done	One of the client's workers drops the fences and references,
 *		which may free memory, and completes the entry or asks for its
 *		next portion.
 *
 * Access to a buffer that another driver exported (a foreign buffer, see
 * gpumem_foreign.c; an import of gpumem's own is none here) begins and ends
 * with a call of that driver.  The calls may wait, allocate and lock the resv,
 * so neither is made while a fence of the entry is published and not signalled.
 * The call that begins access follows the fences of others and precedes the
 * entry's: an asked entry waits, by callback, for the fences in its foreign
 * buffers, then begins access.  If the foreign buffers have new fences by then,
 * the entry ends access and starts again; otherwise it publishes.  The call that
 * ends access comes when the portion is done.
 *
 * The fences of a client that ends are signalled with ECANCELED.  A fence holds
 * a reference on the module.
 *
 * A portion's fence is added to the resvs of the roots that the portion
 * touches.  The roots behind the portion's addresses are looked up once, in
 * state asked.  If the client maps another root at these addresses before the
 * portion ends, the portion's accesses to that root are not ordered with other
 * drivers; there is no other effect.  If a portion touches no root with
 * DMA-bufs, but a later portion of the entry does, the first portion's fence is
 * in no resv.
 *
 * Locks: all resvs of a portion while its fence is added.  gpumem_fence_look.c,
 * which finds the resvs, has locks of its own.
 */
#include <linux/dma-fence.h>
#include <linux/dma-resv.h>
#include <linux/memcontrol.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/sort.h>

#include "gpumem_bo.h"
#include "gpumem_client.h"
#include "gpumem_compat.h"
#include "gpumem_delay.h"
#include "gpumem_dmabuf.h"
#include "gpumem_engine.h"
#include "gpumem_evict.h"
#include "gpumem_fence.h"
#include "gpumem_fence_look.h"
#include "gpumem_lock.h"
#include "gpumem_managed.h"
#include "gpumem_object.h"
#include "gpumem_place.h"
#include "gpumem_publish.h"
#include "gpumem_resv.h"
#include "gpumem_runner.h"
#include "gpumem_stream.h"

/* Time until the next attempt after a failed allocation. */
#define GPUMEM_FENCE_AGAIN	max(HZ / 1000, 1)

/**
 * struct gpumem_fence - signalled when a portion of an entry is done
 */
struct gpumem_fence {
	/** @base: first member */
	struct dma_fence base;
	/** @lock: of @base */
	spinlock_t lock;
};

static struct workqueue_struct *gpumem_fence_wq;

static const char *gpumem_fence_driver(struct dma_fence *fence)
{
	return "gpumem";
}

static const char *gpumem_fence_timeline(struct dma_fence *fence)
{
	return "stream";
}

static void gpumem_fence_free(struct rcu_head *rcu)
{
	kfree(container_of(rcu, struct gpumem_fence, base.rcu));
	module_put(THIS_MODULE);
}

static void gpumem_fence_release(struct dma_fence *fence)
{
	call_rcu(&fence->rcu, gpumem_fence_free);
}

static const struct dma_fence_ops gpumem_fence_ops = {
	.get_driver_name = gpumem_fence_driver,
	.get_timeline_name = gpumem_fence_timeline,
	.release = gpumem_fence_release,
};

static struct dma_fence *gpumem_fence_create(struct gpumem_fenced *fenced)
{
	struct gpumem_fence *fence = kzalloc(sizeof(*fence), GFP_KERNEL);

	if (!fence)
		return NULL;
	__module_get(THIS_MODULE);
	spin_lock_init(&fence->lock);
	gpumem_lockdep_class(&fence->lock, GPUMEM_LOCK_FENCE);
	dma_fence_init(&fence->base, &gpumem_fence_ops, &fence->lock,
		       fenced->context, ++fenced->seqno);
	return &fence->base;
}

/**
 * gpumem_fence_start - make the workqueue that prepares fenced entries
 *
 * Return: 0 or -ENOMEM.
 */
int gpumem_fence_start(void)
{
	gpumem_fence_wq = alloc_workqueue("gpumem_fence", WQ_UNBOUND, 0);
	return gpumem_fence_wq ? 0 : -ENOMEM;
}

/**
 * gpumem_fence_stop - undo gpumem_fence_start()
 *
 * The caller has freed all streams.  Waits for gpumem_fence_free().
 */
void gpumem_fence_stop(void)
{
	destroy_workqueue(gpumem_fence_wq);
	/* Wait for gpumem_fence_free(), which is code of this module. */
	rcu_barrier();
}

static void gpumem_fenced_put_deps(struct gpumem_fenced_resv *r)
{
	while (r->ndeps)
		dma_fence_put(r->deps[--r->ndeps]);
	kfree(r->deps);
	r->deps = NULL;
}

/* The exporter may wait, so no unsignalled fence may depend on the caller. */
static void gpumem_fenced_end_access(struct gpumem_fenced *fenced)
{
	struct gpumem_fenced_resv *r;
	unsigned int i;

	for (i = 0; i < fenced->nresvs; i++) {
		r = &fenced->resvs[i];
		if (r->begun)
			gpumem_foreign_end(r->foreign, r->write);
		r->begun = false;
	}
}

/* Begin access to all foreign buffers.  If that fails, the entry fails, too. */
static int gpumem_fenced_begin_access(struct gpumem_fenced *fenced)
{
	struct gpumem_fenced_resv *r;
	unsigned int i;
	int ret;

	for (i = 0; i < fenced->nresvs; i++) {
		r = &fenced->resvs[i];
		if (!r->foreign)
			continue;
		ret = gpumem_foreign_begin(r->foreign, r->write);
		/* gpumem_fenced_ready() gives these errors another meaning. */
		if (ret == -EAGAIN || ret == -EINPROGRESS)
			ret = -EIO;
		if (ret)
			return ret;
		r->begun = true;
	}
	return 0;
}

/* Drop the reference that keeps the resv. */
static void gpumem_fenced_put(struct gpumem_fenced_resv *r)
{
	if (r->root)
		gpumem_object_put(&r->root->obj);
	else
		gpumem_client_put(r->client);
}

static void gpumem_fenced_clear(struct gpumem_fenced *fenced)
{
	unsigned int i;

	gpumem_fenced_end_access(fenced);
	for (i = 0; i < fenced->nresvs; i++) {
		gpumem_fenced_put_deps(&fenced->resvs[i]);
		gpumem_fenced_put(&fenced->resvs[i]);
	}
	kvfree(fenced->resvs);
	fenced->resvs = NULL;
	fenced->nresvs = 0;
	fenced->at = 0;
	fenced->dep = 0;
	fenced->looked = false;
}

static int gpumem_fenced_compare(const void *a, const void *b)
{
	const struct gpumem_fenced_resv *x = a, *y = b;

	/* A driver may have several buffers with one resv. */
	if (x->resv != y->resv)
		return x->resv < y->resv ? -1 : 1;
	/*
	 * The first entry of a resv decides which of its fences to wait for.
	 * If another driver exported a buffer with a resv of gpumem's, wait for
	 * those of gpumem, too: foreign buffers first.
	 */
	if (!x->foreign != !y->foreign)
		return x->foreign ? -1 : 1;
	if (x->root != y->root)
		return x->root < y->root ? -1 : 1;
	/* The caller keeps the first of equal ones: sort writers first. */
	return (int)y->write - (int)x->write;
}

/* Allocate a list of @n, charged to the memory cgroup of the client. */
static struct gpumem_fenced_resv *
gpumem_fenced_alloc(struct gpumem_client *client, unsigned int n)
{
	/* The client keeps its mm until the work of its streams has ended. */
	struct mem_cgroup *memcg = get_mem_cgroup_from_mm(client->mm);
	struct mem_cgroup *old = set_active_memcg(memcg);
	struct gpumem_fenced_resv *resvs;

	resvs = kvcalloc(n, sizeof(*resvs), GFP_KERNEL_ACCOUNT);
	set_active_memcg(old);
	mem_cgroup_put(memcg);
	return resvs;
}

/* Do two entries of the list stand for the same root or client? */
static bool gpumem_fenced_same(const struct gpumem_fenced_resv *x,
			       const struct gpumem_fenced_resv *y)
{
	return x->resv == y->resv && x->root == y->root;
}

/*
 * List the resvs of the roots that the next portion of the entry touches, each
 * once.  Return 0, -ENOMEM, or -E2BIG if the whole entry touches too many.
 */
static int gpumem_fenced_collect(struct gpumem_stream *stream)
{
	struct gpumem_fenced *fenced = &stream->fenced;
	bool first = !stream->row && !stream->col;
	unsigned int i, n, kept = 0;

	/*
	 * Look at all first: an entry that touches too many writes to none.
	 */
	if (first && gpumem_fenced_look(stream, false, NULL,
					GPUMEM_SHARED_MOST + 1) >
		     GPUMEM_SHARED_MOST)
		return -E2BIG;
	n = gpumem_fenced_look(stream, true, NULL, GPUMEM_SHARED_MOST + 1);
	if (!n)
		return 0;
	/* The client mapped or exported more after the check. */
	if (n > GPUMEM_SHARED_MOST)
		return -E2BIG;
	fenced->resvs = gpumem_fenced_alloc(stream->obj.client, n);
	if (!fenced->resvs)
		return -ENOMEM;
	n = gpumem_fenced_look(stream, true, fenced->resvs, n);
	sort(fenced->resvs, n, sizeof(*fenced->resvs), gpumem_fenced_compare,
	     NULL);
	for (i = 0; i < n; i++) {
		if (kept && gpumem_fenced_same(&fenced->resvs[kept - 1],
					       &fenced->resvs[i]))
			gpumem_fenced_put(&fenced->resvs[i]);
		else
			fenced->resvs[kept++] = fenced->resvs[i];
	}
	fenced->nresvs = kept;
	for (i = kept; i--;) {
		struct gpumem_fenced_resv *r = &fenced->resvs[i];

		r->writes |= r->write;
		if (!i || r->resv != r[-1].resv)
			continue;
		r->second = true;
		r[-1].writes |= r->writes;
	}
	return 0;
}

/* The stream's next portion keeps no managed memory in use, or no longer. */
static void gpumem_fenced_unkeep(struct gpumem_stream *stream)
{
	gpumem_uses_drop(&stream->uses);
	if (unlikely(stream->fenced.wants))
		gpumem_lane_unkeep(&stream->fenced);
	stream->fenced.wants = false;
	gpumem_managed_trim_late(stream->dev);
}

/**
 * gpumem_fenced_begin - prepare a stream's entry if it needs a fence
 * @stream: stream whose entry, or next portion, is about to start
 *
 * Context: the worker that runs the stream; may sleep.
 * Return: 0 if the entry is not fenced; -EINPROGRESS if it is, and the stream
 * will be kicked when it is published or may be prepared; -EAGAIN if the caller
 * is to call again; or the negative errno with which the entry fails.
 */
int gpumem_fenced_begin(struct gpumem_stream *stream)
{
	int ret;

	stream->fenced.more = false;
	if (!gpumem_resv_any() ||
	    !gpumem_fenced_look(stream, false, NULL, 1)) {
		/* The entry may have been fenced when the stream began to wait. */
		if (unlikely(stream->fenced.wants))
			gpumem_fenced_unkeep(stream);
		return 0;
	}
	/*
	 * Published work must not allocate.  Without managed memory there is
	 * nothing to prepare; if the client allocates some meanwhile, the
	 * portion ends there.
	 */
	ret = unlikely(gpumem_pageable_any(&stream->sqe)) ?
		gpumem_pageable_pin(stream) : 0;
	if (!ret && atomic64_read(&stream->obj.client->count.managed))
		ret = gpumem_place_prepare(stream);
	if (ret) {
		stream->fenced.more = ret == -EAGAIN || ret == -EINPROGRESS;
		gpumem_pageable_unpin(stream);
		if (stream->fenced.more)
			gpumem_uses_drop(&stream->uses);
		else
			gpumem_fenced_unkeep(stream);
		return ret;
	}
	if (!stream->uses.n && unlikely(stream->fenced.wants))
		gpumem_fenced_unkeep(stream);
	/*
	 * Collect in the client's worker, which is charged for the CPU time.
	 * If this fails, fenced->prepare repeats it.
	 */
	if (gpumem_fenced_collect(stream))
		gpumem_fenced_clear(&stream->fenced);
	/* Pairs with gpumem_fenced_prepare(), which may be queued already. */
	smp_store_release(&stream->fenced.state, GPUMEM_FENCED_ASKED);
	queue_delayed_work(gpumem_fence_wq, &stream->fenced.prepare, 0);
	return -EINPROGRESS;
}

static void gpumem_fenced_unlock(struct gpumem_fenced *fenced)
{
	unsigned int i;

	for (i = 0; i < fenced->nresvs; i++)
		if (!fenced->resvs[i].second)
			dma_resv_unlock(fenced->resvs[i].resv);
}

/*
 * Lock the resvs of all roots.  After -EDEADLK drop all locks and begin again
 * with the contended resv.  This never fails.
 */
static void gpumem_fenced_lock(struct gpumem_fenced *fenced,
			       struct ww_acquire_ctx *ctx)
{
	struct dma_resv *slow = NULL;
	unsigned int i;
	int ret;

again:
	if (slow)
		dma_resv_lock_slow(slow, ctx);
	for (i = 0; i < fenced->nresvs; i++) {
		struct dma_resv *resv = fenced->resvs[i].resv;

		if (resv == slow || fenced->resvs[i].second)
			continue;
		ret = dma_resv_lock(resv, ctx);
		if (!ret)
			continue;
		/* -EDEADLK: another context goes first. */
		while (i--)
			if (fenced->resvs[i].resv != slow &&
			    !fenced->resvs[i].second)
				dma_resv_unlock(fenced->resvs[i].resv);
		if (slow)
			dma_resv_unlock(slow);
		slow = resv;
		goto again;
	}
	ww_acquire_done(ctx);
}

static bool gpumem_fence_is_foreign(struct dma_fence *fence)
{
	return gpumem_compat_fence_ops(fence) != &gpumem_fence_ops;
}

/*
 * Collect the unsignalled fences of other drivers in the resv of @r (in a
 * foreign buffer, all unsignalled fences) and reserve a slot for the entry's.
 */
static int gpumem_fenced_depend(struct gpumem_fenced_resv *r)
{
	enum dma_resv_usage usage = dma_resv_usage_rw(r->writes);
	unsigned int i, kept = 0;
	int ret;

	if (r->second)
		return 0;
	ret = dma_resv_reserve_fences(r->resv, 1);
	if (ret)
		return ret;
	ret = dma_resv_get_fences(r->resv, usage, &r->ndeps, &r->deps);
	if (ret) {
		r->ndeps = 0;
		r->deps = NULL;
		return ret;
	}
	for (i = 0; i < r->ndeps; i++) {
		/* begin_cpu_access of a foreign buffer waits for all fences. */
		if ((r->foreign || gpumem_fence_is_foreign(r->deps[i])) &&
		    !dma_fence_is_signaled(r->deps[i]))
			r->deps[kept++] = r->deps[i];
		else
			dma_fence_put(r->deps[i]);
	}
	r->ndeps = kept;
	if (!kept)
		gpumem_fenced_put_deps(r);
	return 0;
}

static void gpumem_fenced_show(struct gpumem_fenced_resv *r,
			       struct dma_fence *fence)
{
	if (r->second || (r->foreign &&
			  !gpumem_foreign_fences(r->foreign)))
		return;
	dma_resv_add_fence(r->resv, fence,
			   r->writes ? DMA_RESV_USAGE_WRITE :
				      DMA_RESV_USAGE_READ);
}

/* Must the entry begin access to a foreign buffer before it publishes? */
static bool gpumem_fenced_early(struct gpumem_fenced *fenced)
{
	struct gpumem_fenced_resv *r;
	bool early = false;
	unsigned int i;

	for (i = 0; i < fenced->nresvs; i++) {
		r = &fenced->resvs[i];
		if (r->foreign && (!r->begun || r->ndeps))
			early = true;
	}
	/*
	 * The entry waits for fences in gpumem's own roots after publishing.
	 * gpumem_fenced_publish() collects them again by then.
	 */
	for (i = 0; early && i < fenced->nresvs; i++)
		if (!fenced->resvs[i].foreign)
			gpumem_fenced_put_deps(&fenced->resvs[i]);
	return early;
}

/*
 * Create the fence and add it to the resvs of all roots, or to none.  Return
 * -EAGAIN if access to foreign buffers has to begin first.
 */
static int gpumem_fenced_publish(struct gpumem_fenced *fenced)
{
	struct dma_fence *fence = gpumem_fence_create(fenced);
	struct ww_acquire_ctx ctx;
	unsigned int i;
	int ret = 0;

	if (!fence)
		return -ENOMEM;
	for (i = 0; i < fenced->nresvs; i++)
		gpumem_fenced_put_deps(&fenced->resvs[i]);
	fenced->at = 0;
	fenced->dep = 0;
	ww_acquire_init(&ctx, &reservation_ww_class);
	gpumem_fenced_lock(fenced, &ctx);
	for (i = 0; i < fenced->nresvs && !ret; i++) {
		ret = gpumem_fenced_depend(&fenced->resvs[i]);
		cond_resched();
	}
	if (!ret && gpumem_fenced_early(fenced))
		ret = -EAGAIN;
	for (i = 0; i < fenced->nresvs && !ret; i++)
		gpumem_fenced_show(&fenced->resvs[i], fence);
	gpumem_fenced_unlock(fenced);
	ww_acquire_fini(&ctx);
	if (ret) {
		/* A fence must be signalled before it is freed. */
		dma_fence_signal(fence);
		dma_fence_put(fence);
		return ret;
	}
	fenced->fence = fence;
	return 0;
}

static void gpumem_fenced_wake(struct dma_fence *fence, struct dma_fence_cb *cb)
{
	struct gpumem_fenced *fenced = container_of(cb, struct gpumem_fenced,
						    cb);

	/* The state does not change while the callback is pending. */
	if (READ_ONCE(fenced->state) == GPUMEM_FENCED_ASKED)
		queue_delayed_work(gpumem_fence_wq, &fenced->prepare, 0);
	else
		gpumem_publish_wake(fenced);
}

/**
 * gpumem_fenced_prepare_later - queue the preparation of an asked entry
 * @fenced: of the stream
 *
 * Context: any.
 */
void gpumem_fenced_prepare_later(struct gpumem_fenced *fenced)
{
	queue_delayed_work(gpumem_fence_wq, &fenced->prepare, 0);
}

/**
 * gpumem_fenced_met - are all fences signalled that an entry waits for?
 * @fenced: of the stream
 * @most: the most fences and roots to look at
 *
 * Context: the owner of the entry; may be atomic.
 * Return: 1, or 0 if gpumem_fenced_wake() will be called, or -EAGAIN if there
 * are more than @most to look at.
 */
int gpumem_fenced_met(struct gpumem_fenced *fenced, unsigned int most)
{
	while (fenced->at < fenced->nresvs) {
		struct gpumem_fenced_resv *r = &fenced->resvs[fenced->at];
		struct dma_fence *dep;

		if (!most--)
			return -EAGAIN;
		if (fenced->dep == r->ndeps) {
			fenced->at++;
			fenced->dep = 0;
			continue;
		}
		dep = r->deps[fenced->dep];
		if (fenced->waiting) {
			if (!dma_fence_is_signaled(dep))
				return 0;
			/* The callback has run by now, or will not run. */
			dma_fence_remove_callback(dep, &fenced->cb);
			fenced->waiting = false;
		} else {
			fenced->waiting = true;
			if (!dma_fence_add_callback(dep, &fenced->cb,
						    gpumem_fenced_wake))
				return 0;
			fenced->waiting = false;
		}
		fenced->dep++;
	}
	return 1;
}

/*
 * Collect the roots, wait for fences in foreign buffers, begin access, and
 * publish the fence.  Return 0, -EINPROGRESS if the callback of another
 * driver's fence will continue, -ENOMEM, or the error with which the entry
 * fails.
 */
static int gpumem_fenced_ready(struct gpumem_stream *stream)
{
	struct gpumem_fenced *fenced = &stream->fenced;
	int ret = 0;

	if (!fenced->resvs)
		ret = gpumem_fenced_collect(stream);
	while (!ret) {
		/*
		 * Before publishing, wait only for fences in foreign buffers.
		 */
		if (!gpumem_fenced_met(fenced, UINT_MAX))
			return -EINPROGRESS;
		if (fenced->looked)
			ret = gpumem_fenced_begin_access(fenced);
		gpumem_delay(share_publish);
		if (!ret)
			ret = gpumem_fenced_publish(fenced);
		if (ret != -EAGAIN)
			break;
		ret = 0;
		fenced->looked = true;
		gpumem_fenced_end_access(fenced);
		if (test_bit(GPUMEM_STREAM_CANCELLED, &stream->state))
			return -EINPROGRESS;
		cond_resched();
	}
	return ret;
}

static void gpumem_fenced_prepare(struct work_struct *work)
{
	struct gpumem_fenced *fenced = container_of(to_delayed_work(work),
						    struct gpumem_fenced,
						    prepare);
	struct gpumem_stream *stream = container_of(fenced,
						    struct gpumem_stream,
						    fenced);
	unsigned long delay;
	int ret;

	if (test_bit(GPUMEM_STREAM_CANCELLED, &stream->state))
		return;
	/* Pairs with gpumem_fenced_begin(). */
	if (smp_load_acquire(&fenced->state) != GPUMEM_FENCED_ASKED)
		return;
	if (!gpumem_publish_admit(fenced, &delay)) {
		if (delay)
			queue_delayed_work(gpumem_fence_wq, &fenced->prepare,
					   delay);
		return;
	}
	ret = gpumem_fenced_ready(stream);
	switch (ret) {
	case 0:
		gpumem_publish_begin(fenced);
		break;
	case -EINPROGRESS:
		break;
	case -ENOMEM:
		gpumem_fenced_clear(fenced);
		queue_delayed_work(gpumem_fence_wq, &fenced->prepare,
				   GPUMEM_FENCE_AGAIN);
		break;
	default:
		fenced->result = ret;
		gpumem_publish_leave(fenced);
		/* Pairs with gpumem_fenced_run(). */
		smp_store_release(&fenced->state, GPUMEM_FENCED_DONE);
		gpumem_runner_kick(stream);
	}
}

/**
 * gpumem_fenced_run - execute a published entry, complete one that is done
 * @stream: stream
 *
 * Context: the worker that runs the stream; may sleep.
 * Return: what the worker does with the stream.
 */
enum gpumem_fenced_next gpumem_fenced_run(struct gpumem_stream *stream)
{
	struct gpumem_fenced *fenced = &stream->fenced;
	enum gpumem_fenced_next next;

	/* Pairs with the release by the entry's last owner. */
	switch (smp_load_acquire(&fenced->state)) {
	case GPUMEM_FENCED_NONE:
		return GPUMEM_NEXT_FREE;
	case GPUMEM_FENCED_PUBLISHED:
		next = gpumem_publish_run(fenced);
		if (next != GPUMEM_NEXT_DONE)
			return next;
		break;
	case GPUMEM_FENCED_DONE:
		break;
	default:
		return GPUMEM_NEXT_WAIT;
	}
	gpumem_publish_over(fenced);
	gpumem_fenced_clear(fenced);
	gpumem_pageable_unpin(stream);
	gpumem_fenced_unkeep(stream);
	WRITE_ONCE(fenced->state, GPUMEM_FENCED_NONE);
	if (fenced->result != -EINPROGRESS)
		gpumem_stream_complete(stream, fenced->result);
	else
		fenced->more = true;
	return GPUMEM_NEXT_FREE;
}

/**
 * gpumem_fenced_init - initialize the fenced entry of a new stream
 * @fenced: of the stream
 */
void gpumem_fenced_init(struct gpumem_fenced *fenced)
{
	INIT_DELAYED_WORK(&fenced->prepare, gpumem_fenced_prepare);
	gpumem_publish_init(fenced);
	fenced->context = dma_fence_context_alloc(1);
}

/**
 * gpumem_fenced_cancel - end the fenced entry of a cancelled stream
 * @fenced: of the stream, which the client's workers have left
 *
 * Context: may sleep; waits for the work items that handle the entry.
 */
void gpumem_fenced_cancel(struct gpumem_fenced *fenced)
{
	struct gpumem_fenced_resv *r;

	disable_delayed_work_sync(&fenced->prepare);
	/* gpumem_fenced_wake() may still be called, and must queue no work. */
	gpumem_publish_cancel(fenced);
	if (fenced->waiting) {
		r = &fenced->resvs[fenced->at];
		dma_fence_remove_callback(r->deps[fenced->dep], &fenced->cb);
		fenced->waiting = false;
	}
	if (fenced->fence) {
		dma_fence_set_error(fenced->fence, -ECANCELED);
		dma_fence_signal(fenced->fence);
		dma_fence_put(fenced->fence);
		fenced->fence = NULL;
	}
	gpumem_fenced_clear(fenced);
	gpumem_lane_unkeep(fenced);
}
