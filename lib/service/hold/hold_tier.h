/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Where the memory of a hold lies: on the node of a tier, or on that of the programs that asked.
 *
 * A range goes to the tier of its file's new blocks, or as the policy sees its file's knode. When
 * that changes, the range moves, as soon as nobody has it. A worker moves the pages. They are
 * valid all the time, so a program that asks meanwhile is served.
 *
 * Of a file whose globs say so (options.placing.replicate) each node has a copy. A copy stays
 * where it is.
 */
#ifndef LODIC_LIB_SERVICE_HOLD_HOLD_TIER_H
#define LODIC_LIB_SERVICE_HOLD_HOLD_TIER_H

#include "lib/service/hold/hold_table.h"

struct held_file;

struct holding;

/* Says once that copies were asked for, and that there is one node only. */
void hold_tier_say(const struct holding *s);

/* The node whose copy a program on that CPU gets; 0: f has none for each. */
u32 hold_tier_node(const struct holding *s, const struct held_file *f, u64 cpu);
/* r of f is about to be read into these bytes, of which no page is there. */
void hold_tier_bind(const struct holding *s, struct held_range *r,
                    const struct held_file *f, void *at);
/* r has its memory from now on; or no longer. */
void hold_tier_count(struct holds *h, const struct held_range *r, bool has);

/* Where ranges belong may have changed: the next turns look at all of them. waited: somebody waits
 * for what comes of it. */
void hold_tier_look(struct holding *s, bool waited);
/* One turn of that. It asks the kernel about *probes ranges at most. true: there is more to do at
 * once. */
bool hold_tier_run(struct holding *s, u32 *probes);
/* Does r move now? Then it must not be closed. */
bool hold_tier_moves(const struct holds *h, const struct held_range *r);
/* Does one move, or is a look under way that somebody waits for? */
bool hold_tier_is_busy(const struct holding *s);
/* The service ends: what moves stays half-way. Before worker_stop(). */
void hold_tier_stop(struct holds *h);

#endif
