// SPDX-License-Identifier: MIT
/*
 * The API's chapter "Unified Addressing": attributes of addresses.
 *
 * Owns nothing: every answer comes from one lookup (address/vm.c), without a lock or a system call.
 *
 * If the library does not know an address, cuPointerGetAttribute() fails and writes nothing.
 * cuPointerGetAttributes() succeeds and writes null values, except for the range attributes, which it does not
 * write. NVIDIA's driver did the same in the recording.
 *
 * Vocabulary: width, how many bytes an attribute's value has.
 */
#include <sys/mman.h>

#include "driver/driver.h"
#include "core/codec.h"

union value {
	uint32_t u32;
	int32_t s32;
	uint64_t u64;
	unsigned char bytes[16];
};

static unsigned int width_of(CUpointer_attribute attribute)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
		return 12;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		return 4;
	default:
		return 8;
	}
}

/* As recorded, the rights of the current context's device; none without a context. */
static uint32_t mapping_rights(const struct span *span)
{
	CUcontext ctx = ctx_top();
	uint32_t rights = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;

	if (ctx && vmm_allows(span, ctx->device, PROT_READ))
		rights |= CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ;
	if (ctx && vmm_allows(span, ctx->device, PROT_WRITE))
		rights |= CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
	return rights;
}

/* Store a value. memcpy(), because the program's variable may have any alignment. */
static inline void put_value(void *data, CUpointer_attribute attribute, const union value *v)
{
	switch (width_of(attribute)) {
	case 4:
		memcpy(data, v, 4);
		break;
	case 8:
		memcpy(data, v, 8);
		break;
	default:
		memcpy(data, v, 12);
		break;
	}
}

static bool attribute_known(CUpointer_attribute attribute)
{
	return attribute >= CU_POINTER_ATTRIBUTE_CONTEXT &&
	       attribute <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE;
}

/*
 * The address that the context's device uses. As recorded, there is none for host memory of a pool that the device has
 * no access to. Out of line, so that known_value() needs no stack frame.
 */
static __attribute__((noinline)) CUresult device_pointer(union value *v, uint64_t ptr, const struct span *span)
{
	CUcontext ctx;
	CUresult result = ctx_current_any(&ctx);

	if (!result && span_pool_host(span) && !ctx_reaches(ctx, span))
		return CUDA_ERROR_INVALID_VALUE;
	v->u64 = ptr;
	return result;
}

/* Attributes whose value the pool has. A tail call, so that the other attributes pay nothing for it. */
static __attribute__((noinline)) CUresult pool_value(union value *v, CUpointer_attribute attribute,
						     const struct span *span)
{
	if (attribute == CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES)
		v->u64 = pool_handle_types(span->pool);
	else
		v->u32 = pool_beyond() &&
			!(span->flags & (ALLOC_ANY_HOST | ALLOC_IMPORTED | ALLOC_MANAGED));
	return CUDA_SUCCESS;
}

/* The range of mapped memory is its reservation, as recorded; its mapping is MAPPING_BASE_ADDR and MAPPING_SIZE. */
static __attribute__((noinline)) CUresult home_value(union value *v, CUpointer_attribute attribute,
						     const struct span *span)
{
	uint64_t base, size;

	vmm_home(span, &base, &size);
	v->u64 = attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE ? size : base;
	return CUDA_SUCCESS;
}

/* Whether the memory is an allocation of the process's own, on a device. */
static inline bool is_own(const struct span *span)
{
	return !(span->flags & (ALLOC_IMPORTED | ALLOC_POOL | ALLOC_MANAGED | ALLOC_ANY_HOST |
				ALLOC_MAPPED));
}

/* The value for known memory. It may be written even if the result is an error. */
static CUresult known_value(union value *v, CUpointer_attribute attribute, uint64_t ptr,
			    const struct span *span)
{
	bool host = span->flags & ALLOC_ANY_HOST;

	memset(v, 0, sizeof(*v));
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		v->u64 = (uintptr_t)span->ctx;
		break;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		v->u32 = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		return device_pointer(v, ptr, span);
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if (!host && !(span->flags & ALLOC_MANAGED))
			return CUDA_ERROR_INVALID_VALUE;
		v->u64 = ptr;
		break;
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
		if (host)
			return CUDA_ERROR_INVALID_VALUE;
		/* The caller asks for tokens in order to let another driver write to the memory. */
		__atomic_fetch_or(span->marks, ALLOC_SYNC_MEMOPS, __ATOMIC_RELAXED);
		break;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		v->u32 = !!(span->flags & ALLOC_SYNC_MEMOPS);
		break;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		v->u64 = span->id;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		v->s32 = span->device;
		break;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		if (unlikely(span->pool))
			return pool_value(v, attribute, span);
		v->u32 = is_own(span);
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		if (unlikely(span->flags & ALLOC_MAPPED))
			return home_value(v, attribute, span);
		v->u64 = span->base;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		if (unlikely(span->flags & ALLOC_MAPPED))
			return home_value(v, attribute, span);
		v->u64 = span->size;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		v->u32 = 1;
		break;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		v->u32 = is_own(span);
		if (unlikely(span->flags & ALLOC_MAPPED))
			v->u32 = vmm_prop(span).allocFlags.gpuDirectRDMACapable;
		break;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		v->u32 = unlikely(span->flags & ALLOC_MAPPED) ? mapping_rights(span) :
			CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		v->u64 = span->block_length;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		v->u64 = span->block_base;
		break;
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		v->u64 = span->block_id;
		break;
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		v->u32 = span_decompress(span) && codec_length();
		break;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		v->u32 = !!(span->flags & ALLOC_MANAGED);
		break;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		v->u64 = (uintptr_t)span->pool;
		break;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		if (unlikely(span->pool))
			return pool_value(v, attribute, span);
		if (span->flags & ALLOC_MAPPED)
			v->u64 = vmm_prop(span).requestedHandleTypes;
		break;
	default:
		break;
	}
	return CUDA_SUCCESS;
}

static CUresult get_one(void *data, CUpointer_attribute attribute, uint64_t ptr)
{
	struct span span;
	union value value;
	CUresult result;

	if (!data || !attribute_known(attribute) || !vm_lookup(ptr, &span))
		return CUDA_ERROR_INVALID_VALUE;
	result = known_value(&value, attribute, ptr, &span);
	if (!result || attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER ||
	    attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
		put_value(data, attribute, &value);
	return result;
}

static void put_unknown(void *data, CUpointer_attribute attribute)
{
	union value value;

	if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ||
	    attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
		return;
	memset(&value, 0, sizeof(value));
	if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
		value.s32 = CU_DEVICE_INVALID;
	put_value(data, attribute, &value);
}

static CUresult get_many(unsigned int count, const CUpointer_attribute *attributes, void **data,
			 uint64_t ptr)
{
	struct span span;
	unsigned int i;
	bool known;

	if (!count || !attributes || !data)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < count; i++)
		if (!data[i] || !attribute_known(attributes[i]))
			return CUDA_ERROR_INVALID_VALUE;
	known = vm_lookup(ptr, &span);
	for (i = 0; i < count; i++) {
		union value value;

		if (known && !known_value(&value, attributes[i], ptr, &span))
			put_value(data[i], attributes[i], &value);
		else
			put_unknown(data[i], attributes[i]);
	}
	return CUDA_SUCCESS;
}

/**
 * cuPointerGetAttribute - one attribute of an address
 * @data: receives the value, whose width depends on the attribute
 * @attribute: the attribute
 * @ptr: any address inside an allocation
 *
 * Follows "Unified Addressing". No context is needed, except for DEVICE_POINTER. P2P_TOKENS sets
 * SYNC_MEMOPS. HOST_POINTER of device memory and P2P_TOKENS of host memory return INVALID_VALUE and
 * nevertheless write 0.
 *
 * Return: INVALID_VALUE for an unknown address or attribute, NULL @data, or DEVICE_POINTER of host memory of a pool
 * that the context's device has no access to.
 */
CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	CALL(get_one(data, attribute, ptr), data, attribute, ptr);
}

/**
 * cuPointerGetAttributes - several attributes of an address
 * @count: the number of attributes, not 0
 * @attributes: the attributes
 * @data: pointers to @count variables, which receive the values
 * @ptr: any address
 *
 * Follows "Unified Addressing". An address that the library does not know is no error: the values are null
 * (the device ordinal is -2), and the range attributes are not written.
 *
 * Return: INVALID_VALUE for an unknown attribute or a NULL pointer.
 */
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **data,
				CUdeviceptr ptr)
{
	CALL(get_many(count, attributes, data, ptr), count, attributes, data, ptr);
}

static CUresult set_one(const void *value, CUpointer_attribute attribute, uint64_t ptr)
{
	struct span span;
	uint32_t on;

	if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !vm_lookup(ptr, &span))
		return CUDA_ERROR_INVALID_VALUE;
	/* As recorded. */
	if (span.flags & ALLOC_MAPPED)
		return CUDA_ERROR_NOT_SUPPORTED;
	memcpy(&on, value, sizeof(on));
	if (on)
		__atomic_fetch_or(span.marks, ALLOC_SYNC_MEMOPS, __ATOMIC_RELAXED);
	else
		__atomic_fetch_and(span.marks, ~(uint32_t)ALLOC_SYNC_MEMOPS,
				   __ATOMIC_RELAXED);
	return CUDA_SUCCESS;
}

/**
 * cuPointerSetAttribute - set an attribute of an allocation
 * @value: an unsigned int; anything but 0 is on
 * @attribute: SYNC_MEMOPS: fills and copies of the allocation return when they are done
 * @ptr: any address inside the allocation
 *
 * Needs no context. Return: INVALID_VALUE for an unknown address, another attribute, or NULL.
 */
CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	CALL(set_one(value, attribute, ptr), value, attribute, ptr);
}
