#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The command gpumem: its output has the values that the kernel reports.  Needs root and the module.
set -u
top=$(cd "$(dirname "$0")" && pwd)
# Installed, the script lies beside common/; in the sources a folder below.
[ -d "$top/common" ] || top=${top%/*}
build=${BUILD:-$top/../build}
tool=$build/bin/gpumem
class=/sys/class/gpumem
. "$top/common/tap.sh"

echo "TAP version 13"
[ "$(id -u)" = 0 ] || skip_all "root is needed"
[ -e /dev/gpumem0 ] || skip_all "gpumem is not loaded"
[ -x "$tool" ] || skip_all "make tools was not run"
echo "1..16"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
details=$work/out

# "list -b" prints one line for each device, with the kernel's numbers.
"$tool" list -b >"$work/out" 2>&1
ok=$?
set -- $class/gpumem*
[ "$(wc -l <"$work/out")" = $(($# + 1)) ] || ok=1
for dev in "$@"; do
	want=$(cd "$dev" && cat size used node engine clients bos exports views pools | paste -sd" ")
	grep -qx "$(basename "$dev") $want" <<-END || ok=1
	$(tr -s ' ' <"$work/out")
	END
done
result $ok "list -b shows every device's attributes"

"$tool" list >"$work/out" 2>&1 && grep -q 'gpumem0 .* [KMGT]iB' "$work/out"
result $? "list shows sizes with units"

"$tool" stat --all >"$work/out" 2>&1 && [ "$(cat "$work/out")" = "no clients" ]
result $? "stat --all without clients"

# A client: an open file of this shell.
exec 9<>/dev/gpumem0
"$tool" stat -b $$ >"$work/out" 2>&1
ok=$?
grep -q "^$$ .*descriptor 9, /dev/gpumem0$" "$work/out" || ok=1
sed -n 's/^gpumem-\([a-z0-9-]*\):[ \t]*/\1 /p' /proc/$$/fdinfo/9 >"$work/want"
[ -s "$work/want" ] && sed 1d "$work/out" | sed 's/^ *//; s/  */ /' | diff "$work/want" - || ok=1
result $ok "stat shows a client's counters"

"$tool" stat --all >"$work/out" 2>&1 && grep -q "^$$ " "$work/out"
result $? "stat --all finds it"

"$tool" list clients >"$work/out" 2>&1 && [ "$(wc -l <"$work/out")" = 2 ] &&
	grep -q "^[0-9]* .* $$ *0 *0 *0 .*0 B" "$work/out"
result $? "list clients shows it"

"$tool" list objects >"$work/out" 2>&1 && [ "$(wc -l <"$work/out")" = 1 ]
result $? "list objects shows none"

"$tool" top -n 1 >"$work/out" 2>&1 && grep -q "^gpumem0 " "$work/out" && grep -q " $$ " "$work/out"
result $? "top shows devices and clients"

"$tool" leaks >"$work/out" 2>&1
[ $? = 1 ] && grep -q "^client [0-9]* of .*, pid $$, uid 0, on device 0$" "$work/out"
result $? "leaks shows what is there"

# Copy the command: another user may have no access to the checkout.
mkdir "$work/public"
cp "$tool" "$build/lib/libgpumem.so.1" "$build/lib/libgpumem-driver.so.1" "$work/public"
chmod -R a+rX "$work"
LD_LIBRARY_PATH=$work/public setpriv --reuid=65534 --regid=65534 --clear-groups \
	"$work/public/gpumem" stat $$ >"$work/out" 2>&1
[ $? = 1 ] && grep -q "become its user or root" "$work/out"
result $? "stat of another user's process says what to do"
LD_LIBRARY_PATH=$work/public setpriv --reuid=65534 --regid=65534 --clear-groups \
	"$work/public/gpumem" watch >"$work/out" 2>&1
[ $? = 1 ] && grep -q "refusals: not permitted: this needs CAP_SYS_ADMIN" "$work/out"
result $? "watch without the right says what it needs"
exec 9>&-

# Fill twice the device's memory again and again.
cat >"$work/loop.py" <<END
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
ctx, p, size = ctypes.c_void_p(), ctypes.c_uint64(), 32 << 20
ok = not (lib.cuInit(0) or lib.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 0) or
          lib.cuCtxSetCurrent(ctx) or
          lib.cuMemAllocManaged(ctypes.byref(p), ctypes.c_size_t(size), 1))
print("ready" if ok else "failed", flush=True)
while ok:
    ok = not (lib.cuMemsetD8_v2(p, ctypes.c_ubyte(1), ctypes.c_size_t(size)) or
              lib.cuCtxSynchronize())
END
size=$(cat $class/gpumem0/size)
echo 16M >$class/gpumem0/size
python3 "$work/loop.py" "$build/lib/libgpumem.so.1" >"$work/ready" 2>&1 &
loop=$!
for _ in $(seq 150); do
	[ ! -s "$work/ready" ] || break
	sleep 0.2
done
"$tool" top -n 4 >"$work/out" 2>&1
cat "$work/ready" >>"$work/out"
# The first sample has no rates: the row has dashes.
grep -q "^[0-9]* *python3 *1 .* - *- *- *- *-$" "$work/out" &&
	awk '$2 == "python3" && $3 == 1 && $6 > 0 && $7 > 0 && $8 > 0 && $10 ~ /iB/ { n++ }
	END { exit n < 1 }' "$work/out"
result $? "top shows faults, evictions and thrash of managed memory"
"$tool" list objects >"$work/out" 2>&1
grep -q "managed memory .*(resident: .*, faults: [1-9].*, evictions: [1-9].*, thrash: [1-9]" \
	"$work/out"
result $? "list objects shows them for each object"
kill "$loop"
wait "$loop" 2>/dev/null
echo "$size" >$class/gpumem0/size

"$tool" leaks >"$work/out" 2>&1 && [ ! -s "$work/out" ]
result $? "leaks shows nothing when there is nothing"

"$tool" stat $$ >"$work/out" 2>&1
[ $? = 1 ] && grep -qx "gpumem: process $$ has no gpumem device open" "$work/out"
result $? "stat of a process without a client says so"

"$tool" --version >"$work/out" 2>&1 &&
	grep -q "module $(cat /sys/module/gpumem/version)$" "$work/out"
result $? "--version names the module's version"
[ $failed = 0 ]
