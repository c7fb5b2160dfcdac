// SPDX-License-Identifier: GPL-2.0
/*
 * The checker on programs of two processes: memory, pools, events and semaphores of another process that a program uses
 * wrongly or does not give back; and on their correct twins.
 *
 * The other process is this program, exec'ed anew. It is not checked. It has made memory, a pool with an allocation, an
 * event and two semaphores, and offers them by a socket. It waits for an event of the program when it is asked to, and
 * records its own. When the program signals the first semaphore, it signals the second one, twice at most.
 */
#include <gpumem.h>

#include <sys/socket.h>

#include "kselftest_harness.h"
#include "check_util.h"

#define POSIX_FD	CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define SHARED		(2u << 20)

struct offer {
	CUipcMemHandle memory;
	CUipcEventHandle event;
	CUmemPoolPtrExportData in_pool;
};

/* ---- the other process; its standard input is the socket */

/* The first one is a timeline semaphore, the second one a binary one. */
static void other_semaphores(CUexternalSemaphore *semaphores)
{
	int fd;

	for (unsigned int i = 0; i < 2; i++) {
		OK(gpumem_create_semaphore(&semaphores[i], 0, i ? 0 : GPUMEM_SEMAPHORE_TIMELINE));
		OK(gpumem_export_semaphore(&fd, semaphores[i], 0));
		OK(send_fd(STDIN_FILENO, fd));
		close(fd);
	}
}

static int other_main(void)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
		.handleTypes = POSIX_FD,
	};
	CUdeviceptr memory, in_pool;
	CUipcEventHandle handle;
	CUevent event, theirs;
	struct offer offer;
	CUexternalSemaphore semaphores[2];
	CUmemoryPool pool;
	CUstream stream, second;
	CUcontext ctx;
	int fd;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc(&memory, SHARED));
	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemAllocFromPoolAsync(&in_pool, SHARED, pool, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
	OK(cuIpcGetMemHandle(&offer.memory, memory));
	OK(cuIpcGetEventHandle(&offer.event, event));
	OK(cuMemPoolExportPointer(&offer.in_pool, in_pool));
	OK(cuMemPoolExportToShareableHandle(&fd, pool, POSIX_FD, 0));
	OK(write(STDIN_FILENO, &offer, sizeof(offer)) != sizeof(offer));
	OK(send_fd(STDIN_FILENO, fd));
	OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	other_semaphores(semaphores);
	for (unsigned int i = 1; i <= 2; i++) {
		await_one(semaphores[0], i, second);
		raise_one(semaphores[1], 0, second);
	}
	while (read(STDIN_FILENO, &handle, sizeof(handle)) == sizeof(handle)) {
		OK(cuIpcOpenEventHandle(&theirs, handle));
		OK(cuStreamWaitEvent(stream, theirs, 0));
		OK(cuEventRecord(event, stream));
		OK(cuEventDestroy(theirs));
		OK(!tell(STDIN_FILENO));
	}
	OK(cuStreamSynchronize(stream));
	/* The program need not have signalled. */
	raise_one(semaphores[0], 2, stream);
	OK(cuStreamSynchronize(second));
	return 0;
}

struct other {
	struct offer offer;
	int sock, pool;			/* the socket, and the descriptor of the pool */
	int semaphores[2];		/* descriptors */
	pid_t pid;
};

static void other_start(struct other *other)
{
	int ends[2];

	OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	other->pid = fork();
	if (!other->pid) {
		dup2(ends[1], STDIN_FILENO);
		setenv("GPUMEM_CHECK", "0", 1);
		execl("/proc/self/exe", "t_check_ipc", "other", NULL);
		_exit(4);
	}
	close(ends[1]);
	other->sock = ends[0];
	OK(read(other->sock, &other->offer, sizeof(other->offer)) != sizeof(other->offer));
	other->pool = recv_fd(other->sock);
	OK(other->pool < 0);
	for (unsigned int i = 0; i < 2; i++) {
		other->semaphores[i] = recv_fd(other->sock);
		OK(other->semaphores[i] < 0);
	}
}

static void other_end(struct other *other)
{
	int status;

	close(other->pool);
	close(other->sock);
	for (unsigned int i = 0; i < 2; i++)
		if (other->semaphores[i] >= 0)
			close(other->semaphores[i]);
	OK(waitpid(other->pid, &status, 0) != other->pid);
	OK(status);
}

/* ---- memory */

MISTAKE(opened_memory_is_not_closed, "leak")
{
	struct other other;
	CUdeviceptr m;

	other_start(&other);
	OK(WRONG(cuIpcOpenMemHandle(&m, other.offer.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)));
	OK(cuMemsetD8(m, 1, BYTES));
	OK(cuStreamSynchronize(NULL));
	other_end(&other);
}

/* Each open has a close. */
MISTAKE(memory_opened_twice_is_closed_once, "leak")
{
	struct other other;
	CUdeviceptr m, n;

	other_start(&other);
	OK(WRONG(cuIpcOpenMemHandle(&m, other.offer.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)));
	OK(cuIpcOpenMemHandle(&n, other.offer.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	OK(cuIpcCloseMemHandle(n));
	other_end(&other);
}

TWIN(opened_memory_is_closed)
{
	struct other other;
	CUdeviceptr m, n;

	other_start(&other);
	OK(cuIpcOpenMemHandle(&m, other.offer.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	OK(cuIpcOpenMemHandle(&n, other.offer.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	OK(cuMemsetD8(m, 1, BYTES));
	OK(cuStreamSynchronize(NULL));
	OK(cuIpcCloseMemHandle(m));
	OK(cuIpcCloseMemHandle(n));
	other_end(&other);
}

/* ---- pools */

static CUmemoryPool pool_import(const struct other *other)
{
	CUmemoryPool pool;

	OK(cuMemPoolImportFromShareableHandle(&pool, (void *)(uintptr_t)other->pool, POSIX_FD, 0));
	return pool;
}

MISTAKE(imported_pool_is_not_destroyed, "leak")
{
	struct other other;
	CUmemoryPool pool;
	CUdeviceptr m;

	other_start(&other);
	OK(WRONG(cuMemPoolImportFromShareableHandle(&pool, (void *)(uintptr_t)other.pool, POSIX_FD, 0)));
	OK(cuMemPoolImportPointer(&m, pool, &other.offer.in_pool));
	OK(cuMemFree(m));
	other_end(&other);
}

TWIN(imported_pool_is_given_back)
{
	struct other other;
	CUmemoryPool pool;
	CUdeviceptr m;

	other_start(&other);
	pool = pool_import(&other);
	OK(cuMemPoolImportPointer(&m, pool, &other.offer.in_pool));
	OK(cuMemsetD8Async(m, 1, BYTES, w->a));
	OK(cuMemFreeAsync(m, w->a));
	OK(cuStreamSynchronize(w->a));
	OK(cuMemPoolDestroy(pool));
	other_end(&other);
}

/* A pool with live imports cannot be destroyed, so it has a report as well. */
static void import_without_free(struct program *w)
{
	struct other other;
	CUmemoryPool pool;
	CUdeviceptr m;

	other_start(&other);
	pool = pool_import(&other);
	OK(WRONG(cuMemPoolImportPointer(&m, pool, &other.offer.in_pool)));
	OK(cuMemsetD8(m, 1, BYTES));
	OK(cuStreamSynchronize(NULL));
	OK(cuMemPoolDestroy(pool) != CUDA_ERROR_INVALID_VALUE);
	other_end(&other);
}

TEST(memory_of_an_imported_pool_is_not_freed)
{
	struct outcome *outcome = malloc(sizeof(*outcome));
	int *line = shared_line();
	const char *memory;

	ASSERT_NE(NULL, outcome);
	program_run(import_without_free, no_environment, line, outcome);
	EXPECT_EQ(STATUS, outcome->status);
	EXPECT_EQ(2, reports(outcome));
	EXPECT_NE(NULL, strstr(outcome->text, REPORT "leak: pool, 1 of them\n"));
	memory = strstr(outcome->text, REPORT "leak: imported memory, 1 of them, ");
	ASSERT_NE(NULL, memory)
		TH_LOG("%s", outcome->text);
	memmove(outcome->text, memory, strlen(memory) + 1);
	EXPECT_TRUE(at_line(outcome, __FILE__, *line));
	free(outcome);
}

/* The pointer may be imported again. It has one address, and one free. */
TWIN(memory_of_a_pool_imported_twice_is_freed)
{
	struct other other;
	CUmemoryPool pool;
	CUdeviceptr m, n;

	other_start(&other);
	pool = pool_import(&other);
	OK(cuMemPoolImportPointer(&m, pool, &other.offer.in_pool));
	OK(cuMemPoolImportPointer(&n, pool, &other.offer.in_pool));
	OK(m != n);
	OK(cuMemFree(m));
	OK(cuMemPoolDestroy(pool));
	other_end(&other);
}

MISTAKE(memory_of_a_pool_imported_twice_is_freed_twice, "double-free")
{
	struct other other;
	CUmemoryPool pool;
	CUdeviceptr m, n;

	other_start(&other);
	pool = pool_import(&other);
	OK(cuMemPoolImportPointer(&m, pool, &other.offer.in_pool));
	OK(cuMemPoolImportPointer(&n, pool, &other.offer.in_pool));
	OK(cuMemFree(m));
	OK(WRONG(cuMemFree(n)) != CUDA_ERROR_INVALID_VALUE);
	OK(cuMemPoolDestroy(pool));
	other_end(&other);
}

/* Fill memory of an imported pool on device 1. */
static CUresult fill_on_the_other_device(struct program *w, CUdeviceptr m)
{
	CUcontext ctx;
	CUstream stream;
	CUresult result;

	OK(cuDevicePrimaryCtxRetain(&ctx, 1));
	OK(cuCtxSetCurrent(ctx));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	result = WRONG(cuMemsetD8Async(m, 1, BYTES, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuStreamDestroy(stream));
	OK(cuCtxSetCurrent(w->ctx));
	OK(cuDevicePrimaryCtxRelease(1));
	return result;
}

MISTAKE(imported_pool_is_used_without_access, "no-access")
{
	struct other other;
	CUmemoryPool pool;
	CUdeviceptr m;

	other_start(&other);
	pool = pool_import(&other);
	OK(cuMemPoolImportPointer(&m, pool, &other.offer.in_pool));
	if (!fill_on_the_other_device(w, m))
		_exit(3);
	OK(cuMemFree(m));
	OK(cuMemPoolDestroy(pool));
	other_end(&other);
}

TWIN(imported_pool_is_used_with_access)
{
	CUmemAccessDesc access = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1 },
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	struct other other;
	CUmemoryPool pool;
	CUdeviceptr m;

	other_start(&other);
	pool = pool_import(&other);
	OK(cuMemPoolSetAccess(pool, &access, 1));
	OK(cuMemPoolImportPointer(&m, pool, &other.offer.in_pool));
	OK(fill_on_the_other_device(w, m));
	OK(cuMemFree(m));
	OK(cuMemPoolDestroy(pool));
	other_end(&other);
}

/* The stream's device needs access, whatever context is current. */
static CUresult fill_in_another_context(struct program *w, CUdeviceptr m, int of_stream, unsigned int misaligned)
{
	CUcontext other;
	CUstream stream;
	CUresult result;

	OK(cuDevicePrimaryCtxRetain(&other, 1));
	OK(cuCtxSetCurrent(of_stream ? other : w->ctx));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuCtxSetCurrent(of_stream ? w->ctx : other));
	result = WRONG(cuMemsetD32Async(m + misaligned, 1, 1, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuStreamDestroy(stream));
	OK(cuCtxSetCurrent(w->ctx));
	OK(cuDevicePrimaryCtxRelease(1));
	return result;
}

MISTAKE(pool_is_used_by_a_stream_without_access, "no-access")
{
	CUdeviceptr m;

	OK(cuMemAllocAsync(&m, BYTES, w->a));
	OK(cuStreamSynchronize(w->a));
	if (!fill_in_another_context(w, m, 1, 0))
		_exit(3);
	OK(cuMemFree(m));
}

TWIN(pool_is_used_while_a_context_without_access_is_current)
{
	CUdeviceptr m;

	OK(cuMemAllocAsync(&m, BYTES, w->a));
	OK(cuStreamSynchronize(w->a));
	OK(fill_in_another_context(w, m, 0, 0));
	/* This call is refused for another reason. */
	if (!fill_in_another_context(w, m, 0, 1))
		_exit(3);
	OK(cuMemFree(m));
}

/* A copy between contexts needs access of the contexts that it names. */
static void copy_peer_from(struct program *w, bool named)
{
	CUstream stream;
	CUcontext other;
	CUdeviceptr m;
	CUresult result;

	OK(cuMemAllocAsync(&m, BYTES, w->a));
	OK(cuStreamSynchronize(w->a));
	OK(cuDevicePrimaryCtxRetain(&other, 1));
	OK(cuCtxSetCurrent(named ? w->ctx : other));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	result = WRONG(cuMemcpyPeerAsync(w->p, w->ctx, m, named ? other : w->ctx, BYTES, stream));
	if (named != !!result)
		_exit(3);
	OK(cuStreamSynchronize(stream));
	OK(cuStreamDestroy(stream));
	OK(cuCtxSetCurrent(w->ctx));
	OK(cuDevicePrimaryCtxRelease(1));
	OK(cuMemFree(m));
}

MISTAKE(peer_copy_names_a_context_without_access, "no-access")
{
	copy_peer_from(w, true);
}

/* A call that is refused for another reason is no lack of access. */
TWIN(imported_pool_is_used_with_a_wrong_argument)
{
	struct other other;
	CUmemoryPool pool;
	CUdeviceptr m;

	other_start(&other);
	pool = pool_import(&other);
	OK(cuMemPoolImportPointer(&m, pool, &other.offer.in_pool));
	if (!cuMemsetD32Async(m + 1, 1, 1, w->a))
		_exit(3);
	OK(cuMemFree(m));
	OK(cuMemPoolDestroy(pool));
	other_end(&other);
}

/* ---- events: the program fills memory, the other process waits for that and answers, the program reads in stream b */

enum order {
	ORDERED, RECORDED_TOO_EARLY, NOT_WAITED_FOR,
};

static void ask_the_other(struct program *w, struct other *other, CUevent *theirs, enum order order)
{
	CUipcEventHandle handle;
	CUevent own;

	OK(cuEventCreate(&own, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
	if (order == RECORDED_TOO_EARLY)
		OK(cuEventRecord(own, w->a));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	if (order != RECORDED_TOO_EARLY)
		OK(cuEventRecord(own, w->a));
	OK(cuIpcGetEventHandle(&handle, own));
	OK(cuIpcOpenEventHandle(theirs, other->offer.event));
	OK(write(other->sock, &handle, sizeof(handle)) != sizeof(handle));
	OK(!hear(other->sock));
	if (order != NOT_WAITED_FOR)
		OK(cuStreamWaitEvent(w->b, *theirs, 0));
	OK(cuEventDestroy(own));
}

TWIN(event_of_another_process_is_waited_for)
{
	struct other other;
	CUevent theirs;

	other_start(&other);
	ask_the_other(w, &other, &theirs, ORDERED);
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
	OK(cuEventDestroy(theirs));
	other_end(&other);
}

static const char *const in_strict_mode[] = { "GPUMEM_CHECK=strict", NULL };

PROGRAM(event_of_another_process_is_waited_for_in_strict_mode, NULL, in_strict_mode)
{
	event_of_another_process_is_waited_for_body(w);
}

/* Without strict mode, the answer by the socket counts as order. */
PROGRAM(event_of_another_process_is_not_waited_for, "race", in_strict_mode)
{
	struct other other;
	CUevent theirs;

	other_start(&other);
	ask_the_other(w, &other, &theirs, NOT_WAITED_FOR);
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b)));
	OK(cuEventDestroy(theirs));
	other_end(&other);
}

MISTAKE(event_for_another_process_is_recorded_too_early, "race")
{
	struct other other;
	CUevent theirs;

	other_start(&other);
	ask_the_other(w, &other, &theirs, RECORDED_TOO_EARLY);
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b)));
	OK(cuEventDestroy(theirs));
	other_end(&other);
}

/* The host waits for the other process instead. */
TWIN(event_of_another_process_is_synchronized_with)
{
	struct other other;
	CUevent theirs;

	other_start(&other);
	ask_the_other(w, &other, &theirs, NOT_WAITED_FOR);
	OK(cuEventSynchronize(theirs));
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
	OK(cuEventDestroy(theirs));
	other_end(&other);
}

/* The record for the other process is behind a value that is written after the wait for the other process's event. */
static void record_behind_a_value(struct program *w, struct other *other, CUevent *theirs, CUdeviceptr word,
				  enum order order)
{
	OK(cuStreamWaitValue32(w->a, word, 7, CU_STREAM_WAIT_VALUE_EQ));
	ask_the_other(w, other, theirs, order);
}

TWIN(record_is_behind_a_value_of_a_stream)
{
	struct other other;
	CUevent theirs;

	other_start(&other);
	record_behind_a_value(w, &other, &theirs, w->q, ORDERED);
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
	OK(cuStreamWriteValue32(w->blocking, w->q, 7, 0));
	OK(cuStreamSynchronize(w->b));
	OK(cuEventDestroy(theirs));
	other_end(&other);
}

/* In strict mode, what the other process waited for counts only if the program then waits for the other process. */
PROGRAM(record_is_behind_a_value_of_a_stream_in_strict_mode, NULL, in_strict_mode)
{
	record_is_behind_a_value_of_a_stream_body(w);
}

/* The host writes the value. */
static void record_behind_a_value_of_the_host(struct program *w, enum order order)
{
	volatile unsigned int *word = (void *)(w->pinned + BYTES - 64);
	struct other other;
	CUevent theirs;

	*word = 0;
	other_start(&other);
	record_behind_a_value(w, &other, &theirs, (uintptr_t)word, order);
	if (order == NOT_WAITED_FOR) {
		*word = 7;
		OK(cuEventSynchronize(theirs));
	}
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, 64, w->b)));
	*word = 7;
	if (order == RECORDED_TOO_EARLY)
		OK(cuStreamSynchronize(w->a));
	OK(cuStreamSynchronize(w->b));
	OK(cuEventDestroy(theirs));
	other_end(&other);
}

TWIN(record_is_behind_a_value_of_the_host)
{
	record_behind_a_value_of_the_host(w, ORDERED);
}

MISTAKE(record_behind_a_value_is_too_early, "race")
{
	record_behind_a_value_of_the_host(w, RECORDED_TOO_EARLY);
}

/* The host waits for the other process's event. */
TWIN(record_behind_a_value_is_synchronized_with)
{
	record_behind_a_value_of_the_host(w, NOT_WAITED_FOR);
}

MISTAKE(opened_event_is_not_destroyed, "leak")
{
	struct other other;
	CUevent theirs;

	other_start(&other);
	OK(WRONG(cuIpcOpenEventHandle(&theirs, other.offer.event)));
	other_end(&other);
}

/* ---- semaphores: the program signals the first one, and waits for the second one, which the other process signals */

static void import_semaphores(struct other *other, CUexternalSemaphore *semaphores)
{
	CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC desc = { .flags = 0 };

	for (unsigned int i = 0; i < 2; i++) {
		desc.type = i ? CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD :
			CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD;
		desc.handle.fd = other->semaphores[i];
		OK(cuImportExternalSemaphore(&semaphores[i], &desc));
		other->semaphores[i] = -1;
	}
}

static void destroy_semaphores(const CUexternalSemaphore *semaphores)
{
	OK(cuCtxSynchronize());
	OK(cuDestroyExternalSemaphore(semaphores[0]));
	OK(cuDestroyExternalSemaphore(semaphores[1]));
}

TWIN(another_process_signals_after_the_program)
{
	CUexternalSemaphore semaphores[2];
	struct other other;

	other_start(&other);
	import_semaphores(&other, semaphores);
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	raise_one(semaphores[0], 1, w->a);
	await_one(semaphores[1], 0, w->b);
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
	destroy_semaphores(semaphores);
	other_end(&other);
}

/* The wait is submitted before the program's signal. */
TWIN(another_process_is_awaited_before_the_signal)
{
	CUexternalSemaphore semaphores[2];
	struct other other;

	other_start(&other);
	import_semaphores(&other, semaphores);
	await_one(semaphores[1], 0, w->b);
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	raise_one(semaphores[0], 1, w->a);
	destroy_semaphores(semaphores);
	other_end(&other);
}

MISTAKE(another_process_is_signalled_too_early, "race")
{
	CUexternalSemaphore semaphores[2];
	struct other other;

	other_start(&other);
	import_semaphores(&other, semaphores);
	await_one(semaphores[1], 0, w->b);
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b)));
	raise_one(semaphores[0], 1, w->a);
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	destroy_semaphores(semaphores);
	other_end(&other);
}

/*
 * Each wait is for the other process, and the host waits for the second stream only. The first stream has then done
 * what the other process was told.
 */
TWIN(another_process_is_awaited_twice)
{
	CUexternalSemaphore semaphores[2];
	struct other other;

	other_start(&other);
	import_semaphores(&other, semaphores);
	await_one(semaphores[1], 0, w->a);
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	raise_one(semaphores[0], 2, w->a);
	await_one(semaphores[1], 0, w->b);
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
	raise_one(semaphores[0], 1, w->blocking);
	OK(cuStreamSynchronize(w->b));
	destroy_semaphores(semaphores);
	other_end(&other);
}

/*
 * The wait for the other process is over, and an event for other processes is behind a value that no stream has written
 * yet. What is behind the value has not run.
 */
PROGRAM(event_for_another_process_is_not_recorded_yet, NULL, in_strict_mode)
{
	CUexternalSemaphore semaphores[2];
	CUipcEventHandle handle;
	struct other other;
	CUevent own;

	other_start(&other);
	import_semaphores(&other, semaphores);
	OK(cuEventCreate(&own, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
	OK(cuIpcGetEventHandle(&handle, own));
	OK(cuStreamWaitValue32(w->a, w->q, 7, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuEventRecord(own, w->a));
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->a));
	await_one(semaphores[1], 0, w->b);
	raise_one(semaphores[0], 1, w->blocking);
	OK(cuStreamSynchronize(w->b));
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->blocking));
	OK(cuStreamWriteValue32(w->blocking, w->q, 7, 0));
	destroy_semaphores(semaphores);
	OK(cuEventDestroy(own));
	other_end(&other);
}

/* The signal is behind a wait for a semaphore of the program. */
TWIN(wait_behind_two_signals)
{
	CUexternalSemaphore semaphores[2], own;
	struct other other;

	other_start(&other);
	import_semaphores(&other, semaphores);
	OK(gpumem_create_semaphore(&own, 0, GPUMEM_SEMAPHORE_TIMELINE));
	await_one(semaphores[1], 0, w->b);
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b));
	await_one(own, 1, w->a);
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	raise_one(semaphores[0], 1, w->a);
	OK(cuMemsetD8Async(w->p, 3, BYTES, w->blocking));
	raise_one(own, 1, w->blocking);
	OK(cuStreamSynchronize(w->b));
	destroy_semaphores(semaphores);
	OK(cuDestroyExternalSemaphore(own));
	other_end(&other);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "other"))
		return other_main();
	return test_harness_run(argc, argv);
}
