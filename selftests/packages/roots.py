# SPDX-License-Identifier: GPL-2.0
"""Roots of Debian releases, in which packages are built and installed.

A root without kernels is made by mmdebstrap once, for the cache of selftests/vm.  A test runs in a
copy of it, which it may change.  Only root can change root.
"""
import glob
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "selftests/vm"))

from vmlib import Problem, apt  # noqa: E402
from vmlib.cache import make_entry, note  # noqa: E402

PACKAGES = ["dkms", "debhelper", "dh-dkms", "ca-certificates", "openssl"]
# What the packages are made of.
SOURCES = ("Documentation", "Kbuild", "LICENSES", "Makefile", "README.md", "debian", "dkms.conf", "examples", "kmod",
           "libgpumem", "selftests/vm/vmlib", "tools", "uapi")

# Arguments: the root, the command.
ENTER = r"""set -eu
root=$1
shift
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
exec chroot "$root" "$@"
"""


class Release(apt.View):
    """A release of Debian.  @suites: (what follows the mirror's address, the suite); @title: its name in words."""

    def __init__(self, name, title, *suites):
        super().__init__("packages-" + name, *[suite for _, suite in suites])
        self.codename, self.title, self.places = name, title, suites

    def sources(self):
        site, key = apt.mirror()
        option = "[signed-by=%s] " % key if key else ""
        return ["deb %s%s%s %s main" % (option, site.rstrip("/"), more, suite) for more, suite in self.places]

    def base(self):
        """An archive of a root with DKMS and no kernel; made when absent."""
        versions = [(p, self.field(p, "Version")) for p in PACKAGES]

        def build(tmp, _):
            if not shutil.which("mmdebstrap"):
                raise Problem("mmdebstrap is missing: tools/install-deps --matrix")
            note("making a root of %s: some minutes ..." % self.title)
            # Mirrors may be weeks behind with testing, whose lists expire.  Nothing from a root leaves it.
            subprocess.run(["mmdebstrap", "--quiet", "--variant=apt", "--aptopt=APT::Install-Recommends false",
                            "--aptopt=Acquire::Check-Valid-Until false",
                            "--include=" + ",".join(PACKAGES), self.codename, os.path.join(tmp, "root.tar")] +
                           self.sources(), check=True)

        key = "%s-dkms_%s" % (self.codename, hashlib.sha256(repr(versions).encode()).hexdigest()[:12])
        return os.path.join(make_entry("roots", key, build), "root.tar")


# Debian 12's security archive has both of its kernels; the mirror has it beside the release.
RELEASES = {
    "bookworm": Release("bookworm", "Debian 12", ("", "bookworm"), ("-security", "bookworm-security")),
    "trixie": Release("trixie", "Debian 13", ("", "trixie")),
    "testing": Release("testing", "Debian testing", ("", "testing")),
}


class Root:
    """A scratch root, and what the last command in it printed."""

    def __init__(self, path, release):
        self.path, self.log = path, ""
        subprocess.run(["tar", "-C", path, "--exclude=./dev/*", "-xf", release.base()], check=True)
        shutil.copy("/etc/resolv.conf", os.path.join(path, "etc"))
        # No daemon starts.
        with open(os.path.join(path, "usr/sbin/policy-rc.d"), "w", encoding="ascii") as f:
            f.write("#!/bin/sh\nexit 101\n")
            os.fchmod(f.fileno(), 0o755)

    def run(self, *words):
        """The exit status of a command in the root; its output is in log."""
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "HOME": "/root",
               "DEBIAN_FRONTEND": "noninteractive"}
        r = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
                            ENTER, "sh", self.path] + list(words),
                           check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, env=env)
        self.log = "$ %s\n%s" % (" ".join(words), r.stdout.decode(errors="replace"))
        return r.returncode

    def apt(self, *words):
        return self.run("apt-get", "-y", "-q", *words)

    def modules(self):
        """The kernels that have gpumem.ko."""
        found = glob.glob(os.path.join(self.path, "lib/modules/*/updates/dkms/gpumem.ko*"))
        return sorted(p.split("/lib/modules/")[1].split("/")[0] for p in found)

    def kernels(self):
        """The kernels that have headers."""
        return sorted(p.split("/")[-2] for p in glob.glob(
            os.path.join(self.path, "lib/modules/*/build")))

    def sources(self):
        """Copy the sources of the packages into the root; the directory's name there."""
        where = os.path.join(self.path, "src/gpumem")
        os.makedirs(where)
        for name in SOURCES:
            source = os.path.join(TOP, name)
            if os.path.isdir(source):
                shutil.copytree(source, os.path.join(where, name), symlinks=True,
                                ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, where)
        return "/src/gpumem"


def main(names, make_steps, release, keep):
    """Run the steps @names of the object that make_steps(root) makes, in a root of @release; (passed, failed)."""
    passed = 0
    where = tempfile.mkdtemp(prefix="gpumem-packages.", dir="/var/tmp")
    try:
        os.chmod(where, 0o755)
        root = Root(where, release)
        steps = make_steps(root)
        for name in names:
            if not getattr(steps, name)():
                print("not ok - %s: %s" % (release.title, name))
                print("# kernels: %s; with the module: %s" % (root.kernels(), root.modules()))
                print("".join("# %s\n" % line for line in root.log.split("\n")[-60:]), end="", flush=True)
                break
            passed += 1
            print("ok - %s: %s" % (release.title, name), flush=True)
    except (Problem, OSError, subprocess.CalledProcessError) as e:
        print("not ok - %s: %s" % (release.title, e), flush=True)
    finally:
        if keep:
            note("kept: " + where)
        else:
            shutil.rmtree(where, ignore_errors=True)
    # A step that did not run failed.
    return passed, len(names) - passed
