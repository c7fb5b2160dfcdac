/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory of handles for t_cuda_property.c: a range of addresses with several mappings, and a buffer
 * of external memory.
 *
 * A mapped buffer begins SKEW bytes behind its reservation and ends within its last piece, so that
 * operations go across mappings.  Its pieces are memory of any device, and some are imports of handles
 * that are released.  External memory is a handle, or the DMA-buf of an allocation.
 */
#ifndef PROPERTY_MAPPED_H
#define PROPERTY_MAPPED_H

#define PIECE		(2 * MIB)
#define SKEW		12345
#define POSIX_FD	CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static size_t mapped_bytes(const struct buffer *b)
{
	return (SKEW + b->size + PIECE - 1) / PIECE * PIECE;
}

/* A handle of 2 MiB of a device, or with @imported another handle of its memory. */
static CUresult piece_make(CUmemGenericAllocationHandle *h, bool imported, int *fd)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = POSIX_FD,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = rnd(device_count) },
	};
	CUmemGenericAllocationHandle made;
	CUresult result = cuMemCreate(h, PIECE, &prop, 0);

	if (result || !imported)
		return result;
	made = *h;
	result = cuMemExportToShareableHandle(fd, made, POSIX_FD, 0);
	if (!result)
		result = cuMemImportFromShareableHandle(h, (void *)(intptr_t)*fd, POSIX_FD);
	return result ? result : cuMemRelease(made);
}

/* Map a piece; the mapping alone keeps its memory. */
static CUresult piece_map(CUdeviceptr at)
{
	bool imported = chance(40);
	CUmemGenericAllocationHandle h;
	int fd = -1;
	CUresult result = piece_make(&h, imported, &fd);

	if (imported)
		close(fd);
	if (!result)
		result = cuMemMap(at, PIECE, 0, h, 0);
	return result ? result : cuMemRelease(h);
}

/* Give all devices rights to the pieces from @base on. */
static CUresult pieces_open(CUdeviceptr base, size_t bytes)
{
	CUmemAccessDesc desc[2] = {
		{ { .type = CU_MEM_LOCATION_TYPE_DEVICE }, CU_MEM_ACCESS_FLAGS_PROT_READWRITE },
		{ { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1 },
		  CU_MEM_ACCESS_FLAGS_PROT_READWRITE },
	};

	return cuMemSetAccess(base, bytes, desc, device_count > 1 ? 2 : 1);
}

static bool mapped_make(struct buffer *b)
{
	size_t bytes = mapped_bytes(b);
	CUdeviceptr base;

	if (cuMemAddressReserve(&base, bytes, 0, 0, 0))
		return false;
	for (size_t at = 0; at < bytes; at += PIECE)
		if (piece_map(base + at))
			return false;
	b->ptr = base + SKEW;
	return !pieces_open(base, bytes);
}

/* Put new memory at the place of one piece.  The buffer is idle, and its owner writes it again. */
static bool mapped_renew(struct buffer *b)
{
	CUdeviceptr at = b->ptr - SKEW + rnd(mapped_bytes(b) / PIECE) * PIECE;

	return expect(CUDA_SUCCESS, cuMemUnmap(at, PIECE)) &&
	       expect(CUDA_SUCCESS, piece_map(at)) &&
	       expect(CUDA_SUCCESS, pieces_open(at, PIECE));
}

/* The descriptor of a handle that nothing else holds. */
static bool opaque_fd(int *fd)
{
	CUmemGenericAllocationHandle h;

	return !piece_make(&h, false, NULL) && !cuMemExportToShareableHandle(fd, h, POSIX_FD, 0) &&
	       !cuMemRelease(h);
}

/* The DMA-buf of an allocation that is freed. */
static bool dmabuf_fd(int *fd)
{
	CUdeviceptr p;

	return !cuMemAlloc(&p, PIECE) &&
	       !cuMemGetHandleForAddressRange(fd, p, PIECE, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0) &&
	       !cuMemFree(p);
}

/* A buffer within external memory of one piece. */
static bool external_make(struct buffer *b)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = { .size = PIECE };
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC part = { .offset = SKEW, .size = b->size };
	bool dmabuf = chance(50);
	CUexternalMemory memory;

	desc.type = dmabuf ? CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD : CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
	if (!(dmabuf ? dmabuf_fd(&desc.handle.fd) : opaque_fd(&desc.handle.fd)) ||
	    cuImportExternalMemory(&memory, &desc))
		return false;
	/* The descriptor of a DMA-buf stays ours. */
	if (dmabuf)
		close(desc.handle.fd);
	return !cuExternalMemoryGetMappedBuffer(&b->ptr, memory, &part) && !cuDestroyExternalMemory(memory);
}

#endif
