// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_runner: the threads that execute a client's streams.
 *
 * A client has kernel threads of its own, one for each stream until there are as
 * many as its engine has workers, made with its first streams and stopped when
 * it dies.  They live in the cgroups of the task that made the stream: what the
 * streams move is charged there, is slowed down there, and competes with other
 * clients as their threads do.  Nobody's queue stands in front of another
 * client's.
 *
 * A stream is *idle*, *ready* (in one of two lists, those of high priority
 * first) or *running*; one that is kicked while it runs is made ready again
 * afterwards.  One thread at a time runs a stream, for a bounded number of
 * slices.
 *
 * Threads may be slowed down without end, so nobody but their own client may
 * ever wait for one.  Work that others wait for by a dma_fence is not done here
 * (gpumem_share.c).
 */
#include <linux/cgroup.h>
#include <linux/kthread.h>
#include <linux/pid.h>
#include <linux/sched/signal.h>

#include "gpumem_private.h"

/**
 * gpumem_runner_init - prepare the runner of a new client
 * @runner: in zeroed memory
 */
void gpumem_runner_init(struct gpumem_runner *runner)
{
	mutex_init(&runner->grow);
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
	/* Who only looks at a word, again and again, goes before nobody. */
	bool high = stream->high && !READ_ONCE(stream->poll_ns);

	lockdep_assert_held(&runner->lock);
	stream->run = GPUMEM_RUN_READY;
	list_add_tail(&stream->ready, &runner->ready[!high]);
}

/* After this @stream may be gone. */
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
	/* Who waits looks under the lock, after it is in the queue. */
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

static int gpumem_runner_thread(void *data)
{
	struct gpumem_worker *worker = data;
	struct gpumem_runner *runner = worker->runner;
	struct gpumem_stream *stream = NULL;
	bool more = false;

	for (;;) {
		spin_lock_irq(&runner->lock);
		list_del_init(&worker->idle);
		if (stream)
			gpumem_runner_give_back_locked(runner, stream, more);
		stream = gpumem_runner_take_locked(runner);
		if (!stream) {
			list_add(&worker->idle, &runner->idle);
			set_current_state(TASK_IDLE);
		}
		spin_unlock_irq(&runner->lock);
		if (stream) {
			more = gpumem_stream_run(stream);
			cond_resched();
			continue;
		}
		if (kthread_should_stop())
			break;
		schedule();
	}
	__set_current_state(TASK_RUNNING);
	/* Nobody may wake a thread that is gone. */
	spin_lock_irq(&runner->lock);
	list_del_init(&worker->idle);
	spin_unlock_irq(&runner->lock);
	return 0;
}

/**
 * gpumem_runner_kick - let a stream run, once more if it runs now
 * @stream: stream with a reference, or that cannot go away
 *
 * Context: any; the client's stream_lock and timelines' locks may be held.
 */
void gpumem_runner_kick(struct gpumem_stream *stream)
{
	struct gpumem_runner *runner = &stream->obj.client->runner;
	struct gpumem_worker *worker;
	unsigned long flags;

	spin_lock_irqsave(&runner->lock, flags);
	if (stream->run == GPUMEM_RUN_IDLE) {
		gpumem_runner_queue_locked(runner, stream);
		worker = list_first_entry_or_null(&runner->idle,
						  struct gpumem_worker, idle);
		/* Behind the lock there may be no stream and no client. */
		if (worker) {
			list_del_init(&worker->idle);
			wake_up_process(worker->task);
		}
	} else if (stream->run == GPUMEM_RUN_RUNNING) {
		stream->run = GPUMEM_RUN_AGAIN;
	}
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
	spin_unlock_irqrestore(&runner->lock, flags);
	return idle;
}

/**
 * gpumem_runner_cancel - take a stream out of the lists and wait while it runs
 * @stream: stream that does not make itself ready any more
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
 * @stream: stream that nobody kicks any more
 *
 * Return: true if the stream may be freed; false if a thread is about to give it
 * back, which calls gpumem_stream_reap_later().
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
	struct gpumem_runner *runner = &client->runner;
	struct gpumem_worker *worker = &runner->workers[runner->nworkers];
	struct task_struct *task;
	int ret;

	if (!runner->user)
		runner->user = gpumem_user_get();
	if (!runner->user)
		return -ENOMEM;
	if (!gpumem_user_add_thread(runner->user)) {
		/* Those that there are do the work. */
		if (runner->nworkers)
			return -EMFILE;
		gpumem_refused(client, &(struct gpumem_refusal) {
			.limit = GPUMEM_LIMIT_STREAMS,
			.dev = client->devices[0],
			.asked = 1,
			.used = GPUMEM_USER_THREADS,
			.max = GPUMEM_USER_THREADS,
		});
		return -EMFILE;
	}
	task = kthread_create(gpumem_runner_thread, worker, "gpumem/%d",
			      pid_nr(client->pid));
	if (IS_ERR(task)) {
		ret = PTR_ERR(task);
		goto err_charge;
	}
	ret = cgroup_attach_task_all(current, task);
	if (ret)
		goto err_stop;
	worker->runner = runner;
	worker->task = task;
	INIT_LIST_HEAD(&worker->idle);
	WRITE_ONCE(runner->nworkers, runner->nworkers + 1);
	wake_up_process(task);
	return 0;

err_stop:
	/* It has not begun; it ends at once. */
	kthread_stop(task);
err_charge:
	gpumem_user_del_threads(runner->user, 1);
	return ret;
}

/**
 * gpumem_runner_grow - have threads for one stream more
 * @client: caller's client
 * @streams: it has then
 * @workers: streams that its engine executes at the same time
 *
 * Return: 0 if there is at least one thread, or -ENOMEM, -EMFILE for a user with
 * too many, -EINTR when killed.
 */
int gpumem_runner_grow(struct gpumem_client *client, u64 streams,
		       unsigned int workers)
{
	struct gpumem_runner *runner = &client->runner;
	int ret = 0;

	workers = min3(streams, (u64)workers, (u64)GPUMEM_MAX_WORKERS);
	/* Never falls before the client dies. */
	if (READ_ONCE(runner->nworkers) >= workers)
		return 0;
	guard(mutex)(&runner->grow);
	while (runner->nworkers < workers && !ret)
		ret = gpumem_runner_add(client);
	return runner->nworkers ? 0 : ret;
}

/**
 * gpumem_runner_stop - end the threads of a dead client
 * @client: client whose streams are cancelled
 *
 * Context: may sleep; waits for nothing but the threads' way out.
 */
void gpumem_runner_stop(struct gpumem_client *client)
{
	struct gpumem_runner *runner = &client->runner;
	unsigned int i;

	if (!runner->user)
		return;
	for (i = 0; i < runner->nworkers; i++)
		kthread_stop(runner->workers[i].task);
	gpumem_user_del_threads(runner->user, runner->nworkers);
	gpumem_user_put(runner->user);
	runner->user = NULL;
}
