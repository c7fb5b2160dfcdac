/* SPDX-License-Identifier: GPL-2.0 */
#ifndef GPUMEM_TOOLS_PRINTABLE_H
#define GPUMEM_TOOLS_PRINTABLE_H

/* Replace control characters in a name by "?": a terminal may obey them.  Returns @text. */
char *printable(char *text);

#endif /* GPUMEM_TOOLS_PRINTABLE_H */
