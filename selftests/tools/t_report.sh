#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The reports of the command gpumem for programs and terminals.  Needs root and the module.
set -u
top=$(cd "$(dirname "$0")" && pwd)
cases=$top/report_cases.py
# Installed, the script lies beside common/; in the sources a folder below.
[ -d "$top/common" ] || top=${top%/*}
build=${BUILD:-$top/../build}
. "$top/common/tap.sh"

echo "TAP version 13"
[ "$(id -u)" = 0 ] || skip_all "root is needed"
[ -e /dev/gpumem0 ] || skip_all "gpumem is not loaded"
[ -x "$build/bin/gpumem" ] || skip_all "make tools was not run"
exec python3 "$cases" "$build"
