// SPDX-License-Identifier: GPL-2.0
/*
 * The checker on programs whose CPU changes pinned and registered memory while queued work reads it, or which unmap such
 * memory; and on their correct twins.
 */
#include <gpumem.h>

#include <malloc.h>

#include "kselftest_harness.h"
#include "check_util.h"

/* ---- memory that the CPU changes */

/* Changes that sums of words may not show. */
MISTAKE(signs_changed_while_queued_work_reads, "host-write")
{
	double *numbers = (double *)w->pinned;
	unsigned int i;

	for (i = 0; i < BYTES / sizeof(*numbers); i++)
		numbers[i] = i + 1;
	OK(WRONG(cuMemcpyHtoDAsync(w->p, w->pinned, BYTES, w->a)));
	for (i = 0; i < BYTES / sizeof(*numbers); i++)
		numbers[i] = -numbers[i];
	OK(cuStreamSynchronize(w->a));
}

MISTAKE(numbers_swapped_while_queued_work_reads, "host-write")
{
	uint64_t *numbers = (uint64_t *)w->pinned, number;
	unsigned int i;

	for (i = 0; i < BYTES / sizeof(*numbers); i++)
		numbers[i] = i + 1;
	OK(WRONG(cuMemcpyHtoDAsync(w->p, w->pinned, BYTES, w->a)));
	number = numbers[8];
	numbers[8] = numbers[12];
	numbers[12] = number;
	OK(cuStreamSynchronize(w->a));
}

MISTAKE(pinned_source_changed_too_early, "host-write")
{
	memset(w->pinned, 1, BYTES);
	OK(WRONG(cuMemcpyHtoDAsync(w->p, w->pinned, BYTES, w->a)));
	memset(w->pinned, 2, BYTES);
	OK(cuStreamSynchronize(w->a));
}

TWIN(pinned_source_changed_after_synchronization)
{
	memset(w->pinned, 1, BYTES);
	OK(cuMemcpyHtoDAsync(w->p, w->pinned, BYTES, w->a));
	OK(cuStreamSynchronize(w->a));
	memset(w->pinned, 2, BYTES);
}

TWIN(other_bytes_of_pinned_memory_changed)
{
	OK(cuMemcpyHtoDAsync(w->p, w->pinned, BYTES / 2, w->a));
	memset(w->pinned + BYTES / 2, 2, BYTES / 2);
	OK(cuStreamSynchronize(w->a));
}

TWIN(bytes_between_rows_changed)
{
	CUDA_MEMCPY2D rows = {
		.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = w->pinned, .srcPitch = 64,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = w->p, .dstPitch = 64, .WidthInBytes = 32,
		.Height = BYTES / 64,
	};

	OK(cuMemcpy2DAsync(&rows, w->a));
	memset(w->pinned + 32, 1, 32);
	OK(cuStreamSynchronize(w->a));
}

TWIN(source_changed_after_the_elapsed_time)
{
	CUevent from, to;
	float ms;

	OK(cuEventCreate(&from, 0));
	OK(cuEventCreate(&to, 0));
	OK(cuEventRecord(from, w->a));
	OK(cuMemcpyHtoDAsync(w->p, w->pinned, BYTES, w->a));
	OK(cuEventRecord(to, w->a));
	while (cuEventElapsedTime(&ms, from, to) == CUDA_ERROR_NOT_READY)
		;
	memset(w->pinned, 1, BYTES);
	OK(cuStreamSynchronize(w->a));
	OK(cuEventDestroy(from));
	OK(cuEventDestroy(to));
}

TWIN(pageable_source_changed_after_the_call)
{
	OK(cuMemcpyHtoDAsync(w->p, w->pageable, BYTES, w->a));
	memset(w->pageable, 2, BYTES);
	OK(cuStreamSynchronize(w->a));
}

/* ---- memory that the program unmaps */

MISTAKE(registered_memory_unmapped, "host-unmapped")
{
	void *m = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	OK(WRONG(cuMemHostRegister(m, BYTES, 0)));
	munmap(m, BYTES);
	cuMemHostUnregister(m);
}

MISTAKE(registered_memory_unmapped_while_work_reads, "host-unmapped")
{
	void *m = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	OK(WRONG(cuMemHostRegister(m, BYTES, 0)));
	OK(cuMemcpyHtoDAsync(w->p, m, BYTES, w->a));
	munmap(m, BYTES);
	OK(cuStreamSynchronize(w->a));
	OK(cuMemHostUnregister(m));
}

TWIN(registered_memory_unregistered_first)
{
	void *m = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	OK(cuMemHostRegister(m, BYTES, 0));
	OK(cuMemHostUnregister(m));
	munmap(m, BYTES);
}

/* Pinned memory that is small shares its mapping with other memory. */
#define LARGE		(4u << 20)

MISTAKE(pinned_memory_unmapped, "host-unmapped")
{
	void *m;

	OK(WRONG(cuMemAllocHost(&m, LARGE)));
	OK(munmap(m, LARGE));
	OK(cuMemFreeHost(m));
}

MISTAKE(small_pinned_memory_unmapped, "host-unmapped")
{
	char *m;

	OK(WRONG(cuMemHostAlloc((void **)&m, 4 * BYTES, CU_MEMHOSTALLOC_PORTABLE)));
	OK(munmap((void *)(((uintptr_t)m + BYTES) & -(uintptr_t)BYTES), BYTES));
	OK(cuMemFreeHost(m));
	/* The library uses the bytes again. */
	OK(cuMemAllocHost((void **)&m, 4 * BYTES));
	memset(m, 1, 4 * BYTES);
	OK(cuMemFreeHost(m));
}

MISTAKE(pinned_memory_unmapped_while_work_reads, "host-unmapped")
{
	void *m;

	OK(WRONG(cuMemAllocHost(&m, LARGE)));
	OK(cuMemcpyHtoDAsync(w->p, m, BYTES, w->a));
	OK(munmap(m, LARGE));
	OK(cuStreamSynchronize(w->a));
	/* The checker has noticed: the memory is there again. */
	memset(m, 1, LARGE);
	OK(cuMemFreeHost(m));
}

TEST(report_says_that_queued_work_uses_it)
{
	struct outcome *outcome = malloc(sizeof(*outcome));

	ASSERT_NE(NULL, outcome);
	program_run(pinned_memory_unmapped_while_work_reads_body, no_environment, shared_line(), outcome);
	EXPECT_NE(NULL, strstr(outcome->text, "host-unmapped: pinned memory was unmapped while queued work may use it"));
	EXPECT_NE(NULL, strstr(outcome->text, "  used by cuMemcpyHtoDAsync_v2 in stream 1:\n"));
	program_run(pinned_memory_unmapped_body, no_environment, shared_line(), outcome);
	EXPECT_NE(NULL, strstr(outcome->text, "host-unmapped: pinned memory was unmapped: 4194304 bytes"));
	free(outcome);
}

MISTAKE(pinned_memory_unmapped_while_work_writes, "host-unmapped")
{
	void *m;

	OK(WRONG(cuMemHostAlloc(&m, LARGE, 0)));
	OK(cuMemcpyDtoHAsync(m, w->p, BYTES, w->a));
	OK(cuEventRecord(w->e, w->a));
	OK(munmap(m, LARGE));
	OK(cuEventSynchronize(w->e));
	memset(m, 1, LARGE);
	OK(cuMemFreeHost(m));
}

MISTAKE(pinned_memory_replaced, "host-unmapped")
{
	void *m;

	OK(WRONG(cuMemAllocHost(&m, LARGE)));
	OK(cuMemcpyHtoDAsync(w->p, m, BYTES, w->a));
	OK(mmap((char *)m + LARGE / 2, LARGE / 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		0) == MAP_FAILED);
	OK(cuCtxSynchronize());
	OK(cuMemFreeHost(m));
}

/* The number of the descriptor of the process's mappings that the checker keeps open, or -1. */
static int maps_descriptor(void)
{
	char path[64], name[64];

	for (int fd = 3; fd < 1024; fd++) {
		ssize_t length;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		length = readlink(path, name, sizeof(name) - 1);
		name[length > 0 ? length : 0] = '\0';
		if (length > 5 && !strcmp(name + length - 5, "/maps"))
			return fd;
	}
	return -1;
}

static void replace(void *m)
{
	OK(mmap((char *)m + LARGE / 2, LARGE / 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		0) == MAP_FAILED);
}

MISTAKE(pinned_memory_replaced_after_close, "host-unmapped")
{
	void *m;

	OK(WRONG(cuMemAllocHost(&m, LARGE)));
	OK(cuMemcpyHtoDAsync(w->p, m, BYTES, w->a));
	OK(close(maps_descriptor()));
	replace(m);
	OK(cuStreamSynchronize(w->a));
	OK(cuMemFreeHost(m));
}

/* The program's file has the number of the checker's. */
MISTAKE(pinned_memory_replaced_after_dup, "host-unmapped")
{
	int fd = maps_descriptor(), null = open("/dev/null", O_RDWR);
	void *m;

	OK(WRONG(cuMemAllocHost(&m, LARGE)));
	OK(cuMemcpyHtoDAsync(w->p, m, BYTES, w->a));
	OK(dup2(null, fd) != fd);
	replace(m);
	OK(cuStreamSynchronize(w->a));
	OK(write(fd, m, 1) != 1);
	OK(cuMemFreeHost(m));
}

TEST(replaced_memory_is_noticed_while_work_uses_it)
{
	struct outcome *outcome = malloc(sizeof(*outcome));

	ASSERT_NE(NULL, outcome);
	program_run(pinned_memory_replaced_after_close_body, no_environment, shared_line(), outcome);
	EXPECT_NE(NULL, strstr(outcome->text, "replaced by another mapping while queued work may use it"));
	program_run(pinned_memory_replaced_after_dup_body, no_environment, shared_line(), outcome);
	EXPECT_NE(NULL, strstr(outcome->text, "replaced by another mapping while queued work may use it"));
	free(outcome);
}

/* The engine reads so much memory, and reaches it without the mapping. The calling thread has read other memory. */
MISTAKE(pinned_memory_unmapped_before_the_copy, "host-unmapped")
{
	CUdeviceptr p;
	void *m;

	OK(cuMemAlloc(&p, LARGE));
	OK(WRONG(cuMemAllocHost(&m, LARGE)));
	OK(munmap(m, LARGE));
	OK(cuMemcpyHtoDAsync(w->p, w->pinned, BYTES, w->a));
	OK(cuMemcpyHtoDAsync(p, m, LARGE, w->a));
	OK(cuStreamSynchronize(w->a));
	OK(cuMemFreeHost(m));
	OK(cuMemFree(p));
}

/* The second hole has no report of its own, but the library writes to all bytes when it frees them. */
MISTAKE(pinned_memory_unmapped_twice, "host-unmapped")
{
	char *m;

	OK(WRONG(cuMemAllocHost((void **)&m, LARGE)));
	OK(munmap(m, BYTES));
	OK(cuCtxSynchronize());
	OK(munmap(m + LARGE / 2, BYTES));
	OK(cuMemFreeHost(m));
}

MISTAKE(many_pages_of_pinned_memory_unmapped, "host-unmapped")
{
	unsigned int i;
	char *m, *own;

	OK(WRONG(cuMemAllocHost((void **)&m, LARGE)));
	memset(m, 1, LARGE);
	for (i = 0; i < 64; i++)
		OK(munmap(m + (i * i + 1) * BYTES % LARGE, BYTES));
	OK(munmap(m + LARGE / 2, 9 * BYTES));
	/* In the middle of a hole is a page that stays. */
	own = m + LARGE / 2 + 4 * BYTES;
	OK(mmap(own, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED);
	*own = 2;
	OK(cuCtxSynchronize());
	/* The pages that are mapped again have their bytes. */
	for (i = 0; i < LARGE / BYTES; i++)
		OK(m[i * BYTES] != (m + i * BYTES == own ? 2 : 1));
	OK(cuMemFreeHost(m));
}

MISTAKE(context_destroyed_with_unmapped_memory, "host-unmapped")
{
	CUcontext ctx;
	void *m;

	OK(cuCtxCreate(&ctx, NULL, 0, 0));
	OK(WRONG(cuMemAllocHost(&m, LARGE)));
	/* What is not freed is told to be no leak. */
	OK(gpumem_check_tell((uintptr_t)m, 1, GPUMEM_CHECK_KEEPS));
	OK(munmap(m, LARGE));
	OK(cuCtxDestroy(ctx));
	OK(cuCtxSetCurrent(w->ctx));
}

/* The library keeps the memory, and looks at it when the context ends. */
MISTAKE(freed_pinned_memory_unmapped, "host-unmapped")
{
	void *m;

	OK(cuMemAllocHost(&m, LARGE));
	OK(WRONG(cuMemFreeHost(m)));
	OK(munmap(m, LARGE));
}

/* The process ends with its context. */
static const char *const without_leaks[] = { "GPUMEM_CHECK_LEAKS=0", NULL };

PROGRAM(freed_pinned_memory_unmapped_at_exit, "host-unmapped", without_leaks)
{
	void *m;

	OK(cuMemAllocHost(&m, LARGE));
	OK(WRONG(cuMemFreeHost(m)));
	OK(munmap((char *)m + BYTES, BYTES));
	exit(0);
}

/* Small memory shares its mapping. The library gives the memory up, and uses its pages again. */
static const char *const small_quarantine[] = { "GPUMEM_CHECK_QUARANTINE=1", NULL };

PROGRAM(freed_pinned_memory_unmapped_and_given_up, "host-unmapped", small_quarantine)
{
	unsigned int i;
	char *m, *n;

	OK(cuMemAllocHost((void **)&m, 4 * BYTES));
	OK(WRONG(cuMemFreeHost(m)));
	OK(munmap((void *)(((uintptr_t)m + BYTES) & -(uintptr_t)BYTES), BYTES));
	for (i = 0; i < 128; i++) {
		OK(cuMemAllocHost((void **)&n, 4 * BYTES));
		memset(n, 1, 4 * BYTES);
		OK(cuMemFreeHost(n));
	}
}

PROGRAM(own_memory_unmapped_after_the_free_of_pinned_memory, NULL, small_quarantine)
{
	void *own = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned int i;
	void *m;

	OK(own == MAP_FAILED);
	for (i = 0; i < 128; i++) {
		OK(cuMemAllocHost(&m, 4 * BYTES));
		memset(m, 1, 4 * BYTES);
		OK(cuMemFreeHost(m));
	}
	OK(munmap(own, LARGE));
}

TWIN(pinned_memory_freed_while_work_uses_it)
{
	void *m, *n;

	OK(cuMemAllocHost(&m, LARGE));
	OK(cuMemHostAlloc(&n, LARGE, CU_MEMHOSTALLOC_WRITECOMBINED));
	OK(cuMemcpyHtoDAsync(w->p, m, BYTES, w->a));
	OK(cuMemcpyDtoHAsync(n, w->p, BYTES, w->a));
	/* Rights of their own divide a mapping. */
	OK(mprotect((char *)m + BYTES, BYTES, PROT_READ));
	OK(cuStreamSynchronize(w->a));
	OK(mprotect((char *)m + BYTES, BYTES, PROT_READ | PROT_WRITE));
	OK(cuMemFreeHost(m));
	OK(cuMemFreeHost(n));
}

#define ROUNDS		1500u		/* more than the freed memories that the checker remembers */

static void rounds(struct program *w)
{
	unsigned int i;
	void *m;

	for (i = 0; i < ROUNDS; i++) {
		OK(cuMemAllocHost(&m, BYTES));
		OK(cuMemcpyDtoHAsync(m, w->p, BYTES, w->a));
		OK(cuCtxSynchronize());
		OK(cuMemFreeHost(m));
	}
}

PROGRAM(freed_memory_is_forgotten_without_stream_synchronization, NULL, without_stacks)
{
	size_t before;

	rounds(w);
	before = mallinfo2().uordblks;
	rounds(w);
	/* Of each memory the checker would keep more than 100 bytes. An allocator without figures shows nothing. */
	OK(!before || mallinfo2().uordblks > before + ROUNDS * 50);
}

TEST_HARNESS_MAIN
