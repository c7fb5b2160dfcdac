#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What a run of the tests says about the functions that CUDA's documents name.

  status.py --check [FUNCTIONS]
                           does selftests/functions.tsv, or FUNCTIONS, fit the library and the tests?
  status.py --from LOG [TABLE]
                           write Documentation/status.md, or TABLE, from the output of "make check"

selftests/functions.tsv has a row for each function of each document, and the cases that exercise
it: globs of program.case, where the cases of t_oracle.sh are the conformance program's groups.  A
function is supported unless the library's list of symbols calls it absent.  It is tested if each
of its globs names a case that ran and passed in this run, and none of the cases that they name
failed in any mode or on any kernel.  A group of which a part is not compared yet has not passed.

"make check" writes the table at its end, when it ran all that there is.
"""
import fnmatch
import glob
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.realpath(__file__)))))
FUNCTIONS = "selftests/functions.tsv"
TABLE = "Documentation/status.md"
ORACLE = "t_oracle.sh"

TITLE = re.compile(r"^# (t_[\w.]+)(?: \(.*\))?$")
RESULT = re.compile(r"^(not )?ok \d+ (?:- )?([^ #]+)(.*)$")
# Results that run_kselftest.sh adds: leftovers, complaints of the kernel, too many seconds.
BROKEN = re.compile(r"^not ok (t_\w+(?:\.sh)?)\b")
STEP = re.compile(r"^== (\S+)$")
# Exported functions about memory, by words of their names. Each needs a row, and so does each of cuFile.
MEMORY = re.compile(r"cu(da)?\w*(Mem|Malloc|Alloc|Free|Array|Mipmap|Pointer|Ipc|External|Peer|P2P|Multicast|"
                    r"LogicalEndpoint|SymbolAddress|SymbolSize|AsyncNotification|HostRegister|HostUnregister|HostGet|"
                    r"WaitValue|WriteValue)|cuFile")
# What such a word does not make a function about memory: code, graphs, textures, graphics, shared memory of kernels,
# logs, checkpoints and atomic operations.
OTHER = re.compile(r"cu(da)?(Graph|Tex|Surf|EGL|GL|VDPAU|Library|Link|Module|Func|Occupancy|Logs|Checkpoint|"
                   r"\w*GraphMem|\w*SharedMem|\w*AtomicCapabilities)")


def path(name):
    return os.path.join(TOP, name)


def rows_of(name):
    with open(path(name), encoding="utf-8") as f:
        return [line.rstrip("\n").split("\t") for line in f
                if line.strip() and not line.startswith("#")]


def functions(name=FUNCTIONS):
    """[(document, function, [glob...])...]"""
    rows = rows_of(name)
    for row in rows:
        if len(row) != 3 or not row[2].split():
            sys.exit("%s: not 'document<TAB>function<TAB>globs': %s" % (name, row[:2]))
    return [(document, name, globs.split()) for document, name, globs in rows]


def statuses():
    """{symbol: status}"""
    return {row[0]: row[1] for name in ("symbols.txt", "runtime_symbols.txt", "cufile_symbols.txt")
            for row in rows_of("libgpumem/abi/" + name)}


def newest(name, known):
    """The symbol that today's headers mean by a name, or None."""
    versions = [n for n in known if re.fullmatch(re.escape(name) + r"(_v\d+)?", n)]
    return max(versions, default=None)


class Results:
    """What became of the cases of one run."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.passed, self.other, self.failed, self.broken = set(), set(), set(), set()
        self.program = None

    def feed(self, line):
        """Take a line of the output of run_kselftest.sh."""
        title, result, broken = TITLE.match(line), RESULT.match(line), BROKEN.match(line)
        if title:
            self.program = title.group(1)
        elif broken:
            self.broken.add(broken.group(1))
        elif result and self.program:
            name = "%s.%s" % (self.program, result.group(2).rstrip(":"))
            rest = result.group(3)
            if result.group(1):
                self.failed.add(name)
            elif " # SKIP" in rest or (self.program == ORACLE
                                       and re.search(r"\bnot (yet|reached)\b", rest)):
                self.other.add(name)
            else:
                self.passed.add(name)

    def forgive(self, programs):
        """Failures of these programs did not come again."""
        self.failed = {c for c in self.failed if not c.startswith(tuple(p + "." for p in programs))}
        self.broken -= programs

    def ran(self):
        return bool(self.passed)

    def named(self, pattern):
        cases = self.passed | self.other | self.failed
        return {c for c in cases if fnmatch.fnmatchcase(c, pattern)}

    def tested(self, globs):
        for pattern in globs:
            named = self.named(pattern)
            if not named & self.passed or named & self.failed:
                return False
            if any(fnmatch.fnmatchcase(c, b + ".*") for c in named for b in self.broken):
                return False
        return True


def write(results, table=None):
    """Write the table; return the globs that name no case of the run."""
    table = table or path(TABLE)
    known, unknown = statuses(), []
    lines = ["<!-- SPDX-License-Identifier: GPL-2.0 -->",
             "<!-- Made by \"make check\" from what it found; selftests/functions.tsv has the"
             " functions. -->", "# Functions by document", "",
             "A function is supported if the library has it.  Its test is passed if in the last run"
             " of", "`make check`, for each pattern that `selftests/functions.tsv` has for it, a case"
             " ran and passed,", "and none failed.", ""]
    last, counts = None, {}
    for document, name, globs in functions():
        if document != last:
            if last is not None:
                lines.append("")
            lines += ["## " + document, "", "| Function | Supported | Test Passed |",
                      "| --- | :---: | :---: |"]
            last = document
        supported = known.get(newest(name, known)) == "first"
        tested = supported and results.tested(globs)
        unknown += ["%s of %s" % (g, name) for g in globs if not results.named(g)]
        lines.append("| `%s` | %s | %s |" % (name, "✓" if supported else "✗",
                                             "✓" if tested else "✗"))
        total, good = counts.get(document, (0, 0))
        counts[document] = total + 1, good + tested
    lines += ["", "| Document | Functions | Tests passed |", "| --- | ---: | ---: |"]
    lines += ["| %s | %d | %d |" % (document, total, good)
              for document, (total, good) in counts.items()]
    with open(table + ".new", "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")
    os.rename(table + ".new", table)
    return unknown


def bodies():
    """({program: text}, {group of the conformance program: text})"""
    programs, groups = {}, {}
    for name in glob.glob(path("selftests/*/t_*.c")):
        with open(name, encoding="utf-8") as f:
            programs[os.path.basename(name)[:-2]] = f.read()
    for name in glob.glob(path("selftests/oracle/src/public_*.c")):
        with open(name, encoding="utf-8") as f:
            for part in re.split(r"^(?=GROUP\w*\()", f.read(), flags=re.M)[1:]:
                group = re.match(r"GROUP\w*\((\w+)", part)
                groups[group.group(1)] = part
    return programs, groups


def unlisted(known, listed):
    """The exported functions about memory that have no row, without suffixes of versions and threads."""
    names = {re.sub(r"_v\d+$", "", re.sub(r"_pt[ds][sz]$", "", symbol))
             for symbol, status in known.items() if status in ("first", "absent")}
    return sorted(n for n in names - listed if MEMORY.match(n) and not OTHER.match(n))


def check(table):
    """Every name and glob means something, the tests named call the function, and none is missing."""
    known, wrong, seen = statuses(), [], set()
    programs, groups = bodies()
    for document, name, globs in functions(table):
        if (document, name) in seen:
            wrong.append("%s: %s is there twice" % (document, name))
        seen.add((document, name))
        if not newest(name, known):
            wrong.append("%s is no function of the library" % name)
        for pattern in globs:
            program, _, case = pattern.partition(".")
            if pattern.startswith(ORACLE + "."):
                case = pattern[len(ORACLE) + 1:]
                text = "".join(t for g, t in groups.items() if fnmatch.fnmatchcase(g, case))
            else:
                text = programs.get(program, "")
            if not text:
                wrong.append("%s of %s names nothing" % (pattern, name))
            elif not re.search(r"\b%s(_v\d+)?(_pt[ds][sz])?\b" % re.escape(name), text):
                wrong.append("%s does not call %s" % (pattern, name))
    wrong += ["%s is in no row" % name for name in unlisted(known, {name for _, name in seen})]
    return wrong, len(seen)


def main():
    if sys.argv[1:2] == ["--check"] and len(sys.argv) <= 3:
        table = os.path.abspath(sys.argv[2]) if len(sys.argv) == 3 else FUNCTIONS
        wrong, count = check(table)
        for text in wrong:
            print("# " + text)
        print("%s: %d functions" % (table, count))
        return 1 if wrong else 0
    if len(sys.argv) in (3, 4) and sys.argv[1] == "--from":
        results, inside = Results(), False
        with open(sys.argv[2], encoding="utf-8", errors="replace") as f:
            for line in f:
                step = STEP.match(line)
                if step:
                    inside = step.group(1).startswith("kselftest")
                elif inside:
                    results.feed(line.rstrip("\r\n"))
        if not results.ran():
            sys.exit("%s: no test ran" % sys.argv[2])
        for text in write(results, *sys.argv[3:]):
            print("%s names no case that ran" % text)
        return 0
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main())
