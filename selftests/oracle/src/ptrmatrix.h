/* SPDX-License-Identifier: GPL-2.0 */
/* Print one line for each pointer attribute of a pointer. */
#ifndef PTRMATRIX_H
#define PTRMATRIX_H
#include "oracle.h"

static const char *pattr_names[] = { "0", "context", "memory_type", "device_pointer", "host_pointer", "p2p_tokens", "sync_memops",
	"buffer_id", "is_managed", "device_ordinal", "legacy_ipc", "range_start", "range_size", "mapped", "handle_types", "rdma_capable",
	"access_flags", "mempool_handle", "mapping_size", "mapping_base", "memory_block_id", "hw_decompress" };

/* width of what the driver wrote, found with two different fills */
static CUresult pattr_get(unsigned char *out, int *width, CUpointer_attribute a, CUdeviceptr p)
{
	unsigned char b1[64], b2[64];
	memset(b1, 0xee, 64);
	memset(b2, 0x11, 64);
	CUresult r = cuPointerGetAttribute(b1, a, p);
	cuPointerGetAttribute(b2, a, p);
	int w = 0;
	for (int i = 0; i < 64; i++)
		if (b1[i] != 0xee || b2[i] != 0x11)
			w = i + 1;
	*width = w;
	memset(out, 0, 64);
	memcpy(out, b1, (size_t)w);
	return r;
}

static void pattr_line(const char *kind, int a, CUdeviceptr p, CUdeviceptr base, size_t size)
{
	unsigned char b[64];
	int w;
	CUresult r = pattr_get(b, &w, (CUpointer_attribute)a, p);
	uint64_t v;
	memcpy(&v, b, 8);
	const char *id = F("%s.%s", kind, pattr_names[a]);
	if (r) {
		emit(id, "rc=%s wrote=%d%s", rcs(r), w, w && !v ? " zero" : w ? " nonzero" : "");
		return;
	}
	switch (a) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		emit(id, "rc=%s w=%d %s", rcs(r), w, !v ? "null" : (CUcontext)(uintptr_t)v == g_ctx ? "primary" : "other");
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		emit(id, "rc=%s w=%d %s", rcs(r), w, prel(v, p));
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		emit(id, "rc=%s w=%d %s", rcs(r), w, prel(v, base));
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		emit(id, "rc=%s w=%d %s", rcs(r), w, rel(v, size));
		break;
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		emit(F("%s.impl", id), "rc=%s w=%d %s", rcs(r), w, rel(v, size));
		break;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		emit(F("%s.impl", id), "rc=%s w=%d %s", rcs(r), w, v == base ? "same" : v < base ? "below" : "above");
		break;
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		emit(id, "rc=%s w=%d %s", rcs(r), w, v ? "nonzero" : "zero");
		break;
	default:
		if (w <= 4)
			emit(id, "rc=%s w=%d %d", rcs(r), w, (int)(uint32_t)v);
		else
			emit(id, "rc=%s w=%d %llu", rcs(r), w, (unsigned long long)v);
	}
}
static void pattr_all(const char *kind, CUdeviceptr p, CUdeviceptr base, size_t size)
{
	for (int a = 1; a <= 21; a++)
		if (a != CU_POINTER_ATTRIBUTE_P2P_TOKENS)
			pattr_line(kind, a, p, base, size);
	/* last: a query of the tokens sets SYNC_MEMOPS as a side effect */
	pattr_line(kind, CU_POINTER_ATTRIBUTE_P2P_TOKENS, p, base, size);
	pattr_line(F("%s.after_tokens", kind), CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p, base, size);
}
#endif
