/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The numbers behind lodic_stat(). */
#ifndef LODIC_LIB_SERVICE_CLIENT_STAT_H
#define LODIC_LIB_SERVICE_CLIENT_STAT_H

#include "lib/service/base/base.h"
#include "core/cache/arena.h"

struct lodic_stat;
struct clients;

/* To count the pinned frames may take many turns. stat_ask() asks for a count that begins
 * after this call, and returns its number. stat_run() counts some more, in each turn; true:
 * there is more to count now. stat_fini() ends a count that is under way. */
u64 stat_ask(struct clients *s);
bool stat_run(struct clients *s);
void stat_fini(struct clients *s);
bool stat_is_done(const struct clients *s, u64 number);

/* What all contexts have counted, those that are gone too. */
u64 stat_counter(const struct clients *s, enum context_counter counter);
/* Those of old count as gone here. */
void stat_take_over(struct clients *s, const struct clients *old);
/* `pinned` is what the last count found. */
void stat_collect(const struct clients *s, struct lodic_stat *ret_stat);

#endif
