/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The far side: a second process with memory and an RDMA device of its own, which does what the test
 * asks.  The requests go through a socket, beside the RDMA connection.
 *
 * In one of several virtual machines (vm/run --guests) the far side is in the machine of rank 1.
 * There "PROGRAM --serve" makes one for each connection, until "PROGRAM --dismiss" in another
 * machine.  The server also answers whether anything is left of far sides that have ended.
 *
 * A program that includes this passes its arguments to rdma_main() first.
 */
#ifndef GPUMEM_SELFTESTS_RDMA_PEER_H
#define GPUMEM_SELFTESTS_RDMA_PEER_H

#include <gpumem.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>

#include "rdma_link.h"
#include "rdma_verbs.h"
#include "rdma_memory.h"

#define FAR_WORD	"--far"
#define FAR_PORT	20080
/* What a connection to the server is for. */
#define FAR_SIDE	's'
#define FAR_QUIET	'q'
#define SLOTS		4

/* How memory is registered. */
enum way {
	BY_ADDRESS,
	BY_DMABUF,
	MOVABLE,	/* by DMA-buf, which the device does not pin */
	ON_DEMAND,	/* by address, and the pages are found when they are used */
};

/* Memory and its region. */
struct slot {
	struct memory memory;
	struct mr mr;
};

enum far_op {
	FAR_LISTEN,	/* transport: port, address; value is true with on-demand paging */
	FAR_ACCEPT,
	FAR_REACH,	/* transport, port: the first half of connecting */
	FAR_CONNECT,
	FAR_ALLOC,	/* slot, kind: addr, and in number the exporter's address */
	FAR_REGISTER,	/* slot, way, access: rkey */
	FAR_DEREGISTER,	/* slot */
	FAR_FREE,	/* slot */
	FAR_RIGHTS,	/* slot, value: the device's rights of mapped memory */
	FAR_FILL,	/* slot, value: the engine fills it with this byte */
	FAR_WRITE,	/* slot, at, bytes, number: the engine writes a pattern */
	FAR_HOLDS,	/* slot, at, bytes, number: value is true if it finds the pattern */
	FAR_RECEIVE,	/* slot, at, bytes: a buffer for one message */
	FAR_WAIT,	/* completion: its status, opcode, bytes and imm */
	FAR_POST,	/* slot, at, request */
	FAR_DO,		/* the same, waited for: status */
	FAR_ENGINE,	/* slot, at, bytes: the engine fills and copies until FAR_REST */
	FAR_REST,	/* value: rounds */
	FAR_TRAFFIC,	/* slot, addr, rkey, request.opcode: all of the slot, again and again */
	FAR_MOVES,	/* value is true if requests that were posted now are complete */
	FAR_SILENCE,	/* value: writes since the last time; status: what ended them */
	FAR_RESET,	/* reset the primary context */
	FAR_CLOSE,	/* slot: close the handle of imported memory, not its region */
	FAR_HOLDER,	/* slot, holder: asks the process that exported the memory */
	FAR_HOARD,	/* allocate all memory of the device; value is true if it is zero */
	FAR_GUARD,	/* value: fill it with this byte */
	FAR_UNHARMED,	/* value is true if it is still zero, or has that byte */
	FAR_CONSISTS,	/* slot, at: value is true if each byte is one of the two in at */
	FAR_WHO,	/* value: the process */
	FAR_KILL,	/* value: a process of the same machine, which is killed */
	FAR_QUIT,
	FAR_DISMISS,	/* the server */
};

struct far_message {
	enum far_op op;
	int result;
	unsigned int transport, slot, port, access, status, opcode, imm;
	enum kind kind;
	enum way way;
	__u64 at, bytes, addr, number, value;
	__u32 rkey;
	char address[16];
	struct request request;
	struct peer_message holder;
};

/* The engine fills every second page, and copies all of the memory to memory of its own. */
struct worker {
	struct memory *memory;
	size_t at, bytes;
	CUcontext ctx;
	pthread_t thread;
	atomic_bool over;
	__u64 rounds;
	unsigned char value;
	int failed;
};

/* Writes to another process's memory, some of which are always under way. */
#define UNDER_WAY	8
#define PIECE		(64 * KIB)

struct traffic {
	struct side *side;
	struct request request;
	pthread_t thread;
	atomic_bool over;
	atomic_bool dead;	/* the process that has the memory is dead */
	atomic_ullong count;
	atomic_int status;		/* of the first write that failed */
};

/* All memory of the device that a process could get. */
struct hoard {
	CUdeviceptr p[4096];
	size_t bytes[4096];
	unsigned int count;
	unsigned char byte;
};

/* What a process has: the test's own process as well as the far one. */
struct end {
	struct side side;
	CUcontext ctx;
	struct slot slots[SLOTS];
	struct worker worker;
	struct traffic traffic;
	struct hoard hoard;
};

static inline void *worker_main(void *arg)
{
	struct worker *w = arg;
	CUdeviceptr copy;
	CUstream stream;

	WORKER_CHECK(!cuCtxSetCurrent(w->ctx));
	WORKER_CHECK(!cuMemAlloc(&copy, w->bytes));
	WORKER_CHECK(!cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	do {
		w->value = ++w->rounds;
		WORKER_CHECK(!cuMemsetD2D8Async(w->memory->p + w->at, 8192, w->value, 4096,
						w->bytes / 8192, stream));
		WORKER_CHECK(!cuMemcpyDtoDAsync(copy, w->memory->p + w->at, w->bytes, stream));
		WORKER_CHECK(!cuStreamSynchronize(stream));
	} while (!w->over);
	WORKER_CHECK(!cuStreamDestroy(stream));
	WORKER_CHECK(!cuMemFree(copy));
	return NULL;
}

static inline int engine_start(struct end *e, struct slot *slot, size_t at, size_t bytes)
{
	e->worker = (struct worker){
		.memory = &slot->memory, .at = at, .bytes = bytes, .ctx = e->ctx,
	};
	return -pthread_create(&e->worker.thread, NULL, worker_main, &e->worker);
}

/* Whether the engine's pages hold what it wrote last; RDMA may write the odd ones. */
static inline int engine_rest(struct end *e, __u64 *rounds)
{
	struct worker *w = &e->worker;

	w->over = true;
	pthread_join(w->thread, NULL);
	*rounds = w->rounds;
	if (w->failed) {
		fprintf(stderr, "# line %d failed\n", w->failed);
		return -EIO;
	}
	for (size_t i = 0; i < w->bytes; i += 8192) {
		if (!sees(w->memory->p + w->at + i, w->value, 4096))
			return -EBADMSG;
	}
	return 0;
}

/* Wait for a completion: less long if the process dies meanwhile. */
static inline int traffic_wait(struct traffic *t, struct ibv_wc *wc)
{
	int ret = -ETIMEDOUT;

	for (int waited = 0; ret && waited < PATIENCE; waited += PATIENCE_DEAD) {
		ret = side_wait_for(t->side, wc, PATIENCE_DEAD);
		if (t->dead)
			break;
	}
	return ret;
}

static inline void *traffic_main(void *arg)
{
	struct traffic *t = arg;
	unsigned int busy = 0;
	struct ibv_wc wc;
	__u64 at = 0;

	do {
		while (!t->over && !t->status && busy < UNDER_WAY) {
			struct request r = t->request;

			r.addr += at;
			r.far_addr += at;
			r.bytes = PIECE;
			at = (at + PIECE) % BYTES;
			t->status = side_post(t->side, &r);
			busy += !t->status;
		}
		if (!busy)
			break;
		if (traffic_wait(t, &wc)) {
			t->status = -ETIMEDOUT;
			break;
		}
		busy--;
		if (wc.status && !t->status)
			t->status = wc.status;
		t->count += !wc.status;
	} while (busy || (!t->over && !t->status));
	return NULL;
}

static inline int traffic_start(struct end *e, struct slot *slot, enum ibv_wr_opcode opcode,
				__u64 far_addr, __u32 rkey)
{
	e->traffic = (struct traffic){
		.side = &e->side, .request = {
			.opcode = opcode, .addr = slot->memory.p, .lkey = slot->mr.lkey,
			.far_addr = far_addr, .rkey = rkey,
		},
	};
	return -pthread_create(&e->traffic.thread, NULL, traffic_main, &e->traffic);
}

/* Wait until writes that are posted from now on have arrived. */
static inline bool traffic_moves(struct end *e)
{
	unsigned long long since = e->traffic.count;
	__u64 end = in_seconds(e->traffic.dead ? PATIENCE_DEAD : PATIENCE);

	while (e->traffic.count < since + 2 * UNDER_WAY) {
		if (e->traffic.status || mono_ns() > end)
			return false;
		nap_ms(1);
	}
	return true;
}

/*
 * Wait until a write fails, or none completes any more.  Over iWARP a write is complete when TCP has
 * taken it: some more complete before the far side refuses one.
 */
static inline bool traffic_stops(struct end *e)
{
	__u64 end = in_seconds(2 * PATIENCE);

	while (!e->traffic.status && mono_ns() < end)
		nap_ms(1);
	return e->traffic.status;
}

/* End the writes: 0, the status of one that failed, or a negative errno. */
static inline int traffic_end(struct end *e)
{
	e->traffic.over = true;
	pthread_join(e->traffic.thread, NULL);
	return e->traffic.status;
}

/* Whether all of it is zero, or has the byte that it was filled with. */
static inline bool hoard_unharmed(const struct hoard *h)
{
	for (unsigned int i = 0; i < h->count; i++) {
		if (!sees(h->p[i], h->byte, h->bytes[i]))
			return false;
	}
	return true;
}

static inline int hoard_guard(struct hoard *h, unsigned char byte)
{
	h->byte = byte;
	for (unsigned int i = 0; i < h->count; i++) {
		int ret = cuMemsetD8(h->p[i], byte, h->bytes[i]);

		if (ret)
			return ret;
	}
	return cuCtxSynchronize();
}

/* Whether each byte of memory is one of two. */
static inline bool slot_consists(const struct slot *slot, unsigned char one, unsigned char other)
{
	const unsigned char *bytes = view(slot->memory.p, BYTES);

	for (size_t i = 0; i < BYTES; i++) {
		if (bytes[i] != one && bytes[i] != other) {
			fprintf(stderr, "# byte %zu is %#x\n", i, bytes[i]);
			return false;
		}
	}
	return true;
}

/* Allocate until nothing is left, first in large pieces. */
static inline bool hoard_all(struct hoard *h)
{
	for (size_t bytes = 64 * MIB; bytes >= 2 * MIB; bytes /= 2) {
		while (h->count < ARRAY_SIZE(h->p) && !cuMemAlloc(&h->p[h->count], bytes))
			h->bytes[h->count++] = bytes;
	}
	return hoard_unharmed(h);
}

static inline int slot_register(struct end *e, struct slot *slot, enum way way, int access)
{
	CUdeviceptr p = slot->memory.p;
	int fd, ret;

	if (way == ON_DEMAND)
		access |= IBV_ACCESS_ON_DEMAND;
	if (way != BY_DMABUF && way != MOVABLE)
		return mr_address(&e->side, &slot->mr, cpu(p), BYTES, access);
	if (slot->memory.kind == REGISTERED || slot->memory.kind == HOST)
		ret = gpumem_host_get_dmabuf_fd(&fd, cpu(p), BYTES, 0);
	else
		ret = cuMemGetHandleForAddressRange(&fd, p, BYTES,
						    CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
	if (ret)
		return ret;
	if (write_file(RXE_PIN, way == BY_DMABUF ? "1" : "0"))
		return -EACCES;
	ret = mr_dmabuf(&e->side, &slot->mr, 0, BYTES, p, fd, access);
	close(fd);
	return ret;
}

static inline int far_post(struct end *e, struct far_message *m, bool wait)
{
	struct slot *slot = &e->slots[m->slot];
	int ret;

	m->request.addr = slot->memory.p + m->at;
	m->request.lkey = slot->mr.lkey;
	if (!wait)
		return side_post(&e->side, &m->request);
	ret = side_do(&e->side, &m->request);
	m->status = ret;
	return ret < 0 ? ret : 0;
}

static inline int far_wait(struct end *e, struct far_message *m)
{
	struct ibv_wc wc;
	int ret = side_wait(&e->side, &wc);

	if (ret)
		return ret;
	m->status = wc.status;
	m->opcode = wc.opcode;
	m->bytes = wc.byte_len;
	m->imm = wc.wc_flags & IBV_WC_WITH_IMM ? ntohl(wc.imm_data) : 0;
	return 0;
}

/* 0, a negative errno, or CUDA's error. */
static inline int far_do(struct end *e, struct far_message *m)
{
	struct slot *slot = &e->slots[m->slot % SLOTS];
	const char *address;
	int ret;

	switch (m->op) {
	case FAR_LISTEN:
		address = rdma_link(m->transport);
		if (!address)
			return -ENODEV;
		snprintf(m->address, sizeof(m->address), "%s", address);
		ret = side_listen(&e->side, address, &m->port);
		m->value = side_on_demand(&e->side);
		return ret;
	case FAR_ACCEPT:
		return side_accept(&e->side);
	case FAR_REACH:
		return rdma_link(m->transport) ? side_reach(&e->side, m->address, m->port) : -ENODEV;
	case FAR_CONNECT:
		return side_connect(&e->side);
	case FAR_ALLOC:
		ret = memory_make(&slot->memory, m->kind);
		m->addr = slot->memory.p;
		m->number = slot->memory.held;
		return ret;
	case FAR_REGISTER:
		ret = slot_register(e, slot, m->way, m->access);
		m->rkey = slot->mr.rkey;
		return ret;
	case FAR_DEREGISTER:
		return mr_end(&slot->mr);
	case FAR_FREE:
		return memory_free(&slot->memory);
	case FAR_RIGHTS:
		return memory_rights(&slot->memory, m->value);
	case FAR_FILL:
		ret = cuMemsetD8(slot->memory.p, m->value, BYTES);
		return ret ? (int)ret : (int)cuCtxSynchronize();
	case FAR_WRITE:
		return memory_write(&slot->memory, m->at, m->bytes, m->number) ? 0 : -EIO;
	case FAR_HOLDS:
		m->value = memory_holds(&slot->memory, m->at, m->bytes, m->number);
		return 0;
	case FAR_RECEIVE:
		return side_recv(&e->side, slot->memory.p + m->at, m->bytes, slot->mr.lkey);
	case FAR_WAIT:
		return far_wait(e, m);
	case FAR_POST:
	case FAR_DO:
		return far_post(e, m, m->op == FAR_DO);
	case FAR_ENGINE:
		return engine_start(e, slot, m->at, m->bytes);
	case FAR_REST:
		return engine_rest(e, &m->value);
	case FAR_TRAFFIC:
		return traffic_start(e, slot, m->request.opcode, m->addr, m->rkey);
	case FAR_MOVES:
		m->value = traffic_moves(e);
		return 0;
	case FAR_SILENCE:
		m->status = traffic_end(e);
		m->value = e->traffic.count;
		return 0;
	case FAR_CLOSE:
		return cuIpcCloseMemHandle(slot->memory.p);
	case FAR_HOLDER:
		return peer_call(&slot->memory.holder, &m->holder);
	case FAR_HOARD:
		m->value = hoard_all(&e->hoard);
		m->bytes = e->hoard.count;
		return 0;
	case FAR_GUARD:
		return hoard_guard(&e->hoard, m->value);
	case FAR_UNHARMED:
		m->value = hoard_unharmed(&e->hoard);
		return 0;
	case FAR_CONSISTS:
		m->value = slot_consists(slot, m->at, m->at >> 8);
		return 0;
	case FAR_WHO:
		m->value = getpid();
		return 0;
	case FAR_KILL:
		return kill(m->value, SIGKILL) ? -errno : 0;
	case FAR_RESET:
		return cuDevicePrimaryCtxReset(0);
	case FAR_QUIT:
		return 0;
	case FAR_DISMISS:
		/* The server is the parent. */
		return kill(getppid(), SIGTERM) ? -errno : 0;
	}
	return -EINVAL;
}

static inline int far_main(void)
{
	static struct end e;
	struct far_message m = { .result = cuda_start(&e.ctx) };

	do {
		if (send(PEER_FD, &m, sizeof(m), MSG_NOSIGNAL) != sizeof(m) ||
		    recv(PEER_FD, &m, sizeof(m), MSG_WAITALL) != sizeof(m))
			return 1;
		m.result = far_do(&e, &m);
	} while (m.op != FAR_QUIT);
	return 0;
}

/* Pages that are pinned on this machine. */
static inline long long pages_pinned(void)
{
	FILE *f = fopen("/proc/vmstat", "r");
	long long value, pinned = 0;
	char name[64];

	while (f && fscanf(f, "%63s %lld", name, &value) == 2) {
		if (!strcmp(name, "nr_foll_pin_acquired"))
			pinned += value;
		else if (!strcmp(name, "nr_foll_pin_released"))
			pinned -= value;
	}
	if (f)
		fclose(f);
	return pinned;
}

/* Whether nothing is left of processes that used memory here: no object, no pin. */
static inline bool quiet_here(long long pinned)
{
	__u64 end = in_seconds(10);

	if (!dev_quiet(10))
		return false;
	while (pages_pinned() != pinned) {
		if (mono_ns() > end) {
			fprintf(stderr, "# %lld pages are pinned, not %lld\n", pages_pinned(), pinned);
			return false;
		}
		nap_ms(5);
	}
	return true;
}

/* What the server does for a connection, in a process of its own. */
static inline void far_served(int sock, long long pinned)
{
	int yes = 1;
	char what;

	signal(SIGCHLD, SIG_DFL);
	setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	if (recv(sock, &what, 1, MSG_WAITALL) != 1)
		_exit(1);
	if (what == FAR_QUIET) {
		what = quiet_here(pinned);
		send(sock, &what, 1, MSG_NOSIGNAL);
		_exit(0);
	}
	if (sock == PEER_FD)
		fcntl(sock, F_SETFD, 0);
	else
		dup2(sock, PEER_FD);
	execl("/proc/self/exe", "far", FAR_WORD, NULL);
	_exit(127);
}

/* Make a far side for each connection; ends by SIGTERM. */
static inline int far_serve(void)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(FAR_PORT) };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
	long long pinned = pages_pinned();

	signal(SIGCHLD, SIG_IGN);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (bind(listener, (struct sockaddr *)&sin, sizeof(sin)) || listen(listener, 8)) {
		perror("--serve");
		return 1;
	}
	for (;;) {
		int sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (sock >= 0 && !fork())
			far_served(sock, pinned);
		close(sock);
	}
}

/* --- the test's side of it */

/* Ask the server in the machine of rank 1, which may not listen yet.  It has no process id here. */
static inline int far_reach(struct peer *far, char what)
{
	struct sockaddr_in sin = side_address(getenv("GPUMEM_PEERS"), FAR_PORT);
	int ret = -ECONNREFUSED, yes = 1;

	*far = (struct peer){ .pid = 0 };
	for (int i = 0; ret == -ECONNREFUSED && i < 100; i++) {
		if (i)
			nap_ms(100);
		far->sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		ret = connect(far->sock, (struct sockaddr *)&sin, sizeof(sin)) ? -errno : 0;
		if (ret)
			close(far->sock);
	}
	if (ret)
		return ret;
	setsockopt(far->sock, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	return send(far->sock, &what, 1, MSG_NOSIGNAL) == 1 ? 0 : -EPIPE;
}

static inline int far_ready(struct peer *far)
{
	struct far_message m;

	return recv(far->sock, &m, sizeof(m), MSG_WAITALL) == sizeof(m) ? m.result : -EPIPE;
}

/* A far side in the other machine, if there is one. */
static inline int far_start(struct peer *far)
{
	int ret = getenv("GPUMEM_PEERS") ? far_reach(far, FAR_SIDE) : peer_exec_as(far, FAR_WORD);

	return ret ? ret : far_ready(far);
}

/* One in this machine. */
static inline int far_start_here(struct peer *far)
{
	int ret = peer_exec_as(far, FAR_WORD);

	return ret ? ret : far_ready(far);
}

/* Whether nothing is left on the other machine, if there is one, of processes that have ended. */
static inline bool far_quiet(void)
{
	struct peer far;
	char quiet = 0;

	if (!getenv("GPUMEM_PEERS"))
		return true;
	if (far_reach(&far, FAR_QUIET))
		return false;
	if (recv(far.sock, &quiet, 1, MSG_WAITALL) != 1)
		quiet = 0;
	close(far.sock);
	return quiet;
}

static inline bool far_send(struct peer *far, const struct far_message *m)
{
	return send(far->sock, m, sizeof(*m), MSG_NOSIGNAL) == sizeof(*m);
}

/* The result of a request that was sent. */
static inline int far_result(struct peer *far, struct far_message *m)
{
	return recv(far->sock, m, sizeof(*m), MSG_WAITALL) == sizeof(*m) ? m->result : -EPIPE;
}

static inline int far_call(struct peer *far, struct far_message *m)
{
	return far_send(far, m) ? far_result(far, m) : -EPIPE;
}

/* One request without results but its own. */
#define FAR(far, ...) far_call((far), &(struct far_message){ __VA_ARGS__ })

static inline bool far_holds(struct peer *far, unsigned int slot, __u64 at, __u64 bytes,
			     __u64 number)
{
	struct far_message m = {
		.op = FAR_HOLDS, .slot = slot, .at = at, .bytes = bytes, .number = number,
	};

	return !far_call(far, &m) && m.value;
}

static inline int far_end(struct peer *far)
{
	int ret = 0;

	FAR(far, .op = FAR_QUIT);
	/* Another machine's process ends when it closes the connection. */
	if (!far->pid)
		ret = recv(far->sock, &ret, 1, 0) ? -EPIPE : 0;
	close(far->sock);
	return far->pid ? end_child(far->pid) : ret;
}

static inline int far_dismiss(void)
{
	struct peer far;

	return far_start(&far) || FAR(&far, .op = FAR_DISMISS) || far_end(&far);
}

/*
 * Connect this process with a far one.  Between the two halves of it memory can be registered, but
 * must not be used.
 */
static inline int ends_connect(struct end *near, struct peer *far, enum transport transport)
{
	struct far_message m = { .op = FAR_LISTEN, .transport = transport };
	int ret = far_call(far, &m);

	if (!ret)
		ret = side_reach(&near->side, m.address, m.port);
	if (ret)
		return ret;
	m.op = FAR_ACCEPT;
	if (!far_send(far, &m))
		return -EPIPE;
	ret = side_connect(&near->side);
	return ret ? ret : far_result(far, &m);
}

static inline int rdma_main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], PEER_WORD))
		return peer_main();
	if (argc == 2 && !strcmp(argv[1], FAR_WORD))
		return far_main();
	if (argc == 2 && !strcmp(argv[1], "--serve"))
		return far_serve();
	if (argc == 2 && !strcmp(argv[1], "--dismiss"))
		return far_dismiss();
	return -1;
}

#endif
