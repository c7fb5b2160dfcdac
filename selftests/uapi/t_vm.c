// SPDX-License-Identifier: GPL-2.0
/*
 * Address spaces: the rules of mapping, unmapping and access, and a model test: random calls
 * against a table of what every page should be.
 */
#include "kselftest_harness.h"
#include "common/util.h"

#define ADDR		0x7f0000000000ULL
#define READ		GPUMEM_ACCESS_READ
#define WRITE		GPUMEM_ACCESS_WRITE
#define RW		(PROT_READ | PROT_WRITE)

FIXTURE(vm)
{
	int fd;
	__u32 vm, bo;
	__u64 p;	/* page size */
	__u64 n;	/* bytes of the bo: 16 pages */
};

FIXTURE_SETUP(vm)
{
	ASSERT_TRUE(dev_quiet(10));
	self->p = page_size;
	self->n = 16 * page_size;
	self->fd = gp_open(0);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, gp_bo_alloc(self->fd, self->n, &self->bo));
	ASSERT_EQ(0, gp_vm_create(self->fd, &self->vm));
}

FIXTURE_TEARDOWN(vm)
{
	unmap_all();
	close(self->fd);
	EXPECT_TRUE(dev_quiet(10));
}

static __u64 vm_bytes(int fd)
{
	struct gpumem_stats stats;

	return gp_stats(fd, &stats) ? ~0ULL : stats.vm_bytes;
}

TEST_F(vm, map_errors)
{
	const __u64 p = self->p, n = self->n, top = -p;
	const struct {
		__u64 offset, addr, length;
		__u32 readers, writers;
		int want;
	} cases[] = {
		{ 0, 0, p, 1, 1, -EINVAL },
		{ 0, ADDR + 1, p, 1, 1, -EINVAL },
		{ 0, ADDR + p / 2, p, 1, 1, -EINVAL },
		{ 0, ADDR, 0, 1, 1, -EINVAL },
		{ 0, ADDR, 1, 1, 1, -EINVAL },
		{ 0, ADDR, p + 1, 1, 1, -EINVAL },
		{ 1, ADDR, p, 1, 1, -EINVAL },
		{ p / 2, ADDR, p, 1, 1, -EINVAL },
		{ 0, ADDR, p, 0, 1, -EINVAL },
		{ 0, ADDR, p, 1, 2, -EINVAL },
		{ 0, ADDR, p, 1, 3, -EINVAL },
		{ 0, ADDR, p, 2, 0, -EACCES },
		{ 0, ADDR, p, 3, 1, -EACCES },
		{ 0, ADDR, p, 1U << 31, 1U << 31, -EACCES },
		{ 0, ADDR, p, ~0U, ~0U, -EACCES },
		{ n, ADDR, p, 1, 1, -EOVERFLOW },
		{ 0, ADDR, n + p, 1, 1, -EOVERFLOW },
		{ p, ADDR, n, 1, 1, -EOVERFLOW },
		{ top, ADDR, p, 1, 1, -EOVERFLOW },
		{ top, ADDR, 2 * p, 1, 1, -EOVERFLOW },
		{ p, ADDR, top, 1, 1, -EOVERFLOW },
		{ 0, top, 2 * p, 1, 1, -EOVERFLOW },
		{ 0, top - p, 4 * p, 1, 1, -EOVERFLOW },
		{ 0, ADDR, 1ULL << 63, 1, 1, -EOVERFLOW },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		EXPECT_EQ(cases[i].want, gp_vm_map(self->fd, self->vm, self->bo, cases[i].offset,
						   cases[i].addr, cases[i].length,
						   cases[i].readers, cases[i].writers))
			TH_LOG("case %u", i);
	}
	EXPECT_EQ(0, vm_bytes(self->fd));
}

TEST_F(vm, overlap)
{
	const __u64 p = self->p;
	const struct {
		__u64 addr, length;
		int want;
	} cases[] = {
		{ ADDR + 4 * p, 4 * p, -EEXIST }, { ADDR + 5 * p, p, -EEXIST },
		{ ADDR, 5 * p, -EEXIST }, { ADDR + 7 * p, p, -EEXIST },
		{ ADDR + 7 * p, 4 * p, -EEXIST }, { ADDR, 16 * p, -EEXIST },
		{ ADDR + 3 * p, 2 * p, -EEXIST },
		{ ADDR, 4 * p, 0 }, { ADDR + 8 * p, 8 * p, 0 },
	};
	__u32 other;

	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo, 0, ADDR + 4 * p, 4 * p, 1, 1));
	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		EXPECT_EQ(cases[i].want, gp_vm_map(self->fd, self->vm, self->bo, 0, cases[i].addr,
						   cases[i].length, 1, 0))
			TH_LOG("case %u", i);
	}
	EXPECT_EQ(16 * p, vm_bytes(self->fd));
	/* The same addresses are free in another address space.  */
	ASSERT_EQ(0, gp_vm_create(self->fd, &other));
	EXPECT_EQ(0, gp_vm_map(self->fd, other, self->bo, 0, ADDR, 16 * p, 1, 1));
	EXPECT_EQ(32 * p, vm_bytes(self->fd));
	EXPECT_EQ(0, gp_destroy(self->fd, other));
	EXPECT_EQ(16 * p, vm_bytes(self->fd));
	/* Mappings at both ends of the address range.  */
	EXPECT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo, 0, p, p, 1, 1));
	EXPECT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo, 0, -2 * p, p, 1, 1));
	EXPECT_EQ(-EEXIST, gp_vm_map(self->fd, self->vm, self->bo, 0, -2 * p, p, 1, 1));
}

TEST_F(vm, unmap)
{
	const __u64 p = self->p;
	__u64 unmapped;

#define UNMAP(addr, length) gp_vm_unmap(self->fd, self->vm, (addr), (length), &unmapped)
	EXPECT_EQ(-EINVAL, UNMAP(0, p));
	EXPECT_EQ(-EINVAL, UNMAP(ADDR, 0));
	EXPECT_EQ(-EOVERFLOW, UNMAP(ADDR, -p));
	unmapped = 1;
	EXPECT_EQ(0, UNMAP(ADDR, p));
	EXPECT_EQ(0, unmapped);

	/* [0, 4) and [4, 6) and [8, 9) */
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo, 0, ADDR, 4 * p, 1, 1));
	/* Mappings cannot be cut, not even by one byte.  */
	EXPECT_EQ(-EINVAL, UNMAP(ADDR + 1, 4 * p));
	EXPECT_EQ(-EINVAL, UNMAP(ADDR, 4 * p - 1));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo, 0, ADDR + 4 * p, 2 * p, 1, 1));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo, 0, ADDR + 8 * p, p, 1, 1));
	EXPECT_EQ(-EINVAL, UNMAP(ADDR, p));
	EXPECT_EQ(-EINVAL, UNMAP(ADDR + 3 * p, p));
	EXPECT_EQ(-EINVAL, UNMAP(ADDR + p, 2 * p));
	EXPECT_EQ(-EINVAL, UNMAP(ADDR, 5 * p));
	EXPECT_EQ(-EINVAL, UNMAP(ADDR + p, 10 * p));
	EXPECT_EQ(-EINVAL, UNMAP(ADDR - 4 * p, 5 * p));
	EXPECT_EQ(7 * p, vm_bytes(self->fd));
	EXPECT_EQ(0, UNMAP(ADDR + 6 * p, 2 * p));
	EXPECT_EQ(0, unmapped);
	EXPECT_EQ(0, UNMAP(ADDR + 4 * p, 3 * p));
	EXPECT_EQ(2 * p, unmapped);
	EXPECT_EQ(0, UNMAP(ADDR - p, 100 * p));
	EXPECT_EQ(5 * p, unmapped);
	EXPECT_EQ(0, vm_bytes(self->fd));
	EXPECT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo, 0, ADDR, 16 * p, 1, 1));
	EXPECT_EQ(0, UNMAP(p, -2 * p));
	EXPECT_EQ(16 * p, unmapped);
}

/*
 * The structure can be read and not written: a call that cannot store its results changes nothing.
 */
TEST_F(vm, unanswered)
{
	struct gpumem_device_attach *attach;
	struct gpumem_vm_unmap *unmap;
	struct gpumem_info info;
	__u64 bytes;
	int other;
	void *page = mmap(NULL, self->p, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			  0);

	ASSERT_NE(MAP_FAILED, page);
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo, 0, ADDR, self->n, 1, 1));
	unmap = page;
	*unmap = (struct gpumem_vm_unmap) {
		.size = sizeof(*unmap), .vm = self->vm, .addr = ADDR, .length = self->n,
	};
	ASSERT_EQ(0, mprotect(page, self->p, PROT_READ));
	EXPECT_EQ(-EFAULT, gp_ioctl(self->fd, GPUMEM_VM_UNMAP, unmap));
	EXPECT_EQ(0, gp_vm_unmap(self->fd, self->vm, ADDR, self->n, &bytes));
	EXPECT_EQ(self->n, bytes);
	other = gp_open(1);
	if (other >= 0) {
		ASSERT_EQ(0, mprotect(page, self->p, PROT_READ | PROT_WRITE));
		attach = page;
		*attach = (struct gpumem_device_attach) { .size = sizeof(*attach), .fd = other };
		ASSERT_EQ(0, mprotect(page, self->p, PROT_READ));
		EXPECT_EQ(-EFAULT, gp_ioctl(self->fd, GPUMEM_DEVICE_ATTACH, attach));
		EXPECT_EQ(-EACCES, gp_info(self->fd, 1, &info));
		close(other);
	}
	munmap(page, self->p);
}

TEST_F(vm, access_errors)
{
	const __u64 p = self->p;

#define ACCESS(addr, length, device, access) \
	gp_vm_access(self->fd, self->vm, (addr), (length), (device), (access))
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo, 0, ADDR, 4 * p, 0, 0));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo, 0, ADDR + 4 * p, 2 * p, 0, 0));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo, 0, ADDR + 8 * p, 2 * p, 0, 0));
	EXPECT_EQ(-EINVAL, ACCESS(ADDR, 4 * p, 0, WRITE));
	EXPECT_EQ(-EOPNOTSUPP, ACCESS(ADDR, 4 * p, 0, 4));
	EXPECT_EQ(-EOPNOTSUPP, ACCESS(ADDR, 4 * p, 0, 1U << 31 | READ));
	EXPECT_EQ(-EACCES, ACCESS(ADDR, 4 * p, 1, READ));
	EXPECT_EQ(-EACCES, ACCESS(ADDR, 4 * p, 31, READ));
	EXPECT_EQ(-EACCES, ACCESS(ADDR, 4 * p, ~0U, READ));
	EXPECT_EQ(-EINVAL, ACCESS(0, 4 * p, 0, READ));
	EXPECT_EQ(-EINVAL, ACCESS(ADDR + 1, 4 * p, 0, READ));
	EXPECT_EQ(-EINVAL, ACCESS(ADDR, 0, 0, READ));
	EXPECT_EQ(-EINVAL, ACCESS(ADDR, p + 1, 0, READ));
	EXPECT_EQ(-EOVERFLOW, ACCESS(ADDR, -p, 0, READ));
	/* Ranges that cut a mapping or have a hole.  */
	EXPECT_EQ(-EINVAL, ACCESS(ADDR, p, 0, READ));
	EXPECT_EQ(-EINVAL, ACCESS(ADDR + p, 3 * p, 0, READ));
	EXPECT_EQ(-EINVAL, ACCESS(ADDR, 5 * p, 0, READ));
	EXPECT_EQ(-EINVAL, ACCESS(ADDR, 10 * p, 0, READ));
	EXPECT_EQ(-EINVAL, ACCESS(ADDR + 6 * p, p, 0, READ));
	EXPECT_EQ(-EINVAL, ACCESS(ADDR + 6 * p, 4 * p, 0, READ));
	EXPECT_EQ(-EINVAL, ACCESS(ADDR - p, 5 * p, 0, READ));
	EXPECT_EQ(0, ACCESS(ADDR, 6 * p, 0, READ | WRITE));
	EXPECT_EQ(0, ACCESS(ADDR + 8 * p, 2 * p, 0, READ));
	EXPECT_EQ(0, ACCESS(ADDR, 4 * p, 0, 0));
}

/*
 * So many mappings that the call drops its lock for workers in between: the access of all of them
 * changes.
 */
TEST_F(vm, access_of_many)
{
	enum { N = 1030 };
	const __u64 p = self->p;
	struct stream s;

	for (int i = 0; i < N; i++)
		ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo, 0, ADDR + i * p, p, 0, 0));
	EXPECT_EQ(0, gp_vm_access(self->fd, self->vm, ADDR, N * p, 0, READ | WRITE));
	ASSERT_EQ(0, stream_open(&s, self->fd, self->vm, 0, 16));
	for (int i = 0; i < 2; i++) {
		struct gpumem_sqe fill = sqe_fill(ADDR, 1, 5, N * p);

		ASSERT_EQ(0, stream_push(&s, &fill));
		EXPECT_EQ(i ? -EIO : 0, stream_sync(&s));
		EXPECT_EQ(i ? EACCES : 0, s.page->error);
		EXPECT_EQ(0, gp_vm_access(self->fd, self->vm, ADDR + (N - 1) * p, p, 0, READ));
	}
	EXPECT_EQ(-EINVAL, gp_vm_access(self->fd, self->vm, ADDR, (N + 1) * p, 0, READ));
	EXPECT_EQ(0, stream_close(&s));
}

TEST_F(vm, a_mapping_keeps_the_memory)
{
	__u32 other;

	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo, 0, ADDR, self->n, 1, 1));
	EXPECT_EQ(0, gp_destroy(self->fd, self->bo));
	EXPECT_EQ(self->n, (__u64)dev_attr(0, "used"));
	EXPECT_EQ(1, dev_attr(0, "bos"));
	EXPECT_EQ(-ENOENT, gp_vm_map(self->fd, self->vm, self->bo, 0, 2 * ADDR, self->p, 1, 1));
	EXPECT_EQ(0, gp_vm_unmap(self->fd, self->vm, ADDR, self->n, NULL));
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 5));
	EXPECT_EQ(0, dev_attr(0, "bos"));
	/* Destroying the address space removes its mappings.  */
	ASSERT_EQ(0, gp_bo_alloc(self->fd, self->n, &other));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, other, 0, ADDR, self->n, 1, 1));
	EXPECT_EQ(0, gp_destroy(self->fd, other));
	EXPECT_EQ(0, gp_destroy(self->fd, self->vm));
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 5));
	EXPECT_EQ(0, vm_bytes(self->fd));
}

/* --- the model */

#define PAGES	256
#define BOS	4
#define MAX_DEV	2

struct page {
	int map;		/* number of the mapping, from 1; 0: none */
	int bo;
	unsigned int index;	/* page of the bo */
	unsigned int access[MAX_DEV];
};

struct model {
	struct page page[PAGES];
	int maps;
};

static bool all_free(const struct model *m, unsigned int first, unsigned int n)
{
	for (unsigned int i = first; i < first + n; i++) {
		if (m->page[i].map)
			return false;
	}
	return true;
}

/* Does the range cut a mapping in two? */
static bool cuts(const struct model *m, unsigned int first, unsigned int n)
{
	unsigned int end = first + n;

	if (first && m->page[first].map && m->page[first].map == m->page[first - 1].map)
		return true;
	return end < PAGES && m->page[end].map && m->page[end].map == m->page[end - 1].map;
}

/* Whether an access to all of the range by device @device should succeed. */
static bool may(const struct model *m, unsigned int first, unsigned int n, int device,
		unsigned int access)
{
	for (unsigned int i = first; i < first + n; i++) {
		if (!m->page[i].map || (m->page[i].access[device] & access) != access)
			return false;
	}
	return true;
}

/* Another id of a buffer object's memory: exports it as a handle, and imports that. */
static int import_again(int fd, __u32 bo, __u64 bytes, __u32 *id)
{
	struct gpumem_bo_import i = { .size = sizeof(i), .flags = GPUMEM_BO_IMPORT_HANDLE };
	int ret;

	i.fd = gp_bo_export(fd, bo, 0, bytes, GPUMEM_BO_EXPORT_HANDLE);
	if (i.fd < 0)
		return i.fd;
	ret = gp_ioctl(fd, GPUMEM_BO_IMPORT, &i);
	close(i.fd);
	*id = i.id;
	return ret;
}

TEST_F_TIMEOUT(vm, model, 100000)
{
	const __u64 p = self->p, steps = env_number("GPUMEM_STEPS", 20000);
	unsigned long long done[4] = { 0 }, imports = 0, looks = 0, faults = 0;
	int other = gp_open(1), devices = 1;
	struct model *m = calloc(1, sizeof(*m));
	unsigned char *mem[BOS];
	__u32 bos[BOS], imported[BOS] = { 0 }, index;
	struct rng r;

	rng_start(&r, "vm model");
	if (other >= 0) {
		ASSERT_EQ(0, gp_attach(self->fd, other, &index));
		ASSERT_EQ(1, index);
		devices = 2;
	}
	for (int i = 0; i < BOS; i++) {
		ASSERT_EQ(0, gp_bo_alloc_on(self->fd, i % devices, 64 * p, &bos[i]));
		mem[i] = gp_map(self->fd, bos[i], 0, 64 * p, RW);
		ASSERT_NE(NULL, mem[i]);
	}
	for (__u64 step = 0; step < steps; step++) {
		unsigned int first = rng_below(&r, PAGES), op = rng_below(&r, 9);
		unsigned int n = 1 + rng_below(&r, rng_below(&r, 4) ? 8 : 64);
		__u64 addr = ADDR + first * p, unmapped = 0, want_unmapped = 0;
		int ret, want = 0;

		if (op == 8) {
			__u32 *id = &imported[rng_below(&r, BOS)];

			/* Mappings of an import outlive its id. */
			if (*id) {
				ASSERT_EQ(0, gp_destroy(self->fd, *id));
				*id = 0;
			} else {
				ASSERT_EQ(0, import_again(self->fd, bos[id - imported], 64 * p, id));
				imports++;
			}
			continue;
		}
		if (first + n > PAGES)
			n = PAGES - first;
		/* Half of the time use the exact range of a mapping.  */
		if (op >= 4 && m->page[first].map && rng_below(&r, 2)) {
			int map = m->page[first].map;

			while (first && m->page[first - 1].map == map)
				first--;
			for (n = 1; first + n < PAGES && m->page[first + n].map == map; n++)
				;
			addr = ADDR + first * p;
		}
		if (op < 4) {
			int bo = rng_below(&r, BOS);
			unsigned int at = rng_below(&r, 64);
			__u32 readers = rng_below(&r, 1 << devices);
			__u32 writers = readers & rng_next(&r);

			if (at + n > 64)
				want = -EOVERFLOW;
			else if (!all_free(m, first, n))
				want = -EEXIST;
			ret = gp_vm_map(self->fd, self->vm, imported[bo] ?: bos[bo], at * p, addr,
					n * p, readers, writers);
			if (!want) {
				m->maps++;
				for (unsigned int i = 0; i < n; i++) {
					struct page *page = &m->page[first + i];

					page->map = m->maps;
					page->bo = bo;
					page->index = at + i;
					for (int d = 0; d < devices; d++)
						page->access[d] = (readers >> d & 1 ? READ : 0) |
								  (writers >> d & 1 ? WRITE : 0);
				}
			}
			done[0] += !want;
		} else if (op < 6) {
			if (cuts(m, first, n))
				want = -EINVAL;
			ret = gp_vm_unmap(self->fd, self->vm, addr, n * p, &unmapped);
			for (unsigned int i = first; !want && i < first + n; i++) {
				want_unmapped += m->page[i].map ? p : 0;
				m->page[i] = (struct page) { 0 };
			}
			EXPECT_EQ(want_unmapped, unmapped);
			done[1] += !want && want_unmapped;
		} else if (op < 7) {
			static const unsigned int some[] = { 0, READ, READ | WRITE };
			unsigned int access = some[rng_below(&r, 3)];
			int device = rng_below(&r, devices);

			if (!may(m, first, n, 0, 0) || cuts(m, first, n))
				want = -EINVAL;
			ret = gp_vm_access(self->fd, self->vm, addr, n * p, device, access);
			for (unsigned int i = first; !want && i < first + n; i++)
				m->page[i].access[device] = access;
			done[2] += !want;
		} else {
			/* Look whether device memory is where the model says. */
			int device = rng_below(&r, devices);
			bool good = may(m, first, n, device, READ | WRITE);
			unsigned char mark = 1 + rng_below(&r, 255);
			struct gpumem_timeline_wait w;
			struct gpumem_sqe sqe = sqe_fill(addr, 1, mark, n * p);
			struct stream s;

			/* These checks take long: with many steps do one in four.  */
			if (steps >= 10000 && step % 4)
				continue;
			ASSERT_EQ(0, stream_open(&s, self->fd, self->vm, device, 16));
			for (unsigned int i = first; i < first + n; i++) {
				if (m->page[i].map)
					mem[m->page[i].bo][m->page[i].index * p] = 0;
			}
			ASSERT_EQ(0, stream_push(&s, &sqe));
			ret = gp_timeline_wait(self->fd, s.timeline, 1, in_seconds(20), &w);
			want = good ? 0 : -EIO;
			looks++;
			faults += !good;
			for (unsigned int i = first; good && i < first + n; i++) {
				ASSERT_EQ(mark, mem[m->page[i].bo][m->page[i].index * p]);
				ASSERT_EQ(mark, mem[m->page[i].bo][m->page[i].index * p + p - 1]);
			}
			/* The engine never writes a page without write access.  */
			for (unsigned int i = first; i < first + n && !good; i++) {
				const struct page *page = &m->page[i];
				bool elsewhere = false;

				if (!page->map || page->access[device] & WRITE)
					continue;
				/* The same page of the bo may be writable at another address. */
				for (unsigned int j = first; j < first + n; j++)
					elsewhere |= m->page[j].map && j != i &&
						     m->page[j].bo == page->bo &&
						     m->page[j].index == page->index;
				if (!elsewhere) {
					ASSERT_EQ(0, mem[page->bo][page->index * p]);
				}
			}
			ASSERT_EQ(0, stream_close(&s));
		}
		ASSERT_EQ(want, ret)
			TH_LOG("step %llu op %u page %u +%u", (unsigned long long)step, op, first,
			       n);
		if (step % 16 == 0) {
			__u64 bytes = 0;

			for (unsigned int i = 0; i < PAGES; i++)
				bytes += m->page[i].map ? p : 0;
			ASSERT_EQ(bytes, vm_bytes(self->fd));
		}
	}
	printf("# %llu maps, %llu imports, %llu unmaps, %llu accesses, %llu looks of which %llu faults\n",
	       done[0], imports, done[1], done[2], looks, faults);
	fflush(stdout);
	EXPECT_LT(steps / 50, done[0]);
	EXPECT_LT(0, imports);
	EXPECT_LT(steps / 50, done[1]);
	EXPECT_LT(0, done[2]);
	EXPECT_LT(0, looks - faults);
	EXPECT_LT(0, faults);
	EXPECT_EQ(0, gp_vm_unmap(self->fd, self->vm, ADDR, PAGES * p, NULL));
	EXPECT_EQ(0, vm_bytes(self->fd));
	for (int i = 0; i < BOS; i++) {
		ASSERT_EQ(0, munmap(mem[i], 64 * p));
		EXPECT_EQ(0, imported[i] ? gp_destroy(self->fd, imported[i]) : 0);
	}
	close(other);
	free(m);
}

TEST_HARNESS_MAIN
