/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The pair of test devices (nic.c): one in this network namespace, the other one in a namespace of
 * its own, and what the socket interface for device memory needs that old headers lack.
 *
 * Include this after kselftest_harness.h.
 */
#ifndef GPUMEM_SELFTESTS_NIC_UTIL_H
#define GPUMEM_SELFTESTS_NIC_UTIL_H

#include <arpa/inet.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/netlink.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "common/util.h"

#define NEAR		"gpunic0"
#define FAR		"gpunic1"
#define NEAR_ADDRESS	"10.77.0.1"
#define FAR_ADDRESS	"10.77.0.2"

/* --- sockets of device memory, which the kernel calls devmem TCP */

#define NIC_MSG_SOCK_DEVMEM	0x2000000
#define NIC_SO_DEVMEM_LINEAR	78
#define NIC_SO_DEVMEM_DMABUF	79
#define NIC_SO_DEVMEM_DONTNEED	80

struct nic_dmabuf_cmsg {
	__u64 frag_offset;
	__u32 frag_size;
	__u32 frag_token;
	__u32 dmabuf_id;
	__u32 flags;
};

struct nic_dmabuf_token {
	__u32 token_start;
	__u32 token_count;
};

/* The family "netdev" of generic netlink. */
enum {
	NIC_CMD_BIND_RX = 13, NIC_CMD_BIND_TX = 15,
	NIC_A_QUEUE_ID = 1, NIC_A_QUEUE_TYPE = 3,
	NIC_A_DMABUF_IFINDEX = 1, NIC_A_DMABUF_QUEUES, NIC_A_DMABUF_FD, NIC_A_DMABUF_ID,
};

/* The family "ethtool". */
enum {
	NIC_MSG_RINGS_SET = 16,
	NIC_A_RINGS_HEADER = 1, NIC_A_RINGS_TCP_DATA_SPLIT = 11,
	NIC_A_HEADER_DEV_NAME = 2,
	NIC_DATA_SPLIT_ENABLED = 2,
};

/* --- links */

/* Enter the namespace @ns with this thread. */
static inline bool nic_enter(int ns)
{
	return !setns(ns, CLONE_NEWNET);
}

/* Move the link @name from this thread's namespace to @ns. */
static inline int nic_move(const char *name, int ns)
{
	struct ifinfomsg info = { .ifi_family = AF_UNSPEC, .ifi_index = if_nametoindex(name) };
	struct nl_sock *sock = nl_socket_alloc();
	struct nl_msg *msg = nlmsg_alloc_simple(RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK);
	int ret = sock && msg && info.ifi_index ? nl_connect(sock, NETLINK_ROUTE) : -NLE_NODEV;

	if (!ret)
		ret = nlmsg_append(msg, &info, sizeof(info), NLMSG_ALIGNTO);
	if (!ret)
		ret = nla_put_u32(msg, IFLA_NET_NS_FD, ns);
	if (!ret) {
		ret = nl_send_sync(sock, msg);	/* frees the message */
		msg = NULL;
	}
	nlmsg_free(msg);
	nl_socket_free(sock);
	return ret;
}

/* Give the link @name of this thread's namespace an address, and switch it on. */
static inline bool nic_up(const char *name, const char *address)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct ifreq ifr;
	bool ok = fd >= 0;

	memset(&ifr, 0, sizeof(ifr));
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", name);
	inet_pton(AF_INET, address, &sin.sin_addr);
	memcpy(&ifr.ifr_addr, &sin, sizeof(sin));
	ok = ok && !ioctl(fd, SIOCSIFADDR, &ifr);
	inet_pton(AF_INET, "255.255.255.0", &sin.sin_addr);
	memcpy(&ifr.ifr_netmask, &sin, sizeof(sin));
	ok = ok && !ioctl(fd, SIOCSIFNETMASK, &ifr);
	ifr.ifr_flags = IFF_UP | IFF_RUNNING;
	ok = ok && !ioctl(fd, SIOCSIFFLAGS, &ifr);
	if (fd >= 0)
		close(fd);
	return ok;
}

static inline int nic_ns(void)
{
	return open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
}

/*
 * Are the test devices there?  Loads the module that GPUMEM_NIC names, which "make kselftest" sets.
 *
 * A CPU may keep the last buffers that another CPU freed, until it receives a packet itself.  The
 * tests look at what is left, so they switch that off.
 */
static inline bool nic_present(void)
{
	if (if_nametoindex(NEAR))
		return true;
	return getenv("GPUMEM_NIC") && !system("insmod \"$GPUMEM_NIC\"") &&
	       !system("echo 0 >/proc/sys/net/core/skb_defer_max") && if_nametoindex(NEAR);
}

/* Separate the two devices: a descriptor of the far one's namespace, or -1. */
static inline int nic_part(void)
{
	int near_ns = nic_ns(), far_ns;

	if (near_ns < 0 || unshare(CLONE_NEWNET))
		return -1;
	far_ns = nic_ns();
	if (far_ns < 0 || !nic_enter(near_ns) || nic_move(FAR, far_ns) || !nic_enter(far_ns) ||
	    !nic_up(FAR, FAR_ADDRESS) || !nic_enter(near_ns) || !nic_up(NEAR, NEAR_ADDRESS))
		return -1;
	close(near_ns);
	return far_ns;
}

/* The far device comes back when its namespace ends with the last process in it: has it? */
static inline bool nic_back(void)
{
	__u64 end = in_seconds(20);

	while (!if_nametoindex(FAR) && mono_ns() < end)
		nap_ms(20);
	return if_nametoindex(FAR);
}

/* --- device memory */

static inline struct nl_sock *nic_genl(const char *name, int *family)
{
	struct nl_sock *sock = nl_socket_alloc();

	if (!sock || genl_connect(sock)) {
		nl_socket_free(sock);
		return NULL;
	}
	*family = genl_ctrl_resolve(sock, name);
	return sock;
}

/*
 * Have @name's payload of TCP go to memory of the receive queue; 0 or minus a number of libnl.  The
 * debug kernel has no such family; its version does not ask for the setting either.
 */
static inline int nic_split(const char *name)
{
	struct nl_msg *msg = nlmsg_alloc();
	struct nlattr *header;
	int family, ret = -NLE_NOMEM;
	struct nl_sock *sock = nic_genl("ethtool", &family);

	if (sock && family == -NLE_OBJ_NOTFOUND) {
		ret = 0;
	} else if (sock && msg &&
		   genlmsg_put(msg, 0, 0, family, 0, NLM_F_ACK, NIC_MSG_RINGS_SET, 1)) {
		header = nla_nest_start(msg, NIC_A_RINGS_HEADER);
		nla_put_string(msg, NIC_A_HEADER_DEV_NAME, name);
		nla_nest_end(msg, header);
		nla_put_u8(msg, NIC_A_RINGS_TCP_DATA_SPLIT, NIC_DATA_SPLIT_ENABLED);
		ret = nl_send_sync(sock, msg);
		msg = NULL;
	}
	nlmsg_free(msg);
	nl_socket_free(sock);
	return ret;
}

static inline int nic_bound(struct nl_msg *msg, void *arg)
{
	struct nlattr *tb[NIC_A_DMABUF_ID + 1];

	if (!genlmsg_parse(nlmsg_hdr(msg), 0, tb, NIC_A_DMABUF_ID, NULL) && tb[NIC_A_DMABUF_ID])
		*(int *)arg = nla_get_u32(tb[NIC_A_DMABUF_ID]);
	return NL_OK;
}

/*
 * Bind the DMA-buf @fd to the receive queue of @name, or for sending (@cmd) to the device; the
 * number of the binding, or minus a number of libnl.  The binding lasts until *sock is freed.
 */
static inline int nic_bind(int cmd, const char *name, int fd, struct nl_sock **sock)
{
	struct nl_msg *msg = nlmsg_alloc();
	struct nlattr *queue;
	int family, ret = -NLE_NOMEM, id = -NLE_OBJ_NOTFOUND;

	*sock = nic_genl("netdev", &family);
	if (*sock && msg && genlmsg_put(msg, 0, 0, family, 0, NLM_F_ACK, cmd, 1)) {
		nla_put_u32(msg, NIC_A_DMABUF_IFINDEX, if_nametoindex(name));
		nla_put_u32(msg, NIC_A_DMABUF_FD, fd);
		if (cmd == NIC_CMD_BIND_RX) {
			queue = nla_nest_start(msg, NIC_A_DMABUF_QUEUES);
			nla_put_u32(msg, NIC_A_QUEUE_TYPE, 0);
			nla_put_u32(msg, NIC_A_QUEUE_ID, 0);
			nla_nest_end(msg, queue);
		}
		nl_socket_modify_cb(*sock, NL_CB_VALID, NL_CB_CUSTOM, nic_bound, &id);
		ret = nl_send_sync(*sock, msg);
		msg = NULL;
	}
	nlmsg_free(msg);
	return ret < 0 ? ret : id;
}

/* --- sockets */

static inline struct sockaddr_in nic_address(const char *address)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(7733) };

	inet_pton(AF_INET, address, &sin.sin_addr);
	return sin;
}

/* A socket of this thread's namespace that listens at @address. */
static inline int nic_listen(const char *address)
{
	struct sockaddr_in sin = nic_address(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(fd, (void *)&sin, sizeof(sin)) || listen(fd, 1))
		return -1;
	return fd;
}

static inline int nic_connect(const char *address)
{
	struct sockaddr_in sin = nic_address(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd < 0 || connect(fd, (void *)&sin, sizeof(sin)) ? -1 : fd;
}

/* The byte at @at of the stream that a test sends. */
static inline unsigned char nic_byte(size_t at)
{
	return at * 31 + (at >> 8) * 7 + (at >> 16);
}

/* Whether @p has @n bytes of the stream, from @at. */
static inline bool nic_pattern(const unsigned char *p, size_t at, size_t n)
{
	size_t i;

	for (i = 0; i < n && p[i] == nic_byte(at + i); i++)
		;
	return i == n;
}

struct nic_sender {
	int ns;
	size_t n;
};

/* In a child: send @n bytes of the pattern from the far namespace. */
static inline int nic_send(void *arg)
{
	struct nic_sender *s = arg;
	unsigned char *buf = malloc(s->n);
	size_t i, done = 0;
	int fd;

	if (!buf || !nic_enter(s->ns))
		return 1;
	for (i = 0; i < s->n; i++)
		buf[i] = nic_byte(i);
	fd = nic_connect(NEAR_ADDRESS);
	while (fd >= 0 && done < s->n) {
		ssize_t ret = send(fd, buf + done, s->n - done, MSG_NOSIGNAL);

		if (ret <= 0)
			return 2;
		done += ret;
	}
	return fd < 0 || close(fd) ? 3 : 0;
}

#endif
