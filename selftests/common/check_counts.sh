# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
# How many reports of the checker a log has, for scripts that compare them with a table: they source this file.

# check_counts CALLER LOG: a line "NAME<TAB>KIND<TAB>COUNT" for each test or group and each kind, sorted.  NAME is the
# function that CALLER, main() or the start of a thread calls in the first stack that has one of them, without the
# prefix of a group or of kselftest's harness; "-" without a stack.  Where the C library's debug files are missing or
# hidden, the start of a thread has no name.
check_counts()
{
	awk -v caller="$1" '
	function end()
	{
		if (kind)
			count[(name ? name : "-") "\t" kind]++
		kind = name = ""
	}
	/^gpumem-check: / { end(); kind = $2; sub(/:$/, "", kind); next }
	!/^    #[0-9]+ / || name { next }
	$2 == caller || $2 == "main" || $2 == "start_thread" || ($2 == "?" && $3 ~ /^\(libc\.so\.6\+/) { name = $1 == "#0" ? "main" : last }
	{ last = $2; sub(/^(grp|wrapper)_/, "", last) }
	END { end(); for (key in count) print key "\t" count[key] }' "$2" | LC_ALL=C sort
}

# check_table TABLE COLUMNS: the rows of a table without comments, sorted.
check_table()
{
	grep -v '^#' "$1" | cut -f "$2" | LC_ALL=C sort
}
