#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Check that the first instructions of functions that memory hooks patch can be moved.  Programs
# with such hooks overwrite the first five or twelve bytes with a jump, and run the displaced
# instructions elsewhere.
#
# usage: entry_check.sh [BUILD]		BUILD is the output directory, build/ by default
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-${BUILD:-$top/build}}
lib=$top/libgpumem
export LC_ALL=C
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
number=0 passed=0 failed=0 skipped=0

echo "TAP version 13"

# Select functions that allocate, free, map or register memory, in all versions, by their names.
# Functions that register callbacks, device code or variables, and functions that only query, are
# left out.
hooked()
{
	grep -v '^#' | cut -f 1 |
		grep -E -e '[Aa]lloc|Free|[Rr]egister|Map|[Uu]nmap|Bind|Unbind|Reserve|Release|Ipc(Open|Close)Mem' \
			-e 'Mem(Create|Release)|Array(3D)?(Create|Destroy)|ImportPointer|ExternalMemory' \
			-e 'Get(Global|Managed|SymbolAddress)|_dmabuf$' |
		grep -v -E -e '^__' -e 'AsyncNotification|RegisterCallback|RegisterStart|RegisterComplete' \
			-e 'PrimaryCtx|UserObject|GetAllocation|^cuProfiler|get_dmabuf' | sort
}

# entries FILE: lines "NAME CODE" with the first four instructions of each function of FILE.
entries()
{
	objdump -d --no-show-raw-insn "$1" | awk '
		/^[0-9a-f]+ <.*>:$/ { name = substr($2, 2, length($2) - 3); lines = 0; next }
		name != "" && NF && lines < 4 {
			sub(/^[ \t]*[0-9a-f]+:[ \t]*/, ""); gsub(/[ \t]+/, " ")
			sub(/ <.*/, ""); code[name] = code[name] $0 "; "; lines++ }
		END { for (name in code) print name, code[name] }'
}

# check FILE LIST: each function of LIST begins in FILE with three "mov $imm32,%reg" and a jump.
check()
{
	number=$((number + 1))
	if [ "$(uname -m)" != x86_64 ] || ! command -v objdump >/dev/null; then
		skipped=$((skipped + 1))
		echo "ok $number - ${1#"$build"/} # SKIP needs objdump on x86-64"
		return
	fi
	move='mov \$0x[0-9a-f]*,%e(ax|di); '
	entries "$1" >"$work/entries"
	grep -E "^[^ ]+ $move$move${move}jmp [0-9a-f]+; " "$work/entries" | cut -d ' ' -f 1 | sort \
		>"$work/good"
	comm -23 "$2" "$work/good" >"$work/bad"
	if [ "$(wc -l <"$2")" -gt 30 ] && [ ! -s "$work/bad" ]; then
		passed=$((passed + 1))
		echo "ok $number - ${1#"$build"/}: $(wc -l <"$2") functions"
		return
	fi
	failed=$((failed + 1))
	echo "not ok $number - ${1#"$build"/}: $(wc -l <"$work/bad") of $(wc -l <"$2") functions"
	while read -r name; do
		grep "^$name " "$work/entries" || echo "$name: not there"
	done <"$work/bad" | sed 's/^/# /'
}

grep -v '	later	' "$lib/abi/symbols.txt" | hooked >"$work/driver"
grep -v '	later	' "$lib/abi/symbols.txt" | awk -F '\t' '$3 == "-" || $3 <= 12090' | hooked >"$work/driver-12"
for generation in 12 13; do
	awk -F '\t' -v g=$generation 'index("," $3 ",", "," g ",")' "$lib/abi/runtime_symbols.txt" | hooked \
		>"$work/runtime-$generation"
done
check "$build/lib/libgpumem-driver.so.1" "$work/driver"
check "$build/compat/cuda12/libgpumem-driver.so.1" "$work/driver-12"
check "$build/lib/libgpumem.so.1" "$work/runtime-13"
check "$build/compat/libcudart.so.12" "$work/runtime-12"
check "$build/compat/libcudart.so.13" "$work/runtime-13"

echo "1..$number"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
