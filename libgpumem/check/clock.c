// SPDX-License-Identifier: MIT
/*
 * Actors, their clocks, and operations.
 *
 * A clock has a time for each actor's slot: the number of this actor's operations that come before. An operation is
 * the pair (slot, time); it comes before everything whose clock has at least this time in the slot.
 *
 * Rules of streams, applied when a step of a stream runs (actor_step()): it comes after all earlier steps of the
 * stream, and after what the host knew when it submitted the step. A step of a legacy stream comes after all
 * steps of the context's blocking streams, and a step of a blocking stream after all steps of the legacy stream.
 *
 * A destroyed stream's slot is used again only when the host knows all of its operations: they then come before
 * whatever the next stream does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/check.h"

#define TABLE	1024u
#define ENDED	256u

struct actor host;
struct clock polled;

uint64_t losses_over;

static uint64_t losses;
static struct actor *lost_actors;	/* whose loss is not over; a reference each */
static struct clock after_losses;	/* what the host knew when a loss was over */
static uint64_t host_version = 1;	/* rises with each change of host.clock */
static struct actor *actors[TABLE];	/* by key */
static struct context *contexts;
static unsigned int slots = 1;
static unsigned int *free_slots, free_count, free_room;
static struct actor *ended[ENDED];	/* the streams that were destroyed last; a reference each */
static unsigned int ended_count;
static struct actor *lost;		/* destroyed, with operations that the host does not know; next */
static uint64_t streams;
static struct spares spare_ops, spare_actors;
static unsigned int context_count;

/* ---- clocks */

static bool clock_reserve(struct clock *clock, unsigned int count)
{
	uint64_t *times;
	unsigned int room = clock->room ? clock->room : 8;

	if (count <= clock->count)
		return true;
	while (room < count)
		room *= 2;
	if (room != clock->room) {
		times = realloc(clock->times, room * sizeof(*times));
		if (!times)
			return false;
		clock->times = times;
		clock->room = room;
	}
	memset(clock->times + clock->count, 0, (count - clock->count) * sizeof(*clock->times));
	clock->count = count;
	return true;
}

static bool times_join(struct clock *to, const struct clock *from)
{
	bool changed = false;
	unsigned int i;

	if (!clock_reserve(to, from->count))
		return false;
	for (i = 0; i < from->count; i++)
		if (from->times[i] > to->times[i]) {
			to->times[i] = from->times[i];
			changed = true;
		}
	return changed;
}

bool clock_join(struct clock *to, const struct clock *from)
{
	bool changed = times_join(to, from);

	if (likely(!from->lost))
		return changed;
	if (!clock_lost(from))
		return times_join(to, &after_losses) || changed;
	if (to->lost < from->lost)
		to->lost = from->lost;
	return changed;
}

void clock_copy(struct clock *to, const struct clock *from)
{
	to->lost = from->lost;
	to->count = 0;
	if (clock_reserve(to, from->count))
		memcpy(to->times, from->times, from->count * sizeof(*to->times));
}

void clock_meet(struct clock *to, const struct clock *from)
{
	unsigned int i;

	if (to->lost < from->lost)
		to->lost = from->lost;
	if (to->count > from->count)
		to->count = from->count;
	for (i = 0; i < to->count; i++)
		if (to->times[i] > from->times[i])
			to->times[i] = from->times[i];
}

void clock_sort(struct clock *low, struct clock *high)
{
	unsigned int i;

	if (low->lost < high->lost)
		low->lost = high->lost;
	else
		high->lost = low->lost;
	if (!clock_reserve(high, low->count))
		return;
	for (i = 0; i < low->count; i++) {
		uint64_t time = low->times[i];

		if (time > high->times[i]) {
			low->times[i] = high->times[i];
			high->times[i] = time;
		}
	}
}

void clock_free(struct clock *clock)
{
	free(clock->times);
	memset(clock, 0, sizeof(*clock));
}

/* ---- the host */

bool clock_known(const struct clock *clock)
{
	unsigned int i;

	for (i = 0; i < clock->count; i++)
		if (clock->times[i] && !clock_covers(&host.clock, i, clock->times[i]))
			return false;
	return true;
}

bool host_knows(const struct actor *actor)
{
	return clock_covers(&host.clock, actor->slot, actor_time(actor));
}

void host_join(const struct clock *clock)
{
	if (clock_join(&host.clock, clock))
		host_version++;
	if (unlikely(host.clock.lost)) {
		host.clock.lost = 0;
		losses_known();
	}
}

static void host_join_each(struct actor *actor, void *arg)
{
	(void)arg;
	times_join(&host.clock, &actor->clock);
}

void host_join_all(void)
{
	actors_each(NULL, host_join_each, NULL);
	host_version++;
}

void host_step(void)
{
	host.clock.times[0]++;
	host_version++;
}

/* ---- losses */

void actor_lose(struct actor *actor)
{
	if (!actor->loss) {
		actor->loss = ++losses;
		actor->next_loss = lost_actors;
		lost_actors = actor_hold(actor);
	}
	if (actor->clock.lost < actor->loss)
		actor->clock.lost = actor->loss;
}

void actor_known(struct actor *actor)
{
	struct actor **at, *other;
	uint64_t over = losses;

	/* The end of another loss may have let the host join operations that the program does not know to be done. */
	if (unlikely(actor->clock.lost) || !host_knows(actor))
		host_join(&actor->clock);
	actor->clock.lost = 0;
	if (likely(!actor->loss))
		return;
	for (at = &lost_actors; *at != actor; at = &(*at)->next_loss)
		;
	*at = actor->next_loss;
	actor->loss = 0;
	actor_drop(actor);
	for (other = lost_actors; other; other = other->next_loss)
		if (over >= other->loss)
			over = other->loss - 1;
	if (over == losses_over)
		return;
	losses_over = over;
	clock_copy(&after_losses, &host.clock);
}

void actors_start(void)
{
	host.kind = ACTOR_HOST;
	host.refs = 1;
	snprintf(host.name, sizeof(host.name), "the host");
	clock_reserve(&host.clock, 1);
	host.clock.times[0] = 1;
}

/* ---- slots */

static void slot_put(unsigned int slot)
{
	if (free_count == free_room) {
		unsigned int room = free_room ? 2 * free_room : 64;
		unsigned int *more = realloc(free_slots, room * sizeof(*more));

		if (!more)
			return;
		free_slots = more;
		free_room = room;
	}
	free_slots[free_count++] = slot;
}

static void stepped_remove(struct actor *actor)
{
	struct actor **at;

	for (at = &actor->context->stepped; actor->stepped && *at; at = &(*at)->next_stepped)
		if (*at == actor) {
			*at = actor->next_stepped;
			actor->stepped = false;
			actor_drop(actor);
			break;
		}
}

/* Take back the slots of destroyed streams whose operations the host knows by now. */
static void slots_collect(void)
{
	struct actor **at = &lost, *actor;

	while ((actor = *at)) {
		if (actor->waiting || actor->loss || !host_knows(actor)) {
			at = &actor->next;
			continue;
		}
		*at = actor->next;
		slot_put(actor->slot);
		/* The legacy stream comes after what the host knows. */
		actor_hold(actor);
		stepped_remove(actor);
		actor_drop(actor);
		actor_drop(actor);
	}
}

/* ---- actors */

static unsigned int bucket(const void *key)
{
	return ((uintptr_t)key >> 4) % TABLE;
}

static struct context *context_of(const void *key)
{
	struct context *context;

	for (context = contexts; context; context = context->next)
		if (context->key == key)
			return context;
	context = calloc(1, sizeof(*context));
	if (context) {
		context->key = key;
		context->number = ++context_count;
		context->next = contexts;
		contexts = context;
	}
	return context;
}

static void actor_name(struct actor *actor, const struct tap_stream *stream)
{
	unsigned int context = actor->context->number;

	if (stream->order == TAP_LEGACY && context == 1)
		snprintf(actor->name, sizeof(actor->name), "the legacy stream");
	else if (stream->order == TAP_LEGACY)
		snprintf(actor->name, sizeof(actor->name), "the legacy stream of context %u", context);
	else if (!stream->created)
		snprintf(actor->name, sizeof(actor->name), "a thread's default stream");
	else
		snprintf(actor->name, sizeof(actor->name), "stream %llu", (unsigned long long)++streams);
}

static struct actor *actor_make(const struct tap_stream *stream)
{
	struct actor *actor = spare_take(&spare_actors, sizeof(*actor));
	struct context *context = context_of(stream->context);

	if (!actor || !context) {
		if (actor)
			spare_give(&spare_actors, actor);
		return NULL;
	}
	slots_collect();
	actor->kind = stream->order == TAP_LEGACY ? ACTOR_LEGACY :
		stream->order == TAP_BLOCKING ? ACTOR_BLOCKING : ACTOR_FREE;
	actor->refs = 1;
	actor->key = stream->key;
	actor->created = stream->created;
	actor->id = stream->id;
	actor->context = context;
	actor_name(actor, stream);
	actor->slot = free_count ? free_slots[--free_count] : slots++;
	clock_copy(&actor->clock, &host.clock);
	if (!clock_reserve(&actor->clock, actor->slot + 1)) {
		slot_put(actor->slot);
		spare_give(&spare_actors, actor);
		return NULL;
	}
	if (!actor->created)
		clock_join(&actor->clock, &context->barrier);
	actor->host_seen = host_version;
	actor->next = actors[bucket(actor->key)];
	actors[bucket(actor->key)] = actor;
	if (actor->kind == ACTOR_LEGACY)
		context->legacy = actor;
	return actor;
}

struct actor *actor_of(CUstream handle, bool own)
{
	struct tap_stream stream;
	struct actor *actor;
	bool asked = (uintptr_t)handle < 4096;

	if (asked && !driver->stream(handle, own, &stream))
		return NULL;
	if (!asked)
		stream.key = handle;
	for (actor = actors[bucket(stream.key)]; actor; actor = actor->next)
		if (actor->key == stream.key)
			break;
	/* A thread's default stream may have ended with its thread. */
	if (actor && asked && actor->id != stream.id) {
		actor_end(actor);
		actor = NULL;
	}
	if (actor)
		return actor;
	if (!asked && !driver->stream(handle, own, &stream))
		return NULL;
	return actor_make(&stream);
}

struct actor *actor_hold(struct actor *actor)
{
	actor->refs++;
	return actor;
}

void actor_drop(struct actor *actor)
{
	if (--actor->refs)
		return;
	clock_free(&actor->clock);
	spare_give(&spare_actors, actor);
}

static void actor_unlist(struct actor *actor)
{
	struct actor **at;

	for (at = &actors[bucket(actor->key)]; *at; at = &(*at)->next)
		if (*at == actor) {
			*at = actor->next;
			break;
		}
	actor->next = NULL;
}

void actor_end(struct actor *actor)
{
	struct actor **last;

	if (actor->gone)
		return;
	last = &ended[ended_count++ % ENDED];
	actor->gone = true;
	actor_unlist(actor);
	if (*last)
		actor_drop(*last);
	*last = actor_hold(actor);
	/* The table's reference. */
	actor->next = lost;
	lost = actor;
}

const struct actor *actor_ended(CUstream handle)
{
	unsigned int i;

	for (i = 0; i < ENDED && i < ended_count; i++) {
		const struct actor *actor = ended[(ended_count - 1 - i) % ENDED];

		if (actor && actor->key == (const void *)handle)
			return actor;
	}
	return NULL;
}

void actors_each(const void *context, void (*each)(struct actor *actor, void *arg), void *arg)
{
	struct actor *actor, *next;
	unsigned int i;

	for (i = 0; i < TABLE; i++) {
		for (actor = actors[i]; actor; actor = next) {
			next = actor->next;
			if (!context || actor->context->key == context)
				each(actor, arg);
		}
	}
	for (next = lost; (actor = next);) {
		next = actor->next;
		if (!context || actor->context->key == context)
			each(actor, arg);
	}
}

static void end_each(struct actor *actor, void *arg)
{
	(void)arg;
	actor_end(actor);
}

void context_end(const void *key)
{
	struct context **at, *context;

	actors_each(key, end_each, NULL);
	for (at = &contexts; (context = *at); at = &context->next)
		if (context->key == key)
			break;
	if (!context)
		return;
	/* The structure stays: operations refer to actors, and actors to it. */
	*at = context->next;
	context->legacy = NULL;
	context->key = NULL;
}

static void join_each(struct actor *actor, void *clock)
{
	clock_join(&actor->clock, clock);
}

void context_after(const void *key, const struct clock *clock)
{
	struct context *context = context_of(key);

	if (context)
		clock_join(&context->barrier, clock);
	actors_each(key, join_each, (void *)clock);
}

/* The legacy stream comes after all blocking streams of its context. */
static void legacy_collect(struct actor *legacy)
{
	struct actor *actor;

	while ((actor = legacy->context->stepped)) {
		legacy->context->stepped = actor->next_stepped;
		actor->stepped = false;
		clock_join(&legacy->clock, &actor->clock);
		actor_drop(actor);
	}
}

void actor_step(struct actor *actor, bool late)
{
	struct actor *legacy = actor->context ? actor->context->legacy : NULL;

	if (actor == &host) {
		host_step();
		return;
	}
	if (!late && actor->host_seen != host_version) {
		clock_join(&actor->clock, &host.clock);
		actor->host_seen = host_version;
	}
	if (actor->kind == ACTOR_LEGACY) {
		legacy_collect(actor);
	} else if (actor->kind == ACTOR_BLOCKING && legacy && actor->legacy_seen != actor_time(legacy)) {
		clock_join(&actor->clock, &legacy->clock);
		actor->legacy_seen = actor_time(legacy);
	}
	/* What comes before a loss that is over. */
	if (unlikely(actor->clock.lost) && !clock_lost(&actor->clock)) {
		actor->clock.lost = 0;
		clock_join(&actor->clock, &after_losses);
	}
	actor->clock.times[actor->slot]++;
	if (actor->kind == ACTOR_BLOCKING && !actor->stepped) {
		actor->stepped = true;
		actor->next_stepped = actor->context->stepped;
		actor->context->stepped = actor_hold(actor);
	}
}

/* ---- operations */

struct op *op_new(const char *call, struct stack *stack, struct actor *actor, enum op_kind kind)
{
	struct op *op = spare_take(&spare_ops, sizeof(*op));

	if (!op)
		return NULL;
	op->refs = 1;
	op->call = call;
	op->stack = stack;
	op->actor = actor_hold(actor);
	op->slot = actor->slot;
	op->kind = kind;
	return op;
}

void op_drop(struct op *op)
{
	if (!op || --op->refs)
		return;
	actor_drop(op->actor);
	if (op->word)
		word_use_free(op->word);
	spare_give(&spare_ops, op);
}
