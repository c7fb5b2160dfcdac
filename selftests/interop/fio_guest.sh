#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# In the virtual machine: jobs of fio with its engine for cuFile, on an NVMe disk, verified by fio.
#
# usage: fio_guest.sh FIO COUNT LIBRARIES
set -u
fio=$1 count=$2
export LD_LIBRARY_PATH=$3
mnt=$(mktemp -d)
fs=''

# job NAME WAYS OPTION...: fio must verify everything, and bytes must have gone by no other ways than WAYS.
job()
{
	local name=$1 ways=$2 text=ok have
	shift 2
	LD_PRELOAD=$count "$fio" --name="$name" --directory="$mnt" --ioengine=libcufile --cuda_io=cufile --thread \
		--verify=crc32c --verify_fatal=1 --do_verify=1 --size=8m --output="$mnt/log" "$@" 2>"$mnt/err"
	rc=$?
	have=$(sed -n 's/^ways: //p' "$mnt/err")
	if [ $rc != 0 ] || [ "$have" != "$ways" ] || ! grep -q 'err= 0' "$mnt/log" || grep -qi 'verify.*bad' "$mnt/err"; then
		text='not ok'
		echo "ways: '$have', not '$ways'; exit status $rc"
		head -40 "$mnt/err" "$mnt/log"
	fi
	echo "$text - $fs $name"
	rm -f "$mnt/$name"* "$mnt/log" "$mnt/err"
}

for fs in ext4 xfs; do
	case $fs in
	ext4) mkfs.ext4 -q -F -E nodiscard /dev/nvme0n1 ;;
	xfs) mkfs.xfs -q -f -K /dev/nvme0n1 ;;
	esac
	if ! modprobe "$fs" || ! mount -t "$fs" /dev/nvme0n1 "$mnt"; then
		echo "not ok - $fs is mounted"
		continue
	fi
	job sequential direct --rw=write --bs=256k --direct=1
	job random direct --rw=randwrite --bs=16k --direct=1 --numjobs=2
	job without_o_direct direct --rw=randwrite --bs=64k --direct=0
	# Blocks of odd sizes at odd offsets: their edges are staged.
	job misaligned "direct staged" --rw=write --bsrange=1001-200001 --bs_unaligned --direct=0
	job mixed direct --rw=randrw --bs=32k --direct=1
	umount "$mnt"
done
fs=tmpfs
mount -t tmpfs none "$mnt"
job compatibility compat --rw=randwrite --bs=16k
umount "$mnt"
rmdir "$mnt"
