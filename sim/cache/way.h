/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Ways of counting pins over one arena. lodic and lodic-lock are liblodic's own calls. The
 * others find the frame by the same translation and count. Then they look whether the frame
 * takes pins for the block, note the visit, and look whether file and service still live. Only
 * the count differs, and each is as cheap as we know how to make it.
 *
 *   lodic       a pte of the context's own, by plain stores; a heavy fence for each batch
 *   lodic-lock  the same by an exchange, for machines without such a fence
 *   hazard      the frame's number in one of eight slots of the context's own. The service
 *               scans all contexts' slots once a batch.
 *   percpu      a word of the CPU's own for each frame, by a restartable sequence. The
 *               service adds them up. It would have to count ups and downs apart if readers
 *               moved; here none does, and the way gets that for nothing.
 *   paygo       core/counter: an entry of the CPU's own table, by restartable sequences
 *   frozen      a word that belongs to the frame, by fetch-and-add
 *   atomic      the same by compare-and-swap, as Linux counts
 *   private     percpu, but nobody looks: the service evicts as if there were no pins. A
 *               pin and an eviction cannot cost less, and it is of no use.
 */
#ifndef LODIC_SIM_CACHE_WAY_H
#define LODIC_SIM_CACHE_WAY_H

#include "sim/cache/world.h"

struct cache_way {
	const char *name;
	u32 scheme;  /* enum arena_scheme */
	u32 barrier; /* enum arena_barrier */
	bool reads_uncounted;
	int (*make)(struct cache_world *w); /* NULL: nothing of its own */
	bool (*pin)(struct cache_reader *r, u64 block, struct cache_pin *ret);
	void (*unpin)(struct cache_reader *r, const struct cache_pin *pin);
	/* For the ways that hide frames in batches, after the heavy fence. NULL: core/cache
	 * does it by itself. scan: once a batch; may be NULL. Both return how many
	 * lines they looked at. */
	u32 (*scan)(struct cache_world *w);
	u32 (*look)(struct cache_world *w, u32 frame, bool *ret_pinned);
};

extern const struct cache_way *const cache_ways[];
extern const u32 cache_nr_ways;
const struct cache_way *cache_way_find(const char *name);

#endif
