// SPDX-License-Identifier: GPL-2.0
/*
 * Pictures of the page, as SVG: memory over the recorded time, and the calls of streams.
 *
 * A picture has a fixed number of columns.  A column shows the largest value, or the longest call, of its time.
 */
#include <stdlib.h>
#include <string.h>

#include "replay.h"

#define COLUMNS		900u
#define LEFT		90u
#define HEIGHT		240u
#define ROW		18u
#define ROWS		48u
#define SERIES		12u

static unsigned int column_of(uint64_t time, uint64_t length)
{
	uint64_t column = length ? (uint64_t)((double)time / (double)length * COLUMNS) : 0;

	return column < COLUMNS ? (unsigned int)column : COLUMNS - 1;
}

static void time_axis(FILE *out, uint64_t length, unsigned int y)
{
	unsigned int i;

	for (i = 0; i <= 4; i++)
		fprintf(out, "<text class=\"axis\" x=\"%u\" y=\"%u\" text-anchor=\"middle\">%.3f ms</text>\n",
			LEFT + COLUMNS * i / 4, y, (double)length * i / 4 / 1e6);
}

/* ---- memory */

struct series {
	char name[80];
	bool dashed;
	unsigned int color;
	bool has[COLUMNS];
	uint64_t value[COLUMNS];
};

static struct series *series;
static unsigned int series_count;

static void add_point(struct series *s, uint64_t time, uint64_t value)
{
	unsigned int column = column_of(time - trace.item[0].begin, trace.length);

	if (!s->has[column] || value > s->value[column])
		s->value[column] = value;
	s->has[column] = true;
}

static struct series *add_series(const char *name, unsigned int color, bool dashed)
{
	struct series *s = &series[series_count++];

	snprintf(s->name, sizeof(s->name), "%s%s", name, dashed ? ", replayed" : "");
	s->color = color;
	s->dashed = dashed;
	return s;
}

static uint64_t above(const struct trace_sample *sample, uint64_t base)
{
	uint64_t use = sample->total > sample->free ? sample->total - sample->free : 0;

	return use > base ? use - base : 0;
}

static void device_series(const struct peaks *p, unsigned int color, bool replayed)
{
	char name[64];
	struct series *s;
	uint32_t i;

	peaks_name(p, name, sizeof(name));
	strncat(name, " in use", sizeof(name) - strlen(name) - 1);
	s = add_series(name, color, replayed);
	for (i = 0; i < trace.items; i++) {
		const struct item *item = &trace.item[i];

		if (!item->sample || item->memory->device != p->device || (replayed && !item->valid))
			continue;
		add_point(s, item->begin, above(replayed ? item->replayed : item->memory,
						replayed ? p->replay_base : p->recorded_base));
	}
}

/* Whether element @index of a sample is this pool. */
static bool is_pool(const struct item *item, uint32_t index, const struct peaks *p)
{
	uint32_t i;

	for (i = 0; i < item->ref_count; i++)
		if (trace.ref[item->refs + i].argument == index)
			return p->object != NONE && trace.ref[item->refs + i].object == p->object;
	return p->object == NONE && !sample_pools(item->memory)[index].pool && item->memory->device == p->device;
}

static void pool_series(const struct peaks *p, unsigned int color, bool used, bool replayed)
{
	char name[80];
	struct series *s;
	uint32_t i, j;

	peaks_name(p, name, 64);
	strcat(name, used ? " used" : " reserved");
	s = add_series(name, color, replayed);
	for (i = 0; i < trace.items; i++) {
		const struct item *item = &trace.item[i];

		if (!item->sample || (replayed && !item->valid))
			continue;
		for (j = 0; j < item->memory->pools; j++) {
			const struct trace_pool *pool = &sample_pools(replayed ? item->replayed : item->memory)[j];

			if (is_pool(item, j, p) && (!replayed || pool->pool))
				add_point(s, item->begin, used ? pool->used : pool->reserved);
		}
	}
}

static void make_series(const struct comparison *c)
{
	struct series *s = add_series("requested by the program", 0, false);
	unsigned int color = 1;
	uint32_t i;

	for (i = 0; i < trace.items; i++)
		add_point(s, trace.item[trace.order[i]].end, trace.item[trace.order[i]].live);
	for (i = 0; i < c->peak_count && series_count + 4 <= SERIES; i++) {
		const struct peaks *p = &c->peaks[i];

		/* A pool that was never used is no line. */
		if (p->pool && !p->recorded_reserved && !p->replay_reserved)
			continue;
		if (!p->pool) {
			device_series(p, color, false);
			if (p->replayed)
				device_series(p, color, true);
			color++;
			continue;
		}
		pool_series(p, color, false, false);
		if (p->replayed)
			pool_series(p, color, false, true);
		pool_series(p, ++color, true, false);
		color++;
	}
}

static void draw_series(FILE *out, const struct series *s, uint64_t most)
{
	unsigned int i;
	bool begun = false;

	fprintf(out, "<path class=\"line k%u%s\" d=\"", s->color % 8, s->dashed ? " dashed" : "");
	for (i = 0; i < COLUMNS; i++) {
		double y = HEIGHT - (double)s->value[i] / (double)most * (HEIGHT - 10);

		if (!s->has[i])
			continue;
		if (begun)
			fprintf(out, "H%uV%.1f", LEFT + i, y);
		else
			fprintf(out, "M%u %.1f", LEFT + i, y);
		begun = true;
	}
	if (begun)
		fprintf(out, "H%u", LEFT + COLUMNS);
	fprintf(out, "\"><title>%s</title></path>\n", s->name);
}

void draw_memory(FILE *out, const struct comparison *c)
{
	uint64_t most = 1;
	unsigned int i, j;
	char text[32];

	if (!trace.items)
		return;
	series = must_alloc(SERIES + 1, sizeof(*series));
	make_series(c);
	for (i = 0; i < series_count; i++)
		for (j = 0; j < COLUMNS; j++)
			if (series[i].value[j] > most)
				most = series[i].value[j];
	fprintf(out, "<svg id=\"memory\" viewBox=\"0 0 %u %u\" role=\"img\" aria-label=\"memory over time\">\n",
		LEFT + COLUMNS + 40, HEIGHT + 30);
	for (i = 0; i <= 4; i++) {
		unsigned int y = HEIGHT - (HEIGHT - 10) * i / 4;

		format_bytes(most / 4 * i, text);
		fprintf(out, "<line class=\"grid\" x1=\"%u\" x2=\"%u\" y1=\"%u\" y2=\"%u\"/>"
			"<text class=\"axis\" x=\"%u\" y=\"%u\" text-anchor=\"end\">%s</text>\n", LEFT, LEFT + COLUMNS, y, y,
			LEFT - 6, y + 4, text);
	}
	for (i = 0; i < series_count; i++)
		draw_series(out, &series[i], most);
	time_axis(out, trace.length, HEIGHT + 20);
	fputs("</svg>\n<p class=\"legend\">", out);
	for (i = 0; i < series_count; i++)
		fprintf(out, "<span><svg viewBox=\"0 0 24 10\"><path class=\"line k%u%s\" d=\"M0 5H24\"/></svg> %s</span>\n",
			series[i].color % 8, series[i].dashed ? " dashed" : "", series[i].name);
	fputs("</p>\n", out);
}

/* ---- streams */

enum kind { MEMORY_CALL, COPY_CALL, WAIT_CALL, OTHER_CALL };

static const char *const kinds[] = { "allocations and frees", "copies and fills", "synchronization", "others" };

static enum kind kind_of(const char *name)
{
	if (!strncmp(name, "cuMemcpy", 8) || !strncmp(name, "cuMemset", 8))
		return COPY_CALL;
	if (!strncmp(name, "cuMem", 5) || !strncmp(name, "cuArray", 7))
		return MEMORY_CALL;
	if (strstr(name, "Synchronize") || strstr(name, "Wait") || strstr(name, "Event"))
		return WAIT_CALL;
	return OTHER_CALL;
}

struct row {
	uint32_t stream, thread;	/* stream: an object; NONE: calls of a thread */
	bool fallback;			/* in a default stream */
	const struct item *longest[COLUMNS];
	uint32_t count[COLUMNS];
};

static struct row *rows;
static unsigned int row_count;

static struct row *row_of(const struct item *item)
{
	const bool fallback = item->streams && item->stream == NONE;
	uint32_t thread = item->stream == NONE ? item->thread : 0;
	unsigned int i;

	for (i = 0; i < row_count; i++)
		if (rows[i].stream == item->stream && rows[i].thread == thread && rows[i].fallback == fallback)
			return &rows[i];
	/* The last row takes what has no room. */
	if (row_count == ROWS)
		return &rows[ROWS - 1];
	rows[row_count] = (struct row) { .stream = item->stream, .thread = thread, .fallback = fallback };
	return &rows[row_count++];
}

static void row_name(unsigned int index, char text[64])
{
	const struct row *row = &rows[index];
	uint32_t i, number = 0;

	if (index == ROWS - 1) {
		snprintf(text, 64, "others");
	} else if (row->stream == NONE) {
		snprintf(text, 64, "thread %u%s", row->thread, row->fallback ? ", 0" : "");
	} else {
		for (i = 0; i <= row->stream; i++)
			number += trace.object[i].kind == 's';
		snprintf(text, 64, "stream %u", number);
	}
}

static void fill_rows(bool replayed, uint64_t length)
{
	uint32_t i;

	for (i = 0; i < trace.items; i++) {
		const struct item *item = &trace.item[i];
		uint64_t begin = replayed ? item->replay_begin : item->begin - trace.item[0].begin;
		uint64_t end = replayed ? item->replay_end : item->end - trace.item[0].begin;
		unsigned int first = column_of(begin, length), last = column_of(end, length), j;
		struct row *row;

		if (item->sample || (replayed && item->skip))
			continue;
		row = row_of(item);
		for (j = first; j <= last; j++) {
			const struct item *other = row->longest[j];

			row->count[j]++;
			if (!other || item->end - item->begin > other->end - other->begin)
				row->longest[j] = item;
		}
	}
}

/* Threads, then streams in the order of their creation. */
static int by_place(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if ((x->stream == NONE) != (y->stream == NONE))
		return x->stream == NONE ? -1 : 1;
	if (x->stream != y->stream)
		return x->stream < y->stream ? -1 : 1;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return (int)x->fallback - (int)y->fallback;
}

static void draw_row(FILE *out, const struct row *row, unsigned int y)
{
	unsigned int i, next;

	for (i = 0; i < COLUMNS; i = next) {
		const struct item *item = row->longest[i];
		const char *name;

		for (next = i + 1; next < COLUMNS && row->longest[next] == item && (!item || row->count[next] == row->count[i]);
		     next++)
			;
		if (!item)
			continue;
		name = trace.names[item->number];
		fprintf(out, "<rect class=\"f%u\" x=\"%u\" y=\"%u\" width=\"%u\" height=\"%u\"><title>%s", kind_of(name), LEFT + i,
			y, next - i, ROW - 4, name);
		if (row->count[i] > 1)
			fprintf(out, " and %u more", row->count[i] - 1);
		fputs("</title></rect>\n", out);
	}
}

void draw_streams(FILE *out, bool replayed)
{
	uint64_t length = replayed ? trace.replay_length : trace.length;
	char name[64];
	unsigned int i;

	free(rows);
	rows = must_alloc(ROWS, sizeof(*rows));
	row_count = 0;
	fill_rows(replayed, length);
	/* The last row of a full picture stays the last. */
	qsort(rows, row_count < ROWS ? row_count : ROWS - 1, sizeof(*rows), by_place);
	fprintf(out, "<svg id=\"%s\" viewBox=\"0 0 %u %u\" role=\"img\" aria-label=\"calls of streams, %s\">\n",
		replayed ? "streams-replayed" : "streams-recorded", LEFT + COLUMNS + 40, row_count * ROW + 24,
		replayed ? "replayed" : "recorded");
	for (i = 0; i < row_count; i++) {
		row_name(i, name);
		fprintf(out, "<text class=\"axis\" x=\"%u\" y=\"%u\" text-anchor=\"end\">%s</text>\n", LEFT - 6,
			i * ROW + ROW - 5, name);
		fprintf(out, "<line class=\"grid\" x1=\"%u\" x2=\"%u\" y1=\"%u\" y2=\"%u\"/>\n", LEFT, LEFT + COLUMNS,
			(i + 1) * ROW - 1, (i + 1) * ROW - 1);
		draw_row(out, &rows[i], i * ROW + 2);
	}
	time_axis(out, length, row_count * ROW + 16);
	fputs("</svg>\n", out);
	if (replayed)
		return;
	fputs("<p class=\"legend\">", out);
	for (i = 0; i < 4; i++)
		fprintf(out, "<span><svg viewBox=\"0 0 24 10\"><rect class=\"f%u\" width=\"24\" height=\"10\"/></svg> %s</span>\n",
			i, kinds[i]);
	fputs("</p>\n", out);
}
