// SPDX-License-Identifier: MIT
/*
 * Steps: what the steps of streams do when they run, and what they come after. waiting.c says when they run.
 *
 * word.c says which write a wait for a value comes after, and semaphore.c which signals a wait for a semaphore.
 */
#include <stdlib.h>
#include <string.h>

#include "check/check.h"

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
struct clock outside;
static struct ran *early;
static struct pending_host *functions, **functions_end = &functions;

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
			if (functions_end == &function->next)
				functions_end = at;
			host_join(&function->clock);
			clock_free(&function->clock);
			free(function);
			return true;
		}
	return false;
}

void step_host_ran(uint64_t handle, const void *code, const void *arg)
{
	struct ran *ran;

	if (function_ran(handle, code, arg))
		return;
	/* It may be behind a wait for a value, which must be over then. */
	if (steps_host_ran(handle, code, arg)) {
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
	struct pending_host *function;
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
	*functions_end = function;
	functions_end = &function->next;
}

/* ---- running */

/* From here on, something that the checker does not see may have written host memory. */
static void outside_step(const struct actor *actor)
{
	clock_join(&outside, &actor->clock);
}

/* A CPU may poll a word for what streams write. */
static void access_polled(const struct step *step)
{
	const struct memory *dst = step->dst.memory;

	if (dst->open && dst->kind != MEMORY_IMPORTED && step->box.width <= 8 && step->box.height == 1)
		clock_join(&polled, &step->actor->clock);
}

/* An access of an actor that is lost: its bytes count as written, and are compared with no other access. */
static void lost_access(const struct step *step)
{
	const struct box *box = &step->box;
	struct memory *dst = step->writes ? step->dst.memory : NULL;

	outside_step(step->actor);
	if (!dst || dst->dead)
		return;
	shadow_written(dst, step->dst.at, (box->depth - 1) * step->dst.slice + (box->height - 1) * step->dst.pitch +
		       box->width);
	dst->writes++;
	if (dst->kind != MEMORY_ARRAY) {
		words_written(step, dst->base);
		access_polled(step);
	}
}

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
		access_polled(step);
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
	if (unlikely(clock_lost(&step->actor->clock))) {
		memory->writes += write;
		if (write)
			shadow_written(memory, step->dst.at, step->bytes);
		outside_step(step->actor);
		return;
	}
	shadow_access(&step->dst, &box, step->op, &step->actor->clock, write, &finding);
	if (finding.race.other)
		found_race(step->op, memory, write, &finding.race);
	op_drop(finding.race.other);
}

static void run_free(const struct step *step)
{
	struct conflict conflict = { .other = NULL };

	if (likely(!clock_lost(&step->actor->clock)))
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

bool await_signalled(const struct step *await)
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

void step_run(struct step *step)
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
		if (unlikely(clock_lost(&actor->clock)))
			lost_access(step);
		else
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
		steps_wake((uintptr_t)step->version);
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
		steps_wake((uintptr_t)step->semaphore);
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
