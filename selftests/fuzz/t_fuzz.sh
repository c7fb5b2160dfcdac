#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Run the fuzzer's corpus, and then programs made from it, for a short time: thirty seconds on a
# kernel that has KCOV, five on others.  The fuzzer and the runner detect complaints of the kernel.
# Environment: GPUMEM_FUZZ_SECONDS, GPUMEM_SEED.
set -u
top=$(cd "$(dirname "$0")" && pwd)
# Installed, the script lies beside common/; in the sources a folder below.
[ -d "$top/common" ] || top=${top%/*}
. "$top/common/tap.sh"
corpus=$top/fuzz/corpus
for fuzz in "${GPUMEM_SELFTESTS:-$top/../build/selftests}/fuzz/gpumem-fuzz" \
	    "${BUILD:-$top/../build}/selftests/fuzz/gpumem-fuzz" "$top/fuzz/gpumem-fuzz"; do
	[ -x "$fuzz" ] && break
done

echo "TAP version 13"
echo "1..3"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
seconds=5
[ -e /sys/kernel/debug/kcov ] && seconds=30

# Replaying a program prints it; the output must equal the file.
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

# The fuzzer must see blocks of the module; skips.tsv lists the kernels without KCOV.
if grep -qE '^# .*, [1-9][0-9]* blocks,' "$work/said"; then
	result 0 instrumented
else
	number=$((number + 1))
	echo "ok $number instrumented # SKIP no kernel or no module with KCOV"
fi
[ $failed = 0 ]
