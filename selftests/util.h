/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the kernel selftests share.
 *
 * Calls of the kernel interface return 0 (or a descriptor) or a negative errno, so that a test
 * names the errno it wants.  Include this after kselftest_harness.h.
 */
#ifndef GPUMEM_SELFTESTS_UTIL_H
#define GPUMEM_SELFTESTS_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <linux/gpumem.h>

/* Seconds for a case.  On a debug kernel without KVM thirty are not always enough. */
#ifdef TEST_TIMEOUT_DEFAULT
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT	120
#endif

#define KIB		1024ULL
#define MIB		(1024 * KIB)
#define NSEC		1000000000ULL
#define FOREVER		(~0ULL)

extern size_t page_size;

/* --- the kernel interface */

int gp_open(unsigned int ordinal);
int gp_ioctl(int fd, unsigned long request, void *arg);
int gp_info(int fd, __u32 device, struct gpumem_info *info);
int gp_attach(int fd, int other, __u32 *device);
int gp_destroy(int fd, __u32 id);
int gp_bo_alloc(int fd, __u64 length, __u32 *id);
int gp_bo_alloc_on(int fd, __u32 device, __u64 length, __u32 *id);
int gp_bo_info(int fd, __u32 id, struct gpumem_bo_info *info);
int gp_bo_retire(int fd, __u32 id, __u64 offset, __u64 length, __u32 flags, __u32 *live);
int gp_bo_export(int fd, __u32 id, __u64 offset, __u64 length, __u32 flags);
int gp_bo_import(int fd, int dmabuf, struct gpumem_bo_import *out);
int gp_token_create(int fd, __u32 bo, __u64 offset, __u64 length, __u32 flags, __u32 *id,
		    __u8 *token);
int gp_token_open(int fd, const __u8 *token, struct gpumem_token_open *out);
int gp_vm_create(int fd, __u32 *id);
int gp_vm_map(int fd, __u32 vm, __u32 bo, __u64 offset, __u64 addr, __u64 length, __u32 readers,
	      __u32 writers);
int gp_vm_unmap(int fd, __u32 vm, __u64 addr, __u64 length, __u64 *unmapped);
int gp_vm_access(int fd, __u32 vm, __u64 addr, __u64 length, __u32 device, __u32 access);
int gp_stream_create(int fd, __u32 vm, __u32 device, __u32 entries, __u32 *id, __u32 *timeline);
int gp_doorbell(int fd, __u32 id);
int gp_timeline_create(int fd, __u64 value, __u32 *id);
int gp_timeline_signal(int fd, __u32 id, __u64 value);
int gp_timeline_wait(int fd, __u32 id, __u64 value, __u64 deadline,
		     struct gpumem_timeline_wait *out);
int gp_event_create(int fd, __u32 *id, __u8 *token);
/* The same with enum gpumem_token_flags. */
int gp_event_create_for(int fd, __u32 flags, __u32 *id, __u8 *token);
int gp_event_open(int fd, const __u8 *token, __u32 *id, __u32 *result);
int gp_event_record(int fd, __u32 id, __u32 timeline, __u64 value);
/* What the event stands for; with GPUMEM_EVENT_GET_QUERY without a timeline object. */
int gp_event_get(int fd, __u32 id, __u32 flags, struct gpumem_event_get *out);
int gp_stats(int fd, struct gpumem_stats *stats);

/* mmap() of an object: its address, or NULL with errno set. */
void *gp_map(int fd, __u32 id, __u64 offset, size_t length, int prot);
/* The same with a result: 0 after unmapping again, or a negative errno. */
int gp_map_errno(int fd, __u32 id, __u64 offset, size_t length, int prot, int flags);

/* --- streams */

struct stream {
	int fd;
	__u32 id;
	__u32 timeline;
	__u32 entries;
	size_t ring_size;
	struct gpumem_ring *ring;
	struct gpumem_sqe *sqes;
	const struct gpumem_timeline_page *page;
	__u64 tail;
	__u64 doorbells;
};

int stream_open(struct stream *s, int fd, __u32 vm, __u32 device, __u32 entries);
/* Unmaps and destroys; returns the first error. */
int stream_close(struct stream *s);
/* Waits up to ten seconds for a free slot; 0 or -ETIMEDOUT. */
int stream_push(struct stream *s, const struct gpumem_sqe *sqe);
/* Fills the slot without telling the kernel; stream_publish() does that. */
void stream_put(struct stream *s, const struct gpumem_sqe *sqe);
void stream_publish(struct stream *s);
/* Waits for @value; 0 or a negative errno. */
int stream_wait(struct stream *s, __u64 value, double seconds);
int stream_sync(struct stream *s);
/* The error that @sqe leaves on a fresh stream of device 0; 0 when it succeeds. */
int stream_error_of(int fd, __u32 vm, struct gpumem_sqe sqe);

struct gpumem_sqe sqe_nop(void);
struct gpumem_sqe sqe_copy(__u64 dst, __u64 src, __u64 bytes);
struct gpumem_sqe sqe_copy2d(__u64 dst, __u64 dst_pitch, __u64 src, __u64 src_pitch, __u64 width,
			     __u64 height);
struct gpumem_sqe sqe_fill(__u64 dst, __u8 elem, __u64 value, __u64 count);
struct gpumem_sqe sqe_fill2d(__u64 dst, __u64 pitch, __u8 elem, __u64 value, __u64 width,
			     __u64 height);
struct gpumem_sqe sqe_wait(__u32 timeline, __u64 value);
struct gpumem_sqe sqe_signal(__u32 timeline, __u64 value);
struct gpumem_sqe sqe_add(__u32 timeline, __u64 value);
struct gpumem_sqe sqe_poll(__u64 addr, __u8 elem, __u32 how, __u64 value);
struct gpumem_sqe sqe_timestamp(__u64 dst);

/* --- what the kernel says about itself */

/* A number of /sys/class/gpumem/gpumemN/, or -errno. */
long long dev_attr(unsigned int ordinal, const char *name);
int dev_attr_text(unsigned int ordinal, const char *name, char *text, size_t size);
/* How many devices there are. */
unsigned int dev_count(void);
/*
 * Waits until nothing of any device is in use: used, clients, bos, exports, views and pools are 0.
 * Release is asynchronous at times.  Prints what is left and returns false when it never is.
 */
bool dev_quiet(double seconds);
/* Waits until a device's attribute has a value. */
bool dev_attr_becomes(unsigned int ordinal, const char *name, long long value, double seconds);

/* The counters of struct gpumem_stats by name, in its order. */
struct stat_name {
	const char *name;
	size_t offset;
};
extern const struct stat_name stat_names[];
extern const unsigned int stat_count;
__u64 stat_get(const struct gpumem_stats *stats, unsigned int i);
/* Parses /proc/PID/fdinfo/FD; -ENODATA when a key is missing or appears twice. */
int fdinfo_read(pid_t pid, int fd, struct gpumem_stats *stats, __u64 *device);

/* --- processes */

/* Runs @fn in a child: its exit status, or minus the signal that killed it. */
int run_child(int (*fn)(void *arg), void *arg);
pid_t start_child(int (*fn)(void *arg), void *arg);
int end_child(pid_t pid);
int kill_child(pid_t pid);
/* Does reading (or writing) the byte at @p raise @sig? */
bool faults_with(volatile void *p, bool write, int sig);
/* The same of a forked child. */
bool faults_in_child(volatile void *p, bool write, int sig);
/* The byte at @p, or minus the signal that reading it raises. */
int peek(const volatile void *p);
/*
 * Unmaps everything of gpumem's in this process: mappings keep memory, DMA-bufs and clients.
 * Teardown calls it.
 */
void unmap_all(void);
/* Passes one byte through a pipe or socket. */
bool tell(int fd);
bool hear(int fd);
int send_fd(int sock, int fd);
int recv_fd(int sock);

/*
 * The engine's workers among the threads of @pid: how many, or a negative errno.  The first @max of
 * their ids go to @tids.
 */
int worker_threads(pid_t pid, pid_t *tids, int max);

/* --- memory cgroups: a child group of the root */

struct cgroup {
	char path[128];
};

/* 0, or a negative errno when there are no memory cgroups. */
int cgroup_make(struct cgroup *cg, const char *name);
/* Switches a controller on for groups of cgroup_make(), "+pids"; 0 or a negative errno. */
int cgroup_control(const char *controller);
int cgroup_write(const struct cgroup *cg, const char *file, const char *text);
long long cgroup_read(const struct cgroup *cg, const char *file);
/* The number after @key in a flat-keyed file. */
long long cgroup_read_key(const struct cgroup *cg, const char *file, const char *key);
int cgroup_enter(const struct cgroup *cg);
int cgroup_remove(const struct cgroup *cg);

/* --- time, chance */

__u64 mono_ns(void);
/* CLOCK_MONOTONIC deadline so many seconds from now. */
__u64 in_seconds(double seconds);
void nap_ms(unsigned int ms);

struct rng {
	__u64 state;
};

/* Seeds from GPUMEM_SEED or the clock, and prints the seed. */
void rng_start(struct rng *r, const char *what);
__u64 rng_next(struct rng *r);
/* Below @n. */
__u64 rng_below(struct rng *r, __u64 n);
void rng_fill(struct rng *r, void *p, size_t n);
/* The environment's number @name, or @def. */
__u64 env_number(const char *name, __u64 def);

#endif
