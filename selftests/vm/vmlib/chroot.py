# SPDX-License-Identifier: GPL-2.0
"""Building modules for kernels whose build tools are too new for this machine.

The tools in a kernel's build tree (fixdep, modpost, objtool) are programs of the release it comes
from, and it wants that release's compiler.  Where these are not here, "make" runs in a root of
that release: made by mmdebstrap, cached, never written to.  In it the build sees, at their own
places, the kernel and the checkout read-only, and one directory to write to: M.  Mounts live in a
namespace of their own, and end with the build.  Root or user namespaces are needed for that.
entered() is the same for another build in a root of that release, with packages of its own.
"""
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys

from . import Problem, apt
from .cache import cache_dir, make_entry, note

CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))))
PACKAGES = ["make", "gcc-14", "libc6-dev", "libelf1t64", "perl", "kmod", "sparse"]

# Arguments: the root, M, "1" in a user namespace, directories to see..., "--", the command.  In a
# user namespace some mounts cannot be made read-only; the build is trusted there.
ENTER = r"""set -eu
root=$1 new=$1/mnt out=$2 userns=$3
shift 3
mount -t tmpfs -o mode=755 new "$new"
see() {
	mount --bind "$1" "$new$2"
	mount -o remount,bind,ro "$new$2" 2>/dev/null || [ "$userns" ]
}
mkdir "$new/usr"
for n in bin sbin lib lib64 etc usr/bin usr/sbin usr/include usr/lib usr/lib64 usr/libexec usr/share; do
	if [ -L "$root/$n" ]; then
		cp -P "$root/$n" "$new/$n"
	elif [ -d "$root/$n" ]; then
		mkdir "$new/$n"
		see "$root/$n" "/$n"
	fi
done
mkdir "$new/proc" "$new/dev" "$new/tmp"
mount --rbind /proc "$new/proc"
mount --rbind /dev "$new/dev"
mount -t tmpfs -o mode=1777 tmp "$new/tmp"
while [ "$1" != -- ]; do
	mkdir -p "$new$1"
	see "$1" "$1"
	shift
done
shift
mkdir -p "$new$out" 2>/dev/null || :
mount --bind "$out" "$new$out"
exec chroot "$new" "$@"
"""


def root_dir(packages=tuple(PACKAGES), name="trixie"):
    """A root of trixie with a compiler, or with @packages; made when absent."""
    try:
        versions = [(p, apt.TRIXIE.field(p, "Version")) for p in packages]
        unknown = [p for p, v in versions if not v]
        if unknown:
            raise Problem("apt's lists of trixie do not name " + " ".join(unknown))
    except Problem:
        # Without package lists use the newest cached root.
        old = glob.glob(os.path.join(cache_dir(), "roots", glob.escape(name) + "_*"))
        if old:
            return max(old, key=os.path.getmtime)
        raise
    key = name + "_" + hashlib.sha256(repr(versions).encode()).hexdigest()[:12]

    def build(tmp, _):
        if not shutil.which("mmdebstrap"):
            raise Problem("mmdebstrap is missing: tools/install-deps --matrix")
        note("making a root of trixie: a minute or two ...")
        # Take it as an archive, so that every file belongs to this user.
        pack = ["mmdebstrap", "--quiet", "--variant=apt", "--format=tar",
                "--aptopt=APT::Install-Recommends false", "--include=" + ",".join(packages),
                "trixie", "-"] + apt.TRIXIE.sources()[:1]
        with subprocess.Popen(pack, stdout=subprocess.PIPE) as p:
            r = subprocess.run(["tar", "-C", tmp, "--no-same-owner", "--exclude=./dev/*", "-x"],
                               stdin=p.stdout, check=False)
        if p.returncode or r.returncode:
            raise Problem("mmdebstrap failed")

    return make_entry("roots", key, build)


def entered(root, out, see, words):
    """The command line that runs @words in @root, with @out to write to and the directories @see."""
    enter = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
    return (enter + ["sh", "-c", ENTER, "sh", root, out, "" if os.geteuid() == 0 else "1"] + list(see)
            + ["--", "/usr/bin/env", "-C", "/tmp", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"]
            + list(words))


def runs_here(kdir):
    """Do the build tools of @kdir run on this machine, and has it the compiler they ask for?"""
    try:
        with open(os.path.join(kdir, ".kernelvariables"), encoding="utf-8") as f:
            compiler = re.search(r"^CC *=.*\b(gcc-\d+)$", f.read(), re.M)
        if compiler and not shutil.which(compiler.group(1)):
            return False
    except OSError:
        pass        # only distributions have that file
    for tool in ("scripts/basic/fixdep", "scripts/mod/modpost", "tools/objtool/objtool"):
        path = os.path.join(kdir, tool)
        if os.path.exists(path):
            r = subprocess.run([path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               stdin=subprocess.DEVNULL, check=False, cwd="/",
                               env=dict(os.environ, LC_ALL="C"))
            if b"GLIBC_" in r.stderr:
                return False
    return True


def command(words):
    """The command line that runs make with @words: "-C KDIR" and "M=DIR" are among them."""
    try:
        kdir = os.path.realpath(words[words.index("-C") + 1])
        out = os.path.realpath(next(w[2:] for w in words if w.startswith("M=")))
    except (ValueError, IndexError, StopIteration):
        raise Problem("make for a kernel needs -C KDIR and M=DIR") from None
    if runs_here(kdir):
        return ["make"] + words
    # The tree refers to other unpacked packages: bind all of them.
    unpacked = re.match(r"(/.+)/usr/src/[^/]+$", kdir)
    if not unpacked:
        raise Problem("%s wants a compiler or tools that are not here" % kdir)
    see = sorted({CHECKOUT, unpacked.group(1)}, key=len)
    return entered(root_dir(), out, see, ["make"] + words)


def build(words):
    """Run make with @words for a kernel; what it said is in the Problem if it fails.

    Variables that a make above this process was called with mean something else there.
    """
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    r = subprocess.run(command(words), check=False, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, env=env)
    if r.returncode:
        raise Problem("make failed:\n" + r.stdout.decode(errors="replace")[-4000:])


def make(words):
    """Become make; returns only by an exception."""
    line = command(words)
    sys.stdout.flush()
    os.execvp(line[0], line)
