// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_cov: coverage, the basic blocks of the module that ran.
 *
 * Only in a module built with GPUMEM_COV=1.  The compiler then begins every
 * basic block of the other files with a call of __sanitizer_cov_trace_pc().
 * The function here replaces the kernel's own, and marks the caller's address.
 * Unlike KCOV it sees every context alike: workers, interrupts, module init and
 * exit, and processes that exit.  It records neither the task nor the order.
 * The fuzzer needs both, and uses a build with GPUMEM_KCOV=1.
 *
 * When the module ends, it prints the marked blocks to the kernel's log, in
 * lines that selftests/cover/blocks.py reads:
 *
 *	gpumem-cov: text 1c +5 +1a ...
 *	gpumem-cov: init 2f +8 ...
 *
 * The first number of a line is an offset in the module's core (or init) text.
 * Each other number is the distance from the block before.  All are
 * hexadecimal.
 *
 * This file itself is built without any instrumentation, because every block
 * calls it.  Locks: none.
 */
#include <linux/module.h>
#include <linux/sizes.h>

#include "gpumem_cov.h"

static u8 gpumem_cov_text[SZ_1M];
static u8 gpumem_cov_init[SZ_64K];

/**
 * __sanitizer_cov_trace_pc - mark the caller's block
 *
 * Context: any, with user memory accessible too.
 */
void notrace __sanitizer_cov_trace_pc(void)
{
	const struct module_memory *mem = THIS_MODULE->mem;
	unsigned long at = _RET_IP_ - (unsigned long)mem[MOD_TEXT].base;

	if (at < sizeof(gpumem_cov_text)) {
		gpumem_cov_text[at] = 1;
		return;
	}
	at = _RET_IP_ - (unsigned long)mem[MOD_INIT_TEXT].base;
	if (at < sizeof(gpumem_cov_init))
		gpumem_cov_init[at] = 1;
}

static void gpumem_cov_print(const char *what, const u8 *marks, size_t size)
{
	char line[512];
	size_t i, last = 0;
	int n = 0;

	for (i = 0; i < size; i++) {
		if (!marks[i])
			continue;
		n += scnprintf(line + n, sizeof(line) - n, n ? " +%zx" : "%zx",
			       n ? i - last : i);
		last = i;
		if (n > sizeof(line) - 16) {
			pr_info("gpumem-cov: %s %s\n", what, line);
			n = 0;
		}
	}
	if (n)
		pr_info("gpumem-cov: %s %s\n", what, line);
}

/**
 * gpumem_cov_report - print the blocks that ran, when the module ends
 */
void gpumem_cov_report(void)
{
	gpumem_cov_print("text", gpumem_cov_text, sizeof(gpumem_cov_text));
	gpumem_cov_print("init", gpumem_cov_init, sizeof(gpumem_cov_init));
}
