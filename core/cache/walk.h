/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The walk over all contexts of an arena: is a frame pinned, clear every entry for it,
 * collect its visits. Rules K1 to K3 and O5 are in core/cache/arena.h, whose calls come here
 * for the schemes that count in contexts. Only the service's one thread walks.
 */
#ifndef LODIC_CORE_CACHE_WALK_H
#define LODIC_CORE_CACHE_WALK_H

#include "core/cache/arena.h"

/* Has any context pinned frame? Loads only; stops at the first pin. */
bool walk_query(const struct arena *a, u32 frame);

/* Clears every context's entry for frame whose count is 0. false: one was not 0; some entries
 * may then be cleared, and their owners find the frame again by a soft miss. */
bool walk_clear(struct arena *a, u32 frame);

/* Collects and clears the visits of nr frames from first on: 0 to FRAME_VISITS_MAX each. */
void walk_visits(struct arena *a, u32 first, u32 nr, u8 *ret_visits);

#endif
