/* SPDX-License-Identifier: MIT */
/*
 * Atomic accesses, fences, sizes and small arithmetic for every file of the library.
 *
 * Includes: CUDA's public headers and the kernel's interface, nothing of the library.
 */
#ifndef GPUMEM_CORE_BASE_H
#define GPUMEM_CORE_BASE_H

#define __CUDA_API_VERSION_INTERNAL
#include "cuda.h"
#include "gpumem.h"

#include <linux/gpumem.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define likely(x)		__builtin_expect(!!(x), 1)
#define unlikely(x)		__builtin_expect(!!(x), 0)
#define load_acquire(p)		__atomic_load_n(p, __ATOMIC_ACQUIRE)
#define load_relaxed(p)		__atomic_load_n(p, __ATOMIC_RELAXED)
#define store_release(p, v)	__atomic_store_n(p, v, __ATOMIC_RELEASE)
#define store_relaxed(p, v)	__atomic_store_n(p, v, __ATOMIC_RELAXED)

/*
 * For declarations of variables that another file defines. -fvisibility=hidden applies to definitions
 * only; without this attribute, code loads the variable's address first.
 */
#define HIDDEN	__attribute__((visibility("hidden")))

/*
 * gcc's thread sanitizer does not support fences. They order atomic accesses only, so under the sanitizer
 * a compiler barrier is enough, and the older builtin for a full fence.
 */
#if defined(__SANITIZE_THREAD__)
#define fence_acquire()		__asm__ volatile("" ::: "memory")
#define fence_release()		__asm__ volatile("" ::: "memory")
#else
#define fence_acquire()		__atomic_thread_fence(__ATOMIC_ACQUIRE)
#define fence_release()		__atomic_thread_fence(__ATOMIC_RELEASE)
#endif
#define fence_full()		__sync_synchronize()


#define PAGE		4096ull
#define SLOT_SHIFT	21
#define SLOT		(1ull << SLOT_SHIFT)	/* granularity of addresses and of backing */
#define UNIT		512ull			/* granularity inside a shared block */
#define SLOT_UNITS	(SLOT / UNIT)
#define INLINE_MAX	(256ull << 10)		/* asynchronous operations above this are queued */

static inline uint64_t round_up(uint64_t v, uint64_t to)
{
	return (v + to - 1) & ~(to - 1);
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

#endif /* GPUMEM_CORE_BASE_H */
