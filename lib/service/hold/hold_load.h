/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Reads a range of a file into a memfd, by workers, and seals it. */
#ifndef LODIC_LIB_SERVICE_HOLD_HOLD_LOAD_H
#define LODIC_LIB_SERVICE_HOLD_HOLD_LOAD_H

#include "lib/service/hold/holds.h"

struct hold_load;

/* Loads that have pieces to read; each gets its turn. */
struct hold_turns {
	struct hold_load *first, *last;
};

struct hold_loads {
	struct hold_turns near;    /* of local files */
	struct hold_turns far;     /* others, of which no piece is under way */
	struct hold_turns waiting; /* for a description to be read by (direct.h) */
	u32 nr_pieces, nr_far;     /* under way */
	u64 to_come;   /* bytes of memory that no piece has brought in yet */
	bool stopping; /* no piece is begun any more */
	bool said;     /* the log knows why there are no huge pages */
};

/* For hold_begin(). */
u32 hold_load_nr_pieces(u64 bytes);
/* Begins to read r of f, for which hold_begin() has found room. holds_loaded() is called when it
 * is over.
 * -ENFILE: no descriptor is left. -ENOMEM. -EOPNOTSUPP: no /proc. */
int hold_load_begin(struct service *s, struct hold_loads *all, struct held_range *r,
                    struct held_file *f);
/* Goes on with the loads that have waited for a description. Once a turn. */
void hold_load_turn(struct service *s, struct hold_loads *all);
/* After hold_outdate(): nobody wants it any more, or nobody may have it. It is over as soon as
 * the pieces under way are back. */
void hold_load_cancel(struct service *s, struct hold_load *load);
/* Does it read a file that s holds? A service that is replaced may have gone on. */
bool hold_load_is_of(const struct hold_load *load, const struct service *s);
/* At the end of the service: frees what no worker still uses. */
void hold_load_abandon(struct hold_load *load);

#endif
