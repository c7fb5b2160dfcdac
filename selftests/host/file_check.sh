#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# libcufile.so.0 exports the functions of cufile_symbols.txt, and the header declares each of them. Layouts are those
# of cuFile 1.15, and without a device the functions say why they fail: compile and run file_check.c.
#
# usage: file_check.sh [BUILD]		BUILD is the output directory, build/ by default
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-${GPUMEM_BUILD:-${BUILD:-$top/build}}}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C

echo "TAP version 13"
grep -v '^#' "$top/libgpumem/abi/cufile_symbols.txt" | cut -f 1 >"$work/want"
failed=0
nm -D --defined-only "$build/compat/libcufile.so.0" | awk '$2 == "T" { print $3 }' | sort >"$work/have"
if diff "$work/want" "$work/have" >"$work/diff"; then
	echo "ok 1 - the library has the functions"
else
	sed 's/^/# /' "$work/diff"
	echo "not ok 1 - the library has the functions"
	failed=$((failed + 1))
fi
if grep -ohE '\b(cuFile[A-Za-z0-9_]+|gpumem_file_counters)\(' "$top"/libgpumem/include/cufile*.h | tr -d '(' |
		sort -u | grep -v '^cuFileDriverClose_v2$' >"$work/header"
	grep -v '^cuFileDriverClose_v2$' "$work/want" | diff - "$work/header" >"$work/diff"; then
	echo "ok 2 - the header declares them"
else
	sed 's/^/# /' "$work/diff"
	echo "not ok 2 - the header declares them"
	failed=$((failed + 1))
fi
if ! ${CC:-gcc} -std=c11 -O2 -Wall -Wextra -Wpedantic -Werror -D_GNU_SOURCE -I"$top/libgpumem/include" \
		"$top/selftests/host/file_check.c" -o "$work/file_check" -L"$build/compat" -lcufile -lcuda \
		-Wl,-rpath,"$build/compat" >"$work/log" 2>&1 ||
		! "$work/file_check" >"$work/log" 2>&1; then
	sed 's/^/# /' "$work/log"
	echo "not ok 3 - layouts, values, and answers without a device"
	failed=$((failed + 1))
else
	echo "ok 3 - layouts, values, and answers without a device"
fi
echo "1..3"
echo "$((3 - failed)) passed, $failed failed, 0 skipped"
[ $failed = 0 ]
