// SPDX-License-Identifier: MIT
/*
 * Events, and their records.
 */
#include <stdlib.h>

#include "check/check.h"

#define TABLE	1024u
#define ENDED	256u

static struct event *events[TABLE];
static struct {
	uint64_t key;
	const struct stack *stack;
} ended[ENDED];
static unsigned int ended_count;

static unsigned int bucket(uint64_t key)
{
	return (key >> 4) % TABLE;
}

struct event *event_of(CUevent handle)
{
	struct event *event;

	for (event = events[bucket((uintptr_t)handle)]; event; event = event->next)
		if (event->key == (uintptr_t)handle)
			return event;
	return NULL;
}

struct event *event_add(CUevent handle)
{
	struct event *event = event_of(handle);

	if (event)
		return event;
	event = calloc(1, sizeof(*event));
	if (!event)
		return NULL;
	event->key = (uintptr_t)handle;
	event->next = events[bucket(event->key)];
	events[bucket(event->key)] = event;
	return event;
}

void version_drop(struct version *version)
{
	if (!version || --version->refs)
		return;
	clock_free(&version->clock);
	if (version->actor)
		actor_drop(version->actor);
	free(version);
}

void event_remove(struct event *event)
{
	struct event **at;

	ended[ended_count % ENDED].key = event->key;
	ended[ended_count++ % ENDED].stack = stack_here();
	for (at = &events[bucket(event->key)]; *at; at = &(*at)->next)
		if (*at == event) {
			*at = event->next;
			break;
		}
	version_drop(event->version);
	free(event);
}

const struct stack *event_ended(CUevent handle, const char **call)
{
	unsigned int i;

	*call = NULL;
	for (i = 0; i < ENDED && i < ended_count; i++) {
		unsigned int at = (ended_count - 1 - i) % ENDED;

		if (ended[at].key == (uintptr_t)handle) {
			*call = "cuEventDestroy";
			return ended[at].stack;
		}
	}
	return NULL;
}

void events_each(void (*each)(struct event *event, void *arg), void *arg)
{
	struct event *event, *next;
	unsigned int i;

	for (i = 0; i < TABLE; i++)
		for (event = events[i]; event; event = next) {
			next = event->next;
			each(event, arg);
		}
}
