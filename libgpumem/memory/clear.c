// SPDX-License-Identifier: MIT
/*
 * The cleaner: a thread that clears freed units of shared blocks in the background.
 *
 * A unit of a shared block is cleared before it gets its next owner (block.c). If a program frees and allocates
 * large ranges, the cleaner (thread gpumem-clear) clears units while the program does something else. If the
 * cleaner has not cleared a range in time, the allocating thread clears it, as in a process without a cleaner.
 * The environment variable GPUMEM_CLEAR=0 turns the cleaner off.
 *
 * Owns the thread and a fixed number of jobs. A job is a range of free, dirty units of one block. The units
 * stay free: the cleaner never changes which units an allocation finds, only how many of them are dirty. The
 * cleaner makes a queued job running and then done, with the number of units that are clean now. An allocation
 * takes back the jobs that its units lie in, and queues the remaining units again. If such a job is running,
 * the allocation stops the cleaner at the end of a piece of 16 KiB.
 *
 * The cleaner takes no lock. So no thread waits for a cleaner that is not scheduled, with two exceptions, each
 * bounded by one piece: a thread that allocates units of the running job, and a thread that destroys the block
 * of these units. A thread that waits raises @holds. While @holds is not zero the cleaner begins no job, so a
 * thread waits once. @beat is odd while the cleaner may have a job; its change ends the wait.
 *
 * The cleaner clears by reading /dev/zero: memory that failed or that the program has protected makes read()
 * fail, where a store would raise a signal. Such units stay dirty. The cleaner has a descriptor table of its
 * own, so the program can neither close nor see the descriptor of /dev/zero.
 *
 * Waking a thread costs about as much as clearing 64 KiB. So a free does not wake the cleaner while frees
 * follow each other: the cleaner naps, first for NAP_LEAST, then longer and longer while it finds no job, and
 * shorter when it finds one. A free can end a nap of more than NAP_DEAF. When a nap would be longer than
 * NAP_MOST, after about a second, the cleaner sleeps until a free wakes it. If allocations take jobs back
 * faster than the shortest nap lets it begin them, the cleaner is of no use: it makes naps of up to
 * NAP_IN_VAIN, and no free wakes it.
 *
 * The cleaner is started when callers have had to clear CLEAR_OWED bytes in ranges that it would have taken. If
 * it cannot be started, no job is queued. A forked child has no cleaner and needs none: the library is closed
 * in the child.
 *
 * Locks: mem_lock for blocks and for jobs that are unused or done. The state of a job is atomic.
 *
 * Vocabulary: clean, a free unit that is zero; dirty, any other free unit.
 */
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "memory/memory.h"

#define JOBS		64
#define PIECE		((16u << 10) / UNIT)	/* between two looks at @holds, in units */
#define CLEAR_OWED	(1u << 20)
#define STACK_BYTES	(256u << 10)

#define USEC		1000ull
#define MSEC		1000000ull
#define NAP_LEAST	(200 * USEC)
#define NAP_DEAF	(5 * MSEC)	/* a longer nap can be ended by a free */
#define NAP_IN_VAIN	(50 * MSEC)	/* while the cleaner comes too late */
#define NAP_MOST	(400 * MSEC)

/* A free ends a sleep, or a long nap, if it queues a range of so many units, or if so many jobs are queued. */
#define WAKE_UNITS	((64u << 10) / UNIT)
#define WAKE_JOBS	8
#define ROUSE_UNITS	((256u << 10) / UNIT)
#define ROUSE_JOBS	16

enum job_state { UNUSED, QUEUED, RUNNING, DONE };

/*
 * Each in a cache line of its own: an allocation and a free of the same range then fetch only one line from the
 * cleaner's processor.
 */
struct job {
	uint32_t state;			/* enum job_state; atomic */
	bool failed;			/* the units that are not clean cannot be written */
	unsigned int first, units;
	unsigned int clean;		/* units from the first on */
	struct block *block;
	uint64_t addr;
} __attribute__((aligned(64)));

/* What the cleaner does. AWAKE: it runs, or is in a nap that no free ends. */
enum { AWAKE, ROUSABLE, ASLEEP };

bool clear_wanted;
static struct job jobs[JOBS];
static uint64_t jobs_taken;		/* jobs in use; mem_lock */
static uint32_t resting __attribute__((aligned(64)));	/* AWAKE and so on; atomic; a futex */
static uint32_t beat __attribute__((aligned(64)));	/* atomic; a futex */
static uint32_t holds;			/* atomic */
/* Queued jobs that were taken back, counted; mem_lock to write; atomic. */
static uint64_t lost __attribute__((aligned(64)));
static bool cleaner_running;		/* the cleaner runs jobs; atomic */
static bool cleaner_started;		/* it was started, or the start failed; mem_lock */
static uint64_t owed;			/* bytes of clear_owed(); mem_lock */
static int zero_fd;			/* in the cleaner's own table */

static uint64_t bit(unsigned int job)
{
	return 1ull << job;
}

/* ---- jobs; mem_lock is held */

static void rouse(unsigned int units)
{
	uint32_t rest = __atomic_load_n(&resting, __ATOMIC_SEQ_CST);
	unsigned int i, count = 0;

	if (likely(rest == AWAKE))
		return;
	for (i = 0; i < JOBS; i++)
		count += load_relaxed(&jobs[i].state) == QUEUED;
	if (rest == ASLEEP ? units < WAKE_UNITS && count < WAKE_JOBS :
	    units < ROUSE_UNITS && count < ROUSE_JOBS)
		return;
	if (__atomic_exchange_n(&resting, AWAKE, __ATOMIC_SEQ_CST) != AWAKE)
		syscall(SYS_futex, &resting, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* End a job that is neither queued nor running: update the block's dirty map. */
static void job_drop(unsigned int i)
{
	struct job *job = &jobs[i];

	map_clear(job->block->dirty, job->first, job->clean);
	store_relaxed(&job->state, UNUSED);
	job->block->clearing &= ~bit(i);
	jobs_taken &= ~bit(i);
}

/* Take a job back; false while it is running. */
static bool job_back(unsigned int i)
{
	uint32_t state = QUEUED;

	if (__atomic_compare_exchange_n(&jobs[i].state, &state, UNUSED, false, __ATOMIC_ACQUIRE,
					__ATOMIC_ACQUIRE)) {
		store_relaxed(&lost, lost + 1);
		return true;
	}
	return state == DONE;
}

/* Drop all jobs that are done. */
static void jobs_drop_over(void)
{
	unsigned int i;

	for (i = 0; i < JOBS; i++)
		if (load_acquire(&jobs[i].state) == DONE)
			job_drop(i);
}

void clear_put(struct block *block, unsigned int first, unsigned int units)
{
	struct job *job;
	unsigned int i;

	if (units < CLEAR_LEAST || block->dark || !load_relaxed(&cleaner_running))
		return;
	if (unlikely(!~jobs_taken))
		jobs_drop_over();
	if (unlikely(!~jobs_taken))
		return;
	i = __builtin_ctzll(~jobs_taken);
	job = &jobs[i];
	job->failed = false;
	job->first = first;
	job->units = units;
	job->clean = 0;
	job->block = block;
	job->addr = block->base + first * UNIT;
	jobs_taken |= bit(i);
	block->clearing |= bit(i);
	/* The cleaner reads the state after it has stored @resting. */
	__atomic_exchange_n(&job->state, QUEUED, __ATOMIC_SEQ_CST);
	rouse(units);
}

/* Queue the units in [from, end) that are not in [first, last). */
static void put_outside(struct block *block, unsigned int from, unsigned int end,
			unsigned int first, unsigned int last)
{
	if (from < first)
		clear_put(block, from, (end < first ? end : first) - from);
	if (end > last)
		clear_put(block, from > last ? from : last, end - (from > last ? from : last));
}

bool clear_take(struct block *block, unsigned int first, unsigned int units)
{
	unsigned int last = first + units;
	uint64_t left = block->clearing;

	for (; left; left &= left - 1) {
		unsigned int i = __builtin_ctzll(left);
		struct job *job = &jobs[i];
		unsigned int from, end = job->first + job->units;
		bool meets = job->first < last && first < end;

		if (!meets && load_acquire(&job->state) != DONE)
			continue;
		if (!job_back(i))
			return false;
		from = job->failed ? end : job->first + job->clean;
		job_drop(i);
		put_outside(block, from, end, first, last);
	}
	return true;
}

void clear_owed(unsigned int units)
{
	if (cleaner_started || !client.clearing)
		return;
	owed += units * UNIT;
	if (owed >= CLEAR_OWED)
		store_relaxed(&clear_wanted, true);
}

/* ---- stopping the cleaner */

void clear_await(bool *held)
{
	unsigned int spins = client.spins;
	uint32_t seen;

	if (!*held)
		__atomic_fetch_add(&holds, 1, __ATOMIC_SEQ_CST);
	*held = true;
	seen = __atomic_load_n(&beat, __ATOMIC_SEQ_CST);
	lock_drop(&mem_lock);
	while (seen & 1 && load_acquire(&beat) == seen) {
		if (spins)
			spins--;
		else
			syscall(SYS_futex, &beat, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
	}
	lock_take(&mem_lock);
}

void clear_go(void)
{
	__atomic_fetch_sub(&holds, 1, __ATOMIC_SEQ_CST);
}

void clear_forget(struct block *block)
{
	bool held = false;

	lock_take(&mem_lock);
	while (block->clearing) {
		unsigned int i = __builtin_ctzll(block->clearing);

		if (job_back(i)) {
			job_drop(i);
			continue;
		}
		clear_await(&held);
	}
	lock_drop(&mem_lock);
	if (held)
		clear_go();
}

/* ---- the cleaner */

static void job_run(struct job *job)
{
	unsigned int clean = 0;

	while (clean < job->units && !job->failed) {
		unsigned int want = job->units - clean;
		ssize_t got = read(zero_fd, (void *)(uintptr_t)(job->addr + clean * UNIT),
				   (want < PIECE ? want : PIECE) * UNIT);

		/* read() is cut short where memory cannot be written. */
		if (got < (ssize_t)UNIT)
			job->failed = true;
		else
			clean += got / UNIT;
		if (__atomic_load_n(&holds, __ATOMIC_SEQ_CST))
			break;
	}
	job->clean = clean;
	store_release(&job->state, DONE);
}

static void beat_once(void)
{
	__atomic_fetch_add(&beat, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&holds, __ATOMIC_SEQ_CST))
		syscall(SYS_futex, &beat, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Run the queued jobs, until @holds forbids to begin one. True: a job was run. */
static bool run_queued(void)
{
	bool ran = false, held = false;
	unsigned int i;

	for (i = 0; i < JOBS && !held; i++) {
		uint32_t state = QUEUED;

		if (load_relaxed(&jobs[i].state) != QUEUED)
			continue;
		beat_once();
		held = __atomic_load_n(&holds, __ATOMIC_SEQ_CST);
		/* Other threads may have taken the job back since, and queued it again. */
		if (!held && __atomic_compare_exchange_n(&jobs[i].state, &state, RUNNING, false,
							 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
			job_run(&jobs[i]);
			ran = true;
		}
		beat_once();
	}
	return ran;
}

static bool any_queued(void)
{
	unsigned int i;

	for (i = 0; i < JOBS; i++)
		if (__atomic_load_n(&jobs[i].state, __ATOMIC_SEQ_CST) == QUEUED)
			return true;
	return false;
}

/* Nap for @ns, or sleep if it is 0. @how: AWAKE and so on, stored for frees, which may end the rest. */
static void rest(uint32_t how, uint64_t ns)
{
	const struct timespec time = { .tv_nsec = ns };

	/* Short naps do not write the word, which stays in the caches of freeing threads. */
	if (how != AWAKE)
		__atomic_store_n(&resting, how, __ATOMIC_SEQ_CST);
	if (how == AWAKE || ns || !any_queued())
		syscall(SYS_futex, &resting, FUTEX_WAIT_PRIVATE, how, ns ? &time : NULL, NULL, 0);
	if (how != AWAKE)
		store_relaxed(&resting, AWAKE);
}

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void clear_always(void)
{
	uint64_t nap = NAP_LEAST, last = now_ns(), seen = load_relaxed(&lost);

	for (;;) {
		uint64_t now, more;
		uint32_t how = AWAKE;
		bool found = run_queued();

		now = now_ns();
		more = load_relaxed(&lost) - seen;
		seen += more;
		if (more * NAP_LEAST / 2 > now - last) {
			nap = min_u64(nap + nap / 2, NAP_IN_VAIN);
		} else if (more) {
			nap = NAP_LEAST;
		} else if (found) {
			/* So the number of looks per job does not depend on the time between jobs. */
			nap = nap / 4 > NAP_LEAST ? nap / 4 : NAP_LEAST;
		} else {
			nap += nap / 2;
			how = nap > NAP_MOST ? ASLEEP : nap > NAP_DEAF ? ROUSABLE : AWAKE;
		}
		last = now;
		rest(how, how == ASLEEP ? 0 : nap);
		if (how == ASLEEP) {
			nap = NAP_LEAST;
			last = now_ns();
		}
	}
}

static void *clear_main(void *arg)
{
	const struct sched_param param = { 0 };

	/* A thread of SCHED_BATCH preempts no running thread when it wakes. */
	sched_setscheduler(0, SCHED_BATCH, &param);
	if (!syscall(SYS_close_range, 0, ~0u, CLOSE_RANGE_UNSHARE)) {
		zero_fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
		if (zero_fd >= 0) {
			store_release(&cleaner_running, true);
			clear_always();
		}
	}
	/* Do not end: the thread that made this one is about to give it a name. */
	for (;;)
		rest(AWAKE, 0);
	return arg;
}

void clear_start(void)
{
	bool first;

	lock_take(&mem_lock);
	first = !cleaner_started;
	cleaner_started = true;
	store_relaxed(&clear_wanted, false);
	lock_drop(&mem_lock);
	if (first)
		thread_make(clear_main, NULL, "gpumem-clear", STACK_BYTES);
}
