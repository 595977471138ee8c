/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See stuck.h. */
#include "host/host.h"
#include "lib/service/frame/state.h"
#include "lib/service/frame/stuck.h"

/* A read that takes longer is stuck. Our choice: a busy disk is quicker, and a program that waits
 * (LODIC_WAIT) does not take it for an end. */
#define STUCK_NS (2000 * NS_PER_MS)

bool stuck_is(const struct fill_op *op, u64 now)
{
	return op->busy && now - op->since_ns >= STUCK_NS;
}

u32 stuck_nr(const struct frames *s, bool far)
{
	u64 now = host_now_ns();
	u32 nr = 0;

	for (u32 i = 0; i < FILL_OPS; i++)
		nr += stuck_is(&s->fill.ops[i], now) && (!far || s->fill.ops[i].far);
	return nr;
}

bool stuck_all(const struct frames *s)
{
	return s->fill.nr_busy == 0 || stuck_nr(s, false) == s->fill.nr_busy;
}
