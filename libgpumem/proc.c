// SPDX-License-Identifier: MIT
/*
 * cuGetProcAddress(): functions by name and CUDA version.
 *
 * Owns one constant table, sorted by name, then by version: from its version on, until the name's
 * next row, a name means a row's symbols. Functions that only fail (cu_absent.c) are found like
 * all others. Rows of functions that are not exported have no symbols: asking for them is asking
 * for an unknown name, also when an older form exists, because the caller would call it with the
 * newer form's arguments. Rows with a version above the release's (release.h) do not exist.
 *
 * Works before cuInit(), takes no lock.
 */
#include <stdlib.h>

#include "internal.h"
#include "cudaGL.h"
#include "cudaProfiler.h"
#include "release.h"

/* No header declares all functions that only fail. Their addresses are all that is needed. */
#define CU_ABSENT(number, name)	extern const char absent_ ## name[] __asm__(#name);
#include "cu_absent.h"
#define absent_0		0

static const struct row {
	const char *name;
	int version;
	void *symbol, *own;		/* of the legacy and of the per-thread default stream */
} rows[] = {
#define PROC_FIRST(name, version, symbol, thread) { name, version, (void *)symbol, (void *)thread },
#define PROC_ABSENT(name, version, symbol, thread) \
	{ name, version, (void *)absent_ ## symbol, (void *)absent_ ## thread },
#define PROC_LATER(name, version, symbol, thread) { name, version, NULL, NULL },
#include "proc_table.h"
};

#define ROWS	(sizeof(rows) / sizeof(rows[0]))

/* The first row of a name, or ROWS. */
static size_t find_name(const char *name)
{
	size_t low = 0, high = ROWS;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (strcmp(rows[middle].name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < ROWS && !strcmp(rows[low].name, name) ? low : ROWS;
}

static CUresult find_symbol(const char *name, void **function, int version, cuuint64_t flags,
			    CUdriverProcAddressQueryResult *status)
{
	const cuuint64_t known = CU_GET_PROC_ADDRESS_LEGACY_STREAM |
		CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
	CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	void *symbol = NULL;
	CUresult result = CUDA_SUCCESS;
	size_t row;

	if (!name || !function || flags & ~known || version > release_cuda) {
		result = CUDA_ERROR_INVALID_VALUE;
		goto out;
	}
	row = find_name(name);
	if (row == ROWS || rows[row].version > release_cuda)
		goto out;
	if (rows[row].version > version) {
		if (rows[row].symbol)
			found = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
		goto out;
	}
	while (row + 1 < ROWS && !strcmp(rows[row + 1].name, name) &&
	       rows[row + 1].version <= version)
		row++;
	symbol = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM ? rows[row].own :
		rows[row].symbol;
	if (symbol)
		found = CU_GET_PROC_ADDRESS_SUCCESS;
out:
	if (function)
		*function = symbol;
	if (status)
		*status = found;
	return result;
}

/**
 * cuGetProcAddress_v2 - the address of a function
 * @name: without _vN, _ptds or _ptsz
 * @function: the address, or NULL
 * @version: the CUDA version that the caller was written for, 1000 * major + 10 * minor
 * @flags: CUdriverProcAddress_flags
 * @status: found, not found, or @version is too old; may be NULL
 *
 * Follows "Driver Entry Point Access". A name that is not found is no error.
 *
 * Return: INVALID_VALUE for unknown flags, a version above the driver's, or a NULL pointer.
 */
CUresult cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
			     CUdriverProcAddressQueryResult *status)
{
	RETURN(find_symbol(name, function, version, flags, status));
}

/**
 * cuGetProcAddress - the same without a status
 *
 * Return: also NOT_FOUND if there is no such function.
 */
CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags)
{
	CUdriverProcAddressQueryResult status;
	CUresult result = find_symbol(name, function, version, flags, &status);

	if (!result && status != CU_GET_PROC_ADDRESS_SUCCESS)
		result = CUDA_ERROR_NOT_FOUND;
	RETURN(result);
}
