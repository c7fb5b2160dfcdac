/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory handles: descriptors of whole buffer objects.  Offered by
 * gpumem_handle.c.
 */
#ifndef GPUMEM_HANDLE_H
#define GPUMEM_HANDLE_H

#include <linux/types.h>

struct gpumem_bo;
struct gpumem_client;
struct gpumem_ucmd;

int gpumem_handle_export(struct gpumem_ucmd *ucmd, struct gpumem_bo *bo);
struct gpumem_bo *gpumem_handle_import(struct gpumem_client *client, int fd,
				       u32 *device);

#endif /* GPUMEM_HANDLE_H */
