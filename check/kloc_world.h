/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The world in which lodic-check searches core/kloc/: two tiers of a few slots each, two files, and
 * the tasks of a caller. The room itself has one caller at a time, so a lock is around each call.
 * Between two calls much happens at once. Movers copy bytes outside the lock, and end their moves
 * late. Others open, close, unlink, add, remove, pin and lower limits meanwhile.
 *
 * The oracle. A slot holds the serial number of what is in it, and each slot has one owner. So a
 * mover that writes to a slot that another one has got shows as wrong bytes. What the room gives
 * away must be there: a placement or a move that finds no free slot breaks KL2. Each move must be
 * one that the files' opens allow. What was busy must not be asked again in the same tick, unless
 * its file has changed. An open file gives room only if no closed one can. At the end all is where
 * the files' states want it.
 */
#ifndef LODIC_CHECK_KLOC_WORLD_H
#define LODIC_CHECK_KLOC_WORLD_H

#include "check/case.h"
#include "core/kloc/kloc.h"
#include "core/kloc/state.h"

#define KLOC_WORLD_FILES 2u
#define KLOC_WORLD_THINGS 6u
#define KLOC_WORLD_SLOTS 4u
#define KLOC_WORLD_TIERS 2u
#define KLOC_WORLD_CPUS 4u /* of nodes 0, 0, 1, 1 */

/* A scenario's arg. */
struct kloc_case {
	void (*begin)(void); /* files and objects that are there at first */
	void (*tasks)(void);
	enum kloc_policy_id policy;
	u64 slots[KLOC_WORLD_TIERS];
	u32 ping_pong, age_limit;
	bool is_roomy; /* at the end everything can be where it should be */
	bool is_lazy;  /* what is closed leaves fast memory for need alone */
};

struct kloc_slot {
	u64 word; /* by host_* */
	bool is_used;
};

/* An object, as its caller knows it. */
struct kloc_thing {
	bool there, gone, moving;
	u32 nr_pins;
	u32 file; /* KLOC_WORLD_FILES: none */
	u32 kind, tier, nr_moves;
	u32 at[KLOC_WORLD_TIERS]; /* its slots; KLOC_NONE: none there */
	u64 serial;
	/* The last move that came back, and its tick. */
	bool was_busy;
	u32 busy_tick, busy_what, busy_why;
	u64 busy_changes; /* of the file, by then */
};

struct kloc_file {
	u64 inode; /* 0: no file */
	u32 knode, opens, nr_things, flags;
	bool is_unlinked;
	u32 used;  /* the tick of its last use under the lock */
	u32 noted; /* the tick in which its last noted use began */
	bool is_noted;
	bool may_be_noted; /* such a use has begun */
	u64 nr_changes;    /* calls that may ask for other moves */
};

struct kloc_world {
	const struct kloc_case *c;
	u64 lock;
	struct kloc *k;
	struct kloc_slot slots[KLOC_WORLD_TIERS][KLOC_WORLD_SLOTS];
	struct kloc_thing things[KLOC_WORLD_THINGS];
	struct kloc_file files[KLOC_WORLD_FILES];
	u64 next_serial, next_inode, nr_changes;
	u64 limit; /* of tier 0 */
	u64 ends;  /* kloc-note, drawn: the file that does */
};

extern struct kloc_world *kloc_world;

void kloc_world_setup(const void *arg);
void kloc_world_finish(const void *arg);

/* Calls of tasks; each takes the lock. CPUs are those of the case, not the checker's. */
void kloc_world_map(u32 file, u32 flags);
void kloc_world_open(u32 file, u32 cpu);
void kloc_world_close(u32 file, u32 cpu);
void kloc_world_unlink(u32 file);
/* The object's number; KLOC_NONE: there is no room. file KLOC_WORLD_FILES: memory of a program. */
u32 kloc_world_add(u32 file, enum kloc_kind kind, u32 cpu);
void kloc_world_remove(u32 object);
/* Uses the object, and looks at its bytes while it is pinned. It may be gone, or under way. */
void kloc_world_use(u32 object, u32 cpu);
void kloc_world_tick(void);
void kloc_world_limit(u64 slots);
void kloc_world_task_moved(u32 from_cpu, u32 to_cpu);
/* A CPU notes a use in its own list, without the lock, and the room hears of it at a tick. */
void kloc_world_note(u32 file, u32 cpu);
/* Takes a move and carries it out. false: there was none. */
bool kloc_world_move(void);

#endif
