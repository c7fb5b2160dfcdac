// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_vm: address spaces and the mappings in them.
 *
 * A mapping maps a range of device addresses to a range of a buffer object, and
 * says which devices may read and write there.  Device addresses are numbers:
 * the process need not have the same memory at the same address.  Mappings
 * never overlap; each holds a reference on its buffer object.  A sparse mapping
 * has no buffer object, but tiles (gpumem_sparse.c).
 *
 * An unmap or a change of access happens as a whole or not at all: it first
 * checks that the range consists of whole mappings.
 *
 * Locks: vm->change (mutex) serializes changes of an address space.  vm->lock
 * (rwsem) is inside it; a change writes under both.
 *
 *  - A worker looks mappings up under vm->lock for reading, and holds it for
 *    one slice of work.  So a task that unmaps waits for at most that slice,
 *    and a buffer object cannot be freed under a copy.
 *  - Another driver may wait for the worker by a dma_fence, so no task
 *    allocates under vm->lock.  A task that changes the tree holds vm->change,
 *    allocates what the change needs, and takes vm->lock for one store, or for
 *    the access bits of some mappings at a time.
 *
 * A mapping is kernel memory without an id, so the number of mappings of a user
 * is limited (gpumem_user.c).
 */
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "gpumem_bo.h"
#include "gpumem_client.h"
#include "gpumem_delay.h"
#include "gpumem_ioctl.h"
#include "gpumem_lock.h"
#include "gpumem_object.h"
#include "gpumem_pin.h"
#include "gpumem_sparse.h"
#include "gpumem_user.h"
#include "gpumem_vm.h"

/* Mappings whose access is changed under one hold of vm->lock. */
#define GPUMEM_VM_ACCESSES	256

/**
 * gpumem_vm_find - the mapping at an address
 * @vm: address space
 * @addr: device address
 *
 * Context: vm->lock held.
 * Return: the mapping or NULL.
 */
struct gpumem_mapping *gpumem_vm_find(struct gpumem_vm *vm, u64 addr)
{
	MA_STATE(mas, &vm->mappings, addr, addr);

	lockdep_assert_held(&vm->lock);
	return mas_walk(&mas);
}

/**
 * gpumem_vm_next - the next memory in a range
 * @vm: address space
 * @addr: where to begin; receives the first address behind what was found
 * @last: last address of the range
 *
 * Context: vm->lock held.
 * Return: the buffer object of a mapping or tile, or NULL if there is none.
 */
struct gpumem_bo *gpumem_vm_next(struct gpumem_vm *vm, u64 *addr, u64 last)
{
	struct gpumem_mapping *m;
	struct gpumem_bo *bo;
	MA_STATE(mas, &vm->mappings, *addr, *addr);

	lockdep_assert_held(&vm->lock);
	while (*addr <= last) {
		m = mas_find(&mas, last);
		if (!m)
			break;
		*addr = max(*addr, m->addr);
		if (m->sparse) {
			bo = gpumem_sparse_next(m, addr, min(last, m->last));
			if (bo)
				return bo;
		}
		*addr = m->last + 1;
		if (!m->sparse)
			return m->bo;
	}
	return NULL;
}

/* Check that a range is not empty, does not wrap and does not begin at 0. */
static int gpumem_vm_check_range(u64 addr, u64 length)
{
	u64 end;

	if (!addr || !length)
		return -EINVAL;
	if (check_add_overflow(addr, length, &end))
		return -EOVERFLOW;
	return 0;
}

static int gpumem_vm_check_devices(struct gpumem_client *client, u32 mask)
{
	if (mask && !gpumem_client_device(client, __fls(mask)))
		return -EACCES;
	return 0;
}

static void gpumem_mapping_free(struct gpumem_vm *vm, struct gpumem_mapping *m)
{
	if (m->bo) {
		atomic64_sub(m->last - m->addr + 1,
			     &vm->obj.client->count.vm_bytes);
		gpumem_object_put(&m->bo->obj);
	}
	gpumem_sparse_free(vm, m->sparse);
	gpumem_user_unmap(vm->obj.client, 1);
	kfree(m);
}

/**
 * gpumem_vm_release - free an address space
 * @obj: head of the address space, without references
 */
void gpumem_vm_release(struct gpumem_object *obj)
{
	struct gpumem_vm *vm = container_of(obj, struct gpumem_vm, obj);
	struct gpumem_mapping *m;
	MA_STATE(mas, &vm->mappings, 0, 0);

	/* Without references there are no other users: take no lock. */
	mas_for_each(&mas, m, ULONG_MAX) {
		gpumem_mapping_free(vm, m);
		cond_resched();
	}
	__mt_destroy(&vm->mappings);
	mutex_destroy(&vm->change);
	kfree(vm);
}

int gpumem_ioctl_vm_create(struct gpumem_ucmd *ucmd)
{
	struct gpumem_vm_create *cmd = ucmd->cmd;
	struct gpumem_vm *vm;
	int ret;

	if (cmd->flags || cmd->reserved)
		return -EOPNOTSUPP;
	vm = kzalloc(sizeof(*vm), GFP_KERNEL_ACCOUNT);
	if (!vm)
		return -ENOMEM;
	gpumem_object_init(&vm->obj, ucmd->client, GPUMEM_OBJ_VM);
	mutex_init(&vm->change);
	gpumem_lockdep_class(&vm->change, GPUMEM_LOCK_VM_CHANGE);
	init_rwsem(&vm->lock);
	gpumem_lockdep_class(&vm->lock, GPUMEM_LOCK_VM);
	/* The tree has two locks, but a maple tree can check one lock only. */
	mt_init_flags(&vm->mappings, MT_FLAGS_LOCK_EXTERN);
	ret = gpumem_object_reserve(ucmd, &vm->obj);
	if (ret) {
		gpumem_object_put(&vm->obj);
		return ret;
	}
	cmd->id = vm->obj.id;
	return gpumem_ucmd_respond(ucmd, sizeof(*cmd));
}

/* Put @m, or nothing, into the range of @mas. */
static int gpumem_vm_store(struct gpumem_vm *vm, struct ma_state *mas,
			   struct gpumem_mapping *m)
{
	int ret;

	lockdep_assert_held(&vm->change);
	/* A full memory cgroup must not make an unmap fail. */
	ret = mas_preallocate(mas, m, m ? GPUMEM_VM_GFP : GFP_KERNEL);
	if (ret)
		return ret;
	down_write(&vm->lock);
	mas_store_prealloc(mas, m);
	up_write(&vm->lock);
	return 0;
}

static int gpumem_vm_insert(struct gpumem_vm *vm, struct gpumem_mapping *m)
{
	MA_STATE(mas, &vm->mappings, m->addr, m->last);

	guard(mutex)(&vm->change);
	if (mas_find(&mas, m->last))
		return -EEXIST;
	mas_set_range(&mas, m->addr, m->last);
	return gpumem_vm_store(vm, &mas, m);
}

/* May @bo be mapped with this range and this access? */
static int gpumem_vm_check_bo(struct gpumem_bo *bo,
			      const struct gpumem_vm_map *cmd)
{
	if (bo->pin) {
		if (cmd->writers && gpumem_pin_readonly(bo->pin))
			return -EINVAL;
	} else if (!PAGE_ALIGNED(cmd->addr | cmd->length | cmd->offset)) {
		return -EINVAL;
	}
	if (cmd->offset > bo->length || cmd->length > bo->length - cmd->offset)
		return -EOVERFLOW;
	return 0;
}

/* Find what is to be mapped: a buffer object, or nothing if @cmd is sparse. */
static int gpumem_vm_get_bo(struct gpumem_client *client,
			    const struct gpumem_vm_map *cmd,
			    struct gpumem_bo **bo)
{
	int ret;

	*bo = NULL;
	if (cmd->flags & GPUMEM_VM_MAP_SPARSE)
		return gpumem_sparse_check_map(cmd);
	*bo = gpumem_bo_get(client, cmd->bo);
	if (!*bo)
		return -ENOENT;
	ret = gpumem_vm_check_bo(*bo, cmd);
	if (ret)
		gpumem_object_put(&(*bo)->obj);
	return ret;
}

/* A mapping as @cmd describes it, which takes over the reference on @bo. */
static struct gpumem_mapping *
gpumem_mapping_alloc(struct gpumem_client *client,
		     const struct gpumem_vm_map *cmd, struct gpumem_bo *bo)
{
	struct gpumem_mapping *m = kzalloc(sizeof(*m), GPUMEM_VM_GFP);

	if (!m)
		return NULL;
	if (!bo) {
		m->sparse = gpumem_sparse_create();
		if (!m->sparse) {
			kfree(m);
			return NULL;
		}
	} else {
		atomic64_add(cmd->length, &client->count.vm_bytes);
	}
	m->addr = cmd->addr;
	m->last = cmd->addr + cmd->length - 1;
	m->bo = bo;
	m->offset = cmd->offset;
	m->readers = cmd->readers;
	m->writers = cmd->writers;
	return m;
}

int gpumem_ioctl_vm_map(struct gpumem_ucmd *ucmd)
{
	struct gpumem_vm_map *cmd = ucmd->cmd;
	struct gpumem_mapping *m;
	struct gpumem_vm *vm;
	struct gpumem_bo *bo;
	int ret;

	if (cmd->flags & ~GPUMEM_VM_MAP_SPARSE)
		return -EOPNOTSUPP;
	ret = gpumem_vm_check_range(cmd->addr, cmd->length);
	if (ret)
		return ret;
	if (cmd->writers & ~cmd->readers)
		return -EINVAL;
	ret = gpumem_vm_check_devices(ucmd->client, cmd->readers);
	if (ret)
		return ret;
	vm = gpumem_vm_get(ucmd->client, cmd->vm);
	if (!vm)
		return -ENOENT;
	ret = gpumem_vm_get_bo(ucmd->client, cmd, &bo);
	if (ret)
		goto out_vm;
	ret = gpumem_user_map(ucmd->client, 1);
	if (ret)
		goto out_bo;
	m = gpumem_mapping_alloc(ucmd->client, cmd, bo);
	if (!m) {
		ret = -ENOMEM;
		goto out_unmap;
	}
	gpumem_delay(vm_map);
	ret = gpumem_vm_insert(vm, m);
	if (ret)
		gpumem_mapping_free(vm, m);
	gpumem_object_put(&vm->obj);
	return ret;

out_unmap:
	gpumem_user_unmap(ucmd->client, 1);
out_bo:
	if (bo)
		gpumem_object_put(&bo->obj);
out_vm:
	gpumem_object_put(&vm->obj);
	return ret;
}

/* Count the bytes in the mappings of a range; -EINVAL if it cuts a mapping. */
static int gpumem_vm_weigh_locked(struct gpumem_vm *vm, u64 addr, u64 last,
				  u64 *bytes)
{
	MA_STATE(mas, &vm->mappings, addr, last);
	struct gpumem_mapping *m;

	lockdep_assert_held(&vm->change);
	*bytes = 0;
	mas_for_each(&mas, m, last) {
		if (m->addr < addr || m->last > last)
			return -EINVAL;
		*bytes += m->last - m->addr + 1;
		cond_resched();
	}
	return 0;
}

/*
 * Take all mappings of a range out of the tree and put them on a list.  Return
 * -EAGAIN if they do not have @bytes bytes in total any more.
 */
static int gpumem_vm_detach_locked(struct gpumem_vm *vm, u64 addr, u64 last,
				   u64 bytes, struct list_head *list)
{
	MA_STATE(mas, &vm->mappings, addr, last);
	struct gpumem_mapping *m;
	u64 now;
	int ret;

	lockdep_assert_held(&vm->change);
	ret = gpumem_vm_weigh_locked(vm, addr, last, &now);
	if (ret)
		return ret;
	if (now != bytes)
		return -EAGAIN;
	mas_for_each(&mas, m, last) {
		list_add_tail(&m->link, list);
		cond_resched();
	}
	if (list_empty(list))
		return 0;
	mas_set_range(&mas, addr, last);
	ret = gpumem_vm_store(vm, &mas, NULL);
	if (ret)
		INIT_LIST_HEAD(list);
	return ret;
}

/*
 * The answer is written before anything changes: if the copy to the caller
 * fails, the caller keeps its mappings.
 */
int gpumem_ioctl_vm_unmap(struct gpumem_ucmd *ucmd)
{
	struct gpumem_vm_unmap *cmd = ucmd->cmd;
	struct gpumem_mapping *m, *next;
	struct gpumem_vm *vm;
	LIST_HEAD(list);
	u64 last;
	int ret;

	ret = gpumem_vm_check_range(cmd->addr, cmd->length);
	if (ret)
		return ret;
	last = cmd->addr + cmd->length - 1;
	vm = gpumem_vm_get(ucmd->client, cmd->vm);
	if (!vm)
		return -ENOENT;
	do {
		scoped_guard(mutex, &vm->change)
			ret = gpumem_vm_weigh_locked(vm, cmd->addr, last,
						     &cmd->unmapped);
		if (!ret)
			ret = gpumem_ucmd_respond(ucmd, sizeof(*cmd));
		if (ret)
			break;
		gpumem_delay(vm_unmap);
		scoped_guard(mutex, &vm->change)
			ret = gpumem_vm_detach_locked(vm, cmd->addr, last,
						      cmd->unmapped, &list);
		/* Another task may change the mappings again and again. */
		if (ret == -EAGAIN && fatal_signal_pending(current))
			ret = -EINTR;
	} while (ret == -EAGAIN);
	list_for_each_entry_safe(m, next, &list, link) {
		gpumem_mapping_free(vm, m);
		cond_resched();
	}
	gpumem_object_put(&vm->obj);
	return ret;
}

static int gpumem_vm_set_access_locked(struct gpumem_vm *vm, u64 addr, u64 last,
				       u32 devbit, u32 access)
{
	MA_STATE(mas, &vm->mappings, addr, last);
	struct gpumem_mapping *m;
	unsigned int n = 0;
	u64 next = addr;

	lockdep_assert_held(&vm->change);
	mas_for_each(&mas, m, last) {
		if (m->addr != next || m->last > last)
			return -EINVAL;
		/* As in gpumem_vm_check_bo(). */
		if (access & GPUMEM_ACCESS_WRITE && m->bo && m->bo->pin &&
		    gpumem_pin_readonly(m->bo->pin))
			return -EINVAL;
		next = m->last + 1;
		cond_resched();
	}
	if (next != last + 1)
		return -EINVAL;
	mas_set(&mas, addr);
	down_write(&vm->lock);
	mas_for_each(&mas, m, last) {
		/* Let workers in; vm->change keeps the tree as it is. */
		if (!(++n % GPUMEM_VM_ACCESSES)) {
			up_write(&vm->lock);
			cond_resched();
			down_write(&vm->lock);
		}
		m->readers &= ~devbit;
		m->writers &= ~devbit;
		if (access & GPUMEM_ACCESS_READ)
			m->readers |= devbit;
		if (access & GPUMEM_ACCESS_WRITE)
			m->writers |= devbit;
	}
	up_write(&vm->lock);
	return 0;
}

int gpumem_ioctl_vm_access(struct gpumem_ucmd *ucmd)
{
	struct gpumem_vm_access *cmd = ucmd->cmd;
	struct gpumem_vm *vm;
	int ret;

	if (cmd->access & ~(GPUMEM_ACCESS_READ | GPUMEM_ACCESS_WRITE))
		return -EOPNOTSUPP;
	if (cmd->access == GPUMEM_ACCESS_WRITE)
		return -EINVAL;
	ret = gpumem_vm_check_range(cmd->addr, cmd->length);
	if (ret)
		return ret;
	if (!gpumem_client_device(ucmd->client, cmd->device))
		return -EACCES;
	vm = gpumem_vm_get(ucmd->client, cmd->vm);
	if (!vm)
		return -ENOENT;
	scoped_guard(mutex, &vm->change)
		ret = gpumem_vm_set_access_locked(vm, cmd->addr,
						  cmd->addr + cmd->length - 1,
						  BIT(cmd->device),
						  cmd->access);
	gpumem_object_put(&vm->obj);
	return ret;
}

/* Count the mappings of a range; -EINVAL if a byte has none or a sparse one. */
static int gpumem_vm_count_locked(struct gpumem_vm *vm, u64 addr, u64 last)
{
	MA_STATE(mas, &vm->mappings, addr, addr);
	struct gpumem_mapping *m;
	u64 next = addr;
	int n = 0;

	lockdep_assert_held(&vm->change);
	mas_for_each(&mas, m, last) {
		if (m->addr > next || m->sparse)
			return -EINVAL;
		if (n == GPUMEM_EXPORT_PARTS)
			return -EMFILE;
		n++;
		next = m->last + 1;
		cond_resched();
	}
	return n && next > last ? n : -EINVAL;
}

static int gpumem_vm_parts_locked(struct gpumem_vm *vm, u64 addr, u64 last,
				  struct gpumem_part **parts)
{
	MA_STATE(mas, &vm->mappings, addr, addr);
	int i = 0, n = gpumem_vm_count_locked(vm, addr, last);
	struct gpumem_mapping *m;
	struct gpumem_part *part;

	if (n < 0)
		return n;
	part = kvcalloc(n, sizeof(*part), GPUMEM_VM_GFP);
	if (!part)
		return -ENOMEM;
	mas_for_each(&mas, m, last) {
		u64 first = max(addr, m->addr);

		kref_get(&m->bo->obj.ref);
		part[i].bo = m->bo;
		part[i].offset = m->offset + (first - m->addr);
		part[i].length = min(last, m->last) - first + 1;
		i++;
		cond_resched();
	}
	*parts = part;
	return n;
}

/**
 * gpumem_vm_parts - list what is mapped in a range without holes
 * @vm: address space
 * @addr: first byte
 * @length: bytes
 * @parts: out: the parts in order; gpumem_vm_parts_free() frees them
 *
 * Return: the number of parts, or a negative errno: -EINVAL if a byte of the
 * range is not mapped, -EMFILE if there are more than GPUMEM_EXPORT_PARTS.
 */
int gpumem_vm_parts(struct gpumem_vm *vm, u64 addr, u64 length,
		    struct gpumem_part **parts)
{
	int ret = gpumem_vm_check_range(addr, length);

	if (ret)
		return ret;
	guard(mutex)(&vm->change);
	return gpumem_vm_parts_locked(vm, addr, addr + length - 1, parts);
}

/**
 * gpumem_vm_parts_free - free what gpumem_vm_parts() listed
 * @parts: the parts
 * @n: their number
 */
void gpumem_vm_parts_free(struct gpumem_part *parts, unsigned int n)
{
	while (n--) {
		gpumem_object_put(&parts[n].bo->obj);
		cond_resched();
	}
	kvfree(parts);
}
