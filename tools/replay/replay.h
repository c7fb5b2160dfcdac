/* SPDX-License-Identifier: GPL-2.0 */
/*
 * gpumem-replay: runs a recorded trace on a driver, and compares.  "gpumem replay" starts it.
 *
 *	load.c		the file becomes items: calls and samples
 *	resolve.c	handles and addresses become objects
 *	places.c	what lies at a recorded address at a time; host memory of the program
 *	driver.c	the driver that the calls go to
 *	play.c		one thread for each recorded thread
 *	result.c	what to compare: results, memory, latencies
 *	print.c		the comparison as text and as JSON
 *	page.c, draw.c	the comparison as an HTML page
 *
 * The program is not linked to libgpumem, so that it can load another driver.  The trace is not trusted: it names functions
 * of calls.h only, and each pointer that the driver gets is to memory of the player or of the driver.
 */
#ifndef GPUMEM_TOOLS_REPLAY_H
#define GPUMEM_TOOLS_REPLAY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/parameter.h"

#define NONE		UINT32_MAX
#define PAGE		4096u		/* smaller values are no pointers */

struct options {
	const char *trace, *report, *libcuda;
	bool pace, json, dry;
	unsigned int patience;		/* seconds that a call may take */
};

extern struct options options;

/* Print a message and end with 2: the command line or the trace is wrong, or there is no driver. */
__attribute__((noreturn, format(printf, 1, 2)))
void refuse(const char *format, ...);
void *must_alloc(size_t count, size_t size);
/* Room for one more element of an array of @count, which has *@room. */
void *must_grow(void *array, uint32_t count, uint32_t *room, size_t size);

/* ---- load.c */

/* Why a call is not replayed. */
enum skip {
	PLAYED,
	SKIP_UNKNOWN,		/* the function is not in calls.h, or has other parameters there */
	SKIP_BARE,		/* recorded without its arguments */
	SKIP_END,		/* recorded when the driver had ended, at the program's end */
	SKIP_IMPORT,		/* needs another process, or contents of memory */
	SKIP_DEPENDS,		/* uses what a skipped call made */
	SKIP_LIMIT,		/* would use memory that the player does not have */
	SKIP_MISSING,		/* the driver has no such function */
	SKIP_FAILED,		/* uses what a call made that failed in the replay */
	SKIPS,
};

struct item {
	bool sample;
	uint8_t skip;			/* enum skip */
	bool satisfy;			/* a wait whose value the player writes */
	bool valid;			/* a sample that was taken in the replay */
	uint32_t thread;
	uint32_t number;		/* of the function, in the trace */
	const struct function *function;	/* of calls.h, or NULL */
	union {
		const struct trace_call *call;
		const struct trace_sample *memory;
	};
	uint64_t begin, end;		/* recorded, in ns; end > begin */
	uint64_t replay_begin, replay_end;
	uint32_t result;		/* in the replay */
	uint32_t rank;			/* in the order of ends */
	uint32_t needs;			/* so many of the first items in the order of ends come before this one */
	uint32_t refs, ref_count;	/* in refs of the trace */
	uint32_t defs, def_count;
	uint32_t stream;		/* the object of the call's stream, or NONE: a default stream, or none at all */
	bool streams;			/* the call has a stream */
	uint64_t live;			/* bytes of device memory that the program has after the call */
	struct trace_sample *replayed;	/* of a sample */
};

/* An input that is not the recorded value. */
struct ref {
	uint32_t object;		/* or FIXED */
	uint16_t argument;
	bool data;			/* behind the pointer, @offset bytes from its start; else the value itself */
	uint32_t offset;
	uint64_t add;			/* to the object's value; FIXED: the value */
	uint64_t origin;		/* HOST: of which @add is so many bytes above the pointer */
};

#define FIXED		UINT32_MAX
#define HOST		(UINT32_MAX - 1)	/* until host memory is there: @add is a recorded address */

/* An output that names an object from then on. */
struct def {
	uint32_t object;
	uint16_t argument;
};

enum memory { NO_MEMORY, DEVICE_MEMORY, POOL_MEMORY, MANAGED_MEMORY, HOST_MEMORY, ADDRESSES, PHYSICAL_MEMORY };

struct object {
	char kind;			/* of calls.h; 'A': memory */
	uint8_t memory;			/* enum memory */
	bool lost;			/* made by a call that is skipped */
	bool live;			/* at the time that resolve() has reached */
	_Atomic bool set;		/* value is valid */
	uint64_t recorded, size;
	_Atomic uint64_t value;		/* in the replay */
};

struct trace {
	const struct trace_header *header;
	bool cut;			/* the last record is not complete */
	uint32_t functions, items, calls, threads;
	char **names;			/* of functions */
	struct item *item;		/* in the order of begins */
	uint32_t *order;		/* items in the order of ends */
	struct ref *ref;
	struct def *def;
	struct object *object;
	uint32_t refs, defs, objects;
	uint32_t ref_room, def_room, object_room;
	uint64_t length;		/* ns, from the first begin to the last end */
	uint64_t replay_length;
};

extern struct trace trace;

void load(const char *path);
/* What is recorded behind a pointer, or NULL. */
const struct trace_data *call_data(const struct item *item, unsigned int argument);
static inline const uint64_t *call_values(const struct item *item)
{
	return (const uint64_t *)(item->call + 1);
}
static inline const struct trace_pool *sample_pools(const struct trace_sample *sample)
{
	return (const struct trace_pool *)(sample + 1);
}

/* ---- resolve.c */

/* Is the function this one, in whatever form? @name: without _ptds and _ptsz. */
bool is_function(const struct function *function, const char *name);
void resolve(void);

/* ---- places.c */

/* An allocation lies at a recorded address from now on. */
void place_add(uint32_t object);
/* The object around a recorded address, or NONE. */
uint32_t place_find(uint64_t addr);
/* The bytes from an address to the next object above it. */
uint64_t place_room(uint64_t addr);
/* The program used host memory that the driver did not allocate. False: too much. */
bool host_need(uint64_t addr, uint64_t bytes);
/* Allocate all that was needed. */
void host_make(void);
/* Where a recorded address of host memory is in the player. An address that the player does not know gets an empty page. */
uint64_t host_address(uint64_t addr);
/* An empty page. */
uint64_t host_nowhere(void);

/* ---- driver.c */

void driver_load(void);
/* The driver's function, or NULL. */
void *driver_find(const char *name);
void *driver_function(const struct function *function);
uint32_t driver_call(void *function, unsigned int count, const uint64_t *values);

/* ---- play.c */

void play(void);
uint64_t now(void);

/* ---- result.c */

struct latency {
	const char *name;
	uint32_t count;			/* that were recorded and replayed */
	uint64_t recorded_median, recorded_p99, replay_median, replay_p99;
};

/* Peaks of a device or pool, in bytes. */
struct peaks {
	bool pool;
	uint32_t device;
	uint32_t object;		/* of a pool; NONE: the device's default pool */
	bool replayed;			/* there are figures of the replay */
	uint64_t recorded_reserved, recorded_used, replay_reserved, replay_used;
	uint64_t recorded_base, replay_base;	/* devices: in use at the first sample */
	uint64_t recorded_live, replay_live;	/* devices: requested when the device's use was highest */
};

struct comparison {
	uint32_t agree, differ, skipped, skips[SKIPS];
	struct latency *latency;
	uint32_t latencies;
	struct peaks *peaks;
	uint32_t peak_count;
	uint64_t live_peak;		/* bytes of device memory that the program had requested */
};

bool results_agree(const struct item *item);
const char *skip_text(unsigned int skip);
void compare(struct comparison *comparison);
/* 1 - used / reserved, or -1. */
double fragmentation(uint64_t reserved, uint64_t used);
/* The name of a row of peaks. */
void peaks_name(const struct peaks *peaks, char *text, size_t size);

/* ---- print.c, page.c */

/* The name of a result, such as "OUT_OF_MEMORY". */
const char *result_name(uint32_t result, char text[16]);
void format_bytes(uint64_t bytes, char text[32]);
void print_text(const struct comparison *comparison);
void print_json(const struct comparison *comparison);
void page_write(const struct comparison *comparison, const char *path);

/* ---- draw.c: pictures of the page */

#include <stdio.h>

void draw_memory(FILE *out, const struct comparison *comparison);
void draw_streams(FILE *out, bool replayed);

#endif
