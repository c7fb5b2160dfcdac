/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Engines: the engine of a device executes the entries of the device's streams.
 */
#ifndef GPUMEM_ENGINE_H
#define GPUMEM_ENGINE_H

#include <linux/gpumem.h>
#include <linux/sizes.h>
#include <linux/types.h>

struct gpumem_bo;
struct gpumem_device;
struct gpumem_engine;
struct gpumem_stream;
struct workqueue_struct;

/*
 * The most bytes of a slice.  Between two slices the worker drops vm->lock,
 * yields, and checks whether the stream was cancelled.
 */
#define GPUMEM_SLICE		SZ_1M
/* Least weight of a row of an entry, in bytes of a slice. */
#define GPUMEM_ROW_WEIGHT	256ULL

/**
 * struct gpumem_extent - where the bytes of an operation are
 */
struct gpumem_extent {
	/** @bo: buffer object */
	struct gpumem_bo *bo;
	/** @offset: of the first byte in @bo */
	u64 offset;
	/** @at: kernel's address of all bytes, which are contiguous; or NULL */
	void *at;
};

/**
 * struct gpumem_engine_ops - how a kind of engine moves bytes
 *
 * The owner of an entry (enum gpumem_fenced_state) calls the operations.  It
 * holds vm->lock for reading, which keeps the buffer objects, and passes
 * offsets and lengths inside them.  Preemption may be disabled, so an operation
 * must not sleep or allocate.  Only @copy_in and @copy_out touch user memory, in
 * a thread of the process, up to the first byte that faults.  The other
 * operations return 0 or a negative errno.
 */
struct gpumem_engine_ops {
	/** @name: at most 15 bytes */
	const char *name;
	/** @copy: copy @len bytes */
	int (*copy)(struct gpumem_engine *engine,
		    const struct gpumem_extent *dst,
		    const struct gpumem_extent *src, size_t len);
	/**
	 * @fill: repeat the low @elem bytes of @value over @len bytes, a
	 * multiple of @elem
	 */
	int (*fill)(struct gpumem_engine *engine,
		    const struct gpumem_extent *dst, u64 value,
		    unsigned int elem, size_t len);
	/**
	 * @copy_in: copy from the process's memory; @dst->bo may be NULL, and
	 * the bytes are only read.  Returns the number of bytes that were
	 * copied before a byte faulted, or a negative errno
	 */
	ssize_t (*copy_in)(struct gpumem_engine *engine,
			   const struct gpumem_extent *dst,
			   const void __user *src, size_t len);
	/**
	 * @copy_out: copy to the process's memory; zeros, if @src->bo is NULL.
	 * Returns as @copy_in
	 */
	ssize_t (*copy_out)(struct gpumem_engine *engine, void __user *dst,
			    const struct gpumem_extent *src, size_t len);
};

/**
 * struct gpumem_engine - executes the streams of a device
 */
struct gpumem_engine {
	/** @ops: kind; constant */
	const struct gpumem_engine_ops *ops;
	/** @wq: executes late pieces of published entries; gpumem_publish.c */
	struct workqueue_struct *wq;
	/** @workers: most streams of a client that execute at once; constant */
	unsigned int workers;
};

/* gpumem_engine.c */
struct gpumem_engine *gpumem_engine_create(struct gpumem_device *dev);
void gpumem_engine_flush(struct gpumem_engine *engine);
void gpumem_engine_destroy(struct gpumem_engine *engine);
int gpumem_sqe_check(const struct gpumem_sqe *sqe);
int gpumem_engine_step(struct gpumem_stream *stream);
int gpumem_engine_piece(struct gpumem_stream *stream, size_t bytes,
			bool locked);

/* 1 + index of the device that the destination (@write) or source names, or 0. */
static inline unsigned int gpumem_sqe_rights(const struct gpumem_sqe *sqe,
					     bool write)
{
	return sqe->flags >> (write ? GPUMEM_SQE_DST_RIGHTS_SHIFT :
				      GPUMEM_SQE_SRC_RIGHTS_SHIFT) &
	       GPUMEM_SQE_RIGHTS_MASK;
}

/* gpumem_engine_cpu.c */
extern const struct gpumem_engine_ops gpumem_engine_cpu_ops;
void gpumem_cpu_init(void);
void gpumem_cpu_exit(void);

#endif /* GPUMEM_ENGINE_H */
