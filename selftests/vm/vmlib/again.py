# SPDX-License-Identifier: GPL-2.0
"""Which failures of "make check" are worth a second run.

The machines are emulated, and share two processors with whatever else runs: once in some runs a case waits in vain.  A
failure that does not come again is printed as such, and does not fail the run.  These failures count at once: the kernel
complained or died, something was left behind, a parameter stayed changed, a case was skipped that must not be, a file of
the tests is wrong.  So do failures of more than MOST_PROGRAMS programs and steps, which no chance explains.
"""
import re

MOST_PROGRAMS = 3
MOST_FAILURES = 6

# What check makes of a case's result, and of a verdict of run_kselftest.sh.
CASE = re.compile(r"^(t_[\w.]+)(?: \([^)]*\))?: not ok \d+ ")
LATE = re.compile(r"^not ok (t_[\w.]+)(?: \([^)]*\))? (?:took more than \d+ seconds|planned \d+ cases and finished \d+ )")


def programs(failures):
    """The programs of a step's failures, if all of them may be a matter of chance; else None."""
    found = set()
    for line in failures:
        m = CASE.match(line) or LATE.match(line)
        if not m:
            return None
        found.add(m.group(1))
    return found or None


def plan(steps):
    """[(step, programs)...] to run once more, or []: the failures count.

    @steps: the steps that failed.  A step that is no run of the kernel tests runs as a whole: its programs are None.
    """
    wanted, size = [], 0
    for step in steps:
        names = None
        if step.name.startswith("kselftest"):
            names = programs(step.failures)
            if not names or len(step.failures) != step.count[1]:
                return []
        elif any("skips.tsv" in line for line in step.failures):
            return []
        size += len(names) if names else 1
        wanted.append((step, names))
    failures = sum(step.count[1] for step in steps)
    return wanted if size <= MOST_PROGRAMS and failures <= MOST_FAILURES else []
