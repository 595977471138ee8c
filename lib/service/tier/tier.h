/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Two tiers of memory in one arena: the frames below a number are fast, the others slow
 * (ADR-0031). Readers find blocks by their frames, and know nothing of tiers. Only the main
 * thread comes here.
 */
#ifndef LODIC_LIB_SERVICE_TIER_TIER_H
#define LODIC_LIB_SERVICE_TIER_TIER_H

#include "lib/service/base/state.h"

/* Parts the frames of s->shape, before memory is made. -EINVAL: the fast tier would be all. */
int tier_shape(struct service *s, const char **ret_why);
/* How much of a cache of another size is fast. */
u64 tier_fast_of(const struct service_options *o, u64 cache_bytes);
/* Where there are two nodes of memory, asks for each tier's part of the frames' memory at its
 * own. It comes before the first page. */
void tier_bind(struct service *s, void *data);
/* Says once what tier_bind() has done. */
void tier_say(const struct service *s);

/* All frames are free. -ENOMEM. */
int tier_init(struct service *s);
void tier_fini(struct service *s);

static inline enum tier tier_of(const struct service *s, u32 frame)
{
	return frame < s->tiers.slow_from ? TIER_FAST : TIER_SLOW;
}

const char *tier_name(enum tier tier);

/* frame is nobody's now. */
void tier_push(struct service *s, u32 frame);
/* A free frame, of that tier if it has one; s->tiers.nr_free is not 0. */
u32 tier_pop(struct service *s, enum tier wanted);
/* A free frame of that tier alone; FRAME_NONE: it has none. */
u32 tier_pop_exact(struct service *s, enum tier tier);
/* The i-th of all free frames, in no order. */
u32 tier_pop_nth(struct service *s, u32 i);

/* Where blocks of the file at path shall go, as the user's globs say; TIER_FAST if none does. */
enum tier tier_wanted(const struct service *s, const char *path, bool *ret_said);
/* Do they ask for a copy of its holds on each node? */
bool tier_replicates(const struct service *s, const char *path);

#endif
