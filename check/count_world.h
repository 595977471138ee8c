/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The world in which lodic-check searches counting schemes: three frames and a few users.
 * An oracle outside core knows which user really holds what.
 *
 * The oracle's sets change by plain accesses. It counts a reference from the moment that
 * count_ref() has returned it until count_unref() is called. In that time the frame's bytes
 * must stand still. A task that freezes a frame poisons its bytes until it has filled them
 * anew. So a reader that the scheme forgot shows as a use after free.
 *
 * The oracle also notes what must be true after a call that takes a mapping away. At the
 * end of an unmap, an unshare or a munmap, no pte may lead to the frame. The same must hold
 * at the end of the schedule, unless the same user mapped something meanwhile.
 */
#ifndef LODIC_CHECK_COUNT_WORLD_H
#define LODIC_CHECK_COUNT_WORLD_H

#include "core/count/paygo_table.h"
#include "core/owned/count_owned.h"
#include "check/case.h"

#define WORLD_FRAMES 3u
/* Four of them share from the start, so that the owned gate counts in ptes. */
#define WORLD_USERS 5u
#define WORLD_SHARERS 4u
#define WORLD_BYTES_WORDS 2u
#define WORLD_FILE 3u
#define WORLD_HELD 160u

/* Which scheme, and how the scenario's tasks are placed; a scenario's arg. */
struct count_case {
	const struct count_scheme *scheme;
	u32 nr_readers;
	bool one_user; /* all readers are threads of one user */
	bool one_cpu;  /* and run on one CPU */
	bool deep;     /* as in struct check_case */
	u32 ways;      /* of a scheme's table; 0: as it comes */
	bool lazy; /* its entries come only where a cas fails, and stay for a tick */
};

struct count_world {
	struct count count;
	struct frame frames[WORLD_FRAMES];
	u64 bytes[WORLD_FRAMES][8];
	const struct count_case *c;
	/* The oracle; plain. */
	struct count_held held[WORLD_HELD];
	bool is_held[WORLD_HELD];
	bool is_held_since[WORLD_HELD]; /* all the time since a query began */
	u32 nr_on[WORLD_FRAMES];        /* references that are certainly held */
	bool owned[WORLD_FRAMES];       /* frozen, as its freezer was told */
	u32 frozen_under; /* references that were held when a frame was frozen */
	u64 pages[WORLD_USERS];
	u32 nr_mapping[WORLD_USERS]; /* calls under way that map something for a user */
	u32 nr_mapped[WORLD_USERS];  /* such calls that have begun */
	bool gone[WORLD_USERS][WORLD_FRAMES]; /* unmapped, and not mapped since */
	bool left[WORLD_USERS];               /* no mapping at all since */
	bool freezing, owned_once;            /* `epochs`: a clock tries to; one did */
	u64 late_first; /* `truncate`, drawn: readers begin with the block that comes late */
};

extern struct count_world *counted;

/* Makes it: frame f holds block f of WORLD_FILE, live, shared by WORLD_SHARERS users; by
 * the users from first to end - 1 (in the other). */
void count_world_setup(const struct count_case *c);
void count_world_setup_shared(const struct count_case *c, u32 first, u32 end);

/* The scheme's table of entries; only for schemes that have one. */
struct paygo_table *count_world_table(void);

/* What is still held must be counted as its tokens say. Once it is given back, sums must be
 * 0, invariants must hold, and every frame can be frozen. */
void count_world_finish(const void *arg);

/* A reference of user's, noted by the oracle; false: refused. ret_i for drop. */
bool count_world_ref(u32 frame, u32 user, u32 *ret_i);
void count_world_unref(u32 i);

/* In a setup: user takes nr references of frame, or as many as it can have, and gives back
 * all but keep of them. */
void count_world_hoard(u32 frame, u32 user, u32 nr, u32 keep);

/* Uses the frame that reference i holds. Its bytes must be those of its name. What a holder
 * writes must be in memory before another task has the frame (N2). */
void count_world_look(u32 i);

/* Tries to freeze; true: it is the caller's, its bytes are poisoned. */
bool count_world_freeze(u32 frame);
/* Fills a frame that is the caller's with block index, and lets users in again. */
void count_world_refill(u32 frame, u32 index);
/* Both for frame 0, which a few tries may find free; false: none of them did. */
bool count_world_reclaim(u32 index);

/* Asks the scheme, and the oracle whether the answer can be true (N4). */
void count_world_query(u32 frame);

/* count_share() and count_unshare(), noted by the oracle. */
int count_world_share(u32 user, u32 frame);
void count_world_unshare(u32 user, u32 frame);

/* Whether a pte of user's leads to frame; by plain accesses. */
bool count_world_is_mapped(u32 user, u32 frame);
/* For schemes with ptes: count_owned_unmap_frame(), and count_owned_munmap() of a user's
 * first mapping. The others map something: begin and end stand around such a call. */
void count_world_unmap_frame(u32 frame);
void count_world_leave(u32 user, u64 page);
void count_world_map_begin(u32 user);
void count_world_map_end(u32 user);

/* A tick on every CPU, for schemes that have them: one task for each CPU. */
void count_world_ticks(void);

/* One case per scheme, named for it. */
void count_world_add(struct check_list *list, const char *scenario,
                     const struct count_scheme *scheme, const struct count_case *like,
                     u32 nr_cpus, void (*setup)(const void *));

#endif
