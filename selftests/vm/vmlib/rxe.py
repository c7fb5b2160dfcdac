# SPDX-License-Identifier: GPL-2.0
"""The distribution's soft-RoCE with our patch, built as a module for a test kernel.

The kernel's rxe has no ibv_reg_dmabuf_mr(), its on-demand paging copies to wrong places, and it may
access a queue pair after it is freed.  selftests/rdma/rxe-*.patch add the first and mend the others.
"""
import glob
import hashlib
import os
import re
import subprocess

from . import Problem, apt, chroot
from .cache import cache_dir, make_entry, note, safe
from .kernels import KERNELS, extract_source, find_source

SUBDIR = "drivers/infiniband/sw/rxe"
PATCHES = os.path.join(chroot.CHECKOUT, "selftests/rdma/rxe-%s.patch")


def module(kernel):
    """The path of rdma_rxe.ko for @kernel; None for a kernel that has no rxe."""
    series = re.match(r"\d+\.\d+", kernel.version).group()
    patch = PATCHES % series
    if "-cloud" in kernel.version or not os.path.exists(patch):
        return None
    with open(patch, "rb") as f:
        key = "%s_%s" % (os.path.basename(kernel.path), hashlib.sha256(f.read()).hexdigest()[:12])
    try:
        view = getattr(KERNELS.get(kernel.name), "apt", apt.HOST)
        package = "linux-source-" + series
        source = find_source() if view is apt.HOST else (package, view.field(package, "Version"))
    except Problem as e:
        note(str(e))
        source = None
    if not source or not source[1]:
        # Without package lists use the newest cached module.
        old = glob.glob(os.path.join(cache_dir(), "rxe", glob.escape(key) + "_*"))
        if old:
            return os.path.join(max(old, key=os.path.getmtime), "rdma_rxe.ko")
        raise Problem("no package with the sources of %s: apt-get update" % kernel.version)

    def build(tmp, _):
        note("building soft-RoCE with %s ..." % os.path.basename(patch))
        extract_source(source[0], tmp, tmp, SUBDIR, view=view)
        r = subprocess.run(["patch", "-s", "-p1", "-d", tmp, "-i", patch], check=False,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if r.returncode:
            raise Problem("patch failed:\n" + r.stdout.decode(errors="replace")[-4000:])
        chroot.build(["-s", "-C", kernel.kdir, "M=" + os.path.join(tmp, SUBDIR),
                      "CONFIG_RDMA_RXE=m", "modules"])
        os.rename(os.path.join(tmp, SUBDIR, "rdma_rxe.ko"), os.path.join(tmp, "rdma_rxe.ko"))

    return os.path.join(make_entry("rxe", "%s_%s" % (key, safe(source[1])), build), "rdma_rxe.ko")
