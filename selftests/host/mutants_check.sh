#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Check that the faults of selftests/mutants fit the sources, and that the seed still draws
# drawn.tsv.
exec "$(dirname "$0")/../mutants/mutate" check
