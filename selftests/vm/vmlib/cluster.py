# SPDX-License-Identifier: GPL-2.0
"""Several guests on one virtual network, and following guests until the last one ends.

A guest's network card leads to a socket pair whose other end is another guest's card: no address
of the host is used, nothing has a name, and the network ends with the last guest.  With more than
two guests, guest 0 holds a hub.

The guests begin COMMAND together, and power off together: what a guest has sent before its COMMAND
ended still arrives.  A guest that fails ends the others after PEER_GRACE seconds.  The words on a
guest's third serial line are "set" (ready for COMMAND) and "rc" from the guest, "go" and "off" to
it; guest.py has the other side.
"""
import selectors
import socket
import time

from . import Problem
from .machine import QEMU_FAULT

PEER_GRACE = 15         # seconds that the others have after a guest failed
MOST = 8
NET = "10.71.80.%d"
DRIVERS = ["virtio_net"]


def addresses(guests):
    """The guests' addresses, by rank."""
    return [NET % (rank + 1) for rank in range(guests)]


class Link:
    """What connects the guest @rank of @guests to the others: the ends of its socket pairs."""

    def __init__(self, rank, guests):
        self.rank, self.guests, self.ends = rank, guests, []

    def fds(self):
        return [e.fileno() for e in self.ends]

    def close(self):
        for e in self.ends:
            e.close()


def network(guests):
    """A Link for each guest; one guest alone has none."""
    if guests == 1:
        return [None]
    links = [Link(rank, guests) for rank in range(guests)]
    for other in links[1:]:
        ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        links[0].ends.append(ends[0])
        other.ends.append(ends[1])
    return links


def check(guests, o, modules):
    """Refuse what several guests cannot do."""
    if not 1 <= guests <= MOST:
        raise Problem("--guests: 1 to %d" % MOST)
    if guests > 1 and o.icount:
        raise Problem("--guests needs a network, which --icount does not have")
    for name in DRIVERS if guests > 1 else ():
        if not modules.has(name):
            raise Problem("--guests: the kernel %s has no driver %s" % (o.kernel, name))


class Cluster:
    """Machines that begin, fail and end together; one machine alone ends by itself."""

    def __init__(self, machines):
        self.machines, self.going, self.over = machines, False, None
        self.failures = []      # in the order of time

    def step(self):
        """What the guests are to do next, by what is known of all of them."""
        now = time.monotonic()
        for m in self.machines:
            if not m.timed_out and m.late():
                m.timed_out = True
                m.stop()
        if len(self.machines) == 1:
            return
        if not self.going and all(m.word("set") is not None for m in self.machines):
            self.going = True
            for m in self.machines:
                m.ready = now
                m.tell(b"go")
        for m in self.machines:
            if m not in self.failures and m.ended_for is None and m.failed():
                self.failures.append(m)
        if self.failures and self.over is None:
            self.over = now + PEER_GRACE
        waiting = [m for m in self.machines if m.running() and m.word("rc") is None]
        if waiting and self.over is not None and now > self.over:
            for m in waiting:
                m.ended_for = self.failures[0]
                m.stop()
            waiting = []
        if not waiting:
            for m in self.machines:
                if m.running() and m.told_off is None:
                    m.told_off = now
                    m.tell(b"off")

    def status(self):
        """The exit status of the run: that of the guest that failed first, or 127 for a splat."""
        found = {m: m.verdict() for m in self.machines}
        if len(self.machines) == 1:
            return found[self.machines[0]]
        for m, rc in found.items():
            if m.ended_for:
                m.say("ended %d s after guest %d had failed"
                      % (PEER_GRACE, m.ended_for.link.rank))
            else:
                m.say("exit status %d" % rc)
        # A splat is seen at the end only.
        first = self.failures + [m for m in self.machines if m not in self.failures]
        status = next((found[m] for m in first if found[m]), 0)
        # With QEMU's fault in one, the others tell nothing.
        if QEMU_FAULT in found.values():
            return QEMU_FAULT
        return 127 if 127 in found.values() and status != 124 else status


def follow_files(m):
    """Follow a guest whose serial lines are files."""
    while True:
        ended = not m.running()
        for i, f in enumerate(m.files):
            m.take(i, f.read())
        if ended:
            return
        if m.late():
            m.timed_out = True
            m.stop()
        time.sleep(0.05)


def follow(machines):
    """Pass on what the guests say until all have ended; returns the Cluster."""
    cluster = Cluster(machines)
    if machines[0].files:
        follow_files(machines[0])
        return cluster
    sel = selectors.DefaultSelector()
    for m in machines:
        for i, conn in enumerate(m.conns):
            sel.register(conn, selectors.EVENT_READ, (m, i))
    while sel.get_map():
        for key, _ in sel.select(0.5):
            try:
                data = key.fileobj.recv(65536)
            except ConnectionError:
                data = b""
            if data:
                key.data[0].take(key.data[1], data)
            else:
                sel.unregister(key.fileobj)
        cluster.step()
    for m in machines:
        m.proc.wait()
        m.end_line()
    cluster.step()
    return cluster
