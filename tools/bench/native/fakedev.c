// SPDX-License-Identifier: GPL-2.0
/*
 * A simulated device, for timing library code that makes no system call.
 *
 * Preloaded into gpumem-bench, this library implements the calls by which libgpumem finds a device
 * and allocates memory: one device whose memory is anonymous memory.  Its engine moves nothing: a
 * doorbell takes entries out of the ring and completes them.  So only calls without system calls
 * can be measured, on any machine, without the module and at the machine's own speed.
 *
 * Calls for other files go to the kernel, except that every directory seems to contain the device's
 * node and nothing else.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/gpumem.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NODE	"gpumem0"
#define TOTAL	(1ull << 30)

static int device = -1;
static unsigned int last_id;

#define STREAMS	8

static struct stream {
	unsigned int id;		/* its timeline's is the next */
	struct gpumem_ring *ring;
	struct gpumem_timeline_page *page;
} streams[STREAMS];

struct dirent *readdir(DIR *dir)
{
	static struct dirent entry = { .d_name = NODE };
	static DIR *told;

	if (told == dir)
		return NULL;
	told = dir;
	return &entry;
}

int open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list args;

	if (!strcmp(path, "/dev/" NODE)) {
		device = syscall(SYS_memfd_create, NODE, MFD_CLOEXEC);
		return device;
	}
	if (flags & (O_CREAT | O_TMPFILE)) {
		va_start(args, flags);
		mode = va_arg(args, mode_t);
		va_end(args);
	}
	return syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static int stream_create(struct gpumem_stream_create *create)
{
	for (int i = 0; i < STREAMS; i++) {
		if (streams[i].id)
			continue;
		streams[i].id = create->id = ++last_id;
		create->timeline = ++last_id;
		return 0;
	}
	errno = EMFILE;
	return -1;
}

static int doorbell(unsigned int id)
{
	for (int i = 0; i < STREAMS; i++) {
		struct stream *s = &streams[i];

		if (s->id != id)
			continue;
		s->page->head = s->ring->tail;
		__atomic_store_n(&s->page->value, s->ring->tail, __ATOMIC_RELEASE);
		return 0;
	}
	errno = ENOENT;
	return -1;
}

/* The library maps a ring or a timeline. */
static void mapped(unsigned int id, void *p)
{
	for (int i = 0; i < STREAMS; i++) {
		struct stream *s = &streams[i];

		if (s->id && s->id == id)
			s->ring = p;
		if (!s->id || s->id + 1 != id)
			continue;
		s->page = p;
		s->page->flags = GPUMEM_TIMELINE_NEED_WAKEUP;
	}
}

static int answer(unsigned long request, void *arg)
{
	switch (request) {
	case GPUMEM_INFO: {
		struct gpumem_info *info = arg;

		memset(info, 0, sizeof(*info));
		info->size = sizeof(*info);
		info->abi = GPUMEM_ABI_VERSION;
		info->total = TOTAL;
		info->engine_workers = 1;
		strcpy((char *)info->engine, "none");
		return 0;
	}
	case GPUMEM_VM_CREATE:
		((struct gpumem_vm_create *)arg)->id = ++last_id;
		return 0;
	case GPUMEM_BO_ALLOC:
		((struct gpumem_bo_alloc *)arg)->id = ++last_id;
		return 0;
	case GPUMEM_BO_RETIRE:
		((struct gpumem_bo_retire *)arg)->live = 0;
		return 0;
	case GPUMEM_STREAM_CREATE:
		return stream_create(arg);
	case GPUMEM_STREAM_DOORBELL:
		return doorbell(((struct gpumem_stream_doorbell *)arg)->id);
	case GPUMEM_VM_MAP:
	case GPUMEM_VM_UNMAP:
	case GPUMEM_DESTROY:
		return 0;
	case GPUMEM_POOL_CREATE:
		/*
		 * Fail as a kernel without pools; pools that are not shared need no kernel support.
		 */
		errno = ENOTTY;
		return -1;
	default:
		errno = EOPNOTSUPP;
		return -1;
	}
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	void *arg;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	return fd == device ? answer(request, arg) : syscall(SYS_ioctl, fd, request, arg);
}

void *mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	unsigned int id = offset >> GPUMEM_MMAP_SHIFT;
	void *p;

	if (fd < 0 || fd != device)
		return (void *)syscall(SYS_mmap, addr, length, prot, flags, fd, offset);
	p = (void *)syscall(SYS_mmap, addr, length, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS,
			    -1, 0);
	if (p != MAP_FAILED)
		mapped(id, p);
	return p;
}
