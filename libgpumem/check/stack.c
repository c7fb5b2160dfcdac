// SPDX-License-Identifier: MIT
/*
 * Stacks: unwound by libunwind if the machine has it, else by the compiler's unwinder, stored once each, and turned into
 * functions and lines by libbacktrace when a report needs them.
 *
 * Most calls come from where an earlier call came from. So the checker remembers where on the thread's stack the return
 * addresses of the last stacks were. If all of them are still there, the stack counts as the same. That is wrong only if a
 * function with an array of variable size has an old return address in the array, where the address was before.
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

#define BUCKETS		128u
#define WAYS		8u
#define OWN_FRAMES	3u

/* A stack as it was found from a frame of the checker. */
struct place {
	uintptr_t frame;
	struct stack *stack;
	unsigned int count;		/* of return addresses, which ascend; 0: not known */
	unsigned int times;		/* that it was unwound */
	unsigned int next;		/* the place of the bucket that was found after it: calls often come in turns */
	struct {
		uintptr_t at, pc;
	} address[FRAMES];
};

static struct place places[BUCKETS][WAYS];
static unsigned char oldest[BUCKETS];	/* the place in the bucket that is replaced next */
static unsigned char latest[BUCKETS];	/* the place that was found last */

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
	int cancel;

	/* Clearing the rest would take as long as finding the frames. */
	trace.count = 0;
	/* Unwinders may call functions that are cancellation points. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	unwind(&trace);
	pthread_setcancelstate(cancel, NULL);
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

/* ---- places */

#if defined(__x86_64__)
struct walked {
	struct place *place;
	uintptr_t end;			/* of the thread's stack */
	bool odd;			/* a return address is not where it should be */
};

/* A return address is below the frame of the function that it returns to. */
static _Unwind_Reason_Code add_address(struct _Unwind_Context *context, void *arg)
{
	struct walked *walked = arg;
	struct place *place = walked->place;
	uintptr_t pc = _Unwind_GetIP(context), at = _Unwind_GetCFA(context) - sizeof(pc);

	if (!pc)
		return _URC_END_OF_STACK;
	if (at <= place->frame)
		return _URC_NO_REASON;
	if (at % sizeof(pc) || at >= walked->end || *(const uintptr_t *)at != pc ||
	    (place->count && at <= place->address[place->count - 1].at)) {
		walked->odd = true;
		return _URC_END_OF_STACK;
	}
	place->address[place->count].at = at;
	place->address[place->count++].pc = pc;
	return place->count == FRAMES ? _URC_END_OF_STACK : _URC_NO_REASON;
}

static __attribute__((noinline)) void place_learn(struct place *place, uintptr_t end)
{
	struct walked walked = { .place = place, .end = end };
	int cancel;

	place->count = 0;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	_Unwind_Backtrace(add_address, &walked);
	pthread_setcancelstate(cancel, NULL);
	/*
	 * Frames of signal handlers, say; or the stack has frames that the compiler's unwinder does not find. The stack has up
	 * to OWN_FRAMES more, which are the checker's.
	 */
	if (walked.odd || !place->stack || place->count + OWN_FRAMES < place->stack->count)
		place->count = 0;
}

/* Where the calling thread's stack ends, and begins. 1 and 0: not known. */
static uintptr_t stack_end(uintptr_t *begin)
{
	static __thread uintptr_t first __attribute__((tls_model("initial-exec")));
	static __thread uintptr_t end __attribute__((tls_model("initial-exec")));
	pthread_attr_t attr;
	size_t size;
	int cancel;
	void *low;

	if (likely(end)) {
		*begin = first;
		return end;
	}
	end = 1;
	/* It reads a file for the first thread's stack. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	if (!pthread_getattr_np(pthread_self(), &attr)) {
		if (!pthread_attr_getstack(&attr, &low, &size))
			first = (uintptr_t)low, end = first + size;
		pthread_attr_destroy(&attr);
	}
	pthread_setcancelstate(cancel, NULL);
	*begin = first;
	return end;
}

static bool place_same(const struct place *place, uintptr_t frame, uintptr_t end)
{
	unsigned int i;

	if (place->frame != frame || !place->count)
		return false;
	if (place->address[place->count - 1].at >= end)
		return false;
	for (i = 0; i < place->count; i++)
		if (*(const uintptr_t *)place->address[i].at != place->address[i].pc)
			return false;
	return true;
}

static __attribute__((noinline)) struct stack *stack_known(void)
{
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0), begin, end = stack_end(&begin);
	unsigned int bucket = (frame ^ frame >> 12) / 16 % BUCKETS, i;
	struct place *bucket_places = places[bucket], *place;
	struct stack *stack;

	/* The stack of a coroutine, or of a signal handler. */
	if (frame < begin || frame >= end)
		return stack_of_caller();
	place = &bucket_places[bucket_places[latest[bucket]].next];
	if (likely(place_same(place, frame, end))) {
		latest[bucket] = place - bucket_places;
		return place->stack;
	}
	for (i = 0; i < WAYS; i++)
		if (place_same(&bucket_places[i], frame, end)) {
			bucket_places[latest[bucket]].next = i;
			latest[bucket] = i;
			return bucket_places[i].stack;
		}
	stack = stack_of_caller();
	for (i = 0; i < WAYS; i++)
		if (bucket_places[i].frame == frame && bucket_places[i].stack == stack)
			break;
	if (i == WAYS) {
		i = oldest[bucket]++ % WAYS;
		bucket_places[i].frame = frame;
		bucket_places[i].stack = stack;
		bucket_places[i].count = bucket_places[i].times = 0;
	}
	place = &bucket_places[i];
	/* The compiler's unwinder takes long: it is worth that for a stack that comes again. */
	if (++place->times == 2)
		place_learn(place, end);
	return stack;
}
#else
static struct stack *stack_known(void)
{
	return stack_of_caller();
}
#endif

struct stack *stack_here(void)
{
	return options.stacks ? stack_known() : NULL;
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
