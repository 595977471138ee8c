/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How holds pass from a service to the one that takes its place (resize.h). They are not part of
 * an arena: all of them pass, those that are being read too. */
#ifndef LODIC_LIB_SERVICE_HOLD_HOLD_MOVE_H
#define LODIC_LIB_SERVICE_HOLD_HOLD_MOVE_H

#include "lib/service/hold/asker.h"

struct holding;

/* Gives s the holds of old, before old's arena is marked dead. new_id(): the number in s of old's
 * file; FILE_NONE: it has none, and then its holds become PAST.
 * What was read under old's proof of a file is shared under that of s. This is right as RS1
 * (carry.h) says: old's proof is seen to hold when that of s has begun. */
void hold_move_all(struct holding *old, struct holding *s,
                   u32 (*new_id)(const void *arg, u32 id), const void *arg);
/* Those that are being read for a program, and its wait: the client has another struct now. */
void hold_move_asker(struct hold_asker *from, struct hold_asker *to,
                     struct client *client);
/* Does a range that is being read still need old's descriptors? */
bool hold_move_needs(const struct holding *s, const struct holding *old);

#endif
