// SPDX-License-Identifier: GPL-2.0
/*
 * Cached chunks, which a client keeps and which do not count as reserved: the words of the cache
 * page, the counters, and when the kernel takes the memory.
 *
 * The kernel takes cached memory before it refuses an allocation, and when the system is short of
 * memory.  It never takes memory that another process reaches, or a chunk that the client has taken
 * back.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "kselftest_harness.h"
#include "common/client_fixture.h"
#include "common/pool_util.h"

#define BYTES	(2 * MIB)
#define RW	(PROT_READ | PROT_WRITE)

FIXTURE(cache)
{
	struct leak_state leak;
	int fd, other;
	__u32 pool;
	__u32 *words;
};

static __u32 *words_map(int fd)
{
	void *p = mmap(NULL, page_size, RW, MAP_SHARED, fd, GPUMEM_MMAP_CACHE);

	return p == MAP_FAILED ? NULL : p;
}

FIXTURE_SETUP(cache)
{
	client_begin(_metadata, &self->leak, &self->fd);
	self->other = gp_open(0);
	ASSERT_LE(0, self->other);
	self->words = words_map(self->fd);
	ASSERT_NE(NULL, self->words);
	ASSERT_EQ(0, gp_pool_create(self->fd, 0, 0, 0, "fixture", &self->pool));
}

FIXTURE_TEARDOWN(cache)
{
	unmap_all();
	munmap(self->words, page_size);
	close(self->fd);
	close(self->other);
	EXPECT_TRUE(dev_quiet(10));
	EXPECT_TRUE(leak_end(&self->leak));
}

struct chunk {
	__u32 id, word;
	__u64 number;
};

static int chunk_of(int fd, __u32 pool, __u32 flags, __u64 length, struct chunk *chunk)
{
	struct gpumem_bo_alloc c = {
		.size = sizeof(c), .flags = flags, .length = length, .pool = pool, .word = 0,
	};
	int ret = gp_ioctl(fd, GPUMEM_BO_ALLOC, &c);

	chunk->id = c.id;
	chunk->word = c.word;
	chunk->number = c.chunk;
	return ret;
}

static void keep(__u32 *words, const struct chunk *chunk)
{
	__atomic_store_n(&words[chunk->word], GPUMEM_CACHE_KEPT, __ATOMIC_RELEASE);
}

static bool regain(__u32 *words, const struct chunk *chunk)
{
	__u32 kept = GPUMEM_CACHE_KEPT;

	return __atomic_compare_exchange_n(&words[chunk->word], &kept, GPUMEM_CACHE_USED, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static __u64 total(int fd)
{
	struct gpumem_info info;

	return gp_info(fd, 0, &info) ? 0 : info.total;
}

/* Compares the counters of a client, of its pool and of the device.  */
#define EXPECT_FIGURES(fd, pool, is_reserved, is_cached) do {			\
	struct gpumem_pool_info pool_;						\
	struct gpumem_stats stats_;						\
	struct gpumem_info info_;						\
										\
	ASSERT_EQ(0, gp_pool_info(fd, pool, 0, &pool_));			\
	EXPECT_EQ(is_reserved, pool_.reserved_bytes);				\
	EXPECT_EQ(is_cached, pool_.cached);					\
	ASSERT_EQ(0, gp_stats(fd, &stats_));					\
	EXPECT_EQ(is_reserved, stats_.pool_reserved);				\
	EXPECT_EQ(is_cached, stats_.pool_cached);				\
	ASSERT_EQ(0, gp_info(fd, 0, &info_));					\
	EXPECT_EQ(is_cached, info_.cached);					\
} while (0)

/* --- the page */

TEST_F(cache, words)
{
	struct chunk a, b, c;
	__u32 pool;

	ASSERT_EQ(0, chunk_of(self->fd, self->pool, 0, page_size, &a));
	ASSERT_EQ(0, chunk_of(self->fd, self->pool, 0, page_size, &b));
	EXPECT_LT(0, a.word);
	EXPECT_LT(0, b.word);
	EXPECT_NE(a.word, b.word);
	EXPECT_GT(GPUMEM_CACHE_WORDS, a.word);
	/* A buffer object that is not a chunk has no word; a client without a page has none. */
	ASSERT_EQ(0, chunk_of(self->fd, 0, 0, page_size, &c));
	EXPECT_EQ(0, c.word);
	ASSERT_EQ(0, gp_pool_create(self->other, 0, 0, 0, "", &pool));
	ASSERT_EQ(0, chunk_of(self->other, pool, 0, page_size, &c));
	EXPECT_EQ(0, c.word);
	/* A new chunk's word is USED, whatever it was before.  */
	self->words[a.word] = 99;
	EXPECT_EQ(0, gp_destroy(self->fd, a.id));
	ASSERT_EQ(0, chunk_of(self->fd, self->pool, 0, page_size, &c));
	EXPECT_EQ(a.word, c.word);
	EXPECT_EQ(GPUMEM_CACHE_USED, self->words[c.word]);
	/* An invalid value does not count as KEPT.  */
	self->words[c.word] = 99;
	EXPECT_FIGURES(self->fd, self->pool, 2 * page_size, 0);
}

TEST_F(cache, page)
{
	EXPECT_EQ(self->words[0], 0);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 2 * page_size, RW, MAP_SHARED, self->fd, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, page_size, RW, MAP_SHARED, self->fd, page_size));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, page_size, RW, MAP_PRIVATE, self->fd, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, page_size, RW | PROT_EXEC, MAP_SHARED, self->fd, 0));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(-1, mprotect(self->words, page_size, RW | PROT_EXEC));
	EXPECT_EQ(EACCES, errno);
	/* All mappings of a client show one page.  */
	__u32 *again = words_map(self->fd);

	ASSERT_NE(NULL, again);
	self->words[7] = 1234;
	EXPECT_EQ(1234, again[7]);
	EXPECT_EQ(0, munmap(again, page_size));
}

TEST_F(cache, more_chunks_than_words)
{
	static struct chunk chunk[GPUMEM_CACHE_WORDS + 3];
	unsigned int with = 0;

	for (unsigned int i = 0; i < ARRAY_SIZE(chunk); i++) {
		ASSERT_EQ(0, chunk_of(self->fd, self->pool, 0, page_size, &chunk[i]));
		with += chunk[i].word != 0;
	}
	EXPECT_EQ(GPUMEM_CACHE_WORDS - 1, with);
	/* A chunk without a word is never cached.  */
	for (unsigned int i = 0; i < GPUMEM_CACHE_WORDS; i++)
		self->words[i] = GPUMEM_CACHE_KEPT;
	EXPECT_FIGURES(self->fd, self->pool, 4 * page_size, with * page_size);
}

/* --- figures */

TEST_F(cache, figures)
{
	struct gpumem_pool_info info;
	struct chunk a, b;

	ASSERT_EQ(0, chunk_of(self->fd, self->pool, 0, BYTES, &a));
	ASSERT_EQ(0, chunk_of(self->fd, self->pool, 0, page_size, &b));
	EXPECT_FIGURES(self->fd, self->pool, BYTES + page_size, 0);
	ASSERT_EQ(0, gp_pool_set(self->fd, self->pool, BYTES, BYTES));
	keep(self->words, &a);
	EXPECT_FIGURES(self->fd, self->pool, page_size, BYTES);
	/* Cached memory does not count as used in the pool; the high-water mark stays.  */
	ASSERT_EQ(0, gp_pool_info(self->fd, self->pool, 0, &info));
	EXPECT_EQ(page_size, info.used);
	EXPECT_EQ(BYTES + page_size, info.reserved_high);
	EXPECT_EQ(2, info.chunks);
	/* Cached memory still counts as used in the device.  */
	EXPECT_LE(BYTES + page_size, dev_attr(0, "used"));
	ASSERT_EQ(0, gp_pool_info(self->fd, self->pool, GPUMEM_POOL_INFO_RESET_RESERVED, &info));
	ASSERT_EQ(0, gp_pool_info(self->fd, self->pool, 0, &info));
	EXPECT_EQ(page_size, info.reserved_high);
	EXPECT_TRUE(regain(self->words, &a));
	EXPECT_FIGURES(self->fd, self->pool, BYTES + page_size, 0);
	keep(self->words, &a);
	/*
	 * The client reports the high-water mark that it reached while it took chunks back by
	 * itself; the kernel bounds it.
	 */
	struct gpumem_pool_set set = {
		.size = sizeof(set), .id = self->pool, .reserved_high = BYTES + page_size,
	};
	ASSERT_EQ(0, gp_ioctl(self->fd, GPUMEM_POOL_SET, &set));
	ASSERT_EQ(0, gp_pool_info(self->fd, self->pool, 0, &info));
	EXPECT_EQ(BYTES + page_size, info.reserved_high);
	set.reserved_high = ~0ull;
	ASSERT_EQ(0, gp_ioctl(self->fd, GPUMEM_POOL_SET, &set));
	ASSERT_EQ(0, gp_pool_info(self->fd, self->pool, 0, &info));
	EXPECT_EQ(BYTES + page_size, info.reserved_high);
	EXPECT_EQ(0, gp_destroy(self->fd, a.id));
	EXPECT_TRUE(gp_reserved_becomes(self->fd, self->pool, page_size));
	EXPECT_FIGURES(self->fd, self->pool, page_size, 0);
}

/* --- taking */

/* Another client gets the cached memory; only the ids of the chunks are left. */
TEST_F(cache, full_device)
{
	__u64 part = total(self->fd) / 4;
	struct gpumem_stats stats;
	unsigned char *p[3];
	struct chunk c[3];
	__u32 theirs, view;
	int lost = 0;

	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(0, chunk_of(self->fd, self->pool, 0, part, &c[i]));
		p[i] = gp_map(self->fd, c[i].id, 0, part, RW);
		ASSERT_NE(NULL, p[i]);
		p[i][part - 1] = i + 1;
	}
	keep(self->words, &c[0]);
	keep(self->words, &c[1]);
	/*
	 * An allocation of half of the device takes one of the two cached chunks; the third chunk
	 * is in use.
	 */
	ASSERT_EQ(0, gp_bo_alloc(self->other, 2 * part, &theirs));
	for (int i = 0; i < 2; i++) {
		bool taken = self->words[c[i].word] == GPUMEM_CACHE_TAKEN;

		lost += taken;
		EXPECT_EQ(taken ? -SIGBUS : i + 1, peek(&p[i][part - 1]));
		EXPECT_EQ(!taken, regain(self->words, &c[i]));
		/* A chunk without memory cannot be exported.  */
		if (taken)
			EXPECT_EQ(-ENOENT, gp_bo_export(self->fd, c[i].id, 0, part, 0));
	}
	EXPECT_EQ(1, lost);
	EXPECT_EQ(3, peek(&p[2][part - 1]));
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(3, stats.bos);
	EXPECT_EQ(2 * part, stats.bo_bytes);
	EXPECT_EQ(2 * part, stats.pool_reserved);
	/* The third chunk is in use, so a further page is refused.  */
	EXPECT_EQ(-ENOSPC, gp_bo_alloc(self->other, page_size, &view));
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(0, gp_destroy(self->fd, c[i].id));
}

/* The pool's limit counts cached chunks, and the kernel takes these before it refuses a chunk.  */
TEST_F(cache, limit)
{
	struct chunk a, b, c;
	__u32 pool;

	ASSERT_EQ(0, gp_pool_create(self->fd, 0, 0, 2 * BYTES, "limited", &pool));
	ASSERT_EQ(0, chunk_of(self->fd, pool, 0, BYTES, &a));
	ASSERT_EQ(0, chunk_of(self->fd, pool, 0, BYTES, &b));
	EXPECT_EQ(-EDQUOT, chunk_of(self->fd, pool, 0, BYTES, &c));
	keep(self->words, &b);
	ASSERT_EQ(0, chunk_of(self->fd, pool, 0, BYTES, &c));
	EXPECT_EQ(GPUMEM_CACHE_TAKEN, self->words[b.word]);
	EXPECT_FIGURES(self->fd, pool, 2 * BYTES, 0);
	/* Cached chunks of another pool do not make room.  */
	ASSERT_EQ(0, chunk_of(self->fd, self->pool, 0, BYTES, &b));
	keep(self->words, &b);
	EXPECT_EQ(-EDQUOT, chunk_of(self->fd, pool, 0, BYTES, &c));
	EXPECT_EQ(GPUMEM_CACHE_KEPT, self->words[b.word]);
}

/* The kernel does not discard memory that other clients reach, also if its word is KEPT.  */
TEST_F(cache, reached_by_others)
{
	struct gpumem_pool_chunk_open open;
	unsigned char *p, *q;
	struct chunk a, b;
	__u32 pool, import;

	ASSERT_EQ(0, gp_pool_create(self->fd, 0, 0, BYTES, "limited", &pool));
	ASSERT_EQ(0, gp_pool_share(self->fd, pool, self->other, &import));
	ASSERT_EQ(0, chunk_of(self->fd, pool, 0, BYTES, &a));
	ASSERT_EQ(0, gp_chunk_open(self->other, import, a.number, &open));
	p = gp_map(self->fd, a.id, 0, BYTES, RW);
	q = gp_map(self->other, open.id, 0, BYTES, RW);
	ASSERT_NE(NULL, p);
	ASSERT_NE(NULL, q);
	p[5] = 55;
	keep(self->words, &a);
	EXPECT_FIGURES(self->fd, pool, 0, BYTES);
	EXPECT_EQ(-EDQUOT, chunk_of(self->fd, pool, 0, page_size, &b));
	EXPECT_EQ(GPUMEM_CACHE_TAKEN, self->words[a.word]);
	EXPECT_EQ(55, peek(&p[5]));
	EXPECT_EQ(55, peek(&q[5]));
	/* The chunk counts as reserved again, and setting KEPT once more does not change that.  */
	keep(self->words, &a);
	EXPECT_FIGURES(self->fd, pool, BYTES, 0);
}

/* The kernel does not take a chunk of which a pipe holds a page.  */
TEST_F(cache, held_by_a_pipe)
{
	unsigned char *p, byte = 0;
	struct iovec io;
	struct chunk a, b;
	int ends[2];
	__u32 pool;

	ASSERT_EQ(0, gp_pool_create(self->fd, 0, 0, BYTES, "limited", &pool));
	ASSERT_EQ(0, chunk_of(self->fd, pool, 0, BYTES, &a));
	p = gp_map(self->fd, a.id, 0, BYTES, RW);
	ASSERT_NE(NULL, p);
	p[0] = 77;
	ASSERT_EQ(0, pipe(ends));
	io = (struct iovec) { p, page_size };
	ASSERT_EQ(page_size, vmsplice(ends[1], &io, 1, 0));
	keep(self->words, &a);
	EXPECT_EQ(-EDQUOT, chunk_of(self->fd, pool, 0, page_size, &b));
	EXPECT_EQ(77, peek(p));
	EXPECT_EQ(1, read(ends[0], &byte, 1));
	EXPECT_EQ(77, byte);
	close(ends[0]);
	close(ends[1]);
}

/* The shrinker takes all cached chunks.  */
TEST_F(cache, shrinker)
{
	struct chunk a, h;
	__u64 end = in_seconds(20);
	__u32 pool;
	FILE *f;

	ASSERT_EQ(0, gp_pool_create(self->fd, 0, GPUMEM_POOL_HOST, 0, "host", &pool));
	ASSERT_EQ(0, chunk_of(self->fd, self->pool, 0, BYTES, &a));
	ASSERT_EQ(0, chunk_of(self->fd, pool, GPUMEM_BO_ALLOC_HOST, BYTES, &h));
	keep(self->words, &a);
	keep(self->words, &h);
	while (mono_ns() < end && (self->words[a.word] == GPUMEM_CACHE_KEPT ||
				   self->words[h.word] == GPUMEM_CACHE_KEPT)) {
		f = fopen("/proc/sys/vm/drop_caches", "we");
		if (!f)
			SKIP(return, "caches can be dropped by root alone");
		fputs("2\n", f);
		fclose(f);
		nap_ms(20);
	}
	EXPECT_EQ(GPUMEM_CACHE_TAKEN, self->words[a.word]);
	EXPECT_EQ(GPUMEM_CACHE_TAKEN, self->words[h.word]);
	EXPECT_TRUE(gp_reserved_becomes(self->fd, self->pool, 0));
	EXPECT_FIGURES(self->fd, self->pool, 0, 0);
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 10));
}

struct race {
	int fd;
	__u32 *words;
	__u32 pool;
	unsigned int rounds, made, lost;
	atomic_bool end;
};

/*
 * Keeps a chunk and takes it back in a loop; a chunk that is regained must have the bytes written
 * before.
 */
static void *use_and_keep(void *arg)
{
	struct race *r = arg;
	volatile unsigned char *p = NULL;
	struct chunk c = { .id = 0 };
	int ret;

	for (unsigned int i = 0; i < r->rounds; i++) {
		if (c.id && !regain(r->words, &c)) {
			r->lost++;
			munmap((void *)p, BYTES);
			gp_destroy(r->fd, c.id);
			c.id = 0;
		}
		if (!c.id) {
			/* The other thread may have allocated a page of the room: try again.  */
			do
				ret = chunk_of(r->fd, r->pool, 0, BYTES, &c);
			while (ret == -ENOSPC);
			if (ret)
				return "a chunk";
			p = mmap(NULL, BYTES, RW, MAP_SHARED, r->fd, GPUMEM_MMAP_OFFSET(c.id));
			if (p == MAP_FAILED)
				return "a mapping";
			r->made++;
		}
		p[0] = i;
		p[BYTES - 1] = i;
		sched_yield();
		if (p[0] != (unsigned char)i || p[BYTES - 1] != (unsigned char)i)
			return "memory that was in use is lost";
		keep(r->words, &c);
		if (i % 64 == 63)
			nap_ms(1);
	}
	atomic_store(&r->end, true);
	return NULL;
}

TEST_F_TIMEOUT(cache, race, 120)
{
	struct race r = {
		.fd = self->fd, .words = self->words, .pool = self->pool,
		.rounds = env_number("GPUMEM_STEPS", 5000),
	};
	__u64 room = total(self->fd) - BYTES;
	pthread_t thread;
	void *why = NULL;
	__u32 id;
	int ret;

	/*
	 * The device has room for one chunk only, so each further allocation takes the cached
	 * chunk.
	 */
	ASSERT_EQ(0, gp_bo_alloc(self->other, room, &id));
	ASSERT_EQ(0, pthread_create(&thread, NULL, use_and_keep, &r));
	while (!atomic_load(&r.end)) {
		ret = gp_bo_alloc(self->other, page_size, &id);
		ASSERT_TRUE(!ret || ret == -ENOSPC) {
			TH_LOG("%d", ret);
		}
		if (!ret)
			ASSERT_EQ(0, gp_destroy(self->other, id));
		if (pthread_tryjoin_np(thread, &why) == 0)
			goto joined;
	}
	ASSERT_EQ(0, pthread_join(thread, &why));
joined:
	EXPECT_EQ(NULL, why) {
		TH_LOG("%s", (char *)why);
	}
	EXPECT_LT(0, r.made);
	printf("# %u of %u times lost\n", r.lost, r.rounds);
}

TEST_HARNESS_MAIN
