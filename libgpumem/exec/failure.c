// SPDX-License-Identifier: MIT
/*
 * Reports of failed queued work, for GPUMEM_DEBUG=1: the operation, its number, its stream and its
 * addresses.
 *
 * Owns nothing. The ring keeps an entry until other entries need its slot, so the entry is read from
 * there.
 */
#include <errno.h>

#include "exec/exec.h"

const char *op_name(unsigned int op)
{
	static const char * const op_names[] = {
		[GPUMEM_OP_NOP] = "no operation", [GPUMEM_OP_COPY] = "copy",
		[GPUMEM_OP_FILL] = "fill", [GPUMEM_OP_WAIT] = "wait", [GPUMEM_OP_SIGNAL] = "signal",
		[GPUMEM_OP_TIMESTAMP] = "timestamp", [GPUMEM_OP_ADD] = "add",
		[GPUMEM_OP_POLL] = "wait for a word", [GPUMEM_OP_PREFETCH] = "prefetch",
	};

	return op < sizeof(op_names) / sizeof(op_names[0]) ? op_names[op] : "unknown operation";
}

void debug_work(struct queue *queue, CUresult result)
{
	const struct gpumem_timeline_page *page = queue->page;
	struct debug_line line = { .length = 0 };
	const char *name;
	struct gpumem_sqe sqe;
	uint32_t error;
	uint64_t failed;
	int saved = errno;
	bool there;

	if (!client.debug)
		return;
	/* The number is written before the error. */
	error = load_acquire(&page->error);
	failed = load_relaxed(&page->failed);
	name = error_name(result);
	debug_add(&line, "gpumem: stream %#llx of device %d: operation %llu",
	    (unsigned long long)(uintptr_t)load_relaxed(&queue->stream), queue->device,
	    (unsigned long long)failed);
	/* A thread may have reused the slot, perhaps while it was read: check the tail afterwards. */
	there = queue_entry(queue, failed, &sqe);
	fence_full();
	if (there && load_relaxed(&queue->tail) - failed < QUEUE_ENTRIES) {
		debug_add(&line, " (%s", op_name(sqe.op));
		if (sqe.dst)
			debug_add(&line, " to 0x%llx", (unsigned long long)sqe.dst);
		if (sqe.op == GPUMEM_OP_COPY)
			debug_add(&line, " from 0x%llx", (unsigned long long)sqe.src);
		if (sqe.width)
			debug_add(&line, ", %llu %s", (unsigned long long)sqe.width,
			    sqe.op == GPUMEM_OP_FILL ? "elements" : "bytes");
		if (sqe.height > 1)
			debug_add(&line, ", %llu rows", (unsigned long long)sqe.height);
		debug_add(&line, ")");
	}
	debug_add(&line, " failed: %s: ", name ? name : "?");
	debug_add_errno(&line, error);
	debug_print(&line);
	errno = saved;
}
