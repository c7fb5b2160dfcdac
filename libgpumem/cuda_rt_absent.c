// SPDX-License-Identifier: MIT
/*
 * Functions of the runtime API that this library does not have: exported, and failing.
 *
 * Programs that were linked with CUDA's library need every name that they use to be there when they
 * start. So every name is there. A missing function returns what a driver without the feature
 * returns: the driver's error if the driver does not start, else cudaErrorNotSupported. It does not
 * read its arguments and does not write its outputs. GPUMEM_DEBUG=1 names it.
 *
 * runtime_symbols.txt gives these names the status "absent", and mkmap makes cuda_rt_absent.h from
 * it. A name that another file implements changes its status there; two definitions do not link.
 *
 * The functions have entries that programs can overwrite, as those that allocate have.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cuda_rt.h"
#include "entry.h"

#define RT_ABSENT(number, name)	[number] = #name,
static const char *const names[] = {
#include "cuda_rt_absent.h"
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
		fprintf(stderr, "gpumem: %s: %s\n", names[number], cudaGetErrorName(error));
	return error;
}

#define RT_ABSENT(number, name)	ENTRY_NUMBERED(name, rt_absent_body, number);
#include "cuda_rt_absent.h"
