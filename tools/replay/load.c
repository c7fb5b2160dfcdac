// SPDX-License-Identifier: GPL-2.0
/*
 * Read a trace.
 *
 * Each size and number of the file is checked here, once: the rest of the program relies on them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cuda.h>

#include "replay.h"

#define MOST_FUNCTIONS	4096u
#define MOST_THREADS	4096u
#define MOST_ITEMS	(1u << 28)

struct trace trace;

static const struct function **known;	/* of calls.h, or NULL; by the trace's numbers */
static uint32_t *counts;		/* of parameters */
static uint32_t room;
static uint32_t *threads;		/* the trace's thread numbers, in the order of their first records */
static uint32_t thread_room;

__attribute__((noreturn)) static void malformed(uint64_t at, const char *what)
{
	refuse("%s: at byte %llu: %s: not a trace, or damaged", options.trace, (unsigned long long)at, what);
}

/* ---- functions */

/* The length of a text that ends before @end, or -1. Names are letters, digits and "_". */
static int text_length(const char *text, const char *end, bool name)
{
	const char *at;

	for (at = text; at < end && *at; at++)
		if (name && !(*at == '_' || (*at >= '0' && *at <= '9') || ((*at | 32) >= 'a' && (*at | 32) <= 'z')))
			return -1;
	return at < end && (!name || at > text) ? (int)(at - text) : -1;
}

static void add_function(const struct trace_function *record, uint64_t at)
{
	const char *end = (const char *)record + record->record.size, *name = (const char *)(record + 1), *text;
	uint32_t index, function_room = trace.functions + 1;
	int length;

	if (record->record.size < sizeof(*record))
		malformed(at, "a function is too short");
	if (record->function != trace.functions || trace.functions == MOST_FUNCTIONS || record->count > TRACE_ARGUMENTS)
		malformed(at, "a function with a wrong number");
	length = text_length(name, end, true);
	text = name + length + 1;
	if (length < 0 || length > 100 || text_length(text, end, false) < 0)
		malformed(at, "a function without a name");
	trace.names = realloc(trace.names, function_room * sizeof(*trace.names));
	known = realloc(known, function_room * sizeof(*known));
	counts = realloc(counts, function_room * sizeof(*counts));
	if (!trace.names || !known || !counts)
		refuse("not enough memory");
	index = function_find(name);
	if (index != NO_FUNCTION && strcmp(function_at(index)->text, text))
		index = NO_FUNCTION;
	known[trace.functions] = index == NO_FUNCTION ? NULL : function_at(index);
	counts[trace.functions] = record->count;
	if (index != NO_FUNCTION && record->count != function_at(index)->count)
		malformed(at, "a function with a wrong number of parameters");
	trace.names[trace.functions++] = strdup(name);
}

/* ---- items */

static uint32_t thread_of(uint32_t number)
{
	uint32_t i;

	/* Most often it is the last that was looked up. */
	static uint32_t last;

	if (last < trace.threads && threads[last] == number)
		return last;
	for (i = 0; i < trace.threads; i++)
		if (threads[i] == number)
			return last = i;
	if (trace.threads == MOST_THREADS)
		refuse("%s: more than %u threads", options.trace, MOST_THREADS);
	threads = must_grow(threads, trace.threads, &thread_room, sizeof(*threads));
	threads[trace.threads] = number;
	return last = trace.threads++;
}

static struct item *add_item(uint32_t thread, uint64_t begin, uint64_t end, uint64_t at)
{
	struct item *item;

	if (end < begin || end >= UINT64_MAX / 4)
		malformed(at, "an end before its begin");
	if (trace.items == MOST_ITEMS)
		refuse("%s: too long", options.trace);
	trace.item = must_grow(trace.item, trace.items, &room, sizeof(*trace.item));
	item = &trace.item[trace.items++];
	*item = (struct item) {
		.thread = thread_of(thread), .begin = begin, .end = end > begin ? end : begin + 1, .stream = NONE,
	};
	return item;
}

const struct trace_data *call_data(const struct item *item, unsigned int argument)
{
	const char *at = (const char *)(call_values(item) + item->call->count);
	const char *end = (const char *)item->call + item->call->record.size;

	while (at < end) {
		const struct trace_data *data = (const struct trace_data *)(const void *)at;

		if (data->argument == argument)
			return data;
		at += sizeof(*data) + ((data->bytes + 7) & ~(size_t)7);
	}
	return NULL;
}

/* Each input and output of a function of calls.h must have the size that the arguments give. */
static void check_data(const struct trace_call *call, uint64_t at)
{
	const struct function *f = known[call->function];
	const uint64_t *values = (const uint64_t *)(call + 1);
	uint64_t left = call->record.size - sizeof(*call), used;
	const char *next = (const char *)(values + call->count);
	const struct trace_data *data;
	uint32_t seen = 0;

	left -= call->count * sizeof(*values);
	while (left) {
		data = (const struct trace_data *)(const void *)next;
		used = left < sizeof(*data) ? left + 1 : sizeof(*data) + (((uint64_t)data->bytes + 7) & ~UINT64_C(7));
		if (used > left || data->argument >= call->count || seen & 1u << data->argument)
			malformed(at, "data of a call");
		if (f && data->bytes != parameter_bytes(f, data->argument, values))
			malformed(at, "data of a call, with a wrong size");
		seen |= 1u << data->argument;
		next += used;
		left -= used;
	}
}

static void add_call(const struct trace_call *call, uint64_t at)
{
	struct item *item;

	if (call->record.size < sizeof(*call) || call->function >= trace.functions)
		malformed(at, "a call of a function that is not known");
	if ((call->count && call->count != counts[call->function]) ||
	    call->count * sizeof(uint64_t) > call->record.size - sizeof(*call))
		malformed(at, "a call with a wrong number of arguments");
	check_data(call, at);
	item = add_item(call->thread, call->begin, call->end, at);
	item->call = call;
	item->number = call->function;
	item->function = known[call->function];
	if (!item->function)
		item->skip = SKIP_UNKNOWN;
	else if (!call->count && item->function->count && strcmp(item->function->name, "cuInit"))
		item->skip = SKIP_BARE;
	else if (call->result == CUDA_ERROR_DEINITIALIZED)
		item->skip = SKIP_END;
	trace.calls++;
}

static void add_sample(const struct trace_sample *sample, uint64_t at)
{
	struct item *item;

	if (sample->record.size < sizeof(*sample) || sample->device > 1024 ||
	    sample->pools != (sample->record.size - sizeof(*sample)) / sizeof(struct trace_pool) ||
	    (sample->record.size - sizeof(*sample)) % sizeof(struct trace_pool))
		malformed(at, "a sample with a wrong size");
	item = add_item(sample->thread, sample->begin, sample->end, at);
	item->sample = true;
	item->memory = sample;
	item->number = NONE;
}

/* ---- orders */

static int by_begin(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

static int by_end(const void *a, const void *b)
{
	const struct item *x = &trace.item[*(const uint32_t *)a], *y = &trace.item[*(const uint32_t *)b];

	if (x->end != y->end)
		return x->end < y->end ? -1 : 1;
	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static void sort(void)
{
	uint32_t i, ended = 0;

	qsort(trace.item, trace.items, sizeof(*trace.item), by_begin);
	trace.order = must_alloc(trace.items, sizeof(*trace.order));
	for (i = 0; i < trace.items; i++)
		trace.order[i] = i;
	qsort(trace.order, trace.items, sizeof(*trace.order), by_end);
	for (i = 0; i < trace.items; i++)
		trace.item[trace.order[i]].rank = i;
	for (i = 0; i < trace.items; i++) {
		while (trace.item[trace.order[ended]].end <= trace.item[i].begin)
			ended++;
		trace.item[i].needs = ended;
	}
	trace.length = trace.items ? trace.item[trace.order[trace.items - 1]].end - trace.item[0].begin : 0;
}

/* The items of a thread must not overlap: the player would wait for ever. */
static void check_threads(void)
{
	uint64_t *ends = must_alloc(trace.threads + 1, sizeof(*ends));
	uint32_t i;

	for (i = 0; i < trace.items; i++) {
		struct item *item = &trace.item[i];

		/* An item without any time got one nanosecond. */
		if (item->begin + 1 < ends[item->thread])
			refuse("%s: calls of one thread overlap: damaged", options.trace);
		ends[item->thread] = item->end;
	}
	free(ends);
}

static void read_records(const char *data, uint64_t size)
{
	uint64_t at = trace.header->size;

	while (size - at >= sizeof(struct trace_record)) {
		const struct trace_record *record = (const struct trace_record *)(const void *)(data + at);

		if (!record->size)
			break;
		if (record->size < sizeof(*record) || record->size % 8)
			malformed(at, "a record with a wrong size");
		if (record->size > size - at)
			break;
		switch (record->type) {
		case TRACE_FUNCTION:
			add_function((const struct trace_function *)(const void *)record, at);
			break;
		case TRACE_CALL:
			add_call((const struct trace_call *)(const void *)record, at);
			break;
		case TRACE_SAMPLE:
			add_sample((const struct trace_sample *)(const void *)record, at);
			break;
		}
		at += record->size;
	}
	trace.cut = at != size;
}

void load(const char *path)
{
	const struct trace_header *header;
	struct stat stat;
	char *data;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &stat))
		refuse("%s: %s", path, strerror(errno));
	if (!S_ISREG(stat.st_mode) || stat.st_size < (off_t)sizeof(*header))
		refuse("%s: not a trace", path);
	/* A copy: a file that shrinks meanwhile would end the program. */
	data = must_alloc((size_t)stat.st_size / 8 + 1, 8);
	for (off_t done = 0; done < stat.st_size;) {
		ssize_t n = pread(fd, data + done, (size_t)(stat.st_size - done), done);

		if (n <= 0 && !(n < 0 && errno == EINTR))
			refuse("%s: %s", path, n ? strerror(errno) : "it shrinks");
		done += n > 0 ? n : 0;
	}
	close(fd);
	header = (const struct trace_header *)(const void *)data;
	if (header->magic != TRACE_MAGIC)
		refuse("%s: not a trace", path);
	if (header->version != TRACE_VERSION)
		refuse("%s: the trace has version %u, and this program reads %u", path, header->version, TRACE_VERSION);
	if (header->size < sizeof(*header) || header->size % 8 || header->size > (uint64_t)stat.st_size)
		malformed(0, "the header has a wrong size");
	trace.header = header;
	functions_start();
	read_records(data, (uint64_t)stat.st_size);
	sort();
	check_threads();
}
