#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Check that the documents build without warnings, that each is in a table of contents, and that
# links, pictures, file names and example programs in them are valid.
#
# usage: docs_check.sh [DIR]	DIR has Documentation/ (default: this checkout)
set -u
top=${1:-$(cd "$(dirname "$0")/../.." && pwd)}
docs=$top/Documentation
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/../common/verdict.sh"
details=$work/log
export LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1

# none WHAT: passes if the log is empty.
none()
{
	[ ! -s "$work/log" ]
	verdict $? "$1"
}

echo "TAP version 13"

# The second case also finds documents that no table of contents lists, if Sphinx does not warn of
# them.
sphinx-build -q -W --keep-going -b html -d "$work/doctrees" "$docs" "$work/html" >"$work/log" 2>&1
verdict $? "the documents build without warnings"

(cd "$docs" && ls ./*.rst) | sed 's,^\./,,; s/\.rst$//' | grep -vx index | sort >"$work/files"
awk '/^\.\. toctree::/ { inside = 1; next } /^[^ ]/ { inside = 0 }
	inside && NF && !/^ *:/ { print $1 }' "$docs"/*.rst | sort >"$work/listed"
{ [ -s "$work/files" ] || echo "there are no documents"; diff "$work/files" "$work/listed"; } >"$work/log"
none "each document is in one table of contents"

# Documents must be linked with :doc:, not named by their files.
while read -r name; do
	grep -n -E "(^|[^a-z/._-])(Documentation/)?$name\.rst" "$docs"/*.rst
done <"$work/files" | sed "s,^$top/,," >"$work/log"
none "documents are linked, not named by their files"

# Each picture is shown by a document and has a description (:alt:).
for picture in "$docs"/images/*.dot; do
	grep -q "^\.\. graphviz:: images/$(basename "$picture")$" "$docs"/*.rst ||
		echo "no document shows $(basename "$picture")"
done >"$work/log"
awk 'prev != "" && !/^ +:alt: ./ { print prev ": no :alt:" }
	{ prev = "" } /^ *\.\. (graphviz|lock-order)::/ { prev = FILENAME ": " $0 }' "$docs"/*.rst >>"$work/log"
grep -l '^\.\. lock-order::' "$docs/locking.rst" >"$work/found" || echo "locking.rst: no picture" >>"$work/log"
svgs=$(find "$work/html/_images" -name '*.svg' 2>/dev/null | wc -l)
shown=$(cat "$docs"/*.rst | grep -c -E '^\.\. (graphviz|lock-order)::')
[ "$svgs" = "$shown" ] || echo "$svgs of $shown pictures were made" >>"$work/log"
none "each picture is made, shown and described"

# Every lock of the list is in the picture.
sed -n '/^Outer to inner\./,/^[A-Z].*picture/ s/^    \(\[[a-z_ ]*\]\|[a-z_]*->[a-z_]*\|[a-z_]*_lock\)\( .*\)\{0,1\}$/\1/p' \
	"$docs/locking.rst" | sort >"$work/locks"
cat "$work"/html/_images/*.svg 2>/dev/null | tr -d '\n' | sed 's/<text/\n<text/g' |
	sed -n 's,^<text[^>]*>\([^<]*\)</text>.*,\1,p' |
	sed 's/&#45;/-/g; s/&gt;/>/g; s/&#160;/ /g' | sort -u >"$work/drawn"
{ [ "$(wc -l <"$work/locks")" -ge 20 ] || echo "the list of locks was not found"
	comm -23 "$work/locks" "$work/drawn" | sed 's/^/not in the picture: /'; } >"$work/log"
none "the picture of the lock order has each lock of the list"

# Each kind of the checker's reports has an example, and each example is shown.
reports=$docs/checker-reports.rst
sed -n 's/^\t\[REPORT_[A-Z_]*\] = { "\([a-z-]*\)".*/\1/p' "$top/libgpumem/check/report.c" >"$work/kinds"
{
	[ "$(wc -l <"$work/kinds")" -ge 15 ] || echo "the kinds were not found"
	while read -r kind; do
		grep -q "^gpumem-check: $kind: " "$top/examples/check/$kind.txt" || echo "$kind has no example"
		grep -qx "$kind" "$reports" || echo "$kind has no section"
	done <"$work/kinds"
	for file in "$top"/examples/check/*.c; do
		for shown in "$(basename "$file")" "$(basename "$file" .c).txt"; do
			grep -qx "\.\. literalinclude:: ../examples/check/$shown" "$reports" || echo "$shown is not shown"
		done
	done
} >"$work/log" 2>&1
none "each kind of the checker's reports has an example"

# Links of README.md, and files of Documentation/ that sources and scripts name.
{
	grep -oE '\]\([^)#:]+(#[^)]*)?\)' "$top/README.md" | sed 's/^](//; s/[#)].*//'
	grep -rhoE 'Documentation/[a-z/-]+\.(rst|[1-9]|svg|png|dot|yaml)' "$top/README.md" "$top/kmod" "$top/uapi" \
		"$top/libgpumem" "$top/tools" "$top/selftests" "$top/Makefile"
} | sort -u | while read -r path; do
	[ -e "$top/$path" ] || echo "$path does not exist"
done >"$work/log"
none "files that README.md and the sources name exist"

# Files of the tree that the documents name.  A path may begin in any folder, and a test may lack its suffix.
(cd "$top" && find . \( -name build -o -name .git \) -prune -o -print) | sed 's,^\./,,' >"$work/tree"
{
	grep -noE '``(kmod|libgpumem|selftests|tools|uapi|debian)/[^`: ]+``' "$docs"/*.rst
	grep -noE '``([A-Za-z0-9_./-]+\.(c|h|py|sh|tsv)|t_[a-z0-9_]+)``' "$docs"/*.rst
	grep -HnoE '`(kmod|libgpumem|selftests|tools|uapi|debian)/[^`: ]+`' "$top/README.md"
} | sed "s,^$top/,,; s/\`//g; s,/$,," | grep -v -e '\*' -e NAME -e '<' -e ':kselftest_harness\.h$' | sort -u |
	awk -F: 'NR == FNR { for (path = $0; ; sub(/^[^\/]*\//, "", path)) {
			there[path] = 1
			if (path ~ /^t_/) { name = path; sub(/\.(c|sh)$/, "", name); there[name] = 1 }
			if (path !~ /\//) break }
		next }
	!($3 in there) { print $1 ":" $2 ": there is no " $3 }' "$work/tree" - >"$work/log"
none "files of the tree that the documents name exist"

# Programs in README.md, the documents and the manual pages.
awk -v work="$work" '
	FNR == 1 { open = 0 }
	/^```c$/ || /^    #include/ && !open || /^\.Bd -literal/ { n++; open = 1; file = work "/program" n ".c"
		print "/* " FILENAME " */" >file
		if (/^```|^\./) next }
	open && (/^```$/ || /^\.Ed/ || FILENAME ~ /rst$/ && /^[^ ]/) { open = 0 }
	open { sub(/^    /, ""); gsub(/\\e/, "\\"); print >file }' \
	"$top/README.md" "$docs"/*.rst "$docs"/man/*.[1-9]
programs=0
for program in "$work"/program*.c; do
	grep -q '^int main' "$program" || continue
	programs=$((programs + 1))
	${CC:-gcc} -std=gnu11 -O2 -Wall -Wextra -Werror -I"$top/libgpumem/include" -I"$top/uapi" -c -o /dev/null "$program" ||
		head -1 "$program"
done >"$work/log" 2>&1
[ $programs -ge 3 ] || echo "$programs programs were found" >>"$work/log"
none "programs in the documents compile"

# Test this check: it must find a link to nothing, a document without a table of contents, and wrong
# file names.
if [ $# = 0 ]; then
	mkdir -p "$work/copy"
	(cd "$top" && tar -cf - README.md Makefile Documentation kmod uapi tools libgpumem debian \
		selftests examples) | tar -xf - -C "$work/copy"
	name=alone
	printf 'Alone\n=====\n\n:doc:`no-such-page`, see uapi.rst, ``kmod/lost.c``, ``t_lost``.\n' >"$work/copy/Documentation/$name.rst"
	rm "$work/copy/examples/check/leak.txt"
	"$0" "$work/copy" >"$work/log" 2>&1
	grep -q '^# .*no-such-page' "$work/log" && grep -q '^# < alone' "$work/log" &&
		grep -q '^# .*alone.rst:4:' "$work/log" && grep -q '^# .*there is no kmod/lost.c' "$work/log" &&
		grep -q '^# .*there is no t_lost' "$work/log" && grep -q '^# leak has no example' "$work/log"
	verdict $? "a document with faults is found"
fi

finish
