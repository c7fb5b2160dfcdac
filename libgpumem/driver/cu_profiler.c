// SPDX-License-Identifier: MIT
/*
 * The API's chapter "Profiler Control", and cuGetExportTable(), by which programs ask for the driver's tables
 * of private functions.
 *
 * Owns nothing. There is no profiler: starting and stopping succeed and have no effect. There are no private
 * functions.
 */
#include "driver/driver.h"
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

/** cuGetExportTable - INVALID_VALUE: the library has no tables; *table becomes NULL. Needs no cuInit(). */
CUresult cuGetExportTable(const void **table, const CUuuid *table_id)
{
	(void)table_id;
	if (table)
		*table = NULL;
	RETURN(CUDA_ERROR_INVALID_VALUE);
}
