/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the cases of MPI share: buffers of a kind of memory, filled and checked by the device's
 * engine, and ways to end.
 *
 * A buffer lies between two zones that no call may touch.  fill() writes a pattern with an
 * asynchronous copy and waits for its event; differs() reads the buffer and both zones with
 * another stream.  So the engine, not the CPU, produces what MPI sends, and sees what MPI received.
 */
#ifndef MPI_CASES_H
#define MPI_CASES_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#define ZONE	256
#define LARGEST	(4UL << 20)

/* The kinds of memory. */
enum kind { HOST, DEVICE, RUNTIME, POOL, VMM, MANAGED, KINDS };

struct buffer {
	uint8_t *at;		/* the first byte between the zones */
	size_t size;
	enum kind kind;
	CUdeviceptr base;	/* of the allocation */
	size_t whole;
	CUmemGenericAllocationHandle handle;	/* VMM only */
};

extern int rank, ranks;
extern const char *const kind_name[KINDS];
extern const size_t sizes[];
/* The first ones of sizes[]: all of them for device memory, the classes that differ for other kinds. */
extern int size_count;

void choose_sizes(enum kind kind);

/* Set up the device, its streams and the bystander. */
void memory_begin(void);
void memory_end(void);

struct buffer get(enum kind kind, size_t size);
void put(struct buffer *b);

/* Write the pattern @seed to @length bytes at @offset of @b, by the engine. */
void fill(const struct buffer *b, size_t offset, size_t length, unsigned int seed);
/* Write the bytes of @from to all of @b, by the engine. */
void fill_from(const struct buffer *b, const void *from);
/* Set @b to a value that no pattern begins with, zones included. */
void clear(const struct buffer *b);
/* How many bytes of the pattern @seed are missing in a part of @b. */
long differs(const struct buffer *b, size_t offset, size_t length, unsigned int seed);
/* Copy @b into @to by the engine; counts the bytes of the zones that are no longer clear(). */
long read_out(const struct buffer *b, void *to);
/* The byte @i of the pattern @seed. */
uint8_t pattern(unsigned int seed, size_t i);

/* Keep the engine busy with memory that no case uses; then count the bytes that are wrong there. */
void bystander_run(void);
long bystander_differs(void);

_Noreturn void fail(const char *file, int line, const char *what, const char *why);
const char *cu_text(CUresult r);
const char *mpi_text(int r);

#define CU(call)							\
	do {								\
		CUresult r_ = (call);					\
		if (r_)							\
			fail(__FILE__, __LINE__, #call, cu_text(r_));	\
	} while (0)

#define RT(call)							\
	do {								\
		cudaError_t r_ = (call);				\
		if (r_)							\
			fail(__FILE__, __LINE__, #call, cudaGetErrorString(r_));	\
	} while (0)

#define MPI(call)							\
	do {								\
		int r_ = (call);					\
		if (r_)							\
			fail(__FILE__, __LINE__, #call, mpi_text(r_));	\
	} while (0)

/* A case returns the number of wrong bytes or values that this rank found. */
struct mpi_case {
	const char *name;
	long (*run)(enum kind kind);
};

extern const struct mpi_case point_cases[], group_cases[], window_cases[];

#endif
