# SPDX-License-Identifier: GPL-2.0
"""A root disk of another release, for programs that this machine's release lacks.

The packages, and all that they depend on, are downloaded and unpacked; nothing is installed and no
script of a package runs.  The result is a file system in one file, in the cache.  A guest gets it as
its first disk (guest_options) and changes root into it with selftests/interop/enter_disk, where
the checkout and the build lie at their own places.  This needs no root rights.
"""
import glob
import hashlib
import os
import re
import subprocess

from . import Problem, apt
from .cache import make_entry, note

# Debian 13 with the areas that CUDA's clients are in.  Drivers are ours, and cuDNN is a package that
# downloads it.
CLIENTS = apt.View("trixie-clients", "trixie", parts="main contrib non-free",
                   pretended=("libcuda1", "libnvidia-ml1", "nvidia-cudnn", "nvidia-cuda-dev"))

# Compile the Python modules of the root with the root's own Python: importing them takes minutes
# in a guest without KVM otherwise.
COMPILE = ["-m", "compileall", "-q", "-j0", "--invalidation-mode", "unchecked-hash"]


def in_root(root, *words):
    """A command line that runs a program of @root with the libraries of @root."""
    loader = os.path.join(root, "usr/lib64/ld-linux-x86-64.so.2")
    libraries = os.path.join(root, "usr/lib/x86_64-linux-gnu")
    return [loader, "--library-path", libraries, os.path.join(root, words[0])] + list(words[1:])


def stand_in(root, name, prefix):
    """Make the library @name with the functions PREFIX* that libraries of @root want.

    Each function returns 1, which is an error.
    """
    where = os.path.join(root, "usr/lib/x86_64-linux-gnu")
    wanted = set()
    for library in glob.glob(os.path.join(where, "*.so*")):
        if os.path.isfile(library) and not os.path.islink(library):
            r = subprocess.run(["nm", "-D", "--undefined-only", library], check=False,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            wanted.update(re.findall(r" U (%s\w+)" % prefix, r.stdout.decode()))
    source = "".join("int %s(void) { return 1; }\n" % w for w in sorted(wanted))
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-Wl,-soname," + name,
                    "-o", os.path.join(where, name)], input=source.encode(), check=True)


def finish(root, alternatives, stand_ins):
    """What the scripts of the packages would have done: links, the linker's cache, Python's."""
    for link, target in alternatives:
        path = os.path.join(root, link)
        if not os.path.lexists(path):
            os.symlink(target, path)
    for name, prefix in stand_ins:
        stand_in(root, name, prefix)
    subprocess.run(["ldconfig", "-r", root], check=True)
    for python in glob.glob(os.path.join(root, "usr/bin/python3.[0-9]*[0-9]")):
        modules = [d for d in glob.glob(os.path.join(root, "usr/lib/python3*")) if os.path.isdir(d)]
        # Some packages ship files for other versions of Python, which do not compile.
        subprocess.run(in_root(root, os.path.relpath(python, root)) + COMPILE
                       + ["-s", root, "-p", "/"] + modules, check=False,
                       env=dict(os.environ, PYTHONHOME=os.path.join(root, "usr")),
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make(name, view, packages, alternatives=(), stand_ins=()):
    """The path of a disk with @packages of @view; made when absent.

    @alternatives: (link, target) pairs below the root, which update-alternatives would make.
    @stand_ins: (library, prefix) pairs of libraries that no package has, and that are only linked.
    """
    wanted = view.closure(packages)
    made_of = repr((wanted, alternatives, stand_ins)).encode()
    key = "%s_%s" % (name, hashlib.sha256(made_of).hexdigest()[:12])

    def build(tmp, _):
        note("making the disk %s of %d packages: some minutes ..." % (name, len(wanted)))
        debs, root = os.path.join(tmp, "debs"), os.path.join(tmp, "root")
        os.mkdir(debs)
        os.mkdir(root)
        view.download(wanted, debs)
        # It makes the links /bin, /lib and so on, which must be there before the others' files.
        first = glob.glob(os.path.join(debs, "base-files_*.deb"))
        if not first:
            raise Problem("the packages of the disk %s do not bring base-files" % name)
        for deb in first + sorted(set(glob.glob(os.path.join(debs, "*.deb"))) - set(first)):
            subprocess.run(["dpkg-deb", "-x", deb, root], check=True)
            os.unlink(deb)
        finish(root, alternatives, stand_ins)
        used = int(subprocess.run(["du", "-sm", root], check=True, stdout=subprocess.PIPE
                                  ).stdout.split()[0])
        subprocess.run(["mke2fs", "-q", "-t", "ext4", "-m", "0", "-O", "^has_journal",
                        "-E", "root_owner=0:0", "-d", root, os.path.join(tmp, "disk"),
                        "%dM" % (used * 11 // 10 + 64)], check=True)
        subprocess.run(["rm", "-r", root, debs], check=True)

    return os.path.join(make_entry("disks", key, build), "disk")


def copy_out(path, source, dest):
    """Copy the file @source of the disk @path to @dest, or the directory @source into @dest."""
    with open(os.devnull, "wb") as null:
        what = subprocess.run(["debugfs", "-R", "stat " + source, path], check=True,
                              stdout=subprocess.PIPE, stderr=null).stdout.decode()
        command = "rdump" if "Type: directory" in what else "dump"
        if "Type:" not in what:
            raise Problem("%s has no %s" % (path, source))
        subprocess.run(["debugfs", "-R", "%s %s %s" % (command, source, dest), path], check=True,
                       stdout=null, stderr=null)


def guest_options(path):
    """Options of selftests/vm/run: the disk @path is the guest's first one, which is read-only."""
    return ["--load", "virtio_blk", "--load", "ext4", "--qemu-arg",
            "-drive file=%s,format=raw,if=virtio,readonly=on" % path.replace(",", ",,")]
