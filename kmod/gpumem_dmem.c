// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_dmem: device memory in the kernel's dmem cgroup controller.
 *
 * Each device is a *region* of the controller, gpumem/gpumemN.  The cgroup of
 * the task that allocates device memory is charged for it, as the memory cgroup
 * is charged for the pages.  The charge belongs to the memory file: it ends when
 * the file's memory is given back, also if a mapping or another subsystem kept
 * the file after its buffer object was destroyed.
 *
 * The controller charges the cgroup of the current task only, so nothing is
 * charged in workers.  Managed memory becomes resident in workers.  It is not
 * charged: it lies in host memory, which the memory cgroup counts, and each
 * allocation of device memory evicts it if it is in the way.
 *
 * A region has the size that the device had when the module was loaded: the
 * controller has no way to change it.  The size only appears in dmem.capacity.
 *
 * Locks: the controller has its own.
 */
#include <linux/device.h>

#include "gpumem_bo.h"
#include "gpumem_cache.h"
#include "gpumem_client.h"
#include "gpumem_compat.h"
#include "gpumem_device.h"
#include "gpumem_dmem.h"
#include "gpumem_linger.h"
#include "gpumem_mem.h"
#include "gpumem_refusal.h"
#include "gpumem_user.h"

/**
 * gpumem_dmem_register - make a device a region of the controller
 * @dev: device, with its name and size
 *
 * Without the controller, dev->dmem is NULL and nothing is ever charged.
 *
 * Return: 0 or a negative errno.
 */
int gpumem_dmem_register(struct gpumem_device *dev)
{
	struct dmem_cgroup_region *region =
		gpumem_compat_dmem_register(dev->mem.size, dev_name(&dev->dev));

	if (IS_ERR(region))
		return PTR_ERR(region);
	dev->dmem = region;
	return 0;
}

/**
 * gpumem_dmem_unregister - undo gpumem_dmem_register()
 * @dev: device; no charges are left
 */
void gpumem_dmem_unregister(struct gpumem_device *dev)
{
	if (dev->dmem)
		gpumem_compat_dmem_unregister(dev->dmem);
	dev->dmem = NULL;
}

static int gpumem_dmem_try_charge(struct gpumem_charge *charge,
				  struct gpumem_device *dev, u64 bytes,
				  struct dmem_cgroup_pool_state **limit)
{
	charge->dmem_bytes = bytes;
	return gpumem_compat_dmem_try_charge(dev->dmem, bytes, &charge->dmem,
					     limit);
}

/**
 * gpumem_dmem_charge - charge the current task's dmem cgroup
 * @charge: of the memory file; gpumem_dmem_uncharge() ends it
 * @client: client that allocates
 * @dev: device whose memory it is; a region
 * @bytes: of the allocation
 *
 * If the limit of a cgroup is reached, discards cached chunks that are charged
 * to that cgroup or below it, of all clients.  The controller does not tell how
 * much is missing: the chunks may be discarded in vain.
 *
 * Context: called by the task that allocates; may sleep, without locks.
 * Return: 0, -EDQUOT if a limit (dmem.max) refused it, or -ENOMEM.
 */
int gpumem_dmem_charge(struct gpumem_charge *charge,
		       struct gpumem_client *client, struct gpumem_device *dev,
		       u64 bytes)
{
	struct gpumem_cache_filter f = { .mem = &dev->mem };
	u64 got;
	int ret;

	ret = gpumem_dmem_try_charge(charge, dev, bytes, NULL);
	if (ret != -EAGAIN)
		return ret;
	gpumem_client_flush();
	gpumem_linger_make_room(&dev->mem);
	do {
		ret = gpumem_dmem_try_charge(charge, dev, bytes, &f.dmem);
		if (ret != -EAGAIN)
			return ret;
		got = gpumem_cache_take(&f, bytes);
		gpumem_compat_dmem_put(f.dmem);
	} while (got);
	gpumem_refused(client, &(struct gpumem_refusal) {
		.limit = GPUMEM_LIMIT_DMEM,
		.dev = dev,
		.asked = bytes,
	});
	return -EDQUOT;
}

/**
 * gpumem_dmem_uncharge - the memory is given back
 * @charge: of the memory; without a charged cgroup, nothing happens
 */
void gpumem_dmem_uncharge(struct gpumem_charge *charge)
{
	if (charge->dmem)
		gpumem_compat_dmem_uncharge(charge->dmem, charge->dmem_bytes);
	charge->dmem = NULL;
}

/**
 * gpumem_dmem_within - is a chunk charged to a cgroup, or below it?
 * @limit: the cgroup's part of the device
 * @bo: chunk whose memory nobody discards or frees meanwhile
 *
 * Context: atomic.
 * Return: true if so, and the memory is not protected by dmem.min.
 */
bool gpumem_dmem_within(struct dmem_cgroup_pool_state *limit,
			struct gpumem_bo *bo)
{
	struct gpumem_backing *backing = bo->file->private_data;
	struct gpumem_charge *charge = backing->charge;

	return charge && charge->dmem &&
	       gpumem_compat_dmem_within(limit, charge->dmem);
}
