// SPDX-License-Identifier: MIT
/*
 * Functions of the runtime API that this library does not implement: they are exported, and they fail.
 *
 * A program that was linked with CUDA's library starts only if the library exports every name that the
 * program uses. So the library exports every name. A missing function returns what a driver without the
 * feature returns: the driver's error if the driver does not start, else cudaErrorNotSupported. It
 * does not read its arguments and does not write its outputs. GPUMEM_DEBUG=1 names it.
 *
 * runtime_symbols.txt gives these names the status "absent", and mkmap makes cuda_rt_absent.h from
 * it. A file that implements one of them needs the status changed there, because two definitions do not link.
 *
 * The functions have entries that programs can overwrite, as those that allocate have.
 */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/runtime.h"
#include "abi/entry.h"

#define RT_ABSENT(number, name)	[number] = #name,
static const char *const rt_absent_names[] = {
#include "abi/cuda_rt_absent.h"
};
#undef RT_ABSENT

static cudaError_t refuse(void)
{
	RT_DRIVER(cudaErrorNotSupported);
}

BODY cudaError_t rt_absent_body(unsigned int number)
{
	const char *debug = getenv("GPUMEM_DEBUG");
	cudaError_t error = refuse();

	if (debug && strcmp(debug, "0"))
		fprintf(stderr, "gpumem: %s: %s\n", rt_absent_names[number], cudaGetErrorName(error));
	return error;
}

#define RT_ABSENT(number, name)	ENTRY_NUMBERED(name, rt_absent_body, number);
#include "abi/cuda_rt_absent.h"
