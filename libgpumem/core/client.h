/* SPDX-License-Identifier: MIT */
/*
 * The client: the process's one open file of a device node, its devices, and what the environment
 * set. client.c owns it.
 */
#ifndef GPUMEM_CORE_CLIENT_H
#define GPUMEM_CORE_CLIENT_H

#include "core/fault.h"
#include "core/lock.h"
#include "core/tap.h"

/* A list of shared blocks of one kind (block.c). */
struct shared {
	struct block *first;		/* mem_lock */
	bool growing;			/* a thread makes another block; mem_lock */
	uint32_t grown;			/* how often a thread stopped doing so; mem_lock to write; a futex */
};

struct device {
	unsigned int index;		/* number in the client, for the kernel */
	unsigned int ordinal;		/* N of /dev/gpumemN */
	uint64_t total;			/* as the kernel says; fault_total() is what programs see */
	int node;
	unsigned int workers;
	bool exclusive;			/* CONCURRENT_MANAGED_ACCESS is 0 (exec/attach.c) */
	bool pageable;			/* PAGEABLE_MEMORY_ACCESS: its engine reaches the process's memory */
	char engine[16];
	unsigned char uuid[16];
	struct queue *queues;		/* every stream's queue, newest first; only grows */
	struct queue *zeroing;		/* private queue for zeroing in strict mode; strict.c's lock */
	struct shared shared;		/* blocks with room for small allocs */
	struct shared shared_host;	/* the same, outside the device's memory */
	struct shared shared_managed;	/* the same, managed */
	struct shared shared_hidden;	/* the same, of arrays: no DMA-buf reaches their bytes */
};

struct client {
	const uint32_t *alive;		/* zero before cuInit() and in a forked child */
	const uint32_t *quick;		/* as alive; also zero if calls are watched */
	uint32_t *only_waits;		/* as alive; also zero once synchronizing must give memory back */
	uint32_t *later;		/* as alive; also zero unless the tap sees pairs later (pairs.h) */
	int fd;
	uint32_t vm;
	unsigned int devices;
	uint32_t access;		/* a bit per device, for struct gpumem_vm_map */
	bool inlining;			/* GPUMEM_INLINE is not 0 */
	bool pageable;			/* a device is pageable */
	bool strict;			/* GPUMEM_STRICT is set and not 0 (strict.c) */
	bool inlining_device;		/* inlining and not strict */
	bool exclusive;			/* a device is exclusive */
	bool debug;			/* GPUMEM_DEBUG is set and not 0 */
	bool faults;			/* GPUMEM_FAULT is set (fault.c) */
	bool scheduled;			/* GPUMEM_SCHEDULE is set (exec/schedule.c) */
	const struct fault_hooks *hooks;	/* constant */
	bool gated;			/* faults or scheduled */
	bool watched;			/* gated, or there is a tap: no fast path may be taken */
	bool noted;			/* debug or watched: calls keep their arguments */
	const struct tap *tap;		/* or NULL */
	bool check;			/* GPUMEM_CHECK is set and not 0 */
	bool zoned;			/* the checker wants red zones; constant before the first allocation */
	uint64_t quarantine;		/* bytes of freed memory that the checker keeps at most; 0: none */
	bool record;			/* GPUMEM_RECORD is set and not empty */
	bool clearing;			/* GPUMEM_CLEAR is not 0 (clear.c) */
	unsigned int spins;		/* how often a wait polls a timeline before it sleeps */
	struct device device[GPUMEM_MAX_DEVICES];
};
extern HIDDEN struct client client;

/*
 * The thread sanitizer does not see the kernel: what the host thread did before it signalled a
 * timeline comes before what follows the completion of an entry that waited for the signal.
 */
#if defined(__SANITIZE_THREAD__)
void __tsan_acquire(const void *addr);
void __tsan_release(const void *addr);
#define tsan_signalled()	__tsan_release(&client)
#define tsan_reached()		__tsan_acquire(&client)
#else
#define tsan_signalled()	((void)0)
#define tsan_reached()		((void)0)
#endif

/*
 * @start_strict: called in strict mode, or if a device is exclusive, before the first call that is initialized.
 * @tap: what the library behind the tap may ask. @hooks: how faults are carried out.
 */
CUresult client_init(void (*start_strict)(void), const struct tap_client *tap, const struct fault_hooks *hooks);
/* 0 or a positive errno; restarted after signals. */
int client_ioctl(unsigned long request, void *arg);
void client_destroy_id(uint32_t id);
/*
 * Have the kernel allocate the pages that a range touches: 0, or a positive errno. Returns 0, too, if the kernel does
 * not know the call or a sandbox forbids it. An access then allocates the page, or raises a signal.
 */
int pages_populate(uint64_t addr, uint64_t length);
/* Ask the kernel for the free bytes of a device. */
CUresult client_free_bytes(unsigned int device, uint64_t *free_bytes);
/*
 * Move a descriptor away from the numbers of the standard streams, which belong to the program. Returns the
 * descriptor, or -1.
 */
int fd_raise(int fd);
/* How much more than its share of a device's memory the process holds; 0 if the kernel cannot tell. */
uint64_t client_excess(unsigned int device);
CUresult result_of_errno(int error);
/* The memory of a device, as programs see it. */
static inline uint64_t fault_total(CUdevice device)
{
	uint64_t total = client.device[device].total;

	return likely(!client.faults) ? total : fault_memory(device, total);
}

/* Whether this process has not called cuInit() successfully, or is a forked child. */
static inline bool not_initialized(void)
{
	return unlikely(!load_acquire(load_acquire(&client.alive)));
}

/* Whether the process is initialized, and functions may take fast paths that report nothing. */
static inline bool quick(void)
{
	return likely(load_acquire(load_acquire(&client.quick)));
}

/* Whether fast paths may be taken and synchronizing does nothing but wait. */
static inline bool sync_only_waits(void)
{
	return likely(load_acquire(load_acquire(&client.only_waits)));
}

/* From now on synchronizing also gives memory back. */
static inline void sync_gives_back(void)
{
	store_release(load_acquire(&client.only_waits), 0);
}

#endif /* GPUMEM_CORE_CLIENT_H */
