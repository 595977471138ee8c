/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* When a dead service or a lost file is tried again: seldom enough to cost nothing. */
#ifndef LODIC_LIB_CLIENT_RETRY_H
#define LODIC_LIB_CLIENT_RETRY_H

#include "lib/client/client.h"

/* The wait after the first failure, and the longest wait. Each wait doubles the last. */
#define RETRY_FIRST_NS 20000000u
#define RETRY_LAST_NS 2000000000u
/* How often a reader looks for a reply that is on its way. */
#define RETRY_LOOK_NS 50000u

/* The owner's lock guards it. Other threads may look at at_ns without that lock. */
struct retry {
	u64 at_ns;
	u64 step_ns;
};

/* May the caller try now? */
static inline bool retry_due(const struct retry *r)
{
	return host_now_ns() >= host_load_relaxed(&r->at_ns);
}

/* The try has failed: the next one is due one wait from now. */
void retry_failed(struct retry *r);
/* The try has succeeded: the next one is due at once. */
void retry_reset(struct retry *r);
/* Nothing was tried: the next one is due at that time. */
static inline void retry_put_off(struct retry *r, u64 at_ns)
{
	host_store_relaxed(&r->at_ns, at_ns);
}

#endif
