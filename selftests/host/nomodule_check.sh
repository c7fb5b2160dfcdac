#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Check what the programs do where gpumem is not loaded: print one line with the remedy, exit with
# 1.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD:-$top/build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LD_LIBRARY_PATH="$build/lib"
. "$(dirname "$0")/../common/verdict.sh"
details=$work/stderr

# wrong WORDS COMMAND...: passes if COMMAND exits with 1 and one line on standard error has WORDS.
wrong()
{
	words=$1
	shift
	what="$(basename "$1") without the module"
	"$@" >"$work/stdout" 2>"$work/stderr"
	rc=$?
	if [ -e /dev/gpumem0 ] || [ -e /sys/class/gpumem ]; then
		skip "$what" "it is loaded"
	elif [ $rc = 1 ] && [ "$(wc -l <"$work/stderr")" = 1 ] && grep -q "$words" "$work/stderr"; then
		verdict 0 "$what"
	else
		verdict 1 "$what: status $rc"
	fi
}

echo "TAP version 13"
wrong "modprobe gpumem" "$build/bin/gpumem-demo" --out "$work/out"
wrong "modprobe gpumem" "$build/bin/gpumem" list
wrong "modprobe gpumem" "$build/bin/gpumem" stat --all
wrong "modprobe gpumem" "$build/bin/gpumem" cdi generate

# The doctor names the command that loads the module, and looks at what does not need it.
"$build/bin/gpumem" doctor >"$work/stdout" 2>"$work/stderr"
rc=$?
if [ -e /dev/gpumem0 ] || [ -e /sys/class/gpumem ]; then
	skip "gpumem doctor without the module" "it is loaded"
else
	[ $rc = 1 ] && grep -q "^wrong *module *the module is not loaded" "$work/stdout" &&
		grep -A1 "^wrong *module" "$work/stdout" | grep -q "mend: .*modprobe gpumem" &&
		grep -q "^ok *kernel" "$work/stdout"
	verdict $? "gpumem doctor without the module"
fi
finish
