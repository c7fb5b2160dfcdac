# SPDX-License-Identifier: GPL-2.0
"""run: boot a guest, run a command in it, and report as if the command had run here."""
import argparse
import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

from . import Problem, cluster, guest, initrd, kernels, qemu
from .machine import Machine, say

CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))))

USAGE = """run [OPTION...] [--insmod [PARAM=VALUE...]] [--] COMMAND [ARG...]

Boots a throw-away virtual machine whose root is this machine's, read-only below a scratch layer,
and runs COMMAND in the current directory.  Its output streams to standard output.
With --guests N, N machines on one virtual network run COMMAND; lines of output begin with "RANK: ".

Exit status: COMMAND's own;
  123  QEMU without KVM ran a breakpoint in the guest's kernel that was removed already
  124  time-out (the last kernel lines are shown)
  125  the runner could not do its work
  126  the guest died
  127  the kernel complained (WARN, BUG, Oops, KASAN, lockdep, ...) or gpumem.ko stayed in use

Environment: GPUMEM_BUILD, directory of the library and programs; GPUMEM_MODULES, directory of
the modules (both default to build/ of the checkout); GPUMEM_CACHE, directory for kernels.
COMMAND sees variables named GPUMEM_*, PYTHON* and *SAN_OPTIONS.

Several guests: COMMAND finds its rank in GPUMEM_RANK (0...), their number in GPUMEM_GUESTS, its
address in GPUMEM_ADDRESS and those of the others, by rank, in GPUMEM_PEERS.  The guests' names are
guest0, guest1, ...  COMMAND begins when all guests are ready for it, and the network stays until it
has ended in all of them.  A guest that fails ends the others %d seconds later.  The exit status is
that of the first guest that failed, or 127 if a kernel complained.
""" % cluster.PEER_GRACE

# Modules that the initial root loads if the kernel has them as modules.
EARLY = ["virtio_pci", "virtio_rng", "9pnet_virtio", "9p", "virtiofs", "overlay"]
PASS_ENV = re.compile(r"(GPUMEM_|PYTHON|[ATU]BSAN_OPTIONS|(A|T|L|UB)SAN_OPTIONS)")


def parse(argv):
    """Options, and the command in .command; --insmod eats the NAME=VALUE words after it."""
    ap = argparse.ArgumentParser(usage=USAGE, formatter_class=argparse.RawTextHelpFormatter)
    a = ap.add_argument
    a("--kernel", default=kernels.DEFAULT, metavar="NAME", help="see kernel --list (%(default)s)")
    a("--cpus", type=int, default=2, metavar="N", help="default: %(default)s")
    a("--guests", type=int, default=1, metavar="N", help="default: %%(default)s; at most %d; each\n"
      "one has the processors and the memory that are asked for" % cluster.MOST)
    a("--mem", default="2G", metavar="M", help="default: %(default)s")
    a("--node", action="append", default=[], metavar="M",
      help="one more memory node, without processors; the processors\nand --mem are node 0")
    a("--movable-node", action="append", default=[], metavar="M",
      help="as --node, but all of its memory is movable")
    a("--timeout", type=float, default=300, metavar="S", help="for COMMAND; default: %(default)s")
    a("--insmod", action="store_true", help="insert gpumem.ko first, remove it afterwards")
    a("--icount", action="store_true", help="deterministic: one guest instruction is one ns;\n"
      "1 CPU, a root made of COMMAND's files only")
    a("--copy", action="append", default=[], metavar="FILE", help="with --icount: one more file")
    a("--near", action="append", default=[], metavar="PATH",
      help="copy this file, or the files in this directory, and the libraries that they\n"
      "need, into the guest's memory at first: programs start much faster")
    a("--randomize", action="store_true", help="address spaces as the kernel likes them best;\n"
      "programs start much slower without KVM")
    a("--out", metavar="DIR", help="writable in the guest, at the same place;\nall guests share it")
    a("--load", action="append", default=[], metavar="MODULE", help="modprobe before COMMAND")
    a("--expect", action="append", default=[], metavar="REGEX",
      help="forgive a complaint of the kernel whose text matches; (?s)A.*B spans lines")
    a("--accel", choices=["auto", "tcg", "kvm"], default="auto", help=argparse.SUPPRESS)
    a("--append", default="", metavar="WORDS", help="more words for the kernel's command line")
    a("--qemu-arg", action="append", default=[], metavar="WORDS", help="more options for QEMU")
    a("--leak-scan", action=argparse.BooleanOptionalAction, default=None,
      help="kmemleak after COMMAND, on kernels that have it; default: with --insmod")
    a("--console", metavar="FILE", help="write the kernel's log there, or FILE.RANK with --guests")
    a("-v", action="store_true", dest="verbose", help="show the kernel's log as it comes")
    a("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    params, words, i = [], [], 0
    while i < len(argv) and argv[i] != "--" and not (words and words[-1] == "--"):
        words.append(argv[i])
        if argv[i] == "--insmod":
            while i + 1 < len(argv) and re.match(r"[A-Za-z_]\w*=", argv[i + 1]):
                i += 1
                params.append(argv[i])
        i += 1
    o = ap.parse_args(words + argv[i:])
    o.params = params
    if o.leak_scan is None:
        o.leak_scan = o.insmod
    if o.command[:1] == ["--"]:
        del o.command[0]
    if not o.command:
        ap.error("no COMMAND")
    for e in o.expect:
        try:
            re.compile(e)
        except re.error as err:
            ap.error("--expect %s: %s" % (e, err))
    if o.icount and o.movable_node:
        ap.error("--movable-node: not with --icount")
    if o.icount and o.out:
        ap.error("--out needs a shared directory, which --icount does not have: use the output")
    if o.out:
        o.out = os.path.realpath(o.out)
        os.makedirs(o.out, exist_ok=True)
    return o


def sources(top=CHECKOUT):
    """The files that gpumem.ko is made of."""
    for name in ("Kbuild", "Makefile"):
        yield os.path.join(top, name)
    for sub in ("kmod", "uapi"):
        for where, _, names in os.walk(os.path.join(top, sub)):
            for name in names:
                if name.endswith((".c", ".h")):
                    yield os.path.join(where, name)


def module_for(kernel, build=None):
    """The gpumem.ko built for @kernel; builds it when absent or older than its sources.

    @build: where the modules are, if GPUMEM_MODULES does not say.
    """
    out = os.environ.get("GPUMEM_MODULES") or build or os.path.join(CHECKOUT, "build")
    ko = os.path.join(out, kernel.version, "gpumem.ko")
    built = os.path.join(os.path.dirname(ko), ".built")
    # A kernel of the same version may have another configuration.
    found = None
    made_for = os.path.join(os.path.dirname(ko), ".built-for")
    wanted, variables = kernels.module_note(kernel)
    with contextlib.suppress(OSError), open(made_for, encoding="utf-8") as f:
        found = f.read()
    newest = max((os.stat(s).st_mtime for s in sources() if os.path.exists(s)), default=0)
    if not (os.path.exists(ko) and os.path.exists(built) and found == wanted
            and os.stat(built).st_mtime >= newest):
        say("building gpumem.ko for %s" % kernel.version)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
        env.update(v.split("=") for v in variables)
        r = subprocess.run(["make", "-s", "-C", CHECKOUT, "modules", "KDIR=" + kernel.kdir,
                            "O=" + out],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, check=False)
        if r.returncode or not os.path.exists(ko):
            sys.stderr.write(r.stdout.decode(errors="replace"))
            raise Problem("gpumem.ko does not build for %s" % kernel.version)
        with open(made_for, "w", encoding="utf-8") as f:
            f.write(wanted)
    return ko


def build_dir(*parts):
    """Where the library and programs are: $GPUMEM_BUILD, else build/."""
    return os.path.join(os.environ.get("GPUMEM_BUILD") or os.path.join(CHECKOUT, "build"), *parts)


def library_path():
    return ":".join(build_dir(d) for d in ("compat", "lib"))


class Checkout:
    """Where the module, the kernels and COMMAND's environment come from: the checkout and its build.

    The command "gpumem vm" has another one, tool.py.
    """

    def kernel(self, name):
        return kernels.get(name)

    def module(self, kernel):
        return module_for(kernel)

    def paths(self):
        """What COMMAND needs, besides the paths that it names."""
        return [CHECKOUT, build_dir()]

    def environment(self, o):
        env = {"HOME": "/root", "TERM": "dumb", "LANG": "C.UTF-8", "USER": "root",
               "PATH": build_dir("bin")
               + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        env.update((k, v) for k, v in os.environ.items() if PASS_ENV.match(k)
                   and (o.guests == 1 or k not in guest.RANK_ENV))
        if o.insmod:
            env["LD_LIBRARY_PATH"] = library_path()
        return env


def command_script(o):
    """The shell script that becomes COMMAND."""
    env = o.place.environment(o)
    text = "".join("export %s=%s\n" % (k, shlex.quote(v)) for k, v in sorted(env.items()))
    words = list(o.command)
    if o.icount and os.path.exists(words[0]):
        words[0] = os.path.abspath(words[0])
    return text + "ulimit -c 0\ncd %s\nexec %s\n" % (
        shlex.quote(os.getcwd()), " ".join(shlex.quote(w) for w in words))


def command_files(o):
    """With --icount: the host's files that the root is made of."""
    program = shutil.which(o.command[0])
    if not program:
        raise Problem("%s: no such program" % o.command[0])
    paths = [os.path.abspath(program)]
    paths += [os.path.abspath(w) for w in o.command[1:] + o.copy if os.path.isfile(w)]
    if o.insmod:
        for sub in ("lib", "compat"):
            where = build_dir(sub)
            if os.path.isdir(where):
                paths += [os.path.join(where, n) for n in sorted(os.listdir(where)) if ".so" in n]
    return initrd.closure(paths, library_path() if o.insmod else "")


def near_files(o):
    """The files that are copied into the guest's memory, and the links to them."""
    paths, links = [], set()
    for path in o.near:
        inside = [e.path for e in os.scandir(path)] if os.path.isdir(path) else [
            shutil.which(path) or path]
        paths += sorted(p for p in inside
                        if os.path.isfile(p) and not p.endswith((".d", ".o", ".a", ".gcda")))
    paths += initrd.closure([os.path.realpath(p) for p in paths], library_path())
    for path in paths:
        while os.path.islink(path):
            links.add(os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)))
            path = os.path.join(os.path.dirname(path), os.readlink(path))
    return sorted({os.path.realpath(p) for p in paths}), sorted(links)


def module_needs(ko):
    """The names of the modules that @ko says it depends on."""
    modinfo = shutil.which("modinfo", path="/usr/sbin:/sbin:" + os.environ.get("PATH", ""))
    if not modinfo:
        raise Problem("modinfo is missing: apt-get install kmod")
    r = subprocess.run([modinfo, "-F", "depends", ko], stdout=subprocess.PIPE, check=True)
    return [n for n in r.stdout.decode().strip().split(",") if n]


def kept_of_tmp(o):
    """What the guest sees of the host's /tmp: the paths there that the command names or needs.

    Paths within another one of these are left out.  Where a link is on the way, all of /tmp is kept.
    """
    needed = [os.getcwd()] + o.place.paths() + [w for w in o.command if os.path.exists(w)]
    kept = []
    for path in sorted({os.path.abspath(p) for p in needed if os.path.exists(p)}):
        if not (path + "/").startswith("/tmp/"):
            continue
        if os.path.realpath(path) != path:
            return ["/tmp"]
        if not kept or not path.startswith(kept[-1] + "/"):
            kept.append(path)
    return kept


def make_initrd(o, kernel, busybox, modules, share):
    """The initial root's bytes."""
    c = initrd.Cpio()
    for d in ("proc", "sys", "dev", "tmp", "run", "mnt", "bin", "sbin", "usr/bin", "root", "vm"):
        c.directory(d)
    c.node("dev/console", 5, 1)
    c.node("dev/null", 1, 3)
    with open(busybox, "rb") as f:
        c.file("bin/busybox", f.read())
    early, needs = ([] if o.icount else EARLY), []
    conf = {"KVER": kernel.version, "MODULES": kernel.modules, "SHARE": share,
            "SHAREOPT": guest.SHARES[share], "SETTLE": "5" if o.icount else "0",
            "LOAD": " ".join(o.load), "OUT": o.out or "",
            "HOSTROOT": "" if o.icount else "1", "TIMEOUT": "" if o.icount else "%g" % o.timeout,
            "LEAKSCAN": "1" if o.leak_scan else "",
            "ADDRESSES": " ".join(cluster.addresses(o.guests)) if o.guests > 1 else ""}
    if o.guests > 1:
        early = early + cluster.DRIVERS
    if o.insmod:
        ko = o.place.module(kernel)
        needs = module_needs(ko)
        with open(ko, "rb") as f:
            c.file("vm/gpumem.ko", f.read(), 0o644)
        conf.update(INSMOD="1", PARAMS=" ".join(o.params), NEEDS=" ".join(needs))
    if o.icount:
        # The root has no modprobe with --icount: insert all modules by name, in order, before the
        # command.
        early = early + needs + o.load
        conf.update(NEEDS="", LOAD="")
        c.directory(os.getcwd())
        for path in command_files(o):
            c.host_file(path)
    mods = []
    for path in modules.load_order(early, o.load):
        name, data = initrd.read_module(os.path.join(kernel.modules, path))
        mods.append(name)
        c.file("vm/mods/" + name, data, 0o644)
    conf["MODS"] = " ".join(mods)
    conf["KEEP"] = "\n".join(kept_of_tmp(o))
    c.file("vm/conf", "".join("%s=%s\n" % (k, shlex.quote(v))
                              for k, v in sorted(conf.items())).encode())
    if o.near and not o.icount:
        for name, paths in zip(("near", "links"), near_files(o)):
            c.file("vm/" + name, "".join(p[1:] + "\0" for p in paths).encode())
    c.file("init", guest.INIT.encode())
    c.file("vm/stage2", guest.STAGE2.encode())
    c.file("vm/command", command_script(o).encode())
    return c.finish()


def main(argv):
    o = parse(argv)
    o.place = Checkout()
    return boot(o)


def boot(o):
    """Run COMMAND in one or several guests; returns the exit status."""
    for sig in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, lambda *_: sys.exit(125))
    work = tempfile.mkdtemp(prefix="gpumem-vm.")
    machines = []
    try:
        busybox = qemu.tools()
        kernel = o.place.kernel(o.kernel)
        modules = initrd.Modules(kernel.modules)
        cluster.check(o.guests, o, modules)
        share = "9p" if modules.has("9p") else "virtiofs"
        image = os.path.join(work, "initrd")
        with open(image, "wb") as f:
            f.write(make_initrd(o, kernel, busybox, modules, share))
        for attempt in range(2):
            machines.clear()
            for rank, link in enumerate(cluster.network(o.guests)):
                place = os.path.join(work, "%d.%d" % (attempt, rank))
                os.mkdir(place)
                machines.append(Machine(o, kernel, image, place, share, link))
            for m in machines:
                if m.link:
                    m.link.close()
            ended = cluster.follow(machines)
            if attempt or not any(m.stumbled() for m in machines):
                break
            say("QEMU stumbled over text patching at boot; once more")
            for m in machines:
                m.stop()
        return ended.status()
    except Problem as e:
        say(str(e))
        return 125
    except BrokenPipeError:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 125
    except KeyboardInterrupt:
        say("interrupted")
        return 125
    finally:
        # Ignore further signals during the clean-up.
        for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(sig, signal.SIG_IGN)
        for m in machines:
            m.stop()
        shutil.rmtree(work, ignore_errors=True)
