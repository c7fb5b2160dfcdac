#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Check what decides on the cases of selftests/interop/mpi, without a virtual machine.

  mpi_check.py

- The key of a cached UCX and OpenMPI changes with all that they are made of, and a replacement that matches
  nothing is a failure (mpi_build.py).
- Each ucx_perftest has a port of its own, and one that must register DMA-bufs fails where a side registered none
  (mpi_cuda_guest.py).
- The libraries that are preloaded report what happened, and nothing else (mpi_dmabuf.c, mpi_ipc.c).
"""
import contextlib
import importlib.util
import io
import os
import shutil
import subprocess
import sys
import tempfile
import types

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
INTEROP = os.path.join(TOP, "selftests/interop")
sys.path[:0] = [INTEROP, os.path.join(TOP, "selftests/vm")]

import mpi_cuda_guest  # noqa: E402
from vmlib import Problem  # noqa: E402


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(path, mode)


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def script(tree):
    """mpi_build.py of the copy @tree, which finds the sources of OpenMPI and builds nothing."""
    path = os.path.join(tree, "selftests/interop/mpi_build.py")
    spec = importlib.util.spec_from_file_location("mpi_build_copy", path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    found.apt = types.SimpleNamespace(Sources=lambda release: types.SimpleNamespace(version=lambda package: "1.0-1"))
    found.cache = types.SimpleNamespace(safe=lambda text: text, make_entry=lambda kind, key, make: key)
    return found


def keys(tree, root="root_1"):
    """(key of UCX, key of OpenMPI)."""
    found = script(tree)
    b = types.SimpleNamespace(root=root)
    return found.ucx(b)[1], found.openmpi(b)[1]


def check_keys(work):
    tree, source = os.path.join(work, "tree"), os.path.join(work, "ucx")
    for sub in ("selftests/interop", "libgpumem/include", "libgpumem/abi"):
        os.makedirs(os.path.join(tree, sub))
    build = os.path.join(tree, "selftests/interop/mpi_build.py")
    header, symbols = os.path.join(tree, "libgpumem/include/a.h"), os.path.join(tree, "libgpumem/abi/symbols.txt")
    shutil.copy(os.path.join(INTEROP, "mpi_build.py"), build)
    write(header, "int a;\n")
    write(symbols, "cuInit\n")
    code = os.path.join(source, "src/a.c")
    write(os.path.join(source, "configure.ac"), "".join(
        "define([ucx_ver_%s], %d)\n" % part for part in (("major", 1), ("minor", 18), ("patch", 1))))
    write(code, "int a;\n")
    write(os.path.join(source, ".git/HEAD"), "a\n")
    os.environ["UCX_SOURCE"] = source
    both, only_ucx, neither = (True, True), (True, False), (False, False)
    changes = (
        ("an option of configure", both, lambda: write(build, read(build).replace('"--enable-mt"', '"--disable-mt"'))),
        ("a step of the build", both, lambda: write(build, read(build) + "\n# more\n")),
        ("a header", both, lambda: write(header, "long a;\n")),
        ("another header", both, lambda: write(header[:-3] + "sub/b.h", "")),
        ("a symbol", both, lambda: write(symbols, "cuInit\ncuMemAlloc\n")),
        ("a source file", only_ucx, lambda: write(code, "long a;\n")),
        ("the mode of a source file", only_ucx, lambda: os.chmod(code, 0o755)),
        ("another source file", only_ucx, lambda: write(code + "c", "")),
        ("the name of a source file", only_ucx, lambda: os.rename(code + "c", code + "d")),
        ("a link between source files", only_ucx, lambda: os.symlink("a.c", code + "l")),
        ("the time of a source file", neither, lambda: os.utime(code, (1, 1))),
        ("the history of the source", neither, lambda: write(os.path.join(source, ".git/HEAD"), "b\n")),
        ("UCX_SOURCE", only_ucx, lambda: os.environ.pop("UCX_SOURCE")),
    )
    before, wrong = keys(tree), []
    if keys(tree) != before:
        wrong.append("the keys change by themselves")
    if any(a == b for a, b in zip(keys(tree, "root_2"), before)):
        wrong.append("another root")
    for what, expected, change in changes:
        change()
        after = keys(tree)
        if tuple(a != b for a, b in zip(after, before)) != expected:
            wrong.append("%s: UCX and OpenMPI: %s, then %s" % (what, before, after))
        before = after
    return wrong


def check_replace(work):
    found = script(TOP)
    path = os.path.join(work, "file")
    write(path, "SUBDIRS = src \\\n\ttest/apps\n")
    found.replace(path, r"\btest/apps\b", "")
    wrong = [] if read(path) == "SUBDIRS = src \\\n\t\n" else ["replaced: %r" % read(path)]
    try:
        found.replace(path, "^test/apps", "nothing")
        wrong.append("no match is no failure")
    except Problem:
        pass
    return wrong + ([] if read(path) == "SUBDIRS = src \\\n\t\n" else ["the file changed: %r" % read(path)])


class Perftest:
    """perftest() with servers and clients that only speak."""

    def __init__(self):
        self.served, self.asked, self.text, self.other, self.status = [], [], "", "", 0

    def run(self, env):
        guest = mpi_cuda_guest
        guest.serve = lambda there, command, log: self.served.append((command.split(" -p ")[1].split()[0], log))
        guest.served = lambda there, log: (self.status == 0, self.other)
        guest.output = self.client
        with contextlib.redirect_stdout(io.StringIO()):
            return guest.perftest(env, "case", "tag_bw", [], "cuda")

    def client(self, *words, **_):
        self.asked.append(words[words.index("-p") + 1])
        return 0, self.text


def check_ports():
    p, env = Perftest(), {"PATH": "/bin"}
    p.text = "Final: 1 2 3\n"
    good = [p.run(env) for _ in range(4)]
    wrong = [] if all(good) else ["a test without a fault fails"]
    ports = [port for port, _ in p.served]
    if len(set(ports)) != 4 or ports != p.asked or len({log for _, log in p.served}) != 4:
        wrong.append("ports of the servers %s, of the clients %s" % (ports, p.asked))
    p.status = 1
    return wrong + (["a server that fails is no failure"] if p.run(env) else [])


def check_registered():
    p, wrong = Perftest(), []
    env = dict(mpi_cuda_guest.preloaded("build", "dmabuf.so"), PATH="/bin")
    line = "registered 3 regions by DMA-buf\n"
    for client, server in ((True, True), (True, False), (False, True), (False, False)):
        p.text = "Final: 1 2 3\n" + (line if client else "")
        p.other = (line if server else "") + "status 0\n"
        if p.run(env) != (client and server):
            wrong.append("registered by the client: %s, by the server: %s" % (client, server))
    return wrong


def compiled(out, *words):
    subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror",
                    "-I", os.path.join(TOP, "libgpumem/include"), "-o", out] + list(words), check=True)
    return out


def check_preloaded(work):
    """(what is wrong with the regions, what is wrong with the reports)."""
    program, library = (os.path.join(INTEROP, name) for name in ("mpi_dmabuf.c", "mpi_ipc.c"))
    source = os.path.join(HERE, "mpi_check.c")
    driver = compiled(os.path.join(work, "libdriver.so"), "-shared", "-fPIC", "-DCHECK_DRIVER", source)
    ipc = compiled(os.path.join(work, "ipc.so"), "-shared", "-fPIC", library)
    check = compiled(os.path.join(work, "check"), source, program, driver, "-Wl,-rpath," + work)
    rank = {"GPUMEM_MPI_NAME": "run", "OMPI_COMM_WORLD_RANK": "0"}

    def run(*words, **env):
        r = subprocess.run([check] + list(words), env=dict(os.environ, **env), check=False, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
        return r.returncode, r.stdout

    rc, text = run("dmabuf")
    regions = [] if rc == 0 else ["exit status %d: %s" % (rc, text)]
    reports = []
    # mpi_dmabuf.c is in each of these processes, and reports that there was no region.
    other = "not ok - run registers-by-dmabuf\n# 0 times\n"
    for words, env, expected in (
            (("dmabuf",), {}, "registered 1 regions by DMA-buf\n"),
            (("none",), {}, ""),
            (("dmabuf",), rank, "ok - run registers-by-dmabuf\n# 1 times\n"),
            (("none",), rank, other),
            (("none",), dict(rank, OMPI_COMM_WORLD_RANK="1"), ""),
            (("ipc", "0"), dict(rank, LD_PRELOAD=ipc), "ok - run opens-ipc-handles\n# 1 times\n" + other),
            (("ipc", "1"), dict(rank, LD_PRELOAD=ipc), "not ok - run opens-ipc-handles\n# 0 times\n" + other),
            (("none",), dict(rank, LD_PRELOAD=ipc), "not ok - run opens-ipc-handles\n# 0 times\n" + other),
            (("ipc", "0"), {"LD_PRELOAD": ipc}, "")):
        rc, text = run(*words, **env)
        # The order in which libraries end is not ours.
        if rc or sorted(text.splitlines()) != sorted(expected.splitlines()):
            reports.append("%s %s: exit status %d: %s" % (words, env, rc, text))
    return regions, reports


def main():
    for name in ("UCX_SOURCE", "GPUMEM_MPI_NAME", "OMPI_COMM_WORLD_RANK"):
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory() as work:
        regions, reports = check_preloaded(work)
        results = (
            ("the key of what is built changes with all that it depends on", check_keys(work)),
            ("a replacement that matches nothing fails", check_replace(work)),
            ("each ucx_perftest has a port of its own, and its server must succeed", check_ports()),
            ("both sides of a test with DMA-bufs must register one", check_registered()),
            ("a region that could not be ended exists as before", regions),
            ("preloaded libraries report what happened", reports),
        )
    print("TAP version 13")
    for number, (what, wrong) in enumerate(results, 1):
        print("%sok %d - %s" % ("not " if wrong else "", number, what))
        for text in wrong:
            print("".join("# %s\n" % line for line in text.splitlines()), end="")
    failed = sum(bool(wrong) for _, wrong in results)
    print("1..%d\n%d passed, %d failed, 0 skipped" % (len(results), len(results) - failed, failed))
    return bool(failed)


sys.exit(main())
