#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The preloaded recorder in front of a driver that is not gpumem's (record_fake.c), the player on damaged traces, and the
# HTML page.
#
# usage: record_check.sh [BUILD]	BUILD is the output directory, build/ by default
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-${GPUMEM_BUILD:-${BUILD:-$top/build}}}" && pwd) || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$top/selftests/common/verdict.sh"
details=$work/log
export LC_ALL=C
player=$build/libexec/gpumem/gpumem-replay
preload=$build/lib/libgpumem-record-preload.so.1

echo "TAP version 13"
"$top/libgpumem/record/mkcalls" --check >"$work/log" 2>&1
verdict $? "calls.h is what mkcalls makes of the headers"

# The tap hands on what CALL() reports: all parameters, in their order.
cat >"$work/reported.py" <<'END'
import glob
import re
import sys

TOP = sys.argv[1] + "/libgpumem"
BEHIND = {"CALL": 1, "CALL_INSIDE": 1, "CALL_AS": 2, "CALL_INSIDE_AS": 2, "CALL_AFTER": 2, "CALL_INSIDE_AFTER": 2,
          "CALL_AFTER_AS": 3, "CALL_INSIDE_AFTER_AS": 3}
# A location is two numbers, and a handle of CUDA IPC is none.
OTHER = {"cuMemAdvise_v2": 5, "cuIpcOpenEventHandle": 1}


def arguments(text):
    """How many arguments the macro has whose arguments begin @text."""
    depth, count = 1, 1
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if not depth:
            return count
        count += letter == "," and depth == 1
    sys.exit("no end: " + text[:80])


with open(TOP + "/record/calls.h", encoding="utf-8") as f:
    counts = {m[0]: int(m[1]) for m in re.findall(r"^CALL\w*\((\w+), (\d+)", f.read(), re.M)}
seen = 0
for path in glob.glob(TOP + "/driver/cu_*.c") + [TOP + "/driver/pointer.c"]:
    with open(path, encoding="utf-8") as f:
        source = f.read()
    for name, body in re.findall(r"^(?:BODY )?CUresult (cu\w+)\([^{;]*?\)\s*\{\n(.*?)^\}", source, re.M | re.S):
        for call in re.finditer(r"\b(CALL\w*)\(", body):
            given = arguments(body[call.end():]) - BEHIND[call.group(1)]
            seen += 1
            if name in counts and given != OTHER.get(name, counts[name]):
                print("%s reports %d arguments and has %d" % (name, given, counts[name]))
if seen < 100:
    print("only %d functions were found" % seen)
END
python3 "$work/reported.py" "$top" >"$work/log" 2>&1
[ ! -s "$work/log" ]
verdict $? "functions report all of their parameters to the tap"

# One file is copied to another machine.
{
	readelf -d "$preload" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vxE 'libc\.so\.6|ld-linux-.*|lib(asan|ubsan|tsan).*'
	readelf -W --dyn-syms "$preload" | grep -o '@GLIBC_[0-9.]*' | sort -uV | tail -n 1 |
		awk -F '[_.]' '$2 > 2 || $3 > 34 { print $0 " is newer than glibc 2.34" }'
} >"$work/log"
[ ! -s "$work/log" ]
verdict $? "the preloaded library needs glibc 2.34 and nothing else"

flags="-std=gnu11 -O2 -Wall -Wextra -Werror -I$top/libgpumem/include"
mkdir "$work/driver" "$work/driver2"
# shellcheck disable=SC2086 # flags are words
{
	# The second one finds its own functions by their symbols, so it finds the recorder's.
	${CC:-gcc} $flags -shared -fPIC -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic -o "$work/driver/libcuda.so.1" \
		"$top/selftests/host/record_fake.c" &&
		${CC:-gcc} $flags -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$work/driver2/libcuda.so.1" \
			"$top/selftests/host/record_fake.c" &&
		${CC:-gcc} $flags -DPROGRAM -o "$work/program" "$top/selftests/host/record_fake.c" -ldl
} >"$work/log" 2>&1
verdict $? "another driver and its program are built"

cat >"$work/read.py" <<'END'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as f:
    trace = json.load(f)
want = {"cuInit": {"OTHER": 1, "SUCCESS": 1}, "cuMemAlloc_v2": {"SUCCESS": 2, "<&>": 1}, "cuStreamCreate": {"SUCCESS": 1},
        "cuMemcpyHtoD_v2": {"SUCCESS": 1}, "cuMemsetD8Async_ptsz": {"SUCCESS": 1}, "cuMemFree_v2": {"SUCCESS": 1}}
# The address of this function is that of no symbol: the version and the flags tell the form.
results = trace["results"]
want["cuStreamSynchronize_ptsz"] = {"SUCCESS": 1}
if results != want:
    sys.exit("recorded %s, wanted %s" % (results, want))
if trace["front"] != "preload" or trace["driver"] != 12040 or not trace["complete"]:
    sys.exit("wrong properties: %s" % trace)
if trace["memory"][0]["recorded_peak"] != 1024 + 5120:
    sys.exit("wrong peak: %s" % trace["memory"])
# 5,000 bytes are left of what the program allocated; the driver takes 6,144 for it, and its free returns nothing.
device, pool = trace["memory"]
for side in ("recorded", "replayed"):
    if (abs(device[side + "_fragmentation"] - (1 - 5000 / 6144)) > 1e-6 or
            abs(pool[side + "_fragmentation"] - (1 - 6000 / 8000)) > 1e-6):
        sys.exit("wrong fragmentation: %s" % trace["memory"])
# A free took 20 ms in the program, and takes 200 ms in the replay.
free = trace["latencies"]["cuMemFree_v2"]
if not (free["calls"] == 1 and 20e6 <= free["recorded_median_ns"] < free["replayed_median_ns"] and
        free["replayed_median_ns"] >= 200e6 and free["replayed_p99_ns"] >= free["replayed_median_ns"]):
    sys.exit("wrong latency: %s" % free)
END
for driver in driver2 driver; do
	# "gpumem record" finds out that the driver is another one. The libraries of the tool come by its rpath.
	(
		cd "$work" || exit 1
		FAKE_FREE_MS=20 LD_LIBRARY_PATH=$work/$driver GPUMEM_RECORD_SAMPLE=0 \
			"$build/bin/gpumem" record -o made.trace -- ./program &&
			FAKE_FREE_MS=200 "$player" --json --libcuda "$work/$driver/libcuda.so.1" made.trace
	) >"$work/log" 2>&1
	verdict $? "the other driver's calls are recorded, and a replay on it agrees: $driver"
	python3 "$work/read.py" "$work/log" >"$work/found" 2>&1
	status=$?
	details=$work/found
	verdict $status "the recorder found each call by dlsym() and by cuGetProcAddress(): $driver"
	# shellcheck disable=SC2034 # verdict prints it
	details=$work/log
done

(
	cd "$work" || exit 1
	LD_LIBRARY_PATH=$work/driver "$build/bin/gpumem" record -o fork.trace -- ./program fork &&
		"$player" --dry-run fork.trace >fork.txt && grep -q '^recorded: 10 calls of 1 threads' fork.txt
	cat fork.txt
	exit $?
) >"$work/log" 2>&1
grep -q '^recorded: 10 calls of 1 threads' "$work/log"
verdict $? "a child that fork() made records nothing"

{
	for words in record replay "replay a b" "replay --no-such-option a" "record --no-such-option a" \
			"replay --timeout 0 a" "replay $work/none.trace" "replay $work/program"; do
		# shellcheck disable=SC2086 # words
		"$build/bin/gpumem" $words >"$work/out" 2>&1
		status=$?
		[ $status = 2 ] && [ -s "$work/out" ] || echo "$words: status $status"
	done
	(cd "$work" && "$build/bin/gpumem" record -- sh -c 'exit 7')
	status=$?
	[ $status = 7 ] || echo "the status of a program is 7, and that of gpumem record $status"
} >"$work/log" 2>&1
[ ! -s "$work/log" ]
verdict $? "mistakes of the command line end with 2, and record has the program's status"

# --- damaged traces. The player is built with sanitizers, so that a read beyond the file shows.

sources=("$top"/tools/replay/*.c "$top/libgpumem/record/parameter.c")
${CC:-gcc} -std=gnu11 -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -D_GNU_SOURCE= \
	-I"$top/libgpumem/include" -I"$top/libgpumem" -I"$top/tools/replay" -o "$work/checked" "${sources[@]}" -ljansson \
	-lm -pthread >"$work/log" 2>&1
verdict $? "the player is built with sanitizers"

cat >"$work/damage.py" <<'END'
"""Replay a trace that is cut at each byte, or has one bit flipped: the player ends with 0, 1 or 2, and says why."""
import random
import subprocess
import sys

WORK, KIND, PLAYER, EVERY = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
with open(WORK + "/made.trace", "rb") as f:
    whole = f.read()
rng = random.Random(1)
done, statuses = 0, set()


def play(data, what, *options):
    global done
    with open(WORK + "/damaged.trace", "wb") as f:
        f.write(data)
    ran = subprocess.run([PLAYER, *options, WORK + "/damaged.trace"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         env={"ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:exitcode=99"}, check=False)
    done += 1
    statuses.add(ran.returncode)
    if ran.returncode not in (0, 1, 2) or (ran.returncode == 2 and not ran.stderr.startswith(b"gpumem: ")):
        sys.exit("%s: status %d: %s" % (what, ran.returncode, ran.stderr.decode(errors="replace")[:3000]))


if KIND == "cut":
    for length in range(0, len(whole), EVERY):
        play(whole[:length], "cut at byte %d" % length, "--dry-run")
else:
    for at in range(0, len(whole), EVERY):
        bit = rng.randrange(8)
        data = bytearray(whole)
        data[at] ^= 1 << bit
        play(data, "bit %d of byte %d" % (bit, at), "--dry-run", "--report", WORK + "/damaged.html")
        if at % (EVERY * 4) == 0:
            play(data, "bit %d of byte %d, on a driver" % (bit, at), "--timeout", "5", "--libcuda",
                 WORK + "/driver/libcuda.so.1")
print("%d traces of %d bytes, statuses %s" % (done, len(whole), sorted(statuses)))
sys.exit(len(statuses) < 2)
END
python3 "$work/damage.py" "$work" cut "$player" 1 >"$work/log" 2>&1
verdict $? "a trace that is cut at any byte is read as far as it goes, or refused"
python3 "$work/damage.py" "$work" cut "$work/checked" 13 >"$work/log" 2>&1
verdict $? "the same with sanitizers"
python3 "$work/damage.py" "$work" flip "$work/checked" 11 >"$work/log" 2>&1
verdict $? "a trace with a flipped bit is replayed or refused"

# --- the page

"$player" --libcuda "$work/driver/libcuda.so.1" --report "$work/page.html" "$work/made.trace" >"$work/log" 2>&1
verdict $? "a page is written"
cat >"$work/page.py" <<'END'
import sys
import xml.etree.ElementTree as tree

with open(sys.argv[1], encoding="utf-8") as f:
    text = f.read()
# The page is well-formed XML, too.
page = tree.fromstring(text.split("\n", 1)[1])
for name in ("memory", "streams-recorded", "streams-replayed", "latency", "peaks"):
    if page.find(".//*[@id='%s']" % name) is None:
        sys.exit("no %s" % name)
if len(page.findall(".//*[@id='streams-recorded']/rect")) < 3:
    sys.exit("the streams have no calls")
if not page.findall(".//*[@id='memory']/path"):
    sys.exit("there are no lines of memory")
for word in ("src=", "href=", "url(", "@import", "http"):
    if word in text:
        sys.exit("the page loads something: " + word)
END
python3 "$work/page.py" "$work/page.html" >"$work/log" 2>&1
verdict $? "the page has its parts, and loads nothing"

browser=
for name in chromium chromium-browser google-chrome; do
	[ -n "$browser" ] || browser=$(command -v "$name")
done
if [ "$browser" ]; then
	HOME=$work timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
		--user-data-dir="$work/profile" --dump-dom "file://$work/page.html" >"$work/dom" 2>"$work/log" &&
		grep -q 'id="streams-replayed"' "$work/dom" && grep -q '<rect' "$work/dom" &&
		grep -q '</html>' "$work/dom"
	verdict $? "a browser shows the page"
else
	skip "a browser shows the page" "chromium is not installed"
fi
finish
