#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The public headers of the runtime API are CUDA 13.3's interface, fact by fact.

As abi_check.py does for the driver API: the facts are listed from libgpumem's own headers, one
generated program prints their values with libgpumem's headers and with CUDA's, and CUDA's answers
are recorded, in selftests/golden/cuda_rt_abi.tsv; what is newer than 13.0 is as documented.  Types are written as programs write them
("enum cudaLimit", "struct cudaExtent").  Only the names without _ptds and _ptsz are declared in
CUDA's headers; which of them a name means in per-thread programs is a fact of kind "thread".

The names and texts of errors are compared with rt_error_strings.tsv, whatever headers there are.

usage: rt_abi_check [--record]     --record rewrites the golden file from CUDA's headers
"""
import pathlib
import re
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
import abi_check  # noqa: E402
from abi_check import CC, CXX, GOLDEN, OURS, TOP, BuildError, members, run  # noqa: E402

HEADERS = ("cuda_rt_enums.h", "cuda_rt_types.h", "cuda_rt_arrays.h", "cuda_rt_external.h",
           "cuda_runtime_api.h", "cuda_profiler_api.h", "device_types.h", "library_types.h",
           "vector_types.h", "vector_functions.h", "driver_functions.h", "texture_types.h",
           "surface_types.h")
# Headers that programs include by their names.
NAMED = ("cuda_runtime_api.h", "cuda_runtime.h", "cuda_profiler_api.h", "builtin_types.h",
         "channel_descriptor.h", "device_types.h", "driver_functions.h", "driver_types.h",
         "host_defines.h", "library_types.h", "surface_types.h", "texture_types.h",
         "vector_functions.h", "vector_types.h")
INCLUDES = "".join(f"#include <{name}.h>\n" for name in (
    "cuda_runtime_api", "cuda_profiler_api", "library_types", "vector_functions", "driver_functions",
    "texture_types", "surface_types"))
RECORD = GOLDEN / "cuda_rt_abi.tsv"
KINDS = ("type", "member", "enum", "constant", "thread", "function", "channel")
NOT_CONSTANTS = re.compile(r"CUDARTAPI|CUDART_CB|CU_UUID_HAS_BEEN_DEFINED|GPUMEM_\w*|\w+_H_*|__dv|"
                           r"cudaStreamAttr(ID|Value)")


def inventory():
    facts = {kind: [] for kind in KINDS}
    for header in HEADERS:
        text = abi_check.strip_comments((OURS / header).read_text())
        for name, value in re.findall(r"^#define[ \t]+(\w+)(?:[ \t]+(.*))?$", text, flags=re.M):
            if value and not NOT_CONSTANTS.fullmatch(name):
                facts["constant"].append(name)
        text = re.sub(r"^#(?:[^\n]*\\\n)*[^\n]*$", "", text, flags=re.M)
        for name, body in re.findall(r"^enum (\w+) \{(.*?)\};", text, flags=re.S | re.M):
            facts["type"].append(f"enum {name}")
            facts["enum"] += re.findall(r"(\w+)\s*=", body)
        for word, tag, body, name in re.findall(
                r"^(?:typedef )?(struct|union) (\w+) \{\n(.*?)^\}(?: (\w+))?;", text, flags=re.S | re.M):
            if tag == "CUuuid_st":
                continue
            kind = name or f"{word} {tag}"
            facts["type"].append(kind)
            facts["member"] += [(kind, path) for path in members(body)]
        for old, name in re.findall(r"^typedef ([^(){}]*?)[ *](cuda\w+);", text, flags=re.M):
            if old != "struct cudaGraphEdgeData_st":
                facts["type"].append(name)
        facts["type"] += re.findall(r"^typedef [\w ]+\((?:CUDART_CB )?\*(\w+)\)", text, flags=re.M)
        for count, name in re.findall(r"^GPUMEM_VECTOR_([1-4])\((\w+),", text, flags=re.M):
            facts["type"].append(name)
            facts["member"] += [(name, path) for path in "xyzw"[:int(count)]]
        facts["function"] += [f"make_{name}" for name in
                              re.findall(r"^GPUMEM_MAKE_[1-4]\((\w+),", text, flags=re.M)]
        facts["function"] += re.findall(r"^static inline [\w ]+ (make_\w+)\(", text, flags=re.M)
        facts["function"] += re.findall(r"^[\w *]+\bCUDARTAPI (\w+)\(", text, flags=re.M)
        facts["function"] += re.findall(r"^CUDART_PT(?:DS|SZ)\((\w+),", text, flags=re.M)
    facts["thread"] = facts["function"]
    # What cudaCreateChannelDesc<> has a description for, and types for which it has none.
    text = (OURS / "channel_descriptor.h").read_text()
    facts["channel"] += ["char", "long", "double", "float3", "dim3"]
    for scalar, vector in re.findall(r"^GPUMEM_CHANNELS_1\(([\w ]+), (\w+),", text, flags=re.M):
        facts["channel"] += [scalar] + [f"{vector}{n}" for n in (1, 2, 4)]
    facts["channel"] += [f"cudaChannelFormatKind{name}" for name in
                         re.findall(r"^GPUMEM_CHANNELS_KIND\(.*, (\w+)\)$", text, flags=re.M)]
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


def thread_program(facts):
    lines = [INCLUDES, "#include <stdio.h>\n#define TEXT(x) #x\n#define EXPAND(x) TEXT(x)\n"
                       "int main(void)\n{"]
    for name in facts["thread"]:
        lines.append(f'printf("thread\\t{name}\\t%s\\n", EXPAND({name}));')
    return "\n".join(lines + ["return 0;", "}", ""])


def signature_program(facts):
    lines = [INCLUDES, "#include <cstdio>\n#include <typeinfo>\nint main()\n{"]
    for name in facts["function"]:
        lines.append(f'std::printf("function\\t{name}\\t%s\\n", typeid(decltype({name})).name());')
    return "\n".join(lines + ["return 0;", "}", ""])


def channel_program(facts):
    """The function that the templates call is the program's own: it is linked with no library."""
    lines = [INCLUDES, "#include <channel_descriptor.h>\n#include <cstdio>\n"
             "cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind f)\n"
             "{\ncudaChannelFormatDesc d = { x, y, z, w, f };\nreturn d;\n}\n"
             "static void print(const char *name, cudaChannelFormatDesc d)\n{\n"
             'std::printf("channel\\t%s\\t%d %d %d %d %d\\n", name, d.x, d.y, d.z, d.w, d.f);\n}\n'
             "int main()\n{"]
    for name in facts["channel"]:
        lines.append(f'print("{name}", cudaCreateChannelDesc<{name}>());')
    for name in ("Half", "Half1", "Half2", "Half4", "NV12"):
        lines.append(f'print("{name}", cudaCreateChannelDesc{name}());')
    return "\n".join(lines + ["return 0;", "}", ""])


def collect(include, facts, work, tag):
    """Compile the programs with the headers in include; return {kind: {name: value}}."""
    values = {}
    jobs = [("layout", layout_program(facts), CC + ["-std=gnu11", "-w"], []),
            ("thread", thread_program(facts), CC + ["-std=gnu11", "-w"],
             ["-DCUDA_API_PER_THREAD_DEFAULT_STREAM"])]
    if shutil.which(CXX[0]):
        jobs.append(("function", signature_program(facts), CXX + ["-std=c++11", "-w"], []))
        jobs.append(("channel", channel_program(facts), CXX + ["-std=c++11", "-w"], []))
    for job, text, compiler, flags in jobs:
        source = work / f"{tag}-{job}.{'cc' if job in ('function', 'channel') else 'c'}"
        program = work / f"{tag}-{job}"
        source.write_text(text)
        run([*compiler, *flags, f"-I{include}", str(source), "-o", str(program)])
        for line in run([str(program)]).splitlines():
            kind, name, value = line.split("\t")
            values.setdefault(kind, {})[name] = value
    return values


def find_cuda():
    """CUDA's include directory and its version, if it has the runtime's header, too."""
    cuda, version = abi_check.find_cuda()
    if cuda and not (cuda / "cuda_runtime_api.h").exists():
        return None, None
    return cuda, version


def record(cuda, version, facts, work):
    values = collect(cuda, facts, work, "cuda")
    lines = ["# SPDX-License-Identifier: GPL-2.0",
             "# What CUDA's own headers say about every fact of libgpumem's runtime headers, by",
             "# rt_abi_check --record.",
             f"# CUDART_VERSION {version}, x86-64.  type: size alignment; member: offset size;",
             "# enum, constant: value; thread: the symbol a name means with",
             "# CUDA_API_PER_THREAD_DEFAULT_STREAM; function: the mangled type; channel: bits and kind of",
             "# cudaCreateChannelDesc<name>()."]
    for kind in KINDS:
        lines += [f"{kind}\t{name}\t{value}" for name, value in sorted(values[kind].items())]
    RECORD.write_text("\n".join(lines) + "\n")


def check_errors(tap, work):
    """Names and texts of errors, through the program that recorded them."""
    library, program = work / "libcudart.so", work / "rt_error_strings"
    try:
        run(CC + ["-std=gnu11", "-shared", "-fPIC", f"-I{OURS}", f"-I{TOP}/libgpumem",
                  str(TOP / "libgpumem/runtime/cuda_rt_error.c"), "-Wl,-z,lazy", "-o", str(library)])
        run(CC + [str(TOP / "selftests/oracle/record/rt_error_strings.c"), "-ldl", "-o", str(program)])
        lines = run([str(program), str(library)]).splitlines()
    except BuildError as error:
        tap.result(False, "error names and texts", str(error).splitlines())
        return
    golden = (GOLDEN / "rt_error_strings.tsv").read_text().splitlines()
    golden = [line for line in golden if line[0] != "#" or line.startswith(("# 19999:", "# -1:"))]
    newer = abi_check.documented(RECORD)["enum"]
    lines, new = abi_check.split_errors(lines, newer)
    tap.result(len(lines) > 100 and lines == golden,
               f"{len(lines)} error names and texts are the recorded ones",
               sorted(set(lines) ^ set(golden)))
    abi_check.check_new_errors(tap, new, newer, "cudaError")


def check_stand_alone(tap, work):
    """Each header compiles first, with all warnings, in C and in C++, and beside cuda.h."""
    for language, compiler in (("C11", CC + ["-std=c11"]), ("C++11", CXX + ["-std=c++11"])):
        if not shutil.which(compiler[0]):
            tap.skip(f"headers in {language}", f"no {compiler[0]}")
            continue
        failures = []
        for header in NAMED:
            for flag in ("-DPLAIN", "-DCUDA_API_PER_THREAD_DEFAULT_STREAM"):
                for first, last in (("", ""), ("#include <cuda.h>\n", ""), ("", "#include <cuda.h>\n")):
                    source = work / ("alone.cc" if language == "C++11" else "alone.c")
                    source.write_text(f"{first}#include <{header}>\n#include <{header}>\n{last}int unused;\n")
                    try:
                        run(compiler + ["-Wall", "-Wextra", "-Werror", flag, f"-I{OURS}",
                                        "-fsyntax-only", str(source)])
                    except BuildError as error:
                        failures += [f"{header} {flag}"] + str(error).splitlines()[:8]
        tap.result(not failures, f"each header compiles alone and beside cuda.h in {language}", failures)


def main():
    facts = inventory()
    cuda, version = find_cuda()
    with tempfile.TemporaryDirectory(prefix="rt_abi_check.") as directory:
        work = pathlib.Path(directory)
        return abi_check.command(sys.modules[__name__], facts, cuda, version, work)


if __name__ == "__main__":
    sys.exit(main())
