#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Print which blocks of the module the fuzzer reached.

  report.py KO BLOCKS [--least PERCENT]

KO is the module, built with GPUMEM_KCOV=1; BLOCKS is the file that gpumem-fuzz -o wrote.  Prints
the functions that were never reached, and the share of the blocks that were reached.  Fails if
that share is below PERCENT.
"""
import argparse
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../cover"))

import blocks  # noqa: E402


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("ko")
    ap.add_argument("reached")
    ap.add_argument("--least", type=float, default=0)
    o = ap.parse_args()
    module, hit = blocks.Module(o.ko), set()
    with open(o.reached, encoding="ascii") as f:
        for line in f:
            section, at = line.split()
            b = module.by_name.get((section, int(at, 16)))
            if not b:
                raise blocks.Bad("%s has no block at %s" % (o.ko, line.strip()))
            hit.add(b)
    never, partly = [], []
    for function, all_of_it in module.functions().items():
        n = sum(b in hit for b in all_of_it)
        (partly if n else never).append((function, n, len(all_of_it)))
    print("# never reached: " + ", ".join("%s (%d)" % (f, n) for f, _, n in never))
    print("# less than half: " + ", ".join("%s (%d of %d)" % p for p in partly
                                           if p[1] * 2 < p[2]))
    percent = 100 * len(hit) / len(module.blocks)
    print("fuzz: %d of %d blocks reached, %.1f %%; %d of %d functions"
          % (len(hit), len(module.blocks), percent, len(partly), len(partly) + len(never)))
    if percent < o.least:
        print("not ok fuzz: fewer than %g %%" % o.least)
        return 1
    return 0


try:
    sys.exit(main())
except blocks.Bad as e:
    sys.exit("fuzz: %s" % e)
