#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Check what decides on the cases of selftests/interop/mpi: see mpi_check.py.
exec python3 "$(dirname "$0")/mpi_check.py" "$@"
