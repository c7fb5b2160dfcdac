/* SPDX-License-Identifier: MIT */
/*
 * The recorder: writes the calls of the driver API to a trace (format.h), and replays nothing.
 *
 * Two libraries have it. libgpumem-record.so.1 is loaded by gpumem's driver library and sees calls through the tap
 * (front_tap.c). libgpumem-record-preload.so.1 is preloaded and stands in front of any libcuda.so.1 (front_preload.c).
 * Both report a call with call_begin() and call_end().
 *
 * Only the outermost call of a thread is recorded. A child that fork() made records nothing.
 *
 * Locks, in this order: the one of pools (sample.c), the one of the file (file.c).
 */
#ifndef GPUMEM_RECORD_RECORD_H
#define GPUMEM_RECORD_RECORD_H

#include "record/parameter.h"

/* ---- recorder.c */

/* Start, once. @real gives the driver's own function of a name, or NULL. False: GPUMEM_RECORD asks for no trace. */
bool recorder_start(enum trace_front front, void *(*real)(const char *name));
/*
 * A call begins. @values: as many as the function has parameters, or NULL if they are not known. @frame: the caller's
 * stack frame. False: the call is not recorded, and call_end() must not be called.
 */
bool call_begin(uint32_t function, const uint64_t *values, const void *frame);
/* The call that call_begin() began returns. */
void call_end(uint32_t result);
/* Record a call without its arguments. */
void call_bare(uint32_t function, uint64_t begin, uint32_t result);
/* Nanoseconds of the trace. */
uint64_t time_now(void);

/* ---- file.c: the trace's file */

/* The header's time 0 is @start of CLOCK_REALTIME. */
void file_start(enum trace_front front, uint64_t start, void *(*real)(const char *name));
/* Append a whole record, whose size is in it. The first one creates the file. @function: of a call, or NO_FUNCTION. */
void file_append(const struct trace_record *record, uint32_t function);
/* The process ends: cut the file to what was written. */
void file_finish(void);

/* ---- sample.c: memory in use */

void sample_start(void *(*real)(const char *name));
/* Take a sample between two calls of the calling thread, if it is time for one. */
void sample_take(uint32_t thread);
/* Whether a sample was taken. */
bool sample_taken(void);
/* A pool was found, or is about to be destroyed. */
void pool_add(uint64_t pool);
void pool_remove(uint64_t pool);

#endif /* GPUMEM_RECORD_RECORD_H */
