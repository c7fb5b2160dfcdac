/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Users, the budgets that bind their clients, and charges against them.
 */
#ifndef GPUMEM_USER_H
#define GPUMEM_USER_H

#include <linux/types.h>

struct cred;
struct dmem_cgroup_pool_state;
struct gpumem_client;
struct gpumem_pool;
struct gpumem_rate;
struct gpumem_refusal;
struct gpumem_user;
struct mm_struct;

/**
 * struct gpumem_charge - the limits that an allocation counts against
 *
 * Constant, except for @pool_bytes, while the memory is in use.
 */
struct gpumem_charge {
	/** @mm: mm whose pinned_vm counts, grabbed; NULL if no pages count */
	struct mm_struct *mm;
	/** @user: user whose budget counts; referenced */
	struct gpumem_user *user;
	/** @pages: number of pinned pages */
	u64 pages;
	/** @pool: pool whose chunk the memory is, referenced, or NULL */
	struct gpumem_pool *pool;
	/** @pool_bytes: bytes that count as reserved in @pool; pool->lock */
	u64 pool_bytes;
	/** @dmem: a cgroup's part of the device, referenced, or NULL */
	struct dmem_cgroup_pool_state *dmem;
	/** @dmem_bytes: bytes that count in @dmem */
	u64 dmem_bytes;
};

/* gpumem_user.c */
void gpumem_user_init(void);
u64 gpumem_pin_budget(void);
u64 gpumem_pin_budget_all(void);
u64 gpumem_pin_used(void);
u64 gpumem_ring_budget(void);
u64 gpumem_ring_budget_all(void);
u64 gpumem_ring_used(void);
int gpumem_user_charge_ring(struct gpumem_client *client);
void gpumem_user_uncharge_ring(struct gpumem_client *client, u64 pages);
struct gpumem_user *gpumem_user_get(const struct cred *cred);
void gpumem_user_put(struct gpumem_user *user);
struct gpumem_rate *gpumem_user_refusals(struct gpumem_user *user);
int gpumem_user_map(struct gpumem_client *client, unsigned int n);
void gpumem_user_unmap(struct gpumem_client *client, unsigned int n);
int gpumem_user_hold(struct gpumem_client *client, u64 pages,
		     struct gpumem_refusal *refusal);
void gpumem_user_unhold(struct gpumem_client *client, u64 pages);
int gpumem_charge_init(struct gpumem_charge *charge,
		       struct gpumem_client *client, u64 pages);
int gpumem_charge_init_worker(struct gpumem_charge *charge,
			      struct gpumem_client *client, u64 pages);
void gpumem_charge_fini(struct gpumem_charge *charge);
void gpumem_charge_free(struct gpumem_charge *charge);

#endif /* GPUMEM_USER_H */
