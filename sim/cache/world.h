/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * liblodic's cache on the simulated machine: an arena, readers with a context each, and the
 * service. The text is core/cache, as it ships. Ways of counting that do not ship stand
 * beside it over the same arena, translation and checks (way.h).
 *
 *   read   find the block, copy its 4 KiB. lodic copies and looks again; the others count
 *          around the copy, as a cache must that has a counter alone.
 *   pin    pin a block, compute with it for a while, unpin it
 *   pair   pin and unpin one block, with nothing between
 *   evict  pins as above, while the service evicts and fills as fast as a device could
 *
 * Readers of read and pin ask for one hot block, or for all blocks by Zipf's law. Before the
 * window each of them has come by all blocks, so nothing is cold.
 *
 * Readers of evict pin the hot half of the blocks by Zipf's law. The other half is what the
 * service filled last. One pin in CACHE_COLD_PINS wants a block that nobody has read yet. Its
 * reader pays for a read from the kernel and posts a hint. The service evicts a batch of
 * frames, and fills them with what was hinted or else with new blocks, 250,000 a second at
 * most. It has the machine's last CPU for itself. If readers want that one too, there is one
 * reader fewer.
 */
#ifndef LODIC_SIM_CACHE_WORLD_H
#define LODIC_SIM_CACHE_WORLD_H

#include "core/cache/batch.h"
#include "core/cache/cache.h"
#include "core/cache/reclaim.h"
#include "core/counter/counter.h"
#include "host/sim/sim.h"

#define CACHE_LINE 64u
/* The exponent of the papers' key-value stores (LODIC s.3). */
#define CACHE_ZIPF 0.98
/* Ours: few enough that a miss in them hardly slows a reader down. */
#define CACHE_COLD_PINS 1024u
#define CACHE_MOST_BATCH 512u

enum cache_what { CACHE_READ, CACHE_PIN, CACHE_PAIR, CACHE_EVICT, CACHE_NR_WHATS };
const char *cache_what_name(enum cache_what what);

struct cache_way;

struct cache_setup {
	const struct cache_way *way;
	enum cache_what what;
	u32 nr_readers; /* on CPUs 0, 1, ... */
	u32 nr_blocks;  /* that are cached */
	u32 work;       /* cycles that a reader computes with a block it has pinned */
	u32 batch; /* evict: frames that share a heavy fence; 0: the service sleeps */
};

/* A pin that its reader holds. */
struct cache_pin {
	u32 frame;
	u64 *word; /* what the pin is counted in */
	u64 token; /* paygo's */
};

struct cache_reader {
	struct context context;
	struct cache_world *world;
	u8 *buffer;
	u64 random;
	u32 number, place;
	u64 nr_missed;
};

/* What the service did in a run. */
struct cache_service {
	u64 nr_turns, nr_taken, nr_refused, nr_looks, nr_filled_hints;
	u64 choose_ns, fence_ns, walk_ns, fill_ns;
	u64 lines; /* of contexts, CPUs or counters that it looked at for pins, at most */
};

struct cache_world {
	const struct cache_setup *setup;
	struct arena arena;
	struct context_table walk[ARENA_MAX_CONTEXTS];
	struct cache_file file;
	struct cache_reader *readers;
	u64 *popular; /* thresholds of Zipf's law, over nr_wanted blocks */
	u32 *order;   /* the block of each rank */
	u32 nr_wanted;
	u32 passes;
	/* A way's own. */
	u64 *words;
	u64 stride; /* words from one CPU or context to the next */
	struct counter_domain domain;
	u8 *pinned; /* hazard: frames that the last scan has seen */
	/* The service's own. */
	struct reclaim reclaim;
	struct reclaim_ops ops;
	struct batch batch;
	struct walk_list list;
	struct cache_service service;
	u64 begin_ns, end_ns; /* of the run */
	u64 least_ns; /* the service lets the run go on so long, and for one turn */
	bool over;    /* all tasks return */
	u32 nr_victims, nr_free, nr_hints;
	u32 victims[CACHE_MOST_BATCH];
	u32 free[CACHE_MOST_BATCH];
	u64 hints[CACHE_MOST_BATCH];
	u32 next_block;     /* nobody has read it yet */
	u8 *service_buffer; /* where what it fills comes from */
};

/* In a world that sim_begin() has begun. -ENOMEM. cache_world_free() gives back what is not
 * the simulated machine's memory, also after an error. */
int cache_world_make(struct cache_world *w, const struct cache_setup *setup, u64 seed);
void cache_world_free(struct cache_world *w);

/* Tasks: a pass over all blocks, operations until the end, the service's turns. */
void cache_reader_pass(void *reader);
void cache_reader_run(void *reader);
void cache_service_run(void *world);
/* Before the service's first turn. -ENOMEM. */
int cache_service_make(struct cache_world *w);

/* Fills frame, which is nobody's, with block of the one file. */
void cache_world_fill(struct cache_world *w, u32 frame, u32 block);

static inline u64 cache_block(const struct cache_world *w, u32 index)
{
	return block_id(w->file.id, index);
}

#endif
