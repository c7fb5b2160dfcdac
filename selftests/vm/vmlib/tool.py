# SPDX-License-Identifier: GPL-2.0
"""gpumem vm: the virtual machine as a tool for users; see gpumem-vm(1).

The guest and its runner are those of "run".  What differs is where things come from: the module is
built from the installed sources if there is no checkout, COMMAND has the caller's environment, and a
kernel that is in the cache is used though apt may know a newer one.
"""
import argparse
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys

from . import Problem, chroot, guest, kernels, runner
from .cache import cache_dir, make_entry, note, safe

# Other kernels of the table need files that are not installed.
NAMES = [n for n, k in kernels.KERNELS.items() if isinstance(k, kernels.Packaged)]

USAGE = """gpumem vm [OPTION...] [--] COMMAND [ARG...]

Run COMMAND in a throw-away virtual machine that has the module gpumem.  The machine sees the files of
this one; what COMMAND writes is lost, except below the directory of --out.

Exit status: COMMAND's own;
  123  QEMU without KVM ran a breakpoint in the guest's kernel that was removed already
  124  time-out
  125  the machine could not be started
  126  the machine died
  127  the kernel complained, a process still used the module, or there is no such COMMAND
"""

# Variables of the caller that mean nothing in the guest.
HERE_ONLY = re.compile(r"(TMPDIR|TERM|DISPLAY|WAYLAND_DISPLAY|XAUTHORITY|XDG_RUNTIME_DIR|DBUS_\w+|SSH_\w+|"
                       r"NOTIFY_SOCKET|MAKE\w*|MFLAGS|PWD|OLDPWD|SHLVL|_)$")
SIZE = re.compile(r"[0-9]+[KMG]?$", re.I)
LEAST = 512  # MiB of memory of a machine


class Installed:
    """Where things come from: an installation below the prefix @base, or a build directory.

    @source: the directory of the module's sources, if the user named one.
    """

    def __init__(self, base, source=None, cuda=None):
        self.tree = os.path.exists(os.path.join(runner.CHECKOUT, "kmod/gpumem_drv.c"))
        self.base = base or (runner.build_dir() if self.tree else "/usr")
        self.source, self.cuda = source or os.environ.get("GPUMEM_SOURCE"), cuda

    def kernel(self, name):
        """A kernel by name, the newest in the cache if there is one; or the kernel in a directory."""
        if "/" not in name:
            found = glob.glob(os.path.join(cache_dir(), "kernels", glob.escape(name) + "_*"))
            if found:
                return kernels.Kernel(name, max(found, key=os.path.getmtime))
            if not shutil.which("apt-get"):
                raise Problem("kernels come from apt, which this machine does not have; "
                              "--kernel DIRECTORY names another one")
        return kernels.get(name)

    def sources(self):
        """The directory with the module's sources."""
        if self.source:
            places = [self.source]
        elif self.tree:
            places = [runner.CHECKOUT]
        else:
            places = sorted(glob.glob(os.path.join(self.base, "src/gpumem-*"))
                            or glob.glob("/usr/src/gpumem-*"),
                            key=lambda p: [int(n) for n in re.findall(r"\d+", os.path.basename(p))])
        for place in reversed(places):
            if os.path.exists(os.path.join(place, "kmod/gpumem_drv.c")):
                return os.path.realpath(place)
        raise Problem("no sources of the module in %s: install gpumem-dkms, or name them with --source"
                      % (" ".join(places) or "/usr/src"))

    def module(self, kernel):
        """gpumem.ko for @kernel: a checkout's own, or built into the cache."""
        source = self.sources()
        if source == os.path.realpath(runner.CHECKOUT) and os.access(self.base, os.W_OK):
            return runner.module_for(kernel, self.base)
        digest = hashlib.sha256(os.path.abspath(kernel.path).encode())
        for path in sorted(runner.sources(source)):
            if os.path.exists(path):
                with open(path, "rb") as f:
                    digest.update(path[len(source):].encode() + b"\0" + f.read())

        def build(tmp, _):
            missing = [p for p in ("make", "gcc") if not shutil.which(p)]
            if missing:
                raise Problem("missing programs: apt-get install --no-install-recommends "
                              + " ".join(missing))
            if not chroot.runs_here(kernel.kdir):
                raise Problem("kernel %s wants a compiler or tools that this machine does not have"
                              % kernel.version)
            note("building gpumem.ko for %s ..." % kernel.version)
            env = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
            out = os.path.join(tmp, "build")
            r = subprocess.run(["make", "-s", "-C", source, "modules", "KDIR=" + kernel.kdir, "O=" + out],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, env=env, check=False)
            made = os.path.join(out, kernel.version, "gpumem.ko")
            if r.returncode or not os.path.exists(made):
                sys.stderr.write(r.stdout.decode(errors="replace")[-4000:])
                raise Problem("gpumem.ko does not build for %s" % kernel.version)
            shutil.move(made, tmp)
            shutil.rmtree(out)

        return os.path.join(make_entry("modules", "%s_%s" % (safe(kernel.version),
                                                             digest.hexdigest()[:12]), build), "gpumem.ko")

    def libraries(self):
        """The directory that has our libcuda.so.1."""
        for pattern in ("compat", "lib/gpumem", "lib64/gpumem", "lib/*/gpumem"):
            for path in sorted(glob.glob(os.path.join(self.base, pattern))):
                if os.path.exists(os.path.join(path, "libcuda.so.1")):
                    return path
        raise Problem("no libcuda.so.1 below %s: make lib, or install libgpumem1" % self.base)

    def library_path(self):
        """The directories that --cuda puts first."""
        if not self.cuda:
            return []
        path = self.libraries()
        return ([os.path.join(path, "cuda12")] if self.cuda == 12 else []) + [path]

    def paths(self):
        return [self.base] + self.library_path()

    def environment(self, o):
        """The caller's environment, with the paths that were asked for."""
        env = {k: v for k, v in os.environ.items() if re.match(r"[A-Za-z_]\w*$", k)
               and not HERE_ONLY.match(k) and k not in guest.RANK_ENV}
        env.update(TERM="dumb", USER="root", LOGNAME="root")
        env.setdefault("LANG", "C.UTF-8")
        env.setdefault("HOME", "/root")
        path = [p for p in env.get("PATH", "").split(":") if p]
        if self.tree:
            path.insert(0, os.path.join(self.base, "bin"))
        # COMMAND always runs as root in the guest.
        path += [p for p in "/usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin".split()
                 if p not in path]
        env["PATH"] = ":".join(path)
        libraries = self.library_path() + [p for p in env.get("LD_LIBRARY_PATH", "").split(":") if p]
        if libraries:
            env["LD_LIBRARY_PATH"] = ":".join(libraries)
        return env


def options():
    ap = argparse.ArgumentParser(prog="gpumem vm", usage=USAGE, add_help=False, allow_abbrev=False,
                                 formatter_class=argparse.RawTextHelpFormatter)
    a = ap.add_argument
    a("--kernel", default=kernels.DEFAULT, metavar="NAME", help="%s,\nor a directory; default: %%(default)s"
      % ", ".join(NAMES))
    a("--mem", default="2G", metavar="SIZE", help="memory of the machine; default: %(default)s")
    a("--cpus", type=int, default=min(4, len(os.sched_getaffinity(0))), metavar="N",
      help="processors; default: all, at most 4")
    a("--devices", type=int, default=1, metavar="N", help="devices, 1 to 16; default: %(default)s")
    a("--vram", metavar="SIZE", help="memory of each device; default: half of the machine's, divided")
    a("--param", action="append", default=[], metavar="NAME=VALUE", help="another parameter of the module")
    a("--cuda", action="store_const", const=13, help="put our libcuda.so.1 first in LD_LIBRARY_PATH")
    a("--cuda12", action="store_const", const=12, dest="cuda", help="the same, as a driver of CUDA 12.9")
    a("--out", metavar="DIR", help="writable in the machine, at the same place")
    a("--timeout", type=float, default=3600, metavar="S", help="seconds for COMMAND; default: %(default)s")
    a("--source", metavar="DIR", help="build the module from these sources")
    a("--verbose", action="store_true", help="show the kernel's log as it comes")
    a("--help", action="help", help="show this text")
    a("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return ap


def parse(argv, base):
    """The options that "run" has for ours."""
    ap = options()
    o = ap.parse_args(argv)
    if o.command[:1] == ["--"]:
        del o.command[0]
    if not o.command:
        ap.error("no COMMAND")
    if "/" not in o.kernel and o.kernel not in NAMES:
        ap.error("--kernel %s: one of %s, or a directory" % (o.kernel, ", ".join(NAMES)))
    if not 1 <= o.devices <= 16:
        ap.error("--devices: 1 to 16")
    if o.cpus < 1 or o.timeout <= 0:
        ap.error("--cpus, --timeout: not below 1")
    for name in ("mem", "vram"):
        size = getattr(o, name)
        if size is not None and not SIZE.match(size):
            ap.error("--%s %s: not a size in K, M or G" % (name, size))
    # QEMU takes a number without a letter as MiB.
    digits, letter = re.match(r"(\d+)(.?)", o.mem).groups()
    if int(digits) << 10 * " KMG".index(letter.upper() or "M") < LEAST << 20:
        ap.error("--mem %s: a machine needs %dM" % (o.mem, LEAST))
    for p in o.param:
        if not re.match(r"[A-Za-z_]\w*=\S*$", p):
            ap.error("--param %s: not of the form NAME=VALUE" % p)
    words = ["--kernel", o.kernel, "--mem", o.mem, "--cpus", str(o.cpus), "--timeout", "%g" % o.timeout,
             "--no-leak-scan"]
    words += ["--out", o.out] if o.out else []
    words += ["-v"] if o.verbose else []
    words += ["--insmod", "devices=%d" % o.devices] + (["vram=" + o.vram] if o.vram else []) + o.param
    found = runner.parse(words + ["--"] + o.command)
    found.place = Installed(base, o.source, o.cuda)
    return found


def main(argv, base=None):
    """@base: the prefix or build directory, if the program's own path tells it."""
    try:
        o = parse(argv, base)
    except SystemExit as e:
        return 125 if e.code else 0
    return runner.boot(o)
