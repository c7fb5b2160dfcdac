/* SPDX-License-Identifier: MIT */
/*
 * driver: the public functions of the driver API, and gpumem's own.
 *
 * Each function checks its arguments and calls a layer below. This layer may include all layers below and abi.
 */
#ifndef GPUMEM_DRIVER_DRIVER_H
#define GPUMEM_DRIVER_DRIVER_H

#include "abi/entry.h"
#include "share/share.h"

/* What the checker may ask (watch.c). */
extern HIDDEN const struct tap_client watch_client;

/* The end of each function that synchronizes: free what waited for work that is complete now. */
static inline void sync_release(void)
{
	pools_release_excess();
	semaphores_release();
}

#endif /* GPUMEM_DRIVER_DRIVER_H */
