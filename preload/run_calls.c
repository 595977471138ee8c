/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See run_calls.h. */
#define _GNU_SOURCE
#include "preload/run_calls.h"

bool calls_begin(struct run_state *s)
{
	host_fetch_add(&s->inside, 1);
	if (likely(!host_load_relaxed(&shim.run.filtered)))
		return true;
	host_fetch_add(&s->inside, -(u64)1);
	return false;
}

void calls_end(struct run_state *s)
{
	host_fetch_add(&s->inside, -(u64)1);
}

bool run_lock(struct run_state *s, struct fds_hold *hold, bool wait)
{
	if (!calls_begin(s))
		return false;
	if (fds_lock(&s->fds, hold, wait)) {
		if (!host_load_relaxed(&s->off) && !host_load_relaxed(&s->leaving))
			return true;
		fds_unlock(&s->fds, hold);
	}
	calls_end(s);
	return false;
}

void run_unlock(struct run_state *s, const struct fds_hold *hold)
{
	fds_unlock(&s->fds, hold);
	calls_end(s);
}
