#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The part of gst that runs in the virtual machine, in the disk with GStreamer.
#
#   gst_guest.sh BUILD
#
# Frames of a test picture go through the device, or through the device into a second process; they must
# come back as they were.  Prints "ok - gst CASE" or "not ok - gst CASE" for each case.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
export LD_LIBRARY_PATH=$1/compat HOME=/tmp LC_ALL=C.UTF-8
work=$(mktemp -d)
cd "$work" || exit 1

# Loading all plugins takes minutes in a guest without KVM: use only these.
mkdir plugins
for p in coreelements videotestsrc nvcodec; do
	ln -s /usr/lib/x86_64-linux-gnu/gstreamer-1.0/libgst$p.so plugins
done
export GST_PLUGIN_SYSTEM_PATH_1_0=$work/plugins GST_REGISTRY_1_0=$work/registry GST_REGISTRY_FORK=no
export GST_DEBUG_NO_COLOR=1 GST_DEBUG=2

result()	# STATUS CASE
{
	if [ "$1" = 0 ]; then
		echo "ok - gst $2"
	else
		echo "not ok - gst $2"
		tail -n 25 log* | while IFS= read -r line; do
			echo "#   ${line:0:300}"
		done
	fi
	rm -f log*
}

launch()	# ELEMENT...
{
	timeout 300 gst-launch-1.0 -q "$@" </dev/null
}

# The module's counters: what a case leaves behind shows here.
used()
{
	cat /sys/class/gpumem/gpumem*/{clients,bos,used} | tr '\n' ' '
}

before=$(used)
for e in cudaupload cudadownload cudaipcsink cudaipcsrc cudaconvertscale; do
	gst-inspect-1.0 --exists $e >log 2>&1
	result $? "element-$e"
done
! gst-inspect-1.0 --exists nvh264dec >log 2>&1
result $? no-decoder

# Through the device: each frame is written as it is, and after its way.
through()	# FORMAT WIDTH HEIGHT ELEMENT...
{
	local caps="video/x-raw,format=$1,width=$2,height=$3"
	shift 3
	rm -f plain device
	launch videotestsrc num-buffers=4 pattern=ball ! "$caps" ! tee name=t \
		t. ! queue ! filesink location=plain t. ! queue ! "$@" ! filesink location=device >log 2>&1 &&
		[ -s plain ] && cmp plain device >>log 2>&1
}

for format in NV12 I420 P010_10LE Y444 RGBA; do
	for size in "320 240" "322 178"; do
		# shellcheck disable=SC2086
		through $format $size cudaupload ! cudadownload
		result $? "through-$format-${size/ /x}"
	done
done
through NV12 320 240 cudaupload cuda-device-id=1 ! cudadownload cuda-device-id=1
result $? second-device
through NV12 320 240 cudaupload ! cudadownload ! cudaupload ! queue ! cudadownload
result $? twice
GPUMEM_STRICT=1 through NV12 322 178 cudaupload ! cudadownload
result $? strict
through NV12 320 240 cudaupload ! cudaupload cuda-device-id=1 ! cudadownload cuda-device-id=1
result $? between-devices
through NV12 320 240 cudaupload ! cudaconvertscale ! "video/x-raw(memory:CUDAMemory),format=RGBA" ! cudadownload
result $? convert
# The disk has no sh and no grep.
LIBRARIES=$LD_LIBRARY_PATH timeout 300 bash "$top/examples/gstreamer.sh" 6 >log 2>&1 &&
	[ "$(tail -n 1 log)" = "6 frames came back as they were" ]
result $? example

# Into a second process.  The picture does not move, so each frame that arrives equals the first.  Lines of
# 512 bytes need no padding: what comes from another process keeps the pitch of device memory.
launch videotestsrc num-buffers=1 pattern=smpte75 ! video/x-raw,format=NV12,width=512,height=240 ! \
	filesink location=one >log 2>&1
result $? picture
ipc()		# MODE
{
	local address=$work/socket.$1 server status=0 frame count n
	rm -f got
	timeout 300 gst-launch-1.0 -q videotestsrc is-live=true pattern=smpte75 ! \
		video/x-raw,format=NV12,width=512,height=240,framerate=10/1 ! cudaupload ! \
		cudaipcsink address="$address" ipc-mode="$1" >log.server 2>&1 </dev/null &
	server=$!
	for n in $(seq 600); do
		[ -S "$address" ] && break
		sleep 0.2
	done
	launch cudaipcsrc address="$address" num-buffers=6 ! cudadownload ! filesink location=got \
		>log.client 2>&1
	echo "the client's status is $?" >>log.client
	kill -INT $server
	wait $server
	frame=$(stat -c %s one) count=$(($(stat -c %s got) / frame))
	echo "$(stat -c %s got) bytes are $count frames of $frame bytes" >>log.client
	[ $((count * frame)) = "$(stat -c %s got)" ] && [ $count -ge 5 ] || status=1
	for ((n = 0; n < count; n++)); do
		dd if=got of=frame bs="$frame" skip=$n count=1 status=none
		cmp one frame >>log.client 2>&1 || status=1
	done
	return $status
}
for mode in legacy mmap; do
	ipc $mode
	result $? ipc-$mode
done

for n in $(seq 50); do
	[ "$(used)" = "$before" ] && break
	sleep 0.1
done
[ "$(used)" = "$before" ]
result $? everything-is-given-back
echo "all of them ran"
