/* SPDX-License-Identifier: GPL-2.0 */
/* gpumem fault: what fault.c and sweep.c share. */
#ifndef GPUMEM_TOOLS_FAULT_H
#define GPUMEM_TOOLS_FAULT_H

#include <stdbool.h>

/* What the command line of gpumem fault sweep says. */
struct sweep {
	const char *calls;		/* kinds and patterns */
	const char *env, *error;	/* or NULL */
	unsigned long first, last;	/* 0: not given */
	unsigned long timeout;		/* seconds; 0: by the first run */
	bool leaks;
};

/* End the command with 2 if rules are wrong. */
void fault_check_rules(const char *rules);
/* sweep.c; returns 1 if a run crashed, hung, leaked, or had a wrong result */
int fault_sweep(const struct sweep *sweep, char **command);

#endif
