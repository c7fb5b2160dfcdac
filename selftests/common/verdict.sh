# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh disable=SC2034
# Helpers for the checks on the host, which source this file. A check may set details to the name of
# a file that verdict prints on failure.
number=0 passed=0 failed=0 skipped=0
details=

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
		[ -z "$details" ] || sed 's/^/# /' "$details" | head -n 200
	fi
}

# skip WHAT WHY
skip()
{
	number=$((number + 1)) skipped=$((skipped + 1))
	echo "ok $number - $1 # SKIP $2"
}

# finish: the lines at the end; fails unless every case passed or was skipped.
finish()
{
	echo "1..$number"
	echo "$passed passed, $failed failed, $skipped skipped"
	[ $failed = 0 ]
}
