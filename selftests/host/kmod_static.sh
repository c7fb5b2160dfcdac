#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Check the sources of the module: no warnings with W=1 and sparse, none of checkpatch --strict
# except the listed ones, complete kernel-doc, version checks in one file.  "kmod_static.sh --build"
# does only the first check, for the kernel VM_KERNEL.
set -u
cd "$(dirname "$0")/../.." || exit 1
exceptions=selftests/host/checkpatch-exceptions.tsv
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
pass=0 fail=0
kernel=${VM_KERNEL:-6.12}

result() { # NAME FILE-WITH-COMPLAINTS
	if [ -s "$2" ]; then
		fail=$((fail + 1))
		sed 's/^/# /' "$2"
		echo "not ok $1"
	else
		pass=$((pass + 1))
		echo "ok $1"
	fi
}

kdir=$(selftests/vm/kernel --kdir "$kernel") || exit 1

command -v sparse >/dev/null || echo "sparse is missing: apt-get install sparse" >"$tmp/build"
# Do not inherit the flags of a make that called this script.
unset MAKEFLAGS MFLAGS MAKELEVEL
if ! make O="$tmp/out" KDIR="$kdir" W=1 C=1 CF="-include $PWD/selftests/host/sparse.h" \
	modules >"$tmp/log" 2>&1; then
	tail -20 "$tmp/log" >>"$tmp/build"
fi
grep -E 'warning:|error:|C=1 specified' "$tmp/log" | grep -v 'pahole version differs' >>"$tmp/build"
grep -q 'CHECK  ' "$tmp/log" || echo "sparse did not run" >>"$tmp/build"
result "kmod_static.build_w1_sparse" "$tmp/build"
if [ "${1:-}" = --build ]; then
	echo "$pass passed, $fail failed, 0 skipped"
	exit $fail
fi

tools=$(selftests/vm/kernel --kselftest) || exit 1

perl "$tools/checkpatch.pl" --no-tree --strict --terse -f kmod/*.[ch] uapi/linux/*.h \
	>"$tmp/raw" 2>&1
grep -E '^[^ ]+:[0-9]+: ' "$tmp/raw" >"$tmp/notes"
# If checkpatch checked no file, it finds none of the listed exceptions, and the case fails below.
awk -F '\t' 'NR == FNR { if ($0 !~ /^#/) { file[++n] = $1; text[n] = $2 } next }
	{ ok = 0
	  for (i = 1; i <= n; i++)
		if (index($0, file[i] ":") == 1 && index($0, text[i])) { ok = 1; used[i] = 1 }
	  if (!ok) print }
	END { for (i = 1; i <= n; i++)
		if (!(i in used)) print "exception not needed any more: " file[i] ": " text[i] }
	' "$exceptions" "$tmp/notes" >"$tmp/style"
result "kmod_static.checkpatch" "$tmp/style"

perl "$tools/kernel-doc" -none -Wall kmod/*.[ch] uapi/linux/*.h >"$tmp/doc" 2>&1
result "kmod_static.kernel_doc" "$tmp/doc"

# Every function that other files may call has kernel-doc.  The uapi header documents the ioctls.
perl -0777 -ne 'while (/^(?!static)\w[\w \*]*?\b(gpumem_\w+)\([^;{]*\)\n\{/mg) {
	my ($f, $at) = ($1, $-[0]); my $before = substr($_, 0, $at);
	next if $f =~ /^gpumem_ioctl_/;
	print "$ARGV: $f has no kernel-doc\n" unless $before =~ m{\* \Q$f\E - (?:(?!\*/).)*\*/\n$}s; }' \
	kmod/*.c >"$tmp/undocumented"
result "kmod_static.every_function_documented" "$tmp/undocumented"

grep -nE 'LINUX_VERSION_CODE|KERNEL_VERSION\(' kmod/*.[ch] uapi/linux/*.h |
	grep -v '^kmod/gpumem_compat.h:' >"$tmp/versions"
result "kmod_static.version_checks_in_one_file" "$tmp/versions"

# The includes of headers have no cycle.
sed -n 's/^#include "\(gpumem_.*\)"/\1/p' kmod/*.h | grep -q . || echo "no includes" >"$tmp/circle"
for f in kmod/*.h; do
	sed -n "s/^#include \"\(gpumem_.*\)\"/${f##*/} \1/p" "$f"
done | tsort 2>&1 >/dev/null | sed 's/^tsort: //' >>"$tmp/circle"
result "kmod_static.headers_in_one_direction" "$tmp/circle"

git ls-files 2>/dev/null | grep -E '\.(c|h|S|sh|py)$' | while read -r f; do
	head -3 "$f" | grep -q SPDX || echo "$f"
done >"$tmp/spdx"
result "kmod_static.spdx" "$tmp/spdx"

echo "$pass passed, $fail failed, 0 skipped"
[ $fail -eq 0 ]
