#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The fuzzer's corpus, and then programs made from it, for a short time: thirty seconds on a kernel
# that has KCOV, five on others.  The verdict on the kernel is the fuzzer's and the runner's.
# Environment: GPUMEM_FUZZ_SECONDS, GPUMEM_SEED.
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/tap.sh"
corpus=$here/fuzz/corpus
for fuzz in "${GPUMEM_SELFTESTS:-$here/../build/selftests}/fuzz/gpumem-fuzz" \
	    "${BUILD:-$here/../build}/selftests/fuzz/gpumem-fuzz" "$here/fuzz/gpumem-fuzz"; do
	[ -x "$fuzz" ] && break
done

echo "TAP version 13"
echo "1..3"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
seconds=5
[ -e /sys/kernel/debug/kcov ] && seconds=30

# As it is printed it is parsed: replaying says the same program again.
set -- "$corpus"/*
details=$work/replay
"$fuzz" -r "$1" >"$work/replay" 2>&1
status=$?
grep -v '^#' "$work/replay" >"$work/printed"
grep -v '^#' "$1" | cmp -s - "$work/printed" && [ -s "$work/printed" ] && [ $status = 0 ]
result $? replay

details=
{
	"$fuzz" -c "$corpus" -t "${GPUMEM_FUZZ_SECONDS:-$seconds}"
	echo $? >"$work/status"
} | tee "$work/said"
result "$(cat "$work/status")" fuzz

# Blocks of the module guide it, where there are such: skips.tsv says on which kernels not.
if grep -qE '^# .*, [1-9][0-9]* blocks,' "$work/said"; then
	result 0 instrumented
else
	number=$((number + 1))
	echo "ok $number instrumented # SKIP no kernel or no module with KCOV"
fi
[ $failed = 0 ]
