// SPDX-License-Identifier: MIT
/*
 * Functions of CUDA that this library does not have: exported, found by cuGetProcAddress(), and
 * failing.
 *
 * Programs resolve everything that they might use when they start and give up if one name is
 * missing, even if they never call it. So every name that NVIDIA's library exports is there. A
 * missing function returns what a driver without the feature returns: NOT_INITIALIZED before
 * cuInit(), then NOT_SUPPORTED. It does not read its arguments and does not write its outputs.
 *
 * symbols.txt gives these names the status "absent", and mkmap makes cu_absent.h from it. A name
 * that another file implements changes its status there; two definitions do not link.
 *
 * The functions have entries that programs can overwrite: memory hooks patch cuMemMap() and
 * cuLibraryGetGlobal() whether a program uses them or not.
 */
#include "entry.h"
#include "internal.h"

#define CU_ABSENT(number, name)	[number] = #name,
static const char *const names[] = {
#include "cu_absent.h"
};
#undef CU_ABSENT

BODY CUresult absent_body(unsigned int number)
{
	CALL_AS(names[number], CUDA_ERROR_NOT_SUPPORTED);
}

#define CU_ABSENT(number, name)	ENTRY_NUMBERED(name, absent_body, number);
#include "cu_absent.h"
