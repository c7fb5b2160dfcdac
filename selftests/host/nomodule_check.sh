#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The programs on a machine where gpumem is not loaded: one line that says what to do, status 1.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD:-$top/build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LD_LIBRARY_PATH="$build/lib"
number=0 passed=0 failed=0 skipped=0

# wrong WORDS COMMAND...
wrong()
{
	words=$1
	shift
	number=$((number + 1))
	"$@" >"$work/stdout" 2>"$work/stderr"
	rc=$?
	if [ -e /dev/gpumem0 ] || [ -e /sys/class/gpumem ]; then
		skipped=$((skipped + 1))
		echo "ok $number - $(basename "$1") without the module # SKIP it is loaded"
	elif [ $rc = 1 ] && [ "$(wc -l <"$work/stderr")" = 1 ] && grep -q "$words" "$work/stderr"; then
		passed=$((passed + 1))
		echo "ok $number - $(basename "$1") without the module"
	else
		failed=$((failed + 1))
		echo "not ok $number - $(basename "$1") without the module: status $rc"
		sed 's/^/# /' "$work/stderr"
	fi
}

echo "TAP version 13"
wrong "modprobe gpumem" "$build/bin/gpumem-demo" --out "$work/out"
wrong "modprobe gpumem" "$build/bin/gpumem" list
wrong "modprobe gpumem" "$build/bin/gpumem" stat --all
echo "1..$number"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
