#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Test the runtime API without a device: compile rt_nodev.c with each set of headers, link it with
# each library, and run it.
#
# usage: rt_nodev.sh [BUILD]		BUILD is the output directory, build/ by default
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-${BUILD:-$top/build}}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
cuda=
for dir in "${CUDA_HOME:-/usr/local/cuda}/include" /usr/include; do
	[ -z "$cuda" ] && [ -e "$dir/cuda_runtime_api.h" ] &&
		grep -q '^#define CUDART_VERSION *130' "$dir/cuda_runtime_api.h" && cuda=$dir
done

# one WHAT INCLUDE LIBDIR LIBRARY...: compile with the headers in INCLUDE, link, run, and count the
# cases.
one()
{
	what=$1 include=$2 dir=$3
	shift 3
	if ! ${CC:-gcc} -std=gnu11 -O2 -Wall -Wextra -D_GNU_SOURCE -isystem "$include" \
			-DHEADERS="\"$what\"" "$top/selftests/host/rt_nodev.c" -o "$work/program" \
			-L"$dir" "$@" -pthread; then
		failed=$((failed + 1))
		echo "not ok $((passed + failed)) - $what: compiles and links"
		return
	fi
	LD_LIBRARY_PATH="$dir" "$work/program" >"$work/out"
	awk -v n=$((passed + failed)) '/^(not )?ok / { sub(/ok [0-9]+/, "ok " ++n) }
		!/^(1\.\.)?[0-9]+( [0-9]+)?$/' "$work/out"
	numbers=$(sed -n 's/^\([0-9]*\) \([0-9]*\)$/\1 \2/p' "$work/out")
	if [ -z "$numbers" ]; then
		failed=$((failed + 1))
		echo "not ok $((passed + failed)) - $what: comes to its end"
		return
	fi
	passed=$((passed + ${numbers% *})) failed=$((failed + ${numbers#* }))
}

echo "TAP version 13"
one "our headers, libgpumem" "$top/libgpumem/include" "$build/lib" -lgpumem
one "our headers, libcudart" "$top/libgpumem/include" "$build/compat" -lcudart
if [ -n "$cuda" ]; then
	one "CUDA's headers, libcudart" "$cuda" "$build/compat" -lcudart
else
	skipped=1
	echo "ok $((passed + failed + 1)) - CUDA's headers # SKIP CUDA's headers are not installed"
fi
echo "1..$((passed + failed + skipped))"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
