/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The module's generic netlink family as arrays of structures.
 *
 * Functions that return an int return 0 or a negative error of libnl, if no comment says otherwise;
 * gnl_why() turns the error into a sentence that says what to do.  The caller frees arrays.  An
 * array is a snapshot: if something came or went during a dump, the dump is repeated, up to 20
 * times, and then returned with *torn set.  With a NULL @torn the call fails instead.
 */
#ifndef GPUMEM_TOOLS_NL_H
#define GPUMEM_TOOLS_NL_H

#include <stdbool.h>
#include <stddef.h>

#include <linux/gpumem.h>
#include <linux/gpumem_netlink.h>

struct nl_sock;

struct gnl {
	struct nl_sock *sock;
	int family;
};

struct gnl_device {
	__u32 index, clients, bos, exports, views, pools, imports;
	__u64 total, used, orphaned, lingering, pinned, managed;
	__u64 engine_ns, copy_bytes, fill_bytes;
};

struct gnl_host {
	__u64 used, orphaned, lingering, pin_limit, pinned, pin_total;
	__u64 ring_limit, rings, ring_total, managed;
};

/* Counters by attribute, GPUMEM_A_CLIENT_OBJECTS and what follows. */
#define GNL_COUNTERS	(GPUMEM_A_CLIENT_ENGINE_NS - GPUMEM_A_CLIENT_OBJECTS + 1)
#define GNL_COUNT(client, name)	((client)->counts[GPUMEM_A_CLIENT_##name - GPUMEM_A_CLIENT_OBJECTS])

struct gnl_client {
	__u32 id, pid, uid, device;
	char comm[16];
	bool dead;
	__u64 counts[GNL_COUNTERS];
};

struct gnl_object {
	__u32 client, id, type, flags, kind;
	int device;		/* or -1 */
	__u64 length;
	char name[16];
	__u32 pool;		/* the id of the pool that a chunk belongs to, or 0 */
	/* Of a pool: @limit 0 means no limit; the client itself reports @used and @used_high. */
	__u64 limit, reserved, reserved_high, used, used_high, chunks, imports, cached;
	/* Of managed memory. */
	__u64 resident, faults, evictions, thrash, moved_in, moved_out;
};

struct gnl_refusal {
	__u32 limit, client, pid, uid, missed, pool;
	int device;		/* or -1 */
	bool bounded;		/* @used and @bound are known */
	char comm[16];
	__u64 asked, used, bound;
};

int gnl_open(struct gnl *nl);
void gnl_close(struct gnl *nl);
const char *gnl_why(int err);

int gnl_devices(struct gnl *nl, struct gnl_device **devices, size_t *n);
int gnl_host(struct gnl *nl, struct gnl_host *host);
int gnl_clients(struct gnl *nl, struct gnl_client **clients, size_t *n, bool *torn);
/* The objects of one client, or of all clients if @client is 0. */
int gnl_objects(struct gnl *nl, __u32 client, struct gnl_object **objects, size_t *n, bool *torn);

/* Subscribe to refusals.  Afterwards the socket must not be used for the calls above. */
int gnl_listen(struct gnl *nl);
/* Wait for refusals, and call @heard for each until @heard returns false. */
int gnl_hear(struct gnl *nl, bool (*heard)(const struct gnl_refusal *refusal, void *arg), void *arg);

/* The name of a client's counter, such as "bo-bytes", as in Documentation/netlink/gpumem.yaml. */
const char *gnl_counter_name(unsigned int i);
/* The name of a limit, such as "the device's memory", and of an object's type, such as "stream". */
const char *gnl_limit_name(__u32 limit);
const char *gnl_type_name(const struct gnl_object *object);

/*
 * Compare values that the module reports in different places: memory in use with the objects in it,
 * counters with the objects they count, sysfs with netlink.  Call @say with a line for each
 * mismatch and, with @all, for each client, each object, and each device or host memory in use.
 * Returns the number of lines, or a negative error.
 */
int gnl_audit(struct gnl *nl, bool all, void (*say)(void *arg, const char *line), void *arg);

#endif
