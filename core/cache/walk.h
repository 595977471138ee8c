/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The walk over the contexts of an arena: which of them have pins, and is a frame pinned.
 * Rules K1 to K6 and O5 are in core/cache/arena.h. The walk only loads. Only the service's one
 * thread walks.
 */
#ifndef LODIC_CORE_CACHE_WALK_H
#define LODIC_CORE_CACHE_WALK_H

#include "core/cache/arena.h"

/* Contexts that may have pins, by their places: one may leave meanwhile. */
struct walk_list {
	u32 nr;
	u16 places[ARENA_MAX_CONTEXTS];
};

/* Finds all contexts that have a count in any entry (C8). Cost: a cache line per context. */
void walk_list(const struct arena *a, struct walk_list *ret);

/* Has any context of the list pinned frame? It stops at the first pin. Cost: a set of entries
 * in each. */
bool walk_query(const struct arena *a, const struct walk_list *list, u32 frame);

/* Has any context pinned frame? */
bool walk_query_all(const struct arena *a, u32 frame);

/* How many cache lines walk_query() touches at most. */
u32 walk_lines(const struct arena *a, const struct walk_list *list);

#endif
