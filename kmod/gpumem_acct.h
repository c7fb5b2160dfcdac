/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counters of a client, a device and the module: fdinfo, sysfs, and the ioctls
 * that return them.
 */
#ifndef GPUMEM_ACCT_H
#define GPUMEM_ACCT_H

struct attribute_group;
struct file;
struct gpumem_ucmd;
struct seq_file;

/* gpumem_acct.c */
extern const struct attribute_group *gpumem_class_groups[];
extern const struct attribute_group *gpumem_device_groups[];
void gpumem_show_fdinfo(struct seq_file *m, struct file *file);
int gpumem_ioctl_info(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_stats(struct gpumem_ucmd *ucmd);

#endif /* GPUMEM_ACCT_H */
