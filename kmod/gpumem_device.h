/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Devices: /dev/gpumemN, with their memory, engine and counters.
 */
#ifndef GPUMEM_DEVICE_H
#define GPUMEM_DEVICE_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include "gpumem_mem.h"

struct dmem_cgroup_region;
struct gpumem_engine;

/**
 * struct gpumem_device - one /dev/gpumemN
 *
 * A device lives from module init to module exit.  Everything that uses a
 * device holds a reference on the module.
 */
struct gpumem_device {
	/** @dev: in class gpumem; its release frees this structure */
	struct device dev;
	/** @cdev: the node */
	struct cdev cdev;
	/** @ordinal: N */
	unsigned int ordinal;
	/** @uuid: identity, the same after a reload on the same machine */
	u8 uuid[16];
	/** @mem: the device's memory */
	struct gpumem_mem mem;
	/** @dmem: region of the dmem cgroup controller, or NULL; constant */
	struct dmem_cgroup_region *dmem;
	/** @engine: executes the streams of this device */
	struct gpumem_engine *engine;
	/** @clients: open files */
	atomic_t clients;
	/** @bos: buffer objects that own memory */
	atomic_t bos;
	/** @exports: DMA-bufs */
	atomic_t exports;
	/** @views: views of roots of this device */
	atomic_t views;
	/** @pools: pools of chunks of this device, until they are freed */
	atomic_t pools;
	/** @imports: DMA-bufs of other drivers */
	atomic_t imports;
	/** @pinned: bytes registered by clients that opened this device */
	atomic64_t pinned;
	/** @notice_lock: protects the fields below and the device's holdings */
	spinlock_t notice_lock;
	/** @holders: gpumem_holding.link of clients that hold its memory */
	struct list_head holders;
	/** @nholders: number of clients in @holders */
	unsigned int nholders;
	/** @budget: each client's share, bytes; 0 divides the memory equally */
	u64 budget;
	/** @engine_ns: time that workers spent in this device's streams, ns */
	atomic64_t engine_ns ____cacheline_aligned_in_smp;
	/** @copy_bytes: bytes that copies in this device's streams wrote */
	atomic64_t copy_bytes;
	/** @fill_bytes: bytes that fills in this device's streams wrote */
	atomic64_t fill_bytes;
};

/* gpumem_drv.c */
bool gpumem_is_live(void);
struct gpumem_device *gpumem_device_nth(unsigned int ordinal);
bool gpumem_device_concurrent(const struct gpumem_device *dev);
bool gpumem_device_pageable(const struct gpumem_device *dev);

#endif /* GPUMEM_DEVICE_H */
