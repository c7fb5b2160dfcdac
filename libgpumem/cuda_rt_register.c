// SPDX-License-Identifier: MIT
/*
 * What code that nvcc made calls before main() and around launches.
 *
 * A program that has kernels registers them when it starts, whether it launches any or not; these
 * functions have no result that could be an error. They take what they are given and keep nothing:
 * such a program starts, and uses memory. A launch asks for a configuration first; it is refused
 * with cudaErrorNotSupported, which makes the program skip the launch and find the error with
 * cudaGetLastError().
 *
 * No header declares them. Arguments are not looked at, so none are named.
 */
#include "cuda_rt.h"

#pragma GCC visibility push(default)

void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void);
void __cudaRegisterVar(void);
void __cudaRegisterManagedVar(void);
void __cudaRegisterHostVar(void);
void __cudaRegisterUnifiedTable(void);
char __cudaInitModule(void **handle);
unsigned int __cudaPushCallConfiguration(void);

#pragma GCC visibility pop

static void *no_module;

void **__cudaRegisterFatBinary(void *binary)
{
	(void)binary;
	return &no_module;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
	(void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
	(void)handle;
}

void __cudaRegisterFunction(void)
{
}

void __cudaRegisterVar(void)
{
}

void __cudaRegisterManagedVar(void)
{
}

void __cudaRegisterHostVar(void)
{
}

void __cudaRegisterUnifiedTable(void)
{
}

/* 0: nothing is loaded. */
char __cudaInitModule(void **handle)
{
	(void)handle;
	return 0;
}

unsigned int __cudaPushCallConfiguration(void)
{
	return rt_fail(cudaErrorNotSupported);
}
