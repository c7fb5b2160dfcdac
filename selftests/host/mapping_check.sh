#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Check that Documentation/cuda-mapping.rst ends with the table of exceptions.tsv: cases, class,
# reason.
#
# usage: mapping_check.sh [--write]	--write writes the table into the document
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
doc=$top/Documentation/cuda-mapping.rst
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

awk -F '\t' '!/^#/ && NF == 3 { printf "   * - ``%s``\n     - %s\n     - %s\n", $1, $2, $3 }' \
	"$top/selftests/oracle/exceptions.tsv" >"$work/want"
awk '/^Answers that differ$/ { here = 1 }
	here && /^   \* - ``/ { table = 1 }
	table' "$doc" >"$work/have"
if [ "${1:-}" = --write ]; then
	awk '/^Answers that differ$/ { here = 1 }
		here && /^   \* - ``/ { exit }
		{ print }' "$doc" >"$work/doc"
	cat "$work/doc" "$work/want" >"$doc"
	exit
fi
echo "TAP version 13"
echo "1..1"
if [ -s "$work/want" ] && diff "$work/want" "$work/have" >"$work/diff"; then
	echo "ok 1 - cuda-mapping.rst lists what exceptions.tsv does"
	echo "1 passed, 0 failed, 0 skipped"
else
	sed 's/^/# /' "$work/diff"
	echo "# run selftests/host/mapping_check.sh --write"
	echo "not ok 1 - cuda-mapping.rst lists what exceptions.tsv does"
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
fi
