// SPDX-License-Identifier: GPL-2.0
/*
 * The comparison as one HTML page, which loads nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "replay.h"

#define SHOWN	100u		/* results that differ */

static const char head[] =
"<!DOCTYPE html>\n"
"<html lang=\"en\">\n"
"<head>\n"
"<meta charset=\"utf-8\"/>\n"
"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
"<title>gpumem replay</title>\n"
"<style>\n"
":root { color-scheme: light dark; --page: #ffffff; --text: #1c1f24; --soft: #5b6470; --grid: #dde1e6;\n"
"  --a: #1f5fbf; --b: #b3541e; --c: #2c7a3f; --d: #7b3fa0; --e: #a8324a; --f: #1b7f86; --g: #8a6d00; --h: #555b66; }\n"
"@media (prefers-color-scheme: dark) {\n"
"  :root { --page: #16181c; --text: #e6e8eb; --soft: #9aa3ad; --grid: #33383f;\n"
"  --a: #78aef5; --b: #f0a070; --c: #7cc98d; --d: #c79be6; --e: #f08a9c; --f: #6cc9d0; --g: #d9bd55; --h: #aab1bb; } }\n"
"body { background: var(--page); color: var(--text); font: 15px/1.5 system-ui, sans-serif; margin: 0 auto;\n"
"  max-width: 70rem; padding: 1rem 1.5rem; }\n"
"h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }\n"
"svg { display: block; width: 100%; height: auto; } .legend svg { display: inline; width: 24px; height: 10px; }\n"
".legend span { margin-right: 1.2rem; white-space: nowrap; }\n"
".axis { fill: var(--soft); font: 11px system-ui, sans-serif; } .grid { stroke: var(--grid); }\n"
".line { fill: none; stroke-width: 1.6; } .dashed { stroke-dasharray: 5 3; }\n"
".k0 { stroke: var(--h); } .k1 { stroke: var(--a); } .k2 { stroke: var(--b); } .k3 { stroke: var(--c); }\n"
".k4 { stroke: var(--d); } .k5 { stroke: var(--e); } .k6 { stroke: var(--f); } .k7 { stroke: var(--g); }\n"
".f0 { fill: var(--a); } .f1 { fill: var(--c); } .f2 { fill: var(--b); } .f3 { fill: var(--h); }\n"
".wide { overflow-x: auto; } table { border-collapse: collapse; } th, td { padding: 0.2rem 0.8rem; text-align: right;\n"
"  border-bottom: 1px solid var(--grid); } th:first-child, td:first-child { text-align: left; }\n"
"th { font-weight: 600; color: var(--soft); } td { font-variant-numeric: tabular-nums; }\n"
"</style>\n"
"</head>\n"
"<body>\n";

/* Text of the outside. */
static void escaped(FILE *out, const char *text)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '&')
			fputs("&amp;", out);
		else if (c == '<')
			fputs("&lt;", out);
		else if (c == '>')
			fputs("&gt;", out);
		else if (c == '"')
			fputs("&quot;", out);
		else if (c < ' ' || c >= 127)
			fputc('?', out);
		else
			fputc(c, out);
	}
}

static void summary(FILE *out, const struct comparison *c)
{
	const char *name = strrchr(options.trace, '/');
	uint32_t i;

	fputs("<h1>", out);
	escaped(out, name ? name + 1 : options.trace);
	fprintf(out, "</h1>\n<p>Recorded: %u calls of %u threads in %.3f ms, CUDA %u.%u.", trace.calls, trace.threads,
		(double)trace.length / 1e6, trace.header->driver / 1000, trace.header->driver % 1000 / 10);
	if (trace.cut)
		fputs(" The recording was not completed.", out);
	if (options.dry) {
		fputs(" Not replayed.</p>\n", out);
		return;
	}
	fprintf(out, "<br/>\nReplayed: %u calls in %.3f ms, %u skipped.<br/>\nResults: %u agree, %u differ.</p>\n",
		c->agree + c->differ, (double)trace.replay_length / 1e6, c->skipped, c->agree, c->differ);
	if (!c->skipped)
		return;
	fputs("<ul>\n", out);
	for (i = 0; i < SKIPS; i++)
		if (c->skips[i])
			fprintf(out, "<li>%u skipped: %s</li>\n", c->skips[i], skip_text(i));
	fputs("</ul>\n", out);
}

static void differences(FILE *out, const struct comparison *c)
{
	uint32_t i, shown = 0;
	char text[16];

	if (options.dry || !c->differ)
		return;
	fputs("<h2>Results that differ</h2>\n<div class=\"wide\"><table id=\"differences\">\n"
	      "<tr><th>function</th><th>ms</th><th>thread</th><th>recorded</th><th>replayed</th></tr>\n", out);
	for (i = 0; i < trace.items && shown < SHOWN; i++) {
		const struct item *item = &trace.item[i];

		if (item->sample || item->skip || results_agree(item))
			continue;
		fprintf(out, "<tr><td>%s</td><td>%.3f</td><td>%u</td><td>", trace.names[item->number],
			(double)(item->begin - trace.item[0].begin) / 1e6, item->thread);
		escaped(out, result_name(item->call->result, text));
		fputs("</td><td>", out);
		escaped(out, result_name(item->result, text));
		fputs("</td></tr>\n", out);
		shown++;
	}
	fputs("</table></div>\n", out);
}

static void percent(FILE *out, double value)
{
	if (value < 0)
		fputs("<td>-</td>", out);
	else
		fprintf(out, "<td>%.1f %%</td>", value * 100);
}

static void peaks(FILE *out, const struct comparison *c)
{
	char name[64], a[32], b[32];
	uint32_t i;

	fputs("<div class=\"wide\"><table id=\"peaks\">\n<tr><th>peak</th><th>recorded</th><th>used</th><th>fragmentation</th>"
	      "<th>replayed</th><th>used</th><th>fragmentation</th></tr>\n", out);
	for (i = 0; i < c->peak_count; i++) {
		const struct peaks *p = &c->peaks[i];
		uint64_t recorded = p->pool ? p->recorded_used : p->recorded_live;
		uint64_t replayed = p->pool ? p->replay_used : p->replay_live;

		peaks_name(p, name, sizeof(name));
		format_bytes(p->recorded_reserved, a);
		format_bytes(recorded, b);
		fprintf(out, "<tr><td>%s</td><td>%s</td><td>%s</td>", name, a, b);
		percent(out, fragmentation(p->recorded_reserved, recorded));
		format_bytes(p->replay_reserved, a);
		format_bytes(replayed, b);
		if (p->replayed) {
			fprintf(out, "<td>%s</td><td>%s</td>", a, b);
			percent(out, fragmentation(p->replay_reserved, replayed));
			fputs("</tr>\n", out);
		} else {
			fputs("<td>-</td><td>-</td><td>-</td></tr>\n", out);
		}
	}
	fputs("</table></div>\n", out);
}

static void latencies(FILE *out, const struct comparison *c)
{
	uint32_t i;

	fputs("<h2>Latency in microseconds</h2>\n<div class=\"wide\"><table id=\"latency\">\n<tr><th>function</th><th>calls</th>"
	      "<th>median</th><th>99 %</th><th>replayed</th><th>99 %</th><th>ratio</th></tr>\n", out);
	for (i = 0; i < c->latencies; i++) {
		const struct latency *l = &c->latency[i];

		fprintf(out, "<tr><td>%s</td><td>%u</td><td>%.2f</td><td>%.2f</td>", l->name, l->count,
			(double)l->recorded_median / 1e3, (double)l->recorded_p99 / 1e3);
		if (options.dry)
			fputs("<td>-</td><td>-</td><td>-</td></tr>\n", out);
		else
			fprintf(out, "<td>%.2f</td><td>%.2f</td><td>%.2f</td></tr>\n", (double)l->replay_median / 1e3,
				(double)l->replay_p99 / 1e3,
				l->recorded_median ? (double)l->replay_median / (double)l->recorded_median : 0);
	}
	fputs("</table></div>\n", out);
}

void page_write(const struct comparison *c, const char *path)
{
	FILE *out = fopen(path, "we");

	if (!out)
		refuse("%s: %s", path, strerror(errno));
	fputs(head, out);
	summary(out, c);
	differences(out, c);
	fputs("<h2>Memory</h2>\n", out);
	draw_memory(out, c);
	peaks(out, c);
	fputs("<h2>Streams, recorded</h2>\n", out);
	draw_streams(out, false);
	if (!options.dry) {
		fputs("<h2>Streams, replayed</h2>\n", out);
		draw_streams(out, true);
	}
	latencies(out, c);
	fputs("</body>\n</html>\n", out);
	if (ferror(out) || fclose(out))
		refuse("%s: %s", path, strerror(errno));
}
