// SPDX-License-Identifier: GPL-2.0
/*
 * Memory handles by the CUDA API: other processes open the memory that one process exports, in any
 * order of opening, freeing, closing and dying; and how the library behaves in forked and exec'ed
 * processes.
 *
 * The other process (peer) is this program, exec'ed anew.
 */
#include <pthread.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "cuda_util.h"

#define LAZY	CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS

FIXTURE(ipc)
{
	CUcontext ctx;
	struct peer peer;
};

FIXTURE_SETUP(ipc)
{
	cuda_begin(_metadata, &self->ctx);
	ASSERT_EQ(0, peer_start(&self->peer, NULL));
}

QUIET_AFTERWARDS(ipc)

static void noise(void *p, size_t n, __u64 seed)
{
	struct rng r = { seed };

	rng_fill(&r, p, n);
}

/* --- the life of a handle */

TEST_F(ipc, handles)
{
	CUipcMemHandle one, again, two;
	CUdeviceptr p, q, r;
	char *host = malloc(100);

	ASSERT_CU(cuMemAlloc(&p, 4096));
	ASSERT_CU(cuMemAlloc(&q, 4096));
	EXPECT_CU(cuIpcGetMemHandle(&one, p));
	/* All handles of an allocation have the same bytes, whichever address of it is passed. */
	memset(&again, 0xff, sizeof(again));
	EXPECT_CU(cuIpcGetMemHandle(&again, p + 4095));
	EXPECT_EQ(0, memcmp(&one, &again, sizeof(one)));
	EXPECT_CU(cuIpcGetMemHandle(&two, q));
	EXPECT_NE(0, memcmp(&one, &two, sizeof(one)));
	EXPECT_EQ(INVALID, cuIpcGetMemHandle(NULL, p));
	EXPECT_EQ(INVALID, cuIpcGetMemHandle(&two, 0));
	EXPECT_EQ(INVALID, cuIpcGetMemHandle(&two, q + 4096));
	EXPECT_EQ(INVALID, cuIpcGetMemHandle(&two, ~0ULL));
	EXPECT_EQ(INVALID, cuIpcGetMemHandle(&two, (uintptr_t)host));
	/* The process that made a handle cannot open it. */
	r = 1;
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle(&r, one, LAZY));
	EXPECT_EQ(INVALID, cuIpcCloseMemHandle(p));
	EXPECT_EQ(INVALID, cuIpcCloseMemHandle(0));
	EXPECT_EQ(0, dev_attr(0, "views"));
	/* The next owner of the address gets another handle. */
	EXPECT_CU(cuMemFree(p));
	EXPECT_EQ(INVALID, cuIpcGetMemHandle(&two, p));
	EXPECT_EQ(INVALID, cuIpcOpenMemHandle(&r, one, LAZY));
	ASSERT_CU(cuMemAlloc(&r, 4096));
	EXPECT_EQ(p, r);
	EXPECT_CU(cuIpcGetMemHandle(&again, r));
	EXPECT_NE(0, memcmp(&one, &again, sizeof(one)));
	ASSERT_CU(cuCtxSetCurrent(NULL));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuIpcGetMemHandle(&one, q));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle(&p, one, LAZY));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuIpcCloseMemHandle(q));
	EXPECT_EQ(0, peer_end(&self->peer));
	free(host);
}

TEST_F(ipc, garbage)
{
	CUdeviceptr p = 0;
	CUipcMemHandle good, bad;
	struct rng r;

	rng_start(&r, "garbage");
	memset(&bad, 0, sizeof(bad));
	EXPECT_EQ(INVALID, cuIpcOpenMemHandle(&p, bad, LAZY));
	memset(&bad, 0xff, sizeof(bad));
	EXPECT_EQ(INVALID, cuIpcOpenMemHandle(&p, bad, LAZY));
	for (int i = 0; i < 1000; i++) {
		rng_fill(&r, &bad, sizeof(bad));
		EXPECT_EQ(INVALID, cuIpcOpenMemHandle(&p, bad, LAZY));
	}
	/* Every bit of the 32 bytes that a handle holds counts; the other bytes are zero. */
	ASSERT_CU(cuMemAlloc(&p, 100));
	ASSERT_CU(cuIpcGetMemHandle(&good, p));
	EXPECT_TRUE(all_are((char *)&good + 32, 0, sizeof(good) - 32));
	for (int bit = 0; bit < 256; bit++) {
		bad = good;
		bad.reserved[bit / 8] ^= 1 << (bit % 8);
		EXPECT_EQ(INVALID, peer_open(&self->peer, &bad, &p)) {
			TH_LOG("bit %d", bit);
		}
	}
	EXPECT_EQ(0, dev_attr(0, "views"));
	EXPECT_CU(peer_open(&self->peer, &good, &p));
	EXPECT_EQ(0, peer_end(&self->peer));
}

/* Both sides read and write, by the CPU and by the engine, sizes of all kinds. */
TEST_F(ipc, open)
{
	const size_t sizes[] = { 1, 512, 4096, 10000, 2 * MIB, 10 * MIB };
	unsigned char *want = malloc(10 * MIB);

	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t n = sizes[i];
		struct peer_message m;
		CUdeviceptr p, theirs;
		CUipcMemHandle handle;
		__u64 value = 0;

		noise(want, n, i);
		ASSERT_CU(cuMemAlloc(&p, n));
		ASSERT_CU(cuMemcpyHtoD(p, want, n));
		ASSERT_CU(cuIpcGetMemHandle(&handle, p));
		ASSERT_CU(peer_open(&self->peer, &handle, &theirs));
		EXPECT_EQ(0, theirs % 512);
		EXPECT_EQ(1, dev_attr(0, "views"));
		m = (struct peer_message) { .op = PEER_RANGE, .ptr = theirs + n - 1 };
		EXPECT_CU(peer_call(&self->peer, &m));
		EXPECT_EQ(theirs, m.ptr);
		EXPECT_EQ(n, m.value);
		EXPECT_TRUE(peer_sees(&self->peer, theirs, want, n));
		/* This process sees what the peer writes, and the peer what this process writes. */
		EXPECT_CU(peer_put(&self->peer, PEER_WRITE, theirs, n, 0x21));
		EXPECT_TRUE(sees(p, 0x21, n));
		EXPECT_CU(peer_put(&self->peer, PEER_FILL, theirs, n, 0x22));
		EXPECT_TRUE(sees(p, 0x22, n));
		EXPECT_CU(cuMemsetD8(p, 0x23, n));
		EXPECT_CU(cuCtxSynchronize());
		memset(want, 0x23, n);
		EXPECT_TRUE(peer_sees(&self->peer, theirs, want, n));
		/* The peer's operations must stay in the allocation, not only in its pages. */
		EXPECT_EQ(INVALID, peer_put(&self->peer, PEER_FILL, theirs, n + 1, 1));
		EXPECT_EQ(INVALID, peer_put(&self->peer, PEER_FREE, theirs, 0, 0));
		EXPECT_EQ(INVALID, peer_range(&self->peer, PEER_GET, theirs, 0, &value));
		EXPECT_CU(peer_close(&self->peer, theirs));
		EXPECT_EQ(INVALID, peer_close(&self->peer, theirs));
		EXPECT_EQ(CUDA_ERROR_NOT_FOUND,
			  peer_range(&self->peer, PEER_RANGE, theirs, 0, &value));
		EXPECT_TRUE(dev_attr_becomes(0, "views", 0, 10));
		EXPECT_CU(cuMemFree(p));
		EXPECT_EQ(INVALID, peer_open(&self->peer, &handle, &theirs));
	}
	EXPECT_EQ(0, peer_end(&self->peer));
	free(want);
}

TEST_F(ipc, open_errors)
{
	struct peer_message m = { .op = PEER_OPEN };
	CUdeviceptr p, own, theirs, none;
	CUipcMemHandle handle;
	__u64 value = 0;

	ASSERT_CU(cuMemAlloc(&p, 4096));
	ASSERT_CU(cuIpcGetMemHandle(&handle, p));
	for (unsigned int flags = 0; flags < 4; flags += flags ? 1 : 2) {
		m.op = PEER_OPEN;
		m.handle = handle;
		m.flags = flags;
		EXPECT_EQ(INVALID, peer_call(&self->peer, &m)) {
			TH_LOG("flags %u", flags);
		}
	}
	EXPECT_EQ(INVALID, cuIpcOpenMemHandle(NULL, handle, LAZY));
	/* Memory that the peer allocated cannot be closed, only freed. */
	m = (struct peer_message) { .op = PEER_ALLOC, .bytes = 4096 };
	ASSERT_CU(peer_call(&self->peer, &m));
	own = m.ptr;
	EXPECT_EQ(INVALID, peer_close(&self->peer, own));
	ASSERT_CU(peer_open(&self->peer, &handle, &theirs));
	EXPECT_EQ(INVALID, peer_close(&self->peer, theirs + 1));
	EXPECT_CU(peer_range(&self->peer, PEER_NO_CTX, 0, 0, &value));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, peer_open(&self->peer, &handle, &none));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, peer_close(&self->peer, theirs));
	EXPECT_CU(peer_range(&self->peer, PEER_CTX, 0, 0, &value));
	EXPECT_CU(peer_close(&self->peer, theirs));
	EXPECT_CU(peer_put(&self->peer, PEER_FREE, own, 0, 0));
	EXPECT_EQ(0, peer_end(&self->peer));
}

/* Opening twice gives one pointer, and needs two closes. */
TEST_F(ipc, open_twice)
{
	CUdeviceptr p, first, second, third;
	unsigned char want[4096];
	CUipcMemHandle handle;

	noise(want, sizeof(want), 1);
	ASSERT_CU(cuMemAlloc(&p, 4096));
	put(p, want, 4096);
	ASSERT_CU(cuIpcGetMemHandle(&handle, p));
	ASSERT_CU(peer_open(&self->peer, &handle, &first));
	ASSERT_CU(peer_open(&self->peer, &handle, &second));
	EXPECT_EQ(first, second);
	EXPECT_EQ(1, dev_attr(0, "views"));
	EXPECT_CU(peer_close(&self->peer, first));
	EXPECT_TRUE(peer_sees(&self->peer, first, want, 4096));
	EXPECT_CU(peer_close(&self->peer, first));
	EXPECT_EQ(INVALID, peer_close(&self->peer, first));
	EXPECT_TRUE(dev_attr_becomes(0, "views", 0, 10));
	ASSERT_CU(peer_open(&self->peer, &handle, &third));
	EXPECT_TRUE(peer_sees(&self->peer, third, want, 4096));
	EXPECT_CU(peer_close(&self->peer, third));
	EXPECT_EQ(0, peer_end(&self->peer));
}

/* An import belongs to the context that opened it; another context of the device cannot open it. */
TEST_F(ipc, two_contexts)
{
	struct peer_message m = { .op = PEER_ALLOC, .bytes = 4096 };
	CUdeviceptr first, again, p = 1, far;
	CUcontext two, other;
	CUdevice device;

	ASSERT_CU(peer_call(&self->peer, &m));
	m.op = PEER_GET;
	ASSERT_CU(peer_call(&self->peer, &m));
	ASSERT_CU(cuCtxCreate(&two, NULL, 0, 0));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	ASSERT_CU(cuIpcOpenMemHandle(&first, m.handle, LAZY));
	ASSERT_CU(cuCtxSetCurrent(two));
	EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenMemHandle(&p, m.handle, LAZY));
	EXPECT_EQ(1, p);
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_CU(cuIpcOpenMemHandle(&again, m.handle, LAZY));
	EXPECT_EQ(first, again);
	EXPECT_EQ(1, dev_attr(0, "views"));
	/* A context of another device has an import of its own. */
	ASSERT_CU(cuDeviceGet(&device, 1));
	ASSERT_CU(cuCtxCreate(&other, NULL, 0, device));
	ASSERT_CU(cuIpcOpenMemHandle(&far, m.handle, LAZY));
	EXPECT_NE(first, far);
	EXPECT_EQ(2, dev_attr(0, "views"));
	EXPECT_CU(cuIpcOpenMemHandle(&p, m.handle, LAZY));
	EXPECT_EQ(far, p);
	/* Closing works from any context. */
	EXPECT_CU(cuIpcCloseMemHandle(first));
	ASSERT_CU(cuCtxSetCurrent(two));
	EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenMemHandle(&p, m.handle, LAZY));
	EXPECT_CU(cuIpcCloseMemHandle(first));
	EXPECT_EQ(INVALID, cuIpcCloseMemHandle(first));
	EXPECT_EQ(1, dev_attr(0, "views"));
	/* Now @two can open the handle; the import lives until @two is destroyed. */
	EXPECT_CU(cuIpcOpenMemHandle(&p, m.handle, LAZY));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenMemHandle(&again, m.handle, LAZY));
	EXPECT_CU(cuCtxDestroy(two));
	EXPECT_EQ(1, dev_attr(0, "views"));
	EXPECT_EQ(INVALID, cuIpcCloseMemHandle(p));
	EXPECT_CU(cuIpcOpenMemHandle(&again, m.handle, LAZY));
	EXPECT_CU(cuIpcCloseMemHandle(again));
	EXPECT_CU(cuCtxDestroy(other));
	EXPECT_EQ(0, dev_attr(0, "views"));
	EXPECT_EQ(0, peer_end(&self->peer));
}

#define OPENERS	6

struct opener {
	CUcontext ctx;
	const CUipcMemHandle *handle;
	pthread_barrier_t *start;
	CUdeviceptr p;
	CUresult result;
};

static void *open_main(void *arg)
{
	struct opener *o = arg;

	o->result = cuCtxSetCurrent(o->ctx);
	pthread_barrier_wait(o->start);
	if (!o->result)
		o->result = cuIpcOpenMemHandle(&o->p, *o->handle, LAZY);
	return NULL;
}

/* Threads that open a handle at the same time get one import. */
TEST_F(ipc, opened_at_once)
{
	struct peer_message m = { .op = PEER_ALLOC, .bytes = 4 * MIB };
	struct opener opener[OPENERS];
	pthread_t thread[OPENERS];
	pthread_barrier_t start;

	ASSERT_CU(peer_call(&self->peer, &m));
	m.op = PEER_GET;
	ASSERT_CU(peer_call(&self->peer, &m));
	pthread_barrier_init(&start, NULL, OPENERS);
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < OPENERS; i++) {
			opener[i] = (struct opener){
				.ctx = self->ctx, .handle = &m.handle, .start = &start,
			};
			ASSERT_EQ(0, pthread_create(&thread[i], NULL, open_main, &opener[i]));
		}
		for (int i = 0; i < OPENERS; i++) {
			pthread_join(thread[i], NULL);
			EXPECT_CU(opener[i].result);
			EXPECT_EQ(opener[0].p, opener[i].p);
		}
		EXPECT_EQ(1, dev_attr(0, "views"));
		for (int i = 0; i < OPENERS; i++)
			EXPECT_CU(cuIpcCloseMemHandle(opener[0].p));
		EXPECT_EQ(0, dev_attr(0, "views"));
	}
	EXPECT_EQ(0, peer_end(&self->peer));
}

/* Several processes, several handles of one block. */
TEST_F(ipc, many)
{
	enum { PEERS = 3, HANDLES = 8, BYTES = 3000 };
	CUdeviceptr p[HANDLES], theirs[PEERS][HANDLES];
	CUipcMemHandle handle[HANDLES];
	unsigned char want[BYTES];
	struct peer peers[PEERS];

	for (int i = 0; i < PEERS; i++) {
		ASSERT_EQ(0, peer_start(&peers[i], NULL));
	}
	for (int k = 0; k < HANDLES; k++) {
		ASSERT_CU(cuMemAlloc(&p[k], BYTES));
		noise(want, BYTES, k);
		put(p[k], want, BYTES);
		ASSERT_CU(cuIpcGetMemHandle(&handle[k], p[k]));
		for (int i = 0; i < PEERS; i++) {
			ASSERT_CU(peer_open(&peers[i], &handle[k], &theirs[i][k]));
		}
	}
	EXPECT_EQ(PEERS * HANDLES, dev_attr(0, "views"));
	for (int k = 0; k < HANDLES; k++) {
		noise(want, BYTES, k);
		for (int i = 0; i < PEERS; i++) {
			EXPECT_TRUE(peer_sees(&peers[i], theirs[i][k], want, BYTES));
		}
		/* One writes, all see it. */
		EXPECT_CU(peer_put(&peers[k % PEERS], PEER_FILL, theirs[k % PEERS][k], BYTES, k));
		memset(want, k, BYTES);
		for (int i = 0; i < PEERS; i++) {
			EXPECT_TRUE(peer_sees(&peers[i], theirs[i][k], want, BYTES));
		}
		EXPECT_TRUE(sees(p[k], k, BYTES));
	}
	EXPECT_EQ(0, peer_end(&peers[0]));
	EXPECT_EQ(-SIGKILL, kill_child(peers[1].pid));
	EXPECT_TRUE(dev_attr_becomes(0, "views", HANDLES, 10));
	for (int k = 0; k < HANDLES; k++) {
		EXPECT_CU(peer_close(&peers[2], theirs[2][k]));
	}
	EXPECT_TRUE(dev_attr_becomes(0, "views", 0, 10));
	EXPECT_EQ(0, peer_end(&peers[2]));
	EXPECT_EQ(0, peer_end(&self->peer));
}

/* --- the exporter or the importer ends first */

TEST_F(ipc, exporter_frees_first)
{
	const size_t sizes[] = { 4096, 3 * MIB };

	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		unsigned char *want = malloc(sizes[i]);
		CUdeviceptr p, theirs;
		CUipcMemHandle handle;
		long long bytes;

		noise(want, sizes[i], i);
		ASSERT_CU(cuMemAlloc(&p, sizes[i]));
		put(p, want, sizes[i]);
		ASSERT_CU(cuIpcGetMemHandle(&handle, p));
		ASSERT_CU(peer_open(&self->peer, &handle, &theirs));
		EXPECT_TRUE(peer_sees(&self->peer, theirs, want, sizes[i]));
		bytes = used(0);
		EXPECT_CU(cuMemFree(p));
		EXPECT_TRUE(peer_sees(&self->peer, theirs, want, sizes[i]));
		EXPECT_CU(peer_put(&self->peer, PEER_FILL, theirs, sizes[i], 1));
		EXPECT_EQ(bytes, used(0));
		EXPECT_CU(peer_close(&self->peer, theirs));
		EXPECT_TRUE(dev_attr_becomes(0, "views", 0, 10));
		EXPECT_TRUE(dev_attr_becomes(0, "used", bytes - whole_slots(sizes[i]), 10));
		free(want);
	}
	EXPECT_EQ(0, peer_end(&self->peer));
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 10));
}

/* The peer exports and ends, or is killed; this process can still access the memory. */
TEST_F(ipc, exporter_goes_first)
{
	for (int killed = 0; killed < 2; killed++) {
		struct peer_message m = { .op = PEER_ALLOC, .bytes = 100000 };
		CUdeviceptr theirs, p, q;
		struct peer peer;

		ASSERT_EQ(0, peer_start(&peer, NULL));
		ASSERT_CU(peer_call(&peer, &m));
		theirs = m.ptr;
		ASSERT_CU(peer_put(&peer, PEER_WRITE, theirs, 100000, 0x77));
		m = (struct peer_message) { .op = PEER_GET, .ptr = theirs };
		ASSERT_CU(peer_call(&peer, &m));
		ASSERT_CU(cuIpcOpenMemHandle(&p, m.handle, LAZY));
		EXPECT_TRUE(sees(p, 0x77, 100000));
		EXPECT_EQ(killed ? -SIGKILL : 0, killed ? kill_child(peer.pid) : peer_end(&peer));
		EXPECT_TRUE(dev_attr_becomes(0, "clients", 2, 10));
		EXPECT_TRUE(sees(p, 0x77, 100000));
		EXPECT_CU(cuMemsetD8(p, 0x78, 100000));
		EXPECT_CU(cuCtxSynchronize());
		EXPECT_TRUE(sees(p, 0x78, 100000));
		/* A second open finds the open import; after the last close the handle is dead. */
		EXPECT_CU(cuIpcOpenMemHandle(&q, m.handle, LAZY));
		EXPECT_EQ(p, q);
		EXPECT_CU(cuIpcCloseMemHandle(p));
		EXPECT_CU(cuIpcCloseMemHandle(p));
		EXPECT_EQ(INVALID, cuIpcCloseMemHandle(p));
		EXPECT_EQ(INVALID, cuIpcOpenMemHandle(&q, m.handle, LAZY));
		EXPECT_TRUE(dev_attr_becomes(0, "views", 0, 10));
	}
	EXPECT_EQ(0, peer_end(&self->peer));
}

TEST_F(ipc, importer_is_killed)
{
	CUdeviceptr p, theirs, own;
	struct peer_message m = { .op = PEER_ALLOC, .bytes = 5 * MIB };
	CUipcMemHandle handle;

	ASSERT_CU(cuMemAlloc(&p, 3 * MIB));
	ASSERT_CU(cuIpcGetMemHandle(&handle, p));
	ASSERT_CU(peer_open(&self->peer, &handle, &theirs));
	ASSERT_CU(peer_call(&self->peer, &m));
	own = m.ptr;
	ASSERT_CU(peer_put(&self->peer, PEER_FILL, own, 5 * MIB, 1));
	ASSERT_CU(peer_put(&self->peer, PEER_FILL, theirs, 3 * MIB, 0x55));
	EXPECT_LE(10 * (long long)MIB, used(0));
	EXPECT_EQ(-SIGKILL, kill_child(self->peer.pid));
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 1, 10));
	EXPECT_TRUE(dev_attr_becomes(0, "views", 0, 10));
	EXPECT_TRUE(dev_attr_becomes(0, "used", 4 * MIB, 10));
	EXPECT_TRUE(sees(p, 0x55, 3 * MIB));
	EXPECT_CU(cuMemFree(p));
	EXPECT_EQ(0, used(0));
}

/* The end of a context closes the imports that were opened in it. */
TEST_F(ipc, importing_context_is_destroyed)
{
	struct peer_message m = { .op = PEER_ALLOC, .bytes = 4096 };
	CUdeviceptr theirs, p, base;
	CUcontext two;
	size_t size;

	ASSERT_CU(peer_call(&self->peer, &m));
	theirs = m.ptr;
	m.op = PEER_GET;
	ASSERT_CU(peer_call(&self->peer, &m));
	ASSERT_CU(cuCtxCreate(&two, NULL, 0, 0));
	ASSERT_CU(cuIpcOpenMemHandle(&p, m.handle, LAZY));
	EXPECT_CU(cuCtxDestroy(two));
	EXPECT_TRUE(dev_attr_becomes(0, "views", 0, 10));
	EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &size, p));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_EQ(INVALID, cuIpcCloseMemHandle(p));
	/* The handle is still good. */
	ASSERT_CU(cuIpcOpenMemHandle(&p, m.handle, LAZY));
	EXPECT_CU(cuIpcCloseMemHandle(p));
	EXPECT_CU(peer_put(&self->peer, PEER_FREE, theirs, 0, 0));
	EXPECT_EQ(0, peer_end(&self->peer));
}

/* --- descriptors */

TEST_F(ipc, descriptors)
{
	CUdeviceptr p[100], theirs;
	CUipcMemHandle handle;
	struct peer other;
	__u64 inherited = 99, n = 0;
	int fds, fd = -1;

	fds = count_fds();
	ASSERT_LT(0, fds);
	EXPECT_EQ(1, node_fds(&fd));
	EXPECT_LT(2, fd);
	EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD));
	for (int i = 0; i < 100; i++) {
		ASSERT_CU(cuMemAlloc(&p[i], i % 10 ? 4096 : 2 * MIB + 1));
		ASSERT_CU(cuIpcGetMemHandle(&handle, p[i]));
		ASSERT_CU(cuMemsetD8(p[i], 1, 4096));
		ASSERT_CU(peer_open(&self->peer, &handle, &theirs));
	}
	EXPECT_CU(cuCtxSynchronize());
	EXPECT_EQ(fds, count_fds());
	/* All descriptors are closed by exec. */
	for (int i = 3; i < 256; i++) {
		int flags = fcntl(i, F_GETFD);

		EXPECT_TRUE(flags < 0 || flags & FD_CLOEXEC);
	}
	ASSERT_EQ(0, peer_start(&other, &inherited));
	EXPECT_EQ(0, inherited);
	EXPECT_CU(peer_range(&other, PEER_FDS, 0, 0, &n));
	EXPECT_EQ(1, n);
	EXPECT_CU(peer_range(&self->peer, PEER_FDS, 0, 0, &n));
	EXPECT_EQ(1, n);
	EXPECT_EQ(0, peer_end(&other));
	EXPECT_EQ(0, peer_end(&self->peer));
}

/* --- fork */

struct forked {
	CUcontext ctx;
	CUdeviceptr p;
	CUstream stream;
	CUevent event;
};

/* Call functions with arguments that are valid in the parent; print the first wrong call. */
static int in_child(void *arg)
{
	struct forked *f = arg;
	unsigned char data[64] = { 0 };
	CUpointer_attribute attrs[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE };
	void *values[] = { data };
	CUDA_MEMCPY2D copy = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = f->p,
		.dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = data, .WidthInBytes = 8,
		.Height = 1,
	};
	CUipcMemHandle handle = { { 0 } };
	CUdeviceptr p = 0;
	CUcontext ctx;
	CUstream s;
	CUevent e;
	CUuuid uuid;
	CUdevice device;
	size_t a, b;
	unsigned int flags;
	unsigned long long id;
	float ms;
	int n, m;

#define THREE(call) do { \
		if ((call) != CUDA_ERROR_NOT_INITIALIZED) { \
			fprintf(stderr, "# in the child: %s\n", #call); \
			return 1; \
		} \
	} while (0)

	THREE(cuInit(0));
	THREE(cuDeviceGet(&device, 0));
	THREE(cuDeviceGetCount(&n));
	THREE(cuDeviceGetName((char *)data, sizeof(data), 0));
	THREE(cuDeviceGetUuid(&uuid, 0));
	THREE(cuDeviceTotalMem(&a, 0));
	THREE(cuDeviceGetAttribute(&n, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 0));
	THREE(cuDeviceGetPCIBusId((char *)data, sizeof(data), 0));
	THREE(cuDeviceGetByPCIBusId(&device, "0000:00:00.0"));
	THREE(cuDevicePrimaryCtxRetain(&ctx, 0));
	THREE(cuDevicePrimaryCtxRelease(0));
	THREE(cuDevicePrimaryCtxReset(0));
	THREE(cuDevicePrimaryCtxGetState(0, &flags, &n));
	THREE(cuDevicePrimaryCtxSetFlags(0, 0));
	THREE(cuCtxCreate(&ctx, NULL, 0, 0));
	THREE(cuCtxDestroy(f->ctx));
	THREE(cuCtxSetCurrent(f->ctx));
	THREE(cuCtxGetCurrent(&ctx));
	THREE(cuCtxPushCurrent(f->ctx));
	THREE(cuCtxPopCurrent(&ctx));
	THREE(cuCtxGetDevice(&device));
	THREE(cuCtxGetFlags(&flags));
	THREE(cuCtxGetId(f->ctx, &id));
	THREE(cuCtxGetLimit(&a, CU_LIMIT_STACK_SIZE));
	THREE(cuCtxGetStreamPriorityRange(&n, &m));
	THREE(cuCtxSynchronize());
	THREE(cuMemGetInfo(&a, &b));
	THREE(cuMemAlloc(&p, 4096));
	THREE(cuMemAllocPitch(&p, &a, 16, 16, 4));
	THREE(cuMemFree(f->p));
	THREE(cuMemFree(0));
	THREE(cuMemGetAddressRange(&p, &a, f->p));
	THREE(cuMemcpy(f->p, f->p + 64, 8));
	THREE(cuMemcpyHtoD(f->p, data, 8));
	THREE(cuMemcpyDtoH(data, f->p, 8));
	THREE(cuMemcpyDtoD(f->p, f->p + 64, 8));
	THREE(cuMemcpyHtoDAsync(f->p, data, 8, f->stream));
	THREE(cuMemcpyDtoHAsync(data, f->p, 8, f->stream));
	THREE(cuMemcpyDtoDAsync(f->p, f->p + 64, 8, f->stream));
	THREE(cuMemcpyAsync(f->p, f->p + 64, 8, f->stream));
	THREE(cuMemcpyHtoD_v2_ptds(f->p, data, 8));
	THREE(cuMemcpy2D(&copy));
	THREE(cuMemcpy2DUnaligned(&copy));
	THREE(cuMemcpy2DAsync(&copy, f->stream));
	THREE(cuMemsetD8(f->p, 1, 8));
	THREE(cuMemsetD32(f->p, 1, 8));
	THREE(cuMemsetD8Async(f->p, 1, 8, f->stream));
	THREE(cuMemsetD32Async_ptsz(f->p, 1, 8, NULL));
	THREE(cuPointerGetAttribute(data, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, f->p));
	THREE(cuPointerGetAttributes(1, attrs, values, f->p));
	THREE(cuIpcGetMemHandle(&handle, f->p));
	THREE(cuIpcOpenMemHandle(&p, handle, LAZY));
	THREE(cuIpcCloseMemHandle(f->p));
	THREE(cuStreamCreate(&s, 0));
	THREE(cuStreamCreateWithPriority(&s, 0, 0));
	THREE(cuStreamQuery(f->stream));
	THREE(cuStreamSynchronize(f->stream));
	THREE(cuStreamSynchronize(NULL));
	THREE(cuStreamWaitEvent(f->stream, f->event, 0));
	THREE(cuStreamGetCtx(f->stream, &ctx));
	THREE(cuStreamGetFlags(f->stream, &flags));
	THREE(cuStreamGetPriority(f->stream, &n));
	THREE(cuStreamGetId(f->stream, &id));
	THREE(cuStreamDestroy(f->stream));
	THREE(cuEventCreate(&e, 0));
	THREE(cuEventRecord(f->event, f->stream));
	THREE(cuEventQuery(f->event));
	THREE(cuEventSynchronize(f->event));
	THREE(cuEventElapsedTime(&ms, f->event, f->event));
	THREE(cuEventDestroy(f->event));
	/* This function returns the same as before cuInit(). */
	return cuMemGetHandleForAddressRange(&n, f->p, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
					     0) == CUDA_ERROR_NOT_SUPPORTED ? 0 : 2;
}

/* The child's copy of the descriptor is the parent's client, which the child may not use. */
static int in_child_descriptor(void *arg)
{
	struct gpumem_info info;
	__u32 id;
	int fd = -1;

	(void)arg;
	if (node_fds(&fd) != 1)
		return 1;
	if (gp_info(fd, 0, &info) != -EPERM || gp_bo_alloc(fd, page_size, &id) != -EPERM)
		return 2;
	return 0;
}

static int in_child_fresh(void *arg)
{
	struct peer peer;

	(void)arg;
	/* After an exec the library starts anew. */
	if (peer_start(&peer, NULL))
		return 1;
	return peer_end(&peer);
}

TEST_F(ipc, fork)
{
	struct forked f = { .ctx = self->ctx };
	struct gpumem_stats before, after;
	CUdeviceptr q;

	ASSERT_CU(cuMemAlloc(&f.p, 4096));
	poke(f.p, 0x66, 4096);
	ASSERT_CU(cuStreamCreate(&f.stream, 0));
	ASSERT_CU(cuEventCreate(&f.event, 0));
	ASSERT_CU(cuMemsetD8Async(f.p, 0x66, 100, f.stream));
	ASSERT_CU(cuEventRecord(f.event, f.stream));
	ASSERT_CU(cuStreamSynchronize(f.stream));
	ASSERT_EQ(0, client_stats(&before));
	EXPECT_EQ(0, run_child(in_child, &f));
	EXPECT_EQ(0, run_child(in_child_descriptor, NULL));
	EXPECT_EQ(0, run_child(in_child_fresh, NULL));
	/* The children have not changed the parent's state. */
	ASSERT_EQ(0, client_stats(&after));
	/* A worker leaves its stream some time after the work is done. */
	before.engine_ns = after.engine_ns;
	for (unsigned int i = 0; i < stat_count; i++) {
		EXPECT_EQ(stat_get(&before, i), stat_get(&after, i)) {
			TH_LOG("%s", stat_names[i].name);
		}
	}
	EXPECT_TRUE(sees(f.p, 0x66, 4096));
	EXPECT_CU(cuStreamQuery(f.stream));
	EXPECT_CU(cuEventQuery(f.event));
	EXPECT_CU(cuMemAlloc(&q, 4096));
	EXPECT_CU(cuMemcpyDtoDAsync(q, f.p, 4096, f.stream));
	EXPECT_CU(cuStreamSynchronize(f.stream));
	EXPECT_TRUE(sees(q, 0x66, 4096));
	EXPECT_EQ(0, peer_end(&self->peer));
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], PEER_WORD))
		return peer_main();
	return test_harness_run(argc, argv);
}
