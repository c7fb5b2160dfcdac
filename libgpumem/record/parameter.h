/* SPDX-License-Identifier: MIT */
/*
 * The functions of calls.h, with their parameters taken apart. The recorder and the player use the same table.
 */
#ifndef GPUMEM_RECORD_PARAMETER_H
#define GPUMEM_RECORD_PARAMETER_H

#include <stdbool.h>
#include <stdint.h>

#include "record/format.h"

enum direction { BY_VALUE, INPUT, OUTPUT };

/* Structures of CUDA. */
enum structure {
	NO_STRUCTURE,
#define STRUCTURE(name)	IS_ ## name,
#include "record/calls.h"
};

struct parameter {
	const char *name;
	uint8_t length;			/* of the name */
	uint8_t direction;		/* enum direction */
	char kind;			/* calls.h; '{': a structure */
	uint8_t structure;		/* enum structure */
	int8_t size;			/* the index of the parameter behind "#", or -1 */
	uint16_t bytes;			/* of the value, or of one element behind the pointer; 0: not recorded */
};

/* Functions that change how much memory there is. */
#define FUNCTION_MEMORY	1u

struct function {
	const char *name, *text;	/* text: the parameters, as in calls.h */
	uint32_t count, flags;
	struct parameter parameter[TRACE_ARGUMENTS];
};

#define NO_FUNCTION	UINT32_MAX

/* Fill in the table. Idempotent; not for two threads at a time. */
void functions_start(void);
uint32_t functions_count(void);
struct function *function_at(uint32_t index);
/* The index of a function, or NO_FUNCTION. */
uint32_t function_find(const char *name);
/* The bytes of the value of a pool's attribute. */
uint32_t pool_attribute_bytes(uint32_t attribute);
/*
 * The bytes behind parameter @index of a call with these values: 0 if they are not recorded, or too many to be recorded.
 */
uint64_t parameter_bytes(const struct function *function, unsigned int index, const uint64_t *values);

#endif /* GPUMEM_RECORD_PARAMETER_H */
