#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Check that tools/bench/compare.py reports growth, lost and new rows, bars that are no longer met,
# and figures of another kernel or machine, and nothing else.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
compare="$top/tools/bench/compare.py"
baseline="$top/tools/bench/baseline.tsv"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1
. "$(dirname "$0")/../common/verdict.sh"
details=$work/out

cat >"$work/base" <<'END'
#kernel	6.12.1-test
#qemu	7.2.22
#cpu	max
#machine	2G
#compiler	gcc 12
#libc	glibc 2.36
null	peer	100.00	-	-
slow	peer	1000.00	-	-
query	call	50.00	null	1.00
open	call	1000.00	-	-
take	alloc	1000.00	slow	-
late	call	1200.00	slow	1.00
wake	ratio	1000.00	slow	-
end
END

# run WHAT STATUS WORDS COMMAND...: passes if COMMAND exits with STATUS and prints WORDS (a pattern,
# or empty).
run()
{
	what=$1 status=$2 words=$3
	shift 3
	"$@" >"$work/out" 2>&1
	rc=$?
	if [ $rc = "$status" ] && grep -q -- "$words" "$work/out"; then
		verdict 0 "$what"
	else
		verdict 1 "$what: status $rc, wanted $status and \"$words\""
	fi
}

# edited WHAT STATUS WORDS SED...: compares the baseline with itself, edited.
edited()
{
	what=$1 status=$2 words=$3
	shift 3
	sed "$@" "$work/base" >"$work/head"
	run "$what" "$status" "$words" "$compare" check "$work/base" "$work/head"
}

echo "TAP version 13"
run "the same figures pass" 0 "4 figures compared with .*, 0 failed" \
	"$compare" check "$work/base" "$work/base"
edited "a call that grew by 1.9% passes" 0 "0 failed" 's/^open\tcall\t1000/open\tcall\t1019/'
edited "a call that grew by 2.1% fails" 1 "FAILED: open: 1021.0, was 1000.0 (+2.1%" \
	's/^open\tcall\t1000/open\tcall\t1021/'
edited "an allocation that grew by 4.9% passes" 0 "0 failed" \
	's/^take\talloc\t1000/take\talloc\t1049/'
edited "an allocation that grew by 5.1% fails" 1 "FAILED: take: 1051.0" \
	's/^take\talloc\t1000/take\talloc\t1051/'
edited "what fell passes and is mentioned" 0 "note: open: 900.0.*make bench-baseline" \
	's/^open\tcall\t1000/open\tcall\t900/'
edited "a row that is gone fails" 1 "FAILED: take is missing" '/^take/d'
edited "a row that became a peer fails" 1 "FAILED: take is missing" 's/^take\talloc/take\tpeer/'
edited "a row that the baseline lacks fails" 1 "FAILED: more is not in the baseline" \
	's/^end/more\tcall\t1.00\t-\t-\nend/'
edited "a bar that is not met any more fails" 1 "FAILED: query: ratio 1.250 to null" \
	's/^null\tpeer\t100/null\tpeer\t40/'
edited "a bar that never was met is mentioned" 0 "note: late: ratio 1.200 to slow is above" ''
edited "peers and ratios may grow" 0 "0 failed" \
	-e 's/^slow\tpeer\t1000/slow\tpeer\t9000/' -e 's/^wake\tratio\t1000/wake\tratio\t9000/'
edited "a peer that is not there is mentioned" 0 "note: slow was skipped: no such thing" \
	's/^slow\tpeer.*/slow\tskip\t-\tno such thing\t-/'
for key in kernel qemu cpu machine; do
	edited "another $key is not compared" 4 "NOT COMPARED" "s/^#$key\t.*/#$key\tanother/"
done
edited "growth elsewhere is not compared either" 4 "kernel: 6.12.1-test there, 7.2 here" \
	-e 's/^#kernel.*/#kernel\t7.2/' -e 's/^open\tcall\t1000/open\tcall\t9000/'
edited "another compiler is mentioned" 0 "note: compiler differs" 's/^#compiler.*/#compiler\tclang/'
edited "figures from nowhere are refused" 2 "does not say which kernel" '/^#kernel/d'
edited "half an output is refused" 2 "is not whole" '/^end/d'
edited "a line that is no row is refused" 2 "not a row" 's/^wake.*/wake 1000/'
edited "a row that is there twice is refused" 2 "open is there twice" '/^open/p'
edited "no row of ours is refused" 2 "has no row of ours" '/^[a-z]*\t[ac]/d'

# compare.py compares the median of three runs.
sed 's/^open\tcall\t1000/open\tcall\t5000/' "$work/base" >"$work/high"
sed 's/^open\tcall\t1000/open\tcall\t1010/' "$work/base" >"$work/middle"
run "one high figure of three passes" 0 "0 failed" \
	"$compare" check "$work/base" "$work/high" "$work/base" "$work/middle"
run "two high figures of three fail" 1 "FAILED: open: 5000.0" \
	"$compare" check "$work/base" "$work/high" "$work/high" "$work/middle"
run "runs with different rows are refused" 2 "different rows" \
	"$compare" check "$work/base" "$work/high" "$work/head"

"$compare" merge "$work/base" "$work/high" "$work/middle" >"$work/merged"
run "a merged baseline compares" 0 "0 failed" "$compare" check "$work/merged" "$work/middle"
run "a difference is printed" 0 "^open .* +400.0%  more" "$compare" diff "$work/base" "$work/high"
run "places are not mixed in a difference" 4 "NOT COMPARED" sh -c \
	"sed 's/^#qemu.*/#qemu\t1/' '$work/base' >'$work/old'; '$compare' diff '$work/old' '$work/base'"
run "a ratio is printed, and what an H200 takes" 0 "bar 1.00 MISSED" "$compare" ratios "$work/base"

run "the committed baseline is whole" 0 ", 0 failed" "$compare" check "$baseline" "$baseline"
run "rows of the baseline have figures of an H200" 0 "^event_record .* 152" \
	"$compare" ratios "$baseline"

finish
