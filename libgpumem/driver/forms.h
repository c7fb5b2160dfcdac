/* SPDX-License-Identifier: MIT */
/*
 * Macros that define both forms of a public function that uses a stream. The legacy form takes stream 0 as
 * the current context's legacy stream, and a function without a stream argument uses that stream. The _ptsz or
 * _ptds form uses the calling thread's own stream instead.
 *
 * Functions of which both forms have a fast path are in cu_stream.c and cu_pool.c, with macros of their own.
 */
#ifndef GPUMEM_DRIVER_FORMS_H
#define GPUMEM_DRIVER_FORMS_H

#include "core/call.h"

/* @how: the macro of core/call.h that wraps @call. @call may read "own": stream 0 is the calling thread's. */
#define STREAM_FORMS_AS(how, name, args, first, call, ...)		\
	CUresult name args						\
	{								\
		const bool own = false;					\
									\
		how(first, call, __VA_ARGS__);				\
	}								\
	CUresult name ## _ptsz args					\
	{								\
		const bool own = true;					\
									\
		how(first, call, __VA_ARGS__);				\
	}
/* CALL_AFTER: @first is checked even if cuInit() was not called. */
#define STREAM_FORMS(name, args, first, call, ...)			\
	STREAM_FORMS_AS(CALL_AFTER, name, args, first, call, __VA_ARGS__)
/* STREAM_FORMS for functions that host functions may call. */
#define STREAM_FORMS_INSIDE(name, args, first, call, ...)		\
	STREAM_FORMS_AS(CALL_INSIDE_AFTER, name, args, first, call, __VA_ARGS__)

/* Copies and fills without a stream; @call uses "flags" of enum call_flags. */
#define COPY_FORMS(name, args, call, ...)				\
	CUresult name args						\
	{								\
		const unsigned int flags = CALL_SYNC;			\
									\
		CALL(call, __VA_ARGS__);				\
	}								\
	CUresult name ## _ptds args					\
	{								\
		const unsigned int flags = CALL_SYNC | CALL_OWN;	\
									\
		CALL(call, __VA_ARGS__);				\
	}
/* COPY_FORMS with a stream argument, which host functions may call, too. */
#define COPY_FORMS_ASYNC(name, args, call, ...)				\
	CUresult name args						\
	{								\
		const unsigned int flags = 0;				\
									\
		CALL_INSIDE(call, __VA_ARGS__);				\
	}								\
	CUresult name ## _ptsz args					\
	{								\
		const unsigned int flags = CALL_OWN;			\
									\
		CALL_INSIDE(call, __VA_ARGS__);				\
	}

/*
 * The kinds of address that a function accepts for an end of a copy: DEV device memory, ANY also host memory. NAMED
 * accepts the same as ANY for an end that the function calls the host's.
 */
#define DEV	END_DEVICE
#define ANY	(END_DEVICE | END_HOST)
#define NAMED	(ANY | END_NAMED_HOST)

static inline uint64_t host_address(const void *ptr)
{
	return (uintptr_t)ptr;
}

#endif /* GPUMEM_DRIVER_FORMS_H */
