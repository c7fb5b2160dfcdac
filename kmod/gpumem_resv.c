// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_resv: the reservation objects (resv) of exported DMA-bufs.
 *
 * A DMA-buf has one resv, in which its users leave their fences.  The engine
 * looks for fences by root, so each root knows the resvs of its DMA-bufs:
 *
 *  - A DMA-buf of one root has the root's *own* resv.  All such DMA-bufs of the
 *    root share it.
 *  - A DMA-buf of several roots is *joint*.  All joint DMA-bufs that a client
 *    exports share one resv, the client's.  A root has a struct gpumem_joint
 *    for each client that exported joint DMA-bufs of it.
 *
 * An entry on a root waits for the fences in all of these resvs, and adds its
 * fence to all.  Other drivers see one resv each: the fence that a driver adds
 * through a DMA-buf orders its work with the engine, but not with a driver
 * that has the same memory through a DMA-buf with another resv.
 *
 * The joint resv is the exporting client's and not the roots', because the
 * roots may belong to different clients.  So an importer of a joint DMA-buf can
 * delay work on the memory that its exporter put into joint DMA-bufs, and on no
 * other.
 *
 * The number of clients that may have joint DMA-bufs of a root is limited,
 * because each of them makes entries on the root slower.  The client that
 * allocated the root is not counted.
 *
 * Locks: root->lock while the root's own resv is created; root->joint_lock
 * (spin) for the root's joints.
 */
#include <linux/dma-resv.h>
#include <linux/slab.h>

#include "gpumem_bo.h"
#include "gpumem_client.h"
#include "gpumem_resv.h"

/* Clients that may have joint DMA-bufs of another client's root. */
#define GPUMEM_JOINTS_MOST	8

/* DMA-bufs with a root's own resv, foreign ones included, and joint parts. */
static atomic_t gpumem_resv_uses = ATOMIC_INIT(0);

static struct dma_resv *gpumem_resv_new(void)
{
	struct dma_resv *resv = kzalloc(sizeof(*resv), GFP_KERNEL_ACCOUNT);

	if (resv)
		dma_resv_init(resv);
	return resv;
}

static void gpumem_resv_free(struct dma_resv *resv)
{
	if (!resv)
		return;
	dma_resv_fini(resv);
	kfree(resv);
}

/**
 * gpumem_resv_of_root - get or create the own resv of a root
 * @root: root that gets a DMA-buf
 *
 * Return: the resv, which lives as long as @root, or NULL if there is no
 * memory.
 */
struct dma_resv *gpumem_resv_of_root(struct gpumem_bo *root)
{
	guard(mutex)(&root->lock);
	if (!root->resv)
		root->resv = gpumem_resv_new();
	return root->resv;
}

/**
 * gpumem_resv_free_root - free the own resv of a root
 * @root: root without references; may have no resv
 */
void gpumem_resv_free_root(struct gpumem_bo *root)
{
	WARN_ON_ONCE(!list_empty(&root->joints));
	gpumem_resv_free(root->resv);
}

/**
 * gpumem_resv_count_own - count the DMA-bufs that have a root's own resv
 * @root: root with a resv
 * @by: 1 or -1
 */
void gpumem_resv_count_own(struct gpumem_bo *root, int by)
{
	/* A stream that sees the count sees the resv. */
	smp_mb__before_atomic();
	atomic_add(by, &root->dmabufs);
	atomic_add(by, &gpumem_resv_uses);
}

/**
 * gpumem_resv_any - does any root have a DMA-buf?
 *
 * Return: false if no entry needs a fence.
 */
bool gpumem_resv_any(void)
{
	return atomic_read(&gpumem_resv_uses);
}

/**
 * gpumem_resv_of_client - get or create the resv of a client's joint DMA-bufs
 * @client: client
 *
 * Return: the resv, which lives as long as @client, or NULL if there is no
 * memory.
 */
struct dma_resv *gpumem_resv_of_client(struct gpumem_client *client)
{
	struct dma_resv *resv = READ_ONCE(client->joint_resv), *other;

	if (resv)
		return resv;
	resv = gpumem_resv_new();
	if (!resv)
		return NULL;
	other = cmpxchg(&client->joint_resv, NULL, resv);
	if (!other)
		return resv;
	gpumem_resv_free(resv);
	return other;
}

/**
 * gpumem_resv_free_client - free the resv of a client's joint DMA-bufs
 * @client: client without references; may have no such resv
 */
void gpumem_resv_free_client(struct gpumem_client *client)
{
	gpumem_resv_free(client->joint_resv);
}

static int gpumem_joint_enter_locked(struct gpumem_bo *root,
				     struct gpumem_joint *new)
{
	struct gpumem_joint *joint;
	unsigned int others = 0;

	lockdep_assert_held(&root->joint_lock);
	list_for_each_entry(joint, &root->joints, link) {
		if (joint->client == new->client) {
			joint->parts++;
			return 0;
		}
		others += joint->client != root->obj.client;
	}
	if (new->client != root->obj.client && others >= GPUMEM_JOINTS_MOST)
		return -EBUSY;
	list_add_tail(&new->link, &root->joints);
	return 1;
}

/**
 * gpumem_joint_enter - a root becomes a part of a client's joint DMA-buf
 * @client: exports the DMA-buf; has a resv; the DMA-buf references it
 * @root: root
 *
 * Return: 0, -ENOMEM, or -EBUSY if too many clients have joint DMA-bufs of
 * @root.
 */
int gpumem_joint_enter(struct gpumem_client *client, struct gpumem_bo *root)
{
	struct gpumem_joint *joint = kzalloc(sizeof(*joint),
					     GFP_KERNEL_ACCOUNT);
	int ret;

	if (!joint)
		return -ENOMEM;
	joint->client = client;
	joint->parts = 1;
	spin_lock(&root->joint_lock);
	ret = gpumem_joint_enter_locked(root, joint);
	spin_unlock(&root->joint_lock);
	if (ret <= 0)
		kfree(joint);
	if (ret < 0)
		return ret;
	atomic_inc(&gpumem_resv_uses);
	return 0;
}

/**
 * gpumem_joint_leave - undo gpumem_joint_enter()
 * @client: as there
 * @root: as there
 */
void gpumem_joint_leave(struct gpumem_client *client, struct gpumem_bo *root)
{
	struct gpumem_joint *joint, *last = NULL;

	spin_lock(&root->joint_lock);
	list_for_each_entry(joint, &root->joints, link) {
		if (joint->client != client)
			continue;
		if (!--joint->parts) {
			list_del(&joint->link);
			last = joint;
		}
		break;
	}
	spin_unlock(&root->joint_lock);
	atomic_dec(&gpumem_resv_uses);
	kfree(last);
}
