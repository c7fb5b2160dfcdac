// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_acct: shows counters through fdinfo, sysfs and ioctls.
 *
 * A client's counters cover the objects that it has made, until they are freed.
 * After the client's end they still cover objects that outlive it (exported
 * memory), but only netlink shows them.  The counters of the device cover these
 * objects, too.
 * The memory in use on a device is not a counter: it is the space in use on the
 * device's tmpfs mount, which includes mappings without an object and pins by
 * other subsystems.
 *
 * All counters are zero once the last client, mapping, export and pin is gone.
 *
 * fdinfo has totals only, of the client and of each of its devices, so the cost
 * of a read does not grow with the number of the client's objects.  Netlink
 * lists the pools.
 *
 * Locks: none of its own.  The counters are atomic, except a client's bytes on a
 * device: gpumem_notice.c reads them under the device's notice_lock.
 */
#include <linux/device.h>
#include <linux/seq_file.h>
#include <linux/sysfs.h>

#include "gpumem_acct.h"
#include "gpumem_cache.h"
#include "gpumem_client.h"
#include "gpumem_device.h"
#include "gpumem_engine.h"
#include "gpumem_ioctl.h"
#include "gpumem_linger.h"
#include "gpumem_mem.h"
#include "gpumem_notice.h"
#include "gpumem_shmem.h"
#include "gpumem_user.h"

static void gpumem_fill_stats(struct gpumem_client *client,
			      struct gpumem_stats *stats)
{
	const struct gpumem_cache_filter any = {};
	struct gpumem_counters *c = &client->count;

	stats->objects = atomic64_read(&c->objects);
	stats->bos = atomic64_read(&c->bos);
	stats->bo_bytes = atomic64_read(&c->bo_bytes);
	stats->views = atomic64_read(&c->views);
	stats->view_bytes = atomic64_read(&c->view_bytes);
	stats->vm_bytes = atomic64_read(&c->vm_bytes);
	stats->exports = atomic64_read(&c->exports);
	stats->export_bytes = atomic64_read(&c->export_bytes);
	stats->tokens = atomic64_read(&c->tokens);
	stats->streams = atomic64_read(&c->streams);
	stats->jobs = atomic64_read(&c->jobs);
	stats->copy_bytes = atomic64_read(&c->copy_bytes);
	stats->fill_bytes = atomic64_read(&c->fill_bytes);
	stats->doorbells = atomic64_read(&c->doorbells);
	stats->pins = atomic64_read(&c->pins);
	stats->pin_bytes = atomic64_read(&c->pin_bytes);
	stats->host = atomic64_read(&c->host);
	stats->host_bytes = atomic64_read(&c->host_bytes);
	stats->pools = atomic64_read(&c->pools);
	stats->pool_reserved = atomic64_read(&c->pool_reserved);
	stats->pool_cached = min(gpumem_cache_bytes(client, &any),
				 stats->pool_reserved);
	stats->pool_reserved -= stats->pool_cached;
	stats->pool_imports = atomic64_read(&c->pool_imports);
	stats->imports = atomic64_read(&c->imports);
	stats->import_bytes = atomic64_read(&c->import_bytes);
	stats->mappings = atomic64_read(&c->mappings);
	stats->ring_bytes = atomic64_read(&c->ring_bytes);
	stats->managed = atomic64_read(&c->managed);
	stats->managed_resident = atomic64_read(&c->managed_resident);
	stats->managed_faults = atomic64_read(&c->managed_faults);
	stats->managed_evictions = atomic64_read(&c->managed_evictions);
	stats->managed_in = atomic64_read(&c->managed_in);
	stats->managed_out = atomic64_read(&c->managed_out);
	stats->managed_held = atomic64_read(&c->managed_held);
	stats->managed_thrash = atomic64_read(&c->managed_thrash);
	stats->managed_moved = atomic64_read(&c->managed_moved);
	stats->managed_stayed = atomic64_read(&c->managed_stayed);
	stats->managed_duplicated = atomic64_read(&c->managed_duplicated);
	stats->managed_duplications = atomic64_read(&c->managed_duplications);
	stats->managed_collapses = atomic64_read(&c->managed_collapses);
	stats->engine_ns = atomic64_read(&c->engine_ns);
}

int gpumem_ioctl_stats(struct gpumem_ucmd *ucmd)
{
	struct gpumem_stats *cmd = ucmd->cmd;

	if (cmd->flags)
		return -EOPNOTSUPP;
	gpumem_fill_stats(ucmd->client, cmd);
	return gpumem_ucmd_respond(ucmd, sizeof(*cmd));
}

int gpumem_ioctl_info(struct gpumem_ucmd *ucmd)
{
	struct gpumem_info *cmd = ucmd->cmd;
	struct gpumem_device *dev = gpumem_client_device(ucmd->client,
							 cmd->device);

	if (!dev)
		return -EACCES;
	cmd->abi = GPUMEM_ABI_VERSION;
	cmd->ordinal = dev->ordinal;
	cmd->total = gpumem_size(&dev->mem);
	cmd->used = gpumem_linger_used(&dev->mem);
	cmd->cached = gpumem_cache_total(&dev->mem);
	cmd->excess = gpumem_holding_excess(ucmd->client, dev);
	cmd->flags = gpumem_device_concurrent(dev) ?
			     0 : GPUMEM_INFO_EXCLUSIVE_MANAGED;
	if (READ_ONCE(ucmd->client->pageable) & BIT(cmd->device))
		cmd->flags |= GPUMEM_INFO_PAGEABLE;
	cmd->reserved = 0;
	cmd->node = dev->mem.node;
	cmd->engine_workers = dev->engine->workers;
	memset(cmd->engine, 0, sizeof(cmd->engine));
	strscpy(cmd->engine, dev->engine->ops->name, sizeof(cmd->engine));
	memset(cmd->release, 0, sizeof(cmd->release));
	strscpy(cmd->release, GPUMEM_VERSION, sizeof(cmd->release));
	memcpy(cmd->uuid, dev->uuid, sizeof(cmd->uuid));
	return gpumem_ucmd_respond(ucmd, sizeof(*cmd));
}

static void gpumem_show_region(struct seq_file *m, const char *region,
			       u64 total, u64 purgeable)
{
	seq_printf(m, "drm-total-%s:\t%llu\n", region, total);
	/* The memory of a buffer object stays resident until it is freed. */
	seq_printf(m, "drm-resident-%s:\t%llu\n", region, total);
	seq_printf(m, "drm-purgeable-%s:\t%llu\n", region,
		   min(purgeable, total));
}

/*
 * Show the keys that the kernel's drm-usage-stats.rst defines, except those for
 * shared bytes, which the module does not count.
 */
static void gpumem_show_memory(struct seq_file *m, struct gpumem_client *client,
			       const struct gpumem_stats *s)
{
	const struct gpumem_cache_filter host = { .mem = &gpumem_host_mem };
	u64 cached = gpumem_cache_bytes(client, &host);

	seq_puts(m, "drm-driver:\tgpumem\n");
	seq_printf(m, "drm-client-id:\t%u\n", client->id);
	seq_printf(m, "drm-engine-cpu:\t%llu ns\n", s->engine_ns);
	seq_printf(m, "drm-engine-capacity-cpu:\t%u\n",
		   client->devices[0]->engine->workers);
	gpumem_show_region(m, "vram",
			   s->bo_bytes + s->view_bytes + s->managed_resident,
			   s->pool_cached - min(s->pool_cached, cached));
	gpumem_show_region(m, "memory", s->host_bytes + s->pin_bytes, cached);
}

/* Show the client's memory on each attached device. */
static void gpumem_show_devices(struct seq_file *m,
				struct gpumem_client *client)
{
	struct gpumem_device *dev;
	unsigned int i;

	for (i = 0; (dev = gpumem_client_device(client, i)); i++)
		seq_printf(m, "gpumem-vram-%u:\t%llu\n", dev->ordinal,
			   gpumem_holding_bytes(client, dev));
}

/**
 * gpumem_show_fdinfo - write the /proc/PID/fdinfo of a client
 * @m: where to write
 * @file: the client's file
 */
void gpumem_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct gpumem_client *client = file->private_data;
	struct gpumem_stats s = {};

	gpumem_fill_stats(client, &s);
	seq_printf(m, "gpumem-device:\t%u\n", client->devices[0]->ordinal);
	seq_printf(m, "gpumem-objects:\t%llu\n", s.objects);
	seq_printf(m, "gpumem-bos:\t%llu\n", s.bos);
	seq_printf(m, "gpumem-bo-bytes:\t%llu\n", s.bo_bytes);
	seq_printf(m, "gpumem-views:\t%llu\n", s.views);
	seq_printf(m, "gpumem-view-bytes:\t%llu\n", s.view_bytes);
	seq_printf(m, "gpumem-vm-bytes:\t%llu\n", s.vm_bytes);
	seq_printf(m, "gpumem-exports:\t%llu\n", s.exports);
	seq_printf(m, "gpumem-export-bytes:\t%llu\n", s.export_bytes);
	seq_printf(m, "gpumem-tokens:\t%llu\n", s.tokens);
	seq_printf(m, "gpumem-streams:\t%llu\n", s.streams);
	seq_printf(m, "gpumem-jobs:\t%llu\n", s.jobs);
	seq_printf(m, "gpumem-copy-bytes:\t%llu\n", s.copy_bytes);
	seq_printf(m, "gpumem-fill-bytes:\t%llu\n", s.fill_bytes);
	seq_printf(m, "gpumem-doorbells:\t%llu\n", s.doorbells);
	seq_printf(m, "gpumem-pins:\t%llu\n", s.pins);
	seq_printf(m, "gpumem-pin-bytes:\t%llu\n", s.pin_bytes);
	seq_printf(m, "gpumem-host:\t%llu\n", s.host);
	seq_printf(m, "gpumem-host-bytes:\t%llu\n", s.host_bytes);
	seq_printf(m, "gpumem-pools:\t%llu\n", s.pools);
	seq_printf(m, "gpumem-pool-reserved:\t%llu\n", s.pool_reserved);
	seq_printf(m, "gpumem-pool-imports:\t%llu\n", s.pool_imports);
	seq_printf(m, "gpumem-imports:\t%llu\n", s.imports);
	seq_printf(m, "gpumem-import-bytes:\t%llu\n", s.import_bytes);
	seq_printf(m, "gpumem-pool-cached:\t%llu\n", s.pool_cached);
	seq_printf(m, "gpumem-mappings:\t%llu\n", s.mappings);
	seq_printf(m, "gpumem-ring-bytes:\t%llu\n", s.ring_bytes);
	seq_printf(m, "gpumem-managed:\t%llu\n", s.managed);
	seq_printf(m, "gpumem-managed-resident:\t%llu\n", s.managed_resident);
	seq_printf(m, "gpumem-managed-faults:\t%llu\n", s.managed_faults);
	seq_printf(m, "gpumem-managed-evictions:\t%llu\n", s.managed_evictions);
	seq_printf(m, "gpumem-managed-in:\t%llu\n", s.managed_in);
	seq_printf(m, "gpumem-managed-out:\t%llu\n", s.managed_out);
	seq_printf(m, "gpumem-managed-held:\t%llu\n", s.managed_held);
	seq_printf(m, "gpumem-managed-thrash:\t%llu\n", s.managed_thrash);
	seq_printf(m, "gpumem-managed-moved:\t%llu\n", s.managed_moved);
	seq_printf(m, "gpumem-managed-stayed:\t%llu\n", s.managed_stayed);
	seq_printf(m, "gpumem-managed-duplicated:\t%llu\n",
		   s.managed_duplicated);
	seq_printf(m, "gpumem-managed-duplications:\t%llu\n",
		   s.managed_duplications);
	seq_printf(m, "gpumem-managed-collapses:\t%llu\n",
		   s.managed_collapses);
	seq_printf(m, "gpumem-engine-ns:\t%llu\n", s.engine_ns);
	gpumem_show_devices(m, client);
	gpumem_show_memory(m, client, &s);
}

static struct gpumem_device *to_gpumem(struct device *dev)
{
	return container_of(dev, struct gpumem_device, dev);
}

static ssize_t used_show(struct device *dev, struct device_attribute *attr,
			 char *buf)
{
	return sysfs_emit(buf, "%llu\n", gpumem_linger_used(&to_gpumem(dev)->mem));
}
static DEVICE_ATTR_RO(used);

static ssize_t cached_show(struct device *dev, struct device_attribute *attr,
			   char *buf)
{
	return sysfs_emit(buf, "%llu\n",
			  gpumem_cache_total(&to_gpumem(dev)->mem));
}
static DEVICE_ATTR_RO(cached);

static ssize_t node_show(struct device *dev, struct device_attribute *attr,
			 char *buf)
{
	return sysfs_emit(buf, "%d\n", to_gpumem(dev)->mem.node);
}
static DEVICE_ATTR_RO(node);

static ssize_t engine_show(struct device *dev, struct device_attribute *attr,
			   char *buf)
{
	return sysfs_emit(buf, "%s\n", to_gpumem(dev)->engine->ops->name);
}
static DEVICE_ATTR_RO(engine);

static ssize_t clients_show(struct device *dev, struct device_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "%d\n", atomic_read(&to_gpumem(dev)->clients));
}
static DEVICE_ATTR_RO(clients);

static ssize_t bos_show(struct device *dev, struct device_attribute *attr,
			char *buf)
{
	return sysfs_emit(buf, "%d\n", atomic_read(&to_gpumem(dev)->bos));
}
static DEVICE_ATTR_RO(bos);

static ssize_t exports_show(struct device *dev, struct device_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "%d\n", atomic_read(&to_gpumem(dev)->exports));
}
static DEVICE_ATTR_RO(exports);

static ssize_t views_show(struct device *dev, struct device_attribute *attr,
			  char *buf)
{
	return sysfs_emit(buf, "%d\n", atomic_read(&to_gpumem(dev)->views));
}
static DEVICE_ATTR_RO(views);

static ssize_t pools_show(struct device *dev, struct device_attribute *attr,
			  char *buf)
{
	return sysfs_emit(buf, "%d\n", atomic_read(&to_gpumem(dev)->pools));
}
static DEVICE_ATTR_RO(pools);

static ssize_t imports_show(struct device *dev, struct device_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "%d\n", atomic_read(&to_gpumem(dev)->imports));
}
static DEVICE_ATTR_RO(imports);

static ssize_t engine_ns_show(struct device *dev, struct device_attribute *attr,
			      char *buf)
{
	return sysfs_emit(buf, "%lld\n",
			  atomic64_read(&to_gpumem(dev)->engine_ns));
}
static DEVICE_ATTR_RO(engine_ns);

static ssize_t copy_bytes_show(struct device *dev,
			       struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%lld\n",
			  atomic64_read(&to_gpumem(dev)->copy_bytes));
}
static DEVICE_ATTR_RO(copy_bytes);

static ssize_t fill_bytes_show(struct device *dev,
			       struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%lld\n",
			  atomic64_read(&to_gpumem(dev)->fill_bytes));
}
static DEVICE_ATTR_RO(fill_bytes);

static ssize_t managed_show(struct device *dev, struct device_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "%llu\n", READ_ONCE(to_gpumem(dev)->mem.managed));
}
static DEVICE_ATTR_RO(managed);

static ssize_t pageable_show(struct device *dev, struct device_attribute *attr,
			     char *buf)
{
	return sysfs_emit(buf, "%d\n", gpumem_device_pageable(to_gpumem(dev)));
}
static DEVICE_ATTR_RO(pageable);

static ssize_t concurrent_managed_show(struct device *dev,
				       struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", gpumem_device_concurrent(to_gpumem(dev)));
}
static DEVICE_ATTR_RO(concurrent_managed);

static ssize_t host_used_show(const struct class *class,
			      const struct class_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", gpumem_linger_used(&gpumem_host_mem));
}
static CLASS_ATTR_RO(host_used);

static ssize_t managed_used_show(const struct class *class,
				 const struct class_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n",
			  gpumem_linger_used(&gpumem_managed_mem));
}
static CLASS_ATTR_RO(managed_used);

static ssize_t pinned_show(const struct class *class,
			   const struct class_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", gpumem_pin_used());
}
static CLASS_ATTR_RO(pinned);

static ssize_t rings_show(const struct class *class,
			  const struct class_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", gpumem_ring_used());
}
static CLASS_ATTR_RO(rings);

static struct attribute *gpumem_class_attrs[] = {
	&class_attr_host_used.attr,
	&class_attr_managed_used.attr,
	&class_attr_pinned.attr,
	&class_attr_rings.attr,
	NULL,
};

static const struct attribute_group gpumem_class_group = {
	.attrs = gpumem_class_attrs,
};

const struct attribute_group *gpumem_class_groups[] = {
	&gpumem_class_group,
	NULL,
};

static struct attribute *gpumem_device_attrs[] = {
	&dev_attr_size.attr,
	&dev_attr_used.attr,
	&dev_attr_cached.attr,
	&dev_attr_node.attr,
	&dev_attr_engine.attr,
	&dev_attr_clients.attr,
	&dev_attr_bos.attr,
	&dev_attr_exports.attr,
	&dev_attr_engine_ns.attr,
	&dev_attr_copy_bytes.attr,
	&dev_attr_fill_bytes.attr,
	&dev_attr_views.attr,
	&dev_attr_pools.attr,
	&dev_attr_imports.attr,
	&dev_attr_managed.attr,
	&dev_attr_pageable.attr,
	&dev_attr_concurrent_managed.attr,
	&dev_attr_budget.attr,
	NULL,
};

static const struct attribute_group gpumem_device_group = {
	.attrs = gpumem_device_attrs,
};

const struct attribute_group *gpumem_device_groups[] = {
	&gpumem_device_group,
	NULL,
};
