// SPDX-License-Identifier: MIT
/*
 * Steps that wait: when steps run, in an order in which the streams may execute them.
 *
 * Each step runs when it is submitted, but for three: one that waits for a value that nobody has written yet, one that
 * waits for a signal that has not run, and one that comes after a step that waits.
 *
 * Each actor has a queue of its steps that have not run. Only its first step can run. A first step that cannot is
 * *parked* under a key: the semaphore, version or address that it waits for, or the actor whose step comes before it.
 * A signal, a record, a write or a step of this actor looks at the steps of its key again, and at no other steps. Steps
 * that can run do so in passes, each in the order of submission. A step that another one lets run runs in the same pass
 * if it was submitted later.
 *
 * *Sources* are steps that something may wait for: signals, records, writes of a word, host functions. They are found
 * by the key of what they change.
 *
 * If the program knows that a stream is done though a step of it still waits, something that the checker does not see
 * satisfied the wait. The step then comes after all that has run.
 *
 * If another process may have signalled a semaphore, and no signal of this process ended the wait, the step runs when
 * the program knows that the wait is over. It comes after all that this process had published by then. The same is true of
 * a wait for an event that only other processes have recorded.
 *
 * At most WAITING_MOST steps wait. If there are more, the actor of the oldest one is lost (check.h): its steps run, and
 * none of them is compared. An actor that is lost waits for nothing.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "check/check.h"

#define NESTED		32u		/* streams that wait for each other, in steps_settle() */
#define WAITING_MOST	32768u
#define BUCKETS		1024u

static struct step *waiting, **waiting_end = &waiting;	/* in the order of submission */
static unsigned int waiting_count;
static struct actor *waiting_actors, **waiting_actors_end = &waiting_actors;
static struct step *parked[BUCKETS], *sources[BUCKETS];
static uint64_t submissions;		/* the number of the last step that was submitted */

/* Steps that can run, by number: in this pass, and in the next one. */
static struct step *ready, *ready_later;
static uint64_t running;		/* number of the step that runs, or 0 */
static bool passes;			/* steps run */
static bool loss_known;			/* losses_known() is due after them */

static unsigned int bucket(uint64_t key)
{
	return key * 0x9e3779b97f4a7c15ull >> 54;
}

/* ---- sources */

/* Whether another process may wait for a step, and then signal. */
static bool step_publishes(const struct step *step)
{
	return (step->kind == STEP_SIGNAL && step->semaphore->shared) ||
	       (step->kind == STEP_RECORD && step->version->passed);
}

/* Whether a step writes a value that the checker knows to a word. */
static bool step_writes(const struct step *step, uint64_t addr)
{
	const struct memory *memory = step->dst.memory;

	if (step->kind == STEP_WRITE_VALUE)
		return step->addr == addr;
	return step->kind == STEP_ACCESS && step->writes && step->known && memory && memory->kind != MEMORY_ARRAY &&
		memory->base + step->dst.at == addr;
}

static uint64_t host_key(uint64_t handle, const void *function, const void *arg)
{
	return (handle + 3 * (uintptr_t)function + 5 * (uintptr_t)arg) | 1;
}

/* The key of what a step changes, or 0. */
static uint64_t source_key(const struct step *step)
{
	const struct memory *memory = step->dst.memory;

	switch (step->kind) {
	case STEP_SIGNAL:
		return (uintptr_t)step->semaphore;
	case STEP_RECORD:
		return (uintptr_t)step->version;
	case STEP_WRITE_VALUE:
		return step->addr;
	case STEP_ACCESS:
		return memory && step_writes(step, memory->base + step->dst.at) ? memory->base + step->dst.at : 0;
	case STEP_HOST:
		return host_key(step->addr, step->function, step->arg);
	default:
		return 0;
	}
}

static void source_add(struct step *step)
{
	uint64_t key = source_key(step);
	struct step **list = &sources[bucket(key)];

	if (!key)
		return;
	step->next_source = *list;
	step->link_source = list;
	if (*list)
		(*list)->link_source = &step->next_source;
	*list = step;
}

static void source_remove(struct step *step)
{
	if (!step->link_source)
		return;
	*step->link_source = step->next_source;
	if (step->next_source)
		step->next_source->link_source = step->link_source;
	step->link_source = NULL;
}

static void step_publish(struct step *step)
{
	if (step->publishes || !step_publishes(step))
		return;
	step->publishes = true;
	step->actor->publishes++;
}

void steps_published(const void *key)
{
	struct step *step;

	for (step = sources[bucket((uintptr_t)key)]; step; step = step->next_source)
		step_publish(step);
}

/*
 * Come after all that another process may have waited for: what was published, and what has run in streams whose next
 * steps publish it and wait.
 */
void join_published(struct clock *clock)
{
	const struct actor *actor;

	clock_join(clock, &published);
	for (actor = waiting_actors; actor; actor = actor->next_waiting)
		if (actor->publishes)
			clock_join(clock, &actor->clock);
}

/*
 * A signal of another actor that may end a wait for a semaphore and has not run, or NULL. Of a binary semaphore, the
 * first one. Of a timeline semaphore, the one of the lowest value: a program signals it first. A stream executes its
 * own later signals after the wait, so they do not end it.
 */
static const struct step *signal_missing(const struct step *await)
{
	const struct step *step, *found = NULL;

	for (step = sources[bucket((uintptr_t)await->semaphore)]; step; step = step->next_source) {
		if (step->kind != STEP_SIGNAL || step->semaphore != await->semaphore || step->actor == await->actor)
			continue;
		if (!step->semaphore->counts && step->value < await->value)
			continue;
		if (!found || (!step->semaphore->counts && step->value != found->value ?
			       step->value < found->value : step->number < found->number))
			found = step;
	}
	return found;
}

/* The first write of another actor that would end a wait for a value and has not run, or NULL. */
static const struct step *write_missing(const struct step *wait)
{
	const struct step *step, *found = NULL;

	for (step = sources[bucket(wait->addr)]; step; step = step->next_source)
		if (step->actor != wait->actor && step_writes(step, wait->addr) && word_satisfies(wait, step->value) &&
		    (!found || step->number < found->number))
			found = step;
	return found;
}

bool steps_host_ran(uint64_t handle, const void *function, const void *arg)
{
	struct step *step, *found = NULL;

	for (step = sources[bucket(host_key(handle, function, arg))]; step; step = step->next_source)
		if (step->kind == STEP_HOST && step->addr == handle && step->function == function && step->arg == arg &&
		    (!found || step->number < found->number))
			found = step;
	if (found)
		steps_settle(found->actor);
	return found;
}

/* ---- queues */

static void queue_add(struct step *step)
{
	struct actor *actor = step->actor;

	step->next = NULL;
	step->link = waiting_end;
	*waiting_end = step;
	waiting_end = &step->next;
	waiting_count++;
	if (actor->first) {
		actor->last->next_of_actor = step;
	} else {
		actor->first = step;
		actor->next_waiting = NULL;
		actor->link_waiting = waiting_actors_end;
		*waiting_actors_end = actor;
		waiting_actors_end = &actor->next_waiting;
	}
	actor->last = step;
	actor->waiting++;
	source_add(step);
	step_publish(step);
}

/* The first step of its actor leaves. */
static void queue_remove(struct step *step)
{
	struct actor *actor = step->actor;

	source_remove(step);
	actor->publishes -= step->publishes;
	*step->link = step->next;
	if (step->next)
		step->next->link = step->link;
	else
		waiting_end = step->link;
	waiting_count--;
	actor->waiting--;
	actor->first = step->next_of_actor;
	if (actor->first)
		return;
	actor->last = NULL;
	*actor->link_waiting = actor->next_waiting;
	if (actor->next_waiting)
		actor->next_waiting->link_waiting = actor->link_waiting;
	else
		waiting_actors_end = actor->link_waiting;
}

/* ---- readiness */

struct search {
	uint64_t number;
	const struct actor *found;
};

static void find_before(struct actor *actor, void *arg)
{
	struct search *search = arg;

	if (actor->kind == ACTOR_BLOCKING && actor->first && actor->first->number < search->number)
		search->found = actor;
}

/* An actor whose steps that wait come before a step by the rules of the legacy stream, or NULL. */
static const struct actor *step_behind(const struct step *step)
{
	struct search search = { .number = step->number };
	const struct actor *actor = step->actor, *legacy;

	if (actor->kind == ACTOR_BLOCKING) {
		legacy = actor->context->legacy;
		return legacy && legacy->first && legacy->first->number < step->number ? legacy : NULL;
	}
	if (actor->kind == ACTOR_LEGACY)
		actors_each(actor->context->key, find_before, &search);
	return search.found;
}

/* Whether what a step waits for has run. */
static bool step_satisfied(const struct step *step)
{
	if (step->kind == STEP_AWAIT)
		return await_signalled(step);
	if (step->kind == STEP_WAIT)
		return step->version->done;
	if (step->kind == STEP_WAIT_VALUE)
		return word_awaited(step, &step->actor->clock);
	return true;
}

static bool step_ready(const struct step *step)
{
	return step->forced || step_satisfied(step) || clock_lost(&step->actor->clock);
}

/* The key of what a step waits for. */
static uint64_t awaited_key(const struct step *step)
{
	if (step->kind == STEP_WAIT_VALUE)
		return step->addr;
	return step->kind == STEP_WAIT ? (uintptr_t)step->version : (uintptr_t)step->semaphore;
}

static void park(struct step *step, uint64_t key)
{
	struct step **list = &parked[bucket(key)];

	step->parked_key = key;
	step->next_parked = *list;
	step->link_parked = list;
	if (*list)
		(*list)->link_parked = &step->next_parked;
	*list = step;
}

static void unpark(struct step *step)
{
	*step->link_parked = step->next_parked;
	if (step->next_parked)
		step->next_parked->link_parked = step->link_parked;
	step->link_parked = NULL;
}

/* Park the first step of an actor if it cannot run. False: it can. */
static bool step_parked(struct step *step)
{
	const struct actor *before = step_behind(step);

	if (before)
		park(step, (uintptr_t)before);
	else if (!step_ready(step))
		park(step, awaited_key(step));
	return step->link_parked;
}

/* Let the first step of an actor run if it can. */
static void step_consider(struct step *step)
{
	struct step **at = step->number > running ? &ready : &ready_later;

	if (step_parked(step))
		return;
	while (*at && (*at)->number < step->number)
		at = &(*at)->next_ready;
	step->next_ready = *at;
	*at = step;
}

void steps_wake(uint64_t key)
{
	struct step *step, *next;

	for (step = parked[bucket(key)]; step; step = next) {
		next = step->next_parked;
		if (step->parked_key != key)
			continue;
		unpark(step);
		/* It may be parked again, for another reason. */
		step_consider(step);
	}
}

/* ---- passes */

/* A step runs. A wait that is not over is forgotten: its actor is lost. */
static void run(struct step *step)
{
	running = step->number;
	if (unlikely(clock_lost(&step->actor->clock)) && !step->forced && !step_satisfied(step))
		actor_lose(step->actor);
	step_run(step);
}

static void pass(void)
{
	passes = true;
	while (ready || ready_later) {
		struct step *step = ready;
		struct actor *actor;

		if (!step) {
			running = 0;
			ready = ready_later;
			ready_later = NULL;
			continue;
		}
		ready = step->next_ready;
		/* A later write may have hidden the one that the step waits for. */
		if (step_parked(step))
			continue;
		actor = actor_hold(step->actor);
		queue_remove(step);
		run(step);
		step_free(step);
		if (actor->first)
			step_consider(actor->first);
		steps_wake((uintptr_t)actor);
		actor_drop(actor);
	}
	running = 0;
	passes = false;
	if (loss_known) {
		loss_known = false;
		losses_known();
	}
}

/* Look at the first step of an actor again, after it was forced or the actor was lost. */
static void step_again(struct step *step)
{
	if (step->link_parked) {
		unpark(step);
		step_consider(step);
	}
	if (!passes)
		pass();
}

/* Too many steps wait: forget the oldest wait. */
static void step_forget(void)
{
	static bool reported;
	struct actor *actor = waiting->actor;
	int cancel;

	if (!reported) {
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
		fprintf(stderr, "libgpumem-check: more than %u operations wait; those of %s, and what comes after them, are "
			"not compared until the program synchronizes with it\n", WAITING_MOST, actor->name);
		pthread_setcancelstate(cancel, NULL);
	}
	reported = true;
	actor_lose(actor);
	step_again(waiting);
}

void step_submit(struct step *step)
{
	struct actor *actor = step->actor;

	step->number = ++submissions;
	if (likely(!actor->first && !(waiting && step_behind(step)) && step_ready(step))) {
		passes = true;
		run(step);
		passes = false;
		step_free(step);
		if (unlikely(ready || ready_later || loss_known))
			pass();
		return;
	}
	clock_copy(&step->submitted, &host.clock);
	queue_add(step);
	if (actor->first == step)
		step_parked(step);
	while (waiting_count > WAITING_MOST)
		step_forget();
}

/* ---- what the program knows */

enum force {
	FORCE_ANY,			/* the actor's step is done */
	FORCE_UNSEEN,			/* the actor's step may be done, if the checker does not see all that may end its wait */
};

static bool force_below(const struct actor *actor, unsigned int nested, enum force which, const struct step *except);

static void force(struct step *step)
{
	step->forced = true;
	step_again(step);
}

static void find_waiting(struct actor *actor, void *found)
{
	if (actor->kind == ACTOR_BLOCKING && actor->waiting)
		*(struct actor **)found = actor;
}

static bool is_wait(const struct step *step)
{
	return (step->kind == STEP_WAIT_VALUE || step->kind == STEP_AWAIT) && !step->forced;
}

/*
 * Steps that publish are behind waits, and may have run. Force one of these waits, if something that the checker does
 * not see may have ended it. False: there is none. @except: a wait that is not forced, or NULL.
 */
static bool force_published(const struct step *except)
{
	const struct actor *actor;

	for (actor = waiting_actors; actor; actor = actor->next_waiting)
		if (actor->publishes && force_below(actor, NESTED, FORCE_UNSEEN, except))
			return true;
	return false;
}

/*
 * Force the wait that an actor's first step depends on. False: there is none. A wait for another process comes after
 * what is published, so steps that may have been published run first.
 */
static bool force_below(const struct actor *actor, unsigned int nested, enum force which, const struct step *except)
{
	struct step *step = actor->first;
	const struct step *signal;
	struct actor *other = NULL;

	if (!step || !nested || step == except)
		return false;
	if (step->kind == STEP_WAIT_VALUE && !step->forced) {
		/* The CPU may have ended a wait for a word that it reaches. */
		bool polled = word_polled(step->addr);
		const struct step *write = polled ? NULL : write_missing(step);

		if (write && force_below(write->actor, nested - 1, which, except))
			return true;
		if (which == FORCE_UNSEEN && !polled)
			return false;
		force(step);
		return true;
	}
	if (step->kind == STEP_WAIT && !step->version->done && step->version->actor != actor)
		return force_below(step->version->actor, nested - 1, which, except);
	if (step->kind == STEP_AWAIT && !step->forced && await_shared(step)) {
		if (which == FORCE_ANY && force_published(step))
			return true;
		force(step);
		return true;
	}
	if (step->kind == STEP_AWAIT && !step->forced) {
		signal = signal_missing(step);
		if (signal)
			return force_below(signal->actor, nested - 1, which, except);
		if (which == FORCE_UNSEEN)
			return false;
		/* The call of another thread that signals has not ended. */
		force(step);
		return true;
	}
	if (actor->kind == ACTOR_BLOCKING)
		other = actor->context->legacy;
	else if (actor->kind == ACTOR_LEGACY)
		actors_each(actor->context->key, find_waiting, &other);
	return other && force_below(other, nested - 1, which, except);
}

static bool force_any(void)
{
	struct step *step;

	for (step = waiting; step; step = step->next)
		if (is_wait(step)) {
			force(step);
			return true;
		}
	return false;
}

void steps_settle(struct actor *actor)
{
	while (actor->waiting && (force_below(actor, NESTED, FORCE_ANY, NULL) || force_any()))
		;
}

void steps_settle_all(void)
{
	while (waiting && (force_below(waiting->actor, NESTED, FORCE_ANY, NULL) || force_any()))
		;
}

void published_known(void)
{
	struct clock clock = { .count = 0 };

	while (force_published(NULL))
		;
	join_published(&clock);
	host_join(&clock);
	clock_free(&clock);
}

void losses_known(void)
{
	if (passes) {
		loss_known = true;
		return;
	}
	while (force_published(NULL))
		;
	host_join_all();
}
