#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Check that the public headers are CUDA's interface: see abi_check.py.
exec python3 "$(dirname "$0")/abi_check.py" "$@"
