// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem top: devices and clients, and how much they did since the screen before.
 *
 * On a terminal keys change the order.  Elsewhere the output is plain: whole tables, without escape codes.  Rates come
 * from counters that only grow; the first screen has none.  A client's counters are those on all its devices.
 */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "nl.h"
#include "tool.h"

/* What is shown of a client, and sorted by. */
struct row {
	const struct gnl_client *client;
	bool rates;			/* the rates are known */
	double memory, pinned, streams, resident;
	double engine;			/* busy workers: 1.5 if one was busy all the time and one for half of it */
	double copy;			/* bytes per second that copies and fills wrote */
	double faults, evictions, thrash, in, out;
};

static const struct order {
	const char *name;
	char key;
	size_t at;
} orders[] = {
	{ "memory", 'm', offsetof(struct row, memory) },
	{ "pinned", 'p', offsetof(struct row, pinned) },
	{ "engine", 'e', offsetof(struct row, engine) },
	{ "copy", 'c', offsetof(struct row, copy) },
	{ "streams", 's', offsetof(struct row, streams) },
	{ "resident", 'r', offsetof(struct row, resident) },
};

#define ORDERS	(sizeof(orders) / sizeof(*orders))

static const struct order *order;
static struct termios former;
static bool raw;

static double value_of(const struct row *f)
{
	return *(const double *)((const char *)f + order->at);
}

static int compare(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	double difference = value_of(y) - value_of(x);

	if (difference)
		return difference < 0 ? -1 : 1;
	return x->client->id < y->client->id ? -1 : x->client->id > y->client->id;
}

/* The client with the same number in an earlier sample, or NULL. */
static const struct gnl_client *find_client(const struct sample *s, __u32 id)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->clients[i].id == id)
			return &s->clients[i];
	return NULL;
}

static struct row row_of(const struct gnl_client *c, const struct sample *now, const struct sample *before)
{
	const struct gnl_client *was = find_client(before, c->id);
	double seconds = before->time ? now->time - before->time : 0;
	struct row f = { .client = c };

	f.memory = GNL_COUNT(c, BO_BYTES) + GNL_COUNT(c, MANAGED_RESIDENT);
	f.pinned = GNL_COUNT(c, HOST_BYTES) + GNL_COUNT(c, PIN_BYTES);
	f.streams = GNL_COUNT(c, STREAMS);
	f.resident = GNL_COUNT(c, MANAGED_RESIDENT);
	/* A client that is new began with 0.  The sample before may lack one that was there. */
	f.rates = seconds > 0 && (was || !before->torn);
	if (!f.rates)
		return f;
#define RATE(name)	((GNL_COUNT(c, name) - (was ? GNL_COUNT(was, name) : 0)) / seconds)
	f.engine = RATE(ENGINE_NS) / 1e9;
	f.copy = RATE(COPY_BYTES) + RATE(FILL_BYTES);
	f.faults = RATE(MANAGED_FAULTS);
	f.evictions = RATE(MANAGED_EVICTIONS);
	f.thrash = RATE(MANAGED_THRASH);
	f.in = RATE(MANAGED_IN);
	f.out = RATE(MANAGED_OUT);
#undef RATE
	return f;
}

/* What a device did. */
struct device_row {
	const struct gnl_device *device;
	bool rates;
	double engine, copy;
};

/* One screen: the clients in order, and the devices. */
struct screen {
	struct row *rows;
	size_t n;
	bool torn;
	struct device_row *devices;
	size_t ndevices;
	struct gnl_host host;
};

/* Devices do not come and go, and their counters only grow. */
static struct device_row device_row_of(const struct gnl_device *d, const struct sample *now,
				       const struct sample *before)
{
	double seconds = before->time ? now->time - before->time : 0;
	struct device_row f = { .device = d };

	for (size_t i = 0; i < before->ndevices && seconds > 0; i++) {
		const struct gnl_device *was = &before->devices[i];

		if (was->index != d->index)
			continue;
		f.rates = true;
		f.engine = (d->engine_ns - was->engine_ns) / seconds / 1e9;
		f.copy = (d->copy_bytes - was->copy_bytes + d->fill_bytes - was->fill_bytes) / seconds;
	}
	return f;
}

static void take_screen(struct gnl *nl, struct screen *s, const struct sample *now, const struct sample *before)
{
	int ret = gnl_host(nl, &s->host);

	if (ret)
		die("devices: %s", gnl_why(ret));
	s->n = now->n;
	s->ndevices = now->ndevices;
	s->torn = now->torn;
	s->rows = calloc(s->n + 1, sizeof(*s->rows));
	s->devices = calloc(s->ndevices + 1, sizeof(*s->devices));
	if (!s->rows || !s->devices)
		die("not enough memory");
	for (size_t i = 0; i < s->ndevices; i++)
		s->devices[i] = device_row_of(&now->devices[i], now, before);
	for (size_t i = 0; i < s->n; i++)
		s->rows[i] = row_of(&now->clients[i], now, before);
	qsort(s->rows, s->n, sizeof(*s->rows), compare);
}

/* Print a rate, or a share of an engine; "-" if it is not known. */
static void rate_cell(bool known, double value, int width, bool is_size)
{
	if (!known)
		printf(" %*s", width, "-");
	else if (is_size)
		size_cell(value, width);
	else
		printf(" %*.0f", width, value);
}

static void engine_cell(bool known, double value, int width)
{
	char text[32];

	snprintf(text, sizeof(text), "%.0f%%", value * 100);
	printf(" %*s", width, known ? text : "-");
}

/* --- plain tables */

static void plain(const struct screen *s)
{
	bool titled = false;
	char now[32];

	if (options.times)
		printf("%s\n", time_now(now));
	list();
	for (size_t i = 0; i < s->ndevices; i++) {
		const struct device_row *f = &s->devices[i];

		if (!i)
			printf("\n%-8s %8s %12s\n", "DEVICE", "ENGINE", "COPY/s");
		printf("gpumem%-2u", f->device->index);
		engine_cell(f->rates, f->engine, 8);
		rate_cell(f->rates, f->copy, 12, true);
		putchar('\n');
	}
	putchar('\n');
	client_titles();
	printf(" %8s %12s\n", "ENGINE", "COPY/s");
	for (size_t i = 0; i < s->n; i++) {
		const struct row *f = &s->rows[i];
		const struct gnl_client *c = f->client;

		client_cells(c);
		engine_cell(f->rates, f->engine, 8);
		rate_cell(f->rates, f->copy, 12, true);
		puts(c->dead ? "  dead" : "");
	}
	if (s->torn)
		puts("(clients came and went meanwhile: some may be missing)");
	/* The clients that have, or had, managed memory. */
	for (size_t i = 0; i < s->n; i++) {
		const struct row *f = &s->rows[i];
		const struct gnl_client *c = f->client;

		if (!GNL_COUNT(c, MANAGED) && !GNL_COUNT(c, MANAGED_IN))
			continue;
		if (!titled)
			printf("\n%-8s %-16s %8s %12s %10s %10s %10s %12s %12s\n", "CLIENT", "COMMAND", "MANAGED",
			       "RESIDENT", "FAULTS/s", "EVICTED/s", "THRASH/s", "IN/s", "OUT/s");
		titled = true;
		printf("%-8u %-16s %8llu", c->id, c->comm, (unsigned long long)GNL_COUNT(c, MANAGED));
		size_cell(f->resident, 12);
		rate_cell(f->rates, f->faults, 10, false);
		rate_cell(f->rates, f->evictions, 10, false);
		rate_cell(f->rates, f->thrash, 10, false);
		rate_cell(f->rates, f->in, 12, true);
		rate_cell(f->rates, f->out, 12, true);
		putchar('\n');
	}
}

/* --- a terminal */

static void window(int *rows, int *columns)
{
	struct winsize size;

	*rows = 24;
	*columns = 80;
	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_row && size.ws_col) {
		*rows = size.ws_row;
		*columns = size.ws_col;
	}
}

/* A bar of @width characters of which the part @used of @total is full, and how much that is. */
static void bar(double used, double total, int width)
{
	char text[64], of[64];
	int full = total > 0 ? used / total * width + 0.5 : 0;

	putchar('[');
	for (int i = 0; i < width; i++)
		putchar(i < full ? '|' : ' ');
	format_size(used, text, sizeof(text));
	format_size(total, of, sizeof(of));
	printf("] %9s / %s", text, of);
}

/* The end of a line on the terminal: erase what was behind it. */
static void end_line(int *left)
{
	fputs("\033[K\n", stdout);
	--*left;
}

static void screen(const struct screen *s, const char *version)
{
	char now[32];
	int rows, columns, left, width;

	window(&rows, &columns);
	/* The line of a device fits 80 and 116 columns, with sizes in bytes, too. */
	width = (columns >= 116 ? 30 : 14) - (options.bytes ? 8 : 0);
	if (rows < 12) {
		printf("\033[H\033[Jgpumem top wants 12 lines");
		return;
	}
	/* The last line has the keys: a line feed there would scroll. */
	left = rows - 1;
	fputs("\033[H", stdout);
	time_now(now);
	printf("gpumem %s  %.8s UTC  clients: %zu  sorted by %s", version, now + 11, s->n, order->name);
	end_line(&left);
	for (size_t i = 0; i < s->ndevices && left > 6; i++) {
		const struct device_row *f = &s->devices[i];
		const struct gnl_device *d = f->device;
		char name[32];

		snprintf(name, sizeof(name), "gpumem%u", d->index);
		printf("%-9s", name);
		bar(d->used, d->total, width);
		fputs("  busy", stdout);
		engine_cell(f->rates, f->engine, 5);
		fputs("  copy", stdout);
		rate_cell(f->rates, f->copy, 9, true);
		fputs("/s", stdout);
		if (columns >= 116) {
			fputs("  managed", stdout);
			size_cell(d->managed, 9);
		}
		end_line(&left);
	}
	printf("%-9s", "pinned");
	bar(s->host.pinned, s->host.pin_total, width);
	end_line(&left);
	end_line(&left);
	/* 72 columns; wide terminals show managed memory as well. */
	printf("\033[7m%7s %-15s %3s %10s %10s %6s %11s %4s", "PID", "COMMAND", "DEV", "MEMORY", "PINNED", "ENGINE",
	       "COPY/s", "STR");
	if (columns >= 116)
		printf(" %10s %9s %9s %9s", "RESIDENT", "FAULTS/s", "EVICT/s", "THRASH/s");
	/* The rest of the line has the colours of the titles. */
	fputs("\033[K\033[m\n", stdout);
	left--;
	for (size_t i = 0; i < s->n && (left > 2 || (left == 2 && i + 1 == s->n)); i++) {
		const struct row *f = &s->rows[i];

		printf("%7u %-15.15s %3u", f->client->pid, f->client->comm, f->client->device);
		size_cell(f->memory, 10);
		size_cell(f->pinned, 10);
		engine_cell(f->rates, f->engine, 6);
		rate_cell(f->rates, f->copy, 11, true);
		printf(" %4.0f", f->streams);
		if (columns >= 116) {
			size_cell(f->resident, 10);
			rate_cell(f->rates, f->faults, 9, false);
			rate_cell(f->rates, f->evictions, 9, false);
			rate_cell(f->rates, f->thrash, 9, false);
		}
		end_line(&left);
		if (left == 2 && i + 2 < s->n) {
			printf("and %zu clients more", s->n - i - 1);
			end_line(&left);
			break;
		}
	}
	fputs("\033[J", stdout);
	printf("\033[%d;1Hm memory  p pinned  e engine  c copy  s streams  r resident  q quit\033[K", rows);
}

/* Give the terminal its former state. */
static void cooked(void)
{
	/* The cursor, and the wrap of long lines. */
	static const char show_cursor[] = "\033[?25h\033[?7h\n";

	if (!raw)
		return;
	raw = false;
	tcsetattr(STDIN_FILENO, TCSANOW, &former);
	if (write(STDOUT_FILENO, show_cursor, sizeof(show_cursor) - 1) < 0)
		return;
}

static void interrupted(int sig)
{
	cooked();
	signal(sig, SIG_DFL);
	raise(sig);
}

static void set_raw(void)
{
	static const char begin[] = "\033[?25l\033[?7l\033[2J";
	struct termios t = former;

	t.c_lflag &= ~(ICANON | ECHO);
	t.c_cc[VMIN] = 0;
	t.c_cc[VTIME] = 0;
	raw = true;
	tcsetattr(STDIN_FILENO, TCSANOW, &t);
	if (write(STDOUT_FILENO, begin, sizeof(begin) - 1) < 0)
		return;
}

/* ^Z, and what follows it. */
static void suspended(int sig)
{
	sigset_t set;

	cooked();
	signal(sig, SIG_DFL);
	raise(sig);
	sigemptyset(&set);
	sigaddset(&set, sig);
	/* It stops here. */
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	signal(sig, suspended);
	set_raw();
}

static void resized(int sig)
{
	(void)sig;
}

/* Read keys one by one, and hide the cursor. */
static void uncooked(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct sigaction on_resize = { .sa_handler = resized };

	if (tcgetattr(STDIN_FILENO, &former))
		return;
	atexit(cooked);
	for (unsigned int i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		signal(signals[i], interrupted);
	signal(SIGTSTP, suspended);
	sigaction(SIGWINCH, &on_resize, NULL);
	set_raw();
}

static double monotonic(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

/* Wait until the next screen.  Returns false if a key ends the program, and sets *again if one changes the order. */
static bool keys(double until, bool *again)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };

	*again = false;
	for (;;) {
		double left = until - monotonic();
		char key;

		if (left <= 0)
			return true;
		if (!raw) {
			struct timespec time = { left, (left - (time_t)left) * 1e9 };

			nanosleep(&time, NULL);
			continue;
		}
		/* A changed window interrupts it: draw again. */
		if (poll(&input, 1, left * 1000 + 1) < 0) {
			*again = true;
			return true;
		}
		if (!(input.revents & (POLLIN | POLLHUP)))
			continue;
		if (read(STDIN_FILENO, &key, 1) != 1 || key == 'q')
			return false;
		for (unsigned int i = 0; i < ORDERS; i++) {
			if (orders[i].key == key) {
				order = &orders[i];
				*again = true;
				return true;
			}
		}
	}
}

static const struct device_row *find_device(const struct screen *s, json_int_t index)
{
	for (size_t i = 0; i < s->ndevices; i++)
		if (s->devices[i].device->index == index)
			return &s->devices[i];
	return NULL;
}

static json_t *screen_json(const struct screen *s)
{
	json_t *clients = pack("[]"), *devices = devices_json(), *sample, *device;
	size_t k;
	char now[32];

	for (size_t i = 0; i < s->n; i++) {
		const struct row *f = &s->rows[i];
		json_t *client = client_json(f->client);

		put(client, "engine-busy", f->rates ? json_real(f->engine) : json_null());
		put(client, "copy-bytes-per-second", f->rates ? json_real(f->copy) : json_null());
		append(clients, client);
	}
	json_array_foreach(devices, k, device) {
		const struct device_row *f = find_device(s, json_integer_value(json_object_get(device, "device")));

		put(device, "engine-busy", f && f->rates ? json_real(f->engine) : json_null());
		put(device, "copy-bytes-per-second", f && f->rates ? json_real(f->copy) : json_null());
	}
	sample = pack("{s:s, s:b}", "time", time_now(now), "complete", !s->torn);
	put(sample, "devices", devices);
	put(sample, "host", host_json());
	put(sample, "clients", clients);
	return sample;
}

static const struct order *find_order(const char *name)
{
	for (unsigned int i = 0; i < ORDERS; i++)
		if (!strcmp(orders[i].name, name))
			return &orders[i];
	misused("--sort %s: there are memory, pinned, engine, copy, streams and resident", name);
}

int top(void)
{
	bool terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !options.json && !options.times;
	struct sample now, before = { 0 };
	bool going = true, again;
	char version[64];
	struct screen s;
	struct gnl nl;

	order = find_order(options.sort ? options.sort : "memory");
	open_or_die(&nl);
	if (!read_line("/sys/module/gpumem/version", version, sizeof(version)))
		version[0] = 0;
	if (options.json)
		begin_array("top", "samples");
	if (terminal)
		uncooked();
	for (unsigned long i = 0; going; i++) {
		double until = monotonic() + options.interval;

		take_sample(&nl, &now);
		take_devices(&nl, &now);
		take_screen(&nl, &s, &now, &before);
		if (options.json)
			next_element(screen_json(&s));
		else if (!terminal)
			plain(&s);
		do {
			if (terminal) {
				qsort(s.rows, s.n, sizeof(*s.rows), compare);
				screen(&s, version);
			}
			check_output();
			if (i + 1 == options.count) {
				going = false;
				break;
			}
			going = keys(until, &again);
		} while (going && again);
		if (going && !terminal && !options.json)
			putchar('\n');
		free(s.rows);
		free(s.devices);
		free_sample(&before);
		before = now;
	}
	free_sample(&before);
	if (options.json)
		end_array();
	gnl_close(&nl);
	cooked();
	note_partial();
	return 0;
}
