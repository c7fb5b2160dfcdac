/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Registrations: host memory of a process, pinned.  Offered by gpumem_pin.c.
 */
#ifndef GPUMEM_PIN_H
#define GPUMEM_PIN_H

#include <linux/types.h>

struct gpumem_bo;
struct gpumem_client;
struct gpumem_pin;
struct gpumem_ucmd;

/* gpumem_pin.c */
void gpumem_pin_unlist(struct gpumem_client *client, struct gpumem_pin *pin);
void gpumem_pin_release(struct gpumem_pin *pin);
bool gpumem_pin_readonly(struct gpumem_pin *pin);
void gpumem_pin_written(struct gpumem_pin *pin);
void *gpumem_pin_map(struct gpumem_pin *pin, u64 offset, size_t *len);
struct gpumem_bo *gpumem_pin_window(struct gpumem_client *client, u64 addr,
				    u64 length, bool readonly);
int gpumem_ioctl_bo_pin(struct gpumem_ucmd *ucmd);

#endif /* GPUMEM_PIN_H */
