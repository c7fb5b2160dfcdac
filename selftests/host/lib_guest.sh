#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Test the library on the module, with gcc's address, undefined behaviour and thread sanitizers, and
# under valgrind.  lib_san.sh does the same without a device.
#
# The script builds the library and some of its tests with each sanitizer, and runs the tests in one
# virtual machine.  Before each run it checks that the program loads the library of the same build.
# Another library would hide complaints, or cause false ones.
#
# usage: lib_guest.sh [BUILD]		BUILD is the output directory, build/ by default
#        lib_guest.sh --inside BUILD	the part that runs in the virtual machine
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)

# The runs, one a line: a tool, a program and, in some lines, variables and single cases.  Every
# tool is slow: the thread sanitizer runs programs that have threads, valgrind runs few cases.
runs='thread t_cuda_threads
thread t_cuda_async
thread t_cuda_stream threads
thread t_cuda_notify unregistering threads
thread t_cuda_managed threads
thread t_cuda_decompress beside_host_functions hostile
thread t_cuda_exclusive nothing_half_done half_written half_read not_held
thread t_cuda_vmm_race neighbours one_range
thread t_cuda_pool_order GPUMEM_STEPS=2500 handed_on
address-undefined t_cuda_threads
address-undefined t_cuda_async
address-undefined t_cuda_stream
address-undefined t_cuda_event
address-undefined t_cuda_failure
address-undefined t_cuda_mem
address-undefined t_cuda_ipc
address-undefined t_cuda_managed
address-undefined t_cuda_batch arrays orders
address-undefined t_cuda_decompress hostile other_memory
address-undefined t_fault nth kinds memory delay tear flip fork
valgrind t_cuda_async words_of_every_memory batch functions_of_threads after_failure context_events
valgrind t_cuda_mem pitch range several_attributes reuse_is_zero dmabuf_errors'

complaint='(Thread|Address|Leak)Sanitizer|runtime error:'
complaint+='|^==[0-9]+== .*(Invalid |ninitialised|lost in loss record|overlap in |Mismatched free)'

. "$top/selftests/common/verdict.sh"

# run_inside TOOL PROGRAM [NAME=VALUE...] [CASE...]
run_inside()
{
	local tool=$1 program=$2 dir=$build run=() only=() set=() rc begun=$SECONDS
	shift 2
	for c in "$@"; do
		case $c in
		*=*) set+=("$c") ;;
		*) only+=(-t "$c") ;;
		esac
	done
	if [ "$tool" = valgrind ]; then
		# The module's ioctls do not say in their numbers how long their structures are.
		run=(valgrind -q --sim-hints=lax-ioctls --error-exitcode=66 --leak-check=full
		     --errors-for-leak-kinds=definite --show-leak-kinds=definite)
	else
		dir=$build/san-$tool
	fi
	export LD_LIBRARY_PATH=$dir/lib
	ldd "$dir/selftests/$program" | grep -qF "=> $dir/lib/libgpumem.so.1 "
	verdict $? "$tool: $program has its library"
	timeout -k 10 "${GPUMEM_TIMEOUT:-300}" env "${set[@]}" "${run[@]}" \
		"$dir/selftests/$program" "${only[@]}" >"$work/out" 2>&1 </dev/null
	rc=$?
	# At least one case must pass, and a complaint is a failure even if its case passes.
	grep -v '# SKIP' "$work/out" | grep -q '^ok ' && ! grep -qE "$complaint" "$work/out" && [ "$rc" = 0 ]
	rc=$?
	verdict $rc "$tool: $program${*:+ $*}"
	[ $rc = 0 ] || grep -vE '^(ok|# +(RUN|OK))' "$work/out" | head -n 150 | sed 's/^/# /'
	echo "# $tool: $program: $((SECONDS - begun)) seconds"
}

inside()
{
	work=$(mktemp -d)
	# The thread sanitizer needs mappings at the addresses that 28 random bits give.
	echo 28 >/proc/sys/vm/mmap_rnd_bits
	# A case is a child that ends by _exit(), so the sanitizer does not look for leaks.
	export ASAN_OPTIONS=detect_leaks=0:handle_segv=0:exitcode=66
	export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
	export TSAN_OPTIONS=exitcode=66:history_size=4
	while read -r line; do
		# shellcheck disable=SC2086
		run_inside $line
	done <<<"$runs"
	rm -rf "$work"
	echo "1..$number"
}

# build_with NAME SANITIZERS
build_with()
{
	local dir=$build/san-$1 programs
	programs=$(sed -n "s/^$1 \([^ ]*\).*/\1/p" <<<"$runs" | sed "s|^|$dir/selftests/|" | sort -u)
	# shellcheck disable=SC2086
	make --no-print-directory -C "$top" O="$dir" CC="${CC:-gcc}" SAN="$2" lib >"$log" 2>&1 &&
		make --no-print-directory -C "$top/selftests" OUTPUT="$dir/selftests" \
			LIB="$dir/lib" CC="${CC:-gcc}" SAN="$2" CFLAGS="-O1 -g" $programs >>"$log" 2>&1
	verdict $? "$1: the library and its tests build without a warning"
	[ $failed = 0 ] || sed 's/^/# /' "$log" | tail -n 30
}

if [ "${1:-}" = --inside ]; then
	build=$2
	inside
	exit $((failed != 0))
fi

build=${1:-${BUILD:-$top/build}}
echo "TAP version 13"
if [ "${NATIVE:-}" ]; then
	echo "ok 1 - guest # SKIP NATIVE=1: no virtual machine"
	echo "1..1"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
build_with thread thread
build_with address-undefined address,undefined
if [ $failed = 0 ]; then
	"$top/selftests/vm/run" --kernel "${VM_KERNEL:-6.12}" --mem 4G --timeout 1200 \
		--insmod devices=2 vram=256M -- "$top/selftests/host/lib_guest.sh" --inside "$build" \
		>"$log" 2>&1
	rc=$?
	while IFS= read -r line; do
		case $line in
		ok\ *) verdict 0 "${line#ok * - }" ;;
		not\ ok\ *) verdict 1 "${line#not ok * - }" ;;
		'#'*) echo "$line" ;;
		esac
	done <"$log"
	# Status 1 only means failures in the machine, which the loop above has reported.
	if [ $rc != 1 ] || [ $failed = 0 ]; then
		verdict $rc "the virtual machine ends well"
		[ $rc = 0 ] || tail -n 20 "$log" | sed 's/^/# /'
	fi
fi
finish && [ $passed != 0 ]
