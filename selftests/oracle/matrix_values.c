// SPDX-License-Identifier: GPL-2.0
/*
 * Makes the values of arguments, by kind: the good value and all others. matrix.c lists the kinds.
 *
 * Owns the objects that the good values name. Locks: none.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "matrix.h"

#define BYTES	(64u << 10)		/* size of each buffer */

/* The good objects that the cases of this process use. */
static struct {
	CUdevice device;
	CUdeviceptr d, e, m, freed;
	void *pinned;
	CUstream stream;
	CUevent event, timed, shared;
	CUmemoryPool pool;
	CUarray array;
	CUmipmappedArray mipmap;
} good;

bool initialized;
CUcontext context;

static uint8_t outputs[ARGS][OUTPUT];
static _Alignas(4096) uint8_t host[BYTES], unregistered[BYTES], junk[4096];
/* Structures that arguments point at. */
static union {
	CUmemLocation location;
	CUmemAccessDesc access;
	CUmemPoolProps pool;
	CUDA_ARRAY_DESCRIPTOR array;
	CUDA_ARRAY3D_DESCRIPTOR array3;
	CUDA_MEMCPY2D copy2;
	CUDA_MEMCPY3D copy3;
	CUDA_MEMCPY3D_PEER peer;
	CUstreamBatchMemOpParams op;
	CUmemcpyAttributes attributes;
	CUdeviceptr address;
	size_t size;
	unsigned int number;
	void *pointer;
	CUDA_MEMCPY3D_BATCH_OP batch;
	struct by_value handle;
} place[ARGS];

static void add(struct others *others, const char *name, uint64_t value, bool wrong)
{
	struct other *o = &others->of[others->count++];

	snprintf(o->name, sizeof(o->name), "%s", name);
	o->value = value;
	o->variant = 0;
	o->wrong = wrong;
}

static void add_variants(struct others *others, unsigned int count)
{
	unsigned int i;

	add(others, "null", 0, true);
	for (i = 1; i <= count; i++) {
		char name[24];

		snprintf(name, sizeof(name), "variant%u", i);
		add(others, name, 0, i <= 2);
		others->of[others->count - 1].variant = i;
	}
}

static void add_handle(struct others *others)
{
	add(others, "null", 0, true);
	add(others, "junk", (uintptr_t)junk, true);
}

static void add_numbers(struct others *others, unsigned int bits, bool large)
{
	if (large) {
		add(others, "2^50", 1ull << 50, false);
	} else {
		add(others, "int", INT32_MAX, false);
		add(others, "uint", UINT32_MAX, bits == 32);
	}
	add(others, "0", 0, true);
	add(others, "1", 1, false);
	if (bits == 32)
		return;
	add(others, "long", INT64_MAX, false);
	add(others, "ulong", UINT64_MAX, true);
}

static void add_bits(struct others *others, unsigned int bits)
{
	char name[24];
	unsigned int i;

	for (i = 0; i < 32; i++) {
		snprintf(name, sizeof(name), "bit%u", i);
		add(others, name, 1ull << i, i == 31);
	}
	if (bits == 64)
		add(others, "bit63", 1ull << 63, false);
	add(others, "all", bits == 64 ? UINT64_MAX : UINT32_MAX, false);
}

static void add_enum(struct others *others)
{
	char name[24];
	int i;

	for (i = -1; i < 40; i++) {
		snprintf(name, sizeof(name), "%d", i);
		add(others, name, (uint32_t)i, false);
	}
	add(others, "9999", 9999, true);
}

void others_of(const char *kind, struct others *others)
{
	others->count = 0;
	switch (kind[0]) {
	case 'o':
		add(others, "null", 0, true);
		break;
	case 'd':
	case 'e':
		add(others, "null", 0, true);
		add(others, "wild", 0x10000, true);
		add(others, "inner", kind[1] ? 1 : 0, false);
		others->of[others->count - 1].variant = 1;
		add(others, "freed", 0, false);
		others->of[others->count - 1].variant = 2;
		break;
	case 'm':
		add(others, "null", 0, true);
		add(others, "wild", 0x10000, true);
		add(others, "device", 0, false);
		others->of[others->count - 1].variant = 1;
		break;
	case 'h':
		add(others, "null", 0, true);
		if (kind[1]) {
			add(others, "plain", (uintptr_t)host, true);
			add(others, "odd", (uintptr_t)unregistered + 1, false);
		}
		break;
	case 'n':
		add_numbers(others, 64, false);
		break;
	case 'a':
		add_numbers(others, 64, true);
		break;
	case 'u':
		add_numbers(others, 32, false);
		break;
	case 'x':
		add_enum(others);
		break;
	case 'f':
		add_bits(others, 32);
		break;
	case 'g':
		add_bits(others, 64);
		break;
	case 's':
		add(others, "junk", (uintptr_t)junk, true);
		add(others, "null", 0, false);
		add(others, "legacy", 1, false);
		add(others, "thread", 2, false);
		add(others, "3", 3, false);
		break;
	case 'v':
	case 'c':
	case 'r':
	case 'q':
		add_handle(others);
		break;
	case 'p':
		if (!kind[1] || kind[1] == 'f')
			add_handle(others);
		else
			add_variants(others, 1);
		break;
	case 'i':
		add(others, "9999", 9999, true);
		add(others, "-1", (uint32_t)-1, true);
		add(others, "int", INT32_MAX, false);
		add(others, "least", (uint32_t)INT32_MIN, false);
		break;
	case 'l':
		add_variants(others, 6);
		if (kind[1] == 'v')	/* by value: no "null" */
			others->of[0] = others->of[--others->count];
		break;
	case 'w':
		add_variants(others, 4);
		break;
	case 'y':
		add_variants(others, 7);
		break;
	case 't':
		add_variants(others, 8);
		break;
	case 'z':
		add_variants(others, 8);
		break;
	case 'b':
	case '3':
		add_variants(others, 2);
		break;
	case 'H':
		add_variants(others, 2);
		others->of[0] = others->of[--others->count];	/* by value: no "null" */
		break;
	case 'j':
		add(others, "null", 0, true);
		break;
	}
}

/* ---- structures; variant 0 is good */

static CUmemLocation location(unsigned int variant)
{
	static const CUmemLocation of[] = {
		{ .type = CU_MEM_LOCATION_TYPE_DEVICE },
		{ .type = CU_MEM_LOCATION_TYPE_INVALID },
		{ .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 99 },
		{ .type = (CUmemLocationType)99 },
		{ .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = -1 },
		{ .type = CU_MEM_LOCATION_TYPE_HOST },
		{ .type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 99 },
	};

	return of[variant];
}

static void fill_pool(CUmemPoolProps *p, unsigned int variant)
{
	p->allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	p->location = location(0);
	switch (variant) {
	case 1:
		p->allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
		break;
	case 2:
		p->location = location(1);
		break;
	case 3:
		p->location = location(2);
		break;
	case 4:
		p->handleTypes = (CUmemAllocationHandleType)0x80;
		break;
	case 5:
		p->maxSize = UINT64_MAX;
		break;
	case 6:
		p->usage = 0x8000;
		break;
	case 7:
		p->reserved[0] = 1;
		break;
	}
}

static void fill_array3(CUDA_ARRAY3D_DESCRIPTOR *a, unsigned int variant)
{
	a->Width = 64;
	a->Height = 4;
	a->Format = CU_AD_FORMAT_UNSIGNED_INT8;
	a->NumChannels = 1;
	switch (variant) {
	case 1:
		a->Width = 0;
		break;
	case 2:
		a->Format = (CUarray_format)0;
		break;
	case 3:
		a->NumChannels = 3;
		break;
	case 4:
		a->NumChannels = 0;
		break;
	case 5:
		a->Width = SIZE_MAX;
		break;
	case 6:
		a->Height = SIZE_MAX;
		break;
	case 7:
		a->Format = (CUarray_format)9999;
		break;
	case 8:
		a->Flags = 0x80000000u;
		break;
	}
}

static void fill_array(CUDA_ARRAY_DESCRIPTOR *a, unsigned int variant)
{
	CUDA_ARRAY3D_DESCRIPTOR of = { 0 };

	fill_array3(&of, variant);
	a->Width = of.Width;
	/* CUDA_ARRAY_DESCRIPTOR has no flags, so variant 8 is a height of 0. */
	a->Height = variant == 8 ? 0 : of.Height;
	a->Format = of.Format;
	a->NumChannels = of.NumChannels;
}

#define FILL_COPY(c, variant) do { \
	(c)->srcMemoryType = CU_MEMORYTYPE_DEVICE; \
	(c)->srcDevice = good.e; \
	(c)->srcPitch = 256; \
	(c)->dstMemoryType = CU_MEMORYTYPE_DEVICE; \
	(c)->dstDevice = good.d; \
	(c)->dstPitch = 256; \
	(c)->WidthInBytes = 64; \
	(c)->Height = 4; \
	switch (variant) { \
	case 1: \
		(c)->srcMemoryType = (CUmemorytype)0; \
		break; \
	case 2: \
		(c)->dstDevice = 0; \
		break; \
	case 3: \
		(c)->dstMemoryType = (CUmemorytype)99; \
		break; \
	case 4: \
		(c)->srcPitch = 32; \
		break; \
	case 5: \
		(c)->WidthInBytes = 0; \
		break; \
	case 6: \
		(c)->Height = SIZE_MAX; \
		break; \
	case 7: \
		(c)->WidthInBytes = SIZE_MAX; \
		break; \
	case 8: \
		(c)->srcMemoryType = CU_MEMORYTYPE_ARRAY; \
		break; \
	} \
} while (0)

static void fill_op(CUstreamBatchMemOpParams *op, unsigned int variant)
{
	op->operation = variant == 1 ? (CUstreamBatchMemOpType)99 : CU_STREAM_MEM_OP_WRITE_VALUE_32;
	op->writeValue.address = variant == 2 ? 0 : good.d;
}

static void fill_batch(CUDA_MEMCPY3D_BATCH_OP *op, unsigned int variant)
{
	op->src.type = variant == 1 ? (CUmemcpy3DOperandType)99 : CU_MEMCPY_OPERAND_TYPE_POINTER;
	op->src.op.ptr.ptr = good.e;
	op->dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
	op->dst.op.ptr.ptr = variant == 2 ? 0 : good.d;
	op->extent.width = 64;
	op->extent.height = 4;
	op->extent.depth = 1;
	op->srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
}

static void fill_handle(struct by_value *handle, const char *kind, unsigned int variant)
{
	memset(handle, variant == 2 ? 0xff : 0, sizeof(*handle));
	if (variant || !initialized)
		return;
	if (kind[1] == 'm')
		cuIpcGetMemHandle((CUipcMemHandle *)handle, good.d);
	else
		cuIpcGetEventHandle((CUipcEventHandle *)handle, good.shared);
}

static uint64_t structure(const char *kind, unsigned int n, unsigned int variant)
{
	memset(&place[n], 0, sizeof(place[n]));
	switch (kind[0]) {
	case 'l':
		place[n].location = location(variant);
		break;
	case 'w':
		place[n].access.location = location(variant < 4 ? variant : 0);
		place[n].access.flags = variant == 4 ? (CUmemAccess_flags)99 :
			CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
		break;
	case 'y':
		fill_pool(&place[n].pool, variant);
		break;
	case 't':
		if (kind[1] == '2')
			fill_array(&place[n].array, variant);
		else
			fill_array3(&place[n].array3, variant);
		break;
	case 'z':
		if (kind[1] == '2') {
			FILL_COPY(&place[n].copy2, variant);
		} else if (kind[1] == '3') {
			FILL_COPY(&place[n].copy3, variant);
			place[n].copy3.Depth = 1;
		} else {
			FILL_COPY(&place[n].peer, variant);
			place[n].peer.srcContext = context;
			place[n].peer.dstContext = context;
			place[n].peer.Depth = 1;
		}
		break;
	case 'b':
		fill_op(&place[n].op, variant);
		break;
	case '3':
		fill_batch(&place[n].batch, variant);
		break;
	case 'H':
		fill_handle(&place[n].handle, kind, variant);
		break;
	case 'p':
		if (kind[1] == 'd' || kind[1] == 'e')
			place[n].address = variant ? 0x10000 : kind[1] == 'd' ? good.d : good.e;
		else if (kind[1] == 's')
			place[n].size = variant ? SIZE_MAX : 4096;
		else if (kind[1] == 'x')
			place[n].size = variant;
		else if (kind[1] == 'l')
			place[n].location = location(variant);
		else if (kind[1] == 'n')
			place[n].number = variant ? 9999 : CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
		else if (kind[1] == 'm')
			place[n].number = variant ? 9999 : CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY;
		else if (kind[1] == 'v')
			place[n].pointer = variant ? NULL : outputs[n];
		else
			place[n].attributes.srcAccessOrder = variant ?
				(CUmemcpySrcAccessOrder)99 : CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
		break;
	}
	return (uintptr_t)&place[n];
}

/* ---- good values */

static void CUDA_CB nothing(void *data)
{
	(void)data;
}

static void CUDA_CB called_back(CUstream stream, CUresult status, void *data)
{
	(void)stream;
	(void)status;
	(void)data;
}

static void need(CUresult result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "matrix: %s: %d\n", what, result);
	exit(3);
}

#define NEED(call) need(call, #call)

static CUmemoryPool new_pool(void)
{
	CUmemPoolProps props = { 0 };
	CUmemoryPool pool;

	fill_pool(&props, 0);
	NEED(cuMemPoolCreate(&pool, &props));
	return pool;
}

void prepare(void)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = { 0 };

	NEED(cuInit(0));
	NEED(cuDeviceGet(&good.device, 0));
	NEED(cuDevicePrimaryCtxRetain(&context, good.device));
	NEED(cuCtxSetCurrent(context));
	NEED(cuMemAlloc(&good.d, BYTES));
	NEED(cuMemAlloc(&good.e, BYTES));
	NEED(cuMemsetD8(good.d, 0, BYTES));
	NEED(cuMemAlloc(&good.freed, 8u << 20));
	NEED(cuMemFree(good.freed));
	NEED(cuMemAllocManaged(&good.m, BYTES, CU_MEM_ATTACH_GLOBAL));
	NEED(cuMemHostAlloc(&good.pinned, BYTES, 0));
	NEED(cuStreamCreate(&good.stream, CU_STREAM_NON_BLOCKING));
	NEED(cuEventCreate(&good.event, CU_EVENT_DISABLE_TIMING));
	NEED(cuEventCreate(&good.timed, 0));
	NEED(cuEventRecord(good.timed, good.stream));
	NEED(cuEventCreate(&good.shared, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
	good.pool = new_pool();
	fill_array3(&desc, 0);
	NEED(cuArray3DCreate(&good.array, &desc));
	NEED(cuMipmappedArrayCreate(&good.mipmap, &desc, 1));
	NEED(cuCtxSynchronize());
}

/* A new object for a function that destroys it. Before cuInit(): the address of junk. */
static uint64_t fresh(const char *kind)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = { 0 };
	CUmipmappedArray mipmap;
	CUdeviceptr ptr;
	CUstream stream;
	CUarray array;
	CUevent event;
	void *p;

	if (!initialized)
		return (uintptr_t)junk;
	fill_array3(&desc, 0);
	switch (kind[0]) {
	case 'd':
		if (kind[1] == 'a')
			NEED(cuMemAllocAsync(&ptr, 4096, good.stream));
		else
			NEED(cuMemAlloc(&ptr, 4096));
		return ptr;
	case 'h':
		NEED(cuMemHostAlloc(&p, 4096, 0));
		return (uintptr_t)p;
	case 's':
		NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
		return (uintptr_t)stream;
	case 'v':
		NEED(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
		return (uintptr_t)event;
	case 'p':
		return (uintptr_t)new_pool();
	case 'r':
		NEED(cuArray3DCreate(&array, &desc));
		return (uintptr_t)array;
	default:
		NEED(cuMipmappedArrayCreate(&mipmap, &desc, 1));
		return (uintptr_t)mipmap;
	}
}

static bool is_fresh(const char *kind)
{
	return strchr("dhsvprq", kind[0]) && (kind[1] == 'f' || kind[1] == 'a') &&
	       !(kind[0] == 'p' && kind[1] == 'a');
}

void stale(const char *kind, uint64_t value)
{
	if (!is_fresh(kind))
		return;
	switch (kind[0]) {
	case 'd':
		cuMemFree(value);
		break;
	case 'h':
		cuMemFreeHost((void *)(uintptr_t)value);
		break;
	case 's':
		cuStreamDestroy((CUstream)(uintptr_t)value);
		break;
	case 'v':
		cuEventDestroy((CUevent)(uintptr_t)value);
		break;
	case 'p':
		cuMemPoolDestroy((CUmemoryPool)(uintptr_t)value);
		break;
	case 'r':
		cuArrayDestroy((CUarray)(uintptr_t)value);
		break;
	default:
		cuMipmappedArrayDestroy((CUmipmappedArray)(uintptr_t)value);
	}
}

uint64_t good_value(const char *kind, unsigned int n)
{
	if (is_fresh(kind))
		return fresh(kind);
	switch (kind[0]) {
	case 'o':
		return (uintptr_t)outputs[n];
	case 'd':
		return good.d;
	case 'e':
		return good.e;
	case 'm':
		return good.m;
	case 'h':
		return kind[1] == 'p' ? (uintptr_t)good.pinned :
			kind[1] == 'r' ? (uintptr_t)unregistered : (uintptr_t)host;
	case 's':
		return (uintptr_t)good.stream;
	case 'v':
		return (uintptr_t)(kind[1] == 't' ? good.timed : good.event);
	case 'p':
		return kind[1] ? structure(kind, n, 0) : (uintptr_t)good.pool;
	case 'c':
		return (uintptr_t)context;
	case 'i':
		return good.device;
	case 'r':
		return (uintptr_t)good.array;
	case 'q':
		return (uintptr_t)good.mipmap;
	case 'j':
		return kind[1] == 'f' ? (uintptr_t)nothing : (uintptr_t)called_back;
	case 'n':
	case 'a':
	case 'u':
	case 'k':
	case 'x':
	case 'f':
	case 'g':
		return strtoll(kind + 1, NULL, 10);
	default:
		return structure(kind, n, 0);
	}
}

uint64_t other_value(const char *kind, unsigned int n, const struct other *o, uint64_t value)
{
	if (!o->variant)
		return o->value;
	switch (kind[0]) {
	case 'd':
	case 'e':
		return o->variant == 1 ? value + 256 : good.freed;
	case 'm':
		return good.d;
	default:
		return structure(kind, n, o->variant);
	}
}

void outputs_reset(void)
{
	memset(outputs, KEPT, sizeof(outputs));
	memset(host, 0, 64);
	/* The word that a stream waits for must not depend on the cases before. */
	if (initialized)
		NEED(cuMemsetD8(good.d, 0, 64));
}

const char *output_state(unsigned int n, unsigned int bytes)
{
	bool kept = true, zero = true;

	for (unsigned int i = 0; i < bytes; i++) {
		kept &= outputs[n][i] == KEPT;
		zero &= !outputs[n][i];
	}
	return kept ? "kept" : zero ? "zero" : "set";
}

void undo(enum makes makes, const uint64_t *arg)
{
	uint64_t made;

	memcpy(&made, outputs[0], sizeof(made));
	switch (makes) {
	case MEMORY:
		cuMemFree(made);
		break;
	case ASYNC:
		/* An allocation of no bytes makes nothing. */
		if (made)
			cuMemFreeAsync(made, good.stream);
		break;
	case HOST:
		cuMemFreeHost((void *)(uintptr_t)made);
		break;
	case STREAM:
		cuStreamDestroy((CUstream)(uintptr_t)made);
		break;
	case EVENT:
		cuEventDestroy((CUevent)(uintptr_t)made);
		break;
	case POOL:
		cuMemPoolDestroy((CUmemoryPool)(uintptr_t)made);
		break;
	case ARRAY:
		cuArrayDestroy((CUarray)(uintptr_t)made);
		break;
	case MIPMAP:
		cuMipmappedArrayDestroy((CUmipmappedArray)(uintptr_t)made);
		break;
	case REGISTERED:
		cuMemHostUnregister((void *)(uintptr_t)arg[0]);
		break;
	case OPENED:
		cuIpcCloseMemHandle(made);
		break;
	case NOTHING:
		break;
	}
}
