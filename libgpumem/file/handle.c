// SPDX-License-Identifier: MIT
/*
 * Registered files.
 *
 * A registration opens the program's file twice more: once with O_DIRECT and once without. The program's descriptor
 * is not used afterwards. A program that closes it early therefore never reads or writes another file by its number,
 * and its flags stay as they are. If the file cannot be opened again, a duplicate of the descriptor takes the place
 * of the one that has the same O_DIRECT.
 *
 * A file is in compatibility mode if it cannot be opened with O_DIRECT, or if its file system keeps its data in the
 * page cache anyway.
 *
 * A handle is a number, not an address: its low bits are the place in the table, the others tell one registration in
 * a place from the next. A second registration of a descriptor is found by a hash of the descriptor and its file. The
 * table grows to twice its length, so on average all functions cost the same for any number of files. A
 * registration that makes the table grow costs more.
 *
 * Locks: file_lock for the table. A request keeps its file by @users.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "file/file.h"

#define PLACE_BITS	20u

struct place {
	struct file *file;		/* NULL: the place is free */
	unsigned int next_free;		/* another free place, plus one; 0: none */
	struct file *chain;		/* files whose hash is the number of this place */
};

/* All protected by file_lock. */
static struct place *table;
static unsigned int places;		/* a power of two, or 0 */
static unsigned int first_free;		/* plus one; 0: none */
static uint64_t generation;

static unsigned int place_of(CUfileHandle_t handle)
{
	return (uintptr_t)handle & ((1u << PLACE_BITS) - 1);
}

struct file *file_get_locked(CUfileHandle_t handle)
{
	unsigned int place = place_of(handle);
	struct file *file;

	if (!handle || place >= places)
		return NULL;
	file = table[place].file;
	if (!file || file->handle != handle)
		return NULL;
	__atomic_fetch_add(&file->users, 1, __ATOMIC_RELAXED);
	return file;
}

void file_put(struct file *file)
{
	if (__atomic_sub_fetch(&file->users, 1, __ATOMIC_ACQ_REL))
		return;
	if (file->plain >= 0)
		close(file->plain);
	if (file->direct >= 0)
		close(file->direct);
	free(file);
}

static int reopen(int fd, int flags)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, flags | O_CLOEXEC);
}

/* Whether O_DIRECT would only pass through the page cache. */
static bool cached(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs))
		return false;
	switch ((unsigned long)fs.f_type) {
	case TMPFS_MAGIC:
	case RAMFS_MAGIC:
	case HUGETLBFS_MAGIC:
	case PROC_SUPER_MAGIC:
	case SYSFS_MAGIC:
		return true;
	default:
		return false;
	}
}

/* Ask for the alignment that O_DIRECT needs. False if it is not possible. */
static bool alignment(struct file *file)
{
	struct statx answer;

	file->memory_align = file->read_align = FILE_PAGE;
	if (!statx(file->direct, "", AT_EMPTY_PATH, STATX_DIOALIGN, &answer) && answer.stx_mask & STATX_DIOALIGN) {
		if (!answer.stx_dio_offset_align)
			return false;
		file->memory_align = answer.stx_dio_mem_align ?: 1;
		file->read_align = answer.stx_dio_offset_align;
	}
	file->write_align = file->read_align > FILE_PAGE ? file->read_align : FILE_PAGE;
	return true;
}

static CUfileOpError descriptors(struct file *file, int flags)
{
	int access = flags & O_ACCMODE;

	file->plain = reopen(file->fd, access);
	if (file->plain >= 0)
		posix_fadvise(file->plain, 0, 0, POSIX_FADV_RANDOM);
	else
		file->plain = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
	if (file->plain < 0)
		return CU_FILE_GETNEWFD_FAILED;
	if (param_bool(CUFILE_PARAM_FORCE_COMPAT_MODE) || cached(file->fd))
		return CU_FILE_SUCCESS;
	file->direct = reopen(file->fd, access | O_DIRECT);
	if (file->direct < 0 && flags & O_DIRECT)
		file->direct = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
	if (file->direct >= 0 && !alignment(file)) {
		close(file->direct);
		file->direct = -1;
	}
	return CU_FILE_SUCCESS;
}

static CUfileOpError examine(struct file *file)
{
	int flags = fcntl(file->fd, F_GETFL);
	struct stat st;

	if (flags < 0 || fstat(file->fd, &st))
		return CU_FILE_INVALID_VALUE;
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return CU_FILE_INVALID_FILE_TYPE;
	if (flags & (O_PATH | O_APPEND))
		return CU_FILE_INVALID_FILE_OPEN_FLAG;
	file->dev = st.st_dev;
	file->ino = st.st_ino;
	return CU_FILE_SUCCESS;
}

/* Where a chain of files begins. The table is not empty. */
static struct file **chain_of(const struct file *file)
{
	uint64_t hash = (file->ino * 0x9e3779b97f4a7c15ull + file->dev) * 0x9e3779b97f4a7c15ull + file->fd;

	return &table[hash * 0x9e3779b97f4a7c15ull >> (64 - PLACE_BITS) & (places - 1)].chain;
}

static void chain_add(struct file *file)
{
	struct file **chain = chain_of(file);

	file->next = *chain;
	*chain = file;
}

static void chain_remove(struct file *file)
{
	struct file **at = chain_of(file);

	while (*at != file)
		at = &(*at)->next;
	*at = file->next;
}

/* Whether the same descriptor of the same file is registered. */
static bool is_known(const struct file *file)
{
	const struct file *other = places ? *chain_of(file) : NULL;

	while (other && (other->fd != file->fd || other->dev != file->dev || other->ino != file->ino))
		other = other->next;
	return other;
}

/* Make room for another file. */
static bool table_grow(void)
{
	unsigned int more = places ? 2 * places : 16, old = places;
	struct place *grown = more <= 1u << PLACE_BITS ? realloc(table, more * sizeof(*table)) : NULL;

	if (!grown)
		return false;
	memset(grown + old, 0, (more - old) * sizeof(*grown));
	table = grown;
	places = more;
	for (unsigned int i = 0; i < old; i++)
		table[i].chain = NULL;
	/* The table was full. */
	for (unsigned int i = 0; i < old; i++)
		chain_add(table[i].file);
	for (unsigned int i = more; i-- > old; ) {
		table[i].next_free = first_free;
		first_free = i + 1;
	}
	return true;
}

/* Put a file into the table, and write its handle: once the lock is dropped, another thread may free the file. */
static CUfileOpError enter(struct file *file, CUfileHandle_t *handle)
{
	CUfileOpError err = driver_lock();
	unsigned int place;

	if (err)
		return err;
	if (is_known(file)) {
		err = CU_FILE_HANDLE_ALREADY_REGISTERED;
	} else if (!first_free && !table_grow()) {
		err = CU_FILE_NOMEM_ERROR;
	} else {
		place = first_free - 1;
		first_free = table[place].next_free;
		file->handle = (CUfileHandle_t)(uintptr_t)(++generation << PLACE_BITS | place);
		table[place].file = file;
		chain_add(file);
		*handle = file->handle;
	}
	driver_unlock();
	return err;
}

/* Take a file out of the table. file_lock is held. */
static void leave_locked(struct file *file)
{
	unsigned int place = place_of(file->handle);

	chain_remove(file);
	table[place].file = NULL;
	table[place].next_free = first_free;
	first_free = place + 1;
}

static CUfileOpError file_register(CUfileHandle_t *handle, const CUfileDescr_t *descr)
{
	struct file *file;
	CUfileOpError err;

	if (descr->type == CU_FILE_HANDLE_TYPE_USERSPACE_FS)
		return CU_FILE_IO_NOT_SUPPORTED;
	if (descr->type == CU_FILE_HANDLE_TYPE_OPAQUE_WIN32)
		return CU_FILE_PLATFORM_NOT_SUPPORTED;
	if (descr->type != CU_FILE_HANDLE_TYPE_OPAQUE_FD)
		return CU_FILE_INVALID_VALUE;
	file = calloc(1, sizeof(*file));
	if (!file)
		return CU_FILE_NOMEM_ERROR;
	file->users = 1;
	file->fd = descr->handle.fd;
	file->plain = file->direct = -1;
	err = examine(file);
	if (!err)
		err = descriptors(file, fcntl(file->fd, F_GETFL));
	if (!err && file->direct < 0 && !param_bool(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE))
		err = CU_FILE_IO_NOT_SUPPORTED;
	if (!err)
		err = enter(file, handle);
	if (err)
		file_put(file);
	return err;
}

EXPORT CUfileError_t cuFileHandleRegister(CUfileHandle_t *fh, CUfileDescr_t *descr)
{
	CUfileError_t result = file_result(CU_FILE_INVALID_VALUE);

	if (!fh || !descr)
		return result;
	result.err = driver_need(&result.cu_err);
	if (result.err)
		return result;
	result.err = file_register(fh, descr);
	count(COUNT_FILE_REGISTER, !result.err);
	return result;
}

EXPORT void cuFileHandleDeregister(CUfileHandle_t fh)
{
	struct file *file;

	if (driver_lock())
		return;
	file = file_get_locked(fh);
	if (file)
		leave_locked(file);
	driver_unlock();
	count(COUNT_FILE_DEREGISTER, file);
	if (file) {
		file_put(file);
		file_put(file);
	}
}

void files_end(void)
{
	struct place *all;
	unsigned int n;

	pthread_mutex_lock(&file_lock);
	all = table;
	n = places;
	table = NULL;
	places = 0;
	first_free = 0;
	pthread_mutex_unlock(&file_lock);
	for (unsigned int i = 0; i < n; i++)
		if (all[i].file)
			file_put(all[i].file);
	free(all);
}
