#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Build examples/mpi_ring.c with this machine's MPI, and run two ranks in a virtual machine.
#
# usage: mpi_ring.sh [BUILD]		BUILD is the output directory, build/ by default
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
build=$(realpath "${1:-${BUILD:-$top/build}}")
out=$build/host/mpi_ring
libs=$build/compat

# skip REASON: end without having run anything.
skip()
{
	echo "ok 1 - ring # SKIP $1"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
}

echo "TAP version 13"
echo "1..1"
command -v mpicc >/dev/null && command -v mpiexec >/dev/null || skip "mpicc or mpiexec is missing"
[ ! "${NATIVE:-}" ] || skip "NATIVE=1: no virtual machine"
mkdir -p "$out"
log=$out/log
# OpenMPI wants to be told that root may run it.
if mpicc -O2 -Wall -Wextra -Werror -I "$top/libgpumem/include" "$top/examples/mpi_ring.c" -L "$libs" -lcudart \
		-o "$out/mpi_ring" >"$log" 2>&1 &&
	"$top/selftests/vm/run" --kernel "${VM_KERNEL:-6.12}" --timeout 120 --insmod vram=256M -- \
		env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 LD_LIBRARY_PATH="$libs" \
		mpiexec -n 2 "$out/mpi_ring" >"$log" 2>&1 && grep -qx '2 ranks, 0 wrong numbers' "$log"; then
	echo "ok 1 - ring"
	echo "1 passed, 0 failed, 0 skipped"
	exit 0
fi
echo "not ok 1 - ring"
tail -n 40 "$log" | sed 's/^/# /'
echo "0 passed, 1 failed, 0 skipped"
exit 1
