// SPDX-License-Identifier: GPL-2.0
/*
 * What the record and the replay have in common: results, memory, latencies.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "replay.h"

/* ---- results */

/* Whether work is complete depends on the time. */
static bool is_query(const struct function *f)
{
	return is_function(f, "cuStreamQuery") || is_function(f, "cuEventQuery") ||
		!strncmp(f->name, "cuEventElapsedTime", 18);
}

bool results_agree(const struct item *item)
{
	uint32_t a = item->call->result, b = item->result;

	if (a == b)
		return true;
	return is_query(item->function) && (!a || a == CUDA_ERROR_NOT_READY) && (!b || b == CUDA_ERROR_NOT_READY);
}

const char *skip_text(unsigned int skip)
{
	static const char *const texts[SKIPS] = {
		[SKIP_UNKNOWN] = "functions that this version does not know",
		[SKIP_BARE] = "recorded without arguments",
		[SKIP_END] = "recorded when the driver had ended",
		[SKIP_IMPORT] = "imports from other processes or interfaces",
		[SKIP_DEPENDS] = "use something that a skipped call made",
		[SKIP_LIMIT] = "use memory that the player does not have",
		[SKIP_MISSING] = "the driver has no such function",
		[SKIP_FAILED] = "use something that a call made that failed here",
	};

	return texts[skip];
}

/* ---- latencies */

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct latency *)a)->name, ((const struct latency *)b)->name);
}

static void quantiles(uint64_t *times, uint32_t count, uint64_t *median, uint64_t *p99)
{
	qsort(times, count, sizeof(*times), by_number);
	*median = times[count / 2];
	*p99 = times[(uint64_t)count * 99 / 100];
}

static void compare_latencies(struct comparison *c)
{
	uint64_t **recorded = must_alloc(trace.functions + 1, sizeof(*recorded));
	uint64_t **replayed = must_alloc(trace.functions + 1, sizeof(*replayed));
	uint32_t *counts = must_alloc(trace.functions + 1, sizeof(*counts)), i;

	c->latency = must_alloc(trace.functions + 1, sizeof(*c->latency));
	for (i = 0; i < trace.items; i++)
		if (!trace.item[i].sample && !trace.item[i].skip)
			counts[trace.item[i].number]++;
	for (i = 0; i < trace.functions; i++) {
		recorded[i] = must_alloc(counts[i] + 1, sizeof(uint64_t));
		replayed[i] = must_alloc(counts[i] + 1, sizeof(uint64_t));
		counts[i] = 0;
	}
	for (i = 0; i < trace.items; i++) {
		const struct item *item = &trace.item[i];

		if (item->sample || item->skip)
			continue;
		recorded[item->number][counts[item->number]] = item->end - item->begin;
		replayed[item->number][counts[item->number]++] = item->replay_end - item->replay_begin;
	}
	for (i = 0; i < trace.functions; i++) {
		struct latency *latency = &c->latency[c->latencies];

		if (counts[i]) {
			latency->name = trace.names[i];
			latency->count = counts[i];
			quantiles(recorded[i], counts[i], &latency->recorded_median, &latency->recorded_p99);
			quantiles(replayed[i], counts[i], &latency->replay_median, &latency->replay_p99);
			c->latencies++;
		}
		free(recorded[i]);
		free(replayed[i]);
	}
	qsort(c->latency, c->latencies, sizeof(*c->latency), by_name);
	free(recorded);
	free(replayed);
	free(counts);
}

/* ---- memory */

static struct peaks *peaks_find(struct comparison *c, bool pool, uint32_t device, uint32_t object)
{
	static uint32_t room;
	uint32_t i;

	for (i = 0; i < c->peak_count; i++)
		if (c->peaks[i].pool == pool && c->peaks[i].device == device && c->peaks[i].object == object)
			return &c->peaks[i];
	c->peaks = must_grow(c->peaks, c->peak_count, &room, sizeof(*c->peaks));
	c->peaks[c->peak_count] = (struct peaks) { .pool = pool, .device = device, .object = object };
	return &c->peaks[c->peak_count++];
}

static uint64_t in_use(const struct trace_sample *sample)
{
	return sample->total > sample->free ? sample->total - sample->free : 0;
}

static void raise_to(uint64_t *peak, uint64_t value)
{
	if (value > *peak)
		*peak = value;
}

/* What a device has in use above the first sample, and what the program had requested of it. */
static void sample_device(struct comparison *c, const struct item *item, uint64_t live)
{
	uint32_t count = c->peak_count;
	struct peaks *p = peaks_find(c, false, item->memory->device, NONE);
	uint64_t use = in_use(item->memory);

	if (count != c->peak_count)
		p->recorded_base = use;
	use = use > p->recorded_base ? use - p->recorded_base : 0;
	if (use >= p->recorded_reserved) {
		p->recorded_reserved = use;
		p->recorded_live = live;
	}
	if (!item->valid)
		return;
	use = in_use(item->replayed);
	if (!p->replayed)
		p->replay_base = use;
	p->replayed = true;
	use = use > p->replay_base ? use - p->replay_base : 0;
	if (use >= p->replay_reserved) {
		p->replay_reserved = use;
		p->replay_live = live;
	}
}

static void sample_pools_of(struct comparison *c, const struct item *item)
{
	const struct trace_pool *pool = sample_pools(item->memory), *replayed = NULL;
	uint32_t i, at = 0;

	if (item->valid)
		replayed = sample_pools(item->replayed);
	for (i = 0; i < item->memory->pools; i++) {
		const struct ref *ref = at < item->ref_count ? &trace.ref[item->refs + at] : NULL;
		uint32_t object = NONE;
		struct peaks *p;

		if (ref && ref->argument == i) {
			at++;
			object = ref->object;
		} else if (pool[i].pool) {
			continue;
		}
		if (object != NONE && object >= trace.objects)
			continue;
		p = peaks_find(c, true, object == NONE ? item->memory->device : 0, object);
		raise_to(&p->recorded_reserved, pool[i].reserved_high);
		raise_to(&p->recorded_used, pool[i].used_high);
		if (!replayed || !replayed[i].pool)
			continue;
		p->replayed = true;
		raise_to(&p->replay_reserved, replayed[i].reserved_high);
		raise_to(&p->replay_used, replayed[i].used_high);
	}
}

static void compare_memory(struct comparison *c)
{
	uint64_t live = 0;
	uint32_t i;

	for (i = 0; i < trace.items; i++) {
		const struct item *item = &trace.item[trace.order[i]];

		raise_to(&c->live_peak, item->live);
		if (!item->sample) {
			live = item->live;
			continue;
		}
		sample_device(c, item, live);
		sample_pools_of(c, item);
	}
}

double fragmentation(uint64_t reserved, uint64_t used)
{
	return !reserved || used > reserved ? -1 : 1 - (double)used / (double)reserved;
}

void peaks_name(const struct peaks *peaks, char *text, size_t size)
{
	uint32_t i, number = 0;

	if (!peaks->pool) {
		snprintf(text, size, "device %u", peaks->device);
	} else if (peaks->object == NONE) {
		snprintf(text, size, "default pool of device %u", peaks->device);
	} else {
		for (i = 0; i <= peaks->object; i++)
			number += trace.object[i].kind == 'p';
		snprintf(text, size, "pool %u", number);
	}
}

void compare(struct comparison *c)
{
	uint32_t i;

	for (i = 0; i < trace.items; i++) {
		const struct item *item = &trace.item[i];

		if (item->sample)
			continue;
		if (item->skip) {
			c->skipped++;
			c->skips[item->skip]++;
		} else if (options.dry || results_agree(item)) {
			c->agree++;
		} else {
			c->differ++;
		}
	}
	compare_latencies(c);
	compare_memory(c);
}
