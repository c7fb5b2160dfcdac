#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Check that the description for syzkaller agrees with the header: see syzkaller_check.py.
exec python3 "$(dirname "$0")/syzkaller_check.py" "$@"
