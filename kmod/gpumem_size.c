// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_size: the size of a device's memory, and its changes.
 *
 * A device begins with the size that the module's parameter vram gives it.  The
 * administrator may change the size at any time by the device's attribute
 * "size".
 *
 * The device's tmpfs mount enforces the size.  tmpfs accepts a new size, but
 * none below what it has in use.  So a device has two sizes: mem->size, which
 * the administrator wants, and mem->mount_size, which tmpfs enforces and which
 * is never smaller.  While they differ, each allocation first tries to give
 * tmpfs the wanted size, and fails if tmpfs has too much in use for it.
 * Blocks of managed memory that do not fit are evicted (gpumem_evict.c).
 * Clients keep the other memory that they have.  Allocations that were under
 * way when the size fell are finished.
 *
 * Locks: gpumem_size_lock protects both sizes.  They are read without it.
 */
#include <linux/ctype.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/fs_context.h>
#include <linux/kstrtox.h>
#include <linux/mount.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "gpumem_device.h"
#include "gpumem_evict.h"
#include "gpumem_lock.h"
#include "gpumem_mem.h"
#include "gpumem_notice.h"
#include "gpumem_shmem.h"

/* Suffixes of a number of bytes that gpumem_size_parse() reads, rising. */
static const char gpumem_size_suffixes[] = "KMGTPE";

static DEFINE_MUTEX(gpumem_size_lock);

/**
 * gpumem_size_parse - read a number of bytes that the administrator wrote
 * @text: decimal digits, then one of K, M, G, T, P and E in either case or nothing,
 *	then white space or nothing
 * @bytes: the number, out
 *
 * memparse() is no choice: it reduces a number of 2^64 or more modulo 2^64.
 *
 * Return: 0, or -EINVAL if @text has another form or needs more than 64 bits.
 */
int gpumem_size_parse(const char *text, u64 *bytes)
{
	size_t digits = strspn(text, "0123456789");
	const char *suffix = text + digits, *found;
	unsigned int shift = 0;
	char number[24];
	u64 n;

	if (digits >= sizeof(number))
		return -EINVAL;
	memcpy(number, text, digits);
	number[digits] = '\0';
	if (kstrtou64(number, 10, &n))
		return -EINVAL;
	found = *suffix ? strchr(gpumem_size_suffixes, toupper(*suffix)) : NULL;
	if (found) {
		shift = 10 * (found - gpumem_size_suffixes + 1);
		suffix++;
	}
	if (*skip_spaces(suffix) || n > U64_MAX >> shift)
		return -EINVAL;
	*bytes = n << shift;
	return 0;
}

/**
 * gpumem_size - how much memory there is to allocate from
 * @mem: memory
 *
 * Return: bytes; more may be in use.
 */
u64 gpumem_size(struct gpumem_mem *mem)
{
	return READ_ONCE(mem->size);
}

/* Give a mount a new size. */
static int gpumem_size_remount(struct gpumem_mem *mem, u64 bytes)
{
	struct super_block *sb = mem->mnt->mnt_sb;
	struct fs_parameter param = {
		.key = "size",
		.type = fs_value_is_string,
	};
	struct fs_context *fc;
	char text[24];
	int ret;

	param.size = snprintf(text, sizeof(text), "%llu", bytes);
	param.string = text;
	/* Not every kernel exports fs_context_for_reconfigure(). */
	fc = fs_context_for_mount(sb->s_type, SB_KERNMOUNT);
	if (IS_ERR(fc))
		return PTR_ERR(fc);
	atomic_inc(&sb->s_active);
	fc->root = dget(mem->mnt->mnt_root);
	ret = fc->ops->reconfigure ? vfs_parse_fs_param(fc, &param) :
				     -EOPNOTSUPP;
	if (!ret) {
		down_write(&sb->s_umount);
		ret = fc->ops->reconfigure(fc);
		up_write(&sb->s_umount);
	}
	put_fs_context(fc);
	return ret;
}

/* Make the mount enforce mem->size. */
static int gpumem_size_settle_locked(struct gpumem_mem *mem)
{
	int ret;

	lockdep_assert_held(&gpumem_size_lock);
	if (mem->mount_size == mem->size)
		return 0;
	/* tmpfs would refuse, and print an error. */
	if (gpumem_shmem_used(mem) > mem->size)
		return -ENOSPC;
	ret = gpumem_size_remount(mem, mem->size);
	if (!ret)
		WRITE_ONCE(mem->mount_size, mem->size);
	else if (ret == -EINVAL)
		/* More memory came into use after the check. */
		ret = -ENOSPC;
	return ret;
}

/**
 * gpumem_size_init - prepare the lock of the sizes
 */
void __init gpumem_size_init(void)
{
	gpumem_lockdep_class(&gpumem_size_lock, GPUMEM_LOCK_SIZE);
}

/**
 * gpumem_size_enforce - have a mount enforce its size before an allocation
 * @mem: memory
 *
 * Context: may sleep, without locks.
 * Return: 0, -ENOSPC while more than the size is in use, or -ENOMEM.
 */
int gpumem_size_enforce(struct gpumem_mem *mem)
{
	if (READ_ONCE(mem->mount_size) == READ_ONCE(mem->size))
		return 0;
	guard(mutex)(&gpumem_size_lock);
	return gpumem_size_settle_locked(mem);
}

static struct gpumem_device *gpumem_size_device(struct device *dev)
{
	return container_of(dev, struct gpumem_device, dev);
}

static ssize_t size_show(struct device *dev, struct device_attribute *attr,
			 char *buf)
{
	return sysfs_emit(buf, "%llu\n",
			  gpumem_size(&gpumem_size_device(dev)->mem));
}

static ssize_t size_store(struct device *dev, struct device_attribute *attr,
			  const char *buf, size_t count)
{
	struct gpumem_device *gdev = gpumem_size_device(dev);
	struct gpumem_mem *mem = &gdev->mem;
	u64 bytes, old;
	int ret;

	if (gpumem_size_parse(buf, &bytes) || bytes < SZ_2M ||
	    bytes > GPUMEM_SIZE_MAX)
		return -EINVAL;
	bytes = round_down(bytes, SZ_2M);
	scoped_guard(mutex, &gpumem_size_lock) {
		old = mem->size;
		WRITE_ONCE(mem->size, bytes);
		ret = gpumem_size_settle_locked(mem);
		/* Memory in use stays; allocations fail until they fit. */
		if (ret == -ENOSPC)
			ret = 0;
		if (ret)
			WRITE_ONCE(mem->size, old);
	}
	if (ret)
		return ret;
	gpumem_managed_trim(gdev);
	gpumem_notice_resized(gdev);
	return count;
}
DEVICE_ATTR_RW(size);
