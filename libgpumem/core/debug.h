/* SPDX-License-Identifier: MIT */
/*
 * Errors that help: what GPUMEM_DEBUG=1 prints about failed calls and failed work.
 *
 * debug.c says what is kept, and for how long.
 *
 * DEBUG_NOTE(name, arguments...) keeps the name and up to twelve arguments of the call under way. It
 * reads the arguments only if debugging is on, so that a call that succeeds pays for one test of a
 * byte and keeps no argument longer than it would without.
 */
#ifndef GPUMEM_DEBUG_H
#define GPUMEM_DEBUG_H

#include <linux/gpumem_netlink.h>

#include "core/client.h"

enum debug_kind { DEBUG_SIGNED, DEBUG_UNSIGNED, DEBUG_ADDRESS, DEBUG_TEXT };

struct debug_value {
	enum debug_kind kind;
	uint64_t number;		/* DEBUG_TEXT: the address of the text */
};

/* Outputs are addresses: what is behind a char * may not have been written yet. */
#define DEBUG_KIND(x)	_Generic((x),						\
	const char *: DEBUG_TEXT,						\
	signed char: DEBUG_SIGNED, short: DEBUG_SIGNED, int: DEBUG_SIGNED,	\
	long: DEBUG_SIGNED, long long: DEBUG_SIGNED,				\
	bool: DEBUG_UNSIGNED, unsigned char: DEBUG_UNSIGNED,			\
	unsigned short: DEBUG_UNSIGNED, unsigned int: DEBUG_UNSIGNED,		\
	unsigned long: DEBUG_UNSIGNED,						\
	default: DEBUG_ADDRESS)
#define DEBUG_VALUE(x)	{ DEBUG_KIND(x), (uint64_t)(x) },

#define DEBUG_V0()
#define DEBUG_V1(a)		DEBUG_VALUE(a)
#define DEBUG_V2(a, ...)	DEBUG_VALUE(a) DEBUG_V1(__VA_ARGS__)
#define DEBUG_V3(a, ...)	DEBUG_VALUE(a) DEBUG_V2(__VA_ARGS__)
#define DEBUG_V4(a, ...)	DEBUG_VALUE(a) DEBUG_V3(__VA_ARGS__)
#define DEBUG_V5(a, ...)	DEBUG_VALUE(a) DEBUG_V4(__VA_ARGS__)
#define DEBUG_V6(a, ...)	DEBUG_VALUE(a) DEBUG_V5(__VA_ARGS__)
#define DEBUG_V7(a, ...)	DEBUG_VALUE(a) DEBUG_V6(__VA_ARGS__)
#define DEBUG_V8(a, ...)	DEBUG_VALUE(a) DEBUG_V7(__VA_ARGS__)
#define DEBUG_V9(a, ...)	DEBUG_VALUE(a) DEBUG_V8(__VA_ARGS__)
#define DEBUG_V10(a, ...)	DEBUG_VALUE(a) DEBUG_V9(__VA_ARGS__)
#define DEBUG_V11(a, ...)	DEBUG_VALUE(a) DEBUG_V10(__VA_ARGS__)
#define DEBUG_V12(a, ...)	DEBUG_VALUE(a) DEBUG_V11(__VA_ARGS__)
#define DEBUG_PICK(a, b, c, d, e, f, g, h, i, j, k, l, m, n, ...)	n
#define DEBUG_VALUES(...)							\
	DEBUG_PICK(_, ##__VA_ARGS__, DEBUG_V12, DEBUG_V11, DEBUG_V10, DEBUG_V9,	\
		   DEBUG_V8, DEBUG_V7, DEBUG_V6, DEBUG_V5, DEBUG_V4, DEBUG_V3,	\
		   DEBUG_V2, DEBUG_V1, DEBUG_V0)(__VA_ARGS__)

#define DEBUG_MOST	12u
#define DEBUG_REASON	256u		/* bytes of the longest reason */

/* The values, and one more. */
#define DEBUG_ARRAY(...)							\
	((const struct debug_value[]) { DEBUG_VALUES(__VA_ARGS__) { DEBUG_SIGNED, 0 } })

#define DEBUG_NOTE(name, ...)	DEBUG_NOTE_IF(true, name, ##__VA_ARGS__)
/* @faults: the call has not failed yet, so rules of GPUMEM_FAULT may let it fail. */
#define DEBUG_NOTE_IF(faults, name, ...)					\
	(likely(!client.noted) ? CUDA_SUCCESS :					\
	 debug_note(faults, name, #__VA_ARGS__, DEBUG_ARRAY(__VA_ARGS__),	\
		    sizeof(DEBUG_ARRAY(__VA_ARGS__)) / sizeof(struct debug_value) - 1))

/*
 * Keep a call's name and arguments. @names: the arguments' names, separated by commas. @values: their @count
 * values. A nonzero return value is the call's result: a rule of GPUMEM_FAULT lets the call fail.
 */
CUresult debug_note(bool faults, const char *name, const char *names, const struct debug_value *values,
		    unsigned int count) __attribute__((cold));
/* Print one line about a call that fails, if debugging is on. */
void debug_failure(const char *call, CUresult result) __attribute__((cold));
/* Report the end of a call to the tap, and a failure to debug_failure(). */
void call_report(const char *call, CUresult result) __attribute__((cold));
static inline void call_end(const char *call, CUresult result)
{
	if (unlikely(result || client.tap))
		call_report(call, result);
}
/* Record that a system call of the thread failed with the positive errno @error. */
void debug_system_call(const char *what, int error) __attribute__((cold));
/* debug_system_call(), and ask the kernel which limit refused. */
void debug_refused_call(const char *what, int error) __attribute__((cold));
/* Record a failed ioctl. If its error can come from a limit, ask the kernel which limit refused. */
void debug_ioctl(unsigned long request, int error) __attribute__((cold));
/* Record that the library refuses @asked bytes by a limit of enum gpumem_limit: @used of @max bytes are in use. */
void debug_refused(unsigned int limit, CUdevice device, uint64_t asked, uint64_t used, uint64_t max)
	__attribute__((cold));
/*
 * Print why the program cannot work: always if debugging is on, else only on a terminal and only if *@printed,
 * which begins as 0, says that the caller has not yet.
 */
void debug_explain(uint32_t *printed, const char *reason) __attribute__((cold));
/*
 * Keep the reason why the calling thread's cuInit() fails, for gpumem_init_error(), and print it with
 * debug_explain(). NULL: forget the reason of the cuInit() before.
 */
void debug_init(const char *reason) __attribute__((cold));

/* The reason that debug_init() kept for the calling thread, or NULL. */
const char *debug_init_reason(void);

/* A line of text for standard error. Text that does not fit is cut. */
struct debug_line {
	size_t length;
	char text[1024];
};

void debug_add(struct debug_line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
void debug_add_errno(struct debug_line *line, int error);
/* Print the line. No cancellation point. */
void debug_print(struct debug_line *line);

#endif /* GPUMEM_DEBUG_H */
