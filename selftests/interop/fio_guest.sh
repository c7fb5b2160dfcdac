#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# In the virtual machine: jobs of fio on an NVMe disk, verified by fio, with its engine for cuFile, and with other
# engines on buffers of cuMemAlloc().
#
# usage: fio_guest.sh FIO COUNT LIBRARIES
set -u
fio=$1 count=$2
export LD_LIBRARY_PATH=$3
mnt=$(mktemp -d)
fs=''

# verified NAME FIELD WANT OPTION...: fio must verify everything, and FIELD of what fio_count.c prints must match WANT.
verified()
{
	local name=$1 field=$2 want=$3 text=ok have rc
	shift 3
	LD_PRELOAD=$count "$fio" --name="$name" --directory="$mnt" --thread --verify=crc32c --verify_fatal=1 \
		--do_verify=1 --size=8m --output="$mnt/log" "$@" 2>"$mnt/err"
	rc=$?
	have=$(sed -n "s/^$field: //p" "$mnt/err")
	if [ $rc != 0 ] || ! [[ $have =~ ^$want$ ]] || ! grep -q 'err= 0' "$mnt/log" ||
			grep -qi 'verify.*bad' "$mnt/err"; then
		text='not ok'
		echo "$field: '$have', not '$want'; exit status $rc"
		head -40 "$mnt/err" "$mnt/log"
	fi
	echo "$text - $fs $name"
	rm -f "$mnt/$name"* "$mnt/log" "$mnt/err"
}

# job NAME WAYS OPTION...: bytes must have gone by no other ways than WAYS.
job()
{
	local name=$1 ways=$2
	shift 2
	verified "$name" ways "$ways" --ioengine=libcufile --cuda_io=cufile "$@"
}

# memory_job NAME OPTION...: fio must have allocated half a MiB of device memory, or more.
memory_job()
{
	local name=$1
	shift
	verified "$name" "device memory" "[5-9][0-9]{5}|[0-9]{7,}" --mem=cudamalloc --direct=1 "$@"
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
	memory_job fixed_buffers --ioengine=io_uring --fixedbufs=1 --registerfiles=1 --iodepth=8 --rw=randwrite --bs=64k
	memory_job polled --ioengine=io_uring --fixedbufs=1 --hipri=1 --iodepth=8 --rw=randwrite --bs=64k
	memory_job io_uring --ioengine=io_uring --iodepth=8 --rw=randrw --bs=64k
	memory_job pvsync2 --ioengine=pvsync2 --hipri=1 --rw=write --bs=512k
	memory_job psync --ioengine=psync --rw=randwrite --bs=512k
	umount "$mnt"
done
fs=tmpfs
mount -t tmpfs none "$mnt"
job compatibility compat --rw=randwrite --bs=16k
umount "$mnt"
rmdir "$mnt"
