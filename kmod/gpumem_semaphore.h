/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Timelines that clients share by descriptor, and fences of sync_files as
 * timelines.  Offered by gpumem_semaphore.c.
 */
#ifndef GPUMEM_SEMAPHORE_H
#define GPUMEM_SEMAPHORE_H

struct gpumem_timeline;
struct gpumem_ucmd;

/* gpumem_semaphore.c */
void gpumem_sync_stop(struct gpumem_timeline *timeline);
void gpumem_sync_free(struct gpumem_timeline *timeline);
int gpumem_ioctl_timeline_export(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_timeline_import(struct gpumem_ucmd *ucmd);

#endif /* GPUMEM_SEMAPHORE_H */
