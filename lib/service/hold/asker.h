/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What holds know about a client, and a client's wait for a range. */
#ifndef LODIC_LIB_SERVICE_HOLD_ASKER_H
#define LODIC_LIB_SERVICE_HOLD_ASKER_H

#include "host/host.h"

struct client;
struct held_range;

/* A connection that waits until a range is settled. */
struct hold_waiter {
	struct hold_waiter *next, **at; /* at: NULL: it does not wait */
	struct held_range *range;       /* that it waits for; NULL: it is settled */
	struct client *client;
	int error; /* once it is settled */
};

/* What holds know about a client; it lies in struct client, zeroed at first. */
struct hold_asker {
	struct held_range *first; /* of those that are being read for it */
	u32 nr;
	struct hold_waiter waiter;
};

#endif
