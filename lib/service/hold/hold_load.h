/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Reads a range of a file into a memfd, by workers, and seals it. */
/* The two call each other: the other half is holds.h. */
#ifndef LODIC_LIB_SERVICE_HOLD_HOLD_LOAD_H
#define LODIC_LIB_SERVICE_HOLD_HOLD_LOAD_H

#include "host/host.h"

struct held_file;
struct held_range;

struct holding;

struct hold_load;
struct hold_loads;

/* For hold_begin(). */
u32 hold_load_nr_pieces(u64 bytes);
/* Begins to read r of f, for which hold_begin() has found room. holds_loaded() is called when it
 * is over.
 * -ENFILE: no descriptor is left. -ENOMEM. -EOPNOTSUPP: no /proc. */
int hold_load_begin(struct holding *s, struct hold_loads *all, struct held_range *r,
                    struct held_file *f);
/* Goes on with the loads that have waited for a description. Once a turn. */
void hold_load_turn(struct holding *s, struct hold_loads *all);
/* After hold_outdate(): nobody wants it any more, or nobody may have it. It is over as soon as
 * the pieces under way are back. */
void hold_load_cancel(struct holding *s, struct hold_load *load);
/* Does it read a file that s holds? A service that is replaced may have gone on. */
bool hold_load_is_of(const struct hold_load *load, const struct holding *s);
/* At the end of the service: frees what no worker still uses. */
void hold_load_abandon(struct hold_load *load);
/* After that: new arenas leave nothing to them any more. */
void hold_load_forget(struct hold_loads *all);

#endif
