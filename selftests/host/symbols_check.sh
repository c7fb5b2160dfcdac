#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# symbols.txt and runtime_symbols.txt, what is made from them, the headers and the built libraries
# name the same functions.
#
# usage: symbols_check.sh [BUILD]		BUILD is the output directory, build/ by default
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-${BUILD:-$top/build}}
lib=$top/libgpumem
golden=$top/selftests/golden
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
number=0 passed=0 failed=0 skipped=0

# check WHAT FILE...: passes if the two files are equal and not empty.
check()
{
	number=$((number + 1))
	if [ -s "$2" ] && diff "$2" "$3" >"$work/diff" 2>&1; then
		passed=$((passed + 1))
		echo "ok $number - $1"
	else
		failed=$((failed + 1))
		echo "not ok $number - $1"
		[ -s "$2" ] || echo "# nothing to compare"
		sed 's/^/# /' "$work/diff" 2>/dev/null | head -40
	fi
}

skip()
{
	number=$((number + 1)) skipped=$((skipped + 1))
	echo "ok $number - $1 # SKIP $2"
}

# The names with a status, or all of them.
listed()
{
	awk -F '\t' -v status="$1" '!/^#/ && NF && (status == "" || $2 == status) { print $1 }' \
		"$lib/symbols.txt" | sort
}

# The runtime's names of a generation with a status, or all of them.
runtime()
{
	awk -F '\t' -v generation="$1" -v status="${2:-}" '!/^#/ && NF &&
		index("," $3 ",", "," generation ",") && (status == "" || $2 == status) { print $1 }' \
		"$lib/runtime_symbols.txt" | sort
}

echo "TAP version 13"

listed "" >"$work/listed"
sort -u "$work/listed" >"$work/unique"
check "symbols.txt lists each name once" "$work/listed" "$work/unique"

awk '!/^#/ && NF { print $1 }' "$lib/runtime_symbols.txt" | sort >"$work/listed"
sort -u "$work/listed" >"$work/rt-unique"
check "runtime_symbols.txt lists each name once" "$work/listed" "$work/rt-unique"

# Made files.
echo "in step" >"$work/want"
{ "$lib/mkmap" --check && echo "in step"; } >"$work/have" 2>&1
check "maps and tables match symbols.txt and runtime_symbols.txt" "$work/want" "$work/have"

# What the headers declare, legacy forms included.
printf '#include <cuda.h>\n#include <cudaGL.h>\n#include <cudaProfiler.h>\n#include <gpumem.h>\n' |
	${CC:-gcc} -E -P -D__CUDA_API_VERSION_INTERNAL -I"$lib/include" -x c - |
	tr ';' '\n' | grep -oE '\<(cu[A-Z]|gpumem_)[A-Za-z0-9_]* ?\(' | tr -d '( ' | sort -u >"$work/declared"
check "symbols.txt lists what the headers declare" "$work/declared" "$work/unique"

# The runtime's: what is implemented in generation 13, except what nvcc's code calls and what only
# programs of generation 12 do.
printf '#include <cuda_runtime.h>\n#include <cuda_profiler_api.h>\n' |
	${CC:-gcc} -E -P -I"$lib/include" -x c - | tr ';' '\n' |
	grep -oE '\<cuda[A-Z][A-Za-z0-9_]* ?\(' | tr -d '( ' | sort -u >"$work/declared"
runtime 13 first | grep -v -e '^__' -e '^cudaGetDeviceProperties_v2$' >"$work/first"
check "runtime_symbols.txt has status first for what the header declares" "$work/declared" \
	"$work/first"

# What known programs ask for.
for generation in 12 13; do
	grep -v '^#' "$golden/runtime_names.txt" | sort >"$work/want"
	runtime $generation first | comm -12 - "$work/want" >"$work/have"
	check "generation $generation implements what known programs ask for" "$work/want" "$work/have"
done
echo "in step" >"$work/want"

# cuGetProcAddress as the real driver answers.
awk -F '[(), ]+' '/^PROC_/ { gsub(/"/, ""); t = $5 == "0" ? "-" : $5; print $2 "\t" $3 "\t" $4 "\t" t }' \
	"$lib/proc_table.h" | sort >"$work/table"
grep -v '^#' "$golden/proc_versions.tsv" | sort >"$work/recorded"
check "proc_table.h gives the recorded symbols" "$work/recorded" "$work/table"

# Every symbol of the table is declared with its own name.
{
	printf '#include <cuda.h>\n#include <cudaGL.h>\n#include <cudaProfiler.h>\n'
	printf '#define PROC_FIRST(n, v, s, t) { n, v, (void *)s, (void *)t },\n'
	printf '#define PROC_LATER(n, v, s, t) PROC_FIRST(n, v, s, t)\n'
	printf 'const struct { const char *n; int v; void *s, *t; } table[] = {\n'
	printf '#include "proc_table.h"\n};\n'
} >"$work/table.c"
{
	${CC:-gcc} -std=gnu11 -Wall -Wextra -Werror -D__CUDA_API_VERSION_INTERNAL -I"$lib/include" \
		-I"$lib" -fsyntax-only "$work/table.c" && echo "in step"
} >"$work/have" 2>&1
check "proc_table.h compiles with the headers" "$work/want" "$work/have"

# What the libraries export: functions that are there or say that they are not, and nothing else.
exported()
{
	nm -D --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort
}

{ listed first; listed absent; } | sort | tee "$work/driver" | grep '^cu' >"$work/public-cuda"
runtime 12 >"$work/public-12"
runtime 13 >"$work/public-13"
sort "$work/driver" "$work/public-13" >"$work/public"
for pair in lib/libgpumem.so.1:public compat/libcuda.so.1:public-cuda \
		compat/libcudart.so.12:public-12 compat/libcudart.so.13:public-13; do
	file=$build/${pair%:*}
	if [ -e "$file" ]; then
		exported "$file" >"$work/exported"
		check "$(basename "$file") exports the functions with status first or absent" \
			"$work/${pair#*:}" "$work/exported"
	else
		skip "exports of $(basename "$file")" "$file is not built"
	fi
done

# The management library.
grep -oE '\<nvml[A-Z][A-Za-z0-9_]*\(' "$lib/include/nvml.h" | tr -d '(' | sort -u >"$work/nvml"
grep -oE '\<nvml[A-Z][A-Za-z0-9_]*' "$lib/nvml/nvml.map" | sort >"$work/nvml-map"
check "nvml.map lists what nvml.h declares" "$work/nvml" "$work/nvml-map"
file=$build/compat/libnvidia-ml.so.1
if [ -e "$file" ]; then
	exported "$file" >"$work/exported"
	check "libnvidia-ml.so.1 exports the same" "$work/nvml" "$work/exported"
else
	skip "exports of libnvidia-ml.so.1" "$file is not built"
fi
# Programs ask for the runtime's functions in the version that is called like the library.
for name in libcudart.so.12 libcudart.so.13; do
	file=$build/compat/$name
	if [ -e "$file" ]; then
		nm -D --defined-only "$file" | awk '$2 != "A" { sub(/.*@/, "", $3); print $3 }' | sort -u \
			>"$work/have"
		{ echo "$name"; readelf -d "$file" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p'; } | sort -u |
			diff - "$work/have" >/dev/null && echo "in step" >"$work/have"
		check "$name has that soname and that version of every function" "$work/want" "$work/have"
	else
		skip "version of $name" "$file is not built"
	fi
done

# "absent" is what cu_absent.c lists, and nothing else.
listed absent >"$work/absent"
sed -n '/^#define ABSENT(/,/^$/p' "$lib/cu_absent.c" | grep -oE '\<[PDZ]\([A-Za-z0-9_]+\)' |
	sed -E 's/^P\((.*)\)/\1/; s/^D\((.*)\)/\1\n\1_ptds/; s/^Z\((.*)\)/\1\n\1_ptsz/' |
	sort >"$work/weak"
check "cu_absent.c lists the functions with status absent" "$work/absent" "$work/weak"

echo "1..$number"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
