#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Wrong calls: each function of memory, pools, streams, events, IPC, arrays and pointers, with each
# two things wrong at once and with extreme numbers (oracle/matrix.c).  The answers of an H200 are
# in golden/h200-580/matrix.tsv; "matrix >matrix.tsv" on its machine makes it.  Needs root and the
# module.
set -u
top=$(cd "$(dirname "$0")" && pwd)
# Installed, the script lies beside common/; in the sources a folder below.
[ -d "$top/common" ] || top=${top%/*}
. "$top/common/tap.sh"
build=${BUILD:-$top/../build}
library=${GPUMEM_BUILD:-$build}
program=$build/selftests/oracle/matrix
golden=$top/golden/h200-580/matrix.tsv

[ -e /dev/gpumem0 ] || skip_all "gpumem is not loaded"
[ -x "$program" ] || skip_all "make selftests was not run"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
details=$work/details
echo 1..6
LD_LIBRARY_PATH="$library/compat:$library/lib" "$program" >"$work/out" 2>"$details"
status=$?
# The program says how many there are; a call that it could not make is "lost".
grep '	lost$' "$work/out" >>"$details" && status=1
[ "$(wc -l <"$work/out") calls" = "$(head -n 1 "$details")" ] || status=1
result "$status" "every call is made"

# An address that is no device's is the caller's own memory, which need not be there.  A stream that
# waits for a bit of zero waits for ever.
grep "	crash$" "$work/out" |
	grep -v -e '^mtx\.cuMemcpy\(Async\)\?\.[^	]*wild' \
		-e '^mtx\.cuMemcpyBatchAsync_v2\.[^	]*[01]=variant1' \
		-e '^mtx\.cuStreamWaitValue[36][24]_v2\.3=bit1	' >"$details"
[ ! -s "$details" ]
result $? "no call kills the process or hangs"

grep 'then=' "$work/out" >"$details"
[ ! -s "$details" ]
result $? "no refused call breaks the context"

grep '^mtx\.[^.]*\.noinit.*	rc=0' "$work/out" >"$details"
[ ! -s "$details" ]
result $? "nothing succeeds before cuInit"

"$top/oracle/compare.py" "$golden" "$work/out" "$top/oracle/matrix_exceptions.tsv" >"$details"
result $? "answers are those of an H200"
tail -n 1 "$details"
missing=$(sed -n '$s/.* \([0-9]*\) not yet.*/\1/p' "$details")
if [ -n "$missing" ]; then
	number=$((number + 1))
	echo "ok $number functions_to_come # SKIP $missing calls of functions that are not there yet"
else
	result 0 "no function is missing"
fi
echo "# $(wc -l <"$work/out") calls"
[ "$failed" = 0 ]
