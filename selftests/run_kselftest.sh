#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Run the kernel selftests, one program after another, on a kernel that has gpumem.ko loaded.
#
#   run_kselftest.sh [-l] [-s] [-x] [PROGRAM[:CASE]...]
#
#   -l  list the programs     -s  summary only: show the output of failing programs alone
#   -x  stop at the first failure, in the midst of a program
#
# The programs are those of kselftest-list.txt, in the directory GPUMEM_SELFTESTS, beside this
# script, or in ../build/selftests.  With a CASE, only that one of a program in C runs.  Each
# program gets as many seconds as the file "settings" says.  Besides its own verdict it fails
#
#  - when it ends without finishing its TAP plan, or takes too long;
#  - when the kernel complained meanwhile (WARN, BUG, KASAN, lockdep, ...);
#  - when it leaves something behind: /sys/class/gpumem/*/{clients,bos,exports,views,used},
#    anything that "gpumem leaks" finds, or shared memory that is still charged to the
#    programs' control group;
#  - when it skips a case that "skips.tsv" does not name for this kernel.
#
# Where several runs share the work, GPUMEM_QUEUE is a directory that all of them see: each program
# is run by whoever makes a directory of its name there first, and those that "settings" calls long
# come first.
#
# "modes.tsv" names programs to run once more in another environment, and the kernels to do it on.
# The last line is "N passed, N failed, N skipped", in cases; the exit status is 0 when none failed.
set -u -o pipefail
here=$(dirname "$(readlink -f "$0")")

for dir in "${GPUMEM_SELFTESTS:-}" "$here" "$here/../build/selftests"; do
	[ "$dir" ] && [ -e "$dir/kselftest-list.txt" ] && break
done
if [ ! -e "$dir/kselftest-list.txt" ]; then
	echo "run_kselftest.sh: no kselftest-list.txt: make selftests first" >&2
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
fi

quiet='' hasty=''
while getopts lsx o; do
	case $o in
	l) sed 's/^[^:]*://' "$dir/kselftest-list.txt"; exit 0 ;;
	s) quiet=1 ;;
	x) hasty=1 ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))

mapfile -t all < <(sed 's/^[^:]*://; /^$/d' "$dir/kselftest-list.txt")
names=("$@")
[ $# -gt 0 ] || names=("${all[@]}")

passed=0 failed=0 skipped=0
release=$(uname -r)
work=$(mktemp -d)
trap 'rm -rf "$work"; [ -z "${group:-}" ] || rmdir "$group"' EXIT

# What counts as a complaint of the kernel.  vm/vmlib/splat.py has the same list.
splat='\bBUG: |\bWARNING: |\bOops: |Oops - |general protection fault|kernel BUG at'
splat+='|kernel NULL pointer|Unable to handle kernel|invalid opcode:|stack segment:'
splat+='|KASAN:|KCSAN:|KFENCE:.* in |KMSAN:|UBSAN: .* in |refcount_t: |ODEBUG: '
splat+='|DMA-API: .* device driver|kmemleak:.*new suspected|possible (recursive|circular) locking'
splat+='|lock held when returning|inconsistent lock state|possible irq lock inversion'
splat+='|suspicious RCU usage|sleeping function called from|INFO: task .* blocked for more'
splat+='|INFO: trying to register non-static key|INFO:.*(stall|detected)|soft lockup|hard LOCKUP'
splat+='|workqueue lockup|(list_add|list_del) corruption|Bad page (state|map)|Bad rss-counter'
splat+='|bad: scheduling|scheduling while atomic|held lock freed|Invalid wait context'
splat+='|stack-protector:|page_table_check.*BUG|usercopy: Kernel memory|Objects remaining'
splat+='|double fault|Call Trace:'

# After one of these nothing that the kernel says or does is worth testing.
fatal='\bOops: |kernel BUG at|general protection fault|Unable to handle kernel|double fault'
dead=

setting() {	# PROGRAM: its seconds
	local key v seconds=300
	while IFS='=' read -r key v; do
		case $key in
		timeout) seconds=$v ;;
		"timeout.$1") seconds=$v; break ;;
		esac
	done <"$here/settings"
	echo "${GPUMEM_TIMEOUT:-$seconds}"
}

may_skip() {	# PROGRAM.CASE
	local kernel test
	while IFS=$'\t' read -r kernel test _; do
		# shellcheck disable=SC2053
		[[ $kernel != '#'* && $release == $kernel && $1 == $test ]] && return 0
	done <"$here/skips.tsv"
	return 1
}

marks=0
mark() {	# TITLE: a line in the kernel's log that is like no other
	marks=$((marks + 1))
	mark="gpumem-kselftest $$.$marks: $1"
	echo "$mark" >/dev/kmsg 2>/dev/null
}

# The log without the traces of new threads' stacks for which a fault was injected: see splat.py.
without_injected() {
	awk '
	!n && /t_cuda_fail_nth: vmalloc error: size [0-9]+, / { n = 1; thread = traces = 0; text = "" }
	!n { print; next }
	{
		text = text $0 "\n"
		thread += /copy_process\+/
		traces += /Call Trace:|BUG: |WARNING: |KASAN: |UBSAN: /
		over = /<\/TASK>/
		if (over && thread && traces == 1) {
			n = 0
		} else if (over || ++n > 120) {
			printf "%s", text
			n = 0
		}
	}
	END { if (n) printf "%s", text }'
}

# Has the kernel complained since the mark?  Then $work/log is its log since then; all of it when
# the mark is gone, which is worse, not better.
complaint() {
	local last
	dmesg | without_injected >"$work/log"
	last=$(grep -E "gpumem-kselftest $$\.$marks: |$splat" "$work/log")
	[[ ${last##*$'\n'} != *"$mark" ]] || return 1
	sed -i "1,/gpumem-kselftest $$\.$marks: /d" "$work/log"
	[ -s "$work/log" ] || dmesg | without_injected >"$work/log"
	grep -qE "$splat" "$work/log"
}

tool=${BUILD:-$here/../build}/bin/gpumem

leftovers() {	# [all]
	local f n
	for f in /sys/class/gpumem/*/{clients,bos,exports,views,used}; do
		[ -e "$f" ] || continue
		read -r n <"$f"
		[ "$n" = 0 ] || echo "${f#/sys/class/gpumem/} is $n"
	done
	[ "${1:-}" = all ] || return 0
	# What each of them is, by netlink, and whether all numbers agree.
	if [ -x "$tool" ]; then
		"$tool" leaks 2>&1
	else
		echo "$tool is missing: make tools"
	fi
}

bad() {		# one more failure, and why
	echo "not ok $*"
	failed=$((failed + 1))
	trouble=1
}

ok_line='^ok [0-9]+ (- )?([^ ]*)(.*)$'

# Adds the TAP results in $work/out up.
count() {	# NAME STATUS
	local name=$1 rc=$2 plan='' results=0 nok=0 line case=''
	while IFS= read -r line; do
		if [[ $line =~ ^1\.\.([0-9]+) ]]; then
			plan=${BASH_REMATCH[1]}
		elif [[ $line =~ ^not\ ok\ [0-9]+ ]]; then
			results=$((results + 1))
			nok=$((nok + 1))
			failed=$((failed + 1))
			trouble=1
		elif [[ $line =~ $ok_line ]]; then
			results=$((results + 1))
			case=${BASH_REMATCH[2]}
			if [[ ${BASH_REMATCH[3]} != *'# SKIP'* ]]; then
				passed=$((passed + 1))
			elif may_skip "$name.$case"; then
				skipped=$((skipped + 1))
			else
				bad "$name.$case skips and is not in skips.tsv"
			fi
		fi
	done <"$work/out"
	if [ "$hasty" ] && [ $nok != 0 ]; then
		return		# killed, perhaps
	elif [ "$rc" = 124 ] || [ "$rc" = 137 ]; then
		bad "$name took more than $(setting "$name") seconds"
	elif [ -z "$plan" ]; then
		bad "$name has no TAP plan (exit status $rc)"
	elif [ "$results" != "$plan" ]; then
		bad "$name planned $plan cases and finished $results (exit status $rc)"
	elif [ "$rc" != 0 ] && [ "$rc" != 4 ] && [ $nok = 0 ]; then
		bad "$name: exit status $rc though no case failed"
	elif [ "$plan" = 0 ]; then
		bad "$name has no case"
	fi
}

# The programs run in a control group that has nothing else in it, where there are such.
cgroups=/sys/fs/cgroup
group=$cgroups/kselftest.$$
echo +memory 2>/dev/null >$cgroups/cgroup.subtree_control
mkdir "$group" 2>/dev/null || group=

# KiB of shared memory that the programs have been charged for, less what files in the tmpfs mounts
# that can be seen hold of it.
group_shmem() {
	local word n kib=0
	[ -e "$group/memory.stat" ] || { echo 0; return; }
	while read -r word n; do
		[ "$word" != shmem ] || kib=$((n / 1024))
	done <"$group/memory.stat"
	while read -r n; do
		[[ $n != [0-9]* ]] || kib=$((kib - n))
	done < <(df -a -k -t tmpfs --output=used 2>/dev/null)
	echo $kib
}

# Waits without starting a program.
exec {never}<> <(:)
nap() {		# SECONDS
	read -r -t "$1" -u "$never" _
}

# Runs a command with its output in $work/out; shows it too.  Returns its status, 124 when it took
# too long.  What it leaves running is killed: cases are process groups of their own, so they
# outlive their program.  What cannot even be killed is left behind: the rest must not wait for it.
run_limited() {	# SECONDS COMMAND...
	local seconds=$1 pid show='' i status
	shift
	: >"$work/out"
	# shellcheck disable=SC2016
	setsid sh -c '[ -z "$1" ] || echo 0 >"$1/cgroup.procs"; shift; exec "$@"' - "$group" \
		timeout -k 10 "$seconds" "$@" >"$work/out" 2>&1 </dev/null {never}<&- &
	pid=$!
	if [ ! "$quiet" ]; then
		tail -n +1 -s 0.2 -f --pid=$pid "$work/out" 2>/dev/null &
		show=$!
	fi
	for ((i = 0; i < (seconds + 20) * 5; i++)); do
		kill -0 $pid 2>/dev/null || break
		if [ "$hasty" ] && grep -q '^not ok ' "$work/out"; then
			kill $pid
		fi
		nap 0.2
	done
	if kill -0 $pid 2>/dev/null; then
		disown $pid
		[ "$show" ] && kill "$show"
		return 124
	fi
	[ "$show" ] && wait "$show"
	wait $pid
	status=$?
	[ -e "$group/cgroup.kill" ] && echo 1 >"$group/cgroup.kill" || pkill -KILL -s $pid
	return $status
}

run_one() {	# PROGRAM[:CASE] [NAME=VALUE...]
	local name=${1%%:*} only=() title rc left program shmem grown
	[[ $1 == *:* ]] && only=(-t "${1#*:}")
	title="$1"
	shift
	title+="${*:+ ($*)}"
	program=$dir/$name
	[ -e "$program" ] || program=$dir/gpumem/$name
	[ -e "$program" ] || program=$here/$name
	trouble=
	echo "# $title"
	if [ ! -x "$program" ]; then
		bad "$name is not there"
		return
	fi
	mark "$title"
	shmem=$(group_shmem)
	SECONDS=0
	run_limited "$(setting "$name")" env "$@" "$program" "${only[@]}"
	rc=$?
	count "$name" "$rc"
	echo "# $title: $SECONDS seconds"
	left=
	if ! [ "$hasty" ] || [ ! "$trouble" ]; then
		for _ in 1 2 3 4 5 6 7 8 9 10; do
			left=$(leftovers)
			grown=$(($(group_shmem) - shmem))
			[ "$left" ] || [ $grown -gt 1024 ] || break
			nap 0.5
		done
		left=$(leftovers all)
		[ $grown -le 1024 ] ||
			left+="${left:+, }$grown KiB of shared memory charged to the control group"
	fi
	[ -z "$left" ] || bad "$name left something behind: ${left//$'\n'/, }"
	if complaint; then
		bad "$name made the kernel complain:"
		grep -E -B 3 -A 40 -m 3 "$splat" "$work/log" | head -n 150 | sed 's/^/# /'
		grep -qE "$fatal" "$work/log" && dead=$name
	fi
	if [ "$quiet" ] && [ "$trouble" ]; then
		cat "$work/out"
	fi
}

if ! ls -d /sys/class/gpumem/* >/dev/null 2>&1; then
	echo "run_kselftest.sh: gpumem.ko is not loaded" >&2
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
fi
if ! dmesg >/dev/null 2>&1; then
	echo "run_kselftest.sh: cannot read the kernel's log" >&2
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
fi

# Read once: without it programs would not run again, and nobody would notice.
mapfile -t modes < <(grep -v '^#' "$here/modes.tsv")
[ ${#modes[@]} != 0 ] || bad "modes.tsv cannot be read"
for row in "${modes[@]}"; do
	IFS=$'\t' read -r kernel program _ <<<"$row"
	[[ " ${all[*]} " == *" $program "* ]] || bad "modes.tsv: no program $program"
done

if [ "${GPUMEM_QUEUE:-}" ]; then
	long=()
	while IFS='=' read -r key value; do
		[ "$key" != long ] || [[ " ${names[*]} " != *" $value "* ]] || long+=("$value")
	done <"$here/settings"
	rest=()
	for name in "${names[@]}"; do
		[[ " ${long[*]} " == *" $name "* ]] || rest+=("$name")
	done
	names=("${long[@]}" "${rest[@]}")
fi

for name in "${names[@]}"; do
	[ "$hasty" ] && [ $failed != 0 ] && break
	if [ "$dead" ]; then
		[ "${GPUMEM_QUEUE:-}" ] || bad "$name was not run: the kernel died under $dead"
		continue
	fi
	if [ "${GPUMEM_QUEUE:-}" ] && ! mkdir "$GPUMEM_QUEUE/$name" 2>"$work/err"; then
		[ -d "$GPUMEM_QUEUE/$name" ] || bad "$name: $(<"$work/err")"
		continue
	fi
	run_one "$name"
	for row in "${modes[@]}"; do
		IFS=$'\t' read -r kernel program mode <<<"$row"
		[ "$hasty" ] && [ $failed != 0 ] && break
		# shellcheck disable=SC2053
		if [ "$program" = "${name%%:*}" ] && [[ $release == $kernel ]] && [ ! "$dead" ]; then
			[ -z "${GPUMEM_STEPS:-}" ] || [ "${GPUMEM_QUICK:-}" ] || mode=${mode/GPUMEM_STEPS=*/}
			# shellcheck disable=SC2086
			run_one "$name" $mode
		fi
	done
done

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ] && { [ $passed != 0 ] || [ "${GPUMEM_QUEUE:-}" ]; }
