// SPDX-License-Identifier: MIT
/*
 * Calls that order: streams, events, synchronization, values, host functions, semaphores, contexts.
 */
#include <stdlib.h>

#include "check/check.h"

static void join_actor(struct actor *actor, void *arg)
{
	(void)arg;
	steps_settle(actor);
	actor_known(actor);
}

void host_waited(struct actor *actor)
{
	steps_settle(actor);
	if (actor->kind == ACTOR_LEGACY)
		actor_step(actor, false);
	actor_known(actor);
}

/* The host waited for all work of a context, or of all contexts. */
static void host_waited_context(const void *context)
{
	if (!context)
		steps_settle_all();
	actors_each(context, join_actor, NULL);
	pinned_compare(false);
}

/* ---- streams */

static void stream_create(struct call *call)
{
	struct actor *actor;

	if (call->result)
		return;
	actor = actor_of(*(CUstream *)(uintptr_t)call->value[0], false);
	/* The handle may be that of a stream whose end the checker has not seen. */
	if (actor && actor->made) {
		actor_end(actor);
		actor = actor_of(*(CUstream *)(uintptr_t)call->value[0], false);
	}
	if (actor)
		actor->made = call->stack;
}

static void handle_ended(const struct call *call, const char *what, const char *name, const char *ended_by,
			 const struct stack *stack)
{
	struct report report;

	report_begin(&report, REPORT_INVALID_HANDLE, "%s is given %s, which was destroyed", call->name, what);
	report_stack(&report, call->stack, "used by %s", call->name);
	report_stack(&report, stack, "%s destroyed by %s", name, ended_by);
	report_end(&report);
}

void stream_invalid(const struct call *call, int index)
{
	const struct actor *actor;

	if (call->result != CUDA_ERROR_INVALID_HANDLE || index < 0 || (unsigned int)index >= call->count)
		return;
	actor = actor_ended((CUstream)(uintptr_t)call->value[index]);
	if (actor)
		handle_ended(call, actor->name, actor->name, "cuStreamDestroy", actor->made);
}

static void event_invalid(const struct call *call, uint64_t handle)
{
	const char *by;
	const struct stack *stack;

	if (call->result != CUDA_ERROR_INVALID_HANDLE || event_of((CUevent)(uintptr_t)handle))
		return;
	stack = event_ended((CUevent)(uintptr_t)handle, &by);
	if (by)
		handle_ended(call, "an event", "the event", by, stack);
}

static void stream_destroy_begin(struct call *call)
{
	struct tap_stream stream;
	CUstream handle = (CUstream)(uintptr_t)call->value[0];
	struct actor *actor;

	if ((uintptr_t)handle < 4096 || !driver->stream(handle, false, &stream) || !stream.created)
		return;
	actor = actor_of(handle, false);
	if (!actor)
		return;
	/* From now on the stack of the end, for reports of stale handles. */
	actor->made = call->stack;
	actor_end(actor);
}

static void stream_destroy(struct call *call)
{
	stream_invalid(call, 0);
}

static void stream_synchronize(struct call *call)
{
	struct actor *actor = call->result ? NULL : call_actor(call, 0);

	if (call->result)
		stream_invalid(call, 0);
	if (!actor)
		return;
	mapped_queued();
	host_waited(actor);
	mapped_done();
	pinned_compare(false);
}

/* ---- events */

static void event_create(struct call *call)
{
	struct event *event;

	if (call->result)
		return;
	event = event_add(*(CUevent *)(uintptr_t)call->value[0]);
	if (!event)
		return;
	/* The handle may be that of an event whose end the checker has not seen. */
	version_drop(event->version);
	event->version = NULL;
	event->made = call->stack;
	event->context = driver->context();
	event->passed = false;
}

static void event_open(struct call *call)
{
	event_create(call);
	if (!call->result) {
		struct event *event = event_of(*(CUevent *)(uintptr_t)call->value[0]);

		if (event)
			event->passed = true;
	}
}

/* Another process may wait for the record. */
static void version_pass(struct version *version)
{
	version->passed = true;
	steps_published(version);
	if (version->done) {
		clock_join(&polled, &version->clock);
		clock_join(&published, &version->clock);
	}
}

static void event_pass(struct call *call)
{
	struct event *event = call->result || call->count < 2 ? NULL : event_of((CUevent)(uintptr_t)call->value[1]);

	if (!event)
		return;
	event->passed = true;
	if (event->version)
		version_pass(event->version);
}

static void event_destroy_begin(struct call *call)
{
	struct event *event = event_of((CUevent)(uintptr_t)call->value[0]);

	if (event)
		event_remove(event);
}

static void event_destroy(struct call *call)
{
	event_invalid(call, call->value[0]);
}

/* Record an event at the end of an actor's steps. */
static void record(struct event *event, struct actor *actor)
{
	struct step *step = step_new(STEP_RECORD, actor);
	struct version *version = calloc(1, sizeof(*version));

	if (!step || !version) {
		free(version);
		if (step)
			step_free(step);
		return;
	}
	version->refs = 2;
	version->actor = actor_hold(actor);
	version->passed = event->passed;
	step->version = version;
	version_drop(event->version);
	event->version = version;
	step_submit(step);
}

static void wrong_context(const struct call *call, const struct event *event, const struct actor *actor)
{
	struct report report;

	report_begin(&report, REPORT_WRONG_CONTEXT, "%s: the event and %s belong to different contexts", call->name,
		     actor->name);
	report_stack(&report, call->stack, "recorded by %s", call->name);
	report_stack(&report, event->made, "event made by cuEventCreate");
	report_end(&report);
}

static void event_record(struct call *call)
{
	struct event *event = event_of((CUevent)(uintptr_t)call->value[0]);
	struct actor *actor = call_actor(call, 1);

	if (call->result) {
		event_invalid(call, call->value[0]);
		stream_invalid(call, 1);
		if (call->result == CUDA_ERROR_INVALID_HANDLE && event && actor && event->context &&
		    event->context != actor->context->key)
			wrong_context(call, event, actor);
		return;
	}
	if (!event)
		event = event_add((CUevent)(uintptr_t)call->value[0]);
	if (event && actor)
		record(event, actor);
}

static void wait_for(struct event *event, struct actor *actor)
{
	struct step *step;

	if (event->version) {
		step = step_new(STEP_WAIT, actor);
		if (!step)
			return;
		step->version = event->version;
		event->version->refs++;
		step_submit(step);
	}
	/* Another process may have recorded it after it waited for what this process recorded. */
	if (event->passed) {
		step = step_new(STEP_AWAIT, actor);
		if (!step)
			return;
		step->value = !event->version;
		step_submit(step);
	}
}

static void stream_wait_event(struct call *call)
{
	struct event *event = event_of((CUevent)(uintptr_t)call->value[1]);
	struct actor *actor = call->result ? NULL : call_actor(call, 0);

	if (call->result) {
		stream_invalid(call, 0);
		event_invalid(call, call->value[1]);
	} else if (event && actor) {
		wait_for(event, actor);
	}
}

/* The host knows that the event's last record is done. */
static void event_known(struct event *event)
{
	struct version *version = event->version;

	if (version) {
		if (!version->done)
			steps_settle(version->actor);
		host_join(&version->clock);
	}
	/* As wait_for(), for the host. */
	if (event->passed)
		published_known();
}

static void event_synchronize(struct call *call)
{
	struct event *event = event_of((CUevent)(uintptr_t)call->value[0]);

	if (call->result) {
		event_invalid(call, call->value[0]);
		return;
	}
	if (!event)
		return;
	mapped_queued();
	event_known(event);
	mapped_done();
	pinned_compare(false);
}

static void event_elapsed(struct call *call)
{
	unsigned int i;

	if (!call->result)
		mapped_queued();
	for (i = 1; !call->result && i < 3; i++) {
		struct event *event = event_of((CUevent)(uintptr_t)call->value[i]);

		if (event)
			event_known(event);
	}
	mapped_done();
	pinned_compare(false);
}

static void wait_each(struct actor *actor, void *arg)
{
	wait_for(arg, actor);
}

static void context_wait_event(struct call *call)
{
	struct event *event = event_of((CUevent)(uintptr_t)call->value[1]);

	if (call->result || !event)
		return;
	actors_each((const void *)(uintptr_t)call->value[0], wait_each, event);
	if (event->version && event->version->done)
		context_after((const void *)(uintptr_t)call->value[0], &event->version->clock);
}

static void collect(struct actor *actor, void *arg)
{
	steps_settle(actor);
	clock_join(arg, &actor->clock);
}

/* The event comes after all work of all streams of the context. */
static void context_record_event(struct call *call)
{
	struct event *event = event_of((CUevent)(uintptr_t)call->value[1]);
	struct version *version;

	if (call->result || !event)
		return;
	version = calloc(1, sizeof(*version));
	if (!version)
		return;
	version->refs = 1;
	version->done = true;
	clock_copy(&version->clock, &host.clock);
	actors_each((const void *)(uintptr_t)call->value[0], collect, &version->clock);
	version_drop(event->version);
	event->version = version;
	if (event->passed)
		version_pass(version);
}

/* ---- contexts */

static void context_synchronize(struct call *call)
{
	const void *context = call->count ? (const void *)(uintptr_t)call->value[0] : NULL;

	if (call->result)
		return;
	mapped_look_all();
	host_waited_context(context ? context : driver->context());
	mapped_done();
}

/* A context ended: its work is done, and its memory is gone. */
static void context_over(const void *context)
{
	leaks_report(context);
	memories_forget(context);
	host_waited_context(context);
	context_end(context);
	object_remove("context", (uintptr_t)context);
}

/* The driver frees the context's memory. */
static void context_end_begin(struct call *call)
{
	(void)call;
	mapped_look_all();
}

static void context_destroy(struct call *call)
{
	const void *context = (const void *)(uintptr_t)call->value[0];

	/* cuCtxDetach() ends a context only with its last use. */
	if (!call->result && !driver->alive(context))
		context_over(context);
}

/* The last argument that is kept is the context, because the call gives a device. */
#define PRIMARY	(TAP_VALUES - 1)

static void primary_end_begin(struct call *call)
{
	call->value[PRIMARY] = (uintptr_t)driver->primary(call->value[0]);
	mapped_look_all();
}

static void primary_release(struct call *call)
{
	const void *context = (const void *)(uintptr_t)call->value[PRIMARY];

	if (!call->result && context && !driver->alive(context))
		context_over(context);
}

static void primary_reset(struct call *call)
{
	const void *context = (const void *)(uintptr_t)call->value[PRIMARY];

	if (!call->result && context)
		context_over(context);
}

/* ---- values */

static void value_step(const struct call *call, struct actor *actor, bool wait, uint64_t addr, uint64_t value,
		       unsigned int bytes, unsigned int flags)
{
	struct step *step = call_step(call, actor, wait ? STEP_WAIT_VALUE : STEP_WRITE_VALUE, OP_ACCESS);
	struct memory *memory = memory_at(addr);

	if (!step)
		return;
	word_use(step->op, wait ? WORD_WAIT : WORD_WRITE, addr, bytes, true, value, flags);
	/* Pageable memory has no shadow. */
	if (memory) {
		step->dst.memory = memory_hold(memory);
		step->dst.at = addr - memory->base;
	}
	step->addr = addr;
	step->value = value;
	step->bytes = bytes;
	step->flags = flags;
	step_submit(step);
}

static void value_of(struct call *call, bool wait, unsigned int bytes)
{
	struct actor *actor = call_actor(call, 0);

	if (call->result) {
		stream_invalid(call, 0);
		call_failed(call, actor_context(actor), call->value[1], bytes);
	} else if (actor) {
		value_step(call, actor, wait, call->value[1], call->value[2], bytes, call->value[3]);
	}
}

static void wait_32(struct call *call)
{
	value_of(call, true, 4);
}

static void wait_64(struct call *call)
{
	value_of(call, true, 8);
}

static void write_32(struct call *call)
{
	value_of(call, false, 4);
}

static void write_64(struct call *call)
{
	value_of(call, false, 8);
}

static void batch_values(struct call *call)
{
	const CUstreamBatchMemOpParams *ops = (const void *)(uintptr_t)call->value[2];
	struct actor *actor = call->result ? NULL : call_actor(call, 0);
	uint64_t i;

	for (i = 0; actor && i < call->value[1]; i++)
		switch (ops[i].operation) {
		case CU_STREAM_MEM_OP_WAIT_VALUE_32:
			value_step(call, actor, true, ops[i].waitValue.address, ops[i].waitValue.value, 4,
				    ops[i].waitValue.flags);
			break;
		case CU_STREAM_MEM_OP_WAIT_VALUE_64:
			value_step(call, actor, true, ops[i].waitValue.address, ops[i].waitValue.value64, 8,
				    ops[i].waitValue.flags);
			break;
		case CU_STREAM_MEM_OP_WRITE_VALUE_32:
			value_step(call, actor, false, ops[i].writeValue.address, ops[i].writeValue.value, 4, 0);
			break;
		case CU_STREAM_MEM_OP_WRITE_VALUE_64:
			value_step(call, actor, false, ops[i].writeValue.address, ops[i].writeValue.value64, 8, 0);
			break;
		default:
			break;
		}
}

/* ---- host functions and semaphores */

static void host_function(struct call *call)
{
	struct actor *actor = call->result ? NULL : call_actor(call, 0);
	struct step *step = actor ? step_new(STEP_HOST, actor) : NULL;

	if (call->result)
		stream_invalid(call, 0);
	if (!step)
		return;
	step->addr = call->value[0];
	step->function = (const void *)(uintptr_t)call->value[1];
	step->arg = (const void *)(uintptr_t)call->value[2];
	step_submit(step);
}

static void semaphore(struct actor *actor, enum step_kind kind, CUexternalSemaphore handle, uint64_t value)
{
	struct semaphore *semaphore = semaphore_of((uintptr_t)handle);
	struct step *step = semaphore ? step_new(kind, actor) : NULL;

	if (!step)
		return;
	step->semaphore = semaphore_hold(semaphore);
	step->value = kind == STEP_AWAIT && semaphore->counts ? ++semaphore->taken : value;
	step_submit(step);
}

static void semaphores_signal(struct call *call)
{
	const CUexternalSemaphore *list = (const void *)(uintptr_t)call->value[0];
	const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *params = (const void *)(uintptr_t)call->value[1];
	struct actor *actor = call->result ? NULL : call_actor(call, 3);
	uint64_t i;

	for (i = 0; actor && i < call->value[2]; i++)
		semaphore(actor, STEP_SIGNAL, list[i], params[i].params.fence.value);
}

static void semaphores_wait(struct call *call)
{
	const CUexternalSemaphore *list = (const void *)(uintptr_t)call->value[0];
	const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *params = (const void *)(uintptr_t)call->value[1];
	struct actor *actor = call->result ? NULL : call_actor(call, 3);
	uint64_t i;

	for (i = 0; actor && i < call->value[2]; i++)
		semaphore(actor, STEP_AWAIT, list[i], params[i].params.fence.value);
}

const struct call_type calls_stream[] = {
	{ "cuStreamCreate", NULL, stream_create },
	{ "cuStreamCreateWithPriority", NULL, stream_create },
	{ "cuStreamDestroy", stream_destroy_begin, stream_destroy },
	{ "cuStreamDestroy_v2", stream_destroy_begin, stream_destroy },
	{ "cuStreamSynchronize", NULL, stream_synchronize },
	{ "cuStreamQuery", NULL, stream_synchronize },
	{ "cuStreamWaitEvent", NULL, stream_wait_event },
	{ "cuEventCreate", NULL, event_create },
	{ "cuIpcOpenEventHandle", NULL, event_open },
	{ "cuIpcGetEventHandle", NULL, event_pass },
	{ "cuEventDestroy", event_destroy_begin, event_destroy },
	{ "cuEventDestroy_v2", event_destroy_begin, event_destroy },
	{ "cuEventRecord", NULL, event_record },
	{ "cuEventRecordWithFlags", NULL, event_record },
	{ "cuEventQuery", NULL, event_synchronize },
	{ "cuEventSynchronize", NULL, event_synchronize },
	{ "cuEventElapsedTime", NULL, event_elapsed },
	{ "cuEventElapsedTime_v2", NULL, event_elapsed },
	{ "cuCtxRecordEvent", NULL, context_record_event },
	{ "cuCtxWaitEvent", NULL, context_wait_event },
	{ "cuCtxSynchronize", NULL, context_synchronize },
	{ "cuCtxSynchronize_v2", NULL, context_synchronize },
	{ "cuCtxDestroy", context_end_begin, context_destroy },
	{ "cuCtxDestroy_v2", context_end_begin, context_destroy },
	{ "cuCtxDetach", context_end_begin, context_destroy },
	{ "cuDevicePrimaryCtxRelease", primary_end_begin, primary_release },
	{ "cuDevicePrimaryCtxRelease_v2", primary_end_begin, primary_release },
	{ "cuDevicePrimaryCtxReset", primary_end_begin, primary_reset },
	{ "cuDevicePrimaryCtxReset_v2", primary_end_begin, primary_reset },
	{ "cuStreamWaitValue32", NULL, wait_32 },
	{ "cuStreamWaitValue32_v2", NULL, wait_32 },
	{ "cuStreamWaitValue64", NULL, wait_64 },
	{ "cuStreamWaitValue64_v2", NULL, wait_64 },
	{ "cuStreamWriteValue32", NULL, write_32 },
	{ "cuStreamWriteValue32_v2", NULL, write_32 },
	{ "cuStreamWriteValue64", NULL, write_64 },
	{ "cuStreamWriteValue64_v2", NULL, write_64 },
	{ "cuStreamBatchMemOp", NULL, batch_values },
	{ "cuStreamBatchMemOp_v2", NULL, batch_values },
	{ "cuLaunchHostFunc", NULL, host_function },
	{ "cuLaunchHostFunc_v2", NULL, host_function },
	{ "cuStreamAddCallback", NULL, host_function },
	{ "cuSignalExternalSemaphoresAsync", NULL, semaphores_signal },
	{ "cuWaitExternalSemaphoresAsync", NULL, semaphores_wait },
	{ NULL, NULL, NULL },
};
