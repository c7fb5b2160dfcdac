#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The programs of examples/check/ have the reports of Documentation/checker-reports.rst: what NAME prints is
# NAME.txt, but for addresses and the folders of source files.  Needs root and the module.
set -u
top=$(cd "$(dirname "$0")" && pwd)
# Installed, the script and examples/ lie beside common/; in the sources a folder below.
texts=$top/examples/check
[ -d "$top/common" ] || top=${top%/*} texts=${top%/*}/examples/check
build=${BUILD:-$top/../build}
programs=${GPUMEM_SELFTESTS:-$build/selftests}/examples/check
. "$top/common/tap.sh"

echo "TAP version 13"
[ "$(id -u)" = 0 ] || skip_all "root is needed"
[ -e /dev/gpumem0 ] || skip_all "gpumem is not loaded"
set -- "$texts"/*.txt
[ -e "$1" ] || set --
echo "1..$(($# + 1))"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
details=$work/log

# Number addresses in the order in which the text has them, and leave out folders.
normalize()
{
	awk '{	sub(/\r$/, "")
		line = ""
		while (match($0, /0x[0-9a-f]+/)) {
			address = substr($0, RSTART, RLENGTH)
			if (!(address in number))
				number[address] = ++count
			line = line substr($0, 1, RSTART - 1) "ADDRESS" number[address]
			$0 = substr($0, RSTART + RLENGTH)
		}
		$0 = line $0
		if (/^    #[0-9]+ /)
			sub(/ [^ ]*\//, " ")
		print }' "$1"
}

for text; do
	name=$(basename "$text" .txt)
	GPUMEM_CHECK=1 timeout 60 "$programs/$name" 2>"$work/out" >&2
	status=$?
	normalize "$text" >"$work/expected"
	normalize "$work/out" >"$work/got"
	{
		[ $status = 66 ] || echo "exit status $status"
		diff "$work/expected" "$work/got"
	} >"$work/log"
	[ ! -s "$work/log" ]
	result $? "$name"
done

# Each program that was built has a text.
for program in "$programs"/*; do
	name=${program##*/}
	case $name in
	*.d | *.txt) continue ;;
	esac
	[ -e "$texts/$name.txt" ] || echo "$name has no text"
done >"$work/log"
[ $# -ge 15 ] && [ ! -s "$work/log" ]
result $? "each example has a text"
[ $failed = 0 ]
