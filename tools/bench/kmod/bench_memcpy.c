// SPDX-License-Identifier: GPL-2.0
/*
 * bench_memcpy: the kernel's memcpy() of a process's pages, timed.
 *
 * A peer for the engine of gpumem, for throw-away machines: /dev/bench_memcpy
 * has one ioctl, with struct bench_memcpy (bench_memcpy.h).  The ioctl pins
 * both ranges, reads the clock, copies, and reads the clock again; pinning is
 * not timed.  Like the engine, it copies pages that are contiguous in memory
 * with one memcpy(), in pieces of at most a mebibyte.
 *
 * Only root can open the device: it keeps as much memory pinned as the caller
 * wants.
 */
#include <linux/highmem.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>

#include "bench_memcpy.h"

#define BENCH_PIECE	SZ_1M
#define BENCH_MOST	SZ_1G

struct bench_range {
	struct page **pages;
	long count;
};

static void bench_unpin(struct bench_range *range, bool dirty)
{
	if (range->count > 0)
		unpin_user_pages_dirty_lock(range->pages, range->count, dirty);
	kvfree(range->pages);
}

static int bench_pin(struct bench_range *range, u64 addr, u64 bytes, bool write)
{
	long want = bytes >> PAGE_SHIFT, got;

	range->count = 0;
	range->pages = kvcalloc(want, sizeof(*range->pages), GFP_KERNEL);
	if (!range->pages)
		return -ENOMEM;
	while (range->count < want) {
		got = pin_user_pages_fast(addr + (range->count << PAGE_SHIFT),
					  want - range->count,
					  write ? FOLL_WRITE : 0,
					  range->pages + range->count);
		if (got <= 0) {
			bench_unpin(range, false);
			return got ? got : -EFAULT;
		}
		range->count += got;
	}
	return 0;
}

/* The number of pages from @i on that are contiguous in both ranges. */
static long bench_run(const struct bench_range *dst,
		      const struct bench_range *src, long i)
{
	long n = 1;

	while (i + n < dst->count && n < BENCH_PIECE >> PAGE_SHIFT &&
	       page_to_pfn(dst->pages[i + n]) ==
	       page_to_pfn(dst->pages[i]) + n &&
	       page_to_pfn(src->pages[i + n]) ==
	       page_to_pfn(src->pages[i]) + n)
		n++;
	return n;
}

static void bench_copy(const struct bench_range *dst,
		       const struct bench_range *src)
{
	long i, n;

	for (i = 0; i < dst->count; i += n) {
		n = bench_run(dst, src, i);
		memcpy(page_address(dst->pages[i]), page_address(src->pages[i]),
		       n << PAGE_SHIFT);
		cond_resched();
	}
}

static long bench_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct bench_memcpy __user *user = (void __user *)arg;
	struct bench_range dst, src;
	struct bench_memcpy c;
	int ret;

	if (cmd != BENCH_MEMCPY)
		return -ENOTTY;
	if (copy_from_user(&c, user, sizeof(c)))
		return -EFAULT;
	if (!c.bytes || c.bytes > BENCH_MOST ||
	    (c.dst | c.src | c.bytes) & ~PAGE_MASK)
		return -EINVAL;
	ret = bench_pin(&dst, c.dst, c.bytes, true);
	if (ret)
		return ret;
	ret = bench_pin(&src, c.src, c.bytes, false);
	if (ret)
		goto out;
	c.begin = ktime_get_ns();
	bench_copy(&dst, &src);
	c.end = ktime_get_ns();
	bench_unpin(&src, false);
	if (copy_to_user(user, &c, sizeof(c)))
		ret = -EFAULT;
out:
	bench_unpin(&dst, true);
	return ret;
}

static const struct file_operations bench_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = bench_ioctl,
};

static struct miscdevice bench_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "bench_memcpy",
	.fops = &bench_fops,
	.mode = 0600,
};
module_misc_device(bench_misc);

MODULE_DESCRIPTION("The kernel's memcpy(), timed, for gpumem-bench");
MODULE_LICENSE("GPL");
