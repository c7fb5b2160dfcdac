// SPDX-License-Identifier: MIT
/*
 * Memories: what the program allocated, registered, mapped or imported, by address, and what it freed lately.
 *
 * Memories do not overlap. If a new one overlaps an older one, the checker has not seen the older one's end, and
 * forgets it.
 */
#include <search.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "check/check.h"

#define FREED	1024u
#define ARRAYS	256u
#define RECENT	4u

static void *tree;
static struct spares spare_memories;
static struct memory *arrays[ARRAYS];	/* by handle */
static struct memory *freed[FREED];	/* a reference each */
static unsigned int freed_count;
static struct memory *recent[RECENT];	/* found last, in the tree; or NULL */
static unsigned int recent_count;

static int compare(const void *a, const void *b)
{
	const struct memory *one = a, *other = b;

	if (one->base + one->size <= other->base)
		return -1;
	return other->base + other->size <= one->base;
}

const char *memory_name(const struct memory *memory)
{
	static const char *const names[] = {
		[MEMORY_DEVICE] = "device memory", [MEMORY_POOL] = "memory of a pool",
		[MEMORY_HOST] = "pinned memory", [MEMORY_REGISTERED] = "registered memory",
		[MEMORY_MANAGED] = "managed memory", [MEMORY_MAPPED] = "mapped memory",
		[MEMORY_IMPORTED] = "imported memory", [MEMORY_ARRAY] = "array",
	};

	return names[memory->kind];
}

struct memory *memory_add(enum memory_kind kind, uint64_t base, uint64_t size, struct op *born)
{
	struct memory *memory = spare_take(&spare_memories, sizeof(*memory)), **node;

	if (!memory || !size || !born) {
		if (memory)
			spare_give(&spare_memories, memory);
		op_drop(born);
		return NULL;
	}
	memory->base = base;
	memory->size = size;
	memory->kind = kind;
	memory->born = born;
	memory->refs = 1;
	memory->open = kind == MEMORY_HOST || kind == MEMORY_REGISTERED || kind == MEMORY_MANAGED ||
		kind == MEMORY_IMPORTED;
	memory->host = memory->open && kind != MEMORY_IMPORTED;
	if (kind == MEMORY_ARRAY) {
		memory->next = arrays[base / 64 % ARRAYS];
		arrays[base / 64 % ARRAYS] = memory;
		return memory;
	}
	for (;;) {
		node = tsearch(memory, &tree, compare);
		if (!node) {
			op_drop(born);
			spare_give(&spare_memories, memory);
			return NULL;
		}
		if (*node == memory)
			return memory;
		memory_remove(*node, NULL);
	}
}

static struct memory *find(uint64_t addr, uint64_t bytes)
{
	const struct memory key = { .base = addr, .size = bytes };
	struct memory *const *node = tfind(&key, &tree, compare);

	return node ? *node : NULL;
}

struct memory *memory_at(uint64_t addr)
{
	struct memory *memory;
	unsigned int i;

	for (i = 0; i < RECENT; i++)
		if (recent[i] && addr - recent[i]->base < recent[i]->size)
			return recent[i];
	memory = addr + 1 ? find(addr, 1) : NULL;
	if (memory)
		recent[recent_count++ % RECENT] = memory;
	return memory;
}

static void recent_forget(const struct memory *memory)
{
	unsigned int i;

	for (i = 0; i < RECENT; i++)
		if (recent[i] == memory)
			recent[i] = NULL;
}

struct memory *memory_exact(uint64_t base, unsigned int kinds)
{
	struct memory *memory;

	if (kinds == 1u << MEMORY_ARRAY) {
		for (memory = arrays[base / 64 % ARRAYS]; memory && memory->base != base; memory = memory->next)
			;
		return memory;
	}
	memory = memory_at(base);
	return memory && memory->base == base && kinds & 1u << memory->kind ? memory : NULL;
}

struct memory *memory_freed_at(uint64_t addr)
{
	unsigned int i;

	for (i = 0; i < FREED && i < freed_count; i++) {
		struct memory *memory = freed[(freed_count - 1 - i) % FREED];

		if (addr - memory->base < memory->size)
			return memory;
	}
	return NULL;
}

struct memory *memory_beside(uint64_t addr, uint64_t bytes)
{
	struct memory *memory = addr ? find(addr - 1, 1) : NULL;

	if (!memory && bytes && addr + bytes > addr)
		memory = find(addr, bytes);
	return memory;
}

size_t memory_read(void *to, uint64_t addr, size_t bytes)
{
	struct iovec here = { .iov_base = to, .iov_len = bytes };
	struct iovec there = { .iov_base = (void *)(uintptr_t)addr, .iov_len = bytes };
	ssize_t n = process_vm_readv(getpid(), &here, 1, &there, 1, 0);

	return n > 0 ? n : 0;
}

struct memory *memory_hold(struct memory *memory)
{
	memory->refs++;
	return memory;
}

void memory_drop(struct memory *memory)
{
	if (!memory || --memory->refs)
		return;
	shadow_free(memory);
	op_drop(memory->born);
	op_drop(memory->freed);
	spare_give(&spare_memories, memory);
}

void memory_remove(struct memory *memory, struct op *op)
{
	shadow_free(memory);
	memory_retire(memory, op);
}

void memory_retire(struct memory *memory, struct op *op)
{
	struct memory **last, **at;

	if (memory->kind == MEMORY_ARRAY) {
		for (at = &arrays[memory->base / 64 % ARRAYS]; *at && *at != memory; at = &(*at)->next)
			;
		if (*at)
			*at = memory->next;
	} else {
		recent_forget(memory);
		tdelete(memory, &tree, compare);
	}
	memory->freed = op;
	memory->dead = true;
	words_forget(memory);
	mapped_unused(memory);
	if (!op || memory->kind == MEMORY_ARRAY) {
		memory_drop(memory);
		return;
	}
	last = &freed[freed_count++ % FREED];
	memory_drop(*last);
	*last = memory;
}

/* ---- walks: twalk() passes no argument, and must not change the tree */

static struct memory **listed;
static size_t listed_count, listed_room;

static void list(struct memory *memory)
{
	if (listed_count == listed_room) {
		size_t room = listed_room ? 2 * listed_room : 256;
		struct memory **more = realloc(listed, room * sizeof(struct memory *));

		if (!more)
			return;
		listed = more;
		listed_room = room;
	}
	listed[listed_count++] = memory;
}

static void list_node(const void *node, VISIT visit, int depth)
{
	(void)depth;
	if (visit == postorder || visit == leaf)
		list(*(struct memory *const *)node);
}

void memories_each(void (*each)(struct memory *memory, void *arg), void *arg)
{
	struct memory *array;
	size_t i;

	listed_count = 0;
	twalk(tree, list_node);
	for (i = 0; i < ARRAYS; i++)
		for (array = arrays[i]; array; array = array->next)
			list(array);
	for (i = 0; i < listed_count; i++)
		each(listed[i], arg);
}

static void forget(struct memory *memory, void *context)
{
	if (memory->context == context && memory->kind != MEMORY_POOL)
		memory_remove(memory, NULL);
}

void memories_forget(const void *context)
{
	memories_each(forget, (void *)context);
}
