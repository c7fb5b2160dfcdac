// SPDX-License-Identifier: GPL-2.0
/*
 * A module that misbehaves on purpose: insmod splats.ko mode=NAME.
 *
 * Each mode makes the kernel complain in one way.  The runner's self-test,
 * test_run.py, has a table of the same modes and checks that the runner notices
 * each complaint.  "none" does nothing.  Some modes are noticed by debug
 * kernels only; the table in test_run.py says which.  The modes "camera-warn"
 * and "camera-late" make the thread of the test camera vivid complain, later and
 * once; they need a kernel with kprobes.  Never load this outside a guest.
 */
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/platform_device.h>
#include <linux/refcount.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

static char *mode = "none";
module_param(mode, charp, 0);
MODULE_PARM_DESC(mode, "what to do wrong");

static DEFINE_MUTEX(first);
static DEFINE_MUTEX(second);
static DEFINE_SPINLOCK(spin);
static void *lost;

static void use_after_free(void)
{
	char *p = kmalloc(100, GFP_KERNEL);
	char *stale = p;

	if (!p)
		return;
	OPTIMIZER_HIDE_VAR(stale);
	kfree(p);
	WRITE_ONCE(stale[3], 1);
}

static void out_of_bounds(void)
{
	char *p = kmalloc(100, GFP_KERNEL);
	size_t past = 100;

	if (!p)
		return;
	OPTIMIZER_HIDE_VAR(past);
	WRITE_ONCE(p[past], 1);
	kfree(p);
}

static void lock_order(void)
{
	mutex_lock(&first);
	mutex_lock(&second);
	mutex_unlock(&second);
	mutex_unlock(&first);
	mutex_lock(&second);
	mutex_lock(&first);
	mutex_unlock(&first);
	mutex_unlock(&second);
}

static void lock_kept(void)
{
	mutex_lock(&first);
}

static void sleep_in_atomic(void)
{
	spin_lock(&spin);
	msleep(20);
	spin_unlock(&spin);
}

static void warn(void)
{
	WARN_ON(1);
}

static void oops(void)
{
	unsigned long nowhere = 8;

	OPTIMIZER_HIDE_VAR(nowhere);
	WRITE_ONCE(*(int *)nowhere, 1);
}

static void leak(void)
{
	int i;

	for (i = 0; i < 10; i++)
		lost = kmalloc(4096, GFP_KERNEL);
	lost = NULL;
}

static void shift(void)
{
	int by = 40;

	OPTIMIZER_HIDE_VAR(by);
	pr_info("splats: %d\n", 1 << by);
}

static void refcount(void)
{
	refcount_t r = REFCOUNT_INIT(0);

	refcount_inc(&r);
}

static void dma(void)
{
	struct platform_device *p = platform_device_register_simple("splats", -1, NULL, 0);

	if (IS_ERR(p))
		return;
	if (!dma_coerce_mask_and_coherent(&p->dev, DMA_BIT_MASK(64)))
		dma_unmap_single(&p->dev, 0x1234000, 4096, DMA_TO_DEVICE);
	platform_device_unregister(p);
}

static void hang(void)
{
	local_irq_disable();
	for (;;)
		cpu_relax();
}

static void die(void)
{
	panic("splats: asked to");
}

/* In the thread of vivid only, and the first time only. */
static bool camera_sleeps(void)
{
	static atomic_t times;

	return !strncmp(current->comm, "vivid-", 6) && !atomic_fetch_inc(&times);
}

static int warn_in_camera(struct kprobe *p, struct pt_regs *regs)
{
	WARN_ON(camera_sleeps());
	return 0;
}

/* vivid passes a negative time-out if it loses the processor after computing it. */
static int be_late_in_camera(struct kprobe *p, struct pt_regs *regs)
{
	if (camera_sleeps())
		regs->di = -3;
	return 0;
}

static struct kprobe probe = { .symbol_name = "schedule_timeout" };

static void probe_camera(kprobe_pre_handler_t handler)
{
	int ret;

	probe.pre_handler = handler;
	ret = register_kprobe(&probe);
	if (ret) {
		pr_err("splats: no kprobe: %d\n", ret);
		probe.pre_handler = NULL;
	}
}

static void camera_warn(void)
{
	probe_camera(warn_in_camera);
}

static void camera_late(void)
{
	probe_camera(be_late_in_camera);
}

static void none(void)
{
}

static const struct {
	const char *name;
	void (*run)(void);
} modes[] = {
	{ "none", none },
	{ "use-after-free", use_after_free },
	{ "out-of-bounds", out_of_bounds },
	{ "lock-order", lock_order },
	{ "lock-kept", lock_kept },
	{ "sleep-in-atomic", sleep_in_atomic },
	{ "warn", warn },
	{ "oops", oops },
	{ "leak", leak },
	{ "shift", shift },
	{ "refcount", refcount },
	{ "dma", dma },
	{ "hang", hang },
	{ "panic", die },
	{ "camera-warn", camera_warn },
	{ "camera-late", camera_late },
};

static int __init splats_init(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(modes); i++) {
		if (!strcmp(modes[i].name, mode)) {
			modes[i].run();
			return 0;
		}
	}
	return -EINVAL;
}
module_init(splats_init);

static void __exit splats_exit(void)
{
	if (probe.pre_handler)
		unregister_kprobe(&probe);
}
module_exit(splats_exit);

MODULE_DESCRIPTION("Misbehaves on purpose");
MODULE_LICENSE("GPL");
