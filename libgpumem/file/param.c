// SPDX-License-Identifier: MIT
/*
 * Parameters. NVIDIA's library also reads them from a file; this library has the functions only.
 *
 * A parameter can be set while the driver is not open, as documented; the functions cuFileDriverSet*() set theirs
 * afterwards. Most parameters describe mechanisms that this library does not have: it keeps their values and does not
 * use them. Used are the size of one direct operation, the size of a batch, the number of threads for requests on
 * streams, the two for compatibility mode, and whether host memory is allowed.
 */
#include <stdio.h>
#include <string.h>

#include "file/file.h"

#define LEN(a)		(sizeof(a) / sizeof(*(a)))
#define SLABS_MOST	16

struct size_param {
	size_t value, least, most;
};

/* Values are read without a lock. */
static struct size_param sizes[] = {
	[CUFILE_PARAM_PROFILE_STATS] = { 0, 0, 3 },
	[CUFILE_PARAM_EXECUTION_MAX_IO_QUEUE_DEPTH] = { 128, 1, 1024 },
	[CUFILE_PARAM_EXECUTION_MAX_IO_THREADS] = { 4, 1, 64 },
	[CUFILE_PARAM_EXECUTION_MIN_IO_THRESHOLD_SIZE_KB] = { 8192, 4, 1 << 20 },
	[CUFILE_PARAM_EXECUTION_MAX_REQUEST_PARALLELISM] = { 4, 1, 64 },
	[CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB] = { 16384, 4, 1 << 20 },
	[CUFILE_PARAM_PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB] = { 131072, 4, 1 << 30 },
	[CUFILE_PARAM_PROPERTIES_PER_BUFFER_CACHE_SIZE_KB] = { 1024, 4, 1 << 20 },
	[CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB] = { 33554432, 4, 1ul << 40 },
	[CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE] = { 128, 1, 1024 },
	[CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB] = { 4, 0, 1 << 20 },
	[CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS] = { 0, 0, 1 << 30 },
};

static bool flags[] = {
	[CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE] = true,
	[CUFILE_PARAM_EXECUTION_PARALLEL_IO] = true,
	[CUFILE_PARAM_PROPERTIES_ALLOW_SYSTEM_MEMORY] = true,
	[CUFILE_PARAM_PREFER_IO_URING] = true,
	[CUFILE_PARAM_STREAM_MEMOPS_BYPASS] = false,
};

/* file_lock */
static char texts[3][256] = { [CUFILE_PARAM_LOGGING_LEVEL] = "ERROR" };
static size_t slab_sizes[SLABS_MOST] = { 4, 1024, 16384 }, slab_counts[SLABS_MOST] = { 128, 64, 64 };
static int slabs = 3;

size_t param_size(CUFileSizeTConfigParameter_t param)
{
	return __atomic_load_n(&sizes[param].value, __ATOMIC_RELAXED);
}

bool param_bool(CUFileBoolConfigParameter_t param)
{
	return __atomic_load_n(&flags[param], __ATOMIC_RELAXED);
}

/* file_lock is held afterwards if the result is CU_FILE_SUCCESS. */
static CUfileOpError lock_closed(void)
{
	if (driver_forked())
		return CU_FILE_DRIVER_NOT_INITIALIZED;
	if (!driver_lock()) {
		driver_unlock();
		return CU_FILE_DRIVER_ALREADY_OPEN;
	}
	pthread_mutex_lock(&file_lock);
	return CU_FILE_SUCCESS;
}

static CUfileError_t size_set(CUFileSizeTConfigParameter_t param, size_t value)
{
	if (value < sizes[param].least || value > sizes[param].most)
		return file_result(CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
	__atomic_store_n(&sizes[param].value, value, __ATOMIC_RELAXED);
	return file_result(CU_FILE_SUCCESS);
}

/* Sets a value while the driver is open. */
static CUfileError_t size_set_open(CUFileSizeTConfigParameter_t param, size_t value)
{
	CUresult cuda;
	CUfileOpError err = driver_need(&cuda);

	if (err)
		return (CUfileError_t) { .err = err, .cu_err = cuda };
	return size_set(param, value);
}

/* ---- public functions */

EXPORT CUfileError_t cuFileDriverSetPollMode(bool poll, size_t poll_threshold_size)
{
	CUfileError_t result = size_set_open(CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB, poll_threshold_size);

	if (!result.err)
		__atomic_store_n(&flags[CUFILE_PARAM_PROPERTIES_USE_POLL_MODE], poll, __ATOMIC_RELAXED);
	return result;
}

EXPORT CUfileError_t cuFileDriverSetMaxDirectIOSize(size_t max_direct_io_size)
{
	return size_set_open(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB, max_direct_io_size);
}

EXPORT CUfileError_t cuFileDriverSetMaxCacheSize(size_t max_cache_size)
{
	return size_set_open(CUFILE_PARAM_PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB, max_cache_size);
}

EXPORT CUfileError_t cuFileDriverSetMaxPinnedMemSize(size_t max_pinned_size)
{
	return size_set_open(CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB, max_pinned_size);
}

EXPORT CUfileError_t cuFileGetParameterSizeT(CUFileSizeTConfigParameter_t param, size_t *value)
{
	if (!value || (unsigned int)param >= LEN(sizes))
		return file_result(CU_FILE_INVALID_VALUE);
	*value = param_size(param);
	return file_result(CU_FILE_SUCCESS);
}

EXPORT CUfileError_t cuFileGetParameterMinMaxValue(CUFileSizeTConfigParameter_t param, size_t *min_value,
						   size_t *max_value)
{
	if (!min_value || !max_value || (unsigned int)param >= LEN(sizes))
		return file_result(CU_FILE_INVALID_VALUE);
	*min_value = sizes[param].least;
	*max_value = sizes[param].most;
	return file_result(CU_FILE_SUCCESS);
}

EXPORT CUfileError_t cuFileGetParameterBool(CUFileBoolConfigParameter_t param, bool *value)
{
	if (!value || (unsigned int)param > CUFILE_PARAM_STREAM_MEMOPS_BYPASS)
		return file_result(CU_FILE_INVALID_VALUE);
	*value = param_bool(param);
	return file_result(CU_FILE_SUCCESS);
}

EXPORT CUfileError_t cuFileGetParameterString(CUFileStringConfigParameter_t param, char *desc_str, int len)
{
	CUfileOpError err = CU_FILE_SUCCESS;

	if (!desc_str || len <= 0 || (unsigned int)param >= LEN(texts))
		return file_result(CU_FILE_INVALID_VALUE);
	if (driver_forked())
		return file_result(CU_FILE_DRIVER_NOT_INITIALIZED);
	pthread_mutex_lock(&file_lock);
	if (strlen(texts[param]) >= (size_t)len)
		err = CU_FILE_INVALID_VALUE;
	else
		strcpy(desc_str, texts[param]);
	driver_unlock();
	return file_result(err);
}

EXPORT CUfileError_t cuFileGetParameterPosixPoolSlabArray(size_t *size_values, size_t *count_values, int len)
{
	CUfileOpError err = CU_FILE_SUCCESS;

	if (!size_values || !count_values || len <= 0)
		return file_result(CU_FILE_INVALID_VALUE);
	if (driver_forked())
		return file_result(CU_FILE_DRIVER_NOT_INITIALIZED);
	pthread_mutex_lock(&file_lock);
	if (len < slabs)
		err = CU_FILE_INVALID_VALUE;
	for (int i = 0; !err && i < slabs; i++) {
		size_values[i] = slab_sizes[i];
		count_values[i] = slab_counts[i];
	}
	driver_unlock();
	return file_result(err);
}

EXPORT CUfileError_t cuFileSetParameterSizeT(CUFileSizeTConfigParameter_t param, size_t value)
{
	CUfileError_t result = file_result(CU_FILE_INVALID_VALUE);

	if ((unsigned int)param >= LEN(sizes))
		return result;
	result.err = lock_closed();
	if (result.err)
		return result;
	result = size_set(param, value);
	driver_unlock();
	return result;
}

EXPORT CUfileError_t cuFileSetParameterBool(CUFileBoolConfigParameter_t param, bool value)
{
	CUfileOpError err = (unsigned int)param > CUFILE_PARAM_STREAM_MEMOPS_BYPASS ? CU_FILE_INVALID_VALUE :
		lock_closed();

	if (err)
		return file_result(err);
	__atomic_store_n(&flags[param], value, __ATOMIC_RELAXED);
	driver_unlock();
	return file_result(CU_FILE_SUCCESS);
}

EXPORT CUfileError_t cuFileSetParameterString(CUFileStringConfigParameter_t param, const char *desc_str)
{
	CUfileOpError err;

	if (!desc_str || (unsigned int)param >= LEN(texts) || strlen(desc_str) >= sizeof(texts[0]))
		return file_result(CU_FILE_INVALID_VALUE);
	err = lock_closed();
	if (err)
		return file_result(err);
	strcpy(texts[param], desc_str);
	driver_unlock();
	return file_result(CU_FILE_SUCCESS);
}

EXPORT CUfileError_t cuFileSetParameterPosixPoolSlabArray(const size_t *size_values, const size_t *count_values,
							  int len)
{
	CUfileOpError err;

	if (!size_values || !count_values || len <= 0 || len > SLABS_MOST)
		return file_result(CU_FILE_INVALID_VALUE);
	err = lock_closed();
	if (err)
		return file_result(err);
	for (int i = 0; i < len; i++) {
		slab_sizes[i] = size_values[i];
		slab_counts[i] = count_values[i];
	}
	slabs = len;
	driver_unlock();
	return file_result(CU_FILE_SUCCESS);
}
