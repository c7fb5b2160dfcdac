# SPDX-License-Identifier: GPL-2.0
"""selftests/syzkaller/gpumem.txt against uapi/linux/gpumem.h.

Compared are: every ioctl has a call with its structure; every structure has the same members, in
the same order and of the same size, and marks as (out) exactly those that the header's comment
ends with ", out" (structures in memory that the client reads are all out); every member of an
enum is in the set of the enum's name; and nothing is described that is not in the header.

A name of the description that this cannot size is an error: no check passes for want of knowledge.
"""
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
BASE = {"int8": 1, "int16": 2, "int32": 4, "int64": 8, "vma64": 8, "fd": 4, "fd_dma_buf": 4}
CTYPE = {"__u8": 1, "__u16": 2, "__u32": 4, "__s32": 4, "__aligned_u64": 8}
# Structures that are no argument of an ioctl: the kernel alone writes them.
READ_ONLY = {"gpumem_timeline_page", "gpumem_notice"}
# Counters, whose comments tell what they count.
COUNTERS = {"gpumem_stats"}


def read(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as f:
        return f.read()


def constants(text):
    return {m.group(1): int(m.group(2), 0)
            for m in re.finditer(r"^#define\s+(GPUMEM_\w+)\s+(0x[0-9A-Fa-f]+|\d+)U?$", text, re.M)}


def header(text):
    """({struct: [(member, bytes)...]}, {struct: {out members}}, {enum: {names}}, {ioctl: struct})"""
    values, structs, outs, enums, ioctls = constants(text), {}, {}, {}, {}
    for m in re.finditer(r"(/\*\*(?:(?!\*/).)*\*/)\n(struct|enum) (\w+) \{(.*?)\n\};", text, re.S):
        doc, what, name, body = m.groups()
        if what == "enum":
            enums[name] = set(re.findall(r"^\t(GPUMEM_\w+)", body, re.M))
            continue
        members = []
        # The members of an anonymous union stand side by side, of one size.
        for u in re.split(r"(union \{.*?\};)", body, flags=re.S):
            these = [(d.group(2), CTYPE[d.group(1)] * (int(values.get(d.group(3), d.group(3)) or 1)
                                                       if d.group(3) else 1))
                     for d in re.finditer(r"^\t+(\w+) (\w+)(?:\[(\w+)\])?;$", u, re.M)]
            members += [("|".join(n for n, _ in these), these[0][1])] \
                if u.startswith("union") else these
        structs[name] = members
        outs[name] = {d.group(1) for d in
                      re.finditer(r"^ \* @(\w+):((?:(?!\n \* @|\n \*\n|\n \*/).)*)", doc, re.M | re.S)
                      if re.search(r", out\b", d.group(2))}
        if name in READ_ONLY:
            outs[name] = {n for n, _ in members}
        elif name in COUNTERS:
            outs[name] = {n for n, _ in members} - {"size", "flags"}
    for m in re.finditer(r"^#define (GPUMEM_\w+) _IO\(GPUMEM_IOC_TYPE, (\w+)\)$", text, re.M):
        before = text[:m.start()]
        ioctls[m.group(1)] = re.findall(r"^struct (\w+) \{", before, re.M)[-1]
    return structs, outs, enums, ioctls


def description(text):
    """({struct: [(member, type, out)...]}, {union: ...}, {set: {names}}, {call: (command, struct)},
    {resource: base})"""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    text = "\n".join(lines)
    structs, unions = {}, {}
    for m in re.finditer(r"^(\w+) ([{\[])\n(.*?)\n[}\]]$", text, re.M | re.S):
        members = []
        for line in m.group(3).splitlines():
            d = re.match(r"\t(\w+)\t+(\S+(?: \S+)*?)(\t+\(out\))?$", line)
            if not d:
                sys.exit("gpumem.txt: not understood: %s" % line)
            members.append((d.group(1), d.group(2), bool(d.group(3))))
        (structs if m.group(2) == "{" else unions)[m.group(1)] = members
    sets = {m.group(1): {w.strip() for w in m.group(2).split(",")}
            for m in re.finditer(r"^(\w+) = (.*)$", text, re.M)}
    calls = {m.group(1): (m.group(2), m.group(4), m.group(3)) for m in re.finditer(
        r"^ioctl\$(\w+)\(fd fd_gpumem, cmd const\[(\w+)\], arg ptr\[(in|inout), (\w+)\]\)$",
        text, re.M)}
    if len(calls) != len(re.findall(r"^ioctl\$", text, re.M)):
        sys.exit("gpumem.txt: an ioctl that is not understood")
    resources = dict(re.findall(r"^resource (\w+)\[(\w+)\]", text, re.M))
    return structs, unions, sets, calls, resources


class Sizer:
    """Bytes of a type in syzlang."""

    def __init__(self, unions, resources, values, sets):
        self.unions, self.resources, self.values, self.sets = unions, resources, values, sets

    def size(self, t):
        if t in BASE:
            return BASE[t]
        if t in self.resources:
            return self.size(self.resources[t])
        if t in self.unions:
            return max(self.size(u) for _, u, _ in self.unions[t])
        m = re.match(r"(int\d+)\[[-\d:x]+\]$", t)
        if m:
            return BASE[m.group(1)]
        m = re.match(r"flags\[(\w+), (int\d+)\]$", t)
        if m and m.group(1) in self.sets:
            return BASE[m.group(2)]
        m = re.match(r"(?:const|len)\[\w+, (int\d+)\]$", t)
        if m:
            return BASE[m.group(1)]
        m = re.match(r"array\[(.*), (\w+)\]$", t)
        if m:
            n = self.values.get(m.group(2), m.group(2))
            return self.size(m.group(1)) * int(n)
        raise ValueError("type %s is not known" % t)


def main():
    uapi, text = read("uapi/linux/gpumem.h"), read("selftests/syzkaller/gpumem.txt")
    structs, outs, enums, ioctls = header(uapi)
    described, unions, sets, calls, resources = description(text)
    sizer = Sizer(unions, resources, constants(uapi), sets)
    results = []

    def result(what, *wrong):
        results.append(not wrong)
        for w in wrong:
            print("# %s" % w)
        print("%s %d - %s" % ("not ok" if wrong else "ok", len(results), what))

    print("TAP version 13")
    for name, struct in sorted(ioctls.items()):
        command, arg, direction = calls.get(name, (None, None, None))
        wrong = []
        if command is None:
            wrong = ["no call ioctl$%s" % name]
        elif (command, arg) != (name, struct):
            wrong = ["ioctl$%s has %s and %s, not %s" % (name, command, arg, struct)]
        elif (direction == "inout") != bool(outs[struct]):
            wrong = ["ioctl$%s is %s" % (name, direction)]
        result("ioctl %s" % name, *wrong)
    result("no other ioctls", *["ioctl$%s" % n for n in sorted(set(calls) - set(ioctls))])
    for name, members in sorted(structs.items()):
        wrong, have = [], []
        for member, t, out in described.get(name, []):
            # One member of the header, or the members of its anonymous union.
            if t in unions and member.endswith("_or_" + unions[t][-1][0]):
                member = "|".join(n for n, _, _ in unions[t])
            try:
                have.append((member, sizer.size(t)))
            except ValueError as e:
                wrong.append("%s.%s: %s" % (name, member, e))
            if out != (member in outs[name]):
                wrong.append("%s.%s is %sout in the header"
                             % (name, member, "" if member in outs[name] else "not "))
        if name not in described:
            wrong = ["not described"]
        elif have != members:
            wrong.append("%s is %s, in the header %s" % (name, have, members))
        result("struct %s" % name, *wrong)
    result("no other structures", *sorted(set(described) - set(structs)))
    for name, members in sorted(enums.items()):
        wrong = ["%s: %s" % (name, n) for n in sorted(members ^ sets.get(name, set()))]
        result("enum %s" % name, *wrong)
    result("the header has been understood",
           *([] if len(ioctls) == len(re.findall(r"\b_IO\(", uapi)) and
             len(structs) == len(re.findall(r"^struct \w+ \{", uapi, re.M)) and
             len(enums) == len(re.findall(r"^enum \w+ \{", uapi, re.M)) and
             all(structs.values()) and all(enums.values()) else ["something was not"]))
    print("1..%d" % len(results))
    print("%d passed, %d failed, 0 skipped" % (sum(results), len(results) - sum(results)))
    return 0 if all(results) else 1


sys.exit(main())
