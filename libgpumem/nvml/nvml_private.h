/* SPDX-License-Identifier: MIT */
/*
 * Declarations for the files of the management library, which use only entry.h and release.h of the driver.
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
/* The first check of every function that takes a device: UNINITIALIZED, INVALID_ARGUMENT. */
nvmlReturn_t nvml_check(nvmlDevice_t device, const void *out);
/* Copy a text to a buffer of @length bytes: UNINITIALIZED, INVALID_ARGUMENT, INSUFFICIENT_SIZE. */
nvmlReturn_t nvml_give(char *to, unsigned int length, const char *text);
/* Ask the kernel about a device. */
nvmlReturn_t nvml_ask(nvmlDevice_t device, struct gpumem_info *info);
/* Free bytes: 0 if the administrator made the device smaller than the memory in use. */
static inline unsigned long long nvml_free_bytes(const struct gpumem_info *info)
{
	return info->total > info->used ? info->total - info->used : 0;
}

#endif /* GPUMEM_NVML_PRIVATE_H */
