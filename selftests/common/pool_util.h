/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The calls of the kernel interface for pools and channels, as functions in the form of calls.h.
 */
#ifndef GPUMEM_SELFTESTS_POOL_UTIL_H
#define GPUMEM_SELFTESTS_POOL_UTIL_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/util.h"

static inline int gp_pool_create(int fd, __u32 device, __u32 flags, __u64 limit, const char *name,
				 __u32 *id)
{
	struct gpumem_pool_create c = {
		.size = sizeof(c), .flags = flags, .device = device, .limit = limit,
	};
	size_t length = strlen(name);
	int ret;

	/* A name of the full length has no terminating zero.  */
	memcpy(c.name, name, length < sizeof(c.name) ? length : sizeof(c.name));
	ret = gp_ioctl(fd, GPUMEM_POOL_CREATE, &c);
	*id = c.id;
	return ret;
}

static inline int gp_pool_chunk_on(int fd, __u32 device, __u32 pool, __u32 flags, __u64 length,
				   __u32 *id, __u64 *chunk)
{
	struct gpumem_bo_alloc c = {
		.size = sizeof(c), .flags = flags, .device = device, .length = length,
		.pool = pool, .chunk = 0xa5a5,
	};
	int ret = gp_ioctl(fd, GPUMEM_BO_ALLOC, &c);

	*id = c.id;
	if (chunk)
		*chunk = c.chunk;
	return ret;
}

static inline int gp_pool_chunk(int fd, __u32 pool, __u64 length, __u32 *id, __u64 *chunk)
{
	return gp_pool_chunk_on(fd, 0, pool, 0, length, id, chunk);
}

static inline int gp_pool_set(int fd, __u32 id, __u64 used, __u64 used_high)
{
	struct gpumem_pool_set c = {
		.size = sizeof(c), .id = id, .used = used, .used_high = used_high,
	};

	return gp_ioctl(fd, GPUMEM_POOL_SET, &c);
}

static inline int gp_pool_info(int fd, __u32 id, __u32 flags, struct gpumem_pool_info *info)
{
	*info = (struct gpumem_pool_info) { .size = sizeof(*info), .id = id, .flags = flags };
	return gp_ioctl(fd, GPUMEM_POOL_INFO, info);
}

/* Bytes reserved; ~0 when the pool cannot be asked. */
static inline __u64 gp_pool_reserved(int fd, __u32 id)
{
	struct gpumem_pool_info info;

	return gp_pool_info(fd, id, 0, &info) ? ~0ULL : info.reserved_bytes;
}

/* A descriptor of the pool. */
static inline int gp_pool_export(int fd, __u32 id, __u32 flags)
{
	struct gpumem_pool_export c = { .size = sizeof(c), .id = id, .flags = flags };
	int ret = gp_ioctl(fd, GPUMEM_POOL_EXPORT, &c);

	return ret ? ret : c.fd;
}

/* @flags: the scope, of enum gpumem_pool_export_flags. */
static inline int gp_pool_export_fabric_for(int fd, __u32 id, __u32 flags, __u8 *token)
{
	struct gpumem_pool_export c = {
		.size = sizeof(c), .id = id, .flags = GPUMEM_POOL_EXPORT_FABRIC | flags,
	};
	int ret = gp_ioctl(fd, GPUMEM_POOL_EXPORT, &c);

	memcpy(token, c.token, sizeof(c.token));
	return !ret && c.fd != -1 ? -EBADMSG : ret;
}

static inline int gp_pool_export_fabric(int fd, __u32 id, __u8 *token)
{
	return gp_pool_export_fabric_for(fd, id, 0, token);
}

static inline int gp_pool_import(int fd, int exported, struct gpumem_pool_import *out)
{
	*out = (struct gpumem_pool_import) { .size = sizeof(*out), .fd = exported };
	return gp_ioctl(fd, GPUMEM_POOL_IMPORT, out);
}

static inline int gp_pool_import_fabric(int fd, const __u8 *token, struct gpumem_pool_import *out)
{
	*out = (struct gpumem_pool_import) {
		.size = sizeof(*out), .flags = GPUMEM_POOL_IMPORT_FABRIC,
	};
	memcpy(out->token, token, sizeof(out->token));
	return gp_ioctl(fd, GPUMEM_POOL_IMPORT, out);
}

static inline int gp_chunk_open(int fd, __u32 pool, __u64 chunk, struct gpumem_pool_chunk_open *out)
{
	*out = (struct gpumem_pool_chunk_open) {
		.size = sizeof(*out), .pool = pool, .chunk = chunk,
	};
	return gp_ioctl(fd, GPUMEM_POOL_CHUNK_OPEN, out);
}

/* The major number of channel files, or -ENODEV. */
static inline int gp_channel_major(void)
{
	FILE *f = fopen("/proc/devices", "re");
	int major = -ENODEV, n;
	char line[128], name[64];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%d %63s", &n, name) == 2 && !strcmp(name, GPUMEM_CHANNELS_NAME))
			major = n;
	if (f)
		fclose(f);
	return major;
}

/* Makes the file of channel @n, as an administrator does. */
static inline int gp_channel_make(char *path, size_t size, unsigned int n, mode_t mode)
{
	int major = gp_channel_major();

	if (major < 0)
		return major;
	snprintf(path, size, "/tmp/gpumem-channel%u.%d", n, getpid());
	unlink(path);
	if (mknod(path, S_IFCHR | mode, makedev(major, n)) || chmod(path, mode))
		return -errno;
	return 0;
}

/* An open descriptor of channel @n. */
static inline int gp_channel_open(unsigned int n)
{
	char path[64];
	int ret = gp_channel_make(path, sizeof(path), n, 0600);

	if (ret)
		return ret;
	ret = open(path, O_RDWR | O_CLOEXEC);
	ret = ret < 0 ? -errno : ret;
	unlink(path);
	return ret;
}

static inline int gp_channel_attach(int fd, int file, __u32 *channel)
{
	struct gpumem_channel_attach c = { .size = sizeof(c), .fd = file };
	int ret = gp_ioctl(fd, GPUMEM_CHANNEL_ATTACH, &c);

	if (channel)
		*channel = c.channel;
	return ret;
}

/* Makes the client hold channel @n. */
static inline int gp_channel_hold(int fd, unsigned int n)
{
	int file = gp_channel_open(n), ret;
	__u32 got = ~0U;

	if (file < 0)
		return file;
	ret = gp_channel_attach(fd, file, &got);
	close(file);
	return !ret && got != n ? -EBADMSG : ret;
}

/* Waits until the pool's reserved bytes are @bytes.  */
static inline bool gp_reserved_becomes(int fd, __u32 id, __u64 bytes)
{
	__u64 end = in_seconds(10);

	while (gp_pool_reserved(fd, id) != bytes) {
		if (mono_ns() > end) {
			fprintf(stderr, "# reserved: %llu, not %llu\n",
				(unsigned long long)gp_pool_reserved(fd, id),
				(unsigned long long)bytes);
			return false;
		}
		nap_ms(5);
	}
	return true;
}

/* Imports @pool of @fd into @other, by a descriptor that is closed again. */
static inline int gp_pool_share(int fd, __u32 pool, int other, __u32 *import)
{
	struct gpumem_pool_import in;
	int exported = gp_pool_export(fd, pool, GPUMEM_POOL_EXPORT_CLOEXEC), ret;

	if (exported < 0)
		return exported;
	ret = gp_pool_import(other, exported, &in);
	close(exported);
	*import = in.id;
	return ret;
}

#endif
