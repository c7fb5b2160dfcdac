#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Test other builds of the library: with the address and undefined behaviour sanitizers, and with
# clang.  The script builds each, compiles lib_nodev.c in the same way, and runs it with that
# library.
#
# usage: lib_san.sh [BUILD]		BUILD is the output directory, build/ by default; the other
#					builds get directories of their own in it
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-${BUILD:-$top/build}}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/../common/verdict.sh"

comment()
{
	tail -n 30 "$1" | sed 's/^/# /'
}

# try NAME DIRECTORY CC SANITIZERS
try()
{
	name=$1
	dir=$2
	cc=$3
	san=$4
	if ! command -v "$cc" >/dev/null; then
		verdict 1 "$name: there is $cc"
		return
	fi
	make --no-print-directory -C "$top" O="$dir" CC="$cc" SAN="$san" lib >"$work/log" 2>&1
	rc=$?
	verdict $rc "$name: the library builds without a warning"
	[ $rc = 0 ] || { comment "$work/log"; return; }
	# shellcheck disable=SC2086
	"$cc" -std=gnu11 -O1 -g -Wall -Wextra -Werror -D_GNU_SOURCE -I"$top/libgpumem/include" \
		${san:+-fsanitize=$san -fno-omit-frame-pointer -fno-sanitize-recover=all} \
		"$top/selftests/host/lib_nodev.c" -o "$work/lib_nodev" -L"$dir/lib" -lgpumem \
		-Wl,-rpath,"$dir/lib" >"$work/log" 2>&1
	rc=$?
	verdict $rc "$name: lib_nodev.c builds without a warning"
	[ $rc = 0 ] || { comment "$work/log"; return; }
	ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:exitcode=99 \
	UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1:exitcode=98 \
		"$work/lib_nodev" >"$work/out" 2>"$work/err"
	rc=$?
	# The program's last line has the number of checks, which must not be 0.
	ran=$(sed -n 's/^\([0-9]*\) passed, 0 failed, 0 skipped$/\1/p' "$work/out")
	[ $rc = 0 ] && [ "${ran:-0}" -gt 0 ]
	rc=$?
	verdict $rc "$name: lib_nodev: ${ran:-no} checks"
	if [ $rc != 0 ]; then
		grep '^not ok' "$work/out" >"$work/log"
		tail -n 1 "$work/out" >>"$work/log"
		comment "$work/log"
	fi
	! grep -qE 'ERROR: (Address|Leak)Sanitizer|runtime error:' "$work/err"
	rc=$?
	verdict $rc "$name: no complaint"
	[ $rc = 0 ] || comment "$work/err"
}

echo "TAP version 13"
try "sanitizers" "$build/san-address-undefined" "${CC:-gcc}" address,undefined
try "clang" "$build/clang" clang ""
finish && [ $passed != 0 ]
