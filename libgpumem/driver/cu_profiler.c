// SPDX-License-Identifier: MIT
/*
 * The API's chapter "Profiler Control", and cuGetExportTable(), by which programs ask for the driver's tables
 * of private functions.
 *
 * Owns nothing. There is no profiler: starting and stopping succeed and have no effect. There are no private
 * functions. NVIDIA's CUDA runtime fails with cudaErrorInvalidValue without them, which tells nobody why, so
 * the library explains it.
 */
#include <string.h>

#include "driver/driver.h"
#include "core/debug.h"
#include "cudaProfiler.h"

static CUresult with_context(void)
{
	CUcontext ctx;

	return ctx_current(&ctx);
}

/** cuProfilerInitialize - as in drivers from version 12 on: NOT_SUPPORTED */
CUresult cuProfilerInitialize(const char *config_file, const char *output_file,
			      CUoutput_mode output_mode)
{
	(void)config_file;
	(void)output_file;
	(void)output_mode;
	CALL(CUDA_ERROR_NOT_SUPPORTED, config_file, output_file, output_mode);
}

/** cuProfilerStart - succeeds without effect if a context is current */
CUresult cuProfilerStart(void)
{
	CALL(with_context());
}

/** cuProfilerStop - succeeds without effect if a context is current */
CUresult cuProfilerStop(void)
{
	CALL(with_context());
}

/* The first table without which NVIDIA's CUDA runtime of version 13 does not start. */
static const unsigned char runtime_table[16] = {
	0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9,
};

/** cuGetExportTable - INVALID_VALUE: the library has no tables; *table becomes NULL. Needs no cuInit(). */
CUresult cuGetExportTable(const void **table, const CUuuid *table_id)
{
	static uint32_t printed;

	if (table_id && !memcmp(table_id, runtime_table, sizeof(runtime_table)))
		debug_explain(&printed,
			      "gpumem: the program uses NVIDIA's CUDA runtime, which works with NVIDIA's driver only: link it again with gpumem's (nvcc -L.../lib/gpumem)");
	if (table)
		*table = NULL;
	RETURN(CUDA_ERROR_INVALID_VALUE);
}
