# SPDX-License-Identifier: GPL-2.0
"""The pair of test network devices (selftests/net/nic.c), built as a module for a test kernel."""
import glob
import hashlib
import os
import shutil

from . import chroot
from .cache import make_entry, note

SOURCES = os.path.join(chroot.CHECKOUT, "selftests/net")


def module(kernel):
    """The path of gpumem_nic.ko for @kernel."""
    names = sorted(glob.glob(os.path.join(SOURCES, "nic*.[ch]")))
    # What the tests include is no part of the module.
    names = [n for n in names if not n.endswith("_util.h")]
    digest = hashlib.sha256()
    for name in names:
        with open(name, "rb") as f:
            digest.update(f.read())

    def build(tmp, _):
        note("building the test network devices for %s ..." % kernel.version)
        for name in names:
            shutil.copy(name, tmp)
        with open(os.path.join(tmp, "Kbuild"), "w", encoding="ascii") as f:
            f.write("obj-m := gpumem_nic.o\ngpumem_nic-y := nic.o\n")
        chroot.build(["-s", "-C", kernel.kdir, "M=" + tmp, "modules"])

    key = "%s_%s" % (os.path.basename(kernel.path), digest.hexdigest()[:12])
    return os.path.join(make_entry("nic", key, build), "gpumem_nic.ko")
