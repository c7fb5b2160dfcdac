// SPDX-License-Identifier: GPL-2.0
/*
 * Sharing memory: as a DMA-buf, and with another client as a descriptor or by a token.
 *
 * Peers: udmabuf makes a DMA-buf of a memfd; vgem, where it is loaded, imports both; a memfd goes
 * to another process over a socket.  Only rows with "map" in their names include mapping.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/gpumem.h>
#include <linux/udmabuf.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define ROUNDS	9
#define CALLS	16

struct share {
	int fd, other;		/* two clients of the device, or one device of a peer */
	int memory;		/* a memfd, or a DMA-buf */
	int sock;
	uint32_t bo;
	size_t bytes;
	unsigned int calls;
};

/* --- ours */

/* One phase each: export, import by another client, the end of the import, close. */
static void dmabuf(void *arg, double *ns)
{
	struct share *s = arg;
	struct gpumem_bo_export out = { .size = sizeof(out), .id = s->bo, .length = s->bytes,
					.flags = GPUMEM_BO_EXPORT_CLOEXEC };
	struct gpumem_bo_import in = { .size = sizeof(in) };
	double t = bench_now();

	bench_ioctl(s->fd, GPUMEM_BO_EXPORT, &out, "GPUMEM_BO_EXPORT");
	ns[0] += bench_lap(&t);
	in.fd = out.fd;
	t = bench_now();
	bench_ioctl(s->other, GPUMEM_BO_IMPORT, &in, "GPUMEM_BO_IMPORT");
	ns[1] += bench_lap(&t);
	bench_destroy(s->other, in.id);
	ns[2] += bench_lap(&t);
	/*
	 * One more that stays, in each round: where the first of a slab's objects comes and goes
	 * again and again, so does the slab.
	 */
	if (s->calls++ % CALLS == 0)
		bench_ioctl(s->other, GPUMEM_BO_IMPORT, &in, "GPUMEM_BO_IMPORT");
	t = bench_now();
	close(out.fd);
	ns[3] += bench_lap(&t);
}

static void token(void *arg, double *ns)
{
	struct share *s = arg;
	struct gpumem_token_create create = { .size = sizeof(create), .bo = s->bo,
					      .length = s->bytes };
	struct gpumem_token_open open = { .size = sizeof(open) };
	double t = bench_now();

	bench_ioctl(s->fd, GPUMEM_TOKEN_CREATE, &create, "GPUMEM_TOKEN_CREATE");
	ns[0] += bench_lap(&t);
	memcpy(open.token, create.token, sizeof(open.token));
	t = bench_now();
	bench_ioctl(s->other, GPUMEM_TOKEN_OPEN, &open, "GPUMEM_TOKEN_OPEN");
	ns[1] += bench_lap(&t);
	bench_destroy(s->other, open.id);
	ns[2] += bench_lap(&t);
	bench_destroy(s->fd, create.id);
	ns[3] += bench_lap(&t);
}

/* --- peers */

static void udmabuf(void *arg, double *ns)
{
	struct share *s = arg;
	struct udmabuf_create create = { .memfd = s->memory, .flags = UDMABUF_FLAGS_CLOEXEC,
					 .size = s->bytes };
	double t = bench_now();
	int fd = ioctl(s->fd, UDMABUF_CREATE, &create);

	if (fd < 0)
		bench_die("UDMABUF_CREATE");
	ns[0] += bench_lap(&t);
	close(fd);
	ns[1] += bench_lap(&t);
}

/* The calls of the DRM interface that are used: its headers are not everywhere. */
struct prime_handle {
	uint32_t handle, flags;
	int32_t fd;
};

struct gem_close {
	uint32_t handle, pad;
};

#define GEM_CLOSE		_IOW('d', 0x09, struct gem_close)
#define PRIME_FD_TO_HANDLE	_IOWR('d', 0x2e, struct prime_handle)

static void vgem(void *arg, double *ns)
{
	struct share *s = arg;
	struct prime_handle prime = { .fd = s->memory };
	struct gem_close gem = { 0 };
	double t = bench_now();

	bench_ioctl(s->fd, PRIME_FD_TO_HANDLE, &prime, "DRM_IOCTL_PRIME_FD_TO_HANDLE");
	ns[0] += bench_lap(&t);
	gem.handle = prime.handle;
	t = bench_now();
	bench_ioctl(s->fd, GEM_CLOSE, &gem, "DRM_IOCTL_GEM_CLOSE");
	ns[1] += bench_lap(&t);
}

/* Pass a descriptor to another process, which maps it, unmaps it, closes it and answers. */
static void pass(void *arg)
{
	struct share *s = arg;

	if (!bench_give(s->sock, s->memory) || bench_take(s->sock) != -1)
		bench_die("passing a descriptor");
}

static void other_process(int sock, size_t bytes)
{
	int fd;

	while ((fd = bench_take(sock)) != -2) {
		void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		if (p == MAP_FAILED)
			_exit(1);
		munmap(p, bytes);
		close(fd);
		if (!bench_give(sock, -1))
			_exit(1);
	}
	_exit(0);
}

static int memfd(size_t bytes)
{
	int fd = memfd_create("bench", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || fallocate(fd, 0, 0, bytes) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))
		bench_die("memfd");
	return fd;
}

static void pass_memfd(size_t bytes)
{
	struct share s = { .memory = memfd(bytes) };
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		bench_die("socketpair");
	pid = fork();
	if (pid < 0)
		bench_die("fork");
	if (!pid) {
		close(pair[0]);
		other_process(pair[1], bytes);
	}
	close(pair[1]);
	s.sock = pair[0];
	bench_peer(bench_name("memfd_pass_map_close_%s", bench_size(bytes)),
		   bench_calls(ROUNDS, CALLS, pass, &s));
	close(s.sock);
	close(s.memory);
	waitpid(pid, NULL, 0);
}

/* Finds vgem among the DRM devices. */
static int open_vgem(void)
{
	struct {
		int major, minor, patch;
		size_t name_len;
		char *name;
		size_t date_len;
		char *date;
		size_t desc_len;
		char *desc;
	} version;
	char name[16];

	for (int i = 0; i < 4; i++) {
		int fd = open(bench_name("/dev/dri/card%d", i), O_RDWR | O_CLOEXEC);

		if (fd < 0)
			continue;
		memset(name, 0, sizeof(name));
		memset(&version, 0, sizeof(version));
		version.name = name;
		version.name_len = sizeof(name) - 1;
		if (!ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, 'd', 0, sizeof(version)), &version) &&
		    !strcmp(name, "vgem"))
			return fd;
		close(fd);
	}
	return -1;
}

/* vgem takes a DMA-buf of ours, beside one of udmabuf. */
static void by_vgem(int device, int udmabuf_fd, struct share *ours, const char *size)
{
	struct gpumem_bo_export out = { .size = sizeof(out), .id = ours->bo,
					.length = ours->bytes, .flags = GPUMEM_BO_EXPORT_CLOEXEC };
	struct udmabuf_create create = { .flags = UDMABUF_FLAGS_CLOEXEC, .size = ours->bytes };
	const char *import = bench_name("vgem_import_udmabuf_%s", size);
	const char *closing = bench_name("vgem_close_udmabuf_%s", size);
	struct share s = { .fd = device, .bytes = ours->bytes };
	double ns[BENCH_PHASES];

	if (udmabuf_fd >= 0) {
		create.memfd = memfd(ours->bytes);
		s.memory = ioctl(udmabuf_fd, UDMABUF_CREATE, &create);
		if (s.memory < 0)
			bench_die("UDMABUF_CREATE");
		bench_phases(ns, ROUNDS, 1, vgem, &s);
		bench_peer(import, ns[0]);
		bench_peer(closing, ns[1]);
		close(s.memory);
		close(create.memfd);
	}
	bench_ioctl(ours->fd, GPUMEM_BO_EXPORT, &out, "GPUMEM_BO_EXPORT");
	s.memory = out.fd;
	bench_phases(ns, ROUNDS, 1, vgem, &s);
	bench_beside(bench_name("vgem_import_bo_%s", size), BENCH_RATIO, ns[0], import, 0);
	bench_beside(bench_name("vgem_close_bo_%s", size), BENCH_RATIO, ns[1], closing, 0);
	close(out.fd);
}

static void sized(size_t bytes, int udmabuf_fd, int vgem_fd)
{
	struct gpumem_bo_alloc alloc = { .size = sizeof(alloc), .length = bytes };
	struct share s = { .fd = bench_open(), .other = bench_open(), .bytes = bytes };
	const char *size = bench_size(bytes);
	double ns[BENCH_PHASES];

	if (udmabuf_fd >= 0) {
		struct share u = { .fd = udmabuf_fd, .memory = memfd(bytes), .bytes = bytes };

		bench_phases(ns, ROUNDS, bytes < MIB ? CALLS : 1, udmabuf, &u);
		bench_peer(bench_name("udmabuf_create_%s", size), ns[0]);
		bench_peer(bench_name("udmabuf_close_%s", size), ns[1]);
		close(u.memory);
	}
	pass_memfd(bytes);

	bench_ioctl(s.fd, GPUMEM_BO_ALLOC, &alloc, "GPUMEM_BO_ALLOC");
	s.bo = alloc.id;
	bench_phases(ns, ROUNDS, CALLS, dmabuf, &s);
	bench_beside(bench_name("dmabuf_export_%s", size), BENCH_ALLOC, ns[0],
		     bench_name("udmabuf_create_%s", size), 1.0);
	bench_ours(bench_name("dmabuf_import_%s", size), BENCH_ALLOC, ns[1]);
	bench_ours(bench_name("dmabuf_release_%s", size), BENCH_ALLOC, ns[2]);
	bench_beside(bench_name("dmabuf_close_%s", size), BENCH_ALLOC, ns[3],
		     bench_name("udmabuf_close_%s", size), 1.0);
	bench_phases(ns, ROUNDS, CALLS, token, &s);
	bench_ours(bench_name("token_create_%s", size), BENCH_ALLOC, ns[0]);
	bench_ours(bench_name("token_open_%s", size), BENCH_ALLOC, ns[1]);
	bench_ours(bench_name("token_release_%s", size), BENCH_ALLOC, ns[2]);
	bench_ours(bench_name("token_destroy_%s", size), BENCH_ALLOC, ns[3]);
	if (vgem_fd >= 0)
		by_vgem(vgem_fd, udmabuf_fd, &s, size);
	close(s.fd);
	close(s.other);
}

void bench_share(void)
{
	int udmabuf_fd = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), vgem_fd = open_vgem();

	if (udmabuf_fd < 0)
		bench_skip("udmabuf", "no /dev/udmabuf");
	if (vgem_fd < 0)
		bench_skip("vgem", "the module is not loaded");
	sized(64 * KIB, udmabuf_fd, vgem_fd);
	sized(64 * MIB, udmabuf_fd, vgem_fd);
	if (udmabuf_fd >= 0)
		close(udmabuf_fd);
	if (vgem_fd >= 0)
		close(vgem_fd);
}
