#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Check that symbols.txt and runtime_symbols.txt, the files made from them, the headers and the
# built libraries name the same functions.
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
. "$(dirname "$0")/../common/verdict.sh"
details=$work/diff

# check WHAT FILE...: passes if the two files are equal and not empty.
check()
{
	{ [ -s "$2" ] || echo "nothing to compare"; diff "$2" "$3"; } >"$work/diff" 2>&1
	[ ! -s "$work/diff" ]
	verdict $? "$1"
}

# The names with a status, or all of them.
listed()
{
	awk -F '\t' -v status="$1" '!/^#/ && NF && (status == "" || $2 == status) { print $1 }' \
		"$lib/abi/symbols.txt" | sort
}

# The runtime's names of a generation with a status, or all of them.
runtime()
{
	awk -F '\t' -v generation="$1" -v status="${2:-}" '!/^#/ && NF &&
		index("," $3 ",", "," generation ",") && (status == "" || $2 == status) { print $1 }' \
		"$lib/abi/runtime_symbols.txt" | sort
}

echo "TAP version 13"

listed "" >"$work/listed"
sort -u "$work/listed" >"$work/unique"
check "symbols.txt lists each name once" "$work/listed" "$work/unique"

awk '!/^#/ && NF { print $1 }' "$lib/abi/runtime_symbols.txt" | sort >"$work/listed"
sort -u "$work/listed" >"$work/rt-unique"
check "runtime_symbols.txt lists each name once" "$work/listed" "$work/rt-unique"

# The files that mkmap and mktypedefs make are up to date.
echo "in step" >"$work/want"
{ "$lib/abi/mkmap" --check && "$lib/abi/mktypedefs" --check && echo "in step"; } >"$work/have" 2>&1
check "maps and tables match symbols.txt and runtime_symbols.txt" "$work/want" "$work/have"

# The functions that the headers declare, legacy forms included.
printf '#include <cuda.h>\n#include <cudaGL.h>\n#include <cudaProfiler.h>\n#include <gpumem.h>\n' |
	${CC:-gcc} -E -P -D__CUDA_API_VERSION_INTERNAL -I"$lib/include" -x c - |
	tr ';' '\n' | grep -oE '\<(cu[A-Z]|gpumem_)[A-Za-z0-9_]* ?\(' | tr -d '( ' | sort -u >"$work/declared"
comm -12 "$work/declared" "$work/unique" >"$work/both"
check "symbols.txt lists what the headers declare" "$work/declared" "$work/both"
{ listed first; listed later; } | sort >"$work/present"
comm -12 "$work/declared" "$work/present" >"$work/both"
check "the headers declare what symbols.txt lists as there" "$work/present" "$work/both"

# The runtime's: what is implemented in generation 13, except what nvcc's code calls and what only
# programs of generation 12 do.
printf '#include <cuda_runtime.h>\n#include <cuda_profiler_api.h>\n' |
	${CC:-gcc} -E -P -I"$lib/include" -x c - | tr ';' '\n' |
	grep -oE '\<cuda[A-Z][A-Za-z0-9_]* ?\(' | tr -d '( ' | sort -u >"$work/declared"
runtime 13 first | grep -v -e '^__' -e '^cudaGetDeviceProperties_v2$' >"$work/first"
check "runtime_symbols.txt has status first for what the header declares" "$work/declared" \
	"$work/first"

# A function that only one API lacks: a program gets an answer from one, and cudaErrorNotSupported from the other.
listed first | sed -E 's/_pt[ds][sz]$//; s/_v[0-9]+$//; s/^cu/cuda/' | sort -u >"$work/driver"
{ runtime 12 absent; runtime 13 absent; } | sed -E 's/_pt[ds][sz]$//; s/_v[0-9]+$//' | sort -u |
	comm -12 - "$work/driver" >"$work/have"
echo "none" >"$work/want"
[ -s "$work/have" ] || echo "none" >"$work/have"
check "the runtime API has each function that its driver API has" "$work/want" "$work/have"

# The functions that known programs look up.
for generation in 12 13; do
	grep -v '^#' "$golden/runtime_names.txt" | sort >"$work/want"
	runtime $generation first | comm -12 - "$work/want" >"$work/have"
	check "generation $generation implements what known programs ask for" "$work/want" "$work/have"
done
echo "in step" >"$work/want"

# cuGetProcAddress as the real driver answers, for the names that it was asked for. What is newer than
# that driver is as documented.
grep -hv '^#' "$golden/proc_versions.tsv" "$golden/documented-13.3/proc_versions.tsv" | sort >"$work/recorded"
awk -F '[(), ]+' 'NR == FNR { sub(/\t.*/, ""); asked[$0]; next }
	/^PROC_/ { gsub(/"/, ""); t = $5 == "0" ? "-" : $5
		if ($2 in asked || $1 != "PROC_ABSENT")
			print $2 "\t" $3 "\t" $4 "\t" t }' \
	"$work/recorded" "$lib/abi/proc_table.h" | sort >"$work/table"
check "proc_table.h gives the recorded and the documented symbols" "$work/recorded" "$work/table"

# The headers declare every function that proc_table.h names.
{
	printf '#include <cuda.h>\n#include <cudaGL.h>\n#include <cudaProfiler.h>\n'
	printf '#define PROC_FIRST(n, v, s, t) { n, v, (void *)s, (void *)t },\n'
	printf '#define PROC_LATER(n, v, s, t) PROC_FIRST(n, v, s, t)\n'
	printf '#define PROC_ABSENT(n, v, s, t) { n, v, 0, 0 },\n'
	printf 'const struct { const char *n; int v; void *s, *t; } table[] = {\n'
	printf '#include "abi/proc_table.h"\n};\n'
} >"$work/table.c"
{
	${CC:-gcc} -std=gnu11 -Wall -Wextra -Werror -D__CUDA_API_VERSION_INTERNAL -I"$lib/include" \
		-I"$lib" -fsyntax-only "$work/table.c" && echo "in step"
} >"$work/have" 2>&1
check "proc_table.h compiles with the headers" "$work/want" "$work/have"

# The symbols that the libraries export: functions that are implemented or report that they are not,
# and nothing else.
exported()
{
	nm -D --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort
}

# The names that a driver of CUDA 12.9 has.
listed_12()
{
	awk -F '\t' '!/^#/ && NF && $2 != "later" && ($3 == "-" || $3 <= 12090) { print $1 }' \
		"$lib/abi/symbols.txt" | sort
}

awk '!/^#/ && NF { print $1 }' "$lib/nvml/symbols.txt" | sort >"$work/nvml"
{ listed first; listed absent; } | sort | tee "$work/driver" | grep '^cu' >"$work/public-cuda"
listed_12 | tee "$work/driver-12" | grep '^cu' >"$work/public-cuda-12"
runtime 12 >"$work/public-12"
runtime 13 >"$work/public-13"
sort "$work/driver" "$work/public-13" >"$work/public"
sort "$work/driver" "$work/nvml" >"$work/state"
sort "$work/driver-12" "$work/nvml" >"$work/state-12"
for pair in lib/libgpumem-driver.so.1:state lib/libgpumem.so.1:public compat/libcuda.so.1:public-cuda \
		compat/libcudart.so.12:public-12 compat/libcudart.so.13:public-13 \
		compat/libnvidia-ml.so.1:nvml compat/cuda12/libgpumem-driver.so.1:state-12 \
		compat/cuda12/libcuda.so.1:public-cuda-12 compat/cuda12/libcudart.so.12:public-12 \
		compat/cuda12/libnvidia-ml.so.1:nvml; do
	file=$build/${pair%:*}
	if [ -e "$file" ]; then
		exported "$file" >"$work/exported"
		check "${pair%:*} exports the functions with status first or absent" \
			"$work/${pair#*:}" "$work/exported"
	else
		skip "exports of ${pair%:*}" "$file is not built"
	fi
done

# The symbols that NVIDIA's libraries export: as recorded, and as installed if there are any.
# names WHAT LIST OURS: all of LIST are in OURS.
names()
{
	comm -12 "$2" "$3" >"$work/both"
	check "$1" "$2" "$work/both"
}

cuda=${CUDA_HOME:-/usr/local/cuda}
for pair in libcuda.so.1:public-cuda:lib64/stubs/libcuda.so libcudart.so.13:public-13:lib64/libcudart.so.13 \
		libnvidia-ml.so.1:nvml:lib64/stubs/libnvidia-ml.so; do
	name=${pair%%:*} rest=${pair#*:}
	cat "$golden/exports/$name" "$golden/documented-13.3/$name" 2>/dev/null | grep -v '^#' | sort \
		>"$work/recorded"
	names "$name exports the names on record" "$work/recorded" "$work/${rest%:*}"
	file=$cuda/${rest#*:}
	if [ -e "$file" ]; then
		exported "$file" | grep -v -e '^cudbg' -e '^libcudart' -e '^_[a-z]*$' >"$work/theirs"
		names "$name exports the names of $(basename "$file") in the toolkit" "$work/theirs" \
			"$work/${rest%:*}"
	else
		skip "$name and the toolkit's" "CUDA's toolkit is not installed"
	fi
done

# The libraries of CUDA 12 export the functions that CUDA 12's headers declare.
for pair in libcudart.so.12:public-12 libcuda.so.1-12.6:public-cuda-12; do
	grep -v '^#' "$golden/exports/${pair%:*}" | sort >"$work/recorded"
	names "${pair%:*} has the names that CUDA 12.6 declares" "$work/recorded" "$work/${pair#*:}"
done

# The management library.
awk '!/^#/ && $2 == "first" { print $1 }' "$lib/nvml/symbols.txt" | sort >"$work/nvml-first"
grep -oE '\<nvml[A-Z][A-Za-z0-9_]*\(' "$lib/include/nvml.h" | tr -d '(' | sort -u >"$work/nvml-declared"
check "nvml.h declares what nvml/symbols.txt lists as there" "$work/nvml-first" "$work/nvml-declared"

# Programs request the runtime's functions in a version node that has the name of the library.
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

finish
