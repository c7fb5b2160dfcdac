#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Conformance: the public driver API answers as NVIDIA's driver did on an H200.  One result for each
# group of cases; oracle/exceptions.tsv says what differs and why.  Needs root and the module.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD:-$here/../build}
program=$build/selftests/oracle/oracle_public

skip_all()
{
	echo "1..0 # SKIP $1"
	exit 4
}

[ -e /dev/gpumem0 ] || skip_all "gpumem is not loaded"
[ -x "$program" ] || skip_all "make selftests was not run"
[ -e "$build/compat/libcuda.so.1" ] || skip_all "make lib was not run"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
LD_LIBRARY_PATH=$build/compat:$build/lib "$program" --jobs 2 --deadline 230 \
	>"$work/out" 2>"$work/log" || sed 's/^/# /' "$work/log"
"$here/oracle/compare.py" --tap "$here/golden/h200-580/public.tsv" "$work/out" \
	"$here/oracle/exceptions.tsv"
