#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Compare figures of gpumem-bench.

  compare.py check BASELINE RUN...   is anything of ours dearer than the baseline has it?
  compare.py merge RUN...            print a baseline: the median of the runs
  compare.py diff BASE HEAD          print what changed; both are merged
  compare.py ratios RUN              print rows beside their peers

A RUN is the output of "gpumem-bench --tsv" below lines "#KEY<tab>VALUE" that say where it was
made.  Figures of two places are comparable if all of KEYS agree; NOTES are mentioned when they
differ.  Several runs of one check were made after different times of settling, and their median
counts: what depends on the allocators' state moves by a few per cent when an unrelated thing
shifts it.

A row of ours fails if it grew by more than the limit of its class, if it is in one of the two files
only, or if its ratio met its bar in the baseline and does not any more.  Rows of the class "ratio"
and peers never fail.  A row that fell by more than its limit is mentioned: a new baseline keeps
what was won.

Exit status: 0; 1 something failed; 2 the input cannot be used; 4 the figures are not comparable,
and nothing was compared.
"""
import os
import statistics
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
LATENCY = os.path.join(HERE, "../../selftests/golden/h200-580/latency.tsv")

KEYS = ("kernel", "qemu", "cpu", "machine")
NOTES = ("compiler", "libc")
LIMITS = {"call": 0.02, "alloc": 0.05}
CLASSES = set(LIMITS) | {"ratio", "peer", "skip"}
FAILED, UNUSABLE, INCOMPARABLE = 1, 2, 4


class Unusable(Exception):
    """The input is not what it should be."""


class Row:
    def __init__(self, name, kind, ns, peer, bar):
        self.name, self.kind, self.ns, self.peer, self.bar = name, kind, ns, peer, bar


class Figures:
    """Where figures were made, and the rows by name, in order."""

    def __init__(self, source, where, rows):
        self.source, self.where, self.rows = source, where, rows

    def ratio(self, row):
        """@row's ratio to its peer, or None."""
        peer = self.rows.get(row.peer)
        if peer is None or peer.kind != "peer" or not peer.ns:
            return None
        return row.ns / peer.ns

    def missed(self, row):
        ratio = self.ratio(row)
        return bool(row.bar and ratio is not None and ratio > row.bar)


def parse(path):
    where, rows, ended = {}, {}, False
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            words = line.rstrip("\n").split("\t")
            if line.startswith("#"):
                if len(words) == 2:
                    where[words[0][1:]] = words[1]
                continue
            if words == ["end"]:
                ended = True
                continue
            try:
                name, kind, ns, peer, bar = words
                row = Row(name, kind, None if kind == "skip" else float(ns),
                          None if peer == "-" else peer, None if bar == "-" else float(bar))
            except ValueError:
                raise Unusable("%s:%d: not a row: %s" % (path, number, line.strip())) from None
            if kind not in CLASSES:
                raise Unusable("%s:%d: no class %s" % (path, number, kind))
            # Several benches may measure, or skip, the same peer; the first row counts.
            if name in rows and kind not in ("peer", "skip"):
                raise Unusable("%s:%d: %s is there twice" % (path, number, name))
            rows.setdefault(name, row)
    if not ended:
        raise Unusable("%s is not whole: no line \"end\"" % path)
    missing = [k for k in KEYS if not where.get(k)]
    if missing:
        raise Unusable("%s does not say which %s" % (path, ", ".join(missing)))
    return Figures(path, where, rows)


def merge(runs):
    """The median of @runs, which must have the same rows from the same place."""
    first = runs[0]
    for other in runs[1:]:
        if any(first.where[k] != other.where[k] for k in KEYS):
            raise Unusable("%s and %s were made in different places"
                           % (first.source, other.source))
        if list(first.rows) != list(other.rows):
            raise Unusable("%s and %s have different rows" % (first.source, other.source))
    rows = {}
    for name, row in first.rows.items():
        ns = None
        if row.kind != "skip":
            ns = statistics.median(r.rows[name].ns for r in runs)
        rows[name] = Row(name, row.kind, ns, row.peer, row.bar)
    return Figures(first.source, first.where, rows)


def incomparable(old, new):
    """Why the two cannot be compared: lines, none if they can."""
    return ["%s: %s there, %s here" % (k, old.where[k], new.where[k])
            for k in KEYS if old.where[k] != new.where[k]]


def notes(old, new):
    return ["%s differs: %s there, %s here" % (k, old.where.get(k), new.where.get(k))
            for k in NOTES if old.where.get(k) != new.where.get(k)]


def check(old, new):
    """(failures, remarks) about @new beside the baseline @old: lines."""
    failures, remarks = [], []
    for name, was in old.rows.items():
        row = new.rows.get(name)
        if was.kind not in LIMITS:
            if row is None:
                remarks.append("%s is not measured here" % name)
            continue
        if row is None or row.kind not in LIMITS:
            failures.append("%s is missing" % name)
            continue
        limit = LIMITS[row.kind]
        change = row.ns / was.ns - 1 if was.ns else float(row.ns > 0)
        text = "%s: %.1f, was %.1f (%+.1f%%, limit %g%%)" % (
            name, row.ns, was.ns, 100 * change, 100 * limit)
        if change > limit:
            failures.append(text)
        elif change < -limit:
            remarks.append(text + ": make bench-baseline keeps this")
        if new.missed(row):
            text = "%s: ratio %.3f to %s is above its bar %.2f" % (
                name, new.ratio(row), row.peer, row.bar)
            (remarks if old.missed(was) else failures).append(text)
    for name, row in new.rows.items():
        if row.kind in LIMITS and name not in old.rows:
            failures.append("%s is not in the baseline" % name)
        if row.kind == "skip":
            remarks.append("%s was skipped: %s" % (name, row.peer))
    return failures, remarks


def h200():
    """What an H200 takes for rows of ours: name -> nanoseconds."""
    names, out = {}, {}
    with open(os.path.join(HERE, "h200.tsv"), encoding="utf-8") as f:
        for line in f:
            if not line.startswith("#"):
                ours, theirs = line.rstrip("\n").split("\t")
                names.setdefault(theirs, []).append(ours)
    with open(LATENCY, encoding="utf-8") as f:
        for line in f:
            words = line.split("\t")
            for ours in names.get(words[0], []):
                if words[1] != "ns":
                    raise Unusable("h200.tsv: %s is no latency" % words[0])
                out[ours] = float(words[2])
            names.pop(words[0], None)
    if names:
        raise Unusable("h200.tsv: not in latency.tsv: %s" % ", ".join(names))
    return out


def table(figures, unit):
    """Lines: rows of ours beside their peers; peers that nothing names at the end."""
    gpu, used = h200(), set()
    yield "%-34s %14s  %-30s %14s %8s  %s" % ("ours", unit, "peer", unit, "ratio", "H200, ns")
    for row in figures.rows.values():
        if row.kind in ("peer", "skip"):
            continue
        ratio, line = figures.ratio(row), "%-34s %14.1f" % (row.name, row.ns)
        if ratio is not None:
            used.add(row.peer)
            bar = ""
            if row.bar:
                bar = " bar %.2f%s" % (row.bar, " MISSED" if figures.missed(row) else "")
            line += "  %-30s %14.1f %8.3f" % (row.peer, figures.rows[row.peer].ns, ratio)
        else:
            bar, line = "", line + " " * 56
        line += "  %8s" % ("%.0f" % gpu[row.name] if row.name in gpu else "") + bar
        yield line.rstrip()
    for row in figures.rows.values():
        if row.kind == "peer" and row.name not in used:
            yield "%-34s %14s  %-30s %14.1f" % ("", "", row.name, row.ns)
        elif row.kind == "skip":
            yield "%-34s %14s  %-30s %14s  %s" % ("", "", row.name, "skipped", row.peer)


def differences(base, head):
    """Lines: every row of ours, what it was and is; one-sided rows say so."""
    yield "%-34s %14s %14s %9s" % ("ours", "base", "head", "change")
    for name in list(base.rows) + [n for n in head.rows if n not in base.rows]:
        a, b = base.rows.get(name), head.rows.get(name)
        kind = (b or a).kind
        if kind in ("peer", "skip"):
            continue
        if a is None or b is None:
            yield "%-34s %14s %14s" % (name, "%.1f" % a.ns if a else "-",
                                       "%.1f" % b.ns if b else "-")
            continue
        change = b.ns / a.ns - 1 if a.ns else 0.0
        limit = LIMITS.get(kind, float("inf"))
        mark = "  more" if change > limit else "  less" if change < -limit else ""
        yield "%-34s %14.1f %14.1f %+8.1f%%%s" % (name, a.ns, b.ns, 100 * change, mark)


def write(figures, out):
    out.write("# SPDX-License-Identifier: GPL-2.0\n"
              "# Guest instructions for each row of gpumem-bench: the median over times of\n"
              "# settling.  \"make bench-baseline\" writes this file, \"make bench\" reads it.\n")
    for key in KEYS + NOTES:
        out.write("#%s\t%s\n" % (key, figures.where.get(key, "-")))
    for r in figures.rows.values():
        if r.kind == "skip":
            continue
        out.write("%s\t%s\t%.2f\t%s\t%s\n" % (r.name, r.kind, r.ns, r.peer or "-",
                                              "%.2f" % r.bar if r.bar else "-"))
    out.write("end\n")


def report(old, new, out=sys.stdout):
    """Compare @new with the baseline @old; the exit status."""
    reasons = incomparable(old, new)
    if reasons:
        out.write("NOT COMPARED with %s, which was made elsewhere:\n" % old.source)
        out.writelines("  %s\n" % r for r in reasons)
        return INCOMPARABLE
    failures, remarks = check(old, new)
    out.writelines("note: %s\n" % x for x in notes(old, new) + remarks)
    out.writelines("FAILED: %s\n" % x for x in failures)
    gated = sum(r.kind in LIMITS for r in new.rows.values())
    if not gated:
        raise Unusable("%s has no row of ours" % new.source)
    out.write("%d figures compared with %s, %d failed\n" % (gated, old.source, len(failures)))
    return FAILED if failures else 0


def main(argv):
    verb, paths = argv[0] if argv else "", argv[1:]
    if verb == "check" and len(paths) >= 2:
        return report(parse(paths[0]), merge([parse(p) for p in paths[1:]]))
    if verb == "merge" and paths:
        write(merge([parse(p) for p in paths]), sys.stdout)
        return 0
    if verb == "diff" and len(paths) == 2:
        base, head = parse(paths[0]), parse(paths[1])
        reasons = incomparable(base, head)
        if reasons:
            print("NOT COMPARED:\n  " + "\n  ".join(reasons))
            return INCOMPARABLE
        print("\n".join(differences(base, head)))
        return 0
    if verb == "ratios" and len(paths) == 1:
        print("\n".join(table(parse(paths[0]), "ns")))
        return 0
    sys.stderr.write(__doc__)
    return UNUSABLE


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Unusable, OSError) as e:
        sys.stderr.write("compare.py: %s\n" % e)
        sys.exit(UNUSABLE)
