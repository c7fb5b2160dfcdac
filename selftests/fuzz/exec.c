// SPDX-License-Identifier: GPL-2.0
/*
 * The executor: runs programs.
 *
 * The executor is a process of its own.  The loop (main.c) kills it when a program hangs; the kill
 * is also a test of the module.  Each program starts from the same state: no client open, nothing
 * mapped, and a fresh *arena*, 4 MiB of the process's memory at a fixed address.  The arena is
 * anonymous memory, with 256 KiB each of read-only memory at 2 MiB, of nothing at 3 MiB, and of
 * pages of a file at 3.5 MiB.  Arguments of kind K_MEMORY are offsets in the arena.
 *
 * A call may not block for ever: an alarm interrupts waits in both threads, and the loop kills an
 * executor that hangs nevertheless.  A bad pointer does not kill the executor, because the
 * executor accesses mappings by system calls only.
 *
 * Locks: @lock protects second_call.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/netlink.h>

#include <linux/dma-buf.h>

#include <linux/gpumem_netlink.h>

#include "common/pool_util.h"
#include "common/vgem.h"
#include "fuzz.h"

#define ARENA		0x200000000000UL
#define ARENA_SIZE	0x400000UL
#define MOST		0x800000UL	/* bytes that one call may allocate, at most */
#define ALARM_MS	100

/* The resources that a call made. */
struct result {
	uint64_t value[2];
	__u8 token[GPUMEM_TOKEN_SIZE];
	size_t length;			/* of a mapping */
	struct gpumem_ring *ring;	/* of a stream */
	size_t ring_size;
	const struct gpumem_timeline_page *page;
	__u32 entries;
	__u64 tail;
};

static struct shared *shared;
static struct result results[MAX_CALLS];
static int null_fd, file_fd, zero_fd, vgem = -1, last_fd;
static char *cut;	/* a page, and nothing behind it */
static char *rdonly;
static struct trace trace_main, trace_second;

static pthread_t main_thread, second_thread;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int second_call = -1;

static void nothing(int sig)
{
	/* The kernel delivers SIGALRM to one thread of the process; SIGUSR1 interrupts both. */
	if (sig == SIGALRM) {
		pthread_kill(main_thread, SIGUSR1);
		pthread_kill(second_thread, SIGUSR1);
	}
}

static uint64_t value_of(const struct prog *p, unsigned int at, unsigned int i)
{
	const struct arg *a = &p->calls[at].args[i];
	enum kind kind = specs[p->calls[at].kind].args[i].kind;

	if (a->ref >= 0)
		return results[a->ref].value[a->slot];
	switch (kind) {
	case K_MEMORY:
		return a->value < ARENA_SIZE ? ARENA + a->value : a->value;
	case K_ALLOC:
		return a->value > MOST && a->value < 1ULL << 34 ? a->value % MOST : a->value;
	case K_DEADLINE:
		if (a->value == 2 || a->value == 3)
			return mono_ns() + (a->value == 2 ? 1000000 : 20000000);
		return a->value;
	default:
		return a->value;
	}
}

/* Programs must not close the executor's own descriptors: -1 for these. */
static int fd_of(uint64_t v)
{
	return v <= (uint64_t)last_fd ? -1 : (int)v;
}

static void map_stream(struct result *r, int fd)
{
	void *p;

	r->ring_size = (GPUMEM_RING_SQES + r->entries * sizeof(struct gpumem_sqe) + page_size - 1) &
		       ~(page_size - 1);
	p = gp_map(fd, r->value[0], 0, r->ring_size, PROT_READ | PROT_WRITE);
	r->ring = p;
	r->page = gp_map(fd, r->value[1], 0, page_size, PROT_READ);
}

static void set_bytes(char *to, uint64_t v, unsigned int bytes)
{
	memcpy(to, &v, bytes < 8 ? bytes : 8);
}

static int do_ioctl(const struct prog *p, unsigned int at)
{
	const struct call *c = &p->calls[at];
	const struct call_spec *spec = &specs[c->kind];
	struct result *r = &results[at];
	unsigned int size = c->size ?: spec->size;
	static __thread char page[8192] __attribute__((aligned(4096)));
	int fd = fd_of(value_of(p, at, 0)), ret;
	char *where = page;

	memset(page, 0, sizeof(page));
	if (c->pass == PASS_TAIL) {
		size = spec->size + 8;
		page[spec->size] = 1;
	}
	set_bytes(page, size, 4);
	for (unsigned int i = 1; i < args_of(spec); i++) {
		const struct arg_spec *a = &spec->args[i];

		if (a->kind == K_TOKEN && c->args[i].ref >= 0)
			memcpy(page + a->offset, results[c->args[i].ref].token, GPUMEM_TOKEN_SIZE);
		else
			set_bytes(page + a->offset, value_of(p, at, i), a->bytes);
	}
	switch (c->pass) {
	case PASS_NULL:
		where = NULL;
		break;
	case PASS_CUT:
		where = cut + page_size - spec->size / 2;
		memcpy(where, page, spec->size / 2);
		break;
	case PASS_RDONLY:
		mprotect(rdonly, page_size, PROT_READ | PROT_WRITE);
		memcpy(rdonly, page, page_size);
		mprotect(rdonly, page_size, PROT_READ);
		where = rdonly;
		break;
	default:
		break;
	}
	ret = gp_ioctl(fd, spec->request, where);
	if (ret || where != page)
		return ret;
	for (unsigned int i = 0; i < 2; i++) {
		__u32 v;

		if (!spec->makes[i])
			continue;
		memcpy(&v, page + spec->makes_at[i], sizeof(v));
		r->value[i] = v;
		if (spec->makes[i] == R_TOKEN)
			memcpy(r->token, page + spec->makes_at[i], GPUMEM_TOKEN_SIZE);
	}
	if (spec->request == GPUMEM_STREAM_CREATE) {
		memcpy(&r->entries, page + offsetof(struct gpumem_stream_create, entries), 4);
		map_stream(r, fd);
	}
	return 0;
}

static int do_unknown(const struct prog *p, unsigned int at)
{
	uint64_t page[512], number = value_of(p, at, 1);
	struct rng r = { value_of(p, at, 2) * 64 + value_of(p, at, 3) + 1 };

	rng_fill(&r, page, sizeof(page));
	set_bytes((char *)page, number & 1 ? 4096 : number % 160, 4);
	return gp_ioctl(fd_of(value_of(p, at, 0)),
			_IO(GPUMEM_IOC_TYPE, (GPUMEM_CMD_BASE + number % 64) & 0xff), page);
}

/* On machines with pages of at most this size. */
#define RESIDENT_BYTES	(GPUMEM_RESIDENT_WORDS * sizeof(__u64))

static int do_map(struct result *r, int fd, uint64_t offset, size_t length, int prot, bool is_shared)
{
	void *m = mmap(NULL, length, prot & 7, is_shared ? MAP_SHARED : MAP_PRIVATE, fd, offset);

	if (m == MAP_FAILED)
		return -errno;
	r->value[0] = (uintptr_t)m;
	r->length = (length + page_size - 1) & ~(page_size - 1);
	return 0;
}

/* The mapping that the first argument names, or NULL. */
static struct result *map_of(const struct prog *p, unsigned int at)
{
	int ref = p->calls[at].args[0].ref;

	return ref >= 0 && results[ref].length ? &results[ref] : NULL;
}

static int do_on_map(const struct prog *p, unsigned int at, enum what what)
{
	struct result *r = map_of(p, at);
	uint64_t offset = value_of(p, at, 1), length;
	char *start;
	void *to;
	ssize_t n;

	if (!r)
		return -ENXIO;
	start = (char *)(uintptr_t)r->value[0];
	switch (what) {
	case W_MREMAP:
		length = offset % (2 * MOST);
		to = mremap(start, r->length, length, MREMAP_MAYMOVE);
		if (to == MAP_FAILED)
			return -errno;
		r->value[0] = (uintptr_t)to;
		r->length = (length + page_size - 1) & ~(page_size - 1);
		return 0;
	case W_MPROTECT:
		return mprotect(start, r->length, offset & 7) ? -errno : 0;
	case W_MADVISE:
		return madvise(start, r->length, offset) ? -errno : 0;
	case W_MUNMAP:
		length = value_of(p, at, 2);
		offset &= ~(page_size - 1);
		if (offset >= r->length)
			return -ENXIO;
		if (length > r->length - offset)
			length = r->length - offset;
		return munmap(start + offset, length) ? -errno : 0;
	default:
		offset %= r->length;
		n = what == W_READ ? pwrite(file_fd, start + offset, 1, 0) :
				     pread(zero_fd, start + offset, 1, 0);
		return n < 0 ? -errno : 0;
	}
}

static struct result *stream_of(const struct prog *p, unsigned int at)
{
	int ref = p->calls[at].args[0].ref;

	return ref >= 0 && results[ref].ring ? &results[ref] : NULL;
}

static int client_of_stream(const struct prog *p, unsigned int at)
{
	return fd_of(value_of(p, p->calls[at].args[0].ref, 0));
}

static bool raises_or_waits(__u8 op)
{
	return op == GPUMEM_OP_WAIT || op == GPUMEM_OP_SIGNAL || op == GPUMEM_OP_ADD;
}

static int do_sqe(const struct prog *p, unsigned int at)
{
	struct result *s = stream_of(p, at);
	struct gpumem_sqe sqe, *slot;

	if (!s)
		return -ENXIO;
	sqe = (struct gpumem_sqe) {
		.op = value_of(p, at, 1), .elem = value_of(p, at, 2), .handle = value_of(p, at, 3),
		.dst = value_of(p, at, 4), .src = value_of(p, at, 5), .width = value_of(p, at, 6),
		.height = value_of(p, at, 7), .dst_pitch = value_of(p, at, 8),
		.src_pitch = value_of(p, at, 9), .flags = value_of(p, at, 10),
	};
	if (sqe.op == GPUMEM_OP_NOP || raises_or_waits(sqe.op))
		sqe.dst = 0;
	if (raises_or_waits(sqe.op) || sqe.op == GPUMEM_OP_POLL)
		sqe.value = value_of(p, at, 7);
	if (sqe.op == GPUMEM_OP_POLL)
		sqe.handle &= 3;
	if (sqe.op != GPUMEM_OP_COPY && sqe.op != GPUMEM_OP_FILL && !sqe.flags) {
		/* Members that an operation does not use are mostly 0. */
		sqe.height = sqe.dst_pitch = sqe.src_pitch = 0;
		if (sqe.op != GPUMEM_OP_PREFETCH)
			sqe.width = 0;
		if (!raises_or_waits(sqe.op) && sqe.op != GPUMEM_OP_POLL)
			sqe.handle = sqe.value = 0;
		if (sqe.op == GPUMEM_OP_PREFETCH)
			sqe.handle = value_of(p, at, 3) % 3;
		if (sqe.op == GPUMEM_OP_PREFETCH && sqe.handle == GPUMEM_PREFETCH_NODE)
			sqe.value = value_of(p, at, 7) & 3;
	} else if (!sqe.flags) {
		sqe.handle = 0;
		/* A copy or fill must not keep a worker busy for minutes. */
		if (sqe.width < 1ULL << 30 && sqe.height > 64 && sqe.height < 1ULL << 30)
			sqe.height = 64;
		if (sqe.height < 2)
			sqe.dst_pitch = sqe.src_pitch = 0;
	}
	slot = (void *)((char *)s->ring + GPUMEM_RING_SQES);
	slot[s->tail % s->entries] = sqe;
	__atomic_store_n(&s->ring->tail, ++s->tail, __ATOMIC_RELEASE);
	return value_of(p, at, 11) & 1 ? gp_doorbell(client_of_stream(p, at), s->value[0]) : 0;
}

static int do_tail(const struct prog *p, unsigned int at)
{
	struct result *s = stream_of(p, at);

	if (!s)
		return -ENXIO;
	s->tail += value_of(p, at, 1);
	__atomic_store_n(&s->ring->tail, s->tail, __ATOMIC_RELEASE);
	return gp_doorbell(client_of_stream(p, at), s->value[0]);
}

static int do_prime(int fd, uint64_t flags)
{
	struct dma_buf_sync sync = { .flags = flags & 7 };
	struct drm_prime prime = { .fd = fd };
	struct drm_close gone = { 0 };
	int ret;

	if (vgem < 0)
		return -ENODEV;
	ret = gp_ioctl(vgem, DRM_TO_HANDLE, &prime);
	if (ret)
		return ret;
	gp_ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync);
	gone.handle = prime.handle;
	return gp_ioctl(vgem, DRM_CLOSE, &gone);
}

static int do_sync_file(int dmabuf, uint64_t flags, struct result *r)
{
	struct dma_buf_export_sync_file c = { .flags = flags, .fd = -1 };
	int ret = gp_ioctl(dmabuf, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &c);

	if (!ret)
		r->value[0] = c.fd;
	return ret;
}

static int read_file(const char *path)
{
	char text[4096];
	int fd = open(path, O_RDONLY | O_CLOEXEC), n;

	if (fd < 0)
		return -errno;
	n = read(fd, text, sizeof(text));
	close(fd);
	return n < 0 ? -EIO : 0;
}

static int do_sysfs(uint64_t device, uint64_t attribute)
{
	static const char * const names[] = {
		"size", "used", "node", "engine", "clients", "bos", "exports", "views",
		"pools",
	};
	char path[96];

	if (attribute % 10 == 9)
		return read_file("/sys/class/gpumem/host_used");
	snprintf(path, sizeof(path), "/sys/class/gpumem/gpumem%u/%s", (unsigned int)device % 3,
		 names[attribute % 10]);
	return read_file(path);
}

static int do_notice(int fd, bool get, size_t bytes)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	char page[4096];
	int flags, ret;

	ret = poll(&ready, 1, 0);
	if (ret < 0 || !get)
		return ret < 0 ? -errno : 0;
	flags = fcntl(fd, F_GETFL);
	/* The alarm interrupts a blocking read. */
	if (bytes & 1)
		fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	ret = read(fd, page, bytes % (sizeof(page) + 1)) < 0 ? -errno : 0;
	fcntl(fd, F_SETFL, flags);
	return ret;
}

/* Send one request, and discard the answer. */
static int do_netlink(uint64_t command, bool dump, uint64_t type, uint64_t value)
{
	static struct nl_sock *sock;
	static int family;
	struct nl_msg *msg;
	char page[8192];
	int ret;

	if (!sock) {
		sock = nl_socket_alloc();
		if (!sock || genl_connect(sock))
			return -ENODEV;
		family = genl_ctrl_resolve(sock, GPUMEM_FAMILY_NAME);
	}
	msg = nlmsg_alloc();
	if (family < 0 || !msg)
		return -ENODEV;
	genlmsg_put(msg, 0, 0, family, 0, dump ? NLM_F_DUMP : 0, 1 + command % 5, 1);
	if (type % 4)
		nla_put_u32(msg, type % 4, value);
	ret = nl_send_auto(sock, msg);
	nlmsg_free(msg);
	for (int i = 0; i < 64; i++)
		if (recv(nl_socket_get_fd(sock), page, sizeof(page), MSG_DONTWAIT) <= 0)
			break;
	return ret < 0 ? -EIO : 0;
}

static int do_call(const struct prog *p, unsigned int at)
{
	const struct call_spec *spec = &specs[p->calls[at].kind];
	uint64_t v[6] = { 0 };
	char path[64];
	int fd;

	if (spec->what == W_IOCTL)
		return do_ioctl(p, at);
	for (unsigned int i = 0; i < args_of(spec) && i < 6; i++)
		v[i] = value_of(p, at, i);
	switch (spec->what) {
	case W_OPEN:
		fd = gp_open(v[0] % 3);
		if (fd >= 0)
			results[at].value[0] = fd;
		return fd < 0 ? fd : 0;
	case W_CHANNEL:
		fd = gp_channel_open(v[0] & 0xfff);
		if (fd >= 0)
			results[at].value[0] = fd;
		return fd < 0 ? fd : 0;
	case W_DUP:
		fd = dup(fd_of(v[0]));
		if (fd >= 0)
			results[at].value[0] = fd;
		return fd < 0 ? -errno : 0;
	case W_CLOSE:
		return close(fd_of(v[0])) ? -errno : 0;
	case W_UNKNOWN:
		return do_unknown(p, at);
	case W_MMAP:
		if (!v[1] && v[2] % 2)
			return do_map(&results[at], fd_of(v[0]), GPUMEM_MMAP_RESIDENT,
				      v[3] % 2 ? RESIDENT_BYTES : v[3], v[4], v[5] & 1);
		return do_map(&results[at], fd_of(v[0]), GPUMEM_MMAP_OFFSET(v[1]) + v[2], v[3], v[4],
			      v[5] & 1);
	case W_MUNMAP:
	case W_MREMAP:
	case W_MPROTECT:
	case W_MADVISE:
	case W_READ:
	case W_WRITE:
		return do_on_map(p, at, spec->what);
	case W_SQE:
		return do_sqe(p, at);
	case W_TAIL:
		return do_tail(p, at);
	case W_DMA_MMAP:
		return do_map(&results[at], fd_of(v[0]), v[1], v[2], v[3], v[4] & 1);
	case W_DMA_SYNC:
		return gp_ioctl(fd_of(v[0]), DMA_BUF_IOCTL_SYNC,
				&(struct dma_buf_sync) { .flags = v[1] });
	case W_SYNC_FILE:
		return do_sync_file(fd_of(v[0]), v[1], &results[at]);
	case W_PRIME:
		return do_prime(fd_of(v[0]), v[1]);
	case W_LSEEK:
		return lseek(fd_of(v[0]), v[1], v[2] % 5) < 0 ? -errno : 0;
	case W_FDINFO:
		snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd_of(v[0]));
		return read_file(path);
	case W_SYSFS:
		return do_sysfs(v[0], v[1]);
	case W_NOTICE:
		return do_notice(fd_of(v[0]), v[1] & 1, v[2]);
	case W_NETLINK:
		return do_netlink(v[0], v[1] & 1, v[2], v[3]);
	default:
		return -ENOSYS;
	}
}

/* --- the second thread */

static void *second(void *unused)
{
	sigset_t set;

	(void)unused;
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	trace_on(&trace_second);
	pthread_mutex_lock(&lock);
	for (;;) {
		int at = second_call;

		if (at < 0) {
			pthread_cond_wait(&changed, &lock);
			continue;
		}
		pthread_mutex_unlock(&lock);
		shared->result[at] = do_call(&shared->prog, at);
		pthread_mutex_lock(&lock);
		second_call = -1;
		pthread_cond_broadcast(&changed);
	}
	return NULL;
}

/* Wait until the second thread is idle, then give it call @at; -1: wait only. */
static void second_do(int at)
{
	pthread_mutex_lock(&lock);
	while (second_call >= 0)
		pthread_cond_wait(&changed, &lock);
	second_call = at;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

/* --- one program */

static bool make_arena(void)
{
	const int flags = MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	char *a = mmap((void *)ARENA, ARENA_SIZE, PROT_READ | PROT_WRITE, flags, -1, 0);

	return a == (void *)ARENA && !mprotect(a + 0x200000, 0x40000, PROT_READ) &&
	       !munmap(a + 0x300000, 0x40000) &&
	       mmap(a + 0x380000, 0x40000, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_SHARED, file_fd,
		    0) != MAP_FAILED;
}

/* Append the errors of the rings as signals, once the rings are empty, or after 30 ms at most. */
static unsigned int stream_signals(const struct prog *p, uint32_t *out, unsigned int n)
{
	__u64 end = mono_ns() + 30000000;

	for (unsigned int i = 0; i < p->n; i++) {
		const struct result *r = &results[i];

		if (!r->ring || !r->page || !r->tail)
			continue;
		while (__atomic_load_n(&r->page->value, __ATOMIC_ACQUIRE) < r->tail &&
		       r->tail - r->page->head <= r->entries && mono_ns() < end)
			usleep(200);
		out[n++] = SIGNAL_STREAM(r->page->error & 0xfff);
	}
	return n;
}

static void clean_up(const struct prog *p)
{
	for (unsigned int i = 0; i < p->n; i++) {
		struct result *r = &results[i];

		if (r->length)
			munmap((void *)(uintptr_t)r->value[0], r->length);
		if (r->ring)
			munmap(r->ring, r->ring_size);
		if (r->page)
			munmap((void *)r->page, page_size);
	}
	close_range(last_fd + 1, ~0U, 0);
}

static void run_program(void)
{
	const struct prog *p = &shared->prog;
	struct itimerval tick = {
		.it_interval.tv_usec = ALARM_MS * 1000, .it_value.tv_usec = ALARM_MS * 1000,
	};
	unsigned int n = 0;

	memset(results, 0, sizeof(results));
	for (unsigned int i = 0; i < MAX_CALLS; i++) {
		results[i].value[0] = results[i].value[1] = ~0U;
		shared->result[i] = 0;
	}
	if (!make_arena())
		snprintf(shared->broken, sizeof(shared->broken), "arena: %s", strerror(errno));
	/* Discard the coverage from before this program. */
	trace_take(&trace_main, shared->signal, 0);
	trace_take(&trace_second, shared->signal, 0);
	setitimer(ITIMER_REAL, &tick, NULL);
	for (unsigned int i = 0; i < p->n; i++) {
		if (p->calls[i].async)
			second_do(i);
		else
			shared->result[i] = do_call(p, i);
	}
	second_do(-1);
	n = stream_signals(p, shared->signal, n);
	setitimer(ITIMER_REAL, &(struct itimerval) { 0 }, NULL);
	clean_up(p);
	for (unsigned int i = 0; i < p->n; i++)
		shared->signal[n++] = SIGNAL_ERRNO(p->calls[i].kind, -shared->result[i] & 0xfff);
	n = trace_take(&trace_main, shared->signal, n);
	shared->signals = trace_take(&trace_second, shared->signal, n);
}

static void find_vgem(void)
{
	for (int i = 0; i < 8 && vgem < 0; i++) {
		char path[32], name[16] = "";
		struct drm_version v = { .name_len = sizeof(name) - 1, .name = name };

		snprintf(path, sizeof(path), "/dev/dri/card%d", i);
		vgem = open(path, O_RDWR | O_CLOEXEC);
		if (vgem >= 0 && (ioctl(vgem, DRM_VERSION, &v) || strcmp(name, "vgem"))) {
			close(vgem);
			vgem = -1;
		}
	}
}

const char *executor_prepare(void)
{
	int fd = gp_open(0);

	if (fd < 0)
		return "/dev/gpumem0 cannot be opened";
	close(fd);
	return NULL;
}

void executor(struct shared *s, int in, int out)
{
	struct sigaction act = { .sa_handler = nothing };
	char byte;

	shared = s;
	main_thread = pthread_self();
	sigaction(SIGALRM, &act, NULL);
	sigaction(SIGUSR1, &act, NULL);
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	zero_fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
	file_fd = memfd_create("fuzz", MFD_CLOEXEC);
	find_vgem();
	cut = mmap(NULL, 2 * page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	rdonly = mmap(NULL, page_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (zero_fd < 0 || file_fd < 0 || ftruncate(file_fd, 0x40000) || cut == MAP_FAILED ||
	    rdonly == MAP_FAILED || munmap(cut + page_size, page_size))
		_exit(2);
	trace_open(&trace_main);
	trace_open(&trace_second);
	if (pthread_create(&second_thread, NULL, second, NULL))
		_exit(2);
	last_fd = dup(null_fd);
	trace_on(&trace_main);
	while (read(in, &byte, 1) == 1) {
		run_program();
		if (write(out, &byte, 1) != 1)
			break;
	}
	_exit(0);
}
