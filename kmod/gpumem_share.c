// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_share: engine work on buffers that other drivers use.
 *
 * All DMA-bufs of a root share one reservation object.  An entry that reads or
 * writes a root with DMA-bufs waits for the fences that other drivers left there
 * (a reader for writers, a writer for all), and leaves a fence of its own.
 * Fences of gpumem's own streams are not waited for: between streams, of one
 * process or of several, CUDA's rules hold, and they know no implicit order.
 *
 * A fence promises to be signalled soon, whatever userspace does.  So an entry
 * gets its fence when it is the stream's next and all that it waited for is done
 * (waits for timelines and polls are entries before it):
 *
 *   asked	share->prepare, a work item that nothing waits for, waits until the
 *		client may publish (gpumem_publish.c), locks the reservations,
 *		takes others' fences, and adds the stream's own.  It has all
 *		memory that this needs before it adds the fence; without memory it
 *		tries again later.
 *   published	gpumem_publish.c executes the entry, or a portion of it, and
 *		signals the fence.
 *   done	One of the client's workers drops what was held, which may free
 *		memory, and completes the entry or asks for its next portion.
 *
 * A buffer that another driver made (gpumem_foreign.c) is accessed between two
 * calls of that driver, which may wait, allocate and lock the reservation, so
 * neither is made where a fence of ours has been published and not signalled.
 * The first comes after the others' fences and before ours: an asked entry first
 * waits, by callback, for what others left in such buffers, begins the access,
 * and publishes if nobody left anything in the meantime; else it starts anew.
 * The second comes when the entry is done.
 *
 * A client that dies signals its fences with ECANCELED.  A fence pins the module.
 *
 * A portion's fence is shown in the roots that the portion touches.  What is mapped
 * behind the portion's addresses is looked up once, when the portion is asked; a
 * client that maps something else there meanwhile loses the order, and nothing
 * else.  A portion that touches no root with DMA-bufs, of an entry that touches one
 * later, has a fence that nobody sees.
 */
#include <linux/dma-fence.h>
#include <linux/dma-resv.h>
#include <linux/memcontrol.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/sort.h>

#include "gpumem_compat.h"
#include "gpumem_private.h"

/* Mappings that are looked at before the address space is unlocked for others. */
#define GPUMEM_SHARE_LOOKS	256

/* Time until the next attempt after one without memory. */
#define GPUMEM_SHARE_AGAIN	max(HZ / 1000, 1)

/**
 * struct gpumem_fence - tells others that an entry is done
 */
struct gpumem_fence {
	/** @base: first member */
	struct dma_fence base;
	/** @lock: of @base */
	spinlock_t lock;
};

/**
 * struct gpumem_shared_root - a root that an entry touches
 */
struct gpumem_shared_root {
	/** @root: with DMA-bufs; referenced */
	struct gpumem_bo *root;
	/** @write: the entry writes it */
	bool write;
	/** @second: the one before it in the list has the same reservation */
	bool second;
	/** @writes: the entry writes one of those that have the reservation */
	bool writes;
	/** @begun: access has begun; foreign buffers only */
	bool begun;
	/** @deps: fences to wait for, referenced */
	struct dma_fence **deps;
	/** @ndeps: number of @deps */
	unsigned int ndeps;
};

/* DMA-bufs that live. */
static atomic_t gpumem_share_dmabufs = ATOMIC_INIT(0);
static struct workqueue_struct *gpumem_share_wq;

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

static struct dma_fence *gpumem_fence_create(struct gpumem_share *share)
{
	struct gpumem_fence *fence = kzalloc(sizeof(*fence), GFP_KERNEL);

	if (!fence)
		return NULL;
	__module_get(THIS_MODULE);
	spin_lock_init(&fence->lock);
	gpumem_lockdep_class(&fence->lock, GPUMEM_LOCK_FENCE);
	dma_fence_init(&fence->base, &gpumem_fence_ops, &fence->lock,
		       share->context, ++share->seqno);
	return &fence->base;
}

/**
 * gpumem_share_start - prepare what all streams share
 *
 * Return: 0 or -ENOMEM.
 */
int gpumem_share_start(void)
{
	gpumem_share_wq = alloc_workqueue("gpumem_share", WQ_UNBOUND, 0);
	return gpumem_share_wq ? 0 : -ENOMEM;
}

/**
 * gpumem_share_stop - wait until all fences are freed
 *
 * There are no streams any more.
 */
void gpumem_share_stop(void)
{
	destroy_workqueue(gpumem_share_wq);
	/* gpumem_fence_free() is code of ours. */
	rcu_barrier();
}

/**
 * gpumem_share_resv - the reservation object of a root's DMA-bufs
 * @root: root that gets a DMA-buf
 *
 * Return: what lives as long as @root, or NULL without memory.
 */
struct dma_resv *gpumem_share_resv(struct gpumem_bo *root)
{
	struct dma_resv *resv;

	guard(mutex)(&root->lock);
	if (!root->resv) {
		resv = kzalloc(sizeof(*resv), GFP_KERNEL_ACCOUNT);
		if (!resv)
			return NULL;
		dma_resv_init(resv);
		root->resv = resv;
	}
	return root->resv;
}

/**
 * gpumem_share_free_resv - a root is going
 * @root: root
 */
void gpumem_share_free_resv(struct gpumem_bo *root)
{
	if (!root->resv)
		return;
	dma_resv_fini(root->resv);
	kfree(root->resv);
}

/**
 * gpumem_share_count - a root has a DMA-buf more or less
 * @root: root with a reservation object
 * @by: 1 or -1
 */
void gpumem_share_count(struct gpumem_bo *root, int by)
{
	/* Whoever sees the count sees the reservation object. */
	smp_mb__before_atomic();
	atomic_add(by, &root->dmabufs);
	atomic_add(by, &gpumem_share_dmabufs);
}

/*
 * Look for roots with DMA-bufs behind a range until @max are found; put them into
 * @list, if there is one, with references.  Mappings are the client's to make,
 * as many as it likes: nobody waits until all are looked at.  Return how many
 * roots were found.
 */
static unsigned int gpumem_share_find(struct gpumem_stream *stream, u64 addr,
				      u64 last, bool write,
				      struct gpumem_shared_root *list,
				      unsigned int max)
{
	MA_STATE(mas, &stream->vm->mappings, addr, addr);
	struct gpumem_bo *root, *before = NULL;
	unsigned int n = 0, looks = 0;
	struct gpumem_mapping *m;

	if (!max)
		return 0;
	down_read(&stream->vm->lock);
	mas_for_each(&mas, m, last) {
		root = gpumem_bo_root(m->bo);
		if (root != before && atomic_read(&root->dmabufs)) {
			/* Pairs with gpumem_share_count(). */
			smp_rmb();
			before = root;
			if (list) {
				kref_get(&root->obj.ref);
				list[n].root = root;
				list[n].write = write;
			}
			if (++n == max)
				break;
		}
		if (++looks % GPUMEM_SHARE_LOOKS)
			continue;
		mas_pause(&mas);
		up_read(&stream->vm->lock);
		cond_resched();
		before = NULL;
		down_read(&stream->vm->lock);
		if (test_bit(GPUMEM_STREAM_CANCELLED, &stream->state))
			break;
	}
	up_read(&stream->vm->lock);
	return n;
}

/* Bytes of a row of an entry; 0 if it touches no memory. */
static u64 gpumem_share_row(const struct gpumem_sqe *sqe)
{
	switch (sqe->op) {
	case GPUMEM_OP_COPY:
		return sqe->width;
	case GPUMEM_OP_FILL:
		return sqe->width * sqe->elem;
	case GPUMEM_OP_TIMESTAMP:
		return sizeof(u64);
	default:
		return 0;
	}
}

/* Rows that a portion may execute behind the one that it begins in. */
static u64 gpumem_share_rows(const struct gpumem_sqe *sqe)
{
	u64 row = max(gpumem_share_row(sqe), GPUMEM_ROW_WEIGHT);

	return gpumem_publish_weight(sqe) / row + 1;
}

/*
 * As gpumem_share_find(), for what is left of an entry's rows at @addr.  @most:
 * look at no more bytes of a row than that, and at no more rows than a portion has.
 */
static unsigned int gpumem_share_side(struct gpumem_stream *stream, u64 addr,
				      u64 pitch, u64 most, bool write,
				      struct gpumem_shared_root *list,
				      unsigned int max)
{
	const struct gpumem_sqe *sqe = &stream->sqe;
	u64 bytes = gpumem_share_row(sqe), row = stream->row;
	u64 end = max(sqe->height, 1), first, last;

	/* The entry passed gpumem_sqe_check(): nothing overflows. */
	first = addr + row * pitch + stream->col;
	if (bytes - stream->col >= most) {
		last = first + most - 1;
	} else {
		if (most != U64_MAX)
			end = min(end, row + 1 + gpumem_share_rows(sqe));
		last = addr + (end - 1) * pitch + bytes - 1;
		if (end > row + 1)
			first -= stream->col;
	}
	return gpumem_share_find(stream, first, last, write, list, max);
}

/* As gpumem_share_find(), for what is left of an entry, or for a portion of it. */
static unsigned int gpumem_share_look(struct gpumem_stream *stream,
				      bool portion,
				      struct gpumem_shared_root *list,
				      unsigned int max)
{
	const struct gpumem_sqe *sqe = &stream->sqe;
	u64 most = portion ? gpumem_publish_weight(sqe) : U64_MAX;
	unsigned int n;

	if (!gpumem_share_row(sqe))
		return 0;
	n = gpumem_share_side(stream, sqe->dst, sqe->dst_pitch, most, true,
			      list, max);
	if (sqe->op == GPUMEM_OP_COPY)
		n += gpumem_share_side(stream, sqe->src, sqe->src_pitch, most,
				       false, list ? list + n : NULL, max - n);
	return n;
}

static void gpumem_share_put_deps(struct gpumem_shared_root *r)
{
	while (r->ndeps)
		dma_fence_put(r->deps[--r->ndeps]);
	kfree(r->deps);
	r->deps = NULL;
}

/* Nobody waits for the caller by a fence. */
static void gpumem_share_end_access(struct gpumem_share *share)
{
	struct gpumem_shared_root *r;
	unsigned int i;

	for (i = 0; i < share->nroots; i++) {
		r = &share->roots[i];
		if (r->begun)
			gpumem_foreign_end(r->root->foreign, r->write);
		r->begun = false;
	}
}

/* All foreign buffers, or an error that the entry fails with. */
static int gpumem_share_begin_access(struct gpumem_share *share)
{
	struct gpumem_shared_root *r;
	unsigned int i;
	int ret;

	for (i = 0; i < share->nroots; i++) {
		r = &share->roots[i];
		if (!r->root->foreign)
			continue;
		ret = gpumem_foreign_begin(r->root->foreign, r->write);
		/* The exporter knows nothing of what these mean here. */
		if (ret == -EAGAIN || ret == -EINPROGRESS)
			ret = -EIO;
		if (ret)
			return ret;
		r->begun = true;
	}
	return 0;
}

static void gpumem_share_clear(struct gpumem_share *share)
{
	unsigned int i;

	gpumem_share_end_access(share);
	for (i = 0; i < share->nroots; i++) {
		gpumem_share_put_deps(&share->roots[i]);
		gpumem_object_put(&share->roots[i].root->obj);
	}
	kvfree(share->roots);
	share->roots = NULL;
	share->nroots = 0;
	share->root = 0;
	share->dep = 0;
	share->looked = false;
}

static int gpumem_share_compare(const void *a, const void *b)
{
	const struct gpumem_shared_root *x = a, *y = b;

	/* A driver may have several buffers with one reservation. */
	if (x->root->resv != y->root->resv)
		return x->root->resv < y->root->resv ? -1 : 1;
	if (x->root != y->root)
		return x->root < y->root ? -1 : 1;
	/* The one that writes stays. */
	return (int)y->write - (int)x->write;
}

/* Room for @n roots, charged to the client as if it had asked itself. */
static struct gpumem_shared_root *
gpumem_share_alloc(struct gpumem_client *client, unsigned int n)
{
	/* The file's reference on the mm outlives the client's streams' work. */
	struct mem_cgroup *memcg = get_mem_cgroup_from_mm(client->mm);
	struct mem_cgroup *old = set_active_memcg(memcg);
	struct gpumem_shared_root *roots;

	roots = kvcalloc(n, sizeof(*roots), GFP_KERNEL_ACCOUNT);
	set_active_memcg(old);
	mem_cgroup_put(memcg);
	return roots;
}

/*
 * Fill in what the next portion of the entry touches, each root once.  Return 0,
 * -ENOMEM, or -E2BIG if the entry as a whole touches too many.
 */
static int gpumem_share_collect(struct gpumem_stream *stream)
{
	struct gpumem_share *share = &stream->share;
	bool first = !stream->row && !stream->col;
	unsigned int i, n, kept = 0;

	/* An entry that fails for that has touched none of them. */
	if (first && gpumem_share_look(stream, false, NULL,
				       GPUMEM_SHARED_MOST + 1) >
		     GPUMEM_SHARED_MOST)
		return -E2BIG;
	n = gpumem_share_look(stream, true, NULL, GPUMEM_SHARED_MOST + 1);
	if (!n)
		return 0;
	/* The client has mapped more since. */
	if (n > GPUMEM_SHARED_MOST)
		return -E2BIG;
	share->roots = gpumem_share_alloc(stream->obj.client, n);
	if (!share->roots)
		return -ENOMEM;
	n = gpumem_share_look(stream, true, share->roots, n);
	sort(share->roots, n, sizeof(*share->roots), gpumem_share_compare,
	     NULL);
	for (i = 0; i < n; i++) {
		if (kept && share->roots[kept - 1].root ==
			    share->roots[i].root)
			gpumem_object_put(&share->roots[i].root->obj);
		else
			share->roots[kept++] = share->roots[i];
	}
	share->nroots = kept;
	for (i = kept; i--;) {
		struct gpumem_shared_root *r = &share->roots[i];

		r->writes |= r->write;
		if (!i || r->root->resv != r[-1].root->resv)
			continue;
		r->second = true;
		r[-1].writes |= r->writes;
	}
	return 0;
}

/**
 * gpumem_share_begin - does an entry touch buffers that others use?
 * @stream: stream whose entry is about to start
 *
 * Return: true if it needs a fence; the stream is kicked when it is published.
 */
bool gpumem_share_begin(struct gpumem_stream *stream)
{
	if (!atomic_read(&gpumem_share_dmabufs) ||
	    !gpumem_share_look(stream, false, NULL, 1))
		return false;
	/* The client pays for looking; prepare collects again if this fails. */
	if (gpumem_share_collect(stream))
		gpumem_share_clear(&stream->share);
	/* Pairs with gpumem_share_prepare(), which may be queued already. */
	smp_store_release(&stream->share.state, GPUMEM_SHARE_ASKED);
	queue_delayed_work(gpumem_share_wq, &stream->share.prepare, 0);
	return true;
}

static void gpumem_share_unlock(struct gpumem_share *share)
{
	unsigned int i;

	for (i = 0; i < share->nroots; i++)
		if (!share->roots[i].second)
			dma_resv_unlock(share->roots[i].root->resv);
}

/* Lock all reservations.  Nobody gives up: whoever has to wait starts anew. */
static void gpumem_share_lock(struct gpumem_share *share,
			      struct ww_acquire_ctx *ctx)
{
	struct dma_resv *slow = NULL;
	unsigned int i;
	int ret;

again:
	if (slow)
		dma_resv_lock_slow(slow, ctx);
	for (i = 0; i < share->nroots; i++) {
		struct dma_resv *resv = share->roots[i].root->resv;

		if (resv == slow || share->roots[i].second)
			continue;
		ret = dma_resv_lock(resv, ctx);
		if (!ret)
			continue;
		/* -EDEADLK: some other one goes first. */
		while (i--)
			if (share->roots[i].root->resv != slow &&
			    !share->roots[i].second)
				dma_resv_unlock(share->roots[i].root->resv);
		if (slow)
			dma_resv_unlock(slow);
		slow = resv;
		goto again;
	}
	ww_acquire_done(ctx);
}

static bool gpumem_share_foreign(struct dma_fence *fence)
{
	return gpumem_compat_fence_ops(fence) != &gpumem_fence_ops;
}

/* Take others' fences and make room for one's own. */
static int gpumem_share_depend(struct gpumem_shared_root *r)
{
	enum dma_resv_usage usage = dma_resv_usage_rw(r->writes);
	unsigned int i, kept = 0;
	int ret;

	if (r->second)
		return 0;
	ret = dma_resv_reserve_fences(r->root->resv, 1);
	if (ret)
		return ret;
	ret = dma_resv_get_fences(r->root->resv, usage, &r->ndeps, &r->deps);
	if (ret) {
		r->ndeps = 0;
		r->deps = NULL;
		return ret;
	}
	for (i = 0; i < r->ndeps; i++) {
		/* Where access begins later, that would sleep for all of them. */
		if ((r->root->foreign || gpumem_share_foreign(r->deps[i])) &&
		    !dma_fence_is_signaled(r->deps[i]))
			r->deps[kept++] = r->deps[i];
		else
			dma_fence_put(r->deps[i]);
	}
	r->ndeps = kept;
	if (!kept)
		gpumem_share_put_deps(r);
	return 0;
}

static void gpumem_share_show(struct gpumem_shared_root *r,
			      struct dma_fence *fence)
{
	if (r->second || (r->root->foreign &&
			  !gpumem_foreign_fences(r->root->foreign)))
		return;
	dma_resv_add_fence(r->root->resv, fence,
			   r->writes ? DMA_RESV_USAGE_WRITE :
				      DMA_RESV_USAGE_READ);
}

/* Is there a foreign buffer that must be waited for, or prepared, first? */
static bool gpumem_share_early(struct gpumem_share *share)
{
	struct gpumem_shared_root *r;
	bool early = false;
	unsigned int i;

	for (i = 0; i < share->nroots; i++) {
		r = &share->roots[i];
		if (r->root->foreign && (!r->begun || r->ndeps))
			early = true;
	}
	/* What others left in buffers of ours is waited for with a fence. */
	for (i = 0; early && i < share->nroots; i++)
		if (!share->roots[i].root->foreign)
			gpumem_share_put_deps(&share->roots[i]);
	return early;
}

/*
 * Make the fence and show it in all reservations, or in none.  -EAGAIN if what
 * foreign buffers need is to be done first.
 */
static int gpumem_share_publish(struct gpumem_share *share)
{
	struct dma_fence *fence = gpumem_fence_create(share);
	struct ww_acquire_ctx ctx;
	unsigned int i;
	int ret = 0;

	if (!fence)
		return -ENOMEM;
	for (i = 0; i < share->nroots; i++)
		gpumem_share_put_deps(&share->roots[i]);
	share->root = 0;
	share->dep = 0;
	ww_acquire_init(&ctx, &reservation_ww_class);
	gpumem_share_lock(share, &ctx);
	for (i = 0; i < share->nroots && !ret; i++) {
		ret = gpumem_share_depend(&share->roots[i]);
		cond_resched();
	}
	if (!ret && gpumem_share_early(share))
		ret = -EAGAIN;
	for (i = 0; i < share->nroots && !ret; i++)
		gpumem_share_show(&share->roots[i], fence);
	gpumem_share_unlock(share);
	ww_acquire_fini(&ctx);
	if (ret) {
		/* Nobody has seen it; a fence is signalled before it goes. */
		dma_fence_signal(fence);
		dma_fence_put(fence);
		return ret;
	}
	share->fence = fence;
	return 0;
}

static void gpumem_share_wake(struct dma_fence *fence, struct dma_fence_cb *cb)
{
	struct gpumem_share *share = container_of(cb, struct gpumem_share, cb);

	/* The state does not change while somebody waits for the fence. */
	if (READ_ONCE(share->state) == GPUMEM_SHARE_ASKED)
		queue_delayed_work(gpumem_share_wq, &share->prepare, 0);
	else
		gpumem_publish_wake(share);
}

/**
 * gpumem_share_prepare_later - go on with an entry that is asked
 * @share: of the stream
 *
 * Context: any.
 */
void gpumem_share_prepare_later(struct gpumem_share *share)
{
	queue_delayed_work(gpumem_share_wq, &share->prepare, 0);
}

/**
 * gpumem_share_met - is all that an entry waits for done?
 * @share: of the stream
 * @most: dependencies and roots to look at
 *
 * Context: who has the entry; may be atomic.
 * Return: 1, or 0 if gpumem_share_wake() will be called, or -EAGAIN if there are
 * more than @most to look at.
 */
int gpumem_share_met(struct gpumem_share *share, unsigned int most)
{
	while (share->root < share->nroots) {
		struct gpumem_shared_root *r = &share->roots[share->root];
		struct dma_fence *dep;

		if (!most--)
			return -EAGAIN;
		if (share->dep == r->ndeps) {
			share->root++;
			share->dep = 0;
			continue;
		}
		dep = r->deps[share->dep];
		if (share->waiting) {
			if (!dma_fence_is_signaled(dep))
				return 0;
			/* It was called, or is not any more. */
			dma_fence_remove_callback(dep, &share->cb);
			share->waiting = false;
		} else {
			share->waiting = true;
			if (!dma_fence_add_callback(dep, &share->cb,
						    gpumem_share_wake))
				return 0;
			share->waiting = false;
		}
		share->dep++;
	}
	return 1;
}

/*
 * Do all that comes before the fence, and publish it.  Return 0, -EINPROGRESS if
 * another driver's fence calls when to go on, -ENOMEM, or what the entry fails
 * with.
 */
static int gpumem_share_ready(struct gpumem_stream *stream)
{
	struct gpumem_share *share = &stream->share;
	int ret = 0;

	if (!share->roots)
		ret = gpumem_share_collect(stream);
	while (!ret) {
		/* Before it is published, of foreign buffers alone. */
		if (!gpumem_share_met(share, UINT_MAX))
			return -EINPROGRESS;
		if (share->looked)
			ret = gpumem_share_begin_access(share);
		gpumem_delay(share_publish);
		if (!ret)
			ret = gpumem_share_publish(share);
		if (ret != -EAGAIN)
			break;
		ret = 0;
		share->looked = true;
		gpumem_share_end_access(share);
		if (test_bit(GPUMEM_STREAM_CANCELLED, &stream->state))
			return -EINPROGRESS;
		cond_resched();
	}
	return ret;
}

static void gpumem_share_prepare(struct work_struct *work)
{
	struct gpumem_share *share = container_of(to_delayed_work(work),
						  struct gpumem_share,
						  prepare);
	struct gpumem_stream *stream = container_of(share,
						    struct gpumem_stream,
						    share);
	unsigned long delay;
	int ret;

	if (test_bit(GPUMEM_STREAM_CANCELLED, &stream->state))
		return;
	/* Pairs with gpumem_share_begin(). */
	if (smp_load_acquire(&share->state) != GPUMEM_SHARE_ASKED)
		return;
	if (!gpumem_publish_admit(share, &delay)) {
		if (delay)
			queue_delayed_work(gpumem_share_wq, &share->prepare,
					   delay);
		return;
	}
	ret = gpumem_share_ready(stream);
	switch (ret) {
	case 0:
		gpumem_publish_begin(share);
		break;
	case -EINPROGRESS:
		break;
	case -ENOMEM:
		gpumem_share_clear(share);
		queue_delayed_work(gpumem_share_wq, &share->prepare,
				   GPUMEM_SHARE_AGAIN);
		break;
	default:
		share->result = ret;
		gpumem_publish_leave(share);
		/* Pairs with gpumem_share_turn(). */
		smp_store_release(&share->state, GPUMEM_SHARE_DONE);
		gpumem_runner_kick(stream);
	}
}

/**
 * gpumem_share_turn - what is due for a stream's entry on shared buffers?
 * @stream: stream
 *
 * Executes a published entry, and completes one that is done.
 *
 * Context: the worker that runs the stream; may sleep.
 * Return: whether the worker goes on with the stream.
 */
enum gpumem_share_turn gpumem_share_turn(struct gpumem_stream *stream)
{
	struct gpumem_share *share = &stream->share;
	enum gpumem_share_turn turn;

	/* Pairs with the release of who had the entry. */
	switch (smp_load_acquire(&share->state)) {
	case GPUMEM_SHARE_NONE:
		return GPUMEM_TURN_FREE;
	case GPUMEM_SHARE_PUBLISHED:
		turn = gpumem_publish_run(share);
		if (turn != GPUMEM_TURN_DONE)
			return turn;
		break;
	case GPUMEM_SHARE_DONE:
		break;
	default:
		return GPUMEM_TURN_WAIT;
	}
	gpumem_publish_over(share);
	gpumem_share_clear(share);
	WRITE_ONCE(share->state, GPUMEM_SHARE_NONE);
	if (share->result != -EINPROGRESS)
		gpumem_stream_complete(stream, share->result);
	else if (gpumem_share_begin(stream))
		return GPUMEM_TURN_WAIT;
	return GPUMEM_TURN_FREE;
}

/**
 * gpumem_share_init - prepare a new stream
 * @share: its
 */
void gpumem_share_init(struct gpumem_share *share)
{
	INIT_DELAYED_WORK(&share->prepare, gpumem_share_prepare);
	gpumem_publish_init(share);
	share->context = dma_fence_context_alloc(1);
}

/**
 * gpumem_share_cancel - the stream is cancelled and its client's workers left it
 * @share: its
 *
 * Context: may sleep; waits for the slice under way.
 */
void gpumem_share_cancel(struct gpumem_share *share)
{
	disable_delayed_work_sync(&share->prepare);
	/* A fence may call any time: its work must not start once more. */
	gpumem_publish_cancel(share);
	if (share->waiting) {
		dma_fence_remove_callback(share->roots[share->root].deps[share->dep],
					  &share->cb);
		share->waiting = false;
	}
	if (share->fence) {
		dma_fence_set_error(share->fence, -ECANCELED);
		dma_fence_signal(share->fence);
		dma_fence_put(share->fence);
		share->fence = NULL;
	}
	gpumem_share_clear(share);
}
