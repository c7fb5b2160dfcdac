/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A generator of programs for many streams, and what their memory holds afterwards.
 *
 * A program is a list of operations, each in one stream.  Two operations conflict if both use a
 * block of memory and one of them writes it.  The list orders them: they are in one stream, or a
 * path of edges leads from one to the other.  An edge is a record and a wait for it, a write of a
 * word and a wait for its value, or a signal of a semaphore and a wait for it.
 * So the order of the list is one of the orders that the streams may choose, and all such orders end
 * with the same bytes.  The generator executes the list in its order on a model: blocks consist of cells of 1 KiB, and a cell repeats one word.
 *
 * No edge for a conflict is superfluous: a clock says, for each pair of streams, up to which
 * position of the other a stream's next operation is ordered.  The generator makes an edge only
 * where the clocks do not imply the order.  It adds further edges at random.
 *
 * Every worker issues its own streams' operations in the order of the list.  Events are recorded
 * many times, and a wait means the last record that was issued.  So each operation on an event, a
 * word or a semaphore has a ticket, and is issued when as many operations on it have been issued as
 * the ticket says.  A wait is thus issued after its record.  A binary semaphore is signalled again
 * only in a stream that is ordered after the wait for its last signal.  All issued operations can complete without any
 * further one, so a worker that blocks in a call cannot cause a deadlock.
 *
 * A trap is a program that ends with an operation for which exactly one edge was made.  If the
 * operation at the other end is held up and the edge is left out, the wrong bytes are predictable.
 *
 * The program and the model lie in memory that the workers, threads or processes, share.  Include
 * this after kselftest_harness.h and cuda_util.h.
 */
#ifndef GPUMEM_SELFTESTS_STRESS_H
#define GPUMEM_SELFTESTS_STRESS_H

#include <pthread.h>

#define WORKERS		8
#define STREAMS		64		/* worker s % WORKERS owns stream s; blocks, events too */
#define EVENTS		128
#define SHARED_EVENTS	96		/* if workers are processes, each owns some of the rest */
#define DEVICE_BLOCKS	64
#define PINNED_BLOCKS	32		/* if workers are processes, only the owner uses a block */
#define PAGEABLE_BLOCKS	16		/* only the owner uses a block */
#define FIRST_PINNED	DEVICE_BLOCKS
#define FIRST_PAGEABLE	(FIRST_PINNED + PINNED_BLOCKS)
#define BLOCKS		(FIRST_PAGEABLE + PAGEABLE_BLOCKS)
#define BINARIES	32		/* semaphores; the streams' timelines come before them */
#define SEMAPHORES	(STREAMS + BINARIES)
#define CELL		KIB
#define MOST_CELLS	64u
#define ROUND		4096		/* operations, after which all blocks are compared */
#define SLACK		512		/* room for the edges of a round's last operation */
#define TRAP_LEAST	300

enum op_kind {
	OP_FILL, OP_FILL_2D, OP_COPY, OP_COPY_2D,
	OP_HTOD, OP_DTOH,	/* pageable */
	OP_HOST_FILL, OP_HOST_CHECK,	/* host functions, on pinned blocks */
	OP_READ,		/* a block of the device is copied to pageable memory and compared */
	OP_POKE, OP_PEEK,	/* the worker itself, on pageable blocks */
	OP_RECORD, OP_WAIT, OP_WRITE_WORD, OP_WAIT_WORD,
	OP_RAISE, OP_AWAIT,	/* a timeline */
	OP_SIGNAL, OP_TAKE,	/* a binary semaphore */
	OP_EVENT_SYNC,		/* the worker waits for an event */
	OP_QUERY, OP_RENEW,	/* a new stream takes the stream's place */
	OP_KINDS,
};

static const char *const op_names[OP_KINDS] = {
	"fill", "2D fill", "copy", "2D copy", "copy from pageable memory",
	"copy to pageable memory", "host function that writes", "host function that compares",
	"read", "poke", "peek", "record", "wait", "write of a word", "wait for a word",
	"raise of a timeline", "wait for a timeline", "signal", "wait for a signal",
	"event synchronize", "query", "renewal",
};

struct op {
	__u8 kind, stream, elem;
	__u8 dst, src;			/* blocks */
	__u8 dst_at, src_at, width, height, dst_pitch, src_pitch;	/* cells */
	bool bump;			/* takes a ticket */
	__u16 turn;			/* event, EVENTS + stream of a word, or FIRST_SEMAPHORE + semaphore */
	__u32 need;			/* the ticket: how many of @turn's must be taken before */
	__u32 value;
	__u32 expect;			/* index in world.expect: the bytes that a check wants */
};

enum hazard { NO_HAZARD, READ_AFTER_WRITE, WRITE_AFTER_READ, WRITE_AFTER_WRITE };
enum edge { ANY_EDGE, EVENT_EDGE, WORD_EDGE, SEMAPHORE_EDGE };

struct trap {
	enum hazard hazard;
	enum edge edge;
	bool drop;
	/* Operations: the one that is held up, the wait, the last one. */
	__u32 held, wait, last;
	bool set;
};

#define FIRST_SEMAPHORE	(EVENTS + STREAMS)

struct turn {
	__u32 taken, waiters;		/* atomic */
};

struct world {
	bool processes;
	bool stop;			/* there are no more rounds */
	__u64 steps, done, rounds;
	__u64 ns;			/* spent on rounds */
	struct trap trap;
	pthread_barrier_t barrier;
	__u32 failed;			/* atomic */
	char message[240];
	__u32 at[WORKERS];		/* atomic: the operation that a worker issues */
	__u64 kinds[OP_KINDS];
	CUipcMemHandle memory[DEVICE_BLOCKS], words;
	CUipcEventHandle events[SHARED_EVENTS];
	/* Descriptors of their owners: of memory handles and of semaphores. */
	pid_t pids[WORKERS];
	int handles[DEVICE_BLOCKS], semaphores[SEMAPHORES];
	struct turn turns[FIRST_SEMAPHORE + SEMAPHORES];
	__u32 model[BLOCKS][MOST_CELLS];
	__u32 count;
	struct op ops[ROUND + SLACK];
	__u32 expect[ROUND + SLACK][MOST_CELLS];
};

static inline unsigned int cells_of(unsigned int block)
{
	static const __u8 cells[8] = { 4, 4, 8, 4, 16, 8, 64, 5 };

	return cells[(block + block / 8) % 8];
}

/* The word that a cell consists of after a fill with elements of some size. */
static inline __u32 pattern(__u32 value, unsigned int elem)
{
	return elem == 1 ? (value & 0xff) * 0x01010101u :
		elem == 2 ? (value & 0xffff) * 0x00010001u : value;
}

/* --- the generator, which one worker runs */

struct place {
	int stream;			/* -1: no operation in this round */
	__u32 pos, op;
};

struct block_state {
	struct place write;
	struct { __u32 pos, op; } reads[STREAMS];	/* since @write; position 0: none */
};

struct event_state {
	int stream;			/* -1: never recorded */
	__u32 pos, tickets, recorded;	/* @recorded: the record's ticket */
	__u32 clock[STREAMS];
};

struct semaphore_state {
	__u32 tickets;
	int waiter;			/* of a binary one: the stream that waited last, or -1 */
	__u32 pos;			/* that wait's position */
};

static struct {
	struct rng rng;
	struct world *w;
	__u32 pos[STREAMS];		/* operations so far */
	__u32 clock[STREAMS][STREAMS];	/* [s][t]: s continues after this position of t */
	__u32 words[STREAMS];
	struct semaphore_state semaphores[SEMAPHORES];
	int last_event[STREAMS];	/* the last event recorded in the stream, or -1 */
	struct event_state events[EVENTS];
	struct block_state blocks[BLOCKS];
	__u32 value;
	/* The number of edges made for the next operation, and the last of them. */
	unsigned int edges;
	struct {
		enum hazard hazard;
		unsigned int block;
		__u32 op, wait;
	} edge;
} gen;

static inline unsigned int owner(unsigned int thing)
{
	return thing % WORKERS;
}

static inline bool gen_chance(unsigned int percent)
{
	return rng_below(&gen.rng, 100) < percent;
}

static inline void gen_start(struct world *w, const struct rng *rng)
{
	memset(&gen, 0, sizeof(gen));
	gen.w = w;
	gen.rng = *rng;
	for (unsigned int i = 0; i < STREAMS; i++)
		gen.last_event[i] = -1;
	for (unsigned int i = 0; i < EVENTS; i++)
		gen.events[i].stream = -1;
	for (unsigned int i = 0; i < BLOCKS; i++)
		for (unsigned int k = 0; k < cells_of(i); k++)
			w->model[i][k] = ++gen.value;
}

static inline struct op *gen_add(enum op_kind kind, unsigned int stream)
{
	struct op *op = &gen.w->ops[gen.w->count++];

	*op = (struct op) { .kind = kind, .stream = stream };
	gen.w->kinds[kind]++;
	gen.clock[stream][stream] = ++gen.pos[stream];
	return op;
}

static inline void gen_after(unsigned int stream, const __u32 *clock)
{
	for (unsigned int i = 0; i < STREAMS; i++)
		if (gen.clock[stream][i] < clock[i])
			gen.clock[stream][i] = clock[i];
}

static inline bool may_use_event(unsigned int event, unsigned int worker)
{
	return !gen.w->processes || event < SHARED_EVENTS || owner(event) == worker;
}

static inline unsigned int gen_record(unsigned int from, unsigned int to)
{
	struct event_state *e;
	unsigned int event;
	struct op *op;

	do
		event = rng_below(&gen.rng, EVENTS);
	while (!may_use_event(event, owner(from)) || !may_use_event(event, owner(to)));
	e = &gen.events[event];
	op = gen_add(OP_RECORD, from);
	op->turn = event;
	op->need = e->tickets;
	op->bump = true;
	e->stream = from;
	e->pos = gen.pos[from];
	e->recorded = e->tickets++;
	memcpy(e->clock, gen.clock[from], sizeof(e->clock));
	gen.last_event[from] = event;
	return event;
}

static inline void gen_wait(enum op_kind kind, unsigned int stream, unsigned int event)
{
	struct event_state *e = &gen.events[event];
	struct op *op = gen_add(kind, stream);

	op->turn = event;
	op->need = e->recorded + 1;
	op->bump = true;
	e->tickets++;
}

/* A binary semaphore whose last wait is ordered before the next work in @from, or -1. */
static inline int gen_binary(unsigned int from)
{
	unsigned int start = rng_below(&gen.rng, BINARIES);

	for (unsigned int i = 0; i < BINARIES; i++) {
		unsigned int at = STREAMS + (start + i) % BINARIES;
		const struct semaphore_state *s = &gen.semaphores[at];

		if (s->waiter < 0 || gen.clock[from][s->waiter] >= s->pos)
			return at;
	}
	return -1;
}

static inline void gen_semaphore_edge(unsigned int from, unsigned int to)
{
	int binary = gen_chance(50) ? gen_binary(from) : -1;
	unsigned int at = binary < 0 ? from : (unsigned int)binary;
	struct semaphore_state *s = &gen.semaphores[at];
	struct op *op = gen_add(binary < 0 ? OP_RAISE : OP_SIGNAL, from);

	op->turn = FIRST_SEMAPHORE + at;
	op->need = s->tickets++;
	op->value = s->tickets;
	op->bump = true;
	gen_after(to, gen.clock[from]);
	op = gen_add(binary < 0 ? OP_AWAIT : OP_TAKE, to);
	op->turn = FIRST_SEMAPHORE + at;
	op->need = s->tickets;
	op->value = s->tickets;
	if (binary < 0)
		return;
	op->bump = true;
	s->tickets++;
	s->waiter = to;
	s->pos = gen.pos[to];
}

/* Order the next work in @to after the work in @from up to @pos, or up to a later position. */
static inline void gen_edge(unsigned int from, unsigned int to, __u32 pos)
{
	enum edge kind = gen.w->trap.edge;
	int event = gen.last_event[from];
	struct op *op;

	if (kind == ANY_EDGE)
		kind = gen_chance(12) ? WORD_EDGE : gen_chance(14) ? SEMAPHORE_EDGE : EVENT_EDGE;
	if (kind == SEMAPHORE_EDGE) {
		gen_semaphore_edge(from, to);
		return;
	}
	if (kind == WORD_EDGE) {
		op = gen_add(OP_WRITE_WORD, from);
		op->turn = EVENTS + from;
		op->need = gen.words[from];
		op->value = ++gen.words[from];
		op->bump = true;
		gen_after(to, gen.clock[from]);
		op = gen_add(OP_WAIT_WORD, to);
		op->turn = EVENTS + from;
		op->need = gen.words[from];
		op->value = gen.words[from];
		return;
	}
	if (event < 0 || gen.events[event].stream != (int)from || gen.events[event].pos < pos ||
	    !may_use_event(event, owner(to)) || gen_chance(50))
		event = gen_record(from, to);
	gen_after(to, gen.events[event].clock);
	gen_wait(OP_WAIT, to, event);
}

static inline void gen_need(unsigned int stream, int from, __u32 pos, __u32 op, unsigned int block,
			    enum hazard hazard)
{
	if (from < 0 || !pos || gen.clock[stream][from] >= pos)
		return;
	gen_edge(from, stream, pos);
	gen.edges++;
	gen.edge.hazard = hazard;
	gen.edge.block = block;
	gen.edge.op = op;
	gen.edge.wait = gen.w->count - 1;
}

/* Make the edges before an operation of @stream that uses @block. */
static inline void gen_before(unsigned int stream, unsigned int block, bool write)
{
	struct block_state *b = &gen.blocks[block];

	/* Readers first: they are already ordered after the writer. */
	for (unsigned int i = 0; write && i < STREAMS; i++)
		gen_need(stream, i, b->reads[i].pos, b->reads[i].op, block, WRITE_AFTER_READ);
	gen_need(stream, b->write.stream, b->write.pos, b->write.op, block,
		 write ? WRITE_AFTER_WRITE : READ_AFTER_WRITE);
}

/* Note that the last operation uses @block. */
static inline void gen_used(unsigned int block, bool write)
{
	struct block_state *b = &gen.blocks[block];
	unsigned int stream = gen.w->ops[gen.w->count - 1].stream;

	if (write) {
		memset(b->reads, 0, sizeof(b->reads));
		b->write = (struct place) { stream, gen.pos[stream], gen.w->count - 1 };
	} else {
		b->reads[stream].pos = gen.pos[stream];
		b->reads[stream].op = gen.w->count - 1;
	}
}

static inline unsigned int gen_block(unsigned int stream, bool device, bool pinned)
{
	unsigned int b;

	do
		b = rng_below(&gen.rng, FIRST_PAGEABLE);
	while ((b < FIRST_PINNED && !device) || (b >= FIRST_PINNED &&
	       (!pinned || (gen.w->processes && owner(b) != owner(stream)))));
	return b;
}

static inline unsigned int gen_pageable(unsigned int stream)
{
	return FIRST_PAGEABLE + owner(stream) +
		WORKERS * rng_below(&gen.rng, PAGEABLE_BLOCKS / WORKERS);
}

/* A number from 1 to @most, mostly at most 4. */
static inline unsigned int gen_some(unsigned int most)
{
	return 1 + rng_below(&gen.rng, most > 4 && gen_chance(70) ? 4 : most);
}

/* Choose a pitch and a place for @height rows in a block. */
static inline void gen_rows(unsigned int block, unsigned int width, unsigned int height, __u8 *at,
			    __u8 *pitch)
{
	unsigned int cells = cells_of(block), most = (cells - width) / (height - 1);

	*pitch = width + rng_below(&gen.rng, (most < 2 * width ? most : 2 * width) - width + 1);
	*at = rng_below(&gen.rng, cells - (height - 1) * *pitch - width + 1);
}

static inline void model_run(const struct op *op)
{
	__u32 *dst = gen.w->model[op->dst] + op->dst_at, *src = gen.w->model[op->src] + op->src_at;

	for (unsigned int y = 0; y < op->height; y++)
		for (unsigned int x = 0; x < op->width; x++)
			dst[y * op->dst_pitch + x] = op->kind == OP_FILL || op->kind == OP_FILL_2D ||
				op->kind == OP_HOST_FILL || op->kind == OP_POKE ?
				pattern(op->value, op->elem) : src[y * op->src_pitch + x];
}

static inline void gen_fill(unsigned int stream, enum op_kind kind)
{
	unsigned int block, cells, width, height = 1;
	bool trap = gen.w->trap.hazard;
	__u8 at, pitch = 0;
	struct op *op;

	if (kind == OP_POKE)
		block = gen_pageable(stream);
	else
		block = gen_block(stream, kind != OP_HOST_FILL, true);
	cells = cells_of(block);
	if (kind == OP_FILL_2D) {
		height = 2 + rng_below(&gen.rng, cells / 2 - 1);
		width = gen_some(cells / height);
		gen_rows(block, width, height, &at, &pitch);
	} else {
		width = gen_some(cells);
		at = rng_below(&gen.rng, cells - width + 1);
	}
	if (kind != OP_POKE)
		gen_before(stream, block, true);
	op = gen_add(kind, stream);
	op->dst = block;
	op->dst_at = at;
	op->dst_pitch = pitch;
	op->width = width;
	op->height = height;
	op->elem = kind == OP_HOST_FILL || kind == OP_POKE || trap || gen_chance(80) ? 4 :
		1 + rng_below(&gen.rng, 2);
	op->value = ++gen.value;
	if (kind != OP_POKE)
		gen_used(block, true);
	model_run(op);
}

static inline void gen_copy(unsigned int stream, enum op_kind kind)
{
	unsigned int dst, src, most, width, height = 1;
	struct op *op, copy = { 0 };

	do {
		dst = kind == OP_DTOH ? gen_pageable(stream) :
			gen_block(stream, true, kind != OP_HTOD);
		src = kind == OP_HTOD ? gen_pageable(stream) :
			gen_block(stream, true, kind != OP_DTOH);
	} while (dst == src);
	most = cells_of(dst) < cells_of(src) ? cells_of(dst) : cells_of(src);
	if (kind == OP_COPY_2D) {
		height = 2 + rng_below(&gen.rng, most / 2 - 1);
		width = gen_some(most / height);
		gen_rows(dst, width, height, &copy.dst_at, &copy.dst_pitch);
		gen_rows(src, width, height, &copy.src_at, &copy.src_pitch);
	} else {
		width = gen_some(most);
		copy.dst_at = rng_below(&gen.rng, cells_of(dst) - width + 1);
		copy.src_at = rng_below(&gen.rng, cells_of(src) - width + 1);
	}
	/* Pageable memory needs no edge: only the worker uses it, and only during its calls. */
	if (kind != OP_HTOD)
		gen_before(stream, src, false);
	if (kind != OP_DTOH)
		gen_before(stream, dst, true);
	op = gen_add(kind, stream);
	op->dst = dst;
	op->src = src;
	op->dst_at = copy.dst_at;
	op->src_at = copy.src_at;
	op->dst_pitch = copy.dst_pitch;
	op->src_pitch = copy.src_pitch;
	op->width = width;
	op->height = height;
	if (kind != OP_HTOD)
		gen_used(src, false);
	if (kind != OP_DTOH)
		gen_used(dst, true);
	model_run(op);
}

/* Generate an operation that compares a whole block with the model. */
static inline void gen_look(unsigned int stream, enum op_kind kind)
{
	unsigned int block = kind == OP_PEEK ? gen_pageable(stream) :
		gen_block(stream, kind == OP_READ, kind == OP_HOST_CHECK);
	struct op *op;

	if (kind != OP_PEEK)
		gen_before(stream, block, false);
	op = gen_add(kind, stream);
	op->src = block;
	op->width = cells_of(block);
	op->height = 1;
	op->expect = gen.w->count - 1;
	memcpy(gen.w->expect[op->expect], gen.w->model[block], sizeof(gen.w->expect[0]));
	if (kind != OP_PEEK)
		gen_used(block, false);
}

static inline void gen_other(unsigned int stream, enum op_kind kind)
{
	unsigned int event;

	if (kind == OP_EVENT_SYNC) {
		event = rng_below(&gen.rng, EVENTS);
		if (gen.events[event].stream < 0 || !may_use_event(event, owner(stream)))
			return;
		gen_wait(kind, stream, event);
		for (unsigned int i = owner(stream); i < STREAMS; i += WORKERS)
			gen_after(i, gen.events[event].clock);
		return;
	}
	gen_add(kind, stream);
}

static const struct {
	enum op_kind kind;
	unsigned int share;
	bool trap;		/* may be in a trap, because its call does not wait */
} gen_mix[] = {
	{ OP_FILL, 22, true }, { OP_FILL_2D, 4, true }, { OP_COPY, 36, true },
	{ OP_COPY_2D, 6, true }, { OP_HTOD, 4, false }, { OP_DTOH, 2, false },
	{ OP_HOST_FILL, 2, true }, { OP_HOST_CHECK, 3, true }, { OP_READ, 2, false },
	{ OP_POKE, 2, false }, { OP_PEEK, 1, false }, { OP_WAIT, 10, true },
	{ OP_EVENT_SYNC, 1, false }, { OP_QUERY, 4, true }, { OP_RENEW, 1, false },
};

static inline void gen_step(unsigned int stream)
{
	unsigned int at = rng_below(&gen.rng, 100), i = 0, other;

	while (at >= gen_mix[i].share)
		at -= gen_mix[i++].share;
	if (gen.w->trap.hazard && !gen_mix[i].trap)
		return;
	switch (gen_mix[i].kind) {
	case OP_FILL: case OP_FILL_2D: case OP_HOST_FILL: case OP_POKE:
		return gen_fill(stream, gen_mix[i].kind);
	case OP_COPY: case OP_COPY_2D: case OP_HTOD: case OP_DTOH:
		return gen_copy(stream, gen_mix[i].kind);
	case OP_HOST_CHECK: case OP_READ: case OP_PEEK:
		return gen_look(stream, gen_mix[i].kind);
	case OP_WAIT:
		other = rng_below(&gen.rng, STREAMS);
		return gen_edge(other, stream, gen.pos[other]);
	default:
		return gen_other(stream, gen_mix[i].kind);
	}
}

/* --- traps */

static inline bool meets(unsigned int at, unsigned int n, unsigned int other, unsigned int m)
{
	return at < other + m && other < at + n;
}

/*
 * Whether the last operation completes a trap: its one edge must be for a conflict in the same
 * bytes, and one of the two operations must write a new value, so that the wrong order shows.
 */
static inline bool trap_shut(struct trap *trap)
{
	const struct op *last = &gen.w->ops[gen.w->count - 1], *held = &gen.w->ops[gen.edge.op];

	if (gen.w->count < TRAP_LEAST || gen.edges != 1 || gen.edge.hazard != trap->hazard ||
	    last->height != 1 || held->height != 1 || owner(held->stream) == owner(last->stream))
		return false;
	switch (trap->hazard) {
	case READ_AFTER_WRITE:
		if (held->kind != OP_FILL || last->src != gen.edge.block ||
		    !meets(held->dst_at, held->width, last->src_at, last->width))
			return false;
		break;
	case WRITE_AFTER_READ:
		if (last->kind != OP_FILL || held->src != gen.edge.block ||
		    !meets(held->src_at, held->width, last->dst_at, last->width))
			return false;
		/* No later operation may have overwritten what the held one wrote. */
		if (held->kind != OP_HOST_CHECK && gen.blocks[held->dst].write.op != gen.edge.op)
			return false;
		break;
	default:
		if (held->kind != OP_FILL || last->dst != gen.edge.block ||
		    !meets(held->dst_at, held->width, last->dst_at, last->width))
			return false;
	}
	trap->held = gen.edge.op;
	trap->wait = gen.edge.wait;
	trap->last = gen.w->count - 1;
	trap->set = true;
	return true;
}

/* Generate the next round.  All earlier operations have completed. */
static inline void gen_round(void)
{
	struct world *w = gen.w;
	__u64 left = w->steps - w->done;
	__u32 most = left < ROUND ? left : ROUND;

	w->count = 0;
	for (unsigned int i = 0; i < BLOCKS; i++) {
		memset(&gen.blocks[i], 0, sizeof(gen.blocks[i]));
		gen.blocks[i].write.stream = -1;
	}
	for (unsigned int i = 0; i < SEMAPHORES; i++)
		gen.semaphores[i].waiter = -1;
	while (w->count < most) {
		gen.edges = 0;
		gen_step(rng_below(&gen.rng, STREAMS));
		if (w->trap.hazard && trap_shut(&w->trap))
			break;
	}
	w->done += w->count;
	w->rounds++;
	w->stop = w->done >= w->steps || w->trap.hazard;
}

#endif
