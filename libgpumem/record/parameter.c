// SPDX-License-Identifier: MIT
/*
 * The table of functions, made from the texts of calls.h.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "record/parameter.h"

#define TABLE		1024u		/* slots of the hash table: more than functions */
#define MOST_BYTES	(1u << 20)	/* behind one pointer */

static struct function functions[] = {
#define CALL(symbol, arguments, parameters)	{ .name = #symbol, .text = parameters, .count = arguments },
#include "record/calls.h"
};

static const struct {
	const char *name;
	uint16_t bytes;
} structures[] = {
	{ "", 0 },
#define STRUCTURE(symbol)	{ #symbol, sizeof(symbol) },
#include "record/calls.h"
};

#define COUNT		(sizeof(functions) / sizeof(functions[0]))
#define STRUCTURES	(sizeof(structures) / sizeof(structures[0]))

static uint16_t slots[TABLE];		/* 1 + the index of a function, by name */

static unsigned int slot_of(const char *name)
{
	uint32_t hash = 2166136261u;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619u;
	return hash % TABLE;
}

static uint16_t kind_bytes(char kind)
{
	switch (kind) {
	case 'b':
		return 1;
	case 'w':
		return 2;
	case 'i':
		return 4;
	case 'o': case 'z': case 'H':
		return 0;
	}
	return 8;
}

static int8_t index_of(const struct function *function, const char *name, size_t length)
{
	unsigned int i;

	for (i = 0; i < function->count; i++)
		if (function->parameter[i].length == length && !memcmp(function->parameter[i].name, name, length))
			return (int8_t)i;
	abort();
}

/* "NAME:KIND", without what is behind "#". */
static void parse_parameter(struct parameter *parameter, const char *at)
{
	size_t length = strcspn(at, ":"), i;

	parameter->name = at;
	parameter->length = (uint8_t)length;
	parameter->size = -1;
	at += length + 1;
	if (*at == '<' || *at == '>')
		parameter->direction = *at++ == '<' ? INPUT : OUTPUT;
	parameter->kind = *at;
	parameter->bytes = kind_bytes(*at);
	if (*at != '{')
		return;
	length = strcspn(++at, "}");
	for (i = 1; i < STRUCTURES; i++)
		if (!strncmp(structures[i].name, at, length) && !structures[i].name[length])
			break;
	if (i == STRUCTURES)
		abort();
	parameter->structure = (uint8_t)i;
	parameter->bytes = structures[i].bytes;
}

static void parse(struct function *function)
{
	const char *at = function->text;
	unsigned int i, count = 0;
	size_t length;

	while (*at) {
		parse_parameter(&function->parameter[count++], at);
		at += strcspn(at, " ");
		at += strspn(at, " ");
	}
	if (count != function->count)
		abort();
	for (i = 0, at = function->text; i < count; i++) {
		length = strcspn(at, " ");
		if (memchr(at, '#', length)) {
			const char *name = (const char *)memchr(at, '#', length) + 1;

			function->parameter[i].size = index_of(function, name, length - (size_t)(name - at));
		}
		at += length;
		at += strspn(at, " ");
	}
}

static bool makes_memory(const char *name)
{
	static const char *const starts[] = {
		"cuMemAlloc", "cuMemFree", "cuMemCreate", "cuMemRelease", "cuMemMap", "cuMemUnmap", "cuArray", "cuMipmapped",
		"cuMemPool", "cuMemHost",
	};
	size_t i;

	for (i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
		if (!strncmp(name, starts[i], strlen(starts[i])))
			return true;
	return false;
}

void functions_start(void)
{
	uint32_t i;

	if (slots[slot_of(functions[0].name)])
		return;
	for (i = 0; i < COUNT; i++) {
		unsigned int slot = slot_of(functions[i].name);

		while (slots[slot])
			slot = (slot + 1) % TABLE;
		slots[slot] = (uint16_t)(i + 1);
		functions[i].flags = makes_memory(functions[i].name) ? FUNCTION_MEMORY : 0;
		parse(&functions[i]);
	}
}

uint32_t functions_count(void)
{
	return COUNT;
}

struct function *function_at(uint32_t index)
{
	return &functions[index];
}

uint32_t function_find(const char *name)
{
	unsigned int slot;

	for (slot = slot_of(name); slots[slot]; slot = (slot + 1) % TABLE)
		if (!strcmp(functions[slots[slot] - 1].name, name))
			return slots[slot] - 1u;
	return NO_FUNCTION;
}

uint32_t pool_attribute_bytes(uint32_t attribute)
{
	return attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES ? sizeof(int) : sizeof(uint64_t);
}

uint64_t parameter_bytes(const struct function *function, unsigned int index, const uint64_t *values)
{
	const struct parameter *parameter = &function->parameter[index];
	uint64_t count = 1;

	if (parameter->direction == BY_VALUE || !parameter->bytes)
		return 0;
	if (parameter->kind == 'v')
		return pool_attribute_bytes((uint32_t)values[index - 1]);
	if (parameter->direction == INPUT && parameter->size >= 0)
		count = values[parameter->size];
	return count > MOST_BYTES / parameter->bytes ? 0 : count * parameter->bytes;
}
