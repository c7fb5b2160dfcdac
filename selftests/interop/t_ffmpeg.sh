#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# FFmpeg as Debian ships it: frames that go to the device and back come back as they were.  FFmpeg
# finds the library as libcuda.so.1, wants all of its names, and chooses pitches and copies itself.
# Needs root, the module and ffmpeg.
set -u
top=$(cd "$(dirname "$0")" && pwd)
# Installed, the script lies beside common/; in the sources a folder below.
[ -d "$top/common" ] || top=${top%/*}
build=${BUILD:-$top/../build}
. "$top/common/tap.sh"

formats=(nv12 yuv420p p010le yuv444p rgb0)
sizes=(320x240 321x179)
# A kind of context and a mode each. With the checker, a report makes the process fail.
ways=("0 GPUMEM_INLINE=1" "1 GPUMEM_INLINE=0" "1 GPUMEM_STRICT=1" "0 GPUMEM_STRICT=1" "0 GPUMEM_CHECK=1")
# On a kernel that takes its time the odd size and two formats will do, in the mode that has the
# kernel do everything, without what is ffmpeg's and this script's.
few=
if [ "${GPUMEM_QUICK:-}" ]; then
	formats=(nv12 rgb0)
	sizes=(321x179)
	ways=("1 GPUMEM_STRICT=1")
	few=1
fi
limit=100
[ "${GPUMEM_QUICK:-}" ] && limit=300
frames=3

echo "TAP version 13"
[ -e /dev/gpumem0 ] || skip_all "gpumem is not loaded"
[ -e "$build/compat/libcuda.so.1" ] || skip_all "make lib was not run"
if ! command -v ffmpeg >/dev/null; then
	echo "1..1"
	echo "ok 1 ffmpeg # SKIP there is no ffmpeg: tools/install-deps"
	exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
details=$work/log
export LD_LIBRARY_PATH=$build/compat:$build/lib
echo "1..$((${#formats[@]} * ${#sizes[@]} * ${#ways[@]} + (${#few} ? 1 : 5)))"

# One process for all formats and sizes, as it takes long to start: each frame is written twice, as
# it is (NAME.plain) and after its way through the device (NAME.device); what is written are
# checksums.
encode()	# WAY OPTION...
{
	local way=$1 graph='' maps=() size f n
	shift
	for size in "${sizes[@]}"; do
		graph+="${graph:+;}testsrc2=size=$size:rate=$frames:duration=1,split=${#formats[@]}"
		for f in "${formats[@]}"; do
			graph+="[in_$f$size]"
		done
		for f in "${formats[@]}"; do
			n=$f$size
			graph+=";[in_$n]format=$f,split[plain_$n][to_$n];[to_$n]$way,format=$f[device_$n]"
			maps+=(-map "[plain_$n]" -c:v rawvideo -f framemd5 "$work/$n.plain"
				-map "[device_$n]" -c:v rawvideo -f framemd5 "$work/$n.device")
		done
	done
	rm -f "$work"/*.plain "$work"/*.device
	timeout $limit ffmpeg -nostdin -hide_banner -loglevel error "$@" -filter_complex "$graph" \
		"${maps[@]}" >"$work/log" 2>&1 </dev/null
}

# Both files of a NAME have every frame and are equal; the frames are not all the same.
equal()		# NAME
{
	[ "$(grep -vc '^#' "$work/$1.plain")" = $frames ] &&
		[ "$(grep -v '^#' "$work/$1.plain" | sed 's/.*,//' | sort -u | wc -l)" = $frames ] &&
		diff "$work/$1.plain" "$work/$1.device" >>"$work/log" 2>&1
}

used()
{
	cat /sys/class/gpumem/gpumem*/{clients,bos,used}
}

before=$(used)
for way in "${ways[@]}"; do
	read -r primary mode <<<"$way"
	declare -x "${mode?}"
	encode hwupload,hwdownload \
		-init_hw_device "cuda=dev:0,primary_ctx=$primary" -filter_hw_device dev
	rc=$?
	unset "${mode%%=*}"
	for size in "${sizes[@]}"; do
		for f in "${formats[@]}"; do
			[ $rc = 0 ] && equal "$f$size"
			result $? "$f $size, primary_ctx=$primary, $mode"
		done
	done
done

if [ ! "$few" ]; then
	# The comparison sees a difference.
	encode negate && ! equal "nv12${sizes[0]}"
	result $? "other frames have other checksums"

	timeout $limit ffmpeg -nostdin -hide_banner -loglevel verbose -init_hw_device cuda=dev:1 -f lavfi \
		-i nullsrc=size=16x16 -frames:v 1 -f null - >"$work/log" 2>&1 </dev/null
	result $? "the second device"

	# FFmpeg reports each allocation that fails.
	timeout $((limit * 3)) "$build/bin/gpumem" fault sweep --calls 'alloc|create' -- \
		ffmpeg -nostdin -hide_banner -loglevel error -init_hw_device cuda=dev:0 -filter_hw_device dev \
		-f lavfi -i testsrc2=size=320x240:rate=3:duration=1 -vf format=nv12,hwupload,hwdownload,format=nv12 \
		-c:v rawvideo -f framemd5 - >"$work/log" 2>&1 </dev/null && grep -q ': reported' "$work/log"
	result $? "a sweep of failed allocations"

	# Failures are reported, not ignored.
	timeout $limit ffmpeg -nostdin -hide_banner -loglevel verbose \
		-init_hw_device cuda=dev:99 -f lavfi \
		-i nullsrc=size=16x16 -frames:v 1 -f null - >"$work/log" 2>&1 </dev/null
	[ $? != 0 ] && grep -q CUDA_ERROR_INVALID_DEVICE "$work/log"
	result $? "a device that does not exist is an error"
fi

settle used "$before"
result $? "everything is given back"
[ $failed = 0 ]
