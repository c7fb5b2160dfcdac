// SPDX-License-Identifier: GPL-2.0
/*
 * The runner of the conformance program: a process for each group, time-outs, peers, gates, data.
 *
 * Locks: none.  A gate and its thread share the volatile members of gate_t.
 */
#include "oracle.h"
#include <stdarg.h>
#include <signal.h>
#include <time.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

typedef struct { const char *name; void (*fn)(void); int tmo; } group_t;
typedef struct { const char *name; void (*fn)(int); } peerfn_t;
static group_t groups[512];
static int ngroups;
static peerfn_t peers[128];
static int npeers;
static const char *cur_group = "none";

/* The case that the group is executing (shared with the runner), and the cases to skip. */
typedef struct { char id[256]; } flight_t;
typedef struct { char id[256]; char why[32]; } skip_t;
static flight_t *flight;
static skip_t *skips;
static int nskips;

int case_begin(const char *id)
{
	for (int i = 0; i < nskips; i++)
		if (!strcmp(skips[i].id, id)) {
			emit(id, "crash:%s", skips[i].why);
			return 0;
		}
	if (flight)
		snprintf(flight->id, sizeof(flight->id), "%s", id);
	return 1;
}
void case_end(void)
{
	if (flight)
		flight->id[0] = 0;
}

void oracle_register(const char *name, void (*fn)(void), int timeout_s)
{
	if (ngroups < 512)
		groups[ngroups++] = (group_t){ name, fn, timeout_s };
}
void oracle_register_peer(const char *name, void (*fn)(int))
{
	if (npeers < 128)
		peers[npeers++] = (peerfn_t){ name, fn };
}

/* ------------------------------------------------------------------ */
const char *F(const char *fmt, ...)
{
	static __thread char buf[32][512];
	static __thread unsigned n;
	char *b = buf[n++ & 31];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(b, sizeof(buf[0]), fmt, ap);
	va_end(ap);
	return b;
}

void emit(const char *id, const char *fmt, ...)
{
	char b[4096];
	int n = snprintf(b, sizeof(b), "%s.%s.%s\t", SET_PREFIX, cur_group, id);
	va_list ap;
	va_start(ap, fmt);
	int m = vsnprintf(b + n, sizeof(b) - n - 2, fmt, ap);
	va_end(ap);
	if (m > (int)sizeof(b) - n - 3)
		m = (int)sizeof(b) - n - 3;
	for (int i = n; i < n + m; i++)
		if (b[i] == '\n' || b[i] == '\t')
			b[i] = ' ';
	n += m;
	while (n > 0 && b[n - 1] == ' ')
		n--;
	b[n++] = '\n';
	int off = 0;
	while (off < n) {
		ssize_t w = write(1, b + off, n - off);
		if (w <= 0)
			break;
		off += (int)w;
	}
}

static const struct { int v; const char *n; } resnames[] = {
#include "resnames.h"
};
const char *rcs(CUresult r)
{
	for (size_t i = 0; i < sizeof(resnames) / sizeof(resnames[0]); i++)
		if (resnames[i].v == (int)r)
			return F("%d:%s", (int)r, resnames[i].n);
	return F("%d:?", (int)r);
}
const char *rel(size_t a, size_t w)
{
	if (a == w)
		return "same";
	return a > w ? F("+%zu", a - w) : F("-%zu", w - a);
}
const char *prel(CUdeviceptr p, CUdeviceptr b)
{
	if (!p)
		return "null";
	if (p == b)
		return "same";
	if (p > b && p - b <= GiB(1))
		return F("+%llu", (unsigned long long)(p - b));
	if (b > p && b - p <= GiB(1))
		return F("-%llu", (unsigned long long)(b - p));
	return "other";
}
const char *lowalign(uint64_t v, uint64_t cap)
{
	uint64_t a = v ? (v & (~v + 1)) : cap;
	return F("%llu", (unsigned long long)(a > cap ? cap : a));
}

/* ------------------------------------------------------------------ */
CUdevice g_dev;
CUcontext g_ctx;
void init_ctx(void)
{
	CUresult r = cuInit(0);
	if (r == CUDA_SUCCESS)
		r = cuDeviceGet(&g_dev, 0);
	if (r == CUDA_SUCCESS)
		r = cuDevicePrimaryCtxRetain(&g_ctx, g_dev);
	if (r == CUDA_SUCCESS)
		r = cuCtxSetCurrent(g_ctx);
	if (r != CUDA_SUCCESS) {
		emit("__init", "rc=%s", rcs(r));
		exit(7);
	}
}
int dev_attr(CUdevice_attribute a)
{
	int v = -12345;
	cuDeviceGetAttribute(&v, a, g_dev);
	return v;
}

/* ------------------------------------------------------------------ */
static inline unsigned char pat(size_t i, unsigned seed)
{
	uint32_t x = (uint32_t)i * 2654435761u + seed * 40503u + (uint32_t)(i >> 32);
	return (unsigned char)((x >> 15) ^ (x >> 24));
}
void fill(void *p, size_t n, unsigned seed)
{
	unsigned char *c = p;
	for (size_t i = 0; i < n; i++)
		c[i] = pat(i, seed);
}
int same(const void *p, size_t n, unsigned seed)
{
	const unsigned char *c = p;
	for (size_t i = 0; i < n; i++)
		if (c[i] != pat(i, seed))
			return 0;
	return 1;
}
int allbyte(const void *p, size_t n, int v)
{
	const unsigned char *c = p;
	for (size_t i = 0; i < n; i++)
		if (c[i] != (unsigned char)v)
			return 0;
	return 1;
}
CUresult dfill(CUdeviceptr d, size_t n, unsigned seed)
{
	void *h = malloc(n ? n : 1);
	fill(h, n, seed);
	CUresult r = cuMemcpyHtoD(d, h, n);
	free(h);
	return r;
}
const char *dsame(CUdeviceptr d, size_t n, unsigned seed)
{
	unsigned char *h = malloc(n ? n : 1);
	memset(h, 0x5a, n);
	CUresult r = cuMemcpyDtoH(h, d, n);
	const char *s = r ? F("readback:%s", rcs(r)) : same(h, n, seed) ? "intact" : "differs";
	free(h);
	return s;
}
const char *dsame_at(CUdeviceptr d, size_t off, size_t n, unsigned seed)
{
	unsigned char *h = malloc(n ? n : 1);
	int ok = 1;
	memset(h, 0x5a, n);
	CUresult r = cuMemcpyDtoH(h, d, n);
	for (size_t i = 0; i < n; i++)
		ok &= h[i] == pat(off + i, seed);
	free(h);
	return r ? F("readback:%s", rcs(r)) : ok ? "intact" : "differs";
}
const char *dbyte(CUdeviceptr d, size_t n, int v)
{
	unsigned char *h = malloc(n ? n : 1);
	memset(h, v ^ 0xff, n);
	CUresult r = cuMemcpyDtoH(h, d, n);
	const char *s = r ? F("readback:%s", rcs(r)) : allbyte(h, n, v) ? "all" : "differs";
	free(h);
	return s;
}
const char *hsame(const void *p, size_t n, unsigned seed)
{
	return same(p, n, seed) ? "intact" : "differs";
}
CUdeviceptr dalloc(size_t n)
{
	CUdeviceptr d = 0;
	CUresult r = cuMemAlloc(&d, n);
	if (r) {
		emit("__prereq", "rc=%s in cuMemAlloc(%zu)", rcs(r), n);
		exit(8);
	}
	return d;
}
void *halloc(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED) {
		emit("__prereq", "mmap failed");
		exit(8);
	}
	return p;
}
void hfree(void *p, size_t n) { munmap(p, n); }

/* ------------------------------------------------------------------ */
long long now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}
long now_ms(void) { return (long)(now_ns() / 1000000); }

static void *gate_thread(void *a)
{
	gate_t *g = a;
	while (!g->released) {
		if (now_ms() >= g->deadline_ms) {
			if (!g->planned)
				g->watchdog = 1;
			g->released = 1;
			__sync_synchronize();
			*g->h = 1;
			break;
		}
		usleep(500);
	}
	return NULL;
}
CUresult gate_close(gate_t *g, CUstream s)
{
	void *p = NULL;
	memset(g, 0, sizeof(*g));
	CUresult r = cuMemHostAlloc(&p, 4096, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE);
	if (r)
		return r;
	g->h = p;
	*g->h = 0;
	r = cuMemHostGetDevicePointer(&g->d, p, 0);
	if (r)
		return r;
	r = cuStreamWaitValue32(s, g->d, 1, CU_STREAM_WAIT_VALUE_EQ);
	if (r)
		return r;
	g->deadline_ms = now_ms() + 6000 * patience();
	g->on = pthread_create(&g->th, NULL, gate_thread, g) == 0;
	return CUDA_SUCCESS;
}
CUresult event_soon(CUevent e)
{
	long end = now_ms() + 1000 * patience();
	CUresult r;

	while ((r = cuEventQuery(e)) == CUDA_ERROR_NOT_READY && now_ms() < end)
		usleep(1000);
	return r;
}
int patience(void)
{
	const char *text = getenv("ORACLE_PATIENCE");
	int times = text ? atoi(text) : 1;

	return times > 1 ? times : 1;
}
/* Bound the wait for an answer of the other process, which may be slow, too. */
static void answers_in_time(int fd)
{
	struct timeval tv = { 20 * patience(), 0 };

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
}
void gate_after(gate_t *g, int ms)
{
	g->planned = 1;
	__sync_synchronize();
	/* A slow machine needs longer for calls that do not wait for the gate. */
	g->deadline_ms = now_ms() + ms * patience();
}
void gate_open(gate_t *g)
{
	g->released = 1;
	__sync_synchronize();
	if (g->h)
		*g->h = 1;
}
void gate_done(gate_t *g)
{
	gate_open(g);
	if (g->on)
		pthread_join(g->th, NULL);
	if (g->watchdog)
		emit("__gate_watchdog", "a gate had to be opened by the watchdog");
	if (g->h) {
		cuCtxSynchronize();
		cuMemFreeHost((void *)g->h);
	}
	memset(g, 0, sizeof(*g));
}

/* ------------------------------------------------------------------ */
int peer_start(peer_t *p, const char *name)
{
	int sv[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv))
		return -1;
	p->pid = fork();
	if (p->pid == 0) {
		char fdb[16];
		int fd = dup(sv[1]);          /* dup() clears CLOEXEC */
		snprintf(fdb, sizeof(fdb), "%d", fd);
		execl("/proc/self/exe", "oracle", "--peer", name, fdb, cur_group, (char *)NULL);
		_exit(120);
	}
	close(sv[1]);
	p->fd = sv[0];
	answers_in_time(p->fd);
	return p->pid < 0 ? -1 : 0;
}
int xsend(int fd, const void *b, size_t n)
{
	const char *c = b;
	while (n) {
		ssize_t w = send(fd, c, n, MSG_NOSIGNAL);
		if (w <= 0)
			return -1;
		c += w;
		n -= (size_t)w;
	}
	return 0;
}
int xrecv(int fd, void *b, size_t n)
{
	char *c = b;
	while (n) {
		ssize_t w = recv(fd, c, n, 0);
		if (w <= 0)
			return -1;
		c += w;
		n -= (size_t)w;
	}
	return 0;
}
int xsend_fd(int fd, int pass)
{
	char d = 'f';
	struct iovec io = { &d, 1 };
	union { char b[CMSG_SPACE(sizeof(int))]; struct cmsghdr a; } u;
	struct msghdr m;
	memset(&m, 0, sizeof(m));
	memset(&u, 0, sizeof(u));
	m.msg_iov = &io;
	m.msg_iovlen = 1;
	m.msg_control = u.b;
	m.msg_controllen = sizeof(u.b);
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &pass, sizeof(int));
	return sendmsg(fd, &m, MSG_NOSIGNAL) == 1 ? 0 : -1;
}
int xrecv_fd(int fd)
{
	char d;
	struct iovec io = { &d, 1 };
	union { char b[CMSG_SPACE(sizeof(int))]; struct cmsghdr a; } u;
	struct msghdr m;
	memset(&m, 0, sizeof(m));
	m.msg_iov = &io;
	m.msg_iovlen = 1;
	m.msg_control = u.b;
	m.msg_controllen = sizeof(u.b);
	if (recvmsg(fd, &m, MSG_CMSG_CLOEXEC) != 1)
		return -1;
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	if (!c || c->cmsg_type != SCM_RIGHTS)
		return -1;
	int out;
	memcpy(&out, CMSG_DATA(c), sizeof(int));
	return out;
}
int peer_wait(peer_t *p)
{
	int st = 0;
	close(p->fd);
	for (int i = 0; i < 2000 * patience(); i++) {
		pid_t w = waitpid(p->pid, &st, WNOHANG);
		if (w == p->pid)
			return WIFSIGNALED(st) ? 128 + WTERMSIG(st) : WEXITSTATUS(st);
		usleep(5000);
	}
	kill(p->pid, SIGKILL);
	waitpid(p->pid, &st, 0);
	return -1;
}

/* ------------------------------------------------------------------ */
typedef struct {
	int gi, fd, running, done, timed_out, status;
	pid_t pid;
	long start;
	char *buf;
	size_t len, cap;
	flight_t *fl;
	skip_t skip[24];
	int nskip;
} job_t;

static int cmp_group(const void *a, const void *b)
{
	int x = ((const group_t *)a)->tmo < 0, y = ((const group_t *)b)->tmo < 0;
	if (x != y)
		return x - y;          /* groups that run alone come last */
	return strcmp(((const group_t *)a)->name, ((const group_t *)b)->name);
}

/*
 * How long a group may take: its own time, multiplied by patience() up to a third of the time of
 * all groups, so that a group that hangs leaves time for the others.
 */
static long group_ms(const group_t *g, long all_ms)
{
	long ms = labs(g->tmo) * 1000l, more = ms * patience();

	if (all_ms && more > all_ms / 3)
		more = all_ms / 3;
	return more > ms ? more : ms;
}

static void run_group(int gi)
{
	cur_group = groups[gi].name;
	groups[gi].fn();
	exit(0);
}

static void job_start(job_t *j)
{
	int pf[2];
	if (pipe(pf))
		_exit(99);
	fflush(NULL);
	if (!j->fl)
		j->fl = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	j->fl->id[0] = 0;
	j->len = 0;
	j->timed_out = 0;
	j->pid = fork();
	if (j->pid == 0) {
		flight = j->fl;
		skips = j->skip;
		nskips = j->nskip;
		setpgid(0, 0);
		dup2(pf[1], 1);
		close(pf[0]);
		close(pf[1]);
		run_group(j->gi);
	}
	close(pf[1]);
	setpgid(j->pid, j->pid);
	j->fd = pf[0];
	fcntl(j->fd, F_SETFL, O_NONBLOCK);
	j->running = 1;
	j->start = now_ms();
}

static void job_read(job_t *j)
{
	for (;;) {
		if (j->cap - j->len < 65536) {
			j->cap = j->cap ? j->cap * 2 : 131072;
			j->buf = realloc(j->buf, j->cap);
		}
		ssize_t n = read(j->fd, j->buf + j->len, j->cap - j->len);
		if (n <= 0)
			break;
		j->len += (size_t)n;
	}
}

int main(int argc, char **argv)
{
	int njobs = 1, list = 0;
	long deadline = 0, all_ms = 0;
	const char *only[32];
	int nonly = 0;
	if (argc >= 5 && !strcmp(argv[1], "--peer")) {
		cur_group = argv[4];
		int fd = atoi(argv[3]);
		answers_in_time(fd);
		for (int i = 0; i < npeers; i++)
			if (!strcmp(peers[i].name, argv[2])) {
				peers[i].fn(fd);
				exit(0);
			}
		return 121;
	}
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--jobs") && i + 1 < argc)
			njobs = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--deadline") && i + 1 < argc)
			deadline = now_ms() + (all_ms = atol(argv[++i]) * 1000);
		else if (!strcmp(argv[i], "--only") && i + 1 < argc && nonly < 32)
			only[nonly++] = argv[++i];
		else if (!strcmp(argv[i], "--list"))
			list = 1;
		else {
			fprintf(stderr, "usage: %s [--jobs N] [--deadline S] [--only PREFIX]... [--list]\n", argv[0]);
			return 2;
		}
	}
	qsort(groups, ngroups, sizeof(groups[0]), cmp_group);
	if (list) {
		for (int i = 0; i < ngroups; i++)
			printf("%s.%s\n", SET_PREFIX, groups[i].name);
		return 0;
	}
	job_t *jobs = calloc((size_t)ngroups + 1, sizeof(*jobs));
	int nj = 0;
	for (int i = 0; i < ngroups; i++) {
		int take = nonly == 0;
		for (int k = 0; k < nonly; k++)
			if (!strncmp(groups[i].name, only[k], strlen(only[k])))
				take = 1;
		if (take) {
			jobs[nj].gi = i;
			jobs[nj].fd = -1;
			nj++;
		}
	}
	int next = 0, running = 0, done = 0;
	while (done < nj) {
		while (next < nj && (running == 0 || (running < njobs && groups[jobs[next].gi].tmo > 0))) {
			job_start(&jobs[next++]);
			running++;
		}
		struct pollfd pf[64];
		int np = 0;
		for (int i = 0; i < nj && np < 64; i++)
			if (jobs[i].running)
				pf[np++] = (struct pollfd){ jobs[i].fd, POLLIN, 0 };
		poll(pf, (nfds_t)np, 5);
		for (int i = 0; i < nj; i++) {
			job_t *j = &jobs[i];
			if (!j->running)
				continue;
			job_read(j);
			int st;
			pid_t w = waitpid(j->pid, &st, WNOHANG);
			int over = now_ms() - j->start > group_ms(&groups[j->gi], all_ms) ||
				   (deadline && now_ms() > deadline);
			if (w != j->pid && over) {
				j->timed_out = 1;
				kill(-j->pid, SIGKILL);
				waitpid(j->pid, &st, 0);
				w = j->pid;
			}
			if (w == j->pid) {
				kill(-j->pid, SIGKILL);   /* peers that the group left */
				job_read(j);
				close(j->fd);
				j->status = st;
				if ((j->timed_out || WIFSIGNALED(st)) && j->fl->id[0] && j->nskip < 24 &&
				    !(deadline && now_ms() > deadline)) {
					skip_t *k = &j->skip[j->nskip++];
					snprintf(k->id, sizeof(k->id), "%s", j->fl->id);
					if (j->timed_out)
						snprintf(k->why, sizeof(k->why), "timeout");
					else
						snprintf(k->why, sizeof(k->why), "signal:%d", WTERMSIG(st));
					fprintf(stderr, "%s: %s in %s, again without it\n", groups[j->gi].name, k->why, k->id);
					job_start(j);
					continue;
				}
				j->running = 0;
				running--;
				done++;
				fprintf(stderr, "[%d/%d] %s pid %d %ld ms%s\n", done, nj, groups[j->gi].name,
					(int)j->pid, now_ms() - j->start, j->timed_out ? " TIMEOUT" :
					WIFSIGNALED(st) ? " SIGNAL" : WEXITSTATUS(st) ? " EXIT" : "");
			}
		}
		if (deadline && now_ms() > deadline)
			next = nj, done = nj - running;
	}
	for (int i = 0; i < nj; i++) {
		job_t *j = &jobs[i];
		fwrite(j->buf, 1, j->len, stdout);
		const char *g = groups[j->gi].name;
		if (j->timed_out)
			printf("%s.%s.__status\ttimeout\n", SET_PREFIX, g);
		else if (WIFSIGNALED(j->status))
			printf("%s.%s.__status\tsignal:%d\n", SET_PREFIX, g, WTERMSIG(j->status));
		else if (WEXITSTATUS(j->status))
			printf("%s.%s.__status\texit:%d\n", SET_PREFIX, g, WEXITSTATUS(j->status));
		else if (!j->start)
			printf("%s.%s.__status\tnot run\n", SET_PREFIX, g);
	}
	return 0;
}
