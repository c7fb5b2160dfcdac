#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# A process has one driver, whichever of our libraries it loads: compiles and runs one_driver.c, and
# links a program with -lcuda.
#
# usage: one_driver.sh [BUILD]		BUILD is the output directory, build/ by default
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-${BUILD:-$top/build}}" && pwd) || exit 1
lib=$top/libgpumem
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
number=0 passed=0 failed=0
unset LD_LIBRARY_PATH

# verdict STATUS WHAT
verdict()
{
	number=$((number + 1))
	if [ "$1" = 0 ]; then
		passed=$((passed + 1))
		echo "ok $number - $2"
	else
		failed=$((failed + 1))
		echo "not ok $number - $2"
	fi
}

echo "TAP version 13"
${CC:-gcc} -std=gnu11 -O2 -Wall -Wextra -Werror -D_GNU_SOURCE "$top/selftests/host/one_driver.c" \
	-o "$work/one_driver"
verdict $? "one_driver.c compiles"

names()
{
	grep -v '^#' "$lib/symbols.txt" | awk -F '\t' "\$2 != \"later\" && $1 { print \$1 }"
}

# orders WHAT...: run it and count its cases.
orders()
{
	"$work/one_driver" "$build" "$@" >"$work/out" 2>&1
	awk -v n=$number '/^(not )?ok / { sub(/ok [0-9]+/, "ok " ++n) } !/^[0-9]+ [0-9]+$/' "$work/out"
	counts=$(grep -E '^[0-9]+ [0-9]+$' "$work/out") || {
		verdict 1 "one_driver comes to its end"
		return
	}
	number=$((number + ${counts% *} + ${counts#* }))
	passed=$((passed + ${counts% *})) failed=$((failed + ${counts#* }))
}

names '$1 ~ /^cu/' >"$work/names"
orders "$work/names"
names '$1 ~ /^cu/ && $3 <= 12090' >"$work/names"
orders "$work/names" 12

# A program with -lcuda needs libcuda.so.1 and runs; so does one with -lgpumem.
printf '%s\n' '#include <stdio.h>' 'int cuDriverGetVersion(int *version);' 'int main(void)' \
	'{ int v = 0; cuDriverGetVersion(&v); printf("%d\n", v); return 0; }' >"$work/link.c"
# linked WHAT DIR LIBRARY VERSION
linked()
{
	${CC:-gcc} "$work/link.c" -o "$work/link" -L"$2" -l"$3" -Wl,-rpath,"$2" &&
		readelf -d "$work/link" | grep -q "NEEDED.*\[lib$3\.so\.1\]" &&
		[ "$("$work/link")" = "$4" ]
	verdict $? "$1"
}
linked "a program is linked with -lcuda" "$build/compat" cuda 13000
linked "a program is linked with -lgpumem" "$build/lib" gpumem 13000
linked "a program is linked with -lcuda of CUDA 12.9" "$build/compat/cuda12" cuda 12090

# Programs of CUDA 12 look for these before the names without a version.
for name in cuCtxGetDevice_v2 cuCtxSynchronize_v2; do
	nm -D --defined-only "$build/compat/cuda12/libcuda.so.1" >"$work/have" &&
		grep -q " cuCtxSynchronize$" "$work/have" && ! grep -q " $name$" "$work/have"
	verdict $? "a driver of CUDA 12.9 has no $name"
done

# GPUMEM_DEBUG names what is absent.
printf '%s\n' 'int cudaGraphCreate(void); int main(void) { cudaGraphCreate(); return 0; }' >"$work/debug.c"
for generation in 12 13; do
	${CC:-gcc} "$work/debug.c" -o "$work/debug" "$build/compat/libcudart.so.$generation" \
		-Wl,-rpath,"$build/compat" &&
		GPUMEM_DEBUG=1 "$work/debug" 2>&1 | grep -q '^gpumem: cudaGraphCreate: cudaError' &&
		[ -z "$(GPUMEM_DEBUG=0 "$work/debug" 2>&1)" ]
	verdict $? "GPUMEM_DEBUG=1 names an absent function of libcudart.so.$generation"
done

for file in lib/libgpumem-driver.so.1 compat/cuda12/libgpumem-driver.so.1 compat/libcudart.so.12 \
		compat/libcudart.so.13; do
	readelf -d "$build/$file" | grep -q 'FLAGS_1.*NODELETE'
	verdict $? "$file is never unloaded"
done

echo "1..$number"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
