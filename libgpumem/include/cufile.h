/* SPDX-License-Identifier: MIT */
/*
 * The cuFile API: files are read into device memory and written from it. Names, values and layouts are those of
 * cuFile 1.15, which CUDA 13.0 has. gpumem's libcufile.so.0 implements it; Documentation/storage.rst is the manual.
 *
 * Functions return a CUfileError_t: .err is CU_FILE_SUCCESS or a CU_FILE_* error. If .err is
 * CU_FILE_CUDA_DRIVER_ERROR, .cu_err has the driver's result.
 *
 * cuFileRead() and cuFileWrite() return the number of bytes, -1 with errno for an error of the file system, or the
 * negative value of a CU_FILE_* error.
 */
#ifndef GPUMEM_CUFILE_H
#define GPUMEM_CUFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

#include "cuda.h"
#include "cufile_stats.h"

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors */

#define CUFILEOP_BASE_ERR	5000

/* X(number, name, text) for each error. */
#define CUFILE_ERRORS(X)								\
	X(1, CU_FILE_DRIVER_NOT_INITIALIZED, "the cuFile driver is not open")		\
	X(2, CU_FILE_DRIVER_INVALID_PROPS, "invalid property")				\
	X(3, CU_FILE_DRIVER_UNSUPPORTED_LIMIT, "a property is out of range")		\
	X(4, CU_FILE_DRIVER_VERSION_MISMATCH, "versions of driver and library differ")	\
	X(5, CU_FILE_DRIVER_VERSION_READ_ERROR, "the driver's version is unreadable")	\
	X(6, CU_FILE_DRIVER_CLOSING, "the driver is closing, or has requests in flight") \
	X(7, CU_FILE_PLATFORM_NOT_SUPPORTED, "not supported on this platform")		\
	X(8, CU_FILE_IO_NOT_SUPPORTED, "not supported for this file")			\
	X(9, CU_FILE_DEVICE_NOT_SUPPORTED, "not supported by this device")		\
	X(10, CU_FILE_NVFS_DRIVER_ERROR, "the driver refused the operation")		\
	X(11, CU_FILE_CUDA_DRIVER_ERROR, "CUDA driver API error")			\
	X(12, CU_FILE_CUDA_POINTER_INVALID, "invalid device pointer")			\
	X(13, CU_FILE_CUDA_MEMORY_TYPE_INVALID, "invalid type of memory")		\
	X(14, CU_FILE_CUDA_POINTER_RANGE_ERROR, "the range exceeds the allocation")	\
	X(15, CU_FILE_CUDA_CONTEXT_MISMATCH, "wrong CUDA context")			\
	X(16, CU_FILE_INVALID_MAPPING_SIZE, "the access exceeds the registered size")	\
	X(17, CU_FILE_INVALID_MAPPING_RANGE, "the access exceeds the registered buffer") \
	X(18, CU_FILE_INVALID_FILE_TYPE, "unsupported type of file")			\
	X(19, CU_FILE_INVALID_FILE_OPEN_FLAG, "unsupported flags of the open file")	\
	X(20, CU_FILE_DIO_NOT_SET, "the file is open without O_DIRECT")			\
	X(22, CU_FILE_INVALID_VALUE, "invalid argument")				\
	X(23, CU_FILE_MEMORY_ALREADY_REGISTERED, "the memory is registered already")	\
	X(24, CU_FILE_MEMORY_NOT_REGISTERED, "the memory is not registered")		\
	X(25, CU_FILE_PERMISSION_DENIED, "permission denied")				\
	X(26, CU_FILE_DRIVER_ALREADY_OPEN, "the driver is open already")		\
	X(27, CU_FILE_HANDLE_NOT_REGISTERED, "the file handle is not registered")	\
	X(28, CU_FILE_HANDLE_ALREADY_REGISTERED, "the file is registered already")	\
	X(29, CU_FILE_DEVICE_NOT_FOUND, "device not found")				\
	X(30, CU_FILE_INTERNAL_ERROR, "internal error")					\
	X(31, CU_FILE_GETNEWFD_FAILED, "no new file descriptor")			\
	X(33, CU_FILE_NVFS_SETUP_ERROR, "the driver's set-up failed")			\
	X(34, CU_FILE_IO_DISABLED, "requests on this file are disabled")		\
	X(35, CU_FILE_BATCH_SUBMIT_FAILED, "the batch was not submitted")		\
	X(36, CU_FILE_GPU_MEMORY_PINNING_FAILED, "device memory was not pinned")	\
	X(37, CU_FILE_BATCH_FULL, "the batch has no room")				\
	X(38, CU_FILE_ASYNC_NOT_SUPPORTED, "requests on streams are not supported")	\
	X(39, CU_FILE_INTERNAL_BATCH_SETUP_ERROR, "internal error of batch set-up")	\
	X(40, CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR, "internal error of batch submission") \
	X(41, CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR, "internal error of batch status")	\
	X(42, CU_FILE_INTERNAL_BATCH_CANCEL_ERROR, "internal error of batch cancellation") \
	X(43, CU_FILE_NOMEM_ERROR, "out of memory")					\
	X(44, CU_FILE_IO_ERROR, "input or output error")				\
	X(45, CU_FILE_INTERNAL_BUF_REGISTER_ERROR, "internal error of buffer registration") \
	X(46, CU_FILE_HASH_OPR_ERROR, "internal error of a table")			\
	X(47, CU_FILE_INVALID_CONTEXT_ERROR, "invalid CUDA context")			\
	X(48, CU_FILE_NVFS_INTERNAL_DRIVER_ERROR, "internal error of the driver")	\
	X(49, CU_FILE_BATCH_NOCOMPAT_ERROR, "the batch does not run in compatibility mode") \
	X(50, CU_FILE_IO_MAX_ERROR, "unknown error")

#define CUFILE_ERROR_VALUE(number, name, text)	name = CUFILEOP_BASE_ERR + number,
typedef enum CUfileOpError {
	CU_FILE_SUCCESS = 0,
	CUFILE_ERRORS(CUFILE_ERROR_VALUE)
} CUfileOpError;
#undef CUFILE_ERROR_VALUE

static inline const char *cufileop_status_error(CUfileOpError status)
{
	switch ((int)status) {
#define CUFILE_ERROR_TEXT(number, name, text)	case CUFILEOP_BASE_ERR + number: return text;
	CUFILE_ERRORS(CUFILE_ERROR_TEXT)
#undef CUFILE_ERROR_TEXT
	case 0:
		return "success";
	default:
		return "unknown error";
	}
}

typedef struct CUfileError {
	CUfileOpError err;
	CUresult cu_err;
} CUfileError_t;

#define IS_CUFILE_ERR(err)	(abs((err)) > CUFILEOP_BASE_ERR)
#define CUFILE_ERRSTR(err)	cufileop_status_error((CUfileOpError)abs((err)))
#define IS_CUDA_ERR(status)	((status).err == CU_FILE_CUDA_DRIVER_ERROR)
#define CU_FILE_CUDA_ERR(status) ((status).cu_err)

/* ---- the driver */

/* Bits of nvfs.dstatusflags, nvfs.dcontrolflags and fflags. */
typedef enum CUfileDriverStatusFlags {
	CU_FILE_LUSTRE_SUPPORTED = 0,
	CU_FILE_WEKAFS_SUPPORTED = 1,
	CU_FILE_NFS_SUPPORTED = 2,
	CU_FILE_GPFS_SUPPORTED = 3,
	CU_FILE_NVME_SUPPORTED = 4,
	CU_FILE_NVMEOF_SUPPORTED = 5,
	CU_FILE_SCSI_SUPPORTED = 6,
	CU_FILE_SCALEFLUX_CSD_SUPPORTED = 7,
	CU_FILE_NVMESH_SUPPORTED = 8,
	CU_FILE_BEEGFS_SUPPORTED = 9,
	CU_FILE_NVME_P2P_SUPPORTED = 11,
	CU_FILE_SCATEFS_SUPPORTED = 12,
} CUfileDriverStatusFlags_t;

typedef enum CUfileDriverControlFlags {
	CU_FILE_USE_POLL_MODE = 0,
	CU_FILE_ALLOW_COMPAT_MODE = 1,
} CUfileDriverControlFlags_t;

typedef enum CUfileFeatureFlags {
	CU_FILE_DYN_ROUTING_SUPPORTED = 0,
	CU_FILE_BATCH_IO_SUPPORTED = 1,
	CU_FILE_STREAMS_SUPPORTED = 2,
	CU_FILE_PARALLEL_IO_SUPPORTED = 3,
} CUfileFeatureFlags_t;

/* Sizes are in KiB. */
typedef struct CUfileDrvProps {
	struct {
		unsigned int major_version;
		unsigned int minor_version;
		size_t poll_thresh_size;
		size_t max_direct_io_size;
		unsigned int dstatusflags;
		unsigned int dcontrolflags;
	} nvfs;
	unsigned int fflags;
	unsigned int max_device_cache_size;
	unsigned int per_buffer_cache_size;
	unsigned int max_device_pinned_mem_size;
	unsigned int max_batch_io_size;
	unsigned int max_batch_io_timeout_msecs;
} CUfileDrvProps_t;

CUfileError_t cuFileDriverOpen(void);
CUfileError_t cuFileDriverClose(void);
CUfileError_t cuFileDriverClose_v2(void);
#define cuFileDriverClose cuFileDriverClose_v2
long cuFileUseCount(void);
CUfileError_t cuFileDriverGetProperties(CUfileDrvProps_t *props);
CUfileError_t cuFileDriverSetPollMode(bool poll, size_t poll_threshold_size);
CUfileError_t cuFileDriverSetMaxDirectIOSize(size_t max_direct_io_size);
CUfileError_t cuFileDriverSetMaxCacheSize(size_t max_cache_size);
CUfileError_t cuFileDriverSetMaxPinnedMemSize(size_t max_pinned_size);
CUfileError_t cuFileGetVersion(int *version);

/* ---- files */

typedef struct sockaddr sockaddr_t;

#define CU_FILE_RDMA_REGISTER		1
#define CU_FILE_RDMA_RELAXED_ORDERING	(1 << 1)

typedef struct cufileRDMAInfo {
	int version;
	int desc_len;
	const char *desc_str;
} cufileRDMAInfo_t;

/* The functions of a file system in user space. */
typedef struct CUfileFSOps {
	const char *(*fs_type)(void *handle);
	int (*getRDMADeviceList)(void *handle, sockaddr_t **hostaddrs);
	int (*getRDMADevicePriority)(void *handle, char *, size_t, loff_t, sockaddr_t *hostaddr);
	ssize_t (*read)(void *handle, char *, size_t, loff_t, cufileRDMAInfo_t *);
	ssize_t (*write)(void *handle, const char *, size_t, loff_t, cufileRDMAInfo_t *);
} CUfileFSOps_t;

enum CUfileFileHandleType {
	CU_FILE_HANDLE_TYPE_OPAQUE_FD = 1,
	CU_FILE_HANDLE_TYPE_OPAQUE_WIN32 = 2,
	CU_FILE_HANDLE_TYPE_USERSPACE_FS = 3,
};

typedef struct CUfileDescr_t {
	enum CUfileFileHandleType type;
	union {
		int fd;
		void *handle;
	} handle;
	const CUfileFSOps_t *fs_ops;
} CUfileDescr_t;

typedef void *CUfileHandle_t;

CUfileError_t cuFileHandleRegister(CUfileHandle_t *fh, CUfileDescr_t *descr);
void cuFileHandleDeregister(CUfileHandle_t fh);
CUfileError_t cuFileBufRegister(const void *bufPtr_base, size_t length, int flags);
CUfileError_t cuFileBufDeregister(const void *bufPtr_base);
ssize_t cuFileRead(CUfileHandle_t fh, void *bufPtr_base, size_t size, off_t file_offset, off_t bufPtr_offset);
ssize_t cuFileWrite(CUfileHandle_t fh, const void *bufPtr_base, size_t size, off_t file_offset,
		    off_t bufPtr_offset);

/* ---- batches */

typedef enum CUfileOpcode {
	CUFILE_READ = 0,
	CUFILE_WRITE = 1,
} CUfileOpcode_t;

typedef enum CUFILEStatus_enum {
	CUFILE_WAITING = 0x01,
	CUFILE_PENDING = 0x02,
	CUFILE_INVALID = 0x04,
	CUFILE_CANCELED = 0x08,
	CUFILE_COMPLETE = 0x10,
	CUFILE_TIMEOUT = 0x20,
	CUFILE_FAILED = 0x40,
} CUfileStatus_t;

typedef enum cufileBatchMode {
	CUFILE_BATCH = 1,
} CUfileBatchMode_t;

typedef struct CUfileIOParams {
	CUfileBatchMode_t mode;
	union {
		struct {
			void *devPtr_base;
			off_t file_offset;
			off_t devPtr_offset;
			size_t size;
		} batch;
	} u;
	CUfileHandle_t fh;
	CUfileOpcode_t opcode;
	void *cookie;
} CUfileIOParams_t;

/* @ret: the number of bytes, or a negative value as of cuFileRead(), with -errno in the place of -1. */
typedef struct CUfileIOEvents {
	void *cookie;
	CUfileStatus_t status;
	size_t ret;
} CUfileIOEvents_t;

typedef void *CUfileBatchHandle_t;

CUfileError_t cuFileBatchIOSetUp(CUfileBatchHandle_t *batch_idp, unsigned int nr);
CUfileError_t cuFileBatchIOSubmit(CUfileBatchHandle_t batch_idp, unsigned int nr, CUfileIOParams_t *iocbp,
				  unsigned int flags);
CUfileError_t cuFileBatchIOGetStatus(CUfileBatchHandle_t batch_idp, unsigned int min_nr, unsigned int *nr,
				     CUfileIOEvents_t *iocbp, struct timespec *timeout);
CUfileError_t cuFileBatchIOCancel(CUfileBatchHandle_t batch_idp);
void cuFileBatchIODestroy(CUfileBatchHandle_t batch_idp);

/* ---- streams */

/* Flags of cuFileStreamRegister(): which values are final when a request is submitted. */
#define CU_FILE_STREAM_FIXED_BUF_OFFSET		1
#define CU_FILE_STREAM_FIXED_FILE_OFFSET	2
#define CU_FILE_STREAM_FIXED_FILE_SIZE		4
#define CU_FILE_STREAM_PAGE_ALIGNED_INPUTS	8

CUfileError_t cuFileReadAsync(CUfileHandle_t fh, void *bufPtr_base, size_t *size_p, off_t *file_offset_p,
			      off_t *bufPtr_offset_p, ssize_t *bytes_read_p, CUstream stream);
CUfileError_t cuFileWriteAsync(CUfileHandle_t fh, void *bufPtr_base, size_t *size_p, off_t *file_offset_p,
			       off_t *bufPtr_offset_p, ssize_t *bytes_written_p, CUstream stream);
CUfileError_t cuFileStreamRegister(CUstream stream, unsigned int flags);
CUfileError_t cuFileStreamDeregister(CUstream stream);

/* ---- parameters */

typedef enum CUFileSizeTConfigParameter_t {
	CUFILE_PARAM_PROFILE_STATS,
	CUFILE_PARAM_EXECUTION_MAX_IO_QUEUE_DEPTH,
	CUFILE_PARAM_EXECUTION_MAX_IO_THREADS,
	CUFILE_PARAM_EXECUTION_MIN_IO_THRESHOLD_SIZE_KB,
	CUFILE_PARAM_EXECUTION_MAX_REQUEST_PARALLELISM,
	CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB,
	CUFILE_PARAM_PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB,
	CUFILE_PARAM_PROPERTIES_PER_BUFFER_CACHE_SIZE_KB,
	CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB,
	CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE,
	CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB,
	CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS,
} CUFileSizeTConfigParameter_t;

typedef enum CUFileBoolConfigParameter_t {
	CUFILE_PARAM_PROPERTIES_USE_POLL_MODE,
	CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE,
	CUFILE_PARAM_FORCE_COMPAT_MODE,
	CUFILE_PARAM_FS_MISC_API_CHECK_AGGRESSIVE,
	CUFILE_PARAM_EXECUTION_PARALLEL_IO,
	CUFILE_PARAM_PROFILE_NVTX,
	CUFILE_PARAM_PROPERTIES_ALLOW_SYSTEM_MEMORY,
	CUFILE_PARAM_USE_PCIP2PDMA,
	CUFILE_PARAM_PREFER_IO_URING,
	CUFILE_PARAM_FORCE_ODIRECT_MODE,
	CUFILE_PARAM_SKIP_TOPOLOGY_DETECTION,
	CUFILE_PARAM_STREAM_MEMOPS_BYPASS,
} CUFileBoolConfigParameter_t;

typedef enum CUFileStringConfigParameter_t {
	CUFILE_PARAM_LOGGING_LEVEL,
	CUFILE_PARAM_ENV_LOGFILE_PATH,
	CUFILE_PARAM_LOG_DIR,
} CUFileStringConfigParameter_t;

typedef enum CUFileArrayConfigParameter_t {
	CUFILE_PARAM_POSIX_POOL_SLAB_SIZE_KB,
	CUFILE_PARAM_POSIX_POOL_SLAB_COUNT,
} CUFileArrayConfigParameter_t;

CUfileError_t cuFileGetParameterSizeT(CUFileSizeTConfigParameter_t param, size_t *value);
CUfileError_t cuFileGetParameterBool(CUFileBoolConfigParameter_t param, bool *value);
CUfileError_t cuFileGetParameterString(CUFileStringConfigParameter_t param, char *desc_str, int len);
CUfileError_t cuFileGetParameterMinMaxValue(CUFileSizeTConfigParameter_t param, size_t *min_value,
					    size_t *max_value);
CUfileError_t cuFileGetParameterPosixPoolSlabArray(size_t *size_values, size_t *count_values, int len);
CUfileError_t cuFileSetParameterSizeT(CUFileSizeTConfigParameter_t param, size_t value);
CUfileError_t cuFileSetParameterBool(CUFileBoolConfigParameter_t param, bool value);
CUfileError_t cuFileSetParameterString(CUFileStringConfigParameter_t param, const char *desc_str);
CUfileError_t cuFileSetParameterPosixPoolSlabArray(const size_t *size_values, const size_t *count_values,
						   int len);

/* ---- statistics */

CUfileError_t cuFileSetStatsLevel(int level);
CUfileError_t cuFileGetStatsLevel(int *level);
CUfileError_t cuFileStatsStart(void);
CUfileError_t cuFileStatsStop(void);
CUfileError_t cuFileStatsReset(void);
CUfileError_t cuFileGetStatsL1(CUfileStatsLevel1_t *stats);
CUfileError_t cuFileGetStatsL2(CUfileStatsLevel2_t *stats);
CUfileError_t cuFileGetStatsL3(CUfileStatsLevel3_t *stats);
CUfileError_t cuFileGetBARSizeInKB(int gpuIndex, size_t *barSize);

#ifdef __cplusplus
}
#endif

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif /* GPUMEM_CUFILE_H */
