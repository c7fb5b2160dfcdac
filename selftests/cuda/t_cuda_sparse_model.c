// SPDX-License-Identifier: GPL-2.0
/*
 * Random maps of sparse arrays' tiles (cuMemMapArrayAsync), and copies of boxes over borders of tiles, against a
 * model of the tiles.
 */
#include "kselftest_harness.h"
#include "sparse_fixture.h"

#define POOL_TILES	64
#define MOST_TILES	64

struct tile {
	int pool;			/* tile of the handle, or -1: a hole */
};

/* An array with a handle of its own: how the bytes of a tile lie depends on the array's shape. */
struct model {
	CUarray array;
	handle_t handle;
	unsigned char *pool;		/* the handle's tiles */
	size_t w, h, d;			/* elements; d is at least 1 */
	unsigned int bytes;		/* of an element */
	unsigned int tile[3], tiles[3];
	bool layered;
	struct tile map[MOST_TILES];
};

static size_t up(size_t n, size_t unit)
{
	return (n + unit - 1) / unit;
}

/* The model's copy of a row's first byte in its tile, and the bytes up to the tile's border; NULL: a hole. */
static unsigned char *model_at(struct model *m, size_t x, size_t y, size_t z, size_t *left)
{
	size_t row = m->tile[0] * m->bytes;
	const struct tile *t = &m->map[(z / m->tile[2] * m->tiles[1] + y / m->tile[1]) * m->tiles[0] + x / row];

	*left = row - x % row;
	if (t->pool < 0)
		return NULL;
	return m->pool + t->pool * TILE +
	       ((z % m->tile[2] * m->tile[1] + y % m->tile[1]) * m->tile[0]) * m->bytes + x % row;
}

static void model_copy(struct model *m, unsigned char *dense, size_t x, size_t y, size_t z, size_t w, size_t h,
		       size_t d, bool write)
{
	for (size_t k = 0; k < d; k++) {
		for (size_t j = 0; j < h; j++) {
			for (size_t i = 0, n; i < w; i += n) {
				unsigned char *at = model_at(m, x + i, y + j, z + k, &n);
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

static CUresult model_make(struct model *m, struct rng *r)
{
	static const struct {
		CUarray_format format;
		unsigned int channels, bytes;
	} kinds[] = { { U8, 1, 1 }, { U8, 2, 2 }, { U8, 4, 4 }, { U32, 2, 8 }, { U32, 4, 16 }, { F32, 1, 4 } };
	unsigned int kind = rng_below(r, ARRAY_SIZE(kinds)), shape = rng_below(r, 3), depth;
	CUDA_ARRAY_SPARSE_PROPERTIES p;
	CUresult result;
	CUarray a;

	m->pool = calloc(POOL_TILES, TILE);
	if (!m->pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = pool(&m->handle, POOL_TILES * TILE);
	if (result)
		return result;
	m->bytes = kinds[kind].bytes;
	m->layered = shape == 1;
	/* Ask for the tile of the shape first. */
	result = make(&a, 64, 64, shape == 2 ? 64 : shape ? 2 : 0, kinds[kind].format, kinds[kind].channels,
		      SPARSE | (shape == 1 ? LAYERED : 0));
	if (!result)
		result = cuArrayGetSparseProperties(&p, a);
	if (!result)
		result = cuArrayDestroy(a);
	if (result)
		return result;
	m->tile[0] = p.tileExtent.width;
	m->tile[1] = p.tileExtent.height;
	m->tile[2] = p.tileExtent.depth;
	m->w = m->tile[0] + rng_below(r, 2 * m->tile[0]);
	m->h = m->tile[1] + rng_below(r, 2 * m->tile[1]);
	m->d = shape == 2 ? m->tile[2] + rng_below(r, 2 * m->tile[2]) : shape ? 1 + rng_below(r, 4) : 1;
	depth = shape ? m->d : 0;
	m->tiles[0] = up(m->w, m->tile[0]);
	m->tiles[1] = up(m->h, m->tile[1]);
	m->tiles[2] = up(m->d, m->tile[2]);
	for (unsigned int i = 0; i < MOST_TILES; i++)
		m->map[i].pool = -1;
	return make(&m->array, m->w, m->h, depth, kinds[kind].format, kinds[kind].channels,
		    SPARSE | (shape == 1 ? LAYERED : 0));
}

static CUresult model_free(struct model *m)
{
	CUresult result = cuMemRelease(m->handle);

	free(m->pool);
	return result ? result : cuArrayDestroy(m->array);
}

/* Map or unmap a random box of tiles. */
static CUresult model_map(struct model *m, struct rng *r, CUstream s)
{
	unsigned int first[3], n[3], offset[3], extent[3], total = 1;
	const size_t size[3] = { m->w, m->h, m->layered ? 1 : m->d };
	unsigned int layer = m->layered ? rng_below(r, m->d) : 0, at;
	bool map = rng_below(r, 3);
	CUarrayMapInfo info;
	CUresult result;

	for (int i = 0; i < 3; i++) {
		unsigned int most = i == 2 && m->layered ? 1 : m->tiles[i];

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
	info.subresource.sparseLevel.layer = layer;
	result = cuMemMapArrayAsync(&info, 1, s);
	if (result)
		return result;
	for (unsigned int z = 0; z < n[2]; z++)
		for (unsigned int y = 0; y < n[1]; y++)
			for (unsigned int x = 0; x < n[0]; x++)
				m->map[((first[2] + z + layer) * m->tiles[1] + first[1] + y) * m->tiles[0] +
				       first[0] + x].pool = !map ? -1 :
					(int)(at + (z * n[1] + y) * n[0] + x);
	return CUDA_SUCCESS;
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
	const __u64 steps = env_number("GPUMEM_STEPS", 20000) / 20;
	unsigned char *dense = malloc(4 * MIB), *want = malloc(4 * MIB);
	unsigned long long maps = 0, reads = 0, writes = 0;
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
		unsigned int op = rng_below(&r, 16);
		size_t x, y, z, w, h, d;
		bool pin = rng_below(&r, 2);
		unsigned char *host = pin ? pinned : dense;

		if (!op) {
			ASSERT_CU(model_free(a));
			ASSERT_CU(model_make(a, &r));
			continue;
		}
		if (op < 8) {
			ASSERT_CU(model_map(a, &r, self->s));
			maps++;
			continue;
		}
		x = rng_below(&r, a->w * a->bytes);
		y = rng_below(&r, a->h);
		z = rng_below(&r, a->d);
		w = 1 + rng_below(&r, a->w * a->bytes - x);
		h = 1 + rng_below(&r, a->h - y);
		d = 1 + rng_below(&r, a->d - z);
		if (w * h * d > 4 * MIB)
			continue;
		if (op < 12) {
			/* What the tiles share must not depend on the order of writes. */
			if (aliased(a))
				continue;
			for (size_t i = 0; i < w * h * d; i++)
				host[i] = rng_next(&r);
			ASSERT_CU(box_async(a->array, host, true, x, y, z, w, h, d, self->s));
			model_copy(a, host, x, y, z, w, h, d, true);
			if (pin)
				ASSERT_CU(cuStreamSynchronize(self->s));
			writes++;
			continue;
		}
		memset(host, 0xee, w * h * d);
		ASSERT_CU(box_async(a->array, host, false, x, y, z, w, h, d, self->s));
		ASSERT_CU(cuStreamSynchronize(self->s));
		model_copy(a, want, x, y, z, w, h, d, false);
		ASSERT_EQ(0, memcmp(want, host, w * h * d)) {
			TH_LOG("step %llu: %zux%zux%zu at %zu %zu %zu of %zux%zux%zu x %u",
			       (unsigned long long)step, w, h, d, x, y, z, a->w, a->h, a->d, a->bytes);
		}
		reads++;
	}
	printf("# %llu maps, %llu writes, %llu reads\n", maps, writes, reads);
	for (unsigned int i = 0; i < ARRAY_SIZE(m); i++)
		ASSERT_CU(model_free(&m[i]));
	ASSERT_CU(cuMemFreeHost(pinned));
	EXPECT_TRUE(dev_attr_becomes(0, "cached", 0, 5));
	EXPECT_LE(used(0) - self->was, 2 * (long long)MIB);
	free(dense);
	free(want);
}

TEST_HARNESS_MAIN
