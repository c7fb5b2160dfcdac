// SPDX-License-Identifier: MIT
/*
 * Functions of CUDA that this library does not have: exported, found by cuGetProcAddress(), and
 * failing.
 *
 * Programs resolve everything that they might use when they start and give up if one name is
 * missing, even if they never call it. So every name is there, and says what a driver without the
 * feature says: NOT_INITIALIZED before cuInit(), then NOT_SUPPORTED. Arguments are not looked at,
 * outputs not touched, nothing is a success.
 *
 * Rules
 *
 *   - symbols.txt has these names with status "absent".
 *   - The definitions are weak: a real one in another file takes the place of one here, whose name
 *     then leaves the list.
 *   - Each has the type that the headers declare. The code behind it takes no arguments and leaves
 *     those that it was passed alone, which calling conventions allow where the caller owns them.
 *   - The first instruction loads a constant: programs that watch allocations overwrite it.
 *
 * P is a function with one form, D one with a _ptds form too, Z one with a _ptsz form.
 */
#include "internal.h"
#include "cudaGL.h"
#include "cudaProfiler.h"

#define ABSENT(P, D, Z)	\
	/* modules, linking, launches */ \
	P(cuFuncGetAttribute) P(cuFuncSetAttribute) P(cuFuncSetBlockShape) \
	P(cuFuncSetCacheConfig) P(cuFuncSetSharedMemConfig) P(cuFuncSetSharedSize) P(cuLaunch) \
	P(cuLaunchGrid) P(cuLaunchGridAsync) Z(cuLaunchKernel) \
	P(cuLinkAddData) P(cuLinkAddData_v2) P(cuLinkAddFile) P(cuLinkAddFile_v2) \
	P(cuLinkComplete) P(cuLinkCreate) P(cuLinkCreate_v2) P(cuLinkDestroy) \
	P(cuModuleGetFunction) P(cuModuleGetGlobal) P(cuModuleGetGlobal_v2) \
	P(cuModuleGetSurfRef) P(cuModuleGetTexRef) P(cuModuleLoad) P(cuModuleLoadData) \
	P(cuModuleLoadDataEx) P(cuModuleUnload) P(cuParamSetSize) P(cuParamSetTexRef) \
	P(cuParamSetf) P(cuParamSeti) P(cuParamSetv) \
	/* textures, surfaces */ \
	P(cuSurfRefGetArray) P(cuSurfRefSetArray) P(cuTexObjectCreate) P(cuTexObjectDestroy) \
	P(cuTexRefCreate) P(cuTexRefDestroy) P(cuTexRefGetAddress) P(cuTexRefGetAddressMode) \
	P(cuTexRefGetAddress_v2) P(cuTexRefGetArray) P(cuTexRefGetFilterMode) \
	P(cuTexRefGetFlags) P(cuTexRefGetFormat) P(cuTexRefSetAddress) P(cuTexRefSetAddress2D) \
	P(cuTexRefSetAddress2D_v2) P(cuTexRefSetAddress2D_v3) P(cuTexRefSetAddressMode) \
	P(cuTexRefSetAddress_v2) P(cuTexRefSetArray) P(cuTexRefSetFilterMode) \
	P(cuTexRefSetFlags) P(cuTexRefSetFormat) \
	/* graphics, OpenGL */ \
	P(cuGLCtxCreate) P(cuGLCtxCreate_v2) P(cuGLGetDevices) P(cuGLGetDevices_v2) P(cuGLInit) \
	P(cuGLMapBufferObject) P(cuGLMapBufferObjectAsync) Z(cuGLMapBufferObjectAsync_v2) \
	D(cuGLMapBufferObject_v2) P(cuGLRegisterBufferObject) P(cuGLSetBufferObjectMapFlags) \
	P(cuGLUnmapBufferObject) P(cuGLUnmapBufferObjectAsync) P(cuGLUnregisterBufferObject) \
	P(cuGraphicsGLRegisterBuffer) P(cuGraphicsGLRegisterImage) Z(cuGraphicsMapResources) \
	P(cuGraphicsResourceGetMappedMipmappedArray) P(cuGraphicsResourceGetMappedPointer) \
	P(cuGraphicsResourceGetMappedPointer_v2) P(cuGraphicsResourceSetMapFlags) \
	P(cuGraphicsResourceSetMapFlags_v2) P(cuGraphicsSubResourceGetMappedArray) \
	Z(cuGraphicsUnmapResources) P(cuGraphicsUnregisterResource) \
	/* objects of other interfaces */ \
	P(cuDestroyExternalMemory) P(cuDestroyExternalSemaphore) \
	P(cuExternalMemoryGetMappedBuffer) P(cuExternalMemoryGetMappedMipmappedArray) \
	P(cuImportExternalMemory) P(cuImportExternalSemaphore) \
	Z(cuSignalExternalSemaphoresAsync) Z(cuWaitExternalSemaphoresAsync) \
	/* managed memory */ \
	Z(cuMemDiscardAndPrefetchBatchAsync) Z(cuMemDiscardBatchAsync) \
	Z(cuMemPrefetchBatchAsync) \
	/* virtual memory, multicast */ \
	P(cuMemAddressFree) P(cuMemAddressReserve) P(cuMemCreate) \
	P(cuMemExportToShareableHandle) P(cuMemGetAccess) P(cuMemGetAllocationGranularity) \
	P(cuMemGetAllocationPropertiesFromHandle) P(cuMemImportFromShareableHandle) P(cuMemMap) \
	Z(cuMemMapArrayAsync) P(cuMemRelease) P(cuMemRetainAllocationHandle) P(cuMemSetAccess) \
	P(cuMemUnmap) \
	/* capture of streams */ \
	Z(cuStreamBeginCaptureToGraph) \
	/* devices, contexts, the rest */ \
	P(cuCtxGetExecAffinity) P(cuCtxResetPersistingL2Cache) \
	P(cuDeviceGetExecAffinitySupport) \
	P(cuDeviceGetHostAtomicCapabilities) P(cuDeviceGetLuid) \
	P(cuDeviceGetNvSciSyncAttributes) P(cuDeviceGetP2PAtomicCapabilities) \
	P(cuDeviceGetProperties) P(cuDeviceGetTexture1DLinearMaxWidth) \
	P(cuFlushGPUDirectRDMAWrites)

#define NUMBER(name)		ABSENT_ ## name,
#define NUMBER_D(name)		NUMBER(name) NUMBER(name ## _ptds)
#define NUMBER_Z(name)		NUMBER(name) NUMBER(name ## _ptsz)

enum { ABSENT_NONE, ABSENT(NUMBER, NUMBER_D, NUMBER_Z) };

#define NAME(name)		[ABSENT_ ## name] = #name,
#define NAME_D(name)		NAME(name) NAME(name ## _ptds)
#define NAME_Z(name)		NAME(name) NAME(name ## _ptsz)

static const char *const names[] = { ABSENT(NAME, NAME_D, NAME_Z) };

static __attribute__((noinline)) CUresult absent(unsigned int number)
{
	CALL_AS(names[number], CUDA_ERROR_NOT_SUPPORTED);
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wattribute-alias"
#endif

#define DEFINE(name)								\
	static __attribute__((used)) CUresult absent_ ## name(void)		\
	{									\
		return absent(ABSENT_ ## name);					\
	}									\
	extern __typeof__(name) name __attribute__((weak, alias("absent_" #name)));
#define DEFINE_D(name)		DEFINE(name) DEFINE(name ## _ptds)
#define DEFINE_Z(name)		DEFINE(name) DEFINE(name ## _ptsz)

ABSENT(DEFINE, DEFINE_D, DEFINE_Z)
