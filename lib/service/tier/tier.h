/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Two tiers of memory in one arena: the frames below a number are fast, the others slow
 * (ADR-0031). Readers find blocks by their frames, and know nothing of tiers. Only the main
 * thread comes here.
 */
#ifndef LODIC_LIB_SERVICE_TIER_TIER_H
#define LODIC_LIB_SERVICE_TIER_TIER_H

#include "lib/service/base/base.h"

struct look_tier;
struct tiers;

/* Where a frame lies. Without tiers all are in the first. */
enum tier { TIER_FAST, TIER_SLOW, NR_TIERS };

/* Whether a glob or a user says where a file's new blocks go. */
enum tier_sayer { TIER_SAID_BY_NOBODY, TIER_SAID_BY_GLOB, TIER_SAID_BY_USER };

/* Parts the frames of memory.shape, before memory is made. -EINVAL: the fast tier would be all. */
int tier_shape(struct tiers *s, const char **ret_why);
/* How much of a cache of another size is fast. */
u64 tier_fast_of(const struct service_sizes *sizes, u64 cache_bytes);
/* Where there are two nodes of memory, asks for each tier's part of the frames' memory at its
 * own. It comes before the first page. */
void tier_bind(struct tiers *s, void *data);
/* Says once what tier_bind() has done. */
void tier_say(const struct tiers *s);

/* All frames are free. -ENOMEM. */
int tier_init(struct tiers *s);
void tier_fini(struct tiers *s);

enum tier tier_of(const struct tiers *s, u32 frame);

/* How many frames are free, in both tiers; and set aside by moves. */
u32 tier_nr_free(const struct tiers *s);
u32 tier_nr_aside(const struct tiers *s);
/* What a look is told of the tier: its node, its frames and what moves have done. */
void tier_look(const struct tiers *s, enum tier tier, struct look_tier *ret);
/* The node where this tier's memory is asked for; -1: anywhere. */
int tier_node(const struct tiers *s, enum tier tier);
/* Are there two tiers? */
bool tier_are_two(const struct tiers *s);
/* Does a policy decide? */
bool tier_has_policy(const struct tiers *s);

/* frame is nobody's now. */
void tier_push(struct tiers *s, u32 frame);
/* A free frame, of that tier if it has one; tiers.nr_free is not 0. */
u32 tier_pop(struct tiers *s, enum tier wanted);
/* A free frame of that tier alone; FRAME_NONE: it has none. */
u32 tier_pop_exact(struct tiers *s, enum tier tier);
/* A free frame of that tier, set aside for a move; FRAME_NONE: it has none, which counts. The next
 * three tell what becomes of it. */
u32 tier_set_aside(struct tiers *s, enum tier to);
/* The move has not begun: target is free. */
void tier_put_back(struct tiers *s, u32 target);
/* The move begins; and it ends. If the block has not moved, target is free. */
void tier_move_begun(struct tiers *s, u32 target);
void tier_move_ended(struct tiers *s, u32 target, bool moved);
/* The i-th of all free frames, in no order. */
u32 tier_pop_nth(struct tiers *s, u32 i);

/* Where blocks of the file at path shall go, as the user's globs say; TIER_FAST if none does. */
enum tier tier_wanted(const struct tiers *s, const char *path, bool *ret_said);
/* Do they ask for a copy of its holds on each node? */
bool tier_replicates(const struct tiers *s, const char *path);

#endif
