/* SPDX-License-Identifier: MIT */
/*
 * The CUDA runtime API, version 13.3, as far as libgpumem serves it: devices, memory, arrays, copies,
 * streams, events, pools, inter-process handles, external memory and semaphores, and errors.
 *
 * Source and binary compatible with CUDA: names, values, layouts and signatures are the
 * interface's own. With CUDA_API_PER_THREAD_DEFAULT_STREAM defined, functions that can use a
 * default stream mean their _ptds and _ptsz forms, where stream 0 is the calling thread's own.
 *
 * A program does not initialize the library: the first call that needs a device starts the driver,
 * and the first call that needs a context makes the current device's primary context current in the
 * thread. A context that the program made current with the driver API is used as it is.
 *
 * Every function returns a cudaError_t and, if that is an error, leaves it for cudaGetLastError().
 * Outputs are written before the call returns. Asynchronous functions take a stream and return when
 * the work is queued. Every function may also return an error of earlier asynchronous work. All
 * functions may be called from any thread. A comment at each function's implementation describes
 * the function.
 *
 * Functions of CUDA that libgpumem does not have are exported but not declared.
 */
#ifndef __CUDA_RUNTIME_API_H__
#define __CUDA_RUNTIME_API_H__

/* The API version that these headers describe: 1000 * major + 10 * minor. */
#define CUDART_VERSION		13030

#include "host_defines.h"
#include "builtin_types.h"

/* Arguments that may be left out in C++. */
#ifndef __dv
#ifdef __cplusplus
#define __dv(value)		= value
#else
#define __dv(value)
#endif
#endif

/* A function and the form of it in which stream 0 is the calling thread's own. */
#define CUDART_PTDS(name, args)	\
	cudaError_t CUDARTAPI name args; cudaError_t CUDARTAPI name ## _ptds args
#define CUDART_PTSZ(name, args)	\
	cudaError_t CUDARTAPI name args; cudaError_t CUDARTAPI name ## _ptsz args

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Errors: the calling thread's last error, and names and texts of the codes. */
cudaError_t CUDARTAPI cudaGetLastError(void);
cudaError_t CUDARTAPI cudaPeekAtLastError(void);
const char *CUDARTAPI cudaGetErrorName(cudaError_t error);
const char *CUDARTAPI cudaGetErrorString(cudaError_t error);

/* Versions, and addresses of the driver's functions. */
cudaError_t CUDARTAPI cudaDriverGetVersion(int *version);
cudaError_t CUDARTAPI cudaRuntimeGetVersion(int *version);
CUDART_PTSZ(cudaGetDriverEntryPoint, (const char *symbol, void **function, unsigned long long flags,
		enum cudaDriverEntryPointQueryResult *status __dv(NULL)));
CUDART_PTSZ(cudaGetDriverEntryPointByVersion, (const char *symbol, void **function,
		unsigned int cuda_version, unsigned long long flags,
		enum cudaDriverEntryPointQueryResult *status __dv(NULL)));
cudaError_t CUDARTAPI cudaGetExportTable(const void **table, const cudaUUID_t *table_id);

/* Devices: ordinals from 0 to the count minus 1. */
cudaError_t CUDARTAPI cudaGetDeviceCount(int *count);
cudaError_t CUDARTAPI cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device);
cudaError_t CUDARTAPI cudaChooseDevice(int *device, const struct cudaDeviceProp *prop);
cudaError_t CUDARTAPI cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device);
cudaError_t CUDARTAPI cudaDeviceGetPCIBusId(char *bus_id, int size, int device);
cudaError_t CUDARTAPI cudaDeviceGetByPCIBusId(int *device, const char *bus_id);
cudaError_t CUDARTAPI cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attribute,
						int src_device, int dst_device);
cudaError_t CUDARTAPI cudaDeviceRegisterAsyncNotification(int device, cudaAsyncCallback function,
		void *user_data, cudaAsyncCallbackHandle_t *callback);
cudaError_t CUDARTAPI cudaDeviceUnregisterAsyncNotification(int device,
		cudaAsyncCallbackHandle_t callback);

/* The calling thread's device, and its primary context. */
cudaError_t CUDARTAPI cudaSetDevice(int device);
cudaError_t CUDARTAPI cudaGetDevice(int *device);
cudaError_t CUDARTAPI cudaInitDevice(int device, unsigned int device_flags, unsigned int flags);
cudaError_t CUDARTAPI cudaSetValidDevices(int *devices, int count);
cudaError_t CUDARTAPI cudaSetDeviceFlags(unsigned int flags);
cudaError_t CUDARTAPI cudaGetDeviceFlags(unsigned int *flags);
cudaError_t CUDARTAPI cudaDeviceReset(void);
cudaError_t CUDARTAPI cudaDeviceSynchronize(void);
cudaError_t CUDARTAPI cudaDeviceGetLimit(size_t *value, enum cudaLimit limit);
cudaError_t CUDARTAPI cudaDeviceSetLimit(enum cudaLimit limit, size_t value);
cudaError_t CUDARTAPI cudaDeviceGetCacheConfig(enum cudaFuncCache *config);
cudaError_t CUDARTAPI cudaDeviceSetCacheConfig(enum cudaFuncCache config);
cudaError_t CUDARTAPI cudaDeviceGetSharedMemConfig(enum cudaSharedMemConfig *config);
cudaError_t CUDARTAPI cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig config);
cudaError_t CUDARTAPI cudaDeviceGetStreamPriorityRange(int *least_priority, int *greatest_priority);
cudaError_t CUDARTAPI cudaDeviceFlushGPUDirectRDMAWrites(
		enum cudaFlushGPUDirectRDMAWritesTarget target,
		enum cudaFlushGPUDirectRDMAWritesScope scope);

/* Peer access, from the current device to another. */
cudaError_t CUDARTAPI cudaDeviceCanAccessPeer(int *can_access_peer, int device, int peer);
cudaError_t CUDARTAPI cudaDeviceEnablePeerAccess(int peer, unsigned int flags);
cudaError_t CUDARTAPI cudaDeviceDisablePeerAccess(int peer);

/* Device memory, host memory and managed memory. */
cudaError_t CUDARTAPI cudaMalloc(void **ptr, size_t size);
cudaError_t CUDARTAPI cudaMallocPitch(void **ptr, size_t *pitch, size_t width, size_t height);
cudaError_t CUDARTAPI cudaMalloc3D(struct cudaPitchedPtr *ptr, struct cudaExtent extent);
cudaError_t CUDARTAPI cudaMallocManaged(void **ptr, size_t size,
					unsigned int flags __dv(cudaMemAttachGlobal));
cudaError_t CUDARTAPI cudaFree(void *ptr);
cudaError_t CUDARTAPI cudaMemGetInfo(size_t *free_bytes, size_t *total);
cudaError_t CUDARTAPI cudaMallocHost(void **ptr, size_t size);
cudaError_t CUDARTAPI cudaHostAlloc(void **ptr, size_t size, unsigned int flags);
cudaError_t CUDARTAPI cudaFreeHost(void *ptr);
cudaError_t CUDARTAPI cudaHostRegister(void *ptr, size_t size, unsigned int flags);
cudaError_t CUDARTAPI cudaHostUnregister(void *ptr);
cudaError_t CUDARTAPI cudaHostGetDevicePointer(void **device_ptr, void *ptr, unsigned int flags);
cudaError_t CUDARTAPI cudaHostGetFlags(unsigned int *flags, void *ptr);
cudaError_t CUDARTAPI cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
					       const void *ptr);
cudaError_t CUDARTAPI cudaMemAdvise(const void *ptr, size_t count, enum cudaMemoryAdvise advice,
				    struct cudaMemLocation location);
CUDART_PTSZ(cudaMemPrefetchAsync, (const void *ptr, size_t count, struct cudaMemLocation location,
				   unsigned int flags, cudaStream_t stream __dv(0)));
CUDART_PTSZ(cudaMemPrefetchBatchAsync, (void **ptrs, size_t *sizes, size_t count,
					struct cudaMemLocation *locations,
					size_t *location_indices, size_t location_count,
					unsigned long long flags, cudaStream_t stream));
CUDART_PTSZ(cudaMemDiscardBatchAsync, (void **ptrs, size_t *sizes, size_t count,
				       unsigned long long flags, cudaStream_t stream));
CUDART_PTSZ(cudaMemDiscardAndPrefetchBatchAsync, (void **ptrs, size_t *sizes, size_t count,
						  struct cudaMemLocation *locations,
						  size_t *location_indices, size_t location_count,
						  unsigned long long flags, cudaStream_t stream));
cudaError_t CUDARTAPI cudaMemRangeGetAttribute(void *data, size_t size,
					       enum cudaMemRangeAttribute attribute,
					       const void *ptr, size_t count);
cudaError_t CUDARTAPI cudaMemRangeGetAttributes(void **data, size_t *sizes,
						enum cudaMemRangeAttribute *attributes,
						size_t attribute_count, const void *ptr,
						size_t count);

/* Copies. A copy without a stream argument returns when the caller may access both ends again. */
CUDART_PTDS(cudaMemcpy, (void *dst, const void *src, size_t count, enum cudaMemcpyKind kind));
CUDART_PTDS(cudaMemcpy2D, (void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
			   size_t width, size_t height, enum cudaMemcpyKind kind));
CUDART_PTDS(cudaMemcpy3D, (const struct cudaMemcpy3DParms *copy));
CUDART_PTDS(cudaMemcpy3DPeer, (const struct cudaMemcpy3DPeerParms *copy));
cudaError_t CUDARTAPI cudaMemcpyPeer(void *dst, int dst_device, const void *src, int src_device,
				     size_t count);
CUDART_PTSZ(cudaMemcpyAsync, (void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
			      cudaStream_t stream __dv(0)));
CUDART_PTSZ(cudaMemcpy2DAsync, (void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
				size_t width, size_t height, enum cudaMemcpyKind kind,
				cudaStream_t stream __dv(0)));
CUDART_PTSZ(cudaMemcpy3DAsync, (const struct cudaMemcpy3DParms *copy,
				cudaStream_t stream __dv(0)));
CUDART_PTSZ(cudaMemcpy3DPeerAsync, (const struct cudaMemcpy3DPeerParms *copy,
				    cudaStream_t stream __dv(0)));
cudaError_t CUDARTAPI cudaMemcpyPeerAsync(void *dst, int dst_device, const void *src,
					  int src_device, size_t count,
					  cudaStream_t stream __dv(0));

/*
 * Arrays. Widths and extents are elements, except in the copies of rows below, which have bytes. A copy of a box
 * (cudaMemcpy3D) has elements if an array takes part, but positions at addresses are bytes.
 */
cudaError_t CUDARTAPI cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
				      size_t width, size_t height __dv(0),
				      unsigned int flags __dv(0));
cudaError_t CUDARTAPI cudaMalloc3DArray(cudaArray_t *array,
					const struct cudaChannelFormatDesc *desc,
					struct cudaExtent extent, unsigned int flags __dv(0));
cudaError_t CUDARTAPI cudaMallocMipmappedArray(cudaMipmappedArray_t *mipmap,
					       const struct cudaChannelFormatDesc *desc,
					       struct cudaExtent extent, unsigned int levels,
					       unsigned int flags __dv(0));
cudaError_t CUDARTAPI cudaGetMipmappedArrayLevel(cudaArray_t *level_array,
						 cudaMipmappedArray_const_t mipmap,
						 unsigned int level);
cudaError_t CUDARTAPI cudaFreeArray(cudaArray_t array);
cudaError_t CUDARTAPI cudaFreeMipmappedArray(cudaMipmappedArray_t mipmap);
cudaError_t CUDARTAPI cudaArrayGetInfo(struct cudaChannelFormatDesc *desc,
				       struct cudaExtent *extent, unsigned int *flags,
				       cudaArray_t array);
cudaError_t CUDARTAPI cudaArrayGetPlane(cudaArray_t *plane, cudaArray_t array, unsigned int index);
cudaError_t CUDARTAPI cudaArrayGetMemoryRequirements(struct cudaArrayMemoryRequirements *req,
						     cudaArray_t array, int device);
cudaError_t CUDARTAPI cudaMipmappedArrayGetMemoryRequirements(
		struct cudaArrayMemoryRequirements *req, cudaMipmappedArray_t mipmap, int device);
cudaError_t CUDARTAPI cudaArrayGetSparseProperties(struct cudaArraySparseProperties *props,
						   cudaArray_t array);
cudaError_t CUDARTAPI cudaMipmappedArrayGetSparseProperties(struct cudaArraySparseProperties *props,
							    cudaMipmappedArray_t mipmap);
cudaError_t CUDARTAPI cudaGetChannelDesc(struct cudaChannelFormatDesc *desc,
					 cudaArray_const_t array);
CUDART_PTDS(cudaMemcpy2DToArray, (cudaArray_t dst, size_t x, size_t y, const void *src,
				  size_t src_pitch, size_t width, size_t height,
				  enum cudaMemcpyKind kind));
CUDART_PTDS(cudaMemcpy2DFromArray, (void *dst, size_t dst_pitch, cudaArray_const_t src, size_t x,
				    size_t y, size_t width, size_t height,
				    enum cudaMemcpyKind kind));
CUDART_PTDS(cudaMemcpy2DArrayToArray, (cudaArray_t dst, size_t dst_x, size_t dst_y,
				       cudaArray_const_t src, size_t src_x, size_t src_y,
				       size_t width, size_t height,
				       enum cudaMemcpyKind kind __dv(cudaMemcpyDeviceToDevice)));
CUDART_PTSZ(cudaMemcpy2DToArrayAsync, (cudaArray_t dst, size_t x, size_t y, const void *src,
				       size_t src_pitch, size_t width, size_t height,
				       enum cudaMemcpyKind kind, cudaStream_t stream __dv(0)));
CUDART_PTSZ(cudaMemcpy2DFromArrayAsync, (void *dst, size_t dst_pitch, cudaArray_const_t src,
					 size_t x, size_t y, size_t width, size_t height,
					 enum cudaMemcpyKind kind, cudaStream_t stream __dv(0)));
/* Deprecated in CUDA: copies of bytes that continue in the array's next row. */
CUDART_PTDS(cudaMemcpyToArray, (cudaArray_t dst, size_t x, size_t y, const void *src, size_t count,
				enum cudaMemcpyKind kind));
CUDART_PTDS(cudaMemcpyFromArray, (void *dst, cudaArray_const_t src, size_t x, size_t y,
				  size_t count, enum cudaMemcpyKind kind));
CUDART_PTDS(cudaMemcpyArrayToArray, (cudaArray_t dst, size_t dst_x, size_t dst_y,
				     cudaArray_const_t src, size_t src_x, size_t src_y,
				     size_t count,
				     enum cudaMemcpyKind kind __dv(cudaMemcpyDeviceToDevice)));
CUDART_PTSZ(cudaMemcpyToArrayAsync, (cudaArray_t dst, size_t x, size_t y, const void *src,
				     size_t count, enum cudaMemcpyKind kind,
				     cudaStream_t stream __dv(0)));
CUDART_PTSZ(cudaMemcpyFromArrayAsync, (void *dst, cudaArray_const_t src, size_t x, size_t y,
				       size_t count, enum cudaMemcpyKind kind,
				       cudaStream_t stream __dv(0)));

/* Copies in batches. The copies of a batch have no order among themselves. */
CUDART_PTSZ(cudaMemcpyBatchAsync, (void *const *dsts, const void *const *srcs, const size_t *sizes,
				   size_t count, struct cudaMemcpyAttributes *attrs,
				   size_t *attr_indices, size_t attr_count, cudaStream_t stream));
CUDART_PTSZ(cudaMemcpy3DBatchAsync, (size_t op_count, struct cudaMemcpy3DBatchOp *ops,
				     unsigned long long flags, cudaStream_t stream));
CUDART_PTSZ(cudaMemcpyWithAttributesAsync, (void *dst, const void *src, size_t size,
					    struct cudaMemcpyAttributes *attr,
					    cudaStream_t stream));
CUDART_PTSZ(cudaMemcpy3DWithAttributesAsync, (struct cudaMemcpy3DBatchOp *op,
					      unsigned long long flags, cudaStream_t stream));

/* External memory and semaphores. */
cudaError_t CUDARTAPI cudaImportExternalMemory(cudaExternalMemory_t *memory,
					       const struct cudaExternalMemoryHandleDesc *desc);
cudaError_t CUDARTAPI cudaExternalMemoryGetMappedBuffer(void **ptr, cudaExternalMemory_t memory,
		const struct cudaExternalMemoryBufferDesc *desc);
cudaError_t CUDARTAPI cudaExternalMemoryGetMappedMipmappedArray(cudaMipmappedArray_t *mipmap,
		cudaExternalMemory_t memory,
		const struct cudaExternalMemoryMipmappedArrayDesc *desc);
cudaError_t CUDARTAPI cudaDestroyExternalMemory(cudaExternalMemory_t memory);
cudaError_t CUDARTAPI cudaImportExternalSemaphore(cudaExternalSemaphore_t *semaphore,
		const struct cudaExternalSemaphoreHandleDesc *desc);
cudaError_t CUDARTAPI cudaDestroyExternalSemaphore(cudaExternalSemaphore_t semaphore);
CUDART_PTSZ(cudaSignalExternalSemaphoresAsync, (const cudaExternalSemaphore_t *semaphores,
		const struct cudaExternalSemaphoreSignalParams *params, unsigned int count,
		cudaStream_t stream __dv(0)));
CUDART_PTSZ(cudaWaitExternalSemaphoresAsync, (const cudaExternalSemaphore_t *semaphores,
		const struct cudaExternalSemaphoreWaitParams *params, unsigned int count,
		cudaStream_t stream __dv(0)));

/* Fills with a byte; counts and widths are bytes. */
CUDART_PTDS(cudaMemset, (void *ptr, int value, size_t count));
CUDART_PTDS(cudaMemset2D, (void *ptr, size_t pitch, int value, size_t width, size_t height));
CUDART_PTDS(cudaMemset3D, (struct cudaPitchedPtr ptr, int value, struct cudaExtent extent));
CUDART_PTSZ(cudaMemsetAsync, (void *ptr, int value, size_t count, cudaStream_t stream __dv(0)));
CUDART_PTSZ(cudaMemset2DAsync, (void *ptr, size_t pitch, int value, size_t width, size_t height,
				cudaStream_t stream __dv(0)));
CUDART_PTSZ(cudaMemset3DAsync, (struct cudaPitchedPtr ptr, int value, struct cudaExtent extent,
				cudaStream_t stream __dv(0)));

/* Allocation in stream order, and the pools that serve it. */
CUDART_PTSZ(cudaMallocAsync, (void **ptr, size_t size, cudaStream_t stream));
CUDART_PTSZ(cudaMallocFromPoolAsync, (void **ptr, size_t size, cudaMemPool_t pool,
				      cudaStream_t stream));
CUDART_PTSZ(cudaFreeAsync, (void *ptr, cudaStream_t stream));
cudaError_t CUDARTAPI cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *props);
cudaError_t CUDARTAPI cudaMemPoolDestroy(cudaMemPool_t pool);
cudaError_t CUDARTAPI cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep_bytes);
cudaError_t CUDARTAPI cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute,
					      void *value);
cudaError_t CUDARTAPI cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute,
					      void *value);
cudaError_t CUDARTAPI cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t pool,
					   struct cudaMemLocation *location);
cudaError_t CUDARTAPI cudaMemPoolSetAccess(cudaMemPool_t pool,
					   const struct cudaMemAccessDesc *access, size_t count);
cudaError_t CUDARTAPI cudaMemPoolExportToShareableHandle(void *handle, cudaMemPool_t pool,
		enum cudaMemAllocationHandleType handle_type, unsigned int flags);
cudaError_t CUDARTAPI cudaMemPoolImportFromShareableHandle(cudaMemPool_t *pool, void *handle,
		enum cudaMemAllocationHandleType handle_type, unsigned int flags);
cudaError_t CUDARTAPI cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *share_data,
					       void *ptr);
cudaError_t CUDARTAPI cudaMemPoolImportPointer(void **ptr, cudaMemPool_t pool,
					       struct cudaMemPoolPtrExportData *share_data);
cudaError_t CUDARTAPI cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device);
cudaError_t CUDARTAPI cudaDeviceGetMemPool(cudaMemPool_t *pool, int device);
cudaError_t CUDARTAPI cudaDeviceSetMemPool(int device, cudaMemPool_t pool);
cudaError_t CUDARTAPI cudaMemGetDefaultMemPool(cudaMemPool_t *pool,
					       struct cudaMemLocation *location,
					       enum cudaMemAllocationType type);
cudaError_t CUDARTAPI cudaMemGetMemPool(cudaMemPool_t *pool, struct cudaMemLocation *location,
					enum cudaMemAllocationType type);
cudaError_t CUDARTAPI cudaMemSetMemPool(struct cudaMemLocation *location,
					enum cudaMemAllocationType type, cudaMemPool_t pool);

/* Streams. */
cudaError_t CUDARTAPI cudaStreamCreate(cudaStream_t *stream);
cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags);
cudaError_t CUDARTAPI cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags,
						   int priority);
cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t stream);
CUDART_PTSZ(cudaStreamQuery, (cudaStream_t stream));
CUDART_PTSZ(cudaStreamSynchronize, (cudaStream_t stream));
CUDART_PTSZ(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event,
				  unsigned int flags __dv(0)));
CUDART_PTSZ(cudaStreamGetDevice, (cudaStream_t stream, int *device));
CUDART_PTSZ(cudaStreamGetFlags, (cudaStream_t stream, unsigned int *flags));
CUDART_PTSZ(cudaStreamGetId, (cudaStream_t stream, unsigned long long *stream_id));
CUDART_PTSZ(cudaStreamGetPriority, (cudaStream_t stream, int *priority));
CUDART_PTSZ(cudaStreamCopyAttributes, (cudaStream_t dst, cudaStream_t src));
CUDART_PTSZ(cudaStreamGetAttribute, (cudaStream_t stream, cudaLaunchAttributeID attribute,
				     cudaLaunchAttributeValue *value));
CUDART_PTSZ(cudaStreamSetAttribute, (cudaStream_t stream, cudaLaunchAttributeID attribute,
				     const cudaLaunchAttributeValue *value));
CUDART_PTSZ(cudaStreamAddCallback, (cudaStream_t stream, cudaStreamCallback_t callback,
				    void *user_data, unsigned int flags));
CUDART_PTSZ(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t function, void *user_data));
CUDART_PTSZ(cudaLaunchHostFunc_v2, (cudaStream_t stream, cudaHostFn_t function, void *user_data,
				    unsigned int sync_mode));
CUDART_PTSZ(cudaStreamAttachMemAsync, (cudaStream_t stream, void *ptr, size_t length __dv(0),
				       unsigned int flags __dv(cudaMemAttachSingle)));

/* Recording a stream's work as a graph. */
CUDART_PTSZ(cudaStreamBeginCapture, (cudaStream_t stream, enum cudaStreamCaptureMode mode));
CUDART_PTSZ(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t *graph));
CUDART_PTSZ(cudaStreamIsCapturing, (cudaStream_t stream, enum cudaStreamCaptureStatus *status));
CUDART_PTSZ(cudaStreamGetCaptureInfo, (cudaStream_t stream, enum cudaStreamCaptureStatus *status,
				       unsigned long long *id __dv(0), cudaGraph_t *graph __dv(0),
				       const cudaGraphNode_t **dependencies __dv(0),
				       const cudaGraphEdgeData **edge_data __dv(0),
				       size_t *dependency_count __dv(0)));
CUDART_PTSZ(cudaStreamUpdateCaptureDependencies, (cudaStream_t stream,
						  cudaGraphNode_t *dependencies,
						  const cudaGraphEdgeData *dependency_data,
						  size_t dependency_count,
						  unsigned int flags __dv(0)));
cudaError_t CUDARTAPI cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode);

/* Events: points in streams. Times are milliseconds. */
cudaError_t CUDARTAPI cudaEventCreate(cudaEvent_t *event);
cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags);
cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event);
CUDART_PTSZ(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream __dv(0)));
CUDART_PTSZ(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream __dv(0),
				       unsigned int flags __dv(0)));
cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t event);
cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t event);
cudaError_t CUDARTAPI cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end);

/* Memory and events of other processes. */
cudaError_t CUDARTAPI cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *ptr);
cudaError_t CUDARTAPI cudaIpcOpenMemHandle(void **ptr, cudaIpcMemHandle_t handle,
					   unsigned int flags);
cudaError_t CUDARTAPI cudaIpcCloseMemHandle(void *ptr);
cudaError_t CUDARTAPI cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event);
cudaError_t CUDARTAPI cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle);

/* A description of an array's elements; bits of each component. */
struct cudaChannelFormatDesc CUDARTAPI cudaCreateChannelDesc(int x, int y, int z, int w,
							     enum cudaChannelFormatKind f);

#ifdef __cplusplus
}
#endif

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#undef CUDART_PTDS
#undef CUDART_PTSZ

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#include "cuda_rt_names.h"
#endif

#endif /* __CUDA_RUNTIME_API_H__ */
