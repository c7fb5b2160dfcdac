// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_delay: delay points, places in the code where a test can stop a task.
 *
 * Only in a module built with GPUMEM_DELAY=1.  gpumem_delay.h lists the points.
 * The file gpumem/delay in debugfs arms them.  One write is one command:
 *
 *	NAME MS		the next task at NAME sleeps for MS milliseconds
 *	NAME wait	the next task at NAME sleeps until "NAME go", ten
 *			seconds at most
 *	NAME go		the task that sleeps at NAME goes on, or NAME is
 *			disarmed; ESRCH if no task slept there and NAME was
 *			not armed
 *	reset		"go" for all points
 *
 * Reading gives a line for each point: its name, "idle", "armed" or "stopped",
 * and how often a task stopped there since the module was loaded.
 *
 * A point stops one task and is idle again afterwards.  The sleep ends early
 * when the task is killed.  A point has no lock: its state changes by compare
 * and exchange, and its time is written before it is armed.
 */
#include <linux/atomic.h>
#include <linux/debugfs.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>
#include <linux/wait.h>

#include "gpumem_delay.h"

#define GPUMEM_DELAY_MOST_MS	10000

/**
 * enum gpumem_delay_state - state of a point
 * @GPUMEM_DELAY_IDLE: tasks that reach the point go on
 * @GPUMEM_DELAY_ARMING: tasks go on; a command is writing the time
 * @GPUMEM_DELAY_ARMED: the next task stops
 * @GPUMEM_DELAY_STOPPED: a task has stopped; other tasks go on
 */
enum gpumem_delay_state {
	GPUMEM_DELAY_IDLE,
	GPUMEM_DELAY_ARMING,
	GPUMEM_DELAY_ARMED,
	GPUMEM_DELAY_STOPPED,
};

/**
 * struct gpumem_delay_point - a place in the source
 * @name: constant
 * @state: enum gpumem_delay_state
 * @ms: time to sleep; written by the task that set @state to ARMING
 * @stops: tasks that stopped here
 */
struct gpumem_delay_point {
	const char *name;
	atomic_t state;
	unsigned int ms;
	atomic_t stops;
};

#define GPUMEM_DELAY_NAME(point)	{ .name = #point },
static struct gpumem_delay_point gpumem_delay_points[GPUMEM_DELAYS] = {
	GPUMEM_DELAY_POINTS(GPUMEM_DELAY_NAME)
};

static const char * const gpumem_delay_states[] = {
	[GPUMEM_DELAY_IDLE] = "idle",
	[GPUMEM_DELAY_ARMING] = "idle",
	[GPUMEM_DELAY_ARMED] = "armed",
	[GPUMEM_DELAY_STOPPED] = "stopped",
};

static DECLARE_WAIT_QUEUE_HEAD(gpumem_delay_queue);
static struct dentry *gpumem_delay_dir;

/**
 * gpumem_delay_at - stop if the point is armed
 * @kind: which
 *
 * Context: may sleep.
 */
void gpumem_delay_at(enum gpumem_delay_kind kind)
{
	struct gpumem_delay_point *point = &gpumem_delay_points[kind];
	int stop;

	might_sleep();
	if (likely(atomic_read(&point->state) != GPUMEM_DELAY_ARMED))
		return;
	if (atomic_cmpxchg(&point->state, GPUMEM_DELAY_ARMED,
			   GPUMEM_DELAY_STOPPED) != GPUMEM_DELAY_ARMED)
		return;
	stop = atomic_inc_return(&point->stops);
	/* A task that "go" released may not have checked its condition yet. */
	wake_up_all(&gpumem_delay_queue);
	/* Sleep no less than the time: the current jiffy is partly over. */
	wait_event_killable_timeout(gpumem_delay_queue,
				    atomic_read(&point->state) !=
				    GPUMEM_DELAY_STOPPED ||
				    atomic_read(&point->stops) != stop,
				    msecs_to_jiffies(point->ms) + 1);
	/* After "go" the state may belong to the next task that stopped. */
	if (atomic_read(&point->stops) == stop)
		atomic_cmpxchg(&point->state, GPUMEM_DELAY_STOPPED,
			       GPUMEM_DELAY_IDLE);
}

static int gpumem_delay_arm(struct gpumem_delay_point *point, unsigned int ms)
{
	if (atomic_cmpxchg(&point->state, GPUMEM_DELAY_IDLE,
			   GPUMEM_DELAY_ARMING) != GPUMEM_DELAY_IDLE)
		return -EBUSY;
	point->ms = ms;
	/* A task that sees the state sees the time. */
	atomic_set_release(&point->state, GPUMEM_DELAY_ARMED);
	return 0;
}

static int gpumem_delay_go(struct gpumem_delay_point *point)
{
	int old;

	old = atomic_cmpxchg(&point->state, GPUMEM_DELAY_ARMED,
			     GPUMEM_DELAY_IDLE);
	if (old == GPUMEM_DELAY_STOPPED)
		old = atomic_cmpxchg(&point->state, GPUMEM_DELAY_STOPPED,
				     GPUMEM_DELAY_IDLE);
	wake_up_all(&gpumem_delay_queue);
	return old == GPUMEM_DELAY_ARMED || old == GPUMEM_DELAY_STOPPED ?
	       0 : -ESRCH;
}

static int gpumem_delay_command(char *line)
{
	char *name = strsep(&line, " ");
	struct gpumem_delay_point *point;
	unsigned int i, ms;

	if (!line && !strcmp(name, "reset")) {
		for (i = 0; i < GPUMEM_DELAYS; i++)
			gpumem_delay_go(&gpumem_delay_points[i]);
		return 0;
	}
	if (!line)
		return -EINVAL;
	for (i = 0; i < GPUMEM_DELAYS; i++)
		if (!strcmp(gpumem_delay_points[i].name, name))
			break;
	if (i == GPUMEM_DELAYS)
		return -ENOENT;
	point = &gpumem_delay_points[i];
	if (!strcmp(line, "go"))
		return gpumem_delay_go(point);
	if (!strcmp(line, "wait"))
		return gpumem_delay_arm(point, GPUMEM_DELAY_MOST_MS);
	if (kstrtouint(line, 10, &ms) || ms > GPUMEM_DELAY_MOST_MS)
		return -EINVAL;
	return gpumem_delay_arm(point, ms);
}

static ssize_t gpumem_delay_write(struct file *file, const char __user *buf,
				  size_t count, loff_t *pos)
{
	char line[64];
	int ret;

	if (count >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, buf, count))
		return -EFAULT;
	line[count] = '\0';
	ret = gpumem_delay_command(strim(line));
	return ret ?: count;
}

static int gpumem_delay_show(struct seq_file *m, void *unused)
{
	struct gpumem_delay_point *point;
	unsigned int i;

	for (i = 0; i < GPUMEM_DELAYS; i++) {
		point = &gpumem_delay_points[i];
		seq_printf(m, "%s %s %d\n", point->name,
			   gpumem_delay_states[atomic_read(&point->state)],
			   atomic_read(&point->stops));
	}
	return 0;
}

static int gpumem_delay_open(struct inode *inode, struct file *file)
{
	return single_open(file, gpumem_delay_show, NULL);
}

static const struct file_operations gpumem_delay_fops = {
	.owner = THIS_MODULE,
	.open = gpumem_delay_open,
	.read = seq_read,
	.write = gpumem_delay_write,
	.llseek = seq_lseek,
	.release = single_release,
};

/**
 * gpumem_delay_init - create the file in debugfs
 *
 * Without debugfs there are no commands, and nothing ever stops.
 */
void gpumem_delay_init(void)
{
	gpumem_delay_dir = debugfs_create_dir("gpumem", NULL);
	debugfs_create_file("delay", 0600, gpumem_delay_dir, NULL,
			    &gpumem_delay_fops);
}

/**
 * gpumem_delay_exit - remove the file from debugfs
 *
 * No task executes code of the module, except the caller.
 */
void gpumem_delay_exit(void)
{
	debugfs_remove(gpumem_delay_dir);
}
