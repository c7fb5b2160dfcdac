// SPDX-License-Identifier: GPL-2.0
/* Devices, their attributes, and the module's parameters, by sysfs; tool.h describes the functions. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "printable.h"
#include "tool.h"

/* The attributes of a device; the first ones are the columns of "gpumem list". */
static const struct {
	const char *name, *title;
	int width;
} attributes[] = {
	{ "size", "SIZE", 12 }, { "used", "USED", 12 }, { "node", "NODE", 5 }, { "engine", "ENGINE", 8 },
	{ "clients", "CLIENTS", 8 }, { "bos", "BOS", 6 }, { "exports", "EXPORTS", 8 },
	{ "views", "VIEWS", 6 }, { "pools", "POOLS", 6 },
	{ "cached", NULL, 0 }, { "imports", NULL, 0 }, { "managed", NULL, 0 }, { "budget", NULL, 0 },
	{ "engine_ns", NULL, 0 }, { "copy_bytes", NULL, 0 }, { "fill_bytes", NULL, 0 },
	{ "pageable", NULL, 0 }, { "concurrent_managed", NULL, 0 },
};

#define ATTRIBUTES	(sizeof(attributes) / sizeof(*attributes))

bool read_line(const char *path, char *line, size_t size)
{
	FILE *f = fopen(path, "re");
	bool ok = f && fgets(line, size, f);

	if (f)
		fclose(f);
	if (!ok)
		return false;
	line[strcspn(line, "\n")] = 0;
	printable(line);
	return true;
}

bool module_loaded(void)
{
	return !access(CLASS, F_OK);
}

unsigned int device_numbers(unsigned int numbers[MAX_DEVICES])
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < MAX_DEVICES; i++) {
		char path[64];

		snprintf(path, sizeof(path), CLASS "/gpumem%u", i);
		if (!access(path, F_OK))
			numbers[n++] = i;
	}
	return n;
}

long long class_number(const char *name)
{
	char path[128], line[64], *end;
	long long value;

	snprintf(path, sizeof(path), CLASS "/%s", name);
	if (!read_line(path, line, sizeof(line)))
		return -1;
	value = strtoll(line, &end, 10);
	return *line && !*end ? value : -1;
}

/* The devices, of which there must be some. */
static unsigned int some_devices(unsigned int numbers[MAX_DEVICES])
{
	unsigned int n;

	if (!module_loaded())
		die("the module is not loaded: modprobe gpumem");
	n = device_numbers(numbers);
	if (!n)
		die("the module has no devices: look for its messages in dmesg");
	return n;
}

static void device_attribute(unsigned int device, const char *name, char value[64])
{
	char path[128];

	snprintf(path, sizeof(path), CLASS "/gpumem%u/%s", device, name);
	if (!read_line(path, value, 64))
		die("%s: %s", path, module_loaded() ? "module and tool are of different versions" :
		    "the module was unloaded meanwhile");
}

json_t *devices_json(void)
{
	unsigned int numbers[MAX_DEVICES], n = some_devices(numbers);
	json_t *devices = pack("[]");

	for (unsigned int i = 0; i < n; i++) {
		json_t *device = pack("{}");
		char value[64];

		put_number(device, "device", numbers[i]);
		for (unsigned int k = 0; k < ATTRIBUTES; k++) {
			device_attribute(numbers[i], attributes[k].name, value);
			put_text(device, attributes[k].name, value);
		}
		append(devices, device);
	}
	return devices;
}

json_t *host_json(void)
{
	static const char *const names[] = { "host_used", "managed_used", "pinned", "rings" };
	json_t *host = pack("{}");

	for (unsigned int i = 0; i < sizeof(names) / sizeof(*names); i++) {
		long long value = class_number(names[i]);

		if (value >= 0)
			put_number(host, names[i], value);
	}
	return host;
}

int list(void)
{
	unsigned int numbers[MAX_DEVICES], n;

	if (options.json) {
		json_t *doc = document("list");

		put(doc, "devices", devices_json());
		put(doc, "host", host_json());
		print_document(doc);
		return 0;
	}
	n = some_devices(numbers);
	printf("%-10s", "DEVICE");
	for (unsigned int k = 0; attributes[k].title; k++)
		printf("%*s", attributes[k].width + (options.bytes && k < 2) * 4, attributes[k].title);
	putchar('\n');
	for (unsigned int i = 0; i < n; i++) {
		printf("gpumem%-4u", numbers[i]);
		for (unsigned int k = 0; attributes[k].title; k++) {
			char value[64];

			device_attribute(numbers[i], attributes[k].name, value);
			if (k < 2)
				format_size(strtoull(value, NULL, 10), value, sizeof(value));
			printf("%*s", attributes[k].width + (options.bytes && k < 2) * 4, value);
		}
		putchar('\n');
	}
	return 0;
}

/* --- set: budgets and limits at run time */

/* What can be set: parameters of the module, and attributes of each device. */
static const struct setting {
	const char *name, *what;
	bool of_device;
} settings[] = {
	{ "size", "bytes of the device's memory", true },
	{ "budget", "bytes of a client's share of it; 0: the size divided by the clients", true },
	{ "pin_limit", "bytes of pinned memory of one user", false },
	{ "pin_total", "bytes of pinned memory of all users", false },
	{ "ring_limit", "bytes of rings of one user", false },
	{ "ring_total", "bytes of rings of all users", false },
	{ "map_limit", "mappings of one user", false },
	{ "memlock", "pinned memory counts against RLIMIT_MEMLOCK (Y or N)", false },
	{ "managed", "clients may allocate managed memory (Y or N)", false },
	{ "fence_timeout_ms", "milliseconds until a fence of queued work times out", false },
	{ "ipc_scope", "who may import handles: userns or pidns", false },
	{ "pageable", "devices access pageable memory (Y or N for each device)", false },
	{ "concurrent_managed", "the CPU may access managed memory at any time (Y or N for each device)", false },
};

#define SETTINGS	(sizeof(settings) / sizeof(*settings))

/* Find the file of a setting: NAME is "pin_limit" or "gpumem0.size".  NULL if there is no such setting. */
static const struct setting *find_setting(const char *name, char path[128])
{
	const char *dot = strchr(name, '.'), *key = dot ? dot + 1 : name;
	char *end = NULL;
	unsigned long device = 0;

	if (dot) {
		if (strncmp(name, "gpumem", 6) || !isdigit((unsigned char)name[6]))
			return NULL;
		device = strtoul(name + 6, &end, 10);
		if (end != dot || device >= MAX_DEVICES)
			return NULL;
	}
	for (unsigned int i = 0; i < SETTINGS; i++) {
		if (settings[i].of_device != !!dot || strcmp(settings[i].name, key))
			continue;
		if (dot)
			snprintf(path, 128, CLASS "/gpumem%lu/%s", device, key);
		else
			snprintf(path, 128, PARAMETERS "/%s", key);
		return &settings[i];
	}
	return NULL;
}

/* Print one setting, or add it to an object. */
static void show_setting(json_t *object, const char *name, const char *path, const struct setting *setting)
{
	char value[128];

	if (!read_line(path, value, sizeof(value)))
		die("%s: %s: module and tool are of different versions", path, strerror(errno));
	if (object)
		put_text(object, name, value);
	else
		printf("%-24s %-16s %s\n", name, value, setting->what);
}

static void show_settings(void)
{
	json_t *doc = options.json ? document("set") : NULL, *object = doc ? pack("{}") : NULL;
	unsigned int numbers[MAX_DEVICES], n = some_devices(numbers);
	char name[64], path[128];

	for (unsigned int i = 0; i < n; i++) {
		for (unsigned int k = 0; k < SETTINGS; k++) {
			if (!settings[k].of_device)
				continue;
			snprintf(name, sizeof(name), "gpumem%u.%s", numbers[i], settings[k].name);
			find_setting(name, path);
			show_setting(object, name, path, &settings[k]);
		}
	}
	for (unsigned int k = 0; k < SETTINGS; k++) {
		if (settings[k].of_device)
			continue;
		find_setting(settings[k].name, path);
		show_setting(object, settings[k].name, path, &settings[k]);
	}
	if (doc) {
		put(doc, "settings", object);
		print_document(doc);
	}
}

int set(char **words)
{
	char path[128], value[128];

	if (!words[0]) {
		show_settings();
		return 0;
	}
	/* Look at all words before the first change. */
	for (char **word = words; *word; word++) {
		char *equals = strchr(*word, '=');

		if (!equals || equals == *word || !equals[1])
			misused("set %s: give NAME=VALUE; without arguments set shows all names", *word);
		*equals = 0;
		if (!find_setting(*word, path))
			misused("set: there is no setting %s; without arguments set shows all", *word);
		*equals = '=';
	}
	if (!module_loaded())
		die("the module is not loaded: modprobe gpumem");
	for (char **word = words; *word; word++) {
		char *equals = strchr(*word, '=');
		const struct setting *setting;
		int ret;

		*equals = 0;
		setting = find_setting(*word, path);
		ret = write_file(path, equals + 1);
		switch (-ret) {
		case 0:
			break;
		case ENOENT:
			die(setting->of_device ? "set %s: there is no such device; gpumem list shows them" :
			    "set %s: the module is of another version, and has no such setting", *word);
		case EACCES:
		case EPERM:
			die("set %s: not permitted: become root", *word);
		case EINVAL:
		case ERANGE:
			die("set %s: the kernel refuses %s; it is %s", *word, equals + 1, setting->what);
		default:
			die("set %s: %s", *word, strerror(-ret));
		}
		if (read_line(path, value, sizeof(value)) && !options.json)
			printf("%s is %s\n", *word, value);
	}
	if (options.json)
		show_settings();
	return 0;
}
