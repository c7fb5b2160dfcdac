// SPDX-License-Identifier: GPL-2.0
/*
 * GPUMEM_DEBUG=1: what the library prints about calls and work that fail, and why cuInit() failed.
 *
 * Each case runs a function in a child whose standard error is a file (a terminal where a case says
 * so), and compares the lines that the library wrote there.
 */
#include <pthread.h>
#include <pty.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <gpumem.h>

#include "kselftest_harness.h"
#include "cuda_util.h"
#include "common/limits_util.h"

#define TEXT	(1 << 16)

struct said {
	int status;		/* what the function returned, or -1 */
	unsigned int lines;
	char text[TEXT];
};

static void finish(struct said *s, pid_t child)
{
	int status;

	s->status = -1;
	if (waitpid(child, &status, 0) == child && WIFEXITED(status))
		s->status = WEXITSTATUS(status);
}

static void count_lines(struct said *s)
{
	s->lines = 0;
	for (const char *at = s->text; (at = strchr(at, '\n')); at++)
		s->lines++;
}

/* Run @fn in a child with GPUMEM_DEBUG set to @debug, NULL: not set; collect what it writes. */
static bool run(struct said *s, const char *debug, int (*fn)(void))
{
	int file = memfd_create("stderr", MFD_CLOEXEC);
	ssize_t n;
	pid_t child;

	/* Threads that write to a memfd at the same time overwrite each other without this flag. */
	if (file < 0 || fcntl(file, F_SETFL, O_APPEND))
		return false;
	child = fork();
	if (!child) {
		dup2(file, STDERR_FILENO);
		if (debug ? setenv("GPUMEM_DEBUG", debug, 1) : unsetenv("GPUMEM_DEBUG"))
			_exit(100);
		_exit(fn());
	}
	finish(s, child);
	n = pread(file, s->text, TEXT - 1, 0);
	s->text[n > 0 ? n : 0] = 0;
	close(file);
	count_lines(s);
	if (s->status)
		fprintf(stderr, "# status %d:\n%s", s->status, s->text);
	return !s->status;
}

/* run() with a terminal for standard error, and without GPUMEM_DEBUG. */
static bool run_on_terminal(struct said *s, int (*fn)(void))
{
	size_t length = 0;
	int master, slave;
	ssize_t n;
	pid_t child;

	if (openpty(&master, &slave, NULL, NULL, NULL))
		return false;
	child = fork();
	if (!child) {
		dup2(slave, STDERR_FILENO);
		unsetenv("GPUMEM_DEBUG");
		_exit(fn());
	}
	finish(s, child);
	close(slave);
	while ((n = read(master, s->text + length, TEXT - 1 - length)) > 0)
		length += n;
	s->text[length] = 0;
	close(master);
	count_lines(s);
	return !s->status;
}

/* Whether a line begins with @begin and has @part in it. */
static bool has_line(const struct said *s, const char *begin, const char *part)
{
	for (const char *at = s->text; *at; at = strchr(at, '\n') + 1) {
		const char *end = strchr(at, '\n'), *found = strstr(at, part);

		if (!end)
			break;
		if (!strncmp(at, begin, strlen(begin)) && found && found < end)
			return true;
	}
	fprintf(stderr, "# no line \"%s...%s\" in:\n%s", begin, part, s->text);
	return false;
}

FIXTURE(errors)
{
	struct said said;
};

FIXTURE_SETUP(errors)
{
}

FIXTURE_TEARDOWN(errors)
{
	EXPECT_TRUE(dev_quiet(20));
}

/* ---- arguments */

static int wrong_arguments(void)
{
	CUdeviceptr p = 7;
	CUcontext ctx;
	int value;

	if (cuda_start(&ctx))
		return 1;
	if (cuMemAlloc(&p, 0) != INVALID || cuMemFree(0x1234) != INVALID ||
	    cuMemsetD32((CUdeviceptr)0x10, 77, 5) != INVALID)
		return 2;
	if (cuDeviceGetAttribute(&value, (CUdevice_attribute)-3, 0) != INVALID)
		return 3;
	if (cuDeviceGetByPCIBusId(&value, "no such bus") == CUDA_SUCCESS)
		return 4;
	if (cuStreamSynchronize((CUstream)0x40) == CUDA_SUCCESS ||
	    cuEventRecord(NULL, NULL) == CUDA_SUCCESS)
		return 5;
	if (cuMemAllocAsync(NULL, 4096, CU_STREAM_LEGACY) != INVALID ||
	    cuMemFreeAsync(0x5678, CU_STREAM_LEGACY) != INVALID)
		return 6;
	return cuStreamQuery(NULL) ? 7 : 0;
}

TEST_F(errors, arguments)
{
	struct said *s = &self->said;

	ASSERT_TRUE(run(s, "1", wrong_arguments));
	EXPECT_TRUE(has_line(s, "gpumem: cuMemAlloc_v2(ptr=0x7",
			     ", bytes=0): CUDA_ERROR_INVALID_VALUE\n"));
	EXPECT_TRUE(has_line(s, "gpumem: cuMemFree_v2(ptr=0x1234): CUDA_ERROR_INVALID_VALUE\n", ""));
	EXPECT_TRUE(has_line(s, "gpumem: cuMemsetD32_v2(dst=0x10, value=77, count=5): CUDA_ERROR_", ""));
	EXPECT_TRUE(has_line(s, "gpumem: cuDeviceGetAttribute(value=0x", ", device=0): "));
	EXPECT_TRUE(has_line(s, "gpumem: cuDeviceGetByPCIBusId(", "bus_id=\"no such bus\"): "));
	EXPECT_TRUE(has_line(s, "gpumem: cuStreamSynchronize(stream=0x40): ", ""));
	EXPECT_TRUE(has_line(s, "gpumem: cuEventRecord(event=0x0, stream=0x0): ", ""));
	EXPECT_TRUE(has_line(s, "gpumem: cuMemAllocAsync(ptr=0x0, size=4096, stream=0x", "): "));
	EXPECT_TRUE(has_line(s, "gpumem: cuMemFreeAsync(ptr=0x5678, stream=0x", "): "));
	EXPECT_EQ(9, s->lines);
	/* The library prints nothing unless the environment asks for it. */
	ASSERT_TRUE(run(s, NULL, wrong_arguments));
	EXPECT_STREQ("", s->text);
	ASSERT_TRUE(run(s, "0", wrong_arguments));
	EXPECT_STREQ("", s->text);
}

/* ---- which limit refused */

static int beyond_device(void)
{
	size_t bytes_free, total;
	CUdeviceptr p;
	CUcontext ctx;

	if (cuda_start(&ctx) || cuMemGetInfo(&bytes_free, &total))
		return 1;
	if (cuMemAlloc(&p, total + 2 * MIB) != CUDA_ERROR_OUT_OF_MEMORY)
		return 2;
	/* Here only the kernel knows that too little memory is free. */
	if (cuMemAlloc(&p, 4 * MIB) || cuMemAlloc(&p, total - 2 * MIB) != CUDA_ERROR_OUT_OF_MEMORY)
		return 3;
	/* The next call fails before it calls the kernel: its line must not show the old errno. */
	return cuMemAlloc(&p, 0) != INVALID;
}

static int beyond_pool(void)
{
	const CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .maxSize = 4 * MIB,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
	};
	CUmemoryPool pool;
	CUdeviceptr p;
	CUcontext ctx;

	return cuda_start(&ctx) || cuMemPoolCreate(&pool, &props) ||
	       cuMemAllocFromPoolAsync(&p, 5 * MIB, pool, CU_STREAM_LEGACY) !=
	       CUDA_ERROR_OUT_OF_MEMORY;
}

static int beyond_pinned(void)
{
	CUcontext ctx;
	void *p;

	return cuda_start(&ctx) || cuMemHostAlloc(&p, 4 * MIB, 0) != CUDA_ERROR_OUT_OF_MEMORY;
}

static int beyond_mappings(void)
{
	CUdeviceptr p;
	CUcontext ctx;

	return cuda_start(&ctx) || cuMemAlloc(&p, 4 * MIB) != CUDA_ERROR_OUT_OF_MEMORY;
}

/* Exceed ring_limit with the first page of a ring or, with @more, with a later one. */
static int beyond_rings(bool more)
{
	CUstreamBatchMemOpParams write = {
		.writeValue = { .operation = CU_STREAM_MEM_OP_WRITE_VALUE_32 },
	};
	CUresult result = CUDA_SUCCESS;
	cuuint32_t *word;
	CUcontext ctx;
	CUstream s;

	if (cuda_start(&ctx) || cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) ||
	    cuMemHostAlloc((void **)&word, page_size, 0))
		return 10;
	*word = 0;
	write.writeValue.address = (uintptr_t)(word + 1);
	if (!more)
		return cuStreamWaitValue32(s, (uintptr_t)word, 1, 0) != CUDA_ERROR_OUT_OF_MEMORY;
	if (cuStreamWaitValue32(s, (uintptr_t)word, 1, 0))
		return 11;
	while (!result)
		result = cuStreamBatchMemOp(s, 1, &write, 0);
	*word = 1;
	return result != CUDA_ERROR_OUT_OF_MEMORY || cuStreamSynchronize(s);
}

static int beyond_first_page(void)
{
	return beyond_rings(false);
}

static int beyond_later_page(void)
{
	return beyond_rings(true);
}

static int beyond_memlock(void)
{
	const struct rlimit limit = { .rlim_cur = MIB, .rlim_max = MIB };

	if (setrlimit(RLIMIT_MEMLOCK, &limit) || setresuid(65534, 65534, 65534))
		return 10;
	return beyond_pinned();
}

/* run() with GPUMEM_DEBUG=1 while a parameter of the module has another value. */
static bool run_with(struct said *s, const char *parameter, unsigned long long value, int (*fn)(void))
{
	long long was = get_param(parameter);
	bool ok;

	if (was < 0 || set_param(parameter, value))
		return false;
	ok = run(s, "1", fn);
	return !set_param(parameter, was) && ok;
}

TEST_F(errors, limits)
{
	long long size = dev_attr(0, "size");
	struct said *s = &self->said;
	char want[256];
	bool ok;

	ASSERT_TRUE(run(s, "1", beyond_device));
	snprintf(want, sizeof(want), "limit: the device's memory (its attribute size) of /dev/gpumem0: "
		 "asked for %lld bytes, the limit is %lld bytes\n", size + (long long)(2 * MIB), size);
	EXPECT_TRUE(has_line(s, "gpumem: cuMemAlloc_v2(", want));
	snprintf(want, sizeof(want), "CUDA_ERROR_OUT_OF_MEMORY: GPUMEM_BO_ALLOC: ENOSPC: limit: the "
		 "device's memory (its attribute size) of /dev/gpumem0: asked for %lld bytes, used %llu of "
		 "%lld bytes\n", size - (long long)(2 * MIB), 4 * MIB, size);
	EXPECT_TRUE(has_line(s, "gpumem: cuMemAlloc_v2(", want));
	EXPECT_TRUE(has_line(s, "gpumem: cuMemAlloc_v2(", "bytes=0): CUDA_ERROR_INVALID_VALUE\n"));
	EXPECT_EQ(3, s->lines);

	ASSERT_TRUE(run(s, "1", beyond_pool));
	EXPECT_TRUE(has_line(s, "gpumem: cuMemAllocFromPoolAsync(ptr=0x",
			     ": limit: the pool's own limit (maxSize): asked for 5242880 bytes, the limit is"));

	EXPECT_TRUE(run_with(s, "pin_limit", MIB, beyond_pinned));
	EXPECT_TRUE(has_line(s, "gpumem: cuMemHostAlloc(ptr=0x",
			     "bytes=4194304, flags=0): CUDA_ERROR_OUT_OF_MEMORY"));
	EXPECT_TRUE(has_line(s, "gpumem: cuMemHostAlloc(",
			     "EDQUOT: limit: what one user may pin (the module's parameter pin_limit)"));
	EXPECT_TRUE(run_with(s, "pin_total", MIB, beyond_pinned));
	EXPECT_TRUE(has_line(s, "gpumem: cuMemHostAlloc(", "limit: what all users may pin"));
	EXPECT_TRUE(run_with(s, "map_limit", 0, beyond_mappings));
	EXPECT_TRUE(has_line(s, "gpumem: cuMemAlloc_v2(",
			     "GPUMEM_VM_MAP: EDQUOT: limit: mappings of one user"));
	EXPECT_TRUE(has_line(s, "gpumem: cuMemAlloc_v2(", ": asked for 1\n"));

	EXPECT_TRUE(run_with(s, "ring_limit", 0, beyond_first_page));
	EXPECT_TRUE(has_line(s, "gpumem: cuStreamWaitValue32_v2(",
			     "GPUMEM_STREAM_CREATE: EDQUOT: limit: rings of one user (the module's "
			     "parameter ring_limit): asked for 4096 bytes"));
	EXPECT_TRUE(run_with(s, "ring_limit", 3 * page_size, beyond_later_page));
	EXPECT_TRUE(has_line(s, "gpumem: cuStreamBatchMemOp_v2(",
			     "madvise of a ring: EFAULT: limit: rings of one user (the module's "
			     "parameter ring_limit): asked for 4096 bytes, used 12288 of 12288 "
			     "bytes"));

	ASSERT_EQ(0, write_param("memlock", "Y"));
	ok = run(s, "1", beyond_memlock);
	ASSERT_EQ(0, write_param("memlock", "N"));
	EXPECT_TRUE(ok);
	EXPECT_TRUE(has_line(s, "gpumem: cuMemHostAlloc(", "limit: the process's RLIMIT_MEMLOCK"));
}

/* ---- failed work */

static int failing_work(void)
{
	struct gpumem_vm_unmap unmap = { .size = sizeof(unmap), .length = 4 * MIB };
	CUdeviceptr p, q;
	CUcontext ctx;
	CUstream s;
	int fd;

	if (cuda_start(&ctx) || cuMemAlloc(&p, 4 * MIB) || cuMemAlloc(&q, 4 * MIB) ||
	    cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) || node_fds(&fd) != 1)
		return 1;
	/* Behind the library's back: the memory leaves the devices' address space. */
	unmap.addr = q;
	for (unmap.vm = 1; unmap.vm < 64; unmap.vm++)
		if (!gp_ioctl(fd, GPUMEM_VM_UNMAP, &unmap) && unmap.unmapped)
			break;
	if (unmap.unmapped != 4 * MIB)
		return 2;
	if (cuMemcpyDtoDAsync(q, p, 3 * MIB, s) ||
	    cuStreamSynchronize(s) != CUDA_ERROR_ILLEGAL_ADDRESS)
		return 3;
	dprintf(STDERR_FILENO, "to 0x%llx from 0x%llx\n", p, q);
	/* The context returns the error from now on; the work is reported once. */
	return cuStreamSynchronize(s) != CUDA_ERROR_ILLEGAL_ADDRESS;
}

TEST_F(errors, failed_work)
{
	struct said *s = &self->said;
	unsigned long long p, q;
	char *line, want[128];

	ASSERT_TRUE(run(s, "1", failing_work));
	line = strstr(s->text, "\nto 0x");
	ASSERT_NE(NULL, line);
	ASSERT_EQ(2, sscanf(line, "\nto 0x%llx from 0x%llx", &p, &q));
	snprintf(want, sizeof(want), "(copy to 0x%llx from 0x%llx, 3145728 bytes) failed: "
		 "CUDA_ERROR_ILLEGAL_ADDRESS: EFAULT\n", q, p);
	EXPECT_TRUE(has_line(s, "gpumem: stream 0x", " of device 0: operation "));
	EXPECT_TRUE(has_line(s, "gpumem: stream 0x", want));
	EXPECT_TRUE(has_line(s, "gpumem: cuStreamSynchronize(stream=0x", "): CUDA_ERROR_ILLEGAL_ADDRESS"));
	EXPECT_EQ(4, s->lines);
}

/* ---- lines of several threads do not mix */

#define THREADS	4
#define CALLS	100

static void *failing_calls(void *arg)
{
	for (unsigned int i = 0; i < CALLS; i++)
		if (cuMemFree((uintptr_t)arg) != INVALID)
			return arg;
	return NULL;
}

static int failing_threads(void)
{
	pthread_t threads[THREADS];
	CUcontext ctx;
	void *bad = NULL;

	if (cuda_start(&ctx))
		return 1;
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, failing_calls, (void *)(0x1000 + i)))
			return 2;
	for (int i = 0; i < THREADS; i++) {
		void *result;

		pthread_join(threads[i], &result);
		bad = bad ? bad : result;
	}
	return bad ? 3 : 0;
}

TEST_F(errors, threads)
{
	struct said *s = &self->said;
	unsigned int seen[THREADS] = { 0 };

	ASSERT_TRUE(run(s, "1", failing_threads));
	for (char *line = strtok(s->text, "\n"); line; line = strtok(NULL, "\n")) {
		unsigned int ptr;
		char result[64];

		ASSERT_EQ(2, sscanf(line, "gpumem: cuMemFree_v2(ptr=0x%x): %63s", &ptr, result));
		ASSERT_LE(0x1000, ptr);
		ASSERT_GT(0x1000 + THREADS, ptr);
		EXPECT_STREQ("CUDA_ERROR_INVALID_VALUE", result);
		seen[ptr - 0x1000]++;
	}
	for (int i = 0; i < THREADS; i++) {
		EXPECT_EQ(CALLS, seen[i]);
	}
}

/* ---- why cuInit() fails */

static void *asks_for_reason(void *arg)
{
	(void)arg;
	return (void *)gpumem_init_error();
}

static int no_device_selected(void)
{
	pthread_t thread;
	void *reason;

	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	if (cuInit(0) != CUDA_ERROR_NO_DEVICE || cuInit(0) != CUDA_ERROR_NO_DEVICE)
		return 1;
	if (!gpumem_init_error() || !strstr(gpumem_init_error(), "CUDA_VISIBLE_DEVICES"))
		return 2;
	/* Each thread has its own reason. */
	if (pthread_create(&thread, NULL, asks_for_reason, NULL) || pthread_join(thread, &reason) ||
	    reason)
		return 3;
	/* A success leaves no reason. */
	unsetenv("CUDA_VISIBLE_DEVICES");
	return cuInit(0) || gpumem_init_error() ? 4 : 0;
}

static int no_nodes(void)
{
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/dev", "tmpfs", 0, NULL))
		return 1;
	if (cuInit(0) != CUDA_ERROR_NO_DEVICE)
		return 2;
	return 0;
}

TEST_F(errors, init)
{
	struct said *s = &self->said;

	/* The reason is printed once, only on a terminal; each time if GPUMEM_DEBUG is 1. */
	ASSERT_TRUE(run_on_terminal(s, no_device_selected));
	EXPECT_TRUE(has_line(s, "gpumem: CUDA_VISIBLE_DEVICES selects none of ", " devices"));
	EXPECT_EQ(1, s->lines);
	ASSERT_TRUE(run(s, NULL, no_device_selected));
	EXPECT_STREQ("", s->text);
	ASSERT_TRUE(run(s, "1", no_device_selected));
	EXPECT_TRUE(has_line(s, "gpumem: CUDA_VISIBLE_DEVICES selects none of ", " devices"));
	EXPECT_EQ(2, s->lines);
	/* The module is loaded, but its nodes are missing, as in a container. */
	ASSERT_TRUE(run(s, "1", no_nodes));
	EXPECT_TRUE(has_line(s, "gpumem: no /dev/gpumem* nodes: the module is loaded: ",
			     "--device=/dev/gpumem0"));
	EXPECT_EQ(1, s->lines);
}

/* ---- NVIDIA's runtime */

/* Ask for a table that NVIDIA's runtime needs, and for another, both twice. */
static int asks_for_tables(void)
{
	CUuuid needed = { { 0x6b, (char)0xd5, (char)0xfb, 0x6c, 0x5b, (char)0xf4, (char)0xe7, 0x4a, (char)0x89,
			    (char)0x87, (char)0xd9, 0x39, 0x12, (char)0xfd, (char)0x9d, (char)0xf9 } };
	CUuuid other = { { 0x6b } };
	const void *table = &other;

	for (int i = 0; i < 2; i++) {
		if (cuGetExportTable(&table, &needed) != CUDA_ERROR_INVALID_VALUE || table)
			return 1;
		if (cuGetExportTable(&table, &other) != CUDA_ERROR_INVALID_VALUE)
			return 2;
	}
	return 0;
}

TEST_F(errors, foreign_runtime)
{
	struct said *s = &self->said;

	ASSERT_TRUE(run_on_terminal(s, asks_for_tables));
	EXPECT_TRUE(has_line(s, "gpumem: the program uses NVIDIA's CUDA runtime", "link it again"));
	EXPECT_EQ(1, s->lines);
	ASSERT_TRUE(run(s, NULL, asks_for_tables));
	EXPECT_STREQ("", s->text);
	ASSERT_TRUE(run(s, "1", asks_for_tables));
	EXPECT_TRUE(has_line(s, "gpumem: the program uses NVIDIA's CUDA runtime", "link it again"));
	/* And four failures. */
	EXPECT_EQ(6, s->lines);
}

/* ---- logs */

#define UNTOUCHED	((char)0xee)

/* Load code, or begin to link it, with an error log of @size bytes: which of the expectations fails, or 0. */
static int fails_with_logs(bool link, size_t size, const char *text)
{
	CUjit_option options[] = { CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER,
				   CU_JIT_INFO_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
	char info[64], error[128];
	void *values[] = { (void *)sizeof(info), error, info, (void *)size };
	CUlinkState state;
	CUmodule module;

	memset(info, UNTOUCHED, sizeof(info));
	memset(error, UNTOUCHED, sizeof(error));
	if ((link ? cuLinkCreate(4, options, values, &state) :
		    cuModuleLoadDataEx(&module, "", 4, options, values)) != CUDA_ERROR_NOT_SUPPORTED)
		return 1;
	if (values[0] || info[0] || info[1] != UNTOUCHED)
		return 2;
	if (!size)
		return values[3] || error[0] != UNTOUCHED ? 3 : 0;
	if ((uintptr_t)values[3] != strlen(error) || error[strlen(error) + 1] != UNTOUCHED)
		return 4;
	return strcmp(error, text) ? 5 : 0;
}

static int loads_code(void)
{
	static const char whole[] = "gpumem has no kernels: it loads no code for the device";
	CUjit_option option = CU_JIT_ERROR_LOG_BUFFER;
	char error[] = "as before";
	void *value = error;
	CUmodule module;
	int bad;

	if (cuInit(0))
		return 10;
	for (int link = 0; link < 2; link++) {
		bad = fails_with_logs(link, 128, whole);
		bad = bad ? bad : fails_with_logs(link, 10, "gpumem ha");
		bad = bad ? bad : fails_with_logs(link, 1, "");
		bad = bad ? bad : fails_with_logs(link, 0, NULL);
		if (bad)
			return bad;
	}
	/* Without options, or with a buffer whose size is not given, there is nothing to fill in. */
	if (cuModuleLoadDataEx(&module, "", 0, NULL, NULL) != CUDA_ERROR_NOT_SUPPORTED ||
	    cuModuleLoadDataEx(&module, "", 1, &option, &value) != CUDA_ERROR_NOT_SUPPORTED)
		return 11;
	return value != error || strcmp(error, "as before") ? 12 : 0;
}

/*
 * Programs print the logs of code that cannot be loaded from buffers that they did not initialize: the error log
 * says why, also where it is cut short, and the other log is empty.
 */
TEST_F(errors, logs)
{
	struct said *s = &self->said;

	ASSERT_TRUE(run(s, NULL, loads_code));
	EXPECT_EQ(0, s->status);
}

TEST_HARNESS_MAIN
