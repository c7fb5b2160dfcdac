#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Check "gpumem vm": from an installation, as a user without rights who has a cache of their own, and from the build
# directory.  The command's output and exit status arrive, and the command finds devices and libraries.
#
# usage: vm_tool.sh [BUILD]	BUILD is the output directory, build/ by default
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-${GPUMEM_BUILD:-${BUILD:-$top/build}}}" && pwd) || exit 1
work=$(mktemp -d)
trap 'chmod -R u+rwX "$work"; rm -rf "$work"' EXIT
. "$top/selftests/common/verdict.sh"
# shellcheck disable=SC2034 # verdict.sh uses it
details=$work/log
tool=$build/bin/gpumem
unset GPUMEM_SOURCE

# says STATUS WORDS COMMAND...: passes if COMMAND exits with STATUS and its output has WORDS.
says()
{
	local status=$1 words=$2 rc
	shift 2
	"$@" >"$work/log" 2>&1 </dev/null
	rc=$?
	[ $rc = "$status" ] && grep -q -e "$words" "$work/log" && return
	echo "exit status $rc" >>"$work/log"
	return 1
}

echo "TAP version 13"
says 125 "no COMMAND" "$tool" vm --mem 1G && says 125 "7.2, 7.2-cloud, or a directory" "$tool" vm --kernel 5 true &&
	says 125 "devices: 1 to 16" "$tool" vm --devices 17 true &&
	says 125 "mem much: not a size" "$tool" vm --mem much true && says 125 "needs 512M" "$tool" vm --mem 4M true &&
	says 125 "mem : not a size" "$tool" vm --mem "" true &&
	says 125 "vram 1T: not a size" "$tool" vm --vram 1T true && says 125 "unrecognized\|no COMMAND" "$tool" vm --nothing
verdict $? "wrong options: exit status 125"

"$tool" vm --help | grep -o '^  --[a-z0-9]*' | tr -d ' ' | sort >"$work/options"
sed -n 's/^\.It Fl -\([a-z0-9]*\).*/--\1/p' "$top/Documentation/man/gpumem-vm.1" | sort | diff "$work/options" - >"$work/log"
rc=$?
[ -s "$work/options" ] || rc=1
verdict $rc "the manual page has the options of --help"

# The options of the job files and of the documents.
grep -hoE 'bin/gpumem vm .*' "$top"/examples/ci/*.yml "$top"/Documentation/*.rst | sed 's/ -- .*//' |
	grep -oE -e ' --[a-z0-9]+' | tr -d ' ' | sort -u >"$work/used"
comm -13 "$work/options" "$work/used" >"$work/log"
[ -s "$work/used" ] && [ ! -s "$work/log" ]
verdict $? "the job files and the documents use options that exist"

root=$work/root
make --no-print-directory -C "$top" O="$build" BUILT=1 DESTDIR="$root" PREFIX=/usr LIBDIR=/usr/lib \
	INCLUDEDIR=/usr/include install >"$work/log" 2>&1
verdict $? "installation into a directory"
installed=$root/usr/bin/gpumem
libraries=$root/usr/lib

# Another user may have no access to the checkout, but to a copy of the sources as gpumem-dkms has it.
user=()
mkdir "$work/home"
if [ "$(id -u)" = 0 ]; then
	user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
	chown 65534:65534 "$work/home"
fi
user+=(env -i HOME="$work/home" PATH=/usr/bin:/bin LD_LIBRARY_PATH="$libraries")
chmod -R a+rX "$work"
says 125 "$work/none is no kernel directory" "${user[@]}" "$installed" vm --kernel "$work/none" true
verdict $? "a missing kernel is named"

if [ "${NATIVE:-}" ]; then
	skip "guest" "NATIVE=1: no virtual machine"
	finish
	exit
fi

kernel=$("$top/selftests/vm/kernel" --path) || exit 1
mkdir -p "$root/usr/src/gpumem-1" "$work/home/.cache/gpumem"
cp -r "$top"/{Kbuild,Makefile,kmod,uapi} "$root/usr/src/gpumem-1"
# The kernel is not fetched once more.
ln -s "${kernel%/*}" "$work/home/.cache/gpumem/kernels"
[ "$(id -u)" != 0 ] || chown -R -h 65534:65534 "$work/home"
chmod -R a+rX "$root"
cd "$work/home" || exit 1
says 125 "no sources of the module in $work/home" "${user[@]}" "$installed" vm --source "$work/home" true
verdict $? "missing sources are named"
# shellcheck disable=SC2016 # the guest's shell expands them
says 0 "^seen by 0: /dev/gpumem0 below $work/home$" "${user[@]}" "$installed" vm --mem 1G -- \
	sh -c 'echo "seen by $(id -u): $(echo /dev/gpumem*) below $PWD"; touch made'
verdict $? "a user without rights, with an installation and a cache of their own"
[ ! -e "$work/home/made" ] && ls "$work/home/.cache/gpumem/modules"/*/gpumem.ko >"$work/log" 2>&1
verdict $? "the guest's writes are lost; the module stays in the user's cache"

cat >"$work/count.py" <<'END'
import ctypes, os, sys
cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
print("devices: %d, %s" % (count.value, os.environ["OF_THE_CALLER"]))
with open(sys.argv[1] + "/result", "w") as f:
    f.write("kept\n")
sys.exit(7)
END
OF_THE_CALLER="passed on" says 7 "^devices: 2, passed on$" "$tool" vm --mem 1G --devices 2 --vram 64M --cuda \
	--out "$work/out" -- /usr/bin/python3 "$work/count.py" "$work/out" && [ "$(cat "$work/out/result")" = kept ]
verdict $? "the command uses libcuda.so.1, and its exit status and files arrive"

says 124 "time-out after 1 s" "$tool" vm --mem 1G --timeout 1 -- sleep 100
verdict $? "a command that takes too long: exit status 124"
finish
