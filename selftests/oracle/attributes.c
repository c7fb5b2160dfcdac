// SPDX-License-Identifier: GPL-2.0
/*
 * Print a CUDA driver's values of the attributes of its first device.
 *
 *	attributes LIST [LIBRARY]
 *
 * LIST has lines "number<TAB>name..." and '#' lines; for each the program prints
 * "dev.attributes.NAME<TAB>value", or "error:N" as the value.  selftests/golden/h200-580 has the
 * list with NVIDIA's answers.  The library is loaded by name, libcuda.so.1 unless told otherwise.
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	int (*init)(unsigned int flags), (*attribute)(int *value, int number, int device);
	FILE *list = argc > 1 ? fopen(argv[1], "re") : NULL;
	char line[256], name[128];
	int number, value, error;
	void *lib;

	if (!list) {
		fprintf(stderr, "usage: attributes LIST [LIBRARY]\n");
		return 2;
	}
	lib = dlopen(argc > 2 ? argv[2] : "libcuda.so.1", RTLD_NOW);
	if (!lib) {
		fprintf(stderr, "attributes: %s\n", dlerror());
		return 1;
	}
	init = (int (*)(unsigned int))dlsym(lib, "cuInit");
	attribute = (int (*)(int *, int, int))dlsym(lib, "cuDeviceGetAttribute");
	if (!init || !attribute) {
		fprintf(stderr, "attributes: the library lacks the functions\n");
		return 1;
	}
	error = init(0);
	if (error) {
		fprintf(stderr, "attributes: cuInit() returned %d\n", error);
		return 1;
	}
	while (fgets(line, sizeof(line), list)) {
		if (sscanf(line, "%d\t%127s", &number, name) != 2)
			continue;
		error = attribute(&value, number, 0);
		if (error)
			printf("dev.attributes.%s\terror:%d\n", name, error);
		else
			printf("dev.attributes.%s\t%d\n", name, value);
	}
	return 0;
}
