/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* When a dead service or a lost file is tried again: seldom enough to cost nothing. */
#ifndef LODIC_LIB_CLIENT_RETRY_H
#define LODIC_LIB_CLIENT_RETRY_H

#include "lib/client/client.h"

/* The wait after the first failure, and the longest wait. Each wait doubles the last. */
#define RETRY_FIRST_NS 20000000u
#define RETRY_LAST_NS 2000000000u

/* The owner's lock guards it. Other threads may look at at_ns without that lock. */
struct retry {
	u64 at_ns;
	u64 step_ns;
};

/* May the caller try now? If so, the next try is due one wait later. */
bool retry_due(struct retry *r);
/* The try has succeeded: the next one is due at once. */
void retry_reset(struct retry *r);

#endif
