// SPDX-License-Identifier: GPL-2.0
/*
 * Cases of host functions that call the API, callbacks, capture, stream attributes, and events of
 * killed processes.
 */
#include <signal.h>

#include "oracle.h"

/* ---- what a host function may call */

static struct {
	const char *name;
	CUresult rc;
} said[40];
static int nr_said;
static CUstream fn_stream, fn_other;
static CUevent fn_event;
static CUdeviceptr fn_mem;
static void *fn_host;
static int fn_thread_is_caller;
static pthread_t fn_caller;

#define SAY(n, expr) do { said[nr_said].name = (n); said[nr_said++].rc = (expr); } while (0)

static void call_everything(void)
{
	CUcontext c = NULL;
	CUdeviceptr d = 0;
	CUevent e = NULL;
	CUstream s = NULL;
	size_t a = 0, b = 0;
	int v = 0;
	unsigned u = 0;
	void *p = NULL;
	CUdevice dev = 0;
	CUcontext top;

	fn_thread_is_caller = pthread_equal(pthread_self(), fn_caller);
	SAY("init", cuInit(0));
	SAY("driver_version", cuDriverGetVersion(&v));
	SAY("device_get", cuDeviceGet(&dev, 0));
	SAY("device_attribute", cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_INTEGRATED, 0));
	SAY("ctx_get_current", cuCtxGetCurrent(&c));
	SAY("ctx_set_current", cuCtxSetCurrent(g_ctx));
	SAY("ctx_set_null", cuCtxSetCurrent(NULL));
	SAY("ctx_synchronize", cuCtxSynchronize());
	SAY("primary_retain", cuDevicePrimaryCtxRetain(&top, 0));
	SAY("mem_alloc", cuMemAlloc(&d, 4096));
	SAY("mem_free_null", cuMemFree(0));
	SAY("mem_get_info", cuMemGetInfo(&a, &b));
	SAY("address_range", cuMemGetAddressRange(&d, &a, fn_mem));
	SAY("host_alloc", cuMemHostAlloc(&p, 4096, 0));
	SAY("host_flags", cuMemHostGetFlags(&u, fn_host));
	SAY("pointer_attribute", cuPointerGetAttribute(&v, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, fn_mem));
	SAY("memset_async", cuMemsetD8Async(fn_mem, 1, 16, fn_other));
	SAY("memcpy", cuMemcpyDtoH(fn_host, fn_mem, 16));
	SAY("stream_create", cuStreamCreate(&s, 0));
	SAY("stream_query.impl", cuStreamQuery(fn_other));
	SAY("stream_sync", cuStreamSynchronize(fn_other));
	SAY("stream_flags", cuStreamGetFlags(fn_other, &u));
	SAY("stream_wait_event", cuStreamWaitEvent(fn_other, fn_event, 0));
	SAY("launch_host", cuLaunchHostFunc(fn_other, NULL, NULL));
	SAY("event_create", cuEventCreate(&e, 0));
	SAY("event_query", cuEventQuery(fn_event));
	SAY("event_record", cuEventRecord(fn_event, fn_other));
	SAY("write_value", cuStreamWriteValue32(fn_other, DPTR(fn_host), 1, 0));
	SAY("error_name", cuGetErrorName(0, (const char **)&p));
	SAY("proc_address", cuGetProcAddress("cuMemAlloc", &p, 12000, 0, NULL));
}

static void everything_fn(void *arg) { (void)arg; call_everything(); }
static void CUDA_CB everything_cb(CUstream s, CUresult rc, void *arg)
{
	(void)s;
	SAY("status", rc);
	SAY("stream_is_same", s == *(CUstream *)arg ? 0 : 1);
	call_everything();
}

static int fn_setup(void)
{
	fn_caller = pthread_self();
	fn_mem = dalloc(4096);
	return cuMemHostAlloc(&fn_host, 4096, 0) || cuStreamCreate(&fn_stream, CU_STREAM_NON_BLOCKING) ||
		cuStreamCreate(&fn_other, CU_STREAM_NON_BLOCKING) || cuEventCreate(&fn_event, 0);
}

static void said_all(void)
{
	int i;

	for (i = 0; i < nr_said; i++)
		emit(said[i].name, "%s", rcs(said[i].rc));
	emit("runs_in_callers_thread", "%d", fn_thread_is_caller);
}

GROUP(hostfunc_api)
{
	init_ctx();
	REQNZ(fn_setup() == 0);
	T("launch", cuLaunchHostFunc(fn_stream, everything_fn, NULL));
	T("sync", cuStreamSynchronize(fn_stream));
	said_all();
	T("usable_afterwards", cuMemsetD8(fn_mem, 3, 4096));
	emit("contents", "%s", dbyte(fn_mem, 4096, 3));
}

static void CUDA_CB count_cb(CUstream s, CUresult rc, void *arg)
{
	(void)s;
	__sync_fetch_and_add((int *)arg, rc == CUDA_SUCCESS ? 1 : 1000);
}

GROUP(callback)
{
	init_ctx();
	int n = 0;
	gate_t g;
	REQNZ(fn_setup() == 0);
	T("add", cuStreamAddCallback(fn_stream, everything_cb, &fn_stream, 0));
	T("sync", cuStreamSynchronize(fn_stream));
	said_all();
	T("flags_1", cuStreamAddCallback(fn_stream, count_cb, &n, 1));
	T("null_fn", cuStreamAddCallback(fn_stream, NULL, &n, 0));
	T("null_stream", cuStreamAddCallback(0, count_cb, &n, 0));
	cuStreamSynchronize(0);
	T("legacy", cuStreamAddCallback(CU_STREAM_LEGACY, count_cb, &n, 0));
	cuStreamSynchronize(0);
	T("per_thread", cuStreamAddCallback(CU_STREAM_PER_THREAD, count_cb, &n, 0));
	cuStreamSynchronize(CU_STREAM_PER_THREAD);
	emit("ran", "%d", n);
	TNOCTX("no_ctx_own_stream", cuStreamAddCallback(fn_stream, count_cb, &n, 0));
	TNOCTX("no_ctx_null_stream", cuStreamAddCallback(0, count_cb, &n, 0));
	cuStreamSynchronize(fn_stream);
	n = 0;
	REQ(gate_close(&g, fn_stream));
	T("gated", cuStreamAddCallback(fn_stream, count_cb, &n, 0));
	T("gated_hostfunc", cuLaunchHostFunc(fn_stream, (CUhostFn)everything_fn, NULL));
	emit("gated_ran", "%d", n);
	T("destroy_with_pending", cuStreamDestroy(fn_stream));
	gate_open(&g);
	cuCtxSynchronize();
	emit("destroyed_ran", "%d", n);
	gate_done(&g);
}

/* ---- capture */

GROUP(capture)
{
	init_ctx();
	CUstream s;
	CUstreamCaptureStatus st = (CUstreamCaptureStatus)77;
	CUstreamCaptureMode m = CU_STREAM_CAPTURE_MODE_RELAXED;
	cuuint64_t id = 77;
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	TF("is_capturing", cuStreamIsCapturing(s, &st), "%d", st);
	TF("is_capturing_null_stream", cuStreamIsCapturing(0, &st), "%d", st);
	TF("is_capturing_per_thread", cuStreamIsCapturing(CU_STREAM_PER_THREAD, &st), "%d", st);
	T("is_capturing_null_out", cuStreamIsCapturing(s, NULL));
	TNOCTX("is_capturing_no_ctx", cuStreamIsCapturing(s, &st));
	TNOCTX("is_capturing_no_ctx_null_stream", cuStreamIsCapturing(0, &st));
	st = (CUstreamCaptureStatus)77;
	TF("info", cuStreamGetCaptureInfo(s, &st, &id, NULL, NULL, NULL, NULL), "%d id=%d", st, (int)id);
	T("info_null_status", cuStreamGetCaptureInfo(s, NULL, &id, NULL, NULL, NULL, NULL));
	id = 77;
	TF("info_null_stream", cuStreamGetCaptureInfo(0, &st, &id, NULL, NULL, NULL, NULL), "%d id=%d", st, (int)id);
	CUgraph gr = (CUgraph)77;
	T("end_not_capturing", cuStreamEndCapture(s, &gr));
	emit("end_out", "%s", gr == (CUgraph)77 ? "untouched" : gr ? "other" : "null");
	T("end_null_out", cuStreamEndCapture(s, NULL));
	TF("exchange_mode", cuThreadExchangeStreamCaptureMode(&m), "%d", m);
	m = CU_STREAM_CAPTURE_MODE_GLOBAL;
	TF("exchange_mode_back", cuThreadExchangeStreamCaptureMode(&m), "%d", m);
	m = (CUstreamCaptureMode)9;
	TF("exchange_mode_9", cuThreadExchangeStreamCaptureMode(&m), "%d", m);
	T("exchange_mode_null", cuThreadExchangeStreamCaptureMode(NULL));
	m = CU_STREAM_CAPTURE_MODE_GLOBAL;
	TNOCTX("exchange_mode_no_ctx", cuThreadExchangeStreamCaptureMode(&m));
	T("begin_null_stream", cuStreamBeginCapture(0, CU_STREAM_CAPTURE_MODE_GLOBAL));
	T("begin_mode_9", cuStreamBeginCapture(s, (CUstreamCaptureMode)9));
	T("update_deps_not_capturing", cuStreamUpdateCaptureDependencies(s, NULL, NULL, 0, 0));
}

/* ---- attributes, contexts as a whole */

GROUP(stream_attr)
{
	init_ctx();
	CUstream s, t;
	CUstreamAttrValue v;
	int i;
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	REQ(cuStreamCreateWithPriority(&t, CU_STREAM_NON_BLOCKING, -2));
	for (i = 0; i <= 18; i++) {
		memset(&v, 0x5a, sizeof(v));
		TF(F("get_%d", i), cuStreamGetAttribute(s, (CUstreamAttrID)i, &v), "%08x", *(unsigned *)&v);
	}
	memset(&v, 0, sizeof(v));
	TF("get_priority_of_t", cuStreamGetAttribute(t, (CUstreamAttrID)8, &v), "%d", *(int *)&v);
	T("get_null", cuStreamGetAttribute(s, (CUstreamAttrID)3, NULL));
	for (i = 0; i <= 18; i++) {
		memset(&v, 0, sizeof(v));
		TF(F("set_%d", i), cuStreamSetAttribute(s, (CUstreamAttrID)i, &v), "get=%s", rcs(cuStreamGetAttribute(s, (CUstreamAttrID)i, &v)));
	}
	memset(&v, 0, sizeof(v));
	*(int *)&v = 2;
	T("set_sync_policy_2", cuStreamSetAttribute(s, (CUstreamAttrID)3, &v));
	memset(&v, 0, sizeof(v));
	TF("get_sync_policy", cuStreamGetAttribute(s, (CUstreamAttrID)3, &v), "%d", *(int *)&v);
	*(int *)&v = 99;
	T("set_sync_policy_99", cuStreamSetAttribute(s, (CUstreamAttrID)3, &v));
	*(int *)&v = -3;
	T("set_priority", cuStreamSetAttribute(s, (CUstreamAttrID)8, &v));
	int pr = 9;
	TF("priority_now", cuStreamGetPriority(s, &pr), "%d", pr);
	T("set_null", cuStreamSetAttribute(s, (CUstreamAttrID)3, NULL));
	T("copy", cuStreamCopyAttributes(t, s));
	TF("copy_sync_policy", cuStreamGetAttribute(t, (CUstreamAttrID)3, &v), "%d", *(int *)&v);
	TF("copy_priority", cuStreamGetPriority(t, &pr), "%d", pr);
	T("copy_self", cuStreamCopyAttributes(s, s));
	T("copy_from_null_stream", cuStreamCopyAttributes(s, 0));
	memset(&v, 0, sizeof(v));
	T("set_null_stream", cuStreamSetAttribute(0, (CUstreamAttrID)3, &v));
	T("get_null_stream", cuStreamGetAttribute(0, (CUstreamAttrID)3, &v));
	TNOCTX("get_no_ctx", cuStreamGetAttribute(s, (CUstreamAttrID)3, &v));
	TNOCTX("get_no_ctx_null_stream", cuStreamGetAttribute(0, (CUstreamAttrID)3, &v));
}

GROUP(ctx_event)
{
	init_ctx();
	CUstream s;
	CUevent e;
	gate_t g;
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	REQ(cuEventCreate(&e, 0));
	T("record_idle", cuCtxRecordEvent(g_ctx, e));
	T("query_idle", event_soon(e));
	REQ(gate_close(&g, s));
	gate_after(&g, 4000);
	T("record_gated", cuCtxRecordEvent(g_ctx, e));
	emit("query_gated", "%s", rcs(cuEventQuery(e)));
	gate_open(&g);
	cuStreamSynchronize(s);
	gate_done(&g);
	T("wait", cuCtxWaitEvent(g_ctx, e));
	T("record_null_ctx", cuCtxRecordEvent(NULL, e));
	T("record_null_event", cuCtxRecordEvent(g_ctx, NULL));
	T("wait_null_event", cuCtxWaitEvent(g_ctx, NULL));
}

/* ---- memory operations that public_stream.c does not try */

GROUP(memops_more)
{
	init_ctx();
	CUstream s;
	uint32_t *h = NULL, *pageable = halloc(4096);
	CUdeviceptr d = 0, dev = dalloc(4096);
	CUstreamBatchMemOpParams *b = calloc(1024, sizeof(*b));
	static const unsigned counts[] = { 255, 256, 257, 512, 1024 };
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	REQ(cuMemHostAlloc((void **)&h, 4096, 0));
	memset(h, 0, 4096);
	d = DPTR(h);
	T("write_pageable", cuStreamWriteValue32(s, DPTR(pageable), 1, 0));
	T("wait_pageable", cuStreamWaitValue32(s, DPTR(pageable), 0, CU_STREAM_WAIT_VALUE_EQ));
	T("sync_after_pageable", cuStreamSynchronize(s));
	T("write_flags_no_barrier", cuStreamWriteValue32(s, d, 5, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
	T("wait_flush", cuStreamWaitValue32(s, d, 5, CU_STREAM_WAIT_VALUE_EQ | CU_STREAM_WAIT_VALUE_FLUSH));
	T("wait_flag_bit8", cuStreamWaitValue32(s, d, 5, 0x100));
	T("wait64", cuStreamWaitValue64(s, d + 8, 0, CU_STREAM_WAIT_VALUE_EQ));
	T("wait64_misaligned", cuStreamWaitValue64(s, d + 4, 0, CU_STREAM_WAIT_VALUE_EQ));
	T("wait64_geq_true", cuStreamWaitValue64(s, d + 8, 0, CU_STREAM_WAIT_VALUE_GEQ));
	T("wait_device_memory", cuStreamWaitValue32(s, dev, 0xdeadbeef, CU_STREAM_WAIT_VALUE_NOR));
	T("last_word", cuStreamWriteValue32(s, dev + 4092, 1, 0));
	T("one_behind", cuStreamWriteValue32(s, dev + 4096, 1, 0));
	T("sync", cuStreamSynchronize(s));
	for (unsigned i = 0; i < 1024; i++) {
		b[i].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
		b[i].writeValue.address = d + 512;
		b[i].writeValue.value = i;
	}
	for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		T(F("batch_%u", counts[i]), cuStreamBatchMemOp(s, counts[i], b, 0));
		cuStreamSynchronize(s);
	}
	memset(b, 0, 2 * sizeof(*b));
	b[0].operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
	T("batch_flush", cuStreamBatchMemOp(s, 1, b, 0));
	b[0].operation = CU_STREAM_MEM_OP_BARRIER;
	T("batch_barrier", cuStreamBatchMemOp(s, 1, b, 0));
	b[0].memoryBarrier.flags = 1;
	T("batch_barrier_flags_1", cuStreamBatchMemOp(s, 1, b, 0));
	memset(b, 0, 2 * sizeof(*b));
	b[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	b[0].writeValue.address = d + 256;
	b[0].writeValue.value = 9;
	b[1].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	b[1].writeValue.address = d + 257;
	T("batch_second_bad", cuStreamBatchMemOp(s, 2, b, 0));
	cuStreamSynchronize(s);
	emit("batch_second_bad_first_done", "%u", h[64]);
	TNOCTX("batch_no_ctx_own_stream", cuStreamBatchMemOp(s, 1, b, 0));
	T("batch_null_stream", cuStreamBatchMemOp(0, 1, b, 0));
	T("final_sync", cuCtxSynchronize());
	hfree(pageable, 4096);
}

/* ---- an event whose recorder is dead */

PEER(ipc_event_dead)
{
	CUipcEventHandle h;
	CUevent e;
	CUstream s, t;
	if (xrecv(sock, &h, sizeof(h)))
		return;
	init_ctx();
	cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
	cuStreamCreate(&t, CU_STREAM_NON_BLOCKING);
	if (cuIpcOpenEventHandle(&e, h))
		return;
	/* Record the event in a stream that waits for ever. */
	volatile uint32_t *v = NULL;
	cuMemHostAlloc((void **)&v, 4096, 0);
	*v = 0;
	cuStreamWaitValue32(s, DPTR(v), 1, CU_STREAM_WAIT_VALUE_EQ);
	cuEventRecord(e, s);
	SYNC_TO(sock);
	SYNC_FROM(sock);
	kill(getpid(), SIGKILL);
}

GROUPT(ipc_event_dead, 60)
{
	init_ctx();
	peer_t p;
	CUevent e;
	CUstream s, t;
	CUipcEventHandle h;
	long t0;
	CUresult r;
	REQ(cuEventCreate(&e, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	REQ(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
	REQ(cuIpcGetEventHandle(&h, e));
	REQNZ(peer_start(&p, "ipc_event_dead") == 0);
	xsend(p.fd, &h, sizeof(h));
	SYNC_FROM(p.fd);
	emit("query_before", "%s", rcs(cuEventQuery(e)));
	T("wait_in_stream", cuStreamWaitEvent(s, e, 0));
	SYNC_TO(p.fd);
	emit("peer_exit", "%d", peer_wait(&p));
	t0 = now_ms();
	while ((r = cuEventQuery(e)) == CUDA_ERROR_NOT_READY && now_ms() - t0 < 5000)
		usleep(1000);
	emit("query_after_death", "%s", rcs(r));
	t0 = now_ms();
	while ((r = cuStreamQuery(s)) == CUDA_ERROR_NOT_READY && now_ms() - t0 < 5000)
		usleep(1000);
	emit("stream_after_death", "%s", rcs(r));
	T("other_stream", cuStreamQuery(t));
	T("record_again", cuEventRecord(e, t));
	T("event_sync_after_record", cuEventSynchronize(e));
}
