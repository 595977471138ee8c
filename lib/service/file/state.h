/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The files that the service holds, and what it knows about others. */
#ifndef LODIC_LIB_SERVICE_FILE_STATE_H
#define LODIC_LIB_SERVICE_FILE_STATE_H

#include "core/cache/arena.h"
#include "lib/service/file/direct.h"
#include "lib/service/file/files.h"
#include "lib/service/file/nameless.h"
#include "lib/service/service.h"
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

/* A frame's neighbours in the list of its file, or in that of the orphans. An orphan is a
 * frame whose file has gone and that has not been taken back yet. */
struct frame_link {
	u32 older, newer;
};

struct files {
	struct base *base;
	const struct service_options *options;
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
