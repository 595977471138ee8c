/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A context: one thread's seat in the current segment, and its move to the next one. */
#ifndef LODIC_LIB_CLIENT_CONTEXT_H
#define LODIC_LIB_CLIENT_CONTEXT_H

#include "lib/client/attach.h"
#include "lib/client/misuse.h"
#include "lib/client/seat.h"
#include "lodic/inline.h"

struct lodic_context {
	/* For inline.h, and first in each layout: [LODIC_INLINE_LAYOUT] is seat, the others
	 * are &no_seat. All of them are in a build that looks for misuse. */
	struct seat *inline_seats[LODIC_INLINE_LAYOUTS];
	struct seat
		*retired;  /* earlier seats that still have pins, or wait to be freed */
	struct seat *seat; /* never NULL; &no_seat when there is none */
	struct lodic *lodic;
	/* Under lodic.lock; others may look at retry.at_ns without. The thread that takes the
	 * service's answer leaves the new seat here, and the owner thread moves to it. */
	struct seat *offered;
	int error;       /* of the last try to get a seat */
	bool asking;     /* for one: the answer is on its way */
	bool reads_only; /* it never pins, and takes no quota from others */
	struct retry retry;
	/* The owner thread's own, for LODIC_WAIT: it may wait long there, without a lock. */
	struct channel waiting;
	u64 waiting_generation;        /* of the service that it leads to */
	u64 past[CONTEXT_NR_COUNTERS]; /* counts of earlier seats, and without a seat */
	struct misuse misuse;
};

/* A context without a seat. -ENOMEM. */
int context_make(struct lodic *lodic, struct lodic_context **ret_context);

/* The context's owner thread alone may call these. */

/* Is the context's seat in the current segment, and does its service live? */
static inline bool context_is_seated(const struct lodic_context *context)
{
	return attach_is_current(context->lodic, context->seat->segment);
}

/* Goes on towards a new seat, if the old one is dead and it is time to try. Never waits. */
void context_reseat(struct lodic_context *context);
/* The same, but waits for the service; lodic.lock is held. 0: the context has a seat, or
 * the service is away. */
int context_reseat_wait(struct lodic_context *context);
/* Gives all seats back; the context pins nothing. lodic.lock is held. Never waits. false: not now,
 * or an answer is on its way. */
bool context_unseat(struct lodic_context *context);
/* Lets go of all seats' memory at once; they are dead then. Any thread may call it, while the owner
 * reads. lodic.lock is held. */
void context_leave(struct lodic_context *context);
/* Frees those earlier seats that have no pins any more. Never waits: those that it cannot
 * free now stay for the next time. */
void context_free_retired(struct lodic_context *context);

#endif
