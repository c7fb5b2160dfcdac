#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Conformance: the public APIs answer as NVIDIA's driver and runtime did on an H200.  One result for each
# group of cases; oracle/exceptions.tsv says what differs and why.  Needs root and the module.
set -u
top=$(cd "$(dirname "$0")" && pwd)
# Installed, the script lies beside common/; in the sources a folder below.
[ -d "$top/common" ] || top=${top%/*}
build=${BUILD:-$top/../build}
library=${GPUMEM_BUILD:-$build}
program=$build/selftests/oracle/oracle_public

skip_all()
{
	echo "1..0 # SKIP $1"
	exit 4
}

[ -e /dev/gpumem0 ] || skip_all "gpumem is not loaded"
[ -x "$program" ] || skip_all "make selftests was not run"
[ -e "$build/compat/libcudart.so.13" ] || skip_all "make lib was not run"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
golden=$top/golden/h200-580
export LD_LIBRARY_PATH="$library/compat:$library/lib" ORACLE_PATIENCE="${ORACLE_PATIENCE:-10}"
export ORACLE_OVERSUBSCRIBE=1
# ORACLE_CHECK=1: with the checker.  The answers must be the same but for check_exceptions.tsv, and the reports those of
# check_expected.tsv.
exceptions=$top/oracle/exceptions.tsv
if [ "${ORACLE_CHECK:-0}" != 0 ]; then
	export GPUMEM_CHECK=log GPUMEM_CHECK_LEAKS=0 GPUMEM_CHECK_LOG="$work/reports"
	: >"$work/reports"
	cat "$exceptions" "$top/oracle/check_exceptions.tsv" >"$work/exceptions"
	exceptions=$work/exceptions
fi
# As in "settings".
seconds=${GPUMEM_TIMEOUT:-900}
"$program" --jobs 2 --deadline $((seconds * 6 / 10)) >"$work/out" \
	2>"$work/log" || sed 's/^/# /' "$work/log"
"${program}_rt" --jobs 2 --deadline $((seconds * 3 / 10)) >>"$work/out" 2>"$work/log" ||
	sed 's/^/# /' "$work/log"
"$build/selftests/oracle/attributes" "$golden/device_attributes.tsv" >>"$work/out" \
	2>"$work/log" || sed 's/^/# /' "$work/log"
unset LD_LIBRARY_PATH ORACLE_PATIENCE ORACLE_OVERSUBSCRIBE
{
	cat "$golden/public.tsv" "$golden/public_two.tsv" "$golden/public_rt.tsv"
	awk -F '\t' '!/^#/ { print "dev.attributes." $2 "\t" $3 }' "$golden/device_attributes.tsv"
} >"$work/golden"
"$top/oracle/compare.py" --tap "$work/golden" "$work/out" "$exceptions" >"$work/tap"
result=$?
if [ -e "$work/reports" ]; then
	. "$top/common/check_counts.sh"
	# One result more: the numbers of reports of each group and kind.
	last=$(sed -n 's/^1\.\.//p' "$work/tap")
	sed "s/^1\\.\\.$last\$/1..$((last + 1))/" "$work/tap"
	check_counts run_group "$work/reports" >"$work/counts"
	check_table "$top/oracle/check_expected.tsv" 1-3 >"$work/expected"
	if [ -s "$work/counts" ] && diff "$work/expected" "$work/counts" >"$work/diff"; then
		echo "ok $((last + 1)) reports of the checker"
	else
		sed 's/^/# /' "$work/diff"
		echo "not ok $((last + 1)) reports of the checker"
		result=1
	fi
	[ -z "${ORACLE_REPORTS:-}" ] || cat "$work/reports" "$work/counts"
else
	cat "$work/tap"
fi

# The number of differences of each class, in one line.
awk -F '\t' '!/^#/ && NF == 3 { n[$2]++ } END { for (c in n) print n[c] " " c }' \
	"$top/oracle/exceptions.tsv" | sort -k 2 | paste -sd , | sed 's/,/, /g' >"$work/classes"
mapping=$top/../Documentation/cuda-mapping.rst
if [ -e "$mapping" ]; then
	awk '/^(CUDA 13.1 to 13.3|Answers that differ)$/ { exit }
		/^Beyond CUDA$/ { beyond = 1 }
		/^   \* - / && !/^   \* - what$/ { n[beyond + 0]++ }
		END { print "; cuda-mapping.rst: " n[0] + 0 " deviations, " n[1] + 0 " extensions" }' \
		"$mapping" >"$work/mapping"
else
	echo >"$work/mapping"
fi
echo "# exceptions.tsv: $(cat "$work/classes")$(cat "$work/mapping")"
exit "$result"
