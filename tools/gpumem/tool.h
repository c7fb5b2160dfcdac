/* SPDX-License-Identifier: GPL-2.0 */
/* Functions that the files of the command gpumem share.  After an error they end the program. */
#ifndef GPUMEM_TOOLS_TOOL_H
#define GPUMEM_TOOLS_TOOL_H

#include <stddef.h>

/* gpumem.c */
__attribute__((noreturn, format(printf, 1, 2)))
void die(const char *format, ...);
void format_size(unsigned long long value, char *text, size_t size);
int list(void);

/* live.c; with a @count of 0 the functions do not end */
void list_clients(void);
void list_objects(const char *client);
void top(unsigned long count);
void watch(unsigned long count);
/* Returns 0 if nothing exists and all values agree, 1 if it printed lines. */
int leaks(void);

/* vm.c and cdi.c; argv[0] is the command's name */
__attribute__((noreturn))
void vm(char **argv);
int cdi(int argc, char **argv);

#endif
