#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The programs of examples/ do what their comments say.  Needs root, the module, and soft-RoCE.
set -u
top=$(cd "$(dirname "$0")" && pwd)
# Installed, the script lies beside common/; in the sources a folder below.
[ -d "$top/common" ] || top=${top%/*}
examples=${GPUMEM_SELFTESTS:-${BUILD:-$top/../build}/selftests}/examples
. "$top/common/tap.sh"

echo "TAP version 13"
[ "$(id -u)" = 0 ] || skip_all "root is needed"
[ -e /dev/gpumem0 ] || skip_all "gpumem is not loaded"
echo "1..2"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
details=$work/out

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

if ! soft_roce >"$work/out" 2>&1; then
	echo "ok 1 ibverbs_write # SKIP no soft-RoCE"
	echo "ok 2 ibverbs_dmabuf # SKIP no soft-RoCE"
	exit 0
fi

timeout 60 "$examples/ibverbs_write" 198.18.0.1 >"$work/got" 2>&1 &
for _ in 1 2 3 4 5 6 7 8 9 10; do
	timeout 60 "$examples/ibverbs_write" 198.18.0.1 "text of the writer" >"$work/out" 2>&1 && break
	sleep 1
done
wait $! && grep -qx "text of the writer" "$work/got"
ok=$?
cat "$work/got" >>"$work/out"
result $ok "ibverbs_write"

timeout 60 "$examples/ibverbs_dmabuf" gpumem_roce >"$work/out" 2>&1
result $? "ibverbs_dmabuf"
[ $failed = 0 ]
