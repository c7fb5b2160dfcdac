#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The programs of examples/ do what their comments say.  Needs root and the module; some need a device that the kernel
# has in software.  host/storage_guest.sh runs nvme_read on an NVMe disk.
set -u
top=$(cd "$(dirname "$0")" && pwd)
# Installed, the script and examples/ lie beside common/; in the sources a folder below.
scripts=$top/examples
[ -d "$top/common" ] || top=${top%/*} scripts=${top%/*}/examples
build=${BUILD:-$top/../build}
examples=${GPUMEM_SELFTESTS:-$build/selftests}/examples
. "$top/common/tap.sh"

echo "TAP version 13"
[ "$(id -u)" = 0 ] || skip_all "root is needed"
[ -e /dev/gpumem0 ] || skip_all "gpumem is not loaded"
echo "1..13"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
details=$work/out

# run NAME ARGUMENT...: run an example, with its output in the details.
run()
{
	name=$1
	shift
	timeout 60 "$examples/$name" "$@" >"$work/out" 2>&1
}

# skip WHAT WHY
skip()
{
	number=$((number + 1))
	echo "ok $number $1 # SKIP $2"
}

# The device and the address of rdma/rdma_link.h.
soft_roce()
{
	[ ! -e /sys/class/infiniband/gpumem_roce ] || return 0
	modprobe -qa crc32_generic dummy
	modprobe -a ib_uverbs rdma_ucm rdma_rxe || return 1
	ip link show gpumem_roce || ip link add gpumem_roce type dummy || return 1
	ip addr replace 198.18.0.1/32 dev gpumem_roce
	ip link set gpumem_roce up
	rdma link add gpumem_roce type rxe netdev gpumem_roce
}

# The first node of a class in /sys whose file or link names a driver.
camera()
{
	[ -e /sys/module/vivid ] || modprobe -q vivid n_devs=1 node_types=0x1
	for node in /sys/class/video4linux/video*; do
		grep -qs '^vivid.*-vid-cap$' "$node/name" && echo "/dev/${node##*/}" && return
	done
}

card()
{
	[ -e /sys/module/vgem ] || modprobe -q vgem
	for node in /sys/class/drm/card*; do
		case $(readlink "$node/device") in
		*vgem) echo "/dev/dri/${node##*/}" && return ;;
		esac
	done
}

if soft_roce >"$work/out" 2>&1; then
	timeout 60 "$examples/ibverbs_write" 198.18.0.1 >"$work/got" 2>&1 &
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		run ibverbs_write 198.18.0.1 "text of the writer" && break
		sleep 1
	done
	wait $! && grep -qx "text of the writer" "$work/got"
	ok=$?
	cat "$work/got" >>"$work/out"
	result $ok "ibverbs_write"

	run ibverbs_dmabuf gpumem_roce
	result $? "ibverbs_dmabuf"
else
	skip "ibverbs_write" "no soft-RoCE"
	skip "ibverbs_dmabuf" "no soft-RoCE"
fi

run io_uring_fixed "$work/file"
result $? "io_uring_fixed"

head -c 3000000 /dev/urandom >"$work/from"
run cufile_copy "$work/from" "$work/to" && cmp "$work/from" "$work/to" >>"$work/out" 2>&1
result $? "cufile_copy"

head -c 3M /dev/urandom >"$work/from"
disk=$work/from
[ ! -b /dev/nvme0n1 ] || disk=/dev/nvme0n1
run nvme_read "$disk" 3 && [ "$(head -c 3M "$disk" | cksum)" = "$(cat "$work/out")" ]
result $? "nvme_read"

run ipc
result $? "ipc"

# The checker has a report if nothing orders the streams, and none if an event does.
export GPUMEM_CHECK=1
run check_race
[ $? = 66 ] && grep -q '^gpumem-check: race: ' "$work/out" && run check_race event && [ ! -s "$work/out" ]
result $? "check_race"
unset GPUMEM_CHECK

run record_calls 40
result $? "record_calls"

run udmabuf_import
result $? "udmabuf_import"

node=$(camera)
if [ "$node" ]; then
	run v4l2_capture "$node" && [ "$(grep -c '^frame' "$work/out")" = 3 ]
	result $? "v4l2_capture"
else
	skip "v4l2_capture" "no vivid"
fi

node=$(card)
if [ "$node" ]; then
	run drm_import "$node"
	result $? "drm_import"
else
	skip "drm_import" "no vgem"
fi

if [ "${GPUMEM_QUICK:-}" ]; then
	skip "ffmpeg" "GPUMEM_QUICK is set"
elif ! command -v ffmpeg >/dev/null; then
	skip "ffmpeg" "ffmpeg is not installed"
else
	LIBRARIES=$build/compat timeout 200 "$scripts/ffmpeg.sh" >"$work/out" 2>&1 &&
		grep -qx "5 frames came back as they were" "$work/out"
	result $? "ffmpeg"
fi

# The plugin is looked for by its file: it is a failure if it has no elements with our library.
plugin=
for file in /usr/lib/*/gstreamer-1.0/libgstnvcodec.so /usr/lib64/gstreamer-1.0/libgstnvcodec.so; do
	[ ! -e "$file" ] || plugin=$file
done
if ! command -v gst-launch-1.0 >/dev/null || [ ! "$plugin" ]; then
	skip "gstreamer" "GStreamer or its CUDA elements are not installed"
else
	# Loading all plugins takes minutes in a guest without KVM: use only these.
	mkdir "$work/plugins"
	for p in coreelements videotestsrc nvcodec; do
		ln -s "${plugin%/*}/libgst$p.so" "$work/plugins"
	done
	GST_PLUGIN_SYSTEM_PATH_1_0=$work/plugins GST_REGISTRY_FORK=no LIBRARIES=$build/compat \
		timeout 200 "$scripts/gstreamer.sh" >"$work/out" 2>&1 &&
		grep -qx "5 frames came back as they were" "$work/out"
	result $? "gstreamer"
fi
[ $failed = 0 ]
