# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
# Helpers for tests that are shell scripts, which source this file.  The variables number and failed
# count the results; a script may set details to the name of a file that result prints on failure.
number=0
failed=0
details=

# result STATUS WHAT
result()
{
	number=$((number + 1))
	if [ "$1" = 0 ]; then
		echo "ok $number $2"
	else
		failed=$((failed + 1))
		echo "not ok $number $2"
		[ -z "$details" ] || sed 's/^/# /' "$details" | tail -n 40
	fi
}

# settle COMMAND WANT: runs COMMAND until it prints WANT, for two seconds; sets after to its last
# output.
settle()
{
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		after=$("$1")
		[ "$after" = "$2" ] && break
		sleep 0.2
	done
	[ "$after" = "$2" ]
}

# skip_all REASON
skip_all()
{
	echo "1..0 # SKIP $1"
	exit 4
}
