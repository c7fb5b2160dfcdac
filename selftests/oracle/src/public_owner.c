// SPDX-License-Identifier: GPL-2.0
/*
 * Cases of the ownership of memory: what a free waits for, imports and contexts, primary contexts,
 * forked children.
 */
#include <sys/wait.h>
#include "oracle.h"

/* ------------------------------------------------------ what a free waits for */
GROUP(free_waits)
{
	CUdeviceptr idle, own, read, theirs, managed, in_pool;
	void *host, *host2;
	CUstream s, s2;
	CUcontext c2;
	gate_t g = { 0 };

	init_ctx();
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	idle = dalloc(MiB(4));
	own = dalloc(MiB(4));
	read = dalloc(MiB(4));
	REQ(cuMemAllocManaged(&managed, MiB(4), CU_MEM_ATTACH_GLOBAL));
	REQ(cuMemHostAlloc(&host, MiB(4), 0));
	REQ(cuMemHostAlloc(&host2, MiB(4), 0));
	REQ(cuMemAllocAsync(&in_pool, MiB(4), s));
	REQ(cuStreamSynchronize(s));
	REQ(cuCtxCreate(&c2, NULL, 0, g_dev));
	REQ(cuStreamCreate(&s2, CU_STREAM_NON_BLOCKING));
	theirs = dalloc(MiB(4));

	/* The other context is busy: c2 is current. */
	REQ(gate_close(&g, s2));
	BLOCKS("other_busy", &g, cuMemFree(idle));
	gate_done(&g);
	REQ(gate_close(&g, s2));
	BLOCKS("host_other_busy", &g, cuMemFreeHost(host));
	gate_done(&g);
	REQ(gate_close(&g, s2));
	BLOCKS("pool_other_busy", &g, cuMemFree(in_pool));
	gate_done(&g);
	/* The other context reads the memory. */
	REQ(gate_close(&g, s2));
	if (HAVE(cuMemcpyDtoDAsync(theirs, read, MiB(4), s2)))
		BLOCKS("other_reads", &g, cuMemFree(read));
	gate_done(&g);

	/* The context that owns the memory is busy, and not current. */
	REQ(cuCtxSetCurrent(g_ctx));
	REQ(gate_close(&g, s));
	REQ(cuCtxSetCurrent(c2));
	BLOCKS("owner_busy", &g, cuMemFree(own));
	REQ(cuCtxSetCurrent(g_ctx));
	gate_done(&g);
	REQ(gate_close(&g, s));
	REQ(cuCtxSetCurrent(c2));
	BLOCKS("host_owner_busy", &g, cuMemFreeHost(host2));
	REQ(cuCtxSetCurrent(g_ctx));
	gate_done(&g);
	REQ(gate_close(&g, s));
	BLOCKS("managed_owner_busy", &g, cuMemFree(managed));
	gate_done(&g);
	REQ(cuMemAllocAsync(&in_pool, MiB(4), s));
	REQ(cuStreamSynchronize(s));
	REQ(gate_close(&g, s));
	BLOCKS("pool_owner_busy", &g, cuMemFree(in_pool));
	gate_done(&g);
	cuCtxDestroy(c2);
}

/* The memory is freed before the other context's copy writes it; that context may then fail. */
GROUP(free_written)
{
	CUdeviceptr written, from;
	gate_t g = { 0 };
	CUcontext c2;
	CUstream s2;

	init_ctx();
	written = dalloc(MiB(4));
	REQ(cuCtxCreate(&c2, NULL, 0, g_dev));
	REQ(cuStreamCreate(&s2, CU_STREAM_NON_BLOCKING));
	from = dalloc(MiB(4));
	REQ(gate_close(&g, s2));
	REQ(cuMemcpyDtoDAsync(written, from, MiB(4), s2));
	BLOCKS("other_writes", &g, cuMemFree(written));
	gate_done(&g);
}

/* ------------------------------------------------------ imports and contexts */
PEER(ipc_contexts)
{
	CUdeviceptr p = 0, q = 0, r = 7;
	CUipcMemHandle h;
	CUcontext c2, owner = NULL;

	if (xrecv(sock, &h, sizeof(h)))
		return;
	init_ctx();
	REQ(cuCtxCreate(&c2, NULL, 0, g_dev));
	REQ(cuCtxSetCurrent(g_ctx));
	T("peer_open", cuIpcOpenMemHandle(&p, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	TF("peer_open_again", cuIpcOpenMemHandle(&q, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
	   "same=%d", p == q);
	REQ(cuCtxSetCurrent(c2));
	TF("peer_open_in_second", cuIpcOpenMemHandle(&r, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
	   "out=%s", r == 7 ? "kept" : r ? "set" : "zero");
	TF("peer_owner", cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, p), "first=%d",
	   owner == g_ctx);
	T("peer_close_from_second", cuIpcCloseMemHandle(p));
	T("peer_close_from_second_again", cuIpcCloseMemHandle(p));
	T("peer_close_too_often", cuIpcCloseMemHandle(p));
	r = 0;
	T("peer_open_in_second_now", cuIpcOpenMemHandle(&r, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	emit("peer_data", "%s", r ? dsame(r, MiB(2), 1) : "-");
	T("peer_destroy_second", cuCtxDestroy(c2));
	REQ(cuCtxSetCurrent(g_ctx));
	T("peer_close_after_destroy", cuIpcCloseMemHandle(r));
	T("peer_open_after_destroy", cuIpcOpenMemHandle(&p, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	SYNC_TO(sock);
}

GROUP(ipc_contexts)
{
	CUipcMemHandle h;
	CUdeviceptr d;
	peer_t p;

	init_ctx();
	d = dalloc(MiB(2));
	dfill(d, MiB(2), 1);
	REQ(cuCtxSynchronize());
	REQ(cuIpcGetMemHandle(&h, d));
	REQNZ(peer_start(&p, "ipc_contexts") == 0);
	xsend(p.fd, &h, sizeof(h));
	SYNC_FROM(p.fd);
	emit("peer_exit", "%d", peer_wait(&p));
}

/* ------------------------------------------------------ primary contexts */
GROUP(primary_count)
{
	CUcontext c = NULL, again = NULL;
	unsigned int flags = 0;
	CUdeviceptr d = 0;
	int active = 0;

	REQ(cuInit(0));
	T("set_flags", cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_YIELD));
	REQ(cuDevicePrimaryCtxRetain(&c, 0));
	REQ(cuDevicePrimaryCtxRetain(&c, 0));
	REQ(cuCtxSetCurrent(c));
	REQ(cuMemAlloc(&d, 4096));
	T("reset", cuDevicePrimaryCtxReset(0));
	TF("state", cuDevicePrimaryCtxGetState(0, &flags, &active), "flags=%u active=%d", flags, active);
	T("alloc_after_reset", cuMemAlloc(&d, 4096));
	T("synchronize_after_reset", cuCtxSynchronize());
	T("release", cuDevicePrimaryCtxRelease(0));
	T("release_second", cuDevicePrimaryCtxRelease(0));
	T("release_third", cuDevicePrimaryCtxRelease(0));
	TF("retain_again", cuDevicePrimaryCtxRetain(&again, 0), "same=%d", again == c);
	REQ(cuCtxSetCurrent(again));
	T("alloc_again", cuMemAlloc(&d, 4096));
	TF("state_again", cuDevicePrimaryCtxGetState(0, &flags, &active), "flags=%u active=%d", flags,
	   active);
	T("release_again", cuDevicePrimaryCtxRelease(0));
	T("release_too_often", cuDevicePrimaryCtxRelease(0));
}

/* ------------------------------------------------------ forked children */

/* Can this process read the byte?  write() fails with EFAULT where a load would raise a signal. */
static int readable(const volatile void *p)
{
	int pipes[2], yes;

	if (pipe(pipes))
		return -1;
	yes = write(pipes[1], (const void *)p, 1) == 1;
	close(pipes[0]);
	close(pipes[1]);
	return yes;
}

struct seen {
	int host, registered, shared, managed, device;
};

GROUP(fork_child)
{
	volatile unsigned char *host, *mine, *shared;
	struct seen seen = { 0 };
	CUdeviceptr managed, d;
	int pipes[2];
	void *p;
	pid_t pid;

	init_ctx();
	REQ(cuMemHostAlloc(&p, 65536, 0));
	host = p;
	mine = halloc(65536);
	shared = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	REQNZ(shared != MAP_FAILED);
	host[0] = mine[0] = shared[0] = 1;
	REQ(cuMemHostRegister((void *)mine, 65536, 0));
	REQ(cuMemHostRegister((void *)shared, 65536, 0));
	REQ(cuMemAllocManaged(&managed, 65536, CU_MEM_ATTACH_GLOBAL));
	*(volatile char *)HPTR(managed) = 1;
	d = dalloc(65536);
	REQNZ(!pipe(pipes));
	pid = fork();
	if (!pid) {
		seen.host = readable(host) == 1 ? host[0] : -1;
		seen.registered = readable(mine) == 1 ? mine[0] : -1;
		seen.shared = readable(shared) == 1 ? shared[0] : -1;
		seen.managed = readable(HPTR(managed));
		seen.device = readable(HPTR(d));
		if (seen.host > 0)
			host[0] = 2;
		if (seen.registered > 0)
			mine[0] = 2;
		if (seen.shared > 0)
			shared[0] = 2;
		_exit(write(pipes[1], &seen, sizeof(seen)) != sizeof(seen));
	}
	close(pipes[1]);
	REQNZ(pid > 0 && read(pipes[0], &seen, sizeof(seen)) == sizeof(seen));
	waitpid(pid, NULL, 0);
	emit("host", "child_read=%d parent_reads=%d", seen.host, host[0]);
	emit("registered", "child_read=%d parent_reads=%d", seen.registered, mine[0]);
	emit("registered_shared", "child_read=%d parent_reads=%d", seen.shared, shared[0]);
	emit("managed", "child_reads=%d", seen.managed);
	emit("device", "child_reads=%d", seen.device);
	T("free_host", cuMemFreeHost(p));
	T("free_managed", cuMemFree(managed));
	T("free_device", cuMemFree(d));
	T("unregister", cuMemHostUnregister((void *)mine));
}

/* ------------------------------------------------------ largest sizes, and limits */
GROUP(limits_at_ends)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	size_t total = 0, value;
	CUmemoryPool pool;

	init_ctx();
	REQ(cuDeviceTotalMem(&total, g_dev));
	static const struct {
		const char *name;
		int shift;
		size_t more;
	} sizes[] = {
		{ "total", 0, 0 }, { "total_and_one", 0, 1 }, { "total_and_2M", 0, MiB(2) },
		{ "twice", 1, 0 }, { "64_times", 6, 0 },
	};
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		props.maxSize = (total << sizes[i].shift) + sizes[i].more;
		pool = NULL;
		T(F("pool_max_%s", sizes[i].name), cuMemPoolCreate(&pool, &props));
		if (pool)
			cuMemPoolDestroy(pool);
	}
	props.maxSize = ~(size_t)0 - MiB(4);
	T("pool_max_nearly_all", cuMemPoolCreate(&pool, &props));
	props.maxSize = ~(size_t)0 >> 1;
	T("pool_max_long", cuMemPoolCreate(&pool, &props));
	for (int limit = 0; limit < 10; limit++) {
		value = 77;
		TF(F("limit_%d%s", limit, limit == 7 ? "" : ".impl"), cuCtxGetLimit(&value, limit),
		   "value=%zu", value);
	}
	T("set_limit_7_0", cuCtxSetLimit(7, 0));
	T("set_limit_7_1", cuCtxSetLimit(7, 1));
	T("set_limit_8_0", cuCtxSetLimit(8, 0));
	T("set_limit_8_1", cuCtxSetLimit(8, 1));
	T("set_limit_9_0", cuCtxSetLimit(9, 0));
	for (int limit = 7; limit < 9; limit++) {
		value = 77;
		TF(F("limit_then_%d.impl", limit), cuCtxGetLimit(&value, limit), "value=%zu", value);
	}
	CUstream s = (CUstream)7;
	cuCtxSetCurrent(NULL);
	TF("stream_no_ctx.impl", cuStreamCreate(&s, 0), "%p", (void *)s);
}
