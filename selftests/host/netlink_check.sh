#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The netlink family's specification, header and policy say the same.
exec python3 "$(dirname "$0")/netlink_check.py" "$@"
