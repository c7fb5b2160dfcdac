// SPDX-License-Identifier: GPL-2.0
/*
 * Managed memory that is mostly read: which devices get copies and are charged, which writes take
 * them away, what a pin or a stream that uses the memory changes; discards of managed memory; and
 * a model of reads, writes and discards.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "common/pin_util.h"
#include "common/util.h"
#include "advice_util.h"
#include "busy_util.h"
#include "managed_util.h"
#include "share_util.h"

#define READ_MOSTLY(id, length) ADVISE((id), 0, (length), READ_MOSTLY, GPUMEM_ADVICE_NONE)
#define NOT_READ_MOSTLY(id, length) ADVISE((id), 0, (length), NOT_READ_MOSTLY, GPUMEM_ADVICE_NONE)
/* The engine of a stream reads @bytes at @addr, into the client's device memory. */
#define READ(stream, addr, bytes) execute((stream), sqe_copy(BUFFER, (addr), (bytes)))
#define STATS stats_of(self->fd)

/* Device memory into which the engines of @devices copy what they read. */
static int sink(int fd, __u32 vm, __u32 devices)
{
	__u32 id;

	return gp_bo_alloc(fd, BLOCK, &id) ?:
	       gp_vm_map(fd, vm, id, 0, BUFFER, BLOCK, devices, devices);
}

/* A read gives the device a copy; a write of the CPU takes it away. */
TEST_F(managed, cpu_writes)
{
	__u32 id = MAKE(2 * BLOCK, ADDR);
	unsigned char *p;

	ASSERT_NE(0, id);
	ASSERT_EQ(0, sink(self->fd, self->vm, 1));
	p = gp_map(self->fd, id, 0, 2 * BLOCK, RW);
	ASSERT_NE(NULL, p);
	memset(p, 1, 2 * BLOCK);
	ASSERT_EQ(0, READ_MOSTLY(id, 2 * BLOCK));
	EXPECT_EQ(0, RESIDENT(id));
	ASSERT_EQ(0, READ(&self->s, ADDR, BLOCK));
	ASSERT_EQ(0, READ(&self->s, ADDR + BLOCK, BLOCK));
	EXPECT_EQ(2, RESIDENT(id));
	EXPECT_EQ(2, blocks_on(0));
	EXPECT_EQ(2 * BLOCK, STATS.managed_duplicated);
	EXPECT_EQ(2, STATS.managed_duplications);
	EXPECT_EQ((long long)(3 * BLOCK), dev_attr(0, "used"));
	/* Reads of the CPU keep the copies, and so do more reads of the device. */
	EXPECT_TRUE(all_are(p, 1, 2 * BLOCK));
	ASSERT_EQ(0, READ(&self->s, ADDR, BLOCK));
	EXPECT_EQ(2 * BLOCK, STATS.managed_duplicated);
	EXPECT_EQ(2, STATS.managed_duplications);
	EXPECT_EQ(0, STATS.managed_collapses);
	/* A write ends them, for its block only, with the charge. */
	p[7] = 2;
	EXPECT_EQ(1, blocks_on(0));
	EXPECT_EQ(BLOCK, STATS.managed_duplicated);
	EXPECT_EQ(1, STATS.managed_collapses);
	EXPECT_EQ((long long)(2 * BLOCK), dev_attr(0, "used"));
	p[8] = 2;
	EXPECT_EQ(1, STATS.managed_collapses);
	/* The next read sees what was written, and duplicates the block again. */
	ASSERT_EQ(0, execute(&self->s, sqe_copy(ADDR + BLOCK + 1, ADDR + 7, 1)));
	EXPECT_EQ(2, p[BLOCK + 1]);
	EXPECT_EQ(BLOCK, STATS.managed_duplicated);
	p[9] = 3;
	EXPECT_EQ(0, STATS.managed_duplicated);
	EXPECT_EQ(1, p[10]);
	/* Fresh memory is not there yet: the read makes it zero. */
	ASSERT_EQ(0, gp_vm_unmap(self->fd, self->vm, ADDR, 2 * BLOCK, NULL));
	ASSERT_EQ(0, gp_destroy(self->fd, id));
	EXPECT_TRUE(dev_attr_becomes(0, "managed", 0, 10));
}

/* Writes of the kernel on the program's behalf, and memory that is mapped twice. */
TEST_F(managed, kernel_writes)
{
	__u32 id = MAKE(BLOCK, ADDR);
	int fd = open("/dev/zero", O_RDONLY), mem = open("/proc/self/mem", O_RDWR);
	unsigned char *p, *q;

	ASSERT_NE(0, id);
	ASSERT_LE(0, fd);
	ASSERT_LE(0, mem);
	ASSERT_EQ(0, sink(self->fd, self->vm, 1));
	p = gp_map(self->fd, id, 0, BLOCK, RW);
	q = gp_map(self->fd, id, 0, BLOCK, RW);
	ASSERT_TRUE(p && q);
	memset(p, 1, BLOCK);
	ASSERT_EQ(0, READ_MOSTLY(id, BLOCK));
	/* read(2) */
	ASSERT_EQ(0, READ(&self->s, ADDR, BLOCK));
	EXPECT_EQ(1, blocks_on(0));
	EXPECT_EQ(1, q[5]);
	EXPECT_EQ(100, read(fd, p, 100));
	EXPECT_EQ(0, blocks_on(0));
	/* /proc/PID/mem */
	ASSERT_EQ(0, READ(&self->s, ADDR, BLOCK));
	EXPECT_EQ(1, blocks_on(0));
	EXPECT_EQ(1, pwrite(mem, "x", 1, (uintptr_t)(q + 9)));
	EXPECT_EQ('x', p[9]);
	EXPECT_EQ(0, blocks_on(0));
	/* Locked memory, and memory whose protection changed meanwhile. */
	ASSERT_EQ(0, mlock(p, BLOCK));
	ASSERT_EQ(0, READ(&self->s, ADDR, BLOCK));
	EXPECT_EQ(1, blocks_on(0));
	EXPECT_EQ(1, p[BLOCK - 1]);
	ASSERT_EQ(0, mprotect(p, page_size, PROT_READ));
	EXPECT_EQ(0, p[0]);
	ASSERT_EQ(0, mprotect(p, page_size, RW));
	EXPECT_EQ(1, blocks_on(0));
	p[0] = 4;
	EXPECT_EQ(0, blocks_on(0));
	ASSERT_EQ(0, munlock(p, BLOCK));
	/* The other mapping sees the same. */
	ASSERT_EQ(0, READ(&self->s, ADDR, BLOCK));
	EXPECT_EQ(1, p[1000]);
	q[1000] = 5;
	EXPECT_EQ(0, blocks_on(0));
	EXPECT_EQ(5, p[1000]);
	close(fd);
	close(mem);
}

/* An engine's write makes the block resident; the advice ends a copy, too. */
TEST_F(managed, engine_writes)
{
	__u32 id = MAKE(3 * BLOCK, ADDR);

	ASSERT_NE(0, id);
	ASSERT_EQ(0, sink(self->fd, self->vm, 1));
	ASSERT_EQ(0, READ_MOSTLY(id, 3 * BLOCK));
	for (unsigned int i = 0; i < 3; i++)
		ASSERT_EQ(0, READ(&self->s, ADDR + i * BLOCK, BLOCK));
	EXPECT_EQ(3 * BLOCK, STATS.managed_duplicated);
	ASSERT_EQ(0, FILL(ADDR, 1, 100));
	EXPECT_EQ(2 * BLOCK, STATS.managed_duplicated);
	EXPECT_EQ(3, blocks_on(0));
	EXPECT_EQ(1, STATS.managed_collapses);
	/* A device's own reads keep a resident block as it is. */
	ASSERT_EQ(0, READ(&self->s, ADDR, BLOCK));
	EXPECT_EQ(2 * BLOCK, STATS.managed_duplicated);
	/* A prefetch to the host makes it a copy: the host has one, too. */
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, BLOCK, GPUMEM_PREFETCH_HOST)));
	EXPECT_EQ(3 * BLOCK, STATS.managed_duplicated);
	EXPECT_EQ(3, blocks_on(0));
	/* Without the advice nothing is duplicated, and the preferred device keeps its copy. */
	ASSERT_EQ(0, ADVISE(id, BLOCK, BLOCK, PREFERRED, 0));
	ASSERT_EQ(0, NOT_READ_MOSTLY(id, 3 * BLOCK));
	EXPECT_EQ(0, STATS.managed_duplicated);
	EXPECT_EQ(1, blocks_on(0));
	EXPECT_EQ(4, STATS.managed_collapses);
	ASSERT_EQ(0, READ(&self->s, ADDR, BLOCK));
	EXPECT_EQ(2, blocks_on(0));
	EXPECT_EQ(0, STATS.managed_duplicated);
	/* A prefetch to the device duplicates, too. */
	ASSERT_EQ(0, READ_MOSTLY(id, 3 * BLOCK));
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR + 2 * BLOCK, 1, GPUMEM_PREFETCH_DEVICE)));
	EXPECT_EQ(BLOCK, STATS.managed_duplicated);
	EXPECT_EQ(3, blocks_on(0));
}

/* Copies go before resident blocks, and nothing of them moves out. */
TEST_F(managed, copies_go_first)
{
	__u32 id[BLOCKS + 1];
	unsigned char *p;

	for (unsigned int i = 0; i < BLOCKS + 1; i++) {
		id[i] = MAKE(BLOCK, ADDR + i * BLOCK);
		ASSERT_NE(0, id[i]);
	}
	p = gp_map(self->fd, id[3], 0, BLOCK, RW);
	ASSERT_NE(NULL, p);
	memset(p, 9, BLOCK);
	ASSERT_EQ(0, READ_MOSTLY(id[3], BLOCK));
	for (unsigned int i = 0; i < BLOCKS; i++)
		if (i != 3)
			ASSERT_EQ(0, FILL(ADDR + i * BLOCK, i + 1, BLOCK));
	ASSERT_EQ(0, execute(&self->s, sqe_copy(ADDR, ADDR + 3 * BLOCK, 8)));
	EXPECT_EQ(BLOCK, STATS.managed_duplicated);
	EXPECT_EQ((long long)BLOCKS, blocks_on(0));
	ASSERT_EQ(0, FILL(ADDR + BLOCKS * BLOCK, 1, BLOCK));
	EXPECT_EQ(0, STATS.managed_duplicated);
	EXPECT_EQ(0, RESIDENT(id[3]));
	EXPECT_EQ((long long)BLOCKS, blocks_on(0));
	EXPECT_EQ(1, STATS.managed_evictions);
	EXPECT_EQ(0, STATS.managed_out);
	EXPECT_EQ(0, STATS.managed_collapses);
	EXPECT_TRUE(all_are(p, 9, BLOCK));
	/* Writes while the device is full. */
	ASSERT_EQ(0, execute(&self->s, sqe_copy(ADDR, ADDR + 3 * BLOCK, 8)));
	p[1] = 8;
	EXPECT_EQ(0, STATS.managed_duplicated);
	ASSERT_EQ(0, execute(&self->s, sqe_copy(ADDR + 3 * BLOCK, ADDR + 3 * BLOCK + 1, 1)));
	EXPECT_EQ(8, p[0]);
	EXPECT_EQ(1, RESIDENT(id[3]));
	EXPECT_EQ(0, STATS.managed_duplicated);
}

/* Two devices have a copy each, and each counts it. */
TEST_F(managed, two_devices)
{
	struct second second;
	unsigned char *p;
	__u32 id;

	if (dev_count() < 2)
		SKIP(return, "one device");
	ASSERT_EQ(0, second_open(self->fd, self->vm, &second));
	ASSERT_EQ(0, sink(self->fd, self->vm, 3));
	id = make_for_both(self->fd, self->vm, BLOCK, ADDR);
	ASSERT_NE(0, id);
	p = gp_map(self->fd, id, 0, BLOCK, RW);
	ASSERT_NE(NULL, p);
	ASSERT_EQ(0, FILL(ADDR, 1, BLOCK));
	/* What the advice says about other places does not matter. */
	ASSERT_EQ(0, ADVISE(id, 0, BLOCK, PREFERRED, GPUMEM_ADVICE_HOST));
	ASSERT_EQ(0, READ_MOSTLY(id, BLOCK));
	ASSERT_EQ(0, READ(&second.s, ADDR, BLOCK));
	EXPECT_EQ(1, blocks_on(0));
	EXPECT_EQ(1, blocks_on(1));
	EXPECT_EQ(2 * BLOCK, STATS.managed_duplicated);
	EXPECT_EQ(2 * BLOCK, STATS.managed_resident);
	EXPECT_EQ(2, RESIDENT(id));
	/* The second device writes: the first one loses its copy. */
	ASSERT_EQ(0, execute(&second.s, sqe_fill(ADDR, 1, 2, BLOCK)));
	EXPECT_EQ(0, blocks_on(0));
	EXPECT_EQ(1, blocks_on(1));
	EXPECT_EQ(0, STATS.managed_duplicated);
	ASSERT_EQ(0, READ(&self->s, ADDR, BLOCK));
	EXPECT_EQ(1, blocks_on(0));
	EXPECT_EQ(1, blocks_on(1));
	/* The CPU writes: both lose it. */
	EXPECT_EQ(2, p[3]);
	p[3] = 4;
	EXPECT_EQ(0, blocks_on(0));
	EXPECT_EQ(0, blocks_on(1));
	/* The end of the advice, with a preferred device. */
	ASSERT_EQ(0, READ(&second.s, ADDR, BLOCK));
	ASSERT_EQ(0, READ(&self->s, ADDR, BLOCK));
	ASSERT_EQ(0, ADVISE(id, 0, BLOCK, PREFERRED, 1));
	ASSERT_EQ(0, NOT_READ_MOSTLY(id, BLOCK));
	EXPECT_EQ(0, blocks_on(0));
	EXPECT_EQ(1, blocks_on(1));
	EXPECT_EQ(0, STATS.managed_duplicated);
	EXPECT_EQ(0, stream_close(&second.s));
	close(second.fd);
}

/* A pin keeps a block from being duplicated, and the advice refuses later pins. */
TEST_F(managed, pinned)
{
	__u32 id = MAKE(2 * BLOCK, ADDR), pin, other;
	unsigned char *p;

	ASSERT_NE(0, id);
	ASSERT_EQ(0, sink(self->fd, self->vm, 1));
	p = gp_map(self->fd, id, 0, 2 * BLOCK, RW);
	ASSERT_NE(NULL, p);
	memset(p, 1, 2 * BLOCK);
	ASSERT_EQ(0, bo_pin(self->fd, p, page_size, 0, &pin));
	ASSERT_EQ(0, READ_MOSTLY(id, 2 * BLOCK));
	ASSERT_EQ(0, READ(&self->s, ADDR, BLOCK));
	ASSERT_EQ(0, READ(&self->s, ADDR + BLOCK, BLOCK));
	EXPECT_EQ(2, RESIDENT(id));
	EXPECT_EQ(BLOCK, STATS.managed_duplicated);
	p[3] = 2;
	EXPECT_EQ(2, RESIDENT(id));
	EXPECT_EQ(-EFAULT, bo_pin(self->fd, p + BLOCK, page_size, 0, &other));
	EXPECT_EQ(BLOCK, STATS.managed_duplicated);
	EXPECT_EQ(0, gp_destroy(self->fd, pin));
}

/* Waits until the copies of all blocks, of @bytes, are gone but these. */
static bool duplicated_becomes(int fd, __u64 bytes)
{
	for (int i = 0; i < 1000 && stats_of(fd).managed_duplicated != bytes; i++)
		nap_ms(10);
	return stats_of(fd).managed_duplicated == bytes;
}

/*
 * A stream uses a copy: it waits for another driver before it reads.  The CPU's write does not wait
 * for the stream, and takes the copy when the stream is done.
 */
TEST_F(managed, written_in_use)
{
	__u32 id = MAKE(BLOCK, ADDR);
	unsigned char *p;
	struct busy b;
	int ret;

	ASSERT_NE(0, id);
	p = gp_map(self->fd, id, 0, BLOCK, RW);
	ASSERT_NE(NULL, p);
	ret = busy_make(&b, self->fd, self->vm);
	if (ret == -ENODEV)
		SKIP(return, "no vgem");
	ASSERT_EQ(0, ret);
	for (int end = 0; end < 3; end++) {
		struct stream other;

		ASSERT_EQ(0, stream_open(&other, self->fd, self->vm, 0, 16));
		memset(p, 1, BLOCK);
		/* The device would not copy a block that is resident there. */
		ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, BLOCK, GPUMEM_PREFETCH_HOST)));
		ASSERT_EQ(0, READ_MOSTLY(id, BLOCK));
		ASSERT_EQ(0, busy_begin(&b));
		PUSH(&other, sqe_copy(BUFFER, ADDR, BLOCK));
		EXPECT_TRUE(duplicated_becomes(self->fd, BLOCK));
		/* A block in use is not discarded. */
		ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, BLOCK, GPUMEM_PREFETCH_DISCARD)));
		EXPECT_EQ(1, p[3]);
		EXPECT_EQ(BLOCK, STATS.managed_duplicated);
		if (end != 1) {
			p[3] = 2;
			EXPECT_EQ(BLOCK, STATS.managed_duplicated);
		}
		if (end) {
			ASSERT_EQ(0, ADVISE(id, 0, BLOCK, PREFERRED, 0));
			ASSERT_EQ(0, NOT_READ_MOSTLY(id, BLOCK));
			EXPECT_EQ(BLOCK, STATS.managed_duplicated);
		}
		ASSERT_EQ(0, vgem_signal(b.card, b.fence));
		EXPECT_EQ(0, stream_wait(&other, 1, 30));
		EXPECT_TRUE(duplicated_becomes(self->fd, 0));
		/* If the advice ended, the preferred device keeps the block. */
		EXPECT_EQ(!!end, blocks_on(0));
		EXPECT_EQ(!!end, RESIDENT(id));
		EXPECT_EQ(0, stream_close(&other));
	}
	/* Nothing of this is left when the advice begins again. */
	ASSERT_EQ(0, READ_MOSTLY(id, BLOCK));
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, BLOCK, GPUMEM_PREFETCH_HOST)));
	EXPECT_EQ(BLOCK, STATS.managed_duplicated);
	EXPECT_EQ(2, p[3]);
	p[3] = 1;
	EXPECT_EQ(0, STATS.managed_duplicated);
	EXPECT_EQ(0, blocks_on(0));
	EXPECT_EQ(0, pinned());
	EXPECT_EQ(0, busy_end(&b));
	close(b.card);
}

/* A stream that waits uses a block while another one writes it. */
TEST_F(managed, engine_writes_in_use)
{
	__u32 id = MAKE(BLOCK, ADDR);
	struct stream other;
	struct busy b;
	int ret;

	ASSERT_NE(0, id);
	ret = busy_make(&b, self->fd, self->vm);
	if (ret == -ENODEV)
		SKIP(return, "no vgem");
	ASSERT_EQ(0, ret);
	ASSERT_EQ(0, stream_open(&other, self->fd, self->vm, 0, 16));
	ASSERT_EQ(0, READ_MOSTLY(id, BLOCK));
	ASSERT_EQ(0, busy_begin(&b));
	PUSH(&other, sqe_copy(BUFFER, ADDR, BLOCK));
	EXPECT_TRUE(duplicated_becomes(self->fd, BLOCK));
	ASSERT_EQ(0, FILL(ADDR, 7, 8));
	EXPECT_EQ(0, STATS.managed_duplicated);
	EXPECT_EQ(1, RESIDENT(id));
	EXPECT_EQ(0, STATS.managed_held);
	EXPECT_EQ(0, pinned());
	/* Reads of a block that others use find its place. */
	ASSERT_EQ(0, execute(&self->s, sqe_copy(ADDR + 16, ADDR, 8)));
	EXPECT_EQ(0, pinned());
	ASSERT_EQ(0, vgem_signal(b.card, b.fence));
	EXPECT_EQ(0, stream_wait(&other, 1, 30));
	EXPECT_EQ(1, RESIDENT(id));
	EXPECT_EQ(0, stream_close(&other));
	EXPECT_EQ(0, busy_end(&b));
	close(b.card);
}

#define RACE_BLOCKS	3

struct writer {
	volatile unsigned char *p;
	volatile bool stop;
	unsigned int rounds, wrong;
};

/* Writes bytes that nobody else writes, and looks whether they stay. */
static void *writer_run(void *arg)
{
	struct writer *w = arg;

	while (!w->stop) {
		for (unsigned int i = 0; i < RACE_BLOCKS; i++) {
			w->wrong += w->p[i * BLOCK] != (unsigned char)w->rounds;
			w->p[i * BLOCK] = w->rounds + 1;
		}
		w->rounds++;
	}
	return NULL;
}

/* The CPU writes while engines read and write, and while the advice and the place change. */
TEST_F_TIMEOUT(managed, race, 300)
{
	unsigned int steps = env_number("GPUMEM_STEPS", 3000) / 10;
	__u32 id = MAKE(RACE_BLOCKS * BLOCK, ADDR);
	struct writer w = {};
	struct stream other;
	pthread_t thread;
	struct rng r;

	rng_start(&r, "race");
	ASSERT_NE(0, id);
	ASSERT_EQ(0, sink(self->fd, self->vm, 1));
	ASSERT_EQ(0, stream_open(&other, self->fd, self->vm, 0, 64));
	w.p = gp_map(self->fd, id, 0, RACE_BLOCKS * BLOCK, RW);
	ASSERT_NE(NULL, w.p);
	ASSERT_EQ(0, READ_MOSTLY(id, RACE_BLOCKS * BLOCK));
	ASSERT_EQ(0, pthread_create(&thread, NULL, writer_run, &w));
	for (unsigned int step = 0; step < steps; step++) {
		__u64 at = ADDR + rng_below(&r, RACE_BLOCKS) * BLOCK;

		switch (rng_below(&r, 8)) {
		case 0:
			PUSH(&other, sqe_fill(at + page_size, 1, step, page_size));
			break;
		case 1:
			ASSERT_EQ(0, execute(&self->s, sqe_prefetch(at, BLOCK, step & 1)));
			break;
		case 2:
			ASSERT_EQ(0, execute(&self->s, sqe_prefetch(at + page_size, page_size,
								    GPUMEM_PREFETCH_DISCARD)));
			break;
		case 3:
			ASSERT_EQ(0, READ_MOSTLY(id, RACE_BLOCKS * BLOCK));
			break;
		case 4:
			ASSERT_EQ(0, NOT_READ_MOSTLY(id, RACE_BLOCKS * BLOCK));
			break;
		default:
			ASSERT_EQ(0, READ(&self->s, at, BLOCK));
		}
		if (!(step % 16))
			ASSERT_EQ(0, stream_sync(&other));
	}
	ASSERT_EQ(0, stream_sync(&other));
	w.stop = true;
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_LT(0, w.rounds);
	EXPECT_EQ(0, w.wrong);
	ASSERT_EQ(0, NOT_READ_MOSTLY(id, RACE_BLOCKS * BLOCK));
	EXPECT_TRUE(duplicated_becomes(self->fd, 0));
	EXPECT_EQ(RESIDENT(id), blocks_on(0));
	EXPECT_EQ(0, pinned());
	EXPECT_EQ(0, stream_close(&other));
	ASSERT_EQ(0, gp_vm_unmap(self->fd, self->vm, ADDR, RACE_BLOCKS * BLOCK, NULL));
	ASSERT_EQ(0, gp_destroy(self->fd, id));
	EXPECT_TRUE(dev_attr_becomes(0, "managed", 0, 10));
}

/* Processes that die, and objects that go, take their copies along. */
TEST_F(managed, killed)
{
	pid_t pid = fork();
	int status;

	ASSERT_LE(0, pid);
	if (!pid) {
		int fd = gp_open(0);
		struct stream s;
		__u32 vm, id;

		if (fd < 0 || gp_vm_create(fd, &vm) || stream_open(&s, fd, vm, 0, 64) ||
		    sink(fd, vm, 1))
			_exit(1);
		id = make(fd, vm, 2 * BLOCK, ADDR);
		if (!id || gp_bo_advise(fd, id, 0, 2 * BLOCK, GPUMEM_ADVICE_READ_MOSTLY,
					GPUMEM_ADVICE_NONE) ||
		    READ(&s, ADDR, BLOCK) || blocks_on(0) != 1)
			_exit(2);
		kill(getpid(), SIGKILL);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
	EXPECT_TRUE(dev_attr_becomes(0, "managed", 0, 10));
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 10));
}

/* --- discards */

/* Whole pages go; the rest of the memory stays as it is. */
TEST_F(managed, discard)
{
	const __u64 length = 3 * BLOCK;
	struct gpumem_sqe discard;
	__u32 id = MAKE(length, ADDR);
	unsigned char *p;

	ASSERT_NE(0, id);
	p = gp_map(self->fd, id, 0, length, RW);
	ASSERT_NE(NULL, p);
	ASSERT_EQ(0, FILL(ADDR, 1, length));
	EXPECT_EQ(3, RESIDENT(id));
	EXPECT_EQ(length, present(self->fd, id));
	/* A block, in the order of the stream. */
	PUSH(&self->s, sqe_fill(ADDR + BLOCK, 1, 2, BLOCK));
	PUSH(&self->s, sqe_prefetch(ADDR + BLOCK, BLOCK, GPUMEM_PREFETCH_DISCARD));
	ASSERT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(2, RESIDENT(id));
	EXPECT_EQ(2 * BLOCK, present(self->fd, id));
	EXPECT_EQ((long long)(2 * BLOCK), managed_used());
	EXPECT_EQ((long long)(2 * BLOCK), dev_attr(0, "used"));
	EXPECT_TRUE(all_are(p + BLOCK, 0, BLOCK));
	EXPECT_TRUE(all_are(p, 1, BLOCK));
	EXPECT_TRUE(all_are(p + 2 * BLOCK, 1, BLOCK));
	/* Discard and prefetch: resident, and zero. */
	PUSH(&self->s, sqe_prefetch(ADDR, BLOCK, GPUMEM_PREFETCH_DISCARD));
	PUSH(&self->s, sqe_prefetch(ADDR, BLOCK, GPUMEM_PREFETCH_DEVICE));
	ASSERT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(2, RESIDENT(id));
	EXPECT_TRUE(all_are(p, 0, BLOCK));
	/* Bytes of a page that is not discarded as a whole stay. */
	ASSERT_EQ(0, FILL(ADDR, 4, length));
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR + 1, 2 * page_size - 1,
						    GPUMEM_PREFETCH_DISCARD)));
	EXPECT_TRUE(all_are(p, 4, page_size));
	EXPECT_TRUE(all_are(p + page_size, 0, page_size));
	EXPECT_TRUE(all_are(p + 2 * page_size, 4, length - 2 * page_size));
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR + 5, page_size,
						    GPUMEM_PREFETCH_DISCARD)));
	EXPECT_TRUE(all_are(p, 4, page_size));
	/* Copies go, too, and memory that no engine has touched. */
	ASSERT_EQ(0, READ_MOSTLY(id, length));
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, length, GPUMEM_PREFETCH_DEVICE)));
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, length, GPUMEM_PREFETCH_HOST)));
	EXPECT_EQ(length, STATS.managed_duplicated);
	discard = sqe_prefetch(ADDR, length, GPUMEM_PREFETCH_DISCARD);
	ASSERT_EQ(0, execute(&self->s, discard));
	EXPECT_EQ(0, STATS.managed_duplicated);
	EXPECT_EQ(0, present(self->fd, id));
	EXPECT_EQ(0, dev_attr(0, "used"));
	p[BLOCK] = 7;
	EXPECT_LE(page_size, present(self->fd, id));
	ASSERT_EQ(0, execute(&self->s, discard));
	EXPECT_EQ(0, p[BLOCK]);
	/* Nothing is there, or nothing can be. */
	ASSERT_EQ(0, execute(&self->s, discard));
	ASSERT_EQ(0, execute(&self->s, discard));
	EXPECT_EQ(0, execute(&self->s, sqe_prefetch(OTHER, 1, GPUMEM_PREFETCH_DISCARD)));
}

/* A page that another subsystem holds stays, with all of its range in the block. */
TEST_F(managed, discard_of_pinned)
{
	__u32 id = MAKE(2 * BLOCK, ADDR), pin;
	unsigned char *p;

	ASSERT_NE(0, id);
	p = gp_map(self->fd, id, 0, 2 * BLOCK, RW);
	ASSERT_NE(NULL, p);
	memset(p, 1, 2 * BLOCK);
	ASSERT_EQ(0, bo_pin(self->fd, p, page_size, 0, &pin));
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, 2 * BLOCK, GPUMEM_PREFETCH_DISCARD)));
	EXPECT_TRUE(all_are(p, 1, BLOCK));
	EXPECT_TRUE(all_are(p + BLOCK, 0, BLOCK));
	EXPECT_EQ(0, gp_destroy(self->fd, pin));
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, 2 * BLOCK, GPUMEM_PREFETCH_DISCARD)));
	EXPECT_TRUE(all_are(p, 0, BLOCK));
}

/* A device that may only read memory does not discard it. */
TEST_F(managed, discard_needs_write)
{
	__u32 id = MAKE(BLOCK, ADDR);
	unsigned char *p;

	ASSERT_NE(0, id);
	p = gp_map(self->fd, id, 0, BLOCK, RW);
	ASSERT_NE(NULL, p);
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, id, 0, OTHER, BLOCK, 1, 0));
	memset(p, 1, BLOCK);
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(OTHER, BLOCK, GPUMEM_PREFETCH_DISCARD)));
	EXPECT_TRUE(all_are(p, 1, BLOCK));
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, BLOCK, GPUMEM_PREFETCH_DISCARD)));
	EXPECT_TRUE(all_are(p, 0, BLOCK));
}

/* --- a model: twice the device's memory; the engine and the CPU read and write at random */

#define OBJECTS	4

static bool readable(struct stream *s, const unsigned char *sink,
		     __u64 addr, const unsigned char *want, __u64 bytes)
{
	return !READ(s, addr, bytes) && !memcmp(sink, want, bytes);
}

TEST_F_TIMEOUT(managed, model, 600)
{
	__u64 steps = env_number("GPUMEM_STEPS", 1800) / 3, length = 4 * BLOCK;
	unsigned char *p[OBJECTS], *want[OBJECTS], *seen;
	__u32 id[OBJECTS], bo;
	struct rng r;

	rng_start(&r, "duplicates");
	ASSERT_EQ(0, gp_bo_alloc(self->fd, BLOCK, &bo));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, bo, 0, BUFFER, BLOCK, 1, 1));
	seen = gp_map(self->fd, bo, 0, BLOCK, RW);
	ASSERT_NE(NULL, seen);
	for (unsigned int i = 0; i < OBJECTS; i++) {
		id[i] = MAKE(length, ADDR + i * (1ULL << 32));
		ASSERT_NE(0, id[i]);
		p[i] = gp_map(self->fd, id[i], 0, length, RW);
		want[i] = calloc(1, length);
		ASSERT_TRUE(p[i] && want[i]);
	}
	for (__u64 step = 0; step < steps; step++) {
		unsigned int i = rng_below(&r, OBJECTS), value = rng_below(&r, 256);
		__u64 bytes = 1 + rng_below(&r, rng_below(&r, 4) ? 2 * page_size : BLOCK);
		__u64 at = rng_below(&r, length - bytes + 1), addr = ADDR + i * (1ULL << 32) + at;

		switch (rng_below(&r, 9)) {
		case 8:
			at -= at % BLOCK;
			ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR + i * (1ULL << 32) + at,
								    BLOCK, 2)));
			/* A page is zero now, or what it was. */
			for (__u64 k = at; k < at + BLOCK; k += page_size) {
				if (memcmp(p[i] + k, want[i] + k, page_size))
					memset(want[i] + k, 0, page_size);
			}
			ASSERT_EQ(0, memcmp(p[i] + at, want[i] + at, BLOCK));
			break;
		case 0:
			ASSERT_EQ(0, execute(&self->s, sqe_fill(addr, 1, value, bytes)));
			memset(want[i] + at, value, bytes);
			break;
		case 1:
			memset(p[i] + at, value, bytes);
			memset(want[i] + at, value, bytes);
			break;
		case 2:
		case 3:
			ASSERT_EQ(0, memcmp(p[i] + at, want[i] + at, bytes));
			break;
		case 4:
		case 5:
			ASSERT_TRUE(readable(&self->s, seen, addr, want[i] + at, bytes));
			break;
		case 6:
			ASSERT_EQ(0, execute(&self->s,
					     sqe_prefetch(addr, bytes, rng_below(&r, 2))));
			break;
		default:
			ASSERT_EQ(0, rng_below(&r, 3) ? READ_MOSTLY(id[i], length) :
							NOT_READ_MOSTLY(id[i], length));
		}
		ASSERT_GE((long long)(BLOCKS * BLOCK), dev_attr(0, "used"));
		ASSERT_GE(STATS.managed_resident, STATS.managed_duplicated);
	}
	for (unsigned int i = 0; i < OBJECTS; i++) {
		EXPECT_EQ(0, memcmp(p[i], want[i], length));
		free(want[i]);
	}
}

TEST_HARNESS_MAIN
