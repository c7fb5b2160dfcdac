// SPDX-License-Identifier: MIT
/*
 * cuGetProcAddress(): functions by name and CUDA version.
 *
 * Owns one constant table, sorted by name, then by version. A row gives the symbols that a name means from the
 * row's version on, until the version of the name's next row. Functions that only fail (cu_absent.c) are found
 * like all others. A row of a function that is not exported has no symbols: its name is not found, even if an
 * older row has symbols, because the caller would call the older form with the newer form's arguments. Rows with
 * a version above the release's (release.h) are ignored.
 *
 * Works before cuInit(), takes no lock.
 */
#include <stdlib.h>

#include "driver/driver.h"
#include "abi/release.h"
#include "cudaGL.h"
#include "cudaProfiler.h"

/* No header declares all functions that only fail, and the table needs only their addresses. */
#define CU_ABSENT(number, name)	extern const char absent_ ## name[] __asm__(#name);
#define CU_ABSENT_LOGGED	CU_ABSENT
#include "abi/cu_absent.h"
#define absent_0		0

static const struct row {
	const char *name;
	int version;
	void *symbol, *own;		/* the forms for the legacy and for the per-thread default stream */
} rows[] = {
#define PROC_FIRST(name, version, symbol, thread) { name, version, (void *)symbol, (void *)thread },
#define PROC_ABSENT(name, version, symbol, thread) \
	{ name, version, (void *)absent_ ## symbol, (void *)absent_ ## thread },
#define PROC_LATER(name, version, symbol, thread) { name, version, NULL, NULL },
#include "abi/proc_table.h"
};

#define ROWS	(sizeof(rows) / sizeof(rows[0]))

/* The index of a name's first row, or ROWS if there is none. */
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
 * @status: receives whether the function was found, or whether @version is too old for it; may be NULL
 *
 * Follows "Driver Entry Point Access". A name that is not found is no error.
 *
 * Return: INVALID_VALUE for unknown flags, a version above the driver's, or NULL @name or @function.
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
