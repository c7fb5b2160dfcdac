// SPDX-License-Identifier: MIT
/*
 * Host memory that the program unmapped: pinned memory is the driver's to unmap, and registered memory must stay mapped
 * until it is unregistered.
 *
 * The checker looks when the program waits for work that uses the memory, when it frees the memory or its context, when
 * it synchronizes a context, and when it ends. The kernel tells which file is mapped at pinned memory, so a mapping in
 * its place is noticed as well. Registered memory is the program's, whatever is mapped there.
 *
 * The driver then maps the pinned memory again where nothing is mapped, because it writes to freed memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check/check.h"

/* PROCMAP_QUERY of <linux/fs.h>, which headers older than Linux 6.11 do not have. */
struct mapping_query {
	uint64_t size, flags, addr;
	uint64_t start, end;
	uint64_t vma_flags, page_size, offset;
	uint64_t inode;
	uint32_t major, minor;
	uint32_t name_size, build_id_size;
	uint64_t name, build_id;
};

#define QUERY_MAPPING	_IOWR('f', 17, struct mapping_query)

static struct memory *queued;		/* by next_queued; a reference each */

int unmapped(uint64_t addr, uint64_t bytes)
{
	static uint64_t page;
	uint64_t from;

	if (!page)
		page = sysconf(_SC_PAGESIZE);
	from = addr / page * page;
	/*
	 * msync() looks at the mappings only; mincore() would look at each page. A system call, because msync() is a
	 * cancellation point.
	 */
	return syscall(SYS_msync, from, addr + bytes - from, MS_ASYNC) ? errno : 0;
}

/* ---- mappings */

static int maps_open(void)
{
	/* As above. */
	return syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
}

static void maps_close(int maps)
{
	if (maps >= 0)
		syscall(SYS_close, maps);
}

/* The file that is mapped at an address, as a number, and where the mapping ends. 0: none, or not known. */
static uint64_t file_at(int maps, uint64_t addr, uint64_t *end)
{
	struct mapping_query query = { .size = sizeof(query), .addr = addr };

	*end = 0;
	if (maps < 0 || ioctl(maps, QUERY_MAPPING, &query))
		return 0;
	*end = query.end;
	return query.inode ? query.inode ^ (uint64_t)query.major << 52 ^ (uint64_t)query.minor << 40 : 0;
}

void mapped_born(struct memory *memory)
{
	int maps = maps_open();
	uint64_t end;

	memory->file = file_at(maps, memory->base, &end);
	maps_close(maps);
}

/* Whether other mappings lie in the place of pinned memory. */
static bool replaced(int maps, const struct memory *memory)
{
	uint64_t at = memory->base, end;

	while (memory->file && at < memory->base + memory->size) {
		if (file_at(maps, at, &end) != memory->file)
			return end;
		at = end;
	}
	return false;
}

/* ---- reports */

/* The last asynchronous use of a memory, if the host does not know that it is done; or NULL. */
static const struct op *use(const struct memory *memory)
{
	const struct op *op = memory->queued;

	return op && (!op->time || !clock_covers(&host.clock, op->slot, op->time)) ? op : NULL;
}

static void found(struct memory *memory, const char *how)
{
	bool registered = memory->kind == MEMORY_REGISTERED;
	const struct op *op = use(memory);
	struct report report;

	if (op && !options.strict && maybe_polled(op))
		op = NULL;
	memory->reported = true;
	/* First of all, because a report may itself map files, and the kernel may choose these addresses. */
	if (!registered)
		driver->mend(memory->base);
	report_begin(&report, REPORT_HOST_UNMAPPED, "%s was %s%s: %llu bytes at 0x%llx", memory_name(memory), how,
		     op ? " while queued work may use it" : "", (unsigned long long)memory->size,
		     (unsigned long long)memory->base);
	report_detail(&report, registered ? "cuMemHostUnregister() must come before munmap() or free()" :
		      "only cuMemFreeHost() unmaps pinned memory");
	report_stack(&report, memory->born->stack, "%s by %s", registered ? "registered" : "made", memory->born->call);
	if (op)
		report_stack(&report, op->stack, "used by %s in %s", op->call, op->actor->name);
	report_end(&report);
}

static void look(struct memory *memory, void *arg)
{
	int maps = *(const int *)arg;
	const char *how = NULL;

	if (!memory_is_pinned(memory) || memory->reported)
		return;
	if (unmapped(memory->base, memory->size) == ENOMEM)
		how = "unmapped";
	else if (replaced(maps, memory))
		how = "replaced by another mapping";
	/* If another thread ends the context meanwhile, the driver has unmapped the memory. */
	if (how && driver->alive(memory->context))
		found(memory, how);
}

void mapped_look(struct memory *memory)
{
	int maps = maps_open();

	look(memory, &maps);
	maps_close(maps);
}

void mapped_look_all(void)
{
	int maps = maps_open();

	memories_each(look, &maps);
	maps_close(maps);
}

/* ---- memory that queued work uses */

void mapped_used(struct memory *memory, struct op *op)
{
	if (memory->queued) {
		op_drop(memory->queued);
	} else {
		memory->next_queued = queued;
		queued = memory_hold(memory);
	}
	memory->queued = op_hold(op);
}

void mapped_queued(void)
{
	struct memory **at = &queued, *memory;
	int maps;

	if (!queued)
		return;
	maps = maps_open();
	while ((memory = *at)) {
		if (!memory->dead)
			look(memory, &maps);
		if (!memory->dead && use(memory)) {
			at = &memory->next_queued;
			continue;
		}
		*at = memory->next_queued;
		op_drop(memory->queued);
		memory->queued = NULL;
		memory_drop(memory);
	}
	maps_close(maps);
}
