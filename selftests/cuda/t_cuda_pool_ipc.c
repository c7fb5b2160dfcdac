// SPDX-License-Identifier: GPL-2.0
/*
 * Tests pools that two processes share by the CUDA API: handles passed as descriptors and over a
 * fabric, pointers passed as bytes, readiness by inter-process events, either process killed first,
 * export data with changed bytes, and that every counter is zero afterwards.
 *
 * The other process (importer) is this program, exec'ed anew; it gets descriptors by SCM_RIGHTS.
 */
#include <malloc.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "cuda_util.h"

#define POSIX		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define CHANNELS	"/dev/gpumem-channels"

/* --- the importer */

enum op {
	IMPORT,			/* descriptor: pool */
	IMPORT_FABRIC,		/* fabric: pool */
	POINTER,		/* pool, data: ptr */
	READ,			/* ptr, bytes: value, a hash of what a copy sees */
	FILL,			/* ptr, bytes, value; @events: wait for ready, record done */
	FREE,			/* ptr */
	FREE_ASYNC,		/* ptr */
	DESTROY,		/* pool */
	ALLOC,			/* pool: result */
	SIZE,			/* ptr: bytes, value: the base */
	QUIT,
};

struct message {
	enum op op;
	CUresult result;
	CUmemoryPool pool;
	CUmemPoolPtrExportData data;
	CUmemFabricHandle fabric;
	CUipcEventHandle ready, done;
	bool events;
	CUdeviceptr ptr;
	__u64 bytes, value;
};

static bool send_message(int sock, const struct message *m, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { (void *)m, sizeof(*m) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fd >= 0) {
		struct cmsghdr *c;

		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	return sendmsg(sock, &msg, MSG_NOSIGNAL) == sizeof(*m);
}

static bool get_message(int sock, struct message *m, int *fd)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { m, sizeof(*m) };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c;

	*fd = -1;
	if (recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) != sizeof(*m))
		return false;
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(fd, CMSG_DATA(c), sizeof(*fd));
	return true;
}

static CUresult fill(struct message *m, CUstream stream)
{
	CUevent ready = NULL, done = NULL;
	CUresult result = CUDA_SUCCESS;

	if (m->events) {
		result = cuIpcOpenEventHandle(&ready, m->ready);
		if (!result)
			result = cuIpcOpenEventHandle(&done, m->done);
		if (!result)
			result = cuStreamWaitEvent(stream, ready, 0);
	}
	if (!result)
		result = cuMemsetD8Async(m->ptr, m->value, m->bytes, stream);
	if (!result && m->events)
		return cuEventRecord(done, stream);
	return result ? result : cuStreamSynchronize(stream);
}

static CUresult serve(struct message *m, int fd, CUstream stream)
{
	unsigned char *copy;
	CUdeviceptr base;
	CUresult result;
	size_t size;

	switch (m->op) {
	case IMPORT:
		return cuMemPoolImportFromShareableHandle(&m->pool, (void *)(uintptr_t)fd, POSIX,
							  0);
	case IMPORT_FABRIC:
		return cuMemPoolImportFromShareableHandle(&m->pool, &m->fabric,
							  CU_MEM_HANDLE_TYPE_FABRIC, 0);
	case POINTER:
		return cuMemPoolImportPointer(&m->ptr, m->pool, &m->data);
	case READ:
		copy = malloc(m->bytes);
		result = cuMemcpyDtoH(copy, m->ptr, m->bytes);
		m->value = hash(copy, m->bytes);
		free(copy);
		return result;
	case FILL:
		return fill(m, stream);
	case FREE:
		return cuMemFree(m->ptr);
	case FREE_ASYNC:
		return cuMemFreeAsync(m->ptr, stream);
	case DESTROY:
		return cuMemPoolDestroy(m->pool);
	case ALLOC:
		return cuMemAllocFromPoolAsync(&m->ptr, 1, m->pool, stream);
	case SIZE:
		result = cuMemGetAddressRange(&base, &size, m->ptr);
		m->value = base;
		m->bytes = size;
		return result;
	default:
		return CUDA_ERROR_UNKNOWN;
	}
}

static int importer_main(void)
{
	struct message m = { 0 };
	CUstream stream = NULL;
	CUcontext ctx;
	int fd;

	m.result = cuda_start(&ctx);
	if (!m.result)
		m.result = cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	do {
		if (!send_message(PEER_FD, &m, -1) || !get_message(PEER_FD, &m, &fd))
			return 1;
		if (m.op != QUIT)
			m.result = serve(&m, fd, stream);
		if (fd >= 0)
			close(fd);
	} while (m.op != QUIT);
	return 0;
}

static int importer_start(struct peer *peer)
{
	struct message m;
	int fd, ret = peer_exec(peer);

	if (ret)
		return ret;
	return get_message(peer->sock, &m, &fd) && !m.result ? 0 : -EPIPE;
}

static CUresult call(struct peer *peer, struct message *m, int fd)
{
	int none;

	if (!send_message(peer->sock, m, fd) || !get_message(peer->sock, m, &none))
		return (CUresult)-1;
	return m->result;
}

static CUresult import(struct peer *peer, int fd, CUmemoryPool *pool)
{
	struct message m = { .op = IMPORT };
	CUresult result = call(peer, &m, fd);

	*pool = m.pool;
	return result;
}

static CUresult import_pointer(struct peer *peer, CUmemoryPool pool,
			       const CUmemPoolPtrExportData *data, CUdeviceptr *ptr)
{
	struct message m = { .op = POINTER, .pool = pool, .data = *data };
	CUresult result = call(peer, &m, -1);

	*ptr = m.ptr;
	return result;
}

static CUresult at(struct peer *peer, enum op op, CUdeviceptr ptr, __u64 bytes, __u64 value)
{
	struct message m = { .op = op, .ptr = ptr, .bytes = bytes, .value = value };

	return call(peer, &m, -1);
}

static bool importer_sees(struct peer *peer, CUdeviceptr ptr, const void *want, size_t n)
{
	struct message m = { .op = READ, .ptr = ptr, .bytes = n };

	return !call(peer, &m, -1) && m.value == hash(want, n);
}

static CUresult destroy(struct peer *peer, CUmemoryPool pool)
{
	struct message m = { .op = DESTROY, .pool = pool };

	return call(peer, &m, -1);
}

static int importer_end(struct peer *peer)
{
	struct message m = { .op = QUIT };

	send_message(peer->sock, &m, -1);
	close(peer->sock);
	return end_child(peer->pid);
}

/* --- the exporter */

FIXTURE(share)
{
	CUcontext ctx;
	CUstream s;
	CUmemoryPool pool;
	int fd;
	struct peer peer;
	CUmemoryPool theirs;
};

static CUresult shared_pool(CUmemoryPool *pool, int types)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .handleTypes = types,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};

	return cuMemPoolCreate(pool, &props);
}

FIXTURE_SETUP(share)
{
	cuda_begin(_metadata, &self->ctx);
	ASSERT_CU(cuStreamCreate(&self->s, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(shared_pool(&self->pool, POSIX));
	ASSERT_CU(cuMemPoolExportToShareableHandle(&self->fd, self->pool, POSIX, 0));
	ASSERT_EQ(0, importer_start(&self->peer));
	ASSERT_CU(import(&self->peer, self->fd, &self->theirs));
}

QUIET_AFTERWARDS(share)

static const size_t sizes[] = { 1, 4096, 10000, 300000, 5 * MIB };

TEST_F(share, both_ways)
{
	unsigned char *want = malloc(5 * MIB);
	CUmemPoolPtrExportData data;
	CUdeviceptr p, q, again;

	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t n = sizes[i];
		struct message m;

		ASSERT_CU(cuMemAllocFromPoolAsync(&p, n, self->pool, self->s));
		memset(want, 0x40 + i, n);
		ASSERT_CU(cuMemcpyHtoDAsync(p, want, n, self->s));
		ASSERT_CU(cuStreamSynchronize(self->s));
		ASSERT_CU(cuMemPoolExportPointer(&data, p));
		ASSERT_CU(import_pointer(&self->peer, self->theirs, &data, &q));
		ASSERT_CU(import_pointer(&self->peer, self->theirs, &data, &again));
		EXPECT_EQ(q, again);
		m = (struct message) { .op = SIZE, .ptr = q + n - 1 };
		EXPECT_CU(call(&self->peer, &m, -1));
		EXPECT_EQ(q, m.value);
		EXPECT_EQ(n, m.bytes);
		EXPECT_TRUE(importer_sees(&self->peer, q, want, n));
		EXPECT_CU(at(&self->peer, FILL, q, n, 0x77));
		EXPECT_TRUE(sees(p, 0x77, n));
		EXPECT_EQ(INVALID, at(&self->peer, FILL, q, n + 1, 0));
		EXPECT_EQ(INVALID, destroy(&self->peer, self->theirs));
		EXPECT_CU(at(&self->peer, i % 2 ? FREE : FREE_ASYNC, q, 0, 0));
		EXPECT_EQ(INVALID, at(&self->peer, FREE, q, 0, 0));
		EXPECT_CU(cuMemFreeAsync(p, self->s));
	}
	EXPECT_CU(destroy(&self->peer, self->theirs));
	EXPECT_EQ(INVALID, destroy(&self->peer, self->theirs));
	EXPECT_EQ(0, importer_end(&self->peer));
	EXPECT_CU(cuStreamSynchronize(self->s));
	EXPECT_CU(cuMemPoolDestroy(self->pool));
	free(want);
}

/* As CUDA's programming guide has it: only the streams wait, and the importer frees first. */
TEST_F(share, events)
{
	CUevent ready, done;
	struct message m = { .op = FILL, .bytes = MIB, .value = 0x5a, .events = true };
	CUmemPoolPtrExportData data;
	CUdeviceptr p, gate;
	unsigned int flags = CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
	void *word;

	ASSERT_CU(cuEventCreate(&ready, flags));
	ASSERT_CU(cuEventCreate(&done, flags));
	ASSERT_CU(cuMemHostAlloc(&word, 4096, 0));
	memset(word, 0, 4);
	gate = (uintptr_t)word;
	/* The gate holds the allocation's work until after the import. */
	ASSERT_CU(cuStreamWaitValue32(self->s, gate, 1, CU_STREAM_WAIT_VALUE_EQ));
	ASSERT_CU(cuMemAllocFromPoolAsync(&p, MIB, self->pool, self->s));
	ASSERT_CU(cuMemsetD8Async(p, 0x11, MIB, self->s));
	ASSERT_CU(cuEventRecord(ready, self->s));
	ASSERT_CU(cuMemPoolExportPointer(&data, p));
	ASSERT_CU(cuIpcGetEventHandle(&m.ready, ready));
	ASSERT_CU(cuIpcGetEventHandle(&m.done, done));
	ASSERT_CU(import_pointer(&self->peer, self->theirs, &data, &m.ptr));
	ASSERT_CU(call(&self->peer, &m, -1));
	EXPECT_CU(at(&self->peer, FREE_ASYNC, m.ptr, 0, 0));
	EXPECT_CU(destroy(&self->peer, self->theirs));
	ASSERT_CU(cuStreamWaitEvent(self->s, done, 0));
	EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(self->s));
	__atomic_store_n((__u32 *)word, 1, __ATOMIC_RELEASE);
	EXPECT_CU(cuStreamSynchronize(self->s));
	EXPECT_TRUE(sees(p, 0x5a, MIB));
	EXPECT_CU(cuMemFreeAsync(p, self->s));
	EXPECT_EQ(0, importer_end(&self->peer));
	EXPECT_CU(cuMemPoolDestroy(self->pool));
}

/*
 * Allocate a block that has a chunk of its own, export it, let the importer fill it, and free it on
 * both sides.  @held: the importer's stream is held, so it reads instead.
 */
static CUresult pass_on(struct peer *peer, CUmemoryPool pool, CUmemoryPool theirs, CUstream s,
			enum op op, bool held)
{
	CUmemPoolPtrExportData data;
	CUdeviceptr p, q;
	CUresult result = cuMemAllocFromPoolAsync(&p, 5 * MIB, pool, s);

	if (!result)
		result = cuStreamSynchronize(s);
	if (!result)
		result = cuMemPoolExportPointer(&data, p);
	if (!result)
		result = import_pointer(peer, theirs, &data, &q);
	/* FILL waits for the importer's stream, which is held until the test opens the gate. */
	if (!result)
		result = held ? at(peer, READ, q, 4096, 0) : at(peer, FILL, q, 5 * MIB, 0x21);
	if (!result && !held && !sees(p, 0x21, 4096))
		result = CUDA_ERROR_UNKNOWN;
	if (!result)
		result = at(peer, op, q, 0, 0);
	if (!result)
		result = cuMemFreeAsync(p, s);
	return result ? result : cuStreamSynchronize(s);
}

/* An importer does not keep chunks that the exporter makes, passes and frees again and again. */
TEST_F_TIMEOUT(share, come_and_go, 120)
{
	struct message m = { .op = FILL, .bytes = MIB, .value = 0x5a, .events = true };
	unsigned int flags = CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
	CUmemPoolPtrExportData data;
	long long used, most = 0;
	CUevent ready, done;
	CUdeviceptr p;
	CUstream held;
	void *word;

	ASSERT_CU(cuStreamCreate(&held, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuEventCreate(&ready, flags));
	ASSERT_CU(cuEventCreate(&done, flags));
	ASSERT_CU(cuMemHostAlloc(&word, 4096, 0));
	memset(word, 0, 4);
	ASSERT_CU(cuMemAllocFromPoolAsync(&p, MIB, self->pool, self->s));
	ASSERT_CU(cuMemsetD8Async(p, 0x11, MIB, self->s));
	ASSERT_CU(cuStreamSynchronize(self->s));
	ASSERT_CU(cuMemPoolExportPointer(&data, p));
	ASSERT_CU(cuStreamWaitValue32(held, (uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ));
	ASSERT_CU(cuEventRecord(ready, held));
	ASSERT_CU(cuIpcGetEventHandle(&m.ready, ready));
	ASSERT_CU(cuIpcGetEventHandle(&m.done, done));
	ASSERT_CU(import_pointer(&self->peer, self->theirs, &data, &m.ptr));
	ASSERT_CU(call(&self->peer, &m, -1));
	EXPECT_CU(at(&self->peer, FREE_ASYNC, m.ptr, 0, 0));
	/* The importer's fill has not begun: it keeps its memory while other chunks come and go. */
	for (int i = 0; i < 12; i++)
		ASSERT_CU(pass_on(&self->peer, self->pool, self->theirs, self->s,
				  i % 2 ? FREE : FREE_ASYNC, true));
	__atomic_store_n((__u32 *)word, 1, __ATOMIC_RELEASE);
	EXPECT_CU(cuEventSynchronize(done));
	EXPECT_TRUE(sees(p, 0x5a, MIB));
	for (int i = 0; i < 30; i++) {
		ASSERT_CU(pass_on(&self->peer, self->pool, self->theirs, self->s,
				  i % 2 ? FREE : FREE_ASYNC, false));
		used = dev_attr(0, "used");
		most = used > most && i ? used : most;
	}
	printf("# at most %lld MiB\n", most / (long long)MIB);
	EXPECT_LT(0, most);
	EXPECT_GT(100 * (long long)MIB, most);
	EXPECT_CU(cuMemFreeAsync(p, self->s));
	EXPECT_CU(destroy(&self->peer, self->theirs));
	EXPECT_EQ(0, importer_end(&self->peer));
}

/* An imported pool imports pointers and cannot allocate. */
TEST_F(share, import_only)
{
	struct message m = { .op = ALLOC, .pool = self->theirs };
	CUmemoryPool twice;

	EXPECT_EQ(INVALID, call(&self->peer, &m, -1));
	/* The same descriptor can be imported a second time. */
	EXPECT_CU(import(&self->peer, self->fd, &twice));
	EXPECT_NE(self->theirs, twice);
	EXPECT_CU(destroy(&self->peer, twice));
	EXPECT_CU(destroy(&self->peer, self->theirs));
	EXPECT_EQ(0, importer_end(&self->peer));
}

/* Pools that are imported and destroyed while work is queued leave no memory allocated. */
TEST_F(share, nothing_noted)
{
	volatile __u32 *gate;
	CUmemoryPool pool;
	size_t before = 0;

	ASSERT_CU(cuMemHostAlloc((void **)&gate, 4096, 0));
	*gate = 0;
	ASSERT_CU(cuStreamWaitValue32(self->s, (uintptr_t)gate, 1, CU_STREAM_WAIT_VALUE_EQ));
	for (int i = 0; i < 400; i++) {
		if (i == 10)
			before = mallinfo2().uordblks;
		ASSERT_CU(cuMemPoolImportFromShareableHandle(&pool, (void *)(uintptr_t)self->fd,
							     POSIX, 0));
		ASSERT_CU(cuMemPoolDestroy(pool));
		EXPECT_EQ(INVALID, cuMemPoolDestroy(pool));
	}
	EXPECT_GT(before + 64 * KIB, mallinfo2().uordblks);
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
	EXPECT_CU(cuStreamSynchronize(self->s));
	EXPECT_EQ(0, importer_end(&self->peer));
}

/* Importing any 64 bytes yields an error, or memory of the pool. */
TEST_F(share, garbled)
{
	CUmemPoolPtrExportData good, bad;
	unsigned int accepted = 0;
	CUdeviceptr p, q, other;
	CUmemoryPool second;
	unsigned char *bytes = (unsigned char *)&bad;
	struct message m;
	struct rng rng;

	rng_start(&rng, "garbled");
	ASSERT_CU(cuMemAllocFromPoolAsync(&p, 10000, self->pool, self->s));
	ASSERT_CU(cuStreamSynchronize(self->s));
	ASSERT_CU(cuMemPoolExportPointer(&good, p));
	for (int i = 0; i < 1500; i++) {
		bad = good;
		if (i < 512)
			bytes[i / 8] ^= 1 << i % 8;
		else if (i < 1000)
			rng_fill(&rng, bytes + rng_below(&rng, 7) * 8, 8);
		else
			rng_fill(&rng, &bad, sizeof(bad));
		if (import_pointer(&self->peer, self->theirs, &bad, &q))
			continue;
		accepted++;
		/* Imported memory reports its range, and all of the range can be read. */
		m = (struct message) { .op = SIZE, .ptr = q };
		ASSERT_CU(call(&self->peer, &m, -1));
		EXPECT_GE(2 * MIB, m.bytes);
		EXPECT_CU(at(&self->peer, READ, q, m.bytes, 0));
		EXPECT_CU(at(&self->peer, FREE, q, 0, 0));
	}
	printf("# %u accepted\n", accepted);
	/* A pointer of another pool cannot be imported from this one. */
	ASSERT_CU(shared_pool(&second, POSIX));
	ASSERT_CU(cuMemAllocFromPoolAsync(&other, 10000, second, self->s));
	ASSERT_CU(cuMemPoolExportPointer(&bad, other));
	EXPECT_EQ(INVALID, import_pointer(&self->peer, self->theirs, &bad, &q));
	/* The unchanged data can still be imported. */
	EXPECT_CU(import_pointer(&self->peer, self->theirs, &good, &q));
	EXPECT_EQ(0, importer_end(&self->peer));
}

/* Memory that the exporter has given back cannot be imported; imported memory stays. */
TEST_F(share, exporter_frees_first)
{
	CUmemPoolPtrExportData data, late;
	unsigned char *want = malloc(3 * MIB);
	CUdeviceptr p, q, r;

	memset(want, 0x31, 3 * MIB);
	ASSERT_CU(cuMemAllocFromPoolAsync(&p, 3 * MIB, self->pool, self->s));
	ASSERT_CU(cuMemsetD8Async(p, 0x31, 3 * MIB, self->s));
	ASSERT_CU(cuMemAllocFromPoolAsync(&r, 3 * MIB, self->pool, self->s));
	ASSERT_CU(cuStreamSynchronize(self->s));
	ASSERT_CU(cuMemPoolExportPointer(&data, p));
	ASSERT_CU(cuMemPoolExportPointer(&late, r));
	ASSERT_CU(import_pointer(&self->peer, self->theirs, &data, &q));
	ASSERT_CU(cuMemFreeAsync(p, self->s));
	ASSERT_CU(cuMemFreeAsync(r, self->s));
	ASSERT_CU(cuStreamSynchronize(self->s));
	EXPECT_CU(cuMemPoolDestroy(self->pool));
	EXPECT_TRUE(importer_sees(&self->peer, q, want, 3 * MIB));
	EXPECT_EQ(INVALID, import_pointer(&self->peer, self->theirs, &late, &r));
	EXPECT_CU(at(&self->peer, FREE, q, 0, 0));
	EXPECT_CU(destroy(&self->peer, self->theirs));
	EXPECT_EQ(0, importer_end(&self->peer));
	free(want);
}

TEST_F(share, importer_killed)
{
	CUmemPoolPtrExportData data;
	CUdeviceptr p, q;
	CUevent event;

	ASSERT_CU(cuMemAllocFromPoolAsync(&p, MIB, self->pool, self->s));
	ASSERT_CU(cuMemPoolExportPointer(&data, p));
	ASSERT_CU(import_pointer(&self->peer, self->theirs, &data, &q));
	kill(self->peer.pid, SIGKILL);
	EXPECT_EQ(-SIGKILL, importer_end(&self->peer));
	/* The exporter still works. */
	EXPECT_CU(cuEventCreate(&event, 0));
	EXPECT_CU(cuMemsetD8Async(p, 9, MIB, self->s));
	EXPECT_CU(cuMemFreeAsync(p, self->s));
	EXPECT_CU(cuStreamSynchronize(self->s));
	EXPECT_TRUE(dev_attr_becomes(0, "views", 0, 10));
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 10) || strict());
}

/* This process is the importer; the other process makes the pool and is killed. */
TEST_F(share, exporter_killed)
{
	CUmemPoolPtrExportData data, *shared;
	CUmemoryPool pool;
	CUdeviceptr p;
	int socks[2], fd;
	struct message m;
	pid_t pid;

	ASSERT_EQ(0, importer_end(&self->peer));
	shared = &data;
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, socks));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		/* A forked child cannot use the library; a new program can. */
		dup2(socks[1], PEER_FD);
		execl("/proc/self/exe", "exporter", PEER_WORD, PEER_WORD, NULL);
		_exit(127);
	}
	close(socks[1]);
	ASSERT_TRUE(get_message(socks[0], &m, &fd));
	ASSERT_CU(m.result);
	ASSERT_CU(cuMemPoolImportFromShareableHandle(&pool, (void *)(uintptr_t)fd, POSIX, 0));
	ASSERT_CU(cuMemPoolImportPointer(&p, pool, &m.data));
	*shared = m.data;
	kill(pid, SIGKILL);
	EXPECT_EQ(-SIGKILL, end_child(pid));
	close(socks[0]);
	EXPECT_TRUE(sees(p, 0x2f, MIB));
	EXPECT_CU(cuMemsetD8(p, 1, MIB));
	EXPECT_CU(cuCtxSynchronize());
	EXPECT_TRUE(sees(p, 1, MIB));
	EXPECT_CU(cuMemFree(p));
	EXPECT_CU(cuMemPoolDestroy(pool));
	/* The descriptor can still be imported, but the pool has no memory. */
	EXPECT_CU(cuMemPoolImportFromShareableHandle(&pool, (void *)(uintptr_t)fd, POSIX, 0));
	EXPECT_EQ(INVALID, cuMemPoolImportPointer(&p, pool, shared));
	EXPECT_CU(cuMemPoolDestroy(pool));
	close(fd);
}

static int exporter_main(void)
{
	struct message m = { 0 };
	CUmemoryPool pool;
	CUcontext ctx;
	int fd = -1;

	m.result = cuda_start(&ctx);
	if (!m.result)
		m.result = shared_pool(&pool, POSIX);
	if (!m.result)
		m.result = cuMemPoolExportToShareableHandle(&fd, pool, POSIX, 0);
	if (!m.result)
		m.result = cuMemAllocFromPoolAsync(&m.ptr, MIB, pool, 0);
	if (!m.result)
		m.result = cuMemsetD8Async(m.ptr, 0x2f, MIB, 0);
	if (!m.result)
		m.result = cuStreamSynchronize(0);
	if (!m.result)
		m.result = cuMemPoolExportPointer(&m.data, m.ptr);
	if (!send_message(PEER_FD, &m, fd))
		return 1;
	for (;;)
		pause();
	return 0;
}

/* The result of a thread that looks for channels while a cancellation is pending; -1: no return. */
static int cancelled_result = -1;

static void *look_for_channels(void *arg)
{
	CUmemoryPool pool;

	pthread_cancel(pthread_self());
	cancelled_result = shared_pool(&pool, CU_MEM_HANDLE_TYPE_FABRIC);
	pthread_testcancel();
	return arg;
}

/* The call is not a cancellation point, so no lock stays taken. */
TEST_F(share, cancelled)
{
	CUmemoryPool pool;
	pthread_t thread;
	void *end;

	ASSERT_EQ(0, pthread_create(&thread, NULL, look_for_channels, NULL));
	ASSERT_EQ(0, pthread_join(thread, &end));
	EXPECT_EQ(PTHREAD_CANCELED, end);
	EXPECT_EQ(CUDA_ERROR_NOT_PERMITTED, cancelled_result);
	EXPECT_EQ(CUDA_ERROR_NOT_PERMITTED, shared_pool(&pool, CU_MEM_HANDLE_TYPE_FABRIC));
	EXPECT_EQ(0, importer_end(&self->peer));
}

/* A pool is exported over a fabric to processes that hold the same channel. */
TEST_F(share, fabric)
{
	CUmemPoolPtrExportData data;
	struct message m = { .op = IMPORT_FABRIC };
	unsigned int major = 0;
	CUmemoryPool pool;
	char line[100], path[100];
	CUdeviceptr p, q;
	FILE *f;

	/* There is no channel file yet. */
	EXPECT_EQ(CUDA_ERROR_NOT_PERMITTED, shared_pool(&pool, CU_MEM_HANDLE_TYPE_FABRIC));
	f = fopen("/proc/devices", "re");
	ASSERT_NE(NULL, f);
	while (fgets(line, sizeof(line), f))
		if (strstr(line, "gpumem-channels"))
			major = atoi(line);
	fclose(f);
	ASSERT_NE(0, major);
	snprintf(path, sizeof(path), "%s/channel0", CHANNELS);
	mkdir(CHANNELS, 0755);
	ASSERT_EQ(0, mknod(path, S_IFCHR | 0600, makedev(major, 0)));
	EXPECT_CU(shared_pool(&pool, CU_MEM_HANDLE_TYPE_FABRIC | POSIX));
	EXPECT_CU(cuMemPoolExportToShareableHandle(&m.fabric, pool, CU_MEM_HANDLE_TYPE_FABRIC, 0));
	EXPECT_CU(cuMemAllocFromPoolAsync(&p, 5000, pool, self->s));
	EXPECT_CU(cuMemsetD8Async(p, 3, 5000, self->s));
	EXPECT_CU(cuStreamSynchronize(self->s));
	EXPECT_CU(cuMemPoolExportPointer(&data, p));
	EXPECT_CU(call(&self->peer, &m, -1));
	EXPECT_CU(import_pointer(&self->peer, m.pool, &data, &q));
	EXPECT_CU(at(&self->peer, FILL, q, 5000, 4));
	EXPECT_TRUE(sees(p, 4, 5000));
	unlink(path);
	rmdir(CHANNELS);
	EXPECT_EQ(0, importer_end(&self->peer));
}

/* --- beyond CUDA: memory handles of blocks of pools */

FIXTURE(beyond)
{
	CUcontext ctx;
	struct peer peer;
};

FIXTURE_SETUP(beyond)
{
	ASSERT_TRUE(dev_quiet(10));
	ASSERT_EQ(0, setenv("GPUMEM_POOL_IPC", "1", 1));
	ASSERT_CU(cuda_start(&self->ctx));
	ASSERT_EQ(0, setenv("T_CUDA_POOL_IPC_PLAIN", "1", 1));
	ASSERT_EQ(0, peer_start(&self->peer, NULL));
}

QUIET_AFTERWARDS(beyond)

TEST_F(beyond, handles)
{
	CUipcMemHandle one, again;
	CUdeviceptr p, q[40], theirs;
	unsigned int capable = 0;
	unsigned char want[9000];

	memset(want, 0x66, sizeof(want));
	ASSERT_CU(cuMemAllocAsync(&p, sizeof(want), 0));
	ASSERT_CU(cuMemcpyHtoD(p, want, sizeof(want)));
	EXPECT_CU(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
					p));
	EXPECT_EQ(1, capable);
	ASSERT_CU(cuIpcGetMemHandle(&one, p));
	ASSERT_CU(cuIpcGetMemHandle(&again, p));
	EXPECT_EQ(0, memcmp(&one, &again, sizeof(one)));
	ASSERT_CU(peer_open(&self->peer, &one, &theirs));
	EXPECT_TRUE(peer_sees(&self->peer, theirs, want, sizeof(want)));
	EXPECT_CU(peer_put(&self->peer, PEER_FILL, theirs, sizeof(want), 0x67));
	EXPECT_TRUE(sees(p, 0x67, sizeof(want)));
	/* The block is freed, but open elsewhere: it is not reused, and cannot be opened again. */
	ASSERT_CU(cuMemFreeAsync(p, 0));
	for (int i = 0; i < 40; i++) {
		ASSERT_CU(cuMemAllocAsync(&q[i], sizeof(want), 0));
		EXPECT_NE(p, q[i]);
	}
	memset(want, 0x67, sizeof(want));
	EXPECT_TRUE(peer_sees(&self->peer, theirs, want, sizeof(want)));
	EXPECT_CU(peer_close(&self->peer, theirs));
	EXPECT_EQ(INVALID, peer_open(&self->peer, &one, &theirs));
	for (int i = 0; i < 40; i++)
		EXPECT_CU(cuMemFreeAsync(q[i], 0));
	EXPECT_CU(cuStreamSynchronize(0));
	EXPECT_EQ(0, peer_end(&self->peer));
}

int main(int argc, char **argv)
{
	if (argc == 3)
		return exporter_main();
	if (argc == 2 && !strcmp(argv[1], PEER_WORD))
		return getenv("T_CUDA_POOL_IPC_PLAIN") ? peer_main() : importer_main();
	return test_harness_run(argc, argv);
}
