// SPDX-License-Identifier: GPL-2.0
/*
 * Print the name and the text that a CUDA runtime library gives for every result code.
 *
 * The real runtime's output is recorded in selftests/golden/rt_error_strings.tsv, and a host
 * test compares libgpumem's table with it.  The library is loaded by name, so the program needs no
 * CUDA header and runs against any libcudart.so.N, with or without a driver:
 *
 *	cc rt_error_strings.c -ldl -o rt_error_strings && ./rt_error_strings LIBRARY
 *
 * Lines are "code<TAB>name<TAB>text" for the codes 0 to 19999 that are not answered like 19999.
 * A line that opens with '#' shows the answer for an unknown code.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef const char *(*text_fn)(int code);

int main(int argc, char **argv)
{
	void *lib = dlopen(argc > 1 ? argv[1] : "libcudart.so.13", RTLD_LAZY);
	text_fn get_name, get_string;
	int code;

	if (!lib) {
		fprintf(stderr, "rt_error_strings: %s\n", dlerror());
		return 1;
	}
	get_name = (text_fn)dlsym(lib, "cudaGetErrorName");
	get_string = (text_fn)dlsym(lib, "cudaGetErrorString");
	if (!get_name || !get_string) {
		fprintf(stderr, "rt_error_strings: the library lacks the functions\n");
		return 1;
	}
	for (code = 0; code < 19999; code++)
		if (strcmp(get_name(code), get_name(19999)) ||
		    strcmp(get_string(code), get_string(19999)))
			printf("%d\t%s\t%s\n", code, get_name(code), get_string(code));
	printf("# 19999: %s, %s\n", get_name(19999), get_string(19999));
	printf("# -1: %s, %s\n", get_name(-1), get_string(-1));
	return 0;
}
