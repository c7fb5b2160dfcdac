#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# FFmpeg, unmodified: upload the frames of a test picture into device memory, download them again, and compare
# checksums of both.  FFmpeg finds gpumem as libcuda.so.1.
#
#   examples/ffmpeg.sh [SECONDS]		after "make lib", on a machine with the module; SECONDS is 1 by default
#
# Without root or without the module: selftests/vm/run --insmod vram=256M -- examples/ffmpeg.sh
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
libraries=${LIBRARIES:-$top/build/compat}
source=testsrc2=size=320x240:rate=5:duration=${1:-1},format=nv12
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

command -v ffmpeg >/dev/null || {
	echo "there is no ffmpeg" >&2
	exit 4
}

# checksums FILE FILTER OPTION...: the checksum of each frame.
checksums()
{
	file=$1 filter=$2
	shift 2
	LD_LIBRARY_PATH=$libraries ffmpeg -nostdin -loglevel error "$@" -f lavfi -i "$source" \
		-vf "$filter" -f framemd5 "$file"
}

checksums "$work/plain" null
checksums "$work/device" hwupload,hwdownload,format=nv12 -init_hw_device cuda=gpu:0 -filter_hw_device gpu
diff "$work/plain" "$work/device"
echo "$(grep -vc '^#' "$work/device") frames came back as they were"
