#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The part of torch that runs in the virtual machine, in the disk with PyTorch.

  torch_guest.py BUILD [WORD...]

Prints "ok - PROGRAM CASE" or "not ok - PROGRAM CASE" for each case of PyTorch's own programs, and of
torch_cases.py in each mode.  After the programs every counter of /sys/class/gpumem is what it was.
"""
import glob
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)

import client  # noqa: E402

PROGRAMS = "/usr/lib/libtorch-cuda-test"
# A mode's name, and its environment.
MODES = (
    ("python", {}),
    ("python-strict", {"GPUMEM_STRICT": "1"}),
    ("python-expandable", {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
    ("python-async", {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}),
    # A report of the checker makes a process end with 66.  PyTorch keeps what it allocated until the process ends.
    ("python-check", {"GPUMEM_CHECK": "1", "GPUMEM_CHECK_LEAKS": "0"}),
    ("python-schedule", {"GPUMEM_SCHEDULE": "5"}),
)
SECONDS = 900


def out():
    """The cases that torch.tsv leaves out, by program."""
    rows = {}
    with open(os.path.join(HERE, "torch.tsv"), encoding="utf-8") as f:
        for line in f:
            words = line.rstrip("\n").split("\t")
            if len(words) > 2 and words[2] == "out":
                rows.setdefault(words[0], []).append(words[1])
    return rows


def start(command, **environment):
    """Start a program, which is ended after SECONDS."""
    env = dict(os.environ, LD_LIBRARY_PATH=os.path.join(sys.argv[1], "compat"), LC_ALL="C.UTF-8",
               HOME="/tmp", **environment)
    return subprocess.Popen(["timeout", str(SECONDS)] + command, env=env, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
                            errors="replace")


def own_program(name, left_out):
    """One of PyTorch's programs, which is a program of googletest."""
    begin = time.monotonic()
    program = start([os.path.join(PROGRAMS, name), "--gtest_color=no",
                     "--gtest_filter=-" + ":".join(left_out)])
    text = program.communicate()[0]
    status = program.returncode
    client.googletest(name, text)
    ended = re.search(r"\[  PASSED  \]", text) and status in (0, 1)
    client.report(ended, name, "ends")
    print("# %s: status %s, %.0f seconds" % (name, status, time.monotonic() - begin))
    client.show(text, 25 if status else 0)


def cases(mode, environment):
    """torch_cases.py in a mode."""
    ended = False
    with start(["/usr/bin/python3", os.path.join(HERE, "torch_cases.py"), mode],
               **environment) as program:
        for line in program.stdout:
            print(re.sub(r"^((not )?ok - )", r"\1%s " % mode, line.rstrip())[:500], flush=True)
            ended = ended or line.startswith("# end")
    client.report(ended and program.returncode == 0, mode, "ends")


def main():
    wanted = sys.argv[2:]
    left_out, before = out(), client.in_use()
    names = sorted(os.path.basename(p) for p in glob.glob(PROGRAMS + "/*cuda_*"))
    for name in names:
        if "*" not in left_out.get(name, ()) and (not wanted or any(w in name for w in wanted)):
            own_program(name, left_out.get(name, []))
            sys.stdout.flush()
    for mode, environment in MODES:
        if any(w in mode for w in wanted) if wanted else "*" not in left_out.get(mode, ()):
            cases(mode, environment)
    client.given_back("torch", before)
    print("all of them ran")


main()
