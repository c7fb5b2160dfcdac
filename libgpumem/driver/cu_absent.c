// SPDX-License-Identifier: MIT
/*
 * Functions of CUDA that this library does not implement: they are exported, cuGetProcAddress() finds
 * them, and they fail.
 *
 * Programs resolve all functions that they might use when they start, and give up if one name is
 * missing, even if they never call it. So this library exports every name that NVIDIA's library
 * exports. A missing function returns what a driver without the feature returns: NOT_INITIALIZED
 * before cuInit(), then NOT_SUPPORTED. It does not read its arguments and does not write its
 * outputs, with one exception: functions that load or link code have options for logs, and programs
 * print the logs of a failure without having initialized the buffers. So these functions fill them in.
 *
 * abi/symbols.txt gives these names the status "absent", and mkmap makes cu_absent.h from it. A file
 * that implements one of them needs the status changed there, because two definitions do not link.
 *
 * The functions have entries that programs can overwrite: memory hooks patch cuMemMap() and
 * cuLibraryGetGlobal() whether a program uses them or not.
 */
#include <string.h>

#include "driver/driver.h"

#define CU_ABSENT_LOGGED	CU_ABSENT
#define CU_ABSENT(number, name)	[number] = #name,
static const char *const cu_absent_names[] = {
#include "abi/cu_absent.h"
};
#undef CU_ABSENT
#undef CU_ABSENT_LOGGED

BODY CUresult absent_body(unsigned int number)
{
	CALL_AS(cu_absent_names[number], CUDA_ERROR_NOT_SUPPORTED);
}

#define CU_ABSENT(number, name)	ENTRY_NUMBERED(name, absent_body, number);
#define CU_ABSENT_LOGGED(number, name)
#include "abi/cu_absent.h"

/* Write @text to the buffer of the option @log. The option @bytes is the buffer's size, and becomes the text's. */
static void fill_in_log(unsigned int count, const CUjit_option *options, void **values,
			CUjit_option log, CUjit_option bytes, const char *text)
{
	void **size = NULL;
	char *buffer = NULL;
	unsigned int length = 0;

	for (unsigned int i = 0; options && values && i < count; i++) {
		if (options[i] == log)
			buffer = values[i];
		else if (options[i] == bytes)
			size = &values[i];
	}
	if (!size)
		return;
	if (buffer && (unsigned int)(uintptr_t)*size) {
		length = (unsigned int)(uintptr_t)*size - 1;
		if (length > strlen(text))
			length = strlen(text);
		memcpy(buffer, text, length);
		buffer[length] = 0;
	}
	*size = (void *)(uintptr_t)length;
}

static CUresult no_code(unsigned int count, const CUjit_option *options, void **values)
{
	fill_in_log(count, options, values, CU_JIT_INFO_LOG_BUFFER,
		    CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, "");
	fill_in_log(count, options, values, CU_JIT_ERROR_LOG_BUFFER,
		    CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, "gpumem has no kernels: it loads no code for the device");
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* cuda.h declares neither this type nor the functions that have it. */
typedef int library_option;

#pragma GCC visibility push(default)
CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *options, void **values,
			   unsigned int count, library_option *library_options, void **library_values,
			   unsigned int library_count);
CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *options, void **values,
			       unsigned int count, library_option *library_options, void **library_values,
			       unsigned int library_count);
#pragma GCC visibility pop

/** cuModuleLoadDataEx - fails, and fills in the logs */
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, CUjit_option *options,
			    void **values)
{
	CALL(no_code(count, options, values), module, image, count);
}

/** cuLinkCreate - fails, and fills in the logs */
CUresult cuLinkCreate(unsigned int count, CUjit_option *options, void **values, CUlinkState *state)
{
	CALL(no_code(count, options, values), count, state);
}

/** cuLinkCreate_v2 - fails, and fills in the logs */
CUresult cuLinkCreate_v2(unsigned int count, CUjit_option *options, void **values, CUlinkState *state)
{
	CALL(no_code(count, options, values), count, state);
}

/** cuLibraryLoadData - fails, and fills in the logs */
CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *options, void **values,
			   unsigned int count, library_option *library_options, void **library_values,
			   unsigned int library_count)
{
	CALL(no_code(count, options, values), library, code, count, library_options, library_values,
	     library_count);
}

/** cuLibraryLoadFromFile - fails, and fills in the logs */
CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *options, void **values,
			       unsigned int count, library_option *library_options, void **library_values,
			       unsigned int library_count)
{
	CALL(no_code(count, options, values), library, path, count, library_options, library_values,
	     library_count);
}
