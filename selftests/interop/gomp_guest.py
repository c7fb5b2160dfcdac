#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The part of gomp that runs in the virtual machine: the tests, one after another.

  gomp_guest.py PLAN

PLAN is what gomp wrote: programs, what GCC's comments expect of each, and its "needs" of gomp.tsv:

  out       it is not run
  device    it opened our device: libgomp has it in its list
  context   it made a context there
  memory    it had memory mapped there, which a context alone has not

The libraries that a test finds are ours and the plugin.  A test has passed when its exit status and
its output are what GCC's testsuite wants AND the witness (witness.c) saw it do what it needs:
libgomp falls back to the host where it may.  Tests that need memory, and succeed, run once more in
strict mode, and once more with the checker, which must have no report.  Once for each suite a test
is run where there is no libcuda.so.1; it must not pass there.  A test that is to fail must end by
itself, not by a signal.

After the tests every counter of /sys/class/gpumem is what it was.
"""
import glob
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
import warnings

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
# By default the library itself copies what is small.  In strict mode the kernel copies, and the
# processor cannot touch device memory, which it must where constructs run on the host.
# A report of the checker makes a process end with 66.  libgomp keeps memory until the process ends.
MODES = {"": {}, " (strict)": {"GPUMEM_STRICT": "1"},
         " (checker)": {"GPUMEM_CHECK": "1", "GPUMEM_CHECK_LEAKS": "0"}}
SUITE = {"openacc": {"ACC_DEVICE_TYPE": "nvidia"}, "openmp": {"OMP_TARGET_OFFLOAD": "MANDATORY"},
         "openmp-host": {}}
SLOTS = 2 + 256
SECONDS = 120


def commands():
    """{name: number} of the module's ioctls."""
    with open(os.path.join(TOP, "uapi/linux/gpumem.h"), encoding="utf-8") as f:
        text = f.read()
    base = int(re.search(r"GPUMEM_CMD_BASE = (\w+)", text).group(1), 0)
    body = re.search(r"GPUMEM_CMD_INFO = GPUMEM_CMD_BASE,.*?}", text, re.S).group(0)
    names = re.findall(r"GPUMEM_CMD_(\w+)(?: = GPUMEM_CMD_BASE)?,", body)
    return {n: base + i for i, n in enumerate(names)}


def in_use():
    """What the devices say is there."""
    text = {}
    for path in sorted(glob.glob("/sys/class/gpumem/gpumem*/*")):
        if os.path.basename(path) in ("used", "clients", "bos", "exports", "views", "pools"):
            with open(path, encoding="ascii") as f:
                text[path] = f.read().strip()
    return text


class Run:
    """One run of a test."""

    def __init__(self, plan, test, mode, libcuda=True):
        dirs = [plan["plugin"]] + ([os.path.join(plan["build"], "compat")] if libcuda else [])
        with tempfile.NamedTemporaryFile() as f:
            f.write(bytes(8 * SLOTS))
            f.flush()
            env = dict(os.environ, LD_LIBRARY_PATH=":".join(dirs), LC_ALL="C",
                       LD_PRELOAD=plan["witness"], GPUMEM_WITNESS=f.name,
                       **SUITE[test["suite"]], **MODES[mode])
            try:
                r = subprocess.run([test["program"]], env=env, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   timeout=SECONDS, check=False)
                self.status, raw = r.returncode, r.stdout
            except subprocess.TimeoutExpired as e:
                self.status, raw = None, e.stdout or b""
            f.seek(0)
            self.slots = struct.unpack("=%dQ" % SLOTS, f.read(8 * SLOTS))
        self.output = raw.decode(errors="replace")
        self.test = test

    def did(self, name):
        return self.slots[2 + NUMBER[name]]

    def expected(self):
        """Is it what GCC's testsuite wants?"""
        t = self.test
        if self.status is None or self.status < 0 or bool(self.status) != t["fails"]:
            return False
        # A process in which the checker found something, also where the test must fail.
        if self.status == 66:
            return False
        return bool(re.search(t["output"], self.output, re.S))

    def reached(self):
        """What it did with the device."""
        if not self.slots[0]:
            return "nothing"
        if not self.slots[1]:
            return "device"
        return "memory" if self.did("VM_MAP") else "context"

    def enough(self):
        order = ["nothing", "device", "context", "memory"]
        needs = self.test["needs"]
        return needs in order and order.index(self.reached()) >= order.index(needs)

    def say(self):
        counts = ["open %d, contexts %d" % self.slots[:2]]
        counts += ["%s %d" % (n, self.did(n)) for n in NUMBER if self.did(n)]
        print("# status %s; %s" % (self.status, ", ".join(counts)))
        for line in self.output.splitlines()[-20:]:
            print("#   " + line)


def ok(good, what):
    print("%s - %s" % ("ok" if good else "not ok", what), flush=True)


NUMBER = commands()


def main():
    # Bracket expressions of Tcl might mean something else in Python one day.
    warnings.simplefilter("ignore", FutureWarning)
    with open(sys.argv[1], encoding="utf-8") as f:
        plan = json.load(f)
    before = in_use()
    tests = [t for t in plan["tests"] if t["needs"] != "out"]
    for mode in MODES:
        for t in tests:
            if mode and (t["needs"] != "memory" or t["fails"] or t["suite"] == "openmp-host"):
                continue
            r = Run(plan, t, mode)
            good = r.expected() and r.enough()
            ok(good, "%s %s%s" % (t["suite"], t["name"], mode))
            if t["needs"] == "?":
                print("%s\t%s\t%s" % (t["suite"], t["name"], r.reached()))
            if not good:
                print("# expected: %s, %r, %s; got %s, %s" % (
                    "failure" if t["fails"] else "success", t["output"], t["needs"],
                    "that" if r.expected() else "something else", r.reached()))
                r.say()
    for suite in SUITE:
        t = next((t for t in tests if t["suite"] == suite and t["needs"] == "memory"
                  and not t["fails"]), None)
        if t:
            r = Run(plan, t, "", libcuda=False)
            ok(not (r.expected() and r.enough()),
               "%s %s does not pass without libcuda.so.1" % (suite, t["name"]))
    for _ in range(50):
        if in_use() == before:
            break
        time.sleep(0.1)
    ok(in_use() == before, "everything is given back")
    print("all of them ran")


if __name__ == "__main__":
    main()
