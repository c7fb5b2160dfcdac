// SPDX-License-Identifier: MIT
/*
 * Calls as they begin and end.
 *
 * A thread puts the record of its call together in a buffer of its own: the arguments when the call begins, the outputs
 * when it has succeeded.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "record/record.h"

#define PAGE	4096u			/* smaller pointers are mistakes of the program, or handles with a meaning */

struct thread_state {
	unsigned int depth;		/* calls under way, of which the first is recorded */
	bool inside;			/* the recorder itself works */
	bool known;			/* id is set */
	uint32_t id, function;
	const void *frame;		/* of the first call's begin */
	char *buffer;			/* the record under way */
	size_t used, room;
};

static __thread struct thread_state thread __attribute__((tls_model("initial-exec")));
static pthread_key_t key;		/* frees the buffer when a thread ends */
static uint32_t threads;		/* atomic: ids that were given out */
static uint64_t start;			/* CLOCK_MONOTONIC; constant after the start */
static bool running;			/* constant but for a forked child, and the process's end */
static uint32_t pool_destroy;		/* the index of cuMemPoolDestroy() */

static uint64_t clock_now(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t time_now(void)
{
	return clock_now(CLOCK_MONOTONIC) - start;
}

static void forked(void)
{
	running = false;
}

static void thread_end(void *buffer)
{
	(void)buffer;
	free(thread.buffer);
	thread.buffer = NULL;
	thread.room = 0;
}

bool recorder_start(enum trace_front front, void *(*real)(const char *name))
{
	const char *path = secure_getenv("GPUMEM_RECORD");

	if (running)
		return true;
	if (!path || !*path || pthread_key_create(&key, thread_end) || pthread_atfork(NULL, NULL, forked))
		return false;
	functions_start();
	pool_destroy = function_find("cuMemPoolDestroy");
	start = clock_now(CLOCK_MONOTONIC);
	file_start(front, clock_now(CLOCK_REALTIME), real);
	sample_start(real);
	__atomic_store_n(&running, true, __ATOMIC_RELEASE);
	return true;
}

static __attribute__((destructor)) void finish(void)
{
	if (!__atomic_exchange_n(&running, false, __ATOMIC_ACQ_REL))
		return;
	file_finish();
}

/* ---- the buffer */

/* Room for @bytes more, or NULL. */
static void *more(size_t bytes)
{
	size_t room = thread.room ? thread.room : 1024;
	char *buffer;

	bytes = (bytes + 7) & ~(size_t)7;
	while (room < thread.used + bytes)
		room *= 2;
	if (room != thread.room) {
		buffer = realloc(thread.buffer, room);
		if (!buffer)
			return NULL;
		thread.buffer = buffer;
		thread.room = room;
		pthread_setspecific(key, buffer);
	}
	buffer = thread.buffer + thread.used;
	memset(buffer, 0, bytes);
	thread.used += bytes;
	return buffer;
}

/* Add what is behind the pointers of one direction. */
static void add_data(const struct function *function, enum direction direction)
{
	uint64_t values[TRACE_ARGUMENTS], bytes;
	struct trace_data *data;
	unsigned int i;

	memcpy(values, thread.buffer + sizeof(struct trace_call), function->count * sizeof(*values));
	for (i = 0; i < function->count; i++) {
		if (function->parameter[i].direction != direction || values[i] < PAGE)
			continue;
		bytes = parameter_bytes(function, i, values);
		data = bytes ? more(sizeof(*data) + bytes) : NULL;
		if (!data)
			continue;
		data->argument = i;
		data->bytes = (uint32_t)bytes;
		memcpy(data + 1, (const void *)(uintptr_t)values[i], bytes);
	}
}

/* The value of a parameter, without what a caller leaves in the upper part of a register. */
static uint64_t cut(const struct parameter *parameter, uint64_t value)
{
	if (parameter->direction == BY_VALUE && parameter->bytes && parameter->bytes < sizeof(value))
		value &= (UINT64_C(1) << 8 * parameter->bytes) - 1;
	return value;
}

static struct trace_call *put_call(uint32_t function, const uint64_t *values)
{
	const struct function *f = function_at(function);
	unsigned int count = values ? f->count : 0, i;
	struct trace_call *call;
	uint64_t *numbers;

	if (!thread.known) {
		thread.id = __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED);
		thread.known = true;
	}
	thread.used = 0;
	call = more(sizeof(*call) + count * sizeof(*values));
	if (!call)
		return NULL;
	*call = (struct trace_call) { .record.type = TRACE_CALL, .thread = thread.id, .count = count };
	numbers = (uint64_t *)(call + 1);
	for (i = 0; i < count; i++)
		numbers[i] = cut(&f->parameter[i], values[i]);
	return call;
}

static void write_call(void)
{
	struct trace_call *call = (struct trace_call *)(void *)thread.buffer;

	call->record.size = (uint32_t)thread.used;
	file_append(&call->record, thread.function);
}

/* ---- calls */

bool call_begin(uint32_t function, const uint64_t *values, const void *frame)
{
	const struct function *f;
	struct trace_call *call;
	int saved = errno;

	/* A signal handler that left the outer call by siglongjmp() has unwound the stack. */
	if (thread.depth && !thread.inside && frame > thread.frame)
		thread.depth = 0;
	if (thread.depth || thread.inside || !__atomic_load_n(&running, __ATOMIC_ACQUIRE))
		return false;
	thread.inside = true;
	f = function_at(function);
	call = put_call(function, values);
	if (call) {
		if (values)
			add_data(f, INPUT);
		if (values && function == pool_destroy)
			pool_remove(values[0]);
		if (f->flags & FUNCTION_MEMORY && !sample_taken())
			sample_take(thread.id);
		thread.frame = frame;
		thread.function = function;
		thread.depth = 1;
		/* add_data() may have moved the buffer. */
		call = (struct trace_call *)(void *)thread.buffer;
		call->begin = time_now();
	}
	thread.inside = false;
	errno = saved;
	return call;
}

/* Outputs that are pools. */
static void find_pools(const struct function *f, const uint64_t *values)
{
	unsigned int i;

	for (i = 0; i < f->count; i++)
		if (f->parameter[i].direction == OUTPUT && f->parameter[i].kind == 'p' && values[i] >= PAGE)
			pool_add(*(const uint64_t *)(uintptr_t)values[i]);
}

void call_end(uint32_t result)
{
	const struct function *f = function_at(thread.function);
	struct trace_call *call = (struct trace_call *)(void *)thread.buffer;
	int saved = errno;

	thread.depth = 0;
	if (!__atomic_load_n(&running, __ATOMIC_ACQUIRE))
		return;
	thread.inside = true;
	call->end = time_now();
	call->result = result;
	if (!result && call->count) {
		add_data(f, OUTPUT);
		find_pools(f, (const uint64_t *)(const void *)(thread.buffer + sizeof(*call)));
	}
	write_call();
	if (!result && f->flags & FUNCTION_MEMORY)
		sample_take(thread.id);
	thread.inside = false;
	errno = saved;
}

void call_bare(uint32_t function, uint64_t begin, uint32_t result)
{
	struct trace_call *call;
	int saved = errno;

	if (thread.depth || thread.inside || !__atomic_load_n(&running, __ATOMIC_ACQUIRE))
		return;
	thread.inside = true;
	call = put_call(function, NULL);
	if (call) {
		call->begin = begin;
		call->end = time_now();
		call->result = result;
		thread.function = function;
		write_call();
	}
	thread.inside = false;
	errno = saved;
}
