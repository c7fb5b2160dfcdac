/* SPDX-License-Identifier: GPL-2.0 */
/* The fixture of the netlink tests: a socket, and a client of the first device. */
#ifndef NETLINK_FIXTURE_H
#define NETLINK_FIXTURE_H

#include "common/client_fixture.h"
#include "netlink_util.h"

/* In a child: the exit status tells the line. */
#define WANT(what) do { if (!(what)) return __LINE__ % 250 + 1; } while (0)

FIXTURE(netlink)
{
	struct leak_state leak;
	struct gnl nl;
	int fd;
};

FIXTURE_SETUP(netlink)
{
	leak_begin(&self->leak);
	ASSERT_TRUE(dev_quiet(10));
	ASSERT_EQ(0, gnl_open(&self->nl));
	self->fd = gp_open(0);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(netlink)
{
	client_end(_metadata, &self->leak, self->fd, 20);
	gnl_close(&self->nl);
}

#endif /* NETLINK_FIXTURE_H */
