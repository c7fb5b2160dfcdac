#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Check that programs build as with CUDA's toolkit: install into a temporary directory, then compile and link
# clients/*.c and clients/*.cc with -I and -l, with pkg-config and with CMake.  The same programs must build
# with NVIDIA's headers and libraries, where they are installed.
#
# usage: clients_build.sh [BUILD]	BUILD is the output directory, build/ by default
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-${GPUMEM_BUILD:-${BUILD:-$top/build}}}" && pwd) || exit 1
clients=$top/selftests/host/clients
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$top/selftests/common/verdict.sh"
details=$work/log
root=$work/root

echo "TAP version 13"
make --no-print-directory -C "$top" O="$build" BUILT=1 DESTDIR="$root" PREFIX=/usr/local \
	LIBDIR=/usr/local/lib INCLUDEDIR=/usr/local/include install >"$work/log" 2>&1
verdict $? "installation into a directory"
lib=$root/usr/local/lib
version=$(printf '#include <cuda.h>\nCUDA_VERSION\n' | ${CC:-gcc} -E -P -I"$root/usr/local/include/gpumem" - |
	awk 'END { print int($1 / 1000) "." int($1 % 1000 / 10) }')

# every COMPILER PATTERN FLAGS LIBS: build each program that PATTERN matches.
every()
{
	: >"$work/log"
	status=0
	for source in "$clients"/$2; do
		# shellcheck disable=SC2086 # flags are words
		$1 -Wall -Wextra -Werror $3 "$source" -o "$work/prog" $4 >>"$work/log" 2>&1 || {
			status=1
			echo "$source does not build" >>"$work/log"
		}
	done
	return $status
}

# languages WHAT FLAGS LIBS COMPILERS: build the programs with each compiler that is installed.
languages()
{
	for compiler in $4; do
		case $compiler in
		*++) pattern="*.cc" mode=-std=c++11 ;;
		*) pattern="*.c" mode=-std=c11 ;;
		esac
		if command -v "$compiler" >/dev/null; then
			every "$compiler" "$pattern" "$mode $2" "$3"
			verdict $? "$compiler builds clients/$pattern $1"
		else
			skip "$compiler builds clients/$pattern $1" "no $compiler"
		fi
	done
}

languages "with -I and -l" "-I$root/usr/local/include/gpumem" "-L$lib/gpumem -lcuda -lcudart" \
	"gcc g++ clang clang++"

languages "with the static runtime's name" "-I$root/usr/local/include/gpumem" \
	"-L$lib/gpumem -lcuda -lcudart_static" "gcc"
languages "with the static runtime's path" "-I$root/usr/local/include/gpumem" \
	"$lib/gpumem/libcudart_static.a $lib/gpumem/libcuda.so" "gcc"

if command -v pkg-config >/dev/null; then
	export PKG_CONFIG_PATH="$lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$root"
	languages "with pkg-config" "$(pkg-config --cflags cuda cudart)" "$(pkg-config --libs cuda cudart)" \
		"gcc g++"
	[ "$(pkg-config --modversion cuda)" = "$version" ] &&
		[ "$(pkg-config --modversion cudart)" = "$version" ]
	verdict $? "pkg-config reports CUDA's version"
	unset PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR
else
	skip "pkg-config" "no pkg-config"
fi

# config PROJECT ARGUMENT...: configure a project of clients/ afresh.
config()
{
	project=$1
	shift
	rm -rf "${work:?}/$project"
	cmake -S "$clients/$project" -B "$work/$project" -DCMAKE_FIND_PACKAGE_PREFER_CONFIG=ON \
		-DCUDAToolkit_DIR="$lib/gpumem/cmake" "$@" >"$work/log" 2>&1
}

# refused ASKED WORDS: gpumem is not found if this is asked for, and CMake says why.
refused()
{
	config cmake_refused -DASKED="$1" && grep -qx -e '-- found: \(0\|FALSE\)' "$work/log" &&
		tr -s ' \n' '  ' <"$work/log" | grep -qF "$2"
	verdict $? "CMake does not find gpumem for a project that asks for $1"
}

if command -v cmake >/dev/null; then
	{
		cmake -S "$clients" -B "$work/cmake" -DCMAKE_FIND_PACKAGE_PREFER_CONFIG=ON \
			-DCUDAToolkit_DIR="$lib/gpumem/cmake" && cmake --build "$work/cmake"
	} >"$work/log" 2>&1
	verdict $? "CMake finds CUDAToolkit, and builds clients/"
	grep -q "CUDAToolkit_VERSION $version\.0\$" "$work/log" &&
		readelf -d "$work/cmake/both_apis" | grep -q 'NEEDED.*libcuda\.so\.1'
	verdict $? "CMake reports CUDA's version, and links libcuda.so.1"

	config cmake_variables && cmake --build "$work/cmake_variables" >>"$work/log" 2>&1
	verdict $? "a project that reads CMake's variables builds"
	prefix=$(realpath "$root")/usr/local
	cat >"$work/want" <<-END
		-- FOUND=1
		-- VERSION=$version.0
		-- VERSION_MAJOR=${version%.*}
		-- VERSION_MINOR=${version#*.}
		-- VERSION_PATCH=0
		-- BIN_DIR=$prefix/bin
		-- INCLUDE_DIRS=$prefix/include/gpumem
		-- LIBRARY_DIR=$prefix/lib/gpumem
		-- LIBRARY_ROOT=$prefix
		-- TARGET_DIR=$prefix
		-- NVCC_EXECUTABLE=
		-- cudart_FOUND=TRUE
		-- cuda_driver_FOUND=TRUE
		-- nvml_FOUND=TRUE
		-- nvrtc_FOUND=FALSE
	END
	grep -e '^-- [A-Za-z_]*=' "$work/log" | diff "$work/want" - >"$work/diff" 2>&1
	status=$?
	details=$work/diff
	verdict $status "the variables of the CUDA toolkit are those of the installation"
	# shellcheck disable=SC2034 # verdict prints it
	details=$work/log
	mv "$root/usr/local/bin/gpumem" "$work" && ! config cmake_variables && grep -qx -e '-- BIN_DIR=' "$work/log"
	verdict $? "without the command there is no folder of programs"
	mv "$work/gpumem" "$root/usr/local/bin"

	for asked in 99.0 "$version.1" "$((${version%.*} + 1))" "12.0;EXACT" "11.0...12.9" \
			"12.0...<$version.0"; do
		refused "$asked" "not accepted"
	done
	refused "13.0;COMPONENTS;cudart;nvrtc;cublas" "does not have these components: nvrtc, cublas"
	for asked in "$version" "$version;EXACT" "11.0...$version" "12.0;COMPONENTS;cudart;OPTIONAL_COMPONENTS;nvrtc"; do
		config cmake_refused -DASKED="$asked" && grep -qx -e '-- found: 1' "$work/log"
		verdict $? "CMake finds gpumem for a project that asks for $asked"
	done
	! config cmake_refused -DASKED=99.0 -DPLAIN=ON && grep -q 'CMake Error' "$work/log" &&
		! grep -q 'found: 1' "$work/log"
	verdict $? "a project that requires CUDA 99.0 is not configured"
else
	skip "CMake" "no cmake"
fi

# The programs are ones that NVIDIA's toolkit builds.
cuda=${CUDA_HOME:-/usr/local/cuda}
if [ -e "$cuda/include/cuda_runtime.h" ] && [ -e "$cuda/lib64/stubs/libcuda.so" ]; then
	languages "with NVIDIA's toolkit" "-isystem $cuda/include" \
		"-L$cuda/lib64/stubs -L$cuda/lib64 -lcuda -lcudart" "gcc g++"
else
	skip "NVIDIA's toolkit" "not installed"
fi
# nvcc links the static runtime, and searches the folders of -L before its own.
if [ -x "$cuda/bin/nvcc" ]; then
	"$cuda/bin/nvcc" -x cu "$clients/async.cc" -o "$work/nvcc" -L"$lib/gpumem" -lcuda >"$work/log" 2>&1 &&
		readelf -d "$work/nvcc" | grep -q 'NEEDED.*libcudart\.so\.13'
	verdict $? "nvcc links gpumem's runtime in place of its static one"
else
	skip "nvcc" "not installed"
fi

finish
