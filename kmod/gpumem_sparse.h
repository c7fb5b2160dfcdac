/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sparse mappings: their tiles.  Locks: those of the address space.
 */
#ifndef GPUMEM_SPARSE_H
#define GPUMEM_SPARSE_H

#include <linux/gpumem.h>
#include <linux/types.h>
#include <linux/xarray.h>

struct gpumem_bo;
struct gpumem_mapping;
struct gpumem_ucmd;
struct gpumem_vm;

/* Tiles in a table. */
#define GPUMEM_TABLE_TILES	256

/**
 * struct gpumem_tile - what a tile is bound to
 */
struct gpumem_tile {
	/** @bo: referenced, or NULL for a hole */
	struct gpumem_bo *bo;
	union {
		/** @offset: of the tile's first byte in @bo */
		u64 offset;
		/**
		 * @next: in the first tile of a table that is in no mapping
		 * yet: the next such table
		 */
		struct gpumem_tile *next;
	};
};

/**
 * struct gpumem_sparse - the tiles of a sparse mapping
 */
struct gpumem_sparse {
	/**
	 * @tables: number of a tile / GPUMEM_TABLE_TILES -> array of
	 * GPUMEM_TABLE_TILES tiles.  Tables are added under vm->change; tiles
	 * are written under vm->change and vm->lock, read under either.
	 */
	struct xarray tables;
};

/* gpumem_sparse.c */
int gpumem_sparse_check_map(const struct gpumem_vm_map *cmd);
struct gpumem_sparse *gpumem_sparse_create(void);
void gpumem_sparse_free(struct gpumem_vm *vm, struct gpumem_sparse *sparse);
struct gpumem_bo *gpumem_sparse_resolve(const struct gpumem_mapping *m,
					u64 addr, u64 *offset, u64 *len);
struct gpumem_bo *gpumem_sparse_next(const struct gpumem_mapping *m, u64 *addr,
				     u64 last);
int gpumem_ioctl_vm_bind(struct gpumem_ucmd *ucmd);

#endif /* GPUMEM_SPARSE_H */
