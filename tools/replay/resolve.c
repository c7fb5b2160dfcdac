// SPDX-License-Identifier: GPL-2.0
/*
 * Handles and addresses become objects.
 *
 * The recorded begins and ends are gone through in the order of their times.  A call uses at its begin what was there, and
 * makes at its end what is there from then on.  So a handle that the driver gave out again names the right object, and the
 * player needs no table.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "replay.h"

/* ---- functions by name */

bool is_function(const struct function *function, const char *name)
{
	size_t length = strlen(name);
	const char *rest = function->name + length;

	return !strncmp(function->name, name, length) && (!*rest || !strcmp(rest, "_ptsz") || !strcmp(rest, "_ptds"));
}

static bool starts(const struct function *function, const char *start)
{
	return !strncmp(function->name, start, strlen(start));
}

/* Calls that need another process, or bytes of memory that are not recorded. */
static bool is_import(const struct function *f)
{
	return strstr(f->name, "Import") || strstr(f->name, "ExternalSemaphore") || strstr(f->name, "ExternalMemory") ||
		starts(f, "cuIpcOpen");
}

static enum memory memory_of(const struct function *f)
{
	if (is_function(f, "cuMemAlloc_v2") || is_function(f, "cuMemAllocPitch_v2"))
		return DEVICE_MEMORY;
	if (is_function(f, "cuMemAllocAsync") || is_function(f, "cuMemAllocFromPoolAsync"))
		return POOL_MEMORY;
	if (is_function(f, "cuMemAllocManaged"))
		return MANAGED_MEMORY;
	if (is_function(f, "cuMemAllocHost_v2") || is_function(f, "cuMemHostAlloc"))
		return HOST_MEMORY;
	if (is_function(f, "cuMemAddressReserve"))
		return ADDRESSES;
	return is_function(f, "cuMemCreate") ? PHYSICAL_MEMORY : NO_MEMORY;
}

static bool on_device(const struct object *object)
{
	return object->memory == DEVICE_MEMORY || object->memory == POOL_MEMORY || object->memory == PHYSICAL_MEMORY;
}

/* ---- objects by handle */

#define SLOTS	(1u << 16)

struct named {
	uint64_t value;
	char kind;
	uint32_t object, next;		/* next: 1 + the index */
};

static uint32_t slots[SLOTS];
static struct named *named;
static uint32_t named_count, named_room;
static uint64_t live;			/* bytes of device memory that the program has */

static struct named *handle_find(char kind, uint64_t value)
{
	uint32_t at = slots[(value >> 4 ^ value >> 20 ^ (unsigned char)kind) % SLOTS];

	while (at && (named[at - 1].value != value || named[at - 1].kind != kind))
		at = named[at - 1].next;
	return at ? &named[at - 1] : NULL;
}

static uint32_t object_new(char kind, uint64_t recorded)
{
	trace.object = must_grow(trace.object, trace.objects, &trace.object_room, sizeof(*trace.object));
	trace.object[trace.objects] = (struct object) { .kind = kind, .recorded = recorded };
	return trace.objects++;
}

static uint32_t handle_add(char kind, uint64_t value)
{
	struct named *old = handle_find(kind, value);
	uint32_t *slot = &slots[(value >> 4 ^ value >> 20 ^ (unsigned char)kind) % SLOTS], object = object_new(kind, value);

	if (old) {
		old->object = object;
		return object;
	}
	named = must_grow(named, named_count, &named_room, sizeof(*named));
	named[named_count] = (struct named) { .value = value, .kind = kind, .object = object, .next = *slot };
	*slot = ++named_count;
	return object;
}

/* ---- inputs */

struct position {
	uint16_t argument;
	bool data;
	uint32_t offset;
};

static void add_ref(struct item *item, struct position at, uint32_t object, uint64_t add)
{
	trace.ref = must_grow(trace.ref, trace.refs, &trace.ref_room, sizeof(*trace.ref));
	trace.ref[trace.refs++] = (struct ref) {
		.object = object, .argument = at.argument, .data = at.data, .offset = at.offset, .add = add,
	};
	item->ref_count++;
	if (object < HOST && trace.object[object].lost && !item->skip)
		item->skip = SKIP_DEPENDS;
}

static void fix(struct item *item, struct position at, uint64_t value)
{
	add_ref(item, at, FIXED, value);
}

static void use_handle(struct item *item, struct position at, char kind, uint64_t value)
{
	const struct named *found;

	/* 0, 1 and 2 are default streams. */
	if (value < PAGE && kind != 'g')
		return;
	found = handle_find(kind, value);
	if (found)
		add_ref(item, at, found->object, 0);
	else if (value)
		fix(item, at, kind == 'g' ? 0 : host_nowhere());
}

/*
 * Use an address: the @bytes from @addr + @origin on.  Memory that the driver did not allocate is host memory of the
 * program.
 */
static void use_address(struct item *item, struct position at, uint64_t addr, uint64_t origin, uint64_t bytes)
{
	uint32_t object;

	if (addr < PAGE)
		return;
	object = place_find(addr + origin);
	/* The program may have got the addresses of freed pinned memory from elsewhere since. */
	if (object != NONE && trace.object[object].memory == HOST_MEMORY && !trace.object[object].live)
		object = NONE;
	if (object != NONE) {
		const struct object *o = &trace.object[object];
		uint64_t offset = addr + origin - o->recorded;

		/* The driver may trust the program with host memory. */
		if (o->memory == HOST_MEMORY && (bytes > o->size || offset > o->size - bytes) && !item->skip)
			item->skip = SKIP_LIMIT;
		add_ref(item, at, object, addr - o->recorded);
		return;
	}
	if (bytes && (!host_need(addr + origin, bytes) || (item->call->result && bytes > 1u << 30))) {
		if (!item->skip)
			item->skip = SKIP_LIMIT;
		return;
	}
	add_ref(item, at, HOST, addr + origin);
	trace.ref[trace.refs - 1].origin = origin;
}

/* Several products of sizes of a damaged file may be too large: then no memory is large enough. */
static uint64_t times(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) || product > UINT64_MAX / 8 ? UINT64_MAX / 8 : product;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) || sum > UINT64_MAX / 8 ? UINT64_MAX / 8 : sum;
}

/* One end of a copy of a box. */
struct end {
	size_t type, host, device, array, context;	/* offsets of members; context: 0 if there is none */
	uint64_t x, y, z, pitch, height;
};

static uint64_t number_at(const struct trace_data *data, size_t offset)
{
	uint64_t value;

	memcpy(&value, (const char *)(data + 1) + offset, sizeof(value));
	return value;
}

static void use_end(struct item *item, unsigned int argument, const struct trace_data *data, const struct end *end,
		    uint64_t width, uint64_t height, uint64_t depth)
{
	const struct position host = { (uint16_t)argument, true, (uint32_t)end->host };
	const struct position device = { (uint16_t)argument, true, (uint32_t)end->device };
	const struct position array = { (uint16_t)argument, true, (uint32_t)end->array };
	uint64_t pitch = end->pitch ? end->pitch : width, rows = end->height ? end->height : height, origin, bytes = 0;
	uint32_t type = (uint32_t)number_at(data, end->type);

	origin = plus(end->x, plus(times(end->y, pitch), times(end->z, times(pitch, rows))));
	if (width && height && depth)
		bytes = plus(width, plus(times(height - 1, pitch), times(depth - 1, times(pitch, rows))));
	if (type == CU_MEMORYTYPE_HOST)
		use_address(item, host, number_at(data, end->host), origin, bytes);
	else
		fix(item, host, 0);
	if (type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED)
		use_address(item, device, number_at(data, end->device), origin, type == CU_MEMORYTYPE_UNIFIED ? bytes : 0);
	else
		fix(item, device, 0);
	if (type == CU_MEMORYTYPE_ARRAY)
		use_handle(item, array, 'a', number_at(data, end->array));
	else
		fix(item, array, 0);
	if (end->context)
		use_handle(item, (struct position) { (uint16_t)argument, true, (uint32_t)end->context }, 'c',
			   number_at(data, end->context));
}

#define END(type, copy, side, z_, height_, context_)	{						\
	offsetof(type, side ## MemoryType), offsetof(type, side ## Host), offsetof(type, side ## Device),	\
	offsetof(type, side ## Array), context_, (copy).side ## XInBytes, (copy).side ## Y, z_,			\
	(copy).side ## Pitch, height_ }

static void use_2d(struct item *item, unsigned int argument, const struct trace_data *data)
{
	CUDA_MEMCPY2D copy;

	memcpy(&copy, data + 1, sizeof(copy));
	use_end(item, argument, data, &(struct end) END(CUDA_MEMCPY2D, copy, src, 0, 0, 0), copy.WidthInBytes,
		copy.Height, 1);
	use_end(item, argument, data, &(struct end) END(CUDA_MEMCPY2D, copy, dst, 0, 0, 0), copy.WidthInBytes,
		copy.Height, 1);
}

/* CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER differ where the one has contexts. */
static void use_3d(struct item *item, unsigned int argument, const struct trace_data *data, bool peer)
{
	CUDA_MEMCPY3D_PEER copy;

	memcpy(&copy, data + 1, sizeof(copy));
	use_end(item, argument, data, &(struct end) END(CUDA_MEMCPY3D_PEER, copy, src, copy.srcZ, copy.srcHeight,
		peer ? offsetof(CUDA_MEMCPY3D_PEER, srcContext) : 0), copy.WidthInBytes, copy.Height, copy.Depth);
	use_end(item, argument, data, &(struct end) END(CUDA_MEMCPY3D_PEER, copy, dst, copy.dstZ, copy.dstHeight,
		peer ? offsetof(CUDA_MEMCPY3D_PEER, dstContext) : 0), copy.WidthInBytes, copy.Height, copy.Depth);
}

static void use_operand(struct item *item, unsigned int argument, uint32_t offset, const CUmemcpy3DOperand *operand,
			const CUextent3D *extent)
{
	uint64_t row, rows, bytes = 0;

	if (operand->type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
		use_handle(item, (struct position) { (uint16_t)argument, true,
			   offset + (uint32_t)offsetof(CUmemcpy3DOperand, op.array.array) }, 'a',
			   (uintptr_t)operand->op.array.array);
		return;
	}
	row = operand->op.ptr.rowLength ? operand->op.ptr.rowLength : extent->width;
	rows = operand->op.ptr.layerHeight ? operand->op.ptr.layerHeight : extent->height;
	if (extent->width && extent->height && extent->depth)
		bytes = plus(extent->width, plus(times(extent->height - 1, row), times(extent->depth - 1, times(row, rows))));
	/* Elements of an array on the other side have 16 bytes at most. */
	use_address(item, (struct position) { (uint16_t)argument, true,
		    offset + (uint32_t)offsetof(CUmemcpy3DOperand, op.ptr.ptr) }, operand->op.ptr.ptr, 0, bytes);
}

static void use_box(struct item *item, unsigned int argument, uint32_t offset, const char *at)
{
	CUDA_MEMCPY3D_BATCH_OP op;
	CUextent3D extent;

	memcpy(&op, at, sizeof(op));
	extent = op.extent;
	if (op.src.type == CU_MEMCPY_OPERAND_TYPE_ARRAY || op.dst.type == CU_MEMCPY_OPERAND_TYPE_ARRAY)
		extent.width = times(extent.width, 16);
	use_operand(item, argument, offset + (uint32_t)offsetof(CUDA_MEMCPY3D_BATCH_OP, src), &op.src, &extent);
	use_operand(item, argument, offset + (uint32_t)offsetof(CUDA_MEMCPY3D_BATCH_OP, dst), &op.dst, &extent);
}

static void use_map_info(struct item *item, unsigned int argument, uint32_t offset, const char *at)
{
	const struct position resource = { (uint16_t)argument, true,
					   offset + (uint32_t)offsetof(CUarrayMapInfo, resource) };
	const struct position memory = { (uint16_t)argument, true,
					 offset + (uint32_t)offsetof(CUarrayMapInfo, memHandle) };
	CUarrayMapInfo info;

	memcpy(&info, at, sizeof(info));
	use_handle(item, resource, info.resourceType == CU_RESOURCE_TYPE_ARRAY ? 'a' : 'm',
		   (uintptr_t)info.resource.array);
	if (info.memOperationType == CU_MEM_OPERATION_TYPE_MAP)
		use_handle(item, memory, 'g', info.memHandle.memHandle);
}

static void use_mem_op(struct item *item, unsigned int argument, uint32_t offset, const char *at)
{
	size_t address = offsetof(CUstreamBatchMemOpParams, waitValue.address);
	CUstreamBatchMemOpParams op;

	memcpy(&op, at, sizeof(op));
	switch (op.operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		use_address(item, (struct position) { (uint16_t)argument, true, offset + (uint32_t)address },
			    op.waitValue.address, 0, 0);
		break;
	case CU_STREAM_MEM_OP_ATOMIC_REDUCTION:
		address = offsetof(CUstreamBatchMemOpParams, atomicReduction.address);
		use_address(item, (struct position) { (uint16_t)argument, true, offset + (uint32_t)address },
			    op.atomicReduction.address, 0, 0);
		break;
	default:
		break;
	}
}

static void use_structure(struct item *item, unsigned int argument, const struct trace_data *data, uint32_t offset)
{
	const char *at = (const char *)(data + 1) + offset;

	switch (item->function->parameter[argument].structure) {
	case IS_CUDA_MEMCPY2D:
		use_2d(item, argument, data);
		break;
	case IS_CUDA_MEMCPY3D:
	case IS_CUDA_MEMCPY3D_PEER:
		use_3d(item, argument, data, item->function->parameter[argument].structure == IS_CUDA_MEMCPY3D_PEER);
		break;
	case IS_CUDA_MEMCPY3D_BATCH_OP:
		use_box(item, argument, offset, at);
		break;
	case IS_CUarrayMapInfo:
		use_map_info(item, argument, offset, at);
		break;
	case IS_CUstreamBatchMemOpParams:
		use_mem_op(item, argument, offset, at);
		break;
	case IS_CUmemPoolProps:
		fix(item, (struct position) { (uint16_t)argument, true,
		    (uint32_t)offsetof(CUmemPoolProps, win32SecurityAttributes) }, 0);
		break;
	case IS_CUmemAllocationProp:
		fix(item, (struct position) { (uint16_t)argument, true,
		    (uint32_t)offsetof(CUmemAllocationProp, win32HandleMetaData) }, 0);
		break;
	}
}

/* The bytes of element @index of a batch of copies. */
static uint64_t batch_bytes(const struct item *item, uint32_t index)
{
	const struct trace_data *sizes;
	unsigned int i;

	if (!starts(item->function, "cuMemcpyBatch"))
		return 0;
	for (i = 0; i < item->function->count; i++)
		if (!strncmp(item->function->parameter[i].name, "sizes:", 6)) {
			sizes = call_data(item, i);
			return sizes && sizes->bytes / 8 > index ? number_at(sizes, index * 8u) : 0;
		}
	return 0;
}

static void use_data(struct item *item, unsigned int argument)
{
	const struct parameter *p = &item->function->parameter[argument];
	const struct trace_data *data = call_data(item, argument);
	uint32_t offset;

	if (!data)
		return;
	for (offset = 0; p->bytes && offset + p->bytes <= data->bytes; offset += p->bytes) {
		const struct position at = { (uint16_t)argument, true, offset };

		if (p->kind == '{')
			use_structure(item, argument, data, offset);
		else if (p->kind == 'A')
			use_address(item, at, number_at(data, offset), 0, batch_bytes(item, offset / 8));
	}
}

/* The bytes of memory that a fill or a range of managed memory has: their calls name no size of their own. */
static uint64_t bytes_used(const struct item *item)
{
	const uint64_t *values = call_values(item);
	uint64_t element;

	if (starts(item->function, "cuMemPrefetchAsync") || starts(item->function, "cuMemAdvise"))
		return values[1];
	if (!starts(item->function, "cuMemset"))
		return 0;
	element = strstr(item->function->name, "D32") || strstr(item->function->name, "D2D32") ? 4 :
		strstr(item->function->name, "D16") || strstr(item->function->name, "D2D16") ? 2 : 1;
	if (!strstr(item->function->name, "D2D"))
		return times(values[2], element);
	if (!values[3] || !values[4])
		return 0;
	return plus(times(values[3], element), times(values[4] - 1, values[1]));
}

static void use_value(struct item *item, unsigned int argument)
{
	const struct parameter *p = &item->function->parameter[argument];
	const struct position at = { (uint16_t)argument, false, 0 };
	const uint64_t *values = call_values(item);
	uint64_t value = values[argument];

	switch (p->kind) {
	case 'A':
		use_address(item, at, value, 0, p->size >= 0 ? values[p->size] : bytes_used(item));
		break;
	case 'h':
		if (place_find(value) != NONE)
			use_address(item, at, value, 0, 0);
		else
			fix(item, at, 0);
		break;
	case 's':
		if (!item->streams && value >= PAGE && handle_find('s', value))
			item->stream = handle_find('s', value)->object;
		item->streams = true;
		use_handle(item, at, 's', value);
		break;
	case 'e': case 'c': case 'p': case 'a': case 'm': case 'g':
		use_handle(item, at, p->kind, value);
		break;
	case 'x': case 'y':
		if (handle_find(p->kind, value))
			use_handle(item, at, p->kind, value);
		else if (!item->skip)
			item->skip = SKIP_DEPENDS;
		break;
	case 'z': case 'u':
		fix(item, at, 0);
		break;
	}
}

/* ---- waits for values */

struct write {
	uint64_t addr, value;
};

static struct write *writes;
static uint32_t write_count, write_room;

static void add_write(uint64_t addr, uint64_t value)
{
	writes = must_grow(writes, write_count, &write_room, sizeof(*writes));
	writes[write_count++] = (struct write) { addr, value };
}

/* A call that is replayed, and writes a value of which the trace knows what it is. */
static void note_writes(const struct item *item)
{
	const struct function *f = item->function;
	const uint64_t *values = call_values(item);
	const struct trace_data *data;
	uint32_t i;

	if (item->call->result)
		return;
	if (starts(f, "cuStreamWriteValue")) {
		add_write(values[1], values[2]);
	} else if (is_function(f, "cuMemsetD32_v2") || is_function(f, "cuMemsetD32Async")) {
		add_write(values[0], values[1]);
	} else if (starts(f, "cuStreamBatchMemOp") && (data = call_data(item, 2))) {
		for (i = 0; i < data->bytes / sizeof(CUstreamBatchMemOpParams); i++) {
			CUstreamBatchMemOpParams op;

			memcpy(&op, (const char *)(data + 1) + i * sizeof(op), sizeof(op));
			if (op.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32)
				add_write(op.writeValue.address, op.writeValue.value);
			else if (op.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64)
				add_write(op.writeValue.address, op.writeValue.value64);
		}
	}
}

static bool satisfies(uint64_t word, uint64_t value, unsigned int flags, bool wide)
{
	switch (flags & 3) {
	case CU_STREAM_WAIT_VALUE_EQ:
		return word == value;
	case CU_STREAM_WAIT_VALUE_AND:
		return word & value;
	case CU_STREAM_WAIT_VALUE_NOR:
		return wide ? ~(word | value) : ~(uint32_t)(word | value);
	}
	return wide ? (int64_t)(word - value) >= 0 : (int32_t)(uint32_t)(word - value) >= 0;
}

static int by_addr(const void *a, const void *b)
{
	const struct write *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* Whether a write of the trace satisfies the wait. */
static bool is_written(uint64_t addr, uint64_t value, unsigned int flags, bool wide)
{
	uint32_t low = 0, high = write_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (writes[middle].addr < addr)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < write_count && writes[low].addr == addr; low++)
		if (satisfies(writes[low].value, value, flags, wide))
			return true;
	return false;
}

static void check_wait(struct item *item)
{
	const uint64_t *values = call_values(item);
	const struct trace_data *data;
	uint32_t i;

	if (item->call->result)
		return;
	if (starts(item->function, "cuStreamWaitValue")) {
		item->satisfy = !is_written(values[1], values[2], (unsigned int)values[3],
					    starts(item->function, "cuStreamWaitValue64"));
	} else if (starts(item->function, "cuStreamBatchMemOp") && (data = call_data(item, 2))) {
		for (i = 0; i < data->bytes / sizeof(CUstreamBatchMemOpParams); i++) {
			CUstreamBatchMemOpParams op;

			memcpy(&op, (const char *)(data + 1) + i * sizeof(op), sizeof(op));
			if (op.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32)
				item->satisfy |= !is_written(op.waitValue.address, op.waitValue.value, op.waitValue.flags, false);
			else if (op.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64)
				item->satisfy |= !is_written(op.waitValue.address, op.waitValue.value64, op.waitValue.flags,
							     true);
		}
	}
}

/* ---- begins and ends */

static void released(uint32_t object)
{
	struct object *o = object == NONE ? NULL : &trace.object[object];

	if (!o || !o->live)
		return;
	o->live = false;
	if (on_device(o))
		live -= o->size;
}

/* What the call frees. */
static void release(const struct item *item)
{
	const struct function *f = item->function;
	uint64_t value = item->call->count ? call_values(item)[0] : 0;
	const struct named *handle;

	if (item->call->result)
		return;
	if (is_function(f, "cuMemFree_v2") || is_function(f, "cuMemFreeAsync") || is_function(f, "cuMemFreeHost")) {
		released(place_find(value));
	} else if (is_function(f, "cuMemRelease")) {
		handle = handle_find('g', value);
		if (handle)
			released(handle->object);
	}
}

static void begin_sample(struct item *item)
{
	const struct trace_pool *pool = sample_pools(item->memory);
	uint32_t i;

	for (i = 0; i < item->memory->pools; i++)
		use_handle(item, (struct position) { (uint16_t)i, false, 0 }, 'p', pool[i].pool);
}

static void begin(struct item *item)
{
	unsigned int i;

	item->refs = trace.refs;
	if (item->sample) {
		begin_sample(item);
		return;
	}
	if (!item->function || !item->call->count)
		return;
	if (is_import(item->function) && !item->skip)
		item->skip = SKIP_IMPORT;
	for (i = 0; i < item->function->count; i++) {
		if (item->function->parameter[i].direction == BY_VALUE)
			use_value(item, i);
		else if (item->function->parameter[i].direction == INPUT)
			use_data(item, i);
	}
	release(item);
}

static void made(struct item *item, unsigned int argument, uint32_t object, uint64_t size)
{
	struct object *o = &trace.object[object];

	o->lost = item->skip;
	o->memory = (uint8_t)memory_of(item->function);
	o->size = size;
	o->live = o->memory != NO_MEMORY;
	if (on_device(o))
		live += size;
	trace.def = must_grow(trace.def, trace.defs, &trace.def_room, sizeof(*trace.def));
	trace.def[trace.defs++] = (struct def) { .object = object, .argument = (uint16_t)argument };
	item->def_count++;
}

static void made_memory(struct item *item, unsigned int argument, uint64_t addr)
{
	const struct parameter *p = &item->function->parameter[argument];
	const uint64_t *values = call_values(item);
	const struct trace_data *pitch;
	uint64_t size;
	uint32_t object;

	if (p->size >= 0) {
		size = values[p->size];
	} else if (is_function(item->function, "cuMemAllocPitch_v2")) {
		pitch = call_data(item, 1);
		size = pitch ? times(number_at(pitch, 0), values[3]) : 0;
	} else if (starts(item->function, "cuMemHostGetDevicePointer")) {
		/* Registered memory is memory of the program, whose size each call names. */
		return;
	} else if (item->skip || !starts(item->function, "cuMemGetAddressRange")) {
		/* An address of memory that is known, or memory of another process, of a size that is not known. */
		if (place_find(addr) != NONE)
			return;
		size = place_room(addr) < 1u << 30 ? place_room(addr) : 1u << 30;
	} else {
		return;
	}
	object = object_new('A', addr);
	made(item, argument, object, size);
	place_add(object);
}

static void end(struct item *item)
{
	const struct trace_data *data;
	unsigned int i;

	item->defs = trace.defs;
	if (item->sample || !item->function || !item->call->count || item->call->result) {
		item->live = live;
		return;
	}
	for (i = 0; i < item->function->count; i++) {
		const struct parameter *p = &item->function->parameter[i];

		if (p->direction != OUTPUT || !strchr("Asecpamgxy", p->kind))
			continue;
		data = call_data(item, i);
		if (!data || (!number_at(data, 0) || (p->kind == 's' && number_at(data, 0) < PAGE)))
			continue;
		if (p->kind == 'A')
			made_memory(item, i, number_at(data, 0));
		else
			made(item, i, handle_add(p->kind, number_at(data, 0)), p->kind == 'g' ? call_values(item)[1] : 0);
	}
	item->live = live;
}

static bool is_replayed(const struct item *item)
{
	return !item->sample && !item->skip && item->call->count;
}

void resolve(void)
{
	uint32_t begun = 0, ended = 0, i;

	while (ended < trace.items) {
		struct item *next = &trace.item[trace.order[ended]];

		if (begun < trace.items && trace.item[begun].begin < next->end) {
			begin(&trace.item[begun++]);
			continue;
		}
		end(next);
		ended++;
	}
	for (i = 0; i < trace.items; i++)
		if (is_replayed(&trace.item[i]))
			note_writes(&trace.item[i]);
	if (write_count)
		qsort(writes, write_count, sizeof(*writes), by_addr);
	for (i = 0; i < trace.items; i++)
		if (is_replayed(&trace.item[i]))
			check_wait(&trace.item[i]);
	host_make();
	for (i = 0; i < trace.refs; i++)
		if (trace.ref[i].object == HOST) {
			trace.ref[i].object = FIXED;
			trace.ref[i].add = host_address(trace.ref[i].add) - trace.ref[i].origin;
		}
}
