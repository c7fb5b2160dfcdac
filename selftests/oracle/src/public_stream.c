// SPDX-License-Identifier: GPL-2.0
/* Cases of streams, events, host functions, stream memory operations */
#include "oracle.h"

GROUP(stream_create)
{
	init_ctx();
	CUstream s = (CUstream)0x77;
	unsigned f = 99;
	int pr = 99, lo = 9, hi = 9;
	T("default", cuStreamCreate(&s, CU_STREAM_DEFAULT));
	TF("default_flags", cuStreamGetFlags(s, &f), "%u", f);
	TF("default_priority", cuStreamGetPriority(s, &pr), "%d", pr);
	CUcontext c = NULL;
	TF("getctx", cuStreamGetCtx(s, &c), "%d", c == g_ctx);
	CUdevice dv = 9;
	TF("getdevice", cuStreamGetDevice(s, &dv), "%d", dv);
	unsigned long long id = 0, id2 = 0;
	TF("getid", cuStreamGetId(s, &id), "nonzero=%d", id != 0);
	T("destroy", cuStreamDestroy(s));
	T("nonblocking", cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	TF("nonblocking_flags", cuStreamGetFlags(s, &f), "%u", f);
	cuStreamGetId(s, &id2);
	emit("ids_differ", "%d", id != id2);
	cuStreamDestroy(s);
	s = (CUstream)0x77;
	TF("flags_2", cuStreamCreate(&s, 2), "out=%s", s == (CUstream)0x77 ? "untouched" : s ? "other" : "null");
	T("null_out", cuStreamCreate(NULL, 0));
	TNOCTX("no_ctx", cuStreamCreate(&s, 0));
	TF("prio_range", cuCtxGetStreamPriorityRange(&lo, &hi), "least=%d greatest_le_least=%d", lo, hi <= lo);
	TF("prio_greatest", cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, hi), "is_greatest=%d", (cuStreamGetPriority(s, &pr), pr == hi));
	TF("prio_clamped", cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, hi - 100), "is_greatest=%d", (cuStreamGetPriority(s, &pr), pr == hi));
	T("prio_flags_4", cuStreamCreateWithPriority(&s, 4, 0));
	TF("null_stream_flags", cuStreamGetFlags(0, &f), "%u", f);
	TF("legacy_flags", cuStreamGetFlags(CU_STREAM_LEGACY, &f), "%u", f);
	TF("per_thread_flags", cuStreamGetFlags(CU_STREAM_PER_THREAD, &f), "%u", f);
	TF("null_stream_ctx", cuStreamGetCtx(0, &c), "%d", c == g_ctx);
	T("null_stream_query", cuStreamQuery(0));
	T("legacy_query", cuStreamQuery(CU_STREAM_LEGACY));
	T("per_thread_sync", cuStreamSynchronize(CU_STREAM_PER_THREAD));
	T("destroy_null", cuStreamDestroy(0));
	T("destroy_legacy", cuStreamDestroy(CU_STREAM_LEGACY));
	T("destroy_per_thread", cuStreamDestroy(CU_STREAM_PER_THREAD));
	TNOCTX("null_query_no_ctx", cuStreamQuery(0));
	TNOCTX("null_sync_no_ctx", cuStreamSynchronize(0));
	REQ(cuStreamCreate(&s, 0));
	TNOCTX("own_query_no_ctx", cuStreamQuery(s));
	TNOCTX("own_sync_no_ctx", cuStreamSynchronize(s));
	T("getflags_null", cuStreamGetFlags(s, NULL));
	TNOCTX("own_destroy_no_ctx", cuStreamDestroy(s));
}

static void hostfn(void *p) { __sync_fetch_and_add((int *)p, 1); }
static void slowfn(void *p) { usleep(100000 * patience()); __sync_fetch_and_add((int *)p, 1); }

GROUP(hostfunc)
{
	init_ctx();
	CUstream s;
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	volatile int n = 0;
	T("launch", cuLaunchHostFunc(s, hostfn, (void *)&n));
	TF("sync", cuStreamSynchronize(s), "ran=%d", n);
	for (int i = 0; i < 100; i++)
		cuLaunchHostFunc(s, hostfn, (void *)&n);
	cuStreamSynchronize(s);
	emit("hundred", "%d", n);
	n = 0;
	T("slow", cuLaunchHostFunc(s, slowfn, (void *)&n));
	emit("slow_query", "%s ran=%d", rcs(cuStreamQuery(s)), n);
	unsigned char *h = NULL;
	REQ(cuMemAllocHost((void **)&h, 4096));
	cuStreamSynchronize(s);
	CUdeviceptr d = dalloc(4096);
	memset(h, 7, 4096);
	n = 0;
	cuLaunchHostFunc(s, slowfn, (void *)&n);
	cuMemcpyHtoDAsync(d, h, 4096, s);
	emit("copy_waits_for_hostfunc", "%s", rcs(cuStreamQuery(s)));
	cuStreamSynchronize(s);
	emit("copy_after_hostfunc", "ran=%d %s", n, dbyte(d, 4096, 7));
	T("null_fn", cuLaunchHostFunc(s, NULL, NULL));
	n = 0;
	T("null_stream", cuLaunchHostFunc(0, hostfn, (void *)&n));
	cuStreamSynchronize(0);
	T("legacy", cuLaunchHostFunc(CU_STREAM_LEGACY, hostfn, (void *)&n));
	cuStreamSynchronize(0);
	T("per_thread", cuLaunchHostFunc(CU_STREAM_PER_THREAD, hostfn, (void *)&n));
	cuStreamSynchronize(CU_STREAM_PER_THREAD);
	emit("special_streams_ran", "%d", n);
	TNOCTX("no_ctx_own_stream", cuLaunchHostFunc(s, hostfn, (void *)&n));
	TNOCTX("no_ctx_null_stream", cuLaunchHostFunc(0, hostfn, (void *)&n));
	cuStreamSynchronize(s);
}

GROUP(events)
{
	init_ctx();
	CUstream s, t;
	CUevent e, f, x;
	gate_t g;
	float ms = -1;
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	REQ(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
	T("create", cuEventCreate(&e, CU_EVENT_DEFAULT));
	T("create_blocking_disable", cuEventCreate(&f, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING));
	T("create_flags_8", cuEventCreate(&x, 8));
	T("create_flags_10", cuEventCreate(&x, 0x10));
	T("create_interprocess_timing", cuEventCreate(&x, CU_EVENT_INTERPROCESS));
	T("create_null", cuEventCreate(NULL, 0));
	TNOCTX("create_no_ctx", cuEventCreate(&x, 0));
	T("query_unrecorded", cuEventQuery(e));
	T("sync_unrecorded", cuEventSynchronize(e));
	T("elapsed_unrecorded", cuEventElapsedTime(&ms, e, e));
	T("wait_unrecorded", cuStreamWaitEvent(s, e, 0));
	T("record", cuEventRecord(e, s));
	T("sync", cuEventSynchronize(e));
	T("query", cuEventQuery(e));
	CUevent e2;
	cuEventCreate(&e2, 0);
	cuEventRecord(e2, s);
	cuEventSynchronize(e2);
	TF("elapsed", cuEventElapsedTime(&ms, e, e2), "ge0=%d", ms >= 0);
	T("elapsed_disabled_timing", (cuEventRecord(f, s), cuStreamSynchronize(s), cuEventElapsedTime(&ms, e, f)));
	T("elapsed_null", cuEventElapsedTime(NULL, e, e2));
	REQ(gate_close(&g, s));
	T("record_gated", cuEventRecord(e, s));
	emit("query_gated", "%s", rcs(cuEventQuery(e)));
	emit("elapsed_not_ready", "%s", rcs(cuEventElapsedTime(&ms, e2, e)));
	T("wait_other_stream", cuStreamWaitEvent(t, e, 0));
	emit("other_stream_held", "%s", rcs(cuStreamQuery(t)));
	T("wait_flags_2", cuStreamWaitEvent(t, e, 2));
	T("wait_null_event", cuStreamWaitEvent(t, NULL, 0));
	T("record_null_event", cuEventRecord(NULL, s));
	T("destroy_pending_event", cuEventDestroy(e));
	gate_open(&g);
	T("other_stream_sync", cuStreamSynchronize(t));
	cuStreamSynchronize(s);
	gate_done(&g);
	/* a wait refers to the latest record at the time of the wait call */
	REQ(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	cuEventRecord(e, t);
	cuStreamWaitEvent(t, e, 0);
	cuStreamSynchronize(t);
	CUstream u;
	REQ(cuStreamCreate(&u, CU_STREAM_NON_BLOCKING));
	cuEventRecord(e, t);
	cuStreamWaitEvent(u, e, 0);
	REQ(gate_close(&g, s));
	cuEventRecord(e, s);
	T("earlier_wait_unaffected_by_later_record", cuStreamSynchronize(u));
	T("query_shows_latest_record", cuEventQuery(e));
	BLOCKS("event_sync_waits", &g, cuEventSynchronize(e));
	gate_done(&g);
	T("record_flags_external_no_capture", cuEventRecordWithFlags(e, s, CU_EVENT_RECORD_EXTERNAL));
	T("record_flags_2", cuEventRecordWithFlags(e, s, 2));
	T("record_null_stream", cuEventRecord(e, 0));
	T("record_per_thread", cuEventRecord(e, CU_STREAM_PER_THREAD));
	TNOCTX("record_no_ctx_own_stream", cuEventRecord(e, s));
	TNOCTX("record_no_ctx_null_stream", cuEventRecord(e, 0));
	TNOCTX("query_no_ctx", event_soon(e));
	TNOCTX("sync_no_ctx", cuEventSynchronize(e));
	TNOCTX("wait_no_ctx_own_stream", cuStreamWaitEvent(s, e, 0));
	TNOCTX("destroy_no_ctx", cuEventDestroy(e));
	T("destroy_null", cuEventDestroy(NULL));
	T("query_null", cuEventQuery(NULL));
}

GROUP(memops)
{
	init_ctx();
	CUstream s;
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	volatile uint32_t *h = NULL;
	CUdeviceptr d = 0, dev = dalloc(4096);
	REQ(cuMemHostAlloc((void **)&h, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
	memset((void *)h, 0, 4096);
	cuMemHostGetDevicePointer(&d, (void *)h, 0);
	emit("attr_nor", "%d", dev_attr(CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR));
	emit("attr_64", "%d", dev_attr(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS));
	T("write32", cuStreamWriteValue32(s, d, 0x11223344, 0));
	cuStreamSynchronize(s);
	emit("write32_value", "%x", h[0]);
	T("write64", cuStreamWriteValue64(s, d + 8, 0x1122334455667788ull, 0));
	cuStreamSynchronize(s);
	emit("write64_value", "%x %x", h[2], h[3]);
	T("write32_device", cuStreamWriteValue32(s, dev, 0xabcdef01, 0));
	cuStreamSynchronize(s);
	unsigned v = 0;
	cuMemcpyDtoH(&v, dev, 4);
	emit("write32_device_value", "%x", v);
	T("wait_already_true", cuStreamWaitValue32(s, d, 0x11223344, CU_STREAM_WAIT_VALUE_EQ));
	T("wait_already_true_sync", cuStreamSynchronize(s));
	static const struct { const char *n; unsigned init, val, fl, go; } w[] = {
		{ "geq", 4, 5, CU_STREAM_WAIT_VALUE_GEQ, 5 }, { "geq_cyclic", 0xfffffff0u, 5, CU_STREAM_WAIT_VALUE_GEQ, 6 },
		{ "eq", 4, 5, CU_STREAM_WAIT_VALUE_EQ, 5 }, { "and", 8, 6, CU_STREAM_WAIT_VALUE_AND, 2 }, { "nor", 0xffffffffu, 0, CU_STREAM_WAIT_VALUE_NOR, 0xfffffffeu } };
	for (size_t i = 0; i < sizeof(w) / sizeof(w[0]); i++) {
		h[16] = w[i].init;
		__sync_synchronize();
		CUresult r = cuStreamWaitValue32(s, d + 64, w[i].val, w[i].fl);
		usleep(5000);
		CUresult q = cuStreamQuery(s);
		h[16] = w[i].go;
		__sync_synchronize();
		long t0 = now_ms();
		CUresult z;
		while ((z = cuStreamQuery(s)) == CUDA_ERROR_NOT_READY && now_ms() - t0 < 3000 * patience())
			usleep(200);
		emit(F("wait_%s", w[i].n), "rc=%s before=%s after=%s", rcs(r), rcs(q), rcs(z));
	}
	T("write_misaligned", cuStreamWriteValue32(s, d + 2, 1, 0));
	T("write64_misaligned", cuStreamWriteValue64(s, d + 4, 1, 0));
	T("wait_misaligned", cuStreamWaitValue32(s, d + 1, 0, CU_STREAM_WAIT_VALUE_GEQ));
	T("wait_flags_4", cuStreamWaitValue32(s, d, 0, 4));
	T("write_flags_2", cuStreamWriteValue32(s, d, 0, 2));
	T("write_null", cuStreamWriteValue32(s, 0, 0, 0));
	T("wait_null", cuStreamWaitValue32(s, 0, 0, 0));
	TNOCTX("write_no_ctx_null_stream", cuStreamWriteValue32(0, d, 0, 0));
	T("write_null_stream", cuStreamWriteValue32(0, d, 9, 0));
	cuStreamSynchronize(0);
	emit("write_null_stream_value", "%u", h[0]);
	CUstreamBatchMemOpParams b[2];
	memset(b, 0, sizeof(b));
	b[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	b[0].writeValue.address = d + 128; b[0].writeValue.value = 77;
	b[1].operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
	b[1].waitValue.address = d + 128; b[1].waitValue.value = 77; b[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
	T("batch", cuStreamBatchMemOp(s, 2, b, 0));
	TF("batch_sync", cuStreamSynchronize(s), "%u", h[32]);
	T("batch_flags_1", cuStreamBatchMemOp(s, 2, b, 1));
	T("batch_count_0", cuStreamBatchMemOp(s, 0, b, 0));
	T("batch_null", cuStreamBatchMemOp(s, 1, NULL, 0));
	b[0].operation = 99;
	T("batch_op_99", cuStreamBatchMemOp(s, 1, b, 0));
	cuStreamSynchronize(s);
}

GROUP(stream_destroy_pending)
{
	/* destroying a busy stream does not lose its work and does not wait */
	init_ctx();
	CUstream s;
	gate_t g;
	CUdeviceptr d = dalloc(4096);
	cuMemsetD8(d, 0, 4096);
	cuCtxSynchronize();
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	REQ(gate_close(&g, s));
	cuMemsetD8Async(d, 5, 4096, s);
	BLOCKS("destroy", &g, cuStreamDestroy(s));
	gate_open(&g);
	cuCtxSynchronize();
	emit("work_done", "%s", dbyte(d, 4096, 5));
	gate_done(&g);
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	REQ(gate_close(&g, s));
	BLOCKS("ctx_sync_waits", &g, cuCtxSynchronize());
	gate_done(&g);
	REQ(gate_close(&g, s));
	BLOCKS("stream_sync_waits", &g, cuStreamSynchronize(s));
	gate_done(&g);
	REQ(gate_close(&g, s));
	BLOCKS("null_stream_sync_does_not_wait_nonblocking", &g, cuStreamSynchronize(0));
	cuStreamSynchronize(s);
	gate_done(&g);
}

static CUstream dead_stream(void) { CUstream s = NULL; cuStreamCreate(&s, 0); cuStreamDestroy(s); return s; }
static CUevent dead_event(void) { CUevent s = NULL; cuEventCreate(&s, 0); cuEventDestroy(s); return s; }
RISKY(stream_query_destroyed, cuStreamQuery(dead_stream()))
RISKY(stream_sync_destroyed, cuStreamSynchronize(dead_stream()))
RISKY(stream_double_destroy, cuStreamDestroy(dead_stream()))
RISKY(event_query_destroyed, cuEventQuery(dead_event()))
RISKY(event_double_destroy, cuEventDestroy(dead_event()))
RISKY(event_record_destroyed, cuEventRecord(dead_event(), 0))
