// SPDX-License-Identifier: GPL-2.0
/*
 * The answers of libnvcuvid.so.1 and libnvidia-encode.so.1, without a device.
 *
 * usage: video_check DIRECTORY		the directory with the libraries
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

static int number, failed;

static void check(int good, const char *what)
{
	number++;
	failed += !good;
	printf("%sok %d - %s\n", good ? "" : "not ", number, what);
}

static void *open_library(const char *dir, const char *name)
{
	char path[4096];
	void *library;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	check(library != NULL, name);
	if (!library) {
		printf("# %s\n%d passed, %d failed, 0 skipped\n", dlerror(), number - failed, failed);
		exit(1);
	}
	return library;
}

/* The names that FFmpeg and GStreamer look up, and refuse to do without. */
static const char *const decoder_names[] = {
	"cuvidGetDecoderCaps", "cuvidCreateDecoder", "cuvidDestroyDecoder", "cuvidDecodePicture",
	"cuvidGetDecodeStatus", "cuvidReconfigureDecoder", "cuvidMapVideoFrame", "cuvidMapVideoFrame64",
	"cuvidUnmapVideoFrame", "cuvidUnmapVideoFrame64", "cuvidCtxLockCreate", "cuvidCtxLockDestroy",
	"cuvidCtxLock", "cuvidCtxUnlock", "cuvidCreateVideoParser", "cuvidParseVideoData",
	"cuvidDestroyVideoParser", "cuvidCreateVideoSource", "cuvidCreateVideoSourceW",
	"cuvidDestroyVideoSource", "cuvidSetVideoSourceState", "cuvidGetVideoSourceState",
	"cuvidGetSourceVideoFormat", "cuvidGetSourceAudioFormat",
};

static void decoder(void *library)
{
	CUresult (*caps)(void *) = dlsym(library, "cuvidGetDecoderCaps");
	CUresult (*create)(void *, void *) = dlsym(library, "cuvidCreateDecoder");
	CUresult (*parser)(void *, void *) = dlsym(library, "cuvidCreateVideoParser");
	CUresult (*destroy)(void *) = dlsym(library, "cuvidDestroyDecoder");
	CUresult (*lock_create)(void *, CUcontext) = dlsym(library, "cuvidCtxLockCreate");
	CUresult (*lock)(void *, unsigned int) = dlsym(library, "cuvidCtxLock");
	CUresult (*unlock)(void *, unsigned int) = dlsym(library, "cuvidCtxUnlock");
	CUresult (*lock_destroy)(void *) = dlsym(library, "cuvidCtxLockDestroy");
	unsigned char question[88];
	void *handle = question, *guard = NULL;
	unsigned int i, absent = 0, written = 0;

	for (i = 0; i < sizeof(decoder_names) / sizeof(decoder_names[0]); i++)
		if (!dlsym(library, decoder_names[i])) {
			printf("# no %s\n", decoder_names[i]);
			absent++;
		}
	check(!absent, "every name of the decoder's library");
	if (absent)
		return;
	memset(question, 0xff, sizeof(question));
	check(caps(question) == CUDA_SUCCESS, "the capabilities of a codec");
	for (i = 0; i < 24; i++)
		written += question[i] != 0xff;
	check(!written, "the question stays as it was");
	for (i = 24; i < sizeof(question); i++)
		written += question[i] != 0;
	check(!written, "no codec is supported");
	check(caps(NULL) == CUDA_ERROR_INVALID_VALUE, "no question");
	check(create(&handle, question) == CUDA_ERROR_NOT_SUPPORTED && handle == question,
	      "no decoder is created");
	check(parser(&handle, question) == CUDA_ERROR_NOT_SUPPORTED && handle == question,
	      "no parser is created");
	check(create(NULL, question) == CUDA_ERROR_INVALID_VALUE, "no place for a decoder");
	check(destroy(question) == CUDA_ERROR_INVALID_HANDLE, "every decoder is an invalid handle");
	check(lock_create(&guard, (CUcontext)question) == CUDA_SUCCESS && guard &&
	      lock(guard, 0) == CUDA_SUCCESS && lock(guard, 0) == CUDA_SUCCESS &&
	      unlock(guard, 0) == CUDA_SUCCESS && unlock(guard, 0) == CUDA_SUCCESS &&
	      lock_destroy(guard) == CUDA_SUCCESS, "a context lock, taken twice");
	check(lock_create(&guard, NULL) == CUDA_ERROR_INVALID_VALUE &&
	      lock(NULL, 0) == CUDA_ERROR_INVALID_VALUE, "a lock of no context");
}

/* NV_ENCODE_API_FUNCTION_LIST */
struct list {
	uint32_t version, reserved;
	void *function[318];
};

static void encoder(void *library)
{
	int (*version)(uint32_t *) = dlsym(library, "NvEncodeAPIGetMaxSupportedVersion");
	int (*create)(struct list *) = dlsym(library, "NvEncodeAPICreateInstance");
	static struct list list;
	uint32_t newest = 0, ask[400] = { 0 };
	void *session = ask;

	check(version && create, "every name of the encoder's library");
	if (!version || !create)
		return;
	check(version(&newest) == 0 && newest >> 4 >= 12, "the newest version");
	check(version(NULL) == 6 && create(NULL) == 6, "NULL is INVALID_PTR");
	check(create(&list) == 15 && !list.function[0], "a list without a version is INVALID_VERSION");
	/* As programs of versions 8.1 and 12.1 write it. */
	list.version = 8 | 1u << 24 | 2u << 16 | 7u << 28;
	check(create(&list) == 0, "a list of version 8.1");
	list.version = 12 | 1u << 24 | 2u << 16 | 7u << 28;
	check(create(&list) == 0 && list.function[0] && list.function[29], "a list of version 12.1");
	/* nvEncOpenEncodeSessionEx() and nvEncDestroyEncoder(). */
	check(((int (*)(void *, void **))list.function[29])(ask, &session) == 2 && session == ask,
	      "a session is UNSUPPORTED_DEVICE");
	check(((int (*)(void *))list.function[27])(NULL) == 6, "no session is INVALID_PTR");
	check(list.function[37] && strlen(((const char *(*)(void *))list.function[37])(NULL)),
	      "the last error has a text");
}

int main(int argc, char **argv)
{
	const char *dir = argc > 1 ? argv[1] : "build/compat";

	decoder(open_library(dir, "libnvcuvid.so.1"));
	encoder(open_library(dir, "libnvidia-encode.so.1"));
	check(!dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), "neither loads the driver");
	printf("1..%d\n%d passed, %d failed, 0 skipped\n", number, number - failed, failed);
	return failed != 0;
}
