// SPDX-License-Identifier: MIT
/*
 * Functions of CUDA that this library does not implement: they are exported, cuGetProcAddress() finds
 * them, and they fail.
 *
 * Programs resolve all functions that they might use when they start, and give up if one name is
 * missing, even if they never call it. So this library exports every name that NVIDIA's library
 * exports. A missing function returns what a driver without the feature returns: NOT_INITIALIZED
 * before cuInit(), then NOT_SUPPORTED. It does not read its arguments and does not write its
 * outputs.
 *
 * abi/symbols.txt gives these names the status "absent", and mkmap makes cu_absent.h from it. A file
 * that implements one of them needs the status changed there, because two definitions do not link.
 *
 * The functions have entries that programs can overwrite: memory hooks patch cuMemMap() and
 * cuLibraryGetGlobal() whether a program uses them or not.
 */
#include "driver/driver.h"

#define CU_ABSENT(number, name)	[number] = #name,
static const char *const cu_absent_names[] = {
#include "abi/cu_absent.h"
};
#undef CU_ABSENT

BODY CUresult absent_body(unsigned int number)
{
	CALL_AS(cu_absent_names[number], CUDA_ERROR_NOT_SUPPORTED);
}

#define CU_ABSENT(number, name)	ENTRY_NUMBERED(name, absent_body, number);
#include "abi/cu_absent.h"
