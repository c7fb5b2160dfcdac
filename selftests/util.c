// SPDX-License-Identifier: GPL-2.0
/* What the kernel selftests share; see util.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "util.h"

size_t page_size;

static void __attribute__((constructor)) find_page_size(void)
{
	page_size = sysconf(_SC_PAGESIZE);
}

/* --- the kernel interface */

int gp_open(unsigned int ordinal)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/dev/gpumem%u", ordinal);
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int gp_ioctl(int fd, unsigned long request, void *arg)
{
	return ioctl(fd, request, arg) < 0 ? -errno : 0;
}

int gp_info(int fd, __u32 device, struct gpumem_info *info)
{
	*info = (struct gpumem_info) { .size = sizeof(*info), .device = device };
	return gp_ioctl(fd, GPUMEM_INFO, info);
}

int gp_attach(int fd, int other, __u32 *device)
{
	struct gpumem_device_attach a = { .size = sizeof(a), .fd = other };
	int ret = gp_ioctl(fd, GPUMEM_DEVICE_ATTACH, &a);

	*device = a.device;
	return ret;
}

int gp_destroy(int fd, __u32 id)
{
	struct gpumem_destroy d = { .size = sizeof(d), .id = id };

	return gp_ioctl(fd, GPUMEM_DESTROY, &d);
}

int gp_bo_alloc_on(int fd, __u32 device, __u64 length, __u32 *id)
{
	struct gpumem_bo_alloc a = {
		.size = sizeof(a), .device = device, .length = length, .name = "test",
	};
	int ret = gp_ioctl(fd, GPUMEM_BO_ALLOC, &a);

	*id = a.id;
	return ret;
}

int gp_bo_alloc(int fd, __u64 length, __u32 *id)
{
	return gp_bo_alloc_on(fd, 0, length, id);
}

int gp_bo_info(int fd, __u32 id, struct gpumem_bo_info *info)
{
	*info = (struct gpumem_bo_info) { .size = sizeof(*info), .id = id };
	return gp_ioctl(fd, GPUMEM_BO_INFO, info);
}

int gp_bo_retire(int fd, __u32 id, __u64 offset, __u64 length, __u32 flags, __u32 *live)
{
	struct gpumem_bo_retire r = {
		.size = sizeof(r), .id = id, .offset = offset, .length = length, .flags = flags,
	};
	int ret = gp_ioctl(fd, GPUMEM_BO_RETIRE, &r);

	*live = r.live;
	return ret;
}

int gp_bo_export(int fd, __u32 id, __u64 offset, __u64 length, __u32 flags)
{
	struct gpumem_bo_export e = {
		.size = sizeof(e), .id = id, .offset = offset, .length = length, .flags = flags,
		.fd = -1,
	};
	int ret = gp_ioctl(fd, GPUMEM_BO_EXPORT, &e);

	return ret ? ret : e.fd;
}

int gp_bo_import(int fd, int dmabuf, struct gpumem_bo_import *out)
{
	*out = (struct gpumem_bo_import) { .size = sizeof(*out), .fd = dmabuf };
	return gp_ioctl(fd, GPUMEM_BO_IMPORT, out);
}

int gp_token_create(int fd, __u32 bo, __u64 offset, __u64 length, __u32 flags, __u32 *id,
		    __u8 *token)
{
	struct gpumem_token_create c = {
		.size = sizeof(c), .bo = bo, .offset = offset, .length = length, .flags = flags,
	};
	int ret = gp_ioctl(fd, GPUMEM_TOKEN_CREATE, &c);

	*id = c.id;
	memcpy(token, c.token, GPUMEM_TOKEN_SIZE);
	return ret;
}

int gp_token_open(int fd, const __u8 *token, struct gpumem_token_open *out)
{
	*out = (struct gpumem_token_open) { .size = sizeof(*out) };
	memcpy(out->token, token, GPUMEM_TOKEN_SIZE);
	return gp_ioctl(fd, GPUMEM_TOKEN_OPEN, out);
}

int gp_vm_create(int fd, __u32 *id)
{
	struct gpumem_vm_create c = { .size = sizeof(c) };
	int ret = gp_ioctl(fd, GPUMEM_VM_CREATE, &c);

	*id = c.id;
	return ret;
}

int gp_vm_map(int fd, __u32 vm, __u32 bo, __u64 offset, __u64 addr, __u64 length, __u32 readers,
	      __u32 writers)
{
	struct gpumem_vm_map m = {
		.size = sizeof(m), .vm = vm, .bo = bo, .offset = offset, .addr = addr,
		.length = length, .readers = readers, .writers = writers,
	};

	return gp_ioctl(fd, GPUMEM_VM_MAP, &m);
}

int gp_vm_unmap(int fd, __u32 vm, __u64 addr, __u64 length, __u64 *unmapped)
{
	struct gpumem_vm_unmap u = {
		.size = sizeof(u), .vm = vm, .addr = addr, .length = length,
	};
	int ret = gp_ioctl(fd, GPUMEM_VM_UNMAP, &u);

	if (unmapped)
		*unmapped = u.unmapped;
	return ret;
}

int gp_vm_access(int fd, __u32 vm, __u64 addr, __u64 length, __u32 device, __u32 access)
{
	struct gpumem_vm_access a = {
		.size = sizeof(a), .vm = vm, .addr = addr, .length = length, .device = device,
		.access = access,
	};

	return gp_ioctl(fd, GPUMEM_VM_ACCESS, &a);
}

int gp_stream_create(int fd, __u32 vm, __u32 device, __u32 entries, __u32 *id, __u32 *timeline)
{
	struct gpumem_stream_create c = {
		.size = sizeof(c), .vm = vm, .device = device, .entries = entries,
	};
	int ret = gp_ioctl(fd, GPUMEM_STREAM_CREATE, &c);

	*id = c.id;
	*timeline = c.timeline;
	return ret;
}

int gp_doorbell(int fd, __u32 id)
{
	struct gpumem_stream_doorbell d = { .size = sizeof(d), .id = id };

	return gp_ioctl(fd, GPUMEM_STREAM_DOORBELL, &d);
}

int gp_timeline_create(int fd, __u64 value, __u32 *id)
{
	struct gpumem_timeline_create c = { .size = sizeof(c), .value = value };
	int ret = gp_ioctl(fd, GPUMEM_TIMELINE_CREATE, &c);

	*id = c.id;
	return ret;
}

int gp_timeline_signal(int fd, __u32 id, __u64 value)
{
	struct gpumem_timeline_signal s = { .size = sizeof(s), .id = id, .value = value };

	return gp_ioctl(fd, GPUMEM_TIMELINE_SIGNAL, &s);
}

int gp_timeline_wait(int fd, __u32 id, __u64 value, __u64 deadline,
		     struct gpumem_timeline_wait *out)
{
	struct gpumem_timeline_wait w = {
		.size = sizeof(w), .id = id, .value = value, .deadline = deadline,
	};
	int ret = gp_ioctl(fd, GPUMEM_TIMELINE_WAIT, &w);

	if (out)
		*out = w;
	return ret;
}

int gp_event_create_for(int fd, __u32 flags, __u32 *id, __u8 *token)
{
	struct gpumem_event_create c = { .size = sizeof(c), .flags = flags };
	int ret = gp_ioctl(fd, GPUMEM_EVENT_CREATE, &c);

	*id = c.id;
	if (token)
		memcpy(token, c.token, sizeof(c.token));
	return ret;
}

int gp_event_create(int fd, __u32 *id, __u8 *token)
{
	return gp_event_create_for(fd, 0, id, token);
}

int gp_event_open(int fd, const __u8 *token, __u32 *id, __u32 *result)
{
	struct gpumem_event_open o = { .size = sizeof(o) };
	int ret;

	memcpy(o.token, token, sizeof(o.token));
	ret = gp_ioctl(fd, GPUMEM_EVENT_OPEN, &o);
	*id = o.id;
	if (result)
		*result = o.result;
	return ret;
}

int gp_event_record(int fd, __u32 id, __u32 timeline, __u64 value)
{
	struct gpumem_event_record r = {
		.size = sizeof(r), .id = id, .timeline = timeline, .value = value,
	};

	return gp_ioctl(fd, GPUMEM_EVENT_RECORD, &r);
}

int gp_event_get(int fd, __u32 id, __u32 flags, struct gpumem_event_get *out)
{
	*out = (struct gpumem_event_get){ .size = sizeof(*out), .id = id, .flags = flags };
	return gp_ioctl(fd, GPUMEM_EVENT_GET, out);
}

int gp_stats(int fd, struct gpumem_stats *stats)
{
	*stats = (struct gpumem_stats) { .size = sizeof(*stats) };
	return gp_ioctl(fd, GPUMEM_STATS, stats);
}

void *gp_map(int fd, __u32 id, __u64 offset, size_t length, int prot)
{
	void *p = mmap(NULL, length, prot, MAP_SHARED, fd, GPUMEM_MMAP_OFFSET(id) + offset);

	return p == MAP_FAILED ? NULL : p;
}

int gp_map_errno(int fd, __u32 id, __u64 offset, size_t length, int prot, int flags)
{
	void *p = mmap(NULL, length, prot, flags, fd, GPUMEM_MMAP_OFFSET(id) + offset);

	if (p == MAP_FAILED)
		return -errno;
	munmap(p, length);
	return 0;
}

/* --- streams */

int stream_open(struct stream *s, int fd, __u32 vm, __u32 device, __u32 entries)
{
	int ret;

	*s = (struct stream) { .fd = fd, .entries = entries };
	ret = gp_stream_create(fd, vm, device, entries, &s->id, &s->timeline);
	if (ret)
		return ret;
	s->ring_size = GPUMEM_RING_SQES + entries * sizeof(struct gpumem_sqe);
	s->ring_size = (s->ring_size + page_size - 1) & ~(page_size - 1);
	s->ring = gp_map(fd, s->id, 0, s->ring_size, PROT_READ | PROT_WRITE);
	if (!s->ring)
		return -errno;
	s->page = gp_map(fd, s->timeline, 0, page_size, PROT_READ);
	if (!s->page)
		return -errno;
	s->sqes = (void *)((char *)s->ring + GPUMEM_RING_SQES);
	return 0;
}

int stream_close(struct stream *s)
{
	int ret = gp_destroy(s->fd, s->id);
	int ret2 = gp_destroy(s->fd, s->timeline);

	munmap(s->ring, s->ring_size);
	munmap((void *)s->page, page_size);
	return ret ? ret : ret2;
}

void stream_put(struct stream *s, const struct gpumem_sqe *sqe)
{
	s->sqes[s->tail % s->entries] = *sqe;
	s->tail++;
}

void stream_publish(struct stream *s)
{
	__atomic_store_n(&s->ring->tail, s->tail, __ATOMIC_RELEASE);
	/* A full barrier, in the form that gcc's thread sanitizer takes. */
	__sync_synchronize();
	if (__atomic_load_n(&s->page->flags, __ATOMIC_RELAXED) & GPUMEM_TIMELINE_NEED_WAKEUP) {
		gp_doorbell(s->fd, s->id);
		s->doorbells++;
	}
}

int stream_push(struct stream *s, const struct gpumem_sqe *sqe)
{
	__u64 end = 0;

	while (s->tail - __atomic_load_n(&s->page->head, __ATOMIC_ACQUIRE) >= s->entries) {
		if (!end)
			end = in_seconds(10);
		else if (mono_ns() > end)
			return -ETIMEDOUT;
		sched_yield();
	}
	stream_put(s, sqe);
	stream_publish(s);
	return 0;
}

int stream_wait(struct stream *s, __u64 value, double seconds)
{
	return gp_timeline_wait(s->fd, s->timeline, value, in_seconds(seconds), NULL);
}

int stream_sync(struct stream *s)
{
	return stream_wait(s, s->tail, 20);
}

int stream_error_of(int fd, __u32 vm, struct gpumem_sqe sqe)
{
	struct gpumem_timeline_wait w;
	struct stream s;
	int ret = stream_open(&s, fd, vm, 0, 16);

	if (ret)
		return ret;
	stream_push(&s, &sqe);
	ret = gp_timeline_wait(fd, s.timeline, 1, in_seconds(10), &w);
	stream_close(&s);
	if (ret == -EIO && w.reached >= 1)
		return w.error;
	return ret;
}

struct gpumem_sqe sqe_nop(void)
{
	return (struct gpumem_sqe) { .op = GPUMEM_OP_NOP };
}

struct gpumem_sqe sqe_copy(__u64 dst, __u64 src, __u64 bytes)
{
	return (struct gpumem_sqe) {
		.op = GPUMEM_OP_COPY, .dst = dst, .src = src, .width = bytes, .height = 1,
	};
}

struct gpumem_sqe sqe_copy2d(__u64 dst, __u64 dst_pitch, __u64 src, __u64 src_pitch, __u64 width,
			     __u64 height)
{
	return (struct gpumem_sqe) {
		.op = GPUMEM_OP_COPY, .dst = dst, .src = src, .width = width, .height = height,
		.dst_pitch = dst_pitch, .src_pitch = src_pitch,
	};
}

struct gpumem_sqe sqe_fill(__u64 dst, __u8 elem, __u64 value, __u64 count)
{
	return (struct gpumem_sqe) {
		.op = GPUMEM_OP_FILL, .elem = elem, .dst = dst, .value = value, .width = count,
		.height = 1,
	};
}

struct gpumem_sqe sqe_fill2d(__u64 dst, __u64 pitch, __u8 elem, __u64 value, __u64 width,
			     __u64 height)
{
	return (struct gpumem_sqe) {
		.op = GPUMEM_OP_FILL, .elem = elem, .dst = dst, .value = value, .width = width,
		.height = height, .dst_pitch = pitch,
	};
}

struct gpumem_sqe sqe_wait(__u32 timeline, __u64 value)
{
	return (struct gpumem_sqe) { .op = GPUMEM_OP_WAIT, .handle = timeline, .value = value };
}

struct gpumem_sqe sqe_signal(__u32 timeline, __u64 value)
{
	return (struct gpumem_sqe) { .op = GPUMEM_OP_SIGNAL, .handle = timeline, .value = value };
}

struct gpumem_sqe sqe_add(__u32 timeline, __u64 value)
{
	return (struct gpumem_sqe){ .op = GPUMEM_OP_ADD, .handle = timeline, .value = value };
}

struct gpumem_sqe sqe_poll(__u64 addr, __u8 elem, __u32 how, __u64 value)
{
	return (struct gpumem_sqe){
		.op = GPUMEM_OP_POLL, .dst = addr, .elem = elem, .handle = how, .value = value,
	};
}

struct gpumem_sqe sqe_timestamp(__u64 dst)
{
	return (struct gpumem_sqe) { .op = GPUMEM_OP_TIMESTAMP, .dst = dst };
}

/* --- what the kernel says about itself */

int dev_attr_text(unsigned int ordinal, const char *name, char *text, size_t size)
{
	char path[96];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/sys/class/gpumem/gpumem%u/%s", ordinal, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, text, size - 1);
	close(fd);
	if (n < 0)
		return -errno;
	text[n] = 0;
	text[strcspn(text, "\n")] = 0;
	return 0;
}

long long dev_attr(unsigned int ordinal, const char *name)
{
	char text[64], *end;
	long long v;
	int ret = dev_attr_text(ordinal, name, text, sizeof(text));

	if (ret)
		return ret;
	v = strtoll(text, &end, 0);
	return end == text || *end ? -EBADMSG : v;
}

unsigned int dev_count(void)
{
	unsigned int n = 0;
	char path[32];

	for (;; n++) {
		snprintf(path, sizeof(path), "/dev/gpumem%u", n);
		if (access(path, F_OK))
			return n;
	}
}

bool dev_attr_becomes(unsigned int ordinal, const char *name, long long value, double seconds)
{
	__u64 end = in_seconds(seconds);

	for (;;) {
		long long now = dev_attr(ordinal, name);

		if (now == value)
			return true;
		if (mono_ns() > end) {
			fprintf(stderr, "# gpumem%u/%s is %lld, not %lld\n", ordinal, name, now,
				value);
			return false;
		}
		nap_ms(5);
	}
}

bool dev_quiet(double seconds)
{
	static const char * const names[] = {
		"clients", "bos", "exports", "views", "pools", "imports", "used",
	};
	__u64 end = in_seconds(seconds);
	unsigned int n = dev_count();
	bool quiet = n;

	for (unsigned int d = 0; d < n; d++) {
		for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			__u64 now = mono_ns();

			quiet &= dev_attr_becomes(d, names[i], 0,
						  now < end ? (end - now) / (double)NSEC : 0);
		}
	}
	return quiet;
}

#define STAT(member) { #member, offsetof(struct gpumem_stats, member) }
const struct stat_name stat_names[] = {
	STAT(objects), STAT(bos), STAT(bo_bytes), STAT(views), STAT(view_bytes), STAT(vm_bytes),
	STAT(exports), STAT(export_bytes), STAT(tokens), STAT(streams), STAT(jobs),
	STAT(copy_bytes), STAT(fill_bytes), STAT(doorbells), STAT(pins), STAT(pin_bytes),
	STAT(host), STAT(host_bytes), STAT(pools), STAT(pool_reserved), STAT(pool_imports),
	STAT(imports), STAT(import_bytes),
	STAT(pool_cached), STAT(mappings),
};
const unsigned int stat_count = sizeof(stat_names) / sizeof(stat_names[0]);

__u64 stat_get(const struct gpumem_stats *stats, unsigned int i)
{
	return *(const __u64 *)((const char *)stats + stat_names[i].offset);
}

int fdinfo_read(pid_t pid, int fd, struct gpumem_stats *stats, __u64 *device)
{
	unsigned int seen[32] = { 0 }, seen_device = 0;
	char line[256], path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", pid, fd);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	*stats = (struct gpumem_stats) { .size = sizeof(*stats) };
	while (fgets(line, sizeof(line), f)) {
		char key[64], *c;
		uint64_t v;

		if (sscanf(line, "gpumem-%63[^:]:\t%" SCNu64 "\n", key, &v) != 2)
			continue;
		for (c = key; *c; c++)
			*c = *c == '-' ? '_' : *c;
		if (!strcmp(key, "device")) {
			*device = v;
			seen_device++;
		}
		for (unsigned int i = 0; i < stat_count; i++) {
			if (strcmp(key, stat_names[i].name))
				continue;
			*(__u64 *)((char *)stats + stat_names[i].offset) = v;
			seen[i]++;
		}
	}
	fclose(f);
	for (unsigned int i = 0; i < stat_count; i++) {
		if (seen[i] != 1) {
			fprintf(stderr, "# fdinfo has %u lines for %s\n", seen[i],
				stat_names[i].name);
			return -ENODATA;
		}
	}
	return seen_device == 1 ? 0 : -ENODATA;
}

/* --- processes */

pid_t start_child(int (*fn)(void *arg), void *arg)
{
	pid_t pid;

	fflush(stdout);
	fflush(stderr);
	pid = fork();
	if (!pid)
		_exit(fn(arg));
	return pid;
}

int end_child(pid_t pid)
{
	int status;

	if (pid < 0)
		return -1000;
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -1000;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int run_child(int (*fn)(void *arg), void *arg)
{
	return end_child(start_child(fn, arg));
}

int kill_child(pid_t pid)
{
	kill(pid, SIGKILL);
	return end_child(pid);
}

struct touch {
	volatile char *p;
	bool write;
};

static int touch(void *arg)
{
	struct touch *t = arg;

	signal(SIGSEGV, SIG_DFL);
	signal(SIGBUS, SIG_DFL);
	if (t->write)
		*t->p = 1;
	else
		(void)*t->p;
	return 0;
}

bool faults_in_child(volatile void *p, bool write, int sig)
{
	struct touch t = { p, write };

	return run_child(touch, &t) == -sig;
}

/* A child does not inherit device memory: the process touches it itself. */
static __thread sigjmp_buf caught;

static void on_fault(int sig)
{
	siglongjmp(caught, sig);
}

/* The byte at @p, before it is written if @write, or minus the signal that touching it raises. */
static int touch_here(volatile unsigned char *p, bool write)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	const struct sigaction ours = { .sa_handler = on_fault, .sa_flags = SA_ONSTACK };
	struct sigaction segv, bus;
	volatile int value;
	int sig;

	pthread_mutex_lock(&lock);
	sigaction(SIGSEGV, &ours, &segv);
	sigaction(SIGBUS, &ours, &bus);
	sig = sigsetjmp(caught, 1);
	if (sig) {
		value = -sig;
	} else {
		value = *p;
		if (write)
			*p = 1;
	}
	sigaction(SIGBUS, &bus, NULL);
	sigaction(SIGSEGV, &segv, NULL);
	pthread_mutex_unlock(&lock);
	return value;
}

bool faults_with(volatile void *p, bool write, int sig)
{
	return touch_here(p, write) == -sig;
}

int peek(const volatile void *p)
{
	return touch_here((volatile unsigned char *)p, false);
}

void unmap_all(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long from[256], to[256];
	unsigned int n = 0;
	char line[512];

	while (f && n < 256 && fgets(line, sizeof(line), f)) {
		const char *name;
		int at = 0;

		if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %n", &from[n], &to[n], &at) != 2 || !at)
			continue;
		name = line + at;
		/* Not a file of the checkout, which may well lie in a directory called so. */
		if (!strncmp(name, "/dev/gpumem", 11) || !strncmp(name, "/dmabuf:", 8) ||
		    (!strncmp(name, "/gpumem", 7) && !strchr(name + 1, '/')))
			n++;
	}
	if (f)
		fclose(f);
	while (n--)
		munmap((void *)from[n], to[n] - from[n]);
}

bool tell(int fd)
{
	return write(fd, "", 1) == 1;
}

bool hear(int fd)
{
	char c;

	return read(fd, &c, 1) == 1;
}

int send_fd(int sock, int fd)
{
	char data = 0, control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { &data, 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	return sendmsg(sock, &msg, 0) < 0 ? -errno : 0;
}

int recv_fd(int sock)
{
	char data, control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { &data, 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c;
	int fd;

	if (recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) < 0)
		return -errno;
	c = CMSG_FIRSTHDR(&msg);
	if (!c || c->cmsg_type != SCM_RIGHTS)
		return -EBADMSG;
	memcpy(&fd, CMSG_DATA(c), sizeof(int));
	return fd;
}

int worker_threads(pid_t pid, pid_t *tids, int max)
{
	char path[320], comm[64];
	struct dirent *d;
	int n = 0;
	DIR *dir;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	if (!dir)
		return -errno;
	while ((d = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%d/task/%s/comm", pid, d->d_name);
		f = d->d_name[0] == '.' ? NULL : fopen(path, "re");
		if (!f)
			continue;
		if (fgets(comm, sizeof(comm), f) && !strncmp(comm, "gpumem/", 7)) {
			if (n < max)
				tids[n] = atoi(d->d_name);
			n++;
		}
		fclose(f);
	}
	closedir(dir);
	return n;
}

/* --- memory cgroups */

#define CGROUP_ROOT	"/sys/fs/cgroup"

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), ret = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

int cgroup_make(struct cgroup *cg, const char *name)
{
	int ret = write_text(CGROUP_ROOT "/cgroup.subtree_control", "+memory");

	if (ret)
		return ret;
	/* For those who ask; not every kernel has it. */
	write_text(CGROUP_ROOT "/cgroup.subtree_control", "+cpu");
	snprintf(cg->path, sizeof(cg->path), CGROUP_ROOT "/gpumem-%s-%d", name, getpid());
	return mkdir(cg->path, 0755) ? -errno : 0;
}

int cgroup_control(const char *controller)
{
	return write_text(CGROUP_ROOT "/cgroup.subtree_control", controller);
}

int cgroup_write(const struct cgroup *cg, const char *file, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", cg->path, file);
	return write_text(path, text);
}

long long cgroup_read_key(const struct cgroup *cg, const char *file, const char *key)
{
	char path[256], line[256];
	long long v = -ENOENT, n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", cg->path, file);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f)) {
		size_t len = key ? strlen(key) : 0;

		if (key && (strncmp(line, key, len) || line[len] != ' '))
			continue;
		if (sscanf(line + len, "%lld", &n) == 1)
			v = n;
	}
	fclose(f);
	return v;
}

long long cgroup_read(const struct cgroup *cg, const char *file)
{
	return cgroup_read_key(cg, file, NULL);
}

int cgroup_enter(const struct cgroup *cg)
{
	return cgroup_write(cg, "cgroup.procs", "0");
}

int cgroup_remove(const struct cgroup *cg)
{
	int ret = 0;

	/* The kernel takes its time to notice that the last process is gone. */
	for (int i = 0; i < 200; i++) {
		ret = rmdir(cg->path) ? -errno : 0;
		if (ret != -EBUSY)
			break;
		nap_ms(10);
	}
	return ret;
}

/* --- time, chance */

__u64 mono_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * NSEC + t.tv_nsec;
}

__u64 in_seconds(double seconds)
{
	return mono_ns() + (__u64)(seconds * NSEC);
}

void nap_ms(unsigned int ms)
{
	struct timespec t = { ms / 1000, (ms % 1000) * 1000000L };

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

__u64 env_number(const char *name, __u64 def)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 0) : def;
}

void rng_start(struct rng *r, const char *what)
{
	r->state = env_number("GPUMEM_SEED", mono_ns() ^ ((__u64)getpid() << 32));
	fprintf(stderr, "# %s: GPUMEM_SEED=%llu\n", what, (unsigned long long)r->state);
}

__u64 rng_next(struct rng *r)
{
	__u64 z = r->state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

__u64 rng_below(struct rng *r, __u64 n)
{
	return rng_next(r) % n;
}

void rng_fill(struct rng *r, void *p, size_t n)
{
	unsigned char *c = p;

	while (n--)
		*c++ = rng_next(r);
}

#ifdef GPUMEM_COV
/* --- line counts of the library: the harness's children, and ours, end by _exit() */

#include <sys/syscall.h>

void gpumem_cov_dump(void) __attribute__((weak));

void _exit(int status)
{
	if (gpumem_cov_dump)
		gpumem_cov_dump();
	for (;;)
		syscall(SYS_exit_group, status);
}
#endif
