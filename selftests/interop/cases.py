# SPDX-License-Identifier: GPL-2.0
"""Cases of clients in the virtual machine, and their record.

NAME.tsv has a row for each case: program, case, outcome, what it must have reached of the device, and
why where the outcome is not "pass".  A case that does something else is a failure, also if it does
better; so are a case without a row and a row, of a program that ran, without a case.
"""
import json
import os
import re
import subprocess

import client

HERE = os.path.dirname(os.path.realpath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
OUTCOMES = ("pass", "skip", "kernels", "fail")
REACHED = ("nothing", "device", "memory")


class Unfit(Exception):
    """A client cannot be built or run, and why."""


class Record:
    """The rows of @table, and how the cases compare; @show prints the rows that the cases earn."""

    def __init__(self, table, only="", show=False):
        self.rows, self.done, self.total = {}, set(), [0, 0, 0]
        self.only, self.show = only, show
        with open(os.path.join(HERE, table), encoding="utf-8") as f:
            for line in f:
                if line.startswith("#"):
                    continue
                program, case, *row = (line.rstrip("\n").split("\t") + [""])[:5]
                if row[0] not in OUTCOMES or row[1] not in REACHED or (row[0] != "pass" and not row[2]):
                    raise Unfit("%s: %s %s" % (table, program, case))
                if only in program + " " + case:
                    self.rows[program, case] = row

    def result(self, good, what):
        self.total[not good] += 1
        print("%sok - %s" % ("" if good else "not ", what), flush=True)

    def skip(self, client, why):
        self.total[2] += 1
        print("ok - %s # SKIP %s" % (client, why), flush=True)

    def case(self, program, case, outcome, reached):
        self.done.add((program, case))
        row = self.rows.get((program, case))
        good = bool(row) and outcome == row[0] and REACHED.index(reached) >= REACHED.index(row[1])
        self.result(good, "%s %s%s" % (program, case,
                                       " (%s)" % row[0] if row and row[0] != "pass" else ""))
        if not good:
            print("# %s, reached %s; the row says %s" % (outcome, reached, row))

    def end(self, programs):
        for program, case in sorted(set(self.rows) - self.done):
            if program in programs:
                self.result(False, "%s %s ran" % (program, case))
        print("%d passed, %d failed, %d skipped" % tuple(self.total))
        return 1 if self.total[1] or not self.total[0] else 0

    def run(self, programs, out, build, libs, enter=(), options=()):
        """Run @programs in a guest with our libraries and @libs; @out is a directory for files.

        @enter, @options: a command that runs another one in a root disk, and the guest's options.  The "needs"
        of a program are paths that it reads: of /tmp the guest sees only what its command names.
        """
        witness = os.path.join(out, "witness.so")
        subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror",
                        "-I" + os.path.join(TOP, "uapi"), "-shared", "-fPIC", "-o", witness,
                        os.path.join(HERE, "witness.c")], check=True)
        path = [os.path.join(build, "compat"), os.path.join(build, "lib")] + libs
        plan = os.path.join(out, "plan.json")
        with open(plan, "w", encoding="utf-8") as f:
            json.dump({"only": self.only, "programs": programs, "env": {
                "LD_LIBRARY_PATH": ":".join(path), "LC_ALL": "C", "LD_PRELOAD": witness}}, f, indent=1)
        ended, status = False, None
        needs = sorted({path for p in programs for path in p.get("needs", ())})
        for line in client.guest(list(enter) + [os.path.join(HERE, "cases_guest.py"), plan] + needs,
                                 *options, vram="256M"):
            if isinstance(line, int):
                status = line
                break
            m = re.match(r"(not )?ok - (.*)", line)
            ended = ended or line.startswith("all of them")
            if m:
                self.result(not m.group(1), m.group(2))
            elif line.startswith("case\t"):
                if self.show:
                    print(line[len("case\t"):], flush=True)
                self.case(*line.split("\t")[1:])
            else:
                print(line, flush=True)
        self.result(ended and status == 0, "the virtual machine ends well")
