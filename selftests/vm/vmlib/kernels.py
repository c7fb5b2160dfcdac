# SPDX-License-Identifier: GPL-2.0
"""The table of test kernels.

A kernel is a directory of the cache:

  vmlinuz    the image to boot
  modules    lib/modules/RELEASE of that kernel, with modules.dep
  build      the tree that external modules are built against (KDIR)
  version    one line: the kernel's release, as uname -r tells it
  vmlinux    what vmlinuz unpacks, if QEMU can boot it (unpack_image()); made when first wanted

A kernel of another release of the distribution is fetched through apt.View, and where its build
tree's tools do not run here, chroot.py has a place where they do: "kernel --make" is make there.
"""
import argparse
import contextlib
import glob
import hashlib
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

from . import Problem, apt, chroot
from .cache import cache_dir, make_entry, note, safe


class Packaged:
    """A distribution's binary kernel, unpacked.

    @metas: packages that depend on the newest linux-headers-RELEASE, tried in order.
    @series: what that release must begin with.
    """

    apt = apt.HOST

    def __init__(self, what, series, *metas):
        self.what, self.series, self.metas = what, series, metas

    def newest(self):
        """(release, package version) of the newest kernel that apt offers, or None."""
        for meta in self.metas:
            m = re.search(r"linux-headers-(\d[^ ,]*) \(= ([^)]+)\)",
                          self.apt.field(meta, "Depends") or "")
            if m and m.group(1).startswith(self.series):
                return m.groups()
        return None

    def find(self, name):
        try:
            new = self.newest()
        except Problem as e:
            note(str(e))
            new = None
        if new is None:
            # Without package lists use the newest cached kernel.
            old = glob.glob(os.path.join(cache_dir(), "kernels", glob.escape(name) + "_*"))
            if old:
                return max(old, key=os.path.getmtime)
            raise Problem("no package for kernel %s (%s): apt-get update, or name another kernel"
                          % (name, " or ".join(self.metas)))
        return make_entry("kernels", "%s_%s" % (name, safe(new[1])),
                          lambda tmp, final: self.build(new[0], tmp, final))

    def build(self, release, tmp, final):
        base, flavour = re.match(r"(.*?)((?:-cloud)?-\w+)$", release).groups()
        packages = ["linux-headers-" + release, "linux-headers-%s-common" % base,
                    "linux-kbuild-" + base]
        if self.apt.field("linux-modules-" + release, "Version"):
            # Since 6.17 or so the image package is split in three.
            packages += ["linux-binary-" + release, "linux-modules-" + release,
                         "linux-base-" + release]
        else:
            packages += ["linux-image-" + release]
        note("fetching kernel %s%s ..." % (base, flavour))
        with tempfile.TemporaryDirectory(dir=os.path.dirname(final)) as debs:
            self.apt.download(packages, debs)
            apt.unpack(debs, tmp)
        headers = os.path.join("usr/src", "linux-headers-" + release)
        makefile = os.path.join(tmp, headers, "Makefile")
        with open(makefile, encoding="utf-8") as f:
            text = f.read()
        with open(makefile, "w", encoding="utf-8") as f:
            f.write(re.sub(r"^(include |KBUILD_OUTPUT=)/usr/src/", r"\1%s/usr/src/" % final, text,
                           flags=re.M))
        # With C=1 kbuild runs a script that some packages lack.
        scripts = os.path.join(tmp, headers, "scripts")
        valid = os.path.join(scripts, "checker-valid.sh")
        if not os.path.exists(valid):
            with open(valid, "w", encoding="ascii") as f:
                f.write('#!/bin/sh\ncommand -v "$1" >/dev/null && echo 1\n')
            os.chmod(valid, 0o755)
        # kbuild makes BTF for modules where this file exists and fails where pahole does not.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(tmp, headers, "vmlinux"))
        for sub in ("lib/modules", "usr/lib/modules"):
            if os.path.isdir(os.path.join(tmp, sub, release, "kernel")):
                modules = os.path.join(sub, release)
                break
        else:
            raise Problem("the packages of %s hold no modules" % release)
        for image in ("boot/vmlinuz-" + release, os.path.join(modules, "vmlinuz")):
            if os.path.exists(os.path.join(tmp, image)):
                break
        else:
            raise Problem("the packages of %s hold no image" % release)
        finish(tmp, release, image, modules, headers)


class Backported(Packaged):
    """The same from trixie's backports, whose metas follow the newest series only.

    @series: what the release begins with.  @flavour: what it ends in.
    """

    apt = apt.TRIXIE

    def __init__(self, what, series, flavour):
        super().__init__(what, series, "linux-headers-%s*%s" % (series, flavour))
        self.flavour = flavour

    def newest(self):
        prefix, best = "linux-headers-", None
        for name in self.apt.names(prefix + self.series):
            m = re.match(r"%s((\d+(?:\.\d+)+)\+deb\d+-%s)$" % (prefix, self.flavour), name)
            if m:
                best = max(best or ([],), ([int(n) for n in m.group(2).split(".")], m.group(1)))
        version = best and self.apt.field(prefix + best[1], "Version")
        return (best[1], version) if version else None


# Packages of the kernel's sources; the first that apt knows is taken.
SOURCES = ("linux-source-6.12", "linux-source")


def find_source(packages=SOURCES, view=apt.HOST):
    """(package, version) of the newest kernel sources that apt offers, or None."""
    for package in packages:
        m = re.search(r"(linux-source-\d[\d.]*) \(= ([^)]+)\)", view.field(package, "Depends") or "")
        if m:
            return m.groups()
        version = view.field(package, "Version")
        if version:
            return package, version
    return None


def extract_source(package, where, tmp, *members, view=apt.HOST):
    """Unpack the sources of @package into the directory @where, or only @members of them."""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(tmp)) as debs:
        view.download([package], debs)
        apt.unpack(debs, debs)
        archive = glob.glob(os.path.join(debs, "usr/src/linux-source-*.tar.xz"))
        if not archive:
            raise Problem("%s holds no sources" % package)
        subprocess.run(["tar", "-C", where, "--strip-components=1", "--wildcards", "-xJf",
                        archive[0]] + ["*/" + m for m in members], check=True)


class Built:
    """A kernel built from the distribution's sources, with configuration fragments of our own.

    @fragments: files of the directory config/, later ones prevail; comments that begin with "make:"
    are words for make.
    @sources, @view: the packages of find_source().
    """

    NEEDS = {"flex": "flex", "bison": "bison", "bc": "bc", "make": "make", "gcc": "gcc"}
    HEADERS = {"/usr/include/gelf.h": "libelf-dev", "/usr/include/openssl/bio.h": "libssl-dev"}

    def __init__(self, what, *fragments, sources=SOURCES, view=apt.HOST):
        self.what, self.sources, self.apt = what, sources, view
        base = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "config")
        self.fragments = [os.path.join(base, f) for f in fragments]

    def find(self, name):
        source = find_source(self.sources, self.apt)
        if source is None:
            old = glob.glob(os.path.join(cache_dir(), "kernels", glob.escape(name) + "_*"))
            if old:
                return max(old, key=os.path.getmtime)
            raise Problem("no package with the kernel's sources: apt-get update")
        digest = hashlib.sha256()
        for f in self.fragments:
            with open(f, "rb") as data:
                lines = re.findall(rb"^(?:(?:# )?CONFIG_|# make:).*(?:\n|\Z)", data.read(), re.M)
            digest.update(b"".join(lines))
        key = "%s_%s_%s" % (name, safe(source[1]), digest.hexdigest()[:12])
        return make_entry("kernels", key, lambda tmp, final: self.build(source, tmp, final))

    def build(self, source, tmp, final):
        missing = [p for t, p in self.NEEDS.items() if not shutil.which(t)]
        missing += [p for h, p in self.HEADERS.items() if not os.path.exists(h)]
        if missing:
            raise Problem("missing packages: apt-get install " + " ".join(missing))
        note("building %s from %s: ten minutes or more on two processors ..."
             % (os.path.basename(final), " ".join(source)))
        tree = os.path.join(tmp, "source")
        os.mkdir(tree)
        extract_source(source[0], tree, tmp, view=self.apt)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
        env.update(KBUILD_BUILD_TIMESTAMP="1970-01-01", KBUILD_BUILD_USER="gpumem",
                   KBUILD_BUILD_HOST="gpumem", LC_ALL="C")

        def make(*words):
            # Run at the same nice value as the guests: the slowest step waits for this build.
            r = subprocess.run(["make", "-s", "-C", tree, "-j%d" % len(os.sched_getaffinity(0))]
                               + list(words), env=env, check=False, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
            text = r.stdout.decode(errors="replace")
            if r.returncode:
                sys.stderr.write(text[-4000:])
                raise Problem("make %s failed" % " ".join(words))
            return text

        words = []
        with open(os.path.join(tree, ".config"), "wb") as out:
            for f in self.fragments:
                with open(f, "rb") as data:
                    text = data.read()
                out.write(text + b"\n")
                words += b" ".join(re.findall(rb"^# make:(.*)", text, re.M)).decode().split()
        # A later line of the file prevails; an option that no line names is off.
        os.rename(os.path.join(tree, ".config"), os.path.join(tree, "all.config"))
        env["KCONFIG_ALLCONFIG"] = os.path.join(tree, "all.config")
        make("allnoconfig")
        del env["KCONFIG_ALLCONFIG"]
        make("bzImage", "modules", *words)
        release = make("kernelrelease").strip().split("\n")[-1]
        make("modules_install", "INSTALL_MOD_PATH=" + tmp, "INSTALL_MOD_STRIP=1", "DEPMOD=true")
        headers = os.path.join("usr/src", "linux-headers-" + release)
        make("run-command", "KBUILD_RUN_COMMAND=+$(srctree)/scripts/package/install-extmod-build "
             + os.path.join(tmp, headers))
        shutil.copy(os.path.join(tree, "arch/x86/boot/bzImage"), os.path.join(tmp, "bzImage"))
        shutil.copy(os.path.join(tree, ".config"), os.path.join(tmp, "config"))
        modules = os.path.join("lib/modules", release)
        for link in ("build", "source"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(tmp, modules, link))
        shutil.rmtree(tree)
        finish(tmp, release, "bzImage", modules, headers)


def finish(tmp, release, image, modules, build):
    """Give a kernel below @tmp its four well-known names."""
    root = os.path.join(tmp, modules[:-len("lib/modules/" + release)])
    depmod = shutil.which("depmod", path="/usr/sbin:/sbin:" + os.environ.get("PATH", ""))
    if not depmod:
        raise Problem("depmod is missing: apt-get install kmod")
    subprocess.run([depmod, "-b", root, release], check=True, stderr=subprocess.DEVNULL)
    for link, to in (("vmlinuz", image), ("modules", modules), ("build", build)):
        os.symlink(to, os.path.join(tmp, link))
    with open(os.path.join(tmp, "version"), "w", encoding="ascii") as f:
        f.write(release + "\n")


DEFAULT = "6.12"

KERNELS = {
    "6.12": Packaged("the distribution's 6.12", "6.12.",
                     "linux-headers-6.12-amd64", "linux-headers-amd64"),
    "6.12-cloud": Packaged("the same for cloud machines: no DRM, few drivers", "6.12.",
                           "linux-headers-6.12-cloud-amd64", "linux-headers-cloud-amd64"),
    "7.2": Backported("7.2 of trixie's backports", "7.2.", "amd64"),
    "7.2-cloud": Backported("the same for cloud machines", "7.2.", "cloud-amd64"),
    "debug": Built("6.12 with KASAN, lockdep, kmemleak, fault injection ...", "debug.config"),
    "debug-kcsan": Built("6.12 with KCSAN", "debug.config", "debug-kcsan.config"),
    "debug-7.2": Built("7.2 with the options of debug, and the dmem controller", "debug.config",
                       sources=("linux-source-7.2",), view=apt.TRIXIE),
}


def unpack_image(image, path):
    """Write the ELF file in a bzImage to @path: empty, if QEMU cannot enter it or there is none.

    The places are told by Documentation/arch/x86/boot.rst of the kernel; that it has the PVH entry,
    by a note of Xen's (XEN_ELFNOTE_PHYS32_ENTRY).
    """
    with open(image, "rb") as f:
        data = f.read()
    elf = b""
    if data[0x202:0x206] == b"HdrS":
        offset, length = struct.unpack_from("<II", data, 0x248)
        offset += 512 * ((data[0x1f1] or 4) + 1)
        payload = data[offset:offset + length]
        if payload.startswith(b"\x28\xb5\x2f\xfd"):
            elf = subprocess.run(["zstd", "-dcq"], input=payload[:-4], check=False,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
            if struct.pack("<I", len(elf)) != payload[-4:]:
                raise Problem("zstd does not unpack %s" % image)
    if not any(struct.pack("<III", 4, size, 18) + b"Xen\0" in elf for size in (4, 8)):
        elf = b""
    with open(path, "wb") as f:
        f.write(elf)


class Kernel:
    """One usable kernel."""

    def __init__(self, name, path):
        self.name, self.path = name, path
        self.image = os.path.realpath(os.path.join(path, "vmlinuz"))
        self.modules = os.path.realpath(os.path.join(path, "modules"))
        self.kdir = os.path.realpath(os.path.join(path, "build"))
        with open(os.path.join(path, "version"), encoding="ascii") as f:
            self.version = f.read().strip()

    def plain_image(self):
        """An image that need not unpack itself, which takes seconds without KVM; or any."""
        path = os.path.join(self.path, "vmlinux")
        # Only in the cache do vmlinux and the image certainly belong together.
        if not self.path.startswith(os.path.join(cache_dir(), "")):
            return self.image
        if not os.path.exists(path):
            try:
                with tempfile.TemporaryDirectory(dir=self.path) as tmp:
                    unpack_image(self.image, os.path.join(tmp, "vmlinux"))
                    os.rename(os.path.join(tmp, "vmlinux"), path)
            except (OSError, Problem):
                return self.image
        return path if os.path.getsize(path) else self.image


# Files that are taken from the kernel's sources as they are, flat into one directory.
FROM_SOURCE = ("tools/testing/selftests/kselftest.h", "tools/testing/selftests/kselftest_harness.h",
               "scripts/checkpatch.pl", "scripts/spelling.txt", "scripts/const_structs.checkpatch",
               "scripts/kernel-doc")


def kselftest():
    """A directory with kselftest's headers and the kernel's style checkers."""
    source = find_source()
    if source is None:
        old = glob.glob(os.path.join(cache_dir(), "kselftest", "linux-source*"))
        if old:
            return max(old, key=os.path.getmtime)
        raise Problem("no package with the kernel's sources: apt-get update")

    def build(tmp, _):
        note("fetching kselftest's headers from %s ..." % source[0])
        tree = os.path.join(tmp, "source")
        os.mkdir(tree)
        extract_source(source[0], tree, tmp, *FROM_SOURCE)
        for path in FROM_SOURCE:
            os.rename(os.path.join(tree, path), os.path.join(tmp, os.path.basename(path)))
        shutil.rmtree(tree)

    return make_entry("kselftest", "%s_%s" % (source[0], safe(source[1])), build)


def module_note(kernel):
    """What .built-for beside a module for @kernel says, and the variables for make that the module
    is built with: it tells KCOV where the kernel has that, and it has delay points where the kernel
    is a debug build, which is one with CONFIG_PROVE_LOCKING.  GPUMEM_KCOV=1 and GPUMEM_DELAY=1 in the
    environment ask for them: KCOV only where the kernel has it, delay points on any kernel."""
    with open(os.path.join(kernel.kdir, "include/config/auto.conf"), encoding="ascii") as f:
        config = set(f)
    variables = [v + "=1" for option, v in (("KCOV", "GPUMEM_KCOV"), ("PROVE_LOCKING", "GPUMEM_DELAY"))
                 if "CONFIG_%s=y\n" % option in config or (option != "KCOV" and os.environ.get(v))]
    return " ".join([os.path.realpath(kernel.kdir)] + variables) + "\n", variables


def get(name):
    """The kernel called @name: one of the table, or a directory of the form told above."""
    if "/" in name:
        if not os.path.exists(os.path.join(name, "version")):
            raise Problem("%s is no kernel directory (no file 'version')" % name)
        return Kernel(name, os.path.abspath(name))
    if name not in KERNELS:
        raise Problem("no kernel is called %s; there are: %s" % (name, " ".join(KERNELS)))
    return Kernel(name, KERNELS[name].find(name))


def main(argv, test_modules):
    """The program "kernel".  @test_modules: what --test-modules prints for a Kernel, as lines."""
    if argv[:1] == ["--make"]:
        try:
            chroot.make(argv[1:])
        except (Problem, OSError) as e:
            note(str(e))
        return 125
    ap = argparse.ArgumentParser(prog="kernel", description="Resolve the name of a test kernel, "
                                 "fetching it into the cache when absent.")
    what = ap.add_mutually_exclusive_group()
    for opt, text in (("path", "its directory (default)"), ("kdir", "KDIR for module builds"),
                      ("version", "its release"), ("list", "the names there are"),
                      ("test-modules", "variables that name the modules that tests load"),
                      ("kselftest", "no kernel: a directory with kselftest.h, checkpatch.pl")):
        what.add_argument("--" + opt, action="store_const", const=opt, dest="what", help=text)
    ap.add_argument("name", nargs="?", default=DEFAULT, help="default: %(default)s")
    o = ap.parse_args(argv)
    if o.what == "list":
        for name, k in KERNELS.items():
            print("%-12s %s" % (name, k.what))
        return 0
    try:
        if o.what == "kselftest":
            print(kselftest())
            return 0
        if o.what == "test-modules":
            print("\n".join(test_modules(get(o.name))))
            return 0
        print(getattr(get(o.name), o.what or "path"))
    except Problem as e:
        note(str(e))
        return 125
    return 0
