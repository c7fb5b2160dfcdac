# SPDX-License-Identifier: GPL-2.0
"""QEMU's command line, and whether KVM can be used."""
import contextlib
import ctypes
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time

from . import Problem

PR_SET_PDEATHSIG = 1

QEMU = "qemu-system-x86_64"
BUSYBOX = ("/bin/busybox", "/usr/bin/busybox")

# Without these features memcpy is a loop.  QEMU interprets "rep movsb" byte by byte.
TCG_CPU = "max,-erms,-fsrm"
ICOUNT_CPU = "max,-rdrand,-rdseed,-erms,-fsrm"
ICOUNT_BOOT = ("nokaslr norandmaps randomize_kstack_offset=off mitigations=off tsc=reliable "
               "kfence.sample_interval=0")


def ended_with_parent(sig):
    """A preexec_fn: the kernel sends the new process @sig when this process ends, however that may happen."""
    libc, parent = ctypes.CDLL(None), os.getpid()

    def prepare():
        # The caller's handler would lose a signal that comes before the new program runs.
        if sig != signal.SIGKILL:
            signal.signal(sig, signal.SIG_DFL)
        libc.prctl(PR_SET_PDEATHSIG, sig)
        if os.getppid() != parent:
            # The parent ended before the call.
            os.kill(os.getpid(), sig)

    return prepare


def start(command, output, fds=()):
    """Start @command, which inherits @fds and is killed when this process ends."""
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                            start_new_session=True, pass_fds=fds, preexec_fn=ended_with_parent(signal.SIGKILL))


def tools():
    """The path of a static busybox; tells what to install when a tool is missing."""
    missing = []
    if not shutil.which(QEMU):
        missing.append("qemu-system-x86")
    found = None
    for path in BUSYBOX:
        with contextlib.suppress(OSError):
            with open(path, "rb") as f:
                if b"/ld-linux" not in f.read(8192):
                    found = path
    if not found:
        missing.append("busybox-static")
    if missing:
        raise Problem("missing programs: apt-get install --no-install-recommends "
                      + " ".join(missing))
    return found


def kvm_usable(image, limit=10.0):
    """Does KVM run the kernel @image?  Boot it without a root until it misses one.

    That /dev/kvm opens says little: under a paravirtual KVM (module kvm_pvm) QEMU dies in an
    assertion with -cpu host, or the guest hangs before its first line.  The answer is remembered
    until the host boots again.
    """
    if not os.access("/dev/kvm", os.R_OK | os.W_OK) or os.path.isdir("/sys/module/kvm_pvm"):
        return False
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
        boot = f.read().strip()
    memo = os.path.join(tempfile.gettempdir(), "gpumem-kvm.%d.%s" % (os.getuid(), boot))
    with contextlib.suppress(OSError):
        with open(memo, encoding="ascii") as f:
            return f.read() == "1"
    p = subprocess.Popen([QEMU, "-nodefaults", "-no-user-config", "-nographic", "-no-reboot",
                          "-accel", "kvm", "-cpu", "host", "-m", "512M", "-kernel", image,
                          "-append", "console=ttyS0 earlyprintk=serial,ttyS0 panic=-1",
                          "-serial", "stdio"],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, preexec_fn=ended_with_parent(signal.SIGKILL))
    end, seen, usable = time.monotonic() + limit, b"", False
    os.set_blocking(p.stdout.fileno(), False)
    while time.monotonic() < end and p.poll() is None and not usable:
        seen += p.stdout.read() or b""
        usable = b"Kernel panic" in seen or b"Run /" in seen
        time.sleep(0.05)
    p.kill()
    p.wait()
    with contextlib.suppress(OSError):
        with open(memo, "w", encoding="ascii") as f:
            f.write("1" if usable else "0")
    return usable


def share_9p(tag, path, readonly):
    """A directory of the host, as a 9p file system called @tag."""
    return ["-fsdev", "local,id=%s,path=%s,security_model=none,multidevs=remap%s"
            % (tag, path.replace(",", ",,"), ",readonly=on" if readonly else ""),
            "-device", "virtio-9p-pci,fsdev=%s,mount_tag=%s" % (tag, tag)]


class Virtiofs:
    """The daemons that share directories with a kernel that has no 9p."""

    PLACES = ("/usr/libexec/virtiofsd", "/usr/lib/qemu/virtiofsd")

    def __init__(self, work):
        self.work, self.daemons = work, []

    def share(self, tag, path):
        """Start a daemon for @path; returns QEMU's options."""
        program = next((p for p in self.PLACES if os.access(p, os.X_OK)), None)
        if not program:
            raise Problem("this kernel has no 9p: apt-get install virtiofsd")
        sock = os.path.join(self.work, tag + ".sock")
        if program == self.PLACES[0]:
            command = [program, "--socket-path", sock, "--shared-dir", path, "--cache", "auto",
                       "--sandbox", "chroot" if os.geteuid() == 0 else "none"]
        elif os.geteuid() == 0:
            command = [program, "--socket-path=" + sock, "-o", "source=" + path,
                       "-o", "cache=auto", "-o", "sandbox=chroot"]
        else:
            raise Problem("this kernel has no 9p, and virtiofsd must be run as root here")
        log = os.path.join(self.work, tag + ".log")
        with open(log, "wb") as f:
            p = start(command, f)
        self.daemons.append(p)
        for _ in range(200):
            if os.path.exists(sock):
                break
            if p.poll() is not None:
                with open(log, encoding="utf-8", errors="replace") as f:
                    raise Problem("virtiofsd failed: " + f.read().strip().replace("\n", "; "))
            time.sleep(0.02)
        return ["-chardev", "socket,id=%s,path=%s" % (tag, sock),
                "-device", "vhost-user-fs-pci,chardev=%s,tag=%s" % (tag, tag)]

    def stop(self):
        for p in self.daemons:
            if p.poll() is None:
                p.terminate()
            p.wait()


def network_card(link):
    """The card whose cable is the Link @link; with several cables, they and the card share a hub."""
    q, name = [], "cable%d" % (len(link.fds()) - 1)
    for i, fd in enumerate(link.fds()):
        q += ["-netdev", "socket,id=cable%d,fd=%d" % (i, fd)]
    if len(link.fds()) > 1:
        for i in range(len(link.fds())):
            q += ["-netdev", "hubport,id=port%d,hubid=0,netdev=cable%d" % (i, i)]
        name = "card"
        q += ["-netdev", "hubport,id=card,hubid=0"]
    # Large frames: each one costs the emulation much.  The card does not boot the machine.
    return q + ["-device", "virtio-net-pci,netdev=%s,mac=52:54:00:67:6d:%02x,host_mtu=9000,romfile="
                % (name, link.rank)]


def mebibytes(size):
    """The number of MiB in a size with M or G; without a letter, the size is in MiB, as for QEMU's -m."""
    m = re.fullmatch(r"([0-9]+)([MG]?)", size.upper())
    if not m:
        raise Problem("%s: not a size in M or G" % size)
    return int(m[1]) * (1024 if m[2] == "G" else 1)


def memory(o, shared):
    """The memory and its nodes.  @shared: node 0 is a file that virtiofsd can map."""
    mib, normal = mebibytes(o.mem), [mebibytes(n) for n in o.node]
    q = ["-object", "memory-backend-%s,id=mem,size=%dM" % ("memfd,share=on" if shared else "ram", mib)]
    if not normal and not o.movable_node:
        return ["-m", o.mem] + (q + ["-machine", "memory-backend=mem"] if shared else [])
    size = mib + sum(normal)
    late = [mebibytes(n) for n in o.movable_node]
    q += ["-m", "%dM" % size + (",slots=%d,maxmem=%dM" % (len(late), size + sum(late) + 1024 * len(late))
                                if late else ""),
          "-numa", "node,nodeid=0,memdev=mem,cpus=0-%d" % (0 if o.icount else o.cpus - 1)]
    for i, size in enumerate(normal, 1):
        q += ["-object", "memory-backend-ram,id=mem%d,size=%dM" % (i, size),
              "-numa", "node,nodeid=%d,memdev=mem%d" % (i, i)]
    # The kernel adds a memory module late, and to the zone that its command line names.
    for i, size in enumerate(late, len(normal) + 1):
        q += ["-object", "memory-backend-ram,id=mem%d,size=%dM" % (i, size),
              "-numa", "node,nodeid=%d" % i, "-device", "pc-dimm,id=dimm%d,memdev=mem%d,node=%d" % (i, i, i)]
    return q


def command_line(o, kernel, initrd, serials, virtiofs, link=None):
    """The whole command line for the options @o.

    @serials: three chardev specifications.  @virtiofs: a Virtiofs, or None to share by 9p.
    @link: the Link to other guests, or None.
    """
    kvm = not o.icount and o.accel != "tcg" and (o.accel == "kvm" or kvm_usable(kernel.image))
    # An image that need not unpack itself is not loaded at a random address.
    image = kernel.image if kvm or o.icount or o.randomize else kernel.plain_image()
    q = [QEMU, "-nodefaults", "-no-user-config", "-nographic", "-no-reboot", "-monitor", "none",
         "-machine", "q35", "-kernel", image, "-initrd", initrd]
    boot = "console=ttyS0 panic=-1 loglevel=7 rdinit=/init sysctl.kernel.hung_task_timeout_secs=60 "
    if o.movable_node:
        boot += "memhp_default_state=online_movable "
    q += memory(o, bool(virtiofs) and not o.icount)
    if o.icount:
        # Only virtual clocks, and no device whose timing depends on the host: no sockets, no 9p.
        q += ["-accel", "tcg", "-icount", "shift=0,sleep=off", "-smp", "1", "-cpu", ICOUNT_CPU,
              "-rtc", "base=2026-01-01,clock=vm", "-seed", "1"]
        boot += ICOUNT_BOOT + " "
    else:
        q += ["-smp", str(o.cpus), "-device", "virtio-rng-pci"]
        # Without address randomization QEMU need not translate the same code again at another
        # address.
        boot += "" if kvm or o.randomize else "norandmaps "
        # On a busy host QEMU may deliver no tick while the kernel tests the timer, which then panics.  With
        # KVM the kernel leaves this test out by itself.
        boot += "" if kvm else "no_timer_check "
        q += ["-accel", "kvm", "-cpu", "host"] if kvm else [
            "-accel", "tcg,thread=multi", "-cpu", TCG_CPU]
        if virtiofs:
            q += virtiofs.share("hostroot", "/")
        else:
            q += share_9p("hostroot", "/", True)
        if o.out:
            q += virtiofs.share("out", o.out) if virtiofs else share_9p("out", o.out, False)
    if link:
        # The kernel gives a word that it does not know to the first process, as a variable.
        boot += "GPUMEM_RANK=%d " % link.rank
        q += network_card(link)
    q += ["-append", boot + o.append]
    for i, spec in enumerate(serials):
        q += ["-chardev", spec.replace("ID", "c%d" % i), "-serial", "chardev:c%d" % i]
    for extra in o.qemu_arg:
        q += shlex.split(extra)
    return q
