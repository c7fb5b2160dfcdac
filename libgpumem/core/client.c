// SPDX-License-Identifier: MIT
/*
 * The client: the process's one connection with the kernel module.
 *
 * Owns the open file, the address space object in it, the list of visible devices, and the page by
 * which a forked child is recognised. Everything is made by the first successful cuInit() and stays
 * until the process ends; the kernel takes it all back then. A failed cuInit() leaves nothing open
 * and may be tried again.
 *
 * Invariants: client.alive points at a word that is not zero only in the process that called
 * cuInit(): the word lies in a page that fork() replaces by zeroes. Everything else in struct
 * client is written before that word and constant from then on. A forked child must not take any
 * lock of the library, because a thread that does not exist there may hold it; every public
 * function tests the word first.
 *
 * Locks: init_lock for cuInit().
 *
 * Vocabulary: candidate, a device node that can be opened and speaks our ABI; visible, a candidate
 * that CUDA_VISIBLE_DEVICES selects; reason, one line that tells a person why there is no device.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/core.h"

#define DOZE_NS		20000
#define QUARANTINE_MIB	64u

static const uint32_t never_alive;
static uint32_t never_waits;
static uint32_t never_later;
struct client client = {
	.alive = &never_alive, .quick = &never_alive, .only_waits = &never_waits, .later = &never_later, .fd = -1,
};

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static char reason[DEBUG_REASON];	/* of the cuInit() under way; init_lock */

void lock_slow(struct lock *lock)
{
	int i;

	for (i = 0; i < 100; i++) {
		uint32_t free = 0;

		if (!load_relaxed(&lock->word) &&
		    __atomic_compare_exchange_n(&lock->word, &free, 1, false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return;
	}
	while (__atomic_exchange_n(&lock->word, 2, __ATOMIC_ACQUIRE))
		syscall(SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

void lock_doze(void)
{
	static uint32_t never;
	const struct timespec moment = { .tv_nsec = DOZE_NS };

	syscall(SYS_futex, &never, FUTEX_WAIT_PRIVATE, 0, &moment, NULL, 0);
}

void word_await(uint32_t *word, uint32_t seen)
{
	while (load_acquire(word) == seen)
		syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

void word_change(uint32_t *word, bool any)
{
	store_release(word, *word + 1);
	if (any)
		syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void lock_wake(struct lock *lock)
{
	syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/*
 * EFAULT means that there is no memory: @arg is the library's own, and the kernel could not bring its page in.
 * client_ioctl() tries such a call once more, because a caller that destroys an object cannot report the error.
 */
int client_ioctl(unsigned long request, void *arg)
{
	bool again = true;

	int error = 0;

	while (ioctl(client.fd, request, arg) < 0) {
		error = errno;
		if (error == EFAULT && again)
			again = false;
		else if (error != EINTR)
			break;
		error = 0;
	}
	if (unlikely(error && client.debug))
		debug_ioctl(request, error);
	return error;
}

void client_destroy_id(uint32_t id)
{
	struct gpumem_destroy destroy = { .size = sizeof(destroy), .id = id };

	client_ioctl(GPUMEM_DESTROY, &destroy);
}

/* From linux/mman.h, for C libraries that do not have it yet. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE	23
#endif

int pages_populate(uint64_t addr, uint64_t length)
{
	uint64_t first = addr / PAGE * PAGE;
	int error;

	do
		error = madvise((void *)(uintptr_t)first, addr + length - first, MADV_POPULATE_WRITE) ? errno : 0;
	while (unlikely(error == EINTR));
	return error == EINVAL || error == ENOSYS || error == EPERM ? 0 : error;
}

CUresult client_free_bytes(unsigned int device, uint64_t *free_bytes)
{
	struct gpumem_info info = { .size = sizeof(info), .device = client.device[device].index };
	int error = client_ioctl(GPUMEM_INFO, &info);

	if (error)
		return result_of_errno(error);
	/* The kernel gives cached memory to any allocation. */
	info.used -= min_u64(info.cached, info.used);
	info.total = fault_memory(device, info.total);
	*free_bytes = info.total > info.used ? info.total - info.used : 0;
	return CUDA_SUCCESS;
}

uint64_t client_excess(unsigned int device)
{
	struct gpumem_info info = { .size = sizeof(info), .device = client.device[device].index };

	return client_ioctl(GPUMEM_INFO, &info) ? 0 : info.excess;
}

CUresult result_of_errno(int error)
{
	switch (error) {
	case 0:
		return CUDA_SUCCESS;
	case ENOSPC:
	case ENOMEM:
	case EDQUOT:
	case EMFILE:
	case ENFILE:
	case EAGAIN:
	case EBUSY:
	case EFAULT:
		return CUDA_ERROR_OUT_OF_MEMORY;
	case EPERM:
	case ENODEV:
		return CUDA_ERROR_NOT_INITIALIZED;
	case EINVAL:
	case EOVERFLOW:
	case ENOENT:
	case EEXIST:
		return CUDA_ERROR_INVALID_VALUE;
	case EACCES:
		return CUDA_ERROR_NOT_PERMITTED;
	case EOPNOTSUPP:
	case ENOTTY:
	case E2BIG:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_UNKNOWN;
	}
}

static void explain_init(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Set the reason, if there is none yet: the first one is about the lowest device. */
static void explain_init(const char *format, ...)
{
	va_list args;

	if (reason[0])
		return;
	va_start(args, format);
	vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
}

/* ---- finding devices */

struct candidate {
	int fd;
	struct gpumem_info info;
};

static int compare_numbers(const void *a, const void *b)
{
	unsigned int x = *(const unsigned int *)a, y = *(const unsigned int *)b;

	return (x > y) - (x < y);
}

/*
 * A node that cannot be opened counts as absent, unless memory or descriptors ran out: a program must
 * not continue with fewer devices for that reason.
 */
static CUresult no_node(int error)
{
	CUresult result = result_of_errno(error);

	return result == CUDA_ERROR_OUT_OF_MEMORY ? result : CUDA_SUCCESS;
}

/* The N of all nodes /dev/gpumemN, rising. */
static CUresult list_nodes(unsigned int *ordinals, unsigned int max, unsigned int *nodes)
{
	DIR *dir = opendir("/dev");
	struct dirent *entry;
	unsigned int count = 0;
	CUresult result = CUDA_SUCCESS;

	*nodes = 0;
	if (!dir)
		return no_node(errno);
	while (count < max) {
		char *end;
		unsigned long n;

		errno = 0;
		entry = readdir(dir);
		if (!entry) {
			result = no_node(errno);
			break;
		}
		if (strncmp(entry->d_name, "gpumem", 6) || entry->d_name[6] < '0' ||
		    entry->d_name[6] > '9')
			continue;
		n = strtoul(entry->d_name + 6, &end, 10);
		if (!*end && n < 1u << 20)
			ordinals[count++] = n;
	}
	closedir(dir);
	if (result)
		explain_init("gpumem: /dev: out of memory");
	qsort(ordinals, count, sizeof(*ordinals), compare_numbers);
	*nodes = count;
	return result;
}

int fd_raise(int fd)
{
	int high = fd, saved, cancel;

	if (fd >= 0 && fd < 3) {
		high = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		saved = errno;
		cancel = cancel_disable();
		close(fd);
		cancel_restore(cancel);
		errno = saved;
	}
	return high;
}

/* Add the node to the candidates, if it can be opened. */
static CUresult open_candidate(unsigned int ordinal, struct candidate *candidate,
			       unsigned int *count)
{
	char path[32];
	int fd, error;

	snprintf(path, sizeof(path), "/dev/gpumem%u", ordinal);
	fd = fd_raise(open(path, O_RDWR | O_CLOEXEC));
	if (fd < 0) {
		error = errno;
		if (error == EACCES || error == EPERM)
			explain_init("gpumem: %s: permission denied: add yourself to group render",
				     path);
		else if (error == ENXIO || error == ENODEV)
			explain_init("gpumem: %s: no module: modprobe gpumem", path);
		else
			explain_init("gpumem: %s: %s", path, strerror(error));
		return no_node(error);
	}
	memset(&candidate->info, 0, sizeof(candidate->info));
	candidate->info.size = sizeof(candidate->info);
	if (ioctl(fd, GPUMEM_INFO, &candidate->info) < 0) {
		error = errno;
		explain_init("gpumem: %s: not a gpumem device: %s", path, strerror(error));
		close(fd);
		return no_node(error);
	}
	if (candidate->info.abi != GPUMEM_ABI_VERSION) {
		explain_init("gpumem: %s: module ABI %u, library ABI %u: install one version of both",
			     path, candidate->info.abi, GPUMEM_ABI_VERSION);
		close(fd);
		return CUDA_SUCCESS;
	}
	candidate->fd = fd;
	(*count)++;
	return CUDA_SUCCESS;
}

/* The candidate that a word of CUDA_VISIBLE_DEVICES names, or -1. */
static int find_candidate(const char *word, size_t length, const struct candidate *candidates,
			  unsigned int count)
{
	char text[64], *end;
	unsigned long n;
	unsigned int i, k;

	if (!length || length >= sizeof(text))
		return -1;
	memcpy(text, word, length);
	text[length] = '\0';
	if (!strncmp(text, "GPU-", 4)) {
		for (i = 0; i < count; i++) {
			char uuid[37] = "", *put = uuid;

			for (k = 0; k < 16; k++)
				put += sprintf(put, k >= 4 && k <= 10 && k % 2 == 0 ? "-%02x" :
					       "%02x", candidates[i].info.uuid[k]);
			if (length > 4 && !strncasecmp(text + 4, uuid, length - 4))
				return i;
		}
		return -1;
	}
	if (text[0] < '0' || text[0] > '9')
		return -1;
	n = strtoul(text, &end, 10);
	while (*end == ' ')
		end++;
	return *end || n >= count ? -1 : (int)n;
}

/*
 * The visible candidates, in the order of CUDA_VISIBLE_DEVICES. The list ends before the first word that names
 * no device. A device that is listed twice is an error.
 */
static CUresult choose_visible(const struct candidate *candidates, unsigned int count,
			       unsigned int *chosen, unsigned int *chosen_count)
{
	const char *word = getenv("CUDA_VISIBLE_DEVICES");
	unsigned int i, n = 0;

	if (!word) {
		for (n = 0; n < count; n++)
			chosen[n] = n;
	}
	while (word) {
		size_t length;
		int found;

		while (*word == ' ')
			word++;
		length = strcspn(word, ",");
		found = find_candidate(word, length, candidates, count);
		if (found < 0)
			break;
		for (i = 0; i < n; i++)
			if (chosen[i] == (unsigned int)found) {
				explain_init("gpumem: CUDA_VISIBLE_DEVICES names a device twice");
				return CUDA_ERROR_INVALID_DEVICE;
			}
		chosen[n++] = found;
		word = word[length] ? word + length + 1 : NULL;
	}
	*chosen_count = n;
	return CUDA_SUCCESS;
}

/* @node; for -1 (the device has no node) the first node with memory; -1 if the kernel has no nodes. */
static int nearest_node(int node)
{
	FILE *file = node < 0 ? fopen("/sys/devices/system/node/has_memory", "re") : NULL;

	if (file) {
		if (fscanf(file, "%d", &node) != 1)
			node = -1;
		fclose(file);
	}
	return node;
}

static void device_fill(struct device *device, const struct candidate *candidate,
			unsigned int index)
{
	memset(device, 0, sizeof(*device));
	device->index = index;
	device->ordinal = candidate->info.ordinal;
	device->total = candidate->info.total;
	device->node = nearest_node(candidate->info.node);
	device->workers = candidate->info.engine_workers;
	device->exclusive = candidate->info.flags & GPUMEM_INFO_EXCLUSIVE_MANAGED;
	device->pageable = candidate->info.flags & GPUMEM_INFO_PAGEABLE;
	memcpy(device->engine, candidate->info.engine, sizeof(device->engine) - 1);
	memcpy(device->uuid, candidate->info.uuid, sizeof(device->uuid));
}

/* Make the client of the lowest visible device and attach the others. */
static CUresult attach_visible(const struct candidate *candidates, const unsigned int *chosen,
			       unsigned int count)
{
	unsigned int i, lowest = 0;

	for (i = 1; i < count; i++)
		if (chosen[i] < chosen[lowest])
			lowest = i;
	client.fd = candidates[chosen[lowest]].fd;
	for (i = 0; i < count; i++) {
		struct gpumem_device_attach attach = {
			.size = sizeof(attach), .fd = candidates[chosen[i]].fd,
		};
		int error = i == lowest ? 0 : client_ioctl(GPUMEM_DEVICE_ATTACH, &attach);

		if (error) {
			explain_init("gpumem: /dev/gpumem%u: cannot be used with another device: %s",
				     candidates[chosen[i]].info.ordinal, strerror(error));
			return CUDA_ERROR_NO_DEVICE;
		}
		device_fill(&client.device[i], &candidates[chosen[i]], attach.device);
		client.pageable |= client.device[i].pageable;
		client.access |= 1u << attach.device;
		client.exclusive |= client.device[i].exclusive;
	}
	client.devices = count;
	return CUDA_SUCCESS;
}

/* The page that says whether this is the process that called cuInit(). */
static uint32_t *make_alive_page(void)
{
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return NULL;
	if (madvise(page, PAGE, MADV_WIPEONFORK)) {
		munmap(page, PAGE);
		return NULL;
	}
	return page;
}

/*
 * The library must not be unloaded from now on: threads run one of its functions when they end, and addresses
 * stay reserved.
 */
static void stay_loaded(void)
{
	Dl_info info;

	if (dladdr(&client, &info) && info.dli_fname)
		dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

/* Operations whose order or time may be chosen are entries of a stream, not executed by the calling thread. */
static void start_faults(void)
{
	client.faults = fault_start();
	client.scheduled = client.hooks->start();
	client.gated = client.faults || client.scheduled;
	if (client.gated)
		client.inlining = client.inlining_device = false;
}

/* GPUMEM_CHECK_QUARANTINE: MiB. */
static uint64_t quarantine_size(void)
{
	const char *text = getenv("GPUMEM_CHECK_QUARANTINE");
	unsigned long number = QUARANTINE_MIB;
	char *end;

	if (text && *text >= '0' && *text <= '9') {
		number = strtoul(text, &end, 10);
		if (*end || number > UINT32_MAX)
			number = QUARANTINE_MIB;
	}
	return (uint64_t)number << 20;
}

static CUresult make_client(const struct candidate *candidates, unsigned int count,
			    void (*start_strict)(void), const struct tap_client *tap)
{
	struct gpumem_vm_create create = { .size = sizeof(create) };
	unsigned int chosen[GPUMEM_MAX_DEVICES], visible = 0;
	uint32_t *alive;
	CUresult result;
	int error;

	result = choose_visible(candidates, count, chosen, &visible);
	if (result)
		return result;
	if (!visible) {
		if (count)
			explain_init("gpumem: CUDA_VISIBLE_DEVICES selects none of %u devices", count);
		else
			explain_init("gpumem: no /dev/gpumem* nodes: %s", access("/sys/module/gpumem", F_OK) ?
				     "no module: modprobe gpumem" :
				     "the module is loaded: start the container with --device=/dev/gpumem0");
		return CUDA_ERROR_NO_DEVICE;
	}
	result = attach_visible(candidates, chosen, visible);
	if (result)
		return result;
	error = client_ioctl(GPUMEM_VM_CREATE, &create);
	if (error) {
		explain_init("gpumem: no address space: %s", strerror(error));
		return result_of_errno(error);
	}
	client.vm = create.id;
	alive = make_alive_page();
	if (!alive) {
		explain_init("gpumem: no memory: %s", strerror(errno));
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	stay_loaded();
	if (client.strict || client.exclusive)
		start_strict();
	if (client.check || client.record)
		client.tap = tap_load(tap, client.check, client.record);
	client.zoned = client.tap && client.tap->changed;
	client.quarantine = client.zoned ? quarantine_size() : 0;
	start_faults();
	client.watched = client.tap || client.gated;
	client.noted = client.debug || client.watched;
	alive[3] = client.tap && client.tap->pairs && !client.gated && !client.debug && pairs_start();
	*alive = 1;
	/* While calls are watched, no function takes a path that reports nothing. */
	alive[1] = alive[2] = !client.watched;
	store_release(&client.later, alive + 3);
	store_release(&client.only_waits, alive + 1);
	store_release(&client.quick, alive + 2);
	store_release(&client.alive, alive);
	return CUDA_SUCCESS;
}

static bool env_is(const char *name, const char *value)
{
	const char *text = getenv(name);

	return text && !strcmp(text, value);
}

static CUresult client_init_locked(void (*start_strict)(void), const struct tap_client *tap)
{
	unsigned int ordinals[GPUMEM_MAX_DEVICES * 4], nodes, i, count = 0;
	struct candidate candidates[GPUMEM_MAX_DEVICES];
	CUresult result;

	reason[0] = '\0';
	client.inlining = !env_is("GPUMEM_INLINE", "0");
	client.spins = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 200 : 0;
	client.strict = getenv("GPUMEM_STRICT") && !env_is("GPUMEM_STRICT", "0");
	client.clearing = !env_is("GPUMEM_CLEAR", "0");
	client.debug = getenv("GPUMEM_DEBUG") && !env_is("GPUMEM_DEBUG", "0");
	client.check = getenv("GPUMEM_CHECK") && !env_is("GPUMEM_CHECK", "0");
	/* It names a file: a program with raised privileges must not write to it. */
	client.record = secure_getenv("GPUMEM_RECORD") && !env_is("GPUMEM_RECORD", "");
	client.inlining_device = client.inlining && !client.strict;
	scope_init();
	result = list_nodes(ordinals, GPUMEM_MAX_DEVICES * 4, &nodes);
	for (i = 0; !result && i < nodes && count < GPUMEM_MAX_DEVICES; i++)
		result = open_candidate(ordinals[i], &candidates[count], &count);
	if (!result)
		result = make_client(candidates, count, start_strict, tap);
	if (result) {
		client.fd = -1;
		client.devices = 0;
		client.access = 0;
		client.exclusive = client.pageable = false;
	}
	for (i = 0; i < count; i++)
		if (candidates[i].fd != client.fd)
			close(candidates[i].fd);
	if (result)
		debug_init(reason);
	return result;
}

CUresult client_init(void (*start_strict)(void), const struct tap_client *tap, const struct fault_hooks *hooks)
{
	CUresult result = CUDA_SUCCESS;
	int cancel;

	debug_init(NULL);
	if (!not_initialized())
		return CUDA_SUCCESS;
	/* A forked child: fork() has zeroed the word, but the pointer is set. */
	if (load_acquire(&client.alive) != &never_alive)
		return CUDA_ERROR_NOT_INITIALIZED;
	cancel = cancel_disable();
	pthread_mutex_lock(&init_lock);
	client.hooks = hooks;
	if (not_initialized())
		result = client_init_locked(start_strict, tap);
	pthread_mutex_unlock(&init_lock);
	cancel_restore(cancel);
	return result;
}
