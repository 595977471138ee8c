/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How every command writes a name that a stranger has chosen: of a file, a program, a user. Tables,
 * errors, logs, reports and JSON have the same text. A name may have any byte but NUL. So it could
 * begin a line that looks like ours, move a terminal's cursor, or break what must be UTF-8.
 *
 * A character of UTF-8 that shows as itself stays. Each byte of anything else becomes \xHH, and a
 * backslash becomes two. So different names have different texts, and printf '%b' gives the name
 * back.
 */
#ifndef LODIC_LIB_ESCAPE_H
#define LODIC_LIB_ESCAPE_H

#include <stdbool.h>
#include <stdint.h>

#define ESCAPE_BYTES 17 /* four bytes as \xHH, and an end */

/* How many bytes the character of UTF-8 at s has; 0: there is none. */
static inline unsigned int escape_character(const unsigned char *s, uint32_t *ret)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	unsigned int n = *s < 0x80   ? 1
	                 : *s < 0xc2 ? 0
	                 : *s < 0xe0 ? 2
	                 : *s < 0xf0 ? 3
	                 : *s < 0xf5 ? 4
	                             : 0;
	uint32_t c = n > 1 ? *s & (0x7fu >> n) : *s;

	for (unsigned int i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0; /* also at the end of s */
		c = c << 6 | (s[i] & 0x3f);
	}
	if (n == 0 || c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*ret = c;
	return n;
}

/* Does a terminal take it for an order, or for the end of a line? Some change the direction of what
 * comes after them. */
static inline bool escape_steers(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e ||
	       c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
	       (c >= 0x2066 && c <= 0x2069);
}

/* What stands for the first character of s, which is not empty. ascii: for a terminal that shows
 * nothing else. Returns how many bytes of s that were. */
static inline unsigned int escape_next(const char *s, bool ascii,
                                       char text[ESCAPE_BYTES])
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *from = (const unsigned char *)s;
	uint32_t c = 0;
	unsigned int n = escape_character(from, &c), i;

	if (n > 0 && c != '\\' && !escape_steers(c) && (c < 0x80 || !ascii)) {
		for (i = 0; i < n; i++)
			*text++ = s[i];
		*text = '\0';
		return n;
	}
	if (n == 0)
		n = 1;
	for (i = 0; i < n; i++) {
		*text++ = '\\';
		if (c == '\\') {
			*text++ = '\\';
			continue;
		}
		*text++ = 'x';
		*text++ = digits[from[i] >> 4];
		*text++ = digits[from[i] & 15];
	}
	*text = '\0';
	return n;
}

#endif
