/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Address spaces and the mappings in them.  Locks: vm->change and vm->lock.
 */
#ifndef GPUMEM_VM_H
#define GPUMEM_VM_H

#include <linux/list.h>
#include <linux/maple_tree.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/types.h>

#include "gpumem_object.h"

struct gpumem_bo;
struct gpumem_sparse;

/*
 * Allocation of mappings.  If the memory cgroup, or the system, is full, it
 * fails with -ENOMEM: the OOM killer must not kill a process because a client
 * makes mappings without end.
 */
#define GPUMEM_VM_GFP \
	(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/**
 * struct gpumem_vm - an address space
 */
struct gpumem_vm {
	/** @obj: head */
	struct gpumem_object obj;
	/** @change: serializes changes of @mappings; outside @lock */
	struct mutex change;
	/** @lock: taken for writing under @change, for reading by workers */
	struct rw_semaphore lock;
	/**
	 * @mappings: device address -> struct gpumem_mapping; written under
	 * @change and @lock, read under either
	 */
	struct maple_tree mappings;
};

/**
 * struct gpumem_mapping - a bo at a device address
 *
 * The locks of gpumem_vm.mappings protect it, too.
 */
struct gpumem_mapping {
	/** @addr: first byte */
	u64 addr;
	/** @last: last byte */
	u64 last;
	/** @bo: referenced; NULL if the mapping is sparse */
	struct gpumem_bo *bo;
	/** @sparse: tiles of a sparse mapping, or NULL */
	struct gpumem_sparse *sparse;
	/** @offset: of @addr in @bo */
	u64 offset;
	/** @readers: devices that may read */
	u32 readers;
	/** @writers: devices that may write */
	u32 writers;
	/** @link: in the list of mappings that an unmap removes */
	struct list_head link;
};

/**
 * struct gpumem_part - a part of a range of addresses
 */
struct gpumem_part {
	/** @bo: mapped there; referenced */
	struct gpumem_bo *bo;
	/** @offset: of the part in @bo */
	u64 offset;
	/** @length: bytes */
	u64 length;
};

/* gpumem_vm.c */
struct gpumem_mapping *gpumem_vm_find(struct gpumem_vm *vm, u64 addr);
struct gpumem_bo *gpumem_vm_next(struct gpumem_vm *vm, u64 *addr, u64 last);
void gpumem_vm_release(struct gpumem_object *obj);
int gpumem_vm_parts(struct gpumem_vm *vm, u64 addr, u64 length,
		    struct gpumem_part **parts);
void gpumem_vm_parts_free(struct gpumem_part *parts, unsigned int n);
int gpumem_ioctl_vm_create(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_vm_map(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_vm_unmap(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_vm_access(struct gpumem_ucmd *ucmd);

static inline struct gpumem_vm *gpumem_vm_get(struct gpumem_client *client,
					      u32 id)
{
	struct gpumem_object *obj = gpumem_object_get(client, id,
						      GPUMEM_OBJ_VM);

	return obj ? container_of(obj, struct gpumem_vm, obj) : NULL;
}

#endif /* GPUMEM_VM_H */
