# SPDX-License-Identifier: GPL-2.0
"""One running guest: its process, its three serial lines, and what it ended with."""
import os
import re
import socket
import sys
import time

from . import Problem, qemu, splat

BOOT_LIMIT = 400        # seconds until the guest says that it is ready
QEMU_FAULT = 123        # exit status when QEMU's mistake ended the guest
GRACE = 15              # seconds after the guest's own time-out


def say(text):
    sys.stdout.flush()
    sys.stderr.write("vm: %s\n" % text.rstrip("\n"))
    sys.stderr.flush()


def tail(lines, most=25):
    return "".join("  %s\n" % line for line in [x for x in lines if x.strip()][-most:])


class Machine:
    """A running guest: its three serial lines and what came from them.

    @link: its Link to the other guests, or None.  Only then has the guest a rank, and its output
    and what is said of it begin with that.
    """

    def __init__(self, o, kernel, image, work, share, link=None):
        self.virtiofs = qemu.Virtiofs(work) if share == "virtiofs" and not o.icount else None
        self.proc, self.conns = None, []
        self.o, self.log, self.words = o, bytearray(), bytearray()
        self.timed_out = False
        self.link, self.line = link, bytearray()
        self.told_off = None    # when it was told to power off
        self.ended_for = None   # the guest whose failure ended this one
        self.console = None
        if o.console:
            self.console = open("%s.%d" % (o.console, link.rank) if link else o.console, "wb")
        names = [os.path.join(work, "serial%d" % i) for i in range(3)]
        self.files, servers = [], []
        if o.icount:
            # Writing to a file never makes the guest wait, so the host's speed does not affect it.
            for n in names:
                with open(n, "wb"):
                    pass
                self.files.append(open(n, "rb"))
            specs = ["file,id=ID,path=" + n for n in names]
        else:
            for n in names:
                s = socket.socket(socket.AF_UNIX)
                s.bind(n)
                s.listen(1)
                servers.append(s)
            specs = ["socket,id=ID,path=" + n for n in names]
        self.errors = open(os.path.join(work, "qemu.log"), "w+b")
        try:
            command = qemu.command_line(o, kernel, image, specs, self.virtiofs, link)
            self.proc = qemu.start(command, self.errors, link.fds() if link else ())
            self.started, self.ready = time.monotonic(), None
            self.connect(servers)
        except BaseException:
            self.stop()
            raise

    def connect(self, servers):
        """Wait for QEMU to open its ends of the sockets."""
        for s in servers:
            while True:
                s.settimeout(0.2)
                try:
                    self.conns.append(s.accept()[0])
                    break
                except socket.timeout:
                    if self.proc.poll() is not None or time.monotonic() > self.started + 30:
                        raise Problem("qemu did not start: " + self.complaint()) from None
            s.close()

    def stop(self):
        if self.proc:
            if self.proc.poll() is None:
                self.proc.kill()
            self.proc.wait()
        if self.virtiofs:
            self.virtiofs.stop()

    def complaint(self):
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace").strip()

    def say(self, text):
        say("guest %d: %s" % (self.link.rank, text) if self.link else text)

    def take(self, line, data):
        """@data came from the serial line number @line."""
        if line == 0:
            self.log += data
            if self.console:
                self.console.write(data)
                self.console.flush()
            if self.o.verbose:
                sys.stderr.buffer.write(data)
                sys.stderr.flush()
        elif line == 1:
            self.show(data)
        else:
            self.words += data

    def show(self, data):
        """Pass output on: as it comes, or line by line behind the rank."""
        if self.link:
            *whole, rest = (bytes(self.line) + data).split(b"\n")
            self.line[:] = rest
            data = b"".join(b"%d: %s\n" % (self.link.rank, text) for text in whole)
        sys.stdout.buffer.write(data)
        sys.stdout.flush()

    def end_line(self):
        """Pass on a last line without an end."""
        if self.line:
            self.show(b"\n")

    def tell(self, word):
        """Send a word to the guest, which may be dead already."""
        try:
            self.conns[2].sendall(word + b"\n")
        except OSError:
            pass

    def running(self):
        return self.proc.poll() is None

    def late(self):
        """Has the guest overrun its time?  It has a clock of its own; this is the last resort."""
        now = time.monotonic()
        if b"ready" not in self.words and not self.o.icount:
            return now > self.started + BOOT_LIMIT
        if self.ready is None:
            self.ready = now
        if self.told_off:
            return now > self.told_off + BOOT_LIMIT
        if self.link and self.word("rc") is not None:
            return False        # it waits for the others
        return now > self.ready + self.o.timeout + GRACE

    def word(self, name):
        """What the guest told about @name, or None.  A line without its end may still grow."""
        m = re.search(rb"^%s ?(.*)\n" % name.encode(), bytes(self.words), re.M)
        return m.group(1).decode(errors="replace").strip() if m else None

    def failed(self):
        """Is it known already that the guest failed?"""
        if self.timed_out or any(self.word(w) is not None for w in ("time-out", "fail", "inuse")):
            return True
        rc = self.word("rc")
        return not self.running() if rc is None else rc != "0"

    def verdict(self):
        """The exit status, after telling what went wrong."""
        lines = splat.text_lines(bytes(self.log))
        complaint = self.complaint()
        if complaint:
            self.say("qemu: " + complaint)
        if self.timed_out or self.word("time-out") is not None:
            return self.verdict_late(lines)
        rc, failure, inuse = self.word("rc"), self.word("fail"), self.word("inuse")
        blocks = splat.find(lines, self.o.expect)
        if blocks:
            self.say("the kernel complained:\n" + splat.show(lines, blocks))
        if self.word("warn"):
            self.say(self.word("warn"))
        if failure is not None:
            self.say("%s; the last kernel lines:\n%s" % (failure, tail(lines, 12)))
            return 127 if blocks else 125
        if splat.stale_breakpoint(lines):
            self.say("QEMU ran a breakpoint that the kernel's text patching had removed")
            return QEMU_FAULT
        if rc is None and self.ended_for is None:
            self.say("the guest died without an exit status; its last lines:\n" + tail(lines))
            return 126
        if inuse is not None:
            self.say(inuse)
        if blocks:
            return 127
        if rc is None:
            return None
        if inuse is not None:
            return int(rc) or 127
        return int(rc)

    def verdict_late(self, lines):
        """The exit status of a guest that overran its time."""
        cut = next((i for i, line in enumerate(lines) if "vm: time-out" in line), len(lines))
        blocks = splat.find(lines[:cut], self.o.expect)
        if blocks:
            self.say("the kernel complained:\n" + splat.show(lines[:cut], blocks))
        if b"ready" not in self.words:
            self.say("the guest was not ready after %d s; its last lines:\n%s"
                     % (BOOT_LIMIT, tail(lines)))
        else:
            self.say("time-out after %g s; the last kernel lines:\n%s%s"
                     % (self.o.timeout, tail(lines[:cut], 15), tail(lines[cut:], 60)))
        return 124

    def stumbled(self):
        """Did the guest die of QEMU before anything of COMMAND, or the module, was there?"""
        return (not self.timed_out and b"ready" not in self.words
                and splat.stale_breakpoint(splat.text_lines(bytes(self.log))))
