// SPDX-License-Identifier: GPL-2.0
/*
 * Count a program's calls to our device: preloaded into the program, this library counts in a file.
 *
 * A program that libgomp lets fall back to the host passes its tests as well as one that used the
 * device. So each open of /dev/gpumemN and each system call of the module that succeeds is counted,
 * by number, where the test's runner can read it, however the program ends. The file is that of
 * $GPUMEM_WITNESS, has WITNESS_SLOTS numbers of eight bytes and is mapped when it is first needed:
 *
 *   slot 0		descriptors of /dev/gpumemN that were opened
 *   slot 1		contexts that libgomp's plugin made, as the module knows of none
 *   slot 2 + n		ioctls of number n that succeeded
 *
 * The plugin finds the library's functions by dlsym(), and gets one of ours for cuCtxCreate().
 * The library changes nothing else; errno neither.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/gpumem.h>

#define WITNESS_SLOTS	(2 + _IOC_NRMASK + 1)

static int (*real_open)(const char *, int, ...);
static int (*real_openat)(int, const char *, int, ...);
static int (*real_ioctl)(int, unsigned long, ...);
static void *(*real_dlsym)(void *, const char *);
static int (*real_context)(void **, unsigned int, int);
static _Atomic uint64_t *slots;

static __attribute__((constructor)) void witness_init(void)
{
	const char *name = getenv("GPUMEM_WITNESS");
	void *p;
	int fd;

	if (slots)
		return;
	real_dlsym = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
	if (!real_dlsym)
		real_dlsym = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
	if (!real_dlsym)
		abort();
	real_open = real_dlsym(RTLD_NEXT, "open");
	real_openat = real_dlsym(RTLD_NEXT, "openat");
	real_ioctl = real_dlsym(RTLD_NEXT, "ioctl");
	fd = name ? real_open(name, O_RDWR | O_CLOEXEC) : -1;
	if (fd < 0)
		abort();
	p = mmap(NULL, WITNESS_SLOTS * sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		abort();
	close(fd);
	slots = p;
}

static int opened(int fd, const char *name)
{
	if (fd >= 0 && slots && !strncmp(name, "/dev/gpumem", strlen("/dev/gpumem")))
		slots[0]++;
	return fd;
}

static mode_t mode_of(int flags, va_list ap)
{
	return flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)) ? va_arg(ap, mode_t) : 0;
}

int open(const char *name, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = mode_of(flags, ap);
	va_end(ap);
	if (!real_open)
		witness_init();
	return opened(real_open(name, flags, mode), name);
}

int openat(int dir, const char *name, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = mode_of(flags, ap);
	va_end(ap);
	if (!real_openat)
		witness_init();
	return opened(real_openat(dir, name, flags, mode), name);
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	void *arg;
	int rc, saved;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (!real_ioctl)
		witness_init();
	rc = real_ioctl(fd, request, arg);
	saved = errno;
	if (rc >= 0 && _IOC_TYPE(request) == GPUMEM_IOC_TYPE)
		slots[2 + _IOC_NR(request)]++;
	errno = saved;
	return rc;
}

static int context(void **out, unsigned int flags, int device)
{
	int rc = real_context(out, flags, device);

	if (!rc)
		slots[1]++;
	return rc;
}

void *dlsym(void *handle, const char *name)
{
	void *found;

	if (!real_dlsym)
		witness_init();
	found = real_dlsym(handle, name);
	if (found && (!strcmp(name, "cuCtxCreate") || !strcmp(name, "cuCtxCreate_v2"))) {
		real_context = found;
		return context;
	}
	return found;
}
