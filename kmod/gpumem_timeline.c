// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_timeline: timelines, and callbacks when a timeline reaches a value.
 *
 * A timeline is a number that only rises.  Its client maps a page with it
 * read-only: one load tells whether a value has been reached.  A task that
 * sleeps (GPUMEM_TIMELINE_WAIT) and a stream that waits add a waiter each.  The
 * timeline calls the waiter when its value is reached.
 *
 * There may be any number of waiters.  A tree has them in the order of their
 * values, so that raising a timeline costs nothing for waiters of higher
 * values.  The task that raises the timeline calls the others a few at a time,
 * and drops the lock in between.  So a waiter may still be in the tree when its
 * value has been reached.  The owner of a waiter that finds the value reached
 * removes the waiter before it continues.
 *
 * A timeline belongs either to a stream, which raises it by one with each
 * entry, or to the client, which raises it by ioctl or by a signal or add
 * entry.  Clients that imported the timeline (gpumem_semaphore.c) raise it in
 * the same ways.  A timeline is *lost* when its stream has ended or, without a
 * stream, when the id of the client that made it is gone.  Its remaining
 * waiters are called then, and get ECANCELED unless the timeline has an error.
 *
 * The value of a *counting* timeline is the number of its signals.  It stays at
 * the largest number instead of an overflow: another client, which may have
 * raised it there, must not make the entries of this one fail.  The signals are
 * numbered.  A client takes the next number before the signal comes, and waits
 * for the timeline to reach it.  The order of GPUMEM_TIMELINE_TAKE calls decides
 * which wait gets which signal.  The order in which streams execute does not.
 *
 * The kernel never reads the page: the structure has a copy of everything.  The
 * error is stored before the value, so a reader that sees the value sees the
 * error.
 *
 * Locks: timeline->lock (spin, irqsafe) protects the value, the error and the
 * waiters.
 */
#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/sched/signal.h>
#include <linux/time_namespace.h>

#include "gpumem_client.h"
#include "gpumem_delay.h"
#include "gpumem_ioctl.h"
#include "gpumem_lock.h"
#include "gpumem_object.h"
#include "gpumem_semaphore.h"
#include "gpumem_timeline.h"

static_assert(sizeof(struct gpumem_timeline_page) == 128);

/* Waiters that are called under one hold of a timeline's lock. */
#define GPUMEM_WAKE_BATCH	32

/**
 * gpumem_timeline_alloc - make a timeline
 * @client: whose counters it is in
 * @value: where it starts
 * @of_stream: raised by a stream
 *
 * Return: the timeline, or NULL without memory.
 */
struct gpumem_timeline *gpumem_timeline_alloc(struct gpumem_client *client,
					      u64 value, bool of_stream)
{
	struct gpumem_timeline *timeline = kzalloc(sizeof(*timeline),
						   GFP_KERNEL_ACCOUNT);

	if (!timeline)
		return NULL;
	timeline->page = (void *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
	if (!timeline->page) {
		kfree(timeline);
		return NULL;
	}
	gpumem_object_init(&timeline->obj, client, GPUMEM_OBJ_TIMELINE);
	spin_lock_init(&timeline->lock);
	gpumem_lockdep_class(&timeline->lock, GPUMEM_LOCK_TIMELINE);
	timeline->waiters = RB_ROOT_CACHED;
	timeline->of_stream = of_stream;
	timeline->value = value;
	timeline->page->value = value;
	return timeline;
}

/**
 * gpumem_timeline_release - free a timeline
 * @obj: head of the timeline, without references
 *
 * Mappings of the page hold references on the page, not on the timeline.
 */
void gpumem_timeline_release(struct gpumem_object *obj)
{
	struct gpumem_timeline *timeline =
		container_of(obj, struct gpumem_timeline, obj);

	WARN_ON(!RB_EMPTY_ROOT(&timeline->waiters.rb_root));
	gpumem_sync_free(timeline);
	free_page((unsigned long)timeline->page);
	kfree(timeline);
}

static bool gpumem_waiter_before(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct gpumem_waiter, node)->value <
	       rb_entry(b, struct gpumem_waiter, node)->value;
}

static void gpumem_waiter_remove_locked(struct gpumem_timeline *timeline,
					struct gpumem_waiter *waiter)
{
	lockdep_assert_held(&timeline->lock);
	if (RB_EMPTY_NODE(&waiter->node))
		return;
	rb_erase_cached(&waiter->node, &timeline->waiters);
	RB_CLEAR_NODE(&waiter->node);
}

/* Call a few waiters for @value or less.  True if there may be more. */
static bool gpumem_timeline_wake_some(struct gpumem_timeline *timeline,
				      u64 value)
{
	struct gpumem_waiter *waiter;
	struct rb_node *first;
	unsigned int i;

	lockdep_assert_held(&timeline->lock);
	for (i = 0; i < GPUMEM_WAKE_BATCH; i++) {
		first = rb_first_cached(&timeline->waiters);
		if (!first)
			return false;
		waiter = rb_entry(first, struct gpumem_waiter, node);
		if (waiter->value > value)
			return false;
		gpumem_waiter_remove_locked(timeline, waiter);
		/* After this the waiter may be freed or used again. */
		waiter->wake(waiter);
	}
	return true;
}

/*
 * Call all waiters for @value or less, and drop the lock.  The timeline has
 * reached @value, or is lost.  No such waiter can be added, so the loop ends.
 * A task that raises the timeline further while the lock is dropped calls the
 * waiters up to its own value.  The caller has a reference on the timeline.
 */
static void gpumem_timeline_wake_unlock(struct gpumem_timeline *timeline,
					u64 value, unsigned long flags)
	__releases(&timeline->lock)
{
	while (gpumem_timeline_wake_some(timeline, value)) {
		spin_unlock_irqrestore(&timeline->lock, flags);
		cond_resched();
		spin_lock_irqsave(&timeline->lock, flags);
	}
	spin_unlock_irqrestore(&timeline->lock, flags);
}

/**
 * gpumem_timeline_raise - set a new value
 * @timeline: timeline
 * @value: a value that is not higher changes nothing
 *
 * Context: may sleep.
 */
void gpumem_timeline_raise(struct gpumem_timeline *timeline, u64 value)
{
	unsigned long flags;

	might_sleep();
	spin_lock_irqsave(&timeline->lock, flags);
	if (value > timeline->value) {
		timeline->value = value;
		/* A reader that sees the value sees all work done before. */
		smp_store_release(&timeline->page->value, value);
		gpumem_timeline_wake_unlock(timeline, value, flags);
	} else {
		spin_unlock_irqrestore(&timeline->lock, flags);
	}
}

/**
 * gpumem_timeline_add - raise by a number
 * @timeline: timeline
 * @value: number
 *
 * Context: may sleep.
 * Return: 0, or -EOVERFLOW if the sum needs more than 64 bits and the timeline
 * does not count; nothing changes then.
 */
int gpumem_timeline_add(struct gpumem_timeline *timeline, u64 value)
{
	unsigned long flags;
	u64 sum;

	might_sleep();
	spin_lock_irqsave(&timeline->lock, flags);
	if (check_add_overflow(timeline->value, value, &sum)) {
		if (!timeline->counting) {
			spin_unlock_irqrestore(&timeline->lock, flags);
			return -EOVERFLOW;
		}
		sum = U64_MAX;
	}
	timeline->value = sum;
	/* As in gpumem_timeline_raise(). */
	smp_store_release(&timeline->page->value, sum);
	gpumem_timeline_wake_unlock(timeline, sum, flags);
	return 0;
}

/**
 * gpumem_timeline_state - has a value been reached?
 * @timeline: timeline
 * @value: value
 *
 * Return: enum gpumem_event_state.
 */
enum gpumem_event_state gpumem_timeline_state(struct gpumem_timeline *timeline,
					      u64 value)
{
	enum gpumem_event_state state = GPUMEM_EVENT_PENDING;
	unsigned long flags;

	spin_lock_irqsave(&timeline->lock, flags);
	if (timeline->value >= value)
		state = GPUMEM_EVENT_COMPLETE;
	else if (timeline->lost)
		state = GPUMEM_EVENT_LOST;
	spin_unlock_irqrestore(&timeline->lock, flags);
	return state;
}

/**
 * gpumem_timeline_get - look up a timeline, of this or of another client
 * @client: whose id it is
 * @id: id of a timeline, or of a handle of one
 *
 * Return: the timeline with a reference, or NULL.
 */
struct gpumem_timeline *gpumem_timeline_get(struct gpumem_client *client,
					    u32 id)
{
	struct gpumem_object *obj = gpumem_object_get_any(client, id);
	struct gpumem_timeline *timeline = NULL;

	if (!obj)
		return NULL;
	if (obj->type == GPUMEM_OBJ_TIMELINE)
		return container_of(obj, struct gpumem_timeline, obj);
	if (obj->type == GPUMEM_OBJ_TIMELINE_REF) {
		timeline = container_of(obj, struct gpumem_timeline_ref,
					obj)->timeline;
		kref_get(&timeline->obj.ref);
	}
	gpumem_object_put(obj);
	return timeline;
}

/**
 * gpumem_timeline_ref_alloc - make a handle of a timeline
 * @client: client that gets it
 * @timeline: gets a reference
 *
 * Return: the handle, or NULL without memory.
 */
struct gpumem_timeline_ref *
gpumem_timeline_ref_alloc(struct gpumem_client *client,
			  struct gpumem_timeline *timeline)
{
	struct gpumem_timeline_ref *tref = kzalloc(sizeof(*tref),
						   GFP_KERNEL_ACCOUNT);

	if (!tref)
		return NULL;
	gpumem_object_init(&tref->obj, client, GPUMEM_OBJ_TIMELINE_REF);
	kref_get(&timeline->obj.ref);
	tref->timeline = timeline;
	return tref;
}

/**
 * gpumem_timeline_ref_release - free a handle of a timeline
 * @obj: head of the handle, without references
 */
void gpumem_timeline_ref_release(struct gpumem_object *obj)
{
	struct gpumem_timeline_ref *tref =
		container_of(obj, struct gpumem_timeline_ref, obj);

	gpumem_object_put(&tref->timeline->obj);
	kfree(tref);
}

/**
 * gpumem_timeline_fail - remember an error
 * @timeline: timeline
 * @error: positive errno; the first one stays
 *
 * Context: any.
 */
void gpumem_timeline_fail(struct gpumem_timeline *timeline, u32 error)
{
	unsigned long flags;

	spin_lock_irqsave(&timeline->lock, flags);
	if (!timeline->error) {
		WRITE_ONCE(timeline->error, error);
		/* The entry that fails comes after those completed. */
		WRITE_ONCE(timeline->page->failed, timeline->value);
		/* A client that sees the error sees the number of the entry. */
		smp_store_release(&timeline->page->error, error);
	}
	spin_unlock_irqrestore(&timeline->lock, flags);
}

/**
 * gpumem_timeline_lose - end a timeline that will not be raised again
 * @timeline: timeline
 *
 * Context: may sleep.
 */
void gpumem_timeline_lose(struct gpumem_timeline *timeline)
{
	unsigned long flags;

	might_sleep();
	spin_lock_irqsave(&timeline->lock, flags);
	timeline->lost = true;
	gpumem_timeline_wake_unlock(timeline, U64_MAX, flags);
}

/**
 * gpumem_timeline_handle_gone - the id of a timeline was destroyed
 * @obj: head of the timeline
 *
 * Signal and add entries name timelines by id.  So without an id only a stream
 * can still raise its own timeline, and clients that imported a timeline can.
 * The latter is lost all the same: a client that waits for it depends on the
 * client that made it, and on no other.
 */
void gpumem_timeline_handle_gone(struct gpumem_object *obj)
{
	struct gpumem_timeline *timeline =
		container_of(obj, struct gpumem_timeline, obj);

	gpumem_sync_stop(timeline);
	if (!timeline->of_stream)
		gpumem_timeline_lose(timeline);
}

/**
 * gpumem_waiter_init - prepare a waiter
 * @waiter: in no timeline
 * @wake: what is to be called
 */
void gpumem_waiter_init(struct gpumem_waiter *waiter,
			void (*wake)(struct gpumem_waiter *waiter))
{
	RB_CLEAR_NODE(&waiter->node);
	waiter->wake = wake;
}

/**
 * gpumem_timeline_add_waiter - have a waiter called when its value is reached
 * @timeline: timeline
 * @waiter: initialized, with @value set; in no timeline
 *
 * Return: true if @waiter was added; false if its value is reached already, or
 * the timeline is lost.
 */
bool gpumem_timeline_add_waiter(struct gpumem_timeline *timeline,
				struct gpumem_waiter *waiter)
{
	unsigned long flags;
	bool wait;

	gpumem_delay(waiter_add);
	spin_lock_irqsave(&timeline->lock, flags);
	wait = !timeline->lost && waiter->value > timeline->value;
	if (wait)
		rb_add_cached(&waiter->node, &timeline->waiters,
			      gpumem_waiter_before);
	spin_unlock_irqrestore(&timeline->lock, flags);
	if (wait)
		gpumem_delay(waiter_added);
	return wait;
}

/**
 * gpumem_timeline_del_waiter - remove a waiter
 * @timeline: timeline
 * @waiter: may have been called already
 *
 * After this @waiter is not called.
 */
void gpumem_timeline_del_waiter(struct gpumem_timeline *timeline,
				struct gpumem_waiter *waiter)
{
	unsigned long flags;

	spin_lock_irqsave(&timeline->lock, flags);
	gpumem_waiter_remove_locked(timeline, waiter);
	spin_unlock_irqrestore(&timeline->lock, flags);
}

/**
 * gpumem_timeline_mmap - show a timeline's page
 * @timeline: timeline
 * @vma: one page, read-only, offset 0
 *
 * Return: 0 or a negative errno.
 */
int gpumem_timeline_mmap(struct gpumem_timeline *timeline,
			 struct vm_area_struct *vma)
{
	if (vma->vm_pgoff || vma_pages(vma) != 1)
		return -EINVAL;
	if (vma->vm_flags & (VM_WRITE | VM_EXEC))
		return -EACCES;
	vm_flags_mod(vma, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP,
		     VM_MAYWRITE | VM_MAYEXEC);
	return vm_insert_page(vma, vma->vm_start,
			      virt_to_page(timeline->page));
}

int gpumem_ioctl_timeline_create(struct gpumem_ucmd *ucmd)
{
	struct gpumem_timeline_create *cmd = ucmd->cmd;
	struct gpumem_timeline *timeline;
	int ret;

	if (cmd->flags & ~GPUMEM_TIMELINE_COUNTING || cmd->reserved)
		return -EOPNOTSUPP;
	timeline = gpumem_timeline_alloc(ucmd->client, cmd->value, false);
	if (!timeline)
		return -ENOMEM;
	timeline->counting = cmd->flags & GPUMEM_TIMELINE_COUNTING;
	/* A number that counts would tell how many others there are. */
	timeline->number = get_random_u64() ?: 1;
	ret = gpumem_object_reserve(ucmd, &timeline->obj);
	if (ret) {
		gpumem_object_put(&timeline->obj);
		return ret;
	}
	cmd->id = timeline->obj.id;
	return gpumem_ucmd_respond(ucmd, sizeof(*cmd));
}

int gpumem_ioctl_timeline_signal(struct gpumem_ucmd *ucmd)
{
	struct gpumem_timeline_signal *cmd = ucmd->cmd;
	struct gpumem_timeline *timeline = gpumem_timeline_get(ucmd->client,
							       cmd->id);
	int ret = 0;

	if (!timeline)
		return -ENOENT;
	if (gpumem_timeline_fixed(timeline))
		ret = -EINVAL;
	else
		gpumem_timeline_raise(timeline, cmd->value);
	gpumem_object_put(&timeline->obj);
	return ret;
}

static u64 gpumem_timeline_next(struct gpumem_timeline *timeline)
{
	unsigned long flags;
	u64 value;

	spin_lock_irqsave(&timeline->lock, flags);
	value = timeline->taken + 1;
	spin_unlock_irqrestore(&timeline->lock, flags);
	return value;
}

/* Take signal @value.  False: another task has taken it. */
static bool gpumem_timeline_take(struct gpumem_timeline *timeline, u64 value)
{
	unsigned long flags;
	bool next;

	spin_lock_irqsave(&timeline->lock, flags);
	next = timeline->taken + 1 == value;
	if (next)
		timeline->taken = value;
	spin_unlock_irqrestore(&timeline->lock, flags);
	return next;
}

/*
 * The answer is written before the signal is taken, because a call that fails
 * changes nothing.  Each further round means that another task took a signal.
 */
int gpumem_ioctl_timeline_take(struct gpumem_ucmd *ucmd)
{
	struct gpumem_timeline_take *cmd = ucmd->cmd;
	struct gpumem_timeline *timeline = gpumem_timeline_get(ucmd->client,
							       cmd->id);
	int ret = -EINVAL;

	if (!timeline)
		return -ENOENT;
	while (timeline->counting) {
		cmd->value = gpumem_timeline_next(timeline);
		ret = gpumem_ucmd_respond(ucmd, sizeof(*cmd));
		if (ret || gpumem_timeline_take(timeline, cmd->value))
			break;
		cond_resched();
	}
	gpumem_object_put(&timeline->obj);
	return ret;
}

/* A task that sleeps until a value is reached. */
struct gpumem_sleeper {
	struct gpumem_waiter waiter;
	struct task_struct *task;
};

/*
 * Called under timeline->lock.  The task exists: it takes this lock before it
 * leaves gpumem_timeline_sleep().
 */
static void gpumem_sleeper_wake(struct gpumem_waiter *waiter)
{
	wake_up_process(container_of(waiter, struct gpumem_sleeper,
				     waiter)->task);
}

/**
 * gpumem_clock_offset - how far the caller's monotonic clocks are ahead
 *
 * A time namespace shifts CLOCK_MONOTONIC and CLOCK_MONOTONIC_RAW alike, by an
 * offset that is constant once a process is in the namespace.
 *
 * Context: a process, not a kernel thread.
 * Return: ns to add to the kernel's own time.
 */
s64 gpumem_clock_offset(void)
{
	struct timespec64 offset = {};

	timens_add_monotonic(&offset);
	return timespec64_to_ns(&offset);
}

/* The kernel's time for a time of the caller's CLOCK_MONOTONIC. */
static ktime_t gpumem_time_to_host(u64 ns)
{
	ktime_t host;

	if (check_sub_overflow((ktime_t)min_t(u64, ns, KTIME_MAX),
			       gpumem_clock_offset(), &host))
		return KTIME_MAX;
	/* A time before the start of the clock has passed. */
	return max(host, 0);
}

static int gpumem_timeline_sleep(struct gpumem_timeline *timeline, u64 value,
				 u64 deadline)
{
	ktime_t expires = gpumem_time_to_host(deadline);
	ktime_t *timeout = deadline == U64_MAX ? NULL : &expires;
	struct gpumem_sleeper sleeper = { .task = current };
	int ret = 0;

	gpumem_waiter_init(&sleeper.waiter, gpumem_sleeper_wake);
	sleeper.waiter.value = value;
	if (!gpumem_timeline_add_waiter(timeline, &sleeper.waiter))
		return 0;
	if (timeout && ktime_get() >= expires)
		ret = -ETIMEDOUT;
	while (!ret) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (gpumem_timeline_state(timeline, value) !=
		    GPUMEM_EVENT_PENDING)
			break;
		if (signal_pending(current)) {
			ret = -ERESTARTSYS;
			break;
		}
		/* 0 means that the time has passed. */
		if (!schedule_hrtimeout(timeout, HRTIMER_MODE_ABS)) {
			if (gpumem_timeline_state(timeline, value) ==
			    GPUMEM_EVENT_PENDING)
				ret = -ETIMEDOUT;
			break;
		}
	}
	__set_current_state(TASK_RUNNING);
	gpumem_timeline_del_waiter(timeline, &sleeper.waiter);
	return ret;
}

/*
 * The deadline is absolute, so a wait that a signal handler interrupted is
 * restarted with the same arguments.
 */
int gpumem_ioctl_timeline_wait(struct gpumem_ucmd *ucmd)
{
	struct gpumem_timeline_wait *cmd = ucmd->cmd;
	struct gpumem_timeline *timeline;
	unsigned long flags;
	int ret;

	if (cmd->flags)
		return -EOPNOTSUPP;
	timeline = gpumem_timeline_get(ucmd->client, cmd->id);
	if (!timeline)
		return -ENOENT;
	ret = gpumem_timeline_sleep(timeline, cmd->value, cmd->deadline);
	if (!ret || ret == -ETIMEDOUT) {
		spin_lock_irqsave(&timeline->lock, flags);
		cmd->error = timeline->error;
		cmd->reached = timeline->value;
		if (!ret && !cmd->error && cmd->reached < cmd->value)
			cmd->error = ECANCELED;
		spin_unlock_irqrestore(&timeline->lock, flags);
		if (!ret && cmd->error)
			ret = -EIO;
		if (gpumem_ucmd_respond(ucmd, sizeof(*cmd)))
			ret = -EFAULT;
	}
	gpumem_object_put(&timeline->obj);
	return ret;
}
