#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Test memory of a NUMA node, in a virtual machine that has three nodes: the cases that a machine with
# one node skips.  The device is bound to a node without processors, where some memory blocks hold
# little but device memory.  The third node's memory is all movable.
#
# usage: numa_guest.sh [BUILD]		BUILD is the output directory, build/ by default
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)

build=${1:-${BUILD:-$top/build}}
cases=("t_cuda_pool:host_node" "t_system:memory_offline" "t_system:node_offline")
for c in $(sed -n 's/^TEST_F[A-Z_]*(managed, \(node_[a-z_]*\).*/\1/p' "$top/selftests/uapi/t_managed_nodes.c"); do
	cases+=("t_managed_nodes:$c")
done
echo "TAP version 13"
echo "1..${#cases[@]}"
if [ "${NATIVE:-}" ]; then
	for ((n = 1; n <= ${#cases[@]}; n++)); do
		echo "ok $n - guest # SKIP NATIVE=1: no virtual machine"
	done
	echo "0 passed, 0 failed, ${#cases[@]} skipped"
	exit 0
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2016
each='for c; do "$build/selftests/${c%%:*}" -t "${c#*:}" || bad=1; done; [ ! "${bad:-}" ]'
"$top/selftests/vm/run" --kernel "${VM_KERNEL:-6.12}" --mem 1280M --node 1G \
	--movable-node 256M --timeout 1200 \
	--insmod vram=256M node=1 -- sh -c "build='$build'; $each" sh "${cases[@]}" >"$log" 2>&1
rc=$?
passed=0
failed=0
n=0
for c in "${cases[@]}"; do
	n=$((n + 1))
	# A skipped case counts as failed here.
	if grep -q "^ok .*${c#*:}\$" "$log"; then
		passed=$((passed + 1))
		echo "ok $n - $c"
	else
		failed=$((failed + 1))
		echo "not ok $n - $c"
	fi
done
# All cases passed, but the runner failed: the kernel may have complained.
if [ $rc != 0 ] && [ $failed = 0 ]; then
	failed=1
	echo "not ok $((n + 1)) - guest"
fi
# The lines of the cases that failed come last: the caller may print only the end.
if [ $failed != 0 ]; then
	tail -n 60 "$log" | sed 's/^/# /'
	grep -aE "^not ok |^# [^ ]*\.c:[0-9]+:" "$log" | tail -n 20 | sed 's/^#* */# /'
fi
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
