/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers for the tests of the CUDA API: starting the library, reading the kernel's counters for
 * it, keeping a stream busy, and a second process (a peer) that opens memory handles.
 *
 * Every case runs in a process of its own, so each calls cuInit() anew.  The client lives as long
 * as its process, so the parent checks that nothing is left (FIXTURE_TEARDOWN_PARENT).
 * Include this after kselftest_harness.h.
 */
#ifndef GPUMEM_SELFTESTS_CUDA_UTIL_H
#define GPUMEM_SELFTESTS_CUDA_UTIL_H

#include <cuda.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "common/util.h"

#define ASSERT_CU(call)		ASSERT_EQ(CUDA_SUCCESS, call)
#define EXPECT_CU(call)		EXPECT_EQ(CUDA_SUCCESS, call)
#define INVALID			CUDA_ERROR_INVALID_VALUE

/* An address of device memory is a pointer for the CPU, which may not follow it in strict mode. */
static inline unsigned char *cpu(CUdeviceptr ptr)
{
	return (unsigned char *)(uintptr_t)ptr;
}

static inline bool strict(void)
{
	const char *text = getenv("GPUMEM_STRICT");

	return text && strcmp(text, "0");
}

/* Whether the library executes small operations itself, on device memory. */
static inline bool inlining(void)
{
	const char *text = getenv("GPUMEM_INLINE");

	return (!text || strcmp(text, "0")) && !strict();
}

/* cuInit() and the first device's primary context. */
static inline CUresult cuda_start(CUcontext *ctx)
{
	CUresult result = cuInit(0);

	if (!result)
		result = cuDevicePrimaryCtxRetain(ctx, 0);
	return result ? result : cuCtxSetCurrent(*ctx);
}

/* --- fixtures */

/* The first step of a setup: no device is in use, and the first device's primary context is current. */
static inline void cuda_begin(struct __test_metadata *_metadata, CUcontext *ctx)
{
	ASSERT_TRUE(dev_quiet(10));
	ASSERT_CU(cuda_start(ctx));
}

/* The teardown: nothing is left of the process that ran the case. */
#define QUIET_AFTERWARDS(name)			\
FIXTURE_TEARDOWN_PARENT(name)			\
{						\
	EXPECT_TRUE(dev_quiet(10));		\
}

/* A fixture whose cases start the library themselves. */
#define QUIET_FIXTURE(name)			\
FIXTURE(name)					\
{						\
};						\
						\
FIXTURE_SETUP(name)				\
{						\
	ASSERT_TRUE(dev_quiet(10));		\
}						\
						\
QUIET_AFTERWARDS(name)

/* A fixture of the first device's primary context. */
#define CONTEXT_FIXTURE(name)			\
FIXTURE(name)					\
{						\
	CUcontext ctx;				\
};						\
						\
FIXTURE_SETUP(name)				\
{						\
	cuda_begin(_metadata, &self->ctx);	\
}						\
						\
QUIET_AFTERWARDS(name)

/* A fixture of the first device's primary context and a non-blocking stream. */
#define NON_BLOCKING_FIXTURE(name)		\
FIXTURE(name)					\
{						\
	CUcontext ctx;				\
	CUstream s;				\
};						\
						\
FIXTURE_SETUP(name)				\
{						\
	cuda_begin(_metadata, &self->ctx);	\
	ASSERT_CU(cuStreamCreate(&self->s, CU_STREAM_NON_BLOCKING)); \
}						\
						\
QUIET_AFTERWARDS(name)

/* For a thread's main function: if @cond fails, store the line in w->failed and end the thread. */
#define WORKER_CHECK(cond) do {			\
	if (!(cond)) {				\
		w->failed = __LINE__;		\
		return NULL;			\
	}					\
} while (0)

/* A pool whose memory hardware may decompress into. */
static inline CUresult pool_make_decompress(CUmemoryPool *pool)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
		.usage = CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS,
	};

	return cuMemPoolCreate(pool, &props);
}

/* --- the client */

/* This process's descriptors of device nodes: how many, and the last in @fd. */
static inline unsigned int node_fds(int *fd)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	unsigned int count = 0;

	while (dir && (entry = readdir(dir))) {
		char path[300], text[64];
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
		n = readlink(path, text, sizeof(text) - 1);
		if (n < 0)
			continue;
		text[n] = 0;
		if (!strncmp(text, "/dev/gpumem", 11)) {
			count++;
			if (fd)
				*fd = atoi(entry->d_name);
		}
	}
	if (dir)
		closedir(dir);
	return count;
}

/* All of this process's descriptors; -1 if that cannot be known. */
static inline int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = -3;		/* ".", ".." and the directory itself */

	if (!dir)
		return -1;
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static inline bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* Whether a thread of this process is in the system call that waits for a timeline. */
static inline bool sleeps_in_wait(int tid)
{
	unsigned long long args[2];
	char path[64], line[256];
	bool is = false;
	long nr;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
	file = fopen(path, "re");
	/* "running", or the number and the arguments. */
	if (file && fgets(line, sizeof(line), file))
		is = sscanf(line, "%ld %llx %llx", &nr, &args[0], &args[1]) == 3 &&
		     nr == SYS_ioctl && args[1] == GPUMEM_TIMELINE_WAIT;
	if (file)
		fclose(file);
	return is;
}

/* Read the kernel's counters of the library's client. */
static inline int client_stats(struct gpumem_stats *stats)
{
	__u64 device;
	int fd = -1;

	if (node_fds(&fd) != 1)
		return -ENODEV;
	return fdinfo_read(getpid(), fd, stats, &device);
}

/* Bytes of device @ordinal that all clients use, less memory that any client could get. */
static inline long long used(unsigned int ordinal)
{
	return dev_attr(ordinal, "used") - dev_attr(ordinal, "cached");
}

/* Bytes that a small allocation's block or a large allocation takes. */
static inline __u64 whole_slots(__u64 bytes)
{
	return (bytes + 2 * MIB - 1) & ~(2 * MIB - 1);
}

/* --- copies and fills */

/* Copies from and to the process's own memory go through staging memory in pieces of this. */
#define STAGE		MIB
/* Entries that a stream's ring holds: QUEUE_ENTRIES in libgpumem/exec/queue.h. */
#define RING_DEPTH	4096
/* Asynchronous operations above this are always queued. */
#define INLINE		(256 * KIB)

/* Export memory: other processes may then open it, though none does. */
static inline CUresult export(CUdeviceptr p)
{
	CUipcMemHandle handle;

	return cuIpcGetMemHandle(&handle, p);
}

/* Work that the engine has done for the library. */
struct meter {
	__u64 jobs, copied, filled;
};

/* The part of that work that view() and put() caused. */
static struct meter looking;

static inline int meter_read(struct meter *m)
{
	struct gpumem_stats stats;
	int ret = client_stats(&stats);

	*m = (struct meter) {
		stats.jobs - looking.jobs, stats.copy_bytes - looking.copied, stats.fill_bytes,
	};
	return ret;
}

/* --- a look at device memory */

/*
 * In strict mode the CPU can neither read nor write device memory.  The nearest substitute is a
 * copy in a stream of its own, which waits for no other stream.
 */
static inline CUresult move(void *to, const void *from, CUdeviceptr p, size_t n)
{
	CUcontext ctx = NULL, primary = NULL;
	CUresult result = cuCtxGetCurrent(&ctx);
	CUstream stream;

	if (!result && !ctx) {
		result = cuDevicePrimaryCtxRetain(&primary, 0);
		if (!result)
			result = cuCtxPushCurrent(primary);
	}
	if (!result)
		result = cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	if (!result) {
		result = to ? cuMemcpyDtoHAsync(to, p, n, stream) :
			cuMemcpyHtoDAsync(p, from, n, stream);
		if (!result)
			result = cuStreamSynchronize(stream);
		cuStreamDestroy(stream);
	}
	if (primary) {
		cuCtxPopCurrent(NULL);
		cuDevicePrimaryCtxRelease(0);
	}
	/* Several threads may be here at once. */
	__atomic_fetch_add(&looking.jobs, (n + STAGE - 1) / STAGE, __ATOMIC_RELAXED);
	__atomic_fetch_add(&looking.copied, n, __ATOMIC_RELAXED);
	return result;
}

/* Whether the CPU may not access the memory at an address. */
static inline bool dark(CUdeviceptr p)
{
	unsigned int type = 0;

	return strict() && !cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p) &&
	       type == CU_MEMORYTYPE_DEVICE;
}

/* Look at @n bytes of any memory.  The pointer is valid until the thread's fourth call from now. */
static inline const unsigned char *view(CUdeviceptr p, size_t n)
{
	static __thread unsigned char *copies[4];
	static __thread unsigned int last;
	unsigned char **copy = &copies[last++ % ARRAY_SIZE(copies)];

	if (!dark(p))
		return cpu(p);
	*copy = realloc(*copy, n + 1);
	if (!*copy || move(*copy, NULL, p, n)) {
		fprintf(stderr, "# no view of %zu bytes at %llx\n", n, p);
		abort();
	}
	return *copy;
}

static inline bool sees(CUdeviceptr p, unsigned char value, size_t n)
{
	return all_are(view(p, n), value, n);
}

/* Write by the CPU, or in strict mode by a copy. */
static inline void put(CUdeviceptr p, const void *from, size_t n)
{
	if (!dark(p)) {
		memcpy(cpu(p), from, n);
	} else if (move(NULL, from, p, n)) {
		fprintf(stderr, "# nothing put to %zu bytes at %llx\n", n, p);
		abort();
	}
}

static inline void poke(CUdeviceptr p, unsigned char value, size_t n)
{
	unsigned char *bytes = malloc(n + 1);

	if (!bytes)
		abort();
	memset(bytes, value, n);
	put(p, bytes, n);
	free(bytes);
}

/* --- two devices */

/* Enable peer access between two contexts, both ways; @a is current afterwards. */
static inline CUresult befriend(CUcontext a, CUcontext b)
{
	CUresult result = cuCtxSetCurrent(b);

	if (!result)
		result = cuCtxEnablePeerAccess(a, 0);
	if (!result)
		result = cuCtxSetCurrent(a);
	return result ? result : cuCtxEnablePeerAccess(b, 0);
}

/* --- work that takes its time */

struct load {
	CUdeviceptr mem;
	size_t bytes;
	unsigned int fills;	/* that take about a quarter of a second */
	unsigned char value;
};

static inline CUresult load_make(struct load *load)
{
	__u64 start, took, shortest = NSEC;
	CUresult result;

	load->bytes = 16 * MIB;
	load->value = 0;
	result = cuMemAlloc(&load->mem, load->bytes);
	/* A fill takes long by chance if something else runs meanwhile, and the load would be too short. */
	for (int i = 0; !result && i < 5; i++) {
		start = mono_ns();
		result = cuMemsetD8Async(load->mem, 0, load->bytes, CU_STREAM_PER_THREAD);
		if (!result)
			result = cuStreamSynchronize(CU_STREAM_PER_THREAD);
		took = mono_ns() - start;
		if (took < shortest)
			shortest = took;
	}
	load->fills = 1 + NSEC / 4 / (shortest + 1);
	if (load->fills > 200)
		load->fills = 200;
	return result;
}

/* Queue the load.  When it is done, all of its memory holds load->value. */
static inline CUresult load_put(struct load *load, CUstream stream)
{
	CUresult result = CUDA_SUCCESS;

	load->value++;
	for (unsigned int i = 0; !result && i < load->fills; i++)
		result = cuMemsetD8Async(load->mem,
					 i + 1 == load->fills ? load->value : ~load->value,
					 load->bytes, stream);
	return result;
}

static inline bool load_done(const struct load *load)
{
	return sees(load->mem, load->value, load->bytes);
}

/*
 * Put load on a stream until the stream is seen busy after it: a test whose process does not run
 * for a while may find the work done.  CUDA_ERROR_NOT_READY is success.
 */
static inline CUresult load_put_busy(struct load *load, CUstream stream)
{
	CUresult result = CUDA_SUCCESS;

	for (int i = 0; !result && i < 10; i++) {
		result = load_put(load, stream);
		if (!result)
			result = cuStreamQuery(stream);
	}
	return result;
}

/* --- a second process */

enum peer_op {
	PEER_OPEN,	/* handle, flags: ptr */
	PEER_CLOSE,	/* ptr */
	PEER_READ,	/* ptr, bytes: value, a hash of what the CPU and a copy both see */
	PEER_WRITE,	/* ptr, bytes, value: the CPU writes */
	PEER_FILL,	/* ptr, bytes, value: the engine writes */
	PEER_ALLOC,	/* bytes: ptr */
	PEER_FREE,	/* ptr */
	PEER_GET,	/* ptr: handle */
	PEER_RANGE,	/* ptr: ptr, value */
	PEER_NO_CTX,	/* leave the current context */
	PEER_CTX,	/* make the peer's context current again */
	PEER_FDS,	/* value: descriptors of device nodes */
	PEER_QUIT,
};

struct peer_message {
	enum peer_op op;
	CUresult result;
	CUipcMemHandle handle;
	CUdeviceptr ptr;
	__u64 bytes, value;
	unsigned int flags;
};

struct peer {
	pid_t pid;
	int sock;
};

static inline __u64 hash(const void *p, size_t n)
{
	const unsigned char *c = p;
	__u64 h = 0xcbf29ce484222325ULL;

	while (n--)
		h = (h ^ *c++) * 0x100000001b3ULL;
	return h;
}

static inline CUresult peer_read(struct peer_message *m)
{
	unsigned char *copy = malloc(m->bytes);
	CUresult result = copy ? cuMemcpyDtoH(copy, m->ptr, m->bytes) : CUDA_ERROR_OUT_OF_MEMORY;

	if (!result && memcmp(copy, view(m->ptr, m->bytes), m->bytes))
		result = CUDA_ERROR_UNKNOWN;
	if (!result)
		m->value = hash(copy, m->bytes);
	free(copy);
	return result;
}

static inline CUresult peer_do(struct peer_message *m, CUcontext ctx)
{
	CUdeviceptr base;
	CUresult result;
	size_t size;

	switch (m->op) {
	case PEER_OPEN:
		return cuIpcOpenMemHandle(&m->ptr, m->handle, m->flags);
	case PEER_CLOSE:
		return cuIpcCloseMemHandle(m->ptr);
	case PEER_READ:
		return peer_read(m);
	case PEER_WRITE:
		poke(m->ptr, m->value, m->bytes);
		return CUDA_SUCCESS;
	case PEER_FILL:
		result = cuMemsetD8(m->ptr, m->value, m->bytes);
		return result ? result : cuCtxSynchronize();
	case PEER_ALLOC:
		return cuMemAlloc(&m->ptr, m->bytes);
	case PEER_FREE:
		return cuMemFree(m->ptr);
	case PEER_GET:
		return cuIpcGetMemHandle(&m->handle, m->ptr);
	case PEER_RANGE:
		result = cuMemGetAddressRange(&base, &size, m->ptr);
		m->ptr = base;
		m->value = size;
		return result;
	case PEER_NO_CTX:
		return cuCtxSetCurrent(NULL);
	case PEER_CTX:
		return cuCtxSetCurrent(ctx);
	case PEER_FDS:
		m->value = node_fds(NULL);
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_UNKNOWN;
	}
}

#define PEER_FD		3
#define PEER_WORD	"--peer"

/* The peer's main(): it counts the descriptors that survived the exec before it opens any. */
static inline int peer_main(void)
{
	struct peer_message m = { .value = node_fds(NULL) };
	CUcontext ctx = NULL;

	m.result = cuda_start(&ctx);
	do {
		if (send(PEER_FD, &m, sizeof(m), MSG_NOSIGNAL) != sizeof(m))
			return 1;
		if (recv(PEER_FD, &m, sizeof(m), 0) != sizeof(m))
			return 1;
		if (m.op != PEER_QUIT)
			m.result = peer_do(&m, ctx);
	} while (m.op != PEER_QUIT);
	return 0;
}

/* Starts this program anew, with @word and a socket at PEER_FD: 0 or a negative errno. */
static inline int peer_exec_as(struct peer *peer, const char *word)
{
	int socks[2];
	pid_t pid;

	*peer = (struct peer) { .pid = -1, .sock = -1 };
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks))
		return -errno;
	fflush(stdout);
	fflush(stderr);
	/* @peer may lie in memory that parent and child share. */
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (socks[1] == PEER_FD)
			fcntl(PEER_FD, F_SETFD, 0);
		else
			dup2(socks[1], PEER_FD);
		execl("/proc/self/exe", "peer", word, NULL);
		_exit(127);
	}
	close(socks[1]);
	peer->pid = pid;
	peer->sock = socks[0];
	return pid < 0 ? -EPIPE : 0;
}

static inline int peer_exec(struct peer *peer)
{
	return peer_exec_as(peer, PEER_WORD);
}

/* Start a peer and get its first message; @inherited: node descriptors that survived the exec. */
static inline int peer_start(struct peer *peer, __u64 *inherited)
{
	struct peer_message m;
	int ret = peer_exec(peer);

	if (ret)
		return ret;
	if (recv(peer->sock, &m, sizeof(m), 0) != sizeof(m))
		return -EPIPE;
	if (inherited)
		*inherited = m.value;
	return m.result ? -ENODEV : 0;
}

/* Have the peer make one call: its result, or -1 if the peer is gone. */
static inline CUresult peer_call(struct peer *peer, struct peer_message *m)
{
	if (send(peer->sock, m, sizeof(*m), MSG_NOSIGNAL) != sizeof(*m) ||
	    recv(peer->sock, m, sizeof(*m), 0) != sizeof(*m))
		return (CUresult)-1;
	return m->result;
}

static inline CUresult peer_open(struct peer *peer, const CUipcMemHandle *handle, CUdeviceptr *ptr)
{
	struct peer_message m = {
		.op = PEER_OPEN, .handle = *handle, .flags = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS,
	};
	CUresult result = peer_call(peer, &m);

	*ptr = m.ptr;
	return result;
}

/* Have the peer carry out @op on a range; @value is its argument, and then its result. */
static inline CUresult peer_range(struct peer *peer, enum peer_op op, CUdeviceptr ptr, __u64 bytes,
				  __u64 *value)
{
	struct peer_message m = { .op = op, .ptr = ptr, .bytes = bytes, .value = *value };
	CUresult result = peer_call(peer, &m);

	*value = m.value;
	return result;
}

static inline CUresult peer_close(struct peer *peer, CUdeviceptr ptr)
{
	__u64 none = 0;

	return peer_range(peer, PEER_CLOSE, ptr, 0, &none);
}

static inline CUresult peer_put(struct peer *peer, enum peer_op op, CUdeviceptr ptr, __u64 bytes,
				__u64 value)
{
	return peer_range(peer, op, ptr, bytes, &value);
}

/* Whether the peer sees exactly @n bytes of @want. */
static inline bool peer_sees(struct peer *peer, CUdeviceptr ptr, const void *want, size_t n)
{
	__u64 value = 0;

	return !peer_range(peer, PEER_READ, ptr, n, &value) && value == hash(want, n);
}

/* Ask the peer to end: its exit status, or minus a signal's number. */
static inline int peer_end(struct peer *peer)
{
	struct peer_message m = { .op = PEER_QUIT };

	send(peer->sock, &m, sizeof(m), MSG_NOSIGNAL);
	close(peer->sock);
	return end_child(peer->pid);
}

#endif
