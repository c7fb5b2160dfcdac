/* SPDX-License-Identifier: GPL-2.0 */
/* Helpers of the cases of the runtime API (public_rt.c). */
#ifndef RT_H
#define RT_H
#include "oracle.h"
#include <cuda_runtime_api.h>
static const struct { int v; const char *n; } rtnames[] = {
#include "rtresnames.h"
};
static inline const char *rts(cudaError_t r)
{
	for (size_t i = 0; i < sizeof(rtnames) / sizeof(rtnames[0]); i++)
		if (rtnames[i].v == (int)r)
			return F("%d:%s", (int)r, rtnames[i].n);
	return F("%d:?", (int)r);
}
#define RCASE(id, expr, ...) do { char id__[256];                            \
		snprintf(id__, sizeof(id__), "%s", (id));                    \
		if (case_begin(id__)) { cudaError_t r__ = (expr); case_end(); \
			__VA_ARGS__; } } while (0)
#define RT(id, expr) RCASE(id, expr, emit(id__, "rc=%s", rts(r__)))
#define RTF(id, expr, fmt, ...) RCASE(id, expr, emit(id__, "rc=%s " fmt, rts(r__), ##__VA_ARGS__))
#define RTREQ(expr) do { cudaError_t r__ = (expr); if (r__ != cudaSuccess) { \
		emit("__prereq", "rc=%s in %s", rts(r__), #expr); return; } } while (0)
static inline const char *rtsame(const void *d, size_t n, unsigned seed)
{
	unsigned char *h = malloc(n ? n : 1);
	memset(h, 0x5a, n);
	cudaError_t r = cudaMemcpy(h, d, n, cudaMemcpyDefault);
	const char *s = r ? F("readback:%s", rts(r)) : same(h, n, seed) ? "intact" : "differs";
	free(h);
	return s;
}
static inline cudaError_t rtfill(void *d, size_t n, unsigned seed)
{
	unsigned char *h = malloc(n ? n : 1);
	fill(h, n, seed);
	cudaError_t r = cudaMemcpy(d, h, n, cudaMemcpyDefault);
	free(h);
	return r;
}
static inline struct cudaMemPoolProps rtprops(enum cudaMemAllocationHandleType h)
{
	struct cudaMemPoolProps p;
	memset(&p, 0, sizeof(p));
	p.allocType = cudaMemAllocationTypePinned;
	p.handleTypes = h;
	p.location.type = cudaMemLocationTypeDevice;
	p.location.id = 0;
	return p;
}
#endif
