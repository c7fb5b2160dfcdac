#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The public headers are CUDA 13.3's interface, fact by fact.

The facts to compare are listed from libgpumem's own headers: every type, member, enumerator,
constant, mapped name, function signature and pointer type of cudaTypedefs.h.  One generated program
prints their values; it is compiled with libgpumem's headers and with CUDA's.  CUDA's answers are also recorded, in
selftests/golden/cuda_abi.tsv, so that the comparison happens where CUDA is not installed.
The record is CUDA 13.0's.  selftests/golden/documented-13.3 has what is newer, as documented; these
facts are compared with CUDA's headers only if those are of 13.3.
Signatures and nothing else need a C++ compiler: its mangled type names see through typedefs.

usage: abi_check [--record]     --record rewrites the golden file from CUDA's headers
CUDA's headers are looked for in $CUDA_HOME/include, /usr/local/cuda/include and /usr/include;
CC and CXX choose the compilers.
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
OURS = TOP / "libgpumem/include"
GOLDEN = TOP / "selftests/golden"
RECORD = GOLDEN / "cuda_abi.tsv"
KINDS = ("type", "member", "enum", "constant", "name", "thread", "function", "pointer")
HEADERS = ("cuda_base.h", "cuda_result.h", "cuda_attrs.h", "cuda_formats.h", "cuda_enums.h",
           "cuda_structs.h", "cuda_legacy.h", "cuda.h", "cudaGL.h", "cudaProfiler.h")
INCLUDES = "#include <cuda.h>\n#include <cudaGL.h>\n#include <cudaProfiler.h>\n" \
           "#include <cudaTypedefs.h>\n"
# Macros that are not constants of the interface.
NOT_CONSTANTS = re.compile(r"CU_PTDS|CU_PTSZ|CUDAAPI|CUDA_CB|CU_UUID_HAS_BEEN_DEFINED|GPUMEM_\w*|"
                           r"\w+_H|__cuda_cuda_h__")
RECORDED, DOCUMENTED = 13000, 13030     # the versions of the record and of the facts that are newer
CC = shlex.split(os.environ.get("CC", "gcc"))
CXX = shlex.split(os.environ.get("CXX", "g++"))


def strip_comments(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def members(body):
    """The member paths of a structure's body: nested members are a.b, anonymous ones just b."""
    tokens = re.findall(r"\w+|\[[^]]*\]|[{};*]", body)
    stack, last = [[]], None
    for token in tokens:
        if token == "{":
            stack.append([])
        elif token == "}":
            inner = stack.pop()
            stack[-1].append(inner)
            last = None
        elif token == ";":
            if stack[-1] and isinstance(stack[-1][-1], list):
                inner = stack[-1].pop()
                stack[-1] += [f"{last}.{name}" for name in inner] if last else inner
            if last:
                stack[-1].append(last)
            last = None
        elif token[0] not in "[*":
            last = token
    return stack[0]


def inventory():
    """List what our headers declare: {kind: [name...]}, members as (type, path)."""
    facts = {"type": [], "member": [], "enum": [], "constant": [], "name": [], "function": []}
    for header in HEADERS:
        text = strip_comments((OURS / header).read_text())
        for name, value in re.findall(r"^#define[ \t]+(\w+)(?:[ \t]+(.*))?$", text, flags=re.M):
            if value and not NOT_CONSTANTS.fullmatch(name):
                facts["constant"].append(name)
        text = re.sub(r"^#.*?(?<!\\)$", "", text, flags=re.M | re.S)
        for tag, body, name in re.findall(r"typedef enum (\w+) \{(.*?)\} (\w+);", text, flags=re.S):
            facts["type"].append(name)
            facts["enum"] += re.findall(r"(\w+)\s*=", body)
        for body, name in re.findall(r"^typedef (?:struct|union) \w+ \{\n(.*?)^\} (\w+);", text,
                                     flags=re.S | re.M):
            facts["type"].append(name)
            facts["member"] += [(name, path) for path in members(body)]
        for old, name in re.findall(r"^typedef ([^(){}]*?)[ *](\w+);", text, flags=re.M):
            facts["type"].append(name)
        facts["type"] += re.findall(r"^typedef [\w ]+\((?:CUDA_CB )?\*(\w+)\)", text, flags=re.M)
        facts["function"] += re.findall(r"^CUresult CUDAAPI (\w+)\(", text, flags=re.M)
        for suffix, name in re.findall(r"^CU_PT(DS|SZ)\((\w+),", text, flags=re.M):
            facts["function"] += [name, f"{name}_pt{suffix.lower()}"]
    for header in ("cuda_names.h", "cudaGL.h"):
        facts["name"] += re.findall(r"^#define (cu[A-Z]\w+)\s", (OURS / header).read_text(), flags=re.M)
    # A name that maps to a function of ours in per-thread programs is the same in CUDA's only in
    # effect; its signature is among the functions.
    facts["constant"] = [c for c in facts["constant"] if not c.startswith("cu")]
    facts["pointer"] = [name for name, version in re.findall(
        r"\b(PFN_\w+?_v(\d+)(?:_pt[ds][sz])?)\)\(", (OURS / "cudaTypedefs.h").read_text())
        if int(version) <= RECORDED]
    facts["name"] = [n for n in facts["name"] if n not in ("cuGetProcAddress", "cuGetProcAddress_v2")]
    return {kind: sorted(set(names)) for kind, names in facts.items()}


def layout_program(facts):
    lines = [INCLUDES, "#include <stddef.h>\n#include <stdio.h>\nint main(void)\n{"]
    for name in facts["type"]:
        lines.append(f'printf("type\\t{name}\\t%zu %zu\\n", sizeof({name}), _Alignof({name}));')
    for name, path in facts["member"]:
        lines.append(f'printf("member\\t{name}.{path}\\t%zu %zu\\n", offsetof({name}, {path}), '
                     f"sizeof((({name} *)0)->{path}));")
    for kind in ("enum", "constant"):
        for name in facts[kind]:
            lines.append(f'printf("{kind}\\t{name}\\t%lld\\n", (long long)({name}));')
    return "\n".join(lines + ["return 0;", "}", ""])


def name_program(facts, kind):
    lines = [INCLUDES, "#include <stdio.h>\n#define TEXT(x) #x\n#define EXPAND(x) TEXT(x)\n"
                       "int main(void)\n{"]
    for name in facts["name"]:
        lines.append(f'printf("{kind}\\t{name}\\t%s\\n", EXPAND({name}));')
    return "\n".join(lines + ["return 0;", "}", ""])


def signature_program(facts):
    lines = [INCLUDES, "#include <cstdio>\n#include <typeinfo>\nint main()\n{"]
    for name in facts["function"]:
        lines.append(f'std::printf("function\\t{name}\\t%s\\n", typeid(decltype({name})).name());')
    for name in facts["pointer"]:
        lines.append(f'std::printf("pointer\\t{name}\\t%s\\n", typeid({name}).name());')
    return "\n".join(lines + ["return 0;", "}", ""])


class BuildError(Exception):
    pass


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise BuildError(f"{' '.join(map(str, command[:4]))} ...\n{done.stderr[:4000]}")
    return done.stdout


def collect(include, facts, work, tag):
    """Compile the programs with the headers in include; return {kind: {name: value}}."""
    values = {}
    jobs = [("layout", layout_program(facts), CC + ["-std=gnu11", "-w"], ["-D__CUDA_API_VERSION_INTERNAL"]),
            ("name", name_program(facts, "name"), CC + ["-std=gnu11", "-w"], []),
            ("thread", name_program(facts, "thread"), CC + ["-std=gnu11", "-w"],
             ["-DCUDA_API_PER_THREAD_DEFAULT_STREAM"])]
    if shutil.which(CXX[0]):
        jobs.append(("function", signature_program(facts), CXX + ["-std=c++11", "-w"],
                     ["-D__CUDA_API_VERSION_INTERNAL"]))
    for job, text, compiler, flags in jobs:
        suffix = "cc" if job == "function" else "c"
        source, program = work / f"{tag}-{job}.{suffix}", work / f"{tag}-{job}"
        source.write_text(text)
        run([*compiler, *flags, f"-I{include}", f"-I{work}/gl", str(source), "-o", str(program)])
        for line in run([str(program)]).splitlines():
            kind, name, value = line.split("\t")
            values.setdefault(kind, {})[name] = value
    return values


def read_facts(path):
    values = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            kind, name, value = line.split("\t")
            values.setdefault(kind, {})[name] = value
    return values


def documented(record):
    """The facts that are newer than a record."""
    return read_facts(GOLDEN / "documented-13.3" / record.name)


def without(facts, newer):
    """Lists of facts without those that an older CUDA lacks."""
    def old(kind, fact):
        name = f"{fact[0]}.{fact[1]}" if isinstance(fact, tuple) else fact
        return name not in newer.get(kind, {})
    return {kind: [f for f in names if old(kind, f)] for kind, names in facts.items()}


def find_cuda():
    places = [os.environ.get("CUDA_HOME"), "/usr/local/cuda", "/usr"]
    for place in filter(None, places):
        header = pathlib.Path(place) / "include/cuda.h"
        if not header.exists():
            continue
        text = header.read_text(errors="replace")
        version = re.search(r"^#define CUDA_VERSION\s+(\d+)", text, flags=re.M)
        if version and "GPUMEM_CUDA" not in text and "cuda_names.h" not in text:
            return header.parent, int(version.group(1))
    return None, None


class Tap:
    def __init__(self):
        self.number, self.counts = 0, {"passed": 0, "failed": 0, "skipped": 0}
        print("TAP version 13", flush=True)

    def result(self, ok, what, details=()):
        self.number += 1
        self.counts["passed" if ok else "failed"] += 1
        print(f"{'ok' if ok else 'not ok'} {self.number} - {what}")
        for line in [] if ok else list(details)[:40]:
            print(f"# {line}")

    def skip(self, what, why):
        self.number += 1
        self.counts["skipped"] += 1
        print(f"ok {self.number} - {what} # SKIP {why}")

    def finish(self):
        print(f"1..{self.number}")
        print(", ".join(f"{n} {word}" for word, n in self.counts.items()))
        return 1 if self.counts["failed"] else 0


def compare(tap, kind, ours, theirs, whose):
    mine, other = ours.get(kind, {}), theirs.get(kind, {})
    details = [f"{name}: ours {mine.get(name, 'missing')}, {whose} {other.get(name, 'missing')}"
               for name in sorted(set(mine) | set(other)) if mine.get(name) != other.get(name)]
    tap.result(bool(mine) and not details, f"{len(mine)} facts about {kind}s agree with {whose}", details)


def split_errors(lines, newer):
    """Lines of errors that the record may have, and of those that are newer."""
    new = [line for line in lines if not line.startswith("#") and line.split("\t")[1] in newer]
    return [line for line in lines if line not in new], new


def check_new_errors(tap, lines, newer, prefix):
    have = {name: (code, text) for code, name, text in (line.split("\t") for line in lines)}
    wrong = [name for name, code in newer.items() if name.startswith(prefix) and
             (have.get(name, "")[:1] != (code,) or not have[name][1])]
    tap.result(bool(have) and not wrong, f"{len(have)} newer errors have names and texts", wrong)


def check_errors(tap, work):
    """libgpumem's names and texts of result codes, through the program that recorded them."""
    library, program = work / "liberror.so", work / "error_strings"
    try:
        run(CC + ["-std=gnu11", "-shared", "-fPIC", f"-I{OURS}", f"-I{TOP / 'libgpumem'}",
                  str(TOP / "libgpumem/core/error.c"), str(TOP / "libgpumem/driver/cu_error.c"),
                  "-o", str(library)])
        run(CC + [str(TOP / "selftests/oracle/record/error_strings.c"), "-ldl", "-o", str(program)])
        lines = run([str(program), str(library)]).splitlines()
    except BuildError as error:
        tap.result(False, "error names and texts", str(error).splitlines())
        return
    golden = [line for line in (GOLDEN / "error_strings.tsv").read_text().splitlines()
              if not line.startswith("#")]
    ours = [line for line in lines if not line.startswith("#")]
    newer = documented(RECORD)["enum"]
    ours, new = split_errors(ours, newer)
    tap.result(bool(ours) and ours == golden, f"{len(ours)} error names and texts are the recorded ones",
               sorted(set(ours) ^ set(golden)))
    check_new_errors(tap, new, newer, "CUDA_ERROR_")
    unknown = [line for line in lines if line.startswith("# cuGetError")]
    tap.result(len(unknown) == 4 and all("rc=1 text=NULL" in line for line in unknown),
               "unknown codes are refused and give no text", unknown)


def check_stand_alone(tap, work):
    """Each header compiles first, with all warnings, in C and in C++."""
    modes = [("C11", CC + ["-std=c11"]), ("C++11", CXX + ["-std=c++11"])]
    for language, compiler in modes:
        if not shutil.which(compiler[0]):
            tap.skip(f"headers in {language}", f"no {compiler[0]}")
            continue
        failures = []
        for header in ("cuda.h", "cudaGL.h", "cudaProfiler.h", "cudaTypedefs.h", "gpumem.h"):
            for flag in ("-DPLAIN", "-DCUDA_API_PER_THREAD_DEFAULT_STREAM", "-D__CUDA_API_VERSION_INTERNAL"):
                source = work / ("alone.cc" if language == "C++11" else "alone.c")
                source.write_text(f"#include <{header}>\n#include <{header}>\nint unused;\n")
                try:
                    run(compiler + ["-Wall", "-Wextra", "-Werror", flag, f"-I{OURS}", "-fsyntax-only",
                                    str(source)])
                except BuildError as error:
                    failures += [f"{header} {flag}"] + str(error).splitlines()[:8]
        tap.result(not failures, f"each header compiles alone in {language}", failures)


def record(cuda, version, facts, work):
    values = collect(cuda, facts, work, "cuda")
    lines = ["# SPDX-License-Identifier: GPL-2.0",
             "# What CUDA's own headers say about every fact of libgpumem's, by abi_check --record.",
             f"# CUDA_VERSION {version}, x86-64.  type: size alignment; member: offset size;",
             "# enum, constant: value; name, thread: the symbol a name means, without and with",
             "# CUDA_API_PER_THREAD_DEFAULT_STREAM; function, pointer: the mangled type."]
    for kind in KINDS:
        lines += [f"{kind}\t{name}\t{value}" for name, value in sorted(values[kind].items())]
    RECORD.write_text("\n".join(lines) + "\n")


def check_facts(tap, module, facts, cuda, version, work):
    """Our facts agree with the record, and with CUDA's headers where they are installed.

    False: ours do not compile.
    """
    kinds, newer = module.KINDS, documented(module.RECORD)
    golden = read_facts(module.RECORD)
    for kind, values in newer.items():
        golden.setdefault(kind, {}).update(values)
    try:
        ours = module.collect(OURS, facts, work, "ours")
    except BuildError as error:
        tap.result(False, "the facts compile with our headers", str(error).splitlines())
        return False
    for kind in kinds:
        if kind in ("function", "pointer", "channel") and kind not in ours:
            tap.skip(f"facts about {kind}s agree with the record", f"no C++ compiler ({CXX[0]})")
        else:
            compare(tap, kind, ours, golden, "the record")
    if not cuda or version not in (RECORDED, DOCUMENTED):
        why = "CUDA headers not installed" if not cuda else \
            f"{cuda} is CUDA {version}, not {RECORDED} or {DOCUMENTED}"
        print(f"# SKIP {pathlib.Path(sys.argv[0]).stem}: {why}")
        tap.skip("facts agree with CUDA's headers", why)
        return True
    try:
        if version == RECORDED:
            facts = without(facts, newer)
            ours = {kind: {n: v for n, v in values.items() if n not in newer.get(kind, {})}
                    for kind, values in ours.items()}
        theirs = module.collect(cuda, facts, work, "cuda")
        for kind in kinds:
            if kind in ours:
                compare(tap, kind, ours, theirs, "CUDA's headers")
    except BuildError as error:
        tap.result(False, "the facts compile with CUDA's headers", str(error).splitlines())
    return True


def command(module, facts, cuda, version, work):
    """The command line of abi_check or rt_abi_check: the exit status."""
    name = pathlib.Path(sys.argv[0]).stem
    if sys.argv[1:] == ["--record"]:
        if not cuda:
            sys.exit(f"{name}: CUDA's headers are not installed")
        module.record(cuda, version, without(facts, documented(module.RECORD)), work)
        return 0
    if sys.argv[1:]:
        sys.exit(module.__doc__)

    tap = Tap()
    if check_facts(tap, module, facts, cuda, version, work):
        module.check_stand_alone(tap, work)
        module.check_errors(tap, work)
    return tap.finish()


def main():
    facts = inventory()
    cuda, version = find_cuda()
    with tempfile.TemporaryDirectory(prefix="abi_check.") as directory:
        work = pathlib.Path(directory)
        # CUDA's cudaGL.h wants OpenGL's header for these two types alone.
        (work / "gl/GL").mkdir(parents=True)
        (work / "gl/GL/gl.h").write_text("typedef unsigned int GLenum;\ntypedef unsigned int GLuint;\n")
        return command(sys.modules[__name__], facts, cuda, version, work)


if __name__ == "__main__":
    sys.exit(main())
