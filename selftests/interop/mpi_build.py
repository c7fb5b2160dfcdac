# SPDX-License-Identifier: GPL-2.0
"""UCX, and OpenMPI's components for CUDA: Debian's source packages, built against our headers and libraries.

Debian builds neither with CUDA, because the toolkit is not free.  Here "the toolkit" is a directory with
include/ and lib64/ of this project.  The sources come from apt and are built in a root of Debian 13
(vmlib/chroot.py), without the parts that the tests do not need.  The results are in the cache
(vmlib/cache.py).  Its keys are made of all that the results depend on: the versions of the source and of the
root's packages, this script with its options, our headers and lists of symbols, and the files in UCX_SOURCE.

All of OpenMPI would take an hour to build.  What CUDA adds to it are five components, which Debian's libmpi of the
same version loads as plugins.

Some mirrors lack Debian 13's source of UCX, although their lists name it.  UCX_SOURCE names a directory with another
source of UCX.
"""
import glob
import hashlib
import os
import re
import shutil
import subprocess

from vmlib import Problem, apt, cache, chroot

HERE = os.path.dirname(os.path.realpath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
HEADERS = os.path.join(TOP, "libgpumem/include")
ABI = os.path.join(TOP, "libgpumem/abi")
PACKAGES = ("make", "gcc", "g++", "libc6-dev", "perl", "file", "autoconf", "automake", "libtool", "pkgconf",
            "flex", "libibverbs-dev", "librdmacm-dev", "libnuma-dev", "libhwloc-dev", "libevent-dev",
            "libpmix-dev", "zlib1g-dev")
UCX_OPTIONS = ("--disable-static", "--enable-mt", "--enable-cma", "--disable-logging", "--disable-debug",
               "--disable-assertions", "--disable-params-check", "--disable-doxygen-doc", "--with-verbs",
               "--with-rdmacm", "--without-mpi", "--without-go", "--without-java", "--without-rocm",
               "--without-gdrcopy", "--without-knem", "--without-xpmem", "--without-ugni",
               "--without-fuse3", "CFLAGS=-O1 -Wno-error",
               "CXXFLAGS=-O1 -Wno-error",
               # CUDA 12's name for the type, which CUDA 13 has with a version only.
               "CPPFLAGS=-DPFN_cuMemGetHandleForAddressRange=PFN_cuMemGetHandleForAddressRange_v11070")
# Static components are made of their own objects only; link() makes plugins of them.
OPENMPI_OPTIONS = ("--disable-static", "--enable-mpi-fortran=no", "--disable-oshmem", "--disable-io-romio",
                   "--disable-sphinx", "--disable-debug-symbols", "--with-prrte=no", "--with-pmix=external",
                   "--with-libevent=external", "--with-hwloc=external", "--with-ofi=no", "--with-psm2=no",
                   "--with-ucx=no", "--with-rocm=no", "--with-treematch=no", "--without-slurm",
                   "--enable-mca-static=accelerator-cuda,btl-smcuda,rcache-gpusm,rcache-rgpusm,coll-cuda",
                   "CFLAGS=-O1 -w")
COMPONENTS = ("opal/mca/accelerator/cuda", "opal/mca/btl/smcuda", "opal/mca/rcache/gpusm",
              "opal/mca/rcache/rgpusm", "ompi/mca/coll/cuda")
# Files that a release of OpenMPI brings, and that Debian's patches make look old: in order of dependence.
GENERATED = ("aclocal.m4", "*config.h.in", "configure", "Makefile.in")


def files(top):
    """The paths of all files below @top, except .git, in a fixed order."""
    for where, subs, names in os.walk(top):
        subs[:] = sorted(s for s in subs if s != ".git")
        for name in sorted(names + [s for s in subs if os.path.islink(os.path.join(where, s))]):
            if name != ".git":
                yield os.path.join(where, name)


def digest(*parts, source=None):
    """A key of @parts, of this script, of our headers and lists of symbols, and of the files below @source."""
    key = hashlib.sha256(repr(parts).encode())
    ours = [os.path.realpath(__file__)]
    ours += [p for p in files(HEADERS) if not os.path.basename(p).startswith("cufile")]
    ours += sorted(glob.glob(os.path.join(ABI, "*.txt")) + glob.glob(os.path.join(ABI, "*.map")))
    for top, paths in ((TOP, ours), (source, files(source) if source else ())):
        for path in paths:
            if os.path.islink(path):
                data = os.readlink(path).encode()
            else:
                with open(path, "rb") as f:
                    data = f.read()
            mode = os.lstat(path).st_mode & 0o170100
            key.update(repr((os.path.relpath(path, top), mode, len(data))).encode() + data)
    return key.hexdigest()[:12]


def replace(path, what, by):
    """Replace the matches of the expression @what in the file @path, which must have one."""
    with open(path, encoding="utf-8") as f:
        text, found = re.subn(what, by, f.read(), flags=re.M)
    if not found:
        raise Problem("%s has no match of %s" % (path, what))
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


class Missing(Problem):
    """There is no source to build."""


class Build:
    """The root, and how its commands run in a directory @tmp of the cache."""

    def __init__(self, build):
        self.build, self.root = build, chroot.root_dir(PACKAGES, "mpi-cuda")

    def toolkit(self, tmp):
        """What --with-cuda wants."""
        where = os.path.join(tmp, "toolkit")
        os.mkdir(where)
        os.symlink(HEADERS, os.path.join(where, "include"))
        os.symlink(os.path.join(self.build, "compat"), os.path.join(where, "lib64"))
        return where

    def run(self, tmp, tree, *words):
        """Run @words in @tree; the end of the output is in the Problem if they fail."""
        see = sorted({TOP, self.build}, key=len)
        log = os.path.join(tmp, "log")
        with open(log, "ab") as f:
            rc = subprocess.run(["nice", "-n", "15"] + chroot.entered(
                self.root, tmp, see, ["env", "-C", tree, "HOME=/tmp"] + list(words)), check=False,
                stdin=subprocess.DEVNULL, stdout=f, stderr=subprocess.STDOUT).returncode
        if rc:
            with open(log, encoding="utf-8", errors="replace") as f:
                text = "".join(f.readlines()[-30:])
            raise Problem("%s failed:\n%s" % (" ".join(words[:2]), text))

    def install(self, tmp, final, tree):
        """Build what is configured with the prefix @final/usr, and keep what it installs."""
        self.run(tmp, tree, "make", "-s", "-j%d" % len(os.sched_getaffinity(0)))
        self.run(tmp, tree, "make", "-s", "install", "DESTDIR=" + os.path.join(tmp, "dest"))
        os.rename(os.path.join(tmp, "dest") + os.path.join(final, "usr"), os.path.join(tmp, "usr"))
        self.clean(tmp)

    def clean(self, tmp):
        """Keep the results and the log."""
        for name in os.listdir(tmp):
            path = os.path.join(tmp, name)
            if name not in ("usr", "log"):
                (shutil.rmtree if os.path.isdir(path) and not os.path.islink(path) else os.unlink)(path)


def ucx_source():
    """(version, a function that puts the source below a directory and returns its tree) of UCX."""
    given = os.environ.get("UCX_SOURCE")
    if given:
        def copy(tmp):
            tree = os.path.join(tmp, "tree")
            shutil.copytree(given, tree, symlinks=True, ignore=shutil.ignore_patterns(".git"))
            return tree
        return given_version(given), copy
    sources = apt.Sources("trixie")
    return sources.version("ucx"), lambda tmp: sources.unpack("ucx", tmp)


def given_version(tree):
    """The version of UCX's own source in @tree."""
    try:
        with open(os.path.join(tree, "configure.ac"), encoding="utf-8") as f:
            text = f.read()
        return ".".join(re.search(r"define\(\[ucx_ver_%s\], *\[?(\d+)" % part, text).group(1)
                        for part in ("major", "minor", "patch"))
    except (OSError, AttributeError) as e:
        raise Problem("UCX_SOURCE=%s is not a source of UCX: %s" % (tree, e)) from e


def ucx(b):
    """(version, directory) of UCX; Missing if there is no source of it."""
    version, source = ucx_source()
    if not version:
        raise Missing("apt knows no source of UCX")
    key = "ucx_%s_%s" % (cache.safe(version), digest(version, b.root, source=os.environ.get("UCX_SOURCE")))

    def make(tmp, final):
        try:
            tree = source(tmp)
        except Problem as e:
            # Only a source that the mirror does not have is missing.  Another failure fails the run.
            if "Not Found" not in str(e):
                raise
            raise Missing("the source of UCX %s cannot be had: %s" % (version, str(e).split("\n")[0])) from e
        cache.note("building UCX %s with CUDA: up to 20 minutes ..." % version)
        if not os.path.exists(os.path.join(tree, "configure")):
            b.run(tmp, tree, "sh", "./autogen.sh")
        b.run(tmp, tree, "./configure", "--prefix=" + os.path.join(final, "usr"),
              "--with-cuda=" + b.toolkit(tmp), *UCX_OPTIONS)
        # Its tests are written for CUDA 12.
        replace(os.path.join(tree, "Makefile"), r"\btest/apps\b", "")
        b.install(tmp, final, tree)

    return version, os.path.join(cache.make_entry("mpi-cuda", key, make), "usr")


def link(b, tmp, tree, component, where):
    """Make the plugin of a component in the directory @where."""
    name = "mca_" + "_".join(component.split("/")[2:])
    objects = sorted(glob.glob(os.path.join(glob.escape(os.path.join(tree, component)), ".libs/*.o")))
    b.run(tmp, tree, "gcc", "-shared", "-o", os.path.join(where, name + ".so"), *objects,
          "-L" + os.path.join(b.build, "compat"), "-lcuda")


def openmpi(b):
    """(version, directory) of OpenMPI's components for CUDA."""
    sources = apt.Sources("trixie")
    version = sources.version("openmpi")
    if not version:
        raise Problem("apt knows no source of OpenMPI")
    key = "openmpi_%s_%s" % (cache.safe(version), digest(version, b.root))

    def make(tmp, _):
        cache.note("building OpenMPI's components for CUDA %s: some minutes ..." % version)
        tree, where = sources.unpack("openmpi", tmp), os.path.join(tmp, "usr")
        for name in GENERATED:
            for path in glob.glob(os.path.join(glob.escape(tree), "**", name), recursive=True):
                os.utime(path)
        b.run(tmp, tree, "./configure", "--with-cuda=" + b.toolkit(tmp), *OPENMPI_OPTIONS)
        # Debian's library has structures without the members for GPUDirect RDMA.
        replace(os.path.join(tree, "opal/include/opal_config.h"), "^#define OPAL_CUDA_GDR_SUPPORT .*",
                "#define OPAL_CUDA_GDR_SUPPORT 0")
        os.mkdir(where)
        for component in COMPONENTS:
            b.run(tmp, tree, "make", "-s", "-j%d" % len(os.sched_getaffinity(0)), "-C", component)
            link(b, tmp, tree, component, where)
        b.clean(tmp)

    return version, os.path.join(cache.make_entry("mpi-cuda", key, make), "usr")
