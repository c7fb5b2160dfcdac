// SPDX-License-Identifier: GPL-2.0
/*
 * Every kind of call of the CUDA API that enters the kernel or allocates, with its first, second,
 * third ... allocation or user copy failing in the kernel (common/fail_sweep.h).
 *
 * A call that fails returns CUDA_ERROR_OUT_OF_MEMORY, leaves nothing behind, and succeeds when it
 * is made again.  Calls that cannot report (frees) may leave memory for the next call to give back.
 *
 * "warm" operations run many times in one process.  A "cold" operation is a process's first of its
 * kind, in which the library makes what it keeps, so each fault gets a process of its own.  As that
 * takes long, the sweep tests every eleventh point (97th with GPUMEM_QUICK; GPUMEM_STRIDE sets
 * another distance), beginning at a random one.  Of a warm operation's points GPUMEM_QUICK tests
 * the first forty and, at random, one in five of the others, which are page allocations and
 * alike.
 *
 * Everything is queued (GPUMEM_INLINE=0): copies by the caller do not enter the kernel.
 */
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "cuda_nth_ops.h"
#include "cuda_nth_places.h"
#include "cuda_nth_vmm.h"
#include "common/fail_sweep.h"

/* --- sweeps */

FIXTURE(cuda)
{
	struct env e;
	bool able;
};

FIXTURE_VARIANT(cuda)
{
	step setup, act, undo;
	bool cold, raw, peer, pool;
	bool calm;		/* may end without a system call: nothing to fail */
};

#define WARM(name, setup_, act_, undo_, ...)	\
	FIXTURE_VARIANT_ADD(cuda, name) {	\
		.setup = setup_, .act = act_, .undo = undo_, ##__VA_ARGS__	\
	}
#define COLD(name, setup_, act_, undo_, ...)	\
	WARM(name, setup_, act_, undo_, .cold = true, ##__VA_ARGS__)

/* raw: not even cuInit() was called. */
COLD(first_init, NULL, init, NULL, .raw = true);
COLD(first_context, NULL, retain, release, .calm = true);
COLD(first_alloc, NULL, alloc_small, free_ptr);
COLD(first_alloc_host, NULL, alloc_host, free_host);
COLD(first_register, NULL, register_host, unregister_host);
COLD(first_stream_use, cold_stream, stream_use, stream_destroy);
COLD(first_event_record, cold_event, event_record, event_destroy);
COLD(first_copy_in, cold_copy, copy_in, copy_in_check);
WARM(ctx_create, NULL, ctx_create, ctx_destroy, .calm = true);
WARM(ctx_destroy, ctx_full, ctx_destroy, NULL);
WARM(alloc_block, NULL, alloc_block, free_ptr);
WARM(alloc_large, NULL, alloc_large, free_ptr);
WARM(alloc_managed, NULL, managed, free_ptr);
WARM(free_large, alloc_large, free_ptr, NULL);
WARM(alloc_host, NULL, alloc_host, free_host);
WARM(free_host, alloc_host, free_host, NULL);
WARM(host_register, NULL, register_host, unregister_host);
WARM(host_unregister, register_host, unregister_host, NULL);
WARM(mipmap, NULL, mipmap, mipmap_destroy);
WARM(sparse_array, NULL, sparse_make, sparse_destroy);
WARM(map_array, tiles_make, tiles_map, tiles_undo);
WARM(mem_info, NULL, mem_info, NULL);
WARM(stream, NULL, stream_create, stream_destroy, .calm = true);
WARM(event, event_create, event_record, event_destroy, .calm = true);
WARM(memset, copy_setup, fill, fill_check, .calm = true);
WARM(memset_async, copy_setup, fill_async, fill_check, .calm = true);
WARM(copy_in, copy_setup, copy_in, copy_in_check, .calm = true);
WARM(copy_in_async, copy_setup, copy_in_async, copy_in_check, .calm = true);
WARM(copy_out, copy_setup, copy_out, copy_out_check, .calm = true);
WARM(copy_over, copy_over_setup, copy_over, copy_over_check, .calm = true);
WARM(copy_2d, copy_setup, copy_2d, copy_2d_check, .calm = true);
WARM(ipc_get, alloc_large, ipc_get, free_ptr);
WARM(ipc_open, NULL, ipc_open, ipc_close, .peer = true);
WARM(ipc_close, ipc_open, ipc_close, NULL, .peer = true);
WARM(export, alloc_large, export_fd, export_undo);
COLD(first_host_function, env_make, host_function, host_function_check);
COLD(first_batch, cold_keeper, batch, copy_in_check);
COLD(first_notice, NULL, notice, notice_undo);
WARM(host_function, host_function_setup, host_function, host_function_check, .calm = true);
WARM(batch, keeper, batch, copy_in_check);
WARM(attributes, keeper, attributes, copy_in_check);
WARM(attributes_3d, keeper, attributes_3d, copy_in_check);
COLD(first_prefetch, cold_places, prefetch, prefetch_undo, .calm = true);
WARM(prefetch, warm_places_setup, prefetch, prefetch_undo, .calm = true);
WARM(discard, warm_places_setup, discard, free_ptr, .calm = true);
WARM(discard_and_prefetch, warm_places_setup, discard_and_prefetch, prefetch_undo, .calm = true);
WARM(advise_node, warm_places_setup, advise_node, advise_node_undo, .calm = true);
WARM(words, copy_setup, words, words_check, .calm = true);
WARM(event_ipc, event_ipc_make, event_ipc, event_destroy);
WARM(notice, NULL, notice, notice_undo, .calm = true);
COLD(first_pool, env_make, pool_create, pool_destroy);
COLD(first_pool_alloc, env_make, pool_alloc_default, pool_free);
COLD(first_pool_import, cold_import, pool_import_pointer, pool_import_pointer_undo);
COLD(first_place_pool, env_make, place_pool, pool_free);
WARM(pool, NULL, pool_create, pool_destroy);
WARM(pool_current, NULL, place_current, pool_destroy);
WARM(pool_alloc_host, place_current, place_alloc, place_alloc_undo);
WARM(pool_alloc_managed, place_managed, place_alloc, place_alloc_undo);
WARM(pool_node, NULL, place_node, pool_destroy);
WARM(pool_node_access, place_node, place_node_access, pool_destroy, .calm = true);
WARM(pool_alloc_node, place_node, place_alloc, place_alloc_undo);
WARM(pool_alloc, NULL, pool_alloc, pool_free_all, .pool = true);
WARM(pool_trim, pool_fill, pool_trim, NULL, .pool = true);
WARM(pool_figures, pool_fill, pool_figures, pool_trim, .pool = true);
WARM(pool_access, NULL, pool_access, NULL, .pool = true, .calm = true);
WARM(pool_export, NULL, pool_export, pool_close, .pool = true);
WARM(pool_import, pool_export, pool_import, pool_import_undo, .pool = true);
WARM(pool_import_pointer, pool_import_setup, pool_import_pointer, pool_import_pointer_undo,
     .pool = true);
COLD(first_handle, NULL, vmm_create, vmm_release);
COLD(first_mapping, cold_vmm, vmm_access, vmm_access_undo);
COLD(first_import, cold_vmm_exported, vmm_import, vmm_import_undo);
COLD(first_semaphore, cold_semaphores, semaphore_trip, semaphore_in_undo, .calm = true);
WARM(handle, NULL, vmm_create, vmm_release);
WARM(handle_node, NULL, vmm_create_node, vmm_create_node_undo);
WARM(reserve, NULL, vmm_reserve, vmm_address_free, .calm = true);
WARM(map, vmm_place, vmm_map, vmm_unplace);
WARM(set_access, vmm_mapped, vmm_access, vmm_access_undo);
WARM(set_access_all, vmm_mapped, vmm_access_all, vmm_access_all_undo);
WARM(set_access_node, vmm_mapped_node, vmm_access_node, vmm_access_node_undo);
WARM(unmap, vmm_ready, vmm_unmap, vmm_place_undo);
WARM(unmap_middle, vmm_three, vmm_unmap_middle, vmm_three_undo);
WARM(handle_retain, vmm_ready, vmm_retain, vmm_retain_undo, .calm = true);
WARM(range_export, vmm_ready, vmm_range, vmm_range_undo);
WARM(handle_release, vmm_create, vmm_release, NULL);
WARM(handle_export, vmm_create, vmm_export, vmm_close);
WARM(handle_import, vmm_exported, vmm_import, vmm_import_undo);
WARM(handle_import_node, vmm_exported_node, vmm_import, vmm_import_undo);
WARM(external_import, vmm_exported, external_import, external_undo);
WARM(external_dmabuf, external_dmabuf_setup, external_dmabuf, external_dmabuf_undo);
WARM(external_buffer, external_ready, external_buffer, external_buffer_undo);
WARM(external_mipmap, external_ready, external_mipmap, external_mipmap_undo);
WARM(semaphore, NULL, semaphore_make, semaphore_end);
WARM(semaphore_export, semaphore_make, semaphore_out, semaphore_out_undo);
WARM(semaphore_import, semaphore_ready, semaphore_in, semaphore_in_undo);
WARM(semaphore_timeline, semaphore_timeline_ready, semaphore_timeline_in, semaphore_in_undo);
WARM(semaphore_trip, semaphore_pair, semaphore_trip, semaphore_in_undo, .calm = true);

FIXTURE_SETUP(cuda)
{
	struct env *e = &self->e;

	self->able = fail_setup(false);
	if (!self->able)
		SKIP(return, "the kernel cannot be made to fail");
	ASSERT_TRUE(dev_quiet(10));
	setenv("GPUMEM_INLINE", "0", 1);
	e->devices = dev_count();
	e->host = mmap(NULL, SMALL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)e->host);
	memset(e->host, 1, SMALL);
	if (variant->cold)
		return;
	ASSERT_TRUE(fail_open());
	ASSERT_CU(cuda_start(&e->ctx));
	ASSERT_CU(env_make(e));
	ASSERT_CU(variant->pool ? pool_env(e) : CUDA_SUCCESS);
	ASSERT_EQ(1, node_fds(&e->client));
	if (variant->peer) {
		struct peer_message m = { .op = PEER_ALLOC, .bytes = SMALL };

		ASSERT_EQ(0, peer_start(&e->peer, NULL));
		ASSERT_CU(peer_call(&e->peer, &m));
		m.op = PEER_GET;
		ASSERT_CU(peer_call(&e->peer, &m));
		e->theirs = m.handle;
	}
}

QUIET_AFTERWARDS(cuda)

static bool result_known(int result)
{
	return result == CUDA_ERROR_OUT_OF_MEMORY;
}

/* If a call could not give memory back because an allocation failed, the next call does. */
static bool settles(const struct fail_state *want, int client)
{
	CUdeviceptr p;

	if (fail_same(want, client, false, 0.2))
		return true;
	if (cuMemAlloc(&p, LARGE) || cuMemFree(p))
		return false;
	return fail_same(want, client, false, 10);
}

/* --- a process's first call of its kind */

enum { QUIET, HARMLESS, FAILED, BAD_SETUP = 10, BAD_RESULT, BAD_AGAIN, BAD_UNDO };

struct cold {
	struct env *e;
	const FIXTURE_VARIANT(cuda) *op;
	unsigned int n;
};

static int cold_child(void *arg)
{
	struct cold *c = arg;
	const FIXTURE_VARIANT(cuda) *op = c->op;
	CUresult result;
	bool fired;

	if (!fail_open())
		return BAD_SETUP;
	if (!op->raw && cuda_start(&c->e->ctx))
		return BAD_SETUP;
	if (op->setup && op->setup(c->e))
		return BAD_SETUP;
	fail_arm(c->n);
	result = op->act(c->e);
	fired = fail_disarm();
	if (result) {
		if (!fired || !result_known(result)) {
			fprintf(stderr, "# result %d, fault came: %d\n", result, fired);
			return BAD_RESULT;
		}
		if (op->act(c->e))
			return BAD_AGAIN;
	}
	if (op->undo && op->undo(c->e))
		return BAD_UNDO;
	return result ? FAILED : fired ? HARMLESS : QUIET;
}

static unsigned int cold_sweep(struct __test_metadata *_metadata, struct env *e,
			       const FIXTURE_VARIANT(cuda) *op, unsigned int *failed,
			       unsigned int *fired)
{
	struct cold c = { .e = e, .op = op };
	__u64 stride = env_number("GPUMEM_STRIDE", getenv("GPUMEM_QUICK") ? 97 : 11);
	struct rng rng;
	int how;

	stride = stride ? stride : 1;
	rng_start(&rng, "first point");
	c.n = 1 + rng_below(&rng, stride);
	for (;;) {
		how = run_child(cold_child, &c);
		EXPECT_TRUE(how >= QUIET && how <= FAILED) {
			TH_LOG("%d at point %u", how, c.n);
		}
		*failed += how == FAILED;
		*fired += how == FAILED || how == HARMLESS;
		/* The operation has fewer points than the start left out: begin at the first. */
		if (how == QUIET && !*fired && c.n > 1) {
			c.n = 1;
			continue;
		}
		if (how == QUIET || c.n >= FAIL_MOST)
			return c.n;
		c.n += stride;
	}
}

static unsigned int warm_sweep(struct __test_metadata *_metadata, struct env *e,
			       const FIXTURE_VARIANT(cuda) *op, unsigned int *failed)
{
	bool quick = getenv("GPUMEM_QUICK");
	struct rng rng;
	const struct fail_sweep sweep = {
		.setup = op->setup, .act = op->act, .undo = op->undo, .client = e->client,
		.skips = quick ? &rng : NULL, .known = result_known, .settles = settles,
	};

	if (quick)
		rng_start(&rng, "points");
	return fail_sweep(_metadata, &sweep, e, failed);
}

TEST_F_TIMEOUT(cuda, sweep, 240)
{
	unsigned int failed = 0, fired = 0, n;

	if (variant->cold) {
		n = cold_sweep(_metadata, &self->e, variant, &failed, &fired);
	} else {
		n = warm_sweep(_metadata, &self->e, variant, &failed);
		fired = n - 1;
	}
	EXPECT_GT(FAIL_MOST, n);
	/* A sweep without a single fault has tested nothing. */
	EXPECT_TRUE(variant->calm || fired);
	TH_LOG("%u points, of which %u fail the call", n - 1, failed);
}

FAIL_LEAKS_CASE()

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], PEER_WORD))
		return peer_main();
	return test_harness_run(argc, argv);
}
