/* SPDX-License-Identifier: MIT */
/*
 * libcufile.so.0: the cuFile API. It calls public functions of the driver API, io_uring, and the file system.
 *
 * driver.c has the driver's state, handle.c registered files, buffer.c registered buffers, request.c cuts a request
 * into operations, window.c maps memory that the kernel does not reach, ring.c executes operations, batch.c and async.c
 * are the two asynchronous interfaces, param.c has parameters, count.c counters. Buffers, batches and streams are in
 * tries (trie.c).
 *
 * A request is what a caller asks for. It consists of operations: contiguous pieces that go the same way.
 *
 * Locks: file_lock protects the driver's state and the tables of files and buffers. It is held for look-ups and
 * changes only, never across a request. Each batch has a lock of its own, which is outside file_lock. The locks of
 * ring.c and async.c protect lists, and no other lock is taken inside them.
 *
 * After fork() the child has no driver: every function returns CU_FILE_DRIVER_NOT_INITIALIZED before it takes a
 * lock, if the parent's driver was open.
 */
#ifndef GPUMEM_FILE_FILE_H
#define GPUMEM_FILE_FILE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cufile.h"
#include "gpumem.h"

#define EXPORT		__attribute__((visibility("default")))
#define FILE_PAGE	4096u

/* ---- driver.c */

extern pthread_mutex_t file_lock;

CUfileError_t file_result(CUfileOpError err);
/* For functions that open the driver if no function has. */
CUfileOpError driver_need(CUresult *cuda);
/* For functions that need an open driver. file_lock is held afterwards if the result is CU_FILE_SUCCESS. */
CUfileOpError driver_lock(void);
void driver_unlock(void);
/* Whether this process is the child of one whose driver was open. */
bool driver_forked(void);
/* A request begins and ends; the driver cannot close in between. file_lock is held at the beginning. */
void driver_busy_locked(void);
void driver_idle(void);

/* ---- handle.c */

/* A registered file. Constant after registration, except @users and @next. */
struct file {
	unsigned int users;		/* atomic; the table counts as one */
	struct file *next;		/* of the chain in the table; file_lock */
	CUfileHandle_t handle;
	int fd;				/* the program's descriptor: only compared */
	dev_t dev;
	ino_t ino;
	int plain;			/* own descriptor, through the page cache */
	int direct;			/* own descriptor with O_DIRECT, or -1 */
	unsigned int memory_align;	/* of buffers, for O_DIRECT */
	unsigned int read_align;	/* of offsets and lengths, for O_DIRECT */
	unsigned int write_align;	/* the same; at least a page, so that no page has both kinds of writes */
};

/* file_lock is held. */
struct file *file_get_locked(CUfileHandle_t handle);
void file_put(struct file *file);
/* Deregister all files. */
void files_end(void);

/* ---- buffer.c */

/* The memory of a request, checked when the request was made. */
struct memory {
	uint64_t base;			/* the caller's base pointer */
	uint64_t start, end;		/* the bytes that may be accessed */
	CUfileOpError beyond;		/* the error for other bytes */
	bool device;
	CUcontext context;		/* of the caller, or NULL */
};

/* Find out what @base points to. No lock is held. */
CUfileOpError memory_find(const void *base, struct memory *memory, CUresult *cuda);
/* Whether @size bytes at @offset of the base are in the memory. */
CUfileOpError memory_check(const struct memory *memory, off_t offset, size_t size);
void buffers_end(void);

/* ---- request.c */

/* The way of an operation. */
enum way { WAY_DIRECT, WAY_STAGED, WAY_COMPAT };

struct request {
	struct file *file;
	bool write;
	uint64_t addr;
	size_t size;
	off_t offset;			/* in the file */
	size_t done;			/* bytes from the beginning that are transferred */
	bool device;			/* device memory */
	CUcontext context;		/* of the caller, or NULL */
	void *window;			/* of window.c, or NULL; @addr lies in it */
	size_t window_length;
};

struct operation {
	int fd;
	bool write;
	enum way way;
	uint64_t addr;
	unsigned int size;
	off_t offset;
	ssize_t result;			/* bytes, or -errno */
};

/* The operation that begins @at bytes after the beginning of @request, which is less than its size. */
void operation_next(const struct request *request, size_t at, struct operation *operation);
/*
 * After an operation: if O_DIRECT was refused, make it an operation through the page cache, which the caller executes.
 */
bool operation_stage(const struct file *file, struct operation *operation);
/* Execute a request. The result is the number of bytes, or -errno. */
ssize_t request_run(struct request *request);
/* Use @size bytes at @offset of a memory for a request, which are in it. */
void request_place(struct request *request, const struct memory *memory, off_t offset, size_t size);
/* gpumem_check_tell() of the driver, if it has it. */
void check_tell(uint64_t addr, size_t bytes, unsigned int flags);
/* Tell the checker that a request writes to memory. */
void request_wrote(const struct memory *memory, off_t offset, ssize_t bytes);
/* Release the file and the window of a request. */
void request_end(struct request *request);

/* ---- window.c */

/*
 * After an operation with @result: if the kernel did not reach the memory, make it reachable. True: cut the rest of
 * the request anew.
 */
bool window_open(struct request *request, ssize_t result);
void window_close(struct request *request);

/* ---- ring.c */

#define RING_DEPTH	16u

/* Execute operations, and wait for them. */
void ring_execute(struct operation *operations, unsigned int count);
struct io_uring;
/* Make a ring for @count operations. 0 or -errno. */
int ring_make(struct io_uring *ring, unsigned int count);
/* Execute one operation in this thread. */
void operation_execute(struct operation *operation);
struct io_uring_sqe;
void operation_prepare(struct io_uring_sqe *sqe, struct operation *operation);
void rings_end(void);

/* ---- param.c */

size_t param_size(CUFileSizeTConfigParameter_t param);
bool param_bool(CUFileBoolConfigParameter_t param);

/* ---- batch.c */

void batches_end(void);

/* ---- async.c */

void streams_end(void);

/* ---- count.c */

enum counter {
	COUNT_READ, COUNT_WRITE, COUNT_FILE_REGISTER, COUNT_FILE_DEREGISTER, COUNT_BUFFER_REGISTER,
	COUNT_BUFFER_DEREGISTER, COUNT_BATCH_SUBMIT, COUNT_BATCH_COMPLETE, COUNT_BATCH_SETUP, COUNT_BATCH_CANCEL,
	COUNT_BATCH_DESTROY, COUNT_BATCH_ENQUEUED, COUNTERS
};

void count(enum counter counter, bool ok);
/* Count a request that took from @start, of count_start(). @result as of request_run(). */
uint64_t count_start(void);
void count_request(bool write, ssize_t result, uint64_t start, bool batch);
/* Count an operation that was executed, by a ring or not. */
void count_operation(const struct operation *operation, bool ring);
void count_registered(int64_t bytes);

#endif /* GPUMEM_FILE_FILE_H */
