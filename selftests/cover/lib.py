#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Line coverage of libgpumem/, from the counts that a run left.

  lib.py OBJECTS COUNTS

OBJECTS holds the .gcno files of the library, built with COV=1; below COUNTS lie the .gcda files
that the programs wrote when they ended (GCOV_PREFIX).  Processes that were killed, and children
that leave by _exit(), wrote none.  Prints what did not run, a line for each file, and the total.
"""
import collections
import glob
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)

import blocks  # noqa: E402


def counts(objects, where):
    """{file: {line: (times, function)}} of libgpumem/."""
    lines = collections.defaultdict(dict)
    with tempfile.TemporaryDirectory() as work:
        for gcno in sorted(glob.glob(os.path.join(objects, "*/*.gcno"))):
            gcda = gcno[:-2] + "da"
            shutil.copy(gcno, work)
            counted = os.path.join(where, os.path.abspath(gcda).lstrip("/"))
            if os.path.exists(counted):
                shutil.copy(counted, work)
        names = sorted(n for n in os.listdir(work) if n.endswith(".gcno"))
        if not any(n.endswith(".gcda") for n in os.listdir(work)):
            sys.exit("cover: no counts of the library below %s" % where)
        subprocess.run(["gcov", "-i", "-b"] + names, cwd=work, check=True,
                       stdout=subprocess.DEVNULL)
        for path in glob.glob(os.path.join(work, "*.gcov.json.gz")):
            with gzip.open(path, "rt", encoding="utf-8") as f:
                data = json.load(f)
            for file in data["files"]:
                name = os.path.relpath(os.path.join(TOP, file["file"]), TOP)
                if not name.startswith("libgpumem/"):
                    continue
                for line in file["lines"]:
                    n = line["line_number"]
                    times, function = lines[name].get(n, (0, None))
                    lines[name][n] = (times + line["count"],
                                      function or line.get("function_name", "?"))
    return lines


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    files = counts(sys.argv[1], sys.argv[2])
    print("# not covered:")
    for f in sorted(files):
        missing = collections.defaultdict(list)
        for n, (times, function) in files[f].items():
            if not times:
                missing[function].append(n)
        for function, numbers in sorted(missing.items(), key=lambda x: min(x[1])):
            print("#   %s:%s %s" % (f, blocks.ranges(numbers), function))
    total = have = 0
    for f in sorted(files):
        n, hit = len(files[f]), sum(1 for times, _ in files[f].values() if times)
        print("# %-28s %4d of %4d lines, %5.1f %%" % (f, hit, n, 100 * hit / n))
        total, have = total + n, have + hit
    print("libgpumem/: %d of %d lines covered, %.1f %%" % (have, total, 100 * have / total))
    return 0


sys.exit(main())
