/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The reading workload behind most figures. Threads of processes look a block up, take a
 * reference, copy, and return the reference, on the simulated machine. The figures
 * differ in the number of blocks, in how blocks are chosen, in how threads sit on CPUs,
 * and in what disturbs them.
 */
#ifndef LODIC_SIM_FIGURES_FIG_READ_H
#define LODIC_SIM_FIGURES_FIG_READ_H

#include "core/count/count.h"
#include "sim/figures/fig.h"

enum fig_access { FIG_ONE, FIG_SEQUENTIAL, FIG_UNIFORM, FIG_ZIPF };

struct fig_read {
	const struct count_scheme *scheme;
	u32 nr_objects; /* blocks */
	u32 nr_files;   /* 0 means 1; the blocks are spread over them evenly */
	u32 nr_users;
	u32 threads_per_user; /* 0 means 1 */
	u32 nr_threads; /* 0: nr_users * threads_per_user; the last user may have fewer */
	u32 nr_idle_users; /* they share the blocks, and read nothing */
	bool scatter;      /* a process's threads go to different sockets */
	enum fig_access access;
	bool from_start; /* FIG_SEQUENTIAL: all begin at block 0, not each at its own */
	u32 copy_bytes;
	u32 request_work;      /* cycles of one request around its read */
	bool no_space_lock;    /* as in Linux 6.12: sim/kernel.h */
	bool caches;           /* have the machine's sizes */
	bool file_lock; /* a read takes its file's rw lock for reading, as XFS does */
	u32 nr_maps_above;     /* other mapped ranges in front of the block's (lodic) */
	bool not_shared;       /* nobody maps the blocks: lodic counts globally */
	u32 split_per_million; /* references that another CPU returns */
	u32 table_entries;     /* of a CPU's table; 0: as many as the scheme says */
	bool table_eager;      /* an entry at once, not only where a cas has failed */
	u64 drain_ns;   /* all CPUs at once fold their tables so often; 0: never */
	u32 nr_mappers; /* processes that map and unmap one more block, over and over */
	u64 mapper_sleep_ns;
	bool mapper_touches; /* and so becomes one that shares the block (lodic) */
	bool by_word; /* lines have names, for fig_read_result.all: it takes time */
	u64 tick_ns;  /* 0: 1 ms; for schemes with epochs */
	u64 warm_ns, window_ns;
};

struct fig_read_result {
	double mops;
	double transfers_per_op;
	double held_ns; /* mean time between a ref's return and its unref's call */
	u64 nr_failed;  /* refs refused; 0 unless a task freezes */
	/* References of the window that were returned on the CPU they were taken on, and
	 * on another one. */
	u64 nr_home, nr_away;
	/* How many of them were counted in an entry of a CPU's table. */
	u64 nr_entry_home, nr_entry_away;
	struct sim_result all; /* the names of lines: fig_reading_name() */
};

/* Runs it in a new world, and once more for longer if a thread had too few turns on
 * average. 0 or -errno. */
int fig_read_run(const struct sim_machine *machine, u64 seed,
                 const struct fig_read *setup, struct fig_read_result *ret_result);

/* A world of named, live blocks in simulated memory. The other workloads use it too. */
struct fig_world {
	struct count count;
	struct frame *frames;
	u64 *slots; /* the page cache's tree, its lowest level: frame + 1 */
	u64 *root;  /* and its top */
	u8 *data;
	u64 data_stride;
	bool counts_in_frame; /* drbh_counts_in_frame() */
};

/* Call it after sim_begin(). The blocks are live; no user has shared one. -errno. */
int fig_world_make(struct fig_world *world, const struct count_scheme *scheme,
                   u32 nr_objects, u32 nr_files, u32 nr_users, u32 copy_bytes);

/* User shares objects [0, nr). -errno. */
int fig_world_share(struct fig_world *world, u32 user, u32 nr);

/* Puts nr ranges of another file above what user maps next. -errno. */
int fig_world_map_above(struct fig_world *world, u32 user, u32 nr);

#endif
