#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The faults of selftests/mutants still fit the sources, and what is drawn is what was drawn.
exec "$(dirname "$0")/../mutants/mutate" check
