// SPDX-License-Identifier: GPL-2.0
/*
 * libcufile.so.0, batches and requests on streams. Each request of a batch is reported once, with its number of bytes;
 * requests that are cancelled never touch their buffer afterwards. A request on a stream runs after the work in front
 * of it and before the work behind it, reads its sizes and offsets then, and does not hold up other streams.
 */
#include "kselftest_harness.h"
#include "cufile_fixture.h"
#include "cost_util.h"

CUFILE_FIXTURE(batch)
CUFILE_FIXTURE(async)

static CUfileIOParams_t params(CUfileHandle_t file, CUfileOpcode_t opcode, CUdeviceptr dev, size_t size, off_t at,
			       off_t offset, uintptr_t cookie)
{
	return (CUfileIOParams_t) {
		.mode = CUFILE_BATCH, .fh = file, .opcode = opcode, .cookie = (void *)cookie,
		.u.batch = { .devPtr_base = (void *)dev, .file_offset = at, .devPtr_offset = offset, .size = size },
	};
}

/* ---- batches */

#define NR	32

/* Wait until @n requests are reported, each once and with @size bytes. */
static bool all_come(CUfileBatchHandle_t batch, unsigned int n, size_t size)
{
	CUfileIOEvents_t events[NR];
	bool seen[NR] = { };

	while (n) {
		unsigned int got = n;

		if (cuFileBatchIOGetStatus(batch, 1, &got, events, NULL).err || !got)
			return false;
		for (unsigned int i = 0; i < got; i++) {
			uintptr_t cookie = (uintptr_t)events[i].cookie;

			if (cookie >= NR || seen[cookie] || events[i].status != CUFILE_COMPLETE ||
			    events[i].ret != size)
				return false;
			seen[cookie] = true;
		}
		n -= got;
	}
	return true;
}

TEST_F(batch, aligned)
{
	struct gpumem_file_counters now;
	CUfileIOParams_t io[NR];
	CUfileBatchHandle_t batch;

	ASSERT_CF(cuFileBatchIOSetUp(&batch, NR));
	fill_pattern(self->mem, NR * 64 * KIB, 5);
	put(self->dev, self->mem, NR * 64 * KIB);
	for (unsigned int round = 0; round < 3; round++) {
		for (unsigned int i = 0; i < NR; i++)
			io[i] = params(self->file, CUFILE_WRITE, self->dev, 64 * KIB, i * 64 * KIB, i * 64 * KIB, i);
		ASSERT_CF(cuFileBatchIOSubmit(batch, NR, io, 0));
		ASSERT_TRUE(all_come(batch, NR, 64 * KIB));
	}
	poke(self->dev, 0, NR * 64 * KIB);
	for (unsigned int i = 0; i < NR; i++)
		io[i].opcode = CUFILE_READ;
	ASSERT_CF(cuFileBatchIOSubmit(batch, NR, io, 0));
	ASSERT_TRUE(all_come(batch, NR, 64 * KIB));
	EXPECT_EQ(0, memcmp(view(self->dev, NR * 64 * KIB), self->mem, NR * 64 * KIB));
	EXPECT_EQ(0, cached_pages(self->fd));
	now = gained(&self->before);
	EXPECT_EQ(4 * NR * 64 * KIB, now.direct_written + now.direct_read);
	EXPECT_EQ(0, now.staged_read + now.staged_written);
	cuFileBatchIODestroy(batch);
}

/* Requests of several operations: long ones, and misaligned ones. */
TEST_F(batch, pieces)
{
	CUfileIOParams_t io[NR];
	CUfileBatchHandle_t batch;
	const size_t n = 100001;

	ASSERT_CF(cuFileDriverSetMaxDirectIOSize(16));
	ASSERT_CF(cuFileBatchIOSetUp(&batch, NR));
	fill_pattern(self->mem, NR * n, 6);
	put(self->dev, self->mem, NR * n);
	for (unsigned int i = 0; i < NR; i++)
		io[i] = params(self->file, CUFILE_WRITE, self->dev, n, i * n, i * n, i);
	ASSERT_CF(cuFileBatchIOSubmit(batch, NR, io, 0));
	ASSERT_TRUE(all_come(batch, NR, n));
	poke(self->dev, 0, NR * n);
	for (unsigned int i = 0; i < NR; i++)
		io[i].opcode = CUFILE_READ;
	ASSERT_CF(cuFileBatchIOSubmit(batch, NR, io, 0));
	ASSERT_TRUE(all_come(batch, NR, n));
	EXPECT_EQ(0, memcmp(view(self->dev, NR * n), self->mem, NR * n));
	cuFileBatchIODestroy(batch);
}

TEST_F(batch, errors)
{
	struct timespec none = { }, wrong = { .tv_nsec = -1 }, little = { .tv_nsec = 20000000 };
	CUfileIOEvents_t events[NR];
	CUfileIOParams_t io[NR];
	CUfileBatchHandle_t batch;
	CUfileHandle_t exe;
	unsigned int nr = 1;

	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileBatchIOSetUp(NULL, 1).err);
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileBatchIOSetUp(&batch, 0).err);
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileBatchIOSetUp(&batch, 129).err);
	ASSERT_CF(cuFileBatchIOSetUp(&batch, 4));
	for (unsigned int i = 0; i < NR; i++)
		io[i] = params(self->file, CUFILE_READ, self->dev, 4096, 0, 0, i);
	EXPECT_EQ(CU_FILE_BATCH_FULL, cuFileBatchIOSubmit(batch, 5, io, 0).err);
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileBatchIOSubmit(batch, 0, io, 0).err);
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileBatchIOSubmit(batch, 1, NULL, 0).err);
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileBatchIOSubmit(batch, 1, io, 1).err);
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileBatchIOSubmit(io, 1, io, 0).err);
	/* One invalid request: none is submitted. */
	io[1].mode = 7;
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileBatchIOSubmit(batch, 2, io, 0).err);
	io[1] = params(self->file, 7, self->dev, 4096, 0, 0, 1);
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileBatchIOSubmit(batch, 2, io, 0).err);
	io[1] = params(NULL, CUFILE_READ, self->dev, 4096, 0, 0, 1);
	EXPECT_EQ(CU_FILE_HANDLE_NOT_REGISTERED, cuFileBatchIOSubmit(batch, 2, io, 0).err);
	io[1] = params(self->file, CUFILE_READ, self->dev, 4096, 0, CUFILE_SIZE, 1);
	EXPECT_EQ(CU_FILE_CUDA_POINTER_RANGE_ERROR, cuFileBatchIOSubmit(batch, 2, io, 0).err);
	nr = 4;
	ASSERT_CF(cuFileBatchIOGetStatus(batch, 0, &nr, events, &none));
	EXPECT_EQ(0, nr);
	/* There is nothing to wait for. */
	nr = 4;
	ASSERT_CF(cuFileBatchIOGetStatus(batch, 4, &nr, events, NULL));
	EXPECT_EQ(0, nr);
	nr = 0;
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileBatchIOGetStatus(batch, 0, &nr, events, &none).err);
	nr = 1;
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileBatchIOGetStatus(batch, 2, &nr, events, &none).err);
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileBatchIOGetStatus(batch, 1, &nr, events, &wrong).err);

	/* A failure is the request's. */
	ASSERT_CF(file_register(&exe, open("/proc/self/exe", O_RDONLY | O_CLOEXEC)));
	io[0] = params(exe, CUFILE_WRITE, self->dev, 4096, 0, 0, 11);
	ASSERT_CF(cuFileBatchIOSubmit(batch, 1, io, 0));
	nr = 4;
	ASSERT_CF(cuFileBatchIOGetStatus(batch, 1, &nr, events, NULL));
	ASSERT_EQ(1, nr);
	EXPECT_EQ(CUFILE_FAILED, events[0].status);
	EXPECT_EQ(-EBADF, (ssize_t)events[0].ret);
	EXPECT_EQ((void *)11, events[0].cookie);

	/* Behind the end of the file. */
	io[0] = params(self->file, CUFILE_READ, self->dev, 4096, 1 * MIB, 0, 12);
	ASSERT_CF(cuFileBatchIOSubmit(batch, 1, io, 0));
	nr = 4;
	ASSERT_CF(cuFileBatchIOGetStatus(batch, 1, &nr, events, NULL));
	ASSERT_EQ(1, nr);
	EXPECT_EQ(CUFILE_COMPLETE, events[0].status);
	EXPECT_EQ(0, events[0].ret);

	/* A request that is not reported has its place. */
	io[0] = io[1] = io[2] = params(self->file, CUFILE_READ, self->dev, 4096, 0, 0, 12);
	ASSERT_CF(cuFileBatchIOSubmit(batch, 3, io, 0));
	EXPECT_EQ(CU_FILE_BATCH_FULL, cuFileBatchIOSubmit(batch, 2, io, 0).err);
	nr = 4;
	ASSERT_CF(cuFileBatchIOGetStatus(batch, 4, &nr, events, &little));
	EXPECT_EQ(3, nr);
	ASSERT_CF(cuFileBatchIOSubmit(batch, 3, io, 0));
	cuFileBatchIODestroy(batch);
	cuFileBatchIODestroy(batch);
	cuFileBatchIODestroy(NULL);
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileBatchIOSubmit(batch, 1, io, 0).err);
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileBatchIOCancel(batch).err);
	ASSERT_CF(cuFileDriverClose());
}

/* While requests are in flight, the driver does not close. After a cancellation everything is reported. */
TEST_F(batch, cancel)
{
	CUfileIOEvents_t events[NR];
	CUfileIOParams_t io[NR];
	CUfileBatchHandle_t batch;
	unsigned int left = NR;

	ASSERT_CF(cuFileBatchIOSetUp(&batch, NR));
	/* With pieces this small, none is done at once. */
	ASSERT_CF(cuFileDriverSetMaxDirectIOSize(4));
	for (unsigned int i = 0; i < NR; i++)
		io[i] = params(self->file, CUFILE_WRITE, self->dev, 64 * KIB, i * 64 * KIB, i * 64 * KIB, i);
	ASSERT_CF(cuFileBatchIOSubmit(batch, NR, io, 0));
	EXPECT_EQ(CU_FILE_DRIVER_CLOSING, cuFileDriverClose().err);
	ASSERT_CF(cuFileBatchIOCancel(batch));
	while (left) {
		unsigned int n = left;

		ASSERT_CF(cuFileBatchIOGetStatus(batch, 1, &n, events, NULL));
		ASSERT_LT(0, n);
		for (unsigned int i = 0; i < n; i++)
			ASSERT_EQ(CUFILE_CANCELED, events[i].status);
		left -= n;
	}
	/* The batch can be used again. */
	ASSERT_CF(cuFileBatchIOSubmit(batch, NR, io, 0));
	ASSERT_TRUE(all_come(batch, NR, 64 * KIB));
	ASSERT_CF(cuFileDriverClose());
}

static void *submit_main(void *arg)
{
	CUfileBatchHandle_t *batch = arg;
	CUfileIOParams_t *io = (void *)(batch + 1);

	nap_ms(100);
	return cuFileBatchIOSubmit(*batch, 1, io, 0).err ? batch : NULL;
}

/* A thread that waits does not keep another from submitting; the thread that submitted may end. */
TEST_F(batch, threads)
{
	struct {
		CUfileBatchHandle_t batch;
		CUfileIOParams_t io;
	} a;
	CUfileIOEvents_t event;
	unsigned int nr = 0;
	pthread_t thread;
	void *failed;

	ASSERT_CF(cuFileBatchIOSetUp(&a.batch, 1));
	a.io = params(self->file, CUFILE_WRITE, self->dev, 1 * MIB, 0, 0, 1);
	ASSERT_EQ(0, pthread_create(&thread, NULL, submit_main, &a));
	while (!nr) {
		nr = 1;
		ASSERT_CF(cuFileBatchIOGetStatus(a.batch, 1, &nr, &event, NULL));
	}
	EXPECT_EQ(CUFILE_COMPLETE, event.status);
	EXPECT_EQ(1 * MIB, event.ret);
	pthread_join(thread, &failed);
	EXPECT_EQ(NULL, failed);
}

static CUresult find_batch(const void *arg)
{
	return cuFileBatchIOCancel(*(const CUfileBatchHandle_t *)arg).err ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult make_batch(const void *arg)
{
	CUfileBatchHandle_t batch;

	(void)arg;
	if (cuFileBatchIOSetUp(&batch, 1).err)
		return CUDA_ERROR_UNKNOWN;
	cuFileBatchIODestroy(batch);
	return CUDA_SUCCESS;
}

#define FEW	1024
#define MANY	(64 * FEW)

/* Calls cost the same beside 65536 batches as beside 1024.  The batches have no rings: these have costs of their own. */
TEST_F_TIMEOUT(batch, cost_beside_many, 200)
{
	static const cost_fn fns[] = { find_batch, make_batch };
	__u64 beside_few[ARRAY_SIZE(fns)] = { 0 };
	CUfileBatchHandle_t first, batch;
	struct changed rings;
	bool made;

	if (access(RINGS, F_OK))
		SKIP(return, "the kernel has no " RINGS);
	ASSERT_TRUE(file_change(&rings, RINGS, "2"));
	made = !cuFileBatchIOSetUp(&first, 1).err;
	for (unsigned int i = 1; i < MANY && made; i++) {
		for (unsigned int j = 0; i == FEW && j < ARRAY_SIZE(fns); j++)
			beside_few[j] = least(fns[j], &first);
		made = !cuFileBatchIOSetUp(&batch, 1).err;
	}
	EXPECT_TRUE(made);
	for (unsigned int j = 0; j < ARRAY_SIZE(fns); j++)
		EXPECT_TRUE(beside_few[j] && costs_the_same(fns[j], &first, beside_few[j]));
	EXPECT_EQ(0, file_restore(&rings));
	/* The handle of a batch that is gone is no other batch's. */
	cuFileBatchIODestroy(first);
	EXPECT_CF(cuFileBatchIOSetUp(&batch, 1));
	EXPECT_NE(first, batch);
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileBatchIOCancel(first).err);
	/* Closing the driver destroys the others. */
	ASSERT_CF(cuFileDriverClose());
	ASSERT_CF(cuFileDriverOpen());
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileBatchIOCancel(batch).err);
}

/* ---- streams */

static CUresult find_stream(const void *arg)
{
	return cuFileStreamRegister(*(const CUstream *)arg, 0).err ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult make_stream(const void *arg)
{
	CUstream other = (CUstream)((uintptr_t)*(const CUstream *)arg + 8);

	return cuFileStreamRegister(other, 0).err || cuFileStreamDeregister(other).err ||
		cuFileStreamDeregister(other).err != CU_FILE_INVALID_VALUE ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

/* Calls cost the same beside 65536 streams as beside 1024.  The library does not look at what a handle names. */
TEST_F_TIMEOUT(async, cost_beside_many, 200)
{
	static const cost_fn fns[] = { find_stream, make_stream };
	__u64 beside_few[ARRAY_SIZE(fns)] = { 0 };
	CUstream first = (CUstream)0x10000;

	for (uintptr_t i = 0; i < MANY; i++) {
		for (unsigned int j = 0; i == FEW && j < ARRAY_SIZE(fns); j++)
			beside_few[j] = least(fns[j], &first);
		ASSERT_CF(cuFileStreamRegister((CUstream)(0x10000 + 64 * i), 0));
	}
	for (unsigned int j = 0; j < ARRAY_SIZE(fns); j++)
		EXPECT_TRUE(beside_few[j] && costs_the_same(fns[j], &first, beside_few[j]));
	ASSERT_CF(cuFileDriverClose());
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileStreamDeregister(first).err);
}

/* A request waits for the work in front of it, and the work behind it waits for the request. */
TEST_F(async, order)
{
	volatile cuuint32_t *word;
	size_t size = 1 * MIB;
	off_t at = 0, zero = 0, there = 2 * MIB;
	ssize_t wrote = 77, got = 77;
	void *pinned;
	CUstream s;

	ASSERT_CU(cuMemHostAlloc(&pinned, 4096, 0));
	word = pinned;
	ASSERT_CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	ASSERT_CF(cuFileStreamRegister(s, 0));
	fill_pattern(self->mem, 1 * MIB, 7);
	ASSERT_CU(gate_put(s, word));
	ASSERT_CU(cuMemcpyHtoDAsync(self->dev, self->mem, 1 * MIB, s));
	ASSERT_CF(cuFileWriteAsync(self->file, (void *)self->dev, &size, &at, &zero, &wrote, s));
	ASSERT_CU(cuMemsetD8Async(self->dev, 0, 1 * MIB, s));
	ASSERT_CF(cuFileReadAsync(self->file, (void *)self->dev, &size, &at, &there, &got, s));
	ASSERT_CU(cuMemcpyDtoDAsync(self->dev + 1 * MIB, self->dev + 2 * MIB, 1 * MIB, s));
	nap_ms(50);
	EXPECT_EQ(77, wrote);
	EXPECT_EQ(0, lseek(self->fd, 0, SEEK_END));
	EXPECT_EQ(CU_FILE_DRIVER_CLOSING, cuFileDriverClose().err);
	gate_open(word);
	ASSERT_CU(cuStreamSynchronize(s));
	EXPECT_EQ(1 * MIB, wrote);
	EXPECT_EQ(1 * MIB, got);
	EXPECT_TRUE(sees(self->dev, 0, 1 * MIB));
	EXPECT_EQ(0, memcmp(view(self->dev + 1 * MIB, 1 * MIB), self->mem, 1 * MIB));
	EXPECT_EQ(0, cached_pages(self->fd));
	ASSERT_CF(cuFileStreamDeregister(s));
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileStreamDeregister(s).err);
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileStreamRegister(s, 16).err);
	ASSERT_CF(cuFileDriverClose());
}

/* Sizes and offsets are read when the request runs, or at submission if the stream was registered so. */
TEST_F(async, late_values)
{
	volatile cuuint32_t *word;
	void *pinned;
	CUstream s;

	ASSERT_CU(cuMemHostAlloc(&pinned, 4096, 0));
	word = pinned;
	ASSERT_CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	ASSERT_EQ(0, ftruncate(self->fd, 1 * MIB));
	for (unsigned int flags = 0; flags < 8; flags++) {
		size_t size = 4096;
		off_t at = 4096, offset = 4096;
		ssize_t wrote = 0;
		off_t want_at = flags & CU_FILE_STREAM_FIXED_FILE_OFFSET ? 4096 : 65536;
		off_t want_offset = flags & CU_FILE_STREAM_FIXED_BUF_OFFSET ? 4096 : 65536;
		size_t want = flags & CU_FILE_STREAM_FIXED_FILE_SIZE ? 4096 : 8192;

		fill_pattern(self->mem, 128 * KIB, flags);
		put(self->dev, self->mem, 128 * KIB);
		ASSERT_EQ(0, ftruncate(self->fd, 0));
		ASSERT_EQ(0, ftruncate(self->fd, 1 * MIB));
		ASSERT_CF(cuFileStreamRegister(s, flags));
		ASSERT_CU(gate_put(s, word));
		ASSERT_CF(cuFileWriteAsync(self->file, (void *)self->dev, &size, &at, &offset, &wrote, s));
		size = 8192;
		at = offset = 65536;
		gate_open(word);
		ASSERT_CU(cuStreamSynchronize(s));
		ASSERT_EQ(want, wrote);
		ASSERT_EQ(1 * MIB, pread(self->fd, self->mem + 1 * MIB, 1 * MIB, 0));
		EXPECT_EQ(0, memcmp(self->mem + 1 * MIB + want_at, self->mem + want_offset, want));
		EXPECT_TRUE(all_are(self->mem + 1 * MIB, 0, want_at));
		EXPECT_TRUE(all_are(self->mem + 1 * MIB + want_at + want, 0, 1 * MIB - want_at - want));
	}
}

TEST_F(async, errors)
{
	void *dev = (void *)self->dev;
	off_t at = 0, zero = 0, far = CUFILE_SIZE;
	ssize_t got = 77, more = 77;
	CUfileHandle_t exe;
	size_t size = 4096;

	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileReadAsync(self->file, NULL, &size, &at, &zero, &got, 0).err);
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileReadAsync(self->file, dev, NULL, &at, &zero, &got, 0).err);
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileReadAsync(self->file, dev, &size, NULL, &zero, &got, 0).err);
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileReadAsync(self->file, dev, &size, &at, NULL, &got, 0).err);
	EXPECT_EQ(CU_FILE_INVALID_VALUE, cuFileReadAsync(self->file, dev, &size, &at, &zero, NULL, 0).err);
	EXPECT_EQ(CU_FILE_HANDLE_NOT_REGISTERED, cuFileReadAsync(NULL, dev, &size, &at, &zero, &got, 0).err);
	/* These are known only when the request runs. */
	ASSERT_CF(cuFileReadAsync(self->file, dev, &size, &at, &far, &got, 0));
	ASSERT_CF(file_register(&exe, open("/proc/self/exe", O_RDONLY | O_CLOEXEC)));
	ASSERT_CF(cuFileWriteAsync(exe, dev, &size, &at, &zero, &more, CU_STREAM_PER_THREAD));
	/* The file may be deregistered meanwhile. */
	cuFileHandleDeregister(exe);
	ASSERT_CU(cuCtxSynchronize());
	EXPECT_EQ(-CU_FILE_CUDA_POINTER_RANGE_ERROR, got);
	EXPECT_EQ(-1, more);
	ASSERT_CF(cuFileDriverClose());
}

/* Many requests on several streams, each with its own data, and more than one page has cells for. */
TEST_F(async, streams)
{
	enum { STREAMS = 4, EACH = 200 };
	static ssize_t done[STREAMS * EACH];
	static off_t offsets[STREAMS * EACH];
	CUstream s[STREAMS];
	volatile cuuint32_t *word;
	size_t size = 4096;
	void *pinned;

	ASSERT_CU(cuMemHostAlloc(&pinned, 4096, 0));
	word = pinned;
	fill_pattern(self->mem, CUFILE_SIZE, 8);
	put(self->dev, self->mem, CUFILE_SIZE);
	for (int i = 0; i < STREAMS; i++) {
		ASSERT_CU(cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
		ASSERT_CU(i ? cuStreamWaitValue32(s[i], (uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_GEQ) :
			  gate_put(s[i], word));
	}
	for (int i = 0; i < STREAMS * EACH; i++) {
		offsets[i] = i * 4096l;
		ASSERT_CF(cuFileWriteAsync(self->file, (void *)self->dev, &size, &offsets[i], &offsets[i], &done[i],
					   s[i % STREAMS]));
	}
	gate_open(word);
	for (int i = 0; i < STREAMS; i++)
		ASSERT_CU(cuStreamSynchronize(s[i]));
	for (int i = 0; i < STREAMS * EACH; i++)
		ASSERT_EQ(4096, done[i]);
	ASSERT_EQ(STREAMS * EACH * 4096, pread(self->fd, self->mem, CUFILE_SIZE, 0));
	EXPECT_EQ(0, memcmp(view(self->dev, STREAMS * EACH * 4096), self->mem, STREAMS * EACH * 4096));
}

/* The registration of the library's memory ends with the context that made it. */
TEST_F(async, contexts)
{
	off_t zero = 0;
	size_t size = 4096;

	for (int i = 0; i < 3; i++) {
		ssize_t wrote = 0;
		CUdeviceptr dev;
		CUcontext ctx;
		CUstream s;

		ASSERT_CU(cuCtxCreate(&ctx, NULL, 0, 0));
		ASSERT_CU(cuMemAlloc(&dev, 4096));
		ASSERT_CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
		ASSERT_CF(cuFileWriteAsync(self->file, (void *)dev, &size, &zero, &zero, &wrote, s));
		ASSERT_CU(cuStreamSynchronize(s));
		EXPECT_EQ(4096, wrote);
		ASSERT_CU(cuCtxDestroy(ctx));
	}
}

/* Make the work of the context fail: unmap memory from its devices without the library's knowledge. */
static CUresult fail(CUstream s)
{
	CUdeviceptr p, base = 0;
	CUipcMemHandle handle;
	size_t length = 0;
	__u64 gone = 0;
	int fd = -1;

	if (cuMemAlloc(&p, 3 * MIB) || cuIpcGetMemHandle(&handle, p) || node_fds(&fd) != 1 ||
	    cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, p) ||
	    cuPointerGetAttribute(&length, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, p))
		return CUDA_ERROR_UNKNOWN;
	for (__u32 vm = 1; vm < 64; vm++)
		if (!gp_vm_unmap(fd, vm, base, length, &gone) && gone == length)
			return cuMemsetD8Async(p, 1, 4096, s);
	return CUDA_ERROR_UNKNOWN;
}

/* Requests behind work that fails are not executed, and say so. The driver closes all the same. */
TEST_F(async, failed_stream)
{
	volatile cuuint32_t *word;
	ssize_t wrote = 77;
	size_t size = 4096;
	off_t zero = 0;
	void *pinned;
	CUstream s;

	ASSERT_CU(cuMemHostAlloc(&pinned, 4096, 0));
	word = pinned;
	ASSERT_CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(gate_put(s, word));
	ASSERT_CU(fail(s));
	ASSERT_CF(cuFileWriteAsync(self->file, (void *)self->dev, &size, &zero, &zero, &wrote, s));
	gate_open(word);
	EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(s));
	for (int i = 0; i < 500 && wrote == 77; i++)
		nap_ms(10);
	EXPECT_EQ(-CU_FILE_CUDA_DRIVER_ERROR, wrote);
	EXPECT_EQ(0, lseek(self->fd, 0, SEEK_END));
	ASSERT_CF(cuFileDriverClose());
}

CUFILE_MAIN
