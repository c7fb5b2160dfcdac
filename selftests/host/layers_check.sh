#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The layers of libgpumem/: each folder is a layer with a header of its name, and a file includes its own
# layer and lower ones only.  UP below lists the functions that a layer calls and a higher layer defines, each
# with the reason.  Such a function is declared in a header of the lower layer, under a comment that names the
# file which defines it.
#
# usage: layers_check.sh [DIR]	DIR has libgpumem/ (default: this checkout)
set -u
top=${1:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${GPUMEM_BUILD:-${BUILD:-$top/build}}
exec python3 - "$top/libgpumem" "$build/obj/libgpumem" <<'EOF'
import glob
import os
import re
import subprocess
import sys

LAYERS = ["abi", "core", "address", "exec", "memory", "copy", "pool", "share", "driver"]
# They stand beside the layers: the runtime and file call public functions only, nvml the kernel only, video
# neither. The checker and the recorder include core/tap.h.
BESIDE = {"runtime": ["abi"], "nvml": ["abi"], "video": [], "file": [],
          "check": ["core"], "record": ["abi", "core"]}
UNNAMED = ("abi", "nvml", "video")      # no header of the folder's name: lists of symbols, private header
# Calls that go up, and why.  Do not add one where the function can move down or be passed from above.
UP = {
    "arrays_end": "a context ends, and arrays end with it; a table of functions would hide which",
    "externals_end": "a context ends, and its external memories are freed; the same",
    "semaphores_end": "a context ends, and its external semaphores are destroyed; the same",
    "mem_free_context": "a context ends, and its memory is freed after its arrays; the same",
    "pool_stream_gone": "a stream ends, and pools keep blocks for it; the same",
    "pool_lookup": "the index meets pools' chunks; a pointer in each block would make lookups slower",
    "pool_location": "attributes of managed memory return its pool's location; a span need not have it",
    "pool_reached_from": "a span names its pool; a mask in each span would make lookups slower",
    "vmm_allows": "the rights of a mapping are those of memory/vmm_rights.c; the span has its alloc only",
}

top, objects = sys.argv[1:]
failed = 0


def verdict(number, problems, what):
    global failed
    print("%sok %d - %s" % ("not " if problems else "", number, what))
    for problem in problems:
        print("# " + problem)
    failed += bool(problems)


def allowed(folder):
    if folder in BESIDE:
        return BESIDE[folder] + [folder]
    return LAYERS[:LAYERS.index(folder) + 1]


def below(file, text):
    """The folders of the library that a file includes, and what is wrong with its includes."""
    public = os.listdir(os.path.join(top, "include"))
    for name in re.findall(r'^#include "([^"]+)"', text, re.M):
        folder = os.path.dirname(name)
        if not folder and (name in public or os.path.basename(os.path.dirname(file)) == "nvml"):
            continue
        if folder not in LAYERS and folder not in BESIDE and folder != "../include":
            yield folder, "%s includes %s, which names no layer" % (file, name)
        elif folder != "../include":
            yield folder, None


print("1..4")
folders = sorted(d for d in os.listdir(top) if os.path.isdir(os.path.join(top, d)))
known = set(LAYERS) | set(BESIDE) | {"include"}
verdict(1, ["%s is no layer" % d for d in folders if d not in known] +
        ["%s lies in no layer" % f for f in os.listdir(top) if f.endswith((".c", ".h"))] +
        ["there is no %s" % d for d in known - set(folders)], "each folder is a layer")

verdict(2, ["there is no %s/%s.h" % (d, d) for d in sorted(known - {"include"}) if d not in UNNAMED
            and not os.path.exists(os.path.join(top, d, d + ".h"))], "each layer has its header")

problems = []
files = 0
for folder in sorted(known - {"include"}):
    for path in sorted(glob.glob(os.path.join(top, folder, "*.[ch]"))):
        files += 1
        name = os.path.relpath(path, top)
        with open(path, encoding="utf-8") as f:
            text = f.read()
        for to, problem in below(name, text):
            if problem:
                problems.append(problem)
            elif to not in allowed(folder):
                problems.append("%s includes %s/, which lies above it" % (name, to))
if not files:
    problems.append("there are no files")
verdict(3, problems, "no include goes up (%d files)" % files)

# The symbols that a layer needs of a higher one, by the objects.
defines, needs = {}, {}
for path in glob.glob(os.path.join(objects, "*/*.o")):
    folder = os.path.basename(os.path.dirname(path))
    if folder not in LAYERS:
        continue
    out = subprocess.run(["nm", path], stdout=subprocess.PIPE, check=True).stdout.decode()
    for words in (line.split() for line in out.splitlines()):
        if words[-2] in "TDBRCV":
            defines[words[-1]] = os.path.relpath(path, objects)[:-1] + "c"
        elif words[-2] == "U":
            needs.setdefault((folder, words[-1]), []).append(os.path.basename(path))
problems = [] if defines else ["there are no objects in %s: make lib" % objects]
up = {}
for (folder, symbol), users in sorted(needs.items()):
    file = defines.get(symbol)
    if file and LAYERS.index(os.path.dirname(file)) > LAYERS.index(folder):
        up.setdefault(symbol, (file, []))[1].append(folder)
for symbol, (file, users) in sorted(up.items()):
    print("# %s, which %s calls, is in %s: %s" % (symbol, ", ".join(users), file,
                                                  UP.get(symbol, "not in the list")))
    if symbol not in UP:
        problems.append("UP does not list %s" % symbol)
    lowest = min(LAYERS.index(u) for u in users)
    said = False
    for folder in LAYERS[:lowest + 1] + ["include"]:
        for path in glob.glob(os.path.join(top, folder, "*.h")):
            with open(path, encoding="utf-8") as f:
                text = f.read()
            part = re.search(r"/\*[^/]*?[Ff]rom (?:a layer|layers) above.*", text, re.S)
            said |= folder == "include" or bool(part) and bool(
                re.search(r"\b%s\(" % symbol, part.group(0))) and file in text
    if not said:
        problems.append("no header says that %s comes from %s" % (symbol, file))
if defines:
    problems += ["UP lists %s, which no lower layer calls" % s for s in UP if s not in up]
verdict(4, problems, "%d functions come from layers above, and headers say so" % len(up))
print("%d passed, %d failed, 0 skipped" % (4 - failed, failed))
sys.exit(1 if failed else 0)
EOF
