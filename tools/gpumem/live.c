// SPDX-License-Identifier: GPL-2.0
/*
 * The commands that query the module by netlink: list clients, list objects, watch, leaks.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "nl.h"
#include "tool.h"

void open_or_die(struct gnl *nl)
{
	int ret = gnl_open(nl);

	if (ret)
		die("netlink: %s", gnl_why(ret));
}

void note_partial(void)
{
	if (geteuid()) {
		fflush(stdout);
		fputs("gpumem: only what is yours is shown: root sees all\n", stderr);
	}
}

void take_sample(struct gnl *nl, struct sample *s)
{
	int ret = gnl_clients(nl, &s->clients, &s->n, &s->torn);
	struct timespec now;

	if (ret)
		die("clients: %s", gnl_why(ret));
	s->devices = NULL;
	s->ndevices = 0;
	clock_gettime(CLOCK_MONOTONIC, &now);
	s->time = now.tv_sec + now.tv_nsec / 1e9;
}

void client_titles(void)
{
	printf("%-8s %-16s %8s %8s %4s %8s %12s %12s %12s %12s %8s", "CLIENT", "COMMAND", "PID", "UID", "DEV", "OBJECTS",
	       "DEVICE-MEM", "HOST-MEM", "PINNED", "VIEWS", "STREAMS");
}

void client_cells(const struct gnl_client *c)
{
	printf("%-8u %-16s %8u %8u %4u %8llu", c->id, c->comm, c->pid, c->uid, c->device,
	       (unsigned long long)GNL_COUNT(c, OBJECTS));
	size_cell(GNL_COUNT(c, BO_BYTES), 12);
	size_cell(GNL_COUNT(c, HOST_BYTES), 12);
	size_cell(GNL_COUNT(c, PIN_BYTES), 12);
	size_cell(GNL_COUNT(c, VIEW_BYTES), 12);
	printf(" %8llu", (unsigned long long)GNL_COUNT(c, STREAMS));
}

static void show_clients(const struct sample *s)
{
	client_titles();
	putchar('\n');
	for (size_t i = 0; i < s->n; i++) {
		client_cells(&s->clients[i]);
		puts(s->clients[i].dead ? "  dead" : "");
	}
	if (s->torn)
		puts("(clients came and went meanwhile: some may be missing)");
}

void take_devices(struct gnl *nl, struct sample *s)
{
	int ret = gnl_devices(nl, &s->devices, &s->ndevices);

	if (ret)
		die("devices: %s", gnl_why(ret));
}

void free_sample(struct sample *s)
{
	free(s->clients);
	free(s->devices);
}

json_t *client_json(const struct gnl_client *client)
{
	json_t *object = pack("{s:I, s:I, s:I, s:I, s:b}", "client", (json_int_t)client->id, "pid",
			      (json_int_t)client->pid, "uid", (json_int_t)client->uid, "device",
			      (json_int_t)client->device, "dead", client->dead);

	put(object, "command", text_json(client->comm));
	for (unsigned int i = 0; i < GNL_COUNTERS; i++)
		put_number(object, gnl_counter_name(i), client->counts[i]);
	return object;
}

int list_clients(void)
{
	struct sample s;
	struct gnl nl;

	open_or_die(&nl);
	take_sample(&nl, &s);
	if (options.json) {
		json_t *doc = document("list clients"), *array = pack("[]");

		for (size_t i = 0; i < s.n; i++)
			append(array, client_json(&s.clients[i]));
		put(doc, "complete", json_boolean(!s.torn));
		put(doc, "clients", array);
		print_document(doc);
	} else {
		show_clients(&s);
	}
	free_sample(&s);
	gnl_close(&nl);
	note_partial();
	return 0;
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

static json_t *object_json(const struct gnl_object *o)
{
	json_t *object = pack("{s:I, s:I, s:s, s:b, s:b}", "client", (json_int_t)o->client, "id", (json_int_t)o->id,
			      "type", gnl_type_name(o), "gone", !!(o->flags & GPUMEM_OBJECT_FLAG_GONE), "exported",
			      !!(o->flags & GPUMEM_OBJECT_FLAG_EXPORTED));

	put(object, "device", o->device >= 0 ? json_integer(o->device) : json_null());
	put(object, "name", text_json(o->name));
	put_number(object, "length", o->length);
	if (o->pool)
		put_number(object, "pool", o->pool);
	if (o->type == GPUMEM_OBJECT_TYPE_POOL) {
		put_number(object, "limit", o->limit);
		put_number(object, "reserved", o->reserved);
		put_number(object, "reserved-high", o->reserved_high);
		put_number(object, "client-used", o->used);
		put_number(object, "client-used-high", o->used_high);
		put_number(object, "chunks", o->chunks);
		put_number(object, "imports", o->imports);
		put_number(object, "cached", o->cached);
	}
	if (o->kind == GPUMEM_BO_MANAGED) {
		put_number(object, "resident", o->resident);
		put_number(object, "faults", o->faults);
		put_number(object, "evictions", o->evictions);
		put_number(object, "thrash", o->thrash);
		put_number(object, "moved-in", o->moved_in);
		put_number(object, "moved-out", o->moved_out);
	}
	return object;
}

static void print_objects(const struct gnl_object *objects, size_t n, bool torn)
{
	printf("%-8s %8s %-14s %4s %12s %s\n", "CLIENT", "ID", "TYPE", "DEV", "SIZE", "NAME");
	for (size_t i = 0; i < n; i++) {
		const struct gnl_object *o = &objects[i];
		char device[16] = "-";

		if (o->device >= 0)
			snprintf(device, sizeof(device), "%d", o->device);
		printf("%-8u %8u %-14s %4s", o->client, o->id, gnl_type_name(o), device);
		size_cell(o->type == GPUMEM_OBJECT_TYPE_POOL ? o->reserved : o->length, 12);
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
}

int list_objects(const char *which)
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
			misused("%s is not a client's number; gpumem list clients shows them", which);
	}
	open_or_die(&nl);
	ret = gnl_objects(&nl, client, &objects, &n, &torn);
	if (ret)
		die("objects: %s", gnl_why(ret));
	if (options.json) {
		json_t *doc = document("list objects"), *array = pack("[]");

		for (size_t i = 0; i < n; i++)
			append(array, object_json(&objects[i]));
		put(doc, "complete", json_boolean(!torn));
		put(doc, "objects", array);
		print_document(doc);
	} else {
		print_objects(objects, n, torn);
	}
	free(objects);
	gnl_close(&nl);
	note_partial();
	return 0;
}

static bool counts_things(__u32 limit)
{
	return limit == GPUMEM_LIMIT_OBJECTS || limit == GPUMEM_LIMIT_STREAMS || limit == GPUMEM_LIMIT_MAPPINGS;
}

static json_t *refusal_json(const struct gnl_refusal *r)
{
	char now[32];
	json_t *object = pack("{s:s, s:I, s:I, s:I, s:s, s:s, s:I}", "time", time_now(now), "pid",
			      (json_int_t)r->pid, "uid", (json_int_t)r->uid, "client", (json_int_t)r->client,
			      "limit", gnl_limit_name(r->limit), "unit", counts_things(r->limit) ? "objects" : "bytes",
			      "missed", (json_int_t)r->missed);

	put(object, "command", text_json(r->comm));
	put(object, "device", r->device >= 0 ? json_integer(r->device) : json_null());
	put(object, "pool", r->pool ? json_integer(r->pool) : json_null());
	put_number(object, "asked", r->asked);
	put(object, "used", r->bounded ? number_json(r->used) : json_null());
	put(object, "bound", r->bounded ? number_json(r->bound) : json_null());
	return object;
}

static void print_refusal(const struct gnl_refusal *r)
{
	char asked[64], used[64], bound[64], now[32];

	if (counts_things(r->limit)) {
		snprintf(asked, sizeof(asked), "%llu more", (unsigned long long)r->asked);
		snprintf(used, sizeof(used), "%llu", (unsigned long long)r->used);
		snprintf(bound, sizeof(bound), "%llu", (unsigned long long)r->bound);
	} else {
		format_size(r->asked, asked, sizeof(asked));
		format_size(r->used, used, sizeof(used));
		format_size(r->bound, bound, sizeof(bound));
	}
	if (options.times)
		printf("%s ", time_now(now));
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
	check_output();
}

static bool heard(const struct gnl_refusal *r, void *arg)
{
	unsigned long *left = arg;

	if (options.json)
		next_element(refusal_json(r));
	else
		print_refusal(r);
	return !*left || --*left;
}

int watch(void)
{
	unsigned long left = options.count;
	struct gnl nl;
	int ret;

	open_or_die(&nl);
	ret = gnl_listen(&nl);
	if (ret)
		die("refusals: %s", gnl_why(ret));
	fputs("gpumem: waiting for refused allocations; ^C ends\n", stderr);
	if (options.json)
		begin_array("watch", "refusals");
	ret = gnl_hear(&nl, heard, &left);
	if (options.json)
		end_array();
	if (ret)
		die("refusals: %s", gnl_why(ret));
	gnl_close(&nl);
	return 0;
}

/* With an array: add a line to it.  Otherwise print the line. */
static void found(void *arg, const char *line)
{
	json_t *array = arg;

	if (array)
		append(array, text_json(line));
	else
		puts(line);
}

static void ignore(void *arg, const char *line)
{
	(void)arg;
	(void)line;
}

int leaks(void)
{
	json_t *array = options.json ? pack("[]") : NULL;
	struct gnl nl;
	int ret;

	open_or_die(&nl);
	/* The kernel frees memory a little after the last close(): retry for 5 seconds. */
	for (int i = 0; i < 50; i++) {
		ret = gnl_audit(&nl, true, ignore, NULL);
		if (ret <= 0)
			break;
		usleep(100000);
	}
	if (ret > 0)
		ret = gnl_audit(&nl, true, found, array);
	if (ret < 0)
		die("audit: %s", gnl_why(ret));
	if (array) {
		json_t *doc = document("leaks");

		put(doc, "found", array);
		print_document(doc);
	}
	gnl_close(&nl);
	note_partial();
	return ret ? 1 : 0;
}
