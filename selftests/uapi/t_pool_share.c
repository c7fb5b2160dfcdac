// SPDX-License-Identifier: GPL-2.0
/*
 * Pools and other clients: the ways by which clients reach chunks, descriptors, channels, and the
 * objects that are left when a process dies.  t_pool.c has the other tests of pools.
 */
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "kselftest_harness.h"
#include "pool_fixture.h"
#include "open_race.h"

#define BYTES	(256 * KIB)
#define RW	(PROT_READ | PROT_WRITE)
#define NOBODY	65534

POOL_FIXTURE(share)

TEST_F(share, views)
{
	struct gpumem_pool_chunk_open open, again;
	struct gpumem_pool_import in, second;
	struct gpumem_pool_info info;
	struct gpumem_stats stats;
	struct gpumem_bo_info bo;
	__u32 id, n;
	int exported;
	char *p, *q;
	__u64 chunk;

	ASSERT_EQ(0, gp_pool_chunk(self->fd, self->pool, BYTES, &id, &chunk));
	p = gp_map(self->fd, id, 0, BYTES, RW);
	ASSERT_NE(NULL, p);
	strcpy(p + 5000, "from the maker");
	exported = gp_pool_export(self->fd, self->pool, 0);
	ASSERT_LE(0, exported);
	EXPECT_EQ(0, fcntl(exported, F_GETFD));
	/* One descriptor, imported twice by another client and once by its maker.  */
	ASSERT_EQ(0, gp_pool_import(self->other, exported, &in));
	ASSERT_EQ(0, gp_pool_import(self->other, exported, &second));
	EXPECT_NE(in.id, second.id);
	EXPECT_EQ(0, in.result);
	EXPECT_EQ(GPUMEM_POOL_IMPORTED, in.pool_flags);
	EXPECT_EQ(0, in.device);
	ASSERT_EQ(0, gp_pool_info(self->other, in.id, 0, &info));
	EXPECT_EQ(2, info.imports);
	EXPECT_EQ(GPUMEM_POOL_IMPORTED, info.pool_flags);
	EXPECT_EQ(BYTES, info.reserved_bytes);
	EXPECT_STREQ("fixture", (char *)info.name);
	EXPECT_EQ(0, gp_destroy(self->other, second.id));
	ASSERT_EQ(0, gp_pool_import(self->fd, exported, &second));
	EXPECT_EQ(GPUMEM_POOL_IMPORT_OWN, second.result);
	EXPECT_EQ(0, gp_destroy(self->fd, second.id));
	close(exported);
	/* The import does not need the descriptor. */
	ASSERT_EQ(0, gp_chunk_open(self->other, in.id, chunk, &open));
	EXPECT_EQ(BYTES, open.length);
	EXPECT_EQ(0, open.device);
	ASSERT_EQ(0, gp_bo_info(self->other, open.id, &bo));
	EXPECT_EQ(GPUMEM_BO_VIEW, bo.kind);
	q = gp_map(self->other, open.id, 0, BYTES, RW);
	ASSERT_NE(NULL, q);
	EXPECT_STREQ("from the maker", q + 5000);
	strcpy(q + 5000, "from the importer");
	EXPECT_STREQ("from the importer", p + 5000);
	/* The view cannot reach beyond the chunk.  */
	EXPECT_EQ(-EINVAL, gp_map_errno(self->other, open.id, BYTES, page_size, RW, MAP_SHARED));
	/* The maker's query counts each view.  */
	ASSERT_EQ(0, gp_chunk_open(self->other, in.id, chunk, &again));
	ASSERT_EQ(0, gp_bo_retire(self->fd, id, 0, 1, GPUMEM_BO_RETIRE_QUERY, &n));
	EXPECT_EQ(2, n);
	EXPECT_EQ(0, gp_destroy(self->other, again.id));
	ASSERT_EQ(0, gp_stats(self->other, &stats));
	EXPECT_EQ(1, stats.pool_imports);
	EXPECT_EQ(0, stats.pools);
	EXPECT_EQ(0, stats.pool_reserved);
	/* The maker can open its own chunks.  */
	ASSERT_EQ(0, gp_chunk_open(self->fd, self->pool, chunk, &again));
	EXPECT_EQ(0, gp_destroy(self->fd, again.id));
	EXPECT_EQ(0, gp_destroy(self->other, in.id));
	/* A view does not need the import. */
	EXPECT_EQ('f', q[5000]);
	ASSERT_EQ(0, gp_bo_retire(self->fd, id, 0, 1, GPUMEM_BO_RETIRE_QUERY, &n));
	EXPECT_EQ(1, n);
}

TEST_F(share, importer_may_not)
{
	struct gpumem_pool_info info;
	__u8 token[GPUMEM_TOKEN_SIZE];
	__u32 import, id;

	ASSERT_EQ(0, gp_pool_share(self->fd, self->pool, self->other, &import));
	EXPECT_EQ(-EACCES, gp_pool_chunk(self->other, import, BYTES, &id, NULL));
	EXPECT_EQ(-EACCES, gp_pool_set(self->other, import, 0, 0));
	EXPECT_EQ(-EACCES, gp_pool_export(self->other, import, 0));
	EXPECT_EQ(-EACCES, gp_pool_export_fabric(self->other, import, token));
	EXPECT_EQ(-EACCES, gp_pool_info(self->other, import, GPUMEM_POOL_INFO_RESET_USED, &info));
	EXPECT_EQ(-EACCES, gp_pool_info(self->other, import, GPUMEM_POOL_INFO_RESET_RESERVED,
					&info));
	EXPECT_EQ(0, gp_pool_info(self->other, import, 0, &info));
	EXPECT_EQ(0, gp_pool_reserved(self->fd, self->pool));
	EXPECT_EQ(-EINVAL, gp_map_errno(self->other, import, 0, page_size, RW, MAP_SHARED));
}

TEST_F(share, import_errors)
{
	struct gpumem_pool_import in;
	int exported, fds[2], one;
	__u32 bo, device;

	exported = gp_pool_export(self->fd, self->pool, GPUMEM_POOL_EXPORT_CLOEXEC);
	ASSERT_LE(0, exported);
	EXPECT_EQ(FD_CLOEXEC, fcntl(exported, F_GETFD));
	EXPECT_EQ(-EBADF, gp_pool_import(self->other, -1, &in));
	EXPECT_EQ(-EBADF, gp_pool_import(self->other, 1000000, &in));
	EXPECT_EQ(-EINVAL, gp_pool_import(self->other, self->fd, &in));
	ASSERT_EQ(0, pipe(fds));
	EXPECT_EQ(-EINVAL, gp_pool_import(self->other, fds[0], &in));
	close(fds[0]);
	close(fds[1]);
	ASSERT_EQ(0, gp_bo_alloc(self->fd, BYTES, &bo));
	fds[0] = gp_bo_export(self->fd, bo, 0, BYTES, 0);
	EXPECT_EQ(-EINVAL, gp_pool_import(self->other, fds[0], &in));
	close(fds[0]);
	/* Members that the other kind of import uses must be zero.  */
	in = (struct gpumem_pool_import) { .size = sizeof(in), .fd = exported, .token = { 1 } };
	EXPECT_EQ(-EINVAL, gp_ioctl(self->other, GPUMEM_POOL_IMPORT, &in));
	in = (struct gpumem_pool_import) {
		.size = sizeof(in), .fd = exported, .flags = GPUMEM_POOL_IMPORT_FABRIC,
	};
	EXPECT_EQ(-EINVAL, gp_ioctl(self->other, GPUMEM_POOL_IMPORT, &in));
	EXPECT_EQ(-EINVAL, gp_pool_export(self->fd, self->pool, GPUMEM_POOL_EXPORT_CLOEXEC |
					  GPUMEM_POOL_EXPORT_FABRIC));
	/* The descriptor cannot be read, written or mapped.  */
	EXPECT_GT(0, read(exported, &in, 1));
	EXPECT_GT(0, write(exported, &in, 1));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, page_size, RW, MAP_SHARED, exported, 0));
	EXPECT_EQ(-ENOTTY, gp_ioctl(exported, GPUMEM_POOL_IMPORT, &in));
	one = gp_open(1);
	if (one >= 0) {
		EXPECT_EQ(-EACCES, gp_pool_import(one, exported, &in));
		ASSERT_EQ(0, gp_attach(one, self->fd, &device));
		EXPECT_EQ(0, gp_pool_import(one, exported, &in));
		EXPECT_EQ(1, in.device);
		close(one);
	}
	close(exported);
}

/* An importer reaches the chunks of its pool, by their numbers, and nothing else. */
TEST_F(share, isolation)
{
	__u32 import, mine, theirs, plain, id;
	struct gpumem_pool_chunk_open open;
	__u64 chunk, number;
	struct rng r;

	ASSERT_EQ(0, gp_pool_create(self->fd, 0, 0, 0, "private", &theirs));
	ASSERT_EQ(0, gp_bo_alloc(self->fd, BYTES, &plain));
	for (int i = 0; i < 50; i++) {
		ASSERT_EQ(0, gp_pool_chunk(self->fd, theirs, page_size, &id, &number));
	}
	ASSERT_EQ(0, gp_pool_chunk(self->fd, self->pool, 2 * page_size, &mine, &chunk));
	ASSERT_LT(chunk, number);
	ASSERT_EQ(0, gp_pool_share(self->fd, self->pool, self->other, &import));
	for (__u64 n = 0; n < 300; n++)
		EXPECT_EQ(n == chunk ? 0 : -ENOENT, gp_chunk_open(self->other, import, n, &open));
	rng_start(&r, "isolation");
	for (int i = 0; i < 1000; i++) {
		__u64 n = rng_next(&r) >> rng_below(&r, 64);

		if (n != chunk)
			EXPECT_EQ(-ENOENT, gp_chunk_open(self->other, import, n, &open));
	}
	for (int bit = 0; bit < 64; bit++)
		EXPECT_EQ(-ENOENT, gp_chunk_open(self->other, import, chunk ^ 1ULL << bit, &open));
	/* Ids of the maker and ids of other types are invalid here.  */
	EXPECT_EQ(-ENOENT, gp_chunk_open(self->other, theirs + 100, number, &open));
	EXPECT_EQ(-ENOENT, gp_chunk_open(self->other, 0, chunk, &open));
	ASSERT_EQ(0, gp_vm_create(self->other, &id));
	EXPECT_EQ(-ENOENT, gp_chunk_open(self->other, id, chunk, &open));
	EXPECT_EQ(0, gp_destroy(self->other, import));
	EXPECT_EQ(-ENOENT, gp_chunk_open(self->other, import, chunk, &open));
}

/* --- ends */

TEST_F(share, chunk_ends)
{
	struct gpumem_pool_chunk_open open, none;
	struct gpumem_pool_info info;
	__u64 chunk, next;
	__u32 import, id;
	char *q;

	ASSERT_EQ(0, gp_pool_share(self->fd, self->pool, self->other, &import));
	ASSERT_EQ(0, gp_pool_chunk(self->fd, self->pool, BYTES, &id, &chunk));
	ASSERT_EQ(0, gp_chunk_open(self->other, import, chunk, &open));
	q = gp_map(self->other, open.id, 0, BYTES, RW);
	ASSERT_NE(NULL, q);
	EXPECT_EQ(0, gp_destroy(self->fd, id));
	/* The chunk cannot be opened now, but an existing view stays, and is counted. */
	EXPECT_EQ(-ENOENT, gp_chunk_open(self->other, import, chunk, &none));
	EXPECT_EQ(-ENOENT, gp_chunk_open(self->fd, self->pool, chunk, &none));
	memset(q, 1, BYTES);
	ASSERT_EQ(0, gp_pool_info(self->fd, self->pool, 0, &info));
	EXPECT_EQ(BYTES, info.reserved_bytes);
	EXPECT_EQ(1, info.chunks);
	/* A new chunk has a new number.  */
	ASSERT_EQ(0, gp_pool_chunk(self->fd, self->pool, BYTES, &id, &next));
	EXPECT_NE(chunk, next);
	EXPECT_EQ(-ENOENT, gp_chunk_open(self->other, import, chunk, &none));
	EXPECT_EQ(2 * BYTES, gp_pool_reserved(self->fd, self->pool));
	munmap(q, BYTES);
	EXPECT_EQ(0, gp_destroy(self->other, open.id));
	EXPECT_TRUE(gp_reserved_becomes(self->fd, self->pool, BYTES));
}

/* The pool's id goes first: chunks, imports and descriptors live on. */
TEST_F(share, pool_ends)
{
	struct gpumem_pool_chunk_open open;
	struct gpumem_pool_import in;
	struct gpumem_stats stats;
	__u32 import, id, late;
	int exported;
	__u64 chunk;

	ASSERT_EQ(0, gp_pool_chunk(self->fd, self->pool, BYTES, &id, &chunk));
	ASSERT_EQ(0, gp_pool_share(self->fd, self->pool, self->other, &import));
	exported = gp_pool_export(self->fd, self->pool, GPUMEM_POOL_EXPORT_CLOEXEC);
	ASSERT_LE(0, exported);
	EXPECT_EQ(0, gp_destroy(self->fd, self->pool));
	EXPECT_EQ(-ENOENT, gp_pool_chunk(self->fd, self->pool, BYTES, &late, NULL));
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(1, stats.pools);
	EXPECT_EQ(BYTES, stats.pool_reserved);
	EXPECT_EQ(1, stats.objects);
	EXPECT_EQ(0, gp_chunk_open(self->other, import, chunk, &open));
	EXPECT_EQ(0, gp_destroy(self->other, open.id));
	EXPECT_EQ(0, gp_destroy(self->other, import));
	ASSERT_EQ(0, gp_pool_import(self->other, exported, &in));
	EXPECT_EQ(0, gp_chunk_open(self->other, in.id, chunk, &open));
	EXPECT_EQ(0, gp_destroy(self->fd, id));
	EXPECT_EQ(BYTES, gp_pool_reserved(self->other, in.id));
	EXPECT_EQ(0, gp_destroy(self->other, open.id));
	EXPECT_TRUE(gp_reserved_becomes(self->other, in.id, 0));
	EXPECT_EQ(-ENOENT, gp_chunk_open(self->other, in.id, chunk, &open));
	EXPECT_EQ(1, dev_attr(0, "pools"));
	close(exported);
	EXPECT_EQ(1, dev_attr(0, "pools"));
	EXPECT_EQ(0, gp_destroy(self->other, in.id));
	EXPECT_EQ(0, dev_attr(0, "pools"));
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(0, stats.pools);
}

struct race {
	int fd;
	__u32 pool, import;
	_Atomic __u64 chunk;
	_Atomic int stop;
	struct open_race o;
};

static void *race_chunks(void *arg)
{
	struct race *r = arg;
	__u32 old = 0, id, n;

	while (!r->stop) {
		__u64 chunk;

		if (gp_pool_chunk(r->fd, r->pool, page_size, &id, &chunk))
			r->o.wrong++;
		r->chunk = chunk;
		if (old && (gp_bo_retire(r->fd, old, 0, page_size, 0, &n) ||
			    gp_destroy(r->fd, old)))
			r->o.wrong++;
		old = id;
	}
	gp_destroy(r->fd, old);
	return NULL;
}

static void *race_opens(void *arg)
{
	struct race *r = arg;

	for (unsigned int i = 0; !r->stop; i++) {
		struct gpumem_pool_chunk_open o;
		__u64 chunk = r->chunk;
		int ret = gp_chunk_open(r->o.other, r->import, chunk ? chunk - i % 2 : 1, &o);

		race_opened(&r->o, ret, o.length, o.id);
	}
	return NULL;
}

TEST_F_TIMEOUT(share, race, 60)
{
	void *(*const mains[])(void *) = { race_chunks, race_opens, race_opens };
	pthread_t t[ARRAY_SIZE(mains)];
	static struct race r;

	r.fd = self->fd;
	r.o.other = self->other;
	r.pool = self->pool;
	ASSERT_EQ(0, gp_pool_share(self->fd, self->pool, self->other, &r.import));
	for (unsigned int i = 0; i < ARRAY_SIZE(mains); i++)
		ASSERT_EQ(0, pthread_create(&t[i], NULL, mains[i], &r));
	nap_ms(2000);
	r.stop = 1;
	for (unsigned int i = 0; i < ARRAY_SIZE(mains); i++)
		pthread_join(t[i], NULL);
	printf("# %u chunks opened\n", atomic_load(&r.o.opened));
	EXPECT_EQ(0, atomic_load(&r.o.wrong));
	EXPECT_LT(0, atomic_load(&r.o.opened));
	EXPECT_TRUE(gp_reserved_becomes(self->fd, self->pool, 0));
}

/* --- other processes */

struct maker {
	int sock[2];
	__u64 chunk;
};

/* Makes a pool with one chunk, passes its descriptor and the chunk's number, and waits. */
static int maker_main(void *arg)
{
	struct maker *m = arg;
	int fd = gp_open(0), exported;
	__u32 pool, id;
	__u64 chunk;
	char *p;

	if (fd < 0 || gp_pool_create(fd, 0, 0, 0, "maker", &pool) ||
	    gp_pool_chunk(fd, pool, BYTES, &id, &chunk))
		return 1;
	p = gp_map(fd, id, 0, BYTES, RW);
	if (!p)
		return 2;
	strcpy(p, "from the maker");
	exported = gp_pool_export(fd, pool, GPUMEM_POOL_EXPORT_CLOEXEC);
	if (exported < 0 || send_fd(m->sock[1], exported) || send_fd(m->sock[1], exported) ||
	    write(m->sock[1], &chunk, sizeof(chunk)) != sizeof(chunk))
		return 3;
	return hear(m->sock[1]) ? 0 : 4;
}

TEST_F(share, exporter_is_killed)
{
	struct gpumem_pool_chunk_open open, none;
	struct gpumem_pool_import in, twice;
	struct maker m;
	int fds[2];
	pid_t pid;
	char *q;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, m.sock));
	pid = start_child(maker_main, &m);
	/* The maker sends the same descriptor twice.  */
	fds[0] = recv_fd(m.sock[0]);
	fds[1] = recv_fd(m.sock[0]);
	ASSERT_LE(0, fds[1]);
	ASSERT_EQ((ssize_t)sizeof(m.chunk), read(m.sock[0], &m.chunk, sizeof(m.chunk)));
	ASSERT_EQ(0, gp_pool_import(self->fd, fds[0], &in));
	ASSERT_EQ(0, gp_pool_import(self->fd, fds[1], &twice));
	EXPECT_EQ(0, in.result);
	ASSERT_EQ(0, gp_chunk_open(self->fd, in.id, m.chunk, &open));
	q = gp_map(self->fd, open.id, 0, BYTES, RW);
	ASSERT_NE(NULL, q);
	EXPECT_STREQ("from the maker", q);
	EXPECT_EQ(-SIGKILL, kill_child(pid));
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 2, 10));
	/* Its chunks cannot be opened; existing views stay, charged to its pool. */
	EXPECT_EQ(-ENOENT, gp_chunk_open(self->fd, in.id, m.chunk, &none));
	EXPECT_EQ(-ENOENT, gp_chunk_open(self->fd, twice.id, m.chunk, &none));
	EXPECT_STREQ("from the maker", q);
	EXPECT_EQ(BYTES, gp_pool_reserved(self->fd, in.id));
	EXPECT_EQ((long long)BYTES, dev_attr(0, "used"));
	munmap(q, BYTES);
	EXPECT_EQ(0, gp_destroy(self->fd, open.id));
	EXPECT_TRUE(gp_reserved_becomes(self->fd, in.id, 0));
	EXPECT_EQ(0, gp_destroy(self->fd, in.id));
	close(fds[0]);
	EXPECT_EQ(0, gp_destroy(self->fd, twice.id));
	/* The descriptor alone keeps the pool: the second pool is the fixture's.  */
	EXPECT_EQ(2, dev_attr(0, "pools"));
	close(fds[1]);
	EXPECT_TRUE(dev_attr_becomes(0, "pools", 1, 10));
	close(m.sock[0]);
	close(m.sock[1]);
}

static int importer_main(void *arg)
{
	struct gpumem_pool_chunk_open open;
	struct gpumem_pool_import in;
	struct maker *m = arg;
	int fd = gp_open(0), exported = recv_fd(m->sock[1]);
	char *q;

	if (fd < 0 || gp_pool_import(fd, exported, &in) ||
	    gp_chunk_open(fd, in.id, m->chunk, &open))
		return 1;
	q = gp_map(fd, open.id, 0, BYTES, RW);
	if (!q)
		return 2;
	q[0] = 'I';
	tell(m->sock[1]);
	hear(m->sock[1]);
	return 0;
}

TEST_F(share, importer_is_killed)
{
	struct gpumem_pool_info info;
	struct maker m;
	__u32 id, n;
	int exported;
	pid_t pid;

	ASSERT_EQ(0, gp_pool_chunk(self->fd, self->pool, BYTES, &id, &m.chunk));
	exported = gp_pool_export(self->fd, self->pool, GPUMEM_POOL_EXPORT_CLOEXEC);
	ASSERT_LE(0, exported);
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, m.sock));
	pid = start_child(importer_main, &m);
	ASSERT_EQ(0, send_fd(m.sock[0], exported));
	ASSERT_TRUE(hear(m.sock[0]));
	ASSERT_EQ(0, gp_pool_info(self->fd, self->pool, 0, &info));
	EXPECT_EQ(1, info.imports);
	ASSERT_EQ(0, gp_bo_retire(self->fd, id, 0, BYTES, GPUMEM_BO_RETIRE_QUERY, &n));
	EXPECT_EQ(1, n);
	/*
	 * The chunk's id is destroyed while the importer has a view: only the importer's end frees
	 * the memory.
	 */
	EXPECT_EQ(0, gp_destroy(self->fd, id));
	EXPECT_EQ(BYTES, gp_pool_reserved(self->fd, self->pool));
	EXPECT_EQ(-SIGKILL, kill_child(pid));
	EXPECT_TRUE(gp_reserved_becomes(self->fd, self->pool, 0));
	EXPECT_TRUE(dev_attr_becomes(0, "views", 0, 10));
	ASSERT_EQ(0, gp_pool_info(self->fd, self->pool, 0, &info));
	EXPECT_EQ(0, info.imports);
	close(exported);
	close(m.sock[0]);
	close(m.sock[1]);
}

/* A descriptor of a pool alone keeps the module loaded.  */
TEST_F(share, the_module_stays)
{
	int exported = gp_pool_export(self->fd, self->pool, GPUMEM_POOL_EXPORT_CLOEXEC);
	int file;

	ASSERT_LE(0, exported);
	close(self->fd);
	close(self->other);
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 0, 10));
	EXPECT_EQ(-1, syscall(SYS_delete_module, "gpumem", O_NONBLOCK));
	EXPECT_EQ(EAGAIN, errno);
	close(exported);
	EXPECT_TRUE(dev_quiet(10));
	file = gp_channel_open(0);
	ASSERT_LE(0, file);
	EXPECT_EQ(-1, syscall(SYS_delete_module, "gpumem", O_NONBLOCK));
	EXPECT_EQ(EAGAIN, errno);
	close(file);
	self->fd = gp_open(0);
	self->other = gp_open(0);
	EXPECT_LE(0, self->other);
}

/* --- channels */

TEST_F(share, fabric)
{
	__u8 token[GPUMEM_TOKEN_SIZE], again[GPUMEM_TOKEN_SIZE], guess[GPUMEM_TOKEN_SIZE];
	struct gpumem_pool_chunk_open open;
	struct gpumem_pool_import in;
	int third = gp_open(0);
	__u64 chunk;
	__u32 id;

	ASSERT_LE(0, third);
	ASSERT_EQ(0, gp_pool_chunk(self->fd, self->pool, BYTES, &id, &chunk));
	EXPECT_EQ(-EPERM, gp_pool_export_fabric(self->fd, self->pool, token));
	ASSERT_EQ(0, gp_channel_hold(self->fd, 3));
	ASSERT_EQ(0, gp_pool_export_fabric(self->fd, self->pool, token));
	ASSERT_EQ(0, gp_pool_export_fabric(self->fd, self->pool, again));
	EXPECT_EQ(0, memcmp(token, again, sizeof(token)));
	/* An import without a channel, with another channel, and with the same channel.  */
	EXPECT_EQ(-EPERM, gp_pool_import_fabric(self->other, token, &in));
	ASSERT_EQ(0, gp_channel_hold(third, 4));
	EXPECT_EQ(-EPERM, gp_pool_import_fabric(third, token, &in));
	ASSERT_EQ(0, gp_channel_hold(self->other, 3));
	ASSERT_EQ(0, gp_pool_import_fabric(self->other, token, &in));
	EXPECT_EQ(0, in.result);
	ASSERT_EQ(0, gp_chunk_open(self->other, in.id, chunk, &open));
	EXPECT_EQ(0, gp_destroy(self->other, open.id));
	/* A token with one bit changed, and a token of another kind, are refused.  */
	for (int bit = 0; bit < 128; bit++) {
		memcpy(guess, token, sizeof(guess));
		guess[bit / 8] ^= 1 << (bit % 8);
		EXPECT_EQ(-ENOENT, gp_pool_import_fabric(self->other, guess, &in));
	}
	memset(guess, 0, sizeof(guess));
	EXPECT_EQ(-ENOENT, gp_pool_import_fabric(self->other, guess, &in));
	{
		struct gpumem_token_open o;
		__u32 t;

		EXPECT_EQ(-ENOENT, gp_token_open(self->other, token, &o));
		ASSERT_EQ(0, gp_token_create(self->fd, id, 0, 1, 0, &t, guess));
		EXPECT_EQ(-ENOENT, gp_pool_import_fabric(self->other, guess, &in));
	}
	/* Destroying the pool's id ends the token; imported pools stay.  */
	EXPECT_EQ(0, gp_destroy(self->fd, self->pool));
	EXPECT_EQ(-ENOENT, gp_pool_import_fabric(self->other, token, &in));
	close(third);
}

TEST_F(share, channel_errors)
{
	int file = gp_channel_open(2), fds[2];
	__u32 channel;
	char c;

	ASSERT_LE(0, file);
	EXPECT_EQ(-EBADF, gp_channel_attach(self->fd, -1, NULL));
	EXPECT_EQ(-EINVAL, gp_channel_attach(self->fd, self->other, NULL));
	ASSERT_EQ(0, pipe(fds));
	EXPECT_EQ(-EINVAL, gp_channel_attach(self->fd, fds[0], NULL));
	close(fds[0]);
	close(fds[1]);
	ASSERT_EQ(0, gp_channel_attach(self->fd, file, &channel));
	EXPECT_EQ(2, channel);
	ASSERT_EQ(0, gp_channel_attach(self->fd, file, &channel));
	EXPECT_EQ(-EEXIST, gp_channel_hold(self->fd, 0));
	EXPECT_EQ(0, gp_channel_hold(self->other, 0));
	/* read(), write() and ioctl() of the file have no effect.  */
	EXPECT_GE(0, read(file, &c, 1));
	EXPECT_GE(0, write(file, "x", 1));
	EXPECT_EQ(-ENOTTY, gp_ioctl(file, GPUMEM_POOL_IMPORT, fds));
	close(file);
	/* The last channel, and the number after it.  */
	EXPECT_LE(0, file = gp_channel_open(2047));
	close(file);
	EXPECT_EQ(-ENXIO, gp_channel_open(2048));
}

struct guest {
	char path[64];
	int exported, want_open;
	__u8 token[GPUMEM_TOKEN_SIZE];
	__u64 chunk;
};

/* Another user, who may open the device, and the channel's file if its mode permits.  */
static int guest_main(void *arg)
{
	struct gpumem_pool_chunk_open open_chunk;
	struct gpumem_pool_import in;
	struct guest *g = arg;
	int fd, file, ret;

	if (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
	    setresuid(NOBODY, NOBODY, NOBODY))
		return 1;
	fd = gp_open(0);
	if (fd < 0)
		return 2;
	/* A descriptor carries its own authority. */
	if (gp_pool_import(fd, g->exported, &in) || gp_chunk_open(fd, in.id, g->chunk, &open_chunk))
		return 3;
	file = open(g->path, O_RDONLY | O_CLOEXEC);
	if ((file < 0 ? errno : 0) != g->want_open)
		return 4;
	if (file >= 0 && gp_channel_attach(fd, file, NULL))
		return 5;
	ret = gp_pool_import_fabric(fd, g->token, &in);
	if (ret != (g->want_open ? -EPERM : 0))
		return 6;
	return ret || !gp_chunk_open(fd, in.id, g->chunk, &open_chunk) ? 0 : 7;
}

TEST_F(share, other_user)
{
	struct guest g;
	struct stat st;
	__u32 id;

	ASSERT_EQ(0, stat("/dev/gpumem0", &st));
	ASSERT_EQ(0, gp_channel_hold(self->fd, 5));
	ASSERT_EQ(0, gp_pool_chunk(self->fd, self->pool, BYTES, &id, &g.chunk));
	g.exported = gp_pool_export(self->fd, self->pool, GPUMEM_POOL_EXPORT_CLOEXEC);
	ASSERT_LE(0, g.exported);
	ASSERT_EQ(0, gp_pool_export_fabric(self->fd, self->pool, g.token));
	ASSERT_EQ(0, chmod("/dev/gpumem0", 0666));
	g.want_open = EACCES;
	ASSERT_EQ(0, gp_channel_make(g.path, sizeof(g.path), 5, 0600));
	EXPECT_EQ(0, run_child(guest_main, &g));
	g.want_open = 0;
	ASSERT_EQ(0, chmod(g.path, 0644));
	EXPECT_EQ(0, run_child(guest_main, &g));
	unlink(g.path);
	EXPECT_EQ(0, chmod("/dev/gpumem0", st.st_mode & 07777));
	close(g.exported);
}

TEST_HARNESS_MAIN
