// SPDX-License-Identifier: GPL-2.0
/*
 * Counters: after random operations GPUMEM_STATS, /proc/PID/fdinfo, sysfs and a model agree, and
 * everything is zero when everything is gone.
 */
#include <fcntl.h>

#include "kselftest_harness.h"
#include "common/util.h"

#define ADDR	0x500000000ULL
#define RW	(PROT_READ | PROT_WRITE)

FIXTURE(stats)
{
	int fd;
};

FIXTURE_SETUP(stats)
{
	ASSERT_TRUE(dev_quiet(10));
	self->fd = gp_open(0);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(stats)
{
	unmap_all();
	close(self->fd);
	EXPECT_TRUE(dev_quiet(10));
}

/* Compares GPUMEM_STATS, fdinfo and sysfs with @want; returns the number of differences.  */
static unsigned int disagree(int fd, const struct gpumem_stats *want, const char *when)
{
	struct gpumem_stats stats, info;
	unsigned int wrong = 0;
	__u64 device = ~0ULL;
	int ret;

	ret = gp_stats(fd, &stats);
	if (!ret)
		ret = fdinfo_read(getpid(), fd, &info, &device);
	if (ret) {
		fprintf(stderr, "# %s: %s\n", when, strerror(-ret));
		return 1;
	}
	wrong += device != 0;
	for (unsigned int i = 0; i < stat_count; i++) {
		__u64 a = stat_get(&stats, i), b = stat_get(&info, i), c = stat_get(want, i);

		/* A worker adds its time when it leaves a stream, after the work is done. */
		if (!strcmp(stat_names[i].name, "engine_ns") && want->jobs && a <= b)
			continue;
		if (a != b || a != c) {
			fprintf(stderr, "# %s: %s: stats %llu, fdinfo %llu, model %llu\n", when,
				stat_names[i].name, (unsigned long long)a, (unsigned long long)b,
				(unsigned long long)c);
			wrong++;
		}
	}
	return wrong;
}

TEST_F(stats, fresh)
{
	struct gpumem_stats want = { 0 };
	char text[32];

	EXPECT_EQ(0, disagree(self->fd, &want, "fresh"));
	EXPECT_EQ(1, dev_attr(0, "clients"));
	EXPECT_LT(0, dev_attr(0, "size"));
	EXPECT_LE(-1, dev_attr(0, "node"));
	ASSERT_EQ(0, dev_attr_text(0, "engine", text, sizeof(text)));
	EXPECT_STRNE("", text);
}

/* The fdinfo of a client has that client's counters and names its device.  */
TEST_F(stats, two_devices)
{
	struct gpumem_stats stats;
	__u64 device = ~0ULL;
	int one = gp_open(1);
	__u32 id;

	if (one == -ENOENT)
		SKIP(return, "one device");
	ASSERT_EQ(0, gp_bo_alloc(one, page_size, &id));
	ASSERT_EQ(0, fdinfo_read(getpid(), one, &stats, &device));
	EXPECT_EQ(1, device);
	EXPECT_EQ(1, stats.bos);
	ASSERT_EQ(0, fdinfo_read(getpid(), self->fd, &stats, &device));
	EXPECT_EQ(0, device);
	EXPECT_EQ(0, stats.bos);
	EXPECT_EQ(1, dev_attr(0, "clients"));
	EXPECT_EQ(1, dev_attr(1, "clients"));
	close(one);
}

/* --- the model */

#define MAX	24

struct thing {
	__u32 id;
	__u64 bytes;
	__u64 mapped;	/* vm: bytes */
	__u64 mappings;	/* vm: how many */
};

struct model {
	struct thing bo[MAX], view[MAX], vm[MAX], token[MAX], timeline[MAX];
	int token_bo[MAX];
	int fd[MAX];
	__u64 fd_bytes[MAX];
	__u64 used;
	__u64 next;
};

static struct gpumem_stats expected(const struct model *m, const struct gpumem_stats *done)
{
	struct gpumem_stats s = *done;

	for (int i = 0; i < MAX; i++) {
		s.bos += m->bo[i].id != 0;
		s.bo_bytes += m->bo[i].bytes;
		s.views += m->view[i].id != 0;
		s.view_bytes += m->view[i].bytes;
		s.vm_bytes += m->vm[i].mapped;
		s.mappings += m->vm[i].mappings;
		s.exports += m->fd[i] != 0;
		s.export_bytes += m->fd_bytes[i];
		s.tokens += m->token[i].id && m->token_bo[i] >= 0;
		s.objects += (m->bo[i].id != 0) + (m->view[i].id != 0) + (m->vm[i].id != 0) +
			     (m->token[i].id != 0) + (m->timeline[i].id != 0);
	}
	return s;
}

TEST_F_TIMEOUT(stats, random, 120)
{
	__u64 steps = env_number("GPUMEM_STEPS", 3000), filled = 0, jobs = 0;
	struct model *m = calloc(1, sizeof(*m));
	struct gpumem_stats done = { 0 }, want;
	struct gpumem_sqe sqe;
	struct rng r;
	struct stream s;
	__u32 vm, bo;
	char when[64];

	rng_start(&r, "stats");
	ASSERT_EQ(0, gp_vm_create(self->fd, &vm));
	ASSERT_EQ(0, gp_bo_alloc(self->fd, 64 * KIB, &bo));
	ASSERT_EQ(0, gp_vm_map(self->fd, vm, bo, 0, ADDR, 64 * KIB, 1, 1));
	ASSERT_EQ(0, stream_open(&s, self->fd, vm, 0, 16));
	for (__u64 step = 0; step < steps; step++) {
		int i = rng_below(&r, MAX), j = rng_below(&r, MAX);
		__u64 n = (1 + rng_below(&r, 64)) * page_size;
		__u8 name[GPUMEM_TOKEN_SIZE];
		struct gpumem_bo_import import;

		switch (rng_below(&r, 8)) {
		case 0:
			/*
			 * A root whose id is destroyed exists while views or mappings use it: the
			 * test destroys only unused roots.
			 */
			if (!m->bo[i].id) {
				ASSERT_EQ(0, gp_bo_alloc(self->fd, n, &m->bo[i].id));
				m->bo[i].bytes = n;
			} else {
				bool busy = false;

				for (int k = 0; k < MAX; k++)
					busy |= m->view[k].id || m->fd[k] || m->vm[k].mapped;
				if (busy)
					break;
				ASSERT_EQ(0, gp_destroy(self->fd, m->bo[i].id));
				m->bo[i] = (struct thing) { 0 };
				for (int k = 0; k < MAX; k++)
					if (m->token[k].id && m->token_bo[k] == i)
						m->token_bo[k] = -1;
			}
			break;
		case 1:
			if (m->vm[i].id) {
				ASSERT_EQ(0, gp_destroy(self->fd, m->vm[i].id));
				m->vm[i] = (struct thing) { 0 };
			} else {
				ASSERT_EQ(0, gp_vm_create(self->fd, &m->vm[i].id));
			}
			break;
		case 2:
			if (!m->vm[i].id || !m->bo[j].id)
				break;
			ASSERT_EQ(0, gp_vm_map(self->fd, m->vm[i].id, m->bo[j].id, 0,
					       ADDR + (m->next++ << 20), m->bo[j].bytes, 1, 1));
			m->vm[i].mapped += m->bo[j].bytes;
			m->vm[i].mappings++;
			break;
		case 3:
			if (m->token[i].id) {
				ASSERT_EQ(0, gp_destroy(self->fd, m->token[i].id));
				m->token[i].id = 0;
			} else if (m->bo[j].id) {
				ASSERT_EQ(0, gp_token_create(self->fd, m->bo[j].id, 1, 7, 0,
							     &m->token[i].id, name));
				m->token_bo[i] = j;
			}
			break;
		case 4:
			if (m->fd[i]) {
				close(m->fd[i]);
				m->fd[i] = 0;
				m->fd_bytes[i] = 0;
			} else if (m->bo[j].id) {
				m->fd[i] = gp_bo_export(self->fd, m->bo[j].id, 0, m->bo[j].bytes,
							0);
				ASSERT_LT(0, m->fd[i]);
				m->fd_bytes[i] = m->bo[j].bytes;
			}
			break;
		case 5:
			if (m->view[i].id) {
				ASSERT_EQ(0, gp_destroy(self->fd, m->view[i].id));
				m->view[i] = (struct thing) { 0 };
			} else if (m->fd[j]) {
				ASSERT_EQ(0, gp_bo_import(self->fd, m->fd[j], &import));
				m->view[i].id = import.id;
				m->view[i].bytes = import.length;
				ASSERT_EQ(m->fd_bytes[j], import.length);
			}
			break;
		case 6:
			if (m->timeline[i].id) {
				ASSERT_EQ(0, gp_destroy(self->fd, m->timeline[i].id));
				m->timeline[i].id = 0;
			} else {
				ASSERT_EQ(0, gp_timeline_create(self->fd, 0, &m->timeline[i].id));
			}
			break;
		default:
			n = rng_below(&r, 5000);
			sqe = sqe_fill(ADDR, 1, step, n);
			ASSERT_EQ(0, stream_push(&s, &sqe));
			filled += n;
			jobs++;
		}
		if (step % 16)
			continue;
		ASSERT_EQ(0, stream_sync(&s));
		/* Objects outside the model: a vm, a bo mapped in it, a stream and its timeline. */
		done = (struct gpumem_stats) {
			.objects = 4, .bos = 1, .bo_bytes = 64 * KIB, .vm_bytes = 64 * KIB, .mappings = 1,
			.streams = 1, .jobs = jobs, .fill_bytes = filled,
			.doorbells = s.doorbells, .ring_bytes = (jobs ? 2 : 1) * page_size,
		};
		want = expected(m, &done);
		snprintf(when, sizeof(when), "step %llu", (unsigned long long)step);
		ASSERT_EQ(0, disagree(self->fd, &want, when));
		ASSERT_EQ((long long)want.bos, dev_attr(0, "bos"));
		ASSERT_EQ((long long)want.bo_bytes, dev_attr(0, "used"));
		ASSERT_EQ((long long)want.views, dev_attr(0, "views"));
		ASSERT_EQ((long long)want.exports, dev_attr(0, "exports"));
		ASSERT_EQ(1, dev_attr(0, "clients"));
	}
	EXPECT_LT(0, jobs);
	/* Destroy every object: all counters are zero, except those of completed work.  */
	for (int i = 0; i < MAX; i++) {
		const struct thing *things[] = {
			&m->view[i], &m->vm[i], &m->token[i], &m->timeline[i], &m->bo[i],
		};

		for (unsigned int k = 0; k < ARRAY_SIZE(things); k++) {
			EXPECT_EQ(things[k]->id ? 0 : -ENOENT, gp_destroy(self->fd, things[k]->id));
		}
		if (m->fd[i])
			close(m->fd[i]);
	}
	EXPECT_EQ(0, stream_close(&s));
	EXPECT_EQ(0, gp_destroy(self->fd, vm));
	EXPECT_EQ(0, gp_destroy(self->fd, bo));
	EXPECT_TRUE(dev_attr_becomes(0, "bos", 0, 10));
	EXPECT_TRUE(dev_attr_becomes(0, "exports", 0, 10));
	EXPECT_TRUE(dev_attr_becomes(0, "views", 0, 10));
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 10));
	want = (struct gpumem_stats) {
		.jobs = jobs, .fill_bytes = filled, .doorbells = s.doorbells,
	};
	EXPECT_EQ(0, disagree(self->fd, &want, "after everything"));
	free(m);
}

/* Memory that outlives its client stays in the device's counters.  */
TEST_F(stats, after_the_client)
{
	__u32 id;
	int dmabuf;

	ASSERT_EQ(0, gp_bo_alloc(self->fd, MIB, &id));
	dmabuf = gp_bo_export(self->fd, id, 0, page_size, 0);
	ASSERT_LE(0, dmabuf);
	close(self->fd);
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 0, 5));
	EXPECT_EQ(1, dev_attr(0, "bos"));
	EXPECT_EQ(1, dev_attr(0, "exports"));
	EXPECT_EQ((long long)MIB, dev_attr(0, "used"));
	close(dmabuf);
	EXPECT_TRUE(dev_quiet(10));
	self->fd = -1;
}

/* GPUMEM_INFO and sysfs have the same numbers.  */
TEST_F(stats, info)
{
	struct gpumem_info info;
	__u32 id;

	ASSERT_EQ(0, gp_bo_alloc(self->fd, 3 * MIB, &id));
	ASSERT_EQ(0, gp_info(self->fd, 0, &info));
	EXPECT_EQ(3 * MIB, info.used);
	EXPECT_EQ((long long)info.used, dev_attr(0, "used"));
	EXPECT_EQ((long long)info.total, dev_attr(0, "size"));
	EXPECT_EQ(-EACCES, gp_info(self->fd, 1, &info));
	EXPECT_EQ(-EACCES, gp_info(self->fd, GPUMEM_MAX_DEVICES, &info));
	EXPECT_EQ(-EACCES, gp_info(self->fd, ~0U, &info));
}

/* t_stats --uuid: the identities of all devices, a line each, for t_module.sh. */
static int print_uuids(void)
{
	for (unsigned int d = 0; d < dev_count(); d++) {
		struct gpumem_info info;
		int fd = gp_open(d);

		if (fd < 0 || gp_info(fd, 0, &info))
			return 1;
		for (unsigned int i = 0; i < sizeof(info.uuid); i++)
			printf("%02x", info.uuid[i]);
		printf("\n");
		close(fd);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--uuid"))
		return print_uuids();
	return test_harness_run(argc, argv);
}
