// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_user: users, and the budgets that they share.
 *
 * A client counts for the user that opened it (client->cred), whatever its
 * process does to its credentials later, and for the owner of each user
 * namespace between that user and the initial one, as ucounts do.  So users
 * form a tree: a user is a uid and the user that it is subordinate to.  A
 * charge goes to a user and to all users above it, and the limit holds for each
 * of them.  If a user owns the namespace that it is in, the two levels are one
 * user, which is charged once.
 *
 * Three things are counted for each user:
 *
 *  - Pinned pages: registrations, pinned host memory, and blocks of managed
 *    memory that are held but not resident (gpumem_managed.c).  The parameter
 *    pin_limit bounds what one user has, pin_total what all users have
 *    together.
 *  - Mappings in address spaces, and tables of sparse mappings, which count as
 *    several.  The parameter map_limit bounds them, because each costs kernel
 *    memory and no object.
 *  - Pages of rings that are allocated.  The parameter ring_limit bounds what
 *    one user has, ring_total what all users have together.
 *
 * The administrator may change the parameters at any time.  With a limit below
 * the use, users keep what they have, and new charges fail.
 *
 * A *charge* is what one allocation counts against: a user's budget, the
 * process's pinned_vm and, with memlock=1, RLIMIT_MEMLOCK.  It lives as long as
 * the pages are pinned, which may be longer than the client.
 *
 * Locks: gpumem_users_lock (mutex) protects the table of users.  A task that
 * charges pinned pages holds it, so that it checks all limits together; the
 * task pins the pages later, with no lock held.  Uncharging takes no lock.
 * Mappings and pages of rings are counted without the lock, because a page
 * fault may charge a ring.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/hashtable.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>

#include "gpumem_cache.h"
#include "gpumem_client.h"
#include "gpumem_dmem.h"
#include "gpumem_linger.h"
#include "gpumem_lock.h"
#include "gpumem_mem.h"
#include "gpumem_pool.h"
#include "gpumem_refusal.h"
#include "gpumem_shmem.h"
#include "gpumem_user.h"

/* Limit of nested levels of users; the kernel nests fewer user namespaces. */
#define GPUMEM_USER_LEVELS	64

/* Value of a limit that the administrator did not set. */
#define GPUMEM_USER_DEFAULT	U64_MAX

/**
 * struct gpumem_user - what one user's clients have
 */
struct gpumem_user {
	/** @node: in gpumem_users; gpumem_users_lock */
	struct hlist_node node;
	/** @ref: each client, each charge and each user below holds one */
	struct kref ref;
	/** @uid: uid of the user; constant */
	kuid_t uid;
	/** @parent: user above this one, referenced, or NULL; constant */
	struct gpumem_user *parent;
	/** @pages: pinned; raised under gpumem_users_lock */
	atomic64_t pages;
	/** @mappings: in address spaces */
	atomic64_t mappings;
	/** @ring_pages: pages of rings */
	atomic64_t ring_pages;
	/** @refusals: reported lately; in gpumem_netlink.c */
	struct gpumem_rate refusals;
};

static DEFINE_HASHTABLE(gpumem_users, 6);
static DEFINE_MUTEX(gpumem_users_lock);
/* Pages that all users have pinned; raised under gpumem_users_lock. */
static atomic64_t gpumem_pinned;

static u64 gpumem_pin_limit = GPUMEM_USER_DEFAULT;
static u64 gpumem_pin_total = GPUMEM_USER_DEFAULT;

/* Pages of the rings of all users. */
static atomic64_t gpumem_ring_pages;

static u64 gpumem_ring_limit = GPUMEM_USER_DEFAULT;
static u64 gpumem_ring_total = GPUMEM_USER_DEFAULT;

/* The variable of a limit is in pages; the parameter's text is in bytes. */
static int gpumem_limit_set(const char *val, const struct kernel_param *kp)
{
	u64 bytes;

	if (!val || gpumem_size_parse(val, &bytes) || bytes > LLONG_MAX) {
		pr_err("%s=%s: must be a number below 8E, with K, M or G\n",
		       kp->name, val ?: "");
		return -EINVAL;
	}
	WRITE_ONCE(*(u64 *)kp->arg, bytes >> PAGE_SHIFT);
	return 0;
}

static int gpumem_limit_get(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%llu\n",
			  READ_ONCE(*(u64 *)kp->arg) << PAGE_SHIFT);
}

static const struct kernel_param_ops gpumem_limit_ops = {
	.set = gpumem_limit_set,
	.get = gpumem_limit_get,
};

module_param_cb(pin_limit, &gpumem_limit_ops, &gpumem_pin_limit, 0644);
MODULE_PARM_DESC(pin_limit,
		 "Bytes that one user may pin, with K, M or G (default: five sixths of pin_total)");
module_param_cb(pin_total, &gpumem_limit_ops, &gpumem_pin_total, 0644);
MODULE_PARM_DESC(pin_total,
		 "Bytes that all users may pin together, with K, M or G (default: 24 % of RAM, or pin_limit if that is more)");

module_param_cb(ring_limit, &gpumem_limit_ops, &gpumem_ring_limit, 0644);
MODULE_PARM_DESC(ring_limit,
		 "Bytes that the rings of one user may take, with K, M or G (default: five sixths of ring_total)");
module_param_cb(ring_total, &gpumem_limit_ops, &gpumem_ring_total, 0644);
MODULE_PARM_DESC(ring_total,
		 "Bytes that the rings of all users may take together, with K, M or G (default: 5 % of RAM, at least 320M, at most a sixth of RAM; or ring_limit if that is more)");

static ulong map_limit = SZ_4M;
module_param(map_limit, ulong, 0644);
MODULE_PARM_DESC(map_limit,
		 "Mappings that one user may have in address spaces (default 4194304)");

static bool memlock;
module_param(memlock, bool, 0644);
MODULE_PARM_DESC(memlock,
		 "Let RLIMIT_MEMLOCK limit what a process pins (default: no)");

/**
 * gpumem_user_init - set the limits that the administrator left open
 *
 * By default the memory of all devices is half of RAM (gpumem_drv.c) and the
 * pinned memory of all users 24 %: together less than three quarters.  Rings
 * take 5 % more.  On a machine with little memory they take up to a sixth of
 * it, so that one user may fill 1,000 rings of the largest size.
 */
void gpumem_user_init(void)
{
	u64 total = gpumem_pin_total, ram = totalram_pages();

	gpumem_lockdep_class(&gpumem_users_lock, GPUMEM_LOCK_USERS);
	if (total == GPUMEM_USER_DEFAULT) {
		total = ram / 100 * 24;
		if (gpumem_pin_limit != GPUMEM_USER_DEFAULT)
			total = max(total, gpumem_pin_limit);
		gpumem_pin_total = total;
	}
	if (gpumem_pin_limit == GPUMEM_USER_DEFAULT)
		gpumem_pin_limit = total / 6 * 5;

	total = gpumem_ring_total;
	if (total == GPUMEM_USER_DEFAULT) {
		total = max_t(u64, ram / 20, PHYS_PFN(320 * SZ_1M));
		total = min(total, ram / 6);
		if (gpumem_ring_limit != GPUMEM_USER_DEFAULT)
			total = max(total, gpumem_ring_limit);
		gpumem_ring_total = total;
	}
	if (gpumem_ring_limit == GPUMEM_USER_DEFAULT)
		gpumem_ring_limit = total / 6 * 5;
}

/**
 * gpumem_pin_budget - what one user may pin
 *
 * Return: bytes.
 */
u64 gpumem_pin_budget(void)
{
	return READ_ONCE(gpumem_pin_limit) << PAGE_SHIFT;
}

/**
 * gpumem_pin_budget_all - what all users may pin together
 *
 * Return: bytes.
 */
u64 gpumem_pin_budget_all(void)
{
	return READ_ONCE(gpumem_pin_total) << PAGE_SHIFT;
}

/**
 * gpumem_pin_used - what all users have pinned
 *
 * Return: bytes that count against the budgets.
 */
u64 gpumem_pin_used(void)
{
	return (u64)atomic64_read(&gpumem_pinned) << PAGE_SHIFT;
}

/**
 * gpumem_ring_budget - what the rings of one user may take
 *
 * Return: bytes.
 */
u64 gpumem_ring_budget(void)
{
	return READ_ONCE(gpumem_ring_limit) << PAGE_SHIFT;
}

/**
 * gpumem_ring_budget_all - what the rings of all users may take together
 *
 * Return: bytes.
 */
u64 gpumem_ring_budget_all(void)
{
	return READ_ONCE(gpumem_ring_total) << PAGE_SHIFT;
}

/**
 * gpumem_ring_used - what the rings of all users take
 *
 * Return: bytes that count against the budgets.
 */
u64 gpumem_ring_used(void)
{
	return (u64)atomic64_read(&gpumem_ring_pages) << PAGE_SHIFT;
}

/*
 * Get the user @uid below @parent, referenced; take it from *@spare if the
 * table has none.  Consumes the reference on @parent, unless that is NULL.
 */
static struct gpumem_user *
gpumem_user_below_locked(struct gpumem_user *parent, kuid_t uid,
			 struct gpumem_user **spare)
{
	struct gpumem_user *user;

	lockdep_assert_held(&gpumem_users_lock);
	hash_for_each_possible(gpumem_users, user, node, __kuid_val(uid)) {
		if (uid_eq(user->uid, uid) && user->parent == parent) {
			kref_get(&user->ref);
			/* @user holds another reference on @parent. */
			if (parent)
				refcount_dec(&parent->ref.refcount);
			return user;
		}
	}
	user = *spare;
	*spare = NULL;
	kref_init(&user->ref);
	user->uid = uid;
	user->parent = parent;
	hash_add(gpumem_users, &user->node, __kuid_val(uid));
	return user;
}

static void gpumem_user_free_spare(struct gpumem_user **spare)
{
	unsigned int i;

	for (i = 0; i < GPUMEM_USER_LEVELS; i++)
		kfree(spare[i]);
}

static void gpumem_user_free(struct kref *ref)
{
	struct gpumem_user *user = container_of(ref, struct gpumem_user, ref);

	hash_del(&user->node);
	mutex_unlock(&gpumem_users_lock);
	kfree(user);
}

/**
 * gpumem_user_get - the user that a client counts for
 * @cred: of the task that opened it
 *
 * Return: the user with a reference, or an ERR_PTR: -ENOMEM, or -EUSERS if user
 * namespaces are nested too deeply.
 */
struct gpumem_user *gpumem_user_get(const struct cred *cred)
{
	const struct user_namespace *ns;
	struct gpumem_user *spare[GPUMEM_USER_LEVELS] = {};
	struct gpumem_user *user = NULL;
	kuid_t uids[GPUMEM_USER_LEVELS];
	unsigned int n = 0, i;

	uids[n++] = cred->uid;
	for (ns = cred->user_ns; ns != &init_user_ns; ns = ns->parent) {
		if (n == ARRAY_SIZE(uids))
			return ERR_PTR(-EUSERS);
		uids[n++] = ns->owner;
	}
	/* Allocate without the lock: reclaim for a full cgroup takes long. */
	for (i = 0; i < n; i++) {
		spare[i] = kzalloc(sizeof(*user), GFP_KERNEL_ACCOUNT);
		if (!spare[i]) {
			gpumem_user_free_spare(spare);
			return ERR_PTR(-ENOMEM);
		}
	}
	mutex_lock(&gpumem_users_lock);
	while (n--) {
		/* The user owns the namespace that it is in: charge it once. */
		if (user && uid_eq(user->uid, uids[n]))
			continue;
		user = gpumem_user_below_locked(user, uids[n], &spare[n]);
	}
	mutex_unlock(&gpumem_users_lock);
	gpumem_user_free_spare(spare);
	return user;
}

/**
 * gpumem_user_put - drop a reference
 * @user: user, or NULL
 *
 * Context: may sleep.
 */
void gpumem_user_put(struct gpumem_user *user)
{
	struct gpumem_user *parent;

	while (user) {
		parent = user->parent;
		if (!kref_put_mutex(&user->ref, gpumem_user_free,
				    &gpumem_users_lock))
			return;
		user = parent;
	}
}

/**
 * gpumem_user_refusals - get the rate of the reports of a user's refusals
 * @user: user
 *
 * Subordinate users share the report rate of the user above all of them.
 *
 * Return: the rate, which gpumem_netlink.c protects.
 */
struct gpumem_rate *gpumem_user_refusals(struct gpumem_user *user)
{
	while (user->parent)
		user = user->parent;
	return &user->refusals;
}

static void gpumem_user_del_mappings(struct gpumem_user *user,
				     struct gpumem_user *end, unsigned int n)
{
	for (; user != end; user = user->parent)
		atomic64_sub(n, &user->mappings);
}

/**
 * gpumem_user_map - count mappings: of an address space, or in a DMA-buf
 * @client: whose
 * @n: number of mappings
 *
 * Context: an ioctl of @client.
 * Return: 0 or -EDQUOT.
 */
int gpumem_user_map(struct gpumem_client *client, unsigned int n)
{
	u64 now, limit = READ_ONCE(map_limit);
	struct gpumem_user *user;

	for (user = client->user; user; user = user->parent) {
		now = atomic64_add_return(n, &user->mappings);
		if (now <= limit)
			continue;
		gpumem_user_del_mappings(client->user, user->parent, n);
		gpumem_refused(client, &(struct gpumem_refusal) {
			.limit = GPUMEM_LIMIT_MAPPINGS,
			.dev = client->devices[0],
			.asked = n,
			.used = now - n,
			.max = limit,
		});
		return -EDQUOT;
	}
	atomic64_add(n, &client->count.mappings);
	return 0;
}

/**
 * gpumem_user_unmap - undo gpumem_user_map()
 * @client: whose
 * @n: number of mappings
 *
 * Context: any.
 */
void gpumem_user_unmap(struct gpumem_client *client, unsigned int n)
{
	atomic64_sub(n, &client->count.mappings);
	gpumem_user_del_mappings(client->user, NULL, n);
}

static void gpumem_user_del_ring_pages(struct gpumem_user *user,
				       struct gpumem_user *end, u64 pages)
{
	for (; user != end; user = user->parent)
		atomic64_sub(pages, &user->ring_pages);
}

/*
 * Count one page in @have.  If @limit is reached, count nothing and describe
 * the limit in @refusal.
 */
static bool gpumem_ring_page_fits(atomic64_t *have, u64 limit,
				  enum gpumem_limit which,
				  struct gpumem_refusal *refusal)
{
	s64 used = atomic64_read(have);

	do {
		if (used >= limit) {
			refusal->limit = which;
			refusal->used = used << PAGE_SHIFT;
			refusal->max = limit << PAGE_SHIFT;
			return false;
		}
	} while (!atomic64_try_cmpxchg(have, &used, used + 1));
	return true;
}

/**
 * gpumem_user_charge_ring - count a page of a ring
 * @client: whose
 *
 * Context: an ioctl of @client's process, or a page fault in a mapping of the
 * ring, which another process may cause; may sleep.
 * Return: 0 or -EDQUOT.
 */
int gpumem_user_charge_ring(struct gpumem_client *client)
{
	u64 limit = READ_ONCE(gpumem_ring_limit);
	struct gpumem_refusal refusal = {
		.dev = client->devices[0],
		.asked = PAGE_SIZE,
	};
	struct gpumem_user *user;

	for (user = client->user; user; user = user->parent)
		if (!gpumem_ring_page_fits(&user->ring_pages, limit,
					   GPUMEM_LIMIT_RINGS, &refusal))
			break;
	if (!user && gpumem_ring_page_fits(&gpumem_ring_pages,
					   READ_ONCE(gpumem_ring_total),
					   GPUMEM_LIMIT_RINGS_ALL, &refusal)) {
		atomic64_add(PAGE_SIZE, &client->count.ring_bytes);
		return 0;
	}
	gpumem_user_del_ring_pages(client->user, user, 1);
	gpumem_refused(client, &refusal);
	return -EDQUOT;
}

/**
 * gpumem_user_uncharge_ring - pages of a ring are free
 * @client: whose
 * @pages: number
 *
 * Context: any.
 */
void gpumem_user_uncharge_ring(struct gpumem_client *client, u64 pages)
{
	atomic64_sub(pages << PAGE_SHIFT, &client->count.ring_bytes);
	atomic64_sub(pages, &gpumem_ring_pages);
	gpumem_user_del_ring_pages(client->user, NULL, pages);
}

/* Is there room for @pages?  If not, @refusal describes the limit. */
static bool gpumem_pages_fit(atomic64_t *have, u64 limit, u64 pages,
			     enum gpumem_limit which,
			     struct gpumem_refusal *refusal)
{
	u64 used = atomic64_read(have);

	lockdep_assert_held(&gpumem_users_lock);
	if (used <= limit && pages <= limit - used)
		return true;
	refusal->limit = which;
	refusal->used = used << PAGE_SHIFT;
	refusal->max = limit << PAGE_SHIFT;
	return false;
}

/* Count pages in the budgets of a user and of all users. */
static int gpumem_user_add_pages(struct gpumem_user *user, u64 pages,
				 struct gpumem_refusal *refusal)
{
	u64 limit = READ_ONCE(gpumem_pin_limit);
	struct gpumem_user *u;

	guard(mutex)(&gpumem_users_lock);
	for (u = user; u; u = u->parent)
		if (!gpumem_pages_fit(&u->pages, limit, pages,
				      GPUMEM_LIMIT_PINNED, refusal))
			return -EDQUOT;
	if (!gpumem_pages_fit(&gpumem_pinned, READ_ONCE(gpumem_pin_total),
			      pages, GPUMEM_LIMIT_PINNED_ALL, refusal))
		return -EDQUOT;
	for (u = user; u; u = u->parent)
		atomic64_add(pages, &u->pages);
	atomic64_add(pages, &gpumem_pinned);
	return 0;
}

static void gpumem_user_del_pages(struct gpumem_user *user, u64 pages)
{
	atomic64_sub(pages, &gpumem_pinned);
	for (; user; user = user->parent)
		atomic64_sub(pages, &user->pages);
}

/* Free what counts in the budgets and has no user, after a refusal. */
static void gpumem_user_make_room(struct gpumem_client *client, u64 pages,
				  const struct gpumem_refusal *refusal)
{
	struct gpumem_cache_filter f = {
		.client = client, .mem = &gpumem_host_mem,
	};

	if (refusal->limit == GPUMEM_LIMIT_PINNED_ALL &&
	    refusal->asked <= refusal->max)
		f.client = NULL;
	gpumem_linger_make_room(&gpumem_host_mem);
	gpumem_cache_take(&f, pages << PAGE_SHIFT);
}

/**
 * gpumem_user_hold - count a block of managed memory that is not resident
 * @client: whose
 * @pages: of the block
 * @refusal: with its device set; the rest is set if a limit refuses
 *
 * The pages count as pinned, because the kernel cannot take them while an engine
 * uses the block.  They count neither in pinned_vm nor against RLIMIT_MEMLOCK.
 *
 * Context: a worker of @client; may sleep, without locks.
 * Return: 0 or -EDQUOT.
 */
int gpumem_user_hold(struct gpumem_client *client, u64 pages,
		     struct gpumem_refusal *refusal)
{
	int ret;

	refusal->asked = pages << PAGE_SHIFT;
	ret = gpumem_user_add_pages(client->user, pages, refusal);
	if (ret) {
		gpumem_user_make_room(client, pages, refusal);
		ret = gpumem_user_add_pages(client->user, pages, refusal);
	}
	if (!ret)
		atomic64_add(pages << PAGE_SHIFT, &client->count.managed_held);
	return ret;
}

/**
 * gpumem_user_unhold - undo gpumem_user_hold()
 * @client: whose
 * @pages: of the block
 *
 * Context: any.
 */
void gpumem_user_unhold(struct gpumem_client *client, u64 pages)
{
	atomic64_sub(pages << PAGE_SHIFT, &client->count.managed_held);
	gpumem_user_del_pages(client->user, pages);
}

static int gpumem_charge_try(struct gpumem_charge *charge,
			     struct gpumem_client *client, u64 pages,
			     struct gpumem_refusal *refusal)
{
	u64 limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	u64 pinned;
	int ret;

	ret = gpumem_user_add_pages(client->user, pages, refusal);
	if (ret)
		return ret;
	charge->pages = pages;
	charge->user = client->user;
	kref_get(&charge->user->ref);
	mmgrab(client->mm);
	charge->mm = client->mm;
	pinned = atomic64_add_return(pages, &charge->mm->pinned_vm);
	if (READ_ONCE(memlock) && pinned > limit && !capable(CAP_IPC_LOCK)) {
		gpumem_charge_fini(charge);
		refusal->limit = GPUMEM_LIMIT_MEMLOCK;
		refusal->used = (pinned - pages) << PAGE_SHIFT;
		refusal->max = limit << PAGE_SHIFT;
		return -EDQUOT;
	}
	return 0;
}

/* Charge pages.  @flush: the caller is no worker, and waits for ending clients. */
static int gpumem_charge_pages(struct gpumem_charge *charge,
			       struct gpumem_client *client, u64 pages,
			       bool flush)
{
	struct gpumem_refusal refusal = {
		.dev = client->devices[0],
		.asked = pages << PAGE_SHIFT,
	};
	int ret = gpumem_charge_try(charge, client, pages, &refusal);

	if (ret == -EDQUOT) {
		if (flush)
			gpumem_client_flush();
		gpumem_user_make_room(client, pages, &refusal);
		ret = gpumem_charge_try(charge, client, pages, &refusal);
	}
	if (ret == -EDQUOT)
		gpumem_refused(client, &refusal);
	return ret;
}

/**
 * gpumem_charge_init - count pages as pinned
 * @charge: zeroed; out
 * @client: client whose process and user pin the pages
 * @pages: number
 *
 * Discards cached chunks before it refuses: the client's own, or those of all
 * clients if the budget of all users is used up.
 *
 * Context: without locks; not a worker, whose client's end waits for it.
 * Return: 0 or -EDQUOT.
 */
int gpumem_charge_init(struct gpumem_charge *charge,
		       struct gpumem_client *client, u64 pages)
{
	return gpumem_charge_pages(charge, client, pages, true);
}

/**
 * gpumem_charge_init_worker - gpumem_charge_init() for a worker
 * @charge: zeroed; out
 * @client: the worker's client
 * @pages: number
 *
 * Clients that are about to end still count.
 *
 * Context: without locks.
 * Return: 0 or -EDQUOT.
 */
int gpumem_charge_init_worker(struct gpumem_charge *charge,
			      struct gpumem_client *client, u64 pages)
{
	return gpumem_charge_pages(charge, client, pages, false);
}

/**
 * gpumem_charge_fini - end a charge after its pages were unpinned
 * @charge: zeroed, or set by gpumem_charge_init(); zeroed then
 */
void gpumem_charge_fini(struct gpumem_charge *charge)
{
	if (!charge->mm)
		return;
	atomic64_sub(charge->pages, &charge->mm->pinned_vm);
	gpumem_user_del_pages(charge->user, charge->pages);
	gpumem_user_put(charge->user);
	mmdrop(charge->mm);
	charge->mm = NULL;
}

/**
 * gpumem_charge_free - the memory is given back
 * @charge: freed; may be NULL
 */
void gpumem_charge_free(struct gpumem_charge *charge)
{
	if (charge) {
		gpumem_charge_fini(charge);
		gpumem_dmem_uncharge(charge);
		gpumem_pool_uncharge(charge);
	}
	kfree(charge);
}
