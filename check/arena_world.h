/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A tiny arena for the checker, and the oracle beside it: what every block's bytes are, who
 * has pinned what, which frames the service may write, and what the file's writer has done.
 * core/ knows nothing of it; what core/ says is held against it.
 *
 * The world stands in for lib/ too: a reader's read and pin here are those of lib/client/read.c
 * and lib/client/pin.c without their system calls, the service's fill and take those of
 * lib/service/fill.c. The orders that only lib/ can keep have their mutants here.
 *
 * Times. A block belongs to a file id, and a changed file is admitted under another id. So
 * a block's bytes never change, and world_truth() needs no clock.
 */
#ifndef LODIC_CHECK_ARENA_WORLD_H
#define LODIC_CHECK_ARENA_WORLD_H

#include "core/cache/context.h"
#include "check/case.h"

#define WORLD_FRAMES 3u /* frame 0 holds nothing, ever: two blocks */
#define WORLD_FIRST FRAME_FIRST
#define WORLD_SECOND (FRAME_FIRST + 1)
#define WORLD_FILES 1u
#define WORLD_READERS 2u
#define WORLD_HOLDS 3u
/* Words of a block that are written and read: enough to be torn. */
#define WORLD_WORDS 2u
#define WORLD_BYTES (WORLD_WORDS * 8)
/* The file's id, and its id when it is admitted again after a change. */
#define WORLD_FILE 1u
#define WORLD_FILE_AGAIN 2u

/* What a case is made of: a scenario's arg. */
struct arena_case {
	u32 scheme; /* enum arena_scheme */
	u32 nr_readers;
	/* Readers on the walk list from the start; the others join. */
	u32 nr_joined;
};

/* A pin that its reader was told it has. */
struct world_hold {
	u64 block;
	u64 *word;
	u32 frame;
	bool held;
};

struct world_reader {
	struct context context;
	struct context_table table;
	struct world_hold holds[WORLD_HOLDS];
	u32 task;
	u32 place;
	u32 number;
	/* Hints, ever: how far each side of the ring has come. */
	u64 nr_posted, nr_taken;
};

struct world {
	struct arena arena;
	struct file_proof *space;
	u64 alive_value;
	u32 nr_readers;
	u32 first_task;
	struct context_table walk[WORLD_READERS];
	struct world_reader readers[WORLD_READERS];
	/* Two blocks whose entries have the same home, and two more of the same file. */
	u64 a, b, c, d;
	/* The frame is the service's: nobody may have it pinned. */
	bool owned[WORLD_FRAMES];
	/* The reader's process is dead: it holds nothing, its context need not be at rest. */
	bool dead[WORLD_READERS];
	/* The file's writer, its kernel, and the lease. */
	bool break_asked;
	bool lease_given_back;
	bool writer_open;
	bool writer_closed;
	/* The file itself: words that kernel reads and the writer share. By host_*. */
	u64 disk[2][WORLD_WORDS];
	/* The device that fills frames by itself. */
	u32 dma_frame;
	u64 dma_block;
	/* An eventfd. By host_*. */
	u64 wake;
	/* Messages. */
	bool told;
	bool hung_up;
	bool finished;
};

/* The world of the case that runs. Made by world_setup(), kept by the checker. */
extern struct world *world;

/* Both blocks a and b are cached, in frames 1 and 2; nr_joined readers have joined. */
void world_setup(const struct arena_case *c);

/* Word i of block, as it is for ever. */
static inline u64 world_truth(u64 block, u32 i)
{
	return block << 8 | (i + 1);
}

static inline u64 *world_bytes(u32 frame)
{
	return arena_frame_bytes(&world->arena, frame);
}

/* ---- the service's side ---- */

/* world_take(): arena_take(), and the oracle's word on it. true: the frame is owned. */
bool world_take(u32 frame);
/* world_fill(): an owned frame, word by word, then for everybody. */
void world_fill(u32 frame, u64 block);
/* world_refill(): the two in a row, if the frame can be had. */
bool world_refill(u32 frame, u64 block);
void world_join(struct world_reader *r);

/* ---- a reader's side: r's task calls them ---- */

/* lodic_read(): true if the bytes came from the cache; then they were right. home: by the
 * short way. */
bool world_read(struct world_reader *r, u64 block, bool home);
/* lodic_pin(): the hold, or NULL. The short way first, as lib/client/pin.c goes. */
struct world_hold *world_pin(struct world_reader *r, u64 block);
/* Looks at the pinned bytes: they must be what they were. */
void world_look(const struct world_hold *h);
void world_unpin(struct world_reader *r, struct world_hold *h);
/* Pin, look twice, unpin. */
void world_visit(struct world_reader *r, u64 block);

/* ---- after a schedule ---- */

/* Arena and contexts keep their rules. Not for a service that was killed. */
void world_check(void);
/* All pins are given back: every frame can be taken. */
void world_take_all(void);

/* ---- scenarios: one function of each file adds its cases ---- */

void arena_add(struct check_list *list, const char *scenario,
               const struct arena_case *c, u32 nr_cpus, void (*setup)(const void *),
               void (*finish)(const void *), bool deep);
void arena_read_cases(struct check_list *list);
void arena_pin_cases(struct check_list *list);
void arena_lease_cases(struct check_list *list);
void arena_life_cases(struct check_list *list);
void arena_hint_cases(struct check_list *list);

/* ready() functions for check_wait(): arg is a bool that somebody will set. */
bool world_is_set(void *arg);

#endif
