/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See retry.h. */
#include "lib/client/retry.h"

bool retry_due(struct retry *r)
{
	u64 now = host_now_ns();

	if (now < r->at_ns)
		return false;
	r->step_ns = r->step_ns ? r->step_ns * 2 : RETRY_FIRST_NS;
	if (r->step_ns > RETRY_LAST_NS)
		r->step_ns = RETRY_LAST_NS;
	host_store_relaxed(&r->at_ns, now + r->step_ns);
	return true;
}

void retry_reset(struct retry *r)
{
	r->step_ns = 0;
	host_store_relaxed(&r->at_ns, 0);
}
