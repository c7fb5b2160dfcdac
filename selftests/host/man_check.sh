#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Check that the manual pages describe exactly what the sources have: see man_check.py.
exec python3 "$(dirname "$0")/man_check.py" "$@"
