#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The demo gpumem-demo: frames of a camera in device memory, a picture that a second process makes,
# and the one-line error message for each kind of wrong use.  Needs root, the module, and the test
# camera vivid.
set -u
top=$(cd "$(dirname "$0")" && pwd)
# Installed, the script lies beside common/; in the sources a folder below.
[ -d "$top/common" ] || top=${top%/*}
build=${BUILD:-$top/../build}
plan=8
. "$top/common/tap.sh"

echo "TAP version 13"
[ "$(id -u)" = 0 ] || skip_all "root is needed"
[ -e /dev/gpumem0 ] || skip_all "gpumem is not loaded"
[ -x "$build/bin/gpumem-demo" ] || skip_all "make tools was not run"
if ! grep -q '^vivid ' /proc/modules && ! modprobe vivid n_devs=1 node_types=0x1 2>/dev/null; then
	echo "1..1"
	echo "ok 1 camera # SKIP this kernel has no vivid"
	exit 0
fi
echo "1..$plan"

# Copy the demo to a directory that all users can reach.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
cp "$build/bin/gpumem-demo" "$build/lib/libgpumem.so.1" "$build/lib/libgpumem-driver.so.1" "$work"
export LD_LIBRARY_PATH="$work"
demo=$work/gpumem-demo
unset DEMO_VIDEO

counters()
{
	for c in used clients bos exports views; do
		echo "$c $(cat /sys/class/gpumem/gpumem0/$c)"
	done
}

# The size of the frames.  On a slow kernel making them takes most of the time.
size=640x360
[ "${GPUMEM_QUICK:-}" ] && size=320x180
bytes=$((${size%x*} * ${size#*x} * 4))
before=$(counters)
timeout 120 "$demo" --frames 12 --size $size --out "$work/out" >"$work/log" 2>&1
rc=$?
sed 's/^/# /' "$work/log"
[ $rc = 0 ]
result $? "12 frames of $size: every check of the demo holds"

grep -q "^compared:  4 frames of $bytes bytes equal " "$work/log"
result $? "frames in device memory equal one that came through system memory"

settle counters "$before" ||
	printf "%s\nafter:\n%s\n" "$before" "$after" | sed 's/^/# /'
[ "$after" = "$before" ]
result $? "the kernel's counters are what they were"

# Decodes the picture without the library that wrote it.
crc=$(sed -n 's/^picture:.* CRC-32 \([0-9a-f]*\)$/\1/p' "$work/log")
python3 - "$work/out/contact-sheet.png" "$crc" <<'PYTHON'
import struct
import sys
import zlib

data = open(sys.argv[1], "rb").read()
assert data[:8] == b"\x89PNG\r\n\x1a\n", "no PNG"
at, body, header = 8, b"", None
while at < len(data):
    length, kind = struct.unpack(">I4s", data[at:at + 8])
    chunk = data[at + 8:at + 8 + length]
    check = struct.unpack(">I", data[at + 8 + length:at + 12 + length])[0]
    assert zlib.crc32(kind + chunk) == check, kind
    header = struct.unpack(">IIBBBBB", chunk) if kind == b"IHDR" else header
    body += chunk if kind == b"IDAT" else b""
    at += 12 + length
width, height, depth, colour, _, _, interlace = header
assert (width, height, depth, colour, interlace) == (1600, 180, 8, 2, 0), header
raw, row, rgb = zlib.decompress(body), bytearray(3 * width), bytearray()
for y in range(height):
    kind = raw[y * (3 * width + 1)]
    line = bytearray(raw[y * (3 * width + 1) + 1:(y + 1) * (3 * width + 1)])
    for i, value in enumerate(line):
        left, up = line[i - 3] if i > 2 else 0, row[i]
        corner = row[i - 3] if i > 2 else 0
        guess = left + up - corner
        near = min((abs(guess - left), 0, left), (abs(guess - up), 1, up),
                   (abs(guess - corner), 2, corner))[2]
        line[i] = value + (0, left, up, (left + up) // 2, near)[kind] & 255
    rgb += line
    row = line
assert "%08x" % zlib.crc32(bytes(rgb)) == sys.argv[2], "other bytes than the device's"
cells = [bytes(rgb[y * 3 * width + 3 * 160 * n:][:480]) for y in (0, 90) for n in range(10)]
assert len(set(cells[:12])) > 1 and cells[12:] == [bytes(480)] * 8, "cells"
assert len({bytes(rgb[i:i + 3]) for i in range(0, len(rgb), 3)}) >= 4, "blank"
PYTHON
result $? "the picture is 1600x180, not blank, and holds the device's bytes"

# wrong WHAT WORDS COMMAND...: fails with status 1 and one line that has WORDS in it.
wrong()
{
	what=$1 words=$2
	shift 2
	"$@" >"$work/stdout" 2>"$work/stderr"
	rc=$?
	[ $rc = 1 ] && [ "$(wc -l <"$work/stderr")" = 1 ] && grep -q "$words" "$work/stderr" &&
		! [ -s "$work/stdout" ]
	ok=$?
	[ $ok = 0 ] || sed 's/^/# /' "$work/stderr" "$work/stdout"
	result $ok "$what: one line that says what to do"
}

wrong "not a camera" "/dev/null: not a V4L2 capture device: name a camera in DEMO_VIDEO" \
	env DEMO_VIDEO=/dev/null "$demo" --out "$work/out2"
wrong "a size that the camera lacks" "use --size" "$demo" --size 700x333 --out "$work/out2"

modes=$(stat -c '%a %n' /dev/gpumem*)
chmod 600 /dev/gpumem*
wrong "no permission" "/dev/gpumem0: permission denied" \
	setpriv --reuid=65534 --regid=65534 --clear-groups "$demo" --out "$work/out2"
echo "$modes" | while read -r mode node; do chmod "$mode" "$node"; done

modprobe -r vivid
if ls /dev/video* >/dev/null 2>&1; then
	number=$((number + 1))
	echo "ok $number no camera # SKIP there are others"
else
	wrong "no camera" "no camera: .*modprobe vivid" "$demo" --out "$work/out2"
fi
[ $failed = 0 ]
