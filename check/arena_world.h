/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A tiny arena for the checker, and the oracle beside it. The oracle knows every block's
 * bytes, each reader's pins, which frames the service may write, and what the file's writer
 * has done. core/ knows nothing of the oracle.
 *
 * The world's readers and its service call core/cache/cache.h, as lib/ does. The world stands
 * in for the system calls alone: the file, its writer, the kernel, messages and events.
 *
 * Times. A block belongs to a file id, and the service admits a changed file under another
 * id. So a block's bytes never change, and world_truth() needs no clock.
 */
#ifndef LODIC_CHECK_ARENA_WORLD_H
#define LODIC_CHECK_ARENA_WORLD_H

#include "core/cache/batch.h"
#include "core/cache/cache.h"
#include "core/cache/move.h"
#include "check/case.h"

#define WORLD_FRAMES 4u /* frame 0 holds nothing, ever */
#define WORLD_FIRST FRAME_FIRST
#define WORLD_SECOND (FRAME_FIRST + 1)
#define WORLD_THIRD (FRAME_FIRST + 2) /* the service's own at first: a move's target */
#define WORLD_FILES 2u
#define WORLD_READERS 3u
#define WORLD_HOLDS 3u
#define WORLD_LOOKS 3u /* whose way is drawn */
/* Words of a block that are written and read: enough to be torn. */
#define WORLD_WORDS 2u
#define WORLD_BYTES (WORLD_WORDS * 8)
#define WORLD_NOTHING (~(u64)0) /* what no block has */
_Static_assert(WORLD_BYTES == BLOCK_BYTES, "the checker's blocks are small");
/* The file's id, and its id when it is admitted again after a change; another file's id. */
#define WORLD_FILE 1u
#define WORLD_OTHER 2u
#define WORLD_FILE_AGAIN (WORLD_FILE + WORLD_FILES)
#define WORLD_FILE_BYTES (4 * BLOCK_BYTES)

/* What a case is made of: a scenario's arg. */
struct arena_case {
	u32 scheme; /* enum arena_scheme */
	u32 nr_readers;
	/* Readers on the walk list from the start; the others join. */
	u32 nr_joined;
	u32 barrier; /* enum arena_barrier */
	bool inlined; /* readers go the short ways of lodic/inline.h; scanned gate only */
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
	u32 place; /* on the walk list */
	u32 number;
	bool told; /* it knows where its memory is */
	/* Hints, ever: how far each side of the ring has come. */
	u64 nr_posted, nr_taken;
	u64 nr_thrown; /* copies by cache_read() that were not the block's */
};

struct world {
	struct arena arena;
	struct file_proof *space;
	u64 alive_value;
	bool inlined;
	u32 nr_readers;
	u32 first_task;
	struct context_table walk[WORLD_READERS];
	struct batch batches[2]; /* [0] for world_take() */
	struct world_reader readers[WORLD_READERS];
	/* a and b have one home, as entries and in the translation; c and d have another.
	 * next comes after a in the file. twin has a's home and a's tag in a pte. alias, of
	 * the other file, has the home and the tag of aliased in the translation. */
	u64 a, b, c, d, next, twin, alias, aliased;
	/* The frame is the service's: nobody may have it pinned. */
	bool owned[WORLD_FRAMES];
	/* The reader's process is dead: it holds nothing, its context need not be at rest. */
	bool dead[WORLD_READERS];
	/* The file's writer, its kernel, and the lease. */
	bool break_asked;
	bool lease_given_back;
	bool writer_open;
	bool writer_closed;
	bool lease_held;
	u64 leases_lock;    /* 0: free. By host_*. */
	bool lease_entered; /* the lease thread finds it; under the lock */
	/* The file itself, blocks c and next: words that the kernel reads and the writer
	 * writes. By host_*. */
	u64 disk[2][WORLD_WORDS];
	u64 disk_size;
	/* The thread that makes the heavy fence, by its own time. */
	bool fence_asked, fence_done;
	/* The device that fills frames by itself. */
	u32 dma_frame;
	u64 dma_block;
	/* An eventfd. By host_*. */
	u64 wake;
	/* Messages. */
	bool hung_up;
	bool finished;
	u64 short_looks; /* drawn: a bit for each look, by the short way */
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

/* Has any reader, that lives, been told that it has frame pinned? */
bool world_is_held(u32 frame);
/* Does the translation lead to frame as block? */
bool world_leads(u64 block, u32 frame);

/* ---- the service's side ---- */

/* world_take(): takes a frame at once, and the oracle's word on it. true: it is owned. */
bool world_take(u32 frame);
/* batch_next(), and the oracle's word on it. */
enum batch_end world_next(struct batch *b, u32 *ret_frame);
/* world_fill(): an owned frame, word by word, then for everybody. */
void world_fill(u32 frame, u64 block);
/* The two ends of a fill whose bytes come by another way. world_fill_end() is false when the
 * file's proof has gone; then the frame stays owned. */
void world_fill_begin(u32 frame, u64 block);
bool world_fill_end(u32 frame, u64 block);
/* The bytes between them. */
void world_write(u32 frame, u64 block);
/* world_refill(): take and fill in a row, if the frame can be taken. */
bool world_refill(u32 frame, u64 block);
/* cache_join(): r's reader is told, and told only then. */
void world_join(struct world_reader *r);
/* r's process is dead or (closed) has given its memory back. Nobody may look at that memory
 * afterwards. */
void world_leave(struct world_reader *r, bool closed);

/* ---- a reader's side: r's task calls them ---- */

/* In setup: each schedule draws which looks of a reader go the short way. */
void world_draw_ways(void);
/* Does r's look with this number, from 0 on, go so? */
bool world_is_short(const struct world_reader *r, u32 look);

/* Has a writer the file open? If so, the caller knows what happened before. */
bool world_writer_came(void);

/* lodic_read() of one block: true if the bytes came from the cache; then they were right.
 * home: by the short way. */
bool world_read(struct world_reader *r, u64 block, bool home);
/* The same by the way that was drawn for this look. */
bool world_read_drawn(struct world_reader *r, u64 block, u32 look);
/* lodic_pin(): the hold, or NULL. It goes the short way first, as lib/client/pin.c does. */
struct world_hold *world_pin(struct world_reader *r, u64 block);
/* The same where there must be no room for it: why. */
int world_refused(struct world_reader *r, u64 block);
/* Looks at the pinned bytes: they must be what they were. */
void world_look(const struct world_hold *h);
void world_unpin(struct world_reader *r, struct world_hold *h);
/* Pin, look twice, unpin. */
void world_visit(struct world_reader *r, u64 block);

/* ---- after a schedule ---- */

/* Arena and contexts keep their rules, and each cached frame has its block's bytes. Not for a
 * service that was killed. */
void world_check(void);
/* All pins are given back: every frame can be taken. */
void world_take_all(void);

/* All pins of r are given back. */
void world_check_unpinned(const struct world_reader *r);

/* ---- scenarios: one function of each file adds its cases ---- */

void arena_add(struct check_list *list, const char *scenario,
               const struct arena_case *c, u32 nr_cpus, void (*setup)(const void *),
               void (*finish)(const void *), bool deep);
void arena_read_cases(struct check_list *list);
void arena_view_cases(struct check_list *list);
void arena_pin_cases(struct check_list *list);
void arena_batch_cases(struct check_list *list);
void arena_lease_cases(struct check_list *list);
void arena_life_cases(struct check_list *list);
void arena_hint_cases(struct check_list *list);
void arena_move_cases(struct check_list *list);
void arena_full_cases(struct check_list *list);

/* A ready() function for check_wait(): arg is a bool that another task will set. */
bool world_is_set(void *arg);

#endif
