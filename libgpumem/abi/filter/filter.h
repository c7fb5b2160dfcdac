/* SPDX-License-Identifier: MIT */
/*
 * The contents of libcuda.so.1, of libnvidia-ml.so.1 and of the driver's part of libgpumem.so.1.
 *
 * The process has one driver, libgpumem-driver.so.1. The libraries with other names are filters of
 * it (DT_FILTER): the dynamic loader loads the driver library with them and searches it first, so
 * every name has the address that it has in the driver library. A program is linked with a filter
 * as with any library, therefore a filter defines the names, too. The loader takes none of these
 * definitions as long as the driver library has the name.
 *
 * The Makefile makes a line FILTERED(name) of each name of a version script.
 */
__attribute__((visibility("hidden"))) int filtered(void);

/* A driver library of another release lacks this name: CUDA_ERROR_NOT_FOUND, or an error of NVML. */
int filtered(void)
{
	return 500;
}

#define FILTERED(name)	\
	extern int name(void) __attribute__((visibility("default"), alias("filtered")));
