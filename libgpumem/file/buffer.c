// SPDX-License-Identifier: MIT
/*
 * Registered buffers, and what a pointer points to.
 *
 * Device memory is memory that the kernel can pin, so a request needs no registration. A registration makes sure of
 * the range once: requests by its base pointer ask the CUDA driver nothing, and may not leave the range.
 *
 * Buffers do not overlap, so the last buffer that begins at or below an address is the only one that can contain it.
 *
 * Locks: file_lock for the buffers.
 */
#include <stddef.h>
#include <stdlib.h>

#include "file/file.h"
#include "file/trie.h"

/* Constant after registration. */
struct buffer {
	struct trie_leaf leaf;		/* its address is the base */
	size_t size;
	bool device;
};

static struct trie buffers;		/* file_lock */

/* libgpumem's, which a driver of NVIDIA does not have. */
extern int gpumem_describe(const void *addr, char *text, size_t size) __attribute__((weak));

/* The last buffer at or below an address, or NULL. file_lock is held. */
static struct buffer *buffer_last(uint64_t addr)
{
	return (struct buffer *)trie_last(&buffers, addr);
}

/* The buffer with a base, or NULL. file_lock is held. */
static struct buffer *buffer_find(uint64_t base)
{
	struct buffer *buffer = buffer_last(base);

	return buffer && buffer->leaf.addr == base ? buffer : NULL;
}

_Static_assert(!offsetof(struct buffer, leaf), "a leaf is its buffer");

static CUfileOpError ask(uint64_t base, struct memory *memory, CUresult *cuda)
{
	unsigned int type = 0;
	CUdeviceptr start = 0;
	size_t size = 0;
	CUpointer_attribute attributes[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE };
	void *values[] = { &type, &start, &size };

	*cuda = cuPointerGetAttributes(3, attributes, values, base);
	if (*cuda)
		return CU_FILE_CUDA_DRIVER_ERROR;
	memory->device = type == CU_MEMORYTYPE_DEVICE;
	memory->beyond = CU_FILE_CUDA_POINTER_RANGE_ERROR;
	if (type) {
		memory->start = start;
		memory->end = start + size;
		return CU_FILE_SUCCESS;
	}
	/* Memory of the program, or none: the kernel knows. Freed device memory is neither. */
	if (gpumem_describe && gpumem_describe((void *)(uintptr_t)base, NULL, 0))
		return CU_FILE_CUDA_POINTER_INVALID;
	memory->start = 0;
	memory->end = UINT64_MAX;
	return CU_FILE_SUCCESS;
}

CUfileOpError memory_find(const void *base, struct memory *memory, CUresult *cuda)
{
	CUfileOpError err = driver_lock();
	struct buffer *buffer;

	*cuda = CUDA_SUCCESS;
	if (err)
		return err;
	*memory = (struct memory) { .base = (uintptr_t)base };
	buffer = buffer_find(memory->base);
	if (buffer) {
		memory->start = memory->base;
		memory->end = memory->base + buffer->size;
		memory->device = buffer->device;
		memory->beyond = CU_FILE_INVALID_MAPPING_RANGE;
	}
	driver_unlock();
	if (!buffer)
		err = ask(memory->base, memory, cuda);
	if (!err && !memory->device && !param_bool(CUFILE_PARAM_PROPERTIES_ALLOW_SYSTEM_MEMORY))
		err = CU_FILE_CUDA_MEMORY_TYPE_INVALID;
	if (!err && memory->device && cuCtxGetCurrent(&memory->context))
		memory->context = NULL;
	return err;
}

CUfileOpError memory_check(const struct memory *memory, off_t offset, size_t size)
{
	uint64_t addr;

	if (offset < 0 || __builtin_add_overflow(memory->base, (uint64_t)offset, &addr))
		return CU_FILE_INVALID_VALUE;
	if (addr < memory->start || addr > memory->end || size > memory->end - addr)
		return memory->beyond;
	return CU_FILE_SUCCESS;
}

/* Add a buffer. file_lock is held. */
static CUfileOpError buffer_add(struct buffer *buffer)
{
	struct buffer *last = buffer_last(buffer->leaf.addr + buffer->size - 1);

	if (last && last->leaf.addr + last->size > buffer->leaf.addr)
		return CU_FILE_MEMORY_ALREADY_REGISTERED;
	return trie_add(&buffers, &buffer->leaf) ? CU_FILE_SUCCESS : CU_FILE_NOMEM_ERROR;
}

static CUfileOpError buffer_register(const void *base, size_t length, CUresult *cuda)
{
	struct memory memory = { .base = (uintptr_t)base };
	CUfileOpError err = ask(memory.base, &memory, cuda);
	struct buffer *buffer;

	if (!err)
		err = memory_check(&memory, 0, length);
	if (!err && !memory.device && !param_bool(CUFILE_PARAM_PROPERTIES_ALLOW_SYSTEM_MEMORY))
		err = CU_FILE_CUDA_MEMORY_TYPE_INVALID;
	if (err)
		return err;
	buffer = malloc(sizeof(*buffer));
	if (!buffer)
		return CU_FILE_NOMEM_ERROR;
	*buffer = (struct buffer) { .leaf.addr = memory.base, .size = length, .device = memory.device };
	err = driver_lock();
	if (!err) {
		err = buffer_add(buffer);
		driver_unlock();
	}
	if (err)
		free(buffer);
	else
		count_registered(length);
	return err;
}

EXPORT CUfileError_t cuFileBufRegister(const void *bufPtr_base, size_t length, int flags)
{
	CUfileError_t result = file_result(CU_FILE_INVALID_VALUE);

	if (!bufPtr_base || !length || flags & ~(CU_FILE_RDMA_REGISTER | CU_FILE_RDMA_RELAXED_ORDERING))
		return result;
	result.err = driver_need(&result.cu_err);
	if (result.err)
		return result;
	result.err = buffer_register(bufPtr_base, length, &result.cu_err);
	count(COUNT_BUFFER_REGISTER, !result.err);
	return result;
}

EXPORT CUfileError_t cuFileBufDeregister(const void *bufPtr_base)
{
	CUfileOpError err = bufPtr_base ? driver_lock() : CU_FILE_INVALID_VALUE;
	struct buffer *buffer;

	if (err)
		return file_result(err);
	buffer = buffer_find((uintptr_t)bufPtr_base);
	if (buffer)
		trie_remove(&buffers, &buffer->leaf);
	driver_unlock();
	count(COUNT_BUFFER_DEREGISTER, buffer);
	if (!buffer)
		return file_result(CU_FILE_INVALID_VALUE);
	count_registered(-(int64_t)buffer->size);
	free(buffer);
	return file_result(CU_FILE_SUCCESS);
}

void buffers_end(void)
{
	struct buffer *buffer;

	pthread_mutex_lock(&file_lock);
	while ((buffer = buffer_last(UINT64_MAX))) {
		trie_remove(&buffers, &buffer->leaf);
		count_registered(-(int64_t)buffer->size);
		free(buffer);
	}
	pthread_mutex_unlock(&file_lock);
}
