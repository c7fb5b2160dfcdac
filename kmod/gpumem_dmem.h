/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Device memory in the kernel's dmem cgroup controller.
 */
#ifndef GPUMEM_DMEM_H
#define GPUMEM_DMEM_H

#include <linux/types.h>

struct dmem_cgroup_pool_state;
struct gpumem_bo;
struct gpumem_charge;
struct gpumem_client;
struct gpumem_device;

/* gpumem_dmem.c */
int gpumem_dmem_register(struct gpumem_device *dev);
void gpumem_dmem_unregister(struct gpumem_device *dev);
int gpumem_dmem_charge(struct gpumem_charge *charge,
		       struct gpumem_client *client, struct gpumem_device *dev,
		       u64 bytes);
void gpumem_dmem_uncharge(struct gpumem_charge *charge);
bool gpumem_dmem_within(struct dmem_cgroup_pool_state *limit,
			struct gpumem_bo *bo);

#endif /* GPUMEM_DMEM_H */
