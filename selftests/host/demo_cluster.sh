#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The demo with two machines in little: a few small frames of a camera, by RDMA from the device memory of one virtual
# machine into that of another.  Then the same with faults, which the demo must find.
#
# usage: demo_cluster.sh [BUILD]		BUILD is the output directory, build/ by default
set -u
self=$(readlink -f "$0")
top=$(cd "$(dirname "$self")/../.." && pwd)
faults="byte copy fill"
options="--frames 12 --size 320x180"

# In each machine: rank 0 has the camera.  One demo after the other, whose sides find each other.
if [ "${GPUMEM_RANK:-}" ]; then
	# shellcheck disable=SC2086
	"$top/tools/demo/cluster" --inside --out "$1" $options || exit 1
	for fault in $faults; do
		echo "fault: $fault"
		case $fault in
		fill) rank=0 ;;
		*) rank=1 ;;
		esac
		preload=
		# shellcheck disable=SC2153
		[ $rank != "$GPUMEM_RANK" ] || preload=$BUILD/host/demo_cluster.so
		# shellcheck disable=SC2086
		GPUMEM_DEMO_FAULT=$fault LD_PRELOAD=$preload timeout 60 \
			"$top/tools/demo/cluster" --inside --out "$1/$fault" $options 2>&1
	done
	exit 0
fi

build=$(realpath "${1:-${BUILD:-$top/build}}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$top/selftests/common/verdict.sh"
details=$work/log

echo "TAP version 13"
case ${NATIVE:+native}${VM_KERNEL:-} in
native*) why="NATIVE=1: no virtual machine" ;;
*-cloud) why="cloud kernels have no RDMA and no test camera" ;;
*) why= ;;
esac
if [ "$why" ]; then
	skip "demo" "$why"
	finish
	exit
fi

# The output of the machine RANK after "fault: NAME", or before the first one.
part()
{
	sed -n "s/^$1: //p" "$work/log" | awk -v want="$2" \
		'BEGIN { part = "none" } /^fault: / { part = $2 } part == want'
}

mkdir -p "$build/host" "$work/out"
# A compiler may be several words.
# shellcheck disable=SC2086
${CC:-gcc} -O2 -Wall -Wextra -Werror -D_GNU_SOURCE -I "$top/libgpumem/include" -shared -fPIC \
	-o "$build/host/demo_cluster.so" "${self%.sh}.c" >"$work/log" 2>&1
verdict $? "the faults build"
# With a fault a side ends while the other one sends.  The kernel's soft-RoCE may crash then, the patched one does not.
# The guests see the variable.
GPUMEM_RXE=$("$top/selftests/vm/kernel" --test-modules "${VM_KERNEL:-6.12}" | sed -n 's/^GPUMEM_RXE=//p')
export GPUMEM_RXE
"$top/selftests/vm/run" --kernel "${VM_KERNEL:-6.12}" --guests 2 --mem 1G --timeout 400 \
	--expect '(?s)schedule_timeout: wrong timeout.*vivid_thread_vid_cap' \
	--near "$build/bin/gpumem-demo" --near "$build/lib" --out "$work/out" --insmod vram=64M -- \
	env BUILD="$build" "$self" "$work/out" >"$work/log" 2>&1
rc=$?
# The first demo: what the machines say of it.
[ $rc = 0 ] && part 0 none | grep -qx 'demo: passed' && part 1 none | grep -qx 'demo: passed'
verdict $? "every check of the demo holds"
bytes=$((13 * 320 * 180 * 4))
part 0 none | grep -q "^rdma:      wrote $bytes bytes " &&
	part 1 none | grep -q "^rdma:      $bytes bytes arrived "
verdict $? "RDMA wrote each frame once"
part 0 none | grep -qx 'engine:    copied 0 bytes and filled 0, in 0 jobs'
verdict $? "the engine beside the camera did nothing"
part 1 none | grep -q '^sheet:     12 of 12 cells are what the camera wrote'
verdict $? "the sheet has what the camera wrote"
[ "$(od -An -tx1 -j 12 -N 12 "$work/out/cluster-sheet.png" | tr -d ' \n')" = 4948445200000640000000b4 ]
verdict $? "the picture is 1600x180"

# found RANK FAULT WORDS: the machine found the fault.
found()
{
	part "$1" "$2" | grep -q "FAILED: $3"
	verdict $? "found: $4"
}
found 1 byte "frame 0 had checksum" "a byte of a frame is another one where it arrived"
found 1 copy "the engine moved other bytes" "the receiver's engine copies a part twice"
found 0 fill "the engine of the camera's machine" "the sender's engine fills a byte"
finish
