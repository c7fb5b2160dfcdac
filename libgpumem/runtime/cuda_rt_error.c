// SPDX-License-Identifier: MIT
/*
 * The runtime API's errors: the calling thread's last one, names and texts.
 *
 * Owns the last error of each thread and one constant table with every code of cudaError, in the
 * order of the codes: the lookup is binary. The texts are those of NVIDIA's library, because
 * programs print and compare them; selftests/golden/rt_error_strings.tsv has the recorded ones, and
 * a host test compares.
 *
 * Rules: every function that fails stores its result as the calling thread's last error, which stays
 * until the thread calls cudaGetLastError(). cudaErrorNotReady is an answer, not an error, and is not
 * stored. An error of work that failed is sticky: cudaGetLastError() does not clear it as long as the
 * current context reports the same error.
 *
 * A code has the driver's number if the driver has such a code. The runtime lacks a few of the
 * driver's codes; they become cudaErrorUnknown.
 */
#include "runtime/runtime.h"

static __thread cudaError_t last_error __attribute__((tls_model("initial-exec")));

static const struct error_text {
	cudaError_t code;
	const char *name;
	const char *text;
} error_texts[] = {
#define E(code, text) { code, #code, text }
	E(cudaSuccess, "no error"),
	E(cudaErrorInvalidValue, "invalid argument"),
	E(cudaErrorMemoryAllocation, "out of memory"),
	E(cudaErrorInitializationError, "initialization error"),
	E(cudaErrorCudartUnloading, "driver shutting down"),
	E(cudaErrorProfilerDisabled, "profiler disabled while using external profiling tool"),
	E(cudaErrorProfilerNotInitialized,
	  "profiler not initialized: call cudaProfilerInitialize()"),
	E(cudaErrorProfilerAlreadyStarted, "profiler already started"),
	E(cudaErrorProfilerAlreadyStopped, "profiler already stopped"),
	E(cudaErrorInvalidConfiguration, "invalid configuration argument"),
	E(cudaErrorVersionTranslation,
	  "driver returned graph node parameters that this runtime cannot translate"),
	E(cudaErrorInvalidPitchValue, "invalid pitch argument"),
	E(cudaErrorInvalidSymbol, "invalid device symbol"),
	E(cudaErrorInvalidHostPointer, "invalid host pointer"),
	E(cudaErrorInvalidDevicePointer, "invalid device pointer"),
	E(cudaErrorInvalidTexture, "invalid texture reference"),
	E(cudaErrorInvalidTextureBinding, "texture is not bound to a pointer"),
	E(cudaErrorInvalidChannelDescriptor, "invalid channel descriptor"),
	E(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
	E(cudaErrorAddressOfConstant, "invalid address of constant"),
	E(cudaErrorTextureFetchFailed, "fetch from texture failed"),
	E(cudaErrorTextureNotBound, "cannot fetch from a texture that is not bound"),
	E(cudaErrorSynchronizationError, "incorrect use of __syncthreads()"),
	E(cudaErrorInvalidFilterSetting, "linear filtering not supported for non-float type"),
	E(cudaErrorInvalidNormSetting, "read as normalized float not supported for data type"),
	E(cudaErrorMixedDeviceExecution,
	  "device emulation mode and device execution mode cannot be mixed"),
	E(cudaErrorNotYetImplemented, "feature not yet implemented"),
	E(cudaErrorMemoryValueTooLarge, "memory size or pointer value too large to fit in 32 bit"),
	E(cudaErrorStubLibrary, "CUDA driver is a stub library"),
	E(cudaErrorInsufficientDriver,
	  "CUDA driver version is insufficient for CUDA runtime version"),
	E(cudaErrorCallRequiresNewerDriver,
	  "API call is not supported in the installed CUDA driver"),
	E(cudaErrorInvalidSurface, "invalid surface reference"),
	E(cudaErrorDuplicateVariableName, "duplicate global variable looked up by string name"),
	E(cudaErrorDuplicateTextureName, "duplicate texture looked up by string name"),
	E(cudaErrorDuplicateSurfaceName, "duplicate surface looked up by string name"),
	E(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable"),
	E(cudaErrorIncompatibleDriverContext, "incompatible driver context"),
	E(cudaErrorMissingConfiguration, "__global__ function call is not configured"),
	E(cudaErrorPriorLaunchFailure, "unspecified launch failure in prior launch"),
	E(cudaErrorLaunchMaxDepthExceeded, "launch would exceed maximum depth of nested launches"),
	E(cudaErrorLaunchFileScopedTex,
	  "launch failed because kernel uses unsupported, file-scoped textures (texture "
	  "objects are supported)"),
	E(cudaErrorLaunchFileScopedSurf,
	  "launch failed because kernel uses unsupported, file-scoped surfaces (surface "
	  "objects are supported)"),
	E(cudaErrorSyncDepthExceeded,
	  "cudaDeviceSynchronize failed because caller's grid depth exceeds "
	  "cudaLimitDevRuntimeSyncDepth"),
	E(cudaErrorLaunchPendingCountExceeded,
	  "launch failed because launch would exceed cudaLimitDevRuntimePendingLaunchCount"),
	E(cudaErrorInvalidDeviceFunction, "invalid device function"),
	E(cudaErrorNoDevice, "no CUDA-capable device is detected"),
	E(cudaErrorInvalidDevice, "invalid device ordinal"),
	E(cudaErrorDeviceNotLicensed, "device doesn't have valid Grid license"),
	E(cudaErrorSoftwareValidityNotEstablished, "integrity checks failed"),
	E(cudaErrorStartupFailure, "startup failure in cuda runtime"),
	E(cudaErrorInvalidKernelImage, "device kernel image is invalid"),
	E(cudaErrorDeviceUninitialized, "invalid device context"),
	E(cudaErrorMapBufferObjectFailed, "mapping of buffer object failed"),
	E(cudaErrorUnmapBufferObjectFailed, "unmapping of buffer object failed"),
	E(cudaErrorArrayIsMapped, "array is mapped"),
	E(cudaErrorAlreadyMapped, "resource already mapped"),
	E(cudaErrorNoKernelImageForDevice,
	  "no kernel image is available for execution on the device"),
	E(cudaErrorAlreadyAcquired, "resource already acquired"),
	E(cudaErrorNotMapped, "resource not mapped"),
	E(cudaErrorNotMappedAsArray, "resource not mapped as array"),
	E(cudaErrorNotMappedAsPointer, "resource not mapped as pointer"),
	E(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
	E(cudaErrorUnsupportedLimit, "limit is not supported on this architecture"),
	E(cudaErrorDeviceAlreadyInUse,
	  "exclusive-thread device already in use by a different thread"),
	E(cudaErrorPeerAccessUnsupported, "peer access is not supported between these two devices"),
	E(cudaErrorInvalidPtx, "a PTX JIT compilation failed"),
	E(cudaErrorInvalidGraphicsContext, "invalid OpenGL or DirectX context"),
	E(cudaErrorNvlinkUncorrectable, "uncorrectable NVLink error detected during the execution"),
	E(cudaErrorJitCompilerNotFound, "PTX JIT compiler library not found"),
	E(cudaErrorUnsupportedPtxVersion,
	  "the provided PTX was compiled with an unsupported toolchain."),
	E(cudaErrorJitCompilationDisabled, "PTX JIT compilation was disabled"),
	E(cudaErrorUnsupportedExecAffinity, "the provided execution affinity is not supported"),
	E(cudaErrorUnsupportedDevSideSync,
	  "the provided PTX contains unsupported call to cudaDeviceSynchronize"),
	E(cudaErrorContained, "Invalid access of peer GPU memory over nvlink or a hardware error"),
	E(cudaErrorInvalidSource, "device kernel image is invalid"),
	E(cudaErrorFileNotFound, "file not found"),
	E(cudaErrorSharedObjectSymbolNotFound, "shared object symbol not found"),
	E(cudaErrorSharedObjectInitFailed, "shared object initialization failed"),
	E(cudaErrorOperatingSystem, "OS call failed or operation not supported on this OS"),
	E(cudaErrorInvalidResourceHandle, "invalid resource handle"),
	E(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
	E(cudaErrorLossyQuery, "attempted introspection would be semantically lossy"),
	E(cudaErrorSymbolNotFound, "named symbol not found"),
	E(cudaErrorNotReady, "device not ready"),
	E(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
	E(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
	E(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
	E(cudaErrorLaunchIncompatibleTexturing, "launch uses incompatible texturing mode"),
	E(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
	E(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
	E(cudaErrorSetOnActiveProcess, "cannot set while device is active in this process"),
	E(cudaErrorContextIsDestroyed, "context is destroyed"),
	E(cudaErrorAssert, "device-side assert triggered"),
	E(cudaErrorTooManyPeers, "peer mapping resources exhausted"),
	E(cudaErrorHostMemoryAlreadyRegistered,
	  "part or all of the requested memory range is already mapped"),
	E(cudaErrorHostMemoryNotRegistered,
	  "pointer does not correspond to a registered memory region"),
	E(cudaErrorHardwareStackError, "hardware stack error"),
	E(cudaErrorIllegalInstruction, "an illegal instruction was encountered"),
	E(cudaErrorMisalignedAddress, "misaligned address"),
	E(cudaErrorInvalidAddressSpace, "operation not supported on global/shared address space"),
	E(cudaErrorInvalidPc, "invalid program counter"),
	E(cudaErrorLaunchFailure, "unspecified launch failure"),
	E(cudaErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch"),
	E(cudaErrorTensorMemoryLeak, "tensor memory not completely freed"),
	E(cudaErrorNotPermitted, "operation not permitted"),
	E(cudaErrorNotSupported, "operation not supported"),
	E(cudaErrorSystemNotReady, "system not yet initialized"),
	E(cudaErrorSystemDriverMismatch,
	  "system has unsupported display driver / cuda driver combination"),
	E(cudaErrorCompatNotSupportedOnDevice,
	  "forward compatibility was attempted on non supported HW"),
	E(cudaErrorMpsConnectionFailed,
	  "MPS client failed to connect to the MPS control daemon or the MPS server"),
	E(cudaErrorMpsRpcFailure,
	  "the remote procedural call between the MPS server and the MPS client failed"),
	E(cudaErrorMpsServerNotReady, "MPS server is not ready to accept new MPS client requests"),
	E(cudaErrorMpsMaxClientsReached,
	  "the hardware resources required to create MPS client have been exhausted"),
	E(cudaErrorMpsMaxConnectionsReached,
	  "the hardware resources required to support device connections have been exhausted"),
	E(cudaErrorMpsClientTerminated, "the MPS client has been terminated by the server"),
	E(cudaErrorCdpNotSupported,
	  "is using CUDA Dynamic Parallelism, but the current configuration, like MPS, "
	  "does not support it"),
	E(cudaErrorCdpVersionMismatch,
	  "unsupported interaction between different versions of CUDA Dynamic Parallelism"),
	E(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
	E(cudaErrorStreamCaptureInvalidated,
	  "operation failed due to a previous error during capture"),
	E(cudaErrorStreamCaptureMerge,
	  "operation would result in a merge of separate capture sequences"),
	E(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
	E(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
	E(cudaErrorStreamCaptureIsolation,
	  "dependency created on uncaptured work in another stream"),
	E(cudaErrorStreamCaptureImplicit,
	  "operation would make the legacy stream depend on a capturing blocking stream"),
	E(cudaErrorCapturedEvent,
	  "operation not permitted on an event last recorded in a capturing stream"),
	E(cudaErrorStreamCaptureWrongThread,
	  "attempt to terminate a thread-local capture sequence from another thread"),
	E(cudaErrorTimeout, "wait operation timed out"),
	E(cudaErrorGraphExecUpdateFailure,
	  "the graph update was not performed because it included changes which violated "
	  "constraints specific to instantiated graph update"),
	E(cudaErrorExternalDevice, "an async error has occured in external entity outside of CUDA"),
	E(cudaErrorInvalidClusterSize,
	  "a kernel launch error has occurred due to cluster misconfiguration"),
	E(cudaErrorFunctionNotLoaded,
	  "the function handle is not loaded when calling an API that requires a loaded function"),
	E(cudaErrorInvalidResourceType,
	  "one or more resources passed in are not valid resource types for the operation"),
	E(cudaErrorInvalidResourceConfiguration,
	  "one or more resources are insufficient or non-applicable for the operation"),
	/* Documented, not measured, as version translation: no runtime was asked for the texts. */
	E(cudaErrorStreamDetached, "operation not permitted on a detached stream"),
	E(cudaErrorGraphRecaptureFailure, "the graph recapture failed and was terminated"),
	E(cudaErrorUnknown, "unknown error"),
	E(cudaErrorApiFailureBase, "api failure base"),
#undef E
};

static const struct error_text *error_find(int code)
{
	size_t low = 0, high = sizeof(error_texts) / sizeof(error_texts[0]);

	while (low < high) {
		size_t middle = (low + high) / 2;

		if ((int)error_texts[middle].code == code)
			return &error_texts[middle];
		if ((int)error_texts[middle].code < code)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

cudaError_t rt_code_of(CUresult result)
{
	return error_find(result) ? (cudaError_t)result : cudaErrorUnknown;
}

cudaError_t rt_fail(cudaError_t error)
{
	if (error != cudaErrorNotReady)
		last_error = error;
	return error;
}

/* Whether an error comes from work that failed on the device. */
static bool of_context(cudaError_t error)
{
	switch (error) {
	case cudaErrorECCUncorrectable:
	case cudaErrorNvlinkUncorrectable:
	case cudaErrorContained:
	case cudaErrorIllegalAddress:
	case cudaErrorLaunchTimeout:
	case cudaErrorAssert:
	case cudaErrorHardwareStackError:
	case cudaErrorIllegalInstruction:
	case cudaErrorMisalignedAddress:
	case cudaErrorInvalidAddressSpace:
	case cudaErrorInvalidPc:
	case cudaErrorLaunchFailure:
		return true;
	default:
		return false;
	}
}

/**
 * cudaGetLastError - return and clear the calling thread's last error
 *
 * Return: the last error; cudaSuccess if no function failed since the last call. An error of the context stays.
 */
cudaError_t cudaGetLastError(void)
{
	cudaError_t error = last_error;

	if (rt_likely(!of_context(error)) ||
	    rt_code(cuStreamQuery(CU_STREAM_LEGACY)) != error)
		last_error = cudaSuccess;
	return error;
}

/** cudaPeekAtLastError - return the calling thread's last error without clearing it */
cudaError_t cudaPeekAtLastError(void)
{
	return last_error;
}

static const char unknown[] = "unrecognized error code";

/** cudaGetErrorName - the enumerator's spelling; "unrecognized error code" if there is none */
const char *cudaGetErrorName(cudaError_t error)
{
	const struct error_text *t = error_find(error);

	return t ? t->name : unknown;
}

/** cudaGetErrorString - a phrase for people; "unrecognized error code" if there is none */
const char *cudaGetErrorString(cudaError_t error)
{
	const struct error_text *t = error_find(error);

	return t ? t->text : unknown;
}
