/* SPDX-License-Identifier: MIT */
/*
 * The tap: libraries that are loaded at run time see every call of the driver API begin and end.
 *
 * cuInit() loads libgpumem-check.so.1 if GPUMEM_CHECK asks for the checker, and libgpumem-record.so.1 if GPUMEM_RECORD
 * asks for the recorder (tap.c). From then on the macros of core/call.h report each call, and no function takes a fast
 * path that has no report (quick(), core/client.h). A library behind the tap includes this header and the public headers
 * only.
 */
#ifndef GPUMEM_CORE_TAP_H
#define GPUMEM_CORE_TAP_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda.h"

#define TAP_VERSION	5u
#define PATTERN_FREED	0xdd		/* of freed memory that is kept for the checker */
#define PATTERN_ZONE	0xfd		/* of red zones, which are behind memory for the checker */
#define TAP_UNMAPPED	UINT64_MAX	/* an offset for changed() */
#define TAP_VALUES	12u		/* arguments of a call that are reported */

enum tap_order {
	TAP_LEGACY,			/* the legacy stream of a context */
	TAP_BLOCKING,			/* orders against the legacy stream of its context */
	TAP_FREE,			/* orders against no other stream */
};

struct tap_stream {
	const void *key;		/* the same for all handles of the stream */
	uint64_t id;			/* cuStreamGetId() */
	const void *context;
	enum tap_order order;
	bool created;			/* by cuStreamCreate() */
};

/* A block of cuMemAllocAsync(), or cuMemAllocFromPoolAsync(). */
struct tap_pair {
	uint64_t base, size;
	const void *pool;		/* NULL: the current one of the stream's device */
	CUstream stream;		/* of the allocation and of the free */
	bool freed;
};

/* The bytes of an array: rows in slices. Rows of block formats have blocks in place of elements. */
struct tap_array {
	uint64_t row, rows, slices;	/* bytes in a row, rows in a slice */
	unsigned int element;		/* bytes of an element or a block */
};

/* What the library behind the tap may ask. All functions may be called inside begin() and end(). */
struct tap_client {
	unsigned int version;		/* TAP_VERSION */
	/* Describe a stream; @own: handle 0 is the calling thread's own stream. False: no such stream. */
	bool (*stream)(CUstream handle, bool own, struct tap_stream *stream);
	/* The calling thread's current context, or NULL. */
	const void *(*context)(void);
	/* The primary context of a device, or NULL. */
	const void *(*primary)(int device);
	/* The allocation around an address. False: there is none. */
	bool (*range)(uint64_t addr, uint64_t *base, uint64_t *size);
	/* Describe an array. False: there is none, it consists of planes, or it has no memory of its own. */
	bool (*array)(uint64_t handle, struct tap_array *array);
	/* Whether an address belongs to host or managed memory. */
	bool (*cpu)(uint64_t addr);
	/* Whether the device of a context has access to the memory at an address. */
	bool (*reached)(uint64_t addr, const void *context);
	/* Whether a context has not ended. */
	bool (*alive)(const void *context);
	/* Whether the CPU does not reach device memory. */
	bool (*strict)(void);
	/* Map pinned memory again where the program has unmapped it. What lies there instead stays. */
	void (*mend)(uint64_t addr);
	/* Look at freed memory that is kept, and report each byte that changed to changed(). Not inside begin() and end(). */
	void (*verify)(void);
	/*
	 * Whether the calling thread itself has copied bytes since it called untouch(). So it has read the source of its call,
	 * if the call copies one row and no other call began inside it.
	 */
	bool (*touched)(void);
	void (*untouch)(void);
	/* Whether there are blocks whose calls were not reported. */
	bool (*pairs_any)(void);
	/*
	 * Call @each for these blocks. One thread at a time may do that. A block of a thread that does not leave its call is
	 * left for later.
	 */
	void (*pairs)(void (*each)(const struct tap_pair *pair));
};

/*
 * What the library behind the tap does. A call may begin inside another one of its thread. A signal handler that leaves
 * by siglongjmp() ends a call without end().
 */
struct tap {
	unsigned int version;		/* TAP_VERSION */
	/*
	 * Allocations and frees in stream order need not be reported if no other call comes between, and nothing but the tap
	 * watches calls: the library behind the tap asks for them before it looks at another call.
	 */
	bool pairs;
	/* @names: the arguments' names, separated by commas; @values: as many numbers. */
	void (*begin)(const char *name, const char *names, const uint64_t *values, unsigned int count);
	void (*end)(const char *name, CUresult result);
	/* The driver itself printed a report. Called in signal handlers, too. */
	void (*reported)(void);
	/* A host function or callback, submitted with this handle of a stream, begins to run, or is left out. */
	void (*host_function)(CUstream handle, const void *function, const void *arg);
	/*
	 * The CPU or a device has written byte @offset of memory that was freed or, if @offset is @size or more, a byte
	 * behind memory. TAP_UNMAPPED: the program has unmapped pinned memory that it had freed. May be NULL. May be
	 * called inside begin() and end().
	 */
	void (*changed)(uint64_t base, uint64_t size, uint64_t offset);
};

/* The function that a library behind the tap exports (tap.c has the names). NULL: it does not want to see calls. */
typedef const struct tap *tap_start(const struct tap_client *client);

/* A symbol of the preloaded recorder. In a process that has it, the tap loads no recorder. */
#define TAP_PRELOADED	"gpumem_record_preloaded"

/* Load the checker, the recorder, or both. NULL: nothing was loaded, and this function has said why. */
const struct tap *tap_load(const struct tap_client *own, bool check, bool record);

#endif /* GPUMEM_CORE_TAP_H */
