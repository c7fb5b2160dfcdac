// SPDX-License-Identifier: GPL-2.0
/*
 * Print which symbol cuGetProcAddress_v2 returns for a name, from which CUDA version on.
 *
 * The names of the symbols to look for are read from standard input, one per line.  A name is
 * looked up without its _vN, _ptds and _ptsz suffixes, for every version from 1000 to 13000, with
 * the legacy and with the per-thread default stream flag, and the pointer is matched with the
 * symbols' addresses.  Output: "base<TAB>first version<TAB>legacy symbol<TAB>per-thread symbol",
 * a line wherever the answer changes; symbols that share an address are joined by commas, "-"
 * stands for no answer and "?" for an address without a symbol.  A symbol that the library does
 * not export is printed as "# absent NAME".
 *
 *	cc -O1 proc_versions.c -ldl -o proc_versions && ./proc_versions < names > proc_versions.tsv
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAMES 2048

typedef int (*proc_fn)(const char *name, void **fn, int version, unsigned long long flags,
		       int *status);

static struct {
	char name[96];
	void *address;
} symbols[MAX_NAMES];
static int nr_symbols;

static void strip_suffix(char *name)
{
	char *mark = strstr(name, "_pt");

	if (mark)
		*mark = '\0';
	mark = strrchr(name, '_');
	if (mark && mark[1] == 'v' && mark[2] >= '0' && mark[2] <= '9')
		*mark = '\0';
}

static void print_symbol(char *text, size_t size, const char *base, void *address)
{
	int i;

	text[0] = '\0';
	if (!address) {
		snprintf(text, size, "-");
		return;
	}
	for (i = 0; i < nr_symbols; i++) {
		char other[96];

		if (symbols[i].address != address)
			continue;
		strcpy(other, symbols[i].name);
		strip_suffix(other);
		if (strcmp(other, base))
			continue;
		if (text[0])
			strncat(text, ",", size - strlen(text) - 1);
		strncat(text, symbols[i].name, size - strlen(text) - 1);
	}
	if (!text[0])
		snprintf(text, size, "?");
}

int main(int argc, char **argv)
{
	void *lib = dlopen(argc > 1 ? argv[1] : "libcuda.so.1", RTLD_NOW);
	char line[96], base[96], last_base[MAX_NAMES][96];
	int nr_bases = 0, i, j, version;
	int (*init)(unsigned int flags);
	proc_fn proc;

	if (!lib) {
		fprintf(stderr, "proc_versions: %s\n", dlerror());
		return 1;
	}
	init = (int (*)(unsigned int))dlsym(lib, "cuInit");
	proc = (proc_fn)dlsym(lib, "cuGetProcAddress_v2");
	if (!init || !proc || init(0)) {
		fprintf(stderr, "proc_versions: no usable driver\n");
		return 1;
	}
	while (nr_symbols < MAX_NAMES && fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\r\n")] = '\0';
		if (!line[0])
			continue;
		strcpy(symbols[nr_symbols].name, line);
		symbols[nr_symbols].address = dlsym(lib, line);
		if (!symbols[nr_symbols].address)
			printf("# absent %s\n", line);
		nr_symbols++;
	}
	for (i = 0; i < nr_symbols; i++) {
		char was[256] = "";

		strcpy(base, symbols[i].name);
		strip_suffix(base);
		for (j = 0; j < nr_bases; j++)
			if (!strcmp(last_base[j], base))
				break;
		if (j < nr_bases)
			continue;
		strcpy(last_base[nr_bases++], base);
		for (version = 1000; version <= 13000; version += 10) {
			char now[256], legacy[120], thread[120];
			void *address = NULL;
			int status = 0;

			if (proc(base, &address, version, 1, &status))
				address = NULL;
			print_symbol(legacy, sizeof(legacy), base, address);
			address = NULL;
			if (proc(base, &address, version, 2, &status))
				address = NULL;
			print_symbol(thread, sizeof(thread), base, address);
			snprintf(now, sizeof(now), "%s\t%s", legacy, thread);
			if (strcmp(now, was) && !(was[0] == '\0' && !strcmp(now, "-\t-")))
				printf("%s\t%d\t%s\n", base, version, now);
			strcpy(was, now);
		}
	}
	return 0;
}
