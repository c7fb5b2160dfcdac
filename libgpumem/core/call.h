/* SPDX-License-Identifier: MIT */
/*
 * How a public function begins and ends: the macros that every function of the driver API is made of.
 */
#ifndef GPUMEM_CORE_CALL_H
#define GPUMEM_CORE_CALL_H

#include "core/debug.h"
#include "core/thread.h"

/*
 * The result of a public function. CALL evaluates its expression only in an initialized process. The
 * arguments behind the expression are those of the public function: GPUMEM_DEBUG=1 prints them.
 */
#define RETURN_AS(name, expr)						\
	do {								\
		CUresult result_ = (expr);				\
									\
		call_end(name, result_);				\
		return result_;						\
	} while (0)
#define RETURN(expr)		RETURN_AS(__func__, expr)
#define CALL_AS(name, expr, ...)					\
	do {								\
		CUresult fault_ = DEBUG_NOTE(name, ##__VA_ARGS__);	\
										\
		RETURN_AS(name, unlikely(fault_) ? fault_ : not_initialized() ? CUDA_ERROR_NOT_INITIALIZED :	\
			  unlikely(host_thread) ? CUDA_ERROR_NOT_PERMITTED : (expr));	\
	} while (0)
#define CALL(expr, ...)		CALL_AS(__func__, expr, ##__VA_ARGS__)
/* CALL for functions that host functions may call, because they need no context but a stream's or an event's. */
#define CALL_INSIDE_AS(name, expr, ...)					\
	do {								\
		CUresult fault_ = DEBUG_NOTE(name, ##__VA_ARGS__);	\
										\
		RETURN_AS(name, unlikely(fault_) ? fault_ : not_initialized() ? CUDA_ERROR_NOT_INITIALIZED : (expr));	\
	} while (0)
#define CALL_INSIDE(expr, ...)	CALL_INSIDE_AS(__func__, expr, ##__VA_ARGS__)
/* CALL that returns @first, if it is an error, before it checks for cuInit(). */
#define CALL_AFTER_AS(name, first, expr, ...)				\
	do {								\
		CUresult first_ = (first);				\
		CUresult fault_ = DEBUG_NOTE_IF(!first_, name, ##__VA_ARGS__);	\
										\
		RETURN_AS(name, first_ ? first_ : unlikely(fault_) ? fault_ :	\
			  not_initialized() ? CUDA_ERROR_NOT_INITIALIZED :	\
			  unlikely(host_thread) ? CUDA_ERROR_NOT_PERMITTED : (expr));	\
	} while (0)
#define CALL_AFTER(first, expr, ...)	CALL_AFTER_AS(__func__, first, expr, ##__VA_ARGS__)
#define CALL_INSIDE_AFTER_AS(name, first, expr, ...)			\
	do {								\
		CUresult first_ = (first);				\
		CUresult fault_ = DEBUG_NOTE_IF(!first_, name, ##__VA_ARGS__);	\
										\
		RETURN_AS(name, first_ ? first_ : unlikely(fault_) ? fault_ :	\
			  not_initialized() ? CUDA_ERROR_NOT_INITIALIZED : (expr));	\
	} while (0)
#define CALL_INSIDE_AFTER(first, expr, ...)				\
	CALL_INSIDE_AFTER_AS(__func__, first, expr, ##__VA_ARGS__)
/* Values for @first. */
#define NEEDS(given)		((given) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE)
#define NEEDS_HANDLE(given)	((given) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE)
/* Set an output to 0 before anything is checked, so that it is 0 after each failure. */
#define CLEAR(out)							\
	do {								\
		if (out)						\
			*(out) = 0;					\
	} while (0)

#endif /* GPUMEM_CORE_CALL_H */
