/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A file system for the tests of the cuFile API, and helpers for their files. Include this after
 * kselftest_harness.h.
 *
 * The program makes an ext4 on a loop device before its cases run, and unmounts it afterwards. Its loop
 * device keeps nothing in the page cache for the files of ext4, so the cases can tell by mincore() which
 * way data went.
 */
#ifndef GPUMEM_SELFTESTS_CUFILE_FIXTURE_H
#define GPUMEM_SELFTESTS_CUFILE_FIXTURE_H

#include <cufile.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "cuda_case_util.h"

#define ASSERT_CF(call)		ASSERT_EQ(CU_FILE_SUCCESS, (call).err)
#define EXPECT_CF(call)		EXPECT_EQ(CU_FILE_SUCCESS, (call).err)

static char disk_dir[64];	/* empty: no ext4 */
static pid_t disk_owner;

static inline bool disk_make(void)
{
	char command[512], dir[64] = "/dev/shm/cufile.XXXXXX";

	if (geteuid() || !mkdtemp(dir))
		return false;
	/* A kernel may refuse to mount what is open for writing, as "mount -o loop" has it. */
	snprintf(command, sizeof(command),
		 "modprobe loop 2>/dev/null; modprobe ext4 2>/dev/null; cd %s && truncate -s 96M image && "
		 "mkfs.ext4 -q -E nodiscard image && mkdir fs && loop=$(losetup -f --show image) || exit 1; "
		 "mount $loop fs; rc=$?; losetup -d $loop; exit $rc", dir);
	if (system(command)) {
		snprintf(command, sizeof(command), "rm -rf %s", dir);
		if (system(command))
			printf("# %s stays\n", dir);
		return false;
	}
	strcpy(disk_dir, dir);
	disk_owner = getpid();
	return true;
}

static inline void disk_end(void)
{
	char command[256];

	/* Children of cases inherit the function. */
	if (!*disk_dir || getpid() != disk_owner)
		return;
	snprintf(command, sizeof(command), "umount %s/fs && rm -rf %s", disk_dir, disk_dir);
	if (system(command))
		printf("# %s stays\n", disk_dir);
}

#define RINGS	"/proc/sys/kernel/io_uring_disabled"

/* A new empty file, without a name; of ext4, or of tmpfs. */
static inline int file_make(bool disk, int flags)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/file.XXXXXX", disk ? disk_dir : "/dev/shm");
	if (disk)
		snprintf(path, sizeof(path), "%s/fs/file.XXXXXX", disk_dir);
	fd = mkostemp(path, flags | O_CLOEXEC);
	if (fd >= 0)
		unlink(path);
	return fd;
}

static inline CUfileError_t file_register(CUfileHandle_t *handle, int fd)
{
	CUfileDescr_t descr = { .type = CU_FILE_HANDLE_TYPE_OPAQUE_FD, .handle.fd = fd };

	return cuFileHandleRegister(handle, &descr);
}

/* Pages of the file that are in the page cache; -1 on failure. */
static inline long cached_pages(int fd)
{
	off_t size = lseek(fd, 0, SEEK_END);
	size_t pages = (size + page_size - 1) / page_size;
	unsigned char *bits = malloc(pages + 1);
	void *map = mmap(NULL, pages * page_size, PROT_READ, MAP_SHARED, fd, 0);
	long n = -1;

	if (bits && map != MAP_FAILED && !mincore(map, pages * page_size, bits)) {
		n = 0;
		for (size_t i = 0; i < pages; i++)
			n += bits[i] & 1;
	}
	if (map != MAP_FAILED)
		munmap(map, pages * page_size);
	free(bits);
	return n;
}

/* What the counters of the library gained since @from. */
static inline struct gpumem_file_counters gained(const struct gpumem_file_counters *from)
{
	struct gpumem_file_counters now;
	const uint64_t *a = (const uint64_t *)from;
	uint64_t *b = (uint64_t *)&now;

	gpumem_file_counters(&now, sizeof(now));
	for (unsigned int i = 0; i < sizeof(now) / sizeof(*b); i++)
		b[i] -= a[i];
	return now;
}

static inline void fill_pattern(unsigned char *p, size_t n, unsigned int seed)
{
	struct rng r = { seed * 2654435761u + 1 };

	rng_fill(&r, p, n);
}

/* The fixture: ext4, a context, an open driver, a file, 4 MiB of device memory and of the program's. */
#define CUFILE_SIZE	(4 * MIB)

#define CUFILE_FIXTURE(name)						\
FIXTURE(name)								\
{									\
	CUcontext ctx;							\
	CUdeviceptr dev;						\
	unsigned char *mem;						\
	int fd;								\
	CUfileHandle_t file;						\
	struct gpumem_file_counters before;				\
};									\
									\
FIXTURE_SETUP(name)							\
{									\
	if (!*disk_dir)							\
		SKIP(return, "no ext4 on a loop device");		\
	cuda_begin(_metadata, &self->ctx);				\
	ASSERT_CF(cuFileDriverOpen());					\
	ASSERT_CU(cuMemAlloc(&self->dev, CUFILE_SIZE));			\
	self->mem = malloc(CUFILE_SIZE);				\
	ASSERT_TRUE(self->mem);						\
	self->fd = file_make(true, 0);					\
	ASSERT_LE(0, self->fd);						\
	ASSERT_CF(file_register(&self->file, self->fd));		\
	gpumem_file_counters(&self->before, sizeof(self->before));	\
}									\
									\
QUIET_AFTERWARDS(name)

#define CUFILE_MAIN						\
int main(int argc, char **argv)					\
{								\
	if (argc == 2 && !strcmp(argv[1], PEER_WORD))		\
		return peer_main();				\
	/* The harness ends the process itself. */		\
	if (disk_make())					\
		atexit(disk_end);				\
	return test_harness_run(argc, argv);			\
}

#endif
