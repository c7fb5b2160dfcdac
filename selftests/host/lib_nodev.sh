#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Test the library without a device: compile and run lib_nodev.c.
#
# usage: lib_nodev.sh [BUILD]		BUILD is the output directory, build/ by default
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-${BUILD:-$top/build}}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if ! ${CC:-gcc} -std=gnu11 -O2 -Wall -Wextra -Werror -D_GNU_SOURCE -I"$top/libgpumem/include" \
		"$top/selftests/host/lib_nodev.c" -o "$work/lib_nodev" -L"$build/lib" -lgpumem; then
	echo "not ok 1 - lib_nodev.c compiles"
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
fi
LD_LIBRARY_PATH="$build/lib" "$work/lib_nodev" "$build/compat/libnvidia-ml.so.1"
