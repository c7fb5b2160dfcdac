#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The entries of the allocation functions can be moved: programs that watch allocations overwrite
# the first five bytes by a jump and run the displaced instruction elsewhere.
#
# usage: entry_check.sh [BUILD]		BUILD is the output directory, build/ by default
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-${BUILD:-$top/build}}
export LC_ALL=C
number=0 passed=0 failed=0 skipped=0

echo "TAP version 13"

# check FILE NAME: the function begins with exactly "mov $imm32,%eax".
check()
{
	number=$((number + 1))
	code=$(objdump -d --no-show-raw-insn "$1" | awk -v name="<$2>:" '
		$2 == name { found = 1; next }
		found && NF { sub(/^[ \t]*[0-9a-f]+:[ \t]*/, ""); gsub(/[ \t]+/, " "); print; lines++ }
		found && (lines == 2 || !NF) { exit }')
	case $(echo "$code" | head -n 1) in
	'mov $0x'*',%eax')
		if echo "$code" | sed -n 2p | grep -q '^jmp '; then
			passed=$((passed + 1))
			echo "ok $number - $(basename "$1"): $2"
			return
		fi
		;;
	esac
	failed=$((failed + 1))
	echo "not ok $number - $(basename "$1"): $2"
	echo "$code" | sed 's/^/# /'
}

driver="cuMemAlloc cuMemAlloc_v2 cuMemAllocPitch cuMemAllocPitch_v2 cuMemAllocManaged cuMemFree cuMemFree_v2
	cuMemAllocAsync cuMemAllocAsync_ptsz cuMemAllocFromPoolAsync cuMemAllocFromPoolAsync_ptsz
	cuMemFreeAsync cuMemFreeAsync_ptsz cuArrayCreate cuArrayCreate_v2 cuArray3DCreate
	cuArray3DCreate_v2 cuArrayDestroy cuMipmappedArrayCreate cuMipmappedArrayDestroy"
runtime="cudaMalloc cudaMallocPitch cudaMallocManaged cudaMallocHost cudaHostAlloc cudaFree cudaFreeHost
	cudaMallocAsync cudaMallocAsync_ptsz cudaMallocFromPoolAsync cudaMallocFromPoolAsync_ptsz
	cudaFreeAsync cudaFreeAsync_ptsz"

# all FILE NAME...
all()
{
	file=$1
	shift
	for name; do
		if [ "$(uname -m)" != x86_64 ] || ! command -v objdump >/dev/null; then
			number=$((number + 1)) skipped=$((skipped + 1))
			echo "ok $number - $name # SKIP needs objdump on x86-64"
		else
			check "$file" "$name"
		fi
	done
}

# shellcheck disable=SC2086
{
	all "$build/lib/libgpumem.so.1" $driver $runtime
	all "$build/compat/libcuda.so.1" $driver
	all "$build/compat/libcudart.so.12" $runtime
	all "$build/compat/libcudart.so.13" $runtime
}

echo "1..$number"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
