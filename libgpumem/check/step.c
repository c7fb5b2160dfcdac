// SPDX-License-Identifier: MIT
/*
 * Steps: the steps of streams, in an order in which the streams may execute them.
 *
 * Each step runs when it is submitted, but for three: one that waits for a value that nobody has written yet, one that
 * waits for a signal that has not run, and one that comes after a step that waits. Steps that wait are in one list, in
 * the order of submission. Whenever a step is submitted, the list is walked, and steps that can run do.
 *
 * word.c says which write a wait for a value comes after, and semaphore.c which signals a wait for a semaphore. If the
 * program knows that a stream is done though a step of it still waits, something that the checker does not see satisfied
 * the wait. The step then comes after all that has run.
 *
 * If another process may have signalled a semaphore, and no signal of this process ended the wait, the step runs when the
 * program knows that the wait is over. It comes after all that this process had published by then. The same is true of
 * a wait for an event that only other processes have recorded.
 */
#include <stdlib.h>
#include <string.h>

#include "check/check.h"

#define NESTED	32u		/* streams that wait for each other, in steps_settle() */

/* A host function, as it was submitted. */
struct function {
	uint64_t handle;
	const void *function, *arg;
};

/* Host functions that have run before their call ended. */
struct ran {
	struct function function;
	struct ran *next;
};

/* Host functions that have not run. */
struct pending_host {
	struct function function;
	struct clock clock;
	struct pending_host *next;
};

static struct spares spare_steps;
static struct step *waiting, **waiting_end = &waiting;
static unsigned int pass;
struct clock outside;
static struct ran *early;
static struct pending_host *functions;

/* ---- host functions */

static bool same(const struct function *function, uint64_t handle, const void *code, const void *arg)
{
	return function->handle == handle && function->function == code && function->arg == arg;
}

/* The first function like this that has been submitted and has not run. False: there is none. */
static bool function_ran(uint64_t handle, const void *code, const void *arg)
{
	struct pending_host **at, *function;

	for (at = &functions; (function = *at); at = &function->next)
		if (same(&function->function, handle, code, arg)) {
			*at = function->next;
			host_join(&function->clock);
			clock_free(&function->clock);
			free(function);
			return true;
		}
	return false;
}

void step_host_ran(uint64_t handle, const void *code, const void *arg)
{
	struct step *step;
	struct ran *ran;

	if (function_ran(handle, code, arg))
		return;
	/* It may be behind a wait for a value, which must be over then. */
	for (step = waiting; step; step = step->next)
		if (step->kind == STEP_HOST && step->addr == handle && step->function == code && step->arg == arg) {
			steps_settle(step->actor);
			function_ran(handle, code, arg);
			return;
		}
	ran = calloc(1, sizeof(*ran));
	if (ran) {
		ran->function = (struct function) { .handle = handle, .function = code, .arg = arg };
		ran->next = early;
		early = ran;
	}
}

static void host_submitted(const struct step *step)
{
	struct pending_host *function, **end;
	struct ran **at, *ran;

	for (at = &early; (ran = *at); at = &ran->next)
		if (same(&ran->function, step->addr, step->function, step->arg)) {
			*at = ran->next;
			free(ran);
			host_join(&step->actor->clock);
			/* The function, and what it told the program, may have changed host memory. */
			pinned_compare(true);
			return;
		}
	function = calloc(1, sizeof(*function));
	if (!function)
		return;
	function->function = (struct function) {
		.handle = step->addr, .function = step->function, .arg = step->arg,
	};
	clock_copy(&function->clock, &step->actor->clock);
	for (end = &functions; *end; end = &(*end)->next)
		;
	*end = function;
}

/* ---- running */

static void run_access(struct step *step)
{
	uint64_t bytes = step->box.width * step->box.height * step->box.depth;
	struct finding wrote = { .unwritten = 0 }, read = { .unwritten = 0 };
	struct memory *dst = step->writes ? step->dst.memory : NULL;
	struct memory *src = step->reads ? step->src.memory : NULL;
	const struct clock *clock = &step->actor->clock;
	const struct memory *word;

	if (dst && dst->dead)
		dst = NULL;
	if (src && src->dead)
		src = NULL;
	word = dst ? dst : src;
	if (bytes <= WORD_MOST && step->box.height * step->box.depth == 1 && word && word->kind != MEMORY_ARRAY)
		word_use(step->op, WORD_COPY, word->base + (dst ? step->dst.at : step->src.at), bytes, step->known,
			 step->value, 0);
	if (dst && src)
		shadow_copy(&step->dst, &step->src, &step->box, step->op, clock, &wrote, &read);
	else if (dst)
		shadow_access(&step->dst, &step->box, step->op, clock, true, &wrote);
	else if (src)
		shadow_access(&step->src, &step->box, step->op, clock, false, &read);
	if (read.race.other)
		found_race(step->op, src, false, &read.race);
	if (wrote.race.other)
		found_race(step->op, dst, true, &wrote.race);
	op_drop(read.race.other);
	op_drop(wrote.race.other);
	if (read.unwritten)
		found_unwritten(step->op, src, read.unwritten_at, read.unwritten);
	/* The address of an array is a handle. */
	if (dst && dst->kind != MEMORY_ARRAY) {
		words_written(step, dst->base);
		/* A CPU may poll a word for what streams write. */
		if (dst->open && dst->kind != MEMORY_IMPORTED && step->box.width <= 8 && step->box.height == 1)
			clock_join(&polled, clock);
	}
}

/* A stream writes a word, or has waited for it. */
static void run_value(const struct step *step, bool write)
{
	const struct box box = { .width = step->bytes, .height = 1, .depth = 1 };
	struct memory *memory = step->dst.memory;
	struct finding finding = { .unwritten = 0 };

	if (!memory || memory->dead)
		return;
	shadow_access(&step->dst, &box, step->op, &step->actor->clock, write, &finding);
	if (finding.race.other)
		found_race(step->op, memory, write, &finding.race);
	op_drop(finding.race.other);
}

static void run_free(const struct step *step)
{
	struct conflict conflict = { .other = NULL };

	shadow_uses(step->memory, &step->actor->clock, true, &conflict);
	if (conflict.other)
		found_unordered_free(step->op, step->memory, &conflict);
	op_drop(conflict.other);
	shadow_free(step->memory);
}

static void join_into(struct actor *actor, void *clock)
{
	clock_join(clock, &actor->clock);
}

/* Come after all that has run. */
static void join_all(struct clock *clock)
{
	clock_join(clock, &host.clock);
	actors_each(NULL, join_into, clock);
}

/* Whether another process may wait for a step, and then signal. */
static bool step_publishes(const struct step *step)
{
	return (step->kind == STEP_SIGNAL && step->semaphore->shared) ||
	       (step->kind == STEP_RECORD && step->version->passed);
}

/*
 * Come after all that another process may have waited for: what was published, and what has run in streams whose next
 * steps publish it and wait.
 */
static void join_published(struct clock *clock)
{
	const struct step *step;

	clock_join(clock, &published);
	for (step = waiting; step; step = step->next)
		if (step_publishes(step))
			clock_join(clock, &step->actor->clock);
}

static bool await_shared(const struct step *await)
{
	return !await->semaphore || await->semaphore->shared;
}

/* Whether a signal that ends a wait has run. */
static bool await_signalled(const struct step *await)
{
	const struct semaphore *semaphore = await->semaphore;

	if (!semaphore)
		return !await->value;
	return !(semaphore->shared && semaphore->counts) && semaphore->top >= await->value;
}

static void run_await(const struct step *await)
{
	const struct semaphore *semaphore = await->semaphore;
	struct clock *clock = &await->actor->clock;
	const struct clock *before;

	if (await_shared(await))
		join_published(clock);
	if (await_signalled(await)) {
		before = semaphore ? semaphore_clock(semaphore, await->value) : NULL;
		if (before)
			clock_join(clock, before);
	} else if (!await_shared(await) || (semaphore && semaphore->unidentified)) {
		join_all(clock);
	}
}

/* From here on, something that the checker does not see may have written host memory. */
static void outside_step(const struct actor *actor)
{
	clock_join(&outside, &actor->clock);
}

static void run(struct step *step)
{
	struct actor *actor = step->actor;
	const struct clock *written;

	if (step->submitted.count)
		clock_join(&actor->clock, &step->submitted);
	actor_step(actor, step->submitted.count);
	if (step->op)
		step->op->time = actor_time(actor);
	switch (step->kind) {
	case STEP_ACCESS:
		run_access(step);
		break;
	case STEP_ALLOC:
		break;
	case STEP_FREE:
		run_free(step);
		break;
	case STEP_RECORD:
		clock_copy(&step->version->clock, &actor->clock);
		step->version->done = true;
		if (step->version->passed) {
			clock_join(&polled, &actor->clock);
			clock_join(&published, &actor->clock);
		}
		break;
	case STEP_WAIT:
		clock_join(&actor->clock, &step->version->clock);
		break;
	case STEP_WRITE_VALUE:
		word_written(step->addr, step->value, actor);
		if (word_polled(step->addr))
			clock_join(&polled, &actor->clock);
		run_value(step, true);
		break;
	case STEP_WAIT_VALUE:
		written = word_awaited(step, &actor->clock);
		if (written && !step->forced) {
			clock_join(&actor->clock, written);
		} else {
			join_all(&actor->clock);
		}
		run_value(step, false);
		outside_step(actor);
		break;
	case STEP_HOST:
		outside_step(actor);
		host_submitted(step);
		break;
	case STEP_SIGNAL:
		semaphore_signal(step->semaphore, step->value, &actor->clock);
		break;
	case STEP_AWAIT:
		run_await(step);
		outside_step(actor);
		break;
	}
}

struct step *step_new(enum step_kind kind, struct actor *actor)
{
	struct step *step = spare_take(&spare_steps, sizeof(*step));

	if (!step)
		return NULL;
	step->kind = kind;
	step->actor = actor_hold(actor);
	return step;
}

void step_free(struct step *step)
{
	op_drop(step->op);
	memory_drop(step->dst.memory);
	memory_drop(step->src.memory);
	memory_drop(step->memory);
	version_drop(step->version);
	semaphore_drop(step->semaphore);
	clock_free(&step->submitted);
	actor_drop(step->actor);
	spare_give(&spare_steps, step);
}

/* ---- waiting */

static void find_blocked(struct actor *actor, void *arg)
{
	if (actor->kind == ACTOR_BLOCKING && actor->blocked == pass)
		*(bool *)arg = true;
}

/* Whether a step before this one, in the list, keeps it from running. */
static bool step_blocked(const struct step *step)
{
	const struct actor *actor = step->actor;
	bool blocked = false;

	if (actor->blocked == pass)
		return true;
	if (actor->kind == ACTOR_BLOCKING && actor->context->legacy)
		return actor->context->legacy->blocked == pass;
	if (actor->kind == ACTOR_LEGACY)
		actors_each(actor->context->key, find_blocked, &blocked);
	return blocked;
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

/*
 * A signal of another actor that may end a wait for a semaphore and has not run, or NULL. Of a timeline semaphore, the
 * one of the lowest value: a program signals it first.
 */
static const struct step *signal_missing(const struct step *await)
{
	const struct step *step, *found = NULL;

	for (step = waiting; step; step = step->next) {
		if (step->kind != STEP_SIGNAL || step->semaphore != await->semaphore || step->actor == await->actor)
			continue;
		if (step->semaphore->counts)
			return step;
		if (step->value >= await->value && (!found || step->value < found->value))
			found = step;
	}
	return found;
}

/* A write of another actor that would end a wait for a value and has not run, or NULL. */
static const struct step *write_missing(const struct step *wait)
{
	const struct step *step;

	for (step = waiting; step; step = step->next) {
		if (step->actor == wait->actor || !step_writes(step, wait->addr))
			continue;
		if (word_satisfies(wait, step->value))
			return step;
	}
	return NULL;
}

static bool step_ready(const struct step *step)
{
	if (step->kind == STEP_AWAIT)
		return step->forced || await_signalled(step);
	if (step->kind == STEP_WAIT)
		return step->version->done;
	if (step->kind == STEP_WAIT_VALUE)
		return step->forced || word_awaited(step, &step->actor->clock);
	return true;
}

/* Run the steps of the list that can run; true if one did. */
static bool steps_pass(void)
{
	struct step **at = &waiting, *step;
	bool any = false;

	pass++;
	while ((step = *at)) {
		if (step_blocked(step) || !step_ready(step)) {
			step->actor->blocked = pass;
			at = &step->next;
			continue;
		}
		*at = step->next;
		if (waiting_end == &step->next)
			waiting_end = at;
		step->actor->waiting--;
		run(step);
		step_free(step);
		any = true;
	}
	return any;
}

static void steps_run(void)
{
	while (waiting && steps_pass())
		;
}

void step_submit(struct step *step)
{
	if (likely(!waiting)) {
		if (likely(step_ready(step))) {
			run(step);
			step_free(step);
			return;
		}
	}
	clock_copy(&step->submitted, &host.clock);
	step->next = NULL;
	*waiting_end = step;
	waiting_end = &step->next;
	/* Behind a step that waits it changes nothing. */
	if (!step->actor->waiting++)
		steps_run();
}

enum force {
	FORCE_ANY,			/* the actor's step is done */
	FORCE_UNSEEN,			/* the actor's step may be done, if the checker does not see all that may end its wait */
};

static bool force_below(const struct actor *actor, unsigned int nested, enum force which, const struct step *except);

static void force(struct step *step)
{
	step->forced = true;
	steps_run();
}

static struct step *first_of(const struct actor *actor)
{
	struct step *step;

	for (step = waiting; step && step->actor != actor; step = step->next)
		;
	return step;
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
	const struct step *step;

	for (step = waiting; step; step = step->next)
		if (step_publishes(step) && force_below(step->actor, NESTED, FORCE_UNSEEN, except))
			return true;
	return false;
}

/*
 * Force the wait that an actor's first step depends on. False: there is none. A wait for another process comes after
 * what is published, so steps that may have been published run first.
 */
static bool force_below(const struct actor *actor, unsigned int nested, enum force which, const struct step *except)
{
	struct step *step = first_of(actor);
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
