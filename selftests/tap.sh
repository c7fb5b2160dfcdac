# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
# What the tests that are shell scripts share; they read this file.  A script counts its results in
# number and failed, and may name in details a file that explains a failure.
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

# skip_all REASON
skip_all()
{
	echo "1..0 # SKIP $1"
	exit 4
}
