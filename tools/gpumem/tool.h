/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of the command gpumem share.  Nothing here returns after an error. */
#ifndef GPUMEM_TOOLS_TOOL_H
#define GPUMEM_TOOLS_TOOL_H

#include <stddef.h>

/* gpumem.c */
__attribute__((noreturn, format(printf, 1, 2)))
void die(const char *format, ...);
void format_size(unsigned long long value, char *text, size_t size);
int list(void);

/* live.c; a count of 0 is no end */
void list_clients(void);
void list_objects(const char *client);
void top(unsigned long count);
void watch(unsigned long count);
/* 0 if there is nothing, 1 if there is and was printed. */
int leaks(void);

#endif
