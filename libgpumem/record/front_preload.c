// SPDX-License-Identifier: MIT
/*
 * The recorder in front of any libcuda.so.1: a preloaded library with a wrapper for each function of calls.h.
 *
 * A program reaches a wrapper by its symbol, by dlsym(), or by cuGetProcAddress(); the latter two are wrapped for that.
 * NVIDIA's runtime library uses both. A wrapper calls the driver's function that the program would have called.
 *
 * All parameters of the functions are integers or pointers. The calling conventions of x86-64 and of AArch64 pass each of
 * them in a register or slot of 8 bytes, so wrappers take 64-bit integers and hand them on as they are. This file cannot
 * include cuda.h, which declares the functions with other types. The three functions that take a handle of CUDA IPC by
 * value have wrappers with a structure of that size.
 *
 * The library is linked to the C library only.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "record/record.h"

#define EXPORT		__attribute__((visibility("default")))
#ifdef __clang__
#define JUMPS
#else
#define JUMPS		__attribute__((optimize("optimize-sibling-calls")))
#endif
#define NOT_FOUND	500u		/* CUDA_ERROR_NOT_FOUND */
#define LIBCUDA		"libcuda.so.1"

#if !defined(__x86_64__) && !defined(__aarch64__)
#error wrappers need a calling convention that passes integers in slots of 8 bytes
#endif

struct ipc_handle {
	char bytes[64];
};

enum number {
#define CALL(symbol, arguments, parameters)	NUMBER_ ## symbol,
#include "record/calls.h"
	NUMBERS,
};

static void *reals[NUMBERS];		/* the driver's functions; atomic */
static void *get_proc[2];		/* cuGetProcAddress(), cuGetProcAddress_v2() */
static void *(*next_dlsym)(void *handle, const char *name);

/* ---- the driver's functions */

static void find_dlsym(void)
{
	static const char *const versions[] = { "GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17" };
	unsigned int i;

	for (i = 0; i < sizeof(versions) / sizeof(versions[0]) && !next_dlsym; i++)
		next_dlsym = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", versions[i]);
}

static void *real(const char *name)
{
	void *library, *found;

	if (!next_dlsym)
		find_dlsym();
	found = next_dlsym ? next_dlsym(RTLD_NEXT, name) : NULL;
	if (found || !next_dlsym)
		return found;
	/* The program loaded it, and not for all. */
	library = dlopen(LIBCUDA, RTLD_LAZY | RTLD_NOLOAD);
	if (!library)
		return NULL;
	found = next_dlsym(library, name);
	dlclose(library);
	return found;
}

static void *real_of(enum number number, const char *name)
{
	void *found = __atomic_load_n(&reals[number], __ATOMIC_ACQUIRE);

	if (!found) {
		found = real(name);
		__atomic_store_n(&reals[number], found, __ATOMIC_RELEASE);
	}
	return found;
}

/* ---- wrappers */

#define T		uint64_t
/* @types: of the driver's function; @list: its arguments; @...: their values for the record. */
#define WRAPPER(symbol, arguments, types, list, ...)					\
	EXPORT uint32_t symbol arguments;						\
	EXPORT uint32_t symbol arguments						\
	{										\
		void *found = real_of(NUMBER_ ## symbol, #symbol);			\
		const uint64_t values[] = { __VA_ARGS__ };				\
		uint32_t result;							\
		bool begun;								\
											\
		if (!found)								\
			return NOT_FOUND;						\
		begun = call_begin(NUMBER_ ## symbol, values, __builtin_frame_address(0));	\
		result = ((uint32_t (*) types)found) list;				\
		if (begun)								\
			call_end(result);						\
		return result;								\
	}

#define WRAPPER0(s)	WRAPPER(s, (void), (void), (), 0)
#define WRAPPER1(s)	WRAPPER(s, (T a), (T), (a), a)
#define WRAPPER2(s)	WRAPPER(s, (T a, T b), (T, T), (a, b), a, b)
#define WRAPPER3(s)	WRAPPER(s, (T a, T b, T c), (T, T, T), (a, b, c), a, b, c)
#define WRAPPER4(s)	WRAPPER(s, (T a, T b, T c, T d), (T, T, T, T), (a, b, c, d), a, b, c, d)
#define WRAPPER5(s)	WRAPPER(s, (T a, T b, T c, T d, T e), (T, T, T, T, T), (a, b, c, d, e), a, b, c, d, e)
#define WRAPPER6(s)	WRAPPER(s, (T a, T b, T c, T d, T e, T f), (T, T, T, T, T, T),	\
				(a, b, c, d, e, f), a, b, c, d, e, f)
#define WRAPPER7(s)	WRAPPER(s, (T a, T b, T c, T d, T e, T f, T g), (T, T, T, T, T, T, T),	\
				(a, b, c, d, e, f, g), a, b, c, d, e, f, g)
#define WRAPPER8(s)	WRAPPER(s, (T a, T b, T c, T d, T e, T f, T g, T h), (T, T, T, T, T, T, T, T),	\
				(a, b, c, d, e, f, g, h), a, b, c, d, e, f, g, h)
#define WRAPPER9(s)	WRAPPER(s, (T a, T b, T c, T d, T e, T f, T g, T h, T i), (T, T, T, T, T, T, T, T, T),	\
				(a, b, c, d, e, f, g, h, i), a, b, c, d, e, f, g, h, i)
#define WRAPPER_IPC2(s)	WRAPPER(s, (T a, struct ipc_handle b), (T, struct ipc_handle), (a, b), a, 0)
#define WRAPPER_IPC3(s)	WRAPPER(s, (T a, struct ipc_handle b, T c), (T, struct ipc_handle, T), (a, b, c), a, 0, c)

#define CALL(symbol, arguments, parameters)	WRAPPER ## arguments(symbol)
#define CALL_IPC(symbol, arguments, parameters)	WRAPPER_IPC ## arguments(symbol)
#include "record/calls.h"

EXPORT uint32_t cuGetProcAddress(const char *name, void **function, int version, uint64_t flags);
EXPORT uint32_t cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status);

static void *const wrappers[] = {
#define CALL(symbol, arguments, parameters)	(void *)symbol,
#include "record/calls.h"
};

/* A driver that finds its own functions by their symbols finds wrappers. */
static bool is_wrapper(const void *found)
{
	unsigned int i;

	for (i = 0; i < NUMBERS; i++)
		if (found == wrappers[i])
			return true;
	return found == (void *)cuGetProcAddress || found == (void *)cuGetProcAddress_v2;
}

/* The wrapper of a function, which from now on calls @found; or @found itself. */
static void *wrapper_of(const char *symbol, void *found)
{
	uint32_t number = function_find(symbol);

	if (!found || number == NO_FUNCTION || is_wrapper(found))
		return found;
	__atomic_store_n(&reals[number], found, __ATOMIC_RELEASE);
	return wrappers[number];
}

/* ---- cuGetProcAddress() */

/* Which symbols a name means from a version of CUDA on. */
static const struct row {
	const char *name;
	int version;
	const char *symbol, *own;
} rows[] = {
#define PROC_FIRST(name, version, symbol, thread)	{ name, version, #symbol, #thread },
#define PROC_ABSENT(name, version, symbol, thread)
#define PROC_LATER(name, version, symbol, thread)
#include "abi/proc_table.h"
};

#define ROWS		(sizeof(rows) / sizeof(rows[0]))
#define PER_THREAD	2u		/* CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM */
#define NEWEST		13030		/* the version of CUDA up to which rows has all forms */

/*
 * The wrapper of what the driver found. The driver's symbol with the same address tells which form it is; else the
 * version does, because the address may be none that the driver exports.
 */
static void *proc_wrapper(const char *name, void *found, int version, uint64_t flags)
{
	const char *fits = NULL;
	unsigned int i;

	if (is_wrapper(found))
		return found;
	if (!strcmp(name, "cuGetProcAddress")) {
		/* From 12.0 on the name means the form with a status. */
		__atomic_store_n(&get_proc[version >= 12000], found, __ATOMIC_RELEASE);
		return version >= 12000 ? (void *)cuGetProcAddress_v2 : (void *)cuGetProcAddress;
	}
	for (i = 0; i < ROWS; i++) {
		if (strcmp(rows[i].name, name))
			continue;
		if (found == real(rows[i].symbol))
			return wrapper_of(rows[i].symbol, found);
		if (found == real(rows[i].own))
			return wrapper_of(rows[i].own, found);
		if (rows[i].version <= version && version <= NEWEST)
			fits = flags & PER_THREAD ? rows[i].own : rows[i].symbol;
	}
	return fits ? wrapper_of(fits, found) : found;
}

static void *get_proc_real(unsigned int form, const char *name)
{
	void *found = __atomic_load_n(&get_proc[form], __ATOMIC_ACQUIRE);

	return found ? found : real(name);
}

uint32_t cuGetProcAddress(const char *name, void **function, int version, uint64_t flags)
{
	uint32_t (*found)(const char *, void **, int, uint64_t) = (uint32_t (*)(const char *, void **, int, uint64_t))
		get_proc_real(0, "cuGetProcAddress");
	uint32_t result = found ? found(name, function, version, flags) : NOT_FOUND;

	if (!result && name && function && *function)
		*function = proc_wrapper(name, *function, version, flags);
	return result;
}

uint32_t cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status)
{
	uint32_t (*found)(const char *, void **, int, uint64_t, int *) =
		(uint32_t (*)(const char *, void **, int, uint64_t, int *))get_proc_real(1, "cuGetProcAddress_v2");
	uint32_t result = found ? found(name, function, version, flags, status) : NOT_FOUND;

	if (!result && name && function && *function)
		*function = proc_wrapper(name, *function, version, flags);
	return result;
}

/* ---- dlsym() */

static void *looked_up(void *handle, const char *name)
{
	void *found = next_dlsym(handle, name);
	bool second = !strcmp(name, "cuGetProcAddress_v2");

	/* There are wrappers of functions that the driver may not have. */
	if (is_wrapper(found))
		return real(name) ? found : NULL;
	if (!found || (!second && strcmp(name, "cuGetProcAddress")))
		return wrapper_of(name, found);
	__atomic_store_n(&get_proc[second], found, __ATOMIC_RELEASE);
	return second ? (void *)cuGetProcAddress_v2 : (void *)cuGetProcAddress;
}

/* Whether a name is one that dlsym() answers itself. */
static bool is_ours(const char *name)
{
	return name[0] == 'c' && name[1] == 'u' &&
		(function_find(name) != NO_FUNCTION || !strcmp(name, "cuGetProcAddress") ||
		 !strcmp(name, "cuGetProcAddress_v2"));
}

/*
 * The C library looks at the return address, with RTLD_NEXT and in a library that was loaded with RTLD_LOCAL, so other
 * names are handed on by a jump.
 */
EXPORT void *dlsym(void *restrict handle, const char *restrict name);
JUMPS void *dlsym(void *restrict handle, const char *restrict name)
{
	if (!next_dlsym)
		find_dlsym();
	if (next_dlsym && handle != RTLD_NEXT && is_ours(name))
		return looked_up(handle, name);
	return next_dlsym(handle, name);
}

/* ---- the start */

/* gpumem's driver library does not start a recorder of its own if the process has this symbol. */
EXPORT extern const char gpumem_record_preloaded;
const char gpumem_record_preloaded = 1;

static __attribute__((constructor)) void begin(void)
{
	find_dlsym();
	functions_start();
	recorder_start(TRACE_PRELOAD, real);
}
