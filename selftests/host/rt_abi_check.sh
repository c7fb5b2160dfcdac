#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Check that the public headers of the runtime API are CUDA's interface: see rt_abi_check.py.
exec python3 "$(dirname "$0")/rt_abi_check.py" "$@"
