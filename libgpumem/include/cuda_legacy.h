/* SPDX-License-Identifier: MIT */
/*
 * The first forms of functions whose names now mean a later form.
 *
 * Libraries still export them, and old programs and cuGetProcAddress() with an old version still
 * reach them. CUdeviceptr_v1 and sizes are 32 bits wide, so the memory functions among them can
 * serve only the lowest 4 GiB of the address space. cuda.h includes this file if
 * __CUDA_API_VERSION_INTERNAL is defined. No name is mapped then: cuMemAlloc means the function of
 * this file.
 */
#ifndef GPUMEM_CUDA_LEGACY_H
#define GPUMEM_CUDA_LEGACY_H

/* Addresses of the first API. */
typedef unsigned int CUdeviceptr_v1;

/* CUDA_MEMCPY2D of the first API. */
typedef struct CUDA_MEMCPY2D_v1_st {
	unsigned int srcXInBytes;
	unsigned int srcY;
	CUmemorytype srcMemoryType;
	const void *srcHost;
	CUdeviceptr_v1 srcDevice;
	CUarray srcArray;
	unsigned int srcPitch;
	unsigned int dstXInBytes;
	unsigned int dstY;
	CUmemorytype dstMemoryType;
	void *dstHost;
	CUdeviceptr_v1 dstDevice;
	CUarray dstArray;
	unsigned int dstPitch;
	unsigned int WidthInBytes;
	unsigned int Height;
} CUDA_MEMCPY2D_v1;

/* CUDA_MEMCPY3D of the first API. */
typedef struct CUDA_MEMCPY3D_v1_st {
	unsigned int srcXInBytes;
	unsigned int srcY;
	unsigned int srcZ;
	unsigned int srcLOD;
	CUmemorytype srcMemoryType;
	const void *srcHost;
	CUdeviceptr_v1 srcDevice;
	CUarray srcArray;
	void *reserved0;
	unsigned int srcPitch;
	unsigned int srcHeight;
	unsigned int dstXInBytes;
	unsigned int dstY;
	unsigned int dstZ;
	unsigned int dstLOD;
	CUmemorytype dstMemoryType;
	void *dstHost;
	CUdeviceptr_v1 dstDevice;
	CUarray dstArray;
	void *reserved1;
	unsigned int dstPitch;
	unsigned int dstHeight;
	unsigned int WidthInBytes;
	unsigned int Height;
	unsigned int Depth;
} CUDA_MEMCPY3D_v1;

/* CUDA_ARRAY_DESCRIPTOR of the first API. */
typedef struct CUDA_ARRAY_DESCRIPTOR_v1_st {
	unsigned int Width;
	unsigned int Height;
	CUarray_format Format;
	unsigned int NumChannels;
} CUDA_ARRAY_DESCRIPTOR_v1;

/* CUDA_ARRAY3D_DESCRIPTOR of the first API. */
typedef struct CUDA_ARRAY3D_DESCRIPTOR_v1_st {
	unsigned int Width;
	unsigned int Height;
	unsigned int Depth;
	CUarray_format Format;
	unsigned int NumChannels;
	unsigned int Flags;
} CUDA_ARRAY3D_DESCRIPTOR_v1;

/* Functions with the signature of the later form. */
CUresult CUDAAPI cuCtxDestroy(CUcontext ctx);
CUresult CUDAAPI cuCtxPopCurrent(CUcontext *ctx);
CUresult CUDAAPI cuCtxPushCurrent(CUcontext ctx);
CUresult CUDAAPI cuDeviceGetUuid(CUuuid *uuid, CUdevice device);
CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device);
CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice device);
CUresult CUDAAPI cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags);
CUresult CUDAAPI cuEventDestroy(CUevent event);
CUresult CUDAAPI cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end);
CUresult CUDAAPI cuStreamDestroy(CUstream stream);
CUresult CUDAAPI cuIpcOpenMemHandle(CUdeviceptr *ptr, CUipcMemHandle handle, unsigned int flags);
CUresult CUDAAPI cuMemHostRegister(void *ptr, size_t bytes, unsigned int flags);
CUresult CUDAAPI cuGraphicsResourceSetMapFlags(CUgraphicsResource resource, unsigned int flags);
CUresult CUDAAPI cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t size,
			       const char *name, unsigned int num_options, CUjit_option *options,
			       void **option_values);
CUresult CUDAAPI cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path,
			       unsigned int num_options, CUjit_option *options,
			       void **option_values);
CUresult CUDAAPI cuLinkCreate(unsigned int num_options, CUjit_option *options, void **option_values,
			      CUlinkState *state_out);
CU_PTSZ(cuStreamWaitValue32, (CUstream stream, CUdeviceptr addr, cuuint32_t value,
			      unsigned int flags));
CU_PTSZ(cuStreamWaitValue64, (CUstream stream, CUdeviceptr addr, cuuint64_t value,
			      unsigned int flags));
CU_PTSZ(cuStreamWriteValue32, (CUstream stream, CUdeviceptr addr, cuuint32_t value,
			       unsigned int flags));
CU_PTSZ(cuStreamWriteValue64, (CUstream stream, CUdeviceptr addr, cuuint64_t value,
			       unsigned int flags));
CU_PTSZ(cuStreamBatchMemOp, (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *ops,
			     unsigned int flags));

/* Functions with fewer or other arguments than the later form. */
CUresult CUDAAPI cuCtxCreate(CUcontext *ctx, unsigned int flags, CUdevice device);
CUresult CUDAAPI cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice device);
CUresult CUDAAPI cuCtxCreate_v3(CUcontext *ctx, CUexecAffinityParam *params, int param_count,
				unsigned int flags, CUdevice device);
CUresult CUDAAPI cuGetProcAddress(const char *name, void **function, int cuda_version,
				  cuuint64_t flags);
CUresult CUDAAPI cuMemAdvise(CUdeviceptr ptr, size_t count, CUmem_advise advice, CUdevice device);
CU_PTSZ(cuMemPrefetchAsync, (CUdeviceptr ptr, size_t count, CUdevice dst_device, CUstream stream));
CU_PTSZ(cuMemcpyBatchAsync, (CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
			     CUmemcpyAttributes *attrs, size_t *attr_indices, size_t attr_count,
			     size_t *fail_index, CUstream stream));
CU_PTSZ(cuMemcpy3DBatchAsync, (size_t op_count, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *fail_index,
			       unsigned long long flags, CUstream stream));
CU_PTSZ(cuStreamBeginCapture, (CUstream stream));
CU_PTSZ(cuStreamGetCaptureInfo, (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id));
CU_PTSZ(cuStreamGetCaptureInfo_v2, (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
				    CUgraph *graph, const CUgraphNode **dependencies,
				    size_t *dependency_count));
CU_PTSZ(cuStreamUpdateCaptureDependencies, (CUstream stream, CUgraphNode *dependencies,
					    size_t dependency_count, unsigned int flags));

/* 32 bit sizes and addresses: memory. */
CUresult CUDAAPI cuDeviceTotalMem(unsigned int *bytes, CUdevice device);
CUresult CUDAAPI cuMemGetInfo(unsigned int *free_bytes, unsigned int *total_bytes);
CUresult CUDAAPI cuMemAlloc(CUdeviceptr_v1 *ptr, unsigned int bytes);
CUresult CUDAAPI cuMemAllocPitch(CUdeviceptr_v1 *ptr, unsigned int *pitch, unsigned int width,
				 unsigned int height, unsigned int element_bytes);
CUresult CUDAAPI cuMemFree(CUdeviceptr_v1 ptr);
CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr_v1 *base, unsigned int *size, CUdeviceptr_v1 ptr);
CUresult CUDAAPI cuMemAllocHost(void **ptr, unsigned int bytes);
CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr_v1 *ptr, void *host_ptr, unsigned int flags);
CUresult CUDAAPI cuModuleGetGlobal(CUdeviceptr_v1 *ptr, unsigned int *bytes, CUmodule module,
				   const char *name);
CUresult CUDAAPI cuGraphicsResourceGetMappedPointer(CUdeviceptr_v1 *ptr, unsigned int *size,
		CUgraphicsResource resource);

/* 32 bit sizes and addresses: copies and fills. */
CUresult CUDAAPI cuMemcpyAtoA(CUarray dst_array, unsigned int dst_offset, CUarray src_array,
			      unsigned int src_offset, unsigned int bytes);
CUresult CUDAAPI cuMemcpyAtoD(CUdeviceptr_v1 dst, CUarray src_array, unsigned int src_offset,
			      unsigned int bytes);
CUresult CUDAAPI cuMemcpyAtoH(void *dst_host, CUarray src_array, unsigned int src_offset,
			      unsigned int bytes);
CUresult CUDAAPI cuMemcpyDtoA(CUarray dst_array, unsigned int dst_offset, CUdeviceptr_v1 src,
			      unsigned int bytes);
CUresult CUDAAPI cuMemcpyDtoD(CUdeviceptr_v1 dst, CUdeviceptr_v1 src, unsigned int bytes);
CUresult CUDAAPI cuMemcpyDtoH(void *dst_host, CUdeviceptr_v1 src, unsigned int bytes);
CUresult CUDAAPI cuMemcpyHtoA(CUarray dst_array, unsigned int dst_offset, const void *src_host,
			      unsigned int bytes);
CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr_v1 dst, const void *src_host, unsigned int bytes);
CUresult CUDAAPI cuMemcpyAtoHAsync(void *dst_host, CUarray src_array, unsigned int src_offset,
				   unsigned int bytes, CUstream stream);
CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr_v1 dst, CUdeviceptr_v1 src, unsigned int bytes,
				   CUstream stream);
CUresult CUDAAPI cuMemcpyDtoHAsync(void *dst_host, CUdeviceptr_v1 src, unsigned int bytes,
				   CUstream stream);
CUresult CUDAAPI cuMemcpyHtoAAsync(CUarray dst_array, unsigned int dst_offset, const void *src_host,
				   unsigned int bytes, CUstream stream);
CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr_v1 dst, const void *src_host, unsigned int bytes,
				   CUstream stream);
CUresult CUDAAPI cuMemcpy2D(const CUDA_MEMCPY2D_v1 *copy);
CUresult CUDAAPI cuMemcpy2DAsync(const CUDA_MEMCPY2D_v1 *copy, CUstream stream);
CUresult CUDAAPI cuMemcpy2DUnaligned(const CUDA_MEMCPY2D_v1 *copy);
CUresult CUDAAPI cuMemcpy3D(const CUDA_MEMCPY3D_v1 *copy);
CUresult CUDAAPI cuMemcpy3DAsync(const CUDA_MEMCPY3D_v1 *copy, CUstream stream);
CUresult CUDAAPI cuMemsetD8(CUdeviceptr_v1 dst, unsigned char value, unsigned int count);
CUresult CUDAAPI cuMemsetD16(CUdeviceptr_v1 dst, unsigned short value, unsigned int count);
CUresult CUDAAPI cuMemsetD2D8(CUdeviceptr_v1 dst, unsigned int dst_pitch, unsigned char value,
			      unsigned int width, unsigned int height);
CUresult CUDAAPI cuMemsetD2D16(CUdeviceptr_v1 dst, unsigned int dst_pitch, unsigned short value,
			       unsigned int width, unsigned int height);
CUresult CUDAAPI cuMemsetD2D32(CUdeviceptr_v1 dst, unsigned int dst_pitch, unsigned int value,
			       unsigned int width, unsigned int height);
CUresult CUDAAPI cuMemsetD32(CUdeviceptr_v1 dst, unsigned int value, unsigned int count);

/* 32 bit sizes and addresses: arrays and textures. */
CUresult CUDAAPI cuArray3DCreate(CUarray *handle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *descriptor);
CUresult CUDAAPI cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR_v1 *descriptor, CUarray array);
CUresult CUDAAPI cuArrayCreate(CUarray *handle, const CUDA_ARRAY_DESCRIPTOR_v1 *descriptor);
CUresult CUDAAPI cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR_v1 *descriptor, CUarray array);
CUresult CUDAAPI cuTexRefGetAddress(CUdeviceptr_v1 *ptr, CUtexref tex_ref);
CUresult CUDAAPI cuTexRefSetAddress(unsigned int *byte_offset, CUtexref tex_ref, CUdeviceptr_v1 ptr,
				    unsigned int bytes);
CUresult CUDAAPI cuTexRefSetAddress2D(CUtexref tex_ref, const CUDA_ARRAY_DESCRIPTOR_v1 *desc,
				      CUdeviceptr_v1 ptr, unsigned int pitch);
CUresult CUDAAPI cuTexRefSetAddress2D_v2(CUtexref tex_ref, const CUDA_ARRAY_DESCRIPTOR *desc,
					 CUdeviceptr ptr, size_t pitch);

#endif /* GPUMEM_CUDA_LEGACY_H */
