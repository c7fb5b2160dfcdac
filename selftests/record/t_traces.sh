#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Traces that an H200 made (golden/h200-580/traces): each call has the same result here.
#   record_calls	examples/record_calls.c
#   torch		PyTorch 2.11 of CUDA 13.0: streams, events, pinned copies, expandable segments
#   torch_async		the same with the allocator cudaMallocAsync
# Needs root and the module.
set -u
top=$(cd "$(dirname "$0")" && pwd)
# Installed, the script lies beside common/; in the sources a folder below.
[ -d "$top/common" ] || top=${top%/*}
build=${BUILD:-$top/../build}
. "$top/common/tap.sh"

echo "TAP version 13"
[ -e /dev/gpumem0 ] || skip_all "gpumem is not loaded"
[ -x "$build/bin/gpumem" ] || skip_all "the tools are not built"
traces=("$top"/golden/h200-580/traces/*.trace.xz)
[ -e "${traces[0]}" ] || skip_all "there are no traces"
echo "1..$((2 * ${#traces[@]}))"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
details=$work/log

# Calls that are replayed, and calls that were recorded when the driver had ended.
declare -A counts=([record_calls]="5875 0" [torch]="15628 1" [torch_async]="19165 1")

for trace in "${traces[@]}"; do
	name=$(basename "$trace" .trace.xz)
	read -r calls skipped <<<"${counts[$name]:-0 0}"
	xz -dc "$trace" >"$work/$name.trace" 2>"$work/log" &&
		"$build/bin/gpumem" replay --report "$work/$name.html" "$work/$name.trace" >"$work/log" 2>&1 &&
		grep -q "^replayed: $calls calls in .*, $skipped skipped$" "$work/log" &&
		grep -qx "results: $calls agree, 0 differ" "$work/log"
	result $? "$name: each call has the result of the H200"
	# The page is one file, and has the calls of each stream.
	{
		[ -s "$work/$name.html" ] || echo "no page"
		grep -q "<svg" "$work/$name.html" || echo "no picture"
		! grep -oE '(src|href)="?(https?:|//)[^ ]*' "$work/$name.html"
	} >"$work/log" 2>&1 && [ ! -s "$work/log" ]
	result $? "$name: the page needs no other file"
done
[ $failed = 0 ]
