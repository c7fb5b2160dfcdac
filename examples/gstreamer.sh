#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# GStreamer, unmodified: upload the frames of a test picture into device memory, download them again, and compare
# both.  GStreamer finds gpumem as libcuda.so.1.
#
#   examples/gstreamer.sh [FRAMES]		after "make lib", on a machine with the module; FRAMES is 5 by default
#
# Without root or without the module: selftests/vm/run --insmod vram=256M -- examples/gstreamer.sh
# The elements are in Debian's package gstreamer1.0-plugins-bad, gst-launch-1.0 is in gstreamer1.0-tools, and
# videotestsrc is in gstreamer1.0-plugins-base.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
libraries=${LIBRARIES:-$top/build/compat}
frames=${1:-5}
caps=format=NV12,width=320,height=240
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

command -v gst-launch-1.0 >/dev/null || {
	echo "there is no GStreamer" >&2
	exit 4
}

# The plugin registers its elements only where it finds libcuda.so.1 and libnvcuvid.so.1, and GStreamer records the
# result in its registry.  A registry of this script's own keeps what another driver left out of the way.
export LD_LIBRARY_PATH="$libraries" GST_REGISTRY_1_0="$work/registry"
for element in cudaupload cudadownload; do
	gst-inspect-1.0 --exists $element || {
		echo "GStreamer has no element $element" >&2
		exit 4
	}
done

# Write each frame to a file as it is, and to another one after its way through the device.  The feature
# memory:CUDAMemory lets the elements pass nothing but device memory.
gst-launch-1.0 -q videotestsrc num-buffers="$frames" pattern=ball ! "video/x-raw,$caps" ! tee name=t \
	t. ! queue ! filesink location="$work/plain" \
	t. ! queue ! cudaupload ! "video/x-raw(memory:CUDAMemory),$caps" ! cudadownload ! "video/x-raw,$caps" ! \
	filesink location="$work/device"
cmp "$work/plain" "$work/device"

# A frame of NV12 has 12 bits for each pixel.
size=$(wc -c <"$work/device")
[ "$size" = $((frames * 320 * 240 * 3 / 2)) ] || {
	echo "$size bytes are not $frames frames" >&2
	exit 1
}
echo "$frames frames came back as they were"
