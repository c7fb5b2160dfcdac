#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Loading and unloading gpumem.ko: valid and invalid parameters, repeatedly, and while it is in use.
# The script removes the loaded module and at its end loads it again with the same parameters.
set -u
here=$(dirname "$(readlink -f "$0")")
# Installed, the script lies beside common/; in the sources a folder below.
top=$here
[ -d "$top/common" ] || top=${here%/*}
class=/sys/class/gpumem
param=/sys/module/gpumem/parameters
number=0 failures=0 refused=''

ko=
for f in "${GPUMEM_KO:-}" /run/vm/gpumem.ko "$top/../build/$(uname -r)/gpumem.ko" \
	 "/lib/modules/$(uname -r)/updates/gpumem.ko"; do
	if [ "$f" ] && [ -e "$f" ]; then
		ko=$f
		break
	fi
done

stats=
for f in "${GPUMEM_SELFTESTS:-$here}/t_stats" "$here/t_stats" "$top/../build/selftests/t_stats"; do
	if [ -x "$f" ]; then
		stats=$f
		break
	fi
done

cases=(loaded_at_first params_k params_m params_g params_node params_channels params_default
       bad_devices bad_vram bad_node bad_channels bad_limits unknown_param reload_ten_times same_uuid unload_in_use unload_mapped
       restore)

say() {
	echo "# $*"
}

# Checks of one case: the case fails if any "want" fails.
wrong=
want() {	# WHAT EXPECTED SEEN
	if [ "$2" != "$3" ]; then
		say "$1 is '$3', not '$2'"
		wrong=1
	fi
}

want_like() {	# WHAT PATTERN SEEN
	# shellcheck disable=SC2053
	if [[ $3 != $2 ]]; then
		say "$1 is '$3', not like '$2'"
		wrong=1
	fi
}

unload() {
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		rmmod gpumem 2>/dev/null && return 0
		[ -d /sys/module/gpumem ] || return 0
		sleep 0.2
	done
	say "cannot unload gpumem: $(cat /sys/module/gpumem/refcnt 2>/dev/null) users"
	wrong=1
	return 1
}

load() {	# PARAM...
	insmod "$ko" "$@" 2>/dev/null
}

# Sets v to the number of nodes; waits up to a second until it is $1. This function and the next two
# start no program, which takes long on some kernels.
nodes() {
	local f
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		v=0
		for f in /dev/gpumem*; do
			[ -c "$f" ] && v=$((v + 1))
		done
		[ "$v" = "$1" ] && break
		sleep 0.1
	done
}

# Sets v to the number of devices.
devices() {
	local f
	v=0
	for f in $class/gpumem[0-9]*; do
		[ -e "$f" ] && v=$((v + 1))
	done
}

# Sets v to the first line of a file.
value() {	# FILE
	v=
	read -r v 2>/dev/null <"$1"
}

# Loads with parameters and checks the number of devices and the size of the last one.
good() {	# DEVICES BYTES PARAM...
	local n=$1 bytes=$2
	shift 2
	if ! load "$@"; then
		say "insmod gpumem.ko $* failed"
		wrong=1
		return
	fi
	nodes "$n"
	want "number of nodes with $*" "$n" "$v"
	devices
	want "number of devices with $*" "$n" "$v"
	value $class/gpumem$((n - 1))/size
	want "size with $*" "$bytes" "$v"
	value $class/gpumem$((n - 1))/used
	want "used with $*" 0 "$v"
	want "mode of the node" 660 "$(stat -c %a /dev/gpumem0)"
	unload
	nodes 0
	want "nodes afterwards" 0 "$v"
}

# Parameters that are refused, with a line in the kernel's log that says which.
refused() {	# WORD-IN-LOG PARAM...
	local word=$1 mark="gpumem-t_module: $$ $number $RANDOM"
	shift
	# With GPUMEM_QUICK, for slow kernels, try one value of each parameter only.
	[ "${GPUMEM_QUICK:-}" ] && [ "$refused" = "$number" ] && return
	refused=$number
	echo "$mark" >/dev/kmsg
	if load "$@"; then
		say "insmod gpumem.ko $* worked"
		wrong=1
		unload
		return
	fi
	nodes 0
	want "nodes after $*" 0 "$v"
	want "module after $*" no "$([ -d /sys/module/gpumem ] && echo yes || echo no)"
	want_like "log after $*" "*gpumem*$word*" "$(dmesg | sed "1,/$mark\$/d")"
}

case_loaded_at_first() {
	want "refcnt" 0 "$(cat /sys/module/gpumem/refcnt)"
	want_like "engine" "?*" "$(cat $class/gpumem0/engine)"
	unload
	want "class" no "$([ -e $class ] && echo yes || echo no)"
}

case_params_k() { good 1 4194304 vram=4096K; }
case_params_m() { good 3 8388608 devices=3 vram=8M; good 16 2097152 devices=16 vram=2M; }
case_params_g() { good 1 1073741824 vram=1G; good 2 2147483648 devices=2 vram=2G; }

case_params_node() {
	load vram=4M node=0 || { say "insmod with node=0 failed"; wrong=1; return; }
	want "node" 0 "$(cat $class/gpumem0/node)"
	unload
	load vram=4M devices=2 node=-1,0 || { say "insmod with node=-1,0 failed"; wrong=1; return; }
	want "node" -1 "$(cat $class/gpumem0/node)"
	want "node" 0 "$(cat $class/gpumem1/node)"
	unload
}

# Whether /proc/devices has channels, and whether the last one's file opens.
channels() {	# NUMBER
	local major file=/tmp/t_module.channel
	major=$(sed -n 's/^ *\([0-9]*\) gpumem-channels$/\1/p' /proc/devices)
	if [ -z "$major" ]; then
		echo none
		return
	fi
	rm -f $file
	mknod $file c "$major" $(($1 - 1)) && (exec 8<$file) 2>/dev/null && echo last
	rm -f $file
	mknod $file c "$major" "$1" && (exec 8<$file) 2>/dev/null && echo more
	rm -f $file
}

case_params_channels() {
	local n
	for n in 1 65536; do
		load vram=4M channels=$n || { say "insmod with channels=$n failed"; wrong=1; return; }
		want "channels of $n" last "$(channels $n)"
		unload
	done
	load vram=4M channels=0 || { say "insmod with channels=0 failed"; wrong=1; return; }
	want "channels of 0" none "$(channels 1)"
	unload
	want "channels without the module" none "$(channels 1)"
}

case_params_default() {
	local ram half size
	load || { say "insmod without parameters failed"; wrong=1; return; }
	nodes 1
	want "nodes" 1 "$v"
	want "node" -1 "$(cat $class/gpumem0/node)"
	ram=$(($(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo) * 1024))
	half=$((ram / 2))
	size=$(cat $class/gpumem0/size)
	# Half of RAM, in pieces of 2 MiB
	want "size is half of RAM" yes "$([ "$size" -le $half ] && [ "$size" -gt $((half - 4194304)) ] &&
					  echo yes || echo "no: $size of $ram")"
	unload
}

case_bad_devices() {
	refused devices devices=0
	refused devices devices=17
	refused devices devices=4294967295
	refused devices devices=-1
	refused devices devices=two
}

case_bad_vram() {
	refused vram vram=0
	refused vram vram=
	refused vram vram=lots
	refused vram vram=4X
	refused vram vram=-4M
	refused vram vram=4096
	refused vram vram=16E
}

case_bad_node() {
	refused node vram=4M node=1000000
	refused node vram=4M node=-2
	refused node vram=4M node=x
}

case_bad_channels() {
	refused channels vram=4M channels=65537
	refused channels vram=4M channels=-1
}

case_bad_limits() {
	refused pin_limit vram=4M pin_limit=lots
	refused pin_limit vram=4M pin_limit=-1
	refused pin_total vram=4M pin_total=4X
	refused ring_limit vram=4M ring_limit=lots
	refused ring_total vram=4M ring_total=-1
}

case_unknown_param() {
	local mark="gpumem-t_module: $$ $RANDOM"
	# The kernel loads the module nevertheless, and logs the unknown parameter.
	echo "$mark" >/dev/kmsg
	load vram=4M no_such_thing=1 || { say "insmod failed"; wrong=1; return; }
	want_like "log" "*gpumem*no_such_thing*" "$(dmesg | sed "1,/$mark\$/d")"
	unload
}

case_reload_ten_times() {
	local n
	for ((n = ${GPUMEM_QUICK:+7}+0; n < 10; n++)); do
		good 2 67108864 devices=2 vram=64M
		[ "$wrong" ] && return
	done
}

case_same_uuid() {
	local a b
	if [ -z "$stats" ]; then
		say "t_stats, which prints identities, is not there"
		wrong=1
		return
	fi
	load devices=2 vram=4M
	a=$("$stats" --uuid)
	unload
	load devices=3 vram=8M
	b=$("$stats" --uuid)
	unload
	want_like "identities" "????????????????????????????????
????????????????????????????????" "$a"
	want "the first two identities after a reload" "$a" "$(echo "$b" | head -n 2)"
	want "different identities" 3 "$(echo "$b" | sort -u | wc -l)"
}

case_unload_in_use() {
	load vram=4M || { say "insmod failed"; wrong=1; return; }
	exec 9<>/dev/gpumem0
	want "clients" 1 "$(cat $class/gpumem0/clients)"
	rmmod gpumem 2>/dev/null
	want "rmmod with a client" 1 $?
	want "device" yes "$([ -c /dev/gpumem0 ] && echo yes || echo no)"
	exec 9>&-
	unload
}

case_unload_mapped() {
	# t_bo.the_module_stays tests mappings and DMA-bufs; this case tests a client in another
	# process.
	load vram=4M || { say "insmod failed"; wrong=1; return; }
	local pid
	sleep 60 9<>/dev/gpumem0 &
	pid=$!
	sleep 0.2
	rmmod gpumem 2>/dev/null
	want "rmmod with a client elsewhere" 1 $?
	kill -9 $pid
	wait $pid 2>/dev/null
	unload
}

case_restore() {
	load "${saved[@]}" || { say "insmod gpumem.ko ${saved[*]} failed"; wrong=1; return; }
	devices
	want "devices" "$count" "$v"
	chmod "$mode" /dev/gpumem*
	want "size" "$size" "$(cat $class/gpumem0/size)"
}

echo "TAP version 13"
echo "1..${#cases[@]}"
if [ -z "$ko" ] || [ "$(id -u)" != 0 ] || [ ! -d /sys/module/gpumem ]; then
	for c in "${cases[@]}"; do
		number=$((number + 1))
		echo "ok $number $c # SKIP needs root, gpumem.ko and it loaded"
	done
	exit 4
fi
saved=()
for p in devices vram node; do
	v=$(cat $param/$p)
	[ "$v" ] && [ "$v" != "(null)" ] && saved+=("$p=$v")
done
devices
count=$v
mode=$(stat -c %a /dev/gpumem0)
size=$(cat $class/gpumem0/size)

# Load the module again at exit, also after a signal: the next program needs it.
give_back() {
	[ -d /sys/module/gpumem ] && return
	load "${saved[@]}" && chmod "$mode" /dev/gpumem*
}
trap give_back EXIT
trap 'exit 1' TERM INT HUP

for c in "${cases[@]}"; do
	number=$((number + 1))
	wrong=
	"case_$c"
	if [ "$wrong" ]; then
		echo "not ok $number $c"
		failures=$((failures + 1))
	else
		echo "ok $number $c"
	fi
done
[ $failures = 0 ]
