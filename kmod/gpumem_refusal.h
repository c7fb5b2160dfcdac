/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Refusals: allocations that a limit refused, and their reports.
 * gpumem_netlink.c has the functions, and the netlink family.
 *
 * Lock: gpumem_nl_lock protects struct gpumem_refused and struct gpumem_rate.
 */
#ifndef GPUMEM_REFUSAL_H
#define GPUMEM_REFUSAL_H

#include <linux/gpumem.h>
#include <linux/gpumem_netlink.h>
#include <linux/types.h>

struct gpumem_client;
struct gpumem_device;
struct gpumem_ucmd;

/**
 * struct gpumem_refusal - an allocation that a limit refused
 */
struct gpumem_refusal {
	/** @limit: the limit that refused it */
	enum gpumem_limit limit;
	/** @dev: for which device, or NULL */
	struct gpumem_device *dev;
	/** @pool: id of the pool whose limit it is, or 0 */
	u32 pool;
	/** @asked: bytes, or number of objects, that the client asked for */
	u64 asked;
	/** @used: what counted against the limit */
	u64 used;
	/** @max: the limit, or 0 if it is not known */
	u64 max;
};

/**
 * struct gpumem_refused - a client's last refusal, for the thread that was
 * refused
 */
struct gpumem_refused {
	/** @pid: of the thread; 0 if no refusal is kept */
	pid_t pid;
	/** @info: the answer of GPUMEM_REFUSAL; its size is not used */
	struct gpumem_refusal_info info;
};

/**
 * struct gpumem_rate - a count of reports in the current second
 */
struct gpumem_rate {
	/** @begin: when the second began, jiffies */
	unsigned long begin;
	/** @count: reports since then */
	unsigned int count;
};

/* gpumem_netlink.c */
int gpumem_netlink_init(void);
void gpumem_netlink_exit(void);
int gpumem_ioctl_refusal(struct gpumem_ucmd *ucmd);
void gpumem_refusal_forget(struct gpumem_client *client);
void gpumem_refused(struct gpumem_client *client,
		    const struct gpumem_refusal *refusal);

#endif /* GPUMEM_REFUSAL_H */
