// SPDX-License-Identifier: MIT
/*
 * The trace's file.
 *
 * Records are written to a shared mapping of the file, so that they survive the process however it ends. The size of a
 * record is written after its other bytes: what was not completed has the size 0. Blocks are allocated before they are
 * written, so a full disk ends the recording and not the program.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "record/record.h"

#define WINDOW	(UINT64_C(4) << 20)
#define PAGE	UINT64_C(65536)		/* a multiple of each machine's page size */
#define NAMES	100			/* of further files of a process */

enum state { NOT_OPEN, OPEN, BROKEN };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	enum state state;
	int fd;
	struct stat stat;		/* of the file: the program may close the descriptor, and reuse its number */
	char *map;			/* of @size bytes at @base */
	uint64_t base, size, used;	/* used: bytes of the file that records have */
	uint32_t functions;		/* numbers of functions that were given out */
	struct trace_header header;
} file = { .fd = -1 };
static void *(*real)(const char *name);	/* the driver's own functions */
static char path[PATH_MAX];		/* GPUMEM_RECORD, as it was when the recorder started */
static uint32_t numbers[1024];		/* 1 + the number that the trace has for a function; under the lock */

void file_start(enum trace_front front, uint64_t start, void *(*find)(const char *name))
{
	const char *name = secure_getenv("GPUMEM_RECORD");

	real = find;
	if (name && strlen(name) < sizeof(path))
		strcpy(path, name);
	file.header = (struct trace_header) {
		.magic = TRACE_MAGIC, .version = TRACE_VERSION, .size = sizeof(struct trace_header), .pid = (uint32_t)getpid(),
		.front = front, .start = start,
	};
}

static void broken(const char *what)
{
	fprintf(stderr, "gpumem-record: %s: %s: the recording ends here\n", what, strerror(errno));
	file.state = BROKEN;
}

static bool still_ours(void)
{
	struct stat now;

	if (!fstat(file.fd, &now) && now.st_dev == file.stat.st_dev && now.st_ino == file.stat.st_ino)
		return true;
	errno = EBADF;
	return false;
}

/* Map the part of the file in which @bytes more have room. */
static bool window(uint64_t bytes)
{
	uint64_t base = file.used & ~(PAGE - 1), size = WINDOW;
	int error;

	if (file.map && file.used + bytes <= file.base + file.size)
		return true;
	while (size < bytes + PAGE)
		size *= 2;
	if (file.map)
		munmap(file.map, file.size);
	file.map = NULL;
	if (!still_ours())
		return false;
	error = posix_fallocate(file.fd, (off_t)base, (off_t)size);
	if (error) {
		errno = error;
		return false;
	}
	file.map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, (off_t)base);
	if (file.map == MAP_FAILED) {
		file.map = NULL;
		return false;
	}
	madvise(file.map, size, MADV_DONTFORK);
	file.base = base;
	file.size = size;
	return true;
}

/* Create a file that does not exist.  Numbers up to 2 belong to the program's standard streams. */
static int create_new(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666), high;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	close(fd);
	return high;
}

/* The name that GPUMEM_RECORD gives or, where that file exists, the same with the process's id and maybe a number. */
static bool create(void)
{
	unsigned int (*get_version)(int *version);
	char other[PATH_MAX + 32];
	int version, i;

	if (!*path)
		return false;
	file.fd = create_new(path);
	for (i = 0; file.fd < 0 && errno == EEXIST && i < NAMES; i++) {
		if (i)
			snprintf(other, sizeof(other), "%s.%d.%d", path, getpid(), i);
		else
			snprintf(other, sizeof(other), "%s.%d", path, getpid());
		file.fd = create_new(other);
		if (file.fd >= 0)
			fprintf(stderr, "gpumem-record: %s exists: this process is recorded in %s\n", path, other);
	}
	if (file.fd < 0 || fstat(file.fd, &file.stat) || !window(sizeof(file.header))) {
		broken(path);
		return false;
	}
	get_version = (unsigned int (*)(int *))real("cuDriverGetVersion");
	if (get_version && !get_version(&version))
		file.header.driver = (uint32_t)version;
	memcpy(file.map, &file.header, sizeof(file.header));
	file.used = sizeof(file.header);
	file.state = OPEN;
	return true;
}

static void put(const struct trace_record *record)
{
	struct trace_record *at;

	if (!window(record->size)) {
		broken("the trace");
		return;
	}
	at = (struct trace_record *)(void *)(file.map + (file.used - file.base));
	memcpy(&at->type, &record->type, record->size - sizeof(record->size));
	__atomic_store_n(&at->size, record->size, __ATOMIC_RELEASE);
	file.used += record->size;
}

/* The number of a function in the trace, which gets its record before its first call. */
static uint32_t number_of(uint32_t function)
{
	const struct function *f = function_at(function);
	size_t name = strlen(f->name) + 1, text = strlen(f->text) + 1;
	char record[1024] __attribute__((aligned(8))) = { 0 };
	struct trace_function *at = (struct trace_function *)(void *)record;

	if (numbers[function])
		return numbers[function] - 1;
	at->record.size = (uint32_t)((sizeof(*at) + name + text + 7) & ~(size_t)7);
	at->record.type = TRACE_FUNCTION;
	at->function = file.functions++;
	at->count = f->count;
	if (at->record.size > sizeof(record))
		abort();
	memcpy(at + 1, f->name, name);
	memcpy((char *)(at + 1) + name, f->text, text);
	put(&at->record);
	numbers[function] = file.functions;
	return file.functions - 1;
}

void file_append(const struct trace_record *record, uint32_t function)
{
	sigset_t all, old;
	int cancel;

	/* A handler that ends the process, or leaves by a jump, must not find the lock taken by its own thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&lock);
	if (file.state == OPEN || (file.state == NOT_OPEN && create())) {
		if (function != NO_FUNCTION)
			((struct trace_call *)(uintptr_t)record)->function = number_of(function);
		if (file.state == OPEN)
			put(record);
	}
	pthread_mutex_unlock(&lock);
	pthread_setcancelstate(cancel, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void file_finish(void)
{
	struct timespec soon;

	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_sec++;
	/* The trace is complete without this: its end is cut off. */
	if (pthread_mutex_timedlock(&lock, &soon))
		return;
	if (file.state != NOT_OPEN && file.used && still_ours() && ftruncate(file.fd, (off_t)file.used))
		broken("the trace");
	file.state = BROKEN;
	pthread_mutex_unlock(&lock);
}
