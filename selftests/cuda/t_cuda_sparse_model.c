// SPDX-License-Identifier: GPL-2.0
/*
 * Random maps of the memory of arrays (cuMemMapArrayAsync), and copies of boxes over borders of tiles, against a model of
 * the tiles: sparse arrays, mipmapped ones with their tails, sparse arrays that are smaller than a tile, and deferred
 * arrays with and without levels.
 *
 * The model has the layout that Documentation/vmm.rst and cuda-mapping.rst describe, so that a tile may be mapped in
 * any part of an array after it was written in another.
 */
#include "kselftest_harness.h"
#include "sparse_fixture.h"

#define POOL_TILES	64
#define MOST_TILES	128
#define MOST_LEVELS	5
#define ROW_UNIT	32		/* of rows that are not in tiles */
#define LEVEL_UNIT	512		/* of levels of an array that is one tail */

enum kind { TILED, LEVELS, SMALL, WHOLE, KINDS };

static const char *const kinds[KINDS] = { "tiled", "with levels", "smaller than a tile", "deferred" };

struct tile {
	int pool;			/* tile of the handle, or -1: a hole */
};

struct level {
	CUarray array;
	size_t w, h, d;			/* elements; d is at least 1 */
	unsigned int tiles[3];		/* 0: the level is in a tail */
	size_t at;			/* of tiles: the first in the map; of a level in a tail: bytes from its start */
};

/* An array with a handle of its own. */
struct model {
	enum kind kind;
	CUarray array;
	CUmipmappedArray mipmap;	/* or NULL */
	handle_t handle;
	unsigned char *pool;		/* the handle's tiles */
	unsigned int bytes;		/* of an element */
	unsigned int tile[3];
	bool layered;
	unsigned int levels, tiled;	/* the first levels are tiled */
	struct level level[MOST_LEVELS];
	unsigned int tail, tail_tiles, tails;	/* tails are in the map from @tail on */
	struct tile map[MOST_TILES];
};

static size_t up(size_t n, size_t unit)
{
	return (n + unit - 1) / unit;
}

static size_t row_of(const struct model *m, const struct level *l)
{
	return up(l->w * m->bytes, ROW_UNIT) * ROW_UNIT;
}

/* Bytes of a level in a tail. */
static size_t bytes_of(const struct model *m, const struct level *l, bool one_layer)
{
	return row_of(m, l) * l->h * (one_layer ? 1 : l->d);
}

/* Where a byte of a level is: the tile of the map, and the byte in it.  *@left: bytes that follow there in the row. */
static const struct tile *model_place(const struct model *m, const struct level *l, size_t x, size_t y, size_t z,
				      size_t *at, size_t *left)
{
	size_t row = m->tile[0] * m->bytes, offset;

	if (l->tiles[0]) {
		*left = row - x % row;
		*at = (y % m->tile[1] * m->tile[2] + z % m->tile[2]) * row + x % row;
		return &m->map[l->at + (z / m->tile[2] * l->tiles[1] + y / m->tile[1]) * l->tiles[0] + x / row];
	}
	/* Each layer has a tail, or all have one. */
	offset = l->at + ((m->tails > 1 ? 0 : z) * l->h + y) * row_of(m, l) + x;
	*at = offset % TILE;
	*left = TILE - *at;
	return &m->map[m->tail + (m->tails > 1 ? z * m->tail_tiles : 0) + offset / TILE];
}

/* The model's copy of a byte, and how many follow it in the row; NULL: a hole. */
static unsigned char *model_at(struct model *m, const struct level *l, size_t x, size_t y, size_t z, size_t *left)
{
	size_t at;
	const struct tile *t = model_place(m, l, x, y, z, &at, left);

	return t->pool < 0 ? NULL : m->pool + t->pool * TILE + at;
}

static void model_copy(struct model *m, const struct level *l, unsigned char *dense, size_t x, size_t y, size_t z,
		       size_t w, size_t h, size_t d, bool write)
{
	for (size_t k = 0; k < d; k++) {
		for (size_t j = 0; j < h; j++) {
			for (size_t i = 0, n; i < w; i += n) {
				unsigned char *at = model_at(m, l, x + i, y + j, z + k, &n);
				unsigned char *row = dense + (k * h + j) * w + i;

				n = n < w - i ? n : w - i;
				if (at && write)
					memcpy(at, row, n);
				else if (at)
					memcpy(row, at, n);
				else if (!write)
					memset(row, 0, n);
			}
		}
	}
}

/* --- arrays */

static bool less_than_tile(const struct model *m, const struct level *l)
{
	return l->w < m->tile[0] || l->h < m->tile[1] || (m->tile[2] > 1 && l->d < m->tile[2]);
}

/* Lay out the levels as the library does. */
static void model_lay_out(struct model *m)
{
	bool one_tail = m->kind == WHOLE || m->kind == SMALL;
	size_t at = 0;
	unsigned int i;

	for (i = 0; i < m->levels && !one_tail && !less_than_tile(m, &m->level[i]); i++) {
		struct level *l = &m->level[i];

		l->tiles[0] = up(l->w, m->tile[0]);
		l->tiles[1] = up(l->h, m->tile[1]);
		l->tiles[2] = up(l->d, m->tile[2]);
		l->at = at;
		at += l->tiles[0] * l->tiles[1] * l->tiles[2];
	}
	m->tiled = i;
	m->tail = at;
	at = 0;
	for (; i < m->levels; i++) {
		struct level *l = &m->level[i];

		l->at = one_tail ? up(at, LEVEL_UNIT) * LEVEL_UNIT : at;
		at = l->at + bytes_of(m, l, !one_tail && m->layered);
	}
	m->tail_tiles = up(at, TILE);
	m->tails = !m->tail_tiles ? 0 : m->layered && !one_tail ? m->level[0].d : 1;
}

/* Whether the library says the same of the tail. */
static CUresult model_agrees(const struct model *m)
{
	CUDA_ARRAY_MEMORY_REQUIREMENTS req;
	CUDA_ARRAY_SPARSE_PROPERTIES p;
	CUresult result;

	if (m->kind == WHOLE) {
		result = m->mipmap ? cuMipmappedArrayGetMemoryRequirements(&req, m->mipmap, 0) :
			cuArrayGetMemoryRequirements(&req, m->array, 0);
		return result || req.size == m->tail_tiles * TILE ? result : CUDA_ERROR_UNKNOWN;
	}
	result = m->mipmap ? cuMipmappedArrayGetSparseProperties(&p, m->mipmap) :
		cuArrayGetSparseProperties(&p, m->array);
	if (result)
		return result;
	if (p.miptailSize != m->tail_tiles * TILE ||
	    p.flags != (m->kind == SMALL ? CU_ARRAY_SPARSE_PROPERTIES_SINGLE_MIPTAIL : 0) ||
	    (m->mipmap && m->kind == LEVELS && p.miptailFirstLevel != m->tiled))
		return CUDA_ERROR_UNKNOWN;
	return CUDA_SUCCESS;
}

static size_t half(size_t n)
{
	return n > 1 ? n / 2 : n;
}

/* Draw the extents of all levels, in tiles of m->tile. */
static void model_extents(struct model *m, struct rng *r, unsigned int shape)
{
	struct level *l = m->level;
	size_t most;

	l->w = m->tile[0] + rng_below(r, 2 * m->tile[0]);
	l->h = m->tile[1] + rng_below(r, 2 * m->tile[1]);
	l->d = shape == 2 ? m->tile[2] + rng_below(r, 2 * m->tile[2]) : shape ? 1 + rng_below(r, 4) : 1;
	if (m->kind == SMALL && rng_below(r, 2))
		l->w = 1 + rng_below(r, m->tile[0] - 1);
	else if (m->kind == SMALL)
		l->h = 1 + rng_below(r, m->tile[1] - 1);
	/* Often have two levels of tiles. */
	if (m->kind == LEVELS && rng_below(r, 2)) {
		l->w += l->w < 2 * m->tile[0] ? m->tile[0] : 0;
		l->h += l->h < 2 * m->tile[1] ? m->tile[1] : 0;
		l->d += shape == 2 && l->d < 2 * m->tile[2] ? m->tile[2] : 0;
	}
	/* The last level that there can be has no extent of more than 1. */
	most = l->w > l->h ? l->w : l->h;
	for (m->levels = 1; most > 1 && m->levels < MOST_LEVELS; m->levels++)
		most /= 2;
	if (m->kind == TILED || !rng_below(r, 4))
		m->levels = 1;
	else if (rng_below(r, 2))
		m->levels = 1 + rng_below(r, m->levels);
	for (unsigned int i = 1; i < m->levels; i++) {
		l[i].w = half(l[i - 1].w);
		l[i].h = half(l[i - 1].h);
		l[i].d = m->layered ? l[i - 1].d : half(l[i - 1].d);
	}
}

static CUresult model_make(struct model *m, struct rng *r)
{
	static const struct {
		CUarray_format format;
		unsigned int channels, bytes;
	} formats[] = { { U8, 1, 1 }, { U8, 2, 2 }, { U8, 4, 4 }, { U32, 2, 8 }, { U32, 4, 16 }, { F32, 1, 4 } };
	unsigned int format = rng_below(r, ARRAY_SIZE(formats)), shape = rng_below(r, 3), flags;
	CUDA_ARRAY3D_DESCRIPTOR desc;
	CUDA_ARRAY_SPARSE_PROPERTIES p;
	CUresult result;
	CUarray a;

	memset(m, 0, sizeof(*m));
	m->kind = rng_below(r, KINDS);
	m->pool = calloc(POOL_TILES, TILE);
	if (!m->pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = pool(&m->handle, POOL_TILES * TILE);
	if (result)
		return result;
	m->bytes = formats[format].bytes;
	m->layered = shape == 1;
	flags = shape == 1 ? LAYERED : 0;
	/* Ask for the tile of the shape first. */
	result = make(&a, 64, 64, shape == 2 ? 64 : shape ? 2 : 0, formats[format].format, formats[format].channels,
		      SPARSE | flags);
	if (!result)
		result = cuArrayGetSparseProperties(&p, a);
	if (!result)
		result = cuArrayDestroy(a);
	if (result)
		return result;
	m->tile[0] = p.tileExtent.width;
	m->tile[1] = p.tileExtent.height;
	m->tile[2] = p.tileExtent.depth;
	for (unsigned int i = 0; i < MOST_TILES; i++)
		m->map[i].pool = -1;
	model_extents(m, r, shape);
	model_lay_out(m);
	desc = describe(m->level[0].w, m->level[0].h, shape ? m->level[0].d : 0, formats[format].format,
			formats[format].channels, flags | (m->kind == WHOLE ? DEFERRED : SPARSE));
	if (m->levels == 1 && (m->kind == TILED || rng_below(r, 2))) {
		result = cuArray3DCreate(&m->array, &desc);
		m->level[0].array = m->array;
	} else {
		result = cuMipmappedArrayCreate(&m->mipmap, &desc, m->levels);
		for (unsigned int i = 0; !result && i < m->levels; i++)
			result = cuMipmappedArrayGetLevel(&m->level[i].array, m->mipmap, i);
	}
	return result ? result : model_agrees(m);
}

static CUresult model_free(struct model *m)
{
	CUresult result = cuMemRelease(m->handle);

	free(m->pool);
	if (result)
		return result;
	return m->mipmap ? cuMipmappedArrayDestroy(m->mipmap) : cuArrayDestroy(m->array);
}

/* --- maps */

/* Map or unmap a random box of tiles of a level. */
static CUresult map_tiles(struct model *m, struct rng *r, CUstream s)
{
	const unsigned int level = rng_below(r, m->tiled);
	const struct level *l = &m->level[level];
	const size_t size[3] = { l->w, l->h, m->layered ? 1 : l->d };
	unsigned int layer = m->layered ? rng_below(r, l->d) : 0, at;
	unsigned int first[3], n[3], offset[3], extent[3], total = 1;
	bool map = rng_below(r, 3);
	CUarrayMapInfo info;
	CUresult result;

	for (int i = 0; i < 3; i++) {
		unsigned int most = i == 2 && m->layered ? 1 : l->tiles[i];

		first[i] = rng_below(r, most);
		n[i] = 1 + rng_below(r, most - first[i]);
		offset[i] = first[i] * m->tile[i];
		extent[i] = n[i] * m->tile[i];
		/* A box may end with the array, or with the tile that it ends in. */
		if (offset[i] + extent[i] > size[i] && rng_below(r, 2))
			extent[i] = size[i] - offset[i];
		total *= n[i];
	}
	if (total > POOL_TILES)
		return CUDA_SUCCESS;
	at = rng_below(r, POOL_TILES - total + 1);
	info = box_of(m->array, map ? m->handle : 0, map ? at * TILE : 0, offset[0], offset[1], offset[2],
		      extent[0], extent[1], extent[2]);
	if (m->mipmap) {
		info.resourceType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
		info.resource.mipmap = m->mipmap;
	}
	info.subresource.sparseLevel.level = level;
	info.subresource.sparseLevel.layer = layer;
	result = cuMemMapArrayAsync(&info, 1, s);
	if (result)
		return result;
	for (unsigned int z = 0; z < n[2]; z++)
		for (unsigned int y = 0; y < n[1]; y++)
			for (unsigned int x = 0; x < n[0]; x++)
				m->map[l->at + ((first[2] + z + layer) * l->tiles[1] + first[1] + y) * l->tiles[0] +
				       first[0] + x].pool = !map ? -1 :
					(int)(at + (z * n[1] + y) * n[0] + x);
	return CUDA_SUCCESS;
}

/* Map or unmap a random part of a tail. */
static CUresult map_tail(struct model *m, struct rng *r, CUstream s)
{
	unsigned int layer = rng_below(r, m->tails), first, n, at;
	const struct level *l = m->level;
	bool map = rng_below(r, 4), whole = rng_below(r, 2), box;
	CUarrayMapInfo info;
	CUresult result;

	/* A deferred array of one level and one layer can be mapped by a box that is all of it. */
	box = whole && m->kind == WHOLE && m->levels == 1 && (!m->layered || l->d == 1) && rng_below(r, 2);
	first = whole ? 0 : rng_below(r, m->tail_tiles);
	n = whole ? m->tail_tiles : 1 + rng_below(r, m->tail_tiles - first);
	at = rng_below(r, POOL_TILES - n + 1);
	if (box) {
		info = box_of(m->array, map ? m->handle : 0, at * TILE, 0, 0, 0, l->w, l->h, l->d);
		if (m->mipmap) {
			info.resourceType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
			info.resource.mipmap = m->mipmap;
		}
	} else {
		info = tail_of(m->array, m->mipmap, map ? m->handle : 0, at * TILE, first * TILE, n * TILE);
		info.subresource.miptail.layer = layer;
	}
	result = cuMemMapArrayAsync(&info, 1, s);
	for (unsigned int i = 0; !result && i < n; i++)
		m->map[m->tail + layer * m->tail_tiles + first + i].pool = map ? (int)(at + i) : -1;
	return result;
}

static CUresult model_map(struct model *m, struct rng *r, CUstream s)
{
	return m->tiled && (!m->tails || rng_below(r, 2)) ? map_tiles(m, r, s) : map_tail(m, r, s);
}

/* Whether two tiles of an array have the same memory: what a copy writes there depends on its order. */
static bool aliased(const struct model *m)
{
	for (unsigned int i = 0; i < MOST_TILES; i++)
		for (unsigned int k = 0; k < i; k++)
			if (m->map[i].pool >= 0 && m->map[i].pool == m->map[k].pool)
				return true;
	return false;
}

TEST_F_TIMEOUT(cuda_sparse, model, 100000)
{
	const __u64 steps = env_number("GPUMEM_STEPS", 40000) / 20;
	unsigned char *dense = malloc(4 * MIB), *want = malloc(4 * MIB);
	unsigned long long maps[KINDS] = { 0 }, reads[KINDS] = { 0 }, writes[KINDS] = { 0 };
	unsigned char *pinned;
	struct model m[3];
	struct rng r;

	rng_start(&r, "sparse arrays");
	ASSERT_TRUE(dense && want);
	ASSERT_CU(cuMemAllocHost((void **)&pinned, 4 * MIB));
	for (unsigned int i = 0; i < ARRAY_SIZE(m); i++)
		ASSERT_CU(model_make(&m[i], &r));
	for (__u64 step = 0; step < steps; step++) {
		struct model *a = &m[rng_below(&r, ARRAY_SIZE(m))];
		const struct level *l = &a->level[rng_below(&r, a->levels)];
		unsigned int op = rng_below(&r, 16);
		size_t x, y, z, w, h, d;
		bool pin = rng_below(&r, 2);
		unsigned char *host = pin ? pinned : dense;

		if (!op) {
			ASSERT_CU(model_free(a));
			ASSERT_CU(model_make(a, &r));
			continue;
		}
		/* A copy follows each map, so that many of them are of what was mapped last. */
		if (op < 8) {
			ASSERT_CU(model_map(a, &r, self->s));
			maps[a->kind]++;
		}
		x = rng_below(&r, l->w * a->bytes);
		y = rng_below(&r, l->h);
		z = rng_below(&r, l->d);
		w = 1 + rng_below(&r, l->w * a->bytes - x);
		h = 1 + rng_below(&r, l->h - y);
		d = 1 + rng_below(&r, l->d - z);
		/* Now and then a whole level: that shows what other levels did to it. */
		if (!rng_below(&r, 3)) {
			x = y = z = 0;
			w = l->w * a->bytes;
			h = l->h;
			d = l->d;
		}
		if (w * h * d > 4 * MIB)
			continue;
		if (op & 1) {
			/* What the tiles share must not depend on the order of writes. */
			if (aliased(a))
				continue;
			for (size_t i = 0; i < w * h * d; i++)
				host[i] = rng_next(&r);
			ASSERT_CU(box_async(l->array, host, true, x, y, z, w, h, d, self->s));
			model_copy(a, l, host, x, y, z, w, h, d, true);
			if (pin)
				ASSERT_CU(cuStreamSynchronize(self->s));
			writes[a->kind]++;
			continue;
		}
		memset(host, 0xee, w * h * d);
		ASSERT_CU(box_async(l->array, host, false, x, y, z, w, h, d, self->s));
		ASSERT_CU(cuStreamSynchronize(self->s));
		model_copy(a, l, want, x, y, z, w, h, d, false);
		ASSERT_EQ(0, memcmp(want, host, w * h * d)) {
			TH_LOG("step %llu: %zux%zux%zu at %zu %zu %zu of %zux%zux%zu x %u",
			       (unsigned long long)step, w, h, d, x, y, z, l->w, l->h, l->d, a->bytes);
		}
		reads[a->kind]++;
	}
	for (enum kind kind = 0; kind < KINDS; kind++) {
		printf("# %s: %llu maps, %llu writes, %llu reads\n", kinds[kind], maps[kind], writes[kind],
		       reads[kind]);
		EXPECT_TRUE(steps < 1000 || (maps[kind] && writes[kind] && reads[kind]));
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(m); i++)
		ASSERT_CU(model_free(&m[i]));
	ASSERT_CU(cuMemFreeHost(pinned));
	EXPECT_TRUE(dev_attr_becomes(0, "cached", 0, 5));
	EXPECT_LE(used(0) - self->was, 2 * (long long)MIB);
	free(dense);
	free(want);
}

TEST_HARNESS_MAIN
