// SPDX-License-Identifier: MIT
/*
 * The runtime API's chapters "Version Management", "Driver Entry Point Access" and "Profiler
 * Control", and cudaGetExportTable() and cudaCreateChannelDesc().
 *
 * Owns nothing. The versions need no device.
 */
#include "runtime/runtime.h"
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
 * Flags and @status have the driver's numbers. Without flags the form that the program called (@own)
 * decides which form of the driver's function the program receives.
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
 * cudaGetDriverEntryPoint - a function of the driver API, in the form of this library's CUDA version
 * @function: receives the address, or NULL if there is no such function
 * @flags: enum cudaGetDriverEntryPointFlags
 * @status: receives whether and, if not, why not the function was found; may be NULL
 *
 * Return: cudaSuccess, also if there is no such function; cudaErrorInvalidValue.
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

/** cudaGetDriverEntryPointByVersion - the same in the form of the CUDA version that the caller names */
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

/** cudaGetExportTable - cudaErrorInvalidValue: there are no tables; *table becomes NULL */
cudaError_t cudaGetExportTable(const void **table, const cudaUUID_t *table_id)
{
	RT_PLAIN(rt_code(cuGetExportTable(table, table_id)));
}

/** cudaProfilerStart - as cuProfilerStart(): no effect */
cudaError_t cudaProfilerStart(void)
{
	RT_CONTEXT(rt_code(cuProfilerStart()));
}

/** cudaProfilerStop - as cuProfilerStop(): no effect */
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
