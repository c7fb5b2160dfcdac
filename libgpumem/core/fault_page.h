/* SPDX-License-Identifier: MIT */
/*
 * The page through which `gpumem fault` reaches a running process. The process and the command map it.
 *
 * The page is a memfd of the process, FAULT_MEMFD, which the command finds in /proc/PID/fd. Each side treats what
 * the other wrote as untrusted: it copies a field, then checks the copy.
 */
#ifndef GPUMEM_CORE_FAULT_PAGE_H
#define GPUMEM_CORE_FAULT_PAGE_H

#include <stdint.h>

#define FAULT_MEMFD	"gpumem-fault"
#define FAULT_MAGIC	0x746c6166u
#define FAULT_RULES	16u		/* most rules of a process */
#define FAULT_TEXT	2048u		/* bytes of the longest list of rules, with the final NUL */

struct fault_page {
	uint32_t magic;			/* FAULT_MAGIC */
	uint32_t version;		/* of this structure: 1 */
	uint32_t wanted;		/* rises by 2 with each list of rules; odd while the command writes one */
	uint32_t taken;			/* @wanted of the list that the process obeys */
	uint32_t refused;		/* @wanted of the last list that the process could not read, or 0 */
	uint32_t rules;			/* number of rules that the process obeys */
	struct {
		uint64_t seen;		/* calls that the rule matched */
		uint64_t done;		/* faults that the rule injected */
	} rule[FAULT_RULES];
	char text[FAULT_TEXT];		/* the list that the command wrote last */
};

#endif /* GPUMEM_CORE_FAULT_PAGE_H */
