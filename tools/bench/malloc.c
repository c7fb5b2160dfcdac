// SPDX-License-Identifier: GPL-2.0
/*
 * Allocators in user space, which are peers of the library's suballocators.  mimalloc is measured
 * if its library is installed.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include "bench.h"

#define BATCH	64

struct allocator {
	void *(*get)(size_t bytes);
	void (*put)(void *p);
	size_t bytes;
};

static void pair(void *arg)
{
	struct allocator *a = arg;
	void *volatile p = a->get(a->bytes);

	a->put(p);
}

/* Allocate more blocks at a time than an allocator's caches hold, then free them. */
static void batch(void *arg)
{
	struct allocator *a = arg;
	void *volatile p[BATCH];

	for (int i = 0; i < BATCH; i++)
		p[i] = a->get(a->bytes);
	for (int i = 0; i < BATCH; i++)
		a->put(p[i]);
}

static void measure(const char *name, struct allocator *a)
{
	static const size_t sizes[] = { 64, 4 * KIB, 64 * KIB };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const char *size = bench_size(sizes[i]);

		a->bytes = sizes[i];
		bench_peer(bench_name("%s_pair_%s", name, size), bench_calls(9, 1000, pair, a));
		bench_peer(bench_name("%s_of_%d_%s", name, BATCH, size),
			   bench_calls(9, 50, batch, a) / BATCH);
	}
}

bool bench_mimalloc(void *(**get)(size_t bytes), void (**put)(void *p))
{
	void *lib = dlopen("libmimalloc.so.3", RTLD_NOW);

	if (!lib)
		lib = dlopen("libmimalloc.so.2", RTLD_NOW);
	if (!lib)
		return false;
	*(void **)get = dlsym(lib, "mi_malloc");
	*(void **)put = dlsym(lib, "mi_free");
	return *get && *put;
}

void bench_malloc(void)
{
	struct allocator glibc = { malloc, free, 0 }, mimalloc = { 0 };

	measure("malloc", &glibc);
	if (bench_mimalloc(&mimalloc.get, &mimalloc.put))
		measure("mimalloc", &mimalloc);
	else
		bench_skip("mimalloc", "its library is not installed");
}
