#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Containers get devices by name: podman and crun read what "gpumem cdi generate" prints.  Needs root, the module,
# and for the containers podman and crun.
set -u
top=$(cd "$(dirname "$0")" && pwd)
# Installed, the script lies beside common/; in the sources a folder below.
[ -d "$top/common" ] || top=${top%/*}
build=${BUILD:-$top/../build}
tool=$build/bin/gpumem
. "$top/common/tap.sh"

echo "TAP version 13"
[ "$(id -u)" = 0 ] || skip_all "root is needed"
[ -e /dev/gpumem0 ] || skip_all "gpumem is not loaded"
[ -x "$tool" ] || skip_all "make tools was not run"
[ -e "$build/compat/libcuda.so.1" ] || skip_all "make lib was not run"
echo "1..10"
work=$(mktemp -d)
# One of the two directories in which container runtimes look.  A file that was there comes back.
spec=/run/cdi/gpumem.json
mkdir -p /run/cdi
[ ! -e $spec ] || mv $spec "$work/former"
trap 'rm -f $spec; [ ! -e "$work/former" ] || mv "$work/former" $spec; rm -rf "$work"' EXIT
# shellcheck disable=SC2034 # tap.sh uses it
details=$work/out
set -- /dev/gpumem[0-9]*
devices=$#

cat >"$work/check.py" <<'END'
import glob, json, sys
spec = json.load(open(sys.argv[1]))
names = sorted(n[len("/dev/gpumem"):] for n in glob.glob("/dev/gpumem[0-9]*"))
nodes = {d["name"]: sorted(n["path"] for n in d["containerEdits"]["deviceNodes"]) for d in spec["devices"]}
want = {n: ["/dev/gpumem" + n] for n in names}
want["all"] = sorted("/dev/gpumem" + n for n in names)
print(nodes, want, spec)
sys.exit(nodes != want or spec["kind"] != "gpumem.org/gpu" or ("containerEdits" in spec) != (len(sys.argv) > 2))
END
"$tool" cdi generate >"$work/spec" 2>"$work/out" && python3 "$work/check.py" "$work/spec" >>"$work/out" 2>&1
result $? "cdi generate names each device and all of them"

"$tool" cdi generate --libraries "$build/compat" --output $spec >"$work/out" 2>&1 && [ ! -s "$work/out" ] &&
	python3 "$work/check.py" $spec libraries >"$work/out" 2>&1 && [ "$(stat -c %a $spec)" = 644 ]
result $? "cdi generate writes a file, with libraries"

! "$tool" cdi generate --libraries "$work" >"$work/out" 2>&1 && grep -q "^gpumem: $work/libcuda.so.1: No such" "$work/out" &&
	! "$tool" cdi generate --output "$work/none/file" 2>"$work/out" && grep -q "none/file.*: No such" "$work/out" &&
	! "$tool" cdi generate more 2>"$work/out" && ! "$tool" cdi --output "$work/file" 2>>"$work/out" && [ ! -e "$work/file" ]
result $? "cdi generate refuses what it cannot do"

if ! command -v podman >/dev/null || ! command -v crun >/dev/null; then
	for what in memory all other none node seccomp apparmor; do
		number=$((number + 1))
		echo "ok $number $what # SKIP podman or crun is not installed: tools/install-deps --interop"
	done
	[ $failed = 0 ]
	exit
fi

# podman loads its AppArmor profile by this file system.
[ ! -d /sys/kernel/security ] || mountpoint -q /sys/kernel/security ||
	mount -t securityfs securityfs /sys/kernel/security 2>/dev/null

# The root of the containers: a few directories, and /usr of this machine.
mkdir -p "$work"/root/{usr,proc,sys,dev,tmp,etc,opt,run,var}
for dir in bin sbin lib lib64; do
	ln -s usr/$dir "$work/root/$dir"
done
cat >"$work/root/alloc.py" <<'END'
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, pointer, count, out = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_int(), (ctypes.c_ubyte * 4096)()
status = cuda.cuInit(0)
if status:
    sys.exit("cuInit: %d" % status)
cuda.cuDeviceGetCount(ctypes.byref(count))
for device in range(count.value):
    failed = (cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) or cuda.cuCtxSetCurrent(context) or
              cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 20)) or
              cuda.cuMemsetD8_v2(pointer, ctypes.c_ubyte(90), ctypes.c_size_t(1 << 20)) or
              cuda.cuMemcpyDtoH_v2(out, pointer, ctypes.c_size_t(4096)))
    if failed or bytes(out) != b"Z" * 4096:
        sys.exit("device %d: %d" % (device, failed))
print("memory of %d devices" % count.value)
END

# contained OPTION... -- COMMAND...
contained()
{
	local options=()
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	timeout "${GPUMEM_TIMEOUT:-120}" podman --root "$work/storage" --runroot "$work/run" --storage-driver vfs \
		--cgroup-manager cgroupfs --runtime crun --events-backend none run --rm --network=none --log-driver=none \
		-v /usr:/usr:ro "${options[@]}" --rootfs "$work/root" "$@" >"$work/out" 2>&1 </dev/null
}

python=/usr/bin/python3
contained --device gpumem.org/gpu=0 -- $python /alloc.py && grep -qx "memory of 1 devices" "$work/out"
result $? "a container with one device uses its memory"

contained --device gpumem.org/gpu=all -- $python /alloc.py && grep -qx "memory of $devices devices" "$work/out"
result $? "a container with all devices uses the memory of each"

! contained --device gpumem.org/gpu=999 -- true && grep -q "unresolvable CDI devices" "$work/out"
result $? "a device that does not exist is refused"

# The libraries are there; the node is not.
lib=(-v "$build/compat:/opt/gpumem/cuda:ro" -v "$build/lib/libgpumem-driver.so.1:/opt/gpumem/libgpumem-driver.so.1:ro"
     -e LD_LIBRARY_PATH=/opt/gpumem/cuda)
! contained "${lib[@]}" -- $python /alloc.py && grep -q "^cuInit: [1-9]" "$work/out"
result $? "a container without a device gets none"

# A node that is there without permission: the container's control group refuses it.
! contained "${lib[@]}" -v /dev/gpumem0:/dev/gpumem0 -- $python /alloc.py && grep -q "^cuInit: [1-9]" "$work/out" &&
	! contained -v /dev/gpumem0:/dev/gpumem0 -- sh -c ': <>/dev/gpumem0' &&
	grep -q "Operation not permitted" "$work/out"
result $? "a container with the node alone may not open it"

contained --device gpumem.org/gpu=0 -- sh -c 'grep Seccomp: /proc/self/status; cat /proc/self/attr/current' &&
	grep -q "^Seccomp:.2$" "$work/out"
rc=$?
sed 's/^/# /' "$work/out"
# podman confines containers with AppArmor where it finds apparmor_parser.
result $rc "the default seccomp filter was in force"
if command -v apparmor_parser >/dev/null && grep -q Y /sys/module/apparmor/parameters/enabled; then
	grep -q "^containers-default.*(enforce)" "$work/out"
	result $? "the default AppArmor profile was in force"
else
	number=$((number + 1))
	echo "ok $number the default AppArmor profile # SKIP there is no apparmor_parser, or the kernel has no AppArmor"
fi
[ $failed = 0 ]
