// SPDX-License-Identifier: GPL-2.0
/*
 * The replay: one thread for each recorded thread.
 *
 * An item begins when all items have ended whose recorded end is not after its recorded begin.  So calls that overlapped may
 * overlap, and all others keep their order.  Items that come before an item in this order come before it in the array, so
 * no two threads wait for each other.
 *
 * Each thread writes its own items only.  An object is written by the call that makes it, and read by items that come after
 * that call.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cuda.h"
#include "replay.h"

#define OUTPUT_BYTES	4096u		/* of one output */
#define OUTPUTS		64u		/* of an array of pointers */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed, over;	/* ended; finished */
	unsigned char *done;		/* by rank; under the lock */
	_Atomic uint32_t ended;		/* all items of lower ranks have ended */
	uint32_t waiting, finished;	/* threads; under the lock */
	uint64_t start;			/* of the replay */
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

struct player {
	uint32_t number;
	pthread_t thread;
	uint32_t *items, count;		/* the thread's, in their order */
	_Atomic uint64_t busy;		/* when the call under way began, or 0 */
	_Atomic uint32_t at;		/* the item under way */
	char *input;			/* copies of what is behind pointers */
	size_t input_room;
	char *output;			/* TRACE_ARGUMENTS + OUTPUTS times OUTPUT_BYTES */
	uint64_t pointers[OUTPUTS];
};

static struct player *players;

uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* ---- order */

static void wait_for(uint32_t needs)
{
	if (atomic_load_explicit(&all.ended, memory_order_acquire) >= needs)
		return;
	pthread_mutex_lock(&all.lock);
	all.waiting++;
	while (all.ended < needs)
		pthread_cond_wait(&all.changed, &all.lock);
	all.waiting--;
	pthread_mutex_unlock(&all.lock);
}

static void has_ended(const struct item *item)
{
	uint32_t ended;

	pthread_mutex_lock(&all.lock);
	all.done[item->rank] = 1;
	ended = all.ended;
	while (ended < trace.items && all.done[ended])
		ended++;
	if (ended != all.ended) {
		atomic_store_explicit(&all.ended, ended, memory_order_release);
		if (all.waiting)
			pthread_cond_broadcast(&all.changed);
	}
	pthread_mutex_unlock(&all.lock);
}

static void keep_pace(const struct item *item)
{
	uint64_t time = all.start + (item->begin - trace.item[0].begin);
	struct timespec until = { .tv_sec = (time_t)(time / 1000000000u), .tv_nsec = (long)(time % 1000000000u) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

/* ---- arguments */

static void nothing(void)
{
}

/* The value of a ref. False: the object does not exist in the replay. */
static bool ref_value(const struct ref *ref, uint64_t *value)
{
	const struct object *object;

	*value = ref->add;
	if (ref->object == FIXED)
		return true;
	object = &trace.object[ref->object];
	if (!object->set)
		return false;
	*value += object->value;
	return true;
}

/* Make room for copies of all data of a call, and copy them. @at: where the data of each argument are. */
static void copy_data(struct player *player, const struct item *item, char *at[TRACE_ARGUMENTS])
{
	const struct function *f = item->function;
	size_t used = 0, size[TRACE_ARGUMENTS] = { 0 };
	unsigned int i;

	for (i = 0; i < f->count; i++) {
		const struct trace_data *data = f->parameter[i].direction == INPUT ? call_data(item, i) : NULL;

		at[i] = NULL;
		size[i] = data ? data->bytes : 0;
		used += (size[i] + 15) & ~(size_t)15;
	}
	if (used > player->input_room) {
		free(player->input);
		player->input = must_alloc(used, 1);
		player->input_room = used;
	}
	for (i = 0, used = 0; i < f->count; i++) {
		if (!size[i])
			continue;
		at[i] = player->input + used;
		memcpy(at[i], call_data(item, i) + 1, size[i]);
		used += (size[i] + 15) & ~(size_t)15;
	}
}

/* Outputs that are not recorded have room for OUTPUT_BYTES. */
static bool output_fits(const struct item *item, unsigned int argument)
{
	const struct parameter *p = &item->function->parameter[argument];

	return p->kind != 'o' || p->size < 0 || call_values(item)[p->size] <= OUTPUT_BYTES;
}

/* "O#SIZE": an array of pointers to outputs. False: it does not fit. */
static bool point_outputs(struct player *player, const struct item *item, unsigned int argument)
{
	const struct function *f = item->function;
	uint64_t count = call_values(item)[f->parameter[argument].size];
	const struct trace_data *sizes = is_function(f, "cuMemRangeGetAttributes") ? call_data(item, 1) : NULL;
	uint32_t i;

	if (count > OUTPUTS || (is_function(f, "cuMemRangeGetAttributes") && !sizes && count))
		return false;
	for (i = 0; i < count; i++)
		player->pointers[i] = (uintptr_t)player->output + (TRACE_ARGUMENTS + i) * (size_t)OUTPUT_BYTES;
	for (i = 0; sizes && i < sizes->bytes / 8; i++)
		if (((const uint64_t *)(sizes + 1))[i] > OUTPUT_BYTES)
			return false;
	return true;
}

/* The arguments of a call in the replay: why it cannot be made, or PLAYED. */
static enum skip arguments(struct player *player, const struct item *item, uint64_t *values)
{
	const struct function *f = item->function;
	char *data[TRACE_ARGUMENTS];
	uint32_t i;

	copy_data(player, item, data);
	memcpy(values, call_values(item), item->call->count * sizeof(*values));
	for (i = 0; i < item->ref_count; i++) {
		const struct ref *ref = &trace.ref[item->refs + i];
		uint64_t value;

		if (!ref_value(ref, &value))
			return SKIP_FAILED;
		if (!ref->data)
			values[ref->argument] = value;
		else
			memcpy(data[ref->argument] + ref->offset, &value, sizeof(value));
	}
	for (i = 0; i < f->count; i++) {
		const struct parameter *p = &f->parameter[i];

		if (p->kind == 'f' && values[i])
			values[i] = (uintptr_t)nothing;
		if (p->kind == 'O' && values[i] >= PAGE) {
			if (!point_outputs(player, item, i))
				return SKIP_LIMIT;
			values[i] = (uintptr_t)player->pointers;
		} else if (p->direction == BY_VALUE) {
			continue;
		} else if (values[i] < PAGE) {
			values[i] = 0;
		} else if (p->direction == OUTPUT) {
			if (!output_fits(item, i))
				return SKIP_LIMIT;
			values[i] = (uintptr_t)player->output + i * (size_t)OUTPUT_BYTES;
		} else {
			if (!data[i] && parameter_bytes(f, i, call_values(item)))
				return SKIP_LIMIT;
			/* An array without elements may be anywhere, and one with too many was not recorded. */
			if (!data[i] && p->size >= 0 && call_values(item)[p->size])
				return SKIP_LIMIT;
			values[i] = data[i] ? (uintptr_t)data[i] : host_nowhere();
		}
	}
	return PLAYED;
}

/* ---- calls */

/* Write the values that the waits of a call wait for, in a stream of the same context. */
static void satisfy(const struct item *item, const uint64_t *values)
{
	CUresult (*create)(CUstream *, unsigned int) = (CUresult (*)(CUstream *, unsigned int))driver_find("cuStreamCreate");
	CUresult (*destroy)(CUstream) = (CUresult (*)(CUstream))driver_find("cuStreamDestroy_v2");
	CUresult (*write)(CUstream, CUdeviceptr, cuuint32_t, unsigned int) =
		(CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned int))driver_find("cuStreamWriteValue32_v2");
	CUresult (*write64)(CUstream, CUdeviceptr, cuuint64_t, unsigned int) =
		(CUresult (*)(CUstream, CUdeviceptr, cuuint64_t, unsigned int))driver_find("cuStreamWriteValue64_v2");
	CUstreamBatchMemOpParams ops[64];
	uint64_t count, i;
	CUstream stream;

	if (!create || !destroy || !write || !write64 || create(&stream, CU_STREAM_NON_BLOCKING))
		return;
	if (strstr(item->function->name, "Batch")) {
		count = values[1] < 64 ? values[1] : 64;
		memcpy(ops, (const void *)(uintptr_t)values[2], count * sizeof(*ops));
	} else {
		count = 1;
		ops[0] = (CUstreamBatchMemOpParams) { .waitValue = {
			.operation = strstr(item->function->name, "64") ? CU_STREAM_MEM_OP_WAIT_VALUE_64 :
				CU_STREAM_MEM_OP_WAIT_VALUE_32,
			.address = values[1], .value64 = values[2], .flags = (unsigned int)values[3] } };
	}
	for (i = 0; i < count; i++) {
		/* This value is at least, is, or has a bit of the one waited for; 0 has a bit that neither has. */
		uint64_t value = (ops[i].waitValue.flags & 3) == CU_STREAM_WAIT_VALUE_NOR ? 0 : ops[i].waitValue.value64;

		if (ops[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_64)
			write64(stream, ops[i].waitValue.address, value, 0);
		else if (ops[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_32)
			write(stream, ops[i].waitValue.address, (cuuint32_t)value, 0);
	}
	destroy(stream);
}

/* The outputs of a call become the values of objects. */
static void define(const struct item *item, const uint64_t *values)
{
	uint32_t i;

	for (i = 0; i < item->def_count; i++) {
		const struct def *def = &trace.def[item->defs + i];
		struct object *object = &trace.object[def->object];
		uint64_t value;

		if (values[def->argument] < PAGE)
			continue;
		memcpy(&value, (const void *)(uintptr_t)values[def->argument], sizeof(value));
		object->value = value;
		object->set = true;
	}
}

/* Descriptors that a call made are of no use. */
static void close_output(const struct item *item, const uint64_t *values)
{
	const char *name = item->function->name;
	int fd;

	if (!strstr(name, "ToShareableHandle") && !is_function(item->function, "cuMemGetHandleForAddressRange"))
		return;
	if (strstr(name, "ToShareableHandle") && values[2] != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return;
	if (values[0] < PAGE)
		return;
	memcpy(&fd, (const void *)(uintptr_t)values[0], sizeof(fd));
	if (fd > STDERR_FILENO)
		close(fd);
}

/*
 * The device whose primary context the trace retains under a recorded handle; 0 if the trace does not make that context.
 * -1: the program created the context.  @object: the context's, or NULL.
 */
static CUdevice device_of(uint64_t recorded, struct object **object)
{
	CUdevice device = 0;
	uint32_t i;

	*object = NULL;
	for (i = 0; i < trace.items; i++) {
		const struct item *item = &trace.item[i];
		struct object *made;

		if (item->sample || !item->function || !item->def_count)
			continue;
		made = &trace.object[trace.def[item->defs].object];
		if (made->kind != 'c' || made->recorded != recorded)
			continue;
		if (!strncmp(item->function->name, "cuCtxCreate", 11))
			return -1;
		if (!is_function(item->function, "cuDevicePrimaryCtxRetain"))
			continue;
		device = (CUdevice)call_values(item)[1];
		*object = made;
	}
	return device;
}

/*
 * NVIDIA's runtime library retains primary contexts by functions that are not public, so a trace may make a context current
 * that it has not retained, or not any more.  Retain it, once and for all.  False: the call has no context, or it was
 * retained.
 */
static bool retain_unseen(const struct item *item, uint64_t *context)
{
	CUresult (*state)(CUdevice, unsigned int *, int *) =
		(CUresult (*)(CUdevice, unsigned int *, int *))driver_find("cuDevicePrimaryCtxGetState");
	CUresult (*retain)(CUcontext *, CUdevice) =
		(CUresult (*)(CUcontext *, CUdevice))driver_find("cuDevicePrimaryCtxRetain");
	struct object *object;
	unsigned int flags;
	CUdevice device;
	CUcontext made;
	int active;

	if (!is_function(item->function, "cuCtxSetCurrent") && !is_function(item->function, "cuCtxPushCurrent"))
		return false;
	device = device_of(call_values(item)[0], &object);
	if (device < 0 || !state || !retain || state(device, &flags, &active) || active || retain(&made, device))
		return false;
	*context = (uint64_t)(uintptr_t)made;
	if (object) {
		object->value = *context;
		object->set = true;
	}
	return true;
}

static void play_call(struct player *player, struct item *item)
{
	uint64_t values[TRACE_ARGUMENTS] = { 0 };
	void *function;

	/* cuInit() may be recorded without its argument, which is 0. */
	function = item->skip ? NULL : driver_function(item->function);
	if (!item->skip && !function)
		item->skip = SKIP_MISSING;
	if (!item->skip && item->call->count)
		item->skip = arguments(player, item, values);
	if (item->skip) {
		item->replay_begin = item->replay_end = now() - all.start;
		return;
	}
	item->replay_begin = now();
	atomic_store_explicit(&player->busy, item->replay_begin, memory_order_relaxed);
	item->result = driver_call(function, item->function->count, values);
	if (item->result && !item->call->result && retain_unseen(item, values))
		item->result = driver_call(function, item->function->count, values);
	item->replay_end = now() - all.start;
	atomic_store_explicit(&player->busy, 0, memory_order_relaxed);
	item->replay_begin -= all.start;
	if (item->result)
		return;
	define(item, values);
	close_output(item, values);
	if (item->satisfy)
		satisfy(item, values);
}

static bool describe(CUmemoryPool pool, struct trace_pool *out)
{
	CUresult (*get)(CUmemoryPool, CUmemPool_attribute, void *) =
		(CUresult (*)(CUmemoryPool, CUmemPool_attribute, void *))driver_find("cuMemPoolGetAttribute");

	return get && !get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &out->reserved) &&
		!get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &out->used) &&
		!get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &out->reserved_high) &&
		!get(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &out->used_high);
}

/* The same as the recorder's sample.c. */
static void play_sample(struct item *item)
{
	CUresult (*info)(size_t *, size_t *) = (CUresult (*)(size_t *, size_t *))driver_find("cuMemGetInfo_v2");
	CUresult (*fallback)(CUmemoryPool *, CUdevice) =
		(CUresult (*)(CUmemoryPool *, CUdevice))driver_find("cuDeviceGetDefaultMemPool");
	const struct trace_sample *sample = item->memory;
	struct trace_pool *pools;
	size_t free_bytes, total;
	uint32_t i, at = 0;

	item->replayed = must_alloc(1, sizeof(*sample) + sample->pools * sizeof(*pools));
	pools = (struct trace_pool *)(item->replayed + 1);
	item->replay_begin = item->replay_end = now() - all.start;
	item->valid = info && !info(&free_bytes, &total);
	if (!item->valid)
		return;
	item->replayed->free = free_bytes;
	item->replayed->total = total;
	for (i = 0; i < sample->pools; i++) {
		const struct ref *ref = at < item->ref_count ? &trace.ref[item->refs + at] : NULL;
		uint64_t value = 0;
		CUmemoryPool pool;

		if (ref && ref->argument == i) {
			at++;
			if (ref->object < HOST && ref_value(ref, &value) &&
			    describe((CUmemoryPool)(uintptr_t)value, &pools[i]))
				pools[i].pool = 1;
		} else if (!sample_pools(sample)[i].pool && fallback && !fallback(&pool, (CUdevice)sample->device) &&
			   describe(pool, &pools[i])) {
			pools[i].pool = 1;
		}
	}
	item->replay_end = now() - all.start;
}

static void *run(void *arg)
{
	struct player *player = arg;
	uint32_t i;

	player->output = must_alloc(TRACE_ARGUMENTS + OUTPUTS, OUTPUT_BYTES);
	for (i = 0; i < player->count; i++) {
		struct item *item = &trace.item[player->items[i]];

		if (options.pace)
			keep_pace(item);
		wait_for(item->needs);
		atomic_store_explicit(&player->at, player->items[i], memory_order_relaxed);
		if (item->sample)
			play_sample(item);
		else
			play_call(player, item);
		has_ended(item);
	}
	pthread_mutex_lock(&all.lock);
	all.finished++;
	pthread_cond_signal(&all.over);
	pthread_mutex_unlock(&all.lock);
	return NULL;
}

/* ---- the whole */

static void check_patience(void)
{
	uint64_t limit = (uint64_t)options.patience * 1000000000u, time = now(), busy;
	uint32_t i;

	for (i = 0; i < trace.threads; i++) {
		busy = atomic_load_explicit(&players[i].busy, memory_order_relaxed);
		if (!busy || time - busy < limit)
			continue;
		fprintf(stderr, "gpumem: %s of thread %u has not returned for %u s: the replay ends\n",
			trace.item[players[i].at].function->name, i, options.patience);
		fflush(NULL);
		_exit(3);
	}
}

static void assign(void)
{
	uint32_t i;

	players = must_alloc(trace.threads + 1, sizeof(*players));
	for (i = 0; i < trace.items; i++)
		players[trace.item[i].thread].count++;
	for (i = 0; i < trace.threads; i++) {
		players[i].number = i;
		players[i].items = must_alloc(players[i].count + 1, sizeof(uint32_t));
		players[i].count = 0;
	}
	for (i = 0; i < trace.items; i++) {
		struct player *player = &players[trace.item[i].thread];

		player->items[player->count++] = i;
	}
}

/* A trace may begin after cuInit(). */
static void init(void)
{
	uint32_t (*init_driver)(unsigned int) = (uint32_t (*)(unsigned int))driver_find("cuInit");
	uint32_t i;

	for (i = 0; i < trace.items; i++)
		if (!trace.item[i].sample && trace.item[i].function && is_function(trace.item[i].function, "cuInit"))
			return;
	if (init_driver)
		init_driver(0);
}

void play(void)
{
	pthread_condattr_t clock;
	struct timespec until;
	uint32_t i;

	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&all.changed, NULL);
	pthread_cond_init(&all.over, &clock);
	all.done = must_alloc(trace.items + 1, 1);
	host_nowhere();
	assign();
	init();
	all.start = now();
	for (i = 0; i < trace.threads; i++)
		if (pthread_create(&players[i].thread, NULL, run, &players[i]))
			refuse("threads: not enough memory");
	pthread_mutex_lock(&all.lock);
	while (all.finished < trace.threads) {
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec++;
		pthread_cond_timedwait(&all.over, &all.lock, &until);
		check_patience();
	}
	pthread_mutex_unlock(&all.lock);
	trace.replay_length = now() - all.start;
	for (i = 0; i < trace.threads; i++)
		pthread_join(players[i].thread, NULL);
}
