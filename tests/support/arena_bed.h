/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A small arena with three contexts, in one thread. Block i of its only file is full of bytes
 * i + 1. What a call asserts, it asserts as a cmocka test does. */
#ifndef LODIC_TESTS_SUPPORT_ARENA_BED_H
#define LODIC_TESTS_SUPPORT_ARENA_BED_H

#include "core/cache/batch.h"
#include "core/cache/cache.h"

#define BED_FILE 3u
#define BED_FRAMES 32u
#define BED_CONTEXTS 3u
#define BED_ALIVE 9u

struct arena_bed {
	struct arena arena;
	struct context contexts[BED_CONTEXTS];
	u32 places[BED_CONTEXTS];
	void *memory[BED_CONTEXTS + 3];
	struct batch batch;
};

struct arena_bed *bed_make_fenced(u32 scheme, u32 barrier);
/* With ARENA_BARRIER_LOCK. */
struct arena_bed *bed_make(u32 scheme);
/* Checks the arena, then frees it. */
void bed_free(struct arena_bed *bed);

/* Calls test with an arena of each scheme, with one fence and with the other. */
void bed_for_each_scheme(void (*test)(struct arena_bed *bed));

/* The name of the file's block with that index. */
u64 bed_block(u32 index);
void bed_fill(struct arena_bed *bed, u32 frame, u32 index);
/* Does the reader find the block, and the service vouch for it? The byte must be right. */
bool bed_reads(struct arena_bed *bed, u32 reader, u32 index);
/* The reader pins a cached block; the result is for cache_unpin(). */
u64 *bed_pin(struct arena_bed *bed, u32 reader, u32 index);
/* Takes frame, as the arena's scheme does it. false: it is pinned. */
bool bed_takes(struct arena_bed *bed, u32 frame);

#endif
