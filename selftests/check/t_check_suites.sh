#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Programs of the kernel tests with the checker: the reports that each test has are those of suites.tsv, by kind and
# number.
# Some tests make mistakes on purpose; every other report is false.  What the tests themselves find does not count: they
# look at addresses and counters, which differ with the checker.  Needs root and the module.
#
# usage: t_check_suites.sh [PROGRAM...]		SUITES_REPORTS=1: print the reports
set -u
top=$(cd "$(dirname "$0")" && pwd)
# Installed, the script and the table lie beside common/; in the sources a folder below.
table=$top/suites.tsv
[ -d "$top/common" ] || top=${top%/*}
build=${BUILD:-$top/../build}
programs=${GPUMEM_SELFTESTS:-$build/selftests}
. "$top/common/tap.sh"
. "$top/common/check_counts.sh"

echo "TAP version 13"
[ "$(id -u)" = 0 ] || skip_all "root is needed"
[ -e /dev/gpumem0 ] || skip_all "gpumem is not loaded"
[ $# != 0 ] || {
	# shellcheck disable=SC2046
	set -- $(grep -v '^#' "$table" | cut -f 1 | uniq)
}
echo "1..$#"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
details=$work/diff
tab=$(printf '\t')
# Allocations that are left to the end of a process, which is a test, are no mistakes.
export GPUMEM_CHECK=log GPUMEM_CHECK_LEAKS=0 GPUMEM_CHECK_LOG="$work/reports"

for program; do
	: >"$work/reports"
	timeout 120 "$programs/$program" >"$work/out" 2>&1
	status=$?
	# A row without a test says that the program runs.
	check_table "$table" 1-4 | sed -n "s/^$program$tab//p" | grep -v '^-' >"$work/expected"
	check_counts __run_test "$work/reports" >"$work/counts"
	# Of a row with any number, there need not be a report.
	awk -F "$tab" -v OFS="$tab" 'FILENAME == ARGV[1] { if ($3 == "*") any[$1, $2] = 1; next } !(($1, $2) in any)' \
		"$work/expected" "$work/counts" >"$work/got"
	sed -i "/$tab\*\$/d" "$work/expected"
	{
		# Tests may fail (1); crashes and hangs are mistakes of the checker.
		[ $status -le 1 ] || echo "exit status $status"
		grep -c '^ok ' "$work/out" | grep -x 0 | sed 's/.*/no test passed/'
		diff "$work/expected" "$work/got"
	} >"$work/diff"
	[ ! -s "$work/diff" ]
	result $? "$program"
	[ -z "${SUITES_REPORTS:-}" ] || sed 's/^/# /' "$work/reports" "$work/counts"
done
[ $failed = 0 ]
