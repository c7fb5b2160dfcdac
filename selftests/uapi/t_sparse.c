// SPDX-License-Identifier: GPL-2.0
/*
 * Sparse mappings: which calls are refused, what holes do, what bound tiles reach and keep alive,
 * what they cost, fences of bound memory, and a model test.
 */
#include <linux/dma-buf.h>
#include <pthread.h>

#include "kselftest_harness.h"
#include "common/limits_util.h"
#include "common/pin_util.h"
#include "common/util.h"
#include "common/vgem.h"
#include "share_util.h"

#define ADDR	0x7f0000000000ULL
#define TILE	((__u64)GPUMEM_TILE_SIZE)
#define TABLE	(256 * TILE)
#define N	32			/* tiles of the buffer object */
#define RW	(PROT_READ | PROT_WRITE)

FIXTURE(sparse)
{
	int fd;
	__u32 vm, bo, buffer;
	unsigned char *p;	/* the bo: N tiles */
	unsigned char *b;	/* the buffer: N tiles at BUFFER */
	struct stream s;
};

#define BUFFER	(ADDR - N * TILE)

FIXTURE_SETUP(sparse)
{
	ASSERT_TRUE(dev_quiet(10));
	self->fd = gp_open(0);
	ASSERT_LE(0, self->fd);
	self->p = gp_alloc_map(self->fd, N * TILE, &self->bo);
	self->b = gp_alloc_map(self->fd, N * TILE, &self->buffer);
	ASSERT_TRUE(self->p && self->b);
	ASSERT_EQ(0, gp_vm_create(self->fd, &self->vm));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->buffer, 0, BUFFER, N * TILE, 1, 1));
	ASSERT_EQ(0, stream_open(&self->s, self->fd, self->vm, 0, 64));
}

FIXTURE_TEARDOWN(sparse)
{
	EXPECT_EQ(0, stream_close(&self->s));
	unmap_all();
	close(self->fd);
	EXPECT_TRUE(dev_quiet(10));
}

static __u64 vm_bytes(int fd)
{
	struct gpumem_stats stats;

	return gp_stats(fd, &stats) ? ~0ULL : stats.vm_bytes - N * TILE;
}

/* A table counts as 64 mappings. */
#define TABLES(n)	(1 + 64 * (n))

static __u64 mappings(int fd)
{
	struct gpumem_stats stats;

	return gp_stats(fd, &stats) ? ~0ULL : stats.mappings - 1;
}

static int execute(struct stream *s, struct gpumem_sqe sqe)
{
	int ret = stream_push(s, &sqe);

	return ret ? ret : stream_sync(s);
}

#define SPARSE(addr, length)	gp_vm_map_sparse(self->fd, self->vm, (addr), (length), 1, 1)
#define BIND(bo, offset, step, addr, length, flags) \
	gp_vm_bind(self->fd, self->vm, (bo), (offset), (step), (addr), (length), (flags))
#define UNMAP(addr, length)	gp_vm_unmap(self->fd, self->vm, (addr), (length), NULL)

TEST_F(sparse, errors)
{
	const __u64 n = N * TILE;
	const struct {
		__u64 offset, step, addr, length;
		__u32 flags;
		int want;
	} cases[] = {
		{ 0, TILE, 0, TILE, 0, -EINVAL },
		{ 0, TILE, ADDR, 0, 0, -EINVAL },
		{ 0, TILE, ADDR, TILE + 1, 0, -EINVAL },
		{ 0, TILE, ADDR, TILE / 2, 0, -EINVAL },
		{ 0, TILE, ADDR + 4096, TILE, 0, -EINVAL },
		{ 4096, TILE, ADDR, TILE, 0, -EINVAL },
		{ 0, 4096, ADDR, TILE, 0, -EINVAL },
		{ 0, TILE, ADDR, -TILE, 0, -EOVERFLOW },
		{ n, TILE, ADDR, TILE, 0, -EOVERFLOW },
		{ TILE, TILE, ADDR, n, 0, -EOVERFLOW },
		{ 0, 2 * TILE, ADDR, n, 0, -EOVERFLOW },
		{ -TILE, TILE, ADDR, 2 * TILE, 0, -EOVERFLOW },
		{ 0, 1ULL << 63, ADDR, 3 * TILE, 0, -EOVERFLOW },
		{ 0, -TILE, ADDR, 2 * TILE, 0, -EOVERFLOW },
		{ 0, TILE, ADDR - TILE, TILE, 0, -EINVAL },
		{ 0, TILE, ADDR - TILE, 2 * TILE, 0, -EINVAL },
		{ 0, TILE, ADDR + 2 * n - TILE, 2 * TILE, 0, -EINVAL },
		{ 0, TILE, ADDR + 2 * n, TILE, 0, -EINVAL },
		{ 0, TILE, BUFFER, TILE, 0, -EINVAL },
		{ 0, TILE, ADDR, TILE, GPUMEM_VM_BIND_RESERVE, -EINVAL },
		{ 0, TILE, ADDR, TILE, 2, -EOPNOTSUPP },
	};
	__u32 pin, id;
	void *mine;

	/* The mapping itself. */
	EXPECT_EQ(-EINVAL, SPARSE(0, TILE));
	EXPECT_EQ(-EINVAL, SPARSE(ADDR, 0));
	EXPECT_EQ(-EINVAL, SPARSE(ADDR + 4096, TILE));
	EXPECT_EQ(-EINVAL, SPARSE(ADDR, TILE + 4096));
	EXPECT_EQ(-EOVERFLOW, SPARSE(-TILE, 2 * TILE));
	EXPECT_EQ(-EEXIST, SPARSE(BUFFER, TILE));
	EXPECT_EQ(-EINVAL, gp_vm_map_sparse(self->fd, self->vm, ADDR, TILE, 0, 1));
	EXPECT_EQ(-EACCES, gp_vm_map_sparse(self->fd, self->vm, ADDR, TILE, 2, 0));
	EXPECT_EQ(-ENOENT, gp_vm_map_sparse(self->fd, self->bo, ADDR, TILE, 1, 1));
	for (int i = 0; i < 2; i++) {
		struct gpumem_vm_map m = {
			.size = sizeof(m), .vm = self->vm, .flags = GPUMEM_VM_MAP_SPARSE,
			.bo = i ? self->bo : 0, .offset = i ? 0 : TILE, .addr = ADDR,
			.length = TILE,
		};

		EXPECT_EQ(-EINVAL, gp_ioctl(self->fd, GPUMEM_VM_MAP, &m));
	}
	EXPECT_EQ(0, mappings(self->fd));
	ASSERT_EQ(0, SPARSE(ADDR, 2 * n));
	EXPECT_EQ(-EEXIST, SPARSE(ADDR + n, n));
	EXPECT_EQ(-EEXIST, gp_vm_map(self->fd, self->vm, self->bo, 0, ADDR + n, TILE, 1, 1));
	/* Tiles of it. */
	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		EXPECT_EQ(cases[i].want, BIND(self->bo, cases[i].offset, cases[i].step,
					      cases[i].addr, cases[i].length, cases[i].flags))
			TH_LOG("case %u", i);
	}
	EXPECT_EQ(-EINVAL, BIND(0, TILE, 0, ADDR, TILE, 0));
	EXPECT_EQ(-EINVAL, BIND(0, 0, TILE, ADDR, TILE, 0));
	EXPECT_EQ(-EINVAL, BIND(0, 0, 0, ADDR + n, 2 * n, 0));
	EXPECT_EQ(-ENOENT, BIND(self->vm, 0, 0, ADDR, TILE, 0));
	EXPECT_EQ(-ENOENT, gp_vm_bind(self->fd, self->bo, self->bo, 0, 0, ADDR, TILE, 0));
	mine = mmap(NULL, TILE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, mine);
	ASSERT_EQ(0, bo_pin(self->fd, mine, TILE, 0, &pin));
	EXPECT_EQ(-EINVAL, BIND(pin, 0, TILE, ADDR, TILE, 0));
	EXPECT_EQ(0, gp_destroy(self->fd, pin));
	munmap(mine, TILE);
	/* A buffer object shorter than a tile. */
	ASSERT_EQ(0, gp_bo_alloc(self->fd, TILE / 2, &id));
	EXPECT_EQ(-EOVERFLOW, BIND(id, 0, TILE, ADDR, TILE, 0));
	EXPECT_EQ(0, gp_destroy(self->fd, id));
	/* A range with tiles has no DMA-buf, also where they are bound. */
	ASSERT_EQ(0, BIND(self->bo, 0, TILE, ADDR, TILE, 0));
	EXPECT_EQ(-EINVAL, gp_vm_export(self->fd, self->vm, ADDR, TILE, 0));
	EXPECT_EQ(-EINVAL, gp_vm_export(self->fd, self->vm, ADDR - TILE, 2 * TILE, 0));
	ASSERT_EQ(0, BIND(0, 0, 0, ADDR, TILE, 0));
	EXPECT_EQ(0, vm_bytes(self->fd));
	EXPECT_EQ(TABLES(1), mappings(self->fd));
	EXPECT_EQ(0, UNMAP(ADDR, 2 * n));
	EXPECT_EQ(-EINVAL, BIND(self->bo, 0, TILE, ADDR, TILE, 0));
}

TEST_F(sparse, holes)
{
	ASSERT_EQ(0, SPARSE(ADDR, N * TILE));
	memset(self->b, 5, N * TILE);
	/* Writes are dropped, reads are zeros, at any place and size. */
	EXPECT_EQ(0, execute(&self->s, sqe_copy(ADDR, BUFFER, N * TILE)));
	EXPECT_EQ(0, execute(&self->s, sqe_fill(ADDR + 8, 8, 0x1234567812345678ULL, 3 * TILE / 8)));
	EXPECT_EQ(0, execute(&self->s, sqe_timestamp(ADDR + TILE)));
	EXPECT_TRUE(all_are(self->b, 5, N * TILE));
	EXPECT_EQ(0, execute(&self->s, sqe_copy(BUFFER + 3, ADDR + TILE - 100, 2 * TILE + 7)));
	EXPECT_TRUE(all_are(self->b, 5, 3) && all_are(self->b + 3, 0, 2 * TILE + 7) &&
		    all_are(self->b + 2 * TILE + 10, 5, 1000));
	EXPECT_EQ(0, execute(&self->s, sqe_copy(ADDR, ADDR + TILE, TILE)));
	EXPECT_EQ(0, execute(&self->s, sqe_poll(ADDR + 2 * TILE - 4, 4, GPUMEM_POLL_EQ, 0)));
	EXPECT_TRUE(all_are(self->p, 0, N * TILE));
	/* A hole is no right: devices need access to the mapping. */
	EXPECT_EQ(0, gp_vm_access(self->fd, self->vm, ADDR, N * TILE, 0, GPUMEM_ACCESS_READ));
	EXPECT_EQ(EACCES, stream_error_of(self->fd, self->vm, sqe_fill(ADDR, 1, 0, 1)));
	EXPECT_EQ(0, stream_error_of(self->fd, self->vm, sqe_copy(BUFFER, ADDR, 1)));
	EXPECT_EQ(0, gp_vm_access(self->fd, self->vm, ADDR, N * TILE, 0, 0));
	EXPECT_EQ(EACCES, stream_error_of(self->fd, self->vm, sqe_copy(BUFFER, ADDR, 1)));
	EXPECT_EQ(EFAULT, stream_error_of(self->fd, self->vm,
					  sqe_copy(BUFFER, ADDR + N * TILE, 1)));
	EXPECT_EQ(0, UNMAP(ADDR, N * TILE));
}

/* Half of an exabyte: what is not bound costs nothing, in memory and in time. */
TEST_F(sparse, vast)
{
	const __u64 vast = 1ULL << 59;

	ASSERT_EQ(0, SPARSE(1ULL << 62, vast));
	EXPECT_EQ(0, BIND(0, 0, 0, 1ULL << 62, vast, 0));
	EXPECT_EQ(0, BIND(self->bo, 0, TILE, (1ULL << 62) + vast - N * TILE, N * TILE, 0));
	EXPECT_EQ(0, BIND(self->bo, 0, TILE, (1ULL << 62) + vast / 2, N * TILE, 0));
	EXPECT_EQ(2 * N * TILE, vm_bytes(self->fd));
	EXPECT_EQ(TABLES(2), mappings(self->fd));
	EXPECT_EQ(0, execute(&self->s, sqe_fill((1ULL << 62) + vast - 1, 1, 9, 1)));
	EXPECT_EQ(9, self->p[N * TILE - 1]);
	EXPECT_EQ(0, execute(&self->s, sqe_fill((1ULL << 62) + vast / 2, 1, 6, 1)));
	EXPECT_EQ(6, self->p[0]);
	/* The other end is still a hole. */
	memset(self->b, 5, TILE);
	EXPECT_EQ(0, execute(&self->s, sqe_copy(BUFFER, 1ULL << 62, TILE)));
	EXPECT_TRUE(all_are(self->b, 0, TILE));
	EXPECT_EQ(0, BIND(0, 0, 0, 1ULL << 62, vast, 0));
	EXPECT_EQ(0, vm_bytes(self->fd));
	EXPECT_EQ(TABLES(2), mappings(self->fd));
	EXPECT_EQ(0, UNMAP(1ULL << 62, vast));
	EXPECT_EQ(0, mappings(self->fd));
	/* The last addresses. */
	ASSERT_EQ(0, SPARSE(-4 * TILE, 3 * TILE));
	EXPECT_EQ(0, BIND(self->bo, 0, TILE, -4 * TILE, 3 * TILE, 0));
	EXPECT_EQ(3 * TILE, vm_bytes(self->fd));
	EXPECT_EQ(TABLES(1), mappings(self->fd));
	EXPECT_EQ(0, execute(&self->s, sqe_fill(-4 * TILE, 1, 8, 3 * TILE)));
	EXPECT_TRUE(all_are(self->p, 8, 3 * TILE));
	EXPECT_EQ(0, BIND(0, 0, 0, -4 * TILE, 3 * TILE, 0));
	EXPECT_EQ(0, UNMAP(-4 * TILE, 3 * TILE));
	EXPECT_EQ(0, mappings(self->fd));
}

/* Bound tiles keep the memory; it is given back with the last of them. */
TEST_F(sparse, lifetime)
{
	long long was = dev_attr(0, "used");
	__u32 bo;

	ASSERT_EQ(0, SPARSE(ADDR, 2 * TABLE));
	for (int how = 0; how < 4; how++) {
		ASSERT_EQ(0, gp_bo_alloc(self->fd, 4 * TILE, &bo));
		ASSERT_EQ(0, BIND(bo, 0, TILE, ADDR + TABLE - 2 * TILE, 4 * TILE, 0));
		ASSERT_EQ(0, BIND(bo, TILE, 0, ADDR, 2 * TILE, 0));
		EXPECT_EQ(6 * TILE, vm_bytes(self->fd));
		EXPECT_EQ(TABLES(2), mappings(self->fd));
		EXPECT_EQ(0, gp_destroy(self->fd, bo));
		EXPECT_EQ(-ENOENT, BIND(bo, 0, TILE, ADDR, TILE, 0));
		EXPECT_EQ(was + 4 * (long long)TILE, dev_attr(0, "used"));
		EXPECT_EQ(0, execute(&self->s, sqe_fill(ADDR + TABLE - 2 * TILE, 1, how + 1, 4 * TILE)));
		EXPECT_EQ(0, execute(&self->s, sqe_copy(BUFFER, ADDR + TILE, TILE)));
		EXPECT_TRUE(all_are(self->b, how + 1, TILE));
		EXPECT_EQ(0, BIND(0, 0, 0, ADDR, 2 * TILE, 0));
		EXPECT_EQ(was + 4 * (long long)TILE, dev_attr(0, "used"));
		switch (how) {
		case 0:		/* holes */
			EXPECT_EQ(0, BIND(0, 0, 0, ADDR, 2 * TABLE, 0));
			break;
		case 1:		/* other memory */
			EXPECT_EQ(0, BIND(self->bo, 0, TILE, ADDR + TABLE - 2 * TILE, 4 * TILE, 0));
			EXPECT_TRUE(dev_attr_becomes(0, "used", was, 5));
			EXPECT_EQ(0, BIND(0, 0, 0, ADDR, 2 * TABLE, 0));
			break;
		case 2:		/* no mapping */
			EXPECT_EQ(0, UNMAP(ADDR, 2 * TABLE));
			EXPECT_EQ(0, mappings(self->fd));
			ASSERT_EQ(0, SPARSE(ADDR, 2 * TABLE));
			break;
		default:	/* no address space */
			EXPECT_EQ(0, stream_close(&self->s));
			EXPECT_EQ(0, gp_destroy(self->fd, self->vm));
			break;
		}
		EXPECT_TRUE(dev_attr_becomes(0, "used", was, 5));
	}
	EXPECT_EQ(-N * TILE, vm_bytes(self->fd));
	EXPECT_EQ(-1ULL, mappings(self->fd));
	ASSERT_EQ(0, gp_vm_create(self->fd, &self->vm));
	ASSERT_EQ(0, stream_open(&self->s, self->fd, self->vm, 0, 64));
}

/* After a reservation a bind allocates nothing; a bind that fails changes nothing. */
TEST_F(sparse, reserve)
{
	struct changed limit;

	ASSERT_EQ(0, SPARSE(ADDR, 8 * TABLE));
	EXPECT_EQ(0, BIND(0, 0, 0, ADDR + TABLE, TABLE + TILE, GPUMEM_VM_BIND_RESERVE));
	EXPECT_EQ(TABLES(2), mappings(self->fd));
	EXPECT_EQ(0, vm_bytes(self->fd));
	/* With no room for another table, not even for a moment. */
	ASSERT_TRUE(param_change(&limit, "map_limit", 2 + 2 * 64));
	EXPECT_EQ(0, BIND(0, 0, 0, ADDR + TABLE, 2 * TABLE, GPUMEM_VM_BIND_RESERVE));
	EXPECT_EQ(0, BIND(self->bo, 0, 0, ADDR + TABLE, TABLE + TILE, 0));
	EXPECT_EQ(TABLES(2), mappings(self->fd));
	EXPECT_EQ(257 * TILE, vm_bytes(self->fd));
	EXPECT_EQ(0, BIND(self->bo, 0, 0, ADDR + TABLE, 2 * TABLE, 0));
	EXPECT_EQ(TABLES(2), mappings(self->fd));
	EXPECT_EQ(512 * TILE, vm_bytes(self->fd));
	EXPECT_EQ(0, file_restore(&limit));
	EXPECT_EQ(0, UNMAP(ADDR, 8 * TABLE));
	EXPECT_EQ(0, vm_bytes(self->fd));
}

/* The limit of mappings: a table counts as 64, and a bind that is refused changes nothing. */
TEST_F(sparse, limit)
{
	struct changed limit;

	ASSERT_EQ(0, SPARSE(ADDR, 4 * TABLE));
	ASSERT_TRUE(param_change(&limit, "map_limit", 2 + 2 * 64));
	EXPECT_EQ(-EDQUOT, BIND(self->bo, 0, 0, ADDR, 2 * TABLE + TILE, 0));
	EXPECT_EQ(-EDQUOT, BIND(0, 0, 0, ADDR, 4 * TABLE, GPUMEM_VM_BIND_RESERVE));
	EXPECT_EQ(0, vm_bytes(self->fd));
	EXPECT_EQ(TABLES(0), mappings(self->fd));
	EXPECT_EQ(0, BIND(self->bo, 0, 0, ADDR, 2 * TABLE, 0));
	EXPECT_EQ(TABLES(2), mappings(self->fd));
	EXPECT_EQ(-EDQUOT, BIND(0, 0, 0, ADDR + 2 * TABLE, TILE, GPUMEM_VM_BIND_RESERVE));
	EXPECT_EQ(-EDQUOT, BIND(self->bo, 0, 0, ADDR + TABLE, TABLE + TILE, 0));
	EXPECT_EQ(512 * TILE, vm_bytes(self->fd));
	EXPECT_EQ(TABLES(2), mappings(self->fd));
	EXPECT_EQ(0, BIND(0, 0, 0, ADDR, 4 * TABLE, 0));
	EXPECT_EQ(0, file_restore(&limit));
	EXPECT_EQ(0, UNMAP(ADDR, 4 * TABLE));
	EXPECT_EQ(0, mappings(self->fd));
}

/* Work that reaches shared memory through tiles waits for the fences of other users, and is one of them. */
TEST_F(sparse, fences)
{
	const __u64 alone = ADDR + 3 * TABLE + 8 * TILE;
	int card = vgem_open(), dmabuf;
	__u32 handle = 0, fence = 0;
	struct stream other;
	__u64 done;

	if (card < 0)
		SKIP(return, "no module vgem");
	ASSERT_EQ(0, stream_open(&other, self->fd, self->vm, 0, 64));
	ASSERT_EQ(0, SPARSE(ADDR, 4 * TABLE));
	dmabuf = gp_bo_export(self->fd, self->bo, 0, N * TILE, GPUMEM_BO_EXPORT_CLOEXEC);
	ASSERT_LE(0, dmabuf);
	ASSERT_EQ(0, vgem_import(card, dmabuf, &handle));
	ASSERT_EQ(0, BIND(self->bo, 0, TILE, ADDR + TABLE, N * TILE, 0));
	ASSERT_EQ(0, BIND(self->bo, 0, TILE, alone, TILE, 0));
	/* Holes have no fences: in a table's place, in front of a bound tile and behind one. */
	ASSERT_EQ(0, vgem_attach(card, handle, false, &fence));
	EXPECT_EQ(0, execute(&self->s, sqe_fill(ADDR, 1, 7, TABLE)));
	EXPECT_EQ(0, execute(&self->s, sqe_fill(ADDR + TABLE + N * TILE, 1, 7,
						2 * TABLE + (8 - N) * TILE)));
	EXPECT_EQ(0, execute(&self->s, sqe_fill(alone + TILE, 1, 7, TABLE - 9 * TILE)));
	EXPECT_EQ(POLLIN, ready(dmabuf));
	/* From a hole to the last byte in front of a bound tile's end, and to a tile's first byte. */
	for (int i = 0; i < 2; i++) {
		__u64 from = i ? ADDR + TABLE + N * TILE : ADDR;
		__u64 to = i ? alone + 1 : ADDR + TABLE + N * TILE;

		done = self->s.page->value;
		PUSH(&self->s, sqe_fill(from, 1, 7 + i, to - from));
		EXPECT_TRUE(becomes_busy(dmabuf));
		EXPECT_TRUE(stands_still(&self->s, &other, done));
		EXPECT_EQ(i ? 7 : 0, self->p[0]);
		ASSERT_EQ(0, vgem_signal(card, fence));
		EXPECT_EQ(0, stream_sync(&self->s));
		EXPECT_EQ(7 + i, self->p[0]);
		EXPECT_EQ(POLLIN | POLLOUT, ready(dmabuf));
		ASSERT_EQ(0, vgem_attach(card, handle, false, &fence));
	}
	EXPECT_TRUE(all_are(self->p + 1, 7, N * TILE - 1));
	ASSERT_EQ(0, vgem_signal(card, fence));
	EXPECT_EQ(0, stream_close(&other));
	EXPECT_EQ(0, vgem_close(card, handle));
	close(dmabuf);
	close(card);
	EXPECT_EQ(0, UNMAP(ADDR, 4 * TABLE));
}

/* --- binds while work runs */

struct binder {
	int fd, ret;
	__u32 vm, bo;
	bool stop;
};

/* The byte that fills a tile of the fixture's memory, and of memory that lives for one bind. */
static unsigned char kept_byte(unsigned int tile)
{
	return 1 + tile;
}

static unsigned char short_byte(unsigned int tile)
{
	return 101 + tile;
}

/*
 * Bind memory that no id keeps: the next bind of these tiles frees it.  A tile is not bound at the
 * offset that it has in the fixture's memory: the offset of one with the memory of the other would
 * show another tile's byte.
 */
static int bind_short(struct binder *b)
{
	__u32 bo;
	unsigned char *p = gp_alloc_map(b->fd, (N + 1) * TILE, &bo);
	int ret;

	if (!p)
		return -ENOMEM;
	for (unsigned int i = 0; i < N; i++)
		memset(p + (i + 1) * TILE, short_byte(i), TILE);
	memset(p, short_byte(N), TILE);
	munmap(p, (N + 1) * TILE);
	ret = gp_vm_bind(b->fd, b->vm, bo, TILE, TILE, ADDR, N * TILE, 0);
	return ret ? ret : gp_destroy(b->fd, bo);
}

static void *bind_on(void *arg)
{
	struct binder *b = arg;

	for (unsigned int i = 0; !__atomic_load_n(&b->stop, __ATOMIC_RELAXED) && !b->ret; i++) {
		/*
		 * That takes as long as many of the others, most of the time with the tiles as they were
		 * before: bound, holes, or bound to short-lived memory.
		 */
		if (i % 127 >= 125)
			b->ret = bind_short(b);
		else
			b->ret = i % 2 ? gp_vm_bind(b->fd, b->vm, 0, 0, 0, ADDR, N * TILE, 0) :
				gp_vm_bind(b->fd, b->vm, b->bo, 0, TILE, ADDR, N * TILE, 0);
	}
	return NULL;
}

/*
 * Work never fails while tiles change, and finds each tile a hole or bound to its own part of a memory.  When the
 * work meets which of them depends on the scheduler, so the case goes on until it has met all.
 */
TEST_F_TIMEOUT(sparse, race, 120)
{
	enum { LEAST = 300, MOST = 20 * LEAST };
	struct binder b = { .fd = self->fd, .vm = self->vm, .bo = self->bo };
	unsigned int bound = 0, holes = 0, shorts = 0;
	pthread_t thread;

	for (unsigned int k = 0; k < N; k++)
		memset(self->p + k * TILE, kept_byte(k), TILE);
	ASSERT_EQ(0, SPARSE(ADDR, N * TILE));
	ASSERT_EQ(0, pthread_create(&thread, NULL, bind_on, &b));
	for (int i = 0; i < LEAST || (i < MOST && !(bound && holes && shorts)); i++) {
		ASSERT_EQ(0, __atomic_load_n(&b.ret, __ATOMIC_RELAXED));
		ASSERT_EQ(0, execute(&self->s, sqe_copy(BUFFER, ADDR, N * TILE)));
		for (unsigned int k = 0; k < N; k++) {
			unsigned char byte = self->b[k * TILE];

			ASSERT_TRUE(all_are(self->b + k * TILE, byte, TILE));
			ASSERT_TRUE(byte == 0 || byte == kept_byte(k) || byte == short_byte(k)) {
				TH_LOG("tile %u: %u", k, byte);
			}
			bound += byte == kept_byte(k);
			holes += byte == 0;
			shorts += byte == short_byte(k);
		}
	}
	__atomic_store_n(&b.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	EXPECT_EQ(0, b.ret);
	TH_LOG("%u tiles bound, %u holes, %u bound to short-lived memory", bound, holes, shorts);
	EXPECT_TRUE(bound && holes && shorts);
	EXPECT_EQ(0, UNMAP(ADDR, N * TILE));
}

/* --- the model */

#define TILES	(3 * 256)

struct tile {
	bool bound;
	unsigned int at;	/* tile of the bo */
};

TEST_F_TIMEOUT(sparse, model, 100000)
{
	const __u64 steps = env_number("GPUMEM_STEPS", 3000);
	struct tile *tile = calloc(TILES, sizeof(*tile));
	unsigned long long binds = 0, looks = 0, refused = 0;
	struct rng r;

	rng_start(&r, "sparse model");
	ASSERT_NE(NULL, tile);
	for (unsigned int i = 0; i < N; i++)
		memset(self->p + i * TILE, i + 1, TILE);
	ASSERT_EQ(0, SPARSE(ADDR, TILES * TILE));
	for (__u64 step = 0; step < steps; step++) {
		unsigned int first = rng_below(&r, TILES), op = rng_below(&r, 4), bytes = 0;
		unsigned int n = 1 + rng_below(&r, rng_below(&r, 4) ? 8 : TILES);
		unsigned int at = rng_below(&r, N), stride = rng_below(&r, 3);
		int want = first + n > TILES ? -EINVAL : 0, ret;

		/* A new mapping has no tables. */
		if (!rng_below(&r, 50)) {
			ASSERT_EQ(0, UNMAP(ADDR, TILES * TILE));
			ASSERT_EQ(0, SPARSE(ADDR, TILES * TILE));
			memset(tile, 0, TILES * sizeof(*tile));
		}
		if (op < 2) {
			bool bind = rng_below(&r, 3);

			if (bind && at + (n - 1) * stride >= N)
				want = -EOVERFLOW;
			ret = bind ? BIND(self->bo, at * TILE, stride * TILE, ADDR + first * TILE,
					  n * TILE, 0) :
				BIND(0, 0, 0, ADDR + first * TILE, n * TILE, 0);
			ASSERT_EQ(want, ret);
			for (unsigned int i = 0; !want && i < n; i++)
				tile[first + i] = (struct tile){ bind, at + i * stride };
			binds += !want;
			refused += !!want;
		} else {
			/* Read some tiles, over their borders. */
			unsigned int skip = rng_below(&r, TILE), last;

			n = 1 + rng_below(&r, N - 1);
			if (first + n >= TILES)
				continue;
			ASSERT_EQ(0, execute(&self->s, sqe_copy(BUFFER + skip, ADDR + first * TILE + skip,
								n * TILE - skip + 1)));
			for (unsigned int i = 0; i < n; i++) {
				const struct tile *t = &tile[first + i];
				unsigned char byte = t->bound ? t->at + 1 : 0;

				ASSERT_TRUE(all_are(self->b + i * TILE + (i ? 0 : skip), byte,
						   TILE - (i ? 0 : skip)))
					TH_LOG("step %llu tile %u", (unsigned long long)step, first + i);
			}
			last = first + n;
			ASSERT_EQ(tile[last].bound ? tile[last].at + 1 : 0, self->b[n * TILE]);
			looks++;
		}
		for (unsigned int i = 0; i < TILES; i++)
			bytes += tile[i].bound;
		ASSERT_EQ(bytes * TILE, vm_bytes(self->fd));
	}
	printf("# %llu binds, %llu refused, %llu looks\n", binds, refused, looks);
	EXPECT_EQ(0, UNMAP(ADDR, TILES * TILE));
	free(tile);
}

TEST_HARNESS_MAIN
