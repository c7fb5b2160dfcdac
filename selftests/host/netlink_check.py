#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The netlink family: Documentation/netlink/gpumem.yaml, the header and the module agree.

From the specification follows, by the rules of the kernel's ynl-gen-c, what the header has to
define and which policies and operations the module has to have.  Both are compared line by line,
so a number, a name, a type or an operation that is in one of them alone is a failure.  The last
case changes the specification in several ways and sees each of them noticed.
"""
import copy
import os
import re
import sys

import yaml

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SPEC = "Documentation/netlink/gpumem.yaml"
HEADER = "uapi/linux/gpumem_netlink.h"
SOURCE = "kmod/gpumem_netlink.c"
# Refuses all attributes: kernels differ in what they do without a policy.
NONE = "gpumem_no_nl_policy"
# The policy type of a request's attribute; a "pad" cannot be in a request.
NLA = {"u8": "NLA_U8", "u16": "NLA_U16", "u32": "NLA_U32", "u64": "NLA_U64", "s32": "NLA_S32",
       "flag": "NLA_FLAG", "string": "NLA_NUL_STRING"}
# How the module puts an attribute into a message.
PUT = {"u32": "nla_put_u32", "s32": "nla_put_s32", "u64": "nla_put_u64_64bit", "flag":
       "nla_put_flag", "string": "nla_put_string", "binary": "nla_put"}


def read(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as f:
        return f.read()


def upper(*words):
    return "_".join(words).upper().replace("-", "_")


def lower(*words):
    return upper(*words).lower()


def constants(spec):
    """Name and value of everything that the header defines."""
    name, found = spec["name"], {}
    for d in spec["definitions"]:
        for i, e in enumerate(d["entries"]):
            value = d.get("value-start", 0) + i
            found[upper(name, d["name"], e["name"])] = 1 << i if d["type"] == "flags" else value
    for s in spec["attribute-sets"]:
        for i, a in enumerate(s["attributes"]):
            found[upper(name, "a", s["name"], a["name"])] = i + 1
        found[upper(name, "a", s["name"], "max")] = len(s["attributes"])
    ops = spec["operations"]
    for i, o in enumerate(ops["list"]):
        found[upper(ops["name-prefix"] + o["name"])] = i + 1
    found[upper(ops["name-prefix"] + "max")] = len(ops["list"])
    return found


def header_constants(text):
    """The same from the header: the enums' members, counted as C does."""
    text, found = re.sub(r"/\*.*?\*/", "", text, flags=re.S), {}
    for body in re.findall(r"enum\s*\w*\s*\{(.*?)\}", text, re.S):
        value = -1
        for item in filter(None, (i.strip() for i in body.split(","))):
            name, _, expression = (x.strip() for x in item.partition("="))
            if expression.startswith("("):
                value = found[re.match(r"\((\w+) - 1\)", expression).group(1)] - 1
            else:
                value = int(expression, 0) if expression else value + 1
            found[name] = value
    return {k: v for k, v in found.items() if not k.startswith("__")}


def docs(spec):
    """The kernel-doc of each enum, without line breaks."""
    for d in spec["definitions"]:
        lines = ["enum %s - %s" % (lower(spec["name"], d["name"]), d["doc"])]
        lines += ["@%s: %s" % (upper(spec["name"], d["name"], e["name"]), e["doc"])
                  for e in d["entries"]]
        yield " ".join(lines)


def policies(spec):
    """Each request's policy, its operation table, as the module must have them."""
    name, prefix = spec["name"], spec["operations"]["name-prefix"]
    types = {(s["name"], a["name"]): a["type"] for s in spec["attribute-sets"]
             for a in s["attributes"]}
    policy, table = [], []
    for o in spec["operations"]["list"]:
        for kind in ("do", "dump"):
            if kind not in o:
                continue
            asked = (o[kind].get("request") or {}).get("attributes", [])
            cmd, func = upper(prefix + o["name"]), lower(name, "nl", o["name"])
            fields = [".cmd = %s" % cmd]
            if "pre" in o[kind]:
                fields.append(".start = " + lower(o[kind]["pre"]))
            fields.append(".%sit = %s_%sit" % (kind, func, kind))
            if "post" in o[kind]:
                fields.append(".done = " + lower(o[kind]["post"]))
            if asked:
                names = [upper(name, "a", o["attribute-set"], a) for a in asked]
                var = lower(name, o["name"], "nl-policy")
                policy.append("static const struct nla_policy %s[%s + 1] = { %s };" % (
                    var, names[-1], " ".join("[%s] = { .type = %s, }," % (
                        n, NLA[types[o["attribute-set"], a]]) for n, a in zip(names, asked))))
                fields += [".policy = " + var, ".maxattr = " + names[-1]]
            else:
                fields += [".policy = " + NONE, ".maxattr = ARRAY_SIZE(%s) - 1" % NONE]
            flags = ["GENL_ADMIN_PERM"] if "admin-perm" in o.get("flags", []) else []
            fields.append(".flags = " + " | ".join(flags + ["GENL_CMD_CAP_" + kind.upper()]))
            table.append("{ %s, }," % ", ".join(fields))
    return policy, "gpumem_nl_ops[] = { %s };" % " ".join(table)


def missing_puts(spec, source):
    """Attributes of replies and events that the module does not put, or with another type."""
    types = {(s["name"], a["name"]): a["type"] for s in spec["attribute-sets"]
             for a in s["attributes"]}
    # Helpers that put several: the three of a memory, and the counters of a client.
    for attrs, put in ((("used", "orphaned", "lingering"), "gpumem_nl_put_mem"),):
        for s in ("device", "host"):
            if re.search(r"%s\(\w+, %s," % (put, upper("gpumem-a", s, attrs[0])), source):
                source += "".join(" nla_put_u64_64bit(x, %s, " % upper("gpumem-a", s, a)
                                  for a in attrs)
    source += "".join(" nla_put_u64_64bit(x, GPUMEM_A_CLIENT_%s, " % a
                      for a in re.findall(r"GPUMEM_NL_COUNTER\((\w+), \w+\),", source))
    for o in spec["operations"]["list"]:
        sent = set()
        for kind in ("do", "dump"):
            sent |= set(((o.get(kind) or {}).get("reply") or {}).get("attributes", []))
        sent |= set((o.get("event") or {}).get("attributes", []))
        for a in sorted(sent):
            attr = upper(spec["name"], "a", o["attribute-set"], a)
            if not re.search(r"\b%s\(\w+, %s\b" % (PUT[types[o["attribute-set"], a]], attr),
                             source):
                yield "%s is not put with %s" % (attr, PUT[types[o["attribute-set"], a]])


def compare(spec, header, source):
    """Complaints by case."""
    squeezed = re.sub(r"\s+", " ", source)
    text = re.sub(r"\s+", " ", re.sub(r"^ \* ?", " ", header, flags=re.M))
    want, have = constants(spec), header_constants(header)
    numbers = ["%s is %s in the specification, %s in the header" % (
        n, want.get(n), have.get(n)) for n in sorted(set(want) | set(have))
        if want.get(n) != have.get(n)]
    strings = {upper(spec["name"], "family-name"): spec["name"]}
    for g in spec["mcast-groups"]["list"]:
        strings[upper(spec["name"], "mcgrp", g["name"])] = g["name"]
    names = ["#define %s \"%s\" is not in the header" % s for s in strings.items()
             if "#define %s \"%s\"" % s not in text]
    names += ["the header does not say: " + d for d in docs(spec) if d not in text]
    policy, table = policies(spec)
    ops = ["the module does not have: " + p for p in policy + [table] if p not in squeezed]
    extra = set(re.findall(r"struct nla_policy (\w+)\[", source)) - \
        {re.search(r"nla_policy (\w+)\[", p).group(1) for p in policy} - {NONE}
    ops += ["the specification has no policy %s" % e for e in sorted(extra)]
    for o in spec["operations"]["list"]:
        group = o.get("mcgrp")
        if group and "[%s] = { .name = %s," % (upper(spec["name"], "nlgrp", group), upper(
                spec["name"], "mcgrp", group)) not in squeezed:
            ops.append("the module has no group " + group)
    return {"numbers": numbers, "names": names, "operations": ops,
            "attributes": list(missing_puts(spec, squeezed))}


def mutations(spec):
    """Specifications that are wrong in one thing each, and the case that must notice."""
    def change(case, how):
        s = copy.deepcopy(spec)
        how(s)
        return case, s
    sets = {s["name"]: i for i, s in enumerate(spec["attribute-sets"])}
    client = sets["client"]
    yield change("numbers", lambda s: s["attribute-sets"][client]["attributes"].reverse())
    yield change("numbers", lambda s: s["operations"]["list"].reverse())
    yield change("numbers", lambda s: s["definitions"][2]["entries"].pop())
    yield change("names", lambda s: s["definitions"][1].update(doc="another"))
    yield change("names", lambda s: s["mcast-groups"]["list"][0].update(name="bounds"))
    yield change("operations", lambda s: s["attribute-sets"][client]["attributes"][1].update(
        type="u64"))
    yield change("operations", lambda s: s["operations"]["list"][2].update(flags=["admin-perm"]))
    yield change("operations", lambda s: s["operations"]["list"][0]["do"].pop("request"))
    yield change("attributes", lambda s: s["attribute-sets"][client]["attributes"][7].update(
        type="u32"))


def main():
    spec, failed = yaml.safe_load(read(SPEC)), 0
    header, source = read(HEADER), read(SOURCE)
    cases = compare(spec, header, source)
    cases["sensitive"] = ["change %d of the specification is not noticed by %s" % (i, case)
                          for i, (case, s) in enumerate(mutations(spec))
                          if not compare(s, header, source)[case]]
    for number, (case, complaints) in enumerate(cases.items()):
        for c in complaints:
            print("# " + c)
        print("%sok %d - netlink_check.%s" % ("not " if complaints else "", number + 1, case))
        failed += bool(complaints)
    print("%d passed, %d failed, 0 skipped" % (len(cases) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
