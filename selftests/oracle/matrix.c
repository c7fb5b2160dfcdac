// SPDX-License-Identifier: GPL-2.0
/*
 * Print what each function answers when arguments are wrong.
 *
 *	matrix [FUNCTION...]
 *
 * The program makes the cases from the table of functions below. A function's arguments are words,
 * each of a kind that has one good value and several others. The program calls a function
 *
 *   - with each wrong value alone, and with each two wrong values of two arguments;
 *   - without a context, and before cuInit(): with good values, and with each wrong value alone;
 *   - with each extreme value of a number, each bit of a set of flags and each value of an enum,
 *     all other arguments being good.
 *
 * Each call prints a line for compare.py: "mtx.FUNCTION.CONDITIONS<TAB>result". If the call failed,
 * the line also says of each output whether the call left it alone (kept), zeroed it (zero) or
 * wrote it (set).
 *
 * A child process makes the calls, and stores the number of each call before it makes it. If the
 * child dies or hangs, the parent reports a crash for this call, and another child continues with
 * the next call. A child also ends after a call that broke the context.
 *
 * The program runs on any libcuda.so.1 that the loader finds, and needs one device. Locks: none.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "matrix.h"

#define PATIENCE	10		/* seconds for one call */

struct function {
	const char *name, *args;
	enum makes makes;
};

/*
 * Kinds of arguments. A word is one or two letters, and in some kinds a number N:
 *
 *   oN output of N bytes	d  device memory	e  device memory of another allocation
 *   df memory to be freed	da the same, allocated in the stream
 *   h  host memory		hp memory of cuMemHostAlloc()	hf the same, to be freed
 *   hr host memory that is not registered	m managed memory
 *   nN a number, good N	aN the same, for an allocation	uN the same, 32 bits
 *   kN a number that is always N
 *   xN an enum, good N		fN flags, good N		gN flags of 64 bits
 *   s  stream			sf the same, to be destroyed
 *   v  event			vf the same, to be destroyed	vt one that takes the time
 *   p  pool			pf the same, to be destroyed
 *   c  context			i  device
 *   r  array			rf the same, to be destroyed
 *   q  mipmapped array		qf the same, to be destroyed
 *   l  location		lv the same by value		w  description of access
 *   y  properties of a pool	t2 description of an array	t3 the same, three dimensions
 *   z2 copy of two dimensions	z3 three		zp between contexts
 *   b  memory operations	jf host function	jc callback
 *   pd array of one address	pe of another	ps of one size	px of one index	pl of one location
 *   pa of one attribute of copies	pn of one attribute of pointers	pm of one of ranges
 *   pv of one pointer to an output	3  batch of one copy of three dimensions
 *   Hm handle of this process's memory, by value	He handle of an event, by value
 */
static const struct function functions[] = {
	/* memory */
	{ "cuMemGetInfo_v2", "o8 o8", NOTHING },
	{ "cuMemAlloc_v2", "o8 a4096", MEMORY },
	{ "cuMemAllocPitch_v2", "o8 o8 a256 a16 u4", MEMORY },
	{ "cuMemFree_v2", "df", NOTHING },
	{ "cuMemGetAddressRange_v2", "o8 o8 d", NOTHING },
	{ "cuMemAllocHost_v2", "o8 a4096", HOST },
	{ "cuMemHostAlloc", "o8 a4096 f0", HOST },
	{ "cuMemFreeHost", "hf", NOTHING },
	{ "cuMemHostRegister_v2", "hr n4096 f0", REGISTERED },
	{ "cuMemHostUnregister", "hr", NOTHING },
	{ "cuMemHostGetDevicePointer_v2", "o8 hp f0", NOTHING },
	{ "cuMemHostGetFlags", "o4 hp", NOTHING },
	{ "cuMemAllocManaged", "o8 a4096 f1", MEMORY },
	{ "cuMemAdvise_v2", "m n4096 x1 lv", NOTHING },
	{ "cuMemPrefetchAsync_v2", "m n4096 lv f0 s", NOTHING },
	{ "cuMemRangeGetAttribute", "o4 n4 x1 m n4096", NOTHING },
	{ "cuMemRangeGetAttributes", "pv ps pm n1 m n4096", NOTHING },
	{ "cuStreamAttachMemAsync", "s m n0 f4", NOTHING },
	{ "cuMemcpy", "d e n4096", NOTHING },
	{ "cuMemcpyPeer", "d c e c n4096", NOTHING },
	{ "cuMemcpyDtoD_v2", "d e n4096", NOTHING },
	{ "cuMemcpyDtoH_v2", "h d n4096", NOTHING },
	{ "cuMemcpyHtoD_v2", "d h n4096", NOTHING },
	{ "cuMemcpyAtoA_v2", "r n0 r n0 n64", NOTHING },
	{ "cuMemcpyAtoD_v2", "d r n0 n64", NOTHING },
	{ "cuMemcpyAtoH_v2", "h r n0 n64", NOTHING },
	{ "cuMemcpyDtoA_v2", "r n0 d n64", NOTHING },
	{ "cuMemcpyHtoA_v2", "r n0 h n64", NOTHING },
	{ "cuMemcpy2D_v2", "z2", NOTHING },
	{ "cuMemcpy2DUnaligned_v2", "z2", NOTHING },
	{ "cuMemcpy3D_v2", "z3", NOTHING },
	{ "cuMemcpy3DPeer", "zp", NOTHING },
	{ "cuMemcpyAsync", "d e n4096 s", NOTHING },
	{ "cuMemcpyPeerAsync", "d c e c n4096 s", NOTHING },
	{ "cuMemcpyDtoDAsync_v2", "d e n4096 s", NOTHING },
	{ "cuMemcpyDtoHAsync_v2", "h d n4096 s", NOTHING },
	{ "cuMemcpyHtoDAsync_v2", "d h n4096 s", NOTHING },
	{ "cuMemcpyAtoHAsync_v2", "h r n0 n64 s", NOTHING },
	{ "cuMemcpyHtoAAsync_v2", "r n0 h n64 s", NOTHING },
	{ "cuMemcpy2DAsync_v2", "z2 s", NOTHING },
	{ "cuMemcpy3DAsync_v2", "z3 s", NOTHING },
	{ "cuMemcpy3DPeerAsync", "zp s", NOTHING },
	{ "cuMemcpyBatchAsync_v2", "pd pe ps n1 pa px n1 s", NOTHING },
	{ "cuMemPrefetchBatchAsync", "pd ps n1 pl px n1 g0 s", NOTHING },
	{ "cuMemcpy3DBatchAsync_v2", "n1 3 g0 s", NOTHING },
	{ "cuMemDiscardBatchAsync", "pd ps n1 g0 s", NOTHING },
	{ "cuMemDiscardAndPrefetchBatchAsync", "pd ps n1 pl px n1 g0 s", NOTHING },
	{ "cuMemsetD8_v2", "d k1 n4096", NOTHING },
	{ "cuMemsetD16_v2", "d k1 n2048", NOTHING },
	{ "cuMemsetD32_v2", "d k1 n1024", NOTHING },
	{ "cuMemsetD2D8_v2", "d n256 k1 n128 n4", NOTHING },
	{ "cuMemsetD2D16_v2", "d n256 k1 n64 n4", NOTHING },
	{ "cuMemsetD2D32_v2", "d n256 k1 n32 n4", NOTHING },
	{ "cuMemsetD8Async", "d k1 n4096 s", NOTHING },
	{ "cuMemsetD16Async", "d k1 n2048 s", NOTHING },
	{ "cuMemsetD32Async", "d k1 n1024 s", NOTHING },
	{ "cuMemsetD2D8Async", "d n256 k1 n128 n4 s", NOTHING },
	{ "cuMemsetD2D16Async", "d n256 k1 n64 n4 s", NOTHING },
	{ "cuMemsetD2D32Async", "d n256 k1 n32 n4 s", NOTHING },
	/* pools */
	{ "cuMemAllocAsync", "o8 a4096 s", ASYNC },
	{ "cuMemAllocFromPoolAsync", "o8 a4096 p s", ASYNC },
	{ "cuMemFreeAsync", "da s", NOTHING },
	{ "cuMemPoolCreate", "o8 y", POOL },
	{ "cuMemPoolDestroy", "pf", NOTHING },
	{ "cuMemPoolTrimTo", "p n0", NOTHING },
	{ "cuMemPoolGetAttribute", "p x4 o8", NOTHING },
	{ "cuMemPoolSetAttribute", "pf x4 h", NOTHING },
	{ "cuMemPoolGetAccess", "o4 p l", NOTHING },
	{ "cuMemPoolSetAccess", "pf w n1", NOTHING },
	{ "cuDeviceGetDefaultMemPool", "o8 i", NOTHING },
	{ "cuDeviceGetMemPool", "o8 i", NOTHING },
	{ "cuDeviceSetMemPool", "i pf", NOTHING },
	{ "cuMemGetDefaultMemPool", "o8 l x1", NOTHING },
	{ "cuMemGetMemPool", "o8 l x1", NOTHING },
	{ "cuMemSetMemPool", "l x1 pf", NOTHING },
	{ "cuMemPoolExportToShareableHandle", "o4 p x1 g0", NOTHING },
	{ "cuMemPoolImportFromShareableHandle", "o8 h x1 g0", POOL },
	{ "cuMemPoolExportPointer", "o64 da", NOTHING },
	{ "cuMemPoolImportPointer", "o8 p h", NOTHING },
	/* streams */
	{ "cuStreamCreate", "o8 f0", STREAM },
	{ "cuStreamCreateWithPriority", "o8 f0 u0", STREAM },
	{ "cuStreamDestroy_v2", "sf", NOTHING },
	{ "cuStreamQuery", "s", NOTHING },
	{ "cuStreamSynchronize", "s", NOTHING },
	{ "cuStreamWaitEvent", "s v f0", NOTHING },
	{ "cuStreamGetCtx", "s o8", NOTHING },
	{ "cuStreamGetCtx_v2", "s o8 o8", NOTHING },
	{ "cuStreamGetDevice", "s o4", NOTHING },
	{ "cuStreamGetFlags", "s o4", NOTHING },
	{ "cuStreamGetId", "s o8", NOTHING },
	{ "cuStreamGetPriority", "s o4", NOTHING },
	{ "cuStreamCopyAttributes", "sf s", NOTHING },
	{ "cuStreamGetAttribute", "s x3 o64", NOTHING },
	{ "cuStreamSetAttribute", "sf x3 h", NOTHING },
	{ "cuStreamAddCallback", "s jc k0 f0", NOTHING },
	{ "cuLaunchHostFunc", "s jf k0", NOTHING },
	{ "cuStreamWaitValue32_v2", "s d k0 f0", NOTHING },
	{ "cuStreamWaitValue64_v2", "s d k0 f0", NOTHING },
	{ "cuStreamWriteValue32_v2", "s d k0 f0", NOTHING },
	{ "cuStreamWriteValue64_v2", "s d k0 f0", NOTHING },
	{ "cuStreamBatchMemOp_v2", "s u1 b f0", NOTHING },
	{ "cuStreamIsCapturing", "s o4", NOTHING },
	{ "cuThreadExchangeStreamCaptureMode", "o4", NOTHING },
	/* events */
	{ "cuEventCreate", "o8 f0", EVENT },
	{ "cuEventDestroy_v2", "vf", NOTHING },
	{ "cuEventRecord", "v s", NOTHING },
	{ "cuEventRecordWithFlags", "v s f0", NOTHING },
	{ "cuEventQuery", "v", NOTHING },
	{ "cuEventSynchronize", "v", NOTHING },
	{ "cuEventElapsedTime_v2", "o4 vt vt", NOTHING },
	/* memory and events of other processes */
	{ "cuIpcGetMemHandle", "o64 d", NOTHING },
	{ "cuIpcOpenMemHandle_v2", "o8 Hm f1", OPENED },
	{ "cuIpcCloseMemHandle", "d", NOTHING },
	{ "cuIpcOpenEventHandle", "o8 He", EVENT },
	{ "cuIpcGetEventHandle", "o64 v", NOTHING },
	{ "cuMemGetHandleForAddressRange", "o4 d n4096 x1 g0", NOTHING },
	/* arrays */
	{ "cuArrayCreate_v2", "o8 t2", ARRAY },
	{ "cuArray3DCreate_v2", "o8 t3", ARRAY },
	{ "cuArrayDestroy", "rf", NOTHING },
	{ "cuArrayGetDescriptor_v2", "o24 r", NOTHING },
	{ "cuArray3DGetDescriptor_v2", "o40 r", NOTHING },
	{ "cuArrayGetMemoryRequirements", "o32 r i", NOTHING },
	{ "cuArrayGetPlane", "o8 r u0", NOTHING },
	{ "cuArrayGetSparseProperties", "o48 r", NOTHING },
	{ "cuMipmappedArrayCreate", "o8 t3 u1", MIPMAP },
	{ "cuMipmappedArrayDestroy", "qf", NOTHING },
	{ "cuMipmappedArrayGetLevel", "o8 q u0", NOTHING },
	{ "cuMipmappedArrayGetMemoryRequirements", "o32 q i", NOTHING },
	{ "cuMipmappedArrayGetSparseProperties", "o48 q", NOTHING },
	/* pointers */
	{ "cuPointerGetAttribute", "o8 x2 d", NOTHING },
	{ "cuPointerGetAttributes", "u1 pn pv d", NOTHING },
	{ "cuPointerSetAttribute", "h x6 d", NOTHING },
	/* contexts and devices: functions that programs need for memory */
	{ "cuCtxGetLimit", "o8 x2", NOTHING },
	{ "cuCtxGetDevice", "o4", NOTHING },
	{ "cuCtxGetId", "c o8", NOTHING },
	{ "cuCtxGetApiVersion", "c o4", NOTHING },
	{ "cuCtxGetFlags", "o4", NOTHING },
	{ "cuCtxGetStreamPriorityRange", "o4 o4", NOTHING },
	{ "cuCtxRecordEvent", "c v", NOTHING },
	{ "cuCtxWaitEvent", "c v", NOTHING },
	{ "cuDeviceGetAttribute", "o4 x1 i", NOTHING },
	{ "cuDeviceGetP2PAttribute", "o4 x1 i i", NOTHING },
	{ "cuDeviceCanAccessPeer", "o4 i i", NOTHING },
	{ "cuDeviceTotalMem_v2", "o8 i", NOTHING },
	{ "cuCtxEnablePeerAccess", "c f0", NOTHING },
	{ "cuCtxDisablePeerAccess", "c", NOTHING },
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Shared with the child: the number of its current call, and when the child began it. */
static struct {
	volatile unsigned int at;
	volatile time_t since;
} *progress;

/* ---- calls */

typedef CUresult (*any_function)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
				 uint64_t, uint64_t);

typedef CUresult (*by_value_function)(uint64_t, struct by_value, uint64_t);

struct call {
	const struct function *function;
	any_function address;
	char kind[ARGS][12];
	unsigned int args;
	struct others others[ARGS];
};

/* Remove the good value from @others. */
static void drop_value(struct others *others, uint64_t value)
{
	unsigned int i, kept = 0;

	for (i = 0; i < others->count; i++)
		if (others->of[i].value != value)
			others->of[kept++] = others->of[i];
	others->count = kept;
}

static bool call_begin(struct call *call, const struct function *function, void *library)
{
	const char *p = function->args;
	int taken;

	call->function = function;
	call->address = (any_function)(uintptr_t)dlsym(library, function->name);
	for (call->args = 0; sscanf(p, " %11s%n", call->kind[call->args], &taken) == 1; p += taken)
		call->args++;
	for (unsigned int n = 0; n < call->args; n++) {
		others_of(call->kind[n], &call->others[n]);
		if (strchr("naufgx", call->kind[n][0]))
			drop_value(&call->others[n], strtoll(call->kind[n] + 1, NULL, 10));
	}
	return call->address;
}

struct choice {
	int arg;			/* index of the argument; -1: no choice */
	const struct other *other;
};

/* Make one call and print its line. False: the context is broken, so this process must end. */
static bool call_make(const struct call *call, bool with_ctx, const struct choice *choice,
		      const char *name)
{
	uint64_t arg[ARGS] = { 0 }, made[ARGS];
	bool of_use = true;
	CUresult result;
	unsigned int n;

	outputs_reset();
	for (n = 0; n < call->args; n++) {
		const char *kind = call->kind[n];

		made[n] = good_value(kind, n);
		arg[n] = made[n];
		for (int i = 0; i < 2; i++)
			if (choice[i].arg == (int)n)
				arg[n] = other_value(kind, n, choice[i].other, made[n]);
		if (kind[0] == 'l' && kind[1] == 'v')
			memcpy(&arg[n], (void *)(uintptr_t)arg[n], sizeof(CUmemLocation));
	}
	if (initialized && !with_ctx)
		cuCtxSetCurrent(NULL);
	if (call->args > 1 && call->kind[1][0] == 'H')
		result = ((by_value_function)(void (*)(void))call->address)(
			arg[0], *(struct by_value *)(uintptr_t)arg[1], arg[2]);
	else
		result = call->address(arg[0], arg[1], arg[2], arg[3], arg[4], arg[5], arg[6],
				       arg[7]);
	if (initialized)
		cuCtxSetCurrent(context);
	printf("%s\trc=%d", name, result);
	for (n = 0; result && n < call->args; n++)
		if (call->kind[n][0] == 'o' && arg[n])
			printf(" %s", output_state(n, atoi(call->kind[n] + 1)));
	if (initialized) {
		CUresult then = cuCtxSynchronize();

		if (then) {
			printf(" then=%d", then);
			of_use = false;
		} else {
			if (!result)
				undo(call->function->makes, arg);
			for (n = 0; n < call->args; n++)
				stale(call->kind[n], made[n]);
			cuCtxSynchronize();
		}
	}
	printf("\n");
	fflush(stdout);
	return of_use;
}

/* ---- cases */

static unsigned int first, now;	/* cases before this process; number of the current case */

/* Run one case, or pass its name to @visit. Exits with 4 after a call that broke the context. */
static void run_case(const struct call *call, const char *state, bool with_ctx,
		     const struct choice *choice, void (*visit)(const char *name))
{
	char name[256];
	int length;

	length = snprintf(name, sizeof(name), "mtx.%s.%s", call->function->name, state);
	for (int i = 0; i < 2; i++)
		if (choice[i].arg >= 0)
			length += snprintf(name + length, sizeof(name) - length, "%s%d=%s",
					   name[length - 1] == '.' ? "" : ",", choice[i].arg,
					   choice[i].other->name);
	now++;
	if (visit) {
		visit(name);
		return;
	}
	if (now <= first)
		return;
	progress->since = time(NULL);
	progress->at = now;
	if (!call_make(call, with_ctx, choice, name))
		exit(4);
}

static void cases_in(const struct call *call, const char *state, bool with_ctx, bool extremes,
		     void (*visit)(const char *name))
{
	struct choice choice[2] = { { -1, NULL }, { -1, NULL } };
	unsigned int a, b, i, j;

	if (*state)
		run_case(call, state, with_ctx, choice, visit);
	for (a = 0; a < call->args; a++) {
		for (i = 0; i < call->others[a].count; i++) {
			choice[0] = (struct choice){ a, &call->others[a].of[i] };
			choice[1].arg = -1;
			if (!choice[0].other->wrong && !extremes)
				continue;
			run_case(call, state, with_ctx, choice, visit);
			if (!choice[0].other->wrong || *state)
				continue;
			for (b = a + 1; b < call->args; b++)
				for (j = 0; j < call->others[b].count; j++) {
					choice[1] = (struct choice){ b, &call->others[b].of[j] };
					if (choice[1].other->wrong)
						run_case(call, state, with_ctx, choice, visit);
				}
		}
	}
}

static bool wanted(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(name, argv[i]))
			return true;
	return argc < 2;
}

static void all_cases(void *library, int argc, char **argv, void (*visit)(const char *name))
{
	static struct call call;

	now = 0;
	for (unsigned int f = 0; f < COUNT(functions); f++) {
		if (!wanted(functions[f].name, argc, argv))
			continue;
		if (!call_begin(&call, &functions[f], library))
			continue;
		if (!initialized) {
			cases_in(&call, "noinit", false, false, visit);
			continue;
		}
		cases_in(&call, "", true, true, visit);
		cases_in(&call, "noctx", false, false, visit);
	}
}

static unsigned int looked_for, all;
static const char *found;

/* Print the line of the case in which a child ended. */
static void print_end(const char *name)
{
	if (now == looked_for)
		printf("%s\t%s\n", name, found);
}

static void count(const char *name)
{
	(void)name;
	all++;
}

/* Run all cases with or without cuInit(), in as many child processes as they take. */
static void pass(bool init, void *library, int argc, char **argv)
{
	first = 0;
	initialized = init;
	for (;;) {
		int status;
		pid_t pid;

		progress->at = first;
		progress->since = time(NULL);
		fflush(stdout);
		pid = fork();
		if (!pid) {
			if (init)
				prepare();
			all_cases(library, argc, argv, NULL);
			exit(0);
		}
		while (!waitpid(pid, &status, WNOHANG)) {
			if (time(NULL) - progress->since > PATIENCE)
				kill(pid, SIGKILL);
			usleep(1000);
		}
		if (WIFEXITED(status) && !WEXITSTATUS(status))
			return;
		if (WIFEXITED(status) && WEXITSTATUS(status) == 3 && progress->at == first)
			exit(3);
		/* 4: the child has printed the line of the case, which broke the context. */
		if (WIFSIGNALED(status) || WEXITSTATUS(status) != 4) {
			looked_for = progress->at;
			found = WIFSIGNALED(status) ? "crash" : "lost";
			all_cases(library, argc, argv, print_end);
		}
		if (progress->at == first && WIFSIGNALED(status))
			exit(3);
		first = progress->at;
	}
}

int main(int argc, char **argv)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library) {
		fprintf(stderr, "matrix: %s\n", dlerror());
		return 3;
	}
	progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	if (progress == MAP_FAILED)
		return 3;
	for (unsigned int f = 0; f < COUNT(functions); f++)
		if (wanted(functions[f].name, argc, argv) && !dlsym(library, functions[f].name))
			printf("mtx.%s.absent\tlost\n", functions[f].name);
	pass(false, library, argc, argv);
	all_cases(library, argc, argv, count);
	pass(true, library, argc, argv);
	all_cases(library, argc, argv, count);
	fprintf(stderr, "%u calls\n", all);
	return 0;
}
