// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_runner: the workers that execute a client's streams.
 *
 * A worker is a vhost task: a thread of the process that opened the device,
 * which runs in the kernel only.  The scheduler, the cgroup controllers, the
 * freezer, SIGSTOP and debuggers treat it as they treat the process's other
 * threads.  A client gets one worker for each stream until it has as many as
 * its engine executes at a time, and at most GPUMEM_MAX_WORKERS.
 *
 * A stream is *idle*, *ready* (in one of two lists, high priority first) or
 * *running*.  A stream that is kicked while it runs becomes ready again
 * afterwards.  One worker at a time runs a stream, for a bounded number of
 * slices.
 *
 * A worker stops for a signal, the freezer, a debugger or a CPU limit in
 * get_signal() only.  It calls get_signal() between slices, when it has no
 * stream.  A kernel before 6.18 may also throttle a worker in the middle of a
 * slice.
 *
 * The end of a worker:
 *
 *  - A worker ends in two cases.  The client has ended: runner->ending is set.
 *    Or the process is killed, dumps core or calls execve(): the kernel calls
 *    gpumem_runner_killed().
 *  - The worker takes itself out of runner->idle, after which nothing calls
 *    wake_up_process() for it, and queues worker->end.
 *  - worker->end waits in vhost_task_stop() until the thread has left this
 *    module's code, and frees the worker.  No other code waits for a worker:
 *    its process may be stopped or frozen without end.
 *
 * A worker holds a reference on its client and one on the module.
 *
 * The kernel workers that execute entries with a published dma_fence
 * (gpumem_publish.c) are not workers of a runner.
 *
 * Locks: runner->lock (spin, irqsafe) protects the lists and the state of
 * streams in them.  runner->grow (mutex) serializes the creation of workers.
 */
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/sched/signal.h>
#include <linux/sched/vhost_task.h>
#include <linux/slab.h>

#include "gpumem_client.h"
#include "gpumem_device.h"
#include "gpumem_lock.h"
#include "gpumem_runner.h"
#include "gpumem_stream.h"

static struct workqueue_struct *gpumem_runner_wq;

/**
 * gpumem_runner_start - prepare what all runners share
 *
 * Return: 0 or -ENOMEM.
 */
int gpumem_runner_start(void)
{
	gpumem_runner_wq = alloc_workqueue("gpumem_runner", WQ_UNBOUND,
					   WQ_UNBOUND_MAX_ACTIVE);
	return gpumem_runner_wq ? 0 : -ENOMEM;
}

/**
 * gpumem_runner_exit - wait until the last worker is freed
 *
 * The module has no users: no worker runs.
 */
void gpumem_runner_exit(void)
{
	destroy_workqueue(gpumem_runner_wq);
}

/**
 * gpumem_runner_init - prepare the runner of a new client
 * @runner: in zeroed memory
 */
void gpumem_runner_init(struct gpumem_runner *runner)
{
	mutex_init(&runner->grow);
	gpumem_lockdep_class(&runner->grow, GPUMEM_LOCK_RUNNER_GROW);
	spin_lock_init(&runner->lock);
	gpumem_lockdep_class(&runner->lock, GPUMEM_LOCK_RUNNER);
	INIT_LIST_HEAD(&runner->ready[0]);
	INIT_LIST_HEAD(&runner->ready[1]);
	INIT_LIST_HEAD(&runner->idle);
	init_waitqueue_head(&runner->done);
}

static void gpumem_runner_queue_locked(struct gpumem_runner *runner,
				       struct gpumem_stream *stream)
{
	/* A stream that polls a word has no priority. */
	bool high = stream->high && !READ_ONCE(stream->poll_ns);

	lockdep_assert_held(&runner->lock);
	stream->run = GPUMEM_RUN_READY;
	list_add_tail(&stream->ready, &runner->ready[!high]);
}

/* The worker has left @stream, which may be freed after the unlock. */
static void gpumem_runner_give_back_locked(struct gpumem_runner *runner,
					   struct gpumem_stream *stream,
					   bool more)
{
	lockdep_assert_held(&runner->lock);
	if (stream->run == GPUMEM_RUN_LEAVING) {
		stream->run = GPUMEM_RUN_IDLE;
		gpumem_stream_reap_later(stream);
	} else if (more || stream->run == GPUMEM_RUN_AGAIN) {
		gpumem_runner_queue_locked(runner, stream);
	} else {
		stream->run = GPUMEM_RUN_IDLE;
	}
	/* A waiter enters the wait queue first and then checks under the lock. */
	if (waitqueue_active(&runner->done))
		wake_up_all(&runner->done);
}

static struct gpumem_stream *
gpumem_runner_take_locked(struct gpumem_runner *runner)
{
	struct gpumem_stream *stream;

	lockdep_assert_held(&runner->lock);
	stream = list_first_entry_or_null(&runner->ready[0],
					  struct gpumem_stream, ready);
	if (!stream)
		stream = list_first_entry_or_null(&runner->ready[1],
						  struct gpumem_stream, ready);
	if (stream) {
		list_del_init(&stream->ready);
		stream->run = GPUMEM_RUN_RUNNING;
	}
	return stream;
}

/* Wake the worker that went to sleep last, if a worker sleeps. */
static void gpumem_runner_wake_locked(struct gpumem_runner *runner)
{
	struct gpumem_worker *worker;

	lockdep_assert_held(&runner->lock);
	worker = list_first_entry_or_null(&runner->idle, struct gpumem_worker,
					  idle);
	if (!worker)
		return;
	list_del_init(&worker->idle);
	/*
	 * The task exists: a worker leaves the list before it ends.
	 * vhost_task_wake() takes a mutex on some kernels.
	 */
	wake_up_process(worker->task);
}

/* Wake another worker if a stream is ready; the caller is a worker. */
static void gpumem_runner_hand_over_locked(struct gpumem_runner *runner)
{
	if (!list_empty(&runner->ready[0]) || !list_empty(&runner->ready[1]))
		gpumem_runner_wake_locked(runner);
}

/**
 * gpumem_runner_must_leave - must the current worker call get_signal()?
 *
 * A task that exceeds its CPU limit is throttled by task work since 6.18, and a
 * vhost task runs task work in get_signal() only.
 *
 * Context: a worker, between slices.
 * Return: true if the worker should return its stream and leave this module.
 */
bool gpumem_runner_must_leave(void)
{
	if (test_thread_flag(TIF_NOTIFY_RESUME)) {
		clear_thread_flag(TIF_NOTIFY_RESUME);
		/* Work that is added from here on sets the flag again. */
		smp_mb__after_atomic();
		set_thread_flag(TIF_SIGPENDING);
	}
	return signal_pending(current);
}

static void gpumem_runner_end_locked(struct gpumem_worker *worker)
{
	struct gpumem_runner *runner = &worker->client->runner;

	lockdep_assert_held(&runner->lock);
	list_del_init(&worker->idle);
	if (worker->ending)
		return;
	worker->ending = true;
	queue_work(gpumem_runner_wq, &worker->end);
}

static void gpumem_runner_kick_locked(struct gpumem_runner *runner,
				      struct gpumem_stream *stream)
{
	lockdep_assert_held(&runner->lock);
	if (stream->run == GPUMEM_RUN_IDLE) {
		gpumem_runner_queue_locked(runner, stream);
		/* After the unlock the stream and the client may be gone. */
		gpumem_runner_wake_locked(runner);
	} else if (stream->run == GPUMEM_RUN_RUNNING) {
		stream->run = GPUMEM_RUN_AGAIN;
	}
}

/*
 * The entry of a stream needs a page fault (gpumem_pageable.c), which may wait
 * for userspace as long as that likes.  So the worker gives the stream back
 * first: the stream does not run until the fault has ended, and a task that
 * cancels it does not wait for the worker, but parts the two.
 */
static void gpumem_runner_fault(struct gpumem_worker *worker,
				struct gpumem_stream *stream)
{
	struct gpumem_runner *runner = &worker->client->runner;
	const struct gpumem_pageable_miss miss = stream->miss;
	int ret;

	stream->miss.len = 0;
	set_bit(GPUMEM_STREAM_FAULTING, &stream->state);
	spin_lock_irq(&runner->lock);
	worker->stream = stream;
	stream->faulter = worker;
	gpumem_runner_give_back_locked(runner, stream, false);
	/* Another worker runs the other streams. */
	gpumem_runner_hand_over_locked(runner);
	spin_unlock_irq(&runner->lock);
	ret = gpumem_pageable_fault(&miss);
	spin_lock_irq(&runner->lock);
	/* NULL if the stream was cancelled. */
	stream = worker->stream;
	worker->stream = NULL;
	if (stream) {
		stream->faulter = NULL;
		stream->fault = ret;
		/* Pairs with test_bit_acquire() in gpumem_stream_burst(). */
		clear_bit_unlock(GPUMEM_STREAM_FAULTING, &stream->state);
		gpumem_runner_kick_locked(runner, stream);
	}
	spin_unlock_irq(&runner->lock);
}

/*
 * The body of a worker.  The kernel calls it in TASK_INTERRUPTIBLE in a loop.
 * If it returns false, the task sleeps until something wakes it.
 */
static bool gpumem_runner_work(void *data)
{
	struct gpumem_worker *worker = data;
	struct gpumem_runner *runner = &worker->client->runner;
	struct gpumem_stream *stream = NULL;
	bool more = false;
	u64 begin, spent;

	worker->task = current;
	for (;;) {
		spin_lock_irq(&runner->lock);
		list_del_init(&worker->idle);
		if (stream)
			gpumem_runner_give_back_locked(runner, stream, more);
		stream = NULL;
		if (!runner->ending && !signal_pending(current))
			stream = gpumem_runner_take_locked(runner);
		if (!stream)
			break;
		spin_unlock_irq(&runner->lock);
		__set_current_state(TASK_RUNNING);
		begin = ktime_get_ns();
		more = gpumem_stream_run(stream);
		spent = ktime_get_ns() - begin;
		atomic64_add(spent, &worker->client->count.engine_ns);
		atomic64_add(spent, &stream->dev->engine_ns);
		if (unlikely(stream->miss.len)) {
			gpumem_runner_fault(worker, stream);
			stream = NULL;
		}
		cond_resched();
		gpumem_runner_must_leave();
	}
	if (!runner->ending && signal_pending(current)) {
		/* This worker may stop while other workers run. */
		gpumem_runner_hand_over_locked(runner);
		spin_unlock_irq(&runner->lock);
		__set_current_state(TASK_RUNNING);
		return true;
	}
	/*
	 * A wake-up after this point is not lost.  Once worker->end is queued,
	 * the wake-up of vhost_task_stop() may have come already: keep the
	 * state that the calling thread function set before it checked for a
	 * stop.
	 */
	if (!worker->ending)
		set_current_state(TASK_INTERRUPTIBLE);
	if (runner->ending)
		gpumem_runner_end_locked(worker);
	else
		list_add(&worker->idle, &runner->idle);
	spin_unlock_irq(&runner->lock);
	return false;
}

/* The worker's process ends, dumps core or executes another program. */
static void gpumem_runner_killed(void *data)
{
	struct gpumem_worker *worker = data;
	struct gpumem_client *client = worker->client;

	/* The worker's reference on the client lasts until this task exits. */
	gpumem_client_orphan(client);
	spin_lock_irq(&client->runner.lock);
	gpumem_runner_end_locked(worker);
	spin_unlock_irq(&client->runner.lock);
}

static void gpumem_runner_end(struct work_struct *work)
{
	struct gpumem_worker *worker = container_of(work, struct gpumem_worker,
						    end);

	vhost_task_stop(worker->vhost);
	gpumem_client_put(worker->client);
	kfree(worker);
	/* gpumem_runner_exit() waits for this function. */
	module_put(THIS_MODULE);
}

/**
 * gpumem_runner_kick - make a stream ready; if it runs, ready again afterwards
 * @stream: stream with a reference, or that cannot go away
 *
 * Context: any; the client's stream_lock and timelines' locks may be held.
 */
void gpumem_runner_kick(struct gpumem_stream *stream)
{
	struct gpumem_runner *runner = &stream->obj.client->runner;
	unsigned long flags;

	spin_lock_irqsave(&runner->lock, flags);
	gpumem_runner_kick_locked(runner, stream);
	spin_unlock_irqrestore(&runner->lock, flags);
}

static bool gpumem_runner_withdraw(struct gpumem_runner *runner,
				   struct gpumem_stream *stream)
{
	unsigned long flags;
	bool idle;

	spin_lock_irqsave(&runner->lock, flags);
	if (stream->run == GPUMEM_RUN_READY) {
		list_del_init(&stream->ready);
		stream->run = GPUMEM_RUN_IDLE;
	} else if (stream->run == GPUMEM_RUN_AGAIN) {
		stream->run = GPUMEM_RUN_RUNNING;
	}
	idle = stream->run == GPUMEM_RUN_IDLE;
	if (idle && stream->faulter) {
		stream->faulter->stream = NULL;
		stream->faulter = NULL;
	}
	spin_unlock_irqrestore(&runner->lock, flags);
	return idle;
}

/**
 * gpumem_runner_cancel - take a stream out of the lists and wait while it runs
 * @stream: stream that no longer makes itself ready
 *
 * Context: may sleep; not in a thread of the client's.
 */
void gpumem_runner_cancel(struct gpumem_stream *stream)
{
	struct gpumem_runner *runner = &stream->obj.client->runner;

	wait_event(runner->done, gpumem_runner_withdraw(runner, stream));
}

/**
 * gpumem_runner_leave - take a stream out of the lists for good
 * @stream: stream without further kicks
 *
 * Return: true if the caller may free the stream; false if a worker still runs
 * it.  That worker calls gpumem_stream_reap_later() when it leaves the stream.
 */
bool gpumem_runner_leave(struct gpumem_stream *stream)
{
	struct gpumem_runner *runner = &stream->obj.client->runner;
	unsigned long flags;
	bool idle;

	spin_lock_irqsave(&runner->lock, flags);
	if (stream->run == GPUMEM_RUN_READY) {
		list_del_init(&stream->ready);
		stream->run = GPUMEM_RUN_IDLE;
	}
	idle = stream->run == GPUMEM_RUN_IDLE;
	if (!idle)
		stream->run = GPUMEM_RUN_LEAVING;
	spin_unlock_irqrestore(&runner->lock, flags);
	return idle;
}

static int gpumem_runner_add(struct gpumem_client *client)
{
	struct gpumem_worker *worker;
	char name[TASK_COMM_LEN];
	int ret;

	worker = kzalloc(sizeof(*worker), GFP_KERNEL_ACCOUNT);
	if (!worker)
		return -ENOMEM;
	worker->client = client;
	INIT_LIST_HEAD(&worker->idle);
	INIT_WORK(&worker->end, gpumem_runner_end);
	snprintf(name, sizeof(name), "gpumem/%d", task_tgid_vnr(current));
	worker->vhost = vhost_task_create(gpumem_runner_work,
					  gpumem_runner_killed, worker, name);
	if (IS_ERR_OR_NULL(worker->vhost)) {
		/* Some kernels answer NULL, whatever the reason is. */
		ret = worker->vhost ? PTR_ERR(worker->vhost) : -EAGAIN;
		kfree(worker);
		/* The call also fails if a signal is pending: handle it. */
		if (ret != -ENOMEM && signal_pending(current))
			ret = -ERESTARTNOINTR;
		return ret;
	}
	kref_get(&client->ref);
	__module_get(THIS_MODULE);
	WRITE_ONCE(client->runner.nworkers, client->runner.nworkers + 1);
	vhost_task_start(worker->vhost);
	return 0;
}

/**
 * gpumem_runner_grow - create workers for one more stream
 * @client: the caller's client
 * @streams: streams of @client, the new one included
 * @workers: streams that the engine executes at the same time
 *
 * If the kernel refuses another thread, and the client has a worker, the new
 * stream shares the existing workers.  The creation of the next stream tries
 * again.
 *
 * Return: 0 if there is at least one worker, -EPERM outside the process that
 * opened the device, -EAGAIN if the process may have no more threads
 * (RLIMIT_NPROC, pids.max), -ENOMEM, or -ERESTARTNOINTR.
 */
int gpumem_runner_grow(struct gpumem_client *client, u64 streams,
		       unsigned int workers)
{
	struct gpumem_runner *runner = &client->runner;
	int ret = 0;

	/* A worker is a thread of the caller's process. */
	if (task_tgid(current) != client->pid)
		return -EPERM;
	workers = min3(streams, (u64)workers, (u64)GPUMEM_MAX_WORKERS);
	if (READ_ONCE(runner->nworkers) >= workers)
		return 0;
	guard(mutex)(&runner->grow);
	while (runner->nworkers < workers && !ret)
		ret = gpumem_runner_add(client);
	if (ret == -EAGAIN && !runner->nworkers)
		pr_info_ratelimited("gpumem: %s: no thread for a stream of process %d: see RLIMIT_NPROC and pids.max\n",
				    dev_name(&client->devices[0]->dev),
				    task_tgid_nr(current));
	return runner->nworkers ? 0 : ret;
}

/**
 * gpumem_runner_stop - tell the workers to end
 * @client: client whose streams are cancelled
 *
 * Context: any.  Does not wait for the workers.
 */
void gpumem_runner_stop(struct gpumem_client *client)
{
	struct gpumem_runner *runner = &client->runner;
	unsigned long flags;

	spin_lock_irqsave(&runner->lock, flags);
	runner->ending = true;
	while (!list_empty(&runner->idle))
		gpumem_runner_wake_locked(runner);
	spin_unlock_irqrestore(&runner->lock, flags);
}
