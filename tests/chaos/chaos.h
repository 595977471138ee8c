/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The real thing in chaos: programs read, pin, view, hold and map files that others change.
 * Meanwhile services and programs are killed, stopped, resized and replaced. Each program compares
 * every byte that it gets with what the writers say in shared memory.
 */
#ifndef LODIC_TESTS_CHAOS_CHAOS_H
#define LODIC_TESTS_CHAOS_CHAOS_H

#include "tests/support/holder.h"
#include "tests/support/watched_file.h"

#define CHAOS_WATCHED 4u  /* files that are changed in every way */
#define CHAOS_REPLACED 2u /* files that get new bytes only with a new inode */
#define CHAOS_WATCHERS 3u
#define CHAOS_HOLDERS 3u
#define CHAOS_SHIMS 2u

enum chaos_role {
	ROLE_WATCHER,
	ROLE_HOLDER,
	ROLE_SHIM,
	ROLE_WRITER,
	ROLE_REPLACER,
	NR_ROLES
};
extern const char *const chaos_role_names[NR_ROLES];

/* What the programs under `lodic run` have done. Only program i writes element i. */
struct shim_tally {
	u64 reads;
	u64 maps, served; /* served: mappings of the cache's memory */
	u64 looks;        /* at all bytes of a mapping */
	u64 wrong;
};

/* In a file that all programs map. */
struct chaos_world {
	char lodic[256]; /* the program */
	u64 stop;        /* the writers must end in order */
	u64 changes;
	int stopped; /* the service, while it is stopped */
	struct holder_world holders;
	struct gen_file replaced[CHAOS_REPLACED];
	struct watched_file watched[CHAOS_WATCHED];
	struct watcher_tally tallies[CHAOS_WATCHERS];
	struct holder_life lives[CHAOS_HOLDERS];
	struct shim_tally shims[CHAOS_SHIMS];
};

/* Maps the world's file. It is made first if fresh. */
struct chaos_world *chaos_world_map(const char *path, bool fresh);
/* A program of this role until it is killed; a writer ends when it is told to. birth numbers its
 * random choices. A program under `lodic run` is another main(): see chaos_shim_main(). */
_Noreturn void chaos_run(struct chaos_world *world, enum chaos_role role, u32 number,
                         u64 birth);
/* What `lodic run` starts. */
_Noreturn void chaos_shim_main(struct chaos_world *world, u32 number, u64 birth);

#endif
