/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers for the netlink tests: allocations that limits refuse, a client's entry in a dump,
 * reports of refusals, and raw requests, also malformed ones.
 */
#ifndef NETLINK_UTIL_H
#define NETLINK_UTIL_H

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/genetlink.h>
#include <netlink/netlink.h>

#include "../../tools/gpumem/nl.h"
#include "common/util.h"

/* --- what can be refused */

static inline int bo_alloc(int fd, __u64 length, __u32 flags, const char *name, __u32 *id)
{
	struct gpumem_bo_alloc c = { .size = sizeof(c), .length = length, .flags = flags };
	int ret;

	strcpy((char *)c.name, name);
	ret = gp_ioctl(fd, GPUMEM_BO_ALLOC, &c);
	*id = c.id;
	return ret;
}

static inline int bo_pin(int fd, void *addr, __u64 length, __u32 *id)
{
	struct gpumem_bo_pin c = {
		.size = sizeof(c), .addr = (uintptr_t)addr, .length = length,
	};
	int ret = gp_ioctl(fd, GPUMEM_BO_PIN, &c);

	*id = c.id;
	return ret;
}

static inline int set_memlock(const char *value)
{
	int fd = open("/sys/module/gpumem/parameters/memlock", O_WRONLY | O_CLOEXEC);
	int ret = fd < 0 || write(fd, value, 1) != 1 ? -errno : 0;

	close(fd);
	return ret;
}

/* --- dumps */

static inline struct gnl_client client_of(struct gnl *nl, pid_t pid)
{
	struct gnl_client none = { 0 }, *clients;
	bool torn;
	size_t n;

	if (gnl_clients(nl, &clients, &n, &torn))
		return none;
	for (size_t i = 0; i < n; i++)
		if (clients[i].pid == (__u32)pid)
			none = clients[i];
	free(clients);
	return none;
}

static inline const struct gnl_object *find(const struct gnl_object *objects, size_t n, __u32 id)
{
	for (size_t i = 0; i < n; i++)
		if (objects[i].id == id)
			return &objects[i];
	return NULL;
}

/* --- reports */

struct heard {
	struct gnl_refusal last;
	unsigned int count, missed;
};

static bool note(const struct gnl_refusal *r, void *arg)
{
	struct heard *h = arg;

	h->last = *r;
	h->count++;
	h->missed += r->missed;
	return true;
}

/* Takes the reports that have arrived. */
static inline int collect(struct gnl *nl, struct heard *h)
{
	memset(h, 0, sizeof(*h));
	return gnl_hear(nl, note, h);
}

static inline int listen_for(struct gnl *nl)
{
	int ret = gnl_open(nl);

	if (!ret)
		ret = gnl_listen(nl);
	if (!ret)
		ret = nl_socket_set_nonblocking(nl->sock);
	return ret;
}

/* --- requests */

/* The errno of a request, positive; 0 if it is accepted. */
static inline int request(int family, int cmd, int flags, const void *payload, size_t length)
{
	struct {
		struct nlmsghdr nlh;
		char data[256];
	} m = {
		.nlh = { NLMSG_HDRLEN + length, family, NLM_F_REQUEST | NLM_F_ACK | flags, 1, 0 },
	};
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	struct genlmsghdr *genl = (void *)m.data;
	char answer[32768];
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC), ret = -1;
	ssize_t n;

	memcpy(m.data, payload, length);
	if (length)
		genl->cmd = cmd;
	if (sendto(fd, &m, m.nlh.nlmsg_len, 0, (void *)&kernel, sizeof(kernel)) < 0) {
		ret = errno;
		goto out;
	}
	n = recv(fd, answer, sizeof(answer), 0);
	if (n >= (ssize_t)sizeof(struct nlmsghdr)) {
		struct nlmsghdr *nlh = (void *)answer;

		ret = 0;
		if (nlh->nlmsg_type == NLMSG_ERROR)
			ret = -((struct nlmsgerr *)NLMSG_DATA(nlh))->error;
	}
out:
	close(fd);
	return ret;
}

struct payload {
	struct genlmsghdr genl;
	struct nlattr attr;
	__u32 value[2];
};

#endif
