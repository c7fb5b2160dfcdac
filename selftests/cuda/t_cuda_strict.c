// SPDX-License-Identifier: GPL-2.0
/*
 * Tests the library's strict mode (GPUMEM_STRICT): the CPU does not reach device memory.  A program
 * that tries dies as if the library had no handler, and a message on standard error says why.  The
 * program's own handling of SIGSEGV goes on working.  Everything else gives the same results.
 *
 * Cases that end a process or print run in a child that calls cuInit() itself; they check the
 * child's standard error and status.  modes.tsv runs many other t_cuda_* in strict mode, too.
 */
#include <pthread.h>
#include <setjmp.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "strict_util.h"

#include <gpumem.h>

#define RW	(PROT_READ | PROT_WRITE)
#define ANON	(MAP_PRIVATE | MAP_ANONYMOUS)

static int small_read(void)
{
	return begin(10000, 1234) || touch(false);
}

static int large_write(void)
{
	return begin(5 * MIB + 3, 5 * MIB + 2) || touch(true);
}

static int first_byte(void)
{
	return begin(1, 0) || touch(false);
}

static int freed(void)
{
	return begin(3 * MIB, 17) || cuMemFree(o->p) || touch(false);
}

static int forked(void)
{
	return begin(10000, 5) || fork() || touch(true);
}

static void *touch_thread(void *arg)
{
	touch(arg);
	return NULL;
}

static int in_thread(void)
{
	pthread_t thread;

	return begin(10000, 77) || pthread_create(&thread, NULL, touch_thread, NULL) ||
	       pthread_join(thread, NULL);
}

static void CUDA_CB touch_function(void *arg)
{
	touch(arg);
}

/* A thread of the library calls the function that touches the memory. */
static int in_function(void)
{
	return begin(10000, 78) || cuLaunchHostFunc(NULL, touch_function, NULL) ||
	       cuCtxSynchronize();
}

static int not_strict(void)
{
	setenv("GPUMEM_STRICT", "0", 1);
	if (begin(10000, 0))
		return 1;
	touch(true);
	return *cpu(o->at) != 1;
}

static int empty_is_strict(void)
{
	setenv("GPUMEM_STRICT", "", 1);
	return begin(10000, 9) || touch(true);
}

TEST(line)
{
	ASSERT_TRUE(run(small_read));
	EXPECT_TRUE(died());
	EXPECT_TRUE(told("allocation"));
	ASSERT_TRUE(run(large_write));
	EXPECT_TRUE(died());
	EXPECT_TRUE(told("allocation"));
	ASSERT_TRUE(run(first_byte));
	EXPECT_TRUE(died());
	EXPECT_TRUE(told("allocation"));
	ASSERT_TRUE(run(in_thread));
	EXPECT_TRUE(died());
	EXPECT_TRUE(told("allocation"));
	ASSERT_TRUE(run(in_function));
	EXPECT_TRUE(died());
	EXPECT_TRUE(told("allocation"));
	ASSERT_TRUE(run(empty_is_strict));
	EXPECT_TRUE(died());
	EXPECT_TRUE(told("allocation"));
	/* The child's own child touches the memory: run() gets its message, but not its status. */
	ASSERT_TRUE(run(forked));
	EXPECT_TRUE(told("allocation"));
	ASSERT_TRUE(run(freed));
	EXPECT_TRUE(died());
	EXPECT_TRUE(told_nothing_there());
	ASSERT_TRUE(run(not_strict));
	EXPECT_TRUE(exited());
	EXPECT_STREQ("", o->err);
}

/* --- mappings of cuMemMap() */

/* Map o->p, memory of a location, with rights for the first device and the host; touch a byte in it. */
static int mapped(CUmemLocation location, int of_device, int of_host, bool write)
{
	const CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = location };
	const CUmemAccessDesc rights[] = {
		{ { .type = CU_MEM_LOCATION_TYPE_DEVICE }, of_device },
		{ { .type = CU_MEM_LOCATION_TYPE_HOST }, of_host },
	};
	CUmemGenericAllocationHandle h;

	if (begin(100, 0) || cuMemCreate(&h, 4 * MIB, &prop, 0) || cuMemAddressReserve(&o->p, 8 * MIB, 0, 0, 0))
		return 1;
	/* The mapping is not the reservation's first piece. */
	o->p += 2 * MIB;
	o->size = 4 * MIB;
	o->at = o->p + 3 * MIB + 21;
	if (cuMemMap(o->p, o->size, 0, h, 0) || cuMemSetAccess(o->p, o->size, rights, of_host ? 2 : 1))
		return 1;
	return touch(write);
}

#define DEVICE(n)	((CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = n })
#define HOST		((CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST })
#define NODE		((CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST_NUMA })

enum { MAY_READ = CU_MEM_ACCESS_FLAGS_PROT_READ, MAY_WRITE = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

static int device_mapping(void)
{
	return mapped(DEVICE(0), MAY_WRITE, 0, false);
}

static int other_device_mapping(void)
{
	return mapped(DEVICE(1), MAY_WRITE, 0, true);
}

/* The device's rights in memory of the host are not the CPU's. */
static int host_mapping(void)
{
	return mapped(HOST, MAY_WRITE, 0, false);
}

static int node_mapping(void)
{
	return mapped(NODE, 0, 0, true);
}

static int host_mapping_written(void)
{
	return mapped(HOST, 0, MAY_READ, true);
}

static int host_mapping_with_right(void)
{
	return mapped(HOST, 0, MAY_WRITE, true) || mapped(NODE, 0, MAY_READ, false);
}

static int reservation(void)
{
	return begin(100, 0) || cuMemAddressReserve(&o->at, 4 * MIB, 0, 0, 0) || touch(false);
}

/* The rest of a reservation that memory is mapped in, and what was mapped. */
static int beside_mapping(void)
{
	return mapped(HOST, 0, MAY_WRITE, true) || (o->at = o->p + o->size, touch(false));
}

static int unmapped(void)
{
	return mapped(HOST, 0, MAY_WRITE, true) || cuMemUnmap(o->p, o->size) || touch(false);
}

/* The line names a mapping, and which right is missing. */
TEST(mappings)
{
	static const struct {
		int (*run)(void);
		const char *prefix;
		int device;
	} cases[] = {
		{ device_mapping, PREFIX, 0 },
		{ other_device_mapping, PREFIX, 1 },
		{ host_mapping, NO_RIGHT, 0 },
		{ node_mapping, NO_RIGHT, 0 },
		{ host_mapping_written, NO_RIGHT, 0 },
	};
	int (*const nothing_there[])(void) = { reservation, beside_mapping, unmapped };

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		ASSERT_TRUE(run(cases[i].run));
		EXPECT_TRUE(died());
		EXPECT_TRUE(told_as(cases[i].prefix, "mapping", cases[i].device)) {
			TH_LOG("case %u", i);
		}
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(nothing_there); i++) {
		ASSERT_TRUE(run(nothing_there[i]));
		EXPECT_TRUE(died());
		EXPECT_TRUE(told_nothing_there()) {
			TH_LOG("case %u: %s", i, o->err);
		}
	}
	ASSERT_TRUE(run(host_mapping_with_right));
	EXPECT_TRUE(exited());
	EXPECT_STREQ("", o->err);
}

/* --- faults that are not the library's */

static int null_pointer(void)
{
	return begin(100, 0) || (o->at = 8, touch(true));
}

static int own_mapping(void)
{
	void *p = mmap(NULL, 4096, PROT_NONE, ANON, -1, 0);

	return begin(100, 0) || (o->at = (uintptr_t)p, touch(false));
}

/* Pinned memory is mapped.  A program that protects it gets no message from the library. */
static int pinned_protected(void)
{
	void *p;

	if (begin(100, 0) || cuMemAllocHost(&p, 3 * MIB))
		return 1;
	memset(p, 1, 3 * MIB);
	o->at = (uintptr_t)p;
	return mprotect(p, 4096, PROT_NONE) || touch(false);
}

static int not_canonical(void)
{
	return begin(100, 0) || (o->at = 0xdead000000000000ULL, touch(false));
}

static int sent(void)
{
	return begin(100, 0) || kill(getpid(), SIGSEGV);
}

TEST(elsewhere)
{
	int (*const cases[])(void) = {
		null_pointer, own_mapping, pinned_protected, not_canonical, sent,
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		ASSERT_TRUE(run(cases[i]));
		EXPECT_TRUE(died());
		EXPECT_STREQ("", o->err) {
			TH_LOG("case %u", i);
		}
	}
}

/* --- the way a process dies */

static char core_dir[] = "/tmp/t_cuda_strict.XXXXXX";

static int with_core(int (*fn)(void))
{
	const struct rlimit limit = { 64 * MIB, 64 * MIB };

	return chdir(core_dir) || setrlimit(RLIMIT_CORE, &limit) || fn();
}

/* Whether cores are files in the directory where a process dies. */
static bool core_files(void)
{
	FILE *f = fopen("/proc/sys/kernel/core_pattern", "re");
	int c = f ? fgetc(f) : EOF;

	if (f)
		fclose(f);
	return c != EOF && c != '|' && c != '/' && c != '\n';
}

static bool remove_cores(void)
{
	DIR *dir = opendir(core_dir);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
	return !rmdir(core_dir);
}

static int plain_core(void)
{
	o->at = 8;
	return with_core(null_pointer);
}

static int strict_core(void)
{
	return with_core(small_read);
}

static int without_library(void)
{
	o->at = 8;
	return touch(true);
}

static int plain_core_without_library(void)
{
	return with_core(without_library);
}

TEST(core_status)
{
	int want;

	ASSERT_NE(NULL, mkdtemp(core_dir));
	ASSERT_TRUE(run(plain_core_without_library));
	want = o->status;
	EXPECT_TRUE(died());
	/* A kernel without ELF_CORE writes no core; the status is compared all the same. */
	if (core_files() && !WCOREDUMP(want))
		TH_LOG("no core of a process without the library either");
	ASSERT_TRUE(run(strict_core));
	EXPECT_EQ(want, o->status);
	ASSERT_TRUE(run(plain_core));
	EXPECT_EQ(want, o->status);
	EXPECT_TRUE(remove_cores());
}

/* --- handlers of the program's own */

static sigjmp_buf back;
static char *stack;
static const size_t stack_size = 256 * KIB;

static void note(siginfo_t *info)
{
	sigset_t mask;
	char here;

	o->calls++;
	o->on_stack = &here >= stack && &here < stack + stack_size;
	sigprocmask(SIG_BLOCK, NULL, &mask);
	o->segv_blocked = sigismember(&mask, SIGSEGV);
	o->usr_blocked = sigismember(&mask, SIGUSR1);
	o->addr = info ? info->si_addr : NULL;
	o->code = info ? info->si_code : 0;
	gpumem_describe(cpu(o->at), o->text, sizeof(o->text));
}

static void handler(int sig)
{
	note(NULL);
	siglongjmp(back, sig);
}

static void info_handler(int sig, siginfo_t *info, void *context)
{
	(void)context;
	note(info);
	siglongjmp(back, sig);
}

static int handler_flags;
static bool handler_late, handler_by_signal;

static int install(void)
{
	struct sigaction action = { .sa_flags = handler_flags };
	const stack_t alternate = { .ss_sp = stack, .ss_size = stack_size };

	if (handler_by_signal)
		return signal(SIGSEGV, handler) == SIG_ERR;
	if (sigaltstack(&alternate, NULL))
		return 1;
	sigaddset(&action.sa_mask, SIGUSR1);
	if (handler_flags & SA_SIGINFO)
		action.sa_sigaction = info_handler;
	else
		action.sa_handler = handler;
	return sigaction(SIGSEGV, &action, NULL);
}

/* Touch device memory twice; the handler jumps back out of each access. */
static int handled(void)
{
	volatile int round = 0;

	stack = malloc(stack_size);
	if (!handler_late && install())
		return 1;
	if (begin(10000, 1234))
		return 1;
	if (handler_late && install())
		return 1;
	sigsetjmp(back, 1);
	if (round++ < 2)
		touch(round == 1);
	return 0;
}

TEST(handlers)
{
	static const int flags[] = {
		0, SA_SIGINFO, SA_ONSTACK, SA_SIGINFO | SA_ONSTACK, SA_NODEFER,
		SA_SIGINFO | SA_RESETHAND, SA_RESETHAND, SA_SIGINFO | SA_ONSTACK | SA_RESTART,
	};
	char line[400];

	for (unsigned int i = 0; i < 2 * ARRAY_SIZE(flags); i++) {
		bool once = flags[i / 2] & SA_RESETHAND;

		handler_late = i & 1;
		handler_flags = flags[i / 2];
		ASSERT_TRUE(run(handled));
		EXPECT_EQ(once, died());
		EXPECT_EQ(!once, exited());
		EXPECT_EQ(once ? 1 : 2, o->calls);
		EXPECT_EQ(!!(handler_flags & SA_ONSTACK), o->on_stack);
		EXPECT_EQ(!(handler_flags & SA_NODEFER), o->segv_blocked);
		EXPECT_TRUE(o->usr_blocked);
		if (handler_flags & SA_SIGINFO) {
			EXPECT_EQ(cpu(o->at), o->addr);
			EXPECT_EQ(SEGV_ACCERR, o->code);
		}
		snprintf(line, sizeof(line), PREFIX "%s\n", o->text);
		EXPECT_NE(NULL, strstr(o->text, " is at offset 1234 of the allocation at "));
		if (handler_late) {
			/* The program's handler replaced the library's, which prints the line. */
			EXPECT_STREQ("", o->err);
		} else {
			/* A line for each access. */
			EXPECT_EQ(2 * strlen(line), strlen(o->err));
			EXPECT_EQ(0, strncmp(o->err, line, strlen(line)));
			EXPECT_STREQ(line, o->err + strlen(line));
		}
	}
	handler_by_signal = true;
	for (int late = 0; late < 2; late++) {
		handler_late = late;
		ASSERT_TRUE(run(handled));
		EXPECT_TRUE(exited());
		EXPECT_EQ(2, o->calls);
		EXPECT_EQ(late, !*o->err);
	}
}

static int late_and_chained(void)
{
	struct sigaction first, second;

	if (begin(10000, 1) || sigaction(SIGSEGV, NULL, &first))
		return 1;
	/* A program may restore the handler that it found, and call it. */
	handler_flags = SA_SIGINFO;
	stack = malloc(stack_size);
	if (install() || sigaction(SIGSEGV, &first, &second) ||
	    second.sa_sigaction != info_handler)
		return 1;
	return touch(true);
}

static int ignored(void)
{
	if (signal(SIGSEGV, SIG_IGN) == SIG_ERR || begin(10000, 1))
		return 1;
	/* A signal that a process sends is ignored; a fault cannot be. */
	kill(getpid(), SIGSEGV);
	raise(SIGSEGV);
	o->calls = 77;
	return touch(true);
}

static char *page;

static void repair(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	o->calls++;
	o->code = info->si_code;
	if (info->si_code > 0)
		mprotect(page, 4096, RW);
}

/* Some programs use faults: a handler that repairs the mapping lets its program go on. */
static int repaired(void)
{
	const struct sigaction action = { .sa_sigaction = repair, .sa_flags = SA_SIGINFO };

	page = mmap(NULL, 4096, PROT_NONE, ANON, -1, 0);
	if (sigaction(SIGSEGV, &action, NULL) || begin(10000, 1))
		return 1;
	errno = 1234;
	*(volatile char *)page = 5;
	if (errno != 1234 || o->calls != 1 || o->code != SEGV_ACCERR)
		return 1;
	kill(getpid(), SIGSEGV);
	return o->calls != 2 || o->code != SI_USER || page[0] != 5;
}

static void CUDA_CB touch_page(void *arg)
{
	*(volatile char *)arg = 5;
}

/* The same in a thread of the library, without strict mode: the library has no handler here. */
static int repaired_in_function(void)
{
	const struct sigaction action = { .sa_sigaction = repair, .sa_flags = SA_SIGINFO };

	setenv("GPUMEM_STRICT", "0", 1);
	page = mmap(NULL, 4096, PROT_NONE, ANON, -1, 0);
	return begin(10000, 1) || sigaction(SIGSEGV, &action, NULL) ||
	       cuLaunchHostFunc(NULL, touch_page, page) || cuCtxSynchronize() ||
	       o->calls != 1 || page[0] != 5;
}

TEST(other_actions)
{
	ASSERT_TRUE(run(late_and_chained));
	EXPECT_TRUE(died());
	EXPECT_EQ(0, o->calls);
	EXPECT_TRUE(told("allocation"));
	ASSERT_TRUE(run(ignored));
	EXPECT_TRUE(died());
	EXPECT_EQ(77, o->calls);
	EXPECT_TRUE(told("allocation"));
	ASSERT_TRUE(run(repaired));
	EXPECT_TRUE(exited());
	EXPECT_STREQ("", o->err);
	ASSERT_TRUE(run(repaired_in_function));
	EXPECT_TRUE(exited());
	EXPECT_STREQ("", o->err);
}

/* --- memory of another process */

static CUipcMemHandle handle;

static int opened(void)
{
	CUcontext ctx;

	if (cuda_start(&ctx) ||
	    cuIpcOpenMemHandle(&o->p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS))
		return 1;
	o->size = 100000;
	o->at = o->p + 99999;
	if (!sees(o->p, 0x5b, o->size))
		return 2;
	return touch(false);
}

TEST(opened_handle)
{
	struct peer_message m = { .op = PEER_ALLOC, .bytes = 100000 };
	struct peer peer;

	ASSERT_EQ(0, peer_start(&peer, NULL));
	ASSERT_CU(peer_call(&peer, &m));
	ASSERT_CU(peer_put(&peer, PEER_FILL, m.ptr, 100000, 0x5b));
	m.op = PEER_GET;
	ASSERT_CU(peer_call(&peer, &m));
	handle = m.handle;
	ASSERT_TRUE(run(opened));
	EXPECT_TRUE(died());
	EXPECT_TRUE(told("opened memory handle"));
	EXPECT_EQ(0, peer_end(&peer));
	EXPECT_TRUE(dev_quiet(10));
}

/* --- in the process itself */

FIXTURE(strict)
{
	CUcontext ctx;
	CUdeviceptr p;
	size_t size;
};

FIXTURE_SETUP(strict)
{
	ASSERT_TRUE(dev_quiet(10));
	ASSERT_EQ(0, setenv("GPUMEM_STRICT", "1", 1));
	ASSERT_CU(cuda_start(&self->ctx));
	self->size = 3 * MIB + 5;
	ASSERT_CU(cuMemAlloc(&self->p, self->size));
}

QUIET_AFTERWARDS(strict)

static bool device_file(const char *name)
{
	return !strncmp(name, "/dev/gpumem", 11) || !strncmp(name, "/gpumem", 7);
}

/*
 * Read the mappings of the process: @perms gets the permissions at @addr.  Returns the bytes that
 * map objects of the module, of any kind.
 */
static size_t maps(CUdeviceptr addr, char *perms)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long from, to;
	char line[512], flags[8];
	size_t bytes = 0;
	int at;

	perms[0] = 0;
	while (f && fgets(line, sizeof(line), f)) {
		at = 0;
		if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %n", &from, &to, flags, &at) != 3 || !at)
			continue;
		if (addr >= from && addr < to)
			strcpy(perms, flags);
		if (device_file(line + at))
			bytes += to - from;
	}
	if (f)
		fclose(f);
	return bytes;
}

TEST_F(strict, maps)
{
	CUdeviceptr p[4], small;
	char perms[8];
	size_t before;
	void *pinned;

	/* Staging memory is mapped; after a queued copy rings are, too. */
	EXPECT_TRUE(sees(self->p, 0, self->size));
	before = maps(self->p, perms);
	EXPECT_STREQ("---p", perms);
	EXPECT_LE(2 * MIB, before);
	EXPECT_GT(5 * MIB, before);
	/* More device memory does not add to what is mapped. */
	for (unsigned int i = 0; i < ARRAY_SIZE(p); i++) {
		ASSERT_CU(cuMemAlloc(&p[i], 16 * MIB));
		EXPECT_TRUE(sees(p[i], 0, 3 * MIB));
		EXPECT_EQ(before, maps(p[i] + 9 * MIB, perms));
		EXPECT_STREQ("---p", perms);
	}
	ASSERT_CU(cuMemAlloc(&small, 5000));
	EXPECT_EQ(before, maps(small, perms));
	EXPECT_STREQ("---p", perms);
	ASSERT_CU(cuMemAllocHost(&pinned, 4 * MIB));
	EXPECT_EQ(before + 4 * MIB, maps((uintptr_t)pinned, perms));
	EXPECT_STREQ("rw-s", perms);
	memset(pinned, 1, 4 * MIB);
	for (unsigned int i = 0; i < ARRAY_SIZE(p); i++) {
		EXPECT_CU(cuMemFree(p[i]));
	}
	EXPECT_EQ(before + 4 * MIB, maps(p[0], perms));
	EXPECT_STREQ("---p", perms);
}

TEST_F(strict, system_calls)
{
	char buffer[64] = "something";
	int pipes[2], null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	struct iovec iov = { cpu(self->p), 64 };

	ASSERT_LE(0, null);
	ASSERT_EQ(0, pipe2(pipes, O_CLOEXEC | O_NONBLOCK));
	EXPECT_EQ(-1, write(pipes[1], cpu(self->p), 64));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-1, writev(pipes[1], &iov, 1));
	EXPECT_EQ(EFAULT, errno);
	ASSERT_EQ(64, write(pipes[1], buffer, 64));
	EXPECT_EQ(-1, read(pipes[0], cpu(self->p), 64));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_TRUE(sees(self->p, 0, 64));
	EXPECT_EQ(-1, read(pipes[0], cpu(self->p + 1), 1));
	EXPECT_EQ(EFAULT, errno);
}

/* Pointer attributes are those of the real device, whatever the mode. */
TEST_F(strict, attributes)
{
	CUdeviceptr p = 1;
	unsigned int mapped = 0;

	EXPECT_EQ(INVALID, cuPointerGetAttribute(&p, CU_POINTER_ATTRIBUTE_HOST_POINTER, self->p));
	EXPECT_EQ(0, p);
	EXPECT_CU(cuPointerGetAttribute(&p, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, self->p + 1));
	EXPECT_EQ(self->p + 1, p);
	EXPECT_CU(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, self->p));
	EXPECT_EQ(1, mapped);
}

TEST_F(strict, describe)
{
	char text[256], want[256], cut[20];
	void *pinned;
	int length;

	snprintf(want, sizeof(want), "0x%llx is at offset 5 of the allocation at 0x%llx of %zu "
		 "bytes on device 0", self->p + 5, self->p, self->size);
	length = strlen(want);
	EXPECT_EQ(length, gpumem_describe(cpu(self->p + 5), text, sizeof(text)));
	EXPECT_STREQ(want, text);
	EXPECT_EQ(length, gpumem_describe(cpu(self->p + 5), cut, sizeof(cut)));
	EXPECT_EQ(sizeof(cut) - 1, strlen(cut));
	EXPECT_EQ(0, strncmp(want, cut, sizeof(cut) - 1));
	EXPECT_EQ(length, gpumem_describe(cpu(self->p + 5), NULL, 0));
	EXPECT_EQ(0, gpumem_describe(text, text, sizeof(text)));
	EXPECT_STREQ("", text);
	EXPECT_EQ(0, gpumem_describe(NULL, text, sizeof(text)));
	ASSERT_CU(cuMemAllocHost(&pinned, 100));
	EXPECT_LT(0, gpumem_describe(pinned, text, sizeof(text)));
	EXPECT_NE(NULL, strstr(text, "offset 0 of the pinned host memory at"));
	EXPECT_LT(0, gpumem_describe(cpu(self->p + self->size), text, sizeof(text)));
	EXPECT_NE(NULL, strstr(text, "nothing is allocated there"));
}

/* The program has all of the device's memory: copies work without more of it. */
TEST_F(strict, full_device)
{
	enum { N = 3 * MIB };
	CUdeviceptr small, fill;
	unsigned char *host = malloc(N), *out = malloc(N);
	CUstream stream;

	ASSERT_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (size_t size = 64 * MIB; size >= 2 * MIB; size /= 2)
		while (!cuMemAlloc(&fill, size))
			;
	EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&small, 2 * MIB));
	for (size_t i = 0; i < N; i++)
		host[i] = i * 2654435761ULL >> 13;
	EXPECT_CU(cuMemcpyHtoD(self->p, host, N));
	EXPECT_CU(cuMemcpyDtoH(out, self->p, N));
	EXPECT_EQ(0, memcmp(host, out, N));
	/* Overlapping, in both directions. */
	EXPECT_CU(cuMemcpyDtoDAsync(self->p + 5, self->p, N, stream));
	EXPECT_CU(cuMemcpyDtoHAsync(out, self->p + 5, N, stream));
	EXPECT_EQ(0, memcmp(host, out, N));
	EXPECT_CU(cuMemcpyDtoDAsync(self->p + 2, self->p + 5, N, stream));
	EXPECT_CU(cuMemcpyDtoHAsync(out, self->p + 2, N, stream));
	EXPECT_EQ(0, memcmp(host, out, N));
	/* With a device address as the host argument; by cuMemcpy() to pageable memory. */
	EXPECT_CU(cuMemcpyHtoD(self->p, cpu(self->p + 2), N));
	EXPECT_CU(cuMemcpy((uintptr_t)out, self->p, N));
	EXPECT_EQ(0, memcmp(host, out, N));
	free(host);
	free(out);
}

/* The next owner does not see old bytes: neither by a copy nor after work in a stream. */
TEST_F(strict, recycled)
{
	enum { N = 64 };
	CUdeviceptr p[N], old[N] = { 0 }, keep;
	unsigned char *out = malloc(100000);

	ASSERT_CU(cuMemAlloc(&keep, 512));
	for (unsigned int round = 0; round < 6; round++) {
		unsigned int again = 0;

		for (unsigned int i = 0; i < N; i++) {
			size_t n = 1 + (i * 7919 + round * 104729) % 20000;

			ASSERT_CU(cuMemAlloc(&p[i], n));
			ASSERT_CU(cuMemcpyDtoH(out, p[i], n));
			ASSERT_TRUE(all_are(out, 0, n));
			ASSERT_CU(cuMemsetD8Async(p[i], 0xee, n, CU_STREAM_PER_THREAD));
			for (unsigned int k = 0; round && k < N; k++)
				again += old[k] == p[i];
		}
		memcpy(old, p, sizeof(old));
		for (unsigned int i = 0; i < N; i++) {
			ASSERT_CU(cuMemFree(p[(i * 5 + round) % N]));
		}
		/* @keep kept the block alive, so that its units are reused. */
		ASSERT_TRUE(sees(keep, 0, 512));
		if (round) {
			EXPECT_LT(0, again);
		}
	}
	free(out);
}

/* The caller does not execute work on device memory; it may copy memory that the host reaches. */
TEST_F(strict, engine_does_it)
{
	struct meter before, after;
	void *a, *b;

	ASSERT_CU(cuMemAllocHost(&a, 5000));
	ASSERT_CU(cuMemAllocHost(&b, 5000));
	ASSERT_EQ(0, meter_read(&before));
	EXPECT_CU(cuMemsetD8(self->p, 3, 100));
	EXPECT_CU(cuMemcpyDtoD(self->p + 1000, self->p, 100));
	EXPECT_CU(cuMemcpyDtoH(a, self->p + 1000, 100));
	EXPECT_CU(cuMemcpyHtoD(self->p + 2000, a, 100));
	EXPECT_CU(cuMemcpy((uintptr_t)b, self->p + 2000, 100));
	EXPECT_CU(cuCtxSynchronize());
	ASSERT_EQ(0, meter_read(&after));
	EXPECT_EQ(5, after.jobs - before.jobs);
	EXPECT_EQ(400, after.copied - before.copied);
	EXPECT_EQ(100, after.filled - before.filled);
	EXPECT_TRUE(all_are(b, 3, 100));
	memset(a, 9, 5000);
	EXPECT_CU(cuMemcpy((uintptr_t)b, (uintptr_t)a, 5000));
	EXPECT_TRUE(all_are(b, 9, 5000));
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], PEER_WORD))
		return peer_main();
	return test_harness_run(argc, argv);
}
