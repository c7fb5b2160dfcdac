// SPDX-License-Identifier: MIT
/*
 * The libraries that decompress for the devices: libdeflate, snappy, LZ4.
 *
 * Owns the table of their functions. Which of them are installed is what a device can decompress. They are
 * loaded when a program asks what a device can decompress, or decompresses, and not before. snappy loads the
 * C++ runtime, so a program that only asks loads snappy and closes it again.
 *
 * Locks: none; pthread_once() for each step.
 */
#include <dlfcn.h>
#include <pthread.h>

#include "core/codec.h"
#include "core/core.h"

#define SNAPPY	"libsnappy.so.1"

struct codec codec;

static pthread_once_t codecs_once = PTHREAD_ONCE_INIT, snappy_once = PTHREAD_ONCE_INIT,
	probe_once = PTHREAD_ONCE_INIT;
static unsigned int codecs;		/* bits of those found, without snappy; constant once loaded */
static bool snappy_there;		/* constant once probed */

static void *library(const char *name)
{
	return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

#define FIND(lib, place, name)	((codec.place = (__typeof__(codec.place))dlsym(lib, name)) != NULL)

static void codecs_load(void)
{
	void *lib = library("libdeflate.so.0");

	if (lib && FIND(lib, deflate_alloc, "libdeflate_alloc_decompressor") &&
	    FIND(lib, deflate, "libdeflate_deflate_decompress"))
		codecs |= CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE;
	lib = library("liblz4.so.1");
	if (lib && FIND(lib, lz4, "LZ4_decompress_safe"))
		codecs |= CU_MEM_DECOMPRESS_ALGORITHM_LZ4;
}

/* snappy loads the C++ runtime, which stays: so only an operation that needs snappy loads it for good. */
static void snappy_load(void)
{
	void *lib = library(SNAPPY);

	if (lib && !FIND(lib, snappy, "snappy_uncompress"))
		dlclose(lib);
}

static void snappy_probe(void)
{
	void *lib = library(SNAPPY);

	if (!lib)
		return;
	snappy_there = dlsym(lib, "snappy_uncompress") != NULL;
	dlclose(lib);
}

bool codec_load(unsigned int algorithm)
{
	pthread_once(&codecs_once, codecs_load);
	if (algorithm != CU_MEM_DECOMPRESS_ALGORITHM_SNAPPY)
		return codecs & algorithm;
	pthread_once(&snappy_once, snappy_load);
	return codec.snappy;
}

bool codec_any(void)
{
	pthread_once(&codecs_once, codecs_load);
	if (codecs)
		return true;
	pthread_once(&probe_once, snappy_probe);
	return snappy_there;
}

unsigned int codec_algorithms(void)
{
	pthread_once(&codecs_once, codecs_load);
	pthread_once(&probe_once, snappy_probe);
	return codecs | (snappy_there ? CU_MEM_DECOMPRESS_ALGORITHM_SNAPPY : 0);
}

unsigned int codec_length(void)
{
	return codec_any() ? CODEC_LENGTH_MOST : 0;
}
