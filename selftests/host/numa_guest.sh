#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Memory of a node, in a virtual machine that has two (one without processors): the cases that a
# machine with one skips.
#
# usage: numa_guest.sh [BUILD]		BUILD is the output directory, build/ by default
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)

build=${1:-${BUILD:-$top/build}}
echo "TAP version 13"
echo "1..1"
if [ "${NATIVE:-}" ]; then
	echo "ok 1 - guest # SKIP NATIVE=1: no virtual machine"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
nodes='-object memory-backend-ram,id=m0,size=1G -object memory-backend-ram,id=m1,size=1G'
nodes+=' -numa node,nodeid=0,memdev=m0,cpus=0-1 -numa node,nodeid=1,memdev=m1'
"$top/selftests/vm/run" --kernel "${VM_KERNEL:-6.12}" --mem 2G --timeout 200 --qemu-arg="$nodes" \
	--insmod vram=256M -- "$build/selftests/t_cuda_pool" -t host_node >"$log" 2>&1
rc=$?
# Skipped is not good enough here.
if [ $rc = 0 ] && grep -q '^ok .*host_node$' "$log"; then
	echo "ok 1 - memory of a node is on it"
	echo "1 passed, 0 failed, 0 skipped"
	exit 0
fi
echo "not ok 1 - memory of a node is on it"
tail -n 40 "$log" | sed 's/^/# /'
echo "0 passed, 1 failed, 0 skipped"
exit 1
