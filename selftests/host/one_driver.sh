#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Check that a process has one driver, whichever of gpumem's libraries it loads: compile and run
# one_driver.c, and link a program with -lcuda.
#
# usage: one_driver.sh [BUILD]		BUILD is the output directory, build/ by default
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-${BUILD:-$top/build}}" && pwd) || exit 1
lib=$top/libgpumem
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/../common/verdict.sh"
unset LD_LIBRARY_PATH

echo "TAP version 13"
${CC:-gcc} -std=gnu11 -O2 -Wall -Wextra -Werror -D_GNU_SOURCE "$top/selftests/host/one_driver.c" \
	-o "$work/one_driver"
verdict $? "one_driver.c compiles"

names()
{
	grep -v '^#' "$lib/abi/symbols.txt" | awk -F '\t' "\$2 != \"later\" && $1 { print \$1 }"
}

# orders ARG...: run one_driver with ARG... and count its cases.
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

# A program that is linked with -lcuda or with -lgpumem needs that library and runs.
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
linked "a program is linked with -lcuda" "$build/compat" cuda 13030
linked "a program is linked with -lgpumem" "$build/lib" gpumem 13030
linked "a program is linked with -lcuda of CUDA 12.9" "$build/compat/cuda12" cuda 12090

# Programs of CUDA 12 look up these names before the names without a suffix.
for name in cuCtxGetDevice_v2 cuCtxSynchronize_v2; do
	nm -D --defined-only "$build/compat/cuda12/libcuda.so.1" >"$work/have" &&
		grep -q " cuCtxSynchronize$" "$work/have" && ! grep -q " $name$" "$work/have"
	verdict $? "a driver of CUDA 12.9 has no $name"
done

# GPUMEM_DEBUG=1 prints the names of functions that are not implemented.
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

finish
