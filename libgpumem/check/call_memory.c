// SPDX-License-Identifier: MIT
/*
 * Calls that make, free, share and map memory.
 *
 * A free is modelled when its call begins, because another thread may get the memory before the call returns.
 */
#include <stdlib.h>

#include "check/check.h"
#include "gpumem.h"

#define KIND(kind)	(1u << MEMORY_ ## kind)
#define MIPMAPS		256u
#define LEVELS		32u

struct mipmap {
	uint64_t key;
	uint64_t level[LEVELS];		/* arrays, or 0: nobody has asked for it */
	struct mipmap *next;
};

static struct mipmap *mipmaps[MIPMAPS];	/* by handle */

/* The operation of a call of the host. */
static struct op *host_op(const struct call *call, enum op_kind kind)
{
	struct op *op = call_op(call, &host, kind);

	host_step();
	if (op)
		op->time = actor_time(&host);
	return op;
}

static struct memory *made(const struct call *call, enum memory_kind kind, uint64_t base, uint64_t size)
{
	struct memory *memory;

	if (call->result || !base || !size)
		return NULL;
	memory = memory_add(kind, base, size, host_op(call, OP_ALLOC));
	if (memory)
		memory->context = driver->context();
	return memory;
}

static uint64_t output(const struct call *call)
{
	return call->result || !call->value[0] ? 0 : *(const uint64_t *)(uintptr_t)call->value[0];
}

/* ---- allocation */

static void alloc(struct call *call)
{
	made(call, MEMORY_DEVICE, output(call), call->value[1]);
}

static void alloc_pitch(struct call *call)
{
	uint64_t pitch = call->result ? 0 : *(const size_t *)(uintptr_t)call->value[1];

	made(call, MEMORY_DEVICE, output(call), pitch * call->value[3]);
}

static void alloc_host(struct call *call)
{
	struct memory *memory = made(call, MEMORY_HOST, output(call), call->value[1]);

	if (memory)
		mapped_born(memory);
}

static void alloc_managed(struct call *call)
{
	made(call, MEMORY_MANAGED, output(call), call->value[1]);
}

static void host_register(struct call *call)
{
	made(call, MEMORY_REGISTERED, call->value[0], call->value[1]);
}

static struct memory *imported(struct call *call)
{
	struct memory *memory;
	uint64_t base, size;

	if (call->result || !driver->range(output(call), &base, &size))
		return NULL;
	/* Importing the same memory again may give the same address. */
	memory = memory_exact(base, KIND(IMPORTED));
	if (memory && memory->size == size) {
		memory->opens++;
		return memory;
	}
	memory = made(call, MEMORY_IMPORTED, base, size);
	if (memory)
		memory->host = driver->cpu(base);
	return memory;
}

static void import(struct call *call)
{
	imported(call);
}

/* Memory of pools belongs to no context. One free ends all imports of a pointer. */
static void import_pool_memory(struct call *call)
{
	struct memory *memory = imported(call);

	if (!memory)
		return;
	memory->opens = 0;
	memory->context = NULL;
	memory->pool = (const void *)(uintptr_t)call->value[1];
}

static void alloc_async(struct call *call, unsigned int stream)
{
	struct actor *actor;
	struct memory *memory;
	struct step *step;

	/* The driver reports the look-up of the stream as a call of its own, with one argument. */
	if (call->count <= stream)
		stream_invalid(call, 0);
	if (call->count <= stream || call->result || !output(call))
		return;
	actor = call_actor(call, stream);
	if (!actor)
		return;
	step = call_step(call, actor, STEP_ALLOC, OP_ALLOC);
	if (!step)
		return;
	memory = memory_add(MEMORY_POOL, output(call), call->value[1], op_hold(step->op));
	if (memory) {
		memory->context = actor->context->key;
		memory->open = memory->host = driver->cpu(memory->base);
		memory->pool = stream == 3 ? (const void *)(uintptr_t)call->value[2] : NULL;
	}
	step_submit(step);
}

static void alloc_current(struct call *call)
{
	alloc_async(call, 2);
}

static void alloc_from(struct call *call)
{
	alloc_async(call, 3);
}

/* ---- free */

static void free_failed(const struct call *call, uint64_t addr, const char *how)
{
	const struct memory *memory, *old;
	struct report report;

	if (likely(call->result != CUDA_ERROR_INVALID_VALUE) || !addr)
		return;
	memory = memory_at(addr);
	old = memory_freed_at(addr);
	if (memory) {
		report_begin(&report, REPORT_INVALID_FREE, "%s of 0x%llx, which %s", how, (unsigned long long)addr,
			     memory->base == addr ? "another function frees" : "is inside an allocation");
		report_stack(&report, call->stack, "by %s", call->name);
		report_stack(&report, memory->born->stack, "%s of %llu bytes at 0x%llx, made by %s",
			     memory_name(memory), (unsigned long long)memory->size, (unsigned long long)memory->base,
			     memory->born->call);
	} else if (old) {
		report_begin(&report, REPORT_DOUBLE_FREE, "0x%llx is freed again", (unsigned long long)addr);
		report_stack(&report, call->stack, "freed again by %s", call->name);
		report_stack(&report, old->freed->stack, "freed first by %s in %s", old->freed->call,
			     old->freed->actor->name);
		report_stack(&report, old->born->stack, "%s of %llu bytes, made by %s", memory_name(old),
			     (unsigned long long)old->size, old->born->call);
	} else {
		report_begin(&report, REPORT_INVALID_FREE, "%s of 0x%llx, which is no allocation", how,
			     (unsigned long long)addr);
		report_stack(&report, call->stack, "by %s", call->name);
	}
	report_end(&report);
}

static void wait_each(struct actor *actor, void *arg)
{
	(void)arg;
	host_waited(actor);
}

/* The host frees memory, after it waited for the work of the memory's context. */
static void free_waiting(const struct call *call, struct memory *memory)
{
	actors_each(memory->context, wait_each, NULL);
	pinned_compare(false);
	memory_remove(memory, host_op(call, OP_FREE));
}

/* The host frees memory without waiting. */
static void free_at_once(const struct call *call, struct memory *memory)
{
	struct conflict conflict = { .other = NULL };
	struct op *op = host_op(call, OP_FREE);

	shadow_uses(memory, &host.clock, false, &conflict);
	if (conflict.other && op)
		found_unordered_free(op, memory, &conflict);
	op_drop(conflict.other);
	memory_remove(memory, op);
}

static void free_begin(struct call *call)
{
	struct memory *memory = memory_exact(call->value[0], KIND(DEVICE) | KIND(POOL) | KIND(MANAGED) | KIND(IMPORTED));

	if (!memory)
		return;
	if (memory->opens)
		memory->opens--;
	else if (memory->kind == MEMORY_POOL)
		free_at_once(call, memory);
	else
		free_waiting(call, memory);
}

static void free_end(struct call *call)
{
	free_failed(call, call->value[0], "free");
}

static void free_host_begin(struct call *call)
{
	struct memory *memory = memory_exact(call->value[0], KIND(HOST));

	if (!memory)
		return;
	mapped_look(memory);
	free_waiting(call, memory);
}

static void unregister_begin(struct call *call)
{
	struct memory *memory = memory_exact(call->value[0], KIND(REGISTERED));

	if (!memory)
		return;
	mapped_look(memory);
	free_waiting(call, memory);
}

static void unregister_end(struct call *call)
{
	if (call->result == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED) {
		struct call again = *call;

		again.result = CUDA_ERROR_INVALID_VALUE;
		free_failed(&again, call->value[0], "unregistration");
	}
}

static void close_begin(struct call *call)
{
	struct memory *memory = memory_exact(call->value[0], KIND(IMPORTED));

	if (memory && memory->opens)
		memory->opens--;
	else if (memory)
		free_waiting(call, memory);
}

static void free_async_begin(struct call *call)
{
	struct memory *memory;
	struct actor *actor;
	struct step *step;

	if (call->count < 2)
		return;
	memory = memory_exact(call->value[0], KIND(DEVICE) | KIND(POOL) | KIND(MANAGED) | KIND(IMPORTED));
	actor = memory ? call_actor(call, 1) : NULL;
	if (!actor)
		return;
	if (memory->opens) {
		memory->opens--;
		return;
	}
	step = call_step(call, actor, STEP_FREE, OP_FREE);
	if (!step)
		return;
	step->memory = memory_hold(memory);
	/* The shadow stays until the step has run. */
	memory_retire(memory, op_hold(step->op));
	step_submit(step);
}

static void free_async_end(struct call *call)
{
	if (call->count < 2) {
		stream_invalid(call, 0);
		return;
	}
	free_failed(call, call->value[0], "free");
}

void pair_happened(const struct tap_pair *pair)
{
	uint64_t stream = (uintptr_t)pair->stream, pool = (uintptr_t)pair->pool;
	CUdeviceptr base = pair->base;
	struct call alloc = {
		.name = "cuMemAllocAsync", .count = 3, .value = { (uintptr_t)&base, pair->size, stream },
	};
	struct call alloc_from_pool = {
		.name = "cuMemAllocFromPoolAsync", .count = 4, .value = { (uintptr_t)&base, pair->size, pool, stream },
	};
	struct call free = { .name = "cuMemFreeAsync", .count = 2, .value = { base, stream } };

	if (pair->pool)
		alloc_from(&alloc_from_pool);
	else
		alloc_current(&alloc);
	if (pair->freed)
		free_async_begin(&free);
}

/* ---- attributes */

static void set_attribute(struct call *call)
{
	struct memory *memory = call->result ? NULL : memory_at(call->value[2]);

	if (memory && call->value[1] == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		memory->sync = *(const unsigned int *)(uintptr_t)call->value[0];
}

/* A query of tokens for RDMA also sets SYNC_MEMOPS. */
static void get_attribute(struct call *call)
{
	struct memory *memory = call->result ? NULL : memory_at(call->value[2]);

	if (memory && call->value[1] == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
		memory->sync = true;
}

/* ---- sharing */

static void share(struct call *call)
{
	struct memory *memory = call->result ? NULL : memory_at(call->value[1]);

	if (memory)
		shadow_open(memory);
}

/* An export has made a descriptor, which the program closes. */
static void described(const struct call *call, const char *what)
{
	if (!call->result)
		export_add(what, *(const int *)(uintptr_t)call->value[0], call);
}

static void share_dmabuf(struct call *call)
{
	share(call);
	described(call, "descriptor of a DMA-buf");
}

static void share_handle(struct call *call)
{
	if (call->value[2] == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		described(call, "descriptor of a memory handle");
}

static void share_pool(struct call *call)
{
	if (call->value[2] == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		described(call, "descriptor of a pool");
}

static void share_semaphore(struct call *call)
{
	if (!call->result)
		semaphore_exported(call->value[1], semaphore_number(*(const int *)(uintptr_t)call->value[0]));
	described(call, "descriptor of a semaphore");
}

static void told(struct call *call)
{
	struct memory *memory = call->result ? NULL : memory_at(call->value[0]);

	if (memory && call->value[2] & GPUMEM_CHECK_WROTE)
		shadow_written(memory, call->value[0] - memory->base, call->value[1]);
	if (memory && call->value[2] & GPUMEM_CHECK_KEEPS)
		memory->kept = true;
}

/* ---- mapping */

static void map(struct call *call)
{
	struct memory *memory = made(call, MEMORY_MAPPED, call->value[0], call->value[1]);

	/* Another mapping may write the same bytes. Mappings belong to no context. */
	if (memory) {
		shadow_open(memory);
		memory->context = NULL;
		memory->host = driver->cpu(memory->base);
	}
}

static void unordered_unmap(const struct call *call, const struct memory *memory, const struct op *other)
{
	struct report report;

	report_begin(&report, REPORT_UNMAP, "a mapping is removed while work of %s may use it: 0x%llx",
		     other->actor->name, (unsigned long long)memory->base);
	report_detail(&report, "the program did not wait for %s", other->call);
	report_stack(&report, call->stack, "unmapped by %s", call->name);
	report_stack(&report, other->stack, "used by %s in %s", other->call, other->actor->name);
	report_stack(&report, memory->born->stack, "mapped by %s", memory->born->call);
	report_end(&report);
}

static void unmap_begin(struct call *call)
{
	uint64_t addr = call->value[0], end = addr + call->value[1];

	while (addr < end) {
		struct memory *memory = memory_at(addr);
		struct conflict conflict = { .other = NULL };

		if (!memory || memory->kind != MEMORY_MAPPED)
			return;
		addr = memory->base + memory->size;
		shadow_uses(memory, &host.clock, false, &conflict);
		if (conflict.other && (options.strict || !maybe_polled(conflict.other)))
			unordered_unmap(call, memory, conflict.other);
		op_drop(conflict.other);
		memory_remove(memory, host_op(call, OP_FREE));
	}
}

/* ---- other things that are given back */

static const char *const things[] = {
	"pool", "memory handle", "reserved address range", "external memory", "external semaphore", "mipmapped array",
	"context",
};

#define MAKES(n)	static void makes_ ## n(struct call *call)			\
	{										\
		if (!call->result && output(call))					\
			object_add(things[n], output(call), call);			\
	}
#define ENDS(n)		static void ends_ ## n(struct call *call)			\
	{										\
		if (!call->result)							\
			object_remove(things[n], call->value[0]);			\
	}
MAKES(0) ENDS(0)
MAKES(1) ENDS(1)
MAKES(2) ENDS(2)
MAKES(3) ENDS(3)
MAKES(4) ENDS(4)
MAKES(5) ENDS(5)
MAKES(6)

/* An import from a shareable handle of a pool or of memory. */
static void import_shareable(const struct call *call)
{
	if (!call->result && call->value[2] == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		export_forget(call->value[1]);
}

static void import_pool(struct call *call)
{
	import_shareable(call);
	makes_0(call);
}

static void import_handle(struct call *call)
{
	import_shareable(call);
	makes_1(call);
}

/* cuImportExternalMemory() closes the descriptor; that of a DMA-buf stays open. */
static void import_memory(struct call *call)
{
	const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc = (const void *)(uintptr_t)call->value[1];

	if (!call->result && desc->type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
		export_forget(desc->handle.fd);
	makes_3(call);
}

/* The last argument that is kept is the number of the semaphore: the call closes its descriptor. */
#define NUMBER	(TAP_VALUES - 1)

static void import_semaphore_begin(struct call *call)
{
	const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *desc = (const void *)(uintptr_t)call->value[1];

	if (desc && (desc->type == CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD ||
		     desc->type == CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD))
		call->value[NUMBER] = semaphore_number(desc->handle.fd);
}

static void import_semaphore(struct call *call)
{
	const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *desc = (const void *)(uintptr_t)call->value[1];

	if (!call->result && (desc->type == CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD ||
			      desc->type == CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD))
		export_forget(desc->handle.fd);
	if (!call->result && output(call))
		semaphore_imported(output(call), desc->type == CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD,
				   call->value[NUMBER]);
	makes_4(call);
}

/* The driver may give the handle to another thread before the call returns. */
static void destroy_semaphore_begin(struct call *call)
{
	semaphore_remove(call->value[0]);
}

static void create_semaphore(struct call *call)
{
	if (!call->result && output(call))
		semaphore_made(output(call), !(call->value[2] & GPUMEM_SEMAPHORE_TIMELINE), call->value[1]);
	makes_4(call);
}

/* ---- arrays */

static struct memory *array_made(const struct call *call)
{
	uint64_t handle = output(call);
	struct memory *memory;
	struct tap_array array;

	if (!handle || !driver->array(handle, &array))
		return NULL;
	memory = made(call, MEMORY_ARRAY, handle, array.row * array.rows * array.slices);
	if (memory) {
		memory->row = array.row;
		memory->rows = array.rows;
		memory->element = array.element;
	}
	return memory;
}

static void array(struct call *call)
{
	array_made(call);
}

static void array_destroy_begin(struct call *call)
{
	struct memory *memory = memory_exact(call->value[0], KIND(ARRAY));

	/* A level cannot be destroyed. */
	if (memory && !memory->level)
		free_waiting(call, memory);
}

/* ---- mipmapped arrays: a level is an array from when the program has asked for it */

static struct mipmap *mipmap_of(uint64_t key)
{
	struct mipmap *mipmap;

	for (mipmap = mipmaps[key / 64 % MIPMAPS]; mipmap && mipmap->key != key; mipmap = mipmap->next)
		;
	return mipmap;
}

static void mipmap_made(struct call *call)
{
	const CUDA_ARRAY3D_DESCRIPTOR *d = (const void *)(uintptr_t)call->value[1];
	uint64_t key = output(call);
	struct mipmap *mipmap;

	makes_5(call);
	if (call->result || d->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
		return;
	mipmap = mipmap_of(key);
	/* The checker may not have seen the end of an older one, whose context has ended. */
	if (!mipmap) {
		mipmap = calloc(1, sizeof(*mipmap));
		if (!mipmap)
			return;
		mipmap->next = mipmaps[key / 64 % MIPMAPS];
		mipmaps[key / 64 % MIPMAPS] = mipmap;
	}
	*mipmap = (struct mipmap) { .key = key, .next = mipmap->next };
}

static void mipmap_level(struct call *call)
{
	struct mipmap *mipmap = call->result ? NULL : mipmap_of(call->value[1]);
	unsigned int level = call->value[2];
	struct memory *memory;

	if (!mipmap || level >= LEVELS || memory_exact(output(call), KIND(ARRAY)))
		return;
	memory = array_made(call);
	if (memory) {
		memory->level = true;
		mipmap->level[level] = memory->base;
	}
}

static void mipmap_destroy_begin(struct call *call)
{
	struct mipmap *mipmap = mipmap_of(call->value[0]), **at;
	struct memory *memory;
	unsigned int i;

	if (!mipmap)
		return;
	for (i = 0; i < LEVELS; i++) {
		memory = mipmap->level[i] ? memory_exact(mipmap->level[i], KIND(ARRAY)) : NULL;
		if (memory && memory->level)
			free_waiting(call, memory);
	}
	for (at = &mipmaps[mipmap->key / 64 % MIPMAPS]; *at != mipmap; at = &(*at)->next)
		;
	*at = mipmap->next;
	free(mipmap);
}


struct left {
	const struct call *call;
	const void *pool;
};

static void left_each(struct memory *memory, void *arg)
{
	const struct left *left = arg;
	struct report report;

	if (memory->kind != MEMORY_POOL || memory->pool != left->pool)
		return;
	report_begin(&report, REPORT_LEAK, "a pool is destroyed that has a live allocation of %llu bytes",
		     (unsigned long long)memory->size);
	report_stack(&report, memory->born->stack, "allocated by %s", memory->born->call);
	report_stack(&report, left->call->stack, "destroyed by %s", left->call->name);
	report_end(&report);
}

static void pool_destroy(struct call *call)
{
	struct left left = { .call = call, .pool = (const void *)(uintptr_t)call->value[0] };

	ends_0(call);
	if (!call->result)
		memories_each(left_each, &left);
}

const struct call_type calls_memory[] = {
	{ "cuMemAlloc_v2", NULL, alloc },
	{ "cuMemAllocPitch_v2", NULL, alloc_pitch },
	{ "cuMemAllocHost", NULL, alloc_host },
	{ "cuMemAllocHost_v2", NULL, alloc_host },
	{ "cuMemHostAlloc", NULL, alloc_host },
	{ "cuMemAllocManaged", NULL, alloc_managed },
	{ "cuMemHostRegister", NULL, host_register },
	{ "cuMemHostRegister_v2", NULL, host_register },
	{ "cuMemAllocAsync", NULL, alloc_current },
	{ "cuMemAllocFromPoolAsync", NULL, alloc_from },
	{ "cuIpcOpenMemHandle", NULL, import },
	{ "cuIpcOpenMemHandle_v2", NULL, import },
	{ "cuMemPoolImportPointer", NULL, import_pool_memory },
	{ "cuExternalMemoryGetMappedBuffer", NULL, import },
	{ "gpumem_import_dmabuf", NULL, import },
	{ "gpumem_release_dmabuf", close_begin, free_end },
	{ "gpumem_host_get_dmabuf_fd", NULL, share_dmabuf },
	{ "gpumem_check_tell", NULL, told },
	{ "cuMemFree_v2", free_begin, free_end },
	{ "cuMemFreeHost", free_host_begin, free_end },
	{ "cuMemHostUnregister", unregister_begin, unregister_end },
	{ "cuMemFreeAsync", free_async_begin, free_async_end },
	{ "cuIpcCloseMemHandle", close_begin, free_end },
	{ "cuIpcGetMemHandle", NULL, share },
	{ "cuMemPoolExportPointer", NULL, share },
	{ "cuMemGetHandleForAddressRange", NULL, share_dmabuf },
	{ "cuMemExportToShareableHandle", NULL, share_handle },
	{ "cuMemPoolExportToShareableHandle", NULL, share_pool },
	{ "gpumem_export_semaphore", NULL, share_semaphore },
	{ "cuPointerSetAttribute", NULL, set_attribute },
	{ "cuPointerGetAttribute", NULL, get_attribute },
	{ "cuMemMap", NULL, map },
	{ "cuMemUnmap", unmap_begin, NULL },
	{ "cuArrayCreate", NULL, array },
	{ "cuArrayCreate_v2", NULL, array },
	{ "cuArray3DCreate", NULL, array },
	{ "cuArray3DCreate_v2", NULL, array },
	{ "cuArrayDestroy", array_destroy_begin, NULL },
	{ "cuMemPoolCreate", NULL, makes_0 },
	{ "cuMemPoolImportFromShareableHandle", NULL, import_pool },
	{ "cuMemPoolDestroy", NULL, pool_destroy },
	{ "cuMemCreate", NULL, makes_1 },
	{ "cuMemImportFromShareableHandle", NULL, import_handle },
	{ "cuMemRelease", NULL, ends_1 },
	{ "cuMemAddressReserve", NULL, makes_2 },
	{ "cuMemAddressFree", NULL, ends_2 },
	{ "cuImportExternalMemory", NULL, import_memory },
	{ "cuDestroyExternalMemory", NULL, ends_3 },
	{ "cuImportExternalSemaphore", import_semaphore_begin, import_semaphore },
	{ "gpumem_create_semaphore", NULL, create_semaphore },
	{ "cuDestroyExternalSemaphore", destroy_semaphore_begin, ends_4 },
	{ "cuMipmappedArrayCreate", NULL, mipmap_made },
	{ "cuMipmappedArrayGetLevel", NULL, mipmap_level },
	{ "cuMipmappedArrayDestroy", mipmap_destroy_begin, ends_5 },
	{ "cuCtxCreate", NULL, makes_6 },
	{ "cuCtxCreate_v2", NULL, makes_6 },
	{ "cuCtxCreate_v3", NULL, makes_6 },
	{ "cuCtxCreate_v4", NULL, makes_6 },
	{ NULL, NULL, NULL },
};
