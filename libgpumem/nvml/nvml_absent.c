// SPDX-License-Identifier: MIT
/*
 * Functions of the management library for parts and features that a software GPU lacks: power,
 * clocks, temperatures, fans, error correction, MIG, vGPUs, counters. They are exported, and fail.
 *
 * Programs look up all functions that they might call and fail at the first name that is missing.
 * So the library exports every name. A missing function returns UNINITIALIZED before nvmlInit() and
 * after nvmlShutdown(), else NOT_SUPPORTED. It does not read its arguments and does not write its
 * outputs. With GPUMEM_DEBUG=1 it prints its name.
 *
 * symbols.txt gives these names the status "absent", and mkmap makes nvml_absent.h from it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi/entry.h"
#include "nvml_private.h"

#define NVML_ABSENT(number, name)	[number] = #name,
static const char *const nvml_absent_names[] = {
#include "nvml_absent.h"
};
#undef NVML_ABSENT

BODY nvmlReturn_t nvml_absent_body(unsigned int number)
{
	const char *debug = getenv("GPUMEM_DEBUG");

	if (!nvml_initialized())
		return NVML_ERROR_UNINITIALIZED;
	if (debug && strcmp(debug, "0"))
		fprintf(stderr, "gpumem: %s: NVML_ERROR_NOT_SUPPORTED\n", nvml_absent_names[number]);
	return NVML_ERROR_NOT_SUPPORTED;
}

#define NVML_ABSENT(number, name)	ENTRY_NUMBERED(name, nvml_absent_body, number);
#include "nvml_absent.h"
