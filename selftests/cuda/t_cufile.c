// SPDX-License-Identifier: GPL-2.0
/*
 * libcufile.so.0, the synchronous part: the driver, files, buffers, cuFileRead() and cuFileWrite(). Aligned requests
 * leave the page cache empty and stage no byte; misaligned ones stage their edge blocks only, and the library's
 * counters say so. Requests are compared with a model of the file. Files keep their identity when the program closes
 * its descriptor, threads may share a block, and a forked child gets an error.
 */
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "cufile_fixture.h"
#include "cost_util.h"

CUFILE_FIXTURE(cufile)

QUIET_FIXTURE(plain)

/* ---- the driver */

TEST_F(plain, driver)
{
	CUfileDrvProps_t props;
	CUcontext ctx;
	int version;

	ASSERT_CF(cuFileGetVersion(&version));
	EXPECT_EQ(1150, version);
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileGetVersion(NULL).err);
	EXPECT_EQ(0, cuFileUseCount());
	EXPECT_EQ(CU_FILE_DRIVER_NOT_INITIALIZED, cuFileDriverClose().err);
	ASSERT_CU(cuda_start(&ctx));
	ASSERT_CF(cuFileDriverOpen());
	ASSERT_CF(cuFileDriverOpen());
	EXPECT_EQ(2, cuFileUseCount());
	ASSERT_CF(cuFileDriverClose());
	EXPECT_EQ(1, cuFileUseCount());
	ASSERT_CF(cuFileDriverGetProperties(&props));
	EXPECT_EQ(1, cuFileUseCount());
	EXPECT_EQ(16384, props.nvfs.max_direct_io_size);
	EXPECT_EQ(128, props.max_batch_io_size);
	EXPECT_TRUE(props.fflags & 1 << CU_FILE_BATCH_IO_SUPPORTED);
	EXPECT_TRUE(props.fflags & 1 << CU_FILE_STREAMS_SUPPORTED);
	EXPECT_TRUE(props.nvfs.dcontrolflags & 1 << CU_FILE_ALLOW_COMPAT_MODE);
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileDriverGetProperties(NULL).err);
	ASSERT_CF(cuFileDriverClose());
	EXPECT_EQ(0, cuFileUseCount());
	/* It can be opened again, also by what needs it. */
	ASSERT_CF(cuFileDriverGetProperties(&props));
	EXPECT_EQ(1, cuFileUseCount());
	ASSERT_CF(cuFileDriverClose());
	EXPECT_STREQ("success", cufileop_status_error(CU_FILE_SUCCESS));
	EXPECT_STREQ("invalid argument", CUFILE_ERRSTR(-CU_FILE_INVALID_VALUE));
	EXPECT_TRUE(IS_CUFILE_ERR(-CU_FILE_INVALID_VALUE));
	EXPECT_FALSE(IS_CUFILE_ERR(-1));
}

TEST_F(plain, parameters)
{
	size_t value, least, most, sizes[16], counts[16];
	char text[256];
	bool flag;

	ASSERT_CF(cuFileGetParameterMinMaxValue(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB, &least, &most));
	EXPECT_LT(least, most);
	EXPECT_EQ(CU_FILE_DRIVER_UNSUPPORTED_LIMIT,
		  cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB, most + 1).err);
	ASSERT_CF(cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB, 1024));
	ASSERT_CF(cuFileGetParameterSizeT(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB, &value));
	EXPECT_EQ(1024, value);
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileGetParameterSizeT(99, &value).err);
	ASSERT_CF(cuFileSetParameterBool(CUFILE_PARAM_FORCE_COMPAT_MODE, true));
	ASSERT_CF(cuFileGetParameterBool(CUFILE_PARAM_FORCE_COMPAT_MODE, &flag));
	EXPECT_TRUE(flag);
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileSetParameterBool(99, true).err);
	ASSERT_CF(cuFileSetParameterString(CUFILE_PARAM_LOG_DIR, "/tmp"));
	ASSERT_CF(cuFileGetParameterString(CUFILE_PARAM_LOG_DIR, text, sizeof(text)));
	EXPECT_STREQ("/tmp", text);
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileGetParameterString(CUFILE_PARAM_LOG_DIR, text, 2).err);
	ASSERT_CF(cuFileGetParameterPosixPoolSlabArray(sizes, counts, 16));
	ASSERT_CF(cuFileSetParameterPosixPoolSlabArray(sizes, counts, 1));
	/* They are final once the driver is open. */
	ASSERT_CF(cuFileDriverOpen());
	EXPECT_EQ(CU_FILE_DRIVER_ALREADY_OPEN,
		  cuFileSetParameterBool(CUFILE_PARAM_FORCE_COMPAT_MODE, false).err);
	EXPECT_EQ(CU_FILE_DRIVER_ALREADY_OPEN,
		  cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 4).err);
	/* Except by functions of their own. */
	ASSERT_CF(cuFileDriverSetMaxDirectIOSize(2048));
	ASSERT_CF(cuFileGetParameterSizeT(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB, &value));
	EXPECT_EQ(2048, value);
	ASSERT_CF(cuFileDriverSetPollMode(true, 4));
	ASSERT_CF(cuFileDriverSetMaxCacheSize(1024));
	ASSERT_CF(cuFileDriverSetMaxPinnedMemSize(1024));
	EXPECT_EQ(CU_FILE_DRIVER_UNSUPPORTED_LIMIT, cuFileDriverSetMaxDirectIOSize(0).err);
	ASSERT_CF(cuFileGetBARSizeInKB(0, &value));
	EXPECT_EQ(dev_attr(0, "size") / 1024, value);
	EXPECT_EQ(CU_FILE_CUDA_DRIVER_ERROR, cuFileGetBARSizeInKB(99, &value).err);
	EXPECT_EQ(CUDA_ERROR_INVALID_DEVICE, cuFileGetBARSizeInKB(99, &value).cu_err);
	ASSERT_CF(cuFileDriverClose());
}

/* ---- files and buffers */

TEST_F(cufile, registration)
{
	CUfileDescr_t descr = { .type = CU_FILE_HANDLE_TYPE_OPAQUE_FD, .handle.fd = self->fd };
	CUfileHandle_t other;
	int pipes[2], fd;

	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileHandleRegister(NULL, &descr).err);
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileHandleRegister(&other, NULL).err);
	EXPECT_EQ(CU_FILE_HANDLE_ALREADY_REGISTERED, cuFileHandleRegister(&other, &descr).err);
	descr.type = CU_FILE_HANDLE_TYPE_USERSPACE_FS;
	EXPECT_EQ(CU_FILE_IO_NOT_SUPPORTED, cuFileHandleRegister(&other, &descr).err);
	descr.type = CU_FILE_HANDLE_TYPE_OPAQUE_WIN32;
	EXPECT_EQ(CU_FILE_PLATFORM_NOT_SUPPORTED, cuFileHandleRegister(&other, &descr).err);
	descr.type = 7;
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileHandleRegister(&other, &descr).err);
	ASSERT_EQ(0, pipe(pipes));
	EXPECT_EQ(CU_FILE_INVALID_FILE_TYPE, file_register(&other, pipes[0]).err);
	fd = open("/", O_RDONLY);
	EXPECT_EQ(CU_FILE_INVALID_FILE_TYPE, file_register(&other, fd).err);
	close(fd);
	EXPECT_EQ(CU_FILE_INVALID_VALUE, file_register(&other, fd).err);
	fd = file_make(true, O_APPEND);
	EXPECT_EQ(CU_FILE_INVALID_FILE_OPEN_FLAG, file_register(&other, fd).err);
	/* A handle is invalid after its end, also when its place is used again. */
	cuFileHandleDeregister(self->file);
	EXPECT_EQ(-CU_FILE_HANDLE_NOT_REGISTERED, cuFileRead(self->file, (void *)self->dev, 4096, 0, 0));
	ASSERT_CF(file_register(&other, self->fd));
	EXPECT_NE(self->file, other);
	EXPECT_EQ(-CU_FILE_HANDLE_NOT_REGISTERED, cuFileRead(self->file, (void *)self->dev, 4096, 0, 0));
	EXPECT_EQ(0, cuFileRead(other, (void *)self->dev, 4096, 0, 0));
	cuFileHandleDeregister(self->file);
	cuFileHandleDeregister(NULL);
	EXPECT_EQ(0, cuFileRead(other, (void *)self->dev, 4096, 0, 0));
}

TEST_F(cufile, many_files)
{
	CUfileHandle_t handles[100];
	int fds[100], before = count_fds();
	char byte;

	for (int i = 0; i < 100; i++) {
		fds[i] = file_make(true, 0);
		ASSERT_CF(file_register(&handles[i], fds[i]));
		poke(self->dev, i, 4096);
		ASSERT_EQ(4096, cuFileWrite(handles[i], (void *)self->dev, 4096, 0, 0));
	}
	for (int i = 0; i < 100; i++) {
		ASSERT_EQ(1, pread(fds[i], &byte, 1, 17));
		EXPECT_EQ(i, byte);
	}
	for (int i = 0; i < 100; i++)
		close(fds[i]);
	for (int i = 0; i < 50; i++)
		cuFileHandleDeregister(handles[i]);
	/* Closing the driver deregisters the others. */
	ASSERT_CF(cuFileDriverClose());
	EXPECT_EQ(before - 2, count_fds());
	EXPECT_EQ(-CU_FILE_DRIVER_NOT_INITIALIZED, cuFileRead(self->file, (void *)self->dev, 4096, 0, 0));
}

/* Calls that name a file, register one that is known, and register another one. */
struct cost {
	CUfileHandle_t file;
	int known, other;
	void *dev;
};

static CUresult find_file(const void *arg)
{
	const struct cost *c = arg;

	return cuFileWrite(c->file, c->dev, 0, 0, 0) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult refuse_file(const void *arg)
{
	const struct cost *c = arg;
	CUfileHandle_t other;

	return file_register(&other, c->known).err == CU_FILE_HANDLE_ALREADY_REGISTERED ?
		CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static CUresult make_file(const void *arg)
{
	const struct cost *c = arg;
	CUfileHandle_t other;

	if (file_register(&other, c->other).err)
		return CUDA_ERROR_UNKNOWN;
	cuFileHandleDeregister(other);
	return CUDA_SUCCESS;
}

/* Calls cost the same beside 65536 files (8192 with GPUMEM_QUICK) as beside 1024. */
TEST_F_TIMEOUT(cufile, cost_beside_files, 200)
{
	static const cost_fn fns[] = { find_file, refuse_file, make_file };
	const unsigned int few = 1024, many = (getenv("GPUMEM_QUICK") ? 8 : 64) * few;
	struct rlimit files = { 3 * many, 3 * many };
	struct cost c = { .dev = (void *)self->dev };
	__u64 beside_few[ARRAY_SIZE(fns)] = { 0 };
	int fd = file_make(false, 0);
	CUfileHandle_t handle;

	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	c.other = dup(fd);
	for (unsigned int i = 0; i < many; i++) {
		for (unsigned int j = 0; i == few && j < ARRAY_SIZE(fns); j++)
			beside_few[j] = least(fns[j], &c);
		int copy = dup(fd);

		ASSERT_CF(file_register(&handle, copy));
		/* The oldest, after the fixture's. */
		if (!i) {
			c.file = handle;
			c.known = copy;
		}
	}
	for (unsigned int j = 0; j < ARRAY_SIZE(fns); j++)
		EXPECT_TRUE(beside_few[j] && costs_the_same(fns[j], &c, beside_few[j]));
	ASSERT_CF(cuFileDriverClose());
}

TEST_F(cufile, buffers)
{
	void *dev = (void *)self->dev, *host;

	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileBufRegister(NULL, 4096, 0).err);
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileBufRegister(dev, 0, 0).err);
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileBufRegister(dev, 4096, 999).err);
	EXPECT_EQ(CU_FILE_CUDA_POINTER_RANGE_ERROR, cuFileBufRegister(dev, CUFILE_SIZE + 1, 0).err);
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileBufDeregister(dev).err);
	ASSERT_CF(cuFileBufRegister(dev, 64 * KIB, 0));
	EXPECT_EQ(CU_FILE_MEMORY_ALREADY_REGISTERED, cuFileBufRegister(dev, 64 * KIB, 0).err);
	EXPECT_EQ(CU_FILE_MEMORY_ALREADY_REGISTERED, cuFileBufRegister((char *)dev + 4096, 4096, 0).err);
	ASSERT_CF(cuFileBufRegister((char *)dev + 64 * KIB, 4096, CU_FILE_RDMA_REGISTER));
	ASSERT_CU(cuMemHostAlloc(&host, 4096, 0));
	ASSERT_CF(cuFileBufRegister(host, 4096, 0));

	EXPECT_EQ(64 * KIB, cuFileWrite(self->file, dev, 64 * KIB, 0, 0));
	EXPECT_EQ(-CU_FILE_INVALID_MAPPING_RANGE, cuFileWrite(self->file, dev, 64 * KIB, 0, 1));
	EXPECT_EQ(-CU_FILE_INVALID_MAPPING_RANGE, cuFileRead(self->file, dev, 64 * KIB + 1, 0, 0));
	EXPECT_EQ(4096, cuFileRead(self->file, host, 4096, 0, 0));
	EXPECT_EQ(-CU_FILE_INVALID_MAPPING_RANGE, cuFileRead(self->file, host, 4097, 0, 0));
	ASSERT_CF(cuFileBufDeregister(host));
	ASSERT_CF(cuFileBufDeregister(dev));
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileBufDeregister(dev).err);
	/* Without a registration the allocation is the limit. */
	EXPECT_EQ(64 * KIB, cuFileWrite(self->file, dev, 64 * KIB, 0, 1));
}

#define BUFFERS		65536
#define BUFFER_SIZE	(CUFILE_SIZE / BUFFERS)
#define SAMPLE		1024

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

/* Many buffers, registered from the last to the first: the last of them take no longer than the first. */
TEST_F(cufile, many_buffers)
{
	double first = 1e9, last = 1e9;

	for (unsigned int i = BUFFERS; i; i -= SAMPLE) {
		double start = now_ms(), took;

		for (unsigned int j = i; j-- > i - SAMPLE; )
			ASSERT_CF(cuFileBufRegister((void *)(self->dev + j * BUFFER_SIZE), BUFFER_SIZE, 0));
		took = now_ms() - start;
		if (i > BUFFERS - 8 * SAMPLE && took < first)
			first = took;
		if (i <= 8 * SAMPLE && took < last)
			last = took;
	}
	printf("# %d buffers: %.2f ms with few, %.2f ms with many\n", SAMPLE, first, last);
	EXPECT_GT(4 * first, last);
	EXPECT_EQ(CU_FILE_MEMORY_ALREADY_REGISTERED, cuFileBufRegister((void *)self->dev, CUFILE_SIZE, 0).err);
	for (unsigned int i = 0; i < BUFFERS; i += 2)
		ASSERT_CF(cuFileBufDeregister((void *)(self->dev + i * BUFFER_SIZE)));
	/* Closing the driver deregisters the others. */
	ASSERT_CF(cuFileDriverClose());
	ASSERT_CF(cuFileDriverOpen());
	ASSERT_CF(cuFileBufRegister((void *)self->dev, CUFILE_SIZE, 0));
}

/* Registrations of random ranges, compared with a map of what is registered. */
TEST_F(cufile, random_buffers)
{
	enum { PLACES = 4096, UNIT_SIZE = 64 };
	static unsigned short length[PLACES];	/* of the buffer that begins there, or 0 */
	static bool taken[PLACES];
	unsigned int steps = env_number("GPUMEM_STEPS", 20000), known = 0;
	struct rng r;

	rng_start(&r, "cufile.random_buffers");
	memset(length, 0, sizeof(length));
	memset(taken, 0, sizeof(taken));
	for (unsigned int i = 0; i < steps; i++) {
		unsigned int at = rng_below(&r, PLACES), n = rng_below(&r, rng_below(&r, 8) ? 4 : 100) + 1;
		void *base = (void *)(self->dev + at * UNIT_SIZE);
		bool free = true;

		if (rng_below(&r, 3)) {
			if (n > PLACES - at)
				n = PLACES - at;
			for (unsigned int j = at; j < at + n; j++)
				free = free && !taken[j];
			ASSERT_EQ(free ? CU_FILE_SUCCESS : CU_FILE_MEMORY_ALREADY_REGISTERED,
				  cuFileBufRegister(base, n * UNIT_SIZE, 0).err);
			if (free) {
				length[at] = n;
				memset(taken + at, true, n);
				known++;
			}
			continue;
		}
		/* A base that is registered, as often as one that is not. */
		while (rng_below(&r, 2) && known && !length[at])
			at = (at + 1) % PLACES;
		base = (void *)(self->dev + at * UNIT_SIZE);
		ASSERT_EQ(length[at] ? -CU_FILE_INVALID_MAPPING_RANGE : 0,
			  cuFileRead(self->file, base, length[at] * UNIT_SIZE + 1, 0, 0));
		ASSERT_EQ(length[at] ? CU_FILE_SUCCESS : CU_FILE_INVALID_VALUE, cuFileBufDeregister(base).err);
		memset(taken + at, false, length[at]);
		known -= !!length[at];
		length[at] = 0;
	}
}

TEST_F(cufile, errors)
{
	void *dev = (void *)self->dev;
	CUfileHandle_t other;
	CUdeviceptr freed;
	int fd;

	EXPECT_EQ(-CU_FILE_INVALID_VALUE, cuFileRead(self->file, NULL, 4096, 0, 0));
	EXPECT_EQ(-CU_FILE_INVALID_VALUE, cuFileRead(self->file, dev, 4096, -1, 0));
	EXPECT_EQ(-CU_FILE_INVALID_VALUE, cuFileRead(self->file, dev, 4096, 0, -1));
	EXPECT_EQ(-CU_FILE_INVALID_VALUE, cuFileRead(self->file, dev, ~0ul, 0, 0));
	EXPECT_EQ(-CU_FILE_HANDLE_NOT_REGISTERED, cuFileRead(NULL, dev, 4096, 0, 0));
	EXPECT_EQ(-CU_FILE_HANDLE_NOT_REGISTERED, cuFileRead((void *)12345678ul, dev, 4096, 0, 0));
	EXPECT_EQ(-CU_FILE_CUDA_POINTER_RANGE_ERROR, cuFileRead(self->file, dev, CUFILE_SIZE, 0, 1));
	EXPECT_EQ(-CU_FILE_CUDA_POINTER_RANGE_ERROR, cuFileWrite(self->file, dev, 1, 0, CUFILE_SIZE));
	EXPECT_EQ(0, cuFileWrite(self->file, dev, 0, 0, CUFILE_SIZE));
	ASSERT_CU(cuMemAlloc(&freed, 8 * MIB));
	ASSERT_CU(cuMemFree(freed));
	EXPECT_EQ(-CU_FILE_CUDA_POINTER_INVALID, cuFileRead(self->file, (void *)freed, 4096, 0, 0));

	/* Errors of the file system are -1 with errno. */
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	ASSERT_CF(file_register(&other, fd));
	EXPECT_EQ(-1, cuFileWrite(other, dev, 4096, 0, 0));
	EXPECT_EQ(EBADF, errno);
	ASSERT_EQ(0, ftruncate(self->fd, 64 * KIB));
	EXPECT_EQ(-1, cuFileRead(self->file, (void *)4096, 4096, 0, 0));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-1, cuFileRead(self->file, (void *)4096, 100, 1, 0));
	EXPECT_EQ(EFAULT, errno);
	/* Less room than asked for. */
	EXPECT_EQ(-1, cuFileWrite(self->file, dev, 4096, 1l << 62, 0));
	EXPECT_EQ(EFBIG, errno);
}

/* ---- ways of data */

TEST_F(cufile, aligned)
{
	struct gpumem_file_counters now;
	unsigned char *back = malloc(CUFILE_SIZE);
	int plain;
	char path[64];

	fill_pattern(self->mem, CUFILE_SIZE, 1);
	put(self->dev, self->mem, CUFILE_SIZE);
	ASSERT_EQ(CUFILE_SIZE, cuFileWrite(self->file, (void *)self->dev, CUFILE_SIZE, 0, 0));
	EXPECT_EQ(0, cached_pages(self->fd));
	poke(self->dev, 0, CUFILE_SIZE);
	ASSERT_EQ(CUFILE_SIZE, cuFileRead(self->file, (void *)self->dev, CUFILE_SIZE, 0, 0));
	EXPECT_EQ(0, cached_pages(self->fd));
	EXPECT_EQ(0, memcmp(view(self->dev, CUFILE_SIZE), self->mem, CUFILE_SIZE));
	/* A part, with offsets on both sides. */
	ASSERT_EQ(8192, cuFileRead(self->file, (void *)self->dev, 8192, 1 * MIB, 12288));
	EXPECT_EQ(0, memcmp(view(self->dev + 12288, 8192), self->mem + 1 * MIB, 8192));
	EXPECT_EQ(0, cached_pages(self->fd));
	now = gained(&self->before);
	EXPECT_EQ(CUFILE_SIZE, now.direct_written);
	EXPECT_EQ(CUFILE_SIZE + 8192, now.direct_read);
	EXPECT_EQ(0, now.staged_read + now.staged_written + now.compat_read + now.compat_written);
	EXPECT_LT(0, now.ring_requests);
	EXPECT_EQ(0, now.plain_requests);
	/* And the file has the bytes. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", self->fd);
	plain = open(path, O_RDONLY);
	ASSERT_EQ(CUFILE_SIZE, pread(plain, back, CUFILE_SIZE, 0));
	EXPECT_EQ(0, memcmp(back, self->mem, CUFILE_SIZE));
	free(back);
}

/* Requests of random sizes and offsets, compared with a model of the file. */
TEST_F(cufile, random)
{
	const size_t most = 1 * MIB;
	unsigned char *model = calloc(1, CUFILE_SIZE);
	unsigned int steps = env_number("GPUMEM_STEPS", 300);
	struct gpumem_file_counters last = self->before, now;
	size_t size = 0;
	struct rng r;

	rng_start(&r, "cufile.random");
	for (unsigned int i = 0; i < steps; i++) {
		bool write = rng_below(&r, 2), direct = rng_below(&r, 4);
		size_t n = rng_below(&r, rng_below(&r, 4) ? 20000 : most) + 1;
		off_t at = rng_below(&r, CUFILE_SIZE - n + 1), offset = rng_below(&r, CUFILE_SIZE - n + 1);
		size_t want, guard;

		/* The offsets have the same place in a block, as those of programs usually do. */
		if (direct)
			offset = (offset & ~4095l) + (at & 4095) > (off_t)(CUFILE_SIZE - n) ? at :
				(offset & ~4095l) + (at & 4095);
		want = write ? n : (size_t)at >= size ? 0 : size - at < n ? size - at : n;
		guard = CUFILE_SIZE - n - offset < 4096 ? CUFILE_SIZE - n - offset : 4096;
		rng_fill(&r, self->mem, n + guard);
		put(self->dev + offset, self->mem, n + guard);
		if (write) {
			ASSERT_EQ(want, cuFileWrite(self->file, (void *)self->dev, n, at, offset));
			memcpy(model + at, self->mem, n);
			if (at + n > size)
				size = at + n;
		} else {
			ASSERT_EQ(want, cuFileRead(self->file, (void *)self->dev, n, at, offset));
			ASSERT_EQ(0, memcmp(view(self->dev + offset, want), model + at, want));
		}
		/* Nothing behind the request is written; at the end of the file, the rest of a block may be. */
		ASSERT_EQ(0, memcmp(view(self->dev + offset + n, guard), self->mem + n, guard));
		now = gained(&last);
		ASSERT_EQ(0, now.compat_read + now.compat_written);
		ASSERT_EQ(want, now.direct_read + now.direct_written + now.staged_read + now.staged_written);
		if (direct)
			ASSERT_GE(2 * 4096, now.staged_read + now.staged_written);
		gpumem_file_counters(&last, sizeof(last));
	}
	ASSERT_EQ(size, lseek(self->fd, 0, SEEK_END));
	ASSERT_EQ(size, pread(self->fd, self->mem, CUFILE_SIZE, 0));
	EXPECT_EQ(0, memcmp(self->mem, model, size));
	free(model);
}

/* A request whose edges are misaligned has the middle go directly. */
TEST_F(cufile, edges)
{
	struct gpumem_file_counters now;

	ASSERT_EQ(0, ftruncate(self->fd, 1 * MIB));
	EXPECT_EQ(256 * KIB, cuFileWrite(self->file, (void *)self->dev, 256 * KIB, 100, 100));
	now = gained(&self->before);
	EXPECT_EQ(252 * KIB, now.direct_written);
	EXPECT_EQ(4 * KIB, now.staged_written);
	EXPECT_GE(2, cached_pages(self->fd));
	EXPECT_EQ(256 * KIB, cuFileRead(self->file, (void *)self->dev, 256 * KIB, 100, 100));
	now = gained(&self->before);
	EXPECT_LT(0, now.staged_read);
	EXPECT_GE(4 * KIB, now.staged_read);
	EXPECT_EQ(256 * KIB, now.direct_read + now.staged_read);
	/* An address that the device cannot use: everything is staged. */
	EXPECT_EQ(8192, cuFileWrite(self->file, (void *)self->dev, 8192, 0, 1));
	now = gained(&self->before);
	EXPECT_EQ(252 * KIB, now.direct_written);
	EXPECT_EQ(4 * KIB + 8192, now.staged_written);
}

TEST_F(cufile, compat_tmpfs)
{
	struct gpumem_file_counters now;
	CUfileHandle_t file;
	int fd = file_make(false, 0);

	ASSERT_LE(0, fd);
	ASSERT_CF(file_register(&file, fd));
	fill_pattern(self->mem, 100000, 2);
	put(self->dev + 1, self->mem, 100000);
	EXPECT_EQ(100000, cuFileWrite(file, (void *)self->dev, 100000, 5, 1));
	EXPECT_EQ(100000, cuFileRead(file, (void *)self->dev, 200000, 5, 200000));
	EXPECT_EQ(0, memcmp(self->mem, view(self->dev + 200000, 100000), 100000));
	now = gained(&self->before);
	EXPECT_EQ(100000, now.compat_written);
	EXPECT_EQ(100000, now.compat_read);
	EXPECT_EQ(0, now.direct_read + now.direct_written + now.staged_read + now.staged_written);
}

TEST_F(cufile, compat_forced)
{
	struct gpumem_file_counters now;
	CUfileHandle_t file;
	int fd = file_make(false, 0);

	ASSERT_CF(cuFileDriverClose());
	ASSERT_CF(cuFileSetParameterBool(CUFILE_PARAM_FORCE_COMPAT_MODE, true));
	ASSERT_CF(file_register(&file, self->fd));
	EXPECT_EQ(64 * KIB, cuFileWrite(file, (void *)self->dev, 64 * KIB, 0, 0));
	now = gained(&self->before);
	EXPECT_EQ(64 * KIB, now.compat_written);
	EXPECT_LT(0, cached_pages(self->fd));

	/* Without compatibility mode, a file that needs it is refused. */
	ASSERT_CF(cuFileDriverClose());
	ASSERT_CF(cuFileSetParameterBool(CUFILE_PARAM_FORCE_COMPAT_MODE, false));
	ASSERT_CF(cuFileSetParameterBool(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE, false));
	EXPECT_EQ(CU_FILE_IO_NOT_SUPPORTED, file_register(&file, fd).err);
	ASSERT_CF(file_register(&file, self->fd));
	EXPECT_EQ(64 * KIB, cuFileWrite(file, (void *)self->dev, 64 * KIB, 0, 0));
	now = gained(&self->before);
	EXPECT_EQ(64 * KIB, now.direct_written);

	ASSERT_CF(cuFileDriverClose());
	ASSERT_CF(cuFileSetParameterBool(CUFILE_PARAM_PROPERTIES_ALLOW_SYSTEM_MEMORY, false));
	ASSERT_CF(file_register(&file, self->fd));
	EXPECT_EQ(64 * KIB, cuFileRead(file, (void *)self->dev, 64 * KIB, 0, 0));
	EXPECT_EQ(-CU_FILE_CUDA_MEMORY_TYPE_INVALID, cuFileRead(file, self->mem, 64 * KIB, 0, 0));
}

/* A file that the program opened with O_DIRECT. */
TEST_F(cufile, direct_file)
{
	struct gpumem_file_counters now;
	int fd = file_make(true, O_DIRECT), flags = fcntl(fd, F_GETFL);
	CUfileHandle_t file;

	ASSERT_CF(file_register(&file, fd));
	EXPECT_EQ(100001, cuFileWrite(file, (void *)self->dev, 100001, 3, 3));
	EXPECT_EQ(100004, lseek(fd, 0, SEEK_END));
	now = gained(&self->before);
	EXPECT_LT(0, now.direct_written);
	EXPECT_EQ(100001, now.direct_written + now.staged_written);
	EXPECT_EQ(flags, fcntl(fd, F_GETFL));
	EXPECT_EQ(flags & ~O_DIRECT, fcntl(self->fd, F_GETFL));
}

/* Without io_uring, system calls do the same. */
TEST_F(cufile, without_ring)
{
	struct gpumem_file_counters now;
	struct changed rings;

	if (access(RINGS, F_OK))
		SKIP(return, "the kernel has no " RINGS);
	ASSERT_TRUE(file_change(&rings, RINGS, "2"));
	fill_pattern(self->mem, 100000, 3);
	put(self->dev, self->mem, 100000);
	EXPECT_EQ(100000, cuFileWrite(self->file, (void *)self->dev, 100000, 0, 0));
	EXPECT_EQ(100000, cuFileRead(self->file, (void *)self->dev, 200000, 0, 1 * MIB));
	EXPECT_EQ(0, file_restore(&rings));
	EXPECT_EQ(0, memcmp(view(self->dev + 1 * MIB, 100000), self->mem, 100000));
	now = gained(&self->before);
	EXPECT_EQ(0, now.ring_requests);
	EXPECT_LT(0, now.plain_requests);
	EXPECT_EQ(98304, now.direct_written);
}

/* ---- identity of files */

TEST_F(cufile, closed_descriptor)
{
	struct stat st;
	int number = self->fd, mine = fcntl(self->fd, F_DUPFD_CLOEXEC, 0), other;

	close(self->fd);
	other = file_make(true, 0);
	ASSERT_EQ(number, other);
	EXPECT_EQ(64 * KIB, cuFileWrite(self->file, (void *)self->dev, 64 * KIB, 0, 0));
	EXPECT_EQ(100, cuFileWrite(self->file, (void *)self->dev, 100, 1 * MIB, 0));
	ASSERT_EQ(0, fstat(other, &st));
	EXPECT_EQ(0, st.st_size);
	ASSERT_EQ(0, fstat(mine, &st));
	EXPECT_EQ(1 * MIB + 100, st.st_size);
}

/* ---- kinds of memory */

TEST_F(cufile, kinds)
{
	CUdeviceptr ptrs[4];
	void *pinned;
	CUstream s;

	fill_pattern(self->mem, 64 * KIB, 4);
	put(self->dev, self->mem, 64 * KIB);
	ASSERT_EQ(64 * KIB, cuFileWrite(self->file, (void *)self->dev, 64 * KIB, 0, 0));
	ASSERT_CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuMemAllocAsync(&ptrs[0], 64 * KIB, s));
	ASSERT_CU(cuStreamSynchronize(s));
	ASSERT_CU(cuMemAllocManaged(&ptrs[1], 64 * KIB, CU_MEM_ATTACH_GLOBAL));
	ASSERT_CU(cuMemHostAlloc(&pinned, 64 * KIB, 0));
	ptrs[2] = (uintptr_t)pinned;
	ptrs[3] = (uintptr_t)(self->mem + 2 * MIB);
	for (int i = 0; i < 4; i++) {
		ASSERT_EQ(64 * KIB, cuFileRead(self->file, (void *)ptrs[i], 64 * KIB, 0, 0));
		EXPECT_EQ(0, memcmp(view(ptrs[i], 64 * KIB), self->mem, 64 * KIB));
		ASSERT_EQ(64 * KIB, cuFileWrite(self->file, (void *)ptrs[i], 64 * KIB, 1 * MIB, 0));
	}
}

/* A thread without a context may transfer. */
TEST_F(cufile, without_context)
{
	ASSERT_CU(cuCtxSetCurrent(NULL));
	EXPECT_EQ(64 * KIB, cuFileWrite(self->file, (void *)self->dev, 64 * KIB, 0, 0));
	EXPECT_EQ(64 * KIB, cuFileRead(self->file, (void *)self->dev, 64 * KIB, 0, 0));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
}

/* In strict mode the library needs a DMA-buf of the memory, and some memory has none. */
static bool reached_or_not(ssize_t result, ssize_t size)
{
	return strict() ? result == -1 && errno == EFAULT : result == size;
}

TEST_F(cufile, opened_memory)
{
	struct peer_message m = { .op = PEER_ALLOC, .bytes = 4 * MIB };
	struct peer peer;
	CUdeviceptr ptr;

	ASSERT_EQ(0, peer_start(&peer, NULL));
	ASSERT_CU(peer_call(&peer, &m));
	m.op = PEER_GET;
	ASSERT_CU(peer_call(&peer, &m));
	ASSERT_CU(cuIpcOpenMemHandle(&ptr, m.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	ASSERT_EQ(64 * KIB, cuFileWrite(self->file, (void *)self->dev, 64 * KIB, 0, 0));
	EXPECT_TRUE(reached_or_not(cuFileRead(self->file, (void *)ptr, 64 * KIB, 0, 0), 64 * KIB));
	EXPECT_TRUE(reached_or_not(cuFileWrite(self->file, (void *)ptr, 100, 0, 0), 100));
	ASSERT_CU(cuIpcCloseMemHandle(ptr));
	ASSERT_EQ(0, peer_end(&peer));
}

TEST_F(cufile, small_pool_blocks)
{
	CUdeviceptr ptr[2];
	CUstream s;

	ASSERT_CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 2; i++)
		ASSERT_CU(cuMemAllocAsync(&ptr[i], 512, s));
	ASSERT_CU(cuStreamSynchronize(s));
	ASSERT_EQ(0, ptr[0] % page_size);
	ASSERT_EQ(ptr[0] + 512, ptr[1]);
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(512, cuFileWrite(self->file, (void *)ptr[i], 512, i * 512, 0));
	ASSERT_CU(cuMemFreeAsync(ptr[0], s));
	ASSERT_CU(cuStreamSynchronize(s));
	EXPECT_TRUE(reached_or_not(cuFileWrite(self->file, (void *)ptr[1], 512, 512, 0), 512));
	ASSERT_CU(cuMemFreeAsync(ptr[1], s));
}

/* ---- threads and processes */

#define THREADS		8
#define ROUNDS		40
#define SLICE		1000		/* no multiple of a block: neighbours share blocks */

struct writer {
	CUcontext ctx;
	CUfileHandle_t file;
	CUdeviceptr dev;
	unsigned int number;
	int failed;
};

static void *writer_main(void *arg)
{
	struct writer *w = arg;

	WORKER_CHECK(!cuCtxSetCurrent(w->ctx));
	for (unsigned int i = 0; i < ROUNDS; i++) {
		off_t at = ((off_t)i * THREADS + w->number) * SLICE;

		WORKER_CHECK(cuFileWrite(w->file, (void *)w->dev, SLICE, at, w->number * SLICE) == SLICE);
	}
	return NULL;
}

TEST_F(cufile, threads)
{
	struct writer w[THREADS];
	pthread_t threads[THREADS];

	for (unsigned int i = 0; i < THREADS; i++) {
		w[i] = (struct writer) { self->ctx, self->file, self->dev, i, 0 };
		poke(self->dev + i * SLICE, i + 1, SLICE);
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, writer_main, &w[i]));
	}
	for (unsigned int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		EXPECT_EQ(0, w[i].failed);
	}
	ASSERT_EQ(THREADS * ROUNDS * SLICE, lseek(self->fd, 0, SEEK_END));
	ASSERT_EQ(THREADS * ROUNDS * SLICE, cuFileRead(self->file, (void *)self->dev, CUFILE_SIZE, 0, 0));
	for (unsigned int i = 0; i < THREADS * ROUNDS; i++)
		ASSERT_TRUE(sees(self->dev + i * SLICE, i % THREADS + 1, SLICE));
}

TEST_F(cufile, forked)
{
	int status;
	pid_t pid;

	ASSERT_CF(cuFileBufRegister((void *)self->dev, 64 * KIB, 0));
	pid = fork();
	if (!pid) {
		CUfileHandle_t other;
		CUfileDrvProps_t props;

		_exit(!(cuFileDriverOpen().err == CU_FILE_DRIVER_NOT_INITIALIZED &&
			cuFileDriverClose().err == CU_FILE_DRIVER_NOT_INITIALIZED &&
			cuFileDriverGetProperties(&props).err == CU_FILE_DRIVER_NOT_INITIALIZED &&
			file_register(&other, self->fd).err == CU_FILE_DRIVER_NOT_INITIALIZED &&
			cuFileBufDeregister((void *)self->dev).err == CU_FILE_DRIVER_NOT_INITIALIZED &&
			cuFileUseCount() == 0 &&
			cuFileRead(self->file, (void *)self->dev, 4096, 0, 0) ==
				-CU_FILE_DRIVER_NOT_INITIALIZED));
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(64 * KIB, cuFileWrite(self->file, (void *)self->dev, 64 * KIB, 0, 0));
	ASSERT_CF(cuFileDriverClose());
}

/* ---- statistics */

TEST_F(cufile, statistics)
{
	CUfileStatsLevel1_t one;
	CUfileStatsLevel2_t two;
	static CUfileStatsLevel3_t three;
	int level;

	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileSetStatsLevel(4).err);
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileSetStatsLevel(-1).err);
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileGetStatsL1(&one).err);
	ASSERT_CF(cuFileSetStatsLevel(3));
	ASSERT_CF(cuFileGetStatsLevel(&level));
	EXPECT_EQ(3, level);
	ASSERT_CF(cuFileStatsStart());
	ASSERT_EQ(64 * KIB, cuFileWrite(self->file, (void *)self->dev, 64 * KIB, 0, 0));
	ASSERT_EQ(8 * KIB, cuFileRead(self->file, (void *)self->dev, 8 * KIB, 0, 0));
	ASSERT_CF(cuFileBufRegister((void *)self->dev, 64 * KIB, 0));
	ASSERT_CF(cuFileStatsStop());
	ASSERT_EQ(8 * KIB, cuFileRead(self->file, (void *)self->dev, 8 * KIB, 0, 0));
	ASSERT_CF(cuFileGetStatsL1(&one));
	EXPECT_EQ(1, one.read_ops.ok);
	EXPECT_EQ(1, one.write_ops.ok);
	EXPECT_EQ(64 * KIB, one.write_bytes);
	EXPECT_EQ(8 * KIB, one.read_bytes);
	EXPECT_EQ(1, one.buf_register_ops.ok);
	ASSERT_CF(cuFileGetStatsL2(&two));
	EXPECT_EQ(1, two.read_size_kb_hist[4]);
	ASSERT_CF(cuFileGetStatsL3(&three));
	EXPECT_EQ(1, three.num_gpus);
	EXPECT_EQ(1, three.per_gpu_stats[0].n_total_reads);
	EXPECT_EQ(64 * KIB, three.per_gpu_stats[0].reg_bytes);
	ASSERT_CF(cuFileStatsReset());
	ASSERT_CF(cuFileGetStatsL1(&one));
	EXPECT_EQ(0, one.read_ops.ok);
}

CUFILE_MAIN
