/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The table of wrong calls: kinds of arguments and their values (matrix_values.c), for the cases
 * that matrix.c makes of them.
 */
#ifndef ORACLE_MATRIX_H
#define ORACLE_MATRIX_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

#define ARGS	8
#define OUTPUT	256			/* bytes of each output */
#define KEPT	0xa5			/* each byte of the outputs before a call */
#define VALUES	128			/* most values of one kind */

/* The kind of object that a successful call made, for undo(). */
enum makes { NOTHING, MEMORY, ASYNC, HOST, STREAM, EVENT, POOL, ARRAY, MIPMAP, REGISTERED, OPENED };

/* A value of an argument that is not the good one. */
struct other {
	char name[24];
	uint64_t value;
	unsigned int variant;		/* not 0: a variant, see other_value(); @value is not used */
	bool wrong;			/* combined with wrong values of other arguments */
};

struct others {
	struct other of[VALUES];
	unsigned int count;
};

/* A handle of memory or of an event, which is passed by value. */
struct by_value {
	uint8_t byte[64];
};

extern bool initialized;		/* this process called cuInit() */
extern CUcontext context;		/* current, except in calls without a context */

/* Call cuInit() and make the objects of the good values. Exits with 3 on failure. */
void prepare(void);
/* List all values of a kind except the good one. */
void others_of(const char *kind, struct others *others);
/* The good value of argument @n, which is of kind @kind. Makes an object if a call ends it. */
uint64_t good_value(const char *kind, unsigned int n);
/* The value that @o describes for argument @n, whose good value is @value. */
uint64_t other_value(const char *kind, unsigned int n, const struct other *o, uint64_t value);
/* Fill the outputs with KEPT. Called before the arguments of a call are made. */
void outputs_reset(void);
/* The state of an output after a call: "kept", "zero" or "set". */
const char *output_state(unsigned int n, unsigned int bytes);
/* Undo a successful call.  @arg: its arguments, as good_value() made them. */
void undo(enum makes makes, const uint64_t *arg);
/* Destroy the object that good_value() made for one call; nothing for other kinds. */
void stale(const char *kind, uint64_t value);

#endif
