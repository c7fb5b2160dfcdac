#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Check that the Debian packages contain what "make install" installs: install as debian/rules does, then compare with
# the lists of the packages.  A program that uses cuFile builds with the installed headers and pkg-config files.
# "make check-packages" builds and installs the packages.
#
# usage: packages_check.sh [BUILD]	BUILD is the output directory, build/ by default
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-${GPUMEM_BUILD:-${BUILD:-$top/build}}}" && pwd) || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$top/selftests/common/verdict.sh"
details=$work/log
root=$work/root
lib=usr/lib/$(${CC:-gcc} -print-multiarch 2>/dev/null || uname -m)

echo "TAP version 13"
make --no-print-directory -C "$top" O="$build" BUILT=1 DESTDIR="$root" PREFIX=/usr LIBDIR="/$lib" \
	ZSHDIR=/usr/share/zsh/vendor-completions \
	INCLUDEDIR=/usr/include install >"$work/log" 2>&1
verdict $? "installation into a directory"
(cd "$root" && find . ! -type d) | sed 's,^\./,,' | sort >"$work/files"

# A line with two words copies a file of the sources; gpumem-dkms consists of sources only.
cat "$top"/debian/libgpumem*.install "$top"/debian/gpumem-tools.install "$top"/debian/not-installed |
	awk '!/^#/ && NF == 1' >"$work/patterns"
# Patterns are globs, and name directories as well.
while read -r pattern; do
	grep -xE "$(sed 's/[.+]/\\&/g; s,\*,[^/]*,g' <<<"$pattern")(/.*)?" "$work/files" >>"$work/packaged" ||
		echo "$pattern"
done <"$work/patterns" >"$work/unused"
sort "$work/packaged" | uniq -c | awk '$1 > 1 { print $2 " is in " $1 " packages" }' >"$work/log"
sort -u "$work/packaged" | comm -13 - "$work/files" | sed 's/$/ is in no package/' >>"$work/log"
[ -s "$work/files" ] && [ ! -s "$work/log" ]
verdict $? "each file that is installed is in one package"

sed 's/$/: nothing is installed there/' "$work/unused" >"$work/log"
[ ! -s "$work/log" ]
verdict $? "each line of the packages' lists names an installed file"

# Files of the sources that packages copy: the first word of a line.
for list in "$top"/debian/*.install "$top"/debian/*.docs "$top"/debian/*.examples "$top"/debian/*.manpages \
		"$top"/debian/*.dkms; do
	while read -r source to; do
		[ -n "$to" ] || [ "${list##*.}" != install ] || continue
		compgen -G "$top/$source" >/dev/null || echo "${list##*/}: there is no $source"
	done <"$list"
done >"$work/log"
[ ! -s "$work/log" ]
verdict $? "each file of the sources that packages copy exists"

# The first column is NAME@NODE.  A pattern, "(symver)NODE", has no name.
awk -F '[ @]' '/^lib/ { library = $1 } library == "libgpumem.so.1" && /^ [A-Za-z_]/ { print $2 }' \
	"$top/debian/libgpumem1.symbols" | sort -u >"$work/symbols"
nm -D --defined-only "$root/$lib/libgpumem.so.1" | awk '{ sub(/@.*/, "", $3); print $3 }' | sort -u |
	comm -3 "$work/symbols" - | sed 's/$/ is not both in libgpumem1.symbols and in the library/' >"$work/log"
[ -s "$work/symbols" ] && [ ! -s "$work/log" ]
verdict $? "the library has the symbols of libgpumem1.symbols, and no others"

for path in "$lib/gpumem/libcufile.so.0" "$lib/gpumem/libcufile.so" "$lib/pkgconfig/cufile.pc" \
		usr/include/gpumem/cufile.h usr/include/gpumem/cufile_stats.h usr/share/man/man3/gpumem_file_counters.3; do
	grep -qx "$path" "$work/files" || echo "$path is not installed"
done >"$work/log"
[ ! -s "$work/log" ]
verdict $? "libcufile is installed with its headers, pkg-config file and manual page"

# The job files install what "make lib tools" and the test machine need.  libdrm is for tests alone.
libraries() { grep -o 'lib[a-z0-9.-]*-dev' | grep -vx libdrm-dev | sort -u; }
grep -E '^(build|demo)=' "$top/tools/install-deps" | libraries >"$work/wanted"
for job in "$top"/examples/ci/*.yml; do
	libraries <"$job" | diff "$work/wanted" - | sed -n "s,^[<>],${job##*/} and tools/install-deps differ: &,p"
done >"$work/log"
[ -s "$work/wanted" ] && [ ! -s "$work/log" ]
verdict $? "the job files install the libraries that the build needs"

# The file has the prefix for which the libraries were built; pkg-config can be told of another one.
if command -v pkg-config >/dev/null; then
	export PKG_CONFIG_PATH="$root/$lib/pkgconfig"
	where="--define-variable=prefix=$root/usr --define-variable=libdir=$root/$lib --define-variable=includedir=$root/usr/include"
	# shellcheck disable=SC2046,SC2086 # flags are words
	${CC:-gcc} -Wall -Wextra -Werror "$top/examples/cufile_copy.c" -o "$work/prog" \
		$(pkg-config $where --cflags --libs cufile) >"$work/log" 2>&1 &&
		readelf -d "$work/prog" | grep -q 'NEEDED.*libcufile\.so\.0'
	verdict $? "pkg-config builds an example that uses cuFile"
else
	skip "pkg-config" "not installed"
fi

# The archive of a release is the same each time, and contains what the packages are made of.
if git -C "$top" rev-parse HEAD >/dev/null 2>&1; then
	# git says more about a checkout without a branch.
	git -c advice.detachedHead=false clone -q --depth 1 \
		"file://$(git -C "$top" rev-parse --show-toplevel)" "$work/tree" >"$work/log" 2>&1 &&
		for n in 1 2; do
			touch "$work/tree/Makefile"
			MAKEFLAGS='' make -s --no-print-directory -C "$work/tree" O="$work/dist$n" dist >/dev/null
		done >>"$work/log" 2>&1
	cmp "$work"/dist[12]/gpumem-*.tar.gz >>"$work/log" 2>&1 &&
		tar -tzf "$work"/dist1/gpumem-*.tar.gz | sed 's,^[^/]*/,,' >"$work/listed" &&
		for file in Makefile Kbuild dkms.conf kmod/Kbuild debian/control tools/packages/rpm/gpumem.spec; do
			[ ! -e "$top/$file" ] || grep -qx "$file" "$work/listed" || echo "$file is missing"
		done >>"$work/log"
	[ -s "$work/listed" ] && [ ! -s "$work/log" ]
	verdict $? "make dist writes the same archive twice"
else
	skip "make dist" "these sources are no repository"
fi
finish
