#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The structures of the kernel interface have no padding, and the same layout for 32-bit programs.
#
# Needs a C compiler; pahole, where it is installed, looks a second time.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
header=$top/uapi/linux/gpumem.h
cc=${CC:-gcc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
number=0 passed=0 failed=0 skipped=0

# verdict STATUS WHAT: one case.
verdict()
{
	number=$((number + 1))
	if [ "$1" = 0 ]; then
		passed=$((passed + 1))
		echo "ok $number - $2"
	else
		failed=$((failed + 1))
		echo "not ok $number - $2"
		sed 's/^/# /' "$work/log" | head -40
	fi
}

skip()
{
	number=$((number + 1)) skipped=$((skipped + 1))
	echo "ok $number - $1 # SKIP $2"
}

# Every structure that the header defines, and a variable of each: debug information has them all.
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

# The members' offsets as constants, to be compiled for the other size of pointers.
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

# Headers of the machine's own word size do for the other one.
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

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
