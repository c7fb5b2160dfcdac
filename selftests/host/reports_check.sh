#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Check what belongs to the reports of the command gpumem: completions for shells, and the dashboard.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD:-$top/build}
completion=$top/tools/completion
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$top/selftests/common/verdict.sh"
details=$work/log

echo "TAP version 13"
export LD_LIBRARY_PATH=$build/lib
"$build/bin/gpumem" --help >"$work/help" 2>"$work/log"
verdict $? "the command lists its commands and options"
commands=$(sed -nE 's/^(usage:)? +gpumem ([a-z]+).*/\2/p' "$work/help" | sort -u)
options=$(grep -oE -- '--[a-z]+' "$work/help" | sort -u)

for file in gpumem.bash _gpumem gpumem.fish; do
	for word in $commands; do
		grep -qw -- "$word" "$completion/$file" || echo "$file lacks the command $word"
	done
	for word in $options; do
		# fish: -l NAME
		grep -qE -- "(--|-l )${word#--}\b" "$completion/$file" || echo "$file lacks the option $word"
	done
done >"$work/log"
[ "$commands" ] && [ "$options" ] && [ ! -s "$work/log" ]
verdict $? "each completion has all commands and options"

# What bash completes behind WORDS.
completes()
{
	(
		. "$completion/gpumem.bash"
		compopt() { :; }
		PATH=$build/bin:$PATH
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
		_gpumem
		echo "${COMPREPLY[*]}"
	)
}
{
	[ "$(completes gpumem le)" = leaks ] || echo "le: $(completes gpumem le)"
	[ "$(completes gpumem list -b o)" = objects ] || echo "list -b o: $(completes gpumem list -b o)"
	[ "$(completes gpumem top --s)" = --sort ] || echo "top --s: $(completes gpumem top --s)"
	[ "$(completes gpumem top -s e)" = engine ] || echo "top -s e: $(completes gpumem top -s e)"
	[[ " $(completes gpumem stat "") " == *" $$ "* ]] || echo "stat: $(completes gpumem stat "")"
	[ "$(completes gpumem top -n "")" = "" ] || echo "top -n: $(completes gpumem top -n "")"
} >"$work/log" 2>&1
[ ! -s "$work/log" ]
verdict $? "bash completes commands, options and arguments"

for shell in zsh fish; do
	file=$completion/gpumem.fish
	[ $shell = fish ] || file=$completion/_gpumem
	if command -v $shell >/dev/null; then
		$shell -n "$file" >"$work/log" 2>&1
		verdict $? "$shell reads its completion"
	else
		skip "$shell reads its completion" "$shell is not installed"
	fi
done

python3 - "$top/tools/dashboard/gpumem.json" "$top/tools/gpumem/metrics.c" >"$work/log" 2>&1 <<'END'
import json, re, sys
with open(sys.argv[1], encoding="utf-8") as f:
    dashboard = json.load(f)
with open(sys.argv[2], encoding="utf-8") as f:
    names = set(re.findall(r'"(gpumem_[a-z_]+)"', f.read()))
used = {name for panel in dashboard["panels"] for target in panel["targets"]
        for name in re.findall(r"gpumem_[a-z_]+", target["expr"])}
unknown = sorted(n for n in used if n not in names and re.sub("_total$", "", n) not in names)
sys.exit("no such metrics: %s" % unknown if unknown else None if used else "no metrics")
END
verdict $? "the dashboard's metrics exist"
finish
