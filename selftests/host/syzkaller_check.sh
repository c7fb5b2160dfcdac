#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The description for syzkaller says what the header says.
exec python3 "$(dirname "$0")/syzkaller_check.py" "$@"
