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
#  - when the kernel complained during its run (WARN, BUG, KASAN, lockdep, ...);
#  - when it leaves something behind: /sys/class/gpumem/*/{clients,bos,exports,views,used},
#    anything that "gpumem leaks" finds, or shared memory that is still charged to the
#    programs' control group;
#  - when it leaves a parameter of the module changed, which then gets its former value back;
#  - when it skips a case that "skips.tsv" does not name for this kernel.
#
# Where several runs share the work, GPUMEM_QUEUE is a directory that all of them see.  The run that
# first makes a directory of a program's name there runs the program.  Programs that "settings"
# calls long come first.
#
# "modes.tsv" names programs to run once more in another environment, and the kernels to do it on.
# The last line is "N passed, N failed, N skipped", in cases; the exit status is 0 when none failed.
#
# The script starts next to no processes of its own for each program: on a debug kernel without KVM
# that takes long, and there are many programs.
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
follower='' kmsg=''
trap '[ -z "$follower" ] || kill $follower; rm -rf "$work"; [ -z "${group:-}" ] || rmdir "$group"' EXIT

# Patterns of the kernel's complaints.  vm/vmlib/splat.py has the same list.
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
splat+='|double fault|schedule_timeout: wrong timeout|Call Trace:'

# After one of these nothing that the kernel says or does is worth testing.
fatal='\bOops: |kernel BUG at|general protection fault|Unable to handle kernel|double fault'
dead=

declare -A timeouts=()
timeout=300 long=()
while IFS='=' read -r key value; do
	case $key in
	timeout) timeout=$value ;;
	timeout.*) timeouts[${key#timeout.}]=$value ;;
	long) [[ " ${names[*]} " != *" $value "* ]] || long+=("$value") ;;
	esac
done <"$here/settings"

may_skip() {	# PROGRAM.CASE
	local kernel test
	while IFS=$'\t' read -r kernel test _; do
		[ "$kernel" != native ] || [ -d /run/vm ] || kernel=$release
		# shellcheck disable=SC2053
		[[ $kernel != '#'* && $release == $kernel && $1 == $test ]] && return 0
	done <"$here/skips.tsv"
	return 1
}

# It tells this run from others of the same process id.
run=$$.${work##*.}
marks=0
mark() {	# TITLE: a line in the kernel's log that is like no other
	marks=$((marks + 1))
	mark="gpumem-kselftest $run.$marks: $1"
	[ ! -c /dev/kmsg ] || echo "$mark" 2>/dev/null >/dev/kmsg
}

# The log without the traces of what a test refused on purpose, a new thread's stack and the cache of
# the module's items: see splat.py.
without_injected() {
	awk '
	!n && /t_(cuda_)?fail_nth: vmalloc error: size [0-9]+, |kmem_cache_create.*\(gpumem_cache_item\) failed with error -(12|22)$/ {
		n = 1
		thread = traces = 0
		text = ""
	}
	!n { print; next }
	{
		text = text $0 "\n"
		thread += /copy_process\+|gpumem_cache_init\+/
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

# A follower writes the kernel's log to a file, of which descriptor $kmsg has read the beginning.
# It ends when the log overruns it.
follow_log() {
	: >"$work/kmsg"
	[ -z "$kmsg" ] || exec {kmsg}<&-
	exec {kmsg}<"$work/kmsg"
	cat /dev/kmsg >>"$work/kmsg" 2>/dev/null {kmsg}<&- {ask}>&- {told}<&- &
	follower=$!
}

# Sets log to what the kernel said since the last time, a line each, and after the first mark.  When
# the log overran the follower, what the kernel still knows since the mark comes behind; all of it
# where the mark is gone, which is worse, not better.
unread=() begun='' from=1
read_log() {
	local end="$mark over" first="gpumem-kselftest $run.$from: " chunk line i n
	local since="gpumem-kselftest $run.$marks: "
	log=()
	[ ! -c /dev/kmsg ] || echo "$end" 2>/dev/null >/dev/kmsg
	for ((i = 0; i < 100; i++)); do
		mapfile -u "$kmsg" chunk
		n=$((${#unread[@]} - 1))
		if [ ${#chunk[@]} != 0 ] && [ $n -ge 0 ] && [[ ${unread[n]} != *$'\n' ]]; then
			unread[n]+=${chunk[0]}
			chunk=("${chunk[@]:1}")
		fi
		unread+=("${chunk[@]}")
		for ((n = 0; n < ${#unread[@]}; n++)); do
			line=${unread[n]}
			# It will be longer the next time.
			[[ $line == *$'\n' ]] || break
			kmsg_bytes=$((kmsg_bytes + ${#line}))
			line=${line%$'\n'}
			if [[ $begun && $line == *"$end" ]]; then
				unread=("${unread[@]:n+1}")
				return
			elif [[ ! $begun && $line == *"$first"* ]]; then
				begun=1
				log=()
			elif [[ $line != ' '* && $line != *";gpumem-kselftest $run."* ]]; then
				line=${line#*;}
				log+=("${line//\\x0a/$'\n'}")
			fi
		done
		unread=("${unread[@]:n}")
		kill -0 $follower 2>/dev/null || break
		nap 0.1
	done
	kill $follower 2>/dev/null
	wait $follower 2>/dev/null
	follow_log
	unread=() begun='' from=$((marks + 1))
	kmsg_bytes=0
	dmesg >"$work/dmesg"
	sed -i "1,/$since/d" "$work/dmesg"
	[ -s "$work/dmesg" ] || dmesg >"$work/dmesg"
	mapfile -t -O ${#log[@]} log <"$work/dmesg"
}

# Has the kernel complained since the mark?  Then $work/log is its log since then.
complaint() {
	read_log
	[ ${#log[@]} != 0 ] || return 1
	printf '%s\n' "${log[@]}" >"$work/log"
	if [[ ${log[*]} == *'fail_nth: vmalloc error'* ||
	      ${log[*]} == *'(gpumem_cache_item) failed'* ]]; then
		without_injected <"$work/log" >"$work/less"
		mv "$work/less" "$work/log"
	fi
	grep -qE "$splat" "$work/log"
}

tool=${BUILD:-$here/../build}/bin/gpumem

leftovers() {	# [all]: sets left
	local f n
	left=
	for f in /sys/class/gpumem/*/{clients,bos,exports,views,used}; do
		[ -e "$f" ] || continue
		n='?'
		read -r n 2>/dev/null <"$f" || [ -e "$f" ] || continue
		[ "$n" = 0 ] || left+="${left:+, }${f#/sys/class/gpumem/} is $n"
	done
	[ "${1:-}" = all ] || return 0
	# List each object that is left, by netlink, and check that all numbers agree.
	if [ -x "$tool" ]; then
		n=$("$tool" leaks 2>&1)
	else
		n="$tool is missing: make tools"
	fi
	[ -z "$n" ] || left+="${left:+, }$n"
}

# Sets is to the values of the module's parameters.
declare -A is=() was=()
shared_after=()		# "KIB TITLE" of the programs after which more memory was shared
parameters() {
	local f value
	is=()
	for f in /sys/module/gpumem/parameters/*; do
		value=
		read -r value 2>/dev/null <"$f"
		is[${f##*/}]=$value
	done
}

# Writes the parameters that are not as they were.  Sets changed to what they were set to.
restore_parameters() {
	local name
	changed=
	[ -d /sys/module/gpumem ] || return
	parameters
	for name in "${!was[@]}"; do
		[ "${is[$name]-}" != "${was[$name]}" ] || continue
		changed+="${changed:+, }$name=${is[$name]-}"
		echo "${was[$name]}" 2>/dev/null >"/sys/module/gpumem/parameters/$name" ||
			changed+=" (and cannot be restored)"
	done
}

# Loads the module again, as it was at first: the same file, parameters and modes of the nodes.
reload() {
	local ko name arguments=() file=/sys/module/gpumem/parameters
	for ko in "${GPUMEM_KO:-}" /run/vm/gpumem.ko "${BUILD:-$here/../build}/$release/gpumem.ko" \
			"/lib/modules/$release/updates/gpumem.ko"; do
		[ ! -r "$ko" ] || break
	done
	[ -r "$ko" ] && [ "$(modinfo -F srcversion "$ko")" = "$version" ] || return
	for name in "${!was[@]}"; do
		[[ ${was[$name]} == '' || ${was[$name]} == '(null)' ]] || arguments+=("$name=${was[$name]}")
	done
	{ [ ! -d "$file" ] || rmmod gpumem; } && insmod "$ko" "${arguments[@]}" && chmod "$nodes" /dev/gpumem[0-9]*
} >/dev/null 2>&1

# Sets shared to the KiB of shared memory, which are the module's and those of files in tmpfs.
shared_memory() {
	local name
	shared=0
	while read -r name shared _; do
		[ "$name" != Shmem: ] || return
	done 2>/dev/null </proc/meminfo
	shared=0
}

# Says how much memory is left, what holds it, and which programs have left shared memory.
memory_report() {
	local fields='^(MemTotal|MemAvailable|AnonPages|Shmem|Mlocked|Slab|KernelStack|PageTables|VmallocUsed|Percpu):'
	grep -E "$fields" /proc/meminfo | tr -s ' \n' ' ' | sed 's/^/# memory: /; s/ $//'
	echo
	printf '%s\n' "${shared_after[@]}" | sort -rn | head -n 5 |
		sed -n 's/^\([0-9]\+\) \(.*\)/# memory: \1 KiB more shared after \2/p'
}

bad() {		# one more failure, and why
	echo "not ok $*"
	failed=$((failed + 1))
	trouble=1
}

ok_line='^ok [0-9]+ (- )?([^ ]*)(.*)$'

plan='' results=0 nok=0

# Adds a line of TAP up.
tap_line() {	# NAME LINE
	local case
	if [[ $2 =~ ^1\.\.([0-9]+) ]]; then
		plan=${BASH_REMATCH[1]}
	elif [[ $2 =~ ^not\ ok\ [0-9]+ ]]; then
		results=$((results + 1))
		nok=$((nok + 1))
		failed=$((failed + 1))
		trouble=1
	elif [[ $2 =~ $ok_line ]]; then
		results=$((results + 1))
		case=${BASH_REMATCH[2]}
		if [[ ${BASH_REMATCH[3]} != *'# SKIP'* ]]; then
			passed=$((passed + 1))
		elif may_skip "$1.$case"; then
			skipped=$((skipped + 1))
		else
			bad "$1.$case skips and is not in skips.tsv"
		fi
	fi
}

# The verdict, after all lines have been read.
verdict() {	# NAME STATUS
	local name=$1 rc=$2
	if [ "$hasty" ] && [ $nok != 0 ]; then
		return		# killed, perhaps
	elif [ "$rc" = 124 ] || [ "$rc" = 137 ]; then
		bad "$name took more than $seconds seconds"
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

# Sets charged to the KiB of shared memory that the programs are charged for.
charged=0
group_shmem() {
	local word n
	charged=0
	[ -e "$group/memory.stat" ] || return
	while read -r word n; do
		[ "$word" != shmem ] || charged=$((n / 1024))
	done <"$group/memory.stat"
}

# Sets files to the KiB that files in the tmpfs mounts that can be seen hold, but for the log's.
files=0 kmsg_bytes=0
file_shmem() {
	local n
	files=$((-kmsg_bytes / 1024))
	while read -r n; do
		[[ $n != [0-9]* ]] || files=$((files + n))
	done < <(df -a -k -t tmpfs --output=used 2>/dev/null)
}

# Sets grown to how much more is charged than before, less what has become of files since.
growth() {	# CHARGED FILES
	group_shmem
	grown=$((charged - $1))
	[ $grown -gt 1024 ] || [ $grown -lt -1024 ] || return
	file_shmem
	grown=$((grown - files + $2))
}

# Waits without starting a program: another shell reads the time, and answers when it is over.  That
# shell alone uses "read -t": in bash 5.2, one whose time is up before it has begun to wait leaves the
# shell with a signal mask of garbage.  With SIGCHLD in the mask, no program seems to end.
coproc napper {
	exec {never}<> <(:)
	while read -r seconds; do
		read -r -t "$seconds" -u "$never" _
		echo
	done
}
exec {ask}>&"${napper[1]}"- {told}<&"${napper[0]}"-
nap() {		# SECONDS
	echo "$1" >&"$ask"
	read -r -u "$told" _
}

# Reads what is new in $work/out, by descriptor $out, shows it and adds it up.
tail_line=
new_lines() {	# NAME
	local chunk i
	mapfile -u "$out" chunk
	# A line that has a NUL in it lacks its end.
	for ((i = 0; i < ${#chunk[@]}; i++)); do
		tail_line+=${chunk[i]}
		[[ $tail_line == *$'\n' ]] || [ $((i + 1)) != ${#chunk[@]} ] || continue
		tail_line=${tail_line%$'\n'}
		[ "$quiet" ] || printf '%s\n' "$tail_line"
		[[ $tail_line != [1no]* ]] || tap_line "$1" "$tail_line"
		tail_line=
	done
}

# Runs a command with its output in $work/out.  Returns its status, 124 when it took too long.
# Kills processes that the command leaves running: cases are process groups of their own, so they
# outlive their program.  A command that cannot be killed is left behind, so that the next ones run.
run_limited() {	# NAME SECONDS PROGRAM [NAME=VALUE...] -- ARGUMENTS...
	local name=$1 seconds=$2 program=$3 pid out status late='' variables=()
	shift 3
	while [ "$1" != -- ]; do
		variables+=("$1")
		shift
	done
	shift
	exec {out}<"$work/out"
	tail_line=
	(
		[ -z "$group" ] || echo 0 >"$group/cgroup.procs"
		[ ${#variables[@]} = 0 ] || export "${variables[@]}"
		exec setsid "$program" "$@" >"$work/out" 2>&1 </dev/null {kmsg}<&- {out}<&- {ask}>&- {told}<&-
	) &
	pid=$!
	SECONDS=0
	while kill -0 $pid 2>/dev/null; do
		nap 0.1
		new_lines "$name"
		if [ "$hasty" ] && [ $nok != 0 ] && [ $SECONDS -lt "$seconds" ]; then
			seconds=$SECONDS
		fi
		if [ $SECONDS -ge $((seconds + 20)) ]; then
			break
		elif [ $SECONDS -ge $((seconds + 10)) ]; then
			kill -KILL $pid
		elif [ $SECONDS -ge "$seconds" ] && [ ! "$late" ]; then
			late=1
			kill -- -$pid
		fi
	done
	if kill -0 $pid 2>/dev/null; then
		disown $pid
		status=124
	else
		wait $pid
		status=$?
		if [ -e "$group/cgroup.kill" ]; then
			echo 1 >"$group/cgroup.kill"
		else
			pkill -KILL -s $pid
		fi
		[ ! "$late" ] || status=124
	fi
	new_lines "$name"
	[ "$quiet" ] || [ -z "$tail_line" ] || printf '%s\n' "$tail_line"
	tap_line "$name" "$tail_line"
	exec {out}<&-
	return $status
}

run_one() {	# PROGRAM[:CASE] [NAME=VALUE...]
	local name=${1%%:*} only=() title rc left program shmem held grown took seconds changed before shared
	[[ $1 == *:* ]] && only=(-t "${1#*:}")
	title="$1"
	shift
	title+="${*:+ ($*)}"
	program=$dir/$name
	[ -e "$program" ] || program=$dir/gpumem/$name
	# The scripts of the checkout lie in its folders.
	for program in "$program" "$here"/*/"$name"; do
		[ ! -e "$program" ] || break
	done
	trouble=
	echo "# $title"
	if [ ! -x "$program" ]; then
		bad "$name is not there"
		return
	fi
	mark "$title"
	shared_memory
	before=$shared
	: >"$work/out"
	group_shmem
	shmem=$charged held=$files
	plan='' results=0 nok=0
	seconds=${GPUMEM_TIMEOUT:-${timeouts[$name]:-$timeout}}
	run_limited "$name" "$seconds" "$program" "$@" -- "${only[@]}"
	rc=$?
	took=$SECONDS
	verdict "$name" "$rc"
	echo "# $title: $took seconds"
	left=
	if ! [ "$hasty" ] || [ ! "$trouble" ]; then
		for _ in 1 2 3 4 5 6 7 8 9 10; do
			leftovers
			growth "$shmem" "$held"
			[ "$left" ] || [ "$grown" -gt 1024 ] || break
			nap 0.5
		done
		leftovers all
		[ "$grown" -le 1024 ] ||
			left+="${left:+, }$grown KiB of shared memory charged to the control group"
	fi
	[ -z "$left" ] || bad "$name left something behind: ${left//$'\n'/, }"
	restore_parameters
	[ -z "$changed" ] || bad "$name left the module's parameters changed: $changed"
	if [[ $changed == *'cannot be restored'* || ! -d /sys/module/gpumem ]]; then
		reload || bad "the module cannot be loaded again"
	fi
	shared_memory
	[ $((shared - before)) -lt 1024 ] || shared_after+=("$((shared - before)) $title")
	if complaint; then
		bad "$name made the kernel complain:"
		grep -E -B 3 -A 40 -m 3 "$splat" "$work/log" | head -n 150 | sed 's/^/# /'
		grep -qE "$fatal" "$work/log" && dead=$name
	fi
	[ ! "$trouble" ] || memory_report
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

# Where the debug files of the C library are installed, each process that reports with the checker would read
# them, which takes most of its time.
[ ! -d /run/vm ] || [ ! -d /usr/lib/debug ] || mount -t tmpfs none /usr/lib/debug

follow_log
file_shmem
parameters
for name in "${!is[@]}"; do
	was[$name]=${is[$name]}
done
version=$(cat /sys/module/gpumem/srcversion 2>/dev/null) nodes=$(stat -c %a /dev/gpumem0 2>/dev/null)

# Read once: without it programs would silently not run again.
mapfile -t modes < <(grep -v '^#' "$here/modes.tsv")
[ ${#modes[@]} != 0 ] || bad "modes.tsv cannot be read"
for row in "${modes[@]}"; do
	IFS=$'\t' read -r kernel program _ <<<"$row"
	[[ " ${all[*]} " == *" $program "* ]] || bad "modes.tsv: no program $program"
done

if [ "${GPUMEM_QUEUE:-}" ]; then
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

[ "$marks" = 0 ] || mark "the end"
if [ "$marks" != 0 ] && complaint; then
	bad "the kernel complained after the last program:"
	head -n 150 "$work/log" | sed 's/^/# /'
fi
# A run of a few programs is no time for it to add up.
[ ${#names[@]} -lt 10 ] || memory_report
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ] && { [ $passed != 0 ] || [ "${GPUMEM_QUEUE:-}" ]; }
