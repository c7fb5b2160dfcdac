/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The RDMA devices of the tests: soft-RoCE and soft-iWARP, each on a network device of type dummy
 * with an address of the block for benchmarks (198.18.0.0/15).  The first case that needs a device
 * makes it; the device stays for the cases after it.
 *
 * In one of several virtual machines (vm/run --guests) the device is made on the machine's own network
 * device, the one that has the address GPUMEM_ADDRESS.
 *
 * Soft-RoCE is the kernel's module, or the module that GPUMEM_RXE names: the kernel's with
 * rxe-*.patch.  Only one of the two can be loaded, so a case that needs the other one replaces it.
 */
#ifndef GPUMEM_SELFTESTS_RDMA_LINK_H
#define GPUMEM_SELFTESTS_RDMA_LINK_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum transport {
	ROCE,
	PATCHED_ROCE,
	IWARP,
};

#define RXE_PIN		"/sys/module/rdma_rxe/parameters/dmabuf_pin"
#define RXE_MOVES	"/sys/module/rdma_rxe/parameters/dmabuf_moves"

/*
 * 6.12's rxe needs crc32 from the crypto API, and does not say so to modprobe.  rdma_ucm makes the
 * node that librdmacm opens.
 */
#define RDMA_CORE	"modprobe -qa crc32_generic udp_tunnel ip6_udp_tunnel dummy; "	\
			"modprobe -a ib_uverbs rdma_ucm && "
#define RDMA_LINK(name, type, address)							\
	"if [ \"$GPUMEM_PEERS\" ]; then "						\
	"on=$(ip -o -4 addr show to $GPUMEM_ADDRESS | awk '{ print $2; exit }'); "	\
	"rdma link add " name " type " type " netdev $on; else "			\
	"{ ip link show " name " || { ip link add " name " type dummy && "		\
	"ip addr add " address "/32 dev " name " && ip link set " name " up; }; } && "	\
	"rdma link add " name " type " type " netdev " name "; fi"
/* The last process that used the device may still be ending. */
#define RXE_REMOVE	"rdma link delete gpumem_roce; for i in 1 2 3 4 5 6 7 8 9; do "	\
			"rmmod rdma_rxe && break; sleep 0.3; done"

static inline bool rdma_shell(const char *commands)
{
	char text[2048];

	snprintf(text, sizeof(text), "{ %s; } >/dev/null 2>&1", commands);
	return !system(text);
}

/* What a case found missing.  The cases, which are processes, share it: each attempt takes its time. */
struct rdma_missing {
	bool siw, on_demand;
};

static struct rdma_missing *rdma_missing;

static void __attribute__((constructor)) rdma_share(void)
{
	rdma_missing = mmap(NULL, sizeof(*rdma_missing), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (rdma_missing == MAP_FAILED)
		abort();
}

/* The address of a device; NULL if this machine cannot have such a device. */
static inline const char *rdma_link(enum transport transport)
{
	static const struct {
		const char *node, *address, *commands;
	} links[] = {
		[ROCE] = {
			"/sys/class/infiniband/gpumem_roce", "198.18.0.1",
			RDMA_CORE "modprobe rdma_rxe && "
			RDMA_LINK("gpumem_roce", "rxe", "198.18.0.1"),
		},
		[PATCHED_ROCE] = {
			"/sys/class/infiniband/gpumem_roce", "198.18.0.1",
			RDMA_CORE "insmod \"$GPUMEM_RXE\" && "
			RDMA_LINK("gpumem_roce", "rxe", "198.18.0.1"),
		},
		[IWARP] = {
			"/sys/class/infiniband/gpumem_iwarp", "198.18.0.2",
			RDMA_CORE "modprobe siw && "
			RDMA_LINK("gpumem_iwarp", "siw", "198.18.0.2"),
		},
	};

	if (transport == PATCHED_ROCE && !getenv("GPUMEM_RXE"))
		return NULL;
	if (transport != IWARP && !access("/sys/module/rdma_rxe", F_OK) &&
	    !access(RXE_PIN, F_OK) != (transport == PATCHED_ROCE) && !rdma_shell(RXE_REMOVE))
		return NULL;
	if (transport == IWARP && rdma_missing->siw)
		return NULL;
	if (access(links[transport].node, F_OK) && !rdma_shell(links[transport].commands)) {
		if (transport == IWARP)
			rdma_missing->siw = !rdma_shell("modprobe -n siw");
		return NULL;
	}
	return getenv("GPUMEM_PEERS") ? getenv("GPUMEM_ADDRESS") : links[transport].address;
}

static inline const char *rdma_lacks(enum transport transport)
{
	static const char *const names[] = {
		"no module rdma_rxe", "no GPUMEM_RXE, which names a patched rdma_rxe", "no module siw",
	};

	return names[transport];
}

#endif
