# SPDX-License-Identifier: GPL-2.0
"""What the programs of this folder share: expectations, a guest, results.

A table of expectations, NAME.tsv, has a row for each case: program, case, what is expected, reason.

  pass      the case passes
  kernels   the case launches kernels, and fails by a report: the program goes on
  fail      the case fails by a report, for the reason given
  out       the case is not run, for the reason given

A case without a row is a failure, and so is a row whose case did not report.
"""
import glob
import os
import re
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
EXPECTED = ("pass", "kernels", "fail", "out")
REPORT = re.compile(r"(not )?ok - (\S+) (.*?)( # SKIP .*)?$")


class Results:
    """What is printed, and counted."""

    def __init__(self):
        self.number = self.failed = self.skipped = 0
        print("TAP version 13")

    def result(self, good, what):
        self.number += 1
        self.failed += not good
        print("%s %d - %s" % ("ok" if good else "not ok", self.number, what), flush=True)

    def skip(self, what, reason):
        """@what cannot run here; selftests/skips.tsv has it."""
        self.number += 1
        self.skipped += 1
        print("ok %d - %s # SKIP %s" % (self.number, what, reason), flush=True)

    def end(self):
        passed = self.number - self.failed - self.skipped
        print("1..%d\n%d passed, %d failed, %d skipped" % (self.number, passed, self.failed, self.skipped))
        return 1 if self.failed or not passed else 0


def table(path):
    """{(program, case): (expected, reason)} of the file @path."""
    rows = {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            if line.startswith("#"):
                continue
            program, case, expected, *reason = line.rstrip("\n").split("\t")
            if expected not in EXPECTED or (expected != "pass" and not (reason and reason[0])):
                raise ValueError("%s: %s %s" % (os.path.basename(path), program, case))
            rows[program, case] = (expected, reason[0] if reason else "")
    return rows


def guest(command, *options, timeout=2400, vram="1G"):
    """Lines that @command prints in a guest with the module.  Ends with its exit status."""
    sys.path.append(os.path.join(TOP, "selftests/vm"))
    from vmlib import qemu      # a program in a guest needs nothing of it

    words = [os.path.join(TOP, "selftests/vm/run"), "--kernel", os.environ.get("VM_KERNEL") or "6.12",
             "--timeout", str(timeout), "--mem", "4G", *options,
             "--insmod", "devices=2", "vram=" + vram, "--", *command]
    # The guest ends with this program.  The handler waits until it has ended.  A signal that comes before "try"
    # ends this program at once, and the kernel then sends SIGTERM to "run".
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    p = subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd=TOP, encoding="utf-8",
                         errors="replace", preexec_fn=qemu.ended_with_parent(signal.SIGTERM))
    try:
        for line in p.stdout:
            yield line.rstrip()
    except BaseException:
        p.terminate()
        raise
    finally:
        p.stdout.close()
        p.wait()
    yield p.returncode


def compare(results, rows, lines, listing=False):
    """Compare what the guest printed with the table of expectations.

    @listing: print the row that each case earns, too.
    """
    seen, ended, status = set(), False, None
    for line in lines:
        if isinstance(line, int):
            status = line
            break
        m = REPORT.match(line)
        ended = ended or line == "all of them ran"
        if not m:
            print(line, flush=True)
            continue
        good, key = not m.group(1), (m.group(2), m.group(3))
        expected, reason = rows.get(key, (None, ""))
        seen.add(key)
        if expected is None:
            results.result(False, "%s %s has no row (it %s)"
                           % (key + ("passes" if good else "fails",)))
        else:
            results.result(good == (expected == "pass"), "%s %s%s" % (
                key + ("" if expected == "pass" else " fails: " + reason,)))
        if listing:
            print("%s\t%s\t%s" % (key + ("pass" if good else "kernels",)))
    for key in sorted(k for k, (expected, _) in rows.items() if expected != "out" and k not in seen):
        results.result(False, "%s %s reported" % key)
    results.result(ended and status == 0, "the virtual machine ends well")


# ---- in the guest


CASE = re.compile(r"\[ +(OK|FAILED|SKIPPED) +\] (\w+(?:/\w+)*\.\w+(?:/\w+)*)(?: \(|, where)")
COUNTERS = ("used", "clients", "bos", "exports", "views", "pools")


def report(good, program, case):
    print("%s - %s %s" % ("ok" if good else "not ok", program, case), flush=True)


def show(text, most):
    """The last lines of @text, without back-traces, as comments."""
    lines = [line for line in text.splitlines() if not re.match(r"frame #\d+: ", line)]
    for line in lines[-most:] if most else []:
        print("#   " + line[:300], flush=True)


def googletest(program, text):
    """Report the cases in the output @text of a program of googletest; did all pass?"""
    cases = {}
    for verdict, case in CASE.findall(text):
        cases.setdefault(case, verdict == "OK")
    for case, good in cases.items():
        report(good, program, case)
    return all(cases.values())


def in_use():
    """What the module's counters say."""
    text = {}
    for path in sorted(glob.glob("/sys/class/gpumem/gpumem*/*")):
        if os.path.basename(path) in COUNTERS:
            with open(path, encoding="ascii") as f:
                text[path] = f.read().strip()
    return text


def given_back(program, before):
    """Report whether the counters are again what in_use() said."""
    for _ in range(50):
        if in_use() == before:
            break
        time.sleep(0.1)
    report(in_use() == before, program, "everything-is-given-back")
