/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Conformance program: registration of groups and peers, cases, output, data and gates.
 *
 * Every case prints one line:   <set>.<group>.<case>\t<observed facts>
 * A case id that ends in ".impl" records behaviour that the documentation
 * leaves to the implementation (exact alignment, address reuse ...): a
 * comparison may ignore it.  The runner prints "<set>.<group>.__status" only for a
 * group that crashed, timed out or gave up early.
 */
#ifndef ORACLE_H
#define ORACLE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <cuda.h>
#include <stdint.h>
#include <stddef.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <errno.h>
#include <unistd.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>

#ifndef SET_PREFIX
#define SET_PREFIX "pub"
#endif

#define KiB(n) ((size_t)(n) << 10)
#define MiB(n) ((size_t)(n) << 20)
#define GiB(n) ((size_t)(n) << 30)
#define DPTR(x) ((CUdeviceptr)(uintptr_t)(x))
#define HPTR(x) ((void *)(uintptr_t)(x))

/* ---- registration -------------------------------------------------- */
void oracle_register(const char *name, void (*fn)(void), int timeout_s);
void oracle_register_peer(const char *name, void (*fn)(int sock));

#define GROUPT(name, tmo)                                                    \
	static void grp_##name(void);                                        \
	__attribute__((constructor)) static void reg_grp_##name(void)        \
	{ oracle_register(#name, grp_##name, tmo); }                         \
	static void grp_##name(void)
#define GROUP(name) GROUPT(name, 40)
/* A group that reads the amount of free memory: the runner never runs it beside another group. */
#define GROUPALONE(name) GROUPT(name, -40)

#define PEER(name)                                                           \
	static void peer_##name(int sock);                                   \
	__attribute__((constructor)) static void reg_peer_##name(void)       \
	{ oracle_register_peer(#name, peer_##name); }                        \
	static void peer_##name(int sock)

/* ---- output --------------------------------------------------------- */
void emit(const char *id, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* printf into a rotating static buffer */
const char *F(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
const char *rcs(CUresult r);              /* "1:CUDA_ERROR_INVALID_VALUE" */
const char *rel(size_t actual, size_t wanted);     /* same | +N | -N      */
const char *prel(CUdeviceptr p, CUdeviceptr base); /* null same +N -N other */
const char *lowalign(uint64_t v, uint64_t cap);    /* alignment, capped   */

/* T: report only the result code.  TF: report the result code and more facts;
 * the further arguments are evaluated after the call. */
/* The runner knows which case the group is executing.  If the process dies or
 * hangs in this case, the runner runs the group again without it, and reports
 * it as "crash:signal:N" or "crash:timeout". */
int case_begin(const char *id);           /* 0: skip it */
void case_end(void);
#define CASE(id, expr, ...) do { char id__[256];                             \
		snprintf(id__, sizeof(id__), "%s", (id));                    \
		if (case_begin(id__)) { CUresult r__ = (expr); case_end();   \
			__VA_ARGS__; } } while (0)
#define T(id, expr) CASE(id, expr, emit(id__, "rc=%s", rcs(r__)))
#define TF(id, expr, fmt, ...) CASE(id, expr, emit(id__, "rc=%s " fmt, rcs(r__), ##__VA_ARGS__))
/* the same without a current context */
#define TNOCTX(id, expr) do { CUcontext c__ = NULL; cuCtxGetCurrent(&c__);   \
		cuCtxSetCurrent(NULL);                                       \
		CASE(id, expr, cuCtxSetCurrent(c__); emit(id__, "rc=%s", rcs(r__))); \
		cuCtxSetCurrent(c__); } while (0)
/* a step that later cases of the group need */
#define REQ(expr) do { CUresult r__ = (expr); if (r__ != CUDA_SUCCESS) {     \
		emit("__prereq", "rc=%s in %s", rcs(r__), #expr); return; } } while (0)
/* the same in a function that is not the group itself */
#define MUST(expr) do { CUresult r__ = (expr); if (r__ != CUDA_SUCCESS) {    \
		emit("__prereq", "rc=%s in %s", rcs(r__), #expr); exit(8); } } while (0)
/* a step that only the next few cases need: false if it failed, and the caller skips them */
#define HAVE(expr) ({ CUresult r__ = (expr);                                 \
		if (r__ != CUDA_SUCCESS) {                                   \
			emit("__without", "rc=%s in %s", rcs(r__), #expr);   \
		}                                                            \
		r__ == CUDA_SUCCESS; })
#define REQNZ(expr) do { if (!(expr)) {                                      \
		emit("__prereq", "failed: %s", #expr); return; } } while (0)

/* ---- context -------------------------------------------------------- */
extern CUdevice g_dev;
extern CUcontext g_ctx;
void init_ctx(void);             /* cuInit, device 0, primary ctx current */
int dev_attr(CUdevice_attribute a);

/* ---- data ----------------------------------------------------------- */
void fill(void *p, size_t n, unsigned seed);
int same(const void *p, size_t n, unsigned seed);      /* 1 when pattern */
int allbyte(const void *p, size_t n, int v);           /* 1 when all == v */
CUresult dfill(CUdeviceptr d, size_t n, unsigned seed);
const char *dsame(CUdeviceptr d, size_t n, unsigned seed); /* intact | differs | rc.. */
const char *dsame_at(CUdeviceptr d, size_t off, size_t n, unsigned seed); /* d holds pattern bytes off..off+n */
const char *dbyte(CUdeviceptr d, size_t n, int v);         /* all | differs | rc.. */
const char *hsame(const void *p, size_t n, unsigned seed); /* intact | differs */
CUdeviceptr dalloc(size_t n);      /* exits the group if it fails */
void *halloc(size_t n);            /* page-aligned plain anonymous mmap */
void hfree(void *p, size_t n);

/* "open" | "closed" */
static inline const char *opened(int fd)
{
	return fcntl(fd, F_GETFD) >= 0 ? "open" : "closed";
}

/* ---- gate: keeps a stream busy until it is opened ------------------- */
typedef struct {
	volatile uint32_t *h;
	CUdeviceptr d;
	volatile int released, watchdog, planned;
	volatile long deadline_ms;
	pthread_t th;
	int on;
} gate_t;
CUresult gate_close(gate_t *g, CUstream s);   /* stream waits from here on */
void gate_after(gate_t *g, int ms);           /* opens by itself in ms     */
CUresult event_soon(CUevent e);               /* queries until complete, or for a second */
int patience(void);                           /* the factor of all times: $ORACLE_PATIENCE, or 1 */
void gate_open(gate_t *g);                    /* opens now                 */
void gate_done(gate_t *g);                    /* join + free               */
long now_ms(void);
long long now_ns(void);
/* does the call return only after the gate opened? */
#define BLOCKS(id, g, expr) do { gate_after(g, 300);                        \
		CASE(id, expr, int w__ = (g)->released; emit(id__, "rc=%s waited=%d", rcs(r__), w__)); } while (0)

/* one case in a process of its own: the real driver may crash on it */
#define RISKY(name, expr, ...)                                               \
	GROUP(zz_##name) { init_ctx(); __VA_ARGS__; T("rc", expr); }

/* ---- peers ---------------------------------------------------------- */
typedef struct { pid_t pid; int fd; } peer_t;
int peer_start(peer_t *p, const char *name);
int xsend(int fd, const void *b, size_t n);
int xrecv(int fd, void *b, size_t n);
int xsend_fd(int fd, int pass);
int xrecv_fd(int fd);
int peer_wait(peer_t *p);       /* exit code, 128+signal, or -1 */
#define SYNC_TO(fd) do { char c__ = 'x'; xsend(fd, &c__, 1); } while (0)
#define SYNC_FROM(fd) do { char c__; if (xrecv(fd, &c__, 1)) {               \
		emit("__peer_lost", "line=%s", __func__); exit(9); } } while (0)

#endif
