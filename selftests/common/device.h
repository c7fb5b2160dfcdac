/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Attributes of devices in sysfs, counters of clients in fdinfo, and the permissions of a node.
 */
#ifndef GPUMEM_SELFTESTS_DEVICE_H
#define GPUMEM_SELFTESTS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <linux/gpumem.h>

/* The number in the attribute @name of /sys/class/gpumem/gpumemN/, or -errno.  */
long long dev_attr(unsigned int ordinal, const char *name);
int dev_attr_text(unsigned int ordinal, const char *name, char *text, size_t size);
/* How many devices there are. */
unsigned int dev_count(void);
/* The permissions of device 0's node. */
bool node_mode(mode_t *mode);
/* Permits every user to open device 0's node, and stores its former permissions in @mode.  */
bool node_open_to_all(mode_t *mode);
/*
 * Waits until no device is in use: its attributes used, clients, bos, exports, views and pools are
 * 0.  The module may release objects asynchronously.  After @seconds it prints the attributes that
 * are not 0 and returns false.
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

#endif
