// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem doctor: looks for what keeps programs from working well, and names the command that mends it.
 *
 * A finding is "ok", "note" (it works, but perhaps not as wanted) or "wrong" (it does not work).
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <gpumem.h>
#include <grp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tool.h"

#define THP	"/sys/kernel/mm/transparent_hugepage/"

enum verdict { OK, NOTE, WRONG };

static const char *const verdicts[] = { "ok", "note", "wrong" };

static json_t *findings;	/* or NULL */
static unsigned int wrong;

/* Report a finding about @topic.  @mend: a command or an advice, or NULL. */
__attribute__((format(printf, 4, 5)))
static void find(enum verdict verdict, const char *topic, const char *mend, const char *format, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	wrong += verdict == WRONG;
	if (findings) {
		json_t *finding = pack("{s:s, s:s, s:s}", "verdict", verdicts[verdict], "topic", topic, "text", text);

		put(finding, "mend", mend ? json_string(mend) : json_null());
		append(findings, finding);
		return;
	}
	printf("%-6s %-12s %s\n", verdicts[verdict], topic, text);
	if (mend)
		printf("%-19s mend: %s\n", "", mend);
}

static long long number_in(const char *path)
{
	char line[64];

	return read_line(path, line, sizeof(line)) ? strtoll(line, NULL, 10) : -1;
}

static bool contained(void)
{
	char line[64];

	return !access("/.dockerenv", F_OK) || !access("/run/.containerenv", F_OK) ||
	       read_line("/run/systemd/container", line, sizeof(line));
}

static void kernel(void)
{
	unsigned int major = 0, minor = 0;
	struct utsname name;

	uname(&name);
	sscanf(name.release, "%u.%u", &major, &minor);
	if (major < 6 || (major == 6 && minor < 12))
		find(WRONG, "kernel", "boot Linux 6.12 or newer", "the module needs Linux 6.12 or newer; this is %s",
		     name.release);
	else
		find(OK, "kernel", NULL, "Linux %s", name.release);
	if (strstr(name.version, "PREEMPT_RT"))
		find(WRONG, "kernel", "boot a kernel without CONFIG_PREEMPT_RT", "the module does not work with PREEMPT_RT");
}

/* Is there a module for the running kernel? */
static bool module_built(void)
{
	char pattern[300];
	struct utsname name;
	glob_t found;
	bool built;

	uname(&name);
	snprintf(pattern, sizeof(pattern), "/lib/modules/%s/{updates,updates/dkms,extra}/gpumem.ko*", name.release);
	built = !glob(pattern, GLOB_BRACE, NULL, &found);
	globfree(&found);
	return built;
}

/* False if the module is not loaded. */
static bool module(void)
{
	char version[64] = "?";

	if (!module_loaded()) {
		if (contained())
			find(WRONG, "module", "modprobe gpumem, on the host", "the module is not loaded");
		else
			find(WRONG, "module", module_built() ? "modprobe gpumem" :
			     "install gpumem-dkms and the kernel's headers, then: modprobe gpumem",
			     "the module is not loaded");
		return false;
	}
	read_line("/sys/module/gpumem/version", version, sizeof(version));
	if (strcmp(version, GPUMEM_VERSION))
		find(WRONG, "module", "rmmod gpumem; modprobe gpumem", "the module has version %s, and this program %s",
		     version, GPUMEM_VERSION);
	else
		find(OK, "module", NULL, "version %s is loaded", version);
	if (strcmp(gpumem_version(), GPUMEM_VERSION))
		find(WRONG, "library", "install libgpumem1 and gpumem-tools of one version",
		     "the library has version %s, and this program %s", gpumem_version(), GPUMEM_VERSION);
	else
		find(OK, "library", NULL, "version %s", gpumem_version());
	return true;
}

/* How a user who may not open a node gets the right to. */
static const char *right_to_open(const char *path)
{
	struct group *render = getgrnam("render");
	struct stat st;

	if (stat(path, &st) || !render || st.st_gid != render->gr_gid || (st.st_mode & 060) != 060)
		return "udevadm trigger --subsystem-match=gpumem, as root, where the udev rule is installed";
	for (char **member = render->gr_mem; *member; member++)
		if (getlogin() && !strcmp(*member, getlogin()))
			return "log in again: the membership in group render is new";
	return "usermod -aG render USER, as root; then log in again";
}

static void nodes(const unsigned int *numbers, unsigned int n)
{
	unsigned int usable = 0;

	if (!n)
		find(WRONG, "devices", "dmesg | grep gpumem", "the module has no devices");
	for (unsigned int i = 0; i < n; i++) {
		char path[64], mend[128], dev[32];
		int fd;

		/* Only an open tells what a container's rules for devices permit. */
		snprintf(path, sizeof(path), "/dev/gpumem%u", numbers[i]);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd >= 0) {
			close(fd);
			usable++;
		} else if (contained() && (errno == ENOENT || errno == EPERM)) {
			find(WRONG, "permissions", "start the container with --device gpumem.org/gpu=all",
			     "%s: this container has no right to it: %s", path, strerror(errno));
		} else if (errno == ENOENT) {
			snprintf(path, sizeof(path), CLASS "/gpumem%u/dev", numbers[i]);
			if (!read_line(path, dev, sizeof(dev)))
				strcpy(dev, "MAJOR:MINOR");
			if (strchr(dev, ':'))
				*strchr(dev, ':') = ' ';
			snprintf(mend, sizeof(mend), "mount devtmpfs at /dev, or: mknod -m 660 /dev/gpumem%u c %s",
				 numbers[i], dev);
			find(WRONG, "permissions", mend, "/dev/gpumem%u does not exist", numbers[i]);
		} else {
			int error = errno;

			find(WRONG, "permissions", right_to_open(path), "%s may not be opened by this user: %s", path,
			     strerror(error));
		}
	}
	if (n && usable == n)
		find(OK, "permissions", NULL, "%u device%s can be opened", n, n == 1 ? "" : "s");
}

/* The value of a line of /proc/meminfo in bytes, or 0. */
static unsigned long long meminfo(const char *key)
{
	unsigned long long value = 0;
	char line[128];
	FILE *f = fopen("/proc/meminfo", "re");

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, key, strlen(key)))
			value = strtoull(line + strlen(key), NULL, 10) * 1024;
	if (f)
		fclose(f);
	return value;
}

static void budgets(const unsigned int *numbers, unsigned int n)
{
	unsigned long long sizes = 0, ram = meminfo("MemTotal:");
	long long total = number_in(PARAMETERS "/pin_total"), pinned = class_number("pinned");
	char a[64], b[64];

	for (unsigned int i = 0; i < n; i++) {
		char name[64];
		long long size, used;

		snprintf(name, sizeof(name), "gpumem%u/size", numbers[i]);
		size = class_number(name);
		snprintf(name, sizeof(name), "gpumem%u/used", numbers[i]);
		used = class_number(name);
		if (size <= 0)
			continue;
		sizes += size;
		format_size(used, a, sizeof(a));
		format_size(size, b, sizeof(b));
		if (used >= size / 100 * 95)
			find(NOTE, "budgets", "gpumem list clients; gpumem set gpumemN.size=BYTES",
			     "gpumem%u is full: %s of %s are in use", numbers[i], a, b);
	}
	format_size(sizes + (total > 0 ? total : 0), a, sizeof(a));
	format_size(ram, b, sizeof(b));
	if (ram && total > 0 && sizes + total > ram / 100 * 75)
		find(NOTE, "budgets", "gpumem set gpumem0.size=BYTES pin_total=BYTES",
		     "devices and pinned memory may take %s of %s of RAM: programs may meet the OOM killer", a, b);
	else
		find(OK, "budgets", NULL, "devices and pinned memory may take %s of %s of RAM", a, b);
	if (total > 0 && pinned >= total / 100 * 95) {
		format_size(pinned, a, sizeof(a));
		format_size(total, b, sizeof(b));
		find(NOTE, "budgets", "gpumem list clients; gpumem set pin_total=BYTES",
		     "pinned memory is used up: %s of %s", a, b);
	}
}

static void huge_pages(void)
{
	char line[128];

	if (!read_line(THP "shmem_enabled", line, sizeof(line)))
		find(NOTE, "huge pages", "use a kernel with CONFIG_TRANSPARENT_HUGEPAGE=y",
		     "the kernel has no transparent huge pages: copies and mappings are slower");
	else if (strstr(line, "[deny]"))
		find(NOTE, "huge pages", "echo never >" THP "shmem_enabled",
		     "shmem_enabled is \"deny\": device memory has no huge pages");
	else
		find(OK, "huge pages", NULL, "device memory may have them");
}

static void numa(const unsigned int *numbers, unsigned int n)
{
	char line[64] = "0";
	unsigned int free_nodes = 0;

	read_line("/sys/devices/system/node/has_memory", line, sizeof(line));
	if (!strpbrk(line, "-,")) {
		find(OK, "nodes", NULL, "one memory node");
		return;
	}
	for (unsigned int i = 0; i < n; i++) {
		char name[64];

		snprintf(name, sizeof(name), "gpumem%u/node", numbers[i]);
		free_nodes += class_number(name) < 0;
	}
	if (free_nodes)
		find(NOTE, "nodes", "node=NODE[,NODE...] among the options in /etc/modprobe.d; then load the module again",
		     "memory nodes %s; %u of the devices have memory of any node", line, free_nodes);
	else
		find(OK, "nodes", NULL, "memory nodes %s; each device has memory of one", line);
}

static void limits(void)
{
	char line[64], a[64];
	struct rlimit r;

	/* CAP_IPC_LOCK overrides the limit. */
	if (read_line(PARAMETERS "/memlock", line, sizeof(line)) && line[0] == 'Y' && geteuid() &&
	    !getrlimit(RLIMIT_MEMLOCK, &r) && r.rlim_cur < 64 << 20) {
		format_size(r.rlim_cur, a, sizeof(a));
		find(NOTE, "limits", "a higher memlock in /etc/security/limits.conf, or: gpumem set memlock=N",
		     "pinned memory counts against RLIMIT_MEMLOCK, which is %s", a);
	} else {
		find(OK, "limits", NULL, "RLIMIT_MEMLOCK allows pinned memory");
	}
	if (read_line("/proc/sys/vm/overcommit_memory", line, sizeof(line)) && line[0] == '2')
		find(NOTE, "limits", "sysctl vm.overcommit_memory=0",
		     "vm.overcommit_memory is 2: managed memory counts as committed memory");
}

/* The memory limit of the process's control group, or of one above it, if there is one. */
static void cgroup(void)
{
	unsigned long long least = ~0ULL;
	char line[512], path[640], a[64];
	FILE *f = fopen("/proc/self/cgroup", "re");
	char *group = NULL;

	while (!group && f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "0::", 3))
			group = line + 3;
	if (f)
		fclose(f);
	if (!group)
		return;
	group[strcspn(group, "\n")] = 0;
	for (;;) {
		char *slash, max[64];

		snprintf(path, sizeof(path), "/sys/fs/cgroup%s/memory.max", group);
		if (read_line(path, max, sizeof(max)) && strcmp(max, "max") && strtoull(max, NULL, 10) < least)
			least = strtoull(max, NULL, 10);
		slash = strrchr(group, '/');
		if (!slash || !group[0])
			break;
		*slash = 0;
	}
	if (least == ~0ULL)
		return;
	format_size(least, a, sizeof(a));
	find(NOTE, "cgroup", "raise memory.max, or the container's --memory",
	     "a memory cgroup allows %s for all memory, device memory included", a);
}

int doctor(void)
{
	unsigned int numbers[MAX_DEVICES], n;

	findings = options.json ? pack("[]") : NULL;
	kernel();
	if (module()) {
		n = device_numbers(numbers);
		nodes(numbers, n);
		budgets(numbers, n);
		numa(numbers, n);
		limits();
	}
	huge_pages();
	if (contained())
		find(OK, "container", NULL, "this is a container");
	cgroup();
	if (findings) {
		json_t *doc = document("doctor");

		put(doc, "findings", findings);
		print_document(doc);
	}
	return wrong ? 1 : 0;
}
