#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Check that the netlink family's specification, header and policies agree: see netlink_check.py.
exec python3 "$(dirname "$0")/netlink_check.py" "$@"
