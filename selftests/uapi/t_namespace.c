// SPDX-License-Identifier: GPL-2.0
/*
 * The right to open objects: every way by which a process, the *taker*, reaches memory, an event, a
 * pool, a semaphore or a client of another process, the *maker*, for every combination of differences between
 * the two.
 *
 * The differences are the user; each of the pid, user, mount, network and IPC namespaces; and
 * whether only the owner of the device node may open it.  All 2^7 combinations are enumerated, in
 * both directions: this process is the maker and a second process, the *stranger*, the taker, and
 * the reverse.  Only root may open the files of channels; descriptors of them can be sent to any
 * process.
 *
 * The table "rules" below has the expected results; Documentation/sharing.rst states them in words.
 * For a way, the first rule decides whose differences are all present; each way ends with a rule
 * without differences.  A rule that never decides is a mistake in the table, and the test fails.
 */
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "kselftest_harness.h"
#include "common/pool_util.h"

#define BYTES	(64 * KIB)
#define RW	(PROT_READ | PROT_WRITE)
#define NOBODY	65534

enum {
	OTHER_USER = 1 << 0,
	OTHER_PID_NS = 1 << 1,
	OTHER_USER_NS = 1 << 2,
	OTHER_MOUNT_NS = 1 << 3,
	OTHER_NET_NS = 1 << 4,
	OTHER_IPC_NS = 1 << 5,
	NODE_IS_CLOSED = 1 << 6,	/* mode 0600 */
	COMBINATIONS = 1 << 7,
	/* The taker is root, as this process is: modes of files do not bind it.  */
	PRIVILEGED = 1 << 7,
};

static const char * const difference_names[] = {
	"user", "pid-ns", "user-ns", "mount-ns", "net-ns", "ipc-ns", "node-0600",
	"(privileged)",
};

/* Ways, as calls of the taker.  */
enum way {
	OPEN_NODE,		/* open() of the device node */
	TOKEN,			/* TOKEN_OPEN */
	TOKEN_ANY_USER,		/* the same, of a token with GPUMEM_TOKEN_ANY_USER */
	TOKEN_PID_NS,		/* the same, with GPUMEM_TOKEN_PID_NS */
	TOKEN_REVOKED,		/* the same, after its maker took it back */
	DMABUF_IMPORT,		/* BO_IMPORT of a DMA-buf passed over a socket */
	DMABUF_MAP,		/* mmap() of it, read and write */
	RDONLY_IMPORT,		/* BO_IMPORT of one that is read-only */
	RDONLY_MAP_READ,
	RDONLY_MAP_WRITE,
	RDONLY_MPROTECT,	/* mmap() to read, then mprotect() to write */
	RDONLY_REOPEN,		/* open() of /proc/self/fd/N for writing */
	HANDLE_IMPORT,		/* BO_IMPORT of a memory handle passed over a socket */
	HANDLE_AS_DMABUF,	/* the same, as of a DMA-buf */
	HANDLE_MAP,		/* mmap() of the descriptor */
	HANDLE_REOPEN,		/* open() of /proc/self/fd/N */
	SEMAPHORE_IMPORT,	/* TIMELINE_IMPORT of a descriptor passed over a socket, and a signal */
	SEMAPHORE_GONE,		/* the same after its maker destroyed the timeline, and a wait */
	SEMAPHORE_REOPEN,	/* open() of /proc/self/fd/N */
	CLIENT_IOCTL,		/* an ioctl on the maker's descriptor, passed */
	CLIENT_MAP,		/* mmap() of its object */
	CLIENT_ATTACH,		/* DEVICE_ATTACH of it to a client of one's own */
	CLIENT_REOPEN,		/* open() of /proc/self/fd/N, and BO_INFO of the maker's id */
	EVENT,			/* EVENT_OPEN */
	EVENT_ANY_USER,		/* the same, of an event with GPUMEM_TOKEN_ANY_USER */
	EVENT_PID_NS,		/* the same, with GPUMEM_TOKEN_PID_NS */
	EVENT_GONE,		/* the same, after its maker destroyed it */
	POOL_IMPORT,		/* POOL_IMPORT of a descriptor passed over a socket */
	POOL_CHUNK,		/* POOL_CHUNK_OPEN of a chunk of it */
	POOL_CHUNK_GONE,	/* the same, after the maker destroyed the chunk */
	POOL_REOPEN,		/* open() of /proc/self/fd/N */
	CHANNEL_OPEN,		/* open() of a channel's file */
	CHANNEL_ATTACH,		/* CHANNEL_ATTACH of an inherited descriptor of it */
	FABRIC,			/* POOL_IMPORT of a token, with the maker's channel, and a chunk */
	FABRIC_SAME_USER,	/* POOL_IMPORT of a token with GPUMEM_POOL_EXPORT_SAME_USER */
	FABRIC_PID_NS,		/* the same, with GPUMEM_POOL_EXPORT_PID_NS */
	FABRIC_NO_CHANNEL,	/* as FABRIC, without a channel */
	FABRIC_OTHER_CHANNEL,	/* the same, with another one */
	FABRIC_GONE,		/* the same, after the maker destroyed the pool */
	WAYS,
};

static const char * const way_names[WAYS] = {
	"open node", "token", "token for any user", "token for the pid namespace", "revoked token",
	"DMA-buf, import",
	"DMA-buf, mmap", "read-only DMA-buf, import", "read-only DMA-buf, mmap to read",
	"read-only DMA-buf, mmap to write", "read-only DMA-buf, mprotect to write",
	"read-only DMA-buf, opened anew", "handle, import", "handle, import as a DMA-buf",
	"handle, mmap", "handle, opened anew", "semaphore, import", "semaphore, destroyed",
	"semaphore, opened anew", "client, ioctl",
	"client, mmap", "client, attach its device", "client, opened anew",
	"event", "event for any user", "event for the pid namespace", "destroyed event",
	"pool, import", "pool, chunk", "pool, destroyed chunk",
	"pool, opened anew", "channel, open", "channel, attach", "token of a pool",
	"token of a pool for the same user", "token of a pool for the pid namespace",
	"token of a pool, without a channel", "token of a pool, with another channel",
	"token of a destroyed pool",
};

/*
 * The expected result where the taker cannot open the node, so it has no client and cannot try the
 * way.
 */
#define NO_CLIENT	1

static const struct rule {
	enum way way;
	unsigned int differ;	/* all of these */
	int want;		/* 0, a negative errno, or NO_CLIENT */
} rules[] = {
	{ OPEN_NODE, OTHER_USER | NODE_IS_CLOSED, -EACCES },
	{ OPEN_NODE, 0, 0 },

	{ TOKEN, OTHER_USER | NODE_IS_CLOSED, NO_CLIENT },
	{ TOKEN, OTHER_USER, -EACCES },
	{ TOKEN, OTHER_USER_NS, -EACCES },
	{ TOKEN, 0, 0 },

	{ TOKEN_ANY_USER, OTHER_USER | NODE_IS_CLOSED, NO_CLIENT },
	{ TOKEN_ANY_USER, 0, 0 },

	/* The privileged taker is this process, above the pid namespace of the maker. */
	{ TOKEN_PID_NS, OTHER_USER | NODE_IS_CLOSED, NO_CLIENT },
	{ TOKEN_PID_NS, OTHER_USER, -EACCES },
	{ TOKEN_PID_NS, OTHER_USER_NS, -EACCES },
	{ TOKEN_PID_NS, OTHER_PID_NS | PRIVILEGED, -EACCES },
	{ TOKEN_PID_NS, 0, 0 },

	{ TOKEN_REVOKED, OTHER_USER | NODE_IS_CLOSED, NO_CLIENT },
	{ TOKEN_REVOKED, 0, -ENOENT },

	{ DMABUF_IMPORT, OTHER_USER | NODE_IS_CLOSED, NO_CLIENT },
	{ DMABUF_IMPORT, 0, 0 },
	{ DMABUF_MAP, 0, 0 },

	{ RDONLY_IMPORT, OTHER_USER | NODE_IS_CLOSED, NO_CLIENT },
	{ RDONLY_IMPORT, 0, -EACCES },
	{ RDONLY_MAP_READ, 0, 0 },
	{ RDONLY_MAP_WRITE, 0, -EACCES },
	{ RDONLY_MPROTECT, 0, -EACCES },
	{ RDONLY_REOPEN, OTHER_USER | PRIVILEGED, -ENXIO },
	{ RDONLY_REOPEN, OTHER_USER, -EACCES },
	{ RDONLY_REOPEN, 0, -ENXIO },

	{ HANDLE_IMPORT, OTHER_USER | NODE_IS_CLOSED, NO_CLIENT },
	{ HANDLE_IMPORT, 0, 0 },
	{ HANDLE_AS_DMABUF, OTHER_USER | NODE_IS_CLOSED, NO_CLIENT },
	{ HANDLE_AS_DMABUF, 0, -EINVAL },
	{ HANDLE_MAP, 0, -ENODEV },
	{ HANDLE_REOPEN, OTHER_USER | PRIVILEGED, -ENXIO },
	{ HANDLE_REOPEN, OTHER_USER, -EACCES },
	{ HANDLE_REOPEN, 0, -ENXIO },

	{ SEMAPHORE_IMPORT, OTHER_USER | NODE_IS_CLOSED, NO_CLIENT },
	{ SEMAPHORE_IMPORT, 0, 0 },
	{ SEMAPHORE_GONE, OTHER_USER | NODE_IS_CLOSED, NO_CLIENT },
	{ SEMAPHORE_GONE, 0, -EIO },
	{ SEMAPHORE_REOPEN, OTHER_USER | PRIVILEGED, -ENXIO },
	{ SEMAPHORE_REOPEN, OTHER_USER, -EACCES },
	{ SEMAPHORE_REOPEN, 0, -ENXIO },

	{ CLIENT_IOCTL, 0, -EPERM },
	{ CLIENT_MAP, 0, -EPERM },
	{ CLIENT_ATTACH, OTHER_USER | NODE_IS_CLOSED, NO_CLIENT },
	{ CLIENT_ATTACH, 0, 0 },
	{ CLIENT_REOPEN, OTHER_USER | NODE_IS_CLOSED, -EACCES },
	{ CLIENT_REOPEN, 0, -ENOENT },

	{ EVENT, OTHER_USER | NODE_IS_CLOSED, NO_CLIENT },
	{ EVENT, OTHER_USER, -EACCES },
	{ EVENT, OTHER_USER_NS, -EACCES },
	{ EVENT, 0, 0 },

	{ EVENT_ANY_USER, OTHER_USER | NODE_IS_CLOSED, NO_CLIENT },
	{ EVENT_ANY_USER, 0, 0 },
	{ EVENT_PID_NS, OTHER_USER | NODE_IS_CLOSED, NO_CLIENT },
	{ EVENT_PID_NS, OTHER_USER, -EACCES },
	{ EVENT_PID_NS, OTHER_USER_NS, -EACCES },
	{ EVENT_PID_NS, OTHER_PID_NS | PRIVILEGED, -EACCES },
	{ EVENT_PID_NS, 0, 0 },

	{ EVENT_GONE, OTHER_USER | NODE_IS_CLOSED, NO_CLIENT },
	{ EVENT_GONE, 0, -ENOENT },

	{ POOL_IMPORT, OTHER_USER | NODE_IS_CLOSED, NO_CLIENT },
	{ POOL_IMPORT, 0, 0 },
	{ POOL_CHUNK, OTHER_USER | NODE_IS_CLOSED, NO_CLIENT },
	{ POOL_CHUNK, 0, 0 },
	{ POOL_CHUNK_GONE, OTHER_USER | NODE_IS_CLOSED, NO_CLIENT },
	{ POOL_CHUNK_GONE, 0, -ENOENT },
	{ POOL_REOPEN, OTHER_USER | PRIVILEGED, -ENXIO },
	{ POOL_REOPEN, OTHER_USER, -EACCES },
	{ POOL_REOPEN, 0, -ENXIO },

	{ CHANNEL_OPEN, PRIVILEGED, 0 },
	{ CHANNEL_OPEN, OTHER_USER, -EACCES },
	{ CHANNEL_OPEN, 0, 0 },
	{ CHANNEL_ATTACH, OTHER_USER | NODE_IS_CLOSED, NO_CLIENT },
	{ CHANNEL_ATTACH, 0, 0 },

	{ FABRIC, OTHER_USER | NODE_IS_CLOSED, NO_CLIENT },
	{ FABRIC, 0, 0 },
	{ FABRIC_SAME_USER, OTHER_USER | NODE_IS_CLOSED, NO_CLIENT },
	{ FABRIC_SAME_USER, OTHER_USER, -EPERM },
	{ FABRIC_SAME_USER, OTHER_USER_NS, -EPERM },
	{ FABRIC_SAME_USER, 0, 0 },
	{ FABRIC_PID_NS, OTHER_USER | NODE_IS_CLOSED, NO_CLIENT },
	{ FABRIC_PID_NS, OTHER_USER, -EPERM },
	{ FABRIC_PID_NS, OTHER_USER_NS, -EPERM },
	{ FABRIC_PID_NS, OTHER_PID_NS | PRIVILEGED, -EPERM },
	{ FABRIC_PID_NS, 0, 0 },
	{ FABRIC_NO_CHANNEL, OTHER_USER | NODE_IS_CLOSED, NO_CLIENT },
	{ FABRIC_NO_CHANNEL, 0, -EPERM },
	{ FABRIC_OTHER_CHANNEL, OTHER_USER | NODE_IS_CLOSED, NO_CLIENT },
	{ FABRIC_OTHER_CHANNEL, 0, -EPERM },
	{ FABRIC_GONE, OTHER_USER | NODE_IS_CLOSED, NO_CLIENT },
	{ FABRIC_GONE, 0, -ENOENT },
};

static const struct rule *rule_for(enum way way, unsigned int differ)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(rules); i++) {
		if (rules[i].way == way && (rules[i].differ & ~differ) == 0)
			return &rules[i];
	}
	return NULL;
}

static const char *in_words(unsigned int differ)
{
	static char text[128];

	text[0] = 0;
	for (unsigned int i = 0; i < ARRAY_SIZE(difference_names); i++) {
		if (differ >> i & 1)
			sprintf(text + strlen(text), " %s", difference_names[i]);
	}
	return text[0] ? text : " nothing";
}

/* --- making and taking */

/* The files of two channels, made by root.  Makers hold the first channel.  */
static struct channel {
	char path[64];
	int fd;
} channels[2];

/* The names that go over a socket as bytes, not as descriptors. */
struct names {
	__u8 token[GPUMEM_TOKEN_SIZE], any[GPUMEM_TOKEN_SIZE], revoked[GPUMEM_TOKEN_SIZE];
	__u8 pid_ns[GPUMEM_TOKEN_SIZE];
	__u8 event[GPUMEM_TOKEN_SIZE], dead_event[GPUMEM_TOKEN_SIZE];
	__u8 any_event[GPUMEM_TOKEN_SIZE], pid_ns_event[GPUMEM_TOKEN_SIZE];
	__u8 fabric[GPUMEM_TOKEN_SIZE], dead_fabric[GPUMEM_TOKEN_SIZE];
	__u8 user_fabric[GPUMEM_TOKEN_SIZE], pid_ns_fabric[GPUMEM_TOKEN_SIZE];
	__u64 chunk, dead_chunk;
	__u32 bo;
	int error;
};

/* The descriptors that go over a socket. */
enum { CLIENT, DMABUF, RDONLY, POOL, HANDLE, SEMAPHORE, DEAD_SEMAPHORE, DESCRIPTORS };

struct made {
	int fd[DESCRIPTORS];
	__u32 timeline;
	unsigned char *p, *q;	/* of the buffer object and of the chunk */
	struct names n;
};

static int make_pool(struct made *m)
{
	__u32 pool, dead, user, pid_ns, id, dead_id;

	if (gp_channel_attach(m->fd[CLIENT], channels[0].fd, NULL) ||
	    gp_pool_create(m->fd[CLIENT], 0, 0, 0, "", &pool) ||
	    gp_pool_chunk(m->fd[CLIENT], pool, BYTES, &id, &m->n.chunk) ||
	    gp_pool_chunk(m->fd[CLIENT], pool, page_size, &dead_id, &m->n.dead_chunk) ||
	    gp_destroy(m->fd[CLIENT], dead_id) ||
	    gp_pool_export_fabric(m->fd[CLIENT], pool, m->n.fabric) ||
	    gp_pool_create(m->fd[CLIENT], 0, 0, 0, "", &dead) ||
	    gp_pool_export_fabric(m->fd[CLIENT], dead, m->n.dead_fabric) ||
	    gp_destroy(m->fd[CLIENT], dead) ||
	    gp_pool_create(m->fd[CLIENT], 0, 0, 0, "", &user) ||
	    gp_pool_export_fabric_for(m->fd[CLIENT], user, GPUMEM_POOL_EXPORT_SAME_USER,
				      m->n.user_fabric) ||
	    gp_pool_create(m->fd[CLIENT], 0, 0, 0, "", &pid_ns) ||
	    gp_pool_export_fabric_for(m->fd[CLIENT], pid_ns, GPUMEM_POOL_EXPORT_PID_NS,
				      m->n.pid_ns_fabric))
		return -EIO;
	m->fd[POOL] = gp_pool_export(m->fd[CLIENT], pool, GPUMEM_POOL_EXPORT_CLOEXEC);
	m->q = gp_map(m->fd[CLIENT], id, 0, BYTES, RW);
	if (m->fd[POOL] < 0 || !m->q)
		return -EIO;
	memset(m->q, 0x11, BYTES);
	return 0;
}

/* A memory handle, and timelines, one of which is destroyed. */
static int make_handles(struct made *m)
{
	__u32 dead;

	if (gp_timeline_create(m->fd[CLIENT], 5, &m->timeline) ||
	    gp_timeline_create(m->fd[CLIENT], 0, &dead))
		return -EIO;
	m->fd[HANDLE] = gp_bo_export(m->fd[CLIENT], m->n.bo, 0, BYTES,
				     GPUMEM_BO_EXPORT_CLOEXEC | GPUMEM_BO_EXPORT_HANDLE);
	m->fd[SEMAPHORE] = gp_timeline_export(m->fd[CLIENT], m->timeline,
					      GPUMEM_TIMELINE_EXPORT_CLOEXEC);
	m->fd[DEAD_SEMAPHORE] = gp_timeline_export(m->fd[CLIENT], dead,
						   GPUMEM_TIMELINE_EXPORT_CLOEXEC);
	return m->fd[HANDLE] < 0 || m->fd[SEMAPHORE] < 0 || m->fd[DEAD_SEMAPHORE] < 0 ||
	       gp_destroy(m->fd[CLIENT], dead) ? -EIO : 0;
}

static int make(struct made *m)
{
	struct names *n = &m->n;
	__u32 id;

	m->fd[CLIENT] = gp_open(0);
	if (m->fd[CLIENT] < 0)
		return m->fd[CLIENT];
	if (gp_bo_alloc(m->fd[CLIENT], BYTES, &n->bo) ||
	    gp_token_create(m->fd[CLIENT], n->bo, 0, BYTES, 0, &id, n->token) ||
	    gp_token_create(m->fd[CLIENT], n->bo, 0, BYTES, GPUMEM_TOKEN_ANY_USER, &id, n->any) ||
	    gp_token_create(m->fd[CLIENT], n->bo, 0, BYTES, GPUMEM_TOKEN_PID_NS, &id, n->pid_ns) ||
	    gp_token_create(m->fd[CLIENT], n->bo, 0, BYTES, GPUMEM_TOKEN_ANY_USER, &id, n->revoked) ||
	    gp_destroy(m->fd[CLIENT], id) ||
	    gp_event_create(m->fd[CLIENT], &id, n->event) ||
	    gp_event_create_for(m->fd[CLIENT], GPUMEM_TOKEN_ANY_USER, &id, n->any_event) ||
	    gp_event_create_for(m->fd[CLIENT], GPUMEM_TOKEN_PID_NS, &id, n->pid_ns_event) ||
	    gp_event_create(m->fd[CLIENT], &id, n->dead_event) || gp_destroy(m->fd[CLIENT], id))
		return -EIO;
	m->fd[DMABUF] = gp_bo_export(m->fd[CLIENT], n->bo, 0, BYTES, GPUMEM_BO_EXPORT_CLOEXEC);
	m->fd[RDONLY] = gp_bo_export(m->fd[CLIENT], n->bo, 0, BYTES,
				 GPUMEM_BO_EXPORT_CLOEXEC | GPUMEM_BO_EXPORT_RDONLY);
	m->p = gp_map(m->fd[CLIENT], n->bo, 0, BYTES, RW);
	if (m->fd[DMABUF] < 0 || m->fd[RDONLY] < 0 || !m->p)
		return -EIO;
	memset(m->p, 0x11, BYTES);
	return make_handles(m) ?: make_pool(m);
}

/* How often takers wrote to the maker's memory, and raised its timeline.  */
static int written_to(const struct made *m)
{
	return m->p[BYTES / 2] - 0x11 + m->q[BYTES / 2] - 0x11 +
	       !gp_timeline_wait(m->fd[CLIENT], m->timeline, 6, 0, NULL);
}

static void close_all(struct made *m)
{
	for (int i = 0; i < DESCRIPTORS; i++)
		close(m->fd[i]);
}

static void unmake(struct made *m)
{
	munmap(m->p, BYTES);
	munmap(m->q, BYTES);
	close_all(m);
}

static int give(int sock, struct made *m, int error)
{
	m->n.error = error;
	if (write(sock, &m->n, sizeof(m->n)) != sizeof(m->n))
		return -EIO;
	if (error)
		return 0;
	for (int i = 0; i < DESCRIPTORS; i++)
		if (send_fd(sock, m->fd[i]))
			return -EIO;
	return 0;
}

static int receive(int sock, struct made *m)
{
	int ret = 0;

	if (read(sock, &m->n, sizeof(m->n)) != sizeof(m->n))
		return -EIO;
	if (m->n.error)
		return m->n.error;
	for (int i = 0; i < DESCRIPTORS; i++) {
		m->fd[i] = recv_fd(sock);
		if (m->fd[i] < 0)
			ret = -EIO;
	}
	return ret;
}

/* A mapping shows what the maker wrote, and the maker sees what is written through it. */
static int look(int fd, __u64 offset, int prot)
{
	unsigned char *p = mmap(NULL, BYTES, prot, MAP_SHARED, fd, offset);
	int ret = 0;

	if (p == MAP_FAILED)
		return -errno;
	if (p[0] != 0x11 || p[BYTES - 1] != 0x11)
		ret = -EILSEQ;
	if (prot & PROT_WRITE)
		p[BYTES / 2]++;
	munmap(p, BYTES);
	return ret;
}

static int upgrade(int fd)
{
	void *p = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
	int ret;

	if (p == MAP_FAILED)
		return -EIO;
	ret = mprotect(p, BYTES, RW) ? -errno : 0;
	munmap(p, BYTES);
	return ret;
}

static int open_token(int own, const __u8 *name)
{
	struct gpumem_token_open o;
	int ret = gp_token_open(own, name, &o);

	if (ret)
		return ret;
	ret = look(own, GPUMEM_MMAP_OFFSET(o.id), RW);
	return gp_destroy(own, o.id) ? -EIO : ret;
}

static int import(int own, int fd, __u32 flags)
{
	struct gpumem_bo_import i = { .size = sizeof(i), .fd = fd, .flags = flags };
	int ret = gp_ioctl(own, GPUMEM_BO_IMPORT, &i);

	if (ret)
		return ret;
	ret = look(own, GPUMEM_MMAP_OFFSET(i.id), RW);
	return gp_destroy(own, i.id) ? -EIO : ret;
}

/* Waits for the value that the maker set, and raises it. */
static int import_semaphore(int own, int fd)
{
	__u32 id;
	int ret = gp_timeline_import(own, fd, &id, NULL);

	if (ret)
		return ret;
	ret = gp_timeline_wait(own, id, 5, 0, NULL);
	ret = ret ?: gp_timeline_signal(own, id, 6);
	return gp_destroy(own, id) ? -EIO : ret;
}

/* A descriptor, or a negative errno. */
static int open_path(const char *path)
{
	int ret = open(path, O_RDWR | O_CLOEXEC);

	return ret < 0 ? -errno : ret;
}

static int reopen(int fd)
{
	char path[64];

	sprintf(path, "/proc/self/fd/%d", fd);
	return open_path(path);
}

static int client_ioctl(int fd, __u32 bo)
{
	struct gpumem_bo_info info;
	struct gpumem_stats stats;
	__u32 id, live;
	int ret = gp_bo_info(fd, bo, &info);

	if (gp_stats(fd, &stats) != ret || gp_bo_alloc(fd, BYTES, &id) != ret ||
	    gp_destroy(fd, bo) != ret || gp_bo_export(fd, bo, 0, BYTES, 0) != ret ||
	    gp_bo_retire(fd, bo, 0, BYTES, 0, &live) != ret ||
	    gp_event_create(fd, &id, NULL) != ret ||
	    gp_channel_attach(fd, channels[0].fd, NULL) != ret)
		return -EDOM;
	return ret;
}

static int client_reopen(int fd, __u32 bo)
{
	int own = reopen(fd), ret;
	struct gpumem_bo_info info;

	if (own < 0)
		return own;
	ret = gp_bo_info(own, bo, &info);
	close(own);
	return ret;
}

static int open_event(int own, const __u8 *name)
{
	struct gpumem_event_get get;
	__u32 id, result;
	int ret = gp_event_open(own, name, &id, &result);

	if (ret)
		return ret;
	ret = gp_event_get(own, id, GPUMEM_EVENT_GET_QUERY, &get);
	if (!ret && (result || get.state != GPUMEM_EVENT_COMPLETE))
		ret = -EDOM;
	return gp_destroy(own, id) ? -EIO : ret;
}

static int open_chunk(int own, __u32 pool, __u64 chunk)
{
	struct gpumem_pool_chunk_open o;
	int ret = gp_chunk_open(own, pool, chunk, &o);

	if (ret)
		return ret;
	ret = look(own, GPUMEM_MMAP_OFFSET(o.id), RW);
	return gp_destroy(own, o.id) ? -EIO : ret;
}

static int open_fabric(int own, const __u8 *name, __u64 chunk)
{
	struct gpumem_pool_import in;
	int ret = gp_pool_import_fabric(own, name, &in);

	if (ret)
		return ret;
	ret = open_chunk(own, in.id, chunk);
	return gp_destroy(own, in.id) ? -EIO : ret;
}

static int open_with_other_channel(const __u8 *name, __u64 chunk)
{
	int own = gp_open(0), ret;

	if (own < 0 || gp_channel_attach(own, channels[1].fd, NULL))
		return -EIO;
	ret = open_fabric(own, name, chunk);
	close(own);
	return ret;
}

static int open_channel(void)
{
	int fd = open_path(channels[0].path);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

/* Tries the ways to a pool.  Returns how often it wrote to the chunk.  */
static unsigned int take_pool(int own, const struct made *m, int *result)
{
	const struct names *n = &m->n;
	struct gpumem_pool_import in;

	result[POOL_IMPORT] = gp_pool_import(own, m->fd[POOL], &in);
	result[POOL_CHUNK] = result[POOL_IMPORT] ?: open_chunk(own, in.id, n->chunk);
	result[POOL_CHUNK_GONE] = result[POOL_IMPORT] ?: open_chunk(own, in.id, n->dead_chunk);
	result[FABRIC_NO_CHANNEL] = open_fabric(own, n->fabric, n->chunk);
	/* From here on the client holds a channel.  */
	result[CHANNEL_ATTACH] = gp_channel_attach(own, channels[0].fd, NULL);
	result[FABRIC] = open_fabric(own, n->fabric, n->chunk);
	result[FABRIC_SAME_USER] = gp_pool_import_fabric(own, n->user_fabric, &in);
	result[FABRIC_PID_NS] = gp_pool_import_fabric(own, n->pid_ns_fabric, &in);
	result[FABRIC_GONE] = open_fabric(own, n->dead_fabric, n->chunk);
	result[FABRIC_OTHER_CHANNEL] = open_with_other_channel(n->fabric, n->chunk);
	return !result[POOL_CHUNK] + !result[FABRIC];
}

/* Tries every way.  Returns how often it wrote to the maker's memory.  */
static unsigned int take(const struct made *m, int *result)
{
	const struct names *n = &m->n;
	int own = gp_open(0), ret;
	unsigned int written = 0;
	__u32 device;

	for (int way = 0; way < WAYS; way++)
		result[way] = NO_CLIENT;
	result[OPEN_NODE] = own < 0 ? own : 0;
	if (own >= 0) {
		result[TOKEN] = open_token(own, n->token);
		result[TOKEN_ANY_USER] = open_token(own, n->any);
		result[TOKEN_PID_NS] = open_token(own, n->pid_ns);
		result[TOKEN_REVOKED] = open_token(own, n->revoked);
		result[DMABUF_IMPORT] = import(own, m->fd[DMABUF], 0);
		result[RDONLY_IMPORT] = import(own, m->fd[RDONLY], 0);
		result[HANDLE_IMPORT] = import(own, m->fd[HANDLE], GPUMEM_BO_IMPORT_HANDLE);
		result[HANDLE_AS_DMABUF] = import(own, m->fd[HANDLE], 0);
		result[SEMAPHORE_IMPORT] = import_semaphore(own, m->fd[SEMAPHORE]);
		result[SEMAPHORE_GONE] = import_semaphore(own, m->fd[DEAD_SEMAPHORE]);
		ret = gp_attach(own, m->fd[CLIENT], &device);
		/* The maker's device is attached to the client already: its number is 0.  */
		result[CLIENT_ATTACH] = ret ? ret : device ? -EDOM : 0;
		result[EVENT] = open_event(own, n->event);
		result[EVENT_ANY_USER] = open_event(own, n->any_event);
		result[EVENT_PID_NS] = open_event(own, n->pid_ns_event);
		result[EVENT_GONE] = open_event(own, n->dead_event);
		written = !result[TOKEN] + !result[TOKEN_ANY_USER] + !result[TOKEN_PID_NS] +
			  !result[DMABUF_IMPORT] + !result[HANDLE_IMPORT] +
			  !result[SEMAPHORE_IMPORT] + take_pool(own, m, result);
		close(own);
	}
	result[DMABUF_MAP] = look(m->fd[DMABUF], 0, RW);
	written += !result[DMABUF_MAP];
	result[RDONLY_MAP_READ] = look(m->fd[RDONLY], 0, PROT_READ);
	result[RDONLY_MAP_WRITE] = look(m->fd[RDONLY], 0, RW);
	result[RDONLY_MPROTECT] = upgrade(m->fd[RDONLY]);
	result[RDONLY_REOPEN] = reopen(m->fd[RDONLY]);
	result[HANDLE_MAP] = look(m->fd[HANDLE], 0, RW);
	result[HANDLE_REOPEN] = reopen(m->fd[HANDLE]);
	result[SEMAPHORE_REOPEN] = reopen(m->fd[SEMAPHORE]);
	result[CLIENT_IOCTL] = client_ioctl(m->fd[CLIENT], n->bo);
	result[CLIENT_MAP] = look(m->fd[CLIENT], GPUMEM_MMAP_OFFSET(n->bo), RW);
	result[CLIENT_REOPEN] = client_reopen(m->fd[CLIENT], n->bo);
	result[POOL_REOPEN] = reopen(m->fd[POOL]);
	result[CHANNEL_OPEN] = open_channel();
	return written;
}

/* --- the stranger */

struct stranger {
	unsigned int differ;
	int sock;
};

#define CANNOT	77	/* exit status: the kernel does not permit such a process */

struct report {
	int result[WAYS];
	unsigned int written;
};

/*
 * The stranger: tries the ways to the tester's objects and reports the results; then makes objects
 * itself and waits until the tester has tried them.
 */
static int stranger_life(void *arg)
{
	struct stranger *who = arg;
	struct report report;
	struct made theirs = { 0 }, mine = { 0 };
	int ret;

	if (receive(who->sock, &theirs))
		return 2;
	report.written = take(&theirs, report.result);
	close_all(&theirs);
	if (write(who->sock, &report, sizeof(report)) != sizeof(report))
		return 3;
	ret = make(&mine);
	if (give(who->sock, &mine, ret) || !hear(who->sock))
		return 4;
	if (ret)
		return 0;
	ret = written_to(&mine);
	unmake(&mine);
	/* The tester compares how often the memory was written.  */
	return 10 + ret;
}

static int stranger_main(void *arg)
{
	static const struct {
		unsigned int differ;
		int flag;
	} spaces[] = {
		{ OTHER_PID_NS, CLONE_NEWPID }, { OTHER_MOUNT_NS, CLONE_NEWNS },
		{ OTHER_NET_NS, CLONE_NEWNET }, { OTHER_IPC_NS, CLONE_NEWIPC },
	};
	struct stranger *who = arg;
	int flags = 0;

	for (unsigned int i = 0; i < ARRAY_SIZE(spaces); i++)
		flags |= who->differ & spaces[i].differ ? spaces[i].flag : 0;
	/* These namespaces need privilege; a user namespace needs none and comes last.  */
	if (flags && unshare(flags))
		return CANNOT;
	if (who->differ & OTHER_USER &&
	    (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
	     setresuid(NOBODY, NOBODY, NOBODY)))
		return CANNOT;
	/* After a change of user /proc/self belongs to root unless the process is dumpable.  */
	prctl(PR_SET_DUMPABLE, 1);
	if (who->differ & OTHER_USER_NS && unshare(CLONE_NEWUSER))
		return CANNOT;
	/* unshare(CLONE_NEWPID) moves only children into the new pid namespace.  */
	return who->differ & OTHER_PID_NS ? run_child(stranger_life, who) : stranger_life(who);
}

/* --- the matrix */

FIXTURE(matrix)
{
	mode_t mode;
	bool used[ARRAY_SIZE(rules)];
	unsigned int checked;
};

FIXTURE_SETUP(matrix)
{
	if (geteuid())
		SKIP(return, "needs root");
	ASSERT_TRUE(dev_quiet(10));
	ASSERT_TRUE(node_mode(&self->mode));
	for (unsigned int i = 0; i < ARRAY_SIZE(channels); i++) {
		struct channel *c = &channels[i];

		ASSERT_EQ(0, gp_channel_make(c->path, sizeof(c->path), i, 0600));
		c->fd = open_path(c->path);
		ASSERT_LE(0, c->fd);
	}
}

FIXTURE_TEARDOWN(matrix)
{
	EXPECT_EQ(0, chmod("/dev/gpumem0", self->mode));
	for (unsigned int i = 0; i < ARRAY_SIZE(channels); i++) {
		close(channels[i].fd);
		unlink(channels[i].path);
	}
	EXPECT_TRUE(dev_quiet(10));
}

static void compare(struct __test_metadata *_metadata, FIXTURE_DATA(matrix) *self,
		    unsigned int differ, const char *who, const int *result)
{
	for (int way = 0; way < WAYS; way++) {
		const struct rule *rule = rule_for(way, differ);

		ASSERT_NE(NULL, rule);
		EXPECT_EQ(rule->want, result[way])
			TH_LOG("%s: %s; differ:%s", who, way_names[way], in_words(differ));
		self->used[rule - rules] = true;
		self->checked++;
	}
}

/* Returns false if there can be no such process. */
static bool one_combination(struct __test_metadata *_metadata, FIXTURE_DATA(matrix) *self,
			    unsigned int differ)
{
	struct made mine = { 0 }, theirs = { 0 };
	struct stranger who = { .differ = differ };
	unsigned int written = 0, back;
	struct report report;
	int pair[2], ret;
	pid_t pid;

	EXPECT_EQ(0, chmod("/dev/gpumem0", differ & NODE_IS_CLOSED ? 0600 : 0666));
	EXPECT_EQ(0, make(&mine));
	EXPECT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	who.sock = pair[1];
	pid = start_child(stranger_main, &who);
	close(pair[1]);
	EXPECT_EQ(0, give(pair[0], &mine, 0));
	ret = read(pair[0], &report, sizeof(report));
	if (ret != sizeof(report)) {
		unmake(&mine);
		close(pair[0]);
		ret = end_child(pid);
		EXPECT_EQ(CANNOT, ret)
			TH_LOG("differ:%s", in_words(differ));
		return ret != CANNOT;
	}
	compare(_metadata, self, differ, "taken from us", report.result);
	EXPECT_EQ((int)report.written, written_to(&mine));
	unmake(&mine);
	/* The other direction.  A process that may not open the node has made nothing. */
	ret = receive(pair[0], &theirs);
	EXPECT_EQ(rule_for(OPEN_NODE, differ)->want, ret);
	if (!ret) {
		written = take(&theirs, report.result);
		compare(_metadata, self, (differ & ~NODE_IS_CLOSED) | PRIVILEGED, "taken by us",
			report.result);
		close_all(&theirs);
	}
	EXPECT_TRUE(tell(pair[0]));
	back = end_child(pid);
	EXPECT_EQ(ret ? 0 : 10 + written, back);
	close(pair[0]);
	return true;
}

TEST_F_TIMEOUT(matrix, every_combination, 280)
{
	unsigned int made = 0;

	for (unsigned int differ = 0; differ < COMBINATIONS; differ++)
		made += one_combination(_metadata, self, differ);
	if (made < COMBINATIONS)
		SKIP(return, "namespaces are not allowed");
	for (unsigned int i = 0; i < ARRAY_SIZE(rules); i++) {
		EXPECT_TRUE(self->used[i])
			TH_LOG("rule %u, of \"%s\", never decided", i, way_names[rules[i].way]);
	}
	printf("# %u combinations, %u answers\n", made, self->checked);
	fflush(stdout);
	EXPECT_LE(COMBINATIONS * WAYS, self->checked);
}

/*
 * --- a forked child may not use the client; it may use inherited DMA-bufs, and it has no mappings
 */

static int forked(void *arg)
{
	const struct made *m = arg;

	if (client_ioctl(m->fd[CLIENT], m->n.bo) != -EPERM ||
	    look(m->fd[CLIENT], GPUMEM_MMAP_OFFSET(m->n.bo), RW) != -EPERM)
		return 1;
	if (look(m->fd[DMABUF], 0, RW))
		return 2;
	return 0;
}

/* A child that shares the owner's address space, as after vfork(), may use the client.  */
static int forked_with_vm(void *arg)
{
	const struct made *m = arg;
	struct gpumem_bo_info info;

	return gp_bo_info(m->fd[CLIENT], m->n.bo, &info) ? 1 : 0;
}

TEST_F(matrix, children)
{
	static char stack[64 * KIB] __attribute__((aligned(64)));
	struct made m = { 0 };
	pid_t pid;

	ASSERT_EQ(0, make(&m));
	EXPECT_EQ(0, run_child(forked, &m));
	EXPECT_TRUE(faults_in_child((volatile char *)&m.p[BYTES / 2], true, SIGSEGV));
	EXPECT_EQ(0x12, m.p[BYTES / 2]);
	pid = clone(forked_with_vm, stack + sizeof(stack), CLONE_VM | SIGCHLD, &m);
	ASSERT_LT(0, pid);
	EXPECT_EQ(0, end_child(pid));
	unmake(&m);
}

TEST_HARNESS_MAIN
