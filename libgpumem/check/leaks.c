// SPDX-License-Identifier: MIT
/*
 * Leaks: what the program did not give back before its context, or itself, ended. Reports are grouped by the stack
 * that made the things.
 */
#include <stdlib.h>
#include <string.h>

#include "check/check.h"

struct object {
	const char *what;		/* constant */
	uint64_t key;
	const char *call;
	const struct stack *stack;
	struct object *next;
};

struct group {
	const char *what;
	const char *call;
	const struct stack *stack;
	uint64_t count, bytes;
};

static struct object *objects;
static struct group *groups;
static size_t group_count, group_room;

void object_add(const char *what, uint64_t key, const struct call *call)
{
	struct object *object = calloc(1, sizeof(*object));

	if (!object)
		return;
	object->what = what;
	object->key = key;
	object->call = call->name;
	object->stack = call->stack;
	object->next = objects;
	objects = object;
}

void object_remove(const char *what, uint64_t key)
{
	struct object **at, *object;

	for (at = &objects; (object = *at); at = &object->next)
		if (object->key == key && !strcmp(object->what, what)) {
			*at = object->next;
			free(object);
			return;
		}
}

static void count(const char *what, const char *call, const struct stack *stack, uint64_t bytes)
{
	size_t i;

	for (i = 0; i < group_count; i++)
		if (groups[i].stack == stack && !strcmp(groups[i].what, what))
			break;
	if (i == group_count) {
		if (group_count == group_room) {
			size_t room = group_room ? 2 * group_room : 64;
			struct group *more = realloc(groups, room * sizeof(*more));

			if (!more)
				return;
			groups = more;
			group_room = room;
		}
		groups[group_count++] = (struct group) { .what = what, .call = call, .stack = stack };
	}
	groups[i].count++;
	groups[i].bytes += bytes;
}

static void count_memory(struct memory *memory, void *arg)
{
	const void *context = arg;

	/* A mipmapped array is counted as a whole. */
	if (memory->level || memory->kept || (context && (memory->context != context || memory->kind == MEMORY_POOL)))
		return;
	count(memory_name(memory), memory->born->call, memory->born->stack, memory->size);
}

static void count_stream(struct actor *actor, void *arg)
{
	(void)arg;
	if (actor->created && !actor->gone)
		count("stream", "cuStreamCreate", actor->made, 0);
}

static void count_event(struct event *event, void *arg)
{
	if (!arg || event->context == arg)
		count("event", "cuEventCreate", event->made, 0);
}

static void count_export(const char *what, const char *call, const struct stack *stack)
{
	count(what, call, stack, 0);
}

void leaks_report(const void *context)
{
	struct report report;
	struct object *object;
	size_t i;

	group_count = 0;
	if (!options.leaks)
		return;
	memories_each(count_memory, (void *)context);
	actors_each(context, count_stream, NULL);
	events_each(count_event, (void *)context);
	for (object = objects; !context && object; object = object->next)
		count(object->what, object->call, object->stack, 0);
	if (!context)
		exports_open(count_export);
	for (i = 0; i < group_count; i++) {
		const struct group *group = &groups[i];

		if (group->bytes)
			report_begin(&report, REPORT_LEAK, "%s, %llu of them, %llu bytes", group->what,
				     (unsigned long long)group->count, (unsigned long long)group->bytes);
		else
			report_begin(&report, REPORT_LEAK, "%s, %llu of them", group->what,
				     (unsigned long long)group->count);
		report_detail(&report, context ? "the context is destroyed" : "the process ends");
		report_stack(&report, group->stack, "made by %s", group->call);
		report_end(&report);
	}
}
