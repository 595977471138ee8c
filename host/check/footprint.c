/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Which steps meet. Contract: host/check/footprint.h. */
#include "host/check/footprint.h"

void footprint_begin(struct footprint *f, u32 cpu, bool is_drain)
{
	f->everything = false;
	f->is_drain = is_drain;
	f->cpu = (u8)cpu;
	f->empty = 0;
	f->nr = 0;
}

void footprint_add(struct footprint *f, const void *p, size_t n, bool writes)
{
	if (f->nr == FOOTPRINT_RANGES) {
		f->everything = true;
		return;
	}
	f->ranges[f->nr].from = p;
	f->ranges[f->nr].end = (const u8 *)p + n;
	f->ranges[f->nr++].writes = writes;
}

/*
 * A step that empties a buffer does what its drains would have done. It takes along what is
 * stored there before it, but not what is stored after. The same holds for two tasks of one
 * CPU: the one that comes second empties the buffer on arrival.
 *
 * A drain and its own CPU's loads and stores do not meet. The load sees the store in either
 * place, and the buffer is first in, first out.
 */
static bool buffers_meet(const struct footprint *a, const struct footprint *b)
{
	return a->empty >> b->cpu & 1 || b->empty >> a->cpu & 1;
}

bool footprint_meets(const struct footprint *a, const struct footprint *b)
{
	bool own_store = a->cpu == b->cpu && a->is_drain != b->is_drain;
	u32 i, k;

	if (a->everything || b->everything || buffers_meet(a, b))
		return true;
	for (i = 0; i < a->nr; i++)
		for (k = 0; k < b->nr; k++)
			if (a->ranges[i].writes + b->ranges[k].writes > own_store &&
			    a->ranges[i].from < b->ranges[k].end &&
			    b->ranges[k].from < a->ranges[i].end)
				return true;
	return false;
}
