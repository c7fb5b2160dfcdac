/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fault injection: helpers for t_fail_nth and t_cuda_fail_nth.
 *
 * /proc/PID/task/TID/fail-nth makes the n-th of a task's coming allocations and user copies fail.
 * A *point* is an allocation or user copy of an operation.  A *sweep* runs an operation with its
 * first point failing, then its second, and so on, until the operation ends before the fault was
 * injected: every point has failed once.
 *
 * A failure must neither make the kernel complain nor leave an operation half done: an operation
 * that failed has changed nothing (struct fail_state, before and after) and works when it is tried
 * again.  Include this after util.h.
 *
 * Needs a kernel with CONFIG_FAULT_INJECTION_DEBUG_FS, FAILSLAB, FAIL_PAGE_ALLOC and
 * FAULT_INJECTION_USERCOPY, and root.
 */
#ifndef GPUMEM_SELFTESTS_FAIL_NTH_H
#define GPUMEM_SELFTESTS_FAIL_NTH_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util.h"

#define FAIL_DEBUGFS	"/sys/kernel/debug"

/* More points than any operation here has: a sweep that reaches this number does not end.  */
#define FAIL_MOST	3000

static inline int fail_write(const char *dir, const char *file, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), FAIL_DEBUGFS "/%s/%s", dir, file);
	return write_file(path, text);
}

/*
 * The addresses of a symbol, or of the code of a whole module if @symbol is NULL: from @from to
 * below @to.
 */
static inline bool fail_text(const char *symbol, const char *module, __u64 *from, __u64 *to)
{
	FILE *f = fopen("/proc/kallsyms", "re");
	char line[512], name[256], of[64];
	bool next = false;
	__u64 low = ~0ULL, high = 0;

	while (f && fgets(line, sizeof(line), f)) {
		unsigned long long addr;
		char type;
		int n;

		of[0] = 0;
		n = sscanf(line, "%llx %c %255s [%63[^]]", &addr, &type, name, of);
		if (n < 3 || (type != 't' && type != 'T'))
			continue;
		if (next && addr > low) {
			high = addr;
			break;
		}
		if (symbol ? !strcmp(name, symbol) : !strcmp(of, module)) {
			low = addr < low ? addr : low;
			high = !symbol && addr > high ? addr : high;
			next = symbol;
		}
	}
	if (f)
		fclose(f);
	*from = low;
	/* kallsyms has no end of a module's last function: assume at most 4096 bytes.  */
	*to = symbol ? high : high + 4096;
	return low && low != ~0ULL && high >= low && *to > *from;
}

static inline void fail_knob(const char *file, const char *text)
{
	fail_write("failslab", file, text);
	fail_write("fail_page_alloc", file, text);
	fail_write("fail_usercopy", file, text);
}

/* Exempt allocations and user copies whose call chain includes code from @from to @to. */
static inline void fail_reject(__u64 from, __u64 to)
{
	char text[32];

	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)from);
	fail_knob("reject-start", text);
	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)to);
	fail_knob("reject-end", text);
	fail_knob("stacktrace-depth", to ? "32" : "0");
}

/*
 * After fail_setup(): exempt an exporter's vmap(), because the kernel warns when that fails.  The
 * two functions are adjacent in the kernel's text, and the first may be inlined into the second.
 */
static inline bool fail_spare_vmap(void)
{
	__u64 from, to, next, end;

	if (!fail_text("dma_buf_vmap", NULL, &from, &to) ||
	    !fail_text("dma_buf_vmap_unlocked", NULL, &next, &end) || next < from ||
	    end - from > 8192)
		return false;
	fail_reject(from, end);
	return true;
}

/*
 * From now on every allocation and user copy of a task counts as a point, except those of one
 * function.  Without @page_faults, it is the handler of the process's own page faults: the kernel
 * retries such a fault.  Else it is what finds the area of a new task's stack: the kernel warns when
 * that has no memory.
 */
static inline bool fail_setup(bool page_faults)
{
	__u64 from = 0, to = 0;

	if (fail_write("failslab", "ignore-gfp-wait", "N") ||
	    fail_write("fail_page_alloc", "ignore-gfp-wait", "N") ||
	    fail_write("fail_page_alloc", "ignore-gfp-highmem", "N") ||
	    fail_write("fail_page_alloc", "min-order", "0") ||
	    fail_write("fail_usercopy", "verbose", "0") ||
	    access("/proc/thread-self/fail-nth", W_OK))
		return false;
	fail_knob("verbose", "0");
	fail_knob("probability", "0");
	fail_knob("times", "-1");
	fail_knob("task-filter", "N");
	fail_knob("require-start", "0");
	fail_knob("require-end", "0xffffffffffffffff");
	if (!fail_text(page_faults ? "alloc_vmap_area" : "asm_exc_page_fault", NULL, &from, &to))
		from = to = 0;
	fail_reject(from, to);
	/*
	 * Exempt futexes, which are not memory: the range of call addresses that would fail is
	 * empty.
	 */
	fail_write("fail_futex", "require-start", "1");
	fail_write("fail_futex", "require-end", "1");
	fail_write("fail_futex", "verbose", "0");
	return true;
}

/* --- one fault */

static int fail_fd = -1;

/* Opens fail-nth.  Each process calls this once.  */
static inline bool fail_open(void)
{
	fail_fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	return fail_fd >= 0;
}

/* The calling thread's @n-th allocation or user copy from now on fails. */
static inline void fail_arm(unsigned int n)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%u", n);

	if (pwrite(fail_fd, text, len, 0) != len)
		abort();
}

/* Disarms the fault.  Returns true if it was injected.  */
static inline bool fail_disarm(void)
{
	int saved = errno;
	char text[16] = "";
	bool fired;

	/*
	 * This pread() and this pwrite() copy from and to user memory, so the fault may hit them.
	 */
	fired = pread(fail_fd, text, sizeof(text) - 1, 0) > 0 && !strcmp(text, "0\n");
	while (pwrite(fail_fd, "0", 1, 0) != 1)
		if (errno != EFAULT)
			abort();
	errno = saved;
	return fired;
}

/* --- what must not change */

struct fail_state {
	struct gpumem_stats stats;	/* of the client, counters of work left out */
	long long dev[6];
	long fds, maps;
	__u32 id;			/* the client's next object id, or 0 */
};

static const char * const fail_attrs[] = { "clients", "bos", "exports", "views", "pools", "used" };

static inline long fail_count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	long n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

/* The number of pages of gpumem that this process maps.  */
static inline long fail_count_maps(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long from, to;
	char line[512];
	long pages = 0;

	while (f && fgets(line, sizeof(line), f)) {
		const char *name = strrchr(line, ' ');

		if (name && (strstr(name, "/dev/gpumem") || strstr(name, "/gpumem") ||
			     strstr(name, "/dmabuf:")) && !strstr(name, ".so") &&
		    !strstr(name, "selftests") &&
		    sscanf(line, "%lx-%lx", &from, &to) == 2)
			pages += (to - from) / page_size;
	}
	if (f)
		fclose(f);
	return pages;
}

/* @fd: descriptor of a client.  The state includes its counters and, if @own, its next id. */
static inline int fail_look(struct fail_state *s, int fd, bool own)
{
	__u64 device;
	int ret;

	memset(s, 0, sizeof(*s));
	ret = own ? gp_stats(fd, &s->stats) : fdinfo_read(getpid(), fd, &s->stats, &device);
	if (ret)
		return ret;
	s->stats.jobs = 0;
	s->stats.copy_bytes = 0;
	s->stats.fill_bytes = 0;
	s->stats.doorbells = 0;
	s->stats.managed_faults = 0;
	s->stats.managed_evictions = 0;
	s->stats.managed_in = 0;
	s->stats.managed_out = 0;
	s->stats.managed_duplications = 0;
	s->stats.managed_collapses = 0;
	s->stats.engine_ns = 0;
	for (unsigned int i = 0; i < 6; i++)
		s->dev[i] = dev_attr(0, fail_attrs[i]);
	s->fds = fail_count_fds();
	s->maps = fail_count_maps();
	if (own) {
		ret = gp_timeline_create(fd, 0, &s->id);
		if (!ret)
			ret = gp_destroy(fd, s->id);
	}
	return ret;
}

static inline void fail_say(const char *what, long long was, long long is)
{
	if (was != is)
		fprintf(stderr, "# %s was %lld and is %lld\n", what, was, is);
}

static inline void fail_differences(const struct fail_state *was, const struct fail_state *is)
{
	for (unsigned int i = 0; i < stat_count; i++)
		fail_say(stat_names[i].name, stat_get(&was->stats, i), stat_get(&is->stats, i));
	for (unsigned int i = 0; i < 6; i++)
		fail_say(fail_attrs[i], was->dev[i], is->dev[i]);
	fail_say("descriptors", was->fds, is->fds);
	fail_say("pages mapped", was->maps, is->maps);
	fail_say("next id", was->id, is->id);
}

/* Waits up to @seconds until the state is @was again: workers release memory and streams later.  */
static inline bool fail_same(const struct fail_state *was, int fd, bool own, double seconds)
{
	__u64 end = in_seconds(seconds);
	struct fail_state is;

	for (;;) {
		if (!fail_look(&is, fd, own) && !memcmp(was, &is, sizeof(is)))
			return true;
		if (mono_ns() > end)
			break;
		nap_ms(5);
	}
	if (seconds)
		fail_differences(was, &is);
	return false;
}

/* --- leaks */

/* The number of lost objects that this module allocated, as kmemleak sees it; -1 without it. */
static inline int fail_leaks(void)
{
	FILE *f = fopen(FAIL_DEBUGFS "/kmemleak", "re");
	char line[256], object[8192] = "";
	bool counted = false;
	int leaks = 0;

	if (!f || fail_write(".", "kmemleak", "scan")) {
		if (f)
			fclose(f);
		return -1;
	}
	/* An object counts as lost when it is some seconds old and two scans did not find it. */
	nap_ms(5500);
	fail_write(".", "kmemleak", "scan");
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "unreferenced object", 19)) {
			object[0] = 0;
			counted = false;
		}
		if (strlen(object) + strlen(line) < sizeof(object))
			strcat(object, line);
		if (strstr(line, "[gpumem]") && !counted) {
			fprintf(stderr, "# lost:\n%s", object);
			counted = true;
			leaks++;
		}
	}
	fclose(f);
	return leaks;
}

#endif
