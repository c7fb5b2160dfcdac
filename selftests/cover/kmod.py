#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Line coverage of kmod/, from the kernel logs of a run.

  kmod.py KO LOG... [--least PERCENT]

KO is the module, built with GPUMEM_COV=1; a LOG holds what it reported when it was unloaded.
Prints a line for each file, what did not run (file:lines, function), and the total; fails below
PERCENT.
"""
import argparse
import collections
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)

import blocks  # noqa: E402


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("ko")
    ap.add_argument("log", nargs="+")
    ap.add_argument("--least", type=float, default=0)
    o = ap.parse_args()
    module = blocks.Module(o.ko)
    module.find_lines(os.path.dirname(os.path.dirname(HERE)))
    hit, reports = set(), 0
    for path in o.log:
        with open(path, encoding="utf-8", errors="replace") as f:
            h, n = blocks.from_log(module, f.read())
        hit |= h
        reports += n
    if not reports:
        raise blocks.Bad("no report of the module in %s" % ", ".join(o.log))
    lines, covered = set(), set()
    for b in module.blocks:
        lines |= b.lines
        if b in hit:
            covered |= b.lines
    count = collections.Counter(f for f, _ in lines)
    have = collections.Counter(f for f, _ in covered)
    missing = collections.defaultdict(set)      # (file, function): lines
    for b in module.blocks:
        for f, n in b.lines - covered:
            missing[f, b.function.split(".")[0]].add(n)
    shown = set()
    print("# not covered:")
    for (f, function), numbers in sorted(missing.items(), key=lambda x: (x[0][0], min(x[1]))):
        # Lines that are inlined at several places are printed once.
        numbers = {n for n in numbers if (f, n) not in shown}
        shown |= {(f, n) for n in numbers}
        if numbers:
            print("#   %s:%s %s" % (f, blocks.ranges(numbers), function))
    for f in sorted(count):
        print("# %-28s %4d of %4d lines, %5.1f %%" % (f, have[f], count[f],
                                                     100 * have[f] / count[f]))
    print("# kmod/ blocks: %d of %d, from %d loads of the module"
          % (len(hit), len(module.blocks), reports))
    percent = 100 * len(covered) / len(lines)
    print("kmod/: %d of %d lines covered, %.1f %%" % (len(covered), len(lines), percent))
    if percent < o.least:
        print("not ok kmod/: less than %g %%" % o.least)
        return 1
    return 0


try:
    sys.exit(main())
except blocks.Bad as e:
    sys.exit("cover: %s" % e)
