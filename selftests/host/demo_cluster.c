// SPDX-License-Identifier: GPL-2.0
/*
 * Faults for demo_cluster.sh, preloaded into the demo.  GPUMEM_DEMO_FAULT names the fault that
 * happens, once:
 *
 *   byte   a byte of a frame changes before its checksum is computed
 *   copy   the engine copies a part of a frame twice
 *   fill   the engine fills a byte of a frame's slot
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* Larger than anything but a frame. */
#define LARGE	(200 * 1024)

static bool now(const char *fault)
{
	const char *want = getenv("GPUMEM_DEMO_FAULT");
	static bool done;

	if (done || !want || strcmp(want, fault))
		return false;
	done = true;
	return true;
}

#define NEXT(name)	((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

uLong crc32(uLong crc, const Bytef *p, uInt bytes)
{
	if (bytes >= LARGE && now("byte"))
		*((Bytef *)p + bytes / 2) ^= 1;
	return NEXT(crc32)(crc, p, bytes);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream)
{
	if (now("copy"))
		NEXT(cuMemcpy2DAsync_v2)(copy, stream);
	return NEXT(cuMemcpy2DAsync_v2)(copy, stream);
}

CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr p, size_t bytes,
				       CUmemRangeHandleType type, unsigned long long flags)
{
	if (now("fill"))
		cuMemsetD8(p, 1, 1);
	return NEXT(cuMemGetHandleForAddressRange)(handle, p, bytes, type, flags);
}
