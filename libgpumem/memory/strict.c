// SPDX-License-Identifier: MIT
/*
 * Strict mode (GPUMEM_STRICT): the CPU does not reach device memory, as with a discrete card. Also the handler of
 * SIGSEGV, which a process with an exclusive device has, too.
 *
 * The other files make sure that dark memory (device memory in strict mode) is mapped for the devices only,
 * that no copy or fill of it is inline, and that staging memory stays mapped. This file zeroes memory by the
 * engine, and has the SIGSEGV handler that explains a program's mistake.
 *
 * The handler writes one line if the fault is an access to an address of the arena that is not mapped for the CPU, or
 * to managed memory that work may use (exec/attach.c). Then it does what would have happened without it. Only an
 * access to managed memory whose work is done is repeated. A handler that the program had installed before cuInit()
 * runs with its arguments, its signal mask and on its stack. Without a program's handler, the process dies of the
 * signal, with the same registers and siginfo in its core. The library's handler applies SA_RESETHAND itself: a
 * program's handler with this flag runs once. A handler that the program installs later replaces the library's. The
 * library does not install its own again, because it could not tell a handler that the program no longer wants from a
 * handler that it still wants. A handler of the program can call gpumem_describe().
 *
 * Everything that runs in the handler is async-signal-safe: lookups take no lock, and texts are put together by hand.
 * The program's handler may leave with siglongjmp(): the library's handler has nothing to give back then. What it
 * keeps, the last fault of each thread (attach.c), may be of any age.
 *
 * Locks: zero_lock for the queues that zero memory; held until the engine is done. The handler takes attach_lock
 * for managed memory beside an exclusive device. Threads that hold it have all signals blocked.
 *
 * Vocabulary: dark (address/address.h); previous, the action for SIGSEGV before cuInit().
 */
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/memory.h"

/* Constant once the handler is installed. */
static struct sigaction previous;
static uint32_t previous_ran;		/* @previous has SA_RESETHAND and has run; atomic */

/* ---- texts */

struct text {
	char *at;
	size_t size, length;		/* length counts what did not fit, too */
};

static void put_char(struct text *text, char c)
{
	if (text->length + 1 < text->size)
		text->at[text->length] = c;
	text->length++;
}

static void put_text(struct text *text, const char *s)
{
	while (*s)
		put_char(text, *s++);
}

static void put_number(struct text *text, uint64_t number, unsigned int base)
{
	char digits[20];
	unsigned int n = 0;

	do
		digits[n++] = "0123456789abcdef"[number % base];
	while (number /= base);
	if (base == 16)
		put_text(text, "0x");
	while (n)
		put_char(text, digits[--n]);
}

static void text_end(struct text *text)
{
	if (text->size)
		text->at[text->length < text->size ? text->length : text->size - 1] = '\0';
}

/* Where an address is. */
static void put_place(struct text *text, uint64_t addr, const struct span *span)
{
	put_number(text, addr, 16);
	if (!span) {
		put_text(text, " lies where device memory goes, but nothing is allocated there");
		return;
	}
	put_text(text, " is at offset ");
	put_number(text, addr - span->base, 10);
	put_text(text, span->flags & ALLOC_MAPPED ? " of the mapping at " :
		 span->flags & ALLOC_HOST ? " of the pinned host memory at " :
		 span->flags & ALLOC_DMABUF ? " of the imported DMA-buf at " :
		 span->flags & ALLOC_IMPORTED ? " of the opened memory handle at " :
		 " of the allocation at ");
	put_number(text, span->base, 16);
	put_text(text, " of ");
	put_number(text, span->size, 10);
	put_text(text, " bytes on device ");
	put_number(text, span->device, 10);
}

int strict_describe(const void *addr, char *buffer, size_t size)
{
	struct text text = { .at = buffer, .size = size };
	uint64_t at = (uintptr_t)addr;
	struct span span;

	if (vm_reserved(at))
		put_place(&text, at, vm_lookup_in_signal(at, &span) ? &span : NULL);
	text_end(&text);
	return text.length;
}

/* ---- the handler */

#define LINE	512			/* more than the longest */

static void print_text(const struct text *text)
{
	ssize_t written = write(STDERR_FILENO, text->at, min_u64(text->length, text->size));

	(void)written;
}

static void explain_fault(uint64_t addr)
{
	char line[LINE];
	struct text text = { .at = line, .size = sizeof(line) };
	struct span span;
	bool known = vm_lookup_in_signal(addr, &span);

	/* If the memory is mapped for the CPU, the program itself protected it. */
	if (known ? !span_dark(&span) : !client.strict)
		return;
	put_text(&text, known && span.flags & ALLOC_MAPPED && span.flags & ALLOC_HOST ?
		 "gpumem: cuMemSetAccess() gave the CPU no right to this access: " :
		 "gpumem: GPUMEM_STRICT=1 forbids the CPU to access device memory: ");
	put_place(&text, addr, known ? &span : NULL);
	put_text(&text, "\n");
	print_text(&text);
}

static void put_work(struct text *text, const struct attach_work *work)
{
	if (work->stream) {
		put_text(text, "stream ");
		put_number(text, (uintptr_t)work->stream, 16);
		put_text(text, " (id ");
		put_number(text, work->id, 10);
		put_text(text, ")");
	} else {
		put_text(text, "a destroyed stream");
	}
	put_text(text, " of device ");
	put_number(text, work->device, 10);
	put_text(text, " executes operation ");
	put_number(text, work->number, 10);
	put_text(text, " (");
	put_text(text, work->kind);
	if (work->length) {
		put_text(text, " to ");
		put_number(text, work->addr, 16);
		put_text(text, ", ");
		put_number(text, work->length, 10);
		put_text(text, " bytes");
	}
	put_text(text, ")");
}

/* The CPU accessed managed memory that work may use. @goes_on: the access is repeated, and does not fail. */
static void explain_attached(uint64_t addr, const struct attach_work *work, bool goes_on)
{
	char line[LINE];
	struct text text = { .at = line, .size = sizeof(line) };
	struct span span;

	put_text(&text, goes_on ? "gpumem-check: the CPU accessed managed memory while work may use it: " :
		 "gpumem: the CPU cannot access managed memory while work may use it: ");
	put_place(&text, addr, vm_lookup_in_signal(addr, &span) ? &span : NULL);
	put_text(&text, work ? work->single ? ", attached to one stream: " :
		 ", attached to all streams: " : ": the process forked meanwhile");
	if (work)
		put_work(&text, work);
	put_text(&text, "\n");
	print_text(&text);
}

/* True: the memory of the address is mapped now, and the access can be repeated. */
static bool resolve_fault(uint64_t addr)
{
	struct attach_work work;
	enum attach_fault found = client.exclusive ? attach_fault(addr, &work) : ATTACH_UNKNOWN;

	if (found == ATTACH_REPORTED && client.tap)
		client.tap->reported();
	if (found == ATTACH_DENIED || found == ATTACH_REPORTED)
		explain_attached(addr, &work, found == ATTACH_REPORTED);
	else if (found == ATTACH_FORKED)
		explain_attached(addr, NULL, false);
	else if (found == ATTACH_UNKNOWN)
		explain_fault(addr);
	return found == ATTACH_GRANTED || found == ATTACH_REPORTED;
}

/* Let the interrupted code fault again without a handler. */
static void die(siginfo_t *info)
{
	const struct sigaction none = { .sa_handler = SIG_DFL };
	pid_t pid = getpid(), tid = syscall(SYS_gettid);

	sigaction(SIGSEGV, &none, NULL);
	/*
	 * Raise the signal: not every SIGSEGV comes again by itself. A filter of system calls may
	 * forbid the first call.
	 */
	if (syscall(SYS_rt_tgsigqueueinfo, pid, tid, SIGSEGV, info))
		syscall(SYS_tgkill, pid, tid, SIGSEGV);
}

static void chain(int sig, siginfo_t *info, void *context)
{
	bool ran = previous.sa_flags & SA_RESETHAND &&
		__atomic_exchange_n(&previous_ran, 1, __ATOMIC_RELAXED);

	if (previous.sa_handler == SIG_DFL || ran) {
		die(info);
	} else if (previous.sa_handler == SIG_IGN) {
		/* A fault cannot be ignored. A signal that another process sent can. */
		if (info->si_code > 0)
			die(info);
	} else if (previous.sa_flags & SA_SIGINFO) {
		previous.sa_sigaction(sig, info, context);
	} else {
		previous.sa_handler(sig);
	}
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	bool resolved = false;
	int error = errno;

	if ((info->si_code == SEGV_ACCERR || info->si_code == SEGV_MAPERR) &&
	    vm_reserved((uintptr_t)info->si_addr))
		resolved = resolve_fault((uintptr_t)info->si_addr);
	errno = error;
	if (!resolved)
		chain(sig, info, context);
}

void strict_start(void)
{
	struct sigaction ours;

	if (sigaction(SIGSEGV, NULL, &previous))
		return;
	ours = previous;
	ours.sa_sigaction = on_fault;
	ours.sa_flags |= SA_SIGINFO;
	ours.sa_flags &= ~SA_RESETHAND;
	if (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN) {
		ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
		sigemptyset(&ours.sa_mask);
	}
	sigaction(SIGSEGV, &ours, NULL);
}

/* ---- zeroing */

/* zero_lock is held: it protects the devices' zeroing queues. */
static CUresult zero(CUdevice device, uint64_t addr, uint64_t length)
{
	struct queue *queue = queue_own(&client.device[device].zeroing, device);
	const struct gpumem_sqe sqe = {
		.op = GPUMEM_OP_FILL, .elem = 1, .dst = addr, .width = length, .height = 1,
	};
	CUresult result;

	if (!queue)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = ring_finish(queue, ring_put(queue, &sqe));
	if (!result)
		result = queue_wait(queue, load_relaxed(&queue->tail));
	return queue_failed(queue) ? CUDA_ERROR_UNKNOWN : result;
}

CUresult strict_zero(CUdevice device, uint64_t addr, uint64_t length)
{
	static struct lock zero_lock;
	CUresult result;

	lock_take(&zero_lock);
	result = zero(device, addr, length);
	lock_drop(&zero_lock);
	return result;
}
