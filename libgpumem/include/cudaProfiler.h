/* SPDX-License-Identifier: MIT */
/*
 * The driver API's chapter "Profiler Control": start and stop of a profiler, for programs that mark the
 * part to be profiled. gpumem has no profiler.
 */
#ifndef CUDAPROFILER_H
#define CUDAPROFILER_H

#include "cuda.h"

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The format of a profile. */
typedef enum CUoutput_mode_enum {
	CU_OUT_KEY_VALUE_PAIR	= 0,
	CU_OUT_CSV		= 1
} CUoutput_mode;

/* The library does not keep pointers to the strings. */
CUresult CUDAAPI cuProfilerInitialize(const char *config_file, const char *output_file,
				      CUoutput_mode output_mode);
CUresult CUDAAPI cuProfilerStart(void);
CUresult CUDAAPI cuProfilerStop(void);

#ifdef __cplusplus
}
#endif

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif /* CUDAPROFILER_H */
