// SPDX-License-Identifier: GPL-2.0
/*
 * Every call of the kernel interface with its first, second, third ... allocation or user copy
 * failing (common/fail_sweep.h), and a storm: random allocation failures, which hit workers, too.
 */
#include <sys/mman.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "nth_process_ops.h"
#include "common/fail_sweep.h"
#include "common/limits_util.h"

/* --- sweeps */

FIXTURE(nth)
{
	struct env e;
	bool able;
};

FIXTURE_VARIANT(nth)
{
	step setup, act, undo;
	step unchanged;		/* checks, after a failure, state that has no counter */
	bool forgets;		/* the call may fail after its change; repeating it is right */
	bool second;		/* needs a second device */
	bool drm;
	bool udmabuf;
	bool vmap;		/* an exporter's vmap(), which must not fail */
	bool quiet;		/* never fails */
};

/* The documented errnos that an injected fault can cause.  */
static bool errno_known(int ret)
{
	return ret == -ENOMEM || ret == -EFAULT;
}

static int env_make(struct env *e)
{
	int ret;

	*e = (struct env) { .fd = gp_open(0), .card = -1 };
	if (e->fd < 0)
		return e->fd;
	ret = gp_bo_alloc(e->fd, 64 * KIB, &e->bo);
	ret = ret ? ret : gp_vm_create(e->fd, &e->vm);
	ret = ret ? ret : map_from(e, e->vm, MAPS);
	return ret ? ret : stream_open(&e->stream, e->fd, e->vm, 0, 16);
}

FIXTURE_SETUP(nth)
{
	self->able = fail_setup(true) && fail_open();
	if (!self->able)
		SKIP(return, "the kernel cannot be made to fail");
	if (variant->second && dev_count() < 2)
		SKIP(return, "there is no second device");
	ASSERT_TRUE(dev_quiet(10));
	ASSERT_EQ(0, env_make(&self->e));
	if (variant->vmap)
		ASSERT_TRUE(fail_spare_vmap());
	if (variant->udmabuf && access("/dev/udmabuf", F_OK))
		SKIP(return, "no udmabuf");
	if (variant->drm)
		self->e.card = vgem_open();
	if (variant->drm && self->e.card < 0)
		SKIP(return, "no module vgem");
}

FIXTURE_TEARDOWN(nth)
{
	if (!self->able)
		return;
	unmap_all();
	close(self->e.fd);
	if (self->e.card >= 0)
		close(self->e.card);
	EXPECT_TRUE(dev_quiet(10));
}

#define OP(name, setup_, act_, undo_, ...)	\
	FIXTURE_VARIANT_ADD(nth, name) {	\
		.setup = setup_, .act = act_, .undo = undo_, ##__VA_ARGS__	\
	}

OP(info, NULL, info, NULL);
OP(stats, NULL, stats, NULL);
OP(device_attach, attach_setup, attach, attach_undo, .unchanged = not_attached, .second = true);
OP(bo_alloc_4k, NULL, alloc_4k, destroy);
OP(bo_alloc_64k, NULL, alloc_64k, destroy);
OP(bo_alloc_2m, NULL, alloc_2m, destroy);
OP(bo_alloc_host, NULL, alloc_host, destroy);
OP(bo_alloc_managed, NULL, alloc_managed, destroy);
OP(bo_advise, alloc_managed, advise, destroy);
OP(destroy_bo, alloc_64k, destroy, NULL);
OP(destroy_token, token, destroy, NULL);
OP(destroy_vm, vm_full, destroy, NULL);
OP(destroy_stream, stream_create, stream_destroy, stream_timeline_undo);
OP(destroy_timeline, timeline_create, destroy, NULL);
OP(destroy_view, view_setup, destroy, close_dmabuf);
OP(destroy_pin, pinned_setup, destroy, unmap_host);
OP(bo_info, NULL, bo_info, NULL);
OP(bo_retire, token, retire, destroy, .forgets = true);
OP(bo_export, NULL, export, close_dmabuf);
OP(bo_import, export, import, import_undo);
OP(vm_export, export_setup, export_range, export_undo);
OP(handle_export, NULL, handle_export, close_dmabuf);
OP(handle_import, handle_export, handle_import, import_undo);
OP(handle_close, handle_export, close_dmabuf, NULL, .quiet = true);
OP(mmap_handle, handle_imported, mmap_view, mmap_view_undo);
OP(import_foreign, foreign_make, import, import_undo, .udmabuf = true, .vmap = true);
OP(import_foreign_drm, foreign_drm, import, import_undo, .drm = true, .vmap = true);
OP(mmap_foreign, foreign_setup, mmap_view, mmap_view_undo, .udmabuf = true);
OP(destroy_foreign, foreign_setup, destroy, close_dmabuf, .udmabuf = true);
OP(token_create, NULL, token, destroy);
OP(token_open, token_setup, token_open, token_undo);
OP(pool_create, NULL, pool_create, destroy);
OP(pool_chunk, pool_setup, alloc_chunk, chunk_undo, .unchanged = chunk_left);
OP(pool_chunk_host, host_pool_setup, alloc_host_chunk, chunk_undo, .unchanged = chunk_left);
OP(destroy_chunk, chunk_setup, destroy, pool_undo);
OP(destroy_pool, pool_create, destroy, NULL);
OP(pool_set, pool_setup, pool_set, pool_undo);
OP(pool_info, pool_setup, pool_info, pool_undo);
OP(pool_export, pool_setup, pool_export, pool_export_undo);
OP(pool_import, pool_exported, pool_import, pool_import_undo);
OP(chunk_open, open_setup, open_chunk, open_undo);
OP(pool_export_fabric, fabric_setup, fabric, channel_undo);
OP(channel_attach, channel_setup, channel, channel_undo, .unchanged = channel_left);
OP(vm_create, NULL, vm_create, destroy);
OP(vm_map, NULL, vm_map, vm_unmap);
OP(vm_unmap, vm_map, vm_unmap, NULL);
OP(vm_unmap_many, NULL, vm_unmap_half, vm_remap_half);
OP(vm_access, NULL, vm_access, vm_access_undo);
OP(vm_map_sparse, NULL, vm_sparse_map, vm_sparse_unmap);
OP(vm_bind, vm_sparse, vm_bind, vm_sparse_undo);
OP(stream_create, NULL, stream_create, stream_undo);
OP(stream_doorbell, NULL, doorbell, NULL);
OP(submit, submit_setup, doorbell, submit_undo);
OP(timeline_create, NULL, timeline_create, destroy);
OP(timeline_signal, timeline_create, timeline_signal, destroy, .unchanged = timeline_unchanged);
OP(timeline_take, counting_create, timeline_take, destroy, .unchanged = timeline_untaken);
OP(timeline_export, timeline_create, timeline_export, timeline_export_undo);
OP(timeline_import, timeline_exported, timeline_import, timeline_import_undo);
OP(timeline_import_signal, timeline_imported, timeline_import_signal, timeline_import_undo,
   .unchanged = timeline_unchanged);
OP(timeline_poll, timeline_create, timeline_poll, destroy);
OP(timeline_sleep, timeline_create, timeline_sleep, destroy);
OP(event_create, NULL, event_create, event_undo);
OP(event_open, event_create, event_open, event_open_undo);
OP(event_record, event_create, event_record, event_undo, .unchanged = event_complete);
OP(event_get, event_pending, event_get, event_open_undo);
OP(event_query, event_pending, event_query, event_undo);
OP(event_poll, event_got, event_poll, event_open_undo);
OP(destroy_event, event_pending, event_undo, NULL);
OP(destroy_timeline_ref, event_got, destroy, event_undo);
OP(bo_pin, host_touched, pin, host_undo);
OP(bo_pin_untouched, host_setup, pin, host_undo);
OP(bo_pin_rdonly, host_touched, pin_rdonly, host_undo);
OP(open, NULL, client_open, client_close);
OP(close, client_open, client_close, NULL, .quiet = true);
OP(close_full, full_client, client_close, full_undo, .quiet = true);
OP(mmap_bo, NULL, mmap_bo, mmap_undo);
OP(mmap_ring, NULL, mmap_ring, mmap_undo);
OP(mmap_timeline, NULL, mmap_timeline, mmap_undo);
OP(mmap_cache, NULL, mmap_cache, mmap_undo);
OP(mmap_view, view_setup, mmap_view, mmap_view_undo);
OP(mmap_dmabuf, export, mmap_dmabuf, mmap_dmabuf_undo);
OP(touch, mmap_far, touch_all, mmap_undo, .quiet = true);
OP(dmabuf_sync, export, sync_cpu, close_dmabuf);
OP(dmabuf_close, export, close_dmabuf, NULL, .quiet = true);
OP(dmabuf_drm, export, drm_import, drm_undo, .drm = true);
OP(timeline_import_fence, fence_setup, fence_import, fence_undo, .drm = true);
OP(fdinfo, fdinfo_setup, fdinfo, fdinfo_undo);

static bool settles(const struct fail_state *want, int client)
{
	return fail_same(want, client, true, 10);
}

TEST_F_TIMEOUT(nth, sweep, 240)
{
	const struct fail_sweep sweep = {
		.setup = variant->setup, .act = variant->act, .undo = variant->undo,
		.unchanged = variant->unchanged, .forgets = variant->forgets,
		.client = self->e.fd, .own = true, .known = errno_known, .settles = settles,
	};
	unsigned int failed = 0, n = fail_sweep(_metadata, &sweep, &self->e, &failed);

	/* Only operations that close something have no point that fails them.  */
	EXPECT_TRUE(failed || variant->quiet);
	TH_LOG("%u points, of which %u fail the call", n - 1, failed);
}

/* --- a process that ends while allocations fail */

static int exit_failing(void *arg)
{
	struct env e = { 0 };

	if (!fail_open() || full_client(&e))
		return 1;
	fail_arm(*(unsigned int *)arg);
	return 0;
}

FIXTURE(end)
{
};

FIXTURE_SETUP(end)
{
	if (!fail_setup(true))
		SKIP(return, "the kernel cannot be made to fail");
}

FIXTURE_TEARDOWN(end)
{
}

TEST_F_TIMEOUT(end, exit, 120)
{
	for (unsigned int n = 1; n <= 12; n++) {
		ASSERT_EQ(0, run_child(exit_failing, &n));
		ASSERT_TRUE(dev_quiet(10)) {
			TH_LOG("point %u", n);
		}
	}
}

/* --- a storm: any allocation of the module fails at times, also in workers */

static const struct {
	step setup, act, undo;
} storm_ops[] = {
	{ NULL, alloc_4k, destroy }, { NULL, alloc_64k, destroy }, { NULL, alloc_2m, destroy },
	{ NULL, alloc_host, destroy }, { export, import, import_undo },
	{ token_setup, token_open, token_undo }, { token, retire, destroy },
	{ vm_full, destroy, NULL }, { NULL, vm_map, vm_unmap },
	{ pool_setup, alloc_chunk, chunk_undo }, { open_setup, open_chunk, open_undo },
	{ pool_exported, pool_import, pool_import_undo },
	{ NULL, vm_unmap_half, vm_remap_half }, { NULL, stream_create, stream_undo },
	{ submit_setup, doorbell, submit_undo }, { timeline_create, timeline_sleep, destroy },
	{ host_touched, pin, host_undo }, { host_setup, pin_rdonly, host_undo },
	{ NULL, event_create, event_undo }, { event_create, event_open, event_open_undo },
	{ event_pending, event_get, event_open_undo }, { event_got, destroy, event_undo },
	{ NULL, mmap_bo, mmap_undo }, { view_setup, mmap_view, mmap_view_undo },
	{ full_client, client_close, full_undo }, { export, mmap_dmabuf, mmap_dmabuf_undo },
};

struct storm {
	struct rng rng;
	unsigned int steps, acts, failed, strange;
};

static void storm_switch(bool on)
{
	const char *percent = on ? "5" : "0";

	fail_write("failslab", "probability", percent);
	fail_write("fail_page_alloc", "probability", percent);
	fail_write("fail_usercopy", "probability", on ? "1" : "0");
}

/* Setup and undo fail, too, and then leave objects behind.  All of them end with the process.  */
static int storm_child(void *arg)
{
	const unsigned int n = sizeof(storm_ops) / sizeof(storm_ops[0]);
	struct storm *s = arg;
	struct env e;

	if (env_make(&e))
		return 1;
	storm_switch(true);
	for (unsigned int i = 0; i < s->steps; i++) {
		unsigned int op = rng_below(&s->rng, n);
		int ret;

		e.id = e.id2 = 0;
		if (storm_ops[op].setup && storm_ops[op].setup(&e))
			continue;
		ret = storm_ops[op].act(&e);
		s->acts++;
		s->failed += ret < 0;
		/* Ranges that an earlier step left behind are occupied, or not there. */
		if (ret && !errno_known(ret) && ret != -EEXIST && ret != -ENOENT &&
		    ret != -EBADMSG) {
			fprintf(stderr, "# operation %u: errno %d\n", op, -ret);
			s->strange++;
		}
		if (!ret && storm_ops[op].undo)
			storm_ops[op].undo(&e);
	}
	return 0;
}

TEST_F_TIMEOUT(end, storm, 240)
{
	struct storm *s = mmap(NULL, page_size, PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	__u64 from, to;
	char text[32];
	__u32 id;
	int fd;

	ASSERT_NE(MAP_FAILED, (void *)s);
	ASSERT_TRUE(fail_text(NULL, "gpumem", &from, &to));
	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)from);
	fail_knob("require-start", text);
	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)to);
	fail_knob("require-end", text);
	fail_knob("stacktrace-depth", "32");
	rng_start(&s->rng, "storm");
	s->steps = env_number("GPUMEM_STEPS", 300);
	EXPECT_EQ(0, run_child(storm_child, s));
	/* Workers release the process's objects while the storm goes on.  */
	EXPECT_TRUE(dev_quiet(20));
	storm_switch(false);
	ASSERT_TRUE(fail_setup(true));
	TH_LOG("%u operations, of which %u failed", s->acts, s->failed);
	EXPECT_EQ(0, s->strange);
	EXPECT_LT(0, s->failed);
	EXPECT_TRUE(dev_quiet(10));
	fd = gp_open(0);
	ASSERT_LE(0, fd);
	EXPECT_EQ(0, gp_bo_alloc(fd, 64 * KIB, &id));
	close(fd);
	EXPECT_TRUE(dev_quiet(10));
}

FAIL_LEAKS_CASE()

TEST_HARNESS_MAIN
