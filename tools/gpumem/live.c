// SPDX-License-Identifier: GPL-2.0
/*
 * The commands that query the module by netlink: list clients, list objects, top, watch, leaks.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "nl.h"
#include "tool.h"

static void open_or_die(struct gnl *nl)
{
	int ret = gnl_open(nl);

	if (ret)
		die("netlink: %s", gnl_why(ret));
}

static void note_partial(void)
{
	if (geteuid()) {
		fflush(stdout);
		fputs("gpumem: only what is yours is shown: root sees all\n", stderr);
	}
}

static void size_column(unsigned long long value, int width)
{
	char text[64];

	format_size(value, text, sizeof(text));
	printf(" %*s", width, text);
}

/* The clients at one time. */
struct sample {
	struct gnl_client *clients;
	size_t n;
	bool torn;
	double time;	/* seconds */
};

static void take_sample(struct gnl *nl, struct sample *s)
{
	int ret = gnl_clients(nl, &s->clients, &s->n, &s->torn);
	struct timespec now;

	if (ret)
		die("clients: %s", gnl_why(ret));
	clock_gettime(CLOCK_MONOTONIC, &now);
	s->time = now.tv_sec + now.tv_nsec / 1e9;
}

static void show_clients(const struct sample *s)
{
	printf("%-8s %-16s %8s %8s %4s %8s %12s %12s %12s %12s %8s\n", "CLIENT", "COMMAND", "PID",
	       "UID", "DEV", "OBJECTS", "DEVICE-MEM", "HOST-MEM", "PINNED", "VIEWS", "STREAMS");
	for (size_t i = 0; i < s->n; i++) {
		struct gnl_client *c = &s->clients[i];

		printf("%-8u %-16s %8u %8u %4u %8llu", c->id, c->comm, c->pid, c->uid, c->device,
		       (unsigned long long)GNL_COUNT(c, OBJECTS));
		size_column(GNL_COUNT(c, BO_BYTES), 12);
		size_column(GNL_COUNT(c, HOST_BYTES), 12);
		size_column(GNL_COUNT(c, PIN_BYTES), 12);
		size_column(GNL_COUNT(c, VIEW_BYTES), 12);
		printf(" %8llu%s\n", (unsigned long long)GNL_COUNT(c, STREAMS),
		       c->dead ? "  dead" : "");
	}
	if (s->torn)
		puts("(clients came and went meanwhile: some may be missing)");
}

/* The client with the same number in an earlier sample, or NULL. */
static const struct gnl_client *find_client(const struct sample *s, __u32 id)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->clients[i].id == id)
			return &s->clients[i];
	return NULL;
}

/* Print how fast a counter of @c grew since @before; a client that is new began with 0. @seconds: 0 if unknown. */
static void rate_column(const struct gnl_client *c, const struct gnl_client *before, int attr,
			double seconds, bool is_size)
{
	int i = attr - GPUMEM_A_CLIENT_OBJECTS;
	double rate;

	if (seconds <= 0) {
		printf(" %*s", is_size ? 12 : 10, "-");
		return;
	}
	rate = (c->counts[i] - (before ? before->counts[i] : 0)) / seconds;
	if (is_size)
		size_column(rate, 12);
	else
		printf(" %10.0f", rate);
}

/* Print the clients that have, or had, managed memory. */
static void show_managed(const struct sample *s, const struct sample *before)
{
	static const struct {
		const char *title;
		int attr;
		bool is_size;
	} rates[] = {
		{ "FAULTS/s", GPUMEM_A_CLIENT_MANAGED_FAULTS, false },
		{ "EVICTED/s", GPUMEM_A_CLIENT_MANAGED_EVICTIONS, false },
		{ "THRASH/s", GPUMEM_A_CLIENT_MANAGED_THRASH, false },
		{ "IN/s", GPUMEM_A_CLIENT_MANAGED_IN, true },
		{ "OUT/s", GPUMEM_A_CLIENT_MANAGED_OUT, true },
	};
	const unsigned int count = sizeof(rates) / sizeof(*rates);
	double seconds = before->time ? s->time - before->time : 0;
	bool titled = false;

	for (size_t i = 0; i < s->n; i++) {
		const struct gnl_client *c = &s->clients[i], *was = find_client(before, c->id);

		if (!GNL_COUNT(c, MANAGED) && !GNL_COUNT(c, MANAGED_IN))
			continue;
		if (!titled) {
			printf("\n%-8s %-16s %8s %12s", "CLIENT", "COMMAND", "MANAGED", "RESIDENT");
			for (unsigned int k = 0; k < count; k++)
				printf(" %*s", rates[k].is_size ? 12 : 10, rates[k].title);
			putchar('\n');
			titled = true;
		}
		/* The sample before may lack a client that was there. */
		bool known = was || !before->torn;

		printf("%-8u %-16s %8llu", c->id, c->comm,
		       (unsigned long long)GNL_COUNT(c, MANAGED));
		size_column(GNL_COUNT(c, MANAGED_RESIDENT), 12);
		for (unsigned int k = 0; k < count; k++)
			rate_column(c, was, rates[k].attr, known ? seconds : 0, rates[k].is_size);
		putchar('\n');
	}
}

void list_clients(void)
{
	struct sample s;
	struct gnl nl;

	open_or_die(&nl);
	take_sample(&nl, &s);
	show_clients(&s);
	free(s.clients);
	gnl_close(&nl);
	note_partial();
}

/* Print the values of a pool other than its size, behind the pool's name. */
static void pool_notes(const struct gnl_object *o)
{
	char text[64];

	format_size(o->used, text, sizeof(text));
	printf(" (says it uses %s", text);
	if (o->limit) {
		format_size(o->limit, text, sizeof(text));
		printf(", limit %s", text);
	}
	if (o->cached) {
		format_size(o->cached, text, sizeof(text));
		printf(", cached %s", text);
	}
	printf(", chunks: %llu, imports: %llu)", (unsigned long long)o->chunks,
	       (unsigned long long)o->imports);
}

/* Print what managed memory has moved, behind its name. */
static void managed_notes(const struct gnl_object *o)
{
	char resident[64], in[64], out[64];

	format_size(o->resident, resident, sizeof(resident));
	format_size(o->moved_in, in, sizeof(in));
	format_size(o->moved_out, out, sizeof(out));
	printf(" (resident: %s, faults: %llu, evictions: %llu, thrash: %llu, in: %s, out: %s)",
	       resident, (unsigned long long)o->faults, (unsigned long long)o->evictions,
	       (unsigned long long)o->thrash, in, out);
}

void list_objects(const char *which)
{
	struct gnl_object *objects;
	unsigned long client = 0;
	struct gnl nl;
	bool torn;
	char *end;
	size_t n;
	int ret;

	if (which) {
		client = strtoul(which, &end, 10);
		if (*end || !client || client > UINT32_MAX)
			die("%s is not a client's number; gpumem list clients shows them", which);
	}
	open_or_die(&nl);
	ret = gnl_objects(&nl, client, &objects, &n, &torn);
	if (ret)
		die("objects: %s", gnl_why(ret));
	printf("%-8s %8s %-14s %4s %12s %s\n", "CLIENT", "ID", "TYPE", "DEV", "SIZE", "NAME");
	for (size_t i = 0; i < n; i++) {
		struct gnl_object *o = &objects[i];
		char device[16] = "-";

		if (o->device >= 0)
			snprintf(device, sizeof(device), "%d", o->device);
		printf("%-8u %8u %-14s %4s", o->client, o->id, gnl_type_name(o), device);
		size_column(o->type == GPUMEM_OBJECT_TYPE_POOL ? o->reserved : o->length, 12);
		printf(" %s%s%s", o->name[0] ? o->name : "-",
		       o->flags & GPUMEM_OBJECT_FLAG_GONE ? " (id destroyed)" : "",
		       o->flags & GPUMEM_OBJECT_FLAG_EXPORTED ? " (exported)" : "");
		if (o->pool)
			printf(" (of pool %u)", o->pool);
		if (o->type == GPUMEM_OBJECT_TYPE_POOL)
			pool_notes(o);
		if (o->kind == GPUMEM_BO_MANAGED)
			managed_notes(o);
		putchar('\n');
	}
	if (torn)
		puts("(objects came and went meanwhile: some may be missing or shown twice)");
	free(objects);
	gnl_close(&nl);
	note_partial();
}

void top(unsigned long count)
{
	bool screen = isatty(STDOUT_FILENO);
	struct sample now, before = { 0 };
	struct gnl nl;

	open_or_die(&nl);
	for (unsigned long i = 0; !count || i < count; i++) {
		if (i)
			sleep(1);
		if (screen)
			fputs("\033[H\033[2J", stdout);
		list();
		putchar('\n');
		take_sample(&nl, &now);
		show_clients(&now);
		show_managed(&now, &before);
		fflush(stdout);
		free(before.clients);
		before = now;
	}
	free(before.clients);
	gnl_close(&nl);
	note_partial();
}

static bool print_refusal(const struct gnl_refusal *r, void *arg)
{
	unsigned long *left = arg;
	bool things = r->limit == GPUMEM_LIMIT_OBJECTS || r->limit == GPUMEM_LIMIT_STREAMS ||
		      r->limit == GPUMEM_LIMIT_MAPPINGS;
	char asked[64], used[64], bound[64];

	if (things) {
		snprintf(asked, sizeof(asked), "%llu more", (unsigned long long)r->asked);
		snprintf(used, sizeof(used), "%llu", (unsigned long long)r->used);
		snprintf(bound, sizeof(bound), "%llu", (unsigned long long)r->bound);
	} else {
		format_size(r->asked, asked, sizeof(asked));
		format_size(r->used, used, sizeof(used));
		format_size(r->bound, bound, sizeof(bound));
	}
	printf("%s[%u] uid %u client %u", r->comm, r->pid, r->uid, r->client);
	if (r->device >= 0)
		printf(" device %d", r->device);
	if (r->pool)
		printf(" pool %u", r->pool);
	printf(": %s refused by %s", asked, gnl_limit_name(r->limit));
	if (r->bounded)
		printf(": %s of %s in use", used, bound);
	if (r->missed)
		printf(" (%u more not shown)", r->missed);
	putchar('\n');
	fflush(stdout);
	return !*left || --*left;
}

void watch(unsigned long count)
{
	struct gnl nl;
	int ret;

	open_or_die(&nl);
	ret = gnl_listen(&nl);
	if (ret)
		die("refusals: %s", gnl_why(ret));
	fputs("gpumem: waiting for refused allocations; ^C ends\n", stderr);
	ret = gnl_hear(&nl, print_refusal, &count);
	if (ret)
		die("refusals: %s", gnl_why(ret));
	gnl_close(&nl);
}

static void print_line(void *arg, const char *line)
{
	if (arg)
		puts(line);
}

int leaks(void)
{
	struct gnl nl;
	int ret;

	open_or_die(&nl);
	/* The kernel frees memory a little after the last close(): retry for 5 seconds. */
	for (int i = 0; i < 50; i++) {
		ret = gnl_audit(&nl, true, print_line, NULL);
		if (ret <= 0)
			break;
		usleep(100000);
	}
	if (ret > 0)
		ret = gnl_audit(&nl, true, print_line, &nl);
	if (ret < 0)
		die("audit: %s", gnl_why(ret));
	gnl_close(&nl);
	note_partial();
	return ret ? 1 : 0;
}
