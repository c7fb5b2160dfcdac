// SPDX-License-Identifier: GPL-2.0
/*
 * Text from the kernel and from other processes, for a terminal.
 */
#include <string.h>

#include "printable.h"

char *printable(char *text)
{
	unsigned char *c, *end;
	unsigned int more;

	for (c = (unsigned char *)text; *c; c = end) {
		end = c + 1;
		if (*c < 0x80) {
			if (*c < ' ' || *c == 0x7f)
				*c = '?';
			continue;
		}
		/* A whole character of UTF-8 stays, but for the control characters U+0080 to U+009F. */
		more = *c >= 0xf0 && *c < 0xf5 ? 3 : *c >= 0xe0 ? 2 : 1;
		while (more && (*end & 0xc0) == 0x80) {
			end++;
			more--;
		}
		if (more || *c < 0xc2 || *c > 0xf4 || (*c == 0xc2 && c[1] < 0xa0))
			memset(c, '?', end - c);
	}
	return text;
}
