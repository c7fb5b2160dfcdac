// SPDX-License-Identifier: GPL-2.0
/*
 * Several streams against a sequential model.
 *
 * Random copies, fills (also of two dimensions), timestamps, signals and waits go to several
 * streams of several devices over the same memory: device memory of each device and registered
 * memory, one after the other in one range of addresses.  The test keeps, for each block, which
 * entry wrote it last and which entries read it since, and orders an entry behind those that it
 * conflicts with, in a random way: a wait for the other stream's timeline, a signal by the other
 * stream and a wait for it, or a wait of the CPU.  At each checkpoint, memory must be what the same
 * operations leave on plain memory one after the other, whatever the timing of the streams.
 *
 * One part of the memory is another client's, imported by a memory handle.  The timelines by which
 * streams order each other have a second id, imported by a descriptor; entries use either.
 *
 * Now and then a stream waits at a *gate*, a timeline that the CPU signals later.  An entry waits
 * only for entries that were published before it or for a gate, and gates are opened before the
 * test waits for anything, so nothing can wait in a circle.
 */
#include <sys/mman.h>
#include <time.h>

#include "kselftest_harness.h"
#include "common/util.h"

#define ADDR		0x300000000ULL
#define BYTES		MIB
#define HALF		(BYTES / 2)
#define BLOCK		(8 * KIB)
#define BLOCKS		(BYTES / BLOCK)
#define STREAMS		5
#define STAMPS		1024
#define STAMP_ADDR	(2 * ADDR)
#define CHECK		512	/* operations from one checkpoint to the next */
#define RW		(PROT_READ | PROT_WRITE)

struct block {
	int writer;			/* stream, or -1 */
	__u64 written;			/* value of its timeline after the write */
	__u64 read[STREAMS];		/* value of each stream's last read since then, or 0 */
};

struct world {
	int fd;
	__u32 vm, gate;
	__u64 gate_value;
	unsigned int devices;
	struct stream s[STREAMS];
	/* A timeline that the stream raises by entries: its id, and that of its import. */
	__u32 mark[STREAMS][2];
	__u64 marked[STREAMS];
	__u64 known[STREAMS][STREAMS];	/* value of another stream that a stream has waited for */
	struct block block[BLOCKS];
	unsigned char *part[3];		/* the CPU's view of the memory */
	__u64 part_bytes[3];
	unsigned char *model;
	__u64 *stamps;
	int stamp_of[STAMPS];
	unsigned int stamped;
	struct rng r;
	__u64 entries, waits[3], gates;
	int error;			/* the first one */
};

static void open_gates(struct world *w)
{
	int ret = gp_timeline_signal(w->fd, w->gate, w->gate_value);

	w->error = w->error ? w->error : ret;
}

static void push(struct world *w, int i, struct gpumem_sqe sqe)
{
	struct stream *s = &w->s[i];
	int ret;

	if (s->tail - __atomic_load_n(&s->page->head, __ATOMIC_ACQUIRE) >= s->entries)
		open_gates(w);
	ret = stream_push(s, &sqe);
	w->entries++;
	w->error = w->error ? w->error : ret;
}

static __u32 some_mark(struct world *w, int i)
{
	return w->mark[i][rng_below(&w->r, 2)];
}

/* Order the next entry of stream @i after entry @value of stream @of. */
static void after(struct world *w, int i, int of, __u64 value)
{
	int ret;

	if (i == of || w->known[i][of] >= value)
		return;
	switch (rng_below(&w->r, 32)) {
	case 0:
		open_gates(w);
		ret = stream_wait(&w->s[of], value, 20);
		w->error = w->error ? w->error : ret;
		w->waits[2]++;
		break;
	case 1 ... 15:
		value = w->s[of].tail;
		push(w, of, sqe_signal(some_mark(w, of), ++w->marked[of]));
		push(w, i, sqe_wait(some_mark(w, of), w->marked[of]));
		w->waits[1]++;
		break;
	default:
		push(w, i, sqe_wait(w->s[of].timeline, value));
		w->waits[0]++;
	}
	w->known[i][of] = value;
}

static void before_access(struct world *w, int i, __u64 at, __u64 bytes, bool write)
{
	for (__u64 b = at / BLOCK; b <= (at + bytes - 1) / BLOCK; b++) {
		struct block *block = &w->block[b];

		if (block->writer >= 0)
			after(w, i, block->writer, block->written);
		for (int of = 0; write && of < STREAMS; of++)
			after(w, i, of, block->read[of]);
	}
}

/* Records the access by the last entry that was pushed.  */
static void after_access(struct world *w, int i, __u64 at, __u64 bytes, bool write)
{
	for (__u64 b = at / BLOCK; b <= (at + bytes - 1) / BLOCK; b++) {
		struct block *block = &w->block[b];

		if (write) {
			block->writer = i;
			block->written = w->s[i].tail;
			memset(block->read, 0, sizeof(block->read));
		} else {
			block->read[i] = w->s[i].tail;
		}
	}
}

static __u64 some_width(struct world *w)
{
	return 1 + rng_below(&w->r, rng_below(&w->r, 64) ? 1500 : HALF / 8);
}

static void fill(struct world *w, int i)
{
	unsigned int elem = 1 << rng_below(&w->r, 4);
	__u64 width = (some_width(w) + elem - 1) / elem, height = 1, pitch = 0, dst, span;
	__u64 value = rng_next(&w->r);

	if (width * elem < 2000 && rng_below(&w->r, 3) == 0) {
		height = 2 + rng_below(&w->r, 8);
		pitch = (width + rng_below(&w->r, 100)) * elem;
	}
	span = (height - 1) * pitch + width * elem;
	dst = rng_below(&w->r, BYTES - span) & -elem;
	before_access(w, i, dst, span, true);
	push(w, i, sqe_fill2d(ADDR + dst, pitch, elem, value, width, height));
	after_access(w, i, dst, span, true);
	for (__u64 y = 0; y < height; y++) {
		for (__u64 x = 0; x < width; x++)
			memcpy(w->model + dst + y * pitch + x * elem, &value, elem);
	}
}

static void copy(struct world *w, int i)
{
	__u64 width = some_width(w), height = 1, pitch[2] = { 0 }, span[2], at[2];
	int half = rng_below(&w->r, 2);

	if (width < 2000 && rng_below(&w->r, 3) == 0)
		height = 2 + rng_below(&w->r, 8);
	for (int k = 0; k < 2; k++) {
		if (height > 1)
			pitch[k] = width + rng_below(&w->r, 500);
		span[k] = (height - 1) * pitch[k] + width;
		/* In different halves: no overlap. */
		at[k] = (k == half) * HALF + rng_below(&w->r, HALF - span[k]);
	}
	before_access(w, i, at[0], span[0], true);
	before_access(w, i, at[1], span[1], false);
	push(w, i, sqe_copy2d(ADDR + at[0], pitch[0], ADDR + at[1], pitch[1], width, height));
	after_access(w, i, at[0], span[0], true);
	after_access(w, i, at[1], span[1], false);
	for (__u64 y = 0; y < height; y++)
		memcpy(w->model + at[0] + y * pitch[0], w->model + at[1] + y * pitch[1], width);
}

static void one_operation(struct world *w)
{
	int i = rng_below(&w->r, STREAMS);

	switch (rng_below(&w->r, 32)) {
	case 0:
		push(w, i, sqe_nop());
		break;
	case 1:
		push(w, i, sqe_signal(some_mark(w, i), ++w->marked[i]));
		break;
	case 2:
		if (w->stamped < STAMPS) {
			push(w, i, sqe_timestamp(STAMP_ADDR + 8 * w->stamped));
			w->stamp_of[w->stamped++] = i;
		}
		break;
	case 3:
		push(w, i, sqe_wait(w->gate, ++w->gate_value));
		w->gates++;
		break;
	case 4 ... 6:
		open_gates(w);
		break;
	case 7 ... 15:
		fill(w, i);
		break;
	default:
		copy(w, i);
	}
}

static int reopen(struct world *w, int i)
{
	int ret = w->s[i].ring ? stream_close(&w->s[i]) : 0;

	for (int of = 0; of < STREAMS; of++)
		w->known[of][i] = 0;
	return ret ? ret : stream_open(&w->s[i], w->fd, w->vm, rng_below(&w->r, w->devices),
				       16 << rng_below(&w->r, 5));
}

static __u64 raw_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec * NSEC + t.tv_nsec;
}

/* Waits for everything and compares; returns the difference, or NULL. */
static const char *checkpoint(struct world *w, __u64 *since)
{
	__u64 last[STREAMS], at = 0, now;

	open_gates(w);
	for (int i = 0; i < STREAMS; i++) {
		if (stream_sync(&w->s[i]) || w->s[i].page->error)
			return "a stream failed";
		last[i] = *since;
	}
	now = raw_ns();
	for (int p = 0; p < 3; at += w->part_bytes[p++]) {
		if (memcmp(w->part[p], w->model + at, w->part_bytes[p]))
			return "memory differs";
	}
	for (unsigned int k = 0; k < w->stamped; k++) {
		__u64 *before = &last[w->stamp_of[k]];

		if (w->stamps[k] < *before || w->stamps[k] > now)
			return "a timestamp is out of order";
		*before = w->stamps[k];
		w->stamps[k] = 0;
	}
	w->stamped = 0;
	*since = now;
	for (__u64 b = 0; b < BLOCKS; b++)
		w->block[b] = (struct block) { .writer = -1 };
	return NULL;
}

FIXTURE(model)
{
	struct world *w;
	__u32 bo[3], stamps;
};

/* Memory of the last device, of a client that is closed then. */
static int import_memory(struct world *w, __u64 bytes, __u32 *bo)
{
	struct gpumem_bo_import i = { .size = sizeof(i), .flags = GPUMEM_BO_IMPORT_HANDLE };
	int maker = gp_open(w->devices - 1), ret;
	__u32 id;

	ret = gp_bo_alloc(maker, bytes, &id);
	if (ret)
		return ret;
	i.fd = gp_bo_export(maker, id, 0, bytes, GPUMEM_BO_EXPORT_HANDLE);
	close(maker);
	if (i.fd < 0)
		return i.fd;
	ret = gp_ioctl(w->fd, GPUMEM_BO_IMPORT, &i);
	close(i.fd);
	*bo = i.id;
	return ret;
}

FIXTURE_SETUP(model)
{
	struct gpumem_bo_pin pin = { .size = sizeof(pin), .length = BYTES / 4 };
	struct world *w = calloc(1, sizeof(*w));
	__u64 at = 0;
	__u32 index;
	int other;

	ASSERT_TRUE(dev_quiet(10));
	self->w = w;
	rng_start(&w->r, "streams against a model");
	w->fd = gp_open(0);
	ASSERT_LE(0, w->fd);
	w->devices = 1;
	other = gp_open(1);
	if (other >= 0) {
		ASSERT_EQ(0, gp_attach(w->fd, other, &index));
		w->devices = 2;
		close(other);
	}
	ASSERT_EQ(0, gp_vm_create(w->fd, &w->vm));
	w->part_bytes[0] = BYTES / 2;
	w->part_bytes[1] = BYTES / 4;
	w->part_bytes[2] = BYTES / 4;
	for (int p = 0; p < 2; p++) {
		ASSERT_EQ(0, p ? import_memory(w, w->part_bytes[p], &self->bo[p]) :
				 gp_bo_alloc_on(w->fd, 0, w->part_bytes[p], &self->bo[p]));
		w->part[p] = gp_map(w->fd, self->bo[p], 0, w->part_bytes[p], RW);
		ASSERT_NE(NULL, w->part[p]);
	}
	w->part[2] = mmap(NULL, BYTES / 4, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, w->part[2]);
	pin.addr = (uintptr_t)w->part[2];
	ASSERT_EQ(0, gp_ioctl(w->fd, GPUMEM_BO_PIN, &pin));
	self->bo[2] = pin.id;
	for (int p = 0; p < 3; at += w->part_bytes[p++]) {
		ASSERT_EQ(0, gp_vm_map(w->fd, w->vm, self->bo[p], 0, ADDR + at, w->part_bytes[p],
				       (1 << w->devices) - 1, (1 << w->devices) - 1));
	}
	w->stamps = gp_alloc_map(w->fd, STAMPS * 8, &self->stamps);
	ASSERT_NE(NULL, w->stamps);
	ASSERT_EQ(0, gp_vm_map(w->fd, w->vm, self->stamps, 0, STAMP_ADDR, STAMPS * 8,
			       (1 << w->devices) - 1, (1 << w->devices) - 1));
	ASSERT_EQ(0, gp_timeline_create(w->fd, 0, &w->gate));
	for (int i = 0; i < STREAMS; i++) {
		int exported;

		ASSERT_EQ(0, gp_timeline_create(w->fd, 0, &w->mark[i][0]));
		exported = gp_timeline_export(w->fd, w->mark[i][0], 0);
		ASSERT_LE(0, exported);
		ASSERT_EQ(0, gp_timeline_import(w->fd, exported, &w->mark[i][1], NULL));
		close(exported);
		ASSERT_EQ(0, reopen(w, i));
	}
	w->model = calloc(1, BYTES);
	ASSERT_NE(NULL, w->model);
	for (__u64 b = 0; b < BLOCKS; b++)
		w->block[b].writer = -1;
}

FIXTURE_TEARDOWN(model)
{
	unmap_all();
	close(self->w->fd);
	EXPECT_TRUE(dev_quiet(10));
}

TEST_F_TIMEOUT(model, streams, 100000)
{
	const __u64 steps = env_number("GPUMEM_STEPS", 20000);
	__u64 since = raw_ns(), bytes, start = mono_ns();
	struct world *w = self->w;
	struct gpumem_stats stats;
	const char *wrong;

	for (__u64 step = 0; step < steps; step++) {
		one_operation(w);
		ASSERT_EQ(0, w->error)
			TH_LOG("step %llu", (unsigned long long)step);
		if (step % CHECK != CHECK - 1 && step + 1 < steps)
			continue;
		wrong = checkpoint(w, &since);
		ASSERT_EQ(NULL, wrong)
			TH_LOG("%s, within %u steps before %llu", wrong, CHECK,
			       (unsigned long long)step);
		if (rng_below(&w->r, 4) == 0) {
			ASSERT_EQ(0, reopen(w, rng_below(&w->r, STREAMS)));
		}
	}
	/* Each entry was counted once.  */
	ASSERT_EQ(0, gp_stats(w->fd, &stats));
	EXPECT_EQ(w->entries, stats.jobs);
	bytes = stats.copy_bytes + stats.fill_bytes;
	printf("# %llu entries in %llu s, %llu MiB; waits: %llu for streams, %llu for marks, %llu of the CPU; %llu gates\n",
	       (unsigned long long)w->entries, (unsigned long long)((mono_ns() - start) / NSEC),
	       (unsigned long long)(bytes / MIB), (unsigned long long)w->waits[0],
	       (unsigned long long)w->waits[1], (unsigned long long)w->waits[2],
	       (unsigned long long)w->gates);
	fflush(stdout);
	EXPECT_LT(steps / 50, w->waits[0]);
	EXPECT_LT(steps / 50, w->waits[1]);
	EXPECT_LT(0, w->gates);
}

TEST_HARNESS_MAIN
