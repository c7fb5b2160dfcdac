// SPDX-License-Identifier: GPL-2.0
/*
 * Makes random programs and changes programs.
 *
 * Invariant: an argument refers to an earlier call that makes a resource of its kind, or is a
 * number.  Functions that move or remove calls preserve the invariant: a reference to a removed
 * call becomes the number 0.
 *
 * Locks: none.
 */
#include "fuzz.h"

static void add_call(struct rng *r, struct prog *p, unsigned int kind, unsigned int depth);

static bool makes(unsigned int spec, enum kind kind, unsigned int *slot)
{
	for (*slot = 0; *slot < 2; ++*slot)
		if (specs[spec].makes[*slot] && kind_takes(kind, specs[spec].makes[*slot]))
			return true;
	return false;
}

/* Choose an earlier call that makes @kind.  Later calls are chosen more often. */
static bool find_maker(struct rng *r, const struct prog *p, enum kind kind, struct arg *a)
{
	bool found = false;
	unsigned int slot;

	for (unsigned int i = 0; i < p->n; i++) {
		if (!makes(p->calls[i].kind, kind, &slot) || (found && rng_below(r, 2)))
			continue;
		*a = (struct arg) { .ref = i, .slot = slot };
		found = true;
	}
	return found;
}

static void some_arg(struct rng *r, struct prog *p, const struct arg_spec *spec, struct arg *a,
		     unsigned int depth)
{
	unsigned int kind, slot, tries;

	*a = (struct arg) { .ref = -1 };
	if (!kind_is_resource(spec->kind) || (spec->kind == K_MEMORY && rng_below(r, 6)) ||
	    !rng_below(r, 30)) {
		a->value = some_value(r, spec);
		return;
	}
	if (rng_below(r, 8) && find_maker(r, p, spec->kind, a))
		return;
	for (tries = 0; depth && tries < 200 && p->n < MAX_CALLS - depth; tries++) {
		kind = rng_below(r, spec_count);
		if (!makes(kind, spec->kind, &slot))
			continue;
		/* The arguments of the new call get less depth, which ends the recursion. */
		add_call(r, p, kind, depth - 1);
		break;
	}
	if (!find_maker(r, p, spec->kind, a))
		a->value = some_value(r, spec);
}

static void some_passing(struct rng *r, struct call *c)
{
	if (specs[c->kind].what != W_IOCTL)
		return;
	c->pass = PASS_WELL;
	c->size = 0;
	switch (rng_below(r, 40)) {
	case 0:
		c->pass = rng_below(r, PASS_KINDS);
		break;
	case 1:
		c->pass = PASS_RDONLY;
		break;
	case 2:
		c->size = rng_below(r, 5000);
		break;
	}
}

static void add_call(struct rng *r, struct prog *p, unsigned int kind, unsigned int depth)
{
	const struct call_spec *spec = &specs[kind];
	struct call c = { .kind = kind };

	for (unsigned int i = 0; i < args_of(spec); i++)
		some_arg(r, p, &spec->args[i], &c.args[i], depth);
	if (p->n == MAX_CALLS)
		return;
	some_passing(r, &c);
	c.async = !rng_below(r, 12);
	p->calls[p->n++] = c;
}

static unsigned int some_kind(struct rng *r)
{
	unsigned int sum = 0, n;

	for (unsigned int i = 0; i < spec_count; i++)
		sum += specs[i].weight;
	n = rng_below(r, sum);
	for (unsigned int i = 0; ; i++) {
		if (n < specs[i].weight)
			return i;
		n -= specs[i].weight;
	}
}

void prog_random(struct rng *r, struct prog *p)
{
	unsigned int n = 3 + rng_below(r, 12);

	p->n = 0;
	while (p->n < n)
		add_call(r, p, some_kind(r), 4);
}

void prog_remove(struct prog *p, unsigned int at)
{
	for (unsigned int i = at; i + 1 < p->n; i++)
		p->calls[i] = p->calls[i + 1];
	p->n--;
	for (unsigned int i = at; i < p->n; i++) {
		for (unsigned int j = 0; j < MAX_ARGS; j++) {
			struct arg *a = &p->calls[i].args[j];

			if (a->ref == (int)at)
				*a = (struct arg) { .ref = -1 };
			else if (a->ref > (int)at)
				a->ref--;
		}
	}
}

/*
 * Append the calls of @from, beginning with call @first.  References to calls from @first on are
 * moved by @by.
 */
static void append(struct prog *p, const struct prog *from, unsigned int first, int by)
{
	for (unsigned int i = first; i < from->n && p->n < MAX_CALLS; i++) {
		struct call *c = &p->calls[p->n++];

		*c = from->calls[i];
		for (unsigned int j = 0; j < MAX_ARGS; j++)
			if (c->args[j].ref >= (int)first)
				c->args[j].ref += by;
	}
}

static void insert(struct rng *r, struct prog *p)
{
	struct prog old = *p;
	unsigned int at = rng_below(r, 2) ? p->n : rng_below(r, p->n + 1);

	p->n = at;
	add_call(r, p, some_kind(r), 3);
	append(p, &old, at, p->n - at);
}

static void splice(struct rng *r, struct prog *p, const struct prog *other)
{
	if (rng_below(r, 2) && p->n)
		p->n = 1 + rng_below(r, p->n);
	append(p, other, 0, p->n);
}

void prog_mutate(struct rng *r, struct prog *p, const struct prog *other)
{
	do {
		unsigned int at = p->n ? rng_below(r, p->n) : 0, what = rng_below(r, 100), nargs;
		struct call *c = &p->calls[at];
		struct prog before;

		if (!p->n || (what < 40 && p->n < MAX_CALLS - 4)) {
			insert(r, p);
		} else if (what < 75) {
			nargs = args_of(&specs[c->kind]);
			/* The new argument may refer to earlier calls only. */
			before = *p;
			before.n = at;
			if (nargs) {
				unsigned int i = rng_below(r, nargs);

				some_arg(r, &before, &specs[c->kind].args[i], &c->args[i], 0);
			}
		} else if (what < 82) {
			prog_remove(p, at);
		} else if (what < 90 && other) {
			splice(r, p, other);
		} else if (what < 94) {
			c->async = !c->async;
		} else if (what < 97 && specs[c->kind].what == W_IOCTL) {
			c->pass = rng_below(r, PASS_KINDS);
		} else if (specs[c->kind].what == W_IOCTL) {
			c->size = rng_below(r, 2) ? 0 : rng_below(r, 5000);
		}
	} while (!p->n || rng_below(r, 3));
}
