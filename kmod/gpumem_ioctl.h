/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An ioctl under way, and the parts of gpumem_drv.c that the handlers use.  Each
 * handler is declared in the header of what it works on; uapi/linux/gpumem.h
 * says what it does.
 */
#ifndef GPUMEM_IOCTL_H
#define GPUMEM_IOCTL_H

#include <linux/fs.h>
#include <linux/types.h>

struct gpumem_client;
struct gpumem_object;

/**
 * struct gpumem_ucmd - an ioctl under way
 */
struct gpumem_ucmd {
	/** @client: caller */
	struct gpumem_client *client;
	/** @ubuffer: the caller's structure */
	void __user *ubuffer;
	/** @user_size: its length as the caller says */
	u32 user_size;
	/** @cmd: the kernel's copy */
	void *cmd;
	/** @new: reserved objects; finalized on success, aborted otherwise */
	struct gpumem_object *new[2];
};

/* gpumem_drv.c */
extern const struct file_operations gpumem_fops;
int gpumem_ucmd_respond(struct gpumem_ucmd *ucmd, size_t cmd_len);

#endif /* GPUMEM_IOCTL_H */
