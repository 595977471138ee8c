/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The files that the service holds, and what it knows about others. */
#ifndef LODIC_LIB_SERVICE_FILE_STATE_H
#define LODIC_LIB_SERVICE_FILE_STATE_H

#include "core/cache/arena.h"
#include "lib/service/file/direct.h"
#include "lib/service/file/files.h"
#include "lib/service/file/held.h"
#include "lib/service/file/nameless.h"
#include "lib/service/service.h"
#include "lib/service/tier/where.h"
#include "lodic/lodic.h"

/* Second descriptions of files (direct.c): those that workers open, and those that rest. */
#define NR_DIRECT_RESTING 32u
struct direct_opening;
struct direct {
	struct direct_opening *openings;
	u32 nr_resting;
	struct {
		u32 slot;
		u64 since_ns;
	} resting[NR_DIRECT_RESTING];
};

/* Workers look whether files still have names (nameless.c): local ones, and others. */
struct nameless_job;
struct nameless {
	struct nameless_job *jobs[2]; /* NULL: none is under way */
	struct nameless_job
		*heard;     /* that is being made for files that a watch has told of */
	bool due[2];        /* the next slots wait for the job to end */
	u32 at[2], away_at; /* which slot is next */
	u64 hurries_until_ns;
};

struct base;
struct tiers;

enum file_state { FILE_FREE, FILE_HELD, FILE_RETIRING };

/* What the service knows about file slot i; the readers' part is arena.files[i].
 *
 *          admit            retire                     last read comes back
 *   FREE ---------> HELD ------------> RETIRING or FREE -----------------> FREE
 */
struct held_file {
	u32 state; /* enum file_state */
	u32 proof; /* enum proof */
	u32 id;
	u32 next_id;   /* of the file that comes here next; FILE_NONE: none any more */
	int fd;        /* our own description; carries the lease */
	int direct_fd; /* another one, O_DIRECT, while reads need it; -1: none */
	struct direct_opening *opening; /* of that one; NULL: it is not under way */
	bool local;                     /* its file system asks nobody else */
	bool direct; /* reads with O_DIRECT work, as far as we know */
	bool away;   /* on a mount that may go while the service lives */
	bool kept;   /* a user has loaded it: it stays, though no program has it open */
	u32 nr_opens;     /* by clients */
	u32 nr_in_flight; /* reads */
	u32 nr_frames;    /* that hold its blocks */
	u32 nr_fast;      /* of these, in the fast tier */
	struct tier_file where;
	u32 chain; /* the next slot in files.chains; shape.nr_files: none */
	u64 dev, ino, size;
	u64 idle_since_ns; /* while no client has it open */
	u64 gone_round; /* of the sweep, when it was seen to have no name; 0: it has one */
	u64 gone_hits; /* its hits then */
	u64 gone_since_ns;
	u64 hits; /* visits that were collected for its frames: fewer than reads */
	struct file_order order;
};

/* A frame's neighbours in the list of its file, or in that of the orphans. An orphan is a
 * frame whose file has gone and that has not been taken back yet. */
struct frame_link {
	u32 older, newer;
};

struct files {
	struct base *base;
	const struct service_keeping *keeping;
	const struct service_sharing *sharing;
	struct lodic_stat *stat;
	struct arena *arena;
	const struct arena_shape *shape;
	struct tiers *tiers;

	struct held_file *slots;
	u32 *chains; /* of held files, by a hash of their numbers: the first slot */
	u32 nr_held;
	u32 nr_kept;     /* of these: those that a user has loaded */
	u64 held_blocks; /* that these have, cached or not */
	u32 nr_direct;   /* of these: read with O_DIRECT */
	/* Frames, then a sentinel for each file slot, one for the orphans, one for the idle
	 * files, and one for the free slots. Then a link for each file slot: its place among
	 * the idle files, or the free slots. */
	struct frame_link *links;
	u64 nr_orphans;
	u64 orphans_left; /* to look at in this pass */
	u64 sweep_round;  /* counted from 1, by the sweep of visits (frame/sweep.h) */
	struct direct direct;
	struct nameless nameless;
	struct lease_thread *lease;
	struct refused_list *refused;
	struct pauses *pauses;
};

#endif
