/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How people write numbers, sizes and times: the same on command lines and in files. None
 * of this depends on the program's locale. */
#ifndef LODIC_LIB_VALUE_H
#define LODIC_LIB_VALUE_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A number of digits alone, and where it ends. -EINVAL: there is none, or it is too large. */
static inline int value_parse_digits(const char *text, uint64_t *ret,
                                     const char **ret_end)
{
	unsigned long long n;
	char *end;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno)
		return -EINVAL;
	*ret = n;
	*ret_end = end;
	return 0;
}

/* A whole number between least and most. -EINVAL: it is not. */
static inline int value_parse_number(const char *text, uint64_t least, uint64_t most,
                                     uint64_t *ret)
{
	const char *end;
	uint64_t n;

	if (value_parse_digits(text, &n, &end) != 0 || *end || n < least || n > most)
		return -EINVAL;
	*ret = n;
	return 0;
}

/* "256M", "1GiB", "65536" -> bytes. -EINVAL: not a size. -ERANGE: 2^64 bytes or more. */
static inline int value_parse_bytes(const char *text, uint64_t *ret_bytes)
{
	static const char letters[] = "KMGT";
	const char *end, *letter;
	int shift = 0;
	uint64_t n;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	end = text + strspn(text, "0123456789");
	if (*end) {
		letter = strchr(letters, *end & ~0x20);
		if (!letter || !*letter || (end[1] && strcmp(end + 1, "iB") != 0))
			return -EINVAL;
		shift = (int)(letter - letters + 1) * 10;
	}
	if (value_parse_digits(text, &n, &end) != 0 || n > UINT64_MAX >> shift)
		return -ERANGE;
	*ret_bytes = n << shift;
	return 0;
}

/* "1.5" -> 1500. -EINVAL: not a number of seconds, or above 10^9. */
static inline int value_parse_ms(const char *text, uint64_t *ret_ms)
{
	const uint64_t most = 1000000000;
	uint64_t seconds, ms = 0, unit = 100;
	const char *end;

	if (value_parse_digits(text, &seconds, &end) != 0 || seconds > most)
		return -EINVAL;
	if (*end == '.') {
		if (!*++end)
			return -EINVAL;
		for (; *end >= '0' && *end <= '9'; end++, unit /= 10)
			ms += (uint64_t)(*end - '0') * unit;
	}
	if (*end)
		return -EINVAL;
	*ret_ms = seconds * 1000 + ms;
	return 0;
}

#endif
