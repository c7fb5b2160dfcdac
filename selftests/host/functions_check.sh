#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Check that selftests/functions.tsv fits the library and the tests, and that status.py, which makes
# the table of functions from it at the end of "make check", marks exactly the functions that
# passed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
status="python3 $here/../vm/vmlib/status.py"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/../common/verdict.sh"
details=$work/log

# ticks MARKS WHAT: passes if cuMemAllocPitch() has MARKS after the run whose output is on standard
# input.
ticks()
{
	cat >"$work/run"
	$status --from "$work/run" "$work/table" >"$work/log" 2>&1 &&
		grep -qF "| \`cuMemAllocPitch\` | $1 |" "$work/table"
	verdict $? "$2"
}

$status --check >"$work/log" 2>&1
verdict $? "each function is the library's, the tests named call it, and none about memory is missing"

# without FUNCTION WHAT: a table without the rows of FUNCTION is not accepted.
without()
{
	awk -F '\t' -v name="$1" '$2 != name' "$here/../functions.tsv" >"$work/table"
	! $status --check "$work/table" >"$work/log" 2>&1 &&
		grep '^#' "$work/log" >"$work/complaints" &&
		[ "$(cat "$work/complaints")" = "# $1 is in no row" ]
	verdict $? "a missing row is found: $2"
}

without cuMemSetMemPool "a function of the driver API"
without cuPointerGetAttributes "one that only asks"
without cuMulticastBindMem "one that is not supported"
without cudaMemPrefetchBatchAsync "one of the runtime API"
without cudaMemcpyFromArray "one with forms for threads"
without cuFileBufRegister "one of cuFile"
{ cat "$here/../functions.tsv"; printf 'Memory\tcuMemGrow\tt_cuda_mem.mem.info\n'; } >"$work/table"
! $status --check "$work/table" >"$work/log" 2>&1 && grep -qxF "# cuMemGrow is no function of the library" "$work/log"
verdict $? "a row without a function is found"

good='# t_cuda_mem
ok 1 mem.pitch
# t_oracle.sh
ok 94 pitch: 12 of 12 agree'

ticks '✓ | ✓' "all passed" <<-END
	== kselftest
	$good
	== kselftest-debug
	$good
END
ticks '✓ | ✗' "one failed on one kernel" <<-END
	== kselftest
	$good
	== kselftest-debug
	# t_cuda_mem
	not ok 1 mem.pitch
END
ticks '✓ | ✗' "one failed in one mode" <<-END
	== kselftest
	$good
	# t_cuda_mem (GPUMEM_STRICT=1)
	not ok 1 mem.pitch
END
ticks '✓ | ✗' "one was skipped" <<-END
	== kselftest
	# t_cuda_mem
	ok 1 mem.pitch # SKIP no reason
	# t_oracle.sh
	ok 94 pitch: 12 of 12 agree
END
ticks '✓ | ✗' "its program left something behind" <<-END
	== kselftest
	$good
	not ok t_cuda_mem left something behind: used is 4096
END
ticks '✓ | ✗' "a part of its group is not there yet" <<-END
	== kselftest
	# t_cuda_mem
	ok 1 mem.pitch
	# t_oracle.sh
	ok 94 pitch: 9 of 12 agree, 3 not yet
END
ticks '✓ | ✗' "one of two did not run" <<-END
	== kselftest
	# t_cuda_mem
	ok 1 mem.pitch
END
printf '== host/some\n# t_cuda_mem\nok 1 mem.pitch\n' >"$work/run"
! $status --from "$work/run" "$work/other" >"$work/log" 2>&1 && [ ! -e "$work/other" ]
verdict $? "no table where no kernel test ran"

finish
