// SPDX-License-Identifier: GPL-2.0
/*
 * Reads the coverage that KCOV reports, and keeps sets of signals.
 *
 * KCOV reports addresses.  Only the module is instrumented.  Its text lies in a range that starts
 * with the lowest of its sections.  A block's signal is its distance to that start, which is the
 * same in each run.  (A kernel with KASLR would shift the addresses; the kernel for fuzzing does
 * not use KASLR.)
 *
 * Each thread of the executor traces itself.  The loop traces workers: KCOV_REMOTE_ENABLE reports
 * the workers of streams that the calling process or one of its descendants made.  A thread that
 * does so cannot trace itself, so the loop runs no programs.
 *
 * Locks: none.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <linux/kcov.h>

#include "fuzz.h"

#define KCOV		"/sys/kernel/debug/kcov"
#define SECTIONS	"/sys/module/gpumem/sections"
#define WORDS		(256UL * 1024)
#define MAX_TEXT	(1UL << 22)

static struct section {
	char name[32];
	unsigned long base;
} section[16];
static unsigned int sections;
static unsigned long base = ~0UL;

static void find_sections(void)
{
	DIR *d = opendir(SECTIONS);
	struct dirent *e;
	char path[300];

	while (d && (e = readdir(d)) && sections < 16) {
		struct section *s = &section[sections];
		FILE *f;

		if (!strstr(e->d_name, "text") || strstr(e->d_name, ".init") ||
		    strlen(e->d_name) >= sizeof(s->name))
			continue;
		snprintf(path, sizeof(path), SECTIONS "/%s", e->d_name);
		f = fopen(path, "re");
		if (f && fscanf(f, "%lx", &s->base) == 1 && s->base) {
			strcpy(s->name, e->d_name);
			base = s->base < base ? s->base : base;
			sections++;
		}
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
}

bool cover_init(void)
{
	find_sections();
	return sections && !access(KCOV, R_OK | W_OK);
}

static bool trace_map(struct trace *t)
{
	t->fd = open(KCOV, O_RDWR | O_CLOEXEC);
	if (t->fd < 0 || ioctl(t->fd, KCOV_INIT_TRACE, WORDS))
		return false;
	t->area = mmap(NULL, WORDS * sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, t->fd,
		       0);
	return t->area != MAP_FAILED;
}

bool trace_open(struct trace *t)
{
	if (trace_map(t))
		return true;
	t->area = NULL;
	return false;
}

void trace_on(struct trace *t)
{
	if (t->area && ioctl(t->fd, KCOV_ENABLE, KCOV_TRACE_PC)) {
		perror("KCOV_ENABLE");
		t->area = NULL;
	}
}

bool trace_remote(struct trace *t)
{
	struct kcov_remote_arg arg = {
		.trace_mode = KCOV_TRACE_PC, .area_size = WORDS, .common_handle = getpid(),
	};

	if (trace_map(t) && !ioctl(t->fd, KCOV_REMOTE_ENABLE, &arg))
		return true;
	t->area = NULL;
	return false;
}

unsigned int trace_take(struct trace *t, uint32_t *out, unsigned int have)
{
	/* When each block was last seen. */
	static __thread uint32_t *seen, now;
	uint64_t n;

	if (!t->area)
		return have;
	if (!seen)
		seen = calloc(MAX_TEXT, sizeof(*seen));
	now++;
	n = __atomic_load_n(&t->area[0], __ATOMIC_ACQUIRE);
	for (uint64_t i = 1; seen && i <= n && i < WORDS && have < MAX_SIGNALS; i++) {
		unsigned long at = t->area[i] - base;

		if (at >= MAX_TEXT || seen[at] == now)
			continue;
		seen[at] = now;
		out[have++] = at;
	}
	__atomic_store_n(&t->area[0], 0, __ATOMIC_RELEASE);
	return have;
}

void signal_print(FILE *f, uint32_t signal)
{
	const struct section *best = NULL;

	for (unsigned int i = 0; i < sections; i++)
		if (section[i].base <= base + signal && (!best || section[i].base > best->base))
			best = &section[i];
	if (best)
		fprintf(f, "%s %#lx\n", best->name, base + signal - best->base);
}

static uint32_t *find(const struct set *s, uint32_t v)
{
	size_t i = v * 2654435761U & (s->room - 1);

	while (s->slot[i] && s->slot[i] != v + 1)
		i = (i + 1) & (s->room - 1);
	return &s->slot[i];
}

bool set_has(const struct set *s, uint32_t v)
{
	return s->room && *find(s, v);
}

bool set_add(struct set *s, uint32_t v)
{
	uint32_t *p;

	if (s->n * 2 >= s->room) {
		struct set larger = { .room = s->room ? s->room * 2 : 1024 };

		larger.slot = calloc(larger.room, sizeof(*larger.slot));
		if (!larger.slot)
			abort();
		for (size_t i = 0; i < s->room; i++)
			if (s->slot[i])
				*find(&larger, s->slot[i] - 1) = s->slot[i];
		larger.n = s->n;
		free(s->slot);
		*s = larger;
	}
	p = find(s, v);
	if (*p)
		return false;
	*p = v + 1;
	s->n++;
	return true;
}
