// SPDX-License-Identifier: GPL-2.0
/*
 * Pools in the kernel: chunks, their accounting, the limit, and queries. t_pool_share.c tests pools
 * that several clients use.  The library allocates from chunks; the kernel does not.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "pool_fixture.h"

#define BYTES	(256 * KIB)
#define RW	(PROT_READ | PROT_WRITE)

POOL_FIXTURE(pool)

/*
 * Stay on one CPU. The kernel counts pages in another CPU's LRU batch as held (kmod/gpumem_linger.c), so memory may be
 * released later than at once if its task has changed its CPU.
 */
static int stay_on(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

/* --- making and querying */

TEST_F(pool, create)
{
	struct gpumem_pool_info info;
	struct gpumem_stats stats;
	__u32 id, vm;

	EXPECT_EQ(-EACCES, gp_pool_create(self->fd, 15, 0, 0, "", &id));
	EXPECT_EQ(-EOPNOTSUPP, gp_pool_create(self->fd, 0, GPUMEM_POOL_IMPORTED, 0, "", &id));
	EXPECT_EQ(-EINVAL, gp_pool_create(self->fd, 0, 0, 0, "sixteen letters!", &id));
	ASSERT_EQ(0, gp_pool_create(self->fd, 0, GPUMEM_POOL_HOST, 12345, "fifteen letters", &id));
	memset(&info, 0xa5, sizeof(info));
	ASSERT_EQ(0, gp_pool_info(self->fd, id, 0, &info));
	EXPECT_EQ(GPUMEM_POOL_HOST, info.pool_flags);
	EXPECT_EQ(12345, info.limit);
	EXPECT_STREQ("fifteen letters", (char *)info.name);
	EXPECT_EQ(0, info.device);
	EXPECT_EQ(0, info.reserved_bytes | info.reserved_high | info.used | info.used_high |
		  info.chunks | info.imports);
	EXPECT_EQ(2, dev_attr(0, "pools"));
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(2, stats.pools);
	EXPECT_EQ(2, stats.objects);
	EXPECT_EQ(0, gp_destroy(self->fd, id));
	EXPECT_EQ(1, dev_attr(0, "pools"));

	/* Every call on a pool refuses the ids of other types.  */
	ASSERT_EQ(0, gp_vm_create(self->fd, &vm));
	EXPECT_EQ(-ENOENT, gp_pool_info(self->fd, vm, 0, &info));
	EXPECT_EQ(-ENOENT, gp_pool_info(self->fd, id, 0, &info));
	EXPECT_EQ(-ENOENT, gp_pool_set(self->fd, vm, 0, 0));
	EXPECT_EQ(-ENOENT, gp_pool_export(self->fd, vm, 0));
	EXPECT_EQ(-ENOENT, gp_pool_chunk(self->fd, vm, BYTES, &id, NULL));
	EXPECT_EQ(-ENOENT, gp_pool_chunk(self->other, self->pool, BYTES, &id, NULL));
	/* A pool cannot be mapped.  */
	EXPECT_EQ(-EINVAL, gp_map_errno(self->fd, self->pool, 0, page_size, RW, MAP_SHARED));
}

TEST_F(pool, chunks)
{
	struct gpumem_pool_info info;
	struct gpumem_stats stats;
	__u64 last = 0, chunk;
	__u32 id[3], plain;
	char *p;

	ASSERT_EQ(0, stay_on(0));
	for (int round = 0; round < 3; round++) {
		__u64 left = 6 * BYTES;

		for (int i = 0; i < 3; i++) {
			ASSERT_EQ(0, gp_pool_chunk(self->fd, self->pool, (i + 1) * BYTES, &id[i],
						   &chunk));
			/* Chunk numbers are not reused.  */
			EXPECT_LT(last, chunk);
			last = chunk;
			p = gp_map(self->fd, id[i], 0, BYTES, RW);
			ASSERT_NE(NULL, p);
			for (size_t n = 0; n < BYTES; n += 8)
				ASSERT_EQ(0, *(__u64 *)(p + n));
			memset(p, 0x77, BYTES);
			munmap(p, BYTES);
		}
		ASSERT_EQ(0, gp_pool_info(self->fd, self->pool, 0, &info));
		EXPECT_EQ(6 * BYTES, info.reserved_bytes);
		EXPECT_EQ(6 * BYTES, info.reserved_high);
		EXPECT_EQ(3, info.chunks);
		ASSERT_EQ(0, gp_stats(self->fd, &stats));
		EXPECT_EQ(6 * BYTES, stats.pool_reserved);
		EXPECT_EQ(6 * BYTES, stats.bo_bytes);
		EXPECT_EQ(3, stats.bos);
		/* A buffer object that is not a chunk does not count for the pool.  */
		ASSERT_EQ(0, gp_bo_alloc(self->fd, BYTES, &plain));
		EXPECT_EQ(6 * BYTES, gp_pool_reserved(self->fd, self->pool));
		EXPECT_EQ(0, gp_destroy(self->fd, plain));
		for (int i = 0; i < 3; i++) {
			EXPECT_EQ(0, gp_destroy(self->fd, id[i]));
			/* On one CPU the bytes are released at once, as there is no other reference.  */
			left -= (i + 1) * BYTES;
			EXPECT_EQ(left, gp_pool_reserved(self->fd, self->pool));
		}
	}
	ASSERT_EQ(0, gp_pool_info(self->fd, self->pool, GPUMEM_POOL_INFO_RESET_USED, &info));
	EXPECT_EQ(6 * BYTES, info.reserved_high);
	ASSERT_EQ(0, gp_pool_info(self->fd, self->pool, GPUMEM_POOL_INFO_RESET_RESERVED, &info));
	EXPECT_EQ(6 * BYTES, info.reserved_high);
	ASSERT_EQ(0, gp_pool_info(self->fd, self->pool, 0, &info));
	EXPECT_EQ(0, info.reserved_high);
	EXPECT_EQ(0, info.chunks);
}

/* A buffer object that is not a chunk has no number, and failed calls change no counter. */
TEST_F(pool, chunk_errors)
{
	struct gpumem_bo_alloc c = {
		.size = sizeof(c), .length = page_size, .chunk = 0xa5a5,
	};
	struct gpumem_pool_info info;
	__u32 host, id, device;
	int one;

	ASSERT_EQ(0, gp_ioctl(self->fd, GPUMEM_BO_ALLOC, &c));
	EXPECT_EQ(0, c.chunk);
	EXPECT_EQ(0, gp_destroy(self->fd, c.id));
	ASSERT_EQ(0, gp_pool_create(self->fd, 0, GPUMEM_POOL_HOST, 0, "", &host));
	EXPECT_EQ(-EINVAL, gp_pool_chunk(self->fd, host, BYTES, &id, NULL));
	EXPECT_EQ(-EINVAL, gp_pool_chunk_on(self->fd, 0, self->pool, GPUMEM_BO_ALLOC_HOST, BYTES,
					    &id, NULL));
	EXPECT_EQ(-EINVAL, gp_pool_chunk(self->fd, self->pool, BYTES + 1, &id, NULL));
	EXPECT_EQ(-EINVAL, gp_pool_chunk(self->fd, self->pool, 0, &id, NULL));
	EXPECT_EQ(-ENOSPC, gp_pool_chunk(self->fd, self->pool, dev_attr(0, "size") + page_size, &id,
					 NULL));
	EXPECT_EQ(-ENOSPC, gp_pool_chunk(self->fd, self->pool, 1ULL << 41, &id, NULL));
	one = gp_open(1);
	if (one >= 0) {
		ASSERT_EQ(0, gp_attach(self->fd, one, &device));
		EXPECT_EQ(-EINVAL, gp_pool_chunk_on(self->fd, device, self->pool, 0, BYTES, &id,
						    NULL));
		close(one);
	}
	ASSERT_EQ(0, gp_pool_info(self->fd, self->pool, 0, &info));
	EXPECT_EQ(0, info.reserved_bytes | info.reserved_high | info.chunks);
	ASSERT_EQ(0, gp_pool_info(self->fd, host, 0, &info));
	EXPECT_EQ(0, info.reserved_bytes | info.reserved_high | info.chunks);
}

/* Chunks that are made on one CPU and destroyed on another are released, too. */
TEST_F(pool, other_cpu)
{
	__u32 id;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs two CPUs");
	for (int i = 0; i < 100; i++) {
		ASSERT_EQ(0, stay_on(i % 2));
		ASSERT_EQ(0, gp_pool_chunk(self->fd, self->pool, BYTES, &id, NULL));
		ASSERT_EQ(0, stay_on(!(i % 2)));
		ASSERT_EQ(0, gp_destroy(self->fd, id));
		ASSERT_TRUE(gp_reserved_becomes(self->fd, self->pool, 0));
	}
}

TEST_F(pool, used)
{
	struct gpumem_pool_info info;
	__u32 a, b;

	ASSERT_EQ(0, stay_on(0));
	/* The used bytes of a pool without chunks stay 0. */
	ASSERT_EQ(0, gp_pool_set(self->fd, self->pool, ~0ULL, ~0ULL));
	ASSERT_EQ(0, gp_pool_info(self->fd, self->pool, 0, &info));
	EXPECT_EQ(0, info.used | info.used_high);
	ASSERT_EQ(0, gp_pool_chunk(self->fd, self->pool, 2 * BYTES, &a, NULL));
	ASSERT_EQ(0, gp_pool_chunk(self->fd, self->pool, BYTES, &b, NULL));
	ASSERT_EQ(0, gp_pool_set(self->fd, self->pool, 1000, 0));
	ASSERT_EQ(0, gp_pool_info(self->fd, self->pool, 0, &info));
	EXPECT_EQ(1000, info.used);
	EXPECT_EQ(1000, info.used_high);
	ASSERT_EQ(0, gp_pool_set(self->fd, self->pool, 500, 2000));
	ASSERT_EQ(0, gp_pool_info(self->fd, self->pool, 0, &info));
	EXPECT_EQ(500, info.used);
	EXPECT_EQ(2000, info.used_high);
	ASSERT_EQ(0, gp_pool_set(self->fd, self->pool, ~0ULL, ~0ULL));
	/* The pool's used bytes are at most its reserved bytes, also after a chunk is destroyed. */
	ASSERT_EQ(0, gp_pool_info(self->fd, self->pool, 0, &info));
	EXPECT_EQ(3 * BYTES, info.used);
	EXPECT_EQ(3 * BYTES, info.used_high);
	EXPECT_EQ(0, gp_destroy(self->fd, a));
	ASSERT_EQ(0, gp_pool_info(self->fd, self->pool, 0, &info));
	EXPECT_EQ(BYTES, info.used);
	/* The used high-water mark may exceed the bytes that are reserved now.  */
	ASSERT_EQ(0, gp_pool_set(self->fd, self->pool, 10, ~0ULL));
	ASSERT_EQ(0, gp_pool_info(self->fd, self->pool, GPUMEM_POOL_INFO_RESET_USED, &info));
	EXPECT_EQ(3 * BYTES, info.used_high);
	ASSERT_EQ(0, gp_pool_info(self->fd, self->pool, 0, &info));
	EXPECT_EQ(10, info.used_high);
	EXPECT_EQ(3 * BYTES, info.reserved_high);
}

static long pinned(void)
{
	char line[128];
	long kb = -1;
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "VmPin: %ld", &kb);
	if (f)
		fclose(f);
	return kb;
}

TEST_F(pool, host)
{
	struct gpumem_pool_chunk_open open;
	struct gpumem_bo_info bo;
	long before = pinned();
	__u32 host, import, id;
	char *p, *q;
	__u64 chunk;

	ASSERT_EQ(0, gp_pool_create(self->fd, 0, GPUMEM_POOL_HOST, 0, "host", &host));
	ASSERT_EQ(0, gp_pool_chunk_on(self->fd, 0, host, GPUMEM_BO_ALLOC_HOST, BYTES, &id, &chunk));
	ASSERT_EQ(0, gp_bo_info(self->fd, id, &bo));
	EXPECT_EQ(GPUMEM_BO_HOST, bo.kind);
	EXPECT_EQ((long)(BYTES / KIB), pinned() - before);
	EXPECT_EQ(BYTES, gp_pool_reserved(self->fd, host));
	EXPECT_EQ(0, dev_attr(0, "used"));
	ASSERT_EQ(0, gp_pool_share(self->fd, host, self->other, &import));
	ASSERT_EQ(0, gp_chunk_open(self->other, import, chunk, &open));
	p = gp_map(self->fd, id, 0, BYTES, RW);
	q = gp_map(self->other, open.id, 0, BYTES, RW);
	ASSERT_NE(NULL, p);
	ASSERT_NE(NULL, q);
	strcpy(q + 4000, "from elsewhere");
	EXPECT_STREQ("from elsewhere", p + 4000);
	/* The charges to the pool and to the pinned budget stay until the memory is released.  */
	EXPECT_EQ(0, gp_destroy(self->fd, id));
	munmap(p, BYTES);
	munmap(q, BYTES);
	EXPECT_EQ(BYTES, gp_pool_reserved(self->fd, host));
	EXPECT_EQ((long)(BYTES / KIB), pinned() - before);
	EXPECT_EQ(0, gp_destroy(self->other, open.id));
	EXPECT_TRUE(gp_reserved_becomes(self->fd, host, 0));
	EXPECT_EQ(before, pinned());
}

/* --- the limit */

TEST_F(pool, limit)
{
	struct gpumem_pool_info info;
	__u32 pool, a, b, id;

	ASSERT_EQ(0, gp_pool_create(self->fd, 0, 0, 2 * BYTES + 1, "small", &pool));
	EXPECT_EQ(-EDQUOT, gp_pool_chunk(self->fd, pool, 3 * BYTES, &id, NULL));
	EXPECT_EQ(-EDQUOT, gp_pool_chunk(self->fd, pool, 1ULL << 39, &id, NULL));
	ASSERT_EQ(0, gp_pool_chunk(self->fd, pool, BYTES, &a, NULL));
	ASSERT_EQ(0, gp_pool_chunk(self->fd, pool, BYTES, &b, NULL));
	EXPECT_EQ(-EDQUOT, gp_pool_chunk(self->fd, pool, page_size, &id, NULL));
	EXPECT_EQ(0, gp_destroy(self->fd, a));
	ASSERT_EQ(0, gp_pool_chunk(self->fd, pool, BYTES, &a, NULL));
	/* Refused chunks do not change the high-water mark. */
	ASSERT_EQ(0, gp_pool_info(self->fd, pool, 0, &info));
	EXPECT_EQ(2 * BYTES, info.reserved_high);
	/* The limit does not bind other pools, nor objects without a pool.  */
	EXPECT_EQ(0, gp_pool_chunk(self->fd, self->pool, 3 * BYTES, &id, NULL));
	EXPECT_EQ(0, gp_bo_alloc(self->fd, 3 * BYTES, &id));
}

/* Destroying a chunk's id makes no room in the pool while a client still holds the memory.  */
TEST_F(pool, limit_holds)
{
	struct gpumem_pool_chunk_open open;
	__u32 pool, import, id, other;
	int dmabuf;
	__u64 chunk;
	char *p;

	ASSERT_EQ(0, gp_pool_create(self->fd, 0, 0, BYTES, "one", &pool));
	ASSERT_EQ(0, gp_pool_share(self->fd, pool, self->other, &import));
	/* A mapping holds the memory.  */
	ASSERT_EQ(0, gp_pool_chunk(self->fd, pool, BYTES, &id, &chunk));
	p = gp_map(self->fd, id, 0, BYTES, RW);
	ASSERT_NE(NULL, p);
	EXPECT_EQ(0, gp_destroy(self->fd, id));
	EXPECT_EQ(BYTES, gp_pool_reserved(self->fd, pool));
	EXPECT_EQ(-EDQUOT, gp_pool_chunk(self->fd, pool, page_size, &other, NULL));
	munmap(p, BYTES);
	/* A DMA-buf holds the memory.  */
	ASSERT_EQ(0, gp_pool_chunk(self->fd, pool, BYTES, &id, &chunk));
	dmabuf = gp_bo_export(self->fd, id, 0, page_size, GPUMEM_BO_EXPORT_CLOEXEC);
	ASSERT_LE(0, dmabuf);
	EXPECT_EQ(0, gp_destroy(self->fd, id));
	EXPECT_EQ(-EDQUOT, gp_pool_chunk(self->fd, pool, page_size, &other, NULL));
	close(dmabuf);
	/* A view holds the memory, and then only a mapping of the view.  */
	ASSERT_EQ(0, gp_pool_chunk(self->fd, pool, BYTES, &id, &chunk));
	ASSERT_EQ(0, gp_chunk_open(self->other, import, chunk, &open));
	p = gp_map(self->other, open.id, 0, BYTES, RW);
	ASSERT_NE(NULL, p);
	EXPECT_EQ(0, gp_destroy(self->fd, id));
	EXPECT_EQ(-EDQUOT, gp_pool_chunk(self->fd, pool, page_size, &other, NULL));
	EXPECT_EQ(0, gp_destroy(self->other, open.id));
	EXPECT_EQ(-EDQUOT, gp_pool_chunk(self->fd, pool, page_size, &other, NULL));
	munmap(p, BYTES);
	ASSERT_EQ(0, gp_pool_chunk(self->fd, pool, BYTES, &id, &chunk));
	EXPECT_EQ(BYTES, gp_pool_reserved(self->fd, pool));
}

struct crowd {
	int fd;
	__u32 pool;
	__u64 limit;
	_Atomic unsigned int made, refused, wrong;
};

static void *crowd_main(void *arg)
{
	struct crowd *c = arg;
	__u32 ids[4];

	for (int round = 0; round < 200; round++) {
		int n = 0;

		while (n < 4) {
			int ret = gp_pool_chunk(c->fd, c->pool, page_size, &ids[n], NULL);

			if (ret == -EDQUOT) {
				c->refused++;
				break;
			}
			if (ret || gp_pool_reserved(c->fd, c->pool) > c->limit)
				c->wrong++;
			if (ret)
				break;
			n++;
			c->made++;
		}
		while (n)
			if (gp_destroy(c->fd, ids[--n]))
				c->wrong++;
	}
	return NULL;
}

TEST_F_TIMEOUT(pool, limit_and_threads, 60)
{
	static struct crowd c;
	struct gpumem_pool_info info;
	pthread_t t[3];

	c.fd = self->fd;
	c.limit = 7 * page_size;
	ASSERT_EQ(0, gp_pool_create(self->fd, 0, 0, c.limit, "crowd", &c.pool));
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(0, pthread_create(&t[i], NULL, crowd_main, &c));
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	printf("# %u chunks made, %u refused\n", atomic_load(&c.made), atomic_load(&c.refused));
	EXPECT_EQ(0, atomic_load(&c.wrong));
	EXPECT_LT(0, atomic_load(&c.made));
	EXPECT_TRUE(gp_reserved_becomes(self->fd, c.pool, 0));
	ASSERT_EQ(0, gp_pool_info(self->fd, c.pool, 0, &info));
	EXPECT_GE(c.limit, info.reserved_high);
	EXPECT_EQ(0, info.chunks);
}

TEST_HARNESS_MAIN
