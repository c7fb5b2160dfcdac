/* SPDX-License-Identifier: MIT */
/*
 * What the files of the management library share. They use nothing of the driver's but release.h.
 */
#ifndef GPUMEM_NVML_PRIVATE_H
#define GPUMEM_NVML_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include <linux/gpumem.h>

#include "../include/nvml.h"

#define EXPORT		__attribute__((visibility("default")))
#define PCI_DOMAIN	0x6770		/* as in libgpumem's device.c */

struct nvmlDevice_st {
	int fd;
	struct gpumem_info info;
};

/* The devices, constant between nvmlInit() and nvmlShutdown(). */
extern struct nvmlDevice_st nvml_devices[GPUMEM_MAX_DEVICES];
extern unsigned int nvml_count;

/* Whether nvmlInit() was called. */
bool nvml_initialized(void);
/* What every function about a device checks first: UNINITIALIZED, INVALID_ARGUMENT. */
nvmlReturn_t nvml_check(nvmlDevice_t device, const void *out);
/* Copy a text: also INSUFFICIENT_SIZE. */
nvmlReturn_t nvml_give(char *to, unsigned int length, const char *text);
/* What the kernel says of a device now. */
nvmlReturn_t nvml_ask(nvmlDevice_t device, struct gpumem_info *info);
/* Free bytes: 0 if the administrator made the device smaller than what is in use. */
static inline unsigned long long nvml_free_bytes(const struct gpumem_info *info)
{
	return info->total > info->used ? info->total - info->used : 0;
}

#endif /* GPUMEM_NVML_PRIVATE_H */
