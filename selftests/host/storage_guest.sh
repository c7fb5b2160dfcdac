#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Test storage in a virtual machine that has an NVMe disk, with queues for polling: the variants of t_storage that a
# machine without a disk skips, and the example that reads a disk.
#
# usage: storage_guest.sh [BUILD]		BUILD is the output directory, build/ by default
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)

build=${1:-${BUILD:-$top/build}}
echo "TAP version 13"
if [ "${NATIVE:-}" ]; then
	echo "ok 1 - guest # SKIP NATIVE=1: no virtual machine"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
truncate -s 512M "$work/disk"
disk="-drive file=$work/disk,if=none,id=disk,format=raw,cache=unsafe -device nvme,drive=disk,serial=gpumem"
"$top/selftests/vm/run" --kernel "${VM_KERNEL:-6.12}" --mem 2G --timeout 500 --qemu-arg="$disk" \
	--append nvme.poll_queues=1 --load nvme --insmod vram=256M -- sh -c '
		cd "$0"
		head -c 16M /dev/urandom >/dev/nvme0n1
		want=$(head -c 16M /dev/nvme0n1 | cksum)
		echo 3 >/proc/sys/vm/drop_caches
		have=$(./examples/nvme_read /dev/nvme0n1)
		echo "cksum: $want, nvme_read: $have"
		[ "$want" = "$have" ] || echo -n "not "
		echo "ok 1 examples/nvme_read"
		exec ./t_storage -v nvme -v nvme_ext4 -v nvme_xfs' "$build/selftests" >"$work/log" 2>&1
rc=$?
grep -E '^(not )?ok ' "$work/log"
passed=$(grep -c '^ok [^#]*$' "$work/log")
failed=$(grep -c '^not ok' "$work/log")
# A skipped case of the disk counts as failed here.
failed=$((failed + $(grep -c '^ok .*nvme.*# SKIP' "$work/log")))
# All cases passed, but the runner failed: the kernel may have complained.
[ $rc = 0 ] || [ $failed != 0 ] || failed=1
[ "$passed" != 0 ] || failed=$((failed + 1))
[ $failed = 0 ] || tail -n 60 "$work/log" | sed 's/^/# /'
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
