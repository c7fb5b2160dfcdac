// SPDX-License-Identifier: MIT
/*
 * The API's chapter "Profiler Control", and the tables of the driver's private functions.
 *
 * Owns nothing. There is no profiler to start or stop, which programs need not know; and there are
 * no private functions.
 */
#include "internal.h"
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

/** cuProfilerStart - nothing, in a context */
CUresult cuProfilerStart(void)
{
	CALL(with_context());
}

/** cuProfilerStop - nothing, in a context */
CUresult cuProfilerStop(void)
{
	CALL(with_context());
}

/** cuGetExportTable - INVALID_VALUE: no table is known; @table becomes NULL. Needs no cuInit(). */
CUresult cuGetExportTable(const void **table, const CUuuid *table_id)
{
	(void)table_id;
	if (table)
		*table = NULL;
	RETURN(CUDA_ERROR_INVALID_VALUE);
}
