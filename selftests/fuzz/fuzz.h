/* SPDX-License-Identifier: GPL-2.0 */
/*
 * gpumem-fuzz: a coverage-guided fuzzer of the kernel interface.
 *
 * A *program* is a sequence of typed *calls*: ioctls, mmap() and what one does with the mapping,
 * entries written to a ring, and the calls on descriptors.  Calls name what earlier calls made (a
 * *resource*: client, buffer object, address space, stream, timeline, token, DMA-buf, mapping) by
 * the earlier call's number, so a mutated program still means something.  A call may run in a
 * second thread, beside those that follow it.
 *
 *	calls.c		the table of calls and the values that arguments like
 *	prog.c		making and changing programs
 *	text.c		programs as text, one call a line
 *	exec.c		running a program, in a process of its own kind
 *	cover.c		KCOV, and sets of signals
 *	main.c		the loop: corpus, minimisation, statistics, verdict
 *
 * What a run of a program showed is a set of *signals*: each block of the module that ran (when
 * the module was built with GPUMEM_KCOV=1 and the kernel has KCOV), and each pair of call and
 * errno.  A program that shows a signal that none before it did is minimised and joins the corpus.
 *
 * A failure is a complaint of the kernel (the machine becomes tainted, lockdep turns itself off);
 * the programs that ran last are then printed.
 */
#ifndef GPUMEM_FUZZ_H
#define GPUMEM_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "util.h"

#define MAX_CALLS	32
#define MAX_ARGS	12
#define MAX_SIGNALS	8192

/* What a call makes, and an argument names. */
enum res {
	R_NONE, R_CLIENT, R_BO, R_VM, R_STREAM, R_TIMELINE, R_EVENT, R_POOL, R_TOKEN_ID, R_TOKEN,
	R_DMABUF, R_POOL_FD, R_CHANNEL, R_CHUNK, R_MAP,
};

/* What an argument is. */
enum kind {
	/* a resource */
	K_CLIENT, K_BO, K_VM, K_STREAM, K_TIMELINE, K_EVENT, K_POOL, K_TOKEN, K_DMABUF, K_POOL_FD, K_CHANNEL, K_CHUNK, K_MAP,
	K_ANY_ID, K_ANY_FD,
	/* a number */
	K_FLAGS, K_DEVICE, K_DEVICES, K_LENGTH, K_ALLOC, K_OFFSET, K_ADDR, K_MEMORY, K_VALUE,
	K_DEADLINE, K_ENTRIES, K_PRIORITY, K_ZERO, K_OP, K_ELEM, K_PROT, K_SHARED, K_ADVICE,
	K_SMALL,
};

/* What runs a call that is no ioctl of ours. */
enum what {
	W_IOCTL, W_OPEN, W_DUP, W_CLOSE, W_MMAP, W_MUNMAP, W_MREMAP, W_MPROTECT, W_MADVISE,
	W_READ, W_WRITE, W_SQE, W_TAIL, W_DMA_MMAP, W_DMA_SYNC, W_PRIME, W_LSEEK, W_FDINFO,
	W_SYSFS, W_UNKNOWN, W_CHANNEL, W_NOTICE, W_NETLINK,
};

struct arg_spec {
	const char *name;
	enum kind kind;
	unsigned int offset, bytes;	/* in the structure of an ioctl */
	uint64_t mask;			/* of K_FLAGS */
};

struct call_spec {
	const char *name;
	enum what what;
	unsigned long request;
	unsigned int size;
	struct arg_spec args[MAX_ARGS];
	enum res makes[2];
	unsigned int makes_at[2];	/* in the structure of an ioctl */
	unsigned int weight;
};

extern const struct call_spec specs[];
extern const unsigned int spec_count;

unsigned int args_of(const struct call_spec *spec);
bool kind_takes(enum kind kind, enum res res);
bool kind_is_resource(enum kind kind);
uint64_t some_value(struct rng *r, const struct arg_spec *spec);

/* How the structure of an ioctl is passed. */
enum pass {
	PASS_WELL, PASS_NULL, PASS_CUT, PASS_RDONLY, PASS_TAIL, PASS_KINDS,
};
extern const char * const pass_names[PASS_KINDS];

struct arg {
	int ref;		/* call that made it, or -1: @value */
	unsigned int slot;	/* which of its two */
	uint64_t value;
};

struct call {
	unsigned int kind;	/* in specs[] */
	bool async;
	enum pass pass;
	unsigned int size;	/* stated size of the structure; 0: the right one */
	struct arg args[MAX_ARGS];
};

struct prog {
	unsigned int n;
	struct call calls[MAX_CALLS];
};

void prog_random(struct rng *r, struct prog *p);
void prog_mutate(struct rng *r, struct prog *p, const struct prog *other);
void prog_remove(struct prog *p, unsigned int at);

void prog_print(FILE *f, const struct prog *p);
/* False, with a message, if the text is no program. */
bool prog_parse(FILE *f, const char *name, struct prog *p);

/* --- running: the other process */

struct shared {
	struct prog prog;
	int result[MAX_CALLS];			/* 0 or a negative errno */
	unsigned int signals;
	uint32_t signal[MAX_SIGNALS];
	char broken[128];			/* what the executor could not do */
};

/* Runs programs of @s whenever a byte comes from @in, answers on @out; ends with @in. */
void executor(struct shared *s, int in, int out);
/* A client is open and cannot be made: what the machine lacks, or NULL. */
const char *executor_prepare(void);

/* --- coverage */

struct trace {
	int fd;
	uint64_t *area;
};

/* Offsets in the module's text; 0 is no block. */
bool cover_init(void);			/* false: no KCOV, or not built with it */
bool trace_open(struct trace *t);	/* of the thread that calls trace_on() */
void trace_on(struct trace *t);
/* Appends the signals collected since the last call to @out, each once; empties the trace. */
unsigned int trace_take(struct trace *t, uint32_t *out, unsigned int have);
/* Traces workers for this process and its children. */
bool trace_remote(struct trace *t);

#define SIGNAL_ERRNO(kind, error)	(0x80000000U | (kind) << 12 | (error))
#define SIGNAL_STREAM(error)		(0xc0000000U | (error))
#define SIGNAL_IS_BLOCK(s)		(!((s) & 0x80000000U))

/* A block's signal as "section offset". */
void signal_print(FILE *f, uint32_t signal);

struct set {
	uint32_t *slot;
	size_t room, n;
};

bool set_add(struct set *s, uint32_t v);	/* true: was not there */
bool set_has(const struct set *s, uint32_t v);

#endif
