/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* SIGHUP: the user has changed the configuration. Only the main thread calls these. */
#ifndef LODIC_LIB_SERVICE_SUCCESSION_REREAD_H
#define LODIC_LIB_SERVICE_SUCCESSION_REREAD_H

#include "lib/service/base/base.h"

struct service;
struct service_events;

struct reread {
	const struct service_events *events;
	struct base *base;
	struct service *of; /* which gets the size that was read */

	bool runs;       /* a worker reads the configuration */
	bool runs_again; /* and must do so once more after that */
	u64 bytes;       /* the size that it asks for; 0: none */
};

/* Lets a worker read it. */
void reread_begin(struct reread *r);
/* Does a size wait? */
bool reread_is_due(const struct reread *r);
/* Takes over all that old, of another arena, knows. */
void reread_take_over(struct reread *r, const struct reread *old);
/* The main loop calls it now and then: a size that has waited for another resize. */
void reread_tick(struct reread *r);

#endif
