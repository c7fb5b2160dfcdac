// SPDX-License-Identifier: MIT
/*
 * The checker's ends: the start, the calls as they begin and end, and the process's end.
 *
 * A call that begins inside another one of its thread is not modelled: it is a part of the outer call. The checker is
 * off in a child that fork() made.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check/check.h"

#define TABLE	512u
#define KNOWN	1024u

struct options options;
const struct tap_client *driver;
pthread_mutex_t check_lock = PTHREAD_MUTEX_INITIALIZER;

static const struct call_type *types[TABLE];	/* by name; constant after the start */
static bool running;			/* constant but for a forked child, and the process's end */
static unsigned int driver_reports;	/* reports that the driver printed itself; atomic */

struct under_way {
	const struct call_type *type;	/* NULL: not modelled */
	struct call call;
};

static __thread struct {
	unsigned int depth;		/* calls that have begun */
	bool inside;			/* the checker models a call */
	bool nested;			/* a call has begun inside the outer one */
	const void *frame;		/* of the outer call's begin */
	struct under_way outer;
} thread __attribute__((tls_model("initial-exec")));

/* ---- structures */

void *spare_take(struct spares *spares, size_t bytes)
{
	void *spare = spare_pop(spares);

	return spare ? memset(spare, 0, bytes) : calloc(1, bytes);
}

void spare_give(struct spares *spares, void *spare)
{
	*(void **)spare = spares->first;
	spares->first = spare;
}

/* ---- options */

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), tail = strlen(end);

	return length >= tail && !strcmp(text + length - tail, end);
}

static bool is_zero(const char *text)
{
	return text && !strcmp(text, "0");
}

void options_read(void)
{
	const char *how = getenv("GPUMEM_CHECK"), *status = getenv("GPUMEM_CHECK_EXIT");

	options.abort = how && strstr(how, "abort");
	options.log_only = how && strstr(how, "log");
	options.strict = how && strstr(how, "strict");
	options.stacks = !is_zero(getenv("GPUMEM_CHECK_STACKS"));
	options.leaks = !is_zero(getenv("GPUMEM_CHECK_LEAKS"));
	options.exit = status && *status ? atoi(status) : 66;
	options.log = getenv("GPUMEM_CHECK_LOG");
	if (options.log && !*options.log)
		options.log = NULL;
	if (options.log && ends_with(options.log, ".json"))
		options.format = FORMAT_JSON;
	else if (options.log && ends_with(options.log, ".sarif"))
		options.format = FORMAT_SARIF;
}

/* ---- names of calls */

static unsigned int bucket(const char *name, size_t length)
{
	uint32_t hash = 2166136261u;
	size_t i;

	for (i = 0; i < length; i++)
		hash = (hash ^ (unsigned char)name[i]) * 16777619u;
	return hash % TABLE;
}

static void types_add(const struct call_type *list)
{
	for (; list->name; list++) {
		unsigned int at = bucket(list->name, strlen(list->name));

		while (types[at])
			at = (at + 1) % TABLE;
		types[at] = list;
	}
}

/* The type of a call, and whether its stream 0 is the calling thread's own. Needs no lock. */
static const struct call_type *type_find(const char *name, bool *own)
{
	size_t length = strlen(name);
	unsigned int at;

	*own = ends_with(name, "_ptsz") || ends_with(name, "_ptds");
	if (*own)
		length -= 5;
	for (at = bucket(name, length); types[at]; at = (at + 1) % TABLE)
		if (!strncmp(types[at]->name, name, length) && !types[at]->name[length])
			return types[at];
	return NULL;
}

struct known {
	const char *name;
	const struct call_type *type;
	bool own;
};

/* Names are constants of the driver: the address of one tells its type. Needs no lock. */
static const struct call_type *type_of(const char *name, bool *own)
{
	static struct known *table[KNOWN];	/* atomic */
	struct known **at = &table[((uintptr_t)name ^ (uintptr_t)name >> 6) % KNOWN];
	struct known *known = __atomic_load_n(at, __ATOMIC_ACQUIRE), *none = NULL;
	const struct call_type *type;

	if (likely(known && known->name == name)) {
		*own = known->own;
		return known->type;
	}
	type = type_find(name, own);
	known = known ? NULL : malloc(sizeof(*known));
	if (known) {
		*known = (struct known) { .name = name, .type = type, .own = *own };
		if (!__atomic_compare_exchange_n(at, &none, known, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			free(known);
	}
	return type;
}

/* ---- helpers of the files of calls */

struct op *call_op(const struct call *call, struct actor *actor, enum op_kind kind)
{
	return op_new(call->name, call->stack, actor, kind);
}

struct step *call_step(const struct call *call, struct actor *actor, enum step_kind step_kind, enum op_kind op_kind)
{
	struct step *step = step_new(step_kind, actor);

	if (!step)
		return NULL;
	step->op = call_op(call, actor, op_kind);
	if (step->op)
		return step;
	step_free(step);
	return NULL;
}

struct actor *call_actor(const struct call *call, int index)
{
	uint64_t handle = index >= 0 && (unsigned int)index < call->count ? call->value[index] : 0;

	return actor_of((CUstream)(uintptr_t)handle, call->own);
}

static void out_of_bounds(const struct call *call, const struct memory *memory, uint64_t addr, uint64_t bytes)
{
	struct report report;

	report_begin(&report, REPORT_OUT_OF_BOUNDS, "%s of %llu bytes at 0x%llx, %llu bytes %s", call->name,
		     (unsigned long long)bytes, (unsigned long long)addr,
		     (unsigned long long)(addr < memory->base ? memory->base - addr :
					  addr + bytes - memory->base - memory->size),
		     addr < memory->base ? "before the memory" : "beyond the memory's end");
	report_stack(&report, call->stack, "by %s", call->name);
	report_stack(&report, memory->born->stack, "%s of %llu bytes at 0x%llx, made by %s", memory_name(memory),
		     (unsigned long long)memory->size, (unsigned long long)memory->base, memory->born->call);
	report_end(&report);
}

static void used_after_free(const struct call *call, const struct memory *memory, uint64_t addr, uint64_t bytes)
{
	struct report report;

	report_begin(&report, REPORT_USE_AFTER_FREE, "%s of %llu bytes at 0x%llx", call->name,
		     (unsigned long long)bytes, (unsigned long long)addr);
	report_stack(&report, call->stack, "used by %s", call->name);
	report_stack(&report, memory->freed->stack, "freed by %s in %s", memory->freed->call,
		     memory->freed->actor->name);
	report_stack(&report, memory->born->stack, "%s of %llu bytes at 0x%llx, made by %s", memory_name(memory),
		     (unsigned long long)memory->size, (unsigned long long)memory->base, memory->born->call);
	report_end(&report);
}

static void no_access(const struct call *call, const struct memory *memory, uint64_t addr)
{
	struct report report;

	report_begin(&report, REPORT_NO_ACCESS, "%s uses memory of a pool at 0x%llx", call->name,
		     (unsigned long long)addr);
	report_detail(&report, memory->kind == MEMORY_IMPORTED ?
		      "the device needs cuMemPoolSetAccess() of the imported pool: the exporter's does not count" :
		      "the device needs cuMemPoolSetAccess()");
	report_stack(&report, call->stack, "used by %s", call->name);
	report_stack(&report, memory->born->stack, "%s of %llu bytes, made by %s", memory_name(memory),
		     (unsigned long long)memory->size, memory->born->call);
	report_end(&report);
}

/*
 * Whether a refused call may have failed because a context's device has no access to a pool. Host memory of a pool
 * needs access for fills only: copies that name it as device memory, and operations on values, are refused with
 * access, too.
 */
static bool lacks_access(const struct call *call, const struct memory *memory, const void *context)
{
	if (memory->kind != MEMORY_POOL && !(memory->kind == MEMORY_IMPORTED && memory->pool))
		return false;
	if (memory->host && strncmp(call->name, "cuMemset", 8))
		return false;
	return context && !driver->reached(memory->base, context);
}

void call_failed(const struct call *call, const void *context, uint64_t addr, uint64_t bytes)
{
	const struct memory *memory = memory_at(addr), *other;

	if (call->result != CUDA_ERROR_INVALID_VALUE || !addr)
		return;
	if (memory) {
		if (bytes > memory->base + memory->size - addr)
			out_of_bounds(call, memory, addr, bytes);
		else if (lacks_access(call, memory, context))
			no_access(call, memory, addr);
		return;
	}
	other = memory_freed_at(addr);
	/* Memory that was registered is the program's own. */
	if (other && other->freed && other->kind != MEMORY_REGISTERED) {
		used_after_free(call, other, addr, bytes);
		return;
	}
	other = memory_beside(addr, bytes);
	if (other)
		out_of_bounds(call, other, addr, bytes);
}

/* ---- the tap */

static bool off(void)
{
	return unlikely(!running);
}

/*
 * A thread that is cancelled with the lock would keep it. So functions below that reach cancellation points disable
 * cancellation themselves.
 */
static void lock(void)
{
	pthread_mutex_lock(&check_lock);
	driver->pairs(pair_happened);
}

static void unlock(void)
{
	pthread_mutex_unlock(&check_lock);
}

static void forked(void)
{
	running = false;
}

static void tap_begin(const char *name, const char *names, const uint64_t *values, unsigned int count)
{
	struct under_way *under_way;
	const struct call_type *type;
	unsigned int i;
	bool own;

	(void)names;
	/*
	 * A signal handler that left the outer call by siglongjmp() has unwound the stack. A handler that interrupts the
	 * checker itself, maybe on another stack, is not modelled.
	 */
	if (thread.depth && !thread.inside && (const void *)__builtin_frame_address(0) > thread.frame)
		thread.depth = 0;
	if (thread.depth++) {
		thread.nested = true;
		return;
	}
	if (off())
		return;
	thread.nested = false;
	thread.frame = __builtin_frame_address(0);
	under_way = &thread.outer;
	type = type_of(name, &own);
	under_way->type = type;
	if (!type)
		return;
	for (i = 0; i < count; i++)
		under_way->call.value[i] = values[i];
	/* Clear what the call before has left. */
	for (; i < under_way->call.count; i++)
		under_way->call.value[i] = 0;
	under_way->call.name = type->name;
	under_way->call.own = own;
	under_way->call.count = count;
	under_way->call.result = CUDA_SUCCESS;
	under_way->call.stack = NULL;
	driver->untouch();
	if (!type->before && !driver->pairs_any())
		return;
	thread.inside = true;
	lock();
	if (type->before) {
		under_way->call.stack = stack_here();
		type->before(&under_way->call);
	}
	unlock();
	thread.inside = false;
}

static void tap_end(const char *name, CUresult result)
{
	struct under_way *under_way = &thread.outer;
	const struct call_type *type = under_way->type;

	(void)name;
	/* cuInit() began before the checker did. */
	if (!thread.depth)
		return;
	if (thread.depth > 1 || off() || !type || !type->after || result == CUDA_ERROR_NOT_READY) {
		thread.depth--;
		return;
	}
	/* A signal handler that calls the driver meanwhile finds a call under way. */
	thread.inside = true;
	lock();
	if (!under_way->call.stack)
		under_way->call.stack = stack_here();
	under_way->call.result = result;
	under_way->call.nested = thread.nested;
	type->after(&under_way->call);
	unlock();
	thread.inside = false;
	thread.depth--;
}

static void tap_host_function(CUstream handle, const void *function, const void *arg)
{
	if (off())
		return;
	lock();
	step_host_ran((uintptr_t)handle, function, arg);
	pinned_compare(false);
	unlock();
}

static void tap_reported(void)
{
	__atomic_fetch_add(&driver_reports, 1, __ATOMIC_RELAXED);
}

/* The program has unmapped pinned memory that it had freed, and that the driver kept. */
static void freed_unmapped(uint64_t base, uint64_t size)
{
	const struct memory *memory = memory_freed_at(base);
	struct report report;

	report_begin(&report, REPORT_HOST_UNMAPPED, "pinned memory was unmapped after its free: %llu bytes at 0x%llx",
		     (unsigned long long)size, (unsigned long long)base);
	report_detail(&report, "the addresses of freed memory are the library's");
	if (memory) {
		report_stack(&report, memory->freed->stack, "freed by %s", memory->freed->call);
		report_stack(&report, memory->born->stack, "made by %s", memory->born->call);
	}
	report_end(&report);
}

static void tap_changed(uint64_t base, uint64_t size, uint64_t offset)
{
	const struct memory *memory;
	struct report report;

	if (off())
		return;
	lock();
	if (offset == TAP_UNMAPPED) {
		freed_unmapped(base, size);
		unlock();
		return;
	}
	/* A red zone is looked at when the memory is freed for good: the checker may not know of the free yet. */
	memory = memory_freed_at(base);
	if (!memory && offset >= size)
		memory = memory_at(base);
	if (offset < size && (!memory || memory->freed)) {
		report_begin(&report, REPORT_USE_AFTER_FREE, "byte %llu of freed memory at 0x%llx has changed",
			     (unsigned long long)offset, (unsigned long long)base);
		report_detail(&report, "the CPU wrote it, or a device, or work of another context that the free did not wait for");
		if (memory)
			report_stack(&report, memory->freed->stack, "freed by %s in %s", memory->freed->call,
				     memory->freed->actor->name);
		else
			report_detail(&report, "%llu bytes; the checker knows the last frees only, and this is no more of them",
				      (unsigned long long)size);
	} else if (memory && offset >= size) {
		report_begin(&report, REPORT_OUT_OF_BOUNDS, "byte %llu behind the end of memory at 0x%llx has changed",
			     (unsigned long long)(offset - size), (unsigned long long)base);
		report_detail(&report, "the CPU wrote it, or a device that reaches the memory");
	} else {
		unlock();
		return;
	}
	if (memory)
		report_stack(&report, memory->born->stack, "%s of %llu bytes at 0x%llx, made by %s", memory_name(memory),
			     (unsigned long long)memory->size, (unsigned long long)memory->base, memory->born->call);
	report_end(&report);
	unlock();
}

static struct tap tap = {
	.version = TAP_VERSION, .begin = tap_begin, .end = tap_end, .host_function = tap_host_function,
	.reported = tap_reported, .changed = tap_changed,
};

__attribute__((visibility("default"))) const struct tap *gpumem_check_start(const struct tap_client *client);
const struct tap *gpumem_check_start(const struct tap_client *client)
{
	if (client->version != TAP_VERSION)
		return NULL;
	driver = client;
	if (pthread_atfork(NULL, NULL, forked))
		return NULL;
	running = true;
	options_read();
	tap.pairs = !options.stacks;
	stacks_start();
	mapped_start();
	actors_start();
	types_add(calls_memory);
	types_add(calls_copy);
	types_add(calls_stream);
	return &tap;
}

/* After all functions that the program registered with atexit(). */
static __attribute__((destructor)) void finish(void)
{
	struct timespec soon;
	unsigned int count;

	if (!driver || off())
		return;
	driver->verify();
	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_sec++;
	/* Another thread may be in a call for ever. */
	if (!pthread_mutex_timedlock(&check_lock, &soon)) {
		driver->pairs(pair_happened);
		mapped_look_all();
		steps_settle_all();
		leaks_report(NULL);
		reports_finish();
		running = false;
		pthread_mutex_unlock(&check_lock);
	}
	count = reports_count() + __atomic_load_n(&driver_reports, __ATOMIC_RELAXED);
	if (count && !options.log_only) {
		fflush(NULL);
		_exit(options.exit);
	}
}
