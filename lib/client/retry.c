/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See retry.h. */
#include "lib/client/retry.h"

void retry_failed(struct retry *r)
{
	r->step_ns = r->step_ns ? r->step_ns * 2 : RETRY_FIRST_NS;
	if (r->step_ns > RETRY_LAST_NS)
		r->step_ns = RETRY_LAST_NS;
	host_store_relaxed(&r->at_ns, host_now_ns() + r->step_ns);
}

void retry_reset(struct retry *r)
{
	r->step_ns = 0;
	host_store_relaxed(&r->at_ns, 0);
}
