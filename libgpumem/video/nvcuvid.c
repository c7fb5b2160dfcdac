// SPDX-License-Identifier: MIT
/*
 * libnvcuvid.so.1: the library of the video decoder, for devices that have no decoder.
 *
 * Programs load this library beside libcuda.so.1 and look up every name that they know. If one is
 * absent, GStreamer does not register its elements that copy, and FFmpeg refuses the device. The
 * library answers that no codec is supported. It creates no decoder, parser or source, so a function
 * that takes one of these always gets an invalid handle.
 *
 * Context locks need no decoder: programs create one for each context that threads share. A lock belongs
 * to the program, which frees it by cuvidCtxLockDestroy().
 *
 * The library has no state beside the locks, and does not call the driver.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#define EXPORT	__attribute__((visibility("default")))

struct video_lock {
	pthread_mutex_t mutex;		/* recursive, as programs expect */
	CUcontext ctx;
};

/* CUVIDDECODECAPS: a question about a codec, and the answer. */
struct video_caps {
	int codec, chroma;
	unsigned int bits_minus_8;
	unsigned int reserved1[3];
	/* Written by the library from here on. */
	unsigned char supported, decoders;
	unsigned short formats;
	unsigned int max_width, max_height, max_macroblocks;
	unsigned short min_width, min_height;
	unsigned char histogram, counter_bits;
	unsigned short histogram_bins;
	unsigned int reserved3[10];
};
_Static_assert(sizeof(struct video_caps) == 88, "CUVIDDECODECAPS has 88 bytes");

EXPORT CUresult cuvidGetDecoderCaps(struct video_caps *caps)
{
	if (!caps)
		return CUDA_ERROR_INVALID_VALUE;
	memset(&caps->supported, 0, sizeof(*caps) - offsetof(struct video_caps, supported));
	return CUDA_SUCCESS;
}

EXPORT CUresult cuvidCtxLockCreate(struct video_lock **out, CUcontext ctx)
{
	struct video_lock *lock;
	pthread_mutexattr_t attr;

	if (!out || !ctx)
		return CUDA_ERROR_INVALID_VALUE;
	lock = malloc(sizeof(*lock));
	if (!lock)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&lock->mutex, &attr);
	pthread_mutexattr_destroy(&attr);
	lock->ctx = ctx;
	*out = lock;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuvidCtxLockDestroy(struct video_lock *lock)
{
	if (!lock)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_destroy(&lock->mutex);
	free(lock);
	return CUDA_SUCCESS;
}

/* @flags: reserved. */
EXPORT CUresult cuvidCtxLock(struct video_lock *lock, unsigned int flags)
{
	(void)flags;
	if (!lock)
		return CUDA_ERROR_INVALID_VALUE;
	return pthread_mutex_lock(&lock->mutex) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

EXPORT CUresult cuvidCtxUnlock(struct video_lock *lock, unsigned int flags)
{
	(void)flags;
	if (!lock)
		return CUDA_ERROR_INVALID_VALUE;
	return pthread_mutex_unlock(&lock->mutex) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

/*
 * The functions below read their first argument only, and are declared with that one. They create
 * nothing and do not write *out.
 */
#define CREATES(name)							\
	EXPORT CUresult name(void *out)					\
	{								\
		return out ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE; \
	}
CREATES(cuvidCreateDecoder)
CREATES(cuvidCreateVideoParser)
CREATES(cuvidCreateVideoSource)
CREATES(cuvidCreateVideoSourceW)

/* No decoder, parser or source exists, so each handle is invalid. */
#define USES(name)							\
	EXPORT CUresult name(void *handle)				\
	{								\
		return handle ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE; \
	}
USES(cuvidDestroyDecoder)
USES(cuvidDecodePicture)
USES(cuvidGetDecodeStatus)
USES(cuvidReconfigureDecoder)
USES(cuvidMapVideoFrame)
USES(cuvidMapVideoFrame64)
USES(cuvidUnmapVideoFrame)
USES(cuvidUnmapVideoFrame64)
USES(cuvidParseVideoData)
USES(cuvidDestroyVideoParser)
USES(cuvidDestroyVideoSource)
USES(cuvidSetVideoSourceState)
USES(cuvidGetSourceVideoFormat)
USES(cuvidGetSourceAudioFormat)

/* The result is the state, and -1 is cudaVideoState_Error. */
EXPORT int cuvidGetVideoSourceState(void *source)
{
	(void)source;
	return -1;
}
