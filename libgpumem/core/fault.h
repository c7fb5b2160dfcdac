/* SPDX-License-Identifier: MIT */
/*
 * Faults on demand: GPUMEM_FAULT lists rules, each of which makes some calls fail or misbehave.
 *
 * fault_rule.c reads the rules. fault.c finds the rules that match a call.
 */
#ifndef GPUMEM_CORE_FAULT_H
#define GPUMEM_CORE_FAULT_H

#include <limits.h>

#include "core/base.h"
#include "core/fault_page.h"

enum fault_action {
	FAULT_FAIL,			/* the call fails */
	FAULT_LOST,			/* the current context fails with a sticky error */
	FAULT_GONE,			/* the device disappears: this call and all later ones fail */
	FAULT_DIE,			/* the process is killed */
	FAULT_DELAY,			/* the call's operation begins late */
	FAULT_TEAR,			/* a copy is executed as pieces */
	FAULT_FLIP,			/* one bit of a copy's destination changes */
	FAULT_HANG,			/* the call's stream does not continue */
	FAULT_GROW,			/* a pool does not grow */
	FAULT_MEMORY,			/* a device has less memory */
};

#define FAULT_ACTIONS	(FAULT_MEMORY + 1)

struct fault_rule {
	enum fault_action action;
	char calls[64];			/* patterns and kinds, separated by '|' */
	uint64_t min, max;		/* bytes that the call names */
	uint64_t nth;			/* the first match that the rule applies to */
	uint64_t every;			/* then each @every-th match; 0: no other */
	uint64_t times;			/* how many faults the rule injects at most */
	uint32_t chance;		/* of 2^32 - 1: of each match from @nth on, by the seed */
	CUresult error;			/* of a call that fails */
	uint64_t value;			/* milliseconds, pieces, or bytes of memory */
	CUdevice device;		/* FAULT_MEMORY: -1 for all */
	uint64_t seen, done;		/* the lock of fault.c, as all members */
};

struct fault_list {
	struct fault_rule rule[FAULT_RULES];
	unsigned int rules;
	uint64_t seed;			/* of @chance, and of what is random in a fault */
	bool quiet;			/* injected faults are not printed */
	char log[PATH_MAX];		/* file to which each match and each fault adds a line, or "" */
};

/*
 * Read a list of rules. False: @why, of @size bytes, says what is wrong. A list with "env=NAME:VALUE" is empty in
 * processes whose environment has another value.
 */
bool fault_parse(struct fault_list *list, const char *text, char *why, size_t size);
/* Whether @names, patterns and kinds separated by '|', match a function. */
bool fault_names(const char *names, const char *function);

/*
 * What the rules want of the calling thread's call under way. The function that carries out a fault clears its member,
 * and calls fault_done().
 */
struct fault_now {
	const char *name;		/* the function */
	uint32_t delay;			/* milliseconds */
	uint32_t pieces;
	uint32_t flip;			/* 0, or a random number that chooses the bit */
	bool hang;
	uint64_t match[FAULT_ACTIONS];	/* by action: the number of the match */
	uint8_t rule[FAULT_ACTIONS];	/* by action: the rule */
};

extern __thread HIDDEN struct fault_now fault_now __attribute__((tls_model("initial-exec")));

struct debug_value;

/* Read GPUMEM_FAULT. True: it is set. Called once, by cuInit(). */
bool fault_start(void);
/* A public function begins. A nonzero return value is the call's result. Only if client.faults. */
CUresult fault_call(const char *name, const char *names, const struct debug_value *values, unsigned int count);
/* A fault of fault_now was carried out. */
void fault_done(enum fault_action action);
/* Take the rules that `gpumem fault` wrote last. */
void fault_renew(void);
/* Whether a rule refuses @bytes more bytes of a pool. */
bool fault_grow(uint64_t bytes);
/* The memory that the rules leave of a device with @total bytes. */
uint64_t fault_memory(CUdevice device, uint64_t total);
/* Whether a rule refuses @bytes more bytes of a device. No lock is held. */
bool fault_alloc(CUdevice device, uint64_t bytes);
/* A random number of the seed of the rules, for the @index-th user of it. */
uint64_t fault_random(uint64_t seed, uint64_t index);

/* What exec/schedule.c does for this layer. */
struct fault_hooks {
	/*
	 * Read GPUMEM_SCHEDULE. True: the library chooses the order of independent operations. Called once, by
	 * cuInit().
	 */
	bool (*start)(void);
	/* A public function begins. Only if client.scheduled. */
	void (*call)(const char *name);
	/* The current context fails with @error, which is sticky. */
	void (*lose)(CUresult error);
	/* The rules changed: streams that a rule stopped continue. */
	void (*resume)(void);
};

#endif /* GPUMEM_CORE_FAULT_H */
