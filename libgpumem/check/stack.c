// SPDX-License-Identifier: MIT
/*
 * Stacks: unwound by libunwind if the machine has it, else by the compiler's unwinder, stored once each, and turned into
 * functions and lines by libbacktrace when a report needs them.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>
#ifdef HAVE_BACKTRACE
#include <backtrace.h>
#endif

#include "check/check.h"

#define FRAMES	32u
#define TABLE	8192u

struct stack {
	struct stack *next;
	uint32_t hash;
	unsigned int count;
	uintptr_t pc[];
};

static struct stack *stacks[TABLE];	/* stacks live until the process ends */

struct trace {
	unsigned int count;
	uintptr_t pc[FRAMES];
};

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *context, void *arg)
{
	struct trace *trace = arg;
	int before = 0;
	uintptr_t pc = _Unwind_GetIPInfo(context, &before);

	if (!pc)
		return _URC_END_OF_STACK;
	/* A return address may belong to the next line, or function. */
	trace->pc[trace->count++] = before ? pc : pc - 1;
	return trace->count == FRAMES ? _URC_END_OF_STACK : _URC_NO_REASON;
}

/* libunwind's unw_backtrace(), which is several times as fast, or NULL. */
static int (*fast)(void **frames, int size);

void stacks_start(void)
{
	void *library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);

	if (library)
		fast = (int (*)(void **, int))dlsym(library, "unw_backtrace");
}

static void unwind(struct trace *trace)
{
	void *frames[FRAMES];
	int n;

	if (!fast) {
		_Unwind_Backtrace(add_frame, trace);
		return;
	}
	n = fast(frames, FRAMES);
	for (trace->count = 0; (int)trace->count < n; trace->count++)
		trace->pc[trace->count] = (uintptr_t)frames[trace->count] - 1;
}

static struct stack *stack_of_caller(void)
{
	struct trace trace;
	uint32_t hash = 2166136261u;
	struct stack *stack;
	unsigned int i;

	/* Clearing the rest would take as long as finding the frames. */
	trace.count = 0;
	unwind(&trace);
	for (i = 0; i < trace.count; i++)
		hash = (hash ^ (uint32_t)(trace.pc[i] ^ trace.pc[i] >> 32)) * 16777619u;
	for (stack = stacks[hash % TABLE]; stack; stack = stack->next)
		if (stack->hash == hash && stack->count == trace.count &&
		    !memcmp(stack->pc, trace.pc, trace.count * sizeof(*trace.pc)))
			return stack;
	stack = malloc(sizeof(*stack) + trace.count * sizeof(*trace.pc));
	if (!stack)
		return NULL;
	stack->hash = hash;
	stack->count = trace.count;
	memcpy(stack->pc, trace.pc, trace.count * sizeof(*trace.pc));
	stack->next = stacks[hash % TABLE];
	stacks[hash % TABLE] = stack;
	return stack;
}

struct stack *stack_here(void)
{
	return options.stacks ? stack_of_caller() : NULL;
}

uint32_t stack_hash(const struct stack *stack)
{
	return stack ? stack->hash : 0;
}

/* ---- functions and lines */

struct walk {
	bool (*each)(const struct frame *frame, void *arg);
	void *arg;
	const char *object;
	bool any, over;
};

#ifdef HAVE_BACKTRACE
static struct backtrace_state *state;

static void no_symbols(void *data, const char *message, int error)
{
	(void)data;
	(void)message;
	(void)error;
}

static int add_line(void *data, uintptr_t pc, const char *file, int line, const char *function)
{
	struct walk *walk = data;
	const struct frame frame = {
		.function = function, .file = file, .line = line, .object = walk->object, .address = pc,
	};

	if (!function)
		return 0;
	walk->any = true;
	walk->over = !walk->each(&frame, walk->arg);
	return walk->over;
}

/* False: libbacktrace knows no function at the address. */
static bool lines_at(struct walk *walk, uintptr_t pc)
{
	walk->any = false;
	if (!state)
		state = backtrace_create_state(NULL, 1, no_symbols, NULL);
	if (state)
		backtrace_pcinfo(state, pc, add_line, no_symbols, walk);
	return walk->any;
}
#else
static bool lines_at(struct walk *walk, uintptr_t pc)
{
	(void)walk;
	(void)pc;
	return false;
}
#endif

/* Whether an object is one of the libraries between the program and the checker. */
static bool own_object(const char *path)
{
	static const char *const names[] = {
		"libgpumem-check.", "libgpumem-driver.", "libgpumem.", "libcuda.", "libcudart.", "libcufile.",
	};
	const char *name = strrchr(path, '/');
	unsigned int i;

	name = name ? name + 1 : path;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(name, names[i], strlen(names[i])))
			return true;
	return false;
}

void stack_walk(const struct stack *stack, bool (*each)(const struct frame *frame, void *arg), void *arg)
{
	struct walk walk = { .each = each, .arg = arg };
	bool inside = true;
	unsigned int i;

	for (i = 0; stack && i < stack->count && !walk.over; i++) {
		struct frame frame = { .address = stack->pc[i] };
		struct dl_find_object found;

		/* dladdr() takes the loader's lock, which a thread that waits for the checker's may hold. */
		if (!_dl_find_object((void *)stack->pc[i], &found) && found.dlfo_link_map)
			frame.object = found.dlfo_link_map->l_name;
		if (frame.object && !*frame.object)
			frame.object = program_invocation_name;
		if (inside && frame.object && own_object(frame.object))
			continue;
		inside = false;
		walk.object = frame.object;
		if (!lines_at(&walk, stack->pc[i]))
			walk.over = !each(&frame, arg);
	}
}
