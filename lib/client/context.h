/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A context: one thread's seat in the current segment, and its move to the next one. */
#ifndef LODIC_LIB_CLIENT_CONTEXT_H
#define LODIC_LIB_CLIENT_CONTEXT_H

#include "lib/client/attach.h"
#include "lib/client/seat.h"

struct lodic_context {
	struct seat *seat;    /* never NULL; &no_seat when there is none */
	struct seat *retired; /* earlier seats that still have pins */
	struct lodic *lodic;
	struct retry retry;
	u64 past[CONTEXT_NR_COUNTERS]; /* counts of earlier seats, and without a seat */
};

/* Gets the context a new seat, if its old one is dead and it is time to try. Its owner
 * thread alone may call this. It never waits for lodic.lock. */
void context_reseat(struct lodic_context *context);

#endif
