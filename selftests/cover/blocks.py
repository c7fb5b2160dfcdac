# SPDX-License-Identifier: GPL-2.0
"""The instrumented blocks of a gpumem.ko, and which of them ran.

A module built with GPUMEM_KCOV=1 or GPUMEM_COV=1 calls __sanitizer_cov_trace_pc() at the start of
every basic block.  A *block* is such a call: its name is (section, address behind the call), the
address that KCOV and kmod/gpumem_cov.c report, and its code is what follows up to the next call
or the end of the function.  The compiler puts a function's blocks in any order but keeps each in
one piece, so this is the basic block and at most what belongs to it.

A *line* is a line of kmod/ that a block has an instruction of, directly or inlined.  It is
covered when one of its blocks ran.

Sections lie in memory as the kernel's module loader puts them: all core text together in the
order of the file, init text likewise (layout_sections() in kernel/module/main.c).
"""
import bisect
import collections
import os
import re
import subprocess

TRACE = "__sanitizer_cov_trace_pc"
RECORDER = "gpumem_cov.c"       # not itself instrumented


class Bad(Exception):
    """What was recorded and the module do not belong together, or one of them is unusable."""


def output(*command):
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode()
    except FileNotFoundError as e:
        raise Bad("%s: not installed (apt-get install binutils)" % e.filename) from e


class Block:
    """One instrumented block."""

    def __init__(self, section, pc, function):
        self.section, self.pc, self.function = section, pc, function
        self.code = []          # addresses of its instructions
        self.lines = set()      # (file, line) in kmod/


class Module:
    """All blocks of one .ko."""

    def __init__(self, ko):
        self.ko, self.blocks, self.by_name = ko, [], {}
        self.layout = {"text": [], "init": []}          # (offset, size, section)
        self.sections()
        for section in [s for part in self.layout.values() for _, _, s in part]:
            self.disassemble(section)
        if not self.blocks:
            raise Bad("%s is not instrumented" % ko)

    def sections(self):
        end = {"text": 0, "init": 0}
        for m in re.finditer(r"^\s*\d+ (\S+)\s+([0-9a-f]+) .* 2\*\*(\d+)\s+(.*)$",
                             output("objdump", "-h", "-w", self.ko), re.M):
            name, size, align, flags = m.group(1), int(m.group(2), 16), 1 << int(m.group(3)), \
                m.group(4)
            if "CODE" not in flags or "ALLOC" not in flags:
                continue
            part = "init" if name.startswith(".init") else "text"
            at = (end[part] + align - 1) & -align
            self.layout[part].append((at, size, name))
            end[part] = at + size

    def disassemble(self, section):
        function, block, last_call = None, None, False
        text = output("objdump", "-d", "-r", "-w", "--no-show-raw-insn", "-j", section, self.ko)
        for line in text.splitlines():
            m = re.match(r"[0-9a-f]+ <(.*)>:$", line)
            if m:
                function, block, pending = m.group(1), None, []
                continue
            m = re.match(r"\s*([0-9a-f]+):\t(\S+)(.*)$", line)
            if not m or function is None:
                continue
            at = int(m.group(1), 16)
            if last_call:
                block = Block(section, at, function)
                block.code += pending
                pending = []
                self.blocks.append(block)
            last_call = m.group(2).startswith("call") and TRACE in m.group(3)
            # A function's prologue belongs to its first block.
            (block.code if block else pending).append(at)
        self.by_name.update(((b.section, b.pc), b) for b in self.blocks if b.section == section)

    def find_lines(self, top):
        """Fill in .lines of all blocks."""
        kmod = os.path.join(os.path.realpath(top), "kmod") + os.sep
        for part in self.layout.values():
            for _, _, section in part:
                todo = [(at, b) for b in self.blocks if b.section == section for at in b.code]
                if not todo:
                    continue
                r = subprocess.run(["addr2line", "-a", "-i", "-j", section, "-e", self.ko],
                                   input="".join("%x\n" % at for at, _ in todo).encode(),
                                   stdout=subprocess.PIPE, check=True)
                i = -1
                for line in r.stdout.decode().splitlines():
                    if line.startswith("0x"):
                        i += 1
                        continue
                    path, _, number = line.partition(" ")[0].rpartition(":")
                    if not number.isdigit() or not path.startswith("/"):
                        continue
                    path = os.path.realpath(path)
                    if path.startswith(kmod) and not path.endswith(RECORDER):
                        todo[i][1].lines.add((path[len(kmod) - len("kmod/"):], int(number)))
        if not any(b.lines for b in self.blocks):
            raise Bad("%s has no line numbers of %s" % (self.ko, kmod))

    def at(self, part, offset):
        """The block that reports @offset of the core or init text."""
        parts = self.layout[part]
        i = bisect.bisect(parts, (offset, 1 << 62, "")) - 1
        b = self.by_name.get((parts[i][2], offset - parts[i][0])) if i >= 0 else None
        if not b:
            raise Bad("no block of %s ends its call at %s+%#x: another build?"
                      % (self.ko, part, offset))
        return b

    def functions(self):
        """{function: [block...]}."""
        by = collections.OrderedDict()
        for b in self.blocks:
            by.setdefault(b.function, []).append(b)
        return by


def from_log(module, text):
    """(blocks, reports): what the recorder wrote into a kernel log."""
    hit, reports = set(), 0
    for m in re.finditer(r"gpumem-cov: (text|init) ([0-9a-f]+)((?: \+[0-9a-f]+)*)", text):
        at = int(m.group(2), 16)
        hit.add(module.at(m.group(1), at))
        for step in m.group(3).split():
            at += int(step[1:], 16)
            hit.add(module.at(m.group(1), at))
        reports += m.group(1) == "init"
    return hit, reports


def ranges(numbers):
    """[3, 4, 5, 9] as "3-5, 9"."""
    out = []
    for n in sorted(numbers):
        if out and n == out[-1][1] + 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return ", ".join("%d" % a if a == b else "%d-%d" % (a, b) for a, b in out)
