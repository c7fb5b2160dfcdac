// SPDX-License-Identifier: MIT
/*
 * Host memory that the program unmapped: pinned memory is the driver's to unmap, and registered memory must stay mapped
 * until it is unregistered.
 *
 * The checker looks when the program waits for work that uses the memory, when it frees the memory or its context, when
 * it synchronizes a context, and when it ends. The kernel tells which file is mapped at pinned memory, so a mapping in
 * its place is noticed as well. Registered memory is the program's, whatever is mapped there.
 *
 * The driver then maps the pinned memory again where nothing is mapped, because its quarantine fills freed memory
 * with a pattern.
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
#define KEPT_LEAST	512		/* the least number of a descriptor that is kept */
#define KEPT_AGAIN	16u		/* how often another one is kept */

static struct memory *queued;		/* by next_queued; none of them is dead */

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

/* /proc/self/maps, which is opened when it is first asked. */
struct maps {
	int fd;				/* -1: not open */
};

#define NO_MAPS		{ .fd = -1 }

/*
 * A descriptor of /proc/self/maps that stays open, because opening it takes six times as long as a question. The program
 * may close it and give its number to another file. So only the answer that all is well is believed. Any other answer is
 * asked again of a file that is opened for that.
 */
static struct maps kept = NO_MAPS;

/* No cancellation point, as above. */
static int maps_open(void)
{
	return syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
}

static void maps_close(const struct maps *maps)
{
	if (maps->fd >= 0)
		syscall(SYS_close, maps->fd);
}

/* The kept descriptor takes no low number, which the program may expect for its own files. */
static void maps_keep(void)
{
	struct maps maps = { .fd = maps_open() };

	kept.fd = maps.fd < 0 ? -1 : syscall(SYS_fcntl, maps.fd, F_DUPFD_CLOEXEC, KEPT_LEAST);
	maps_close(&maps);
}

/* The kept descriptor does not answer. It may be the program's by now, so it is not closed. */
static void maps_lost(void)
{
	static unsigned int times;

	kept.fd = -1;
	if (times++ < KEPT_AGAIN)
		maps_keep();
}

void mapped_start(void)
{
	maps_keep();
}

/* The file that is mapped at an address, as a number, and where the mapping ends. 0: none, or not known. */
static uint64_t file_at(struct maps *maps, uint64_t addr, uint64_t *end)
{
	struct mapping_query query = { .size = sizeof(query), .addr = addr };

	*end = 0;
	if (maps->fd < 0)
		maps->fd = maps_open();
	if (maps->fd < 0 || ioctl(maps->fd, QUERY_MAPPING, &query))
		return 0;
	*end = query.end;
	return query.inode ? query.inode ^ (uint64_t)query.major << 52 ^ (uint64_t)query.minor << 40 : 0;
}

void mapped_born(struct memory *memory)
{
	struct maps maps = NO_MAPS;
	uint64_t end;

	memory->file = file_at(&maps, memory->base, &end);
	maps_close(&maps);
}

/*
 * Whether pinned memory is mapped as it was made. False: it is not, or that is not known. If the question fails, the
 * kept descriptor is not the checker's any more.
 */
static bool intact(const struct memory *memory)
{
	uint64_t at = memory->base, end;

	if (kept.fd < 0 || !memory->file)
		return false;
	while (at < memory->base + memory->size) {
		if (file_at(&kept, at, &end) != memory->file) {
			if (!end && errno != ENOENT)
				maps_lost();
			return false;
		}
		at = end;
	}
	return true;
}

/* Whether other mappings lie in the place of pinned memory. */
static bool replaced(struct maps *maps, const struct memory *memory)
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

	/* Nobody can have polled for an operation that has not run. */
	if (op && op->time && !options.strict && maybe_polled(op))
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

/* If another thread ends the context meanwhile, the driver has unmapped the memory, and does not know it any more. */
static bool lives(const struct memory *memory)
{
	uint64_t base, size;

	return driver->alive(memory->context) && driver->range(memory->base, &base, &size) && base == memory->base;
}

static void look(struct memory *memory, void *arg)
{
	bool hole;

	/* Registered memory is not mapped again, so it has one report only. */
	if (!memory_is_pinned(memory) || (memory->reported && memory->kind == MEMORY_REGISTERED) || intact(memory))
		return;
	hole = unmapped(memory->base, memory->size) == ENOMEM;
	if (memory->reported && hole)
		driver->mend(memory->base);
	else if (!memory->reported && (hole || replaced(arg, memory)) && lives(memory))
		found(memory, hole ? "unmapped" : "replaced by another mapping");
}

void mapped_look(struct memory *memory)
{
	struct maps maps = NO_MAPS;

	look(memory, &maps);
	maps_close(&maps);
}

void mapped_look_all(void)
{
	struct maps maps = NO_MAPS;

	memories_each(look, &maps);
	maps_close(&maps);
}

/* ---- memory that queued work uses */

void mapped_used(struct memory *memory, struct op *op)
{
	if (memory->queued) {
		op_drop(memory->queued);
	} else {
		memory->next_queued = queued;
		memory->link_queued = &queued;
		if (queued)
			queued->link_queued = &memory->next_queued;
		queued = memory;
	}
	memory->queued = op_hold(op);
}

void mapped_unused(struct memory *memory)
{
	if (!memory->queued)
		return;
	*memory->link_queued = memory->next_queued;
	if (memory->next_queued)
		memory->next_queued->link_queued = memory->link_queued;
	op_drop(memory->queued);
	memory->queued = NULL;
}

void mapped_queued(void)
{
	struct maps maps = NO_MAPS;
	struct memory *memory;

	if (!queued)
		return;
	for (memory = queued; memory; memory = memory->next_queued)
		look(memory, &maps);
	maps_close(&maps);
}

void mapped_done(void)
{
	struct memory *memory, *next;

	for (memory = queued; memory; memory = next) {
		next = memory->next_queued;
		if (!use(memory))
			mapped_unused(memory);
	}
}
