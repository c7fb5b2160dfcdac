/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Runners: the workers that execute a client's streams.
 *
 * Locks: runner->lock and runner->grow; see the fields.
 */
#ifndef GPUMEM_RUNNER_H
#define GPUMEM_RUNNER_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

struct gpumem_client;
struct gpumem_stream;
struct task_struct;
struct vhost_task;

/* Workers that a client may have. */
#define GPUMEM_MAX_WORKERS	16

/**
 * struct gpumem_worker - a thread that executes a client's streams
 */
struct gpumem_worker {
	/** @client: whose streams; referenced; constant */
	struct gpumem_client *client;
	/** @vhost: the thread, for @end, which waits for it; constant */
	struct vhost_task *vhost;
	/** @task: the thread, which sets it before it adds @idle to a list */
	struct task_struct *task;
	/** @idle: in runner->idle while it sleeps; runner->lock */
	struct list_head idle;
	/** @stream: whose page fault it handles, or NULL; runner->lock */
	struct gpumem_stream *stream;
	/** @ending: @end is queued; runner->lock */
	bool ending;
	/** @end: waits for the thread and frees the worker */
	struct work_struct end;
};

/**
 * struct gpumem_runner - the workers that execute a client's streams
 */
struct gpumem_runner {
	/** @grow: serializes the creation of workers */
	struct mutex grow;
	/** @lock: protects the lists, @ending, gpumem_stream.run and .ready */
	spinlock_t lock;
	/** @ready: [0]: ready streams of high priority, [1]: the others */
	struct list_head ready[2];
	/** @idle: sleeping workers, first the one that went to sleep last */
	struct list_head idle;
	/** @done: callers that wait until a stream stops running */
	wait_queue_head_t done;
	/** @nworkers: number of workers made; written under @grow */
	unsigned int nworkers;
	/** @ending: tells the workers to end; @lock */
	bool ending;
};

/* gpumem_runner.c */
void gpumem_runner_init(struct gpumem_runner *runner);
void gpumem_runner_kick(struct gpumem_stream *stream);
void gpumem_runner_cancel(struct gpumem_stream *stream);
bool gpumem_runner_leave(struct gpumem_stream *stream);
bool gpumem_runner_must_leave(void);
int gpumem_runner_start(void);
void gpumem_runner_exit(void);
int gpumem_runner_grow(struct gpumem_client *client, u64 streams,
		       unsigned int workers);
void gpumem_runner_stop(struct gpumem_client *client);

#endif /* GPUMEM_RUNNER_H */
