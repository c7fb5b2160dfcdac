#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The part of cases.py that runs in the virtual machine: the cases, each in a process of its own.

  cases_guest.py PLAN [PATH...]

PLAN is what cases.py wrote: programs, each with its directory, its environment, the command that runs
one case ("{}" stands for the case's name), and the names of its cases or the command that prints them.
A program with "all" instead is a program of pytest that runs all its cases in one process, because a
process takes long to start; its cases share what the witness saw.  If it is a directory, the name of a
case begins with its file.  Each case prints one line:

  case<TAB>PROGRAM<TAB>CASE<TAB>OUTCOME<TAB>REACHED

OUTCOME is "pass", "skip" (the program skipped it), "kernels" (it failed because the device runs no
code) or "fail".  REACHED is what the witness (witness.c) saw the case do: nothing, device (it opened
our device) or memory (it had memory mapped).  The output of what did not pass follows.

After the cases every counter of /sys/class/gpumem is what it was.
"""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

from gomp_guest import NUMBER, SLOTS, in_use, ok  # noqa: E402

SECONDS = 120
LINES = 25
KERNELS = re.compile(r"no kernel image is available|CUDA_ERROR_NO_BINARY_FOR_GPU|"
                     r"CUDA_ERROR_INVALID_PTX|cudaErrorNoKernelImageForDevice")
SKIPPED = re.compile(r"^\[  SKIPPED \]|^(?:.*\b)?WAIVED\b", re.M)


def googletest(text):
    """The names of cases in what --gtest_list_tests prints."""
    suite, found = "", []
    for line in text.splitlines():
        name = line.partition("#")[0].rstrip()
        if re.fullmatch(r"[\w/]+\.", name):
            suite = name
        elif suite and re.fullmatch(r"  [\w/]+", name):
            found.append(suite + name.strip())
    return found


def indented(text):
    """The indented words of a list."""
    return re.findall(r"^\s+(\w+)$", text, re.M)


FORMS = {"googletest": googletest, "indented": indented}
PYTEST = re.compile(r"^([\w/.]+)::(\S.*?) (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b", re.M)
VERDICTS = {"PASSED": "pass", "XPASS": "pass", "SKIPPED": "skip", "XFAIL": "skip"}


def pytest_cases(text):
    """(case, outcome, its output) of each case in what "pytest -v" prints.

    The name of a case begins with that of its file if the program is a directory of files.
    """
    verdicts = {}
    for file, case, verdict in PYTEST.findall(text):
        # A case that fails when it ends has two lines.
        if verdicts.get((file, case)) not in ("FAILED", "ERROR"):
            verdicts[file, case] = verdict
    for (file, case), verdict in verdicts.items():
        parts = re.findall(r"^_+ (?:ERROR at \w+ of )?%s _+$(.*?)^(?=(?:_{5,}|={5,}) )" % re.escape(
            case.replace("::", ".")), text, re.M | re.S)
        # The head of a failure does not name the file, but its text does.
        if len(parts) > 1:
            parts = [part for part in parts if file in part] or parts
        said = "".join(parts)
        name = "%s::%s" % (os.path.basename(file), case) if "/" in file else case
        yield name, VERDICTS.get(verdict) or ("kernels" if KERNELS.search(said) else "fail"), said


def run(program, command, env, seconds=SECONDS):
    """(exit status or None, output, what the witness saw)"""
    with tempfile.NamedTemporaryFile() as seen, tempfile.TemporaryFile() as out:
        seen.write(bytes(8 * SLOTS))
        seen.flush()
        # A session of its own: what a case leaves running ends with it.
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                              cwd=program["directory"], start_new_session=True,
                              env=dict(os.environ, GPUMEM_WITNESS=seen.name, **env)) as p:
            try:
                status = p.wait(seconds)
            except subprocess.TimeoutExpired:
                status = None
            try:
                os.killpg(p.pid, 9)
            except ProcessLookupError:
                pass
        out.seek(0)
        text = out.read().decode(errors="replace")
        seen.seek(0)
        return status, text, struct.unpack("=%dQ" % SLOTS, seen.read(8 * SLOTS))


def reached(slots):
    if not slots[0]:
        return "nothing"
    return "memory" if slots[2 + NUMBER["VM_MAP"]] else "device"


def outcome(status, text):
    if status == 0:
        return "skip" if SKIPPED.search(text) else "pass"
    return "kernels" if KERNELS.search(text) else "fail"


def show(text):
    for line in text.splitlines()[-LINES:]:
        print("#   " + line[:300])


def all_at_once(p, env, only):
    """The cases of a program of pytest."""
    status, text, slots = run(p, p["all"], env, p["seconds"])
    for case, what, said in pytest_cases(text):
        if only in p["name"] + " " + case:
            print("case\t%s\t%s\t%s\t%s" % (p["name"], case, what, reached(slots)), flush=True)
            if what not in ("pass", "skip"):
                show(said)
    # 0: all passed, 1: some failed.  Else pytest, or the process, came to no end: a case of its own.
    if status not in (0, 1):
        print("case\t%s\t%s\t%s\t%s" % (p["name"], "ends", "fail", reached(slots)), flush=True)
        print("# %s: status %s" % (p["name"], status))
        show(text)


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        plan = json.load(f)
    before = in_use()
    for p in plan["programs"]:
        env = dict(plan["env"], **p.get("env", {}))
        if "all" in p:
            all_at_once(p, env, plan["only"])
            continue
        cases = p.get("cases")
        if cases is None:
            status, text, _ = run(p, p["list"], env)
            cases = FORMS[p["form"]](text)
            if status or not cases:
                print("# %s names no cases: status %s\n%s" % (p["name"], status, text[-2000:]))
        for case in cases:
            if plan["only"] not in p["name"] + " " + case:
                continue
            status, text, slots = run(p, [w.replace("{}", case) for w in p["run"]], env)
            what = outcome(status, text)
            print("case\t%s\t%s\t%s\t%s" % (p["name"], case, what, reached(slots)), flush=True)
            if what != "pass":
                print("# status %s" % status)
                show(text)
    for _ in range(50):
        if in_use() == before:
            break
        time.sleep(0.1)
    ok(in_use() == before, "everything is given back")
    print("all of them ran")


if __name__ == "__main__":
    main()
