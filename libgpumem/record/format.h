/* SPDX-License-Identifier: MIT */
/*
 * The format of recorded traces, as Documentation/record.rst describes it.
 *
 * A trace is a header and records. All numbers are little-endian. A record begins at a multiple of 8 bytes, and its
 * size includes the padding. The recorder writes the size last, so a record that was not completed has the size 0, and
 * ends the trace. A reader skips records of types that it does not know.
 */
#ifndef GPUMEM_RECORD_FORMAT_H
#define GPUMEM_RECORD_FORMAT_H

#include <stdint.h>

#define TRACE_MAGIC	0x0a43524d454d5047ull	/* "GPMEMRC\n" */
#define TRACE_VERSION	1u
#define TRACE_ARGUMENTS	12u			/* of one call, at most */

struct trace_header {
	uint64_t magic;
	uint32_t version;
	uint32_t size;			/* of this header; later versions may add members */
	uint32_t pid;
	uint32_t front;			/* enum trace_front */
	uint64_t start;			/* CLOCK_REALTIME in ns, at time 0 of the trace */
	uint32_t driver;		/* cuDriverGetVersion(), or 0 */
	uint32_t reserved;
};

enum trace_front {
	TRACE_TAP = 1,			/* loaded by gpumem's driver library */
	TRACE_PRELOAD,			/* LD_PRELOAD */
};

enum trace_type {
	TRACE_FUNCTION = 1,
	TRACE_CALL,
	TRACE_SAMPLE,
};

struct trace_record {
	uint32_t size;			/* of the whole record; a multiple of 8 */
	uint32_t type;			/* enum trace_type */
};

/* A function, before its first call. Two texts follow, each with a zero: its name and its parameters (calls.h). */
struct trace_function {
	struct trace_record record;
	uint32_t function;		/* the number that calls have: 0, 1, 2, ... */
	uint32_t count;			/* of parameters */
};

/* A call. The values of its parameters follow, 8 bytes each, then struct trace_data. */
struct trace_call {
	struct trace_record record;
	uint32_t function;
	uint32_t thread;		/* 0, 1, 2, ... in the order of their first calls */
	uint32_t result;		/* CUresult */
	uint32_t count;			/* of values */
	uint64_t begin, end;		/* ns */
};

/* What is behind a pointer: before the call of an input, after it of an output. @bytes bytes follow, padded to 8. */
struct trace_data {
	uint32_t argument;		/* the index of the parameter */
	uint32_t bytes;
};

/* Memory in use. Pools follow. */
struct trace_sample {
	struct trace_record record;
	uint32_t thread;		/* that took the sample, between two calls of its own */
	uint32_t device;		/* of the thread's current context */
	uint64_t begin, end;		/* ns */
	uint64_t free, total;		/* cuMemGetInfo() */
	uint32_t pools;			/* how many follow */
	uint32_t reserved;
};

struct trace_pool {
	uint64_t pool;			/* CUmemoryPool; 0: the device's default pool */
	uint64_t reserved, used;	/* bytes now */
	uint64_t reserved_high, used_high;
};

#endif /* GPUMEM_RECORD_FORMAT_H */
