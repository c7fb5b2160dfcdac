#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The video libraries have the names that programs look up, need no library but libc, and answer that
# there are no codecs: compile and run video_check.c.
#
# usage: video_check.sh [BUILD]		BUILD is the output directory, build/ by default
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-${GPUMEM_BUILD:-${BUILD:-$top/build}}}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if ! ${CC:-gcc} -std=gnu11 -O2 -Wall -Wextra -Werror -D_GNU_SOURCE -I"$top/libgpumem/include" \
		"$top/selftests/host/video_check.c" -o "$work/video_check"; then
	echo "not ok 1 - video_check.c compiles"
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
fi
"$work/video_check" "$build/compat"
