/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Rules for what the product says: errors, their reasons, and the state of tiers. */
#ifndef LODIC_CHECK_WHOLE_SAID_H
#define LODIC_CHECK_WHOLE_SAID_H

#include "check/whole/world.h"
#include "lib/look.h"

/* lodic_pin()'s result: an error that lodic.h names, with the reason that it names. */
void said_pin(int err);
/* lodic_hold_ready()'s result. */
void said_ready(int ready);
/* A request of an administrator: a service of this version answers as lib/wire.h says. */
void said_look(int err);
/* lodic_file_cached()'s result: it tells of the service's limits, not of the program's. */
void said_cached(int why);
/* The same, where the service holds fewer files than its setting. */
void said_few_files(int why);
/* A record of LOOK_TIERS. */
void said_tier(const struct look_tier *tier);
/* A record of LOOK_TIMES: each time is in its bucket, and in the sum. */
void said_times(const struct look_times *times);
/* A record of LOOK_FILES: one that is not held says why, and no other one does. */
void said_file(const struct look_file *file);
/* What look_resize() and look_room() tell: one that has failed says why, and no other one does. */
void said_resize(const struct look_resize *resize);

#endif
