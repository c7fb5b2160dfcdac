// SPDX-License-Identifier: GPL-2.0
/*
 * The comparison as text and as JSON.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "replay.h"

#define SHOWN	10u		/* results that differ */

const char *result_name(uint32_t result, char text[16])
{
	static const char *(*name)(uint32_t, const char **);
	static bool looked;
	const char *found = NULL;

	if (!looked && !options.dry)
		name = (const char *(*)(uint32_t, const char **))driver_find("cuGetErrorName");
	looked = true;
	if (!result)
		return "SUCCESS";
	if (name)
		name(result, &found);
	if (found)
		return !strncmp(found, "CUDA_ERROR_", 11) ? found + 11 : found;
	snprintf(text, 16, "%u", result);
	return text;
}

void format_bytes(uint64_t bytes, char text[32])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double value = (double)bytes;
	unsigned int unit = 0;

	while (value >= 1024 && unit < 4) {
		value /= 1024;
		unit++;
	}
	snprintf(text, 32, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

static const char *front(void)
{
	switch (trace.header->front) {
	case TRACE_TAP:
		return "gpumem's library";
	case TRACE_PRELOAD:
		return "a preloaded library";
	}
	return "an unknown recorder";
}

/* ---- text */

static void print_differences(void)
{
	uint32_t i, shown = 0;
	char a[16], b[16];

	for (i = 0; i < trace.items && shown < SHOWN; i++) {
		const struct item *item = &trace.item[i];

		if (item->sample || item->skip || results_agree(item))
			continue;
		printf("  %.6f s, thread %u, %s: %s", (double)(item->begin - trace.item[0].begin) / 1e9, item->thread,
		       trace.names[item->number], result_name(item->call->result, a));
		printf(" recorded, %s replayed\n", result_name(item->result, b));
		shown++;
	}
}

static void print_percent(double value)
{
	if (value < 0)
		printf(" %9s", "-");
	else
		printf(" %8.1f%%", value * 100);
}

static void print_memory(const struct comparison *c)
{
	char name[64], a[32], b[32];
	uint32_t i;

	format_bytes(c->live_peak, a);
	printf("\ndevice memory that the program requested, at most: %s\n", a);
	if (!c->peak_count)
		return;
	printf("\n%-28s %12s %12s   %9s %9s\n", "PEAK", "RECORDED", "REPLAYED", "FRAGM.", "REPLAYED");
	for (i = 0; i < c->peak_count; i++) {
		const struct peaks *p = &c->peaks[i];

		peaks_name(p, name, sizeof(name));
		format_bytes(p->recorded_reserved, a);
		format_bytes(p->replay_reserved, b);
		printf("%-28s %12s %12s  ", name, a, p->replayed ? b : "-");
		print_percent(fragmentation(p->recorded_reserved, p->pool ? p->recorded_used : p->recorded_live));
		print_percent(p->replayed ? fragmentation(p->replay_reserved, p->pool ? p->replay_used : p->replay_live) : -1);
		putchar('\n');
		if (!p->pool)
			continue;
		format_bytes(p->recorded_used, a);
		format_bytes(p->replay_used, b);
		printf("%-28s %12s %12s\n", "  used", a, p->replayed ? b : "-");
	}
}

static void print_latencies(const struct comparison *c)
{
	uint32_t i;

	printf("\n%-36s %7s %10s %10s %10s %10s %7s\n", "LATENCY in us", "CALLS", "MEDIAN", "P99", "REPLAYED", "P99",
	       "RATIO");
	for (i = 0; i < c->latencies; i++) {
		const struct latency *l = &c->latency[i];

		printf("%-36s %7u %10.2f %10.2f %10.2f %10.2f", l->name, l->count, (double)l->recorded_median / 1e3,
		       (double)l->recorded_p99 / 1e3, (double)l->replay_median / 1e3, (double)l->replay_p99 / 1e3);
		if (l->recorded_median)
			printf(" %7.2f\n", (double)l->replay_median / (double)l->recorded_median);
		else
			printf(" %7s\n", "-");
	}
}

void print_text(const struct comparison *c)
{
	uint32_t i;

	printf("recorded: %u calls of %u threads in %.3f ms, by %s, CUDA %u.%u\n", trace.calls, trace.threads,
	       (double)trace.length / 1e6, front(), trace.header->driver / 1000, trace.header->driver % 1000 / 10);
	if (trace.cut)
		printf("the trace was not closed: the process was killed or ended by _exit(), or the file was cut\n");
	if (options.dry) {
		printf("not replayed: %u calls would be, %u would be skipped\n", c->agree, c->skipped);
	} else {
		printf("replayed: %u calls in %.3f ms, %u skipped\n", c->agree + c->differ,
		       (double)trace.replay_length / 1e6, c->skipped);
	}
	for (i = 0; i < SKIPS; i++)
		if (c->skips[i])
			printf("  %u %s\n", c->skips[i], skip_text(i));
	if (options.dry)
		return;
	printf("results: %u agree, %u differ\n", c->agree, c->differ);
	print_differences();
	print_memory(c);
	print_latencies(c);
}

/* ---- JSON */

static void put(json_t *object, const char *key, json_t *value)
{
	if (json_object_set_new(object, key, value))
		refuse("not enough memory");
}

static void put_number(json_t *object, const char *key, uint64_t value)
{
	put(object, key, json_integer((json_int_t)value));
}

static json_t *differences_json(void)
{
	json_t *array = json_array();
	char text[16];
	uint32_t i;

	for (i = 0; i < trace.items && json_array_size(array) < SHOWN; i++) {
		const struct item *item = &trace.item[i];
		json_t *object;

		if (item->sample || item->skip || results_agree(item))
			continue;
		object = json_object();
		put_number(object, "ns", item->begin - trace.item[0].begin);
		put_number(object, "thread", item->thread);
		put(object, "function", json_string(trace.names[item->number]));
		put(object, "recorded", json_string(result_name(item->call->result, text)));
		put(object, "replayed", json_string(result_name(item->result, text)));
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *fraction_json(double value)
{
	return value < 0 ? json_null() : json_real(value);
}

static json_t *memory_json(const struct comparison *c)
{
	json_t *array = json_array();
	char name[64];
	uint32_t i;

	for (i = 0; i < c->peak_count; i++) {
		const struct peaks *p = &c->peaks[i];
		json_t *object = json_object();

		peaks_name(p, name, sizeof(name));
		put(object, "name", json_string(name));
		put_number(object, "recorded_peak", p->recorded_reserved);
		put_number(object, "recorded_used", p->pool ? p->recorded_used : p->recorded_live);
		put(object, "recorded_fragmentation",
		    fraction_json(fragmentation(p->recorded_reserved, p->pool ? p->recorded_used : p->recorded_live)));
		if (p->replayed) {
			put_number(object, "replayed_peak", p->replay_reserved);
			put_number(object, "replayed_used", p->pool ? p->replay_used : p->replay_live);
			put(object, "replayed_fragmentation",
			    fraction_json(fragmentation(p->replay_reserved, p->pool ? p->replay_used : p->replay_live)));
		}
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *latencies_json(const struct comparison *c)
{
	json_t *object = json_object();
	uint32_t i;

	for (i = 0; i < c->latencies; i++) {
		const struct latency *l = &c->latency[i];
		json_t *one = json_object();

		put_number(one, "calls", l->count);
		put_number(one, "recorded_median_ns", l->recorded_median);
		put_number(one, "recorded_p99_ns", l->recorded_p99);
		put_number(one, "replayed_median_ns", l->replay_median);
		put_number(one, "replayed_p99_ns", l->replay_p99);
		put(object, l->name, one);
	}
	return object;
}

/* How often each function had each result. */
static json_t *results_json(void)
{
	json_t *object = json_object();
	char text[16];
	uint32_t i;

	for (i = 0; i < trace.items; i++) {
		const struct item *item = &trace.item[i];
		json_t *function;
		const char *name;

		if (item->sample)
			continue;
		function = json_object_get(object, trace.names[item->number]);
		if (!function) {
			function = json_object();
			put(object, trace.names[item->number], function);
		}
		name = result_name(item->call->result, text);
		put_number(function, name, (uint64_t)json_integer_value(json_object_get(function, name)) + 1);
	}
	return object;
}

void print_json(const struct comparison *c)
{
	json_t *document = json_object(), *skips = json_object();
	uint32_t i;

	put_number(document, "version", 1);
	put(document, "command", json_string("replay"));
	put_number(document, "calls", trace.calls);
	put_number(document, "threads", trace.threads);
	put(document, "front", json_string(trace.header->front == TRACE_TAP ? "tap" : "preload"));
	put_number(document, "driver", trace.header->driver);
	put(document, "complete", json_boolean(!trace.cut));
	put_number(document, "recorded_ns", trace.length);
	put(document, "results", results_json());
	put_number(document, "skipped", c->skipped);
	for (i = 0; i < SKIPS; i++)
		if (c->skips[i])
			put_number(skips, skip_text(i), c->skips[i]);
	put(document, "skips", skips);
	if (!options.dry) {
		put_number(document, "replayed_ns", trace.replay_length);
		put_number(document, "agree", c->agree);
		put_number(document, "differ", c->differ);
		put(document, "differences", differences_json());
		put_number(document, "requested_peak", c->live_peak);
		put(document, "memory", memory_json(c));
		put(document, "latencies", latencies_json(c));
	}
	json_dumpf(document, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
	putchar('\n');
	json_decref(document);
}
