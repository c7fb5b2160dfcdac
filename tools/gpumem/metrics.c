// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem metrics: the numbers of devices, of the host and, if asked for, of clients, as Prometheus or OpenMetrics text.
 *
 * The samples have no timestamps: node exporter's textfile collector refuses files that have any.
 */
#include <stdlib.h>
#include <string.h>

#include "nl.h"
#include "tool.h"

/* How a counter of a client is called, if it is shown. */
static const struct {
	int attr;
	const char *name, *help;
	bool counter;
	double unit;			/* what 1 of the counter is worth; 0 means 1 */
} client_rows[] = {
	{ GPUMEM_A_CLIENT_BO_BYTES, "gpumem_client_memory_bytes",
	  "Device memory in buffer objects of the client, of all its devices.", false, 0 },
	{ GPUMEM_A_CLIENT_MANAGED_RESIDENT, "gpumem_client_managed_resident_bytes",
	  "Managed memory of the client that is resident on devices.", false, 0 },
	{ GPUMEM_A_CLIENT_HOST_BYTES, "gpumem_client_host_bytes", "Pinned host memory of the client.", false, 0 },
	{ GPUMEM_A_CLIENT_PIN_BYTES, "gpumem_client_registered_bytes", "Registered memory of the client.", false, 0 },
	{ GPUMEM_A_CLIENT_OBJECTS, "gpumem_client_objects", "Objects of the client.", false, 0 },
	{ GPUMEM_A_CLIENT_STREAMS, "gpumem_client_streams", "Streams of the client.", false, 0 },
	{ GPUMEM_A_CLIENT_JOBS, "gpumem_client_jobs", "Ring entries completed without error.", true, 0 },
	{ GPUMEM_A_CLIENT_COPY_BYTES, "gpumem_client_copy_bytes", "Bytes that copies wrote.", true, 0 },
	{ GPUMEM_A_CLIENT_FILL_BYTES, "gpumem_client_fill_bytes", "Bytes that fills wrote.", true, 0 },
	{ GPUMEM_A_CLIENT_ENGINE_NS, "gpumem_client_engine_seconds", "Time that workers spent in streams.", true, 1e-9 },
	{ GPUMEM_A_CLIENT_MANAGED_FAULTS, "gpumem_client_managed_faults",
	  "Blocks of managed memory that became resident because an engine touched them.", true, 0 },
	{ GPUMEM_A_CLIENT_MANAGED_EVICTIONS, "gpumem_client_managed_evictions",
	  "Blocks of managed memory that were evicted to make room.", true, 0 },
	{ GPUMEM_A_CLIENT_MANAGED_THRASH, "gpumem_client_managed_thrash",
	  "Blocks of managed memory that became resident again soon after their eviction.", true, 0 },
};

/* The numbers of a device. */
static const struct {
	const char *name, *help;
	size_t at;
	bool wide;			/* 64 bits */
	bool counter;
	double unit;			/* as above */
} device_rows[] = {
#define ROW(field, name, help, wide)	{ name, help, offsetof(struct gnl_device, field), wide, false, 0 }
#define COUNTER(field, name, help, unit)	{ name, help, offsetof(struct gnl_device, field), true, true, unit }
	ROW(total, "gpumem_device_memory_bytes", "Size of the device's memory.", true),
	ROW(used, "gpumem_device_used_bytes", "Device memory in use.", true),
	ROW(managed, "gpumem_device_managed_bytes", "Device memory in use by resident managed memory.", true),
	ROW(orphaned, "gpumem_device_orphaned_bytes", "Device memory that only mappings of processes keep.", true),
	ROW(lingering, "gpumem_device_lingering_bytes", "Device memory that other subsystems keep.", true),
	ROW(pinned, "gpumem_device_pinned_bytes", "Registered memory of clients that opened the device.", true),
	ROW(clients, "gpumem_device_clients", "Open files of the device node.", false),
	ROW(bos, "gpumem_device_buffer_objects", "Buffer objects that own memory.", false),
	ROW(exports, "gpumem_device_exports", "DMA-bufs and memory handles.", false),
	ROW(views, "gpumem_device_views", "Buffer objects that are windows of others.", false),
	ROW(pools, "gpumem_device_pools", "Memory pools.", false),
	ROW(imports, "gpumem_device_imports", "DMA-bufs of other drivers.", false),
	COUNTER(engine_ns, "gpumem_device_engine_seconds", "Time that workers spent in streams of the device.", 1e-9),
	COUNTER(copy_bytes, "gpumem_device_copy_bytes", "Bytes that copies in streams of the device wrote.", 0),
	COUNTER(fill_bytes, "gpumem_device_fill_bytes", "Bytes that fills in streams of the device wrote.", 0),
#undef COUNTER
#undef ROW
};

/* The numbers of the host. */
static const struct {
	const char *name, *help;
	size_t at;
} host_rows[] = {
#define ROW(field, name, help)	{ name, help, offsetof(struct gnl_host, field) }
	ROW(used, "gpumem_host_used_bytes", "Pinned host memory in use."),
	ROW(managed, "gpumem_host_managed_bytes", "Managed memory in use, resident on a device or not."),
	ROW(pinned, "gpumem_pinned_bytes", "Bytes that count against the budgets of pinned memory."),
	ROW(pin_limit, "gpumem_pinned_user_limit_bytes", "Budget of pinned memory of one user."),
	ROW(pin_total, "gpumem_pinned_limit_bytes", "Budget of pinned memory of all users."),
	ROW(rings, "gpumem_rings_bytes", "Bytes of rings that are allocated."),
	ROW(ring_limit, "gpumem_rings_user_limit_bytes", "Budget of rings of one user."),
	ROW(ring_total, "gpumem_rings_limit_bytes", "Budget of rings of all users."),
#undef ROW
};

#define N(array)	(sizeof(array) / sizeof(*(array)))

static void title(FILE *f, const char *name, const char *help, bool counter)
{
	/* OpenMetrics names a counter without the suffix of its sample. */
	const char *suffix = counter && !options.openmetrics ? "_total" : "";

	fprintf(f, "# HELP %s%s %s\n", name, suffix, help);
	fprintf(f, "# TYPE %s%s %s\n", name, suffix, counter ? "counter" : "gauge");
}

/* A label's value: escape what the formats escape, and show no byte that is not ASCII. */
static void label(FILE *f, const char *text)
{
	for (; *text; text++) {
		if (*text == '\\' || *text == '"')
			fprintf(f, "\\%c", *text);
		else if (*text == '\n')
			fputs("\\n", f);
		else
			fputc((unsigned char)*text < 0x80 ? *text : '?', f);
	}
}

/* A sample's value, of which 1 is worth @unit; 0 means 1. */
static void number(FILE *f, unsigned long long value, double unit)
{
	if (unit)
		fprintf(f, "%.9f\n", value * unit);
	else
		fprintf(f, "%llu\n", value);
}

static void show_devices(FILE *f, const struct gnl_device *devices, size_t n)
{
	for (unsigned int k = 0; k < N(device_rows); k++) {
		title(f, device_rows[k].name, device_rows[k].help, device_rows[k].counter);
		for (size_t i = 0; i < n; i++) {
			const char *at = (const char *)&devices[i] + device_rows[k].at;
			unsigned long long value = device_rows[k].wide ? *(const __u64 *)at : *(const __u32 *)at;

			fprintf(f, "%s%s{device=\"%u\"} ", device_rows[k].name, device_rows[k].counter ? "_total" : "",
				devices[i].index);
			number(f, value, device_rows[k].unit);
		}
	}
}

static void show_host(FILE *f, const struct gnl_host *host)
{
	for (unsigned int k = 0; k < N(host_rows); k++) {
		title(f, host_rows[k].name, host_rows[k].help, false);
		fprintf(f, "%s %llu\n", host_rows[k].name,
			(unsigned long long)*(const __u64 *)((const char *)host + host_rows[k].at));
	}
}

static void show_clients(FILE *f, const struct sample *s)
{
	for (unsigned int k = 0; k < N(client_rows); k++) {
		title(f, client_rows[k].name, client_rows[k].help, client_rows[k].counter);
		for (size_t i = 0; i < s->n; i++) {
			const struct gnl_client *c = &s->clients[i];
			__u64 value = c->counts[client_rows[k].attr - GPUMEM_A_CLIENT_OBJECTS];

			fprintf(f, "%s%s{client=\"%u\",device=\"%u\",pid=\"%u\",uid=\"%u\",command=\"",
				client_rows[k].name, client_rows[k].counter ? "_total" : "", c->id, c->device, c->pid,
				c->uid);
			label(f, c->comm);
			fputs("\"} ", f);
			number(f, value, client_rows[k].unit);
		}
	}
}

static void show(FILE *f)
{
	struct gnl_device *devices;
	struct gnl_host host;
	char version[64];
	struct sample s;
	struct gnl nl;
	size_t n;
	int ret;

	open_or_die(&nl);
	ret = gnl_devices(&nl, &devices, &n);
	if (!ret)
		ret = gnl_host(&nl, &host);
	if (ret)
		die("devices: %s", gnl_why(ret));
	if (read_line("/sys/module/gpumem/version", version, sizeof(version))) {
		if (options.openmetrics)
			fputs("# HELP gpumem Version of the module.\n# TYPE gpumem info\n", f);
		else
			title(f, "gpumem_info", "Version of the module.", false);
		fputs("gpumem_info{version=\"", f);
		label(f, version);
		fputs("\"} 1\n", f);
	}
	show_devices(f, devices, n);
	show_host(f, &host);
	if (options.clients) {
		take_sample(&nl, &s);
		show_clients(f, &s);
		free_sample(&s);
	}
	if (options.openmetrics)
		fputs("# EOF\n", f);
	free(devices);
	gnl_close(&nl);
}

int metrics(void)
{
	char *text;
	size_t size;
	FILE *f;

	/* Errors come before anything is written. */
	f = open_memstream(&text, &size);
	if (!f)
		die("not enough memory");
	show(f);
	if (fclose(f))
		die("not enough memory");
	if (options.output)
		write_whole(options.output, text, size);
	else
		fwrite(text, 1, size, stdout);
	free(text);
	return 0;
}
