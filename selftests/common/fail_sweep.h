/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The sweep of t_fail_nth and t_cuda_fail_nth: an operation with its first, second, third ...
 * allocation or user copy failing, until the operation has no further point that could fail.
 *
 * An operation is three steps: set up, act, undo.  Only "act" has faults.  After a failed "act" the
 * state is the one before "act", and a second "act" succeeds.  After "undo" the state is the one
 * before "set up", whichever points failed.
 *
 * Include this after kselftest_harness.h and a header that defines struct env, which the steps
 * share, and step, a function of it that returns 0 or an error.
 */
#ifndef GPUMEM_SELFTESTS_FAIL_SWEEP_H
#define GPUMEM_SELFTESTS_FAIL_SWEEP_H

#include "common/fail_nth.h"

/*
 * With @skips the sweep tries each of the first FAIL_MANY points, and one in five of the others at
 * random.
 */
#define FAIL_MANY	40

struct fail_sweep {
	step setup, act, undo;		/* setup and undo: or NULL */
	step unchanged;			/* what the counters do not show, after a failure; or NULL */
	int client;			/* descriptor of the client whose counters count */
	bool own;			/* the program's own client: its next id counts, too */
	bool forgets;			/* a failure may come after the change; doing it again is right */
	struct rng *skips;
	bool (*known)(int result);	/* a documented result of a fault */
	/* Waits until the client's counters are @want; false if they stay different. */
	bool (*settles)(const struct fail_state *want, int client);
};

/*
 * Runs the sweep; @failed counts the calls of "act" that failed.  Returns the number of the first
 * point that the operation does not have; with @skips up to 8 more than that.
 */
static inline unsigned int fail_sweep(struct __test_metadata *_metadata, const struct fail_sweep *s,
				      struct env *e, unsigned int *failed)
{
	struct fail_state before, ready;
	bool fired = true;
	unsigned int n;
	int result;

	/* A first pass makes the objects that are made once and kept, such as caches.  */
	ASSERT_EQ(0, s->setup ? s->setup(e) : 0);
	ASSERT_EQ(0, s->act(e));
	ASSERT_EQ(0, s->undo ? s->undo(e) : 0);
	nap_ms(50);
	for (n = 1; fired && n < FAIL_MOST;
	     n += n < FAIL_MANY || !s->skips ? 1 : 1 + rng_below(s->skips, 9)) {
		ASSERT_EQ(0, fail_look(&before, s->client, s->own));
		ASSERT_EQ(0, s->setup ? s->setup(e) : 0);
		ASSERT_EQ(0, fail_look(&ready, s->client, s->own));
		fail_arm(n);
		result = s->act(e);
		fired = fail_disarm();
		if (result) {
			(*failed)++;
			ASSERT_TRUE(fired && s->known(result)) {
				TH_LOG("result %d at point %u, which fails: %d", result, n, fired);
			}
			ASSERT_TRUE(s->forgets || s->settles(&ready, s->client)) {
				TH_LOG("changed by result %d at point %u", result, n);
			}
			ASSERT_EQ(0, s->unchanged ? s->unchanged(e) : 0) {
				TH_LOG("changed by result %d at point %u", result, n);
			}
			ASSERT_EQ(0, s->act(e)) {
				TH_LOG("again after result %d at point %u", result, n);
			}
		}
		ASSERT_EQ(0, s->undo ? s->undo(e) : 0) {
			TH_LOG("point %u", n);
		}
		ASSERT_TRUE(s->settles(&before, s->client)) {
			TH_LOG("left behind after result %d at point %u", result, n);
		}
	}
	EXPECT_FALSE(fired);
	return n - 1;
}

/* The last case of a program: no object of the module is lost, whatever failed before. */
#define FAIL_LEAKS_CASE()							\
FIXTURE(leaks)									\
{										\
};										\
										\
FIXTURE_SETUP(leaks)								\
{										\
}										\
										\
FIXTURE_TEARDOWN(leaks)								\
{										\
}										\
										\
TEST_F_TIMEOUT(leaks, none, 120)						\
{										\
	int leaks = fail_leaks();						\
										\
	if (leaks < 0)								\
		SKIP(return, "the kernel does not look for lost objects");	\
	EXPECT_EQ(0, leaks);							\
}

#endif
