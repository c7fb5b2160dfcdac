// SPDX-License-Identifier: MIT
/*
 * Registered buffers, and what a pointer points to.
 *
 * Device memory is memory that the kernel can pin, so a request needs no registration. A registration makes sure of
 * the range once: requests by its base pointer ask the CUDA driver nothing, and may not leave the range.
 *
 * Locks: file_lock for the list.
 */
#include <string.h>

#include "file/file.h"

struct buffer {
	uint64_t base;
	size_t size;
	bool device;
};

/* Sorted by address; file_lock. */
static struct buffer *buffers;
static size_t count_of, room;

/* libgpumem's, which a driver of NVIDIA does not have. */
extern int gpumem_describe(const void *addr, char *text, size_t size) __attribute__((weak));

/* The place of the first buffer at or behind @base. file_lock is held. */
static size_t place_of(uint64_t base)
{
	size_t low = 0, high = count_of;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (buffers[middle].base < base)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

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
	size_t place;
	bool found;

	*cuda = CUDA_SUCCESS;
	if (err)
		return err;
	*memory = (struct memory) { .base = (uintptr_t)base };
	place = place_of(memory->base);
	found = place < count_of && buffers[place].base == memory->base;
	if (found) {
		memory->start = memory->base;
		memory->end = memory->base + buffers[place].size;
		memory->device = buffers[place].device;
		memory->beyond = CU_FILE_INVALID_MAPPING_RANGE;
	}
	driver_unlock();
	if (!found)
		err = ask(memory->base, memory, cuda);
	if (!err && !memory->device && !param_bool(CUFILE_PARAM_PROPERTIES_ALLOW_SYSTEM_MEMORY))
		err = CU_FILE_CUDA_MEMORY_TYPE_INVALID;
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

static CUfileOpError buffer_register(const void *base, size_t length, CUresult *cuda)
{
	struct memory memory = { .base = (uintptr_t)base };
	CUfileOpError err = ask(memory.base, &memory, cuda);
	size_t place;

	if (!err)
		err = memory_check(&memory, 0, length);
	if (!err && !memory.device && !param_bool(CUFILE_PARAM_PROPERTIES_ALLOW_SYSTEM_MEMORY))
		err = CU_FILE_CUDA_MEMORY_TYPE_INVALID;
	if (!err)
		err = driver_lock();
	if (err)
		return err;
	place = place_of(memory.base);
	if ((place < count_of && buffers[place].base < memory.base + length) ||
	    (place && buffers[place - 1].base + buffers[place - 1].size > memory.base))
		err = CU_FILE_MEMORY_ALREADY_REGISTERED;
	if (!err && count_of == room) {
		struct buffer *grown = realloc(buffers, (room + 64) * sizeof(*buffers));

		if (grown) {
			buffers = grown;
			room += 64;
		} else {
			err = CU_FILE_NOMEM_ERROR;
		}
	}
	if (!err) {
		memmove(buffers + place + 1, buffers + place, (count_of - place) * sizeof(*buffers));
		buffers[place] = (struct buffer) {
			.base = memory.base, .size = length, .device = memory.device,
		};
		count_of++;
	}
	driver_unlock();
	if (!err)
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
	uint64_t base = (uintptr_t)bufPtr_base;
	CUfileOpError err = base ? driver_lock() : CU_FILE_INVALID_VALUE;
	size_t place, length = 0;

	if (err)
		return file_result(err);
	place = place_of(base);
	if (place < count_of && buffers[place].base == base) {
		length = buffers[place].size;
		count_of--;
		memmove(buffers + place, buffers + place + 1, (count_of - place) * sizeof(*buffers));
	} else {
		err = CU_FILE_INVALID_VALUE;
	}
	driver_unlock();
	if (!err)
		count_registered(-(int64_t)length);
	count(COUNT_BUFFER_DEREGISTER, !err);
	return file_result(err);
}

void buffers_end(void)
{
	int64_t bytes = 0;

	pthread_mutex_lock(&file_lock);
	for (size_t i = 0; i < count_of; i++)
		bytes += buffers[i].size;
	free(buffers);
	buffers = NULL;
	count_of = room = 0;
	pthread_mutex_unlock(&file_lock);
	count_registered(-bytes);
}
