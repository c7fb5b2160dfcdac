// SPDX-License-Identifier: GPL-2.0
/*
 * The leak detector: gnl_audit() compares values that the module reports in different places, and
 * lists everything that exists.
 *
 * Memory in use (the module's statfs of its tmpfs mounts) must equal the lengths of the listed
 * buffer objects plus the memory that only mappings (orphaned) or other parts of the kernel
 * (lingering) keep.  A device's memory in use includes resident managed memory.  Counters must equal
 * the number and lengths of the listed objects.  Sysfs must agree with netlink.  Changes during the
 * audit cause false alarms, so the caller repeats an audit that finds a mismatch.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nl.h"

struct audit {
	void (*say)(void *arg, const char *line);
	void *arg;
	int lines;
	struct gnl_device *devices;
	struct gnl_client *clients;
	struct gnl_object *objects;
	size_t ndevices, nclients, nobjects;
	struct gnl_host host;
};

__attribute__((format(printf, 2, 3)))
static void say(struct audit *a, const char *format, ...)
{
	char line[256];
	va_list ap;

	va_start(ap, format);
	vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	a->say(a->arg, line);
	a->lines++;
}

static void same(struct audit *a, const char *where, __u32 which, const char *left, __u64 x,
		 const char *right, __u64 y)
{
	if (x != y)
		say(a, "%s %u: %s is %llu, but %s is %llu", where, which, left,
		    (unsigned long long)x, right, (unsigned long long)y);
}

/*
 * The number or @bytes of a client's (0: all clients') buffer objects of a kind on a device (-1: on
 * any).
 */
static __u64 sum(struct audit *a, __u32 client, __u32 kind, int device, bool bytes)
{
	__u64 total = 0;

	for (size_t i = 0; i < a->nobjects; i++) {
		struct gnl_object *o = &a->objects[i];

		if (o->type == GPUMEM_OBJECT_TYPE_BO && o->kind == kind &&
		    (!client || o->client == client) && (device < 0 || o->device == device))
			total += bytes ? o->length : 1;
	}
	return total;
}

/* The number or @bytes of a client's (0: all clients') pools on a device (-1: on any). */
static __u64 pools(struct audit *a, __u32 client, int device, bool bytes)
{
	__u64 total = 0;

	for (size_t i = 0; i < a->nobjects; i++) {
		struct gnl_object *o = &a->objects[i];

		if (o->type == GPUMEM_OBJECT_TYPE_POOL && (!client || o->client == client) &&
		    (device < 0 || o->device == device))
			total += bytes ? o->reserved + o->cached : 1;
	}
	return total;
}

/*
 * A pool's counters must cover its listed chunks, and agree with each other.  The counters may
 * exceed the list, because mappings may keep memory that has no buffer object.
 */
static void audit_pool(struct audit *a, struct gnl_object *p)
{
	__u64 bytes = 0, chunks = 0;

	for (size_t i = 0; i < a->nobjects; i++) {
		struct gnl_object *o = &a->objects[i];

		if (o->type == GPUMEM_OBJECT_TYPE_BO && o->client == p->client && o->pool == p->id &&
		    !(p->flags & GPUMEM_OBJECT_FLAG_GONE)) {
			bytes += o->length;
			chunks++;
		}
	}
	if (bytes > p->reserved + p->cached || chunks > p->chunks)
		say(a, "pool %u of client %u: %llu bytes in %llu chunks are reserved or cached, but %llu bytes in %llu chunks are listed",
		    p->id, p->client, (unsigned long long)(p->reserved + p->cached),
		    (unsigned long long)p->chunks, (unsigned long long)bytes,
		    (unsigned long long)chunks);
	if (p->used > p->reserved || p->reserved > p->reserved_high ||
	    (p->limit && p->reserved + p->cached > p->limit))
		say(a, "pool %u of client %u: its figures contradict each other", p->id, p->client);
}

static void compare_sysfs(struct audit *a, const char *path, __u32 which, const char *name, __u64 x)
{
	unsigned long long value;
	char file[160];
	FILE *f;

	snprintf(file, sizeof(file), "/sys/class/gpumem/%s", path);
	f = fopen(file, "r");
	if (!f || fscanf(f, "%llu", &value) != 1)
		say(a, "%s cannot be read", file);
	else
		same(a, "device", which, name, x, file, value);
	if (f)
		fclose(f);
}

static void audit_device(struct audit *a, struct gnl_device *d)
{
	const struct {
		const char *name;
		__u64 value;
	} attributes[] = {
		{ "size", d->total }, { "used", d->used }, { "clients", d->clients },
		{ "bos", d->bos }, { "exports", d->exports }, { "views", d->views },
		{ "pools", d->pools }, { "imports", d->imports }, { "managed", d->managed },
	};
	__u64 clients = 0;

	same(a, "device", d->index, "memory in use", d->used, "what accounts for it",
	     sum(a, 0, GPUMEM_BO_DEVICE, d->index, true) + d->orphaned + d->lingering +
	     d->managed);
	same(a, "device", d->index, "bos", d->bos, "the number of them listed",
	     sum(a, 0, GPUMEM_BO_DEVICE, d->index, false));
	same(a, "device", d->index, "pinned", d->pinned, "the sum of registrations listed",
	     sum(a, 0, GPUMEM_BO_PINNED, d->index, true));
	same(a, "device", d->index, "pools", d->pools, "the number of them listed",
	     pools(a, 0, d->index, false));
	same(a, "device", d->index, "imports", d->imports, "the number of them listed",
	     sum(a, 0, GPUMEM_BO_FOREIGN, d->index, false));
	for (size_t i = 0; i < a->nclients; i++)
		clients += a->clients[i].device == d->index && !a->clients[i].dead;
	same(a, "device", d->index, "clients", d->clients, "the number of them listed", clients);
	for (size_t i = 0; i < sizeof(attributes) / sizeof(*attributes); i++) {
		char path[64];

		snprintf(path, sizeof(path), "gpumem%u/%s", d->index, attributes[i].name);
		compare_sysfs(a, path, d->index, attributes[i].name, attributes[i].value);
	}
}

static void audit_client(struct audit *a, struct gnl_client *c)
{
	const struct {
		__u32 kind;
		const char *name;
		__u64 count, bytes;
	} kinds[] = {
		{ GPUMEM_BO_DEVICE, "bos", GNL_COUNT(c, BOS), GNL_COUNT(c, BO_BYTES) },
		{ GPUMEM_BO_VIEW, "views", GNL_COUNT(c, VIEWS), GNL_COUNT(c, VIEW_BYTES) },
		{ GPUMEM_BO_PINNED, "pins", GNL_COUNT(c, PINS), GNL_COUNT(c, PIN_BYTES) },
		{ GPUMEM_BO_HOST, "host", GNL_COUNT(c, HOST), GNL_COUNT(c, HOST_BYTES) },
		{ GPUMEM_BO_FOREIGN, "imports", GNL_COUNT(c, IMPORTS), GNL_COUNT(c, IMPORT_BYTES) },
	};
	__u64 ids = 0, imports = 0;

	same(a, "client", c->id, "managed", GNL_COUNT(c, MANAGED), "the number of them listed",
	     sum(a, c->id, GPUMEM_BO_MANAGED, -1, false));
	same(a, "client", c->id, "pools", GNL_COUNT(c, POOLS), "the number of them listed",
	     pools(a, c->id, -1, false));
	same(a, "client", c->id, "pool-reserved and pool-cached",
	     GNL_COUNT(c, POOL_RESERVED) + GNL_COUNT(c, POOL_CACHED),
	     "the sum over its pools", pools(a, c->id, -1, true));
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		same(a, "client", c->id, kinds[i].name, kinds[i].count,
		     "the number of them listed", sum(a, c->id, kinds[i].kind, -1, false));
		same(a, "client", c->id, kinds[i].name, kinds[i].bytes,
		     "the sum of their lengths", sum(a, c->id, kinds[i].kind, -1, true));
	}
	for (size_t i = 0; i < a->nobjects; i++) {
		if (a->objects[i].client != c->id)
			continue;
		ids += !(a->objects[i].flags & GPUMEM_OBJECT_FLAG_GONE);
		imports += a->objects[i].type == GPUMEM_OBJECT_TYPE_POOL_REF;
	}
	same(a, "client", c->id, "pool-imports", GNL_COUNT(c, POOL_IMPORTS),
	     "the number of them listed", imports);
	same(a, "client", c->id, "objects", GNL_COUNT(c, OBJECTS), "the number of ids listed", ids);
}

static void show_all(struct audit *a)
{
	for (size_t i = 0; i < a->nclients; i++) {
		struct gnl_client *c = &a->clients[i];

		say(a, "client %u of %s, pid %u, uid %u, on device %u%s", c->id, c->comm, c->pid,
		    c->uid, c->device, c->dead ? ", dead" : "");
	}
	for (size_t i = 0; i < a->nobjects; i++) {
		struct gnl_object *o = &a->objects[i];

		say(a, "client %u has %s %u%s%s, %llu bytes%s%s", o->client, gnl_type_name(o), o->id,
		    o->name[0] ? " " : "", o->name,
		    (unsigned long long)(o->type == GPUMEM_OBJECT_TYPE_POOL ? o->reserved : o->length),
		    o->flags & GPUMEM_OBJECT_FLAG_GONE ? ", id destroyed" : "",
		    o->flags & GPUMEM_OBJECT_FLAG_EXPORTED ? ", exported" : "");
	}
	for (size_t i = 0; i < a->ndevices; i++) {
		struct gnl_device *d = &a->devices[i];

		if (d->used || d->clients || d->bos || d->exports || d->views || d->pinned ||
		    d->pools || d->imports)
			say(a, "device %u: %llu bytes in use (%llu mapped only, %llu held by the kernel only), %llu pinned, %u clients, %u bos, %u exports, %u views, %u pools, %u imports",
			    d->index, (unsigned long long)d->used, (unsigned long long)d->orphaned,
			    (unsigned long long)d->lingering, (unsigned long long)d->pinned,
			    d->clients, d->bos, d->exports, d->views, d->pools,
			    d->imports);
	}
	if (a->host.used)
		say(a, "host memory: %llu bytes in use (%llu mapped only, %llu held by the kernel only)",
		    (unsigned long long)a->host.used, (unsigned long long)a->host.orphaned,
		    (unsigned long long)a->host.lingering);
	if (a->host.managed)
		say(a, "managed memory: %llu bytes in use", (unsigned long long)a->host.managed);
	if (a->host.rings)
		say(a, "rings: %llu bytes in use", (unsigned long long)a->host.rings);
}

int gnl_audit(struct gnl *nl, bool all, void (*sayit)(void *arg, const char *line), void *arg)
{
	struct audit a = { .say = sayit, .arg = arg };
	__u64 exports[2] = { 0, 0 }, resident[2] = { 0, 0 };
	bool torn = false;
	int ret;

	ret = gnl_objects(nl, 0, &a.objects, &a.nobjects, &torn);
	if (!ret)
		ret = gnl_clients(nl, &a.clients, &a.nclients, NULL);
	if (!ret)
		ret = gnl_devices(nl, &a.devices, &a.ndevices);
	if (!ret)
		ret = gnl_host(nl, &a.host);
	if (ret)
		goto out;
	if (torn)
		say(&a, "objects come and go: this is no snapshot");
	if (all)
		show_all(&a);
	for (size_t i = 0; i < a.ndevices; i++) {
		audit_device(&a, &a.devices[i]);
		exports[0] += a.devices[i].exports;
		resident[0] += a.devices[i].managed;
	}
	for (size_t i = 0; i < a.nclients; i++) {
		audit_client(&a, &a.clients[i]);
		exports[1] += GNL_COUNT(&a.clients[i], EXPORTS);
		resident[1] += GNL_COUNT(&a.clients[i], MANAGED_RESIDENT);
	}
	for (size_t i = 0; i < a.nobjects; i++)
		if (a.objects[i].type == GPUMEM_OBJECT_TYPE_POOL)
			audit_pool(&a, &a.objects[i]);
	same(&a, "device", 0, "exports of all devices", exports[0], "the sum over clients",
	     exports[1]);
	same(&a, "device", 0, "resident managed memory of all devices", resident[0],
	     "the sum over clients", resident[1]);
	same(&a, "host memory", 0, "memory in use", a.host.used, "what accounts for it",
	     sum(&a, 0, GPUMEM_BO_HOST, -1, true) + a.host.orphaned + a.host.lingering);
	/* Page faults add to managed memory at any time, and mappings keep it: nothing to compare. */
	compare_sysfs(&a, "host_used", 0, "host memory in use", a.host.used);
	compare_sysfs(&a, "managed_used", 0, "managed memory in use", a.host.managed);
	compare_sysfs(&a, "pinned", 0, "pinned memory of all users", a.host.pinned);
	compare_sysfs(&a, "rings", 0, "memory of rings of all users", a.host.rings);
	ret = a.lines;
out:
	free(a.devices);
	free(a.clients);
	free(a.objects);
	return ret;
}
