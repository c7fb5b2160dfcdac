// SPDX-License-Identifier: GPL-2.0
/* Tests attachments of managed memory to streams that execute host functions, and to streams that are destroyed. */
#include "attach_fixture.h"

/* --- host functions: their stream counts as idle while they run */

struct call {
	CUdeviceptr p;
	int result;			/* of a system call */
	volatile int state;		/* 1: the function runs; 2: it may return; 3: it returns */
};

static void CUDA_CB use_memory(void *arg)
{
	struct call *call = arg;

	call->result = system_call();
	touch();
	cpu(call->p)[1] = 5;
}

static void CUDA_CB stay(void *arg)
{
	struct call *call = arg;

	call->state = 1;
	while (call->state != 2)
		nap_ms(1);
	call->state = 3;
}

/* A function uses memory of its stream, and of all streams, between two operations. */
static int function_uses(void)
{
	struct call call;

	NEED_CU(begin());
	for (int i = 0; i < 2; i++) {
		NEED_CU(attach(s1, i ? SINGLE : GLOBAL));
		NEED_CU(cuStreamSynchronize(s1));
		call = (struct call){ .p = o->p, .result = -1 };
		NEED_CU(hold(s1));
		NEED_CU(cuMemsetD8Async(o->p, 7, SIZE, s1));
		NEED_CU(cuLaunchHostFunc(s1, use_memory, &call));
		NEED_CU(cuMemsetD8Async(o->p + 2, 9, SIZE - 2, s1));
		NEED(system_call() == EFAULT);
		gate_open(gate);
		NEED_CU(cuStreamSynchronize(s1));
		NEED(!call.result);
		NEED(cpu(o->p)[0] == 7 && cpu(o->p)[1] == 5 && cpu(o->p)[AT] == 9);
	}
	return 0;
}

/* Other threads have access, too, also if other streams wait for the function.  Then the streams go on. */
static int function_stays(void)
{
	struct call call = { .state = 0 };
	CUevent event;

	NEED_CU(begin());
	NEED_CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	NEED_CU(cuLaunchHostFunc(s1, stay, &call));
	while (!call.state)
		nap_ms(1);
	NEED(!system_call());
	NEED_CU(cuEventRecord(event, s1));
	NEED_CU(cuStreamWaitEvent(s2, event, 0));
	NEED_CU(cuMemsetD8Async(o->p, 1, SIZE, s2));
	NEED_CU(hold(s2));
	NEED(!system_call());
	touch();
	call.state = 2;
	NEED_CU(cuStreamSynchronize(s1));
	NEED(system_call() == EFAULT);
	touch();
	return 0;
}

/* A function without work behind it leaves the stream idle. */
static int function_last(void)
{
	struct call call = { .state = 2 };

	NEED_CU(begin());
	for (int i = 0; i < 200; i++) {
		call.state = 0;
		NEED_CU(cuLaunchHostFunc(s1, stay, &call));
		while (!call.state)
			;
		call.state = 2;
		for (int k = 0; k < 100; k++)
			touch_at(o->p + AT);
		NEED(!system_call());
		/* The next round must not take the answer away. */
		while (call.state != 3)
			nap_ms(1);
	}
	return 0;
}

/* Work of another stream counts all the same. */
static int function_beside(void)
{
	struct call call = { .p = 0 };

	NEED_CU(begin());
	call.p = o->p;
	NEED_CU(hold(s2));
	NEED_CU(cuLaunchHostFunc(s1, use_memory, &call));
	NEED_CU(cuStreamSynchronize(s1));
	return 0;
}

/* A stream is destroyed while its function runs: its memory is attached to it until the work is done. */
static int function_destroyed(void)
{
	struct call call = { .state = 0 };

	NEED_CU(begin_with(0, HOST));
	NEED_CU(attach(s1, SINGLE));
	NEED_CU(cuLaunchHostFunc(s1, stay, &call));
	while (!call.state)
		nap_ms(1);
	NEED_CU(cuStreamWriteValue32(s1, (uintptr_t)mark, 1, 0));
	NEED_CU(hold(s1));
	NEED_CU(cuStreamDestroy(s1));
	touch();
	call.state = 2;
	NEED(!wait_silently());
	touch();
	return 0;
}

/* The same with nothing behind the function: then the memory is attached to all streams. */
static int function_orphan(void)
{
	struct call call = { .state = 0 };

	NEED_CU(begin());
	NEED_CU(attach(s1, SINGLE));
	NEED_CU(cuLaunchHostFunc(s1, stay, &call));
	while (!call.state)
		nap_ms(1);
	NEED_CU(cuStreamDestroy(s1));
	call.state = 2;
	NEED_CU(cuCtxSynchronize());
	NEED(!system_call());
	NEED_CU(hold(s2));
	NEED(system_call() == EFAULT);
	gate_open(gate);
	NEED_CU(cuStreamSynchronize(s2));
	return 0;
}

TEST_F(attach, functions)
{
	FINE(function_uses);
	DENIED(function_stays, 2, ", attached to all streams: ");
	FINE(function_last);
	DENIED(function_beside, 1, ", attached to all streams: ");
	DENIED(function_destroyed, 2, ", attached to one stream: a destroyed stream of ");
	FINE(function_orphan);
}

/* --- destroyed streams */

static int destroyed_busy(void)
{
	NEED_CU(begin());
	NEED_CU(attach(s1, SINGLE));
	NEED_CU(hold(s1));
	NEED_CU(cuStreamDestroy(s1));
	touch();
	return 0;
}

/* The stream's work is done: the memory is attached to all streams again. */
static int destroyed_done(void)
{
	CUevent event;

	NEED_CU(begin());
	NEED_CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	NEED_CU(attach(s1, SINGLE));
	NEED_CU(hold(s1));
	NEED_CU(cuEventRecord(event, s1));
	NEED_CU(cuStreamDestroy(s1));
	gate_open(gate);
	NEED_CU(cuEventSynchronize(event));
	touch();
	NEED_CU(hold(s2));
	touch();
	return 0;
}

/* The same without a call that waits: a page fault finds the default. */
static int destroyed_silently(void)
{
	NEED_CU(begin());
	NEED_CU(attach(s1, SINGLE));
	NEED_CU(hold(s1));
	NEED_CU(cuStreamWriteValue32(s1, (uintptr_t)mark, 1, 0));
	NEED_CU(cuStreamDestroy(s1));
	gate_open(gate);
	NEED(!wait_silently());
	touch();
	NEED_CU(hold(s2));
	touch();
	return 0;
}

static int destroyed_idle(void)
{
	NEED_CU(begin());
	NEED_CU(attach(s1, SINGLE));
	NEED_CU(hold(s2));
	touch();
	NEED_CU(cuStreamDestroy(s1));
	touch();
	return 0;
}

/* The default is HOST. */
static int destroyed_host(void)
{
	CUevent event;

	NEED_CU(begin_with(0, HOST));
	NEED_CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	NEED_CU(attach(s1, SINGLE));
	NEED_CU(hold(s1));
	NEED_CU(hold_for_ever(s2));
	NEED_CU(cuEventRecord(event, s1));
	NEED_CU(cuStreamDestroy(s1));
	NEED(system_call() == EFAULT);
	gate_open(gate);
	NEED_CU(cuEventSynchronize(event));
	NEED(!system_call());
	touch();
	gate[32] = 1;
	return 0;
}

/* With the default HOST, exclusive devices are refused again: of an idle stream, a busy one, and by a page fault. */
static int destroyed_refuses(void)
{
	NEED_CU(begin_with(0, HOST));
	for (int i = 0; i < 3; i++) {
		*mark = 0;
		NEED_CU(attach(s1, SINGLE));
		NEED_CU(cuMemsetD8(o->p, 1, SIZE));
		if (i) {
			NEED_CU(hold(s1));
			NEED_CU(cuStreamWriteValue32(s1, (uintptr_t)mark, 1, 0));
		}
		NEED_CU(cuStreamDestroy(s1));
		gate_open(gate);
		if (i == 1)
			NEED_CU(cuCtxSynchronize());
		if (i == 2) {
			NEED(!wait_silently());
			touch();
		}
		NEED(cuMemsetD8(o->p, 1, SIZE) == INVALID);
		NEED(cuMemcpyDtoDAsync(dev, o->p, SIZE, s2) == INVALID);
		NEED(!system_call());
		NEED_CU(cuStreamCreate(&s1, CU_STREAM_NON_BLOCKING));
	}
	return 0;
}

/* A change that another stream has not made yet is not undone. */
static int destroyed_then_asked(void)
{
	NEED_CU(begin_with(0, HOST));
	NEED_CU(attach(s1, SINGLE));
	NEED_CU(hold(s2));
	NEED_CU(attach(s2, GLOBAL));
	NEED_CU(cuStreamDestroy(s1));
	NEED_CU(cuMemsetD8Async(o->p, 4, SIZE, s2));
	gate_open(gate);
	NEED_CU(cuStreamSynchronize(s2));
	NEED(all_are(cpu(o->p), 4, SIZE));
	NEED_CU(cuMemsetD8(o->p, 5, SIZE));
	NEED_CU(hold(s2));
	NEED(system_call() == EFAULT);
	gate_open(gate);
	return 0;
}

/* The stream is destroyed before the change: afterwards the memory has its default. */
static int destroyed_before(void)
{
	NEED_CU(begin_with(0, HOST));
	NEED_CU(hold(s1));
	NEED_CU(attach(s1, SINGLE));
	NEED_CU(cuStreamDestroy(s1));
	touch();
	gate_open(gate);
	NEED_CU(cuCtxSynchronize());
	NEED(cuMemsetD8(o->p, 1, SIZE) == INVALID);
	NEED_CU(hold(s2));
	touch();
	gate_open(gate);
	return 0;
}

/* Many streams, with work and without, and a context that ends with attached memory. */
static int destroyed_many(void)
{
	CUcontext other;
	CUdeviceptr p;
	CUstream s;

	NEED_CU(begin());
	for (int i = 0; i < 200; i++) {
		NEED_CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
		NEED_CU(attach(s, SINGLE));
		if (i % 2)
			NEED_CU(cuMemsetD8Async(o->p, i, SIZE, s));
		NEED_CU(cuStreamDestroy(s));
		if (i % 3)
			NEED_CU(cuCtxSynchronize());
	}
	NEED_CU(cuCtxSynchronize());
	touch();
	NEED_CU(cuCtxCreate(&other, NULL, 0, 0));
	NEED_CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	NEED_CU(cuMemAllocManaged(&p, 3 * MIB, GLOBAL));
	NEED_CU(cuStreamAttachMemAsync(s, p, 0, SINGLE));
	NEED_CU(cuStreamAttachMemAsync(s, o->p, 0, SINGLE));
	NEED_CU(cuMemsetD8Async(p, 1, 3 * MIB, s));
	NEED_CU(cuCtxDestroy(other));
	NEED_CU(cuCtxSetCurrent(ctx));
	touch();
	NEED_CU(hold(s2));
	NEED(system_call() == EFAULT);
	gate_open(gate);
	NEED_CU(cuStreamSynchronize(s2));
	return 0;
}

TEST_F(attach, destroyed_streams)
{
	DENIED(destroyed_busy, 1, ", attached to one stream: a destroyed stream of device 0 executes operation ");
	DENIED(destroyed_done, 2, ", attached to all streams: ");
	DENIED(destroyed_silently, 2, ", attached to all streams: ");
	DENIED(destroyed_idle, 2, ", attached to all streams: ");
	FINE(destroyed_host);
	FINE(destroyed_refuses);
	FINE(destroyed_then_asked);
	FINE(destroyed_before);
	FINE(destroyed_many);
}

TEST_HARNESS_MAIN
