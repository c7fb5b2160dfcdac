// SPDX-License-Identifier: GPL-2.0
/*
 * Preloaded into fio: at its end it prints the ways that the bytes of cuFile requests went, as "ways: direct staged".
 */
#include <dlfcn.h>
#include <stdio.h>

#include <cufile.h>

static void __attribute__((destructor)) report(void)
{
	unsigned int (*counters)(struct gpumem_file_counters *, unsigned int) =
		(void *)dlsym(RTLD_DEFAULT, "gpumem_file_counters");
	struct gpumem_file_counters c;

	if (!counters || counters(&c, sizeof(c)) != sizeof(c))
		return;
	fprintf(stderr, "ways:");
	if (c.direct_read && c.direct_written)
		fprintf(stderr, " direct");
	if (c.staged_read || c.staged_written)
		fprintf(stderr, " staged");
	if (c.compat_read || c.compat_written)
		fprintf(stderr, " compat");
	fprintf(stderr, "\n");
}
