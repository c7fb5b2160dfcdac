// SPDX-License-Identifier: MIT
/*
 * Errors that help: what GPUMEM_DEBUG=1 prints.
 *
 * Owns one record for each thread that ever noted a call: the name and the arguments of the public
 * function that the thread entered last, the system call that failed last in it, and why the thread's
 * last cuInit() failed. When a function is entered, the record forgets the earlier failed system
 * call. A line names the system call only if its errno means the result that the function returns: the
 * library may have recovered from another error. The record is made when a thread notes its first call
 * or its cuInit() fails, and freed when the thread ends.
 *
 * Each line is written by one system call, so lines of several threads do not mix. The functions of
 * this file take no lock and have no cancellation point.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/core.h"

struct record {
	const char *name, *names;
	struct debug_value values[DEBUG_MOST];
	const char *failed;		/* the system call that failed, or NULL */
	int error;
	struct gpumem_refusal_info refusal;	/* limit is 0 if the kernel gave no reason */
	char reason[DEBUG_REASON];	/* of the last cuInit(); "" if it succeeded */
};

static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static bool key_made;

static void make_key(void)
{
	key_made = !pthread_key_create(&key, free);
}

/* The calling thread's record; NULL if there is none and @make is false, or no memory. */
static struct record *record_of(bool make)
{
	struct record *record;

	pthread_once(&key_once, make_key);
	if (!key_made)
		return NULL;
	record = pthread_getspecific(key);
	if (record || !make)
		return record;
	record = calloc(1, sizeof(*record));
	if (record && pthread_setspecific(key, record)) {
		free(record);
		record = NULL;
	}
	return record;
}

/* ---- lines */

/* Text that does not fit is cut. */
void debug_add(struct debug_line *line, const char *format, ...)
{
	size_t room = sizeof(line->text) - 1 - line->length;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(line->text + line->length, room, format, args);
	va_end(args);
	if (n > 0)
		line->length += (size_t)n < room ? (size_t)n : room - 1;
}

/* write() would let the thread be cancelled, and a caller may hold locks. */
void debug_print(struct debug_line *line)
{
	size_t done = 0;
	ssize_t n;

	line->text[line->length++] = '\n';
	while (done < line->length) {
		n = syscall(SYS_write, STDERR_FILENO, line->text + done, line->length - done);
		if (n < 0 && errno != EINTR)
			break;
		if (n > 0)
			done += n;
	}
}

/* ---- names */

static const char *errno_name(int error)
{
	static const struct {
		int error;
		const char *name;
	} names[] = {
#define E(name)	{ name, #name }
		E(EPERM), E(ENOENT), E(EINTR), E(EIO), E(E2BIG), E(EBADF), E(EAGAIN), E(ENOMEM),
		E(EACCES), E(EFAULT), E(EBUSY), E(EEXIST), E(ENODEV), E(EINVAL), E(ENFILE),
		E(EMFILE), E(ENOTTY), E(ENOSPC), E(EPROTO), E(EOVERFLOW), E(EOPNOTSUPP),
		E(ECANCELED), E(ETIMEDOUT), E(EDQUOT), E(EHWPOISON),
#undef E
	};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].error == error)
			return names[i].name;
	return NULL;
}

void debug_add_errno(struct debug_line *line, int error)
{
	const char *name = errno_name(error);

	if (name)
		debug_add(line, "%s", name);
	else
		debug_add(line, "errno %d", error);
}

static const char *request_name(unsigned long request)
{
#define R(name)	case GPUMEM_ ## name: return "GPUMEM_" #name
	switch (request) {
	R(INFO); R(DEVICE_ATTACH); R(DESTROY); R(BO_ALLOC); R(BO_INFO); R(BO_RETIRE); R(BO_EXPORT);
	R(BO_IMPORT); R(TOKEN_CREATE); R(TOKEN_OPEN); R(VM_CREATE); R(VM_MAP); R(VM_UNMAP);
	R(VM_ACCESS); R(VM_BIND); R(STREAM_CREATE); R(STREAM_DOORBELL); R(TIMELINE_CREATE);
	R(TIMELINE_SIGNAL); R(TIMELINE_WAIT); R(STATS); R(BO_PIN); R(EVENT_CREATE);
	R(EVENT_OPEN); R(EVENT_RECORD); R(EVENT_GET); R(POOL_CREATE); R(POOL_SET); R(POOL_INFO);
	R(POOL_EXPORT); R(POOL_IMPORT); R(POOL_CHUNK_OPEN); R(CHANNEL_ATTACH); R(REFUSAL);
	R(TIMELINE_TAKE); R(TIMELINE_EXPORT); R(TIMELINE_IMPORT); R(VM_EXPORT); R(BO_ADVISE);
	}
#undef R
	return "ioctl";
}

/* The limit, and how to raise it. */
static const char *limit_name(unsigned int limit)
{
	switch (limit) {
	case GPUMEM_LIMIT_DEVICE:
		return "the device's memory (its attribute size)";
	case GPUMEM_LIMIT_HOST:
		return "the system's memory for pinned host memory";
	case GPUMEM_LIMIT_PINNED:
		return "what one user may pin (the module's parameter pin_limit)";
	case GPUMEM_LIMIT_PINNED_ALL:
		return "what all users may pin (the module's parameter pin_total)";
	case GPUMEM_LIMIT_MEMLOCK:
		return "the process's RLIMIT_MEMLOCK (the module's parameter memlock)";
	case GPUMEM_LIMIT_MEMCG:
		return "a memory cgroup of the process (memory.max)";
	case GPUMEM_LIMIT_SYSTEM:
		return "the system has no memory left";
	case GPUMEM_LIMIT_OBJECTS:
		return "objects of one process";
	case GPUMEM_LIMIT_STREAMS:
		return "streams of one process";
	case GPUMEM_LIMIT_POOL:
		return "the pool's own limit (maxSize)";
	case GPUMEM_LIMIT_MAPPINGS:
		return "mappings of one user (the module's parameter map_limit)";
	case GPUMEM_LIMIT_RINGS:
		return "rings of one user (the module's parameter ring_limit)";
	case GPUMEM_LIMIT_RINGS_ALL:
		return "rings of all users (the module's parameter ring_total)";
	case GPUMEM_LIMIT_DMEM:
		return "a dmem cgroup of the process (dmem.max)";
	}
	return "a limit that this library does not know";
}

/* ---- calls */

CUresult debug_note(bool faults, const char *name, const char *names, const struct debug_value *values,
		    unsigned int count)
{
	struct record *record = client.debug ? record_of(true) : NULL;
	uint64_t numbers[DEBUG_MOST];
	unsigned int i;

	if (record) {
		record->name = name;
		record->names = names;
		record->failed = NULL;
		record->refusal.limit = 0;
		memcpy(record->values, values, count * sizeof(*values));
	}
	if (!client.watched)
		return CUDA_SUCCESS;
	for (i = 0; i < count; i++)
		numbers[i] = values[i].number;
	if (client.tap)
		client.tap->begin(name, names, numbers, count);
	/* The locks that the functions below take may be held for ever in a forked child. */
	if (not_initialized())
		return CUDA_SUCCESS;
	if (client.scheduled)
		client.hooks->call(name);
	return client.faults && faults ? fault_call(name, names, values, count) : CUDA_SUCCESS;
}

void call_report(const char *call, CUresult result)
{
	if (client.tap)
		client.tap->end(call, result);
	if (result)
		debug_failure(call, result);
}

void debug_system_call(const char *what, int error)
{
	struct record *record = client.debug ? record_of(true) : NULL;

	if (!record)
		return;
	record->failed = what;
	record->error = error;
	record->refusal.limit = 0;
}

void debug_refused_call(const char *what, int error)
{
	struct gpumem_refusal_info refusal = { .size = sizeof(refusal) };
	struct record *record;

	debug_system_call(what, error);
	record = record_of(false);
	if (record && !ioctl(client.fd, GPUMEM_REFUSAL, &refusal))
		record->refusal = refusal;
}

void debug_ioctl(unsigned long request, int error)
{
	if (error == ENOSPC || error == EDQUOT || error == ENOMEM || error == EMFILE)
		debug_refused_call(request_name(request), error);
	else
		debug_system_call(request_name(request), error);
}

void debug_refused(unsigned int limit, CUdevice device, uint64_t asked, uint64_t used, uint64_t max)
{
	struct record *record = client.debug ? record_of(true) : NULL;

	if (!record)
		return;
	record->failed = NULL;
	record->refusal = (struct gpumem_refusal_info) {
		.limit = limit, .device = client.device[device].ordinal, .asked = asked, .used = used,
		.max = max,
	};
}

static void add_value(struct debug_line *line, const struct debug_value *value)
{
	switch (value->kind) {
	case DEBUG_SIGNED:
		debug_add(line, "%lld", (long long)value->number);
		break;
	case DEBUG_UNSIGNED:
		debug_add(line, "%llu", (unsigned long long)value->number);
		break;
	case DEBUG_TEXT:
		if (value->number) {
			debug_add(line, "\"%.64s\"", (const char *)(uintptr_t)value->number);
			break;
		}
		/* fallthrough */
	case DEBUG_ADDRESS:
		debug_add(line, "0x%llx", (unsigned long long)value->number);
		break;
	}
}

static void add_arguments(struct debug_line *line, const struct record *record)
{
	const char *at = record->names;
	size_t i = 0, length;

	debug_add(line, "(");
	while (*at && i < DEBUG_MOST) {
		length = strcspn(at, ",");
		debug_add(line, "%s%.*s=", i ? ", " : "", (int)length, at);
		add_value(line, &record->values[i++]);
		at += length;
		at += strspn(at, ", ");
	}
	debug_add(line, ")");
}

static void add_refusal(struct debug_line *line, const struct gpumem_refusal_info *r)
{
	const bool things = r->limit == GPUMEM_LIMIT_OBJECTS || r->limit == GPUMEM_LIMIT_STREAMS ||
		r->limit == GPUMEM_LIMIT_MAPPINGS;
	const char *unit = things ? "" : " bytes";

	debug_add(line, ": limit: %s", limit_name(r->limit));
	if (r->limit == GPUMEM_LIMIT_DEVICE)
		debug_add(line, " of /dev/gpumem%u", r->device);
	debug_add(line, ": asked for %llu%s", (unsigned long long)r->asked, unit);
	if (r->used)
		debug_add(line, ", used %llu", (unsigned long long)r->used);
	if (r->max)
		debug_add(line, "%s %llu%s", r->used ? " of" : ", the limit is",
		    (unsigned long long)r->max, unit);
}

/* Before cuInit() the library has not read the environment. */
static bool debugging(void)
{
	const char *env;

	if (client.debug)
		return true;
	env = client.fd < 0 ? getenv("GPUMEM_DEBUG") : NULL;
	return env && strcmp(env, "0");
}

void debug_failure(const char *call, CUresult result)
{
	struct debug_line line = { .length = 0 };
	int saved = errno;
	struct record *record;
	const char *name;

	if (result == CUDA_ERROR_NOT_READY || !debugging())
		return;
	name = error_name(result);
	record = record_of(false);
	debug_add(&line, "gpumem: %s", call);
	if (record && (!record->name || strcmp(record->name, call)))
		record = NULL;
	if (record)
		add_arguments(&line, record);
	debug_add(&line, ": %s", name ? name : "?");
	if (record && record->failed && result_of_errno(record->error) == result) {
		debug_add(&line, ": %s: ", record->failed);
		debug_add_errno(&line, record->error);
	}
	if (record && result == CUDA_ERROR_OUT_OF_MEMORY && record->refusal.limit)
		add_refusal(&line, &record->refusal);
	debug_print(&line);
	errno = saved;
}

/* ---- programs that cannot work at all */

void debug_explain(uint32_t *printed, const char *reason)
{
	struct debug_line line = { .length = 0 };
	int saved = errno;

	if (debugging() || (isatty(STDERR_FILENO) &&
			    !__atomic_exchange_n(printed, 1, __ATOMIC_RELAXED))) {
		debug_add(&line, "%s", reason);
		debug_print(&line);
	}
	errno = saved;
}

void debug_init(const char *reason)
{
	static uint32_t printed;
	struct record *record = record_of(reason);

	if (record)
		snprintf(record->reason, sizeof(record->reason), "%s", reason ? reason : "");
	if (reason)
		debug_explain(&printed, reason);
}

const char *debug_init_reason(void)
{
	struct record *record = record_of(false);

	return record && record->reason[0] ? record->reason : NULL;
}
