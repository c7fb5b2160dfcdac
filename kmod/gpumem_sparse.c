// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_sparse: mappings whose tiles are bound to memory one by one.
 *
 * A sparse mapping is a mapping without a buffer object.  It consists of tiles
 * of GPUMEM_TILE_SIZE bytes.  A tile is bound to a place in a buffer object, or
 * it is a *hole*: reads of a hole return zeros, and writes to it are dropped.
 * Each bound tile holds a reference on its buffer object.
 *
 * Tiles are in *tables* of 256.  A table is allocated when a tile in it is
 * bound, or before that by GPUMEM_VM_BIND_RESERVE, and lives as long as the
 * mapping.  A call allocates all tables that it needs, or none.  Binding tiles
 * whose tables exist needs no memory, so it does not fail.  The user's limit of
 * mappings counts tables, too, and so bounds the references on a buffer object.
 *
 * Locks: vm->change while tables are added and tiles are bound; vm->lock for
 * writing while the tiles themselves change, GPUMEM_BIND_MOST at a time.
 * Replaced buffer objects are put without a lock, because the last put may free
 * a large memory.
 */
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "gpumem_bo.h"
#include "gpumem_client.h"
#include "gpumem_ioctl.h"
#include "gpumem_object.h"
#include "gpumem_sparse.h"
#include "gpumem_user.h"
#include "gpumem_vm.h"

/* Tiles that are bound under one hold of the locks; at most a table's. */
#define GPUMEM_BIND_MOST	64

/* A table counts as so many mappings, which take as much kernel memory. */
#define GPUMEM_TABLE_MAPPINGS	64

/* Bytes of addresses that a table covers. */
#define GPUMEM_TABLE_BYTES	((u64)GPUMEM_TABLE_TILES * GPUMEM_TILE_SIZE)

/**
 * gpumem_sparse_check_map - can a sparse mapping be made like this?
 * @cmd: with GPUMEM_VM_MAP_SPARSE
 *
 * Return: 0 or -EINVAL.
 */
int gpumem_sparse_check_map(const struct gpumem_vm_map *cmd)
{
	if (cmd->bo || cmd->offset ||
	    !IS_ALIGNED(cmd->addr | cmd->length, GPUMEM_TILE_SIZE))
		return -EINVAL;
	return 0;
}

/**
 * gpumem_sparse_create - allocate the tiles of a mapping, all holes
 *
 * Return: the tiles, or NULL.
 */
struct gpumem_sparse *gpumem_sparse_create(void)
{
	struct gpumem_sparse *sparse = kzalloc(sizeof(*sparse), GPUMEM_VM_GFP);

	if (sparse)
		xa_init_flags(&sparse->tables, XA_FLAGS_ACCOUNT);
	return sparse;
}

/**
 * gpumem_sparse_free - free the tiles of a mapping
 * @vm: address space that the mapping was in
 * @sparse: tiles that no task can find any more, or NULL
 *
 * Context: no lock held.
 */
void gpumem_sparse_free(struct gpumem_vm *vm, struct gpumem_sparse *sparse)
{
	struct gpumem_client *client = vm->obj.client;
	struct gpumem_tile *table;
	unsigned long index;
	unsigned int i;

	if (!sparse)
		return;
	xa_for_each(&sparse->tables, index, table) {
		for (i = 0; i < GPUMEM_TABLE_TILES; i++) {
			if (!table[i].bo)
				continue;
			gpumem_object_put(&table[i].bo->obj);
			atomic64_sub(GPUMEM_TILE_SIZE, &client->count.vm_bytes);
		}
		kfree(table);
		gpumem_user_unmap(client, GPUMEM_TABLE_MAPPINGS);
		cond_resched();
	}
	xa_destroy(&sparse->tables);
	kfree(sparse);
}

static unsigned long gpumem_table_index(const struct gpumem_mapping *m,
					u64 addr)
{
	return div64_u64(addr - m->addr, GPUMEM_TABLE_BYTES);
}

static unsigned int gpumem_tile_index(const struct gpumem_mapping *m, u64 addr)
{
	return (addr - m->addr) / GPUMEM_TILE_SIZE % GPUMEM_TABLE_TILES;
}

/**
 * gpumem_sparse_resolve - what an address in a sparse mapping is bound to
 * @m: sparse mapping
 * @addr: address in @m
 * @offset: receives the offset in the buffer object
 * @len: reduced to the part inside the tile
 *
 * Context: vm->lock held.
 * Return: the buffer object, or NULL for a hole.
 */
struct gpumem_bo *gpumem_sparse_resolve(const struct gpumem_mapping *m,
					u64 addr, u64 *offset, u64 *len)
{
	u64 in_tile = (addr - m->addr) % GPUMEM_TILE_SIZE;
	const struct gpumem_tile *tile;

	*len = min(*len, GPUMEM_TILE_SIZE - in_tile);
	tile = xa_load(&m->sparse->tables, gpumem_table_index(m, addr));
	if (!tile)
		return NULL;
	tile += gpumem_tile_index(m, addr);
	*offset = tile->offset + in_tile;
	return tile->bo;
}

/**
 * gpumem_sparse_next - the first bound tile at or above an address
 * @m: sparse mapping
 * @addr: address in @m; receives the first address behind the tile
 * @last: last address of interest, in @m
 *
 * Context: vm->lock held.
 * Return: the tile's buffer object, or NULL if there is none.
 */
struct gpumem_bo *gpumem_sparse_next(const struct gpumem_mapping *m, u64 *addr,
				     u64 last)
{
	unsigned long index = gpumem_table_index(m, *addr), found = index;
	unsigned int i = gpumem_tile_index(m, *addr);
	const struct gpumem_tile *table;

	for (;;) {
		table = xa_find(&m->sparse->tables, &found,
				gpumem_table_index(m, last), XA_PRESENT);
		if (!table)
			return NULL;
		if (found != index)
			i = 0;
		for (; i < GPUMEM_TABLE_TILES; i++) {
			if (!table[i].bo)
				continue;
			*addr = m->addr + found * GPUMEM_TABLE_BYTES +
				(i + 1) * GPUMEM_TILE_SIZE;
			return *addr - GPUMEM_TILE_SIZE > last ? NULL :
				table[i].bo;
		}
		index = found++;
	}
}

/* The sparse mapping that contains a range, or NULL. */
static struct gpumem_mapping *gpumem_sparse_find_locked(struct gpumem_vm *vm,
							u64 addr, u64 last)
{
	MA_STATE(mas, &vm->mappings, addr, addr);
	struct gpumem_mapping *m;

	lockdep_assert_held(&vm->change);
	m = mas_walk(&mas);
	if (!m || !m->sparse || last > m->last ||
	    !IS_ALIGNED(addr - m->addr, GPUMEM_TILE_SIZE))
		return NULL;
	return m;
}

/* Allocate a table that is in no mapping yet, and put it in front of @spare. */
static int gpumem_table_alloc(struct gpumem_client *client,
			      struct gpumem_tile **spare)
{
	int ret = gpumem_user_map(client, GPUMEM_TABLE_MAPPINGS);
	struct gpumem_tile *table;

	if (ret)
		return ret;
	table = kcalloc(GPUMEM_TABLE_TILES, sizeof(*table), GPUMEM_VM_GFP);
	if (!table) {
		gpumem_user_unmap(client, GPUMEM_TABLE_MAPPINGS);
		return -ENOMEM;
	}
	table->next = *spare;
	*spare = table;
	return 0;
}

/* Free tables that are in no mapping. */
static void gpumem_tables_free(struct gpumem_client *client,
			       struct gpumem_tile *spare)
{
	struct gpumem_tile *table;

	while (spare) {
		table = spare;
		spare = table->next;
		kfree(table);
		gpumem_user_unmap(client, GPUMEM_TABLE_MAPPINGS);
		cond_resched();
	}
}

/* Count the tables that a range lacks. */
static int gpumem_tables_missing(struct gpumem_vm *vm, u64 addr, u64 last,
				 unsigned long *missing)
{
	unsigned long index, first, end;
	struct gpumem_mapping *m;
	struct gpumem_tile *table;

	guard(mutex)(&vm->change);
	m = gpumem_sparse_find_locked(vm, addr, last);
	if (!m)
		return -EINVAL;
	first = gpumem_table_index(m, addr);
	end = gpumem_table_index(m, last);
	*missing = end - first + 1;
	xa_for_each_range(&m->sparse->tables, index, table, first, end)
		(*missing)--;
	return 0;
}

/*
 * Reserve a place for each table that is missing at @first to @last.  Reserve
 * nothing and return an error if these are more than @most, or memory is short.
 */
static int gpumem_places_reserve_locked(struct gpumem_sparse *sparse,
					unsigned long first, unsigned long last,
					unsigned long most)
{
	unsigned long index, places = 0;
	int ret = 0;

	for (index = first; index <= last; index++) {
		if (xa_load(&sparse->tables, index))
			continue;
		ret = places++ == most ? -EAGAIN :
			xa_reserve(&sparse->tables, index, GPUMEM_VM_GFP);
		if (ret)
			break;
		cond_resched();
	}
	if (ret)
		while (index-- > first)
			xa_release(&sparse->tables, index);
	return ret;
}

/*
 * Add tables of @spare to a range, where it lacks them: all that it lacks, or on
 * an error none.  Return -EAGAIN if it lacks more than @count.
 */
static int gpumem_tables_add(struct gpumem_vm *vm, u64 addr, u64 last,
			     struct gpumem_tile **spare, unsigned long count)
{
	unsigned long index, first, end;
	struct gpumem_mapping *m;
	struct gpumem_tile *table;
	int ret;

	guard(mutex)(&vm->change);
	m = gpumem_sparse_find_locked(vm, addr, last);
	if (!m)
		return -EINVAL;
	first = gpumem_table_index(m, addr);
	end = gpumem_table_index(m, last);
	ret = gpumem_places_reserve_locked(m->sparse, first, end, count);
	if (ret)
		return ret;
	for (index = first; index <= end; index++) {
		if (xa_load(&m->sparse->tables, index))
			continue;
		table = *spare;
		*spare = table->next;
		table->next = NULL;
		/* The place is reserved: this allocates nothing. */
		xa_store(&m->sparse->tables, index, table, GPUMEM_VM_GFP);
		cond_resched();
	}
	return 0;
}

/*
 * Allocate all tables that a range lacks, or on an error none.  Work and other
 * binds find no table before all have been allocated, so none must be taken
 * back from them.
 */
static int gpumem_sparse_reserve(struct gpumem_vm *vm, u64 addr, u64 last)
{
	struct gpumem_client *client = vm->obj.client;
	unsigned long count = 0, missing;
	struct gpumem_tile *spare = NULL;
	int ret;

	/* Another task may replace the mapping meanwhile. */
	do {
		ret = gpumem_tables_missing(vm, addr, last, &missing);
		for (; !ret && count < missing; count++) {
			ret = gpumem_table_alloc(client, &spare);
			if (!ret && fatal_signal_pending(current))
				ret = -EINTR;
			cond_resched();
		}
		if (!ret)
			ret = gpumem_tables_add(vm, addr, last, &spare, count);
	} while (ret == -EAGAIN);
	gpumem_tables_free(client, spare);
	return ret;
}

/**
 * struct gpumem_bind - a bind under way
 */
struct gpumem_bind {
	/** @vm: address space */
	struct gpumem_vm *vm;
	/** @addr: first address that is not bound yet */
	u64 addr;
	/** @last: last address to be bound */
	u64 last;
	/** @bo: buffer object, or NULL to make holes */
	struct gpumem_bo *bo;
	/** @offset: of @addr in @bo */
	u64 offset;
	/** @step: from the offset of a tile to that of the next */
	u64 step;
	/** @old: replaced buffer objects, to be put */
	struct gpumem_bo *old[GPUMEM_BIND_MOST];
	/** @olds: number of entries in @old */
	unsigned int olds;
};

/* Bind some tiles of a table, from @table[@i] on. */
static void gpumem_bind_tiles_locked(struct gpumem_bind *bind,
				     struct gpumem_tile *table, unsigned int i)
{
	atomic64_t *count = &bind->vm->obj.client->count.vm_bytes;
	unsigned int n = 0;

	lockdep_assert_held(&bind->vm->change);
	down_write(&bind->vm->lock);
	while (i < GPUMEM_TABLE_TILES && bind->addr <= bind->last &&
	       n < GPUMEM_BIND_MOST) {
		if (table[i].bo)
			bind->old[bind->olds++] = table[i].bo;
		if (bind->bo)
			kref_get(&bind->bo->obj.ref);
		table[i].bo = bind->bo;
		table[i].offset = bind->offset;
		bind->addr += GPUMEM_TILE_SIZE;
		bind->offset += bind->step;
		i++;
		n++;
	}
	up_write(&bind->vm->lock);
	atomic64_add(((s64)(bind->bo ? n : 0) - bind->olds) * GPUMEM_TILE_SIZE,
		     count);
}

/* Bind the next tiles, or skip tiles of missing tables that are holes. */
static int gpumem_bind_some(struct gpumem_bind *bind)
{
	unsigned long index, found;
	struct gpumem_mapping *m;
	struct gpumem_tile *table;

	guard(mutex)(&bind->vm->change);
	m = gpumem_sparse_find_locked(bind->vm, bind->addr, bind->last);
	if (!m)
		return -EINVAL;
	index = gpumem_table_index(m, bind->addr);
	found = index;
	table = xa_find(&m->sparse->tables, &found,
			gpumem_table_index(m, bind->last), XA_PRESENT);
	/* Another task may have replaced the mapping by one without tables. */
	if (bind->bo && (!table || found != index))
		return -EINVAL;
	if (!table) {
		bind->addr = bind->last + 1;
		return 0;
	}
	if (found != index)
		bind->addr = m->addr + found * GPUMEM_TABLE_BYTES;
	gpumem_bind_tiles_locked(bind, table, gpumem_tile_index(m, bind->addr));
	return 0;
}

static int gpumem_sparse_bind(struct gpumem_bind *bind)
{
	int ret = 0;

	while (!ret && bind->addr <= bind->last) {
		ret = gpumem_bind_some(bind);
		while (bind->olds)
			gpumem_object_put(&bind->old[--bind->olds]->obj);
		cond_resched();
	}
	return ret;
}

static int gpumem_bind_check(const struct gpumem_vm_bind *cmd)
{
	u64 end;

	if (cmd->flags & ~GPUMEM_VM_BIND_RESERVE)
		return -EOPNOTSUPP;
	if (!cmd->addr || !cmd->length ||
	    !IS_ALIGNED(cmd->length | cmd->offset | cmd->step,
			GPUMEM_TILE_SIZE))
		return -EINVAL;
	if (check_add_overflow(cmd->addr, cmd->length, &end))
		return -EOVERFLOW;
	if (cmd->bo ? cmd->flags : cmd->offset || cmd->step)
		return -EINVAL;
	return 0;
}

/* Does @bo have the memory of all tiles? */
static int gpumem_bind_check_bo(const struct gpumem_bo *bo,
				const struct gpumem_vm_bind *cmd)
{
	u64 end;

	if (bo->managed)
		return -EOPNOTSUPP;
	/* The length of a registration is any number of bytes. */
	if (bo->pin)
		return -EINVAL;
	if (check_mul_overflow(cmd->length / GPUMEM_TILE_SIZE - 1, cmd->step,
			       &end) ||
	    check_add_overflow(end, cmd->offset, &end) ||
	    check_add_overflow(end, (u64)GPUMEM_TILE_SIZE, &end) ||
	    end > bo->length)
		return -EOVERFLOW;
	return 0;
}

int gpumem_ioctl_vm_bind(struct gpumem_ucmd *ucmd)
{
	struct gpumem_vm_bind *cmd = ucmd->cmd;
	struct gpumem_bind bind = {
		.addr = cmd->addr,
		.last = cmd->addr + cmd->length - 1,
		.offset = cmd->offset,
		.step = cmd->step,
	};
	int ret = gpumem_bind_check(cmd);

	if (ret)
		return ret;
	bind.vm = gpumem_vm_get(ucmd->client, cmd->vm);
	if (!bind.vm)
		return -ENOENT;
	if (cmd->bo) {
		bind.bo = gpumem_bo_get(ucmd->client, cmd->bo);
		ret = bind.bo ? gpumem_bind_check_bo(bind.bo, cmd) : -ENOENT;
	}
	/* A bind that fails changes nothing: allocate all tables first. */
	if (!ret && (bind.bo || cmd->flags & GPUMEM_VM_BIND_RESERVE))
		ret = gpumem_sparse_reserve(bind.vm, bind.addr, bind.last);
	if (!ret && !(cmd->flags & GPUMEM_VM_BIND_RESERVE))
		ret = gpumem_sparse_bind(&bind);
	if (bind.bo)
		gpumem_object_put(&bind.bo->obj);
	gpumem_object_put(&bind.vm->obj);
	return ret;
}
