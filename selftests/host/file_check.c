// SPDX-License-Identifier: GPL-2.0
/*
 * <cufile.h> alone: layouts and values as in NVIDIA's header, by the compiler. Then the answers of the library in a
 * process that has no device: file_check.sh runs the program where CUDA_VISIBLE_DEVICES hides them.
 */
#include <cufile.h>

#include <stddef.h>
#include <stdio.h>

#define IS(what, value)		_Static_assert((what) == (value), #what)

IS(sizeof(CUfileError_t), 8);
IS(sizeof(CUfileDescr_t), 24);
IS(offsetof(CUfileDescr_t, handle), 8);
IS(offsetof(CUfileDescr_t, fs_ops), 16);
IS(sizeof(CUfileFSOps_t), 40);
IS(sizeof(CUfileDrvProps_t), 56);
IS(offsetof(CUfileDrvProps_t, nvfs.max_direct_io_size), 16);
IS(offsetof(CUfileDrvProps_t, fflags), 32);
IS(offsetof(CUfileDrvProps_t, max_batch_io_timeout_msecs), 52);
IS(sizeof(CUfileIOParams_t), 64);
IS(offsetof(CUfileIOParams_t, u), 8);
IS(offsetof(CUfileIOParams_t, fh), 40);
IS(offsetof(CUfileIOParams_t, cookie), 56);
IS(sizeof(CUfileIOEvents_t), 24);
IS(offsetof(CUfileIOEvents_t, ret), 16);
IS(sizeof(CUfileStatsLevel1_t), 512);
IS(sizeof(CUfileStatsLevel2_t), 1024);
IS(sizeof(CUfilePerGpuStats_t), 248);
IS(sizeof(CUfileStatsLevel3_t), 5000);
IS(CU_FILE_DRIVER_NOT_INITIALIZED, 5001);
IS(CU_FILE_INVALID_VALUE, 5022);
IS(CU_FILE_BATCH_FULL, 5037);
IS(CU_FILE_NVFS_SETUP_ERROR, 5033);
IS(CU_FILE_IO_MAX_ERROR, 5050);
IS(CUFILE_FAILED, 0x40);
IS(CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS, 11);
IS(CUFILE_PARAM_STREAM_MEMOPS_BYPASS, 11);
IS(CU_FILE_SCATEFS_SUPPORTED, 12);

static int failed;

static void check(int good, const char *what)
{
	failed += !good;
	if (!good)
		printf("wrong: %s\n", what);
}

int main(void)
{
	CUfileDescr_t descr = { .type = CU_FILE_HANDLE_TYPE_OPAQUE_FD, .handle.fd = 0 };
	CUfileHandle_t handle;
	CUfileDrvProps_t props;
	CUfileError_t result;
	int version = 0;
	char bytes[16];

	check(!cuFileGetVersion(&version).err && version == 1150, "version");
	check(cuFileUseCount() == 0, "use count");
	check(cuFileRead(NULL, bytes, 1, 0, 0) == -CU_FILE_DRIVER_NOT_INITIALIZED, "read while closed");
	check(cuFileDriverClose().err == CU_FILE_DRIVER_NOT_INITIALIZED, "close while closed");
	if (!cuInit(0))
		return !!failed;
	result = cuFileDriverOpen();
	check(result.err == CU_FILE_CUDA_DRIVER_ERROR && result.cu_err == CUDA_ERROR_NO_DEVICE, "open");
	check(cuFileHandleRegister(&handle, &descr).err == CU_FILE_CUDA_DRIVER_ERROR, "register");
	check(cuFileBufRegister(bytes, 1, 0).err == CU_FILE_CUDA_DRIVER_ERROR, "register a buffer");
	check(cuFileDriverGetProperties(&props).err == CU_FILE_CUDA_DRIVER_ERROR, "properties");
	check(cuFileUseCount() == 0, "use count afterwards");
	return !!failed;
}
