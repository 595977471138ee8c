// SPDX-License-Identifier: GPL-2.0
#include "data.h"
#include "ktap.h"
#include "random.h"

static void data_fill(u8 *to, size_t bytes, u64 offset)
{
	size_t i;

	for (i = 0; i < bytes; i++) {
		u64 word = random_mix((offset + i) / 8);

		to[i] = word >> (offset + i) % 8 * 8;
	}
}

u8 *data_expected(size_t bytes)
{
	u8 *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
	             -1, 0);

	if (p == MAP_FAILED)
		ktap_bail("no memory for expected data");
	data_fill(p, bytes, 0);
	mprotect(p, bytes, PROT_READ);
	return p;
}

size_t data_check(const u8 *got, const u8 *expect, size_t bytes, bool zeros_ok,
                  size_t *ret_at, size_t *ret_zeros)
{
	size_t i, bad = 0, zeros = 0;

	if (!memcmp(got, expect, bytes)) {
		*ret_zeros = 0;
		return 0;
	}
	for (i = 0; i < bytes; i++) {
		if (got[i] == expect[i])
			continue;
		if (got[i] == 0 && zeros_ok) {
			zeros++;
			continue;
		}
		if (!bad++)
			*ret_at = i;
	}
	*ret_zeros = zeros;
	return bad;
}
