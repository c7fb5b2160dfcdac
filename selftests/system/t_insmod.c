// SPDX-License-Identifier: GPL-2.0
/*
 * An insmod that fails leaves nothing behind, even if processes open the nodes during it.
 *
 * A module whose init fails is freed though files of it are open.  So while one process loads the
 * module with two devices, others open the first node and a netlink dump as soon as they are
 * there, and use what they got.  On a kernel with fault injection the load fails at each of its
 * last steps, and at some of the others.  The module that was loaded is loaded again at the end.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <linux/gpumem_netlink.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>

#include "kselftest_harness.h"
#include "common/fail_nth.h"
#include "reload_util.h"

#define PARAMS	"devices=2 vram=4M"

struct shared {
	volatile unsigned int tries, opened, strange;
	volatile bool end, pause;	/* @pause: the openers begin nothing new */
};

FIXTURE(insmod)
{
	bool able;
	struct shared *shared;
	pid_t opener[2];
};

/* Opens the first node whenever it can, uses it, and keeps it open for a moment.  */
static int open_all_the_time(void *arg)
{
	struct shared *s = arg;
	__u32 id;

	while (!s->end) {
		int fd = -1;

		if (s->pause) {
			nap_ms(5);
			continue;
		}
		fd = open("/dev/gpumem0", O_RDWR | O_CLOEXEC);
		s->tries++;
		if (fd < 0) {
			/*
			 * The node does not exist yet, is not ready, or the module is being
			 * removed.
			 */
			if (errno != ENOENT && errno != ENXIO && errno != ENODEV) {
				fprintf(stderr, "# open: %s\n", strerror(errno));
				s->strange++;
			}
			continue;
		}
		s->opened++;
		nap_ms(30);
		if (gp_bo_alloc(fd, page_size, &id))
			s->strange++;
		close(fd);
	}
	return 0;
}

/* Begins dumps and does not read them. */
static int dump_all_the_time(void *arg)
{
	struct shared *s = arg;

	while (!s->end) {
		struct nl_sock *sock = nl_socket_alloc();
		int family = -1;

		if (s->pause)
			nap_ms(5);
		else if (!genl_connect(sock))
			family = genl_ctrl_resolve(sock, GPUMEM_FAMILY_NAME);
		if (family >= 0) {
			genl_send_simple(sock, family, GPUMEM_NL_CMD_DEVICE_GET,
					 GPUMEM_FAMILY_VERSION, NLM_F_DUMP);
			genl_send_simple(sock, family, GPUMEM_NL_CMD_CLIENT_GET,
					 GPUMEM_FAMILY_VERSION, NLM_F_DUMP);
			nap_ms(20);
		}
		nl_socket_free(sock);
	}
	return 0;
}

FIXTURE_SETUP(insmod)
{
	ASSERT_TRUE(dev_quiet(10));
	self->able = reload_save();
	if (!self->able)
		return;
	self->shared = mmap(NULL, page_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			    0);
	ASSERT_NE(MAP_FAILED, (void *)self->shared);
	ASSERT_TRUE(reload_unload());
	self->opener[0] = start_child(open_all_the_time, self->shared);
	self->opener[1] = start_child(dump_all_the_time, self->shared);
}

FIXTURE_TEARDOWN(insmod)
{
	if (!self->able)
		return;
	self->shared->end = true;
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(0, end_child(self->opener[i]));
	EXPECT_EQ(0, self->shared->strange);
	EXPECT_TRUE(reload_restore());
}

/* The other processes first close the files that they have open. */
static bool unload(struct shared *s)
{
	bool ok;

	s->pause = true;
	ok = reload_unload();
	s->pause = false;
	return ok;
}

static bool gone(void)
{
	return access(RELOAD_MODULE, F_OK) && access("/dev/gpumem0", F_OK) &&
	       access("/sys/class/gpumem", F_OK);
}

/* After a successful load the module works at once.  */
TEST_F_TIMEOUT(insmod, opened_meanwhile, 120)
{
	unsigned int rounds = getenv("GPUMEM_QUICK") ? 3 : 8;

	if (!self->able)
		SKIP(return, "needs root and gpumem.ko");
	for (unsigned int i = 0; i < rounds; i++) {
		int fd;

		ASSERT_EQ(0, reload_load(PARAMS));
		/* The node may be made a little later; then it can be opened. */
		for (int k = 0; k < 100 && access("/dev/gpumem1", F_OK); k++)
			nap_ms(10);
		fd = gp_open(1);
		EXPECT_LE(0, fd);
		close(fd);
		nap_ms(20);
		ASSERT_TRUE(unload(self->shared));
		EXPECT_TRUE(gone());
	}
	EXPECT_LT(0, self->shared->opened);
}

/* The number of allocations that a load makes; 0 if it cannot be counted.  */
static unsigned int points(struct shared *s)
{
	const unsigned int most = 1000000;
	char text[16] = "";
	int ret;

	fail_arm(most);
	ret = reload_load(PARAMS);
	if (pread(fail_fd, text, sizeof(text) - 1, 0) <= 0)
		text[0] = 0;
	fail_disarm();
	return ret || !unload(s) ? 0 : most - strtoul(text, NULL, 10);
}

TEST_F_TIMEOUT(insmod, fails_at_each_of_the_last_steps, 600)
{
	unsigned int last = getenv("GPUMEM_QUICK") ? 12 : 40, stride, all, failed = 0;
	__u64 from, to;
	char text[32];

	if (!self->able)
		SKIP(return, "needs root and gpumem.ko");
	if (!fail_setup(false) || !fail_open())
		SKIP(return, "the kernel has no fault injection");
	/* Fail only allocations in the module's init: the module loader warns when its own fail. */
	ASSERT_TRUE(fail_text("do_one_initcall", "", &from, &to));
	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)from);
	fail_knob("require-start", text);
	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)to);
	fail_knob("require-end", text);
	fail_knob("stacktrace-depth", "32");
	/* The kernel loses a cache's name if its directory in sysfs cannot be made. */
	if (fail_text("sysfs_slab_add", NULL, &from, &to))
		fail_reject(from, to);
	all = points(self->shared);
	ASSERT_LT(50, all);
	/*
	 * Fail points densely in the second half, in which the nodes are added, and a few in the
	 * first half.
	 */
	stride = all / 2 / last + 1;
	TH_LOG("%u points", all);
	for (unsigned int i = 0; i < last + 6; i++) {
		unsigned int n = i < last ? all - i * stride : all / 12 * (i - last + 1);
		unsigned int before = self->shared->opened;
		bool fired;
		int ret;

		fail_arm(n);
		ret = reload_load(PARAMS);
		fired = fail_disarm();
		if (ret) {
			EXPECT_TRUE(fired);
			EXPECT_TRUE(gone())
				TH_LOG("point %u: errno %d", n, -ret);
			failed++;
			/* No process has opened a node during the load.  */
			EXPECT_EQ(before, self->shared->opened);
			continue;
		}
		/* The load succeeded: the failed allocation was not needed. */
		ASSERT_TRUE(unload(self->shared));
	}
	TH_LOG("%u loads failed, %u opens", failed, self->shared->opened);
	/*
	 * A load succeeds without most of its allocations, such as those for debugging and uevents.
	 */
	EXPECT_LT(0, failed);
	/* A load without faults works afterwards.  */
	ASSERT_TRUE(fail_setup(true));
	ASSERT_EQ(0, reload_load(PARAMS));
	ASSERT_TRUE(unload(self->shared));
}

TEST_HARNESS_MAIN
