#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Compare what the conformance program printed with what NVIDIA's driver printed.

usage: compare.py [--impl] [--tap] GOLDEN.tsv ACTUAL.tsv [EXCEPTIONS.tsv]

Both files hold lines "SET.GROUP.CASE<TAB>observed"; lines are matched by their first field.
Not compared: ids that end in ".impl", which record what the documentation leaves open (--impl
compares them too), and cases in which NVIDIA's driver crashed. Ids that begin with "__" say how
the run went: a group that crashed, or gave up because a step failed that later cases need.

An exception is a line "GLOB<TAB>CLASS<TAB>reason". It covers the differing and the missing cases
whose ids match; the first matching line counts. Classes:

  security, absent hardware, undefined behaviour, extension
                differs, and is meant to
  not yet       the function is not there: skipped
  not reached   the group ends before this case, because something else is not there yet: skipped;
                covers missing cases only

A case that differs or is missing without an exception is a failure. So is an exception that
covers nothing any more, except for absent hardware and undefined behaviour, which may depend on
the machine. Prints for each group how many cases agree, and each difference in a line; with --tap
one result for each group. The exit status is 0 without failures.
"""
import collections
import fnmatch
import sys

MEANT = ("security", "absent hardware", "undefined behaviour", "extension")
SKIPPED = ("not yet", "not reached")
VARYING = ("absent hardware", "undefined behaviour")


def load(path):
    """{id: observed} in the file's order."""
    lines = {}
    with open(path, encoding="utf-8", errors="replace") as f:
        for line in f:
            name, tab, value = line.rstrip("\n").partition("\t")
            if tab and name.count(".") >= 2:
                lines[name] = value
    return lines


def load_exceptions(path):
    """[glob, class, reason, uses] of each line."""
    rows = []
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            if not line.strip() or line.startswith("#"):
                continue
            fields = line.rstrip("\n").split("\t")
            if len(fields) != 3 or fields[1] not in MEANT + SKIPPED or not fields[2]:
                sys.exit("%s:%d: not 'glob<TAB>class<TAB>reason'" % (path, number))
            rows.append(fields + [0])
    return rows


def group_of(name):
    return name.split(".")[1]


class Group:
    """How the cases of one group compare."""

    def __init__(self):
        self.agree = 0
        self.meant = collections.Counter()
        self.skipped = collections.Counter()
        self.notes = []         # differences that have an exception
        self.failures = []      # and those that have none

    def total(self):
        return self.agree + sum(self.meant.values()) + sum(self.skipped.values()) \
            + len(self.failures)

    def numbers(self):
        parts = ["%d of %d agree" % (self.agree, self.total())]
        parts += ["%d %s" % (n, c) for c, n in sorted((self.meant + self.skipped).items())]
        if self.failures:
            parts.append("%d differ" % len(self.failures))
        return ", ".join(parts)


def compare(golden, actual, exceptions, impl):
    """{name: Group}, sorted by name."""
    groups = collections.defaultdict(Group)

    def judge(name, want, have):
        group = groups[group_of(name)]
        text = "%s: want %s, have %s" % (name, want, "nothing" if have is None else have)
        for row in exceptions:
            if fnmatch.fnmatchcase(name, row[0]) and (row[1] != "not reached" or have is None):
                row[3] += 1
                group.notes.append("%s (%s)" % (text, row[1]))
                if ".__" not in name:
                    (group.skipped if row[1] in SKIPPED else group.meant)[row[1]] += 1
                return
        group.failures.append(text)

    for name, want in golden.items():
        if ".__" in name or want.startswith("crash") or (name.endswith(".impl") and not impl):
            continue
        if actual.get(name) == want:
            groups[group_of(name)].agree += 1
        else:
            judge(name, want, actual.get(name))
    # A group that ended early without an excuse: giving up is one if cases are skipped, dying not.
    for name, have in actual.items():
        if ".__" in name and golden.get(name) != have and \
                (name.endswith(".__status") or not groups[group_of(name)].skipped):
            judge(name, "nothing", have)
    return dict(sorted(groups.items()))


def main():
    words = [w for w in sys.argv[1:] if not w.startswith("-")]
    options = {w for w in sys.argv[1:] if w.startswith("-")}
    if len(words) not in (2, 3) or options - {"--impl", "--tap"}:
        sys.exit(__doc__)
    golden, actual = load(words[0]), load(words[1])
    exceptions = load_exceptions(words[2]) if len(words) == 3 else []
    if not golden:
        sys.exit("%s: nothing to compare with" % words[0])
    groups = compare(golden, actual, exceptions, "--impl" in options)
    stale = [row for row in exceptions if not row[3]]
    wrong = [row for row in stale if row[1] not in VARYING]
    tap = "--tap" in options

    if tap:
        print("TAP version 13\n1..%d" % (len(groups) + 1))
    for number, (name, group) in enumerate(groups.items(), 1):
        for note in group.notes:
            print("# " + note)
        for failure in group.failures:
            print(("# " if tap else "") + "DIFFERS " + failure)
        if not tap:
            print("%s: %s" % (name, group.numbers()))
        elif group.failures:
            print("not ok %d %s: %s" % (number, name, group.numbers()))
        elif not group.agree:
            print("ok %d %s # SKIP %s" % (number, name, group.numbers()))
        else:
            print("ok %d %s: %s" % (number, name, group.numbers()))
    for row in stale:
        print("%sSTALE %s (%s): covers nothing, %s" % (
            "# " if tap else "", row[0], row[1],
            "take it out of the exceptions" if row in wrong else "on this machine"))
    if tap:
        print("%s %d exceptions: %d, %d of them stale" % (
            "not ok" if wrong else "ok", len(groups) + 1, len(exceptions), len(stale)))

    count = Group()
    for group in groups.values():
        count.agree += group.agree
        count.meant += group.meant
        count.skipped += group.skipped
        count.failures += group.failures
    print("# all groups: " + count.numbers())
    return 1 if count.failures or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
