/* SPDX-License-Identifier: MIT */
/*
 * Locks: a futex each. client.c has the slow paths.
 */
#ifndef GPUMEM_CORE_LOCK_H
#define GPUMEM_CORE_LOCK_H

#include "core/base.h"

/* A futex: 0 free, 1 taken, 2 taken and threads may sleep. Uncontended, taking it is one compare-and-exchange. */
struct lock {
	uint32_t word;
};

void lock_slow(struct lock *lock);
void lock_wake(struct lock *lock);
/*
 * Sleep for a moment, for a caller that has no lock to sleep on. Unlike yielding, this lets a thread of lower
 * priority run. No cancellation point.
 */
void lock_doze(void);

/* Sleep while *@word is @seen. No cancellation point. */
void word_await(uint32_t *word, uint32_t seen);
/* Add one to *@word, whose lock the caller holds. @any: threads may be in word_await(): wake them. */
void word_change(uint32_t *word, bool any);

static inline bool lock_try(struct lock *lock)
{
	uint32_t free = 0;

	return __atomic_compare_exchange_n(&lock->word, &free, 1, false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

/* Order all later reads behind taking the lock. An exchange is a barrier on x86. */
static inline void fence_locked(void)
{
#if defined(__x86_64__)
	__asm__ volatile("" ::: "memory");
#else
	fence_full();
#endif
}

static inline void lock_take(struct lock *lock)
{
	if (unlikely(!lock_try(lock)))
		lock_slow(lock);
}

static inline void lock_drop(struct lock *lock)
{
	if (unlikely(__atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE) == 2))
		lock_wake(lock);
}

/*
 * Call these around code that reaches a cancellation point with a lock held, or with something to be given back.
 * If a thread were cancelled there, the lock would stay taken for ever. The thread is cancelled afterwards, at the
 * next cancellation point.
 */
static inline int cancel_disable(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

static inline void cancel_restore(int state)
{
	pthread_setcancelstate(state, &state);
}

#endif /* GPUMEM_CORE_LOCK_H */
