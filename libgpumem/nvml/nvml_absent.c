// SPDX-License-Identifier: MIT
/*
 * Functions of the management library that have nothing to say of a software GPU, and those of
 * features that it lacks: power, clocks, temperatures, fans, error correction, MIG, vGPUs, counters.
 *
 * Programs look up what they might call and fail at the first name that is missing. So every name is
 * there. A missing function returns NOT_SUPPORTED, UNINITIALIZED outside nvmlInit() and
 * nvmlShutdown(). It does not read its arguments and does not write its outputs. GPUMEM_DEBUG=1
 * names it.
 *
 * symbols.txt gives these names the status "absent", and mkmap makes nvml_absent.h from it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../entry.h"
#include "nvml_private.h"

#define NVML_ABSENT(number, name)	[number] = #name,
static const char *const names[] = {
#include "nvml_absent.h"
};
#undef NVML_ABSENT

BODY nvmlReturn_t nvml_absent_body(unsigned int number)
{
	const char *debug = getenv("GPUMEM_DEBUG");

	if (!nvml_initialized())
		return NVML_ERROR_UNINITIALIZED;
	if (debug && strcmp(debug, "0"))
		fprintf(stderr, "gpumem: %s: NVML_ERROR_NOT_SUPPORTED\n", names[number]);
	return NVML_ERROR_NOT_SUPPORTED;
}

#define NVML_ABSENT(number, name)	ENTRY_NUMBERED(name, nvml_absent_body, number);
#include "nvml_absent.h"
