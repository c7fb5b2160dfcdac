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
# ORACLE_CHECK=1: with the checker, whose reports go to a file; the answers must be the same.
if [ "${ORACLE_CHECK:-0}" != 0 ]; then
	export GPUMEM_CHECK=log GPUMEM_CHECK_LEAKS=0 GPUMEM_CHECK_LOG="$work/reports"
	: >"$work/reports"
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
"$top/oracle/compare.py" --tap "$work/golden" "$work/out" "$top/oracle/exceptions.tsv"
result=$?

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
if [ -e "$work/reports" ]; then
	# How many reports each function of the programs has, by kind.
	awk '/^gpumem-check: / { kind = $2; next }
		/^    #0 / && kind { n[kind " " $2]++; kind = "" }
		END { for (k in n) print "# checker: " k ", " n[k] }' "$work/reports" | sort
	[ -z "${ORACLE_REPORTS:-}" ] || cat "$work/reports"
fi
exit "$result"
