// SPDX-License-Identifier: MIT
/*
 * The cuFile driver: opening and closing it, its properties, and what a forked child sees.
 *
 * The driver is open while it is used. Each cuFileDriverOpen() is one use; registering a file or a buffer, and the
 * query of properties, open a driver that is not open, which is one use, too. cuFileDriverClose() takes one use back.
 * The last one deregisters all files and buffers. It fails with CU_FILE_DRIVER_CLOSING while requests are in flight.
 *
 * Opening initializes CUDA, without a lock, because that may take long.
 */
#include <string.h>

#include "file/file.h"

#undef cuFileDriverClose

#define CUFILE_VERSION	1150		/* 1.15.0 */

pthread_mutex_t file_lock = PTHREAD_MUTEX_INITIALIZER;

static long uses;			/* file_lock */
static unsigned int requests;		/* in flight; file_lock to begin, atomic */
static bool closing;			/* file_lock */
static bool forked;			/* constant after fork() */
static bool ever_open;			/* file_lock */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void child(void)
{
	forked = ever_open;
}

static void prepare(void)
{
	pthread_atfork(NULL, NULL, child);
}

bool driver_forked(void)
{
	return forked;
}

CUfileError_t file_result(CUfileOpError err)
{
	return (CUfileError_t) { .err = err, .cu_err = CUDA_SUCCESS };
}

static CUfileError_t cuda_result(CUfileOpError err, CUresult cuda)
{
	return (CUfileError_t) { .err = err, .cu_err = err == CU_FILE_CUDA_DRIVER_ERROR ? cuda : CUDA_SUCCESS };
}

/* Add a use, or only the first one. */
static CUfileOpError driver_open(bool first, CUresult *cuda)
{
	CUfileOpError err = CU_FILE_SUCCESS;

	*cuda = CUDA_SUCCESS;
	if (forked)
		return CU_FILE_DRIVER_NOT_INITIALIZED;
	pthread_once(&once, prepare);
	pthread_mutex_lock(&file_lock);
	if (closing) {
		err = CU_FILE_DRIVER_CLOSING;
	} else if (uses) {
		uses += !first;
		first = true;
	}
	if (err || uses) {
		pthread_mutex_unlock(&file_lock);
		return err;
	}
	pthread_mutex_unlock(&file_lock);

	*cuda = cuInit(0);
	if (*cuda)
		return CU_FILE_CUDA_DRIVER_ERROR;
	pthread_mutex_lock(&file_lock);
	/* Another thread may have opened the driver meanwhile. */
	if (!uses || !first)
		uses++;
	ever_open = true;
	pthread_mutex_unlock(&file_lock);
	return CU_FILE_SUCCESS;
}

CUfileOpError driver_need(CUresult *cuda)
{
	return driver_open(true, cuda);
}

CUfileOpError driver_lock(void)
{
	if (forked)
		return CU_FILE_DRIVER_NOT_INITIALIZED;
	pthread_mutex_lock(&file_lock);
	if (uses && !closing)
		return CU_FILE_SUCCESS;
	pthread_mutex_unlock(&file_lock);
	return CU_FILE_DRIVER_NOT_INITIALIZED;
}

void driver_unlock(void)
{
	pthread_mutex_unlock(&file_lock);
}

void driver_busy_locked(void)
{
	__atomic_fetch_add(&requests, 1, __ATOMIC_RELAXED);
}

void driver_idle(void)
{
	__atomic_fetch_sub(&requests, 1, __ATOMIC_RELEASE);
}

EXPORT CUfileError_t cuFileDriverOpen(void)
{
	CUresult cuda;
	CUfileOpError err = driver_open(false, &cuda);

	return cuda_result(err, cuda);
}

EXPORT CUfileError_t cuFileDriverClose_v2(void)
{
	CUfileOpError err = driver_lock();

	if (err)
		return file_result(err);
	if (uses > 1) {
		uses--;
		driver_unlock();
		return file_result(CU_FILE_SUCCESS);
	}
	if (__atomic_load_n(&requests, __ATOMIC_ACQUIRE)) {
		driver_unlock();
		return file_result(CU_FILE_DRIVER_CLOSING);
	}
	closing = true;
	driver_unlock();

	batches_end();
	streams_end();
	files_end();
	buffers_end();
	rings_end();
	pthread_mutex_lock(&file_lock);
	uses = 0;
	closing = false;
	driver_unlock();
	return file_result(CU_FILE_SUCCESS);
}

EXPORT CUfileError_t cuFileDriverClose(void)
{
	return cuFileDriverClose_v2();
}

EXPORT long cuFileUseCount(void)
{
	long n;

	if (driver_lock())
		return 0;
	n = uses;
	driver_unlock();
	return n;
}

EXPORT CUfileError_t cuFileGetVersion(int *version)
{
	if (!version)
		return file_result(CU_FILE_INVALID_VALUE);
	*version = CUFILE_VERSION;
	return file_result(CU_FILE_SUCCESS);
}

EXPORT CUfileError_t cuFileDriverGetProperties(CUfileDrvProps_t *props)
{
	CUresult cuda;
	CUfileOpError err;

	if (!props)
		return file_result(CU_FILE_INVALID_VALUE);
	err = driver_need(&cuda);
	if (err)
		return cuda_result(err, cuda);
	memset(props, 0, sizeof(*props));
	props->nvfs.major_version = CUFILE_VERSION / 1000;
	props->nvfs.minor_version = CUFILE_VERSION % 1000 / 10;
	props->nvfs.poll_thresh_size = param_size(CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB);
	props->nvfs.max_direct_io_size = param_size(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB);
	props->nvfs.dstatusflags = 1u << CU_FILE_NVME_SUPPORTED | 1u << CU_FILE_SCSI_SUPPORTED;
	if (param_bool(CUFILE_PARAM_PROPERTIES_USE_POLL_MODE))
		props->nvfs.dcontrolflags |= 1u << CU_FILE_USE_POLL_MODE;
	if (param_bool(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE))
		props->nvfs.dcontrolflags |= 1u << CU_FILE_ALLOW_COMPAT_MODE;
	props->fflags = 1u << CU_FILE_BATCH_IO_SUPPORTED | 1u << CU_FILE_STREAMS_SUPPORTED |
		1u << CU_FILE_PARALLEL_IO_SUPPORTED;
	props->max_device_cache_size = param_size(CUFILE_PARAM_PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB);
	props->per_buffer_cache_size = param_size(CUFILE_PARAM_PROPERTIES_PER_BUFFER_CACHE_SIZE_KB);
	props->max_device_pinned_mem_size =
		param_size(CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB);
	props->max_batch_io_size = param_size(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE);
	props->max_batch_io_timeout_msecs = param_size(CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS);
	return file_result(CU_FILE_SUCCESS);
}
