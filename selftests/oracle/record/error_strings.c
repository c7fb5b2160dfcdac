// SPDX-License-Identifier: GPL-2.0
/*
 * Print the name and the text that a CUDA driver library gives for every result code.
 *
 * The real driver's output is recorded in selftests/golden/error_strings.tsv, and a host
 * test compares libgpumem's tables with it.  The library is loaded by name, so the program needs
 * no CUDA header and runs against any libcuda.so.1:
 *
 *	cc error_strings.c -ldl -o error_strings && ./error_strings [library] > error_strings.tsv
 *
 * Lines are "code<TAB>name<TAB>text" for the codes 0 to 1999 that have a name.  Lines that open
 * with '#' describe what happens for unknown codes.  A NULL output is not tried: the real driver
 * need not survive it.
 */
#include <dlfcn.h>
#include <stdio.h>

typedef int (*text_fn)(int code, const char **text);

static const char unset[] = "unset";

static void probe(const char *what, text_fn fn, int code)
{
	const char *text = unset;
	int rc = fn(code, &text);

	printf("# %s(%d) rc=%d text=%s\n", what, code, rc,
	       !text ? "NULL" : text == unset ? "untouched" : text);
}

int main(int argc, char **argv)
{
	void *lib = dlopen(argc > 1 ? argv[1] : "libcuda.so.1", RTLD_NOW);
	text_fn get_name, get_string;
	int code;

	if (!lib) {
		fprintf(stderr, "error_strings: %s\n", dlerror());
		return 1;
	}
	get_name = (text_fn)dlsym(lib, "cuGetErrorName");
	get_string = (text_fn)dlsym(lib, "cuGetErrorString");
	if (!get_name || !get_string) {
		fprintf(stderr, "error_strings: the library lacks the functions\n");
		return 1;
	}

	for (code = 0; code < 2000; code++) {
		const char *name = NULL, *text = NULL;
		int rc_name = get_name(code, &name);
		int rc_text = get_string(code, &text);

		if (!rc_name || !rc_text)
			printf("%d\t%s\t%s\n", code, name ? name : "NULL", text ? text : "NULL");
	}
	probe("cuGetErrorName", get_name, 12345);
	probe("cuGetErrorString", get_string, 12345);
	probe("cuGetErrorName", get_name, -1);
	probe("cuGetErrorString", get_string, -1);
	return 0;
}
