#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Check that the structures of the kernel interface have no padding, and the same layout for 32-bit
# programs.
#
# Needs a C compiler.  If pahole is installed, it checks the padding a second time.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
header=$top/uapi/linux/gpumem.h
cc=${CC:-gcc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
. "$(dirname "$0")/../common/verdict.sh"
details=$work/log

# Define a variable of every structure of the header, so that the debug information has all
# structures.
structs=$(sed -n 's/^struct \([a-z_0-9]*\) {$/\1/p' "$header")
count=$(echo "$structs" | wc -l)
{
	echo '#include <stddef.h>'
	echo '#include <linux/gpumem.h>'
	for s in $structs; do
		echo "struct $s a_$s;"
	done
} >"$work/all.c"
compile="-std=gnu11 -g -I$top/uapi -c"

[ "$count" -ge 20 ]
verdict $? "the header defines structures: $count"

# shellcheck disable=SC2086
$cc $compile -Wall -Wextra -Werror -Wpadded -o "$work/all.o" "$work/all.c" >"$work/log" 2>&1
verdict $? "no structure is padded"

# The offsets of a 64-bit program become assertions, which are compiled for 32 bits.
awk '
	/^struct [a-z_0-9]* \{$/ { s = $2; next }
	/^\};/ { s = "" }
	s && /^\t(union \{|\};)/ { next }
	s && /^\t+[a-z_0-9]+ [a-z_0-9]+(\[[A-Z_0-9a-z]+\])?;$/ {
		m = $2
		sub(/;$/, "", m)
		sub(/\[.*/, "", m)
		print s, m
	}' "$header" >"$work/members"
members=$(wc -l <"$work/members")
[ "$members" -ge 100 ]
verdict $? "the structures have members: $members"

# <asm/types.h> of the machine's own word size is the same for the other one.
asm=$(echo '#include <asm/types.h>' | $cc -E - | sed -n 's,^# [0-9]* "\(.*\)/asm/types.h".*,\1,p' | head -n 1)

if echo 'int x;' | $cc -m32 -x c -c -o "$work/x.o" - >/dev/null 2>&1; then
	{
		echo '#include <stdio.h>'
		cat "$work/all.c"
		echo 'int main(void) {'
		while read -r s m; do
			printf 'printf("_Static_assert(offsetof(struct %s, %s) == %%zu, \\"%s.%s\\");\\n", ' \
				"$s" "$m" "$s" "$m"
			echo "offsetof(struct $s, $m));"
		done <"$work/members"
		for s in $structs; do
			printf 'printf("_Static_assert(sizeof(struct %s) == %%zu, \\"%s\\");\\n", ' "$s" "$s"
			echo "sizeof(struct $s));"
		done
		echo 'return 0; }'
	} >"$work/print.c"
	$cc -std=gnu11 -I"$top/uapi" -o "$work/print" "$work/print.c" >"$work/log" 2>&1 &&
		"$work/print" >"$work/asserts"
	verdict $? "offsets of 64-bit programs"
	cat "$work/all.c" "$work/asserts" >"$work/all32.c"
	# shellcheck disable=SC2086
	$cc $compile -m32 -idirafter "$asm" -o "$work/all32.o" "$work/all32.c" >"$work/log" 2>&1
	verdict $? "32-bit programs see the same layout: $(wc -l <"$work/asserts") numbers"
else
	skip "32-bit programs see the same layout" "$cc has no -m32"
fi

if command -v pahole >/dev/null 2>&1; then
	pahole "$work/all.o" >"$work/pahole" 2>"$work/log"
	seen=$(grep -cE '^struct gpumem_' "$work/pahole")
	[ "$seen" = "$count" ] || echo "pahole sees $seen structures of $count" >>"$work/log"
	[ "$seen" = "$count" ]
	verdict $? "pahole sees all structures"
	grep -nE 'holes:|XXX|padding:|bit holes' "$work/pahole" >"$work/log"
	[ ! -s "$work/log" ]
	verdict $? "pahole finds no hole"
else
	skip "pahole finds no hole" "no pahole: apt-get install dwarves"
fi

finish
