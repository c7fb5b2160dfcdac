// SPDX-License-Identifier: MIT
/*
 * The runtime API's chapters "Version Management", "Driver Entry Point Access" and "Profiler
 * Control", and what is left.
 *
 * Owns nothing. The versions need no device.
 */
#include "cuda_rt.h"
#include "cudaProfiler.h"
#include "cuda_profiler_api.h"

/** cudaDriverGetVersion - the CUDA version that the driver is for */
cudaError_t cudaDriverGetVersion(int *version)
{
	RT_PLAIN(version ? rt_code(cuDriverGetVersion(version)) : cudaErrorInvalidValue);
}

static cudaError_t own_version(int *version)
{
	if (!version)
		return cudaErrorInvalidValue;
	*version = rt_version;
	return cudaSuccess;
}

/** cudaRuntimeGetVersion - the CUDA version that this library is for */
cudaError_t cudaRuntimeGetVersion(int *version)
{
	RT_PLAIN(own_version(version));
}

/*
 * The numbers of flags and of the answer are the driver's. Without flags it is the form that was
 * called that says which forms of functions are wanted.
 */
static cudaError_t entry_point(const char *symbol, void **function, int version,
			       unsigned long long flags,
			       enum cudaDriverEntryPointQueryResult *status, bool own)
{
	CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
	CUresult result;

	if (!symbol || !function)
		return cudaErrorInvalidValue;
	if (flags == cudaEnableDefault && own)
		flags = cudaEnablePerThreadDefaultStream;
	result = cuGetProcAddress_v2(symbol, function, version, flags, &found);
	if (status)
		*status = (enum cudaDriverEntryPointQueryResult)found;
	return rt_code(result);
}

/**
 * cudaGetDriverEntryPoint - a function of the driver API, as of this library's version
 * @function: NULL if there is none
 * @flags: enum cudaGetDriverEntryPointFlags
 * @status: why there is none; may be NULL
 *
 * Return: cudaSuccess also if there is none; cudaErrorInvalidValue.
 */
cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags,
				    enum cudaDriverEntryPointQueryResult *status)
{
	RT_DRIVER(entry_point(symbol, function, rt_version, flags, status, false));
}

cudaError_t cudaGetDriverEntryPoint_ptsz(const char *symbol, void **function,
					 unsigned long long flags,
					 enum cudaDriverEntryPointQueryResult *status)
{
	RT_DRIVER(entry_point(symbol, function, rt_version, flags, status, true));
}

/** cudaGetDriverEntryPointByVersion - the same as of another version */
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function,
					     unsigned int cuda_version, unsigned long long flags,
					     enum cudaDriverEntryPointQueryResult *status)
{
	RT_DRIVER(entry_point(symbol, function, cuda_version, flags, status, false));
}

cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **function,
						  unsigned int cuda_version,
						  unsigned long long flags,
						  enum cudaDriverEntryPointQueryResult *status)
{
	RT_DRIVER(entry_point(symbol, function, cuda_version, flags, status, true));
}

/** cudaGetExportTable - cudaErrorInvalidValue: no table is known; @table becomes NULL */
cudaError_t cudaGetExportTable(const void **table, const cudaUUID_t *table_id)
{
	RT_PLAIN(rt_code(cuGetExportTable(table, table_id)));
}

/** cudaProfilerStart - nothing */
cudaError_t cudaProfilerStart(void)
{
	RT_CONTEXT(rt_code(cuProfilerStart()));
}

/** cudaProfilerStop - nothing */
cudaError_t cudaProfilerStop(void)
{
	RT_CONTEXT(rt_code(cuProfilerStop()));
}

/** cudaCreateChannelDesc - a description from its members */
struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
						   enum cudaChannelFormatKind f)
{
	return (struct cudaChannelFormatDesc) { x, y, z, w, f };
}
